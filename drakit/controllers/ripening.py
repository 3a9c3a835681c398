"""What is ready, but not for minReadySeconds yet, by when it will have been. A look costs what has ripened since the last, however
much there is that ripens."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from drakit.controllers.objects import Plain, condition, parse_time

__all__ = ["Ripening", "ripe_at"]

K = TypeVar("K", str, int)

_SUPERSEDED = 64


def ripe_at(pod: Plain, minimum: int) -> float | None:
    """As a timestamp, when a pod that is ready will have been so for `minimum` seconds; None when nobody said since when it is."""
    since = (condition(pod, "Ready") or {}).get("lastTransitionTime")
    return parse_time(since).timestamp() + minimum if since else None


class Ripening(Generic[K]):
    def __init__(self) -> None:
        self._at: dict[K, float] = {}
        self._queue: list[tuple[float, K]] = []  # a heap, with entries that count no more

    def __iter__(self) -> Iterator[K]:
        return iter(self._at)

    def __len__(self) -> int:
        return len(self._at)

    def put(self, key: K, at: float) -> None:
        if self._at.get(key) == at:
            return
        self._at[key] = at
        heappush(self._queue, (at, key))
        if len(self._queue) > 2 * len(self._at) + _SUPERSEDED:
            self._queue = [(at, key) for key, at in self._at.items()]
            heapify(self._queue)

    def discard(self, key: K) -> None:
        self._at.pop(key, None)

    def take(self, now: datetime) -> list[K]:
        """Those whose time has come: they ripen no more."""
        taken: list[K] = []
        while (at := self._next()) is not None and at <= now.timestamp():
            key = heappop(self._queue)[1]
            del self._at[key]
            taken.append(key)
        return taken

    def wait(self, now: datetime) -> float | None:
        """Seconds until the next is ripe."""
        at = self._next()
        return None if at is None else max(0.05, at - now.timestamp())

    def _next(self) -> float | None:
        while self._queue and self._at.get(self._queue[0][1]) != self._queue[0][0]:
            heappop(self._queue)
        return self._queue[0][0] if self._queue else None
