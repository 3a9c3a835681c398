"""Which attributes and capacities of a device an expression can look at.

Real devices carry serial numbers, so hardly two are alike; but a selector on the model sees the same in all of them.
Knowing what it reads, its verdict is shared by all devices that agree in that. Anything not understood reads everything.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from drakit.allocator.devices import Shape
from drakit.api.quantity import Quantity, QuantityError
from drakit.cel.library.kubernetes import parse_semver
from drakit.cel.syntax import Call, Comprehension, Ident, Literal, Node, Select, children
from drakit.cel.values import Fault

__all__ = ["Reads", "projection", "reads_of"]

# (attributes or capacity, domain or None for the driver's own, id or None for the whole domain)
Reads = frozenset[tuple[str, str | None, str | None]]

_MAPS = ("attributes", "capacity")
_SCALARS = ("driver", "allowMultipleAllocations")
_ACCESS = ("_[_]", "_[?_]", "_?._")


def reads_of(root: Node) -> Reads | None:
    """None: cannot be told, everything may matter."""
    try:
        return frozenset(_walk(root, frozenset()))
    except _Everything:
        return None


class _Everything(Exception):
    pass


def _walk(node: Node, variables: frozenset[str]) -> Iterator[tuple[str, str | None, str | None]]:
    read = None if "device" in variables else _read(node)
    if read is not None:
        yield read
        return
    if isinstance(node, Ident):
        if node.name not in variables:
            raise _Everything
        return
    if isinstance(node, Select) and _is_device(node.operand) and node.field in _SCALARS and "device" not in variables:
        return
    if isinstance(node, Comprehension):
        names = (node.iter_var, node.iter_var2, node.accu_var)
        variables = variables | {name for name in names if name}
    for child in children(node):
        yield from _walk(child, variables)


def _read(node: Node) -> tuple[str, str | None, str | None] | None:
    """The smallest part of the device that this expression is, if it is one."""
    if isinstance(node, Select):
        domain = _domain(node.operand)
        return (*domain, node.field) if domain is not None else None
    if isinstance(node, Call) and node.target is None and len(node.args) == 2:
        first, second = node.args
        if node.function == "@in" and isinstance(first, Literal) and isinstance(first.value, str):
            domain = _domain(second)
            if domain is not None:
                return (*domain, first.value)
            if isinstance(second, Select) and _is_device(second.operand) and second.field in _MAPS:
                return (second.field, first.value, None)
        if node.function in _ACCESS and isinstance(second, Literal) and isinstance(second.value, str):
            domain = _domain(first)
            if domain is not None:
                return (*domain, second.value)
    domain = _domain(node)
    return (*domain, None) if domain is not None else None


def _domain(node: Node) -> tuple[str, str | None] | None:
    """`device.attributes["domain"]`, and `device.capacity[device.driver]`."""
    if not isinstance(node, Call) or node.function != "_[_]" or len(node.args) != 2:
        return None
    table, key = node.args
    if not (isinstance(table, Select) and _is_device(table.operand) and table.field in _MAPS and not table.test_only):
        return None
    if isinstance(key, Literal) and isinstance(key.value, str):
        return table.field, key.value
    if isinstance(key, Select) and _is_device(key.operand) and key.field == "driver":
        return table.field, None
    return None


def _is_device(node: Node) -> bool:
    return isinstance(node, Ident) and node.name == "device"


# What a shape shows to such an expression


def projection(shape: Shape, reads: Reads) -> Hashable | None:
    """Equal for shapes that the expression cannot tell apart; None when this shape must be judged by itself."""
    if not _is_regular(shape):
        return None
    parts: list[Hashable] = [shape.driver, shape.allow_multiple]
    for table, domain, identifier in reads:
        values = shape.attributes if table == "attributes" else shape.plain_capacity
        domain = shape.driver if domain is None else domain
        if identifier is None:
            parts.append(
                tuple(sorted((name, _frozen(value)) for name, value in values.items() if _in(name, domain, shape)))
            )
            continue
        value = values.get(f"{domain}/{identifier}")
        if domain == shape.driver:
            own = values.get(identifier)
            if own is not None and value is not None:
                return None  # named twice: which one counts depends on their order
            value = own if value is None else value
        parts.append(None if value is None else _frozen(value))
    return tuple(parts)


def _in(name: str, domain: str, shape: Shape) -> bool:
    before, slash, _ = name.partition("/")
    return (before if slash else shape.driver) == domain


def _frozen(value: Mapping[str, Any]) -> Hashable:
    return tuple((key, _hashable(item)) for key, item in sorted(value.items()))


def _hashable(item: Any) -> Hashable:
    if isinstance(item, list):
        return tuple(item)
    return _frozen(item) if isinstance(item, dict) else item


def _is_regular(shape: Shape) -> bool:
    """Whether every attribute and capacity parses: one that does not makes all expressions fail on the device."""
    if shape.regular is None:
        shape.regular = all(map(_good_attribute, shape.attributes.values())) and all(
            _good_quantity(str(capacity.get("value", "0"))) for capacity in shape.plain_capacity.values()
        )
    return shape.regular


def _good_attribute(attribute: Mapping[str, Any]) -> bool:
    if len(attribute) != 1:
        return False
    ((field, value),) = attribute.items()
    if field == "version":
        return _good_version(value)
    return field in ("string", "int", "bool")  # lists are judged by themselves


@lru_cache(maxsize=4096)
def _good_version(text: str) -> bool:
    try:
        parse_semver(text)
    except Fault:
        return False
    return True


@lru_cache(maxsize=4096)
def _good_quantity(text: str) -> bool:
    try:
        Quantity.parse(text)
    except QuantityError:
        return False
    return True
