"""Macros: `has`, `all`, `exists`, `map`, `filter`, their two-variable forms, optionals' `optMap`, and `cel.bind`.

Each turns a call into other nodes before type checking; loops become `Comprehension`s.
"""

from __future__ import annotations

import copy

from drakit.cel.parser import Macro, MacroError, Macros, Scope
from drakit.cel.syntax import Call, Comprehension, Ident, ListNode, Literal, MapEntry, MapNode, Node, Select, Struct

__all__ = ["ACCUMULATOR", "BIND", "EXISTS_ONE", "OPTIONAL", "STANDARD", "TWO_VARIABLE", "make_map"]

ACCUMULATOR = "@result"
_OLD_ACCUMULATOR = "__result__"
_UNUSED = "#unused"


def _variable(node: Node, message: str) -> str:
    if not isinstance(node, Ident):
        raise MacroError(node, message)
    if node.name in (ACCUMULATOR, _OLD_ACCUMULATOR):
        raise MacroError(node, "iteration variable overwrites accumulator variable")
    return node.name


def _has(scope: Scope, target: Node | None, args: list[Node]) -> Node | None:
    (arg,) = args
    if not isinstance(arg, Select):
        raise MacroError(arg, "invalid argument to has() macro")
    return scope.presence(arg.operand, arg.field)


def _fold(
    scope: Scope, target: Node, variables: tuple[str, str], *, init: Node, condition: Node, step: Node, result: Node
) -> Node:
    return Comprehension(
        scope.id(),
        iter_range=target,
        iter_var=variables[0],
        iter_var2=variables[1],
        accu_var=ACCUMULATOR,
        accu_init=init,
        condition=condition,
        step=step,
        result=result,
    )


def _all(scope: Scope, target: Node, variables: tuple[str, str], predicate: Node) -> Node:
    init = scope.literal(True)
    condition = scope.call("@not_strictly_false", scope.ident(ACCUMULATOR))
    step = scope.call("_&&_", scope.ident(ACCUMULATOR), predicate)
    return _fold(scope, target, variables, init=init, condition=condition, step=step, result=scope.ident(ACCUMULATOR))


def _exists(scope: Scope, target: Node, variables: tuple[str, str], predicate: Node) -> Node:
    init = scope.literal(False)
    condition = scope.call("@not_strictly_false", scope.call("!_", scope.ident(ACCUMULATOR)))
    step = scope.call("_||_", scope.ident(ACCUMULATOR), predicate)
    return _fold(scope, target, variables, init=init, condition=condition, step=step, result=scope.ident(ACCUMULATOR))


def _exists_one(scope: Scope, target: Node, variables: tuple[str, str], predicate: Node) -> Node:
    init, condition = scope.literal(0), scope.literal(True)
    counted = scope.call("_+_", scope.ident(ACCUMULATOR), scope.literal(1))
    step = scope.call("_?_:_", predicate, counted, scope.ident(ACCUMULATOR))
    result = scope.call("_==_", scope.ident(ACCUMULATOR), scope.literal(1))
    return _fold(scope, target, variables, init=init, condition=condition, step=step, result=result)


_QUANTIFIERS = {"all": _all, "exists": _exists, "exists_one": _exists_one, "existsOne": _exists_one}


def _quantifier(name: str) -> dict[tuple[str, int, bool], Macro]:
    make = _QUANTIFIERS[name]

    def one(scope: Scope, target: Node | None, args: list[Node]) -> Node | None:
        assert target is not None
        return make(scope, target, (_variable(args[0], "argument must be a simple name"), ""), args[1])

    def two(scope: Scope, target: Node | None, args: list[Node]) -> Node | None:
        assert target is not None
        return make(scope, target, _two_variables(args), args[2])

    return {(name, 2, True): one, (name, 3, True): two}


def _two_variables(args: list[Node]) -> tuple[str, str]:
    names = []
    for node in args[:2]:
        if not isinstance(node, Ident):
            raise MacroError(node, "argument must be a simple name")
        names.append(node.name)
    if names[0] == names[1]:
        raise MacroError(args[1], f"duplicate variable name: {names[0]}")
    return _variable(args[0], ""), _variable(args[1], "")


def _collect(scope: Scope, target: Node, variables: tuple[str, str], init: Node, step: Node, keep: Node | None) -> Node:
    """A fold that adds to a list or map, where `keep` holds."""
    condition = scope.literal(True)
    if keep is not None:
        step = scope.call("_?_:_", keep, step, scope.ident(ACCUMULATOR))
    return _fold(scope, target, variables, init=init, condition=condition, step=step, result=scope.ident(ACCUMULATOR))


def make_map(scope: Scope, target: Node | None, args: list[Node]) -> Node | None:
    assert target is not None
    name = _variable(args[0], "argument is not an identifier")
    keep, value = (args[1], args[2]) if len(args) == 3 else (None, args[1])
    init = scope.list()
    step = scope.call("_+_", scope.ident(ACCUMULATOR), scope.list(value))
    return _collect(scope, target, (name, ""), init, step, keep)


def _filter(scope: Scope, target: Node | None, args: list[Node]) -> Node | None:
    assert target is not None
    name = _variable(args[0], "argument is not an identifier")
    init = scope.list()
    step = scope.call("_+_", scope.ident(ACCUMULATOR), scope.list(args[0]))
    return _collect(scope, target, (name, ""), init, step, args[1])


def _transform_list(scope: Scope, target: Node | None, args: list[Node]) -> Node | None:
    assert target is not None
    variables = _two_variables(args)
    keep = args[2] if len(args) == 4 else None
    step = scope.call("_+_", scope.ident(ACCUMULATOR), scope.list(args[-1]))
    return _collect(scope, target, variables, scope.list(), step, keep)


def _transform_map(scope: Scope, target: Node | None, args: list[Node]) -> Node | None:
    assert target is not None
    variables = _two_variables(args)
    keep = args[2] if len(args) == 4 else None
    step = scope.call("cel.@mapInsert", scope.ident(ACCUMULATOR), scope.ident(variables[0]), args[-1])
    return _collect(scope, target, variables, scope.map(), step, keep)


def _transform_map_entry(scope: Scope, target: Node | None, args: list[Node]) -> Node | None:
    assert target is not None
    variables = _two_variables(args)
    keep = args[2] if len(args) == 4 else None
    step = scope.call("cel.@mapInsert", scope.ident(ACCUMULATOR), args[-1])
    return _collect(scope, target, variables, scope.map(), step, keep)


def bind(scope: Scope, name: str, value: Node, result: Node) -> Node:
    """A name for a value: a fold over nothing, whose accumulator is the name."""
    return Comprehension(
        scope.id(),
        iter_range=scope.list(),
        iter_var=_UNUSED,
        iter_var2="",
        accu_var=name,
        accu_init=value,
        condition=scope.literal(False),
        step=scope.ident(name),
        result=result,
    )


def _bind(scope: Scope, target: Node | None, args: list[Node]) -> Node | None:
    if not (isinstance(target, Ident) and target.name == "cel"):
        return None
    if not isinstance(args[0], Ident):
        raise MacroError(args[0], "cel.bind() variable names must be simple identifiers")
    return bind(scope, args[0].name, args[1], args[2])


def _opt_map(scope: Scope, target: Node | None, args: list[Node]) -> Node | None:
    assert target is not None
    if not isinstance(args[0], Ident):
        raise MacroError(args[0], "optMap() variable name must be a simple identifier")
    has_value = scope.member_call("hasValue", target)
    value = scope.member_call("value", _copy(scope, target))
    mapped = scope.call("optional.of", bind(scope, args[0].name, value, args[1]))
    return scope.call("_?_:_", has_value, mapped, scope.call("optional.none"))


def _opt_flat_map(scope: Scope, target: Node | None, args: list[Node]) -> Node | None:
    assert target is not None
    if not isinstance(args[0], Ident):
        raise MacroError(args[0], "optFlatMap() variable name must be a simple identifier")
    has_value = scope.member_call("hasValue", target)
    value = scope.member_call("value", _copy(scope, target))
    return scope.call("_?_:_", has_value, bind(scope, args[0].name, value, args[1]), scope.call("optional.none"))


def _copy(scope: Scope, node: Node) -> Node:
    """The same expression with ids of its own, so that it may stand twice in the tree."""
    twin = copy.copy(node)
    twin.id = scope.like(node)
    if isinstance(twin, Select):
        twin.operand = _copy(scope, twin.operand)
    elif isinstance(twin, Call):
        twin.target = None if twin.target is None else _copy(scope, twin.target)
        twin.args = [_copy(scope, arg) for arg in twin.args]
    elif isinstance(twin, ListNode):
        twin.elements = [_copy(scope, element) for element in twin.elements]
    elif isinstance(twin, MapNode):
        twin.entries = [
            MapEntry(scope.id(), _copy(scope, e.key), _copy(scope, e.value), e.optional) for e in twin.entries
        ]
    elif isinstance(twin, Struct):
        twin.fields = [(scope.id(), name, _copy(scope, value), optional) for _, name, value, optional in twin.fields]
    elif isinstance(twin, Comprehension):
        for part in ("iter_range", "accu_init", "condition", "step", "result"):
            setattr(twin, part, _copy(scope, getattr(twin, part)))
    else:
        assert isinstance(twin, (Literal, Ident))
    return twin


_one_variable: Macros = {key: macro for name in _QUANTIFIERS for key, macro in _quantifier(name).items() if key[1] == 2}
EXISTS_ONE: Macros = {("existsOne", 2, True): _one_variable[("existsOne", 2, True)]}
STANDARD: Macros = {
    ("has", 1, False): _has,
    **{key: macro for key, macro in _one_variable.items() if key not in EXISTS_ONE},
    ("map", 2, True): make_map,
    ("map", 3, True): make_map,
    ("filter", 2, True): _filter,
}
_both: Macros = {key: macro for name in _QUANTIFIERS for key, macro in _quantifier(name).items() if key[1] == 3}
TWO_VARIABLE: Macros = {
    **_both,
    ("transformList", 3, True): _transform_list,
    ("transformList", 4, True): _transform_list,
    ("transformMap", 3, True): _transform_map,
    ("transformMap", 4, True): _transform_map,
    ("transformMapEntry", 3, True): _transform_map_entry,
    ("transformMapEntry", 4, True): _transform_map_entry,
}
OPTIONAL: Macros = {("optMap", 2, True): _opt_map, ("optFlatMap", 2, True): _opt_flat_map}
BIND: Macros = {("bind", 3, True): _bind}
