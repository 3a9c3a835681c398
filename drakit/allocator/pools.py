"""Resource pools as one node sees them: generations, completeness, validity, and the order of their devices.

Follows GatherPools of upstream's structured allocator. A PoolView is shared by all nodes for which the same slices
matter; a Layout (names, shapes, traits in allocation order) is shared by all pools that look alike.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Mapping
from typing import Final

from lightkube.models.core_v1 import Node

from drakit.allocator.devices import Consumption, PoolKey, Shape, SliceRecord, Traits
from drakit.allocator.features import Features
from drakit.allocator.placement import Placement, PlacementError

__all__ = ["GatherError", "Layout", "Layouts", "NodeView", "Pool", "PoolView"]

OK: Final = "ok"
INCOMPLETE: Final = "incomplete"
INVALID: Final = "invalid"

_versions = itertools.count(1)

_Part = tuple[tuple[str, ...], tuple[Shape, ...], tuple[Traits, ...], tuple[str, ...], bool]


class GatherError(Exception):
    """A slice whose node selection cannot be evaluated: fatal for the attempt."""

    def __init__(self, slice_name: str, detail: str, device: str = "") -> None:
        where = f"device {device} in slice {slice_name}" if device else f"slice {slice_name}"
        super().__init__(f"gather pool information: failed to perform node selection for {where}: {detail}")
        self.slice_name = slice_name


class Layout:
    """Devices of one pool in allocation order, with the masks that depend on nothing else. Interned."""

    __slots__ = (
        "bound",
        "consuming",
        "index",
        "names",
        "per_device",
        "shapes",
        "shareable",
        "size",
        "skipping",
        "slice_of",
        "tainted",
        "traits",
    )

    def __init__(self, parts: tuple[_Part, ...]) -> None:
        self.names: list[str] = []
        self.shapes: list[Shape] = []
        self.traits: list[Traits] = []
        self.slice_of: list[int] = []
        self.bound = self.consuming = self.shareable = self.tainted = self.skipping = self.per_device = 0
        for number, (names, shapes, traits, skips, per_device) in enumerate(parts):
            first = len(self.names)
            self.names += names
            self.shapes += shapes
            self.traits += traits
            self.slice_of += [number] * len(names)
            bits = ((1 << len(names)) - 1) << first
            self.skipping |= bits if skips else 0
            self.per_device |= bits if per_device else 0
        for position, (shape, traits_) in enumerate(zip(self.shapes, self.traits, strict=True)):
            bit = 1 << position
            self.shareable |= bit if shape.allow_multiple else 0
            self.bound |= bit if traits_.binding_conditions else 0
            self.consuming |= bit if traits_.consumes else 0
            self.tainted |= bit if traits_.blocking_taints else 0
        self.size = len(self.names)
        self.index = {name: position for position, name in enumerate(self.names)}


class Layouts:
    """Interns layouts."""

    def __init__(self) -> None:
        self._known: dict[tuple[_Part, ...], Layout] = {}

    def of(self, slices: list[SliceRecord]) -> Layout:
        key = tuple((s.names, s.shapes, s.traits, s.skip_node_operations, s.per_device) for s in slices)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Layout(key)
        return found

    def clear(self) -> None:
        self._known.clear()

    def __len__(self) -> int:
        return len(self._known)


class PoolView:
    """A pool as seen from the nodes that reach exactly these slices of it."""

    __slots__ = ("counters", "has_binding", "key", "layout", "others", "reason", "slices", "status")

    def __init__(self, key: PoolKey, status: str, layout: Layout, *, reason: str = "") -> None:
        self.key = key
        self.status = status
        self.reason = reason
        self.layout = layout
        self.slices: list[SliceRecord] = []
        self.counters: dict[str, Mapping[str, int]] = {}
        # Devices of the pool that this node cannot reach but which draw from the same counters: (name, consumption).
        self.others: list[tuple[str, tuple[Consumption, ...]]] = []
        self.has_binding = False


class Pool:
    """All slices of one (driver, pool) in the cluster, of any generation."""

    def __init__(self, key: PoolKey) -> None:
        self.key = key
        self.slices: dict[str, SliceRecord] = {}
        self.version = 0
        self._by_node: dict[str, list[SliceRecord]] | None = None  # split by node on demand; "" is not bound to a node
        self._views: dict[tuple[Features, tuple[str, ...]], PoolView | None] = {}

    def put(self, record: SliceRecord) -> None:
        self.slices[record.name] = record
        self._changed()

    def drop(self, name: str) -> None:
        del self.slices[name]
        self._changed()

    def completed(self) -> Pool:
        """A copy in which the newest slices that are published count as all there are."""
        kept = [copy.copy(record) for record in self.current()]
        other = Pool(self.key)
        for record in kept:
            record.count = len(kept)
            other.put(record)
        return other

    def _changed(self) -> None:
        # Never the same number twice, also when a pool goes and one of the same name comes.
        self.version = next(_versions)
        self._views.clear()
        self._by_node = None

    def current(self) -> list[SliceRecord]:
        """The slices of the newest generation."""
        newest = max(record.generation for record in self.slices.values())
        return [record for record in self.slices.values() if record.generation == newest]

    @property
    def is_complete(self) -> bool:
        """Whether as many slices of the newest generation are published as they say."""
        current = self.current()
        return len(current) == current[0].count

    def node_names(self) -> Iterator[str]:
        """Nodes that slices of the pool are bound to; "" for those that are bound to none."""
        return iter({record.node_name for record in self.slices.values()})

    def unreached(self, features: Features, layouts: Layouts) -> PoolView | None:
        """What the oldest allocator sees of the pool on a node that none of its devices are for: the counters."""
        found: list[SliceRecord] = []
        for record in self.slices.values():
            if record.has_counters and features.PartitionableDevices:
                found = _newest(found, record)
        return self._known(found, features, layouts)

    def _candidates(self, node_name: str) -> list[SliceRecord]:
        if self._by_node is None:
            self._by_node = {}
            for record in self.slices.values():
                self._by_node.setdefault(record.node_name, []).append(record)
        return [*self._by_node.get(node_name, ()), *self._by_node.get("", ())]

    def view(self, node: Node, node_name: str, features: Features, layouts: Layouts) -> PoolView | None:
        """None when no slice of the pool concerns the node, or the pool is being replaced by a newer generation."""
        return self._known(self._relevant(node, node_name, features), features, layouts)

    def _known(self, relevant: list[SliceRecord], features: Features, layouts: Layouts) -> PoolView | None:
        if not relevant:
            return None
        key = (features, tuple(record.name for record in relevant))
        if key not in self._views:
            self._views[key] = self._build(relevant, features, layouts)
        return self._views[key]

    def _relevant(self, node: Node, node_name: str, features: Features) -> list[SliceRecord]:
        found: list[SliceRecord] = []
        oldest = features.oldest
        for record in self.slices.values() if oldest else self._candidates(node_name):
            if not features.PartitionableDevices and (record.per_device_is_set or record.has_counters):
                continue
            if not features.CompatibilityGroups and record.uses_groups:
                continue
            if (oldest and record.has_counters) or _reaches(record, node):
                found = _newest(found, record)
        return found

    def _build(self, relevant: list[SliceRecord], features: Features, layouts: Layouts) -> PoolView | None:
        wanted = relevant[0].count
        everything: list[SliceRecord] = []
        if len(relevant) != wanted:
            generation = relevant[0].generation
            if any(record.generation > generation for record in self.slices.values()):
                return None
            everything = [
                record
                for record in self.slices.values()
                if record.generation == generation and (features.CompatibilityGroups or not record.uses_groups)
            ]
            if len(everything) != wanted:
                return PoolView(self.key, INCOMPLETE, layouts.of([]))
        if not features.oldest:  # which takes them as they come
            relevant = sorted(relevant, key=lambda record: record.name.encode())
        names = {record.name for record in relevant}
        elsewhere = [record for record in everything if record.name not in names]
        return _build_view(self.key, relevant, elsewhere, features, layouts)


def _newest(found: list[SliceRecord], record: SliceRecord) -> list[SliceRecord]:
    """Slices of the highest generation seen so far, with this one if it is of that."""
    if found and record.generation > found[0].generation:
        return [record]
    if not found or record.generation == found[0].generation:
        found.append(record)
    return found


def _reaches(record: SliceRecord, node: Node) -> bool:
    if record.placement is not None:
        return _matches(record.placement, node, record.name)
    if record.per_device:
        return any(
            traits.placement is not None and _matches(traits.placement, node, record.name, device)
            for device, traits in zip(record.names, record.traits, strict=True)
        )
    return False  # nothing known is set: a future kind of placement


def _matches(placement: Placement, node: Node, slice_name: str, device: str = "") -> bool:
    try:
        return placement.matches(node)
    except PlacementError as error:
        raise GatherError(slice_name, str(error), device) from error


def _build_view(
    key: PoolKey, relevant: list[SliceRecord], elsewhere: list[SliceRecord], features: Features, layouts: Layouts
) -> PoolView:
    partitionable = features.PartitionableDevices
    devices = [record for record in relevant if not (partitionable and record.has_counters)]
    remote = [record for record in elsewhere if not (partitionable and record.has_counters)]
    counters: dict[str, Mapping[str, int]] = {}
    reason = _duplicate_device(devices)
    if not reason and partitionable:
        reason = _collect_counters([*relevant, *elsewhere], counters)
        reason = reason or _unknown_counter(devices, counters) or _unknown_counter(remote, counters)
    if reason:
        return PoolView(key, INVALID, layouts.of([]), reason=reason)
    view = PoolView(key, OK, layouts.of(devices))
    view.slices = devices
    view.has_binding = not features.oldest and any(
        t.binding_conditions is not None for record in devices for t in record.traits
    )
    if partitionable:
        view.counters = counters
        view.others = [
            (name, traits.consumes)
            for record in remote
            for name, traits in zip(record.names, record.traits, strict=True)
            if traits.consumes
        ]
    return view


def _duplicate_device(slices: list[SliceRecord]) -> str:
    seen: set[str] = set()
    for record in slices:
        for name in record.names:
            if name in seen:
                return f"duplicate device name {name}"
            seen.add(name)
    return ""


def _collect_counters(slices: list[SliceRecord], counters: dict[str, Mapping[str, int]]) -> str:
    for record in slices:
        for name, values in record.shared_counters:
            if name in counters:
                return f"duplicate counter set name {name}"
            counters[name] = values
    return ""


def _unknown_counter(slices: list[SliceRecord], counters: Mapping[str, Mapping[str, int]]) -> str:
    for record in slices:
        for traits in record.traits:
            for consumption in traits.consumes:
                known = counters.get(consumption.counter_set)
                if known is None:
                    return f"counter set {consumption.counter_set} not found"
                for name, _ in consumption.counters:
                    if name not in known:
                        return f"counter {name} not found in counter set {consumption.counter_set}"
    return ""


class NodeView:
    """All devices that one node can reach, numbered in the order in which they are tried."""

    __slots__ = ("_unreachable", "node", "node_name", "offsets", "pools", "size")

    def __init__(self, node: Node, node_name: str, pools: list[PoolView]) -> None:
        self.node = node
        self.node_name = node_name
        # Pools with binding conditions come last; otherwise by driver and name, in byte order.
        self.pools = sorted(pools, key=lambda pool: (pool.has_binding, pool.key[0].encode(), pool.key[1].encode()))
        self.offsets: list[int] = []
        self.size = 0
        for pool in self.pools:
            self.offsets.append(self.size)
            self.size += pool.layout.size
        self._unreachable: tuple[int, dict[int, str]] | None = None

    def parts(self) -> Iterator[tuple[int, PoolView]]:
        """(number of the first device, pool), usable pools only."""
        for offset, pool in zip(self.offsets, self.pools, strict=True):
            if pool.layout.size:
                yield offset, pool

    def locate(self, number: int) -> tuple[PoolView, int]:
        """The pool of a device and its position there."""
        low, high = 0, len(self.offsets)
        while high - low > 1:
            middle = (low + high) // 2
            if self.offsets[middle] <= number:
                low = middle
            else:
                high = middle
        # Empty pools share their offset with the next one.
        while number - self.offsets[low] >= self.pools[low].layout.size:
            low += 1
        return self.pools[low], number - self.offsets[low]

    def device_id(self, number: int) -> str:
        pool, position = self.locate(number)
        return f"{pool.key[0]}/{pool.key[1]}/{pool.layout.names[position]}"

    def unreachable(self) -> tuple[int, dict[int, str]]:
        """Devices whose own node selection excludes this node, and those for which it cannot be evaluated."""
        if self._unreachable is None:
            mask, errors = 0, {}
            for offset, pool in self.parts():
                bits = pool.layout.per_device
                while bits:
                    low = bits & -bits
                    bits ^= low
                    position = low.bit_length() - 1
                    placement = pool.layout.traits[position].placement
                    try:
                        if placement is None or not placement.matches(self.node):
                            mask |= low << offset
                    except PlacementError as error:
                        errors[offset + position] = str(error)
            self._unreachable = (mask, errors)
        return self._unreachable
