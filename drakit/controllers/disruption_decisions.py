"""What a PodDisruptionBudget counts and says (pkg/controller/disruption).

Each budget keeps a running count of its pods (`Covered`): a change of one costs the same, however many the budget has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from drakit.api.selectors import from_label_selector, go_selector_text
from drakit.controllers.objects import (
    Plain,
    condition,
    controller_of,
    deleting,
    key_of,
    labels,
    name,
    parse_time,
    pod_finished,
    pod_ready,
    set_condition,
    spec,
    status,
)
from drakit.controllers.pods import scaled

__all__ = [
    "Budget",
    "Covered",
    "Owner",
    "failed_status",
    "measure",
    "needs_scale",
    "next_status",
    "stale_in",
    "unmanaged",
]

_DELETION_TIMEOUT = timedelta(minutes=2)  # a pod whose eviction was granted counts as gone for so long
_STALE = timedelta(minutes=2)  # a pod that was to be disrupted and still lives is not going to be


class Owner(NamedTuple):
    apiVersion: str
    kind: str
    name: str
    uid: str


class Covered:
    """The pods of one budget. `by_owner`: which budgets each owner of pods has, kept up to date here."""

    def __init__(self, budget: Plain, by_owner: dict[str, set[str]]) -> None:
        self.selector = from_label_selector(spec(budget).get("selector"))
        self._key, self._by_owner = key_of(budget), by_owner
        self.healthy: dict[str, bool] = {}  # pod -> ready and not being deleted
        self.owners: Counter[Owner | None] = Counter()  # how many pods each has here
        self.healthy_count = 0
        self._owner_of: dict[str, Owner | None] = {}

    def put(self, pod: Plain) -> bool:
        """Count a pod in its present state. True if that changed anything."""
        if self.selector is None or not self.selector.matches(labels(pod)):
            return self.remove(pod)
        healthy, reference = pod_ready(pod) and not deleting(pod), controller_of(pod)
        owner = Owner(*(reference[field] for field in Owner._fields)) if reference is not None else None
        if self.healthy.get(name(pod)) is healthy and self._owner_of[name(pod)] == owner:
            return False
        self.remove(pod)
        self.healthy[name(pod)], self._owner_of[name(pod)] = healthy, owner
        self.healthy_count += healthy
        self.owners[owner] += 1
        if owner is not None and self.owners[owner] == 1:
            self._by_owner.setdefault(owner.uid, set()).add(self._key)
        return True

    def remove(self, pod: Plain) -> bool:
        if name(pod) not in self.healthy:
            return False
        self.healthy_count -= self.healthy.pop(name(pod))
        owner = self._owner_of.pop(name(pod))
        self.owners[owner] -= 1
        if not self.owners[owner]:
            del self.owners[owner]
            self._forget(owner)
        return True

    def close(self) -> None:
        for owner in self.owners:
            self._forget(owner)

    def _forget(self, owner: Owner | None) -> None:
        if owner is not None:
            self._by_owner[owner.uid].discard(self._key)
            if not self._by_owner[owner.uid]:
                del self._by_owner[owner.uid]

    def pod_of(self, owner: Owner) -> str:
        """One of its pods."""
        return next(pod for pod, its in self._owner_of.items() if its == owner)


@dataclass(frozen=True, slots=True)
class Budget:
    expected: int
    desired: int
    healthy: int
    disrupted: dict[str, str]  # pod -> when its eviction was granted
    recheck: float | None
    overdue: list[str]  # pods whose eviction was granted, but that are still there


def needs_scale(budget: Plain) -> bool:
    """The limit is a share of what the workloads want, not a number of pods."""
    return spec(budget).get("maxUnavailable") is not None or isinstance(spec(budget).get("minAvailable"), str)


def measure(budget: Plain, covered: Covered, scale: int, ending: Callable[[str], bool], now: datetime) -> Budget:
    """`scale`: how many pods the workloads want (see `needs_scale`); `ending`: whether a pod is being deleted."""
    lowest, most = spec(budget).get("minAvailable"), spec(budget).get("maxUnavailable")
    expected = desired = 0
    if most is not None:
        expected, desired = scale, max(0, scale - scaled(most, scale, up=True))
    elif isinstance(lowest, str):
        expected, desired = scale, scaled(lowest, scale, up=True)
    elif lowest is not None:
        expected, desired = len(covered.healthy), int(lowest)
    disrupted: dict[str, str] = {}
    waits: list[float] = []
    overdue: list[str] = []
    for pod, moment in (status(budget).get("disruptedPods") or {}).items():
        left = (parse_time(moment) + _DELETION_TIMEOUT - now).total_seconds() if moment else 0.0  # null is long ago
        if pod not in covered.healthy or ending(pod):
            continue
        if left > 0:
            disrupted[pod] = moment
            waits.append(left)
        else:
            overdue.append(pod)
    healthy = covered.healthy_count - sum(covered.healthy[pod] for pod in disrupted)
    return Budget(expected, desired, healthy, disrupted, min(waits, default=None), overdue)


def next_status(budget: Plain, counted: Budget, now: datetime) -> Plain:
    allowed = counted.healthy - counted.desired
    if counted.expected <= 0 or allowed <= 0:
        allowed = 0
    generation = budget["metadata"].get("generation", 0)
    state, reason = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    entry = {
        "type": "DisruptionAllowed",
        "status": state,
        "reason": reason,
        "message": "",
        "observedGeneration": generation,
    }
    result: Plain = {
        "currentHealthy": counted.healthy,
        "desiredHealthy": counted.desired,
        "expectedPods": counted.expected,
        "disruptionsAllowed": allowed,
        "observedGeneration": generation,
        "conditions": set_condition(status(budget).get("conditions") or (), entry, now),
    }
    if counted.disrupted:
        result["disruptedPods"] = counted.disrupted
    return result


def failed_status(budget: Plain, message: str, now: datetime) -> Plain:
    """When the wanted number of pods cannot be known nothing may go."""
    known = status(budget)
    entry = {"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": message}
    if known.get("observedGeneration"):
        entry["observedGeneration"] = known["observedGeneration"]
    counts = ("currentHealthy", "desiredHealthy", "expectedPods")
    return {
        **known,
        **{count: known.get(count, 0) for count in counts},
        "disruptionsAllowed": 0,
        "conditions": set_condition(known.get("conditions") or (), entry, now),
    }


def unmanaged(budget: Plain) -> str:
    """What to tell when a share is asked for and some pods belong to no workload."""
    return (
        f"Pods selected by this PodDisruptionBudget (selector: {go_selector_text(spec(budget).get('selector') or {})}) were found "
        "to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined "
        'behavior. To account for these pods please set ".spec.minAvailable" field of the PDB to an integer value.'
    )


def stale_in(pod: Plain, now: datetime) -> float | None:
    """Seconds until a pod that was marked for disruption, but not deleted, counts as spared; None when it is not marked."""
    found = condition(pod, "DisruptionTarget")
    if found is None or found["status"] != "True" or deleting(pod) or pod_finished(pod):
        return None
    if found.get("reason") == "TerminationByKubelet":
        return None  # that may take as long as it takes
    since = parse_time(found["lastTransitionTime"]) if found.get("lastTransitionTime") else now
    return max(0.0, (since + _STALE - now).total_seconds())
