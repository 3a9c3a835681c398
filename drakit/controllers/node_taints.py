"""Pods leave nodes with NoExecute taints that they do not tolerate, or not for longer (pkg/controller/tainteviction)."""

from __future__ import annotations

from datetime import datetime

from lightkube.models.core_v1 import Node, Pod, Taint, Toleration

from drakit.api.typed import from_plain
from drakit.controllers.loop import Context, ControlLoop
from drakit.controllers.objects import Plain, bound_at, deleting, format_time, key_of, name, parse_time, spec, uid
from drakit.controllers.pods import evict_pod
from drakit.scheduler.selectors import tolerates

__all__ = ["NodeTaintController", "evicted_in"]

_WORKERS = 8
_SLACK = 0.1  # seconds: what rounding makes of a date


def evicted_in(pod: Plain, taints: list[Plain], now: datetime) -> float | None:
    """Seconds until the pod has to leave; None when it may stay for good.

    Of the tolerations that match a taint the first counts. Time runs from when the taint was added, or from now where it does not
    say (as those of kubectl), but for no pod from before it was on the node.
    """
    bound = bound_at(pod)
    tolerations = [from_plain(Toleration, each) for each in spec(pod).get("tolerations") or ()]
    waits: list[float] = []
    for plain in taints:
        taint = from_plain(Taint, plain)
        first = next((each for each in tolerations if tolerates(each, taint)), None)
        if first is None:
            return 0.0
        if first.tolerationSeconds is not None:
            since = parse_time(plain["timeAdded"]) if plain.get("timeAdded") else now
            since = max(since, bound) if bound is not None else since
            passed = max(
                0.0, (now - since).total_seconds()
            )  # clocks may disagree; nobody may stay for longer than asked
            waits.append(max(0.0, first.tolerationSeconds - passed))
    return min(waits, default=None)


class NodeTaintController:
    name = "taint-eviction-controller"

    def __init__(self, context: Context) -> None:
        self._client, self._clock = context.client, context.clock
        self._recorder = context.recorder(self.name)
        self.loop = ControlLoop("taint_eviction", self.reconcile, context, workers=_WORKERS)
        # UIDs of pods that wait for their eviction, and when that is, on our own clock.
        self._marked: dict[str, float] = {}
        self._deletions = context.metrics.counter(
            "taint_eviction_controller_pod_deletions_total",
            "Total number of Pods deleted by TaintEvictionController since its start",
        )
        self._nodes, self._pods = context.informers.plain(Node), context.informers.plain(Pod)
        self._pods.add_index("node", lambda pod: (spec(pod)["nodeName"],) if spec(pod).get("nodeName") else ())
        self._nodes.add_handler(self._node_added, self._node_updated)
        self._pods.add_handler(self._pod_changed, self._pod_updated, self._pod_removed)

    async def run(self) -> None:
        await self.loop.run()

    def _node_added(self, node: Plain) -> None:
        if _evicting(node) or self._marked:  # made anew, a node may be without the taints that pods waited for
            self._enqueue_pods(node)

    def _node_updated(self, old: Plain, new: Plain) -> None:
        if _evicting(old) != _evicting(new):
            self._enqueue_pods(new)

    def _enqueue_pods(self, node: Plain) -> None:
        for key in self._pods.index_keys("node", name(node)):
            self.loop.add(key)

    def _pod_changed(self, pod: Plain) -> None:
        node = self._nodes.get(spec(pod).get("nodeName") or "")
        if node is not None and _evicting(node):
            self.loop.add(key_of(pod))

    def _pod_removed(self, pod: Plain) -> None:
        if self._marked.pop(uid(pod), 0.0) - self._clock.monotonic() > _SLACK:
            self._tell_cancelled(pod)

    def _tell_cancelled(self, pod: Plain) -> None:
        self._recorder.event(pod, "Normal", "TaintManagerEviction", f"Cancelling deletion of Pod {key_of(pod)}")

    def _pod_updated(self, old: Plain, new: Plain) -> None:
        if (spec(old).get("nodeName"), spec(old).get("tolerations")) != (
            spec(new).get("nodeName"),
            spec(new).get("tolerations"),
        ):
            self._pod_changed(new)

    async def reconcile(self, key: str) -> float | None:
        pod = self._pods.get(key)
        if pod is None or deleting(pod):
            return None
        now, due = self._clock.monotonic(), self._marked.get(uid(pod))
        wait = self._wait(pod)
        if wait:
            # As long as all taints are tolerated the first date stands, whatever taints come after.
            due = self._marked.setdefault(uid(pod), now + wait)
            if due > now:
                return due - now
        elif due is not None and due - now > _SLACK:
            self._tell_cancelled(pod)
        if wait is None:
            self._marked.pop(uid(pod), None)
            return None
        self._recorder.event(pod, "Normal", "TaintManagerEviction", f"Marking for deletion Pod {key}")
        stamp = format_time(self._clock.now())
        if await evict_pod(
            self._client, pod, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint", stamp
        ):
            self._deletions.inc()
        self._marked.pop(uid(pod), None)
        return None

    def _wait(self, pod: Plain) -> float | None:
        """Seconds until the pod has to leave; None when it may stay."""
        node = self._nodes.get(spec(pod).get("nodeName") or "")
        if node is not None:
            taints = _evicting(node)
            return evicted_in(pod, taints, self._clock.now()) if taints else None
        due = self._marked.get(uid(pod))  # a node that is gone takes no taints back
        return None if due is None else max(0.0, due - self._clock.monotonic())


def _evicting(node: Plain) -> list[Plain]:
    return [taint for taint in spec(node).get("taints") or () if taint.get("effect") == "NoExecute"]
