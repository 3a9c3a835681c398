"""The structural schema of every served kind: what a field is, and how lists and maps merge.

Field names, types and docs are read from lightkube's models on first use; what the models do not carry (list types and
keys, patch strategies, map elements, number sizes, defaults of list keys) comes from `schema_facts`. Server-side apply, strategic
merge patch and OpenAPI all read this one description. Nothing is computed at import time.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
import re
from collections.abc import Mapping
from typing import Any, Literal

from drakit.api import schema_facts
from drakit.api.kind import Kind

__all__ = ["Node", "docs", "named", "of", "openapi_name", "root"]

NodeType = Literal["struct", "list", "map", "scalar", "any"]
ScalarType = Literal[
    "", "string", "bytes", "time", "microtime", "quantity", "intstr", "integer", "long", "number", "boolean"
]

_ATOM_TYPES: dict[str, ScalarType] = {
    "str": "string",
    "string": "string",
    "int": "integer",
    "long": "long",
    "float": "number",
    "bool": "boolean",
    "bytes": "bytes",
    "time": "time",
    "microtime": "microtime",
    "quantity": "quantity",
    "intstr": "intstr",
    "meta_v1.Time": "time",
    "Time": "time",
    "meta_v1.MicroTime": "microtime",
    "MicroTime": "microtime",
    "resource.Quantity": "quantity",
    "util_intstr.IntOrString": "intstr",
}
# Free-form JSON: the server knows nothing about what is inside.
_ANY_TYPES = {"dict", "object", "runtime.RawExtension", "FieldsV1", "meta_v1.FieldsV1"}
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
    for cls in model.__mro__:
        module = cls.__module__
        if module.startswith("lightkube.models."):
            return named(f"{module.rpartition('.')[2]}.{cls.__name__}")
    raise LookupError(f"{model!r} is no lightkube model")


@functools.cache
def named(name: str) -> Node:
    """The schema of `module.Class`, such as `core_v1.PodSpec`."""
    return Node("", "struct", model=name, atomic=_facts().get(name, ("", {}))[0] == "atomic")


@functools.cache
def _fields(name: str) -> Mapping[str, Node]:
    module_name, _, class_name = name.partition(".")
    cls = getattr(importlib.import_module(f"lightkube.models.{module_name}"), class_name)
    facts = _facts().get(name, ("", {}))[1]
    fields: dict[str, Node] = {}
    for python_name, annotation in getattr(cls, "__annotations__", {}).items():
        json_name = python_name.rstrip("_")
        fields[json_name] = _field(json_name, annotation, module_name, facts.get(json_name, ""))
    return fields


def openapi_name(name: str) -> str:
    module, _, class_name = name.partition(".")
    group, _, version = module.rpartition("_")
    package = "io.k8s.apimachinery.pkg.apis" if group == "meta" else "io.k8s.api"
    return f"{package}.{group}.{version}.{class_name}"


def _field(name: str, annotation: str, module: str, facts: str) -> Node:
    required = not annotation.startswith("Optional[")
    inner = annotation if required else annotation[len("Optional[") : -1]
    is_list = inner.startswith("List[")
    changes: dict[str, Any] = {"required": required, "atomic": is_list}
    element = ""
    scalar = ""
    for fact in facts.split("+") if facts else ():
        word, _, argument = fact.partition("[")
        argument = argument.rstrip("]")
        match word:
            case "map":
                changes |= {"list_type": "map", "keys": tuple(argument.split(",")), "atomic": False}
            case "set":
                changes |= {"list_type": "set", "atomic": False}
            case "atomic":
                changes["atomic"] = True
            case "of":
                element = argument
            case "long" | "bytes":
                scalar = word
            case _ if word.startswith("="):
                changes["default"] = json.loads(fact[1:])
            case _:
                strategies = word.split("/")
                changes |= {"patch_merge": "merge" in strategies, "retain_keys": "retainKeys" in strategies}
                changes["merge_key"] = argument
    if element:
        base = Node(name, "map", element=_element(element, module))
    elif is_list:
        base = Node(name, "list", element=_atom("", scalar or inner[len("List[") : -1], module))
    else:
        base = _atom(name, scalar or inner, module)
    return dataclasses.replace(base, **{**changes, "atomic": changes["atomic"] or base.atomic})


def _element(text: str, module: str) -> Node:
    if text.endswith("*"):
        return Node("", "list", element=_element(text[:-1], module), atomic=True)
    return _atom("", text, module)


def _atom(name: str, text: str, module: str) -> Node:
    if text in _ANY_TYPES:
        return Node(name, "any")
    scalar = _ATOM_TYPES.get(text)
    if scalar is not None:
        return Node(name, "scalar", scalar=scalar)
    model = text if "." in text else f"{module}.{text}"
    return dataclasses.replace(named(model), name=name)


@functools.cache
def _facts() -> dict[str, tuple[str, dict[str, str]]]:
    """{type: (flag, {field: facts})}"""
    facts: dict[str, tuple[str, dict[str, str]]] = {}
    for line in re.sub(r"\n  ", " ", schema_facts.FACTS).splitlines():
        if not line:
            continue
        head, *fields = line.split(" ")
        name, _, flags = head.partition("@")
        facts[name] = (flags, dict(_split_fact(field) for field in fields))
    return facts


def _split_fact(text: str) -> tuple[str, str]:
    name, _, rest = text.partition(":")
    return name, rest


def docs(name: str) -> tuple[str, dict[str, str]]:
    """The docs of `module.Class` and of its fields. Not kept in the schema: only OpenAPI wants them."""
    module_name, _, class_name = name.partition(".")
    doc = getattr(importlib.import_module(f"lightkube.models.{module_name}"), class_name).__doc__ or ""
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
