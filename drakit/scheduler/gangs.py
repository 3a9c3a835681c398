"""Attempts at pod groups: all their pods that wait are decided on together, in assumed state; enough of them fit, or none is placed.

What the group is and how it counts is told in `groups`; what it shares with single pods in `cycle`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from itertools import chain

from lightkube.models.resource_v1 import ResourceClaim
from lightkube.models.scheduling_v1beta1 import PodGroup

from drakit.api.errors import StatusError
from drakit.api.times import timestamp
from drakit.scheduler import groups, hints
from drakit.scheduler.claims import allocation_of, key_of, uid_of
from drakit.scheduler.cycle import Cycle
from drakit.scheduler.decide import Placement
from drakit.scheduler.metrics import UNSCHEDULABLE
from drakit.scheduler.outcome import Diagnosis
from drakit.scheduler.pods import PodInfo
from drakit.scheduler.preemption import NEVER, TERMINATING, Preemption, preempt, waits_for
from drakit.scheduler.queue import Waiting
from drakit.scheduler.state import Promise

log = logging.getLogger(__name__)


class Gangs:
    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        self.state, self.queue, self.clock, self.metrics = cycle.state, cycle.queue, cycle.clock, cycle.metrics
        self._groups = cycle.tracker.groups
        self._releasing: set[str] = set()  # keys of groups whose claims are being given back

    def attempt(self, first: Waiting, key: str) -> None:
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
                self._cycle.take_back(waiting.info, placement)
            for waiting in gang:
                self._cycle.failed(waiting, f"internal error: {error}")

    def _try_gang(self, key: str, trial: groups.Trial, gang: list[Waiting]) -> None:
        members = self._groups.members.get(key, {})
        placed = (node.pods[uid] for uid in members if (node := self.state.nodes.placed.get(uid)) is not None)
        policies = self.state.gates.enabled("PodGroupPreemptionPolicy")
        if why := self._groups.mismatch(key, [*(waiting.info for waiting in gang), *placed], policies=policies):
            for waiting in gang:
                self._cycle.failed(waiting, why)
            self._cycle.spawn(self._tell_group(key, why, reason="SchedulerError"))
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
                self._cycle.failed(waiting, outcome)
            else:
                self._member_waits(waiting, outcome.plugins | {groups.PLUGIN}, outcome.message())
                self.queue.activate(waiting, self.clock.monotonic())  # as a group of its own it may preempt
        self._promises_over(promises)
        self._cycle.spawn(self._bind_gang(key, trial.placed))

    def _promises_over(self, promises: Mapping[str, Promise]) -> None:
        if promises:
            hints.promise_over(self.queue, self.clock.monotonic())

    def _try_member(self, trial: groups.Trial, waiting: Waiting) -> None:
        outcome, attempt = self._cycle.decide(waiting)
        if isinstance(outcome, Placement):
            self._cycle.assume(waiting.info, outcome)
            trial.placed.append((waiting, outcome))
        else:
            trial.left.append((waiting, outcome, attempt))

    # -- no place

    def _give_up_gang(
        self, key: str, trial: groups.Trial, rest: list[Waiting], promises: Mapping[str, Promise]
    ) -> None:
        """Take back what was assumed; with victims enough for the whole gang, wait for them."""
        reason = trial.message(len(rest))
        plans, refused = self._preempt_for_gang(trial, rest)
        for waiting, placement in trial.placed:
            self._cycle.take_back(waiting.info, placement)
        if refused == groups.ONGOING:
            self.state.nominated.update(promises)
        else:
            self._promises_over(promises)
            if not plans:
                self._release_gang(key, trial, rest)
        told_to_go = sum(self._cycle.go_ahead(info, plan, key) for info, plan in plans)
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
                self._cycle.failed(waiting, outcome)
            else:
                self._member_waits(waiting, plugins, outcome.message())
        untried = {waiting.info.uid for waiting in rest}
        others = {waiting.info.uid: waiting for waiting in [*(waiting for waiting, _ in trial.placed), *rest]}
        for waiting in others.values():
            text = reason if waiting.info.uid in untried else told
            self._member_waits(waiting, plugins, f"{text}{advice}")
        self._cycle.spawn(self._tell_group(key, f"{summary}{advice}"))

    def _member_waits(self, waiting: Waiting, plugins: frozenset[str], message: str) -> None:
        info, now = waiting.info, self.clock.monotonic()
        promise = self.state.nominated.get(info.uid)
        self.metrics.attempted(UNSCHEDULABLE, waiting, now)
        self._member_returns(waiting, plugins)
        self._cycle.reporter.not_placed(info, "Unschedulable", message, nominated=promise.node if promise else "")

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
            unusable = self._cycle.unusable(attempt) if attempt is not None else []
            found.update((uid_of(claim), claim) for claim in unusable if not claims.consumers(claim))
        leftovers = [claim for uid in infos if (claim := claims.extended_claim(uid)) is not None]
        if found or leftovers:
            self._releasing.add(key)
            self._cycle.spawn(self._give_back(key, list(infos.values()), list(found.values()), leftovers))

    async def _give_back(
        self, key: str, gang: list[PodInfo], claims: list[ResourceClaim], leftovers: list[ResourceClaim]
    ) -> None:
        """The gang is not tried meanwhile; nor is anything taken from a pod that has been bound and we do not know it."""
        try:
            landed = await asyncio.gather(*(self._cycle.binder.landed_on(info, sure=True) for info in gang))
            if not any(landed):
                for claim in claims:
                    await self._cycle.quietly(self._cycle.binder.writer.deallocate(claim), gang[0])
                for claim in leftovers:
                    await self._cycle.quietly(self._cycle.binder.writer.delete(key_of(claim), uid_of(claim)), gang[0])
        except StatusError as error:
            log.warning("releasing the claims of pod group %s: %s", key, error)
        finally:
            self._releasing.discard(key)
            for info in gang:
                self._cycle.again_later(info)

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
            outcome, attempt = self._cycle.decide(waiting)
            if isinstance(outcome, Placement):
                self._cycle.assume(waiting.info, outcome)
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

    # -- binding

    async def _bind_gang(self, key: str, placed: list[tuple[Waiting, Placement]]) -> None:
        """Every pod's claims first; only when all are written does the first pod get its node."""
        for waiting, _ in placed:
            await self._cycle.reporter.settled(waiting.info.uid)
        results = await asyncio.gather(
            *(self._cycle.binder.prebind(waiting.info, placement) for waiting, placement in placed),
            return_exceptions=True,
        )
        failed = next((result for result in results if isinstance(result, BaseException)), None)
        if failed is not None:
            nodes = await asyncio.gather(*(self._cycle.binder.landed_on(waiting.info) for waiting, _ in placed))
            outcomes = [(*each, node) for each, node in zip(placed, nodes, strict=True)]
            lost = (waiting.info for waiting, placement, node in outcomes if node != placement.node)
            await asyncio.gather(*map(self._cycle.binder.discard_extended, lost))
            for waiting, placement, node in outcomes:  # all at once: none is left to count as there
                if node == placement.node:
                    self._cycle.landed(waiting, placement)
                else:
                    self._cycle.undo(waiting, placement, node, f"{groups.UNSCHEDULABLE}: {failed}")
            await self._tell_group(key, str(failed), reason="SchedulerError")
            return
        await asyncio.gather(*(self._cycle.bind(waiting, placement, prepared=True) for waiting, placement in placed))
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
            await self._cycle.client.patch(
                PodGroup, name, patch, namespace=namespace, kind="strategic", subresource="status"
            )
        except StatusError as error:
            log.warning("writing the condition of pod group %s: %s", key, error)
