"""The node agent: one machine's (or, with the fake runtime, one pretended) node. Composes the parts; each does its own work.

agent = Agent(client, "node-1", Path("/var/lib/drakit"), runtime, SystemClock())
await agent.start()      # registered, plugins watched, pods synced
await agent.stop()       # pods keep running; stop(kill=True) ends them
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lightkube.models.core_v1 import Pod

from drakit.client import Client, EventRecorder, Informer, Informers
from drakit.clock import Clock, SystemClock
from drakit.driver.injection import CDI_DIRECTORIES, CdiCache
from drakit.node.claim_state import ClaimStore
from drakit.node.claims import RECONCILE_INTERVAL, Claims
from drakit.node.errors import NodeError
from drakit.node.health import HealthStore
from drakit.node.metrics import NodeMetrics
from drakit.node.node_object import NodeObject, SliceWiper, machine_resources, primary_address
from drakit.node.objects import Objects
from drakit.node.plugins import CALL_TIMEOUT, Plugins
from drakit.node.pod_resources import PodResources
from drakit.node.pod_worker import PodWorker
from drakit.node.registry import PluginRegistry
from drakit.node.runtime import Runtime, RuntimeInfo
from drakit.node.runtimes.choose import choose
from drakit.node.slots import Node

__all__ = ["Agent"]

log = logging.getLogger(__name__)
HEALTH_INTERVAL = 10.0


class Agent:
    """`runtime` is a Runtime or the name of one ("auto", "cri", "oci", "process", "fake")."""

    def __init__(
        self,
        client: Client,
        node_name: str,
        root_dir: Path,
        runtime: Runtime | str = "auto",
        clock: Clock | None = None,
        *,
        cdi_directories: tuple[Path, ...] = CDI_DIRECTORIES,
        logs: Path | None = None,
        images: Path | None = None,
        address: str = "",
        labels: Mapping[str, str] | None = None,
        resources: Mapping[str, str] | None = None,
        taints: list[dict[str, Any]] | None = None,
        informers: Informers | None = None,
        cri_endpoint: str = "",
        call_timeout: float = CALL_TIMEOUT,
        pod_resources: bool = True,
        wipe_slices: bool = True,
        api_server: str = "",
    ) -> None:
        self.client = client
        self.name = node_name
        self.root = root_dir
        self.clock = clock or SystemClock()
        self.metrics = NodeMetrics()
        self.address = address or primary_address()
        self.port = 0  # of the kubelet API, once it is served
        self.info: RuntimeInfo | None = None
        self.workers: dict[str, PodWorker] = {}
        self.plugins = Plugins(self.metrics, self.clock, on_health=self._on_health, timeout=call_timeout)
        self._runtime = runtime
        self._cdi = CdiCache(cdi_directories)
        self._logs = logs or root_dir / "logs"
        self._images = images
        self._labels, self._resources, self._taints = labels, resources, taints
        self._informers = informers or Informers(client, self.clock)
        self._own_informers = informers is None
        self._cri_endpoint = cri_endpoint
        self._with_pod_resources = pod_resources
        self._wipe = wipe_slices
        self._api_server = api_server
        self._tasks: list[asyncio.Task[Any]] = []
        self._remove_handler: Any = None
        self._pods: Informer[Pod] | None = None

    async def start(self) -> None:
        """StateError and RuntimeFailure say why the node cannot run; nothing is left behind then."""
        self.root.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._logs.mkdir(mode=0o755, parents=True, exist_ok=True)
        store = ClaimStore(self.root)
        if isinstance(self._runtime, str):
            self._runtime = await choose(
                self._runtime,
                self.root / "runtime",
                cdi=self._cdi,
                clock=self.clock,
                images=self._images,
                cri_endpoint=self._cri_endpoint,
            )
        await self._runtime.start()
        self.runtime: Runtime = self._runtime
        self.info = await self.runtime.info()
        resources = dict(self._resources or machine_resources(self.root))
        self.claims = Claims(
            self.client, store, self.plugins, HealthStore(self.root, self.clock), metrics=self.metrics, clock=self.clock
        )
        self.claims.on_change = self._health_changed
        self.events = EventRecorder(self.client, "kubelet", clock=self.clock)
        self.node = Node(
            self.client,
            self.runtime,
            self.claims,
            Objects(self.client, self.clock),
            self.events,
            self.clock,
            self.name,
            self.address,
            self.root,
            self._logs,
            resources,
            runtime_name=self.info.name,
            start_limit=asyncio.Semaphore(2 * (os.cpu_count() or 1)),
            service_env=_service_env(self._api_server),
            pretends=self.runtime.name == "fake",
        )
        self.object = NodeObject(
            self.client,
            self.name,
            self.clock,
            address=self.address,
            resources=resources,
            runtime=self.info,
            port=lambda: self.port,
            labels=self._labels,
            taints=self._taints,
        )
        await self.object.register()
        self.events.event(
            {"kind": "Node", "name": self.name, "uid": self.name, "apiVersion": "v1"},
            "Normal",
            "Starting",
            "Starting kubelet.",
        )
        wiper = SliceWiper(self.client, self.name, self.plugins, self.clock)
        if self._wipe:
            await wiper.at_start()
        self.registry = PluginRegistry(self.root / "plugins_registry", self.plugins, self.clock)
        await self.registry.start()
        self.pod_resources = PodResources(self.root, self._active_pods, self.claims, self.metrics)
        if self._with_pod_resources:
            await self.pod_resources.start()
        await self._start_pods()
        loops = [
            self.object.heartbeat(),
            self.object.keep_status(),
            self._reconcile(),
            self._expire_health(),
            self._follow_plugins(),
        ]
        if self._wipe:
            loops.append(wiper.run())
        self._tasks += [asyncio.create_task(loop) for loop in loops]

    async def stop(self, *, kill: bool = False) -> None:
        if self._remove_handler is not None:
            self._remove_handler()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        await asyncio.gather(*(w.stop() for w in list(self.workers.values())))
        if self._pods is not None:
            await self.pod_resources.stop()
            await self.registry.stop()
            await self.plugins.stop()
            await self.events.flush()
            await self.runtime.stop(kill=kill)
        if self._own_informers:
            await self._informers.stop()

    def worker_of(self, namespace: str, name: str) -> PodWorker | None:
        for worker in self.workers.values():
            meta = worker.pod.metadata
            if meta is not None and meta.namespace == namespace and meta.name == name:
                return worker
        return None

    # Pods.

    async def _start_pods(self) -> None:
        self._pods = self._informers.of(Pod, fields=f"spec.nodeName={self.name}")
        self._informers.start()
        await self._pods.synced.wait()
        records = sorted(await self.runtime.pods(), key=lambda r: (r.uid, r.attempt))
        leftovers = {record.uid: record for record in records}
        older = [r for r in records if leftovers[r.uid] is not r]
        for pod in self._pods.list():
            assert pod.metadata is not None
            worker = self._new_worker(pod)
            if worker is None:
                continue
            record = leftovers.pop(pod.metadata.uid or "", None)
            if record is not None:
                worker.adopt(record)
            worker.start()
        for record in (*leftovers.values(), *older):
            log.info("removing pod %s/%s, which is gone from the API", record.namespace, record.name)
            await self.runtime.remove_sandbox(record.sandbox_id)
        await self.claims.reconcile(self._active_uids())
        self._remove_handler = self._pods.add_handler(self._added, lambda _, new: self._added(new), self._removed)

    def _new_worker(self, pod: Pod) -> PodWorker | None:
        assert pod.metadata is not None
        try:
            worker = PodWorker(self.node, pod, on_done=self._done)
        except (ValueError, NodeError) as error:
            log.error("pod %s/%s refused: %s", pod.metadata.namespace, pod.metadata.name, error)
            self.events.event(pod, "Warning", "FailedValidation", f"Error validating pod: {error}")
            return None
        self.workers[worker.uid] = worker
        return worker

    def _added(self, pod: Pod) -> None:
        assert pod.metadata is not None
        worker = self.workers.get(pod.metadata.uid or "")
        if worker is None:
            worker = self._new_worker(pod)
            if worker is not None:
                worker.start()
        else:
            worker.update(pod)

    def _removed(self, pod: Pod) -> None:
        assert pod.metadata is not None
        worker = self.workers.get(pod.metadata.uid or "")
        if worker is not None:
            worker.deleted()

    def _done(self, uid: str) -> None:
        self.workers.pop(uid, None)

    def _active_uids(self) -> list[str]:
        return [uid for uid, worker in self.workers.items() if worker.active]

    def _active_pods(self) -> list[Pod]:
        return [w.pod for w in self.workers.values() if w.active]

    # Loops.

    async def _reconcile(self) -> None:
        while True:
            await self.clock.sleep(RECONCILE_INTERVAL)
            await self.claims.reconcile(self._active_uids())

    async def _expire_health(self) -> None:
        while True:
            await self.clock.sleep(HEALTH_INTERVAL)
            self.claims.expire_health()

    async def _follow_plugins(self) -> None:
        """A driver that came (back) ends the wait of pods that could not be prepared or unprepared without it."""
        while True:
            await self.plugins.changed.wait()
            self.plugins.changed.clear()
            for worker in list(self.workers.values()):
                worker.retry_now()
            await self.claims.reconcile(self._active_uids())

    async def _on_health(self, driver: str, report: Any | None) -> None:
        await self.claims.health_report(driver, report)

    def _health_changed(self, pods: set[str]) -> None:
        for uid in pods:
            worker = self.workers.get(uid)
            if worker is not None:
                worker.wake()


def _service_env(api_server: str) -> dict[str, str]:
    """In-cluster clients look here. Pods have the node's network and there is no service proxy: they get the agent's own API server."""
    url = urlsplit(api_server)
    if not url.hostname:
        return {}
    return {"KUBERNETES_SERVICE_HOST": url.hostname, "KUBERNETES_SERVICE_PORT": str(url.port or 443)}
