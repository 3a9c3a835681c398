"""matchAttribute and distinctAttribute as sets of elements.

A device brings a set of elements to a constraint: one for a scalar, several for a list attribute. Match needs one
element that all devices share; distinct needs sets that do not meet. Scalars are the one-element case, so the search
and its bounds treat both modes alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lightkube.models.resource_v1 import DeviceConstraint

__all__ = ["UNKNOWN", "Constraint", "Elements", "elements_of"]

Elements = frozenset[tuple[str, Any]]

# Scalar mode meets a value that is no scalar: it may be the first of a match, but equals nothing.
UNKNOWN: Final[Elements] = frozenset()

_SCALARS = ("string", "int", "bool", "version")
_LISTS = (("ints", "int"), ("bools", "bool"), ("strings", "string"), ("versions", "version"))


def elements_of(attribute: Mapping[str, Any] | None, *, lists: bool) -> Elements | None:
    """None rejects the device."""
    if attribute is None:
        return None
    if lists:
        for name, kind in _LISTS:
            if attribute.get(name):
                return frozenset((kind, value) for value in attribute[name])
    for kind in _SCALARS:
        value = attribute.get(kind)
        if value is not None:
            return frozenset(((kind, value),))
    return None if lists else UNKNOWN


class Constraint:
    """One constraint of one claim, with the state of the devices chosen so far."""

    __slots__ = ("attribute", "index", "is_match", "lists", "requests", "stack")

    def __init__(self, constraint: DeviceConstraint, index: int, *, lists: bool) -> None:
        self.is_match = constraint.matchAttribute is not None
        name = constraint.matchAttribute if self.is_match else constraint.distinctAttribute
        assert name is not None
        self.attribute: str = name
        self.requests = frozenset(constraint.requests or ())
        self.index = index
        self.lists = lists
        # match: the elements still shared; distinct: all elements taken. One entry per device; empty: no device yet.
        self.stack: list[Elements] = []

    def applies(self, request: str, subrequest: str | None) -> bool:
        if not self.requests or request in self.requests:
            return True
        return subrequest is not None and f"{request}/{subrequest}" in self.requests

    def add(self, elements: Elements) -> bool:
        stack = self.stack
        if not stack:
            stack.append(elements)
            return True
        state = stack[-1]
        if self.is_match:
            shared = state & elements
            if not shared:
                return False
            stack.append(shared)
            return True
        if elements is UNKNOWN or state & elements:
            # A value of unknown kind is refused as soon as there is another device to compare with.
            return False
        stack.append(state | elements)
        return True

    def remove(self) -> None:
        self.stack.pop()

    def __str__(self) -> str:
        return f"{'matchAttribute' if self.is_match else 'distinctAttribute'} {self.attribute}"
