"""LimitRanges: containers without amounts get their namespace's defaults; pods and containers outside its bounds are refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from drakit.api.kind import Kind
from drakit.api.quantity import Quantity
from drakit.api.quotas import pod_resources
from drakit.apiserver.auth import Admission, AdmissionAttributes, Lookup
from drakit.apiserver.refusals import forbidden

__all__ = ["LimitRanger"]

Plain = Mapping[str, Any]
Amounts = Mapping[str, Quantity]

_ANNOTATION = "kubernetes.io/limit-ranger"
_FIELDS = (("containers", "container"), ("initContainers", "init container"))


class LimitRanger(Admission):
    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def concerns(self, kind: Kind, operation: str, subresource: str) -> bool:
        return (kind.group, kind.plural, operation, subresource) == ("", "pods", "CREATE", "")

    def admit(self, attributes: AdmissionAttributes) -> None:
        for limits in self._limits(attributes):
            assert attributes.object is not None
            attributes.object = _with_defaults(attributes.object, limits)

    def validate(self, attributes: AdmissionAttributes) -> None:
        for limits in self._limits(attributes):
            assert attributes.object is not None
            # Each complaint once, as upstream puts several together.
            if found := list(dict.fromkeys(_complaints(attributes.object, limits))):
                raise forbidden(attributes, found[0] if len(found) == 1 else f"[{', '.join(found)}]")

    def _limits(self, attributes: AdmissionAttributes) -> Iterator[list[Plain]]:
        """The limits of each LimitRange that counts for the request."""
        for limit_range in self._lookup.list("", "limitranges", attributes.request.namespace):
            yield (limit_range.get("spec") or {}).get("limits") or []


def _with_defaults(pod: dict[str, Any], limits: list[Plain]) -> dict[str, Any]:
    defaults: dict[str, dict[str, Any]] = {"requests": {}, "limits": {}}
    for limit in limits:
        if limit.get("type") == "Container":
            defaults["requests"] |= limit.get("defaultRequest") or {}
            defaults["limits"] |= limit.get("default") or {}
    told: list[str] = []
    changed: dict[str, Any] = {}
    for field, word in _FIELDS:
        containers = []
        for container in pod["spec"].get(field) or ():
            resources = dict(container.get("resources") or {})
            for which, singular in (("requests", "request"), ("limits", "limit")):
                given = resources.get(which) or {}
                missing = sorted(defaults[which].keys() - given.keys())
                if missing:
                    resources[which] = {**given, **{name: defaults[which][name] for name in missing}}
                    told.append(f"{', '.join(missing)} {singular} for {word} {container.get('name', '')}")
            containers.append({**container, "resources": resources})
        if containers:
            changed[field] = containers
    if not told:
        return pod
    note = {_ANNOTATION: f"LimitRanger plugin set: {'; '.join(told)}"}
    metadata = {**pod["metadata"], "annotations": {**(pod["metadata"].get("annotations") or {}), **note}}
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], **changed}}


def _complaints(pod: Plain, limits: list[Plain]) -> Iterator[str]:
    spec = pod["spec"]
    for limit in limits:
        if limit.get("type") == "Container":
            for field, _ in _FIELDS:
                for container in spec.get(field) or ():
                    resources = container.get("resources") or {}
                    yield from _bounds(
                        "Container", limit, _amounts(resources, "requests"), _amounts(resources, "limits")
                    )
        elif limit.get("type") == "Pod":
            bare = {"spec": {name: value for name, value in spec.items() if name != "overhead"}}
            yield from _bounds("Pod", limit, pod_resources(bare, "requests"), pod_resources(bare, "limits"))


def _amounts(holder: Plain, which: str) -> Amounts:
    return {name: Quantity.parse(str(text)) for name, text in (holder.get(which) or {}).items()}


def _bounds(kind: str, limit: Plain, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for field, check in (("min", _too_little), ("max", _too_much), ("maxLimitRequestRatio", _too_far_apart)):
        for name, bound in sorted(_amounts(limit, field).items()):
            if text := check(name, f"per {kind} is {bound}", bound, requests.get(name), limits.get(name)):
                yield text


def _too_little(name: str, what: str, bound: Quantity, request: Quantity | None, limit: Quantity | None) -> str:
    if request is None:
        return f"minimum {name} usage {what}.  No request is specified"
    if request < bound:
        return f"minimum {name} usage {what}, but request is {request}"
    return f"minimum {name} usage {what}, but limit is {limit}" if limit is not None and limit < bound else ""


def _too_much(name: str, what: str, bound: Quantity, request: Quantity | None, limit: Quantity | None) -> str:
    if limit is None:
        return f"maximum {name} usage {what}.  No limit is specified"
    if bound < limit:
        return f"maximum {name} usage {what}, but limit is {limit}"
    return f"maximum {name} usage {what}, but request is {request}" if request is not None and bound < request else ""


def _too_far_apart(name: str, what: str, bound: Quantity, request: Quantity | None, limit: Quantity | None) -> str:
    start = f"{name} max limit to request ratio {what}, but"
    if not request:
        return f"{start} no request is specified or request is 0"
    if not limit:
        return f"{start} no limit is specified or limit is 0"
    ratio = limit.to_fraction() / request.to_fraction()
    return f"{start} provided ratio is {float(ratio):f}" if ratio > bound.to_fraction() else ""
