"""Pod groups (scheduling.k8s.io, gate GenericWorkload): the pods of a gang get their nodes and claims together, or none does.

A gang's pods stay out of the queue until `minCount` of them exist. Then one attempt decides for all of them in assumed state;
if too few fit, everything assumed is taken back, and what earlier attempts wrote too. A group with the basic policy is a gang
that one pod satisfies; one gated pod stops the whole group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lightkube.models.scheduling_v1beta1 import PodGroup

from drakit.scheduler.decide import Attempt, Placement
from drakit.scheduler.outcome import Diagnosis
from drakit.scheduler.pods import PodInfo
from drakit.scheduler.queue import Waiting

UNSCHEDULABLE = "pod group is unschedulable"
ALIKE = "all pods in a single pod group should have"
PREEMPT = "PreemptLowerPriority"
NO_VICTIMS = "No preemption victims found for incoming preemptor"
RELEASED = "deallocation and deletion of ResourceClaims completed"  # as Kubernetes says whether or not there were any
ONGOING = "ongoing preemption on nominated nodes"
PLUGIN = "GangScheduling"
CONDITION = "PodGroupInitiallyScheduled"


class Groups:
    def __init__(self, objects: Mapping[str, PodGroup]) -> None:
        self.objects = objects
        self.members: dict[str, dict[str, None]] = {}  # group key -> UIDs of its pods, waiting or placed
        self._groups: dict[str, str] = {}  # pod UID -> key of the group it is a member of

    def join(self, info: PodInfo) -> bool:
        """Whether the pod completes its group."""
        if info.group is None or info.uid in (members := self.members.setdefault(info.group, {})):
            return False
        members[info.uid] = None
        self._groups[info.uid] = info.group
        return len(members) == self.min_count(info.group)

    def leave(self, uid: str) -> None:
        if (key := self._groups.pop(uid, None)) is not None:
            del self.members[key][uid]
            if not self.members[key]:
                del self.members[key]

    def min_count(self, key: str) -> int:
        group = self.objects.get(key)
        policy = group.spec.schedulingPolicy if group is not None and group.spec else None
        gang = policy.gang if policy is not None else None
        return gang.minCount if gang is not None else 1

    def mismatch(self, key: str, pods: Iterable[PodInfo], *, policies: bool) -> str:
        """What keeps pods from being scheduled as one group; `policies`: the group has a preemption policy of its own."""
        group = self.objects[key]
        priority = (group.spec.priority if group.spec else None) or 0
        policy = (group.spec.preemptionPolicy if group.spec else None) or PREEMPT if policies else ""
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

    def together(self, info: PodInfo) -> tuple[str, ...]:
        """UIDs of the pods that can be disrupted only with this one (disruptionMode `all`), itself among them."""
        group = self.objects.get(info.group) if info.group is not None else None
        mode = group.spec.disruptionMode if group is not None and group.spec else None
        if mode is None or mode.all is None or info.group is None:
            return (info.uid,)
        return tuple(self.members.get(info.group, (info.uid,)))

    def gate(self, info: PodInfo) -> str:
        """Why the pod is not to be tried yet; empty when it may be."""
        key = info.group
        if key is None:
            return ""
        if key not in self.objects:
            return f'waiting for pods\'s pod group "{key.split("/", 1)[1]}" to appear in scheduling queue'
        if len(self.members.get(key, ())) < self.min_count(key):
            return "waiting for minCount pods from a gang to appear in scheduling queue"
        return ""


@dataclass(slots=True)
class Trial:
    """One attempt at a gang, pod after pod."""

    need: int
    there: int  # placed before
    placed: list[tuple[Waiting, Placement]] = field(default_factory=list)
    left: list[tuple[Waiting, Diagnosis | str, Attempt | None]] = field(default_factory=list)

    def hopeless(self, remaining: int) -> bool:
        return self.there + len(self.placed) + remaining < self.need

    def message(self, remaining: int) -> str:
        scheduled = self.there + len(self.placed)
        if scheduled >= self.need:
            return UNSCHEDULABLE  # it has enough already, and no more of them fits
        return f"minCount ({self.need}) cannot be satisfied: {scheduled} scheduled, {remaining} remaining"

    def plugins(self) -> frozenset[str]:
        return frozenset().union(*(outcome.plugins for _, outcome, _ in self.left if isinstance(outcome, Diagnosis)))

    def advice(self) -> str:
        """What stopped the first that did not fit, after Kubernetes' words."""
        for waiting, outcome, _ in self.left:
            why = outcome if isinstance(outcome, str) else outcome.ours() or outcome.message()
            return f" [pod {waiting.info.key}: {why}]"
        return ""


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
