"""Whatever the text: a result or one of the engine's own errors, in bounded time."""

from __future__ import annotations

import contextlib
import random

import pytest

from drakit import cel
from drakit.cel import types as t
from drakit.cel.device import DeviceInput, compile_selector
from tests import effort
from tests.cel.generate import Generator

TOKENS = [
    "(", ")", "[", "]", "{", "}", ",", ".", "?", ":", "+", "-", "*", "/", "%", "!", "<", "<=", ">", ">=", "==", "!=", "&&", "||", "in",
    "true", "false", "null", "1", "-1", "1u", "1.5", "0x1f", "'a'", '"b"', "b'c'", "r'\\d'", "'''x'''", "x", "y", "device", ".?", "[?",
    "has(", "size(", ".all(v, ", ".exists(v, ", ".map(v, ", ".filter(v, ", "cel.bind(v, ", "optional.of(", ".orValue(", ".optMap(v, ",
    "quantity('1')", "semver('1.0.0')", "dyn(", "type(", "int(", "string(", ".matches('a')", ".format(", "timestamp(0)", "duration('1s')",
    "lists.range(", ".sortBy(v, ", "@", "$", "`", "\\", "'", '"', "'''", "//", "\n", "\x00", "é", "😀", "&", "|", "=", " ", "for", "if",
]  # fmt: skip
ENV = cel.base().extend(variables={"x": t.DYN, "y": t.INT})
INPUT = DeviceInput("gpu.example.com", {"name": "d", "attributes": {"model": {"string": "A100"}}, "capacity": {}})
LIMITS = cel.Limits(cost=100_000, seconds=1.0)


def _try(expression: str) -> None:
    with contextlib.suppress(cel.CelError):  # anything else fails the test
        cel.compile(expression, ENV, limits=LIMITS).evaluate({"x": {"a": [1, "b"]}, "y": 3})


def _soup(rng: random.Random) -> str:
    return rng.choice(("", " ")).join(rng.choice(TOKENS) for _ in range(rng.randint(1, 30)))


def _mutated(rng: random.Random, seed: int) -> str:
    text = list(Generator(seed).expression())
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(text) + 1)
        action = rng.randrange(3)
        if action == 0 and text:
            del text[at - 1 : at + rng.randint(0, 3)]
        elif action == 1:
            text.insert(at, rng.choice(TOKENS))
        else:
            text.insert(at, chr(rng.choice((rng.randrange(128), rng.randrange(0x3000)))))
    return "".join(text)


def _fuzz(count: int, seed: int) -> None:
    rng = random.Random(seed)
    for i in range(count):
        _try(_soup(rng) if i % 2 else _mutated(rng, rng.randrange(10**9)))


@pytest.mark.slow
def test_broken_text_gives_only_the_engines_own_errors() -> None:
    _fuzz(1500, 7)


@pytest.mark.long
def test_much_broken_text_gives_only_the_engines_own_errors() -> None:
    _fuzz(60_000, 11)


def _bind(levels: int, step: str, last: str, first: str) -> str:
    """Nested cel.bind: each level is made of the one before."""
    text = f"cel.bind(v0, {first}, "
    for i in range(levels):
        text += f"cel.bind(v{i + 1}, {step.replace('$', f'v{i}')}, "
    return text + last.replace("$", f"v{levels}") + ")" * (levels + 1)


BOMBS = [
    pytest.param("lists.range(100000).all(i, i >= 0)", id="long-loop"),
    pytest.param(_bind(60, "$ + $", "$.size() > 0", "[1]"), id="doubling-list"),
    pytest.param(_bind(60, "dyn($) + dyn($)", "$ == 'x'", "'abc'"), id="doubling-text-at-no-cost"),
    pytest.param(_bind(60, "[$, $]", "$ == $", "[1]"), id="shared-lists-compared"),
    pytest.param(_bind(60, "[$, $]", "'%s'.format([$]) == ''", "[1]"), id="shared-lists-printed"),
    pytest.param(_bind(60, "{$: $}", "$.size() > 0", "1"), id="doubling-type"),
    pytest.param("optional.of(1)" + ".optMap(v, v)" * 60 + ".hasValue()", id="doubling-macro"),
    pytest.param("sets.contains(lists.range(100000), lists.range(100000))", id="quadratic-set"),
    pytest.param("lists.range(100000).sortBy(v, -v)[0] == 1", id="quadratic-sort"),
    pytest.param("'" + "x" * 9000 + "'.replace('x', '" + "y" * 9000 + "').size() > 0", id="multiplying-replace"),
    pytest.param("lists.range(100000).map(i, '" + "x" * 300 + "').join('').size() > 0", id="multiplying-join"),
    pytest.param("'%.999999999f'.format([1.5]) == ''", id="precision"),
    pytest.param("'" + "a" * 60 + "'.matches('" + "(a*)*" * 20 + "b')", id="backtracking-pattern"),
    pytest.param("".join(f"[1].map(v{i}, " for i in range(240)) + "1" + ")" * 240 + ".size() == 1", id="nested-macros"),
    pytest.param("+".join(["1"] * 240) + " > 0", id="long-sum"),
    pytest.param("9" * 90_000, id="endless-integer"),
    pytest.param("1 " + "&& 1 " * 9_000, id="long-chain"),
]


@pytest.mark.slow
@pytest.mark.parametrize("expression", BOMBS)
def test_hostile_expressions_end_in_bounded_time(expression: str) -> None:
    with effort.bounded():
        _try(expression)


@pytest.mark.slow
@pytest.mark.parametrize("opening", ["(", "[", "!", "true?", "1+(", "a.b(", "[{1:"])
def test_text_that_nests_twice_as_deep_is_at_most_twice_the_work(opening: str) -> None:
    half, whole = (_work(opening * (size // len(opening))) for size in (5120, 10240))
    assert whole <= 2.1 * half
    closing = {"(": ")", "[": "]", "{": "}"}
    half, whole = (
        _work(opening * n + "1" + "".join(closing.get(c, "") for c in reversed(opening * n))) for n in (1000, 2000)
    )
    assert whole <= 2.1 * half


def _work(text: str) -> int:
    bytecodes = effort.Bytecodes("cel")
    with bytecodes.on():
        _try(text)
    return bytecodes.count


def test_bytes_as_map_keys_are_an_error_not_a_crash() -> None:
    """Kubernetes panics while compiling this."""
    with pytest.raises(cel.ProgramError, match="unsupported key type"):
        compile_selector("{b'x': 'a'}.size() == 1")


def test_wall_clock_ends_what_the_cost_allows() -> None:
    ticks = iter(range(10**9))
    limits = cel.Limits(seconds=2.0, clock=lambda: float(next(ticks)))
    program = cel.compile("lists.range(500000).map(i, i).size() == x", ENV, limits=limits)
    with pytest.raises(cel.Interrupted):
        program.run({"x": 1})
