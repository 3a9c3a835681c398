"""Partitionable devices: how full the counter sets are that an allocation draws on.

A partition on a GPU that is already cut up leaves the whole GPUs whole. Kubernetes' allocator picks devices in the order of the
slice and compares nothing; which *node* it is asked on is the scheduler's choice, and there the fuller counters win.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lightkube.models.resource_v1 import ResourceSlice

from drakit.api.quantity import Quantity

Device = tuple[str, str, str]  # driver, pool, device
CounterSet = tuple[str, str, str]  # driver, pool, name
Amounts = dict[str, int]


class Partitions:
    def __init__(self) -> None:
        self._totals: dict[CounterSet, Amounts] = {}
        self._draws: dict[Device, list[tuple[CounterSet, Amounts]]] = {}
        self._slices: dict[str, tuple[list[CounterSet], list[Device]]] = {}
        self._held: dict[str, list[Device]] = {}  # claim UID -> its devices that draw on counters
        self._used: dict[CounterSet, Amounts] = {}

    def __bool__(self) -> bool:
        return bool(self._draws)

    # -- what there is

    def set_slice(self, slice_: ResourceSlice) -> None:
        spec, meta = slice_.spec, slice_.metadata
        if spec is None or meta is None:
            return
        self.remove_slice(meta.name or "")
        driver, pool = spec.driver, spec.pool.name
        sets, devices = [], []
        for counters in spec.sharedCounters or ():
            key = (driver, pool, counters.name)
            self._totals[key] = _amounts(counters.counters)
            sets.append(key)
        for device in spec.devices or ():
            if device.consumesCounters:
                draws = [((driver, pool, c.counterSet), _amounts(c.counters)) for c in device.consumesCounters]
                self._draws[driver, pool, device.name] = draws
                devices.append((driver, pool, device.name))
        if sets or devices:
            self._slices[meta.name or ""] = (sets, devices)

    def remove_slice(self, name: str) -> None:
        sets, devices = self._slices.pop(name, ((), ()))
        for key in sets:
            self._totals.pop(key, None)
        for device in devices:
            self._draws.pop(device, None)

    # -- what is held

    def hold(self, uid: str, results: Iterable[Device]) -> None:
        """The claim holds these devices, instead of what it held before."""
        self.release(uid)
        if devices := [device for device in results if device in self._draws]:
            self._held[uid] = devices
            self._count(devices, 1)

    def release(self, uid: str) -> None:
        if devices := self._held.pop(uid, None):
            self._count(devices, -1)

    def _count(self, devices: Iterable[Device], sign: int) -> None:
        for device in devices:
            for key, amounts in self._draws.get(device, ()):
                used = self._used.setdefault(key, {})
                for name, amount in amounts.items():
                    used[name] = max(used.get(name, 0) + sign * amount, 0)

    # -- the question

    def fullness(self, results: Iterable[Mapping[str, Any]]) -> int:
        """How full (0 to 100) the counters get that these AllocationResults draw on; 0 when they draw on none."""
        taken: dict[CounterSet, Amounts] = {}
        for result in results:
            for each in result.get("devices", {}).get("results", ()):
                for key, amounts in self._draws.get((each["driver"], each["pool"], each["device"]), ()):
                    sums = taken.setdefault(key, {})
                    for name, amount in amounts.items():
                        sums[name] = sums.get(name, 0) + amount
        shares = [
            (self._used.get(key, {}).get(name, 0) + amount) / total
            for key, amounts in taken.items()
            for name, amount in amounts.items()
            if (total := self._totals.get(key, {}).get(name, 0))
        ]
        return round(100 * sum(shares) / len(shares)) if shares else 0


def _amounts(counters: Mapping[str, Any] | None) -> Amounts:
    return {name: Quantity.parse(str(counter["value"])).value() for name, counter in (counters or {}).items()}
