"""PodDisruptionBudgets: how many pods are healthy, how many must be, how many may go now (pkg/controller/disruption)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from lightkube.models.apps_v1 import Deployment, ReplicaSet, StatefulSet
from lightkube.models.core_v1 import Pod
from lightkube.models.policy_v1 import PodDisruptionBudget

from drakit.api.selectors import LabelSelector, from_label_selector
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
from drakit.controllers.pods import scaled

__all__ = ["Budget", "DisruptionController", "measure", "next_status"]

BUDGETS = resource_of(PodDisruptionBudget)
_DELETION_TIMEOUT = timedelta(minutes=2)  # a pod whose eviction was granted counts as gone for so long
_BATCH = 0.25  # changes of many pods are answered together


@dataclass(frozen=True, slots=True)
class Budget:
    expected: int
    desired: int
    healthy: int
    disrupted: dict[str, str]  # pod -> when its eviction was granted
    unmanaged: bool
    recheck: float | None


def measure(
    budget: Plain, pods: list[Plain], scale_of: Callable[[Plain], tuple[str, int] | None], now: datetime
) -> Budget:
    """`scale_of`: the UID and wanted size of the workload behind a pod; None when there is none."""
    limits = spec(budget)
    expected, desired, unmanaged = len(pods), 0, False
    lowest, most = limits.get("minAvailable"), limits.get("maxUnavailable")
    if most is not None or isinstance(lowest, str):
        sizes: dict[str, int] = {}
        for pod in pods:
            found = scale_of(pod)
            if found is None:
                unmanaged = True
            else:
                sizes[found[0]] = found[1]
        expected = sum(sizes.values())
        desired = (
            max(0, expected - scaled(most, expected, up=True))
            if most is not None
            else scaled(lowest, expected, up=True)
        )
    elif lowest is not None:
        desired = int(lowest)
    granted = status(budget).get("disruptedPods") or {}
    disrupted: dict[str, str] = {}
    waits: list[float] = []
    for pod in pods:
        moment = granted.get(name(pod))
        if moment is not None and not deleting(pod):
            left = (parse_time(moment) + _DELETION_TIMEOUT - now).total_seconds()
            if left > 0:
                disrupted[name(pod)] = moment
                waits.append(left)
    healthy = sum(1 for pod in pods if not deleting(pod) and name(pod) not in disrupted and pod_ready(pod))
    return Budget(expected, desired, healthy, disrupted, unmanaged, min(waits, default=None))


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
        self._selectors: dict[str, LabelSelector] = {}
        self._pods.add_index(
            "label", lambda pod: [f"{namespace(pod)}/{key}={value}" for key, value in labels(pod).items()]
        )
        self._pods.add_index("namespace", lambda pod: (namespace(pod),), fixed=True)
        self._budgets.add_index("namespace", lambda budget: (namespace(budget),), fixed=True)
        self._budgets.add_handler(self._changed, lambda _, new: self._changed(new), self._removed)
        self._pods.add_handler(self._pod_changed, self._pod_updated, self._pod_changed)
        for informer in (self._scales["StatefulSet"], self._scales["Deployment"], self._scales["ReplicaSet"]):
            informer.add_handler(on_update=self._scaled)

    async def run(self) -> None:
        await self.loop.run()

    def _changed(self, budget: Plain) -> None:
        selector = from_label_selector(spec(budget).get("selector"))
        if selector is not None:
            self._selectors[uid(budget)] = selector
        self.loop.add(key_of(budget))

    def _removed(self, budget: Plain) -> None:
        self._selectors.pop(uid(budget), None)

    def _pod_changed(self, pod: Plain) -> None:
        for budget in self._budgets.by_index("namespace", namespace(pod)):
            selector = self._selectors.get(uid(budget))
            if selector is not None and selector.matches(labels(pod)):
                self.loop.add_after(key_of(budget), _BATCH)

    def _pod_updated(self, old: Plain, new: Plain) -> None:
        if not len(self._budgets):
            return
        if (pod_ready(old), deleting(old), labels(old)) != (pod_ready(new), deleting(new), labels(new)):
            self._pod_changed(old)
            self._pod_changed(new)

    def _scaled(self, old: Plain, new: Plain) -> None:
        if spec(old).get("replicas") != spec(new).get("replicas"):
            for budget in self._budgets.by_index("namespace", namespace(new)):
                self.loop.add_after(key_of(budget), _BATCH)

    def _selected(self, budget: Plain) -> list[Plain]:
        selector = self._selectors.get(uid(budget))
        if selector is None:
            return []
        required = (spec(budget).get("selector") or {}).get("matchLabels") or {}
        if required:
            key = min(
                required,
                key=lambda label: self._pods.index_count("label", f"{namespace(budget)}/{label}={required[label]}"),
            )
            candidates = self._pods.by_index("label", f"{namespace(budget)}/{key}={required[key]}")
        else:
            candidates = self._pods.by_index("namespace", namespace(budget))
        return [pod for pod in candidates if selector.matches(labels(pod))]

    def _scale_of(self, pod: Plain) -> tuple[str, int] | None:
        owner = controller_of(pod)
        informer = self._scales.get(owner["kind"]) if owner is not None else None
        workload = (
            informer.get(f"{namespace(pod)}/{owner['name']}") if informer is not None and owner is not None else None
        )
        if workload is None or owner is None or uid(workload) != owner["uid"]:
            return None
        above = controller_of(workload)
        if above is not None and above["kind"] == "Deployment":
            deployment = self._scales["Deployment"].get(f"{namespace(pod)}/{above['name']}")
            if deployment is not None and uid(deployment) == above["uid"]:
                workload = deployment
        return uid(workload), int(spec(workload).get("replicas", 1))

    async def reconcile(self, key: str) -> float | None:
        budget = self._budgets.get(key)
        if budget is None:
            return None
        pods = self._selected(budget)
        if not pods:
            self._recorder.event(budget, "Normal", "NoPods", "No matching pods found")
        now = self._clock.now()
        counted = measure(budget, pods, self._scale_of, now)
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
