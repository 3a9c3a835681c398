"""DaemonSets: one pod on every node that fits, replaced node by node when the template changes (pkg/controller/daemon)."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime

from lightkube.models.apps_v1 import DaemonSet
from lightkube.models.core_v1 import Node, Taint, Toleration
from lightkube.models.core_v1 import Pod as PodModel

from drakit.api.typed import from_plain
from drakit.client import resource_of
from drakit.controllers.loop import Context, ControlLoop
from drakit.controllers.objects import (
    Plain,
    deleting,
    key_of,
    labels,
    name,
    namespace,
    pod_available,
    pod_finished,
    pod_ready,
    spec,
    status,
    status_patch,
    uid,
)
from drakit.controllers.pods import (
    WORKLOAD,
    PodControl,
    adopt_and_release,
    follow_children,
    pod_from_template,
    same_pod,
    scaled,
    slow_start,
    workload_pods,
)
from drakit.controllers.revisions import REVISION_LABEL, History, revision_of_pod
from drakit.scheduler.selectors import node_selector_matches, untolerated

__all__ = ["DaemonSetController", "Step", "decide", "node_of", "should_run"]

DAEMON_SETS = resource_of(DaemonSet)
_WORKERS = 2
_BURST = 250
_FAILED_POD_BACKOFF = 1.0

_EVERYWHERE = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)


def tolerations(pod_spec: Plain) -> list[Plain]:
    """The template's, and those that let a daemon run where nothing else may."""
    wanted = list(pod_spec.get("tolerations") or ())
    keys = _EVERYWHERE + (
        (("node.kubernetes.io/network-unavailable", "NoSchedule"),) if pod_spec.get("hostNetwork") else ()
    )
    for key, effect in keys:
        entry = {"key": key, "operator": "Exists", "effect": effect}
        if entry not in wanted:
            wanted.append(entry)
    return wanted


def should_run(daemon_set: Plain, node: Plain) -> tuple[bool, bool]:
    """Whether a pod shall run on the node, and whether one that is there may stay."""
    template = spec(daemon_set)["template"].get("spec") or {}
    if template.get("nodeName") and template["nodeName"] != name(node):
        return False, False
    node_labels = dict(labels(node))
    if any(node_labels.get(key) != value for key, value in (template.get("nodeSelector") or {}).items()):
        return False, False
    model = from_plain(
        PodModel,
        {
            "metadata": {},
            "spec": {"containers": [], "affinity": template.get("affinity"), "tolerations": tolerations(template)},
        },
    )
    assert model.spec is not None
    affinity = model.spec.affinity
    required = (
        affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
        if affinity and affinity.nodeAffinity
        else None
    )
    if not node_selector_matches(required, node_labels, name(node)):
        return False, False
    taints = [from_plain(Taint, taint) for taint in spec(node).get("taints") or ()]
    tolerated: list[Toleration] = list(model.spec.tolerations or ())
    stays = untolerated(taints, tolerated, ("NoExecute",)) is None
    return stays and untolerated(taints, tolerated, ("NoSchedule", "NoExecute")) is None, stays


def node_of(pod: Plain) -> str:
    """The node of a daemon pod: bound, or named in the affinity it was made with."""
    if spec(pod).get("nodeName"):
        return str(spec(pod)["nodeName"])
    required = ((spec(pod).get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    for term in required.get("nodeSelectorTerms") or ():
        for entry in term.get("matchFields") or ():
            if entry["key"] == "metadata.name" and entry["operator"] == "In" and len(entry["values"]) == 1:
                return str(entry["values"][0])
    return ""


@dataclass(slots=True)
class Step:
    create: list[str] = field(default_factory=list)  # nodes
    delete: list[Plain] = field(default_factory=list)
    failed: list[Plain] = field(default_factory=list)  # pods that failed: deleted and made again


def decide(
    daemon_set: Plain, fits: dict[str, tuple[bool, bool]], by_node: dict[str, list[Plain]], revision: str, now: datetime
) -> Step:
    """`fits`: per node what `should_run` says; `by_node`: the set's pods."""
    step = Step()
    for node, (run, stay) in fits.items():
        there = by_node.get(node, [])
        step.failed += [pod for pod in there if pod_finished(pod) and not deleting(pod)]
        living = [pod for pod in there if not deleting(pod) and not pod_finished(pod)]
        if run and not there:
            step.create.append(node)
        elif not stay:
            step.delete += living
        elif len(living) > 1:
            # While surging an old and a new pod share the node; otherwise the oldest stays.
            surging = (
                _surge(daemon_set, len(fits)) > 0 and len({revision_of_pod(pod) for pod in living}) == len(living) == 2
            )
            if not surging:
                step.delete += sorted(
                    living,
                    key=lambda pod: (not pod_ready(pod), pod["metadata"].get("creationTimestamp") or "", name(pod)),
                )[1:]
    step.delete += [
        pod for node, pods in by_node.items() if node not in fits for pod in pods if not deleting(pod) and node
    ]
    if not step.create and not step.delete:
        _update(step, daemon_set, fits, by_node, revision, now)
    return step


def _surge(daemon_set: Plain, wanted: int) -> int:
    rolling = (spec(daemon_set).get("updateStrategy") or {}).get("rollingUpdate") or {}
    return scaled(rolling.get("maxSurge", 0), wanted, up=True)


def _update(
    step: Step,
    daemon_set: Plain,
    fits: dict[str, tuple[bool, bool]],
    by_node: dict[str, list[Plain]],
    revision: str,
    now: datetime,
) -> None:
    """Replace pods of old revisions, as many at a time as the strategy allows."""
    strategy = spec(daemon_set).get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return
    rolling = strategy.get("rollingUpdate") or {}
    nodes = [node for node, (run, _) in fits.items() if run]
    minimum = spec(daemon_set).get("minReadySeconds") or 0
    surge = _surge(daemon_set, len(nodes))
    allowed = scaled(rolling.get("maxUnavailable", 1), len(nodes), up=True) if not surge else 0
    missing = 0
    candidates: list[Plain] = []
    for node in nodes:
        living = [pod for pod in by_node.get(node, []) if not deleting(pod)]
        old = [pod for pod in living if revision_of_pod(pod) != revision]
        new = [pod for pod in living if revision_of_pod(pod) == revision]
        if surge:
            if old and new and any(pod_available(pod, minimum, now) for pod in new):
                step.delete += old
            elif old and not new and surge > 0:
                step.create.append(node)
                surge -= 1
            elif old and new:
                surge -= 1
            continue
        if not any(pod_available(pod, minimum, now) for pod in living):
            missing += 1
            step.delete += old  # it does not work anyway
        else:
            candidates += old
    if not surge:
        step.delete += candidates[: max(0, allowed - missing)]


def next_status(
    daemon_set: Plain, fits: dict[str, tuple[bool, bool]], by_node: dict[str, list[Plain]], revision: str, now: datetime
) -> Plain:
    minimum = spec(daemon_set).get("minReadySeconds") or 0
    counts = dict.fromkeys(
        (
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "updatedNumberScheduled",
            "numberAvailable",
        ),
        0,
    )
    for node, (run, _) in fits.items():
        there = by_node.get(node, [])
        if not run:
            counts["numberMisscheduled"] += bool(there)
            continue
        counts["desiredNumberScheduled"] += 1
        if not there:
            continue
        counts["currentNumberScheduled"] += 1
        oldest = min(there, key=lambda pod: (pod["metadata"].get("creationTimestamp") or "", name(pod)))
        shown = next((pod for pod in there if pod_ready(pod)), oldest)
        if pod_ready(shown):
            counts["numberReady"] += 1
            counts["numberAvailable"] += pod_available(shown, minimum, now)
        counts["updatedNumberScheduled"] += any(revision_of_pod(pod) == revision for pod in there)
    unavailable = counts["desiredNumberScheduled"] - counts["numberAvailable"]
    always = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
    result: Plain = {
        key: value for key, value in {**counts, "numberUnavailable": unavailable}.items() if value or key in always
    }
    result["observedGeneration"] = daemon_set["metadata"].get("generation", 0)
    old = status(daemon_set)
    for kept in ("conditions", "collisionCount"):
        if old.get(kept) is not None:
            result[kept] = old[kept]
    return result


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
        self._fits: dict[str, dict[str, tuple[bool, bool]]] = {}  # DaemonSet UID -> node -> `should_run`
        self._sets.add_handler(self._changed, self._updated, self._removed)
        self._nodes.add_handler(self._node_added, self._node_updated, self._node_removed)
        follow_children(self._pods, self._sets, self.loop, same=same_pod)

    async def run(self) -> None:
        await self.loop.run()

    def _changed(self, daemon_set: Plain) -> None:
        self.loop.add(key_of(daemon_set))

    def _updated(self, old: Plain, new: Plain) -> None:
        if spec(old).get("template") != spec(new).get("template"):
            self._fits.pop(uid(new), None)
        self._changed(new)

    def _removed(self, daemon_set: Plain) -> None:
        self._fits.pop(uid(daemon_set), None)

    def _node_added(self, node: Plain) -> None:
        for daemon_set in self._sets.list():
            known = self._fits.get(uid(daemon_set))
            if known is not None:
                known[name(node)] = should_run(daemon_set, node)
            self.loop.add(key_of(daemon_set))

    def _node_updated(self, old: Plain, new: Plain) -> None:
        """Heartbeats are many: only what decides about pods counts."""
        if (labels(old), spec(old).get("taints")) == (labels(new), spec(new).get("taints")):
            return
        for daemon_set in self._sets.list():
            known = self._fits.get(uid(daemon_set))
            fits = should_run(daemon_set, new)
            if known is None or known.get(name(new)) != fits:
                if known is not None:
                    known[name(new)] = fits
                self.loop.add(key_of(daemon_set))

    def _node_removed(self, node: Plain) -> None:
        for daemon_set in self._sets.list():
            self._fits.get(uid(daemon_set), {}).pop(name(node), None)
            self.loop.add(key_of(daemon_set))

    def _where(self, daemon_set: Plain) -> dict[str, tuple[bool, bool]]:
        """For every node what `should_run` says; computed once per template and node."""
        known = self._fits.get(uid(daemon_set))
        if known is None:
            known = self._fits[uid(daemon_set)] = {
                name(node): should_run(daemon_set, node) for node in self._nodes.list()
            }
        return known

    async def reconcile(self, key: str) -> float | None:
        daemon_set = self._sets.get(key)
        if daemon_set is None:
            return None
        pods = await adopt_and_release(self._client, self._pods, daemon_set, DAEMON_SETS)
        revision = await self._history.current(daemon_set, status(daemon_set).get("collisionCount") or 0)
        digest = labels(revision).get(REVISION_LABEL, "")
        fits = dict(self._where(daemon_set))
        failure: Exception | None = None
        again: float | None = None
        if not deleting(daemon_set):
            step = decide(daemon_set, fits, _by_node(pods), digest, self._clock.now())
            failure = await self._carry_out(daemon_set, step, digest)
            if len(step.create) > _BURST:
                self.loop.add(key)
            if step.failed:
                again = _FAILED_POD_BACKOFF
        now = self._clock.now()
        by_node = _by_node(self._pods.by_index(WORKLOAD, uid(daemon_set)))
        current = self._sets.get(key) or daemon_set
        patch = status_patch(status(current), next_status(current, fits, by_node, digest, now))
        if patch is not None:
            self._sets.observe(
                await self._client.patch_plain(
                    DAEMON_SETS, name(daemon_set), patch, namespace=namespace(daemon_set), subresource="status"
                )
            )
        used = {f"{name(daemon_set)[:223]}-{revision_of_pod(pod)}" for pods in by_node.values() for pod in pods}
        await self._history.truncate(daemon_set, {name(revision), *used})
        if failure is not None:
            raise failure
        minimum = spec(daemon_set).get("minReadySeconds") or 0
        if minimum and any(
            pod_ready(pod) and not pod_available(pod, minimum, now) for pods in by_node.values() for pod in pods
        ):
            again = 1.0
        return again

    async def _carry_out(self, daemon_set: Plain, step: Step, revision: str) -> Exception | None:
        for pod in step.failed:
            text = f"Found failed daemon pod {key_of(pod)} on node {node_of(pod)}, will try to kill it"
            self._recorder.event(daemon_set, "Warning", "FailedDaemonPod", text)
        doomed = {uid(pod): pod for pod in (*step.failed, *step.delete)}.values()
        answers = await asyncio.gather(
            *(self._control.delete(daemon_set, pod) for pod in doomed), return_exceptions=True
        )
        nodes = step.create[:_BURST]
        _, error = await slow_start(
            len(nodes), lambda number: self._control.create(daemon_set, _pod(daemon_set, nodes[number], revision))
        )
        return error or next((answer for answer in answers if isinstance(answer, Exception)), None)


def _by_node(pods: list[Plain]) -> dict[str, list[Plain]]:
    result: dict[str, list[Plain]] = defaultdict(list)
    for pod in pods:
        result[node_of(pod)].append(pod)
    return result


def _pod(daemon_set: Plain, node: str, revision: str) -> Plain:
    template = spec(daemon_set)["template"]
    body = pod_from_template(template, daemon_set)
    generation = (daemon_set["metadata"].get("annotations") or {}).get("deprecated.daemonset.template.generation")
    body["metadata"]["labels"] = {
        **((template.get("metadata") or {}).get("labels") or {}),
        REVISION_LABEL: revision,
        **({"pod-template-generation": generation} if generation else {}),
    }
    pinned = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = body["spec"].get("affinity") or {}
    node_affinity = affinity.get("nodeAffinity") or {}
    terms = (node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or [{}]
    required = {"nodeSelectorTerms": [{**term, "matchFields": [pinned]} for term in terms]}
    affinity = {
        **affinity,
        "nodeAffinity": {**node_affinity, "requiredDuringSchedulingIgnoredDuringExecution": required},
    }
    return {**body, "spec": {**body["spec"], "affinity": affinity, "tolerations": tolerations(body["spec"])}}
