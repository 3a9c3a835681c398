"""ResourceSlices of nodes that are gone.

Drivers make the Node own its slices, and the garbage collector deletes them with it. A slice without owner whose node has been missing
for minutes is deleted here: nobody else would, and its devices can never be used. Missing is what we have seen ourselves since we
started, so that slices may come before their node.
"""

from __future__ import annotations

from lightkube.models.core_v1 import Node
from lightkube.models.resource_v1 import ResourceSlice

from drakit.api.errors import StatusError
from drakit.client import resource_of
from drakit.controllers.loop import Context, ControlLoop
from drakit.controllers.objects import Plain, key_of, name, owners, spec, uid

__all__ = ["SliceCleaner"]

NODES, SLICES = resource_of(Node), resource_of(ResourceSlice)
_PATIENCE = 300.0


class SliceCleaner:
    name = "resourceslice-cleaner-controller"

    def __init__(self, context: Context) -> None:
        self._client, self._clock = context.client, context.clock
        self.loop = ControlLoop("resourceslice_cleaner", self.reconcile, context, workers=1)
        self._missing: dict[str, float] = {}
        self._nodes, self._slices = context.informers.plain(Node), context.informers.plain(ResourceSlice)
        self._slices.add_index("node", lambda each: (spec(each)["nodeName"],) if spec(each).get("nodeName") else ())
        self._slices.add_handler(self._slice_added)
        self._nodes.add_handler(self._node_added, on_delete=lambda node: self.loop.add(name(node)))

    async def run(self) -> None:
        await self.loop.run()

    def _node_added(self, node: Plain) -> None:
        self._missing.pop(name(node), None)

    def _slice_added(self, slice_: Plain) -> None:
        node = spec(slice_).get("nodeName")
        if node and not owners(slice_) and node not in self._nodes:
            self.loop.add(node)

    async def reconcile(self, key: str) -> float | None:
        doomed = [each for each in self._slices.by_index("node", key) if not owners(each)]
        if key in self._nodes or not doomed:
            self._missing.pop(key, None)
            return None
        now = self._clock.monotonic()
        left = self._missing.setdefault(key, now) + _PATIENCE - now
        if left > 0:
            return left
        try:
            await self._client.get_plain(NODES, key)
            return _PATIENCE
        except StatusError as error:
            if error.code != 404:
                raise
        for each in doomed:
            try:
                answer = await self._client.delete(SLICES, name(each), uid=uid(each))
            except StatusError as error:
                if error.code not in (404, 409):
                    raise
                continue
            self._slices.observe_deleted(key_of(each), uid(each), answer)
        return None
