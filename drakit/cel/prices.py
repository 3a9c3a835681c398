"""What calls cost at most: the prices of CEL's extensions and of Kubernetes' functions, by overload or by name.

A price is a cost and, where it is known, the size of the result. `kubernetes` follows apiserver/pkg/cel/library/cost.go.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Protocol

from drakit.cel.runtimecost import AUTHORIZATION_CHECK, TRAVERSING, UNIT_PRICE
from drakit.cel.sizes import LIST_BASE, MAX, ONE, REGEX, STRING, UNKNOWN, ZERO, Operand, Range
from drakit.cel.syntax import Literal

__all__ = ["Price", "extension", "kubernetes"]

_MAX_FORMAT: Final = 64
_MAX_FORMAT_REGEX: Final = 128


class Sizes(Protocol):
    """What a price may ask about its operands."""

    def operand_size(self, operand: Operand) -> Range: ...

    def declared(self, path: tuple[str, ...]) -> Range | None: ...


# -- the extensions' own prices -------------------------------------------------------------------------------

Price = tuple[Range, "Range | None"]


def _whole(operand: Operand, default: int) -> int:
    """The value of an integer literal."""
    if isinstance(operand.node, Literal) and operand.node.value.__class__ is int:
        return max(operand.node.value, 0)
    return default


def _allocating(size: Range, factor: float) -> Price:
    return size.scaled(factor).plus(ONE).plus(Range(LIST_BASE, LIST_BASE)), size


def extension(est: Sizes, overload_id: str, target: Operand | None, args: Sequence[Operand]) -> Price | None:
    if overload_id == "list_slice" and target is not None and len(args) == 2:
        length = _whole(args[1], est.operand_size(target).high) - _whole(args[0], 0) & MAX
        return _allocating(Range(length, length), 1)
    if overload_id == "lists_range":
        count = _whole(args[0], MAX)
        return _allocating(Range(count, count), 1)
    if overload_id == "list_reverse" and target is not None:
        return _allocating(est.operand_size(target), 1)
    if overload_id in ("list_flatten", "list_flatten_int") and target is not None:
        depth = _whole(args[0], MAX) if args else 1
        return _allocating(est.operand_size(target), float(depth))
    if overload_id == "list_distinct" and target is not None:
        size = est.operand_size(target)
        return _allocating(size.times(size), 2.0)
    if (
        overload_id.startswith("list_")
        and overload_id.endswith(("_sort", "_sortByAssociatedKeys"))
        and target is not None
    ):
        sorted_by = args[0] if overload_id.endswith("Keys") else target
        size = est.operand_size(sorted_by)
        factor = 2.0 + (STRING if overload_id.split("_")[1] in ("string", "bytes") else 0)
        return _allocating(size.times(size), factor)
    if overload_id.startswith("list_sets_") and len(args) == 2:
        factor = 2 if overload_id == "list_sets_equivalent_list" else 1
        product = est.operand_size(args[0]).times(est.operand_size(args[1]))
        return product.scaled(factor).plus(ONE), None
    return None


# -- Kubernetes' prices ---------------------------------------------------------------------------------------


def kubernetes(
    est: Sizes, function: str, overload_id: str, target: Operand | None, args: Sequence[Operand]
) -> Price | None:
    if function in UNIT_PRICE or overload_id == "cidr_ip":
        return ONE, None
    if function in TRAVERSING and target is not None:
        return _walk(est, function, target), None
    if function == "_==_" and len(args) == 2:
        return _same_type(args)
    priced = _PRICES.get(function)
    return None if priced is None else priced(est, overload_id, target, args)


def _walk(est: Sizes, function: str, target: Operand) -> Range:
    size = est.operand_size(target)
    if not target.type.params:
        return size.times(ONE) if function == "includes" else size.scaled(STRING)
    element = target.type.params[0]
    each = ONE
    if element.kind in ("string", "bytes"):
        path = (*target.path, "@items") if target.path else ()
        each = each.plus((est.declared(path) or UNKNOWN).scaled(STRING))
    return size.times(each)


def _same_type(args: Sequence[Operand]) -> Price | None:
    left, right = args[0].type, args[1].type
    if left.name != right.name:
        return None
    if left.kind == "opaque" and left.name in ("net.IP", "net.CIDR"):
        return ONE, None
    if left.name == "kubernetes.NamedFormat":
        return Range(1, _MAX_FORMAT).scaled(STRING), None
    if left.name == "kubernetes.URL":
        high = args[1].size.high if args[1].size is not None else 1
        return Range(1, high).scaled(STRING), None
    if left.kind == "struct" and (
        left.name in ("kubernetes.Quantity", "kubernetes.Semver") or "authorization" in left.name
    ):
        return ONE, None
    return None


def _scan_argument(est: Sizes, overload_id: str, target: Operand | None, args: Sequence[Operand]) -> Price | None:
    return (est.operand_size(args[0]).scaled(STRING), None) if args else None


def _scan_url(est: Sizes, overload_id: str, target: Operand | None, args: Sequence[Operand]) -> Price | None:
    size = est.operand_size(args[0])
    return size.scaled(STRING), size


def _transform(est: Sizes, overload_id: str, target: Operand | None, args: Sequence[Operand]) -> Price | None:
    if target is None:
        return None
    size = est.operand_size(target)
    return size.scaled(STRING), size


def _replace(est: Sizes, overload_id: str, target: Operand | None, args: Sequence[Operand]) -> Price | None:
    if target is None or len(args) < 2:
        return None
    size, old, new = est.operand_size(target), est.operand_size(args[0]), est.operand_size(args[1])
    kept_low = kept_high = 0
    if old.low == 0:
        count_high, kept_high = min(size.high + 1, MAX), size.high
    elif new.high <= old.low:
        count_high, kept_high = 0, size.high
    else:
        count_high = math.ceil(float(size.high) / float(old.low)) & MAX if size.high < MAX else MAX
    if old.high == 0:
        count_low, kept_low = min(size.low + 1, MAX), size.low
    elif old.high <= new.low:
        count_low, kept_low = 0, size.low
    else:
        count_low = math.ceil(float(size.low) / float(old.high))
    result = Range(count_low, count_high).times(new).plus(Range(kept_low, kept_high))
    return size.scaled(2 * STRING), result


def _split(est: Sizes, overload_id: str, target: Operand | None, args: Sequence[Operand]) -> Price | None:
    if target is None:
        return None
    size = est.operand_size(target)
    most = size.high
    if len(args) > 1 and isinstance(args[1].node, Literal) and args[1].node.value.__class__ is int:
        most = args[1].node.value & MAX
    return size.scaled(2 * STRING), Range(0, most)


def _join(est: Sizes, overload_id: str, target: Operand | None, args: Sequence[Operand]) -> Price | None:
    if target is None:
        return None
    count = est.operand_size(target)
    total = ZERO
    if target.type.params:
        path = (*target.path, "@items") if target.path else ()
        total = count.times(est.declared(path) or UNKNOWN)
    if args:
        between = Range(max(count.low - 1, 0), max(count.high - 1, 0))
        total = total.plus(est.operand_size(args[0]).times(between))
    return total.scaled(STRING), total


def _find(est: Sizes, overload_id: str, target: Operand | None, args: Sequence[Operand]) -> Price | None:
    if target is None or not args:
        return None
    size = est.operand_size(target)
    price = size.plus(ONE).scaled(STRING).times(est.operand_size(args[0]).scaled(REGEX))
    return price, Range(0, size.high)


def _canonical(est: Sizes, overload_id: str, target: Operand | None, args: Sequence[Operand]) -> Price | None:
    return est.operand_size(args[0]).scaled(2 * STRING), None


_ADDRESS: Final = Range(4, 16)


def _contains_ip(est: Sizes, overload_id: str, target: Operand | None, args: Sequence[Operand]) -> Price | None:
    price = _ADDRESS.plus(_ADDRESS).scaled(STRING)
    if overload_id == "cidr_contains_ip_string":
        price = price.plus(est.operand_size(args[0]).scaled(STRING))
    return price, None


def _contains_cidr(est: Sizes, overload_id: str, target: Operand | None, args: Sequence[Operand]) -> Price | None:
    price = _ADDRESS.plus(_ADDRESS).scaled(STRING).plus(_ADDRESS.scaled(STRING)).plus(ONE)
    if overload_id == "cidr_contains_cidr_string":
        price = price.plus(est.operand_size(args[0]).scaled(STRING))
    return price, None


def _validate(est: Sizes, overload_id: str, target: Operand | None, args: Sequence[Operand]) -> Price | None:
    return est.operand_size(args[0]).scaled(STRING).scaled(_MAX_FORMAT_REGEX * REGEX), None


def _selector(est: Sizes, overload_id: str, target: Operand | None, args: Sequence[Operand]) -> Price | None:
    size = est.operand_size(args[0])
    requirements = size.scaled(0.5).scaled(50.0)
    return Range(LIST_BASE, LIST_BASE).plus(size.scaled(STRING)).plus(requirements), None


def _authorize(est: Sizes, overload_id: str, target: Operand | None, args: Sequence[Operand]) -> Price | None:
    return Range(AUTHORIZATION_CHECK, AUTHORIZATION_CHECK), None


_PRICES: Final = {
    "check": _authorize,
    "fieldSelector": _selector,
    "labelSelector": _selector,
    "url": _scan_url,
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _transform),
    "replace": _replace,
    "split": _split,
    "join": _join,
    **dict.fromkeys(("find", "findAll"), _find),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "ip", "quantity", "isQuantity", "semver", "isSemver"), _scan_argument),
    "ip.isCanonical": _canonical,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _validate,
}
