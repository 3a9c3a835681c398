"""DeviceTaintRule: a taint put on devices by an admin, whatever the driver published."""

from __future__ import annotations

from drakit.api import formats, metadata
from drakit.api.errors import FieldError
from drakit.api.kind import Object, Strategy, Subresource, WriteContext
from drakit.api.resource import checks, names

__all__ = ["STRATEGY"]

_MAX_CONDITIONS = 8


def _stamp(new: Object, ctx: WriteContext) -> None:
    new["spec"].setdefault("taint", {}).setdefault("timeAdded", ctx.timestamp)


def _prepare_for_update(new: Object, old: Object, ctx: WriteContext) -> None:
    _stamp(new, ctx)
    taint, before = new["spec"]["taint"], old["spec"]["taint"]
    # The time tells since when this effect holds: tolerations count from it.
    if taint.get("effect") != before.get("effect") and taint["timeAdded"] == before.get("timeAdded"):
        taint["timeAdded"] = ctx.timestamp


def _validate_spec(spec: Object, old: Object | None) -> list[FieldError]:
    errors: list[FieldError] = []
    selector = spec.get("deviceSelector") or {}
    for name, check in (("driver", names.driver_name), ("pool", names.pool_name), ("device", names.short_name)):
        if selector.get(name) is not None:
            errors += check(selector[name], f"spec.deviceSelector.{name}")
    return errors + checks.taint(spec["taint"], "spec.taint", old=old["taint"] if old is not None else None)


def _validate_status(new: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
    conditions = (new.get("status") or {}).get("conditions") or []
    errors = metadata.validate_conditions(conditions, "status.conditions")
    if len(conditions) > _MAX_CONDITIONS:
        errors.append(FieldError.too_many("status.conditions", len(conditions), _MAX_CONDITIONS))
    return errors


STRATEGY = Strategy(
    generation=True,
    reset=("status",),
    validate_name=formats.name_is(formats.dns_subdomain),
    prepare_for_create=_stamp,
    validate=lambda new, ctx: _validate_spec(new["spec"], None),
    prepare_for_update=_prepare_for_update,
    validate_update=lambda new, old, ctx: _validate_spec(new["spec"], old["spec"]),
    subresources={"status": Subresource(validate_update=_validate_status)},
    # v1 came late enough to insist on a resourceVersion; the older versions cannot change any more.
    allow_unconditional_update=lambda version: version in ("v1beta2", "v1alpha3"),
)
