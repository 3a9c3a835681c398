"""`'%s'.format([…])`: the clauses, and the same clauses checked against types at compile time.

Doubles print as an English (US) printer does, because cel-go asks for that locale: digits in groups of three,
powers of ten written out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from drakit.api.errors import go_quote
from drakit.cel import operators as op
from drakit.cel.functions import Function, function, overload
from drakit.cel.values import MAX_TEXT, METER, Duration, Fault, Timestamp, TypeValue, UInt, keys, type_name

__all__ = ["FUNCTIONS", "ClauseError", "clauses"]

_DEFAULT_PRECISION = 6
_STRING_TYPES = "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"


class ClauseError(Exception):
    """A clause does not fit its argument; `node` is set by the compile-time check."""

    def __init__(self, message: str, node: Any = None) -> None:
        super().__init__(message)
        self.node = node


def complaint(letter: str, given: str) -> str:
    """What a clause says about an argument of a type it cannot print."""
    return {
        "s": f"string clause can only be used on {_STRING_TYPES}, was given {given}",
        "d": f"decimal clause can only be used on integers, was given {given}",
        "f": f"fixed-point clause can only be used on doubles, was given {given}",
        "e": f"scientific clause can only be used on doubles, was given {given}",
        "b": f"only integers and bools can be formatted as binary, was given {given}",
        "x": f"only integers, byte buffers, and strings can be formatted as hex, was given {given}",
        "o": f"octal clause can only be used on integers, was given {given}",
    }[letter.lower()]


Print = Callable[[str, "int | None", int], str]


def clauses(template: str, count: int, show: Print, *, checking: bool = False) -> tuple[str, int]:
    """Fill the template: `show(letter, precision, index)` gives each clause's text. Returns it and the arguments used."""
    out: list[str] = []
    position = used = length = 0
    while position < len(template):
        ch = template[position]
        if ch != "%":
            end = template.find("%", position)
            end = len(template) if end < 0 else end
            out.append(template[position:end])
            position = end
            continue
        if template.startswith("%%", position):
            out.append("%")
            position += 2
            continue
        if not checking and used >= count:
            raise ClauseError(f"index {used} out of range")
        if position + 1 >= len(template):
            raise ClauseError("unexpected end of string")
        if used >= count:
            raise ClauseError(f"index {used} out of range")
        position, letter, precision = _clause(template, position + 1)
        try:
            out.append(show(letter, precision, used))
            length += len(out[-1])
            if length > MAX_TEXT:
                raise ClauseError(f"result too large: {length} characters")
        except ClauseError as error:
            raise ClauseError(f"error during formatting: {error}", error.node) from None
        used += 1
    return "".join(out), used


def _clause(template: str, position: int) -> tuple[int, str, int | None]:
    precision = None
    if template[position] == ".":
        end = position + 1
        while end < len(template) and template[end] in "0123456789":
            end += 1
        if end >= len(template):
            raise _unparsed("error while parsing precision: could not find end of precision specifier")
        digits = template[position + 1 : end]
        if not digits or len(digits) > 18:
            reason = "invalid syntax" if not digits else "value out of range"
            raise _unparsed(
                f'error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing "{digits}": {reason}'
            )
        precision = int(digits)
        position = end
    letter = template[position]
    if letter not in "sdfebxXo":
        byte = letter.encode("utf-8", "surrogatepass")[0]
        raise _unparsed(f'unrecognized formatting clause "{chr(byte)}"')
    return position + 1, letter, precision


def _unparsed(reason: str) -> ClauseError:
    return ClauseError(f"could not parse formatting clause: {reason}")


# -- at run time ----------------------------------------------------------------------------------------------


def _format(template: str, args: list[Any]) -> str:
    def show(letter: str, precision: int | None, index: int) -> str:
        value = args[index]
        if letter == "s":
            return _string(value)
        if letter == "d":
            return _decimal(value)
        if letter in "fe":
            return _double(letter, precision, value)
        return _base(letter, value)

    try:
        return clauses(template, len(args), show)[0]
    except ClauseError as error:
        raise Fault(str(error)) from None


def _string(value: Any) -> str:
    if value is None:
        return "null"
    kind = value.__class__
    if kind is list:
        METER.spend(len(value))
        return "[" + ", ".join(_member(item) for item in value) + "]"
    if isinstance(value, dict):
        return _map(value)
    if kind in (int, UInt, float, bool, str, bytes, Timestamp, Duration, TypeValue):
        try:
            return op.to_string(value)
        except Fault as fault:
            raise ClauseError(f"could not convert argument {go_quote(str(fault))} to string") from None
    raise ClauseError(complaint("s", type_name(value)))


def _map(value: dict[Any, Any]) -> str:
    pairs = []
    METER.spend(len(value))
    for key, item in zip(keys(value), value.values(), strict=True):
        if key.__class__ not in (str, bool, int, UInt):
            raise ClauseError(f"no formatting function for map key of type {type_name(key)}")
        pairs.append((_member(key), _member(item)))
    pairs.sort(key=lambda pair: pair[0].encode("utf-8", "surrogatepass"))
    return "{" + ", ".join(f"{key}:{item}" for key, item in pairs) + "}"


def _member(value: Any) -> str:
    """A value inside a list or map, quoted as CEL would write it."""
    kind = value.__class__
    if kind is str:
        return go_quote(value)
    if kind is bytes:
        return "b" + go_quote(_string(value))
    if kind is float:
        shown = _fixed(value, _DEFAULT_PRECISION)
        return go_quote(shown) if math.isinf(value) or value != value else shown
    if kind is Timestamp:
        return f"timestamp({go_quote(op.to_string(value))})"
    if kind is Duration:
        return f"duration({go_quote(op.to_string(value))})"
    if value is not None and kind not in (int, UInt, bool, list, TypeValue) and not isinstance(value, dict):
        raise ClauseError(f"no formatting function for {type_name(value)}")
    return _string(value)


def _decimal(value: Any) -> str:
    if value.__class__ not in (int, UInt):
        raise ClauseError(complaint("d", type_name(value)))
    return str(int(value))


def _double(letter: str, precision: int | None, value: Any) -> str:
    if value.__class__ is str and value in ("NaN", "Infinity", "-Infinity"):
        value = float(value.replace("Infinity", "inf"))
    if value.__class__ is not float:
        raise ClauseError(complaint(letter, type_name(value)))
    digits = _DEFAULT_PRECISION if precision is None else precision
    if value != value:
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    # The locale's printer keeps the precision in a byte.
    return f"{value:,.{digits % 256}f}" if letter == "f" else _scientific(value)


def _fixed(value: float, digits: int) -> str:
    if value != value:
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return f"{value:.{digits}f}"


def _scientific(value: float) -> str:
    # cel-go passes the precision as a width, so it is always the default one.
    mantissa, _, exponent = f"{value:.{_DEFAULT_PRECISION}e}".partition("e")
    raised = str(abs(int(exponent))).rjust(2, "0").translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    sign = "⁻" if exponent.startswith("-") else ""
    return f"{mantissa}×10{sign}{raised}"


def _base(letter: str, value: Any) -> str:
    kind = value.__class__
    if kind in (int, UInt):
        return format(int(value), letter)
    if letter == "b" and kind is bool:
        return "1" if value else "0"
    if letter in "xX" and kind in (str, bytes):
        shown = (value.encode("utf-8", "surrogatepass") if kind is str else value).hex()
        return shown.upper() if letter == "X" else str(shown)
    raise ClauseError(complaint(letter, type_name(value)))


FUNCTIONS: list[Function] = [
    function("format", overload("string_format", "string.(list(dyn)) -> string", _format, variadic=True)),
]
