"""The devices of one pod during one decision (upstream: DynamicResources' PreFilter and Filter).

Allocated claims restrict the nodes; unallocated ones go to the allocator, all together per node. With extended resources the
list of claims differs between nodes: a *variant* is one such list with the nodes on which it may fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec
from lightkube.models.core_v1 import NodeSelector
from lightkube.models.resource_v1 import AllocationResult, DeviceRequest, ResourceClaim

from drakit.allocator import Allocation, Budget, Failure, NodeSet, allocate, feasible_nodes
from drakit.api.typed import from_plain
from drakit.scheduler import extended
from drakit.scheduler.claims import (
    MAX_RESERVATIONS,
    PLUGIN,
    BindingFailed,
    ClaimLookupError,
    allocation_of,
    binding_overdue,
    has_binding_conditions,
    key_of,
    ready_to_bind,
    single_node,
    uid_of,
)
from drakit.scheduler.evicting import lasting, tell_tolerations
from drakit.scheduler.nodes import NodeInfo
from drakit.scheduler.outcome import Rejection, SchedulingError
from drakit.scheduler.pods import PodInfo
from drakit.scheduler.selectors import node_selector_matches
from drakit.scheduler.state import State

CANNOT_ALLOCATE = "cannot allocate all claims"
NOT_AVAILABLE = Rejection(PLUGIN, ("resourceclaim not available on the node",))
LEFTOVER = Rejection(PLUGIN, ("cannot schedule extended resource claim",))
CANNOT_FIT = Rejection(PLUGIN, ("cannot fit resource",))
NO_DEVICES = Rejection(PLUGIN, (CANNOT_ALLOCATE,))


@dataclass(frozen=True, slots=True, eq=False)
class ExtendedClaim:
    """The claim for a pod's extended resources on one kind of node, as it will be created."""

    claim: ResourceClaim
    plain: dict[str, Any]
    mappings: list[extended.Mapped]


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    claims: list[ResourceClaim]  # to allocate, in order
    extended: ExtendedClaim | None
    feasible: NodeSet | None  # None: nothing to allocate


class Rejected(Exception):
    """The pod cannot be placed whatever the node (PreFilter)."""

    def __init__(self, rejection: Rejection) -> None:
        super().__init__(rejection.reasons[0])
        self.rejection = rejection


class PodDevices:
    def __init__(self, state: State, info: PodInfo, now: datetime, new_uid: Callable[[], str]) -> None:
        self._state, self._info, self._now, self._new_uid = state, info, now, new_uid
        try:
            self.claims = state.claims.of(info) if info.claims else []
        except ClaimLookupError as error:
            raise Rejected(Rejection(PLUGIN, (str(error),))) from error
        self.provided = self._provided_resources()
        self.leftover = state.claims.extended_claim(info.uid) if self.provided else None
        self.unallocated: list[ResourceClaim] = []
        self.allocated: list[ResourceClaim] = []
        self._selectors: list[tuple[ResourceClaim, NodeSelector]] = []
        self._unusable: list[ResourceClaim] = []  # on any node
        self.not_available = NOT_AVAILABLE
        self.to_stay = True  # look for devices only that no taint makes the pod leave again
        for claim in self.claims:
            if state.claims.is_allocated(claim):
                self._use_allocated(claim)
            else:
                self._check_classes(claim)
                self.unallocated.append(claim)
        self._variants: dict[tuple[frozenset[str], bool], Variant] = {}
        self.choosy = self._tells_taints_apart() and tolerates_anything(self.unallocated)

    def of(self, info: PodInfo) -> PodDevices:
        """The devices of another pod, seen from the same decision."""
        return PodDevices(self._state, info, self._now, self._new_uid)

    @property
    def needed(self) -> bool:
        return bool(self.claims or self.provided)

    @property
    def restricts_nodes(self) -> bool:
        """Some allocated claim may be out of a node's reach (`unavailable`)."""
        return bool(self._selectors or self._unusable)

    @property
    def single_variant(self) -> Variant | None:
        """The one variant of a pod without extended resources."""
        return None if self.provided else self.variant(frozenset())

    def only_node(self) -> str | None:
        """An allocated claim that lives on one node leaves no other choice."""
        for _, selector in self._selectors:
            if (name := single_node(selector)) is not None:
                return name
        return None

    @property
    def names(self) -> tuple[str, ...]:
        """Of the claims without devices, as messages have them."""
        return tuple(key_of(claim) for claim in self.unallocated)

    def signature(self) -> tuple[object, ...]:
        """Equal for pods that differ only in the names of their claims."""
        return (
            tuple(msgspec.json.encode(claim.spec) for claim in self.unallocated),
            tuple(uid_of(claim) for claim in self.allocated),
            self.provided,
            extended.asked(self._info.pod) if self.provided else (),
        )

    def variant_for(self, node: NodeInfo) -> Variant | Rejection:
        if not self.provided:
            return self.variant(frozenset())
        if self.leftover is not None:
            return LEFTOVER
        by_devices = []
        for resource in self._info.requests:
            if not extended.is_extended(resource):
                continue
            if resource in self.provided and not node.allocatable.get(resource, 0):
                by_devices.append(resource)
            elif resource not in node.allocatable:
                return CANNOT_FIT
        return self.variant(frozenset(by_devices))

    def variant(self, resources: frozenset[str]) -> Variant:
        found = self._variants.get((resources, self.to_stay))
        if found is None:
            made = self._extended_claim(resources) if resources else None
            claims = [*self.unallocated, made.claim] if made else self.unallocated
            state = self._state
            feasible = (
                feasible_nodes(state.inventory, state.allocated, self._asked(claims), features=state.features)
                if claims
                else None
            )
            found = self._variants[resources, self.to_stay] = Variant(claims, made, feasible)
        return found

    def unavailable(self, node: NodeInfo) -> list[ResourceClaim]:
        """Allocated claims that cannot be used on the node."""
        found = list(self._unusable)
        for claim, selector in self._selectors:
            if claim not in found and not node_selector_matches(selector, node.labels, node.name):
                found.append(claim)
        return found

    def allocate(self, node: NodeInfo, variant: Variant) -> Allocation | Failure:
        assert node.node is not None
        state = self._state
        budget = Budget(seconds=state.policy.filter_timeout, steps=1 << 30, clock=state.policy.clock)
        asked = self._asked(variant.claims)
        outcome = allocate(state.inventory, state.allocated, node.node, asked, features=state.features, budget=budget)
        if asked is not variant.claims and isinstance(outcome, Allocation):
            for claim, result in zip(variant.claims, outcome.results, strict=True):
                tell_tolerations(claim, result)
        return outcome

    def _asked(self, claims: list[ResourceClaim]) -> list[ResourceClaim]:
        return [lasting(claim) for claim in claims] if self.choosy and self.to_stay else claims

    # -- preparation

    def _provided_resources(self) -> frozenset[str]:
        requests = self._info.requests
        if not self._state.gates.enabled("DRAExtendedResource") or not any("/" in name for name in requests):
            return frozenset()
        return self._state.resources.provided([name for name in requests if extended.is_extended(name)])

    def _use_allocated(self, claim: ResourceClaim) -> None:
        state = self._state
        self.allocated.append(claim)
        if (selector := state.claims.node_selector(claim)) is not None:
            self._selectors.append((claim, selector))
        consumers = state.claims.consumers(claim)
        if len(consumers) >= MAX_RESERVATIONS and state.consumer(self._info, claim)["uid"] not in consumers:
            raise Rejected(
                Rejection(
                    PLUGIN,
                    ("resourceclaim in use",),
                    details=f"claim {key_of(claim)} is reserved for {MAX_RESERVATIONS} pods, the most there may be",
                )
            )
        if state.binding_conditions and allocation_of(claim) is not None and has_binding_conditions(claim):
            try:
                late = not ready_to_bind(claim) and binding_overdue(claim, self._now, state.policy.binding_timeout)
            except BindingFailed:
                late = True
            if late:
                self._unusable.append(claim)
        if (why := self._driven_away(allocation_of(claim))) is not None:
            self._unusable.append(claim)
            self.not_available = replace(NOT_AVAILABLE, details=f"claim {key_of(claim)} has to come free first: {why}")

    def _driven_away(self, allocation: AllocationResult | None) -> str | None:
        """Why a pod that came to these devices now would be evicted at once, as often as it came."""
        if allocation is None or allocation.devices is None or not self._tells_taints_apart():
            return None
        found = self._state.evicting.first(allocation.devices.results or ())
        return found[1] if found is not None and found[0] <= self._now else None

    def _tells_taints_apart(self) -> bool:
        return bool(self._state.evicting) and self._state.features.DeviceTaints

    def _check_classes(self, claim: ResourceClaim) -> None:
        for request in requests_of(claim):
            if request.exactly is not None:
                self._check_class(request.name, request.exactly.deviceClassName)
            elif request.firstAvailable:
                if not self._state.features.PrioritizedList:
                    where = f"resource claim {key_of(claim)}, request {request.name}"
                    text = f"{where}: has subrequests, but the DRAPrioritizedList feature is disabled"
                    raise Rejected(Rejection(PLUGIN, (text,)))
                for sub in request.firstAvailable:
                    self._check_class(f"{request.name}/{sub.name}", sub.deviceClassName)
            else:
                text = f"resource claim {key_of(claim)}, request {request.name}: unknown request type"
                raise Rejected(Rejection(PLUGIN, (text,)))

    def _check_class(self, request: str, name: str) -> None:
        if not name:
            raise SchedulingError(f'running PreFilter plugin "{PLUGIN}": request {request}: unsupported request type')
        if name not in self._state.classes:
            raise Rejected(Rejection(PLUGIN, (f"request {request}: device class {name} does not exist",)))

    def _extended_claim(self, resources: frozenset[str]) -> ExtendedClaim:
        classes = {name: self._state.resources.class_name(name) or "" for name in resources}
        requests, mappings = extended.requests_and_mappings(self._info.pod, classes)
        plain = extended.claim_for(self._info.pod, self._new_uid(), requests)
        return ExtendedClaim(from_plain(ResourceClaim, plain), plain, mappings)


def requests_of(claim: ResourceClaim) -> Sequence[DeviceRequest]:
    return (claim.spec.devices.requests if claim.spec and claim.spec.devices else None) or ()


def alternative_rank(claims: Sequence[ResourceClaim], results: Sequence[dict[str, Any]]) -> int:
    """DynamicResources' score: 8 for the first alternative of each firstAvailable request, 7 for the second, …"""
    total = 0
    for claim, result in zip(claims, results, strict=True):
        chosen = {r["request"] for r in result.get("devices", {}).get("results", ())}
        for request in requests_of(claim):
            for index, sub in enumerate(request.firstAvailable or ()):
                if f"{request.name}/{sub.name}" in chosen:
                    total += 8 - index
                    break
    return total


def has_alternatives(claims: Sequence[ResourceClaim]) -> bool:
    return any(request.firstAvailable for claim in claims for request in requests_of(claim))


def tolerates_anything(claims: Sequence[ResourceClaim]) -> bool:
    """Some request could be given devices that are tainted."""
    return any(
        each.tolerations
        for claim in claims
        for request in requests_of(claim)
        for each in (request.exactly, *(request.firstAvailable or ()))
        if each is not None
    )
