"""Random expressions from a seed: well-typed more often than not, and of plain CEL only (what every engine should know)."""

from __future__ import annotations

import random
from collections.abc import Callable

# name -> type of the variables that the expressions use
VARIABLES = {
    "i": "int",
    "u": "uint",
    "d": "double",
    "s": "string",
    "b": "bool",
    "li": "list_int",
    "ls": "list_string",
    "m": "map",
    "x": "dyn",
}
VALUES = {
    "i": 7, "u": 3, "d": 2.5, "s": "abc", "b": True, "li": [1, 2, 3], "ls": ["a", "b", "abc"],
    "m": {"a": 1, "b": 2, "model": "A100"}, "x": {"k": [1, "two", {"z": None}]},
}  # fmt: skip
_INTS = ("0", "1", "-1", "2", "3", "7", "10", "9223372036854775807", "-9223372036854775808", "i", "0x10")
_UINTS = ("0u", "1u", "2u", "3u", "18446744073709551615u", "u")
_DOUBLES = ("0.0", "1.0", "-1.5", "2.5", "1e10", "0.1", "d", "-0.0")
_STRINGS = ("''", "'a'", "'abc'", "'b'", '"x"', "'é☃'", "s", "'A100'", "r'\\d'", "'a\\nb'", "'''t'''")
_BYTES = ("b''", "b'abc'", "b'\\x00\\xff'", "b'é'")
_TIMES = (
    "timestamp('2024-02-29T12:30:45Z')",
    "timestamp('1970-01-01T00:00:00Z')",
    "timestamp(0)",
    "timestamp('2009-02-13T23:31:30.013Z')",
)
_DURATIONS = ("duration('1h')", "duration('90s')", "duration('-1.001s')", "duration('0s')")
TYPES = (
    "bool",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "list_int",
    "list_string",
    "map",
    "duration",
    "timestamp",
    "dyn",
)


class Generator:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names: list[tuple[str, str]] = []
        self.made = 0

    def expression(self) -> str:
        """One expression, mostly of type bool, as policies and selectors are."""
        wanted = "bool" if self.random.random() < 0.6 else self.random.choice(TYPES)
        return self.of(wanted, self.random.choice((2, 3, 3, 4)))

    def of(self, wanted: str, depth: int) -> str:
        if self.random.random() < 0.015:
            wanted = self.random.choice(TYPES)  # now and then something that may not type-check
        local = [name for name, typ in self.names if typ == wanted]
        if local and self.random.random() < 0.4:
            return self.random.choice(local)
        if depth <= 0 or self.random.random() < 0.12:
            return self.leaf(wanted)
        return getattr(self, f"_{wanted}")(depth - 1)

    def leaf(self, wanted: str) -> str:
        pick = self.random.choice
        if wanted == "dyn":
            return pick(("x", "x.k", "x.k[0]", "m.model", "dyn(1)", "dyn('a')", "null"))
        leaves = {
            "bool": ("true", "false", "b"), "int": _INTS, "uint": _UINTS, "double": _DOUBLES, "string": _STRINGS, "bytes": _BYTES,
            "list_int": ("[]", "[1]", "[1, 2, 3]", "[3, 1, 2]", "li"), "list_string": ("['a']", "['a', 'b']", "ls"),
            "map": ("m", "{'a': 1}", "{'a': 1, 'b': 2}"), "duration": _DURATIONS, "timestamp": _TIMES,
        }  # fmt: skip
        return pick(leaves[wanted])

    def _choose(self, *options: Callable[[], str]) -> str:
        return self.random.choice(options)()

    def _name(self, typ: str) -> str:
        self.made += 1
        name = f"v{self.made}"
        self.names.append((name, typ))
        return name

    def _macro(self, over: str, element: str, body: Callable[[], str], shape: str) -> str:
        name = self._name(element)
        try:
            return shape.format(over=over, name=name, body=body())
        finally:
            self.names.pop()

    def _bool(self, depth: int) -> str:
        def compared() -> str:
            typ = self.random.choice(("int", "uint", "double", "string", "bytes", "duration", "timestamp", "bool"))
            op = self.random.choice(("<", "<=", ">", ">=", "==", "!="))
            return f"({self.of(typ, depth)} {op} {self.of(typ, depth)})"

        def equal() -> str:
            typ = self.random.choice(TYPES)
            return f"({self.of(typ, depth)} {self.random.choice(('==', '!='))} {self.of(typ, depth)})"

        def quantified() -> str:
            element = self.random.choice(("int", "string"))
            macro = self.random.choice(("all", "exists", "exists_one"))
            shape = f"{{over}}.{macro}({{name}}, {{body}})"
            return self._macro(self.of(f"list_{element}", depth), element, lambda: self.of("bool", depth), shape)

        return self._choose(
            compared, compared, equal, quantified,
            lambda: f"({self.of('bool', depth)} && {self.of('bool', depth)})",
            lambda: f"({self.of('bool', depth)} || {self.of('bool', depth)})",
            lambda: f"!{self.of('bool', depth)}",
            lambda: f"({self.of('bool', depth)} ? {self.of('bool', depth)} : {self.of('bool', depth)})",
            lambda: f"({self.of('int', depth)} in {self.of('list_int', depth)})",
            lambda: f"({self.of('string', depth)} in {self.of('map', depth)})",
            lambda: f"{self.of('string', depth)}.{self.random.choice(('contains', 'startsWith', 'endsWith'))}({self.of('string', depth)})",
            lambda: f"{self.of('string', depth)}.matches('[a-z]+')",
            lambda: f"has({self.random.choice(('m.a', 'm.zz', 'x.k', 'x.q'))})",
        )  # fmt: skip

    def _int(self, depth: int) -> str:
        def arithmetic() -> str:
            op = self.random.choice("+-*/%")
            return f"({self.of('int', depth)} {op} {self.of('int', depth)})"

        field = self.random.choice(
            ("getFullYear", "getMonth", "getDate", "getDayOfWeek", "getHours", "getMinutes", "getSeconds")
        )
        return self._choose(
            arithmetic, arithmetic,
            lambda: f"-({self.of('int', depth)})",
            lambda: f"size({self.of(self.random.choice(('string', 'bytes', 'list_int', 'list_string', 'map')), depth)})",
            lambda: f"int({self.of(self.random.choice(('uint', 'double', 'string', 'timestamp', 'int')), depth)})",
            lambda: f"{self.of('list_int', depth)}[{self.of('int', 0)}]",
            lambda: f"({self.of('bool', depth)} ? {self.of('int', depth)} : {self.of('int', depth)})",
            lambda: f"{self.of('timestamp', depth)}.{field}()",
            lambda: f"{self.of('duration', depth)}.{self.random.choice(('getHours', 'getMinutes', 'getSeconds'))}()",
        )  # fmt: skip

    def _uint(self, depth: int) -> str:
        return self._choose(
            lambda: f"({self.of('uint', depth)} {self.random.choice('+-*/%')} {self.of('uint', depth)})",
            lambda: f"uint({self.of(self.random.choice(('int', 'double', 'string')), depth)})",
        )

    def _double(self, depth: int) -> str:
        return self._choose(
            lambda: f"({self.of('double', depth)} {self.random.choice('+-*/')} {self.of('double', depth)})",
            lambda: f"double({self.of(self.random.choice(('int', 'uint', 'string')), depth)})",
            lambda: f"-({self.of('double', depth)})",
        )

    def _string(self, depth: int) -> str:
        return self._choose(
            lambda: f"({self.of('string', depth)} + {self.of('string', depth)})",
            lambda: (
                f"string({self.of(self.random.choice(('int', 'uint', 'bool', 'bytes', 'string', 'duration', 'timestamp')), depth)})"
            ),
            lambda: f"{self.of('list_string', depth)}[{self.random.choice(('0', '1', '5', '-1'))}]",
            lambda: f"({self.of('bool', depth)} ? {self.of('string', depth)} : {self.of('string', depth)})",
        )

    def _bytes(self, depth: int) -> str:
        return self._choose(
            lambda: f"({self.of('bytes', depth)} + {self.of('bytes', depth)})",
            lambda: f"bytes({self.of('string', depth)})",
        )

    def _list(self, element: str, depth: int) -> str:
        typ = f"list_{element}"
        return self._choose(
            lambda: "[" + ", ".join(self.of(element, depth) for _ in range(self.random.randint(0, 3))) + "]",
            lambda: f"({self.of(typ, depth)} + {self.of(typ, depth)})",
            lambda: self._macro(
                self.of(typ, depth), element, lambda: self.of("bool", depth), "{over}.filter({name}, {body})"
            ),
            lambda: self._macro(
                self.of("list_int", depth), "int", lambda: self.of(element, depth), "{over}.map({name}, {body})"
            ),
        )

    def _list_int(self, depth: int) -> str:
        return self._list("int", depth)

    def _list_string(self, depth: int) -> str:
        return self._list("string", depth)

    def _map(self, depth: int) -> str:
        keys = self.random.sample(("'a'", "'b'", "'c'", "'k'"), self.random.randint(0, 3))
        return "{" + ", ".join(f"{key}: {self.of('int', depth)}" for key in keys) + "}"

    def _duration(self, depth: int) -> str:
        return self._choose(
            lambda: f"({self.of('duration', depth)} {self.random.choice('+-')} {self.of('duration', depth)})",
            lambda: f"({self.of('timestamp', depth)} - {self.of('timestamp', depth)})",
        )

    def _timestamp(self, depth: int) -> str:
        return f"({self.of('timestamp', depth)} {self.random.choice('+-')} {self.of('duration', depth)})"

    def _dyn(self, depth: int) -> str:
        return self._choose(
            lambda: f"dyn({self.of(self.random.choice(TYPES), depth)})",
            lambda: f"{self.of('map', depth)}.{self.random.choice(('a', 'b', 'zz'))}",
            lambda: f"{self.of('map', depth)}[{self.of('string', 0)}]",
        )
