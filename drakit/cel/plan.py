"""The exact evaluator: a tree of steps that mirrors cel-go's, errors as values, every cost counted.

It is the reference for what an expression means; `codegen` makes a faster program for the inputs on which
nothing fails, and falls back to this one. Comprehension variables live in numbered slots of the frame.
Costs follow cel-go's observer: one for an identifier and for each selection or index, the rule's price for a call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from drakit.cel.errors import CostExceeded, Interrupted
from drakit.cel.functions import Binding
from drakit.cel.runtimecost import Rule
from drakit.cel.values import (
    NONE,
    Fault,
    Growing,
    GrowingMap,
    Optional,
    UInt,
    equality,
    find,
    go_type,
    keys,
    map_key,
    member_key,
    show,
    type_name,
)

__all__ = ["Err", "Frame", "Step"]

_CHECK_EVERY: Final = 512  # loop turns between two looks at the clock
_UNSET: Final = object()
NO_OVERLOAD: Final = "no such overload"


class Err:
    """An error as a value: `&&`, `||` and the macros built on them may absorb it."""

    __slots__ = ("text",)
    cel_type = "error"

    def __init__(self, text: str) -> None:
        self.text = text


class Frame:
    """One evaluation: the variables, the loops' slots, and what was spent."""

    __slots__ = ("clock", "cost", "deadline", "limit", "slots", "turns", "variables")

    def __init__(
        self,
        variables: Mapping[str, Any],
        slots: int,
        *,
        limit: int,
        clock: Callable[[], float] | None = None,
        deadline: float = 0.0,
    ) -> None:
        self.variables = variables
        self.slots: list[Any] = [_UNSET] * slots
        self.cost = 0
        self.limit = limit
        self.clock = clock
        self.deadline = deadline
        self.turns = 0

    def spend(self, cost: int) -> None:
        self.cost += cost
        if self.cost > self.limit:
            raise CostExceeded("operation cancelled: actual cost limit exceeded", self.cost)

    def look_at_the_clock(self) -> None:
        """Called now and then by loops."""
        if self.clock is not None and self.clock() > self.deadline:
            raise Interrupted("operation interrupted: wall-clock budget exceeded", self.cost)


class Step(Protocol):
    def run(self, frame: Frame) -> Any:
        """The value, or an Err."""
        ...


class Const:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def run(self, frame: Frame) -> Any:
        return self.value


# -- attributes: a variable or value, and the selections applied to it ---------------------------------------


class Qualifier:
    """One `.name` or `[key]`."""

    __slots__ = ("key", "optional", "source", "test")

    def __init__(self, key: Any, source: Attribute | None, *, optional: bool = False, test: bool = False) -> None:
        self.key = key
        self.source = source
        self.optional = optional
        self.test = test

    def lookup(self, frame: Frame, value: Any, presence: bool) -> tuple[bool, Any]:
        """(present, value or Err). With `presence`, a missing key is not an error."""
        key = self.key
        if self.source is not None:
            key = self.source.resolve(frame)
            if key.__class__ is Err:
                return False, key
            if not valid_key(key):
                return False, Err(f"invalid qualifier type: {go_type(key)}")
        return select(value, key, presence)


def valid_key(key: Any) -> bool:
    return key.__class__ in (str, int, UInt, bool, float)


def select(value: Any, key: Any, presence: bool) -> tuple[bool, Any]:
    if isinstance(value, dict):
        found, item = find(value, key)
        if found:
            return True, item
        return False, None if presence else Err(f"no such key: {show(key)}")
    if value.__class__ is list:
        index = _index(key)
        if index.__class__ is Err:
            return False, index
        if 0 <= index < len(value):
            return True, value[index]
        return False, None if presence else Err(f"index out of bounds: {show(key)}")
    if value.__class__ is Err:
        return False, value
    lookup = getattr(value, "cel_select", None)
    if lookup is not None:
        found, item = lookup(key)
        if item.__class__ is Err:
            return False, item
        if found or presence:
            return found, item
    return False, None if presence else Err(f"no such key: {show(key)}")


def _index(key: Any) -> Any:
    if key.__class__ is int or key.__class__ is UInt:
        return int(key) if key < 2**63 else Err(f"unsupported index value {show(key)} in list")
    if key.__class__ is float:
        if key == key and abs(key) < 2**63 and key == int(key):
            return int(key)
        return Err(f"unsupported index value {show(key)} in list")
    return Err(f"unsupported index type '{type_name(key)}' in list")


class Attribute:
    """A variable, a slot, or the value of a step, followed by qualifiers."""

    __slots__ = ("name", "operand", "qualifiers", "slot")

    def __init__(self, *, name: str = "", slot: Slot | None = None, operand: Step | None = None) -> None:
        self.name = name
        self.slot = slot
        self.operand = operand
        self.qualifiers: list[Qualifier] = []

    def add(self, qualifier: Qualifier) -> None:
        self.qualifiers.append(qualifier)

    def resolve(self, frame: Frame) -> Any:
        if self.slot is not None:
            value = self.slot.read(frame)
        elif self.operand is not None:
            value = self.operand.run(frame)
        else:
            value = frame.variables.get(self.name, _UNSET)
            if value is _UNSET:
                return Err(f"no such attribute(s): {self.name}")
            if value.__class__ is Lazy:
                value = value.get()
        if value.__class__ is Err or not self.qualifiers:
            return value
        return self.qualify(frame, value)

    def qualify(self, frame: Frame, value: Any) -> Any:
        optional = value.__class__ is Optional
        if optional:
            if value is NONE:
                return NONE
            value = value.value
        for qualifier in self.qualifiers:
            optional = optional or qualifier.optional
            present, item = qualifier.lookup(frame, value, optional or qualifier.test)
            if item.__class__ is Err:
                if not optional:
                    frame.spend(1)
                return item
            if optional:
                if present or qualifier.test:
                    frame.spend(1)
                if not present:
                    return NONE
            else:
                frame.spend(1)
                if qualifier.test:
                    item = present
            value = item
        return Optional(value) if optional else value


class Lazy:
    """A variable whose value is computed when first used."""

    __slots__ = ("_compute", "_value")

    def __init__(self, compute: Callable[[], Any]) -> None:
        self._compute: Callable[[], Any] | None = compute
        self._value: Any = None

    def get(self) -> Any:
        if self._compute is not None:
            self._value, self._compute = self._compute(), None
        return self._value


class Conditional(Attribute):
    """`condition ? a : b`; qualifiers go to both branches."""

    __slots__ = ("condition", "if_false", "if_true")

    def __init__(self, condition: Step, if_true: Attribute, if_false: Attribute) -> None:
        super().__init__()
        self.condition = condition
        self.if_true = if_true
        self.if_false = if_false

    def add(self, qualifier: Qualifier) -> None:
        self.if_true.add(qualifier)
        self.if_false.add(qualifier)

    def resolve(self, frame: Frame) -> Any:
        condition = self.condition.run(frame)
        if condition is True:
            return self.if_true.resolve(frame)
        if condition is False:
            return self.if_false.resolve(frame)
        return condition if condition.__class__ is Err else Err(NO_OVERLOAD)


class Read:
    """Evaluates an attribute."""

    __slots__ = ("attribute", "cost")

    def __init__(self, attribute: Attribute) -> None:
        self.attribute = attribute
        self.cost = 0 if isinstance(attribute, Conditional) else 1

    def run(self, frame: Frame) -> Any:
        attribute = self.attribute
        slot = attribute.slot
        if slot is not None and not attribute.qualifiers:  # a loop variable: the most frequent step of all
            value = frame.slots[slot.index]
            if value is _UNSET:
                value = slot.read(frame)
        else:
            value = attribute.resolve(frame)
        frame.cost += self.cost
        if frame.cost > frame.limit:
            frame.spend(0)
        return value


class Presence:
    """`has(attribute)`."""

    __slots__ = ("attribute", "cost")

    def __init__(self, attribute: Attribute, cost: int) -> None:
        self.attribute = attribute
        self.cost = cost

    def run(self, frame: Frame) -> Any:
        value = self.attribute.resolve(frame)
        if self.cost and not isinstance(self.attribute, Conditional):
            frame.spend(self.cost)
        if value.__class__ is Optional:
            return value is not NONE
        return value


# -- calls ----------------------------------------------------------------------------------------------------


class Call:
    """A function on evaluated arguments."""

    __slots__ = ("args", "binding", "first", "price")

    def __init__(self, binding: Binding, args: Sequence[Step], price: int | Rule, *, first: bool = False) -> None:
        self.binding = binding
        self.args = tuple(args)
        self.price = price
        self.first = first  # the price is taken before the work

    def run(self, frame: Frame) -> Any:
        binding = self.binding
        price = self.price
        values = []
        failed = None
        for arg in self.args:
            value = arg.run(frame)
            values.append(value)
            if value.__class__ is Err and failed is None and binding.strict:
                failed = value
                if binding.early:
                    if len(values) < len(self.args):
                        return value  # the call is not reached, so it costs nothing
                    break
        if self.first and failed is None and price.__class__ is not int:
            frame.spend(price(values, None))  # type: ignore[operator]  # not a number, so a rule
            price = 0
        if failed is not None:
            result = failed
        else:
            try:
                result = binding.call(*values)
            except Fault as fault:
                result = Err(str(fault))
            except (AttributeError, TypeError, ValueError, OverflowError, LookupError) as error:
                # A guard let through what the implementation cannot take; Go panics there.
                result = Err(f"internal error: {error}")
        frame.cost += price if price.__class__ is int else price(values, result)  # type: ignore[operator]  # a number or a rule
        if frame.cost > frame.limit:
            frame.spend(0)
        return result


class Equal:
    __slots__ = ("left", "negated", "price", "right")

    def __init__(self, left: Step, right: Step, price: int | Rule, negated: bool) -> None:
        self.left = left
        self.right = right
        self.price = price
        self.negated = negated

    def run(self, frame: Frame) -> Any:
        left = self.left.run(frame)
        right = self.right.run(frame)
        result: Any
        if left.__class__ is Err:
            result = left
        elif right.__class__ is Err:
            result = right
        elif self.negated:
            result = equality(left, right) is not True
        else:
            result = equality(left, right)
            if result is None:
                result = Err(NO_OVERLOAD)
        frame.spend(self.price((left, right), result))  # type: ignore[operator]  # equality always has a rule
        return result


class Logic:
    """`&&` (decisive: False) or `||` (decisive: True) of any number of terms; the first error stays if nothing decides."""

    __slots__ = ("decisive", "terms")

    def __init__(self, terms: Sequence[Step], decisive: bool) -> None:
        self.terms = tuple(terms)
        self.decisive = decisive

    def run(self, frame: Frame) -> Any:
        error = None
        decisive = self.decisive
        for term in self.terms:
            value = term.run(frame)
            if value is decisive:
                return decisive
            if error is None and value is not (not decisive):
                error = value if value.__class__ is Err else Err(NO_OVERLOAD)
        return not decisive if error is None else error


class Membership:
    """`x in [constants]`."""

    __slots__ = ("element", "values")

    def __init__(self, element: Step, values: Sequence[Any]) -> None:
        self.element = element
        self.values = {member_key(value) for value in values}

    def run(self, frame: Frame) -> Any:
        value = self.element.run(frame)
        if value.__class__ is Err:
            return value
        try:
            return member_key(value) in self.values
        except TypeError:
            return False


class OrElse:
    """`optional.or(optional)` and `optional.orValue(value)`: the argument is evaluated only when needed."""

    __slots__ = ("left", "right", "unwrap")

    def __init__(self, left: Step, right: Step, unwrap: bool) -> None:
        self.left = left
        self.right = right
        self.unwrap = unwrap

    def run(self, frame: Frame) -> Any:
        left = self.left.run(frame)
        if left.__class__ is not Optional:
            return left if left.__class__ is Err else Err(NO_OVERLOAD)
        if left is NONE:
            return self.right.run(frame)
        return left.value if self.unwrap else left


# -- aggregates -----------------------------------------------------------------------------------------------


class MakeList:
    __slots__ = ("elements", "optionals")

    def __init__(self, elements: Sequence[Step], optionals: frozenset[int]) -> None:
        self.elements = tuple(elements)
        self.optionals = optionals

    def run(self, frame: Frame) -> Any:
        values: list[Any] = []
        result: Any = values
        for i, element in enumerate(self.elements):
            value = element.run(frame)
            if value.__class__ is Err:
                result = value
                break
            if i in self.optionals:
                if value.__class__ is not Optional:
                    result = Err(f"cannot initialize optional list element from non-optional value {show(value)}")
                    break
                if value is NONE:
                    continue
                value = value.value
            values.append(value)
        frame.spend(10)
        return result


class MakeMap:
    __slots__ = ("entries",)

    def __init__(self, entries: Sequence[tuple[Step, Step, bool]]) -> None:
        self.entries = tuple(entries)

    def run(self, frame: Frame) -> Any:
        result = self.build(frame)
        frame.spend(30)
        return result

    def build(self, frame: Frame) -> Any:
        out: dict[Any, Any] = {}
        for key_step, value_step, optional in self.entries:
            key = key_step.run(frame)
            if key.__class__ is Err:
                return key
            value = value_step.run(frame)
            if value.__class__ is Err:
                return value
            if key.__class__ is bytes:
                return Err("unsupported key type: bytes")
            key = map_key(key)
            if optional:
                if value.__class__ is not Optional:
                    return Err(f"cannot initialize optional entry '{show(key)}' from non-optional value {show(value)}")
                if value is NONE:
                    out.pop(key, None)
                    continue
                value = value.value
            out[key] = value
        return out


class MakeStruct:
    __slots__ = ("build", "fields")

    def __init__(self, build: Callable[[dict[str, Any]], Any], fields: Sequence[tuple[str, Step, bool]]) -> None:
        self.build = build
        self.fields = tuple(fields)

    def run(self, frame: Frame) -> Any:
        values: dict[str, Any] = {}
        result: Any = None
        for name, step, optional in self.fields:
            value = step.run(frame)
            if value.__class__ is Err:
                result = value
                break
            if optional:
                if value.__class__ is not Optional:
                    result = Err(f"cannot initialize optional entry '{name}' from non-optional value {show(value)}")
                    break
                if value is NONE:
                    values.pop(name, None)
                    continue
                value = value.value
            values[name] = value
        if result is None:
            try:
                result = self.build(values)
            except Fault as fault:
                result = Err(str(fault))
        frame.spend(40)
        return result


# -- comprehensions -------------------------------------------------------------------------------------------


class Slot:
    """A loop variable, or an accumulator, which is initialized when first read."""

    __slots__ = ("growing", "index", "init")

    def __init__(self, index: int) -> None:
        self.index = index
        self.init: Step | None = None
        self.growing = False  # an accumulator, which nothing else can see: it may be changed in place

    def read(self, frame: Frame) -> Any:
        value = frame.slots[self.index]
        if value is _UNSET:
            assert self.init is not None
            value = self.init.run(frame)
            if not value and isinstance(value, (list, dict)):
                value = self.empty(value)
            frame.slots[self.index] = value
        return value

    def empty(self, value: list[Any] | dict[Any, Any]) -> Any:
        """cel-go replaces an empty list or map by one that can grow; a default that a map had is lost."""
        if self.growing:
            return Growing() if isinstance(value, list) else GrowingMap()
        return [] if isinstance(value, list) else {}


class Fold:
    __slots__ = ("accu", "condition", "first", "iter_range", "result", "second", "step")

    def __init__(
        self,
        *,
        iter_range: Step,
        accu: Slot,
        first: Slot,
        second: Slot | None,
        condition: Step,
        step: Step,
        result: Step,
    ) -> None:
        self.iter_range = iter_range
        self.accu = accu
        self.first = first
        self.second = second
        self.condition = condition
        self.step = step
        self.result = result

    def run(self, frame: Frame) -> Any:
        values = self.iter_range.run(frame)
        if values.__class__ is Err:
            return values
        pairs = self.second is not None
        items: Any
        if values.__class__ is list:
            items = enumerate(values) if pairs else values
        elif isinstance(values, dict):
            items = zip(keys(values), values.values(), strict=True) if pairs else list(keys(values))
        elif pairs:
            return Err(f"unsupported comprehension range type: {go_type(values)}")
        else:
            return Err(f"got '{go_type(values)}', expected iterable type")
        slots = frame.slots
        accu, first = self.accu.index, self.first.index
        outer = slots[accu]
        slots[accu] = _UNSET
        self.loop(frame, items, first, None if self.second is None else self.second.index)
        result = self.result.run(frame)
        slots[accu] = outer
        return settled(result)

    def loop(self, frame: Frame, items: Any, first: int, second: int | None) -> None:
        slots, condition, step, accu = frame.slots, self.condition.run, self.step.run, self.accu.index
        for item in items:
            if second is None:
                slots[first] = item
            else:
                slots[first], slots[second] = item
            if condition(frame) is False:
                return
            slots[accu] = step(frame)
            frame.turns += 1
            if frame.turns % _CHECK_EVERY == 0:
                frame.look_at_the_clock()


class Append:
    """`accumulator + [value]`: the step of `map` and `filter`, without copying the list each time."""

    __slots__ = ("list_cost", "slot", "value")

    def __init__(self, slot: Slot, value: Step, list_cost: int) -> None:
        self.slot = slot
        self.value = value
        self.list_cost = list_cost

    def run(self, frame: Frame) -> Any:
        target = self.slot.read(frame)
        frame.spend(1)
        value = self.value.run(frame)
        if self.list_cost:
            frame.spend(self.list_cost)
        frame.spend(1)
        if target.__class__ is Err:
            return target
        if value.__class__ is Err:
            return value
        if target.__class__ is Growing:
            target.append(value)
            return target
        return [*target, value]


class Bind:
    """`cel.bind(name, value, result)`: the value is computed at its first use."""

    __slots__ = ("accu", "result")

    def __init__(self, accu: Slot, result: Step) -> None:
        self.accu = accu
        self.result = result

    def run(self, frame: Frame) -> Any:
        slots, index = frame.slots, self.accu.index
        outer = slots[index]
        slots[index] = _UNSET
        result = self.result.run(frame)
        slots[index] = outer
        return result


def settled(value: Any) -> Any:
    """A finished accumulator as a plain list or map."""
    if value.__class__ is Growing:
        return list(value)
    return dict(value) if value.__class__ is GrowingMap else value
