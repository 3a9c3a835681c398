"""batch: Jobs. The API server itself labels a job's pods and makes the selector from the job's uid."""

from __future__ import annotations

from lightkube.models import batch_v1

from drakit.api import declared, formats
from drakit.api.errors import FieldError
from drakit.api.kind import Kind, Object, Strategy, Subresource, WriteContext
from drakit.api.kinds import checks, entry, group_rules
from drakit.api.kinds.pod_defaults import default_pod_template
from drakit.api.kinds.pod_validation import validate_pod_template
from drakit.api.kinds.workloads import drop_disabled_template, validate_template_labels

__all__ = ["KINDS"]

Errors = list[FieldError]

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
        job.setdefault("metadata", {})["labels"] = dict(labels)
    if spec.get("completionMode") is None:
        spec["completionMode"] = "NonIndexed"
    if spec.get("suspend") is None:
        spec["suspend"] = False
    if spec.get("podReplacementPolicy") is None:
        spec["podReplacementPolicy"] = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
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
        before = dict(template.get("labels") or {})
        labels = template.setdefault("labels", {})
        for name in _NAME_LABELS:
            labels.setdefault(name, meta.get("name") or "")
        for name in _UID_LABELS:
            labels.setdefault(name, meta["uid"])
        spec.setdefault("selector", {}).setdefault("matchLabels", {}).setdefault(_UID_LABELS[1], meta["uid"])
        # Labels that a job has only because its template has them follow the template.
        if (meta.get("labels") or {}) == before:
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
    errors = _validate_generated(job) + _validate_spec(job["spec"])
    return errors + declared.check(group_rules.JOB_SCHEDULING, job["spec"], None, "spec", ctx.gates)


def _validate_generated(job: Object) -> Errors:
    """With a generated selector, the labels that belong to it must be this job's."""
    spec, meta = job["spec"], job["metadata"]
    if spec.get("manualSelector"):
        return []
    errors: Errors = []
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    for names, wanted in ((_UID_LABELS, meta.get("uid", "")), (_NAME_LABELS, meta.get("name", ""))):
        for name in names:
            if labels.get(name) not in (None, wanted):
                text = f"must be '{wanted}'"
                errors.append(FieldError.invalid("spec.template.metadata.labels", labels, text))
    match = ((spec.get("selector") or {}).get("matchLabels") or {}).get(_UID_LABELS[1])
    if match is not None and match != meta.get("uid"):
        text = "`selector` not auto-generated"
        errors.append(FieldError.invalid("spec.selector", spec["selector"], text))
    return errors


def _validate_spec(spec: Object) -> Errors:
    errors = [error for name in _COUNTS for error in checks.non_negative(spec.get(name), f"spec.{name}")]
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        errors.append(FieldError.required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    errors += _completion_mode(spec)
    if spec.get("podReplacementPolicy") not in ("Failed", "TerminatingOrFailed"):
        supported = ("Failed", "TerminatingOrFailed")
        errors.append(
            FieldError.not_supported("spec.podReplacementPolicy", spec.get("podReplacementPolicy"), supported)
        )
    errors += _scheduling(spec)
    template = spec.get("template") or {}
    errors += validate_pod_template(template, "spec.template")
    policy = (template.get("spec") or {}).get("restartPolicy")
    path = "spec.template.spec.restartPolicy"
    if policy in ("Always", "", None):
        errors.append(FieldError.required(path, 'valid values: "OnFailure", "Never"'))
    elif policy not in ("OnFailure", "Never"):
        errors.append(FieldError.not_supported(path, policy, ("OnFailure", "Never")))
    elif spec.get("podFailurePolicy") and policy != "Never":
        errors.append(FieldError.invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified'))
    selector = spec.get("selector")
    if selector is None:
        errors.append(FieldError.required("spec.selector"))
    else:
        errors += checks.label_selector(selector, "spec.selector")
    return errors + validate_template_labels(selector, template)


def _completion_mode(spec: Object) -> Errors:
    mode = spec.get("completionMode")
    errors: Errors = []
    if mode not in ("NonIndexed", "Indexed"):
        return [FieldError.not_supported("spec.completionMode", mode, ("NonIndexed", "Indexed"))]
    if mode == "Indexed":
        if spec.get("completions") is None:
            errors.append(FieldError.required("spec.completions", "when completion mode is Indexed"))
        if spec.get("parallelism", 0) > 100000:
            text = "must be less than or equal to 100000 when completion mode is Indexed"
            errors.append(FieldError.invalid("spec.parallelism", spec["parallelism"], text))
        return errors
    for name in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
        if spec.get(name) is not None:
            errors.append(FieldError.invalid(f"spec.{name}", spec[name], "requires indexed completion mode"))
    return errors


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
    texts = formats.dns_label(job["metadata"].get("name") or "") if old is None else []
    if not texts:
        return []
    about = (
        "this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended"
    )
    return [f"metadata.name: {about}: [{' '.join(texts)}]"]


def _validate_update(new: Object, old: Object, ctx: WriteContext) -> Errors:
    spec, before = new["spec"], old["spec"]
    errors = _validate_spec(spec)
    elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    if not elastic:
        errors += checks.immutable(spec.get("completions"), before.get("completions"), "spec.completions")
    errors += checks.immutable(spec.get("selector"), before.get("selector"), "spec.selector")
    errors += _validate_template_update(spec, before, old)
    for name in _IMMUTABLE:
        errors += checks.immutable(spec.get(name), before.get(name), f"spec.{name}")
    errors += _scheduling_update(spec, before)
    return errors + declared.check(group_rules.JOB_SCHEDULING, spec, before, "spec", ctx.gates)


def _validate_template_update(spec: Object, before: Object, old: Object) -> Errors:
    """The template is fixed, except where its pods go while the job is suspended and has not started."""
    template, was = spec.get("template"), before.get("template")
    if before.get("suspend") and not (old.get("status") or {}).get("startTime"):
        template, was = (_without_scheduling(t or {}) for t in (template, was))
    return [] if template == was else [FieldError.invalid("spec.template", template, "field is immutable")]


def _without_scheduling(template: Object) -> Object:
    meta = {k: v for k, v in (template.get("metadata") or {}).items() if k not in ("labels", "annotations")}
    mutable = ("nodeSelector", "affinity", "tolerations", "schedulingGates")
    spec = {k: v for k, v in (template.get("spec") or {}).items() if k not in mutable}
    return {"metadata": meta, "spec": spec}


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
        subresources={"status": Subresource()},
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
