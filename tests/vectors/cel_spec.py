"""google/cel-spec's simple conformance tests, as converted in the vectors. What the dialect leaves out is skipped aloud."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drakit import cel
from drakit.cel import types as t
from drakit.cel.functions import Overload
from drakit.cel.values import Duration, Optional, Timestamp, TypeValue, UInt, keys, map_key
from tests.vectors import Outcome
from tests.vectors.rows import read

# Libraries that Kubernetes does not offer (or has its own of), and functions newer than the versions it enables.
LEFT_OUT_FILES = {
    "math_ext": "the math library is not offered by Kubernetes",
    "encoders_ext": "the encoders library is not offered by Kubernetes",
    "block_ext": "cel.@block is not offered by Kubernetes",
    "network_ext": "Kubernetes has its own IP and CIDR library",
}
# Tests that apply, and in which we differ on purpose: id -> why.
_FOLDED = "a constant key of a type that no map has is an error of the program, as in cel-go"
_KEYS = "cel-go, and so Kubernetes, lets doubles be keys and the last of two equal keys win"
_PRESENCE = "selecting from what has no fields is `not present` within an optional chain: Kubernetes leaves cel-go's stricter option off"
_INDEX = "an offset past the end is `not found` in the version of the strings library that Kubernetes enables"
_ESCAPE = "the recorded value has a backslash that the expression does not have"
KNOWN: dict[str, str] = {
    "fields/map_fields/map_bad_key_type_or_true": _FOLDED,
    "fields/map_fields/map_bad_key_type_and_false": _FOLDED,
    "fields/qualified_identifier_resolution/map_key_float": _KEYS,
    "fields/qualified_identifier_resolution/map_value_repeat_key": _KEYS,
    "fields/qualified_identifier_resolution/map_value_repeat_key_heterogeneous": _KEYS,
    "optionals/optionals/map_null_entry_no_such_key": _PRESENCE,
    "optionals/optionals/map_present_key_invalid_field": _PRESENCE,
    "parse/bytes_literals/triple_single_quoted_unescaped_punctuation": _ESCAPE,
    "parse/bytes_literals/triple_double_quoted_unescaped_punctuation": _ESCAPE,
    "string_ext/value_errors/indexof_out_of_range": _INDEX,
    "string_ext/value_errors/lastindexof_out_of_range": _INDEX,
    "type_deduction/legacy_nullable_types/null_assignable_to_abstract_parameter_candidate": "cel-go 0.29's checker takes the last type",
}


# What version 4 of the strings library prints and takes otherwise than version 2: doubles in scientific form and infinite,
# whole numbers for %f and %e, lists and maps for %s. The other tests of format hold for both.
_FORMAT_V4 = frozenset(
    {
        "scientific notation formatting clause",
        "default precision for fixed-point clause with int",
        "default precision for fixed-point clause with uint",
        "default precision for scientific notation",
        "default precision for scientific notation with int",
        "default precision for scientific notation with uint",
        "positive infinity support for scientific notation",
        "negative infinity support for scientific notation",
        "NaN support for decimal",
        "positive infinity support for decimal",
        "negative infinity support for decimal",
        "positive infinity support for fixed-point",
        "negative infinity support for fixed-point",
        "list support for string",
        "map support for string",
        "map support (all key types)",
        "dyntype support for scientific notation",
        "dyntype NaN/infinity support",
        "dyntype support for lists",
        "dyntype support for maps",
        "scientific notation formatting clause in a string variable",
    }
)


def left_out(vector: dict[str, Any]) -> str:
    """Why a test does not apply to Kubernetes' dialect; "" when it does."""
    if vector["file"] in LEFT_OUT_FILES:
        return LEFT_OUT_FILES[vector["file"]]
    if vector["file"] == "string_ext":
        if ".reverse()" in vector["expr"]:
            return "string.reverse() came with version 3 of the strings library; Kubernetes enables version 2"
        if vector["section"] == "format" and vector["name"] in _FORMAT_V4:
            return "string.format() was reworked in version 4 of the strings library; Kubernetes enables version 2"
    return ""


_NAMES = {
    "bool": t.BOOL, "bytes": t.BYTES, "double": t.DOUBLE, "duration": t.DURATION, "dyn": t.DYN, "int": t.INT, "null": t.NULL,
    "string": t.STRING, "timestamp": t.TIMESTAMP, "type": t.TYPE, "uint": t.UINT, "any": t.ANY, "null_type": t.NULL,
}  # fmt: skip


def read_type(raw: Any) -> t.Type:
    if isinstance(raw, str):
        if raw in _NAMES:
            return _NAMES[raw]
        if raw.startswith("wrapper("):
            return t.nullable(_NAMES[raw[8:-1]])
        return t.type_param(raw) if len(raw) == 1 else t.struct(raw)
    head, *params = raw
    if head == "param":
        return t.type_param(params[0])
    inner = [read_type(param) for param in params]
    if head == "list":
        return t.list_of(*inner)
    if head == "map":
        return t.map_of(*inner)
    if head == "wrapper":
        return t.nullable(inner[0])
    if head == "type":
        return t.type_of(inner[0]) if inner else t.TYPE
    if head in ("optional_type", "optional"):
        return t.optional_of(*inner)
    return t.opaque(head, *inner)


def show_type(typ: t.Type) -> Any:
    if typ.nullable:
        return ["wrapper", typ.name]
    for name, known in _NAMES.items():
        if known.kind == typ.kind and not typ.params:
            return name
    if typ.kind == "list":
        return ["list", show_type(typ.params[0])]
    if typ.kind == "map":
        return ["map", show_type(typ.params[0]), show_type(typ.params[1])]
    if typ.kind == "type":
        return ["type", *map(show_type, typ.params)]
    return [typ.name, *map(show_type, typ.params)] if typ.params else typ.name


def read_value(raw: dict[str, Any]) -> Any:
    kind, value = raw["t"], raw.get("v")
    if kind == "double":
        return float(value)
    if kind == "uint":
        return UInt(value)
    if kind == "int":
        return int(value)
    if kind == "bytes":
        return base64.b64decode(value)
    if kind == "list":
        return [read_value(item) for item in value]
    if kind == "map":
        return {map_key(read_value(key)): read_value(item) for key, item in value}
    if kind == "duration":
        return Duration(value[0] * 10**9 + value[1])
    if kind == "timestamp":
        return Timestamp(value[0] * 10**9 + value[1])
    if kind == "type":
        return TypeValue(value)
    return None if kind == "null" else value


def show_value(value: Any) -> dict[str, Any]:
    kind = value.__class__
    if value is None:
        return {"t": "null", "v": None}
    if kind in (bool, str):
        return {"t": "bool" if kind is bool else "string", "v": value}
    if kind is UInt or kind is int:
        return {"t": "int" if kind is int else "uint", "v": int(value)}
    if kind is float:
        return {"t": "double", "v": repr(value)}
    if kind is bytes:
        return {"t": "bytes", "v": base64.b64encode(value).decode()}
    if kind is list:
        return {"t": "list", "v": [show_value(item) for item in value]}
    if isinstance(value, dict):
        return {
            "t": "map",
            "v": [[show_value(key), show_value(item)] for key, item in zip(keys(value), value.values(), strict=True)],
        }
    if kind in (Duration, Timestamp):
        whole = kind is Duration and value.nanos < 0
        seconds, nanos = divmod(abs(value.nanos) if whole else value.nanos, 10**9)
        return {
            "t": "duration" if kind is Duration else "timestamp",
            "v": [-seconds, -nanos] if whole else [seconds, nanos],
        }
    if kind is TypeValue:
        return {"t": "type", "v": value.name}
    if kind is Optional:
        return {"t": "optional", "v": None if value.value is None else show_value(value.value)}
    return {"t": getattr(value, "cel_type", "?"), "v": str(value)}


def same_value(a: Any, b: Any) -> bool:
    if not isinstance(a, dict) or not isinstance(b, dict) or a.get("t") != b.get("t"):
        return False
    kind, x, y = a["t"], a.get("v"), b.get("v")
    if kind == "double":
        x, y = float(x), float(y)
        return x == y or (x != x and y != y)
    if kind == "list":
        return len(x) == len(y) and all(map(same_value, x, y))
    if kind == "map":
        left = list(y)
        for key, value in x:
            found = next((i for i, (k, v) in enumerate(left) if same_value(key, k) and same_value(value, v)), None)
            if found is None:
                return False
            del left[found]
        return not left
    if kind in ("duration", "timestamp"):
        return list(x) == list(y)
    return bool(x == y)


def environment(vector: dict[str, Any]) -> cel.Environment:
    functions = []
    for name, overloads in vector.get("functions", {}).items():
        made = [
            Overload(
                item["id"], tuple(map(read_type, item["params"])), read_type(item["result"]), item.get("member", False)
            )
            for item in overloads
        ]
        functions.append(cel.function(name, *made))
    env = cel.base().extend(
        variables={name: read_type(raw) for name, raw in vector["type_env"].items()},
        functions=functions,
        container=vector.get("container", ""),
    )
    if vector.get("disable_check"):
        env = env.extend(variables={name: t.DYN for name in vector["bindings"] if name not in env.variables})
    if vector.get("disable_macros"):
        from dataclasses import replace

        env = replace(env, macros={})
    return env


def run(vector: dict[str, Any]) -> dict[str, Any]:
    try:
        program = cel.compile(vector["expr"], environment(vector), check=not vector.get("disable_check"))
        if vector.get("check_only"):
            return {"type": show_type(program.result_type)}
        bindings = {name: read_value(raw.get("value", raw)) for name, raw in vector["bindings"].items()}
        value = program.evaluate(bindings)
    except cel.CelError as error:
        if vector.get("check_only") and isinstance(error, cel.ProgramError):
            from drakit.cel.program import compile_checked

            return {"type": show_type(compile_checked(vector["expr"], environment(vector)).result)}
        return {"error": str(error)}
    return {"value": show_value(value), "type": show_type(program.result_type)}


def agrees(expected: dict[str, Any], got: dict[str, Any]) -> bool:
    if "error" in expected:
        return got.get("error") is not None
    if got.get("error") is not None:
        return False
    if "value" in expected and not same_value(expected["value"], got.get("value")):
        return False
    return "type" not in expected or expected["type"] == got.get("type")


def check(files: Sequence[Path]) -> Outcome:
    outcome = Outcome()
    reasons: Counter[str] = Counter()
    known: list[str] = []
    for path in files:
        for vector in read(path):
            reason = left_out(vector)
            if reason:
                reasons[reason] += 1
                continue
            got = run(vector)
            if agrees(vector["expected"], got):
                outcome.passed += 1
            elif vector["id"] in KNOWN:
                known.append(f"differs on purpose: {vector['id']}: {KNOWN[vector['id']]}")
            else:
                outcome.mismatches.append(
                    f"MISMATCH {vector['id']}: {vector['expr']}\n  expected {json.dumps(vector['expected'], ensure_ascii=False)}\n"
                    f"  got      {json.dumps(got, ensure_ascii=False, default=repr)}"
                )
    outcome.notes += [f"left out ({count}): {reason}" for reason, count in reasons.items()]
    outcome.notes += known
    return outcome
