"""Where a slice or device can be reached from: one node, all nodes, or the nodes a selector matches.

Selectors are parsed once; a selector that does not parse is kept as its error, which is fatal when it is asked.
Matches k8s.io/component-helpers/scheduling/corev1/nodeaffinity.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lightkube.models.core_v1 import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm

from drakit.api.errors import FieldError
from drakit.api.formats import label_key, label_value

__all__ = ["Placement", "PlacementError", "parse_placement"]

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD_OPERATORS = ("In", "NotIn")


class PlacementError(ValueError):
    """A node selector that cannot be parsed."""


@dataclass(frozen=True, slots=True)
class _Requirement:
    key: str
    operator: str
    values: tuple[str, ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        if value is None:
            return False
        try:
            left, right = _int64(value), _int64(self.values[0])
        except ValueError:
            return False
        return left > right if self.operator == "Gt" else left < right

    def example(self) -> str | None:
        """A value that satisfies the requirement; None when that is the absence of the label."""
        match self.operator:
            case "In":
                return self.values[0]
            case "Exists":
                return "true"
            case "Gt":
                return str(_int64(self.values[0]) + 1)
            case "Lt":
                return str(_int64(self.values[0]) - 1)
            case _:
                return None


@dataclass(frozen=True, slots=True)
class _Term:
    labels: tuple[_Requirement, ...]
    fields: tuple[_Requirement, ...]

    def matches(self, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
        # A node without a name has no fields, and then they do not matter.
        return all(r.matches(labels) for r in self.labels) and (
            not fields or all(_field_matches(r, fields) for r in self.fields)
        )


def _field_matches(requirement: _Requirement, fields: Mapping[str, str]) -> bool:
    # An absent field reads as "" (fields.Set).
    equal = fields.get(requirement.key, "") == requirement.values[0]
    return equal if requirement.operator == "In" else not equal


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """`node_name` wins over `all_nodes`, which wins over the selector."""

    node_name: str
    all_nodes: bool
    selector: NodeSelector | None
    terms: tuple[_Term, ...] = ()
    error: str = ""

    def matches(self, node: Node) -> bool:
        if self.node_name:
            return bool(node.metadata is not None and node.metadata.name == self.node_name)
        if self.all_nodes:
            return True
        if self.error:
            raise PlacementError(self.error)
        name = (node.metadata.name if node.metadata is not None else None) or ""
        labels: Mapping[str, str] = (node.metadata.labels if node.metadata is not None else None) or {}
        fields = {"metadata.name": name} if name else {}
        return any(term.matches(labels, fields) for term in self.terms)

    def labels_wanted(self) -> dict[str, str | None]:
        """Labels (None: absent) with which a node would match; {} when labels cannot do it."""
        for term in self.terms:
            if not term.fields:
                return {requirement.key: requirement.example() for requirement in term.labels}
        return {}


def parse_placement(node_name: str | None, all_nodes: bool | None, selector: NodeSelector | None) -> Placement | None:
    """None when nothing is set (an unknown future way of placing devices)."""
    if not node_name and not all_nodes and selector is None:
        return None
    terms: list[_Term] = []
    errors: list[FieldError] = []
    for i, term in enumerate((selector.nodeSelectorTerms if selector is not None else None) or ()):
        # An empty term selects nothing.
        if term.matchExpressions or term.matchFields:
            terms.append(_parse_term(term, f"nodeSelectorTerms[{i}]", errors))
    error = ""
    if selector is not None and errors:
        terms = []
        error = f"failed to parse node selector {_go_text(selector)}: {_all_of(errors)}"
    return Placement(node_name or "", bool(all_nodes), selector, tuple(terms), error)


def _all_of(errors: Sequence[FieldError]) -> str:
    texts = list(dict.fromkeys(str(error) for error in errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _parse_term(term: NodeSelectorTerm, path: str, errors: list[FieldError]) -> _Term:
    for i, requirement in enumerate(term.matchExpressions or ()):
        errors += _label_errors(requirement, f"{path}.matchExpressions[{i}]")
    for i, requirement in enumerate(term.matchFields or ()):
        errors += _field_errors(requirement, f"{path}.matchFields[{i}]")
    return _Term(
        labels=tuple(_requirement(requirement) for requirement in term.matchExpressions or ()),
        fields=tuple(_requirement(requirement) for requirement in term.matchFields or ()),
    )


def _requirement(requirement: NodeSelectorRequirement) -> _Requirement:
    return _Requirement(requirement.key, requirement.operator, tuple(requirement.values or ()))


def _label_errors(requirement: NodeSelectorRequirement, path: str) -> list[FieldError]:
    operator, values = requirement.operator, requirement.values or ()
    if operator not in _OPERATORS:
        return [FieldError.not_supported(f"{path}.operator", operator, _OPERATORS)]
    errors = []
    found = label_key(requirement.key)
    if found:
        errors.append(FieldError.invalid(f"{path}.key", requirement.key, "; ".join(found)))
    if operator in ("In", "NotIn") and not values:
        detail = "for 'in', 'notin' operators, values set can't be empty"
        errors.append(FieldError.invalid(f"{path}.values", requirement.values, detail))
    if operator in ("Exists", "DoesNotExist") and values:
        detail = "values set must be empty for exists and does not exist"
        errors.append(FieldError.invalid(f"{path}.values", values, detail))
    if operator in ("Gt", "Lt"):
        if len(values) != 1:
            detail = "for 'Gt', 'Lt' operators, exactly one value is required"
            errors.append(FieldError.invalid(f"{path}.values", requirement.values, detail))
        detail = "for 'Gt', 'Lt' operators, the value must be an integer"
        errors += [
            FieldError.invalid(f"{path}.values[{i}]", v, detail) for i, v in enumerate(values) if not _is_int64(v)
        ]
    for i, value in enumerate(values):
        found = label_value(value)
        if found:
            errors.append(FieldError.invalid(f"{path}.values[{i}][{requirement.key}]", value, "; ".join(found)))
    return errors


def _field_errors(requirement: NodeSelectorRequirement, path: str) -> list[FieldError]:
    if requirement.operator not in _FIELD_OPERATORS:
        return [FieldError.not_supported(f"{path}.operator", requirement.operator, _FIELD_OPERATORS)]
    if len(requirement.values or ()) != 1:
        return [FieldError.invalid(f"{path}.values", requirement.values, "must have one element")]
    return []


def _is_int64(text: str) -> bool:
    try:
        _int64(text)
    except ValueError:
        return False
    return True


def _int64(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise ValueError(text)
    value = int(text)
    if not -(2**63) <= value < 2**63:
        raise ValueError(text)
    return value


def _go_text(selector: NodeSelector) -> str:
    """The selector as Kubernetes prints it in messages."""
    terms = "".join(
        f"NodeSelectorTerm{{MatchExpressions:{_go_requirements(term.matchExpressions)},"
        f"MatchFields:{_go_requirements(term.matchFields)},}},"
        for term in selector.nodeSelectorTerms or ()
    )
    return f"&NodeSelector{{NodeSelectorTerms:[]NodeSelectorTerm{{{terms}}},}}"


def _go_requirements(requirements: Sequence[NodeSelectorRequirement] | None) -> str:
    texts = "".join(
        f"NodeSelectorRequirement{{Key:{r.key},Operator:{r.operator},Values:[{' '.join(r.values or ())}],}},"
        for r in requirements or ()
    )
    return f"[]NodeSelectorRequirement{{{texts}}}"
