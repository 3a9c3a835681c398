"""The language: values, operators, conversions, macros. Each row is checked with the fast and with the exact evaluator."""

from __future__ import annotations

from typing import Any

import pytest

from drakit import cel
from drakit.cel import types as t
from drakit.cel.values import Duration, Optional, Timestamp, TypeValue, UInt, equality

ENV = cel.base().extend(
    variables={
        "i": t.INT,
        "u": t.UINT,
        "d": t.DOUBLE,
        "s": t.STRING,
        "l": t.list_of(t.INT),
        "m": t.map_of(t.STRING, t.INT),
        "x": t.DYN,
    }
)
VALUES: dict[str, Any] = {
    "i": 7,
    "u": UInt(3),
    "d": 2.5,
    "s": "abc",
    "l": [3, 1, 2],
    "m": {"a": 1, "b": 2},
    "x": {"k": [1, "two", None]},
}


def run(expression: str) -> Any:
    program = cel.compile(expression, ENV)
    result = program.run(VALUES)
    if result.error is not None:
        with pytest.raises(cel.EvaluationError, match=".+"):
            program.evaluate(VALUES)
        raise cel.EvaluationError(result.error)
    fast = program.evaluate(VALUES)
    assert equality(fast, result.value) is True or fast != fast
    assert fast.__class__ is result.value.__class__
    return fast


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("0x1f", 31),
        ("7u / 2u", UInt(3)),
        ("1.5 * 2.0", 3.0),
        ("1 / 1 == 1", True),
        ("'a' + 'b'", "ab"),
        ("b'a' + b'\\xff'", b"a\xff"),
        ("'\\u00e9\\x41\\101\\n'", "éAA\n"),
        ("r'\\n'", "\\n"),
        ("'''a'b'''", "a'b"),
        ("[1] + [2]", [1, 2]),
        ("i > 5 && !(i > 9)", True),
        ("i in l", False),
        ("'a' in m", True),
        ("m.a + m['b']", 3),
        ("has(m.a) && !has(m.z)", True),
        ("x.k[1]", "two"),
        ("x.k[2] == null", True),
        ("size('é☃😀')", 3),
        ("size(b'\\xc3\\xa9')", 2),
        ("'abc'.matches('^a.c$')", True),
        ("type(1) == int && type(1u) != int", True),
        ("type(type(1)) == type", True),
        ("dyn([1, 'a'])", [1, "a"]),
        ("string(1.0) + string(1e100) + string(true)", "11e+100true"),
        ("int('-5') + int(3.9) + int(2u)", 0),
        ("double('1e3')", 1000.0),
        ("uint(3.7)", UInt(3)),
        ("bytes('é')", b"\xc3\xa9"),
        ("bool('T')", True),
        ("duration('1h30m') + duration('90s')", Duration(5490 * 10**9)),
        ("string(duration('1.5s'))", "1.5s"),
        ("timestamp('2024-02-29T12:00:00+01:00')", Timestamp(1709204400 * 10**9)),
        ("timestamp(0) + duration('1s') - timestamp(0)", Duration(10**9)),
        ("string(timestamp('2009-02-13T23:31:30.25Z'))", "2009-02-13T23:31:30.25Z"),
        ("timestamp('2009-02-13T23:31:30Z').getFullYear()", 2009),
        ("timestamp('2009-02-13T23:31:30Z').getHours('+02:30')", 2),
        ("timestamp('2009-02-13T23:31:30Z').getDayOfWeek('America/New_York')", 5),
        ("duration('3730s').getMinutes()", 62),
        ("l.map(v, v * 2)", [6, 2, 4]),
        ("l.filter(v, v > 1)", [3, 2]),
        ("l.map(v, v > 1, v * 10)", [30, 20]),
        ("l.all(v, v > 0) && l.exists(v, v == 2) && l.exists_one(v, v == 3)", True),
        ("m.all(k, m[k] > 0)", True),
        ("l.transformList(index, v, index * v)", [0, 1, 4]),
        ("m.transformMap(k, v, v + 1)", {"a": 2, "b": 3}),
        ("m.transformMap(k, v, v > 1, v + 1)", {"b": 3}),
        ("l.exists(index, v, index == v)", True),
        ("cel.bind(y, i * 2, y + y)", 28),
        ("m.?z.orValue(9) + m.?a.orValue(9)", 10),
        ("m[?'a'].hasValue()", True),
        ("optional.of(1).optMap(v, v + 1).value()", 2),
        ("optional.none().or(optional.of(2)).value()", 2),
        ("[?m.?a, ?m.?z]", [1]),
        ("{?'a': m.?a, ?'z': m.?z}", {"a": 1}),
        ("x.?k[0].orValue(5)", 1),
        ("'%s has %d, %.2f, %x'.format(['a', 2, 1.5, 255])", "a has 2, 1.50, ff"),
        ("'a,b,c'.split(',').join('-')", "a-b-c"),
        ("'hello'.substring(1, 3) + 'hello'.charAt(0)", "elh"),
        ("' x '.trim() + 'AbÉ'.lowerAscii()", "xabÉ"),
        ("'abcabc'.replace('b', 'x', 1).indexOf('c')", 2),
        ("'abc'.lastIndexOf('c') + 'abc'.indexOf('z')", 1),
        ("l.sort() == [1, 2, 3] && l.reverse() == [2, 1, 3]", True),
        ("[3, 1, 3].distinct().size()", 2),
        ("lists.range(3)", [0, 1, 2]),
        ("[[1], [2, [3]]].flatten()", [1, 2, [3]]),
        ("l.slice(1, 3)", [1, 2]),
        ("['bb', 'a'].sortBy(v, v.size())", ["a", "bb"]),
        ("sets.contains([1, 2], [2]) && sets.intersects([1], [1, 2]) && sets.equivalent([1, 1], [1])", True),
        ("true ? 1 : 1 / 0", 1),
    ],
)
def test_expression_has_its_value(expression: str, expected: Any) -> None:
    value = run(expression)
    assert value.__class__ is expected.__class__ or isinstance(value, dict)
    assert equality(value, expected) is True


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("dyn(1) == 1u && dyn(1) == 1.0 && dyn(1u) == 1.0", True),
        ("dyn(true) == dyn(1)", False),
        ("dyn(1) in [dyn(true)]", False),
        ("dyn([1]) == [1.0]", True),
        ("dyn({'a': 1}) == {'a': 1u}", True),
        ("dyn({true: 'b'})[true] == 'b' && !(dyn(1) in dyn({true: 'b'}))", True),
        ("dyn({1: 'a'})[dyn(1u)] == 'a' && dyn({1: 'a'})[dyn(1.0)] == 'a'", True),
        ("0.0 == -0.0", True),
        ("double('NaN') == double('NaN')", False),
        ("1 < 1.5 && 1u < 2 && 2.0 > 1u", True),
        ("null == null && dyn(1) != null", True),
        ("9223372036854775807 < 9223372036854775808.0", False),
    ],
)
def test_numbers_compare_across_types_and_bools_are_not_numbers(expression: str, expected: bool) -> None:
    assert run(expression) is expected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("9223372036854775807 + i", "integer overflow"),
        ("-9223372036854775808 - i", "integer overflow"),
        ("0u - u", "unsigned integer overflow"),
        ("i / 0", "division by zero"),
        ("i % 0", "modulus by zero"),
        ("m.z", "no such key: z"),
        ("m['z']", "no such key: z"),
        ("l[5]", "index out of bounds: 5"),
        ("l[-1]", "index out of bounds: -1"),
        ("x.k[1] + 1", "no such overload"),
        ("int(s)", "type conversion error from 'string' to 'int'"),
        ("optional.none().value()", "optional.none() dereference"),
        ("'abc'.substring(4)", "index out of range: 4"),
        ("[1, 2].slice(1, 5)", "cannot slice(1, 5), list is length 2"),
        ("double('NaN') < d", "NaN values cannot be ordered"),
        ("dyn(s).all(v, v)", "got 'types.String', expected iterable type"),
        ("x.k.size() > 2 ? x.nope : 1", "no such key: nope"),
    ],
)
def test_failures_have_upstreams_texts(expression: str, message: str) -> None:
    with pytest.raises(cel.EvaluationError) as caught:
        run(expression)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("false && i / 0 == 1", False),
        ("i / 0 == 1 && false", False),
        ("true || m.z == 1", True),
        ("m.z == 1 || true", True),
        ("[0, 1].exists(v, 1 / v == 1)", True),
        ("[1, 0].all(v, 1 / v == 2)", False),
        ("false && x.k", False),
        ("x.k || true", True),
    ],
)
def test_logic_absorbs_errors_that_do_not_matter(expression: str, expected: bool) -> None:
    assert run(expression) is expected


def test_errors_that_matter_are_not_absorbed() -> None:
    with pytest.raises(cel.EvaluationError, match="division by zero"):
        run("true && i / 0 == 1")
    with pytest.raises(cel.EvaluationError, match="no such key: z"):
        run("[1, 2].all(v, m.z == v)")


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("1 + 'a'", "ERROR: <input>:1:3: found no matching overload for '_+_' applied to '(int, string)'\n | 1 + 'a'\n | ..^"),
        ("nope", "ERROR: <input>:1:1: undeclared reference to 'nope' (in container '')\n | nope\n | ^"),
        ("1 +", "ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', "
         "'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | 1 +\n | ...^"),
        ("(true", "ERROR: <input>:1:6: Syntax error: missing ')' at '<EOF>'\n | (true\n | .....^"),
        ("'é' + ☃", "ERROR: <input>:1:7: Syntax error: token recognition error at: '☃'\n | 'é' + ☃\n | .．....＾"),
        ("i.foo", "ERROR: <input>:1:2: type 'int' does not support field selection\n | i.foo\n | .^"),
        ("[1].all(1, true)", "ERROR: <input>:1:9: argument must be a simple name\n | [1].all(1, true)\n | ........^"),
        ("9223372036854775808", "ERROR: <input>:1:1: invalid int literal\n | 9223372036854775808\n | ^"),
    ],
)  # fmt: skip
def test_compile_errors_show_the_place(expression: str, message: str) -> None:
    with pytest.raises(cel.CompileError) as caught:
        cel.compile(expression, ENV)
    assert message in str(caught.value)
    assert caught.value.issues


def test_constant_parts_that_fail_are_errors_of_the_program() -> None:
    with pytest.raises(cel.ProgramError, match="type conversion error from 'string' to 'int'"):
        cel.compile("true || int('abc') == 1", ENV)


@pytest.mark.slow
def test_deep_and_long_expressions_within_the_limits_work() -> None:
    assert run("(" * 249 + "1" + ")" * 249) == 1
    assert run("[" * 200 + "1" + "]" * 200 + ".size()") == 1
    assert run(" && ".join(["true"] * 2000)) is True
    assert run("+".join(["1"] * 200)) == 200
    nested = "".join(f"[1].all(v{n}, " for n in range(120)) + "true" + ")" * 120
    assert run(nested) is True


def test_a_result_is_a_plain_python_value() -> None:
    assert run("{'a': [1, optional.of(2)]}")["a"][1].__class__ is Optional
    assert run("type(1)") == TypeValue("int")
