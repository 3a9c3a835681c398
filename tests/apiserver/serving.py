"""Servers for tests: in this process, or in a thread of their own for clients that block."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import ssl
import tempfile
import threading
import urllib.request
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from drakit.api.kind import NoExpressions
from drakit.apiserver.auth import ADMIN
from drakit.apiserver.kubeconfig import write_kubeconfig
from drakit.apiserver.local import LocalTransport
from drakit.apiserver.server import Server, Settings
from drakit.client.transport import Request, Response
from drakit.clock import Clock

T = TypeVar("T")
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


def claim(name: str, **metadata: Any) -> dict[str, Any]:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, **metadata},
        "spec": {"devices": {"requests": [request]}},
    }


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


@asynccontextmanager
async def local_server(*, clock: Clock | None = None, **settings: Any) -> AsyncIterator[Local]:
    server = Server(Settings(listen=False, **settings), expressions=NoExpressions(), clock=clock)
    await server.start()
    try:
        yield Local(server)
    finally:
        await server.stop()


class Local:
    """Short forms of the in-process door for tests."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.transport = LocalTransport(server, ADMIN, agent="test")

    async def request(self, method: Any, plural: str = "resourceclaims", name: str = "", **more: Any) -> Response:
        group = more.pop("group", "resource.k8s.io")
        namespace = more.pop("namespace", "default")
        return await self.transport.request(Request(method, group, "v1", plural, namespace, name, **more))

    async def create(self, obj: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = (await self.request("POST", body=obj)).body
        return found

    async def patch(self, name: str, body: Any, *, kind: str = "merge-patch+json", **more: Any) -> dict[str, Any]:
        answer = await self.request("PATCH", name=name, body=body, content_type=f"application/{kind}", **more)
        found: dict[str, Any] = answer.body
        return found


@dataclass
class Running:
    """A server in another thread."""

    server: Server
    kubeconfig: Path
    call: Callable[[Callable[[], T]], T]  # run a function in the server's loop

    @property
    def url(self) -> str:
        return self.server.url

    def context(self) -> ssl.SSLContext:
        cluster = json.loads(self.kubeconfig.read_text())["clusters"][0]["cluster"]
        return ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())

    def http(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """One request; the body is JSON unless it is bytes."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = {
            "Authorization": f"Bearer {self.server.admin_token}",
            "Content-Type": "application/json",
            **(headers or {}),
        }
        request = urllib.request.Request(self.url + path, data, sent, method=method)
        try:
            with urllib.request.urlopen(request, context=self.context(), timeout=20) as answer:
                return answer.status, dict(answer.headers), answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, dict(error.headers), error.read()

    def json(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        code, _, data = self.http(method, path, body, headers)
        return code, json.loads(data)


@contextmanager
def running_server(
    *, background: Callable[[Server], list[asyncio.Task[Any]]] | None = None, **settings: Any
) -> Iterator[Running]:
    """A server in a thread of its own; `background` starts what shall run beside it."""
    ready = threading.Event()
    state: dict[str, Any] = {}

    async def serve(path: Path) -> None:
        server = Server(Settings(**settings))
        await server.start()
        write_kubeconfig(path, server.kubeconfig())
        stop = asyncio.Event()
        tasks = background(server) if background else []
        state.update(server=server, loop=asyncio.get_running_loop(), stop=stop)
        ready.set()
        await stop.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.stop()
        await asyncio.sleep(0.1)  # TLS says goodbye in steps of its own: let them end with the loop still there

    def main(path: Path) -> None:
        try:
            asyncio.run(serve(path))
        except BaseException as error:
            state["error"] = error
            ready.set()
            raise

    def call(function: Callable[[], Any]) -> Any:
        async def wrapped() -> Any:
            return function()

        return asyncio.run_coroutine_threadsafe(wrapped(), state["loop"]).result(10)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kubeconfig"
        thread = threading.Thread(target=main, args=(path,), daemon=True)
        thread.start()
        ready.wait(30)
        if "error" in state:
            raise RuntimeError("the server did not start") from state["error"]
        try:
            yield Running(state["server"], path, call)
        finally:
            state["loop"].call_soon_threadsafe(state["stop"].set)
            thread.join(60)
            assert not thread.is_alive(), "the server did not stop"
            with warnings.catch_warnings():
                # What clients of a test left open is theirs; it must not fail whichever test comes next.
                warnings.simplefilter("ignore", ResourceWarning)
                gc.collect()
