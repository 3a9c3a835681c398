"""What the cluster offers: slices, classes, taint rules and nodes, kept up to date one object at a time.

An event on one slice makes stale only its pool and the views of the nodes that reach it; everything computed per
device shape survives, because shapes are interned.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping

from lightkube.models.core_v1 import Node
from lightkube.models.resource_v1 import DeviceClass, DeviceTaintRule, ResourceSlice

from drakit.allocator.devices import Interner, PoolKey, SliceRecord, Taint
from drakit.allocator.features import Features
from drakit.allocator.pools import OK, Layouts, NodeView, Pool, PoolView
from drakit.allocator.selection import Selections

__all__ = ["Inventory"]

_LOG_LIMIT = 100_000
_NO_STRAYS: Mapping[PoolKey, PoolView] = {}


class _CachedView:
    __slots__ = ("labels", "local", "pools", "shared", "strays", "view")

    def __init__(
        self,
        view: NodeView,
        labels: Mapping[str, str],
        local: int,
        shared: int,
        pools: dict[PoolKey, tuple[int, PoolView | None]],
        strays: Mapping[PoolKey, PoolView],
    ) -> None:
        self.view = view
        self.labels = labels
        self.local = local
        self.shared = shared
        self.pools = pools
        self.strays = strays


class Inventory:
    """Devices and where they can be reached. Give it every object of each kind, and every change."""

    def __init__(self) -> None:
        self.classes: dict[str, DeviceClass] = {}
        self.nodes: dict[str, Node] = {}
        self.pools: dict[PoolKey, Pool] = {}
        self.selections = Selections()
        self.layouts = Layouts()
        # For whoever keeps per-node figures: node names whose devices changed (None: possibly all), oldest first.
        self.changes: list[str | None] = []
        self.changes_dropped = 0
        self._interner = Interner()
        self._rules: dict[str, tuple[DeviceTaintRule, Taint]] = {}
        self._pool_of: dict[str, PoolKey] = {}  # slice name -> pool
        self._local: dict[str, dict[PoolKey, int]] = {}  # node -> its pools and how many slices each has there
        self._shared: dict[PoolKey, int] = {}  # pools with slices that are not bound to a node
        self._local_versions: dict[str, int] = {}
        self._shared_version = 0
        self._version = 0  # of all slices
        self._strays: dict[Features, tuple[int, dict[PoolKey, PoolView]]] = {}
        self._views: dict[Features, dict[str, _CachedView]] = {}
        self._removals = 0

    # Slices

    def set_slice(self, slice: ResourceSlice) -> None:
        record = SliceRecord(slice, self._interner)
        if self._rules:
            record = self._with_rules(record)
        previous = self._pool_of.get(record.name)
        if previous is not None:
            old = self.pools[previous].slices[record.name]
            if previous != record.pool_key or old.node_name != record.node_name:
                self.remove_slice(record.name)
        self._put(record)

    def remove_slice(self, name: str) -> None:
        key = self._pool_of.pop(name, None)
        if key is None:
            return
        pool = self.pools[key]
        record = pool.slices[name]
        pool.drop(name)
        if not pool.slices:
            del self.pools[key]
        self._count(record, -1)
        self._touch(pool, record.node_name)
        self._left_behind()

    def _put(self, record: SliceRecord) -> None:
        key = record.pool_key
        pool = self.pools.get(key)
        if pool is None:
            pool = self.pools[key] = Pool(key)
        if record.name in pool.slices:
            self._left_behind()
        else:
            self._count(record, 1)
        self._pool_of[record.name] = key
        pool.put(record)
        self._touch(pool, record.node_name)

    def _count(self, record: SliceRecord, change: int) -> None:
        if record.node_name:
            counts = self._local.setdefault(record.node_name, {})
        else:
            counts = self._shared
        counts[record.pool_key] = counts.get(record.pool_key, 0) + change
        if not counts[record.pool_key]:
            del counts[record.pool_key]

    def _touch(self, pool: Pool, node_name: str) -> None:
        self._version += 1
        # A slice on one node can complete or retire the pool for all nodes that have a part of it.
        for name in {node_name, *pool.node_names()}:
            if name:
                self._local_versions[name] = self._local_versions.get(name, 0) + 1
            else:
                self._shared_version += 1
            self._log(name or None)

    def _log(self, entry: str | None) -> None:
        self.changes.append(entry)
        if len(self.changes) > _LOG_LIMIT:
            self.changes_dropped += len(self.changes)
            self.changes.clear()

    def _left_behind(self) -> None:
        """A slice's devices are gone or replaced; now and then, drop shapes and verdicts that nothing uses."""
        self._removals += 1
        if self._removals < 1000 or self._removals < len(self._pool_of):
            return
        records = [record for pool in self.pools.values() for record in pool.slices.values()]
        shapes = {shape for record in records for shape in record.shapes}
        self._interner.forget_unused(shapes, {t for record in records for t in (*record.traits, *record.published)})
        self.selections.forget()
        self.layouts.clear()
        self._removals = 0

    # Taint rules

    def set_rule(self, rule: DeviceTaintRule) -> bool:
        """Whether the taints of any device changed; the status of rules changes much more often."""
        name = _name(rule)
        previous = self._rules.get(name)
        taint = rule.spec.taint
        self._rules[name] = (rule, Taint(taint.key, taint.value or "", taint.effect))
        if previous is not None and previous[0].spec == rule.spec:
            return False
        return self._apply_rules(rule, previous[0] if previous else None)

    def remove_rule(self, name: str) -> bool:
        previous = self._rules.pop(name, None)
        return previous is not None and self._apply_rules(previous[0])

    def _apply_rules(self, *rules: DeviceTaintRule | None) -> bool:
        touched = [record for rule in rules if rule is not None for record in self._slices_of(rule)]
        any_changed = False
        for record in {record.name: record for record in touched}.values():
            changed = self._with_rules(record)
            if changed.traits != record.traits:
                self._put(changed)
                any_changed = True
        return any_changed

    def _slices_of(self, rule: DeviceTaintRule) -> Iterator[SliceRecord]:
        for pool in list(self.pools.values()):
            if _applies(rule, *pool.key):
                yield from list(pool.slices.values())

    def _with_rules(self, record: SliceRecord) -> SliceRecord:
        # Upstream leaves the order of rules open; by name is as good as any, and repeatable.
        rules = [
            self._rules[name]
            for name in sorted(self._rules)
            if _applies(self._rules[name][0], record.driver, record.pool)
        ]

        def taints_of(device: str) -> tuple[Taint, ...]:
            return tuple(taint for rule, taint in rules if _applies_to_device(rule, device))

        return record.with_rules(taints_of, self._interner)

    # Classes and nodes

    def set_class(self, cls: DeviceClass) -> None:
        self.classes[_name(cls)] = cls

    def remove_class(self, name: str) -> None:
        self.classes.pop(name, None)

    def set_node(self, node: Node) -> None:
        """Nodes are needed by `feasible_nodes` only; `allocate` takes the node itself."""
        name = _name(node)
        previous = self.nodes.get(name)
        self.nodes[name] = node
        if previous is None or _labels(previous) != _labels(node):
            self._log(name)

    def remove_node(self, name: str) -> None:
        if self.nodes.pop(name, None) is not None:
            self._log(name)
            for views in self._views.values():
                views.pop(name, None)

    # Views

    def view(self, node: Node, features: Features) -> NodeView:
        """The devices that the node can reach. Raises GatherError for a slice whose node selector is broken."""
        name = _name(node)
        labels = _labels(node)
        local, shared = self._local_versions.get(name, 0), self._shared_version
        views = self._views.setdefault(features, {})
        cached = views.get(name)
        strays = self.strays(features) if features.oldest else _NO_STRAYS
        if cached is not None:
            fresh = cached.local == local and cached.shared == shared and cached.strays is strays
            if fresh and (not self._shared or cached.labels == labels):
                return cached.view
        known = cached.pools if cached is not None and cached.labels == labels else {}
        pools: dict[PoolKey, tuple[int, PoolView | None]] = {}
        for key in [*self._local.get(name, ()), *self._shared]:
            pool = self.pools[key]
            before = known.get(key)
            if before is not None and before[0] == pool.version:
                pools[key] = before
            elif key not in pools:
                pools[key] = (pool.version, pool.view(node, name, features, self.layouts))
        seen = [pool_view for _, pool_view in pools.values() if pool_view is not None]
        view = NodeView(node, name, [*seen, *(stray for key, stray in strays.items() if key not in pools)])
        views[name] = _CachedView(view, dict(labels), local, shared, pools, strays)
        return view

    def strays(self, features: Features) -> Mapping[PoolKey, PoolView]:
        """Pools of other nodes that the oldest allocator stumbles over: it takes all counters to be of interest."""
        known = self._strays.get(features)
        if known is not None and known[0] == self._version:
            return known[1]
        found = {}
        for key, pool in self.pools.items():
            view = pool.unreached(features, self.layouts)
            if view is not None and view.status != OK:
                found[key] = view
        if known is not None and known[1] == found:
            found = known[1]
        self._strays[features] = (self._version, found)
        return found

    def with_pool_complete(self, key: PoolKey) -> Inventory:
        """A copy, for trying out, in which the pool's published slices are all there are."""
        other = copy.copy(self)
        other.pools = {**self.pools, key: self.pools[key].completed()}
        other._views = {}
        other._strays = {}
        return other

    def local_pools(self, node_name: str) -> Mapping[PoolKey, int]:
        return self._local.get(node_name, {})

    def shared_pools(self) -> Mapping[PoolKey, int]:
        return self._shared


def _name(obj: ResourceSlice | DeviceClass | DeviceTaintRule | Node) -> str:
    return (obj.metadata.name if obj.metadata is not None else None) or ""


def _labels(node: Node) -> Mapping[str, str]:
    return (node.metadata.labels if node.metadata is not None else None) or {}


def _applies(rule: DeviceTaintRule, driver: str, pool: str) -> bool:
    # Without a selector the scheduler's slice tracker applies the rule to all devices, although the API text says none.
    selector = rule.spec.deviceSelector
    if selector is None:
        return True
    return selector.driver in (None, driver) and selector.pool in (None, pool)


def _applies_to_device(rule: DeviceTaintRule, device: str) -> bool:
    selector = rule.spec.deviceSelector
    return selector is None or selector.device in (None, device)
