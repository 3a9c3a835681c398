"""Which nodes can take these claims: cheaply for all nodes at once, and never proportional to their number per pod.

Per distinct demand (selectors, tolerations, capacity) an index keeps how many free matching devices each node has, as
one bit mask of nodes per count. A change of one claim or slice updates the nodes it touches. Devices that many nodes
reach are counted per pool and added when asked. The answer is a superset: what needs a search is left to `allocate`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lightkube.models.core_v1 import Node
from lightkube.models.resource_v1 import DeviceSubRequest, DeviceToleration, ExactDeviceRequest, ResourceClaim

from drakit.allocator.allocated import Allocated
from drakit.allocator.capacity import CapacityRule, Consumed
from drakit.allocator.claims import class_expressions, constraints_of, expressions, requests_of
from drakit.allocator.devices import PoolKey
from drakit.allocator.features import Features
from drakit.allocator.inventory import Inventory
from drakit.allocator.pools import OK, GatherError, Layout, PoolView
from drakit.allocator.problem import MAX_RESULTS
from drakit.allocator.selection import Selection
from drakit.allocator.taints import untolerated

__all__ = ["NodeSet", "feasible_nodes"]

_DEMANDS = 32  # kept per pair of inventory and allocated state
_WINDOW_BITS = 512  # nodes that `NodeSet.some` looks at
_WINDOW = (1 << _WINDOW_BITS) - 1
_DECLARED = "DRAOptionalNodeOperations"


class NodeSet:
    """Names of nodes, in the order in which the inventory learned of them. Every node that fits is in it; when `exact`,
    no other is (otherwise a member may still turn out not to fit: ask `allocate`)."""

    __slots__ = ("_ids", "_mask", "_names", "exact")

    def __init__(self, mask: int, names: list[str], ids: dict[str, int], exact: bool) -> None:
        self._mask = mask
        self._names = names
        self._ids = ids
        self.exact = exact

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._ids and bool(self._mask >> self._ids[name] & 1)

    def __len__(self) -> int:
        return self._mask.bit_count()

    def __bool__(self) -> bool:
        return self._mask != 0

    def __iter__(self) -> Iterator[str]:
        return self._scan(self._mask, 0)

    def after(self, name: str) -> Iterator[str]:
        """Iterate from the node behind `name` on, and around: a scheduler spreads its starting point."""
        start = self._ids.get(name, -1) + 1
        yield from self._scan(self._mask >> start, start)
        yield from self._scan(self._mask & ((1 << start) - 1), 0)

    def some(self, name: str, count: int) -> list[str]:
        """The first `count` of `after(name)` at once, if that many are near; else fewer, perhaps none: ask `after`."""
        start = self._ids.get(name, -1) + 1
        digits = bin(self._mask >> start & _WINDOW)[:1:-1]
        names = self._names
        found: list[str] = []
        position = digits.find("1")
        while position >= 0 and len(found) < count:
            found.append(names[start + position])
            position = digits.find("1", position + 1)
        if (
            len(found) < count and start and self._mask.bit_length() <= start + _WINDOW_BITS
        ):  # seen to the end: on from the beginning
            digits = bin(self._mask & ((1 << min(start, _WINDOW_BITS)) - 1))[:1:-1]
            position = digits.find("1")
            while position >= 0 and len(found) < count:
                found.append(names[position])
                position = digits.find("1", position + 1)
        return found

    def _scan(self, mask: int, start: int) -> Iterator[str]:
        # The first few by arithmetic, the rest over the digits: isolating a bit costs a pass over all of them.
        for _ in range(4):
            if not mask:
                return
            low = mask & -mask
            mask ^= low
            yield self._names[start + low.bit_length() - 1]
        digits = bin(mask)[:1:-1]
        position = digits.find("1")
        while position >= 0:
            yield self._names[start + position]
            position = digits.find("1", position + 1)


def feasible_nodes(
    inventory: Inventory, allocated: Allocated, claims: Sequence[ResourceClaim], *, features: Features | None = None
) -> NodeSet:
    """The nodes (of `inventory.set_node`) on which the claims may fit, judged by counts of free matching devices."""
    index = _index(inventory, allocated, features or Features())
    index.sync()
    index.must_ask = 0
    mask, exact = index.all_nodes, True
    wanted: dict[_Demand, list[int]] = {}
    for claim in claims:
        exact = exact and not constraints_of(claim)
        for request in requests_of(claim):
            specs: list[ExactDeviceRequest | DeviceSubRequest] = list(request.firstAvailable or ())
            if request.exactly is not None:
                specs.append(request.exactly)
            options = [index.demand(spec) for spec in specs]
            if any(option is None for option in options):
                index.must_ask |= index.all_nodes  # cannot be judged here: `allocate` has something to say on any node
                continue
            known = [option for option in options if option is not None]
            if len(known) == 1 and not known[0][0].all_mode and not known[0][0].shares_devices:
                wanted.setdefault(known[0][0], []).append(known[0][1])
                continue
            exact = False
            some = 0
            for demand, count in known:
                some |= index.at_least(demand, count)
            mask &= some
    exact = exact and len(wanted) <= 1
    for demand, counts in wanted.items():
        some = index.at_least(demand, max(counts))
        # Only now is it known whether there are devices that several requests can have.
        if len(counts) > 1 and not demand.shares_devices:
            some = index.at_least(demand, sum(counts))
        mask &= some
        exact = exact and demand.exact and not demand.shares_devices
    ask = (index.must_ask | index.broken) & index.all_nodes
    return NodeSet(mask | ask, index.names, index.ids, exact and not ask)


class _Demand:
    """One kind of request, and how many devices for it each node has by itself."""

    def __init__(
        self,
        selection: Selection,
        capacity: CapacityRule | None,
        tolerations: Sequence[DeviceToleration],
        features: Features,
        *,
        admin: bool,
        all_mode: bool,
    ) -> None:
        self.selection = selection
        self.capacity = capacity
        self.tolerations = tolerations
        self.features = features
        self.admin = admin
        self.all_mode = all_mode
        self.exact = not all_mode
        self.shares_devices = admin
        self.counts = bytearray()  # by node number
        self.levels = [0] * (MAX_RESULTS + 1)  # levels[n]: nodes with at least n
        self.faulty = 0  # nodes with own devices on which a selector fails
        self._static: dict[tuple[Layout, bool], tuple[int, int]] = {}

    def count(self, pool: PoolView, allocated: Allocated, skips: bool) -> int:
        """How many free devices of the pool match; -1 when a selector fails on one. Then `allocate` must be asked whatever
        the other requests need: upstream gives up on the pod when it meets such a device."""
        layout = pool.layout
        found = self._static.get((layout, skips))
        if found is None:
            if len(self._static) > 50_000:
                self._static.clear()
            found = self._static[layout, skips] = self._without_state(layout, skips)
        mask, faulty = found
        held = allocated.pools.get(pool.key)
        if held is not None and not self.admin and not self.all_mode:
            dedicated, shared = held.masks(layout)
            mask &= ~dedicated
            faulty &= ~dedicated
            if shared & mask and self.features.ConsumableCapacity:
                mask = self._with_capacity_left(pool, allocated, mask, shared)
            elif shared:
                mask &= ~shared
                faulty &= ~shared
        return -1 if faulty else mask.bit_count()

    def _without_state(self, layout: Layout, skips: bool) -> tuple[int, int]:
        good, bad = self.selection.masks(layout)
        if self.capacity is not None:
            enough, wrong = self.capacity.masks(layout)
            good, bad = good & enough, bad | good & wrong
        if not self.features.DeviceBindingAndStatus:
            good &= ~layout.bound
            bad &= ~layout.bound
        if self.capacity is not None and layout.shareable & good:
            self.shares_devices = True
        if bad or layout.per_device or (layout.consuming and self.features.PartitionableDevices):
            self.exact = False
        if self.features.DeviceTaints and layout.tainted:
            good &= ~untolerated(layout, self.tolerations, good)
        if layout.skipping and not skips:
            good &= ~layout.skipping
        if not self.features.PartitionableDevices:
            good &= ~layout.consuming
        return good, bad

    def _with_capacity_left(self, pool: PoolView, allocated: Allocated, mask: int, shared: int) -> int:
        assert self.capacity is not None
        held, bits = allocated.pools[pool.key], shared & mask
        while bits:
            low = bits & -bits
            bits ^= low
            position = low.bit_length() - 1
            verdict = self.capacity.verdict(pool.layout.shapes[position])
            if isinstance(verdict, Consumed) and not verdict.fits(held.capacity(pool.layout.names[position])):
                mask &= ~low
        return mask

    def fill(self, counts: bytearray) -> None:
        """All nodes at once, for a new demand: bit by bit would cost a pass over all nodes each."""
        self.counts = counts
        for level in range(1, max(counts, default=0) + 1):
            digits = counts.translate(bytes(49 if count >= level else 48 for count in range(256)))
            self.levels[level] = int(digits[::-1], 2)

    def put(self, node: int, count: int) -> None:
        if node >= len(self.counts):
            self.counts.extend(bytes(node + 1 - len(self.counts) + 1024))
        before = self.counts[node]
        if count == before:
            return
        self.counts[node] = count
        bit = 1 << node
        for level in range(min(before, count) + 1, max(before, count) + 1):
            self.levels[level] ^= bit


class _SharedPool:
    """A pool that is not bound to nodes: which view of it which nodes have."""

    __slots__ = ("nodes", "version", "views")

    def __init__(self, version: int, nodes: int) -> None:
        self.version = version
        self.nodes = nodes  # how many node changes were known
        self.views: dict[PoolView, int] = {}


class _Index:
    """Everything `feasible_nodes` remembers about one inventory, one allocated state and one set of features."""

    def __init__(self, inventory: Inventory, allocated: Allocated, features: Features) -> None:
        self._inventory = inventory
        self._allocated = allocated
        self._features = features
        self.names: list[str] = []
        self.ids: dict[str, int] = {}
        self.all_nodes = 0
        self.broken = 0  # nodes for which some slice's node selection cannot be evaluated
        self.unready = 0  # nodes with pools that are incomplete or invalid: an error for mode All
        self.must_ask = 0  # nodes on which a device of the present question is a fatal error
        self._demands: dict[object, _Demand] = {}
        self._shared: dict[PoolKey, _SharedPool] = {}
        self._node_changes = 0
        self._seen_inventory = -1
        self._seen_allocated = -1

    # Keeping up

    def sync(self) -> None:
        inventory, allocated = self._inventory, self._allocated
        dirty: dict[str, None] = {}
        seen = self._seen_inventory - inventory.changes_dropped
        if seen < 0:
            dirty.update(dict.fromkeys([*inventory.nodes, *self.ids]))
            self._node_changes += 1
        else:
            for name in inventory.changes[seen:]:
                if name is not None:
                    dirty[name] = None
        self._seen_inventory = inventory.changes_dropped + len(inventory.changes)
        for name in dirty:
            self._sync_node(name)
        seen = self._seen_allocated - allocated.changes_dropped
        if seen < 0:
            touched = set(allocated.pools)
            dirty.update(dict.fromkeys(inventory.nodes))
        else:
            touched = set(allocated.changes[seen:])
        self._seen_allocated = allocated.changes_dropped + len(allocated.changes)
        for key in touched:
            pool = inventory.pools.get(key)
            if pool is not None:
                dirty.update(dict.fromkeys(record.node_name for record in pool.slices.values() if record.node_name))
        for demand in self._demands.values():
            for name in dirty:
                self._count(demand, name)

    def _sync_node(self, name: str) -> None:
        self._node_changes += 1
        node = self._inventory.nodes.get(name)
        number = self.ids.get(name)
        if node is None:
            if number is not None:
                self.all_nodes &= ~(1 << number)
            return
        if number is None:
            number = self.ids[name] = len(self.names)
            self.names.append(name)
        bit = 1 << number
        self.all_nodes |= bit
        try:
            ready = all(view is None or view.status == OK for view in self._local_views(node, name))
            self.broken &= ~bit
        except GatherError:
            ready = True
            self.broken |= bit
        self.unready = self.unready & ~bit if ready else self.unready | bit

    def _local_views(self, node: Node, name: str) -> list[PoolView | None]:
        inventory = self._inventory
        return [
            inventory.pools[key].view(node, name, self._features, inventory.layouts)
            for key in inventory.local_pools(name)
        ]

    def _count(self, demand: _Demand, name: str) -> None:
        number = self.ids.get(name)
        if number is not None:
            demand.put(number, self._measure(demand, name, number))

    def _measure(self, demand: _Demand, name: str, number: int) -> int:
        """Free matching devices of the node's own; notes whether a selector fails on one."""
        node = self._inventory.nodes.get(name)
        counts = []
        if node is not None:
            try:
                views = self._local_views(node, name)
            except GatherError:
                views = []  # noted as broken
            skips = self._skips(node)
            counts = [
                demand.count(view, self._allocated, skips) for view in views if view is not None and view.layout.size
            ]
        if -1 in counts:
            demand.faulty |= 1 << number
        elif demand.faulty:
            demand.faulty &= ~(1 << number)
        return min(sum(count for count in counts if count > 0), MAX_RESULTS)

    def _skips(self, node: Node) -> bool:
        if not self._features.newest:
            return True
        declared = (node.status.declaredFeatures if node.status is not None else None) or ()
        return self._features.OptionalNodeOperations and _DECLARED in declared

    # Asking

    def demand(self, spec: ExactDeviceRequest | DeviceSubRequest) -> tuple[_Demand, int] | None:
        """The demand behind a request and how many devices it wants; None when `allocate` would refuse it anywhere."""
        features, inventory = self._features, self._inventory
        cls = inventory.classes.get(spec.deviceClassName)
        if cls is None or any(selector.cel is None for selector in spec.selectors or ()):
            return None
        selection = inventory.selections.of(class_expressions(cls), expressions(spec.selectors), features)
        capacity = None
        if features.ConsumableCapacity:
            requests = (spec.capacity.requests if spec.capacity is not None else None) or {}
            capacity = inventory.selections.capacity(requests, fractional=features.FractionalCapacityRange)
        admin = bool(getattr(spec, "adminAccess", None))
        all_mode = spec.allocationMode == "All"
        tolerations = tuple((t.key, t.operator, t.value, t.effect) for t in spec.tolerations or ())
        key = (selection, capacity, tolerations, admin, all_mode)
        found = self._demands.pop(key, None)
        if found is None:
            while len(self._demands) >= _DEMANDS:
                del self._demands[next(iter(self._demands))]
            found = _Demand(selection, capacity, spec.tolerations or (), features, admin=admin, all_mode=all_mode)
            counts = bytearray(len(self.names))
            for name in inventory.nodes:
                counts[self.ids[name]] = self._measure(found, name, self.ids[name])
            found.fill(counts)
        self._demands[key] = found
        count = 1 if all_mode or spec.count is None else spec.count
        return found, count

    def at_least(self, demand: _Demand, count: int) -> int:
        """Nodes that can reach that many free matching devices, their own and shared ones."""
        self.must_ask |= demand.faulty
        if demand.all_mode:
            self.must_ask |= self.unready
            if self._features.oldest and self._inventory.strays(self._features):
                self.must_ask |= self.all_nodes
        if count > MAX_RESULTS:
            self.must_ask |= self.all_nodes  # refused everywhere, with its reason
            return self.all_nodes
        levels = [self.all_nodes, *demand.levels[1 : count + 1]]
        for key in self._inventory.shared_pools():
            for view, nodes in self._shared_views(key).items():
                free = demand.count(view, self._allocated, True)
                if free < 0 or (demand.all_mode and view.status != OK):
                    self.must_ask |= nodes
                    continue
                if not free:
                    continue
                demand.exact = demand.exact and not view.layout.skipping  # depends on the node
                levels = [
                    level if j == 0 else (level & ~nodes) | (levels[max(0, j - free)] & nodes)
                    for j, level in enumerate(levels)
                ]
        return levels[count]

    def _shared_views(self, key: PoolKey) -> dict[PoolView, int]:
        pool = self._inventory.pools[key]
        known = self._shared.get(key)
        if known is not None and (known.version, known.nodes) == (pool.version, self._node_changes):
            return known.views
        known = self._shared[key] = _SharedPool(pool.version, self._node_changes)
        local = {record.node_name for record in pool.slices.values() if record.node_name}
        everywhere = not local and all(r.placement is not None and r.placement.all_nodes for r in pool.slices.values())
        for name, node in self._inventory.nodes.items():
            if name in local:
                continue  # counted with the node's own
            try:
                view = pool.view(node, name, self._features, self._inventory.layouts)
            except GatherError:
                self.broken |= 1 << self.ids[name]
                continue
            if view is not None:
                known.views[view] = self.all_nodes if everywhere else known.views.get(view, 0) | 1 << self.ids[name]
            if everywhere:
                break
        return known.views


def _index(inventory: Inventory, allocated: Allocated, features: Features) -> _Index:
    key = (inventory, features)
    found = allocated.indexes.get(key)
    if not isinstance(found, _Index):
        found = allocated.indexes[key] = _Index(inventory, allocated, features)
    return found
