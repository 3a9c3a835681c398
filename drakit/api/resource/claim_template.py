"""ResourceClaimTemplate: the spec, labels and annotations of the claims made from it."""

from __future__ import annotations

from drakit.api import formats, metadata, wire
from drakit.api.errors import FieldError
from drakit.api.kind import Object, Strategy, WriteContext
from drakit.api.resource import claim_spec, convert

__all__ = ["STRATEGY"]


def _claim(template: Object) -> Object:
    spec: Object = template["spec"].get("spec") or {}
    return spec


def _default(obj: Object) -> None:
    claim_spec.default(_claim(obj))


def _default_flat(obj: Object) -> None:
    claim_spec.default_flat(_claim(obj))


def _prepare_for_create(new: Object, ctx: WriteContext) -> None:
    claim_spec.drop_disabled(_claim(new), None, ctx)


def _prepare_for_update(new: Object, old: Object, ctx: WriteContext) -> None:
    claim_spec.drop_disabled(_claim(new), _claim(old), ctx)


def _validate_spec(new: Object, ctx: WriteContext) -> list[FieldError]:
    errors = metadata.validate_template(new["spec"].get("metadata") or {}, "spec.metadata")
    return errors + claim_spec.validate(_claim(new), "spec.spec", ctx)


def _validate_update(new: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
    errors = _validate_spec(new, ctx)
    if not wire.same(new["spec"], old["spec"]):
        errors.append(FieldError.invalid("spec", _shown(new["spec"]), "field is immutable"))
    return errors


def _shown(spec: Object) -> Object:
    """Metadata is embedded in Go's internal type, so its fields stand beside the spec."""
    meta: Object = wire.in_order("meta_v1.ObjectMeta", spec.get("metadata") or {})
    return {**meta, "Spec": wire.as_internal("resource_v1.ResourceClaimSpec", spec.get("spec") or {})}


STRATEGY = Strategy(
    default={"v1": _default, "v1beta2": _default, "v1beta1": _default_flat},
    to_storage={"v1beta1": convert.template_to_v1},
    from_storage={"v1beta1": convert.template_to_v1beta1},
    declared_path={"v1beta1": convert.claim_path_in_v1beta1},
    validate_name=formats.name_is(formats.dns_subdomain),
    prepare_for_create=_prepare_for_create,
    validate=_validate_spec,
    prepare_for_update=_prepare_for_update,
    validate_update=_validate_update,
)
