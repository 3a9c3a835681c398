"""A real server over HTTPS, and a client that can be anybody."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from drakit.apiserver.auth import UserInfo
from drakit.apiserver.server import Server, Settings

TOKENS = {
    "alice-token": UserInfo("alice"),
    "bob-token": UserInfo("bob"),
    "node-a-token": UserInfo("system:node:a", ("system:nodes",)),
}


class Web:
    """Requests to a running server."""

    def __init__(self, server: Server, session: aiohttp.ClientSession, tls: ssl.SSLContext) -> None:
        self.server = server
        self.session = session
        self.tls = tls

    async def __call__(
        self, method: str, path: str, body: Any = None, *, token: str = "", **headers: str
    ) -> tuple[int, Any]:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token != "-":
            sent["Authorization"] = f"Bearer {token or self.server.admin_token}"
        if method == "PATCH":
            sent["Content-Type"] = "application/merge-patch+json"
        async with self.session.request(
            method, self.server.url + path, json=body, headers=sent, ssl=self.tls
        ) as answer:
            return answer.status, await answer.json(content_type=None)


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[Web]:
    server = Server(settings)
    await server.start()
    tls = ssl.create_default_context(cadata=server._credentials.ca.decode())
    try:
        async with aiohttp.ClientSession() as session:
            yield Web(server, session, tls)
    finally:
        await server.stop()


@pytest.fixture
def on_server(tmp_path: Path) -> Callable[..., None]:
    """Runs a coroutine function with a Web."""

    def run(work: Callable[[Web], Coroutine[Any, Any, None]], **settings: Any) -> None:
        async def main() -> None:
            async with running(Settings(tokens=TOKENS, **settings)) as web:
                await work(web)

        asyncio.run(main())

    return run
