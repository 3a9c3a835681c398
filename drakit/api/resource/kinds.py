"""The entries of resource.k8s.io in the registry: versions, scope, subresources, selectable fields."""

from __future__ import annotations

from lightkube.models import resource_v1, resource_v1alpha3, resource_v1beta1, resource_v1beta2

from drakit.api.kind import Kind, Version, text_at
from drakit.api.resource import claim, claim_template, device_class, pool_status, slice, taint_rule

__all__ = ["KINDS"]

GROUP = "resource.k8s.io"
_DRA = ("DynamicResourceAllocation",)
_STATUS = {"status": ("get", "patch", "update")}


def _deprecated(version: str, kind: str, since: str, until: str) -> str:
    return f"{GROUP}/{version} {kind} is deprecated in {since}+, unavailable in {until}+"


def _v1(model: type) -> Version:
    return Version("v1", model, gates=_DRA)


def _v1beta2(model: type) -> Version:
    warning = _deprecated("v1beta2", model.__name__, "v1.36", "v1.39")
    return Version("v1beta2", model, default=False, deprecated=warning, gates=_DRA)


def _v1beta1(model: type) -> Version:
    warning = _deprecated("v1beta1", model.__name__, "v1.35", "v1.38")
    return Version("v1beta1", model, default=False, deprecated=warning, gates=_DRA)


DEVICE_CLASS = Kind(
    group=GROUP,
    kind="DeviceClass",
    plural="deviceclasses",
    namespaced=False,
    versions=(
        _v1(resource_v1.DeviceClass),
        _v1beta2(resource_v1beta2.DeviceClass),
        _v1beta1(resource_v1beta1.DeviceClass),
    ),
    strategy=device_class.STRATEGY,
)
RESOURCE_CLAIM = Kind(
    group=GROUP,
    kind="ResourceClaim",
    plural="resourceclaims",
    namespaced=True,
    versions=(
        _v1(resource_v1.ResourceClaim),
        _v1beta2(resource_v1beta2.ResourceClaim),
        _v1beta1(resource_v1beta1.ResourceClaim),
    ),
    subresources=_STATUS,
    strategy=claim.STRATEGY,
)
RESOURCE_CLAIM_TEMPLATE = Kind(
    group=GROUP,
    kind="ResourceClaimTemplate",
    plural="resourceclaimtemplates",
    namespaced=True,
    versions=(
        _v1(resource_v1.ResourceClaimTemplate),
        _v1beta2(resource_v1beta2.ResourceClaimTemplate),
        _v1beta1(resource_v1beta1.ResourceClaimTemplate),
    ),
    strategy=claim_template.STRATEGY,
)
RESOURCE_SLICE = Kind(
    group=GROUP,
    kind="ResourceSlice",
    plural="resourceslices",
    namespaced=False,
    versions=(
        _v1(resource_v1.ResourceSlice),
        _v1beta2(resource_v1beta2.ResourceSlice),
        _v1beta1(resource_v1beta1.ResourceSlice),
    ),
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
        _v1(resource_v1.DeviceTaintRule),
        Version("v1beta2", resource_v1beta2.DeviceTaintRule, default=False, gates=_DRA),
        Version(
            "v1alpha3",
            resource_v1alpha3.DeviceTaintRule,
            default=False,
            deprecated=_deprecated("v1alpha3", "DeviceTaintRule", "v1.36", "v1.39"),
            gates=_DRA,
        ),
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
