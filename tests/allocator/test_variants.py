"""Kubernetes has three allocators and takes the oldest that knows the features that are on; they do not agree everywhere."""

from __future__ import annotations

import pytest

from drakit.allocator import Allocation, Failure, Features
from tests.allocator.objects import (
    GPU,
    Cluster,
    Plain,
    claim,
    device,
    devices_of,
    node,
    request,
    slice_,
)

OLDEST = Features.of("AdminAccess", "DeviceTaints", "PartitionableDevices", "PrioritizedList")
NEWEST = Features.of("ListTypeAttributes", "PartitionableDevices")
COUNTERS = [{"name": "set", "counters": {"memory": {"value": "10Gi"}}}]


def test_the_variants_follow_from_the_features() -> None:
    default = Features()
    assert (OLDEST.oldest, OLDEST.newest) == (True, False)
    assert (default.oldest, default.newest) == (False, False)
    assert (NEWEST.oldest, NEWEST.newest) == (False, True)


def test_the_oldest_knows_no_distinct_attribute() -> None:
    wanted = claim(request(count=2), constraints=[{"distinctAttribute": f"{GPU}/numa"}])
    slices = [slice_("s", [device("x", numa=0), device("y", numa=1)])]
    assert Cluster(slices).allocate(wanted)
    outcome = Cluster(slices, features=OLDEST).allocate(wanted)
    assert isinstance(outcome, Failure)
    assert outcome.message == "claim default/claim, constraint #0: empty constraint (unsupported constraint type?)"


def test_the_oldest_ignores_capacity_requests_and_others_refuse_them() -> None:
    wanted = claim(request(capacity={"requests": {"memory": "80Gi"}}))
    slices = [slice_("s", [device("x", capacity={"memory": "40Gi"})])]
    assert Cluster(slices, features=OLDEST).allocate(wanted)
    refused = Cluster(slices, features=Features.of("DeviceBindingAndStatus")).allocate(wanted)
    assert isinstance(refused, Failure)
    assert refused.message.endswith("has capacity requests, but the DRAConsumableCapacity feature is disabled")


def test_the_oldest_takes_slices_as_they_come() -> None:
    slices = [slice_("b", [device("first")], count=2), slice_("a", [device("second")], count=2)]
    assert devices_of(Cluster(slices, features=OLDEST).allocate(claim(request()))) == [["r=pool/first"]]
    assert devices_of(Cluster(slices).allocate(claim(request()))) == [["r=pool/second"]]


def test_the_oldest_does_not_put_binding_conditions_last_nor_bind_to_the_node() -> None:
    slices = [
        slice_(
            "a", [device("bound", bindingConditions=["Ready"]), device("x", bindsToNode=True)], pool="a", allNodes=True
        ),
        slice_("b", [device("y")], pool="b", allNodes=True),
    ]
    outcome = Cluster(slices, features=OLDEST).allocate(claim(request()))
    assert devices_of(outcome) == [["r=a/x"]]
    assert isinstance(outcome, Allocation)
    assert "nodeSelector" not in outcome.results[0]
    assert devices_of(Cluster(slices).allocate(claim(request()))) == [["r=b/y"]]


@pytest.mark.parametrize(
    ("features", "found"), [(OLDEST, "r=pool/x"), (Features.of("DeviceBindingAndStatus"), "r=pool/y")]
)
def test_the_oldest_sees_no_sharing(features: Features, found: str) -> None:
    slices = [slice_("s", [device("x", allowMultipleAllocations=True), device("y")])]
    cluster = Cluster(slices, features=features)
    assert devices_of(cluster.allocate(claim(request("r", 1, "!device.allowMultipleAllocations")))) == [[found]]


def test_the_oldest_stumbles_over_counters_of_other_nodes() -> None:
    counters = slice_("counters", sharedCounters=COUNTERS, pool="other", nodeName="node-2", count=2)
    cluster = Cluster([slice_("s", [device("x")]), counters], nodes=[node("node-1"), node("node-2")], features=OLDEST)
    everything = claim(request(allocationMode="All"))
    outcome = cluster.allocate(everything)
    assert isinstance(outcome, Failure)
    assert outcome.message.endswith(f"resource pool {GPU}/other is currently being updated")
    cluster.features = Features()
    assert cluster.allocate(everything)
    # Completed on the other node, it is of no interest any more.
    cluster.features = OLDEST
    cluster.set_slice(slice_("devices", [device("y")], pool="other", nodeName="node-2", count=2))
    assert devices_of(cluster.allocate(everything)) == [["r=pool/x"]]


def test_the_oldest_takes_counters_wherever_they_are_said_to_be() -> None:
    drawing = device("x", consumesCounters=[{"counterSet": "set", "counters": {"memory": {"value": "1Gi"}}}])
    slices = [
        slice_("a", [drawing], count=2, generation=1),
        slice_("b", sharedCounters=COUNTERS, nodeName="node-2", count=2, generation=2),
    ]
    # A newer generation of the counters alone: the pool is obsolete for the others, incomplete for the oldest.
    everything = claim(request(allocationMode="All"))
    outcome = Cluster(slices, features=OLDEST).allocate(everything)
    assert isinstance(outcome, Failure)
    assert outcome.message.endswith("is currently being updated")
    other = Cluster(slices).allocate(everything)
    assert isinstance(other, Failure)
    assert other.kind == "none"


@pytest.mark.parametrize(
    ("features", "declared", "expected"),
    [
        pytest.param(Features(), False, [["r=pool/x"]], id="default-does-not-look"),
        pytest.param(OLDEST, False, [["r=pool/x"]], id="oldest-does-not-look"),
        pytest.param(NEWEST, True, None, id="newest-without-the-feature"),
        pytest.param(Features.everything(), False, None, id="node-does-not-declare-it"),
        pytest.param(Features.everything(), True, [["r=pool/x"]], id="declared"),
    ],
)
def test_only_the_newest_minds_skipped_node_operations(
    features: Features, declared: bool, expected: list[list[str]] | None
) -> None:
    here: Plain = node()
    if declared:
        here["status"] = {"declaredFeatures": ["DRAOptionalNodeOperations"]}
    cluster = Cluster([slice_("s", [device("x")], skipNodeOperations=["*"])], nodes=[here], features=features)
    outcome = cluster.allocate(claim(request()))
    assert list(cluster.feasible(claim(request()))) == (["node-1"] if expected else [])
    if expected is None:
        assert not outcome
        return
    assert devices_of(outcome) == expected
    assert isinstance(outcome, Allocation)
    result = outcome.results[0]["devices"]["results"][0]
    assert ("skipNodeOperations" in result) == features.OptionalNodeOperations
