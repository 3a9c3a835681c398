"""patch with an apply configuration: server-side apply.

The configuration is laid over the live object; what its manager applied before and no longer names goes, unless someone else
owns it; what others own and it would change is a conflict unless forced.
"""

from __future__ import annotations

from dataclasses import replace as with_changes

from drakit.api import schema, strategy
from drakit.api.errors import StatusError
from drakit.api.kind import Kind
from drakit.api.schema import Node
from drakit.api.times import timestamp
from drakit.apiserver import bodies, fieldsets, managed_fields
from drakit.apiserver.call import NOTHING, Answer, Call, bool_option, field_manager
from drakit.apiserver.context import Context, internal_without_reason
from drakit.apiserver.fieldsets import FieldSet
from drakit.apiserver.managed_fields import APPLY, UPDATE, Applied, Manager, Versions
from drakit.apiserver.stored import Plain, Stored
from drakit.apiserver.verbs.writing import check_name, replace, store_new

__all__ = ["apply", "merge"]

_BEFORE = "before-first-apply"


def apply(ctx: Context, call: Call, *, dry_run: bool, validation: str) -> Answer:
    config = _configuration(call)
    old = ctx.collection(call.kind).objects.get(call.key)
    if old is None and call.subresource:
        raise call.not_found()
    if old is not None:
        _check_preconditions(call, config, old)
    merged, applied = merge(ctx, call, config, old)
    decoded = strategy.decode(call.kind, call.version, merged)
    if validation != "Ignore" and (problems := decoded.strict_errors):
        if validation == "Strict":
            raise StatusError.bad_request(f"strict decoding error: {', '.join(problems)}")
        call.warnings.extend(problems)
    obj = decoded.obj
    if not isinstance(obj.get("metadata"), dict):
        obj["metadata"] = {}
    obj["metadata"].setdefault("name", call.name)
    check_name(call, obj)
    if old is None:
        return store_new(ctx, call, obj, dry_run=dry_run, applied_by=applied)
    obj["metadata"].setdefault("resourceVersion", old.obj["metadata"]["resourceVersion"])
    return replace(ctx, call, obj, old, dry_run=dry_run, applied_by=applied)


def _configuration(call: Call) -> Plain:
    if call.value is not NOTHING:
        value = call.value
    else:
        try:
            value = bodies.parse_yaml(call.body)
        except bodies.BodyError as error:
            raise StatusError.bad_request(f"error decoding YAML: {error}") from None
    if not isinstance(value, dict):
        raise StatusError.bad_request("error decoding YAML: the configuration must be an object")
    kind = call.kind
    api_version, name = value.get("apiVersion"), value.get("kind")
    if api_version != kind.api_version(call.version) or name != kind.kind:
        if not api_version and not name:
            raise StatusError.bad_request("invalid object type: /, Kind=")
        group, _, version = str(api_version or "").rpartition("/")
        raise StatusError.bad_request(f"invalid object type: {group}/{version}, Kind={name or ''}")
    meta = value.get("metadata")
    if isinstance(meta, dict) and meta.get("managedFields"):
        raise StatusError.bad_request("metadata.managedFields must be nil")
    return value


def _check_preconditions(call: Call, config: Plain, old: Stored) -> None:
    meta = config.get("metadata") or {}
    version = meta.get("resourceVersion") if isinstance(meta, dict) else None
    if version and version != str(old.version):
        raise StatusError.modified(call.kind.group, call.kind.plural, call.name)
    uid = meta.get("uid") if isinstance(meta, dict) else None
    if uid and uid != old.obj["metadata"]["uid"]:
        text = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise StatusError.conflict(call.kind.group, call.kind.plural, call.name, text)


def merge(ctx: Context, call: Call, config: Plain, old: Stored | None) -> tuple[Plain, Applied]:
    """The object that results, in the version of the request, and its managers."""
    kind, node = call.kind, schema.root(call.kind, call.version)
    _check_typed(call, node, config)
    now = timestamp(ctx.clock.now())
    api_version = kind.api_version(call.version)
    managers: list[Manager] = []
    if old is None:
        live: Plain = managed_fields.live_structure(kind, call.version)
    else:
        live = old.plain(kind, call.version)
        managers = managed_fields.decode(old.obj["metadata"].get("managedFields"))
        if not managers:
            managers = _before_first_apply(kind, api_version, old.obj)
    ignored = managed_fields.ignored(kind, call.subresource)
    fields = fieldsets.without_under(fieldsets.field_set(node, config), ignored)
    mine = Manager(field_manager(call), APPLY, api_version, call.subresource, fields)
    before = next((manager for manager in managers if manager.key == mine.key), None)
    # Ownership is decided without what the server keeps for itself.
    bare = _without_managed_fields(live)
    merged = fieldsets.merge(node, bare, config)
    others = [manager for manager in managers if manager.key != mine.key]
    if before is not None and before.fields:
        merged = _prune(kind, call.version, merged, before, [*others, mine])
    storage_old = old.obj if old is not None else {"metadata": {}}
    force = bool_option(call, "force")
    try:
        storage_new = _to_storage(kind, call.version, merged)
    except StatusError as error:
        if not force:
            _check_same_version(node, api_version, others, bare, merged)
        raise _unconvertible(call, config, error) from None
    versions = Versions(kind, storage_old, storage_new, call.subresource, creating=old is None)
    kept = managed_fields.take_over(versions, others, None, force=force)
    changed = old is None or merged != bare
    time = now if changed else before.time if before is not None else ""
    if mine.fields:
        kept.append(with_changes(mine, time=time))
    return merged, Applied(tuple(kept))


def _check_typed(call: Call, node: Node, config: Plain) -> None:
    try:
        fieldsets.check(node, config)
    except fieldsets.SchemaError as error:
        text = f"failed to create typed patch object ({_named(call, config)}): {error}"
        raise internal_without_reason(text) from None


def _named(call: Call, config: Plain) -> str:
    meta = config.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    return f"{meta.get('namespace') or ''}/{meta.get('name') or ''}; {_kind_text(call)}"


def _kind_text(call: Call) -> str:
    return f"{call.kind.group}/{call.version}, Kind={call.kind.kind}"


def _check_same_version(node: Node, api_version: str, managers: list[Manager], live: Plain, merged: Plain) -> None:
    """The conflicts with managers of the request's own version, which show before anything is converted."""
    found = fieldsets.compare(node, live, merged)
    changed = fieldsets.union(found.modified, found.added)
    same = [manager for manager in managers if manager.version == api_version]
    taken = [(manager, fieldsets.intersection(manager.fields, changed)) for manager in same]
    conflicts = [(manager, fields) for manager, fields in taken if fields]
    if conflicts:
        raise managed_fields.conflict(conflicts)


def _unconvertible(call: Call, config: Plain, error: StatusError) -> StatusError:
    """Values that fit the schema and still cannot be read: a time, an amount, a fraction where none may be."""
    cause = error.message.partition(f"cannot be handled as a {call.kind.kind}: ")[2] or error.message
    if cause.startswith("json: cannot unmarshal number"):
        cause = f"cannot convert float64 to {cause.rpartition(' of type ')[2]}"
    text = f"failed to convert new object ({_named(call, config)}) to proper version: "
    return internal_without_reason(f"{text}unable to convert unstructured object to {_kind_text(call)}: {cause}")


def _without_managed_fields(obj: Plain) -> Plain:
    meta = obj.get("metadata") or {}
    if "managedFields" not in meta:
        return obj
    return {**obj, "metadata": {name: value for name, value in meta.items() if name != "managedFields"}}


def _before_first_apply(kind: Kind, api_version: str, live: Plain) -> list[Manager]:
    """An object without managers was made by someone unknown, who owns all of it."""
    found = Versions(kind, live, live, "", creating=True).compare(api_version)
    if found is None or not found.added:
        return []
    return [Manager(_BEFORE, UPDATE, api_version, "", found.added, "")]


def _to_storage(kind: Kind, version: str, obj: Plain) -> Plain:
    return strategy.decode(kind, version, obj, default=False).obj


def _prune(kind: Kind, version: str, merged: Plain, before: Manager, managers: list[Manager]) -> Plain:
    """Remove what the manager applied last time, does not apply now, and nobody else owns."""
    node = schema.root(kind, version)
    last = fieldsets.named_members(node, before.fields)
    if before.version != kind.api_version(version):
        return merged  # applied in another version: nothing is removed, only no longer owned
    pruned = fieldsets.remove(node, merged, last)
    owned: FieldSet = {}
    for manager in managers:
        if manager.version == before.version:
            owned = fieldsets.union(owned, manager.fields)
    merged_set = fieldsets.named_members(node, fieldsets.field_set(node, merged))
    pruned_set = fieldsets.named_members(node, fieldsets.field_set(node, pruned))
    kept = fieldsets.union(pruned_set, fieldsets.named_members(node, owned))
    pruned = fieldsets.remove(node, merged, fieldsets.difference(merged_set, kept))
    pruned_set = fieldsets.named_members(node, fieldsets.field_set(node, pruned))
    gone = fieldsets.intersection(fieldsets.difference(merged_set, pruned_set), last)
    result: Plain = fieldsets.remove(node, merged, gone) if gone else merged
    return result
