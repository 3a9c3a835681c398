"""Simulated nodes: one task plays any number of them, for clusters on a laptop and for load.

Each has a Node object with a heartbeat Lease and the ResourceSlices of a profile. Pods bound to them run as far as the API can
see: they start once their claims are allocated and reserved for them (as a kubelet would insist), those that may end do so
after a while, deleted ones go within their grace; what they tell stands in `simulated_pods`. An annotation of a node,
`simulated.drakit.dev/silent: "true"`, cuts it off, with its pods, until it is taken away.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import cache
from heapq import heappop, heappush
from itertools import count
from typing import Any, Protocol

from lightkube.models.coordination_v1 import Lease
from lightkube.models.core_v1 import Node, Pod
from lightkube.models.resource_v1 import ResourceClaim

from drakit.api.errors import StatusError
from drakit.api.times import micro_timestamp, timestamp
from drakit.client import Client, Informers, resource_of
from drakit.client.resources import resource_of_plain
from drakit.client.transport import Plain
from drakit.clock import Clock, SystemClock
from drakit.node import simulated_pods

__all__ = ["NodeProfile", "SimulatedNodes"]

log = logging.getLogger(__name__)

NODES = resource_of(Node)
PODS = resource_of(Pod)
LEASES = resource_of(Lease)
SILENT = "simulated.drakit.dev/silent"
LEASE_SECONDS = 40
WRITES = 64  # at a time
_RETRY = 1.0  # seconds after a write that failed
NOT_READY = "node.kubernetes.io/not-ready"


class NodeProfile(Protocol):
    """What `drakit.drivers.profiles.Profile` offers."""

    def node(self, name: str, index: int = 0) -> Plain: ...
    def slices(self, node: str, index: int = 0, *, uid: str = "") -> list[Plain]: ...
    def device_classes(self) -> list[Plain]: ...


class SimulatedNodes:
    def __init__(
        self,
        client: Client,
        informers: Informers,
        profile: NodeProfile,
        nodes: int,
        *,
        prefix: str = "node",
        pod_seconds: float = 2.0,
        clock: Clock | None = None,
        node_client: Callable[[str], Client] | None = None,
    ) -> None:
        """`client` makes device classes and takes the taint of new nodes away; `node_client` gives each node its own identity."""
        self._client, self._informers, self._profile = client, informers, profile
        self._of = cache(node_client or (lambda name: client))
        self._clock = clock or SystemClock()
        width = max(len(str(nodes - 1)), 1)
        self.names = [f"{prefix}-{index:0{width}}" for index in range(nodes)]
        self._mine = frozenset(self.names)
        self._pod_seconds = pod_seconds
        self._due: list[tuple[float, int, str, Callable[[], Awaitable[None]]]] = []
        self._order = count()
        self._planned: dict[str, str] = {}  # pod UID -> what is planned or done for it
        self._held: dict[str, set[str]] = {}  # claim key -> keys of pods that wait for it
        self._silent: set[str] = set()  # nodes that are cut off
        self._wake = asyncio.Event()
        self._gate = asyncio.Semaphore(WRITES)
        self._tasks: set[asyncio.Task[None]] = set()
        self.published = asyncio.Event()
        self.published_nodes = 0
        self._devices = True

    async def run(self) -> None:
        """Publish, then play until cancelled."""
        removers = []
        try:
            await self.publish()
            nodes = self._informers.of(Node)
            claims = self._informers.of(ResourceClaim)
            pods = self._informers.of(Pod)
            await nodes.synced.wait()
            await claims.synced.wait()
            await pods.synced.wait()
            removers.append(nodes.add_handler(self._node_seen, lambda _, new: self._node_seen(new), self._node_gone))
            removers.append(claims.add_handler(self._claim_seen, lambda _, new: self._claim_seen(new)))
            removers.append(pods.add_handler(self._pod_seen, lambda _, new: self._pod_seen(new), self._pod_gone))
            self._after(0, "heartbeats", self._heartbeats)
            await self._play()
        finally:
            for remove in removers:
                remove()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- nodes

    async def publish(self) -> None:
        """Nodes, slices and classes; what exists already (a restart) is left as it is. A server without DRA gets nodes alone."""
        try:
            for device_class in self._profile.device_classes():
                await self._create_or_keep(device_class)
        except StatusError as error:
            if error.code != 404:
                raise
            log.warning("the server has no resource.k8s.io/v1: nodes without devices")
            self._devices = False
        await asyncio.gather(*(self._publish_node(index, name) for index, name in enumerate(self.names)))
        self.published.set()

    async def _publish_node(self, index: int, name: str) -> None:
        async with self._gate:
            body = self._profile.node(name, index)
            body["status"]["conditions"] = self._conditions()
            body["status"]["nodeInfo"] = _node_info(body)
            body["status"]["addresses"] = [{"type": "Hostname", "address": name}]
            node = await self._create_or_keep(body, self._of(name))
            taints = (node.get("spec") or {}).get("taints") or []
            others = [taint for taint in taints if taint["key"] != NOT_READY]
            if len(others) < len(taints):
                await self._client.patch_plain(NODES, name, {"spec": {"taints": others or None}})
            slices = self._profile.slices(name, index, uid=node["metadata"]["uid"]) if self._devices else ()
            for slice_ in slices:
                await self._create_or_keep(slice_, self._of(name))
            self.published_nodes += 1
            await asyncio.sleep(0)  # in process nothing waits: let timers and signals in

    async def _create_or_keep(self, body: Plain, client: Client | None = None) -> Plain:
        resource, client = resource_of_plain(body), client or self._client
        try:
            return await client.create_plain(resource, body)
        except StatusError as error:
            if error.code != 409:
                raise
            return await client.get_plain(resource, body["metadata"]["name"])

    def _conditions(self) -> list[Plain]:
        now = timestamp(self._clock.now())
        healthy = [
            ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            ("Ready", "True", "KubeletReady", "simulated node is ready"),
        ]
        return [
            {"type": t, "status": s, "reason": r, "message": m, "lastHeartbeatTime": now, "lastTransitionTime": now}
            for t, s, r, m in healthy
        ]

    async def _heartbeats(self) -> None:
        """Every node renews its lease once per round; a round takes long enough to stay in the background."""
        interval = min(30.0, max(10.0, len(self.names) / 100))
        for name in self.names:
            await self._heartbeat(name)
            await asyncio.sleep(0)
        self._after(interval, "heartbeats", self._heartbeats)

    async def _heartbeat(self, name: str) -> None:
        node = self._informers.of(Node).get(name)
        if (
            node is None or name in self._silent
        ):  # one that was deleted comes back with the next start, as with a kubelet
            return
        await self._renew(name, node)
        if not _is_ready(node):  # taken for dead meanwhile: after a sleep of this machine, or of the process
            with suppress(StatusError):
                status = {"status": {"conditions": self._conditions()}}
                await self._of(name).patch_plain(NODES, name, status, kind="strategic", subresource="status")

    def _node_seen(self, node: Node) -> None:
        assert node.metadata is not None
        name = node.metadata.name or ""
        if name not in self._mine:
            return
        if (node.metadata.annotations or {}).get(SILENT) == "true":
            self._silent.add(name)
        elif name in self._silent:
            self._heard_again(name)

    def _node_gone(self, node: Node) -> None:
        assert node.metadata is not None
        self._silent.discard(node.metadata.name or "")

    def _heard_again(self, name: str) -> None:
        """What its pods missed is made up for."""
        self._silent.discard(name)
        self._after(0, f"heartbeat of {name}", lambda: self._heartbeat(name))
        for pod in self._informers.of(Pod).list():
            if pod.spec is not None and pod.spec.nodeName == name:
                self._pod_seen(pod)

    async def _renew(self, name: str, node: Node) -> None:
        now = micro_timestamp(self._clock.now())
        assert node.metadata is not None
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.metadata.uid}
        body: Plain = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": "kube-node-lease", "ownerReferences": [owner]},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now},
        }
        try:
            await self._of(name).patch_plain(
                LEASES, name, {"spec": {"renewTime": now}}, namespace="kube-node-lease", kind="merge"
            )
        except StatusError as error:
            if error.code != 404:
                log.warning("heartbeat of %s: %s", name, error)
                return
            with suppress(StatusError):
                await self._of(name).create_plain(LEASES, body, namespace="kube-node-lease")

    # -- time

    def _after(self, seconds: float, what: str, work: Callable[[], Awaitable[None]]) -> None:
        heappush(self._due, (self._clock.monotonic() + seconds, next(self._order), what, work))
        self._wake.set()

    async def _play(self) -> None:
        while True:
            now = self._clock.monotonic()
            while self._due and self._due[0][0] <= now:
                _, _, what, work = heappop(self._due)
                self._spawn(what, work)
            self._wake.clear()
            waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._wake.wait())]
            if self._due:
                waits.append(asyncio.ensure_future(self._clock.sleep(self._due[0][0] - now)))
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in waits:
                    each.cancel()

    def _plan(self, pod: Pod, step: str, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        """One step of the pod's life, at its time; not while its node is silent."""
        assert pod.metadata is not None
        assert pod.spec is not None
        uid, node = pod.metadata.uid or "", pod.spec.nodeName
        self._planned[uid] = step

        what = f"pod {_key(pod)}, {step}"

        async def unless_silent() -> None:
            if node not in self._silent:
                try:
                    await work()
                except StatusError as error:
                    if error.code not in (404, 409):
                        self._after(_RETRY, what, unless_silent)
                    raise
            elif self._planned.get(uid) == step:
                del self._planned[uid]  # planned anew when the node is heard again

        self._after(seconds, what, unless_silent)

    def _spawn(self, what: str, work: Callable[[], Awaitable[None]]) -> None:
        async def bounded() -> None:
            async with self._gate:
                try:
                    await work()
                except StatusError as error:
                    if error.code not in (404, 409):
                        log.warning("%s: %s", what, error)

        task = asyncio.get_running_loop().create_task(bounded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- pods

    def _pod_seen(self, pod: Pod) -> None:
        if pod.spec is None or pod.spec.nodeName not in self._mine or pod.metadata is None:
            return
        if pod.spec.nodeName in self._silent:
            return
        uid = pod.metadata.uid or ""
        if simulated_pods.belied(pod):
            self._spawn(f"pod {_key(pod)}, ready", lambda: self._say_ready(pod))
        step, planned = simulated_pods.next_step(pod, self._pod_seconds), self._planned.get(uid)
        if step is None or step.name == planned or (step.name == "start" and not self._may_start(pod)):
            return
        seconds = step.seconds
        if (
            planned is None and step.since is not None
        ):  # what a process before this one began, or what a silent node missed
            seconds = max(step.since + seconds - self._clock.now().timestamp(), 0.0)
        work = {"start": self._start, "finish": self._finish, "restart": self._restart, "end": self._end}
        self._plan(pod, step.name, seconds, lambda: work[step.name.split()[0]](pod))

    def _pod_gone(self, pod: Pod) -> None:
        if pod.metadata is not None:
            self._planned.pop(pod.metadata.uid or "", None)

    def _may_start(self, pod: Pod) -> bool:
        """All claims allocated and reserved for the pod; otherwise it waits for them, as on a real node."""
        for key in _claim_keys(pod):
            if key is None:
                return False  # the pod's status will tell the name
            claim = self._informers.of(ResourceClaim).get(key)
            if claim is None or not _is_reserved(claim, pod):
                self._held.setdefault(key, set()).add(_key(pod))
                return False
        return True

    def _claim_seen(self, claim: ResourceClaim) -> None:
        assert claim.metadata is not None
        for key in self._held.pop(f"{claim.metadata.namespace}/{claim.metadata.name}", ()):
            pod = self._informers.of(Pod).get(key)
            if pod is not None:
                self._pod_seen(pod)

    async def _start(self, pod: Pod) -> None:
        await self._patch(pod, simulated_pods.started(pod, self._clock.now().timestamp()))

    async def _say_ready(self, seen: Pod) -> None:
        pod = self._present(seen)
        if pod is not None and simulated_pods.belied(pod):
            await self._patch(pod, {"conditions": [simulated_pods.ready(pod, self._clock.now().timestamp())]})

    async def _finish(self, seen: Pod) -> None:
        pod = self._present(seen)
        if pod is not None:
            await self._patch(pod, simulated_pods.finished(pod, self._clock.now().timestamp()))

    async def _restart(self, seen: Pod) -> None:
        pod = self._present(seen)
        if pod is not None:
            await self._patch(pod, simulated_pods.restarted(pod, self._clock.now().timestamp()))

    def _present(self, seen: Pod) -> Pod | None:
        """The pod as it is now, unless it is gone or on its way."""
        assert seen.metadata is not None
        pod = self._informers.of(Pod).get(_key(seen))
        if pod is None or pod.metadata is None or pod.metadata.uid != seen.metadata.uid:
            return None
        return pod if pod.metadata.deletionTimestamp is None else None

    async def _end(self, pod: Pod) -> None:
        assert pod.metadata is not None
        if pod.metadata.finalizers and (pod.status is None or pod.status.phase not in ("Succeeded", "Failed")):
            # Somebody wants to know how it ended. Of others nobody could see it: they are gone with the next request.
            await self._patch(pod, simulated_pods.killed(pod, self._clock.now().timestamp()))
        name, namespace, uid = pod.metadata.name or "", pod.metadata.namespace, pod.metadata.uid or ""
        await self._own(pod).delete(Pod, name, namespace=namespace, uid=uid, grace_seconds=0)

    def _own(self, pod: Pod) -> Client:
        return self._of((pod.spec.nodeName if pod.spec else None) or "")

    async def _patch(self, pod: Pod, status: Plain) -> None:
        assert pod.metadata is not None
        # Conditions are merged by type: what a condition no longer has must be said.
        conditions = [{"reason": None, "message": None, **each} for each in status["conditions"]]
        await self._own(pod).patch_plain(
            PODS,
            pod.metadata.name or "",
            {"metadata": {"uid": pod.metadata.uid}, "status": {**status, "conditions": conditions}},
            namespace=pod.metadata.namespace,
            kind="strategic",
            subresource="status",
        )


def _key(pod: Pod) -> str:
    assert pod.metadata is not None
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def _is_ready(node: Node) -> bool:
    conditions = (node.status.conditions if node.status else None) or ()
    return any(condition.type == "Ready" and condition.status == "True" for condition in conditions)


def _claim_keys(pod: Pod) -> Iterable[str | None]:
    assert pod.metadata is not None
    assert pod.spec is not None
    names = {s.name: s.resourceClaimName for s in (pod.status.resourceClaimStatuses if pod.status else None) or ()}
    for entry in pod.spec.resourceClaims or ():
        if entry.resourceClaimName is not None:
            yield f"{pod.metadata.namespace}/{entry.resourceClaimName}"
        elif entry.name not in names:
            yield None
        elif names[entry.name] is not None:
            yield f"{pod.metadata.namespace}/{names[entry.name]}"
    extended = pod.status.extendedResourceClaimStatus if pod.status else None
    if extended is not None:
        yield f"{pod.metadata.namespace}/{extended.resourceClaimName}"


def _is_reserved(claim: ResourceClaim, pod: Pod) -> bool:
    assert pod.metadata is not None
    if claim.status is None or claim.status.allocation is None:
        return False
    group: Any = pod.spec.schedulingGroup if pod.spec else None
    for entry in claim.status.reservedFor or ():
        if entry.uid == pod.metadata.uid:
            return True
        if entry.resource == "podgroups" and group is not None and entry.name == group.podGroupName:
            return True
    return False


def _node_info(node: Plain) -> Plain:
    return {
        "architecture": node["metadata"]["labels"].get("kubernetes.io/arch", "amd64"),
        "bootID": "", "machineID": "", "systemUUID": "", "kernelVersion": "simulated",
        "containerRuntimeVersion": "simulated://1", "kubeProxyVersion": "", "kubeletVersion": "v1.37.0",
        "operatingSystem": "linux", "osImage": "simulated",
    }  # fmt: skip
