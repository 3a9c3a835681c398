"""The JSON form of objects as Go's types read and write it.

`read` takes parsed JSON and returns it as an API server would hand it back: wrong types are refused with Go's texts, unknown
fields are left out and reported, numbers, times and quantities get their canonical form, what is empty disappears or, where Go
always writes a field, appears. One compiled reader per model, made on first use.
"""

from __future__ import annotations

import base64
import binascii
import marshal
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, lru_cache, partial
from typing import Any

from drakit.api import types
from drakit.api.errors import StatusError, go_quote
from drakit.api.kind import Object
from drakit.api.quantity import Quantity, QuantityError

__all__ = [
    "as_internal",
    "copy",
    "empty_field",
    "field_names",
    "in_order",
    "read",
    "same",
    "zero",
]


class _Unknown(list[str]):
    """The paths of unknown fields found so far, and how many more values the object may have."""

    __slots__ = ("budget", "lenient")

    def __init__(self, *, lenient: bool = False) -> None:
        super().__init__()
        self.budget = _MAX_VALUES
        self.lenient = lenient  # skip what has the wrong type

    def spend(self, count: int) -> None:
        self.budget -= count
        if self.budget < 0:
            raise StatusError.too_large(f"the object has more than {_MAX_VALUES} values")


# Reads one JSON value that is not null; appends the paths of unknown fields, relative to the value.
Reader = Callable[[Any, _Unknown], Any]

_INT64 = (-(2**63), 2**63 - 1)
_INT32 = (-(2**31), 2**31 - 1)
# Lists whose being empty is not the same as being absent until the kind's own rules have seen them.
_KEEP_EMPTY = frozenset(
    {
        *(("ResourceSliceSpec", name) for name in ("devices", "sharedCounters")),
        *(("DeviceAttribute", name) for name in ("ints", "bools", "strings", "versions")),
    }
)
# Real objects have a few thousand; what is allowed here is still read and checked within a second.
_MAX_VALUES = 200_000
# Go's decoder stops counting here.
_MAX_UNKNOWN = 100

_GO_TYPES = {
    "s": "string",
    "b": "bool",
    "i": "int32",
    "l": "int64",
    "f": "float64",
    "y": "[]uint8",
    "q": "resource.Quantity",
    "t": "v1.Time",
    "T": "v1.MicroTime",
    "x": "intstr.IntOrString",
    "R": "runtime.RawExtension",
}


class _Mismatch(Exception):
    """A value of the wrong JSON type. The path grows while the error travels up; `owner` is the innermost struct."""

    def __init__(self, value: Any, go_type: str, *, literal: bool = False) -> None:
        super().__init__(go_type)
        self.word = _word(value) + (f" {_number(value)}" if literal else "")
        self.go_type = go_type
        self.owner = ""
        self.path: list[str] = []

    def __str__(self) -> str:
        where = f"Go struct field {self.owner}.{'.'.join(reversed(self.path))}" if self.owner else "Go value"
        return f"json: cannot unmarshal {self.word} into {where} of type {self.go_type}"


class _BadValue(Exception):
    """A value of the right JSON type that does not parse: the text is the whole message."""


def copy(value: Any) -> Any:
    """A deep copy of a JSON value. marshal is the fastest way there is; JSON values are all it needs to know."""
    return marshal.loads(marshal.dumps(value))  # noqa: S302 - never reads anything but what was just written


def same(one: Any, two: Any) -> bool:
    """Equality of JSON values. Python's own takes true for 1 and 1.0, which free-form parameters can tell apart."""
    if one is two or marshal.dumps(one, 2) == marshal.dumps(two, 2):
        return True
    return one == two and _same_types(one, two)


def _same_types(one: Any, two: Any) -> bool:
    if type(one) is not type(two):
        return False
    if isinstance(one, dict):
        return all(_same_types(value, two[key]) for key, value in one.items())
    if isinstance(one, list):
        return all(map(_same_types, one, two))
    return True


def read(model: type, value: Any, *, kind: str, version: str) -> tuple[Object, tuple[str, ...]]:
    """The value as the model's JSON, and the paths of its unknown fields. Raises StatusError 400; does not change value."""
    unknown = _Unknown()
    reader = _reader(types.model_name(model))
    try:
        obj: Object = reader(value, unknown)
    except (_Mismatch, _BadValue) as error:
        cause = _first_bad_value(reader, value) if isinstance(error, _Mismatch) else ""
        message = f'{kind} in version "{version}" cannot be handled as a {kind}: {cause or error}'
        raise StatusError.bad_request(message) from None
    return obj, tuple(unknown)


def _first_bad_value(reader: Reader, value: Any) -> str:
    """Go reads on after a wrong type, and a value that does not parse is what it reports in the end."""
    try:
        reader(value, _Unknown(lenient=True))
    except _BadValue as error:
        return str(error)
    except _Mismatch:
        pass
    return ""


def zero(model: type) -> Object:
    """What Go writes for an empty value of the model."""
    return _zero_struct(types.model_name(model))


def in_order(name: str, value: Any) -> Any:
    """The value of a type ("resource_v1.Device") with its keys in the order that Go writes: as messages show it."""
    if not isinstance(value, dict):
        return value
    fields = types.of(name).fields.values()
    return {field.name: _each(field, value[field.name], in_order) for field in fields if field.name in value}


def as_internal(name: str, value: Any) -> Any:
    """The value as Go prints its internal type of that name: Go's field names, nothing left out. Some messages show it."""
    if not isinstance(value, dict):
        return value
    return {
        _go_name(field.name): _each(field.type, value.get(field.name, field.zero()), as_internal)
        for field in _fields(name).values()
    }


def _each(field: types.Field, value: Any, function: Callable[[str, Any], Any]) -> Any:
    """function for every struct in the value of a field; maps are sorted, as Go writes them."""

    def walk(value: Any, depth: int) -> Any:
        if isinstance(value, list) and depth:
            return [walk(item, depth - 1) for item in value]
        if isinstance(value, dict) and depth:
            return {key: walk(value[key], depth - 1) for key in sorted(value)}
        return function(field.struct, value) if field.struct else value

    return walk(value, len(field.containers))


def _go_name(name: str) -> str:
    return {"cel": "CEL", "ips": "IPs"}.get(name, name[0].upper() + name[1:])


def field_names(model: type, path: list[str]) -> list[str]:
    """The names that Go knows at a path below the model; none where there is no struct."""
    name = types.model_name(model)
    for step in path:
        field = types.of(name).fields.get(step)
        if field is None or not field.struct:
            # The key of a map or an unknown field.
            continue
        name = field.struct
    return list(types.of(name).fields)


def empty_field(model: type, name: str) -> Any:
    """What Go writes for the field when it is empty; None when it leaves it out."""
    field = _fields(types.model_name(model)).get(name)
    return field.zero() if field is not None and field.always else None


# Fields


class _Field:
    """One field as it is read: when to leave it out, what stands for its absence."""

    __slots__ = ("always", "drops_empty", "embedded", "exact", "name", "reader", "type", "zero")

    def __init__(self, struct: str, field: types.Field) -> None:
        self.name = field.name
        self.type = field
        self.embedded = ".".join(field.embedded)
        # Made when the field is first met: types refer to themselves (JSON schemas do).
        self.reader = partial(_form_reader, field.containers, field)
        # Values of exactly this type are taken as they are.
        self.exact = {"s": str, "b": bool}.get(field.core) if not field.containers else None
        if field.wraps:
            self.always = field.mark == "!"
            self.zero: Callable[[], Any] = _none
            self.drops_empty = field.wraps[0] != "*" and (struct, field.name) not in _KEEP_EMPTY
            return
        # Structs and the types that write themselves are never "empty" to Go's encoder.
        self.always = field.mark == "!" or (field.mark != "~" and (field.core in "qxtTR" or bool(field.struct)))
        self.zero = _core_zero(field)
        self.drops_empty = not self.always and field.core in "sbilfy"


def _none() -> None:
    return None


def _core_zero(field: types.Field) -> Callable[[], Any]:
    if field.struct:
        return partial(_zero_struct, field.struct)
    constant = {"s": "", "b": False, "i": 0, "l": 0, "f": 0, "q": "0", "x": 0}.get(field.core)
    return lambda: constant


@cache
def _fields(name: str) -> dict[str, _Field]:
    struct = name.partition(".")[2]
    return {field.name: _Field(struct, field) for field in types.of(name).fields.values()}


@cache
def _always(name: str) -> tuple[tuple[str, Callable[[], Any]], ...]:
    return tuple((field.name, field.zero) for field in _fields(name).values() if field.always)


def _zero_struct(name: str) -> Object:
    return {field: make() for field, make in _always(name)}


def _go_type(containers: tuple[str, ...], field: types.Field) -> str:
    if field.core == "q" and containers[:1] == ("{v1.ResourceName}",):
        return "v1.ResourceList"
    prefix = "".join("[]" if wrap == "[]" else f"map[{wrap[1:-1]}]" for wrap in containers)
    return prefix + (field.alias or (_go_struct(field.struct) if field.struct else _GO_TYPES[field.core]))


def _go_struct(name: str) -> str:
    return name.partition("_")[2]


# The readers


def _form_reader(containers: tuple[str, ...], field: types.Field) -> Reader:
    if not containers:
        return _reader(field.struct) if field.struct else _scalar_reader(field.core, field.alias)
    inner = _form_reader(containers[1:], field)
    go_type = _go_type(containers, field)
    null: Callable[[], Any] = _none if len(containers) > 1 else _core_zero(field)
    return (_list_reader if containers[0] == "[]" else _map_reader)(inner, null, go_type)


@cache
def _reader(name: str) -> Reader:
    """The reader of a struct."""
    fields = _fields(name)
    met: dict[str, tuple[Reader, bool, str, type | None]] = {}
    get = met.get
    always = _always(name)
    go_type = _go_struct(name)
    struct = name.partition(".")[2]

    def read_struct(value: Any, unknown: _Unknown) -> Object:
        if type(value) is not dict:
            raise _Mismatch(value, go_type)
        out: Object = {}
        for key, item in value.items():
            field = get(key)
            if field is None:
                found = fields.get(key)
                if found is None:
                    if len(unknown) < _MAX_UNKNOWN:
                        unknown.append(key)
                    continue
                field = met[key] = (found.reader(), found.drops_empty, found.embedded, found.exact)
            if type(item) is field[3]:
                if item or not field[1]:
                    out[key] = item
                continue
            if item is None:
                continue
            before = len(unknown)
            try:
                result = field[0](item, unknown)
            except _Mismatch as error:
                if unknown.lenient:
                    continue
                error.owner = error.owner or struct
                error.path += [key, field[2]] if field[2] else [key]
                raise
            if len(unknown) > before:
                _prefix(unknown, before, key)
            if result or not field[1]:
                out[key] = result
        for key, make in always:
            if key not in out:
                out[key] = make()
        return out

    return read_struct


def _prefix(unknown: _Unknown, start: int, name: str) -> None:
    for position in range(start, len(unknown)):
        path = unknown[position]
        unknown[position] = name + path if path.startswith("[") else f"{name}.{path}"


def _list_reader(inner: Reader, null: Callable[[], Any], go_type: str) -> Reader:
    def read_list(value: Any, unknown: _Unknown) -> list[Any]:
        if type(value) is not list:
            raise _Mismatch(value, go_type)
        unknown.spend(len(value))
        out = []
        for position, item in enumerate(value):
            before = len(unknown)
            out.append(null() if item is None else inner(item, unknown))
            if len(unknown) > before:
                _prefix(unknown, before, f"[{position}]")
        return out

    return read_list


def _map_reader(inner: Reader, null: Callable[[], Any], go_type: str) -> Reader:
    def read_map(value: Any, unknown: _Unknown) -> Object:
        if type(value) is not dict:
            raise _Mismatch(value, go_type)
        unknown.spend(len(value))
        out = {}
        for key, item in value.items():
            before = len(unknown)
            out[key] = null() if item is None else inner(item, unknown)
            if len(unknown) > before:
                _prefix(unknown, before, key)
        return out

    return read_map


def _scalar_reader(core: str, alias: str) -> Reader:
    if core in "il":
        return _int_reader(_INT32 if core == "i" else _INT64, alias or ("int32" if core == "i" else "int64"))
    if core == "s":
        return _exact_reader(str, alias or "string")
    if core == "b":
        return _exact_reader(bool, alias or "bool")
    return {"q": _quantity, "t": _time, "T": _micro_time, "x": _int_or_string, "y": _bytes, "R": _any, "f": _float}[
        core
    ]


def _exact_reader(expected: type, go_type: str) -> Reader:
    def read_exact(value: Any, unknown: _Unknown) -> Any:
        if type(value) is not expected:
            raise _Mismatch(value, go_type)
        return value

    return read_exact


def _int_reader(bounds: tuple[int, int], go_type: str) -> Reader:
    lowest, highest = bounds

    def read_int(value: Any, unknown: _Unknown) -> int:
        if type(value) is not int:
            raise _Mismatch(value, go_type, literal=type(value) is float)
        if not lowest <= value <= highest:
            raise _Mismatch(value, go_type, literal=True)
        return value

    return read_int


def _quantity(value: Any, unknown: _Unknown) -> str:
    if type(value) is not str:
        value = _number(value) if type(value) in (int, float) else _word(value)
    try:
        return str(Quantity.parse(value.strip(" \t\r\n\v\f")))
    except QuantityError as error:
        raise _BadValue(str(error)) from None


def _time(value: Any, unknown: _Unknown) -> str | None:
    if type(value) is not str:
        raise _Mismatch(value, "string")
    # Nearly every time is already in the form that Go writes.
    if _CANONICAL_TIME(value):
        _check_time(value)
        return value
    return _parse_time(value, "2006-01-02T15:04:05Z07:00").strftime("%Y-%m-%dT%H:%M:%SZ")


def _micro_time(value: Any, unknown: _Unknown) -> str:
    if type(value) is not str:
        raise _Mismatch(value, "string")
    return _parse_time(value, "2006-01-02T15:04:05.000000Z07:00").strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@lru_cache(maxsize=1024)  # objects of one moment carry the same time
def _check_time(value: str) -> None:
    _parse_time(value, "2006-01-02T15:04:05Z07:00")


_CANONICAL_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z").fullmatch
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?P<fraction>\.[0-9]+)?(?P<zone>Z|[+-][0-9]{2}:[0-9]{2})"
)


def _parse_time(text: str, layout: str) -> datetime:
    match = _TIME.fullmatch(text)
    if match is None:
        raise _BadValue(
            f"parsing time {_time_quote(text)} as {go_quote(layout)}: cannot parse {_time_quote(text)} as {go_quote('2006')}"
        )
    fraction = (match["fraction"] or ".0")[1:7].ljust(6, "0")
    zone = "+00:00" if match["zone"] == "Z" else match["zone"]
    try:
        return datetime.fromisoformat(f"{text[:19]}.{fraction}{zone}").astimezone(UTC)
    except (ValueError, OverflowError):
        raise _BadValue(f"parsing time {_time_quote(text)}: {_out_of_range(text)} out of range") from None


def _time_quote(text: str) -> str:
    """Go's time package quotes byte by byte."""
    shown = "".join(f"\\x{byte:02x}" if byte >= 0x80 or byte < 0x20 else chr(byte) for byte in text.encode())
    return '"' + shown.replace('"', '\\"') + '"'


def _out_of_range(text: str) -> str:
    for name, part, highest in (
        ("month", text[5:7], 12),
        ("day", text[8:10], 31),
        ("hour", text[11:13], 23),
        ("minute", text[14:16], 59),
    ):
        if int(part) > highest or (name in ("month", "day") and int(part) == 0):
            return name
    return "second" if int(text[17:19]) > 59 else "day"


def _int_or_string(value: Any, unknown: _Unknown) -> int | str:
    if type(value) is str:
        return value
    if type(value) is not int or not _INT32[0] <= value <= _INT32[1]:
        raise _Mismatch(value, "int32", literal=type(value) in (int, float))
    return value


def _bytes(value: Any, unknown: _Unknown) -> str:
    if type(value) is not str:
        raise _Mismatch(value, "[]uint8")
    try:
        return base64.b64encode(base64.b64decode(value.replace("\n", "").replace("\r", ""), validate=True)).decode()
    except (binascii.Error, ValueError):
        good = re.match(r"(?:[A-Za-z0-9+/]{4})*", value)
        raise _BadValue(f"illegal base64 data at input byte {good.end() if good else 0}") from None


def _float(value: Any, unknown: _Unknown) -> float:
    if type(value) not in (int, float):
        raise _Mismatch(value, "float64")
    return value  # type: ignore[no-any-return]  # int or float, checked above


def _any(value: Any, unknown: _Unknown) -> Any:
    # Everything else is made anew while it is read, so the result shares nothing with what was given.
    return copy(value) if type(value) in (dict, list) else value


def _word(value: Any) -> str:
    words = {
        str: "string",
        bool: "bool",
        int: "number",
        float: "number",
        list: "array",
        dict: "object",
        type(None): "null",
    }
    return words.get(type(value), "object")


def _number(value: Any) -> str:
    return repr(value) if not isinstance(value, str) else value
