"""ResourceSlice: devices of one pool as a driver publishes them, or the counters that they share."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from drakit.api import formats, selector_validation
from drakit.api.errors import FieldError, go_quote
from drakit.api.kind import Object, Strategy, WriteContext
from drakit.api.resource import capacity, checks, convert, names

__all__ = ["STRATEGY"]

_MAX_DEVICES = 128
_MAX_DEVICES_ADVANCED = 64
_MAX_COUNTER_SETS = 8
_MAX_COUNTERS = 32
_MAX_ATTRIBUTES = 32
_MAX_ATTRIBUTE_VALUES = 48
_MAX_TAINTS = 16
_MAX_KEY = names.MAX_DOMAIN + 1 + names.MAX_ID
_MAX_TEXT = 64
_LISTS = ("ints", "bools", "strings", "versions")
_LIST_NAMES = frozenset(_LISTS)
_VALUES = ("int", "bool", "string", "version", *_LISTS)
_SELECTION = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_DEVICE_SELECTION = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the "
    "ResourceSlice spec"
)


def _devices(obj: Object | None) -> list[Object]:
    return ((obj or {}).get("spec") or {}).get("devices") or []


# On the way in


def _stamp_taints(new: Object, ctx: WriteContext) -> None:
    for device in _devices(new):
        for taint in device.get("taints") or ():
            taint.setdefault("timeAdded", ctx.timestamp)


def _drop(new: Object, old: Object | None, *fields: str) -> None:
    if not any(field in device for device in _devices(old) for field in fields):
        for device in _devices(new):
            for field in fields:
                device.pop(field, None)


def _drop_disabled(new: Object, old: Object | None, ctx: WriteContext) -> None:
    enabled = ctx.gates.enabled
    spec, old_spec = new["spec"], (old or {}).get("spec") or {}
    if not enabled("DRADeviceTaints"):
        _drop(new, old, "taints")
    if not enabled("DRAPartitionableDevices"):
        _drop_partitions(new, old)
    if not (enabled("DRADeviceBindingConditions") and enabled("DRAResourceClaimDeviceStatus")):
        _drop(new, old, "bindingConditions", "bindingFailureConditions", "bindsToNode")
    if not enabled("DRAConsumableCapacity"):
        _drop_consumable(new, old)
    if not enabled("DRADeviceCompatibilityGroups"):
        _drop_compatibility_groups(new, old)
    if not enabled("DRANodeAllocatableResources"):
        _drop(new, old, "nodeAllocatableResources")
    if not enabled("DRAListTypeAttributes"):
        _drop_lists(new, old)
    if not enabled("DRAPartitionableDevicesType") and "partitionTypeAttribute" not in old_spec:
        spec.pop("partitionTypeAttribute", None)
    if not enabled("DRAOptionalNodeOperations") and "skipNodeOperations" not in old_spec:
        spec.pop("skipNodeOperations", None)


def _drop_partitions(new: Object, old: Object | None) -> None:
    fields = ("consumesCounters", "nodeName", "nodeSelector", "allNodes")
    old_spec = (old or {}).get("spec") or {}
    if "sharedCounters" in old_spec or "perDeviceNodeSelection" in old_spec:
        return
    if any(field in device for device in _devices(old) for field in fields):
        return
    new["spec"].pop("sharedCounters", None)
    new["spec"].pop("perDeviceNodeSelection", None)
    _drop(new, None, *fields)


def _drop_consumable(new: Object, old: Object | None) -> None:
    for device in _devices(old):
        if "allowMultipleAllocations" in device:
            return
        if any("requestPolicy" in value for value in (device.get("capacity") or {}).values()):
            return
    for device in _devices(new):
        device.pop("allowMultipleAllocations", None)
        for value in (device.get("capacity") or {}).values():
            value.pop("requestPolicy", None)


def _drop_compatibility_groups(new: Object, old: Object | None) -> None:
    def consumptions(obj: Object | None) -> list[Object]:
        return [entry for device in _devices(obj) for entry in device.get("consumesCounters") or ()]

    if not any("compatibilityGroups" in entry for entry in consumptions(old)):
        for entry in consumptions(new):
            entry.pop("compatibilityGroups", None)


def _drop_lists(new: Object, old: Object | None) -> None:
    def attributes(obj: Object | None) -> list[Object]:
        return [attribute for device in _devices(obj) for attribute in (device.get("attributes") or {}).values()]

    if not any(name in attribute for attribute in attributes(old) for name in _LISTS):
        for attribute in attributes(new):
            for name in _LISTS:
                attribute.pop(name, None)


def _prepare_for_create(new: Object, ctx: WriteContext) -> None:
    _stamp_taints(new, ctx)
    _drop_disabled(new, None, ctx)


def _prepare_for_update(new: Object, old: Object, ctx: WriteContext) -> None:
    _stamp_taints(new, ctx)
    _drop_disabled(new, old, ctx)


def _canonical(new: Object) -> None:
    """Empty lists are not stored; until here they could be told from absent ones."""
    for name in ("devices", "sharedCounters"):
        if name in new["spec"] and not new["spec"][name]:
            del new["spec"][name]


# Validation


def _validate_spec(new: Object, old: Object | None, ctx: WriteContext) -> list[FieldError]:
    spec, old_spec = new["spec"], (old or {}).get("spec")
    errors = names.driver_name(spec.get("driver") or "", "spec.driver")
    errors += _pool(spec.get("pool") or {}, "spec.pool")
    if old_spec is not None:
        errors += _immutable(spec, old_spec)
    errors += _node_selection(spec)
    if spec.get("sharedCounters") is not None and spec.get("devices") is not None:
        errors.append(FieldError.invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed"))
    errors += _validate_devices(spec, old_spec, ctx)
    errors += _counter_sets(spec)
    if spec.get("partitionTypeAttribute") is not None:
        errors += _partition_type(spec)
    return errors + checks.skip_node_operations(spec.get("skipNodeOperations"), "spec.skipNodeOperations")


def _pool(pool: Object, path: str) -> list[FieldError]:
    errors = names.pool_name(pool.get("name") or "", f"{path}.name")
    count, generation = pool.get("resourceSliceCount") or 0, pool.get("generation") or 0
    if count <= 0:
        errors.append(FieldError.invalid(f"{path}.resourceSliceCount", count, "must be greater than zero"))
    if generation < 0:
        errors.append(FieldError.invalid(f"{path}.generation", generation, "must be greater than or equal to zero"))
    return errors


def _immutable(spec: Object, old: Object) -> list[FieldError]:
    pairs = (
        ("spec.pool.name", (spec.get("pool") or {}).get("name") or "", (old.get("pool") or {}).get("name") or ""),
        ("spec.driver", spec.get("driver") or "", old.get("driver") or ""),
        ("spec.nodeName", spec.get("nodeName"), old.get("nodeName")),
    )
    return [FieldError.invalid(path, new, "field is immutable") for path, new, before in pairs if new != before]


def _only_true(spec: Object, name: str, path: str, used: list[str]) -> list[FieldError]:
    value = spec.get(name)
    if value is None:
        return []
    if not value:
        return [FieldError.invalid(f"{path}.{name}", value, "must be either unset or set to true")]
    used.append(f"`{name}`")
    return []


def _node_selection(spec: Object) -> list[FieldError]:
    used: list[str] = []
    errors = _node_name(spec, "spec", used, "must be either unset or set to a non-empty string")
    if spec.get("nodeSelector") is not None:
        used.append("`nodeSelector`")
        errors += selector_validation.node_selector(spec["nodeSelector"], "spec.nodeSelector")
        terms = spec["nodeSelector"].get("nodeSelectorTerms")
        if len(terms or ()) != 1:
            detail = "must have exactly one node selector term"
            errors.append(FieldError.invalid("spec.nodeSelector.nodeSelectorTerms", _internal_terms(terms), detail))
    errors += _only_true(spec, "allNodes", "spec", used)
    errors += _only_true(spec, "perDeviceNodeSelection", "spec", used)
    if not used:
        errors.append(FieldError.required("spec", _SELECTION))
    elif len(used) > 1:
        detail = f"{_SELECTION}, but multiple fields are set"
        errors.append(FieldError.invalid("spec", "{" + ", ".join(used) + "}", detail))
    return errors


def _internal_terms(terms: list[Object] | None) -> Any:
    """Node selector terms as Go prints its internal type: by Go's names, nothing left out."""
    if not terms:
        return terms

    def requirement(value: Object) -> Object:
        return {"Key": value.get("key", ""), "Operator": value.get("operator", ""), "Values": value.get("values")}

    def requirements(values: list[Object] | None) -> list[Object] | None:
        return [requirement(value) for value in values] if values else None

    return [
        {name: requirements(term.get(name[0].lower() + name[1:])) for name in ("MatchExpressions", "MatchFields")}
        for term in terms
    ]


def _node_name(obj: Object, path: str, used: list[str], empty: str) -> list[FieldError]:
    name = obj.get("nodeName")
    if name is None:
        return []
    if not name:
        return [FieldError.invalid(f"{path}.nodeName", name, empty)]
    used.append("`nodeName`")
    return checks.node_name(name, f"{path}.nodeName")


def _validate_devices(spec: Object, old_spec: Object | None, ctx: WriteContext) -> list[FieldError]:
    devices = spec.get("devices") or []
    limit = _MAX_DEVICES_ADVANCED if any(_is_advanced(device) for device in devices) else _MAX_DEVICES
    old_devices: dict[str, Object] = {}
    for device in (old_spec or {}).get("devices") or ():
        old_devices.setdefault(device.get("name") or "", device)
    per_device = bool(spec.get("perDeviceNodeSelection"))

    def check(device: Object, path: str) -> list[FieldError]:
        return _device(device, old_devices.get(device.get("name") or ""), path, per_device, ctx)

    errors = checks.at_most(devices, limit, check, "spec.devices", declared=False)
    if len(devices) <= limit:
        errors += checks.distinct((checks.named(device) for device in devices), "spec.devices")
    return errors


def _is_advanced(device: Object) -> bool:
    if device.get("taints") or device.get("consumesCounters"):
        return True
    return any(attribute.keys() & _LIST_NAMES for attribute in (device.get("attributes") or {}).values())


def _device(device: Object, old: Object | None, path: str, per_device: bool, ctx: WriteContext) -> list[FieldError]:
    errors = names.short_name(device.get("name") or "", f"{path}.name")
    attributes, capacities = device.get("attributes") or {}, device.get("capacity") or {}
    count = len(attributes) + len(capacities)
    if count > _MAX_ATTRIBUTES:
        detail = f"the total number of attributes and capacities must not exceed {_MAX_ATTRIBUTES}"
        errors.append(FieldError.invalid(path, count, detail))
    values = sum(map(_value_count, attributes.values()))
    if values > _MAX_ATTRIBUTE_VALUES:
        detail = f"the total number of attribute values must not exceed {_MAX_ATTRIBUTE_VALUES}"
        errors.append(FieldError.invalid(path, values, detail))
    for key in sorted(key for key, attribute in attributes.items() if not _is_plain(key, attribute)):
        errors += names.qualified_name(key, f"{path}.attributes")
        errors += _attribute(attributes[key], f"{path}.attributes[{_short(key, _MAX_KEY)}]")
    if old is None or old.get("capacity") != device.get("capacity"):
        shareable = bool(device.get("allowMultipleAllocations"))
        for key in sorted(
            key for key, value in capacities.items() if "requestPolicy" in value or not _is_good_key(key)
        ):
            errors += names.qualified_name(key, f"{path}.capacity")
            errors += capacity.validate(capacities[key], f"{path}.capacity[{_short(key, _MAX_KEY)}]", shareable, ctx)
    if old is None or old.get("taints") != device.get("taints"):
        errors += checks.at_most(device.get("taints"), _MAX_TAINTS, checks.taint, f"{path}.taints", declared=False)
    errors += _consumptions(device.get("consumesCounters"), f"{path}.consumesCounters")
    errors += _device_nodes(device, path, per_device)
    errors += checks.binding_conditions(device, path)
    return errors + capacity.validate_node_allocatable(device, f"{path}.nodeAllocatableResources")


# A slice has thousands of attributes and nearly all of them are fine: these checks say so without building paths.


@lru_cache(maxsize=4096)
def _is_good_key(key: str) -> bool:
    return len(key) <= _MAX_KEY and not names.qualified_name(key, "")


def _is_plain(key: str, attribute: Object) -> bool:
    """Exactly one value, of the kind that needs no check or passes it."""
    if len(attribute) != 1 or not _is_good_key(key):
        return False
    ((name, value),) = attribute.items()
    if name in ("int", "bool"):
        return True
    return name == "string" and len(value) <= _MAX_TEXT and value.isascii()


def _value_count(attribute: Object) -> int:
    if len(attribute) == 1 and not attribute.keys() & _LIST_NAMES:
        return 1
    return sum(len(attribute.get(name) or ()) for name in _LISTS) or 1


def _short(key: str, limit: int) -> str:
    """A long key with its middle left out, as it stands in paths."""
    raw = key.encode("utf-8", "surrogatepass")
    if len(raw) <= limit:
        return key
    remaining = limit - 3
    head, tail = raw[: (remaining + 1) // 2], raw[len(raw) - remaining // 2 :]
    return (head + b"..." + tail).decode("utf-8", "replace")


def _attribute(attribute: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if attribute.get("string") is not None:
        errors += _text(attribute["string"], f"{path}.string")
    if attribute.get("version") is not None:
        errors += _version(attribute["version"], f"{path}.version")
    for name in ("bools", "ints", "strings", "versions"):
        if name in attribute and not attribute[name]:
            errors.append(FieldError.invalid(f"{path}.{name}", attribute[name], "must not be empty if specified"))
    for position, item in enumerate(attribute.get("strings") or ()):
        errors += _text(item, f"{path}.strings[{position}]")
    for position, item in enumerate(attribute.get("versions") or ()):
        errors += _version(item, f"{path}.versions[{position}]")
    used = [name for name in _VALUES if attribute.get(name) not in (None, [])]
    if len(used) != 1:
        every = ", ".join(f"`{name}`" for name in _VALUES)
        if used:
            error = FieldError.invalid(path, "{" + ", ".join(used) + "}", f"must specify exactly one of: {every}")
        else:
            error = FieldError.invalid(path, "", f"must specify one of: {every}")
        errors.append(error.as_declared())
    return errors


def _text(value: str, path: str) -> list[FieldError]:
    return [FieldError.too_long(path, _MAX_TEXT)] if formats.length(value) > _MAX_TEXT else []


def _version(value: str, path: str) -> list[FieldError]:
    errors = []
    if not formats.is_semver(value):
        errors.append(FieldError.invalid(path, value, "must be a string compatible with semver.org spec 2.0.0"))
    return errors + _text(value, path)


def _device_nodes(device: Object, path: str, per_device: bool) -> list[FieldError]:
    fields = ("nodeName", "nodeSelector", "allNodes")
    if not per_device:
        if all(device.get(name) is None for name in fields):
            return []
        detail = (
            "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the "
            "ResourceSlice spec"
        )
        return [FieldError.invalid(path, None, detail)]
    used: list[str] = []
    errors = _node_name(device, path, used, "must not be empty")
    if device.get("nodeSelector") is not None:
        used.append("`nodeSelector`")
        errors += selector_validation.node_selector(device["nodeSelector"], f"{path}.nodeSelector")
    errors += _only_true(device, "allNodes", path, used)
    if not used:
        errors.append(FieldError.required(path, _DEVICE_SELECTION))
    elif len(used) > 1:
        errors.append(FieldError.invalid(path, "{" + ", ".join(used) + "}", _DEVICE_SELECTION))
    return errors


# Counters


def _counter_sets(spec: Object) -> list[FieldError]:
    path = "spec.sharedCounters"
    sets = spec.get("sharedCounters")
    errors: list[FieldError] = []
    if len(sets or ()) <= _MAX_COUNTER_SETS:
        errors += checks.unique(sets, path, key=checks.named, model="resource_v1.CounterSet")
    return errors + checks.at_most(sets, _MAX_COUNTER_SETS, _counter_set, path)


def _counter_set(counter_set: Object, path: str) -> list[FieldError]:
    return _counted(counter_set, "name", path)


def _consumptions(entries: list[Object] | None, path: str) -> list[FieldError]:
    if not entries:
        return []
    errors: list[FieldError] = []
    if len(entries) <= 2:
        errors += checks.unique(
            entries, path, key=lambda entry: entry.get("counterSet") or "", model="resource_v1.DeviceCounterConsumption"
        )
    return errors + checks.at_most(entries, 2, _consumption, path)


def _consumption(entry: Object, path: str) -> list[FieldError]:
    errors = _counted(entry, "counterSet", path)
    groups = entry.get("compatibilityGroups")
    errors += checks.at_most(groups, 2, names.declared_short_name, f"{path}.compatibilityGroups")
    return errors + (checks.unique(groups, f"{path}.compatibilityGroups") if len(groups or ()) <= 2 else [])


def _counted(entry: Object, name: str, path: str) -> list[FieldError]:
    """A name and a map of counters."""
    errors: list[FieldError] = []
    if not entry.get(name):
        errors.append(FieldError.required(f"{path}.{name}").as_declared())
    else:
        errors += names.declared_short_name(entry[name], f"{path}.{name}")
    counters = entry.get("counters")
    if not counters:
        errors.append(FieldError.required(f"{path}.counters").as_declared())
        return errors
    if len(counters) > _MAX_COUNTERS:
        errors.append(FieldError.too_many(f"{path}.counters", len(counters), _MAX_COUNTERS))
    for key in sorted(counters):
        errors += names.declared_short_name(key, f"{path}.counters")
    return errors


def _partition_type(spec: Object) -> list[FieldError]:
    """Every device that consumes counters has to say by a string attribute what kind of partition it is."""
    path, name = "spec.partitionTypeAttribute", spec["partitionTypeAttribute"]
    malformed = names.declared_fully_qualified_name(name, path)
    consumers = [(n, device) for n, device in enumerate(spec.get("devices") or ()) if device.get("consumesCounters")]
    if not consumers:
        detail = "may only be set on a slice which declares devices that consume counters"
        return [FieldError.invalid(path, name, detail), *malformed]
    if malformed:
        return malformed
    bare = name.removeprefix(f"{spec.get('driver') or ''}/")
    errors: list[FieldError] = []
    for position, device in consumers:
        here = f"spec.devices[{position}].attributes[{name}]"
        attributes = device.get("attributes") or {}
        attribute = attributes.get(name) or attributes.get(bare)
        if attribute is None:
            detail = "device consumes counters and `partitionTypeAttribute` names this attribute, so it must be set"
            errors.append(FieldError.required(here, detail))
        elif attribute.get("string") is None:
            detail = "must be a string value because `partitionTypeAttribute` names this attribute"
            errors.append(FieldError.invalid(here, attribute, detail))
    return errors


def _warnings(new: Object, old: Object | None, ctx: WriteContext) -> list[str]:
    driver = new["spec"].get("driver") or ""
    if driver == driver.lower():
        return []
    return [f"spec.driver: driver names should be lowercase; {go_quote(driver)} contains uppercase characters"]


def _validate(new: Object, ctx: WriteContext) -> list[FieldError]:
    errors = _validate_spec(new, None, ctx)
    _canonical(new)
    return errors


def _validate_update(new: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
    errors = _validate_spec(new, old, ctx)
    _canonical(new)
    return errors


STRATEGY = Strategy(
    generation=True,
    to_storage={"v1beta1": convert.slice_to_v1},
    from_storage={"v1beta1": convert.slice_to_v1beta1},
    declared_path={"v1beta1": convert.slice_path_in_v1beta1},
    validate_name=formats.name_is(formats.dns_subdomain),
    prepare_for_create=_prepare_for_create,
    validate=_validate,
    prepare_for_update=_prepare_for_update,
    validate_update=_validate_update,
    warnings=_warnings,
)
