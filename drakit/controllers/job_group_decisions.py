"""What a Job's pods are scheduled as: the Workload that its spec means, the PodGroup made from it, and their names
(pkg/controller/job/job_scheduling_manager.go, component-helpers' workloadbuilder)."""

from __future__ import annotations

from drakit.controllers.objects import (
    Plain,
    condition,
    controller_of,
    controller_reference,
    name,
    namespace,
    spec,
    status,
    uid,
)
from drakit.controllers.rollout import fnv32, safe_encode

__all__ = [
    "NONE",
    "ONLY_GROUP",
    "WHOLE",
    "gang_count",
    "mode",
    "never_started",
    "new_pod_group",
    "new_workload",
    "parent_reference",
    "reference_key",
    "template_of",
    "with_gang_count",
]

TEMPLATE_ANNOTATION = "scheduling.k8s.io/group-template-name"
NONE, WHOLE, ONLY_GROUP = "none", "workload and group", "group only"
_MAX_NAME = 253


def mode(job: Plain) -> str:
    """Which objects are the Job's own: a parent may keep the Workload, or everything, to itself."""
    if (spec(job)["template"].get("spec") or {}).get("schedulingGroup") is not None:
        return NONE
    if controller_of(job) is None:
        return WHOLE
    return ONLY_GROUP if TEMPLATE_ANNOTATION in (job["metadata"].get("annotations") or {}) else NONE


def never_started(job: Plain) -> bool:
    """Only such a Job gets objects made; one that has begun without (the gate was off) goes on without."""
    known = status(job)
    begun = known.get("startTime") or known.get("succeeded") or known.get("failed")
    return not begun and condition(job, "Suspended") is None


# References: Workloads name what they belong to without UIDs.


def reference_key(workload_namespace: str, group: str, kind: str, called: str) -> str:
    return f"{workload_namespace}/{group}/{kind}/{called}"


def parent_reference(job: Plain) -> str:
    """The reference that a Workload of the Job's parent would have; "" when the Job has no parent."""
    parent = controller_of(job)
    if parent is None:
        return ""
    return reference_key(namespace(job), parent["apiVersion"].rpartition("/")[0], parent["kind"], parent["name"])


# The objects.


def new_workload(job: Plain) -> Plain:
    owner = controller_reference(job)
    metadata = {"name": _workload_name(job), "namespace": namespace(job), "ownerReferences": [owner]}
    reference = {"apiGroup": "batch", "kind": "Job", "name": name(job)}
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": metadata,
        "spec": {"controllerRef": reference, "podGroupTemplates": [_template(job)]},
    }


def _template(job: Plain) -> Plain:
    scheduling = spec(job).get("scheduling") or {}
    template: Plain = {"name": f"{name(job)}-pgt-0", "schedulingPolicy": _policy(job)}
    topology = (scheduling.get("schedulingConstraints") or {}).get("topology")
    if topology:
        template["schedulingConstraints"] = {"topology": topology}
    disruption = scheduling.get("disruptionMode") or {}
    for choice in ("single", "all"):
        if disruption.get(choice) is not None:
            template["disruptionMode"] = {choice: {}}
            break
    if scheduling.get("resourceClaims"):
        template["resourceClaims"] = scheduling["resourceClaims"]
    priority_class = spec(job)["template"]["spec"].get("priorityClassName")
    if priority_class:
        template["priorityClassName"] = priority_class
    return template


def _policy(job: Plain) -> Plain:
    count = gang_count(job)
    return {"basic": {}} if count is None else {"gang": {"minCount": count}}


def gang_count(job: Plain) -> int | None:
    """How many pods must fit at once; None for a Job whose pods are scheduled one by one."""
    policy = (spec(job).get("scheduling") or {}).get("schedulingPolicy") or {}
    if policy.get("basic") is not None or policy.get("gang") is None:
        return None
    parallelism = spec(job).get("parallelism")
    given = policy["gang"].get("minCount")
    return int(given) if given is not None else max(1, 1 if parallelism is None else int(parallelism))


def new_pod_group(job: Plain, workload: Plain, template: Plain, *, owned: bool) -> Plain:
    """`owned`: the Workload is the Job's too, and the group goes with either."""
    owners = [controller_reference(job)]
    if owned:
        reference = {"apiVersion": workload["apiVersion"], "kind": "Workload", "name": name(workload)}
        owners.append({**reference, "uid": uid(workload)})
    copied = {
        field: template[field]
        for field in (
            "schedulingPolicy",
            "schedulingConstraints",
            "disruptionMode",
            "priorityClassName",
            "resourceClaims",
            "priority",
        )
        if template.get(field) is not None
    }
    reference = {"workloadName": name(workload), "templateName": template["name"]}
    metadata = {
        "name": _group_name(name(workload), template["name"]),
        "namespace": namespace(workload),
        "ownerReferences": owners,
    }
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": {"workloadRef": reference, **copied},
    }


def template_of(job: Plain, workload: Plain) -> Plain | None:
    """The template that the parent chose for the Job."""
    wanted = job["metadata"]["annotations"][TEMPLATE_ANNOTATION]
    templates: list[Plain] = spec(workload).get("podGroupTemplates") or []
    return next((each for each in templates if not wanted or each["name"] == wanted), None)


def with_gang_count(policy: Plain, count: int) -> Plain | None:
    """A gang's policy with another count; None where there is nothing to change."""
    gang = policy.get("gang")
    return None if gang is None or gang.get("minCount") == count else {"gang": {"minCount": count}}


# Names: the same as Kubernetes gives, so that each controller finds what the other made.


def _hash(text: str) -> str:
    return safe_encode(str(fnv32(text.encode())))


def _workload_name(job: Plain) -> str:
    digest = _hash(f"(types.UID){uid(job)}")  # as Go's deep hash prints a UID
    return f"{name(job)[: _MAX_NAME - len(digest) - 1]}-{digest}"


def _group_name(workload: str, template: str) -> str:
    digest = _hash(workload + template)
    room = _MAX_NAME - len(digest) - 2
    half = room // 2
    if len(workload) + len(template) > room:
        if len(workload) <= half:
            template = template[: room - len(workload)]
        elif len(template) <= half:
            workload = workload[: room - len(template)]
        else:
            workload, template = workload[: room - half], template[:half]
    return f"{workload}-{template}-{digest}"
