"""StatefulSets: pods with stable names, made and deleted in order, updated from the last to the first (pkg/controller/statefulset)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from lightkube.models.apps_v1 import StatefulSet

from drakit.api.errors import StatusError
from drakit.client import Resource, resource_of
from drakit.controllers.loop import Context, ControlLoop
from drakit.controllers.objects import (
    Plain,
    deleting,
    key_of,
    labels,
    name,
    namespace,
    pod_available,
    pod_finished,
    pod_ready,
    spec,
    status,
    status_patch,
    uid,
)
from drakit.controllers.pods import (
    PodControl,
    adopt_and_release,
    follow_children,
    pod_from_template,
    same_pod,
    scaled,
    workload_pods,
)
from drakit.controllers.revisions import REVISION_LABEL, History, revision_of_pod, template_of

__all__ = ["StatefulSetController", "Step", "decide"]

STATEFUL_SETS = resource_of(StatefulSet)
VOLUME_CLAIMS = Resource(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True
)  # only on clusters that have volumes
POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"
_WORKERS = 5


@dataclass(frozen=True, slots=True)
class Step:
    """What to do now; the rest follows when these pods have come or gone."""

    create: list[tuple[int, bool]] = field(default_factory=list)  # ordinal, whether from the update revision
    delete: list[Plain] = field(default_factory=list)


def ordinal_of(stateful_set: Plain, pod: Plain) -> int:
    prefix, _, number = name(pod).rpartition("-")
    return int(number) if prefix == name(stateful_set) and number.isdigit() else -1


def _start(stateful_set: Plain) -> int:
    return int((spec(stateful_set).get("ordinals") or {}).get("start") or 0)


def _partition(stateful_set: Plain) -> int | None:
    rolling = (spec(stateful_set).get("updateStrategy") or {}).get("rollingUpdate")
    return None if rolling is None else int(rolling.get("partition") or 0)


def _strategy(stateful_set: Plain) -> str:
    return str((spec(stateful_set).get("updateStrategy") or {}).get("type") or "RollingUpdate")


def _from_update(stateful_set: Plain, ordinal: int, current: str, update: str) -> bool:
    """Whether a missing pod is made from the new template: those not yet reached by a rolling update keep the old one."""
    if current == update or _strategy(stateful_set) != "RollingUpdate":
        return True
    partition = _partition(stateful_set)
    reached = partition if partition is not None else int(status(stateful_set).get("currentReplicas") or 0)
    return ordinal >= _start(stateful_set) + reached


def decide(stateful_set: Plain, pods: list[Plain], current: str, update: str, now: datetime) -> Step:
    """The next step; `current` and `update` are names of revisions."""
    ordered = spec(stateful_set).get("podManagementPolicy") != "Parallel"
    start, count = _start(stateful_set), int(spec(stateful_set).get("replicas", 1))
    minimum = spec(stateful_set).get("minReadySeconds") or 0
    by_ordinal = {ordinal: pod for pod in pods if (ordinal := ordinal_of(stateful_set, pod)) >= 0}
    wanted = range(start, start + count)
    condemned = [by_ordinal[ordinal] for ordinal in sorted(by_ordinal, reverse=True) if ordinal not in wanted]

    def available(pod: Plain) -> bool:
        return not deleting(pod) and _running(pod) and pod_available(pod, minimum, now)

    create: list[tuple[int, bool]] = []
    delete: list[Plain] = []
    for ordinal in wanted:
        pod = by_ordinal.get(ordinal)
        if pod is None:
            create.append((ordinal, _from_update(stateful_set, ordinal, current, update)))
        elif pod_finished(pod):
            if not deleting(pod):
                delete.append(pod)
        elif available(pod):
            continue
        if ordered:
            return Step(create, delete)
    if create or delete:
        return Step(create, delete)
    first_unavailable = next((by_ordinal[o] for o in sorted(by_ordinal) if not available(by_ordinal[o])), None)
    for pod in condemned:
        if deleting(pod):
            if ordered:
                return Step()
            continue
        if ordered and not available(pod) and pod is not first_unavailable:
            return Step()
        delete.append(pod)
        if ordered:
            return Step(delete=delete)
    if delete:
        return Step(delete=delete)
    if condemned or _strategy(stateful_set) != "RollingUpdate":
        return Step()
    return Step(delete=_updates(stateful_set, [by_ordinal[ordinal] for ordinal in wanted], update, available))


def _updates(
    stateful_set: Plain, replicas: list[Plain], update: str, available: Callable[[Plain], bool]
) -> list[Plain]:
    """Pods of an old revision to replace now, from the last ordinal down to the partition."""
    rolling = (spec(stateful_set).get("updateStrategy") or {}).get("rollingUpdate") or {}
    limit = max(1, scaled(rolling.get("maxUnavailable", 1), len(replicas), up=True))
    missing = sum(1 for pod in replicas if not available(pod))
    partition = _partition(stateful_set) or 0
    outdated = [pod for pod in replicas[partition:][::-1] if revision_of_pod(pod) != update and not deleting(pod)]
    if spec(stateful_set).get("podManagementPolicy") == "Parallel":
        broken = [pod for pod in outdated if not available(pod)]
        return broken + [pod for pod in outdated if available(pod)][: max(0, limit - missing)]
    return outdated[: max(0, limit - missing)]


def _running(pod: Plain) -> bool:
    return bool(status(pod).get("phase") == "Running") and pod_ready(pod)


def next_status(stateful_set: Plain, pods: list[Plain], current: str, update: str, now: datetime) -> Plain:
    old = status(stateful_set)
    minimum = spec(stateful_set).get("minReadySeconds") or 0
    mine = [pod for pod in pods if ordinal_of(stateful_set, pod) >= 0]
    lasting = [pod for pod in mine if not deleting(pod)]
    counts = {
        "replicas": len(mine),
        "readyReplicas": sum(1 for pod in mine if _running(pod)),
        "availableReplicas": sum(1 for pod in mine if _running(pod) and pod_available(pod, minimum, now)),
        "currentReplicas": sum(1 for pod in lasting if revision_of_pod(pod) == current),
        "updatedReplicas": sum(1 for pod in lasting if revision_of_pod(pod) == update),
    }
    wanted = int(spec(stateful_set).get("replicas", 1))
    if (
        _strategy(stateful_set) == "RollingUpdate"
        and counts["updatedReplicas"] == counts["replicas"] == counts["readyReplicas"] == wanted
        and not (_partition(stateful_set) or 0)
    ):
        current, counts["currentReplicas"] = update, counts["updatedReplicas"]
    result: Plain = {
        field: value for field, value in counts.items() if value or field in ("replicas", "availableReplicas")
    }
    result.update(
        observedGeneration=stateful_set["metadata"].get("generation", 0),
        currentRevision=current,
        updateRevision=update,
        collisionCount=old.get("collisionCount") or 0,
    )
    if old.get("conditions"):
        result["conditions"] = old["conditions"]
    return result


class StatefulSetController:
    name = "statefulset-controller"

    def __init__(self, context: Context) -> None:
        self._client, self._clock = context.client, context.clock
        self._recorder = context.recorder("statefulset-controller")
        self.loop = ControlLoop("statefulset", self.reconcile, context, workers=_WORKERS)
        self._sets = context.informers.plain(StatefulSet)
        self._pods = workload_pods(context.informers)
        self._history = History(context.client, context.informers)
        self._control = PodControl(context.client, self._pods, self._recorder)
        self._sets.add_handler(self._changed, lambda _, new: self._changed(new), self._changed)
        follow_children(self._pods, self._sets, self.loop, same=same_pod)

    async def run(self) -> None:
        await self.loop.run()

    def _changed(self, stateful_set: Plain) -> None:
        self.loop.add(key_of(stateful_set))

    async def reconcile(self, key: str) -> float | None:
        stateful_set = self._sets.get(key)
        if stateful_set is None:
            return None
        pods = await adopt_and_release(self._client, self._pods, stateful_set, STATEFUL_SETS)
        revision = await self._history.current(stateful_set, status(stateful_set).get("collisionCount") or 0)
        update = name(revision)
        known = {name(each): each for each in self._history.of(stateful_set)}
        current = status(stateful_set).get("currentRevision") or update
        if current not in known:
            current = update
        failure: Exception | None = None
        if not deleting(stateful_set):
            step = decide(stateful_set, pods, current, update, self._clock.now())
            templates = {True: template_of(revision), False: template_of(known.get(current, revision))}
            failure = await self._carry_out(stateful_set, step, templates, {True: update, False: current})
            pods = self._pods.by_index("workload", uid(stateful_set))
        await self._write_status(self._sets.get(key) or stateful_set, pods, current, update)
        await self._history.truncate(stateful_set, {current, update, *map(revision_of_pod, pods)})
        if failure is not None:
            raise failure
        minimum = spec(stateful_set).get("minReadySeconds") or 0
        waiting = minimum and any(_running(pod) and not pod_available(pod, minimum, self._clock.now()) for pod in pods)
        return 1.0 if waiting else None

    async def _carry_out(
        self, stateful_set: Plain, step: Step, templates: dict[bool, Plain], revisions: dict[bool, str]
    ) -> Exception | None:
        what = f"in StatefulSet {name(stateful_set)}"
        for pod in step.delete:
            try:
                await self._control.delete(stateful_set, pod, tell=False)
            except StatusError as error:
                self._recorder.event(
                    stateful_set, "Warning", "FailedDelete", f"delete Pod {name(pod)} {what} failed error: {error}"
                )
                return error
            self._recorder.event(
                stateful_set, "Normal", "SuccessfulDelete", f"delete Pod {name(pod)} {what} successful"
            )
        for ordinal, from_update in step.create:
            body = _pod(stateful_set, templates[from_update], ordinal, revisions[from_update])
            try:
                await self._create_claims(stateful_set, body, ordinal)
                await self._control.create(stateful_set, body, tell=False)
            except StatusError as error:
                if error.reason == "AlreadyExists":
                    return error
                self._recorder.event(
                    stateful_set, "Warning", "FailedCreate", f"create Pod {name(body)} {what} failed error: {error}"
                )
                return error
            self._recorder.event(
                stateful_set, "Normal", "SuccessfulCreate", f"create Pod {name(body)} {what} successful"
            )
        return None

    async def _create_claims(self, stateful_set: Plain, pod: Plain, ordinal: int) -> None:
        for template in spec(stateful_set).get("volumeClaimTemplates") or ():
            claim_name = f"{template['metadata']['name']}-{name(pod)}"
            body = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {
                    **{key: value for key, value in template["metadata"].items() if key in ("annotations",)},
                    "name": claim_name,
                    "namespace": namespace(stateful_set),
                    "labels": {**(template["metadata"].get("labels") or {}), **_match_labels(stateful_set)},
                },
                "spec": template["spec"],
            }
            try:
                await self._client.create_plain(VOLUME_CLAIMS, body)
            except StatusError as error:
                if error.reason != "AlreadyExists":
                    raise
            else:
                text = f"create Claim {claim_name} Pod {name(pod)} in StatefulSet {name(stateful_set)} success"
                self._recorder.event(stateful_set, "Normal", "SuccessfulCreate", text)

    async def _write_status(self, stateful_set: Plain, pods: list[Plain], current: str, update: str) -> None:
        new = next_status(stateful_set, pods, current, update, self._clock.now())
        patch = status_patch(status(stateful_set), new)
        if patch is not None:
            self._sets.observe(
                await self._client.patch_plain(
                    STATEFUL_SETS, name(stateful_set), patch, namespace=namespace(stateful_set), subresource="status"
                )
            )


def _match_labels(stateful_set: Plain) -> dict[str, str]:
    return (spec(stateful_set).get("selector") or {}).get("matchLabels") or {}


def _pod(stateful_set: Plain, template: Plain, ordinal: int, revision: str) -> Plain:
    """The pod of an ordinal: name, host name, labels and volumes are its identity."""
    pod_name = f"{name(stateful_set)}-{ordinal}"
    body = pod_from_template(template, stateful_set)
    del body["metadata"]["generateName"]
    body["metadata"]["name"] = pod_name
    body["metadata"]["labels"] = {
        **labels({"metadata": body["metadata"]}),
        POD_NAME_LABEL: pod_name,
        POD_INDEX_LABEL: str(ordinal),
        REVISION_LABEL: revision,
    }
    pod_spec = {**body["spec"], "hostname": pod_name}
    if spec(stateful_set).get("serviceName"):
        pod_spec["subdomain"] = spec(stateful_set)["serviceName"]
    claims = {each["metadata"]["name"] for each in spec(stateful_set).get("volumeClaimTemplates") or ()}
    if claims:
        kept = [volume for volume in pod_spec.get("volumes") or () if volume["name"] not in claims]
        made = [{"name": each, "persistentVolumeClaim": {"claimName": f"{each}-{pod_name}"}} for each in sorted(claims)]
        pod_spec["volumes"] = made + kept
    return {**body, "spec": pod_spec}
