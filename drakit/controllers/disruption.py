"""PodDisruptionBudgets: how many pods are healthy, how many must be, how many may go now (pkg/controller/disruption).

Each budget keeps a running count of its pods (`Covered`): a change of one costs the same, however many the budget has. Only a new
budget, or one with a new selector, looks at all its pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from lightkube.models.apps_v1 import Deployment, ReplicaSet, StatefulSet
from lightkube.models.core_v1 import Pod
from lightkube.models.policy_v1 import PodDisruptionBudget

from drakit.api.selectors import from_label_selector
from drakit.client import Informer, resource_of
from drakit.controllers.loop import Context, ControlLoop
from drakit.controllers.objects import (
    Plain,
    controller_of,
    deleting,
    key_of,
    labels,
    name,
    namespace,
    parse_time,
    pod_ready,
    set_condition,
    spec,
    status,
    status_patch,
    uid,
)
from drakit.controllers.pods import WORKLOAD, child_states, scaled

__all__ = ["Budget", "Covered", "DisruptionController", "measure", "next_status"]

BUDGETS = resource_of(PodDisruptionBudget)
_DELETION_TIMEOUT = timedelta(minutes=2)  # a pod whose eviction was granted counts as gone for so long
_BATCH = 0.25  # changes of many pods are answered together


class Covered:
    """The pods of one budget. `by_owner`: which budgets each owner of pods has, kept up to date here."""

    def __init__(self, budget: Plain, by_owner: dict[str, set[str]]) -> None:
        self.selector = from_label_selector(spec(budget).get("selector"))
        self._key, self._by_owner = key_of(budget), by_owner
        self.healthy: dict[str, bool] = {}  # pod -> ready and not being deleted
        self.owners: Counter[tuple[str, str, str] | None] = Counter()  # kind, name and UID -> how many pods it has here
        self.healthy_count = 0
        self._owner_of: dict[str, tuple[str, str, str] | None] = {}

    def put(self, pod: Plain) -> bool:
        """Count a pod in its present state. True if that changed anything."""
        if self.selector is None or not self.selector.matches(labels(pod)):
            return self.remove(pod)
        healthy, reference = pod_ready(pod) and not deleting(pod), controller_of(pod)
        owner = (reference["kind"], reference["name"], reference["uid"]) if reference is not None else None
        if self.healthy.get(name(pod)) is healthy and self._owner_of[name(pod)] == owner:
            return False
        self.remove(pod)
        self.healthy[name(pod)], self._owner_of[name(pod)] = healthy, owner
        self.healthy_count += healthy
        self.owners[owner] += 1
        if owner is not None and self.owners[owner] == 1:
            self._by_owner.setdefault(owner[2], set()).add(self._key)
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

    def _forget(self, owner: tuple[str, str, str] | None) -> None:
        if owner is not None:
            self._by_owner[owner[2]].discard(self._key)
            if not self._by_owner[owner[2]]:
                del self._by_owner[owner[2]]


@dataclass(frozen=True, slots=True)
class Budget:
    expected: int
    desired: int
    healthy: int
    disrupted: dict[str, str]  # pod -> when its eviction was granted
    recheck: float | None


def measure(
    budget: Plain,
    covered: Covered,
    scale_of: Callable[[tuple[str, str, str]], tuple[str, int] | None],
    ending: Callable[[str], bool],
    now: datetime,
) -> Budget:
    """`scale_of`: the UID and wanted size of the workload behind an owner; `ending`: whether a pod is being deleted."""
    limits = spec(budget)
    expected, desired = len(covered.healthy), 0
    lowest, most = limits.get("minAvailable"), limits.get("maxUnavailable")
    if most is not None or isinstance(lowest, str):
        found = (scale_of(owner) for owner in covered.owners if owner is not None)
        expected = sum(dict(each for each in found if each is not None).values())
        desired = (
            max(0, expected - scaled(most, expected, up=True))
            if most is not None
            else scaled(lowest, expected, up=True)
        )
    elif lowest is not None:
        desired = int(lowest)
    disrupted: dict[str, str] = {}
    waits: list[float] = []
    for pod, moment in (status(budget).get("disruptedPods") or {}).items():
        left = (parse_time(moment) + _DELETION_TIMEOUT - now).total_seconds()
        if pod in covered.healthy and not ending(pod) and left > 0:
            disrupted[pod] = moment
            waits.append(left)
    healthy = covered.healthy_count - sum(covered.healthy[pod] for pod in disrupted)
    return Budget(expected, desired, healthy, disrupted, min(waits, default=None))


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


class DisruptionController:
    name = "disruption-controller"

    def __init__(self, context: Context) -> None:
        self._client, self._clock = context.client, context.clock
        self._recorder = context.recorder("controllermanager")
        self.loop = ControlLoop("disruption", self.reconcile, context, workers=1)
        self._budgets = context.informers.plain(PodDisruptionBudget)
        self._pods = context.informers.plain(Pod)
        self._scales: dict[str, Informer[Plain]] = {
            "ReplicaSet": context.informers.plain(ReplicaSet),
            "StatefulSet": context.informers.plain(StatefulSet),
            "Deployment": context.informers.plain(Deployment),
        }
        self._covered: dict[str, Covered] = {}  # by the budget's UID
        self._by_owner: dict[str, set[str]] = {}  # UID of a ReplicaSet or StatefulSet -> budgets that cover pods of it
        self._pods.add_index(
            "label", lambda pod: [f"{namespace(pod)}/{key}={value}" for key, value in labels(pod).items()]
        )
        self._pods.add_index("namespace", lambda pod: (namespace(pod),), fixed=True)
        self._budgets.add_index("label", lambda budget: (_pair(budget),))
        self._scales["ReplicaSet"].add_index(WORKLOAD, child_states)
        self._budgets.add_handler(self._changed, self._updated, self._removed)
        self._pods.add_handler(self._pod_changed, self._pod_updated, self._pod_removed)
        for informer in self._scales.values():
            informer.add_handler(on_update=self._scaled)

    async def run(self) -> None:
        await self.loop.run()

    def _changed(self, budget: Plain) -> None:
        self._removed(budget)
        covered = self._covered[uid(budget)] = Covered(budget, self._by_owner)
        for pod in self._candidates(budget):
            covered.put(pod)
        self.loop.add(key_of(budget))

    def _updated(self, old: Plain, new: Plain) -> None:
        if spec(old).get("selector") != spec(new).get("selector"):
            self._changed(new)
        self.loop.add(key_of(new))

    def _removed(self, budget: Plain) -> None:
        known = self._covered.pop(uid(budget), None)
        if known is not None:
            known.close()

    def _candidates(self, budget: Plain) -> list[Plain]:
        required = (spec(budget).get("selector") or {}).get("matchLabels") or {}
        if not required:
            return self._pods.by_index("namespace", namespace(budget))
        pairs = [f"{namespace(budget)}/{label}={value}" for label, value in required.items()]
        return self._pods.by_index("label", min(pairs, key=lambda pair: self._pods.index_count("label", pair)))

    def _around(self, where: str, of: Mapping[str, str]) -> Iterable[Plain]:
        """Budgets in a namespace that may be for a pod with these labels."""
        for pair in (f"{where}/", *(f"{where}/{label}={value}" for label, value in of.items())):
            yield from self._budgets.by_index("label", pair)

    def _pod_changed(self, pod: Plain) -> None:
        if len(self._budgets):
            self._put(pod, self._around(namespace(pod), labels(pod)))

    def _put(self, pod: Plain, budgets: Iterable[Plain]) -> None:
        for budget in budgets:
            if self._covered[uid(budget)].put(pod):
                self.loop.add_after(key_of(budget), _BATCH)

    def _pod_updated(self, old: Plain, new: Plain) -> None:
        if not len(self._budgets):
            return
        if labels(old) != labels(new):
            self._put(new, [*self._around(namespace(old), labels(old))])
        self._pod_changed(new)

    def _pod_removed(self, pod: Plain) -> None:
        for budget in self._around(namespace(pod), labels(pod)) if len(self._budgets) else ():
            if self._covered[uid(budget)].remove(pod):
                self.loop.add_after(key_of(budget), _BATCH)

    def _scaled(self, old: Plain, new: Plain) -> None:
        if spec(old).get("replicas") == spec(new).get("replicas"):
            return
        for owner in (new, *self._scales["ReplicaSet"].by_index(WORKLOAD, uid(new))):
            for key in sorted(self._by_owner.get(uid(owner), ())):
                self.loop.add_after(key, _BATCH)

    def _scale_of(self, where: str, owner: tuple[str, str, str]) -> tuple[str, int] | None:
        kind, owner_name, owner_uid = owner
        informer = self._scales.get(kind)
        workload = informer.get(f"{where}/{owner_name}") if informer is not None else None
        if workload is None or uid(workload) != owner_uid:
            return None
        above = controller_of(workload)
        if above is not None and above["kind"] == "Deployment":
            deployment = self._scales["Deployment"].get(f"{where}/{above['name']}")
            if deployment is not None and uid(deployment) == above["uid"]:
                workload = deployment
        return uid(workload), int(spec(workload).get("replicas", 1))

    async def reconcile(self, key: str) -> float | None:
        budget = self._budgets.get(key)
        if budget is None:
            return None
        covered, where, now = self._covered[uid(budget)], namespace(budget), self._clock.now()
        if not covered.healthy:
            self._recorder.event(budget, "Normal", "NoPods", "No matching pods found")
        counted = measure(
            budget,
            covered,
            lambda owner: self._scale_of(where, owner),
            lambda pod: (found := self._pods.get(f"{where}/{pod}")) is None or deleting(found),
            now,
        )
        patch = status_patch(status(budget), next_status(budget, counted, now))
        if patch is not None:
            # The eviction API writes this status too: never over a grant that we have not seen.
            patch["metadata"] = {"resourceVersion": budget["metadata"]["resourceVersion"], "uid": uid(budget)}
            self._budgets.observe(
                await self._client.patch_plain(
                    BUDGETS, name(budget), patch, namespace=namespace(budget), subresource="status"
                )
            )
        return counted.recheck


def _pair(budget: Plain) -> str:
    """One label that every pod of the budget must have: a way to find the budget from a pod."""
    required = (spec(budget).get("selector") or {}).get("matchLabels") or {}
    if not required:
        return f"{namespace(budget)}/"
    label = min(required)
    return f"{namespace(budget)}/{label}={required[label]}"
