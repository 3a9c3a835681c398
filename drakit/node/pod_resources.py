"""The pod resources gRPC API (`v1.PodResourcesLister`): which pod uses which devices; what monitoring agents read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import grpc
from lightkube.models.core_v1 import Container, Pod

from drakit.driver import wire
from drakit.driver.files import remove
from drakit.node.claims import Claims
from drakit.node.metrics import NodeMetrics
from drakit.node.pod_status import is_sidecar

__all__ = ["POD_RESOURCES", "PodResources"]

POD_RESOURCES = wire.build(
    "v1",
    {
        "AllocatableResourcesRequest": "",
        "AllocatableResourcesResponse": "devices:1:[]ContainerDevices cpu_ids:2:[]int64 memory:3:[]ContainerMemory",
        "ListPodResourcesRequest": "",
        "ListPodResourcesResponse": "pod_resources:1:[]PodResources",
        "GetPodResourcesRequest": "pod_name:1 pod_namespace:2",
        "GetPodResourcesResponse": "pod_resources:1:PodResources",
        "PodResources": "name:1 namespace:2 containers:3:[]ContainerResources cpu_ids:4:[]int64 memory:5:[]ContainerMemory",
        "ContainerResources": "name:1 devices:2:[]ContainerDevices cpu_ids:3:[]int64 memory:4:[]ContainerMemory "
        "dynamic_resources:5:[]DynamicResource",
        "ContainerMemory": "memory_type:1 size:2:uint64 topology:3:TopologyInfo",
        "ContainerDevices": "resource_name:1 device_ids:2:[]string topology:3:TopologyInfo",
        "TopologyInfo": "nodes:1:[]NUMANode",
        "NUMANode": "ID:1:int64",
        "DynamicResource": "claim_name:2 claim_namespace:3 claim_resources:4:[]ClaimResource",
        "ClaimResource": "cdi_devices:1:[]CDIDevice driver_name:2 pool_name:3 device_name:4 share_id:5:?string",
        "CDIDevice": "name:1",
    },
    services={
        "PodResourcesLister": {
            "List": "ListPodResourcesRequest ListPodResourcesResponse",
            "GetAllocatableResources": "AllocatableResourcesRequest AllocatableResourcesResponse",
            "Get": "GetPodResourcesRequest GetPodResourcesResponse",
        }
    },
)


class PodResources:
    def __init__(
        self, directory: Path, pods: Callable[[], Iterable[Pod]], claims: Claims, metrics: NodeMetrics
    ) -> None:
        self._path = directory / "pod-resources" / "kubelet.sock"
        self._pods = pods
        self._claims = claims
        self._metrics = metrics
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        self._path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        remove(self._path)
        self._server = grpc.aio.server()
        service = POD_RESOURCES.services["PodResourcesLister"]
        handler = service.handler({"List": self._list, "Get": self._get, "GetAllocatableResources": self._allocatable})
        self._server.add_generic_rpc_handlers((handler,))
        self._server.add_insecure_port(f"unix:{self._path}")
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(0)
            remove(self._path)

    async def _list(self, _request: Any, _context: Any) -> Any:
        self._count("list")
        response = POD_RESOURCES.ListPodResourcesResponse()
        for pod in self._pods():
            self._fill(response.pod_resources.add(), pod)
        return response

    async def _get(self, request: Any, context: Any) -> Any:
        self._count("get")
        for pod in self._pods():
            assert pod.metadata is not None
            if pod.metadata.name == request.pod_name and pod.metadata.namespace == request.pod_namespace:
                response = POD_RESOURCES.GetPodResourcesResponse()
                self._fill(response.pod_resources, pod)
                return response
        text = f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
        return await context.abort(grpc.StatusCode.UNKNOWN, text)  # raises

    async def _allocatable(self, _request: Any, _context: Any) -> Any:
        self._count("get_allocatable")
        return (
            POD_RESOURCES.AllocatableResourcesResponse()
        )  # device plugins, pinned CPUs and memory: none on this agent

    def _count(self, method: str) -> None:
        self._metrics.pod_resources[method].inc("v1")
        self._metrics.pod_resources_total.inc("v1")

    def _fill(self, message: Any, pod: Pod) -> None:
        assert pod.metadata is not None
        assert pod.spec is not None
        message.name, message.namespace = pod.metadata.name or "", pod.metadata.namespace or ""
        sidecars: list[Container] = [c for c in pod.spec.initContainers or () if is_sidecar(c)]
        for container in (*sidecars, *(pod.spec.containers or ())):
            entry = message.containers.add(name=container.name)
            for claim in self._claims.container_claims(pod, container):
                resource = entry.dynamic_resources.add(claim_name=claim.name, claim_namespace=claim.namespace)
                for driver, state in claim.drivers.items():
                    for device in state.devices:
                        found = resource.claim_resources.add(
                            driver_name=driver, pool_name=device.pool, device_name=device.device
                        )
                        for cdi_id in device.cdi_ids:
                            found.cdi_devices.add(name=cdi_id)
                        if device.share_id:
                            found.share_id = device.share_id
