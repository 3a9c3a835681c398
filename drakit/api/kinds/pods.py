"""Pods: the registry entry, and what creating, changing and reporting on a pod means."""

from __future__ import annotations

import difflib
import json
from typing import Any

from lightkube.models import core_v1

from drakit.api import formats, wire
from drakit.api.errors import Errors, FieldError
from drakit.api.kind import Kind, Object, Strategy, Subresource, WriteContext, text_at
from drakit.api.kinds import checks, entry, pod_claims
from drakit.api.kinds.container_validation import Surroundings, validate_ephemeral_containers
from drakit.api.kinds.pod_annotations import validate_annotation_update, validate_pod_annotations
from drakit.api.kinds.pod_defaults import default_pod
from drakit.api.kinds.pod_validation import validate_pod, validate_tolerations

__all__ = ["KINDS", "POD", "drop_disabled_spec", "qos_class"]

_UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)
# Kept by the status subresource when a client sends none: an older kubelet does not know them.
_KEPT_STATUS = (
    "qosClass",
    "resourceClaimStatuses",
    "extendedResourceClaimStatus",
    "nodeAllocatableResourceClaimStatuses",
    "observedGeneration",
)
_GATED_STATUS = (
    ("DynamicResourceAllocation", "resourceClaimStatuses"),
    ("DRAExtendedResource", "extendedResourceClaimStatus"),
    ("DRANodeAllocatableResources", "nodeAllocatableResourceClaimStatuses"),
    ("CSIVolumeHealth", "volumeHealth"),
)


# Create


def _prepare_for_create(pod: Object, ctx: WriteContext) -> None:
    spec = pod["spec"]
    status: Object = {"phase": "Pending"}
    drop_disabled_spec(spec, None, ctx)
    if spec.get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": ctx.timestamp,
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    status["qosClass"] = qos_class(spec)
    pod["status"] = status


def drop_disabled_spec(spec: Object, old: Object | None, ctx: WriteContext) -> None:
    """Takes out the fields of features that are off, unless the stored spec has them."""
    enabled = ctx.gates.enabled
    if (
        spec.get("resourceClaims")
        and not enabled("DynamicResourceAllocation")
        and not (old or {}).get("resourceClaims")
    ):
        spec.pop("resourceClaims")
        for kind in ("containers", "initContainers", "ephemeralContainers"):
            for container in spec.get(kind) or ():
                (container.get("resources") or {}).pop("claims", None)
    if not enabled("ContainerStopSignals"):
        _drop_stop_signals(spec)
    if not enabled("EvictionRequestAPI") and not (old or {}).get("evictionResponders"):
        spec.pop("evictionResponders", None)
    if "schedulingGroup" in spec and not enabled("GenericWorkload") and not (old or {}).get("schedulingGroup"):
        spec.pop("schedulingGroup")


def _drop_stop_signals(spec: Object) -> None:
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(kind) or ():
            lifecycle = container.get("lifecycle")
            if lifecycle and lifecycle.pop("stopSignal", None) is not None and not lifecycle:
                container.pop("lifecycle")


def qos_class(spec: Object) -> str:
    if spec.get("resources"):
        return _requirements_class(spec["resources"])
    classes = {
        _requirements_class(container.get("resources") or {})
        for kind in ("initContainers", "containers")
        for container in spec.get(kind) or ()
    }
    return classes.pop() if len(classes) == 1 else "Burstable" if classes else "BestEffort"


def _requirements_class(resources: Object) -> str:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    if not limits and not requests:
        return "BestEffort"
    classes = set()
    for name in ("cpu", "memory"):
        limit, request = (checks.quantity(amounts.get(name, "0")) for amounts in (limits, requests))
        if limit.is_zero and request.is_zero:
            classes.add("BestEffort")
        else:
            classes.add("Guaranteed" if limit == request else "Burstable")
    return classes.pop() if len(classes) == 1 else "Burstable"


def _validate(pod: Object, ctx: WriteContext) -> Errors:
    spec = pod["spec"]
    annotations = pod["metadata"].get("annotations")
    errors = validate_pod_annotations(annotations, spec, "metadata.annotations") if annotations else []
    errors += validate_pod(pod)
    if spec.get("ephemeralContainers"):
        errors.append(FieldError.forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        text = "cannot be set until all schedulingGates have been cleared"
        errors.append(FieldError.forbidden("spec.nodeName", text))
    return errors


def _warnings(pod: Object, old: Object | None, ctx: WriteContext) -> list[str]:
    if old is not None:
        return []
    warnings = []
    texts = formats.dns_label(pod["metadata"].get("name", ""))
    if texts:
        warnings.append(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is "
            f"recommended: [{' '.join(texts)}]"
        )
    grace = pod["spec"].get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0:
        warnings.append(
            "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        )
    return warnings


# Update


def _prepare_for_update(new: Object, old: Object, ctx: WriteContext) -> None:
    drop_disabled_spec(new["spec"], old["spec"], ctx)


def _validate_update(new: Object, old: Object, ctx: WriteContext) -> Errors:
    spec, before = new["spec"], old["spec"]
    errors: Errors = []
    if new["metadata"].get("annotations") != old["metadata"].get("annotations"):
        errors = validate_annotation_update(new, old)
    if spec == before:
        return errors
    errors += validate_pod(new)
    for kind in ("containers", "initContainers"):
        if len(spec.get(kind) or ()) != len(before.get(kind) or ()):
            errors.append(FieldError.forbidden(f"spec.{kind}", "pod updates may not add or remove containers"))
            return errors
    deadline, old_deadline = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if deadline is None and old_deadline is not None:
        text = "must not update from a positive integer to nil value"
        errors.append(FieldError.invalid("spec.activeDeadlineSeconds", None, text))
    elif deadline is not None and old_deadline is not None and old_deadline < deadline:
        text = "must be less than or equal to previous value"
        errors.append(FieldError.invalid("spec.activeDeadlineSeconds", deadline, text))
        return errors
    errors += _only_added_tolerations(spec.get("tolerations") or [], before.get("tolerations") or [])
    errors += _only_removed_gates(spec.get("schedulingGates") or [], before.get("schedulingGates") or [])
    changed = _without_updatable(spec, before)
    if changed != before:
        text = f"pod updates may not change fields other than {_UPDATABLE}\n{_difference(before, changed)}"
        errors.append(FieldError.forbidden("spec", text))
    return errors


def _without_updatable(spec: Object, old: Object) -> Object:
    """spec with what may change put back to what it was."""
    spec = dict(spec)
    for kind in ("containers", "initContainers"):
        if spec.get(kind):
            spec[kind] = [{**new, "image": was.get("image")} for new, was in zip(spec[kind], old[kind], strict=True)]
    restored = ["activeDeadlineSeconds", "tolerations", "schedulingGates"]
    if old.get("terminationGracePeriodSeconds", 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        restored.append("terminationGracePeriodSeconds")
    if old.get("schedulingGates"):  # a gated pod may still be narrowed down to fewer nodes
        restored += ["nodeSelector", "affinity"] if _only_narrowed(spec, old) else []
    for name in restored:
        if name in old:
            spec[name] = old[name]
        else:
            spec.pop(name, None)
    return spec


def _only_narrowed(spec: Object, old: Object) -> bool:
    """Whether node selector and node affinity only gained conditions, and nothing else in the affinity changed."""
    selector, old_selector = spec.get("nodeSelector") or {}, old.get("nodeSelector") or {}
    if not old_selector.items() <= selector.items():
        return False
    affinity, old_affinity = dict(spec.get("affinity") or {}), dict(old.get("affinity") or {})
    node, old_node = affinity.pop("nodeAffinity", None) or {}, old_affinity.pop("nodeAffinity", None) or {}
    if affinity != old_affinity:
        return False
    name = "requiredDuringSchedulingIgnoredDuringExecution"
    terms, old_terms = ((n.get(name) or {}).get("nodeSelectorTerms") or [] for n in (node, old_node))
    if not old_terms:
        return True
    if len(terms) != len(old_terms):
        return False
    fields = ("matchExpressions", "matchFields")
    return all(
        (term.get(field) or [])[: len(was.get(field) or [])] == (was.get(field) or [])
        for term, was in zip(terms, old_terms, strict=True)
        for field in fields
    )


def _difference(old: Object, new: Object) -> str:
    """What changed, in the form of a unified diff (Kubernetes prints its internal object; the field names differ)."""
    before, after = (json.dumps(spec, indent=1, ensure_ascii=False).splitlines() for spec in (old, new))
    return "\n".join(list(difflib.unified_diff(before, after, lineterm="", n=3))[2:]) + "\n"


def _only_added_tolerations(new: list[Object], old: list[Object]) -> Errors:
    def bare(toleration: Object) -> Object:
        return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}

    kept = [bare(toleration) for toleration in new]
    if any(bare(toleration) not in kept for toleration in old):
        text = "existing toleration can not be modified except its tolerationSeconds"
        return [FieldError.forbidden("spec.tolerations", text)]
    return validate_tolerations(new, "spec.tolerations") if new != old else []


def _only_removed_gates(new: list[Object], old: list[Object]) -> Errors:
    known = {gate["name"] for gate in old}
    return [
        FieldError.forbidden(
            f"spec.schedulingGates[{position}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate['name']}'",
        )
        for position, gate in enumerate(new)
        if gate["name"] not in known
    ]


# Status, ephemeral containers


def _prepare_status(new: Object, old: Object, ctx: WriteContext) -> None:
    new["spec"] = old["spec"]
    meta, old_meta = new["metadata"], old["metadata"]
    meta.pop("deletionTimestamp", None)
    if "ownerReferences" in old_meta:
        meta["ownerReferences"] = old_meta["ownerReferences"]
    else:
        meta.pop("ownerReferences", None)
    status, old_status = new.setdefault("status", {}), old.get("status") or {}
    for name in _KEPT_STATUS:
        if not status.get(name) and old_status.get(name) and not _cleared(status, name):
            status[name] = old_status[name]
    for gate, name in _GATED_STATUS:
        if name in status and not ctx.gates.enabled(gate) and not old_status.get(name):
            status.pop(name)
    _keep_observed_generations(status, old_status)


def _cleared(status: Object, name: str) -> bool:
    """An empty list, sent as such, clears the field."""
    return isinstance(status.get(name), list)


def _keep_observed_generations(status: Object, old: Object) -> None:
    known: dict[str, list[int]] = {}
    for condition in old.get("conditions") or ():
        known.setdefault(condition.get("type", ""), []).append(condition.get("observedGeneration") or 0)
    for condition in status.get("conditions") or ():
        values = known.get(condition.get("type", ""))
        generation = values.pop(0) if values else 0
        if generation and not condition.get("observedGeneration"):
            condition["observedGeneration"] = generation


def _validate_status(new: Object, old: Object, ctx: WriteContext) -> Errors:
    status, before = new["status"], old.get("status") or {}
    errors: Errors = []
    for position, condition in enumerate(status.get("conditions") or ()):
        if condition.get("type") not in ("PodScheduled", "Ready", "Initialized"):
            errors += checks.qualified_name(condition.get("type", ""), f"status.conditions[{position}].Type")
    nominated = status.get("nominatedNodeName")
    if nominated and nominated != before.get("nominatedNodeName"):
        errors += checks.subdomain(nominated, "status.nominatedNodeName")
        if old["spec"].get("nodeName") and ctx.gates.enabled("ClearingNominatedNodeNameAfterBinding"):
            text = "may not be set on pods that are already bound to a node"
            errors.append(FieldError.forbidden("status.nominatedNodeName", text))
    errors += checks.immutable(status.get("qosClass", ""), before.get("qosClass", ""), "status.qosClass")
    errors += _state_transitions(new, old)
    return errors + pod_claims.validate_status(status, new["spec"])


def _state_transitions(new: Object, old: Object) -> Errors:
    """A container that has ended for good does not start again."""
    policy = old["spec"].get("restartPolicy")
    now = {status["name"]: status.get("state") or {} for status in new["status"].get("containerStatuses") or ()}
    errors: Errors = []
    for position, status in enumerate((old.get("status") or {}).get("containerStatuses") or ()):
        ended = (status.get("state") or {}).get("terminated")
        if ended is None or status["name"] not in now or now[status["name"]].get("terminated") is not None:
            continue
        if not _restarts(policy, status["name"], ended.get("exitCode", 0), old["spec"]):
            text = "may not be transitioned to non-terminated state"
            errors.append(FieldError.forbidden(f"status.containerStatuses[{position}].state", text))
    return errors


def _restarts(policy: str | None, name: str, exit_code: int, spec: Object) -> bool:
    container: Object = next((c for c in spec.get("containers") or () if c["name"] == name), {})
    if container.get("restartPolicyRules"):
        return True
    policy = container.get("restartPolicy") or policy
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def _prepare_ephemeral(new: Object, old: Object, ctx: WriteContext) -> None:
    containers = new["spec"].get("ephemeralContainers") or []
    new["spec"] = {**wire.copy(old["spec"]), "ephemeralContainers": containers}
    new["status"] = old["status"]
    if containers != (old["spec"].get("ephemeralContainers") or []):
        new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1


def _validate_ephemeral(new: Object, old: Object, ctx: WriteContext) -> Errors:
    spec = new["spec"]
    volumes = frozenset(volume["name"] for volume in spec.get("volumes") or ())
    around = Surroundings(volumes, pod_claims.claim_names(spec), spec.get("restartPolicy", ""))
    errors = validate_ephemeral_containers(spec, "spec", around)
    kept: dict[str, Any] = {container["name"]: container for container in spec["ephemeralContainers"]}
    for container in old["spec"].get("ephemeralContainers") or ():
        name = container["name"]
        if name not in kept:
            text = f'existing ephemeral containers "{name}" may not be removed\n'
            errors.append(FieldError.forbidden("spec.ephemeralContainers", text))
        elif kept[name] != container:
            text = f'existing ephemeral containers "{name}" may not be changed\n'
            errors.append(FieldError.forbidden("spec.ephemeralContainers", text))
    return errors


def _host_network(pod: Object) -> str:
    return "true" if (pod.get("spec") or {}).get("hostNetwork") else "false"


def _pod_ips(pod: Object) -> str:
    return str((pod.get("status") or {}).get("podIP") or "")


_CONNECT = ("create", "get")
POD = entry.kind(
    core_v1.Pod,
    "pods",
    Strategy(
        default={"": default_pod},
        prepare_for_create=_prepare_for_create,
        validate=_validate,
        prepare_for_update=_prepare_for_update,
        validate_update=_validate_update,
        warnings=_warnings,
        subresources={
            "status": Subresource(_prepare_status, _validate_status),
            "ephemeralcontainers": Subresource(_prepare_ephemeral, _validate_ephemeral),
        },
        validate_name=formats.name_is(formats.dns_subdomain),
        generation=True,
        reset=("status",),
    ),
    subresources={
        "attach": _CONNECT,
        "binding": ("create",),
        "ephemeralcontainers": entry.READ_WRITE,
        "eviction": ("create",),
        "exec": _CONNECT,
        "log": ("get",),
        "portforward": _CONNECT,
        "proxy": ("create", "delete", "get", "patch", "update"),
        "resize": entry.READ_WRITE,
        "status": entry.READ_WRITE,
    },
    short_names=("po",),
    categories=("all",),
    selectable={
        "spec.nodeName": text_at("spec", "nodeName"),
        "spec.restartPolicy": text_at("spec", "restartPolicy"),
        "spec.schedulerName": text_at("spec", "schedulerName"),
        "spec.serviceAccountName": text_at("spec", "serviceAccountName"),
        "spec.hostNetwork": _host_network,
        "status.phase": text_at("status", "phase"),
        "status.podIP": text_at("status", "podIP"),
        "status.podIPs": _pod_ips,
        "status.nominatedNodeName": text_at("status", "nominatedNodeName"),
    },
)
KINDS: tuple[Kind, ...] = (POD,)
