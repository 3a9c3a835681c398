"""Which events may help which rejected pods: a pod waits for those only (upstream: EventsToRegister and QueueingHints).

Events are named after what changed; for each, the plugins whose rejection it may lift, and a question to the single pod.
"""

from __future__ import annotations

from drakit.scheduler import spread
from drakit.scheduler.affinity import PLUGIN as INTER_POD
from drakit.scheduler.claims import PLUGIN as DEVICES
from drakit.scheduler.filters import StaticFits
from drakit.scheduler.nodes import NodeInfo
from drakit.scheduler.pods import PodInfo
from drakit.scheduler.queue import SchedulingQueue, Waiting

NODE_PLUGINS = (
    "NodeName", "NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit",
    spread.PLUGIN, INTER_POD, DEVICES,
)  # fmt: skip
POD_GONE_PLUGINS = ("NodePorts", "NodeResourcesFit", spread.PLUGIN, INTER_POD)
POD_CAME_PLUGINS = (spread.PLUGIN, INTER_POD)
NO_NODES = "NoNodes"  # stands for a rejection by an empty cluster


def node_changed(queue: SchedulingQueue, static: StaticFits, node: NodeInfo, now: float) -> None:
    """A node came or changed in what filters look at: pods that its static filters accept may fit now."""
    queue.wake((*NODE_PLUGINS, NO_NODES), lambda waiting: static.rejection(waiting.info, node) is None, now)


def node_gone(queue: SchedulingQueue, now: float) -> None:
    queue.wake((spread.PLUGIN,), lambda waiting: True, now)  # fewer domains: the skew changes


def pod_gone(queue: SchedulingQueue, static: StaticFits, gone: PodInfo, node: NodeInfo | None, now: float) -> None:
    """A placed pod left (or finished): its room is free."""

    def helps(waiting: Waiting) -> bool:
        info = waiting.info
        if waiting.plugins & {spread.PLUGIN, INTER_POD}:
            return True
        if "NodePorts" in waiting.plugins and gone.ports:
            return True
        if "NodeResourcesFit" not in waiting.plugins:
            return False
        if node is not None and static.rejection(info, node) is not None:
            return False
        # The pod may have been one too many, or have held something that the other asks for.
        return not info.requests or bool(info.requests.keys() & gone.requests.keys()) or _was_full(node)

    queue.wake(POD_GONE_PLUGINS, helps, now)


def _was_full(node: NodeInfo | None) -> bool:
    return node is None or len(node.pods) + 1 >= node.allocatable.get("pods", 0)


def pod_came(queue: SchedulingQueue, now: float) -> None:
    """A pod was placed: others may want to be near it, or the spread changed."""
    queue.wake(POD_CAME_PLUGINS, lambda waiting: True, now)


def devices_changed(queue: SchedulingQueue, now: float) -> None:
    """A slice, class or taint rule changed, or an allocation was given back: any pod that lacked devices may have them now."""
    queue.wake((DEVICES,), lambda waiting: True, now)


def promise_over(queue: SchedulingQueue, now: float) -> None:
    """Devices or room that had been promised to another pod are open to all again, or what it left over is."""
    queue.wake((DEVICES, "NodeResourcesFit", "NodePorts"), lambda waiting: True, now)


def classes_changed(queue: SchedulingQueue, resources: set[str], now: float) -> None:
    """A class came or changed; with an extendedResourceName it also turns counts into devices."""
    queue.wake(
        (DEVICES, "NodeResourcesFit"),
        lambda w: DEVICES in w.plugins or bool(resources & w.info.requests.keys()),
        now,
    )
