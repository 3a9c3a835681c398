"""Who has to go: fewest and least important victims, devices included, disruption budgets respected."""

from __future__ import annotations

from typing import Any

import pytest
from lightkube.models.policy_v1 import PodDisruptionBudget

from drakit.api.typed import from_plain
from drakit.scheduler.decide import Placement, decide
from drakit.scheduler.outcome import Diagnosis
from drakit.scheduler.pods import PodInfo
from drakit.scheduler.preemption import Preemption, preempt
from drakit.scheduler.state import State
from tests.scheduler.builders import DRIVER, NOW, claim, device_class, info, node, slice_, state, uid


def ask(made: State, pod_info: PodInfo) -> tuple[Preemption | None, str]:
    outcome, attempt = decide(made, pod_info, NOW, uid)
    assert isinstance(outcome, Diagnosis)
    assert attempt is not None
    return preempt(attempt, outcome)


def victims(found: Preemption | None) -> list[str]:
    assert found is not None
    return sorted(victim.name for victim in found.victims)


def run(made: State, name: str, node_name: str, **pod: Any) -> None:
    made.place(info(name, **pod), node_name)


def test_the_least_important_pod_goes() -> None:
    made = state(node("a", cpu="2"))
    run(made, "low", "a", priority=1, requests={"cpu": "1"})
    run(made, "middle", "a", priority=5, requests={"cpu": "1"})
    found, _ = ask(made, info("high", priority=10, requests={"cpu": "1"}))
    assert victims(found) == ["low"]


def test_the_node_with_the_cheaper_victims_is_chosen() -> None:
    made = state(node("a", cpu="1"), node("b", cpu="1"))
    run(made, "dear", "a", priority=9, requests={"cpu": "1"})
    run(made, "cheap", "b", priority=1, requests={"cpu": "1"})
    found, _ = ask(made, info("high", priority=10, requests={"cpu": "1"}))
    assert victims(found) == ["cheap"]


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        pytest.param(
            {"priority": 1},
            "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
            id="equal",
        ),
        pytest.param(
            {"priority": 5, "preemptionPolicy": "Never"},
            "preemption: not eligible due to preemptionPolicy=Never.",
            id="never",
        ),
    ],
)
def test_no_preemption(pod: dict[str, Any], text: str) -> None:
    made = state(node("a", cpu="1"))
    run(made, "low", "a", priority=1, requests={"cpu": "1"})
    assert ask(made, info("p", requests={"cpu": "1"}, **pod)) == (None, text)


def test_a_selector_mismatch_is_past_help() -> None:
    made = state(node("a"), node("b", cpu="1"))
    run(made, "low", "b", requests={"cpu": "1"})
    _, text = ask(made, info("p", nodeSelector={"x": "y"}, priority=5))
    assert text == "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."


# -- devices


def holding(name: str, device: str, *pods: str) -> Any:
    result = {"request": "r", "driver": DRIVER, "pool": "a", "device": device}
    reserved = [{"resource": "pods", "name": p, "uid": f"pod-{p}"} for p in pods]
    return claim(name, status={"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved})


def full(*claims: Any) -> State:
    return state(node("a"), slice_("a", 2), device_class(), *claims)


def test_a_device_is_taken_from_the_lower_priority_pod_that_holds_it() -> None:
    made = full(holding("c1", "gpu-0", "one"), holding("c2", "gpu-1", "two"), claim("want"))
    run(made, "one", "a", priority=3, claims={"c": "c1"})
    run(made, "two", "a", priority=1, claims={"c": "c2"})
    run(made, "bystander", "a", priority=0)
    found, _ = ask(made, info("p", priority=10, claims={"c": "want"}))
    assert victims(found) == ["two"]
    # nothing of the trial remains
    _, text = ask(made, info("q", priority=0, claims={"c": "want"}))
    assert text == "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."


def test_a_shared_device_needs_all_its_users_to_go() -> None:
    made = full(holding("c1", "gpu-0", "one", "two"), holding("c2", "gpu-1", "vip"), claim("want"))
    run(made, "one", "a", priority=1, claims={"c": "c1"})
    run(made, "two", "a", priority=1, claims={"c": "c1"})
    run(made, "vip", "a", priority=100, claims={"c": "c2"})
    found, _ = ask(made, info("p", priority=10, claims={"c": "want"}))
    assert victims(found) == ["one", "two"]


def test_a_device_shared_with_a_more_important_pod_stays() -> None:
    made = full(holding("c1", "gpu-0", "one", "vip"), holding("c2", "gpu-1", "vip"), claim("want"))
    run(made, "one", "a", priority=1, claims={"c": "c1"})
    run(made, "vip", "a", priority=100, claims={"c": "c1", "d": "c2"})
    found, _ = ask(made, info("p", priority=10, claims={"c": "want"}))
    assert found is None


def budget(allowed: int) -> PodDisruptionBudget:
    return from_plain(
        PodDisruptionBudget,
        {
            "metadata": {"name": "b", "namespace": "ns"},
            "spec": {"selector": {"matchLabels": {"app": "db"}}},
            "status": {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
        },
    )


@pytest.mark.parametrize(("allowed", "victim"), [(0, "free"), (1, "protected")])
def test_a_disruption_budget_protects_for_devices(allowed: int, victim: str) -> None:
    made = full(holding("c1", "gpu-0", "protected"), holding("c2", "gpu-1", "free"), claim("want"))
    made.budgets["ns/b"] = budget(allowed)
    run(made, "protected", "a", priority=1, labels={"app": "db"}, claims={"c": "c1"})
    run(made, "free", "a", priority=2, claims={"c": "c2"})
    found, _ = ask(made, info("p", priority=10, claims={"c": "want"}))
    assert victims(found) == [victim]


def test_for_devices_alone_a_budget_is_never_broken() -> None:
    made = full(holding("c1", "gpu-0", "protected"), holding("c2", "gpu-1", "protected"), claim("want"))
    made.budgets["ns/b"] = budget(0)
    run(made, "protected", "a", priority=1, labels={"app": "db"}, claims={"c": "c1", "d": "c2"})
    found, _ = ask(made, info("p", priority=10, claims={"c": "want"}))
    assert found is None


def test_a_pod_that_waits_for_its_victims_keeps_others_off_their_devices() -> None:
    made = full(claim("want"), claim("late"))
    waiting = info("p", priority=10, claims={"c": "want"})
    made.nominate(waiting, "a")
    outcome, _ = decide(made, info("late", priority=0, claims={"c": "late"}), NOW, uid)
    assert isinstance(outcome, Diagnosis)
    assert outcome.message() == (
        "0/1 nodes are available: 1 cannot allocate all claims. [what comes free on node a is promised to pod ns/p]"
    )
    outcome, _ = decide(made, info("later", priority=20, claims={"c": "late"}), NOW, uid)
    assert not isinstance(outcome, Diagnosis)


def crowded(*, protect: str = "") -> State:
    """Two devices held by pods of low priority; pod p, of high priority, waits for the first to come free."""
    made = full(holding("c1", "gpu-0", "one"), holding("c2", "gpu-1", "two"), claim("want"), claim("more"))
    for name, held in (("one", "c1"), ("two", "c2")):
        labels = {"app": "db"} if name == protect else {}
        run(made, name, "a", priority=1, claims={"c": held}, labels=labels)
    if protect:
        made.budgets["ns/b"] = budget(0)
    made.nominate(info("p", priority=10, claims={"c": "want"}), "a")
    return made


def test_a_preemption_does_not_count_on_devices_promised_to_another() -> None:
    found, _ = ask(crowded(), info("q", priority=10, claims={"c": "more"}))
    assert victims(found) == ["one", "two"]  # the first for p


def test_a_promise_to_another_does_not_let_a_budget_be_broken() -> None:
    made = crowded(protect="two")
    outcome, attempt = decide(made, info("q", priority=10, claims={"c": "more"}), NOW, uid)
    assert isinstance(outcome, Diagnosis)
    assert attempt is not None
    assert preempt(attempt, outcome)[0] is None
    assert outcome.advice == "pods ns/one, ns/two could make room on node a, but a disruption budget protects them"


def test_pods_that_leave_already_are_victims_before_any_other() -> None:
    made = full(holding("c1", "gpu-0", "one"), holding("c2", "gpu-1", "two"), claim("want"))
    run(made, "one", "a", priority=5, claims={"c": "c1"})
    going = info("two", priority=9, claims={"c": "c2"})
    assert going.pod.metadata is not None
    going.pod.metadata.deletionTimestamp = NOW
    made.place(going, "a")
    found, _ = ask(made, info("p", priority=10, claims={"c": "want"}))
    assert victims(found) == ["two"]


def test_devices_of_victims_that_are_gone_are_waited_for() -> None:
    """Between the end of a pod and the deallocation of its claims nobody else has to go."""
    made = full(holding("c1", "gpu-0", "one"), holding("c2", "gpu-1", "two"), claim("want", count=2))
    run(made, "one", "a", priority=1, claims={"c": "c1"})
    run(made, "two", "a", priority=2, claims={"c": "c2"})
    run(made, "three", "a", priority=0)
    pod = info("p", priority=10, claims={"c": "want"})
    found, _ = ask(made, pod)
    assert victims(found) == ["one", "two"]
    assert found is not None
    assert set(found.claims) == {"ns/c1", "ns/c2"}
    made.nominate(pod, "a", found.claims)
    made.displace("pod-one")
    made.displace("pod-two")
    assert ask(made, pod) == (None, "preemption: not eligible due to a terminating pod on the nominated node.")
    made.claims.set(claim("c1"))
    made.claims.set(claim("c2"))
    assert isinstance(decide(made, pod, NOW, uid)[0], Placement)


def test_of_two_that_wait_for_the_same_node_the_first_is_served() -> None:
    made = full(claim("want"), claim("more"))
    first, second = info("p", priority=10, claims={"c": "want"}), info("q", priority=10, claims={"c": "more"})
    made.nominate(first, "a")
    made.nominate(second, "a")
    assert isinstance(decide(made, second, NOW, uid)[0], Diagnosis)
    assert isinstance(decide(made, first, NOW, uid)[0], Placement)


def test_an_extended_resource_is_promised_too() -> None:
    made = state(node("a"), slice_("a", 1), device_class(resource="example.com/gpu"), claim("late"))
    made.nominate(info("p", priority=10, requests={"example.com/gpu": "1"}), "a")
    outcome, _ = decide(made, info("late", claims={"c": "late"}), NOW, uid)
    assert isinstance(outcome, Diagnosis)
