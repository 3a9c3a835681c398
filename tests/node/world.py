"""A node for tests: embedded API server, the agent with the fake runtime, drivers whose answers a test scripts. No scheduler: tests allocate."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc
from lightkube.models.core_v1 import Event, Pod
from lightkube.models.resource_v1 import ResourceClaim

from drakit.api.errors import StatusError
from drakit.apiserver.auth import AUTHENTICATED, MASTERS, UserInfo
from drakit.apiserver.local import LocalTransport
from drakit.apiserver.server import Server, Settings
from drakit.client import Client
from drakit.driver.endpoint import endpoints
from drakit.driver.files import remove
from drakit.driver.protocols import DRA, DRA_PLUGIN, HEALTH, REGISTRATION
from drakit.node.agent import Agent
from drakit.node.runtimes.fake import FakeRuntime

WAIT = 10.0


class ScriptedDriver:
    """A driver as the agent sees one. Tests change its behaviour while it runs."""

    def __init__(
        self, world: World, name: str = "gpu.example.com", *, services: Sequence[str] = ("v1.DRAPlugin",), uid: str = ""
    ) -> None:
        self.name = name
        self._places = endpoints(name, kubelet_directory=world.root, rolling_update_uid=uid)
        self._services = services
        self._servers: list[tuple[grpc.aio.Server, Path]] = []
        self.calls: list[tuple[str, list[str]]] = []
        self.running = 0  # calls under way, for "never twice at once"
        self.most_running = 0
        self.error = ""  # per claim
        self.hang = False
        self.crash: grpc.StatusCode | None = None
        self.devices: Callable[[str], list[dict[str, Any]]] | None = (
            None  # by claim name; default: what the test allocated
        )
        self.answer_uids: Callable[[list[str]], list[str]] = lambda uids: uids
        self.hold: asyncio.Event | None = None
        self.health: asyncio.Queue[list[tuple[str, str, int, str]]] = asyncio.Queue()
        self.registered = asyncio.Event()
        self.refusal = ""
        self._world = world

    async def start(self) -> None:
        handlers = [
            DRA[s]
            .services["DRAPlugin"]
            .handler(
                {
                    "NodePrepareResources": self._call(DRA[s], "prepare"),
                    "NodeUnprepareResources": self._call(DRA[s], "unprepare"),
                }
            )
            for s in self._services
            if s in DRA
        ]
        handlers += [
            HEALTH[s].services["DRAResourceHealth"].handler({"NodeWatchResources": self._health(HEALTH[s])})
            for s in self._services
            if s in HEALTH
        ]
        await self._listen(self._places.service, handlers)
        registration = REGISTRATION.services["Registration"].handler(
            {"GetInfo": self._info, "NotifyRegistrationStatus": self._notify}
        )
        await self._listen(self._places.registration, [registration])

    async def _listen(self, path: Path, handlers: Sequence[Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove(path)
        server = grpc.aio.server()
        server.add_generic_rpc_handlers(tuple(handlers))
        server.add_insecure_port(f"unix:{path}")
        await server.start()
        self._servers.append((server, path))

    async def stop(self) -> None:
        for server, path in reversed(self._servers):
            await server.stop(0)
            remove(path)
        self._servers = []
        self.registered.clear()

    async def _info(self, _request: Any, _context: Any) -> Any:
        return REGISTRATION.PluginInfo(
            type=DRA_PLUGIN, name=self.name, endpoint=str(self._places.service), supported_versions=list(self._services)
        )

    async def _notify(self, request: Any, _context: Any) -> Any:
        self.refusal = request.error
        if request.plugin_registered:
            self.registered.set()
        return REGISTRATION.RegistrationStatusResponse()

    def _call(self, protocol: Any, what: str) -> Any:
        async def handle(request: Any, context: Any) -> Any:
            self.running += 1
            self.most_running = max(self.most_running, self.running)
            try:
                return await self._answer(protocol, what, request, context)
            finally:
                self.running -= 1

        return handle

    async def _answer(self, protocol: Any, what: str, request: Any, context: Any) -> Any:
        self.calls.append((what, [c.name for c in request.claims]))
        if self.hang:
            await asyncio.sleep(3600)
        if self.hold is not None:
            await self.hold.wait()
        if self.crash is not None:
            await context.abort(self.crash, "driver crashed")
        kind = "NodePrepareResourcesResponse" if what == "prepare" else "NodeUnprepareResourcesResponse"
        response = getattr(protocol, kind)()
        names = {c.uid: c.name for c in request.claims}
        for uid in self.answer_uids(list(names)):
            answer = response.claims[uid]
            answer.error = self.error
            if what == "prepare" and not self.error:
                for device in (self.devices or self._world.allocated)(names.get(uid, "")):
                    answer.devices.add(**device)
        return response

    def _health(self, protocol: Any) -> Any:
        async def handle(_request: Any, _context: Any) -> Any:
            while True:
                report = await self.health.get()
                response = protocol.NodeWatchResourcesResponse()
                for pool, device, state, message in report:
                    entry = response.devices.add(health=state, message=message, last_updated_time=1)
                    entry.device.pool_name, entry.device.device_name = pool, device
                yield response

        return handle


class World:
    node_name = "node-1"

    def __init__(self, root: Path, **options: Any) -> None:
        self.base = root
        self.root = root / "k"
        self.runtime: Any = FakeRuntime()
        self.server = Server(Settings(listen=False))
        self.options = options
        self.agent: Any = None  # an Agent once started
        self._devices: dict[str, list[dict[str, Any]]] = {}
        self._numbers = itertools.count()
        self._drivers: list[ScriptedDriver] = []

    async def start(self) -> None:
        await self.server.start()
        self.client = Client(LocalTransport(self.server, UserInfo("admin", (MASTERS, AUTHENTICATED))))
        node = UserInfo(f"system:node:{self.node_name}", ("system:nodes", AUTHENTICATED))
        self.node_client = Client(LocalTransport(self.server, node))
        await self.client.create(
            {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "test"}, "spec": {}}
        )
        await self.start_agent()

    async def start_agent(self) -> None:
        options = {"cdi_directories": (self.base / "cdi",), "address": "127.0.0.1", "call_timeout": 2.0, **self.options}
        self.agent = Agent(self.node_client, self.node_name, self.root, self.runtime, **options)
        await self.agent.start()

    async def restart_agent(self) -> None:
        await self.agent.stop()
        await self.start_agent()

    async def stop(self) -> None:
        if self.agent is not None:
            await self.agent.stop(kill=True)
        for driver in self._drivers:
            await driver.stop()
        await self.server.stop()

    async def driver(self, name: str = "gpu.example.com", **options: Any) -> ScriptedDriver:
        driver = ScriptedDriver(self, name, **options)
        self._drivers.append(driver)
        await driver.start()
        await asyncio.wait_for(driver.registered.wait(), WAIT)
        return driver

    async def claim(
        self, name: str, *devices: str, driver: str = "gpu.example.com", extra: Sequence[tuple[str, str]] = ()
    ) -> ResourceClaim:
        """An allocated claim; `extra` are (driver, device) of other drivers."""
        pairs = [(driver, d) for d in devices or (f"dev-{next(self._numbers)}",)] + list(extra)
        requests = [
            {"name": f"r{i}", "exactly": {"deviceClassName": "test", "allocationMode": "ExactCount", "count": 1}}
            for i in range(len(pairs))
        ]
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"devices": {"requests": requests}},
        }
        created = (await self.client.create(body)).to_dict()
        results = [{"driver": d, "pool": "pool", "device": n, "request": f"r{i}"} for i, (d, n) in enumerate(pairs)]
        created["status"] = {"allocation": {"devices": {"results": results}}}
        self._devices[name] = [
            {"pool_name": "pool", "device_name": n, "request_names": [f"r{i}"], "cdi_device_ids": []}
            for i, (d, n) in enumerate(pairs)
            if d == driver
        ]
        stored: ResourceClaim = await self.client.update(created, subresource="status")
        return stored

    def allocated(self, claim: str) -> list[dict[str, Any]]:
        return self._devices.get(claim, [])

    async def pod(self, name: str, *claims: str, reserve: bool = True, **spec: Any) -> Pod:
        """A pod on the node that uses the claims, reserved for it as the scheduler would have done before binding."""
        uses = [{"name": c, "resourceClaimName": c} for c in claims]
        container = {
            "name": "main",
            "image": "img",
            "command": ["run"],
            "resources": {"claims": [{"name": c} for c in claims]},
        }
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": 1,
                "containers": [container],
                "resourceClaims": uses,
                **spec,
            },
        }
        pod: Pod = await self.client.create(body)
        assert pod.metadata is not None
        for claim in claims if reserve else ():
            await self.reserve(claim, pod)
        await self.client.bind(pod, self.node_name)
        return pod

    async def reserve(self, claim: str, pod: Pod) -> None:
        assert pod.metadata is not None
        current = await self.client.get(ResourceClaim, claim, namespace="default")
        plain = current.to_dict()
        consumer = {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}
        plain["status"]["reservedFor"] = [*(plain["status"].get("reservedFor") or ()), consumer]
        await self.client.update(plain, subresource="status")

    async def get(self, name: str) -> Pod:
        return await self.client.get(Pod, name, namespace="default")

    async def phase(self, name: str, phase: str) -> Pod:
        async def reached() -> Pod | None:
            pod = await self.get(name)
            return pod if pod.status and pod.status.phase == phase else None

        return await self.until(reached, f"pod {name} to be {phase}")

    async def gone(self, name: str) -> None:
        async def reached() -> bool:
            try:
                await self.get(name)
            except StatusError as error:
                return error.code == 404
            return False

        await self.until(reached, f"pod {name} to be gone")

    async def delete(self, name: str, **options: Any) -> None:
        await self.client.delete(Pod, name, namespace="default", **options)

    async def event(self, reason: str, text: str = "") -> str:
        async def reached() -> str | None:
            for event in (await self.client.list(Event, namespace="default")).items:
                if event.reason == reason and text in (event.message or ""):
                    return event.message
            return None

        return await self.until(reached, f"an event {reason} with {text!r}")

    async def until(self, check: Callable[[], Awaitable[Any]], what: str, seconds: float = WAIT) -> Any:
        """Looks again and again, a few times a millisecond apart: the agent runs on the same loop."""
        deadline = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < deadline:
            found = await check()
            if found:
                return found
            await asyncio.sleep(0.005)
        raise AssertionError(f"waited {seconds} s for {what}; events: {await self._events()}")

    async def _events(self) -> Mapping[str, Any]:
        return {e.reason or "": e.message for e in (await self.client.list(Event, namespace="default")).items}

    def state(self) -> dict[str, set[str]]:
        """Claims in the checkpoint with their pods."""
        from drakit.node.claim_state import ClaimStore

        return {c.name: set(c.pods) for c in ClaimStore(self.root)}


def run(test: Callable[[World], Awaitable[None]], **options: Any) -> None:
    async def scenario(root: Path) -> None:
        world = World(root, **options)
        try:
            await world.start()
            await test(world)
        finally:
            await world.stop()

    with tempfile.TemporaryDirectory(prefix="dn-") as folder:
        asyncio.run(scenario(Path(folder)))
