"""Compare the CEL engine with what Kubernetes 1.37 (cel-go 0.29.2) answered: the sets device, derived, selector and spec.

Levels: `outcome` (what happened), `message` (the texts and the type as well), `cost` (the costs as well). A file may be any in
the vectors' format, plain or gzip. Fields named in a vector's `unstable` are not compared.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from drakit.api.errors import FieldError
from drakit.api.gates import FeatureGates
from drakit.cel.device import ApiExpressionChecker, Derived, DeviceInput, Features, Selector, _compile, to_attribute
from drakit.cel.errors import CelError, CompileError, EvaluationError
from tests.vectors import Outcome, cel_spec, vector_files
from tests.vectors.rows import read

LEVELS = {
    "device": (("compiled", "match", "eval_error?"), ("compile_error", "eval_error", "type"), ("max_cost", "cost")),
    "derived": (("compiled", "value", "eval_error?"), ("compile_error", "eval_error", "type"), ("max_cost", "cost")),
    "selector": (("accepted",), ("reason", "message"), ()),
}
ORDER = ("outcome", "message", "cost")


def _device(vector: dict[str, Any], derived: bool) -> dict[str, Any]:
    gates = vector["features"]
    features = Features(gates["ConsumableCapacity"], gates["ListTypeAttributes"])
    try:
        program = _compile(vector["expr"], vector["env"], features, derived)
    except CelError as error:
        return {"compiled": False, "compile_error": str(error)}
    got: dict[str, Any] = {"compiled": True, "type": str(program.result_type), "max_cost": program.max_cost}
    if vector.get("device") is None:
        return got
    device = DeviceInput(vector["driver"], vector["device"])
    if device.error is not None:
        return got | {"eval_error": device.error}
    key = "value" if derived else "match"
    try:
        fast = Derived(program).value(device) if derived else Selector(program).matches(device)
        failure = None
    except EvaluationError as error:
        fast, failure = None, str(error)
    # The exact evaluation must agree with the one users call, and knows the cost.
    try:
        result = program.run(device.variables) if derived else Selector(program).run(device)
        exact, text, cost = result.value, result.error, result.cost
        if derived and text is None:
            exact = to_attribute(exact)
    except EvaluationError as error:
        exact, text, cost = None, str(error), error.cost if error.cost is not None else result.cost
    if text is None and exact != fast:
        return got | {"eval_error": f"fast and exact evaluation differ: {fast!r} ({failure}), {exact!r}"}
    if text != failure:
        return got | {"eval_error": f"fast and exact evaluation differ: {failure!r}, {text!r}"}
    if derived and fast == {"strings": []}:
        fast = {}  # an empty list is left out of JSON
    return got | {key: fast, "eval_error": failure, "cost": cost}


def _selector(vector: dict[str, Any], derived: bool) -> dict[str, Any]:
    """As API validation words it; `drakit.api` does the same with the checker it is given."""
    expression = vector["expr"]
    field = "cel.expression"
    if len(expression.encode()) > 10240:
        error = FieldError.too_long(field, 10240)
    else:
        check = ApiExpressionChecker().check_selector(expression, stored=False, gates=FeatureGates.default())
        if check.error_type == "invalid":
            error = FieldError.invalid(field, expression, check.error)
        elif check.error_type == "internal":
            error = FieldError.internal(field, check.error)
        elif check.max_cost > 1_000_000:
            error = FieldError.forbidden(field, "too complex, exceeds cost limit")
        else:
            return {"accepted": True, "reason": None, "message": None}
    return {"accepted": False, "reason": error.type, "message": error.body}


RUNNERS: dict[str, Callable[[dict[str, Any], bool], dict[str, Any]]] = {
    "device": _device,
    "derived": _device,
    "selector": _selector,
}


def compare(vector: dict[str, Any], got: dict[str, Any], fields: Sequence[str]) -> list[str]:
    """What differs, in words; a field ending in "?" is compared only as "is it there?"."""
    skip = vector.get("unstable", ())
    bad = []
    for name in fields:
        base = name.rstrip("?")
        if base not in vector or base in skip:
            continue
        expected, actual = vector[base], got.get(base)
        if name.endswith("?"):
            same = (expected is None) == (actual is None)
        else:
            same = expected == actual and isinstance(expected, bool) == isinstance(actual, bool)
        if not same:
            bad.append(f"  {base}: expected {short(expected)}\n  {' ' * len(base)}  got      {short(actual)}")
    return bad


def short(value: Any, limit: int = 300) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"


def check(files: Sequence[Path], level: str | None, kind: str) -> Outcome:
    if kind == "spec":
        return cel_spec.check(files or vector_files("cel/spec.jsonl.gz"))
    groups = LEVELS[kind][: ORDER.index(level or "outcome") + 1]
    fields = [name for group in groups for name in group]
    outcome = Outcome()
    failed: Counter[str] = Counter()
    for path in files or vector_files(f"cel/{kind}.jsonl.gz"):
        for vector in read(path):
            try:
                got = RUNNERS[kind](vector, kind == "derived")
                bad = compare(vector, got, fields)
            except CompileError as error:  # a checker may not raise
                bad = [f"  raised {error!r}"]
            if bad:
                failed[vector.get("category", "")] += 1
                outcome.mismatches.append("\n".join([f"MISMATCH {vector['id']}: {short(vector['expr'])}", *bad]))
            else:
                outcome.passed += 1
    if failed:
        outcome.notes.append("by category: " + ", ".join(f"{name} {count}" for name, count in sorted(failed.items())))
    return outcome
