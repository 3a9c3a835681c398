"""Pod topology spread: how evenly the pods that a constraint selects lie over the values of a node label.

Upstream: plugins/podtopologyspread. `Spread.of` counts once per pod; `reject` and `score` then look up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lightkube.models.core_v1 import Pod, TopologySpreadConstraint
from lightkube.models.meta_v1 import LabelSelector

from drakit.scheduler.filters import HARD_EFFECTS
from drakit.scheduler.labels import LabelIndex, Pairs, asked, only
from drakit.scheduler.node_affinity import Choice
from drakit.scheduler.nodes import NodeInfo, Nodes
from drakit.scheduler.outcome import Rejection
from drakit.scheduler.pods import PodInfo, is_deleting
from drakit.scheduler.selectors import Labels, label_selector_matches, untolerated

PLUGIN = "PodTopologySpread"
REASON = "node(s) didn't match pod topology spread constraints"
FEW = 8  # expressions that are asked of pods one by one
MISMATCH = Rejection(PLUGIN, (REASON,), resolvable=True)
MISSING_LABEL = Rejection(PLUGIN, (f"{REASON} (missing required label)",))


@dataclass(slots=True)
class _Counted:
    constraint: TopologySpreadConstraint
    info: PodInfo
    choice: Choice
    keys: list[str]  # labels that a node needs to be counted
    selector: LabelSelector | None
    many: frozenset[str]  # labels that it looks at, if it has too many expressions to ask each of each pod
    counts: dict[str, int]  # topology value -> matching pods
    self_match: int
    minimum: int = 0
    _selected: dict[Pairs, bool] = field(default_factory=dict)

    def covers(self, node: NodeInfo) -> bool:
        return all(key in node.labels for key in self.keys) and _eligible(self.info, self.choice, node, self.constraint)

    def matches(self, other: PodInfo) -> bool:
        same = other.namespace == self.info.namespace and self._selects(other.labels)
        return same and not is_deleting(other.pod)

    def _selects(self, labels: Labels) -> bool:
        if not self.many:
            return label_selector_matches(self.selector, labels)
        kind = only(self.many, labels)
        if kind not in self._selected:
            self.judge([labels])
        return self._selected[kind]

    def judge(self, pods: Iterable[Labels]) -> None:
        """All of them at once."""
        kinds, index = list({only(self.many, labels): None for labels in pods}), LabelIndex()
        for number, kind in enumerate(kinds):
            index.add(number, dict(kind))
        selected = index.selected(self.selector)
        self._selected.update((kind, bool(selected >> number & 1)) for number, kind in enumerate(kinds))

    def find_minimum(self) -> None:
        few = len(self.counts) < (self.constraint.minDomains or 1)
        self.minimum = 0 if few else min(self.counts.values(), default=0)


@dataclass(slots=True)
class Spread:
    hard: list[_Counted]
    soft: list[_Counted]

    @classmethod
    def of(cls, info: PodInfo, nodes: Nodes, choice: Choice) -> Spread | None:
        constraints = (info.pod.spec.topologySpreadConstraints if info.pod.spec else None) or ()
        if not constraints:
            return None
        hard = [c for c in constraints if c.whenUnsatisfiable == "DoNotSchedule"]
        soft = [c for c in constraints if c.whenUnsatisfiable != "DoNotSchedule"]
        return cls(*([_count(info, nodes, choice, c, group) for c in group] for group in (hard, soft)))

    def count(self, other: PodInfo, node: NodeInfo, sign: int) -> None:
        """As if there were one pod more (or, with -1, one less) on the node; no scores are asked for then."""
        for counted in self.hard:
            if counted.matches(other) and counted.covers(node):
                counted.counts[node.labels[counted.constraint.topologyKey]] += sign
                counted.find_minimum()

    def reject(self, node: NodeInfo) -> Rejection | None:
        for counted in self.hard:
            value = node.labels.get(counted.constraint.topologyKey)
            if value is None:
                return MISSING_LABEL
            skew = counted.counts.get(value, 0) + counted.self_match - counted.minimum
            if skew > counted.constraint.maxSkew:
                return MISMATCH
        return None

    def score(self, node: NodeInfo) -> int:
        """Fewer matching pods in the node's domains is better; a node without the label is worst."""
        total = 0
        for counted in self.soft:
            value = node.labels.get(counted.constraint.topologyKey)
            if value is None:
                return 1 << 30
            total += counted.counts.get(value, 0)
        return total


def _selector(constraint: TopologySpreadConstraint, pod: Pod) -> LabelSelector | None:
    """The selector with `matchLabelKeys` filled in from the pod."""
    selector = constraint.labelSelector
    if selector is None or not constraint.matchLabelKeys:
        return selector
    labels = (pod.metadata.labels if pod.metadata else None) or {}
    own = {key: labels[key] for key in constraint.matchLabelKeys if key in labels}
    return LabelSelector(
        matchExpressions=selector.matchExpressions, matchLabels={**(selector.matchLabels or {}), **own}
    )


def _eligible(info: PodInfo, choice: Choice, node: NodeInfo, constraint: TopologySpreadConstraint) -> bool:
    spec = info.pod.spec
    assert spec is not None
    if (constraint.nodeAffinityPolicy or "Honor") == "Honor":
        if any(node.labels.get(key) != value for key, value in (spec.nodeSelector or {}).items()):
            return False
        if not choice.accepted >> node.slot & 1:
            return False
    if constraint.nodeTaintsPolicy == "Honor":
        return untolerated(node.taints, info.tolerations, HARD_EFFECTS) is None
    return True


def _count(
    info: PodInfo,
    nodes: Nodes,
    choice: Choice,
    constraint: TopologySpreadConstraint,
    together: Iterable[TopologySpreadConstraint],
) -> _Counted:
    selector = _selector(constraint, info.pod)
    matches_itself = int(label_selector_matches(selector, info.labels))
    keys = list(asked(selector))
    many = frozenset(keys if len(keys) > FEW else ())
    found = _Counted(constraint, info, choice, [c.topologyKey for c in together], selector, many, {}, matches_itself)
    covered = [node for node in nodes if found.covers(node)]
    if many:
        found.judge(pod.labels for node in covered for pod in node.pods.values() if pod.namespace == info.namespace)
    for node in covered:
        value = node.labels[constraint.topologyKey]
        found.counts[value] = found.counts.get(value, 0) + sum(map(found.matches, node.pods.values()))
    found.find_minimum()
    return found
