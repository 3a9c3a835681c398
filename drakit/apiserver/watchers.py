"""Who hears of a change: watchers of one resource, indexed so that a change costs only those that it concerns.

A watcher of one namespace, one name or one node's pods is found by that value; only label selectors and unusual field
selectors are tried one by one. Delivery appends to the watcher's queue; a queue that grows over its bound ends the watch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from drakit.apiserver.selection import EVERYTHING, Selection
from drakit.apiserver.stored import ADDED, DELETED, MODIFIED, Event

__all__ = ["Watcher", "Watchers"]

_NODE = "spec.nodeName"
_LAG_BYTES = 64 * 2**20  # of JSON text that a watcher may lag behind, besides its limit of events


class Watcher:
    """One open watch. `events` holds (type, event) pairs that its reader takes; `wake` is called when there are some."""

    __slots__ = ("_bytes", "after", "closed", "events", "limit", "namespace", "overflowed", "selection", "wake")

    def __init__(
        self, namespace: str, selection: Selection, wake: Callable[[], None], *, after: int, limit: int
    ) -> None:
        self.after = after  # what it has seen already: the initial list may hold changes whose events are yet to come
        self.namespace = namespace
        self.selection = selection
        self.wake = wake
        self.limit = limit
        self.events: deque[tuple[str, Event]] = deque()
        self._bytes = 0
        self.overflowed = False  # too slow: the server gives up on it
        self.closed = False

    def sees(self, event: Event) -> str:
        """The type under which this watcher gets the event, or nothing."""
        stored = event.stored
        if self.namespace and stored.obj["metadata"].get("namespace") != self.namespace:
            return ""
        if self.selection.everything:
            return event.type
        now = event.type != DELETED and self.selection.matches(stored.obj)
        before = event.old is not None and self.selection.matches(event.old.obj)
        if now:
            return MODIFIED if before else ADDED
        return DELETED if before else ""

    def offer(self, event: Event) -> None:
        if self.overflowed or self.closed or event.stored.version <= self.after:
            return
        type = self.sees(event)
        if not type:
            return
        self._bytes += event.size
        if len(self.events) >= self.limit or self._bytes > _LAG_BYTES:
            self.overflowed = True
            self.events.clear()
        else:
            self.events.append((type, event))
        self.wake()

    def take(self) -> tuple[str, Event]:
        """The next of `events`."""
        found = self.events.popleft()
        self._bytes -= found[1].size
        return found


class Watchers:
    """The watchers of one resource, under the narrowest thing that each of them asks for."""

    def __init__(self) -> None:
        self._all: dict[Watcher, None] = {}
        self._by_namespace: dict[str, dict[Watcher, None]] = {}
        self._by_name: dict[str, dict[Watcher, None]] = {}
        self._by_node: dict[str, dict[Watcher, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, watcher: Watcher) -> None:
        self._place(watcher, create=True)[watcher] = None
        self._count += 1

    def remove(self, watcher: Watcher) -> None:
        if watcher.closed:
            return
        watcher.closed = True
        self._place(watcher, create=False).pop(watcher, None)
        self._count -= 1
        for index in (self._by_namespace, self._by_name, self._by_node):
            for value in [value for value, watchers in index.items() if not watchers]:
                del index[value]

    def _place(self, watcher: Watcher, *, create: bool) -> dict[Watcher, None]:
        selection = watcher.selection
        index, value = None, None
        if selection is not EVERYTHING:
            if (value := selection.exact("metadata.name")) is not None:
                index = self._by_name
            elif (value := selection.exact(_NODE)) is not None:
                index = self._by_node
        if index is None and watcher.namespace:
            index, value = self._by_namespace, watcher.namespace
        if index is None or value is None:
            return self._all
        return index.setdefault(value, {}) if create else index.get(value, {})

    def publish(self, event: Event) -> None:
        if not self._count:
            return
        for watcher in list(self._concerned(event)):
            watcher.offer(event)

    def _concerned(self, event: Event) -> Iterator[Watcher]:
        yield from self._all
        metadata = event.stored.obj["metadata"]
        if self._by_namespace and (found := self._by_namespace.get(metadata.get("namespace", ""))):
            yield from found
        if self._by_name and (found := self._by_name.get(metadata["name"])):
            yield from found
        if self._by_node:
            for node in {_node_of(event.stored.obj), _node_of(event.old.obj) if event.old else ""}:
                if found := self._by_node.get(node):
                    yield from found


def _node_of(obj: dict[str, Any]) -> str:
    return str((obj.get("spec") or {}).get("nodeName") or "")
