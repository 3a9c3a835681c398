"""Shared, cached, indexed watches: one per resource in a process, whoever reads, typed or plain.

Handlers run synchronously in the event loop; they must only note work (add keys to queues). Typed objects are made once per event, and
only if someone reads them typed. See `reflector` for how the server is followed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from drakit.api.typed import from_plain, prepare
from drakit.client.client import Client
from drakit.client.outage import Outage
from drakit.client.reflector import Reflector
from drakit.client.resources import Resource, resource_of
from drakit.client.transport import Plain
from drakit.clock import Clock, SystemClock

__all__ = ["Informer", "Informers"]

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Handler(Generic[T]):
    on_add: Callable[[T], None] | None
    on_update: Callable[[T, T], None] | None
    on_delete: Callable[[T], None] | None


class _Index(Generic[T]):
    """Which keys have a value. What an object had before is remembered, not computed again: most changes leave the index as it is."""

    __slots__ = ("_before", "_values", "fixed", "members")

    def __init__(self, values: Callable[[T], Iterable[str]], fixed: bool) -> None:
        self._values = values
        self._before: dict[str, tuple[str, ...]] = {}
        self.fixed = fixed
        self.members: dict[str, dict[str, None]] = {}

    def put(self, key: str, obj: T) -> None:
        after = tuple(self._values(obj))
        before = self._before.get(key, ())
        if before == after:
            return
        for value in before:
            if value not in after:
                self._drop(value, key)
        if after:
            self._before[key] = after
        else:
            del self._before[key]
        members = self.members
        for value in after:
            found = members.get(value)
            if found is None:
                members[value] = {key: None}
            else:
                found[key] = None

    def remove(self, key: str) -> None:
        for value in self._before.pop(key, ()):
            self._drop(value, key)

    def _drop(self, value: str, key: str) -> None:
        found = self.members.get(value)
        if found is not None:
            found.pop(key, None)
            if not found:
                del self.members[value]


class Informer(Generic[T]):
    """The cache of one resource (perhaps narrowed by namespace or selectors). Objects in it are shared: never mutate them."""

    def __init__(self, reflector: Reflector, convert: Callable[[Plain], T]) -> None:
        self.reflector = reflector
        self.resource = reflector.resource
        self.synced = reflector.synced
        self._convert = convert
        self._items: dict[str, T] = {}
        self._indexes: dict[str, _Index[T]] = {}
        self._varying: list[_Index[T]] = []  # those that a change of an object may change
        self._handlers: list[_Handler[T]] = []
        self._on_add: tuple[Callable[[T], None], ...] = ()
        self._on_update: tuple[Callable[[T, T], None], ...] = ()
        self._on_delete: tuple[Callable[[T], None], ...] = ()
        self._changes: list[tuple[T | None, T | None]] = []  # stored, not yet told
        reflector.attach(self)
        self._changes.clear()

    # Reading.

    def get(self, key: str) -> T | None:
        """By `namespace/name`, or `name` in cluster scope."""
        return self._items.get(key)

    def plain(self, key: str) -> Plain | None:
        """The same object as JSON has it, with the fields the model does not know."""
        return self.reflector.plain.get(key)

    def keys(self) -> list[str]:
        return list(self._items)

    def items(self) -> Iterator[tuple[str, T]]:
        return iter(self._items.items())

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: str) -> bool:
        return key in self._items

    def by_index(self, name: str, value: str) -> list[T]:
        found = self._indexes[name].members.get(value)
        if not found:
            return []
        items = self._items
        return [items[key] for key in found]

    def index_count(self, name: str, value: str) -> int:
        return len(self._indexes[name].members.get(value, ()))

    def index_keys(self, name: str, value: str) -> list[str]:
        return [*self._indexes[name].members.get(value, ())]

    def index_values(self, name: str) -> list[str]:
        """The values that at least one object has."""
        return [*self._indexes[name].members]

    # Registration.

    def add_index(self, name: str, values: Callable[[T], Iterable[str]], *, fixed: bool = False) -> None:
        """Index by what `values` gives for an object. Adding the same name again changes nothing.

        `fixed`: it gives the same all the object's life, and is not asked again.
        """
        if name in self._indexes:
            return
        index = self._indexes[name] = _Index(values, fixed)
        if not fixed:
            self._varying.append(index)
        for key, obj in self._items.items():
            index.put(key, obj)

    def add_handler(
        self,
        on_add: Callable[[T], None] | None = None,
        on_update: Callable[[T, T], None] | None = None,
        on_delete: Callable[[T], None] | None = None,
    ) -> Callable[[], None]:
        """Called for every change from now on; what is cached already is given to `on_add` at once. Returns how to remove it."""
        handler = _Handler(on_add, on_update, on_delete)
        self._handlers.append(handler)
        self._sort_handlers()
        if on_add is not None:
            for obj in [*self._items.values()]:
                on_add(obj)

        def remove() -> None:
            self._handlers.remove(handler)
            self._sort_handlers()

        return remove

    def _sort_handlers(self) -> None:
        """By what they are called for: a change must not look at handlers that do not care."""
        self._on_add = tuple(each.on_add for each in self._handlers if each.on_add is not None)
        self._on_update = tuple(each.on_update for each in self._handlers if each.on_update is not None)
        self._on_delete = tuple(each.on_delete for each in self._handlers if each.on_delete is not None)

    # Reading one's own writes: see Reflector.

    def observe(self, plain: Plain) -> None:
        self.reflector.observe(plain)

    def observe_deleted(self, key: str, uid: str, answer: Plain) -> None:
        self.reflector.observe_deleted(key, uid, answer)

    # The Reflector's side.

    def store(self, key: str, plain: Plain | None) -> None:
        old = self._items.get(key)
        if plain is None:
            if old is None:
                return
            del self._items[key]
            for index in self._indexes.values():
                index.remove(key)
            self._changes.append((old, None))
            return
        new = self._convert(plain)
        self._items[key] = new
        for index in self._indexes.values() if old is None else self._varying:
            index.put(key, new)
        self._changes.append((old, new))

    def tell(self) -> None:
        changes, self._changes = self._changes, []
        for old, new in changes:
            if new is None:
                if old is not None:
                    for deleted in self._on_delete:
                        _guarded(deleted, old)
            elif old is None:
                for added in self._on_add:
                    _guarded(added, new)
            else:
                for updated in self._on_update:
                    _guarded(updated, old, new)

    def list(self) -> list[T]:  # last, because it hides the built-in in the annotations that follow it
        return [*self._items.values()]


class Informers:
    """The informers of a process. Asked for before `start` or after, each follows its resource once, whoever shares it."""

    def __init__(self, client: Client, clock: Clock | None = None) -> None:
        self.client = client
        self.clock = clock or SystemClock()
        self._reflectors: dict[tuple[Resource, str, str, str], Reflector] = {}
        self._views: dict[tuple[Resource, str, str, str, bool], Informer[Any]] = {}
        self._tasks: dict[Reflector, asyncio.Task[None]] = {}
        self._running = False
        self._outage = Outage()
        self._models: set[type[Any]] = set()  # read typed

    def of(self, model: type[T], *, namespace: str = "", labels: str = "", fields: str = "") -> Informer[T]:
        """Typed objects."""
        self._models.add(model)
        informer: Informer[T] = self._view(
            resource_of(model), (namespace, labels, fields), True, partial(from_plain, model)
        )
        return informer

    def plain(
        self, resource: Resource | type[Any], *, namespace: str = "", labels: str = "", fields: str = ""
    ) -> Informer[Plain]:
        """The objects as JSON has them: for generic work, and for those who copy parts of objects into others."""
        known = resource if isinstance(resource, Resource) else resource_of(resource)
        return self._view(known, (namespace, labels, fields), False, _same)

    def start(self) -> None:
        self._running = True
        for reflector in self._reflectors.values():
            self._launch(reflector)

    async def prepare(self) -> None:
        """Make ready for the first objects of every model; between two models others run."""
        for model in [*self._models]:
            prepare(model)
            await asyncio.sleep(0)

    @property
    def events(self) -> int:
        """Changes told so far; for tests and load figures."""
        return sum(reflector.events for reflector in self._reflectors.values())

    async def wait_synced(self) -> None:
        for reflector in [*self._reflectors.values()]:
            await reflector.synced.wait()

    async def drop(self, resource: Resource) -> None:
        """Stop following a resource that no longer exists (a removed CRD)."""
        for key in [key for key in self._reflectors if key[0] == resource]:
            reflector = self._reflectors.pop(key)
            task = self._tasks.pop(reflector, None)
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        self._views = {key: view for key, view in self._views.items() if key[0] != resource}

    async def stop(self) -> None:
        self._running = False
        tasks, self._tasks = [*self._tasks.values()], {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _view(
        self, resource: Resource, narrowed: tuple[str, str, str], typed: bool, convert: Callable[[Plain], T]
    ) -> Informer[T]:
        informer = self._views.get((resource, *narrowed, typed))
        if informer is None:
            namespace, labels, fields = narrowed
            reflector = self._reflectors.get((resource, *narrowed))
            if reflector is None:
                reflector = Reflector(
                    self.client, resource, self.clock, namespace=namespace, labels=labels, fields=fields,
                    outage=self._outage,
                )  # fmt: skip
                self._reflectors[resource, *narrowed] = reflector
                if self._running:
                    self._launch(reflector)
            informer = self._views[resource, *narrowed, typed] = Informer(reflector, convert)
        return informer

    def _launch(self, reflector: Reflector) -> None:
        if reflector not in self._tasks:
            task = asyncio.get_running_loop().create_task(reflector.run(), name=f"informer:{reflector.resource.plural}")
            task.add_done_callback(_report)
            self._tasks[reflector] = task


def _guarded(handler: Callable[..., None], *objects: Any) -> None:
    """Whoever follows a cache fails alone: the others hear of the change all the same, and the cache itself is right."""
    try:
        handler(*objects)
    except Exception:
        log.exception("a handler of changes failed")


def _same(plain: Plain) -> Plain:
    return plain


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("%s died", task.get_name(), exc_info=task.exception())
