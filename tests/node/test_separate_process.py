"""`drakit node` as a process of its own, joined over HTTPS: kubectl reaches its pods through its kubelet API, and a kill does not end them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import sys
import tempfile
from pathlib import Path

import aiohttp
import pytest
from lightkube.models.core_v1 import Node

from drakit.cli.cluster import Cluster, Options
from tests.node import seeds
from tests.node.machine import PROFILE, Machine, skip_without

pytestmark = pytest.mark.slow


async def start_node(machine: Machine, root: Path) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "drakit.cli.main", "node", "--kubeconfig", str(machine.kubeconfig), "--root", str(root), "--name", "far",
        "--runtime", "oci", "--address", "127.0.0.1", "--cdi-dir", str(root / "cdi"), "--profile", str(PROFILE),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), 30)
    assert b"node far runs with runc" in line, line
    return process


def test_agent_in_its_own_process_is_killed_and_comes_back() -> None:
    skip_without("oci")

    async def scenario(folder: Path) -> None:
        async with Cluster(Options(nodes=0)) as cluster:
            machine = Machine(cluster, folder)
            root = folder / "n"
            process = await start_node(machine, root)
            try:
                await machine.apply(CLASS + seeds.METADATA_READER)
                before = await machine.logs("gpu-metadata-reader", "LATEST-GPU-MODEL")
                assert await machine.kubectl("exec", "gpu-metadata-reader", "--", "echo", "from afar") == "from afar\n"
                assert "exit code 4" in await machine.kubectl(
                    "exec", "gpu-metadata-reader", "--", "sh", "-c", "exit 4", code=4
                )
                await refuses_strangers(machine)
                process.send_signal(signal.SIGKILL)
                await process.wait()
                process = await start_node(machine, root)
                assert await machine.logs("gpu-metadata-reader", "LATEST-GPU-MODEL") == before
                status = json.loads(await machine.kubectl("get", "pod", "gpu-metadata-reader", "-o", "json"))["status"]
                assert (status["phase"], status["containerStatuses"][0]["restartCount"]) == ("Running", 0)
                await machine.kubectl("delete", "pod", "gpu-metadata-reader", "--grace-period=1")
                assert list((root / "cdi").iterdir()) == []
            finally:
                process.terminate()
                await process.wait()
                stop_monitor(root)

    with tempfile.TemporaryDirectory(prefix="dm-") as folder:
        asyncio.run(scenario(Path(folder)))


CLASS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec: {selectors: [{cel: {expression: device.driver == 'gpu.example.com'}}]}
---"""


async def refuses_strangers(machine: Machine) -> None:
    node = await machine.cluster.admin.get(Node, "far")
    assert node.status is not None
    assert node.status.daemonEndpoints is not None
    assert node.status.daemonEndpoints.kubeletEndpoint is not None
    url = f"https://127.0.0.1:{node.status.daemonEndpoints.kubeletEndpoint.Port}"
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{url}/healthz", ssl=context) as answer:
            assert answer.status == 200
        for headers in ({}, {"Authorization": "Bearer nonsense"}):
            async with session.get(f"{url}/pods", ssl=context, headers=headers) as answer:
                assert answer.status == 401


def stop_monitor(root: Path) -> None:
    """The monitor outlives agents by design: a test has to end it."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if len(words) > 4 and words[3].endswith(b"monitor.py") and words[4].decode().startswith(str(root)):
            os.kill(int(entry.parent.name), signal.SIGTERM)
