"""The invariants of allocation, as code: used by tests, load runs and tools.

Written independently of the search: it looks at allocated claims and published slices only, one rule at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lightkube.models.core_v1 import Node
from lightkube.models.resource_v1 import (
    DeviceRequestAllocationResult,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
)

from drakit.allocator.claims import class_expressions, constraints_of, expressions, name_of, requests_of, results_of
from drakit.allocator.constraints import Constraint, Elements, elements_of
from drakit.allocator.devices import Consumption, DeviceKey, PoolKey, Shape, SliceRecord, Traits, nano
from drakit.allocator.features import Features
from drakit.allocator.inventory import Inventory
from drakit.allocator.placement import PlacementError
from drakit.allocator.pools import Pool
from drakit.allocator.problem import MAX_RESULTS
from drakit.allocator.selection import DerivedFault, Fault

__all__ = ["Violation", "check"]

_Spec = ExactDeviceRequest | DeviceSubRequest


@dataclass(frozen=True, slots=True)
class Violation:
    """`rule` is stable: device-twice, share-twice, counter, groups, capacity, unpublished, unknown-request, selector, count,
    all, constraint, limit, node."""

    rule: str
    subject: str
    text: str


@dataclass(frozen=True, slots=True)
class _Published:
    record: SliceRecord
    shape: Shape
    traits: Traits


def check(
    inventory: Inventory,
    claims: Iterable[ResourceClaim],
    *,
    features: Features | None = None,
    node: Node | None = None,
) -> list[Violation]:
    """Every broken invariant among the allocated claims: nothing allocated twice, no counter or capacity overdrawn, every
    result satisfies its request's selectors and its claim's constraints. With `node`: and can be reached from it."""
    return list(_Checker(inventory, list(claims), features or Features(), node).violations())


class _Checker:
    def __init__(
        self, inventory: Inventory, claims: list[ResourceClaim], features: Features, node: Node | None
    ) -> None:
        self._inventory = inventory
        self._claims = [claim for claim in claims if results_of(claim) is not None]
        self._features = features
        self._node = node
        self._published: dict[DeviceKey, _Published] = {}
        for pool in inventory.pools.values():
            self._publish(pool)

    def _publish(self, pool: Pool) -> None:
        newest = max(record.generation for record in pool.slices.values())
        for record in pool.slices.values():
            if record.generation == newest:
                for name, shape, traits in zip(record.names, record.shapes, record.traits, strict=True):
                    self._published[(*pool.key, name)] = _Published(record, shape, traits)

    def violations(self) -> Iterator[Violation]:
        yield from self._exclusive()
        yield from self._capacity()
        yield from self._counters()
        for claim in self._claims:
            yield from self._claim(claim)

    def _held(self) -> Iterator[tuple[str, DeviceRequestAllocationResult]]:
        for claim in self._claims:
            for result in results_of(claim) or ():
                if not result.adminAccess:
                    yield name_of(claim), result

    def _is_share(self, result: DeviceRequestAllocationResult) -> bool:
        return self._features.ConsumableCapacity and result.shareID is not None

    # Across claims

    def _exclusive(self) -> Iterator[Violation]:
        holders: dict[DeviceKey, str] = {}
        shares: dict[tuple[DeviceKey, str], str] = {}
        shared: dict[DeviceKey, str] = {}
        for claim, result in self._held():
            device = _device(result)
            if self._is_share(result):
                known = shares.setdefault((device, result.shareID or ""), claim)
                if known is not claim:
                    yield Violation(
                        "share-twice", _text(device), f"share {result.shareID} is in claims {known} and {claim}"
                    )
                shared[device] = claim
            elif device in holders:
                yield Violation("device-twice", _text(device), f"allocated to {holders[device]} and {claim}")
            else:
                holders[device] = claim
        for device in shared.keys() & holders.keys():
            yield Violation(
                "device-twice", _text(device), f"held alone by {holders[device]} and shared by {shared[device]}"
            )

    def _capacity(self) -> Iterator[Violation]:
        used: dict[DeviceKey, dict[str, int]] = {}
        for _, result in self._held():
            if self._is_share(result):
                amounts = used.setdefault(_device(result), {})
                for name, value in (result.consumedCapacity or {}).items():
                    amounts[name] = amounts.get(name, 0) + nano(value)
        for device, amounts in used.items():
            published = self._published.get(device)
            for name, amount in amounts.items() if published is not None else ():
                capacity = published.shape.capacity.get(name) if published is not None else None
                if capacity is None:
                    yield Violation("capacity", _text(device), f"capacity {name} is consumed but not published")
                elif amount > capacity.value.scaled(-9):
                    yield Violation("capacity", _text(device), f"{name}: consumed more than {capacity.value}")

    def _counters(self) -> Iterator[Violation]:
        if not self._features.PartitionableDevices:
            return
        in_use: dict[PoolKey, set[str]] = {}
        for _, result in self._held():
            in_use.setdefault((result.driver, result.pool), set()).add(result.device)
        for key, names in in_use.items():
            left = self._totals(key)
            groups: dict[str, list[frozenset[str]]] = {}
            for name in sorted(names):
                published = self._published.get((*key, name))
                for consumption in published.traits.consumes if published is not None else ():
                    groups.setdefault(consumption.counter_set, []).append(consumption.groups)
                    yield from self._draw(key, left, consumption)
            if self._features.CompatibilityGroups:
                yield from _incompatible(key, groups)

    def _totals(self, key: PoolKey) -> dict[tuple[str, str], int]:
        pool = self._inventory.pools.get(key)
        if pool is None:
            return {}
        newest = max(record.generation for record in pool.slices.values())
        return {
            (set_name, name): total
            for record in pool.slices.values()
            if record.generation == newest
            for set_name, counters in record.shared_counters
            for name, total in counters.items()
        }

    def _draw(self, key: PoolKey, left: dict[tuple[str, str], int], consumption: Consumption) -> Iterator[Violation]:
        for name, amount in consumption.counters:
            counter = (consumption.counter_set, name)
            before = left.get(counter, 0)
            left[counter] = before - amount
            if before >= 0 > left[counter]:
                yield Violation(
                    "counter", "/".join(key), f"counter {name} of set {consumption.counter_set} is overdrawn"
                )

    # One claim

    def _claim(self, claim: ResourceClaim) -> Iterator[Violation]:
        name, results = name_of(claim), results_of(claim) or ()
        if len(results) > MAX_RESULTS:
            yield Violation("limit", name, f"{len(results)} results, at most {MAX_RESULTS} are allowed")
        specs = _specs(claim)
        by_request: dict[str, list[DeviceRequestAllocationResult]] = {}
        for result in results:
            by_request.setdefault(result.request, []).append(result)
            spec = specs.get(result.request)
            if spec is None:
                yield Violation(
                    "unknown-request", name, f"result for request {result.request}, which the claim does not have"
                )
                continue
            yield from self._result(name, result, spec)
        yield from self._requests(claim, by_request)
        yield from self._constraints(claim, results, specs)

    def _result(self, claim: str, result: DeviceRequestAllocationResult, spec: _Spec) -> Iterator[Violation]:
        subject = f"{claim}, request {result.request}, device {_text(_device(result))}"
        published = self._published.get(_device(result))
        if published is None:
            yield Violation("unpublished", subject, "no slice of the pool's newest generation publishes the device")
            return
        verdict = self._verdict(published.shape, spec)
        if isinstance(verdict, Fault):
            yield Violation("selector", subject, f"a selector fails on the device: {verdict.text}")
        elif not verdict:
            yield Violation("selector", subject, "the class or the request does not select the device")
        if self._node is not None and not _reachable(published, self._node):
            yield Violation("node", subject, "the device cannot be reached from the node")

    def _verdict(self, shape: Shape, spec: _Spec) -> bool | Fault:
        cls = self._inventory.classes.get(spec.deviceClassName)
        if cls is None:
            return True  # the class may be gone by now; the allocation stays
        selection = self._inventory.selections.of(class_expressions(cls), expressions(spec.selectors), self._features)
        return selection.verdict(shape)

    def _requests(
        self, claim: ResourceClaim, by_request: dict[str, list[DeviceRequestAllocationResult]]
    ) -> Iterator[Violation]:
        name = name_of(claim)
        for request in requests_of(claim):
            options: list[tuple[str, _Spec]] = [
                (f"{request.name}/{sub.name}", sub) for sub in request.firstAvailable or ()
            ]
            if request.exactly is not None:
                options.append((request.name, request.exactly))
            served = [(full, spec) for full, spec in options if full in by_request]
            if len(served) != 1:
                yield Violation(
                    "count", name, f"request {request.name} is served by {len(served)} alternatives, not by one"
                )
                continue
            full, spec = served[0]
            results = by_request[full]
            if spec.allocationMode != "All" and len(results) != (1 if spec.count is None else spec.count):
                yield Violation("count", name, f"request {full} wants {spec.count} devices and has {len(results)}")
            if len({_device(result) for result in results}) != len(results):
                yield Violation("device-twice", name, f"request {full} has the same device more than once")

    def _constraints(
        self, claim: ResourceClaim, results: Sequence[DeviceRequestAllocationResult], specs: dict[str, _Spec]
    ) -> Iterator[Violation]:
        for index, plain in enumerate(constraints_of(claim)):
            constraint = Constraint(plain, index, lists=self._features.ListTypeAttributes)
            for result in results:
                request, _, sub = result.request.partition("/")
                if result.request not in specs or not constraint.applies(request, sub or None):
                    continue
                published = self._published.get(_device(result))
                elements = (
                    self._elements(published.shape, constraint, specs[result.request])
                    if published is not None
                    else None
                )
                if published is not None and (elements is None or not constraint.add(elements)):
                    text = f"constraint #{index} ({constraint}) is broken by {_text(_device(result))}"
                    yield Violation("constraint", name_of(claim), text)
                    break

    def _elements(self, shape: Shape, constraint: Constraint, spec: _Spec) -> Elements | None:
        for derived in spec.derivedAttributes or ():
            if derived.name == constraint.attribute:
                value = self._inventory.selections.derived(
                    derived.expression,
                    shape,
                    lists=self._features.ListTypeAttributes,
                    consumable=self._features.ConsumableCapacity,
                )
                return None if isinstance(value, DerivedFault) else elements_of(value, lists=constraint.lists)
        return elements_of(shape.attribute(constraint.attribute), lists=constraint.lists)


def _incompatible(key: PoolKey, groups: dict[str, list[frozenset[str]]]) -> Iterator[Violation]:
    for set_name, members in groups.items():
        if len(members) < 2:
            continue
        with_groups = [group for group in members if group]
        shared = frozenset.intersection(*with_groups) if with_groups else frozenset()
        if with_groups and (len(with_groups) < len(members) or not shared):
            yield Violation(
                "groups",
                "/".join(key),
                f"devices in use on counter set {set_name} have no compatibility group in common",
            )


def _reachable(published: _Published, node: Node) -> bool:
    placement = published.traits.placement if published.record.per_device else published.record.placement
    try:
        return placement is not None and placement.matches(node)
    except PlacementError:
        return False


def _specs(claim: ResourceClaim) -> dict[str, _Spec]:
    found: dict[str, _Spec] = {}
    for request in requests_of(claim):
        if request.exactly is not None:
            found[request.name] = request.exactly
        for sub in request.firstAvailable or ():
            found[f"{request.name}/{sub.name}"] = sub
    return found


def _device(result: DeviceRequestAllocationResult) -> DeviceKey:
    return (result.driver, result.pool, result.device)


def _text(device: DeviceKey) -> str:
    return "/".join(device)
