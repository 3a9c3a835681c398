"""Workloads and PodGroups of Jobs (gate WorkloadWithJob): made before a new Job's first pod, found again by any controller after that.

What they look like is decided in `job_group_decisions`; here they are looked up (by index), written and kept at the Job's size.
"""

from __future__ import annotations

from lightkube.models.batch_v1 import Job
from lightkube.models.scheduling_v1beta1 import PodGroup, Workload

from drakit.api.errors import StatusError
from drakit.client import EventRecorder, Resource, resource_of
from drakit.client.informers import Informer
from drakit.controllers import job_group_decisions as decisions
from drakit.controllers.loop import Context, ControlLoop
from drakit.controllers.objects import Plain, controller_of, key_of, name, namespace, same_owner, spec, uid, version

__all__ = ["JobGroups"]

WORKLOADS, POD_GROUPS = resource_of(Workload), resource_of(PodGroup)
_REFERENCE, _DELEGATED, _WORKLOAD = "controllerRef", "delegated jobs", "workload"


class JobGroups:
    """For the Job controller; without the gate it does nothing and watches nothing."""

    def __init__(self, context: Context, loop: ControlLoop, recorder: EventRecorder) -> None:
        self._enabled = context.gates.enabled("WorkloadWithJob")
        if not self._enabled:
            return
        self._client, self._loop, self._recorder = context.client, loop, recorder
        self._jobs: Informer[Plain] = context.informers.plain(Job)
        self._workloads: Informer[Plain] = context.informers.plain(Workload)
        self._groups: Informer[Plain] = context.informers.plain(PodGroup)
        self._jobs.add_index(_DELEGATED, _delegated)
        self._workloads.add_index(_REFERENCE, _reference, fixed=True)
        self._groups.add_index(_WORKLOAD, _workload_of, fixed=True)
        self._workloads.add_handler(self._workload_changed, self._workload_updated, self._workload_changed)
        self._groups.add_handler(self._group_changed, self._group_updated, self._group_changed)

    def _workload_changed(self, workload: Plain) -> None:
        """Its own Job, or those that its owner's Jobs are."""
        for key in _reference(workload):
            reference = spec(workload)["controllerRef"]
            if (reference.get("apiGroup"), reference["kind"]) == ("batch", "Job"):
                self._loop.add(f"{namespace(workload)}/{reference['name']}")
            for job in self._jobs.by_index(_DELEGATED, key):
                self._loop.add(key_of(job))

    def _workload_updated(self, old: Plain, new: Plain) -> None:
        if old["spec"] != new["spec"]:
            self._workload_changed(new)

    def _group_changed(self, group: Plain) -> None:
        owner = controller_of(group)
        if owner is not None and same_owner(owner, "Job", "batch"):
            self._loop.add(f"{namespace(group)}/{owner['name']}")

    def _group_updated(self, old: Plain, new: Plain) -> None:
        if old["spec"] != new["spec"]:
            self._group_changed(new)

    def unsure_for(self, job: Plain, *, has_pods: bool) -> float:
        """Seconds until it is to be seen whether a new Job's parent has a Workload for it: one that is on its way to us must not be
        missed, the Job would go without for good. Kubernetes goes by what it happens to know."""
        if (
            not self._enabled
            or has_pods
            or decisions.mode(job) != decisions.ONLY_GROUP
            or not decisions.never_started(job)
        ):
            return 0
        return 0 if self._parents_template(job) is not None else self._workloads.reflector.unsure_for(version(job))

    async def joined(self, job: Plain, *, has_pods: bool) -> Plain:
        """The Job as its pods are made from it: in its PodGroup, where it has one."""
        group = await self._ensure(job, has_pods=has_pods) if self._enabled else None
        if group is None:
            return job
        template = spec(job)["template"]
        membership = {"schedulingGroup": {"podGroupName": name(group)}}
        joined = {**template, "spec": {**template["spec"], **membership}}
        return {**job, "spec": {**spec(job), "template": joined}}

    async def _ensure(self, job: Plain, *, has_pods: bool) -> Plain | None:
        new = not has_pods and decisions.never_started(job)
        match decisions.mode(job):
            case decisions.WHOLE:
                return await self._own(job, new=new)
            case decisions.ONLY_GROUP:
                return await self._delegated(job, new=new)
        return None

    async def _own(self, job: Plain, *, new: bool) -> Plain | None:
        """Workload and group of a Job that nobody controls. More than one of either, and the Job goes without."""
        key = decisions.reference_key(namespace(job), "batch", "Job", name(job))
        workloads = _controlled_by(job, self._workloads.by_index(_REFERENCE, key))
        if len(workloads) > 1 or (not workloads and not new):
            return None
        workload = workloads[0] if workloads else await self._create_workload(job)
        templates = spec(workload).get("podGroupTemplates") or []
        if len(templates) != 1:
            text = f"workload {key_of(workload)} for job {key_of(job)} has {len(templates)} PodGroupTemplates, want exactly 1"
            raise StatusError.internal(text)
        groups = _controlled_by(job, self._groups.by_index(_WORKLOAD, key_of(workload)))
        if len(groups) > 1:
            return None
        group = groups[0] if groups else None
        if group is None and new:
            group = await self._create_group(job, decisions.new_pod_group(job, workload, templates[0], owned=True))
        await self._resize(workload, group, decisions.gang_count(job))
        return group

    async def _delegated(self, job: Plain, *, new: bool) -> Plain | None:
        """The group of a Job whose parent has the Workload; the parent's template says what the group is."""
        known = self._parents_template(job)
        if known is None:
            return None
        workload, template = known
        groups = _controlled_by(job, self._groups.by_index(_WORKLOAD, key_of(workload)))
        group = min(groups, key=name, default=None)
        if group is None and new:
            group = await self._create_group(job, decisions.new_pod_group(job, workload, template, owned=False))
        if group is not None:
            gang = template["schedulingPolicy"].get("gang")
            await self._resize_group(group, None if gang is None else gang["minCount"])
        return group

    def _parents_template(self, job: Plain) -> tuple[Plain, Plain] | None:
        """The Workload of the Job's parent, and what of it is for the Job."""
        found = self._workloads.by_index(_REFERENCE, decisions.parent_reference(job))
        workload = min(found, key=name, default=None)
        template = decisions.template_of(job, workload) if workload is not None else None
        return (workload, template) if workload is not None and template is not None else None

    async def _create_workload(self, job: Plain) -> Plain:
        try:
            workload = await self._client.create_plain(WORKLOADS, decisions.new_workload(job))
        except StatusError as error:
            text = f"Failed to create Workload for Job {name(job)}: {error}"
            self._recorder.event(job, "Warning", "FailedWorkloadCreate", text)
            raise
        self._workloads.observe(workload)
        text = f"Created Workload {name(workload)} for Job {name(job)}"
        self._recorder.event(job, "Normal", "WorkloadCreated", text)
        return workload

    async def _create_group(self, job: Plain, body: Plain) -> Plain:
        group = await self._client.create_plain(POD_GROUPS, body)
        self._groups.observe(group)
        text = f"Created PodGroup {name(group)} for Job {name(job)}"
        self._recorder.event(job, "Normal", "PodGroupCreated", text)
        return group

    # A gang's size follows the Job's.

    async def _resize(self, workload: Plain, group: Plain | None, count: int | None) -> None:
        template = spec(workload)["podGroupTemplates"][0]
        policy = None if count is None else decisions.with_gang_count(template["schedulingPolicy"], count)
        if policy is not None:
            change = {"podGroupTemplates": [{**template, "schedulingPolicy": policy}]}
            self._workloads.observe(await self._patch(WORKLOADS, workload, change))
        if group is not None:
            await self._resize_group(group, count)

    async def _resize_group(self, group: Plain, count: int | None) -> None:
        policy = None if count is None else decisions.with_gang_count(spec(group)["schedulingPolicy"], count)
        if policy is not None:
            self._groups.observe(await self._patch(POD_GROUPS, group, {"schedulingPolicy": policy}))

    async def _patch(self, resource: Resource, obj: Plain, change: Plain) -> Plain:
        patch = {"metadata": {"uid": uid(obj)}, "spec": change}
        return await self._client.patch_plain(resource, name(obj), patch, namespace=namespace(obj))


def _controlled_by(job: Plain, objects: list[Plain]) -> list[Plain]:
    """What users made to look alike is not the Job's."""
    return [obj for obj in objects if (owner := controller_of(obj)) is not None and owner["uid"] == uid(job)]


def _reference(workload: Plain) -> list[str]:
    reference = spec(workload).get("controllerRef")
    if not reference:
        return []
    group = reference.get("apiGroup") or ""
    return [decisions.reference_key(namespace(workload), group, reference["kind"], reference["name"])]


def _workload_of(group: Plain) -> list[str]:
    reference = spec(group).get("workloadRef")
    return [f"{namespace(group)}/{reference['workloadName']}"] if reference else []


def _delegated(job: Plain) -> list[str]:
    return [decisions.parent_reference(job)] if decisions.mode(job) == decisions.ONLY_GROUP else []
