"""The DRA fields of a pod: spec.resourceClaims, resources.claims of containers, and the claim statuses."""

from __future__ import annotations

from typing import Any

from drakit.api.errors import FieldError
from drakit.api.kinds import checks

__all__ = ["claim_names", "validate_container_claims", "validate_pod_claims", "validate_status"]

Plain = dict[str, Any]
Errors = list[FieldError]

_SOURCES = ("resourceClaimName", "resourceClaimTemplateName", "podGroupResourceClaim")


def claim_names(spec: Plain) -> frozenset[str]:
    return frozenset(claim.get("name", "") for claim in spec.get("resourceClaims") or ())


def validate_pod_claims(claims: list[Plain] | None, path: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for position, claim in enumerate(claims or ()):
        at = f"{path}[{position}]"
        name = claim.get("name") or ""
        if not name:
            errors.append(FieldError.required(f"{at}.name"))
        else:
            errors += checks.dns_label(name, f"{at}.name")
            if name in seen:
                errors.append(FieldError.duplicate(f"{at}.name", name))
            seen.add(name)
        errors += _claim_source(claim, at)
    return errors


def _claim_source(claim: Plain, at: str) -> Errors:
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


def validate_container_claims(claims: list[Plain] | None, pod_claims: frozenset[str], path: str) -> Errors:
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


def validate_status(status: Plain, spec: Plain, path: str = "status") -> Errors:
    errors = _claim_statuses(status.get("resourceClaimStatuses") or (), spec, f"{path}.resourceClaimStatuses")
    extended = status.get("extendedResourceClaimStatus")
    if extended is not None:
        errors += _extended(extended, spec, f"{path}.extendedResourceClaimStatus")
    errors += _node_allocatable(
        status.get("nodeAllocatableResourceClaimStatuses") or (), spec, f"{path}.nodeAllocatableResourceClaimStatuses"
    )
    return errors


def _claim_statuses(statuses: Any, spec: Plain, path: str) -> Errors:
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


def _extended(status: Plain, spec: Plain, path: str) -> Errors:
    errors: Errors = []
    claim = status.get("resourceClaimName") or ""
    if not claim:
        errors.append(FieldError.required(f"{path}.resourceClaimName"))
    else:
        errors += checks.subdomain(claim, f"{path}.resourceClaimName")
    mappings = status.get("requestMappings") or ()
    if not mappings:
        errors.append(FieldError.required(f"{path}.requestMappings", "at least one request mapping is required"))
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    names = {container["name"] for container in containers}
    resources = {name for c in containers for name in ((c.get("resources") or {}).get("requests") or ())}
    seen: set[tuple[str, str]] = set()
    for position, mapping in enumerate(mappings):
        at = f"{path}.requestMappings[{position}]"
        container, resource = mapping.get("containerName", ""), mapping.get("resourceName", "")
        # Kubernetes reports the request name one level too high; clients see that path.
        errors += checks.dns_label(mapping.get("requestName", ""), f"{path}.requestName")
        if container not in names:
            text = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
            errors.append(FieldError.invalid(f"{at}.containerName", container, text))
        if resource not in resources:
            text = (
                "must match the extended resource name of an entry in spec.initContainers.resources.requests or "
                "spec.containers.resources.requests"
            )
            errors.append(FieldError.invalid(f"{at}.resourceName", resource, text))
        if (container, resource) in seen:
            errors.append(FieldError.duplicate(at, mapping))
        seen.add((container, resource))
    return errors


def _node_allocatable(statuses: Any, spec: Plain, path: str) -> Errors:
    errors: Errors = []
    names = {c["name"] for kind in ("initContainers", "containers") for c in spec.get(kind) or ()}
    for position, status in enumerate(statuses):
        at = f"{path}[{position}]"
        errors += checks.subdomain(status.get("resourceClaimName", ""), f"{at}.resourceClaimName")
        for index, container in enumerate(status.get("containers") or ()):
            if container not in names:
                errors.append(FieldError.not_found(f"{at}.containers[{index}]", container))
    return errors
