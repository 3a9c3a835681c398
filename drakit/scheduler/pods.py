"""What the scheduler needs to know of a pod, computed once: its requests as integers, its ports, its claims, its shape.

Pods of one *shape* (same node selector, affinity, tolerations, requests, ports) get the same answers from the same nodes,
so filters are run once per shape and node, not once per pod. Integers: milli-units for CPU, whole units for the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import msgspec
from lightkube.models.core_v1 import Container, Pod, ResourceRequirements

from drakit.api.quantity import Quantity

CPU = "cpu"
MEMORY = "memory"
# What the resource scores assume for a container that asks for nothing (pkg/scheduler/util/pod_resources.go).
DEFAULT_MILLI_CPU = 100
DEFAULT_MEMORY = 200 * 1024 * 1024
DEFAULT_SCHEDULER = "default-scheduler"

Port = tuple[str, str, int]  # hostIP, protocol, hostPort


@lru_cache(maxsize=65536)
def amount(resource: str, quantity: str) -> int:
    parsed = Quantity.parse(quantity)
    return parsed.milli_value() if resource == CPU else parsed.value()


def amounts(resources: dict[str, str] | None) -> dict[str, int]:
    return {name: amount(name, str(quantity)) for name, quantity in resources.items()} if resources else {}


class PodInfo:
    """One pod as the filters see it. Never mutated after construction; a changed pod gets a new one."""

    __slots__ = (
        "claims", "group", "key", "labels", "name", "namespace", "nonzero", "pod", "ports", "priority", "requests",
        "shape", "solitary", "static_shape", "tolerations", "uid",
    )  # fmt: skip

    def __init__(self, pod: Pod) -> None:
        spec, meta = pod.spec, pod.metadata
        assert spec is not None
        assert meta is not None
        self.pod = pod
        self.uid: str = meta.uid or ""
        self.name: str = meta.name or ""
        self.namespace: str = meta.namespace or ""
        self.key = f"{self.namespace}/{self.name}"
        self.labels: dict[str, str] = meta.labels or {}
        self.priority: int = spec.priority or 0
        self.tolerations = tuple(spec.tolerations or ())
        self.requests = pod_requests(pod)
        self.nonzero = nonzero_requests(pod, self.requests)
        self.ports = host_ports(pod)
        self.claims = tuple(spec.resourceClaims or ())
        group = spec.schedulingGroup
        self.group: str | None = f"{self.namespace}/{group.podGroupName}" if group and group.podGroupName else None
        affinity = spec.affinity
        self.static_shape = (
            spec.nodeName or "",
            tuple(sorted(spec.nodeSelector.items())) if spec.nodeSelector else (),
            msgspec.json.encode(affinity.nodeAffinity) if affinity and affinity.nodeAffinity else b"",
            msgspec.json.encode(spec.tolerations) if spec.tolerations else b"",
        )
        self.shape = (self.static_shape, tuple(sorted(self.requests.items())), self.ports)
        # Placement depends on other pods' labels: such a pod shares no results with its like.
        self.solitary = bool(
            spec.topologySpreadConstraints or (affinity and (affinity.podAffinity or affinity.podAntiAffinity))
        )

    def with_version(self, pod: Pod) -> PodInfo:
        """The same pod after a change of status only."""
        other = object.__new__(PodInfo)
        for name in PodInfo.__slots__:
            setattr(other, name, getattr(self, name))
        other.pod = pod
        return other

    def told(self, namespace: str) -> str:
        """What readers of that namespace may know of the pod."""
        return f"pod {self.key}" if self.namespace == namespace else "a pod of another namespace"

    @property
    def node_name(self) -> str:
        return (self.pod.spec.nodeName if self.pod.spec else None) or ""

    @property
    def nominated_node(self) -> str:
        return (self.pod.status.nominatedNodeName if self.pod.status else None) or ""

    @property
    def scheduler_name(self) -> str:
        return (self.pod.spec.schedulerName if self.pod.spec else None) or DEFAULT_SCHEDULER


def is_finished(pod: Pod) -> bool:
    return pod.status is not None and pod.status.phase in ("Succeeded", "Failed")


def is_deleting(pod: Pod) -> bool:
    return pod.metadata is not None and pod.metadata.deletionTimestamp is not None


def is_sidecar(container: Container) -> bool:
    return container.restartPolicy == "Always"


def container_requests(resources: ResourceRequirements | None) -> dict[str, int]:
    return amounts(resources.requests) if resources else {}


def pod_requests(pod: Pod) -> dict[str, int]:
    """What the pod takes from a node: containers and sidecars together, or the peak of the init phase; or pod-level requests."""
    spec = pod.spec
    assert spec is not None
    total = _combine(
        [container_requests(c.resources) for c in spec.containers],
        [(is_sidecar(c), container_requests(c.resources)) for c in spec.initContainers or ()],
    )
    if spec.resources and spec.resources.requests:
        total.update(amounts(spec.resources.requests))
    for name, value in amounts(spec.overhead).items():
        total[name] = total.get(name, 0) + value
    return {name: value for name, value in total.items() if value}


def nonzero_requests(pod: Pod, requests: dict[str, int]) -> tuple[int, int]:
    """CPU and memory as the scores count them: a container without a request is not taken for weightless."""
    spec = pod.spec
    assert spec is not None
    if CPU in requests and MEMORY in requests and len(spec.containers) == 1 and not spec.initContainers:
        return requests[CPU], requests[MEMORY]
    if not requests and not spec.initContainers:
        return DEFAULT_MILLI_CPU * len(spec.containers), DEFAULT_MEMORY * len(spec.containers)
    total = _combine(
        [_nonzero(c.resources) for c in spec.containers],
        [(is_sidecar(c), _nonzero(c.resources)) for c in spec.initContainers or ()],
    )
    if spec.resources and spec.resources.requests:
        total.update(amounts(spec.resources.requests))
    overhead = amounts(spec.overhead)
    return total.get(CPU, 0) + overhead.get(CPU, 0), total.get(MEMORY, 0) + overhead.get(MEMORY, 0)


def _nonzero(resources: ResourceRequirements | None) -> dict[str, int]:
    return {CPU: DEFAULT_MILLI_CPU, MEMORY: DEFAULT_MEMORY} | container_requests(resources)


def _combine(containers: Iterable[dict[str, int]], inits: Iterable[tuple[bool, dict[str, int]]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for requests in containers:
        for name, value in requests.items():
            total[name] = total.get(name, 0) + value
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for sidecar, requests in inits:
        if sidecar:  # runs on beside all that follows
            for name, value in requests.items():
                sidecars[name] = sidecars.get(name, 0) + value
        for name in requests.keys() | sidecars.keys():
            here = sidecars.get(name, 0) + (0 if sidecar else requests.get(name, 0))
            peak[name] = max(peak.get(name, 0), here)
    for name, value in sidecars.items():
        total[name] = total.get(name, 0) + value
    for name, value in peak.items():
        total[name] = max(total.get(name, 0), value)
    return total


def host_ports(pod: Pod) -> tuple[Port, ...]:
    spec = pod.spec
    assert spec is not None
    found = []
    for container in (*(spec.initContainers or ()), *spec.containers):
        if container.ports and (container in spec.containers or is_sidecar(container)):
            for port in container.ports:
                if port.hostPort:
                    found.append((port.hostIP or "0.0.0.0", port.protocol or "TCP", port.hostPort))  # noqa: S104 the API's word for "any address"
    return tuple(found)


def ports_conflict(one: Port, other: Port) -> bool:
    wildcard = "0.0.0.0"  # noqa: S104 as above
    return one[1:] == other[1:] and (one[0] == other[0] or wildcard in (one[0], other[0]))
