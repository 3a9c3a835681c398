"""pods/binding and pods/eviction: writes that are not written as the object itself."""

from __future__ import annotations

from typing import Any

from drakit.api.errors import FieldError, StatusError
from drakit.api.selectors import matches_label_selector
from drakit.apiserver import managed_fields
from drakit.apiserver.call import Answer, Call, check_write_options
from drakit.apiserver.context import Context, admission_attributes, internal_without_reason, timestamp
from drakit.apiserver.store import Collection
from drakit.apiserver.stored import Stored
from drakit.apiserver.verbs.decoding import read_value
from drakit.apiserver.verbs.deleting import DeleteOptions, delete_stored
from drakit.apiserver.verbs.writing import commit

__all__ = ["bind", "evict"]

Plain = dict[str, Any]
SUCCESS: Plain = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _object(call: Call, kind: str) -> Plain:
    value, _ = read_value(call, kind)
    if not isinstance(value, dict):
        raise StatusError.bad_request(f"the object provided is unrecognized (must be of type {kind})")
    if value.get("kind") not in (None, "", kind):
        text = f'{value.get("kind")} in version "v1" cannot be handled as a {kind}: it is another kind'
        raise StatusError.bad_request(text)
    return value


def _metadata(value: Plain) -> Plain:
    found = value.get("metadata")
    return found if isinstance(found, dict) else {}


def bind(ctx: Context, call: Call) -> Answer:
    """POST pods/NAME/binding: put the pod on a node."""
    dry_run, _ = check_write_options(call, "CreateOptions")
    binding = _object(call, "Binding")
    meta = _metadata(binding)
    if meta.get("name") not in (None, "", call.name):
        text = f"name in URL does not match name in Binding object: {meta.get('name')}"
        raise StatusError.bad_request(text)
    target = binding.get("target")
    node = str(target.get("name") or "") if isinstance(target, dict) else ""
    kind = str(target.get("kind") or "") if isinstance(target, dict) else ""
    _check_target(call, kind, node)
    pod = _live(ctx, call)
    attributes = admission_attributes(call, "CREATE", binding, pod.obj, dry_run=dry_run)
    ctx.admit(attributes)
    ctx.validate(attributes)
    _check_bindable(call, pod.obj, meta)
    now = timestamp(ctx.clock.now())
    new = _bound(pod.obj, node, meta, now)
    new["metadata"]["managedFields"] = managed_fields.on_update(ctx, call, new, pod.obj, now, None)
    answer = commit(ctx, call, new, pod, dry_run=dry_run)
    return Answer(201, value=SUCCESS, version=answer.version)


def _check_target(call: Call, kind: str, node: str) -> None:
    errors = []
    if kind not in ("", "Node"):
        errors.append(FieldError.not_supported("target.kind", kind, ("Node", "<empty>")))
    if not node:
        errors.append(FieldError.required("target.name"))
    if errors:
        raise internal_without_reason(str(errors[0]))


def _live(ctx: Context, call: Call) -> Stored:
    pod = ctx.collection(call.kind).objects.get(call.key)
    if pod is None:
        raise call.not_found()
    return pod


def _check_bindable(call: Call, pod: Plain, meta: Plain) -> None:
    spec, own = pod["spec"], pod["metadata"]
    cause = ""
    if meta.get("uid") and meta["uid"] != own["uid"]:
        where = f"/registry/pods/{own['namespace']}/{own['name']}"
        cause = (
            f"StorageError: invalid object, Code: 4, Key: {where}, ResourceVersion: 0, AdditionalErrorMsg: Precondition "
            f"failed: UID in precondition: {meta['uid']}, UID in object meta: {own['uid']}"
        )
    elif meta.get("resourceVersion") and meta["resourceVersion"] != own["resourceVersion"]:
        cause = "the object has been modified; please apply your changes to the latest version and try again"
    elif own.get("deletionTimestamp"):
        cause = f"pod {call.name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        cause = f'pod {call.name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        cause = f"pod {call.name} has non-empty .spec.schedulingGates"
    if cause:
        raise StatusError.conflict("", "pods/binding", call.name, cause)


def _bound(pod: Plain, node: str, meta: Plain, now: str) -> Plain:
    new_meta = {**pod["metadata"]}
    for field in ("annotations", "labels"):
        extra = meta.get(field)
        if isinstance(extra, dict) and extra:
            new_meta[field] = {**(new_meta.get(field) or {}), **extra}
    status = {**(pod.get("status") or {})}
    status.pop("nominatedNodeName", None)
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    conditions = [item for item in status.get("conditions") or [] if item.get("type") != "PodScheduled"]
    status["conditions"] = [*conditions, scheduled]
    return {**pod, "metadata": new_meta, "spec": {**pod["spec"], "nodeName": node}, "status": status}


def evict(ctx: Context, call: Call) -> Answer:
    """POST pods/NAME/eviction: delete the pod unless a PodDisruptionBudget forbids it now."""
    dry_run, _ = check_write_options(call, "CreateOptions")
    eviction = _object(call, "Eviction")
    name = _metadata(eviction).get("name")
    if name not in (None, "", call.name):
        raise StatusError.bad_request(f"name in URL does not match name in Eviction object: {name}")
    raw = eviction.get("deleteOptions")
    raw = raw if isinstance(raw, dict) else {}
    conditions = raw.get("preconditions") or {}
    options = DeleteOptions(
        raw.get("gracePeriodSeconds"), str(raw.get("propagationPolicy") or ""), str(conditions.get("uid") or ""),
        str(conditions.get("resourceVersion") or ""), dry_run or bool(raw.get("dryRun")),
    )  # fmt: skip
    pod = _live(ctx, call)
    attributes = admission_attributes(call, "CREATE", eviction, pod.obj, dry_run=options.dry_run)
    ctx.admit(attributes)
    ctx.validate(attributes)
    as_delete = Call("delete", call.kind, call.version, call.namespace, call.name, "", {}, call.user, agent=call.agent)
    budget = None
    if not _skips_budgets(pod.obj):
        budget = _budget(ctx, call, pod.obj)
    if budget is not None and not options.dry_run:
        _spend(ctx, budget, pod.obj)
    if not options.dry_run:
        pod = _mark_disrupted(ctx, as_delete, pod)
        options = DeleteOptions(options.grace, options.policy, options.uid, "", False)
    answer = delete_stored(ctx, as_delete, pod, options)
    return Answer(201, value=SUCCESS, version=answer.version)


def _skips_budgets(pod: Plain) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or bool(pod["metadata"].get("deletionTimestamp"))


def _budgets(ctx: Context, call: Call) -> Collection | None:
    from drakit.api import registry

    kind = registry.by_resource("policy", "poddisruptionbudgets")
    return None if kind is None else ctx.collection(kind)


def _budget(ctx: Context, call: Call, pod: Plain) -> Stored | None:
    """The one budget that covers the pod, if it allows another disruption."""
    collection = _budgets(ctx, call)
    if collection is None:
        return None
    labels = pod["metadata"].get("labels") or {}
    found = [
        stored
        for stored in collection.select(call.namespace)
        if matches_label_selector((stored.obj.get("spec") or {}).get("selector"), labels)
    ]
    if not found:
        return None
    if len(found) > 1:
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise StatusError.internal(text)
    budget = found[0].obj
    status, meta = budget.get("status") or {}, budget["metadata"]
    if (status.get("observedGeneration") or 0) < (meta.get("generation") or 0):
        raise _too_many(budget, f"The disruption budget {meta['name']} is still being processed by the server.")
    if (status.get("disruptionsAllowed") or 0) <= 0:
        desired, healthy = status.get("desiredHealthy") or 0, status.get("currentHealthy") or 0
        raise _too_many(
            budget, f"The disruption budget {meta['name']} needs {desired} healthy pods and has {healthy} currently"
        )
    return found[0]


def _too_many(budget: Plain, cause: str) -> StatusError:
    text = "Cannot evict pod as it would violate the pod's disruption budget."
    causes = [{"reason": "DisruptionBudget", "message": cause}]
    return StatusError(429, "TooManyRequests", text, {"causes": causes})


def _spend(ctx: Context, stored: Stored, pod: Plain) -> None:
    status = {**(stored.obj.get("status") or {})}
    status["disruptionsAllowed"] = (status.get("disruptionsAllowed") or 0) - 1
    disrupted = {**(status.get("disruptedPods") or {}), pod["metadata"]["name"]: timestamp(ctx.clock.now())}
    status["disruptedPods"] = disrupted
    new = {**stored.obj, "metadata": {**stored.obj["metadata"]}, "status": status}
    ctx.store.put(ctx.store.collection(stored.kind), stored.key, new, stored)


def _mark_disrupted(ctx: Context, call: Call, pod: Stored) -> Stored:
    status = {**(pod.obj.get("status") or {})}
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": timestamp(ctx.clock.now()),
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    kept = [item for item in status.get("conditions") or [] if item.get("type") != "DisruptionTarget"]
    status["conditions"] = [*kept, condition]
    new = {**pod.obj, "metadata": {**pod.obj["metadata"]}, "status": status}
    return ctx.store.put(ctx.collection(call.kind), pod.key, new, pod)
