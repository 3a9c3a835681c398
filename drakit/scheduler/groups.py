"""Pod groups (scheduling.k8s.io, gate GenericWorkload): the pods of a gang get their nodes and claims together, or none does.

A gang's pods stay out of the queue until `minCount` of them exist, those of a CompositePodGroup until enough of its groups have
enough. Then one attempt decides for all of them in assumed state; if too few fit, everything assumed is taken back, and what
earlier attempts wrote too. A group with the basic policy is a gang that one pod satisfies; one gated pod stops the whole tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from lightkube.models.scheduling_v1beta1 import PodGroup

from drakit.scheduler.hierarchy import Group, Hierarchy, Ref, priority_of
from drakit.scheduler.pods import PodInfo

UNSCHEDULABLE = "pod group is unschedulable"
ALIKE = "all pods in a single pod group should have"
PREEMPT = "PreemptLowerPriority"
NO_VICTIMS = "No preemption victims found for incoming preemptor"
RELEASED = "deallocation and deletion of ResourceClaims completed"  # as Kubernetes says whether or not there were any
ONGOING = "ongoing preemption on nominated nodes"
PLUGIN = "GangScheduling"
CONDITION = "PodGroupInitiallyScheduled"


class Groups:
    """Who is a member of which group, and which trees have enough members to be tried."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        self.hierarchy = hierarchy
        self.members: dict[str, dict[str, None]] = {}  # PodGroup's key -> UIDs of its pods, waiting or placed
        self._groups: dict[str, str] = {}  # pod UID -> key of the group it is a member of
        self._ready: dict[Ref, bool] = {}  # roots that were asked about; those of which something changes are forgotten

    def join(self, info: PodInfo) -> bool:
        """Whether the pod completes its group."""
        if info.group is None or info.uid in (members := self.members.setdefault(info.group, {})):
            return False
        members[info.uid] = None
        self._groups[info.uid] = info.group
        complete = len(members) == self.hierarchy.needed((False, info.group))
        if complete:
            self.changed((False, info.group))
        return complete

    def leave(self, uid: str) -> None:
        if (key := self._groups.pop(uid, None)) is not None:
            del self.members[key][uid]
            if len(self.members[key]) + 1 == self.hierarchy.needed((False, key)):
                self.changed((False, key))
            if not self.members[key]:
                del self.members[key]

    def changed(self, ref: Ref) -> None:
        """The group came, went or changed, or crossed the number of pods that it needs."""
        for above, _ in self.hierarchy.upwards(ref):
            self._ready.pop(above, None)

    def of_tree(self, ref: Ref) -> Iterator[str]:
        """UIDs of the pods at and below it."""
        for key in self.hierarchy.leaves(ref):
            yield from self.members.get(key, ())

    def mismatch(self, root: Group, pods: Iterable[PodInfo], *, policies: bool) -> str:
        """What keeps pods from being scheduled as one group; `policies`: the group has a preemption policy of its own."""
        priority = priority_of(root)
        policy = (root.spec.preemptionPolicy if root.spec else None) or PREEMPT if policies else ""
        scheduler = ""
        for info in pods:
            scheduler = scheduler or info.scheduler_name
            if info.scheduler_name != scheduler:
                text = "all pods in a single pod group should have the same .spec.schedulerName set"
                return f'{text}, got: "{info.scheduler_name}" and "{scheduler}"'
            own = (info.pod.spec.preemptionPolicy if info.pod.spec else None) or PREEMPT
            policy = policy or own
            if info.priority != priority:
                text = "the same priority as the pod group's priority"
                return f"{ALIKE} {text}, got {info.priority} and {priority}"
            if own != policy:
                text = (
                    "the same preemption policy as the pod group's preemption policy"
                    if policies
                    else "the same preemption policy"
                )
                return f"{ALIKE} {text}, got {own} and {policy}"
        return ""

    def together(self, info: PodInfo) -> tuple[Ref | None, tuple[str, ...]]:
        """UIDs of the pods that can be disrupted only with this one, itself among them, and the group that says so: the highest with
        disruptionMode `all`."""
        found: Ref | None = None
        if info.group is not None:
            for ref, group in self.hierarchy.upwards((False, info.group)):
                mode = group.spec.disruptionMode if group is not None and group.spec else None
                if mode is not None and mode.all is not None:
                    found = ref
        if found is None:
            return None, (info.uid,)
        return found, tuple(self.of_tree(found)) or (info.uid,)

    def gate(self, info: PodInfo) -> str:
        """Why the pod is not to be tried yet; empty when it may be."""
        if info.group is None:
            return ""
        ref = (False, info.group)
        if self.hierarchy.get(ref) is None:
            return f'waiting for pods\'s pod group "{info.group.split("/", 1)[1]}" to appear in scheduling queue'
        root = self.hierarchy.root(ref)
        if root is None:
            return "failed to build hierarchy snapshot: a composite pod group above the pod's pod group is missing"
        if root not in self._ready:
            self._ready[root] = self._is_ready(root)
        if self._ready[root]:
            return ""
        if root[0]:
            return f'waiting for composite pod group "{root[1].split("/", 1)[1]}" tree to meet quorum'
        return "waiting for minCount pods from a gang to appear in scheduling queue"

    def _is_ready(self, ref: Ref) -> bool:
        needed = self.hierarchy.needed(ref)
        if not ref[0]:
            return len(self.members.get(ref[1], ())) >= needed
        ready = (child for child in self.hierarchy.children(ref) if self._is_ready(child))
        return sum(1 for _ in islice(ready, needed)) >= needed


def condition_patch(
    group: PodGroup, now: str, *, message: str = "", reason: str = "Scheduled"
) -> dict[str, Any] | None:
    """Status of the group after an attempt (a strategic patch); a group that was scheduled once stays so. None: nothing new."""
    meta = group.metadata
    condition: dict[str, Any] = {
        "type": CONDITION,
        "status": "False" if message else "True",
        "reason": reason,
        "message": message,
    }
    if meta is not None and meta.generation:
        condition["observedGeneration"] = meta.generation
    known = next((c for c in (group.status.conditions if group.status else None) or () if c.type == CONDITION), None)
    if known is None or known.status != condition["status"]:
        if known is not None and known.status == "True":
            return None
        condition["lastTransitionTime"] = now
    elif all(getattr(known, name) == value for name, value in condition.items()):
        return None
    return {"metadata": {"uid": meta.uid if meta else ""}, "status": {"conditions": [condition]}}
