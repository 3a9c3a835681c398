"""pods/binding: the write that puts a pod on a node."""

from __future__ import annotations

from drakit.api.errors import FieldError, StatusError
from drakit.api.times import timestamp
from drakit.apiserver.call import Answer, Call, check_write_options
from drakit.apiserver.context import Context, admission_attributes, internal_without_reason
from drakit.apiserver.stored import Plain, Stored
from drakit.apiserver.verbs.decoding import read_kind
from drakit.apiserver.verbs.writing import commit

__all__ = ["SUCCESS", "bind", "live_pod", "metadata_of"]

SUCCESS: Plain = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def metadata_of(value: Plain) -> Plain:
    found = value.get("metadata")
    return found if isinstance(found, dict) else {}


def bind(ctx: Context, call: Call) -> Answer:
    """POST pods/NAME/binding: put the pod on a node. As in Kubernetes, managedFields do not tell of it."""
    dry_run, _ = check_write_options(call, "CreateOptions")
    binding = read_kind(call, "Binding")
    meta = metadata_of(binding)
    if meta.get("name") not in (None, "", call.name):
        raise StatusError.bad_request("name in URL does not match name in Binding object")
    target = binding.get("target")
    node = str(target.get("name") or "") if isinstance(target, dict) else ""
    kind = str(target.get("kind") or "") if isinstance(target, dict) else ""
    _check_target(kind, node)
    pod = live_pod(ctx, call)
    attributes = admission_attributes(call, "CREATE", binding, pod.obj, dry_run=dry_run)
    ctx.admit(attributes)
    ctx.validate(attributes)
    _check_bindable(call, pod.obj, meta)
    now = timestamp(ctx.clock.now())
    new = _bound(pod.obj, node, meta, now)
    answer = commit(ctx, call, new, pod, dry_run=dry_run)
    return Answer(201, value=SUCCESS, version=answer.version)


def _check_target(kind: str, node: str) -> None:
    errors = []
    if kind not in ("", "Node"):
        errors.append(FieldError.not_supported("target.kind", kind, ("Node", "<empty>")))
    if not node:
        errors.append(FieldError.required("target.name"))
    if errors:
        raise internal_without_reason(str(errors[0]))


def live_pod(ctx: Context, call: Call) -> Stored:
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
