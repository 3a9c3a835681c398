"""What Deployments, ReplicaSets, DaemonSets, StatefulSets and Jobs have in common: a selector and a pod template."""

from __future__ import annotations

from typing import Any

from drakit.api import selectors
from drakit.api.errors import FieldError
from drakit.api.kind import Object, WriteContext
from drakit.api.kinds import checks
from drakit.api.kinds.pod_validation import validate_pod_template
from drakit.api.kinds.pods import drop_disabled_spec

__all__ = ["drop_disabled_template", "validate_selector_and_template", "validate_template_labels"]

Errors = list[FieldError]


def drop_disabled_template(new: Object, old: Object | None, ctx: WriteContext) -> None:
    """Takes the fields of disabled features out of the pod template."""
    spec = new["spec"]["template"].get("spec")
    old_spec: Any = (((old or {}).get("spec") or {}).get("template") or {}).get("spec")
    if spec is not None:
        drop_disabled_spec(spec, old_spec, ctx)


def validate_selector_and_template(obj: Object, word: str, *, always: bool = True) -> Errors:
    """`word` is what Kubernetes calls the kind in its texts; `always`: pods of this kind are restarted for ever."""
    spec = obj["spec"]
    selector, template = spec.get("selector"), spec.get("template") or {}
    errors: Errors = []
    if selector is None:
        errors.append(FieldError.required("spec.selector"))
    else:
        errors += checks.label_selector(selector, "spec.selector")
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            errors.append(FieldError.invalid("spec.selector", selector, f"empty selector is invalid for {word}"))
    if selector:
        errors += validate_template_labels(selector, template)
    errors += validate_pod_template(template, "spec.template")
    if always:
        policy = (template.get("spec") or {}).get("restartPolicy")
        if policy != "Always":
            errors.append(FieldError.not_supported("spec.template.spec.restartPolicy", policy, ("Always",)))
        if (template.get("spec") or {}).get("activeDeadlineSeconds") is not None:
            text = f"activeDeadlineSeconds in {'ReplicaSet' if word == 'deployment' else word} is not Supported"
            errors.append(FieldError.forbidden("spec.template.spec.activeDeadlineSeconds", text))
    return errors


def validate_template_labels(selector: Object, template: Object) -> Errors:
    labels = (template.get("metadata") or {}).get("labels") or {}
    try:
        if selectors.matches_label_selector(selector, labels):
            return []
    except ValueError:
        return [FieldError.invalid("spec.selector", selector, "invalid label selector")]
    text = "`selector` does not match template `labels`"
    return [FieldError.invalid("spec.template.metadata.labels", labels or None, text)]
