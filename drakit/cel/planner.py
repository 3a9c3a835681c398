"""Checked tree to steps: what cel-go's planner and optimizer do.

Constant lists, maps and conversions are computed here, so their faults are `ProgramError`s; constant patterns
are compiled; `x in [constants]` becomes a set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from drakit.cel import plan, regex, runtimecost
from drakit.cel import types as t
from drakit.cel.checker import Checked
from drakit.cel.environment import Environment
from drakit.cel.errors import ProgramError
from drakit.cel.functions import Binding
from drakit.cel.macros import ACCUMULATOR
from drakit.cel.plan import Attribute, Conditional, Const, Err, Frame, Qualifier, Read, Slot, Step
from drakit.cel.syntax import Call, Comprehension, Ident, ListNode, Literal, MapNode, Node, Select, Struct
from drakit.cel.values import Fault, TypeValue, UInt, go_type
from drakit.cel.wellknown import build_message

__all__ = ["Plan", "is_bind", "plan_program"]

_CONVERSIONS = frozenset({"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"})
_PATTERNED = frozenset({"matches", "find", "findAll"})
_PRIMITIVES = (bool, int, UInt, float, str)


@dataclass(frozen=True)
class Plan:
    root: Step
    slots: int
    constants: dict[int, Any]  # node id -> the value it always has


def is_bind(node: Comprehension) -> bool:
    """cel-go's own test for a name given to a value."""
    return (
        isinstance(node.iter_range, ListNode)
        and not node.iter_range.elements
        and isinstance(node.condition, Literal)
        and node.condition.value is False
        and node.accu_var != "__result__"
    )


class _Planner:
    def __init__(self, checked: Checked, env: Environment) -> None:
        self.checked = checked
        self.env = env
        self.scopes: list[dict[str, Slot]] = []
        self.slots = 0
        self.constants: dict[int, Any] = {}

    def new_slot(self) -> Slot:
        self.slots += 1
        return Slot(self.slots - 1)

    def plan(self, node: Node) -> Step:
        kind = node.__class__
        if kind is Literal:
            return Const(node.value)  # type: ignore[attr-defined]  # its class was just checked
        step: Step = _PLANS[kind](self, node)
        if isinstance(step, Const):
            self.constants[node.id] = step.value
        return step

    # -- attributes -------------------------------------------------------------------------------------------

    def name(self, node: Node, name: str) -> Step:
        for scope in reversed(self.scopes):
            if name in scope:
                return Read(Attribute(slot=scope[name]))
        name = name.removeprefix(".")
        if name in self.env.variables:
            return Read(Attribute(name=name))
        if name in self.env.constants:
            return Const(self.env.constants[name][1])
        if self.checked.types.get(node.id, t.DYN).kind == "type":
            found = self.env.idents.get(name)
            if found is None:
                wrapped = t.WELL_KNOWN.get(name)
                if wrapped is None:
                    raise ProgramError(f"reference to undefined type: {name}")
                return Const(TypeValue(wrapped.name))
            return Const(TypeValue(found.name))
        return Read(Attribute(name=name))

    def ident(self, node: Ident) -> Step:
        return self.name(node, self.checked.names.get(node.id, node.name))

    def attribute(self, node: Node) -> Attribute:
        """The attribute that further selections extend."""
        step = self.plan(node)
        return step.attribute if isinstance(step, Read) else Attribute(operand=step)

    def select(self, node: Select) -> Step:
        name = self.checked.names.get(node.id)
        if name is not None:
            return self.name(node, name)
        attribute = self.attribute(node.operand)
        attribute.add(Qualifier(node.field, None, test=node.test_only))
        if node.test_only:
            return plan.Presence(attribute, self.env.presence_costs)
        return Read(attribute)

    def index(self, node: Call, optional: bool) -> Step:
        operand, key = node.args
        attribute = self.attribute(operand)
        step = self.plan(key)
        if isinstance(step, Const):
            if not plan.valid_key(step.value):
                raise ProgramError(f"invalid qualifier type: {go_type(step.value)}")
            attribute.add(Qualifier(step.value, None, optional=optional))
        else:
            source = step.attribute if isinstance(step, Read) else Attribute(operand=step)
            attribute.add(Qualifier(None, source, optional=optional))
        return Read(attribute)

    def branch(self, node: Node) -> Attribute:
        step = self.plan(node)
        return step.attribute if isinstance(step, Read) else Attribute(operand=step)

    # -- calls ------------------------------------------------------------------------------------------------

    def call(self, node: Call) -> Step:
        function = node.function
        if function in ("_&&_", "_||_"):
            return plan.Logic(self.terms(node), function == "_||_")
        if function == "_?_:_":
            condition, if_true, if_false = node.args
            return Read(Conditional(self.plan(condition), self.branch(if_true), self.branch(if_false)))
        if function in ("_==_", "_!=_"):
            left, right = (self.plan(arg) for arg in node.args)
            negated = function == "_!=_"
            price = runtimecost.rule(function, "not_equals" if negated else "equals")
            return plan.Equal(left, right, price, negated)
        if function in ("_[_]", "_?._", "_[?_]"):
            return self.index(node, function != "_[_]")
        nodes = list(node.args) if node.target is None else [node.target, *node.args]
        if function == "_+_":
            appended = self.append(node)
            if appended is not None:
                return appended
        args = [self.plan(arg) for arg in nodes]
        if function in ("or", "orValue") and len(args) == 2 and node.target is not None:
            return plan.OrElse(args[0], args[1], function == "orValue")
        return self.plain_call(node, args)

    def terms(self, node: Call) -> list[Step]:
        """The operands of a chain of one operator, however the parser balanced it."""
        terms: list[Step] = []
        for arg in node.args:
            if isinstance(arg, Call) and arg.function == node.function:
                terms += self.terms(arg)
            else:
                terms.append(self.plan(arg))
        return terms

    def append(self, node: Call) -> Step | None:
        """`@result + [value]` as one step."""
        left, right = node.args
        if not (
            isinstance(left, Ident)
            and left.name == ACCUMULATOR
            and isinstance(right, ListNode)
            and len(right.elements) == 1
        ):
            return None
        slot = next((scope[ACCUMULATOR] for scope in reversed(self.scopes) if ACCUMULATOR in scope), None)
        if slot is None or right.optionals:
            return None
        value = self.plan(right.elements[0])
        return plan.Append(slot, value, 0 if isinstance(value, Const) else 10)

    def plain_call(self, node: Call, args: Sequence[Step]) -> Step:
        function = node.function
        chosen = self.checked.overloads.get(node.id, ())
        overload_id = chosen[0] if len(chosen) == 1 else ""
        price = runtimecost.rule(function, overload_id)
        if overload_id == "in_list" and isinstance(args[1], Const):
            member = self.membership(args[0], args[1].value)
            if member is not None:
                return member
        declared = self.env.functions.get(function)
        binding = declared.binding(overload_id, len(args)) if declared is not None else None
        if binding is None:
            if not args:
                raise ProgramError(f"no such overload: {function}()")
            binding = Binding(_missing(function), early=len(args) > 2)
        if function in _PATTERNED and len(args) > 1 and isinstance(args[1], Const) and isinstance(args[1].value, str):
            binding = self.patterned(function, args[1].value)
        step = plan.Call(binding, args, price, first=runtimecost.upfront(overload_id))
        if function in _CONVERSIONS and len(args) == 1 and isinstance(args[0], Const):
            return Const(self.fold(step))
        return step

    def fold(self, step: Step) -> Any:
        value = step.run(Frame({}, 0, limit=2**64))
        if value.__class__ is Err:
            raise ProgramError(value.text)
        return value

    def membership(self, element: Step, values: Any) -> Step | None:
        if not isinstance(values, list):
            return None
        if not values:
            return Const(False)
        if any(value.__class__ not in _PRIMITIVES for value in values):
            return None
        return plan.Membership(element, values)

    def patterned(self, function: str, pattern: str) -> Binding:
        """A constant pattern is compiled once; a bad one is an error of the program."""
        try:
            compiled = regex.compile_pattern(pattern)
        except Fault as fault:
            raise ProgramError(str(fault)) from None
        if function == "matches":
            search = compiled.search

            def matches(value: Any, _: Any) -> bool:
                if value.__class__ is not str:
                    raise Fault(plan.NO_OVERLOAD)
                return search(value) is not None

            return Binding(matches, early=True)

        def found(value: Any, _: Any, limit: Any = -1) -> Any:
            if value.__class__ is not str or limit.__class__ is not int:
                raise Fault(plan.NO_OVERLOAD)
            return regex.find(pattern, value) if function == "find" else regex.find_all(pattern, value, limit)

        return Binding(found, early=True)

    # -- aggregates and loops ---------------------------------------------------------------------------------

    def list(self, node: ListNode) -> Step:
        elements = [self.plan(element) for element in node.elements]
        step = plan.MakeList(elements, node.optionals)
        return Const(self.fold(step)) if all(isinstance(element, Const) for element in elements) else step

    def map(self, node: MapNode) -> Step:
        entries = [(self.plan(entry.key), self.plan(entry.value), entry.optional) for entry in node.entries]
        step = plan.MakeMap(entries)
        constant = all(isinstance(key, Const) and isinstance(value, Const) for key, value, _ in entries)
        return Const(self.fold(step)) if constant else step

    def struct(self, node: Struct) -> Step:
        fields = [(name, self.plan(value), optional) for _, name, value, optional in node.fields]
        type_name = node.type_name
        return plan.MakeStruct(lambda values: build_message(type_name, values), fields)

    def comprehension(self, node: Comprehension) -> Step:
        accu, first = self.new_slot(), self.new_slot()
        second = self.new_slot() if node.iter_var2 else None
        accu.init = self.plan(node.accu_init)
        if is_bind(node):
            self.scopes.append({node.accu_var: accu})
            result = self.plan(node.result)
            self.scopes.pop()
            return plan.Bind(accu, result)
        accu.growing = True
        iter_range = self.plan(node.iter_range)
        names = {node.iter_var: first}
        if second is not None:
            names[node.iter_var2] = second
        self.scopes += [{node.accu_var: accu}, names]
        condition, step = self.plan(node.condition), self.plan(node.step)
        self.scopes.pop()
        result = self.plan(node.result)
        self.scopes.pop()
        return plan.Fold(
            iter_range=iter_range, accu=accu, first=first, second=second, condition=condition, step=step, result=result
        )


def _missing(function: str) -> Callable[..., Any]:
    """A function that is declared without an implementation, or not at all in an unchecked expression."""

    def call(*args: Any) -> Any:
        raise Fault(f"no such overload: {function}")

    return call


_PLANS: dict[type, Any] = {
    Ident: _Planner.ident,
    Select: _Planner.select,
    Call: _Planner.call,
    ListNode: _Planner.list,
    MapNode: _Planner.map,
    Struct: _Planner.struct,
    Comprehension: _Planner.comprehension,
}


def plan_program(checked: Checked, env: Environment) -> Plan:
    planner = _Planner(checked, env)
    root = planner.plan(checked.root)
    return Plan(root, planner.slots, planner.constants)
