"""What is wrong with label selectors and node selectors, in Kubernetes' texts: kinds have them in many places."""

from __future__ import annotations

from drakit.api import formats, metadata
from drakit.api.errors import Errors, FieldError
from drakit.api.kind import Object

__all__ = ["label_selector", "node_selector", "node_selector_term"]


def label_selector(selector: Object | None, path: str) -> Errors:
    if not selector:
        return []
    errors = metadata.validate_labels(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for position, requirement in enumerate(selector.get("matchExpressions") or ()):
        errors += _requirement(requirement, f"{path}.matchExpressions[{position}]")
    return errors


def node_selector(selector: Object, path: str) -> Errors:
    path += ".nodeSelectorTerms"
    terms = selector.get("nodeSelectorTerms") or ()
    if not terms:
        return [FieldError.required(path, "must have at least one node selector term")]
    return [error for position, term in enumerate(terms) for error in node_selector_term(term, f"{path}[{position}]")]


def node_selector_term(term: Object, path: str) -> Errors:
    errors: Errors = []
    for position, requirement in enumerate(term.get("matchExpressions") or ()):
        errors += _requirement(requirement, f"{path}.matchExpressions[{position}]", of_nodes=True)
    for position, requirement in enumerate(term.get("matchFields") or ()):
        errors += _field_requirement(requirement, f"{path}.matchFields[{position}]")
    return errors


def _requirement(requirement: Object, path: str, *, of_nodes: bool = False) -> Errors:
    operator, values = requirement.get("operator") or "", requirement.get("values") or ()
    errors: Errors = []
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(FieldError.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(FieldError.forbidden(f"{path}.values", text))
    elif of_nodes and operator in ("Gt", "Lt"):
        if len(values) != 1:
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errors.append(FieldError.required(f"{path}.values", text))
    else:
        errors.append(FieldError.invalid(f"{path}.operator", operator, "not a valid selector operator"))
    key = requirement.get("key") or ""
    errors += [FieldError.invalid(f"{path}.key", key, text) for text in formats.label_key(key)]
    for position, value in enumerate(values):
        errors += [FieldError.invalid(f"{path}.values[{position}]", value, text) for text in formats.label_value(value)]
    return errors


def _field_requirement(requirement: Object, path: str) -> Errors:
    operator, values = requirement.get("operator") or "", requirement.get("values") or ()
    errors: Errors = []
    if operator not in ("In", "NotIn"):
        errors.append(FieldError.invalid(f"{path}.operator", operator, "not a valid selector operator"))
    elif len(values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(FieldError.required(f"{path}.values", text))
    key = requirement.get("key") or ""
    if key != "metadata.name":
        return [*errors, FieldError.invalid(f"{path}.key", key, "not a valid field selector key")]
    for position, name in enumerate(values):
        errors += [FieldError.invalid(f"{path}.values[{position}]", name, text) for text in formats.dns_subdomain(name)]
    return errors
