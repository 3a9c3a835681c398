"""metadata.managedFields: which manager set which field, kept at every write.

An update records the fields that it changed under operation Update; server-side apply records everything that the
configuration names under operation Apply. Sets are in the manager's own API version: a comparison is made once per version
that occurs, which is nearly always one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from drakit.api import schema, strategy
from drakit.api.errors import StatusError
from drakit.api.kind import Kind
from drakit.api.schema import Node
from drakit.apiserver import fieldsets
from drakit.apiserver.call import Call, field_manager
from drakit.apiserver.context import Context, zero_object
from drakit.apiserver.fieldsets import Comparison, FieldSet
from drakit.apiserver.stored import Plain

__all__ = ["Applied", "Manager", "decode", "encode", "on_create", "on_update"]

APPLY, UPDATE = "Apply", "Update"
_MAX_UPDATERS = 10
_ANCIENT = "ancient-changes"
# Set by the server: nobody owns them.
_STRIPPED: FieldSet = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {
        "f:name": {}, "f:namespace": {}, "f:creationTimestamp": {}, "f:selfLink": {}, "f:uid": {}, "f:clusterName": {},
        "f:generation": {}, "f:managedFields": {}, "f:resourceVersion": {},
    },
}  # fmt: skip


@dataclass(slots=True)
class Manager:
    """One entry. Identity is (name, operation, version, subresource); appliers keep theirs across versions.

    Nobody changes one; it is not frozen because every write makes some, and that would cost several times as much."""

    name: str
    operation: str
    version: str  # apiVersion, as in the object: "resource.k8s.io/v1"
    subresource: str
    fields: FieldSet
    time: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        return (self.name, self.operation, "" if self.operation == APPLY else self.version, self.subresource)


@dataclass(frozen=True, slots=True)
class Applied:
    """The managers after a server-side apply, which has done the work already."""

    managers: tuple[Manager, ...]


def decode(entries: Any) -> list[Manager]:
    """From metadata.managedFields; entries that make no sense are dropped."""
    found: list[Manager] = []
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict):
            continue
        fields, operation, version = entry.get("fieldsV1"), entry.get("operation"), entry.get("apiVersion")
        if operation not in (APPLY, UPDATE) or not isinstance(version, str) or not isinstance(fields, dict):
            continue
        name, subresource, time = (str(entry.get(key) or "") for key in ("manager", "subresource", "time"))
        found.append(Manager(name, operation, version, subresource, fields, time))
    return found


def encode(managers: Iterable[Manager]) -> list[Plain]:
    ordered = sorted(managers, key=lambda m: (m.operation, m.time, m.name, m.version, m.subresource))
    entries: list[Plain] = []
    for manager in ordered:
        entry: Plain = {"manager": manager.name, "operation": manager.operation, "apiVersion": manager.version}
        if manager.time:
            entry["time"] = manager.time
        entry |= {"fieldsType": "FieldsV1", "fieldsV1": manager.fields}
        if manager.subresource:
            entry["subresource"] = manager.subresource
        entries.append(entry)
    return entries


@lru_cache(maxsize=512)
def live_structure(kind: Kind, version: str) -> Plain:
    """What Go's empty object has before anyone sets a field: those structs belong to nobody."""
    return {**zero_object(kind, version), "metadata": {}} if kind.stored_as is None else {"metadata": {}}


@lru_cache(maxsize=512)
def ignored(kind: Kind, subresource: str) -> FieldSet:
    """Fields that this write resets, so its manager cannot own them."""
    fields = _STRIPPED
    if not subresource:
        for name in kind.strategy.reset:
            fields = fieldsets.union(fields, {f"f:{name}": {}})
    elif subresource == "status":
        fields = fieldsets.union(fields, {"f:spec": {}})
        if kind.group == "resource.k8s.io":
            fields = fieldsets.union(fields, {"f:metadata": {}})
            fields["f:metadata"] = {}
    return fields


@lru_cache(maxsize=512)
def _version(kind: Kind, api_version: str) -> tuple[str, Node] | None:
    """The version that an apiVersion names and its schema; None when the kind has no such version."""
    version = api_version.rpartition("/")[2]
    if kind.version(version) is None or kind.api_version(version) != api_version:
        return None
    return version, schema.root(kind, version)


class Versions:
    """An old and a new object compared in whatever API version a manager uses."""

    def __init__(self, kind: Kind, old: Plain, new: Plain, subresource: str, *, creating: bool) -> None:
        self._kind = kind
        self._old = old
        self._new = new
        self._ignored = ignored(kind, subresource)
        self._creating = creating
        self._made: dict[str, Comparison | None] = {}

    def compare(self, api_version: str) -> Comparison | None:
        """None when the version is not served any more."""
        if api_version not in self._made:
            self._made[api_version] = self._compare(api_version)
        return self._made[api_version]

    def _compare(self, api_version: str) -> Comparison | None:
        kind = self._kind
        found_version = _version(kind, api_version)
        if found_version is None:
            return None
        version, node = found_version
        old = live_structure(kind, version) if self._creating else strategy.encode(kind, version, self._old)
        new = strategy.encode(kind, version, self._new)
        found = fieldsets.compare(node, old, new)
        removed, modified, added = found
        without, hidden = fieldsets.without_under, self._ignored
        return Comparison(
            removed and without(removed, hidden),
            modified and without(modified, hidden),
            added and without(added, hidden),
        )


def take_over(
    versions: Versions, managers: list[Manager], workflow: tuple[str, str, str, str] | None, *, force: bool
) -> list[Manager]:
    """Fields that changed leave their former managers. Raises the apply conflict unless forced."""
    conflicts: list[tuple[Manager, FieldSet]] = []
    kept: list[Manager] = []
    for manager in managers:
        if manager.key == workflow:
            kept.append(manager)
            continue
        found = versions.compare(manager.version)
        if found is None:
            continue
        fields = manager.fields
        if found.modified or found.added:
            taken = fieldsets.intersection(fields, fieldsets.union(found.modified, found.added))
            if taken:
                conflicts.append((manager, taken))
                fields = fieldsets.difference(fields, taken)
        if found.removed:
            fields = fieldsets.difference(fields, found.removed)
        if fields is manager.fields:
            kept.append(manager)
        elif fields:
            kept.append(replace(manager, fields=fields))
    if conflicts and not force:
        raise conflict(conflicts)
    return kept


def conflict(conflicts: list[tuple[Manager, FieldSet]]) -> StatusError:
    by_manager: dict[str, list[str]] = {}
    for manager, fields in sorted(conflicts, key=lambda found: found[0].key):
        by_manager.setdefault(_described(manager), []).extend(fieldsets.paths(fields))
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": path}
        for manager, found in by_manager.items()
        for path in found
    ]
    if len(causes) == 1:
        message = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines = [
            line
            for manager, found in by_manager.items()
            for line in (f"conflicts with {manager}:", *(f"- {path}" for path in found))
        ]
        message = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
    return StatusError.apply_conflict(message, causes)


def _described(manager: Manager) -> str:
    text = f'"{manager.name}"'
    if manager.subresource:
        text += f' with subresource "{manager.subresource}"'
    return f"{text} using {manager.version}" if manager.operation == UPDATE else text


def on_create(ctx: Context, call: Call, obj: Plain, now: str, applied: Applied | None) -> list[Plain]:
    """The managedFields of a new object; given ones are ignored, as the object has no history yet."""
    if applied is not None:
        return encode(applied.managers)
    api_version = call.kind.api_version(call.version)
    versions = Versions(call.kind, obj, obj, call.subresource, creating=True)
    found = versions.compare(api_version)
    if found is None or not (found.added or found.modified):
        return []
    fields = fieldsets.union(found.added, found.modified)
    return encode([Manager(field_manager(call), UPDATE, api_version, call.subresource, fields, now)])


def on_update(ctx: Context, call: Call, obj: Plain, old: Plain, now: str, applied: Applied | None) -> list[Plain]:
    if applied is not None:
        return encode(applied.managers)
    given = obj["metadata"].get("managedFields")
    stored: list[Plain] = old["metadata"].get("managedFields") or []
    if given == [{}]:
        return []  # the client asks for them to be forgotten
    api_version = call.kind.api_version(call.version)
    versions = Versions(call.kind, old, obj, call.subresource, creating=False)
    found = versions.compare(api_version)
    if found is not None and call.version != call.kind.storage_version and _steps_look_changed(call, obj):
        found = found._replace(modified=fieldsets.union(found.modified, {"f:spec": {"f:devices": {}}}))
    unchanged = found is None or not (found.removed or found.modified or found.added)
    if unchanged and (not given or given == stored):
        return stored
    managers = decode(given) or decode(stored) if given and given != stored else decode(stored)
    kept = take_over(versions, managers, None, force=True)
    if found is not None and (found.modified or found.added):
        kept = _record(kept, call, api_version, fieldsets.union(found.modified, found.added), now)
    return encode(_capped(kept))


def _steps_look_changed(call: Call, obj: Plain) -> bool:
    """Kubernetes' validation of a capacity range with a step leaves its quantities in another internal form, and the
    comparison for managedFields then takes the devices for changed when they are written back through an older version."""
    if call.kind.plural != "resourceslices" or call.subresource:
        return False
    return any(
        (((capacity or {}).get("requestPolicy") or {}).get("validRange") or {}).get("step")
        for device in (obj.get("spec") or {}).get("devices") or ()
        for capacity in (device.get("capacity") or {}).values()
    )


def _record(managers: list[Manager], call: Call, api_version: str, fields: FieldSet, now: str) -> list[Manager]:
    mine = Manager(field_manager(call), UPDATE, api_version, call.subresource, fields, now)
    for position, manager in enumerate(managers):
        if manager.key == mine.key:
            merged = replace(mine, fields=fieldsets.union(manager.fields, fields))
            return [*managers[:position], merged, *managers[position + 1 :]]
    return [*managers, mine]


def _capped(managers: list[Manager]) -> list[Manager]:
    """Many updaters are folded into one entry, oldest first, so that the list does not grow for ever."""
    updaters = [manager for manager in managers if manager.operation == UPDATE]
    if len(updaters) <= _MAX_UPDATERS:
        return managers
    rest = [manager for manager in managers if manager.operation != UPDATE]
    updaters.sort(key=lambda manager: (manager.time, manager.name))
    while len(updaters) > _MAX_UPDATERS:
        oldest = updaters.pop(0)
        for position, other in enumerate(updaters):
            if other.version == oldest.version:
                fields = fieldsets.union(oldest.fields, other.fields)
                updaters[position] = Manager(_ANCIENT, UPDATE, other.version, "", fields, other.time)
                break
        else:
            rest.append(oldest)
    return [*rest, *updaters]
