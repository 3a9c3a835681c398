"""All objects, in memory; every change in the journal before anyone hears of it.

A write is checked and applied at once, under the event loop, and gets the next resourceVersion, so the next write builds
on it. It becomes visible when a commit of the journal covers it: then watchers get the event and the writer its answer.
A read that meets a change not yet committed is answered after the commit (`Answer.version` against `Store.durable`), so
nobody outside acts on something that a crash could take back. When a commit fails, all that was applied since is undone,
newest first, and every waiting writer gets the error.

Without a journal (simulation, tests) a write is visible at once.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

import msgspec

from drakit.api import registry
from drakit.api.errors import StatusError
from drakit.api.registry import Kind
from drakit.apiserver.journal import Change, Journal, JournalError
from drakit.apiserver.stored import ADDED, DELETED, MODIFIED, Event, Plain, Stored
from drakit.apiserver.watchers import Watchers

__all__ = ["Collection", "Guard", "Store"]

log = logging.getLogger(__name__)
HISTORY = 4096  # events kept per resource for watches and lists from an older version
HISTORY_BYTES = 64 * 2**20  # of JSON text in them: one object of a megabyte, changed often, would fill the memory


class Guard(Protocol):
    """Looks at every change of some kind right before it is applied, and keeps its own index of what is stored."""

    def check(self, key: str, new: Plain | None, old: Plain | None) -> None:
        """Raise StatusError to refuse."""

    def applied(self, key: str, new: Plain | None, old: Plain | None) -> None:
        """The state went from old to new (also called with the roles exchanged, to undo)."""


class Collection:
    """One resource: its objects by key (`namespace/name` or `name`), in order, and its recent events."""

    def __init__(self, kind: Kind, history: int) -> None:
        self.kind = kind
        self.resource = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
        self.objects: dict[str, Stored] = {}
        self.keys: list[str] = []
        self.version = 0  # of the last change applied
        self.history: deque[Event] = deque()
        self.pending: deque[Event] = deque()  # applied, not yet committed: in `objects`, not in `history`
        self.compacted = 0  # events up to this version are gone
        self.watchers = Watchers()
        self.guards: list[Guard] = []
        self._limit = history
        self._bytes = 0  # of what is in `history`

    def select(self, namespace: str = "") -> Iterable[Stored]:
        """In key order."""
        objects = self.objects
        if not namespace:
            return [objects[key] for key in self.keys]
        start = bisect_left(self.keys, namespace + "/")
        end = bisect_left(self.keys, namespace + "0")  # the character after "/"
        return [objects[key] for key in self.keys[start:end]]

    def at(self, version: int) -> dict[str, Stored]:
        """The objects as they were at a version that the history still reaches; StatusError 410 otherwise."""
        if version < self.compacted:
            raise StatusError.expired("The resourceVersion for the provided list is too old.")
        objects = dict(self.objects)
        for event in (*reversed(self.pending), *reversed(self.history)):
            if event.version <= version:
                break
            if event.old is None:
                objects.pop(event.stored.key, None)
            else:
                objects[event.stored.key] = event.old
        return objects

    def since(self, version: int) -> list[Event]:
        """The events after a version; StatusError 410 when some of them are gone."""
        if version < self.compacted:
            raise StatusError.expired(f"too old resource version: {version} ({self.compacted})")
        found: list[Event] = []
        for event in reversed(self.history):
            if event.version <= version:
                break
            found.append(event)
        found.reverse()
        return found

    def publish(self, event: Event) -> None:
        self.history.append(event)
        self._bytes += event.size
        while len(self.history) > self._limit or self._bytes > HISTORY_BYTES:
            oldest = self.history.popleft()
            self.compacted = oldest.version
            self._bytes -= oldest.size
        self.watchers.publish(event)

    def forget_history(self, version: int) -> None:
        self.history.clear()
        self._bytes = 0
        self.compacted = version

    def apply(self, key: str, new: Stored | None, old: Stored | None) -> None:
        if new is None:
            del self.objects[key]
            del self.keys[bisect_left(self.keys, key)]
        else:
            if old is None:
                insort(self.keys, key)
            self.objects[key] = new
        for guard in self.guards:
            guard.applied(key, new.obj if new else None, old.obj if old else None)


class Store:
    def __init__(self, journal: Journal | None = None, *, history: int = HISTORY) -> None:
        self.version = 1  # last one given out
        self.durable = 1  # last one committed: what may be seen
        self._journal = journal
        self._history = history
        self._collections: dict[tuple[str, str], Collection] = {}
        self._unpublished: deque[tuple[Collection, Event]] = deque()
        self._changes: list[Change] = []
        self._committing = False
        self._scheduled = False
        self._waiting: deque[tuple[int, Callable[[StatusError | None], None]]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.commits = 0
        self.failures = 0
        self.broken = False  # the last commit failed

    def collection(self, kind: Kind) -> Collection:
        kind = kind.stored_as or kind
        found = self._collections.get((kind.group, kind.plural))
        if found is None:
            found = self._collections[kind.group, kind.plural] = Collection(kind, self._history)
            found.compacted = self.durable
        return found

    def get(self, group: str, plural: str, namespace: str, name: str) -> Plain | None:
        """A stored object; None when it or its kind is not there."""
        kind = registry.by_resource(group, plural)
        if kind is None:
            return None
        found = self.collection(kind).objects.get(f"{namespace}/{name}" if kind.namespaced else name)
        return None if found is None else found.obj

    def list(self, group: str, plural: str, namespace: str = "") -> list[Plain]:
        kind = registry.by_resource(group, plural)
        return [] if kind is None else [stored.obj for stored in self.collection(kind).select(namespace)]

    def collections(self) -> Iterable[Collection]:
        return self._collections.values()

    def load(self, kinds: Iterable[Kind]) -> int:
        """Read the journal; returns the number of objects. Call before the first write."""
        if self._journal is None:
            return 0
        by_resource = {collection.resource: collection for collection in map(self.collection, kinds)}
        decode = msgspec.json.Decoder().decode
        count = 0
        for row in self._journal.rows():
            collection = by_resource.get(row.resource)
            if collection is None:
                continue  # a kind of another release: kept in the file, not served
            kind = collection.kind
            try:
                body = decode(row.value)
            except msgspec.DecodeError as error:
                text = f"{self._journal.path} is damaged: {row.resource} {row.key}: {error}; restore a backup"
                raise JournalError(text) from error
            obj = {"kind": kind.kind, "apiVersion": kind.api_version(), **body}
            stored = Stored(kind, row.key, obj, row.version, row.value)
            collection.objects[row.key] = stored
            collection.keys.append(row.key)
            collection.version = max(collection.version, row.version)
            for guard in collection.guards:
                guard.applied(row.key, obj, None)
            count += 1
        self.version = self.durable = max(1, self._journal.resource_version())
        for collection in by_resource.values():
            collection.keys.sort()
            collection.compacted = self.durable
        self._journal.start()
        return count

    def forget_history(self) -> None:
        """Nothing before now can be asked for: used after the objects of a first start are made."""
        for collection in self._collections.values():
            collection.forget_history(self.version)

    # -- writing -------------------------------------------------------------------------------------------------

    def put(self, collection: Collection, key: str, obj: Plain, old: Stored | None) -> Stored:
        """Create (`old` None) or replace. Takes over `obj` and its metadata and sets the resourceVersion in it."""
        for guard in collection.guards:
            guard.check(key, obj, old.obj if old else None)
        version = self.version = self.version + 1
        obj["metadata"]["resourceVersion"] = str(version)
        stored = Stored(collection.kind, key, obj, version)
        self._record(collection, Event(MODIFIED if old else ADDED, stored, old), key, stored, old)
        return stored

    def remove(self, collection: Collection, old: Stored, obj: Plain | None = None) -> Stored:
        """Delete; `obj` is the final state if it differs from what was stored."""
        for guard in collection.guards:
            guard.check(old.key, None, old.obj)
        version = self.version = self.version + 1
        last = obj if obj is not None else old.obj
        last = {**last, "metadata": {**last["metadata"], "resourceVersion": str(version)}}
        stored = Stored(collection.kind, old.key, last, version)
        self._record(collection, Event(DELETED, stored, old), old.key, None, old)
        return stored

    def _record(self, collection: Collection, event: Event, key: str, new: Stored | None, old: Stored | None) -> None:
        collection.apply(key, new, old)
        collection.version = event.version
        if self._journal is None:
            self.durable = event.version
            collection.publish(event)
            return
        value = None if new is None else new.stored_body()
        self._changes.append(Change(collection.resource, key, event.version, value))
        self._unpublished.append((collection, event))
        collection.pending.append(event)
        if not self._committing and not self._scheduled:
            self._scheduled = True
            self._loop = asyncio.get_running_loop()
            # At the end of this turn of the loop, so that requests that came together are committed together.
            self._loop.call_soon(self._commit)

    def _commit(self) -> None:
        self._scheduled = False
        changes, self._changes = self._changes, []
        if not changes or self._journal is None or self._loop is None:
            return
        self._committing = True
        version = changes[-1].version
        loop = self._loop

        def done(error: Exception | None) -> None:
            loop.call_soon_threadsafe(self._committed, version, error)

        self._journal.write(changes, version, done)

    def _committed(self, version: int, error: Exception | None) -> None:
        self._committing = False
        if error is not None:
            self._undo(error)
            return
        self.commits += 1
        self.broken = False
        self.durable = version
        while self._unpublished and self._unpublished[0][1].version <= version:
            collection, event = self._unpublished.popleft()
            collection.pending.popleft()
            collection.publish(event)
        self._release(None)
        if self._changes:
            self._commit()

    def _undo(self, error: Exception) -> None:
        self.failures += 1
        self.broken = True
        while self._unpublished:
            collection, event = self._unpublished.pop()
            collection.pending.pop()
            key = event.stored.key
            current = None if event.type == DELETED else event.stored
            collection.apply(key, event.old, current)
        for collection in self._collections.values():
            collection.version = min(collection.version, self.durable)
        self._changes.clear()
        self._release(StatusError.internal(str(error)))

    def _release(self, failure: StatusError | None) -> None:
        while self._waiting and (failure is not None or self._waiting[0][0] <= self.durable):
            callback = self._waiting.popleft()[1]
            try:
                callback(failure)
            except Exception:  # one who waits must not take the others down
                log.exception("after a commit")

    # -- waiting -------------------------------------------------------------------------------------------------

    def when_durable(self, version: int, callback: Callable[[StatusError | None], None]) -> None:
        """Call back when `version` may be seen (at once if it already may), or with the failure of its commit."""
        if version <= self.durable:
            callback(None)
        else:
            # Versions are asked for in the order they were given out, but for reads of an older pending change.
            if self._waiting and self._waiting[-1][0] > version:
                version = self._waiting[-1][0]
            self._waiting.append((version, callback))

    async def settled(self, version: int) -> None:
        if version <= self.durable:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def finish(failure: StatusError | None) -> None:
            if future.done():
                return
            if failure is None:
                future.set_result(None)
            else:
                future.set_exception(failure)

        self.when_durable(version, finish)
        await future

    async def backup(self, target: Path) -> None:
        """A copy of everything committed so far; the server goes on meanwhile."""
        if self._journal is None:
            raise JournalError("a store without a file has nothing to back up; start it with a data folder")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def done(error: Exception | None) -> None:
            if error is None:
                loop.call_soon_threadsafe(future.set_result, None)
            else:
                loop.call_soon_threadsafe(future.set_exception, error)

        self._journal.backup(target, done)
        await future

    def read_version(self, collection: Collection) -> int:
        """The version that a list of this collection states, and that its answer has to wait for."""
        return self.durable if collection.version <= self.durable else self.version

    async def close(self) -> None:
        if self._journal is None:
            return
        if self.version > self.durable and (self._changes or self._committing):
            try:
                await self.settled(self.version)
            except StatusError:
                pass  # the writers were told
        self._journal.close()
        self._journal = None
