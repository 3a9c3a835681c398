"""What a Job decides, as functions: what counts as succeeded and failed, when it is over, how many pods it wants (pkg/controller/job)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from drakit.controllers.job_indexes import Indexes
from drakit.controllers.objects import (
    Plain,
    condition,
    deleting,
    format_time,
    name,
    namespace,
    parse_time,
    spec,
    status,
    uid,
)
from drakit.controllers.pods import COMPLETION_INDEX, container_statuses, sidecar_statuses

__all__ = [
    "FAILURE_COUNT",
    "IGNORED_COUNT",
    "Backoff",
    "Counts",
    "complete",
    "completion_index",
    "counts_handed_on",
    "deadline_left",
    "decided",
    "ensure_condition",
    "failed_indexes",
    "failure_policy",
    "finished",
    "finished_at",
    "index_backoff",
    "indexed",
    "job_condition",
    "last_failed",
    "new_results",
    "over",
    "pending_indexes",
    "pod_failed",
    "restarts_exceeded",
    "suspended",
    "wanted_active",
]

FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"
IGNORED_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"
_FIRST_BACKOFF = 10.0
_LAST_BACKOFF = 600.0
_DIGITS = 10
_MAX_INT32 = 2**31 - 1


def indexed(job: Plain) -> bool:
    return bool(spec(job).get("completionMode") == "Indexed")


def suspended(job: Plain) -> bool:
    return bool(spec(job).get("suspend"))


def finished(job: Plain) -> Plain | None:
    """The condition that says so."""
    return _true(job, "Complete") or _true(job, "Failed")


def _true(job: Plain, kind: str) -> Plain | None:
    found = condition(job, kind)
    return found if found is not None and found["status"] == "True" else None


def completion_index(pod: Plain) -> int | None:
    return _number((pod["metadata"].get("annotations") or {}).get(COMPLETION_INDEX, ""))


def _number(text: str) -> int | None:
    """What an annotation says; anybody may have written it."""
    return int(text) if len(text) <= _DIGITS and text.isascii() and text.isdigit() else None


def pod_failed(pod: Plain, job: Plain) -> bool:
    """Failed, or (unless only failed pods are replaced) on its way out."""
    phase = status(pod).get("phase")
    if phase == "Failed":
        return True
    return spec(job).get("podReplacementPolicy") != "Failed" and deleting(pod) and phase != "Succeeded"


def finished_at(pod: Plain) -> datetime:
    """When the last container ended, else when it became unready, else when it was deleted, else its creation."""
    if ended := _last_end(sidecar_statuses(pod), _last_end(status(pod).get("containerStatuses") or ())):
        return ended
    ready = condition(pod, "Ready")
    if ready is not None and ready["status"] == "False" and ready.get("lastTransitionTime"):
        return parse_time(ready["lastTransitionTime"])
    if deleting(pod):
        grace = pod["metadata"].get("deletionGracePeriodSeconds") or 0
        return parse_time(pod["metadata"]["deletionTimestamp"]) - timedelta(seconds=grace)
    created = pod["metadata"].get("creationTimestamp")
    return parse_time(created) if created else datetime(1970, 1, 1, tzinfo=UTC)


def _last_end(containers: Iterable[Plain], before: datetime | None = None) -> datetime | None:
    """None while one of them runs; `before`: when others ended."""
    ends = [((entry.get("state") or {}).get("terminated") or {}).get("finishedAt") for entry in containers]
    moments = [parse_time(end) for end in ends if end]
    return None if len(moments) < len(ends) else max([*moments, *([before] if before else [])], default=None)


def failure_policy(job: Plain, pod: Plain) -> tuple[str, str]:
    """The first rule that a failed pod matches: (action, message of FailJob); ("", "") when none does."""
    for position, rule in enumerate((spec(job).get("podFailurePolicy") or {}).get("rules") or ()):
        if rule.get("onExitCodes"):
            container = _exit_code_match(pod, rule["onExitCodes"])
            if container is not None:
                code = container["state"]["terminated"]["exitCode"]
                where = (
                    f"Container {container['name']} for pod {namespace(pod)}/{name(pod)} failed with exit code {code}"
                )
                return rule["action"], f"{where} matching {rule['action']} rule at index {position}"
        elif rule.get("onPodConditions"):
            found = _condition_match(pod, rule["onPodConditions"])
            if found is not None:
                where = f"Pod {namespace(pod)}/{name(pod)} has condition {found}"
                return rule["action"], f"{where} matching {rule['action']} rule at index {position}"
    return "", ""


def _exit_code_match(pod: Plain, rule: Mapping[str, Any]) -> Plain | None:
    for entry in container_statuses(pod):
        ended = (entry.get("state") or {}).get("terminated")
        if not ended or not ended.get("exitCode") or rule.get("containerName") not in (None, entry["name"]):
            continue
        listed = ended["exitCode"] in rule["values"]
        if listed == (rule["operator"] == "In"):
            return dict(entry)
    return None


def _condition_match(pod: Plain, patterns: Iterable[Mapping[str, Any]]) -> str | None:
    for entry in status(pod).get("conditions") or ():
        if any(
            entry["type"] == pattern["type"] and entry["status"] == pattern.get("status", "True")
            for pattern in patterns
        ):
            return str(entry["type"])
    return None


def failed_indexes(job: Plain, pods: Iterable[Plain], known: Indexes) -> Indexes | None:
    """Indexes that failed too often; None when the Job does not count failures per index."""
    limit = spec(job).get("backoffLimitPerIndex")
    if limit is None:
        return None
    new = []
    for pod in pods:
        index = completion_index(pod)
        if index is None or index >= (spec(job).get("completions") or 0) or not pod_failed(pod, job):
            continue
        action, _ = failure_policy(job, pod)
        if action == "FailIndex" or (action != "Ignore" and _noted(pod, FAILURE_COUNT) >= limit):
            new.append(index)
    return known.union(new)


def _noted(pod: Plain, annotation: str) -> int:
    """How often the pod's index had failed before this pod."""
    number = _number((pod["metadata"].get("annotations") or {}).get(annotation, "0"))
    return number if number is not None and number <= _MAX_INT32 else 0


def _all_failures(pod: Plain) -> int:
    return _noted(pod, FAILURE_COUNT) + _noted(pod, IGNORED_COUNT)


def counts_handed_on(job: Plain, failed: Plain | None) -> dict[str, str]:
    """What the annotations of the pod that replaces `failed` say."""
    if failed is None:
        return {FAILURE_COUNT: "0"}
    ignored = failure_policy(job, failed)[0] == "Ignore"
    counts = {FAILURE_COUNT: str(_noted(failed, FAILURE_COUNT) + (not ignored))}
    if ignores := _noted(failed, IGNORED_COUNT) + ignored:
        counts[IGNORED_COUNT] = str(ignores)
    return counts


def last_failed(job: Plain, pods: Iterable[Plain]) -> dict[int, Plain]:
    """Of each index the pod that failed last: the next one continues its counts."""
    result: dict[int, Plain] = {}
    for pod in pods:
        index = completion_index(pod)
        if index is None or index >= (spec(job).get("completions") or 0) or not pod_failed(pod, job):
            continue
        known = result.get(index)
        if known is None or (_all_failures(known) <= _all_failures(pod) and finished_at(known) <= finished_at(pod)):
            result[index] = pod
    return result


def index_backoff(failed: Plain | None, now: datetime) -> float:
    """Seconds until an index whose last pod failed gets the next; failures that do not count lengthen it, too."""
    return 0.0 if failed is None else Backoff(_all_failures(failed) + 1, finished_at(failed)).left(now)


def restarts_exceeded(job: Plain, restarted: Iterable[Plain]) -> bool:
    """With restartPolicy OnFailure the restarts of running pods count against the limit. `restarted`: pods that had any and have not
    finished."""
    if (spec(job)["template"].get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(
        entry.get("restartCount", 0)
        for pod in restarted
        if status(pod).get("phase") in ("Running", "Pending", None)
        for entry in container_statuses(pod)
    )
    limit = spec(job).get("backoffLimit", 6)
    return restarts > 0 if limit == 0 else bool(restarts >= limit)


@dataclass(frozen=True, slots=True)
class Counts:
    """A Job's pods as they stand, whether already in its status or not."""

    active: int
    succeeded: int
    failed: int
    succeeded_indexes: Indexes
    failed_indexes: Indexes | None


def decided(job: Plain) -> Plain | None:
    """The condition that says how the Job is to end."""
    return _true(job, "SuccessCriteriaMet") or _true(job, "FailureTarget")


def over(job: Plain, counts: Counts, *, restarts: bool, fail_message: str, now: datetime) -> Plain | None:
    """The condition that ends the Job (FailureTarget or SuccessCriteriaMet), if it is to end now; pods may still have to go."""
    wanted = spec(job)
    if fail_message:
        return job_condition("FailureTarget", "PodFailurePolicy", fail_message, now)
    if counts.failed > wanted.get("backoffLimit", 6) or restarts:
        return job_condition(
            "FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit", now
        )
    if deadline_left(job, now) == 0:
        return job_condition("FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline", now)
    if counts.failed_indexes is not None:
        limit = wanted.get("maxFailedIndexes")
        if limit is not None and len(counts.failed_indexes) > limit:
            text = "Job has exceeded the specified maximal number of failed indexes"
            return job_condition("FailureTarget", "MaxFailedIndexesExceeded", text, now)
        done = len(counts.failed_indexes) + len(counts.succeeded_indexes)
        if len(counts.failed_indexes) and done >= (wanted.get("completions") or 0):
            return job_condition("FailureTarget", "FailedIndexes", "Job has failed indexes", now)
    if indexed(job):
        rule = _success_rule(job, counts.succeeded_indexes)
        if rule is not None:
            return job_condition("SuccessCriteriaMet", "SuccessPolicy", f"Matched rules at index {rule}", now)
    return None


def complete(job: Plain, counts: Counts, now: datetime) -> Plain | None:
    """Enough pods have succeeded and none is left."""
    completions = spec(job).get("completions")
    enough = counts.succeeded > 0 if completions is None else counts.succeeded >= completions
    if not enough or counts.active:
        return None
    return job_condition("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods", now)


def _success_rule(job: Plain, succeeded: Indexes) -> int | None:
    completions = spec(job).get("completions") or 0
    for position, rule in enumerate((spec(job).get("successPolicy") or {}).get("rules") or ()):
        count = rule.get("succeededCount")
        if rule.get("succeededIndexes") is not None:
            required = Indexes.parse(rule["succeededIndexes"], completions)
            both = required.overlap(succeeded)
            if len(required) and (both == len(required) or (count is not None and both >= count)):
                return position
        elif count is not None and len(succeeded) >= count:
            return position
    return None


def deadline_left(job: Plain, now: datetime) -> float | None:
    """Seconds until activeDeadlineSeconds is over; None when there is no deadline."""
    deadline, start = spec(job).get("activeDeadlineSeconds"), status(job).get("startTime")
    if deadline is None or suspended(job):
        return None
    return max(0.0, float(deadline) - ((now - parse_time(start)).total_seconds() if start else 0.0))


def wanted_active(job: Plain, counts: Counts) -> int:
    """How many pods should be running now."""
    completions, parallelism = spec(job).get("completions"), spec(job).get("parallelism", 1)
    if suspended(job):
        return 0
    if completions is None:
        return counts.active if counts.succeeded > 0 else int(parallelism)
    return int(max(0, min(parallelism, completions - counts.succeeded)))


def pending_indexes(job: Plain, counts: Counts, taken: Callable[[int], bool], limit: int, start: int = 0) -> list[int]:
    """The first indexes from `start` that neither succeeded, nor failed for good, nor have a pod."""
    found: list[int] = []
    index, completions = start, spec(job).get("completions") or 0
    done = [counts.succeeded_indexes, *([counts.failed_indexes] if counts.failed_indexes is not None else [])]
    while index < completions and len(found) < limit:
        last = next((last for indexes in done if (last := indexes.last(index)) is not None), None)
        if last is not None:
            index = last + 1  # past a hundred thousand results at once
            continue
        if not taken(index):
            found.append(index)
        index += 1
    return found


@dataclass(frozen=True, slots=True)
class Backoff:
    """Failures since the last success: 10 s, 20 s, … up to 10 min before the next pods."""

    failures: int = 0
    last: datetime | None = None

    def after(self, succeeded: list[Plain], failed: list[Plain]) -> Backoff:
        """With pods that have finished since."""
        if succeeded:
            last_success = max(map(finished_at, succeeded))
            later = [moment for moment in map(finished_at, failed) if moment > last_success]
            return Backoff(len(later), max(later)) if later else Backoff()
        if not failed:
            return self
        return Backoff(self.failures + len(failed), max(map(finished_at, failed)))

    def left(self, now: datetime) -> float:
        if not self.failures or self.last is None:
            return 0.0
        wait = min(_FIRST_BACKOFF * (1 << min(self.failures - 1, 20)), _LAST_BACKOFF)
        return max(0.0, wait - (now - self.last).total_seconds())


def job_condition(kind: str, reason: str, message: str, now: datetime, *, state: str = "True") -> Plain:
    stamp = format_time(now)
    return {
        "type": kind, "status": state, "lastProbeTime": stamp, "lastTransitionTime": stamp, "reason": reason, "message": message,
    }  # fmt: skip


def ensure_condition(conditions: list[Plain], new: Plain) -> list[Plain]:
    """In place of its type; a False condition is not added anew."""
    for position, entry in enumerate(conditions):
        if entry["type"] == new["type"]:
            if (entry["status"], entry.get("reason"), entry.get("message")) == (
                new["status"],
                new["reason"],
                new["message"],
            ):
                return conditions
            return [*conditions[:position], new, *conditions[position + 1 :]]
    return [*conditions, new] if new["status"] != "False" else conditions


def new_results(job: Plain, pods: Iterable[Plain], verdict: Plain | None = None) -> tuple[list[Plain], list[Plain]]:
    """Pods with the tracking finalizer whose results the status does not list yet: succeeded, failed.

    With the verdict that the Job has failed every pod that has not succeeded counts as failed; once it has enough, those that have
    been stopped count as nothing.
    """
    listed = status(job).get("uncountedTerminatedPods") or {}
    known = {*(listed.get("succeeded") or ()), *(listed.get("failed") or ())}
    failing = verdict is not None and verdict["type"] == "FailureTarget"
    stopping = verdict is not None and verdict.get("reason") == "SuccessPolicy"
    succeeded, failed = [], []
    for pod in pods:
        if uid(pod) in known:
            continue
        if indexed(job):
            index = completion_index(pod)
            if index is None or index >= (spec(job).get("completions") or 0):
                continue
        phase = status(pod).get("phase")
        if phase == "Succeeded":
            succeeded.append(pod)
        elif failing or phase == "Failed" or (not stopping and pod_failed(pod, job)):
            failed.append(pod)
    return succeeded, failed
