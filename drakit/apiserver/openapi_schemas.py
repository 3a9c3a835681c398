"""The schemas of OpenAPI documents, from `api.schema` and the models' docs: version 3 (`components`) and 2 (`definitions`)."""

from __future__ import annotations

from collections.abc import Iterable

from drakit.api import schema, schema_enums
from drakit.api.kind import Kind
from drakit.apiserver.stored import Plain

__all__ = ["Schemas", "list_model"]

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
# Scalars that have names of their own, as (name, OpenAPI 3, OpenAPI 2).
_NAMED: dict[str, tuple[str, Plain, Plain]] = {
    "time": (f"{_META}.Time", {"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
    "microtime": (
        f"{_META}.MicroTime",
        {"type": "string", "format": "date-time"},
        {"type": "string", "format": "date-time"},
    ),
    "quantity": (
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        {"oneOf": [{"type": "string"}, {"type": "number"}]},
        {"type": "string"},
    ),
    "intstr": (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
        {"type": "string", "format": "int-or-string"},
    ),
    "any": ("io.k8s.apimachinery.pkg.runtime.RawExtension", {"type": "object"}, {"type": "object"}),
    "patch": (f"{_META}.Patch", {"type": "object"}, {"type": "object"}),
}
_NAMED_DOCS = {
    "time": "Time is a timestamp in RFC 3339 form, in whole seconds.",
    "microtime": "MicroTime is version of Time with microsecond level precision.",
    "quantity": "Quantity is an exact number with an optional suffix: 500m, 2, 1.5Gi, 1e3.",
    "intstr": "IntOrString is a number or a text, such as a count or a percentage, a port or its name.",
    "any": "RawExtension is any JSON object; what it holds is up to the one who reads it.",
    "patch": "Patch is provided to give a concrete name and type to the Kubernetes PATCH request body.",
}
_SCALARS: dict[str, Plain] = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "integer": {"type": "integer", "format": "int32"},
    "long": {"type": "integer", "format": "int64"},
    "number": {"type": "number", "format": "double"},
    "boolean": {"type": "boolean"},
}


def list_model(model: type) -> str:
    """The name of the list type of a model, as `core_v1.PodList`."""
    return f"{model.__module__.rpartition('.')[2]}.{model.__name__}List"


class Schemas:
    """Collects schemas: `ref` names one and makes sure that it, and what it refers to, is in `found`."""

    def __init__(self, *, version: int) -> None:
        self.version = version
        self.found: dict[str, Plain] = {}
        self._prefix = "#/components/schemas/" if version == 3 else "#/definitions/"

    def ref(self, model: str) -> Plain:
        name = schema.openapi_name(model)
        if name not in self.found:
            self.found[name] = {}  # a type may refer to itself
            self.found[name] = self._struct(model)
        return {"$ref": self._prefix + name}

    def named(self, kind: str) -> Plain:
        name, third, second = _NAMED[kind]
        if name not in self.found:
            shape = third if self.version == 3 else second
            self.found[name] = {"description": _NAMED_DOCS[kind], **shape}
        return {"$ref": self._prefix + name}

    def add_kind(self, kind: Kind, version: str) -> None:
        """The object and its list, marked with their group, version and kind."""
        model = kind.models[version]
        own = f"{model.__module__.rpartition('.')[2]}.{model.__name__}"
        names = [(own, kind.kind)]
        if "list" in kind.verbs:
            names.append((list_model(model), kind.list_kind))
        for name, word in names:
            self.mark(name, [(kind.group, version, word)])

    def mark(self, model: str, kinds: Iterable[tuple[str, str, str]]) -> None:
        self.ref(model)
        marks = [{"group": group, "kind": kind, "version": version} for group, version, kind in kinds]
        self.found[schema.openapi_name(model)]["x-kubernetes-group-version-kind"] = marks

    def _struct(self, model: str) -> Plain:
        doc, docs = schema.docs(model)
        node = schema.named(model)
        enums = schema_enums.of(model)
        properties = {
            name: self._field(field, docs.get(name, ""), enums.get(name)) for name, field in sorted(node.fields.items())
        }
        result: Plain = {"description": doc, "type": "object"}
        if properties:
            result["properties"] = properties
        required = sorted(name for name, field in node.fields.items() if field.required)
        if required:
            result["required"] = required
        if node.atomic:
            result["x-kubernetes-map-type"] = "atomic"
        return result

    def _field(self, node: schema.Node, doc: str, enum: list[str] | None) -> Plain:
        shape = self._shape(node)
        if enum is not None:
            (shape["items"] if node.type == "list" else shape)["enum"] = enum
        if "$ref" in shape and self.version == 3 and doc:
            shape = {"allOf": [shape]}  # a $ref tolerates no sibling in OpenAPI 3
        result: Plain = {"description": doc, **shape} if doc else dict(shape)
        if node.default is not None:
            result["default"] = node.default
        if node.type == "list" and (node.list_type != "atomic" or node.atomic):
            result["x-kubernetes-list-type"] = node.list_type
            if node.keys:
                result["x-kubernetes-list-map-keys"] = list(node.keys)
        if node.type == "map" and node.atomic:
            result["x-kubernetes-map-type"] = "atomic"
        strategy = [word for word, on in (("merge", node.patch_merge), ("retainKeys", node.retain_keys)) if on]
        if strategy:
            result["x-kubernetes-patch-strategy"] = ",".join(strategy)
        if node.merge_key:
            result["x-kubernetes-patch-merge-key"] = node.merge_key
        return result

    def _shape(self, node: schema.Node) -> Plain:
        match node.type:
            case "struct":
                return self.ref(node.model)
            case "list":
                return {"type": "array", "items": self._shape(_element(node))}
            case "map":
                return {"type": "object", "additionalProperties": self._shape(_element(node))}
            case "any":
                return self.named("any")
        return dict(_SCALARS[node.scalar]) if node.scalar in _SCALARS else self.named(node.scalar)


def _element(node: schema.Node) -> schema.Node:
    assert node.element is not None, node.name
    return node.element
