"""What the rest of a cluster does to the objects of a test: a kubelet that runs pods, a scheduler that allocates, by simple rules."""

from __future__ import annotations

from collections.abc import Callable

from lightkube.models.core_v1 import Node, Pod
from lightkube.models.resource_v1 import ResourceClaim

from drakit.api.errors import StatusError
from drakit.client import Plain
from tests.controllers import objects as make
from tests.controllers.cluster import Cluster

READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}


async def run_pods(cluster: Cluster, outcome: Callable[[Plain], str] = lambda pod: "Running") -> bool:
    """Give every pod that has not finished its phase; end those being deleted. True if anything changed."""
    changed = False
    for pod in await cluster.list(Pod):
        metadata, phase = pod["metadata"], pod.get("status", {}).get("phase")
        try:
            if metadata.get("deletionTimestamp"):
                if metadata.get("deletionGracePeriodSeconds"):
                    await cluster.delete(Pod, metadata["name"], namespace=metadata["namespace"], grace_seconds=0)
                    changed = True
                continue
            wanted = outcome(pod)
            if not wanted or phase in ("Succeeded", "Failed", wanted):
                continue
            ready = dict(READY) if wanted == "Running" else {**READY, "status": "False"}
            await cluster.patch(
                Pod,
                metadata["name"],
                {"status": {"phase": wanted, "conditions": [ready]}},
                subresource="status",
                namespace=metadata["namespace"],
            )
            changed = True
        except StatusError as error:
            if error.code not in (404, 409):
                raise
    return changed


async def add_node(cluster: Cluster, name: str, **labels: str) -> None:
    await cluster.create(make.node(name, labels=labels))
    await cluster.patch(Node, name, {"spec": {"taints": None}})


async def run_until_quiet(cluster: Cluster, rounds: int = 40) -> None:
    for _ in range(rounds):
        await cluster.settle(0.5)
        if not await run_pods(cluster):
            break
    await cluster.settle(1)


async def names(cluster: Cluster, labels: str = "") -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in await cluster.list(Pod, labels=labels))


async def allocate(
    cluster: Cluster,
    claim: str,
    *pods: str,
    device: str = "dev-0",
    tolerations: list[Plain] | None = None,
    pool: str = "node-1",
) -> None:
    """As the scheduler: finalizer, allocation, reservation."""
    current = await cluster.get(ResourceClaim, claim)
    if "resource.kubernetes.io/delete-protection" not in (current["metadata"].get("finalizers") or []):
        await cluster.patch(
            ResourceClaim, claim, {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}}
        )
    result = {"request": "r", "driver": "gpu.example.com", "pool": pool, "device": device}
    if tolerations:
        result["tolerations"] = tolerations  # type: ignore[assignment]
    allocation = {"devices": {"results": [result]}, "allocationTimestamp": "2026-01-01T00:00:00Z"}
    reserved = []
    for name in pods:
        pod = await cluster.get(Pod, name)
        reserved.append({"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]})
    await cluster.patch(
        ResourceClaim, claim, {"status": {"allocation": allocation, "reservedFor": reserved}}, subresource="status"
    )


async def bind(cluster: Cluster, pod: str, node: str) -> None:
    current = await cluster.client.get(Pod, pod, namespace="default")
    await cluster.client.bind(current, node)
