"""What the claim controller decides, as functions of plain objects: names, new claims, reservations to drop, claims to delete.

Pods and PodGroups are both "consumers": objects with `spec.resourceClaims` and `status.resourceClaimStatuses`
(pkg/controller/resourceclaim, k8s.io/dynamic-resource-allocation/resourceclaim).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from drakit.controllers.objects import (
    Plain,
    controller_of,
    deleting,
    finalizers,
    name,
    namespace,
    pod_finished,
    spec,
    status,
    uid,
)

__all__ = [
    "FINALIZER",
    "POD_CLAIM_NAME",
    "ClaimPlan",
    "Presence",
    "binds_to_group",
    "claim_of_entry",
    "claims_awaited",
    "claims_used",
    "decide_claim",
    "generate_name",
    "group_keys",
    "group_of",
    "is_for",
    "metric_labels",
    "new_claim",
    "pod_done",
    "protected_for_nothing",
    "reservation",
    "reserved_for",
    "templates_used",
    "with_names",
]

FINALIZER = "resource.kubernetes.io/delete-protection"
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
EXTENDED_RESOURCE_CLAIM = "resource.kubernetes.io/extended-resource-claim"
_NAME_BASE = 57  # room for a hyphen and five random characters in 63

# Whether a consumer still holds its reservation; None when the cache does not know it and the server has to be asked.
Presence = Callable[[Plain], bool | None]


def generate_name(consumer: str, entry: str) -> str:
    """`<consumer>-<entry>-`; when too long both are cut in proportion, so that the end of neither gets lost alone."""
    full = f"{consumer}-{entry}-"
    if len(full) <= _NAME_BASE:
        return full
    return f"{consumer[: len(consumer) * _NAME_BASE // len(full)]}-{entry[: len(entry) * _NAME_BASE // len(full)]}"


def claim_of_entry(consumer: Plain, entry: Plain) -> str | None:
    """The claim of an entry of spec.resourceClaims: named there, or recorded in the status; "" when none has been recorded yet.

    None: it was decided before that the entry needs no claim.
    """
    if entry.get("resourceClaimName"):
        return str(entry["resourceClaimName"])
    for recorded in status(consumer).get("resourceClaimStatuses") or ():
        if recorded["name"] == entry["name"]:
            return recorded.get("resourceClaimName") or None
    return ""


def claims_used(consumer: Plain) -> list[str]:
    """Keys of the claims a pod or group refers to, the one for extended resources included."""
    prefix = f"{namespace(consumer)}/"
    names = (claim_of_entry(consumer, entry) for entry in spec(consumer).get("resourceClaims") or ())
    keys = [prefix + claim for claim in names if claim]
    extended = status(consumer).get("extendedResourceClaimStatus")
    if extended:
        keys.append(prefix + extended["resourceClaimName"])
    return keys


def claims_awaited(consumer: Plain) -> list[str]:
    """Of the claims used, those whose change may make work for the pod or group: made for it or, once a pod runs, any that is not
    reserved for it yet. Thousands of pods may wait for one shared claim: its changes are none to them, the scheduler reserves."""
    if consumer["kind"] == "Pod":
        if pod_done(consumer):
            return []
        if spec(consumer).get("nodeName"):
            return claims_used(consumer)
    prefix = f"{namespace(consumer)}/"
    entries = spec(consumer).get("resourceClaims") or ()
    names = (claim_of_entry(consumer, entry) for entry in entries if entry.get("resourceClaimTemplateName"))
    return [prefix + claim for claim in names if claim]


def templates_used(consumer: Plain) -> list[str]:
    prefix = f"{namespace(consumer)}/"
    entries = spec(consumer).get("resourceClaims") or ()
    return [prefix + entry["resourceClaimTemplateName"] for entry in entries if entry.get("resourceClaimTemplateName")]


def pod_done(pod: Plain) -> bool:
    """It runs no more, and never will."""
    return pod_finished(pod) or (deleting(pod) and not spec(pod).get("nodeName"))


def is_for(consumer: Plain, claim: Plain) -> bool:
    """Whether a claim from a template was made for this pod or group, or for the group of this pod."""
    owner = controller_of(claim)
    if owner is None:
        return False
    return bool(owner["uid"] == uid(consumer) or (owner["kind"] == "PodGroup" and owner["name"] == group_of(consumer)))


def group_of(pod: Plain) -> str:
    return str((spec(pod).get("schedulingGroup") or {}).get("podGroupName") or "")


def group_keys(pod: Plain) -> tuple[str, ...]:
    """The key of the pod's group, if it has one."""
    group = group_of(pod)
    return (f"{namespace(pod)}/{group}",) if group else ()


def reservation(consumer: Plain) -> Plain:
    if consumer["kind"] == "Pod":
        return {"resource": "pods", "name": name(consumer), "uid": uid(consumer)}
    return {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": name(consumer), "uid": uid(consumer)}


def reserved_for(claim: Plain, pod: Plain) -> bool:
    """For the pod itself or, by name, for its group."""
    pod_uid, group = uid(pod), group_of(pod)
    for entry in status(claim).get("reservedFor") or ():
        if entry["uid"] == pod_uid or (group and entry["resource"] == "podgroups" and entry["name"] == group):
            return True
    return False


def binds_to_group(entry: Plain, group: Plain | None) -> bool:
    """An entry that the pod's group has too (same name, same source) is the group's claim."""
    if group is None:
        return False
    return any(
        other["name"] == entry["name"]
        and other.get("resourceClaimName") == entry.get("resourceClaimName")
        and other.get("resourceClaimTemplateName") == entry.get("resourceClaimTemplateName")
        for other in spec(group).get("resourceClaims") or ()
    )


def new_claim(consumer: Plain, entry: str, template: Plain) -> Plain:
    """The claim for one entry, made from its template."""
    wanted = template["spec"].get("metadata") or {}
    metadata: Plain = {
        "generateName": generate_name(name(consumer), entry),
        "namespace": namespace(consumer),
        "annotations": {**(wanted.get("annotations") or {}), POD_CLAIM_NAME: entry},
        "ownerReferences": [
            {
                "apiVersion": consumer["apiVersion"],
                "kind": consumer["kind"],
                "name": name(consumer),
                "uid": uid(consumer),
                "controller": True,
            }
        ],
    }
    if wanted.get("labels"):
        metadata["labels"] = wanted["labels"]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": template["spec"]["spec"],
    }


def with_names(consumer: Plain, new: dict[str, str]) -> list[Plain]:
    """status.resourceClaimStatuses with the new names in it, sorted by entry."""
    recorded = status(consumer).get("resourceClaimStatuses") or ()
    merged = {entry["name"]: entry["resourceClaimName"] for entry in recorded if entry.get("resourceClaimName")} | new
    return [{"name": entry, "resourceClaimName": merged[entry]} for entry in sorted(merged)]


@dataclass(frozen=True, slots=True)
class ClaimPlan:
    """What to write for one claim, in this order. Nothing at all is the usual case."""

    ask: tuple[Plain, ...] = ()  # consumers that only the server can tell about; decide again with its answers
    reserved: list[Plain] | None = None  # the reservations that remain, when some go
    deallocate: bool = False
    unprotect: bool = False  # remove the finalizer
    delete: bool = False

    @property
    def nothing(self) -> bool:
        return not (self.ask or self.reserved is not None or self.deallocate or self.unprotect or self.delete)


def decide_claim(
    claim: Plain,
    present: Presence,
    owner_pod: Callable[[str], Plain | None],
    made_twice: Callable[[Plain], bool],
) -> ClaimPlan:
    """`owner_pod` gives the cached pod of a key; `made_twice`: whether a generated one is one too many. See reference §1, syncClaim."""
    before: list[Plain] = status(claim).get("reservedFor") or []
    answers = [present(entry) for entry in before]
    unknown = tuple(entry for entry, answer in zip(before, answers, strict=True) if answer is None)
    if unknown:
        return ClaimPlan(ask=unknown)
    remaining = [entry for entry, answer in zip(before, answers, strict=True) if answer]
    protected = FINALIZER in finalizers(claim)
    allocated = status(claim).get("allocation") is not None
    dropped = len(remaining) < len(before)
    deallocate = unprotect = False
    if dropped:
        deallocate = not remaining and protected and allocated
        unprotect = protected and not remaining
    elif protected and deleting(claim) and not remaining:
        deallocate, unprotect = allocated, True
    return ClaimPlan(
        reserved=remaining if dropped else None,
        deallocate=deallocate,
        unprotect=unprotect,
        delete=not remaining and not deleting(claim) and (_generated_in_vain(claim, owner_pod) or made_twice(claim)),
    )


def protected_for_nothing(claim: Plain) -> bool:
    """The finalizer is there, but neither allocation nor reservation."""
    return (
        FINALIZER in finalizers(claim)
        and status(claim).get("allocation") is None
        and not status(claim).get("reservedFor")
    )


def _generated_in_vain(claim: Plain, owner_pod: Callable[[str], Plain | None]) -> bool:
    """The pod that the claim was made for will not run. A pod that the cache does not know may be new: the garbage collector's."""
    owner = controller_of(claim)
    if owner is None or owner["kind"] != "Pod" or owner["apiVersion"] != "v1":
        return False
    pod = owner_pod(f"{namespace(claim)}/{owner['name']}")
    return pod is not None and (uid(pod) != owner["uid"] or pod_done(pod))


def metric_labels(claim: Plain) -> tuple[str, str, str]:
    """admin_access, owner_api_group, owner_api_kind."""
    requests: list[dict[str, Any]] = claim["spec"].get("devices", {}).get("requests") or []
    admin = any((request.get("exactly") or {}).get("adminAccess") for request in requests)
    owner = controller_of(claim)
    group, kind = (owner["apiVersion"].rpartition("/")[0], owner["kind"]) if owner else ("", "")
    return "true" if admin else "false", group, kind
