"""Reading ResourceClaims: their parts are optional at every level; here they are lists, possibly empty."""

from __future__ import annotations

from collections.abc import Sequence

from lightkube.models.resource_v1 import (
    DeviceClaimConfiguration,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSelector,
    ResourceClaim,
)

__all__ = ["class_expressions", "config_of", "constraints_of", "expressions", "name_of", "requests_of", "results_of"]


def name_of(claim: ResourceClaim) -> str:
    """namespace/name, as in Kubernetes' messages."""
    metadata = claim.metadata
    if metadata is None:
        return ""
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name or ""


def requests_of(claim: ResourceClaim) -> Sequence[DeviceRequest]:
    devices = claim.spec.devices if claim.spec is not None else None
    return (devices.requests if devices is not None else None) or ()


def constraints_of(claim: ResourceClaim) -> Sequence[DeviceConstraint]:
    devices = claim.spec.devices if claim.spec is not None else None
    return (devices.constraints if devices is not None else None) or ()


def config_of(claim: ResourceClaim) -> Sequence[DeviceClaimConfiguration]:
    devices = claim.spec.devices if claim.spec is not None else None
    return (devices.config if devices is not None else None) or ()


def results_of(claim: ResourceClaim) -> Sequence[DeviceRequestAllocationResult] | None:
    """None when the claim is not allocated."""
    allocation = claim.status.allocation if claim.status is not None else None
    if allocation is None:
        return None
    return (allocation.devices.results if allocation.devices is not None else None) or ()


def expressions(selectors: Sequence[DeviceSelector] | None) -> tuple[str, ...]:
    return tuple(selector.cel.expression for selector in selectors or () if selector.cel is not None)


def class_expressions(cls: DeviceClass) -> tuple[str, ...]:
    return expressions(cls.spec.selectors if cls.spec is not None else None)
