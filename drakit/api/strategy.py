"""What happens to an object on its way in, the same for every kind: decode, default, convert, prepare, validate.

Pure: times, names and uids are passed in. The order is that of an API server's generic registry, because errors and their order
are part of the answer. What is a kind's own stands in its `Strategy`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from drakit.api import metadata, wire
from drakit.api.errors import FieldError, StatusError
from drakit.api.kind import ExpressionChecker, Kind, NoExpressions, Object, Strategy, Subresource, WriteContext

__all__ = [
    "Decoded",
    "ExpressionChecker",
    "NoExpressions",
    "Strategy",
    "Subresource",
    "WriteContext",
    "create",
    "decode",
    "encode",
    "update",
]


@dataclass(slots=True)  # not frozen: every write makes one
class Decoded:
    """A body in the storage version, defaults applied, and what its reader would not expect to be ignored."""

    obj: Object
    unknown_fields: tuple[str, ...] = ()
    duplicate_fields: tuple[str, ...] = ()

    @property
    def strict_errors(self) -> tuple[str, ...]:
        """The texts for fieldValidation Strict (one error) and Warn (one warning each)."""
        if not self.unknown_fields and not self.duplicate_fields:
            return ()
        unknown = tuple(f'unknown field "{field}"' for field in self.unknown_fields)
        return unknown + tuple(f'duplicate field "{field}"' for field in self.duplicate_fields)


def decode(
    kind: Kind, version: str, value: Any, duplicate_fields: tuple[str, ...] = (), *, default: bool = True
) -> Decoded:
    """Reads a body of the given version. Raises StatusError 400 when a field has the wrong type.

    `value` is the parsed JSON (see `api.decode`), which is not changed; `duplicate_fields` is what the parser found.
    """
    served = kind.version(version)
    if served is None:
        raise StatusError.bad_request(f"no kind {kind.kind!r} is registered for version {kind.api_version(version)!r}")
    obj, unknown = wire.read(served.model, value, kind=kind.kind, version=version)
    strategy = kind.strategy
    if default:
        for name in ("", version):
            function = strategy.default.get(name)
            if function is not None:
                function(obj)
    convert = strategy.to_storage.get(version)
    if convert is not None:
        obj = convert(obj)
    obj["apiVersion"] = (kind.stored_as or kind).api_version()
    obj["kind"] = kind.kind
    return Decoded(obj, unknown, duplicate_fields)


def encode(kind: Kind, version: str, obj: Object) -> Object:
    """The object in another served version. Shares what it does not change with obj."""
    if version == kind.storage_version and kind.stored_as is None:
        return obj
    convert = kind.strategy.from_storage.get(version)
    result = dict(obj) if convert is None else convert(obj)
    result["apiVersion"] = kind.api_version(version)
    return result


def create(kind: Kind, obj: Object, ctx: WriteContext, *, owned: bool = False) -> tuple[Object, list[str]]:
    """Makes a decoded object ready to be stored, or raises StatusError (Invalid).

    The caller has set metadata.uid, metadata.namespace and, from generateName, metadata.name. An `owned` object is changed in
    place; any other is copied first.
    """
    strategy = kind.strategy
    if not owned:
        obj = wire.copy(obj)
    meta = obj.setdefault("metadata", {})
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        meta.pop(name, None)
    meta["creationTimestamp"] = ctx.timestamp
    warnings = metadata.without_repeated_owners(meta)
    if strategy.generation:
        meta["generation"] = 1  # other kinds keep what the client sent, as in Kubernetes
    for name in strategy.reset:
        _reset(kind, obj, name, None)
    if strategy.prepare_for_create is not None:
        strategy.prepare_for_create(obj, ctx)
    errors = _metadata_errors(kind, meta, strategy.validate_name) if strategy.own_metadata_rules else []
    if ctx.privileges is not None:
        errors = ctx.privileges(obj, None) + errors
    if strategy.validate is not None:
        errors += strategy.validate(obj, ctx)
    if not errors and not strategy.own_metadata_rules:
        errors = _metadata_errors(kind, meta, None)
    elif not errors and strategy.validate_name is not None:
        errors = metadata.validate_path_segment(meta)
    _raise(kind, obj, errors, ctx.version)
    return obj, warnings + (strategy.warnings(obj, None, ctx) if strategy.warnings is not None else [])


def update(
    kind: Kind, new: Object, old: Object, ctx: WriteContext, subresource: str = "", *, owned: bool = False
) -> tuple[Object, list[str]]:
    """Makes a decoded object ready to replace the stored one, or raises StatusError (Invalid).

    Neither argument is changed, unless new is `owned`: then it shares nothing with old but whole members (its spec, say), and
    only those are copied. resourceVersion and uid preconditions are the store's; both objects are in the storage version.
    """
    strategy = kind.strategy
    new = _separate(new, old, subresource, strategy.reset) if owned else wire.copy(new)
    meta, old_meta = new.setdefault("metadata", {}), old["metadata"]
    _keep(meta, old_meta, "generation")
    warnings = metadata.without_repeated_owners(meta)
    part = strategy.subresources.get(subresource, Subresource()) if subresource else None
    if part is None:
        for name in strategy.reset:
            _reset(kind, new, name, old)
        if strategy.prepare_for_update is not None:
            strategy.prepare_for_update(new, old, ctx)
        if strategy.generation and _spec_changed(new, old, strategy):
            meta["generation"] = (old_meta.get("generation") or 0) + 1
    else:
        if part.prepare_for_update is not None:
            part.prepare_for_update(new, old, ctx)
        elif subresource == "status":
            new = metadata.status_only(new, old)
        meta = new["metadata"]
    _keep_system_fields(meta, old_meta)
    unchanged = metadata.same_content(meta, old_meta)
    errors = [] if unchanged else _metadata_errors(kind, meta, None)
    errors += metadata.validate_update(meta, old_meta, content_checked=unchanged)
    if ctx.privileges is not None:
        errors += ctx.privileges(new, old)
    check = part.validate_update if part is not None else strategy.validate_update
    if check is not None:
        errors += check(new, old, ctx)
    elif part is None and strategy.validate is not None:
        errors += strategy.validate(new, ctx)
    _raise(kind, new, errors, ctx.version)
    warn = part.warnings if part is not None else strategy.warnings
    return new, warnings + (warn(new, old, ctx) if warn is not None else [])


def _metadata_errors(kind: Kind, meta: Object, name: metadata.NameCheck | None) -> list[FieldError]:
    known = kind.strategy.known_finalizers
    return metadata.validate(meta, namespaced=kind.namespaced, name=name, known_finalizers=known)


def _separate(new: Object, old: Object, subresource: str, reset: tuple[str, ...]) -> Object:
    """new with copies of what it shares with old. A write of the status puts all else back to what is stored, unchanged, and
    any other write the fields that are `reset`."""
    if subresource == "status":
        return (
            {**new, "status": wire.copy(new["status"])}
            if "status" in new and new["status"] is old.get("status")
            else new
        )
    kept = () if subresource else reset
    return {
        name: wire.copy(value) if value is old.get(name) and type(value) in (dict, list) and name not in kept else value
        for name, value in new.items()
    }


def _reset(kind: Kind, obj: Object, name: str, old: Object | None) -> None:
    if old is not None and name in old:
        obj[name] = old[name]
        return
    obj.pop(name, None)
    empty = wire.empty_field(kind.models[kind.storage_version], name)
    if empty is not None:
        obj[name] = empty


def _keep(meta: Object, old_meta: Object, name: str) -> None:
    if name in old_meta:
        meta[name] = old_meta[name]
    else:
        meta.pop(name, None)


def _keep_system_fields(meta: Object, old_meta: Object) -> None:
    if not meta.get("uid"):
        _keep(meta, old_meta, "uid")
    for name in ("creationTimestamp", "deletionTimestamp"):
        if old_meta.get(name):
            meta[name] = old_meta[name]
    if old_meta.get("deletionGracePeriodSeconds") is not None and meta.get("deletionGracePeriodSeconds") is None:
        meta["deletionGracePeriodSeconds"] = old_meta["deletionGracePeriodSeconds"]


def _spec_changed(new: Object, old: Object, strategy: Strategy) -> bool:
    """Whether anything but metadata and the reset fields differs."""
    skip = {"metadata", "apiVersion", "kind", *strategy.reset}
    before = {name: value for name, value in old.items() if name not in skip}
    return not wire.same({name: value for name, value in new.items() if name not in skip}, before)


def _raise(kind: Kind, obj: Object, errors: list[FieldError], version: str) -> None:
    if not errors:
        return
    errors.sort(key=lambda error: error.declared)  # stable: within each half as found
    move = kind.strategy.declared_path.get(version)
    if move is not None:
        errors = [replace(error, field=move(error.field)) if error.declared else error for error in errors]
    group = (kind.stored_as or kind).group
    raise StatusError.invalid(group, kind.kind, obj["metadata"].get("name") or "", errors)
