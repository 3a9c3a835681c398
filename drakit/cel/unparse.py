"""A syntax tree back to text, for explanations. Macros are shown as they were written where that is plain to see."""

from __future__ import annotations

from typing import Any

from drakit.api.errors import go_quote
from drakit.cel.macros import ACCUMULATOR
from drakit.cel.syntax import Call, Comprehension, Ident, ListNode, Literal, MapNode, Node, Select, Struct
from drakit.cel.text import go_double
from drakit.cel.values import UInt

__all__ = ["unparse"]

_PRECEDENCE = {"_?_:_": 0, "_||_": 1, "_&&_": 2, "@in": 3} | {f"_{op}_": 3 for op in ("<", "<=", ">=", ">", "==", "!=")}
_PRECEDENCE |= {"_+_": 4, "_-_": 4, "_*_": 5, "_/_": 5, "_%_": 5, "!_": 6, "-_": 6}


def _literal(value: Any) -> str:
    if value is None:
        return "null"
    if value.__class__ is bool:
        return "true" if value else "false"
    if value.__class__ is UInt:
        return f"{int(value)}u"
    if value.__class__ is float:
        text = go_double(value)
        return text if any(ch in text for ch in ".eIN") else text + ".0"
    if value.__class__ is bytes:
        return "b" + repr(value)[1:]
    return go_quote(value) if isinstance(value, str) else str(value)


def unparse(node: Node, least: int = 0) -> str:
    """`least` is the precedence the surroundings need; looser operators get parentheses."""
    if isinstance(node, Literal):
        return _literal(node.value)
    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select):
        text = f"{unparse(node.operand, 7)}.{node.field}"
        return f"has({text})" if node.test_only else text
    if isinstance(node, ListNode):
        return (
            "["
            + ", ".join(("?" if i in node.optionals else "") + unparse(e) for i, e in enumerate(node.elements))
            + "]"
        )
    if isinstance(node, MapNode):
        return (
            "{"
            + ", ".join(f"{'?' if e.optional else ''}{unparse(e.key)}: {unparse(e.value)}" for e in node.entries)
            + "}"
        )
    if isinstance(node, Struct):
        return node.type_name + "{" + ", ".join(f"{name}: {unparse(value)}" for _, name, value, _ in node.fields) + "}"
    if isinstance(node, Comprehension):
        return _comprehension(node)
    assert isinstance(node, Call)
    return _call(node, least)


def _call(node: Call, least: int) -> str:
    function, args = node.function, node.args
    if function in ("_[_]", "_[?_]"):
        return f"{unparse(args[0], 7)}[{'?' if '?' in function else ''}{unparse(args[1])}]"
    if function == "_?._":
        assert isinstance(args[1], Literal)
        return f"{unparse(args[0], 7)}.?{args[1].value}"
    precedence = _PRECEDENCE.get(function)
    if precedence is None:
        target = f"{unparse(node.target, 7)}." if node.target is not None else ""
        return f"{target}{function}({', '.join(unparse(arg) for arg in args)})"
    if function == "_?_:_":
        text = f"{unparse(args[0], 1)} ? {unparse(args[1], 1)} : {unparse(args[2])}"
    elif len(args) == 1:
        text = function[0] + unparse(args[0], 7)
    else:
        op = "in" if function == "@in" else function.strip("_")
        text = f"{unparse(args[0], precedence)} {op} {unparse(args[1], precedence + 1)}"
    return f"({text})" if precedence < least else text


def _comprehension(node: Comprehension) -> str:
    names = node.iter_var + (f", {node.iter_var2}" if node.iter_var2 else "")
    over = unparse(node.iter_range, 7)
    step = node.step
    if node.accu_var != ACCUMULATOR:
        return f"cel.bind({node.accu_var}, {unparse(node.accu_init)}, {unparse(node.result)})"
    if isinstance(step, Call) and step.function in ("_&&_", "_||_"):
        return f"{over}.{'all' if step.function == '_&&_' else 'exists'}({names}, {unparse(step.args[1])})"
    keep = ""
    if isinstance(step, Call) and step.function == "_?_:_":
        keep = f", {unparse(step.args[0])}"
        step = step.args[1]
    if isinstance(step, Call) and step.function == "_+_" and isinstance(step.args[1], ListNode):
        value = step.args[1].elements[0]
        if keep and isinstance(value, Ident) and value.name == node.iter_var:
            return f"{over}.filter({names}{keep})"
        return f"{over}.{'transformList' if node.iter_var2 else 'map'}({names}{keep}, {unparse(value)})"
    if isinstance(step, Call) and step.function == "_+_":
        return f"{over}.exists_one({names}{keep})"
    if isinstance(step, Call) and step.function == "cel.@mapInsert":
        name = "transformMap" if len(step.args) == 3 else "transformMapEntry"
        return f"{over}.{name}({names}{keep}, {unparse(step.args[-1])})"
    return f"{over}.fold({names}{keep})"
