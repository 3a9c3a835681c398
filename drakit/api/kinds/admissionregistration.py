"""admissionregistration.k8s.io: ValidatingAdmissionPolicies and their bindings. Expressions are checked through the context."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Protocol, cast

from lightkube.models import admissionregistration_v1

from drakit.api import formats
from drakit.api.errors import FieldError
from drakit.api.kind import ExpressionCheck, Kind, Object, Strategy, Subresource, WriteContext
from drakit.api.kinds import checks, entry

__all__ = ["KINDS"]

Errors = list[FieldError]

GROUP = "admissionregistration.k8s.io"
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS = ("Audit", "Deny", "Warn")
_SCOPES = ("*", "Cluster", "Namespaced")
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*", re.ASCII).fullmatch
_ONE_NEEDED = "validations or auditAnnotations must contain at least one item"


def _default_match(match: Object | None) -> None:
    if match is None:
        return
    if not match.get("matchPolicy"):
        match["matchPolicy"] = "Equivalent"
    for name in ("namespaceSelector", "objectSelector"):
        if match.get(name) is None:
            match[name] = {}
    for rules in ("resourceRules", "excludeResourceRules"):
        for rule in match.get(rules) or ():
            if not rule.get("scope"):
                rule["scope"] = "*"


def _default_policy(policy: Object) -> None:
    spec = policy.setdefault("spec", {})
    if not spec.get("failurePolicy"):
        spec["failurePolicy"] = "Fail"
    _default_match(spec.get("matchConstraints"))


def _default_binding(binding: Object) -> None:
    _default_match((binding.get("spec") or {}).get("matchResources"))


def _validate_policy(policy: Object, ctx: WriteContext) -> Errors:
    spec = policy.get("spec") or {}
    errors = checks.one_of(spec.get("failurePolicy"), ("Fail", "Ignore"), "spec.failurePolicy")
    params = spec.get("paramKind")
    if params is not None:
        errors += _validate_param_kind(params, "spec.paramKind")
    match = spec.get("matchConstraints")
    if match is None:
        errors.append(FieldError.required("spec.matchConstraints"))
    else:
        errors += _validate_match(match, "spec.matchConstraints")
        if not match.get("resourceRules"):
            errors.append(FieldError.required("spec.matchConstraints.resourceRules"))
    has_params = params is not None
    errors += _validate_conditions(spec.get("matchConditions") or (), ctx, has_params)
    variables: dict[str, str] = {}
    for position, variable in enumerate(spec.get("variables") or ()):
        errors += _validate_variable(variable, f"spec.variables[{position}]", ctx, variables, has_params)
    validations, annotations = spec.get("validations") or (), spec.get("auditAnnotations") or ()
    if not validations and not annotations:
        errors += [FieldError.required(f"spec.{name}", _ONE_NEEDED) for name in ("validations", "auditAnnotations")]
    for position, validation in enumerate(validations):
        errors += _validate_validation(validation, f"spec.validations[{position}]", ctx, variables, has_params)
    errors += _validate_annotations(policy, annotations, ctx, variables, has_params)
    return errors


class AdmissionChecker(Protocol):
    """What `ctx.expressions` offers beside device expressions when it knows admission policies."""

    def check_admission(
        self, expression: str, *, use: str, variables: Mapping[str, str], has_params: bool
    ) -> ExpressionCheck:
        """`use` is validation, messageExpression, variable, matchCondition or auditAnnotation; `variables` are the policy's
        own so far, names to expressions."""
        ...


def _expression(
    text: str, path: str, ctx: WriteContext, use: str, variables: dict[str, str], has_params: bool
) -> Errors:
    if not hasattr(ctx.expressions, "check_admission"):
        return []
    checker = cast(AdmissionChecker, ctx.expressions)
    check = checker.check_admission(text, use=use, variables=variables, has_params=has_params)
    if not check.error_type:
        return []
    if check.error_type == "internal":
        return [FieldError.internal(path, check.error)]
    return [FieldError.invalid(path, text, check.error)]


def _validate_param_kind(kind: Object, path: str) -> Errors:
    errors: Errors = []
    api_version, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    if not api_version:
        errors.append(FieldError.required(f"{path}.apiVersion"))
    else:
        group, _, version = api_version.rpartition("/")
        bad = formats.dns_subdomain(group) if group else []
        if bad:
            errors.append(FieldError.invalid(f"{path}.apiVersion", group, ",".join(bad)))
        bad = formats.dns1035_label(version)
        if bad:
            errors.append(FieldError.invalid(f"{path}.apiVersion", version, ",".join(bad)))
    if not name:
        errors.append(FieldError.required(f"{path}.kind"))
    else:
        bad = formats.dns1035_label(name.lower())
        if bad:
            text = "may have mixed case, but should otherwise match: " + ",".join(bad)
            errors.append(FieldError.invalid(f"{path}.kind", name, text))
    return errors


def _validate_match(match: Object, path: str) -> Errors:
    errors = checks.one_of(match.get("matchPolicy"), ("Equivalent", "Exact"), f"{path}.matchPolicy")
    errors += checks.label_selector(match.get("namespaceSelector"), f"{path}.namespaceSelector")
    errors += checks.label_selector(match.get("objectSelector"), f"{path}.objectSelector")
    for name in ("resourceRules", "excludeResourceRules"):
        for position, rule in enumerate(match.get(name) or ()):
            errors += _validate_rule(rule, f"{path}.{name}[{position}]")
    return errors


def _validate_rule(rule: Object, path: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for position, name in enumerate(rule.get("resourceNames") or ()):
        at = f"{path}.resourceNames[{position}]"
        errors += [FieldError.invalid(at, name, text) for text in formats.path_segment(name)]
        if name in seen:
            errors.append(FieldError.duplicate(at, name))
        seen.add(name)
    operations = rule.get("operations") or []
    if not operations:
        errors.append(FieldError.required(f"{path}.operations"))
    if len(operations) > 1 and "*" in operations:
        text = "if '*' is present, must not specify other operations"
        errors.append(FieldError.invalid(f"{path}.operations", operations, text))
    for position, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            errors.append(FieldError.not_supported(f"{path}.operations[{position}]", operation, _OPERATIONS))
    for name, word in (("apiGroups", "groups"), ("apiVersions", "versions"), ("resources", "resources")):
        values = rule.get(name) or []
        if not values:
            errors.append(FieldError.required(f"{path}.{name}"))
        elif name != "resources" and len(values) > 1 and "*" in values:
            text = f"if '*' is present, must not specify other API {word}"
            errors.append(FieldError.invalid(f"{path}.{name}", values, text))
        if name != "apiGroups":
            errors += [FieldError.required(f"{path}.{name}[{i}]") for i, value in enumerate(values) if not value]
    if rule.get("scope") and rule["scope"] not in _SCOPES:
        errors.append(FieldError.not_supported(f"{path}.scope", rule["scope"], _SCOPES))
    return errors


def _validate_conditions(conditions: Any, ctx: WriteContext, has_params: bool) -> Errors:
    errors: Errors = []
    if len(conditions) > 64:
        errors.append(FieldError.too_many("spec.matchConditions", len(conditions), 64))
    seen: set[str] = set()
    for position, condition in enumerate(conditions):
        at = f"spec.matchConditions[{position}]"
        text, name = (condition.get("expression") or "").strip(), condition.get("name") or ""
        if not text:
            errors.append(FieldError.required(f"{at}.expression"))
        else:
            errors += _expression(text, f"{at}.expression", ctx, "matchCondition", {}, has_params)
        if not name:
            errors.append(FieldError.required(f"{at}.name"))
        else:
            errors += checks.qualified_name(name, f"{at}.name")
            if name in seen:
                errors.append(FieldError.duplicate(f"{at}.name", name))
            seen.add(name)
    return errors


def _validate_variable(variable: Object, at: str, ctx: WriteContext, known: dict[str, str], has_params: bool) -> Errors:
    errors: Errors = []
    name, text = variable.get("name") or "", variable.get("expression") or ""
    if not name.strip():
        errors.append(FieldError.required(f"{at}.name", "name is not specified"))
    elif not _IDENTIFIER(name):
        errors.append(FieldError.invalid(f"{at}.name", name, "must be a valid CEL identifier"))
    if not text.strip():
        errors.append(FieldError.required(f"{at}.expression", "expression is not specified"))
    else:
        errors += _expression(text, f"{at}.expression", ctx, "variable", known, has_params)
        known[name] = text
    return errors


def _validate_validation(
    validation: Object, at: str, ctx: WriteContext, known: dict[str, str], has_params: bool
) -> Errors:
    errors: Errors = []
    text, message = validation.get("expression") or "", validation.get("message") or ""
    message_expression = validation.get("messageExpression") or ""
    if not text.strip():
        errors.append(FieldError.required(f"{at}.expression", "expression is not specified"))
    else:
        errors += _expression(text, f"{at}.expression", ctx, "validation", known, has_params)
    if message_expression and not message_expression.strip():
        errors.append(
            FieldError.invalid(f"{at}.messageExpression", message_expression, "must be non-empty if specified")
        )
    elif message_expression:
        errors += _expression(
            message_expression, f"{at}.messageExpression", ctx, "messageExpression", known, has_params
        )
    if message and not message.strip():
        errors.append(FieldError.invalid(f"{at}.message", message, "must be non-empty if specified"))
    elif "\n" in message.strip():
        errors.append(FieldError.invalid(f"{at}.message", message, "must not contain line breaks"))
    reason = validation.get("reason")
    if reason is not None and reason not in _REASONS:
        errors.append(FieldError.not_supported(f"{at}.reason", reason, _REASONS))
    return errors


def _validate_annotations(
    policy: Object, annotations: Any, ctx: WriteContext, known: dict[str, str], has_params: bool
) -> Errors:
    errors: Errors = []
    if len(annotations) > 20:
        text = "must not have more than 20 auditAnnotations"
        errors.append(FieldError.invalid("spec.auditAnnotations", list(annotations), text))
    seen: set[str] = set()
    for position, annotation in enumerate(annotations):
        at = f"spec.auditAnnotations[{position}]"
        key, text = annotation.get("key") or "", (annotation.get("valueExpression") or "").strip()
        name = policy["metadata"].get("name") or ""
        if name:
            errors += checks.qualified_name(f"{name}/{key}", f"{at}.key")
        else:
            errors.append(FieldError.invalid(f"{at}.key", key, "requires metadata.name be non-empty"))
        if not text:
            errors.append(FieldError.required(f"{at}.valueExpression", "valueExpression is not specified"))
        elif len(text) > 5 * 1024:
            errors.append(FieldError.required(f"{at}.valueExpression", "must not exceed 5120 bytes in length"))
        else:
            errors += _expression(text, f"{at}.valueExpression", ctx, "auditAnnotation", known, has_params)
        if key in seen:
            errors.append(FieldError.duplicate(f"{at}.key", key))
        seen.add(key)
    return errors


def _validate_policy_update(new: Object, old: Object, ctx: WriteContext) -> Errors:
    return [] if new.get("spec") == old.get("spec") else _validate_policy(new, ctx)


def _validate_binding(binding: Object, ctx: WriteContext) -> Errors:
    spec = binding.get("spec") or {}
    errors: Errors = []
    name = spec.get("policyName") or ""
    if not name:
        errors.append(FieldError.required("spec.policyName"))
    else:
        errors += checks.subdomain(name, "spec.policyName")
    if spec.get("paramRef") is not None:
        errors += _validate_param_ref(spec["paramRef"], "spec.paramRef")
    if spec.get("matchResources") is not None:
        errors += _validate_match(spec["matchResources"], "spec.matchResources")
    return errors + _validate_actions(spec.get("validationActions") or [], "spec.validationActions")


def _validate_param_ref(ref: Object, path: str) -> Errors:
    errors: Errors = []
    name, selector = ref.get("name") or "", ref.get("selector")
    exclusive = "name and selector are mutually exclusive"
    if name:
        errors += [FieldError.invalid(f"{path}.name", name, text) for text in formats.path_segment(name)]
        if selector is not None:
            errors.append(FieldError.forbidden(f"{path}.name", exclusive))
    if selector is not None:
        errors += checks.label_selector(selector, f"{path}.selector")
        if name:
            errors.append(FieldError.forbidden(f"{path}.selector", exclusive))
    elif not name:
        errors.append(FieldError.required(path, "one of name or selector must be specified"))
    action = ref.get("parameterNotFoundAction")
    return errors + checks.one_of(action, ("Deny", "Allow"), f"{path}.parameterNotFoundAction")


def _validate_actions(actions: list[str], path: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for position, action in enumerate(actions):
        if action not in _ACTIONS:
            errors.append(FieldError.not_supported(f"{path}[{position}]", action, _ACTIONS))
        if action in seen:
            errors.append(FieldError.duplicate(f"{path}[{position}]", action))
        seen.add(action)
    if {"Deny", "Warn"} <= seen:
        text = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API response and "
            "headers serves no purpose)"
        )
        errors.append(FieldError.invalid(path, actions, text))
    if not seen:
        errors.append(FieldError.required(path))
    return errors


def _validate_binding_update(new: Object, old: Object, ctx: WriteContext) -> Errors:
    return _validate_binding(new, ctx)


POLICY = entry.kind(
    admissionregistration_v1.ValidatingAdmissionPolicy,
    "validatingadmissionpolicies",
    Strategy(
        default={"": _default_policy},
        validate=_validate_policy,
        validate_update=_validate_policy_update,
        subresources={"status": Subresource()},
        validate_name=formats.name_is(formats.dns_subdomain),
        generation=True,
        reset=("status",),
    ),
    group=GROUP,
    namespaced=False,
    subresources=entry.STATUS,
    categories=("api-extensions",),
    delete_returns_status=frozenset({"v1"}),
)
BINDING = entry.kind(
    admissionregistration_v1.ValidatingAdmissionPolicyBinding,
    "validatingadmissionpolicybindings",
    Strategy(
        default={"": _default_binding},
        validate=_validate_binding,
        validate_update=_validate_binding_update,
        validate_name=formats.name_is(formats.dns_subdomain),
        generation=True,
    ),
    group=GROUP,
    namespaced=False,
    categories=("api-extensions",),
    delete_returns_status=frozenset({"v1"}),
)
KINDS: tuple[Kind, ...] = (POLICY, BINDING)
