"""Jobs: pods until enough have succeeded or too many failed (decisions in `job_decisions`).

Each finished pod is counted exactly once although the controller may die anywhere: its UID goes into
`status.uncountedTerminatedPods`, then its finalizer goes, then the UID turns into a number. Status writes carry the resourceVersion,
so that a count is never based on an old status.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from lightkube.models.batch_v1 import Job

from drakit.api.errors import StatusError
from drakit.client import resource_of
from drakit.controllers import job_decisions as decisions
from drakit.controllers.job_decisions import Backoff, Counts
from drakit.controllers.job_groups import JobGroups
from drakit.controllers.job_indexes import Indexes
from drakit.controllers.job_pods import Placement, new_pod
from drakit.controllers.loop import Context, ControlLoop, soonest
from drakit.controllers.objects import (
    Plain,
    condition,
    controller_of,
    deleting,
    finalizers,
    format_time,
    key_of,
    labels,
    name,
    namespace,
    pod_active,
    pod_finished,
    same_owner,
    spec,
    status,
    status_patch,
    uid,
)
from drakit.controllers.pace import AGAIN, Pace
from drakit.controllers.pods import (
    JOB_FINALIZER,
    JOB_UID,
    PODS,
    WORKLOAD,
    PodControl,
    adopt_and_release,
    adoptable,
    adopters,
    follow_children,
    same_pod,
    selector_of,
    slow_start,
    still_there,
    workload_pods,
)
from drakit.controllers.replicasets import deletion_order

__all__ = ["JobController"]

JOBS = resource_of(Job)
_WORKERS = 5
_FIRST_RETRY, _LAST_RETRY = 1.0, 60.0
_BURST = 500
_UNCOUNTED_LIMIT = 500
# So many pods that wait for their successors, and the seconds for which pod events then wait.
_MANY, _GATHERED = 50, 1.0
_OURSELVES = "kubernetes.io/job-controller"
_NOTHING: Mapping[str, Any] = {}
_REMOVE_FINALIZER: Plain = {"$deleteFromPrimitiveList/finalizers": [JOB_FINALIZER]}


class _Gathering:
    """Pod events are dealt with at once, except those of Jobs that look at many pods each time: failed ones that are held back until
    their back-off is over. Kubernetes gathers the events of every Job."""

    def __init__(self, loop: ControlLoop) -> None:
        self._loop = loop
        self._slow: set[str] = set()

    def add(self, key: str) -> None:
        if key in self._slow:
            self._loop.add_after(key, _GATHERED)
        else:
            self._loop.add(key)

    def saw(self, job: Plain, held: int) -> None:
        if held > _MANY:
            self._slow.add(key_of(job))
        else:
            self._slow.discard(key_of(job))


class JobController:
    name = "job-controller"

    def __init__(self, context: Context) -> None:
        self._client, self._clock = context.client, context.clock
        self._recorder = context.recorder("job-controller")
        self._forgets_start = context.gates.enabled("MutableSchedulingDirectivesForSuspendedJobs")  # of a suspended Job
        self.loop = ControlLoop(
            "job", self.reconcile, context, workers=_WORKERS, base_delay=_FIRST_RETRY, max_delay=_LAST_RETRY
        )
        self._jobs = context.informers.plain(Job)
        self._groups = JobGroups(context, self.loop, self._recorder)
        self._pods = workload_pods(context.informers)
        self._pace = Pace(self._pods, context.clock)
        self._control = PodControl(context.client, self._pods, self._recorder)
        self._backoff: dict[str, Backoff] = {}  # by the Job's UID
        self._decided: dict[str, Plain] = {}  # by UID, the end that its status does not show yet
        self._placements: dict[str, Placement] = {}  # of indexed Jobs, by UID
        self._jobs.add_handler(self._added, lambda _, new: self._changed(new), self._removed)
        self._gathering = _Gathering(self.loop)
        follow_children(context, self._pods, self._jobs, self._gathering, same=same_pod)
        self._pods.add_handler(self._pod_changed, self._pod_updated, self._pod_removed)

    async def run(self) -> None:
        await self.loop.run()

    def _added(self, job: Plain) -> None:
        self.loop.add(key_of(job))
        self._release_pods(job)

    def _changed(self, job: Plain) -> None:
        self.loop.add(key_of(job))
        if decisions.finished(job):
            self._release_pods(job)

    def _removed(self, job: Plain) -> None:
        self._forget(job)
        self._release_pods(job)

    def _forget(self, job: Plain) -> None:
        self._backoff.pop(uid(job), None)
        self._decided.pop(uid(job), None)
        self._placements.pop(uid(job), None)
        self._gathering.saw(job, 0)

    def _release_pods(self, job: Plain) -> None:
        """Pods that nobody will count any more: their finalizer must not keep them."""
        for pod in self._pods.by_index(WORKLOAD, uid(job)):
            self._check_stray(pod)

    def _pod_changed(self, pod: Plain) -> None:
        self._check_stray(pod)
        owner, placement = self._placement_of(pod)
        if placement is None:
            return
        index = decisions.completion_index(pod)
        if pod_active(pod):
            if index is None or index >= placement.completions or self._taken(owner, index) > 1:
                placement.check = True
        elif status(pod).get("phase") != "Succeeded" or JOB_FINALIZER not in finalizers(pod):
            placement.free(index)

    def _pod_updated(self, old: Plain, new: Plain) -> None:
        if controller_of(old) != controller_of(new) or decisions.completion_index(old) != decisions.completion_index(
            new
        ):
            self._pod_removed(old)  # its index is free, whatever it is now
        self._pod_changed(new)

    def _pod_removed(self, pod: Plain) -> None:
        _, placement = self._placement_of(pod)
        if placement is not None:
            placement.free(decisions.completion_index(pod))

    def _placement_of(self, pod: Plain) -> tuple[str, Placement | None]:
        owner = controller_of(pod) if self._placements else None
        return ("", None) if owner is None else (owner["uid"], self._placements.get(owner["uid"]))

    def _taken(self, job_uid: str, index: int) -> int:
        """How many active pods have the index."""
        return self._pods.index_count(WORKLOAD, f"{job_uid}:index:{index}")

    def _held(self, job: Plain, index: int) -> bool:
        """A pod has the index, if only one that ends and is not replaced before it has."""
        if self._taken(uid(job), index):
            return True
        only_failed = spec(job).get("podReplacementPolicy") == "Failed"
        return only_failed and self._count(job, f"ending:{index}") > 0

    def _check_stray(self, pod: Plain) -> None:
        if self._stray(pod):
            self.loop.add(f"pod:{key_of(pod)}")

    def _stray(self, pod: Plain) -> bool:
        """It has our finalizer and no Job that will count it, or belongs to a Job whose selector it no longer matches."""
        tracked, owner = JOB_FINALIZER in finalizers(pod), controller_of(pod)
        if owner is None:
            return tracked and (deleting(pod) or not any(map(_counts_pods, adopters(pod, self._jobs))))
        if not same_owner(owner, "Job", "batch"):
            return False
        job = self._jobs.get(f"{namespace(pod)}/{owner['name']}")
        if job is None or uid(job) != owner["uid"]:
            return tracked
        if not _ours(job):
            return False
        return tracked if decisions.finished(job) else not deleting(job) and not selector_of(job).matches(labels(pod))

    async def reconcile(self, key: str) -> float | None:
        if key.startswith("pod:"):
            pod = self._pods.get(key[4:])
            if pod is not None and self._stray(pod):
                await self._let_go(pod)
            return None
        job = self._jobs.get(key)
        if job is None or decisions.finished(job) or not _ours(job):
            return None
        if adoptable(self._pods, job):
            finalizer = partial(_adopted_with, job)
            await adopt_and_release(self._client, self._pods, job, JOBS, finalizer=finalizer)
        try:
            return await self._sync(job)
        finally:
            if not still_there(self._jobs, job):
                self._forget(job)

    async def _sync(self, job: Plain) -> float | None:
        now = self._clock.now()
        terminated = self._uncounted(job)
        succeeded, failed = decisions.new_results(job, terminated)
        counts = self._counts(job, succeeded, failed)
        backoff = self._backoff.get(uid(job), Backoff()).after(succeeded, failed)
        decided = self._decided.get(uid(job)) or decisions.decided(job)
        verdict = decided or self._verdict(job, counts, terminated)
        failure: Exception | None = None
        again = decisions.deadline_left(job, now) if verdict is None else None
        managed = verdict is None and not deleting(job)
        if verdict is not None:
            self._decided[uid(job)] = verdict
            failure = await self._delete(job, self._active(job))
            if decided is not None or verdict["type"] == "FailureTarget":
                succeeded, failed = decisions.new_results(job, self._uncounted(job), verdict)
        elif managed:
            has_pods = self._pods.index_count(WORKLOAD, uid(job)) > 0
            if unsure := self._groups.unsure_for(job, has_pods=has_pods):
                return unsure
            joined = await self._groups.joined(job, has_pods=has_pods)
            failure, wait = await self._manage(joined, counts, backoff)
            again = soonest(again, wait)
            counts = self._counts(job, succeeded, failed)
        if verdict is None:
            verdict = decisions.complete(job, counts, now)
        if verdict is not None and self._count(job, "active"):
            verdict = None  # some pods could not be deleted: the end is written when they are gone
        held = self._held_back(job, counts, verdict)
        self._gathering.saw(job, len(held))
        failed = [pod for pod in failed if uid(pod) not in held]
        first = self._first_status(job, counts, succeeded=succeeded, failed=failed, verdict=verdict, managed=managed)
        await self._track(job, first, counts=counts, verdict=verdict, backoff=backoff, held=held)
        if failure is not None:
            self.loop.add_after(key_of(job), again)
            raise failure
        return again

    # The state.

    def _count(self, job: Plain, state: str) -> int:
        return self._pods.index_count(WORKLOAD, f"{uid(job)}:{state}")

    def _uncounted(self, job: Plain) -> list[Plain]:
        """Pods that have ended, or are about to, and still have the finalizer."""
        return self._pods.by_index(WORKLOAD, f"{uid(job)}:uncounted")

    def _active(self, job: Plain) -> list[Plain]:
        return self._pods.by_index(WORKLOAD, f"{uid(job)}:active")

    def _counts(self, job: Plain, new_succeeded: list[Plain], new_failed: list[Plain]) -> Counts:
        known = status(job)
        uncounted = known.get("uncountedTerminatedPods") or {}
        counted_failures = [pod for pod in new_failed if decisions.failure_policy(job, pod)[0] != "Ignore"]
        succeeded = known.get("succeeded", 0) + len(new_succeeded) + len(uncounted.get("succeeded") or ())
        completions = spec(job).get("completions")
        indexes = Indexes.parse(known.get("completedIndexes", ""), completions)
        failed_indexes = None
        if decisions.indexed(job):
            indexes = indexes.union(
                index for pod in new_succeeded if (index := decisions.completion_index(pod)) is not None
            )
            succeeded = len(indexes)
            failed_indexes = decisions.failed_indexes(
                job, new_failed, Indexes.parse(known.get("failedIndexes") or "", completions)
            )
        failed = known.get("failed", 0) + len(counted_failures) + len(uncounted.get("failed") or ())
        return Counts(self._count(job, "active"), succeeded, failed, indexes, failed_indexes)

    def _verdict(self, job: Plain, counts: Counts, terminated: list[Plain]) -> Plain | None:
        message = ""
        if spec(job).get("podFailurePolicy"):
            for pod in terminated:
                action, text = decisions.failure_policy(job, pod) if decisions.pod_failed(pod, job) else ("", "")
                if action == "FailJob":
                    message = text
                    break
        restarting = (spec(job)["template"].get("spec") or {}).get("restartPolicy") == "OnFailure"
        restarts = restarting and decisions.restarts_exceeded(
            job, self._pods.by_index(WORKLOAD, f"{uid(job)}:restarted")
        )
        return decisions.over(job, counts, restarts=restarts, fail_message=message, now=self._clock.now())

    # Pods.

    async def _manage(self, job: Plain, counts: Counts, backoff: Backoff) -> tuple[Exception | None, float | None]:
        """Make or delete pods; the error, and after how many seconds to go on."""
        wanted = decisions.wanted_active(job, counts)
        doomed = self._superfluous(job, counts.active - wanted)
        if doomed:  # what is left over comes next: each pod that goes, or is made, brings the Job back
            return await self._delete(job, doomed[:_BURST], uncounted=True), None
        only_failed = spec(job).get("podReplacementPolicy") == "Failed"
        missing = wanted - counts.active - (self._count(job, "terminating") if only_failed else 0)
        if missing <= 0:
            return None, None
        per_index = spec(job).get("backoffLimitPerIndex") is not None
        wait = 0.0 if per_index else backoff.left(self._clock.now())
        if wait > 0:
            return None, wait
        burst = min(missing, _BURST)
        room = self._pace.room(namespace(job), burst)
        if not room:
            return None, AGAIN
        if not decisions.indexed(job):
            body = new_pod(job)
            _, error = await slow_start(room, lambda _: self._control.create(job, body))
        else:
            error, wait = await self._create_indexed(job, counts, room)
        return error, AGAIN if room < burst else wait or None

    def _placement(self, job: Plain) -> Placement:
        completions = int(spec(job).get("completions") or 0)
        known = self._placements.get(uid(job))
        if known is None or known.completions != completions:
            known = self._placements[uid(job)] = Placement(completions)
        return known

    async def _create_indexed(self, job: Plain, counts: Counts, missing: int) -> tuple[Exception | None, float]:
        last_failed = self._last_failed(job) if spec(job).get("backoffLimitPerIndex") is not None else {}
        placement, now = self._placement(job), self._clock.now()
        ready: list[int] = []
        waits: dict[int, float] = {}
        found = decisions.pending_indexes(job, counts, lambda index: self._held(job, index), missing, placement.start)
        placement.start = found[-1] + 1 if len(found) == missing else placement.completions
        for index in found:
            left = decisions.index_backoff(last_failed.get(index), now)
            if left > 0:
                waits[index] = left
            else:
                ready.append(index)

        async def make(number: int) -> Plain:
            index = ready[number]
            return await self._control.create(job, new_pod(job, index, last_failed.get(index)))

        worked, error = await slow_start(len(ready), make)
        if waits or worked < len(ready):  # these indexes are still without a pod
            placement.start = min(placement.start, *found)
        return error, min(waits.values(), default=0.0)

    def _superfluous(self, job: Plain, surplus: int) -> list[Plain]:
        """Pods to delete: those we have let go of and could not delete, all but one of each index, indexes out of range, then as
        many as there are too many."""
        if untracked := self._pods.by_index(WORKLOAD, f"{uid(job)}:untracked"):
            return untracked  # what they do would count for nothing, even if they are wanted again by now
        if not decisions.indexed(job):
            return _deletion_order(self._active(job))[:surplus] if surplus > 0 else []
        placement = self._placement(job)
        if surplus <= 0 and not placement.check:
            return []
        doomed: list[Plain] = []
        seen: set[int] = set()
        left: list[Plain] = []
        for pod in _deletion_order(self._active(job))[::-1]:  # of two pods of an index the better one stays
            index = decisions.completion_index(pod)
            if index is None or index >= placement.completions or index in seen:
                doomed.append(pod)
            else:
                seen.add(index)
                left.append(pod)
        placement.check = bool(doomed)  # until they are gone
        if len(doomed) < surplus:
            doomed += _deletion_order(left)[: surplus - len(doomed)]
        return doomed

    def _last_failed(self, job: Plain) -> dict[int, Plain]:
        return decisions.last_failed(job, self._uncounted(job))

    async def _delete(self, job: Plain, pods: list[Plain], *, uncounted: bool = False) -> Exception | None:
        """`uncounted`: we do not want them any more, which is no failure of theirs; a pod that has just ended counts, though, and its
        version tells."""

        async def end(pod: Plain) -> None:
            if uncounted:
                await self._remove_finalizer(pod, {"resourceVersion": pod["metadata"]["resourceVersion"]})
            await self._control.delete(job, pod)

        answers = await asyncio.gather(*(end(pod) for pod in pods), return_exceptions=True)
        return next((answer for answer in answers if isinstance(answer, Exception)), None)

    # Status.

    async def _track(
        self,
        job: Plain,
        first: Plain,
        *,
        counts: Counts,
        verdict: Plain | None,
        backoff: Backoff,
        held: Collection[str],
    ) -> None:
        """Write what is new, let go of counted pods, turn their UIDs into numbers, end the Job when nothing is left."""
        job = await self._write(job, first)
        self._backoff[uid(job)] = backoff  # not sooner: the same failures would be seen again
        if verdict is not None:
            self._decided.pop(uid(job), None)
        if decisions.indexed(job):
            self._placement(job).done = counts.succeeded_indexes
        terminated = self._uncounted(job)
        if deleting(job):
            terminated += [pod for pod in self._active(job) if JOB_FINALIZER in finalizers(pod)]
        to_be_listed = {uid(pod) for each in decisions.new_results(job, terminated, verdict) for pod in each}
        doomed = [
            pod for pod in terminated if uid(pod) not in held and self._done_with(job, pod, verdict, to_be_listed)
        ]
        answers = await asyncio.gather(*(self._remove_finalizer(pod) for pod in doomed), return_exceptions=True)
        still = {uid(pod) for pod in self._uncounted(job)}
        new = _settled(dict(status(job)), still)
        new["terminating"] = self._count(job, "terminating")
        if verdict is not None and not still and not new["terminating"]:
            new = self._final_status(job, new, verdict)
        job = await self._write(job, new)
        if decisions.finished(job):
            self._tell_end(job, verdict)
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer

    def _first_status(
        self,
        job: Plain,
        counts: Counts,
        *,
        succeeded: list[Plain],
        failed: list[Plain],
        verdict: Plain | None,
        managed: bool,
    ) -> Plain:
        """The status with the new results, and the condition that ends the Job or says whether it is suspended."""
        now = self._clock.now()
        new = dict(status(job))
        conditions = list(new.get("conditions") or ())
        if "startTime" not in new and not decisions.suspended(job):
            new["startTime"] = format_time(now)
        telling = managed if verdict is None else not decisions.suspended(job)
        if telling:
            conditions = self._suspend_or_resume(job, new, conditions, now)
        if verdict is not None:
            conditions = decisions.ensure_condition(conditions, verdict)
        uncounted = new.get("uncountedTerminatedPods") or {}
        listed_succeeded, listed_failed = list(uncounted.get("succeeded") or ()), list(uncounted.get("failed") or ())
        room = max(0, _UNCOUNTED_LIMIT - len(listed_succeeded) - len(listed_failed))
        if decisions.indexed(job):
            new["completedIndexes"] = str(counts.succeeded_indexes)
            new["succeeded"] = len(counts.succeeded_indexes)
            if counts.failed_indexes is not None:
                new["failedIndexes"] = str(counts.failed_indexes)
        else:
            listed_succeeded += [uid(pod) for pod in succeeded[:room]]
            room -= len(succeeded[:room])
        listed_failed += [uid(pod) for pod in failed if decisions.failure_policy(job, pod)[0] != "Ignore"][:room]
        new["uncountedTerminatedPods"] = _lists(listed_succeeded, listed_failed)
        new.update(
            active=self._count(job, "active"),
            ready=self._count(job, "ready"),
            terminating=self._count(job, "terminating"),
            conditions=conditions,
        )
        return _trimmed(new)

    def _suspend_or_resume(self, job: Plain, new: Plain, conditions: list[Plain], now: datetime) -> list[Plain]:
        if decisions.suspended(job):
            entry = decisions.job_condition("Suspended", "JobSuspended", "Job suspended", now)
        else:
            entry = decisions.job_condition("Suspended", "JobResumed", "Job resumed", now, state="False")
        changed = decisions.ensure_condition(conditions, entry)
        if changed is not conditions:
            if decisions.suspended(job):
                if self._forgets_start:
                    new.pop("startTime", None)
                self._recorder.event(job, "Normal", "Suspended", "Job suspended")
            else:
                new["startTime"] = format_time(now)
                self._recorder.event(job, "Normal", "Resumed", "Job resumed")
        return changed

    def _held_back(self, job: Plain, counts: Counts, verdict: Plain | None) -> set[str]:
        """Counting failures per index: the last failed pod of an index is not let go of, nor listed, until its successor is made."""
        if verdict is not None or counts.failed_indexes is None or deleting(job):
            return set()
        return {
            uid(pod)
            for index, pod in self._last_failed(job).items()
            if not self._taken(uid(job), index)
            and index not in counts.failed_indexes
            and index not in counts.succeeded_indexes
        }

    def _done_with(self, job: Plain, pod: Plain, verdict: Plain | None, to_be_listed: Collection[str]) -> bool:
        """Its result is in the status, or it has none that counts: the finalizer may go."""
        over = verdict is not None or deleting(job)
        if not over and status(pod).get("phase") != "Succeeded" and not decisions.pod_failed(pod, job):
            return False  # still ending
        return uid(pod) not in to_be_listed or self._counted_without_uid(job, pod)

    def _counted_without_uid(self, job: Plain, pod: Plain) -> bool:
        """Results that are not listed by UID: indexes are their own record, and ignored failures have none."""
        if status(pod).get("phase") == "Succeeded":
            return decisions.indexed(job) and decisions.completion_index(pod) in self._placement(job).done
        return decisions.failure_policy(job, pod)[0] == "Ignore"

    def _final_status(self, job: Plain, new: Plain, verdict: Plain) -> Plain:
        now = self._clock.now()
        kind = "Complete" if verdict["type"] == "SuccessCriteriaMet" else "Failed"
        end = decisions.job_condition(kind, verdict.get("reason", ""), verdict.get("message", ""), now)
        new["conditions"] = decisions.ensure_condition(list(new.get("conditions") or ()), end)
        if spec(job).get("completions") != 0:
            # One that was suspended before its last pod ended has no start, and could not finish without.
            new.setdefault("startTime", format_time(now))
        if kind == "Complete":
            new["completionTime"] = format_time(now)
        return new

    def _tell_end(self, job: Plain, verdict: Plain | None) -> None:
        assert verdict is not None
        if condition(job, "Complete") is not None:
            completions = spec(job).get("completions")
            if completions is not None and status(job).get("succeeded", 0) > completions:
                text = "Too many succeeded pods running after completion count reached"
                self._recorder.event(job, "Warning", "TooManySucceededPods", text)
            self._recorder.event(job, "Normal", "Completed", "Job completed")
        else:
            self._recorder.event(job, "Warning", verdict.get("reason", ""), verdict.get("message", ""))

    async def _write(self, job: Plain, new: Plain) -> Plain:
        patch = status_patch(status(job), new)
        if patch is None:
            return job
        patch["metadata"] = {"resourceVersion": job["metadata"]["resourceVersion"], "uid": uid(job)}
        patched = await self._client.patch_plain(JOBS, name(job), patch, namespace=namespace(job), subresource="status")
        self._jobs.observe(patched)
        return patched

    async def _let_go(self, pod: Plain) -> None:
        """Of a stray: unless it has just become someone's, as its version would tell."""
        change: Plain = {"resourceVersion": pod["metadata"]["resourceVersion"]}
        owner = controller_of(pod)
        job = self._jobs.get(f"{namespace(pod)}/{owner['name']}") if owner is not None else None
        if job is not None and owner is not None and uid(job) == owner["uid"] and not decisions.finished(job):
            change["ownerReferences"] = [{"$patch": "delete", "uid": uid(job)}]
        await self._remove_finalizer(pod, change)

    async def _remove_finalizer(self, pod: Plain, change: Mapping[str, Any] = _NOTHING) -> None:
        patch = {"metadata": {"uid": uid(pod), **_REMOVE_FINALIZER, **change}}
        try:
            patched = await self._client.patch_plain(PODS, name(pod), patch, namespace=namespace(pod), kind="strategic")
        except StatusError as error:
            if error.code != 404:
                raise
            self._pods.observe_deleted(key_of(pod), uid(pod), {})
            return
        if deleting(patched) and not finalizers(patched) and not patched["metadata"].get("deletionGracePeriodSeconds"):
            self._pods.observe_deleted(key_of(pod), uid(pod), {})
        else:
            self._pods.observe(patched)


def _deletion_order(pods: list[Plain]) -> list[Plain]:
    return deletion_order(pods, Counter(), costs=False)


def _ours(job: Plain) -> bool:
    return str(spec(job).get("managedBy", _OURSELVES)) == _OURSELVES


def _counts_pods(job: Plain) -> bool:
    return _ours(job) and not decisions.finished(job) and not deleting(job)


def _adopted_with(job: Plain, pod: Plain) -> str:
    """The finalizer, unless the Job has counted the pod before someone took it away from the Job."""
    counted = pod_finished(pod) and JOB_FINALIZER not in finalizers(pod) and labels(pod).get(JOB_UID) == uid(job)
    return "" if counted else JOB_FINALIZER


def _settled(new: Plain, still: set[str]) -> Plain:
    """UIDs whose pods have lost the finalizer become numbers."""
    uncounted = new.get("uncountedTerminatedPods") or {}
    kept = {kind: [entry for entry in uncounted.get(kind) or () if entry in still] for kind in ("succeeded", "failed")}
    for kind in ("succeeded", "failed"):
        gone = len(uncounted.get(kind) or ()) - len(kept[kind])
        if gone:
            new[kind] = new.get(kind, 0) + gone
    new["uncountedTerminatedPods"] = _lists(kept["succeeded"], kept["failed"])
    return new


def _lists(succeeded: Iterable[str], failed: Iterable[str]) -> Plain:
    return {kind: list(uids) for kind, uids in (("succeeded", succeeded), ("failed", failed)) if uids}


def _trimmed(new: Plain) -> Plain:
    """Without the zeros and empty texts that Kubernetes leaves out."""
    return {
        field: value
        for field, value in new.items()
        if value or field in ("ready", "terminating", "uncountedTerminatedPods", "failedIndexes")
    }
