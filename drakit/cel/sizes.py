"""Ranges of sizes and costs: the arithmetic of the static estimate, which stops at 2**64-1 and never overflows."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from drakit.cel.syntax import Node
from drakit.cel.types import Type

__all__ = [
    "LIST_BASE",
    "MAP_BASE",
    "MAX",
    "ONE",
    "REGEX",
    "STRING",
    "STRUCT_BASE",
    "UNKNOWN",
    "ZERO",
    "Operand",
    "Range",
]

MAX: Final = 2**64 - 1
_TWO64: Final = 2.0**64
STRING: Final = 0.1
REGEX: Final = 0.25
LIST_BASE: Final = 10
MAP_BASE: Final = 30
STRUCT_BASE: Final = 40
_MAX_FORMAT: Final = 64


class Range(NamedTuple):
    """A least and a most; sums and products stop at 2**64-1."""

    low: int
    high: int

    def plus(self, other: Range) -> Range:
        return Range(min(self.low + other.low, MAX), min(self.high + other.high, MAX))

    def times(self, other: Range) -> Range:
        return Range(min(self.low * other.low, MAX), min(self.high * other.high, MAX))

    def scaled(self, factor: float) -> Range:
        return Range(_scale(self.low, factor), _scale(self.high, factor))

    def union(self, other: Range) -> Range:
        return Range(min(self.low, other.low), max(self.high, other.high))


def _scale(value: int, factor: float) -> int:
    number = float(value)
    if number > 0 and factor > 0 and number > _TWO64 / factor:
        return MAX
    ceiling = float(math.ceil(number * factor)) if number * factor < _TWO64 else _TWO64
    return MAX if ceiling >= _TWO64 else int(ceiling)


ZERO: Final = Range(0, 0)
ONE: Final = Range(1, 1)
UNKNOWN: Final = Range(0, MAX)


class Operand(NamedTuple):
    """What a price may depend on: the node, its type, its path from a variable, its size."""

    node: Node | None
    type: Type
    path: tuple[str, ...]
    size: Range | None
