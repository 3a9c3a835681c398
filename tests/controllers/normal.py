"""The state of a cluster, without what differs between two equal histories: generated names, UIDs, versions, times."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from drakit.client import Plain, resource_of
from tests.controllers.cluster import Cluster

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SUFFIX = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}(?![a-z0-9])")  # of names whose object is gone
_DROPPED = ("managedFields", "resourceVersion", "generation", "creationTimestamp", "uid", "selfLink", "generateName")
_HISTORY = "deployment.kubernetes.io/"
_PASSING = ("RecreateCompleted",)  # of a template that was replaced before anyone saw it there is none
_DROPPED_STATUS = ("observedGeneration",)


async def state(cluster: Cluster, models: Iterable[type[Any]]) -> list[str]:
    """One line per object, sorted."""
    objects: list[Plain] = []
    for model in models:
        resource = resource_of(model)
        for item in await cluster.list(model):
            if (
                resource.kind == "ReplicaSet"
                and item["metadata"].get("ownerReferences")
                and not item["spec"]["replicas"]
            ):
                continue  # history: a template that was replaced before anyone saw it leaves none
            if resource.kind == "Pod" and _counted(item):
                continue
            objects.append({"apiVersion": resource.api_version, "kind": resource.kind, **item})
    names: dict[str, str] = {}
    for obj in objects:
        metadata = obj["metadata"]
        shown = metadata["name"]
        if metadata.get("generateName"):
            shown = f"{metadata['generateName']}*"
            names[metadata["name"]] = shown
        elif obj["kind"] in ("Workload", "PodGroup") and metadata.get("ownerReferences"):
            shown = f"{obj['kind']} of {metadata['ownerReferences'][0]['name']}"  # named after the owner's UID
            names[metadata["name"]] = shown
        names[metadata["uid"]] = f"<{obj['kind']} {shown}>"
    # Longest first, and until nothing changes: a generated name may be the base of another.
    ordered = sorted(names, key=len, reverse=True)
    return sorted(_line(obj, ordered, names) for obj in objects)


def _counted(pod: Plain) -> bool:
    """A finished pod of a Job is a number in its status; a create whose answer got lost may leave one more of them."""
    owned = any(owner["kind"] == "Job" for owner in pod["metadata"].get("ownerReferences") or ())
    return owned and pod["status"].get("phase") in ("Succeeded", "Failed") and not pod["metadata"].get("finalizers")


def _line(obj: Plain, ordered: list[str], names: dict[str, str]) -> str:
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _DROPPED}
    annotations = {
        key: value for key, value in (metadata.pop("annotations", None) or {}).items() if not key.startswith(_HISTORY)
    }
    if annotations:
        metadata["annotations"] = annotations
    body = {**{key: value for key, value in obj.items() if key != "metadata"}, "metadata": metadata}
    if isinstance(body.get("status"), dict):
        body["status"] = {key: value for key, value in body["status"].items() if key not in _DROPPED_STATUS}
        completions = (obj.get("spec") or {}).get("completions")
        if obj["kind"] == "Job" and completions and body["status"].get("succeeded", 0) > completions:
            # One pod more than wanted, from a create whose answer got lost: Kubernetes has the event TooManySucceededPods for it.
            body["status"]["succeeded"] = completions
        conditions = [
            {key: value for key, value in entry.items() if key != "observedGeneration"}
            for entry in body["status"].pop("conditions", None) or ()
            if (entry["type"], entry["status"]) != ("Suspended", "False") and entry.get("reason") not in _PASSING
        ]
        if conditions:
            body["status"]["conditions"] = sorted(conditions, key=lambda entry: entry["type"])
    text = json.dumps(body, sort_keys=True)
    for name in ordered:
        if name in text:
            text = text.replace(name, names[name])
    return _SUFFIX.sub("-*", _UID.sub("<uid>", _TIME.sub("<time>", text)))
