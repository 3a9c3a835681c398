"""Which devices a request may use: class and request selectors, evaluated once per distinct device shape.

A Selection is one (class selectors, request selectors) pair; its verdicts are shared by all nodes, pods and claims.
The CEL engine is reached only through this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from drakit.allocator.capacity import CapacityRule
from drakit.allocator.devices import Shape
from drakit.allocator.pools import Layout
from drakit.api.gates import FeatureGates
from drakit.api.quantity import Quantity
from drakit.cel import device as cel_device
from drakit.cel.errors import CelError

__all__ = ["Fault", "Selection", "Selections"]

_HINT = ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional fields"
_LIMIT = 512


@dataclass(frozen=True, slots=True)
class Fault:
    """A selector that could not be evaluated: fatal once the search reaches such a device."""

    in_class: bool
    index: int
    compiles: bool
    text: str


class Selection:
    """One pair of selector lists and what it says about every shape and layout seen so far."""

    __slots__ = ("_compiled", "_gates", "_layouts", "_verdicts", "class_expressions", "expressions")

    def __init__(self, class_expressions: tuple[str, ...], expressions: tuple[str, ...], gates: FeatureGates) -> None:
        self.class_expressions = class_expressions
        self.expressions = expressions
        self._gates = gates
        self._compiled: list[tuple[bool, int, Any]] | None = None
        self._verdicts: dict[Shape, bool | Fault] = {}
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
        found = self._verdicts.get(shape)
        if found is None:
            found = self._verdicts[shape] = self._evaluate(shape)
        return found

    def _evaluate(self, shape: Shape) -> bool | Fault:
        for in_class, index, selector in self._programs():
            if isinstance(selector, Fault):
                return selector
            try:
                if not selector.matches(activation(shape)):
                    return False
            except CelError as error:
                return Fault(in_class, index, True, explain_runtime_error(str(error)))
        return True

    def _programs(self) -> list[tuple[bool, int, Any]]:
        if self._compiled is None:
            self._compiled = [(True, i, self._compile(True, i, text)) for i, text in enumerate(self.class_expressions)]
            self._compiled += [(False, i, self._compile(False, i, text)) for i, text in enumerate(self.expressions)]
        return self._compiled

    def _compile(self, in_class: bool, index: int, expression: str) -> Any:
        try:
            return cel_device.compile_selector(expression, gates=self._gates)
        except CelError as error:
            return Fault(in_class, index, False, str(error))

    def selectors(self) -> list[tuple[bool, int, Any]]:
        """(is of the class, number, compiled selector or its Fault), in the order of evaluation."""
        return self._programs()

    def forget_unused(self, shapes: set[Shape]) -> None:
        self._verdicts = {shape: verdict for shape, verdict in self._verdicts.items() if shape in shapes}
        self._layouts.clear()


class Selections:
    """All selections in use, and derived attributes: the caches that outlive a call."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, ...], tuple[str, ...], bool, bool], Selection] = {}
        self._capacity: dict[tuple[tuple[tuple[str, str], ...], bool], CapacityRule] = {}
        self._derived_values: dict[tuple[str, bool, bool], dict[Shape, Any]] = {}

    def of(
        self, class_expressions: tuple[str, ...], expressions: tuple[str, ...], *, lists: bool, consumable: bool
    ) -> Selection:
        key = (class_expressions, expressions, lists, consumable)
        found = self._known.pop(key, None)
        if found is None:
            while len(self._known) >= _LIMIT:
                del self._known[next(iter(self._known))]
            found = Selection(class_expressions, expressions, _gates(lists, consumable))
        self._known[key] = found  # most recently used last
        return found

    def capacity(self, requests: Mapping[str, Any], *, fractional: bool) -> CapacityRule:
        key = (tuple(sorted((name, str(value)) for name, value in requests.items())), fractional)
        found = self._capacity.pop(key, None)
        if found is None:
            while len(self._capacity) >= _LIMIT:
                del self._capacity[next(iter(self._capacity))]
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

    def forget_unused(self, shapes: set[Shape]) -> None:
        for selection in self._known.values():
            selection.forget_unused(shapes)
        for rule in self._capacity.values():
            rule.forget_unused(shapes)
        self._derived_values.clear()


@dataclass(frozen=True, slots=True)
class DerivedFault:
    compiles: bool
    text: str


@lru_cache(maxsize=4096)
def activation(shape: Shape) -> Any:
    """What expressions see of the device. Bounded: devices with serial numbers are all different, and these are large."""
    return cel_device.DeviceInput(shape.driver, shape.plain())


def explain_runtime_error(text: str) -> str:
    return text + _HINT if "no such key:" in text else text


@lru_cache
def _gates(lists: bool, consumable: bool) -> FeatureGates:
    """The gates that change what expressions can say."""
    return FeatureGates.parse(
        f"DRAListTypeAttributes={str(lists).lower()},DRAConsumableCapacity={str(consumable).lower()}"
    )
