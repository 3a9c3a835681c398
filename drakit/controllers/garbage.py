"""The garbage collector: objects go when their last owner has gone; foreground and orphan deletion (decisions in `owners`).

It follows every resource that can be listed and deleted. What the graph does not know it asks the server before anything is deleted.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Literal

from drakit.api.errors import StatusError
from drakit.client import Informer, Plain, Resource, model_of
from drakit.client.client import Propagation
from drakit.controllers.loop import Context, ControlLoop
from drakit.controllers.objects import finalizers, owners, uid
from drakit.controllers.owners import FOREGROUND, ORPHAN, Coordinates, Graph, Item, coordinates
from drakit.controllers.served import Served

__all__ = ["GarbageCollector"]

_WORKERS = 20
_ABSENT_LIMIT = 2000
_REDISCOVER = 30.0
_SYNC = 30.0  # how long caches may take before work begins without them
_LOOK_AGAIN = 0.1
_AT_ONCE = 50  # dependents that are orphaned at the same time
_LOOKED_AT = ("ownerReferences", "finalizers", "deletionTimestamp")  # in an object's metadata
_DISCOVER = "resources"  # the queue key for looking at what the server serves


class GarbageCollector:
    name = "garbage-collector-controller"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._informers = context.informers
        self._served = Served(context.client, context.gates)
        self._graph = Graph()
        self._recorder = context.recorder(self.name)
        # Owners that the server does not have -> API version.
        self._absent: OrderedDict[Coordinates, str] = OrderedDict()
        self._followed: dict[Resource, Informer[Plain]] = {}
        self._unfollow: dict[Resource, Callable[[], None]] = {}
        self._filling: list[Informer[Plain]] = []  # caches that do not know everything yet
        self._patience = 0.0  # until when they are waited for
        self._clock = context.clock
        self.loop = ControlLoop("garbage-collector", self.reconcile, context, workers=_WORKERS)

    async def run(self) -> None:
        self.loop.add(_DISCOVER)
        await self.loop.run()

    async def reconcile(self, key: str) -> float | None:
        if key == _DISCOVER:
            await self._discover()
            return _REDISCOVER
        if self._half_blind():
            return _LOOK_AGAIN  # dependents that are not known yet would be lost to an owner that goes
        item = self._graph.items.get(key)
        if item is None:
            return None
        if item.deleting and item.orphaning:
            await self._orphan(item)
        elif item.waiting:
            if not self._graph.blocked(item.uid):
                await self._remove_finalizer(item, FOREGROUND)
        elif not item.deleting:
            return await self._judge(item)
        return None

    def _half_blind(self) -> bool:
        while self._filling and self._filling[-1].synced.is_set():
            self._filling.pop()
        if self._filling and self._clock.monotonic() >= self._patience:
            self._filling.clear()  # what cannot be listed must not stop all else
        return bool(self._filling)

    async def _discover(self) -> None:
        served = await self._served.collectable()
        # A version that cannot be asked for just now stays followed: its objects are known by it, not by another of its versions.
        kept = {(each.group, each.plural) for each in self._followed if each.api_version in self._served.stale}
        for resource in served - self._followed.keys():
            if (resource.group, resource.plural) in kept:
                continue
            informer = self._informers.plain(resource)
            self._followed[resource] = informer
            self._filling.append(informer)
            self._patience = self._clock.monotonic() + _SYNC
            self._unfollow[resource] = informer.add_handler(
                partial(self._put, resource), partial(self._updated, resource), self._removed
            )
        for resource in self._followed.keys() - served:
            if resource.api_version not in self._served.stale:
                await self._forget(resource)

    async def _forget(self, resource: Resource) -> None:
        """A custom resource whose definition is gone, or another version: what is known of it is not news any more."""
        informer = self._followed.pop(resource)
        self._unfollow.pop(resource)()
        for obj in informer.list():
            known = self._graph.items.get(uid(obj))
            if known is not None and known.resource == resource:
                self._graph.remove(known.uid)
                for dependent in self._graph.dependents(known.uid):
                    self.loop.add(dependent.uid)
        if model_of(resource) is None:
            await self._informers.drop(resource)

    # What makes work.

    def _put(self, resource: Resource, obj: Plain) -> None:
        item, old = self._graph.put(resource, obj)
        if old is None:
            self._absent.pop(item.coordinates, None)
            for dependent in self._graph.dependents(item.uid):
                self._check_references(dependent)
        if item.owners and (old is None or old.owners != item.owners):
            self._check_references(item)
        if item.deleting and (item.orphaning or item.foreground):
            self.loop.add(item.uid)
            if item.waiting and (old is None or not old.waiting):
                for dependent in self._graph.dependents(item.uid):
                    self.loop.add(dependent.uid)
        elif item.owners and not item.deleting and self._graph.needs_look(item):
            self.loop.add(item.uid)
        if old is not None and item.owners != old.owners:
            self._wake_owners(old)

    def _check_references(self, item: Item) -> None:
        """What names an owner that is elsewhere, or something else, is looked at; the first of these is told."""
        for reference in self._graph.out_of_reach(item)[:1]:
            named = f"{reference['apiVersion']}/{reference['kind']}"
            where = f"namespace: {item.namespace}, name: {reference['name']}, uid: {reference['uid']}"
            text = f'ownerRef [{named}, {where}] does not exist in namespace "{item.namespace}"'
            self._recorder.event(_reference(item), "Warning", "OwnerRefInvalidNamespace", text)
        if not item.deleting and self._graph.needs_look(item):
            self.loop.add(item.uid)

    def _updated(self, resource: Resource, old: Plain, new: Plain) -> None:
        """Nearly every change leaves alone what is looked at here."""
        before, after = old["metadata"], new["metadata"]
        if any(before.get(field) != after.get(field) for field in _LOOKED_AT):
            self._put(resource, new)

    def _removed(self, obj: Plain) -> None:
        object_uid = uid(obj)
        item = self._graph.items.get(object_uid)
        if item is None:
            return
        self._graph.remove(object_uid)
        if self._graph.has_dependents(object_uid):
            self._remember_absent(item.coordinates, item.resource.api_version)
            for dependent in self._graph.dependents(object_uid):
                self.loop.add(dependent.uid)
        self._wake_owners(item)

    def _wake_owners(self, item: Item) -> None:
        for reference in item.owners:
            owner = self._graph.items.get(reference["uid"])
            if owner is not None and owner.waiting:
                self.loop.add(owner.uid)

    def _remember_absent(self, owner: Coordinates, api_version: str) -> None:
        self._absent[owner] = api_version
        if len(self._absent) > _ABSENT_LIMIT:
            self._absent.popitem(last=False)

    # What is done.

    async def _judge(self, item: Item) -> float | None:
        if any(self._unserved(item, reference) for reference in item.owners):
            return _REDISCOVER
        verdict = self._graph.judge(item, self._absent)
        if verdict.ask:
            may_change = [await self._look_up(item, reference) for reference in verdict.ask]
            verdict = self._graph.judge(item, self._absent)
            if verdict.ask:  # the watch will bring them; but it may miss one that is gone soon, or be of another kind
                return _REDISCOVER if any(may_change) else None
        if verdict.drop:
            await self._patch(item, [{"$patch": "delete", "uid": each} for each in verdict.drop])
        elif verdict.delete:
            version = ""
            if (known := self._cached(item)) is not None:
                version = known["metadata"]["resourceVersion"]
            if verdict.unblock:
                blocking = [
                    {**each, "blockOwnerDeletion": False} for each in item.owners if each.get("blockOwnerDeletion")
                ]
                version = await self._patch(item, blocking) if blocking else version
            await self._delete(item, verdict.delete, version)
        return None

    async def _look_up(self, item: Item, reference: Plain) -> bool:
        """Ask the server for an owner that no watch has brought (yet), or that is not where the reference says. False: nothing
        that will ever be known decides."""
        resource = self._served.resource_of(reference["apiVersion"], reference["kind"])
        if resource is None:
            return True
        namespace = item.namespace if resource.namespaced else ""
        if resource.namespaced and not namespace:
            return False  # a cluster-scoped object cannot belong to one in a namespace: nobody can tell which was meant
        try:
            owner = await self._client.get_plain(resource, reference["name"], namespace=namespace)
        except StatusError as error:
            if error.code != 404:
                raise
        else:
            if uid(owner) == reference["uid"]:
                return True
        self._remember_absent(coordinates(reference, namespace), reference["apiVersion"])
        return True

    def _unserved(self, item: Item, reference: Plain) -> bool:
        """A kind, or a version of it, that the server does not have now is not ours to judge, whatever bears its UID."""
        api_version = reference["apiVersion"]
        if self._served.resource_of(api_version, reference["kind"]) is not None:
            return False
        known = (self._absent.get(coordinates(reference, where)) for where in {item.namespace, ""})
        return api_version not in known

    def _cached(self, item: Item) -> Plain | None:
        """The object that was judged."""
        informer = self._followed.get(item.resource)
        found = informer.get(f"{item.namespace}/{item.name}" if item.namespace else item.name) if informer else None
        return found if found is not None and uid(found) == item.uid else None

    async def _delete(self, item: Item, propagation: Propagation, version: str) -> None:
        """Only the version that was judged: owners may have been added to a later one."""
        try:
            await self._client.delete(
                item.resource,
                item.name,
                namespace=item.namespace,
                uid=item.uid,
                resource_version=version,
                propagation=propagation,
            )
        except StatusError as error:
            if error.code == 404:
                return
            if error.code != 409 or not version or not await self._as_judged(item):
                raise
            await self._delete(item, propagation, "")  # busy objects must not escape

    async def _as_judged(self, item: Item) -> bool:
        """Whether the object, in a version that we do not know, still has the owners that we know."""
        try:
            latest = await self._client.get_plain(item.resource, item.name, namespace=item.namespace)
        except StatusError as error:
            if error.code != 404:
                raise
            return False
        return uid(latest) == item.uid and owners(latest) == item.owners

    async def _orphan(self, item: Item) -> None:
        """Take the owner out of its dependents, then let it go."""
        dependents = self._graph.dependents(item.uid)
        for start in range(0, len(dependents), _AT_ONCE):
            some = dependents[start : start + _AT_ONCE]
            await asyncio.gather(*(self._patch(each, [{"$patch": "delete", "uid": item.uid}]) for each in some))
        await self._remove_finalizer(item, ORPHAN)

    async def _remove_finalizer(self, item: Item, finalizer: str) -> None:
        try:
            obj = await self._client.get_plain(item.resource, item.name, namespace=item.namespace)
        except StatusError as error:
            if error.code != 404:
                raise
            return
        if uid(obj) != item.uid or finalizer not in finalizers(obj):
            return
        kept = [each for each in finalizers(obj) if each != finalizer]
        metadata = {"uid": item.uid, "resourceVersion": obj["metadata"]["resourceVersion"], "finalizers": kept or None}
        await self._client.patch_plain(item.resource, item.name, {"metadata": metadata}, namespace=item.namespace)

    async def _patch(self, item: Item, references: list[Plain]) -> str:
        """Change owner references; returns the new version, "" if the object is gone. Strategic where the kind knows it; custom
        resources take a merge patch of all that is left."""
        metadata: Plain = {"uid": item.uid, "ownerReferences": references}
        try:
            try:
                patched = await self._change(item, metadata, "strategic")
            except StatusError as error:
                if error.code != 415:
                    raise
                known = self._cached(item)
                if known is None:
                    return ""
                said = {entry["uid"]: entry for entry in references}
                left = [said.get(owner["uid"], owner) for owner in owners(known)]
                left = [owner for owner in left if "$patch" not in owner]
                version = known["metadata"]["resourceVersion"]
                metadata = {"uid": item.uid, "resourceVersion": version, "ownerReferences": left or None}
                patched = await self._change(item, metadata, "merge")
        except StatusError as error:
            if error.code != 404:
                raise
            return ""
        return str(patched["metadata"]["resourceVersion"])

    async def _change(self, item: Item, metadata: Plain, kind: Literal["strategic", "merge"]) -> Plain:
        return await self._client.patch_plain(
            item.resource, item.name, {"metadata": metadata}, namespace=item.namespace, kind=kind
        )


def _reference(item: Item) -> Plain:
    return {
        "apiVersion": item.resource.api_version,
        "kind": item.resource.kind,
        "namespace": item.namespace,
        "name": item.name,
        "uid": item.uid,
    }
