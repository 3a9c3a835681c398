"""Devices in decisions: claims and their nodes, shared claims, classes, extended resources, alternatives, binding conditions."""

from __future__ import annotations

from typing import Any

import pytest
from lightkube.models.resource_v1 import DeviceTaintRule

from drakit.api.typed import from_plain
from drakit.scheduler.claims import BindingFailed, ClaimLookupError, ready_to_bind
from drakit.scheduler.decide import Placement, decide
from drakit.scheduler.outcome import Diagnosis, Rejection, SchedulingError
from drakit.scheduler.pods import PodInfo
from drakit.scheduler.state import Policy, State
from tests.scheduler.builders import (
    DRIVER,
    NOW,
    claim,
    device_class,
    info,
    node,
    place,
    pod,
    refuse,
    slice_,
    state,
    uid,
)

GPU = "example.com/gpu"


def user(name: str, *claims: str, **more: Any) -> PodInfo:
    return info(name, claims={f"c{index}": each for index, each in enumerate(claims)}, **more)


def devices(result: dict[str, Any]) -> list[str]:
    return [f"{r['pool']}/{r['device']}" for r in result["devices"]["results"]]


def cluster(*more: Any, nodes: int = 2, gpus: int = 2) -> State:
    names = [f"n{index}" for index in range(nodes)]
    return state(*(node(n) for n in names), *(slice_(n, gpus) for n in names), device_class(), *more)


def test_a_pod_goes_where_its_device_is() -> None:
    made = state(node("a"), node("b"), slice_("b"), device_class(), claim())
    placement = place(made, user("p", "claim"))
    assert placement.node == "b"
    assert devices(placement.allocations[0][1]) == ["b/gpu-0"]


def test_devices_of_assumed_claims_are_taken() -> None:
    made = cluster(*(claim(f"c{i}") for i in range(5)))
    held = [devices(place(made, user(f"p{i}", f"c{i}")).allocations[0][1])[0] for i in range(4)]
    assert len(set(held)) == 4
    refused = refuse(made, user("p4", "c4"))
    assert refused.message().startswith("0/2 nodes are available: 2 cannot allocate all claims.")
    assert refused.plugins == {"DynamicResources"}


def test_a_second_pod_on_a_claim_in_flight_follows_it() -> None:
    made = cluster(claim(), nodes=8)
    first = place(made, user("p", "claim"))
    for name in "qrs":
        placement = place(made, user(name, "claim"))
        assert placement.node == first.node
        assert placement.allocations == []


def test_given_up_allocations_are_free_again() -> None:
    made = cluster(claim("a"), claim("b"), nodes=1, gpus=1)
    place(made, user("p", "a"))
    refuse(made, user("q", "b"))
    made.claims.unshare("claim-a", "pod-p")
    made.displace("pod-p")
    place(made, user("q", "b"))


def allocated(name: str, node_name: str, device: str = "gpu-0", **more: Any) -> Any:
    result = {"request": "r", "driver": DRIVER, "pool": node_name, "device": device, **more.pop("result", {})}
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node_name]}]}]
    allocation = {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": terms},
        **more.pop("allocation", {}),
    }
    return claim(name, status={"allocation": allocation, **more})


def test_an_allocated_claim_leaves_only_its_node() -> None:
    made = cluster(allocated("a", "n1"), nodes=4)
    for index in range(5):
        assert place(made, user(f"p{index}", "a")).node == "n1"


def test_two_claims_on_two_nodes_cannot_be_used_together() -> None:
    made = cluster(allocated("a", "n0"), allocated("b", "n1"))
    message = refuse(made, user("p", "a", "b")).message()
    assert message.startswith("0/2 nodes are available: 2 resourceclaim not available on the node.")


def test_a_claim_has_room_for_256_pods() -> None:
    entries = [{"resource": "pods", "name": f"x{i}", "uid": f"x{i}"} for i in range(256)]
    made = cluster(allocated("a", "n0", reservedFor=entries))
    assert "resourceclaim in use" in refuse(made, user("p", "a")).message()
    assert "256 pods" in refuse(made, user("p", "a")).message()


def test_a_missing_class_is_named() -> None:
    made = state(node(), claim(class_name="none"))
    assert refuse(made, user("p", "claim")).message() == (
        "0/1 nodes are available: request r: device class none does not exist."
    )


def test_the_advice_is_about_the_node_that_lacks_least() -> None:
    made = state(node("n0"), slice_("n0", 1), node("n1"), slice_("n1", 3), device_class(), claim(count=4))
    assert "[node n1: " in refuse(made, user("p", "claim")).message()


def test_pods_of_the_same_group_are_not_told_to_free_their_devices() -> None:
    made = cluster(claim("a", count=2), claim("b", count=2), nodes=1, gpus=3)
    group = {"schedulingGroup": {"podGroupName": "g"}}
    place(made, info("g0", claims={"c": "a"}, **group))
    message = refuse(made, info("g1", claims={"c": "b"}, **group)).message()
    assert "other pods of the group" in message
    assert "free " not in message
    assert "free " in refuse(made, user("another", "b")).message()


def test_one_claim_under_two_names_is_counted_twice() -> None:
    made = cluster(claim(), nodes=1, gpus=1)
    assert "cannot allocate all claims" in refuse(made, user("p", "claim", "claim")).message()


@pytest.mark.parametrize(
    ("made", "text"),
    [
        pytest.param(lambda: pod(claims={"c": "x"}), 'could not find ResourceClaim "ns/x"', id="missing"),
        pytest.param(
            lambda: pod(resourceClaims=[{"name": "c", "resourceClaimTemplateName": "t"}]),
            'pod "ns/p": ResourceClaim not created yet',
            id="not-generated",
        ),
        pytest.param(lambda: pod(claims={"c": "leaving"}), 'resourceclaim "leaving" is being deleted', id="deleting"),
        pytest.param(
            lambda: pod(
                resourceClaims=[{"name": "c", "resourceClaimTemplateName": "t"}],
                status={"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "claim"}]},
            ),
            "ResourceClaim ns/claim was not created for Pod ns/p (Pod is not owner)",
            id="foreign",
        ),
    ],
)
def test_claims_that_cannot_be_used_yet(made: Any, text: str) -> None:
    leaving = claim("leaving", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    known = cluster(claim(), leaving)
    with pytest.raises(ClaimLookupError) as caught:
        known.claims.of(PodInfo(made()))
    assert str(caught.value) == text


def test_an_entry_that_needs_no_claim_is_skipped() -> None:
    made = pod(
        resourceClaims=[{"name": "c", "resourceClaimTemplateName": "t"}],
        status={"resourceClaimStatuses": [{"name": "c"}]},
    )
    assert cluster().claims.of(PodInfo(made)) == []


# -- alternatives, packing


def alternatives(*classes: str) -> list[dict[str, Any]]:
    subs = [
        {"name": f"s{i}", "deviceClassName": name, "allocationMode": "ExactCount", "count": 1}
        for i, name in enumerate(classes)
    ]
    return [{"name": "r", "firstAvailable": subs}]


def test_the_better_alternative_beats_the_emptier_node() -> None:
    fast = device_class("fast")
    made = state(node("busy"), node("idle"), slice_("busy", 1), device_class(), fast)
    made.set_class(device_class("slow"))
    for index in range(3):
        made.place(info(f"x{index}"), "busy")
    fast_only = {"selectors": [{"cel": {"expression": f'device.attributes["{DRIVER}"].?fast.orValue(false)'}}]}
    from lightkube.models.resource_v1 import DeviceClass

    from drakit.api.typed import from_plain

    made.set_class(from_plain(DeviceClass, {"metadata": {"name": "fast"}, "spec": fast_only}))
    made.set_slice(slice_("busy", 1, attributes={"fast": {"bool": True}}))
    made.set_slice(slice_("idle", 1, attributes={"fast": {"bool": False}}))
    made.claims.set(claim("c", requests=alternatives("fast", "slow")))
    placement = place(made, user("p", "c"))
    assert placement.node == "busy"
    assert placement.allocations[0][1]["devices"]["results"][0]["request"] == "r/s0"


@pytest.mark.parametrize(("policy", "nodes"), [("spread", 4), ("pack", 1)])
def test_spread_or_pack(policy: str, nodes: int) -> None:
    made = state(*(node(f"n{i}") for i in range(4)), policy=Policy(placement=policy))
    used = {place(made, info(f"p{i}", requests={"cpu": "500m", "memory": "1Gi"})).node for i in range(4)}
    assert len(used) == nodes


def mig(node_name: str) -> list[Any]:
    """A GPU in two halves that share its memory."""
    from lightkube.models.resource_v1 import ResourceSlice

    from drakit.api.typed import from_plain

    pool = {"name": node_name, "generation": 1, "resourceSliceCount": 2}
    base = {"driver": DRIVER, "nodeName": node_name, "pool": pool}
    half = {"consumesCounters": [{"counterSet": "gpu", "counters": {"memory": {"value": "20Gi"}}}]}
    counters = [{"name": "gpu", "counters": {"memory": {"value": "40Gi"}}}]
    devices = [{"name": f"half-{index}", **half} for index in range(2)]
    contents: list[dict[str, Any]] = [{"sharedCounters": counters}, {"devices": devices}]
    return [
        from_plain(ResourceSlice, {"metadata": {"name": f"{node_name}-{number}"}, "spec": {**base, **content}})
        for number, content in enumerate(contents)
    ]


def test_a_partition_goes_where_it_leaves_the_least_over() -> None:
    names = [f"n{index}" for index in range(4)]
    claims = [claim(f"c{index}") for index in range(4)]
    made = state(*(node(n) for n in names), *(s for n in names for s in mig(n)), device_class(), *claims)
    used = [place(made, user(f"p{index}", f"c{index}")).node for index in range(4)]
    assert used[0] == used[1]  # the second half of a GPU that is cut already
    assert used[2] == used[3] != used[0]
    made.claims.unshare("claim-c0", "pod-p0")  # given up: that GPU is half free again
    made.displace("pod-p0")
    made.claims.set(claim("again"))
    assert place(made, user("again", "again")).node == used[0]


# -- taints


@pytest.mark.parametrize(
    ("toleration", "chosen"),
    [
        pytest.param({"effect": "NoExecute", "tolerationSeconds": 60}, "healthy", id="for-a-time"),
        pytest.param({"effect": "NoExecute", "tolerationSeconds": 30}, "healthy", id="for-a-time-that-is-over"),
        pytest.param({"effect": "NoExecute", "tolerationSeconds": 1 << 62}, "healthy", id="for-ages"),
        pytest.param({}, "healthy", id="without-the-effect"),
        pytest.param({"effect": "NoExecute"}, "idle", id="without-end"),
    ],
)
def test_devices_that_would_have_to_be_left_again_come_last(toleration: dict[str, Any], chosen: str) -> None:
    taint = {"key": "example.com/bad", "effect": "NoExecute", "timeAdded": "2025-12-31T23:59:30Z"}
    tolerated = [{"operator": "Exists", **toleration}]
    request = {"deviceClassName": "gpu", "count": 1, "tolerations": tolerated}
    claims = [claim(name, requests=[{"name": "r", "exactly": request}]) for name in "ab"]
    made = state(node("idle"), node("healthy"), slice_("healthy", 1), slice_("idle", 1, taints=[taint]), device_class())
    for each in claims:
        made.claims.set(each)
    for index in range(3):
        made.place(info(f"x{index}"), "healthy")
    first = place(made, user("p", "a"))
    assert first.node == chosen
    assert first.allocations[0][1]["devices"]["results"][0]["tolerations"] == tolerated
    assert place(made, user("q", "b")).node in {"idle", "healthy"} - {chosen}  # better than nothing, as in Kubernetes


def test_on_one_node_too_devices_that_may_be_kept_come_first() -> None:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": 1, "tolerations": [for_a_minute()]}}
    made = state(node("a"), slice_("a", 2), device_class(), claim("c", requests=[request]))
    made.set_rule(rule(driver=DRIVER, pool="a", device="gpu-0"))
    assert devices(place(made, user("p", "c")).allocations[0][1]) == ["a/gpu-1"]


def for_a_minute() -> dict[str, Any]:
    return {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}


@pytest.mark.parametrize("published", [True, False], ids=["", "device-gone"])
@pytest.mark.parametrize(
    ("tolerations", "added", "waits"),
    [
        pytest.param([], "2026-01-01T00:00:00Z", True, id="not-tolerated"),
        pytest.param([for_a_minute()], "2025-12-31T23:59:30Z", False, id="tolerated-still"),
        pytest.param([for_a_minute()], "2025-12-31T23:58:30Z", True, id="tolerated-no-more"),
        pytest.param([{"operator": "Exists", "effect": "NoExecute"}], "", False, id="tolerated"),
    ],
)
def test_a_shared_claim_whose_users_are_evicted_finds_no_new_ones(
    tolerations: list[dict[str, Any]], added: str, waits: bool, published: bool
) -> None:
    """Else it would never come free, and all who need it were evicted as often as they come."""
    results = [{"request": "r", "driver": DRIVER, "pool": "a", "device": "gpu-0", "tolerations": tolerations}]
    reserved = [{"resource": "pods", "name": "old", "uid": "pod-old"}]
    shared = claim("c", status={"allocation": {"devices": {"results": results}}, "reservedFor": reserved})
    made = state(node("a"), slice_("a", 2 if published else 0), device_class(), shared)
    made.set_rule(rule(driver=DRIVER, device="gpu-0", added=added))
    outcome, _ = decide(made, user("p", "c"), NOW, uid)
    assert isinstance(outcome, Diagnosis) is waits
    if isinstance(outcome, Diagnosis):
        assert outcome.message() == (
            "0/1 nodes are available: 1 resourceclaim not available on the node. [claim ns/c has to come free first: "
            "taint example.com/bad:NoExecute of device gpu.example.com/a/gpu-0]"
        )
        assert made.remove_rule("r")
        place(made, user("p", "c"))


def test_taints_of_slices_count_while_these_are_current() -> None:
    taint = {"key": "bad", "effect": "NoExecute", "timeAdded": "2025-01-01T00:00:00Z"}
    results = [{"request": "r", "driver": DRIVER, "pool": "a", "device": "gpu-0"}]
    shared = claim("c", status={"allocation": {"devices": {"results": results}}})
    made = state(node("a"), slice_("a", 1, taints=[taint]), device_class(), shared)
    assert isinstance(decide(made, user("p", "c"), NOW, uid)[0], Diagnosis)
    newer = slice_("a", 1)
    assert newer.metadata is not None
    newer.metadata.name, newer.spec.pool.generation = "newer", 2
    made.set_slice(newer)
    assert isinstance(decide(made, user("p", "c"), NOW, uid)[0], Placement)
    made.remove_slice("newer")
    assert isinstance(decide(made, user("p", "c"), NOW, uid)[0], Diagnosis)
    made.set_slice(slice_("a", 1))
    assert isinstance(decide(made, user("p", "c"), NOW, uid)[0], Placement)
    assert not made.evicting


def rule(message: str = "", added: str = "", **selector: str) -> DeviceTaintRule:
    conditions = [{"type": "EvictionInProgress", "status": "True", "reason": "R", "message": message}]
    taint = {"key": "example.com/bad", "effect": "NoExecute", **({"timeAdded": added} if added else {})}
    body = {"metadata": {"name": "r"}, "spec": {"deviceSelector": selector, "taint": taint}}
    return from_plain(DeviceTaintRule, {**body, "status": {"conditions": conditions}})


def test_only_a_rule_that_changes_a_device_is_news_for_waiting_pods() -> None:
    made = state(node("a"), slice_("a", 2), device_class())
    assert not made.set_rule(rule(driver="other.example.com"))
    before = made.revision
    assert made.set_rule(rule(driver=DRIVER))
    assert not made.set_rule(rule(driver=DRIVER, message="1 pod needs to be evicted in 1 namespace."))
    assert made.revision == before + 1
    assert made.remove_rule("r")
    assert not made.remove_rule("r")


# -- extended resources


def test_an_extended_resource_becomes_a_claim_where_the_node_does_not_count_it() -> None:
    made = state(node("a"), slice_("a"), device_class(resource=GPU))
    placement = place(made, info("p", requests={GPU: "2"}))
    assert placement.extended is not None
    assert devices(placement.allocations[0][1]) == ["a/gpu-0", "a/gpu-1"]
    assert placement.extended.mappings == [
        {"containerName": "c", "resourceName": GPU, "requestName": "container-0-request-0"}
    ]


def test_a_node_with_a_device_plugin_needs_no_claim() -> None:
    made = state(node("a", example_com__gpu="2"), device_class(resource=GPU))
    placement = place(made, info("p", requests={GPU: "2"}))
    assert placement.extended is None
    assert placement.allocations == []
    assert "Insufficient example.com/gpu" in refuse(made, info("q", requests={GPU: "1"})).message()


def test_a_mixed_cluster_uses_both_kinds_of_nodes() -> None:
    made = state(node("plugin", example_com__gpu="1"), node("dra"), slice_("dra", 1), device_class(resource=GPU))
    assert {place(made, info(name, requests={GPU: "1"})).node for name in "pq"} == {"plugin", "dra"}
    refuse(made, info("r", requests={GPU: "1"}))


def test_too_few_devices_for_an_extended_resource() -> None:
    made = state(node("a"), slice_("a", 1), device_class(resource=GPU))
    message = refuse(made, info("p", requests={GPU: "2"})).message()
    assert message.startswith("0/1 nodes are available: 1 cannot allocate all claims.")


# -- errors, memory of failures


def test_a_selector_that_fails_at_run_time_is_an_error_of_the_attempt() -> None:
    bad = [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 1, "allocationMode": "ExactCount",
            "selectors": [{"cel": {"expression": f'device.attributes["{DRIVER}"].none == "x"'}}]}}]  # fmt: skip
    made = cluster(claim(requests=bad))
    with pytest.raises(SchedulingError, match='running "DynamicResources" filter plugin: claim ns/claim: selector #0'):
        refuse(made, user("p", "claim"))


def test_pods_of_one_shape_fail_alike_until_something_changes() -> None:
    made = cluster(*(claim(f"c{i}", count=5) for i in range(3)))
    first = refuse(made, user("p0", "c0"))
    first.postfilter = "remembered"
    made.remember_failure(_key(made, user("p0", "c0")), first)
    second = refuse(made, user("p1", "c1"))
    assert "claim ns/c0, request r" in first.message()
    assert second.message() == first.message().replace("claim ns/c0", "claim ns/c1")
    assert "remembered" in second.message()
    made.set_slice(slice_("n0", 6))
    place(made, user("p1", "c1"))


def test_failure_is_retold_with_the_other_pods_claims() -> None:
    why = Rejection("DynamicResources", ("claim ns/a: no", "claim ns/a-b, request claim: no"))
    first = Diagnosis(1, {"n": why}, advice="claim ns/a. claim ns/a.b, claim ns/ab", claims=("ns/a", "ns/a-b", "ns/c"))
    told = first.retold(("ns/a-b", "ns/a", "ns/c")).message()
    reasons = "1 claim ns/a, request claim: no, 1 claim ns/a-b: no"
    assert told == f"0/1 nodes are available: {reasons}. [claim ns/a-b. claim ns/a.b, claim ns/ab]"


def _key(made: State, pod_info: PodInfo) -> object:
    from drakit.scheduler.decide import Attempt
    from tests.scheduler.builders import NOW, uid

    return Attempt(made, pod_info, NOW, uid).key


# -- binding conditions


def conditions(**states: str) -> dict[str, Any]:
    entries = [
        {"type": name, "status": status, "reason": "R", "message": "M", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for name, status in states.items()
    ]
    return {"devices": [{"driver": DRIVER, "pool": "n0", "device": "gpu-0", "conditions": entries}]}


WAITS = {"result": {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"]}}


@pytest.mark.parametrize(
    ("status", "ready"),
    [
        pytest.param({}, False, id="nothing-reported"),
        pytest.param(conditions(Attached="False"), False, id="not-yet"),
        pytest.param(conditions(Attached="True"), True, id="ready"),
        pytest.param(conditions(Attached="True", Broken="False"), True, id="not-broken"),
    ],
)
def test_binding_conditions(status: dict[str, Any], ready: bool) -> None:
    assert ready_to_bind(allocated("a", "n0", **WAITS, **status)) is ready


def test_a_failure_condition_ends_the_wait() -> None:
    with pytest.raises(BindingFailed, match='device binding failed: claim=a, reason=R, message="M"'):
        ready_to_bind(allocated("a", "n0", **WAITS, **conditions(Attached="True", Broken="True")))


def test_a_claim_whose_binding_failed_is_not_available_anywhere() -> None:
    made = cluster(allocated("a", "n0", **WAITS, **conditions(Broken="True")))
    assert "2 resourceclaim not available on the node" in refuse(made, user("p", "a")).message()


@pytest.mark.parametrize(("stamp", "fits"), [("2025-12-31T23:59:00Z", True), ("2025-12-31T23:00:00Z", False)])
def test_a_claim_that_waits_too_long_is_not_available(stamp: str, fits: bool) -> None:
    late = allocated("a", "n0", **WAITS, allocation={"allocationTimestamp": stamp})
    if fits:
        place(cluster(late), user("p", "a"))
    else:
        refuse(cluster(late), user("p", "a"))
