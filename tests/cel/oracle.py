"""The other engine: cel-expr-python (Google's C++ CEL) as a judge of ours, and the differences that are explained."""

from __future__ import annotations

import datetime
import math
import re
from typing import Any

from cel_expr_python import cel as other

from drakit import cel
from drakit.cel import types as t
from drakit.cel.values import Duration, Key, Timestamp, TypeValue
from tests.cel.generate import VALUES

_OTHER_TYPES = {
    "i": other.Type.INT, "u": other.Type.UINT, "d": other.Type.DOUBLE, "s": other.Type.STRING, "b": other.Type.BOOL,
    "li": other.Type.List(other.Type.INT), "ls": other.Type.List(other.Type.STRING),
    "m": other.Type.Map(other.Type.STRING, other.Type.DYN), "x": other.Type.DYN,
}  # fmt: skip
_TYPES = {
    "i": t.INT, "u": t.UINT, "d": t.DOUBLE, "s": t.STRING, "b": t.BOOL, "li": t.list_of(t.INT), "ls": t.list_of(t.STRING),
    "m": t.map_of(t.STRING, t.DYN), "x": t.DYN,
}  # fmt: skip
_VALUES = {**VALUES, "u": cel.values.UInt(VALUES["u"])}  # type: ignore[call-overload]
OTHER = other.NewEnv(variables=_OTHER_TYPES)
OURS = cel.Environment(variables=_TYPES, mixed_numbers=False)  # theirs has no `1 < 1.5`
ERROR = "error"


def _plain(value: Any) -> Any:
    """A value in a form that both engines' values can be brought to."""
    if isinstance(value, Duration):
        return ("duration", value.nanos // 1000)
    if isinstance(value, Timestamp):
        return ("timestamp", value.nanos // 1000)
    if isinstance(value, datetime.timedelta):
        return ("duration", (value.days * 86400 + value.seconds) * 10**6 + value.microseconds)
    if isinstance(value, datetime.datetime):
        zone = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
        delta = zone - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        return ("timestamp", (delta.days * 86400 + delta.seconds) * 10**6 + delta.microseconds)
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key.value if isinstance(key, Key) else key): _plain(item) for key, item in value.items()}
    if isinstance(value, TypeValue):
        return ("type", value.name)
    if isinstance(value, float):
        return "nan" if math.isnan(value) else float(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    return value


def theirs(expression: str) -> Any:
    """Their value, or ("error", which phase, text)."""
    try:
        compiled = OTHER.compile(expression)
    except Exception as error:  # whatever the other engine raises
        return (ERROR, "compile", str(error))
    try:
        result = compiled.eval(data=VALUES)
        if result.type() == other.Type.ERROR:
            return (ERROR, "run", str(result.value()))
        return _plain(result.plain_value())
    except Exception as error:  # as above
        return (ERROR, "run", str(error))


def ours(expression: str) -> Any:
    try:
        program = cel.compile(expression, OURS)
    except cel.CompileError as error:
        return (ERROR, "compile", str(error))
    except cel.ProgramError as error:
        return (ERROR, "program", str(error))
    fast: Any
    try:
        fast = _plain(program.evaluate(_VALUES))
    except cel.EvaluationError as error:
        fast = (ERROR, "run", str(error))
    result = program.run(_VALUES)
    exact = (ERROR, "run", result.error) if result.error is not None else _plain(result.value)
    if fast != exact:
        return (ERROR, "engine", f"fast {fast!r}, exact {exact!r}")
    return fast


def is_error(value: Any) -> bool:
    return isinstance(value, tuple) and value[0] == ERROR


# (why they may differ, pattern in the expression or in either message)
EXPLAINED: list[tuple[str, re.Pattern[str]]] = [
    (
        "a constant conversion that fails is an error of the whole program, as in cel-go",
        re.compile(r"ours   \('error', 'program'"),
    ),
    ("`x in []` is false before x is looked at, as in cel-go", re.compile(r"in \[\]\)")),
    (
        "what an empty list may hold is decided by the first overload that fits, arguments before the target, as in cel-go",
        re.compile(r"\[\][^\n]*\n  (ours   \('error', 'compile'|ours [^\n]*\n  theirs \('error', 'compile')"),
    ),
    (
        "ordering a NaN is an error, as in cel-go",
        re.compile(r"ours   \('error', 'run', 'NaN values cannot be ordered'\)"),
    ),
    ("cel-go converts durations to int", re.compile(r"No matching overloads found : int\(duration\)")),
    ("a key of a type that no map has is not in it, as in cel-go", re.compile(r"No matching overloads found : @in")),
]


def difference(expression: str) -> str:
    """ "" when both agree (values, or errors in the same phase), else what differs and is not explained."""
    mine, other_value = ours(expression), theirs(expression)
    if is_error(mine) and is_error(other_value) and mine[1] != "engine":
        return ""
    if mine == other_value and type(mine) is type(other_value):
        return ""
    described = f"{expression}\n  ours   {mine!r}\n  theirs {other_value!r}"
    if any(pattern.search(described) for _, pattern in EXPLAINED):
        return ""
    return described
