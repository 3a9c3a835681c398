"""Preemption: which pods of lower priority to delete so that a pod fits (upstream: DefaultPreemption), for devices too.

Upstream never preempts for devices: its allocator's "no" counts as final. Here a victim's claims are freed with it when no pod
outside the victims has them reserved, and the allocator is asked again. For devices alone a disruption budget is never broken;
for CPU, memory and ports it is, as upstream does, when nothing else helps.
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
from drakit.scheduler.claims import PLUGIN, allocation_of, key_of, reserved_for, uid_of
from drakit.scheduler.decide import Attempt, promises_held
from drakit.scheduler.devices import NO_DEVICES, NOT_AVAILABLE, Rejected, Variant, single_node
from drakit.scheduler.nodes import NodeInfo
from drakit.scheduler.outcome import NO_VICTIMS, Diagnosis, Rejection, SchedulingError, preemption_message
from drakit.scheduler.pods import PodInfo, is_deleting
from drakit.scheduler.selectors import label_selector_matches, node_selector_matches
from drakit.scheduler.state import Promise, State, disruptions_allowed

MAX_NODES = 100  # candidates examined (upstream: 10 % of the nodes, at least 100)
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
    overrides: bool = False  # a budget would be broken for the sake of devices


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
    lowest = min((priority_of(state, pod) for node in state.nodes for pod in node.pods.values()), default=None)
    hopeless = lowest is None or lowest >= info.priority
    holders = [] if hopeless else _holders_of_shared_pools(attempt)
    statuses: dict[str, Sequence[str]] = {}
    candidates: list[Preemption] = []
    protected: Preemption | None = None
    with promises_held(state, info):
        for name, rejection in _from_last(state, diagnosis.rejections):
            by_devices = _by_devices(rejection)
            if not (rejection.resolvable or by_devices) or _enough(candidates):
                continue
            found = _NOBODY if hopeless else _victims_on(attempt, state.nodes.by_name[name], holders)
            if isinstance(found, Rejection):
                if not by_devices:
                    statuses[name] = found.reasons
            elif found.overrides or (by_devices and found.violations):
                protected = protected or found
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


def _enough(candidates: Sequence[Preemption]) -> bool:
    return len(candidates) >= MAX_NODES and any(not each.violations for each in candidates)


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
    if promise is None or node is None or node.node is None:
        return False
    if any(priority_of(state, pod) < info.priority and _preempted(state, pod) for pod in node.pods.values()):
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


def _victims_on(attempt: Attempt, node: NodeInfo, holders: Sequence[_Holder]) -> Preemption | Rejection:
    """All lower-priority pods away: does it fit? Then spare as many as possible, the most important first; else what is in the
    way still."""
    state, info = attempt.state, attempt.info
    reachable = [pod for selector, pod in holders if _reaches(selector, node)]
    units = [
        unit
        for unit in _units(state, (*node.pods.values(), *reachable))
        if all(priority_of(state, pod) < info.priority for pod in unit.pods)
    ]
    if not units:
        return _NOBODY
    staying = sorted((unit for unit in units if not unit.going), key=lambda unit: unit.importance)
    violating, others = _split_by_budgets(staying, state.budgets.values())
    leaving = sorted((unit for unit in units if unit.going), key=lambda unit: unit.importance)
    victims = dict.fromkeys((*staying, *leaving))
    with _without(state, node, _pods(victims)):
        if (rejection := _rejection(attempt, node)) is not None:
            return rejection
    for unit in (*violating, *others, *leaving):  # those that leave anyway are spared last
        rest = [victim for victim in victims if victim is not unit]
        with _without(state, node, _pods(rest)):
            if _rejection(attempt, node) is None:
                victims = dict.fromkeys(rest)
    if not victims:
        return _NOBODY
    pods = _pods(victims)
    freed = _freed_claims(state, pods)
    return Preemption(
        node.name,
        tuple(pods),
        sum(count for unit, count in violating.items() if unit in victims),
        tuple(key_of(claim) for claim in freed),
        tuple(_holds(attempt, node, pods, freed)),
        any(unit in victims and all(pod.uid not in node.pods for pod in unit.pods) for unit in violating),
    )


def _pods(units: Iterable[_Unit]) -> list[PodInfo]:
    return [pod for unit in units for pod in unit.pods]


def _units(state: State, pods: Iterable[PodInfo]) -> list[_Unit]:
    found: dict[str, _Unit] = {}
    for pod in pods:
        if pod.uid not in found:
            whole, uids = state.together(pod)
            members = tuple(_placed(state, uids)) or (pod,)
            unit = _Unit(
                members,
                priority_of(state, pod),
                2 if whole is not None and whole[0] else int(pod.group in state.groups),
                min(_started(each) for each in members),
                all(_going(state, each) for each in members),
            )
            found.update((each.uid, unit) for each in members)
    return list(dict.fromkeys(found.values()))


# Devices that more than one node can have: their holders may be anywhere.

_Holder = tuple[NodeSelector | None, PodInfo]


def _holders_of_shared_pools(attempt: Attempt) -> list[_Holder]:
    state, devices = attempt.state, attempt.devices
    found: list[_Holder] = []
    if not (devices.unallocated or devices.provided):
        return found
    for claim in state.claims.stored.values():
        if not _is_shared(claim):
            continue
        for uid in state.claims.consumers(claim):
            place = state.nodes.placed.get(uid)
            if place is not None and priority_of(state, place.pods[uid]) < attempt.info.priority:
                found.append((allocation_of(claim).nodeSelector, place.pods[uid]))
    return found


def _is_shared(claim: ResourceClaim) -> bool:
    allocation = allocation_of(claim)
    if allocation is None:
        return False
    return allocation.nodeSelector is None or single_node(allocation.nodeSelector) is None


def _reaches(selector: NodeSelector | None, node: NodeInfo) -> bool:
    return selector is None or node_selector_matches(selector, node.labels, node.name)


def _holds(
    attempt: Attempt, node: NodeInfo, victims: Sequence[PodInfo], freed: Sequence[ResourceClaim]
) -> list[Mapping[str, Any]]:
    """Pods on this node are kept off what the pod waits for; those on other nodes have to be told which devices it is."""
    if not any(_is_shared(claim) for claim in freed):
        return []
    with _without(attempt.state, node, victims):
        return [result for _, result in _would_get(attempt, attempt.info, node)]


def _placed(state: State, uids: Iterable[str]) -> Iterator[PodInfo]:
    for uid in uids:
        node = state.nodes.placed.get(uid)
        if node is not None and (pod := node.pods.get(uid)) is not None:
            yield pod


def _rejection(attempt: Attempt, node: NodeInfo) -> Rejection | None:
    """As `Attempt.accepts` and the allocator, with the node as it is now: spread and affinity are counted afresh upstream; here
    a node they reject for good is no candidate."""
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
    gone = [
        (node, pod) for node in state.nodes for pod in list(node.pods.values()) if priority_of(state, pod) < priority
    ]
    freed = _freed_claims(state, [pod for _, pod in gone])
    for node, pod in gone:
        node.remove(pod.uid)
    for claim in freed:
        state.allocated.remove_claim(uid_of(claim))
    state.revision += 1  # what was found out before does not hold here, nor what is found out here afterwards
    try:
        yield
    finally:
        state.revision += 1
        for claim in freed:
            state.allocated.set_claim(claim)
        for node, pod in gone:
            node.add(pod)


@contextmanager
def _without(state: State, node: NodeInfo, victims: Iterable[PodInfo]) -> Iterator[None]:
    """The state as if the victims were gone, with the devices that only they use; put back afterwards. Of those on other nodes
    only the devices matter here."""
    victims = list(victims)
    freed = _freed_claims(state, victims)
    gone = [pod for pod in victims if pod.uid in node.pods]
    for pod in gone:
        node.remove(pod.uid)
    for claim in freed:
        state.allocated.remove_claim(uid_of(claim))
    try:
        yield
    finally:
        for claim in freed:
            state.allocated.set_claim(claim)
        for pod in gone:
            node.add(pod)


def _freed_claims(state: State, victims: Sequence[PodInfo]) -> list[ResourceClaim]:
    uids = {pod.uid for pod in victims}
    found: dict[str, ResourceClaim] = {}
    for pod in victims:
        keys = list(state.claims.keys_of(pod)) if pod.claims else []
        claims = [state.claims.stored.get(key) for key in keys] + [state.claims.extended_claim(pod.uid)]
        for claim in claims:
            if claim is None or allocation_of(claim) is None or uid_of(claim) in found:
                continue
            if state.claims.consumers(claim) <= uids:
                found[uid_of(claim)] = claim
    return list(found.values())


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
