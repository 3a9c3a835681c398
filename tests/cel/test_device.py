"""Device selectors: the activation, the environments of accepting and of running, costs, explanations, derived attributes."""

from __future__ import annotations

from typing import Any

import pytest

from drakit import cel
from drakit.api.gates import FeatureGates
from drakit.cel.device import (
    ApiExpressionChecker,
    DeviceInput,
    Features,
    compile_derived,
    compile_selector,
    device_environment,
)

DEVICE: dict[str, Any] = {
    "name": "gpu-0",
    "attributes": {
        "model": {"string": "A100"},
        "numa": {"int": 1},
        "healthy": {"bool": True},
        "driverVersion": {"version": "1.2.3-rc.1"},
        "other.example.com/model": {"string": "X1"},
        "lanes": {"ints": [1, 2, 3]},
        "names": {"strings": ["a", "b"]},
        "versions": {"versions": ["1.0.0", "2.0.0"]},
    },
    "capacity": {"memory": {"value": "40Gi"}, "cores": {"value": "1500m"}},
    "allowMultipleAllocations": True,
}
INPUT = DeviceInput("gpu.example.com", DEVICE)
EMPTY = DeviceInput("gpu.example.com", {"name": "bare"})
ATTRIBUTES = "device.attributes['gpu.example.com']"
CAPACITY = "device.capacity['gpu.example.com']"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("device.driver == 'gpu.example.com'", True),
        (f"{ATTRIBUTES}.model == 'A100'", True),
        ("device.attributes['other.example.com'].model == 'X1'", True),
        (f"{ATTRIBUTES}.numa == 1 && {ATTRIBUTES}.healthy", True),
        (f"{ATTRIBUTES}.numa == {ATTRIBUTES}.healthy", False),
        (f"{CAPACITY}.memory.compareTo(quantity('40Gi')) == 0", True),
        (f"{CAPACITY}.memory == quantity('42949672960')", True),
        (f"{CAPACITY}.cores.isLessThan(quantity('2'))", True),
        (f"{ATTRIBUTES}.driverVersion.isLessThan(semver('1.2.3'))", True),
        (f"{ATTRIBUTES}.driverVersion.major() == 1", True),
        ("has(device.attributes['nowhere.example.com'].model)", False),
        ("'nowhere.example.com' in device.attributes", False),
        ("device.attributes['nowhere.example.com'].size() == 0", True),
        ("device.attributes['nowhere.example.com'].?model.orValue('none') == 'none'", True),
        ("device.allowMultipleAllocations", True),
        (f"2 in {ATTRIBUTES}.lanes && {ATTRIBUTES}.names.includes('b')", True),
        (f"{ATTRIBUTES}.lanes.all(l, l > 0)", True),
        ("cel.bind(a, device.attributes['gpu.example.com'], a.model.startsWith('A') && a.numa < 2)", True),
        (f"{ATTRIBUTES}.model in ['H100', 'A100']", True),
        (f"{ATTRIBUTES}.numa in [0, 2]", False),
    ],
)
def test_selector_matches(expression: str, expected: bool) -> None:
    selector = compile_selector(expression)
    assert selector.matches(INPUT) is expected
    assert selector.run(INPUT).value is expected
    assert selector.program.fast is not None, "a selector like this should have a fast form"


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (f"{ATTRIBUTES}.nope == 1", "no such key: nope"),
        (f"{ATTRIBUTES}.model > 1", "no such overload"),
        (f"{ATTRIBUTES}.model.major() == 1", "no such overload: major(string)"),
        (f"{ATTRIBUTES}.model", "CEL result of type string could not be converted to bool: unsupported native conversion from string to 'bool'"),
        ("device.attributes['x'].y", "no such key: y"),
    ],
)  # fmt: skip
def test_selector_fails_with_upstreams_text(expression: str, message: str) -> None:
    with pytest.raises(cel.EvaluationError) as caught:
        compile_selector(expression).matches(INPUT)
    assert str(caught.value) == message


def test_missing_attribute_of_a_bare_device_is_an_error() -> None:
    with pytest.raises(cel.EvaluationError, match="no such key: model"):
        compile_selector(f"{ATTRIBUTES}.model == 'A100'").matches(EMPTY)


def test_device_that_validation_would_refuse_fails_when_used() -> None:
    broken = DeviceInput("d", {"name": "x", "attributes": {"v": {"version": "one"}}})
    with pytest.raises(
        cel.EvaluationError, match="attribute v: parse semantic version: No Major.Minor.Patch elements found"
    ):
        compile_selector("true || device.driver == 'x'").matches(broken)


def test_one_input_serves_all_expressions() -> None:
    before = repr(INPUT.variables)
    for expression in (
        "device.driver == 'a'",
        f"{ATTRIBUTES}.lanes.map(l, l + 1).size() == 3",
        f"{CAPACITY}.memory.add(1).isInteger()",
    ):
        compile_selector(expression).matches(INPUT)
    assert repr(INPUT.variables) == before


def test_compiling_again_is_a_lookup() -> None:
    first = compile_selector("device.driver == 'cached.example.com'")
    assert compile_selector("device.driver == 'cached.example.com'").program is first.program


def test_new_expressions_honour_the_feature_gates() -> None:
    plain = FeatureGates.parse("DRAListTypeAttributes=false,DRAConsumableCapacity=false")
    with pytest.raises(cel.CompileError, match="undefined field 'allowMultipleAllocations'"):
        compile_selector("device.allowMultipleAllocations", kind="new", gates=plain)
    with pytest.raises(cel.CompileError, match="undeclared reference to 'includes'"):
        compile_selector(f"{ATTRIBUTES}.names.includes('a')", kind="new", gates=plain)
    assert compile_selector("device.allowMultipleAllocations", kind="stored", gates=plain).matches(INPUT)


def test_environments_are_shared() -> None:
    assert device_environment("new", Features(True, False)) is device_environment("new", Features(True, False))


def test_static_cost_is_the_worst_case() -> None:
    selector = compile_selector("device.attributes.all(a, device.attributes.all(b, a != b))")
    assert selector.max_cost >= selector.run(INPUT).cost > 0


@pytest.mark.slow
def test_cost_over_the_limit_ends_the_evaluation() -> None:
    selector = compile_selector("lists.range(1000).all(i, lists.range(1000).all(j, i + j >= 0))")
    assert selector.max_cost > 1_000_000
    with pytest.raises(cel.CostExceeded, match="actual cost limit exceeded"):
        selector.matches(INPUT)


def test_explanation_names_the_conjunct_and_what_it_saw() -> None:
    selector = compile_selector(
        f"device.driver == 'gpu.example.com' && {ATTRIBUTES}.model == 'H100' && {ATTRIBUTES}.numa == 1"
    )
    explained = selector.explain(INPUT)
    assert explained.matches is False
    assert explained.decisive is not None
    assert explained.decisive.text == 'device.attributes["gpu.example.com"].model == "H100"'
    assert explained.decisive.seen == {'device.attributes["gpu.example.com"].model': "A100"}
    assert [conjunct.value for conjunct in explained.conjuncts] == [True, False, True]


def test_explanation_of_a_failure_and_of_a_match() -> None:
    selector = compile_selector(f"{ATTRIBUTES}.model == 'A100' && {ATTRIBUTES}.nope == 1")
    explained = selector.explain(INPUT)
    assert explained.matches is None
    assert explained.error == "no such key: nope"
    assert explained.decisive is not None
    assert explained.decisive.seen == {'device.attributes["gpu.example.com"].nope': "error: no such key: nope"}
    good = compile_selector("device.driver == 'gpu.example.com'").explain(INPUT)
    assert good.matches is True
    assert good.decisive is None


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (f"{ATTRIBUTES}.model", {"string": "A100"}),
        (f"{ATTRIBUTES}.numa + 1", {"int": 2}),
        (f"{ATTRIBUTES}.driverVersion", {"version": "1.2.3-rc.1"}),
        ("device.driver == 'x'", {"bool": False}),
        (f"{ATTRIBUTES}.lanes", {"ints": [1, 2, 3]}),
        (f"{ATTRIBUTES}.versions", {"versions": ["1.0.0", "2.0.0"]}),
        ("['a'] + ['b']", {"strings": ["a", "b"]}),
    ],
)
def test_derived_attribute_becomes_a_device_attribute(expression: str, expected: dict[str, Any]) -> None:
    assert compile_derived(expression).value(INPUT) == expected


def test_derived_attribute_must_be_a_scalar_or_a_list() -> None:
    with pytest.raises(cel.CompileError, match="must evaluate to a primitive scalar"):
        compile_derived("{'a': 1}")
    with pytest.raises(cel.EvaluationError, match="unsupported CEL return type"):
        compile_derived("dyn(1.5)").value(INPUT)


@pytest.mark.parametrize(
    ("expression", "kind", "text"),
    [
        ("device.driver == 'x'", "", ""),
        ("device.nope == 1", "invalid", "compilation failed: ERROR: <input>:1:7: undefined field 'nope'"),
        ("int('a') == 1", "internal", "program instantiation failed: type conversion error from 'string' to 'int'"),
        ("1", "invalid", "must evaluate to bool or the unknown type, not int"),
    ],
)
def test_checker_for_api_validation(expression: str, kind: str, text: str) -> None:
    check = ApiExpressionChecker().check_selector(expression, stored=False, gates=FeatureGates.default())
    assert check.error_type == kind
    assert check.error.startswith(text)
    assert (check.max_cost < 1_000_000) is (kind == "")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (f"({ATTRIBUTES}.flags + [1])[0] == 1", False),  # a bool among what the checker takes for ints
        (f"({ATTRIBUTES}.flags + [1])[1] == 1", True),
        (f"({ATTRIBUTES}.flags + [1]).exists(v, v == 0)", False),
    ],
)
def test_types_that_dyn_made_unsure_are_looked_at_again(expression: str, expected: bool) -> None:
    flags = DeviceInput("gpu.example.com", {"name": "d", "attributes": {"flags": {"bools": [True]}}})
    selector = compile_selector(expression)
    assert selector.matches(flags) is expected
    assert selector.run(flags).value is expected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (f"({ATTRIBUTES}.lanes + [duration('1s')]).isSorted()", "no such overload: isSorted(list)"),
        (f"({ATTRIBUTES}.names + [true])[0] && true", "no such overload"),
        (f"({ATTRIBUTES}.names + [1])[0] < 5", "no such overload"),
        ("cidr('10.0.0.0/8').containsIP('nope')", "no such overload"),
        ("timestamp(0).getHours('\"1:2') == 0", 'strconv.Atoi: parsing "\\"1": invalid syntax'),
    ],
)
def test_both_evaluators_fail_alike(expression: str, message: str) -> None:
    selector = compile_selector(expression)
    with pytest.raises(cel.EvaluationError) as caught:
        selector.matches(INPUT)
    assert str(caught.value) == selector.run(INPUT).error == message
