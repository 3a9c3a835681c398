"""Which devices are chosen, rule by rule. Expected answers follow the documented order of upstream's search."""

from __future__ import annotations

from typing import Any

import pytest

from drakit.allocator import Budget, Failure, Features
from tests.allocator.objects import (
    GPU,
    Cluster,
    claim,
    device,
    device_class,
    devices_of,
    exactly,
    node,
    request,
    slice_,
    subrequest,
)

MODEL_A = f'device.attributes["{GPU}"].model == "A"'
MATCH = {"matchAttribute": f"{GPU}/root"}
DISTINCT = {"distinctAttribute": f"{GPU}/root"}
ALL = {"allocationMode": "All"}
TAINT = {"key": "bad", "effect": "NoSchedule"}


def gpus(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [device(f"gpu-{i}", **fields) for i in range(count)]


def partition(name: str, gpu: str, slices: int) -> dict[str, Any]:
    consumes = [{"counterSet": gpu, "counters": {"slices": {"value": str(slices)}}}]
    return device(name, size=slices, consumesCounters=consumes)


COUNTERS = slice_(
    "a-counters",
    sharedCounters=[{"name": f"gpu{i}", "counters": {"slices": {"value": "7"}}} for i in range(2)],
    count=2,
)
PARTITIONS = slice_(
    "b-devices",
    [
        partition(f"gpu{g}-{n}-{i}", f"gpu{g}", n)
        for g in range(2)
        for n, many in ((1, 7), (3, 2), (7, 1))
        for i in range(many)
    ],
    count=2,
)


@pytest.mark.parametrize(
    ("slices", "claims", "expected"),
    [
        pytest.param([slice_("s", gpus(3))], [claim(request(count=2))], [["r=pool/gpu-0", "r=pool/gpu-1"]], id="in-device-order"),
        pytest.param(
            [slice_("s2", [device("z")], pool="b"), slice_("s1", [device("y")], pool="a")],
            [claim(request())],
            [["r=a/y"]],
            id="pools-by-name",
        ),
        pytest.param(
            [slice_("s2", [device("a")], count=2), slice_("s1", [device("z")], count=2)],
            [claim(request())],
            [["r=pool/z"]],
            id="slices-by-name",
        ),
        pytest.param(
            [slice_("s1", [device("x", bindingConditions=["Ready"])], pool="a"), slice_("s2", [device("y")], pool="b")],
            [claim(request())],
            [["r=b/y"]],
            id="pools-with-binding-conditions-last",
        ),
        pytest.param(
            [slice_("s", [device("g0", model="B"), device("g1", model="A")])],
            [claim(request("r", 1, MODEL_A))],
            [["r=pool/g1"]],
            id="selector",
        ),
        pytest.param(
            [slice_("s", gpus(4))],
            [claim(request("a"), request("b")), claim(request("c"), name="second")],
            [["a=pool/gpu-0", "b=pool/gpu-1"], ["c=pool/gpu-2"]],
            id="requests-and-claims-in-order",
        ),
        pytest.param(
            [slice_("s", [device("g0", model="A"), device("g1", model="B")])],
            [claim(request("any"), request("special", 1, MODEL_A))],
            [["any=pool/g1", "special=pool/g0"]],
            id="goes-back-when-a-later-request-needs-the-device",
        ),
        pytest.param(
            [slice_("s", [device(f"g{i}", root=f"r{i % 2}") for i in range(5)])],
            [claim(request(count=3), constraints=[MATCH])],
            [["r=pool/g0", "r=pool/g2", "r=pool/g4"]],
            id="match",
        ),
        pytest.param(
            [slice_("s", [device("g0", root="a"), *(device(f"g{i}", root="b") for i in range(1, 4))])],
            [claim(request(count=3), constraints=[MATCH])],
            [["r=pool/g1", "r=pool/g2", "r=pool/g3"]],
            id="match-only-in-the-second-group",
        ),
        pytest.param(
            [slice_("s", [device("g0", root="a"), device("g1", root="a"), device("g2", root="b")])],
            [claim(request(count=2), constraints=[DISTINCT])],
            [["r=pool/g0", "r=pool/g2"]],
            id="distinct",
        ),
        pytest.param(
            [slice_("s", [device("g0"), device("g1", root="a")])],
            [claim(request(), constraints=[MATCH])],
            [["r=pool/g1"]],
            id="a-constraint-needs-the-attribute",
        ),
        pytest.param(
            [slice_("s", [device("g0", root="a"), device("g1", root="b"), device("g2", root="a")])],
            [claim(request("x"), request("y"), request("z"), constraints=[{**MATCH, "requests": ["x", "z"]}])],
            [["x=pool/g0", "y=pool/g1", "z=pool/g2"]],
            id="constraint-on-some-requests",
        ),
        pytest.param(
            [slice_("s", gpus(2))],
            [claim({"name": "r", "firstAvailable": [subrequest("big", 3), subrequest("small", 2)]})],
            [["r/small=pool/gpu-0", "r/small=pool/gpu-1"]],
            id="first-available-falls-back",
        ),
        pytest.param(
            [slice_("s", gpus(3))],
            [claim({"name": "r", "firstAvailable": [subrequest("two", 2), subrequest("one", 1)]}, request("q", 2))],
            [["r/one=pool/gpu-0", "q=pool/gpu-1", "q=pool/gpu-2"]],
            id="first-available-gives-way-to-a-later-request",
        ),
        pytest.param([slice_("s", gpus(3))], [claim(request("r", **ALL))], [[f"r=pool/gpu-{i}" for i in range(3)]], id="all"),
        pytest.param(
            [slice_("s", [device("g0", taints=[TAINT]), device("g1")])], [claim(request())], [["r=pool/g1"]], id="taint"
        ),
        pytest.param(
            [slice_("s", [device("g0", taints=[TAINT]), device("g1")])],
            [claim(request("r", tolerations=[{"key": "bad", "operator": "Exists"}]))],
            [["r=pool/g0"]],
            id="toleration",
        ),
        pytest.param(
            [slice_("s", [device("g0", taints=[{"key": "k", "effect": "None"}])])],
            [claim(request())],
            [["r=pool/g0"]],
            id="a-taint-without-effect-does-nothing",
        ),
        pytest.param(
            [COUNTERS, PARTITIONS],
            [claim(request("small", 2, f'device.attributes["{GPU}"].size == 1'), request("whole", 1, f'device.attributes["{GPU}"].size == 7'))],
            [["small=pool/gpu0-1-0", "small=pool/gpu0-1-1", "whole=pool/gpu1-7-0"]],
            id="counters",
        ),
        pytest.param(
            [slice_("s", [device("shared", allowMultipleAllocations=True, capacity={"memory": "10Gi"})])],
            [claim(request("a", capacity={"requests": {"memory": "6Gi"}}), request("b", capacity={"requests": {"memory": "4Gi"}}))],
            [["a=pool/shared", "b=pool/shared"]],
            id="two-shares-of-one-device",
        ),
        pytest.param(
            [slice_("s", [device("g0", capacity={"memory": "10Gi"}), device("g1", capacity={"memory": "40Gi"})])],
            [claim(request("r", capacity={"requests": {"memory": "20Gi"}}))],
            [["r=pool/g1"]],
            id="capacity-of-whole-devices",
        ),
        pytest.param(
            [slice_("s", gpus(1), nodeSelector={"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]}]})],
            [claim(request())],
            [["r=pool/gpu-0"]],
            id="network-attached",
        ),
        pytest.param(
            [slice_("s", [device("g0", nodeName="node-2"), device("g1", nodeName="node-1")], perDeviceNodeSelection=True)],
            [claim(request())],
            [["r=pool/g1"]],
            id="per-device-node-selection",
        ),
        pytest.param(
            [slice_("old", [device("old")], generation=1), slice_("new", [device("new")], generation=2)],
            [claim(request())],
            [["r=pool/new"]],
            id="the-newest-generation-counts",
        ),
    ],
)  # fmt: skip
def test_devices_are_chosen(slices: list[Any], claims: list[Any], expected: list[list[str]]) -> None:
    assert devices_of(Cluster(slices, nodes=[node(zone="z1")]).allocate(*claims)) == expected


@pytest.mark.parametrize(
    ("slices", "claims"),
    [
        pytest.param([slice_("s", gpus(31))], [claim(request(count=32))], id="one-short-of-32"),
        pytest.param([slice_("s", gpus(15))], [claim(*(request(f"r{i}", 2) for i in range(8)))], id="split-over-eight-requests"),
        pytest.param(
            [slice_("s", [device(f"g{i}", root=f"r{i // 7}") for i in range(70)])],
            [claim(*(request(f"r{i}") for i in range(8)), constraints=[MATCH])],
            id="no-group-of-eight",
        ),
        pytest.param(
            [slice_("s", [device(f"g{i}", root=f"r{i % 15}") for i in range(60)])],
            [claim(request(count=16), constraints=[DISTINCT])],
            id="fifteen-values-for-sixteen",
        ),
        pytest.param(
            [COUNTERS, PARTITIONS],
            [claim(request("small", 8, f'device.attributes["{GPU}"].size == 1'), request("whole", 1, f'device.attributes["{GPU}"].size == 7'))],
            id="counters-one-short",
        ),
        pytest.param(
            [slice_("s", gpus(11))],
            [claim(*({"name": f"r{i}", "firstAvailable": [subrequest(f"s{j}", 5 - j % 4) for j in range(8)]} for i in range(6)))],
            id="six-times-eight-alternatives",
        ),
    ],
)  # fmt: skip
def test_the_impossible_is_found_out_in_few_steps(slices: list[Any], claims: list[Any]) -> None:
    outcome = Cluster(slices).allocate(*claims, budget=Budget(steps=500))
    assert isinstance(outcome, Failure)
    assert outcome.kind == "none", outcome


def test_a_spent_budget_is_said_so() -> None:
    outcome = Cluster([slice_("s", gpus(20))]).allocate(claim(request(count=20)), budget=Budget(steps=5))
    assert isinstance(outcome, Failure)
    assert (outcome.kind, outcome.steps) == ("gave-up", 6)
    assert "gave up after 6 steps" in outcome.message


def test_wall_time_is_read_from_the_callers_clock_only() -> None:
    ticks = iter(range(1000))
    budget = Budget(seconds=0.5, clock=lambda: float(next(ticks)))
    outcome = Cluster([slice_("s", gpus(32))]).allocate(claim(request(count=32)), budget=budget)
    assert isinstance(outcome, Failure)
    assert outcome.kind == "gave-up"


def test_a_broken_selector_matters_only_when_a_device_with_it_is_reached() -> None:
    has_model, lacks_model = device("g0", model="A"), device("g1")
    asks = claim(request("r", 1, MODEL_A))
    assert devices_of(Cluster([slice_("s", [has_model, lacks_model])]).allocate(asks)) == [["r=pool/g0"]]
    outcome = Cluster([slice_("s", [lacks_model, has_model])]).allocate(asks)
    assert isinstance(outcome, Failure)
    assert outcome.kind == "error"
    assert outcome.message.startswith(
        f"claim default/claim: selector #0 on device {GPU}/pool/g1: CEL runtime error: no such key: model. consider using"
    )
    assert outcome.names["device"] == f"{GPU}/pool/g1"


def test_a_shortage_does_not_hide_a_broken_selector_behind_it() -> None:
    # Two wanted, one matches: upstream walks on and meets the device on which the selector fails.
    cluster = Cluster([slice_("s", [device("g0", model="A"), device("g1", model="B"), device("g2")])])
    outcome = cluster.allocate(claim(request("r", 2, MODEL_A)))
    assert isinstance(outcome, Failure)
    assert (outcome.kind, outcome.cause) == ("error", "selector-runtime")


def test_devices_of_others_are_left_alone_and_admin_access_sees_them() -> None:
    held = [{"driver": GPU, "pool": "pool", "device": "gpu-0"}]
    cluster = Cluster([slice_("s", gpus(2))], held=held)
    assert devices_of(cluster.allocate(claim(request()))) == [["r=pool/gpu-1"]]
    admin = cluster.allocate(claim(request("r", 2, adminAccess=True)))
    assert devices_of(admin) == [["r=pool/gpu-0", "r=pool/gpu-1"]]


def test_admin_access_of_several_claims_may_name_the_same_device() -> None:
    whole = device("whole", capacity={"memory": "4"})
    shared = device("shared", allowMultipleAllocations=True, capacity={"memory": "4"})
    admin = {"adminAccess": True, "allocationMode": "All", "capacity": {"requests": {"memory": "2"}}}
    # The first claim first tries the shared device, which leaves too little of it: the search has to go back.
    first = claim(request("a", 1, capacity={"requests": {"memory": "1"}}), name="first")
    cluster = Cluster([slice_("s", [shared, whole, device("plain", capacity={"memory": "1"})])])
    outcome = cluster.allocate(
        first, claim(request("b", **admin), name="second"), claim(request("c", **admin), name="third")
    )
    assert devices_of(outcome) == [
        ["a=pool/whole"],
        ["b=pool/shared", "b=pool/whole"],
        ["c=pool/shared", "c=pool/whole"],
    ]


@pytest.mark.parametrize(
    ("asks", "message"),
    [
        pytest.param(
            claim(request("r", 33)), "number of requested devices 33 exceeds the claim limit of 32", id="limit"
        ),
        pytest.param(claim(request("r", cls="gone")), "could not retrieve device class gone", id="class"),
        pytest.param(claim(request("r", allocationMode="Some")), "unsupported count mode Some", id="mode"),
        pytest.param(claim(request(), constraints=[{}]), "constraint #0: empty constraint", id="constraint"),
        pytest.param(
            claim({"name": "r", "exactly": {**exactly(), "selectors": [{}]}}),
            "selector #0: CEL expression empty",
            id="selector",
        ),
        pytest.param(claim(request("r", 1, "device.")), "CEL compile error", id="compile"),
        pytest.param(
            claim(request("r", **ALL), constraints=[MATCH]),
            "because a claim constraint would not be satisfied",
            id="all-constraint",
        ),
    ],
)
def test_what_makes_no_sense_is_an_error_for_all_nodes(asks: Any, message: str) -> None:
    outcome = Cluster([slice_("s", gpus(2))]).allocate(asks)
    assert isinstance(outcome, Failure)
    assert outcome.kind == "error"
    assert message in outcome.message


@pytest.mark.parametrize(
    ("off", "slices", "asks"),
    [
        pytest.param("AdminAccess", [], claim(request("r", adminAccess=True)), id="admin"),
        pytest.param("PrioritizedList", [], claim({"name": "r", "firstAvailable": [subrequest("s")]}), id="list"),
        pytest.param(
            "ConsumableCapacity", [], claim(request("r", capacity={"requests": {"memory": "1"}})), id="capacity"
        ),
        pytest.param(
            "DerivedAttributes",
            [],
            claim(request("r", derivedAttributes=[{"name": f"{GPU}/x", "expression": "1"}])),
            id="derived",
        ),
    ],
)
def test_a_disabled_feature_is_refused_aloud(off: str, slices: list[Any], asks: Any) -> None:
    features = Features.of(*({"AdminAccess", "PrioritizedList", "ConsumableCapacity", "DerivedAttributes"} - {off}))
    outcome = Cluster([slice_("s", gpus(1)), *slices], features=features).allocate(asks)
    assert isinstance(outcome, Failure)
    assert (outcome.kind, outcome.cause) == ("error", "feature-disabled")


def test_incomplete_pools_give_nothing_and_stop_all() -> None:
    cluster = Cluster([slice_("s", gpus(1), count=2), slice_("t", [device("x")], pool="whole")])
    assert devices_of(cluster.allocate(claim(request()))) == [["r=whole/x"]]
    outcome = cluster.allocate(claim(request("r", **ALL)))
    assert isinstance(outcome, Failure)
    assert f"asks for all devices, but resource pool {GPU}/pool is currently being updated" in outcome.message


def test_invalid_pools_are_reported_when_nothing_fits() -> None:
    outcome = Cluster([slice_("s", [device("twice"), device("twice")])]).allocate(claim(request()))
    assert isinstance(outcome, Failure)
    assert (outcome.kind, outcome.message) == ("invalid", "invalid resource pools were encountered")
    assert any("duplicate device name twice" in blocker.text for blocker in outcome.explain().blockers)


def test_compatibility_groups_keep_devices_apart() -> None:
    def part(name: str, *groups: str) -> dict[str, Any]:
        use = {"counterSet": "g", "counters": {"slices": {"value": "1"}}, "compatibilityGroups": list(groups)}
        return device(name, consumesCounters=[use])

    counters = slice_("a", sharedCounters=[{"name": "g", "counters": {"slices": {"value": "9"}}}], count=2)
    parts = slice_("b", [part("mig-0", "mig"), part("vgpu", "vgpu"), part("both", "mig", "vgpu")], count=2)
    cluster = Cluster([counters, parts], features=Features.everything())
    assert devices_of(cluster.allocate(claim(request(count=2)))) == [["r=pool/mig-0", "r=pool/both"]]
    outcome = cluster.allocate(claim(request(count=3)))
    assert isinstance(outcome, Failure)
    assert outcome.kind == "none"


def test_derived_attributes_count_in_constraints() -> None:
    devices = [device(f"g{i}", model=f"A{i % 2}-x") for i in range(4)]
    derived = [{"name": "x.example.com/half", "expression": f'device.attributes["{GPU}"].model.substring(0, 2)'}]
    asks = claim(request("r", 2, derivedAttributes=derived), constraints=[{"matchAttribute": "x.example.com/half"}])
    outcome = Cluster([slice_("s", devices)], features=Features.everything()).allocate(asks)
    assert devices_of(outcome) == [["r=pool/g0", "r=pool/g2"]]


def test_lists_match_by_a_common_element_and_are_distinct_when_they_share_none() -> None:
    devices = [
        device("g0", root=["a", "b"]),
        device("g1", root=["c"]),
        device("g2", root=["b", "d"]),
        device("g3", root=["d"]),
    ]
    cluster = Cluster([slice_("s", devices)], features=Features.everything())
    assert devices_of(cluster.allocate(claim(request(count=2), constraints=[MATCH]))) == [["r=pool/g0", "r=pool/g2"]]
    assert devices_of(cluster.allocate(claim(request(count=2), constraints=[DISTINCT]))) == [["r=pool/g0", "r=pool/g1"]]
    assert devices_of(cluster.allocate(claim(request(count=3), constraints=[DISTINCT]))) == [
        ["r=pool/g0", "r=pool/g1", "r=pool/g3"]
    ]


def test_classes_and_claims_bring_their_config() -> None:
    config = [{"opaque": {"driver": GPU, "parameters": {"kind": "C"}}}]
    own = [{"requests": ["b"], "opaque": {"driver": GPU, "parameters": {"kind": "O"}}}]
    cluster = Cluster([slice_("s", gpus(2))], classes=[device_class("any", config=config)])
    outcome = cluster.allocate(claim(request("a"), request("b"), config=own))
    assert devices_of(outcome)
    assert outcome.results[0]["devices"]["config"] == [  # type: ignore[union-attr]  # an Allocation, as just shown
        {"source": "FromClass", "opaque": config[0]["opaque"]},
        {"source": "FromClaim", "requests": ["b"], "opaque": own[0]["opaque"]},
    ]


def test_share_ids_are_unique_and_repeatable() -> None:
    devices = [device("shared", allowMultipleAllocations=True, capacity={"memory": "10Gi"})]
    asks = claim(
        request("a", capacity={"requests": {"memory": "1Gi"}}), request("b", capacity={"requests": {"memory": "1Gi"}})
    )
    one, again = (Cluster([slice_("s", devices)]).allocate(asks) for _ in range(2))
    ids = [result["shareID"] for result in one.results[0]["devices"]["results"]]  # type: ignore[union-attr]
    assert len(set(ids)) == 2
    assert one == again
