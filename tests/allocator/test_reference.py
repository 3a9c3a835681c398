"""Random small scenarios: the same devices, or the same refusal, as a plain depth-first search without any cutting."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, event, given, settings

from drakit.allocator import Allocation, Budget, Failure, Features, check
from tests.allocator.objects import Cluster, allocated_claim, always_cutting
from tests.allocator.reference import OutOfSteps, Reference, ReferenceError_
from tests.allocator.scenarios import CLASSES, NODE, PREDICATES, scenarios

_SETTINGS = settings(
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


def _answer(cluster: Cluster, claims: list[Any]) -> Any:
    outcome = cluster.allocate(*claims, budget=Budget(steps=1_000_000))
    if isinstance(outcome, Failure):
        return outcome.kind
    return [
        [(r["request"], r["driver"], r["pool"], r["device"]) for r in result["devices"].get("results", ())]
        for result in outcome.results
    ]


def _compare(scenario: dict[str, Any]) -> None:
    reference = Reference(scenario["slices"], CLASSES, scenario["held"], NODE, scenario["claims"], PREDICATES)
    try:
        expected: Any = reference.allocate() or "none"
    except ReferenceError_:
        expected = "error"
    except OutOfSteps:
        assume(False)
    event(expected if isinstance(expected, str) else "devices")
    for cut_from_the_start in (False, True):
        cluster = Cluster(scenario["slices"], classes=CLASSES, nodes=[NODE], held=scenario["held"], features=Features())
        with always_cutting() if cut_from_the_start else nullcontext():
            assert _answer(cluster, scenario["claims"]) == expected


@pytest.mark.slow
@settings(_SETTINGS, max_examples=400)
@given(scenarios())
def test_small_scenarios_agree_with_the_plain_search(scenario: dict[str, Any]) -> None:
    _compare(scenario)


@pytest.mark.long
@settings(_SETTINGS, max_examples=20_000)
@given(scenarios(most=5, most_pools=2, most_claims=3))
def test_many_small_scenarios_agree_with_the_plain_search(scenario: dict[str, Any]) -> None:
    _compare(scenario)


@pytest.mark.slow
@settings(_SETTINGS, max_examples=150)
@given(scenarios(most=24, most_pools=3, most_claims=3, errors=False))
def test_large_scenarios_keep_the_invariants_and_the_budget(scenario: dict[str, Any]) -> None:
    cluster = Cluster(scenario["slices"], classes=CLASSES, nodes=[NODE], features=Features())
    outcome = cluster.allocate(*scenario["claims"], budget=Budget(steps=20_000))
    event(outcome.kind if isinstance(outcome, Failure) else "devices")
    assert outcome.steps <= 20_001
    if isinstance(outcome, Allocation):
        done = [
            allocated_claim(plain, result) for plain, result in zip(scenario["claims"], outcome.results, strict=True)
        ]
        assert check(cluster.inventory, done, features=cluster.features, node=cluster.nodes["node-1"]) == []
