"""How fast workloads may make pods while earlier ones still wait for a node.

Anybody may ask for 2,147,483,647 replicas. Kubernetes makes them one by one until a quota or the disk stops it, no faster than its
controller manager's client asks, 20 times a second. Here nothing slows a client down, so a namespace has its pods at once as long as few
of them wait, and at that rate beyond: never slower than Kubernetes, and its neighbours are served meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable

from drakit.client import Informer
from drakit.clock import Clock
from drakit.controllers.objects import Plain, namespace, spec, status
from drakit.controllers.rates import TokenBucket

__all__ = ["AGAIN", "WAITING", "Pace"]

WAITING = "waiting"  # the index
AGAIN = 1.0  # seconds until there is room for more
_LIMIT = 2000  # pods of a namespace that wait for a node
_LUMP = 500  # so many at a time as there is room again: each takes a look of its owner, and a status to write
_PER_SECOND = 20
_MANY = 100


class Pace:
    def __init__(self, pods: Informer[Plain], clock: Clock) -> None:
        self._pods, self._clock = pods, clock
        self._slow: dict[str, TokenBucket] = {}  # by namespace, those over the limit
        pods.add_index(WAITING, _waiting)

    def room(self, namespace: str, wanted: int) -> int:
        """How many pods of a namespace may be made now, of those wanted."""
        free = _LIMIT - self._pods.index_count(WAITING, namespace)
        if free >= min(wanted, _LUMP):
            return min(free, wanted)
        bucket = self._slow.get(namespace)
        if bucket is None:
            self._forget()
            bucket = self._slow[namespace] = TokenBucket(self._clock, _PER_SECOND, _PER_SECOND)
        granted = 0
        while granted < wanted and not bucket.take():
            granted += 1
        return granted

    def _forget(self) -> None:
        if len(self._slow) >= _MANY:
            over = {each for each in self._slow if self._pods.index_count(WAITING, each) >= _LIMIT}
            self._slow = {each: bucket for each, bucket in self._slow.items() if each in over}


def _waiting(pod: Plain) -> Iterable[str]:
    return () if spec(pod).get("nodeName") or status(pod).get("phase", "Pending") != "Pending" else (namespace(pod),)
