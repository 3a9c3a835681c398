"""No device, share of capacity or counter is promised twice: the store refuses such an allocation, whoever writes it.

Kubernetes trusts its one scheduler with this; here two schedulers, a script or a bug get a Conflict that names the holder.
Kept per claim: the devices in `status.allocation`. Devices with adminAccess do not count. What a pool offers (capacity,
counters) is read from its newest ResourceSlices. Only pools that some slice publishes are guarded: nobody can hold, or
lose, a device that does not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from drakit.api import registry
from drakit.api.errors import StatusError
from drakit.api.quantity import Quantity
from drakit.apiserver.store import Store
from drakit.apiserver.stored import Plain

__all__ = ["AllocationGuard"]

GROUP = "resource.k8s.io"
_ZERO = Quantity.parse("0")


class Device(NamedTuple):
    driver: str
    pool: str
    name: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.name}"


class Share(NamedTuple):
    """How one claim holds a device: all of it, or a share with some capacity."""

    share_id: str
    consumed: Mapping[str, Any]


def _results(claim: Plain | None) -> Any:
    allocation = ((claim or {}).get("status") or {}).get("allocation")
    return ((allocation or {}).get("devices") or {}).get("results") or ()


def _holdings(results: Iterable[Plain]) -> list[tuple[Device, Share]]:
    return [
        (
            Device(result["driver"], result["pool"], result["device"]),
            Share(str(result.get("shareID") or ""), result.get("consumedCapacity") or {}),
        )
        for result in results
        if not result.get("adminAccess")
    ]


class AllocationGuard:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._holders: dict[Device, dict[str, list[Share]]] = {}  # device -> claim key -> shares
        self._by_pool: dict[tuple[str, str], set[Device]] = {}
        self._pools: dict[tuple[str, str], dict[str, Plain]] = {}  # (driver, pool) -> slice name -> spec

    def attach(self) -> None:
        """Watch over claims and slices of the store. Call before it is loaded."""
        claims, slices = registry.by_resource(GROUP, "resourceclaims"), registry.by_resource(GROUP, "resourceslices")
        assert claims is not None
        assert slices is not None
        self._store.collection(claims).guards.append(self)
        self._store.collection(slices).guards.append(_Slices(self._pools))

    # -- Guard ---------------------------------------------------------------------------------------------------

    def check(self, key: str, new: Plain | None, old: Plain | None) -> None:
        results = _results(new)
        if not results or new is None:
            return
        before = _results(old)
        if results is before or results == before:
            return
        name = new["metadata"]["name"]
        known = set()
        for device, share in _holdings(before):
            known.add((device, share.share_id))
        wanted = [found for found in _holdings(results) if self._pools.get((found[0].driver, found[0].pool))]
        fresh = [(device, share) for device, share in wanted if (device, share.share_id) not in known]
        for device, share in fresh:
            self._check_use(name, key, device, share, wanted)
        self._check_counters(name, key, fresh, wanted)

    def applied(self, key: str, new: Plain | None, old: Plain | None) -> None:
        before, after = _results(old), _results(new)
        if before is after or before == after:
            return
        for device, _ in _holdings(before):
            holders = self._holders.get(device)
            if holders is not None:
                holders.pop(key, None)
                if not holders:
                    del self._holders[device]
                    self._by_pool[device.driver, device.pool].discard(device)
        for device, share in _holdings(after):
            self._holders.setdefault(device, {}).setdefault(key, []).append(share)
            self._by_pool.setdefault((device.driver, device.pool), set()).add(device)

    # -- rules ---------------------------------------------------------------------------------------------------

    def _check_use(self, name: str, key: str, device: Device, share: Share, wanted: list[tuple[Device, Share]]) -> None:
        own = [other for found, other in wanted if found == device]
        others = {holder: shares for holder, shares in self._holders.get(device, {}).items() if holder != key}
        if not share.share_id:
            if others:
                raise _conflict(name, f"device {device} is already allocated to ResourceClaim {next(iter(others))}")
            if len(own) > 1:
                raise _conflict(name, f"device {device} is allocated twice in this claim")
            return
        for holder, shares in others.items():
            for other in shares:
                if not other.share_id:
                    raise _conflict(name, f"device {device} is already allocated as a whole to ResourceClaim {holder}")
                if other.share_id == share.share_id:
                    raise _conflict(
                        name, f"share {share.share_id} of device {device} belongs to ResourceClaim {holder}"
                    )
        self._check_capacity(name, device, share, own, others)

    def _check_capacity(
        self, name: str, device: Device, share: Share, own: list[Share], others: dict[str, list[Share]]
    ) -> None:
        published = self._device(device)
        if published is None:
            return
        capacity = {
            _short(device.driver, key): value.get("value") for key, value in (published.get("capacity") or {}).items()
        }
        for key in share.consumed:
            limit = capacity.get(_short(device.driver, key))
            if limit is None:
                continue
            used = [(holder, amount) for holder, shares in others.items() if (amount := _sum(device, key, shares))]
            total = _sum(device, key, own)
            for _, amount in used:
                total = total + amount
            if total.compare(Quantity.parse(str(limit))) > 0:
                holders = (
                    ", ".join(f"ResourceClaim {holder} holds {amount}" for holder, amount in used) or "all by itself"
                )
                text = f"capacity {key} of device {device} would be {total} of {limit}: {holders}"
                raise _conflict(name, text)

    def _check_counters(
        self, name: str, key: str, fresh: list[tuple[Device, Share]], wanted: list[tuple[Device, Share]]
    ) -> None:
        for pool in {(device.driver, device.pool) for device, _ in fresh}:
            touched = {
                item["counterSet"]
                for device, _ in fresh
                if (device.driver, device.pool) == pool
                for item in (self._device(device) or {}).get("consumesCounters") or ()
            }
            if touched:
                self._check_pool_counters(name, key, pool, touched, {device for device, _ in wanted})

    def _check_pool_counters(
        self, name: str, key: str, pool: tuple[str, str], touched: set[str], wanted: set[Device]
    ) -> None:
        limits = self._counters(pool)
        used: dict[tuple[str, str], Quantity] = {}
        holders: dict[str, set[str]] = {}
        taken = {device for device in self._by_pool.get(pool, ()) if set(self._holders[device]) - {key}}
        for device in {*taken, *(device for device in wanted if (device.driver, device.pool) == pool)}:
            for item in (self._device(device) or {}).get("consumesCounters") or ():
                if item["counterSet"] not in touched:
                    continue
                holders.setdefault(item["counterSet"], set()).update(set(self._holders.get(device, ())) - {key})
                for counter, value in (item.get("counters") or {}).items():
                    place = (item["counterSet"], counter)
                    used[place] = used.get(place, _ZERO) + Quantity.parse(str(value["value"]))
        for (counter_set, counter), total in used.items():
            limit = limits.get((counter_set, counter))
            if limit is not None and total.compare(limit) > 0:
                names = ", ".join(sorted(holders[counter_set])) or "nobody else"
                where = f"counter {counter} of {counter_set} in pool {pool[0]}/{pool[1]}"
                raise _conflict(name, f"{where} would be {total} of {limit}: held by ResourceClaim {names}")

    # -- what pools offer ----------------------------------------------------------------------------------------

    def _newest(self, pool: tuple[str, str]) -> list[Plain]:
        specs = list(self._pools.get(pool, {}).values())
        newest = max((spec["pool"].get("generation") or 0 for spec in specs), default=0)
        return [spec for spec in specs if (spec["pool"].get("generation") or 0) == newest]

    def _device(self, device: Device) -> Plain | None:
        for spec in self._newest((device.driver, device.pool)):
            for found in spec.get("devices") or ():
                if found["name"] == device.name:
                    return dict(found)
        return None

    def _counters(self, pool: tuple[str, str]) -> dict[tuple[str, str], Quantity]:
        return {
            (counters["name"], name): Quantity.parse(str(value["value"]))
            for spec in self._newest(pool)
            for counters in spec.get("sharedCounters") or ()
            for name, value in (counters.get("counters") or {}).items()
        }


class _Slices:
    """Keeps what slices publish; never refuses one."""

    def __init__(self, pools: dict[tuple[str, str], dict[str, Plain]]) -> None:
        self._pools = pools

    def check(self, key: str, new: Plain | None, old: Plain | None) -> None:
        return

    def applied(self, key: str, new: Plain | None, old: Plain | None) -> None:
        if old is not None:
            self._pools.get(_pool_of(old), {}).pop(key, None)
        if new is not None:
            self._pools.setdefault(_pool_of(new), {})[key] = new["spec"]


def _pool_of(slice: Plain) -> tuple[str, str]:
    return slice["spec"]["driver"], slice["spec"]["pool"]["name"]


def _short(driver: str, name: str) -> str:
    """A capacity without domain belongs to the driver."""
    return name.removeprefix(driver + "/")


def _sum(device: Device, name: str, shares: Iterable[Share]) -> Quantity:
    total = _ZERO
    for share in shares:
        for key, amount in share.consumed.items():
            if _short(device.driver, key) == _short(device.driver, name):
                total = total + Quantity.parse(str(amount))
    return total


def _conflict(name: str, cause: str) -> StatusError:
    return StatusError.conflict(GROUP, "resourceclaims", name, cause)
