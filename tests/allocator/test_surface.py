"""The package's door: what it exports exists, and it stays pure."""

from __future__ import annotations

import ast
from pathlib import Path

import drakit.allocator as package

IMPURE = {"time", "random", "datetime", "secrets", "asyncio", "threading", "logging", "os", "socket"}


def test_everything_exported_is_there() -> None:
    assert sorted(package.__all__) == list(package.__all__)
    assert [name for name in package.__all__ if not hasattr(package, name)] == []


def test_no_clock_no_random_numbers_no_io() -> None:
    for path in Path(package.__file__ or "").parent.glob("*.py"):
        for statement in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(statement, ast.Import):
                names = [alias.name for alias in statement.names]
            elif isinstance(statement, ast.ImportFrom) and statement.level == 0:
                names = [statement.module or ""]
            assert not {name.partition(".")[0] for name in names} & IMPURE, path.name
