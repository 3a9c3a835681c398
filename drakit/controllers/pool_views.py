"""How the pools of a driver are used: totals, what is free, partitions and shareable capacity (reference/controllers.md §4). Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from drakit.api.quantity import Quantity
from drakit.controllers.device_taint_decisions import Found, devices_of, rule_matches
from drakit.controllers.objects import Plain, format_time, spec

__all__ = ["INCOMPLETE", "pool_request_status"]

INCOMPLETE = "PoolIncomplete:"
_LIST_LIMIT = 32
_TEXT_LIMIT = 256
_DEFAULT_LIMIT = 100
_UNAVAILABLE = ("NoSchedule", "NoExecute")
_ZERO = Quantity.parse("0")

Counters = dict[str, dict[str, Quantity]]


@dataclass(slots=True)
class _Pool:
    driver: str
    name: str
    generation: int
    slices: list[Plain] = field(default_factory=list)
    in_use: set[str] = field(default_factory=set)
    consumed: dict[str, Quantity] = field(default_factory=dict)

    @property
    def devices(self) -> list[tuple[Plain, str]]:
        """Each device with the partition attribute of its slice."""
        return [
            (device, spec(each).get("partitionTypeAttribute") or "")
            for each in self.slices
            for device in spec(each).get("devices") or ()
        ]

    @property
    def full_name(self) -> str:
        return f"{self.driver}/{self.name}"


def pool_request_status(
    request: Plain, slices: Iterable[Plain], claims: Iterable[Plain], rules_for: Found, now: datetime
) -> Plain:
    """`slices` and `claims` may be all, or those that concern the driver and the pool in question."""
    wanted = spec(request)
    pools = _pools(wanted["driver"], wanted.get("poolName") or "", slices)
    for claim in claims:
        for device in devices_of(claim):
            pool = pools.get(device["pool"]) if device["driver"] == wanted["driver"] else None
            if pool is None or device.get("adminAccess"):
                continue
            pool.in_use.add(device["device"])
            for capacity, amount in (device.get("consumedCapacity") or {}).items():
                pool.consumed[capacity] = pool.consumed.get(capacity, _ZERO) + Quantity.parse(str(amount))
    attribute = wanted.get("defaultPartitionTypeAttribute") or ""
    shown = [_pool_status(pools[each], rules_for, attribute) for each in sorted(pools)][
        : wanted.get("limit") or _DEFAULT_LIMIT
    ]
    incomplete = sum(1 for each in shown if each.get("validationError"))
    message = f"Calculated status for {len(shown)} pools" + (f" ({incomplete} incomplete)" if incomplete else "")
    result: Plain = {
        "poolCount": len(pools),
        "conditions": [
            {
                "type": "Complete",
                "status": "True",
                "lastTransitionTime": format_time(now),
                "reason": "CalculationComplete",
                "message": message,
            }
        ],
    }
    if shown:
        result["pools"] = shown
    return result


def _pools(driver: str, only: str, slices: Iterable[Plain]) -> dict[str, _Pool]:
    """The slices of each pool's newest generation."""
    pools: dict[str, _Pool] = {}
    for each in slices:
        pool_name, generation = spec(each)["pool"]["name"], spec(each)["pool"].get("generation") or 0
        if spec(each)["driver"] != driver or (only and pool_name != only):
            continue
        pool = pools.get(pool_name)
        if pool is None or generation > pool.generation:
            pool = pools[pool_name] = _Pool(driver, pool_name, generation)
        if generation == pool.generation:
            pool.slices.append(each)
    return pools


def _pool_status(pool: _Pool, rules_for: Found, request_attribute: str) -> Plain:
    result: Plain = {"driver": pool.driver, "poolName": pool.name, "generation": pool.generation}
    nodes = {spec(each).get("nodeName") or "" for each in pool.slices}
    if len(nodes) == 1 and "" not in nodes:
        result["nodeName"] = nodes.pop()
    expected = spec(pool.slices[0])["pool"].get("resourceSliceCount") or 0
    if len(pool.slices) < expected:
        observed = f"observed {len(pool.slices)}/{expected} slices at generation {pool.generation}"
        result["validationError"] = f"{INCOMPLETE} pool {pool.full_name} is incomplete: {observed}"[:_TEXT_LIMIT]
        return result
    devices = pool.devices
    unavailable = sum(1 for device, _ in devices if _unavailable(pool, device, rules_for))
    result.update(
        resourceSliceCount=len(pool.slices),
        totalDevices=len(devices),
        allocatedDevices=len(pool.in_use),
        availableDevices=max(0, len(devices) - len(pool.in_use) - unavailable),
        unavailableDevices=unavailable,
    )
    partitions, shareable, trouble = _views(pool, request_attribute)
    if partitions:
        result["partitionSummary"] = partitions
    if shareable is not None:
        result["shareableSummary"] = shareable
    if trouble:
        result["validationError"] = trouble[:_TEXT_LIMIT]
    return result


def _unavailable(pool: _Pool, device: Plain, rules_for: Found) -> bool:
    if any(taint.get("effect") in _UNAVAILABLE for taint in device.get("taints") or ()):
        return True
    identity = {"driver": pool.driver, "pool": pool.name, "device": device["name"]}
    return any(
        (spec(rule).get("taint") or {}).get("effect") in _UNAVAILABLE and rule_matches(rule, identity)
        for rule in rules_for(identity)
    )


def _views(pool: _Pool, request_attribute: str) -> tuple[list[Plain], Plain | None, str]:
    devices = pool.devices
    declared = any(attribute for _, attribute in devices)
    grouped = [(device, attribute or ("" if declared else request_attribute)) for device, attribute in devices]
    counters = any(spec(each).get("sharedCounters") for each in pool.slices)
    partitions: list[Plain] = []
    trouble = ""
    if any(attribute for _, attribute in grouped):
        if counters:
            partitions, trouble = _partitions(pool, grouped)
        else:
            trouble = f"PartitionTypeMissing: pool {pool.full_name} declares partitionTypeAttribute but publishes no sharedCounters"
    shareable, shareable_trouble = _shareable(pool)
    trouble = trouble or shareable_trouble
    return ([] if trouble else partitions), shareable, trouble


def _partitions(pool: _Pool, devices: list[tuple[Plain, str]]) -> tuple[list[Plain], str]:
    totals: dict[tuple[str, str], int] = defaultdict(int)
    fresh: dict[tuple[str, str], list[Plain]] = defaultdict(list)
    costs: dict[tuple[str, str], str] = {}
    for device, attribute in devices:
        if not device.get("consumesCounters") or not attribute:
            continue
        kind = _partition_type(pool.driver, device, attribute)
        if kind is None:
            where = f'device "{device["name"]}" in pool {pool.full_name}'
            return [], f'PartitionTypeMissing: {where} does not carry partition type attribute "{attribute}"'
        key = (attribute, kind)
        cost = _cost(device)
        if costs.setdefault(key, cost) != cost:
            return (
                [],
                f'PartitionCostMismatch: devices of partition type "{kind}" in pool {pool.full_name} consume different counters',
            )
        totals[key] += 1
        if device["name"] not in pool.in_use:
            fresh[key].append(device)
    if len(totals) > _LIST_LIMIT:
        text = f"has {len(totals)} partition types, exceeding the maximum of {_LIST_LIMIT}"
        return [], f"PartitionSummaryOverCap: pool {pool.full_name} {text}"
    left = _counters_left(pool)
    return [
        {
            "attribute": attribute,
            "type": kind,
            "total": totals[attribute, kind],
            "allocatable": _greedy(fresh[attribute, kind], left),
        }
        for attribute, kind in sorted(totals)
    ], ""


def _partition_type(driver: str, device: Plain, attribute: str) -> str | None:
    attributes = device.get("attributes") or {}
    bare = attribute.removeprefix(f"{driver}/")
    value = attributes.get(attribute) or attributes.get(bare) or {}
    text = value.get("string")
    return str(text) if text is not None else None


def _consumed(device: Plain) -> Iterable[tuple[str, str, Quantity]]:
    for entry in device.get("consumesCounters") or ():
        for counter, value in (entry.get("counters") or {}).items():
            yield entry["counterSet"], counter, Quantity.parse(str(value["value"]))


def _cost(device: Plain) -> str:
    return ",".join(sorted(f"{counters}/{counter}={amount}" for counters, counter, amount in _consumed(device)))


def _counters_left(pool: _Pool) -> Counters:
    left: Counters = {}
    for each in pool.slices:
        for counters in spec(each).get("sharedCounters") or ():
            values = left.setdefault(counters["name"], {})
            values.update(
                {
                    counter: Quantity.parse(str(value["value"]))
                    for counter, value in (counters.get("counters") or {}).items()
                }
            )
    for device, _ in pool.devices:
        if device["name"] in pool.in_use:
            _deduct(device, left)
    return left


def _deduct(device: Plain, left: Counters) -> None:
    for counters, counter, amount in _consumed(device):
        if counter in left.get(counters, {}):
            left[counters][counter] = left[counters][counter] - amount


def _greedy(devices: list[Plain], left: Counters) -> int:
    """How many of them fit at once, taken in order."""
    left = {counters: dict(values) for counters, values in left.items()}
    count = 0
    for device in devices:
        if all(
            counter in left.get(counters, {}) and left[counters][counter] >= amount
            for counters, counter, amount in _consumed(device)
        ):
            _deduct(device, left)
            count += 1
    return count


def _shareable(pool: _Pool) -> tuple[Plain | None, str]:
    shared = [device for device, _ in pool.devices if device.get("allowMultipleAllocations")]
    if not shared:
        return None, ""
    totals: dict[str, Quantity] = {}
    for device in shared:
        for capacity, value in (device.get("capacity") or {}).items():
            totals[capacity] = totals.get(capacity, _ZERO) + Quantity.parse(str(value["value"]))
    if len(totals) > _LIST_LIMIT:
        text = f"has {len(totals)} shareable capacity keys, exceeding the maximum of {_LIST_LIMIT}"
        return None, f"ShareableSummaryOverCap: pool {pool.full_name} {text}"
    partly = sum(1 for device in shared if device["name"] in pool.in_use)
    return {
        "fullyAvailableDevices": len(shared) - partly,
        "partiallyAvailableDevices": partly,
        "capacity": [_capacity(each, totals[each], pool.consumed.get(each, _ZERO)) for each in sorted(totals)],
    }, ""


def _capacity(capacity: str, total: Quantity, consumed: Quantity) -> Plain:
    left = total - consumed
    return {
        "name": capacity,
        "total": str(total),
        "consumed": str(consumed),
        "available": str(left if left.sign >= 0 else _ZERO),
    }
