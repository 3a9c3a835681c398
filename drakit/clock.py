"""Time as a value that is passed in: components that wait or stamp take a Clock, so tests and simulation run on virtual time."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """Wall-clock time, UTC."""

    def monotonic(self) -> float:
        """Seconds that only grow; for durations and deadlines."""

    async def sleep(self, seconds: float) -> None:
        """Wait; virtual clocks return when their time gets there."""


def later(moment: datetime, seconds: float) -> datetime:
    """So many seconds after it: users may write any number, the calendar ends with the year 9999."""
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class VirtualClock:
    """Stands still until `advance`; sleepers wake in order of their time."""

    def __init__(self, start: datetime | None = None) -> None:
        self._start = start or datetime(2026, 1, 1, tzinfo=UTC)
        self._elapsed = 0.0
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._sleepers, (self._elapsed + seconds, next(self._order), future))
        await future

    async def advance(self, seconds: float) -> None:
        """Move time on, waking each sleeper at its own moment and letting it run before the next."""
        end = self._elapsed + seconds
        while self._sleepers and self._sleepers[0][0] <= end:
            at, _, future = heappop(self._sleepers)
            self._elapsed = at
            if not future.done():
                future.set_result(None)
            for _ in range(10):  # let what the sleeper started settle
                await asyncio.sleep(0)
        self._elapsed = end
        await asyncio.sleep(0)
