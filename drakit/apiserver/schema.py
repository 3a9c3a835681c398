"""The structural schema of every served kind: what a field is, and how lists and maps merge.

Field names, types and docs are read from lightkube's models on first use; what the models do not carry (list types and
keys, patch strategies, map elements, number sizes, defaults of list keys) comes from `schema_facts`. Server-side apply,
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

from drakit.apiserver import schema_facts

__all__ = ["FieldSchema", "Schema", "docs", "named", "of", "openapi_name"]

FieldKind = Literal["struct", "list", "map", "scalar", "any"]
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
class FieldSchema:
    """One field, or the element of a list or map (then `name` is empty)."""

    name: str
    kind: FieldKind
    type: ScalarType = ""
    element: FieldSchema | None = None
    model: str = ""  # "core_v1.Container", for structs
    atomic: bool = False  # a struct or map that merges as a whole
    list_type: Literal["atomic", "map", "set"] = "atomic"
    keys: tuple[str, ...] = ()
    patch_strategy: tuple[str, ...] = ()  # any of merge, retainKeys, replace
    merge_key: str = ""
    default: Any = None
    required: bool = False

    @property
    def struct(self) -> Schema | None:
        """The schema of a struct field, of a list's or map's element struct, or None."""
        if self.kind == "struct":
            return named(self.model)
        return self.element.struct if self.element is not None else None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """One struct type of the API. `name` is lightkube's (`core_v1.Pod`), `openapi_name` Kubernetes' own."""

    name: str
    fields: Mapping[str, FieldSchema]
    atomic: bool

    @property
    def openapi_name(self) -> str:
        return openapi_name(self.name)


def of(model: type) -> Schema:
    """The schema of a lightkube model class or of a resource class made from one."""
    for cls in model.__mro__:
        module = cls.__module__
        if module.startswith("lightkube.models."):
            return named(f"{module.rpartition('.')[2]}.{cls.__name__}")
    raise LookupError(f"{model!r} is no lightkube model")


@functools.cache
def named(name: str) -> Schema:
    """The schema of `module.Class`, such as `core_v1.PodSpec`."""
    module_name, _, class_name = name.partition(".")
    cls = getattr(importlib.import_module(f"lightkube.models.{module_name}"), class_name)
    flags, facts = _facts().get(name, ("", {}))
    fields: dict[str, FieldSchema] = {}
    for python_name, annotation in cls.__annotations__.items():
        json_name = python_name.rstrip("_")
        fields[json_name] = _field(json_name, annotation, module_name, facts.get(json_name, ""))
    return Schema(name=name, fields=fields, atomic=flags == "atomic")


def openapi_name(name: str) -> str:
    module, _, class_name = name.partition(".")
    group, _, version = module.rpartition("_")
    package = "io.k8s.apimachinery.pkg.apis" if group == "meta" else "io.k8s.api"
    return f"{package}.{group}.{version}.{class_name}"


def _field(name: str, annotation: str, module: str, facts: str) -> FieldSchema:
    required = not annotation.startswith("Optional[")
    inner = annotation if required else annotation[len("Optional[") : -1]
    changes: dict[str, Any] = {"required": required}
    element = ""
    scalar = ""
    for fact in facts.split("+") if facts else ():
        word, _, argument = fact.partition("[")
        argument = argument.rstrip("]")
        match word:
            case "map":
                changes |= {"list_type": "map", "keys": tuple(argument.split(","))}
            case "set":
                changes["list_type"] = "set"
            case "atomic":
                changes["atomic"] = not inner.startswith("List[")
            case "of":
                element = argument
            case "long" | "bytes":
                scalar = word
            case _ if word.startswith("="):
                changes["default"] = json.loads(fact[1:])
            case _:
                changes |= {"patch_strategy": tuple(word.split("/")), "merge_key": argument}
    if element:
        base = FieldSchema(name, "map", element=_element(element, module))
    elif inner.startswith("List["):
        base = FieldSchema(name, "list", element=_atom("", scalar or inner[len("List[") : -1], module))
    else:
        base = _atom(name, scalar or inner, module)
    if base.kind == "struct":
        changes["atomic"] = changes.get("atomic", False) or base.atomic
    return dataclasses.replace(base, **changes)


def _element(text: str, module: str) -> FieldSchema:
    if text.endswith("*"):
        return FieldSchema("", "list", element=_element(text[:-1], module))
    return _atom("", text, module)


def _atom(name: str, text: str, module: str) -> FieldSchema:
    if text in _ANY_TYPES:
        return FieldSchema(name, "any")
    scalar = _ATOM_TYPES.get(text)
    if scalar is not None:
        return FieldSchema(name, "scalar", type=scalar)
    model = text if "." in text else f"{module}.{text}"
    return FieldSchema(name, "struct", model=model, atomic=_facts().get(model, ("", {}))[0] == "atomic")


@functools.cache
def _facts() -> dict[str, tuple[str, dict[str, str]]]:
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
        if not last or not line.strip():
            unwrapped += "\n" + line
        elif line[0] == " ":
            unwrapped += "\n" + line
        elif len(last) + 1 + len(line.partition(" ")[0]) <= _DOC_WIDTH:  # the next word had room: a paragraph ended here
            unwrapped += "\n\n" + line
        else:
            unwrapped += " " + line
        last = line
    return unwrapped.strip()
