"""How fast a cluster in one process binds pods with claims, beside what a real Kubernetes 1.37 did on the same kind of machine.

Starts `drakit up` as a process of its own and loads it over HTTPS: nodes and slices are published, then pods are created 32 at a
time and a watch counts how many have a node. Shapes as upstream's scheduler benchmarks have them: plain (one device from a
template), selector (with a CEL selector), match (five requests on one PCIe root), shared (five pods a claim).

    python bench/cluster.py [--shapes plain,match] [--large] [--huge]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import aiohttp

from drakit.client.http import ssl_context
from drakit.client.kubeconfig import Access, load

Plain = dict[str, Any]
DRIVER = "bench.example.com"
NAMESPACE = "bench"
# Pods bound a second by Kubernetes 1.37: API server, scheduler and controller manager, etcd without fsync, 2 cores.
KUBERNETES = {"plain": 57.0, "selector": 49.5, "match": 39.0, "shared": 77.0, "large": 35.0}
SELECTOR = (
    f'device.attributes["{DRIVER}"].driverVersion.major() >= 1 && '
    f'device.capacity["{DRIVER}"].memory.isGreaterThan(quantity("1Mi"))'
)


def node(index: int) -> Plain:
    room = {"cpu": "64", "memory": "512Gi", "pods": "1000"}
    meta = {"name": f"bench-{index}", "labels": {"kubernetes.io/hostname": f"bench-{index}"}}
    status = {
        "capacity": room,
        "allocatable": room,
        "conditions": [{"type": "Ready", "status": "True", "reason": "Bench"}],
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status}


def slice_(index: int, devices: int) -> Plain:
    def device(number: int) -> Plain:
        attributes = {
            "model": {"string": "A100"},
            "driverVersion": {"version": "1.2.3"},
            "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:0{number % 2}"},
        }
        return {"name": f"gpu-{number}", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}

    name = f"bench-{index}"
    spec = {
        "driver": DRIVER,
        "nodeName": name,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "devices": [device(number) for number in range(devices)],
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{name}-slice"},
        "spec": spec,
    }


def claim_spec(shape: str) -> Plain:
    exactly: Plain = {"deviceClassName": "bench"}
    if shape == "selector":
        exactly["selectors"] = [{"cel": {"expression": SELECTOR}}]
    requests = [{"name": f"r{number}", "exactly": exactly} for number in range(5 if shape == "match" else 1)]
    devices: Plain = {"requests": requests}
    if shape == "match":
        devices["constraints"] = [{"matchAttribute": "resource.kubernetes.io/pcieRoot"}]
    return {"devices": devices}


def pod(index: int, shape: str) -> Plain:
    source = {"resourceClaimName": f"c{index // 5}"} if shape == "shared" else {"resourceClaimTemplateName": "t"}
    container = {"name": "c", "image": "pause", "resources": {"claims": [{"name": "d"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "d", **source}], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{index}"}, "spec": spec}


class Load:
    def __init__(self, session: aiohttp.ClientSession, server: str) -> None:
        self._session = session
        self._core, self._resource = f"{server}/api/v1", f"{server}/apis/resource.k8s.io/v1"

    async def send(self, method: str, url: str, body: Plain | None = None) -> Plain:
        headers = {"Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json"}
        async with self._session.request(
            method, url, data=json.dumps(body) if body else None, headers=headers
        ) as answer:
            value: Plain = await answer.json()
            if answer.status >= 400 and answer.status != 404:
                raise SystemExit(f"{method} {url}: {answer.status} {value.get('message')}")
            return value

    async def many(self, calls: Iterable[tuple[str, str, Plain]]) -> None:
        gate = asyncio.Semaphore(32)

        async def one(call: tuple[str, str, Plain]) -> None:
            async with gate:
                await self.send(*call)

        await asyncio.gather(*(one(call) for call in calls))

    async def publish(self, shape: str, nodes: int, devices: int, pods: int) -> None:
        core, resource = self._core, self._resource
        inside = f"{resource}/namespaces/{NAMESPACE}"
        await self.send("POST", f"{core}/namespaces", {"metadata": {"name": NAMESPACE}})
        await self.many(("POST", f"{core}/nodes", node(index)) for index in range(nodes))
        await self.many(("PATCH", f"{core}/nodes/bench-{index}", {"spec": {"taints": None}}) for index in range(nodes))
        await self.many(("POST", f"{resource}/resourceslices", slice_(index, devices)) for index in range(nodes))
        selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
        await self.send(
            "POST", f"{resource}/deviceclasses", {"metadata": {"name": "bench"}, "spec": {"selectors": selectors}}
        )
        if shape == "shared":
            claims = [
                {"metadata": {"name": f"c{index}"}, "spec": claim_spec(shape)} for index in range((pods + 4) // 5)
            ]
            await self.many(("POST", f"{inside}/resourceclaims", claim) for claim in claims)
        else:
            template = {"metadata": {"name": "t"}, "spec": {"spec": claim_spec(shape)}}
            await self.send("POST", f"{inside}/resourceclaimtemplates", template)
        account = f"{core}/namespaces/{NAMESPACE}/serviceaccounts/default"
        for _ in range(200):  # a controller makes it a moment after the namespace
            if "uid" in (await self.send("GET", account)).get("metadata", {}):
                break
            await asyncio.sleep(0.05)

    async def bind(self, shape: str, pods: int, timeout: float) -> tuple[int, float]:
        """Pods bound, and the seconds until the last of them was."""
        url = f"{self._core}/namespaces/{NAMESPACE}/pods"
        bound: set[str] = set()
        last = start = time.perf_counter()

        async def watch() -> None:
            nonlocal last
            async with self._session.get(url, params={"watch": "1", "resourceVersion": "0"}) as answer:
                async for line in answer.content:
                    obj = json.loads(line)["object"]
                    if obj.get("spec", {}).get("nodeName") and obj["metadata"]["name"] not in bound:
                        bound.add(obj["metadata"]["name"])
                        last = time.perf_counter()
                        if len(bound) == pods:
                            return

        watching = asyncio.create_task(watch())
        await asyncio.sleep(0.2)
        last = start = time.perf_counter()
        await self.many(("POST", url, pod(index, shape)) for index in range(pods))
        await asyncio.wait({watching}, timeout=timeout)
        watching.cancel()
        return len(bound), last - start

    async def held_twice(self) -> int:
        seen: set[tuple[str, str, str]] = set()
        twice = 0
        for claim in (await self.send("GET", f"{self._resource}/namespaces/{NAMESPACE}/resourceclaims"))["items"]:
            allocation = (claim.get("status") or {}).get("allocation") or {}
            for result in allocation.get("devices", {}).get("results", []):
                device = (result["driver"], result["pool"], result["device"])
                twice += device in seen
                seen.add(device)
        return twice


class Control:
    """`drakit up` in a process of its own, without nodes."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="drakit-bench-")
        # Nobody sends heartbeats for these nodes, so nobody must miss them.
        options = ["--ephemeral", "--nodes", "0", "--controllers", "*,-node-lifecycle-controller"]
        command = [sys.executable, "-m", "drakit.cli", "up", *options, "--state", self._folder.name]
        began = time.perf_counter()
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while not (Path(self._folder.name) / "process.json").exists():
            if self._process.poll() is not None:
                raise SystemExit("drakit up ended at once")
            time.sleep(0.02)
        self.start_seconds = time.perf_counter() - began

    @property
    def access(self) -> Access:
        return load(Path(self._folder.name) / "kubeconfig")

    def memory(self) -> float:
        """Resident MB."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def cpu(self) -> float:
        """Seconds of CPU used so far; says more than the rate on a machine that others use too."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(20)
        self._folder.cleanup()


async def measure(shape: str, nodes: int, devices: int, pods: int, timeout: float) -> Plain:
    control = Control()
    try:
        access = control.access
        tls = ssl_context(access, (access.cert_data, access.key_data) if access.cert_data else None)
        headers = {"Authorization": f"Bearer {access.token}"} if access.token else {}
        connector = aiohttp.TCPConnector(limit=64, ssl=tls)
        limits = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(
            connector=connector, headers=headers, timeout=limits, read_bufsize=1 << 22
        ) as session:
            load_ = Load(session, access.server)
            await load_.publish(shape, nodes, devices, pods)
            await asyncio.sleep(1)
            before = control.cpu()
            bound, seconds = await load_.bind(shape, pods, timeout)
            cpu, memory = control.cpu() - before, control.memory()
            twice = await load_.held_twice()
    finally:
        control.stop()
    rate = bound / seconds if seconds else 0.0
    return {"bound": bound, "rate": rate, "cpu": cpu, "memory": memory, "twice": twice, "start": control.start_seconds}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default="plain,selector,match,shared")
    parser.add_argument("--large", action="store_true", help="also 500 nodes x 2,500 pods")
    parser.add_argument("--huge", action="store_true", help="also 5,000 nodes x 10,000 pods")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the cluster is stopped, too
    runs = [(shape, shape, 100, 200 if shape == "match" else 500) for shape in args.shapes.split(",") if shape]
    runs += [("large", "plain", 500, 2500)] if args.large else []
    runs += [("huge", "plain", 5000, 10000)] if args.huge else []
    print(
        f"{'case':10}{'nodes':>6}{'pods':>7}{'bound/s':>9}{'Kubernetes':>12}{'ratio':>7}{'CPU/pod':>9}{'MB':>6}{'up in':>7}"
    )
    wrong = 0
    for name, shape, nodes, pods in runs:
        found = asyncio.run(measure(shape, nodes, 10, pods, timeout=600))
        peer = KUBERNETES.get(name)
        ratio = f"{found['rate'] / peer:6.1f}x" if peer else f"{'':7}"
        note = (
            ""
            if found["bound"] == pods and not found["twice"]
            else f"  {found['bound']} bound, {found['twice']} held twice"
        )
        wrong += bool(note)
        cpu = f"{1000 * found['cpu'] / max(found['bound'], 1):6.2f} ms"
        print(
            f"{name:10}{nodes:6}{pods:7}{found['rate']:9.0f}{peer or '':>12}{ratio}{cpu}"
            f"{found['memory']:6.0f}{found['start']:6.1f}s{note}",
            flush=True,
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
