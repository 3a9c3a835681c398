"""The scale subresource: the number of replicas of a workload as a small object of its own (autoscaling/v1)."""

from __future__ import annotations

from typing import Any

from lightkube.models.autoscaling_v1 import Scale

from drakit.api import wire
from drakit.api.errors import FieldError, StatusError
from drakit.api.selectors import selector_text
from drakit.api.times import timestamp
from drakit.apiserver import managed_fields, patches
from drakit.apiserver.call import Answer, Call, check_write_options
from drakit.apiserver.context import Context
from drakit.apiserver.stored import Plain, Stored
from drakit.apiserver.verbs import applying
from drakit.apiserver.verbs.decoding import media_type, read_kind, read_value
from drakit.apiserver.verbs.patching import APPLY, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, unfit
from drakit.apiserver.verbs.writing import check_name, replace

__all__ = ["scale"]


def scale(ctx: Context, call: Call) -> Answer:
    stored = ctx.collection(call.kind).objects.get(call.key)
    if stored is None:
        raise call.not_found()
    if call.verb == "get":
        return Answer(200, value=_scale_of(stored), version=stored.version)
    dry_run, _ = check_write_options(call, "UpdateOptions")
    wanted = _wanted(call, stored)
    check_name(call, wanted)
    given = wanted["metadata"]
    if given.get("uid") not in (None, "", stored.obj["metadata"]["uid"]):
        text = f"Precondition failed: UID in precondition: {given['uid']}, UID in object meta: {stored.obj['metadata']['uid']}"
        raise StatusError.conflict(call.kind.group, f"{call.kind.plural}/scale", call.name, text)
    replicas = wanted["spec"].get("replicas") or 0
    if replicas < 0:
        error = FieldError.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise StatusError.invalid("autoscaling", "Scale", call.name, [error])
    version = given.get("resourceVersion")
    meta = {**stored.obj["metadata"], "resourceVersion": str(version or "")}
    obj = {**stored.obj, "metadata": meta, "spec": {**(stored.obj.get("spec") or {}), "replicas": replicas}}
    main = Call(
        "update", call.kind, call.kind.storage_version, call.namespace, call.name, "", call.query, call.user,
        agent=call.agent, warnings=call.warnings,
    )  # fmt: skip
    applied = _applied(ctx, call, obj, stored)
    answer = replace(ctx, main, wire.copy(obj), stored, dry_run=dry_run, applied_by=applied)
    assert answer.stored is not None
    return Answer(200, value=_scale_of(answer.stored), version=answer.version)


def _applied(ctx: Context, call: Call, obj: Plain, stored: Stored) -> managed_fields.Applied:
    """Whose the number is afterwards, under the subresource's name."""
    if call.verb == "patch" and media_type(call.content_type) == APPLY:
        config = {
            "apiVersion": call.kind.api_version(call.version), "kind": call.kind.kind,
            "metadata": {"name": call.name}, "spec": {"replicas": obj["spec"]["replicas"]},
        }  # fmt: skip
        return applying.merge(ctx, call, config, stored)[1]
    now = timestamp(ctx.clock.now())
    managers = managed_fields.decode(managed_fields.on_update(ctx, call, obj, stored.obj, now, None))
    return managed_fields.Applied(tuple(managers))


def _wanted(call: Call, stored: Stored) -> Plain:
    value = read_kind(call, "Scale", "autoscaling/v1") if call.verb == "update" else _patched(call, _scale_of(stored))
    try:
        wanted, _ = wire.read(Scale, value, kind="Scale", version="v1")
    except StatusError as error:
        if call.verb == "patch":
            raise unfit(value, error.message.partition("as a Scale: ")[2]) from None
        raise
    return {**wanted, "metadata": wanted.get("metadata") or {}, "spec": wanted.get("spec") or {}}


def _patched(call: Call, current: Plain) -> Plain:
    patch, _ = read_value(_as_json(call), "Scale")
    media = media_type(call.content_type)
    result: Any
    try:
        if media == JSON_PATCH and isinstance(patch, list):
            result = patches.json_patch(current, patch)
        elif media == STRATEGIC_PATCH and isinstance(patch, dict):
            result = patches.strategic_patch(current, patch, None)
        elif media in (MERGE_PATCH, APPLY):
            result = patches.merge_patch(current, patch)
        else:
            raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    except patches.PatchError as error:
        raise StatusError(422, "Invalid", f"the patch does not apply: {error}", {}) from None
    if not isinstance(result, dict):
        raise StatusError.bad_request("the object provided is unrecognized (must be of type Scale)")
    return result


def _as_json(call: Call) -> Call:
    return Call(
        call.verb, call.kind, call.version, call.namespace, call.name, call.subresource, {}, call.user,
        content_type="application/json", body=call.body, value=call.value,
    )  # fmt: skip


def _scale_of(stored: Stored) -> Plain:
    obj, meta = stored.obj, stored.obj["metadata"]
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    scaled: Plain = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: meta[name] for name in kept if name in meta},
        "spec": {"replicas": spec["replicas"]} if spec.get("replicas") else {},
        "status": {"replicas": status.get("replicas") or 0},
    }
    selector = selector_text(spec.get("selector"))
    if selector:
        scaled["status"]["selector"] = selector
    return scaled
