"""Who has to go: fewest and least important victims, devices included, disruption budgets respected."""

from __future__ import annotations

from typing import Any

import pytest
from lightkube.models.core_v1 import NodeSelector
from lightkube.models.meta_v1 import LabelSelector, OwnerReference
from lightkube.models.policy_v1 import PodDisruptionBudget
from lightkube.models.resource_v1 import Device, ResourceClaimConsumerReference, ResourceSlice

from drakit.api.typed import from_plain
from drakit.clock import VirtualClock
from drakit.scheduler.decide import Placement, decide
from drakit.scheduler.outcome import Diagnosis
from drakit.scheduler.pods import PodInfo
from drakit.scheduler.preemption import Preemption, preempt, waits_for
from drakit.scheduler.queue import SchedulingQueue
from drakit.scheduler.report import condition_patch
from drakit.scheduler.state import Policy, State
from drakit.scheduler.tracker import Tracker
from tests.scheduler.builders import DRIVER, NOW, claim, device_class, info, node, pod_group, slice_, state, uid


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


def test_a_budget_is_not_broken_for_devices_of_a_node_that_lacks_room_too() -> None:
    made = full(holding("c1", "gpu-0", "protected"), holding("c2", "gpu-1", "vip"), claim("want"))
    made.budgets["ns/b"] = budget(0)
    run(made, "vip", "a", priority=100, claims={"c": "c2"})
    run(made, "protected", "a", priority=1, labels={"app": "db"}, claims={"c": "c1"})
    run(made, "large", "a", priority=1, requests={"cpu": "4"})
    outcome, attempt = decide(made, info("p", priority=10, claims={"c": "want"}, requests={"cpu": "4"}), NOW, uid)
    assert isinstance(outcome, Diagnosis)
    assert attempt is not None
    assert outcome.plugins == {"NodeResourcesFit"}
    assert preempt(attempt, outcome)[0] is None
    assert outcome.plugins == {
        "NodeResourcesFit",
        "DynamicResources",
    }  # it is tried again when a budget allows for more
    made.budgets["ns/b"] = budget(1)
    found, _ = ask(made, info("p", priority=10, claims={"c": "want"}, requests={"cpu": "4"}))
    assert victims(found) == ["large", "protected"]


def test_a_pod_whose_victims_devices_would_not_do_waits_for_devices_too() -> None:
    made = full(holding("c1", "gpu-0", "vip"), claim("want", count=2))
    run(made, "vip", "a", priority=100, claims={"c": "c1"})
    run(made, "low", "a", requests={"cpu": "4"})
    outcome, attempt = decide(made, info("p", priority=10, claims={"c": "want"}, requests={"cpu": "4"}), NOW, uid)
    assert isinstance(outcome, Diagnosis)
    assert attempt is not None
    assert preempt(attempt, outcome)[0] is None
    assert outcome.plugins == {"NodeResourcesFit", "DynamicResources"}


@pytest.mark.parametrize(("namespace", "whose"), [("ns", "pod ns/p"), ("other", "a pod of another namespace")])
def test_a_pod_that_waits_for_its_victims_keeps_others_off_their_devices(namespace: str, whose: str) -> None:
    made = full(claim("want"), claim("late"))
    waiting = info("p", namespace=namespace, priority=10, claims={"c": "want"})
    made.nominate(waiting, "a")
    outcome, _ = decide(made, info("late", priority=0, claims={"c": "late"}), NOW, uid)
    assert isinstance(outcome, Diagnosis)
    assert outcome.message() == (
        f"0/1 nodes are available: 1 cannot allocate all claims. [what comes free on node a is promised to {whose}]"
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
    assert outcome.advice == "ns/one, ns/two could make room on node a, but a disruption budget protects them"


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


# -- whom upstream takes, and what it says


def starting(second: int) -> dict[str, Any]:
    return {"startTime": f"2025-01-01T00:00:{second:02}Z"}


def test_of_equals_the_one_that_started_last_goes() -> None:
    made = state(node("a", cpu="3"))
    run(made, "old", "a", requests={"cpu": "1"}, status=starting(1))
    run(made, "young", "a", requests={"cpu": "1"}, status=starting(2))
    run(made, "older", "a", requests={"cpu": "1"}, status=starting(0))
    found, _ = ask(made, info("p", priority=1, requests={"cpu": "1"}))
    assert victims(found) == ["young"]


def test_a_pod_that_has_not_started_goes_before_those_that_have() -> None:
    made = state(node("a", cpu="2"))
    run(made, "waits", "a", requests={"cpu": "1"})
    run(made, "runs", "a", requests={"cpu": "1"}, status=starting(1))
    found, _ = ask(made, info("p", priority=1, requests={"cpu": "1"}))
    assert victims(found) == ["waits"]


def test_the_node_whose_most_important_victims_started_last_is_chosen() -> None:
    made = state(node("a", cpu="1"), node("b", cpu="1"))
    run(made, "old", "a", requests={"cpu": "1"}, status=starting(1))
    run(made, "young", "b", requests={"cpu": "1"}, status=starting(2))
    found, _ = ask(made, info("p", priority=1, requests={"cpu": "1"}))
    assert victims(found) == ["young"]


@pytest.mark.parametrize(
    ("groups", "victim"),
    [
        pytest.param({}, "b", id="without-groups-the-younger"),
        pytest.param({"b": "single"}, "a", id="a-pod-of-a-group-is-more-important"),
        pytest.param({"a": "single", "b": "single"}, "b", id="of-two-groups-the-younger"),
    ],
)
def test_pods_of_groups_are_more_important(groups: dict[str, str], victim: str) -> None:
    made = state(node("a", cpu="2"))
    for number, name in enumerate(("a", "b")):
        more = {"schedulingGroup": {"podGroupName": name}} if name in groups else {}
        run(made, name, "a", requests={"cpu": "1"}, status=starting(number), **more)
        if name in groups:
            made.groups[f"ns/{name}"] = pod_group(name, mode=groups[name])
    found, _ = ask(made, info("p", priority=1, requests={"cpu": "1"}))
    assert victims(found) == [victim]


def test_a_pod_has_the_priority_of_its_group() -> None:
    made = state(node("a", cpu="1"))
    run(made, "g", "a", requests={"cpu": "1"}, schedulingGroup={"podGroupName": "g"})
    made.groups["ns/g"] = pod_group("g", priority=7)
    assert ask(made, info("p", priority=7, requests={"cpu": "1"}))[0] is None
    assert victims(ask(made, info("p", priority=8, requests={"cpu": "1"}))[0]) == ["g"]


def test_priorities_at_their_bounds() -> None:
    made = state(node("a", cpu="1"), node("b", cpu="2"))
    run(made, "least", "a", priority=-(1 << 31), requests={"cpu": "1"})
    for name in ("b0", "b1"):
        run(made, name, "b", priority=-(1 << 31), requests={"cpu": "1"})
    assert victims(ask(made, info("p", priority=(1 << 31) - 1, requests={"cpu": "1"}))[0]) in (
        ["least"],
        ["b0"],
        ["b1"],
    )
    found, _ = ask(made, info("p", priority=1 - (1 << 31), requests={"cpu": "2"}))
    assert victims(found) == ["b0", "b1"]
    assert ask(made, info("p", priority=-(1 << 31), requests={"cpu": "1"}))[0] is None


def test_a_budget_without_selector_terms_protects_nothing() -> None:
    made = state(node("a", cpu="1"))
    empty = budget(0)
    assert empty.spec is not None
    empty.spec.selector = from_plain(LabelSelector, {})
    made.budgets["ns/b"] = empty
    run(made, "low", "a", labels={"app": "db"}, requests={"cpu": "1"})
    found, _ = ask(made, info("p", priority=1, requests={"cpu": "1"}))
    assert found is not None
    assert found.violations == 0


def test_for_room_a_budget_is_broken_when_nothing_else_helps() -> None:
    made = state(node("a", cpu="1"))
    made.budgets["ns/b"] = budget(0)
    run(made, "low", "a", labels={"app": "db"}, requests={"cpu": "1"})
    found, _ = ask(made, info("p", priority=1, requests={"cpu": "1"}))
    assert victims(found) == ["low"]
    assert found is not None
    assert found.violations == 1


def test_what_is_in_the_way_when_all_victims_are_gone() -> None:
    made = state(node("a", cpu="2"), node("b", cpu="2"))
    run(made, "low", "a", requests={"cpu": "1"})
    run(made, "high", "a", priority=9, requests={"cpu": "1"})
    run(made, "mine", "b", priority=5, requests={"cpu": "2"})
    _, text = ask(made, info("p", priority=5, requests={"cpu": "2"}))
    assert text == (
        "preemption: 0/2 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod."
    )


def test_more_nodes_than_are_looked_at_do_not_hide_one_without_broken_budgets() -> None:
    made = state(*(node(f"n{number:03}", cpu="1") for number in range(150)))
    made.budgets["ns/b"] = budget(0)
    for number in range(150):
        labels = {} if number == 149 else {"app": "db"}
        run(made, f"p{number}", f"n{number:03}", labels=labels, requests={"cpu": "1"})
    found, _ = ask(made, info("p", priority=1, requests={"cpu": "1"}))
    assert victims(found) == ["p149"]


# -- while victims leave


def leaving(name: str, *, by_scheduler: bool, **more: Any) -> PodInfo:
    conditions = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
    made = info(name, status={"conditions": conditions} if by_scheduler else {}, **more)
    assert made.pod.metadata is not None
    made.pod.metadata.deletionTimestamp = NOW
    return made


@pytest.mark.parametrize(
    ("by_scheduler", "trouble", "waits"),
    [
        pytest.param(True, "", True, id="a-victim"),
        pytest.param(False, "", False, id="deleted-by-somebody"),
        pytest.param(True, "cordoned", False, id="the-node-is-past-help"),
        pytest.param(True, "removed", False, id="the-node-is-gone"),
    ],
)
def test_more_victims_are_not_looked_for_while_some_leave(by_scheduler: bool, trouble: str, waits: bool) -> None:
    made = state(node("a", cpu="2"), node("b", cpu="1"))
    if trouble == "cordoned":
        away = node("a", cpu="2")
        assert away.spec is not None
        away.spec.unschedulable = True
        made.set_node(away)
    made.place(leaving("going", by_scheduler=by_scheduler, requests={"cpu": "1"}), "a")
    run(made, "other", "a", priority=9, requests={"cpu": "1"})
    run(made, "low", "b", requests={"cpu": "1"})
    pod = info("p", priority=5, requests={"cpu": "1"}, status={"nominatedNodeName": "a"})
    made.nominate(pod, "a")
    if trouble == "removed":
        made.remove_node("a")
    found, text = ask(made, pod)
    assert (text == "preemption: not eligible due to a terminating pod on the nominated node.") is waits
    assert waits or victims(found) == (["low"] if trouble else ["going"])


def test_a_node_that_became_anothers_is_not_waited_for_though_the_status_still_names_it() -> None:
    made = state(node("a", cpu="2"))
    made.place(leaving("going", by_scheduler=True, requests={"cpu": "1"}), "a")
    run(made, "low", "a", requests={"cpu": "1"})
    made.nominate(info("more-important", priority=9, requests={"cpu": "1"}), "a")
    outranked = info("p", priority=5, requests={"cpu": "1"}, status={"nominatedNodeName": "a"})
    found, _ = ask(made, outranked)
    assert victims(found) == ["going", "low"]


@pytest.mark.parametrize(("lost", "by_taint"), [("a", True), ("a", False), ("b", True), ("b", False)])
def test_a_pod_that_waits_for_a_node_that_is_lost_is_tried_again(lost: str, by_taint: bool) -> None:
    made, queue = state(node("a"), node("b")), SchedulingQueue()
    tracker = Tracker(made, queue, VirtualClock(), "default-scheduler", wake=lambda: None, watched=lambda: None)
    tracker._pod_set(None, info("p", priority=10).pod)
    waiting = queue.pop()
    assert waiting is not None
    queue.unschedulable(waiting, frozenset(("DynamicResources",)), 0.0, ())
    made.nominate(waiting.info, "a")
    if by_taint:
        tracker._node_set(node(lost, taints=[{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]))
    else:
        tracker._node_gone(node(lost))
    assert queue.counts()["unschedulable"] == (0 if lost == "a" else 1)


def test_a_nomination_is_written_though_the_pod_shows_it_already() -> None:
    """The status may be older than a write that takes the node away from the pod."""
    pod = info("p", status={"nominatedNodeName": "a"}).pod
    patch = condition_patch(pod, "Unschedulable", "why", "2026-02-02T00:00:00Z", "a")
    assert patch is not None
    assert patch["status"]["nominatedNodeName"] == "a"


def test_a_victim_that_was_told_to_go_counts_as_going_before_the_server_shows_it() -> None:
    made = state(node("a", cpu="1"), node("b", cpu="1"))
    run(made, "one", "a", priority=3, requests={"cpu": "1"})
    pod = info("p", priority=10, requests={"cpu": "1"})
    made.leaving.add("pod-one")
    made.nominate(pod, "a")
    run(made, "two", "b", requests={"cpu": "1"})  # a cheaper one came in the meantime
    assert ask(made, pod) == (None, "preemption: not eligible due to a terminating pod on the nominated node.")


# -- what pods on the node, and elsewhere, mean to each other


def away_from(app: str) -> dict[str, Any]:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_pods_that_a_pod_cannot_stand_are_victims() -> None:
    made = state(node("a"))
    run(made, "bystander", "a")
    run(made, "web", "a", labels={"app": "web"})
    found, _ = ask(made, info("p", priority=5, affinity=away_from("web")))
    assert victims(found) == ["web"]


def test_pods_that_cannot_stand_a_pod_are_victims() -> None:
    made = state(node("a"))
    run(made, "bystander", "a")
    run(made, "alone", "a", affinity=away_from("web"))
    high = info("p", priority=5, labels={"app": "web"})
    found, _ = ask(made, high)
    assert victims(found) == ["alone"]
    assert ask(made, info("q", priority=0, labels={"app": "web"}))[0] is None  # nothing of the trial remains


def test_a_pod_does_not_preempt_those_that_it_has_to_be_near_to() -> None:
    made = state(node("a", cpu="1"))
    run(made, "web", "a", labels={"app": "web"}, requests={"cpu": "1"})
    affinity = {"podAffinity": away_from("web")["podAntiAffinity"]}
    found, _ = ask(made, info("p", priority=5, affinity=affinity, requests={"cpu": "1"}))
    assert found is None


def test_as_many_pods_are_victims_as_the_spread_asks_for() -> None:
    made = state(node("a"), node("b", cpu="1"))
    run(made, "full", "b", priority=9, requests={"cpu": "1"})
    for name, priority in (("one", 1), ("two", 2), ("three", 3)):
        run(made, name, "a", priority=priority, labels={"app": "web"})
    spread = {
        "maxSkew": 2,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    pod = info("p", priority=5, labels={"app": "web"}, requests={"cpu": "1"}, topologySpreadConstraints=[spread])
    found, _ = ask(made, pod)
    assert victims(found) == ["one", "two"]


# -- devices that several nodes can have


def fabric(*, on: str = "") -> Any:
    made = slice_("a", 1)
    assert made.spec is not None
    made.spec.nodeName = None
    made.spec.pool.name = "fabric"
    if on:
        terms = [{"matchExpressions": [{"key": "rack", "operator": "In", "values": [on]}]}]
        made.spec.nodeSelector = from_plain(NodeSelector, {"nodeSelectorTerms": terms})
    else:
        made.spec.allNodes = True
    return made


def attached(name: str, *pods: str, on: str = "") -> Any:
    made = holding(name, "gpu-0", *pods)
    made.status.allocation.devices.results[0].pool = "fabric"
    if on:
        made.status.allocation.nodeSelector = fabric(on=on).spec.nodeSelector
    return made


def test_of_many_holders_those_that_stay_are_not_asked_about_one_by_one() -> None:
    """Every node can have the devices of all of them."""
    count, pool = 64, fabric()
    pool.spec.devices = [from_plain(Device, {"name": f"gpu-{index}"}) for index in range(count)]
    claims = [attached(f"c{index}", f"p{index}") for index in range(count)]
    for index, each in enumerate(claims):
        each.status.allocation.devices.results[0].device = f"gpu-{index}"
    asked = iter(range(1 << 20))
    policy = Policy(clock=lambda: float(next(asked)) / 1e6)
    made = state(node("a", pods="110"), pool, device_class(), *claims, claim("want", count=2), policy=policy)
    for index in range(count):
        made.place(info(f"p{index}", priority=index, claims={"c": f"c{index}"}), "a")
    outcome, attempt = decide(made, info("p", priority=100, claims={"c": "want"}), NOW, uid)
    assert isinstance(outcome, Diagnosis)
    assert attempt is not None
    before = next(asked)
    found, _ = preempt(attempt, outcome)
    assert victims(found) == ["p0", "p1"]
    assert next(asked) - before < count


def test_a_device_that_any_node_can_have_is_taken_from_pods_on_other_nodes() -> None:
    nodes = (node("a", labels={"only": "here"}), node("b"), node("c"))
    made = state(*nodes, fabric(), device_class(), attached("c1", "one", "two"), claim("want"))
    run(made, "one", "b", priority=1, claims={"c": "c1"})
    run(made, "two", "c", priority=1, claims={"c": "c1"})
    run(made, "bystander", "a")
    pod = info("p", priority=10, claims={"c": "want"}, nodeSelector={"only": "here"})
    found, _ = ask(made, pod)
    assert victims(found) == ["one", "two"]
    assert found is not None
    assert found.node == "a"
    # What comes free is kept for the pod, wherever others are.
    made.nominate(pod, found.node, found.claims, found.holds)
    made.displace("pod-one")
    made.displace("pod-two")
    made.claims.remove(attached("c1"))
    made.claims.set(claim("late"))
    assert isinstance(decide(made, info("late", claims={"c": "late"}, priority=9), NOW, uid)[0], Diagnosis)
    assert isinstance(decide(made, pod, NOW, uid)[0], Placement)
    made.withdraw(pod.uid)
    assert isinstance(decide(made, info("late", claims={"c": "late"}, priority=9), NOW, uid)[0], Placement)


@pytest.mark.parametrize(
    ("rack", "protect", "found"),
    [
        pytest.param("r1", False, True, id="in-reach"),
        pytest.param("r2", False, False, id="out-of-reach"),
        pytest.param("r1", True, False, id="protected"),
    ],
)
def test_only_devices_in_reach_are_taken(rack: str, protect: bool, found: bool) -> None:
    nodes = (node("a", labels={"rack": rack, "only": "here"}), node("b", labels={"rack": "r1"}))
    made = state(*nodes, fabric(on="r1"), device_class(), attached("c1", "one", on="r1"), claim("want"))
    run(made, "one", "b", priority=1, claims={"c": "c1"}, labels={"app": "db"})
    if protect:
        made.budgets["ns/b"] = budget(0)
    pod = info("p", priority=10, claims={"c": "want"}, nodeSelector={"only": "here"})
    assert (ask(made, pod)[0] is not None) is found


def test_a_budget_is_not_broken_elsewhere_for_a_pod_that_lacks_room_here_too() -> None:
    nodes = (node("a", cpu="1", labels={"only": "here"}), node("b"))
    made = state(*nodes, fabric(), device_class(), attached("c1", "one"), claim("want"))
    made.budgets["ns/b"] = budget(0)
    run(made, "one", "b", priority=1, claims={"c": "c1"}, labels={"app": "db"})
    run(made, "low", "a", requests={"cpu": "1"})
    pod = info("p", priority=10, claims={"c": "want"}, nodeSelector={"only": "here"}, requests={"cpu": "1"})
    assert ask(made, pod)[0] is None
    made.budgets.clear()
    assert victims(ask(made, pod)[0]) == ["low", "one"]


# -- who holds what


def test_holders_with_admin_access_stay() -> None:
    watching = holding("watch", "gpu-0", "admin")
    watching.status.allocation.devices.results[0].adminAccess = True
    made = state(node("a"), slice_("a", 1), device_class(), watching, holding("c1", "gpu-0", "one"), claim("want"))
    run(made, "admin", "a", priority=0, claims={"c": "watch"})
    run(made, "one", "a", priority=5, claims={"c": "c1"})
    found, _ = ask(made, info("p", priority=10, claims={"c": "want"}))
    assert victims(found) == ["one"]


def test_a_claim_of_a_group_does_not_come_free_with_its_pods() -> None:
    """It is reserved for the group, which stays."""
    held = holding("c1", "gpu-0")
    held.status.reservedFor = [
        from_plain(ResourceClaimConsumerReference, {"resource": "podgroups", "name": "g", "uid": "G"})
    ]
    made = state(node("a"), slice_("a", 1), device_class(), held, claim("want"))
    run(made, "one", "a", claims={"c": "c1"}, schedulingGroup={"podGroupName": "g"})
    assert ask(made, info("p", priority=10, claims={"c": "want"}))[0] is None


def test_victims_free_partitions_that_fit_together() -> None:
    """A whole GPU is wanted: pods on two of its halves go, not the one that holds a half of another."""
    counters = [{"name": f"gpu-{index}", "counters": {"slices": {"value": "2"}}} for index in range(2)]

    def part(name: str, gpu: int, slices: int) -> dict[str, Any]:
        consumed = [{"counterSet": f"gpu-{gpu}", "counters": {"slices": {"value": str(slices)}}}]
        attributes = {"whole": {"bool": slices == 2}}
        return {"name": name, "consumesCounters": consumed, "attributes": attributes}

    parts = [part(f"half-{gpu}-{index}", gpu, 1) for gpu in range(2) for index in range(2)]
    parts += [part(f"whole-{gpu}", gpu, 2) for gpu in range(2)]
    spec = {"driver": DRIVER, "nodeName": "a", "pool": {"name": "a", "generation": 1, "resourceSliceCount": 2}}
    slices = [{**spec, "sharedCounters": counters}, {**spec, "devices": parts}]
    published = [
        from_plain(ResourceSlice, {"metadata": {"name": f"s{number}"}, "spec": each})
        for number, each in enumerate(slices)
    ]
    held = {"one": "half-0-0", "two": "half-0-1", "three": "half-1-0", "vip": "half-1-1"}
    priorities = {"one": 3, "two": 3, "three": 1, "vip": 100}
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    exactly["selectors"] = [{"cel": {"expression": f"device.attributes['{DRIVER}'].whole"}}]
    holders = [holding(f"c-{name}", device, name) for name, device in held.items()]
    made = state(
        node("a"), *published, device_class(), *holders, claim("want", requests=[{"name": "r", "exactly": exactly}])
    )
    for name, priority in priorities.items():
        run(made, name, "a", priority=priority, claims={"c": f"c-{name}"})
    found, _ = ask(made, info("p", priority=10, claims={"c": "want"}))
    assert victims(found) == ["one", "two"]


def test_extended_resources_are_freed_with_the_pod_that_has_them() -> None:
    made = state(node("a"), slice_("a", 1), device_class(resource="example.com/gpu"))
    held = holding("extended", "gpu-0", "low")
    held.metadata.annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "low", "uid": "pod-low", "controller": True}
    held.metadata.ownerReferences = [from_plain(OwnerReference, owner)]
    made.claims.set(held)
    run(made, "low", "a", priority=1, requests={"example.com/gpu": "1"})
    found, _ = ask(made, info("p", priority=10, requests={"example.com/gpu": "1"}))
    assert victims(found) == ["low"]


# -- promises


def test_a_claim_that_is_to_come_free_finds_no_new_users() -> None:
    """The victim's successor names the same claim and would keep its devices from the pod that waits for them."""
    made = full(holding("c1", "gpu-0", "one"), holding("c2", "gpu-1", "vip"), claim("want"))
    run(made, "vip", "a", priority=100, claims={"c": "c2"})
    waiting = info("p", priority=10, claims={"c": "want"})
    made.nominate(waiting, "a", ["ns/c1"])
    outcome, _ = decide(made, info("successor", priority=1, claims={"c": "c1"}), NOW, uid)
    assert isinstance(outcome, Diagnosis)
    assert "claim ns/c1 is to come free for pod ns/p" in outcome.message()
    assert isinstance(decide(made, info("urgent", priority=11, claims={"c": "c1"}), NOW, uid)[0], Placement)
    made.withdraw(waiting.uid)
    assert isinstance(decide(made, info("successor", priority=1, claims={"c": "c1"}), NOW, uid)[0], Placement)


def test_a_pod_does_not_fail_for_what_is_promised_to_itself() -> None:
    """Of two alike, the one that others have to leave the node to is tried last."""
    made = full(claim("want"), claim("more"))
    first, second = info("p", priority=10, claims={"c": "want"}), info("q", priority=10, claims={"c": "more"})
    made.nominate(first, "a")
    outcome, attempt = decide(made, second, NOW, uid)
    assert isinstance(outcome, Diagnosis)
    assert attempt is not None
    made.remember_failure(attempt.key, outcome)
    assert isinstance(decide(made, first, NOW, uid)[0], Placement)


def test_pods_that_share_a_claim_preempt_for_it_once() -> None:
    found, _ = ask(crowded(), info("q", priority=10, claims={"c": "want"}))
    assert len(victims(found)) == 1


def test_what_is_promised_of_a_shared_pool_is_counted_once() -> None:
    pool, held = fabric(), attached("c2", "two")
    pool.spec.devices.append(from_plain(Device, {"name": "gpu-1"}))
    held.status.allocation.devices.results[0].device = "gpu-1"
    claims = (attached("c1", "one"), held, claim("want"), claim("more"))
    made = state(node("a"), pool, device_class(), *claims)
    run(made, "one", "a", priority=1, claims={"c": "c1"})
    run(made, "two", "a", priority=1, claims={"c": "c2"})
    result = {"request": "r", "driver": DRIVER, "pool": "fabric", "device": "gpu-0"}
    made.nominate(info("p", priority=10, claims={"c": "want"}), "a", ["ns/c1"], [{"devices": {"results": [result]}}])
    found, _ = ask(made, info("q", priority=10, claims={"c": "more"}))
    assert victims(found) == ["two"]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        pytest.param(["a"], "waits for ns/a to leave", id="one"),
        pytest.param(["a", "b", "a"], "waits for ns/a, ns/b to leave", id="each-once"),
        pytest.param(list("abcdef"), "waits for ns/a, ns/b, ns/c, ns/d and 2 more to leave", id="many"),
        pytest.param(["a", "b/x"], "waits for ns/a and 1 pod of another namespace to leave", id="a-foreign-one"),
        pytest.param(["b/x", "c/x"], "waits for 2 pods of other namespaces to leave", id="foreign-ones"),
    ],
)
def test_whom_a_pod_waits_for(names: list[str], text: str) -> None:
    pods = [info(name[-1], uid=name, namespace=name[:-2] or "ns") for name in names]
    assert waits_for(pods, "ns") == text
