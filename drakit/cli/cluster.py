"""A whole cluster in this process: API server, controllers, scheduler, simulated nodes on one event loop.

`drakit up` runs one; the demo, the walk-through tests and the load benchmark start the same thing.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import tempfile
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drakit.api.gates import FeatureGates
from drakit.api.registry import RuntimeConfig
from drakit.apiserver.auth import AUTHENTICATED, MASTERS, UserInfo
from drakit.apiserver.kubeconfig import write_kubeconfig
from drakit.apiserver.local import LocalTransport
from drakit.apiserver.server import Server, Settings
from drakit.client import Client, Informers
from drakit.clock import Clock, SystemClock
from drakit.controllers import runner
from drakit.controllers.loop import Context
from drakit.drivers import profiles
from drakit.node.api import NodeApi
from drakit.node.remote import RemoteNodes
from drakit.node.simulated import SimulatedNodes
from drakit.scheduler import Policy, Scheduler

if TYPE_CHECKING:
    from drakit.drivers.machine import Machine

__all__ = ["Cluster", "Options"]

log = logging.getLogger(__name__)

Progress = Callable[[str], None]
_PROGRESS_SECONDS = 2.0  # say at least so often how far a long start has come


@dataclass(frozen=True)
class Options:
    data: Path | None = None  # where state is kept; None: in memory
    port: int = 0
    nodes: int = 0
    profile: str = "gb200"
    pod_seconds: float = 2.0  # how long a simulated pod that may end runs
    gates: FeatureGates = field(default_factory=FeatureGates.default)
    runtime_config: RuntimeConfig = field(default_factory=lambda: RuntimeConfig({"api/all": True}))
    policy: Policy = field(default_factory=Policy)
    scheduler: bool = True
    controllers: tuple[str, ...] = runner.NAMES
    machine: str = ""  # a runtime's name or "auto": this machine is a node too, and runs its pods for real
    machine_name: str = "this-machine"
    cri_endpoint: str = ""  # for runtime "cri": its socket, if not in the usual place
    machine_root: Path | None = None  # where the node keeps its files; None: a temporary folder
    listen: bool = True
    tls: bool = True
    audit_log: Path | None = None


class Cluster:
    def __init__(
        self, options: Options | None = None, *, clock: Clock | None = None, progress: Progress | None = None
    ) -> None:
        self.options = options or Options()
        self.clock = clock or SystemClock()
        self._progress = progress or (lambda text: None)
        settings = Settings(
            data=self.options.data,
            port=self.options.port,
            gates=self.options.gates,
            runtime_config=self.options.runtime_config,
            listen=self.options.listen,
            tls=self.options.tls,
            audit_log=self.options.audit_log,
        )
        self.profile = profiles.load(self.options.profile) if self.options.nodes or self.options.machine else None
        self.node_api = NodeApi()  # kubectl logs, exec, … of pods on this machine's own node
        self.server = Server(settings, clock=self.clock, node_proxy=self.node_api)
        self.node_api.remote = RemoteNodes(self.client("system:drakit", MASTERS), self.clock)
        # One cache of everything for all components; each writes under its own name.
        self.informers = Informers(self.client("system:kube-controller-manager"), self.clock)
        self.scheduler: Scheduler | None = None
        self.nodes: SimulatedNodes | None = None
        self.machine: Machine | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._tasks: list[asyncio.Task[Any]] = []

    def client(self, user: str, *groups: str) -> Client:
        return Client(LocalTransport(self.server, UserInfo(user, (*groups, AUTHENTICATED))))

    def _account(self, name: str) -> Client:
        user = f"system:serviceaccount:kube-system:{name}"
        return self.client(user, "system:serviceaccounts", "system:serviceaccounts:kube-system")

    @property
    def admin(self) -> Client:
        return self.client("kubernetes-admin", MASTERS)

    async def __aenter__(self) -> Cluster:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Returns when the nodes are published; what runs on goes on in the background."""
        options = self.options
        await self.server.start()
        self._progress(f"API server  {self.server.url or 'in process'}")
        self.informers.start()
        if options.controllers:
            client = self.client("system:kube-controller-manager")
            own = {name: self._account(account) for name, account in runner.OWN_IDENTITY.items()}
            context = Context(
                client, self.informers, self.clock, gates=options.gates, root_ca=self._root_ca, clients=own
            )
            self.server.metrics.registry.include(context.metrics)
            names = options.controllers
            self._spawn(
                "controllers", lambda: runner.run(client, self.informers, self.clock, enabled=names, context=context)
            )
            self._progress(f"{len(names)} controllers")
        if options.scheduler:
            self.scheduler = Scheduler(
                self.client("system:kube-scheduler"),
                self.informers,
                gates=options.gates,
                policy=options.policy,
                clock=self.clock,
            )
            self.server.metrics.registry.include(self.scheduler.metrics.registry)
            self._spawn("scheduler", self.scheduler.run)
            self._progress("scheduler")
        if options.machine:
            await self._start_machine()
        if self.profile is not None and options.nodes:
            self.nodes = SimulatedNodes(
                self.client("system:drakit-simulator"),
                self.informers,
                self.profile,
                options.nodes,
                pod_seconds=options.pod_seconds,
                clock=self.clock,
                node_client=lambda name: self.client(f"system:node:{name}", "system:nodes"),
            )
            self._spawn("nodes", self.nodes.run)
            await self._unless_one_dies(self._published(self.nodes))
            self._progress(f"{options.nodes} simulated nodes, profile {self.profile.name}: {self.profile.description}")

    async def _start_machine(self) -> None:
        root = self.options.machine_root
        if root is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="drakit-")
            root = Path(self._temporary.name)
        from drakit.drivers.machine import Machine  # late: gRPC takes longer to import than the rest of the cluster

        self.machine = Machine(
            self.client,
            self.options.machine_name,
            root,
            profile=self.profile,
            runtime=self.options.machine,
            api=self.node_api,
            clock=self.clock,
            cri_endpoint=self.options.cri_endpoint,
            api_server=self.server.url,
        )
        self.server.metrics.registry.include(self.machine.agent.metrics)
        await self.machine.start()
        info = self.machine.agent.info
        assert info is not None
        self._progress(f"this machine as node {self.options.machine_name}: {info.name} {info.version}")

    @property
    def _root_ca(self) -> str:
        """The CA that pods get to verify the API server with; "" when it serves without TLS."""
        cluster = self.server.kubeconfig()["clusters"][0]["cluster"] if self.server.url else {}
        return base64.b64decode(cluster.get("certificate-authority-data", "")).decode()

    def write_kubeconfig(self, path: Path) -> None:
        write_kubeconfig(path, self.server.kubeconfig())

    async def stop(self) -> None:
        if self.machine is not None:
            await self.machine.stop()
        if self._temporary is not None:
            self._temporary.cleanup()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self.informers.stop()
        await self.server.stop()

    async def _published(self, nodes: SimulatedNodes) -> None:
        while not nodes.published.is_set():
            try:
                async with asyncio.timeout(_PROGRESS_SECONDS):
                    await nodes.published.wait()
            except TimeoutError:
                self._progress(f"{nodes.published_nodes} of {len(nodes.names)} simulated nodes")

    async def _unless_one_dies(self, step: Coroutine[Any, Any, Any]) -> None:
        """Wait for a step of the start; a component that dies meanwhile ends the start with what killed it."""
        waiting = asyncio.ensure_future(step)
        await asyncio.wait({waiting, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            waiting.cancel()
            await self.wait()

    async def wait(self) -> None:
        """Returns only when a component dies, raising what killed it. An API server alone never does."""
        if not self._tasks:
            await asyncio.Event().wait()
        await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in self._tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error

    def _spawn(self, name: str, work: Callable[[], Awaitable[Any]]) -> None:
        async def guarded() -> None:
            try:
                await work()
            except asyncio.CancelledError:
                raise
            except Exception:
                log.exception("%s died", name)
                raise

        self._tasks.append(asyncio.get_running_loop().create_task(guarded(), name=name))
