"""batch: Jobs. The API server itself labels a job's pods and makes the selector from the job's uid."""

from __future__ import annotations

from typing import Any

from lightkube.models import batch_v1

from drakit.api import declared, formats, selector_validation, wire
from drakit.api.errors import Errors, FieldError
from drakit.api.kind import Kind, Object, Strategy, Subresource, WriteContext
from drakit.api.kinds import checks, entry, group_rules, job_rules, job_status
from drakit.api.kinds.pod_defaults import default_pod_template
from drakit.api.kinds.pod_validation import validate_pod_template
from drakit.api.kinds.workloads import drop_disabled_template, fixed_selector, validate_template_labels
from drakit.api.selectors import matches_label_selector

__all__ = ["KINDS"]

_UID_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
_NAME_LABELS = ("job-name", "batch.kubernetes.io/job-name")
_COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_PER_INDEX = ("backoffLimitPerIndex", "maxFailedIndexes")
_POLICIES = {"podFailurePolicy": "batch_v1.PodFailurePolicy", "successPolicy": "batch_v1.SuccessPolicy"}
_IMMUTABLE = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")


def _default(job: Object) -> None:
    spec = job.setdefault("spec", {})
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    if spec.get("parallelism") is None:
        spec["parallelism"] = 1
    if spec.get("backoffLimit") is None:
        spec["backoffLimit"] = 6 if spec.get("backoffLimitPerIndex") is None else checks.MAX_INT32
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels and not (job.get("metadata") or {}).get("labels"):
        job.setdefault("metadata", {})["labels"] = labels  # the same object: `_prepare` sees that they are not its own
    if spec.get("completionMode") is None:
        spec["completionMode"] = "NonIndexed"
    if spec.get("suspend") is None:
        spec["suspend"] = False
    if spec.get("podReplacementPolicy") is None:
        spec["podReplacementPolicy"] = "TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed"
    if spec.get("manualSelector") is None:
        spec["manualSelector"] = False
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            if not pattern.get("status"):
                pattern["status"] = "True"
    default_pod_template(job)


def _prepare(job: Object, ctx: WriteContext) -> None:
    spec, meta = job["spec"], job["metadata"]
    if not spec["manualSelector"]:
        template = spec["template"].setdefault("metadata", {})
        labels = template.setdefault("labels", {})
        has_own = meta.get("labels") and meta["labels"] is not labels
        for name in _NAME_LABELS:
            labels.setdefault(name, meta.get("name") or "")
        for name in _UID_LABELS:
            labels.setdefault(name, meta["uid"])
        spec.setdefault("selector", {}).setdefault("matchLabels", {}).setdefault(_UID_LABELS[1], meta["uid"])
        if not has_own:
            meta["labels"] = dict(labels)
    drop_disabled_template(job, None, ctx)
    _drop_disabled(spec, {}, ctx)


def _prepare_update(new: Object, old: Object, ctx: WriteContext) -> None:
    drop_disabled_template(new, old, ctx)
    _drop_disabled(new["spec"], old["spec"], ctx)


def _drop_disabled(spec: Object, old: Object, ctx: WriteContext) -> None:
    if not ctx.gates.enabled("WorkloadWithJob") and not old.get("scheduling"):
        spec.pop("scheduling", None)


def _validate(job: Object, ctx: WriteContext) -> Errors:
    errors = _validate_generated(job) + _validate_spec(job["spec"]) + _validate_hostnames(job)
    return errors + declared.check(group_rules.JOB_SCHEDULING, job["spec"], None, "spec", ctx.gates)


def _validate_generated(job: Object) -> Errors:
    """With a generated selector, the labels that belong to it must be this job's."""
    spec, meta = job["spec"], job["metadata"]
    if spec.get("manualSelector"):
        return []
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    expected = {"controller-uid": meta.get("uid", ""), "job-name": meta.get("name", "")}
    expected |= {f"batch.kubernetes.io/{name}": value for name, value in expected.items()}
    errors: Errors = []
    for name, wanted in expected.items():
        path, text = f"spec.template.metadata.labels[{name}]", f"must be '{wanted}'"
        if name not in labels:
            errors.append(FieldError.required(path, text))
        elif labels[name] != wanted:
            errors.append(FieldError.invalid(path, dict(sorted(labels.items())), text))
    selector = spec.get("selector")
    if (
        selector is not None
        and not selector_validation.label_selector(selector, "")
        and not matches_label_selector(selector, expected)
    ):
        errors.append(FieldError.invalid("spec.selector", selector, "`selector` not auto-generated"))
    return errors


def _validate_spec(spec: Object) -> Errors:
    errors = [error for name in _COUNTS for error in checks.non_negative(spec.get(name), f"spec.{name}")]
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        errors.append(FieldError.required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if spec.get("managedBy") is not None:
        errors += job_rules.managed_by(spec["managedBy"], "spec.managedBy")
    errors += _completion_mode(spec)
    supported = ("Failed", "TerminatingOrFailed") if spec.get("podFailurePolicy") is None else ("Failed",)
    if (replacement := spec.get("podReplacementPolicy")) not in supported:
        errors.append(FieldError.not_supported("spec.podReplacementPolicy", replacement, supported))
    errors += _scheduling(spec)
    template = spec.get("template") or {}
    errors += validate_pod_template(template, "spec.template")
    policy = (template.get("spec") or {}).get("restartPolicy")
    path = "spec.template.spec.restartPolicy"
    if policy in ("Always", "", None):
        errors.append(FieldError.required(path, 'valid values: "OnFailure", "Never"'))
    elif policy not in ("OnFailure", "Never"):
        errors.append(FieldError.not_supported(path, policy, ("OnFailure", "Never")))
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        errors.append(FieldError.invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified'))
    selector = spec.get("selector")
    if selector is None:
        errors.append(FieldError.required("spec.selector"))
    else:
        errors += selector_validation.label_selector(selector, "spec.selector")
    return errors + validate_template_labels(selector, template)


def _completion_mode(spec: Object) -> Errors:
    mode = spec.get("completionMode")
    errors: Errors = []
    if mode not in ("NonIndexed", "Indexed"):
        errors.append(FieldError.not_supported("spec.completionMode", mode, ("NonIndexed", "Indexed")))
    if mode == "Indexed":
        if spec.get("completions") is None:
            errors.append(FieldError.required("spec.completions", "when completion mode is Indexed"))
        errors += job_rules.indexed_limits(spec)
    elif mode == "NonIndexed":
        errors += [_needs_indexes(spec, name) for name in _PER_INDEX if spec.get(name) is not None]
    if spec.get("podFailurePolicy") is not None:
        errors += job_rules.pod_failure_policy(spec)
    if spec.get("successPolicy") is not None:
        errors += job_rules.success_policy(spec) if mode == "Indexed" else [_needs_indexes(spec, "successPolicy")]
    return errors


def _needs_indexes(spec: Object, name: str) -> FieldError:
    return FieldError.invalid(f"spec.{name}", _shown(spec, name), "requires indexed completion mode")


def _shown(spec: Object, name: str) -> Any:
    """Kubernetes prints policies by the field names of its internal types."""
    return wire.as_internal(_POLICIES[name], spec.get(name)) if name in _POLICIES else spec.get(name)


def _validate_hostnames(job: Object) -> Errors:
    """The pods of an Indexed Job are called after it."""
    spec, name = job["spec"], job["metadata"].get("name") or ""
    if spec.get("completionMode") != "Indexed" or (spec.get("completions") or 0) <= 0:
        return []
    last = f"{name}-{spec['completions'] - 1}"
    text = f"will not able to create pod with invalid DNS label: {last}"
    return [FieldError.invalid("metadata.name", name, text)] if formats.dns_label(last) else []


def _scheduling(spec: Object) -> Errors:
    """How the pods are scheduled together, beyond the declared rules."""
    scheduling = spec.get("scheduling") or {}
    policy, mode = scheduling.get("schedulingPolicy") or {}, scheduling.get("disruptionMode") or {}
    errors: Errors = []
    count, parallelism = (policy.get("gang") or {}).get("minCount"), spec.get("parallelism", 1)
    if count is not None and count > parallelism:
        text = f"must not be greater than parallelism ({parallelism})"
        errors.append(FieldError.invalid("spec.scheduling.schedulingPolicy.gang.minCount", count, text))
    basic = policy.get("basic") is not None or policy.get("gang") is None
    if basic and mode.get("all") is not None and mode.get("single") is None:
        text = "the disruptionMode `all` is not supported with the Basic scheduling policy"
        errors.append(FieldError.invalid("spec.scheduling.disruptionMode", "", text))
    return errors


def _scheduling_update(new: Object, old: Object) -> Errors:
    policy, before = ((spec.get("scheduling") or {}).get("schedulingPolicy") for spec in (new, old))
    if policy is None or before is None or (policy.get("basic") is None) == (before.get("basic") is None):
        return []
    text = (
        "the basic/gang policy variant is immutable after creation; only schedulingPolicy.gang.minCount may be updated"
    )
    return [FieldError.invalid("spec.scheduling.schedulingPolicy", None, text)]


def _warnings(job: Object, old: Object | None, ctx: WriteContext) -> list[str]:
    spec = job["spec"]
    warnings: list[str] = []
    if old is None and (texts := formats.dns_label(job["metadata"].get("name") or "")):
        warnings.append(f"metadata.name: {_ABOUT_NAMES}: [{' '.join(texts)}]")
    indexed = spec.get("completionMode") == "Indexed" and (old is None or spec != old["spec"])
    if indexed and (spec.get("completions") or 0) > 100_000 and (spec.get("parallelism") or 0) > 10_000:
        warnings.append(f"spec: {_ABOUT_INDEXES}")
    return warnings


_ABOUT_NAMES = (
    "this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended"
)
_ABOUT_INDEXES = (
    "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able "
    "to track completedIndexes when a big number of indexes fail"
)


def _validate_update(new: Object, old: Object, ctx: WriteContext) -> Errors:
    spec, before = new["spec"], old["spec"]
    errors = _validate_spec(spec)
    if spec.get("completionMode") != "Indexed":
        errors += checks.immutable(spec.get("completions"), before.get("completions"), "spec.completions")
    elif spec.get("completions") not in (None, before.get("completions"), spec.get("parallelism")):
        text = "can only be modified in tandem with spec.parallelism"
        errors.append(FieldError.invalid("spec.completions", spec["completions"], text))
    errors += fixed_selector(new, old)
    errors += _validate_template_update(spec, old, ctx)
    for name in _IMMUTABLE:
        errors += checks.immutable(_shown(spec, name), _shown(before, name), f"spec.{name}")
    errors += _scheduling_update(spec, before) + _validate_hostnames(new)
    return errors + declared.check(group_rules.JOB_SCHEDULING, spec, before, "spec", ctx.gates)


def _validate_template_update(spec: Object, old: Object, ctx: WriteContext) -> Errors:
    """The template is fixed, except where its pods go and what they take while the Job is suspended and has none."""
    template, was = spec.get("template") or {}, old["spec"].get("template") or {}
    status, suspended = old.get("status") or {}, bool(old["spec"].get("suspend"))
    fresh = suspended and status.get("startTime") is None
    quiet = suspended and (fresh or job_status.is_true(status, "Suspended")) and not status.get("active")
    if quiet if ctx.gates.enabled("MutableSchedulingDirectivesForSuspendedJobs") else fresh:
        was = _with_directives(was, template)
    if quiet and ctx.gates.enabled("MutablePodResourcesForSuspendedJobs"):
        pod, before = template.get("spec") or {}, was.get("spec") or {}
        return checks.immutable(pod, _with_resources(before, pod), "spec.template.spec")
    return checks.immutable(template, was, "spec.template")


def _with_directives(template: Object, new: Object) -> Object:
    """The template with what `new` says about where its pods may go."""
    meta, spec = dict(template.get("metadata") or {}), dict(template.get("spec") or {})
    new_meta, new_spec = new.get("metadata") or {}, new.get("spec") or {}
    for target, source, names in (
        (meta, new_meta, ("annotations", "labels")),
        (spec, new_spec, ("nodeSelector", "tolerations", "schedulingGates")),
    ):
        for name in names:
            target.pop(name, None)
            if name in source:
                target[name] = source[name]
    affinity, wanted = dict(spec.pop("affinity", None) or {}), new_spec.get("affinity")
    affinity.pop("nodeAffinity", None)
    if wanted is not None and "nodeAffinity" in wanted:
        affinity["nodeAffinity"] = wanted["nodeAffinity"]
    if affinity or wanted is not None:
        spec["affinity"] = affinity
    return {**template, "metadata": meta, "spec": spec} if meta or "metadata" in new else {**template, "spec": spec}


def _with_resources(spec: Object, new: Object) -> Object:
    """The pod with the resources that `new` gives its containers."""
    spec = dict(spec)
    for kind in ("containers", "initContainers"):
        mine, theirs = spec.get(kind) or [], new.get(kind) or []
        if mine and len(mine) == len(theirs):
            spec[kind] = [
                {**one, "resources": other.get("resources", {})} if one["name"] == other["name"] else one
                for one, other in zip(mine, theirs, strict=True)
            ]
    return spec


JOB = entry.kind(
    batch_v1.Job,
    "jobs",
    Strategy(
        default={"": _default},
        prepare_for_create=_prepare,
        prepare_for_update=_prepare_update,
        validate=_validate,
        validate_update=_validate_update,
        warnings=_warnings,
        subresources={"status": Subresource(validate_update=job_status.validate_status)},
        validate_name=formats.name_is(formats.dns_subdomain),
        generation=True,
        reset=("status",),
    ),
    group="batch",
    subresources=entry.STATUS,
    categories=("all",),
    selectable={"status.successful": lambda job: str((job.get("status") or {}).get("succeeded", 0))},
    delete_returns_status=frozenset({"v1"}),
    default_propagation="Orphan",
)
KINDS: tuple[Kind, ...] = (JOB,)
