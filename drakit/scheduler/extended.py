"""Extended resources that a DeviceClass provides (`extendedResourceName`, or the implicit name): the claim made for a pod.

A pod that asks for `example.com/gpu: 2` gets a claim of its own with one request per container and resource. Which resources
are allocated that way depends on the node: one that still counts the resource itself (a device plugin) keeps doing so.
Upstream: plugins/dynamicresources/extendeddynamicresources.go, whose names for requests and order of mappings are matched.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lightkube.models.core_v1 import Container, Pod
from lightkube.models.resource_v1 import DeviceClass

from drakit.api.kinds.checks import is_extended_resource
from drakit.scheduler.pods import amount, is_sidecar

IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
CLAIM_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
IN_MEMORY_NAME = "<extended-resources>"  # not a valid name: cannot clash with a stored claim

Mapped = dict[str, str]  # containerName, resourceName, requestName
Request = dict[str, Any]  # plain DeviceRequest


class ClassesByResource:
    """Resource name -> the class that provides it; of several the newest, then the first by name."""

    def __init__(self) -> None:
        self._classes: dict[str, DeviceClass] = {}
        self._explicit: dict[str, dict[str, DeviceClass]] = {}

    def set(self, device_class: DeviceClass) -> None:
        assert device_class.metadata is not None
        assert device_class.metadata.name
        name = device_class.metadata.name
        self.remove(name)
        self._classes[name] = device_class
        if resource := _resource(device_class):
            self._explicit.setdefault(resource, {})[name] = device_class

    def remove(self, name: str) -> None:
        known = self._classes.pop(name, None)
        if known is not None and (resource := _resource(known)):
            members = self._explicit[resource]
            members.pop(name, None)
            if not members:
                del self._explicit[resource]

    def class_name(self, resource: str) -> str | None:
        if resource.startswith(IMPLICIT_PREFIX):
            name = resource.removeprefix(IMPLICIT_PREFIX)
            return name if name in self._classes else None
        members = self._explicit.get(resource)
        if not members:
            return None
        if len(members) == 1:
            return next(iter(members))
        return min(members, key=lambda name: (_newest_first(members[name]), name))

    def provided(self, resources: Collection[str]) -> frozenset[str]:
        """Those of the resources that some class provides."""
        return frozenset(name for name in resources if "/" in name and self.class_name(name) is not None)


def _resource(device_class: DeviceClass) -> str:
    return (device_class.spec.extendedResourceName if device_class.spec else None) or ""


def _newest_first(device_class: DeviceClass) -> float:
    stamp: Any = device_class.metadata.creationTimestamp if device_class.metadata else None
    return -stamp.timestamp() if stamp is not None and hasattr(stamp, "timestamp") else 0.0


def is_extended(resource: str) -> bool:
    """An extended resource, or a class under its implicit name, which lies in Kubernetes' own domain (IsDRAExtendedResourceName)."""
    return resource.startswith(IMPLICIT_PREFIX) or is_extended_resource(resource)


def claim_for(pod: Pod, uid: str, requests: Sequence[Request]) -> dict[str, Any]:
    """The plain claim of the pod as it exists in memory until it is written."""
    assert pod.metadata is not None
    meta = pod.metadata
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": IN_MEMORY_NAME,
            "namespace": meta.namespace,
            "uid": uid,
            "generateName": f"{meta.name}-extended-resources-",
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid, "controller": True}
            ],
            "annotations": {CLAIM_ANNOTATION: "true"},
        },
        "spec": {"devices": {"requests": list(requests)}},
    }


def requests_and_mappings(pod: Pod, classes: Mapping[str, str]) -> tuple[list[Request], list[Mapped]]:
    """Device requests for the resources in `classes` (resource name -> class name), and which container uses which."""
    spec = pod.spec
    assert spec is not None
    inits = list(spec.initContainers or ())
    containers = [*inits, *spec.containers]
    requests: list[Request] = []
    mappings: list[Mapped] = []
    for resource in sorted(classes):
        found, mapped = _for_resource(containers, len(inits), resource, classes[resource])
        requests += found
        mappings += mapped
    return sorted(requests, key=lambda r: r["name"]), mappings


def asked(pod: Pod) -> tuple[object, ...]:
    """Equal for pods whose containers have the same names and requests."""
    assert pod.spec is not None
    return tuple(
        (container.name, *sorted((container.resources.requests or {}).items() if container.resources else ()))
        for container in (*(pod.spec.initContainers or ()), *pod.spec.containers)
    )


def in_the_users_words(text: str, namespace: str, mappings: Sequence[Mapped]) -> str:
    """A reason of the allocator, told of what stands in the pod: containers and resources instead of a claim nobody wrote."""
    claim = f"claim {namespace}/{IN_MEMORY_NAME}"
    for mapping in reversed(mappings):  # a request that several share is told of the first
        request = f"request {mapping['requestName']}"
        asked = f"{mapping['resourceName']} of container {mapping['containerName']}"
        text = text.replace(f"{claim}, {request}", asked).replace(f"the count of {request} of {claim}", asked)
        text = text.replace(f"{request} of {claim}", asked)
    return text.replace(claim, "the pod's extended resources")


@dataclass(slots=True)
class _Share:
    request: Request | None
    mappings: list[Mapped]


def _for_resource(
    containers: Sequence[Container], inits: int, resource: str, class_name: str
) -> tuple[list[Request], list[Mapped]]:
    short = [i for i in range(inits) if not is_sidecar(containers[i])]
    long_lived: list[Request | None] = [None] * len(containers)
    long_mappings: list[Mapped] = []
    for index, container in enumerate(containers):
        if index not in short:
            share = _share(index, container, resource, class_name, ())
            long_lived[index] = share.request
            long_mappings += share.mappings
    # Init containers end before later containers start, so they use those containers' devices first; what they need
    # beyond that they need one after the other, so the largest remainder serves them all.
    largest: Request | None = None
    own_names: set[str] = set()
    short_mappings: list[Mapped] = []
    for index in short:
        share = _share(index, containers[index], resource, class_name, long_lived[index:])
        if share.request is not None:
            own_names.add(share.request["name"])
            if largest is None or largest["exactly"]["count"] < share.request["exactly"]["count"]:
                largest = share.request
        short_mappings += share.mappings
    if largest is not None:
        for mapping in short_mappings:
            if mapping["requestName"] in own_names:
                mapping["requestName"] = largest["name"]
    requests = ([largest] if largest is not None else []) + [r for r in long_lived if r is not None]
    return requests, long_mappings + short_mappings


def _share(
    index: int, container: Container, resource: str, class_name: str, reusable: Sequence[Request | None]
) -> _Share:
    asked = (container.resources.requests if container.resources else None) or {}
    wanted = amount(resource, str(asked[resource])) if resource in asked else 0
    if not wanted:
        return _Share(None, [])
    mappings, covered = [], 0
    for request in reusable:
        if request is not None:
            covered += request["exactly"]["count"]
            mappings.append(_mapping(container, resource, request["name"]))
            if covered >= wanted:
                return _Share(None, mappings)
    name = f"container-{index}-request-{sorted(asked).index(resource)}"
    exactly = {"deviceClassName": class_name, "allocationMode": "ExactCount", "count": wanted - covered}
    mappings.append(_mapping(container, resource, name))
    return _Share({"name": name, "exactly": exactly}, mappings)


def _mapping(container: Container, resource: str, request: str) -> Mapped:
    return {"containerName": container.name, "resourceName": resource, "requestName": request}
