"""The expression checker that validation uses, imported when the first expression has to be checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drakit.api.errors import FieldError
from drakit.api.gates import FeatureGates
from drakit.api.kind import ExpressionChecker

__all__ = ["LazyExpressions"]


class LazyExpressions:
    def __init__(self, gates: FeatureGates) -> None:
        self._gates = gates
        self._checker: ExpressionChecker | None = None

    def _loaded(self) -> ExpressionChecker:
        if self._checker is None:
            from drakit.cel.device import ApiExpressionChecker

            self._checker = ApiExpressionChecker()
        return self._checker

    def device_selector(self, expression: str, path: str, *, gates: FeatureGates, stored: bool) -> list[FieldError]:
        return self._loaded().device_selector(expression, path, gates=gates, stored=stored)

    def derived_attribute(
        self, expression: str, path: str, *, gates: FeatureGates, stored: bool
    ) -> tuple[list[FieldError], int]:
        return self._loaded().derived_attribute(expression, path, gates=gates, stored=stored)

    def admission(self, expression: str, path: str, *, context: Mapping[str, Any]) -> list[FieldError]:
        return self._loaded().admission(expression, path, context=context)
