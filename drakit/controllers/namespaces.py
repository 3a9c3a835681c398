"""Deleting namespaces: their pods go first, then all else in them, then the namespace's own finalizer (pkg/controller/namespace).

While pods run, what they use stays (config, secrets, policies); the conditions tell of leftovers only after that.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

from lightkube.models.batch_v1 import Job
from lightkube.models.core_v1 import Namespace, Pod

from drakit.api.errors import StatusError
from drakit.client import Plain, Resource, resource_of
from drakit.controllers.loop import Context, ControlLoop
from drakit.controllers.objects import (
    deleting,
    finalizers,
    name,
    parse_time,
    pod_finished,
    set_condition,
    spec,
    status,
    uid,
)
from drakit.controllers.pods import JOB_FINALIZER
from drakit.controllers.served import Served

__all__ = ["Leftovers", "NamespaceController", "conditions"]

NAMESPACES, PODS, JOBS = resource_of(Namespace), resource_of(Pod), resource_of(Job)
FINALIZER = "kubernetes"
_WORKERS = 10
_FIRST_LOOK, _LAST_LOOK = 0.1, 5.0


@dataclass(slots=True)
class Leftovers:
    """What is still there after a round of deleting."""

    counts: Counter[str] = field(default_factory=Counter)  # resource.group -> objects
    held_by: Counter[str] = field(default_factory=Counter)  # finalizer -> objects
    failures: list[str] = field(default_factory=list)
    # Group versions that cannot be asked now: what they hold is not known.
    stale: list[str] = field(default_factory=list)
    pods: int = 0  # all else waits for them


def conditions(space: Plain, left: Leftovers, now: datetime) -> list[Plain]:
    """The five conditions that tell why a namespace is still there."""
    content = ", ".join(f"{resource} has {count} resource instances" for resource, count in sorted(left.counts.items()))
    held = ", ".join(f"{finalizer} in {count} resource instances" for finalizer, count in sorted(left.held_by.items()))
    stale = ", ".join(f"{each}: stale GroupVersion discovery: {each}" for each in sorted(left.stale))
    entries = (
        (
            "NamespaceDeletionDiscoveryFailure",
            f"Discovery failed for some groups, {len(left.stale)} failing: unable to retrieve the complete list of server APIs: "
            + stale
            if stale
            else "",
            "ResourcesDiscovered",
            "All resources successfully discovered",
            "DiscoveryFailed",
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
            "",
        ),
        (
            "NamespaceDeletionContentFailure",
            "Failed to delete all resource types, "
            + f"{len(left.failures)} remaining: {', '.join(sorted(left.failures))}"
            if left.failures
            else "",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
            "ContentDeletionFailed",
        ),
        (
            "NamespaceContentRemaining",
            f"Some resources are remaining: {content}" if content else "",
            "ContentRemoved",
            "All content successfully removed",
            "SomeResourcesRemain",
        ),
        (
            "NamespaceFinalizersRemaining",
            f"Some content in the namespace has finalizers remaining: {held}" if held else "",
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished",
            "SomeFinalizersRemain",
        ),
    )
    result = list(status(space).get("conditions") or ())
    for kind, trouble, good_reason, good, bad_reason in entries:
        entry = {"type": kind, "status": "True", "reason": bad_reason, "message": trouble}
        if not trouble:
            entry = {"type": kind, "status": "False", "reason": good_reason, "message": good}
        result = set_condition(result, entry, now)
    return result


class NamespaceController:
    name = "namespace-controller"

    def __init__(self, context: Context) -> None:
        self._client, self._clock = context.client, context.clock
        self._served = Served(context.client, context.gates)
        self._rounds: Counter[str] = Counter()
        self.loop = ControlLoop("namespace", self.reconcile, context, workers=_WORKERS)
        self._namespaces = context.informers.plain(Namespace)
        self._namespaces.add_handler(self._changed, lambda _, new: self._changed(new), self._gone)

    async def run(self) -> None:
        await self.loop.run()

    def _changed(self, space: Plain) -> None:
        if deleting(space):
            self.loop.add(name(space))

    def _gone(self, space: Plain) -> None:
        self._rounds.pop(name(space), None)

    async def reconcile(self, key: str) -> float | None:
        space = self._namespaces.get(key)
        if space is None or not deleting(space) or FINALIZER not in (spec(space).get("finalizers") or ()):
            return None
        if status(space).get("phase") != "Terminating":
            space = await self._patch_status(space, {"phase": "Terminating"})
        left = await self._delete_content(space)
        new = conditions(space, left, self._clock.now())
        if new != (status(space).get("conditions") or []):
            space = await self._patch_status(space, {"conditions": new})
        if left.counts or left.failures or left.stale or left.pods:
            self._rounds[key] += 1
            return min(_FIRST_LOOK * (1 << min(self._rounds[key], 10)), _LAST_LOOK)
        await self._finalize(space)
        return None

    async def _delete_content(self, space: Plain) -> Leftovers:
        served = await self._served.all()
        left = Leftovers(stale=self._served.stale)
        pods, held = await self._delete_resource(space, PODS, left)
        if pods:
            left.pods = len(pods)
            if JOB_FINALIZER in held and all(pod_finished(pod) for pod in pods):
                # A Job that counts failures per index keeps an index's last failed pod until its successor is made: never, here.
                await self._delete_resource(space, JOBS, left)
            if not held and not self._may_be_ending(space, pods):
                left.failures.append(_unexpected(space, PODS))
            return left
        resources = [each for each in served if each.namespaced and each != PODS]

        async def delete(resource: Resource) -> None:
            remaining, held = await self._delete_resource(space, resource, left)
            if remaining:
                left.counts[f"{resource.plural}.{resource.group}"] += len(remaining)
                left.held_by.update(held)
                if not held:
                    left.failures.append(_unexpected(space, resource))

        await asyncio.gather(*(delete(resource) for resource in resources))
        return left

    async def _delete_resource(
        self, space: Plain, resource: Resource, left: Leftovers
    ) -> tuple[list[Plain], Counter[str]]:
        """What remains of a resource, and the finalizers that hold it."""
        where = name(space)
        try:
            if not (await self._client.list_plain(resource, namespace=where, limit=1, pages=1)).items:
                return [], Counter()
            await self._delete_all(resource, where)
            remaining = (await self._client.list_plain(resource, namespace=where)).items
        except StatusError as error:
            if error.code not in (404, 405):
                left.failures.append(str(error))
            return [], Counter()
        return remaining, Counter(finalizer for obj in remaining for finalizer in finalizers(obj))

    async def _delete_all(self, resource: Resource, where: str) -> None:
        """Whatever the kind does by default: nothing in a namespace that goes outlives its owner."""
        try:
            await self._client.delete_collection(resource, namespace=where, propagation="Background")
        except StatusError as error:
            if error.code not in (404, 405):
                raise
            for obj in (await self._client.list_plain(resource, namespace=where)).items:  # only one by one
                try:
                    await self._client.delete(resource, name(obj), namespace=where, propagation="Background")
                except StatusError as gone:
                    if gone.code not in (404, 405):
                        raise

    def _may_be_ending(self, space: Plain, pods: list[Plain]) -> bool:
        """Whether the longest time that a pod may take to end is not yet over."""
        longest = max(
            (spec(pod).get("terminationGracePeriodSeconds") or 0 for pod in pods if not pod_finished(pod)), default=0
        )
        since = parse_time(space["metadata"]["deletionTimestamp"])
        return bool((self._clock.now() - since).total_seconds() < longest)

    async def _patch_status(self, space: Plain, change: Plain) -> Plain:
        patched = await self._client.patch_plain(
            NAMESPACES, name(space), {"metadata": {"uid": uid(space)}, "status": change}, subresource="status"
        )
        self._namespaces.observe(patched)
        return patched

    async def _finalize(self, space: Plain) -> None:
        kept = [each for each in spec(space).get("finalizers") or () if each != FINALIZER]
        body = {**space, "spec": {**spec(space), "finalizers": kept}}
        try:
            await self._client.put_plain(NAMESPACES, body, subresource="finalize")
        except StatusError as error:
            if error.code != 404:
                raise


def _unexpected(space: Plain, resource: Resource) -> str:
    where = f"{resource.group}/{resource.version}, Resource={resource.plural}"
    return f"unexpected items still remain in namespace: {name(space)} for gvr: {where}"
