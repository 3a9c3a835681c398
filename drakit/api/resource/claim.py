"""ResourceClaim: an immutable spec, and a status that says what was allocated, for whom, and how the devices are."""

from __future__ import annotations

import ipaddress

from drakit.api import formats, metadata, selector_validation, wire
from drakit.api.errors import FieldError, go_quote
from drakit.api.kind import Object, Strategy, Subresource, WriteContext
from drakit.api.resource import checks, claim_spec, convert, names

__all__ = ["STRATEGY"]

DeviceKey = tuple[str, str, str, str]

_MAX_RESERVED = 256
_MAX_CONDITIONS = 8


def _default(version: str, obj: Object) -> None:
    if version == "v1beta1":
        claim_spec.default_flat(obj["spec"])
    else:
        claim_spec.default(obj["spec"])
    allocation = obj.get("status", {}).get("allocation") or {}
    for result in (allocation.get("devices") or {}).get("results") or ():
        for toleration in result.get("tolerations") or ():
            toleration.setdefault("operator", "Equal")


# The main resource


def _prepare_for_create(new: Object, ctx: WriteContext) -> None:
    claim_spec.drop_disabled(new["spec"], None, ctx)


def _prepare_for_update(new: Object, old: Object, ctx: WriteContext) -> None:
    claim_spec.drop_disabled(new["spec"], old["spec"], ctx)


def _validate(new: Object, ctx: WriteContext) -> list[FieldError]:
    return claim_spec.validate(new["spec"], "spec", ctx)


def _validate_update(new: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
    # Nothing else is checked: the user could not change it anyway.
    return checks.immutable("spec", new["spec"], old["spec"])


# The status


def _results(status: Object) -> list[Object]:
    return ((status.get("allocation") or {}).get("devices") or {}).get("results") or []


def device_key(device: Object) -> DeviceKey:
    """What identifies a device, or a share of one, in results and in the devices of a status."""
    return (
        device.get("driver") or "",
        device.get("pool") or "",
        device.get("device") or "",
        device.get("shareID") or "",
    )


def _prepare_status(new: Object, old: Object, ctx: WriteContext) -> None:
    metadata.restrict_to_status(new, old)
    status = new.setdefault("status", {})
    old_status = old.get("status") or {}
    _drop_disabled(status, old, ctx)
    _drop_deallocated(status, old_status, ctx)


def _drop(results: list[Object], old_results: list[Object], *fields: str) -> None:
    if not any(field in result for result in old_results for field in fields):
        for result in results:
            for field in fields:
                result.pop(field, None)


def _drop_disabled(status: Object, old: Object, ctx: WriteContext) -> None:
    enabled = ctx.gates.enabled
    old_status = old.get("status") or {}
    results, old_results = _results(status), _results(old_status)
    if not enabled("DRAResourceClaimDeviceStatus") and not old_status.get("devices"):
        status.pop("devices", None)
    if not enabled("DRAAdminAccess") and not _requests_admin(old["spec"]):
        _drop(results, old_results, "adminAccess")
    if not enabled("DRAConsumableCapacity"):
        _drop(results, old_results, "shareID", "consumedCapacity")
        _drop(status.get("devices") or [], old_results + (old_status.get("devices") or []), "shareID")
    if not enabled("DRADeviceBindingConditions"):
        _drop(results, old_results, "bindingConditions", "bindingFailureConditions")
    if not enabled("DRAOptionalNodeOperations"):
        _drop(results, old_results, "skipNodeOperations")


def _requests_admin(spec: Object) -> bool:
    requests = (spec.get("devices") or {}).get("requests") or ()
    return any("adminAccess" in (request.get("exactly") or {}) for request in requests)


def _drop_deallocated(status: Object, old_status: Object, ctx: WriteContext) -> None:
    """Takes out what drivers reported about devices that have just left the allocation."""
    if not ctx.gates.enabled("DRAResourceClaimDeviceStatus") and not old_status.get("devices"):
        return
    gone = {device_key(result) for result in _results(old_status)} - {device_key(result) for result in _results(status)}
    if not status.get("devices"):
        status.pop("devices", None)
    elif gone:
        kept = [device for device in status["devices"] if device_key(device) not in gone]
        if kept:
            status["devices"] = kept
        else:
            del status["devices"]


def _validate_status(new: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
    status, old_status = new.get("status") or {}, old.get("status") or {}
    allocation = _allocation(status, old_status, claim_spec.request_names(new["spec"]))
    # Declared rules follow the order of the fields, the others their own.
    errors = [error for error in allocation if error.declared]
    errors += checks.at_most(status.get("reservedFor"), _MAX_RESERVED, _consumer, "status.reservedFor")
    if (
        status.get("reservedFor") != old_status.get("reservedFor")
        and len(status.get("reservedFor") or ()) <= _MAX_RESERVED
    ):
        errors += checks.unique(
            status.get("reservedFor"),
            "status.reservedFor",
            key=_uid,
            model="resource_v1.ResourceClaimConsumerReference",
        )
    errors += checks.at_most(status.get("reservedFor"), _MAX_RESERVED, _consumer, "status.reservedFor")
    errors += _devices(status, old_status)
    errors += _reservations(status, old_status, deleted=bool(new["metadata"].get("deletionTimestamp")))
    return errors + [error for error in allocation if not error.declared]


def _uid(reference: Object) -> str:
    return reference.get("uid") or ""


def _consumer(reference: Object, path: str) -> list[FieldError]:
    missing = (name for name in ("resource", "name", "uid") if not reference.get(name))
    return [FieldError.required(f"{path}.{name}") for name in missing]


def _reservations(status: Object, old_status: Object, *, deleted: bool) -> list[FieldError]:
    reserved = status.get("reservedFor")
    if not reserved:
        return []
    if not status.get("allocation"):
        return [FieldError.forbidden("status.reservedFor", "may not be specified when `allocated` is not set")]
    before = old_status.get("reservedFor") or []
    if deleted and any(reference not in before for reference in reserved):
        detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        return [FieldError.forbidden("status.reservedFor", detail)]
    return []


# What was allocated


def _allocation(status: Object, old_status: Object, known: claim_spec.RequestNames) -> list[FieldError]:
    allocation, before = status.get("allocation"), old_status.get("allocation")
    if allocation is None:
        return []
    if before is not None:
        if wire.same(allocation, before):
            return []
        return [FieldError.invalid("status.allocation", None, "field cannot be modified once set").as_declared()]
    path = "status.allocation.devices"
    devices = allocation.get("devices") or {}
    errors = checks.at_most(
        devices.get("results"), 32, lambda result, here: _result(result, here, known), f"{path}.results"
    )
    errors += checks.at_most(
        devices.get("config"), 64, lambda config, here: _config(config, here, known), f"{path}.config"
    )
    if allocation.get("nodeSelector") is not None:
        errors += selector_validation.node_selector(allocation["nodeSelector"], "status.allocation.nodeSelector")
    return errors


def _result(result: Object, path: str, known: claim_spec.RequestNames) -> list[FieldError]:
    errors = claim_spec.request_reference(result.get("request") or "", f"{path}.request", known)
    errors += names.declared_driver_name(result.get("driver") or "", f"{path}.driver")
    errors += names.declared_pool_name(result.get("pool") or "", f"{path}.pool")
    errors += names.short_name(result.get("device") or "", f"{path}.device")
    errors += checks.binding_conditions(result, path)
    for position, toleration in enumerate(result.get("tolerations") or ()):
        errors += checks.toleration(toleration, f"{path}.tolerations[{position}]")
    errors += _share(result, path)
    return errors + checks.skip_node_operations(result.get("skipNodeOperations"), f"{path}.skipNodeOperations")


def _share(device: Object, path: str) -> list[FieldError]:
    share = device.get("shareID")
    if share is None or formats.is_uuid(share):
        return []
    detail = "must be a lowercase UUID in 8-4-4-4-12 format"
    return [FieldError.invalid(f"{path}.shareID", share, detail).as_declared()]


def _config(config: Object, path: str, known: claim_spec.RequestNames) -> list[FieldError]:
    source = config.get("source") or ""
    errors: list[FieldError] = []
    if not source:
        errors.append(FieldError.required(f"{path}.source").as_declared())
    elif source not in ("FromClaim", "FromClass"):
        errors.append(FieldError.not_supported(f"{path}.source", source, ("FromClaim", "FromClass")).as_declared())
    errors += claim_spec.references(config.get("requests"), f"{path}.requests", known)
    return errors + checks.configuration(config, path)


# What drivers report


def _devices(status: Object, old_status: Object) -> list[FieldError]:
    devices = status.get("devices")
    if not devices:
        return []
    allocated = {device_key(result) for result in _results(status)}
    errors: list[FieldError] = []
    if devices != old_status.get("devices"):
        errors += checks.unique(devices, "status.devices", key=device_key, model="resource_v1.AllocatedDeviceStatus")
    return errors + checks.at_most(devices, -1, lambda device, path: _device(device, path, allocated), "status.devices")


def _device(device: Object, path: str, allocated: set[DeviceKey]) -> list[FieldError]:
    errors = names.driver_name(device.get("driver") or "", f"{path}.driver")
    errors += names.pool_name(device.get("pool") or "", f"{path}.pool")
    errors += names.short_name(device.get("device") or "", f"{path}.device")
    errors += _share(device, path)
    key = device_key(device)
    if key not in allocated:
        shown = dict(zip(("Driver", "Pool", "Device", "ShareID"), key, strict=True))
        errors.append(FieldError.invalid(path, shown, "must be an allocated device in the claim"))
    conditions = device.get("conditions") or []
    if len(conditions) > _MAX_CONDITIONS:
        errors.append(FieldError.too_many(f"{path}.conditions", len(conditions), _MAX_CONDITIONS))
    errors += metadata.validate_conditions(conditions, f"{path}.conditions")
    if device.get("data") is not None:
        errors += checks.raw_object(device["data"], f"{path}.data", checks.MAX_OPAQUE)
    return errors + _network(device.get("networkData"), f"{path}.networkData")


def _network(data: Object | None, path: str) -> list[FieldError]:
    if data is None:
        return []
    errors: list[FieldError] = []
    for name, limit in (("interfaceName", 256), ("hardwareAddress", 128)):
        if formats.length(data.get(name) or "") > limit:
            errors.append(FieldError.too_long(f"{path}.{name}", limit).as_declared())
    addresses = data.get("ips")
    errors += checks.at_most(addresses, 16, _interface_address, f"{path}.ips")
    return errors + (checks.unique(addresses, f"{path}.ips") if len(addresses or ()) <= 16 else [])


def _interface_address(address: str, path: str) -> list[FieldError]:
    """An address with the length of its network's prefix, written the one right way."""
    try:
        if not address.isascii() or "/" not in address or "%" in address:
            raise ValueError(address)
        parsed = ipaddress.ip_interface(_without_leading_zeros(address))
    except ValueError:
        detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
        return [FieldError.invalid(path, address, detail)]
    prefix = parsed.network.prefixlen
    text = str(parsed.ip)
    if isinstance(parsed, ipaddress.IPv6Interface) and parsed.ip.ipv4_mapped is not None:
        text = str(parsed.ip.ipv4_mapped)
        prefix = prefix - 96 if prefix > 32 else prefix
    if address != f"{text}/{prefix}":
        return [FieldError.invalid(path, address, f"must be in canonical form ({go_quote(f'{text}/{prefix}')})")]
    return []


def _without_leading_zeros(address: str) -> str:
    """Go's sloppy parser takes 010.1.2.3 for 10.1.2.3; Python refuses it."""
    host, slash, prefix = address.partition("/")
    if not prefix.isdigit():
        raise ValueError(address)
    if ":" not in host:
        host = ".".join(part.lstrip("0") or "0" if part.isdigit() else part for part in host.split("."))
    return host + slash + prefix


STRATEGY = Strategy(
    default={version: lambda obj, version=version: _default(version, obj) for version in ("v1", "v1beta2", "v1beta1")},  # type: ignore[misc]  # the second parameter is bound here
    to_storage={"v1beta1": convert.claim_to_v1},
    from_storage={"v1beta1": convert.claim_to_v1beta1},
    reset=("status",),
    declared_path={"v1beta1": convert.claim_path_in_v1beta1},
    validate_name=formats.name_is(formats.dns_subdomain),
    prepare_for_create=_prepare_for_create,
    validate=_validate,
    prepare_for_update=_prepare_for_update,
    validate_update=_validate_update,
    subresources={"status": Subresource(prepare_for_update=_prepare_status, validate_update=_validate_status)},
)
