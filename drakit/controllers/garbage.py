"""The garbage collector: objects go when their last owner has gone; foreground and orphan deletion (decisions in `owners`).

It follows every resource that can be listed and deleted. What the graph does not know it asks the server before anything is deleted.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial

from drakit.api.errors import StatusError
from drakit.client import Informer, Plain, Resource, model_of
from drakit.client.client import Propagation
from drakit.controllers.loop import Context, ControlLoop
from drakit.controllers.objects import finalizers, uid
from drakit.controllers.owners import FOREGROUND, ORPHAN, Coordinates, Graph, Item, coordinates
from drakit.controllers.served import Served

__all__ = ["GarbageCollector"]

_WORKERS = 20
_ABSENT_LIMIT = 2000
_REDISCOVER = 30.0
_LOOKED_AT = ("ownerReferences", "finalizers", "deletionTimestamp", "uid")  # in an object's metadata
_DISCOVER = "resources"  # the queue key for looking at what the server serves


class GarbageCollector:
    name = "garbage-collector-controller"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._informers = context.informers
        self._served = Served(context.client, context.gates)
        self._graph = Graph()
        self._recorder = context.recorder(self.name)
        self._absent: OrderedDict[Coordinates, None] = OrderedDict()  # owners that the server does not have
        self._followed: dict[Resource, Informer[Plain]] = {}
        self.loop = ControlLoop("garbage-collector", self.reconcile, context, workers=_WORKERS)

    async def run(self) -> None:
        self.loop.add(_DISCOVER)
        await self.loop.run()

    async def reconcile(self, key: str) -> float | None:
        if key == _DISCOVER:
            await self._discover()
            return _REDISCOVER
        item = self._graph.items.get(key)
        if item is None:
            return None
        if item.deleting and item.orphaning:
            await self._orphan(item)
        elif item.waiting:
            await self._finish_foreground(item)
        elif not item.deleting:
            await self._judge(item)
        return None

    async def _discover(self) -> None:
        served = await self._served.collectable()
        for resource in served - self._followed.keys():
            informer = self._informers.plain(resource)
            self._followed[resource] = informer
            informer.add_handler(partial(self._put, resource), partial(self._updated, resource), self._removed)
        for resource in self._followed.keys() - served:
            del self._followed[resource]
            if model_of(resource) is None:  # a custom resource whose definition is gone
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
        if old is not None and ((item.deleting and not old.deleting) or item.owners != old.owners):
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
        self._graph.remove(object_uid)
        if item is not None:
            self._remember_absent(item.coordinates)
        for dependent in self._graph.dependents(object_uid):
            self.loop.add(dependent.uid)
        if item is not None:
            self._wake_owners(item)

    def _wake_owners(self, item: Item) -> None:
        for reference in item.owners:
            owner = self._graph.items.get(reference["uid"])
            if owner is not None and owner.waiting:
                self.loop.add(owner.uid)

    def _remember_absent(self, owner: Coordinates) -> None:
        self._absent[owner] = None
        if len(self._absent) > _ABSENT_LIMIT:
            self._absent.popitem(last=False)

    # What is done.

    async def _judge(self, item: Item) -> None:
        verdict = self._graph.judge(item, self._absent)
        if verdict.ask:
            for reference in verdict.ask:
                await self._look_up(item, reference)
            verdict = self._graph.judge(item, self._absent)
        if verdict.ask:
            return  # they exist, and the watch will bring them
        if verdict.drop:
            patch = {
                "metadata": {
                    "uid": item.uid,
                    "ownerReferences": [{"$patch": "delete", "uid": each} for each in verdict.drop],
                }
            }
            await self._patch(item, patch)
        elif verdict.delete:
            if verdict.unblock:
                blocking = [{**each, "blockOwnerDeletion": False} for each in item.owners]
                await self._patch(item, {"metadata": {"uid": item.uid, "ownerReferences": blocking}})
            await self._delete(item, verdict.delete)

    async def _look_up(self, item: Item, reference: Plain) -> None:
        """Ask the server for an owner that no watch has brought (yet), or that is not where the reference says."""
        resource = self._served.resource_of(reference["apiVersion"], reference["kind"])
        if resource is None:
            return  # a kind nobody serves now: not ours to decide
        namespace = item.namespace if resource.namespaced else ""
        if resource.namespaced and not namespace:
            return  # a cluster-scoped object cannot belong to one in a namespace: nobody can tell which was meant
        try:
            owner = await self._client.get_plain(resource, reference["name"], namespace=namespace)
        except StatusError as error:
            if error.code != 404:
                raise
        else:
            if uid(owner) == reference["uid"]:
                return
        self._remember_absent(coordinates(reference, namespace))

    async def _delete(self, item: Item, propagation: Propagation) -> None:
        try:
            await self._client.delete(
                item.resource, item.name, namespace=item.namespace, uid=item.uid, propagation=propagation
            )
        except StatusError as error:
            if error.code != 404:
                raise

    async def _orphan(self, item: Item) -> None:
        """Take the owner out of its dependents, then let it go."""
        for dependent in self._graph.dependents(item.uid):
            await self._patch(
                dependent,
                {"metadata": {"uid": dependent.uid, "ownerReferences": [{"$patch": "delete", "uid": item.uid}]}},
            )
        await self._remove_finalizer(item, ORPHAN)

    async def _finish_foreground(self, item: Item) -> None:
        blocking = self._graph.blocking(item.uid)
        if not blocking:
            await self._remove_finalizer(item, FOREGROUND)
            return
        for dependent in blocking:
            if not dependent.deleting:
                self.loop.add(dependent.uid)

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

    async def _patch(self, item: Item, patch: Plain) -> None:
        """Strategic where the kind knows it; custom resources take a merge patch of what is left."""
        try:
            await self._client.patch_plain(item.resource, item.name, patch, namespace=item.namespace, kind="strategic")
        except StatusError as error:
            if error.code == 415:
                said = {entry["uid"]: entry for entry in patch["metadata"]["ownerReferences"]}
                left = [said.get(owner["uid"], owner) for owner in item.owners]
                left = [owner for owner in left if "$patch" not in owner]
                merge = {"metadata": {"uid": item.uid, "ownerReferences": left or None}}
                await self._client.patch_plain(item.resource, item.name, merge, namespace=item.namespace)
            elif error.code != 404:
                raise


def _reference(item: Item) -> Plain:
    return {
        "apiVersion": item.resource.api_version,
        "kind": item.resource.kind,
        "namespace": item.namespace,
        "name": item.name,
        "uid": item.uid,
    }
