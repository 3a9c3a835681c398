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
from typing import Any, NamedTuple

from drakit.api.errors import StatusError, go_quote
from drakit.api.quantity import Quantity, QuantityError
from drakit.api.wire_facts import FACTS

__all__ = [
    "Form",
    "as_internal",
    "copy",
    "empty_field",
    "field_names",
    "forms",
    "in_order",
    "model_name",
    "read",
    "same",
    "zero",
]

Object = dict[str, Any]


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
_FORM = re.compile(
    r"(?P<wrap>(?:\*|\[\]|\{[^}]*\})*)(?P<core>[^'!~^]+)(?:'(?P<alias>[^!~^]+))?(?P<mark>[!~]?)(?:\^(?P<embedded>[\w.]+))?"
)
_WRAP = re.compile(r"\*|\[\]|\{[^}]*\}")
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
    reader = _reader(model_name(model))
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
    return _zero_struct(model_name(model))


def in_order(name: str, value: Any) -> Any:
    """The value of a type ("resource_v1.Device") with its keys in the order that Go writes: as messages show it."""
    if not isinstance(value, dict):
        return value
    return {field.name: field.order(value[field.name]) for field in _fields(name).values() if field.name in value}


def as_internal(name: str, value: Any) -> Any:
    """The value as Go prints its internal type of that name: Go's field names, nothing left out. Some messages show it."""
    if not isinstance(value, dict):
        return value
    fields = _fields(name).values()
    return {_go_name(field.name): field.internal(value.get(field.name, field.zero())) for field in fields}


def _go_name(name: str) -> str:
    return {"cel": "CEL", "ips": "IPs"}.get(name, name[0].upper() + name[1:])


def field_names(model: type, path: list[str]) -> list[str]:
    """The names that Go knows at a path below the model; none where there is no struct."""
    name = model_name(model)
    for step in path:
        field = _fields(name).get(step)
        if field is None or not field.struct:
            # The key of a map or an unknown field.
            continue
        name = field.struct
    return list(_fields(name))


def empty_field(model: type, name: str) -> Any:
    """What Go writes for the field when it is empty; None when it leaves it out."""
    field = _fields(model_name(model)).get(name)
    return field.zero() if field is not None and field.always else None


# The facts


class Form(NamedTuple):
    """How a field travels: `wraps` around a scalar form (`core`) or around a struct."""

    wraps: tuple[str, ...]
    core: str
    struct: str  # "" for scalars


def forms(name: str) -> list[tuple[str, Form]]:
    """The fields of a type and their forms."""
    return [(field.name, field.form) for field in _fields(name).values()]


class _Field:
    """One field: how to read it, when to leave it out, what stands for its absence."""

    __slots__ = (
        "always",
        "drops_empty",
        "embedded",
        "exact",
        "form",
        "internal",
        "name",
        "order",
        "reader",
        "struct",
        "zero",
    )

    def __init__(self, owner: str, name: str, form: str) -> None:
        match = _FORM.fullmatch(form)
        assert match is not None, form
        wraps, core, alias, mark = _WRAP.findall(match["wrap"]), match["core"], match["alias"] or "", match["mark"]
        module, _, struct = owner.partition(".")
        self.name = name
        self.embedded = match["embedded"] or ""
        self.struct = "" if len(core) == 1 else core if "." in core else f"{module}.{core}"
        self.form = Form(tuple(wraps), core, self.struct)
        # Made when the field is first met: types refer to themselves (JSON schemas do).
        self.reader = partial(_form_reader, module, wraps, core, alias)
        # Values of exactly this type are taken as they are.
        self.exact = {"s": str, "b": bool}.get(core) if not [wrap for wrap in wraps if wrap != "*"] else None
        self.order = _each(module, wraps, core, in_order)
        self.internal = _each(module, wraps, core, as_internal)
        if wraps:
            self.always = mark == "!"
            self.zero: Callable[[], Any] = _none
            self.drops_empty = wraps[0] != "*" and (struct, name) not in _KEEP_EMPTY
            return
        # Structs and the types that write themselves are never "empty" to Go's encoder.
        self.always = mark == "!" or (mark != "~" and (core in "qxtTR" or len(core) > 1))
        self.zero = _core_zero(module, core)
        self.drops_empty = not self.always and core in "sbilfy"


def _each(module: str, wraps: list[str], core: str, function: Callable[[str, Any], Any]) -> Callable[[Any], Any]:
    """function for every struct in a value of this form; maps are sorted, as Go writes them."""
    name = core if "." in core else f"{module}.{core}"

    def walk(value: Any, wraps: list[str]) -> Any:
        if isinstance(value, list) and wraps:
            return [walk(item, wraps[1:]) for item in value]
        if isinstance(value, dict) and wraps:
            return {key: walk(value[key], wraps[1:]) for key in sorted(value)}
        return function(name, value) if len(core) > 1 else value

    kinds = [wrap for wrap in wraps if wrap != "*"]
    return lambda value: walk(value, kinds)


def _none() -> None:
    return None


def _core_zero(module: str, core: str) -> Callable[[], Any]:
    if len(core) > 1:
        name = core if "." in core else f"{module}.{core}"
        return lambda: _zero_struct(name)
    constant = {"s": "", "b": False, "i": 0, "l": 0, "f": 0, "q": "0", "x": 0}.get(core)
    return lambda: constant


@cache
def _lines() -> dict[str, str]:
    lines: dict[str, str] = {}
    name = ""
    for line in FACTS.split("\n"):
        if line.startswith("  "):
            lines[name] += line[1:]
        elif line:
            name, _, rest = line.partition(" ")
            lines[name] = rest
    return lines


@cache
def model_name(model: type) -> str:
    for cls in model.__mro__:
        if cls.__module__.startswith("lightkube.models."):
            return f"{cls.__module__.rpartition('.')[2]}.{cls.__name__}"
    raise TypeError(f"{model!r} is no model of lightkube")


@cache
def _fields(name: str) -> dict[str, _Field]:
    return {
        field: _Field(name, field, form)
        for field, form in (word.split(":", 1) for word in _lines().get(name, "").split())
    }


@cache
def _always(name: str) -> tuple[tuple[str, Callable[[], Any]], ...]:
    return tuple((field.name, field.zero) for field in _fields(name).values() if field.always)


def _zero_struct(name: str) -> Object:
    return {field: make() for field, make in _always(name)}


def _go_type(module: str, wraps: list[str], core: str, alias: str) -> str:
    version = module.rpartition("_")[2]
    if core == "q" and wraps and wraps[0] in ("{ResourceName}", "{v1.ResourceName}"):
        return "v1.ResourceList"
    prefix = ""
    for wrap in wraps:
        if wrap == "[]":
            prefix += "[]"
        elif wrap != "*":
            key = wrap[1:-1]
            prefix += f"map[{'string' if not key else key if '.' in key else f'{version}.{key}'}]"
        elif prefix:
            prefix += "*"
    if alias:
        return prefix + alias
    if len(core) == 1:
        return prefix + _GO_TYPES[core]
    owner, _, struct = core.rpartition(".")
    return f"{prefix}{(owner or module).rpartition('_')[2]}.{struct}"


# The readers


def _form_reader(module: str, wraps: list[str], core: str, alias: str) -> Reader:
    if not wraps:
        if len(core) > 1:
            return _reader(core if "." in core else f"{module}.{core}")
        return _scalar_reader(core, alias)
    inner = _form_reader(module, wraps[1:], core, alias)
    if wraps[0] == "*":
        return inner
    go_type = _go_type(module, wraps, core, alias)
    null: Callable[[], Any] = _none if len(wraps) > 1 else _core_zero(module, core)
    if wraps[0] == "[]":
        return _list_reader(inner, null, go_type)
    return _map_reader(inner, null, go_type)


@cache
def _reader(name: str) -> Reader:
    """The reader of a struct."""
    fields = _fields(name)
    met: dict[str, tuple[Reader, bool, str, type | None]] = {}
    get = met.get
    always = _always(name)
    go_type = _go_type(name.partition(".")[0], [], name, "")
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


@cache
def _time_parser() -> Callable[[str], datetime]:
    return datetime.fromisoformat


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
        raise _BadValue(str(_Mismatch(value, "int32", literal=type(value) in (int, float))))
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
