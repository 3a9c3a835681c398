"""The claims as the scheduler believes them: what the API server stores plus allocations that are decided but not yet written.

Unlike upstream, a claim in the course of being allocated is as good as allocated to the next pod: that pod's reservation simply
waits for the write (binding.py) and is undone with it. So five pods on one new claim need no five rounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from lightkube.models.core_v1 import NodeSelector, Pod, PodResourceClaim
from lightkube.models.resource_v1 import DeviceRequestAllocationResult, ResourceClaim
from lightkube.models.scheduling_v1beta1 import PodGroup

from drakit.allocator import Allocated
from drakit.api.typed import from_plain
from drakit.scheduler.extended import CLAIM_ANNOTATION
from drakit.scheduler.partitions import Device, Partitions
from drakit.scheduler.pods import PodInfo

FINALIZER = "resource.kubernetes.io/delete-protection"
MAX_RESERVATIONS = 256  # ResourceClaimReservedForMaxSize
PLUGIN = "DynamicResources"


class ClaimLookupError(Exception):
    """A claim of the pod cannot be used yet: the pod is kept out of the queue (PreEnqueue) until that changes."""

    def __init__(self, text: str, keys: Iterable[str] = ()) -> None:
        super().__init__(text)
        self.keys = tuple(keys)  # claims whose change may help


@dataclass(slots=True, eq=False)
class InFlight:
    """An allocation that is held in memory while it is being written."""

    claim: ResourceClaim
    result: Mapping[str, Any]
    selector: NodeSelector | None
    sharers: set[str] = field(default_factory=set)  # UIDs of the pods that count on it


class Claims:
    def __init__(self, allocated: Allocated, partitions: Partitions) -> None:
        self.allocated = allocated
        self.partitions = partitions
        self.stored: dict[str, ResourceClaim] = {}
        self.in_flight: dict[str, InFlight] = {}  # by claim UID
        self.pending: dict[str, dict[str, str]] = {}  # claim UID -> pods whose reservation is being written -> for whom
        self._movable: dict[str, ResourceClaim] = {}  # by UID: stored, with devices that more than one node can have
        self._extended: dict[str, ResourceClaim] = {}  # pod UID -> its stored extended-resource claim

    # -- what the API server has

    def set(self, claim: ResourceClaim) -> None:
        key, uid, allocation = key_of(claim), uid_of(claim), allocation_of(claim)
        old = self.stored.get(key)
        if old is not None and uid_of(old) != uid:
            self.remove(old)
        self.stored[key] = claim
        self.allocated.set_claim(claim)
        if self.partitions and (uid not in self.in_flight or allocation is not None):
            self.partitions.hold(uid, devices_of(claim))
        self._movable.pop(uid, None)
        if allocation is not None and is_movable(allocation.nodeSelector):
            self._movable[uid] = claim
        if owner := extended_owner(claim):
            self._extended[owner] = claim

    def remove(self, claim: ResourceClaim) -> None:
        key, uid = key_of(claim), uid_of(claim)
        if (known := self.stored.get(key)) is not None and uid_of(known) == uid:
            del self.stored[key]
        self.allocated.remove_claim(uid)
        self.partitions.release(uid)
        self.in_flight.pop(uid, None)
        self._movable.pop(uid, None)
        owner = extended_owner(claim)
        if (latest := self._extended.get(owner)) is not None and uid_of(latest) == uid:
            del self._extended[owner]

    def extended_claim(self, pod_uid: str) -> ResourceClaim | None:
        return self._extended.get(pod_uid)

    # -- what is decided

    def assume(self, claim: ResourceClaim, result: Mapping[str, Any], pod_uid: str) -> InFlight:
        uid = uid_of(claim)
        flight = self.in_flight.get(uid)
        if flight is None:
            selector = result.get("nodeSelector")
            flight = InFlight(claim, result, from_plain(NodeSelector, selector) if selector else None)
            self.in_flight[uid] = flight
            self.allocated.assume(uid, result, holder=key_of(claim))
            if self.partitions:
                results = result.get("devices", {}).get("results", ())
                self.partitions.hold(uid, [(r["driver"], r["pool"], r["device"]) for r in results])
        flight.sharers.add(pod_uid)
        return flight

    def share(self, uid: str, pod_uid: str, consumer_uid: str = "") -> None:
        """The pod uses a claim, allocated or in flight; its reservation (or its group's) counts from now on."""
        self.pending.setdefault(uid, {})[pod_uid] = consumer_uid or pod_uid
        if (flight := self.in_flight.get(uid)) is not None:
            flight.sharers.add(pod_uid)

    def unshare(self, uid: str, pod_uid: str) -> None:
        if (pods := self.pending.get(uid)) is not None:
            pods.pop(pod_uid, None)
            if not pods:
                del self.pending[uid]
        if (flight := self.in_flight.get(uid)) is not None:
            flight.sharers.discard(pod_uid)
            if not flight.sharers:
                self.forget(uid)

    def forget(self, uid: str) -> None:
        """The allocation is not in memory only any more: it is written, or given up."""
        if self.in_flight.pop(uid, None) is not None:
            self.allocated.forget(uid)
            self.partitions.release(uid)

    def landed(self, uid: str) -> None:
        """The allocation is written and known through `set`; nothing is assumed any more."""
        self.in_flight.pop(uid, None)

    def restore(self, claim: ResourceClaim) -> None:
        """After a trial without it its devices are held as before."""
        uid, stored = uid_of(claim), self.stored.get(key_of(claim))
        flight = self.in_flight.get(uid)
        if stored is not None and uid_of(stored) == uid and allocation_of(stored) is not None:
            self.allocated.set_claim(stored)
        elif flight is not None:
            self.allocated.assume(uid, flight.result, holder=key_of(claim))

    # -- questions

    def movable(self) -> Iterator[tuple[NodeSelector | None, Iterable[str]]]:
        """Where devices can be had that more than one node can have, and the UIDs of those who have them."""
        for claim in self._movable.values():
            yield allocation_of(claim).nodeSelector, self.consumers(claim)
        for flight in self.in_flight.values():
            if is_movable(flight.selector):
                yield flight.selector, flight.sharers

    def by_pods_in_flight(self) -> dict[str, list[ResourceClaim]]:
        found: dict[str, list[ResourceClaim]] = {}
        for flight in self.in_flight.values():
            for uid in flight.sharers:
                found.setdefault(uid, []).append(flight.claim)
        return found

    def is_allocated(self, claim: ResourceClaim) -> bool:
        return allocation_of(claim) is not None or uid_of(claim) in self.in_flight

    def node_selector(self, claim: ResourceClaim) -> NodeSelector | None:
        if (allocation := allocation_of(claim)) is not None:
            return allocation.nodeSelector  # type: ignore[no-any-return] # lightkube's models are untyped here
        return self.in_flight[uid_of(claim)].selector

    def consumers(self, claim: ResourceClaim) -> frozenset[str]:
        """UIDs of those that the claim is reserved for, or will be."""
        return frozenset((*(e.uid for e in reserved_for(claim)), *self.pending.get(uid_of(claim), {}).values()))

    def of(self, info: PodInfo) -> list[ResourceClaim]:
        """The pod's claims in the order of its spec; ClaimLookupError when one is not there to be used."""
        found = []
        for entry in info.claims:
            name, generated = claim_name(info.pod, entry)
            if name is None:
                if generated:
                    continue  # status says that this entry needs no claim
                raise ClaimLookupError(f'pod "{info.key}": ResourceClaim not created yet')
            key = f"{info.namespace}/{name}"
            claim = self.stored.get(key)
            if claim is None:
                raise ClaimLookupError(f'could not find ResourceClaim "{key}"', [key])
            if claim.metadata is not None and claim.metadata.deletionTimestamp is not None:
                raise ClaimLookupError(f'resourceclaim "{name}" is being deleted', [key])
            if generated and not _belongs(info, claim):
                raise ClaimLookupError(
                    f"ResourceClaim {key} was not created for Pod {info.key} (Pod is not owner)", [key]
                )
            found.append(claim)
        return found

    def keys_of(self, info: PodInfo) -> Iterator[str]:
        for entry in info.claims:
            name, _ = claim_name(info.pod, entry)
            if name is not None:
                yield f"{info.namespace}/{name}"


def key_of(claim: ResourceClaim) -> str:
    assert claim.metadata is not None
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


def uid_of(claim: ResourceClaim) -> str:
    assert claim.metadata is not None
    return claim.metadata.uid or ""


def allocation_of(claim: ResourceClaim) -> Any:
    return claim.status.allocation if claim.status else None


def results_of(claim: ResourceClaim) -> list[DeviceRequestAllocationResult]:
    allocation = allocation_of(claim)
    return _results(allocation) if allocation is not None else []


def devices_of(claim: ResourceClaim) -> list[Device]:
    return [(r.driver, r.pool, r.device) for r in results_of(claim)]


def single_node(selector: NodeSelector) -> str | None:
    """The name in a selector of the form `metadata.name In [node]`: what node-local devices get."""
    if len(selector.nodeSelectorTerms) != 1:
        return None
    fields = selector.nodeSelectorTerms[0].matchFields
    if fields and len(fields) == 1 and fields[0].operator == "In" and fields[0].values and len(fields[0].values) == 1:
        return str(fields[0].values[0])
    return None


def is_movable(selector: NodeSelector | None) -> bool:
    """Of an allocation: its devices are not those of one node."""
    return selector is None or single_node(selector) is None


def reserved_for(claim: ResourceClaim) -> list[Any]:
    return list((claim.status.reservedFor if claim.status else None) or ())


def extended_owner(claim: ResourceClaim) -> str:
    """UID of the pod that the claim of extended resources was made for; empty for other claims."""
    meta = claim.metadata
    if meta is None or (meta.annotations or {}).get(CLAIM_ANNOTATION) != "true":
        return ""
    return next((o.uid for o in meta.ownerReferences or () if o.controller and o.kind == "Pod"), "")


def claim_name(pod: Pod, entry: PodResourceClaim) -> tuple[str | None, bool]:
    """The claim's name, and whether it was generated for the pod. (None, True): the pod needs none; (None, False): not made yet."""
    if entry.resourceClaimName is not None:
        return entry.resourceClaimName, False
    for status in (pod.status.resourceClaimStatuses if pod.status else None) or ():
        if status.name == entry.name:
            return status.resourceClaimName, True
    return None, False


def is_groups(entry: PodResourceClaim, group: PodGroup) -> bool:
    """An entry that the pod's group has too (same name, same source) is the group's claim."""
    return any(
        (other.name, other.resourceClaimName, other.resourceClaimTemplateName)
        == (entry.name, entry.resourceClaimName, entry.resourceClaimTemplateName)
        for other in (group.spec.resourceClaims if group.spec else None) or ()
    )


def _belongs(info: PodInfo, claim: ResourceClaim) -> bool:
    """Controlled by the pod, or by its PodGroup (whose UID pods do not know)."""
    for owner in (claim.metadata.ownerReferences if claim.metadata else None) or ():
        if owner.controller:
            if owner.uid == info.uid:
                return True
            return owner.kind == "PodGroup" and info.group == f"{info.namespace}/{owner.name}"
    return False


# -- binding conditions (reference: KEP-5007)


def has_binding_conditions(claim: ResourceClaim) -> bool:
    return any(r.bindingConditions for r in results_of(claim))


def _results(allocation: Any) -> list[DeviceRequestAllocationResult]:
    return list((allocation.devices.results if allocation.devices else None) or ())


class BindingFailed(Exception):
    """A driver reported that it cannot make the device ready."""


def ready_to_bind(claim: ResourceClaim) -> bool:
    """Every device's binding conditions are True; BindingFailed when a failure condition is."""
    allocation = allocation_of(claim)
    if allocation is None:
        return False
    ready = True
    for result in _results(allocation):
        if not result.bindingConditions:
            continue
        conditions = _device_conditions(claim, result)
        if conditions is None:
            return False
        for name in result.bindingFailureConditions or ():
            condition = conditions.get(name)
            if condition is not None and condition.status == "True":
                assert claim.metadata is not None
                raise BindingFailed(
                    f"device binding failed: claim={claim.metadata.name}, reason={condition.reason}, "
                    f'message="{condition.message}"'
                )
        ready = ready and all(
            (found := conditions.get(name)) is not None and found.status == "True" for name in result.bindingConditions
        )
    return ready


def _device_conditions(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> dict[str, Any] | None:
    for device in (claim.status.devices if claim.status else None) or ():
        if (device.driver, device.pool, device.device) == (result.driver, result.pool, result.device):
            return {condition.type: condition for condition in device.conditions or ()}
    return None


def binding_overdue(claim: ResourceClaim, now: datetime, timeout: float) -> bool:
    allocation = allocation_of(claim)
    stamp: Any = allocation.allocationTimestamp if allocation is not None else None
    if stamp is None or not has_binding_conditions(claim):
        return False
    return bool(stamp + timedelta(seconds=timeout) < now)
