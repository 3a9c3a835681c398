"""The pods of a workload: which are whose, in what state, and how they are made, deleted, adopted and released.

The index "workload" answers in constant time how many pods of an owner are active, ready, terminating or waiting to be counted, so that a
workload of 5,000 pods costs the same per event as one of 5 (`states`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Protocol

from lightkube.models.core_v1 import Pod

from drakit.api.errors import StatusError
from drakit.api.selectors import LabelSelector, Requirement, from_label_selector
from drakit.client import Client, EventRecorder, Informer, Informers, Resource, resource_of
from drakit.controllers.loop import Context
from drakit.controllers.objects import (
    Plain,
    condition,
    conditions_patch,
    controller_of,
    controller_reference,
    deleting,
    finalizers,
    key_of,
    labels,
    name,
    namespace,
    pod_finished,
    pod_ready,
    same_owner,
    spec,
    status,
    uid,
)

__all__ = [
    "COMPLETION_INDEX",
    "JOB_FINALIZER",
    "JOB_UID",
    "PODS",
    "WORKLOAD",
    "PodControl",
    "adopt_and_release",
    "adoptable",
    "adopters",
    "as_judged",
    "child_states",
    "container_statuses",
    "evict_pod",
    "follow_children",
    "keep_rosters",
    "label_text",
    "namespace_terminating",
    "owned_pods",
    "pod_from_template",
    "required_label",
    "same_pod",
    "scaled",
    "selector_of",
    "sidecar_statuses",
    "slow_start",
    "still_there",
    "workload_pods",
]

PODS = resource_of(Pod)
WORKLOAD = "workload"  # the index
JOB_FINALIZER = "batch.kubernetes.io/job-tracking"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
_FIRST_BATCH = 1
_LONGEST_NAME = 253
JOB_UID = "batch.kubernetes.io/controller-uid"
_NOTHING = LabelSelector((Requirement("", "in", frozenset()),))


def workload_pods(informers: Informers) -> Informer[Plain]:
    pods = informers.plain(Pod)
    pods.add_index(WORKLOAD, states)
    return pods


def states(pod: Plain) -> Iterable[str]:
    """Values of the index: the owner's UID, alone and with each state the pod is in; for a pod without owner its labels."""
    return child_states(pod, pod_states)


def pod_states(pod: Plain) -> Iterable[str]:
    finished, gone = pod_finished(pod), deleting(pod)
    index = (pod["metadata"].get("annotations") or {}).get(COMPLETION_INDEX)
    if not finished and not gone:
        yield "active"
        yield f"labels:{label_text(labels(pod))}"
        if pod_ready(pod):
            yield "ready"
        if index is not None:
            yield f"index:{index}"
    elif not finished:
        yield "terminating"
        if index is not None:
            yield f"ending:{index}"
    if JOB_FINALIZER in finalizers(pod):
        if finished or gone:
            yield "uncounted"
    elif (
        not finished and not gone and (job := labels(pod).get(JOB_UID)) and job == (controller_of(pod) or {}).get("uid")
    ):
        yield "untracked"
    if not finished and _restarts_count(pod) and any(entry.get("restartCount") for entry in container_statuses(pod)):
        yield "restarted"


def _restarts_count(pod: Plain) -> bool:
    """To a Job they may be failures."""
    return spec(pod).get("restartPolicy") == "OnFailure" and same_owner(controller_of(pod), "Job", "batch")


def container_statuses(pod: Plain) -> list[Plain]:
    known = status(pod)
    return [*(known.get("containerStatuses") or ()), *(known.get("initContainerStatuses") or ())]


def sidecar_statuses(pod: Plain) -> list[Plain]:
    names = {each["name"] for each in spec(pod).get("initContainers") or () if each.get("restartPolicy") == "Always"}
    return [each for each in status(pod).get("initContainerStatuses") or () if each["name"] in names] if names else []


def child_states(child: Plain, more: Callable[[Plain], Iterable[str]] = lambda _: ()) -> Iterable[str]:
    owner = controller_of(child)
    if owner is None:
        prefix = f"orphan:{namespace(child)}/"
        return [prefix, *(f"{prefix}{label}={value}" for label, value in labels(child).items())]
    owner_uid = owner["uid"]
    return [owner_uid, *(f"{owner_uid}:{state}" for state in more(child))]


def label_text(values: Mapping[str, str]) -> str:
    return ",".join(f"{label}={values[label]}" for label in sorted(values))


def owned_pods(pods: Informer[Plain], owner: Plain) -> list[Plain]:
    return pods.by_index(WORKLOAD, uid(owner))


def still_there(owners: Informer[Plain], owner: Plain) -> bool:
    """False: it has gone while it was reconciled, and been forgotten; nothing may be kept of it."""
    known = owners.get(key_of(owner))
    return known is not None and uid(known) == uid(owner)


def as_judged(owners: Informer[Plain], owner: Plain) -> Plain:
    """The owner as it was read, with the status that it has by now: a status never says of a spec that was not acted upon that it was."""
    return {**owner, "status": status(owners.get(key_of(owner)) or owner)}


def selector_of(owner: Plain) -> LabelSelector:
    """What the owner's children look like; an owner without a selector has none."""
    return from_label_selector(spec(owner).get("selector")) or _NOTHING


def adoptable(
    children: Informer[Plain],
    owner: Plain,
    *,
    member: Callable[[Plain], bool] = lambda _: True,
    among: Callable[[Plain], bool] = lambda _: True,
) -> list[Plain]:
    """The children without owner that are this one's to adopt; `member` and `among` as for `adopt_and_release`."""
    orphans = f"orphan:{required_label(owner)}"
    if not children.index_count(WORKLOAD, orphans):
        return []
    selector = selector_of(owner)
    return [
        child
        for child in children.by_index(WORKLOAD, orphans)
        if not deleting(child) and among(child) and selector.matches(labels(child)) and member(child)
    ]


def required_label(owner: Plain) -> str:
    """One label that every pod of the owner (or budget) must have: a way to find it from a pod."""
    wanted = (spec(owner).get("selector") or {}).get("matchLabels") or {}
    if not wanted:
        return f"{namespace(owner)}/"
    label = min(wanted)
    return f"{namespace(owner)}/{label}={wanted[label]}"


class Enqueues(Protocol):
    """A loop, or what stands before one."""

    def add(self, key: str) -> None: ...


def follow_children(
    context: Context,
    children: Informer[Plain],
    owners: Informer[Plain],
    loop: Enqueues,
    *,
    same: Callable[[Plain, Plain], bool] | None = None,
) -> None:
    """Enqueue the owner of every child that changes; for a child without owner, whoever could adopt it.

    `same` says whether a change is none to the owners.
    """
    owners.add_index("selector", lambda owner: (required_label(owner),))
    following = context.following.get(children)
    if following is None:
        following = context.following[children] = _Following(same)
        children.add_handler(following.enqueue, following.changed, following.enqueue)
    following.add(owners, loop)
    for child in children.list():
        following.enqueue(child)


def adopters(child: Plain, owners: Informer[Plain]) -> Iterable[Plain]:
    """Those whose selector the child matches; `owners` has been given to `follow_children`."""
    prefix = f"{namespace(child)}/"
    for pair in (prefix, *(f"{prefix}{label}={value}" for label, value in labels(child).items())):
        for owner in owners.by_index("selector", pair):
            if selector_of(owner).matches(labels(child)):
                yield owner


class Roster(Protocol):
    """What a controller knows of one owner's pods."""

    def put(self, pod: Plain) -> None: ...
    def remove(self, pod: Plain) -> None: ...


def keep_rosters(pods: Informer[Plain], rosters: Mapping[str, Roster]) -> None:
    """Each pod event into the roster of the pod's owner; `rosters` by the owner's UID, for those that have one."""

    def put(pod: Plain) -> None:
        if (roster := _roster_of(pod, rosters)) is not None:
            roster.put(pod)

    def remove(pod: Plain) -> None:
        if (roster := _roster_of(pod, rosters)) is not None:
            roster.remove(pod)

    def updated(old: Plain, new: Plain) -> None:
        if old["metadata"].get("ownerReferences") != new["metadata"].get("ownerReferences"):
            remove(old)
        put(new)

    pods.add_handler(put, updated, remove)


def _roster_of(pod: Plain, rosters: Mapping[str, Roster]) -> Roster | None:
    owner = controller_of(pod) if rosters else None
    return rosters.get(owner["uid"]) if owner is not None else None


class _Following:
    """All that follow one kind of children. An event looks at the child once, whoever follows, and costs only its owner's loop."""

    def __init__(self, same: Callable[[Plain, Plain], bool] | None) -> None:
        self._same = same
        self._loops: dict[tuple[str, str], list[Enqueues]] = {}  # owners' kind and group -> whom to tell
        self._adopters: list[tuple[Informer[Plain], Enqueues]] = []

    def add(self, owners: Informer[Plain], loop: Enqueues) -> None:
        self._loops.setdefault((owners.resource.kind, owners.resource.group), []).append(loop)
        self._adopters.append((owners, loop))

    def enqueue(self, child: Plain) -> None:
        reference = controller_of(child)
        if reference is not None:
            owner = (reference["kind"], reference["apiVersion"].rpartition("/")[0])
            for loop in self._loops.get(owner, ()):
                loop.add(f"{namespace(child)}/{reference['name']}")
        elif not deleting(child):
            for owners, loop in self._adopters:
                if len(owners):
                    for adopter in adopters(child, owners):
                        loop.add(key_of(adopter))

    def changed(self, old: Plain, new: Plain) -> None:
        if self._same is not None and self._same(old, new):
            return
        before, after = controller_of(old), controller_of(new)
        if before is not None and (after is None or after["uid"] != before["uid"]):
            self.enqueue(old)
        self.enqueue(new)


def same_pod(old: Plain, new: Plain) -> bool:
    """Whether workloads see no difference between two states of a pod."""
    return _seen(old) == _seen(new)


def _seen(pod: Plain) -> object:
    ready = condition(pod, "Ready")
    metadata = pod["metadata"]
    return (
        status(pod).get("phase"),
        metadata.get("deletionTimestamp"),
        ready and (ready["status"], ready.get("lastTransitionTime")),
        metadata.get("labels"),
        (metadata.get("annotations") or {}).get(COMPLETION_INDEX),
        metadata.get("finalizers"),
        metadata.get("ownerReferences"),
        spec(pod).get("nodeName"),
        _restarts_count(pod) and [entry.get("restartCount") for entry in container_statuses(pod)],
    )


def pod_from_template(template: Plain, owner: Plain, **metadata: object) -> Plain:
    """A pod as the template says, owned by the workload; `metadata` replaces fields of its metadata."""
    wanted = template.get("metadata") or {}
    body: Plain = {
        "generateName": f"{name(owner)}-"[:_LONGEST_NAME],
        "namespace": namespace(owner),
        "ownerReferences": [controller_reference(owner)],
    }
    for field in ("labels", "annotations", "finalizers"):
        if wanted.get(field):
            body[field] = wanted[field]
    body.update(metadata)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": body, "spec": template.get("spec") or {}}


class PodControl:
    """Makes and deletes pods for a workload, puts the answers into the cache, tells events."""

    def __init__(self, client: Client, pods: Informer[Plain], recorder: EventRecorder) -> None:
        self._client, self._pods, self._recorder = client, pods, recorder
        self.created = 0
        self.deleted = 0

    async def create(self, owner: Plain, body: Plain, *, tell: bool = True) -> Plain:
        try:
            pod = await self._client.create_plain(PODS, body)
        except StatusError as error:
            if tell and not _namespace_terminating(error):
                self._recorder.event(owner, "Warning", "FailedCreate", f"Error creating: {error}")
            raise
        self.created += 1
        self._pods.observe(pod)
        if tell:
            self._recorder.event(owner, "Normal", "SuccessfulCreate", f"Created pod: {name(pod)}")
        return pod

    async def delete(self, owner: Plain, pod: Plain, *, tell: bool = True) -> None:
        try:
            answer = await self._client.delete(PODS, name(pod), namespace=namespace(pod), uid=uid(pod))
        except StatusError as error:
            if error.code in (404, 409):  # gone already, or another pod by now
                return
            if tell:
                self._recorder.event(owner, "Warning", "FailedDelete", f"Error deleting: {error}")
            raise
        self.deleted += 1
        self._pods.observe_deleted(key_of(pod), uid(pod), answer)
        if tell:
            self._recorder.event(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {name(pod)}")


def _namespace_terminating(error: StatusError) -> bool:
    return any(cause.get("reason") == "NamespaceTerminating" for cause in error.causes)


def namespace_terminating(error: BaseException) -> bool:
    return isinstance(error, StatusError) and _namespace_terminating(error)


async def slow_start(count: int, make: Callable[[int], Awaitable[object]]) -> tuple[int, Exception | None]:
    """Do it `count` times in batches of 1, 2, 4, …, so that a quota or a bad template costs one failure and not thousands.

    Returns how many worked, and the first error; a namespace that is going away is no error.
    """
    done = 0
    worked = 0
    batch = min(_FIRST_BATCH, count)
    while batch:
        answers = await asyncio.gather(*(make(done + number) for number in range(batch)), return_exceptions=True)
        failures = [answer for answer in answers if isinstance(answer, Exception)]
        worked += batch - len(failures)
        real = [failure for failure in failures if not namespace_terminating(failure)]
        if real:
            return worked, real[0]
        if failures:
            return worked, None
        done += batch
        batch = min(batch * 2, count - done)
    return worked, None


async def adopt_and_release(
    client: Client,
    children: Informer[Plain],
    owner: Plain,
    owner_resource: Resource,
    *,
    member: Callable[[Plain], bool] = lambda _: True,
    among: Callable[[Plain], bool] = lambda _: True,
    finalizer: Callable[[Plain], str] = lambda _: "",
) -> list[Plain]:
    """The children that are the owner's, after taking those that match its selector and have no owner, and letting go of those
    that no longer match (pkg/controller/controller_ref_manager.go).

    `member`: what must hold for its children beyond the selector; `among`: those it looks at, the others stay whose they are.
    `finalizer`: what a child gets when it is taken.
    """
    selector = selector_of(owner)
    resource = children.resource
    mine: list[Plain] = []

    def belongs(child: Plain) -> bool:
        return selector.matches(labels(child)) and member(child)

    for child in children.by_index(WORKLOAD, uid(owner)):
        if belongs(child):
            mine.append(child)
        elif not deleting(owner) and among(child):
            patch = {"metadata": {"uid": uid(child), "ownerReferences": [{"$patch": "delete", "uid": uid(owner)}]}}
            await _patch_owner(client, children, resource, child, patch)
    if deleting(owner):
        return mine
    orphans = adoptable(children, owner, member=member, among=among)
    if orphans:
        fresh = await client.get_plain(owner_resource, name(owner), namespace=namespace(owner))
        if uid(fresh) != uid(owner) or deleting(fresh):
            return mine
        reference = {**controller_reference(owner)}
        for child in orphans:
            metadata: Plain = {"uid": uid(child), "ownerReferences": [reference]}
            if mark := finalizer(child):
                metadata["finalizers"] = [mark]
            patch = {"metadata": metadata}
            adopted = await _patch_owner(client, children, resource, child, patch)
            if adopted is not None:
                mine.append(adopted)
    return mine


async def _patch_owner(
    client: Client, children: Informer[Plain], resource: Resource, child: Plain, patch: Plain
) -> Plain | None:
    try:
        patched = await client.patch_plain(resource, name(child), patch, namespace=namespace(child), kind="strategic")
    except StatusError as error:
        if error.code in (404, 422):  # gone, or owned by someone else by now
            return None
        raise
    children.observe(patched)
    return patched


async def evict_pod(
    client: Client, pod: Plain, reason: str, message: str, stamp: str, *, generation: bool = True
) -> bool:
    """Say why in the pod's status, then delete it: not an eviction request, disruption budgets do not count. `generation`: say
    which one was judged; Kubernetes does so for taints of nodes, not for those of devices."""
    target = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": stamp,
    }
    if generation:
        target["observedGeneration"] = pod["metadata"].get("generation", 0)
    marks = conditions_patch(pod, [target])
    known = condition(pod, "DisruptionTarget") or {}
    try:
        if any(known.get(field) != value for field, value in marks["conditions"][0].items()):
            patch = {"metadata": {"uid": uid(pod)}, "status": marks}
            await client.patch_plain(
                PODS, name(pod), patch, namespace=namespace(pod), kind="strategic", subresource="status"
            )
        await client.delete(PODS, name(pod), namespace=namespace(pod), uid=uid(pod))
    except StatusError as error:
        if error.code != 404:
            raise
        return False
    return True


def scaled(value: int | str | None, total: int, *, up: bool) -> int:
    """A count, or a percentage of `total` rounded up or down."""
    if value is None:
        return 0
    if isinstance(value, str) and value.endswith("%"):
        exact = int(value[:-1]) * total
        return -(-exact // 100) if up else exact // 100
    return int(value)
