"""Inter-pod affinity and anti-affinity: near to, or away from, pods with certain labels (upstream: plugins/interpodaffinity).

A pod is also kept away by pods that already run and repel it. `Neighbours.of` counts once per pod; pods without such rules in
a cluster where no pod repels others cost nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from lightkube.models.core_v1 import PodAffinityTerm
from lightkube.models.meta_v1 import LabelSelector, LabelSelectorRequirement

from drakit.scheduler.nodes import NodeInfo, Nodes, repels
from drakit.scheduler.outcome import Rejection
from drakit.scheduler.pods import PodInfo
from drakit.scheduler.selectors import Labels, label_selector_matches

PLUGIN = "InterPodAffinity"
EXISTING = Rejection(PLUGIN, ("node(s) didn't satisfy existing pods anti-affinity rules",), resolvable=True)
UNMET = Rejection(PLUGIN, ("node(s) didn't match pod affinity rules",))
REPELLED = Rejection(PLUGIN, ("node(s) didn't match pod anti-affinity rules",), resolvable=True)

Topology = tuple[str, str]  # node label and its value
NamespaceLabels = Mapping[str, Labels]


@dataclass(slots=True)
class Neighbours:
    info: PodInfo
    namespaces: NamespaceLabels
    affinity: list[PodAffinityTerm]
    affinity_counts: Counter[Topology]
    attracts_itself: bool
    anti: list[PodAffinityTerm]
    anti_counts: Counter[Topology]
    existing: Counter[Topology]
    wanted: list[tuple[int, PodAffinityTerm]]  # with weights, negative for what is not wanted
    preference: Counter[Topology]

    @classmethod
    def of(cls, info: PodInfo, nodes: Nodes, namespaces: NamespaceLabels) -> Neighbours | None:
        rules = info.pod.spec.affinity if info.pod.spec else None
        near = (rules.podAffinity if rules else None) or None
        away = (rules.podAntiAffinity if rules else None) or None
        if near is None and away is None and not nodes.anti_affinity:
            return None
        affinity = [_own(t, info) for t in (near and near.requiredDuringSchedulingIgnoredDuringExecution) or ()]
        anti = [_own(t, info) for t in (away and away.requiredDuringSchedulingIgnoredDuringExecution) or ()]
        wanted = [
            (sign * each.weight, _own(each.podAffinityTerm, info))
            for sign, rule in ((1, near), (-1, away))
            for each in (rule and rule.preferredDuringSchedulingIgnoredDuringExecution) or ()
        ]
        itself = bool(affinity) and all(term_matches(t, info, info, namespaces) for t in affinity)
        found = cls(info, namespaces, affinity, Counter(), itself, anti, Counter(), Counter(), wanted, Counter())
        for other, node in nodes.anti_affinity.values():
            found._count_repelling(other, node, 1)
        if affinity or anti or wanted:
            for node in nodes:
                for other in node.pods.values():
                    found._count_placed(other, node, 1)
        return found

    def count(self, other: PodInfo, node: NodeInfo, sign: int) -> None:
        """As if there were one pod more (or, with -1, one less) on the node."""
        if repels(other.pod):
            self._count_repelling(other, node, sign)
        self._count_placed(other, node, sign)

    def _count_repelling(self, other: PodInfo, node: NodeInfo, sign: int) -> None:
        rules = other.pod.spec.affinity.podAntiAffinity if other.pod.spec and other.pod.spec.affinity else None
        for term in (rules and rules.requiredDuringSchedulingIgnoredDuringExecution) or ():
            if term_matches(_own(term, other), other, self.info, self.namespaces):
                _add(self.existing, [term], node, sign)

    def _count_placed(self, other: PodInfo, node: NodeInfo, sign: int) -> None:
        info, namespaces = self.info, self.namespaces
        if self.affinity and all(term_matches(t, info, other, namespaces) for t in self.affinity):
            _add(self.affinity_counts, self.affinity, node, sign)
        for term in self.anti:
            if term_matches(term, info, other, namespaces):
                _add(self.anti_counts, [term], node, sign)
        for weight, term in self.wanted:
            if term_matches(term, info, other, namespaces):
                _add(self.preference, [term], node, sign * weight)

    def reject(self, node: NodeInfo) -> Rejection | None:
        if self.affinity and not self._attracted(node):
            return UNMET
        if any(self._at(self.anti_counts, term.topologyKey, node) for term in self.anti):
            return REPELLED
        if self.existing and any(self.existing.get(pair) for pair in node.labels.items()):
            return EXISTING
        return None

    def _attracted(self, node: NodeInfo) -> bool:
        if any(term.topologyKey not in node.labels for term in self.affinity):
            return False
        if all(self._at(self.affinity_counts, term.topologyKey, node) for term in self.affinity):
            return True
        # The first pod of a group that attracts itself has nobody to join yet.
        return not self.affinity_counts and self.attracts_itself

    def score(self, node: NodeInfo) -> int:
        return sum(self.preference.get(pair, 0) for pair in node.labels.items()) if self.preference else 0

    @staticmethod
    def _at(counts: Counter[Topology], key: str, node: NodeInfo) -> int:
        value = node.labels.get(key)
        return counts.get((key, value), 0) if value is not None else 0


def _add(counts: Counter[Topology], terms: list[PodAffinityTerm], node: NodeInfo, weight: int) -> None:
    for term in terms:
        value = node.labels.get(term.topologyKey)
        if value is not None:
            counts[(term.topologyKey, value)] += weight
            if not counts[(term.topologyKey, value)]:
                del counts[(term.topologyKey, value)]


def _own(term: PodAffinityTerm, owner: PodInfo) -> PodAffinityTerm:
    """The term with matchLabelKeys and mismatchLabelKeys taken from its owner's labels."""
    if not term.matchLabelKeys and not term.mismatchLabelKeys:
        return term
    base = term.labelSelector or LabelSelector()
    extra = [
        LabelSelectorRequirement(key=key, operator=operator, values=[owner.labels[key]])
        for operator, keys in (("In", term.matchLabelKeys), ("NotIn", term.mismatchLabelKeys))
        for key in keys or ()
        if key in owner.labels
    ]
    selector = LabelSelector(matchLabels=base.matchLabels, matchExpressions=[*(base.matchExpressions or ()), *extra])
    return PodAffinityTerm(
        topologyKey=term.topologyKey,
        labelSelector=selector,
        namespaces=term.namespaces,
        namespaceSelector=term.namespaceSelector,
    )


def term_matches(term: PodAffinityTerm, owner: PodInfo, other: PodInfo, namespaces: NamespaceLabels) -> bool:
    """Does the owner's term select the other pod? Without namespaces or selector, only pods of the owner's namespace."""
    if term.namespaces or term.namespaceSelector is not None:
        inside = other.namespace in (term.namespaces or ()) or (
            term.namespaceSelector is not None
            and label_selector_matches(term.namespaceSelector, namespaces.get(other.namespace, {}))
        )
    else:
        inside = other.namespace == owner.namespace
    return inside and label_selector_matches(term.labelSelector, other.labels)
