"""From a driver's devices to ResourceSlices: how pools split, which slices change, which generation they get. Pure.

The plan follows upstream's resourceslice controller: slices are matched by the index at the start of their names, one changed slice
is updated in place, more than one (or a new one) raises the pool's generation so that a scheduler never mixes old and new.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from drakit.api.quantity import Quantity
from drakit.driver.errors import PublishError

__all__ = ["Plan", "Pool", "Slice", "check_pool", "plan", "split"]

Plain = Mapping[str, Any]

MAX_DEVICES = 128
MAX_DEVICES_WITH_EXTRAS = 64  # taints, counters or list attributes in any device of the slice
MAX_COUNTER_SETS = 8
_INDEX_DIGITS = 5
_LISTS = frozenset({"ints", "bools", "strings", "versions"})


@dataclass(frozen=True)
class Slice:
    """One ResourceSlice's own part: devices or counter sets, never both."""

    devices: Sequence[Plain] = ()
    shared_counters: Sequence[Plain] = ()
    per_device_node_selection: bool = False
    partition_type_attribute: str = ""
    skip_node_operations: Sequence[str] = ()


@dataclass(frozen=True)
class Pool:
    """A pool in whole. Without node_selector and all_nodes it belongs to the driver's node."""

    devices: Sequence[Plain] = ()
    counter_sets: Sequence[Plain] = ()
    node_selector: Plain | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    partition_type_attribute: str = ""
    skip_node_operations: Sequence[str] = ()
    generation: int = 0  # only to force a higher one than published


@dataclass(frozen=True)
class Plan:
    """What to write, in this order: deletions, updates, creations."""

    delete: list[Plain] = field(default_factory=list)
    update: list[dict[str, Any]] = field(default_factory=list)
    create: list[dict[str, Any]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.delete or self.update or self.create)


def split(pool: Pool) -> list[Slice]:
    """The pool's slices at the API's limits: counter sets first, then devices in their order (allocation follows it)."""
    common = Slice(
        per_device_node_selection=pool.per_device_node_selection, skip_node_operations=tuple(pool.skip_node_operations)
    )
    sets = list(pool.counter_sets)
    slices = [
        replace(common, shared_counters=tuple(sets[i : i + MAX_COUNTER_SETS]))
        for i in range(0, len(sets), MAX_COUNTER_SETS)
    ]
    current: list[Plain] = []
    limit = MAX_DEVICES
    for device in pool.devices:
        limit_with = min(limit, MAX_DEVICES_WITH_EXTRAS) if _has_extras(device) else limit
        if len(current) >= limit_with:
            slices.append(_with_devices(common, pool, current))
            current, limit = [], MAX_DEVICES
            limit_with = MAX_DEVICES_WITH_EXTRAS if _has_extras(device) else MAX_DEVICES
        current.append(device)
        limit = limit_with
    if current or not slices:  # an empty pool still publishes one slice: it says that the driver is there
        slices.append(_with_devices(common, pool, current))
    return slices


def _with_devices(common: Slice, pool: Pool, devices: Sequence[Plain]) -> Slice:
    partitioned = pool.partition_type_attribute if any(d.get("consumesCounters") for d in devices) else ""
    return replace(common, devices=tuple(devices), partition_type_attribute=partitioned)


def _has_extras(device: Plain) -> bool:
    attributes = device.get("attributes") or {}
    return bool(device.get("taints") or device.get("consumesCounters")) or any(
        _LISTS & set(a) for a in attributes.values()
    )


def check_pool(name: str, pool: Pool) -> None:
    """What the API server cannot see because it looks at one slice at a time; PublishError names the offender."""
    sets: dict[str, Plain] = {}
    for counter_set in pool.counter_sets:
        if counter_set["name"] in sets:
            raise PublishError(f"found duplicate counter set {counter_set['name']!r} in pool {name!r}")
        sets[counter_set["name"]] = counter_set
    seen: set[str] = set()
    for device in pool.devices:
        if device["name"] in seen:
            raise PublishError(f"found duplicate device {device['name']!r} in pool {name!r}")
        seen.add(device["name"])
        for use in device.get("consumesCounters") or ():
            if use["counterSet"] not in sets:
                raise PublishError(
                    f"counter set {use['counterSet']!r} referenced by device {device['name']!r} not found"
                )
            known = sets[use["counterSet"]].get("counters") or {}
            for counter in use.get("counters") or {}:
                if counter not in known:
                    raise PublishError(
                        f"counter {counter!r} referenced by device {device['name']!r} not found in counter set {use['counterSet']!r}"
                    )


def plan(
    driver: str,
    pool_name: str,
    pool: Pool | None,
    existing: Iterable[Plain],
    *,
    node_name: str = "",
    owner: Plain | None = None,
) -> Plan:
    """What brings the existing slices of one pool (plain objects) to the desired state; pool None removes them."""
    found = list(existing)
    if pool is None:
        return Plan(delete=found)
    desired = split(pool)
    digits = max(_INDEX_DIGITS, len(f"{max(len(desired) - 1, 0):x}"))
    generation = max((s["spec"]["pool"].get("generation", 0) for s in found), default=0)
    matched, obsolete = _match(found, len(desired), generation, digits)

    def spec(index: int, at_generation: int) -> dict[str, Any]:
        described = {"name": pool_name, "generation": at_generation, "resourceSliceCount": len(desired)}
        return _spec(driver, described, pool, desired[index], node_name)

    changed = {i for i, s in matched.items() if not same(s["spec"], spec(i, generation))}
    bumped = True
    if pool.generation > generation:
        generation = pool.generation
    elif len(matched) == len(desired) and len(changed) <= 1:
        bumped = False
    else:
        generation += 1
    update = []
    for i, current in sorted(matched.items()):
        if bumped or i in changed:
            wanted = spec(i, generation)
            if "devices" in wanted:
                wanted["devices"] = _keep_taint_times(current["spec"].get("devices") or (), wanted["devices"])
            update.append({**current, "spec": wanted})
    owners = {"ownerReferences": [dict(owner)]} if owner else {}
    suffix = f"{driver}-{owner['name']}-" if owner else f"{driver}-"
    create = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"generateName": f"{i:0{digits}x}-{suffix}", **owners},
            "spec": spec(i, generation),
        }
        for i in range(len(desired))
        if i not in matched
    ]
    return Plan(obsolete, update, create)


def _match(found: Sequence[Plain], count: int, generation: int, digits: int) -> tuple[dict[int, Plain], list[Plain]]:
    matched: dict[int, Plain] = {}
    obsolete = []
    for current in sorted(found, key=lambda s: str(s["metadata"].get("name", ""))):
        prefix = current["metadata"]["name"].partition("-")[0]
        try:
            index = int(prefix, 16) if len(prefix) == digits else -1
        except ValueError:
            index = -1
        if current["spec"]["pool"].get("generation", 0) < generation or not 0 <= index < count or index in matched:
            obsolete.append(current)
        else:
            matched[index] = current
    return matched, obsolete


def _spec(driver: str, pool_part: Plain, pool: Pool, part: Slice, node_name: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"driver": driver, "pool": dict(pool_part)}
    if part.per_device_node_selection:
        spec["perDeviceNodeSelection"] = True
    elif pool.node_selector is not None:
        spec["nodeSelector"] = pool.node_selector
    elif pool.all_nodes:
        spec["allNodes"] = True
    elif node_name:
        spec["nodeName"] = node_name
    if part.devices:
        spec["devices"] = list(part.devices)
    if part.shared_counters:
        spec["sharedCounters"] = list(part.shared_counters)
    if part.partition_type_attribute:
        spec["partitionTypeAttribute"] = part.partition_type_attribute
    if part.skip_node_operations:
        spec["skipNodeOperations"] = list(part.skip_node_operations)
    return spec


def same(stored: Any, wanted: Any, key: str = "") -> bool:
    """Equal as the API server would store it: quantities by value, empty like absent, an absent timeAdded like any."""
    if isinstance(stored, Mapping) and isinstance(wanted, Mapping):
        return all(same(stored.get(k), wanted.get(k), k) for k in {*stored, *wanted})
    if key == "timeAdded":
        return wanted is None or stored is None or abs((_time(stored) - _time(wanted)).total_seconds()) <= 1
    if not stored and not wanted and stored not in (0, "") and wanted not in (0, ""):
        return True
    if isinstance(stored, list | tuple) and isinstance(wanted, list | tuple):
        return len(stored) == len(wanted) and all(same(a, b, key) for a, b in zip(stored, wanted, strict=True))
    if key in ("value", "default", "min", "max", "step", "validValues") and stored is not None and wanted is not None:
        return bool(_quantity(stored) == _quantity(wanted))
    return bool(stored == wanted)


def _quantity(value: Any) -> Any:
    """Counter and capacity values compare as quantities; anything that is none (a taint's value) compares as text."""
    try:
        return Quantity.parse(str(value))
    except ValueError:
        return value


def _time(value: Any) -> datetime:
    return datetime.fromisoformat(str(value).replace("Z", "+00:00"))


def _keep_taint_times(old: Sequence[Plain], new: Sequence[Plain]) -> list[Plain]:
    """A taint that stays keeps its timeAdded: toleration seconds count from it."""
    times = {
        (d["name"], t.get("key"), t.get("value", ""), t.get("effect")): t["timeAdded"]
        for d in old
        for t in d.get("taints") or ()
        if t.get("timeAdded")
    }
    result: list[Plain] = []
    for device in new:
        taints = [
            t
            if t.get("timeAdded")
            else _with_time(t, times.get((device["name"], t.get("key"), t.get("value", ""), t.get("effect"))))
            for t in device.get("taints") or ()
        ]
        result.append({**device, "taints": taints} if taints else device)
    return result


def _with_time(taint: Plain, time: Any) -> Plain:
    return {**taint, "timeAdded": time} if time else taint
