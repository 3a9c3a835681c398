"""What a StatefulSet decides, from its pods by ordinal (pkg/controller/statefulset).

The roster keeps, pod by pod, what decisions and status ask for: which ordinals are missing, which are in trouble, which have an old
revision. A change of one pod costs the same in a set of 5 and of 5,000.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby, islice
from typing import Literal

from drakit.api.gates import FeatureGates
from drakit.controllers.objects import (
    Plain,
    condition,
    deleting,
    key_of,
    labels,
    name,
    pod_finished,
    pod_ready,
    set_condition,
    spec,
    status,
)
from drakit.controllers.pods import scaled, selector_of
from drakit.controllers.revisions import revision_of_pod
from drakit.controllers.ripening import Ripening, ripe_at

__all__ = [
    "POD_INDEX_LABEL",
    "POD_NAME_LABEL",
    "Action",
    "Roster",
    "Step",
    "decide",
    "lacking",
    "next_status",
    "strategy_of",
]

POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"
_LAST_ORDINAL = 2**31 - 1
_LARGEST_ROUND = 500
_BURST = 500  # pods made in one step: they bring the set back for the others
_IN_PROGRESS = {"type": "Progressing", "status": "True", "reason": "RecreateInProgress"}
_COMPLETED = {
    "type": "Progressing",
    "status": "False",
    "reason": "RecreateCompleted",
    "message": "All pods recreated successfully",
}
_DEFAULT = FeatureGates.default()
_DOUBLED = 511  # 1 + 2 + 4 + … + 256: so many places are done with before rounds are as large as they get


@dataclass(frozen=True, slots=True)
class Action:
    """Make the pod of an ordinal, from the update revision or the current one; delete one; give one the labels of its ordinal."""

    verb: Literal["create", "delete", "name"]
    ordinal: int
    pod: Plain | None = None
    new: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """What to do now: round after round until one fails, what is in a round at once. The rest follows when these pods have come or gone."""

    rounds: list[list[Action]] = field(default_factory=list)
    progress: str = ""  # how far it is with making all pods anew


class Ordinals:
    """A sorted set."""

    def __init__(self, ordinals: Iterable[int] = ()) -> None:
        self.list = sorted(ordinals)

    def __len__(self) -> int:
        return len(self.list)

    def __contains__(self, ordinal: int) -> bool:
        place = bisect_left(self.list, ordinal)
        return place < len(self.list) and self.list[place] == ordinal

    def add(self, ordinal: int) -> None:
        if ordinal not in self:
            self.list.insert(bisect_left(self.list, ordinal), ordinal)

    def discard(self, ordinal: int) -> None:
        if ordinal in self:
            del self.list[bisect_left(self.list, ordinal)]

    def within(self, wanted: range) -> list[int]:
        return self.list[bisect_left(self.list, wanted.start) : bisect_left(self.list, wanted.stop)]

    def count(self, wanted: range) -> int:
        return bisect_left(self.list, wanted.stop) - bisect_left(self.list, wanted.start)

    def first(self, wanted: range) -> int | None:
        place = bisect_left(self.list, wanted.start)
        return self.list[place] if place < len(self.list) and self.list[place] < wanted.stop else None

    def gaps(self, wanted: range) -> Iterator[int]:
        """Those of `wanted` that are not here. Nobody may want them all: a set of 2,147,483,647 has as many."""
        ordinal, place = wanted.start, bisect_left(self.list, wanted.start)
        while ordinal < wanted.stop:
            if place == len(self.list) or ordinal < self.list[place]:
                yield ordinal
                ordinal += 1
            else:  # past a row of neighbours at once
                end = self._end_of_row(place)
                ordinal, place = self.list[end - 1] + 1, end

    def _end_of_row(self, place: int) -> int:
        offset = self.list[place] - place
        return bisect_left(range(len(self.list)), True, place, key=lambda each: self.list[each] - each > offset)


class Roster:
    """The pods of one set that match its selector and have an ordinal in their name."""

    def __init__(self, stateful_set: Plain, pods: Iterable[Plain]) -> None:
        self.pods: dict[int, Plain] = {}
        self.present = Ordinals()
        self.troubled = Ordinals()  # finished, being deleted, not running or not ready
        self.ripening = Ordinals()  # ready, but not for minReadySeconds yet, as far as we know
        self._ripe: Ripening[int] = Ripening()  # those of them of which is known when they will be
        self.lasting: dict[str, Ordinals] = {}  # revision -> pods that are not being deleted
        self.finished = Ordinals()  # and not being deleted
        self.unnamed = Ordinals()  # not finished, and without the label that says their name
        self.unsettled: set[int] = set()  # ordinals whose pod has changed since its claims were looked at
        self.revisions: Counter[str] = Counter()  # of all pods
        self.ready = 0
        self.strangers: set[str] = set()  # pods that are the set's, but not by their labels or name
        self.minimum = int(spec(stateful_set).get("minReadySeconds") or 0)
        self.wanted = wanted_ordinals(stateful_set)  # those that there shall be, as of the last decision
        self._name, self._selector = name(stateful_set), selector_of(stateful_set)
        for pod in pods:
            self.put(pod)

    def put(self, pod: Plain) -> None:
        self.remove(pod)
        if not self._selector.matches(labels(pod)) or not self.may_have(pod):
            self.strangers.add(key_of(pod))
            return
        ordinal = self._ordinal(pod)
        if ordinal < 0:
            return
        revision, ready = revision_of_pod(pod), _running(pod)
        self.pods[ordinal] = pod
        self.unsettled.add(ordinal)
        self.present.add(ordinal)
        self.revisions[revision] += 1
        self.ready += ready
        if labels(pod).get(POD_NAME_LABEL) != name(pod) and not pod_finished(pod):
            self.unnamed.add(ordinal)
        if not deleting(pod):
            self.lasting.setdefault(revision, Ordinals()).add(ordinal)
            if pod_finished(pod):
                self.finished.add(ordinal)
        if deleting(pod) or not ready:
            self.troubled.add(ordinal)
        if ready and self.minimum:
            self.ripening.add(ordinal)
            if (at := ripe_at(pod, self.minimum)) is not None:
                self._ripe.put(ordinal, at)

    def remove(self, pod: Plain) -> None:
        self.strangers.discard(key_of(pod))
        ordinal = self._ordinal(pod)
        known = self.pods.pop(ordinal, None)
        if known is None:
            return
        revision = revision_of_pod(known)
        self.unsettled.add(ordinal)
        self.present.discard(ordinal)
        for each in (self.troubled, self.ripening, self._ripe, self.finished, self.unnamed):
            each.discard(ordinal)
        self.revisions[revision] -= 1
        if not self.revisions[revision]:
            del self.revisions[revision]
        self.ready -= _running(known)
        if not deleting(known):
            self.lasting[revision].discard(ordinal)
            if not self.lasting[revision]:
                del self.lasting[revision]

    def ripen(self, now: datetime) -> None:
        """Pods that have been ready for long enough are available."""
        for ordinal in self._ripe.take(now):
            self.ripening.discard(ordinal)

    def next_look(self, now: datetime) -> float | None:
        """Seconds until the next pod becomes available."""
        return self._ripe.wait(now)

    def missing(self) -> Iterator[int]:
        return self.present.gaps(self.wanted)

    def available(self, ordinal: int) -> bool:
        return ordinal not in self.troubled and ordinal not in self.ripening

    def first_unavailable(self, wanted: range) -> int | None:
        found = [first for each in (self.troubled, self.ripening) if (first := each.first(wanted)) is not None]
        return min(found, default=None)

    def unavailable(self) -> list[int]:
        """Of those wanted."""
        return sorted({*self.troubled.within(self.wanted), *self.ripening.within(self.wanted)})

    def condemned(self) -> Iterator[int]:
        """Ordinals that are not wanted, from the last."""
        above, below = (
            bisect_left(self.present.list, self.wanted.stop),
            bisect_left(self.present.list, self.wanted.start),
        )
        yield from self.present.list[above:][::-1]
        yield from self.present.list[:below][::-1]

    def outdated(self, update: str, lowest: int) -> Iterator[int]:
        """Wanted ordinals from `lowest` with another revision, from the last."""
        reached = range(lowest, self.wanted.stop)
        lists = [each.within(reached) for revision, each in self.lasting.items() if revision != update]
        if len(lists) == 1:
            yield from reversed(lists[0])
        else:
            yield from sorted((ordinal for each in lists for ordinal in each), reverse=True)

    def of_other_revisions(self, update: str) -> bool:
        """Whether there are such pods, wanted or not, those that are being deleted included."""
        return any(revision != update for revision in self.revisions)

    def may_have(self, pod: Plain) -> bool:
        """Whether the pod's name is the set's with an ordinal, as the set writes it: web-01 would stand in the way of web-1."""
        prefix, _, number = name(pod).rpartition("-")
        return prefix == self._name and number.isdigit() and number == str(int(number))

    def _ordinal(self, pod: Plain) -> int:
        """-1 for a pod that is none of the set's business: a stranger, or one whose number is beyond all ordinals."""
        number = int(name(pod).rpartition("-")[2]) if self.may_have(pod) else -1
        return number if number <= _LAST_ORDINAL else -1


def _running(pod: Plain) -> bool:
    return bool(status(pod).get("phase") == "Running") and pod_ready(pod)


def wanted_ordinals(stateful_set: Plain) -> range:
    start = _start(stateful_set)
    return range(start, start + int(spec(stateful_set).get("replicas", 1)))


def _start(stateful_set: Plain) -> int:
    return int((spec(stateful_set).get("ordinals") or {}).get("start") or 0)


def _partition(stateful_set: Plain) -> int | None:
    rolling = (spec(stateful_set).get("updateStrategy") or {}).get("rollingUpdate")
    return None if rolling is None else int(rolling.get("partition") or 0)


def strategy_of(stateful_set: Plain) -> str:
    return str((spec(stateful_set).get("updateStrategy") or {}).get("type") or "RollingUpdate")


def _parallel(stateful_set: Plain) -> bool:
    return bool(spec(stateful_set).get("podManagementPolicy") == "Parallel")


def _from_update(stateful_set: Plain, ordinal: int, current: str, update: str) -> bool:
    """Whether a missing pod is made from the new template: those not yet reached by a rolling update keep the old one."""
    if current == update or strategy_of(stateful_set) != "RollingUpdate":
        return True
    partition = _partition(stateful_set)
    reached = partition if partition is not None else int(status(stateful_set).get("currentReplicas") or 0)
    return ordinal >= _start(stateful_set) + reached


def lacking(stateful_set: Plain, roster: Roster) -> int:
    """How many pods the next step would make, at most."""
    wanted = wanted_ordinals(stateful_set)
    missing = len(wanted) - roster.present.count(wanted)
    return min(missing, _BURST if _parallel(stateful_set) else 1)


def decide(
    stateful_set: Plain,
    roster: Roster,
    current: str,
    update: str,
    now: datetime,
    gates: FeatureGates = _DEFAULT,
    *,
    room: int = _BURST,
) -> Step:
    """The next step; `current` and `update` are names of revisions, `room` is how many pods may be made."""
    roster.wanted = wanted_ordinals(stateful_set)
    roster.ripen(now)
    progress = ""
    if strategy_of(stateful_set) == "Recreate":
        if roster.of_other_revisions(update):
            return Step(_end_all(roster, update), "Deleting old revision pods")
        progress = "Waiting for new-revision pods to be created" if current != update else ""

    def create(ordinal: int) -> Action:
        return Action("create", ordinal, new=_from_update(stateful_set, ordinal, current, update))

    parallel = _parallel(stateful_set)
    fill = _fill_at_once if parallel else _fill_in_order
    rounds, complete = fill(roster, create, room)
    if not complete:
        return Step(rounds, progress)
    condemned = list(roster.condemned()) if parallel else [*islice(roster.condemned(), 1)]
    if condemned:
        rounds += _shrink_at_once(roster, condemned) if parallel else _shrink_in_order(roster, *condemned)
    if strategy_of(stateful_set) == "RollingUpdate" and (parallel or not condemned):
        updates = _updates if gates.enabled("MaxUnavailableStatefulSet") else _next_update
        rounds += [[_delete(roster, ordinal)] for ordinal in updates(stateful_set, roster, update)]
    return Step(rounds, progress)


def _end_all(roster: Roster, update: str) -> list[list[Action]]:
    """Delete every pod of another revision, whatever the order of the set: wanted ones from the first, others from the last."""
    doomed = {ordinal for revision, each in roster.lasting.items() if revision != update for ordinal in each.list}
    if not doomed:
        return []
    beyond = {ordinal: len(roster.wanted) + place for place, ordinal in enumerate(roster.condemned())}
    places = {ordinal: beyond.get(ordinal, ordinal - roster.wanted.start) for ordinal in doomed}
    ordinals = sorted(places, key=lambda ordinal: places[ordinal])
    return _in_rounds([places[each] for each in ordinals], [_delete(roster, each) for each in ordinals])


def _delete(roster: Roster, ordinal: int) -> Action:
    return Action("delete", ordinal, roster.pods[ordinal])


def _fill_in_order(roster: Roster, create: Callable[[int], Action], room: int) -> tuple[list[list[Action]], bool]:
    """One after the other, each when those before it are available: make what is missing, replace what has finished. And whether
    all wanted pods are there."""
    missing, unavailable = next(roster.missing(), None), roster.first_unavailable(roster.wanted)
    stop = min((ordinal for ordinal in (missing, unavailable) if ordinal is not None), default=roster.wanted.stop)
    rounds = [
        [Action("name", ordinal, roster.pods[ordinal])]
        for ordinal in roster.unnamed.within(range(roster.wanted.start, stop))
    ]
    if stop == missing:
        rounds += [[create(stop)]] if room else []
    elif stop == unavailable and stop in roster.finished:
        rounds.append([_delete(roster, stop)])
    return rounds, stop == roster.wanted.stop


def _fill_at_once(roster: Roster, create: Callable[[int], Action], room: int) -> tuple[list[list[Action]], bool]:
    """As in order, without waiting; in rounds of growing size, so that what fails for one is not tried for all."""
    finished = roster.finished.within(roster.wanted)
    actions = {
        ordinal: Action("name", ordinal, roster.pods[ordinal]) for ordinal in roster.unnamed.within(roster.wanted)
    }
    actions |= {ordinal: create(ordinal) for ordinal in islice(roster.missing(), room)}
    actions |= {ordinal: _delete(roster, ordinal) for ordinal in finished}
    ordinals = sorted(actions)
    places = [ordinal - roster.wanted.start for ordinal in ordinals]
    return _in_rounds(places, [actions[ordinal] for ordinal in ordinals]), (
        not finished and next(roster.missing(), None) is None
    )


def _in_rounds(places: list[int], actions: list[Action]) -> list[list[Action]]:
    """Of 1, 2, 4, … up to 500 places, the actions there: a place at which there is nothing to do counts as well."""

    def number(entry: tuple[int, Action]) -> int:
        beyond = entry[0] - _DOUBLED
        return (entry[0] + 1).bit_length() if beyond < 0 else _DOUBLED + beyond // _LARGEST_ROUND

    return [[action for _, action in each] for _, each in groupby(zip(places, actions, strict=True), key=number)]


def _shrink_in_order(roster: Roster, last: int) -> list[list[Action]]:
    """Delete what is not wanted, from the last; it may have to wait for one in trouble below it."""
    first = roster.first_unavailable(range(roster.present.list[0], roster.present.list[-1] + 1))
    if deleting(roster.pods[last]) or (not roster.available(last) and last != first):
        return []
    return [[_delete(roster, last)]]


def _shrink_at_once(roster: Roster, condemned: list[int]) -> list[list[Action]]:
    doomed = [(place, ordinal) for place, ordinal in enumerate(condemned) if not deleting(roster.pods[ordinal])]
    return _in_rounds([place for place, _ in doomed], [_delete(roster, ordinal) for _, ordinal in doomed])


def _updates(stateful_set: Plain, roster: Roster, update: str) -> list[int]:
    """Ordinals of pods of an old revision to replace now, from the last ordinal down to the partition."""
    rolling = (spec(stateful_set).get("updateStrategy") or {}).get("rollingUpdate") or {}
    limit = max(1, scaled(rolling.get("maxUnavailable", 1), len(roster.wanted), up=False))
    if all(revision == update for revision in roster.lasting):
        return []
    unavailable = roster.unavailable()
    room = max(0, limit - len(unavailable))
    chosen: list[int] = []
    lowest = roster.wanted.start + (_partition(stateful_set) or 0)
    if _parallel(stateful_set):
        old = {ordinal for ordinal in unavailable if ordinal >= lowest and not deleting(roster.pods[ordinal])}
        chosen = sorted((ordinal for ordinal in old if revision_of_pod(roster.pods[ordinal]) != update), reverse=True)
    for ordinal in roster.outdated(update, lowest) if room else ():
        if not room:
            break
        if ordinal not in chosen and (roster.available(ordinal) or not _parallel(stateful_set)):
            chosen.append(ordinal)
            room -= 1
    return chosen


def _next_update(stateful_set: Plain, roster: Roster, update: str) -> list[int]:
    """As it was before `maxUnavailable`: the last pod of an old revision, unless one above it is still to come."""
    reached = range(roster.wanted.start + (_partition(stateful_set) or 0), roster.wanted.stop)
    waiting = max((ordinal for ordinal in roster.unavailable() if ordinal in reached), default=reached.start)
    last = next(roster.outdated(update, reached.start), -1)
    return [last] if last >= waiting else []


def next_status(
    stateful_set: Plain, roster: Roster, current: str, update: str, now: datetime, progress: str = ""
) -> Plain:
    old = status(stateful_set)
    roster.ripen(now)
    counts = {
        "replicas": len(roster.pods),
        "readyReplicas": roster.ready,
        "availableReplicas": roster.ready - len(roster.ripening),
        "currentReplicas": len(roster.lasting.get(current, ())),
        "updatedReplicas": len(roster.lasting.get(update, ())),
    }
    wanted = int(spec(stateful_set).get("replicas", 1))
    complete = counts["updatedReplicas"] == counts["replicas"] == counts["readyReplicas"] == wanted
    if complete:
        current, counts["currentReplicas"] = update, counts["updatedReplicas"]
    result: Plain = {
        field: value for field, value in counts.items() if value or field in ("replicas", "availableReplicas")
    }
    result.update(
        observedGeneration=stateful_set["metadata"].get("generation", 0),
        currentRevision=current,
        updateRevision=update,
        collisionCount=old.get("collisionCount") or 0,
    )
    recreated = (
        complete and strategy_of(stateful_set) == "Recreate" and (progress or condition(stateful_set, "Progressing"))
    )
    mark = _COMPLETED if recreated else {**_IN_PROGRESS, "message": progress} if progress else None
    conditions = old.get("conditions") or []
    if mark is not None:
        conditions = set_condition(conditions, mark, now)
    if conditions:
        result["conditions"] = conditions
    return result
