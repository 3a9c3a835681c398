"""What a DaemonSet decides, node by node (pkg/controller/daemon).

The roster remembers for each node what the set wants there and how it counts in the status. A pod or a node that changes is looked at
again, alone: the work is the same for 5 nodes and for 5,000. Only a new template looks at all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

from lightkube.models.core_v1 import Pod as PodModel
from lightkube.models.core_v1 import Taint, Toleration

from drakit.api.typed import from_plain
from drakit.controllers.objects import (
    Plain,
    deleting,
    key_of,
    labels,
    name,
    pod_available,
    pod_finished,
    pod_ready,
    spec,
    status,
)
from drakit.controllers.pods import scaled, selector_of
from drakit.controllers.revisions import revision_of_pod
from drakit.scheduler.selectors import node_selector_matches, untolerated

__all__ = ["Fitting", "Roster", "Step", "decide", "next_status", "node_of", "tolerations"]

_EVERYWHERE = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)


def tolerations(pod_spec: Plain) -> list[Plain]:
    """The template's, and those that let a daemon run where nothing else may."""
    wanted = list(pod_spec.get("tolerations") or ())
    keys = _EVERYWHERE + (
        (("node.kubernetes.io/network-unavailable", "NoSchedule"),) if pod_spec.get("hostNetwork") else ()
    )
    for key, effect in keys:
        entry = {"key": key, "operator": "Exists", "effect": effect}
        if entry not in wanted:
            wanted.append(entry)
    return wanted


class Fitting:
    """On which nodes the pods of a template belong."""

    def __init__(self, daemon_set: Plain) -> None:
        self._template = spec(daemon_set)["template"].get("spec") or {}
        pod = {"containers": [], "affinity": self._template.get("affinity"), "tolerations": tolerations(self._template)}
        model = from_plain(PodModel, {"metadata": {}, "spec": pod})
        assert model.spec is not None
        affinity = model.spec.affinity.nodeAffinity if model.spec.affinity else None
        self._required = affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity else None
        self._tolerated: list[Toleration] = list(model.spec.tolerations or ())

    def __call__(self, node: Plain) -> tuple[bool, bool]:
        """Whether a pod shall run on the node, and whether one that is there may stay."""
        node_labels = dict(labels(node))
        if self._template.get("nodeName") not in (None, "", name(node)):
            return False, False
        if any(node_labels.get(key) != value for key, value in (self._template.get("nodeSelector") or {}).items()):
            return False, False
        if not node_selector_matches(self._required, node_labels, name(node)):
            return False, False
        taints = [from_plain(Taint, taint) for taint in spec(node).get("taints") or ()]
        stays = untolerated(taints, self._tolerated, ("NoExecute",)) is None
        return stays and untolerated(taints, self._tolerated, ("NoSchedule", "NoExecute")) is None, stays


def node_of(pod: Plain) -> str:
    """The node of a daemon pod: bound, or named in the affinity it was made with."""
    if spec(pod).get("nodeName"):
        return str(spec(pod)["nodeName"])
    required = ((spec(pod).get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    for term in required.get("nodeSelectorTerms") or ():
        for entry in term.get("matchFields") or ():
            if entry["key"] == "metadata.name" and entry["operator"] == "In" and len(entry["values"]) == 1:
                return str(entry["values"][0])
    return ""


@dataclass(slots=True)
class Step:
    create: list[str] = field(default_factory=list)  # nodes
    delete: list[Plain] = field(default_factory=list)
    failed: list[Plain] = field(default_factory=list)  # pods that failed: deleted and made again


@dataclass(frozen=True, slots=True)
class Cell:
    """One node, as the set sees it."""

    create: bool = False
    delete: tuple[Plain, ...] = ()
    failed: tuple[Plain, ...] = ()
    counts: tuple[str, ...] = ()  # numbers of the status that the node adds one to, and `unavailable`
    update: str = ""  # where the node stands in an update: a key of Roster.updates
    ripening: bool = False  # will change without an event: a pod is ready, but not for minReadySeconds

    @property
    def acts(self) -> bool:
        return self.create or bool(self.delete) or bool(self.failed)


class Roster:
    """The pods and nodes of one DaemonSet, in one state of its spec."""

    def __init__(self, daemon_set: Plain, revision: str, nodes: Iterable[Plain], pods: Iterable[Plain]) -> None:
        rolling = (spec(daemon_set).get("updateStrategy") or {}).get("rollingUpdate") or {}
        self.revision = revision
        self.generation = daemon_set["metadata"].get("generation", 0)
        self.max_surge, self.max_unavailable = rolling.get("maxSurge", 0), rolling.get("maxUnavailable", 1)
        self.surges = scaled(self.max_surge, 100, up=True) > 0
        self.counts: Counter[str] = Counter()
        self.acting: dict[str, None] = {}
        self.updates: dict[str, dict[str, None]] = {"old": {}, "both": {}, "replaced": {}, "broken": {}}
        self.ripening: dict[str, None] = {}
        self.revisions: Counter[str] = Counter()  # of all pods
        self.strangers: set[str] = set()  # pods that no longer match the selector
        self._minimum = int(spec(daemon_set).get("minReadySeconds") or 0)
        self._selector = selector_of(daemon_set)
        self._fitting = Fitting(daemon_set)
        self._fits = {name(node): self._fitting(node) for node in nodes}
        self._pods: dict[str, dict[str, Plain]] = {}  # node -> pods by key
        self._where: dict[str, tuple[str, str]] = {}  # pod -> its node and revision
        self.cells: dict[str, Cell] = {}
        self._changed: dict[str, None] = dict.fromkeys(self._fits)
        for pod in pods:
            self.put(pod)

    # What changes.

    def put_node(self, node: Plain) -> bool:
        """True when the node is another now for this set."""
        fits = self._fitting(node)
        if self._fits.get(name(node)) == fits:
            return False
        self._fits[name(node)] = fits
        self._changed[name(node)] = None
        return True

    def remove_node(self, node: str) -> bool:
        self._changed[node] = None
        return self._fits.pop(node, None) is not None

    def put(self, pod: Plain) -> None:
        self.remove(pod)
        if not self._selector.matches(labels(pod)):
            self.strangers.add(key_of(pod))
            return
        node, revision = node_of(pod), revision_of_pod(pod)
        self._pods.setdefault(node, {})[key_of(pod)] = pod
        self._where[key_of(pod)] = (node, revision)
        self.revisions[revision] += 1
        self._changed[node] = None

    def remove(self, pod: Plain) -> None:
        key = key_of(pod)
        self.strangers.discard(key)
        if key not in self._where:
            return
        node, revision = self._where.pop(key)
        del self._pods[node][key]
        if not self._pods[node]:
            del self._pods[node]
        self.revisions[revision] -= 1
        if not self.revisions[revision]:
            del self.revisions[revision]
        self._changed[node] = None

    # What follows.

    def look(self, now: datetime) -> None:
        """Take in what has changed, and what time has changed."""
        changed, self._changed = {**self._changed, **self.ripening}, {}
        for node in changed:
            old = self.cells.pop(node, None)
            if old is not None:
                self._count(node, old, -1)
            if node in self._fits or node in self._pods:
                new = self.cells[node] = self._cell(node, now)
                self._count(node, new, 1)

    def _count(self, node: str, cell: Cell, sign: int) -> None:
        for kind in cell.counts:
            self.counts[kind] += sign
        groups = (
            (self.acting, cell.acts),
            (self.ripening, cell.ripening),
            (self.updates.get(cell.update), bool(cell.update)),
        )
        for group, member in groups:
            if group is not None and member:
                if sign > 0:
                    group[node] = None
                else:
                    group.pop(node, None)

    def pods_on(self, node: str) -> list[Plain]:
        return [*self._pods.get(node, {}).values()]

    def old_pods(self, node: str) -> list[Plain]:
        return [pod for pod in self.pods_on(node) if not deleting(pod) and revision_of_pod(pod) != self.revision]

    def _cell(self, node: str, now: datetime) -> Cell:
        there = self.pods_on(node)
        if node not in self._fits:  # no such node; pods that have none yet wait for the scheduler
            return Cell(delete=tuple(pod for pod in there if not deleting(pod)) if node else ())
        run, stay = self._fits[node]
        living = [pod for pod in there if not deleting(pod) and not pod_finished(pod)]
        delete: list[Plain] = []
        if not (run and not there):
            if not stay:
                delete = living
            elif len(living) > 1 and not self._surging(living):
                delete = sorted(living, key=_worth)[1:]
        ready = [pod for pod in there if pod_ready(pod)]
        return Cell(
            create=run and not there,
            delete=tuple(delete),
            failed=tuple(pod for pod in there if pod_finished(pod) and not deleting(pod)),
            counts=self._numbers(run, there, now),
            update=self._standing(there, now) if run else "",
            ripening=any(not pod_available(pod, self._minimum, now) for pod in ready),
        )

    def _surging(self, living: list[Plain]) -> bool:
        """While surging an old and a new pod share the node; otherwise the oldest stays."""
        return self.surges and len({revision_of_pod(pod) for pod in living}) == len(living) == 2

    def _numbers(self, run: bool, there: list[Plain], now: datetime) -> tuple[str, ...]:
        if not run:
            return ("numberMisscheduled",) if there else ()
        result = ["desiredNumberScheduled"]
        if there:
            result.append("currentNumberScheduled")
            oldest = min(there, key=lambda pod: (pod["metadata"].get("creationTimestamp") or "", name(pod)))
            shown = next((pod for pod in there if pod_ready(pod)), oldest)
            if pod_ready(shown):
                result.append("numberReady")
                if pod_available(shown, self._minimum, now):
                    result.append("numberAvailable")
            if any(revision_of_pod(pod) == self.revision for pod in there):
                result.append("updatedNumberScheduled")
        if not any(pod_available(pod, self._minimum, now) for pod in there if not deleting(pod)):
            result.append("unavailable")
        return tuple(result)

    def _standing(self, there: list[Plain], now: datetime) -> str:
        lasting = [pod for pod in there if not deleting(pod)]
        old = [pod for pod in lasting if revision_of_pod(pod) != self.revision]
        new = [pod for pod in lasting if revision_of_pod(pod) == self.revision]
        if not old:
            return ""
        if self.surges:
            if not new:
                return "old"
            return "replaced" if any(pod_available(pod, self._minimum, now) for pod in new) else "both"
        return "old" if any(pod_available(pod, self._minimum, now) for pod in lasting) else "broken"


def _worth(pod: Plain) -> tuple[bool, str, str]:
    """Of several pods on a node the first of these stays."""
    return not pod_ready(pod), pod["metadata"].get("creationTimestamp") or "", name(pod)


def decide(daemon_set: Plain, roster: Roster, now: datetime) -> Step:
    roster.look(now)
    step = Step()
    for node in roster.acting:
        cell = roster.cells[node]
        if cell.create:
            step.create.append(node)
        step.delete += cell.delete
        step.failed += cell.failed
    if not step.create and not step.delete:
        _update(step, daemon_set, roster)
    return step


def _update(step: Step, daemon_set: Plain, roster: Roster) -> None:
    """Replace pods of old revisions, as many at a time as the strategy allows."""
    if (spec(daemon_set).get("updateStrategy") or {}).get("type", "RollingUpdate") != "RollingUpdate":
        return
    nodes = roster.counts["desiredNumberScheduled"]
    if roster.surges:
        step.delete += [pod for node in roster.updates["replaced"] for pod in roster.old_pods(node)]
        room = scaled(roster.max_surge, nodes, up=True) - len(roster.updates["both"])
        step.create += islice(roster.updates["old"], max(0, room))
        return
    step.delete += [
        pod for node in roster.updates["broken"] for pod in roster.old_pods(node)
    ]  # they do not work anyway
    room = scaled(roster.max_unavailable, nodes, up=True) - roster.counts["unavailable"]
    step.delete += [pod for node in islice(roster.updates["old"], max(0, room)) for pod in roster.old_pods(node)]


def next_status(daemon_set: Plain, roster: Roster, now: datetime) -> Plain:
    roster.look(now)
    always = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
    counts = {**roster.counts}
    counts.pop("unavailable", None)
    counts["numberUnavailable"] = roster.counts["desiredNumberScheduled"] - roster.counts["numberAvailable"]
    result: Plain = {key: counts.get(key, 0) for key in always}
    result |= {key: value for key, value in counts.items() if value}
    result["observedGeneration"] = daemon_set["metadata"].get("generation", 0)
    old = status(daemon_set)
    for kept in ("conditions", "collisionCount"):
        if old.get(kept) is not None:
            result[kept] = old[kept]
    return result
