"""Small objects for scheduler tests: pods, nodes, claims, slices, classes; and a State filled with them."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from typing import Any

from lightkube.models.core_v1 import Node, Pod
from lightkube.models.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice
from lightkube.models.scheduling_v1beta1 import PodGroup

from drakit.api.typed import from_plain
from drakit.scheduler.claims import uid_of
from drakit.scheduler.decide import Placement, decide
from drakit.scheduler.outcome import Diagnosis
from drakit.scheduler.pods import PodInfo
from drakit.scheduler.state import Policy, State

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DRIVER = "gpu.example.com"
_uids = count(1)


def uid() -> str:
    return f"uid-{next(_uids)}"


def pod(
    name: str = "p", *, requests: dict[str, str] | None = None, claims: dict[str, str] | None = None, **more: Any
) -> Pod:
    """`claims`: entry name -> ResourceClaim name. Further keywords are fields of the spec, or `namespace`, `labels`, `status`."""
    meta = {
        "name": name,
        "namespace": more.pop("namespace", "ns"),
        "uid": more.pop("uid", f"pod-{name}"),
        "labels": more.pop("labels", {}),
        "generation": 1,
    }
    container: dict[str, Any] = {"name": "c", "image": "i"}
    if requests:
        container["resources"] = {"requests": requests}
    spec: dict[str, Any] = {"containers": more.pop("containers", [container])}
    if claims:
        spec["resourceClaims"] = [{"name": entry, "resourceClaimName": claim} for entry, claim in claims.items()]
    status = more.pop("status", {})
    return from_plain(Pod, {"metadata": meta, "spec": {**spec, **more}, "status": status})


def info(*args: Any, **kwargs: Any) -> PodInfo:
    return PodInfo(pod(*args, **kwargs))


def node(
    name: str = "n",
    *,
    labels: dict[str, str] | None = None,
    taints: list[dict[str, str]] | None = None,
    **allocatable: str,
) -> Node:
    offered = {
        "cpu": "4",
        "memory": "8Gi",
        "pods": "10",
        **{k.replace("__", "/").replace("_", "."): v for k, v in allocatable.items()},
    }
    return from_plain(
        Node,
        {
            "metadata": {
                "name": name,
                "uid": f"node-{name}",
                "labels": {"kubernetes.io/hostname": name, **(labels or {})},
            },
            "spec": {"taints": taints or []},
            "status": {"allocatable": offered, "capacity": offered},
        },
    )


def device_class(name: str = "gpu", *, resource: str = "") -> DeviceClass:
    spec: dict[str, Any] = {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}
    if resource:
        spec["extendedResourceName"] = resource
    return from_plain(DeviceClass, {"metadata": {"name": name}, "spec": spec})


def slice_(node_name: str, devices: int = 2, **device: Any) -> ResourceSlice:
    return from_plain(
        ResourceSlice,
        {
            "metadata": {"name": f"{node_name}-slice"},
            "spec": {
                "driver": DRIVER,
                "nodeName": node_name,
                "pool": {"name": node_name, "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": f"gpu-{index}", **device} for index in range(devices)],
            },
        },
    )


def claim(name: str = "claim", *, count: int = 1, class_name: str = "gpu", **more: Any) -> ResourceClaim:
    requests = more.pop("requests", None) or [
        {"name": "r", "exactly": {"deviceClassName": class_name, "allocationMode": "ExactCount", "count": count}}
    ]
    meta = {"name": name, "namespace": "ns", "uid": f"claim-{name}", "resourceVersion": "1", **more.pop("metadata", {})}
    return from_plain(ResourceClaim, {"metadata": meta, "spec": {"devices": {"requests": requests}}, **more})


def pod_group(name: str, *, priority: int = 0, mode: str = "single", **spec: Any) -> PodGroup:
    made = {"schedulingPolicy": {"basic": {}}, "priority": priority, "disruptionMode": {mode: {}}, **spec}
    return from_plain(PodGroup, {"metadata": {"name": name, "namespace": "ns", "uid": f"group-{name}"}, "spec": made})


def state(*objects: Any, policy: Policy | None = None) -> State:
    """A State with these objects: nodes, slices, classes, claims."""
    made = State(policy=policy or Policy())
    for obj in objects:
        match obj:
            case Node():
                made.set_node(obj)
            case ResourceSlice():
                made.set_slice(obj)
            case DeviceClass():
                made.set_class(obj)
            case ResourceClaim():
                made.claims.set(obj)
            case _:
                raise TypeError(type(obj))
    return made


def place(made: State, pod_info: PodInfo) -> Placement:
    """Decide, assume and reserve; fails the test when there is no node."""
    outcome, _ = decide(made, pod_info, NOW, uid)
    assert isinstance(outcome, Placement), outcome.message()
    made.place(pod_info, outcome.node)
    for each, result in outcome.allocations:
        made.claims.assume(each, result, pod_info.uid)
    for each in outcome.claims:
        made.claims.share(uid_of(each), pod_info.uid, made.consumer(pod_info, each)["uid"])
    return outcome


def refuse(made: State, pod_info: PodInfo) -> Diagnosis:
    outcome, _ = decide(made, pod_info, NOW, uid)
    assert isinstance(outcome, Diagnosis), outcome
    return outcome
