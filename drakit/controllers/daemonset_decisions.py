"""What a DaemonSet decides, node by node (pkg/controller/daemon).

The roster remembers for each node what the set wants there and how it counts in the status. A pod or a node that changes is looked at
again, alone: the work is the same for 5 nodes and for 5,000. Only a new template looks at all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
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
from drakit.controllers.ripening import Ripening, ripe_at
from drakit.scheduler.selectors import node_selector_matches, untolerated

__all__ = ["GENERATION", "Fitting", "Roster", "Step", "decide", "next_status", "node_of", "tolerations"]

_EVERYWHERE = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
GENERATION = "deprecated.daemonset.template.generation"
_FIRST_BACKOFF, _LAST_BACKOFF = 1.0, 900.0


def tolerations(pod_spec: Plain) -> list[Plain]:
    """The template's, and those that let a daemon run where nothing else may: without end, whatever the template says of them."""
    wanted = list(pod_spec.get("tolerations") or ())
    keys = _EVERYWHERE + (
        (("node.kubernetes.io/network-unavailable", "NoSchedule"),) if pod_spec.get("hostNetwork") else ()
    )
    for key, effect in keys:
        entry = {"key": key, "operator": "Exists", "effect": effect}
        places = [place for place, each in enumerate(wanted) if _without_end(each) == entry]
        for place in places:
            wanted[place] = entry
        if not places:
            wanted.append(entry)
    return wanted


def _without_end(toleration: Plain) -> Plain:
    return {field: value for field, value in toleration.items() if value and field != "tolerationSeconds"}


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
    ended: list[Plain] = field(default_factory=list)  # pods that failed or succeeded: deleted, and made again
    wait: float | None = None  # seconds until a failed pod may be replaced


@dataclass(frozen=True, slots=True)
class Cell:
    """One node, as the set sees it."""

    create: bool = False
    delete: tuple[Plain, ...] = ()
    ended: tuple[Plain, ...] = ()
    counts: tuple[str, ...] = ()  # numbers of the status that the node adds one to, and some of our own (`_…`)
    update: str = ""  # where the node stands in an update: a key of Roster.updates
    ripe: float | None = None  # will change without an event then: a pod is ready, but not for minReadySeconds yet

    @property
    def acts(self) -> bool:
        return self.create or bool(self.delete) or bool(self.ended)


class Roster:
    """The pods and nodes of one DaemonSet, in one state of its spec."""

    def __init__(self, daemon_set: Plain, revision: str, nodes: Iterable[Plain], pods: Iterable[Plain]) -> None:
        strategy = spec(daemon_set).get("updateStrategy") or {}
        self.rolls = strategy.get("type", "RollingUpdate") == "RollingUpdate"
        rolling = (strategy.get("rollingUpdate") or {}) if self.rolls else {}
        self.revision = revision
        self.generation = daemon_set["metadata"].get("generation", 0)
        self.max_surge, self.max_unavailable = rolling.get("maxSurge", 0), rolling.get("maxUnavailable", 1)
        self.surges = scaled(self.max_surge, 100, up=True) > 0
        self.counts: Counter[str] = Counter()
        self.acting: dict[str, None] = {}
        # Nodes by what an update does there: `old` is to be replaced when there is room, `broken` at once, `replaced` has its new pod,
        # `unwanted` shall have none but may keep it until all others are well.
        self.updates: dict[str, dict[str, None]] = {"old": {}, "broken": {}, "replaced": {}, "unwanted": {}}
        self.ripening: Ripening[str] = Ripening()  # nodes
        self.revisions: Counter[str] = Counter()  # of all pods
        self.strangers: set[str] = set()  # pods that no longer match the selector
        # node -> how long to wait after its last failed pod, since when
        self._backoff: dict[str, tuple[float, datetime]] = {}
        self._template_generation = (daemon_set["metadata"].get("annotations") or {}).get(GENERATION)
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
        changed, self._changed = self._changed | dict.fromkeys(self.ripening.take(now)), {}
        for node in changed:
            old = self.cells.pop(node, None)
            if old is not None:
                self._count(node, old, -1)
                self.ripening.discard(node)
            if node in self._fits or node in self._pods:
                new = self.cells[node] = self._cell(node, now)
                self._count(node, new, 1)
                if new.ripe is not None:
                    self.ripening.put(node, new.ripe)

    def _count(self, node: str, cell: Cell, sign: int) -> None:
        for kind in cell.counts:
            self.counts[kind] += sign
        groups = (
            (self.acting, cell.acts),
            (self.updates.get(cell.update), bool(cell.update)),
        )
        for group, member in groups:
            if group is not None and member:
                if sign > 0:
                    group[node] = None
                else:
                    group.pop(node, None)

    def pods_on(self, node: str) -> list[Plain]:
        """The oldest first; without those that have ended and are being deleted."""
        pods = self._pods.get(node, {}).values()
        return sorted((pod for pod in pods if not (pod_finished(pod) and deleting(pod))), key=_age)

    def old_pods(self, node: str) -> list[Plain]:
        return [pod for pod in self.pods_on(node) if not deleting(pod) and not self.is_new(pod)]

    def is_new(self, pod: Plain) -> bool:
        generation = self._template_generation
        return revision_of_pod(pod) == self.revision or (
            generation is not None and labels(pod).get("pod-template-generation") == generation
        )

    def may_replace(self, node: str, now: datetime) -> float:
        """0 when a failed pod on the node may go now; else the seconds to wait. Twice as long each time."""
        delay, at = self._backoff.get(node, (0.0, now))
        left = delay - (now - at).total_seconds()
        if left > 0:
            return left
        rested = (now - at).total_seconds() > 2 * _LAST_BACKOFF
        self._backoff[node] = (_FIRST_BACKOFF if rested or not delay else min(2 * delay, _LAST_BACKOFF), now)
        return 0.0

    def _available(self, pod: Plain, now: datetime) -> bool:
        return pod_available(pod, self._minimum, now)

    def _cell(self, node: str, now: datetime) -> Cell:
        there = self.pods_on(node)
        if node not in self._fits:  # no such node: what has been scheduled is left to the pod garbage collector
            lost = tuple(pod for pod in there if not deleting(pod) and not spec(pod).get("nodeName"))
            return Cell(delete=lost if node else ())
        run, stay = self._fits[node]
        lasting = [pod for pod in there if not deleting(pod)]
        living = [pod for pod in lasting if not pod_finished(pod)]
        create, delete = run and not there, []
        if not create and not stay:
            delete = lasting
        elif not create:
            create = self.surges and run and not living
            delete = self._excess(living, now) if self.surges else living[1:]
        return Cell(
            create=create,
            delete=tuple(delete),
            ended=tuple(pod for pod in lasting if pod_finished(pod)) if stay else (),
            counts=(*self._numbers(run, there, now), *self._private_numbers(run, there, lasting, now)),
            update=self._standing(run, lasting, now),
            ripe=min(self._ripe_at(there, now), default=None),
        )

    def _ripe_at(self, pods: list[Plain], now: datetime) -> Iterator[float]:
        for pod in pods:
            if self._minimum and pod_ready(pod) and not self._available(pod, now):
                at = ripe_at(pod, self._minimum)
                if at is not None:
                    yield at

    def _excess(self, living: list[Plain], now: datetime) -> list[Plain]:
        """While surging a new pod may be beside an old one, as long as the old one is ready and the new one is not available."""
        new = [pod for pod in living if self.is_new(pod)]
        old = [pod for pod in living if not self.is_new(pod)]
        excess = [*new[1:], *old[1:]]
        if new and old and (not pod_ready(old[0]) or self._available(new[0], now)):
            excess.append(old[0])
        return excess

    def _numbers(self, run: bool, there: list[Plain], now: datetime) -> tuple[str, ...]:
        """What the node adds to the status: its oldest pod stands for it."""
        if not run:
            return ("numberMisscheduled",) if there else ()
        result = ["desiredNumberScheduled"]
        if there:
            result.append("currentNumberScheduled")
            if pod_ready(there[0]):
                result.append("numberReady")
                if self._available(there[0], now):
                    result.append("numberAvailable")
            if self.is_new(there[0]):
                result.append("updatedNumberScheduled")
        return tuple(result)

    def _private_numbers(self, run: bool, there: list[Plain], lasting: list[Plain], now: datetime) -> tuple[str, ...]:
        if not there and not run:
            return ()
        new = [pod for pod in lasting if self.is_new(pod)]
        old = [pod for pod in lasting if not self.is_new(pod)]
        clear = len(new) <= 1 and len(old) <= 1
        result = []
        if self.surges:
            if not clear or (new and old and not self._available(new[0], now)):
                result.append("_surging")
            if clear and any(self._available(pod, now) for pod in (old or new)):
                result.append("_available")
        elif not clear or len(new) == len(old) or not self._available((new or old)[0], now):
            result.append("_unavailable")
        return tuple(result)

    def _standing(self, run: bool, lasting: list[Plain], now: datetime) -> str:
        new = [pod for pod in lasting if self.is_new(pod)]
        old = [pod for pod in lasting if not self.is_new(pod)]
        if len(old) != 1 or len(new) > 1:
            return ""
        works = self._available(old[0], now)
        if not self.surges:
            return "" if new else "old" if works else "broken"
        if new:
            return "replaced" if self._available(new[0], now) else ""
        if not run:
            return "unwanted" if works else "replaced"
        return "old" if works else "broken"


def _age(pod: Plain) -> tuple[bool, str, str]:
    """Pods that have a node come first, then the oldest."""
    return not spec(pod).get("nodeName"), pod["metadata"].get("creationTimestamp") or "", name(pod)


def decide(roster: Roster, now: datetime) -> Step:
    roster.look(now)
    step = Step()
    for node in roster.acting:
        cell = roster.cells[node]
        if cell.create:
            step.create.append(node)
        step.delete += cell.delete
        for pod in cell.ended:
            wait = roster.may_replace(node, now) if status(pod)["phase"] == "Failed" else 0.0
            if wait > 0:
                step.wait = min(step.wait or wait, wait)
            else:
                step.ended.append(pod)
    if roster.rolls and not step.create and not step.delete and not step.ended:
        _update(step, roster)
    return step


def _update(step: Step, roster: Roster) -> None:
    """Replace pods of old revisions, as many at a time as the strategy allows."""

    def old_pods(nodes: Iterable[str]) -> list[Plain]:
        return [pod for node in nodes for pod in roster.old_pods(node)]

    wanted = roster.counts["desiredNumberScheduled"]
    if not roster.surges:
        limit = scaled(roster.max_unavailable, wanted, up=True) or min(1, wanted)
        room = max(0, limit - roster.counts["_unavailable"])
        step.delete += old_pods(roster.updates["broken"]) + old_pods(islice(roster.updates["old"], room))
        return
    room = max(0, scaled(roster.max_surge, wanted, up=True) - roster.counts["_surging"])
    spare = max(0, roster.counts["_available"] - wanted)
    step.create += [*roster.updates["broken"], *islice(roster.updates["old"], room)]
    step.delete += old_pods(roster.updates["replaced"]) + old_pods(islice(roster.updates["unwanted"], spare))


def next_status(daemon_set: Plain, roster: Roster, now: datetime) -> Plain:
    roster.look(now)
    always = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
    counts = {key: value for key, value in roster.counts.items() if not key.startswith("_")}
    counts["numberUnavailable"] = roster.counts["desiredNumberScheduled"] - roster.counts["numberAvailable"]
    result: Plain = {key: counts.get(key, 0) for key in always}
    result |= {key: value for key, value in counts.items() if value}
    result["observedGeneration"] = daemon_set["metadata"].get("generation", 0)
    old = status(daemon_set)
    for kept in ("conditions", "collisionCount"):
        if old.get(kept) is not None:
            result[kept] = old[kept]
    return result
