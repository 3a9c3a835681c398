"""What users see of the scheduler: the PodScheduled condition and the events, written behind the work.

A pod's condition is patched only when it says something new, and never after the pod was bound: the binder waits for it.
Events of success wait while pods wait, for a few seconds at most: a burst of pods is placed first and told about afterwards.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any

from lightkube.models.core_v1 import Pod

from drakit.api.errors import StatusError
from drakit.api.times import timestamp
from drakit.client import Client, EventRecorder, resource_of
from drakit.client.transport import Plain
from drakit.clock import Clock
from drakit.scheduler.outcome import truncate
from drakit.scheduler.pods import PodInfo

log = logging.getLogger(__name__)

PODS = resource_of(Pod)
EVENT_DELAY = 3.0
EVENT_BACKLOG = 5000


class Reporter:
    def __init__(self, client: Client, recorder: EventRecorder, clock: Clock) -> None:
        self._client, self._recorder, self._clock = client, recorder, clock
        self._writing: dict[str, asyncio.Task[None]] = {}  # pod UID -> condition being written
        self._placed: deque[tuple[float, PodInfo, str]] = deque()

    # -- placed

    def placed(self, info: PodInfo, node: str) -> None:
        self._placed.append((self._clock.monotonic(), info, node))

    def tell(self, *, idle: bool) -> None:
        """Events of placed pods: all when there is nothing better to do, else those that have waited long enough."""
        now = self._clock.monotonic()
        while self._placed and (idle or len(self._placed) > EVENT_BACKLOG or now - self._placed[0][0] >= EVENT_DELAY):
            _, info, node = self._placed.popleft()
            text = f"Successfully assigned {info.key} to {node}"
            self._recorder.event(info.pod, "Normal", "Scheduled", text, action="Binding")

    @property
    def has_news(self) -> bool:
        return bool(self._placed)

    # -- not placed

    def not_placed(self, info: PodInfo, reason: str, message: str, *, nominated: str | None = None) -> None:
        """`nominated`: the node to wait for, "" to clear it, None to leave it as it is."""
        self._recorder.event(info.pod, "Warning", "FailedScheduling", truncate(message), action="Scheduling")
        patch = condition_patch(info.pod, reason, message, timestamp(self._clock.now()), nominated)
        if patch is not None:
            self._patch(info, patch)

    def not_nominated(self, info: PodInfo) -> None:
        """The node that the pod waited for is another's."""
        self._patch(info, {"metadata": {"uid": info.uid}, "status": {"nominatedNodeName": None}})

    def _patch(self, info: PodInfo, patch: Plain) -> None:
        earlier = self._writing.get(info.uid)
        task = asyncio.get_running_loop().create_task(self._write(info, patch, earlier))
        self._writing[info.uid] = task
        task.add_done_callback(lambda done: self._finished(info.uid, done))

    def _finished(self, uid: str, task: asyncio.Task[None]) -> None:
        if self._writing.get(uid) is task:
            del self._writing[uid]

    async def _write(self, info: PodInfo, patch: Plain, earlier: asyncio.Task[None] | None) -> None:
        if earlier is not None:
            await asyncio.wait({earlier})
        try:
            await self._client.patch_plain(
                PODS, info.name, patch, namespace=info.namespace, kind="strategic", subresource="status"
            )
        except StatusError as error:
            if error.code != 404:
                log.warning("writing the condition of pod %s: %s", info.key, error)

    async def settled(self, uid: str) -> None:
        """Returns when no condition of the pod is on its way."""
        task = self._writing.get(uid)
        if task is not None:
            await asyncio.wait({task})

    async def close(self) -> None:
        self.tell(idle=True)
        if self._writing:
            await asyncio.wait(set(self._writing.values()), timeout=1)
        await self._recorder.flush()


def condition_patch(pod: Pod, reason: str, message: str, now: str, nominated: str | None) -> Plain | None:
    """None when the pod says all of this already."""
    meta, status = pod.metadata, pod.status
    assert meta is not None
    current = next((c for c in (status.conditions if status else None) or () if c.type == "PodScheduled"), None)
    changes: dict[str, Any] = {}
    if current is None or (current.status, current.reason, current.message) != ("False", reason, message):
        stamp: Any = current.lastTransitionTime if current is not None and current.status == "False" else None
        condition: Plain = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastProbeTime": None,
            "lastTransitionTime": timestamp(stamp) if stamp is not None else now,
        }
        if meta.generation:
            condition["observedGeneration"] = meta.generation
        changes["conditions"] = [condition]
    if nominated or (nominated == "" and status is not None and status.nominatedNodeName):
        changes["nominatedNodeName"] = nominated or None  # also one that is known: `not_nominated` may be on its way
    if not changes:
        return None
    return {"metadata": {"uid": meta.uid}, "status": changes}
