"""The API server under load: creates, lists, watches, start and memory, beside the figures of a real kube-apiserver.

    python bench/apiserver.py                     # our server, fsynced SQLite, HTTPS
    python bench/apiserver.py --memory            # without a file
    python bench/apiserver.py --peer KUBECONFIG   # the same load on another server too, and the ratio
    python bench/apiserver.py --authorization     # what authorization costs of a create: a tenant's creates, with and without

The client shares the machine, as it did when the figures of the peer were taken: Kubernetes 1.37, etcd without fsync, two
cores, a Python client: 1,009 ResourceClaim creates a second, 63 ms to list 3,000 claims, ready after 3.1 s, 323 MB idle.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import signal
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import uvloop
import yaml

RECORDED = {"creates/s": 1009.0, "list 3000 claims ms": 63.0, "ready s": 3.1, "idle MB": 323.0}
HIGHER_IS_BETTER = {"creates/s", "watch events/s"}


@dataclass
class Target:
    host: str
    port: int
    token: str
    context: ssl.SSLContext | None

    @classmethod
    def from_kubeconfig(cls, path: Path) -> Target:
        config = yaml.safe_load(path.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        url = urllib.parse.urlsplit(cluster["server"])
        context = None
        if url.scheme == "https":
            context = ssl.create_default_context()
            if data := cluster.get("certificate-authority-data"):
                context.load_verify_locations(cadata=base64.b64decode(data).decode())
            else:
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            if certificate := user.get("client-certificate"):
                context.load_cert_chain(certificate, user["client-key"])
        return cls(url.hostname or "127.0.0.1", url.port or 443, user.get("token", ""), context)


class Client:
    """One keep-alive connection; no more HTTP than the load needs, so that the client is not what is measured."""

    def __init__(self, target: Target) -> None:
        self._target = target

    async def open(self) -> Client:
        self._reader, self._writer = await asyncio.open_connection(
            self._target.host, self._target.port, ssl=self._target.context, limit=1 << 26
        )
        return self

    def send(self, method: str, path: str, body: bytes = b"", content_type: str = "application/json") -> None:
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self._target.token}\r\nAccept: application/json\r\n"
            f"User-Agent: bench/1\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)

    async def receive(self) -> tuple[int, bytes]:
        head = await self._reader.readuntil(b"\r\n\r\n")
        code = int(head[9:12])
        lower = head.lower()
        if b"transfer-encoding: chunked" in lower:
            parts = []
            while size := int((await self._reader.readline()).strip(), 16):
                parts.append(await self._reader.readexactly(size))
                await self._reader.readexactly(2)
            await self._reader.readexactly(2)
            return code, b"".join(parts)
        start = lower.index(b"content-length: ") + 16
        return code, await self._reader.readexactly(int(lower[start : lower.index(b"\r", start)]))

    async def call(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> bytes:
        self.send(method, path, b"" if body is None else json.dumps(body, separators=(",", ":")).encode(), content_type)
        code, data = await self.receive()
        if code >= 300 and code not in (404, 409):
            raise RuntimeError(f"{method} {path}: {code} {data[:300]!r}")
        return data

    async def events(self, count: int) -> int:
        """Read that many lines of a watch; fewer when the server gives up on it."""
        seen = 0
        while seen < count:
            line = (await self._reader.readline()).strip()
            if not line or line == b"0":
                break
            seen += (await self._reader.readexactly(int(line, 16))).count(b"\n")
            await self._reader.readexactly(2)
        return seen

    async def start_watch(self, path: str) -> None:
        self.send("GET", path)
        await self._reader.readuntil(b"\r\n\r\n")

    def close(self) -> None:
        self._writer.close()


NS = "bench"
CLAIMS = f"/apis/resource.k8s.io/v1/namespaces/{NS}/resourceclaims"
PODS = f"/api/v1/namespaces/{NS}/pods"


def claim(name: str) -> dict[str, Any]:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": 1}}
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}


def pod(name: str) -> dict[str, Any]:
    container = {"name": "c", "image": "registry.example.com/app:1", "resources": {"requests": {"cpu": "100m"}}}
    return {"metadata": {"name": name, "labels": {"app": "x"}}, "spec": {"containers": [container]}}


async def spread(clients: list[Client], count: int, work: Callable[[Client, int], Awaitable[Any]]) -> float:
    numbers = iter(range(count))

    async def worker(client: Client) -> None:
        for number in numbers:
            await work(client, number)

    started = time.perf_counter()
    await asyncio.gather(*(worker(client) for client in clients))
    return time.perf_counter() - started


async def load(target: Target, *, creates: int, pods: int, watchers: int, updates: int) -> dict[str, float]:
    clients = [await Client(target).open() for _ in range(32)]
    first = clients[0]
    await first.call("POST", "/api/v1/namespaces", {"metadata": {"name": NS}})
    account = {"metadata": {"name": "default"}}
    await first.call("POST", f"/api/v1/namespaces/{NS}/serviceaccounts", account)
    out: dict[str, float] = {}
    seconds = await spread(clients, creates, lambda client, i: client.call("POST", CLAIMS, claim(f"c{i}")))
    out["creates/s"] = creates / seconds
    out[f"list {creates} claims ms"] = await best(first, CLAIMS)
    await spread(clients, pods, lambda client, i: client.call("POST", PODS, pod(f"p{i}")))
    out[f"list {pods} pods ms"] = await best(first, PODS)
    out["watch events/s"] = await watch_load(target, clients, watchers, updates)
    for client in clients:
        client.close()
    return out


async def best(client: Client, path: str) -> float:
    times = []
    for _ in range(5):
        started = time.perf_counter()
        await client.call("GET", path)
        times.append(time.perf_counter() - started)
    return min(times) * 1000


async def watch_load(target: Target, clients: list[Client], watchers: int, updates: int) -> float:
    listing = json.loads(await clients[0].call("GET", f"{CLAIMS}?limit=1"))
    version = listing["metadata"]["resourceVersion"]
    watching = [await Client(target).open() for _ in range(watchers)]
    for client in watching:
        await client.start_watch(f"{CLAIMS}?watch=1&resourceVersion={version}&timeoutSeconds=300")
    merge = "application/merge-patch+json"

    def update(client: Client, i: int) -> Awaitable[bytes]:
        return client.call("PATCH", f"{CLAIMS}/c{i % 500}", {"metadata": {"labels": {"n": str(i)}}}, merge)

    started = time.perf_counter()
    _, *seen = await asyncio.gather(spread(clients, updates, update), *(client.events(updates) for client in watching))
    seconds = time.perf_counter() - started
    for client in watching:
        client.close()
    return sum(seen) / seconds


def memory_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


TENANT = "a-tenant-of-the-benchmark"


async def serve(kubeconfig: Path, data: Path | None) -> None:
    """The server's own process. SIGUSR1 turns authorization off, and on again."""
    from drakit.apiserver.auth import UserInfo
    from drakit.apiserver.kubeconfig import write_kubeconfig
    from drakit.apiserver.server import Server, Settings
    from drakit.cli.collector import collecting_at_rest

    server = Server(Settings(data=data, tokens={TENANT: UserInfo("tenant", ("tenants",))}))
    context = server.context
    on = context.authorizer, context.privileges

    def switch() -> None:
        context.authorizer, context.privileges = (None, None) if context.authorizer else on

    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, switch)
    await server.start()
    write_kubeconfig(kubeconfig, server.kubeconfig())
    async with collecting_at_rest():
        await asyncio.Event().wait()


def launch(command: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command)


def written(path: Path) -> bool:
    return path.exists()


async def ready(kubeconfig: Path, process: subprocess.Popen[bytes]) -> Target:
    while True:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}")
        if written(kubeconfig):
            target = Target.from_kubeconfig(kubeconfig)
            client = await Client(target).open()
            await client.call("GET", "/readyz")
            client.close()
            return target
        await asyncio.sleep(0.005)


async def ours(args: argparse.Namespace) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        command = [sys.executable, __file__, "--serve", str(kubeconfig)]
        if not args.memory:
            command += ["--data", str(Path(folder) / "data")]
        started = time.perf_counter()
        process = launch(command)
        try:
            target = await ready(kubeconfig, process)
            out = {"ready s": time.perf_counter() - started, "idle MB": memory_mb(process.pid)}
            out |= await load(
                target, creates=args.creates, pods=args.pods, watchers=args.watchers, updates=args.updates
            )
            out["MB after the load"] = memory_mb(process.pid)
            if not args.memory:
                process.kill()  # what was acknowledged is there again
                process.wait(10)
                kubeconfig.unlink()
                started = time.perf_counter()
                process = launch(command)
                await ready(kubeconfig, process)
                out["ready after kill -9 s"] = time.perf_counter() - started
            return out
        finally:
            process.terminate()
            process.wait(10)


def cpu_seconds(pid: int) -> float:
    """Of all threads, to the nanosecond: /proc/PID/stat counts in hundredths."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


async def tenant_clients(target: Target) -> list[Client]:
    """A namespace in which the tenant may edit, as tenants usually may."""
    admin = await Client(target).open()
    await admin.call("POST", "/api/v1/namespaces", {"metadata": {"name": NS}})
    group = "rbac.authorization.k8s.io"
    subject = {"kind": "Group", "apiGroup": group, "name": "tenants"}
    role = {"apiGroup": group, "kind": "ClusterRole", "name": "edit"}
    binding = {"metadata": {"name": "tenants"}, "roleRef": role, "subjects": [subject]}
    await admin.call("POST", f"/apis/{group}/v1/namespaces/{NS}/rolebindings", binding)
    admin.close()
    return [await Client(replace(target, token=TENANT)).open() for _ in range(8)]


async def authorization(args: argparse.Namespace) -> None:
    """CPU of one server per create of a tenant, by turns with and without authorization: what else the machine does counts little."""
    turns, each = 40, max(args.creates // 15, 100)
    costs: list[list[float]] = [[], []]  # with, without
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        process = launch([sys.executable, __file__, "--serve", str(kubeconfig)])
        try:
            clients = await tenant_clients(await ready(kubeconfig, process))
            for turn in range(turns):

                def create(client: Client, i: int, start: int = turn * each) -> Awaitable[bytes]:
                    return client.call("POST", CLAIMS, claim(f"c{start + i}"))

                before = cpu_seconds(process.pid)
                await spread(clients, each, create)
                costs[turn % 2].append((cpu_seconds(process.pid) - before) / each * 1e6)
                process.send_signal(signal.SIGUSR1)
                await clients[0].call("GET", "/readyz")
        finally:
            process.terminate()
            process.wait(10)
    having, lacking = (statistics.median(values[2:]) for values in costs)  # the first turns warm up
    print(f"create by a tenant, server CPU: {having:.0f} us with authorization, {lacking:.0f} us without")
    print(f"authorization: {(having - lacking) / having * 100:.1f}% of a create request (at most 5%)")


def show(figures: dict[str, float], peer: dict[str, float], name: str) -> None:
    print(f"{'':24}{'drakit':>12}{name:>12}{'ratio':>9}")
    for key, value in figures.items():
        other = peer.get(key)
        ratio = ""
        if other:
            ratio = f"{value / other if key in HIGHER_IS_BETTER else other / value:.2f}x"
        print(f"{key:24}{value:12.2f}{'' if other is None else f'{other:.2f}':>12}{ratio:>9}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", type=Path, metavar="KUBECONFIG")
    parser.add_argument("--memory", action="store_true", help="our store without a file")
    parser.add_argument("--creates", type=int, default=3000)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--watchers", type=int, default=200)
    parser.add_argument("--updates", type=int, default=1000)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--authorization", action="store_true", help="what authorization costs of a create")
    args = parser.parse_args()
    if args.serve:
        uvloop.run(serve(args.serve, args.data))
        return
    if args.authorization:
        uvloop.run(authorization(args))
        return
    figures = uvloop.run(ours(args))
    if args.peer:
        target = Target.from_kubeconfig(args.peer)
        sizes = {"creates": args.creates, "pods": args.pods, "watchers": args.watchers, "updates": args.updates}
        show(figures, uvloop.run(load(target, **sizes)), "peer")
    else:
        show(figures, RECORDED, "recorded")


if __name__ == "__main__":
    main()
