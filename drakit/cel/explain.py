"""Why an expression came out as it did: each operand of its top-level `&&`, with the values it saw.

This evaluates the operands one by one with the exact evaluator, so the normal path pays nothing for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drakit.cel.checker import Checked
from drakit.cel.errors import EvaluationError
from drakit.cel.plan import Err, Frame
from drakit.cel.planner import plan_program
from drakit.cel.program import Program
from drakit.cel.syntax import Call, Comprehension, Ident, Literal, Node, Select, children
from drakit.cel.unparse import unparse

__all__ = ["Conjunct", "Explanation", "explain"]

_MAX_SEEN = 12


@dataclass(frozen=True)
class Conjunct:
    """One operand of the top-level `&&`: its text, and what came out."""

    text: str
    value: Any  # True, False, another value, or None after an error
    error: str | None
    seen: Mapping[str, Any]  # sub-expression -> the value it had


@dataclass(frozen=True)
class Explanation:
    matches: bool | None  # None after an error
    error: str | None
    decisive: Conjunct | None  # the conjunct that made it false, or failed; None when it matched
    conjuncts: tuple[Conjunct, ...]


def _operands(node: Node) -> list[Node]:
    if isinstance(node, Call) and node.function == "_&&_":
        return [operand for arg in node.args for operand in _operands(arg)]
    return [node]


def explain(program: Program, variables: Mapping[str, Any]) -> Explanation:
    conjuncts = tuple(_conjunct(program, node, variables) for node in _operands(program.checked.root))
    for conjunct in conjuncts:
        if conjunct.value is False:
            return Explanation(False, None, conjunct, conjuncts)
    for conjunct in conjuncts:
        if conjunct.error is not None:
            return Explanation(None, conjunct.error, conjunct, conjuncts)
        if conjunct.value is not True:
            return Explanation(None, "no such overload", conjunct, conjuncts)
    return Explanation(True, None, None, conjuncts)


def _conjunct(program: Program, node: Node, variables: Mapping[str, Any]) -> Conjunct:
    text = unparse(node)
    try:
        value = _run(program, node, variables)
    except EvaluationError as error:
        return Conjunct(text, None, str(error), {})
    failure: str | None = value.text if value.__class__ is Err else None
    seen: dict[str, Any] = {}
    _collect(program, node, variables, seen)
    return Conjunct(text, None if failure else value, failure, seen)


def _run(program: Program, node: Node, variables: Mapping[str, Any]) -> Any:
    checked = program.checked
    part = Checked(checked.parsed, node, checked.types, checked.overloads, checked.names)
    plan = plan_program(part, program.environment)
    clock = program.limits.clock
    deadline = clock() + program.limits.seconds
    frame = Frame(variables, plan.slots, limit=program.limits.cost, clock=clock, deadline=deadline)
    return plan.root.run(frame)


def _collect(program: Program, node: Node, variables: Mapping[str, Any], seen: dict[str, Any]) -> None:
    """The attributes that the operand read: the longest selections, outside of loops."""
    if len(seen) >= _MAX_SEEN or isinstance(node, (Comprehension, Literal)):
        return
    if _is_attribute(node):
        value = _run(program, node, variables)
        seen[unparse(node)] = f"error: {value.text}" if value.__class__ is Err else value
        return
    for child in children(node):
        _collect(program, child, variables, seen)


def _is_attribute(node: Node) -> bool:
    while True:
        if isinstance(node, Ident):
            return True
        if isinstance(node, Select) and not node.test_only:
            node = node.operand
        elif (
            isinstance(node, Call) and node.function in ("_[_]", "_?._", "_[?_]") and isinstance(node.args[1], Literal)
        ):
            node = node.args[0]
        else:
            return False
