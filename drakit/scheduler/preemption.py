"""Preemption: which pods of lower priority to delete so that a pod fits (upstream: DefaultPreemption), for devices too.

Upstream never preempts for devices: its allocator's "no" counts as final. Here a victim's claims are freed with it when no pod
outside the victims has them reserved, and the allocator is asked again. For devices alone a disruption budget is never broken;
for CPU, memory and ports it is, as upstream does, when nothing else helps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lightkube.models.policy_v1 import PodDisruptionBudget
from lightkube.models.resource_v1 import ResourceClaim

from drakit.allocator import Failure
from drakit.scheduler import filters
from drakit.scheduler.claims import PLUGIN, allocation_of, key_of, reserved_for, uid_of
from drakit.scheduler.decide import Attempt
from drakit.scheduler.devices import Rejected, Variant
from drakit.scheduler.nodes import NodeInfo
from drakit.scheduler.outcome import NO_VICTIMS, Diagnosis, SchedulingError, preemption_message
from drakit.scheduler.pods import PodInfo, is_deleting
from drakit.scheduler.selectors import label_selector_matches
from drakit.scheduler.state import State, disruptions_allowed

MAX_NODES = 100  # candidates examined (upstream: 10 % of the nodes, at least 100)
EPOCH = datetime.min.replace(tzinfo=UTC)
LOWEST = -(1 << 31)
NEVER = "not eligible due to preemptionPolicy=Never."
TERMINATING = "not eligible due to a terminating pod on the nominated node."


@dataclass(frozen=True, slots=True)
class Preemption:
    node: str
    victims: tuple[PodInfo, ...]
    violations: int = 0  # disruption budgets broken
    claims: tuple[str, ...] = ()  # keys of those that are freed


def preempt(attempt: Attempt, diagnosis: Diagnosis) -> tuple[Preemption | None, str]:
    """The best preemption, or why there is none (the text that follows the filters' reasons)."""
    state, info = attempt.state, attempt.info
    if (why := _ineligible(state, info)) is not None:
        return None, f"preemption: {why}"
    lowest = min((pod.priority for node in state.nodes for pod in node.pods.values()), default=None)
    statuses: dict[str, str] = {}
    candidates: list[Preemption] = []
    protected: Preemption | None = None
    for name, rejection in diagnosis.rejections.items():
        by_devices = rejection.plugin == PLUGIN and not rejection.resolvable
        if not rejection.resolvable and not by_devices:
            continue
        found = None
        if lowest is not None and lowest < info.priority and len(candidates) < MAX_NODES:
            found = _victims_on(attempt, state.nodes.by_name[name])
            if found is not None and by_devices and found.violations:
                protected = protected or found
                found = None
        if found is not None:
            candidates.append(found)
        elif not by_devices:
            statuses[name] = NO_VICTIMS
    if not candidates:
        if protected is not None:
            names = ", ".join(victim.key for victim in protected.victims if not is_deleting(victim.pod))
            text = f"pods {names} could make room on node {protected.node}, but a disruption budget protects them"
            diagnosis.advice = f"{diagnosis.advice}; {text}" if diagnosis.advice else text
        return None, preemption_message(diagnosis.total_nodes, statuses)
    return min(candidates, key=_cost), ""


def _ineligible(state: State, info: PodInfo) -> str | None:
    spec = info.pod.spec
    assert spec is not None
    if spec.preemptionPolicy == "Never":
        return NEVER
    nominated = state.nodes.by_name.get(info.nominated_node) if info.nominated_node else None
    if nominated is not None and any(
        is_deleting(pod.pod) and pod.priority < info.priority for pod in nominated.pods.values()
    ):
        return TERMINATING
    promise = state.nominated.get(info.uid)
    if promise is not None and any(_comes_free(state, key) for key in promise.claims):
        return TERMINATING  # its pod is gone, its devices are yet to be given back: no reason to look for more victims
    return None


def _comes_free(state: State, key: str) -> bool:
    """A claim that is still allocated, though all who had it are gone or going."""
    claim = state.claims.stored.get(key)
    if claim is None or allocation_of(claim) is None or state.claims.pending.get(uid_of(claim)):
        return False
    for entry in reserved_for(claim):
        node = state.nodes.placed.get(entry.uid)
        if node is not None and not is_deleting(node.pods[entry.uid].pod):
            return False
    return True


def _cost(candidate: Preemption) -> tuple[Any, ...]:
    """Upstream's order: broken budgets, highest victim, sum of priorities, number, and the younger victims' node first."""
    going = [victim for victim in candidate.victims if not is_deleting(victim.pod)]  # the others leave anyway
    priorities = [victim.priority for victim in going]
    top = max(priorities, default=LOWEST)
    earliest = min((_started(v) for v in going if v.priority == top), default=EPOCH)
    return (
        candidate.violations,
        top,
        sum(priority - LOWEST for priority in priorities),
        len(priorities),
        -earliest.timestamp() if earliest != EPOCH else 0,
    )


def _started(info: PodInfo) -> datetime:
    stamp: Any = info.pod.status.startTime if info.pod.status else None
    if stamp is None:
        stamp = info.pod.metadata.creationTimestamp if info.pod.metadata else None
    return stamp if isinstance(stamp, datetime) else EPOCH


def _victims_on(attempt: Attempt, node: NodeInfo) -> Preemption | None:
    """All lower-priority pods away: does it fit? Then spare as many as possible, the most important first."""
    state, info = attempt.state, attempt.info
    lower = [pod for pod in node.pods.values() if pod.priority < info.priority]
    if not lower:
        return None
    lower = list({pod.uid: pod for each in lower for pod in _with_companions(state, each)}.values())
    lower.sort(key=lambda pod: (-pod.priority, _started(pod)))
    staying = [pod for pod in lower if not is_deleting(pod.pod)]  # the others leave anyway: they are spared last
    violating, others = _split_by_budgets(staying, state.budgets.values())
    others += [pod for pod in lower if is_deleting(pod.pod)]
    victims = {pod.uid: pod for pod in lower}
    with _without(state, node, victims.values()):
        if not _fits(attempt, node):
            return None
    for pod in (*violating, *others):
        if pod.uid not in victims:
            continue
        spared = {each.uid for each in _with_companions(state, pod)}
        rest = [victim for victim in victims.values() if victim.uid not in spared]
        with _without(state, node, rest):
            if _fits(attempt, node):
                victims = {victim.uid: victim for victim in rest}
    if not victims:
        return None
    broken = sum(1 for pod in violating if pod.uid in victims)
    freed = tuple(key_of(claim) for claim in _freed_claims(state, list(victims.values())))
    return Preemption(node.name, tuple(victims.values()), broken, freed)


def _with_companions(state: State, pod: PodInfo) -> list[PodInfo]:
    """The pod and those, on whatever node, that leave when it leaves."""
    placed = state.nodes.placed
    found = (node.pods.get(uid) for uid in state.together(pod) if (node := placed.get(uid)) is not None)
    return [each for each in found if each is not None] or [pod]


def _fits(attempt: Attempt, node: NodeInfo) -> bool:
    """As `Attempt.accepts` and the allocator, with the node as it is now: spread and affinity are counted afresh upstream; here
    a node they reject for good is no candidate."""
    if node.name not in attempt.nominated:
        return _fits_now(attempt, node)
    with _promises_kept(attempt, node):
        return _fits_now(attempt, node)


@contextmanager
def _promises_kept(attempt: Attempt, node: NodeInfo) -> Iterator[None]:
    """With those that wait for the node there already, and their devices taken: a preemption is not to live on another's."""
    waiting, allocated = attempt.nominated[node.name], attempt.state.allocated
    taken: list[str] = []
    for other in waiting:
        for claim, result in _would_get(attempt, other, node):
            allocated.assume(uid_of(claim), result)
            taken.append(uid_of(claim))
        node.add(other)
    try:
        yield
    finally:
        for other in waiting:
            node.remove(other.uid)
        for uid in taken:
            allocated.forget(uid)


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


def _fits_now(attempt: Attempt, node: NodeInfo) -> bool:
    devices = attempt.devices
    if filters.dynamic(attempt.info, node, devices.provided) is not None:
        return False
    if attempt.spread is not None and attempt.spread.reject(node) is not None:
        return False
    if attempt.neighbours is not None and attempt.neighbours.reject(node) is not None:
        return False
    if not devices.needed:
        return True
    if devices.unavailable(node):
        return False
    variant = devices.variant_for(node)
    if not isinstance(variant, Variant):
        return False
    return not variant.claims or not isinstance(devices.allocate(node, variant), Failure)


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
    pods: Sequence[PodInfo], budgets: Iterable[PodDisruptionBudget]
) -> tuple[list[PodInfo], list[PodInfo]]:
    """Pods whose deletion a disruption budget no longer allows (counting the earlier ones), and the others."""
    allowed = [(b, disruptions_allowed(b)) for b in budgets]
    left = [count for _, count in allowed]
    violating: list[PodInfo] = []
    others: list[PodInfo] = []
    for pod in pods:
        broken = False
        for index, (budget, _) in enumerate(allowed):
            meta, spec = budget.metadata, budget.spec
            if meta is None or spec is None or meta.namespace != pod.namespace or not pod.labels:
                continue
            if not label_selector_matches(spec.selector, pod.labels):
                continue
            if pod.name in ((budget.status.disruptedPods if budget.status else None) or {}):
                continue  # already on its way out and counted
            left[index] -= 1
            broken = broken or left[index] < 0
        (violating if broken else others).append(pod)
    return violating, others
