"""Deployments: a ReplicaSet per template, moved from the old to the new one by step (decisions in `rollout`)."""

from __future__ import annotations

from lightkube.models.apps_v1 import Deployment as DeploymentModel
from lightkube.models.apps_v1 import ReplicaSet

from drakit.api.errors import StatusError
from drakit.client import resource_of
from drakit.controllers import rollout
from drakit.controllers.loop import Context, ControlLoop
from drakit.controllers.objects import (
    Plain,
    condition,
    controller_of,
    controller_reference,
    deleting,
    key_of,
    name,
    namespace,
    pod_finished,
    spec,
    status,
    status_patch,
    uid,
)
from drakit.controllers.pods import (
    WORKLOAD,
    adopt_and_release,
    child_states,
    follow_children,
    namespace_terminating,
    workload_pods,
)
from drakit.controllers.rollout import Deployment

__all__ = ["DeploymentController"]

DEPLOYMENTS, REPLICA_SETS = resource_of(DeploymentModel), resource_of(ReplicaSet)
_WORKERS = 5
_NAME_LIMIT = 253


class DeploymentController:
    name = "deployment-controller"

    def __init__(self, context: Context) -> None:
        self._client, self._clock = context.client, context.clock
        self._recorder = context.recorder("deployment-controller")
        self.loop = ControlLoop("deployment", self.reconcile, context, workers=_WORKERS)
        self._deployments = context.informers.plain(DeploymentModel)
        self._sets = context.informers.plain(ReplicaSet)
        self._sets.add_index(WORKLOAD, child_states)
        self._pods = workload_pods(context.informers)
        self._deployments.add_handler(self._changed, lambda _, new: self._changed(new), self._changed)
        follow_children(context, self._sets, self._deployments, self.loop)
        self._pods.add_handler(on_delete=self._pod_removed)

    async def run(self) -> None:
        await self.loop.run()

    def _changed(self, deployment: Plain) -> None:
        self.loop.add(key_of(deployment))

    def _pod_removed(self, pod: Plain) -> None:
        """Recreate waits for the last old pod to be really gone."""
        owner = next((each for each in pod["metadata"].get("ownerReferences") or () if each.get("controller")), None)
        replica_set = (
            self._sets.get(f"{namespace(pod)}/{owner['name']}") if owner and owner["kind"] == "ReplicaSet" else None
        )
        above = next(
            (each for each in (replica_set or {"metadata": {}})["metadata"].get("ownerReferences") or ()), None
        )
        if above is None:
            return
        deployment = self._deployments.get(f"{namespace(pod)}/{above['name']}")
        if deployment is not None and not Deployment(deployment, []).rolling:
            self.loop.add(key_of(deployment))

    async def reconcile(self, key: str) -> float | None:
        obj = self._deployments.get(key)
        if obj is None:
            return None
        sets = await adopt_and_release(self._client, self._sets, obj, DEPLOYMENTS)
        deployment = Deployment(obj, sets)
        if deleting(obj):
            return await self._write_status(deployment, rollout=False)
        deployment = await self._mark_paused(deployment)
        rollback = rollout.rollback_of(obj)
        if rollback is not None and not deployment.paused:
            await self._roll_back(deployment, rollback)
            return None
        if deployment.new_set is not None:
            deployment = await self._annotate_new(deployment)
        if deployment.paused or deployment.is_scaling:
            await self._resize(deployment, deployment.sizes_scaling(), scaling=True)
            if deployment.paused and rollback is None:
                await self._clean_up(deployment)
            return await self._write_status(self._again(deployment), rollout=False)
        if deployment.rolling:
            return await self._roll(deployment)
        return await self._recreate(deployment)

    async def _roll(self, deployment: Deployment) -> float | None:
        if deployment.new_set is None:
            deployment = await self._create_new(deployment)
        else:
            rounds = deployment.sizes_rolling()
            for sizes in rounds:
                await self._resize(deployment, sizes)
                deployment = self._again(deployment)
            if not rounds and deployment.complete(status(deployment.obj)):
                await self._clean_up(deployment)
        return await self._write_status(deployment, rollout=True)

    async def _recreate(self, deployment: Deployment) -> float | None:
        active = [old for old in deployment.old_sets if rollout.replicas(old) > 0]
        if active:
            await self._resize(deployment, {name(old): 0 for old in active})
        elif not self._old_pods_run(deployment):
            if deployment.new_set is None:
                deployment = await self._create_new(deployment)
            new = deployment.new_set
            if new is not None and rollout.replicas(new) != deployment.wanted:
                await self._resize(deployment, {name(new): deployment.wanted})
            elif deployment.complete(status(deployment.obj)):
                await self._clean_up(deployment)
        return await self._write_status(self._again(deployment), rollout=True)

    def _old_pods_run(self, deployment: Deployment) -> bool:
        for old in deployment.old_sets:
            if status(old).get("replicas"):
                return True
            if any(not pod_finished(pod) for pod in self._pods.by_index(WORKLOAD, uid(old))):
                return True
        return False

    # Writing.

    def _again(self, deployment: Deployment) -> Deployment:
        """The snapshot with what we have written since."""
        sets = [self._sets.get(key_of(each)) for each in deployment.sets]
        obj = self._deployments.get(key_of(deployment.obj)) or deployment.obj
        return Deployment(obj, [each for each in sets if each is not None])

    async def _create_new(self, deployment: Deployment) -> Deployment:
        obj, template = deployment.obj, spec(deployment.obj)["template"]
        digest = rollout.template_hash(template, status(obj).get("collisionCount"))
        labels = {**((template.get("metadata") or {}).get("labels") or {}), rollout.HASH_LABEL: digest}
        selector = spec(obj).get("selector") or {}
        size = deployment.size_of_new()
        newest = str(max((rollout.revision(old) for old in deployment.sets), default=0) + 1)
        wanted = deployment.wanted
        body = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": f"{name(obj)[: _NAME_LIMIT - 1 - len(digest)]}-{digest}",
                "namespace": namespace(obj),
                "labels": labels,
                "annotations": rollout.copied_annotations(obj, None, newest, wanted, wanted + deployment.max_surge),
                "ownerReferences": [controller_reference(obj)],
            },
            "spec": {
                "replicas": size,
                "minReadySeconds": spec(obj).get("minReadySeconds") or 0,
                "selector": {
                    **selector,
                    "matchLabels": {**(selector.get("matchLabels") or {}), rollout.HASH_LABEL: digest},
                },
                "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}},
            },
        }
        try:
            created = await self._client.create_plain(REPLICA_SETS, body)
        except StatusError as error:
            await self._creation_failed(deployment, body, error)
            raise
        self._sets.observe(created)
        if size:
            self._tell(obj, f"Scaled up replica set {name(created)} from 0 to {size}")
        if deployment.has_deadline:
            obj = await self._set_progress(
                obj, "True", "NewReplicaSetCreated", f'Created new replica set "{name(created)}"'
            )
        obj = await self._set_revision(obj, newest)
        return Deployment(obj, [*deployment.sets, created])

    async def _creation_failed(self, deployment: Deployment, body: Plain, error: StatusError) -> None:
        obj = deployment.obj
        if namespace_terminating(error):
            return
        if error.reason == "AlreadyExists":
            # Someone else's set, or one whose template was changed: take another name next time.
            known = self._sets.get(key_of(body))
            owner = (controller_of(known) or {}).get("uid") if known is not None else None
            if known is not None and (owner != uid(obj) or not deployment.has_template(known)):
                count = (status(obj).get("collisionCount") or 0) + 1
                await self._patch_status(obj, {"status": {"collisionCount": count}})
            return
        text = f'Failed to create new replica set "{name(body)}": {error}'
        if deployment.has_deadline:
            await self._set_progress(obj, "False", "ReplicaSetCreateError", text)
        self._recorder.event(obj, "Warning", "ReplicaSetCreateError", text)

    async def _annotate_new(self, deployment: Deployment) -> Deployment:
        """The new set carries the Deployment's annotations and a revision above all others."""
        obj, new = deployment.obj, deployment.new_set
        assert new is not None
        newest = str(max((rollout.revision(old) for old in deployment.old_sets), default=0) + 1)
        wanted = rollout.copied_annotations(
            obj, new, newest, deployment.wanted, deployment.wanted + deployment.max_surge
        )
        minimum = spec(obj).get("minReadySeconds") or 0
        if wanted != dict(rollout.annotations_of(new)) or (spec(new).get("minReadySeconds") or 0) != minimum:
            new = await self._patch_set(
                new, {"metadata": {"annotations": wanted}, "spec": {"minReadySeconds": minimum}}
            )
        obj = await self._set_revision(obj, rollout.annotations_of(new).get(rollout.REVISION, newest))
        if deployment.has_deadline and condition(obj, "Progressing") is None:
            obj = await self._set_progress(obj, "True", "FoundNewReplicaSet", f'Found new replica set "{name(new)}"')
        return Deployment(obj, [new if uid(each) == uid(new) else each for each in deployment.sets])

    async def _resize(self, deployment: Deployment, sizes: dict[str, int], *, scaling: bool = False) -> None:
        wanted = deployment.wanted
        limits = {rollout.DESIRED: str(wanted), rollout.MAX: str(wanted + deployment.max_surge)}
        for each in deployment.sets:
            old, new = rollout.replicas(each), sizes.get(name(each))
            if new is None:
                if not scaling or not old or rollout.annotations_of(each).get(rollout.DESIRED) in (None, str(wanted)):
                    continue
                new = old  # only its limits change: they say that the wanted number has been taken into account
            stale = any(rollout.annotations_of(each).get(key) != value for key, value in limits.items())
            if new == old and not stale:
                continue
            await self._patch_set(each, {"metadata": {"annotations": limits}, "spec": {"replicas": new}})
            if new != old:
                direction = "up" if new > old else "down"
                self._tell(deployment.obj, f"Scaled {direction} replica set {name(each)} from {old} to {new}")

    async def _clean_up(self, deployment: Deployment) -> None:
        for old in deployment.expired_sets():
            try:
                answer = await self._client.delete(REPLICA_SETS, name(old), namespace=namespace(old), uid=uid(old))
            except StatusError as error:
                if error.code != 404:
                    raise
                continue
            self._sets.observe_deleted(key_of(old), uid(old), answer)

    async def _mark_paused(self, deployment: Deployment) -> Deployment:
        obj = deployment.obj
        known = condition(obj, "Progressing")
        reason = (known or {}).get("reason")
        if not deployment.has_deadline or reason == "ProgressDeadlineExceeded":
            return deployment
        if deployment.paused and reason != "DeploymentPaused":
            obj = await self._set_progress(obj, "Unknown", "DeploymentPaused", "Deployment is paused")
        elif not deployment.paused and reason == "DeploymentPaused":
            obj = await self._set_progress(obj, "Unknown", "DeploymentResumed", "Deployment is resumed")
        return Deployment(obj, deployment.sets)

    async def _roll_back(self, deployment: Deployment, wanted: int) -> None:
        """Take over the template and the annotations of a revision; the request is done with in any case. kubectl of today
        patches the template itself."""
        if deployment.new_set is None:
            deployment = await self._create_new(deployment)
        obj = deployment.obj
        known = sorted((rollout.revision(each) for each in deployment.sets), reverse=True)
        wanted = wanted or (known[1] if len(known) > 1 else 0)
        found = next((each for each in deployment.sets if rollout.revision(each) == wanted), None) if wanted else None
        patch: Plain = {"metadata": {"annotations": {rollout.ROLLBACK: None}}}
        if found is None:
            text = "Unable to find the revision to rollback to." if wanted else "Unable to find last revision."
            self._recorder.event(obj, "Warning", "DeploymentRollbackRevisionNotFound", text)
        elif found is deployment.new_set:
            message = f'The rollback revision contains the same template as current deployment "{name(obj)}"'
            self._recorder.event(obj, "Warning", "DeploymentRollbackTemplateUnchanged", message)
        else:
            template = rollout.without_hash(spec(found)["template"])
            dropped = dict.fromkeys((*rollout.own_annotations(obj), rollout.ROLLBACK))
            patch = {
                "metadata": {"annotations": {**dropped, **rollout.own_annotations(found)}},
                "spec": {"template": {"$patch": "replace", **template}},
            }
        self._deployments.observe(
            await self._client.patch_plain(DEPLOYMENTS, name(obj), patch, namespace=namespace(obj), kind="strategic")
        )
        if "spec" in patch:
            text = f'Rolled back deployment "{name(obj)}" to revision {wanted}'
            self._recorder.event(obj, "Normal", "DeploymentRollback", text)

    async def _write_status(self, deployment: Deployment, *, rollout: bool) -> float | None:
        new = deployment.next_status(self._clock.now(), rollout=rollout)
        patch = status_patch(status(deployment.obj), new)
        if patch is not None:
            await self._patch_status(deployment.obj, patch)
        return deployment.look_again(new, self._clock.now()) if rollout else None

    async def _set_progress(self, obj: Plain, state: str, reason: str, message: str) -> Plain:
        conditions = rollout.with_condition(
            status(obj).get("conditions") or (), "Progressing", state, reason, message, self._clock.now()
        )
        return await self._patch_status(obj, {"status": {"conditions": conditions}})

    async def _set_revision(self, obj: Plain, text: str) -> Plain:
        if rollout.annotations_of(obj).get(rollout.REVISION) == text:
            return obj
        patch = {"metadata": {"annotations": {rollout.REVISION: text}}}
        return await self._patch_status(obj, patch)  # there it makes no new generation

    async def _patch_status(self, obj: Plain, patch: Plain) -> Plain:
        patched = await self._client.patch_plain(
            DEPLOYMENTS, name(obj), patch, namespace=namespace(obj), subresource="status"
        )
        self._deployments.observe(patched)
        return patched

    async def _patch_set(self, replica_set: Plain, patch: Plain) -> Plain:
        patched = await self._client.patch_plain(
            REPLICA_SETS, name(replica_set), patch, namespace=namespace(replica_set)
        )
        self._sets.observe(patched)
        return patched

    def _tell(self, obj: Plain, message: str) -> None:
        self._recorder.event(obj, "Normal", "ScalingReplicaSet", message)
