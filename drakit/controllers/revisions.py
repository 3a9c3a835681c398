"""Histories of StatefulSets and DaemonSets: a ControllerRevision per template, as `kubectl rollout history` and `undo` read them."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from lightkube.models.apps_v1 import ControllerRevision, StatefulSet

from drakit.api import registry, strategy
from drakit.api.errors import StatusError
from drakit.client import Client, Informer, Informers, resource_of
from drakit.client.resources import resource_of_plain
from drakit.controllers.objects import Plain, controller_reference, key_of, labels, name, namespace, spec, uid
from drakit.controllers.pods import WORKLOAD, adopt_and_release, adoptable, child_states
from drakit.controllers.rollout import annotations_of, fnv32, safe_encode

__all__ = ["REVISION_LABEL", "History", "revision_of_pod", "template_of"]

REVISIONS = resource_of(ControllerRevision)
REVISION_LABEL = "controller-revision-hash"
# On the revisions themselves StatefulSets have another one: their pods carry the revision's whole name under the first.
_HASH_LABELS = {"StatefulSet": "controller.kubernetes.io/hash"}


def revision_of_pod(pod: Plain) -> str:
    return labels(pod).get(REVISION_LABEL, "")


def template_of(revision: Plain) -> Plain:
    """The pod template that a revision holds."""
    template: Plain = revision["data"]["spec"]["template"]
    return {field: value for field, value in template.items() if field != "$patch"}


def _data(owner: Plain) -> Plain:
    return {"spec": {"template": {**spec(owner)["template"], "$patch": "replace"}}}


def _same_template(stateful_set: Plain, revision: Plain) -> bool:
    """Whether the set would be the same with the revision's template: as an older API server wrote it, with fields that say nothing or
    without defaults that there are now. Nothing is said of fields that we do not know."""
    kind, version = registry.by_model(StatefulSet)
    templates = []
    for template in (spec(stateful_set)["template"], template_of(revision)):
        try:
            read = strategy.decode(
                kind, version, {**stateful_set, "spec": {**spec(stateful_set), "template": template}}
            )
        except StatusError:
            return False
        if read.unknown_fields:
            return False
        templates.append(read.obj["spec"]["template"])
    return bool(templates[0] == templates[1])


def _ordered(value: Any) -> Any:
    """With keys in the order in which Go writes them: the data may never change, and a real API server compares its text."""
    if isinstance(value, dict):
        return {key: _ordered(value[key]) for key in sorted(value)}
    return [_ordered(item) for item in value] if isinstance(value, list) else value


def _number(revision: Plain) -> int:
    return int(revision.get("revision") or 0)


class History:
    def __init__(self, client: Client, informers: Informers, *, tolerant: bool = False) -> None:
        """`tolerant`: the last revision stays that of a template which is only written differently (StatefulSets)."""
        self._client, self._tolerant = client, tolerant
        self._same: dict[
            str, tuple[int, str]
        ] = {}  # owner's UID -> generation and resourceVersion of the last found so
        self.revisions: Informer[Plain] = informers.plain(ControllerRevision)
        self.revisions.add_index(WORKLOAD, child_states)

    def of(self, owner: Plain) -> list[Plain]:
        """Oldest first."""
        found = self.revisions.by_index(WORKLOAD, uid(owner))
        return sorted(
            found, key=lambda each: (_number(each), each["metadata"].get("creationTimestamp") or "", name(each))
        )

    async def current(self, owner: Plain, collisions: int) -> Plain:
        """The revision of the owner's template; made, or moved to the end of the history, when it is not the last."""
        if adoptable(self.revisions, owner):  # of a set of this name that was deleted without its pods
            await adopt_and_release(self._client, self.revisions, owner, resource_of_plain(owner))
        known = self.of(owner)
        data = _data(owner)
        newest = _number(known[-1]) + 1 if known else 1
        equal = [revision for revision in known if revision["data"] == data]
        if equal and equal[-1] is known[-1]:
            return known[-1]
        if equal:
            patched = await self._client.patch_plain(
                REVISIONS, name(equal[-1]), {"revision": newest}, namespace=namespace(owner)
            )
            self.revisions.observe(patched)
            return patched
        if self._tolerant and known and self._written_differently(owner, known[-1]):
            return known[-1]
        return await self._create(owner, data, newest, collisions)

    def _written_differently(self, owner: Plain, last: Plain) -> bool:
        state = (owner["metadata"].get("generation", 0), last["metadata"]["resourceVersion"])
        if self._same.get(uid(owner)) != state:
            if not _same_template(owner, last):
                return False
            self._same[uid(owner)] = state
        return True

    def forget(self, owner: Plain) -> None:
        self._same.pop(uid(owner), None)

    async def _create(self, owner: Plain, data: Plain, number: int, collisions: int) -> Plain:
        text = json.dumps(data, sort_keys=True, separators=(",", ":")) + (f"/{collisions}" if collisions else "")
        if owner["kind"] == "DaemonSet":  # which may have the name and the template of a StatefulSet
            text += "/DaemonSet"
        digest = safe_encode(str(fnv32(text.encode())))
        wanted = (spec(owner)["template"].get("metadata") or {}).get("labels") or {}
        body = {
            "apiVersion": REVISIONS.api_version,
            "kind": REVISIONS.kind,
            "metadata": {
                "name": f"{name(owner)[:223]}-{digest}",
                "namespace": namespace(owner),
                "labels": {**wanted, _HASH_LABELS.get(owner["kind"], REVISION_LABEL): digest},
                **({"annotations": dict(annotations_of(owner))} if annotations_of(owner) else {}),
                "ownerReferences": [controller_reference(owner)],
            },
            "data": _ordered(data),
            "revision": number,
        }
        try:
            created = await self._client.create_plain(REVISIONS, body)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise
            existing = await self._client.get_plain(REVISIONS, name(body), namespace=namespace(owner))
            if existing["data"] != data:
                return await self._create(owner, data, number, collisions + 1)
            created = existing
        self.revisions.observe(created)
        return created

    async def truncate(self, owner: Plain, live: Collection[str]) -> None:
        """Delete the oldest revisions that no pod uses, beyond revisionHistoryLimit; for DaemonSets those in use count too.
        A negative limit keeps all."""
        limit = spec(owner).get("revisionHistoryLimit", 10)
        if limit < 0:
            return
        known = self.of(owner)
        unused = [revision for revision in known if name(revision) not in live]
        old = len(known) - 1 if owner["kind"] == "DaemonSet" else len(unused)
        for revision in unused[: max(0, old - limit)]:
            try:
                answer = await self._client.delete(
                    REVISIONS, name(revision), namespace=namespace(owner), uid=uid(revision)
                )
            except StatusError as error:
                if error.code not in (404, 409):
                    raise
                continue
            self.revisions.observe_deleted(key_of(revision), uid(revision), answer)
