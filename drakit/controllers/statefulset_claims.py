"""The volume claims of a StatefulSet's pods: made before the pod, owned by the set or the pod as its retention policy asks
(pkg/controller/statefulset/stateful_pod_control.go). The garbage collector deletes those whose owners go.

Claims are not watched, as in Kubernetes: those of a pod are looked at when the pod is new, pending, or to be kept for another reason.
"""

from __future__ import annotations

from drakit.api.errors import StatusError
from drakit.client import Client, EventRecorder, Resource
from drakit.controllers.objects import (
    Plain,
    controller_reference,
    deleting,
    labels,
    name,
    namespace,
    owners,
    spec,
    status,
    uid,
)
from drakit.controllers.statefulset_decisions import Roster

__all__ = ["VolumeClaims", "owners_of_claim"]

VOLUME_CLAIMS = Resource(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True
)  # only on clusters that have volumes


def owners_of_claim(claim: Plain, stateful_set: Plain, pod: Plain, *, wanted: bool) -> list[Plain] | None:
    """The owner references that a pod's claim shall have; None when they may stay. `wanted`: the set still wants the pod."""
    known = owners(claim)
    ours = [reference for reference in known if _names(reference, stateful_set) or _names(reference, pod)]
    if any(reference["uid"] not in (uid(stateful_set), uid(pod)) for reference in ours):
        return None  # of a set or a pod that was there before: left to the garbage collector
    others = [reference for reference in known if reference not in ours]
    if conflicting(claim, stateful_set, pod):
        return others if ours else None
    owner = {"Pod": pod, "StatefulSet": stateful_set}.get(_goes_with(stateful_set, wanted=wanted))
    after = [controller_reference(owner)] if owner is not None else []
    same = {each["uid"] for each in ours} == {each["uid"] for each in after}
    return None if same and all(each.get("controller") for each in ours) else [*others, *after]


def _goes_with(stateful_set: Plain, *, wanted: bool) -> str:
    """With whom the claims of a pod go."""
    policy = _policy(stateful_set)
    if policy["whenScaled"] == "Delete" and not wanted:
        return "Pod"
    return "StatefulSet" if policy["whenDeleted"] == "Delete" else ""


def conflicting(claim: Plain, stateful_set: Plain, pod: Plain) -> bool:
    """Something else controls the claim, and the policy would have it go."""
    return "Delete" in _policy(stateful_set).values() and any(
        reference.get("controller") and not _names(reference, stateful_set) and not _names(reference, pod)
        for reference in owners(claim)
    )


def _names(reference: Plain, obj: Plain) -> bool:
    return (reference["apiVersion"], reference["kind"], reference["name"]) == (
        obj["apiVersion"],
        obj["kind"],
        name(obj),
    )


def _policy(stateful_set: Plain) -> dict[str, str]:
    return {"whenDeleted": "Retain", "whenScaled": "Retain"} | (
        spec(stateful_set).get("persistentVolumeClaimRetentionPolicy") or {}
    )


class VolumeClaims:
    def __init__(self, client: Client, recorder: EventRecorder) -> None:
        self._client, self._recorder = client, recorder
        # A set's UID -> ordinal -> the pod's UID, and what its claims go with.
        self._settled: dict[str, dict[int, tuple[str, str]]] = {}
        self._wishes: dict[str, object] = {}  # set's UID -> what they have been settled for

    def forget(self, stateful_set: Plain) -> None:
        self._settled.pop(uid(stateful_set), None)
        self._wishes.pop(uid(stateful_set), None)

    async def make(self, stateful_set: Plain, pod: Plain) -> bool:
        """The claims that a pod needs. False: those of the pod before it are on their way out, it has to wait."""
        errors: list[StatusError] = []
        for body in _claims(stateful_set, pod):
            try:
                claim = await self._get(body)
                if claim is None:
                    await self._create(stateful_set, pod, body)
                elif _policy(stateful_set)["whenScaled"] == "Delete" and _is_stale(claim, pod):
                    return False
                elif deleting(claim):
                    raise StatusError(409, "Conflict", f"pvc {name(body)} is being deleted")
            except StatusError as error:
                errors.append(error)
        if not errors:
            return True
        texts = [str(error) for error in errors]
        raise StatusError(errors[0].code, errors[0].reason, texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")

    async def settle(self, stateful_set: Plain, roster: Roster) -> None:
        """Bring the claims of pods that have changed in order, and those of all when the set's wishes have."""
        if not spec(stateful_set).get("volumeClaimTemplates"):
            return
        wishes = (roster.wanted, _policy(stateful_set))
        if self._wishes.get(uid(stateful_set)) != wishes:
            roster.unsettled.update(roster.pods)
            self._wishes[uid(stateful_set)] = wishes
        settled = self._settled.setdefault(uid(stateful_set), {})
        for ordinal in sorted(roster.unsettled):
            pod, wanted = roster.pods.get(ordinal), ordinal in roster.wanted
            if pod is None:
                settled.pop(ordinal, None)
            else:
                if wanted and status(pod).get("phase") == "Pending":
                    await self.make(stateful_set, pod)
                state = (uid(pod), _goes_with(stateful_set, wanted=wanted))
                if settled.get(ordinal) != state:
                    await self._own(stateful_set, pod, wanted=wanted)
                    settled[ordinal] = state
            roster.unsettled.discard(ordinal)

    async def _own(self, stateful_set: Plain, pod: Plain, *, wanted: bool) -> None:
        for body in _claims(stateful_set, pod):
            claim = await self._get(body)
            if claim is None:
                continue
            if conflicting(claim, stateful_set, pod):
                text = (
                    f"PersistentVolumeClaim {name(claim)} has a conflicting OwnerReference that acts as a manging controller, "
                    "the retention policy is ignored for this claim"
                )
                self._recorder.event(stateful_set, "Warning", "ConflictingController", text)
            after = owners_of_claim(claim, stateful_set, pod, wanted=wanted)
            if after is None:
                continue
            patch = {"metadata": {"resourceVersion": claim["metadata"]["resourceVersion"], "ownerReferences": after}}
            try:
                await self._client.patch_plain(VOLUME_CLAIMS, name(claim), patch, namespace=namespace(claim))
            except StatusError as error:
                cause = f"could not update claim {name(claim)} for delete policy ownerRefs: {error}"
                what = f"Update Pod {name(pod)} in StatefulSet {name(stateful_set)}"
                self._recorder.event(stateful_set, "Warning", "FailedUpdate", f"{what} failed error: {cause}")
                raise StatusError(error.code, error.reason, cause) from error

    async def _get(self, body: Plain) -> Plain | None:
        try:
            return await self._client.get_plain(VOLUME_CLAIMS, name(body), namespace=namespace(body))
        except StatusError as error:
            if error.code != 404:
                raise
            return None

    async def _create(self, stateful_set: Plain, pod: Plain, body: Plain) -> None:
        what = f"Create Claim {name(body)}"
        try:
            await self._client.create_plain(VOLUME_CLAIMS, body)
        except StatusError as error:
            if error.reason == "AlreadyExists":
                return
            text = f"{what} for Pod {name(pod)} in StatefulSet {name(stateful_set)} failed error: {error}"
            self._recorder.event(stateful_set, "Warning", "FailedCreate", text)
            raise StatusError(error.code, error.reason, f"failed to create PVC {name(body)}: {error}") from error
        text = f"{what} Pod {name(pod)} in StatefulSet {name(stateful_set)} success"
        self._recorder.event(stateful_set, "Normal", "SuccessfulCreate", text)


def _claims(stateful_set: Plain, pod: Plain) -> list[Plain]:
    selected = (spec(stateful_set).get("selector") or {}).get("matchLabels") or {}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                **{key: value for key, value in template["metadata"].items() if key in ("annotations", "finalizers")},
                "name": f"{template['metadata']['name']}-{name(pod)}",
                "namespace": namespace(stateful_set),
                "labels": {**labels(template), **selected},
            },
            "spec": template["spec"],
        }
        for template in spec(stateful_set).get("volumeClaimTemplates") or ()
    ]


def _is_stale(claim: Plain, pod: Plain) -> bool:
    """The claim goes with a pod of that name which is another."""
    return any(_names(reference, pod) and reference["uid"] != uid(pod) for reference in owners(claim))
