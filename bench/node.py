"""The node agent: pod start to running beside the bare runtime, and many pretended pods.

    python bench/node.py [--pods 20] [--fake 200] [--nodes 25]

Prints what the agent adds to a container's start (aim: under 50 ms a pod), then how long 200 fake pods on one node take and how 5,000 on 25
nodes of this machine do. Needs runc for the first part; without it that part is left out, and says so.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from lightkube.models.core_v1 import Pod

from drakit.apiserver.auth import AUTHENTICATED, MASTERS, UserInfo
from drakit.apiserver.local import LocalTransport
from drakit.apiserver.server import Server, Settings
from drakit.client import Client, Informers
from drakit.driver.injection import CdiCache, Edits
from drakit.node.agent import Agent
from drakit.node.runtime import ContainerConfig
from drakit.node.runtimes import oci, oci_spec
from drakit.node.runtimes.fake import FakeRuntime
from drakit.node.runtimes.rootfs import mount_overlay, unmount

CONTAINER = {"name": "main", "image": "busybox", "command": ["sleep", "3600"]}


def pod(name: str, node: str) -> dict[str, Any]:
    spec = {
        "nodeName": node,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        "containers": [CONTAINER],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def bare_runc(count: int) -> list[float]:
    """Overlay mount and `runc run --detach` alone: what any agent has to pay."""
    times = []
    runc = oci.find()
    with tempfile.TemporaryDirectory(prefix="bn-") as folder:
        for i in range(count):
            directory = Path(folder) / str(i)
            directory.mkdir()
            start = time.perf_counter()
            root = mount_overlay(Path("/"), directory)
            assert root is not None
            config = ContainerConfig("main", 0, "busybox", "", ["sleep", "3600"], [], "/", {}, [], [], "")
            spec = oci_spec.build(
                config, argv=["sleep", "3600"], root=root, host_binds=False, masked=[], hostname="bench", edits=Edits(),
                cgroup=f"/drakit/bench/{i}", env={"PATH": oci_spec.DEFAULT_PATH}, working_directory="/",
            )  # fmt: skip
            (directory / "config.json").write_text(json.dumps(spec))
            base = [runc, "--root", f"{folder}/state"]
            subprocess.run(
                [*base, "run", "--detach", "--bundle", str(directory), f"b{i}"],
                check=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            times.append(time.perf_counter() - start)
            subprocess.run([*base, "delete", "--force", f"b{i}"], check=True)
            unmount(root)
    return times


async def through_agent(count: int) -> list[float]:
    """From the pod in the API to Running in the API, one after the other."""
    times = []
    with tempfile.TemporaryDirectory(prefix="bn-") as folder:
        async with running_server() as (server, client):
            agent = Agent(
                node_client(server, "bench"),
                "bench",
                Path(folder) / "k",
                "oci",
                cdi_directories=(Path(folder),),
                address="127.0.0.1",
            )
            await agent.start()
            for i in range(count):
                start = time.perf_counter()
                await client.create(pod(f"p{i}", "bench"))
                await running(client, {f"p{i}"})
                times.append(time.perf_counter() - start)
                await client.delete(Pod, f"p{i}", namespace="default", grace_seconds=1)
                await running(client, set(), gone={f"p{i}"})  # its removal must not slow the next one's start
            await agent.stop(kill=True)
    return times


async def fake(nodes: int, pods: int) -> tuple[float, float]:
    """(seconds until all run, seconds until all are gone)."""
    with tempfile.TemporaryDirectory(prefix="bn-") as folder:
        async with running_server() as (server, client):
            agents = []
            for n in range(nodes):
                agent = Agent(
                    node_client(server, f"n{n}"), f"n{n}", Path(folder) / str(n), FakeRuntime(cdi=CdiCache(())),
                    address="127.0.0.1", pod_resources=False, resources={"cpu": "64", "memory": "256Gi", "pods": "1000"},
                )  # fmt: skip
                await agent.start()
                agents.append(agent)
            names = {f"p{n}-{i}" for n in range(nodes) for i in range(pods)}
            start = time.perf_counter()
            for n in range(nodes):
                await asyncio.gather(*(client.create(pod(f"p{n}-{i}", f"n{n}")) for i in range(pods)))
            await running(client, names)
            up = time.perf_counter() - start
            start = time.perf_counter()
            await asyncio.gather(*(client.delete(Pod, name, namespace="default") for name in names))
            await running(client, set(), gone=names)
            down = time.perf_counter() - start
            for agent in agents:
                await agent.stop(kill=True)
    return up, down


class running_server:
    async def __aenter__(self) -> tuple[Server, Client]:
        self.server = Server(Settings(listen=False))
        await self.server.start()
        return self.server, Client(LocalTransport(self.server, UserInfo("bench", (MASTERS, AUTHENTICATED))))

    async def __aexit__(self, *exc: object) -> None:
        await self.server.stop()


def node_client(server: Server, name: str) -> Client:
    return Client(LocalTransport(server, UserInfo(f"system:node:{name}", ("system:nodes", AUTHENTICATED))))


async def running(client: Client, names: set[str], *, gone: set[str] | None = None) -> None:
    """Waits until all of `names` run, or all of `gone` have left."""
    informers = Informers(client)
    watch = informers.of(Pod, namespace="default")
    done = asyncio.Event()
    waiting = set(gone if gone is not None else names)

    def seen(one: Pod) -> None:
        if gone is None and one.status is not None and one.status.phase == "Running" and one.metadata is not None:
            waiting.discard(one.metadata.name or "")
        if not waiting:
            done.set()

    def left(one: Pod) -> None:
        if gone is not None and one.metadata is not None:
            waiting.discard(one.metadata.name or "")
        if not waiting:
            done.set()

    watch.add_handler(seen, lambda _, new: seen(new), left)
    informers.start()
    await watch.synced.wait()
    if gone is not None:
        waiting &= {p.metadata.name or "" for p in watch.list() if p.metadata is not None}
        if not waiting:
            done.set()
    await asyncio.wait_for(done.wait(), 600)
    await informers.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=20, help="real pods, one after the other")
    parser.add_argument("--fake", type=int, default=200, help="fake pods on a node")
    parser.add_argument("--nodes", type=int, default=25, help="nodes of this machine for the big run")
    args = parser.parse_args()
    if oci.find() and shutil.which("sleep"):
        bare = bare_runc(args.pods)
        cpu = time.process_time()
        ours = asyncio.run(through_agent(args.pods))
        cpu = (time.process_time() - cpu) / args.pods
        overhead = statistics.median(ours) - statistics.median(bare)
        print(f"bare runc            {statistics.median(bare) * 1e3:6.1f} ms a container (median of {args.pods})")
        print(f"pod start to Running {statistics.median(ours) * 1e3:6.1f} ms a pod")
        print(f"agent's overhead     {overhead * 1e3:6.1f} ms a pod (aim: under 50)")
        print(
            f"CPU of agent and API {cpu * 1e3:6.1f} ms a pod's whole life (says more than the clock on a busy machine)"
        )
    else:
        print("runc is not here (or this is not root): the part with real containers is left out")
    for nodes in (1, args.nodes):
        total, cpu = nodes * args.fake, time.process_time()
        up, down = asyncio.run(fake(nodes, args.fake))
        cpu = (time.process_time() - cpu) / total * 1e3
        print(
            f"{total} fake pods on {nodes} nodes: {up:.2f} s to Running ({total / up:.0f}/s), {down:.2f} s to gone, {cpu:.1f} ms CPU a pod"
        )
    print(f"peak memory of this process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
