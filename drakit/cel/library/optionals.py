"""Optional values: `optional.of`, `orValue` and the rest; `.?` and `[?]` are syntax."""

from __future__ import annotations

from typing import Any

from drakit.cel.functions import Function, function, overload
from drakit.cel.values import NONE, Fault, Optional, is_zero, show

__all__ = ["FUNCTIONS"]


def _of_non_zero(value: Any) -> Optional:
    return NONE if is_zero(value) else Optional(value)


def _unwrap(values: list[Any]) -> list[Any]:
    unwrapped = []
    for item in values:
        if item.__class__ is not Optional:
            raise Fault(f"value {show(item)} is not optional")
        if item is not NONE:
            unwrapped.append(item.value)
    return unwrapped


FUNCTIONS: list[Function] = [
    function("optional.of", overload("optional_of", "(V) -> optional(V)", Optional)),
    function("optional.ofNonZeroValue", overload("optional_ofNonZeroValue", "(V) -> optional(V)", _of_non_zero)),
    function("optional.none", overload("optional_none", "() -> optional(V)", lambda: NONE)),
    function("value", overload("optional_value", "optional(V).() -> V", lambda v: v.get())),
    function("hasValue", overload("optional_hasValue", "optional(V).() -> bool", lambda v: v is not NONE)),
    # `or` and `orValue` evaluate their argument only when needed: the planner knows them.
    function("or", overload("optional_or_optional", "optional(V).(optional(V)) -> optional(V)")),
    function("orValue", overload("optional_orValue_value", "optional(V).(V) -> V")),
    function("_?._", overload("select_optional_field", "(dyn, string) -> optional(V)")),
    function(
        "_[?_]",
        overload("list_optindex_optional_int", "(list(V), int) -> optional(V)"),
        overload("optional_list_optindex_optional_int", "(optional(list(V)), int) -> optional(V)"),
        overload("map_optindex_optional_value", "(map(K, V), K) -> optional(V)"),
        overload("optional_map_optindex_optional_value", "(optional(map(K, V)), K) -> optional(V)"),
    ),
    function(
        "_[_]",
        overload("optional_list_index_int", "(optional(list(V)), int) -> optional(V)"),
        overload("optional_map_index_value", "(optional(map(K, V)), K) -> optional(V)"),
    ),
    function("last", overload("list_last", "list(V).() -> optional(V)", lambda v: Optional(v[-1]) if v else NONE)),
    function("first", overload("list_first", "list(V).() -> optional(V)", lambda v: Optional(v[0]) if v else NONE)),
    function("optional.unwrap", overload("optional_unwrap", "(list(optional(V))) -> list(V)", _unwrap)),
    function("unwrapOpt", overload("optional_unwrapOpt", "list(optional(V)).() -> list(V)", _unwrap)),
]
