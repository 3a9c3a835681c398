"""The pods that wait: ready ones by priority and age, those backing off, those that nothing yet could help, those not to be tried.

Pure: times are passed in. A decision is made without giving up control, so no event can fall between a decision and the pod's
return to the queue, and there is no bookkeeping of pods "in flight" as upstream's queue needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import count

from drakit.scheduler.pods import PodInfo

FIRST_BACKOFF = 1.0
LAST_BACKOFF = 10.0
UNSCHEDULABLE_LIMIT = 300.0  # after this long an unschedulable pod is tried again, whatever happened

ACTIVE, BACKOFF, UNSCHEDULABLE, GATED = "active", "backoff", "unschedulable", "gated"


class Waiting:
    """A pod in the queue (or just popped)."""

    __slots__ = (
        "added",
        "admitted",
        "attempts",
        "began",
        "errored",
        "first_seen",
        "gate",
        "info",
        "keys",
        "plugins",
        "state",
        "until",
    )

    def __init__(self, info: PodInfo, now: float) -> None:
        self.info = info
        self.added = now  # orders pods of equal priority
        self.first_seen = now
        self.admitted = now  # since when it may be tried
        self.began = now  # when the last attempt did
        self.attempts = 0
        self.state = ""
        self.until = 0.0  # end of the backoff
        self.plugins: frozenset[str] = frozenset()  # who rejected it last
        self.gate = ""  # why it is not to be tried (PreEnqueue)
        self.errored = False  # it backs off after an error
        self.keys: frozenset[str] = frozenset()


class SchedulingQueue:
    def __init__(self) -> None:
        self._pods: dict[str, Waiting] = {}  # by UID: everything that waits
        self._active: list[tuple[int, float, int, Waiting]] = []
        self._backoff: list[tuple[float, int, Waiting]] = []  # woken before their time
        self._errors: list[tuple[float, int, Waiting]] = []  # their attempt ended in an error
        self._by_plugin: dict[str, dict[str, Waiting]] = {}  # unschedulable, by rejecting plugin
        self._by_key: dict[str, dict[str, Waiting]] = {}  # gated and unschedulable, by claims and victims they wait for
        self._order = count()
        self.hints = 0  # pods asked whether an event helps; tests see that this stays small

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def get(self, uid: str) -> Waiting | None:
        return self._pods.get(uid)

    def waiting(self) -> Iterator[Waiting]:
        return iter(self._pods.values())

    def counts(self) -> dict[str, int]:
        found = {ACTIVE: 0, BACKOFF: 0, UNSCHEDULABLE: 0, GATED: 0}
        for waiting in self._pods.values():
            found[waiting.state] += 1
        return found

    def rejections(self) -> dict[str, int]:
        """Plugin -> the unschedulable pods that it rejected."""
        return {plugin: len(members) for plugin, members in self._by_plugin.items()}

    # -- in

    def add(self, info: PodInfo, now: float) -> Waiting:
        waiting = Waiting(info, now)
        self._pods[info.uid] = waiting
        self._activate(waiting)
        return waiting

    def gate(self, waiting: Waiting, why: str, keys: Iterable[str] = ()) -> None:
        """Not to be tried until someone calls `activate`: scheduling gates, claims that do not exist yet."""
        self._leave(waiting)
        waiting.gate = why
        waiting.state = GATED
        self._pods[waiting.info.uid] = waiting
        self._index(waiting, keys)

    def unschedulable(self, waiting: Waiting, plugins: frozenset[str], now: float, keys: Iterable[str] = ()) -> None:
        """Nothing takes it; it waits for an event that concerns one of the plugins."""
        self._leave(waiting)
        waiting.plugins = plugins
        waiting.state = UNSCHEDULABLE
        waiting.until = now + backoff(waiting.attempts)
        waiting.added = now
        self._pods[waiting.info.uid] = waiting
        for plugin in plugins:
            self._by_plugin.setdefault(plugin, {})[waiting.info.uid] = waiting
        self._index(waiting, keys)

    def failed(self, waiting: Waiting, now: float) -> None:
        """The attempt ended in an error: again after a while, whatever happens."""
        self._leave(waiting)
        waiting.until = now + backoff(waiting.attempts)
        waiting.errored = True
        self._pods[waiting.info.uid] = waiting
        self._back_off(waiting)

    # -- out

    def pop(self) -> Waiting | None:
        """The next pod. With nothing else to do, one whose backoff is not over (upstream: SchedulerPopFromBackoffQ); a pod that
        backs off after an error is not taken early."""
        while self._active:
            waiting = heappop(self._active)[3]
            if waiting.state == ACTIVE and self._pods.get(waiting.info.uid) is waiting:
                return self._taken(waiting)
        while self._backoff:
            waiting = heappop(self._backoff)[2]
            if waiting.state == BACKOFF and not waiting.errored and self._pods.get(waiting.info.uid) is waiting:
                return self._taken(waiting)
        return None

    def _taken(self, waiting: Waiting) -> Waiting:
        del self._pods[waiting.info.uid]
        waiting.state = ""
        waiting.errored = False
        waiting.attempts += 1
        return waiting

    def take(self, uid: str) -> Waiting | None:
        """Remove one pod, whatever its state: it goes with its group."""
        waiting = self._pods.get(uid)
        if waiting is not None:
            self.delete(uid)
            waiting.attempts += 1
        return waiting

    def delete(self, uid: str) -> None:
        waiting = self._pods.get(uid)
        if waiting is not None:
            self._leave(waiting)

    def replace(self, info: PodInfo) -> Waiting | None:
        """A new version of a waiting pod; it keeps its place."""
        waiting = self._pods.get(info.uid)
        if waiting is None:
            return None
        again = waiting.state == ACTIVE and info.priority != waiting.info.priority
        waiting.info = info
        if again:
            self._activate(waiting)
        return waiting

    # -- wake-ups

    def activate(self, waiting: Waiting, now: float) -> None:
        """To be tried again, once its backoff is over."""
        if waiting.state in (ACTIVE, BACKOFF, ""):
            return
        unschedulable = waiting.state == UNSCHEDULABLE
        if not waiting.attempts:
            waiting.admitted = now  # it was gated until now
        self._leave(waiting)
        self._pods[waiting.info.uid] = waiting
        if unschedulable and waiting.until > now:
            self._back_off(waiting)
        else:
            self._activate(waiting)

    def wake(self, plugins: Iterable[str], helps: Callable[[Waiting], bool], now: float) -> int:
        """An event happened that these plugins care about: their pods that it may help are tried again."""
        woken: dict[str, Waiting] = {}
        for plugin in plugins:
            for uid, waiting in self._by_plugin.get(plugin, {}).items():
                if uid not in woken:
                    self.hints += 1
                    if helps(waiting):
                        woken[uid] = waiting
        for waiting in woken.values():
            self.activate(waiting, now)
        return len(woken)

    def waiting_for(self, key: str) -> list[Waiting]:
        return list(self._by_key.get(key, {}).values())

    def flush(self, now: float) -> None:
        """Backoffs that are over, and (upstream: every 30 s) pods that waited five minutes for any event."""
        for heap in (self._backoff, self._errors):
            while heap and heap[0][0] <= now:
                waiting = heappop(heap)[2]
                if waiting.state == BACKOFF and self._pods.get(waiting.info.uid) is waiting:
                    self._activate(waiting)

    def flush_unschedulable(self, now: float) -> None:
        late = [w for w in self._pods.values() if w.state == UNSCHEDULABLE and now - w.added >= UNSCHEDULABLE_LIMIT]
        for waiting in late:
            self.activate(waiting, now)

    def next_deadline(self) -> float | None:
        """When the next backoff after an error ends; the others are taken as soon as there is nothing else to do."""
        while self._errors and self._errors[0][2].state != BACKOFF:
            heappop(self._errors)
        return self._errors[0][0] if self._errors else None

    @property
    def has_work(self) -> bool:
        """Would `pop` give a pod?"""
        while self._active:
            waiting = self._active[0][3]
            if waiting.state == ACTIVE and self._pods.get(waiting.info.uid) is waiting:
                return True
            heappop(self._active)
        return any(w.state == BACKOFF and not w.errored for _, _, w in self._backoff)

    # -- states

    def _activate(self, waiting: Waiting) -> None:
        waiting.state = ACTIVE
        heappush(self._active, (-waiting.info.priority, waiting.added, next(self._order), waiting))

    def _back_off(self, waiting: Waiting) -> None:
        waiting.state = BACKOFF
        heap = self._errors if waiting.errored else self._backoff
        heappush(heap, (waiting.until, next(self._order), waiting))

    def _index(self, waiting: Waiting, keys: Iterable[str]) -> None:
        waiting.keys = frozenset(keys)
        for key in waiting.keys:
            self._by_key.setdefault(key, {})[waiting.info.uid] = waiting

    def _leave(self, waiting: Waiting) -> None:
        """Out of whatever state it is in; entries in the heaps are skipped when they come up."""
        uid = waiting.info.uid
        self._pods.pop(uid, None)
        for plugin in waiting.plugins:
            if (members := self._by_plugin.get(plugin)) is not None:
                members.pop(uid, None)
        for key in waiting.keys:
            if (members := self._by_key.get(key)) is not None:
                members.pop(uid, None)
                if not members:
                    del self._by_key[key]
        waiting.plugins = frozenset()
        waiting.keys = frozenset()
        waiting.gate = ""
        waiting.errored = False
        waiting.state = ""


def backoff(attempts: int) -> float:
    return float(min(FIRST_BACKOFF * 2 ** min(max(attempts - 1, 0), 10), LAST_BACKOFF))
