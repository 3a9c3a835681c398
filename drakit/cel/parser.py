"""Tokens to the syntax tree, with macros expanded on the way, as cel-go does.

Recursive descent with precedence climbing, for correct input only: at the first token that does not fit, the
parse is dropped and `recovery` reads the tokens again to produce ANTLR's messages. cel-go's limits hold: 250
levels of nested rules, 250 nested operators, 100,000 code points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from drakit.cel import lexer, recovery
from drakit.cel.lexer import Token
from drakit.cel.recovery import RESERVED
from drakit.cel.recursion import with_room
from drakit.cel.source import NOWHERE, Issue, Source
from drakit.cel.syntax import Call, Ident, ListNode, Literal, MapEntry, MapNode, Node, Select, Struct
from drakit.cel.values import UInt

__all__ = ["MAX_CODE_POINTS", "MAX_DEPTH", "Macro", "MacroError", "Macros", "Parsed", "Scope", "parse"]

MAX_DEPTH = 250
MAX_CODE_POINTS = 100_000
MAX_NODES = 100_000  # `optMap` repeats its target, so a chain of them doubles at every step; cel-go lets it
_RELATIONS = {op: f"_{op}_" for op in ("<", "<=", ">=", ">", "==", "!=")} | {"in": "@in"}
_BINARY = {op: (3, name) for op, name in _RELATIONS.items()}
_BINARY |= {op: (4, f"_{op}_") for op in "+-"} | {op: (5, f"_{op}_") for op in "*/%"}


@dataclass
class Parsed:
    """The tree, where each node begins, and the issues found (then `root` is None)."""

    source: Source
    root: Node | None
    offsets: dict[int, int]
    issues: list[Issue]
    nesting: int = 0  # brackets around the deepest token: how much stack a walk may need


class MacroError(Exception):
    """A macro was called with arguments it cannot take; the node says where."""

    def __init__(self, node: Node, message: str) -> None:
        super().__init__(message)
        self.node = node


class _Unexpected(Exception):
    """The token at the parser's position does not fit."""


class _TooDeep(Exception):
    """A recursion limit; carries the text."""


class Scope:
    """Makes the nodes of one macro expansion: all stand at the position of the call."""

    def __init__(self, parser: _Parser, offset: int) -> None:
        self._parser = parser
        self._offset = offset

    def id(self) -> int:
        return self._parser.new_id(self._offset)

    def like(self, node: Node) -> int:
        """A new id at the position of `node`."""
        return self._parser.new_id(self._parser.offsets.get(node.id, self._offset))

    def literal(self, value: Any) -> Node:
        return Literal(self.id(), value)

    def ident(self, name: str) -> Node:
        return Ident(self.id(), name)

    def call(self, function: str, *args: Node) -> Node:
        return Call(self.id(), function, None, args)

    def member_call(self, function: str, target: Node, *args: Node) -> Node:
        return Call(self.id(), function, target, args)

    def list(self, *elements: Node) -> Node:
        return ListNode(self.id(), elements)

    def map(self) -> Node:
        return MapNode(self.id(), ())

    def presence(self, operand: Node, name: str) -> Node:
        return Select(self.id(), operand, name, test_only=True)


Macro = Callable[[Scope, Node | None, list[Node]], Node | None]
# (name, number of arguments, called on a target) -> expander
Macros = Mapping[tuple[str, int, bool], Macro]


class _Parser:
    def __init__(self, source: Source, tokens: list[Token], macros: Macros, optional_syntax: bool) -> None:
        self.source = source
        self.tokens = tokens
        self.macros = macros
        self.optional_syntax = optional_syntax
        self.at = 0
        self.offsets: dict[int, int] = {}
        self.issues: list[Issue] = []
        # how often the grammar's recursive rules are entered right now
        self.exprs = 0
        self.relations = 0
        self.calcs = 0

    # -- nodes ------------------------------------------------------------------------------------------------

    def new_id(self, offset: int) -> int:
        id = len(self.offsets) + 1
        if id > MAX_NODES:
            raise _TooDeep(f"expression too large: more than {MAX_NODES} nodes")
        self.offsets[id] = offset
        return id

    def report(self, offset: int, message: str) -> Node:
        self.issues.append(Issue(self.source.location(offset), message))
        return Literal(self.new_id(offset), None)

    def take(self, kind: str) -> Token:
        token = self.tokens[self.at]
        if token.kind != kind:
            raise _Unexpected
        self.at += 1
        return token

    def call(self, function: str, offset: int, target: Node | None, args: list[Node]) -> Node:
        """A call, or what the macro of that name makes of it."""
        expand = self.macros.get((function, len(args), target is not None))
        if expand is not None:
            try:
                expanded = expand(Scope(self, offset), target, args)
            except MacroError as error:
                return self.report(self.offsets.get(error.node.id, offset), str(error))
            if expanded is not None:
                expanded.depth = _deepest(args, target)
                return expanded
        node = Call(self.new_id(offset), function, target, args)
        node.depth = _deepest(args, target)
        return node

    # -- rules ------------------------------------------------------------------------------------------------

    def start(self) -> Node:
        node = self.expr()
        self.take(lexer.EOF)
        return node

    def expr(self) -> Node:
        self.exprs += 1
        if self.exprs > MAX_DEPTH:
            raise _TooDeep(f"expression recursion limit exceeded: {MAX_DEPTH}")
        node = self.logical("||", "_||_")
        token = self.tokens[self.at]
        if token.kind == "?":
            self.at += 1
            id_offset = token.offset
            if_true = self.logical("||", "_||_")
            self.take(":")
            if_false = self.expr()
            ternary = Call(self.new_id(id_offset), "_?_:_", None, [node, if_true, if_false])
            ternary.depth = _limit(1 + max(node.depth, if_true.depth, if_false.depth))
            node = ternary
        self.exprs -= 1
        return node

    def logical(self, op: str, function: str) -> Node:
        """A chain of `||` or `&&`, built as a balanced tree: long chains stay shallow."""
        first = self.logical("&&", "_&&_") if op == "||" else self.binary(3)
        if self.tokens[self.at].kind != op:
            return first
        terms, ops = [first], []
        while self.tokens[self.at].kind == op:
            offset = self.tokens[self.at].offset
            self.at += 1
            terms.append(self.logical("&&", "_&&_") if op == "||" else self.binary(3))
            ops.append(self.new_id(offset))
        node = _balance(function, terms, ops, 0, len(ops) - 1)
        node.depth = _deepest(terms, None)
        return node

    def binary(self, least: int) -> Node:
        relation = least <= 4  # the right side of `+` and `*` stays within the rule of sums and products
        self.relations += relation
        self.calcs += 1
        if self.relations > MAX_DEPTH or self.calcs > MAX_DEPTH:
            raise _TooDeep(f"expression recursion limit exceeded: {MAX_DEPTH}")
        left = self.unary()
        while True:
            token = self.tokens[self.at]
            precedence, function = _BINARY.get(token.kind, (0, ""))
            if precedence < least:
                break
            self.at += 1
            id = self.new_id(token.offset)
            right = self.binary(precedence + 1)
            node = Call(id, function, None, [left, right])
            node.depth = _limit(1 + max(left.depth, right.depth))
            left = node
        self.relations -= relation
        self.calcs -= 1
        return left

    def unary(self) -> Node:
        token = self.tokens[self.at]
        if token.kind == "!":
            return self.repeated("!", "!_")
        if token.kind == "-" and self.tokens[self.at + 1].kind not in ("NUM_INT", "NUM_FLOAT"):
            return self.repeated("-", "-_")
        return self.member()

    def repeated(self, op: str, function: str) -> Node:
        """`!!x` is x; an odd number is one."""
        offset = self.tokens[self.at].offset
        count = 0
        while self.tokens[self.at].kind == op:
            self.at += 1
            count += 1
        if count % 2 == 0:
            return self.member()
        id = self.new_id(offset)
        operand = self.member()
        node = Call(id, function, None, [operand])
        node.depth = operand.depth
        return node

    def member(self) -> Node:
        node = self.primary()
        tokens = self.tokens
        while True:
            token = tokens[self.at]
            if token.kind == ".":
                self.at += 1
                node = self.selection(node, token)
            elif token.kind == "[":
                self.at += 1
                node = self.index(node, token)
            else:
                return node

    def selection(self, operand: Node, dot: Token) -> Node:
        optional = self.tokens[self.at].kind == "?"
        if optional:
            self.at += 1
        name = self.tokens[self.at]
        if name.kind not in ("IDENTIFIER", "ESC_IDENTIFIER"):
            raise _Unexpected
        self.at += 1
        if name.kind == "IDENTIFIER" and not optional and self.tokens[self.at].kind == "(":
            opening = self.take("(")
            args = self.arguments()
            depth = _limit(1 + _deepest(args, operand))
            node = self.call(name.text, opening.offset, operand, args)
            node.depth = depth
            return node
        field = name.text if name.kind == "IDENTIFIER" else name.text[1:-1]
        if optional:
            if not self.optional_syntax:
                return self.report(dot.offset, "unsupported syntax '.?'")
            id = self.new_id(dot.offset)
            call = Call(id, "_?._", None, [operand, Literal(self.new_id(name.offset), field)])
            call.depth = _limit(1 + operand.depth)
            return call
        select = Select(self.new_id(dot.offset), operand, field)
        _limit(select.depth)
        return select

    def index(self, operand: Node, bracket: Token) -> Node:
        optional = self.tokens[self.at].kind == "?"
        if optional:
            self.at += 1
        id = self.new_id(bracket.offset)
        key = self.expr()
        self.take("]")
        if optional and not self.optional_syntax:
            return self.report(bracket.offset, "unsupported syntax '[?'")
        node = Call(id, "_[?_]" if optional else "_[_]", None, [operand, key])
        node.depth = _limit(1 + max(operand.depth, key.depth))
        return node

    def arguments(self) -> list[Node]:
        """After the opening parenthesis, up to and including the closing one."""
        args: list[Node] = []
        if self.tokens[self.at].kind != ")":
            args.append(self.expr())
            while self.tokens[self.at].kind == ",":
                self.at += 1
                args.append(self.expr())
        self.take(")")
        return args

    def primary(self) -> Node:
        token = self.tokens[self.at]
        kind = token.kind
        if kind == "IDENTIFIER" or kind == ".":
            return self.name()
        if kind == "(":
            self.at += 1
            node = self.expr()
            self.take(")")
            return node
        if kind == "[":
            return self.list_literal()
        if kind == "{":
            return self.map_literal()
        return self.literal()

    def name(self) -> Node:
        leading = "." if self.tokens[self.at].kind == "." else ""
        begin = self.tokens[self.at]
        self.at += len(leading)
        token = self.take("IDENTIFIER")
        following = self.tokens[self.at].kind
        if following in (".", "{"):
            end = self.message_brace()
            if end is not None:
                return self.message(leading, end)
        if following == "(":
            opening = self.take("(")
            if token.text in RESERVED:
                self.arguments()
                return self.report(begin.offset, f"reserved identifier: {token.text}")
            return self.call(leading + token.text, opening.offset, None, self.arguments())
        if token.text in RESERVED:
            return self.report(begin.offset, f"reserved identifier: {token.text}")
        return Ident(self.new_id(token.offset), leading + token.text)

    def message_brace(self) -> int | None:
        """The position of `{` when `a.b.c {` begins here: then it builds a message."""
        at = self.at
        while self.tokens[at].kind == "." and self.tokens[at + 1].kind == "IDENTIFIER":
            at += 2
        return at if self.tokens[at].kind == "{" else None

    def message(self, leading: str, brace: int) -> Node:
        first = self.at - 1
        type_name = leading + "".join(token.text for token in self.tokens[first:brace])
        self.at = brace
        id = self.new_id(self.take("{").offset)
        fields: list[tuple[int, str, Node, bool]] = []
        for _ in self.items("}"):
            optional = self.tokens[self.at].kind == "?"
            self.at += optional
            token = self.tokens[self.at]
            if token.kind not in ("IDENTIFIER", "ESC_IDENTIFIER"):
                raise _Unexpected
            self.at += 1
            colon = self.take(":")
            field_id = self.new_id(colon.offset)
            name = token.text if token.kind == "IDENTIFIER" else token.text[1:-1]
            fields.append((field_id, name, self.expr(), optional))
        node = Struct(id, type_name, fields)
        node.depth = max((value.depth for _, _, value, _ in fields), default=0)
        return node

    def list_literal(self) -> Node:
        id = self.new_id(self.take("[").offset)
        elements: list[Node] = []
        optionals: set[int] = set()
        for _ in self.items("]"):
            if self.tokens[self.at].kind == "?":
                self.option(self.tokens[self.at])
                optionals.add(len(elements))
            elements.append(self.expr())
        node = ListNode(id, elements, frozenset(optionals))
        node.depth = _deepest(elements, None)
        return node

    def map_literal(self) -> Node:
        id = self.new_id(self.take("{").offset)
        entries: list[MapEntry] = []
        for _ in self.items("}"):
            optional = self.tokens[self.at].kind == "?"
            if optional:
                self.option(self.tokens[self.at])
            key = self.expr()
            entry_id = self.new_id(self.take(":").offset)
            entries.append(MapEntry(entry_id, key, self.expr(), optional))
        node = MapNode(id, entries)
        node.depth = max((max(entry.key.depth, entry.value.depth) for entry in entries), default=0)
        return node

    def items(self, close: str) -> Iterator[None]:
        """Stands before each item of a literal in turn, then behind its end. A comma may follow the last item, or be all there is."""
        if self.tokens[self.at].kind == ",":
            self.at += 1
        else:
            while self.tokens[self.at].kind not in (close, ","):
                yield
                if self.tokens[self.at].kind != ",":
                    break
                self.at += 1
        self.take(close)

    def option(self, token: Token) -> None:
        self.at += 1
        if not self.optional_syntax:
            self.report(token.offset, "unsupported syntax '?'")

    def literal(self) -> Node:
        token = self.tokens[self.at]
        offset, sign = token.offset, ""
        if token.kind == "-":
            sign = "-"
            self.at += 1
            token = self.tokens[self.at]
        read = _LITERALS.get(token.kind)
        if read is None or (sign and token.kind not in ("NUM_INT", "NUM_FLOAT")):
            raise _Unexpected
        self.at += 1
        try:
            value = read(sign + token.text)
        except ValueError as error:
            return self.report(offset, str(error))
        return Literal(self.new_id(offset), value)


def _read_int(text: str) -> int:
    value = _digits(text)
    if not -(2**63) <= value < 2**63:
        raise ValueError("invalid int literal")
    return value


def _digits(text: str) -> int:
    """Bounded before conversion: Python's int() takes quadratic time on, and refuses, very long digit strings."""
    if "0x" in text:
        return int(text.replace("0x", "", 1), 16)
    stripped = text.lstrip("-").lstrip("0")
    if len(stripped) > 20:
        return 2**70
    return int(text)


def _read_uint(text: str) -> UInt:
    value = _digits(text[:-1])
    if value >= 2**64:
        raise ValueError("invalid uint literal")
    return UInt(value)


def _read_double(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError("invalid double literal")
    return value


_LITERALS: dict[str, Callable[[str], Any]] = {
    "NUM_INT": _read_int,
    "NUM_UINT": _read_uint,
    "NUM_FLOAT": _read_double,
    "STRING": lexer.unquote,
    "BYTES": lexer.unquote_bytes,
    "true": lambda _: True,
    "false": lambda _: False,
    "null": lambda _: None,
}


def _deepest(nodes: list[Node], target: Node | None) -> int:
    depth = target.depth if target is not None else 0
    for node in nodes:
        if node.depth > depth:
            depth = node.depth
    return depth


def _limit(depth: int) -> int:
    if depth > MAX_DEPTH:
        raise _TooDeep("max recursion depth exceeded")
    return depth


def _balance(function: str, terms: list[Node], ops: list[int], low: int, high: int) -> Node:
    middle = (low + high + 1) // 2
    left = terms[middle] if middle == low else _balance(function, terms, ops, low, middle - 1)
    right = terms[middle + 1] if middle == high else _balance(function, terms, ops, middle + 1, high)
    return Call(ops[middle], function, None, [left, right])


def _nesting(tokens: list[Token]) -> int:
    """How deep the brackets (and ternaries, which nest without any) go; enough to size the stack."""
    depth = deepest = ternaries = 0
    for token in tokens:
        if token.kind in "([{":
            depth += 1
            if depth > deepest:
                deepest = depth
        elif token.kind in ")]}":
            depth -= 1
        elif token.kind == "?":
            ternaries += 1
    return deepest + min(ternaries, MAX_DEPTH)


def parse(text: str, macros: Macros, *, optional_syntax: bool = True) -> Parsed:
    """Never raises: what is wrong with the text stands in `issues`."""
    source = Source(text)
    if len(text) > MAX_CODE_POINTS:
        message = f"expression code point size exceeds limit: size: {len(text)}, limit {MAX_CODE_POINTS}"
        return Parsed(source, None, {}, [Issue(NOWHERE, message)])
    tokens, issues, unread = lexer.tokenize(source)
    nesting = _nesting(tokens)
    parser = _Parser(source, tokens, macros, optional_syntax)
    try:
        root = with_room(min(nesting, MAX_DEPTH + 2), parser.start)
    except _Unexpected:
        issues += recovery.diagnose(source, tokens, frozenset(unread))
        return Parsed(source, None, parser.offsets, issues)
    except _TooDeep as error:
        return Parsed(source, None, parser.offsets, [Issue(NOWHERE, str(error)), *issues])
    issues += parser.issues
    levels = min(nesting, MAX_DEPTH) + root.depth
    return Parsed(source, None if issues else root, parser.offsets, issues, levels)
