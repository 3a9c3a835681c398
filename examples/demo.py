"""`make demo`: a cluster in this process, this machine as its node, and the seeds' pods with their (simulated) GPUs, through kubectl.

Without runc and bubblewrap nothing can be run for real: the nodes are simulated too, and there are no logs to show.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

# Everything else is imported where it is used, so that Ctrl-C is taken quietly from the first moment.
if TYPE_CHECKING:
    from drakit.client import Client

HERE = Path(__file__).parent
WAIT = 20.0
SIMULATED = (
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
METADATA = "/var/run/kubernetes.io/dra-device-attributes/resourceclaims/gpu-claim/gpu/gpu.example.com-metadata.json"
# `until-logs POD TEXT` is ours: kubectl logs once they hold the text (pods that end have no condition to wait for).
REAL = (
    "kubectl get nodes -o wide",
    "kubectl get deviceclasses,resourceslices",
    f"kubectl apply -f {HERE.name}/gpu-pod.yaml",
    "kubectl wait --for=condition=Ready pod/gpu-test-pod --timeout=20s",
    "kubectl get pods -o wide",
    "kubectl get resourceclaims",
    "until-logs gpu-test-pod GB200",
    "kubectl exec gpu-test-pod -- nvidia-smi -L",
    "kubectl describe pod gpu-test-pod",
    f"kubectl apply -f {HERE.name}/shared-claim.yaml",
    "until-logs pod-a GPU",
    "until-logs pod-b GPU",
    f"kubectl apply -f {HERE.name}/metadata-reader.yaml",
    "until-logs gpu-metadata-reader LATEST-GPU-MODEL",
    "until-logs gpu-metadata-template-reader LATEST-GPU-MODEL",
    f"kubectl exec gpu-metadata-reader -- cat {METADATA}",
    "kubectl get pods,resourceclaims",
    "kubectl delete pods --all --grace-period=1",
    "kubectl get resourceclaims",
)


async def demo() -> int:
    from drakit.cli.cluster import Cluster, Options
    from drakit.node.runtimes import oci, process

    began = time.perf_counter()
    real = bool(oci.find() or (process.find() and os.geteuid() == 0))
    options = Options(nodes=2, profile="gb200")
    if real:
        options = Options(nodes=0, profile=str(HERE / "machine.yaml"), machine="oci" if oci.find() else "process")
    with tempfile.TemporaryDirectory(prefix="drakit-demo-") as folder:
        async with Cluster(
            options, progress=lambda text: print(f"{time.perf_counter() - began:5.2f} s  {text}")
        ) as cluster:
            kubeconfig = Path(folder) / "kubeconfig"
            cluster.write_kubeconfig(kubeconfig)
            await service_account(cluster.admin)
            if shutil.which("kubectl"):
                return await with_kubectl(kubeconfig, REAL if real else SIMULATED)
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


async def with_kubectl(kubeconfig: Path, commands: tuple[str, ...]) -> int:
    env = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    for command in commands:
        if command.startswith("until-logs "):
            _, pod, text = command.split()
            command = f"kubectl logs {pod}"
            await logs_hold(pod, text, env)
        print(f"\n$ {command}", flush=True)
        running = await asyncio.create_subprocess_exec(*command.split(), env=env, cwd=HERE.parent)
        if await running.wait():
            print(f"{command} failed", file=sys.stderr)
            return 1
    return 0


async def logs_hold(pod: str, text: str, env: dict[str, str]) -> None:
    for _ in range(int(WAIT / 0.2)):
        asked = await asyncio.create_subprocess_exec(
            "kubectl", "logs", pod, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        output, _ = await asked.communicate()
        if text in output.decode():
            return
        await asyncio.sleep(0.2)


async def without_kubectl(client: Client) -> int:
    import yaml
    from lightkube.models.core_v1 import Pod
    from lightkube.models.resource_v1 import ResourceClaim

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
    try:
        import uvloop

        sys.exit(uvloop.run(demo()))
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        sys.exit(130)
