"""Sets of field paths, in the form that managedFields stores them (FieldsV1), and the walks that make and use them.

A set is a nested dict: `{"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}`. An entry with nothing below it is a member;
one with something below it is a member when it holds ".". The walks follow the schema: lists by key or value, atomic
things as a whole. This is structured-merge-diff's algebra (compare, merge, remove) on plain values.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from drakit.api.schema import Node, child_of
from drakit.apiserver import go_text

__all__ = [
    "Comparison", "FieldSet", "SchemaError", "check", "compare", "difference", "field_set", "intersection", "merge",
    "named_members", "paths", "remove", "union", "without_under",
]  # fmt: skip

FieldSet = dict[str, Any]
_LEAF: FieldSet = {}
_MISSING: Any = object()


class SchemaError(ValueError):
    """The value does not fit the schema; the text begins with the path."""


class Comparison(NamedTuple):
    removed: FieldSet
    modified: FieldSet
    added: FieldSet


# -- algebra -----------------------------------------------------------------------------------------------------------


def _is_member(node: FieldSet) -> bool:
    return not node or "." in node


def _entry(member: bool, below: FieldSet) -> FieldSet | None:
    if not below:
        return _LEAF if member else None
    return {".": _LEAF, **below} if member else below


def _below(node: FieldSet) -> FieldSet:
    return {key: value for key, value in node.items() if key != "."} if "." in node else node


def union(a: FieldSet, b: FieldSet) -> FieldSet:
    if not a:
        return b
    if not b:
        return a
    out = dict(a)
    for key, theirs in b.items():
        mine = out.get(key)
        if mine is None:
            out[key] = theirs
        elif mine != theirs:
            member = _is_member(mine) or _is_member(theirs)
            out[key] = _entry(member, union(_below(mine), _below(theirs))) or _LEAF
    return out


def difference(a: FieldSet, b: FieldSet) -> FieldSet:
    """The members of a that are not members of b."""
    if not a or not b:
        return a
    out: FieldSet = {}
    for key, mine in a.items():
        theirs = b.get(key)
        if theirs is None:
            out[key] = mine
            continue
        left = _entry(_is_member(mine) and not _is_member(theirs), difference(_below(mine), _below(theirs)))
        if left is not None:
            out[key] = left
    return out


def intersection(a: FieldSet, b: FieldSet) -> FieldSet:
    out: FieldSet = {}
    for key, mine in a.items():
        theirs = b.get(key)
        if theirs is None:
            continue
        left = _entry(_is_member(mine) and _is_member(theirs), intersection(_below(mine), _below(theirs)))
        if left is not None:
            out[key] = left
    return out


def without_under(a: FieldSet, b: FieldSet) -> FieldSet:
    """a without the members of b and everything below them."""
    if not a or not b:
        return a
    out: FieldSet = {}
    for key, mine in a.items():
        theirs = b.get(key)
        if theirs is None:
            out[key] = mine
        elif not _is_member(theirs):
            left = _entry(_is_member(mine), without_under(_below(mine), theirs))
            if left is not None:
                out[key] = left
    return out


def named_members(node: Node | None, fields: FieldSet) -> FieldSet:
    """The set with every struct field on the way to a member made a member too."""
    out: FieldSet = {}
    for key, below in fields.items():
        if key == ".":
            out[key] = below
            continue
        child = _child_of_element(node, key)
        inner = named_members(child, below) if below else below
        named = key.startswith("f:") and node is not None and node.type == "struct" and key[2:] in node.fields
        out[key] = {".": _LEAF, **inner} if named and inner and "." not in inner else inner
    return out


def _child_of_element(node: Node | None, key: str) -> Node | None:
    if node is None:
        return None
    if key.startswith("f:"):
        return child_of(node, key[2:])
    return node.element


def paths(fields: FieldSet, prefix: str = "") -> Iterator[str]:
    """Every member as people read it: `.spec.containers[name="c"].image`, in order."""
    names = [key for key in sorted(fields) if key != "."]
    yield from (prefix + _readable(key) for key in names if _is_member(fields[key]))
    for key in names:
        yield from paths(_below(fields[key]), prefix + _readable(key))


def _readable(key: str) -> str:
    kind, _, text = key.partition(":")
    if kind == "f":
        return f".{text}"
    if kind == "k":
        return "[" + ",".join(f"{name}={json.dumps(value)}" for name, value in sorted(json.loads(text).items())) + "]"
    return f"[={text}]" if kind == "v" else f"[{text}]"


# -- walks -------------------------------------------------------------------------------------------------------------


def _is_atomic(node: Node | None) -> bool:
    return node is None or node.type in ("scalar", "any") or node.atomic


def _item_key(node: Node, item: Any) -> str:
    """The path element of a list item: by its keys, or by its value."""
    if node.list_type == "set" or not isinstance(item, dict):
        return "v:" + json.dumps(item, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    keys = node.keys
    if len(keys) == 1:
        name = keys[0]
        value = item.get(name)
        if (
            isinstance(value, str)
            and value.isascii()
            and '"' not in value
            and "\\" not in value
            and value.isprintable()
        ):
            return f'k:{{"{name}":"{value}"}}'
    defaults = node.key_defaults
    found = {}
    for name in sorted(keys):
        value = item.get(name)
        if value is None:
            value = defaults.get(name)
        if value is not None:
            found[name] = value
    return "k:" + json.dumps(found, separators=(",", ":"), ensure_ascii=False)


class _Shape:
    """A schema node made quick to walk: what it is, its fields with their path elements, its element."""

    __slots__ = ("_element", "fields", "leaf", "node", "of_items")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.leaf = node.type in ("scalar", "any") or node.atomic
        self.of_items = node.type == "list"
        # Filled as fields are met: models are large and objects use few of their fields.
        self.fields: dict[str, tuple[str, _Shape | None]] = {}
        self._element: _Shape | None = None

    def field(self, name: str) -> tuple[str, _Shape | None]:
        child = child_of(self.node, name)
        shape = None if child is None else _shape(child)
        if shape is not None and shape.leaf:
            shape = None
        entry = (sys.intern("f:" + name), shape)
        if self.node.type == "struct":  # the keys of a map are data: not to be remembered for ever
            self.fields[name] = entry
        return entry

    @property
    def element(self) -> _Shape | None:
        if self._element is None and self.node.element is not None:
            self._element = _shape(self.node.element)
        return self._element


@functools.cache
def _shape(node: Node) -> _Shape:
    return _Shape(node)


def compare(node: Node, old: dict[str, Any], new: dict[str, Any]) -> Comparison:
    removed: FieldSet = {}
    modified: FieldSet = {}
    added: FieldSet = {}
    _compare_members(_shape(node), old, new, removed, modified, added)
    return Comparison(removed, modified, added)


def _compare_members(
    shape: _Shape, old: dict[str, Any], new: dict[str, Any], removed: FieldSet, modified: FieldSet, added: FieldSet
) -> None:
    known = shape.fields
    for name, value in new.items():
        before = old.get(name, _MISSING)
        if before is value or (before is not _MISSING and before == value):
            continue
        key, child = known.get(name) or shape.field(name)
        if before is _MISSING:
            added[key] = _LEAF if child is None or not value else _everything(child, value)
        elif child is None:
            modified[key] = _LEAF
        else:
            _compare(child, before, value, key, removed, modified, added)
    for name, before in old.items():
        if name not in new:
            key, child = known.get(name) or shape.field(name)
            removed[key] = _LEAF if child is None or not before else _everything(child, before)


def _everything(shape: _Shape, value: Any) -> FieldSet:
    """The set of a value that is all new or all gone: each step on the way is a member."""
    out: FieldSet = {".": _LEAF}
    if shape.of_items:
        if not isinstance(value, list):
            return _LEAF
        element, node = shape.element, shape.node
        if element is not None and element.leaf:
            element = None
        for item in value:
            key = _item_key(node, item)
            # Met twice: the items cannot be told apart and are owned as one.
            out[key] = _LEAF if element is None or not item or key in out else _everything(element, item)
        return out
    if not isinstance(value, dict):
        return _LEAF
    known = shape.fields
    for name, item in value.items():
        key, child = known.get(name) or shape.field(name)
        out[key] = _LEAF if child is None or not item else _everything(child, item)
    return out


def _compare(
    shape: _Shape, old: Any, new: Any, key: str, removed: FieldSet, modified: FieldSet, added: FieldSet
) -> None:
    """Enter the differences of one value that is on both sides, under `key`."""
    kind: type = list if shape.of_items else dict
    if (not old and not new) or not isinstance(old or kind(), kind) or not isinstance(new or kind(), kind):
        modified[key] = _LEAF
        return
    below_removed: FieldSet = {}
    below_modified: FieldSet = {}
    below_added: FieldSet = {}
    if shape.of_items:
        _compare_items(shape, old or [], new or [], below_removed, below_modified, below_added)
    else:
        _compare_members(shape, old or {}, new or {}, below_removed, below_modified, below_added)
    if below_added:
        added[key] = below_added
    if below_removed:
        removed[key] = below_removed
    if below_modified:
        modified[key] = below_modified


def _compare_items(
    shape: _Shape, old: list[Any], new: list[Any], removed: FieldSet, modified: FieldSet, added: FieldSet
) -> None:
    before, after = _grouped(shape.node, old), _grouped(shape.node, new)
    element = shape.element
    if element is not None and element.leaf:
        element = None

    def whole(items: list[Any]) -> FieldSet:
        return _LEAF if len(items) > 1 or element is None or not items[0] else _everything(element, items[0])

    for key in {**before, **after}:
        left, right = before.get(key), after.get(key)
        if left is None or right is None:
            if right is not None:
                added[key] = whole(right)
            elif left is not None:
                removed[key] = whole(left)
        elif left == right:
            continue
        elif len(left) == 1 and len(right) == 1 and element is not None:
            _compare(element, left[0], right[0], key, removed, modified, added)
        elif len(left) >= 2 and len(right) == 1:
            added[key] = whole(right)
            removed[key] = _LEAF
        elif len(left) == 1 and len(right) >= 2:
            removed[key] = whole(left)
            added[key] = _LEAF
        else:
            modified[key] = _LEAF


def _grouped(node: Node, items: list[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in items:
        found.setdefault(_item_key(node, item), []).append(item)
    return found


def field_set(node: Node, value: dict[str, Any]) -> FieldSet:
    """The fields that a value sets."""
    out: FieldSet = {}
    for name, item in value.items():
        child = child_of(node, name)
        below = _value_set(child, item)
        declared = node.type == "struct" and name in node.fields
        empty = item is None or item == {}
        if below is _LEAF or (not below and (empty or not declared)):
            out["f:" + name] = _LEAF
        elif below:
            out["f:" + name] = below if declared else {".": _LEAF, **below}
    return out


def _value_set(node: Node | None, value: Any) -> FieldSet:
    """_LEAF (the very object) for a leaf; otherwise what is below, which may be nothing."""
    if _is_atomic(node) or node is None:
        return _LEAF
    if node.type == "list":
        if not isinstance(value, list):
            return {}
        below: FieldSet = {}
        for key, items in _grouped(node, value).items():
            inner = _value_set(node.element, items[0]) if len(items) == 1 else _LEAF
            below[key] = {".": _LEAF, **inner} if inner else _LEAF
        return below
    return field_set(node, value) if isinstance(value, dict) else {}


def check(node: Node | None, value: Any, path: str = "") -> None:
    """SchemaError when the value has fields that the schema does not know, or things of the wrong shape."""
    if node is None or node.type == "any" or value is None:
        return
    if node.type == "scalar":
        _check_scalar(node.scalar, value, path)
        return
    if node.type == "list":
        if not isinstance(value, list):
            raise SchemaError(f"{path}: expected list, got {_shown(value)}")
        seen: set[str] = set()
        for position, item in enumerate(value):
            if node.list_type in ("map", "set") and not node.atomic:
                key = _item_key(node, item)
                if key in seen:
                    raise SchemaError(f"{path}: duplicate entries for key {_readable(key)}")
                seen.add(key)
                check(node.element, item, path + _readable(key))
            else:
                check(node.element, item, f"{path}[{position}]")
        return
    if not isinstance(value, dict):
        raise SchemaError(f"{path}: expected map, got {_shown(value)}")
    for name, item in value.items():
        if node.type == "struct" and name not in node.fields:
            raise SchemaError(f"{path}.{name}: field not declared in schema")
        check(child_of(node, name), item, f"{path}.{name}")


def _check_scalar(kind: str, value: Any, path: str) -> None:
    if kind in ("string", "bytes"):
        if not isinstance(value, str):
            raise SchemaError(f"{path}: expected string, got &value.valueUnstructured{{Value:{go_text.syntax(value)}}}")
    elif kind == "boolean":
        if not isinstance(value, bool):
            raise SchemaError(f"{path}: expected boolean, got {_shown(value)}")
    elif kind in ("integer", "long", "number"):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise SchemaError(f"{path}: expected numeric (int or float), got {go_text.type_name(value)}")
    elif isinstance(value, dict | list):
        raise SchemaError(f"{path}: expected any scalar, got {_shown(value)}")


def _shown(value: Any) -> str:
    return "&{" + go_text.plain(value) + "}"


def merge(node: Node | None, live: Any, config: Any) -> Any:
    """live with config laid over it."""
    if config is _MISSING:
        return live
    if config is None and live is not _MISSING and node is not None and node.type not in ("scalar", "any"):
        return live  # owned from now on, and left as it is
    if live is _MISSING or live is None or _is_atomic(node) or node is None:
        return config
    if node.type == "list":
        if not isinstance(live, list) or not isinstance(config, list) or (not live and not config):
            return config
        return _merge_items(node, live, config)
    if not isinstance(live, dict) or not isinstance(config, dict) or (not live and not config):
        return config
    out = dict(live)
    for name, value in config.items():
        out[name] = merge(child_of(node, name), live.get(name, _MISSING), value)
    return out


def _merge_items(node: Node, live: list[Any], config: list[Any]) -> list[Any]:
    """Items of both, the order of config kept among its own and live items left in their places between them."""
    left = [(_item_key(node, item), item) for item in live]
    right = {_item_key(node, item): item for item in config}
    live_by_key = dict(left)
    shared = [key for key in right if key in live_by_key]
    order = list(right)
    merged: set[str] = set()
    out: list[Any] = []
    i = j = 0
    while i < len(left) or j < len(order):
        if i < len(left) and j < len(order):
            key = left[i][0]
            if key == order[j]:
                out.append(merge(node.element, live_by_key[key], right[key]))
                merged.add(key)
                shared = [name for name in shared if name != key]
                i, j = i + 1, j + 1
                continue
            if key in right and shared and shared[0] != key:
                i += 1
                continue
        if i < len(left):
            key, item = left[i]
            if key not in right:
                out.append(item)
                i += 1
                continue
            if key in merged:
                i += 1
        if j < len(order):
            key = order[j]
            out.append(merge(node.element, live_by_key.get(key, _MISSING), right[key]))
            merged.add(key)
            shared = [name for name in shared if name != key]
            j += 1
    return out


def remove(node: Node | None, value: Any, fields: FieldSet) -> Any:
    """The value without the members of the set; nothing that becomes empty by it is left behind."""
    result = _remove(node, value, fields)
    return {} if result is _MISSING else result


def _remove(node: Node | None, value: Any, fields: FieldSet) -> Any:
    if node is None or node.type in ("scalar", "any"):
        return value
    if node.atomic:
        return _MISSING
    if node.type == "list":
        if not isinstance(value, list) or not value:
            return _MISSING
        items = []
        for item in value:
            entry = fields.get(_item_key(node, item))
            if entry is None:
                items.append(item)
            elif not _is_member(entry):
                left = _remove(node.element, item, entry)
                items.append(None if left is _MISSING else left)
        return items or _MISSING
    if not isinstance(value, dict) or not value:
        return _MISSING
    out = {}
    for name, item in value.items():
        entry = fields.get("f:" + name)
        if entry is None:
            out[name] = item
        elif not _is_member(entry):
            left = _remove(child_of(node, name), item, entry)
            out[name] = None if left is _MISSING else left
    return out or _MISSING
