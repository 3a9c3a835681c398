"""What attempts at single pods and at gangs share: the decision, assuming it and taking it back, binding, the return to the queue,
telling victims to go. The writes run in the background.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any

from lightkube.models.core_v1 import Pod
from lightkube.models.resource_v1 import ResourceClaim

from drakit.api.errors import StatusError
from drakit.api.times import timestamp
from drakit.client import Client, EventRecorder, Informers
from drakit.clock import Clock
from drakit.scheduler import hints
from drakit.scheduler.binding import Binder, BindError
from drakit.scheduler.claims import reserved_for, uid_of
from drakit.scheduler.decide import Attempt, Placement, decide
from drakit.scheduler.hierarchy import Group
from drakit.scheduler.metrics import ERROR, SCHEDULED, SchedulerMetrics
from drakit.scheduler.nodes import Bits
from drakit.scheduler.outcome import Diagnosis, SchedulingError
from drakit.scheduler.pods import PodInfo, is_deleting, is_finished
from drakit.scheduler.preemption import Preemption
from drakit.scheduler.queue import SchedulingQueue, Waiting
from drakit.scheduler.report import Reporter
from drakit.scheduler.state import State
from drakit.scheduler.tracker import Tracker

log = logging.getLogger(__name__)

BINDINGS = 256  # decisions being written at a time


class Cycle:
    def __init__(
        self,
        client: Client,
        informers: Informers,
        state: State,
        *,
        name: str,
        clock: Clock,
        new_uid: Callable[[], str],
    ) -> None:
        self.name, self.clock, self.state, self.client = name, clock, state, client
        self.queue = SchedulingQueue()
        self.metrics = SchedulerMetrics(name, self.queue, state.nodes)
        self.wake = asyncio.Event()
        self.tasks: set[asyncio.Task[None]] = set()
        self._informers, self._new_uid = informers, new_uid
        self._recorder = EventRecorder(
            client, name, clock=clock, api="events", instance=f"{name}-{socket.gethostname()}"
        )
        self.reporter = Reporter(client, self._recorder, clock)
        self.binder = Binder(
            client, informers.of(ResourceClaim), state, clock, self._recorder, self.metrics, self.wake.set
        )
        self.tracker = Tracker(state, self.queue, clock, name, wake=self.wake.set, watched=self.binder.claim_changed)

    async def close(self) -> None:
        self.tracker.stop()
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.reporter.close()

    @property
    def may_write(self) -> bool:
        return len(self.tasks) - self.binder.awaiting < BINDINGS

    def decide(
        self, waiting: Waiting, within: Bits | None = None, *, quiet: bool = False
    ) -> tuple[Placement | Diagnosis | str, Attempt | None]:
        """As `decide`; a text when the attempt ended in an error."""
        info = waiting.info
        waiting.began = self.clock.monotonic()
        try:
            return decide(self.state, info, self.clock.now(), self._new_uid, within, quiet=quiet)
        except SchedulingError as error:
            return str(error), None
        except Exception as error:  # a bug or an object we cannot read must not stop the other pods
            log.exception("pod %s: deciding failed", info.key)
            return f"internal error: {error}", None
        finally:
            self.metrics.decisions.observe(self.clock.monotonic() - waiting.began)

    # -- assumed

    def assume(self, info: PodInfo, placement: Placement) -> None:
        state = self.state
        self.tracker.withdraw(info.uid)  # from here on it counts as there, not as waiting
        state.place(info, placement.node)
        self.tracker.assumed.add(info.uid)
        self.tracker.binding.add(info.uid)
        for claim, result in placement.allocations:
            state.claims.assume(claim, result, info.uid)
        for claim in placement.claims:
            consumer = state.consumer(info, claim)["uid"]
            if not any(entry.uid == consumer for entry in reserved_for(claim)):
                state.claims.share(uid_of(claim), info.uid, consumer)

    def came(self, info: PodInfo) -> None:
        """What was assumed is more than a trial: whom it concerns is tried again."""
        if info.solitary or self.state.nodes.anti_affinity:
            hints.pod_came(self.queue, self.clock.monotonic())

    def take_back(self, info: PodInfo, placement: Placement) -> None:
        """The opposite of `_assume`."""
        self.binder.forget(info, placement)
        if info.uid in self.tracker.assumed:  # else it is where the server shows it
            self.state.displace(info.uid)
        self.tracker.assumed.discard(info.uid)
        self.tracker.binding.discard(info.uid)

    # -- binding

    async def bind(self, waiting: Waiting, placement: Placement, *, prepared: bool = False) -> None:
        info = waiting.info
        try:
            await self.reporter.settled(info.uid)
            if not prepared:
                await self.binder.prebind(info, placement)
            await self.binder.bind(info, placement)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            if not isinstance(error, BindError):
                log.exception("pod %s: binding failed", info.key)
            if not await self._binding_failed(waiting, placement, str(error)):
                return
        self.landed(waiting, placement)

    def landed(self, waiting: Waiting, placement: Placement) -> None:
        """The pod has the node that was chosen for it, whoever wrote it."""
        info = waiting.info
        self.binder.forget(info, placement)
        self.binder.keep_extended(info)
        self.tracker.binding.discard(info.uid)
        self.metrics.attempted(SCHEDULED, waiting, self.clock.monotonic())
        self.reporter.placed(info, placement.node)
        self._follow_up(info)

    def _follow_up(self, info: PodInfo) -> Pod | None:
        """What the server shows after the writes; a pod that came and went meanwhile leaves now."""
        current = self._informers.of(Pod).get(info.key)
        if current is None or current.metadata is None or current.metadata.uid != info.uid or is_finished(current):
            self.tracker.leave(info.uid)
            return None
        return current

    async def _binding_failed(self, waiting: Waiting, placement: Placement, why: str) -> bool:
        """Undo; True when the pod turns out to be bound as planned."""
        info = waiting.info
        node = await self.binder.landed_on(info)
        if node == placement.node:
            return True
        await self.binder.discard_extended(info)
        self.undo(waiting, placement, node, why)
        return False

    def undo(self, waiting: Waiting, placement: Placement, node: str | None, why: str) -> None:
        info = waiting.info
        self.take_back(info, placement)
        now = self.clock.monotonic()  # what the pod would have taken is free for others
        hints.pod_gone(self.queue, self.state.static, info, None, now)
        hints.devices_changed(self.queue, now)
        self.wake.set()
        current = self._follow_up(info)
        if node == "" and current is not None and self._is_free(current):
            waiting.info = info.with_version(current)
            self.failed(waiting, why)

    def _is_free(self, pod: Pod) -> bool:
        return not (pod.spec and pod.spec.nodeName) and not is_deleting(pod)

    # -- no node

    def failed(self, waiting: Waiting, message: str) -> None:
        now = self.clock.monotonic()
        self.metrics.attempted(ERROR, waiting, now)
        self.queue.failed(waiting, now)
        self.reporter.not_placed(waiting.info, "SchedulerError", message)
        self.wake.set()

    def returns(self, waiting: Waiting, plugins: frozenset[str]) -> None:
        """To the queue, until something happens that concerns these plugins, its claims, its victims or their claims."""
        info = waiting.info
        promise = self.state.nominated.get(info.uid)
        awaited = (*promise.claims, *promise.victims) if promise is not None else ()
        keys = (*self.state.claims.keys_of(info), *awaited)
        self.queue.unschedulable(waiting, plugins, self.clock.monotonic(), keys)

    def again_later(self, info: PodInfo) -> None:
        if (waiting := self.queue.get(info.uid)) is not None and not waiting.gate:
            self.queue.failed(waiting, self.clock.monotonic())
            self.wake.set()

    def unusable(self, attempt: Attempt) -> list[ResourceClaim]:
        """Allocated claims that keep the pod from some node."""
        found: dict[str, ResourceClaim] = {}
        for node in self.state.nodes:
            if attempt.bits >> node.slot & 1 and node.name not in attempt.failures:
                found.update((uid_of(claim), claim) for claim in attempt.devices.unavailable(node))
        return list(found.values())

    async def quietly(self, work: Any, info: PodInfo) -> None:
        try:
            await work
        except StatusError as error:
            log.warning("releasing a claim for pod %s: %s", info.key, error)

    def go_ahead(self, info: PodInfo, found: Preemption, group: Group | None = None) -> int:
        """The pod waits for its victims, which are told to go; each once, however many wait for it. `group`: in whose name.
        The number of those told now."""
        state = self.state
        state.nominate(info, found.node, found.claims, found.holds, (victim.uid for victim in found.victims))
        state.leaving &= state.nodes.placed.keys()
        told = [victim for victim in found.victims if not is_deleting(victim.pod) and victim.uid not in state.leaving]
        state.leaving.update(victim.uid for victim in told)
        self.metrics.preemption_victims.observe(len(told))
        self.spawn(self._evict(info, told, found.node, group))
        return len(told)

    async def _evict(self, info: PodInfo, victims: list[PodInfo], node: str, group: Group | None) -> None:
        related: Pod | Group = info.pod
        kind, where, uid = "pod", node, info.uid
        if group is not None:
            kind, related, where = type(group).__name__.lower(), group, "cluster"
            uid = (group.metadata.uid if group.metadata else None) or ""
        text = f"Preempted by {kind} {uid} on node {where}"
        results = await asyncio.gather(*(self._evict_one(victim, kind) for victim in victims), return_exceptions=True)
        for victim, result in zip(victims, results, strict=True):
            if result is True:
                self._recorder.event(victim.pod, "Normal", "Preempted", text, action="Preempting", related=related)
            elif isinstance(result, Exception):
                log.warning("preempting pod %s: %s", victim.key, result)
                self.state.leaving.discard(victim.uid)
                for each in (info, *(waiting.info for waiting in self.queue.waiting_for(victim.uid))):
                    self.again_later(each)  # nothing will come free, so no event will wake it

    async def _evict_one(self, victim: PodInfo, kind: str) -> bool:
        """Delete it with its own grace, and say why; False when it is gone already."""
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{self.name}: preempting to accommodate a higher priority {kind}",
            "lastTransitionTime": timestamp(self.clock.now()),
            "observedGeneration": (victim.pod.metadata.generation if victim.pod.metadata else None) or 0,
        }
        change = {"metadata": {"uid": victim.uid}, "status": {"conditions": [condition]}}
        try:
            await self.client.patch(
                Pod, victim.name, change, namespace=victim.namespace, kind="strategic", subresource="status"
            )
            await self.client.delete(Pod, victim.name, namespace=victim.namespace, uid=victim.uid)
        except StatusError as error:
            if error.code != 404:
                raise
            return False
        return True

    # -- writes in the background

    def spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a write in the background failed", exc_info=task.exception())
        if len(self.tasks) - self.binder.awaiting == BINDINGS - 1 or not self.tasks:
            self.wake.set()
