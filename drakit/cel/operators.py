"""Arithmetic, ordering and conversions on values, with the checks and texts of cel-go.

Ints are 64 bits wide and never wrap: a result out of range is a fault. Division truncates toward zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from drakit.cel import text
from drakit.cel.values import (
    INT_MAX,
    INT_MIN,
    MAX_ITEMS,
    MAX_TEXT,
    UINT_MAX,
    Duration,
    Fault,
    Timestamp,
    TypeValue,
    UInt,
    compare,
    no_overload,
    type_name,
)

__all__ = ["add", "convert", "divide", "less", "modulo", "multiply", "negate", "subtract", "type_of"]

_MIN_NANOS = text.MIN_SECONDS * 10**9
_MAX_NANOS = text.MAX_SECONDS * 10**9 + 999_999_999


def _int(value: int) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise Fault("integer overflow")


def _uint(value: int) -> UInt:
    if 0 <= value <= UINT_MAX:
        return UInt(value)
    raise Fault("unsigned integer overflow")


def _instant(nanos: int, offset: int) -> Timestamp:
    if _MIN_NANOS <= nanos <= _MAX_NANOS:
        return Timestamp(nanos, offset)
    raise Fault("timestamp overflow")


def add(a: Any, b: Any) -> Any:
    kind = a.__class__
    if kind is b.__class__:
        if kind is int:
            return _int(a + b)
        if kind is float:
            return a + b
        if kind is str or kind is bytes or kind is list:
            return _joined(a, b)
        if kind is UInt:
            return _uint(int(a) + int(b))
        if kind is Duration:
            return Duration(_int(a.nanos + b.nanos))
    elif kind is Timestamp and b.__class__ is Duration:
        return _instant(a.nanos + b.nanos, a.offset)
    elif kind is Duration and b.__class__ is Timestamp:
        return _instant(a.nanos + b.nanos, b.offset)
    raise no_overload()


def _joined(a: Any, b: Any) -> Any:
    length = len(a) + len(b)
    if length > (MAX_ITEMS if a.__class__ is list else MAX_TEXT):
        raise Fault(f"result too large: {length} elements")
    return a + b


def subtract(a: Any, b: Any) -> Any:
    kind = a.__class__
    if kind is b.__class__:
        if kind is int:
            return _int(a - b)
        if kind is float:
            return a - b
        if kind is UInt:
            return _uint(int(a) - int(b))
        if kind is Duration:
            return Duration(_int(a.nanos - b.nanos))
        if kind is Timestamp:
            return Duration(_int(a.nanos - b.nanos))
    elif kind is Timestamp and b.__class__ is Duration:
        return _instant(a.nanos - b.nanos, a.offset)
    raise no_overload()


def multiply(a: Any, b: Any) -> Any:
    kind = a.__class__
    if kind is b.__class__:
        if kind is int:
            return _int(a * b)
        if kind is float:
            return a * b
        if kind is UInt:
            return _uint(int(a) * int(b))
    raise no_overload()


def divide(a: Any, b: Any) -> Any:
    kind = a.__class__
    if kind is b.__class__:
        if kind is int:
            if b == 0:
                raise Fault("division by zero")
            return _int(-(-a // b) if (a < 0) != (b < 0) else a // b)
        if kind is float:
            return _divide_doubles(a, b)
        if kind is UInt:
            if b == 0:
                raise Fault("division by zero")
            return UInt(int(a) // int(b))
    raise no_overload()


def _divide_doubles(a: float, b: float) -> float:
    if b != 0:
        return a / b
    if a == 0 or a != a:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def modulo(a: Any, b: Any) -> Any:
    kind = a.__class__
    if kind is b.__class__ and kind in (int, UInt):
        if b == 0:
            raise Fault("modulus by zero")
        if kind is UInt:
            return UInt(int(a) % int(b))
        if a == INT_MIN and b == -1:
            raise Fault("integer overflow")
        return int(math.copysign(1, a)) * (abs(a) % abs(b))
    raise no_overload()


def negate(a: Any) -> Any:
    if a.__class__ is int:
        return _int(-a)
    if a.__class__ is float:
        return -a
    if a.__class__ is Duration:
        return Duration(_int(-a.nanos))
    raise no_overload()


def less(a: Any, b: Any) -> bool:
    return compare(a, b) < 0


def less_equals(a: Any, b: Any) -> bool:
    return compare(a, b) <= 0


def greater(a: Any, b: Any) -> bool:
    return compare(a, b) > 0


def greater_equals(a: Any, b: Any) -> bool:
    return compare(a, b) >= 0


def type_of(value: Any) -> TypeValue:
    return TypeValue(type_name(value))


# -- conversions ----------------------------------------------------------------------------------------------


def _failed(value: Any, target: str) -> Fault:
    return Fault(f"type conversion error from '{type_name(value)}' to '{target}'")


def to_int(value: Any) -> int:
    kind = value.__class__
    if kind is int:
        return int(value)
    if kind is UInt:
        return _int(int(value))
    if kind is float:
        if not -(2.0**63) < value < 2.0**63:
            raise Fault("integer overflow")
        return int(value)
    if kind is str:
        parsed = text.parse_int(value)
        if parsed is not None:
            return parsed
    elif kind is Timestamp:
        return int(value.nanos // 10**9)
    elif kind is Duration:
        return int(value.nanos)
    raise _failed(value, "int")


def to_uint(value: Any) -> UInt:
    kind = value.__class__
    if kind is UInt:
        return UInt(value)
    if kind is int:
        return _uint(value)
    if kind is float:
        if not 0 <= value < 2.0**64:
            raise Fault("unsigned integer overflow")
        return UInt(int(value))
    if kind is str:
        parsed = text.parse_uint(value)
        if parsed is not None:
            return parsed
    raise _failed(value, "uint")


def to_double(value: Any) -> float:
    kind = value.__class__
    if kind is float or kind is int or kind is UInt:
        return float(value)
    if kind is str:
        parsed = text.parse_double(value)
        if parsed is not None:
            return parsed
    raise _failed(value, "double")


def to_string(value: Any) -> str:
    kind = value.__class__
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is int or kind is UInt:
        return str(int(value))
    if kind is float:
        return text.go_double(value)
    if kind is bytes:
        try:
            return str(value, "utf-8")
        except UnicodeDecodeError:
            raise Fault("invalid UTF-8 in bytes, cannot convert to string") from None
    if kind is Duration:
        return text.show_duration(value)
    if kind is Timestamp:
        return text.show_timestamp(value)
    if kind is TypeValue:
        return str(value.name)
    raise _failed(value, "string")


def to_bytes(value: Any) -> bytes:
    if value.__class__ is bytes:
        return value
    if value.__class__ is str:
        return bytes(value, "utf-8")
    raise _failed(value, "bytes")


def to_bool(value: Any) -> bool:
    if value.__class__ is bool:
        return value
    if value.__class__ is str:
        parsed = text.parse_bool(value)
        if parsed is not None:
            return parsed
    raise _failed(value, "bool")


def to_duration(value: Any) -> Duration:
    if value.__class__ is Duration:
        return value
    if value.__class__ is str:
        parsed = text.parse_duration(value)
        if parsed is not None:
            return parsed
    raise _failed(value, "google.protobuf.Duration")


def to_timestamp(value: Any) -> Timestamp:
    if value.__class__ is Timestamp:
        return value
    if value.__class__ is str:
        parsed = text.parse_timestamp(value)
        if parsed is not None:
            return parsed
    elif value.__class__ is int:
        if not text.MIN_SECONDS <= value <= text.MAX_SECONDS:
            raise Fault("timestamp overflow")
        return Timestamp(value * 10**9)
    raise _failed(value, "google.protobuf.Timestamp")


convert: dict[str, Callable[[Any], Any]] = {
    "bool": to_bool, "bytes": to_bytes, "double": to_double, "duration": to_duration, "int": to_int, "string": to_string,
    "timestamp": to_timestamp, "uint": to_uint,
}  # fmt: skip
