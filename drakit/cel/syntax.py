"""The syntax tree: what the parser builds and every later phase walks.

Nodes carry an id; positions, types and chosen overloads are kept beside the tree, by id. Macros may put one
node into the tree twice (`filter` repeats its variable), so a node has no parent. `depth` counts the nested
operators below a node as cel-go's parser does for its recursion limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

__all__ = [
    "Call",
    "Comprehension",
    "Ident",
    "ListNode",
    "Literal",
    "MapEntry",
    "MapNode",
    "Node",
    "Select",
    "Struct",
    "children",
]


class Node:
    __slots__ = ("depth", "id")
    depth: int
    id: int


class Literal(Node):
    """A constant: None, bool, int, UInt, float, str or bytes."""

    __slots__ = ("value",)

    def __init__(self, id: int, value: Any) -> None:
        self.id = id
        self.value = value
        self.depth = 0


class Ident(Node):
    __slots__ = ("name",)

    def __init__(self, id: int, name: str) -> None:
        self.id = id
        self.name = name
        self.depth = 0


class Select(Node):
    """`operand.field`, or the presence test `has(operand.field)` when `test_only`."""

    __slots__ = ("field", "operand", "test_only")

    def __init__(self, id: int, operand: Node, field: str, test_only: bool = False) -> None:
        self.id = id
        self.operand = operand
        self.field = field
        self.test_only = test_only
        self.depth = operand.depth + 1


class Call(Node):
    """A function or operator; `target` is set for `target.function(args)`."""

    __slots__ = ("args", "function", "target")

    def __init__(self, id: int, function: str, target: Node | None, args: Sequence[Node]) -> None:
        self.id = id
        self.function = function
        self.target = target
        self.args = args
        self.depth = 0


class ListNode(Node):
    __slots__ = ("elements", "optionals")

    def __init__(self, id: int, elements: Sequence[Node], optionals: frozenset[int] = frozenset()) -> None:
        self.id = id
        self.elements = elements
        self.optionals = optionals
        self.depth = 0


class MapEntry:
    __slots__ = ("id", "key", "optional", "value")

    def __init__(self, id: int, key: Node, value: Node, optional: bool = False) -> None:
        self.id = id
        self.key = key
        self.value = value
        self.optional = optional


class MapNode(Node):
    __slots__ = ("entries",)

    def __init__(self, id: int, entries: Sequence[MapEntry]) -> None:
        self.id = id
        self.entries = entries
        self.depth = 0


class Struct(Node):
    """`type_name{field: value}`; the fields' keys are string literals."""

    __slots__ = ("fields", "type_name")

    def __init__(self, id: int, type_name: str, fields: Sequence[tuple[int, str, Node, bool]]) -> None:
        self.id = id
        self.type_name = type_name
        self.fields = fields
        self.depth = 0


class Comprehension(Node):
    """The fold that every macro over lists and maps becomes; `cel.bind` is one over an empty list."""

    __slots__ = ("accu_init", "accu_var", "condition", "iter_range", "iter_var", "iter_var2", "result", "step")

    def __init__(
        self,
        id: int,
        *,
        iter_range: Node,
        iter_var: str,
        iter_var2: str,
        accu_var: str,
        accu_init: Node,
        condition: Node,
        step: Node,
        result: Node,
    ) -> None:
        self.id = id
        self.iter_range = iter_range
        self.iter_var = iter_var
        self.iter_var2 = iter_var2
        self.accu_var = accu_var
        self.accu_init = accu_init
        self.condition = condition
        self.step = step
        self.result = result
        self.depth = 0


def children(node: Node) -> Iterator[Node]:
    """The direct sub-expressions, in the order of evaluation."""
    if isinstance(node, Select):
        yield node.operand
    elif isinstance(node, Call):
        if node.target is not None:
            yield node.target
        yield from node.args
    elif isinstance(node, ListNode):
        yield from node.elements
    elif isinstance(node, MapNode):
        for entry in node.entries:
            yield entry.key
            yield entry.value
    elif isinstance(node, Struct):
        for _, _, value, _ in node.fields:
            yield value
    elif isinstance(node, Comprehension):
        yield from (node.iter_range, node.accu_init, node.condition, node.step, node.result)
