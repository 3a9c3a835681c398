"""feasible_nodes: never leaves out a node that fits, says when it is exact, and follows every change."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drakit.allocator import Allocation, Failure, Features, batch
from tests.allocator.objects import GPU, Cluster, claim, device, device_class, node, request, slice_, subrequest
from tests.allocator.scenarios import CLASSES, claims

MODEL_A = f'device.attributes["{GPU}"].?model.orValue("") == "A"'


def local(number: int, devices: list[Any], **spec: Any) -> Any:
    name = f"node-{number}"
    return slice_(f"{name}-slice", devices, pool=name, nodeName=name, **spec)


def cluster(nodes: int, devices: int, *more: Any) -> Cluster:
    slices = [local(n, [device(f"gpu-{i}", model="A" if n % 2 else "B") for i in range(devices)]) for n in range(nodes)]
    return Cluster([*slices, *more], nodes=[node(f"node-{n}", zone=f"z{n % 2}") for n in range(nodes)])


def test_nodes_with_enough_free_matching_devices_are_found() -> None:
    found = cluster(6, 2).feasible(claim(request("r", 2, MODEL_A)))
    assert list(found) == ["node-1", "node-3", "node-5"]
    assert found.exact
    assert "node-1" in found
    assert "node-2" not in found
    assert len(found) == 3


def test_iteration_goes_round_from_any_node() -> None:
    found = cluster(12, 1).feasible(claim(request()))
    assert list(found.after("node-9"))[:4] == ["node-10", "node-11", "node-0", "node-1"]
    assert len(list(found.after("node-9"))) == 12


def test_held_devices_count_and_come_back() -> None:
    state = cluster(3, 1)
    asks = claim(request())
    result = state.allocate(asks, on="node-0")
    assert isinstance(result, Allocation)
    assert list(state.feasible(asks)) == ["node-0", "node-1", "node-2"]
    state.allocated.assume("uid", result.results[0])
    assert list(state.feasible(asks)) == ["node-1", "node-2"]
    state.allocated.forget("uid")
    assert list(state.feasible(asks)) == ["node-0", "node-1", "node-2"]


def test_slices_nodes_and_rules_come_and_go() -> None:
    state = cluster(2, 1)
    asks = claim(request())
    assert list(state.feasible(asks)) == ["node-0", "node-1"]
    state.inventory.remove_slice("node-0-slice")
    assert list(state.feasible(asks)) == ["node-1"]
    state.set_slice(local(0, [device("x")], generation=2))
    assert list(state.feasible(asks)) == ["node-0", "node-1"]
    state.set_rule("bad", {"key": "bad", "effect": "NoSchedule"}, {"pool": "node-1"})
    assert list(state.feasible(asks)) == ["node-0"]
    state.inventory.remove_rule("bad")
    state.inventory.remove_node("node-0")
    assert list(state.feasible(asks)) == ["node-1"]


def test_shared_devices_add_to_a_nodes_own() -> None:
    selector = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]}]}
    state = cluster(4, 1, slice_("net", [device("n0")], pool="net", nodeSelector=selector))
    assert list(state.feasible(claim(request("r", 2)))) == ["node-1", "node-3"]
    assert list(state.feasible(claim(request("r", 1)))) == [f"node-{n}" for n in range(4)]
    state.allocated.hold("other", [{"driver": GPU, "pool": "net", "device": "n0"}])
    assert list(state.feasible(claim(request("r", 2)))) == []


def test_an_unknown_class_is_left_for_allocate_to_refuse() -> None:
    state = cluster(2, 1)
    found = state.feasible(claim(request("r", cls="gone")))
    assert len(found) == 2
    assert not found.exact


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Any], list[Any], list[Any]]:
    slices, held = [], []
    for number in range(4):
        made = []
        for i in range(draw(st.integers(0, 3))):
            fields: dict[str, Any] = {"model": draw(st.sampled_from("AB"))}
            if not draw(st.integers(0, 3)):
                fields["taints"] = [{"key": "bad", "effect": "NoSchedule"}]
            if not draw(st.integers(0, 3)):
                fields |= {"allowMultipleAllocations": True, "capacity": {"memory": "4"}}
            made.append(device(f"d{i}", **fields))
            if not draw(st.integers(0, 2)):
                result: dict[str, Any] = {"driver": GPU, "pool": f"node-{number}", "device": f"d{i}"}
                if "capacity" in fields:
                    result |= {"shareID": f"s{number}{i}", "consumedCapacity": {"memory": str(draw(st.integers(1, 4)))}}
                held.append(result)
        slices.append(local(number, made, count=draw(st.sampled_from([1, 1, 1, 2]))))
    if draw(st.booleans()):
        slices.append(slice_("net", [device("n0"), device("n1", model="A")], pool="net", allNodes=True))
    return slices, held, [draw(claims(number, True)) for number in range(draw(st.integers(1, 2)))]


@pytest.mark.slow
@settings(
    deadline=None,
    max_examples=150,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(clusters())
def test_no_node_that_fits_is_left_out(drawn: tuple[list[Any], list[Any], list[Any]]) -> None:
    slices, held, asked = drawn
    state = Cluster(
        slices, classes=CLASSES, nodes=[node(f"node-{n}") for n in range(4)], held=held, features=Features()
    )
    found = state.feasible(*asked)
    for number in range(4):
        outcome = state.allocate(*asked, on=f"node-{number}")
        refused = isinstance(outcome, Failure) and outcome.kind == "none"
        if f"node-{number}" not in found:
            assert isinstance(outcome, Failure)
            # Only one error may be missed: that of All under a constraint, on a node that lacks devices anyway.
            assert outcome.kind in ("none", "invalid") or outcome.cause == "constraint"
        elif found.exact:
            assert not refused


def test_alternatives_are_joined() -> None:
    state = cluster(2, 2)
    asks = claim({"name": "r", "firstAvailable": [subrequest("a", 3), subrequest("b", 2, MODEL_A)]})
    assert list(state.feasible(asks)) == ["node-1"]
    assert list(Cluster([], classes=[device_class()]).feasible(claim(request()))) == []


def test_some_are_the_first_of_all() -> None:
    rng = random.Random(7)
    for nodes in (1, 3, 40, 511, 513, 1300):
        names = [f"node-{number}" for number in range(nodes)]
        ids = {name: number for number, name in enumerate(names)}
        for _ in range(40):
            mask = rng.getrandbits(nodes) & rng.getrandbits(nodes)
            found = batch.NodeSet(mask, names, ids, True)
            last = rng.choice([*names, "unknown"])
            everything = list(found.after(last))
            for count in (1, 5, 24):
                some = found.some(last, count)
                assert some == everything[: len(some)]
                assert len(some) == min(count, len(everything)) or nodes > 512


def test_devices_that_several_requests_can_have_count_for_each_of_them() -> None:
    shared = [device(name, allowMultipleAllocations=True) for name in "xy"]
    cluster = Cluster([slice_("s", shared, allNodes=True)])
    wanted = claim(request("a", 2), request("b", 2))
    assert list(cluster.feasible(wanted)) == ["node-1"]
    assert not cluster.feasible(wanted).exact
    assert cluster.allocate(wanted)
    assert not list(cluster.feasible(claim(request("a", 3))))
