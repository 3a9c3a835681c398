"""DaemonSets: one pod on every node that fits, replaced node by node when the template changes (decisions in
`daemonset_decisions`)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from lightkube.models.apps_v1 import DaemonSet
from lightkube.models.core_v1 import Node

from drakit.client import resource_of
from drakit.controllers.daemonset_decisions import (
    GENERATION,
    Roster,
    Step,
    decide,
    next_status,
    node_of,
    tolerations,
)
from drakit.controllers.loop import Context, ControlLoop, soonest
from drakit.controllers.objects import (
    Plain,
    deleting,
    key_of,
    labels,
    name,
    namespace,
    spec,
    status,
    status_patch,
    uid,
)
from drakit.controllers.pods import (
    WORKLOAD,
    PodControl,
    adopt_and_release,
    adoptable,
    as_judged,
    follow_children,
    keep_rosters,
    pod_from_template,
    same_pod,
    slow_start,
    still_there,
    workload_pods,
)
from drakit.controllers.revisions import REVISION_LABEL, History

__all__ = ["DaemonSetController"]

DAEMON_SETS = resource_of(DaemonSet)
_WORKERS = 2
_BURST = 250


class DaemonSetController:
    name = "daemonset-controller"

    def __init__(self, context: Context) -> None:
        self._client, self._clock = context.client, context.clock
        self._recorder = context.recorder("daemonset-controller")
        self.loop = ControlLoop("daemonset", self.reconcile, context, workers=_WORKERS)
        self._sets = context.informers.plain(DaemonSet)
        self._nodes = context.informers.plain(Node)
        self._pods = workload_pods(context.informers)
        self._history = History(context.client, context.informers)
        self._control = PodControl(context.client, self._pods, self._recorder)
        self._rosters: dict[str, Roster] = {}  # by the set's UID
        self._sets.add_index("where", _where)
        self._sets.add_handler(self._changed, lambda _, new: self._changed(new), self._removed)
        self._nodes.add_handler(self._node_added, self._node_updated, self._node_removed)
        keep_rosters(self._pods, self._rosters)
        follow_children(context, self._pods, self._sets, self.loop, same=same_pod)

    async def run(self) -> None:
        await self.loop.run()

    # What makes work. A set without a roster has yet to be reconciled, and will see everything then.

    def _changed(self, daemon_set: Plain) -> None:
        self.loop.add(key_of(daemon_set))

    def _removed(self, daemon_set: Plain) -> None:
        self._rosters.pop(uid(daemon_set), None)

    def _node_added(self, node: Plain) -> None:
        self._put_node(node, _places(node))

    def _node_updated(self, old: Plain, new: Plain) -> None:
        """Heartbeats are many: only what decides about pods counts."""
        if (labels(old), spec(old).get("taints")) != (labels(new), spec(new).get("taints")):
            self._put_node(new, {**_places(old), **_places(new)})

    def _put_node(self, node: Plain, places: Iterable[str]) -> None:
        for daemon_set, roster in self._rosters_at(places):
            if roster.put_node(node):
                self.loop.add(key_of(daemon_set))

    def _node_removed(self, node: Plain) -> None:
        for daemon_set, roster in self._rosters_at(_places(node)):
            if roster.remove_node(name(node)):
                self.loop.add(key_of(daemon_set))

    def _rosters_at(self, places: Iterable[str]) -> Iterable[tuple[Plain, Roster]]:
        for place in places:
            for daemon_set in self._sets.by_index("where", place):
                roster = self._rosters.get(uid(daemon_set))
                if roster is not None:
                    yield daemon_set, roster

    # What is done.

    def _roster(self, daemon_set: Plain, revision: str) -> Roster:
        known = self._rosters.get(uid(daemon_set))
        generation = daemon_set["metadata"].get("generation", 0)
        if known is None or (known.revision, known.generation) != (revision, generation):
            pods = self._pods.by_index(WORKLOAD, uid(daemon_set))
            known = self._rosters[uid(daemon_set)] = Roster(daemon_set, revision, self._nodes.list(), pods)
        return known

    async def reconcile(self, key: str) -> float | None:
        daemon_set = self._sets.get(key)
        if daemon_set is None or deleting(daemon_set):
            return None  # when it is going, so is its history, and what it knew of its pods
        revision = await self._history.current(daemon_set, status(daemon_set).get("collisionCount") or 0)
        if not still_there(self._sets, daemon_set):
            return None
        roster = self._roster(daemon_set, labels(revision).get(REVISION_LABEL, ""))
        if roster.strangers or adoptable(self._pods, daemon_set):
            await adopt_and_release(self._client, self._pods, daemon_set, DAEMON_SETS)
        step = decide(roster, self._clock.now())
        failure = await self._carry_out(daemon_set, step, roster.revision)
        current = as_judged(self._sets, daemon_set)
        patch = status_patch(status(current), next_status(current, roster, self._clock.now()))
        if patch is not None:
            self._sets.observe(
                await self._client.patch_plain(
                    DAEMON_SETS, name(daemon_set), patch, namespace=namespace(daemon_set), subresource="status"
                )
            )
        used = {f"{name(daemon_set)[:223]}-{digest}" for digest in roster.revisions}
        await self._history.truncate(daemon_set, {name(revision), *used})
        again = soonest(step.wait, roster.ripening.wait(self._clock.now()))
        if failure is not None:
            self.loop.add_after(key, again)
            raise failure
        return again

    async def _carry_out(self, daemon_set: Plain, step: Step, revision: str) -> Exception | None:
        for pod in step.ended:
            if status(pod)["phase"] == "Failed":
                text = f"Found failed daemon pod {key_of(pod)} on node {node_of(pod)}, will try to kill it"
                self._recorder.event(daemon_set, "Warning", "FailedDaemonPod", text)
            else:
                text = f"Found succeeded daemon pod {key_of(pod)} on node {node_of(pod)}, will try to delete it"
                self._recorder.event(daemon_set, "Normal", "SucceededDaemonPod", text)
        nodes = step.create[:_BURST]
        _, error = await slow_start(
            len(nodes), lambda number: self._control.create(daemon_set, _pod(daemon_set, nodes[number], revision))
        )
        doomed = [*{uid(pod): pod for pod in (*step.ended, *step.delete)}.values()][:_BURST]
        answers = await asyncio.gather(
            *(self._control.delete(daemon_set, pod) for pod in doomed), return_exceptions=True
        )
        return error or next((answer for answer in answers if isinstance(answer, Exception)), None)


def _where(daemon_set: Plain) -> tuple[str]:
    """A label that a node must have for the set; "" when any node may do. One is enough to find the sets for a node."""
    wanted = (spec(daemon_set)["template"].get("spec") or {}).get("nodeSelector") or {}
    return (min(f"{label}={value}" for label, value in wanted.items()) if wanted else "",)


def _places(node: Plain) -> dict[str, None]:
    return dict.fromkeys(("", *(f"{label}={value}" for label, value in labels(node).items())))


def _pod(daemon_set: Plain, node: str, revision: str) -> Plain:
    template = spec(daemon_set)["template"]
    body = pod_from_template(template, daemon_set)
    generation = (daemon_set["metadata"].get("annotations") or {}).get(GENERATION)
    body["metadata"]["labels"] = {
        **((template.get("metadata") or {}).get("labels") or {}),
        REVISION_LABEL: revision,
        **({"pod-template-generation": generation} if generation else {}),
    }
    pinned = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = body["spec"].get("affinity") or {}
    node_affinity = affinity.get("nodeAffinity") or {}
    required = {"nodeSelectorTerms": [{"matchFields": [pinned]}]}  # the template's own terms have been judged already
    affinity = {
        **affinity,
        "nodeAffinity": {**node_affinity, "requiredDuringSchedulingIgnoredDuringExecution": required},
    }
    return {**body, "spec": {**body["spec"], "affinity": affinity, "tolerations": tolerations(body["spec"])}}
