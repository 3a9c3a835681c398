"""What the two-variable macros call to build maps."""

from __future__ import annotations

from typing import Any

from drakit.cel.functions import Function, function, overload
from drakit.cel.values import Fault, GrowingMap, find, map_key, show

__all__ = ["FUNCTIONS"]


def _insert(target: dict[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    if find(target, key)[0]:
        raise Fault(f"insert failed: key {show(key)} already exists")
    try:
        return _grow(target, {map_key(key): value})
    except TypeError:
        raise Fault("unsupported key type") from None


def _grow(target: dict[Any, Any], update: dict[Any, Any]) -> dict[Any, Any]:
    if target.__class__ is not GrowingMap:
        return {**target, **update}
    target.update(update)
    return target


def _insert_all(target: dict[Any, Any], update: dict[Any, Any]) -> dict[Any, Any]:
    for key in update:
        if key in target:
            raise Fault(f"insert failed: key {show(key)} already exists")
    return _grow(target, update)


FUNCTIONS: list[Function] = [
    function(
        "cel.@mapInsert",
        overload("@mapInsert_map_key_value", "(map(K, V), K, V) -> map(K, V)", _insert),
        overload("@mapInsert_map_map", "(map(K, V), map(K, V)) -> map(K, V)", _insert_all),
    ),
]
