"""A transport that misbehaves as networks and servers do: refusals, lost answers, conflicts, watches that break, repeat and forget."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

from drakit.api.errors import StatusError
from drakit.client.transport import Request, Response, Transport, WatchItem


class Chaos:
    """What may go wrong, with which probability; `calm()` ends it all."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.active = True
        self.faults = 0

    def calm(self) -> None:
        self.active = False

    def strikes(self, probability: float) -> bool:
        if self.active and self.rng.random() < probability:
            self.faults += 1
            return True
        return False

    def wrap(self, transport: Transport) -> Transport:
        return ChaosTransport(transport, self)


class ChaosTransport:
    def __init__(self, inner: Transport, chaos: Chaos) -> None:
        self._inner, self._chaos = inner, chaos

    async def request(self, request: Request) -> Response:
        chaos = self._chaos
        if chaos.strikes(0.04):
            raise StatusError.unavailable("chaos: refused")
        if request.method in ("PUT", "PATCH") and chaos.strikes(0.03):
            raise StatusError.modified(request.group, request.plural, request.name)
        response = await self._inner.request(request)
        if chaos.strikes(0.04):
            raise StatusError.timeout("chaos: the answer got lost")  # although it was done
        return response

    async def watch(self, request: Request) -> AsyncIterator[WatchItem]:
        chaos = self._chaos
        stream = self._inner.watch(request)
        try:
            async for item in stream:
                if chaos.strikes(0.02):  # this event is lost; the list that must follow makes up for it
                    raise StatusError.gone("chaos: history is gone")
                yield item
                if chaos.strikes(0.03):
                    yield item  # twice
                if chaos.strikes(0.03):
                    return
                if chaos.strikes(0.03):
                    raise StatusError.gone("chaos: history is gone")
        finally:
            await stream.aclose()

    async def close(self) -> None:
        await self._inner.close()


class Mortal:
    """Lets so many writes through, then nothing more: the process is as good as dead."""

    def __init__(self, writes: int) -> None:
        self.left = writes

    def wrap(self, inner: Transport) -> Transport:
        return _MortalTransport(inner, Chaos(0), self)


class _MortalTransport(ChaosTransport):
    def __init__(self, inner: Transport, calm: Chaos, life: Mortal) -> None:
        super().__init__(inner, calm)
        self._life = life

    async def request(self, request: Request) -> Response:
        if request.method != "GET" and request.plural != "events":
            self._life.left -= 1
        if self._life.left < 0:
            raise StatusError.unavailable("dead")
        return await self._inner.request(request)
