"""A transport for controllers under test that does something before it passes a request on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from drakit.client.transport import Request, Response, Transport, WatchStream


class Between:
    def __init__(self, inner: Transport, before: Callable[[Request], Awaitable[None]]) -> None:
        self._inner, self._before = inner, before

    async def request(self, request: Request) -> Response:
        await self._before(request)
        return await self._inner.request(request)

    def watch(self, request: Request) -> WatchStream:
        return self._inner.watch(request)

    async def close(self) -> None:
        await self._inner.close()


async def nothing(request: Request) -> None:
    pass
