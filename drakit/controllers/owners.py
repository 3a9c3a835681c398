"""The graph of owners and dependents, and what the garbage collector decides on it. Pure: fed with objects, asked for answers.

Every object is a node by UID. Dependents are found through their owner's UID, so one change costs in proportion to its own owners and
dependents only (pkg/controller/garbagecollector).
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

from drakit.client import Resource
from drakit.client.client import Propagation
from drakit.controllers.objects import Plain, deleting, finalizers, name, namespace, owners, uid

__all__ = ["FOREGROUND", "ORPHAN", "Coordinates", "Graph", "Item", "Verdict", "coordinates"]

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


Coordinates = tuple[str, str, str, str, str]  # group, kind, name, UID, namespace ("" for cluster scope)


def coordinates(reference: Plain, namespace: str) -> Coordinates:
    """Where an owner reference of an object in that namespace points."""
    group = reference["apiVersion"].rpartition("/")[0]
    return group, reference["kind"], reference["name"], reference["uid"], namespace


@dataclass(slots=True)
class Item:
    """What the graph knows of an object."""

    uid: str
    resource: Resource
    namespace: str
    name: str
    owners: list[Plain] = field(default_factory=list)
    deleting: bool = False
    foreground: bool = False  # waits for its dependents
    orphaning: bool = False

    @property
    def waiting(self) -> bool:
        return self.deleting and self.foreground

    @property
    def coordinates(self) -> Coordinates:
        return self.resource.group, self.resource.kind, self.name, self.uid, self.namespace


@dataclass(frozen=True, slots=True)
class Verdict:
    """What shall become of a dependent, given what is known of its owners."""

    ask: list[Plain] = field(default_factory=list)  # owners that only the server can tell about
    drop: list[str] = field(default_factory=list)  # owner UIDs to take out of the references
    delete: Propagation = ""
    unblock: bool = False  # owners shall not wait for this object: they would in turn, in a circle


class Graph:
    def __init__(self) -> None:
        self.items: dict[str, Item] = {}
        self._dependents: dict[str, dict[str, None]] = {}  # owner UID -> UIDs, in order of arrival
        self._blocking: dict[str, set[str]] = {}  # those that the owner's foreground deletion waits for

    def put(self, resource: Resource, obj: Plain) -> tuple[Item, Item | None]:
        """Take over an object's state; returns it and what was known before."""
        held = finalizers(obj)
        new = Item(
            uid(obj), resource, namespace(obj), name(obj), owners(obj), deleting(obj), FOREGROUND in held, ORPHAN in held
        )  # fmt: skip
        old = self.items.get(new.uid)
        if old is None or old.owners != new.owners:
            if old is not None:
                self._unlink(old)
            for owner in new.owners:
                self._dependents.setdefault(owner["uid"], {})[new.uid] = None
                if owner.get("blockOwnerDeletion"):
                    self._blocking.setdefault(owner["uid"], set()).add(new.uid)
        self.items[new.uid] = new
        return new, old

    def remove(self, object_uid: str) -> None:
        item = self.items.pop(object_uid, None)
        if item is not None:
            self._unlink(item)

    def _unlink(self, item: Item) -> None:
        for owner in item.owners:
            members = self._dependents.get(owner["uid"])
            if members is not None:
                members.pop(item.uid, None)
                if not members:
                    del self._dependents[owner["uid"]]
            blocking = self._blocking.get(owner["uid"])
            if blocking is not None:
                blocking.discard(item.uid)
                if not blocking:
                    del self._blocking[owner["uid"]]

    def dependents(self, owner_uid: str) -> list[Item]:
        return [self.items[each] for each in self._dependents.get(owner_uid, ()) if each in self.items]

    def has_dependents(self, owner_uid: str) -> bool:
        return owner_uid in self._dependents

    def blocked(self, owner_uid: str) -> bool:
        """Whether the owner's foreground deletion still waits for a dependent."""
        return owner_uid in self._blocking

    def needs_look(self, item: Item) -> bool:
        """An owner is unknown, is not what the reference says, or waits for its dependents to go."""
        return any(
            (owner := self.items.get(reference["uid"])) is None or owner.waiting or not _names(reference, owner, item)
            for reference in item.owners
        )

    def out_of_reach(self, item: Item) -> list[Plain]:
        """References to owners that live in another namespace: names are only valid within one."""
        return [
            reference
            for reference in item.owners
            if (owner := self.items.get(reference["uid"])) is not None
            and owner.namespace
            and owner.namespace != item.namespace
        ]

    def judge(self, item: Item, absent: Container[Coordinates]) -> Verdict:
        """`absent`: owners that the server said do not exist."""
        solid, dangling, waiting, ask = [], [], [], []
        for reference in item.owners:
            owner = self.items.get(reference["uid"])
            if coordinates(reference, item.namespace) in absent or coordinates(reference, "") in absent:
                dangling.append(reference["uid"])
            elif owner is None or not _names(reference, owner, item):
                ask.append(reference)
            elif owner.waiting:
                waiting.append(reference["uid"])
            else:
                solid.append(reference["uid"])
        if ask:
            return Verdict(ask=ask)
        if solid:
            return Verdict(drop=[*dangling, *waiting])
        if not item.owners or item.deleting:
            return Verdict()
        if waiting and (dependents := self.dependents(item.uid)):
            return Verdict(delete="Foreground", unblock=any(each.waiting for each in dependents))
        return Verdict(delete="Orphan" if item.orphaning else "Foreground" if item.foreground else "Background")


def _names(reference: Plain, owner: Item, item: Item) -> bool:
    """Whether the reference says what the owner is; with its UID alone it may still be wrong. An owner in a namespace is one only there."""
    return owner.coordinates == coordinates(reference, item.namespace if owner.namespace else "")
