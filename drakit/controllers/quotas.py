"""ResourceQuota status: what each quota limits and how much of it is used. Admission counts up; here the sum is put right.

Each quota keeps a running sum: a change of an object costs its own usage, however many others there are. Only a new or changed quota
counts its whole namespace. Kinds that are seldom limited are followed once a quota names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from lightkube.models.apps_v1 import DaemonSet, Deployment, ReplicaSet, StatefulSet
from lightkube.models.batch_v1 import Job
from lightkube.models.core_v1 import ConfigMap, Pod, ResourceQuota, Secret, ServiceAccount
from lightkube.models.resource_v1 import DeviceClass, ResourceClaim, ResourceClaimTemplate

from drakit.api import quotas, registry
from drakit.api.errors import StatusError
from drakit.api.quantity import Quantity
from drakit.client import Informer, Plain, Resource, resource_of
from drakit.controllers.loop import Context, ControlLoop
from drakit.controllers.objects import deleting, key_of, name, namespace, spec, status, status_patch, uid
from drakit.controllers.served import Served

__all__ = ["QuotaController", "Tally"]

QUOTAS, PODS = resource_of(ResourceQuota), resource_of(Pod)
_COUNTED = (
    Pod,
    ResourceClaim,
    ResourceClaimTemplate,
    ConfigMap,
    Secret,
    ServiceAccount,
    Job,
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
)
_BATCH = 0.1  # seconds from one write to the next: the first of many changes is written at once, the others together
_PATIENCE = 5.0  # seconds until what admission has counted must have been seen, or never came to be
_DISCOVER = "resources"  # the queue key for looking at what the server serves


class Tally:
    """The running sum of one quota."""

    def __init__(self, quota: Plain) -> None:
        self.quota = quota
        self.limited = list(quotas.limits(quota))
        self.sums = quotas.total((), self.limited)
        self.shrunk = False  # something went, or counts for less: the status may say less, too
        # (group, plural, object) -> what it counts for.
        self._parts: dict[tuple[str, str, str], dict[str, Quantity]] = {}

    def counts(self, resource: Resource) -> bool:
        return any(quotas.counts(each, resource.group, resource.plural) for each in self.limited)

    def put(
        self,
        resource: Resource,
        obj: Plain,
        extended: dict[str, str],
        pod: Mapping[str, Any] | None = None,
        now: datetime | None = None,
    ) -> bool:
        """Count an object in its present state. `pod`: whose extended resources a claim stands for. True if the sum changed."""
        part: dict[str, Quantity] = {}
        if quotas.matches_scopes(self.quota, resource.group, resource.plural, obj):
            used = quotas.usage(resource.group, resource.plural, obj, extended, pod, now)
            part = {each: used[each] for each in self.limited if each in used}
        return self._replace((resource.group, resource.plural, key_of(obj)), part)

    def remove(self, resource: Resource, obj: Plain) -> bool:
        return self._replace((resource.group, resource.plural, key_of(obj)), {})

    def _replace(self, key: tuple[str, str, str], part: dict[str, Quantity]) -> bool:
        before = self._parts.get(key, {})
        if before == part:
            return False
        for each, amount in before.items():
            self.sums[each] = self.sums[each] - amount
        for each, amount in part.items():
            self.sums[each] = self.sums[each] + amount
        nothing = Quantity.parse("0")
        self.shrunk |= any(part.get(each, nothing) < amount for each, amount in before.items())
        if part:
            self._parts[key] = part
        else:
            del self._parts[key]
        return True

    def at_least(self, said: Mapping[str, str]) -> dict[str, Quantity]:
        """The sum, or what the status says where that is more."""
        known = {each: Quantity.parse(said[each]) for each in self.limited if each in said}
        return {each: max(amount, known.get(each, amount)) for each, amount in self.sums.items()}


class QuotaController:
    name = "resourcequota-controller"

    def __init__(self, context: Context) -> None:
        self._client, self._informers, self._clock = context.client, context.informers, context.clock
        self._served = Served(context.client, context.gates)
        self.loop = ControlLoop("resource_quota", self.reconcile, context, workers=5)
        informers = context.informers
        self._tallies: dict[str, dict[str, Tally]] = {}  # namespace -> quota -> its sum
        self._wrote: dict[str, float] = {}  # quota -> when its status was last written
        self._charged: dict[str, float] = {}  # quota -> when its status was last seen to change
        self._extended: dict[str, str] = {}  # DeviceClass -> extendedResourceName
        self._quotas = informers.plain(ResourceQuota)
        self._classes = informers.plain(DeviceClass)
        self._pods, self._claims = informers.plain(Pod), informers.plain(ResourceClaim)
        self._claims.add_index("made for", lambda claim: (pod,) if (pod := quotas.made_for(claim)) else ())
        self._objects: list[Informer[Plain]] = [
            informers.plain(model) for model in (*filter(_known, _COUNTED), ResourceQuota)
        ]
        for informer in self._objects:
            self._follow(informer)
        self._classes.add_handler(self._class_changed, lambda _, new: self._class_changed(new), self._class_changed)
        self._quotas.add_handler(self._count_anew, self._quota_updated, self._quota_removed)

    async def run(self) -> None:
        await self.loop.run()

    def _follow(self, informer: Informer[Plain]) -> None:
        resource = informer.resource
        informer.add_index("namespace", lambda obj: (namespace(obj),), fixed=True)

        def put(obj: Plain) -> None:
            if not self._tallies:
                return
            for key, tally in self._tallies.get(namespace(obj), {}).items():
                if tally.counts(resource) and self._put(tally, resource, obj):
                    self._changed(key)

        def remove(obj: Plain) -> None:
            for key, tally in self._tallies.get(namespace(obj), {}).items():
                if tally.remove(resource, obj):
                    self._changed(key)

        informer.add_handler(put, lambda _, new: put(new), remove)

    def _put(self, tally: Tally, resource: Resource, obj: Plain) -> bool:
        now = self._clock.now()
        if resource == PODS and deleting(obj) and (end := quotas.charged_until(obj)) is not None and end >= now:
            self.loop.add_after(f"pod:{key_of(obj)}", (end - now).total_seconds() + _BATCH)
        return tally.put(resource, obj, self._extended, self._pod_of(resource, obj), now)

    def _changed(self, key: str) -> None:
        self.loop.add_after(key, self._wrote.get(key, -_BATCH) + _BATCH - self._clock.monotonic())

    def _pod_of(self, resource: Resource, obj: Plain) -> Mapping[str, Any] | None:
        if resource.plural != "resourceclaims":
            return None
        where = namespace(obj)
        return quotas.extended_resource_pod(
            obj,
            lambda each: self._pods.get(f"{where}/{each}"),
            lambda: self._claims.by_index("made for", quotas.made_for(obj)),
        )

    def _count_anew(self, quota: Plain) -> None:
        tally = Tally(quota)
        for informer in self._objects:
            if tally.counts(informer.resource):
                for obj in informer.by_index("namespace", namespace(quota)):
                    self._put(tally, informer.resource, obj)
        self._tallies.setdefault(namespace(quota), {})[key_of(quota)] = tally
        self._charged[key_of(quota)] = self._clock.monotonic()
        self.loop.add(key_of(quota))
        followed = [informer.resource for informer in self._objects]
        if any(not any(quotas.counts(each, of.group, of.plural) for of in followed) for each in tally.limited):
            self.loop.add(_DISCOVER)

    def _count_again(self, pod_key: str) -> None:
        pod = self._pods.get(pod_key)
        if pod is None:
            return
        for key, tally in self._tallies.get(namespace(pod), {}).items():
            if tally.counts(PODS) and self._put(tally, PODS, pod):
                self._changed(key)

    async def _discover(self) -> None:
        """Follow the other kinds that quotas name."""
        known = {(informer.resource.group, informer.resource.plural) for informer in self._objects}
        tallies = [tally for each in self._tallies.values() for tally in each.values()]
        for resource in await self._served.collectable():
            new = resource.namespaced and (resource.group, resource.plural) not in known
            if new and any(tally.counts(resource) for tally in tallies):
                informer = self._informers.plain(resource)
                self._objects.append(informer)
                self._follow(informer)

    def _quota_updated(self, old: Plain, new: Plain) -> None:
        if spec(old) != spec(new):
            self._count_anew(new)
        elif status(old) != status(new):
            self._charged[key_of(new)] = self._clock.monotonic()
            self._changed(key_of(new))

    def _quota_removed(self, quota: Plain) -> None:
        known = self._tallies.get(namespace(quota), {})
        known.pop(key_of(quota), None)
        self._wrote.pop(key_of(quota), None)
        self._charged.pop(key_of(quota), None)
        if not known:
            self._tallies.pop(namespace(quota), None)

    def _class_changed(self, _: Plain) -> None:
        extended = {
            name(each): str(spec(each)["extendedResourceName"])
            for each in self._classes.list()
            if spec(each).get("extendedResourceName")
        }
        if extended != self._extended:
            self._extended = extended
            for quota in self._quotas.list():
                self._count_anew(quota)

    async def reconcile(self, key: str) -> float | None:
        if key == _DISCOVER:
            await self._discover()
            return None
        if key.startswith("pod:"):
            self._count_again(key[4:])
            return None
        quota = self._quotas.get(key)
        tally = self._tallies.get(key.partition("/")[0], {}).get(key)
        if quota is None or tally is None:
            return None
        # A real API server's admission counts what is about to be made. Until we have seen it, to say less would let others in: as
        # upstream, we do so when something went, else when nothing has been counted for a while.
        wait = self._charged.get(key, 0.0) + _PATIENCE - self._clock.monotonic()
        shrunk, tally.shrunk = tally.shrunk, False
        used = tally.sums if shrunk or wait <= 0 else tally.at_least(status(quota).get("used") or {})
        again = wait if used != tally.sums else None
        new: dict[str, Any] = {
            "hard": spec(quota).get("hard") or {},
            "used": {each: str(amount) for each, amount in used.items()},
        }
        patch = status_patch(status(quota), new)
        if patch is not None:
            # Never over a number that we have not seen.
            self._wrote[key] = self._clock.monotonic()
            patch["metadata"] = {"resourceVersion": quota["metadata"]["resourceVersion"], "uid": uid(quota)}
            try:
                written = await self._client.patch_plain(
                    QUOTAS, name(quota), patch, namespace=namespace(quota), subresource="status"
                )
            except StatusError:
                tally.shrunk |= shrunk
                raise
            self._quotas.observe(written)
        return again


def _known(model: type[Any]) -> bool:
    try:
        registry.by_model(model)
    except KeyError:
        return False
    return True
