"""Where the pods of a group go: a tree of groups and the nodes that count in, what has to be assumed or why there is no place out.

A group with a topology constraint gets the nodes of one domain, the values of a node label (upstream: placements). Domains are
tried with their pods assumed, everything is taken back, and the best is kept: the one that takes most pods and is fullest then.
A domain that holds all pods cannot be beaten by one that would be emptier, so the fullest come first and few are tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from drakit.scheduler.decide import Attempt, Placement
from drakit.scheduler.hierarchy import Ref
from drakit.scheduler.nodes import Bits, NodeInfo
from drakit.scheduler.outcome import Diagnosis
from drakit.scheduler.pods import CPU, MEMORY, PodInfo
from drakit.scheduler.queue import Waiting
from drakit.scheduler.room import Room
from drakit.scheduler.state import State
from drakit.scheduler.tree import Part, Result

NO_DOMAINS = "no feasible placements found"


@dataclass(slots=True, eq=False)
class Domain:
    """Nodes on which a part may go, and how full they were before it came."""

    bits: Bits | None = None
    requested: list[int] = field(default_factory=lambda: [0, 0])  # CPU, memory
    allocatable: list[int] = field(default_factory=lambda: [0, 0])

    def add(self, node: NodeInfo) -> None:
        self.bits = (self.bits or 0) | 1 << node.slot
        for index, (name, taken) in enumerate(((CPU, node.nonzero_cpu), (MEMORY, node.nonzero_memory))):
            if offered := node.allocatable.get(name, 0):
                self.requested[index] += taken
                self.allocatable[index] += offered

    def size(self) -> int:
        return (self.bits or 0).bit_count()

    def fullness(self, pods: Iterable[PodInfo]) -> int:
        """NodeResourcesFit's score for the placement with these pods on it: MostAllocated, 0 to 100."""
        wanted = [sum(amounts) for amounts in zip(*(info.nonzero for info in pods), strict=True)] or [0, 0]
        scores = [
            100 * min(taken + more, offered) // offered
            for taken, more, offered in zip(self.requested, wanted, self.allocatable, strict=True)
            if offered
        ]
        return sum(scores) // len(scores) if scores else 0


class Ground(Protocol):
    """Where decisions are made and assumed."""

    state: State

    def decide(
        self, waiting: Waiting, within: Bits | None = None, *, quiet: bool = False
    ) -> tuple[Placement | Diagnosis | str, Attempt | None]: ...
    def assume(self, info: PodInfo, placement: Placement) -> None: ...
    def take_back(self, info: PodInfo, placement: Placement) -> None: ...


class Placements:
    """One attempt: `place` the root. What its result has `assumed` is assumed in the state, nothing else. `quiet`: why single pods
    have no place does not matter."""

    def __init__(self, ground: Ground, *, quiet: bool = False) -> None:
        self._ground = ground
        self._quiet = quiet
        self._topology_aware = ground.state.gates.enabled("TopologyAwareWorkloadScheduling")
        self._rooms: dict[Ref, Room] = {}
        self.assumed: dict[str, tuple[PodInfo, Placement]] = {}  # by UID

    def place(self, part: Part, within: Bits | None = None) -> Result:
        if not self._topology_aware:
            return self._run(part, within)
        try:
            domains = self._domains(part, within)
        except _ScatteredError as error:
            return Result(part, within, error=str(error), untried=part.waiting)
        if not domains:
            return Result(part, within, reasons=(NO_DOMAINS,), untried=part.waiting)
        if len(domains) == 1:
            return _told(self._run(part, domains[0].bits), 1)
        state, quiet = self._ground.state, self._quiet
        first = state.last_node
        tried: list[tuple[Domain, Result]] = []
        roomy = [domain for domain in domains if self._has_room(part, domain)]
        for domain in roomy or [max(domains, key=Domain.size)]:  # somebody has to be told why
            state.last_node, self._quiet = first, True
            try:
                result = self._run(part, domain.bits)
            finally:
                self._quiet = quiet
            if result.error:
                return result
            self._take_back(result)
            tried.append((domain, result))
            if result.complete() or sum(each.ok for _, each in tried) >= state.policy.sample:
                break
        best = _best(part, tried)
        if best.complete():
            for waiting, placement in best.assumed():
                self.assume(waiting.info, placement)
            return best
        state.last_node = first  # the same once more, for what is told of those that are left
        return _told(self._run(part, best.within), len(domains))

    def assume(self, info: PodInfo, placement: Placement) -> None:
        self.assumed[info.uid] = info, placement
        self._ground.assume(info, placement)

    def take_back(self, uids: Iterable[str]) -> None:
        for uid in list(uids)[::-1]:
            self._ground.take_back(*self.assumed.pop(uid))

    def _take_back(self, result: Result) -> None:
        self.take_back(waiting.info.uid for waiting, _ in result.assumed())

    # -- domains

    def _domains(self, part: Part, within: Bits | None) -> list[Domain]:
        """The fullest first, if it held all pods."""
        if not part.topology:
            return [Domain(within)]
        required = _domain_of([each for leaf in part.leaves() for each in leaf.there], part.topology)
        nodes = self._ground.state.nodes
        found: dict[str, Domain] = {}
        for node in nodes.of(nodes.present if within is None else nodes.present & within):
            value = node.labels.get(part.topology)
            if value is not None and required in (None, value):
                found.setdefault(value, Domain()).add(node)
        pods = [waiting.info for leaf in part.leaves() for waiting in leaf.waiting]
        return sorted(found.values(), key=lambda domain: -domain.fullness(pods))

    def _has_room(self, part: Part, domain: Domain) -> bool:
        if domain.bits is None:
            return True
        if part.ref[0]:
            roomy = (child for child in part.children if self._has_room(child, domain))
            return sum(1 for _ in islice(roomy, part.need)) >= part.need
        missing = part.need - len(part.there)
        if part.ref not in self._rooms:
            self._rooms[part.ref] = Room(self._ground.state, [waiting.info for waiting in part.waiting])
        return self._rooms[part.ref].of(domain.bits, missing) >= missing

    # -- one placement

    def _run(self, part: Part, within: Bits | None) -> Result:
        return self._run_composite(part, within) if part.ref[0] else self._run_pods(part, within)

    def _run_pods(self, part: Part, within: Bits | None) -> Result:
        result, there = Result(part, within), len(part.there)
        if text := part.missing(there, len(part.waiting)):  # somebody left
            result.reasons, result.whole, result.untried = (text,), True, part.waiting
            return result
        for index, waiting in enumerate(part.waiting, 1):
            outcome, attempt = self._ground.decide(waiting, within, quiet=self._quiet)
            if isinstance(outcome, Placement):
                self.assume(waiting.info, outcome)
                result.placed.append((waiting, outcome))
            else:
                result.left.append((waiting, outcome, attempt))
                if attempt is not None and isinstance(outcome, Diagnosis):
                    # Those like it, on the same nodes, are told the same until something is placed.
                    self._ground.state.remember_failure(attempt.key, outcome)
            if text := part.missing(there + len(result.placed), len(part.waiting) - index):
                result.reasons, result.untried = (text,), part.waiting[index:]
                self.take_back(placed.info.uid for placed, _ in result.placed)
                return result
        result.ok = True
        return result

    def _run_composite(self, part: Part, within: Bits | None) -> Result:
        result, done = Result(part, within), 0
        text = part.missing(0, len(part.children))
        for index, child in enumerate(part.children, 1):
            if text:
                break
            found = self.place(child, within)
            result.children.append(found)
            if found.error:
                text = result.error = f"composite pod group evaluation failed due to child error: {found.error}"
                break
            done += found.ok
            text = part.missing(done, len(part.children) - index)
        if text:
            result.reasons = (text,)
            for found in reversed(result.children):
                self._take_back(found)
        result.ok = not text
        return result


class _ScatteredError(Exception):
    """Pods that are placed already leave no domain to go on in."""


def _domain_of(pods: Iterable[tuple[PodInfo, NodeInfo]], label: str) -> str | None:
    """Where the pods are that were placed before."""
    found: str | None = None
    before = "cannot determine domain for already scheduled pods"
    for info, node in pods:
        if node.node is None:
            text = f'getting node for pod {info.key}: nodeinfo not found for node name "{node.name}"'
            raise _ScatteredError(f"{before}: {text}")
        value = node.labels.get(label)
        if value is None:
            raise _ScatteredError(f"{before}: no topology domain found for pod {info.key}")
        if found not in (None, value):
            raise _ScatteredError(f"{before}: more than 1 domain found for pod group: {found}, {value}")
        found = value
    return found


def _told(result: Result, domains: int) -> Result:
    if not (result.ok or result.error):
        text = f"0/{domains} placements are available, first placement status: {result.cause()}"
        result.reasons, result.whole = (text,), True
    return result


def _best(part: Part, tried: Sequence[tuple[Domain, Result]]) -> Result:
    found = [(domain, result) for domain, result in tried if result.ok]
    if not found:
        return max((result for _, result in tried), key=Result.size)  # any, upstream; here what came nearest
    there = sum(len(leaf.there) for leaf in part.leaves())
    pods = [[waiting.info for waiting, _ in result.assumed()] for _, result in found]
    most = max(1, *(there + len(each) for each in pods))
    # PodGroupPodsCount and NodeResourcesFit, both of weight 1; the first of equals.
    scores = [
        100 * (there + len(each)) // most + domain.fullness(each) for each, (domain, _) in zip(pods, found, strict=True)
    ]
    return found[scores.index(max(scores))][1]
