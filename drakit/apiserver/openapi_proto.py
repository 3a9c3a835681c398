"""OpenAPI 2 in the protobuf form of gnostic (`openapi.v2.Document`), which kubectl up to 1.26 insists on.

Written by hand because only a dozen messages with a few fields each are needed, and the wire format is small: a field is its
number and type, then a number or a length and bytes. Field numbers are those of gnostic's OpenAPIv2.proto.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from drakit.apiserver.stored import Plain

__all__ = ["encode"]

Encoder = Callable[[Any], bytes]


def encode(document: Plain) -> bytes:
    """A Swagger 2.0 document as bytes."""
    paths = b"".join(_field(2, _named(name, _path_item(item))) for name, item in document["paths"].items())
    definitions = b"".join(_field(1, _named(name, _schema(s))) for name, s in document["definitions"].items())
    info = _text(1, document["info"]["title"]) + _text(2, document["info"]["version"])
    return _text(1, document["swagger"]) + _field(2, info) + _field(8, paths) + _field(9, definitions)


# The wire format


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _field(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _text(number: int, value: str | None) -> bytes:
    return _field(number, value.encode()) if value else b""


def _texts(number: int, values: Iterable[str] | None) -> bytes:
    return b"".join(_field(number, value.encode()) for value in values or ())


def _flag(number: int, value: bool | None) -> bytes:
    return _varint(number << 3) + b"\x01" if value else b""


def _named(name: str, value: bytes) -> bytes:
    return _text(1, name) + _field(2, value)


def _any(value: Any) -> bytes:
    """gnostic's Any: the value as YAML, of which JSON is a part."""
    return _text(2, json.dumps(value) + "\n")


def _extensions(number: int, holder: Plain) -> bytes:
    marks = ((name, value) for name, value in holder.items() if name.startswith("x-"))
    return b"".join(_field(number, _named(name, _any(value))) for name, value in marks)


# Messages


def _schema(schema: Plain) -> bytes:
    parts = [
        _text(1, schema.get("$ref")),
        _text(2, schema.get("format")),
        _text(4, schema.get("description")),
        _texts(19, schema.get("required")),
    ]
    if "default" in schema:
        parts.append(_field(5, _any(schema["default"])))
    parts += [_field(20, _any(value)) for value in schema.get("enum", ())]
    if "additionalProperties" in schema:
        parts.append(_field(21, _field(1, _schema(schema["additionalProperties"]))))
    if "type" in schema:
        parts.append(_field(22, _text(1, schema["type"])))
    if "items" in schema:
        parts.append(_field(23, _field(1, _schema(schema["items"]))))
    if "properties" in schema:
        named = (_field(1, _named(name, _schema(value))) for name, value in schema["properties"].items())
        parts.append(_field(25, b"".join(named)))
    parts.append(_extensions(31, schema))
    return b"".join(parts)


_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}


def _path_item(item: Plain) -> bytes:
    operations = b"".join(_field(number, _operation(item[name])) for name, number in _METHODS.items() if name in item)
    return operations + b"".join(_field(9, _parameters_item(p)) for p in item.get("parameters") or ())


def _operation(operation: Plain) -> bytes:
    responses = b"".join(
        _field(1, _named(code, _field(1, _response(answer)))) for code, answer in operation["responses"].items()
    )
    return b"".join(
        (
            _text(5, operation["operationId"]),
            _texts(6, operation.get("produces")),
            _texts(7, operation.get("consumes")),
            *(_field(8, _parameters_item(parameter)) for parameter in operation["parameters"]),
            _field(9, responses),
            _extensions(13, operation),
        )
    )


def _response(answer: Plain) -> bytes:
    schema = _field(2, _field(1, _schema(answer["schema"]))) if "schema" in answer else b""
    return _text(1, answer["description"]) + schema


def _parameters_item(parameter: Plain) -> bytes:
    """ParametersItem { Parameter { BodyParameter | NonBodyParameter { … } } }"""
    if parameter["in"] == "body":
        body = (
            _text(2, parameter["name"]),
            _text(3, "body"),
            _flag(4, parameter.get("required")),
            _field(5, _schema(parameter["schema"])),
        )
        return _field(1, _field(1, b"".join(body)))
    query = parameter["in"] == "query"
    # The two messages differ in that a query parameter may be empty, which shifts the numbers that follow.
    shift = 1 if query else 0
    inner = (
        _flag(1, parameter.get("required")),
        _text(2, parameter["in"]),
        _text(3, parameter.get("description")),
        _text(4, parameter["name"]),
        _text(5 + shift, parameter["type"]),
        _flag(19 + shift, parameter.get("uniqueItems")),
    )
    return _field(1, _field(2, _field(3 if query else 4, b"".join(inner))))
