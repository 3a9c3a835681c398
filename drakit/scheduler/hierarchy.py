"""PodGroups and CompositePodGroups as trees: who is whose parent, and what the root of a tree decides for all below it.

Children name their parents, which may come later or never. Without the gate CompositePodGroup every PodGroup is a tree of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from lightkube.models.scheduling_v1alpha3 import CompositePodGroup
from lightkube.models.scheduling_v1beta1 import PodGroup

Group = PodGroup | CompositePodGroup
MAX_DEPTH = 4  # of a tree, PodGroups included (WorkloadMaxTreeDepth)
Ref = tuple[bool, str]  # composite or not, namespace/name: the two kinds may have equal names


class Hierarchy:
    def __init__(self, groups: dict[str, PodGroup], *, nested: bool) -> None:
        self.groups = groups
        self.composites: dict[str, CompositePodGroup] = {}
        self.nested = nested
        self._children: dict[str, dict[Ref, None]] = {}  # by the parent's key, whether it is there or not

    # -- what the API server has

    def set(self, group: Group) -> Ref:
        ref = ref_of(group)
        if isinstance(group, CompositePodGroup):
            self.composites[ref[1]] = group
        else:
            self.groups[ref[1]] = group
        if (parent := self.parent(group)) is not None:  # it never changes
            self._children.setdefault(parent, {})[ref] = None
        return ref

    def remove(self, group: Group) -> Ref:
        ref = ref_of(group)
        (self.composites if ref[0] else self.groups).pop(ref[1], None)
        parent = self.parent(group)
        if parent is not None and (siblings := self._children.get(parent)) is not None:
            siblings.pop(ref, None)
            if not siblings:
                del self._children[parent]
        return ref

    # -- questions

    def get(self, ref: Ref) -> Group | None:
        return self.composites.get(ref[1]) if ref[0] else self.groups.get(ref[1])

    def parent(self, group: Group) -> str | None:
        name = group.spec.parentCompositePodGroupName if self.nested and group.spec else None
        return f"{_namespace(group)}/{name}" if name is not None else None

    def children(self, ref: Ref) -> list[Ref]:
        """Those that are there and not too deep."""
        return [child for child in self._children.get(ref[1], ()) if self.root(child) is not None] if ref[0] else []

    def upwards(self, ref: Ref) -> Iterator[tuple[Ref, Group | None]]:
        """The group and its ancestors; None for the last when it is not there, or too high above, as in a ring of parents."""
        for _ in range(MAX_DEPTH):
            group = self.get(ref)
            yield ref, group
            if group is None or (parent := self.parent(group)) is None:
                return
            ref = (True, parent)
        yield ref, None

    def root(self, ref: Ref) -> Ref | None:
        """None while an ancestor is missing."""
        *_, (last, group) = self.upwards(ref)
        return last if group is not None else None

    def decisive(self, key: str) -> Group | None:
        """Whose priority counts for the pods of a PodGroup: the highest ancestor that is there."""
        found: Group | None = None
        for _, group in self.upwards((False, key)):
            found = group or found
        return found

    def leaves(self, ref: Ref) -> Iterator[str]:
        """Keys of the PodGroups at and below it."""
        if not ref[0]:
            yield ref[1]
        for child in self.children(ref):
            yield from self.leaves(child)

    def needed(self, ref: Ref) -> int:
        """Pods of a PodGroup, or groups of a CompositePodGroup, without which none is placed."""
        if ref[0]:
            composite = self.composites.get(ref[1])
            gangs = composite.spec.schedulingPolicy.gang if composite is not None and composite.spec else None
            return gangs.minGroupCount if gangs is not None else 1
        group = self.groups.get(ref[1])
        policy = group.spec.schedulingPolicy if group is not None and group.spec else None
        return policy.gang.minCount if policy is not None and policy.gang is not None else 1

    def topology(self, ref: Ref) -> str:
        """The node label of which all pods have to see one value; the API allows for one such constraint."""
        group = self.get(ref)
        constraints = group.spec.schedulingConstraints if group is not None and group.spec else None
        return constraints.topology[0].key if constraints is not None and constraints.topology else ""


def ref_of(group: Group) -> Ref:
    return isinstance(group, CompositePodGroup), f"{_namespace(group)}/{group.metadata.name if group.metadata else ''}"


def priority_of(group: Group) -> int:
    return (group.spec.priority if group.spec else None) or 0


def _namespace(group: Group) -> str:
    return (group.metadata.namespace if group.metadata else None) or ""
