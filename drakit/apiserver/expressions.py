"""The expression checker that validation uses, imported when the first expression has to be checked.

The engine costs more to import than the rest of the server; a cluster without classes and selectors never pays for it.
"""

from __future__ import annotations

from typing import Any

from drakit.api.kind import ExpressionChecker

__all__ = ["lazy_expressions"]


class _Lazy:
    def __init__(self) -> None:
        self._checker: Any = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._checker is None:
            from drakit.cel.device import ApiExpressionChecker

            self._checker = ApiExpressionChecker()
        found = getattr(self._checker, name)
        setattr(self, name, found)
        return found


def lazy_expressions() -> ExpressionChecker:
    checker: Any = _Lazy()
    return checker  # type: ignore[no-any-return]  # has every method of the checker, by delegation
