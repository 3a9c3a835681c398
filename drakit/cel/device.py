"""Device selectors and derived attributes: the environment in which DRA evaluates CEL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from drakit.api.gates import FeatureGates

__all__ = ["ApiExpressionChecker", "Check", "Conjunct", "Derived", "DeviceInput", "Explanation", "Selector", "compile_derived", "compile_selector"]


class DeviceInput:
    """The activation of one device, built once and reused for every expression.

    `device` is a plain resource.k8s.io/v1 Device. Raises EvaluationError for a device that validation refuses.
    """

    def __init__(self, driver: str, device: Mapping[str, Any]) -> None:
        raise NotImplementedError


@dataclass(frozen=True)
class Conjunct:
    """One operand of the selector's top-level `&&`: its text, and what came out."""

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


class Selector:
    """A compiled device selector."""

    expression: str
    max_cost: int

    def matches(self, device: DeviceInput) -> bool:
        """True or False; raises EvaluationError (with upstream's text) when the expression fails on this device."""
        raise NotImplementedError

    def explain(self, device: DeviceInput) -> Explanation:
        raise NotImplementedError


class Derived:
    """A compiled derived attribute."""

    expression: str
    max_cost: int

    def value(self, device: DeviceInput) -> dict[str, Any]:
        """A plain DeviceAttribute, e.g. {"string": "a"} or {"ints": [1, 2]}; raises EvaluationError."""
        raise NotImplementedError


def compile_selector(
    expression: str, *, kind: Literal["stored", "new"] = "stored", gates: FeatureGates | None = None
) -> Selector:
    """Raises CompileError or ProgramError. Compiled selectors are cached: compiling again is a lookup."""
    raise NotImplementedError


def compile_derived(
    expression: str, *, kind: Literal["stored", "new"] = "stored", gates: FeatureGates | None = None
) -> Derived:
    raise NotImplementedError


@dataclass(frozen=True)
class Check:
    """What API validation needs to know of an expression; `error_type` is "" when it is good."""

    error_type: Literal["", "invalid", "internal"]
    error: str
    max_cost: int


class ApiExpressionChecker:
    """`drakit.api`'s ExpressionChecker: compiles as the API server does when it accepts an expression."""

    def check_selector(self, expression: str, *, stored: bool, gates: FeatureGates) -> Check:
        raise NotImplementedError

    def check_derived(self, expression: str, *, stored: bool, gates: FeatureGates) -> Check:
        raise NotImplementedError
