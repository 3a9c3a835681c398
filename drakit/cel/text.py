"""How values are written and read as text, by Go's rules: numbers, durations, timestamps, quoting.

Kubernetes' messages and CEL's string() print with Go's formatting verbs, which differ from Python's.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from drakit.cel.values import INT_MAX, INT_MIN, METER, Duration, Fault, Key, Optional, Timestamp, TypeValue, UInt

__all__ = [
    "go_double", "go_fixed", "go_value", "parse_bool", "parse_double", "parse_duration", "parse_int", "parse_timestamp",
    "show_duration", "show_timestamp",
]  # fmt: skip

MIN_SECONDS = -62135596800  # 0001-01-01T00:00:00Z
MAX_SECONDS = 253402300799  # 9999-12-31T23:59:59Z


def go_double(value: float) -> str:
    """%g with the fewest digits that read back the same."""
    if value != value:
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    if not text:
        return "-0" if sign else "0"
    stripped = text.rstrip("0")
    point = len(text) + int(exponent)  # digits before the decimal point
    prefix = "-" if sign else ""
    scale = point - 1
    if scale < -4 or scale >= 6:
        mantissa = stripped[0] + ("." + stripped[1:] if len(stripped) > 1 else "")
        return f"{prefix}{mantissa}e{'-' if scale < 0 else '+'}{abs(scale):02d}"
    return prefix + _positional(stripped, point)


def _positional(digits: str, point: int) -> str:
    if point <= 0:
        return "0." + "0" * -point + digits
    if point >= len(digits):
        return digits + "0" * (point - len(digits))
    return f"{digits[:point]}.{digits[point:]}"


def go_fixed(value: float) -> str:
    """%f with the fewest digits that read back the same."""
    if value != value:
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    text = format(Decimal(repr(value)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def go_value(value: Any) -> str:
    """%v of a value."""
    if value is None:
        return "null"
    if value.__class__ is bool:
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return go_double(value)
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return "[" + " ".join(str(b) for b in value) + "]"
    if isinstance(value, (list, dict)):
        METER.spend(len(value))
    if isinstance(value, list):
        return "[" + ", ".join(go_value(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{go_value(k)}: {go_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Key):
        return go_value(value.value)
    if isinstance(value, Duration):
        return go_duration(value.nanos)
    if isinstance(value, Timestamp):
        return go_time(value)
    if isinstance(value, TypeValue):
        return value.name
    if isinstance(value, Optional):
        return str(value) if value.value is None else f"optional({go_value(value.value)})"
    return str(value)


def go_duration(nanos: int) -> str:
    """Go's Duration.String: `1h2m3.5s`, `1.5ms`."""
    sign = "-" if nanos < 0 else ""
    value = abs(nanos)
    if value == 0:
        return "0s"
    if value < 10**9:
        for unit, scale in (("ns", 1), ("µs", 10**3), ("ms", 10**6)):
            if value < scale * 1000:
                return f"{sign}{_fraction(value, scale)}{unit}"
    seconds = _fraction(value % (60 * 10**9), 10**9) + "s"
    minutes = value // (60 * 10**9)
    if minutes == 0:
        return sign + seconds
    hours, minutes = divmod(minutes, 60)
    return f"{sign}{hours}h{minutes}m{seconds}" if hours else f"{sign}{minutes}m{seconds}"


def _fraction(value: int, scale: int) -> str:
    whole, rest = divmod(value, scale)
    if not rest:
        return str(whole)
    return f"{whole}.{str(rest).zfill(len(str(scale)) - 1).rstrip('0')}"


def show_duration(value: Duration) -> str:
    """string(duration): seconds as a decimal."""
    whole, rest = divmod(abs(value.nanos), 10**9)
    seconds = float(whole) + float(rest) / 1e9
    return ("-" if value.nanos < 0 else "") + go_fixed(seconds) + "s"


def _civil(value: Timestamp) -> tuple[datetime, int]:
    seconds, nanos = divmod(value.nanos, 10**9)
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds + value.offset), nanos


def show_timestamp(value: Timestamp) -> str:
    """string(timestamp): RFC 3339 with as many fractional digits as needed."""
    when, nanos = _civil(value)
    fraction = "." + str(nanos).zfill(9).rstrip("0") if nanos else ""
    zone = "Z"
    if value.offset:
        minutes = abs(value.offset) // 60
        zone = f"{'-' if value.offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    date = f"{when.year:04d}-{when.month:02d}-{when.day:02d}T{when.hour:02d}:{when.minute:02d}:{when.second:02d}"
    return date + fraction + zone


def go_time(value: Timestamp) -> str:
    when, nanos = _civil(value)
    fraction = "." + str(nanos).zfill(9).rstrip("0") if nanos else ""
    return f"{when.year:04d}-{when:%m-%d %H:%M:%S}{fraction} +0000 UTC"


_INT = re.compile(r"[+-]?[0-9]+\Z")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z")
_HEX_FLOAT = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+\Z")
_SEPARATED = re.compile(r"[^_]*(?:(?<=[0-9a-fA-FxX])_(?=[0-9a-fA-F])[^_]*)+\Z")
_SPECIAL = frozenset({"inf", "infinity", "nan"})


def parse_int(text: str) -> int | None:
    if not _INT.match(text) or len(text.lstrip("+-0")) > 20:
        return None
    value = int(text)
    return value if INT_MIN <= value <= INT_MAX else None


def parse_uint(text: str) -> UInt | None:
    if not text.isascii() or not text.isdigit() or len(text.lstrip("0")) > 20:
        return None
    value = int(text)
    return UInt(value) if value < 2**64 else None


def parse_double(text: str) -> float | None:
    if "_" in text:
        if not _SEPARATED.match(text):
            return None
        text = text.replace("_", "")
    if _HEX_FLOAT.match(text):
        try:
            return float.fromhex(text)
        except OverflowError:
            return None
    if not _FLOAT.match(text):
        bare = text[1:] if text[:1] in ("+", "-") else text
        return float(text) if bare.lower() in _SPECIAL and (bare.lower() != "nan" or bare == text) else None
    value = float(text)
    return None if math.isinf(value) else value


def parse_bool(text: str) -> bool | None:
    if text in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if text in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    return None


_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_DURATION = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")


def parse_duration(text: str) -> Duration | None:
    """Go's time.ParseDuration."""
    negative = text.startswith("-")
    body = text[1:] if text[:1] in ("+", "-") else text
    if body == "0":
        return Duration(0)
    position, total = 0, 0
    while position < len(body):
        found = _DURATION.match(body, position)
        if found is None or not (found[1] or found[2]):
            return None
        unit = _UNITS[found[3]]
        fraction = (found[2] or "")[:30]
        if len(found[1].lstrip("0")) > 19:
            return None
        total += int(found[1] or 0) * unit
        if fraction:
            total += int(fraction) * unit // 10 ** len(fraction)
        position = found.end()
    limit = INT_MAX + 1 if negative else INT_MAX
    if not body or total > limit:
        return None
    return Duration(-total if negative else total)


_TIMESTAMP = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))\Z"
)


def parse_timestamp(text: str) -> Timestamp | None:
    """RFC 3339; faults when the instant lies outside the years 1 to 9999."""
    found = _TIMESTAMP.match(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    nanos = int((found[7] or "0")[:9].ljust(9, "0"))
    offset = 0
    if found[8]:
        hours, minutes = int(found[9]), int(found[10])
        if hours > 24 or minutes > 60:
            return None
        offset = (hours * 3600 + minutes * 60) * (-1 if found[8] == "-" else 1)
    if hour > 23 or minute > 59 or second > 59:
        return None
    # Year 0 exists for Go's parser (and is then out of range), not for Python's dates.
    shift = 0
    if year == 0:
        year, shift = 400, -146097 * 86400
    try:
        when = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    seconds = int((when - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()) + shift - offset
    if not MIN_SECONDS <= seconds <= MAX_SECONDS:
        raise Fault("timestamp overflow")
    return Timestamp(seconds * 10**9 + nanos, offset)
