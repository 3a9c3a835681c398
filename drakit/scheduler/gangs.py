"""Attempts at pod groups: all pods of a tree of groups that wait are decided on together, in assumed state; enough fit, or none is placed.

Who belongs together is told in `groups`, where they go in `placements`; what is shared with single pods in `cycle`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from itertools import chain

from lightkube.models.resource_v1 import ResourceClaim
from lightkube.models.scheduling_v1beta1 import PodGroup

from drakit.api.errors import StatusError
from drakit.api.times import timestamp
from drakit.scheduler import groups, hints
from drakit.scheduler.claims import PLUGIN as DEVICES
from drakit.scheduler.claims import allocation_of, key_of, uid_of
from drakit.scheduler.cycle import Cycle
from drakit.scheduler.decide import Placement
from drakit.scheduler.group_preemption import preempt_for
from drakit.scheduler.groups import UNSCHEDULABLE
from drakit.scheduler.hierarchy import Group, Ref
from drakit.scheduler.metrics import UNSCHEDULABLE as REJECTED
from drakit.scheduler.outcome import Diagnosis
from drakit.scheduler.placements import Placements
from drakit.scheduler.pods import PodInfo
from drakit.scheduler.preemption import waits_for
from drakit.scheduler.queue import Waiting
from drakit.scheduler.state import Promise
from drakit.scheduler.tree import Part, Result

log = logging.getLogger(__name__)


class Gangs:
    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        self.state, self.queue, self.clock, self.metrics = cycle.state, cycle.queue, cycle.clock, cycle.metrics
        self._groups = cycle.tracker.groups
        self._releasing: set[Ref] = set()  # roots of trees whose claims are being given back

    def attempt(self, first: Waiting, key: str) -> None:
        """All pods that wait in the tree of the group, together. None of them preempts alone."""
        root = self.state.hierarchy.root((False, key))
        if root is None:
            first.attempts -= 1
            self._cycle.tracker.gate(first)
            return
        others = [w for uid in self._groups.of_tree(root) if (w := self.queue.get(uid)) is not None]
        if root in self._releasing or any(waiting.gate for waiting in others):  # one that is gated stops them all
            first.attempts -= 1
            for waiting in (first, *(each for each in others if not each.gate)):
                self._cycle.tracker.withdraw(waiting.info.uid)
                self._cycle.returns(waiting, frozenset((groups.PLUGIN,)))
            return
        gang = [first, *(w for each in others if (w := self.queue.take(each.info.uid)) is not None)]
        gang.sort(key=lambda waiting: waiting.first_seen)
        placements = Placements(self._cycle)
        try:
            self._try(self._part(root, gang), placements)
        except Exception as error:  # as for a pod
            log.exception("pod group %s: the attempt failed", root[1])
            placements.take_back(placements.assumed)
            for waiting in gang:
                self._cycle.failed(waiting, f"internal error: {error}")

    def _part(self, ref: Ref, gang: Sequence[Waiting]) -> Part:
        by_group: dict[str | None, list[Waiting]] = {}
        for waiting in gang:
            by_group.setdefault(waiting.info.group, []).append(waiting)
        return self._subtree(ref, by_group)

    def _subtree(self, ref: Ref, gang: Mapping[str | None, list[Waiting]]) -> Part:
        tree = self.state.hierarchy
        made = Part(ref, tree.needed(ref), tree.topology(ref))
        if ref[0]:
            made.children = [self._subtree(child, gang) for child in tree.children(ref)]
            return made
        made.waiting = gang.get(ref[1], [])
        for uid in self._groups.members.get(ref[1], ()):
            if (node := self.state.nodes.placed.get(uid)) is not None:
                made.there.append((node.pods[uid], node))
        return made

    def _try(self, part: Part, placements: Placements) -> None:
        root = self.state.hierarchy.get(part.ref)
        assert root is not None
        leaves = list(part.leaves())
        infos = [*(w.info for leaf in leaves for w in leaf.waiting), *(i for leaf in leaves for i, _ in leaf.there)]
        policies = self.state.gates.enabled("PodGroupPreemptionPolicy")
        if why := self._groups.mismatch(root, infos, policies=policies):
            self._failed(Result(part, error=why))
            return
        promises = {i.uid: promise for i in infos if (promise := self.state.nominated.get(i.uid)) is not None}
        for uid in promises:
            self.state.withdraw(uid)  # what was promised to one is there for all of them now
        result = placements.place(part)
        if result.ok and not placements.assumed:
            result.ok, result.whole = False, True  # at least one pod has to be placed
        if result.error:
            self._failed(result)
        elif not result.ok:
            self._give_up(root, result, promises)
            return
        else:
            self._go(result, placements)
        self._promises_over(promises)

    def _promises_over(self, promises: Mapping[str, Promise]) -> None:
        if promises:
            hints.promise_over(self.queue, self.clock.monotonic())

    def _failed(self, result: Result) -> None:
        """An error for all of them; pods with an error of their own say that."""
        for leaf in result.leaves():
            own = {w.info.uid: outcome for w, outcome, _ in leaf.left if isinstance(outcome, str)}
            for waiting in leaf.part.waiting:
                self._cycle.failed(waiting, own.get(waiting.info.uid, leaf.message()))
            self._cycle.spawn(self._tell(leaf.part.ref, leaf.message(), reason="SchedulerError"))

    def _go(self, result: Result, placements: Placements) -> None:
        """Bind what is assumed; the others wait, or preempt as a group of their own."""
        plugins, advice = self._plugins(result), result.advice()
        for leaf in result.leaves():
            if not leaf.ok:
                self._leaf_waits(leaf, plugins, leaf.message(), advice=leaf.advice() or advice)
                self._cycle.spawn(self._tell(leaf.part.ref, f"{leaf.message()}{leaf.advice() or advice}"))
            for waiting, outcome, _ in leaf.left if leaf.ok else ():
                if isinstance(outcome, str):
                    self._cycle.failed(waiting, outcome)
                else:
                    self._member_waits(waiting, outcome.plugins | {groups.PLUGIN}, outcome.message())
            for waiting in leaf.part.waiting:
                if waiting.info.uid not in placements.assumed:
                    self.queue.activate(waiting, self.clock.monotonic())
        for info, _ in placements.assumed.values():
            self._cycle.came(info)
        done = [leaf.part.ref for leaf in result.leaves() if leaf.ok]
        self._cycle.spawn(self._bind(done, list(result.assumed())))

    # -- no place

    def _give_up(self, root: Group, result: Result, promises: Mapping[str, Promise]) -> None:
        """Nothing is assumed any more; with victims enough for the whole tree, wait for them."""
        self.metrics.preemption_attempts.inc()
        plan = preempt_for(self._cycle, root, result, promises)
        said = plan.refused
        if said == groups.ONGOING:
            self.state.nominated.update(promises)
        else:
            self._promises_over(promises)
            if not plan.victims:
                self._release(result)
        told_to_go = sum(self._cycle.go_ahead(info, found, root) for info, found in plan.victims)
        for info, node in plan.seats:
            self.state.nominate(info, node)  # kept for it until the others' victims have left
        advice = result.advice()
        if plan.victims:
            said = f"found a placement for podgroup, preempting {told_to_go} victims"
            namespace = result.part.ref[1].split("/")[0]
            waiting_for = waits_for(chain.from_iterable(found.victims for _, found in plan.victims), namespace)
            advice = f" [{waiting_for}]"
            for leaf in result.leaves():
                for _, outcome, _ in leaf.left:
                    if isinstance(outcome, Diagnosis):
                        outcome.advice = waiting_for
        waits = bool(plan.victims) or said == groups.ONGOING
        silent = waits or said == groups.NO_VICTIMS or result.part.ref[0] or self._follows_topology(result.part)
        postfilter = f"{'' if silent else f'{groups.RELEASED}, '}pod group preemption: {said}"
        plugins = self._plugins(result)
        for leaf in result.leaves():
            summary = f"{leaf.message()}, {postfilter}"
            told = summary if waits else f"{UNSCHEDULABLE}, {summary}"
            self._leaf_waits(leaf, plugins, told, advice=advice)
            self._cycle.spawn(self._tell(leaf.part.ref, f"{summary}{advice}"))

    def _follows_topology(self, part: Part) -> bool:
        """As Kubernetes sees it: the group has constraints, whatever they say."""
        group = self.state.hierarchy.get(part.ref)
        constrained = group is not None and group.spec is not None and group.spec.schedulingConstraints is not None
        return constrained and self.state.gates.enabled("TopologyAwareWorkloadScheduling")

    def _leaf_waits(self, leaf: Result, plugins: frozenset[str], told: str, *, advice: str) -> None:
        """`told`: what pods hear that would have had a place."""
        for waiting, outcome, _ in leaf.left:
            if isinstance(outcome, str):
                self._cycle.failed(waiting, outcome)
            else:
                self._member_waits(waiting, plugins, outcome.message())
        for waiting, _ in leaf.placed:
            self._member_waits(waiting, plugins, f"{told}{advice}")
        for waiting in leaf.untried:
            self._member_waits(waiting, plugins, f"{leaf.message()}{advice}")

    def _plugins(self, result: Result) -> frozenset[str]:
        """Who rejected any of them, and who may have stood in the way of finding victims for them. Of the domains that were tried
        only one is told of, so events that could help others count too."""
        found = result.plugins() | {groups.PLUGIN}
        if self.state.gates.enabled("TopologyAwareWorkloadScheduling") and result.part.constrained():
            found |= {hints.NO_NODES, "NodeResourcesFit", "NodePorts"}
        if any(self.state.takes_devices(w.info) for leaf in result.part.leaves() for w in leaf.waiting):
            found |= {DEVICES}
        return found

    def _member_waits(self, waiting: Waiting, plugins: frozenset[str], message: str) -> None:
        info = waiting.info
        promise = self.state.nominated.get(info.uid)
        self.metrics.attempted(REJECTED, waiting, self.clock.monotonic())
        self._cycle.returns(waiting, plugins)
        self._cycle.reporter.not_placed(info, "Unschedulable", message, nominated=promise.node if promise else "")

    def _release(self, result: Result) -> None:
        """What earlier attempts wrote for pods that find no place is given back: allocations that nobody but they have reserved (or
        their group, while none of its pods is placed), and those that nobody has and no node can use."""
        claims, root = self.state.claims, result.part.ref
        infos, own = [], set[str]()
        for part in result.part.leaves():
            infos += [waiting.info for waiting in part.waiting]
            group = self.state.groups[part.ref[1]]
            if group.metadata is not None and not part.there:
                own.add(group.metadata.uid or "")
        own.update(info.uid for info in infos)
        found: dict[str, ResourceClaim] = {}
        for info in infos:
            for claim_key in claims.keys_of(info):
                claim = claims.stored.get(claim_key)
                if claim is not None and allocation_of(claim) is not None and (users := claims.consumers(claim)):
                    found.update({uid_of(claim): claim} if users <= own else {})
        for leaf in result.leaves():
            for _, _, attempt in leaf.left:
                unusable = self._cycle.unusable(attempt) if attempt is not None else []
                found.update((uid_of(claim), claim) for claim in unusable if not claims.consumers(claim))
        leftovers = [claim for info in infos if (claim := claims.extended_claim(info.uid)) is not None]
        if found or leftovers:
            self._releasing.add(root)
            self._cycle.spawn(self._give_back(root, infos, list(found.values()), leftovers))

    async def _give_back(
        self, root: Ref, gang: list[PodInfo], claims: list[ResourceClaim], leftovers: list[ResourceClaim]
    ) -> None:
        """The gang is not tried meanwhile; nor is anything taken from a pod that has been bound and we do not know it."""
        binder, quietly = self._cycle.binder, self._cycle.quietly
        try:
            landed = await asyncio.gather(*(binder.landed_on(info, sure=True) for info in gang))
            if not any(landed):
                for claim in claims:
                    await quietly(binder.writer.deallocate(claim), gang[0])
                for claim in leftovers:
                    await quietly(binder.writer.delete(key_of(claim), uid_of(claim)), gang[0])
        except StatusError as error:
            log.warning("releasing the claims of pod group %s: %s", root[1], error)
        finally:
            self._releasing.discard(root)
            for info in gang:
                self._cycle.again_later(info)

    # -- binding

    async def _bind(self, leaves: Sequence[Ref], placed: list[tuple[Waiting, Placement]]) -> None:
        """Every pod's claims first; only when all are written does the first pod get its node."""
        cycle = self._cycle
        for waiting, _ in placed:
            await cycle.reporter.settled(waiting.info.uid)
        results = await asyncio.gather(
            *(cycle.binder.prebind(waiting.info, placement) for waiting, placement in placed), return_exceptions=True
        )
        failed = next((result for result in results if isinstance(result, BaseException)), None)
        if failed is not None:
            nodes = await asyncio.gather(*(cycle.binder.landed_on(waiting.info) for waiting, _ in placed))
            outcomes = [(*each, node) for each, node in zip(placed, nodes, strict=True)]
            lost = (waiting.info for waiting, placement, node in outcomes if node != placement.node)
            await asyncio.gather(*map(cycle.binder.discard_extended, lost))
            for waiting, placement, node in outcomes:  # all at once: none is left to count as there
                if node == placement.node:
                    cycle.landed(waiting, placement)
                else:
                    cycle.undo(waiting, placement, node, f"{UNSCHEDULABLE}: {failed}")
            for ref in leaves:
                await self._tell(ref, str(failed), reason="SchedulerError")
            return
        await asyncio.gather(*(cycle.bind(waiting, placement, prepared=True) for waiting, placement in placed))
        for ref in leaves:
            await self._tell(ref, "")

    async def _tell(self, ref: Ref, message: str, reason: str = "Unschedulable") -> None:
        """A PodGroup's condition."""
        group = self.state.groups.get(ref[1])
        reason = reason if message else "Scheduled"
        patch = (
            groups.condition_patch(group, timestamp(self.clock.now()), message=message, reason=reason)
            if group
            else None
        )
        if patch is None:
            return
        namespace, name = ref[1].split("/", 1)
        try:
            await self._cycle.client.patch(
                PodGroup, name, patch, namespace=namespace, kind="strategic", subresource="status"
            )
        except StatusError as error:
            log.warning("writing the condition of pod group %s: %s", ref[1], error)
