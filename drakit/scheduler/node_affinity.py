"""The nodes that a pod's node affinity asks for, and those it prefers: judged for all nodes at once, since a pod may have
thousands of terms."""

from __future__ import annotations

from dataclasses import dataclass

from lightkube.models.core_v1 import NodeAffinity, NodeSelectorTerm

from drakit.scheduler.labels import Tally
from drakit.scheduler.nodes import Bits, Nodes


@dataclass(frozen=True, slots=True)
class Choice:
    """`accepted`: the nodes that it may go to; `named`: those that are not ruled out by name alone (as DaemonSets do it)."""

    named: Bits
    accepted: Bits
    preference: Tally


ANY = Choice(-1, -1, Tally())


def choose(affinity: NodeAffinity, nodes: Nodes) -> Choice:
    named = accepted = -1
    if (required := affinity.requiredDuringSchedulingIgnoredDuringExecution) is not None:
        accepted = 0
        for term in required.nodeSelectorTerms:
            accepted |= _selected(term, nodes)
        if required.nodeSelectorTerms:
            named = 0
            for term in required.nodeSelectorTerms:
                named |= _named(term, nodes)
    preference = Tally()
    for preferred in affinity.preferredDuringSchedulingIgnoredDuringExecution or ():
        preference.add(preferred.weight, _selected(preferred.preference, nodes))
    return Choice(named, accepted, preference)


def _selected(term: NodeSelectorTerm, nodes: Nodes) -> Bits:
    """A term without any expression selects nothing."""
    found = nodes.present if term.matchExpressions or term.matchFields else 0
    for requirement in term.matchExpressions or ():
        found &= nodes.labels.meeting(requirement)
    for requirement in term.matchFields or ():
        found &= nodes.fields.meeting(requirement)
    return found


def _named(term: NodeSelectorTerm, nodes: Nodes) -> Bits:
    found = -1
    for requirement in term.matchFields or ():
        if requirement.operator == "In":
            found &= nodes.fields.meeting(requirement)
    return found
