"""ReplicaSets: as many pods as asked for, made and deleted in bounded steps (pkg/controller/replicaset)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from math import inf

from lightkube.models.apps_v1 import ReplicaSet

from drakit.api.kinds.pod_annotations import deletion_cost
from drakit.client import resource_of
from drakit.controllers.loop import Context, ControlLoop, soonest
from drakit.controllers.objects import (
    Plain,
    condition,
    controller_of,
    deleting,
    key_of,
    labels,
    name,
    namespace,
    parse_time,
    pod_active,
    pod_ready,
    set_condition,
    spec,
    status,
    status_patch,
    uid,
)
from drakit.controllers.pace import AGAIN, Pace
from drakit.controllers.pods import (
    WORKLOAD,
    PodControl,
    adopt_and_release,
    adoptable,
    as_judged,
    child_states,
    follow_children,
    keep_rosters,
    label_text,
    owned_pods,
    pod_from_template,
    same_pod,
    sidecar_statuses,
    slow_start,
    workload_pods,
)
from drakit.controllers.ripening import Ripening, ripe_at

__all__ = ["ReplicaSetController", "deletion_order", "next_status"]

REPLICA_SETS = resource_of(ReplicaSet)
_BURST = 500
_WORKERS = 5


def deletion_order(
    pods: list[Plain], on_node: Counter[str], now: datetime | None = None, *, costs: bool = True
) -> list[Plain]:
    """Which pods go first: not assigned, pending, not ready, cheap, on crowded nodes, ready for less long, restarted, young.

    With `now` ages are compared by their order of magnitude only, and UIDs, that is chance, decide among pods of about one age: the
    youngest may all be those that a rollout has just put into one zone. `costs`: whether the pods' deletion costs count.
    """

    def age(text: str | None) -> float:
        if not text:
            return -inf
        moment = parse_time(text)
        return -moment.timestamp() if now is None else _magnitude(now, moment)

    def rank(pod: Plain) -> tuple[object, ...]:
        node, metadata, seen = spec(pod).get("nodeName") or "", pod["metadata"], status(pod)
        ready = condition(pod, "Ready") or {}
        is_ready = ready.get("status") == "True"
        return (
            bool(node),
            {"Pending": 0, "Unknown": 1}.get(seen.get("phase", "Pending"), 2),
            is_ready,
            (deletion_cost(metadata.get("annotations") or {}) or 0) if costs else 0,
            -on_node[node],
            age(ready.get("lastTransitionTime")) if is_ready else 0.0,
            -_restarts(seen.get("containerStatuses") or ()),
            -_restarts(sidecar_statuses(pod)),
            age(metadata.get("creationTimestamp")),
            uid(pod),
        )

    return sorted(pods, key=rank)


def _magnitude(now: datetime, moment: datetime) -> float:
    age = int((now - moment).total_seconds() * 1e9)
    return age.bit_length() - 1.0 if age > 0 else -1.0


def _restarts(containers: Iterable[Plain]) -> int:
    return max((each.get("restartCount", 0) for each in containers), default=0)


def next_status(
    replica_set: Plain,
    *,
    active: int,
    labeled: int,
    ready: int,
    available: int,
    terminating: int,
    failure: str,
    now: datetime,
) -> Plain:
    """The status for these counts; `failure` is why pods could not be made or deleted."""
    old = status(replica_set)
    conditions = [dict(entry) for entry in old.get("conditions") or ()]
    known = condition(replica_set, "ReplicaFailure")
    if failure and known is None:
        missing = active < spec(replica_set).get("replicas", 1)
        reason, message = (
            ("FailedCreate", failure) if missing else ("FailedDelete", f"unable to delete pods: {failure}")
        )
        conditions = set_condition(
            conditions, {"type": "ReplicaFailure", "status": "True", "reason": reason, "message": message}, now
        )
    elif not failure and known is not None:
        conditions = [entry for entry in conditions if entry["type"] != "ReplicaFailure"]
    new: Plain = {
        "replicas": active,
        "fullyLabeledReplicas": labeled,
        "readyReplicas": ready,
        "availableReplicas": available,
        "terminatingReplicas": terminating,
        "observedGeneration": replica_set["metadata"].get("generation", 0),
        "conditions": conditions,
    }
    return {field: value for field, value in new.items() if value or field in ("replicas", "terminatingReplicas")}


class Roster:
    """The pods of a set that are ready, but not for `minimum` seconds yet."""

    def __init__(self, minimum: int, pods: Iterable[Plain]) -> None:
        self.minimum = minimum
        self.waiting: Ripening[str] = Ripening()
        self._undated: set[str] = set()  # nobody said since when: they never ripen
        for pod in pods:
            self.put(pod)

    def put(self, pod: Plain) -> None:
        self.remove(pod)
        if pod_active(pod) and pod_ready(pod):
            at = ripe_at(pod, self.minimum)
            if at is None:
                self._undated.add(key_of(pod))
            else:
                self.waiting.put(key_of(pod), at)

    def remove(self, pod: Plain) -> None:
        self.waiting.discard(key_of(pod))
        self._undated.discard(key_of(pod))

    def unripe(self, now: datetime) -> int:
        self.waiting.take(now)
        return len(self.waiting) + len(self._undated)


class ReplicaSetController:
    name = "replicaset-controller"

    def __init__(self, context: Context) -> None:
        self._client, self._clock = context.client, context.clock
        self.loop = ControlLoop("replicaset", self.reconcile, context, workers=_WORKERS)
        self._sets = context.informers.plain(ReplicaSet)
        self._sets.add_index(WORKLOAD, child_states)
        self._pods = workload_pods(context.informers)
        self._pace = Pace(self._pods, context.clock)
        self._control = PodControl(context.client, self._pods, context.recorder("replicaset-controller"))
        self._rosters: dict[str, Roster] = {}  # by the set's UID, of those with minReadySeconds
        self._sets.add_handler(self._changed, lambda _, new: self._changed(new), self._removed)
        keep_rosters(self._pods, self._rosters)
        follow_children(context, self._pods, self._sets, self.loop, same=same_pod)

    async def run(self) -> None:
        await self.loop.run()

    def _changed(self, replica_set: Plain) -> None:
        self.loop.add(key_of(replica_set))

    def _removed(self, replica_set: Plain) -> None:
        self._rosters.pop(uid(replica_set), None)
        self._changed(replica_set)

    def _roster(self, replica_set: Plain) -> Roster | None:
        owner, minimum = uid(replica_set), spec(replica_set).get("minReadySeconds") or 0
        known = self._rosters.get(owner)
        if not minimum:
            self._rosters.pop(owner, None)
            return None
        if known is None or known.minimum != minimum:
            known = self._rosters[owner] = Roster(minimum, self._pods.by_index(WORKLOAD, owner))
        return known

    async def reconcile(self, key: str) -> float | None:
        replica_set = self._sets.get(key)
        if replica_set is None:
            return None
        owner, roster = uid(replica_set), self._roster(replica_set)
        exact = label_text((spec(replica_set)["template"].get("metadata") or {}).get("labels") or {})
        # Pods with exactly the template's labels match the selector: only if there are others is there anything to adopt or release.
        if adoptable(self._pods, replica_set, among=pod_active) or self._count(owner, f"labels:{exact}") != self._count(
            owner, "active"
        ):
            await adopt_and_release(self._client, self._pods, replica_set, REPLICA_SETS, among=pod_active)
        failure: Exception | None = None
        again: float | None = None
        if not deleting(replica_set):
            failure, again = await self._scale(replica_set)
        await self._write_status(as_judged(self._sets, replica_set), exact, roster, failure)
        if roster is not None:
            again = soonest(again, roster.waiting.wait(self._clock.now()))
        if failure is not None:
            self.loop.add_after(key, again)
            raise failure
        return again

    def _count(self, owner: str, state: str) -> int:
        return self._pods.index_count(WORKLOAD, f"{owner}:{state}")

    async def _scale(self, replica_set: Plain) -> tuple[Exception | None, float | None]:
        """Make or delete pods; the error, and after how many seconds to go on."""
        wanted = spec(replica_set).get("replicas", 1)
        missing = wanted - self._count(uid(replica_set), "active")
        if missing > 0:
            body = pod_from_template(spec(replica_set)["template"], replica_set)
            burst = min(missing, _BURST)
            room = self._pace.room(namespace(replica_set), burst)
            _, error = await slow_start(room, lambda _: self._control.create(replica_set, body))
            return (
                error,
                AGAIN if room < burst else None,
            )  # each pod that comes, or goes, brings the set back: for the others there is another turn
        if missing < 0:
            active = [pod for pod in owned_pods(self._pods, replica_set) if pod_active(pod)]
            doomed = deletion_order(active, self._crowding(replica_set), self._clock.now())[: min(-missing, _BURST)]
            answers = await asyncio.gather(
                *(self._control.delete(replica_set, pod) for pod in doomed), return_exceptions=True
            )
            return next((answer for answer in answers if isinstance(answer, Exception)), None), None
        return None, None

    def _crowding(self, replica_set: Plain) -> Counter[str]:
        """How many active pods of the same Deployment are on each node; a set of its own does not care, as in Kubernetes."""
        owner = controller_of(replica_set)
        related = self._sets.by_index(WORKLOAD, owner["uid"]) if owner else []
        return Counter(
            spec(pod).get("nodeName") or ""
            for other in related
            for pod in self._pods.by_index(WORKLOAD, f"{uid(other)}:active")
        )

    async def _write_status(
        self, replica_set: Plain, exact: str, roster: Roster | None, failure: Exception | None
    ) -> None:
        owner, now = uid(replica_set), self._clock.now()
        active, ready = self._count(owner, "active"), self._count(owner, "ready")
        labeled, available = self._count(owner, f"labels:{exact}"), ready
        if labeled != active:
            wanted = (spec(replica_set)["template"].get("metadata") or {}).get("labels") or {}
            pods = self._pods.by_index(WORKLOAD, f"{owner}:active")
            labeled = sum(1 for pod in pods if wanted.items() <= labels(pod).items())
        if roster is not None:
            available -= roster.unripe(now)
        new = next_status(
            replica_set,
            active=active,
            labeled=labeled,
            ready=ready,
            available=available,
            terminating=self._count(owner, "terminating"),
            failure=str(failure) if failure is not None else "",
            now=now,
        )
        patch = status_patch(status(replica_set), new)
        if patch is not None:
            self._sets.observe(
                await self._client.patch_plain(
                    REPLICA_SETS, name(replica_set), patch, namespace=namespace(replica_set), subresource="status"
                )
            )
