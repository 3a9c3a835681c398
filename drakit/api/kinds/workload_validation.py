"""Workloads beyond their declared rules: names of templates, how deep they nest, one priority for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drakit.api.errors import Errors, FieldError
from drakit.api.kind import Object

__all__ = ["validate_templates"]

_MAX_DEPTH = 4
_GROUPS, _COMPOSITES = "podGroupTemplates", "compositePodGroupTemplates"


def validate_templates(spec: Object, path: str) -> Errors:
    composites = _list(spec, _COMPOSITES)
    names = {template.get("name") for template in _list(spec, _GROUPS)}
    errors = _repeated(composites, f"{path}.{_COMPOSITES}", names)
    for position, template in enumerate(composites):
        if _depth(template) > _MAX_DEPTH - 1:
            shown = [_shown(child) for child in _list(template, _COMPOSITES)] or None
            text = f"maximum template hierarchy depth is {_MAX_DEPTH}"
            errors.append(FieldError.invalid(f"{path}.{_COMPOSITES}[{position}]", shown, text))
    errors += _priorities(spec, path)
    for position, template in enumerate(composites):
        errors += _childless(template, f"{path}.{_COMPOSITES}[{position}]")
    return errors


def _list(obj: Object, name: str) -> list[Object]:
    return obj.get(name) or []


def _repeated(templates: list[Object], path: str, names: set[Any]) -> Errors:
    """Names are unique in the whole tree. Within one list that is a declared rule; here, what other lists have."""
    errors = _taken(templates, path, names)
    names.update(template.get("name") for template in templates)
    for position, template in enumerate(templates):
        here, groups = f"{path}[{position}]", _list(template, _GROUPS)
        errors += _taken(groups, f"{here}.{_GROUPS}", names)
        names.update(group.get("name") for group in groups)
        errors += _repeated(_list(template, _COMPOSITES), f"{here}.{_COMPOSITES}", names)
    return errors


def _taken(templates: list[Object], path: str, names: set[Any]) -> Errors:
    return [
        FieldError.duplicate(f"{path}[{position}].name", template.get("name") or "")
        for position, template in enumerate(templates)
        if template.get("name") in names
    ]


def _depth(template: Object) -> int:
    return 1 + max((_depth(child) for child in _list(template, _COMPOSITES)), default=0)


def _priorities(spec: Object, path: str) -> Errors:
    groups = [_priority(group) for group in _list(spec, _GROUPS)]
    if len(set(groups)) > 1:
        return [FieldError.invalid(path, None, "detected multiple priority configurations")]
    found = set(groups) | {_priority(each) for root in _list(spec, _COMPOSITES) for each in _walk(root)}
    if len(found) > 1:
        text = "all priority and priorityClassName values must be identical, detected multiple values"
        return [FieldError.invalid(path, None, text)]
    return []


def _priority(template: Object) -> tuple[str, int | None]:
    return template.get("priorityClassName") or "", template.get("priority")


def _walk(template: Object) -> Iterator[Object]:
    yield template
    for child in _list(template, _COMPOSITES):
        yield from _walk(child)
    yield from _list(template, _GROUPS)


def _childless(template: Object, path: str) -> Errors:
    children = _list(template, _COMPOSITES)
    errors: Errors = []
    if not children and not _list(template, _GROUPS):
        text = "must have at least one child PodGroupTemplate or CompositePodGroupTemplate"
        errors.append(FieldError.invalid(path, template.get("name") or "", text))
    for position, child in enumerate(children):
        errors += _childless(child, f"{path}.{_COMPOSITES}[{position}]")
    return errors


# A tree that is too deep is shown in the internal form, where every field is written, under its Go name.


def _shown(template: Object) -> Object:
    return {
        "Name": template.get("name") or "",
        "SchedulingPolicy": _shown_policy(template, "minGroupCount"),
        "SchedulingConstraints": _shown_constraints(template),
        "DisruptionMode": _shown_mode(template),
        **_shown_priority(template),
        "PodGroupTemplates": [_shown_group(group) for group in _list(template, _GROUPS)] or None,
        "CompositePodGroupTemplates": [_shown(child) for child in _list(template, _COMPOSITES)] or None,
    }


def _shown_group(group: Object) -> Object:
    return {
        "Name": group.get("name") or "",
        "SchedulingPolicy": _shown_policy(group, "minCount"),
        "SchedulingConstraints": _shown_constraints(group),
        "ResourceClaims": [
            {
                "Name": claim.get("name") or "",
                "ResourceClaimName": claim.get("resourceClaimName"),
                "ResourceClaimTemplateName": claim.get("resourceClaimTemplateName"),
            }
            for claim in _list(group, "resourceClaims")
        ]
        or None,
        "DisruptionMode": _shown_mode(group),
        **_shown_priority(group),
    }


def _shown_policy(template: Object, count: str) -> Object:
    policy = template.get("schedulingPolicy") or {}
    gang = policy.get("gang")
    shown = None if gang is None else {count[0].upper() + count[1:]: gang.get(count) or 0}
    return {"Basic": policy.get("basic"), "Gang": shown}


def _shown_constraints(template: Object) -> Object | None:
    constraints = template.get("schedulingConstraints")
    if constraints is None:
        return None
    return {"Topology": [{"Key": each.get("key") or ""} for each in _list(constraints, "topology")] or None}


def _shown_mode(template: Object) -> Object | None:
    mode = template.get("disruptionMode")
    return None if mode is None else {"Single": mode.get("single"), "All": mode.get("all")}


def _shown_priority(template: Object) -> Object:
    return {
        "PriorityClassName": template.get("priorityClassName") or "",
        "Priority": template.get("priority"),
        "PreemptionPolicy": template.get("preemptionPolicy"),
    }
