"""CEL's types as the checker sees them, and how they are written in messages.

A type is a kind, the name it has at run time, and parameters. `nullable` marks the wrapper types
(google.protobuf.Int64Value and its like), which also accept null.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = [
    "ANY", "BOOL", "BYTES", "DOUBLE", "DURATION", "DYN", "ERROR", "INT", "NULL", "STRING", "TIMESTAMP", "TYPE", "UINT",
    "WELL_KNOWN", "Type", "list_of", "map_of", "named", "nullable", "opaque", "optional_of", "struct", "type_of", "type_param",
]  # fmt: skip


class Type:
    """Immutable; compare with `same`, since two spellings of one type may be different objects."""

    __slots__ = ("_text", "kind", "name", "nullable", "params", "weight")

    def __init__(self, kind: str, name: str, params: tuple[Type, ...] = (), nullable: bool = False) -> None:
        self.kind = kind
        self.name = name
        self.params = params
        self.nullable = nullable
        self._text: str | None = None
        self.weight: int = 1 + sum([param.weight for param in params])  # how many types it is made of

    @property
    def is_dyn(self) -> bool:
        return self.kind in ("dyn", "any")

    @property
    def declared_name(self) -> str:
        return f"wrapper({self.name})" if self.nullable else self.name

    def __str__(self) -> str:
        """The type as results are described: `list(int)`, `google.protobuf.Timestamp`, `null_type`."""
        if self.kind == "param":
            return f"<{self.name}>"
        if not self.params:
            return self.declared_name
        return f"{self.declared_name}({', '.join(str(p) for p in self.params)})"

    __repr__ = __str__

    def text(self) -> str:
        """The type as the checker's messages write it: `timestamp`, `null`, `any`."""
        if self._text is None:
            self._text = self._format()
        return self._text

    def _format(self) -> str:
        short = _SHORT.get(self.kind)
        if short is not None:
            return short
        if not self.params:
            return self.name if self.kind == "param" else self.declared_name
        return f"{self.name}({', '.join(p.text() for p in self.params)})"

    def same(self, other: Type) -> bool:
        """Exactly the same type, parameters included (wrappers count as what they wrap)."""
        if self is other:
            return True
        if self.kind != other.kind or self.name != other.name or len(self.params) != len(other.params):
            return False
        return all(p.same(q) for p, q in zip(self.params, other.params, strict=True))

    def accepts(self, other: Type) -> bool:
        """A value of type `other` may stand where this type is declared (no type parameters involved)."""
        if self.nullable and other.kind == "null":
            return True
        if self is other or self.kind in ("dyn", "any", "param"):
            return True
        if self.kind != other.kind or self.name != other.name or len(self.params) != len(other.params):
            return False
        return all(p.accepts(q) for p, q in zip(self.params, other.params, strict=True))


_SHORT: Final = {"any": "any", "duration": "duration", "error": "!error!", "null": "null", "timestamp": "timestamp"}

ANY: Final = Type("any", "google.protobuf.Any")
BOOL: Final = Type("bool", "bool")
BYTES: Final = Type("bytes", "bytes")
DOUBLE: Final = Type("double", "double")
DURATION: Final = Type("duration", "google.protobuf.Duration")
DYN: Final = Type("dyn", "dyn")
ERROR: Final = Type("error", "error")
INT: Final = Type("int", "int")
NULL: Final = Type("null", "null_type")
STRING: Final = Type("string", "string")
TIMESTAMP: Final = Type("timestamp", "google.protobuf.Timestamp")
TYPE: Final = Type("type", "type")
UINT: Final = Type("uint", "uint")


def list_of(element: Type) -> Type:
    return Type("list", "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", "map", (key, value))


def optional_of(value: Type) -> Type:
    return Type("opaque", "optional_type", (value,))


def opaque(name: str, *params: Type) -> Type:
    return Type("opaque", name, params)


def struct(name: str) -> Type:
    return WELL_KNOWN.get(name) or Type("struct", name)


def type_of(param: Type) -> Type:
    return Type("type", "type", (param,))


def type_param(name: str) -> Type:
    return Type("param", name)


def nullable(wrapped: Type) -> Type:
    return Type(wrapped.kind, wrapped.name, wrapped.params, nullable=True)


WELL_KNOWN: Final[dict[str, Type]] = {
    "google.protobuf.BoolValue": nullable(BOOL),
    "google.protobuf.BytesValue": nullable(BYTES),
    "google.protobuf.DoubleValue": nullable(DOUBLE),
    "google.protobuf.FloatValue": nullable(DOUBLE),
    "google.protobuf.Int64Value": nullable(INT),
    "google.protobuf.Int32Value": nullable(INT),
    "google.protobuf.UInt64Value": nullable(UINT),
    "google.protobuf.UInt32Value": nullable(UINT),
    "google.protobuf.StringValue": nullable(STRING),
    "google.protobuf.Any": ANY,
    "google.protobuf.Duration": DURATION,
    "google.protobuf.Timestamp": TIMESTAMP,
    "google.protobuf.ListValue": list_of(DYN),
    "google.protobuf.NullValue": NULL,
    "google.protobuf.Struct": map_of(STRING, DYN),
    "google.protobuf.Value": DYN,
}

_NAMED: Final[dict[str, Type]] = {
    "bool": BOOL, "bytes": BYTES, "double": DOUBLE, "duration": DURATION, "dyn": DYN, "int": INT, "null": NULL,
    "string": STRING, "timestamp": TIMESTAMP, "type": TYPE, "uint": UINT, "any": ANY,
}  # fmt: skip


def named(text: str, known: Iterable[Type] = ()) -> Type:
    """A type from its short notation: `int`, `list(string)`, `map(A, B)`, `optional(T)`; one capital letter is a parameter."""
    text = text.strip()
    for candidate in known:
        if candidate.name == text:
            return candidate
    if text in _NAMED:
        return _NAMED[text]
    if len(text) == 1 and text.isupper():
        return type_param(text)
    if not text.endswith(")"):
        return struct(text)
    head, _, rest = text[:-1].partition("(")
    params = tuple(named(part, known) for part in _split(rest))
    if head == "list":
        return list_of(*params)
    if head == "map":
        return map_of(*params)
    if head == "optional":
        return optional_of(*params)
    if head == "type":
        return type_of(*params)
    raise ValueError(f"unknown type {text!r}")


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for i, ch in enumerate(text):
        depth += (ch == "(") - (ch == ")")
        if ch == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return parts
