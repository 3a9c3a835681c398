"""Assignability between types with type parameters: the algebra of the checker.

Parameters are bound in a `Bindings` as the checker learns about them; a test that fails leaves no trace.
"""

from __future__ import annotations

from collections.abc import Sequence

from drakit.cel import types as t
from drakit.cel.types import Type

__all__ = ["Bindings", "is_dyn_or_error", "most_general"]

_LEGACY_NULLABLE = frozenset({"opaque", "struct", "any", "duration", "timestamp"})
_SCALARS = frozenset({"bool", "bytes", "double", "int", "string", "uint", "any", "duration", "timestamp", "struct"})


def is_dyn_or_error(typ: Type) -> bool:
    return typ.kind in ("dyn", "any", "error")


def _less_specific(a: Type, b: Type) -> bool:
    """`a` is the same as `b`, or says less."""
    if a.kind in ("dyn", "any", "param"):
        return True
    if b.kind in ("dyn", "any", "param") or a.kind != b.kind:
        return False
    if a.kind in ("opaque", "list", "map"):
        if a.name != b.name or len(a.params) != len(b.params):
            return False
        return all(_less_specific(p, q) for p, q in zip(a.params, b.params, strict=True))
    if a.kind == "type":
        return True
    return a.same(b)


def most_general(a: Type, b: Type) -> Type:
    return a if _less_specific(a, b) else b


class Bindings:
    """What is known about type parameters so far."""

    def __init__(self) -> None:
        self._bound: dict[str, Type] = {}
        self._trail: list[tuple[str, Type | None]] = []

    def bind(self, name: str, typ: Type) -> None:
        self._trail.append((name, self._bound.get(name)))
        self._bound[name] = typ

    def assignable(self, a: Type, b: Type) -> bool:
        """Whether `b` may stand for `a`, binding parameters of both."""
        return self.assignable_all((a,), (b,))

    def assignable_all(self, left: Sequence[Type], right: Sequence[Type]) -> bool:
        mark = len(self._trail)
        if self._all(left, right):
            return True
        while len(self._trail) > mark:
            name, before = self._trail.pop()
            if before is None:
                del self._bound[name]
            else:
                self._bound[name] = before
        return False

    def _all(self, left: Sequence[Type], right: Sequence[Type]) -> bool:
        return len(left) == len(right) and all(self._assignable(a, b) for a, b in zip(left, right, strict=True))

    def _assignable(self, a: Type, b: Type) -> bool:
        if b.kind == "param":
            valid, bound = self._substitution(a, b)
            if valid:
                return True
            if bound:
                return False
        if a.kind == "param":
            return self._substitution(b, a)[0]
        if is_dyn_or_error(a) or is_dyn_or_error(b):
            return True
        if a.kind == "null":
            return b.kind in _LEGACY_NULLABLE or b.accepts(t.NULL)
        if b.kind == "null":
            return a.kind in _LEGACY_NULLABLE or a.accepts(t.NULL)
        if a.kind in _SCALARS:
            return b.accepts(a)
        if a.kind == "type":
            return b.kind == "type"
        if a.kind in ("opaque", "list", "map"):
            return a.kind == b.kind and a.name == b.name and self._all(a.params, b.params)
        return False

    def _substitution(self, typ: Type, param: Type) -> tuple[bool, bool]:
        """Can the parameter be `typ`? Returns that, and whether it was bound before."""
        if typ.kind == "param" and typ.name == param.name:
            return True, True
        bound = self._bound.get(param.name)
        if bound is not None:
            if typ.kind == bound.kind and typ.same(bound):
                return True, True
            if self._assignable(typ, bound):
                wider = most_general(typ, bound)
                if self._free_of(param, wider):
                    self.bind(param.name, wider)
                return True, True
            return False, True
        if self._free_of(param, typ):
            self.bind(param.name, typ)
            return True, False
        return False, False

    def _free_of(self, param: Type, within: Type) -> bool:
        if within.kind == "param":
            if within.name == param.name:
                return False
            bound = self._bound.get(within.name)
            return bound is None or self._free_of(param, bound)
        return all(self._free_of(param, inner) for inner in within.params)

    def resolve(self, typ: Type, to_dyn: bool = False) -> Type:
        """The type with everything known filled in; what stays unknown becomes dyn when asked."""
        if typ.kind == "param":
            bound = self._bound.get(typ.name)
            if bound is not None:
                return self.resolve(bound, to_dyn)
            return t.DYN if to_dyn else typ
        if not typ.params:
            return typ
        params = tuple(self.resolve(param, to_dyn) for param in typ.params)
        if all(new is old for new, old in zip(params, typ.params, strict=True)):
            return typ
        return Type(typ.kind, typ.name, params)
