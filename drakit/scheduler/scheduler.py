"""The scheduler's shell: follows the API server, keeps the state, takes pods from the queue, hands decisions to the binder.

Everything that decides is synchronous and reads `state`; what waits is the loop between pods and the writes in the background.
A placed pod is assumed at once, so the next decision does not wait for the last one's writes.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable

from drakit.api.gates import FeatureGates
from drakit.client import Client, Informers
from drakit.clock import Clock, SystemClock
from drakit.scheduler import hints
from drakit.scheduler.claims import allocation_of, key_of, uid_of
from drakit.scheduler.cycle import Cycle
from drakit.scheduler.decide import Attempt, Placement
from drakit.scheduler.gangs import Gangs
from drakit.scheduler.metrics import UNSCHEDULABLE
from drakit.scheduler.outcome import Diagnosis, preemption_message
from drakit.scheduler.pods import DEFAULT_SCHEDULER, PodInfo
from drakit.scheduler.preemption import preempt, waits_for
from drakit.scheduler.queue import Waiting
from drakit.scheduler.state import Policy, State

log = logging.getLogger(__name__)

PODS_PER_TURN = 8  # decided before others get the event loop; fewer when that takes long
TURN = 0.005
FLUSH_UNSCHEDULABLE = 30.0


class Scheduler:
    def __init__(
        self,
        client: Client,
        informers: Informers,
        *,
        name: str = DEFAULT_SCHEDULER,
        gates: FeatureGates | None = None,
        policy: Policy | None = None,
        clock: Clock | None = None,
        new_uid: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self.clock = clock or SystemClock()
        self.state = State(gates=gates or FeatureGates.default(), policy=policy or Policy())
        self._client, self._informers = client, informers
        self._cycle = Cycle(client, informers, self.state, name=name, clock=self.clock, new_uid=new_uid)
        self.name, self.queue, self.metrics = name, self._cycle.queue, self._cycle.metrics
        self._gangs = Gangs(self._cycle)
        self.state.together = self._cycle.tracker.groups.together

    # -- life

    async def run(self) -> None:
        """Until cancelled. The informers must be started by the caller."""
        try:
            await self._cycle.tracker.follow(self._informers, self._client)
            await self._informers.prepare()  # now, not in the middle of the first pods
            await self._loop()
        finally:
            await self._cycle.close()

    async def _loop(self) -> None:
        last_flush = self.clock.monotonic()
        while True:
            now = self.clock.monotonic()
            self.queue.flush(now)
            if now - last_flush >= FLUSH_UNSCHEDULABLE:
                self.queue.flush_unschedulable(now)
                last_flush = now
            decided = 0
            while decided < PODS_PER_TURN and self._cycle.may_write and (waiting := self.queue.pop()) is not None:
                self._attempt(waiting)
                decided += 1
                if self.clock.monotonic() - now > TURN:
                    break
            idle = not decided and not self._cycle.tasks
            self._cycle.reporter.tell(idle=idle)
            if decided and self._cycle.may_write:
                await asyncio.sleep(0)
            else:
                await self._rest(now)

    async def _rest(self, now: float) -> None:
        """Until something happens, or a backoff ends."""
        deadline = self.queue.next_deadline()
        timeout = min(FLUSH_UNSCHEDULABLE, max(deadline - now, 0.0) if deadline is not None else FLUSH_UNSCHEDULABLE)
        if self._cycle.reporter.has_news:
            timeout = min(timeout, 1.0)
        if self.queue.has_work and self._cycle.may_write:
            return
        self._cycle.wake.clear()
        woken = asyncio.ensure_future(self._cycle.wake.wait())
        slept = asyncio.ensure_future(self.clock.sleep(timeout))
        try:
            await asyncio.wait({woken, slept}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()
            slept.cancel()

    # -- one pod

    def _attempt(self, waiting: Waiting) -> None:
        info = waiting.info
        if self._cycle.tracker.gangs and info.group is not None:
            self._gangs.attempt(waiting, info.group)
            return
        outcome, attempt = self._cycle.decide(waiting)
        try:
            if isinstance(outcome, Placement):
                self._cycle.assume(info, outcome)
                self._cycle.came(info)
                self._cycle.spawn(self._cycle.bind(waiting, outcome))
            elif isinstance(outcome, Diagnosis):
                self._rejected(waiting, outcome, attempt)
            else:
                self._cycle.failed(waiting, outcome)
        except Exception as error:  # as in `_decide`
            log.exception("pod %s: the attempt failed", info.key)
            if isinstance(outcome, Placement):
                self._cycle.take_back(info, outcome)
            self._cycle.failed(waiting, f"internal error: {error}")

    def _rejected(self, waiting: Waiting, diagnosis: Diagnosis, attempt: Attempt | None) -> None:
        info = waiting.info
        self.metrics.attempted(UNSCHEDULABLE, waiting, self.clock.monotonic())
        nominated = "" if diagnosis.settled else self._post_filter(info, diagnosis, attempt)
        self._cycle.returns(waiting, diagnosis.plugins or frozenset((hints.NO_NODES,)))
        self._cycle.reporter.not_placed(info, "Unschedulable", diagnosis.message(), nominated=nominated)

    def _post_filter(self, info: PodInfo, diagnosis: Diagnosis, attempt: Attempt | None) -> str | None:
        """Give back what nobody needs, or make room; the node to wait for, "" for none, None to leave it."""
        said = []
        nominated: str | None = ""
        released = self._release(info, attempt) if attempt is not None else ""
        if released:
            said.append(released)
        if attempt is None:
            said.append(preemption_message(diagnosis.total_nodes, {}))
        else:
            self.metrics.preemption_attempts.inc()
            found, text = preempt(attempt, diagnosis)
            if found is not None:
                count = f"preempting {self._cycle.go_ahead(info, found)} victims"
                self._outrank(info, found.node)
                nominated = found.node
                diagnosis.advice = waits_for(found.victims, info.namespace)
                said.append(f"preemption: found a potential placement for pod on node {found.node}, {count}")
            elif text:
                said.append(text)
                nominated = None if "terminating pod" in text else ""
        if not nominated and nominated is not None:
            self._cycle.tracker.withdraw(info.uid)
        diagnosis.postfilter = ", ".join(part for part in said if part)
        if attempt is not None and not released and nominated == "":
            diagnosis.settled = True
            self.state.remember_failure(attempt.key, diagnosis)
        return nominated

    def _release(self, info: PodInfo, attempt: Attempt) -> str:
        """PostFilter: an allocated claim that no node can use and no other pod needs is given back."""
        devices = attempt.devices
        if devices.leftover is not None:
            claim = devices.leftover
            self._cycle.spawn(self._cycle.quietly(self._cycle.binder.writer.delete(key_of(claim), uid_of(claim)), info))
            return "deletion of ResourceClaim completed"
        if not devices.allocated:
            return ""
        for claim in self._cycle.unusable(attempt):
            if allocation_of(claim) is not None and self.state.claims.consumers(claim) <= {info.uid}:
                self._cycle.spawn(self._cycle.quietly(self._cycle.binder.writer.deallocate(claim), info))
                return "deallocation of ResourceClaim completed"
        return ""

    def _outrank(self, info: PodInfo, node: str) -> None:
        """Pods of lower priority that wait for the same node may not fit there any more: they look for another one at once."""
        now = self.clock.monotonic()
        for promise in list(self.state.nominated.values()):
            if promise.node == node and promise.info.priority < info.priority:
                self._cycle.tracker.withdraw(promise.info.uid)
                if (waiting := self.queue.get(promise.info.uid)) is not None:
                    self._cycle.reporter.not_nominated(waiting.info)
                    self.queue.activate(waiting, now)
