"""Node lifecycle: nodes that stop reporting become Unknown; conditions become taints; pods of dead nodes are marked not ready.

Heartbeats are a Lease in kube-node-lease or the Ready condition; only our own clock measures how long nothing changed. Each node has its
own timer, so a heartbeat costs one cache entry. NoExecute taints are put on at a bounded rate per zone, and not at all while every node
of all zones is down: then it is more likely us who are cut off (pkg/controller/nodelifecycle).
"""

from __future__ import annotations

import asyncio

from lightkube.models.coordination_v1 import Lease
from lightkube.models.core_v1 import Node, Pod

from drakit.api.errors import StatusError
from drakit.client import resource_of
from drakit.controllers.loop import Context, ControlLoop
from drakit.controllers.objects import (
    Plain,
    condition,
    conditions_patch,
    format_time,
    is_true,
    labels,
    name,
    namespace,
    spec,
    status,
    uid,
)
from drakit.controllers.rates import TokenBucket

__all__ = ["NodeLifecycleController", "wanted_taints"]

NODES, PODS = resource_of(Node), resource_of(Pod)
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_CONDITION_TAINTS = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_OURS = frozenset({NOT_READY, UNREACHABLE, UNSCHEDULABLE, *_CONDITION_TAINTS.values()})
_UNKNOWN_TYPES = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_WORKERS = 8
_GRACE = 50.0
_STARTUP_GRACE = 60.0
_EVICTIONS_PER_SECOND = 0.1
_LOOK_AROUND = 5.0


def wanted_taints(node: Plain) -> list[tuple[str, str]]:
    """(key, effect) of the taints that the node's conditions ask for."""
    wanted: list[tuple[str, str]] = []
    ready = condition(node, "Ready")
    state = ready["status"] if ready is not None else ""
    if state == "False":
        wanted += [(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]
    elif state == "Unknown":
        wanted += [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]
    for kind, key in _CONDITION_TAINTS.items():
        if is_true(node, kind):
            wanted.append((key, "NoSchedule"))
    if spec(node).get("unschedulable"):
        wanted.append((UNSCHEDULABLE, "NoSchedule"))
    return wanted


class NodeLifecycleController:
    name = "node-lifecycle-controller"

    def __init__(self, context: Context) -> None:
        self._client, self._clock = context.client, context.clock
        self._recorder = context.recorder("node-controller")
        self.loop = ControlLoop("node_lifecycle", self.reconcile, context, workers=_WORKERS)
        self._seen: dict[str, tuple[float, object]] = {}  # node -> when its heartbeat last changed, and to what
        self._buckets: dict[str, TokenBucket] = {}
        self._down: dict[str, float] = {}  # nodes that are not ready, and since when
        self._nodes = context.informers.plain(Node)
        self._leases = context.informers.plain(Lease, namespace="kube-node-lease")
        self._pods = context.informers.plain(Pod)
        self._pods.add_index("node", lambda pod: (spec(pod)["nodeName"],) if spec(pod).get("nodeName") else ())
        self._nodes.add_index("zone", lambda node: (_zone(node),))
        self._nodes.add_handler(self._added, self._updated, self._removed)
        self._leases.add_handler(self._renewed, lambda _, lease: self._renewed(lease))

    async def run(self) -> None:
        await self.loop.run()

    def _added(self, node: Plain) -> None:
        self._tell(node, "RegisteredNode", "Registered Node {} in Controller")
        self._changed(node)

    def _tell(self, node: Plain, reason: str, text: str) -> None:
        self._recorder.event(_reference(node), "Normal", reason, f"Node {name(node)} event: {text.format(name(node))}")

    def _changed(self, node: Plain) -> None:
        if is_true(node, "Ready"):
            self._down.pop(name(node), None)
        else:
            self._down.setdefault(name(node), self._clock.monotonic())
        self.loop.add(name(node))

    def _updated(self, old: Plain, new: Plain) -> None:
        before, after = _heartbeat(old), _heartbeat(new)
        if before != after:
            self._seen[name(new)] = (self._clock.monotonic(), self._seen.get(name(new), (0, None))[1])
        if (wanted_taints(old), spec(old).get("taints")) != (wanted_taints(new), spec(new).get("taints")) or name(
            new
        ) not in self._seen:
            self._changed(new)

    def _removed(self, node: Plain) -> None:
        self._tell(node, "RemovingNode", "Removing Node {} from Controller")
        self._seen.pop(name(node), None)
        self._down.pop(name(node), None)

    def _renewed(self, lease: Plain) -> None:
        node_name = name(lease)
        moment = spec(lease).get("renewTime")
        known = self._seen.get(node_name)
        if known is None or known[1] != moment:
            self._seen[node_name] = (self._clock.monotonic(), moment)
            node = self._nodes.get(node_name)
            if node is not None and (condition(node, "Ready") or {}).get("status") == "Unknown":
                self.loop.add(node_name)

    async def reconcile(self, key: str) -> float | None:
        node = self._nodes.get(key)
        if node is None:
            return None
        now = self._clock.monotonic()
        last, _ = self._seen.setdefault(key, (now, None))
        grace = _GRACE if condition(node, "Ready") is not None else _STARTUP_GRACE
        left = last + grace - now
        if left <= 0 and (condition(node, "Ready") or {}).get("status") != "Unknown":
            node = await self._mark_unknown(node)
        wait = await self._taint(node)
        if (condition(node, "Ready") or {}).get(
            "status"
        ) == "Unknown":  # our word; a kubelet that says False speaks for its pods
            await self._mark_pods(node)
        waits = [seconds for seconds in (wait, left if left > 0 else None) if seconds is not None]
        if name(node) in self._down and len(self._down) >= len(self._nodes):
            waits.append(_LOOK_AROUND)
        return min(waits, default=grace)

    async def _mark_unknown(self, node: Plain) -> Plain:
        stamp = format_time(self._clock.now())
        entries = []
        for kind in _UNKNOWN_TYPES:
            known = condition(node, kind)
            if known is not None and known["status"] == "Unknown":
                continue
            never = known is None
            entries.append(
                {
                    "type": kind,
                    "status": "Unknown",
                    "reason": "NodeStatusNeverUpdated" if never else "NodeStatusUnknown",
                    "message": "Kubelet never posted node status." if never else "Kubelet stopped posting node status.",
                    "lastHeartbeatTime": (known or {}).get("lastHeartbeatTime")
                    or node["metadata"].get("creationTimestamp"),
                    "lastTransitionTime": stamp,
                }
            )
        patch = {"metadata": {"uid": uid(node)}, "status": conditions_patch(node, entries)}
        patched = await self._client.patch_plain(NODES, name(node), patch, kind="strategic", subresource="status")
        self._nodes.observe(patched)
        if is_true(node, "Ready"):
            text = f"Node {name(node)} status is now: NodeNotReady"
            self._recorder.event(_reference(node), "Normal", "NodeNotReady", text)
        return patched

    async def _taint(self, node: Plain) -> float | None:
        """Bring our taints in line; NoExecute waits for its turn. Returns the seconds to wait."""
        present = spec(node).get("taints") or []
        wanted = wanted_taints(node)
        if len(self._down) >= len(self._nodes):  # everything is down: more likely it is us who are cut off
            wanted = [pair for pair in wanted if pair[1] != "NoExecute"]
        have = {(taint["key"], taint["effect"]) for taint in present if taint["key"] in _OURS}
        wait: float | None = None
        for pair in [pair for pair in wanted if pair[1] == "NoExecute" and pair not in have]:
            delay = self._may_evict(node)
            if delay > 0:
                wanted.remove(pair)
                wait = delay
        if have == set(wanted):
            return wait
        stamp = format_time(self._clock.now())
        kept = [taint for taint in present if taint["key"] not in _OURS or (taint["key"], taint["effect"]) in wanted]
        new = [
            {"key": key, "effect": effect, "timeAdded": stamp} for key, effect in wanted if (key, effect) not in have
        ]
        patch = {
            "metadata": {"uid": uid(node), "resourceVersion": node["metadata"]["resourceVersion"]},
            "spec": {"taints": [*kept, *new] or None},
        }
        self._nodes.observe(await self._client.patch_plain(NODES, name(node), patch))
        return wait

    def _may_evict(self, node: Plain) -> float:
        """0, or the seconds to wait before this node's pods may be driven away."""
        left = self._down.get(name(node), 0.0) + _LOOK_AROUND - self._clock.monotonic()
        if left > 0:
            return left  # see first whether the others are down too
        bucket = self._buckets.setdefault(_zone(node), TokenBucket(self._clock, _EVICTIONS_PER_SECOND, 1))
        return bucket.take()

    async def _mark_pods(self, node: Plain) -> None:
        """What ran there is not known to be ready any more."""
        ready = [pod for pod in self._pods.by_index("node", name(node)) if is_true(pod, "Ready")]
        await asyncio.gather(*(self._mark_pod(pod) for pod in ready))

    async def _mark_pod(self, pod: Plain) -> None:
        known = condition(pod, "Ready") or {}
        entry = {**known, "type": "Ready", "status": "False", "lastTransitionTime": format_time(self._clock.now())}
        patch = {"metadata": {"uid": uid(pod)}, "status": conditions_patch(pod, [entry])}
        try:
            patched = await self._client.patch_plain(
                PODS, name(pod), patch, namespace=namespace(pod), kind="strategic", subresource="status"
            )
        except StatusError as error:
            if error.code != 404:
                raise
            return
        self._pods.observe(patched)
        self._recorder.event(pod, "Warning", "NodeNotReady", "Node is not ready")


def _zone(node: Plain) -> str:
    return labels(node).get("topology.kubernetes.io/zone", "")


def _reference(node: Plain) -> Plain:
    return {"apiVersion": "v1", "kind": "Node", "name": name(node), "uid": uid(node)}


def _heartbeat(node: Plain) -> object:
    return [
        (entry["type"], entry.get("status"), entry.get("lastHeartbeatTime"), entry.get("reason"))
        for entry in status(node).get("conditions") or ()
    ]
