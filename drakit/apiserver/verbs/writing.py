"""create and update: the way of an object into the store.

Order as in Kubernetes' generic registry, because which error comes first is part of the answer: options, decoding,
system fields, managed fields, mutating admission, the kind's own rules, validating admission, the store.
"""

from __future__ import annotations

from drakit.api import strategy
from drakit.api.errors import FieldError, StatusError
from drakit.api.times import timestamp
from drakit.apiserver import managed_fields, random_names
from drakit.apiserver.call import Answer, Call, check_write_options, version_number
from drakit.apiserver.context import Context, admission_attributes, internal_without_reason
from drakit.apiserver.store import Collection
from drakit.apiserver.stored import Plain, Stored
from drakit.apiserver.verbs.decoding import decode_object

__all__ = ["check_name", "create", "replace", "store_new", "update"]

_NAME_ATTEMPTS = 8
_MAX_BASE = 58
_SYSTEM_FIELDS = ("uid", "creationTimestamp", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds")
# Where Kubernetes keeps kinds whose name has changed since; clients see it in one message.
_STORED_UNDER = {"nodes": "minions", "services": "services/specs", "endpoints": "services/endpoints"}


def create(ctx: Context, call: Call) -> Answer:
    dry_run, validation = check_write_options(call, "CreateOptions")
    obj = decode_object(call, validation)
    return store_new(ctx, call, obj, dry_run=dry_run)


def store_new(
    ctx: Context, call: Call, obj: Plain, *, dry_run: bool, applied_by: managed_fields.Applied | None = None
) -> Answer:
    """The rest of a create, also for a server-side apply of something new. Takes over `obj`."""
    kind, meta = call.kind, obj["metadata"]
    if kind.namespaced:
        if meta.get("namespace") not in (None, "", call.namespace):
            text = "the namespace of the provided object does not match the namespace sent on the request"
            raise StatusError.bad_request(text)
        meta["namespace"] = call.namespace
    else:
        meta.pop("namespace", None)
    collection = ctx.collection(kind)
    now = ctx.clock.now()
    given_version = meta.pop("resourceVersion", None)
    for name in _SYSTEM_FIELDS:
        meta.pop(name, None)
    call.name = str(meta.get("name") or "")
    # Before admission, as in Kubernetes: what it fills in is nobody's, and may be applied later without a conflict.
    managed = managed_fields.on_create(ctx, call, obj, timestamp(now), applied_by)
    attributes = admission_attributes(call, "CREATE", obj, None, dry_run=dry_run)
    admitted = ctx.admit(attributes)
    assert admitted is not None
    obj, meta = admitted, admitted["metadata"]
    meta.pop("managedFields", None)
    # After mutating admission, as in Kubernetes: its refusals name the prefix, those that come later the name.
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = _generate(ctx, collection, call, str(meta["generateName"]))
    meta["uid"] = ctx.new_uid()
    meta["creationTimestamp"] = timestamp(now)
    obj, warnings = strategy.create(kind, obj, ctx.write_context(call.version, now, attributes), owned=True)
    call.warnings.extend(warnings)
    call.name = str(obj["metadata"].get("name") or "")
    if managed:
        obj["metadata"]["managedFields"] = managed
    else:
        obj["metadata"].pop("managedFields", None)
    attributes.object = obj
    ctx.check_may_create(call)
    ctx.validate(attributes)
    key = f"{call.namespace}/{call.name}" if kind.namespaced else call.name
    if key in collection.objects:
        raise StatusError.already_exists(kind.group, kind.plural, call.name)
    if dry_run:
        if given_version:
            obj["metadata"]["resourceVersion"] = given_version
        return Answer(201, stored=Stored(kind.stored_as or kind, key, obj, 0))
    if given_version not in (None, "", "0"):
        raise internal_without_reason("resourceVersion should not be set on objects to be created")
    stored = ctx.store.put(collection, key, obj, None)
    return Answer(201, stored=stored, version=stored.version)


def _generate(ctx: Context, collection: Collection, call: Call, base: str) -> str:
    name = ""
    for _ in range(_NAME_ATTEMPTS):
        name = base[:_MAX_BASE] + random_names.suffix()
        if (f"{call.namespace}/{name}" if call.kind.namespaced else name) not in collection.objects:
            return name
    raise StatusError.generate_name_conflict(call.kind.group, call.kind.plural, name)


def update(ctx: Context, call: Call) -> Answer:
    dry_run, validation = check_write_options(call, "UpdateOptions")
    obj = decode_object(call, validation)
    check_name(call, obj)
    collection = ctx.collection(call.kind)
    old = collection.objects.get(call.key)
    if old is None:
        if call.kind.strategy.allow_create_on_update and not call.subresource:
            return store_new(ctx, call, obj, dry_run=dry_run)
        raise call.not_found()
    check_uid(call, obj, old)
    return replace(ctx, call, obj, old, dry_run=dry_run)


def check_name(call: Call, obj: Plain) -> None:
    meta = obj["metadata"]
    name = meta.get("name")
    if not name:
        text = f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
        raise StatusError.bad_request(text)
    if name != call.name:
        text = f"the name of the object ({name}) does not match the name on the URL ({call.name})"
        raise StatusError.bad_request(text)
    if call.kind.namespaced:
        namespace = meta.get("namespace")
        if namespace not in (None, "", call.namespace):
            text = f"the namespace of the object ({namespace}) does not match the namespace on the request ({call.namespace})"
            raise StatusError.bad_request(text)
        meta["namespace"] = call.namespace
    else:
        meta.pop("namespace", None)


def check_uid(call: Call, obj: Plain, old: Stored) -> None:
    """A uid in the body of a PUT is a precondition."""
    given, uid = obj["metadata"].get("uid"), old.obj["metadata"]["uid"]
    if given and given != uid:
        where = f"/registry/{_STORED_UNDER.get(call.kind.plural, call.kind.plural)}/{old.key}"
        text = (
            f"StorageError: invalid object, Code: 4, Key: {where}, ResourceVersion: 0, AdditionalErrorMsg: "
            f"Precondition failed: UID in precondition: {given}, UID in object meta: {uid}"
        )
        raise StatusError.conflict(call.kind.group, call.kind.plural, call.name, text)


def replace(
    ctx: Context,
    call: Call,
    obj: Plain,
    old: Stored,
    *,
    dry_run: bool,
    applied_by: managed_fields.Applied | None = None,
) -> Answer:
    """Store a new version of an object, by PUT or by a patch that was applied to it. Takes over `obj`."""
    kind, meta = call.kind, obj["metadata"]
    check_resource_version(call, meta, old)
    now = ctx.clock.now()
    managed = managed_fields.on_update(ctx, call, obj, old.obj, timestamp(now), applied_by)
    attributes = admission_attributes(call, "UPDATE", obj, old.obj, dry_run=dry_run)
    admitted = ctx.admit(attributes)
    assert admitted is not None
    # Decoding made obj; an object that admission made may share anything with the stored one.
    owned, obj = admitted is obj, admitted
    obj["metadata"].pop("managedFields", None)
    rules = ctx.write_context(call.version, now, attributes)
    new, warnings = strategy.update(kind, obj, old.obj, rules, call.subresource, owned=owned)
    call.warnings.extend(warnings)
    meta = new["metadata"] = {**new["metadata"], "resourceVersion": old.obj["metadata"]["resourceVersion"]}
    if managed:
        meta["managedFields"] = managed
    else:
        meta.pop("managedFields", None)
    attributes.object = new
    ctx.validate(attributes)
    return commit(ctx, call, new, old, dry_run=dry_run)


def commit(ctx: Context, call: Call, new: Plain, old: Stored, *, dry_run: bool) -> Answer:
    """Store a checked new version: nothing when nothing changed, a deletion when it was the last thing waited for."""
    collection = ctx.collection(call.kind)
    if new == old.obj:
        return Answer(200, stored=old, version=old.version)
    if dry_run:
        return Answer(200, stored=Stored(old.kind, old.key, new, old.version))
    if ready_to_go(new):
        gone = ctx.store.remove(collection, old, new)
        return Answer(200, stored=gone, version=gone.version)
    stored = ctx.store.put(collection, old.key, new, old)
    return Answer(200, stored=stored, version=stored.version)


def ready_to_go(obj: Plain) -> bool:
    """An object that is being deleted goes when its grace is over and no finalizer holds it."""
    meta = obj["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers") or meta.get("deletionGracePeriodSeconds"):
        return False
    # A Namespace is also held by spec.finalizers.
    return not (obj["kind"] == "Namespace" and (obj.get("spec") or {}).get("finalizers"))


def check_resource_version(call: Call, meta: Plain, old: Stored) -> None:
    kind = call.kind
    text = meta.get("resourceVersion")
    if not text or text == "0":
        if not kind.strategy.allow_unconditional_update(call.version):
            error = FieldError.invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise StatusError.invalid(kind.group, kind.plural, call.name, [error])
        meta["resourceVersion"] = old.obj["metadata"]["resourceVersion"]
        return
    version = version_number(text)
    if version is None:
        raise internal_without_reason(f'strconv.ParseUint: parsing "{text}": invalid syntax')
    if version != old.version:
        raise StatusError.modified(kind.group, kind.plural, call.name)
