"""Preemption: which pods of lower priority to delete so that a pod fits (upstream: DefaultPreemption), for devices too.

Upstream never preempts for devices: its allocator's "no" counts as final. Here a victim's claims are freed with it when no pod
outside the victims has them reserved, and the allocator is asked again. For devices a disruption budget is never broken; for CPU,
memory, ports, spread and affinity it is, as upstream does, when nothing else helps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from lightkube.models.core_v1 import NodeSelector
from lightkube.models.policy_v1 import PodDisruptionBudget
from lightkube.models.resource_v1 import ResourceClaim

from drakit.allocator import Failure
from drakit.scheduler import filters, hierarchy
from drakit.scheduler.claims import PLUGIN, allocation_of, is_movable, key_of, reserved_for, uid_of
from drakit.scheduler.decide import Attempt, promises_held
from drakit.scheduler.devices import NO_DEVICES, NOT_AVAILABLE, Rejected, Variant
from drakit.scheduler.nodes import NodeInfo
from drakit.scheduler.outcome import NO_VICTIMS, Diagnosis, Rejection, SchedulingError, preemption_message
from drakit.scheduler.pods import PodInfo, is_deleting
from drakit.scheduler.selectors import label_selector_matches, node_selector_matches
from drakit.scheduler.state import Promise, State, disruptions_allowed

MAX_NODES = 100  # candidates examined (upstream: 10 % of the nodes, at least 100)
MAX_MOVES = 10_000  # pods taken away and put back before whoever is found will do
NAMED = 4  # victims, in messages
NOT_YET = datetime(9999, 1, 1, tzinfo=UTC)  # when pods start that have not
LOWEST = -(1 << 31)
NEVER = "not eligible due to preemptionPolicy=Never."
_NOBODY = Rejection("DefaultPreemption", (NO_VICTIMS,))
TERMINATING = "not eligible due to a terminating pod on the nominated node."


@dataclass(frozen=True, slots=True)
class Preemption:
    node: str
    victims: tuple[PodInfo, ...]
    violations: int = 0  # disruption budgets broken
    claims: tuple[str, ...] = ()  # keys of those that are freed
    holds: tuple[Mapping[str, Any], ...] = ()  # what the pod will get of devices that other nodes can have as well
    overrides: bool = False  # a budget would be broken for the sake of devices alone


@dataclass(frozen=True, slots=True)
class _Unit:
    """Pods that leave together, on whatever nodes: usually one."""

    pods: tuple[PodInfo, ...]
    priority: int
    rank: int  # CompositePodGroups are more important than pods of groups, these more than others
    started: datetime
    going: bool  # it leaves anyway

    @property
    def importance(self) -> tuple[Any, ...]:
        """Sorts the most important first (upstream: MoreImportantVictim)."""
        return -self.priority, -self.rank, -len(self.pods), self.started


def preempt(attempt: Attempt, diagnosis: Diagnosis) -> tuple[Preemption | None, str]:
    """The best preemption, or why there is none (the text that follows the filters' reasons)."""
    state, info = attempt.state, attempt.info
    if (why := _ineligible(state, info, diagnosis)) is not None:
        return None, f"preemption: {why}"
    search = _Search(attempt)
    statuses: dict[str, Sequence[str]] = {}
    candidates: list[Preemption] = []
    protected: Preemption | None = None
    with promises_held(state, info):
        for name, rejection in _from_last(state, diagnosis.rejections):
            by_devices = _by_devices(rejection)
            if not (rejection.resolvable or by_devices) or search.is_over(candidates):
                continue
            found = search.victims_on(state.nodes.by_name[name])
            if isinstance(found, Rejection):
                if not by_devices:
                    statuses[name] = found.reasons
                if found is not _NOBODY:
                    diagnosis.hindered |= {found.plugin}
            elif found.overrides:
                protected = protected or found
                diagnosis.hindered |= {PLUGIN}
            else:
                candidates.append(found)
    if candidates:
        return min(candidates, key=lambda candidate: _cost(state, candidate)), ""
    if protected is not None:
        names = _named((victim for victim in protected.victims if not _going(state, victim)), info.namespace)
        text = f"{names} could make room on node {protected.node}, but a disruption budget protects them"
        diagnosis.advice = f"{diagnosis.advice}; {text}" if diagnosis.advice else text
    return None, preemption_message(diagnosis.total_nodes, statuses)


def waits_for(victims: Iterable[PodInfo], namespace: str) -> str:
    return f"waits for {_named(victims, namespace)} to leave"


def _named(pods: Iterable[PodInfo], namespace: str) -> str:
    """For readers of that namespace: what others run is nobody else's business."""
    keys = {pod.uid: pod.key if pod.namespace == namespace else "" for pod in pods}.values()
    names, foreign = sorted(key for key in keys if key), sum(not key for key in keys)
    found = [", ".join(names[:NAMED])] if names else []
    if len(names) > NAMED:
        found.append(f"{len(names) - NAMED} more")
    if foreign:
        found.append("1 pod of another namespace" if foreign == 1 else f"{foreign} pods of other namespaces")
    return " and ".join(found)


def _by_devices(rejection: Rejection) -> bool:
    """Upstream calls it past help; here victims may help."""
    return rejection.plugin == PLUGIN and not rejection.resolvable


def _from_last(state: State, rejections: Mapping[str, Rejection]) -> Iterator[tuple[str, Rejection]]:
    """From where the last search stopped: not the same hundred nodes every time (upstream: a random offset)."""
    items = list(rejections.items())
    start = next((index for index, (name, _) in enumerate(items) if name == state.last_node), 0)
    return chain(items[start:], items[:start])


def _ineligible(state: State, info: PodInfo, diagnosis: Diagnosis) -> str | None:
    spec = info.pod.spec
    assert spec is not None
    if spec.preemptionPolicy == "Never":
        return NEVER
    promise = state.nominated.get(info.uid)
    rejection = diagnosis.rejections.get(promise.node) if promise is not None else None
    if rejection is not None and not rejection.resolvable and not _by_devices(rejection):
        return None  # whoever leaves it, the node will not do
    return TERMINATING if ongoing(state, info, promise) else None


def ongoing(state: State, info: PodInfo, promise: Promise | None) -> bool:
    """Its victims are on their way out. The promise counts: the pod's status may still name a node that is another's by now."""
    node = state.nodes.by_name.get(promise.node) if promise is not None else None
    if promise is None or node is None or node.node is None or state.static.rejection(info, node) is not None:
        return False
    if any(_going(state, pod) for pod in _placed(state, promise.victims)):  # some may have been told by others
        return True
    if not promise.victims and any(  # nobody knows them any more, or somebody else nominated the pod
        priority_of(state, pod) < info.priority and _preempted(state, pod) for pod in node.pods.values()
    ):
        return True
    # The pod is gone, its devices are yet to be given back: no reason to look for more victims.
    return any(_comes_free(state, key) for key in promise.claims)


def priority_of(state: State, pod: PodInfo) -> int:
    """Of a pod as a victim: its group's, or that of the CompositePodGroup at the top."""
    root = state.hierarchy.decisive(pod.group) if pod.group is not None else None
    return pod.priority if root is None else hierarchy.priority_of(root)


def _going(state: State, pod: PodInfo) -> bool:
    """Deleted, or told to go a moment ago."""
    return is_deleting(pod.pod) or pod.uid in state.leaving


def _preempted(state: State, pod: PodInfo) -> bool:
    """On its way out because a scheduler said so."""
    conditions = (pod.pod.status.conditions if pod.pod.status else None) or ()
    told = next((each for each in conditions if each.type == "DisruptionTarget"), None)
    by_scheduler = told is not None and told.status == "True" and told.reason == "PreemptionByScheduler"
    return pod.uid in state.leaving or (is_deleting(pod.pod) and by_scheduler)


def _comes_free(state: State, key: str) -> bool:
    """A claim that is still allocated, though all who had it are gone or going."""
    claim = state.claims.stored.get(key)
    if claim is None or allocation_of(claim) is None or state.claims.pending.get(uid_of(claim)):
        return False
    for entry in reserved_for(claim):
        node = state.nodes.placed.get(entry.uid)
        if node is not None and not _going(state, node.pods[entry.uid]):
            return False
    return True


def _cost(state: State, candidate: Preemption) -> tuple[Any, ...]:
    """Upstream's order: broken budgets, highest victim, sum of priorities, number, and the younger victims' node first."""
    told = [victim for victim in candidate.victims if not _going(state, victim)]  # the others leave anyway
    priorities = [victim.priority for victim in told]
    top = max(priorities, default=LOWEST)
    earliest = min((_started(v) for v in told if v.priority == top), default=NOT_YET)
    return (
        candidate.violations,
        top,
        sum(priority - LOWEST for priority in priorities),
        len(priorities),
        -earliest.timestamp(),
    )


def _started(info: PodInfo) -> datetime:
    stamp: Any = info.pod.status.startTime if info.pod.status else None
    return stamp if isinstance(stamp, datetime) else NOT_YET


class _Search:
    """For one pod, on one node after the other."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt, self._state, self._priority = attempt, attempt.state, attempt.info.priority
        self._held = _Held(attempt.state)
        self._holders = _holders_of_movable(attempt)
        self._units: dict[str, _Unit] = {}  # by the UID of each of their pods
        self._moves = 0  # pods taken away or put back, a measure of the work

    def is_over(self, candidates: Sequence[Preemption]) -> bool:
        enough = len(candidates) >= MAX_NODES or self._moves >= MAX_MOVES
        return enough and any(not each.violations for each in candidates)

    def victims_on(self, node: NodeInfo) -> Preemption | Rejection:
        """All lower-priority pods away: does it fit? Then spare as many as possible, the most important first; else what is in the
        way still."""
        lower = [pod for pod in node.pods.values() if priority_of(self._state, pod) < self._priority]
        lower += [pod for selector, pod in self._holders if _reaches(selector, node)]
        if not (units := self._units_of(lower)):
            return _NOBODY
        trial = _Trial(self._attempt, node, self._held)
        try:
            return self._spare(trial, node, sorted(units, key=lambda unit: unit.importance))
        finally:
            trial.end()
            self._moves += trial.moves

    def _spare(self, trial: _Trial, node: NodeInfo, units: Sequence[_Unit]) -> Preemption | Rejection:
        attempt = self._attempt
        trial.take(units)
        if (rejection := _rejection(attempt, node)) is not None:
            return rejection
        violating, others = _split_by_budgets([unit for unit in units if not unit.going], self._state.budgets.values())
        # Those that leave anyway are spared last. Most can be spared as a rule, several at a time. Where one pod less may be one
        # too few (to be near to, to count as the fewest, to have its devices back) each is asked about alone.
        single = attempt.spread is not None or attempt.neighbours is not None or node.name in attempt.nominated
        queue, step, overrides, victims = [*violating, *others, *(unit for unit in units if unit.going)], 1, False, []
        while queue:
            block = queue[:step]
            trial.put_back(block)
            if (rejection := _rejection(attempt, node)) is None:
                del queue[:step]
                step = 1 if single else 2 * step
                continue
            trial.take(block)
            if step == 1:
                victims.append(queue.pop(0))
                overrides |= victims[-1] in violating and rejection.plugin == PLUGIN
            step = max(1, len(block) // 2)
        if not victims:
            return _NOBODY
        freed = list(trial.freed.values())
        pods = [pod for unit in sorted(victims, key=lambda unit: (unit.going, unit.importance)) for pod in unit.pods]
        broken = sum(count for unit, count in violating.items() if unit in victims)
        return Preemption(
            node.name, tuple(pods), broken, tuple(map(key_of, freed)), tuple(_holds(attempt, node, freed)), overrides
        )

    def _units_of(self, pods: Iterable[PodInfo]) -> list[_Unit]:
        for pod in pods:
            if pod.uid not in self._units:
                unit = _unit(self._state, pod)
                self._units.update((each.uid, unit) for each in unit.pods)
        units = dict.fromkeys(self._units[pod.uid] for pod in pods)
        return [unit for unit in units if unit.priority < self._priority]


def _unit(state: State, pod: PodInfo) -> _Unit:
    whole, uids = state.together(pod)
    members = tuple(_placed(state, uids)) or (pod,)
    return _Unit(
        members,
        priority_of(state, pod),
        2 if whole is not None and whole[0] else int(pod.group in state.groups),
        min(_started(each) for each in members),
        all(_going(state, each) for each in members),
    )


class _Trial:
    """The state as if some pods were gone, with the devices that only they use. Of those on other nodes only the devices matter here,
    and what they count for spread and affinity."""

    def __init__(self, attempt: Attempt, node: NodeInfo, held: _Held) -> None:
        self._attempt, self._state, self._node, self._held = attempt, attempt.state, node, held
        self._gone: dict[str, PodInfo] = {}
        self.freed: dict[str, ResourceClaim] = {}  # by UID
        self.moves = 0

    def take(self, units: Iterable[_Unit]) -> None:
        state, pods = self._state, [pod for unit in units for pod in unit.pods]
        for pod in pods:
            self._gone[pod.uid] = pod
            self._count(pod, -1)
            if pod.uid in self._node.pods:
                self._node.remove(pod.uid)
        for claim in self._held.by(pods):
            if uid_of(claim) not in self.freed and state.claims.consumers(claim) <= self._gone.keys():
                self.freed[uid_of(claim)] = claim
                state.allocated.remove_claim(uid_of(claim))

    def put_back(self, units: Iterable[_Unit]) -> None:
        self._put_back([pod for unit in units for pod in unit.pods])

    def end(self) -> None:
        self._put_back(list(self._gone.values()))

    def _put_back(self, pods: Sequence[PodInfo]) -> None:
        for claim in self._held.by(pods):
            if self.freed.pop(uid_of(claim), None) is not None:
                self._state.claims.restore(claim)
        for pod in pods:
            del self._gone[pod.uid]
            if self._state.nodes.placed[pod.uid] is self._node:
                self._node.add(pod)
            self._count(pod, 1)

    def _count(self, pod: PodInfo, sign: int) -> None:
        self.moves += 1
        for counted in (self._attempt.spread, self._attempt.neighbours):
            if counted is not None:
                counted.count(pod, self._state.nodes.placed[pod.uid], sign)


# Devices that more than one node can have: their holders may be anywhere.

_Holder = tuple[NodeSelector | None, PodInfo]


def _holders_of_movable(attempt: Attempt) -> list[_Holder]:
    state, devices = attempt.state, attempt.devices
    found: list[_Holder] = []
    if not (devices.unallocated or devices.provided):
        return found
    for selector, uids in state.claims.movable():
        for pod in _placed(state, uids):
            if priority_of(state, pod) < attempt.info.priority:
                found.append((selector, pod))
    return found


def _reaches(selector: NodeSelector | None, node: NodeInfo) -> bool:
    return selector is None or node_selector_matches(selector, node.labels, node.name)


def _holds(attempt: Attempt, node: NodeInfo, freed: Sequence[ResourceClaim]) -> list[Mapping[str, Any]]:
    """Pods on this node are kept off what the pod waits for; those on other nodes have to be told which devices it is."""
    claims = attempt.state.claims
    if not any(claims.is_allocated(claim) and is_movable(claims.node_selector(claim)) for claim in freed):
        return []
    return [result for _, result in _would_get(attempt, attempt.info, node)]


def _placed(state: State, uids: Iterable[str]) -> Iterator[PodInfo]:
    for uid in uids:
        node = state.nodes.placed.get(uid)
        if node is not None and (pod := node.pods.get(uid)) is not None:
            yield pod


def _rejection(attempt: Attempt, node: NodeInfo) -> Rejection | None:
    """As `Attempt.accepts` and the allocator, with the node as it is now."""
    if node.name not in attempt.nominated:
        return _rejection_now(attempt, node, frozenset())
    with _promises_kept(attempt, node) as kept:
        return _rejection_now(attempt, node, kept)


@contextmanager
def _promises_kept(attempt: Attempt, node: NodeInfo) -> Iterator[set[str]]:
    """With those that wait for the node there already, and their devices taken: a preemption is not to live on another's. Gives
    the UIDs of the claims that they bring: whoever shares one needs no devices of its own for it."""
    state, waiting, kept = attempt.state, attempt.nominated[node.name], set[str]()
    for other in waiting:
        wanted = _would_get(attempt, other, node)
        if not state.nominated[other.uid].holds:  # `promises_held` has those
            for claim, result in wanted:
                if uid_of(claim) not in kept:
                    state.allocated.assume(uid_of(claim), result)
                    kept.add(uid_of(claim))
        node.add(other)
    try:
        yield kept
    finally:
        for other in waiting:
            node.remove(other.uid)
        for uid in kept:
            state.allocated.forget(uid)


def _would_get(attempt: Attempt, other: PodInfo, node: NodeInfo) -> list[tuple[ResourceClaim, dict[str, Any]]]:
    try:
        devices = attempt.devices.of(other)
    except (Rejected, SchedulingError):
        return []
    variant = devices.variant_for(node) if devices.needed else None
    if not isinstance(variant, Variant) or not variant.claims:
        return []
    outcome = devices.allocate(node, variant)
    return [] if isinstance(outcome, Failure) else list(zip(variant.claims, outcome.results, strict=True))


def _rejection_now(attempt: Attempt, node: NodeInfo, kept: Collection[str]) -> Rejection | None:
    devices = attempt.devices
    if (rejection := filters.dynamic(attempt.info, node, devices.provided)) is not None:
        return rejection
    if attempt.spread is not None and (rejection := attempt.spread.reject(node)) is not None:
        return rejection
    if attempt.neighbours is not None and (rejection := attempt.neighbours.reject(node)) is not None:
        return rejection
    if not devices.needed:
        return None
    if devices.unavailable(node):
        return NOT_AVAILABLE
    variant = devices.variant_for(node)
    if not isinstance(variant, Variant):
        return variant
    claims = [claim for claim in variant.claims if uid_of(claim) not in kept]
    short = bool(claims) and isinstance(devices.allocate(node, replace(variant, claims=claims)), Failure)
    return NO_DEVICES if short else None


@contextmanager
def without_lower(state: State, priority: int) -> Iterator[None]:
    """The state as if all pods of lower priority were gone from the cluster, with the devices that only they use."""
    gone = {
        uid: (node, pod) for node in state.nodes for uid, pod in node.pods.items() if priority_of(state, pod) < priority
    }
    held = {uid_of(claim): claim for claim in _Held(state).by(pod for _, pod in gone.values())}
    freed = {uid: claim for uid, claim in held.items() if state.claims.consumers(claim) <= gone.keys()}
    repelling = state.nodes.anti_affinity
    state.nodes.anti_affinity = {uid: each for uid, each in repelling.items() if uid not in gone}
    for node, pod in gone.values():
        node.remove(pod.uid)
    for uid in freed:
        state.allocated.remove_claim(uid)
    state.revision += 1  # what was found out before does not hold here, nor what is found out here afterwards
    try:
        yield
    finally:
        state.revision += 1
        for claim in freed.values():
            state.claims.restore(claim)
        for node, pod in gone.values():
            node.add(pod)
        state.nodes.anti_affinity = repelling


class _Held:
    """Claims with devices that pods use, written or on their way."""

    def __init__(self, state: State) -> None:
        self._claims, self._in_flight = state.claims, state.claims.by_pods_in_flight()

    def by(self, pods: Iterable[PodInfo]) -> Iterator[ResourceClaim]:
        """Some more than once."""
        for pod in pods:
            keys = list(self._claims.keys_of(pod)) if pod.claims else []
            for claim in (*map(self._claims.stored.get, keys), self._claims.extended_claim(pod.uid)):
                if claim is not None and allocation_of(claim) is not None:
                    yield claim
            yield from self._in_flight.get(pod.uid, ())


def _split_by_budgets(
    units: Sequence[_Unit], budgets: Iterable[PodDisruptionBudget]
) -> tuple[dict[_Unit, int], list[_Unit]]:
    """Those with pods whose deletion a disruption budget no longer allows (counting the earlier ones) and how many these are;
    and the others."""
    left = {id(budget): disruptions_allowed(budget) for budget in budgets}
    violating: dict[_Unit, int] = {}
    others: list[_Unit] = []
    for unit in units:
        if broken := sum(_breaks(pod, budgets, left) for pod in unit.pods):
            violating[unit] = broken
        else:
            others.append(unit)
    return violating, others


def _breaks(pod: PodInfo, budgets: Iterable[PodDisruptionBudget], left: dict[int, int]) -> bool:
    for budget in budgets:
        meta, selector = budget.metadata, budget.spec.selector if budget.spec else None
        if meta is None or meta.namespace != pod.namespace or not pod.labels or selector is None:
            continue
        if not (selector.matchLabels or selector.matchExpressions) or not label_selector_matches(selector, pod.labels):
            continue  # an empty selector protects nothing here, as upstream has it
        if pod.name in ((budget.status.disruptedPods if budget.status else None) or {}):
            continue  # already on its way out and counted
        left[id(budget)] -= 1
        if left[id(budget)] < 0:
            return True
    return False
