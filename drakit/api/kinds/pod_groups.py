"""PodGroup, CompositePodGroup and Workload (scheduling.k8s.io): off unless their gates and versions are on.

Once created they hardly change: a gang may get another size. What is declared stands in `group_rules`.
"""

from __future__ import annotations

from typing import Any

from lightkube.models import scheduling_v1alpha3, scheduling_v1beta1

from drakit.api import declared, formats, metadata
from drakit.api.errors import Errors, FieldError
from drakit.api.kind import Kind, Object, Strategy, Subresource, Version, WriteContext
from drakit.api.kinds import entry, group_rules
from drakit.api.kinds.workload_validation import validate_templates

__all__ = ["COMPOSITE_POD_GROUP", "POD_GROUP", "WORKLOAD"]

GROUP = "scheduling.k8s.io"
_PREEMPTION = "PodGroupPreemptionPolicy"
_COMPOSITES = "compositePodGroupTemplates"
# Fields of groups and of their templates that exist with a gate, or where they are in use already.
_GATED = {
    "schedulingConstraints": "TopologyAwareWorkloadScheduling",
    "resourceClaims": "DRAWorkloadResourceClaims",
    "preemptionPolicy": _PREEMPTION,
    "parentCompositePodGroupName": "CompositePodGroup",
}


def _default_group(group: Object) -> None:
    spec = group.setdefault("spec", {})
    if spec.get("disruptionMode") is None:
        spec["disruptionMode"] = {"single": {}}


def _default_preemption(group: Object, ctx: WriteContext) -> None:
    """A default that depends on a gate; defaults proper know none."""
    if ctx.gates.enabled(_PREEMPTION) and group["spec"].get("preemptionPolicy") is None:
        group["spec"]["preemptionPolicy"] = "PreemptLowerPriority"


def _drop(spec: Object, old: Object, names: tuple[str, ...], ctx: WriteContext) -> None:
    for name in names:
        if not ctx.gates.enabled(_GATED[name]) and not _used(old.get(name)):
            spec.pop(name, None)


def _used(value: Any) -> bool:
    return value is not None and value != []


# PodGroup

_OF_GROUPS = ("schedulingConstraints", "resourceClaims", "preemptionPolicy", "parentCompositePodGroupName")


def _prepare_group(group: Object, ctx: WriteContext) -> None:
    _default_preemption(group, ctx)
    _drop(group["spec"], {}, _OF_GROUPS, ctx)


def _prepare_group_update(new: Object, old: Object, ctx: WriteContext) -> None:
    _default_preemption(new, ctx)
    _drop(new["spec"], old["spec"], _OF_GROUPS, ctx)


def _validate_group(group: Object, ctx: WriteContext) -> Errors:
    spec, errors = group["spec"], []
    if spec.get("parentCompositePodGroupName") is not None and spec.get("workloadRef") is None:
        text = "must be set when parentCompositePodGroupName is set"
        errors.append(FieldError.required("spec.workloadRef", text))
    return errors + declared.check(group_rules.POD_GROUP_SPEC, spec, None, "spec", ctx.gates)


def _validate_group_update(new: Object, old: Object, ctx: WriteContext) -> Errors:
    return declared.check(group_rules.POD_GROUP_SPEC, new["spec"], old["spec"], "spec", ctx.gates)


def _prepare_group_status(new: Object, old: Object, ctx: WriteContext) -> None:
    metadata.restrict_to_status(new, old)
    used = _used(old["spec"].get("resourceClaims"))
    if not used and not ctx.gates.enabled("DRAWorkloadResourceClaims"):
        (new.get("status") or {}).pop("resourceClaimStatuses", None)


def _validate_group_status(new: Object, old: Object, ctx: WriteContext) -> Errors:
    status = new.get("status") or {}
    errors = metadata.validate_conditions(status.get("conditions") or [], "status.conditions")
    names = {claim.get("name") for claim in new["spec"].get("resourceClaims") or ()}
    for position, claim in enumerate(status.get("resourceClaimStatuses") or ()):
        if claim.get("name") not in names:
            path = f"status.resourceClaimStatuses[{position}].name"
            text = "must match the name of an entry in `spec.resourceClaims`"
            errors.append(FieldError.invalid(path, claim.get("name") or "", text))
    before = old.get("status") or {}
    return errors + declared.check(group_rules.POD_GROUP_STATUS, status, before, "status", ctx.gates)


# CompositePodGroup


def _prepare_composite(group: Object, ctx: WriteContext) -> None:
    _default_preemption(group, ctx)
    _drop(group["spec"], {}, ("preemptionPolicy",), ctx)


def _prepare_composite_update(new: Object, old: Object, ctx: WriteContext) -> None:
    _default_preemption(new, ctx)
    _drop(new["spec"], old["spec"], ("preemptionPolicy",), ctx)


def _validate_composite(group: Object, ctx: WriteContext) -> Errors:
    return declared.check(group_rules.COMPOSITE_SPEC, group["spec"], None, "spec", ctx.gates)


def _validate_composite_update(new: Object, old: Object, ctx: WriteContext) -> Errors:
    return declared.check(group_rules.COMPOSITE_SPEC, new["spec"], old["spec"], "spec", ctx.gates)


def _validate_composite_status(new: Object, old: Object, ctx: WriteContext) -> Errors:
    return metadata.validate_conditions((new.get("status") or {}).get("conditions") or [], "status.conditions")


# Workload


def _prepare_workload(workload: Object, ctx: WriteContext) -> None:
    _drop_templates(workload["spec"], {}, ctx)


def _prepare_workload_update(new: Object, old: Object, ctx: WriteContext) -> None:
    _drop_templates(new["spec"], old["spec"], ctx)


def _drop_templates(owner: Object, old: Object, ctx: WriteContext) -> None:
    """`owner` holds lists of templates: the spec, or a composite template. Templates of groups match by position, composite
    ones by name."""
    before = old.get("podGroupTemplates") or []
    for position, template in enumerate(owner.get("podGroupTemplates") or ()):
        was = before[position] if position < len(before) else {}
        _drop(template, was, ("schedulingConstraints", "resourceClaims", "preemptionPolicy"), ctx)
        template.setdefault("schedulingConstraints", None)  # written even when there are none
    if not ctx.gates.enabled("CompositePodGroup") and not old.get(_COMPOSITES):
        owner.pop(_COMPOSITES, None)
    composites = {template.get("name"): template for template in old.get(_COMPOSITES) or ()}
    for template in owner.get(_COMPOSITES) or ():
        was = composites.get(template.get("name")) or {}
        _drop(template, was, ("preemptionPolicy",), ctx)
        _drop_templates(template, was, ctx)


def _validate_workload(workload: Object, ctx: WriteContext) -> Errors:
    spec = workload["spec"]
    errors = validate_templates(spec, "spec")
    return errors + declared.check(group_rules.WORKLOAD_SPEC, spec, None, "spec", ctx.gates)


def _validate_workload_update(new: Object, old: Object, ctx: WriteContext) -> Errors:
    errors = validate_templates(new["spec"], "spec")
    return errors + declared.check(group_rules.WORKLOAD_SPEC, new["spec"], old["spec"], "spec", ctx.gates)


# The registry's entries

_SUBDOMAIN = formats.name_is(formats.dns_subdomain)


def _versions(gate: str, **models: type) -> tuple[Version, ...]:
    return tuple(Version(name, model, default=False, gates=(gate,)) for name, model in models.items())


def _kind(plural: str, versions: tuple[Version, ...], strategy: Strategy, **more: Any) -> Kind:
    return Kind(
        group=GROUP,
        kind=versions[0].model.__name__,
        plural=plural,
        namespaced=True,
        versions=versions,
        strategy=strategy,
        delete_returns_status=frozenset(version.name for version in versions),
        **more,
    )


POD_GROUP = _kind(
    "podgroups",
    _versions("GenericWorkload", v1beta1=scheduling_v1beta1.PodGroup, v1alpha3=scheduling_v1alpha3.PodGroup),
    Strategy(
        default={"": _default_group},
        prepare_for_create=_prepare_group,
        validate=_validate_group,
        prepare_for_update=_prepare_group_update,
        validate_update=_validate_group_update,
        subresources={
            "status": Subresource(prepare_for_update=_prepare_group_status, validate_update=_validate_group_status)
        },
        validate_name=_SUBDOMAIN,
        reset=("status",),
        allow_unconditional_update=lambda version: False,
    ),
    subresources=entry.STATUS,
)
COMPOSITE_POD_GROUP = _kind(
    "compositepodgroups",
    _versions("CompositePodGroup", v1alpha3=scheduling_v1alpha3.CompositePodGroup),
    Strategy(
        default={"": _default_group},
        prepare_for_create=_prepare_composite,
        validate=_validate_composite,
        prepare_for_update=_prepare_composite_update,
        validate_update=_validate_composite_update,
        subresources={"status": Subresource(validate_update=_validate_composite_status)},
        validate_name=_SUBDOMAIN,
        reset=("status",),
        allow_unconditional_update=lambda version: False,
    ),
    subresources=entry.STATUS,
)
WORKLOAD = _kind(
    "workloads",
    _versions("GenericWorkload", v1beta1=scheduling_v1beta1.Workload, v1alpha3=scheduling_v1alpha3.Workload),
    Strategy(
        prepare_for_create=_prepare_workload,
        validate=_validate_workload,
        prepare_for_update=_prepare_workload_update,
        validate_update=_validate_workload_update,
        validate_name=_SUBDOMAIN,
        allow_unconditional_update=lambda version: False,
    ),
)
