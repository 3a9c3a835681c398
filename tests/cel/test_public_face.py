"""What people who only want CEL import, and how an environment is extended: one declaration each."""

from __future__ import annotations

from typing import Any

import pytest

from drakit import cel
from drakit.cel import types as t


def test_all_names_what_there_is() -> None:
    assert sorted(cel.__all__) == list(cel.__all__)
    for name in cel.__all__:
        assert hasattr(cel, name)


def test_a_variable_is_one_declaration() -> None:
    env = cel.base().extend(variables={"name": t.STRING})
    assert cel.compile("name.startsWith('gpu-')", env).evaluate({"name": "gpu-0"}) is True


def test_a_function_is_one_declaration() -> None:
    double = cel.function("double_it", cel.overload("double_it_int", "(int) -> int", lambda n: n * 2))
    shout = cel.function("shout", cel.overload("shout_string", "string.() -> string", lambda s: s.upper() + "!"))
    env = cel.base().extend(functions=[double, shout], variables={"x": t.DYN})
    assert cel.compile("double_it(21)", env).evaluate({}) == 42
    assert cel.compile("'a'.shout()", env).evaluate({}) == "A!"
    with pytest.raises(cel.EvaluationError, match=r"no such overload: double_it\(string\)"):
        cel.compile("double_it(x)", env).evaluate({"x": "a"})
    with pytest.raises(cel.CompileError, match="found no matching overload for 'double_it'"):
        cel.compile("double_it('a')", env)


def test_a_struct_type_is_one_declaration() -> None:
    point = cel.StructType("example.Point", {"x": t.INT, "y": t.INT})
    env = cel.base().extend(structs=[point], variables={"p": t.struct("example.Point")})
    assert cel.compile("p.x + p.y", env).evaluate({"p": {"x": 1, "y": 2}}) == 3
    with pytest.raises(cel.CompileError, match="undefined field 'z'"):
        cel.compile("p.z", env)


def test_extending_leaves_the_original_alone() -> None:
    env = cel.base()
    env.extend(variables={"x": t.INT})
    with pytest.raises(cel.CompileError, match="undeclared reference to 'x'"):
        cel.compile("x", env)


def test_limits_are_the_callers() -> None:
    env = cel.base().extend(variables={"l": t.list_of(t.INT)})
    program = cel.compile("l.all(v, v >= 0)", env, limits=cel.Limits(cost=50))
    with pytest.raises(cel.CostExceeded):
        program.evaluate({"l": list(range(100))})
    assert cel.compile("l.all(v, v >= 0)", env).evaluate({"l": list(range(100))}) is True


def test_result_tells_value_error_and_cost() -> None:
    env = cel.base().extend(variables={"x": t.DYN})
    program = cel.compile("x.a == 1", env)
    assert program.run({"x": {"a": 1}}) == cel.Result(True, None, 3)
    assert program.run({"x": {}}).error == "no such key: a"


@pytest.mark.parametrize("value", [object(), {1, 2}, b"x", lambda: 1, 10**40, {"a": object()}])
def test_foreign_values_never_raise_anything_else(value: Any) -> None:
    env = cel.base().extend(variables={"x": t.DYN})
    for expression in (
        "x == 1",
        "x.a",
        "x[0]",
        "x + x",
        "x < 1",
        "[x].exists(v, v == x)",
        "'%s'.format([x])",
        "size(x)",
        "type(x)",
        "has(x.a)",
    ):
        try:
            cel.compile(expression, env).evaluate({"x": value})
        except cel.CelError:
            continue


def test_expressions_that_the_fast_form_cannot_hold_still_work() -> None:
    env = cel.base().extend(variables={"m": t.map_of(t.STRING, t.INT)})
    program = cel.compile("{'a': 1}.transformMap(k, v, v + m.a)", env)
    assert program.fast is None
    assert program.evaluate({"m": {"a": 4}}) == {"a": 5}
