"""Reading plain objects: metadata, owners, conditions, pod states; and the small bodies that every controller writes.

Controllers work on plain objects, not on models: they copy templates into pods and claims and write patches, and a field that our models do
not know must survive that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from drakit.api.times import timestamp
from drakit.client import Plain, key_of

__all__ = [
    "Plain",
    "bound_at",
    "condition",
    "conditions_patch",
    "controller_of",
    "controller_reference",
    "deleting",
    "finalizers",
    "format_time",
    "is_true",
    "key_of",
    "labels",
    "merge_patch",
    "name",
    "namespace",
    "owners",
    "parse_time",
    "pod_active",
    "pod_available",
    "pod_finished",
    "pod_ready",
    "same_owner",
    "set_condition",
    "spec",
    "status",
    "status_patch",
    "uid",
    "version",
]

_EMPTY: Mapping[str, Any] = {}


def name(obj: Plain) -> str:
    return str(obj["metadata"]["name"])


def namespace(obj: Plain) -> str:
    return str(obj["metadata"].get("namespace") or "")


def uid(obj: Plain) -> str:
    return str(obj["metadata"].get("uid") or "")


def version(obj: Plain) -> int:
    return int(obj["metadata"].get("resourceVersion") or 0)


def labels(obj: Plain) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or _EMPTY


def spec(obj: Plain) -> Mapping[str, Any]:
    return obj.get("spec") or _EMPTY


def status(obj: Plain) -> Mapping[str, Any]:
    return obj.get("status") or _EMPTY


def deleting(obj: Plain) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def finalizers(obj: Plain) -> list[str]:
    return obj["metadata"].get("finalizers") or []


def owners(obj: Plain) -> list[Plain]:
    return obj["metadata"].get("ownerReferences") or []


def controller_of(obj: Plain) -> Plain | None:
    """The owner reference with `controller: true`."""
    for owner in owners(obj):
        if owner.get("controller"):
            return owner
    return None


def same_owner(reference: Plain | None, kind: str, group: str) -> bool:
    """Whether an owner reference names that kind, in whichever version."""
    return reference is not None and reference["kind"] == kind and reference["apiVersion"].rpartition("/")[0] == group


def controller_reference(owner: Plain) -> Plain:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name(owner),
        "uid": uid(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def format_time(moment: datetime) -> str:
    return timestamp(moment)


def parse_time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def condition(obj: Plain, kind: str) -> Plain | None:
    for entry in status(obj).get("conditions") or ():
        if entry["type"] == kind:
            return dict(entry)
    return None


def is_true(obj: Plain, kind: str) -> bool:
    found = condition(obj, kind)
    return found is not None and found["status"] == "True"


def set_condition(conditions: Iterable[Plain], new: Plain, now: datetime) -> list[Plain]:
    """The list with `new` in place of its type; lastTransitionTime changes only with the status."""
    result: list[Plain] = []
    stamp = format_time(now)
    placed = False
    for entry in conditions:
        if entry["type"] != new["type"]:
            result.append(entry)
            continue
        placed = True
        kept = entry.get("lastTransitionTime") if entry["status"] == new["status"] else None
        result.append({**new, "lastTransitionTime": new.get("lastTransitionTime") or kept or stamp})
    if not placed:
        result.append({**new, "lastTransitionTime": new.get("lastTransitionTime") or stamp})
    return result


def conditions_patch(obj: Plain, entries: Iterable[Plain]) -> Plain:
    """What a strategic patch of `status` says to set conditions where they stand, and new ones at the end.

    As in `set_condition`, lastTransitionTime changes only with the status.
    """
    entries = [_since(entry, condition(obj, entry["type"])) for entry in entries]
    order = [entry["type"] for entry in status(obj).get("conditions") or ()]
    order += [entry["type"] for entry in entries if entry["type"] not in order]
    return {"$setElementOrder/conditions": [{"type": kind} for kind in order], "conditions": entries}


def _since(new: Plain, known: Plain | None) -> Plain:
    if known is None or known["status"] != new["status"] or not known.get("lastTransitionTime"):
        return new
    return {**new, "lastTransitionTime": known["lastTransitionTime"]}


def status_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> Plain | None:
    """The merge patch of `status` that makes `old` equal `new`; None when there is nothing to write."""
    patch = merge_patch(old, new)
    return {"status": patch} if patch else None


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> Plain:
    """RFC 7386: what a merge patch has to say, key by key, to turn one object into the other."""
    patch: Plain = {}
    for field, value in new.items():
        before = old.get(field)
        if isinstance(value, dict) and isinstance(before, dict):
            inner = merge_patch(before, value)
            if inner:
                patch[field] = inner
        elif before != value or field not in old:
            patch[field] = value
    for field in old:
        if field not in new:
            patch[field] = None
    return patch


# Pods.


def pod_finished(pod: Plain) -> bool:
    return status(pod).get("phase") in ("Succeeded", "Failed")


def pod_active(pod: Plain) -> bool:
    return not pod_finished(pod) and not deleting(pod)


def pod_ready(pod: Plain) -> bool:
    return is_true(pod, "Ready")


def pod_available(pod: Plain, min_ready_seconds: int, now: datetime) -> bool:
    """Ready, and so for the time that its workload asks for."""
    ready = condition(pod, "Ready")
    if ready is None or ready["status"] != "True":
        return False
    if not min_ready_seconds:
        return True
    since = ready.get("lastTransitionTime")
    return since is not None and (now - parse_time(since)).total_seconds() >= min_ready_seconds


def bound_at(pod: Plain) -> datetime | None:
    """Since when it has been on its node."""
    scheduled = condition(pod, "PodScheduled")
    text = scheduled.get("lastTransitionTime") if scheduled is not None and scheduled["status"] == "True" else None
    text = text or pod["metadata"].get("creationTimestamp")
    return parse_time(text) if text else None
