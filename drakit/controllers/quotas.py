"""ResourceQuota status: what each quota limits and how much of it is used. Admission counts up; here the sum is put right.

A change of an object asks only the quotas of its namespace; they read the objects of that namespace from an index.
"""

from __future__ import annotations

from typing import Any

from lightkube.models.apps_v1 import DaemonSet, Deployment, ReplicaSet, StatefulSet
from lightkube.models.batch_v1 import Job
from lightkube.models.core_v1 import ConfigMap, Pod, ResourceQuota, Secret, ServiceAccount
from lightkube.models.resource_v1 import DeviceClass, ResourceClaim, ResourceClaimTemplate

from drakit.api import quotas, registry
from drakit.client import Informer, Plain, resource_of
from drakit.controllers.loop import Context, ControlLoop
from drakit.controllers.objects import key_of, name, namespace, pod_finished, spec, status, status_patch, uid

__all__ = ["QuotaController"]

QUOTAS = resource_of(ResourceQuota)
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
_BATCH = 0.1  # many changes are answered together


class QuotaController:
    name = "resourcequota-controller"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self.loop = ControlLoop("resource_quota", self.reconcile, context, workers=5)
        informers = context.informers
        self._quotas = informers.plain(ResourceQuota)
        self._classes = informers.plain(DeviceClass)
        self._quotas.add_index("namespace", lambda quota: (namespace(quota),))
        self._objects: list[Informer[Plain]] = [
            informers.plain(model) for model in (*filter(_known, _COUNTED), ResourceQuota)
        ]
        for informer in self._objects:
            informer.add_index("namespace", lambda obj: (namespace(obj),))
            informer.add_handler(self._object_changed, self._object_updated, self._object_changed)
        self._quotas.add_handler(lambda quota: self.loop.add(key_of(quota)), self._quota_updated)

    async def run(self) -> None:
        await self.loop.run()

    def _quota_updated(self, old: Plain, new: Plain) -> None:
        if spec(old) != spec(new) or status(old) != status(new):
            self.loop.add(key_of(new))

    def _object_changed(self, obj: Plain) -> None:
        for key in self._quotas.index_keys("namespace", namespace(obj)):
            self.loop.add_after(key, _BATCH)

    def _object_updated(self, old: Plain, new: Plain) -> None:
        """Only what a quota can see: finished pods stop counting, specs may change."""
        if old.get("spec") != new.get("spec") or (new["kind"] == "Pod" and pod_finished(old) != pod_finished(new)):
            self._object_changed(new)

    async def reconcile(self, key: str) -> float | None:
        quota = self._quotas.get(key)
        if quota is None:
            return None
        hard = quotas.limits(quota)
        used = {each: str(amount) for each, amount in self._used(quota, list(hard)).items()}
        new = {"hard": spec(quota).get("hard") or {}, "used": used}
        patch = status_patch(status(quota), new)
        if patch is not None:
            patch["metadata"] = {"resourceVersion": quota["metadata"]["resourceVersion"], "uid": uid(quota)}
            self._quotas.observe(
                await self._client.patch_plain(
                    QUOTAS, name(quota), patch, namespace=namespace(quota), subresource="status"
                )
            )
        return None

    def _used(self, quota: Plain, limited: list[str]) -> dict[str, Any]:
        extended = {
            name(each): spec(each)["extendedResourceName"]
            for each in self._classes.list()
            if spec(each).get("extendedResourceName")
        }
        usages = []
        for informer in self._objects:
            resource = informer.resource
            if not any(quotas.counts(each, resource.group, resource.plural) for each in limited):
                continue
            for obj in informer.by_index("namespace", namespace(quota)):
                if quotas.matches_scopes(quota, resource.group, resource.plural, obj):
                    usages.append(quotas.usage(resource.group, resource.plural, obj, extended))
        return quotas.total(usages, limited)


def _known(model: type[Any]) -> bool:
    try:
        registry.by_model(model)
    except KeyError:
        return False
    return True
