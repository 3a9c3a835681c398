"""Validation of ValidatingAdmissionPolicy and ValidatingAdmissionPolicyBinding objects, their expressions included.

Takes plain v1 objects and gives Kubernetes' field errors; what defaulting fills in may be missing. Expressions that stood in
the old object already are compiled with everything any version knew.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from drakit.api import formats
from drakit.api.errors import FieldError
from drakit.cel import types as t
from drakit.cel.admission import Compiled, Kind, PolicyCompiler
from drakit.cel.recovery import RESERVED
from drakit.cel.types import Type

__all__ = ["validate_binding", "validate_policy"]

Object = Mapping[str, Any]

_FAILURE_POLICIES = ("Fail", "Ignore")
_MATCH_POLICIES = ("Equivalent", "Exact")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS = ("Audit", "Deny", "Warn")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_SELECTOR_OPERATORS = ("DoesNotExist", "Exists", "In", "NotIn")
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*\Z")
_MAX_ANNOTATIONS = 20
_MAX_CONDITIONS = 64
_MAX_VALUE_EXPRESSION = 5 * 1024
_NOTHING = "validations or auditAnnotations must contain at least one item"


class _Expressions:
    """Compiles a policy's expressions, new ones strictly and old ones as stored."""

    def __init__(self, spec: Object, old: Object | None) -> None:
        self.stored = _texts((old or {}).get("spec") or {})
        self.params = spec.get("paramKind") is not None
        composed = bool(spec.get("variables"))
        self.compilers: dict[Kind, PolicyCompiler] = {
            "new": PolicyCompiler("new", params=self.params, composed=composed),
            "stored": PolicyCompiler("stored", params=self.params, composed=composed),
        }

    def of(self, text: str) -> PolicyCompiler:
        return self.compilers["stored" if text in self.stored else "new"]

    def variable(self, name: str, text: str) -> Compiled:
        made = {kind: compiler.add_variable(name, text) for kind, compiler in self.compilers.items()}
        return made["stored" if text in self.stored else "new"]

    def check(self, text: str, path: str, returns: tuple[Type, ...], **options: bool) -> list[FieldError]:
        return _expression_errors(self.of(text).compile(text, returns=returns, **options), text, path)


def _texts(spec: Object) -> frozenset[str]:
    found = []
    for group in ("validations", "matchConditions", "variables", "auditAnnotations"):
        for item in spec.get(group) or ():
            found += [item.get(key) for key in ("expression", "messageExpression", "valueExpression")]
    return frozenset(text for text in found if text)


def _expression_errors(compiled: Compiled, text: str, path: str) -> list[FieldError]:
    if not compiled.error:
        return []
    return [
        FieldError.internal(path, compiled.error)
        if compiled.internal
        else FieldError.invalid(path, text, compiled.error)
    ]


def validate_policy(policy: Object, old: Object | None = None) -> list[FieldError]:
    """What is wrong with a ValidatingAdmissionPolicy; empty when nothing is."""
    errors = _metadata(policy)
    spec = policy.get("spec") or {}
    expressions = _Expressions(spec, old)
    failure = spec.get("failurePolicy", "Fail")
    if failure not in _FAILURE_POLICIES:
        errors.append(FieldError.not_supported("spec.failurePolicy", failure, _FAILURE_POLICIES))
    if spec.get("paramKind") is not None:
        errors += _param_kind(spec["paramKind"], "spec.paramKind")
    if spec.get("matchConstraints") is None:
        errors.append(FieldError.required("spec.matchConstraints"))
    else:
        errors += _match_resources(spec["matchConstraints"], "spec.matchConstraints")
        if not spec["matchConstraints"].get("resourceRules"):
            errors.append(FieldError.required("spec.matchConstraints.resourceRules"))
    errors += _match_conditions(spec.get("matchConditions") or (), expressions)
    for i, variable in enumerate(spec.get("variables") or ()):
        errors += _variable(variable, f"spec.variables[{i}]", expressions)
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        return [
            *errors,
            FieldError.required("spec.validations", _NOTHING),
            FieldError.required("spec.auditAnnotations", _NOTHING),
        ]
    for i, validation in enumerate(spec.get("validations") or ()):
        errors += _validation(validation, f"spec.validations[{i}]", expressions)
    return errors + _audit_annotations(policy, spec.get("auditAnnotations") or (), expressions)


def _metadata(subject: Object) -> list[FieldError]:
    name = (subject.get("metadata") or {}).get("name") or ""
    if not name:
        return [FieldError.required("metadata.name", "name or generateName is required")]
    return [FieldError.invalid("metadata.name", name, text) for text in formats.dns_subdomain(name)]


def _param_kind(kind: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    api_version, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    if not api_version:
        errors.append(FieldError.required(f"{path}.apiVersion"))
    elif api_version.count("/") > 1:
        errors.append(
            FieldError.invalid(f"{path}.apiVersion", api_version, f"unexpected GroupVersion string: {api_version}")
        )
    else:
        group, _, version = api_version.rpartition("/")
        if group and formats.dns_subdomain(group):
            errors.append(FieldError.invalid(f"{path}.apiVersion", group, ",".join(formats.dns_subdomain(group))))
        if not version:
            errors.append(FieldError.invalid(f"{path}.apiVersion", api_version, "version must be specified"))
        elif formats.dns1035_label(version):
            errors.append(FieldError.invalid(f"{path}.apiVersion", version, ",".join(formats.dns1035_label(version))))
    if not name:
        errors.append(FieldError.required(f"{path}.kind"))
    elif formats.dns1035_label(name.lower()):
        detail = "may have mixed case, but should otherwise match: " + ",".join(formats.dns1035_label(name.lower()))
        errors.append(FieldError.invalid(f"{path}.kind", name, detail))
    return errors


def _match_resources(resources: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    policy = resources.get("matchPolicy", "Equivalent")
    if policy not in _MATCH_POLICIES:
        errors.append(FieldError.not_supported(f"{path}.matchPolicy", policy, _MATCH_POLICIES))
    for name in ("namespaceSelector", "objectSelector"):
        errors += _label_selector(resources.get(name) or {}, f"{path}.{name}")
    for name in ("resourceRules", "excludeResourceRules"):
        for i, rule in enumerate(resources.get(name) or ()):
            errors += _rule(rule, f"{path}.{name}[{i}]")
    return errors


def _label_selector(selector: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for key, value in (selector.get("matchLabels") or {}).items():
        errors += [FieldError.invalid(f"{path}.matchLabels", key, text) for text in formats.label_key(key)]
        errors += [FieldError.invalid(f"{path}.matchLabels[{key}]", value, text) for text in formats.label_value(value)]
    for i, expression in enumerate(selector.get("matchExpressions") or ()):
        here = f"{path}.matchExpressions[{i}]"
        operator, values = expression.get("operator", ""), expression.get("values") or ()
        if operator in ("In", "NotIn") and not values:
            errors.append(FieldError.required(f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif operator in ("Exists", "DoesNotExist") and values:
            errors.append(
                FieldError.forbidden(
                    f"{here}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                )
            )
        elif operator not in _SELECTOR_OPERATORS:
            errors.append(FieldError.invalid(f"{here}.operator", operator, "not a valid selector operator"))
        errors += [
            FieldError.invalid(f"{here}.key", expression.get("key", ""), text)
            for text in formats.label_key(expression.get("key", ""))
        ]
    return errors


def _rule(rule: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for i, name in enumerate(rule.get("resourceNames") or ()):
        errors += [FieldError.invalid(f"{path}.resourceNames[{i}]", name, text) for text in formats.path_segment(name)]
        if name in seen:
            errors.append(FieldError.duplicate(f"{path}.resourceNames[{i}]", name))
        seen.add(name)
    operations = rule.get("operations") or ()
    if not operations:
        errors.append(FieldError.required(f"{path}.operations"))
    elif len(operations) > 1 and "*" in operations:
        errors.append(
            FieldError.invalid(
                f"{path}.operations", list(operations), "if '*' is present, must not specify other operations"
            )
        )
    for i, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            errors.append(FieldError.not_supported(f"{path}.operations[{i}]", operation, _OPERATIONS))
    for name, word in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values = rule.get(name) or ()
        if not values:
            errors.append(FieldError.required(f"{path}.{name}"))
        elif len(values) > 1 and "*" in values:
            errors.append(
                FieldError.invalid(f"{path}.{name}", list(values), f"if '*' is present, must not specify other {word}")
            )
    errors += [
        FieldError.required(f"{path}.apiVersions[{i}]")
        for i, version in enumerate(rule.get("apiVersions") or ())
        if not version
    ]
    errors += _rule_resources(rule.get("resources") or (), f"{path}.resources")
    scope = rule.get("scope", "*")
    if scope not in _SCOPES:
        errors.append(FieldError.not_supported(f"{path}.scope", scope, _SCOPES))
    return errors


def _rule_resources(resources: Sequence[str], path: str) -> list[FieldError]:
    if not resources:
        return [FieldError.required(path)]
    errors: list[FieldError] = []
    whole = set(resources)
    for i, resource in enumerate(resources):
        name, slash, sub = resource.partition("/")
        if not resource:
            errors.append(FieldError.required(f"{path}[{i}]"))
        elif resource == "*/*" and len(resources) > 1:
            errors.append(
                FieldError.invalid(path, list(resources), "if '*/*' is present, must not specify other resources")
            )
        elif slash and sub != "*" and f"{name}/*" in whole:
            errors.append(
                FieldError.invalid(f"{path}[{i}]", resource, f"if '{name}/*' is present, must not specify {resource}")
            )
    if len(resources) > 1 and "*" in whole and any("/" not in resource for resource in resources if resource != "*"):
        detail = "if '*' is present, must not specify other resources without subresources"
        errors.append(FieldError.invalid(path, list(resources), detail))
    return errors


def _match_conditions(conditions: Sequence[Object], expressions: _Expressions) -> list[FieldError]:
    errors: list[FieldError] = []
    path = "spec.matchConditions"
    if len(conditions) > _MAX_CONDITIONS:
        errors.append(FieldError.too_many(path, len(conditions), _MAX_CONDITIONS))
    seen: set[str] = set()
    for i, condition in enumerate(conditions):
        text, name = (condition.get("expression") or "").strip(), condition.get("name") or ""
        if not text:
            errors.append(FieldError.required(f"{path}[{i}].expression"))
        else:
            errors += expressions.check(text, f"{path}[{i}].expression", (t.BOOL,), variables=False)
        if not name:
            errors.append(FieldError.required(f"{path}[{i}].name"))
        else:
            errors += [FieldError.invalid(f"{path}[{i}].name", name, problem) for problem in formats.label_key(name)]
            if name in seen:
                errors.append(FieldError.duplicate(f"{path}[{i}].name", name))
            seen.add(name)
    return errors


def _variable(variable: Object, path: str, expressions: _Expressions) -> list[FieldError]:
    errors: list[FieldError] = []
    name, text = variable.get("name") or "", variable.get("expression") or ""
    if not name.strip():
        errors.append(FieldError.required(f"{path}.name", "name is not specified"))
    elif not _IDENTIFIER.match(name) or name in RESERVED:
        errors.append(FieldError.invalid(f"{path}.name", name, "must be a valid CEL identifier"))
    if not text.strip():
        errors.append(FieldError.required(f"{path}.expression", "expression is not specified"))
        return errors
    return errors + _expression_errors(expressions.variable(name, text), text, f"{path}.expression")


def _validation(validation: Object, path: str, expressions: _Expressions) -> list[FieldError]:
    errors: list[FieldError] = []
    text, message = validation.get("expression") or "", validation.get("message") or ""
    computed = validation.get("messageExpression") or ""
    if not text.strip():
        errors.append(FieldError.required(f"{path}.expression", "expression is not specified"))
    else:
        errors += expressions.check(text, f"{path}.expression", (t.BOOL,))
    if computed and not computed.strip():
        errors.append(FieldError.invalid(f"{path}.messageExpression", computed, "must be non-empty if specified"))
    elif computed:
        errors += expressions.check(computed, f"{path}.messageExpression", (t.STRING,), authorizer=False)
    if message and not message.strip():
        errors.append(FieldError.invalid(f"{path}.message", message, "must be non-empty if specified"))
    elif re.search(r"[\n\r]", message.strip()):
        errors.append(FieldError.invalid(f"{path}.message", message, "must not contain line breaks"))
    reason = validation.get("reason")
    if reason is not None and reason not in _REASONS:
        errors.append(FieldError.not_supported(f"{path}.reason", reason, _REASONS))
    return errors


def _audit_annotations(policy: Object, annotations: Sequence[Object], expressions: _Expressions) -> list[FieldError]:
    errors: list[FieldError] = []
    path = "spec.auditAnnotations"
    if len(annotations) > _MAX_ANNOTATIONS:
        errors.append(
            FieldError.invalid(path, list(annotations), f"must not have more than {_MAX_ANNOTATIONS} auditAnnotations")
        )
    name = (policy.get("metadata") or {}).get("name") or ""
    seen: set[str] = set()
    for i, annotation in enumerate(annotations):
        key, text = annotation.get("key") or "", (annotation.get("valueExpression") or "").strip()
        here = f"{path}[{i}]"
        if name:
            whole = f"{name}/{key}"
            errors += [FieldError.invalid(f"{here}.key", whole, problem) for problem in formats.label_key(whole)]
        else:
            errors.append(FieldError.invalid(f"{here}.key", key, "requires metadata.name be non-empty"))
        if not text:
            errors.append(FieldError.required(f"{here}.valueExpression", "valueExpression is not specified"))
        elif len(text.encode()) > _MAX_VALUE_EXPRESSION:
            detail = f"must not exceed {_MAX_VALUE_EXPRESSION} bytes in length"
            errors.append(FieldError.required(f"{here}.valueExpression", detail))
        else:
            errors += expressions.check(text, f"{here}.valueExpression", (t.STRING, t.NULL))
        if key in seen:
            errors.append(FieldError.duplicate(f"{here}.key", key))
        seen.add(key)
    return errors


def validate_binding(binding: Object) -> list[FieldError]:
    """What is wrong with a ValidatingAdmissionPolicyBinding."""
    errors = _metadata(binding)
    spec = binding.get("spec") or {}
    name = spec.get("policyName") or ""
    if not name:
        errors.append(FieldError.required("spec.policyName"))
    else:
        errors += [FieldError.invalid("spec.policyName", name, text) for text in formats.dns_subdomain(name)]
    if spec.get("paramRef") is not None:
        errors += _param_ref(spec["paramRef"], "spec.paramRef")
    if spec.get("matchResources") is not None:
        errors += _match_resources(spec["matchResources"], "spec.matchResources")
    return errors + _validation_actions(spec.get("validationActions") or (), "spec.validationActions")


def _param_ref(reference: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    name, selector = reference.get("name") or "", reference.get("selector")
    exclusive = "name and selector are mutually exclusive"
    if name:
        errors += [FieldError.invalid(f"{path}.name", name, text) for text in formats.path_segment(name)]
        if selector is not None:
            errors.append(FieldError.forbidden(f"{path}.name", exclusive))
    if selector is not None:
        errors += _label_selector(selector, f"{path}.selector")
        if name:
            errors.append(FieldError.forbidden(f"{path}.selector", exclusive))
    if not name and selector is None:
        errors.append(FieldError.required(path, "one of name or selector must be specified"))
    action = reference.get("parameterNotFoundAction") or ""
    if not action:
        errors.append(FieldError.required(f"{path}.parameterNotFoundAction"))
    elif action not in ("Allow", "Deny"):
        errors.append(FieldError.not_supported(f"{path}.parameterNotFoundAction", action, ("Deny", "Allow")))
    return errors


def _validation_actions(actions: Sequence[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for i, action in enumerate(actions):
        if action not in _ACTIONS:
            errors.append(FieldError.not_supported(f"{path}[{i}]", action, _ACTIONS))
        if action in seen:
            errors.append(FieldError.duplicate(f"{path}[{i}]", action))
        seen.add(action)
    if {"Deny", "Warn"} <= seen:
        detail = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers "
            "serves no purpose)"
        )
        errors.append(FieldError.invalid(path, list(actions), detail))
    if not seen:
        errors.append(FieldError.required(path))
    return errors
