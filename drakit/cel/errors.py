"""The errors of the engine, split by what the caller does about them.

CelError                      everything the engine raises
├── CompileError              the expression is wrong: report it to its author (has `.issues`)
├── ProgramError              a constant part of the expression already fails (bad literal, bad pattern)
└── EvaluationError           the expression failed on this input
    ├── CostExceeded          it used up its cost limit
    └── Interrupted           it ran past its wall-clock budget
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drakit.cel.source import Issue

__all__ = ["CelError", "CompileError", "CostExceeded", "EvaluationError", "Interrupted", "ProgramError"]


class CelError(Exception):
    """Root of the tree; `str(error)` is the text in cel-go's form."""


class CompileError(CelError):
    """Syntax or type errors, each with line, column and a caret line in the text."""

    def __init__(self, message: str, issues: Sequence[Issue] = ()) -> None:
        super().__init__(message)
        self.issues = tuple(issues)


class ProgramError(CelError):
    """The expression type-checks, but a constant part of it cannot be evaluated."""


class EvaluationError(CelError):
    """The expression failed on this input; `cost` is what was spent until then, where it was counted."""

    def __init__(self, message: str, cost: int | None = None, value: Any = None) -> None:
        super().__init__(message)
        self.cost = cost
        self.value = value


class CostExceeded(EvaluationError):
    """The actual cost went over the limit."""


class Interrupted(EvaluationError):
    """The wall-clock budget ran out; upstream has none and may run for minutes within its cost limit."""
