"""Label selectors, node selectors and tolerations, evaluated as Kubernetes does (apimachinery/labels, component-helpers)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lightkube.models.core_v1 import (
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Taint,
    Toleration,
)
from lightkube.models.meta_v1 import LabelSelector, LabelSelectorRequirement

from drakit.cel.text import parse_int

Labels = dict[str, str]


def requirement_matches(requirement: NodeSelectorRequirement | LabelSelectorRequirement, labels: Labels) -> bool:
    values: Sequence[str] = requirement.values or ()
    actual = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return actual is not None and actual in values
        case "NotIn":
            return actual is None or actual not in values
        case "Exists":
            return actual is not None
        case "DoesNotExist":
            return actual is None
        case "Gt" | "Lt":
            have = parse_int(actual) if actual is not None else None
            want = parse_int(values[0]) if values else None
            if have is None or want is None:
                return False
            return have > want if requirement.operator == "Gt" else have < want
        case _:
            return False


def label_selector_matches(selector: LabelSelector | None, labels: Labels) -> bool:
    """A missing selector selects nothing, an empty one everything."""
    if selector is None:
        return False
    for key, value in (selector.matchLabels or {}).items():
        if labels.get(key) != value:
            return False
    return all(requirement_matches(r, labels) for r in selector.matchExpressions or ())


def node_term_matches(term: NodeSelectorTerm, labels: Labels, name: str) -> bool:
    if not term.matchExpressions and not term.matchFields:
        return False
    fields = {"metadata.name": name}
    return all(requirement_matches(r, labels) for r in term.matchExpressions or ()) and all(
        requirement_matches(r, fields) for r in term.matchFields or ()
    )


def node_selector_matches(selector: NodeSelector | None, labels: Labels, name: str) -> bool:
    """Terms are alternatives; a missing selector matches any node, one without terms none."""
    if selector is None:
        return True
    return any(node_term_matches(term, labels, name) for term in selector.nodeSelectorTerms)


def node_labels(node: Node) -> Labels:
    return (node.metadata.labels if node.metadata else None) or {}


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator or "Equal":
        case "Equal":
            return (toleration.value or "") == (taint.value or "") and bool(toleration.key)
        case "Exists":
            return True
        case "Gt" | "Lt":
            have, want = parse_int(taint.value or ""), parse_int(toleration.value or "")
            if have is None or want is None:
                return False
            return have > want if toleration.operator == "Gt" else have < want
        case _:
            return False


def untolerated(taints: Iterable[Taint], tolerations: Sequence[Toleration], effects: tuple[str, ...]) -> Taint | None:
    """The first taint with one of the effects that no toleration covers."""
    for taint in taints:
        if taint.effect in effects and not any(tolerates(t, taint) for t in tolerations):
            return taint
    return None
