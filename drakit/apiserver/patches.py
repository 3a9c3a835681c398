"""The three patch languages beside apply: RFC 6902 JSON Patch, RFC 7386 merge patch, Kubernetes' strategic merge patch.

Pure functions from an object and a patch to a new object; what is not touched is shared with the old one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from drakit.api.schema import Node, child_of
from drakit.api.wire import same

__all__ = ["PatchError", "json_patch", "merge_patch", "strategic_patch"]

_MISSING = object()
_ORDER, _DELETE_LIST, _RETAIN, _PATCH = "$setElementOrder/", "$deleteFromPrimitiveList/", "$retainKeys", "$patch"


class PatchError(ValueError):
    """The patch does not fit the object. `kind` says which answer it gets: test (422), bad (400)."""

    def __init__(self, message: str, *, rejected: bool = False) -> None:
        super().__init__(message)
        self.rejected = rejected  # a well-formed patch that does not apply


# -- RFC 7386 ----------------------------------------------------------------------------------------------------------


def merge_patch(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    if not isinstance(target, dict):
        return _without_nulls(patch)
    result = dict(target)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
            continue
        before = result.get(name)
        result[name] = merge_patch(before, value) if isinstance(before, dict) else _without_nulls(value)
    return result


def _without_nulls(value: Any) -> Any:
    """New content: what it says is null is not there, in lists of objects too; names in order, as Kubernetes' library leaves
    them (free-form parameters keep the order in which they are stored)."""
    if isinstance(value, dict):
        return {name: _without_nulls(value[name]) for name in sorted(value) if value[name] is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


# -- RFC 6902 ----------------------------------------------------------------------------------------------------------


def json_patch(target: Any, operations: Sequence[Any]) -> Any:
    document = target
    for operation in operations:
        if not isinstance(operation, dict):
            raise PatchError("an operation must be an object", rejected=True)
        document = _operate(document, operation)
    return document


def _operate(document: Any, operation: dict[str, Any]) -> Any:
    path = _pointer(operation.get("path"))
    match operation.get("op"):
        case "add":
            return _edit(document, path, "add", operation.get("value"))
        case "remove":
            return _edit(document, path, "remove", None)
        case "replace":
            if not path:
                return operation.get("value")
            return _edit(document, path, "replace", operation.get("value"))
        case "move":
            source = _pointer(operation.get("from"))
            if path[: len(source)] == source and path != source:
                raise PatchError("a value cannot move into itself", rejected=True)
            moved = _read(document, source)
            return _edit(_edit(document, source, "remove", None), path, "add", moved)
        case "copy":
            return _edit(document, path, "add", _read(document, _pointer(operation.get("from")), missing_is_null=True))
        case "test":
            if not same(_read(document, path, missing_is_null=True), operation.get("value")):
                raise PatchError("test failed", rejected=True)
            return document
        case other:
            raise PatchError(f"unexpected kind: {other}", rejected=True)


def _pointer(text: Any) -> list[str]:
    if not isinstance(text, str):
        raise PatchError(f"bad path {text!r}", rejected=True)
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


_INDEX = re.compile(r"[-+]?[0-9]{1,18}", re.ASCII)


def _position(items: list[Any], part: str, *, end: bool) -> int:
    if part == "-" and end:
        return len(items)
    if not _INDEX.fullmatch(part):
        raise PatchError(f"bad index {part!r}", rejected=True)
    position = int(part)
    if position < 0:
        position += len(items) + end
    if not 0 <= position < len(items) + end:
        raise PatchError(f"index {part} out of range", rejected=True)
    return position


def _read(document: Any, path: list[str], *, missing_is_null: bool = False) -> Any:
    """What stands at the path. Of the last step Kubernetes' library does not know whether it is null or not there."""
    for left, part in zip(range(len(path) - 1, -1, -1), path, strict=True):
        if isinstance(document, dict) and part in document:
            document = document[part]
        elif isinstance(document, list):
            document = document[_position(document, part, end=False)]
        elif missing_is_null and not left and isinstance(document, dict):
            return None
        else:
            raise PatchError(f"missing {part!r}", rejected=True)
    return document


def _edit(document: Any, path: list[str], action: str, value: Any) -> Any:
    """A copy of the document along the path, with the change at its end."""
    if not path:
        raise PatchError("the path names nothing", rejected=True)
    part, rest = path[0], path[1:]
    if isinstance(document, dict):
        copy = dict(document)
        if (rest or action == "remove") and part not in copy:  # to replace what is not there is to add it
            raise PatchError(f"missing {part!r}", rejected=True)
        if rest:
            copy[part] = _edit(copy[part], rest, action, value)
        elif action == "remove":
            del copy[part]
        else:
            copy[part] = value
        return copy
    if isinstance(document, list):
        items = list(document)
        position = _position(items, part, end=not rest and action == "add")
        if rest:
            items[position] = _edit(items[position], rest, action, value)
        elif action == "remove":
            del items[position]
        elif action == "add":
            items.insert(position, value)
        else:
            items[position] = value
        return items
    raise PatchError(f"nothing to descend into at {part!r}", rejected=True)


# -- strategic merge ---------------------------------------------------------------------------------------------------


def strategic_patch(target: dict[str, Any], patch: dict[str, Any], schema: Node | None) -> dict[str, Any]:
    return _merge_map(target, patch, schema)


def _merge_map(original: dict[str, Any], patch: dict[str, Any], schema: Node | None) -> dict[str, Any]:
    directive = patch.get(_PATCH)
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != _PATCH}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise PatchError(f"unknown patch type: {directive}")
    result = dict(original)
    if _RETAIN in patch:
        retained = patch[_RETAIN]
        if not isinstance(retained, list):
            raise PatchError(f"{_RETAIN} must be a list")
        for name in [name for name in result if name not in retained]:
            del result[name]
    ordered: set[str] = set()
    for name, order in patch.items():
        if name.startswith(_ORDER):
            field = name.removeprefix(_ORDER)
            ordered.add(field)
            _merge_ordered(result, patch, field, order, child_of(schema, field))
    for name, value in patch.items():
        if name in (_PATCH, _RETAIN) or name.startswith(_ORDER) or name in ordered:
            continue
        if name.startswith(_DELETE_LIST):
            field = name.removeprefix(_DELETE_LIST)
            if field not in ordered and isinstance(result.get(field), list):
                result[field] = [item for item in result[field] if item not in value]
        elif value is None:
            result.pop(name, None)
        else:
            result[name] = _merge_value(result.get(name, _MISSING), value, child_of(schema, name))
    return result


def _merge_value(original: Any, value: Any, schema: Node | None) -> Any:
    if isinstance(value, dict) and isinstance(original, dict):
        return _merge_map(original, value, schema)
    if isinstance(value, list) and isinstance(original, list):
        if schema is not None and schema.patch_merge:
            return _merge_list(original, value, schema, value)
        return _without_directives(value)
    return _without_directives(value)


def _without_directives(value: Any) -> Any:
    """New content: directives in it have nothing to act on, nulls nothing to remove."""
    if isinstance(value, dict):
        if value.get(_PATCH) == "delete":
            return {}
        return {
            name: _without_directives(item)
            for name, item in value.items()
            if item is not None and name not in (_PATCH, _RETAIN) and not name.startswith((_ORDER, _DELETE_LIST))
        }
    if isinstance(value, list):
        return [
            _without_directives(item) for item in value if not (isinstance(item, dict) and item.get(_PATCH) == "delete")
        ]
    return value


def _merge_ordered(result: dict[str, Any], patch: dict[str, Any], field: str, order: Any, schema: Node | None) -> None:
    """`$setElementOrder/field` together with the list patch or the deletions for the same field."""
    original = result.get(field)
    original = original if isinstance(original, list) else []
    value = patch.get(field)
    if field in patch and value is None:
        result.pop(field, None)
        return
    if not isinstance(order, list):
        raise PatchError(f"{_ORDER}{field} must be a list")
    deleted = patch.get(_DELETE_LIST + field) or []
    kept = [item for item in original if item not in deleted] if deleted else original
    merge = schema is not None and schema.patch_merge
    if isinstance(value, list) and not merge:
        result[field] = _without_directives(value)
        return
    merged = _merge_list(kept, value if isinstance(value, list) else [], schema, order, original)
    if merged or field in result:
        result[field] = merged


def _merge_list(
    original: list[Any], patch: list[Any], schema: Node | None, order: list[Any], live: list[Any] | None = None
) -> list[Any]:
    key = schema.merge_key if schema is not None else ""
    element = schema.element if schema is not None else None
    live = original if live is None else live
    if not any(isinstance(item, dict) for item in (*original, *patch)):
        merged: list[Any] = []
        for item in (*original, *patch):
            if item not in merged:
                merged.append(item)
    else:
        if not key:
            raise PatchError("cannot merge lists without merge key")
        merged = _merge_items(original, patch, key, element)
    mine = [_identity(item, key) for item in order]
    ours = [item for item in merged if _identity(item, key) in mine]
    ours.sort(key=lambda item: mine.index(_identity(item, key)))
    theirs = [item for item in merged if _identity(item, key) not in mine]
    return _interleave(theirs, ours, [_identity(item, key) for item in live], key)


def _merge_items(original: list[Any], patch: list[Any], key: str, element: Node | None) -> list[Any]:
    if any(not isinstance(item, dict) for item in (*original, *patch)):
        raise PatchError("a list must not mix objects and other values")
    if any(item.get(_PATCH) == "replace" for item in patch):
        return [_without_directives(item) for item in patch if _PATCH not in item]
    gone = [item.get(key) for item in patch if item.get(_PATCH) == "delete"]
    merged = [item for item in original if item.get(key) not in gone] if gone else list(original)
    for item in patch:
        if item.get(_PATCH) == "delete":
            continue
        if key not in item:
            raise PatchError(f"map: {item} does not contain declared merge key: {key}")
        for position, present in enumerate(merged):
            if present.get(key) == item[key]:
                merged[position] = _merge_map(present, item, element)
                break
        else:
            merged.append(_without_directives(item))
    return merged


def _identity(item: Any, key: str) -> Any:
    return item.get(key) if key and isinstance(item, dict) else item


def _interleave(left: list[Any], right: list[Any], live: list[Any], key: str) -> list[Any]:
    """Items that only the server has, put between those of the patch where the live order allows."""
    out: list[Any] = []
    i = j = 0
    while i < len(left) or j < len(right):
        if i >= len(left):
            take_left = False
        elif j >= len(right):
            take_left = True
        else:
            a, b = _identity(left[i], key), _identity(right[j], key)
            take_left = a in live and b in live and live.index(a) < live.index(b)
        if take_left:
            out.append(left[i])
            i += 1
        else:
            out.append(right[j])
            j += 1
    return out
