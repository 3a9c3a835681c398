"""What generated code calls: operations that raise, with any exception, where CEL has an error or a special case.

The exact evaluator answers then; see `codegen`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drakit.cel import plan as exact
from drakit.cel.values import NONE, DefaultMap, Optional, contains, equal, equality, keys, map_key, member_key

__all__ = ["HELPERS", "Failed"]


class Failed(Exception):
    """The fast form met something only the exact evaluator handles."""


def _bool(value: Any) -> bool:
    if value is True or value is False:
        return value
    raise Failed


def _index(value: Any, key: Any) -> Any:
    if not exact.valid_key(key):
        raise Failed
    found, item = exact.select(value, key, False)
    if not found:
        raise Failed
    return item


def _has(value: Any, key: str) -> bool:
    if value.__class__ is Optional:
        raise Failed
    found, item = exact.select(value, key, True)
    if item.__class__ is exact.Err:
        raise Failed
    return found


def _optional_select(value: Any, key: Any) -> Optional:
    """`value.?key`, and selections on what is optional already."""
    if value.__class__ is Optional:
        if value is NONE:
            return NONE
        value = value.value
    if not exact.valid_key(key):
        raise Failed
    found, item = exact.select(value, key, True)
    if item.__class__ is exact.Err:
        raise Failed
    return Optional(item) if found else NONE


def _not_equal(a: Any, b: Any) -> bool:
    return equality(a, b) is not True


def _in(element: Any, container: Any) -> bool:
    return contains(container, element)


def _member(element: Any, values: frozenset[Any]) -> bool:
    return member_key(element) in values


def _items(value: Any) -> Any:
    """What a macro with one variable goes through."""
    if value.__class__ is list:
        return value
    if isinstance(value, dict):
        return list(keys(value))
    raise Failed


def _pairs(value: Any) -> Any:
    if value.__class__ is list:
        return enumerate(value)
    if isinstance(value, dict):
        return zip(keys(value), value.values(), strict=True)
    raise Failed


def _all(items: Any, holds: Callable[[Any], bool]) -> bool:
    for item in items:  # noqa: SIM110  # a loop is faster than all() over a generator
        if not holds(item):
            return False
    return True


def _exists(items: Any, holds: Callable[[Any], bool]) -> bool:
    for item in items:  # noqa: SIM110  # as above
        if holds(item):
            return True
    return False


def _exists_one(items: Any, holds: Callable[[Any], bool]) -> bool:
    return sum(1 for item in items if holds(item)) == 1


def _map(items: Any, make: Callable[[Any], Any]) -> list[Any]:
    return [make(item) for item in items]


def _map_some(items: Any, keep: Callable[[Any], bool], make: Callable[[Any], Any]) -> list[Any]:
    return [make(item) for item in items if keep(item)]


def _bound(value: Any) -> Any:
    """A bound value: an empty map forgets its default, as in cel-go."""
    return {} if value.__class__ is DefaultMap and not value else value


def _make_map(entries: tuple[tuple[Any, Any], ...]) -> dict[Any, Any]:
    out = {}
    for key, value in entries:
        if key.__class__ is bytes:
            raise Failed
        out[map_key(key)] = value
    return out


def _or_else(value: Any) -> bool:
    """Whether an optional has a value; anything else fails."""
    if value.__class__ is not Optional:
        raise Failed
    return value is not NONE


HELPERS: dict[str, Any] = {
    "_bool": _bool, "_index": _index, "_has": _has, "_optional_select": _optional_select, "_equal": equal, "_not_equal": _not_equal,
    "_in": _in, "_member": _member, "_items": _items, "_pairs": _pairs, "_all": _all, "_exists": _exists, "_exists_one": _exists_one,
    "_map": _map, "_map_some": _map_some, "_bound": _bound, "_make_map": _make_map, "_or_else": _or_else,
}  # fmt: skip
