"""The lists extension (version 3), Kubernetes' list functions, and sets."""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key
from typing import Any

from drakit.cel import operators as op
from drakit.cel.functions import Function, Singleton, function, overload
from drakit.cel.parser import MacroError, Scope
from drakit.cel.syntax import Call, Comprehension, Ident, ListNode, Node, Select
from drakit.cel.values import Duration, Fault, Timestamp, UInt, compare, contains, equality, no_overload, type_name

__all__ = ["FUNCTIONS", "INCLUDES", "MACROS", "SETS"]

MAX_RANGE = 1_000_000
_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_ORDERED = (int, UInt, float, bool, str, bytes, Duration, Timestamp)


def _is_list(value: Any) -> bool:
    return value.__class__ is list


def _slice(values: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise Fault(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise Fault(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(values) < end:
        raise Fault(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


def _flatten(values: Any) -> list[Any]:
    if values.__class__ is not list:
        raise Fault(f"no such overload: {type_name(values)}.flatten()")
    return _flat(values, 1)


def _flatten_deep(values: Any, depth: Any) -> list[Any]:
    if values.__class__ is not list:
        raise Fault(f"no such overload: {type_name(values)}.flatten({type_name(depth)})")
    if depth.__class__ is not int:
        raise Fault(f"no such overload: list.flatten({type_name(depth)})")
    return _flat(values, depth)


def _flat(values: list[Any], depth: int) -> list[Any]:
    if depth < 0:
        raise Fault("level must be non-negative")
    for _ in range(depth):
        if not any(item.__class__ is list for item in values):
            break
        values = [inner for item in values for inner in (item if item.__class__ is list else (item,))]
    return values


def _sort(values: list[Any]) -> list[Any]:
    return _sort_by(values, values)


def _sort_by(values: list[Any], sort_keys: Any) -> list[Any]:
    if len(values) != len(sort_keys):
        raise Fault(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, "
            f"but got {len(values)} and {len(sort_keys)} elements respectively"
        )
    if not values:
        return values
    kind = sort_keys[0].__class__
    if kind not in _ORDERED:
        raise Fault("list elements must be comparable")
    if len(values) > 1 and any(key.__class__ is not kind for key in sort_keys):
        raise Fault("list elements must have the same type")
    order = sorted(range(len(values)), key=cmp_to_key(lambda i, j: _lower(sort_keys[i], sort_keys[j])))
    return [values[i] for i in order]


def _lower(a: Any, b: Any) -> int:
    try:
        return compare(a, b)
    except Fault:  # NaN: neither before nor after
        return 0


def _range(count: int) -> list[int]:
    if count < 0:
        raise Fault(f"lists.range: size must be non-negative, got {count}")
    if count > MAX_RANGE:
        raise Fault(f"lists.range: size {count} exceeds maximum allowed ({MAX_RANGE})")
    return list(range(count))


_HASHABLE = frozenset({str, int, bytes})


def _distinct(values: list[Any]) -> list[Any]:
    if all(item.__class__ in _HASHABLE for item in values):
        return list(dict.fromkeys(values))
    unique: list[Any] = []
    for item in values:
        if not any(equality(item, other, False) is True for other in unique):
            unique.append(item)
    return unique


def _sort_by_macro(scope: Scope, target: Node | None, args: list[Node]) -> Node | None:
    assert target is not None
    if not isinstance(target, (ListNode, Select, Ident, Comprehension, Call)):
        raise MacroError(
            target, "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        )
    from drakit.cel.macros import make_map

    name = "@__sortBy_input__"
    step = scope.ident(name)
    mapped = make_map(scope, scope.ident(name), args)
    assert mapped is not None
    call = scope.member_call("@sortByAssociatedKeys", scope.ident(name), mapped)
    return Comprehension(
        scope.id(),
        iter_range=scope.list(),
        iter_var="#unused",
        iter_var2="",
        accu_var=name,
        accu_init=target,
        condition=scope.literal(False),
        step=step,
        result=call,
    )


MACROS = {("sortBy", 2, True): _sort_by_macro}

# -- Kubernetes' own ------------------------------------------------------------------------------------------


def _is_sorted(values: list[Any]) -> bool:
    previous: Any = None
    for i, item in enumerate(values):
        if item.__class__ not in _ORDERED:
            raise no_overload()
        if i and _order(previous, item) == 1:
            return False
        previous = item
    return True


def _order(a: Any, b: Any) -> int | None:
    try:
        return compare(a, b)
    except Fault:
        return None


def _sum(zero: Any) -> Callable[[list[Any]], Any]:
    def total(values: list[Any]) -> Any:
        result = zero
        for item in values:
            result = op.add(result, item)
        return result

    return total


def _pick(name: str, unwanted: int) -> Callable[[list[Any]], Any]:
    def pick(values: list[Any]) -> Any:
        if not values:
            raise Fault(f"{name} called on empty list")
        result = values[0]
        if result.__class__ not in _ORDERED:
            raise no_overload()
        for item in values[1:]:
            if item.__class__ not in _ORDERED:
                raise no_overload()
            if _order(result, item) == unwanted:
                result = item
        return result

    return pick


def _index_of(values: list[Any], item: Any) -> int:
    for i, other in enumerate(values):
        if equality(other, item, False) is True:
            return i
    return -1


def _last_index_of(values: list[Any], item: Any) -> int:
    for i in range(len(values) - 1, -1, -1):
        if equality(values[i], item, False) is True:
            return i
    return -1


def _includes(target: Any, item: Any) -> bool:
    if target.__class__ is list:
        return any(equality(other, item, False) is True for other in target)
    return equality(target, item, False) is True


_ZEROS = (("int", 0), ("uint", UInt(0)), ("double", 0.0), ("duration", Duration(0)))

FUNCTIONS: list[Function] = [
    function(
        "isSorted",
        *(overload(f"list_{name}_is_sorted_bool", f"list({name}).() -> bool", _is_sorted) for name in _COMPARABLE),
    ),
    function(
        "sum", *(overload(f"list_{name}_sum_{name}", f"list({name}).() -> {name}", _sum(zero)) for name, zero in _ZEROS)
    ),
    function(
        "max",
        *(overload(f"list_{name}_max_{name}", f"list({name}).() -> {name}", _pick("max", -1)) for name in _COMPARABLE),
    ),
    function(
        "min",
        *(overload(f"list_{name}_min_{name}", f"list({name}).() -> {name}", _pick("min", 1)) for name in _COMPARABLE),
    ),
    function("indexOf", overload("list_a_index_of_int", "list(A).(A) -> int", _index_of)),
    function("lastIndexOf", overload("list_a_last_index_of_int", "list(A).(A) -> int", _last_index_of)),
]

INCLUDES: list[Function] = [function("includes", overload("list_includes_dyn_dyn", "dyn.(dyn) -> bool", _includes))]

_SORTABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_SORT_NAMES = {"duration": "google.protobuf.Duration", "timestamp": "google.protobuf.Timestamp"}

EXTENSION: list[Function] = [
    function("slice", overload("list_slice", "list(T).(int, int) -> list(T)", _slice)),
    function(
        "flatten",
        overload("list_flatten", "list(list(T)).() -> list(T)", _flatten),
        overload("list_flatten_int", "list(dyn).(int) -> list(dyn)", _flatten_deep),
        guarded=False,
    ),
    function(
        "sort",
        *(overload(f"list_{_SORT_NAMES.get(n, n)}_sort", f"list({n}).() -> list({n})") for n in _SORTABLE),
        singleton=Singleton(_sort, _is_list),
    ),
    function(
        "@sortByAssociatedKeys",
        *(
            overload(f"list_{_SORT_NAMES.get(n, n)}_sortByAssociatedKeys", f"list(T).(list({n})) -> list(T)")
            for n in _SORTABLE
        ),
        singleton=Singleton(_sort_by, _is_list),
    ),
    function("lists.range", overload("lists_range", "(int) -> list(int)", _range)),
    function("reverse", overload("list_reverse", "list(T).() -> list(T)", lambda values: values[::-1])),
    function("distinct", overload("list_distinct", "list(T).() -> list(T)", _distinct)),
]


def _contains_all(values: list[Any], wanted: list[Any]) -> bool:
    return all(contains(values, item) for item in wanted)


def _equivalent(a: list[Any], b: list[Any]) -> bool:
    return _contains_all(a, b) and _contains_all(b, a)


def _intersects(a: list[Any], b: list[Any]) -> bool:
    return any(contains(b, item) for item in a)


SETS: list[Function] = [
    function("sets.contains", overload("list_sets_contains_list", "(list(T), list(T)) -> bool", _contains_all)),
    function("sets.equivalent", overload("list_sets_equivalent_list", "(list(T), list(T)) -> bool", _equivalent)),
    function("sets.intersects", overload("list_sets_intersects_list", "(list(T), list(T)) -> bool", _intersects)),
]
