"""Which devices a request may use: class and request selectors, evaluated once per distinct device shape.

A Selection is one (class selectors, request selectors) pair; its verdicts are shared by all nodes, pods and claims.
The CEL engine is reached only through this module.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from drakit.allocator.capacity import CapacityRule
from drakit.allocator.devices import Shape
from drakit.allocator.features import Features
from drakit.allocator.pools import Layout
from drakit.allocator.reads import Reads, projection, reads_of
from drakit.api.gates import FeatureGates
from drakit.api.quantity import Quantity
from drakit.cel import device as cel_device
from drakit.cel.errors import CelError

__all__ = ["Fault", "Selection", "Selections"]

_HINT = ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional fields"
_LIMIT = 512
_REMEMBERED = 1_000_000  # verdicts, about 100 MB


@dataclass(frozen=True, slots=True)
class Fault:
    """A selector that could not be evaluated: fatal once the search reaches such a device."""

    in_class: bool
    index: int
    compiles: bool
    text: str


class Selection:
    """One pair of selector lists and what it says about every shape and layout seen so far."""

    __slots__ = (
        "_compiled",
        "_gates",
        "_layouts",
        "_reads",
        "_sees_sharing",
        "_verdicts",
        "class_expressions",
        "expressions",
    )

    def __init__(self, class_expressions: tuple[str, ...], expressions: tuple[str, ...], features: Features) -> None:
        self.class_expressions = class_expressions
        self.expressions = expressions
        self._gates = _gates(features.ListTypeAttributes, features.ConsumableCapacity)
        self._sees_sharing = not features.oldest  # to which allowMultipleAllocations is always false
        self._compiled: list[tuple[bool, int, Any]] | None = None
        self._reads: Reads | None = None
        # By what the selectors can see of a device, or by the device's whole shape where that cannot be told.
        self._verdicts: dict[Hashable, bool | Fault] = {}
        self._layouts: dict[Layout, tuple[int, int]] = {}

    def masks(self, layout: Layout) -> tuple[int, int]:
        """(devices that match, devices on which a selector fails)."""
        found = self._layouts.get(layout)
        if found is None:
            matching = faulty = 0
            for position, shape in enumerate(layout.shapes):
                verdict = self.verdict(shape)
                if verdict is True:
                    matching |= 1 << position
                elif verdict is not False:
                    faulty |= 1 << position
            found = self._layouts[layout] = (matching, faulty)
        return found

    def verdict(self, shape: Shape) -> bool | Fault:
        programs = self._programs()
        seen: Hashable = None if self._reads is None else projection(shape, self._reads)
        key = shape if seen is None else seen
        found = self._verdicts.get(key)
        if found is None:
            found = self._verdicts[key] = self._evaluate(programs, shape)
        return found

    def _evaluate(self, programs: Sequence[tuple[bool, int, Any]], shape: Shape) -> bool | Fault:
        for in_class, index, selector in programs:
            if isinstance(selector, Fault):
                return selector
            try:
                if not selector.matches(activation(shape, self._sees_sharing)):
                    return False
            except CelError as error:
                return Fault(in_class, index, True, explain_runtime_error(str(error)))
        return True

    def _programs(self) -> list[tuple[bool, int, Any]]:
        if self._compiled is None:
            self._compiled = [(True, i, self._compile(True, i, text)) for i, text in enumerate(self.class_expressions)]
            self._compiled += [(False, i, self._compile(False, i, text)) for i, text in enumerate(self.expressions)]
            self._reads = self._all_reads()
        return self._compiled

    def _all_reads(self) -> Reads | None:
        reads: Reads = frozenset()
        for _, _, selector in self._compiled or ():
            found = reads_of(selector.program.checked.root) if not isinstance(selector, Fault) else frozenset()
            if found is None:
                return None
            reads |= found
        return reads

    def _compile(self, in_class: bool, index: int, expression: str) -> Any:
        try:
            return cel_device.compile_selector(expression, gates=self._gates)
        except CelError as error:
            return Fault(in_class, index, False, str(error))

    def selectors(self) -> list[tuple[bool, int, Any]]:
        """(is of the class, number, compiled selector or its Fault), in the order of evaluation."""
        return self._programs()

    def forget(self) -> None:
        self._verdicts.clear()
        self._layouts.clear()

    @property
    def size(self) -> int:
        return len(self._verdicts) + len(self._layouts)


class Selections:
    """All selections in use, and derived attributes: the caches that outlive a call."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, ...], tuple[str, ...], bool, bool, bool], Selection] = {}
        self._capacity: dict[tuple[tuple[tuple[str, str], ...], bool], CapacityRule] = {}
        self._derived_values: dict[tuple[str, bool, bool], dict[Shape, Any]] = {}

    def of(self, class_expressions: tuple[str, ...], expressions: tuple[str, ...], features: Features) -> Selection:
        lists, consumable, oldest = features.ListTypeAttributes, features.ConsumableCapacity, features.oldest
        key = (class_expressions, expressions, lists, consumable, oldest)
        found = self._known.pop(key, None)
        if found is None:
            _make_room(self._known)
            found = Selection(class_expressions, expressions, features)
        self._known[key] = found  # most recently used last
        return found

    def capacity(self, requests: Mapping[str, Any], *, fractional: bool) -> CapacityRule:
        key = (tuple(sorted((name, str(value)) for name, value in requests.items())), fractional)
        found = self._capacity.pop(key, None)
        if found is None:
            _make_room(self._capacity)
            found = CapacityRule({name: Quantity.parse(value) for name, value in key[0]}, fractional)
        self._capacity[key] = found
        return found

    def derived(self, expression: str, shape: Shape, *, lists: bool, consumable: bool) -> Any:
        """A plain DeviceAttribute, or DerivedFault."""
        values = self._derived_values.setdefault((expression, lists, consumable), {})
        if shape not in values:
            if len(self._derived_values) > _LIMIT:
                del self._derived_values[next(iter(self._derived_values))]
            values[shape] = self._derive(expression, shape, _gates(lists, consumable))
        return values[shape]

    def _derive(self, expression: str, shape: Shape, gates: FeatureGates) -> Any:
        try:
            program = cel_device.compile_derived(expression, gates=gates)
        except CelError as error:
            return DerivedFault(False, str(error))
        try:
            return program.value(activation(shape))
        except CelError as error:
            return DerivedFault(True, str(error))

    def forget(self) -> None:
        """Devices have gone: start afresh rather than keep verdicts on shapes that nobody has."""
        for selection in self._known.values():
            selection.forget()
        for rule in self._capacity.values():
            rule.forget()
        self._derived_values.clear()


def _make_room(known: dict[Any, Any]) -> None:
    """Drop the least recently used: too many, or too much remembered by all of them together."""
    size = sum(entry.size for entry in known.values())
    while known and (len(known) >= _LIMIT or size > _REMEMBERED):
        size -= known.pop(next(iter(known))).size


@dataclass(frozen=True, slots=True)
class DerivedFault:
    compiles: bool
    text: str


@lru_cache(maxsize=4096)
def activation(shape: Shape, sees_sharing: bool = True) -> Any:
    """What expressions see of the device. Bounded: devices with serial numbers are all different, and these are large."""
    plain = shape.plain()
    if not sees_sharing:
        plain.pop("allowMultipleAllocations", None)
    return cel_device.DeviceInput(shape.driver, plain)


def explain_runtime_error(text: str) -> str:
    return text + _HINT if "no such key:" in text else text


@lru_cache
def _gates(lists: bool, consumable: bool) -> FeatureGates:
    """The gates that change what expressions can say."""
    return FeatureGates.parse(
        f"DRAListTypeAttributes={str(lists).lower()},DRAConsumableCapacity={str(consumable).lower()}"
    )
