"""The groups that are tried together, as a tree, and what came of each: places, or why there are none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from drakit.scheduler.decide import Attempt, Placement
from drakit.scheduler.groups import UNSCHEDULABLE
from drakit.scheduler.hierarchy import Ref
from drakit.scheduler.nodes import Bits, NodeInfo
from drakit.scheduler.outcome import Diagnosis
from drakit.scheduler.pods import PodInfo
from drakit.scheduler.queue import Waiting

Outcome = Diagnosis | str  # no place, or an error


@dataclass(slots=True, eq=False)
class Part:
    """A group of the tree that is tried, with its pods."""

    ref: Ref
    need: int  # pods, or groups of a CompositePodGroup
    topology: str = ""  # label of nodes
    children: list[Part] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    there: list[tuple[PodInfo, NodeInfo]] = field(default_factory=list)  # placed before

    def leaves(self) -> Iterator[Part]:
        """The PodGroups at and below it."""
        if not self.ref[0]:
            yield self
        for child in self.children:
            yield from child.leaves()

    def constrained(self) -> bool:
        return bool(self.topology) or any(child.constrained() for child in self.children)

    def missing(self, scheduled: int, remaining: int) -> str:
        """Why it cannot be placed any more, empty while it can be."""
        if scheduled + remaining >= self.need:
            return ""
        return f"minCount ({self.need}) cannot be satisfied: {scheduled} scheduled, {remaining} remaining"


@dataclass(slots=True, eq=False)
class Result:
    """What came of one part on some nodes."""

    part: Part
    within: Bits | None = None
    ok: bool = False
    error: str = ""  # the attempt failed rather than found no place
    reasons: tuple[str, ...] = ()
    whole: bool = False  # Kubernetes says first that the group is unschedulable
    placed: list[tuple[Waiting, Placement]] = field(default_factory=list)
    left: list[tuple[Waiting, Outcome, Attempt | None]] = field(default_factory=list)
    untried: list[Waiting] = field(default_factory=list)
    children: list[Result] = field(default_factory=list)

    def message(self) -> str:
        return self.error or ", ".join((UNSCHEDULABLE, *self.reasons) if self.whole else self.reasons)

    def cause(self) -> str:
        """What is said of it where another group tells why it is not placed."""
        return UNSCHEDULABLE if self.whole else self.message()

    def complete(self) -> bool:
        """All its pods have a place."""
        return self.ok and not (self.left or self.untried) and all(child.complete() for child in self.children)

    def size(self) -> int:
        """How many pods got a place, for whatever end."""
        return len(self.placed) + sum(child.size() for child in self.children)

    def assumed(self) -> Iterator[tuple[Waiting, Placement]]:
        """Pods that have a place as far as it depends on this part and those below."""
        if self.ok:
            yield from self.placed
            for child in self.children:
                yield from child.assumed()

    def leaves(self) -> Iterator[Result]:
        """One for each PodGroup; those that were not reached, or had a place before the group above them had none, share its fate."""
        if not self.part.ref[0]:
            yield self
            return
        reached = {child.part.ref: child for child in self.children}
        for part in self.part.children:
            found = reached.get(part.ref)
            if found is None or (found.ok and not self.ok):
                found = self._shared(part)
            yield from found.leaves()

    def plugins(self) -> frozenset[str]:
        own = (outcome.plugins for _, outcome, _ in self.left if isinstance(outcome, Diagnosis))
        return frozenset().union(*own, *(child.plugins() for child in self.children))

    def advice(self) -> str:
        """What stopped the first that did not fit, after Kubernetes' words."""
        for waiting, outcome, _ in self.left:
            why = outcome if isinstance(outcome, str) else outcome.ours() or outcome.message()
            return f" [pod {waiting.info.key}: {why}]"
        return next((text for child in self.children if (text := child.advice())), "")

    def _shared(self, part: Part) -> Result:
        return Result(part, error=self.error, reasons=self.reasons, whole=self.whole, untried=part.waiting)
