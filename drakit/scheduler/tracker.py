"""Keeping the scheduler's state and queue in step with the API server: what every event means, and whom it may help.

Pods that this scheduler has placed in memory (`assumed`) count as placed until the server shows them bound; while their writes
are under way (`binding`), the end of a pod waits for the end of the writes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from lightkube.models.core_v1 import Namespace, Node, Pod
from lightkube.models.policy_v1 import PodDisruptionBudget
from lightkube.models.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from lightkube.models.scheduling_v1alpha3 import CompositePodGroup
from lightkube.models.scheduling_v1beta1 import PodGroup

from drakit.api.errors import StatusError
from drakit.client import Client, Informers
from drakit.clock import Clock
from drakit.scheduler import groups, hints
from drakit.scheduler.claims import ClaimLookupError, allocation_of, extended_owner, key_of
from drakit.scheduler.extended import IMPLICIT_PREFIX
from drakit.scheduler.hierarchy import Group, Ref, ref_of
from drakit.scheduler.pods import DEFAULT_SCHEDULER, PodInfo, is_deleting, is_finished
from drakit.scheduler.queue import SchedulingQueue, Waiting
from drakit.scheduler.state import State, disruptions_allowed

log = logging.getLogger(__name__)


class Tracker:
    def __init__(
        self,
        state: State,
        queue: SchedulingQueue,
        clock: Clock,
        name: str,
        *,
        wake: Callable[[], None],
        watched: Callable[[], None],
    ) -> None:
        self.state, self.queue, self.clock, self.name = state, queue, clock, name
        self.groups = groups.Groups(state.hierarchy)
        self.gangs = state.gates.enabled("GenericWorkload")
        self.assumed: set[str] = set()  # UIDs of pods placed in memory, until the server shows them bound
        self.binding: set[str] = set()  # those of them whose writes are under way
        self._wake = wake
        self._watched = watched  # a claim's devices changed: somebody may wait for a binding condition
        self._handlers: list[Callable[[], None]] = []

    def stop(self) -> None:
        for remove in self._handlers:
            remove()
        self._handlers.clear()

    async def follow(self, informers: Informers, client: Client) -> None:
        """Subscribe, the things that pods depend on first, each synced before pods are decided."""
        followed: list[Any] = [
            (
                Namespace,
                self.state.set_namespace,
                lambda _, new: self.state.set_namespace(new),
                self.state.remove_namespace,
            ),
            (Node, self._node_set, lambda _, new: self._node_set(new), self._node_gone),
            (DeviceClass, self._class_set, lambda _, new: self._class_set(new), self._class_gone),
            (ResourceSlice, self._slice_set, lambda _, new: self._slice_set(new), self._slice_gone),
            (DeviceTaintRule, self._rule_set, lambda _, new: self._rule_set(new), self._rule_gone),
            (PodDisruptionBudget, self._budget_set, lambda _, new: self._budget_set(new), self._budget_gone),
            (ResourceClaim, lambda new: self._claim_set(None, new), self._claim_set, self._claim_gone),
            (Pod, lambda new: self._pod_set(None, new), self._pod_set, self._pod_gone),
        ]
        if not self.state.gates.enabled("DRADeviceTaintRules"):
            followed = [each for each in followed if each[0] is not DeviceTaintRule]
        if self.gangs:
            kinds = (PodGroup, CompositePodGroup) if self.state.hierarchy.nested else (PodGroup,)
            for kind in kinds:
                group: Any = (kind, self._group_set, lambda _, new: self._group_set(new), self._group_gone)
                followed.insert(-1, group)
        for model, added, updated, deleted in followed:
            if not await self._is_served(client, model):
                log.info("the server does not serve %s; going on without", model.__name__)
                continue
            informer = informers.of(model)
            await informer.synced.wait()
            self._handlers.append(informer.add_handler(added, updated, deleted))

    async def _is_served(self, client: Client, model: Any) -> bool:
        if model not in (
            DeviceTaintRule,
            PodGroup,
            CompositePodGroup,
        ):  # older clusters have it in older versions only, or not at all
            return True
        try:
            await client.list(model)
            return True
        except StatusError as error:
            return error.code != 404

    # -- pods

    def _pod_set(self, old: Pod | None, pod: Pod) -> None:
        assert pod.metadata is not None
        assert pod.spec is not None
        uid = pod.metadata.uid or ""
        if is_finished(pod):
            self.leave(uid)
        elif pod.spec.nodeName:
            self._bound(old, pod, uid)
        elif uid not in self.assumed:
            self._unbound(old, pod, uid)

    def _bound(self, old: Pod | None, pod: Pod, uid: str) -> None:
        assert pod.spec is not None
        node = pod.spec.nodeName or ""
        self.queue.delete(uid)
        self.withdraw(uid)
        self.assumed.discard(uid)
        known, now = self.state.nodes.placed.get(uid), self.clock.monotonic()
        before = known.pods[uid] if known is not None else None
        if known is not None and before is not None and known.name == node and _same_needs(before.pod, pod):
            known.pods[uid] = before.with_version(pod)
            return
        info = PodInfo(pod)
        self._join(info)
        self.state.place(info, node)
        hints.pod_came(self.queue, now)
        if before is not None and before.requests != info.requests:
            hints.pod_gone(self.queue, self.state.static, before, known, now)  # what it needed before
        self._wake()

    def _unbound(self, old: Pod | None, pod: Pod, uid: str) -> None:
        if ((pod.spec and pod.spec.schedulerName) or DEFAULT_SCHEDULER) != self.name:
            return
        if is_deleting(pod):
            self.leave(uid)
            return
        waiting = self.queue.get(uid)
        now = self.clock.monotonic()
        if waiting is None:
            info = PodInfo(pod)
            waiting = self.queue.add(info, now)
            if self.gangs:
                self._join(info)
            if info.nominated_node:
                self.state.nominate(info, info.nominated_node)
        else:
            before = waiting.info
            info = before.with_version(pod) if _same_needs(before.pod, pod) else PodInfo(pod)
            self.queue.replace(info)
            if waiting.gate or info.static_shape != before.static_shape or info.requests != before.requests:
                self.queue.activate(waiting, now)
        self.gate(waiting)
        self._wake()

    def gate(self, waiting: Waiting) -> None:
        """PreEnqueue: pods with scheduling gates, and pods whose claims are not there, are not tried. Nothing is kept for them."""
        why, keys = self._gate_of(waiting.info)
        if why:
            self.queue.gate(waiting, why, keys)
            self.withdraw(waiting.info.uid)

    def _gate_of(self, info: PodInfo) -> tuple[str, Iterable[str]]:
        gates = (info.pod.spec.schedulingGates if info.pod.spec else None) or ()
        if self.gangs and (why := self.groups.gate(info)):
            return why, ()
        if gates:
            names = " ".join(gate.name for gate in gates)
            return f"waiting for scheduling gates: [{names}]", ()
        if info.claims:
            try:
                self.state.claims.of(info)
            except ClaimLookupError as error:
                return str(error), error.keys
        return "", ()

    def _join(self, info: PodInfo) -> None:
        if self.groups.join(info) and not self.groups.gate(info):  # later ones take the others along
            self._wake_tree((False, info.group or ""))

    def _wake_tree(self, ref: Ref) -> None:
        """A group is complete, came or changed: its pods, and those of all groups with the same root, may be let go."""
        root, now = self.state.hierarchy.root(ref), self.clock.monotonic()
        for uid in list(self.groups.of_tree(root)) if root is not None else ():
            waiting = self.queue.get(uid)
            if waiting is not None and (waiting.gate or groups.PLUGIN in waiting.plugins):
                self.queue.activate(waiting, now)
                self.gate(waiting)
        self._wake()

    def _group_set(self, group: Group) -> None:
        known = self.state.hierarchy.get(ref_of(group))
        ref = self.state.hierarchy.set(group)
        if known is None or known.spec != group.spec:  # what is told of it in its status concerns nobody
            self.groups.changed(ref)
            self._wake_tree(ref)

    def _group_gone(self, group: Group) -> None:
        """Pods below it are not tried until it is there again; the others of its tree may have to wait without them."""
        hierarchy, ref = self.state.hierarchy, ref_of(group)
        self.groups.changed(ref)
        root = hierarchy.root(ref)
        uids = list(self.groups.of_tree(root)) if root is not None else []
        hierarchy.remove(group)
        for uid in uids:
            if (waiting := self.queue.get(uid)) is not None:
                self.gate(waiting)

    def _pod_gone(self, pod: Pod) -> None:
        assert pod.metadata is not None
        self.leave(pod.metadata.uid or "")

    def leave(self, uid: str) -> None:
        """The pod is gone or has finished: it waits for nothing and takes nothing."""
        self.groups.leave(uid)
        waiting = self.queue.get(uid)
        gated = waiting.gate if waiting is not None else ""
        self.queue.delete(uid)
        if waiting is not None and gated and self.gangs and waiting.info.group is not None:
            self._wake_tree((False, waiting.info.group))  # it kept the others waiting
        self.withdraw(uid)
        if uid in self.binding:
            return  # the writes come to an end first, and clean up
        self.assumed.discard(uid)
        node = self.state.nodes.placed.get(uid)
        if node is None:
            return
        info = node.pods[uid]
        self.state.displace(uid)
        hints.pod_gone(self.queue, self.state.static, info, node, self.clock.monotonic())
        self._come_free(uid)
        self._wake()

    def _come_free(self, key: str) -> None:
        """A victim or a claim of one: whoever waits for it may be next, whatever else had been in the way."""
        for waiting in self.queue.waiting_for(key):
            if not waiting.gate:
                self.queue.activate(waiting, self.clock.monotonic())

    def withdraw(self, uid: str) -> None:
        """A pod that waited for its victims is placed, or wants nothing any more: others had to leave everything there to it."""
        if self.state.withdraw(uid):
            hints.promise_over(self.queue, self.clock.monotonic())
            self._wake()

    # -- nodes, devices

    def _node_set(self, node: Node) -> None:
        if self.state.set_node(node):
            assert node.metadata is not None
            found = self.state.nodes.by_name[node.metadata.name or ""]
            hints.node_changed(self.queue, self.state.static, found, self.clock.monotonic())
            self._not_there(found.name, lambda info: self.state.static.rejection(info, found) is not None)
            self._wake()

    def _node_gone(self, node: Node) -> None:
        assert node.metadata is not None
        name = node.metadata.name or ""
        self.state.remove_node(name)
        hints.node_gone(self.queue, self.clock.monotonic())
        self._not_there(name, lambda info: True)
        self._wake()

    def _not_there(self, node: str, barred: Callable[[PodInfo], bool]) -> None:
        """Pods that wait for victims to leave a node which they cannot go to any more look for another one: victims on a node that
        is lost may never leave."""
        for uid, promise in list(self.state.nominated.items()):
            if promise.node == node and barred(promise.info) and (waiting := self.queue.get(uid)) is not None:
                self._try_again(waiting, self.clock.monotonic())

    def _devices_changed(self) -> None:
        hints.devices_changed(self.queue, self.clock.monotonic())
        self._wake()

    def _slice_set(self, slice_: ResourceSlice) -> None:
        self.state.set_slice(slice_)
        self._devices_changed()

    def _slice_gone(self, slice_: ResourceSlice) -> None:
        assert slice_.metadata is not None
        self.state.remove_slice(slice_.metadata.name or "")
        self._devices_changed()  # an incomplete pool may be complete without it

    def _class_set(self, device_class: DeviceClass) -> None:
        assert device_class.metadata is not None
        self.state.set_class(device_class)
        spec = device_class.spec
        names = {f"{IMPLICIT_PREFIX}{device_class.metadata.name}", (spec.extendedResourceName if spec else None) or ""}
        hints.classes_changed(self.queue, names, self.clock.monotonic())
        self._wake()

    def _class_gone(self, device_class: DeviceClass) -> None:
        assert device_class.metadata is not None
        self.state.remove_class(device_class.metadata.name or "")
        resource = (device_class.spec.extendedResourceName if device_class.spec else None) or ""
        if self.state.resources.class_name(resource) is not None:  # an older class takes over
            hints.classes_changed(self.queue, {resource}, self.clock.monotonic())
            self._wake()

    def _rule_set(self, rule: DeviceTaintRule) -> None:
        if self.state.set_rule(rule):
            self._devices_changed()

    def _rule_gone(self, rule: DeviceTaintRule) -> None:
        assert rule.metadata is not None
        if self.state.remove_rule(rule.metadata.name or ""):
            self._devices_changed()

    def _budget_set(self, budget: PodDisruptionBudget) -> None:
        assert budget.metadata is not None
        key = f"{budget.metadata.namespace}/{budget.metadata.name}"
        before = self.state.budgets.get(key)
        self.state.budgets[key] = budget
        if before is not None and (
            disruptions_allowed(before) < disruptions_allowed(budget) or before.spec != budget.spec
        ):
            self._budget_lifted()

    def _budget_gone(self, budget: PodDisruptionBudget) -> None:
        assert budget.metadata is not None
        if self.state.budgets.pop(f"{budget.metadata.namespace}/{budget.metadata.name}", None) is not None:
            self._budget_lifted()

    def _budget_lifted(self) -> None:
        """Pods that were protected may now make room for devices."""
        self.state.revision += 1
        self._devices_changed()

    # -- claims

    def _claim_set(self, old: ResourceClaim | None, claim: ResourceClaim) -> None:
        state, now = self.state, self.clock.monotonic()
        state.claims.set(claim)
        was, is_ = old is not None and allocation_of(old) is not None, allocation_of(claim) is not None
        if was and not is_:
            state.revision += 1
            self._devices_changed()
        elif is_ and not was:
            state.revision += 1
        if old is None or old.status != claim.status or claim.metadata.deletionTimestamp is not None:  # type: ignore[union-attr]
            self._wake_users(key_of(claim), now)
        if is_ and claim.status is not None and claim.status.devices:
            self._watched()

    def _wake_users(self, key: str, now: float) -> None:
        for waiting in self.queue.waiting_for(key):
            self._try_again(waiting, now)

    def _try_again(self, waiting: Waiting, now: float) -> None:
        self.queue.activate(waiting, now)
        self.gate(waiting)
        self._wake()

    def _claim_gone(self, claim: ResourceClaim) -> None:
        self.state.claims.remove(claim)
        self.state.revision += 1
        if allocation_of(claim) is not None:
            self._devices_changed()
            self._come_free(key_of(claim))
        elif (
            waiting := self.queue.get(extended_owner(claim))
        ) is not None:  # what an earlier attempt left stood in its way
            self._try_again(waiting, self.clock.monotonic())
        self._watched()


def _same_needs(old: Pod, new: Pod) -> bool:
    """Does the new version ask for, and show to others, what the old one did?"""
    if old is new:
        return True
    assert old.metadata is not None
    assert new.metadata is not None
    return (
        old.metadata.labels == new.metadata.labels
        and old.metadata.generation == new.metadata.generation
        and old.metadata.deletionTimestamp == new.metadata.deletionTimestamp
        and (old.metadata.generation is not None or old.spec == new.spec)
    )
