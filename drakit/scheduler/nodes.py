"""The nodes and the pods on them, kept up to date one change at a time.

Each node has a slot number: sets of nodes are integers with one bit per slot, so that "fits the selector and has devices" is
one `&`. Bound and assumed pods count alike; an assumed pod is one whose binding is still being written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from lightkube.models.core_v1 import Node, Pod

from drakit.scheduler import labels
from drakit.scheduler.pods import PodInfo, Port, amounts, ports_conflict
from drakit.scheduler.selectors import Labels, node_labels

PODS = "pods"
Bits = labels.Bits


class NodeInfo:
    """One node: what it offers, what is taken, which pods it has."""

    __slots__ = (
        "allocatable", "labels", "name", "node", "nonzero_cpu", "nonzero_memory", "pods", "ports", "requested", "slot",
        "taints", "unschedulable",
    )  # fmt: skip

    def __init__(self, name: str, slot: int) -> None:
        self.name = name
        self.slot = slot
        self.node: Node | None = None  # None: pods are known to be here, the Node object is not
        self.labels: dict[str, str] = {}
        self.taints: tuple = ()  # type: ignore[type-arg] # of core/v1 Taint
        self.unschedulable = False
        self.allocatable: dict[str, int] = {}
        self.requested: dict[str, int] = {}
        self.nonzero_cpu = 0
        self.nonzero_memory = 0
        self.pods: dict[str, PodInfo] = {}  # by UID
        self.ports: Counter[Port] = Counter()

    def set_node(self, node: Node) -> bool:
        """Take over a new version; True if anything that filters look at changed."""
        labels = node_labels(node)
        taints = tuple(node.spec.taints or ()) if node.spec else ()
        unschedulable = bool(node.spec and node.spec.unschedulable)
        allocatable = amounts(node.status.allocatable) if node.status else {}
        changed = (
            self.node is None
            or labels != self.labels
            or taints != self.taints
            or unschedulable != self.unschedulable
            or allocatable != self.allocatable
        )
        self.node, self.labels, self.taints = node, labels, taints
        self.unschedulable, self.allocatable = unschedulable, allocatable
        return changed

    def add(self, info: PodInfo) -> None:
        self.pods[info.uid] = info
        requested = self.requested
        for name, value in info.requests.items():
            requested[name] = requested.get(name, 0) + value
        self.nonzero_cpu += info.nonzero[0]
        self.nonzero_memory += info.nonzero[1]
        if info.ports:
            self.ports.update(info.ports)

    def remove(self, uid: str) -> PodInfo | None:
        info = self.pods.pop(uid, None)
        if info is None:
            return None
        for name, value in info.requests.items():
            self.requested[name] -= value
        self.nonzero_cpu -= info.nonzero[0]
        self.nonzero_memory -= info.nonzero[1]
        if info.ports:
            self.ports -= Counter(info.ports)
        return info

    def has_port_conflict(self, ports: tuple[Port, ...]) -> bool:
        return any(ports_conflict(want, used) for want in ports for used in self.ports)


class Nodes:
    """All nodes by name and slot, all placed pods by UID."""

    def __init__(self) -> None:
        self.by_name: dict[str, NodeInfo] = {}
        self.slots: list[NodeInfo | None] = []
        self.present: Bits = 0  # nodes whose Node object exists
        self.labels = labels.LabelIndex()  # of those, by slot
        self.fields = labels.LabelIndex()  # what `matchFields` asks for: their names
        self.relabeled = 0  # moves whenever one of the two changes
        self.placed: dict[str, NodeInfo] = {}  # pod UID -> node
        self.anti_affinity: dict[str, tuple[PodInfo, NodeInfo]] = {}  # placed pods that repel others
        self.changes: list[int] = []  # slots whose static facts changed, in order; readers keep an offset
        self._free: list[int] = []

    def __len__(self) -> int:
        return self.present.bit_count()

    def __iter__(self) -> Iterator[NodeInfo]:
        return (info for info in self.slots if info is not None and info.node is not None)

    def of(self, bits: Bits) -> Iterator[NodeInfo]:
        while bits:
            low = bits & -bits
            info = self.slots[low.bit_length() - 1]
            if info is not None:
                yield info
            bits ^= low

    def bits(self, names: Iterator[str] | list[str] | set[str] | frozenset[str]) -> Bits:
        found = 0
        for name in names:
            if (info := self.by_name.get(name)) is not None:
                found |= 1 << info.slot
        return found

    # -- Node objects

    def set_node(self, node: Node) -> bool:
        assert node.metadata is not None
        assert node.metadata.name
        info = self._info(node.metadata.name)
        before = info.labels if info.node is not None else None
        if changed := info.set_node(node):
            self.changes.append(info.slot)
        if before != info.labels:
            self._relabel(info, before, info.labels)
        self.present |= 1 << info.slot
        return changed

    def remove_node(self, name: str) -> None:
        info = self.by_name.get(name)
        if info is None:
            return
        if info.node is not None:
            self._relabel(info, info.labels, None)
        info.node = None
        self.present &= ~(1 << info.slot)
        self.changes.append(info.slot)
        self._drop_if_empty(info)

    def _relabel(self, info: NodeInfo, before: Labels | None, after: Labels | None) -> None:
        """None: it is not there."""
        self.relabeled += 1
        if before is not None:
            self.labels.remove(info.slot, before)
            self.fields.remove(info.slot, {"metadata.name": info.name})
        if after is not None:
            self.labels.add(info.slot, after)
            self.fields.add(info.slot, {"metadata.name": info.name})

    # -- pods on nodes

    def place(self, info: PodInfo, node_name: str) -> None:
        """The pod is (or is about to be) on the node; replaces an earlier placement or version."""
        if (earlier := self.placed.get(info.uid)) is not None:
            earlier.remove(info.uid)
            if earlier.name != node_name:
                self._drop_if_empty(earlier)
        node = self._info(node_name)
        node.add(info)
        self.placed[info.uid] = node
        if repels(info.pod):
            self.anti_affinity[info.uid] = (info, node)

    def displace(self, uid: str) -> PodInfo | None:
        node = self.placed.pop(uid, None)
        self.anti_affinity.pop(uid, None)
        if node is None:
            return None
        info = node.remove(uid)
        self._drop_if_empty(node)
        return info

    def _info(self, name: str) -> NodeInfo:
        info = self.by_name.get(name)
        if info is None:
            slot = self._free.pop() if self._free else len(self.slots)
            info = NodeInfo(name, slot)
            self.by_name[name] = info
            if slot == len(self.slots):
                self.slots.append(info)
            else:
                self.slots[slot] = info
        return info

    def _drop_if_empty(self, info: NodeInfo) -> None:
        if info.node is None and not info.pods and self.by_name.get(info.name) is info:
            del self.by_name[info.name]
            self.slots[info.slot] = None
            self._free.append(info.slot)


def repels(pod: Pod) -> bool:
    affinity = pod.spec.affinity if pod.spec else None
    anti = affinity.podAntiAffinity if affinity else None
    return bool(anti and anti.requiredDuringSchedulingIgnoredDuringExecution)
