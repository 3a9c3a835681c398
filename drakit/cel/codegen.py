"""Fast programs: a checked tree becomes one Python function, built as `ast` nodes and compiled to a code object.

The function is right wherever nothing fails: `&&` is plain `and`, a missing key is a KeyError, types known to the
checker are not looked at again. Anything that CEL treats specially raises, whatever the exception, and the exact
evaluator (`plan`) then gives the answer. So code here must raise where CEL has an error, never return a value.
Costs are not counted: a program is only generated when its worst case is within the limit.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from drakit.cel import operators as op
from drakit.cel import pynodes as py
from drakit.cel.checker import Checked
from drakit.cel.environment import Environment
from drakit.cel.fastops import HELPERS
from drakit.cel.functions import Binding
from drakit.cel.macros import ACCUMULATOR
from drakit.cel.planner import Plan, is_bind
from drakit.cel.syntax import Call, Comprehension, Ident, ListNode, Literal, MapNode, Node, Select, Struct, children
from drakit.cel.types import DYN, Type
from drakit.cel.values import Fault, member_key

__all__ = ["generate"]

Fast = Callable[[Any], Any]  # takes the activation: a mapping, or an object with the variables as attributes
_MAX_UNROLLED = 6
_MAX_BODY = 24
_MAX_LEVELS = 40  # Python's own compiler recurses; deeper trees run exactly
_COMPARED = {
    "_<_": (ast.Lt, op.less),
    "_<=_": (ast.LtE, op.less_equals),
    "_>_": (ast.Gt, op.greater),
    "_>=_": (ast.GtE, op.greater_equals),
}
_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "_+_": op.add, "_-_": op.subtract, "_*_": op.multiply, "_/_": op.divide, "_%_": op.modulo, "-_": op.negate,
}  # fmt: skip
_METHODS = {"startsWith": "startswith", "endsWith": "endswith", "contains": ""}
_PARSERS = frozenset({"quantity", "semver", "ip", "cidr", "url"})


def _after_prefix(prefix: ast.expr) -> str | None:
    """The first text after all those that begin with a constant prefix, in the order of code points."""
    if not isinstance(prefix, ast.Constant) or not isinstance(prefix.value, str) or not prefix.value:
        return None
    last = ord(prefix.value[-1])
    return None if last >= 0x10FFFF else prefix.value[:-1] + chr(last + 1)


class _Generator:
    def __init__(self, checked: Checked, env: Environment, plan: Plan) -> None:
        self.checked = checked
        self.env = env
        self.constants = plan.constants
        self.names: dict[str, Any] = {}
        self.scopes: list[dict[str, ast.expr]] = []
        self.made = 0
        self.ahead: list[tuple[str, ast.expr]] = []
        self.found: dict[tuple[str, ...], str] = {}
        self.trust: dict[int, bool] = {}
        self.trusted_names: list[dict[str, bool]] = []

    def fresh(self) -> str:
        self.made += 1
        return f"t{self.made}"

    def helper(self, name: str, *args: ast.expr) -> ast.expr:
        self.names[name] = HELPERS[name]
        return py.call(py.name(name), *args)

    def value(self, value: Any) -> ast.expr:
        """A constant: written out where Python has a literal for it, otherwise by a name."""
        if value is None or value.__class__ in (bool, int, float, str, bytes):
            return py.Constant(value)
        name = f"k{len(self.names)}"
        self.names[name] = value
        return py.name(name)

    def type(self, node: Node) -> Type:
        return self.checked.types.get(node.id, DYN)

    # -- what the types are worth -----------------------------------------------------------------------------

    def sure(self, node: Node) -> Type:
        """The checker's type where values are sure to have it, else dyn: `dyn([true]) + [1]` is a list of int to the checker."""
        typ = self.type(node)
        return typ if typ.is_dyn or self.trusted(node) else DYN

    def trusted(self, node: Node) -> bool:
        known = self.trust.get(node.id)
        if known is None:
            known = self.trust[node.id] = self._trusted(node)
        return known

    def _trusted(self, node: Node) -> bool:
        if isinstance(node, Literal) or node.id in self.constants:
            return True
        if isinstance(node, Ident):
            return next((scope[node.name] for scope in reversed(self.trusted_names) if node.name in scope), True)
        if isinstance(node, Select):
            return node.id in self.checked.names or node.test_only or self.trusted(node.operand)
        if isinstance(node, Call):
            return self._trusted_call(node)
        if isinstance(node, (ListNode, MapNode)):
            parts = list(children(node))
            return all(self.trusted(part) for part in parts) and self._alike(node)
        if isinstance(node, Comprehension):
            return self._trusted_loop(node)
        return False

    def _alike(self, node: ListNode | MapNode) -> bool:
        groups = (
            [node.elements]
            if isinstance(node, ListNode)
            else [[e.key for e in node.entries], [e.value for e in node.entries]]
        )
        return all(self.type(part).same(self.type(group[0])) for group in groups for part in group)

    def _trusted_call(self, node: Call) -> bool:
        nodes = list(node.args) if node.target is None else [node.target, *node.args]
        if node.function == "_?_:_":
            return all(self.trusted(arg) and self.type(arg).same(self.type(node)) for arg in nodes[1:])
        declared = self.env.functions.get(node.function)
        chosen = (
            [declared.by_id[id] for id in self.checked.overloads.get(node.id, ()) if id in declared.by_id]
            if declared
            else []
        )
        if not chosen:
            return False
        for item in chosen:
            if not _has_params(item.result):
                continue
            for param, arg in zip(item.args, nodes, strict=False):
                if not self.trusted(arg) or _guessed(param, self.type(arg)):
                    return False
        return True

    def _trusted_loop(self, node: Comprehension) -> bool:
        if is_bind(node):
            with self.trusting({node.accu_var: self.trusted(node.accu_init)}):
                return self.trusted(node.result)
        step = node.step
        if not isinstance(step, Call) or step.function in ("_&&_", "_||_"):
            return True
        sure_range = self.trusted(node.iter_range) and not self.type(node.iter_range).is_dyn
        with self.trusting({node.iter_var: sure_range, node.iter_var2: sure_range, node.accu_var: False}):
            added = step.args[1] if step.function == "_?_:_" else step
            if not (isinstance(added, Call) and added.function == "_+_" and isinstance(added.args[1], ListNode)):
                return isinstance(added, Call) and added.function == "_+_"
            return self.trusted(added.args[1].elements[0])

    @contextmanager
    def trusting(self, names: dict[str, bool]) -> Iterator[None]:
        self.trusted_names.append(names)
        try:
            yield
        finally:
            self.trusted_names.pop()

    # -- the function -----------------------------------------------------------------------------------------

    def module(self, root: Node, fallback: Callable[[Any], Any] | None, decides: bool) -> ast.Module:
        """`def fast(V)`: what is looked up ahead, then the expression."""
        self.look_ahead(root)
        body: list[ast.stmt] = [py.assign(name, value) for name, value in self.ahead]
        body.append(py.Return(self.condition(root) if decides else self.make(root)))
        if fallback is not None:
            self.names["fallback"] = fallback
            caught = py.Handler(py.name("Exception"), None, [py.Return(py.call(py.name("fallback"), py.name("V")))])
            body = [py.Try(body, [caught], [], [])]
        args = ast.arguments([], [py.Arg("V")], None, [], [], None, [])
        return ast.Module([py.FunctionDef("fast", args, body, [], None)], [])

    def look_ahead(self, root: Node) -> None:
        """Variables, and keys of maps in which every key exists, are read once where they are used more than once."""
        counts: dict[tuple[str, ...], int] = {}
        stack = [root]
        while stack:
            node = stack.pop()
            if isinstance(node, Comprehension) and {node.iter_var, node.iter_var2, node.accu_var} & set(
                self.env.variables
            ):
                return  # a local name hides a variable; not worth the trouble
            path = self.path(node)
            if path is not None:
                counts[path] = counts.get(path, 0) + 1
                if len(path) == 3:
                    continue
            stack.extend(children(node))
        for path, count in counts.items():
            if len(path) == 3 and count > 1:
                found = py.item(py.item(self.variable(path[0]), py.constant(path[1])), py.constant(path[2]))
                self.found[path] = self.fresh()
                self.ahead.append((self.found[path], found))
        if self.env.attribute_activation and not any(path[0] in self.env.variables for path in self.found):
            for name in self.env.variables:  # an activation that is broken must be noticed
                self.ahead.append((self.fresh(), self.variable(name)))

    def path(self, node: Node) -> tuple[str, ...] | None:
        """(variable, field, key) of a lookup that cannot fail."""
        if not (isinstance(node, Call) and node.function == "_[_]" and isinstance(node.args[1], Literal)):
            return None
        owner, key = node.args[0], node.args[1].value
        if not (
            isinstance(owner, Select)
            and isinstance(owner.operand, Ident)
            and key.__class__ is str
            and not owner.test_only
        ):
            return None
        name = self.checked.names.get(owner.operand.id, "")
        return (name, owner.field, key) if (name, owner.field) in self.env.total_paths else None

    # -- expressions ------------------------------------------------------------------------------------------

    def make(self, node: Node) -> ast.expr:
        if isinstance(node, Literal):
            return self.value(node.value)
        if node.id in self.constants:
            return self.value(self.constants[node.id])
        if isinstance(node, Ident):
            return self.variable(self.checked.names.get(node.id, node.name))
        if isinstance(node, Select):
            return self.select(node)
        if isinstance(node, Call):
            path = self.path(node) if self.found else None
            if path is not None and path in self.found:
                return py.name(self.found[path])
            return self.call(node)
        if isinstance(node, ListNode):
            if node.optionals:
                raise py.Unsupported
            return py.List([self.make(element) for element in node.elements], ast.Load())
        if isinstance(node, MapNode):
            return self.map(node)
        if isinstance(node, Struct):
            raise py.Unsupported
        assert isinstance(node, Comprehension)
        return self.comprehension(node)

    def condition(self, node: Node) -> ast.expr:
        """An expression that is surely a bool."""
        made = self.make(node)
        if self.sure(node).kind == "bool" and not self.type(node).nullable:
            return made
        temporary = self.fresh()
        stored = py.NamedExpr(py.Name(temporary, ast.Store()), made)
        wrong = py.BoolOp(
            ast.And(),
            [py.compare(py.name(temporary), ast.IsNot(), py.constant(False)), self.helper("_bool", py.name(temporary))],
        )
        return py.BoolOp(ast.Or(), [py.compare(stored, ast.Is(), py.constant(True)), wrong])

    def variable(self, name: str) -> ast.expr:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        name = name.removeprefix(".")
        if self.env.attribute_activation:
            return py.Attribute(py.name("V"), name, ast.Load())
        return py.item(py.name("V"), py.Constant(name))

    def is_optional(self, node: Node) -> bool:
        return self.sure(node).name == "optional_type"

    def select(self, node: Select) -> ast.expr:
        name = self.checked.names.get(node.id)
        if name is not None:
            return self.variable(name)
        operand = self.make(node.operand)
        key = py.Constant(node.field)
        if node.test_only:
            return self.presence(operand, key)
        if self.is_optional(node.operand):
            return self.helper("_optional_select", operand, key)
        return py.item(operand, key)

    def presence(self, operand: ast.expr, key: ast.expr) -> ast.expr:
        """`key in operand` for a plain dict; the helper knows the rest."""
        temporary = self.fresh()
        stored = py.NamedExpr(py.Name(temporary, ast.Store()), operand)
        self.names["dict"] = dict
        plain = py.compare(py.Attribute(stored, "__class__", ast.Load()), ast.Is(), py.name("dict"))
        found = py.compare(key, ast.In(), py.name(temporary))
        return py.IfExp(plain, found, self.helper("_has", py.name(temporary), key))

    def map(self, node: MapNode) -> ast.expr:
        if any(entry.optional for entry in node.entries):
            raise py.Unsupported
        made = [(self.make(entry.key), self.make(entry.value)) for entry in node.entries]
        if all(self.sure(entry.key).kind == "string" for entry in node.entries):
            return py.Dict([key for key, _ in made], [value for _, value in made])
        return self.helper("_make_map", py.Tuple([py.Tuple([k, v], ast.Load()) for k, v in made], ast.Load()))

    # -- calls ------------------------------------------------------------------------------------------------

    def call(self, node: Call) -> ast.expr:
        function, args = node.function, node.args
        if function in ("_&&_", "_||_"):
            operator = ast.And() if function == "_&&_" else ast.Or()
            return py.BoolOp(operator, [self.condition(arg) for arg in self.terms(node)])
        if function == "_?_:_":
            return py.IfExp(self.condition(args[0]), self.make(args[1]), self.make(args[2]))
        if function == "!_":
            return py.UnaryOp(ast.Not(), self.condition(args[0]))
        if function in ("_==_", "_!=_"):
            return self.equality(args[0], args[1], function == "_!=_")
        if function in _COMPARED:
            return self.order(function, args[0], args[1])
        if function == "_[_]":
            return self.index(args[0], args[1])
        if function in ("_?._", "_[?_]"):
            return self.helper("_optional_select", self.make(args[0]), self.make(args[1]))
        if function == "@in":
            return self.membership(args[0], args[1])
        if function in _ARITHMETIC:
            return self.arithmetic(node)
        if function in ("or", "orValue") and node.target is not None and len(args) == 1:
            return self.or_else(node, function == "orValue")
        nodes = list(args) if node.target is None else [node.target, *args]
        run = self.implementation(node, nodes)
        if function in _PARSERS and all(isinstance(arg, Literal) for arg in nodes):
            return self.parsed(run, nodes)
        name = f"f{len(self.names)}"
        self.names[name] = run
        method = _METHODS.get(function)
        if method is not None and node.target is not None and self.sure(args[0]).kind == "string":
            return self.text_method(node, method, py.name(name))
        return py.call(py.name(name), *(self.make(arg) for arg in nodes))

    def text_method(self, node: Call, method: str, general: ast.expr) -> ast.expr:
        """A method of str where the target is one."""
        assert node.target is not None
        argument = self.make(node.args[0])

        def fast(value: ast.expr) -> ast.expr:
            if not method:
                return py.compare(argument, ast.In(), value)
            after = _after_prefix(argument) if method == "startswith" else None
            if after is not None:  # half the time of a method call
                return py.Compare(argument, [ast.LtE(), ast.Lt()], [value, py.Constant(after)])
            return py.call(py.Attribute(value, method, ast.Load()), argument)

        target = self.make(node.target)
        if self.sure(node.target).kind == "string":
            return fast(target)
        return self.guarded(target, str, fast, lambda value: py.call(general, value, argument))

    def parsed(self, run: Callable[..., Any], nodes: Sequence[Node]) -> ast.expr:
        """`quantity('40Gi')` and its like are read once, here."""
        try:
            return self.value(run(*(arg.value for arg in nodes if isinstance(arg, Literal))))
        except Fault:
            raise py.Unsupported from None

    def terms(self, node: Call) -> list[Node]:
        found: list[Node] = []
        for arg in node.args:
            if isinstance(arg, Call) and arg.function == node.function:
                found += self.terms(arg)
            else:
                found.append(arg)
        return found

    def implementation(self, node: Call, args: Sequence[Node]) -> Callable[..., Any]:
        """What the call runs; unguarded where the checker knows the arguments' types."""
        declared = self.env.functions.get(node.function)
        if declared is None:
            raise py.Unsupported
        chosen = self.checked.overloads.get(node.id, ())
        overload_id = chosen[0] if len(chosen) == 1 else ""
        item = declared.by_id.get(overload_id)
        if item is not None and item.impl is not None and all(map(_certain, item.args, map(self.sure, args))):
            return item.impl
        binding: Binding | None = declared.binding(overload_id, len(args))
        if binding is None or not binding.strict:
            raise py.Unsupported
        return binding.call

    def guarded(
        self,
        left: ast.expr,
        python_class: builtins.type,
        fast: Callable[[ast.expr], ast.expr],
        slow: Callable[[ast.expr], ast.expr],
    ) -> ast.expr:
        """`fast` when the value's class is the expected one, else `slow`."""
        temporary = self.fresh()
        stored = py.NamedExpr(py.Name(temporary, ast.Store()), left)
        self.names[python_class.__name__] = python_class
        test = py.compare(py.Attribute(stored, "__class__", ast.Load()), ast.Is(), py.name(python_class.__name__))
        return py.IfExp(test, fast(py.name(temporary)), slow(py.name(temporary)))

    def equality(self, left: Node, right: Node, negated: bool) -> ast.expr:
        helper = "_not_equal" if negated else "_equal"
        operator: ast.cmpop = ast.NotEq() if negated else ast.Eq()
        left_type, right_type = self.sure(left), self.sure(right)
        a, b = self.make(left), self.make(right)
        plain = left_type.kind == right_type.kind and left_type.kind in (
            "string",
            "bytes",
            "bool",
            "int",
            "uint",
            "double",
        )
        if plain and not left_type.nullable and not right_type.nullable:
            return py.compare(a, operator, b)
        constant = b.value if isinstance(b, ast.Constant) else None
        if left_type.is_dyn and constant.__class__ is str and not negated:
            return py.compare(a, operator, b)  # values that refuse the comparison raise in their __eq__
        if left_type.is_dyn and constant.__class__ in (str, int):
            kind = constant.__class__
            return self.guarded(a, kind, lambda t: py.compare(t, operator, b), lambda t: self.helper(helper, t, b))
        return self.helper(helper, a, b)

    def order(self, function: str, left: Node, right: Node) -> ast.expr:
        operator, slow = _COMPARED[function]
        left_type, right_type = self.sure(left), self.sure(right)
        a, b = self.make(left), self.make(right)
        if left_type.kind == right_type.kind and left_type.kind in ("int", "uint", "string", "bytes"):
            return py.compare(a, operator(), b)
        self.names[slow.__name__] = slow

        def general(value: ast.expr) -> ast.expr:
            return py.call(py.name(slow.__name__), value, b)

        constant = b.value if isinstance(b, ast.Constant) else None
        if constant.__class__ in (str, int) and left_type.is_dyn:
            return self.guarded(a, constant.__class__, lambda t: py.compare(t, operator(), b), general)
        return general(a)

    def index(self, operand: Node, key: Node) -> ast.expr:
        value, made = self.make(operand), self.make(key)
        if self.is_optional(operand):
            return self.helper("_optional_select", value, made)
        text = self.sure(key).kind == "string"
        constant = isinstance(key, Literal) and key.value.__class__ is str
        if (text and self.sure(operand).kind == "map") or (constant and self.sure(operand).is_dyn):
            return py.item(value, made)
        return self.helper("_index", value, made)

    def membership(self, element: Node, container: Node) -> ast.expr:
        made = self.make(element)
        values = self.constants.get(container.id)
        if values.__class__ is list:
            if all(value.__class__ is str for value in values):
                return py.compare(made, ast.In(), self.value(frozenset(values)))
            if all(value.__class__ in (str, int, bool, float) for value in values):
                return self.helper("_member", made, self.value(frozenset(member_key(value) for value in values)))
        target = self.make(container)
        if self.sure(container).kind == "map" and self.sure(element).kind == "string":
            return py.compare(made, ast.In(), target)
        return self.helper("_in", made, target)

    def arithmetic(self, node: Call) -> ast.expr:
        kinds = {self.sure(arg).kind for arg in node.args}
        made = [self.make(arg) for arg in node.args]
        if node.function == "_+_" and kinds == {"string"}:
            return py.BinOp(made[0], ast.Add(), made[1])
        run = _ARITHMETIC[node.function]
        self.names[run.__name__] = run
        return py.call(py.name(run.__name__), *made)

    def or_else(self, node: Call, unwrap: bool) -> ast.expr:
        assert node.target is not None
        temporary = self.fresh()
        stored = py.NamedExpr(py.Name(temporary, ast.Store()), self.make(node.target))
        value = py.name(temporary)
        found = py.Attribute(value, "value", ast.Load()) if unwrap else value
        return py.IfExp(self.helper("_or_else", stored), found, self.make(node.args[0]))

    # -- macros -----------------------------------------------------------------------------------------------

    def comprehension(self, node: Comprehension) -> ast.expr:
        if is_bind(node):
            return self.bind(node)
        if node.accu_var != ACCUMULATOR:
            raise py.Unsupported
        items = self.make(node.iter_range)
        if node.iter_var2:
            items = self.helper("_pairs", items)
        elif self.sure(node.iter_range).kind != "list":
            items = self.helper("_items", items)
        return self.loop(node, items)

    def bind(self, node: Comprehension) -> ast.expr:
        value = self.helper("_bound", self.make(node.accu_init))
        name = self.fresh()
        self.scopes.append({node.accu_var: py.name(name)})
        with self.trusting({node.accu_var: self.trusted(node.accu_init)}):
            body = self.make(node.result)
        self.scopes.pop()
        return py.call(py.function([name], body), value)

    def over(self, node: Comprehension, make: Callable[[], ast.expr]) -> ast.expr:
        """A function of the loop's variables."""
        name = self.fresh()
        scope: dict[str, ast.expr] = {}
        if node.iter_var2:
            scope[node.iter_var] = py.item(py.name(name), py.Constant(0))
            scope[node.iter_var2] = py.item(py.name(name), py.Constant(1))
        else:
            scope[node.iter_var] = py.name(name)
        sure_range = self.trusted(node.iter_range) and not self.type(node.iter_range).is_dyn
        self.scopes.append(scope)
        with self.trusting({node.iter_var: sure_range, node.iter_var2: sure_range}):
            body = make()
        self.scopes.pop()
        return py.function([name], body)

    def loop(self, node: Comprehension, items: ast.expr) -> ast.expr:
        step = node.step
        if not isinstance(step, Call):
            raise py.Unsupported
        if step.function in ("_&&_", "_||_"):
            predicate = step.args[1]
            unrolled = self.unrolled(node, predicate, step.function == "_&&_")
            if unrolled is not None:
                return unrolled
            helper = "_all" if step.function == "_&&_" else "_exists"
            return self.helper(helper, items, self.over(node, lambda: self.condition(predicate)))
        keep: Node | None = None
        if step.function == "_?_:_":
            keep, chosen = step.args[0], step.args[1]
            if not isinstance(chosen, Call):
                raise py.Unsupported
            step = chosen
        if step.function != "_+_":
            raise py.Unsupported
        added = step.args[1]
        if isinstance(added, Literal):
            assert keep is not None
            counted = keep
            return self.helper("_exists_one", items, self.over(node, lambda: self.condition(counted)))
        if not isinstance(added, ListNode):
            raise py.Unsupported
        value = added.elements[0]
        make = self.over(node, lambda: self.make(value))
        if keep is None:
            return self.helper("_map", items, make)
        kept = keep
        return self.helper("_map_some", items, self.over(node, lambda: self.condition(kept)), make)

    def unrolled(self, node: Comprehension, predicate: Node, conjunction: bool) -> ast.expr | None:
        """A quantifier over a few constants is a chain of `and` or `or`."""
        values = self.constants.get(node.iter_range.id)
        if (
            values.__class__ is not list
            or not 1 < len(values) <= _MAX_UNROLLED
            or node.iter_var2
            or _size(predicate) > _MAX_BODY
        ):
            return None
        if any(value.__class__ not in (str, int) for value in values):
            return None
        terms = []
        for value in values:
            self.scopes.append({node.iter_var: py.Constant(value)})
            terms.append(self.condition(predicate))
            self.scopes.pop()
        return py.BoolOp(ast.And() if conjunction else ast.Or(), terms)


def _has_params(typ: Type) -> bool:
    return typ.kind == "param" or any(_has_params(param) for param in typ.params)


def _guessed(param: Type, actual: Type) -> bool:
    """Whether the checker took dyn for something with a parameter inside, which then has another argument's type."""
    if actual.is_dyn:
        return param.kind != "param" and _has_params(param)
    return any(map(_guessed, param.params, actual.params))


def _size(node: Node) -> int:
    """How many nodes an expression has; loops count as too many."""
    if isinstance(node, Comprehension):
        return _MAX_BODY + 1
    return 1 + sum(_size(child) for child in children(node))


def _certain(param: Type, actual: Type) -> bool:
    """The checker proved that the argument has the declared type, down to its elements."""
    if param.kind in ("dyn", "any", "param"):
        return True
    if actual.kind != param.kind or actual.name != param.name or actual.nullable:
        return False
    return all(map(_certain, param.params, actual.params))


def generate(
    checked: Checked,
    env: Environment,
    plan: Plan,
    fallback: Callable[[Any], Any] | None = None,
    *,
    decides: bool = False,
) -> Fast | None:
    """The fast form of a program, or None where there is none.

    With a `fallback`, it calls that where it would raise. `decides`: anything but a bool as the result counts as that, too.
    """
    if checked.parsed.nesting > _MAX_LEVELS or env.lazy_variables:
        return None
    generator = _Generator(checked, env, plan)
    try:
        code = compile(generator.module(checked.root, fallback, decides), "<cel>", "exec")
        exec(code, generator.names)  # noqa: S102  # our own nodes, no text of the user's
        made: Fast = generator.names["fast"]
    except (py.Unsupported, RecursionError, SyntaxError, ValueError, MemoryError, Fault):
        return None
    return made
