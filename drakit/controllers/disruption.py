"""PodDisruptionBudgets: how many pods are healthy, how many must be, how many may go now (decisions in `disruption_decisions`).

A pod's change costs its own budgets a look at the running count. Only a new budget, or one with a new selector, looks at all its pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lightkube.models.apps_v1 import Deployment, ReplicaSet, StatefulSet
from lightkube.models.core_v1 import Pod
from lightkube.models.policy_v1 import PodDisruptionBudget

from drakit.api.errors import StatusError
from drakit.client import Informer, Resource, resource_of
from drakit.controllers import disruption_decisions as decisions
from drakit.controllers.disruption_decisions import Covered, Owner
from drakit.controllers.loop import Context, ControlLoop
from drakit.controllers.objects import (
    Plain,
    controller_of,
    deleting,
    format_time,
    key_of,
    labels,
    name,
    namespace,
    same_owner,
    spec,
    status,
    status_patch,
    uid,
)
from drakit.controllers.pods import WORKLOAD, child_states, required_label
from drakit.controllers.served import Served

__all__ = ["DisruptionController"]

BUDGETS, PODS = resource_of(PodDisruptionBudget), resource_of(Pod)
_BATCH = 0.25  # changes of many pods are answered together


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
        self._served = Served(context.client, context.gates)
        self._covered: dict[str, Covered] = {}  # by the budget's UID
        self._by_owner: dict[str, set[str]] = {}  # UID of a ReplicaSet or StatefulSet -> budgets that cover pods of it
        self._pods.add_index(
            "label", lambda pod: [f"{namespace(pod)}/{key}={value}" for key, value in labels(pod).items()]
        )
        self._pods.add_index("namespace", lambda pod: (namespace(pod),), fixed=True)
        self._budgets.add_index("label", lambda budget: (required_label(budget),))
        self._scales["ReplicaSet"].add_index(WORKLOAD, child_states)
        self._budgets.add_handler(self._changed, self._updated, self._removed)
        self._pods.add_handler(self._pod_changed, self._pod_updated, self._pod_removed)
        for informer in self._scales.values():
            informer.add_handler(self._enqueue_above, self._scaled, self._enqueue_above)

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

    def _tell_of_several(self, pod: Plain) -> None:
        """The eviction API refuses a pod that is under several budgets."""
        over = [
            each for each in self._around(namespace(pod), labels(pod)) if name(pod) in self._covered[uid(each)].healthy
        ]
        if len(over) > 1:
            pair = f'"{namespace(pod)}"/"{name(pod)}"'
            text = f'Pod {pair} matches multiple PodDisruptionBudgets.  Chose "{name(over[0])}" arbitrarily.'
            self._recorder.event(pod, "Warning", "MultiplePodDisruptionBudgets", text)

    def _pod_changed(self, pod: Plain) -> None:
        if decisions.stale_in(pod, self._clock.now()) is not None:
            self.loop.add(f"pod:{key_of(pod)}")
        if len(self._budgets):
            self._put(pod, self._around(namespace(pod), labels(pod)))
            self._tell_of_several(pod)

    def _put(self, pod: Plain, budgets: Iterable[Plain]) -> None:
        for budget in budgets:
            if self._covered[uid(budget)].put(pod):
                self.loop.add_after(key_of(budget), _BATCH)

    def _pod_updated(self, old: Plain, new: Plain) -> None:
        if len(self._budgets) and labels(old) != labels(new):
            self._put(new, [*self._around(namespace(old), labels(old))])
        self._pod_changed(new)

    def _pod_removed(self, pod: Plain) -> None:
        if not len(self._budgets):
            return
        self._tell_of_several(pod)
        for budget in self._around(namespace(pod), labels(pod)):
            if self._covered[uid(budget)].remove(pod):
                self.loop.add_after(key_of(budget), _BATCH)

    def _scaled(self, old: Plain, new: Plain) -> None:
        if spec(old).get("replicas") != spec(new).get("replicas"):
            self._enqueue_above(new)

    def _enqueue_above(self, workload: Plain) -> None:
        """Budgets over pods of the workload."""
        for owner in (workload, *self._scales["ReplicaSet"].by_index(WORKLOAD, uid(workload))):
            for key in sorted(self._by_owner.get(uid(owner), ())):
                self.loop.add_after(key, _BATCH)

    # How large the workloads behind pods want to be.

    async def _scale(self, budget: Plain, covered: Covered) -> int:
        sizes: dict[str, int] = {}
        for owner in [*covered.owners]:
            if owner is None:
                continue
            found = await self._scale_of(namespace(budget), owner)
            if found is None:
                raise _NoScale(f'found no controllers for pod "{covered.pod_of(owner)}"')
            sizes[found[0]] = found[1]
        if None in covered.owners:
            self._recorder.event(budget, "Warning", "UnmanagedPods", decisions.unmanaged(budget))
        return sum(sizes.values())

    async def _scale_of(self, where: str, owner: Owner) -> tuple[str, int] | None:
        """The UID and wanted size of the workload behind pods; None when it is gone."""
        workload = self._workload(where, owner) if owner.apiVersion.startswith("apps/") else None
        if workload is None:
            return await self._asked_scale(where, owner)
        return uid(workload), int(spec(workload).get("replicas", 1))

    def _workload(self, where: str, owner: Owner) -> Plain | None:
        """What our caches know of it; for a ReplicaSet of a Deployment, the Deployment."""
        informer = self._scales.get(owner.kind)
        workload = informer.get(f"{where}/{owner.name}") if informer is not None else None
        if workload is None or uid(workload) != owner.uid:
            return None
        above = controller_of(workload)
        if owner.kind != "ReplicaSet" or above is None or not same_owner(above, "Deployment", "apps"):
            return workload
        workload = self._scales["Deployment"].get(f"{where}/{above['name']}")
        return workload if workload is not None and uid(workload) == above["uid"] else None

    async def _asked_scale(self, where: str, owner: Owner) -> tuple[str, int] | None:
        """Of any kind that has a scale: only the server knows."""
        resource = self._served.resource_of(owner.apiVersion, owner.kind)
        if resource is None:
            await self._served.all()
            resource = self._served.resource_of(owner.apiVersion, owner.kind)
        if resource is None:
            raise _NoScale(f'no matches for kind "{owner.kind}" in version "{owner.apiVersion}"')
        try:
            scale = await self._client.get_plain(resource, owner.name, namespace=where, subresource="scale")
        except StatusError as error:
            if error.code != 404:
                raise
            if not await self._exists(where, owner, resource):
                return None
            kind = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
            raise _NoScale(f"{kind} does not implement the scale subresource") from error
        return (uid(scale), int(spec(scale).get("replicas", 0))) if uid(scale) == owner.uid else None

    async def _exists(self, where: str, owner: Owner, resource: Resource) -> bool:
        try:
            return uid(await self._client.get_plain(resource, owner.name, namespace=where)) == owner.uid
        except StatusError as error:
            if error.code != 404:
                raise
            return False

    async def reconcile(self, key: str) -> float | None:
        if key.startswith("pod:"):
            return await self._spare(key[4:])
        budget = self._budgets.get(key)
        if budget is None:
            return None
        covered, where, now = self._covered[uid(budget)], namespace(budget), self._clock.now()
        if not covered.healthy:
            self._recorder.event(budget, "Normal", "NoPods", "No matching pods found")
        try:
            scale = await self._scale(budget, covered) if decisions.needs_scale(budget) else 0
        except (_NoScale, StatusError) as error:
            text = f"Failed to calculate the number of expected pods: {error}"
            self._recorder.event(budget, "Warning", "CalculateExpectedPodCountFailed", text)
            await self._write(budget, decisions.failed_status(budget, str(error), now))
            if isinstance(error, StatusError):
                raise  # it may pass; until then nothing may go
            return None
        counted = decisions.measure(
            budget,
            covered,
            scale,
            lambda pod: (found := self._pods.get(f"{where}/{pod}")) is None or deleting(found),
            now,
        )
        for overdue in counted.overdue:
            if (pod := self._pods.get(f"{where}/{overdue}")) is not None:
                text = f"Pod was expected by PDB {where}/{where} to be deleted but it wasn't"  # as Kubernetes words it
                self._recorder.event(pod, "Warning", "NotDeleted", text)
        await self._write(budget, decisions.next_status(budget, counted, now))
        return counted.recheck

    async def _write(self, budget: Plain, new: Plain) -> None:
        patch = status_patch(status(budget), new)
        if patch is None:
            return
        # The eviction API writes this status too: never over a grant that we have not seen.
        patch["metadata"] = {"resourceVersion": budget["metadata"]["resourceVersion"], "uid": uid(budget)}
        self._budgets.observe(
            await self._client.patch_plain(
                BUDGETS, name(budget), patch, namespace=namespace(budget), subresource="status"
            )
        )

    async def _spare(self, key: str) -> float | None:
        """A pod that was to be disrupted, but lives on, loses the mark."""
        pod = self._pods.get(key)
        left = decisions.stale_in(pod, self._clock.now()) if pod is not None else None
        if pod is None or left is None or left > 0:
            return left
        entry = {
            "type": "DisruptionTarget",
            "status": "False",
            "reason": None,
            "message": None,
            "lastTransitionTime": format_time(self._clock.now()),
            "observedGeneration": pod["metadata"].get("generation", 0),
        }
        patch = {"metadata": {"uid": uid(pod)}, "status": {"conditions": [entry]}}
        patched = await self._client.patch_plain(
            PODS, name(pod), patch, namespace=namespace(pod), kind="strategic", subresource="status"
        )
        self._pods.observe(patched)
        return None


class _NoScale(Exception):
    """Nobody can say how many pods there should be; the text goes into an event and a condition."""
