"""Compiled expressions: the phases put together, and evaluation.

`compile(text, environment)` parses, checks, validates, prices and plans. `Program.evaluate` runs the fast form
where there is one and nothing fails, and the exact one otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from drakit.cel import checker, codegen, cost, parser, validators
from drakit.cel.checker import Checked
from drakit.cel.environment import Environment
from drakit.cel.errors import CelError, CompileError, EvaluationError, Interrupted, ProgramError
from drakit.cel.plan import Err, Frame
from drakit.cel.planner import Plan, plan_program
from drakit.cel.recursion import with_room
from drakit.cel.runtimecost import Panic
from drakit.cel.source import Issue, render
from drakit.cel.types import Type
from drakit.cel.values import METER, Fault, TooMuchWork

__all__ = ["DEFAULT_LIMITS", "Limits", "Program", "Result", "compile", "compile_checked"]

UNLIMITED = 2**64


@dataclass(frozen=True)
class Limits:
    """What an evaluation may use. The clock is the one place where this package looks at time; tests pass their own."""

    cost: int = UNLIMITED
    seconds: float = 5.0
    clock: Callable[[], float] = time.monotonic


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class Result:
    """An exact evaluation: either a value or an error's text, and what it cost."""

    value: Any
    error: str | None
    cost: int


class Program:
    """A compiled expression; immutable, and safe to share between threads."""

    __slots__ = ("checked", "environment", "expression", "fast", "levels", "limits", "max_cost", "plan")

    def __init__(
        self,
        expression: str,
        environment: Environment,
        checked: Checked,
        plan: Plan,
        limits: Limits,
        fallback: Callable[[Any], Any] | None = None,
        *,
        decides: bool = False,
    ) -> None:
        self.expression = expression
        self.environment = environment
        self.checked = checked
        self.plan = plan
        self.limits = limits
        self.levels = checked.parsed.nesting
        self.max_cost = with_room(self.levels, lambda: cost.estimate(checked, environment), 40).high
        # Where the worst case fits the limit there is nothing to count.
        bounded = self.max_cost <= limits.cost
        self.fast = codegen.generate(checked, environment, plan, fallback, decides=decides) if bounded else None

    @property
    def result_type(self) -> Type:
        return self.checked.result

    def evaluate(self, variables: Mapping[str, Any]) -> Any:
        """The value; raises EvaluationError."""
        if self.fast is not None and not self.environment.attribute_activation:
            try:
                return self.fast(variables)
            except Exception:  # noqa: S110  # whatever went wrong, the exact evaluation says it properly
                pass
        result = self.run(variables)
        if result.error is not None:
            raise EvaluationError(result.error, result.cost)
        return result.value

    def run(self, variables: Mapping[str, Any], limits: Limits | None = None) -> Result:
        """Evaluate exactly, counting the cost; raises CostExceeded and Interrupted only."""
        limits = limits or self.limits
        clock = limits.clock
        METER.rewind()
        frame = Frame(variables, self.plan.slots, limit=limits.cost, clock=clock, deadline=clock() + limits.seconds)
        try:
            value = with_room(self.levels, lambda: self.plan.root.run(frame), 40)
        except CelError:
            raise
        except (RecursionError, TooMuchWork, MemoryError):
            raise Interrupted("operation interrupted: values too large or nested too deeply", frame.cost) from None
        except (Fault, Panic) as fault:
            return Result(None, str(fault), frame.cost)
        except Exception as error:  # callers are promised CelErrors only, whatever values they passed in
            return Result(None, f"internal error: {error}", frame.cost)
        if value.__class__ is Err:
            return Result(None, value.text, frame.cost)
        return Result(value, None, frame.cost)


def compile_checked(expression: str, environment: Environment, *, check: bool = True) -> Checked:
    """Parse, check and validate; raises CompileError."""
    parsed = parser.parse(expression, environment.macros, optional_syntax=environment.optional_syntax)
    if parsed.issues:
        raise _failed(parsed, parsed.issues)
    try:
        checked, issues = with_room(parsed.nesting, lambda: checker.check(parsed, environment), 40)
    except RecursionError:
        raise CompileError("expression nested too deeply") from None
    if not check:
        return checked
    if issues:
        raise _failed(parsed, issues)
    if environment.check_literals:
        issues = with_room(parsed.nesting, lambda: validators.validate(checked, environment), 20)
        if issues:
            raise _failed(parsed, issues)
    return checked


def _failed(parsed: parser.Parsed, issues: list[Issue]) -> CompileError:
    return CompileError(render(issues, parsed.source), issues)


def compile(
    expression: str, environment: Environment, *, limits: Limits = DEFAULT_LIMITS, check: bool = True
) -> Program:
    """Raises CompileError, or ProgramError where a constant part already fails.

    Without `check`, only the syntax is; what the types would have shown fails when it is reached.
    """
    checked = compile_checked(expression, environment, check=check)
    return link(expression, environment, checked, limits)


def link(
    expression: str,
    environment: Environment,
    checked: Checked,
    limits: Limits,
    fallback: Callable[[Any], Any] | None = None,
    *,
    decides: bool = False,
) -> Program:
    """Make a checked expression runnable; raises ProgramError. `fallback` answers what the fast form cannot."""
    try:
        plan = with_room(checked.parsed.nesting, lambda: plan_program(checked, environment), 40)
        return Program(expression, environment, checked, plan, limits, fallback, decides=decides)
    except RecursionError:
        raise ProgramError("expression nested too deeply") from None
