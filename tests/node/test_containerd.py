"""A pod with its device through containerd's CRI. Skipped aloud where `make test` could not install what it needs."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from drakit.cli.cluster import Cluster, Options
from tests.node import oci_image
from tests.node.machine import PROFILE, Machine

pytestmark = pytest.mark.slow
IMAGE, PAUSE = "drakit.local/busybox:1", "drakit.local/pause:1"
CONFIG = """
version = 2
root = "{root}/root"
state = "{root}/state"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
  address = "{root}/c.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
"""


def _need(program: str, package: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed (apt-get install {package} as root)")
    return found


@pytest.fixture
def containerd() -> Iterator[str]:
    """A containerd of our own on a socket of our own, with two images of busybox in it."""
    if os.geteuid() != 0:
        pytest.skip("containerd needs root")
    daemon, ctr, busybox = (
        _need("containerd", "containerd"),
        _need("ctr", "containerd"),
        _need("busybox", "busybox-static"),
    )
    _need("runc", "runc")
    _need("kubectl", "kubernetes-client")
    with tempfile.TemporaryDirectory(prefix="dc-", ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        (root / "config.toml").write_text(CONFIG.format(root=root, pause=PAUSE))
        with open(root / "log", "wb") as log:
            process = subprocess.Popen([daemon, "--config", str(root / "config.toml")], stdout=log, stderr=log)
        try:
            _wait_for(root / "c.sock", process, root / "log")
            for name, command in ((PAUSE, ["/bin/sleep", "100000"]), (IMAGE, ["/bin/sh"])):
                oci_image.write(root / "image.tar", name, Path(os.path.realpath(busybox)), command)
                arguments = [
                    ctr,
                    "-a",
                    str(root / "c.sock"),
                    "-n",
                    "k8s.io",
                    "images",
                    "import",
                    str(root / "image.tar"),
                ]
                subprocess.run(arguments, check=True, capture_output=True, timeout=60)
            yield str(root / "c.sock")
        finally:
            process.terminate()
            process.wait(20)


def _wait_for(socket: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(200):
        if socket.exists():
            return
        if process.poll() is not None:
            break
        time.sleep(0.05)
    pytest.skip(f"containerd does not run here: {log.read_text()[-400:]}")


POD = f"""
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: single-gpu}}
spec: {{spec: {{devices: {{requests: [{{name: gpu, exactly: {{deviceClassName: gpu.example.com}}}}]}}}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: with-device}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: {IMAGE}
    command: [sh, -c, "env | sort; ls /dev/drakit; cat /etc/drakit/devices/*; find /var/run/kubernetes.io -name '*.json'; sleep 3600"]
    resources: {{claims: [{{name: gpu}}]}}
  resourceClaims: [{{name: gpu, resourceClaimTemplateName: single-gpu}}]
"""


def test_pod_runs_with_its_device_through_containerd(containerd: str) -> None:
    async def scenario(folder: Path) -> None:
        options = Options(
            nodes=0, profile=str(PROFILE), machine="cri", machine_root=folder / "m", cri_endpoint=containerd
        )
        async with Cluster(options) as cluster:
            machine = Machine(cluster, folder)
            assert cluster.machine is not None
            info = cluster.machine.agent.info
            assert info is not None
            assert info.name == "containerd"
            await machine.apply(POD)
            text = await machine.logs("with-device", "metadata.json")
            assert "GPU_DEVICE_0=gpu-0" in text
            assert "LATEST-GPU-MODEL (UUID: gpu-" in text
            assert "/resourceclaimtemplates/gpu/gpu/gpu.example.com-metadata.json" in text
            assert await machine.kubectl("exec", "with-device", "--", "echo", "through CRI") == "through CRI\n"
            assert "exit code 3" in await machine.kubectl("exec", "with-device", "--", "sh", "-c", "exit 3", code=3)
            await machine.kubectl("delete", "pod", "with-device")
            assert machine.claim_files() == []
            assert await cluster.machine.agent.runtime.pods() == []

    with tempfile.TemporaryDirectory(prefix="dm-") as folder:
        asyncio.run(scenario(Path(folder)))
