"""Pods that nobody will end: on nodes that are gone, deleted before they had a node, or finished long ago in great numbers."""

from __future__ import annotations

from lightkube.models.core_v1 import Node, Pod

from drakit.api.errors import StatusError
from drakit.client import resource_of
from drakit.controllers.loop import Context, ControlLoop
from drakit.controllers.objects import (
    Plain,
    conditions_patch,
    deleting,
    format_time,
    is_true,
    key_of,
    name,
    namespace,
    pod_finished,
    spec,
    status,
    uid,
)

__all__ = ["PodGarbageCollector"]

PODS, NODES = resource_of(Pod), resource_of(Node)
_WORKERS = 4
_QUARANTINE = 40.0  # a node object may come back
_PERIOD = 20.0
_FINISHED = "finished"  # the queue key for counting finished pods
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


class PodGarbageCollector:
    name = "pod-garbage-collector-controller"

    def __init__(self, context: Context) -> None:
        self._client, self._clock = context.client, context.clock
        self._threshold = context.terminated_pod_threshold
        self.loop = ControlLoop("podgc", self.reconcile, context, workers=_WORKERS)
        self._missing: dict[str, float] = {}  # node -> when we first missed it
        self._nodes = context.informers.plain(Node)
        self._pods = context.informers.plain(Pod)
        self._pods.add_index("node", lambda pod: (spec(pod)["nodeName"],) if spec(pod).get("nodeName") else ())
        self._pods.add_index("finished", lambda pod: ("yes",) if pod_finished(pod) else ())
        self._pods.add_handler(self._pod_changed, lambda _, pod: self._pod_changed(pod))
        self._nodes.add_handler(self._node_added, self._node_updated, self._node_removed)

    async def run(self) -> None:
        self.loop.add(_FINISHED)
        for node in self._pods.index_values("node"):  # pods may have come before the nodes were known
            if node not in self._nodes:
                self.loop.add(f"node:{node}")
        await self.loop.run()

    def _pod_changed(self, pod: Plain) -> None:
        node = spec(pod).get("nodeName")
        if not node:
            if deleting(pod):  # its workload may want to count it first, by what it was
                self.loop.add_after(f"pod:{key_of(pod)}", _PERIOD)
        elif node not in self._nodes:
            if self._nodes.synced.is_set():
                self.loop.add(f"node:{node}")
        elif self._lost(pod):
            self.loop.add(f"pod:{key_of(pod)}")

    def _lost(self, pod: Plain) -> bool:
        """Told to stop on a node that is out of service: nobody there will."""
        node = self._nodes.get(spec(pod).get("nodeName") or "")
        return deleting(pod) and node is not None and _out_of_service(node)

    def _node_added(self, node: Plain) -> None:
        self._missing.pop(name(node), None)
        self._node_updated(node, node)

    def _node_updated(self, _: Plain, node: Plain) -> None:
        if _out_of_service(node):
            self.loop.add(f"node:{name(node)}")

    def _node_removed(self, node: Plain) -> None:
        self.loop.add(f"node:{name(node)}")

    async def reconcile(self, key: str) -> float | None:
        if key == _FINISHED:
            await self._trim_finished()
            return _PERIOD
        kind, _, target = key.partition(":")
        if kind == "pod":
            pod = self._pods.get(target)
            if pod is not None and deleting(pod) and (not spec(pod).get("nodeName") or self._lost(pod)):
                await self._end(pod)
            return None
        return await self._reconcile_node(target)

    async def _reconcile_node(self, node_name: str) -> float | None:
        node = self._nodes.get(node_name)
        pods = self._pods.by_index("node", node_name)
        if node is not None:
            self._missing.pop(node_name, None)
            await self._end_all([pod for pod in pods if self._lost(pod)])
            return None
        if not pods:
            self._missing.pop(node_name, None)
            return None
        now = self._clock.monotonic()
        left = self._missing.setdefault(node_name, now) + _QUARANTINE - now
        if left > 0:
            return left
        try:
            await self._client.get_plain(NODES, node_name)
            return None
        except StatusError as error:
            if error.code != 404:
                raise
        await self._end_all(pods, "node no longer exists")
        self._missing.pop(node_name, None)
        return None

    async def _end_all(self, pods: list[Plain], cause: str = "") -> None:
        """One that cannot be ended must not save those that come after it."""
        failures: list[StatusError] = []
        for pod in pods:
            try:
                await self._end(pod, cause)
            except StatusError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    async def _end(self, pod: Plain, cause: str = "") -> None:
        """Mark it failed where it had not finished, then delete it at once."""
        try:
            if not pod_finished(pod):
                generation = pod["metadata"].get("generation", 0)
                new: Plain = {"phase": "Failed", "observedGeneration": generation}
                if cause:
                    target = {
                        "type": "DisruptionTarget",
                        "status": "True",
                        "reason": "DeletionByPodGC",
                        "message": f"PodGC: {cause}",
                        "lastTransitionTime": format_time(self._clock.now()),
                        "observedGeneration": generation,
                    }
                    new.update(conditions_patch(pod, [target]))
                patch = {"metadata": {"uid": uid(pod)}, "status": new}
                await self._client.patch_plain(
                    PODS, name(pod), patch, namespace=namespace(pod), kind="strategic", subresource="status"
                )
            answer = await self._client.delete(PODS, name(pod), namespace=namespace(pod), uid=uid(pod), grace_seconds=0)
        except StatusError as error:
            if error.code != 404:
                raise
            return
        self._pods.observe_deleted(key_of(pod), uid(pod), answer)

    async def _trim_finished(self) -> None:
        excess = self._pods.index_count("finished", "yes") - self._threshold
        if self._threshold <= 0 or excess <= 0:
            return
        finished = sorted(self._pods.by_index("finished", "yes"), key=_gone_first)
        await self._end_all(finished[:excess])


def _gone_first(pod: Plain) -> tuple[bool, str, str]:
    """Evicted pods tell nobody anything: they go before the results of workloads, then the oldest."""
    evicted = status(pod).get("phase") == "Failed" and status(pod).get("reason") == "Evicted"
    return not evicted, pod["metadata"].get("creationTimestamp") or "", name(pod)


def _out_of_service(node: Plain) -> bool:
    tainted = any(taint["key"] == OUT_OF_SERVICE for taint in spec(node).get("taints") or ())
    return tainted and not is_true(node, "Ready")
