"""What a scheduling decision says: a placement, a rejection per node, or an error; and the words Kubernetes has for each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

NOTE_LIMIT = 1024  # events.k8s.io: length of a note
NO_NODES = "no nodes available to schedule pods"
UNHELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why one node cannot take the pod. `resolvable`: removing pods from the node could change it (upstream: Unschedulable)."""

    plugin: str
    reasons: tuple[str, ...]
    resolvable: bool = False
    details: str = ""  # our own short reason, shown after Kubernetes' message


class SchedulingError(Exception):
    """The attempt failed rather than found nothing: retried with backoff, condition reason SchedulerError."""


@dataclass(slots=True)
class Diagnosis:
    """Why no node takes the pod."""

    total_nodes: int
    rejections: dict[str, Rejection] = field(default_factory=dict)  # by node name
    prefilter: Rejection | None = None  # rejected before any node was looked at
    postfilter: str = ""
    advice: str = ""  # ours: what to change, in few words
    settled: bool = False  # postfilter is filled in; holds for pods of the same shape too
    hindered: frozenset[str] = frozenset()  # plugins for which no victims would do
    claims: tuple[str, ...] = ()  # the pod's, that have no devices yet, as the texts name them
    names: Mapping[str, str] = field(default_factory=dict)  # what these are called when another pod is told

    @property
    def plugins(self) -> frozenset[str]:
        if self.prefilter is not None:
            return frozenset((self.prefilter.plugin,))
        return self.hindered.union(r.plugin for r in self.rejections.values())

    def message(self) -> str:
        """Kubernetes' message first, word for word (framework.FitError), then ours."""
        if self.total_nodes == 0:
            text = NO_NODES
        else:
            reasons = self.prefilter.reasons[0] if self.prefilter else histogram(self.rejections.values())
            text = f"0/{self.total_nodes} nodes are available:"
            if reasons:
                text += f" {self._told(reasons)}."
            if self.postfilter:
                text += f" {self.postfilter}"
        ours = self.ours()
        return f"{text} [{ours}]" if ours else text

    def ours(self) -> str:
        """What Kubernetes does not say."""
        return self._told(self.advice or self._details())

    def retold(self, claims: tuple[str, ...]) -> Diagnosis:
        """The same for another pod, whose claims differ in name only."""
        return replace(self, names={old: new for old, new in zip(self.claims, claims, strict=True) if old != new})

    def _told(self, text: str) -> str:
        if not self.names:
            return text
        longest_first = sorted(self.names, key=len, reverse=True)
        whole = f"claim ({'|'.join(map(re.escape, longest_first))})(?![a-z0-9-]|\\.[a-z0-9])"
        return re.sub(whole, lambda found: f"claim {self.names[found[1]]}", text)

    def _details(self) -> str:
        """The commonest of our own reasons, with the number of nodes it holds for."""
        if self.prefilter is not None:
            return self.prefilter.details
        counted = Counter(r.details for r in self.rejections.values() if r.details)
        if not counted:
            return ""
        text, nodes = counted.most_common(1)[0]
        others = len(counted) - 1
        suffix = f"; {others} more kind{'s' if others > 1 else ''} of reason" if others else ""
        return (f"{nodes} nodes: {text}" if nodes > 1 else text) + suffix


def histogram(rejections: Iterable[Rejection]) -> str:
    counted = Counter(reason for rejection in rejections for reason in rejection.reasons)
    return ", ".join(sorted(f"{count} {reason}" for reason, count in counted.items()))


def preemption_message(total_nodes: int, statuses: Mapping[str, Sequence[str]]) -> str:
    """What DefaultPreemption says when it finds no candidate; nodes without reasons of their own are past help."""
    counted = Counter(reason for reasons in statuses.values() for reason in reasons)
    if rest := total_nodes - len(statuses):
        counted[UNHELPFUL] += rest
    reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in counted.items()))
    return f"preemption: 0/{total_nodes} nodes are available: {reasons}." if reasons else ""


def truncate(note: str) -> str:
    return note if len(note) <= NOTE_LIMIT else note[: NOTE_LIMIT - 4] + " ..."
