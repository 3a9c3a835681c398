"""What a call costs when it runs, in cel-go's units: its own rules, the extensions', and Kubernetes'.

A rule is a number, or a function of the arguments and the result. An error as argument or result has size 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from drakit.cel.library.kubernetes import NamedFormat, QuantityValue, Semver
from drakit.cel.library.network import CIDR, IP
from drakit.cel.library.urls import URL
from drakit.cel.values import METER, Optional, go_type, size, type_name

__all__ = ["AUTHORIZATION_CHECK", "Panic", "Rule", "actual_size", "rule", "upfront"]

Rule = Callable[[Sequence[Any], Any], int]
AUTHORIZATION_CHECK: Final = 350_000
_LIST_BASE: Final = 10
_STRING: Final = 0.1
_REGEX: Final = 0.25
_ADDERS: Final = frozenset(
    {"int", "uint", "double", "string", "bytes", "google.protobuf.Duration", "google.protobuf.Timestamp"}
)
_UNIT_EQUALITY = (QuantityValue, Semver, IP, CIDR, URL, NamedFormat)


def actual_size(value: Any) -> int:
    measured = size(value)
    if measured is not None:
        return measured
    if value.__class__ is Optional and value.value is not None:
        return actual_size(value.value)
    return 1


def _plain_size(value: Any) -> int:
    measured = size(value)
    return 1 if measured is None else measured


def _scan(index: int, factor: float) -> Rule:
    return lambda args, result: math.ceil(_plain_size(args[index]) * factor)


def _equality(args: Sequence[Any], result: Any) -> int:
    if isinstance(args[0], _UNIT_EQUALITY) or getattr(args[0], "cel_unit_equality", False):
        return 1
    return _shorter(args, result)


def _shorter(args: Sequence[Any], result: Any) -> int:
    return math.ceil(min(actual_size(args[0]), actual_size(args[1])) * _STRING)


def _longer(args: Sequence[Any], result: Any) -> int:
    return math.ceil((actual_size(args[0]) + actual_size(args[1])) * _STRING)


def _match(args: Sequence[Any], result: Any) -> int:
    return math.ceil((1.0 + actual_size(args[0])) * _STRING) * math.ceil(actual_size(args[1]) * _REGEX)


def _contains(args: Sequence[Any], result: Any) -> int:
    return math.ceil(actual_size(args[0]) * _STRING) * math.ceil(actual_size(args[1]) * _STRING)


def traversal(value: Any) -> int:
    """The cost of walking through a value; integer parts are cut, as in Go."""
    if isinstance(value, str):
        return int(len(value.encode("utf-8", "surrogatepass")) * _STRING)
    if isinstance(value, bytes):
        return int(len(value) * _STRING)
    if isinstance(value, (list, dict)):
        METER.spend(len(value))
    if isinstance(value, list):
        return sum(traversal(item) for item in value)
    if isinstance(value, dict):
        return sum(traversal(key) + traversal(item) for key, item in value.items())
    return 1


def _selector(args: Sequence[Any], result: Any) -> int:
    length = _plain_size(args[1])
    return _LIST_BASE + math.ceil(length * _STRING) + math.ceil(math.ceil(length * 0.5) * 50.0)


def _contains_ip(args: Sequence[Any], result: Any) -> int:
    return math.ceil(2 * _plain_size(args[0]) * _STRING)


def _contains_cidr(args: Sequence[Any], result: Any) -> int:
    own = _plain_size(args[0])
    return math.ceil(2 * own * _STRING) + math.ceil(own * _STRING) + 1


def _parsing(rule: Rule) -> Rule:
    """The same, where the second argument is text that must be read first."""
    return lambda args, result: rule(args, result) + math.ceil(_plain_size(args[1]) * _STRING)


def _validate(args: Sequence[Any], result: Any) -> int:
    if not isinstance(args[0], NamedFormat):
        return 1
    return math.ceil((1.0 + _plain_size(args[1])) * _STRING) * math.ceil(args[0].max_regex * _REGEX)


def _output(args: Sequence[Any], result: Any) -> int:
    return _plain_size(result) + 1 + _LIST_BASE


class Panic(Exception):
    """Upstream's bookkeeping panics on this input, which ends the evaluation; so does ours, with the same text."""


def _flatten(args: Sequence[Any], result: Any) -> int:
    if len(args) == 2 and args[1].__class__ is not int:
        raise Panic(f"internal error: interface conversion: ref.Val is {go_type(args[1])}, not types.Int")
    depth = float(args[1]) if len(args) == 2 else 1.0
    return _allocated(_plain_size(args[0]) * (1.0 if depth < 0 else depth))


def _allocated(work: float) -> int:
    """A call that makes a list. What does not fit 64 bits becomes 2**63, as Go's conversion has it on amd64."""
    return min((2**63 if work >= 2.0**64 else int(work)) + 1 + _LIST_BASE, 2**64 - 1)


def _self_compare(index: int) -> Rule:
    def cost(args: Sequence[Any], result: Any) -> int:
        values = args[index]
        if values.__class__ is not list:
            method = "Contains" if type_name(values) in _ADDERS else "Add"
            text = (
                f"internal error: interface conversion: {go_type(values)} is not traits.Lister: missing method {method}"
            )
            raise Panic(text)
        count = _plain_size(values)
        factor = 2.0
        if isinstance(values, list) and values and isinstance(values[0], (str, bytes)):
            factor += _STRING
        return _allocated(count * count * factor)

    return cost


def _sets(factor: int) -> Rule:
    return lambda args, result: 1 + _plain_size(args[0]) * _plain_size(args[1]) * factor


_BY_OVERLOAD: Final[dict[str, Rule]] = {
    "list_slice": _output,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _output,
    "list_reverse": _output,
    "list_distinct": _self_compare(0),
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
    "cidr_contains_ip_string": _parsing(_contains_ip),
    "cidr_contains_cidr_string": _parsing(_contains_cidr),
}
UNIT_PRICE: Final = frozenset(
    [
        "serviceAccount", "path", "group", "resource", "subresource", "namespace", "name", "allowed", "reason",
        "error", "errored", "masked", "prefixLength", "family", "isUnspecified", "isLoopback",
        "isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast", "format.named", "sign", "asInteger",
        "isInteger", "asApproximateFloat", "isGreaterThan", "isLessThan", "compareTo", "add", "sub", "major",
        "minor", "patch", "getScheme", "getHostname", "getHost", "getPort", "getEscapedPath", "getQuery",
    ]
)  # fmt: skip
TRAVERSING: Final = frozenset({"isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"})
_BY_FUNCTION: Final[dict[str, Rule]] = {
    **dict.fromkeys(TRAVERSING, lambda args, result: traversal(args[0])),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _scan(0, _STRING)),
    **dict.fromkeys(("replace", "split"), _scan(0, 2 * _STRING)),
    "join": lambda args, result: math.ceil(_plain_size(result) * 2 * _STRING),
    **dict.fromkeys(("find", "findAll"), _match),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _scan(0, _STRING)),
    "ip.isCanonical": _scan(0, 2 * _STRING),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _validate,
    "fieldSelector": _selector,
    "labelSelector": _selector,
    "_==_": _equality,
}
_ORDERS: Final = ("less", "greater", "less_equals", "greater_equals")
_STANDARD: Final[dict[str, Rule]] = {
    **dict.fromkeys(("starts_with_string", "ends_with_string"), lambda args, result: math.ceil(actual_size(args[1]) * _STRING)),
    **dict.fromkeys(
        ("string_to_bytes", "bytes_to_string", "strings_quote", "string_format"),
        lambda args, result: math.ceil(actual_size(args[0]) * _STRING),
    ),
    "in_list": lambda args, result: actual_size(args[1]),
    **dict.fromkeys((f"{order}_{kind}" for order in _ORDERS for kind in ("string", "bytes")), _shorter),
    "not_equals": _shorter,
    **dict.fromkeys(("add_string", "add_bytes"), _longer),
    **dict.fromkeys(("matches", "matches_string"), _match),
    "contains_string": _contains,
}  # fmt: skip


def rule(function: str, overload_id: str) -> int | Rule:
    """How to price a call; overload_id is "" when the checker could not choose one."""
    if overload_id in _BY_OVERLOAD:
        return _BY_OVERLOAD[overload_id]
    if overload_id.startswith("list_"):
        if overload_id.endswith("_sort"):
            return _self_compare(0)
        if overload_id.endswith("_sortByAssociatedKeys"):
            return _self_compare(1)
    if function == "check":
        return AUTHORIZATION_CHECK
    if function in UNIT_PRICE or (function == "ip" and overload_id == "cidr_ip"):
        return 1
    if function == "ip":
        return _scan(0, _STRING)
    found = _BY_FUNCTION.get(function) or _STANDARD.get(overload_id)
    return 1 if found is None else found


# Calls whose work may be far more than linear: their price is known before they run, so it is taken first.
_UPFRONT: Final = frozenset(
    {"list_distinct", "list_sets_contains_list", "list_sets_intersects_list", "list_sets_equivalent_list"}
)


def upfront(overload_id: str) -> bool:
    return overload_id in _UPFRONT or overload_id.endswith(("_sort", "_sortByAssociatedKeys"))
