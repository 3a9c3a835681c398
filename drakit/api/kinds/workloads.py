"""What Deployments, ReplicaSets, DaemonSets, StatefulSets and Jobs have in common: a selector and a pod template."""

from __future__ import annotations

from typing import Any

from drakit.api import selector_validation, selectors
from drakit.api.errors import Errors, FieldError
from drakit.api.kind import Object, WriteContext
from drakit.api.kinds import checks
from drakit.api.kinds.pod_validation import validate_pod_template
from drakit.api.kinds.pods import drop_disabled_spec

__all__ = ["drop_disabled_template", "fixed_selector", "validate_selector_and_template", "validate_template_labels"]


def drop_disabled_template(new: Object, old: Object | None, ctx: WriteContext) -> None:
    """Takes the fields of disabled features out of the pod template."""
    spec = new["spec"]["template"].get("spec")
    old_spec: Any = (((old or {}).get("spec") or {}).get("template") or {}).get("spec")
    if spec is not None:
        drop_disabled_spec(spec, old_spec, ctx)


def validate_selector_and_template(obj: Object, word: str) -> Errors:
    """`word` is what Kubernetes calls the kind in its texts: a ReplicaSet counts as a deployment."""
    spec = obj["spec"]
    selector, template = spec.get("selector"), spec.get("template") or {}
    daemon = word == "daemonset"
    errors: Errors = []
    if selector is None:
        errors += [] if daemon else [FieldError.required("spec.selector")]
    else:
        errors += selector_validation.label_selector(selector, "spec.selector")
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            errors.append(FieldError.invalid("spec.selector", selector, f"empty selector is invalid for {word}"))
    matching = _matching_errors(selector, template, word)
    errors += matching
    if daemon or not any(error.field == "spec.selector" for error in matching):
        errors += validate_pod_template(template, "spec.template")
    elif word == "deployment":
        return errors  # without a selector that can be read, Kubernetes does not look at the template
    pod_spec = template.get("spec") or {}
    policy = pod_spec.get("restartPolicy")
    if policy != "Always":
        errors.append(FieldError.not_supported("spec.template.spec.restartPolicy", policy, ("Always",)))
    if pod_spec.get("activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {_NAMES[word]} is not Supported"
        errors.append(FieldError.forbidden("spec.template.spec.activeDeadlineSeconds", text))
    return errors


_NAMES = {"deployment": "ReplicaSet", "daemonset": "DaemonSet", "statefulset": "StatefulSet"}
# What Kubernetes says about a selector that cannot be read; nothing for daemonsets and jobs.
_UNREADABLE = {"deployment": "invalid label selector", "statefulset": ""}


def _matching_errors(selector: Object | None, template: Object, word: str) -> Errors:
    labels = (template.get("metadata") or {}).get("labels")
    if selector and selector_validation.label_selector(selector, ""):
        if word not in _UNREADABLE:
            return []
        return [FieldError.invalid("spec.selector", _shown(selector), _UNREADABLE[word])]
    empty = selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions")
    # No selector selects nothing, an empty one everything.
    if empty or (selector and selectors.matches_label_selector(selector, labels or {})):
        return []
    text = "`selector` does not match template `labels`"
    shown = dict(sorted(labels.items())) if labels else None  # as Go writes a map
    return [FieldError.invalid("spec.template.metadata.labels", shown, text)]


def _shown(selector: Object) -> Object:
    """Go writes the fields as they are declared, and the keys of a map in order."""
    labels = {"matchLabels": dict(sorted(selector["matchLabels"].items()))} if selector.get("matchLabels") else {}
    return {**labels, **{name: value for name, value in selector.items() if name != "matchLabels"}}


def fixed_selector(new: Object, old: Object) -> Errors:
    after, before = new["spec"].get("selector"), old["spec"].get("selector")
    return checks.immutable(after and _shown(after), before and _shown(before), "spec.selector")


def validate_template_labels(selector: Object | None, template: Object) -> Errors:
    """The template of a job must carry the labels that the job selects."""
    return _matching_errors(selector, template, "job")
