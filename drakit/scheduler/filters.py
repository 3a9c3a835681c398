"""The node filters: pod and node in, a Rejection or None out, with Kubernetes' texts.

`static` looks at what changes only with the Node object (name, unschedulable, taints, affinity); its verdicts are kept per pod
shape in `StaticFits`. `dynamic` looks at what pods take: ports and resources.
"""

from __future__ import annotations

from collections.abc import Collection

from lightkube.models.core_v1 import Taint

from drakit.scheduler.node_affinity import ANY, Choice, choose
from drakit.scheduler.nodes import PODS, Bits, NodeInfo, Nodes
from drakit.scheduler.outcome import Rejection
from drakit.scheduler.pods import PodInfo
from drakit.scheduler.selectors import untolerated

NODE_NAME = Rejection("NodeName", ("node(s) didn't match the requested node name",))
UNSCHEDULABLE = Rejection("NodeUnschedulable", ("node(s) were unschedulable",))
AFFINITY = Rejection("NodeAffinity", ("node(s) didn't match Pod's node affinity/selector",))
NOT_NAMED = Rejection("NodeAffinity", ("node(s) didn't satisfy plugin(s) [NodeAffinity]",))
PORTS = Rejection("NodePorts", ("node(s) didn't have free ports for the requested pod ports",), resolvable=True)
UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
HARD_EFFECTS = ("NoSchedule", "NoExecute")


def static(info: PodInfo, node: NodeInfo, choice: Choice) -> Rejection | None:
    spec = info.pod.spec
    assert spec is not None
    if not choice.named >> node.slot & 1:  # Kubernetes looks no further then
        return NOT_NAMED
    if spec.nodeName and spec.nodeName != node.name:
        return NODE_NAME
    if node.unschedulable and untolerated((UNSCHEDULABLE_TAINT,), info.tolerations, HARD_EFFECTS):
        return UNSCHEDULABLE
    if node.taints and (taint := untolerated(node.taints, info.tolerations, HARD_EFFECTS)):
        value = f"={taint.value}" if taint.value else ""
        return Rejection(
            "TaintToleration", ("node(s) had untolerated taint(s)",), details=f"taint {taint.key}{value}:{taint.effect}"
        )
    if spec.nodeSelector:
        labels = node.labels
        for key, value in spec.nodeSelector.items():
            if labels.get(key) != value:
                return AFFINITY
    return None if choice.accepted >> node.slot & 1 else AFFINITY


def fits_resources(info: PodInfo, node: NodeInfo, by_devices: Collection[str] = ()) -> bool:
    """The quick form of `resources`. `by_devices`: resources that a DeviceClass provides where the node offers none itself."""
    allocatable, requested = node.allocatable, node.requested
    if len(node.pods) >= allocatable.get(PODS, 0):
        return False
    for name, value in info.requests.items():
        offered = allocatable.get(name, 0)
        if value > offered - requested.get(name, 0) and not (name in by_devices and not offered):
            return False
    return True


def resources(info: PodInfo, node: NodeInfo, by_devices: Collection[str] = ()) -> Rejection | None:
    reasons, resolvable = [], True
    if len(node.pods) >= node.allocatable.get(PODS, 0):
        reasons.append("Too many pods")
    for name, value in info.requests.items():
        offered = node.allocatable.get(name, 0)
        if name in by_devices and not offered:
            continue
        if value > offered - node.requested.get(name, 0):
            reasons.append(f"Insufficient {name}")
            resolvable = resolvable and value <= offered
    if not reasons:
        return None
    return Rejection("NodeResourcesFit", tuple(reasons), resolvable)


def dynamic(info: PodInfo, node: NodeInfo, by_devices: Collection[str] = ()) -> Rejection | None:
    if info.ports and node.has_port_conflict(info.ports):
        return PORTS
    return resources(info, node, by_devices)


class StaticFits:
    """Which nodes each pod shape's static filters accept; follows node changes one slot at a time."""

    LIMIT = 512  # shapes remembered; the oldest unused go
    HISTORY = 1 << 16  # changes kept before everything is judged afresh

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._shapes: dict[object, _ShapeFits] = {}
        self._choices: dict[object, Choice] = {}  # by node affinity, while nodes keep their labels
        self._relabeled = nodes.relabeled
        self.evaluations = 0  # tests count these: work must not grow with the number of pods

    def of(self, info: PodInfo) -> _ShapeFits:
        if len(self._nodes.changes) > self.HISTORY:
            self._nodes.changes.clear()
            self._shapes.clear()
        fits = self._shapes.pop(info.static_shape, None)
        if fits is None:
            fits = _ShapeFits(len(self._nodes.changes))
            choice = self.choice(info)
            for node in self._nodes:
                self._judge(fits, info, node, choice)
            if len(self._shapes) >= self.LIMIT:
                del self._shapes[next(iter(self._shapes))]
        elif fits.seen != len(self._nodes.changes):
            choice = self.choice(info)
            for slot in set(self._nodes.changes[fits.seen :]):
                fits.forget(slot)
                node_or_none = self._nodes.slots[slot]
                if node_or_none is not None and node_or_none.node is not None:
                    self._judge(fits, info, node_or_none, choice)
            fits.seen = len(self._nodes.changes)
        self._shapes[info.static_shape] = fits
        return fits

    def choice(self, info: PodInfo) -> Choice:
        affinity = info.pod.spec.affinity if info.pod.spec else None
        if affinity is None or affinity.nodeAffinity is None:
            return ANY
        if self._relabeled != self._nodes.relabeled:
            self._choices.clear()
            self._relabeled = self._nodes.relabeled
        key = info.static_shape[2]
        if (known := self._choices.get(key)) is None:
            if len(self._choices) >= self.LIMIT:
                del self._choices[next(iter(self._choices))]
            known = self._choices[key] = choose(affinity.nodeAffinity, self._nodes)
        return known

    def rejection(self, info: PodInfo, node: NodeInfo) -> Rejection | None:
        return static(info, node, self.choice(info))

    def _judge(self, fits: _ShapeFits, info: PodInfo, node: NodeInfo, choice: Choice) -> None:
        self.evaluations += 1
        if (rejection := static(info, node, choice)) is None:
            fits.bits |= 1 << node.slot
        else:
            fits.rejections[node.slot] = rejection


class _ShapeFits:
    __slots__ = ("bits", "rejections", "seen")

    def __init__(self, seen: int) -> None:
        self.seen = seen
        self.bits: Bits = 0
        self.rejections: dict[int, Rejection] = {}

    def forget(self, slot: int) -> None:
        self.bits &= ~(1 << slot)
        self.rejections.pop(slot, None)
