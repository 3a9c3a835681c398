"""Pod topology spread: how evenly the pods that a constraint selects lie over the values of a node label.

Upstream: plugins/podtopologyspread. `Spread.of` counts once per pod; `reject` and `score` then look up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lightkube.models.core_v1 import Pod, TopologySpreadConstraint
from lightkube.models.meta_v1 import LabelSelector

from drakit.scheduler.filters import HARD_EFFECTS, required_affinity
from drakit.scheduler.nodes import NodeInfo, Nodes
from drakit.scheduler.outcome import Rejection
from drakit.scheduler.pods import PodInfo, is_deleting
from drakit.scheduler.selectors import label_selector_matches, node_selector_matches, untolerated

PLUGIN = "PodTopologySpread"
REASON = "node(s) didn't match pod topology spread constraints"
MISMATCH = Rejection(PLUGIN, (REASON,), resolvable=True)
MISSING_LABEL = Rejection(PLUGIN, (f"{REASON} (missing required label)",))


@dataclass(slots=True)
class _Counted:
    constraint: TopologySpreadConstraint
    counts: dict[str, int]  # topology value -> matching pods
    self_match: int
    minimum: int


@dataclass(slots=True)
class Spread:
    hard: list[_Counted]
    soft: list[_Counted]

    @classmethod
    def of(cls, info: PodInfo, nodes: Nodes) -> Spread | None:
        constraints = (info.pod.spec.topologySpreadConstraints if info.pod.spec else None) or ()
        if not constraints:
            return None
        hard = [c for c in constraints if c.whenUnsatisfiable == "DoNotSchedule"]
        soft = [c for c in constraints if c.whenUnsatisfiable != "DoNotSchedule"]
        return cls([_count(info, nodes, c, hard) for c in hard], [_count(info, nodes, c, soft) for c in soft])

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


def _eligible(info: PodInfo, node: NodeInfo, constraint: TopologySpreadConstraint) -> bool:
    spec = info.pod.spec
    assert spec is not None
    if (constraint.nodeAffinityPolicy or "Honor") == "Honor":
        if any(node.labels.get(key) != value for key, value in (spec.nodeSelector or {}).items()):
            return False
        if not node_selector_matches(required_affinity(spec.affinity), node.labels, node.name):
            return False
    if constraint.nodeTaintsPolicy == "Honor":
        return untolerated(node.taints, info.tolerations, HARD_EFFECTS) is None
    return True


def _count(
    info: PodInfo, nodes: Nodes, constraint: TopologySpreadConstraint, together: Iterable[TopologySpreadConstraint]
) -> _Counted:
    selector = _selector(constraint, info.pod)
    keys = [c.topologyKey for c in together]
    counts: dict[str, int] = {}
    for node in nodes:
        if not all(key in node.labels for key in keys) or not _eligible(info, node, constraint):
            continue
        matching = sum(
            1
            for other in node.pods.values()
            if other.namespace == info.namespace
            and label_selector_matches(selector, other.labels)
            and not is_deleting(other.pod)
        )
        value = node.labels[constraint.topologyKey]
        counts[value] = counts.get(value, 0) + matching
    minimum = min(counts.values(), default=0)
    if len(counts) < (constraint.minDomains or 1):
        minimum = 0
    return _Counted(constraint, counts, int(label_selector_matches(selector, info.labels)), minimum)
