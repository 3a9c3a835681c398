"""Pods that wait for what is to come free: what is promised to them, who takes the promise back, what wakes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from lightkube.models.policy_v1 import PodDisruptionBudget

from drakit.api.gates import FeatureGates
from drakit.api.typed import from_plain
from drakit.client import Client, Informers
from drakit.clock import VirtualClock
from drakit.scheduler import Scheduler
from drakit.scheduler.preemption import ongoing
from drakit.scheduler.queue import Waiting
from tests.scheduler.builders import claim, device_class, info, node, place, pod, pod_group, slice_
from tests.scheduler.test_preemption import ask, holding, victims
from tests.scheduler.test_topology import NoServer

GANGS = FeatureGates.parse("GenericWorkload=true")
DEVICES, ROOM, NODE_ONLY = "DynamicResources", "NodeResourcesFit", "NodeUnschedulable"


def world(gates: FeatureGates | None = None) -> Scheduler:
    """A scheduler that does not run, with one node that has two devices."""
    client = Client(NoServer())
    made = Scheduler(client, Informers(client), clock=VirtualClock(), gates=gates)
    made._cycle.tracker._node_set(node("a"))
    made._cycle.tracker._class_set(device_class())
    made._cycle.tracker._slice_set(slice_("a"))
    return made


def rejected(made: Scheduler, name: str, plugin: str = NODE_ONLY, **spec: Any) -> Waiting:
    made._cycle.tracker._pod_set(None, pod(name, **spec))
    waiting = made.queue.take(f"pod-{name}")
    assert waiting is not None
    made._cycle.returns(waiting, frozenset((plugin,)))
    return waiting


def promised(made: Scheduler, name: str, **promise: Any) -> Waiting:
    """Rejected for another reason than what it waits for."""
    waiting = rejected(made, name, priority=10)
    made.state.nominate(waiting.info, "a", **promise)
    made._cycle.returns(waiting, frozenset((NODE_ONLY,)))
    return waiting


def is_woken(waiting: Waiting) -> bool:
    return waiting.state in ("active", "backoff")


# -- taken back


def test_a_pod_that_may_not_be_tried_any_more_is_promised_nothing() -> None:
    """Its claim goes, slowly: others use it. What came free for the pod would wait for it as long."""
    made = world()
    tracker = made._cycle.tracker
    tracker._claim_set(None, claim("mine"))
    waiting = rejected(made, "p", claims={"c": "mine"})
    made.state.nominate(waiting.info, "a")
    other = rejected(made, "other", DEVICES)
    tracker._claim_set(claim("mine"), claim("mine", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    assert waiting.gate == 'resourceclaim "mine" is being deleted'
    assert not made.state.nominated
    assert is_woken(other)


def test_a_gang_that_has_lost_a_pod_is_promised_nothing() -> None:
    made = world(GANGS)
    tracker = made._cycle.tracker
    tracker._group_set(pod_group("g", schedulingPolicy={"gang": {"minCount": 2}}))
    members = [rejected(made, name, "GangScheduling", schedulingGroup={"podGroupName": "g"}) for name in "pq"]
    for waiting in members:
        made.state.nominate(waiting.info, "a")
    tracker._pod_gone(members[0].info.pod)
    tracker._group_set(pod_group("g", schedulingPolicy={"gang": {"minCount": 2}}, priority=1))
    assert members[1].gate
    assert not made.state.nominated


def test_a_gang_with_a_gated_pod_is_promised_nothing() -> None:
    made = world(GANGS)
    tracker = made._cycle.tracker
    tracker._claim_set(None, claim("mine"))
    tracker._group_set(pod_group("g", schedulingPolicy={"gang": {"minCount": 2}}))
    members = [
        rejected(made, name, schedulingGroup={"podGroupName": "g"}, claims=claims)
        for name, claims in (("p", {"c": "mine"}), ("q", {}))
    ]
    for waiting in members:
        made.state.nominate(waiting.info, "a")
    tracker._claim_set(claim("mine"), claim("mine", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    made.queue.activate(members[1], 0.0)
    waiting = made.queue.pop()
    assert waiting is not None
    made._attempt(waiting)
    assert members[0].gate
    assert members[1].state == "unschedulable"
    assert not made.state.nominated


def test_a_node_that_is_lost_to_a_gated_pod_ends_its_promise() -> None:
    made = world()
    made._cycle.tracker._claim_set(None, claim("mine"))
    for name in ("p", "q"):
        made.state.nominate(rejected(made, name, claims={"c": "mine"}).info, "a")
    made.state.claims.remove(claim("mine"))
    made._cycle.tracker._node_gone(node("a"))
    assert not made.state.nominated


# -- woken


@pytest.mark.parametrize("gone", [True, False])
def test_a_pod_is_tried_again_when_its_victims_claims_come_free_whoever_rejected_it(gone: bool) -> None:
    """Something else had come in the way meanwhile; it held what was promised to it, and nobody asked for five minutes."""
    made = world()
    tracker, held = made._cycle.tracker, holding("c1", "gpu-0")
    tracker._claim_set(None, held)
    waiting = promised(made, "p", claims=["ns/c1"])
    if gone:
        tracker._claim_gone(held)
    else:
        tracker._claim_set(held, claim("c1"))
    assert is_woken(waiting)


def test_a_pod_is_tried_again_when_a_victim_is_gone_whoever_rejected_it() -> None:
    made = world()
    tracker = made._cycle.tracker
    tracker._pod_set(None, pod("low", nodeName="a"))
    waiting = promised(made, "p", victims=["pod-low"])
    tracker._pod_gone(pod("low", nodeName="a"))
    assert is_woken(waiting)


def test_victims_that_somebody_else_deleted_are_waited_for() -> None:
    """Else pods that count on the same ones take the node from each other, over and over, until they have left."""
    made = world()
    leaving = pod("low", nodeName="a")
    assert leaving.metadata is not None
    leaving.metadata.deletionTimestamp = made.clock.now()
    made._cycle.tracker._pod_set(None, leaving)
    waiting = promised(made, "p", victims=["pod-low"])
    assert ongoing(made.state, waiting.info, made.state.nominated[waiting.info.uid])
    made._cycle.tracker._pod_gone(leaving)
    assert not ongoing(made.state, waiting.info, made.state.nominated[waiting.info.uid])


@pytest.mark.parametrize("cordoned", [True, False])
def test_victims_on_a_node_that_is_barred_by_now_are_not_waited_for(cordoned: bool) -> None:
    made = world()
    made._cycle.tracker._pod_set(None, pod("low", nodeName="a"))
    waiting = promised(made, "p", victims=["pod-low"])
    made.state.leaving.add("pod-low")
    barred = node("a")
    assert barred.spec is not None
    barred.spec.unschedulable = cordoned
    made._cycle.tracker._node_set(barred)
    assert ongoing(made.state, waiting.info, made.state.nominated[waiting.info.uid]) is not cordoned


def test_victims_of_others_are_not_waited_for() -> None:
    made = world()
    for name in ("mine", "others"):
        made._cycle.tracker._pod_set(None, pod(name, nodeName="a"))
    waiting = promised(made, "p", victims=["pod-mine"])
    made.state.leaving |= {"pod-mine", "pod-others"}
    assert ongoing(made.state, waiting.info, made.state.nominated[waiting.info.uid])
    made._cycle.tracker._pod_gone(pod("mine", nodeName="a"))
    assert not ongoing(made.state, waiting.info, made.state.nominated[waiting.info.uid])


def budget(allowed: int = 0, app: str = "db") -> PodDisruptionBudget:
    spec = {"selector": {"matchLabels": {"app": app}}, "maxUnavailable": 1}
    meta = {"name": "b", "namespace": "ns"}
    return from_plain(PodDisruptionBudget, {"metadata": meta, "spec": spec, "status": {"disruptionsAllowed": allowed}})


@pytest.mark.parametrize(
    ("change", "wakes"),
    [
        pytest.param(lambda tracker: tracker._budget_set(budget(2)), True, id="one-more"),
        pytest.param(lambda tracker: tracker._budget_set(budget(1, "web")), True, id="of-others"),
        pytest.param(lambda tracker: tracker._budget_gone(budget(1)), True, id="gone"),
        pytest.param(lambda tracker: tracker._budget_set(budget(0)), False, id="one-less"),
        pytest.param(lambda tracker: tracker._budget_set(budget(1)), False, id="the-same"),
    ],
)
def test_pods_that_lack_devices_are_tried_again_when_a_budget_protects_fewer(
    change: Callable[[Any], None], wakes: bool
) -> None:
    made = world()
    made._cycle.tracker._budget_set(budget(1))
    waiting = rejected(made, "p", DEVICES)
    change(made._cycle.tracker)
    assert is_woken(waiting) is wakes


def test_pods_are_tried_again_when_an_older_class_takes_over_their_resource() -> None:
    made = world()
    classes = [device_class(name, resource="example.com/gpu") for name in ("new", "old")]
    for each in classes:
        made._cycle.tracker._class_set(each)
    waiting = rejected(made, "p", DEVICES, requests={"example.com/gpu": "1"})
    made._cycle.tracker._class_gone(classes[0])
    assert is_woken(waiting)
    waiting = rejected(made, "q", DEVICES, requests={"example.com/gpu": "1"})
    made._cycle.tracker._class_gone(classes[1])
    assert not is_woken(waiting)


def test_what_a_resized_pod_needs_no_more_is_for_others() -> None:
    made = world()
    before, after = pod("low", nodeName="a", requests={"cpu": "4"}), pod("low", nodeName="a", requests={"cpu": "1"})
    assert after.metadata is not None
    after.metadata.generation = 2
    made._cycle.tracker._pod_set(None, before)
    waiting = rejected(made, "p", ROOM, requests={"cpu": "2"})
    made._cycle.wake.clear()
    made._cycle.tracker._pod_set(before, after)
    assert is_woken(waiting)
    assert made._cycle.wake.is_set()


def test_a_pod_in_the_course_of_being_bound_is_a_victim_with_its_devices() -> None:
    """Nothing tells those who wait when it is bound."""
    made = world()
    for name in ("low", "want"):
        made._cycle.tracker._claim_set(None, claim(name, count=2))
    low = info("low", claims={"c": "low"})
    place(made.state, low)
    found, _ = ask(made.state, info("p", priority=10, claims={"c": "want"}))
    assert victims(found) == ["low"]
    held = {(hold.pool[1], hold.device) for _, hold in made.state.allocated.holds()}
    assert held == {("a", "gpu-0"), ("a", "gpu-1")}  # nothing is left of the trial
