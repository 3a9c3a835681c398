"""Annotations of pods that mean something to the server: the cost of deleting one, and whether it mirrors a file of its node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drakit.api.errors import Errors, FieldError

__all__ = ["deletion_cost", "validate_annotation_update", "validate_pod_annotations"]

MIRROR = "kubernetes.io/config.mirror"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


def deletion_cost(annotations: Mapping[str, str]) -> int | None:
    """What ReplicaSets look at to choose pods to delete; None when it is no number of 32 bits. Neither "+5" nor "05" is one."""
    text = annotations.get(DELETION_COST)
    if text is None:
        return 0
    digits = text.removeprefix("-")
    # As many digits as any 32-bit number has, and some zeros: more are not worth converting.
    if len(text) > 40 or not (digits.isascii() and digits.isdigit()) or (text[0] == "0" and text != "0"):
        return None
    value = int(text)
    return value if -(2**31) <= value < 2**31 else None


def validate_pod_annotations(annotations: Mapping[str, str], spec: Mapping[str, Any], path: str) -> Errors:
    errors: Errors = []
    if MIRROR in annotations and not spec.get("nodeName"):
        text = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(FieldError.invalid(f"{path}[{MIRROR}]", annotations[MIRROR], text))
    if deletion_cost(annotations) is None:
        text = "must be a 32bit integer"
        errors.append(FieldError.invalid(f"{path}[{DELETION_COST}]", annotations[DELETION_COST], text))
    return errors


def validate_annotation_update(new: Mapping[str, Any], old: Mapping[str, Any]) -> Errors:
    """Of whole pods. A cost that was wrong before may stay so."""
    path = "metadata.annotations"
    after, before = new["metadata"].get("annotations") or {}, old["metadata"].get("annotations") or {}
    errors: Errors = []
    if after.get(MIRROR) != before.get(MIRROR):
        change = "remove or update" if MIRROR in before else "add"
        errors.append(FieldError.forbidden(f"{path}[{MIRROR}]", f"may not {change} mirror pod annotation"))
    found = validate_pod_annotations(after, new["spec"], path)
    if deletion_cost(before) is None:
        found = [error for error in found if DELETION_COST not in error.field]
    return errors + found
