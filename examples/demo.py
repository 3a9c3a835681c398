"""`make demo`: a cluster with simulated GPUs in this process, a pod that claims one, and what kubectl shows for it."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import uvloop
from lightkube.models.core_v1 import Pod
from lightkube.models.resource_v1 import ResourceClaim

from drakit.cli.cluster import Cluster, Options
from drakit.client import Client

HERE = Path(__file__).parent
WAIT = 20.0
COMMANDS = (
    "kubectl get nodes",
    "kubectl get deviceclasses,resourceslices",
    f"kubectl apply -f {HERE.name}/gpu-pod.yaml",
    "kubectl wait --for=condition=Ready pod/gpu-test-pod --timeout=20s",
    "kubectl get pods -o wide",
    "kubectl get resourceclaims",
    "kubectl describe pod gpu-test-pod",
    "kubectl describe resourceclaims",
    "kubectl delete pod gpu-test-pod",
    "kubectl get resourceclaims",
)


async def demo() -> int:
    began = time.perf_counter()
    options = Options(nodes=2, profile="gb200")
    with tempfile.TemporaryDirectory(prefix="drakit-demo-") as folder:
        async with Cluster(
            options, progress=lambda text: print(f"{time.perf_counter() - began:5.2f} s  {text}")
        ) as cluster:
            kubeconfig = Path(folder) / "kubeconfig"
            cluster.write_kubeconfig(kubeconfig)
            await service_account(cluster.admin)
            if shutil.which("kubectl"):
                return await with_kubectl(kubeconfig)
            print("\nkubectl is not installed (make system installs it): the same through drakit's own client")
            return await without_kubectl(cluster.admin)


async def service_account(client: Client) -> None:
    """Pods need their namespace's account, which a controller makes a moment after the namespace."""
    from lightkube.models.core_v1 import ServiceAccount

    from drakit.api.errors import StatusError

    for _ in range(int(WAIT / 0.05)):
        try:
            await client.get(ServiceAccount, "default", namespace="default")
            return
        except StatusError:
            await asyncio.sleep(0.05)
    raise SystemExit("the namespace default has no service account")


async def with_kubectl(kubeconfig: Path) -> int:
    for command in COMMANDS:
        print(f"\n$ {command}", flush=True)
        process = await asyncio.create_subprocess_exec(
            *command.split(), env={**os.environ, "KUBECONFIG": str(kubeconfig)}, cwd=HERE.parent
        )
        if await process.wait():
            print(f"{command} failed", file=sys.stderr)
            return 1
    return 0


async def without_kubectl(client: Client) -> int:
    import yaml

    for manifest in yaml.safe_load_all((HERE / "gpu-pod.yaml").read_text(encoding="utf-8")):
        created = await client.create(manifest, namespace="default")
        print(f"created {manifest['kind']} {created.metadata.name}")
    for _ in range(int(WAIT / 0.05)):
        pod = await client.get(Pod, "gpu-test-pod", namespace="default")
        if pod.status and pod.status.phase == "Running":
            break
        await asyncio.sleep(0.05)
    else:
        print(f"the pod does not run: {pod.status}", file=sys.stderr)
        return 1
    print(f"pod gpu-test-pod: {pod.status.phase} on {pod.spec.nodeName if pod.spec else ''}")
    for claim in (await client.list(ResourceClaim, namespace="default")).items:
        allocation = claim.status.allocation if claim.status else None
        for result in (allocation.devices.results if allocation and allocation.devices else None) or ():
            print(
                f"claim {claim.metadata.name if claim.metadata else ''}: {result.driver}/{result.pool}/{result.device}"
            )
    await client.delete(Pod, "gpu-test-pod", namespace="default")
    print("deleted the pod; its claim goes with it")
    return 0


if __name__ == "__main__":
    sys.exit(uvloop.run(demo()))
