"""A PodGroup that is deleted stays until none of its pods runs (pkg/controller/scheduling/podgroupprotection).

The server puts the finalizer on every new group; here it goes.
"""

from __future__ import annotations

from lightkube.models.core_v1 import Pod
from lightkube.models.scheduling_v1beta1 import PodGroup

from drakit.client import resource_of
from drakit.controllers.claim_decisions import group_keys
from drakit.controllers.loop import Context, ControlLoop
from drakit.controllers.objects import (
    Plain,
    deleting,
    finalizers,
    key_of,
    name,
    namespace,
    pod_finished,
    uid,
    version,
)

__all__ = ["PodGroupProtectionController"]

POD_GROUPS = resource_of(PodGroup)
FINALIZER = "scheduling.k8s.io/podgroup-protection"


class PodGroupProtectionController:
    name = "podgroup-protection-controller"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self.loop = ControlLoop("podgroupprotection", self.reconcile, context)
        self._groups, self._pods = context.informers.plain(PodGroup), context.informers.plain(Pod)
        self._pods.add_index("active group", lambda pod: () if pod_finished(pod) else group_keys(pod))
        self._groups.add_handler(self._changed, lambda _, new: self._changed(new))
        self._pods.add_handler(on_update=lambda _, new: self._pod_changed(new), on_delete=self._enqueue_group)

    async def run(self) -> None:
        await self.loop.run()

    def _changed(self, group: Plain) -> None:
        if deleting(group) and FINALIZER in finalizers(group):
            self.loop.add(key_of(group))

    def _pod_changed(self, pod: Plain) -> None:
        if pod_finished(pod):
            self._enqueue_group(pod)

    def _enqueue_group(self, pod: Plain) -> None:
        for key in group_keys(pod):
            group = self._groups.get(key)
            if group is not None:
                self._changed(group)

    async def reconcile(self, key: str) -> float | None:
        group = self._groups.get(key)
        if group is None or not deleting(group) or FINALIZER not in finalizers(group):
            return None
        if self._pods.index_count("active group", key):
            return None
        # A pod that was made before the group was deleted may be on its way to us. Kubernetes does not wait, and lets go of groups
        # whose pods it has not seen yet.
        if wait := self._pods.reflector.unsure_for(version(group)):
            return wait
        kept = [each for each in finalizers(group) if each != FINALIZER]
        metadata = {
            "uid": uid(group),
            "resourceVersion": group["metadata"]["resourceVersion"],
            "finalizers": kept or None,
        }
        await self._client.patch_plain(POD_GROUPS, name(group), {"metadata": metadata}, namespace=namespace(group))
        return None
