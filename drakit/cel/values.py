"""The values of the language as Python objects, and the operations every phase needs on them.

    null None · bool bool · int int · uint UInt · double float · string str · bytes bytes · list list · map dict
    duration Duration · timestamp Timestamp · type TypeValue · optional Optional · others: classes with `cel_type`

Python says True == 1 == 1.0 and hashes them alike; CEL does not. Such keys therefore enter maps as `Key`s
(`map_key`), and `equal` looks at classes before values. UInt is an int, which gives 1 == 1u for free.
Operations raise `Fault` with cel-go's text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

__all__ = [
    "EMPTY_MAP",
    "INT_MAX",
    "INT_MIN",
    "MAX_ITEMS",
    "MAX_TEXT",
    "METER",
    "NONE",
    "UINT_MAX",
    "DefaultMap",
    "Duration",
    "Fault",
    "Growing",
    "GrowingMap",
    "Key",
    "Optional",
    "Timestamp",
    "TypeValue",
    "UInt",
    "compare",
    "contains",
    "equal",
    "equality",
    "find",
    "go_type",
    "is_zero",
    "keys",
    "map_key",
    "member_key",
    "no_overload",
    "refusing_equality",
    "show",
    "size",
    "type_name",
]  # fmt: skip

# Bounds of ours, beyond which cel-go would exhaust memory: a text longer than this costs more than any limit allows.
MAX_TEXT: Final = 10_000_000
MAX_ITEMS: Final = 5_000_000
# Walking through values that share parts can take exponential time at no cost; this many steps are allowed.
MAX_STEPS: Final = 1_000_000

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1


class Fault(Exception):
    """An operation failed; the text is what the user sees."""


class TooMuchWork(Exception):
    """An operation met values too large to walk through."""


class _Meter:
    """Counts the steps of walks through values, for all evaluations; `Program.run` winds it up."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_STEPS

    def rewind(self) -> None:
        self.left = MAX_STEPS

    def spend(self, steps: int) -> None:
        self.left -= steps + 1
        if self.left < 0:
            raise TooMuchWork("operation interrupted: values too large")


METER: Final = _Meter()


def no_overload() -> Fault:
    return Fault("no such overload")


class UInt(int):
    """An unsigned integer; arithmetic on it is done by `operators`, which checks the range."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{int(self)}u"


class Duration:
    """A span of time in nanoseconds (64 bits)."""

    __slots__ = ("nanos",)
    cel_type: ClassVar[str] = "google.protobuf.Duration"

    def __init__(self, nanos: int) -> None:
        self.nanos = nanos

    def __eq__(self, other: object) -> bool:
        return other.__class__ is Duration and other.nanos == self.nanos

    def __hash__(self) -> int:
        return hash(("duration", self.nanos))

    def __repr__(self) -> str:
        return f"Duration({self.nanos})"


class Timestamp:
    """An instant: nanoseconds since 1970 (UTC). `offset` is the zone it was written with, used only to print it."""

    __slots__ = ("nanos", "offset")
    cel_type: ClassVar[str] = "google.protobuf.Timestamp"

    def __init__(self, nanos: int, offset: int = 0) -> None:
        self.nanos = nanos
        self.offset = offset

    def __eq__(self, other: object) -> bool:
        return other.__class__ is Timestamp and other.nanos == self.nanos

    def __hash__(self) -> int:
        return hash(("timestamp", self.nanos))

    def __repr__(self) -> str:
        return f"Timestamp({self.nanos})"


class TypeValue:
    """A type used as a value: `type(1)`, `int`."""

    __slots__ = ("name",)
    cel_type: ClassVar[str] = "type"

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return other.__class__ is TypeValue and other.name == self.name

    def __hash__(self) -> int:
        return hash(("type", self.name))

    def __repr__(self) -> str:
        return f"TypeValue({self.name!r})"


class Optional:
    """`optional.of(value)`; the one without a value is `NONE`."""

    __slots__ = ("value",)
    cel_type: ClassVar[str] = "optional_type"

    def __init__(self, value: Any) -> None:
        self.value = value

    def get(self) -> Any:
        if self is NONE:
            raise Fault("optional.none() dereference")
        return self.value

    def cel_equal(self, other: Any) -> bool | None:
        if other.__class__ is not Optional:
            return False
        if self is NONE or other is NONE:
            return self is other
        return equality(self.value, other.value, False)

    def __repr__(self) -> str:
        return "optional.none()" if self is NONE else f"optional({self.value!r})"


NONE: Final = Optional(None)


class Key:
    """A map key of a type that Python would confuse with int (bool, uint, double), or that has no hash in Python."""

    __slots__ = ("mark", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        kind = value.__class__
        self.mark: tuple[Any, Any] = (kind, value) if kind in _MARKED else (None, id(value))

    def __eq__(self, other: object) -> bool:
        return other.__class__ is Key and other.mark == self.mark

    def __hash__(self) -> int:
        return hash(self.mark)


_MARKED: Final = frozenset({bool, UInt, float})
_TRUE: Final = Key(True)
_FALSE: Final = Key(False)


class DefaultMap(dict[str, Any]):
    """A map in which every key is found: an unknown one has an empty map (a device's attribute domains)."""

    __slots__ = ()

    def __missing__(self, key: str) -> dict[str, Any]:
        return EMPTY_MAP


EMPTY_MAP: Final[dict[str, Any]] = {}
_MISSING: Final = object()


class Growing(list[Any]):
    """The list that a `map` or `filter` is building: adding to it does not copy it."""

    __slots__ = ()


class GrowingMap(dict[Any, Any]):
    """The map that a `transformMap` is building."""

    __slots__ = ()


def map_key(value: Any) -> Any:
    """The form in which `value` is a key of a dict."""
    kind = value.__class__
    if kind is str or kind is int:
        return value
    if kind is bool:
        return _TRUE if value else _FALSE
    return Key(value)


def member_key(value: Any) -> Any:
    """The form in which `value` is in a set of constants: numbers are the same there whatever their type."""
    if value.__class__ is bool:
        return _TRUE if value else _FALSE
    return value


def keys(mapping: dict[Any, Any]) -> Iterator[Any]:
    for key in mapping:
        yield key.value if key.__class__ is Key else key


def _lookup(mapping: dict[Any, Any], key: Any) -> Any:
    """The value or _MISSING. An int also finds a uint and the other way round; a whole double finds both."""
    kind = key.__class__
    value = dict.get(mapping, map_key(key), _MISSING)
    if value is not _MISSING or kind is str:
        return value
    if kind is int:
        return dict.get(mapping, Key(UInt(key)), _MISSING) if key >= 0 else _MISSING
    if kind is UInt:
        return dict.get(mapping, int(key), _MISSING)
    if kind is float and key == key and abs(key) < 2**64 and key == int(key):
        value = dict.get(mapping, int(key), _MISSING)
        return dict.get(mapping, Key(UInt(int(key))), _MISSING) if value is _MISSING and key >= 0 else value
    return _MISSING


def find(mapping: dict[Any, Any], key: Any) -> tuple[bool, Any]:
    """(found, value)."""
    value = _lookup(mapping, key)
    if value is not _MISSING:
        return True, value
    return (True, EMPTY_MAP) if mapping.__class__ is DefaultMap else (False, None)


def contains(container: Any, element: Any) -> bool:
    """`element in container`; faults for anything but lists and maps."""
    if container.__class__ is list:
        return any(equality(element, item, False) is True for item in container)
    if isinstance(container, dict):
        return _lookup(container, element) is not _MISSING
    raise no_overload()


_PLAIN: Final = frozenset({str, int, bytes, bool, float, UInt})
_NUMBERS: Final = frozenset({int, float, UInt})


def equality(a: Any, b: Any, nulls: bool = True) -> bool | None:
    """CEL's equality: across number types by value, otherwise only within a type. None stands for an error.

    Kubernetes' own types refuse to be compared with others, and cel-go takes such a refusal for "not False"
    inside lists and maps; both are kept. `nulls`: whether null is looked at first, as the operator does.
    """
    class_a, class_b = a.__class__, b.__class__
    if class_a is class_b and class_a in _PLAIN:
        return bool(a == b)
    if class_a in _NUMBERS and class_b in _NUMBERS:
        if class_a is float or class_b is float:
            return bool(float(a) == float(b))
        return bool(a == b)
    if nulls and (a is None or b is None):
        return a is b
    if class_a is list:
        if class_b is not list or len(a) != len(b):
            return False
        METER.spend(len(a))
        return all(equality(x, y) is not False for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        if not isinstance(b, dict) or len(a) != len(b):
            return False
        METER.spend(len(a))
        return all(_has_equal(b, key, value) for key, value in zip(keys(a), a.values(), strict=True))
    compare_to = getattr(a, "cel_equal", None)
    if compare_to is not None:
        result: bool | None = compare_to(b)
        return result
    return class_a is class_b and bool(a == b)


def refusing_equality(self: Any, other: object) -> bool:
    """The `__eq__` of Kubernetes' value types: in Python, too, comparing them with another type is an error."""
    result: bool | None = self.cel_equal(other)
    if result is None:
        raise no_overload()
    return result


def equal(a: Any, b: Any) -> bool:
    """`a == b`; faults when the types refuse to be compared."""
    kind = a.__class__
    if kind is b.__class__ and kind in _PLAIN:
        return bool(a == b)
    result = equality(a, b)
    if result is None:
        raise no_overload()
    return result


def _has_equal(mapping: dict[Any, Any], key: Any, value: Any) -> bool:
    other = _lookup(mapping, key)
    return other is not _MISSING and equality(value, other) is not False


def compare(a: Any, b: Any) -> int:
    """-1, 0 or 1 for `a` before, at or after `b`; faults where CEL knows no order."""
    class_a, class_b = a.__class__, b.__class__
    if class_a in _NUMBERS and class_b in _NUMBERS:
        if class_a is float or class_b is float:
            a, b = float(a), float(b)
            if a != a or b != b:
                raise Fault("NaN values cannot be ordered")
    elif class_a is not class_b:
        raise no_overload()
    elif class_a is Duration or class_a is Timestamp:
        a, b = a.nanos, b.nanos
    elif class_a is str:
        if a != b and not (a.isascii() and b.isascii()):
            a, b = a.encode("utf-8", "surrogatepass"), b.encode("utf-8", "surrogatepass")
    elif class_a not in (bytes, bool):
        raise no_overload()
    return int(a > b) - int(a < b)


def size(value: Any) -> int | None:
    """What `size()` says, or None for a value that has no size."""
    if isinstance(value, (str, bytes, list, dict)):
        return len(value)
    measure = getattr(value, "cel_size", None)
    return None if measure is None else int(measure())


_TYPE_NAMES: Final[dict[type, str]] = {
    type(None): "null_type", bool: "bool", int: "int", UInt: "uint", float: "double", str: "string", bytes: "bytes", list: "list",
    dict: "map", DefaultMap: "map",
}  # fmt: skip
_GO_NAMES: Final = {
    "null_type": "types.Null", "bool": "types.Bool", "int": "types.Int", "uint": "types.Uint", "double": "types.Double",
    "string": "types.String", "bytes": "types.Bytes", "list": "*types.baseList", "map": "*types.baseMap", "type": "*types.Type",
    "optional_type": "*types.Optional", "error": "*types.Err", Duration.cel_type: "types.Duration", Timestamp.cel_type: "types.Timestamp",
    "kubernetes.Quantity": "cel.Quantity", "kubernetes.Semver": "cel.Semver", "kubernetes.URL": "cel.URL", "net.IP": "cel.IP",
    "net.CIDR": "cel.CIDR", "kubernetes.NamedFormat": "*cel.Format",
}  # fmt: skip


def type_name(value: Any) -> str:
    """The name `type(value)` has."""
    name = _TYPE_NAMES.get(value.__class__)
    if name is not None:
        return name
    if isinstance(value, dict):
        return "map"
    return str(value.cel_type)


def go_type(value: Any) -> str:
    """What Go calls the value's type: some of cel-go's texts print it."""
    name = type_name(value)
    return ("*" if getattr(value, "boxed", False) else "") + _GO_NAMES.get(name, name)


def is_zero(value: Any) -> bool:
    """The zero value of its type, as `optional.ofNonZeroValue` understands it."""
    if value is None:
        return True
    if value.__class__ in _PLAIN or isinstance(value, (list, dict)):
        return not value
    if value.__class__ is Duration:
        return bool(value.nanos == 0)
    if value.__class__ is Timestamp:
        return bool(value.nanos == -62135596800 * 10**9)
    return False


def show(value: Any) -> str:
    """Go's %v of the value, as it stands in some error texts."""
    from drakit.cel import text

    return text.go_value(value)
