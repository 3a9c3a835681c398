"""The structural schema of every served kind: what a field is, and how lists and maps merge.

Fields and how they merge come from the table of `types`, docs and what is required from lightkube's models. Server-side apply,
strategic merge patch and OpenAPI all read this one description. Nothing is computed at import time.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
import re
from collections.abc import Mapping
from typing import Any, Literal

from drakit.api import types
from drakit.api.kind import Kind

__all__ = ["Node", "child_of", "docs", "named", "of", "openapi_name", "root"]

NodeType = Literal["struct", "list", "map", "scalar", "any"]
ScalarType = Literal[
    "", "string", "bytes", "time", "microtime", "quantity", "intstr", "integer", "long", "number", "boolean"
]

_SCALARS: dict[str, ScalarType] = {
    "s": "string",
    "b": "boolean",
    "i": "integer",
    "l": "long",
    "f": "number",
    "q": "quantity",
    "t": "time",
    "T": "microtime",
    "x": "intstr",
    "y": "bytes",
}
_DOC_WIDTH = 78
_DOC_ITEM = re.compile(r"^      \* \*\*(\w+)\*\* ``.*?`` - ", re.MULTILINE)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One place in an object: the root, a field, or the element of a list or map (these have no name)."""

    name: str
    type: NodeType
    scalar: ScalarType = ""
    element: Node | None = None  # of lists and maps
    model: str = ""  # of structs: "core_v1.Container"
    atomic: bool = False  # merges as a whole: no list type or listType=atomic; mapType or structType=atomic
    list_type: Literal["atomic", "map", "set"] = "atomic"
    keys: tuple[str, ...] = ()  # of lists of type map
    patch_merge: bool = False  # strategic merge patch merges this list instead of replacing it
    merge_key: str = ""  # … by this field; "" for lists of scalars
    retain_keys: bool = False  # … and drops what the patch does not name
    default: Any = None
    required: bool = False

    @property
    def fields(self) -> Mapping[str, Node]:
        """The fields of a struct by their JSON names; none for anything else."""
        return _fields(self.model) if self.model else {}

    @property
    def key_defaults(self) -> dict[str, Any]:
        """What a missing key of a list item counts as: the protocol of a port is TCP."""
        items = self.element.fields if self.element is not None else {}
        return {key: items[key].default for key in self.keys if key in items and items[key].default is not None}

    @property
    def openapi_name(self) -> str:
        return openapi_name(self.model)


def root(kind: Kind, version: str) -> Node:
    """The schema of a kind in one of its versions."""
    found = kind.version(version)
    if found is None:
        raise LookupError(f"{kind.qualified} has no version {version}")
    return of(found.model)


def of(model: type) -> Node:
    """The schema of a lightkube model class or of a resource class made from one."""
    return named(types.model_name(model))


@functools.cache
def named(name: str) -> Node:
    """The schema of `module.Class`, such as `core_v1.PodSpec`."""
    return Node("", "struct", model=name, atomic=types.of(name).atomic)


@functools.cache
def _fields(name: str) -> Mapping[str, Node]:
    annotations = getattr(_model(name), "__annotations__", {})
    optional = {field.rstrip("_") for field, annotation in annotations.items() if annotation.startswith("Optional[")}
    return {field.name: _field(field, required=field.name not in optional) for field in types.of(name).fields.values()}


def _model(name: str) -> type:
    module, _, cls = name.partition(".")
    model: type = getattr(importlib.import_module(f"lightkube.models.{module}"), cls)
    return model


def child_of(node: Node | None, name: str) -> Node | None:
    """What a struct or map holds under a name; None where that is not known."""
    if node is None:
        return None
    if node.type == "struct":
        return node.fields.get(name)
    return node.element if node.type == "map" else None


def openapi_name(name: str) -> str:
    module, _, class_name = name.partition(".")
    group, _, version = module.rpartition("_")
    package = "io.k8s.apimachinery.pkg.apis" if group == "meta" else "io.k8s.api"
    return f"{package}.{group}.{version}.{class_name}"


def _field(field: types.Field, *, required: bool) -> Node:
    changes: dict[str, Any] = {"name": field.name, "required": required}
    for fact in field.merging:
        word, _, argument = fact.rstrip("]").partition("[")
        match word:
            case "map":
                changes |= {"list_type": "map", "keys": tuple(argument.split(",")), "atomic": False}
            case "set":
                changes |= {"list_type": "set", "atomic": False}
            case "atomic":
                changes["atomic"] = True
            case _ if word.startswith("="):
                changes["default"] = json.loads(fact[1:])
            case _:
                strategies = word.split("/")
                changes |= {"patch_merge": "merge" in strategies, "retain_keys": "retainKeys" in strategies}
                changes["merge_key"] = argument
    return dataclasses.replace(_node(field.containers, field), **changes)


def _node(containers: tuple[str, ...], field: types.Field) -> Node:
    if containers:
        element = _node(containers[1:], field)
        return (
            Node("", "list", element=element, atomic=True)
            if containers[0] == "[]"
            else Node("", "map", element=element)
        )
    if field.struct:
        return named(field.struct)
    return Node("", "any") if field.core == "R" else Node("", "scalar", scalar=_SCALARS[field.core])


def docs(name: str) -> tuple[str, dict[str, str]]:
    """The docs of `module.Class` and of its fields. Not kept in the schema: only OpenAPI wants them."""
    doc = _model(name).__doc__ or ""
    head, _, parameters = doc.partition("\n\n      **parameters**\n\n")
    starts = list(_DOC_ITEM.finditer(parameters))
    found: dict[str, str] = {}
    for index, match in enumerate(starts):
        end = starts[index + 1].start() if index + 1 < len(starts) else len(parameters)
        found[match[1].rstrip("_")] = _unwrap(parameters[match.end() : end], 8)
    return _unwrap(head, 6), found


def _unwrap(text: str, indent: int) -> str:
    """One line per paragraph again: lightkube wrapped at 78 columns and dropped the empty lines between paragraphs."""
    first, *rest = text.rstrip().split("\n")
    unwrapped = last = first.strip()
    for line in rest:
        line = line[indent:]
        if not last or not line.strip() or line[0] == " ":
            unwrapped += "\n" + line
        elif (
            len(last) + 1 + len(line.partition(" ")[0]) <= _DOC_WIDTH
        ):  # the next word had room: a paragraph ended here
            unwrapped += "\n\n" + line
        else:
            unwrapped += " " + line
        last = line
    return unwrapped.strip()
