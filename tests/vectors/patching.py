"""Merge and JSON patches on plain objects: enough to replay recorded ones."""

from __future__ import annotations

import copy
from typing import Any

from drakit.api.errors import StatusError


def apply(content_type: str, obj: dict[str, Any], patch: Any) -> Any:
    """The patched object; None for the kinds of patch that need a schema."""
    if content_type == "application/merge-patch+json":
        return merge(copy.deepcopy(obj), patch)
    if content_type == "application/json-patch+json":
        return json_patch(copy.deepcopy(obj), patch)
    return None


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    target = target if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        else:
            target[key] = merge(target.get(key), value)
    return target


def json_patch(target: Any, operations: list[dict[str, Any]]) -> Any:
    """RFC 6902: add, replace, remove and test."""
    for operation in operations:
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        place = target
        for part in parents:
            place = place[int(part)] if isinstance(place, list) else place[part]
        kind = operation["op"]
        if kind == "test":
            if _at(place, last) != operation["value"]:
                raise StatusError(422, "Invalid", "the server rejected our request due to an error in our request")
        elif kind == "remove":
            del place[int(last) if isinstance(place, list) else last]
        elif isinstance(place, list) and kind == "add":
            place.insert(len(place) if last == "-" else int(last), operation["value"])
        else:
            place[int(last) if isinstance(place, list) else last] = operation["value"]
    return target


def _at(place: Any, key: str) -> Any:
    return place[int(key)] if isinstance(place, list) else place.get(key)
