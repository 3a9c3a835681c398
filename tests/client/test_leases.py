import asyncio
from collections.abc import Awaitable, Callable

import pytest

from drakit.api.errors import StatusError
from drakit.apiserver.auth import ADMIN
from drakit.apiserver.local import LocalTransport
from drakit.apiserver.server import Server, Settings
from drakit.client import Client, LeaseLost, Request, Response, lead
from drakit.clock import VirtualClock


class Cut(LocalTransport):
    """A connection that can be cut."""

    down = False

    async def request(self, request: Request) -> Response:
        if self.down:
            raise StatusError.unavailable("cut")
        return await super().request(request)


class Candidates:
    def __init__(self, server: Server, clock: VirtualClock) -> None:
        self.server, self.clock = server, clock
        self.working: list[str] = []
        self.transports: dict[str, Cut] = {}

    def stand(self, name: str) -> asyncio.Task[None]:
        transport = self.transports[name] = Cut(self.server, ADMIN)

        async def work() -> None:
            self.working.append(name)
            try:
                await asyncio.Event().wait()
            finally:
                self.working.remove(name)

        return asyncio.ensure_future(
            lead(Client(transport), work, name="l", namespace="default", identity=name, clock=self.clock)
        )


def story(body: Callable[[Candidates], Awaitable[None]]) -> None:
    async def run() -> None:
        clock = VirtualClock()
        server = Server(Settings(listen=False), clock=clock)
        await server.start()
        try:
            await body(Candidates(server, clock))
        finally:
            await server.stop()

    asyncio.run(run())


async def stop(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_one_works_and_the_other_waits() -> None:
    async def body(candidates: Candidates) -> None:
        first = candidates.stand("a")
        await candidates.clock.advance(1)
        second = candidates.stand("b")
        for _ in range(30):
            await candidates.clock.advance(2)
            assert candidates.working == ["a"]
        await stop(first, second)

    story(body)


def test_released_lease_is_taken_at_once() -> None:
    async def body(candidates: Candidates) -> None:
        first = candidates.stand("a")
        await candidates.clock.advance(1)
        second = candidates.stand("b")
        await candidates.clock.advance(3)
        await stop(first)
        await candidates.clock.advance(3)
        assert candidates.working == ["b"]
        await stop(second)

    story(body)


def test_cut_off_holder_stops_before_the_other_starts() -> None:
    async def body(candidates: Candidates) -> None:
        first = candidates.stand("a")
        await candidates.clock.advance(1)
        second = candidates.stand("b")
        await candidates.clock.advance(3)
        candidates.transports["a"].down = True
        seen: list[tuple[str, ...]] = []
        for _ in range(30):
            await candidates.clock.advance(1)
            if not seen or seen[-1] != tuple(candidates.working):
                seen.append(tuple(candidates.working))
        assert seen == [("a",), (), ("b",)]
        with pytest.raises(LeaseLost, match="default/l"):
            await first
        await stop(second)

    story(body)
