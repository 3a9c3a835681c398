"""A work queue of keys: each is in it once, handled by one worker at a time, retried with exponential delay.

The same contract as client-go's workqueue: a key added while it is being handled comes again afterwards, so no change is missed and no
key is handled twice at once. Delays run on a Clock.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

from drakit.clock import Clock, SystemClock

__all__ = ["WorkQueue"]

K = TypeVar("K", bound=Hashable)

_BASE_DELAY = 0.005
_MAX_DELAY = 1000.0
_SUPERSEDED = 64  # entries whose key is due earlier, kept until they outnumber the others


class WorkQueue(Generic[K]):
    def __init__(
        self,
        clock: Clock | None = None,
        *,
        name: str = "",
        base_delay: float = _BASE_DELAY,
        max_delay: float = _MAX_DELAY,
    ) -> None:
        self.name = name
        self.adds = 0  # these three are upstream's workqueue metrics
        self.retries = 0
        self.handled = 0
        self._clock = clock or SystemClock()
        self._base_delay, self._max_delay = base_delay, max_delay
        self._ready: deque[K] = deque()
        self._waiting: set[K] = set()  # in `_ready`, or to be put there when its worker is done
        self._in_progress: set[K] = set()
        self._failures: dict[K, int] = {}
        self._delayed: list[tuple[float, int, K]] = []
        self._due: dict[K, float] = {}  # the earliest delayed add of a key; later ones are dropped
        self._order = count()
        self._getters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.Task[None] | None = None
        self._timer_due = 0.0

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def idle(self) -> bool:
        """Nothing ready, nothing in progress; delayed keys do not count."""
        return not self._ready and not self._in_progress

    def add(self, key: K) -> None:
        if key in self._waiting:
            return
        self.adds += 1
        self._waiting.add(key)
        if key not in self._in_progress:
            self._ready.append(key)
            self._wake()

    def add_after(self, key: K, seconds: float) -> None:
        """Add later; of several delayed adds of one key the earliest counts."""
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.monotonic() + seconds
        known = self._due.get(key)
        if known is not None and known <= due:
            return
        self._due[key] = due
        heappush(self._delayed, (due, next(self._order), key))
        if len(self._delayed) > 2 * len(self._due) + _SUPERSEDED:
            self._delayed = sorted((due, next(self._order), key) for key, due in self._due.items())  # a heap, too
        if self._timer is None or due < self._timer_due:
            self._start_timer()

    def add_rate_limited(self, key: K) -> float:
        """Add after 5 ms * 2^failures; returns the delay."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.retries += 1
        delay = min(self._base_delay * (1 << min(failures, 60)), self._max_delay)
        self.add_after(key, delay)
        return delay

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    def forget(self, key: K) -> None:
        """The key did well: its next failure starts from the base delay."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """The next key; tell `done` when it has been handled."""
        while not self._ready:
            getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter.done() and not getter.cancelled():
                    self._wake()  # the wake-up was ours but we leave: pass it on
                raise
        return self._take()

    def done(self, key: K) -> None:
        self.handled += 1
        self._in_progress.discard(key)
        if key in self._waiting:
            self._ready.append(key)
            self._wake()

    def close(self) -> None:
        """Stop the timer; for the end of a process or test."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _take(self) -> K:
        key = self._ready.popleft()
        self._waiting.discard(key)
        self._in_progress.add(key)
        return key

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _start_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due = self._delayed[0][0]
        self._timer = asyncio.get_running_loop().create_task(self._run_timer(), name=f"queue-timer:{self.name}")

    async def _run_timer(self) -> None:
        while self._delayed:
            due, _, key = self._delayed[0]
            now = self._clock.monotonic()
            if due > now:
                self._timer_due = due
                await self._clock.sleep(due - now)
                continue
            heappop(self._delayed)
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key)
        self._timer = None
