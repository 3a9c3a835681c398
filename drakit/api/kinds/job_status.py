"""What a Job's status may become: whoever manages the Job, its users can rely on it (pkg/registry/batch/job, pkg/apis/batch/validation).

Most rules count only when what they are about changes: right after a new spec the old status may break them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from drakit.api.errors import OMITTED, Errors, FieldError
from drakit.api.kind import Object, WriteContext
from drakit.api.kinds import checks, job_rules

__all__ = ["is_true", "validate_status"]

_CONDITIONS = "status.conditions"


def is_true(status: Object, *kinds: str, state: str = "True") -> bool:
    return any(entry.get("type") in kinds and entry.get("status") == state for entry in status.get("conditions") or ())


def validate_status(new: Object, old: Object, ctx: WriteContext) -> Errors:
    spec, status, before = new["spec"], new.get("status") or {}, old.get("status") or {}
    return [
        *_counters(status),
        *_end(spec, status, before),
        *_indexes(spec, status, before),
        *_left_over(status, before),
        *_criteria(spec, status),
        *_transitions(spec, status, before),
    ]


def _changed(status: Object, before: Object, *fields: str) -> bool:
    return any(status.get(field) != before.get(field) for field in fields)


def _turned(status: Object, before: Object, *kinds: str) -> bool:
    return is_true(status, *kinds) != is_true(before, *kinds)


def _wrong(text: str) -> FieldError:
    return FieldError.invalid(_CONDITIONS, OMITTED, text)


def _counters(status: Object) -> Iterator[FieldError]:
    for name in ("active", "succeeded", "failed", "ready", "terminating"):
        yield from checks.non_negative(status.get(name), f"status.{name}")
    uncounted, seen = status.get("uncountedTerminatedPods") or {}, set[str]()
    for kind in ("succeeded", "failed"):
        for position, pod in enumerate(uncounted.get(kind) or ()):
            path = f"status.uncountedTerminatedPods.{kind}[{position}]"
            if not pod:
                yield FieldError.invalid(path, pod, "must not be empty")
            elif pod in seen:
                yield FieldError.duplicate(path, pod)
            seen.add(pod)


def _end(spec: Object, status: Object, before: Object) -> Iterator[FieldError]:
    """Complete or Failed, and what has to be so before."""
    complete, failed = is_true(status, "Complete"), is_true(status, "Failed")
    start, end = status.get("startTime"), status.get("completionTime")
    turned, ended = _turned(status, before, "Complete"), _turned(status, before, "Complete", "Failed")
    if complete and failed and (turned or _turned(status, before, "Failed")):
        yield _wrong("cannot set Complete=True and Failed=true conditions")
    if complete and is_true(status, "FailureTarget") and (turned or _turned(status, before, "FailureTarget")):
        yield _wrong("cannot set Complete=True and FailureTarget=true conditions")
    if turned or _changed(status, before, "completionTime"):
        if end is not None and not complete:
            text = "cannot set completionTime when there is no Complete=True condition"
            yield FieldError.invalid("status.completionTime", end, text)
        if end is None and complete:
            yield FieldError.required("status.completionTime", "completionTime is required for Complete jobs")
    if start and end and _changed(status, before, "startTime", "completionTime") and _time(end) < _time(start):
        yield FieldError.invalid("status.completionTime", end, "must be equal to or after `startTime`")
    lately = _turned(status, before, "Failed") or _changed(status, before, "failedIndexes")
    if failed and lately and not is_true(status, "FailureTarget"):
        yield _wrong("cannot set Failed=True condition without the FailureTarget=true condition")
    if (
        complete
        and not is_true(status, "SuccessCriteriaMet")
        and (turned or _turned(status, before, "SuccessCriteriaMet"))
    ):
        yield _wrong("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
    if not complete and not failed:
        return
    if status.get("active", 0) > 0 and (ended or _changed(status, before, "active")):
        yield FieldError.invalid("status.active", status["active"], "active>0 is invalid for finished job")
    never_ran = spec.get("suspend") and spec.get("completions") == 0
    if start is None and not never_ran and (ended or _changed(status, before, "startTime")):
        yield FieldError.required("status.startTime", "startTime is required for finished job")
    uncounted = status.get("uncountedTerminatedPods") or {}
    if any(uncounted.get(kind) for kind in ("succeeded", "failed")) and (
        ended or _changed(status, before, "uncountedTerminatedPods")
    ):
        shown = {"Succeeded": uncounted.get("succeeded"), "Failed": uncounted.get("failed")}
        yield FieldError.invalid("status.uncountedTerminatedPods", shown, "must be empty for finished job")


def _indexes(spec: Object, status: Object, before: Object) -> Iterator[FieldError]:
    completions, per_index = spec.get("completions"), spec.get("backoffLimitPerIndex") is not None
    completed, failed = status.get("completedIndexes") or "", status.get("failedIndexes")
    new_completed = completed != (before.get("completedIndexes") or "")
    new_failed = _changed(status, before, "failedIndexes")
    if new_completed and completions is not None:
        yield from _format("completedIndexes", completed, completions)
    if new_failed and completions is not None and per_index and failed is not None:
        yield from _format("failedIndexes", failed, completions)
    if new_completed and completed and spec.get("completionMode") != "Indexed":
        text = "cannot set non-empty completedIndexes when non-indexed completion mode"
        yield FieldError.invalid("status.completedIndexes", completed, text)
    if new_failed and not per_index and failed is not None:
        text = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        yield FieldError.invalid("status.failedIndexes", failed, text)
    if (new_completed or new_failed) and completions is not None and failed:
        both = job_rules.overlap(completed, failed, completions)
        if both is not None:
            text = f"failedIndexes and completedIndexes overlap at index: {both}"
            yield FieldError.invalid("status.failedIndexes", failed, text)


def _format(field: str, text: str, completions: int) -> Errors:
    try:
        job_rules.indexes(text, completions)
    except ValueError as error:
        return [FieldError.invalid(f"status.{field}", text, f"error parsing {field}: {error}")]
    return []


def _left_over(status: Object, before: Object) -> Iterator[FieldError]:
    terminating, ready = status.get("terminating"), status.get("ready")
    ended = _turned(status, before, "Complete", "Failed")
    if terminating and is_true(status, "Complete", "Failed") and (ended or _changed(status, before, "terminating")):
        yield FieldError.invalid("status.terminating", terminating, "terminating>0 is invalid for finished job")
    if ready is not None and ready > status.get("active", 0) and _changed(status, before, "ready", "active"):
        yield FieldError.invalid("status.ready", ready, "cannot set more ready pods than active")


def _criteria(spec: Object, status: Object) -> Iterator[FieldError]:
    met = is_true(status, "SuccessCriteriaMet")
    if met and is_true(status, "Failed"):
        yield _wrong("cannot set SuccessCriteriaMet=True and Failed=true conditions")
    if met and is_true(status, "FailureTarget"):
        yield _wrong("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
    if spec.get("successPolicy") is not None and not met and is_true(status, "Complete"):
        yield _wrong("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")


def _transitions(spec: Object, status: Object, before: Object) -> Iterator[FieldError]:
    for kind in ("Failed", "Complete", "FailureTarget"):
        if is_true(before, kind) and not is_true(status, kind):
            yield _wrong(f"cannot disable the terminal {kind}=True condition")
    elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    for name in ("failed",) if elastic else ("failed", "succeeded"):
        if status.get(name, 0) < before.get(name, 0):
            yield FieldError.invalid(f"status.{name}", status.get(name, 0), f"cannot decrease the {name} counter")
    end, ended = status.get("completionTime"), before.get("completionTime")
    if end is not None and ended is not None and end != ended:
        yield FieldError.invalid("status.completionTime", end, "field is immutable")
    resuming = is_true(before, "Suspended") and is_true(status, "Suspended", state="False")
    start, started = status.get("startTime"), before.get("startTime")
    if started is not None and start != started and not spec.get("suspend") and not resuming:
        text = "field is immutable for unsuspended job once set"
        yield FieldError.invalid("status.startTime", start, text)
    if is_true(before, "SuccessCriteriaMet") and not is_true(status, "SuccessCriteriaMet"):
        yield _wrong("cannot disable the SuccessCriteriaMet=True condition")
    if (
        is_true(before, "Complete")
        and not is_true(before, "SuccessCriteriaMet")
        and is_true(status, "SuccessCriteriaMet")
    ):
        yield _wrong("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")


def _time(text: Any) -> datetime:
    return datetime.fromisoformat(text)
