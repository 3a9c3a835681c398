"""Where a slice or device can be reached from: one node, all nodes, or the nodes a selector matches.

Selectors are parsed once; a selector that does not parse is kept as its error, which is fatal when it is asked.
Matches k8s.io/component-helpers/scheduling/corev1/nodeaffinity.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lightkube.models.core_v1 import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm

__all__ = ["Placement", "PlacementError", "parse_placement"]

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]\Z")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")


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
        return all(r.matches(labels) for r in self.labels) and all(_field_matches(r, fields) for r in self.fields)


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
            raise PlacementError(f"failed to parse node selector: {self.error}")
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
    error = ""
    if selector is not None:
        try:
            terms = [
                _parse_term(term, f"nodeSelectorTerms[{i}]")
                for i, term in enumerate(selector.nodeSelectorTerms or ())
                if _has(term)
            ]
        except PlacementError as exc:
            error = str(exc)
    return Placement(node_name or "", bool(all_nodes), selector, tuple(terms), error)


def _has(term: NodeSelectorTerm) -> bool:
    # An empty term selects nothing.
    return bool(term.matchExpressions or term.matchFields)


def _parse_term(term: NodeSelectorTerm, path: str) -> _Term:
    return _Term(
        labels=tuple(
            _label_requirement(r, f"{path}.matchExpressions[{i}]") for i, r in enumerate(term.matchExpressions or ())
        ),
        fields=tuple(_field_requirement(r, f"{path}.matchFields[{i}]") for i, r in enumerate(term.matchFields or ())),
    )


def _label_requirement(requirement: NodeSelectorRequirement, path: str) -> _Requirement:
    operator, values = requirement.operator, tuple(requirement.values or ())
    if operator not in _OPERATORS:
        supported = ", ".join(f'"{name}"' for name in _OPERATORS)
        raise PlacementError(f'{path}.operator: Unsupported value: "{operator}": supported values: {supported}')
    _check_key(requirement.key, path)
    if operator in ("In", "NotIn") and not values:
        raise PlacementError(
            f"{path}.values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
        )
    if operator in ("Exists", "DoesNotExist") and values:
        raise PlacementError(
            f"{path}.values: Invalid value: {_go_list(values)}: values set must be empty for exists and does not exist"
        )
    if operator in ("Gt", "Lt"):
        if len(values) != 1:
            raise PlacementError(
                f"{path}.values: Invalid value: {_go_list(values)}: for 'Gt', 'Lt' operators, exactly one value is required"
            )
        try:
            _int64(values[0])
        except ValueError:
            raise PlacementError(
                f"{path}.values[0]: Invalid value: \"{values[0]}\": for 'Gt', 'Lt' operators, the value must be an integer"
            ) from None
    for i, value in enumerate(values):
        if value and (len(value) > 63 or not _NAME.match(value)):
            raise PlacementError(
                f'{path}.values[{i}][{requirement.key}]: Invalid value: "{value}": not a valid label value'
            )
    return _Requirement(requirement.key, operator, values)


def _check_key(key: str, path: str) -> None:
    prefix, slash, name = key.rpartition("/")
    good = len(name) <= 63 and _NAME.match(name)
    if slash:
        good = good and len(prefix) <= 253 and _SUBDOMAIN.match(prefix)
    if not good:
        raise PlacementError(f'{path}.key: Invalid value: "{key}": not a qualified label name')


def _field_requirement(requirement: NodeSelectorRequirement, path: str) -> _Requirement:
    operator, values = requirement.operator, tuple(requirement.values or ())
    if operator not in ("In", "NotIn"):
        raise PlacementError(f'{path}.operator: Unsupported value: "{operator}": supported values: "In", "NotIn"')
    if len(values) != 1:
        raise PlacementError(f"{path}.values: Invalid value: {_go_list(values)}: must have one element")
    return _Requirement(requirement.key, operator, values)


def _int64(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise ValueError(text)
    value = int(text)
    if not -(2**63) <= value < 2**63:
        raise ValueError(text)
    return value


def _go_list(values: Sequence[Any]) -> str:
    return "[" + ",".join(f'"{value}"' for value in values) + "]"
