"""Which devices are held and by whom, kept up to date one claim at a time.

Per pool: the devices in dedicated use, those with shares of a multi-allocatable device, and the capacity that shares
consume. Results with admin access hold nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lightkube.models.resource_v1 import DeviceRequestAllocationResult, ResourceClaim

from drakit.allocator.claims import name_of, results_of
from drakit.allocator.devices import PoolKey, nano
from drakit.allocator.pools import Layout

__all__ = ["Allocated", "Asker", "HeldPool"]

_LOG_LIMIT = 100_000
_OWN = "other pods of the group"
_FOREIGN = "other namespaces"
_NO_CAPACITY: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class Asker:
    """To whom a refusal is told: whose claims need not be freed, and whose names are nobody else's business."""

    own: frozenset[str] = frozenset()  # UIDs of claims that belong to those who ask (a gang's)
    namespace: str = ""  # only claims in it are named; "" may know all


OPERATOR = Asker()


class Hold:
    """One result of one claim."""

    __slots__ = ("capacity", "device", "pool", "shared")

    def __init__(self, pool: PoolKey, device: str, shared: bool, capacity: Mapping[str, int] | None) -> None:
        self.pool = pool
        self.device = device
        self.shared = shared
        self.capacity = capacity


class _HeldDevice:
    __slots__ = ("capacity", "dedicated", "shares")

    def __init__(self) -> None:
        self.dedicated: list[str] = []  # claim uids
        self.shares: list[str] = []
        self.capacity: dict[str, int] = {}


class HeldPool:
    """The held devices of one pool, and their bit masks per layout."""

    __slots__ = ("_masks", "devices")

    def __init__(self) -> None:
        self.devices: dict[str, _HeldDevice] = {}
        self._masks: dict[Layout, list[int]] = {}

    def masks(self, layout: Layout) -> tuple[int, int]:
        """(devices in dedicated use, devices with shares) in the numbering of the layout."""
        found = self._masks.get(layout)
        if found is None:
            if len(self._masks) > 16:
                self._masks.clear()
            found = self._masks[layout] = [0, 0]
            for name in self.devices:
                self._mark(layout, found, name)
        return found[0], found[1]

    def changed(self, name: str) -> None:
        for layout, masks in self._masks.items():
            self._mark(layout, masks, name)

    def _mark(self, layout: Layout, masks: list[int], name: str) -> None:
        position = layout.index.get(name)
        if position is None:
            return
        held = self.devices.get(name)
        bit = 1 << position
        for i, inside in enumerate((held is not None and held.dedicated, held is not None and held.shares)):
            masks[i] = masks[i] | bit if inside else masks[i] & ~bit

    def capacity(self, name: str) -> Mapping[str, int]:
        """Consumed by the shares of the device, in nano units."""
        held = self.devices.get(name)
        return held.capacity if held is not None else _NO_CAPACITY


class Allocated:
    """Every claim's status.allocation, plus the allocations that are decided but not yet written (assumed)."""

    def __init__(self) -> None:
        self.pools: dict[PoolKey, HeldPool] = {}
        # For whoever keeps figures: pools whose holds changed, oldest first.
        self.changes: list[PoolKey] = []
        self.changes_dropped = 0
        self.indexes: dict[object, object] = {}  # figures that others derive from this state and keep with it
        self._written: dict[str, list[Hold]] = {}
        self._assumed: dict[str, list[Hold]] = {}
        self._names: dict[str, str] = {}

    def set_claim(self, claim: ResourceClaim) -> None:
        """A claim was added or changed. With an allocation it replaces an assumed one; without, an assumed one stays."""
        uid = (claim.metadata.uid if claim.metadata is not None else None) or ""
        self._names[uid] = name_of(claim)
        results = results_of(claim)
        if results is None:
            self._replace(self._written, uid, [])
            return
        holds = [hold for hold in map(_typed_hold, results) if hold is not None]
        self._replace(self._assumed, uid, [])
        self._replace(self._written, uid, holds)

    def remove_claim(self, uid: str) -> None:
        self._replace(self._assumed, uid, [])
        self._replace(self._written, uid, [])
        self._names.pop(uid, None)

    def assume(self, uid: str, result: Mapping[str, Any], *, holder: str = "") -> None:
        """Hold the devices of `result` (a plain AllocationResult) for the claim until it is written or forgotten."""
        if holder:
            self._names[uid] = holder
        self._replace(self._assumed, uid, _plain_holds((result.get("devices") or {}).get("results") or ()))

    def forget(self, uid: str) -> None:
        """Drop what was assumed for the claim: the write failed, or the pod goes elsewhere."""
        self._replace(self._assumed, uid, [])
        if uid not in self._written:
            self._names.pop(uid, None)

    def hold(self, uid: str, results: Iterable[Mapping[str, Any]], *, holder: str = "") -> None:
        """As if a claim had these plain results in its status."""
        if holder:
            self._names[uid] = holder
        self._replace(self._written, uid, _plain_holds(results))

    def holder_name(self, uid: str) -> str:
        return self._names.get(uid, uid)

    def holders(self, pool: PoolKey, device: str, asker: Asker = OPERATOR) -> tuple[str, ...]:
        """Who holds the device, dedicated or in part, as far as the asker may know."""
        held = self.pools[pool].devices.get(device) if pool in self.pools else None
        if held is None:
            return ()
        return tuple(dict.fromkeys(self._told(uid, asker) for uid in [*held.dedicated, *held.shares]))

    def _told(self, uid: str, asker: Asker) -> str:
        if uid in asker.own:
            return _OWN
        name = self.holder_name(uid)
        return name if not asker.namespace or name.startswith(f"{asker.namespace}/") else _FOREIGN

    def holds(self) -> Iterable[tuple[str, Hold]]:
        """(claim uid, hold) of everything that is held."""
        for table in (self._written, self._assumed):
            for uid, holds in table.items():
                for hold in holds:
                    yield uid, hold

    def without(self, released: Iterable[tuple[PoolKey, str]]) -> Allocated:
        """A copy in which nobody holds these devices: for trying out what would help."""
        free: dict[PoolKey, set[str]] = {}
        for key, device in released:
            free.setdefault(key, set()).add(device)
        other = Allocated()
        other._names = self._names
        other.pools = dict(self.pools)  # what is not touched is shared: nobody changes a copy
        for key, devices in free.items():
            if key in self.pools:
                other.pools[key] = pool = HeldPool()
                pool.devices = {n: held for n, held in self.pools[key].devices.items() if n not in devices}
        return other

    def _replace(self, table: dict[str, list[Hold]], uid: str, holds: list[Hold]) -> None:
        for hold in table.pop(uid, ()):
            self._remove(uid, hold)
        if holds:
            table[uid] = holds
            for hold in holds:
                self._add(uid, hold)

    def _add(self, uid: str, hold: Hold) -> None:
        pool = self.pools.get(hold.pool)
        if pool is None:
            pool = self.pools[hold.pool] = HeldPool()
        held = pool.devices.get(hold.device)
        if held is None:
            held = pool.devices[hold.device] = _HeldDevice()
        if hold.shared:
            held.shares.append(uid)
            if hold.capacity is not None:
                for name, amount in hold.capacity.items():
                    held.capacity[name] = held.capacity.get(name, 0) + amount
        else:
            held.dedicated.append(uid)
        self._changed(pool, hold)

    def _remove(self, uid: str, hold: Hold) -> None:
        pool = self.pools[hold.pool]
        held = pool.devices[hold.device]
        if hold.shared:
            held.shares.remove(uid)
            if hold.capacity is not None:
                for name, amount in hold.capacity.items():
                    held.capacity[name] -= amount
        else:
            held.dedicated.remove(uid)
        if not held.dedicated and not held.shares:
            del pool.devices[hold.device]
        self._changed(pool, hold)
        if not pool.devices:
            del self.pools[hold.pool]

    def _changed(self, pool: HeldPool, hold: Hold) -> None:
        pool.changed(hold.device)
        self.changes.append(hold.pool)
        if len(self.changes) > _LOG_LIMIT:
            self.changes_dropped += len(self.changes)
            self.changes.clear()


def _typed_hold(result: DeviceRequestAllocationResult) -> Hold | None:
    if result.adminAccess:
        return None
    return _hold(result.driver, result.pool, result.device, result.shareID, result.consumedCapacity)


def _plain_holds(results: Iterable[Mapping[str, Any]]) -> list[Hold]:
    return [
        _hold(r["driver"], r["pool"], r["device"], r.get("shareID"), r.get("consumedCapacity"))
        for r in results
        if not r.get("adminAccess")
    ]


def _hold(driver: str, pool: str, device: str, share: str | None, consumed: Mapping[str, Any] | None) -> Hold:
    capacity = None if share is None or consumed is None else {name: nano(value) for name, value in consumed.items()}
    return Hold((driver, pool), device, share is not None, capacity)
