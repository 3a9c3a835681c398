"""The JSON form of objects as Go's types read and write it: wrong types, unknown fields, what is written though empty."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def copy(value: Any) -> Any:
    """A deep copy of a JSON value."""
    if isinstance(value, dict):
        return {key: copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy(item) for item in value]
    return value


def read(model: type, value: Any, *, kind: str, version: str) -> tuple[Object, tuple[str, ...]]:
    return copy(value), ()


def empty_field(model: type, name: str) -> Any:
    return None
