"""Devices that drive their users away: NoExecute taints, of slices and of rules, and since when they do.

The allocator sees whether a taint is tolerated; for how long is only known here. What is said of a device is what
device-taint-eviction-controller goes by: a rule without a selector concerns no device, a toleration has to name the effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import product
from typing import Any

from lightkube.models.resource_v1 import (
    DeviceRequestAllocationResult,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from msgspec.structs import replace

from drakit.allocator import Inventory, results
from drakit.allocator.devices import Taint
from drakit.allocator.taints import tolerates
from drakit.clock import later

NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "NoExecute"
_ALWAYS = datetime.min.replace(tzinfo=UTC)

Device = tuple[str, str, str]  # driver, pool, name
Selector = tuple[str | None, ...]  # the same, None for any
Evicting = tuple[Taint, datetime]  # since when


class EvictingTaints:
    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory  # knows which slices count
        self._slices: dict[str, list[Device]] = {}
        self._devices: dict[Device, dict[str, list[Evicting]]] = {}  # by slice name
        self._selectors: dict[str, Selector] = {}  # by rule name
        self._rules: dict[Selector, dict[str, Evicting]] = {}

    def __bool__(self) -> bool:
        return bool(self._devices or self._rules)

    def set_slice(self, slice_: ResourceSlice) -> None:
        name = (slice_.metadata.name if slice_.metadata else None) or ""
        self.remove_slice(name)
        for device in slice_.spec.devices or ():
            if found := [_evicting(taint) for taint in device.taints or () if taint.effect == NO_EXECUTE]:
                key = (slice_.spec.driver, slice_.spec.pool.name, device.name)
                self._slices.setdefault(name, []).append(key)
                self._devices.setdefault(key, {})[name] = found

    def remove_slice(self, name: str) -> None:
        for device in self._slices.pop(name, ()):
            del self._devices[device][name]
            if not self._devices[device]:
                del self._devices[device]

    def set_rule(self, rule: DeviceTaintRule) -> bool:
        """Whether some may stay where they could not before; so does `remove_rule`."""
        name = (rule.metadata.name if rule.metadata else None) or ""
        selector, taint = rule.spec.deviceSelector, rule.spec.taint
        before = self._forget(name)
        if selector is None or taint.effect != NO_EXECUTE:
            return before is not None
        key = self._selectors[name] = (selector.driver, selector.pool, selector.device)
        after = self._rules.setdefault(key, {})[name] = _evicting(taint)
        return before is not None and before != (key, after)

    def remove_rule(self, name: str) -> bool:
        return self._forget(name) is not None

    def _forget(self, rule: str) -> tuple[Selector, Evicting] | None:
        selector = self._selectors.pop(rule, None)
        if selector is None:
            return None
        found = selector, self._rules[selector].pop(rule)
        if not self._rules[selector]:
            del self._rules[selector]
        return found

    def first(self, devices: Iterable[DeviceRequestAllocationResult]) -> tuple[datetime, str] | None:
        """When the users of these devices have to go, and because of what; None when they may stay."""
        moments = [found for device in devices for found in self._moments(device)]
        return min(moments, default=None)

    def _moments(self, result: DeviceRequestAllocationResult) -> Iterator[tuple[datetime, str]]:
        for taint, since in self._taints((result.driver, result.pool, result.device)):
            matching = [
                each for each in result.tolerations or () if each.effect == NO_EXECUTE and tolerates(each, taint)
            ]
            seconds = [each.tolerationSeconds for each in matching]
            if None not in seconds:
                granted = min((max(each or 0, 0) for each in seconds), default=0)
                yield later(since, granted), f"taint {taint} of device {result.driver}/{result.pool}/{result.device}"

    def _taints(self, device: Device) -> Iterator[Evicting]:
        for selector in product(*((part, None) for part in device)) if self._rules else ():
            yield from self._rules.get(selector, {}).values()
        if (known := self._devices.get(device)) is not None:
            pool = self._inventory.pools.get(device[:2])
            for record in pool.current() if pool is not None else ():
                yield from known.get(record.name, ())


def lasting(claim: ResourceClaim) -> ResourceClaim:
    """The claim as far as taints go that leave its users where they are."""
    assert claim.spec is not None
    assert claim.spec.devices is not None
    requests = [
        replace(
            request,
            exactly=_lasting(request.exactly) if request.exactly is not None else None,
            firstAvailable=[_lasting(each) for each in request.firstAvailable or ()] or None,
        )
        for request in claim.spec.devices.requests or ()
    ]
    return replace(claim, spec=replace(claim.spec, devices=replace(claim.spec.devices, requests=requests)))


def _lasting(request: Any) -> Any:
    kept = [
        each if each.effect else replace(each, effect=NO_SCHEDULE, tolerationSeconds=None)
        for each in request.tolerations or ()
        if each.effect != NO_EXECUTE or each.tolerationSeconds is None
    ]
    return replace(request, tolerations=kept or None)


def tell_tolerations(claim: ResourceClaim, allocation: dict[str, Any]) -> None:
    """Into an allocation of the `lasting` form of the claim: what it tolerates in truth."""
    assert claim.spec is not None
    assert claim.spec.devices is not None
    found: dict[str, Any] = {}
    for request in claim.spec.devices.requests or ():
        found[request.name] = request.exactly
        found.update((f"{request.name}/{each.name}", each) for each in request.firstAvailable or ())
    for result in allocation["devices"].get("results", ()):
        if tolerations := found[result["request"]].tolerations:
            result["tolerations"] = results.tolerations(tolerations)


def _evicting(taint: Any) -> Evicting:
    return Taint(taint.key, taint.value or "", taint.effect), taint.timeAdded or _ALWAYS
