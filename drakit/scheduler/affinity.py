"""Inter-pod affinity and anti-affinity: near to, or away from, pods with certain labels (upstream: plugins/interpodaffinity).

A pod is also kept away by pods that already run and repel it. `Neighbours.of` counts once per pod; its terms are asked of all
kinds of pods at once, since there may be thousands of both. Pods without such rules in a cluster where no pod repels others cost
nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lightkube.models.core_v1 import PodAffinityTerm
from lightkube.models.meta_v1 import LabelSelector, LabelSelectorRequirement

from drakit.scheduler.labels import Bits, LabelIndex, Pairs, Tally, asked, only
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


_Kind = tuple[str, Pairs]  # namespace, and labels that terms ask for: such pods are alike to them


@dataclass(slots=True)
class _Verdict:
    """What a pod of one kind is to the terms."""

    near: bool  # all required terms of affinity select it
    anti: list[str]  # node labels that must not have the same value, each once
    preference: dict[str, int]  # weights, by node label


@dataclass(slots=True)
class Neighbours:
    info: PodInfo
    namespaces: NamespaceLabels
    affinity: list[PodAffinityTerm]
    anti: list[PodAffinityTerm]
    wanted: list[tuple[int, PodAffinityTerm]]  # with weights, negative for what is not wanted
    attracts_itself: bool
    together: frozenset[str]  # node labels of `affinity`
    asked: frozenset[str]  # labels of pods that any term asks for
    reached: frozenset[str] | None  # namespaces that terms look into; None: perhaps all
    affinity_counts: Counter[Topology] = field(default_factory=Counter)
    anti_counts: Counter[Topology] = field(default_factory=Counter)
    existing: Counter[Topology] = field(default_factory=Counter)
    preference: Counter[Topology] = field(default_factory=Counter)
    _verdicts: dict[_Kind, _Verdict] = field(default_factory=dict)

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
        # Labels that no node has are not counted by.
        anti = [term for term in anti if nodes.labels.having(term.topologyKey)]
        wanted = [(weight, term) for weight, term in wanted if nodes.labels.having(term.topologyKey)]
        terms = [*affinity, *anti, *(term for _, term in wanted)]
        found = cls(
            info,
            namespaces,
            affinity,
            anti,
            wanted,
            attracts_itself=bool(affinity) and all(term_matches(t, info, info, namespaces) for t in affinity),
            together=frozenset(term.topologyKey for term in affinity),
            asked=frozenset(key for term in terms for key in asked(term.labelSelector)),
            reached=_reached(terms, info),
        )
        for other, node in nodes.anti_affinity.values():
            found._count_repelling(other, node, 1)
        if terms:
            found._count_all(nodes)
        return found

    def count(self, other: PodInfo, node: NodeInfo, sign: int) -> None:
        """As if there were one pod more (or, with -1, one less) on the node."""
        if repels(other.pod):
            self._count_repelling(other, node, sign)
        if (kind := self._kind(other)) is not None:
            if kind not in self._verdicts:
                self._judge([kind])
            self._count(kind, node, sign)

    def _count_repelling(self, other: PodInfo, node: NodeInfo, sign: int) -> None:
        rules = other.pod.spec.affinity.podAntiAffinity if other.pod.spec and other.pod.spec.affinity else None
        for term in (rules and rules.requiredDuringSchedulingIgnoredDuringExecution) or ():
            if term_matches(_own(term, other), other, self.info, self.namespaces):
                _add(self.existing, term.topologyKey, node, sign)

    def _count_all(self, nodes: Nodes) -> None:
        there = [(node, Counter(map(self._kind, node.pods.values()))) for node in nodes]
        self._judge(list({kind: None for _, kinds in there for kind in kinds if kind is not None}))
        for node, kinds in there:
            for kind, number in kinds.items():
                if kind is not None:
                    self._count(kind, node, number)

    def _kind(self, other: PodInfo) -> _Kind | None:
        """None: no term looks there."""
        if self.reached is not None and other.namespace not in self.reached:
            return None
        return other.namespace, only(self.asked, other.labels)

    def _judge(self, kinds: Sequence[_Kind]) -> None:
        crowd = _Crowd(kinds, self.namespaces)
        near = -1 if self.affinity else 0
        for term in self.affinity:
            near &= crowd.selected(term, self.info)
        anti: dict[str, Bits] = {}
        for term in self.anti:
            anti[term.topologyKey] = anti.get(term.topologyKey, 0) | crowd.selected(term, self.info)
        wanted: dict[str, Tally] = {}
        for weight, term in self.wanted:
            wanted.setdefault(term.topologyKey, Tally()).add(weight, crowd.selected(term, self.info))
        for number, kind in enumerate(kinds):
            self._verdicts[kind] = _Verdict(
                near=bool(near >> number & 1),
                anti=[key for key, bits in anti.items() if bits >> number & 1],
                preference={key: weight for key, tally in wanted.items() if (weight := tally.of(number))},
            )

    def _count(self, kind: _Kind, node: NodeInfo, number: int) -> None:
        verdict = self._verdicts[kind]
        if verdict.near:
            for key in self.together & node.labels.keys():
                _add(self.affinity_counts, key, node, number)
        for key in verdict.anti:
            _add(self.anti_counts, key, node, number)
        for key, weight in verdict.preference.items():
            _add(self.preference, key, node, number * weight)

    def reject(self, node: NodeInfo) -> Rejection | None:
        if self.affinity and not self._attracted(node):
            return UNMET
        if _any_at(self.anti_counts, node):
            return REPELLED
        if _any_at(self.existing, node):
            return EXISTING
        return None

    def _attracted(self, node: NodeInfo) -> bool:
        if not node.labels.keys() >= self.together:
            return False
        if all(self.affinity_counts.get((key, node.labels[key])) for key in self.together):
            return True
        # The first pod of a group that attracts itself has nobody to join yet.
        return not self.affinity_counts and self.attracts_itself

    def score(self, node: NodeInfo) -> int:
        return sum(self.preference.get(pair, 0) for pair in node.labels.items()) if self.preference else 0


class _Crowd:
    """Kinds of pods, by their labels and namespaces."""

    def __init__(self, kinds: Sequence[_Kind], namespaces: NamespaceLabels) -> None:
        self._labels, self._of_namespaces = LabelIndex(), LabelIndex()
        self._inside: dict[str, Bits] = {}  # by namespace
        for number, (namespace, labels) in enumerate(kinds):
            self._labels.add(number, dict(labels))
            self._of_namespaces.add(number, namespaces.get(namespace, {}))
            self._inside[namespace] = self._inside.get(namespace, 0) | 1 << number

    def selected(self, term: PodAffinityTerm, owner: PodInfo) -> Bits:
        """As `term_matches`."""
        inside = self._of_namespaces.selected(term.namespaceSelector)
        for name in term.namespaces or (() if term.namespaceSelector is not None else (owner.namespace,)):
            inside |= self._inside.get(name, 0)
        return inside & self._labels.selected(term.labelSelector)


def _reached(terms: Iterable[PodAffinityTerm], owner: PodInfo) -> frozenset[str] | None:
    reached: set[str] = set()
    for term in terms:
        if term.namespaceSelector is not None:
            return None
        reached.update(term.namespaces or (owner.namespace,))
    return frozenset(reached)


def _any_at(counts: Counter[Topology], node: NodeInfo) -> bool:
    return bool(counts) and any(counts.get(pair) for pair in node.labels.items())


def _add(counts: Counter[Topology], key: str, node: NodeInfo, weight: int) -> None:
    value = node.labels.get(key)
    if value is not None:
        counts[(key, value)] += weight
        if not counts[(key, value)]:
            del counts[(key, value)]


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
