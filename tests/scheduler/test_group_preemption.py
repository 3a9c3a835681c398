"""Whom a group preempts: enough for all of its pods in the domain that it would get, as few as possible, or nobody."""

from __future__ import annotations

from typing import Any

import pytest

from drakit.scheduler import preemption
from drakit.scheduler.group_preemption import NODES, Plan, preempt_for
from drakit.scheduler.nodes import NodeInfo
from drakit.scheduler.outcome import Diagnosis
from drakit.scheduler.placements import Placements
from tests.scheduler import builders
from tests.scheduler.test_topology import NESTED, TOPOLOGY, World, decided

LOW, HIGH = -1, 1


def planned(world: World, group: str) -> Plan:
    """As every attempt plans: what was promised to the pods is withdrawn first. Nothing is left behind in the state by it."""
    promises = dict(world.made.state.nominated)
    for uid in promises:
        world.made.state.withdraw(uid)
    made, part = world.made, world.part(group)
    result = Placements(made._cycle).place(part)
    assert not result.ok or not list(result.assumed())
    before = shown(world)
    root = made.state.hierarchy.get(part.ref)
    assert root is not None
    plan = preempt_for(made._cycle, root, result, promises)
    assert shown(world) == before
    assert not made.state.nominated
    return plan


def shown(world: World) -> Any:
    state = world.made.state
    return (
        {node.name: (set(node.pods), {k: v for k, v in node.requested.items() if v}) for node in state.nodes},
        {key for key, claim in state.claims.stored.items() if state.claims.is_allocated(claim)},
        set(state.claims.in_flight),
        set(world.tracker.assumed),
    )


def victims(plan: Plan) -> set[str]:
    return {victim.name for _, found in plan.victims for victim in found.victims}


def test_victims_are_those_of_the_domain_that_would_be_fullest() -> None:
    """As upstream: rack 1 has two nodes, rack 2 three; one victim would do in the second as well."""

    def test(world: World) -> None:
        for name in ("r1z1-a", "r1z1-b", "r2z1-a", "r2z1-b", "r2z1-c", "r3z1-a"):
            world.node(name)
        for name in ("r1z1-a", "r2z1-a", "r2z1-b"):
            world.pod(f"low-{name}", node=name, cpu="2", priority=LOW)
        world.group("g", 3, key="rack")
        for index in range(3):
            world.pod(f"p{index}", "g")
        assert victims(planned(world, "g")) == {"low-r1z1-a"}

    decided(test)


def test_pods_of_the_group_that_fit_already_keep_a_seat() -> None:
    def test(world: World) -> None:
        for name in ("r1z1-a", "r1z1-b"):
            world.node(name)
        world.pod("low", node="r1z1-a", cpu="2", priority=LOW)
        world.group("g", 2, key="rack")
        for index in range(2):
            world.pod(f"p{index}", "g", cpu="2")
        plan = planned(world, "g")
        assert [(info.name, node) for info, node in plan.seats] == [("p0", "r1z1-b")]
        assert [(info.name, found.node) for info, found in plan.victims] == [("p1", "r1z1-a")]

    decided(test)


def test_the_pods_of_a_large_gang_do_not_look_for_victims_on_every_node(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []
    search = preemption._Search.victims_on

    def victims_on(self: Any, node: NodeInfo) -> Any:
        looked_at.append(node.name)
        return search(self, node)

    monkeypatch.setattr(preemption._Search, "victims_on", victims_on)

    def test(world: World) -> None:
        count = 60
        for index in range(count):
            world.node(f"r1z1-{index}")
            world.pod(f"low-{index}", node=f"r1z1-{index}", cpu="1", priority=LOW)
        world.group("g", count)
        for index in range(count):
            world.pod(f"p{index}", "g", cpu="2")
        plan = planned(world, "g")
        assert victims(plan) == {f"low-{index}" for index in range(count)}
        assert sorted(found.node for _, found in plan.victims) == sorted(f"r1z1-{index}" for index in range(count))
        assert len(looked_at) <= NODES

    decided(test)


def test_pods_that_repel_a_gang_are_victims() -> None:
    def test(world: World) -> None:
        world.node("r1z1-a")
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
        repels = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        world.pod("low", node="r1z1-a", priority=LOW, affinity=repels)
        world.group("g", 1)
        world.pod("p", "g", labels={"app": "web"})
        assert victims(planned(world, "g")) == {"low"}

    decided(test)


def test_nobody_goes_when_one_pod_would_still_lack_a_place() -> None:
    def test(world: World) -> None:
        for name in ("r1z1-a", "r1z1-b", "r2z1-a"):
            world.node(name)
            world.pod(f"low-{name}", node=name, cpu="2", priority=LOW)
        world.pod("kept", node="r1z1-b", cpu="0", priority=HIGH)
        world.group("g", 3, key="rack")
        for index in range(3):
            world.pod(f"p{index}", "g", cpu="2")
        plan = planned(world, "g")
        assert not plan.victims
        cause = "first placement status: minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
        assert plan.refused == f"pod group is unschedulable, 0/2 placements are available, {cause}"

    decided(test)


def test_where_few_victims_do_not_work_out_the_pods_get_the_nodes_of_the_trial() -> None:
    """The first pod likes x, where somebody has to go for it; without a victim it would sit on y, the only node for the second."""

    def test(world: World) -> None:
        world.node("x", cpu="4", rack="r")
        world.node("y", cpu="2", rack="r")
        world.pod("high-x", node="x", cpu="2", priority=HIGH)
        world.pod("low-x", node="x", cpu="2", priority=LOW)
        world.pod("low-y", node="y", cpu="1", priority=LOW)
        world.group("g", 2, key="rack")
        term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["x"]}]}
        likes = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": term}]}
        world.pod("p0", "g", affinity={"nodeAffinity": likes})
        world.pod("p1", "g", cpu="2", nodeSelector={"kubernetes.io/hostname": "y"})
        plan = planned(world, "g")
        assert victims(plan) == {"low-x", "low-y"}
        assert {info.name: found.node for info, found in plan.victims} == {"p0": "x", "p1": "y"}

    decided(test)


def test_what_was_found_out_with_everyone_there_is_not_told_when_they_are_thought_away() -> None:
    """A pod of the same shape was refused a moment ago; no constraint makes the group's attempt differ from its."""

    def test(world: World) -> None:
        world.node("r1z1-a")
        world.pod("low", node="r1z1-a", cpu="2", priority=LOW)
        world.group("g", 1)
        world.pod("p0", "g")
        world.pod("alone")
        alone = world.made.queue.take("pod-alone")
        assert alone is not None
        diagnosis, attempt = world.made._cycle.decide(alone)
        assert attempt is not None
        assert isinstance(diagnosis, Diagnosis)
        world.made.state.remember_failure(attempt.key, diagnosis)
        assert victims(planned(world, "g")) == {"low"}

    decided(test)


def test_devices_of_victims_count() -> None:
    def test(world: World) -> None:
        for name in ("r1z1-a", "r2z1-a"):
            world.node(name, cpu="8")
            world.gpus(name, 2)
        for name in ("r1z1-a", "r2z1-a"):
            results = [{"request": "r", "driver": builders.DRIVER, "pool": name, "device": "gpu-0"}]
            terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]
            status = {
                "allocation": {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": terms}},
                "reservedFor": [{"resource": "pods", "name": f"on-{name}", "uid": f"pod-on-{name}"}],
            }
            world.tracker._claim_set(None, builders.claim(f"c-{name}", status=status))
            priority = LOW if name == "r2z1-a" else HIGH
            world.pod(f"on-{name}", node=name, claims={"d": f"c-{name}"}, priority=priority)
        world.group("g", 2, key="rack")
        for index in range(2):
            world.claimant(f"p{index}", "g")
        plan = planned(world, "g")
        assert victims(plan) == {"on-r2z1-a"}
        assert {node for _, node in plan.seats} == {"r2z1-a"}

    decided(test)


def test_a_tree_that_is_placed_preempts_for_a_group_that_came_later() -> None:
    def test(world: World) -> None:
        for name in ("r1z1-a", "r2z1-a", "r3z1-a", "r1z2-a"):
            world.node(name)
        for name in ("r3z1-a", "r1z2-a"):
            world.pod(f"low-{name}", node=name, cpu="2", priority=LOW)
        world.composite("root", 2, key="zone")
        for name, node in (("a", "r1z1-a"), ("b", "r2z1-a")):
            world.group(name, 1, key="rack", parent="root")
            world.pod(f"{name}-0", name, node=node, cpu="2")
        world.group("c", 2, key="rack", parent="root")
        for index in range(2):
            world.pod(f"c-{index}", "c")
        assert victims(planned(world, "c")) == {"low-r3z1-a"}

    decided(test, NESTED)


@pytest.mark.parametrize(
    ("spec", "others", "refused"),
    [
        pytest.param({"preemptionPolicy": "Never"}, LOW, "not eligible due to preemptionPolicy=Never.", id="never"),
        pytest.param({}, 0, "No preemption victims found for incoming preemptor", id="nobody-is-less-important"),
    ],
)
def test_a_group_that_may_not_preempt_says_why(spec: dict[str, Any], others: int, refused: str) -> None:
    def test(world: World) -> None:
        world.node("r1z1-a")
        world.pod("there", node="r1z1-a", cpu="2", priority=others)
        world.group("g", 1, key="rack")
        world.pod("p0", "g", **spec)
        assert planned(world, "g").refused == refused

    decided(test)


@pytest.mark.parametrize("condition", [True, False])
def test_a_group_whose_victims_are_leaving_waits_for_them(condition: bool) -> None:
    def test(world: World) -> None:
        world.node("r1z1-a")
        world.node("r2z1-a")
        told = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        for name in ("r1z1-a", "r2z1-a"):
            world.pod(f"low-{name}", node=name, cpu="2", priority=LOW)
        leaving = builders.pod(
            "low-r1z1-a",
            requests={"cpu": "2"},
            nodeName="r1z1-a",
            priority=LOW,
            status={"conditions": [told] if condition else []},
        )
        assert leaving.metadata is not None
        leaving.metadata.deletionTimestamp = builders.NOW
        world.tracker._pod_set(None, leaving)
        world.group("g", 1, key="rack")
        world.pod("p0", "g", status={"nominatedNodeName": "r1z1-a"})
        plan = planned(world, "g")
        assert (plan.refused == "ongoing preemption on nominated nodes") is condition

    decided(test, TOPOLOGY)
