"""The protobuf well-known messages, which expressions may build: each becomes a CEL value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drakit.cel.text import MAX_SECONDS, MIN_SECONDS
from drakit.cel.values import INT_MAX, INT_MIN, Duration, Fault, Timestamp, UInt

__all__ = ["build_message"]

_INT32 = (-(2**31), 2**31 - 1)


def _wrapper(
    default: Any, kinds: tuple[type, ...], low: int | None = None, high: int | None = None
) -> Callable[[dict[str, Any]], Any]:
    def build(values: dict[str, Any]) -> Any:
        value: Any = values.get("value", default)
        number: Any = value
        if value is None:
            return None
        if value.__class__ not in kinds:
            raise Fault("unsupported field type")
        if low is not None and high is not None and not low <= number <= high:
            raise Fault("integer overflow" if low < 0 else "unsigned integer overflow")
        return value

    return build


def _float32(values: dict[str, Any]) -> Any:
    import struct

    value = values.get("value", 0.0)
    if value is None:
        return None
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _duration(values: dict[str, Any]) -> Duration:
    nanos = values.get("seconds", 0) * 10**9 + values.get("nanos", 0)
    if not INT_MIN <= nanos <= INT_MAX:
        raise Fault("duration overflow")
    return Duration(nanos)


def _timestamp(values: dict[str, Any]) -> Timestamp:
    seconds = values.get("seconds", 0)
    if not MIN_SECONDS <= seconds <= MAX_SECONDS:
        raise Fault("timestamp overflow")
    return Timestamp(seconds * 10**9 + values.get("nanos", 0))


def _value(values: dict[str, Any]) -> Any:
    for name, value in values.items():
        if name == "null_value":
            return None
        if value is not None:
            return float(value) if name == "number_value" else value
    return None


_BUILDERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "google.protobuf.BoolValue": _wrapper(False, (bool,)),
    "google.protobuf.BytesValue": _wrapper(b"", (bytes,)),
    "google.protobuf.DoubleValue": _wrapper(0.0, (float,)),
    "google.protobuf.FloatValue": _float32,
    "google.protobuf.Int64Value": _wrapper(0, (int,)),
    "google.protobuf.Int32Value": _wrapper(0, (int,), *_INT32),
    "google.protobuf.UInt64Value": _wrapper(UInt(0), (UInt,)),
    "google.protobuf.UInt32Value": _wrapper(UInt(0), (UInt,), 0, 2**32 - 1),
    "google.protobuf.StringValue": _wrapper("", (str,)),
    "google.protobuf.Duration": _duration,
    "google.protobuf.Timestamp": _timestamp,
    "google.protobuf.ListValue": lambda values: values.get("values", []),
    "google.protobuf.Struct": lambda values: values.get("fields", {}),
    "google.protobuf.Value": _value,
}


def build_message(type_name: str, values: dict[str, Any]) -> Any:
    build = _BUILDERS.get(type_name)
    if build is None:
        raise Fault(f"unknown type '{type_name}'")
    return build(values)
