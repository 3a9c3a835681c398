"""The invariant checker sees each kind of damage, and nothing in what the allocator makes."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from drakit.allocator import Allocation, Features, check
from tests.allocator.objects import (
    GPU,
    Cluster,
    Plain,
    allocated_claim,
    claim,
    device,
    device_class,
    node,
    request,
    slice_,
)

MATCH = {"matchAttribute": f"{GPU}/root"}


def result(name: str, **more: Any) -> Plain:
    return {"request": "r", "driver": GPU, "pool": "pool", "device": name, **more}


def allocation(*results: Plain) -> Plain:
    return {"devices": {"results": list(results)}}


def part(name: str, amount: int, *groups: str) -> Plain:
    use: Plain = {"counterSet": "g", "counters": {"slices": {"value": str(amount)}}}
    if groups:
        use["compatibilityGroups"] = list(groups)
    return device(name, consumesCounters=[use])


CLUSTER = Cluster(
    [
        slice_("a", sharedCounters=[{"name": "g", "counters": {"slices": {"value": "4"}}}], count=2),
        slice_(
            "b",
            [
                device("x", root="r0", model="A"),
                device("y", root="r1", model="A"),
                device("no-model"),
                device("shared", allowMultipleAllocations=True, capacity={"memory": "10"}, model="A"),
                part("p3", 3),
                part("p2", 2),
                part("mig", 1, "mig"),
                part("vgpu", 1, "vgpu"),
            ],
            count=2,
        ),
    ],
    classes=[device_class("any"), device_class("a", f'device.attributes["{GPU}"].?model.orValue("") == "A"')],
    features=Features.everything(),
)  # fmt: skip


def share(identity: str, amount: str) -> Plain:
    return result("shared", shareID=identity, consumedCapacity={"memory": amount})


@pytest.mark.parametrize(
    ("claims", "rules"),
    [
        pytest.param([(claim(request()), allocation(result("x")))], [], id="good"),
        pytest.param(
            [(claim(request()), allocation(result("x"))), (claim(request(), name="b"), allocation(result("x")))],
            ["device-twice"],
            id="twice",
        ),
        pytest.param(
            [
                (claim(request()), allocation(result("x"))),
                (claim(request("r", adminAccess=True), name="b"), allocation(result("x", adminAccess=True))),
            ],
            [],
            id="admin-access-may",
        ),
        pytest.param(
            [(claim(request()), allocation(share("1", "6"))), (claim(request(), name="b"), allocation(share("2", "4")))],
            [],
            id="shares",
        ),
        pytest.param(
            [(claim(request()), allocation(share("1", "6"))), (claim(request(), name="b"), allocation(share("2", "5")))],
            ["capacity"],
            id="shares-overdrawn",
        ),
        pytest.param(
            [(claim(request()), allocation(share("1", "1"))), (claim(request(), name="b"), allocation(share("1", "1")))],
            ["share-twice"],
            id="same-share",
        ),
        pytest.param(
            [(claim(request()), allocation(share("1", "1"))), (claim(request(), name="b"), allocation(result("shared")))],
            ["device-twice"],
            id="shared-and-alone",
        ),
        pytest.param(
            [(claim(request()), allocation(result("p3"))), (claim(request(), name="b"), allocation(result("p2")))],
            ["counter"],
            id="counters",
        ),
        pytest.param(
            [(claim(request()), allocation(result("mig"))), (claim(request(), name="b"), allocation(result("vgpu")))],
            ["groups"],
            id="groups",
        ),
        pytest.param([(claim(request("r", cls="a")), allocation(result("no-model")))], ["selector"], id="class"),
        pytest.param(
            [(claim(request("r", 1, f'device.attributes["{GPU}"].model == "A"')), allocation(result("no-model")))],
            ["selector"],
            id="selector-fails",
        ),
        pytest.param([(claim(request()), allocation(result("gone")))], ["unpublished"], id="unpublished"),
        pytest.param([(claim(request("r", 2)), allocation(result("x")))], ["count"], id="too-few"),
        pytest.param([(claim(request("r", 2)), allocation(result("x"), result("x")))], ["device-twice", "device-twice"], id="same-twice"),
        pytest.param([(claim(request("q")), allocation(result("x")))], ["unknown-request", "count"], id="request"),
        pytest.param(
            [(claim(request("r", 2), constraints=[MATCH]), allocation(result("x"), result("y")))], ["constraint"], id="match"
        ),
        pytest.param(
            [(claim(request(), constraints=[MATCH]), allocation(result("no-model")))], ["constraint"], id="attribute-missing"
        ),
    ],
)  # fmt: skip
def test_damage_is_seen(claims: list[tuple[Plain, Plain]], rules: list[str]) -> None:
    typed = [allocated_claim(plain, status) for plain, status in claims]
    assert [violation.rule for violation in check(CLUSTER.inventory, typed, features=CLUSTER.features)] == rules


def test_a_device_out_of_reach_is_seen() -> None:
    cluster = Cluster([slice_("s", [device("x")], nodeName="node-2")], nodes=[node("node-1"), node("node-2")])
    typed = [allocated_claim(claim(request()), allocation(result("x")))]
    assert check(cluster.inventory, typed, node=cluster.nodes["node-2"]) == []
    assert [v.rule for v in check(cluster.inventory, typed, node=cluster.nodes["node-1"])] == ["node"]


def test_every_single_change_of_a_good_allocation_is_damage() -> None:
    cluster = Cluster([slice_("s", [device(f"g{i}", root=f"r{i // 2}") for i in range(6)])])
    asks = claim(request("r", 2), constraints=[MATCH])
    outcome = cluster.allocate(asks)
    assert isinstance(outcome, Allocation)
    assert check(cluster.inventory, [allocated_claim(asks, outcome.results[0])]) == []
    for position in range(2):
        for other in ("g2", "g3", "g4", "gone"):
            damaged = copy.deepcopy(outcome.results[0])
            damaged["devices"]["results"][position]["device"] = other
            assert check(cluster.inventory, [allocated_claim(asks, damaged)])
