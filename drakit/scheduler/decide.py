"""One decision: a pod and the state in, a Placement or a Diagnosis out. Nothing is written, and nothing stays assumed.

The search starts behind the node where the last one stopped, looks at nodes until enough fit to be compared, and asks the
allocator for devices on the best first, so that a pod costs one allocation, not one per node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any

import msgspec
from lightkube.models.resource_v1 import ResourceClaim

from drakit.allocator import Allocation, Asker, Failure
from drakit.scheduler import extended, filters, score
from drakit.scheduler.affinity import Neighbours
from drakit.scheduler.claims import PLUGIN, key_of, uid_of
from drakit.scheduler.devices import (
    CANNOT_ALLOCATE,
    NO_DEVICES,
    ExtendedClaim,
    PodDevices,
    Rejected,
    Variant,
    alternative_rank,
    has_alternatives,
)
from drakit.scheduler.nodes import Bits, NodeInfo
from drakit.scheduler.outcome import Diagnosis, Rejection, SchedulingError
from drakit.scheduler.pods import PodInfo
from drakit.scheduler.spread import Spread
from drakit.scheduler.state import Promise, State

DIAGNOSED_ALLOCATIONS = 32  # nodes asked why not; beyond these the counts alone speak
COMPARED_ALLOCATIONS = 8  # nodes allocated on when the devices decide


@dataclass(slots=True)
class Placement:
    node: str
    claims: list[ResourceClaim] = field(default_factory=list)  # of the pod, each once
    allocations: list[tuple[ResourceClaim, dict[str, Any]]] = field(default_factory=list)  # new ones, to be written
    extended: ExtendedClaim | None = None


class Attempt:
    """What one pod's filters need, computed once for all nodes. `within`: no others are there for this pod (its group's topology)."""

    def __init__(
        self,
        state: State,
        info: PodInfo,
        now: datetime,
        new_uid: Callable[[], str],
        within: Bits | None = None,
        *,
        quiet: bool = False,
    ) -> None:
        self.state, self.info, self.within, self.quiet = state, info, within, quiet
        self.devices = PodDevices(state, info, now, new_uid)
        self.fits = state.static.of(info)
        self.there = _there(state, within)
        self.bits = self.fits.bits & self.there  # of the nodes that pass the static filters
        self.spread: Spread | None = None
        self.neighbours: Neighbours | None = None
        self.nominated = _nominated_by_node(state, info) if state.nominated else {}
        self.failures: dict[str, Failure] = {}  # by node, of the allocator
        # Nothing but room on the node has to be asked: the usual case, and it is asked of every candidate.
        self._room_only = not (info.ports or self.nominated or self._is_related or self.devices.restricts_nodes)

    @property
    def _is_related(self) -> bool:
        """Where it may go depends on the pods that are there."""
        return self.info.solitary or bool(self.state.nodes.anti_affinity)

    def look_around(self) -> None:
        """Count what other pods mean to it: that takes a look at each of them."""
        if self._is_related:
            self.spread = Spread.of(self.info, self.state.nodes, self.state.static.choice(self.info))
            self.neighbours = Neighbours.of(self.info, self.state.nodes, self.state.namespaces)

    @property
    def key(self) -> object:
        """Pods with equal keys fail alike; one that waits for a node is like no other."""
        info, spec, asked = self.info, self.info.pod.spec, (self.within, self.quiet)
        if info.nominated_node or info.uid in self.state.nominated or self.devices.leftover is not None:
            return info.uid, asked
        # The namespace, because what is said of others depends on who is told; pods of groups do not preempt alone.
        return (
            info.namespace,
            info.shape,
            self.devices.signature(),
            info.priority,
            spec.preemptionPolicy if spec else None,
            info.group is not None,
            self._relations(),
            asked,
        )

    def _relations(self) -> object:
        """What other pods are to it, and it to them."""
        if not self._is_related:
            return ()
        info, spec = self.info, self.info.pod.spec
        rules = (spec.affinity, spec.topologySpreadConstraints) if spec is not None and info.solitary else ()
        return frozenset(info.labels.items()), msgspec.json.encode(rules)

    def accepts(self, node: NodeInfo) -> bool:
        """All filters but the allocator; the static ones have spoken already."""
        info = self.info
        if self._room_only:
            return filters.fits_resources(info, node, self.devices.provided)
        if info.ports and node.has_port_conflict(info.ports):
            return False
        if not filters.fits_resources(info, node, self.devices.provided):
            return False
        if self.nominated and self.promised(node) is not None:
            return False
        if self.spread is not None and self.spread.reject(node) is not None:
            return False
        if self.neighbours is not None and self.neighbours.reject(node) is not None:
            return False
        return not self.devices.needed or not self.devices.unavailable(node)

    def promised(self, node: NodeInfo) -> Rejection | None:
        """Pods of at least this priority that wait for their victims to leave the node count as there (upstream: nominated pods);
        the devices that come free are theirs."""
        waiting = self.nominated.get(node.name)
        if not waiting:
            return None
        if self.devices.unallocated or self.devices.provided:
            for other in waiting:
                if self.state.takes_devices(other):
                    text = f"what comes free on node {node.name} is promised to {other.told(self.info.namespace)}"
                    return Rejection(PLUGIN, (CANNOT_ALLOCATE,), details=text)
        for other in waiting:
            node.add(other)
        try:
            return filters.dynamic(self.info, node, self.devices.provided)
        finally:
            for other in waiting:
                node.remove(other.uid)

    def nearest(self, count: int) -> list[NodeInfo] | None:
        """The first candidates that accept the pod, in one go, when nothing but room is to be asked and they all have it.

        None: look at `candidates` one by one.
        """
        single = self.devices.single_variant if self._room_only and not self.info.nominated_node else None
        if self.within is not None or single is None or single.feasible is None:
            return None
        names = single.feasible.some(self.state.last_node, count)
        if len(names) < count:
            return None
        nodes, info, provided = self.state.nodes, self.info, self.devices.provided
        bits = self.bits
        everywhere = bits == nodes.present
        found = []
        for name in names:
            node = nodes.by_name.get(name)
            if node is None or node.node is None or not (everywhere or bits >> node.slot & 1):
                return None
            if not filters.fits_resources(info, node, provided):
                return None
            found.append(node)
        return found

    def candidates(self) -> Iterator[NodeInfo]:
        """Nodes that pass the static filters and may have the devices, from where the last search stopped."""
        nodes, bits = self.state.nodes, self.bits
        for name in dict.fromkeys((self.info.nominated_node, self.devices.only_node() or "")):
            if name and (node := nodes.by_name.get(name)) is not None and bits >> node.slot & 1:
                yield node
        if self.devices.only_node() is not None:
            return
        single = self.devices.single_variant
        feasible = single.feasible if single is not None else None
        if feasible is not None and self.within is None:
            for name in feasible.after(self.state.last_node):
                found = nodes.by_name.get(name)
                if found is not None and bits >> found.slot & 1:
                    yield found
            return
        last = nodes.by_name.get(self.state.last_node)
        start = last.slot + 1 if last is not None else 0
        for node in chain(nodes.of(bits >> start << start), nodes.of(bits & ((1 << start) - 1))):
            if feasible is None or node.name in feasible:
                yield node


def _there(state: State, within: Bits | None) -> Bits:
    return state.nodes.present if within is None else state.nodes.present & within


def _nominated_by_node(state: State, info: PodInfo) -> dict[str, list[PodInfo]]:
    """Whom the pod has to leave room for."""
    found: dict[str, list[PodInfo]] = {}
    for promise in _ahead(state, info):
        found.setdefault(promise.node, []).append(promise.info)
    return found


def _ahead(state: State, info: PodInfo) -> Iterator[Promise]:
    """Promises that go before. Among equals the earlier one counts, so that two do not wait for each other."""
    earlier = True
    for uid, promise in state.nominated.items():
        priority = promise.info.priority
        if uid == info.uid:
            earlier = False
        elif priority > info.priority or (earlier and priority == info.priority):
            yield promise


@contextmanager
def promises_held(state: State, info: PodInfo) -> Iterator[None]:
    """With the devices taken that others wait for and any node can have; those of one node are kept by `Attempt.promised`."""
    taken: list[str] = []
    for promise in _ahead(state, info):
        for index, result in enumerate(promise.holds):
            taken.append(f"promise-{promise.info.uid}-{index}")
            state.allocated.assume(taken[-1], result, holder=promise.info.key)
    try:
        yield
    finally:
        for uid in taken:
            state.allocated.forget(uid)


def decide(
    state: State,
    info: PodInfo,
    now: datetime,
    new_uid: Callable[[], str],
    within: Bits | None = None,
    *,
    quiet: bool = False,
) -> tuple[Placement | Diagnosis, Attempt | None]:
    """SchedulingError when the attempt failed rather than found nothing. `within`: on these nodes only; `quiet`: nobody will ask
    why there was no place."""
    if not state.nominated:
        return _decide(state, info, now, new_uid, within, quiet=quiet)
    with promises_held(state, info):
        return _decide(state, info, now, new_uid, within, quiet=quiet)


def _decide(
    state: State, info: PodInfo, now: datetime, new_uid: Callable[[], str], within: Bits | None, *, quiet: bool
) -> tuple[Placement | Diagnosis, Attempt | None]:
    nodes = _there(state, within).bit_count()
    try:
        attempt = Attempt(state, info, now, new_uid, within, quiet=quiet)
    except Rejected as rejected:
        return Diagnosis(nodes, prefilter=rejected.rejection), None
    if (kept := _kept_for_another(attempt)) is not None:
        return Diagnosis(nodes, prefilter=kept), None
    if (known := state.known_failure(attempt.key)) is not None:
        return known.retold(attempt.devices.names), None
    attempt.look_around()
    placement = _search(attempt) or _search_for_a_time(attempt)
    if placement is not None:
        return placement, attempt
    return Diagnosis(nodes, claims=attempt.devices.names) if quiet else diagnose(attempt), attempt


def _kept_for_another(attempt: Attempt) -> Rejection | None:
    """A claim that comes free for a pod that goes before finds no new users: its victims' successors would keep it for ever."""
    state, mine = attempt.state, {key_of(claim) for claim in attempt.devices.allocated}
    for promise in _ahead(state, attempt.info) if mine else ():
        if (found := mine.intersection(promise.claims)) and state.takes_devices(promise.info):
            text = f"claim {min(found)} is to come free for {promise.info.told(attempt.info.namespace)}"
            return Rejection(PLUGIN, ("resourceclaim in use",), details=text)
    return None


def _search_for_a_time(attempt: Attempt) -> Placement | None:
    """Devices that taints make the pod leave again, at once perhaps: Kubernetes gives them as if they were any others."""
    if not attempt.devices.choosy:
        return None
    failures, attempt.failures, attempt.devices.to_stay = attempt.failures, {}, False
    try:
        return _search(attempt)
    finally:
        attempt.failures, attempt.devices.to_stay = failures, True


def _search(attempt: Attempt) -> Placement | None:
    sample = attempt.state.policy.sample
    near = attempt.nearest(sample)
    if near is not None and (placement := _best_of(attempt, near)) is not None:
        return placement
    batch: list[NodeInfo] = []
    tried: set[str] = set()
    for node in attempt.candidates():
        if node.name in tried or not attempt.accepts(node):
            continue
        tried.add(node.name)
        batch.append(node)
        if node.name == attempt.info.nominated_node or len(batch) >= sample:
            if (placement := _best_of(attempt, batch)) is not None:
                return placement
            batch = []
    return _best_of(attempt, batch) if batch else None


def _best_of(attempt: Attempt, batch: list[NodeInfo]) -> Placement | None:
    state = attempt.state
    order = score.best_first(
        attempt.info,
        batch,
        placement=state.policy.placement,
        choice=state.static.choice(attempt.info),
        spread=attempt.spread,
        neighbours=attempt.neighbours,
    )
    if state.partitions or has_alternatives(attempt.devices.unallocated):
        return _best_by_devices(attempt, batch, order)
    for index in order:
        node = batch[index]
        found = _allocate(attempt, node)
        if found is not None:
            state.last_node = batch[-1].name if len(batch) > 1 else node.name
            return _placement(attempt, node, *found)
    return None


def _best_by_devices(attempt: Attempt, batch: list[NodeInfo], order: list[int]) -> Placement | None:
    """Where the devices themselves differ: a node with the better alternative of firstAvailable, or where a partition leaves
    the least over, beats one with more room."""
    state = attempt.state
    alternatives = has_alternatives(attempt.devices.unallocated)
    fitting: list[tuple[NodeInfo, Allocation | None, Variant | None]] = []
    for index in order:
        found = _allocate(attempt, batch[index])
        if found is None:
            continue
        fitting.append((batch[index], *found))
        if len(fitting) >= COMPARED_ALLOCATIONS or not (alternatives or _fullness(state, found[0])):
            break
    if not fitting:
        return None
    ranks = [alternative_rank(v.claims, a.results) if a and v else 0 for _, a, v in fitting]
    best = score.best_first(
        attempt.info,
        [node for node, _, _ in fitting],
        placement=state.policy.placement,
        choice=state.static.choice(attempt.info),
        spread=attempt.spread,
        neighbours=attempt.neighbours,
        extras=(ranks, [_fullness(state, allocation) for _, allocation, _ in fitting]),
    )[0]
    node, allocation, variant = fitting[best]
    state.last_node = node.name
    return _placement(attempt, node, allocation, variant)


def _fullness(state: State, allocation: Allocation | None) -> int:
    return state.partitions.fullness(allocation.results) if allocation is not None else 0


def _allocate(attempt: Attempt, node: NodeInfo) -> tuple[Allocation | None, Variant | None] | None:
    """Devices on the node: (None, None) when none are needed, None when there are not enough."""
    devices = attempt.devices
    if not devices.needed:
        return None, None
    variant = devices.variant_for(node)
    if not isinstance(variant, Variant):
        return None
    if not variant.claims:
        return None, variant
    if variant.feasible is not None and node.name not in variant.feasible:
        return None
    outcome = devices.allocate(node, variant)
    if isinstance(outcome, Failure):
        attempt.failures[node.name] = outcome
        return None
    return outcome, variant


def _placement(attempt: Attempt, node: NodeInfo, allocation: Allocation | None, variant: Variant | None) -> Placement:
    claims = list({uid_of(claim): claim for claim in attempt.devices.claims}.values())
    placement = Placement(node.name, claims)
    if allocation is not None and variant is not None:
        taken: set[str] = set()
        for claim, result in zip(variant.claims, allocation.results, strict=True):
            if (uid := uid_of(claim)) not in taken:  # one claim under two names is written once
                taken.add(uid)
                placement.allocations.append((claim, result))
        placement.extended = variant.extended
    return placement


# -- no node


def diagnose(attempt: Attempt) -> Diagnosis:
    """Why not, node by node, as Kubernetes words it. Raises what upstream treats as an error of the whole attempt."""
    state = attempt.state
    diagnosis = Diagnosis(attempt.there.bit_count(), claims=attempt.devices.names)
    best: Failure | None = None  # of the node that lacks least
    budget = DIAGNOSED_ALLOCATIONS
    for node in state.nodes.of(attempt.there):
        rejection = attempt.fits.rejections.get(node.slot) or _dynamic_rejection(attempt, node)
        if rejection is None:
            rejection = _device_rejection(attempt, node, may_allocate=budget > 0)
            if (failure := attempt.failures.get(node.name)) is not None:
                budget -= 1
                if best is None or failure.lacking < best.lacking:
                    best = failure
        diagnosis.rejections[node.name] = rejection
    _raise_errors(attempt)
    if best is not None:
        diagnosis.advice = _advice(attempt, state.nodes.by_name[best.node])
    return diagnosis


def _dynamic_rejection(attempt: Attempt, node: NodeInfo) -> Rejection | None:
    rejection = filters.dynamic(attempt.info, node, attempt.devices.provided)
    if rejection is None and attempt.nominated:
        rejection = attempt.promised(node)
    if rejection is None and attempt.spread is not None:
        rejection = attempt.spread.reject(node)
    if rejection is None and attempt.neighbours is not None:
        rejection = attempt.neighbours.reject(node)
    return rejection


def _device_rejection(attempt: Attempt, node: NodeInfo, *, may_allocate: bool) -> Rejection:
    variant = attempt.devices.variant_for(node)
    if not isinstance(variant, Variant):
        return variant
    if variant.claims:
        failure = attempt.failures.get(node.name)
        if failure is None and may_allocate:
            outcome = attempt.devices.allocate(node, variant)
            if isinstance(outcome, Failure):
                attempt.failures[node.name] = failure = outcome
        if failure is not None:
            text = failure.message if failure.kind == "invalid" else CANNOT_ALLOCATE
            return Rejection(PLUGIN, (text,))
        if not may_allocate and variant.feasible is not None and node.name not in variant.feasible:
            return NO_DEVICES
    return attempt.devices.not_available if attempt.devices.unavailable(node) else NO_DEVICES


def _raise_errors(attempt: Attempt) -> None:
    for failure in attempt.failures.values():
        if failure.kind == "error":
            raise SchedulingError(f'running "{PLUGIN}" filter plugin: {failure.message}')
    for failure in attempt.failures.values():
        if failure.kind == "gave-up":
            raise SchedulingError(
                f'running "{PLUGIN}" filter plugin: node {failure.node}: timed out trying to allocate devices'
            )


def _of_its_group(attempt: Attempt) -> frozenset[str]:
    """Claims that are being allocated for pods of the same group: nobody else to be named, nothing to be freed."""
    state, group = attempt.state, attempt.info.group
    if group is None:
        return frozenset()

    def mate(uid: str) -> bool:
        node = state.nodes.placed.get(uid)
        return node is not None and node.pods[uid].group == group

    return frozenset(uid for uid, flight in state.claims.in_flight.items() if all(map(mate, flight.sharers)))


def _advice(attempt: Attempt, node: NodeInfo) -> str:
    failure = attempt.failures[node.name]
    explanation = failure.explain(Asker(_of_its_group(attempt), attempt.info.namespace))
    parts = [blocker.text for blocker in explanation.blockers[:2]] or [explanation.summary]
    parts += [suggestion.text for suggestion in explanation.suggestions[:1]]
    text = f"node {failure.node}: {'; '.join(part for part in parts if part)}"
    variant = attempt.devices.variant_for(node)
    if isinstance(variant, Variant) and variant.extended is not None:
        return extended.in_the_users_words(text, attempt.info.namespace, variant.extended.mappings)
    return text
