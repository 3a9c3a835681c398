"""Function declarations: names, overloads, and how a call finds its implementation at run time.

A library is a list of `Function`s, written as data. cel-go binds implementations in two ways, which show in
error texts and in what a failed argument costs, so both exist here: one `singleton` for all overloads of a
name, chosen by the first argument's trait, or one implementation per overload, guarded by the argument types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from drakit.cel import types as t
from drakit.cel.types import Type, named
from drakit.cel.values import Duration, Fault, Timestamp, UInt, no_overload, type_name

__all__ = [
    "CLASSES",
    "KNOWN_TYPES",
    "Binding",
    "Function",
    "Overload",
    "Singleton",
    "Trait",
    "accepts_value",
    "function",
    "merge",
    "overload",
]

Trait = Callable[[Any], bool]
_RECEIVERS = frozenset({"string", "google.protobuf.Timestamp", "google.protobuf.Duration"})


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature. `impl` takes the arguments (the target first) and returns a value or raises Fault."""

    id: str
    args: tuple[Type, ...]
    result: Type
    member: bool = False
    impl: Callable[..., Any] | None = None
    variadic: bool = False  # bound as a function of any number of arguments, although it has one or two
    strict: bool = True
    type_params: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        found: dict[str, None] = {}
        stack = [self.result, *self.args]
        while stack:
            typ = stack.pop()
            if typ.kind == "param":
                found[typ.name] = None
            stack.extend(typ.params)
        object.__setattr__(self, "type_params", tuple(found))


@dataclass(frozen=True, slots=True)
class Singleton:
    """One implementation for every overload of a function; `trait` says which first arguments it takes."""

    impl: Callable[..., Any]
    trait: Trait | None = None


@dataclass(frozen=True, slots=True)
class Binding:
    """What a call runs. `early` says that evaluation stops at the first argument that failed."""

    call: Callable[..., Any]
    early: bool
    strict: bool = True


@dataclass(frozen=True)
class Function:
    name: str
    overloads: tuple[Overload, ...]
    singleton: Singleton | None = None
    guarded: bool = True
    by_id: dict[str, Overload] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.by_id.update({item.id: item for item in self.overloads})

    def binding(self, overload_id: str, arity: int) -> Binding | None:
        """The implementation of one overload, or of the whole function when the checker could not choose."""
        if self.singleton is not None:
            return Binding(_traited(self.name, self.singleton), early=arity > 2)
        bound = [item for item in self.overloads if item.impl is not None]
        if not bound:
            return None
        chosen = self.by_id.get(overload_id)
        if chosen is None and len(bound) == 1:
            chosen = bound[0]
        if chosen is not None and chosen.impl is not None:
            early = arity > 2 or chosen.variadic
            return Binding(_guarded(self.name, chosen, self.guarded), early, chosen.strict)
        return Binding(_dispatch(self.name, bound, self.guarded), early=True, strict=all(item.strict for item in bound))


def _traited(name: str, singleton: Singleton) -> Callable[..., Any]:
    impl, trait = singleton.impl, singleton.trait
    if trait is None:
        return impl

    def call(first: Any, *rest: Any) -> Any:
        if trait(first):
            return impl(first, *rest)
        if type_name(first) in _RECEIVERS:
            raise no_overload()
        raise Fault(f"no such overload: {name}")

    return call


def _guarded(name: str, item: Overload, guarded: bool) -> Callable[..., Any]:
    impl = item.impl
    assert impl is not None
    if not guarded or not item.strict:
        return impl
    params = item.args
    if all(param.kind in ("dyn", "any", "param") for param in params):
        return impl
    classes = tuple(_class_of(param) for param in params)
    if None not in classes:
        return _by_class(name, {classes: impl})

    def call(*args: Any) -> Any:
        for param, value in zip(params, args, strict=False):
            if not accepts_value(param, value):
                raise Fault(_mismatch(name, args))
        return impl(*args)

    return call


def _by_class(name: str, table: dict[tuple[type | None, ...], Callable[..., Any]]) -> Callable[..., Any]:
    """Dispatch where every parameter's type is one Python class."""
    if len(table) == 1:
        ((classes, only),) = table.items()
        if len(classes) == 1:
            return _one_class(name, classes[0], only)
        if len(classes) == 2:
            return _two_classes(name, classes[0], classes[1], only)

    def call(*args: Any) -> Any:
        impl = table.get(tuple([value.__class__ for value in args]))
        if impl is None:
            raise Fault(_mismatch(name, args))
        return impl(*args)

    return call


def _one_class(name: str, kind: type | None, impl: Callable[..., Any]) -> Callable[..., Any]:
    def call(value: Any) -> Any:
        if value.__class__ is kind:
            return impl(value)
        raise Fault(_mismatch(name, (value,)))

    return call


def _two_classes(name: str, first: type | None, second: type | None, impl: Callable[..., Any]) -> Callable[..., Any]:
    def call(a: Any, b: Any) -> Any:
        if a.__class__ is first and b.__class__ is second:
            return impl(a, b)
        raise Fault(_mismatch(name, (a, b)))

    return call


_CLASSES: dict[str, type] = {
    "bool": bool, "int": int, "uint": UInt, "double": float, "string": str, "bytes": bytes, "duration": Duration, "timestamp": Timestamp,
}  # fmt: skip


# Python classes of the values of named types; the libraries add theirs.
CLASSES: dict[str, type] = {}


def _class_of(param: Type) -> type | None:
    found = _CLASSES.get(param.kind)
    return found if found is not None else CLASSES.get(param.name)


def _dispatch(name: str, overloads: Sequence[Overload], guarded: bool) -> Callable[..., Any]:
    if guarded:
        table = {tuple(_class_of(param) for param in item.args): item.impl for item in reversed(overloads)}
        if not any(None in classes for classes in table):
            return _by_class(name, table)  # type: ignore[arg-type]  # only overloads with an implementation come here

    def call(*args: Any) -> Any:
        for item in overloads:
            if len(item.args) == len(args) and (
                not guarded or all(accepts_value(param, value) for param, value in zip(item.args, args, strict=True))
            ):
                assert item.impl is not None
                return item.impl(*args)
        raise Fault(_mismatch(name, args))

    return call


def _mismatch(name: str, args: Sequence[Any]) -> str:
    return f"no such overload: {name}({', '.join(type_name(value) for value in args)})"


def accepts_value(param: Type, value: Any) -> bool:
    """The run-time check of an argument: its type's name, and the first element of a list or map."""
    if param.kind in ("dyn", "any", "param"):
        return True
    if param.name != type_name(value):
        return param.nullable and value is None
    if param.kind == "list":
        return not value or accepts_value(param.params[0], value[0])
    if param.kind == "map" and value:
        from drakit.cel.values import keys

        key = next(iter(keys(value)))
        return accepts_value(param.params[0], key) and accepts_value(param.params[1], next(iter(value.values())))
    return True


def overload(id: str, signature: str, impl: Callable[..., Any] | None = None, **options: Any) -> Overload:
    """An overload from its signature: `string.(int) -> string` is a member, `(string) -> int` is not."""
    left, _, result = signature.partition("->")
    left = left.strip()
    member = not left.startswith("(")
    target, _, rest = left.partition("(") if not member else _split_member(left)
    texts = ([target] if member else []) + _arguments(rest.rstrip()[:-1])
    args = tuple(named(text, KNOWN_TYPES) for text in texts)
    return Overload(id, args, named(result, KNOWN_TYPES), member, impl, **options)


def _split_member(left: str) -> tuple[str, str, str]:
    depth = 0
    for i, ch in enumerate(left):
        depth += (ch == "(") - (ch == ")")
        if ch == "." and depth == 0 and left[i + 1] == "(":
            return left[:i], ".", left[i + 2 :]
    raise ValueError(left)


def _arguments(text: str) -> list[str]:
    parts: list[str] = []
    depth, start = 0, 0
    for i, ch in enumerate(text):
        depth += (ch == "(") - (ch == ")")
        if ch == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    if text[start:].strip():
        parts.append(text[start:])
    return parts


def function(name: str, *overloads: Overload, singleton: Singleton | None = None, guarded: bool = True) -> Function:
    return Function(name, tuple(overloads), singleton, guarded)


def merge(functions: Iterable[Function]) -> dict[str, Function]:
    """By name; overloads that several libraries give to one name are joined in order."""
    table: dict[str, Function] = {}
    for item in functions:
        known = table.get(item.name)
        if known is None:
            table[item.name] = item
            continue
        fresh = tuple(o for o in item.overloads if o.id not in known.by_id)
        table[item.name] = Function(
            item.name, known.overloads + fresh, known.singleton or item.singleton, known.guarded and item.guarded
        )
    return table


# Types that signatures may name besides the language's own.
KNOWN_TYPES: list[Type] = [
    t.opaque("net.IP"),
    t.opaque("net.CIDR"),
    t.struct("kubernetes.Quantity"),
    t.struct("kubernetes.Semver"),
    t.struct("kubernetes.URL"),
    t.struct("kubernetes.NamedFormat"),
]
