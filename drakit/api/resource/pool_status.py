"""ResourcePoolStatusRequest: asks once how the pools of a driver are used; the answer is written once."""

from __future__ import annotations

from drakit.api import formats, metadata
from drakit.api.errors import FieldError
from drakit.api.kind import Object, Strategy, Subresource, WriteContext
from drakit.api.resource import checks, names

__all__ = ["STRATEGY"]

_DEFAULT_LIMIT = 100
_MAX_POOLS = 1000


def _default(obj: Object) -> None:
    obj["spec"].setdefault("limit", _DEFAULT_LIMIT)


def _drop(new: Object, old: Object | None, ctx: WriteContext) -> None:
    if ctx.gates.enabled("DRAPartitionableDevicesType"):
        return
    if old is None or "defaultPartitionTypeAttribute" not in old["spec"]:
        new["spec"].pop("defaultPartitionTypeAttribute", None)


def _driver(name: str, path: str) -> list[FieldError]:
    if not name:
        return [FieldError.required(path).as_declared()]
    return [FieldError.invalid(path, name, text).as_declared() for text in formats.dns_subdomain_caseless(name)]


def _at_least(obj: Object, name: str, path: str, lowest: int, *, required: bool = False) -> list[FieldError]:
    value = obj.get(name)
    if value is None:
        return [FieldError.required(f"{path}.{name}").as_declared()] if required else []
    if value >= lowest:
        return []
    detail = f"must be greater than or equal to {lowest}"
    return [FieldError.invalid(f"{path}.{name}", value, detail).as_declared()]


def _validate(new: Object, ctx: WriteContext) -> list[FieldError]:
    spec = new["spec"]
    errors = _driver(spec.get("driver") or "", "spec.driver")
    if spec.get("poolName") is not None:
        errors += names.declared_pool_name(spec["poolName"], "spec.poolName", optional=True)
    if (spec.get("limit") or 0) > _MAX_POOLS:
        detail = f"must be less than or equal to {_MAX_POOLS}"
        errors.append(FieldError.invalid("spec.limit", spec["limit"], detail).as_declared())
    errors += _at_least(spec, "limit", "spec", 1, required=True)
    if spec.get("defaultPartitionTypeAttribute") is not None:
        path = "spec.defaultPartitionTypeAttribute"
        errors += names.declared_fully_qualified_name(spec["defaultPartitionTypeAttribute"], path)
    return errors


def _validate_update(new: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
    return checks.immutable("spec", new["spec"], old["spec"])


def _validate_status(new: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
    status, before = new.get("status"), old.get("status")
    if before is not None:
        if status == before:
            return []
        return [FieldError.invalid("status", status, "field is immutable")]
    if status is None:
        return []
    conditions = status.get("conditions") or []
    errors = metadata.validate_conditions(conditions, "status.conditions")
    errors += _at_least(status, "poolCount", "status", 0, required=True)
    errors += checks.at_most(status.get("pools"), _MAX_POOLS, _pool, "status.pools")
    if len(conditions) > 10:
        errors.append(FieldError.too_many("status.conditions", len(conditions), 10).as_declared())
    return errors


def _pool(pool: Object, path: str) -> list[FieldError]:
    errors = _driver(pool.get("driver") or "", f"{path}.driver")
    errors += names.declared_pool_name(pool.get("poolName") or "", f"{path}.poolName")
    if not pool.get("generation"):
        errors.append(FieldError.required(f"{path}.generation").as_declared())
    else:
        errors += _at_least(pool, "generation", path, 0)
    errors += _at_least(pool, "resourceSliceCount", path, 1)
    for name in ("totalDevices", "allocatedDevices", "availableDevices", "unavailableDevices"):
        errors += _at_least(pool, name, path, 0)
    if pool.get("nodeName") is not None:
        details = formats.dns_subdomain(pool["nodeName"], formats.BYTES)
        errors += [FieldError.invalid(f"{path}.nodeName", pool["nodeName"], detail).as_declared() for detail in details]
    if formats.length(pool.get("validationError") or "") > 256:
        errors.append(FieldError.too_long(f"{path}.validationError", 256).as_declared())
    errors += checks.at_most(pool.get("partitionSummary"), 32, lambda item, here: [], f"{path}.partitionSummary")
    shareable = pool.get("shareableSummary")
    return errors + (_shareable(shareable, f"{path}.shareableSummary") if shareable is not None else [])


def _shareable(summary: Object, path: str) -> list[FieldError]:
    errors = _at_least(summary, "fullyAvailableDevices", path, 0, required=True)
    errors += _at_least(summary, "partiallyAvailableDevices", path, 0, required=True)
    return errors + checks.at_most(summary.get("capacity"), 32, _shareable_capacity, f"{path}.capacity")


def _shareable_capacity(capacity: Object, path: str) -> list[FieldError]:
    missing = (name for name in ("name", "total", "consumed", "available") if not capacity.get(name))
    return [FieldError.required(f"{path}.{name}").as_declared() for name in missing]


STRATEGY = Strategy(
    default={"v1alpha3": _default},
    reset=("status",),
    validate_name=formats.name_is(formats.dns_subdomain),
    prepare_for_create=lambda new, ctx: _drop(new, None, ctx),
    validate=_validate,
    prepare_for_update=_drop,
    validate_update=_validate_update,
    subresources={"status": Subresource(validate_update=_validate_status)},
    allow_unconditional_update=lambda version: False,
)
