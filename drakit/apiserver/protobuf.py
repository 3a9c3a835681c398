"""Request bodies in Kubernetes' protobuf form, which kubectl and Go clients send: read into the same plain objects as JSON.

Answers are always JSON, which those clients accept. A body is `k8s\\0` and a runtime.Unknown that names apiVersion and kind and
holds the object. What a field is and which number it has comes from the type table.
"""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from drakit.api import registry, schema, types
from drakit.api.errors import StatusError
from drakit.apiserver.stored import Plain

__all__ = ["decode"]

_MAGIC = b"k8s\x00"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NESTING = 100
# Bodies of subresources and of DELETE: kinds that are no resources of their own.
_MODELS = {
    "DeleteOptions": "meta_v1.DeleteOptions",
    "Eviction": "policy_v1.Eviction",
    "Scale": "autoscaling_v1.Scale",
    "TokenRequest": "authentication_v1.TokenRequest",
}


class _BadWire(ValueError):
    pass


def decode(body: bytes) -> Plain:
    """The object, with its apiVersion and kind. Raises StatusError 400 when the body is no such message."""
    try:
        return _decode(body)
    except (_BadWire, IndexError, UnicodeDecodeError, OverflowError, json.JSONDecodeError) as error:
        cause = str(error) or type(error).__name__
        raise StatusError.bad_request(f"the body of the request is no valid protobuf object: {cause}") from None


def _decode(body: bytes) -> Plain:
    if not body.startswith(_MAGIC):
        raise _BadWire("it does not begin with the k8s prefix")
    api_version = kind = ""
    raw = b""
    for number, value in _fields(body[len(_MAGIC) :]):
        if number == 1:
            names = dict(_fields(_bytes(value)))
            api_version, kind = (_bytes(names.get(n, b"")).decode() for n in (1, 2))
        elif number == 2:
            raw = _bytes(value)
    model = _MODELS.get(kind)
    if model is None:
        found = registry.by_api_version(api_version, kind)
        if found is None:
            raise _BadWire(f"no kind {json.dumps(kind)} is registered for version {json.dumps(api_version)}")
        model = types.model_name(found[0].models[found[1]])
    return {"apiVersion": api_version, "kind": kind, **_message(schema.named(model), _numbers(model), raw, _NESTING)}


# The wire format


def _varint(data: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[position]
        number |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return number, position
        shift += 7
        if shift > 63:
            raise _BadWire("a number is too long")


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Field numbers with their values: an integer, or bytes (texts, messages, fixed-size numbers)."""
    position, end = 0, len(data)
    while position < end:
        key, position = _varint(data, position)
        wire = key & 7
        if wire == 0:
            number, position = _varint(data, position)
            yield key >> 3, number
            continue
        if wire == 2:
            size, position = _varint(data, position)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise _BadWire(f"wire type {wire} is not known")
        if position + size > end:
            raise _BadWire("it ends too early")
        yield key >> 3, data[position : position + size]
        position += size


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise _BadWire("a number stands where a message or text belongs")
    return value


def _signed(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise _BadWire("a message or text stands where a number belongs")
    return value - (1 << 64) if value >= 1 << 63 else value


# Objects


# The fields of a message by number: their names, or the message that holds the fields of an embedded Go type.
_Numbers = dict[int, "str | _Numbers"]


@functools.cache
def _numbers(model: str) -> _Numbers:
    messages: dict[tuple[str, ...], _Numbers] = {(): {}}
    for field in types.of(model).fields.values():
        for depth in range(len(field.embedded)):
            path = field.embedded[: depth + 1]
            if path not in messages:
                outer = messages[path[:-1]]
                messages[path] = outer[_next(outer)] = {}
        message = messages[field.embedded]
        number = _next(message) if field.number is None else field.number
        if number:
            message[number] = field.name
    return messages[()]


def _next(message: _Numbers) -> int:
    return next(reversed(message), 0) + 1


def _message(node: schema.Node, numbers: _Numbers, data: bytes, depth: int) -> Plain:
    if depth == 0:
        raise _BadWire("it is nested too deeply")
    fields = node.fields
    obj: Plain = {}
    for number, value in _fields(data):
        name = numbers.get(number)
        if name is None:
            continue  # a field of a newer version
        if isinstance(name, dict):
            obj.update(_message(node, name, _bytes(value), depth - 1))
            continue
        field = fields[name]
        if field.type == "list":
            obj.setdefault(name, []).extend(_items(field, value, depth))
        elif field.type == "map":
            key, item = _entry(field, _bytes(value), depth)
            obj.setdefault(name, {})[key] = item
        else:
            obj[name] = _value(field, value, depth)
    return obj


def _items(field: schema.Node, value: int | bytes, depth: int) -> list[Any]:
    assert field.element is not None
    packed = isinstance(value, bytes) and field.element.scalar in ("integer", "long", "boolean")
    if not packed:
        return [_value(field.element, value, depth)]
    items, position = [], 0
    data = _bytes(value)
    while position < len(data):
        number, position = _varint(data, position)
        items.append(_value(field.element, number, depth))
    return items


def _entry(field: schema.Node, data: bytes, depth: int) -> tuple[str, Any]:
    assert field.element is not None
    parts = dict(_fields(data))
    key = _bytes(parts.get(1, b"")).decode()
    value = parts.get(2, b"")
    if field.element.type == "list":  # a message that holds nothing but the list
        return key, [item for _, part in _fields(_bytes(value)) for item in _items(field.element, part, depth)]
    return key, _value(field.element, value, depth)


def _value(node: schema.Node, value: int | bytes, depth: int) -> Any:
    if node.type == "struct":
        return _message(node, _numbers(node.model), _bytes(value), depth - 1)
    if node.type == "any":
        raw = _bytes(dict(_fields(_bytes(value))).get(1, b""))
        return json.loads(raw) if raw else None
    match node.scalar:
        case "string":
            return _bytes(value).decode()
        case "bytes":
            return base64.b64encode(_bytes(value)).decode()
        case "boolean":
            return bool(value)
        case "time" | "microtime":
            return _time(_bytes(value), micro=node.scalar == "microtime")
        case "quantity":
            return _bytes(dict(_fields(_bytes(value))).get(1, b"")).decode() or "0"
        case "intstr":
            parts = dict(_fields(_bytes(value)))
            return _bytes(parts.get(3, b"")).decode() if parts.get(1) else _int32(parts.get(2, 0))
        case "integer":
            return _int32(value)
        case "long":
            return _signed(value)
    raise _BadWire(f"a {node.scalar} cannot be read")


def _int32(value: int | bytes) -> int:
    number = _signed(value) & 0xFFFFFFFF
    return number - (1 << 32) if number >= 1 << 31 else number


def _time(data: bytes, *, micro: bool) -> str | None:
    parts = dict(_fields(data))
    if not parts:
        return None  # the zero time
    moment = _EPOCH + timedelta(seconds=_signed(parts.get(1, 0)))
    text = moment.strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{_signed(parts.get(2, 0)) // 1000:06d}Z" if micro else f"{text}Z"
