"""ResourceQuotas and LimitRanges. Counting what a namespace uses is `api.quotas`' business, enforcing it admission's."""

from __future__ import annotations

from lightkube.models import core_v1

from drakit.api import formats
from drakit.api.errors import Errors, FieldError
from drakit.api.kind import Kind, Object, Strategy, Subresource, WriteContext
from drakit.api.kinds import checks, entry
from drakit.api.kinds.pod_defaults import round_resources

__all__ = ["KINDS"]

_SUBDOMAIN_NAME = formats.name_is(formats.dns_subdomain)
_STATUS_ANSWER = frozenset({"v1"})
_SCOPES = (
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
)


def _default_quota(quota: Object) -> None:
    round_resources((quota.get("spec") or {}).get("hard"))
    for name in ("hard", "used"):
        round_resources((quota.get("status") or {}).get(name))


def _validate_quota(quota: Object, ctx: WriteContext) -> Errors:
    spec = quota.get("spec") or {}
    errors = _resources(spec.get("hard"), "spec.hard")
    scopes = spec.get("scopes") or []
    for scope in scopes:
        if scope not in _SCOPES:
            errors.append(FieldError.invalid("spec.scopes", scopes, "unsupported scope"))
    for pair in ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"}):
        if pair <= set(scopes):
            errors.append(FieldError.invalid("spec.scopes", scopes, "conflicting scopes"))
    for term in (spec.get("scopeSelector") or {}).get("matchExpressions") or ():
        errors += _scope_term(term, "spec.scopeSelector.matchExpressions")
    return errors


def _resources(amounts: Object | None, path: str) -> Errors:
    errors: Errors = []
    for name, amount in (amounts or {}).items():
        errors += checks.quota_resource_name(name, f"{path}[{name}]")
        errors += checks.resource_value(name, amount, f"{path}[{name}]")
    return errors


def _scope_term(term: Object, path: str) -> Errors:
    errors: Errors = []
    scope, operator, values = term.get("scopeName") or "", term.get("operator") or "", term.get("values") or []
    if scope not in _SCOPES:
        errors.append(FieldError.invalid(f"{path}.scopeName", scope, "unsupported scope"))
    elif scope not in ("PriorityClass", "VolumeAttributesClass") and operator != "Exists":
        text = (
            "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
            "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
        )
        errors.append(FieldError.invalid(f"{path}.operator", operator, text))
    if operator in ("In", "NotIn"):
        if not values:
            text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            errors.append(FieldError.required(f"{path}.values", text))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            errors.append(FieldError.invalid(f"{path}.values", values, text))
    else:
        errors.append(FieldError.invalid(f"{path}.operator", operator, "not a valid selector operator"))
    return errors


def _validate_quota_update(new: Object, old: Object, ctx: WriteContext) -> Errors:
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    errors = _validate_quota(new, ctx)
    if set(spec.get("scopes") or ()) != set(before.get("scopes") or ()):
        errors.append(FieldError.invalid("spec.scopes", spec.get("scopes"), "field is immutable"))
    return errors


def _validate_quota_status(new: Object, old: Object, ctx: WriteContext) -> Errors:
    status = new.get("status") or {}
    return _resources(status.get("hard"), "status.hard") + _resources(status.get("used"), "status.used")


RESOURCE_QUOTA = entry.kind(
    core_v1.ResourceQuota,
    "resourcequotas",
    Strategy(
        default={"": _default_quota},
        validate=_validate_quota,
        validate_update=_validate_quota_update,
        subresources={"status": Subresource(validate_update=_validate_quota_status)},
        validate_name=_SUBDOMAIN_NAME,
        reset=("status",),
    ),
    subresources=entry.STATUS,
    short_names=("quota",),
)


_AMOUNTS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def _default_limit_range(limits: Object) -> None:
    """Container limits stand in for the defaults that are not given."""
    for item in (limits.get("spec") or {}).get("limits") or ():
        if item.get("type") == "Container":
            default = item.setdefault("default", {})
            for name, amount in (item.get("max") or {}).items():
                default.setdefault(name, amount)
            request = item.setdefault("defaultRequest", {})
            for name, amount in {**(item.get("min") or {}), **default}.items():
                request.setdefault(name, amount)
            for name in ("default", "defaultRequest"):
                if not item[name]:
                    del item[name]
        for name in _AMOUNTS:
            round_resources(item.get(name))


def _validate_limit_range(limits: Object, ctx: WriteContext) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for position, item in enumerate((limits.get("spec") or {}).get("limits") or ()):
        at = f"spec.limits[{position}]"
        kind = item.get("type") or ""
        bad = checks.qualified_name(kind, f"{at}.type")
        if not bad and "/" not in kind and kind not in ("Pod", "Container", "PersistentVolumeClaim"):
            text = "must be a standard limit type or fully qualified"
            bad = [FieldError.invalid(f"{at}.type", kind, text)]
        errors += bad
        if kind in seen:
            errors.append(FieldError.duplicate(f"{at}.type", kind))
        seen.add(kind)
        errors += _limit_amounts(item, kind, at)
    return errors


def _limit_amounts(item: Object, kind: str, at: str) -> Errors:
    errors: Errors = []
    names = [*_AMOUNTS]
    if kind == "Pod":
        for name in ("default", "defaultRequest"):
            names.remove(name)
            if item.get(name):
                errors.append(FieldError.forbidden(f"{at}.{name}", "may not be specified when `type` is 'Pod'"))
    check = checks.container_resource_name if kind in ("Pod", "Container") else checks.resource_name
    for name in names:
        for key in item.get(name) or ():
            errors += check(key, f"{at}.{name}[{key}]")
    amounts = {name: item.get(name) or {} for name in names}
    for low, high, field, shown, text in _LIMIT_ORDERS:
        for key, amount in amounts.get(low, {}).items():
            other = amounts.get(high, {}).get(key)
            if other is not None and checks.quantity(amount) > checks.quantity(other):
                value = amounts[shown][key]
                errors.append(FieldError.invalid(f"{at}.{field}[{key}]", value, text.format(amount, other)))
    if kind == "PersistentVolumeClaim" and "storage" not in {**amounts["min"], **amounts["max"]}:
        text = "either minimum or maximum storage value is required, but neither was provided"
        errors.append(FieldError.required(f"{at}.limits", text))
    for key, ratio in amounts["maxLimitRequestRatio"].items():
        errors += _ratio(ratio, amounts["min"].get(key), amounts["max"].get(key), f"{at}.maxLimitRequestRatio[{key}]")
    for key, request in amounts.get("defaultRequest", {}).items():
        limit = amounts["default"].get(key)
        if limit is not None and checks.quantity(limit) != checks.quantity(request) and not checks.may_overcommit(key):
            text = f"default value {limit} must equal to defaultRequest value {request} in {key}"
            errors.append(FieldError.invalid(f"{at}.defaultRequest[{key}]", request, text))
    return errors


def _ratio(ratio: str, least: str | None, most: str | None, path: str) -> Errors:
    errors: Errors = []
    value = checks.quantity(ratio).to_fraction()
    if value < 1:
        errors.append(FieldError.invalid(path, ratio, f"ratio {ratio} is less than 1"))
    if least is not None and most is not None and (bottom := checks.quantity(least).to_fraction()):
        bound = checks.quantity(most).to_fraction() / bottom
        if value > bound:
            errors.append(FieldError.invalid(path, ratio, f"ratio {ratio} is greater than max/min = {float(bound):f}"))
    return errors


# (not more than this, the field blamed, whose value is shown, the text)
_LIMIT_ORDERS = (
    ("min", "max", "min", "min", "min value {} is greater than max value {}"),
    (
        "min",
        "defaultRequest",
        "defaultRequest",
        "defaultRequest",
        "min value {} is greater than default request value {}",
    ),
    (
        "defaultRequest",
        "max",
        "defaultRequest",
        "defaultRequest",
        "default request value {} is greater than max value {}",
    ),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "defaultRequest",
        "default request value {} is greater than default limit value {}",
    ),
    ("min", "default", "default", "min", "min value {} is greater than default value {}"),
    ("default", "max", "default", "max", "default value {} is greater than max value {}"),
)


def _name_limit_range(obj: Object, ctx: WriteContext) -> None:
    """The one kind that may come without a name: it gets one that is free for certain."""
    if not obj["metadata"].get("name"):
        obj["metadata"]["name"] = obj["metadata"]["uid"]


LIMIT_RANGE = entry.kind(
    core_v1.LimitRange,
    "limitranges",
    Strategy(
        default={"": _default_limit_range},
        prepare_for_create=_name_limit_range,
        validate=_validate_limit_range,
        validate_name=_SUBDOMAIN_NAME,
        allow_create_on_update=True,
    ),
    short_names=("limits",),
    delete_returns_status=_STATUS_ANSWER,
)

KINDS: tuple[Kind, ...] = (LIMIT_RANGE, RESOURCE_QUOTA)
