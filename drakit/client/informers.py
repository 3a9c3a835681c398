"""Shared, cached, indexed watches: one per resource in a process, whoever reads.

An informer lists once, then follows the watch, resuming where it broke off and listing anew when the server has forgotten (410).
Handlers run synchronously in the event loop, with typed objects made once per event; they must only note work (add keys to queues).

`observe` puts the answer of one's own write into the cache before the watch brings it: a controller reads its writes and needs neither
expectations nor a mutation cache. This is exact because resourceVersions of one resource are ordered numbers (KEP-5504): whatever is not
newer than what the cache has seen is ignored.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from drakit.api.errors import StatusError
from drakit.api.typed import from_plain
from drakit.client.client import Client
from drakit.client.resources import Resource, key_of, model_of, resource_of
from drakit.client.transport import Plain
from drakit.clock import Clock, SystemClock

__all__ = ["Informer", "Informers"]

T = TypeVar("T")
log = logging.getLogger(__name__)

_FIRST_BACKOFF = 0.05
_LAST_BACKOFF = 30.0
_EVENTS_PER_TURN = 256  # handle at most so many before letting others run


@dataclass(slots=True)
class _Handler(Generic[T]):
    on_add: Callable[[T], None] | None
    on_update: Callable[[T, T], None] | None
    on_delete: Callable[[T], None] | None


class Informer(Generic[T]):
    """The cache of one resource (perhaps narrowed by namespace or selectors). Objects in it are shared: never mutate them."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        model: type[T] | None,
        clock: Clock,
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
    ) -> None:
        self.resource = resource
        self.synced = asyncio.Event()
        self._client = client
        self._model = model
        self._clock = clock
        self._namespace, self._labels, self._fields = namespace, labels, fields
        self._items: dict[str, T] = {}
        self._plain: dict[str, Plain] = {}
        self._versions: dict[str, int] = {}
        self._gone: dict[str, str] = {}  # uid -> key: deleted by us, not yet by the watch
        self._indexes: dict[str, tuple[Callable[[T], Iterable[str]], dict[str, dict[str, T]]]] = {}
        self._handlers: list[_Handler[T]] = []
        self._taps: list[Callable[[str, Plain], None]] = []
        self._seen = 0  # newest resourceVersion that the watch (or list) has brought
        self.events = 0  # for tests and load figures

    # Reading.

    def get(self, key: str) -> T | None:
        """By `namespace/name`, or `name` in cluster scope."""
        return self._items.get(key)

    def plain(self, key: str) -> Plain | None:
        """The same object as JSON has it, with the fields the model does not know."""
        return self._plain.get(key)

    def keys(self) -> list[str]:
        return list(self._items)

    def items(self) -> Iterator[tuple[str, T]]:
        return iter(self._items.items())

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: str) -> bool:
        return key in self._items

    def by_index(self, name: str, value: str) -> list[T]:
        found = self._indexes[name][1].get(value)
        return list(found.values()) if found else []

    def index_count(self, name: str, value: str) -> int:
        return len(self._indexes[name][1].get(value, ()))

    def index_keys(self, name: str, value: str) -> list[str]:
        return list(self._indexes[name][1].get(value, ()))

    def index_values(self, name: str) -> list[str]:
        """The values that at least one object has."""
        return list(self._indexes[name][1])

    # Registration.

    def add_index(self, name: str, values: Callable[[T], Iterable[str]]) -> None:
        """Index by what `values` gives for an object. Adding the same name again changes nothing."""
        if name in self._indexes:
            return
        table: dict[str, dict[str, T]] = {}
        self._indexes[name] = (values, table)
        for key, obj in self._items.items():
            for value in values(obj):
                table.setdefault(value, {})[key] = obj

    def add_handler(
        self,
        on_add: Callable[[T], None] | None = None,
        on_update: Callable[[T, T], None] | None = None,
        on_delete: Callable[[T], None] | None = None,
    ) -> Callable[[], None]:
        """Called for every change from now on; what is cached already is given to `on_add` at once. Returns how to remove it."""
        handler = _Handler(on_add, on_update, on_delete)
        self._handlers.append(handler)
        if on_add is not None:
            for obj in list(self._items.values()):
                on_add(obj)
        return lambda: self._handlers.remove(handler)

    def add_tap(self, tap: Callable[[str, Plain], None]) -> Callable[[], None]:
        """Like a handler, but plain: called with (ADDED | MODIFIED | DELETED, object)."""
        self._taps.append(tap)
        for obj in list(self._plain.values()):
            tap("ADDED", obj)
        return lambda: self._taps.remove(tap)

    # Reading one's own writes.

    def observe(self, plain: Plain) -> None:
        """Take the answer of a create, update or patch (the plain one) as if the watch had brought it."""
        version = int(plain["metadata"]["resourceVersion"])
        if version > self._seen:
            self._apply(plain, version)

    def observe_deleted(self, key: str, uid: str, answer: Plain | None = None) -> None:
        """Take the answer of a delete: the object is gone, or (finalizers, graceful deletion) marked."""
        metadata = (answer or {}).get("metadata") or {}
        if metadata.get("deletionTimestamp") and (
            metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
        ):
            assert answer is not None
            self.observe(answer)
            return
        known = self._plain.get(key)
        if known is not None and known["metadata"].get("uid") == uid:
            self._gone[uid] = key
            self._remove(key)

    # Following the server.

    async def run(self) -> None:
        """List and watch until cancelled."""
        backoff = _FIRST_BACKOFF
        version = ""
        while True:
            try:
                if not version:
                    version = await self._relist()
                    self.synced.set()
                version = await self._follow(version)
                backoff = _FIRST_BACKOFF
                continue
            except StatusError as error:
                if error.code == 410:
                    version = ""
                    log.info("%s: history is gone, listing again", self.resource.plural)
                    if backoff == _FIRST_BACKOFF:  # the first 410 costs no wait; a server that answers only 410 does
                        backoff *= 2
                        continue
                else:
                    version = str(self._seen) if self._seen and error.code >= 500 else ""
                    log.warning("%s: watch failed, trying again in %.2f s: %s", self.resource.plural, backoff, error)
            except Exception:  # a faulty handler must not end the cache of the whole process
                version = ""
                log.exception("%s: handling an event failed, listing again in %.2f s", self.resource.plural, backoff)
            await self._clock.sleep(backoff)
            backoff = min(backoff * 2, _LAST_BACKOFF)

    async def _relist(self) -> str:
        listing = await self._client.list_plain(
            self.resource,
            namespace=self._namespace,
            labels=self._labels,
            fields=self._fields,
            resource_version="0" if not self._seen else None,
        )
        self._gone.clear()
        listed_at = int(listing.resource_version or 0)
        listed = set()
        for count, obj in enumerate(listing.items):
            if "kind" not in obj:  # items of a list come without
                obj = {"apiVersion": self.resource.api_version, "kind": self.resource.kind, **obj}
            listed.add(key_of(obj))
            self._apply(obj, int(obj["metadata"]["resourceVersion"]))
            if count % _EVENTS_PER_TURN == _EVENTS_PER_TURN - 1:
                await asyncio.sleep(0)
        for key in [key for key in self._items if key not in listed and self._versions[key] <= listed_at]:
            self._remove(key)
        self._seen = listed_at
        return listing.resource_version

    async def _follow(self, version: str) -> str:
        stream = self._client.watch_plain(
            self.resource,
            resource_version=version,
            namespace=self._namespace,
            labels=self._labels,
            fields=self._fields,
            bookmarks=True,
        )
        pending = 0
        try:
            async for kind, obj in stream:
                version = obj["metadata"]["resourceVersion"]
                self._seen = number = int(version)
                if kind == "ADDED" or kind == "MODIFIED":
                    self._apply(obj, number)
                elif kind == "DELETED":
                    self._deleted(obj, number)
                pending += 1
                if pending >= _EVENTS_PER_TURN:
                    pending = 0
                    await asyncio.sleep(0)
        finally:
            await stream.aclose()
        return version

    def _apply(self, plain: Plain, version: int) -> None:
        key = key_of(plain)
        known = self._versions.get(key)
        if known is not None and version <= known:
            return
        if self._gone and plain["metadata"].get("uid") in self._gone:
            return
        obj = self._typed(plain)
        old = self._items.get(key)
        if old is not None and self._plain[key]["metadata"].get("uid") != plain["metadata"].get("uid"):
            self._remove(key)  # deleted and made anew while we were not looking: two events, as it happened
            old = None
        self._items[key] = obj
        self._plain[key] = plain
        self._versions[key] = version
        self.events += 1
        for values, table in self._indexes.values():
            _reindex(table, key, values(old) if old is not None else (), values(obj), obj)
        for tap in self._taps:
            tap("ADDED" if old is None else "MODIFIED", plain)
        for handler in self._handlers:
            if old is None:
                if handler.on_add is not None:
                    handler.on_add(obj)
            elif handler.on_update is not None:
                handler.on_update(old, obj)

    def _deleted(self, plain: Plain, version: int) -> None:
        key = key_of(plain)
        if self._gone:
            self._gone.pop(plain["metadata"].get("uid", ""), None)
        known = self._versions.get(key)
        if known is not None and known <= version:
            self._remove(key, plain)

    def _remove(self, key: str, last: Plain | None = None) -> None:
        obj = self._items.pop(key)
        plain = self._plain.pop(key)
        del self._versions[key]
        self.events += 1
        for values, table in self._indexes.values():
            _reindex(table, key, values(obj), (), obj)
        for tap in self._taps:
            tap("DELETED", last or plain)
        for handler in self._handlers:
            if handler.on_delete is not None:
                handler.on_delete(obj)

    def _typed(self, plain: Plain) -> T:
        if self._model is None:
            return plain  # type: ignore[return-value]  # T is Plain for a resource without a model
        return from_plain(self._model, plain)

    def list(self) -> list[T]:  # last, because it hides the built-in in the annotations that follow it
        return [*self._items.values()]


class Informers:
    """The informers of a process. `of` makes one at first use; `start` (or the running state) starts it."""

    def __init__(self, client: Client, clock: Clock | None = None) -> None:
        self.client = client
        self.clock = clock or SystemClock()
        self._informers: dict[tuple[Resource, str, str, str], Informer[Any]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._running = False

    @overload
    def of(self, model: Resource, *, namespace: str = "", labels: str = "", fields: str = "") -> Informer[Any]: ...
    @overload
    def of(self, model: type[T], *, namespace: str = "", labels: str = "", fields: str = "") -> Informer[T]: ...
    def of(self, model: Any, *, namespace: str = "", labels: str = "", fields: str = "") -> Informer[Any]:
        resource = model if isinstance(model, Resource) else resource_of(model)
        key = (resource, namespace, labels, fields)
        informer = self._informers.get(key)
        if informer is None:
            known = model_of(resource)
            informer = Informer(
                self.client, resource, known, self.clock, namespace=namespace, labels=labels, fields=fields
            )
            self._informers[key] = informer
            if self._running:
                self._launch(informer)
        return informer

    def start(self) -> None:
        self._running = True
        for informer in self._informers.values():
            self._launch(informer)

    async def wait_synced(self) -> None:
        for informer in list(self._informers.values()):
            await informer.synced.wait()

    async def drop(self, informer: Informer[Any]) -> None:
        """Stop following a resource that no longer exists (a removed CRD)."""
        self._informers = {key: value for key, value in self._informers.items() if value is not informer}
        task = self._tasks.pop(id(informer), None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def stop(self) -> None:
        self._running = False
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _launch(self, informer: Informer[Any]) -> None:
        if id(informer) not in self._tasks:
            task = asyncio.get_running_loop().create_task(informer.run(), name=f"informer:{informer.resource.plural}")
            task.add_done_callback(_report)
            self._tasks[id(informer)] = task


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("%s died", task.get_name(), exc_info=task.exception())


def _reindex(table: dict[str, dict[str, T]], key: str, before: Iterable[str], after: Iterable[str], obj: T) -> None:
    after = tuple(after)
    for value in before:
        if value not in after:
            members = table.get(value)
            if members is not None:
                members.pop(key, None)
                if not members:
                    del table[value]
    for value in after:
        table.setdefault(value, {})[key] = obj
