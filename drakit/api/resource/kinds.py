"""The entries of resource.k8s.io in the registry: versions, scope, subresources, selectable fields."""

from __future__ import annotations

from lightkube.models import resource_v1, resource_v1alpha3, resource_v1beta1, resource_v1beta2

from drakit.api.kind import Kind, Version, text_at
from drakit.api.resource import claim, claim_template, device_class, pool_status, slice, taint_rule

__all__ = ["KINDS"]

GROUP = "resource.k8s.io"
_DRA = ("DynamicResourceAllocation",)
_STATUS = {"status": ("get", "patch", "update")}


def _deprecated(version: str, model: type, since: str, until: str) -> Version:
    text = f"{GROUP}/{version} {model.__name__} is deprecated in {since}+, unavailable in {until}+"
    return Version(version, model, default=False, deprecated=text, gates=_DRA)


def _versions(v1: type, v1beta2: type, v1beta1: type) -> tuple[Version, ...]:
    return (
        Version("v1", v1, gates=_DRA),
        _deprecated("v1beta2", v1beta2, "v1.36", "v1.39"),
        _deprecated("v1beta1", v1beta1, "v1.35", "v1.38"),
    )


DEVICE_CLASS = Kind(
    group=GROUP,
    kind="DeviceClass",
    plural="deviceclasses",
    namespaced=False,
    versions=_versions(resource_v1.DeviceClass, resource_v1beta2.DeviceClass, resource_v1beta1.DeviceClass),
    strategy=device_class.STRATEGY,
)
RESOURCE_CLAIM = Kind(
    group=GROUP,
    kind="ResourceClaim",
    plural="resourceclaims",
    namespaced=True,
    versions=_versions(resource_v1.ResourceClaim, resource_v1beta2.ResourceClaim, resource_v1beta1.ResourceClaim),
    subresources=_STATUS,
    strategy=claim.STRATEGY,
)
RESOURCE_CLAIM_TEMPLATE = Kind(
    group=GROUP,
    kind="ResourceClaimTemplate",
    plural="resourceclaimtemplates",
    namespaced=True,
    versions=_versions(
        resource_v1.ResourceClaimTemplate,
        resource_v1beta2.ResourceClaimTemplate,
        resource_v1beta1.ResourceClaimTemplate,
    ),
    strategy=claim_template.STRATEGY,
)
RESOURCE_SLICE = Kind(
    group=GROUP,
    kind="ResourceSlice",
    plural="resourceslices",
    namespaced=False,
    versions=_versions(resource_v1.ResourceSlice, resource_v1beta2.ResourceSlice, resource_v1beta1.ResourceSlice),
    selectable={
        "spec.driver": text_at("spec", "driver"),
        "spec.nodeName": text_at("spec", "nodeName"),
        "spec.pool.name": text_at("spec", "pool", "name"),
    },
    strategy=slice.STRATEGY,
)
DEVICE_TAINT_RULE = Kind(
    group=GROUP,
    kind="DeviceTaintRule",
    plural="devicetaintrules",
    namespaced=False,
    versions=(
        Version("v1", resource_v1.DeviceTaintRule, gates=_DRA),
        Version("v1beta2", resource_v1beta2.DeviceTaintRule, default=False, gates=_DRA),
        _deprecated("v1alpha3", resource_v1alpha3.DeviceTaintRule, "v1.36", "v1.39"),
    ),
    subresources=_STATUS,
    strategy=taint_rule.STRATEGY,
    delete_returns_status=frozenset({"v1"}),
)
RESOURCE_POOL_STATUS_REQUEST = Kind(
    group=GROUP,
    kind="ResourcePoolStatusRequest",
    plural="resourcepoolstatusrequests",
    namespaced=False,
    versions=(Version("v1alpha3", resource_v1alpha3.ResourcePoolStatusRequest, default=False, gates=_DRA),),
    subresources=_STATUS,
    strategy=pool_status.STRATEGY,
)

KINDS: tuple[Kind, ...] = (
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_POOL_STATUS_REQUEST,
    RESOURCE_SLICE,
)
