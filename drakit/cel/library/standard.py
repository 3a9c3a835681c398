"""CEL's standard functions and operators."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from drakit.api.errors import go_quote
from drakit.cel import operators as op
from drakit.cel import regex
from drakit.cel import types as t
from drakit.cel.functions import Function, Singleton, function, overload
from drakit.cel.text import parse_int
from drakit.cel.values import Duration, Fault, Timestamp, UInt, contains, no_overload, size

__all__ = ["CONSTANTS", "FUNCTIONS", "IDENTS"]


def _not(value: Any) -> bool:
    if value.__class__ is not bool:
        raise no_overload()
    return not value


def _in(element: Any, container: Any) -> bool:
    return contains(container, element)


def _size(value: Any) -> int:
    return size(value) or 0


def _sized(value: Any) -> bool:
    return isinstance(value, (str, bytes, list, dict))


def _of(*kinds: type) -> Callable[[Any], bool]:
    wanted = frozenset(kinds)
    return lambda value: value.__class__ in wanted


_ADD = _of(int, UInt, float, str, bytes, list, Duration, Timestamp)
_SUBTRACT = _of(int, UInt, float, Duration, Timestamp)
_MULTIPLY = _of(int, UInt, float)
_NEGATE = _of(int, float, bool, Duration)
_COMPARE = _of(int, UInt, float, str, bytes, bool, Duration, Timestamp)


def _negate(value: Any) -> Any:
    if value.__class__ is bool:
        raise no_overload()
    return op.negate(value)


def _contains(value: Any, part: Any) -> bool:
    if value.__class__ is str and part.__class__ is str:
        return part in value
    raise no_overload()


def _starts(value: Any, part: Any) -> bool:
    if value.__class__ is str and part.__class__ is str:
        return bool(value.startswith(part))
    raise no_overload()


def _ends(value: Any, part: Any) -> bool:
    if value.__class__ is str and part.__class__ is str:
        return bool(value.endswith(part))
    raise no_overload()


def _matches(value: Any, pattern: Any) -> bool:
    if pattern.__class__ is not str:
        raise no_overload()
    return regex.search(pattern, value)


# -- time -----------------------------------------------------------------------------------------------------


def _zone(name: str) -> timedelta | ZoneInfo:
    """An IANA name, or an offset such as `-08:00`; Go's texts for what is neither."""
    if ":" not in name:
        return _named_zone(name)
    hours, minutes = name.split(":", 1)
    parts = []
    for part in (hours, minutes):
        number = parse_int(part)
        if number is None:
            raise Fault(f"strconv.Atoi: parsing {go_quote(part)}: invalid syntax")
        parts.append(number)
    total = parts[0] * 60 - parts[1] if name.startswith("-") else parts[0] * 60 + parts[1]
    return timedelta(minutes=total)


def _named_zone(name: str) -> timedelta | ZoneInfo:
    if name in ("", "UTC", "Local"):
        return timedelta(0)
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        if ".." in name or name.startswith(("/", "\\")):
            raise Fault("time: invalid location name") from None
        raise Fault(f"unknown time zone {name}") from None


def _local(value: Timestamp, zone: str) -> datetime:
    where = _zone(zone)
    try:
        when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=value.nanos // 10**9)
        return when + where if isinstance(where, timedelta) else when.astimezone(where)
    except OverflowError:
        raise Fault("timestamp overflow") from None


_FIELDS: dict[str, tuple[str, Callable[[datetime], int]]] = {
    "getFullYear": ("timestamp_to_year", lambda d: d.year),
    "getMonth": ("timestamp_to_month", lambda d: d.month - 1),
    "getDayOfYear": ("timestamp_to_day_of_year", lambda d: d.timetuple().tm_yday - 1),
    "getDayOfMonth": ("timestamp_to_day_of_month", lambda d: d.day - 1),
    "getDate": ("timestamp_to_day_of_month_1_based", lambda d: d.day),
    "getDayOfWeek": ("timestamp_to_day_of_week", lambda d: d.isoweekday() % 7),
    "getHours": ("timestamp_to_hours", lambda d: d.hour),
    "getMinutes": ("timestamp_to_minutes", lambda d: d.minute),
    "getSeconds": ("timestamp_to_seconds", lambda d: d.second),
}
_SPANS = {"getHours": 3600 * 10**9, "getMinutes": 60 * 10**9, "getSeconds": 10**9}


def _truncate(nanos: int, unit: int) -> int:
    return nanos // unit if nanos >= 0 else -(-nanos // unit)


def _time_functions() -> list[Function]:
    made = []
    for name, (id, read) in _FIELDS.items():
        overloads = [
            overload(id, "timestamp.() -> int", lambda v, read=read: read(_local(v, "UTC"))),
            overload(f"{id}_with_tz", "timestamp.(string) -> int", lambda v, z, read=read: read(_local(v, z))),
        ]
        if name in _SPANS:
            unit = _SPANS[name]
            spans = overload(
                f"duration_to_{name[3:].lower()}", "duration.() -> int", lambda v, u=unit: _truncate(v.nanos, u)
            )
            overloads.append(spans)
        made.append(function(name, *overloads))
    made.append(
        function(
            "getMilliseconds",
            overload("timestamp_to_milliseconds", "timestamp.() -> int", lambda v: v.nanos % 10**9 // 10**6),
            overload("timestamp_to_milliseconds_with_tz", "timestamp.(string) -> int", _milliseconds),
            overload("duration_to_milliseconds", "duration.() -> int", lambda v: _truncate(v.nanos, 10**6)),
        )
    )
    return made


def _milliseconds(value: Timestamp, zone: str) -> int:
    _zone(zone)
    return int(value.nanos % 10**9 // 10**6)


# -- the declarations -----------------------------------------------------------------------------------------

_COMPARISONS = (
    ("_<_", "less", op.less),
    ("_<=_", "less_equals", op.less_equals),
    ("_>_", "greater", op.greater),
    ("_>=_", "greater_equals", op.greater_equals),
)
_ORDERED = (
    ("bool", "bool", "bool"), ("int64", "int", "int"), ("int64_double", "int", "double"), ("int64_uint64", "int", "uint"),
    ("uint64", "uint", "uint"), ("uint64_double", "uint", "double"), ("uint64_int64", "uint", "int"), ("double", "double", "double"),
    ("double_int64", "double", "int"), ("double_uint64", "double", "uint"), ("string", "string", "string"), ("bytes", "bytes", "bytes"),
    ("timestamp", "timestamp", "timestamp"), ("duration", "duration", "duration"),
)  # fmt: skip


def _comparison(name: str, prefix: str, impl: Callable[[Any, Any], bool]) -> Function:
    overloads = (overload(f"{prefix}_{id}", f"({a}, {b}) -> bool") for id, a, b in _ORDERED)
    return function(name, *overloads, singleton=Singleton(impl, _COMPARE))


def _same(value: Any) -> Any:
    return value


def _conversion(name: str, *sources: tuple[str, str]) -> Function:
    impl = op.convert[name]
    return function(
        name, *(overload(id, f"({source}) -> {name}", _same if source == name else impl) for id, source in sources)
    )


FUNCTIONS: list[Function] = [
    function("_?_:_", overload("conditional", "(bool, A, A) -> A", strict=False)),
    function("_&&_", overload("logical_and", "(bool, bool) -> bool", strict=False)),
    function("_||_", overload("logical_or", "(bool, bool) -> bool", strict=False)),
    function("!_", overload("logical_not", "(bool) -> bool"), singleton=Singleton(_not)),
    function("@not_strictly_false", overload("not_strictly_false", "(bool) -> bool", lambda v: v is not False, strict=False)),
    function("_==_", overload("equals", "(A, A) -> bool")),
    function("_!=_", overload("not_equals", "(A, A) -> bool")),
    function(
        "_+_",
        overload("add_bytes", "(bytes, bytes) -> bytes"),
        overload("add_double", "(double, double) -> double"),
        overload("add_duration_duration", "(duration, duration) -> duration"),
        overload("add_duration_timestamp", "(duration, timestamp) -> timestamp"),
        overload("add_timestamp_duration", "(timestamp, duration) -> timestamp"),
        overload("add_int64", "(int, int) -> int"),
        overload("add_list", "(list(A), list(A)) -> list(A)"),
        overload("add_string", "(string, string) -> string"),
        overload("add_uint64", "(uint, uint) -> uint"),
        singleton=Singleton(op.add, _ADD),
    ),
    function(
        "_/_",
        overload("divide_double", "(double, double) -> double"),
        overload("divide_int64", "(int, int) -> int"),
        overload("divide_uint64", "(uint, uint) -> uint"),
        singleton=Singleton(op.divide, _MULTIPLY),
    ),
    function(
        "_%_",
        overload("modulo_int64", "(int, int) -> int"),
        overload("modulo_uint64", "(uint, uint) -> uint"),
        singleton=Singleton(op.modulo, _of(int, UInt)),
    ),
    function(
        "_*_",
        overload("multiply_double", "(double, double) -> double"),
        overload("multiply_int64", "(int, int) -> int"),
        overload("multiply_uint64", "(uint, uint) -> uint"),
        singleton=Singleton(op.multiply, _MULTIPLY),
    ),
    function(
        "-_",
        overload("negate_double", "(double) -> double"),
        overload("negate_int64", "(int) -> int"),
        singleton=Singleton(_negate, _NEGATE),
    ),
    function(
        "_-_",
        overload("subtract_double", "(double, double) -> double"),
        overload("subtract_duration_duration", "(duration, duration) -> duration"),
        overload("subtract_int64", "(int, int) -> int"),
        overload("subtract_timestamp_duration", "(timestamp, duration) -> timestamp"),
        overload("subtract_timestamp_timestamp", "(timestamp, timestamp) -> duration"),
        overload("subtract_uint64", "(uint, uint) -> uint"),
        singleton=Singleton(op.subtract, _SUBTRACT),
    ),
    *(_comparison(*row) for row in _COMPARISONS),
    function("_[_]", overload("index_list", "(list(A), int) -> A"), overload("index_map", "(map(A, B), A) -> B")),
    function(
        "@in",
        overload("in_list", "(A, list(A)) -> bool"),
        overload("in_map", "(A, map(A, B)) -> bool"),
        singleton=Singleton(_in),
    ),
    function(
        "size",
        overload("size_bytes", "(bytes) -> int"),
        overload("bytes_size", "bytes.() -> int"),
        overload("size_list", "(list(A)) -> int"),
        overload("list_size", "list(A).() -> int"),
        overload("size_map", "(map(A, B)) -> int"),
        overload("map_size", "map(A, B).() -> int"),
        overload("size_string", "(string) -> int"),
        overload("string_size", "string.() -> int"),
        singleton=Singleton(_size, _sized),
    ),
    function("type", overload("type", "(A) -> type(A)"), singleton=Singleton(op.type_of)),
    function("dyn", overload("to_dyn", "(A) -> dyn"), singleton=Singleton(_same)),
    _conversion("bool", ("bool_to_bool", "bool"), ("string_to_bool", "string")),
    _conversion("bytes", ("bytes_to_bytes", "bytes"), ("string_to_bytes", "string")),
    _conversion(
        "double", ("double_to_double", "double"), ("int64_to_double", "int"), ("string_to_double", "string"), ("uint64_to_double", "uint")
    ),
    _conversion("duration", ("duration_to_duration", "duration"), ("string_to_duration", "string")),
    _conversion(
        "int", ("int64_to_int64", "int"), ("double_to_int64", "double"), ("duration_to_int64", "duration"), ("string_to_int64", "string"),
        ("timestamp_to_int64", "timestamp"), ("uint64_to_int64", "uint"),
    ),
    _conversion(
        "string", ("string_to_string", "string"), ("bool_to_string", "bool"), ("bytes_to_string", "bytes"), ("double_to_string", "double"),
        ("duration_to_string", "duration"), ("int64_to_string", "int"), ("timestamp_to_string", "timestamp"), ("uint64_to_string", "uint"),
    ),
    _conversion("timestamp", ("timestamp_to_timestamp", "timestamp"), ("int64_to_timestamp", "int"), ("string_to_timestamp", "string")),
    _conversion(
        "uint", ("uint64_to_uint64", "uint"), ("double_to_uint64", "double"), ("int64_to_uint64", "int"), ("string_to_uint64", "string")
    ),
    function("contains", overload("contains_string", "string.(string) -> bool", _contains), guarded=False),
    function("endsWith", overload("ends_with_string", "string.(string) -> bool", _ends), guarded=False),
    function("startsWith", overload("starts_with_string", "string.(string) -> bool", _starts), guarded=False),
    function(
        "matches",
        overload("matches", "(string, string) -> bool"),
        overload("matches_string", "string.(string) -> bool"),
        singleton=Singleton(_matches, _of(str)),
    ),
    *_time_functions(),
]  # fmt: skip

# Values of protobuf enumerations.
CONSTANTS: dict[str, tuple[t.Type, Any]] = {"google.protobuf.NullValue.NULL_VALUE": (t.INT, 0)}

# Names of types, usable as values.
IDENTS: dict[str, t.Type] = {
    "bool": t.BOOL, "bytes": t.BYTES, "double": t.DOUBLE, "google.protobuf.Duration": t.DURATION, "int": t.INT,
    "list": t.list_of(t.DYN), "map": t.map_of(t.DYN, t.DYN), "null_type": t.NULL, "string": t.STRING,
    "google.protobuf.Timestamp": t.TIMESTAMP, "type": t.TYPE, "uint": t.UINT,
}  # fmt: skip
