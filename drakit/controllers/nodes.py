"""Node lifecycle: nodes that stop reporting become Unknown; conditions become taints; pods of dead nodes are marked not ready.

Heartbeats are a Lease in kube-node-lease or the Ready condition; only our own clock measures how long nothing changed. Each node has its
own timer, so a heartbeat costs one cache entry. NoExecute taints are put on at a bounded rate per zone (`node_zones`), and not at all while
every node of all zones is down: then it is more likely us who are cut off (pkg/controller/nodelifecycle).
"""

from __future__ import annotations

import asyncio

from lightkube.models.coordination_v1 import Lease
from lightkube.models.core_v1 import Node, Pod

from drakit.api.errors import StatusError
from drakit.client import resource_of
from drakit.controllers.loop import Context, ControlLoop
from drakit.controllers.node_zones import Zones, zone_of
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
    uid,
)
from drakit.controllers.rates import TokenBucket

__all__ = ["NodeLifecycleController", "wanted_taints"]

NODES, PODS, LEASES = resource_of(Node), resource_of(Pod), resource_of(Lease)
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_CONDITION_TAINTS = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_EVICTING = {(NOT_READY, "NoExecute"): (UNREACHABLE, "NoExecute"), (UNREACHABLE, "NoExecute"): (NOT_READY, "NoExecute")}
_OURS = {(key, "NoSchedule") for key in (NOT_READY, UNREACHABLE, UNSCHEDULABLE, *_CONDITION_TAINTS.values())} | {
    *_EVICTING
}
_BETA_LABELS = {"kubernetes.io/os": "beta.kubernetes.io/os", "kubernetes.io/arch": "beta.kubernetes.io/arch"}
_UNKNOWN_TYPES = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_LEASES_IN = "kube-node-lease"
_WORKERS = 8
_GRACE = 50.0
_STARTUP_GRACE = 60.0
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
        self._zones = Zones()
        self._nodes = context.informers.plain(Node)
        self._leases = context.informers.plain(Lease, namespace=_LEASES_IN)
        self._pods = context.informers.plain(Pod)
        self._pods.add_index("node", lambda pod: (spec(pod)["nodeName"],) if spec(pod).get("nodeName") else ())
        self._nodes.add_handler(self._added, self._updated, self._removed)
        self._leases.add_handler(self._renewed, lambda _, lease: self._renewed(lease), self._lease_gone)

    async def run(self) -> None:
        await self.loop.run()

    def _added(self, node: Plain) -> None:
        self._tell(node, "RegisteredNode", "Registered Node {} in Controller")
        self._changed(node)

    def _tell(self, node: Plain, reason: str, text: str) -> None:
        self._recorder.event(_reference(node), "Normal", reason, f"Node {name(node)} event: {text.format(name(node))}")

    def _changed(self, node: Plain) -> None:
        up = is_true(node, "Ready")
        self._zones.put(name(node), node, up=up)
        if up:
            self._down.pop(name(node), None)
        else:
            self._down.setdefault(name(node), self._clock.monotonic())
        self.loop.add(name(node))

    def _updated(self, old: Plain, new: Plain) -> None:
        before, after = _heartbeat(old), _heartbeat(new)
        if before != after:
            self._seen[name(new)] = (self._clock.monotonic(), self._seen.get(name(new), (0, None))[1])
        if _looked_at(old) != _looked_at(new) or name(new) not in self._seen:
            self._changed(new)

    def _removed(self, node: Plain) -> None:
        self._tell(node, "RemovingNode", "Removing Node {} from Controller")
        self._seen.pop(name(node), None)
        self._down.pop(name(node), None)
        self._zones.remove(name(node))

    def _renewed(self, lease: Plain) -> None:
        node_name = name(lease)
        moment = spec(lease).get("renewTime")
        known = self._seen.get(node_name)
        if known is None or known[1] != moment:
            self._seen[node_name] = (self._clock.monotonic(), moment)
            node = self._nodes.get(node_name)
            if node is not None and (condition(node, "Ready") or {}).get("status") == "Unknown":
                self.loop.add(node_name)

    def _lease_gone(self, lease: Plain) -> None:
        if name(lease) not in self._nodes:
            self._seen.pop(name(lease), None)

    async def reconcile(self, key: str) -> float | None:
        node = self._nodes.get(key)
        if node is None:
            return None
        now = self._clock.monotonic()
        last, _ = self._seen.setdefault(key, (now, None))
        grace = _GRACE if condition(node, "Ready") is not None else _STARTUP_GRACE
        left = last + grace - now
        if left <= 0 and (condition(node, "Ready") or {}).get("status") != "Unknown":
            if await self._is_alive(key):
                left = grace
            else:
                node = await self._mark_unknown(node)
        wait = await self._taint(node)
        # Our own word; a kubelet that says False speaks for its pods.
        if (condition(node, "Ready") or {}).get("status") == "Unknown":
            await self._mark_pods(node)
        waits = [seconds for seconds in (wait, left if left > 0 else None) if seconds is not None]
        if key in self._down and self._zones.all_down:
            waits.append(_LOOK_AROUND)
        return min(waits, default=grace)

    async def _is_alive(self, key: str) -> bool:
        """Whether the server knows of a heartbeat that our cache, which may be behind, does not."""
        try:
            lease = await self._client.get_plain(LEASES, key, namespace=_LEASES_IN)
        except StatusError as error:
            if error.code != 404:
                raise
            return False
        moment = spec(lease).get("renewTime")
        known = self._seen.get(key)
        if known is None:
            return True  # the node is gone meanwhile: there is nothing to mark
        if moment == known[1]:
            return False
        self._seen[key] = (self._clock.monotonic(), moment)
        return True

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
        """Bring our taints and labels in line; NoExecute waits for its turn. Returns the seconds to wait."""
        present = spec(node).get("taints") or []
        have = {(taint["key"], taint["effect"]) for taint in present} & _OURS
        wanted = wanted_taints(node)
        if condition(node, "Ready") is None:
            wanted += [pair for pair in _EVICTING if pair in have]  # nobody has said anything yet
        if self._zones.all_down:  # more likely it is us who are cut off
            wanted = [pair for pair in wanted if pair not in _EVICTING]
        wait: float | None = None
        for pair in [pair for pair in wanted if pair in _EVICTING and have.isdisjoint((pair, _EVICTING[pair]))]:
            delay = self._may_evict(node)
            if delay > 0:
                wanted.remove(pair)
                wait = delay
        patch: Plain = {}
        if have != set(wanted):
            stamp = format_time(self._clock.now())
            kept = [each for each in present if (pair := (each["key"], each["effect"])) not in _OURS or pair in wanted]
            new = [
                {"key": key, "effect": effect, "timeAdded": stamp}
                for key, effect in wanted
                if (key, effect) not in have
            ]
            patch = {"spec": {"taints": [*kept, *new] or None}}
        if missing := _missing_labels(node):
            patch["metadata"] = {"labels": missing}
        if patch:
            version = node["metadata"]["resourceVersion"]
            patch["metadata"] = {**patch.get("metadata", {}), "uid": uid(node), "resourceVersion": version}
            self._nodes.observe(await self._client.patch_plain(NODES, name(node), patch))
        return wait

    def _may_evict(self, node: Plain) -> float:
        """0, or the seconds to wait before this node's pods may be driven away."""
        left = self._down.get(name(node), 0.0) + _LOOK_AROUND - self._clock.monotonic()
        if left > 0:
            return left  # see first whether the others are down too
        zone = zone_of(node)
        per_second = self._zones.per_second(zone)
        if not per_second:
            return _LOOK_AROUND
        bucket = self._buckets.get(zone)
        if bucket is None or bucket.per_second != per_second:
            before, bucket = bucket, TokenBucket(self._clock, per_second, 1)
            if before is not None and before.take() > 0:
                bucket.take()  # another rate is no reason to start anew
            self._buckets[zone] = bucket
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


def _missing_labels(node: Plain) -> dict[str, str]:
    """The old names of labels have the values of the new ones."""
    of = labels(node)
    return {old: of[new] for new, old in _BETA_LABELS.items() if new in of and of.get(old) != of[new]}


def _looked_at(node: Plain) -> object:
    return (condition(node, "Ready") or {}).get("status"), wanted_taints(node), spec(node).get("taints"), labels(node)


def _reference(node: Plain) -> Plain:
    return {"apiVersion": "v1", "kind": "Node", "name": name(node), "uid": uid(node)}


def _heartbeat(node: Plain) -> object:
    """Only the kubelet writes it: others that set conditions do not speak for the node."""
    ready = condition(node, "Ready")
    return ready is not None and (ready.get("lastHeartbeatTime"),)
