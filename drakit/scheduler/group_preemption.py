"""Preemption for groups (upstream: PodGroupEvaluator): who has to go so that a whole tree of groups finds a place, or why nobody goes.

As upstream, it is first asked where the groups would go if all pods of lower priority were gone; that decides on their domains.
In these the victims of each pod are looked for as if it were alone, fewest and least important first, the later pods counting
with the earlier ones; where that goes wrong, on the nodes that it had in the trial. The more pods, the fewer nodes each looks at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain, islice

from drakit.scheduler import hierarchy
from drakit.scheduler.cycle import Cycle
from drakit.scheduler.decide import Placement
from drakit.scheduler.groups import NO_VICTIMS, ONGOING
from drakit.scheduler.hierarchy import Group
from drakit.scheduler.nodes import Bits
from drakit.scheduler.outcome import Diagnosis
from drakit.scheduler.placements import Placements
from drakit.scheduler.pods import PodInfo
from drakit.scheduler.preemption import NEVER, Preemption, ongoing, preempt, priority_of, without_lower
from drakit.scheduler.queue import Waiting
from drakit.scheduler.state import Promise
from drakit.scheduler.tree import Part, Result

NODES = 500  # looked at for victims, by all pods together


@dataclass(slots=True, eq=False)
class Plan:
    """What has to happen; `refused`: why nothing will."""

    refused: str = ""
    victims: list[tuple[PodInfo, Preemption]] = field(default_factory=list)
    seats: list[tuple[PodInfo, str]] = field(
        default_factory=list
    )  # pods for which there is room already, and their nodes


def preempt_for(cycle: Cycle, root: Group, result: Result, promises: Mapping[str, Promise]) -> Plan:
    """`result`: how the attempt without victims ended; `promises`: what its pods waited for until now."""
    state, part, priority = cycle.state, result.part, hierarchy.priority_of(root)
    infos = [waiting.info for leaf in part.leaves() for waiting in leaf.waiting]
    if any(info.pod.spec and info.pod.spec.preemptionPolicy == "Never" for info in infos):
        return Plan(NEVER)
    if any(ongoing(state, info, promises.get(info.uid)) for info in infos):
        return Plan(ONGOING)
    if not any(priority_of(state, pod) < priority for node in state.nodes for pod in node.pods.values()):
        return Plan(NO_VICTIMS)
    chosen = _without_victims(cycle, part, priority)
    if not chosen.ok:
        return Plan(chosen.message())
    for on_its_node in (False, True):
        search = _Search(cycle, len(infos), on_its_node=on_its_node)
        if search.run(chosen).victims:
            return search.plan
    return Plan(result.message())


def _without_victims(cycle: Cycle, part: Part, priority: int) -> Result:
    trial = Placements(cycle, quiet=True)
    with without_lower(cycle.state, priority):
        try:
            found = trial.place(part)
            if found.ok and not trial.assumed:
                found.ok, found.whole = False, True
        finally:
            trial.take_back(trial.assumed)
    return found


class _Search:
    def __init__(self, cycle: Cycle, pods: int, *, on_its_node: bool) -> None:
        self._cycle, self._state, self._on_its_node = cycle, cycle.state, on_its_node
        self._reach = 1 if on_its_node else max(NODES // pods, 1)
        self._placements = Placements(cycle)
        self._state.revision += 1  # what is remembered of failures comes without the means to look for victims
        self.plan = Plan()

    def run(self, chosen: Result) -> Plan:
        try:
            self._group(chosen)
        finally:
            self._withdraw(0, 0)
        return self.plan

    def _withdraw(self, victims: int, seats: int) -> None:
        """What the later pods were to count with, from these numbers on."""
        for info, _ in self.plan.victims[victims:]:
            self._state.withdraw(info.uid)
        self._placements.take_back(info.uid for info, _ in self.plan.seats[seats:])

    def _group(self, chosen: Result) -> bool:
        """Whether there is room for enough of it, now or later."""
        plan, part, done = self.plan, chosen.part, len(chosen.part.there)
        before = len(plan.victims), len(plan.seats)
        units: list[Result | tuple[Waiting, Placement]] = [*chosen.children, *chosen.placed] if chosen.ok else []
        for index, unit in enumerate(units, 1):
            done += self._group(unit) if isinstance(unit, Result) else self._pod(*unit, chosen.within)
            if part.missing(done, len(units) - index):
                break
        if not part.missing(done, 0):
            return True
        self._withdraw(*before)
        del plan.victims[before[0] :], plan.seats[before[1] :]
        return False

    def _pod(self, waiting: Waiting, placement: Placement, within: Bits | None) -> bool:
        info, near = waiting.info, self._near(placement.node, within)
        if self._on_its_node:
            within = near
        outcome, attempt = self._cycle.decide(waiting, within, quiet=near != within)
        if isinstance(outcome, Placement):
            self._placements.assume(info, outcome)
            self.plan.seats.append((info, outcome.node))
            return True
        if near != within:
            outcome, attempt = self._cycle.decide(waiting, near)
        if not isinstance(outcome, Diagnosis) or attempt is None:
            return False
        found, _ = preempt(attempt, outcome)
        if found is None:
            return False
        self._state.nominate(info, found.node, found.claims, found.holds)  # the next counts with it
        self.plan.victims.append((info, found))
        return True

    def _near(self, node: str, within: Bits | None) -> Bits | None:
        """As many of these nodes as there is time for, this one first."""
        nodes = self._state.nodes
        bits = nodes.present if within is None else nodes.present & within
        if bits.bit_count() <= self._reach:
            return within
        start = nodes.by_name[node].slot
        found = islice(chain(nodes.of(bits >> start << start), nodes.of(bits)), self._reach)
        return nodes.bits([each.name for each in found])
