"""Trees of groups (gate CompositePodGroup): enough of the groups get places for enough of their pods, or none does.

Most cases are those of Kubernetes' own tests (test/integration/scheduler/podgroup); pods want one CPU where nothing is said.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from drakit.api.gates import FeatureGates
from tests.scheduler import builders
from tests.scheduler.test_topology import NESTED, World, decided, nodes, racks

BIG = "100"


def composed(test: Callable[[World], None]) -> None:
    decided(test, NESTED)


def members(world: World, group: str, *cpus: str) -> None:
    for index, cpu in enumerate(cpus):
        world.pod(f"{group}-{index}", group, cpu=cpu)


def groups_of(placed: dict[str, str]) -> set[str]:
    return {name.rpartition("-")[0] for name in placed}


def test_enough_groups_of_a_gang_are_placed_and_the_others_are_not() -> None:
    def test(world: World) -> None:
        world.node("n", cpu="20", rack="r")
        world.composite("root", 2)
        for name in ("a", "b", "c"):
            world.group(name, 3, parent="root")
        members(world, "a", "1", "1", "1")
        members(world, "b", "1", "1", "1")
        members(world, "c", BIG, "1", "1")
        result = world.place("a")
        assert groups_of(nodes(result)) == {"a", "b"}
        told = {leaf.part.ref[1]: leaf.message() for leaf in result.leaves() if not leaf.ok}
        cause = "first placement status: minCount (3) cannot be satisfied: 0 scheduled, 2 remaining"
        assert told == {"ns/c": f"pod group is unschedulable, 0/1 placements are available, {cause}"}

    composed(test)


def test_a_gang_with_too_few_groups_places_none() -> None:
    def test(world: World) -> None:
        world.node("n", cpu="20", rack="r")
        world.composite("root", 2)
        for name in ("a", "b"):
            world.group(name, 2, parent="root")
        members(world, "a", "1", "1")
        members(world, "b", BIG, "1")
        result = world.place("a")
        assert not nodes(result)
        assert not world.made.state.nodes.by_name["n"].pods
        cause = "first placement status: minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"
        root = f"pod group is unschedulable, 0/1 placements are available, {cause}"
        fate = {leaf.part.ref[1]: leaf.message() for leaf in result.leaves()}
        assert fate["ns/a"] == root  # it had a place
        assert fate["ns/b"].startswith("pod group is unschedulable, 0/1 placements are available, first ")
        assert fate["ns/b"] != root

    composed(test)


def test_of_a_basic_composite_what_fits_is_placed() -> None:
    def test(world: World) -> None:
        world.node("n", cpu="20", rack="r")
        world.composite("root")
        for name in ("a", "b"):
            world.group(name, 3, parent="root")
        members(world, "a", "1", "1", "1")
        members(world, "b", BIG, "1", "1")
        assert groups_of(nodes(world.place("b"))) == {"a"}

    composed(test)


def test_success_and_failure_go_up_a_tree_of_three_levels() -> None:
    """pg3 is too big, but two of its parent's groups fit; pg6 would fit, but its parent needs pg7 as well."""

    def test(world: World) -> None:
        world.node("n", cpu="20", rack="r")
        world.composite("root", 2)
        world.composite("sub1", 2, parent="root")
        world.composite("sub2", parent="root")
        world.composite("sub3", 2, parent="root")
        for name, parent, count in (
            ("pg1", "sub1", 3), ("pg2", "sub1", 3), ("pg3", "sub1", 3), ("pg4", "sub2", 0), ("pg5", "sub2", 3),
            ("pg6", "sub3", 3), ("pg7", "sub3", 3),
        ):  # fmt: skip
            world.group(name, count, parent=parent)
            members(world, name, *[BIG if name in ("pg3", "pg7") else "1"] * 3)
        result = world.place("pg6")
        assert groups_of(nodes(result)) == {"pg1", "pg2", "pg4", "pg5"}
        assert len(world.made.state.nodes.by_name["n"].pods) == 12
        assert [leaf.part.ref[1] for leaf in result.leaves() if not leaf.ok] == ["ns/pg3", "ns/pg6", "ns/pg7"]

    composed(test)


# -- topology


def test_all_groups_below_a_constraint_land_in_one_domain() -> None:
    def test(world: World) -> None:
        for name in ("r1z1-a", "r1z1-b", "r2z1-a", "r2z1-b"):
            world.node(name)
        world.pod("existing", node="r2z1-b", cpu="2")
        world.composite("root", 2, key="rack")
        for name in ("a", "b"):
            world.group(name, 2, parent="root")
            members(world, name, "1", "1")
        assert racks(world.place("a")) == {"r1z1"}

    composed(test)


def test_a_placed_pod_of_one_group_binds_the_others() -> None:
    def test(world: World) -> None:
        for name in ("r1z1-a", "r1z1-b", "r2z1-a", "r2z1-b"):
            world.node(name)
        world.composite("root", 2, key="rack")
        for name in ("a", "b"):
            world.group(name, 2, parent="root")
        world.pod("existing", "a", node="r2z1-b")
        members(world, "a", "1")
        members(world, "b", "1", "1")
        result = world.place("b")
        assert racks(result) == {"r2z1"}
        assert len(nodes(result)) == 3

    composed(test)


def test_constraints_of_several_levels_narrow_each_other() -> None:
    """Zone 1 has room for one of the groups only; in zone 2 each gets a rack of its own."""

    def test(world: World) -> None:
        for name in ("r1z1-a", "r2z1-a", "r1z2-a", "r1z2-b", "r2z2-a", "r2z2-b"):
            world.node(name)
        world.pod("existing", node="r2z1-a", cpu="2")
        world.composite("root", 2, key="zone")
        for name in ("a", "b"):
            world.group(name, 2, key="rack", parent="root")
            members(world, name, "2", "2")
        placed = nodes(world.place("a"))
        of = {name: {node.partition("-")[0] for pod, node in placed.items() if pod.startswith(name)} for name in "ab"}
        assert sorted(of.values(), key=str) == [{"r1z2"}, {"r2z2"}]

    composed(test)


def test_groups_without_a_constraint_of_their_own_stay_within_their_parents() -> None:
    def test(world: World) -> None:
        for name in ("r1z1-a", "r2z1-a", "r1z2-a", "r2z2-a"):
            world.node(name)
        world.pod("existing", node="r2z1-a", cpu="2")
        world.composite("root", 1, key="zone")
        world.composite("sub", 2, parent="root")
        world.group("a", 2, key="rack", parent="sub")
        world.group("b", 2, parent="sub")
        world.group("c", 0, parent="root")
        members(world, "a", "1", "1")
        members(world, "b", "1")
        world.pod("b-placed", "b", node="r2z2-a", cpu="1")
        placed = nodes(world.place("c"))
        assert placed == {"a-0": "r1z2-a", "a-1": "r1z2-a", "b-0": "r2z2-a"}

    composed(test)


def test_pods_in_two_domains_of_a_constraint_above_are_an_error_for_the_whole_tree() -> None:
    def test(world: World) -> None:
        for name in ("r1z1-a", "r1z1-b", "r1z2-a", "r1z2-b"):
            world.node(name)
        world.composite("root", 2, key="zone")
        for name, node in (("a", "r1z1-a"), ("b", "r1z2-a")):
            world.group(name, 2, key="rack", parent="root")
            world.pod(f"existing-{name}", name, node=node)
            members(world, name, "1")
        result = world.place("a")
        texts = {leaf.message() for leaf in result.leaves()}
        text = "cannot determine domain for already scheduled pods: more than 1 domain found for pod group: z1, z2"
        assert texts == {text}
        assert result.error

    composed(test)


def test_the_error_of_one_group_stops_the_tree() -> None:
    def test(world: World) -> None:
        for name in ("r1z1-a", "r2z1-a"):
            world.node(name)
        world.composite("root", 1)
        world.group("a", 2, key="rack", parent="root")
        world.group("b", 2, parent="root")
        for index, node in enumerate(("r1z1-a", "r2z1-a")):
            world.pod(f"existing-{index}", "a", node=node)
        members(world, "a", "1")
        members(world, "b", "1", "1")
        told = {leaf.part.ref[1]: leaf.message() for leaf in world.place("a").leaves()}
        text = "cannot determine domain for already scheduled pods: more than 1 domain found for pod group: r1, r2"
        assert told["ns/a"] == text
        assert told["ns/b"] == f"composite pod group evaluation failed due to child error: {text}"

    composed(test)


# -- waiting for the tree


def active(world: World) -> int:
    return world.made.queue.counts()["active"]


def test_pods_wait_until_enough_groups_have_enough_pods() -> None:
    def test(world: World) -> None:
        members(world, "a", "1", "1")
        world.group("a", 2, parent="root")
        assert not active(world)  # nothing is known of the root
        world.composite("root", 2)
        assert not active(world)
        world.group("b", 2, parent="root")
        members(world, "b", "1")
        assert not active(world)
        world.pod("b-1", "b")
        assert active(world) == 4
        world.tracker.leave("pod-b-0")
        members(world, "b2", "1")  # no group of this name
        assert active(world) == 3

    composed(test)


def test_a_tree_that_loses_its_root_waits_again() -> None:
    def test(world: World) -> None:
        world.composite("root")
        world.group("a", 1, parent="root")
        members(world, "a", "1")
        assert active(world) == 1
        root = world.made.state.hierarchy.composites["ns/root"]
        world.tracker._group_gone(root)
        assert not active(world)
        world.tracker._group_set(root)
        assert active(world) == 1

    composed(test)


@pytest.mark.parametrize(
    "parents", [["a", "b", "a"], ["a", "a"], ["a", "b", "c", "d", ""]], ids=["ring", "self", "deep"]
)
def test_rings_of_parents_and_trees_that_are_too_deep_are_never_tried(parents: list[str]) -> None:
    def test(world: World) -> None:
        for name, parent in pairwise(parents):
            world.composite(name, parent=parent)
        world.group("g", 1, parent="a")
        members(world, "g", "1")
        assert not active(world)
        assert world.made.queue.counts()["gated"] == 1

    composed(test)


def test_branches_that_are_too_deep_are_no_part_of_their_tree() -> None:
    def test(world: World) -> None:
        world.node("n", cpu="20", rack="r")
        for name, parent in (("root", ""), ("a", "root"), ("b", "a"), ("c", "b")):
            world.composite(name, parent=parent)
        world.group("right", 1, parent="b")
        world.group("deep", 1, parent="c")
        members(world, "right", "1")
        members(world, "deep", "1")
        assert nodes(world.place("right")) == {"right-0": "n"}

    composed(test)


def test_pods_of_a_tree_are_looked_at_when_they_come_and_when_it_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    def test(world: World) -> None:
        asked = []
        ready = world.tracker.groups._is_ready
        monkeypatch.setattr(world.tracker.groups, "_is_ready", lambda ref: (asked.append(ref), ready(ref))[1])
        world.composite("root", 10)
        for group in range(10):
            world.group(f"g{group}", 10, parent="root")
        asked.clear()
        for group in range(10):
            members(world, f"g{group}", *["1"] * 10)
        assert active(world) == 100
        assert len(asked) < 15 * 11  # the tree is counted when a group is complete, not with every pod

    composed(test)


def test_with_the_gate_off_every_group_is_a_tree_of_its_own() -> None:
    def test(world: World) -> None:
        world.node("n", cpu="20", rack="r")
        world.composite("root", 2)
        for name in ("a", "b"):
            world.group(name, 2, parent="root")
        members(world, "a", "1", "1")
        assert groups_of(nodes(world.place("a"))) == {"a"}

    decided(test, FeatureGates.parse("GenericWorkload=true"))


# -- as victims


def test_a_pods_priority_as_a_victim_is_that_of_its_root() -> None:
    from drakit.scheduler.preemption import priority_of

    def test(world: World) -> None:
        world.composite("root", priority=7)
        world.group("a", parent="root", priority=7)
        info: Any = builders.info("p", schedulingGroup={"podGroupName": "a"}, priority=3)
        assert priority_of(world.made.state, info) == 7
        world.tracker._group_gone(world.made.state.hierarchy.composites["ns/root"])
        world.tracker._group_set(builders.pod_group("a", priority=5, parentCompositePodGroupName="root"))
        assert priority_of(world.made.state, info) == 5  # as far as the tree is known

    composed(test)


def test_pods_below_a_group_that_is_disrupted_only_whole_go_together() -> None:
    def test(world: World) -> None:
        world.composite("root", disruptionMode={"all": {}})
        for name in ("a", "b"):
            world.group(name, parent="root", mode="all")
            members(world, name, "1", "1")
        world.group("c")
        members(world, "c", "1")
        together = world.tracker.groups.together
        whole, uids = together(builders.info("a-0", schedulingGroup={"podGroupName": "a"}))
        assert whole == (True, "ns/root")
        assert set(uids) == {"pod-a-0", "pod-a-1", "pod-b-0", "pod-b-1"}
        assert together(builders.info("c-0", schedulingGroup={"podGroupName": "c"})) == (None, ("pod-c-0",))

    composed(test)
