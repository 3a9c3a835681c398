"""What `kubectl get` prints: the columns of each kind and the cells of each object (Kubernetes' printers).

Columns are data: `Name`, `Ready:integer`, `IP+` (wide only), each with its description; `@module.Type.field` stands for
the API's own doc of that field. Rows are made in `table_rows`. Kinds without an entry get name and creation time.
"""

from __future__ import annotations

import functools
from datetime import datetime
from typing import Any

from drakit.api import schema
from drakit.api.kind import Kind
from drakit.apiserver import table_rows

__all__ = ["columns", "conditions", "row"]

_NAME = ("Name", "@meta_v1.ObjectMeta.name")
_AGE = ("Age", "@meta_v1.ObjectMeta.creationTimestamp")
_CONTAINERS = (
    ("Containers+", "Names of each container in the template."),
    ("Images+", "Images referenced by each container in the template."),
)
_BINDING_SUBJECTS = ("Users", "Groups", "ServiceAccounts")

_Columns = tuple[tuple[str, str], ...]


def _selector(spec: str) -> tuple[str, str]:
    return ("Selector+", f"@{spec}.selector")


def _role_binding(kind: str, word: str) -> _Columns:
    subjects = tuple((f"{who}+", f"{who} in the {word}") for who in _BINDING_SUBJECTS)
    return (_NAME, ("Role", f"@rbac_v1.{kind}.roleRef"), _AGE, *subjects)


_COLUMNS: dict[tuple[str, str], _Columns] = {
    ("", "Pod"): (
        _NAME,
        ("Ready", "The aggregate readiness state of this pod for accepting traffic."),
        ("Status", "The aggregate status of the containers in this pod."),
        (
            "Restarts",
            "The number of times the containers in this pod have been restarted and when the last container in this pod "
            "has restarted.",
        ),
        _AGE,
        ("IP+", "@core_v1.PodStatus.podIP"),
        ("Node+", "@core_v1.PodSpec.nodeName"),
        ("Nominated Node+", "@core_v1.PodStatus.nominatedNodeName"),
        ("Readiness Gates+", "@core_v1.PodSpec.readinessGates"),
    ),
    ("", "Node"): (
        _NAME,
        ("Status", "The status of the node"),
        ("Roles", "The roles of the node"),
        _AGE,
        ("Version", "@core_v1.NodeSystemInfo.kubeletVersion"),
        ("Internal-IP+", "@core_v1.NodeStatus.addresses"),
        ("External-IP+", "@core_v1.NodeStatus.addresses"),
        ("OS-Image+", "@core_v1.NodeSystemInfo.osImage"),
        ("Kernel-Version+", "@core_v1.NodeSystemInfo.kernelVersion"),
        ("Container-Runtime+", "@core_v1.NodeSystemInfo.containerRuntimeVersion"),
    ),
    ("", "Event"): (
        ("Last Seen", "@core_v1.Event.lastTimestamp"),
        ("Type", "@core_v1.Event.type"),
        ("Reason", "@core_v1.Event.reason"),
        ("Object", "@core_v1.Event.involvedObject"),
        ("Subobject+", "@core_v1.ObjectReference.fieldPath"),
        ("Source+", "@core_v1.Event.source"),
        ("Message", "@core_v1.Event.message"),
        ("First Seen+", "@core_v1.Event.firstTimestamp"),
        ("Count+", "@core_v1.Event.count"),
        ("Name+", "@meta_v1.ObjectMeta.name"),
    ),
    ("", "Namespace"): (_NAME, ("Status", "The status of the namespace"), _AGE),
    ("", "ConfigMap"): (_NAME, ("Data", "@core_v1.ConfigMap.data"), _AGE),
    ("", "Secret"): (_NAME, ("Type", "@core_v1.Secret.type"), ("Data", "@core_v1.Secret.data"), _AGE),
    ("", "ServiceAccount"): (_NAME, _AGE),
    ("", "Service"): (
        _NAME,
        ("Type", "@core_v1.ServiceSpec.type"),
        ("Cluster-IP", "@core_v1.ServiceSpec.clusterIP"),
        ("External-IP", "@core_v1.ServiceSpec.externalIPs"),
        ("Port(s)", "@core_v1.ServiceSpec.ports"),
        _AGE,
        _selector("core_v1.ServiceSpec"),
    ),
    ("", "Endpoints"): (_NAME, ("Endpoints", "@core_v1.Endpoints.subsets"), _AGE),
    ("", "ResourceQuota"): (
        _NAME,
        ("Request", "Request represents a minimum amount of cpu/memory that a container may consume."),
        (
            "Limit",
            "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the "
            "node.",
        ),
        _AGE,
    ),
    ("apps", "Deployment"): (
        _NAME,
        ("Ready", "Number of the pod with ready state"),
        ("Up-to-date", "@apps_v1.DeploymentStatus.updatedReplicas"),
        ("Available", "@apps_v1.DeploymentStatus.availableReplicas"),
        _AGE,
        *_CONTAINERS,
        _selector("apps_v1.DeploymentSpec"),
    ),
    ("apps", "ReplicaSet"): (
        _NAME,
        ("Desired:integer", "@apps_v1.ReplicaSetSpec.replicas"),
        ("Current:integer", "@apps_v1.ReplicaSetStatus.replicas"),
        ("Ready:integer", "@apps_v1.ReplicaSetStatus.readyReplicas"),
        _AGE,
        *_CONTAINERS,
        _selector("apps_v1.ReplicaSetSpec"),
    ),
    ("apps", "DaemonSet"): (
        _NAME,
        ("Desired:integer", "@apps_v1.DaemonSetStatus.desiredNumberScheduled"),
        ("Current:integer", "@apps_v1.DaemonSetStatus.currentNumberScheduled"),
        ("Ready:integer", "@apps_v1.DaemonSetStatus.numberReady"),
        ("Up-to-date:integer", "@apps_v1.DaemonSetStatus.updatedNumberScheduled"),
        ("Available:integer", "@apps_v1.DaemonSetStatus.numberAvailable"),
        ("Node Selector", "@core_v1.PodSpec.nodeSelector"),
        _AGE,
        *_CONTAINERS,
        _selector("apps_v1.DaemonSetSpec"),
    ),
    ("apps", "StatefulSet"): (_NAME, ("Ready", "Number of the pod with ready state"), _AGE, *_CONTAINERS),
    ("apps", "ControllerRevision"): (
        _NAME,
        ("Controller", "Controller of the object"),
        ("Revision", "@apps_v1.ControllerRevision.revision"),
        _AGE,
    ),
    ("batch", "Job"): (
        _NAME,
        ("Status", "Status of the job."),
        ("Completions", "@batch_v1.JobStatus.succeeded"),
        ("Duration", "Time required to complete the job."),
        _AGE,
        *_CONTAINERS,
        _selector("batch_v1.JobSpec"),
    ),
    ("policy", "PodDisruptionBudget"): (
        _NAME,
        ("Min Available", "The minimum number of pods that must be available."),
        ("Max Unavailable", "The maximum number of pods that may be unavailable."),
        ("Allowed Disruptions:integer", "Calculated number of pods that may be disrupted at this time."),
        _AGE,
    ),
    ("coordination.k8s.io", "Lease"): (_NAME, ("Holder", "@coordination_v1.LeaseSpec.holderIdentity"), _AGE),
    ("rbac.authorization.k8s.io", "RoleBinding"): _role_binding("RoleBinding", "roleBinding"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _role_binding("ClusterRoleBinding", "clusterRoleBinding"),
    ("scheduling.k8s.io", "PriorityClass"): (
        _NAME,
        ("Value:integer", "@scheduling_v1.PriorityClass.value"),
        ("Global-Default:boolean", "@scheduling_v1.PriorityClass.globalDefault"),
        _AGE,
        ("PreemptionPolicy", "@scheduling_v1.PriorityClass.preemptionPolicy"),
    ),
    ("scheduling.k8s.io", "Workload"): (_NAME, _AGE),
    ("scheduling.k8s.io", "PodGroup"): (
        _NAME,
        ("Policy", "@scheduling_v1beta1.PodGroupSpec.schedulingPolicy"),
        ("Workload", "Name of the referenced Workload object"),
        ("Status", "Status of the PodGroup"),
        _AGE,
    ),
    ("scheduling.k8s.io", "CompositePodGroup"): (
        _NAME,
        ("Policy", "@scheduling_v1alpha3.CompositePodGroupSpec.schedulingPolicy"),
        ("Workload", "Name of the referenced Workload object"),
        _AGE,
    ),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): (
        _NAME,
        (
            "Validations:integer",
            "Validations indicates the number of validation rules defined in this configuration",
        ),
        ("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy"),
        _AGE,
    ),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): (
        _NAME,
        ("PolicyName", "PolicyName indicates the policy definition which the policy binding binded to"),
        ("ParamRef", "ParamRef indicates the param resource which sets the configuration param"),
        _AGE,
    ),
    ("autoscaling", "Scale"): (
        _NAME,
        ("Desired:integer", "@autoscaling_v1.ScaleSpec.replicas"),
        ("Available:integer", "@autoscaling_v1.ScaleStatus.replicas"),
        _AGE,
    ),
    ("resource.k8s.io", "DeviceClass"): (_NAME, _AGE),
    ("resource.k8s.io", "ResourceClaim"): (
        _NAME,
        ("State", "A summary of the current state (allocated, pending, reserved, etc.)."),
        _AGE,
    ),
    ("resource.k8s.io", "ResourceClaimTemplate"): (_NAME, _AGE),
    ("resource.k8s.io", "ResourceSlice"): (
        _NAME,
        ("Node", "@resource_v1.ResourceSliceSpec.nodeName"),
        ("Driver", "@resource_v1.ResourceSliceSpec.driver"),
        ("Pool", "@resource_v1.ResourcePool.name"),
        _AGE,
    ),
    ("resource.k8s.io", "DeviceTaintRule"): (
        _NAME,
        ("Key", "@resource_v1.DeviceTaint.key"),
        ("Value", "@resource_v1.DeviceTaint.value"),
        ("Effect", "@resource_v1.DeviceTaint.effect"),
        ("TimeAdded", "@resource_v1.DeviceTaint.timeAdded"),
        _AGE,
    ),
    ("resource.k8s.io", "ResourcePoolStatusRequest"): (
        _NAME,
        ("Driver", "The driver to query pools for."),
        ("Total", "Total number of devices across all pools."),
        ("Available", "Number of available devices across all pools."),
        ("Allocated", "Number of allocated devices across all pools."),
        ("Unavailable", "Number of unavailable devices across all pools."),
        ("Errors", "Number of pools with validation errors."),
        ("Pools:integer", "Total number of matching pools."),
        ("Status", "Processing status."),
        ("Completed", "Time since the observation completed."),
    ),
}
_COLUMNS["events.k8s.io", "Event"] = _COLUMNS["", "Event"]
_AGE_AT = {key: columns.index(_AGE) for key, columns in _COLUMNS.items() if _AGE in columns}
_DEFAULT: _Columns = (_NAME, ("Created At:date", "@meta_v1.ObjectMeta.creationTimestamp"))


@functools.cache
def columns(kind: Kind) -> list[dict[str, Any]]:
    """The columnDefinitions of a Table of this kind. Shared: do not change it."""
    definitions = []
    for heading, text in _COLUMNS.get((kind.group, kind.kind), _DEFAULT):
        name, _, column_type = heading.rstrip("+").partition(":")
        definitions.append(
            {
                "name": name,
                "type": column_type or "string",
                "format": "name" if name == "Name" and kind.kind != "Scale" else "",
                "description": _description(text),
                "priority": 1 if heading.endswith("+") else 0,
            }
        )
    return definitions


def has_columns(kind: Kind) -> bool:
    """Whether the kind has columns of its own."""
    return (kind.group, kind.kind) in _COLUMNS


def row(kind: Kind, obj: dict[str, Any], now: datetime) -> list[Any]:
    """The cells of one object, wide ones included."""
    key, metadata = (kind.group, kind.kind), obj.get("metadata", {})
    columns = _COLUMNS.get(key)
    if columns is None:
        return [metadata.get("name", ""), metadata.get("creationTimestamp")]
    printer = table_rows.PRINTERS.get(key)
    cells = [] if printer is None else printer(obj, now)
    if columns[0] is _NAME:
        cells.insert(0, metadata.get("name", ""))
    if (position := _AGE_AT.get(key)) is not None:
        cells.insert(position, table_rows.age(metadata.get("creationTimestamp"), now))
    return cells


def conditions(kind: Kind, obj: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """The conditions of a row: kubectl used to hide finished pods by them."""
    if kind.kind == "Pod" and not kind.group:
        return table_rows.pod_conditions(obj)
    return ()


def _description(text: str) -> str:
    if not text.startswith("@"):
        return text
    model, _, field = text[1:].rpartition(".")
    return schema.docs(model)[1][field]
