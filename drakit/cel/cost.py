"""The static worst case: how much an expression can cost at most, in cel-go's units.

A walk like cel-go's (checker/cost.go) with Kubernetes' prices per function. Sizes of inputs come from the
environment's `size_of`, which knows the declared maximum for a path such as ("device", "driver").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from drakit.cel import prices
from drakit.cel.checker import Checked
from drakit.cel.environment import Environment
from drakit.cel.planner import is_bind
from drakit.cel.sizes import LIST_BASE, MAP_BASE, MAX, ONE, REGEX, STRING, STRUCT_BASE, UNKNOWN, ZERO, Operand, Range
from drakit.cel.syntax import Call, Comprehension, Ident, ListNode, Literal, MapNode, Node, Select, Struct
from drakit.cel.types import DYN, Type

__all__ = ["MAX", "Range", "estimate"]


class _Entry(NamedTuple):
    """Sizes of the keys and values of a list or map."""

    kind: str
    key: Range
    value: Range

    def union(self, other: _Entry | None) -> _Entry | None:
        if other is None:
            return None
        return _Entry(self.kind, self.key.union(other.key), self.value.union(other.value))


class _Local(NamedTuple):
    path: tuple[str, ...]
    size: Range | None
    entry: _Entry | None


class _Estimator:
    def __init__(self, checked: Checked, env: Environment) -> None:
        self.checked = checked
        self.size_of: Callable[[tuple[str, ...]], int | None] = env.size_of
        self.presence = env.presence_costs
        self.paths: dict[int, tuple[str, ...]] = {}
        self.sizes: dict[int, Range] = {}
        self.entries: dict[int, _Entry] = {}
        self.locals: dict[str, list[_Local]] = {}

    # -- what is known of a node ------------------------------------------------------------------------------

    def local(self, name: str) -> _Local | None:
        stack = self.locals.get(name)
        return stack[-1] if stack else None

    def path(self, node: Node) -> tuple[str, ...]:
        if isinstance(node, Ident):
            found = self.local(node.name)
            if found is not None:
                return found.path
        return self.paths.get(node.id, ())

    def type(self, node: Node) -> Type:
        return self.checked.types.get(node.id, DYN)

    def declared(self, path: tuple[str, ...]) -> Range | None:
        size = self.size_of(path) if path else None
        return None if size is None else Range(0, size)

    def size(self, node: Node) -> Range | None:
        known = self.sizes.get(node.id)
        if known is not None:
            return known
        known = _literal_size(node)
        if known is not None:
            return known
        known = self.declared(self.path(node))
        if known is not None:
            self.sizes[node.id] = known
            return known
        if _is_scalar(self.type(node)):
            return ONE
        if isinstance(node, Ident):
            found = self.local(node.name)
            if found is not None:
                return found.size
        return None

    def size_or_unknown(self, node: Node) -> Range:
        return self.size(node) or UNKNOWN

    def entry(self, node: Node) -> _Entry | None:
        known = self.entries.get(node.id)
        if known is not None:
            return known
        if isinstance(node, Ident):
            found = self.local(node.name)
            if found is not None:
                return found.entry
        return None

    def set_size(self, node: Node, size: Range | None) -> None:
        if size is not None:
            self.sizes[node.id] = size

    def set_entry(self, node: Node, entry: _Entry | None) -> None:
        if entry is not None:
            self.entries[node.id] = entry

    def operand(self, node: Node) -> Operand:
        path = self.path(node)
        if path and path[0] in ("@result", "__result__"):
            path = ()
        return Operand(node, self.type(node), path, self.size(node))

    def operand_size(self, operand: Operand) -> Range:
        """As Kubernetes' estimator sees it: a declared size counts even where none was computed."""
        if operand.size is not None:
            return operand.size
        return self.declared(operand.path) or UNKNOWN

    # -- costs ------------------------------------------------------------------------------------------------

    def cost(self, node: Node) -> Range:
        if isinstance(node, Literal):
            return ZERO
        if isinstance(node, Ident):
            name = self.checked.names.get(node.id, node.name)
            found = self.local(node.name)
            self.paths[node.id] = found.path if found is not None else (name,)
            return ONE
        if isinstance(node, Select):
            return self.cost_select(node)
        if isinstance(node, Call):
            return self.cost_call(node)
        if isinstance(node, ListNode):
            return self.cost_list(node)
        if isinstance(node, MapNode):
            return self.cost_map(node)
        if isinstance(node, Struct):
            total = Range(STRUCT_BASE, STRUCT_BASE)
            for _, _, value, _ in node.fields:
                total = total.plus(self.cost(value))
            return total
        assert isinstance(node, Comprehension)
        return self.cost_bind(node) if is_bind(node) else self.cost_comprehension(node)

    def cost_select(self, node: Select) -> Range:
        if node.id in self.checked.names:
            self.paths[node.id] = (self.checked.names[node.id],)
            return ONE
        if node.test_only:
            return Range(self.presence, self.presence).plus(self.cost(node.operand))
        total = self.cost(node.operand)
        if self.type(node.operand).kind in ("map", "struct", "param"):
            total = total.plus(ONE)
        self.paths[node.id] = (*self.path(node.operand), node.field)
        return total

    def cost_call(self, node: Call) -> Range:
        if node.function == "dyn":
            (arg,) = node.args
            total = ONE.plus(self.cost(arg))
            self.set_size(node, self.size(arg))
            self.set_entry(node, self.entry(arg))
            return total
        costs, operands = [], []
        for arg in node.args:
            costs.append(self.cost(arg))
            operands.append(self.operand(arg))
        chosen = self.checked.overloads.get(node.id, ())
        if not chosen:
            return ZERO
        total, target = ZERO, None
        if node.target is not None:
            total = self.cost(node.target)
            target = self.operand(node.target)
        most = Range(MAX, 0)
        result: Range | None = None
        for overload_id in chosen:
            price, size = self.price(node, overload_id, target, operands, costs)
            most = most.union(price)
            if size is not None:
                result = size if result is None else result.union(size)
            if overload_id in ("index_list", "index_map") and node.args:
                entry = self.entry(node.args[0])
                result = None if entry is None else entry.value
                step = "@items" if overload_id == "index_list" else "@values"
                self.paths[node.id] = (*self.path(node.args[0]), step)
            if result is None:
                result = self.size(node)
        self.set_size(node, result)
        return total.plus(most)

    def cost_list(self, node: ListNode) -> Range:
        total = Range(LIST_BASE, LIST_BASE)
        item = Range(MAX, 0) if node.elements else ZERO
        for element in node.elements:
            total = total.plus(self.cost(element))
            item = item.union(self.size_or_unknown(element))
        self.entries[node.id] = _Entry("list", ONE, item)
        return total

    def cost_map(self, node: MapNode) -> Range:
        total = Range(MAP_BASE, MAP_BASE)
        key = value = Range(MAX, 0) if node.entries else ZERO
        for entry in node.entries:
            total = total.plus(self.cost(entry.key)).plus(self.cost(entry.value))
            key = key.union(self.size_or_unknown(entry.key))
            value = value.union(self.size_or_unknown(entry.value))
        self.entries[node.id] = _Entry("map", key, value)
        return total

    def push(self, name: str, local: _Local) -> None:
        self.locals.setdefault(name, []).append(local)

    def push_value(self, name: str, node: Node) -> None:
        self.push(name, _Local(self.path(node), self.size(node), self.entry(node)))

    def push_iteration(self, name: str, over: Node, part: str) -> None:
        """`part`: key, value, or single (the value of a list, the key of a map)."""
        entry = self.entry(over)
        kind = entry.kind if entry is not None else self.type(over).kind
        is_list = kind == "list"
        if part == "single":
            part = "value" if is_list else "key"
        if part == "key":
            step, size = ("@indices" if is_list else "@keys"), entry.key if entry else None
        else:
            step, size = ("@items" if is_list else "@values"), entry.value if entry else None
        self.push(name, _Local((*self.path(over), step), size, None))

    def cost_comprehension(self, node: Comprehension) -> Range:
        total = self.cost(node.iter_range).plus(self.cost(node.accu_init))
        self.push_value(node.accu_var, node.accu_init)
        if node.iter_var2:
            self.push_iteration(node.iter_var, node.iter_range, "key")
            self.push_iteration(node.iter_var2, node.iter_range, "value")
        else:
            self.push_iteration(node.iter_var, node.iter_range, "single")
        loop = self.cost(node.condition)
        step = self.cost(node.step)
        self.locals[node.iter_var].pop()
        if node.iter_var2:
            self.locals[node.iter_var2].pop()
        total = total.plus(self.cost(node.result))
        self.locals[node.accu_var].pop()
        count = self.size_or_unknown(node.iter_range)
        total = total.plus(count.times(step.plus(loop)))
        if isinstance(node.accu_init, Literal):
            self.set_size(node, self.size(node.accu_init))
        elif isinstance(node.accu_init, (ListNode, MapNode)):
            self.set_size(node, count)
            self.set_entry(node, self.entry(node.step))
        return total

    def cost_bind(self, node: Comprehension) -> Range:
        total = self.cost(node.iter_range).plus(self.cost(node.accu_init))
        self.push_value(node.accu_var, node.accu_init)
        total = total.plus(self.cost(node.result))
        self.locals[node.accu_var].pop()
        self.set_size(node, self.size(node.result))
        self.set_entry(node, self.entry(node.result))
        return total

    # -- prices of calls --------------------------------------------------------------------------------------

    def price(
        self, node: Call, overload_id: str, target: Operand | None, args: Sequence[Operand], costs: Sequence[Range]
    ) -> tuple[Range, Range | None]:
        """The cost of one overload with its arguments, and the size of its result where known."""
        given = ZERO
        for cost in costs:
            given = given.plus(cost)
        found = prices.extension(self, overload_id, target, args)
        if found is None:
            found = prices.kubernetes(self, node.function, overload_id, target, args)
        if found is not None:
            return found[0].plus(given), found[1]
        return self.standard(node, overload_id, target, args, costs, given)

    def standard(
        self,
        node: Call,
        overload_id: str,
        target: Operand | None,
        args: Sequence[Operand],
        costs: Sequence[Range],
        given: Range,
    ) -> tuple[Range, Range | None]:
        def sized(operand: Operand) -> Range:
            return operand.size or UNKNOWN

        if overload_id == "string_format" and target is not None:
            return sized(target).scaled(STRING).plus(given), None
        if overload_id == "string_to_bytes" and len(args) == 1:
            size = sized(args[0])
            return size.scaled(STRING).plus(given), Range(size.low, size.high * 4 & MAX)
        if overload_id == "bytes_to_string" and len(args) == 1:
            size = sized(args[0])
            return size.scaled(STRING).plus(given), Range(size.low // 4, size.high)
        if overload_id == "strings_quote" and len(args) == 1:
            size = sized(args[0])
            return size.scaled(STRING).plus(given), Range(size.low + 2, size.high * 2 + 2 & MAX)
        if overload_id in ("starts_with_string", "ends_with_string") and len(args) == 1:
            return sized(args[0]).scaled(STRING).plus(given), None
        if overload_id == "in_list":
            return sized(args[1]).scaled(1).plus(given), None
        if overload_id in ("matches", "matches_string"):
            value, pattern = (target, args[0]) if target is not None else (args[0], args[1])
            scan = sized(value).plus(ONE).scaled(STRING)
            return scan.times(sized(pattern).scaled(REGEX)).plus(given), None
        if overload_id == "contains_string" and target is not None:
            return sized(target).scaled(STRING).times(sized(args[0]).scaled(STRING)).plus(given), None
        if overload_id in ("logical_or", "logical_and"):
            return Range(costs[0].low, costs[0].plus(costs[1]).high), None
        if overload_id == "conditional":
            return self.conditional(node, args, costs)
        if overload_id in ("add_string", "add_bytes", "add_list"):
            return self.addition(node, overload_id, args, given)
        if overload_id in _COMPARED:
            smallest = min(sized(args[0]).high, sized(args[1]).high)
            return Range(1 if smallest > 0 else 0, smallest).scaled(STRING).plus(given), None
        return ONE.plus(given), None

    def conditional(self, node: Call, args: Sequence[Operand], costs: Sequence[Range]) -> tuple[Range, Range | None]:
        size = (args[1].size or UNKNOWN).union(args[2].size or UNKNOWN)
        entry = self.entry(node.args[1])
        self.set_entry(node, None if entry is None else entry.union(self.entry(node.args[2])))
        return costs[0].plus(costs[1].union(costs[2])), size

    def addition(
        self, node: Call, overload_id: str, args: Sequence[Operand], given: Range
    ) -> tuple[Range, Range | None]:
        size = (args[0].size or UNKNOWN).plus(args[1].size or UNKNOWN)
        entry = self.entry(node.args[0])
        self.set_entry(node, None if entry is None else entry.union(self.entry(node.args[1])))
        if overload_id == "add_list":
            return ONE.plus(given), size
        return size.scaled(STRING).plus(given), size


_COMPARED: Final = frozenset(
    {
        f"{order}_{kind}"
        for order in ("less", "greater", "less_equals", "greater_equals")
        for kind in ("string", "bytes")
    }
    | {"equals", "not_equals"}
)


def _literal_size(node: Node) -> Range | None:
    if isinstance(node, Literal):
        length = len(node.value) if isinstance(node.value, (str, bytes)) else 1
        return Range(length, length)
    if isinstance(node, ListNode):
        return Range(len(node.elements), len(node.elements))
    if isinstance(node, MapNode):
        return Range(len(node.entries), len(node.entries))
    return None


def _is_scalar(typ: Type) -> bool:
    if typ.kind in ("bool", "double", "duration", "int", "timestamp", "uint"):
        return True
    return typ.kind == "opaque" and typ.name == "optional_type" and _is_scalar(typ.params[0])


def estimate(checked: Checked, env: Environment) -> Range:
    """The least and the most that an evaluation can cost."""
    return _Estimator(checked, env).cost(checked.root)
