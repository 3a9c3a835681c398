"""Type checking: every node gets a type, every call its overloads, every name its meaning.

The messages and their positions are cel-go's (checker/checker.go); so is the tolerance of dyn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drakit.cel import types as t
from drakit.cel.environment import Environment
from drakit.cel.functions import Function
from drakit.cel.parser import Parsed
from drakit.cel.source import Issue
from drakit.cel.syntax import Call, Comprehension, Ident, ListNode, Literal, MapNode, Node, Select, Struct
from drakit.cel.types import Type
from drakit.cel.unify import Bindings, is_dyn_or_error, most_general
from drakit.cel.values import UInt

__all__ = ["Checked", "check"]

_LITERAL_TYPES: dict[type, Type] = {
    type(None): t.NULL, bool: t.BOOL, int: t.INT, UInt: t.UINT, float: t.DOUBLE, str: t.STRING, bytes: t.BYTES,
}  # fmt: skip
_MAX_WEIGHT = 2000  # a map of maps of itself doubles its type at every level; cel-go would not come to an end
_MIXED = frozenset({"int64_double", "int64_uint64", "uint64_double", "uint64_int64", "double_int64", "double_uint64"})


@dataclass
class Checked:
    """A checked tree. `names` maps identifiers (and selections that are one) to what they name."""

    parsed: Parsed
    root: Node
    types: dict[int, Type]
    overloads: dict[int, tuple[str, ...]]
    names: dict[int, str]

    @property
    def result(self) -> Type:
        return self.types[self.root.id]


class _Checker:
    def __init__(self, env: Environment, parsed: Parsed) -> None:
        self.env = env
        self.parsed = parsed
        self.bindings = Bindings()
        self.types: dict[int, Type] = {}
        self.overloads: dict[int, tuple[str, ...]] = {}
        self.names: dict[int, str] = {}
        self.scopes: list[dict[str, Type]] = []
        self.issues: list[Issue] = []
        self.fresh = 0

    # -- helpers ----------------------------------------------------------------------------------------------

    def report(self, id: int, message: str) -> None:
        self.issues.append(Issue(self.parsed.source.location(self.parsed.offsets.get(id, -1)), message))

    def type(self, node: Node) -> Type:
        return self.types.get(node.id, t.ERROR)

    def new_variable(self) -> Type:
        self.fresh += 1
        return t.type_param(f"_var{self.fresh - 1}")

    def mismatch(self, node: Node, expected: Type, actual: Type) -> None:
        self.report(node.id, f"expected type '{expected.text()}' but found '{actual.text()}'")

    def undeclared(self, node: Node, name: str) -> None:
        self.report(node.id, f"undeclared reference to '{name}' (in container '{self.env.container}')")
        self.types[node.id] = t.ERROR

    # -- names ------------------------------------------------------------------------------------------------

    def local(self, name: str) -> Type | None:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def global_type(self, name: str) -> Type | None:
        env = self.env
        if name in env.variables:
            return env.variables[name]
        if name in env.idents:
            return t.type_of(env.idents[name])
        if name in env.constants:
            return env.constants[name][0]
        if name in env.structs or name in t.WELL_KNOWN:
            return t.type_of(t.struct(name))
        return None

    def lookup(self, name: str) -> tuple[str, Type] | None:
        """What a simple name means: (the name to resolve at run time, its type). A leading dot skips local names."""
        local = self.local(name)
        if local is not None and not name.startswith("."):
            return name, local
        return self.lookup_global(name, self.local(name.lstrip(".")) is not None)

    def lookup_global(self, name: str, shadowed: bool) -> tuple[str, Type] | None:
        for candidate in self.env.candidates(name):
            typ = self.global_type(candidate)
            if typ is not None:
                return ("." + candidate if shadowed else candidate), typ
        return None

    # -- nodes ------------------------------------------------------------------------------------------------

    def check(self, node: Node) -> None:
        kind = node.__class__
        if kind is Literal:
            self.types[node.id] = _LITERAL_TYPES[node.value.__class__]  # type: ignore[attr-defined]  # its class was just checked
        else:
            _CHECKS[kind](self, node)

    def check_ident(self, node: Ident) -> None:
        found = self.lookup(node.name)
        if found is None:
            self.undeclared(node, node.name)
            return
        self.names[node.id], self.types[node.id] = found

    def check_select(self, node: Select) -> None:
        parts = _dotted(node)
        if parts is not None:
            local = self.local(parts[0].lstrip("."))
            if local is None or parts[0].startswith("."):
                found = self.lookup_global(".".join(parts), local is not None)
                if found is not None:
                    self.names[node.id], self.types[node.id] = found
                    return
        result = self.select_field(node, node.operand, node.field, False)
        if node.test_only:
            result = t.BOOL
        self.types[node.id] = self.bindings.resolve(result)

    def select_field(self, node: Node, operand: Node, name: str, optional: bool) -> Type:
        self.check(operand)
        operand_type = self.bindings.resolve(self.type(operand))
        target, is_optional = _unwrap(operand_type)
        result = t.ERROR
        if target.kind == "map":
            result = target.params[1]
        elif target.kind == "struct":
            result = self.field_type(node.id, target.name, name) or t.ERROR
        elif target.kind == "param":
            self.bindings.assignable(t.DYN, target)
            result = t.DYN
        else:
            if not is_dyn_or_error(target):
                self.report(node.id, f"type '{target.text()}' does not support field selection")
            result = t.DYN
        return t.optional_of(result) if is_optional or optional else result

    def field_type(self, id: int, struct_name: str, name: str) -> Type | None:
        struct = self.env.structs.get(struct_name)
        fields: Mapping[str, Type] | None = _WRAPPER_FIELDS.get(struct_name) if struct is None else struct.fields
        if fields is None:
            self.report(id, f"unexpected failed resolution of '{struct_name}'")
            return None
        if name in fields:
            return fields[name]
        self.report(id, f"undefined field '{name}'")
        return None

    def check_call(self, node: Call) -> None:
        if node.function == "_?._":
            self.check_optional_select(node)
            return
        for arg in node.args:
            self.check(arg)
        if node.target is None:
            function = self.function(node.function)
            if function is None:
                self.undeclared(node, node.function)
                return
            node.function = function.name
            self.resolve_overload(node, function, None)
            return
        parts = _dotted(node.target)
        if parts is not None:
            function = self.function(".".join([*parts, node.function]))
            if function is not None:
                node.function, node.target = function.name, None
                self.resolve_overload(node, function, None)
                return
        self.check(node.target)
        function = self.function(node.function)
        if function is None:
            self.undeclared(node, node.function)
            return
        self.resolve_overload(node, function, node.target)

    def function(self, name: str) -> Function | None:
        for candidate in self.env.candidates(name):
            if candidate in self.env.functions:
                return self.env.functions[candidate]
        return None

    def check_optional_select(self, node: Call) -> None:
        operand, field = node.args
        if not isinstance(field, Literal) or not isinstance(field.value, str):
            self.report(field.id, "unsupported optional field selection")
            return
        result = self.select_field(node, operand, field.value, True)
        self.types[node.id] = self.bindings.resolve(result)
        self.overloads[node.id] = ("select_optional_field",)

    def resolve_overload(self, node: Call, function: Function, target: Node | None) -> None:
        arg_types = [self.type(arg) for arg in node.args]
        if target is not None:
            arg_types.insert(0, self.type(target))
        if function.name in ("_&&_", "_||_"):
            self.resolve_logical(node, function, arg_types)
            return
        result: Type | None = None
        chosen: list[str] = []
        member, mixed = target is not None, self.env.mixed_numbers
        for item in function.overloads:
            if item.member is not member or not (mixed or self.enabled(item.id)):
                continue
            if len(item.args) != len(arg_types):
                self.fresh += len(item.type_params)  # messages show the numbers of type variables
                continue
            params, returned = item.args, item.result
            if item.type_params:
                renaming = Bindings()
                for name in item.type_params:
                    renaming.bind(name, self.new_variable())
                params = tuple(renaming.resolve(param) for param in params)
                returned = renaming.resolve(returned)
            if self.bindings.assignable_all(arg_types, params):
                chosen.append(item.id)
                returned = self.bindings.resolve(returned)
                if result is None:
                    result = returned
                elif not result.is_dyn and not returned.same(result):
                    result = t.DYN
        if result is None:
            self.types[node.id] = t.ERROR
            resolved = [self.bindings.resolve(typ, True) for typ in arg_types]
            signature = _signature(resolved, target is not None)
            self.report(node.id, f"found no matching overload for '{function.name}' applied to '{signature}'")
            return
        self.types[node.id] = result
        self.overloads[node.id] = tuple(chosen)

    def enabled(self, overload_id: str) -> bool:
        return overload_id.split("_", 1)[-1].removeprefix("equals_") not in _MIXED

    def resolve_logical(self, node: Call, function: Function, arg_types: Sequence[Type]) -> None:
        failed = False
        for arg, typ in zip(node.args, arg_types, strict=True):
            if not self.bindings.assignable(typ, t.BOOL):
                self.mismatch(arg, t.BOOL, typ)
                failed = True
        self.types[node.id] = t.ERROR if failed else t.BOOL
        if not failed:
            self.overloads[node.id] = (function.overloads[0].id,)

    def check_list(self, node: ListNode) -> None:
        element: Type | None = None
        for i, item in enumerate(node.elements):
            self.check(item)
            typ = self.type(item)
            if i in node.optionals:
                typ = self.unwrap_entry(item, typ)
            element = self.join(element, typ)
        self.types[node.id] = t.list_of(element or self.new_variable())

    def unwrap_entry(self, node: Node, typ: Type) -> Type:
        inner, is_optional = _unwrap(typ)
        if not is_optional and not inner.is_dyn:
            self.mismatch(node, t.optional_of(inner), inner)
        return inner

    def check_map(self, node: MapNode) -> None:
        key_type: Type | None = None
        value_type: Type | None = None
        for entry in node.entries:
            self.check(entry.key)
            key_type = self.join(key_type, self.type(entry.key))
            self.check(entry.value)
            typ = self.type(entry.value)
            if entry.optional:
                typ = self.unwrap_entry(entry.value, typ)
            value_type = self.join(value_type, typ)
        if key_type is None or value_type is None:
            key_type, value_type = self.new_variable(), self.new_variable()
        made = t.map_of(key_type, value_type)
        if self.bindings.resolve(made).weight > _MAX_WEIGHT:
            self.report(node.id, "the type of this map is too complex")
            made = t.map_of(t.DYN, t.DYN)
        self.types[node.id] = made

    def join(self, previous: Type | None, current: Type) -> Type:
        if previous is None:
            return current
        if self.bindings.assignable(previous, current):
            return most_general(previous, current)
        return t.DYN  # whether mixed lists are allowed at all is the validators' business

    def check_struct(self, node: Struct) -> None:
        found = self.struct_type(node.type_name)
        if found is None:
            self.undeclared(node, node.type_name)
            return
        name, result = found
        node.type_name = name
        self.names[node.id] = name
        self.types[node.id] = result
        for field_id, field, value, optional in node.fields:
            self.check(value)
            field_type = self.field_type(field_id, name, field) or t.ERROR
            typ = self.type(value)
            if optional:
                typ = self.unwrap_entry(value, typ)
            if not self.bindings.assignable(field_type, typ):
                self.report(
                    field_id,
                    f"expected type of field '{field}' is '{field_type.text()}' but provided type is '{typ.text()}'",
                )

    def struct_type(self, name: str) -> tuple[str, Type] | None:
        for candidate in self.env.candidates(name):
            if candidate in self.env.structs or candidate in t.WELL_KNOWN:
                return candidate, t.struct(candidate)
        return None

    def check_comprehension(self, node: Comprehension) -> None:
        self.check(node.iter_range)
        self.check(node.accu_init)
        range_type = self.bindings.resolve(self.type(node.iter_range))
        accu_type = self.type(node.accu_init)
        first, second = self.iteration_types(node, range_type)
        self.scopes.append({node.accu_var: accu_type})
        names = {node.iter_var: first}
        if node.iter_var2:
            names[node.iter_var2] = second
        self.scopes.append(names)
        self.check(node.condition)
        self.expect(node.condition, t.BOOL)
        self.check(node.step)
        self.expect(node.step, accu_type)
        self.scopes.pop()
        self.check(node.result)
        self.scopes.pop()
        self.types[node.id] = self.bindings.resolve(self.type(node.result))

    def iteration_types(self, node: Comprehension, range_type: Type) -> tuple[Type, Type]:
        if range_type.kind == "list":
            element = range_type.params[0]
            return (t.INT, element) if node.iter_var2 else (element, t.ERROR)
        if range_type.kind == "map":
            return range_type.params[0], range_type.params[1]
        if range_type.kind in ("dyn", "error", "param"):
            self.bindings.assignable(t.DYN, range_type)
            return t.DYN, t.DYN
        self.report(
            node.iter_range.id,
            f"expression of type '{range_type.text()}' cannot be range of a comprehension (must be list, map, or dynamic)",
        )
        return t.ERROR, t.ERROR

    def expect(self, node: Node, typ: Type) -> None:
        if not self.bindings.assignable(typ, self.type(node)):
            self.mismatch(node, typ, self.type(node))


_CHECKS: dict[type, Any] = {
    Ident: _Checker.check_ident,
    Select: _Checker.check_select,
    Call: _Checker.check_call,
    ListNode: _Checker.check_list,
    MapNode: _Checker.check_map,
    Struct: _Checker.check_struct,
    Comprehension: _Checker.check_comprehension,
}
_WRAPPED = {
    "google.protobuf.BoolValue": t.BOOL, "google.protobuf.BytesValue": t.BYTES, "google.protobuf.DoubleValue": t.DOUBLE,
    "google.protobuf.FloatValue": t.DOUBLE, "google.protobuf.Int64Value": t.INT, "google.protobuf.Int32Value": t.INT,
    "google.protobuf.UInt64Value": t.UINT, "google.protobuf.UInt32Value": t.UINT, "google.protobuf.StringValue": t.STRING,
}  # fmt: skip
_WRAPPER_FIELDS: dict[str, dict[str, Type]] = {name: {"value": typ} for name, typ in _WRAPPED.items()} | {
    "google.protobuf.Timestamp": {"seconds": t.INT, "nanos": t.INT},
    "google.protobuf.Duration": {"seconds": t.INT, "nanos": t.INT},
    "google.protobuf.ListValue": {"values": t.list_of(t.DYN)},
    "google.protobuf.Struct": {"fields": t.map_of(t.STRING, t.DYN)},
    "google.protobuf.Any": {"type_url": t.STRING, "value": t.BYTES},
    "google.protobuf.Value": {
        "null_value": t.INT, "number_value": t.DOUBLE, "string_value": t.STRING, "bool_value": t.BOOL,
        "struct_value": t.map_of(t.STRING, t.DYN), "list_value": t.list_of(t.DYN),
    },
}  # fmt: skip


def _unwrap(typ: Type) -> tuple[Type, bool]:
    if typ.kind == "opaque" and typ.name == "optional_type":
        return typ.params[0], True
    return typ, False


def _dotted(node: Node) -> list[str] | None:
    """The parts of `a.b.c`, when the node is nothing but names."""
    parts: list[str] = []
    while isinstance(node, Select):
        if node.test_only:
            return None
        parts.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    parts.append(node.name)
    parts.reverse()
    return parts


def _signature(types: Sequence[Type], member: bool) -> str:
    texts = [typ.text() for typ in types]
    if member:
        return f"{texts[0]}.({', '.join(texts[1:])})"
    return f"({', '.join(texts)})"


def check(parsed: Parsed, env: Environment) -> tuple[Checked, list[Issue]]:
    """The tree with what could be found out, and the issues that keep it from being a program."""
    assert parsed.root is not None
    checker = _Checker(env, parsed)
    checker.check(parsed.root)
    resolve = checker.bindings.resolve
    types = {id: resolve(typ, True) for id, typ in checker.types.items()}
    return Checked(parsed, parsed.root, types, checker.overloads, checker.names), checker.issues
