"""The scheduler's shell: follows the API server, keeps the state, takes pods from the queue, hands decisions to the binder.

Everything that decides is synchronous and reads `state`; what waits is the loop between pods and the writes in the background.
A placed pod is assumed at once, so the next decision does not wait for the last one's writes.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import uuid
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

from lightkube.models.core_v1 import Pod
from lightkube.models.resource_v1 import ResourceClaim
from lightkube.models.scheduling_v1beta1 import PodGroup

from drakit.api.errors import StatusError
from drakit.api.gates import FeatureGates
from drakit.api.times import timestamp
from drakit.client import Client, EventRecorder, Informers
from drakit.clock import Clock, SystemClock
from drakit.scheduler import groups, hints
from drakit.scheduler.binding import Binder, BindError
from drakit.scheduler.claims import allocation_of, key_of, reserved_for, uid_of
from drakit.scheduler.decide import Attempt, Placement, decide
from drakit.scheduler.metrics import ERROR, SCHEDULED, UNSCHEDULABLE, SchedulerMetrics
from drakit.scheduler.outcome import Diagnosis, SchedulingError, preemption_message
from drakit.scheduler.pods import DEFAULT_SCHEDULER, PodInfo, is_deleting, is_finished
from drakit.scheduler.preemption import NEVER, TERMINATING, Preemption, preempt, waits_for
from drakit.scheduler.queue import SchedulingQueue, Waiting
from drakit.scheduler.report import Reporter
from drakit.scheduler.state import Policy, Promise, State
from drakit.scheduler.tracker import Tracker

log = logging.getLogger(__name__)

BINDINGS = 256  # decisions being written at a time
PODS_PER_TURN = 8  # decided before others get the event loop
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
        self.name = name
        self.clock = clock or SystemClock()
        self.state = State(gates=gates or FeatureGates.default(), policy=policy or Policy())
        self.queue = SchedulingQueue()
        self.metrics = SchedulerMetrics(name, self.queue, self.state.nodes)
        self._client, self._informers, self._new_uid = client, informers, new_uid
        recorder = EventRecorder(
            client, name, clock=self.clock, api="events", instance=f"{name}-{socket.gethostname()}"
        )
        self._recorder = recorder
        self._reporter = Reporter(client, recorder, self.clock)
        self._wake = asyncio.Event()
        self._binder = Binder(
            client, informers.of(ResourceClaim), self.state, self.clock, recorder, self.metrics, self._wake.set
        )
        self._tracker = Tracker(
            self.state, self.queue, self.clock, name, wake=self._wake.set, watched=self._binder.claim_changed
        )
        self._groups, self._gangs = self._tracker.groups, self._tracker.gangs
        self.state.together = self._groups.together
        self._tasks: set[asyncio.Task[None]] = set()
        self._releasing: set[str] = set()  # keys of groups whose claims are being given back

    # -- life

    async def run(self) -> None:
        """Until cancelled. The informers must be started by the caller."""
        try:
            await self._tracker.follow(self._informers, self._client)
            await self._informers.prepare()  # now, not in the middle of the first pods
            await self._loop()
        finally:
            self._tracker.stop()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._reporter.close()

    async def _loop(self) -> None:
        last_flush = self.clock.monotonic()
        while True:
            now = self.clock.monotonic()
            self.queue.flush(now)
            if now - last_flush >= FLUSH_UNSCHEDULABLE:
                self.queue.flush_unschedulable(now)
                last_flush = now
            decided = 0
            while decided < PODS_PER_TURN and self._may_write and (waiting := self.queue.pop()) is not None:
                self._attempt(waiting)
                decided += 1
            idle = not decided and not self._tasks
            self._reporter.tell(idle=idle)
            if decided and self._may_write:
                await asyncio.sleep(0)
            else:
                await self._rest(now)

    @property
    def _may_write(self) -> bool:
        return len(self._tasks) - self._binder.awaiting < BINDINGS

    async def _rest(self, now: float) -> None:
        """Until something happens, or a backoff ends."""
        deadline = self.queue.next_deadline()
        timeout = min(FLUSH_UNSCHEDULABLE, max(deadline - now, 0.0) if deadline is not None else FLUSH_UNSCHEDULABLE)
        if self._reporter.has_news:
            timeout = min(timeout, 1.0)
        if self.queue.has_work and self._may_write:
            return
        self._wake.clear()
        woken = asyncio.ensure_future(self._wake.wait())
        slept = asyncio.ensure_future(self.clock.sleep(timeout))
        try:
            await asyncio.wait({woken, slept}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()
            slept.cancel()

    # -- one pod

    def _attempt(self, waiting: Waiting) -> None:
        info = waiting.info
        if self._gangs and info.group is not None and info.group in self.state.groups:
            self._attempt_gang(waiting, info.group)
            return
        outcome, attempt = self._decide(waiting)
        try:
            if isinstance(outcome, Placement):
                self._assume(info, outcome)
                self._spawn(self._bind(waiting, outcome))
            elif isinstance(outcome, Diagnosis):
                self._rejected(waiting, outcome, attempt)
            else:
                self._failed(waiting, outcome)
        except Exception as error:  # as in `_decide`
            log.exception("pod %s: the attempt failed", info.key)
            if isinstance(outcome, Placement):
                self._take_back(info, outcome)
            self._failed(waiting, f"internal error: {error}")

    def _decide(self, waiting: Waiting) -> tuple[Placement | Diagnosis | str, Attempt | None]:
        """As `decide`; a text when the attempt ended in an error."""
        info = waiting.info
        waiting.began = self.clock.monotonic()
        try:
            return decide(self.state, info, self.clock.now(), self._new_uid)
        except SchedulingError as error:
            return str(error), None
        except Exception as error:  # a bug or an object we cannot read must not stop the other pods
            log.exception("pod %s: deciding failed", info.key)
            return f"internal error: {error}", None
        finally:
            self.metrics.decisions.observe(self.clock.monotonic() - waiting.began)

    # -- a gang

    def _attempt_gang(self, first: Waiting, key: str) -> None:
        """All pods of the group that wait, together: enough of them fit, or none is placed. None of them preempts alone."""
        members = self._groups.members.get(key, {})
        others = [w for uid in members if (w := self.queue.get(uid)) is not None]
        if key in self._releasing or any(waiting.gate for waiting in others):  # one that is gated stops them all
            first.attempts -= 1
            for waiting in (first, *(each for each in others if not each.gate)):
                self._member_returns(waiting, frozenset((groups.PLUGIN,)))
            return
        gang = [first, *(w for each in others if (w := self.queue.take(each.info.uid)) is not None)]
        gang.sort(key=lambda waiting: waiting.first_seen)
        trial = groups.Trial(self._groups.min_count(key), sum(1 for uid in members if uid in self.state.nodes.placed))
        try:
            self._try_gang(key, trial, gang)
        except Exception as error:  # as for a pod
            log.exception("pod group %s: the attempt failed", key)
            for waiting, placement in trial.placed:
                self._take_back(waiting.info, placement)
            for waiting in gang:
                self._failed(waiting, f"internal error: {error}")

    def _try_gang(self, key: str, trial: groups.Trial, gang: list[Waiting]) -> None:
        members = self._groups.members.get(key, {})
        placed = (node.pods[uid] for uid in members if (node := self.state.nodes.placed.get(uid)) is not None)
        policies = self.state.gates.enabled("PodGroupPreemptionPolicy")
        if why := self._groups.mismatch(key, [*(waiting.info for waiting in gang), *placed], policies=policies):
            for waiting in gang:
                self._failed(waiting, why)
            self._spawn(self._tell_group(key, why, reason="SchedulerError"))
            return
        promises = {uid: promise for uid in members if (promise := self.state.nominated.get(uid)) is not None}
        for uid in promises:
            self.state.withdraw(uid)  # what was promised to one is there for all of them now
        if trial.hopeless(len(gang)):  # somebody left
            self._give_up_gang(key, trial, gang, promises)
            return
        for index, waiting in enumerate(gang):
            self._try_member(trial, waiting)
            if trial.hopeless(len(gang) - index - 1):
                self._give_up_gang(key, trial, gang[index + 1 :], promises)
                return
        if not trial.placed:
            self._give_up_gang(key, trial, [], promises)
            return
        for waiting, outcome, _ in trial.left:
            if isinstance(outcome, str):
                self._failed(waiting, outcome)
            else:
                self._member_waits(waiting, outcome.plugins | {groups.PLUGIN}, outcome.message())
                self.queue.activate(waiting, self.clock.monotonic())  # as a group of its own it may preempt
        self._promises_over(promises)
        self._spawn(self._bind_gang(key, trial.placed))

    def _promises_over(self, promises: Mapping[str, Promise]) -> None:
        if promises:
            hints.promise_over(self.queue, self.clock.monotonic())

    def _try_member(self, trial: groups.Trial, waiting: Waiting) -> None:
        outcome, attempt = self._decide(waiting)
        if isinstance(outcome, Placement):
            self._assume(waiting.info, outcome)
            trial.placed.append((waiting, outcome))
        else:
            trial.left.append((waiting, outcome, attempt))

    def _give_up_gang(
        self, key: str, trial: groups.Trial, rest: list[Waiting], promises: Mapping[str, Promise]
    ) -> None:
        """Take back what was assumed; with victims enough for the whole gang, wait for them."""
        reason = trial.message(len(rest))
        plans, refused = self._preempt_for_gang(trial, rest)
        for waiting, placement in trial.placed:
            self._take_back(waiting.info, placement)
        if refused == groups.ONGOING:
            self.state.nominated.update(promises)
        else:
            self._promises_over(promises)
            if not plans:
                self._release_gang(key, trial, rest)
        told_to_go = sum(self._go_ahead(info, plan, key) for info, plan in plans)
        advice = trial.advice()
        if plans:
            refused = f"found a placement for podgroup, preempting {told_to_go} victims"
            waiting_for = waits_for(chain.from_iterable(plan.victims for _, plan in plans), key.split("/")[0])
            advice = f" [{waiting_for}]"
            for _, outcome, _ in trial.left:
                if isinstance(outcome, Diagnosis):
                    outcome.advice = waiting_for
        released = "" if plans or refused in (groups.ONGOING, groups.NO_VICTIMS) else f"{groups.RELEASED}, "
        summary = f"{reason}, {released}pod group preemption: {refused}" if refused else reason
        waits = plans or reason == groups.UNSCHEDULABLE or refused == groups.ONGOING
        told = summary if waits else f"{groups.UNSCHEDULABLE}, {summary}"
        plugins = trial.plugins() | {groups.PLUGIN}
        for waiting, outcome, _ in trial.left:
            if isinstance(outcome, str):
                self._failed(waiting, outcome)
            else:
                self._member_waits(waiting, plugins, outcome.message())
        untried = {waiting.info.uid for waiting in rest}
        others = {waiting.info.uid: waiting for waiting in [*(waiting for waiting, _ in trial.placed), *rest]}
        for waiting in others.values():
            text = reason if waiting.info.uid in untried else told
            self._member_waits(waiting, plugins, f"{text}{advice}")
        self._spawn(self._tell_group(key, f"{summary}{advice}"))

    def _member_waits(self, waiting: Waiting, plugins: frozenset[str], message: str) -> None:
        info, now = waiting.info, self.clock.monotonic()
        promise = self.state.nominated.get(info.uid)
        self.metrics.attempted(UNSCHEDULABLE, waiting, now)
        self._member_returns(waiting, plugins)
        self._reporter.not_placed(info, "Unschedulable", message, nominated=promise.node if promise else "")

    def _member_returns(self, waiting: Waiting, plugins: frozenset[str]) -> None:
        keys = self.state.claims.keys_of(waiting.info)
        self.queue.unschedulable(waiting, plugins, self.clock.monotonic(), keys)

    def _release_gang(self, key: str, trial: groups.Trial, rest: list[Waiting]) -> None:
        """What earlier attempts wrote for a gang that finds no place is given back: allocations that nobody but its waiting pods
        has reserved (the group itself, while none of its pods is placed), and those that nobody has and no node can use."""
        state, claims = self.state, self.state.claims
        group = state.groups[key]
        infos = {w.info.uid: w.info for w in (*(w for w, _ in trial.placed), *(w for w, _, _ in trial.left), *rest)}
        own = {*infos, group.metadata.uid} if group.metadata and not trial.there else {*infos}
        found: dict[str, ResourceClaim] = {}
        for info in infos.values():
            for claim_key in claims.keys_of(info):
                claim = claims.stored.get(claim_key)
                if claim is not None and allocation_of(claim) is not None and (users := claims.consumers(claim)):
                    found.update({uid_of(claim): claim} if users <= own else {})
        for _, _, attempt in trial.left:
            unusable = self._unusable(attempt) if attempt is not None else []
            found.update((uid_of(claim), claim) for claim in unusable if not claims.consumers(claim))
        leftovers = [claim for uid in infos if (claim := claims.extended_claim(uid)) is not None]
        if found or leftovers:
            self._releasing.add(key)
            self._spawn(self._give_back(key, list(infos.values()), list(found.values()), leftovers))

    async def _give_back(
        self, key: str, gang: list[PodInfo], claims: list[ResourceClaim], leftovers: list[ResourceClaim]
    ) -> None:
        """The gang is not tried meanwhile; nor is anything taken from a pod that has been bound and we do not know it."""
        try:
            landed = await asyncio.gather(*(self._binder.landed_on(info, sure=True) for info in gang))
            if not any(landed):
                for claim in claims:
                    await self._quietly(self._binder.writer.deallocate(claim), gang[0])
                for claim in leftovers:
                    await self._quietly(self._binder.writer.delete(key_of(claim), uid_of(claim)), gang[0])
        except StatusError as error:
            log.warning("releasing the claims of pod group %s: %s", key, error)
        finally:
            self._releasing.discard(key)
            for info in gang:
                self._again_later(info)

    def _again_later(self, info: PodInfo) -> None:
        if (waiting := self.queue.get(info.uid)) is not None and not waiting.gate:
            self.queue.failed(waiting, self.clock.monotonic())
            self._wake.set()

    def _preempt_for_gang(
        self, trial: groups.Trial, rest: list[Waiting]
    ) -> tuple[list[tuple[PodInfo, Preemption]], str]:
        """Who has to go for all that are missing, each with victims of its own; nobody, and why, when that is not enough."""
        self.metrics.preemption_attempts.inc()
        plans: list[tuple[PodInfo, Preemption]] = []
        refused, reason = "", trial.message(len(rest))
        gang = [*(waiting for waiting, _, _ in trial.left), *rest]
        for index, waiting in enumerate(gang):
            if trial.hopeless(len(plans) + len(gang) - index):
                break
            outcome, attempt = self._decide(waiting)
            if isinstance(outcome, Placement):
                self._assume(waiting.info, outcome)
                trial.placed.append((waiting, outcome))
            elif isinstance(outcome, Diagnosis) and attempt is not None:
                plan, text = preempt(attempt, outcome)
                refused = refused or text
                if plan is not None:
                    self.state.nominate(waiting.info, plan.node, plan.claims, plan.holds)  # the next counts with it
                    plans.append((waiting.info, plan))
        for info, _ in plans:
            self.state.withdraw(info.uid)
        helped = len(trial.placed) + len(plans)
        if not helped or trial.there + helped < trial.need:
            return [], self._no_preemption(gang[0].info, refused) or reason
        return plans, ""

    def _no_preemption(self, info: PodInfo, refused: str) -> str:
        """Why nobody goes for the group; empty when even without all that may go it would not fit."""
        if TERMINATING in refused:
            return groups.ONGOING
        if NEVER in refused:
            return NEVER
        lower = any(pod.priority < info.priority for node in self.state.nodes for pod in node.pods.values())
        return "" if lower else groups.NO_VICTIMS

    async def _bind_gang(self, key: str, placed: list[tuple[Waiting, Placement]]) -> None:
        """Every pod's claims first; only when all are written does the first pod get its node."""
        for waiting, _ in placed:
            await self._reporter.settled(waiting.info.uid)
        results = await asyncio.gather(
            *(self._binder.prebind(waiting.info, placement) for waiting, placement in placed), return_exceptions=True
        )
        failed = next((result for result in results if isinstance(result, BaseException)), None)
        if failed is not None:
            nodes = await asyncio.gather(*(self._binder.landed_on(waiting.info) for waiting, _ in placed))
            outcomes = [(*each, node) for each, node in zip(placed, nodes, strict=True)]
            lost = (waiting.info for waiting, placement, node in outcomes if node != placement.node)
            await asyncio.gather(*map(self._binder.discard_extended, lost))
            for waiting, placement, node in outcomes:  # all at once: none is left to count as there
                if node == placement.node:
                    self._landed(waiting, placement)
                else:
                    self._undo(waiting, placement, node, f"{groups.UNSCHEDULABLE}: {failed}")
            await self._tell_group(key, str(failed), reason="SchedulerError")
            return
        await asyncio.gather(*(self._bind(waiting, placement, prepared=True) for waiting, placement in placed))
        await self._tell_group(key, "")

    async def _tell_group(self, key: str, message: str, reason: str = "Unschedulable") -> None:
        group = self.state.groups.get(key)
        reason = reason if message else "Scheduled"
        patch = (
            groups.condition_patch(group, timestamp(self.clock.now()), message=message, reason=reason)
            if group
            else None
        )
        if patch is None:
            return
        namespace, name = key.split("/", 1)
        try:
            await self._client.patch(PodGroup, name, patch, namespace=namespace, kind="strategic", subresource="status")
        except StatusError as error:
            log.warning("writing the condition of pod group %s: %s", key, error)

    def _assume(self, info: PodInfo, placement: Placement) -> None:
        state = self.state
        self._tracker.withdraw(info.uid)  # from here on it counts as there, not as waiting
        state.place(info, placement.node)
        self._tracker.assumed.add(info.uid)
        self._tracker.binding.add(info.uid)
        for claim, result in placement.allocations:
            state.claims.assume(claim, result, info.uid)
        for claim in placement.claims:
            consumer = state.consumer(info, claim)["uid"]
            if not any(entry.uid == consumer for entry in reserved_for(claim)):
                state.claims.share(uid_of(claim), info.uid, consumer)
        if info.solitary or state.nodes.anti_affinity:
            hints.pod_came(self.queue, self.clock.monotonic())

    def _take_back(self, info: PodInfo, placement: Placement) -> None:
        """The opposite of `_assume`."""
        self._binder.forget(info, placement)
        if info.uid in self._tracker.assumed:  # else it is where the server shows it
            self.state.displace(info.uid)
        self._tracker.assumed.discard(info.uid)
        self._tracker.binding.discard(info.uid)

    async def _bind(self, waiting: Waiting, placement: Placement, *, prepared: bool = False) -> None:
        info = waiting.info
        try:
            await self._reporter.settled(info.uid)
            if not prepared:
                await self._binder.prebind(info, placement)
            await self._binder.bind(info, placement)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            if not isinstance(error, BindError):
                log.exception("pod %s: binding failed", info.key)
            if not await self._binding_failed(waiting, placement, str(error)):
                return
        self._landed(waiting, placement)

    def _landed(self, waiting: Waiting, placement: Placement) -> None:
        """The pod has the node that was chosen for it, whoever wrote it."""
        info = waiting.info
        self._binder.forget(info, placement)
        self._binder.keep_extended(info)
        self._tracker.binding.discard(info.uid)
        self.metrics.attempted(SCHEDULED, waiting, self.clock.monotonic())
        self._reporter.placed(info, placement.node)
        self._follow_up(info)

    def _follow_up(self, info: PodInfo) -> Pod | None:
        """What the server shows after the writes; a pod that came and went meanwhile leaves now."""
        current = self._informers.of(Pod).get(info.key)
        if current is None or current.metadata is None or current.metadata.uid != info.uid or is_finished(current):
            self._tracker.leave(info.uid)
            return None
        return current

    async def _binding_failed(self, waiting: Waiting, placement: Placement, why: str) -> bool:
        """Undo; True when the pod turns out to be bound as planned."""
        info = waiting.info
        node = await self._binder.landed_on(info)
        if node == placement.node:
            return True
        await self._binder.discard_extended(info)
        self._undo(waiting, placement, node, why)
        return False

    def _undo(self, waiting: Waiting, placement: Placement, node: str | None, why: str) -> None:
        info = waiting.info
        self._take_back(info, placement)
        now = self.clock.monotonic()  # what the pod would have taken is free for others
        hints.pod_gone(self.queue, info, None, now)
        hints.devices_changed(self.queue, now)
        self._wake.set()
        current = self._follow_up(info)
        if node == "" and current is not None and self._is_free(current):
            waiting.info = info.with_version(current)
            self._failed(waiting, why)

    def _is_free(self, pod: Pod) -> bool:
        return not (pod.spec and pod.spec.nodeName) and not is_deleting(pod)

    # -- no node

    def _failed(self, waiting: Waiting, message: str) -> None:
        now = self.clock.monotonic()
        self.metrics.attempted(ERROR, waiting, now)
        self.queue.failed(waiting, now)
        self._reporter.not_placed(waiting.info, "SchedulerError", message)
        self._wake.set()

    def _rejected(self, waiting: Waiting, diagnosis: Diagnosis, attempt: Attempt | None) -> None:
        info, now = waiting.info, self.clock.monotonic()
        self.metrics.attempted(UNSCHEDULABLE, waiting, now)
        nominated = "" if diagnosis.settled else self._post_filter(info, diagnosis, attempt)
        plugins = diagnosis.plugins or frozenset((hints.NO_NODES,))
        self.queue.unschedulable(waiting, plugins, now, self.state.claims.keys_of(info))
        self._reporter.not_placed(info, "Unschedulable", diagnosis.message(), nominated=nominated)

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
                count = f"preempting {self._go_ahead(info, found)} victims"
                self._outrank(info, found.node)
                nominated = found.node
                diagnosis.advice = waits_for(found.victims, info.namespace)
                said.append(f"preemption: found a potential placement for pod on node {found.node}, {count}")
            elif text:
                said.append(text)
                nominated = None if "terminating pod" in text else ""
        if not nominated and nominated is not None:
            self._tracker.withdraw(info.uid)
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
            self._spawn(self._quietly(self._binder.writer.delete(key_of(claim), uid_of(claim)), info))
            return "deletion of ResourceClaim completed"
        if not devices.allocated:
            return ""
        for claim in self._unusable(attempt):
            if allocation_of(claim) is not None and self.state.claims.consumers(claim) <= {info.uid}:
                self._spawn(self._quietly(self._binder.writer.deallocate(claim), info))
                return "deallocation of ResourceClaim completed"
        return ""

    def _unusable(self, attempt: Attempt) -> list[ResourceClaim]:
        """Allocated claims that keep the pod from some node."""
        found: dict[str, ResourceClaim] = {}
        for node in self.state.nodes:
            if attempt.fits.bits >> node.slot & 1 and node.name not in attempt.failures:
                found.update((uid_of(claim), claim) for claim in attempt.devices.unavailable(node))
        return list(found.values())

    async def _quietly(self, work: Any, info: PodInfo) -> None:
        try:
            await work
        except StatusError as error:
            log.warning("releasing a claim for pod %s: %s", info.key, error)

    def _go_ahead(self, info: PodInfo, found: Preemption, group: str = "") -> int:
        """The pod waits for its victims, which are told to go; each once, however many wait for it. `group`: in whose name.
        The number of those told now."""
        state = self.state
        state.nominate(info, found.node, found.claims, found.holds)
        state.leaving &= state.nodes.placed.keys()
        told = [victim for victim in found.victims if not is_deleting(victim.pod) and victim.uid not in state.leaving]
        state.leaving.update(victim.uid for victim in told)
        self.metrics.preemption_victims.observe(len(told))
        self._spawn(self._evict(info, told, found.node, group))
        return len(told)

    def _outrank(self, info: PodInfo, node: str) -> None:
        """Pods of lower priority that wait for the same node may not fit there any more: they look for another one at once."""
        now = self.clock.monotonic()
        for promise in list(self.state.nominated.values()):
            if promise.node == node and promise.info.priority < info.priority:
                self._tracker.withdraw(promise.info.uid)
                if (waiting := self.queue.get(promise.info.uid)) is not None:
                    self._reporter.not_nominated(waiting.info)
                    self.queue.activate(waiting, now)

    async def _evict(self, info: PodInfo, victims: list[PodInfo], node: str, group: str) -> None:
        preemptor = self.state.groups.get(group)
        kind, related, where = ("podgroup", preemptor, "cluster") if preemptor else ("pod", info.pod, node)
        uid = preemptor.metadata.uid if preemptor and preemptor.metadata else info.uid
        text = f"Preempted by {kind} {uid} on node {where}"
        results = await asyncio.gather(*(self._evict_one(victim, kind) for victim in victims), return_exceptions=True)
        for victim, result in zip(victims, results, strict=True):
            if result is True:
                self._recorder.event(victim.pod, "Normal", "Preempted", text, action="Preempting", related=related)
            elif isinstance(result, Exception):
                log.warning("preempting pod %s: %s", victim.key, result)
                self.state.leaving.discard(victim.uid)
                self._again_later(info)  # nothing will come free, so no event will wake it

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
            await self._client.patch(
                Pod, victim.name, change, namespace=victim.namespace, kind="strategic", subresource="status"
            )
            await self._client.delete(Pod, victim.name, namespace=victim.namespace, uid=victim.uid)
        except StatusError as error:
            if error.code != 404:
                raise
            return False
        return True

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a write in the background failed", exc_info=task.exception())
        if len(self._tasks) - self._binder.awaiting == BINDINGS - 1 or not self._tasks:
            self._wake.set()
