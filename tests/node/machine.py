"""A whole cluster with this machine as its node, and kubectl to look at it: for the tests that run real containers."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from drakit.cli.cluster import Cluster, Options
from drakit.node.runtimes import oci, process

PROFILE = Path(__file__).parents[2] / "examples" / "machine.yaml"
WAIT = 20.0


def skip_without(runtime: str) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed: make system")
    if runtime == "oci" and not oci.find():
        pytest.skip("runc is not installed, or this is not root: make system")
    if runtime == "process" and not (process.find() and os.geteuid() == 0):
        pytest.skip("bubblewrap is not installed, or this is not root: make system")


class Machine:
    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        cluster.write_kubeconfig(self.kubeconfig)

    @property
    def root(self) -> Path:
        assert self.cluster.machine is not None
        return self.cluster.machine.root

    async def kubectl(self, *args: str, stdin: str | None = None, code: int = 0) -> str:
        env = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.folder)}
        process = await asyncio.create_subprocess_exec(
            "kubectl",
            *args,
            env=env,
            stdin=asyncio.subprocess.PIPE if stdin is not None else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await asyncio.wait_for(process.communicate(stdin.encode() if stdin is not None else None), WAIT)
        assert process.returncode == code, (
            f"kubectl {' '.join(args)} ended with {process.returncode}: {output.decode()}"
        )
        return output.decode()

    async def apply(self, manifests: str) -> None:
        await self.kubectl("apply", "-f", "-", stdin=manifests)

    async def until(self, check: Callable[[], Awaitable[Any]], what: str) -> Any:
        deadline = asyncio.get_running_loop().time() + WAIT
        while asyncio.get_running_loop().time() < deadline:
            found = await check()
            if found:
                return found
            await asyncio.sleep(0.1)
        raise AssertionError(f"waited {WAIT} s for {what}: {await self.kubectl('describe', 'pods')}")

    async def logs(self, pod: str, contains: str) -> str:
        async def read() -> str:
            try:
                text = await self.kubectl("logs", pod)
            except AssertionError:
                return ""
            return text if contains in text else ""

        return str(await self.until(read, f"{contains!r} in the logs of {pod}"))

    def claim_files(self) -> list[str]:
        """CDI specs and metadata of claims that are on the node."""
        cdi = self.root / "cdi"
        found = list(cdi.iterdir()) if cdi.is_dir() else []
        return [str(p) for p in (*found, *self.root.glob("kubelet/plugins/*/dra-device-metadata/*"))]


def run(test: Callable[[Machine], Awaitable[None]], runtime: str) -> None:
    skip_without(runtime)

    async def scenario(folder: Path) -> None:
        options = Options(nodes=0, profile=str(PROFILE), machine=runtime, machine_root=folder / "m")
        async with Cluster(options) as cluster:
            await test(Machine(cluster, folder))

    with tempfile.TemporaryDirectory(prefix="dm-") as folder:
        asyncio.run(scenario(Path(folder)))
