"""The DRA fields of a pod: spec.resourceClaims, resources.claims of containers, and the claim statuses."""

from __future__ import annotations

from typing import Any

from drakit.api.errors import Errors, FieldError
from drakit.api.kind import Object
from drakit.api.kinds import checks

__all__ = ["claim_names", "validate_container_claims", "validate_pod_claims", "validate_status"]

_MIRROR_ANNOTATION = "kubernetes.io/config.mirror"


def claim_names(spec: Object) -> frozenset[str]:
    return frozenset(name for claim in spec.get("resourceClaims") or () if (name := claim.get("name")))


def validate_pod_claims(claims: list[Object] | None, path: str, annotations: Object | None = None) -> Errors:
    errors: Errors = []
    if claims and annotations and _MIRROR_ANNOTATION in annotations:
        return [FieldError.forbidden("", "static pods do not support resource claims")] * len(claims)
    seen: set[str] = set()
    for position, claim in enumerate(claims or ()):
        at = f"{path}[{position}]"
        name = claim.get("name") or ""
        if not name:
            errors.append(FieldError.required(f"{at}.name"))
        elif name in seen:
            errors.append(FieldError.duplicate(f"{at}.name", name))
        else:
            errors += checks.dns_label(name, f"{at}.name")
            seen.add(name)
        errors += _claim_source(claim, at)
    return errors


def _claim_source(claim: Object, at: str) -> Errors:
    own, template = claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName")
    # Go's field names: Kubernetes prints the internal object.
    shown = {"Name": claim.get("name") or "", "ResourceClaimName": own, "ResourceClaimTemplateName": template}
    errors: Errors = []
    if own is not None and template is not None:
        text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        errors.append(FieldError.invalid(at, shown, text))
    elif own is None and template is None:
        text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        errors.append(FieldError.invalid(at, shown, text))
    if own is not None:
        errors += checks.subdomain(own, f"{at}.resourceClaimName")
    if template is not None:
        errors += checks.subdomain(template, f"{at}.resourceClaimTemplateName")
    return errors


def validate_container_claims(claims: list[Object] | None, pod_claims: frozenset[str], path: str) -> Errors:
    """resources.claims: each names an entry of the pod, either whole or by distinct requests."""
    errors: Errors = []
    seen: set[str] = set()
    for position, claim in enumerate(claims or ()):
        at = f"{path}[{position}]"
        name = claim.get("name") or ""
        if not name:
            errors.append(FieldError.required(at))
            continue
        if name in seen:
            errors.append(FieldError.duplicate(at, name))
        else:
            request = claim.get("request") or ""
            key = f"{name}/{request}" if request else name
            if request:
                errors += checks.dns_label(request, f"{at}.request")
            if key in seen:
                errors.append(FieldError.duplicate(at, key))
            elif not request:
                errors += [FieldError.duplicate(at, name) for other in seen if other.partition("/")[0] == name]
            seen.add(key)
        if name not in pod_claims:
            detail = "must be one of the names in pod.spec.resourceClaims"
            detail += ": " + ", ".join(sorted(pod_claims)) if pod_claims else " which is empty"
            errors.append(FieldError(FieldError.not_found(at, name).type, at, name, detail))
    return errors


def validate_status(status: Object, spec: Object, path: str = "status") -> Errors:
    errors = _claim_statuses(status.get("resourceClaimStatuses") or (), spec, f"{path}.resourceClaimStatuses")
    extended = status.get("extendedResourceClaimStatus")
    if extended is not None:
        errors += _extended(extended, spec, f"{path}.extendedResourceClaimStatus")
    return errors + _node_allocatable(status, spec, f"{path}.nodeAllocatableResourceClaimStatuses")


def _claim_statuses(statuses: Any, spec: Object, path: str) -> Errors:
    errors: Errors = []
    known = claim_names(spec)
    seen: set[str] = set()
    for position, status in enumerate(statuses):
        at = f"{path}[{position}]"
        name = status.get("name") or ""
        if name not in known:
            text = "must match the name of an entry in `spec.resourceClaims`"
            errors.append(FieldError.invalid(f"{at}.name", name, text))
        if name in seen:
            errors.append(FieldError.duplicate(f"{at}.name", name))
        seen.add(name)
        claim = status.get("resourceClaimName")
        if claim is not None:
            errors += checks.subdomain(claim, f"{at}.resourceClaimName")
    return errors


def _extended(status: Object, spec: Object, path: str) -> Errors:
    errors: Errors = []
    mappings = status.get("requestMappings") or ()
    if not mappings:
        errors.append(FieldError.required(f"{path}.requestMappings", "at least one request mapping is required"))
    containers = {c["name"]: c for kind in ("initContainers", "containers") for c in spec.get(kind) or ()}
    seen: set[tuple[str, str, str]] = set()
    for position, mapping in enumerate(mappings):
        at = f"{path}.requestMappings[{position}]"
        names = ("containerName", "resourceName", "requestName")
        key = container, resource, request = tuple(mapping.get(name, "") for name in names)
        if container not in containers:
            text = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
            errors.append(FieldError.invalid(f"{at}.containerName", container, text))
        elif resource not in ((containers[container].get("resources") or {}).get("requests") or ()):
            text = (
                "must match the extended resource name of an entry in spec.initContainers.resources.requests or "
                "spec.containers.resources.requests"
            )
            errors.append(FieldError.invalid(f"{at}.resourceName", resource, text))
        # Kubernetes reports the request name one level too high; clients see that path.
        errors += checks.dns_label(request, f"{path}.requestName")
        if key in seen:
            errors += [FieldError.duplicate(f"{at}.{name}", mapping.get(name, "")) for name in names]
        seen.add(key)
    claim = status.get("resourceClaimName") or ""
    if not claim:
        errors.append(FieldError.required(f"{path}.resourceClaimName"))
    else:
        errors += checks.subdomain(claim, f"{path}.resourceClaimName")
    return errors


def _node_allocatable(status: Object, spec: Object, path: str) -> Errors:
    errors: Errors = []
    holders = (*(spec.get("resourceClaims") or ()), *(status.get("resourceClaimStatuses") or ()))
    claims = {holder.get("resourceClaimName") for holder in holders}
    for position, entry in enumerate(status.get("nodeAllocatableResourceClaimStatuses") or ()):
        name = entry.get("resourceClaimName")
        if name and name not in claims:
            at = f"{path}[{position}].resourceClaimName"
            errors.append(FieldError.invalid(at, name, "no mapping found in pod reference"))
    return errors
