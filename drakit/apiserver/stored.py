"""One stored version of an object, and the event that brought it.

A Stored is shared by everyone who reads it: its plain object is never changed, and its JSON text is made once per API
version and then used by GET, by LIST, by every watcher and by the log.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from drakit.api import strategy
from drakit.api.registry import Kind

__all__ = ["ADDED", "DELETED", "MODIFIED", "Event", "Plain", "Stored", "frame", "json_body", "prefix"]

Plain = dict[str, Any]
ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"

_encode = msgspec.json.Encoder().encode


@lru_cache(maxsize=512)
def prefix(kind: Kind, version: str) -> bytes:
    """What stands before a body to make a whole object: `{"kind":…,"apiVersion":…,`."""
    return f'{{"kind":"{kind.kind}","apiVersion":"{kind.api_version(version)}",'.encode()


def json_body(obj: Plain) -> bytes:
    """The JSON text without kind and apiVersion, as list items have it."""
    return _encode({key: value for key, value in obj.items() if key not in ("kind", "apiVersion")})


class Stored:
    """`obj` is plain, in the storage version, with kind and apiVersion; `version` is its resourceVersion."""

    __slots__ = ("_bodies", "_size", "key", "kind", "obj", "version")

    def __init__(self, kind: Kind, key: str, obj: Plain, version: int, body: bytes | None = None) -> None:
        self.kind = kind
        self.key = key
        self.obj = obj
        self.version = version
        self._bodies: dict[tuple[str, str], bytes] = {} if body is None else {(kind.group, kind.storage_version): body}
        self._size = 0

    @property
    def size(self) -> int:
        """Of its JSON text, which is not kept for that."""
        if not self._size:
            known = self._bodies.get((self.kind.group, self.kind.storage_version))
            self._size = len(json_body(self.obj) if known is None else known)
        return self._size

    def body(self, kind: Kind, version: str) -> bytes:
        """The JSON text of the object in an API version, without kind and apiVersion.

        `kind` is the one that is asked for, which may be another view of the stored kind (events.k8s.io)."""
        found = self._bodies.get((kind.group, version))
        if found is None:
            found = self._bodies[kind.group, version] = json_body(self.plain(kind, version))
        return found

    def stored_body(self) -> bytes:
        return self.body(self.kind, self.kind.storage_version)

    def plain(self, kind: Kind, version: str) -> Plain:
        if version == self.kind.storage_version and kind.group == self.kind.group:
            return self.obj
        return strategy.encode(kind, version, self.obj)


class Event:
    """A change of one object. `stored` is the new state (for DELETED: the last one, with the version of the deletion)."""

    __slots__ = ("_frames", "_last", "old", "stored", "type")

    def __init__(self, type: str, stored: Stored, old: Stored | None) -> None:
        self.type = type
        self.stored = stored
        self.old = old
        self._frames: dict[tuple[str, str, str], bytes] = {}
        self._last: Stored | None = None

    @property
    def version(self) -> int:
        return self.stored.version

    @property
    def size(self) -> int:
        return self.stored.size if self.old is None or self.type != DELETED else self.old.size

    def seen_as(self, type: str) -> Stored:
        """The object that a watcher gets when the event reaches it under `type`."""
        return self.stored if type != DELETED else self.last_state()

    def frame(self, type: str, kind: Kind, version: str) -> bytes:
        """The line of a watch; `type` may differ from the event's own when an object enters or leaves a selection."""
        found = self._frames.get((type, kind.group, version))
        if found is None:
            found = self._frames[type, kind.group, version] = frame(type, self.seen_as(type), kind, version)
        return found

    def last_state(self) -> Stored:
        """For a watcher that loses sight of the object: its state before, at the version of the change."""
        if self.type == DELETED or self.old is None:
            return self.stored
        if self._last is None:
            old, version = self.old, self.stored.version
            metadata = {**old.obj["metadata"], "resourceVersion": str(version)}
            self._last = Stored(old.kind, old.key, {**old.obj, "metadata": metadata}, version)
        return self._last


def frame(type: str, stored: Stored, kind: Kind, version: str) -> bytes:
    return b'{"type":"%b","object":%b%b}\n' % (type.encode(), prefix(kind, version), stored.body(kind, version)[1:])
