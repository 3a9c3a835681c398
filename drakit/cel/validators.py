"""Checks on a tree that type-checks already: literals that can never work, mixed lists, bad format strings."""

from __future__ import annotations

from collections.abc import Iterator

from drakit.cel import operators, regex
from drakit.cel.checker import Checked
from drakit.cel.environment import Environment
from drakit.cel.library import formatting
from drakit.cel.source import Issue
from drakit.cel.syntax import Call, ListNode, Literal, MapNode, Node, children
from drakit.cel.types import DYN, Type
from drakit.cel.values import Fault

__all__ = ["validate"]

_STRING_KINDS = frozenset([
        "list", "map", "int", "uint", "double", "bool", "string", "timestamp", "bytes", "duration", "type",
        "null", "dyn",
    ])  # fmt: skip
_KINDS = {
    "d": frozenset({"int", "uint", "dyn"}),
    "f": frozenset({"double", "string", "dyn"}),
    "e": frozenset({"double", "string", "dyn"}),
    "b": frozenset({"int", "uint", "bool", "dyn"}),
    "x": frozenset({"int", "uint", "string", "bytes", "dyn"}),
    "o": frozenset({"int", "uint", "dyn"}),
}


def _walk(root: Node) -> Iterator[tuple[Node, bool]]:
    """Every node, and whether a call of `format` stands above it."""
    stack = [(root, False)]
    while stack:
        node, exempt = stack.pop()
        yield node, exempt
        below = exempt or (isinstance(node, Call) and node.function == "format")
        stack.extend((child, below) for child in children(node))


class _Validator:
    def __init__(self, checked: Checked) -> None:
        self.checked = checked
        self.issues: list[Issue] = []

    def report(self, node: Node, message: str) -> None:
        parsed = self.checked.parsed
        self.issues.append(Issue(parsed.source.location(parsed.offsets.get(node.id, -1)), message))

    def type(self, node: Node) -> Type:
        return self.checked.types.get(node.id, DYN)

    def literal_call(self, node: Call) -> None:
        if not node.args or not isinstance(node.args[0], Literal):
            return
        value = node.args[0].value
        try:
            if node.function == "matches":
                regex.compile_pattern(value)
                return
            if isinstance(value, str) or (node.function == "timestamp" and value.__class__ is int):
                operators.convert[node.function](value)
                return
        except Fault:
            pass
        self.report(node.args[0], f"invalid {node.function} argument")

    def same_types(self, node: ListNode | MapNode) -> None:
        if isinstance(node, ListNode):
            expected: Type | None = None
            for i, element in enumerate(node.elements):
                typ = self.type(element)
                if i in node.optionals and typ.params:
                    typ = typ.params[0]
                if expected is not None and not _equivalent(expected, typ):
                    self.mismatch(element, expected, typ)
                    break
                expected = expected or typ
            return
        first: tuple[Type, Type] | None = None
        for entry in node.entries:
            key, value = self.type(entry.key), self.type(entry.value)
            if entry.optional and value.params:
                value = value.params[0]
            if first is None:
                first = key, value
                continue
            if not _equivalent(first[0], key):
                self.mismatch(entry.key, first[0], key)
            if not _equivalent(first[1], value):
                self.mismatch(entry.value, first[1], value)

    def mismatch(self, node: Node, expected: Type, actual: Type) -> None:
        self.report(node, f"expected type '{expected.text()}' but found '{actual.text()}'")

    def format_call(self, node: Call) -> None:
        template = node.target
        if not (isinstance(template, Literal) and isinstance(template.value, str) and len(node.args) == 1):
            return
        listed = node.args[0]
        if not isinstance(listed, ListNode):
            return
        args = listed.elements

        def show(letter: str, precision: int | None, index: int) -> str:
            arg = args[index]
            bad = self.unprintable(arg) if letter == "s" else self.wrong_kind(letter, arg)
            if bad is not None:
                raise formatting.ClauseError(formatting.complaint(letter, self.type(bad).name), bad)
            return ""

        try:
            used = formatting.clauses(template.value, len(args), show, checking=True)[1]
        except formatting.ClauseError as error:
            self.report(error.node or node, str(error))
            return
        if len(args) > used:
            self.report(node, f"too many arguments supplied to string.format (expected {used}, got {len(args)})")

    def wrong_kind(self, letter: str, arg: Node) -> Node | None:
        return None if self.type(arg).kind in _KINDS[letter.lower()] else arg

    def unprintable(self, arg: Node) -> Node | None:
        if self.type(arg).kind not in _STRING_KINDS:
            return arg
        if isinstance(arg, (ListNode, MapNode)):
            for inner in children(arg):
                bad = self.unprintable(inner)
                if bad is not None:
                    return bad
        return None


def _equivalent(a: Type, b: Type) -> bool:
    if a.kind != b.kind or len(a.params) != len(b.params) or (a.kind != "param" and a.name != b.name):
        return False
    return all(_equivalent(p, q) for p, q in zip(a.params, b.params, strict=True))


def validate(checked: Checked, env: Environment) -> list[Issue]:
    validator = _Validator(checked)
    for node, exempt in _walk(checked.root):
        if isinstance(node, Call):
            if node.function in ("duration", "timestamp", "matches"):
                validator.literal_call(node)
            elif node.function == "format" and node.target is not None:
                validator.format_call(node)
        elif isinstance(node, (ListNode, MapNode)) and not exempt and env.homogeneous:
            validator.same_types(node)
    return validator.issues
