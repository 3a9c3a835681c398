"""DeviceClass: selectors and configuration that claims refer to by name."""

from __future__ import annotations

from drakit.api import formats, wire
from drakit.api.errors import FieldError
from drakit.api.kind import Object, Strategy, WriteContext
from drakit.api.resource import checks, names

__all__ = ["STRATEGY"]


def _drop(new: Object, old: Object | None, ctx: WriteContext) -> None:
    if ctx.gates.enabled("DRAExtendedResource") or (old is not None and "extendedResourceName" in old["spec"]):
        return
    new["spec"].pop("extendedResourceName", None)


def _validate_spec(spec: Object, old: Object | None, ctx: WriteContext) -> list[FieldError]:
    # Unchanged lists count as stored: any change, even of the order, makes all their entries new.
    stored = old is not None and spec.get("selectors") == old.get("selectors")
    errors = [] if stored else checks.too_much_to_compile([spec], "spec.selectors")
    if not errors:
        errors = checks.selectors(spec.get("selectors"), "spec.selectors", ctx, stored=stored)
    stored = old is not None and wire.same(spec.get("config"), old.get("config"))
    errors += checks.at_most(
        spec.get("config"), 32, lambda config, path: checks.configuration(config, path, stored=stored), "spec.config"
    )
    if spec.get("extendedResourceName") is not None:
        errors += names.extended_resource_name(spec["extendedResourceName"], "spec.extendedResourceName")
    return errors


def _validate_name(name: str, prefix: bool) -> list[str]:
    # generateName is not looked at: what is generated from it is.
    return [] if prefix else formats.dns_subdomain(name, formats.BYTES)


STRATEGY = Strategy(
    generation=True,
    validate_name=_validate_name,
    prepare_for_create=lambda new, ctx: _drop(new, None, ctx),
    prepare_for_update=_drop,
    validate=lambda new, ctx: _validate_spec(new["spec"], None, ctx),
    validate_update=lambda new, old, ctx: _validate_spec(new["spec"], old["spec"], ctx),
)
