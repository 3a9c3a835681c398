"""Device taints and pool status."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from lightkube.models.core_v1 import Event, Pod
from lightkube.models.resource_v1 import DeviceTaintRule, ResourceClaim, ResourceSlice
from lightkube.models.resource_v1alpha3 import ResourcePoolStatusRequest

from drakit.api.gates import FeatureGates
from drakit.client import Plain
from drakit.client.transport import JSON, Request, Response
from drakit.controllers import device_taint_decisions as decisions
from drakit.controllers.pool_views import pool_request_status
from tests.controllers import objects as make
from tests.controllers.chaos import Chaos, ChaosTransport, Mortal
from tests.controllers.cluster import Cluster
from tests.controllers.kubelet import allocate, bind

TAINTS, CLAIMS = "device-taint-eviction-controller", "resourceclaim-controller"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
PATIENT = [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]
TAINTED = [{"name": "dev-0", "taints": [{"key": "k", "effect": "NoExecute"}]}]


async def pod_on_device(
    cluster: Cluster, name: str = "p", device: str = "dev-0", tolerations: list[Plain] | None = None
) -> None:
    await cluster.create(make.claim(f"{name}-claim"))
    await cluster.create(make.pod(name, claims={"gpu": f"{name}-claim"}))
    await allocate(cluster, f"{name}-claim", name, device=device, tolerations=tolerations)
    await bind(cluster, name, "node-1")


async def pods(cluster: Cluster) -> list[str]:
    return [pod["metadata"]["name"] for pod in await cluster.list(Pod)]


async def condition(cluster: Cluster, rule: str) -> Plain:
    (found,) = (await cluster.get(DeviceTaintRule, rule))["status"]["conditions"]
    return found


def test_rule_evicts_says_so_and_frees_the_claim(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.slice_("s", "node-1", 2))
        await pod_on_device(cluster)
        await pod_on_device(cluster, "other", "dev-1")
        await cluster.patch(Pod, "p", {"metadata": {"finalizers": ["example.com/hold"]}})
        await cluster.create(make.rule("r", driver="gpu.example.com", device="dev-0"))
        await cluster.settle(1)
        pod = await cluster.get(Pod, "p")
        assert pod["metadata"]["deletionTimestamp"]
        target = next(entry for entry in pod["status"]["conditions"] if entry["type"] == "DisruptionTarget")
        assert (target["status"], target["reason"]) == ("True", "DeletionByDeviceTaintManager")
        assert "observedGeneration" not in target
        assert [
            event["message"] for event in await cluster.list(Event) if event["reason"] == "DeviceTaintManagerEviction"
        ] == ["Marking for deletion"]
        await cluster.patch(Pod, "p", {"metadata": {"finalizers": None}})
        await cluster.settle(12)
        assert await pods(cluster) == ["other"]
        assert not (await cluster.get(ResourceClaim, "p-claim"))["status"].get("allocation")
        found = await condition(cluster, "r")
        assert (found["status"], found["reason"], found["message"]) == (
            "False",
            "Completed",
            "1 pod evicted since starting the controller.",
        )
        assert cluster.context is not None
        assert "device_taint_eviction_controller_pod_deletions_total 1" in cluster.context.metrics.render()

    play(story, TAINTS, CLAIMS)


def test_toleration_seconds_delay_the_eviction_and_the_rule_counts_down(play) -> None:
    async def story(cluster: Cluster) -> None:
        await pod_on_device(
            cluster, tolerations=[{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}]
        )
        await cluster.create(make.rule("r", driver="gpu.example.com"))
        await cluster.settle(1)
        found = await condition(cluster, "r")
        assert (found["status"], found["reason"], found["message"]) == (
            "True",
            "PodsPendingEviction",
            "1 pod needs to be evicted in 1 namespace.",
        )
        await cluster.settle(25)
        assert await pods(cluster) == ["p"]
        await cluster.settle(20)
        assert await pods(cluster) == []
        assert (await condition(cluster, "r"))["reason"] == "Completed"

    play(story, TAINTS, CLAIMS)


def test_a_rule_tells_of_a_pod_that_tolerates_it_until_the_calendar_ends(play) -> None:
    async def story(cluster: Cluster) -> None:
        for_ages = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": (1 << 63) - 1}
        await pod_on_device(cluster, tolerations=[for_ages])
        await cluster.create(make.rule("r", driver="gpu.example.com"))
        await cluster.settle(2)
        assert (await condition(cluster, "r"))["message"] == "1 pod needs to be evicted in 1 namespace."
        assert await pods(cluster) == ["p"]

    play(story, TAINTS)


def test_rule_taken_back_in_time_cancels_the_eviction(play) -> None:
    async def story(cluster: Cluster) -> None:
        await pod_on_device(
            cluster, tolerations=[{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}]
        )
        await cluster.create(make.rule("r", driver="gpu.example.com"))
        await cluster.settle(5)
        await cluster.delete(DeviceTaintRule, "r")
        await cluster.settle(60)
        assert await pods(cluster) == ["p"]
        assert "Cancelling deletion" in [event["message"] for event in await cluster.list(Event)]

    play(story, TAINTS, CLAIMS)


@pytest.mark.parametrize(
    ("toleration", "stays"),
    [
        pytest.param({"operator": "Exists", "effect": "NoExecute"}, True, id="tolerated"),
        pytest.param({"operator": "Exists"}, False, id="no-effect-does-not-count-here"),
        pytest.param(
            {"key": "example.com/bad", "operator": "Equal", "value": "yes", "effect": "NoExecute"}, True, id="equal"
        ),
        pytest.param(
            {"key": "example.com/bad", "operator": "Equal", "value": "no", "effect": "NoExecute"},
            False,
            id="other-value",
        ),
        pytest.param({"key": "else", "operator": "Exists", "effect": "NoExecute"}, False, id="other-key"),
        pytest.param({"operator": "Equal", "value": "yes", "effect": "NoExecute"}, True, id="any-key-with-this-value"),
        pytest.param({"operator": "Equal", "effect": "NoExecute"}, False, id="any-key-without-value"),
        pytest.param(
            {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -5}, False, id="negative-seconds"
        ),
    ],
)
def test_which_tolerations_keep_a_pod(play, toleration: Plain, stays: bool) -> None:
    async def story(cluster: Cluster) -> None:
        await pod_on_device(cluster, tolerations=[toleration])
        await cluster.create(make.rule("r", driver="gpu.example.com"))
        await cluster.settle(2)
        assert (await pods(cluster) == ["p"]) is stays

    play(story, TAINTS)


def test_taint_in_a_slice_evicts_and_only_the_newest_generation_counts(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.slice_("s", "node-1", 1))
        await pod_on_device(cluster)
        await cluster.settle(1)
        tainted = [{"name": "dev-0", "taints": [{"key": "k", "effect": "NoExecute"}]}]
        await cluster.create(make.slice_("old", "node-1", tainted, generation=0))
        await cluster.settle(1)
        assert await pods(cluster) == ["p"]
        await cluster.patch(ResourceSlice, "s", {"spec": {"devices": tainted}})
        await cluster.settle(1)
        assert await pods(cluster) == []

    play(story, TAINTS)


def test_effect_none_counts_and_does_nothing(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.slice_("s", "node-1", 3))
        await pod_on_device(cluster)
        await cluster.create(make.rule("dry", "None", driver="gpu.example.com"))
        await cluster.settle(30)
        assert await pods(cluster) == ["p"]
        assert (await condition(cluster, "dry"))["message"] == (
            "3 published devices selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace if the effect was NoExecute. "
            "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
        )

    play(story, TAINTS)


@pytest.mark.parametrize(
    ("gates", "stays"),
    [
        pytest.param("", [], id="both"),
        pytest.param("DRADeviceTaintRules=false", ["by-rule"], id="no-rules"),
        pytest.param("DRADeviceTaints=false,DRADeviceTaintRules=false", ["by-rule", "by-slice"], id="no-taints"),
    ],
)
def test_closed_gates_keep_pods_where_they_are(play, gates: str, stays: list[str]) -> None:
    async def story(cluster: Cluster) -> None:
        if gates:
            await cluster.kill()  # the server keeps its gates: taints are stored already
        await cluster.create(make.slice_("s", "node-1", TAINTED))
        await pod_on_device(cluster, "by-slice")
        await pod_on_device(cluster, "by-rule", "dev-1")
        await cluster.create(make.rule("r", driver="gpu.example.com", device="dev-1"))
        if gates:
            cluster.gates = FeatureGates.parse(gates)
            await cluster.start()
        await cluster.settle(2)
        assert await pods(cluster) == stays

    play(story, TAINTS)


def test_evictions_have_a_bounded_rate(play) -> None:
    async def story(cluster: Cluster) -> None:
        bucket = cluster.controllers[0]._bucket  # type: ignore[attr-defined]
        bucket._burst, bucket._tokens, bucket.per_second = 2, 2.0, 1.0
        for number in range(5):
            await pod_on_device(cluster, f"p{number}", f"dev-{number}")
        await cluster.create(make.rule("r", driver="gpu.example.com"))
        await cluster.settle()
        assert len(await pods(cluster)) == 3
        await cluster.settle(1.5)
        assert len(await pods(cluster)) == 2
        await cluster.settle(5)
        assert await pods(cluster) == []

    play(story, TAINTS)


def test_pods_that_come_when_their_time_is_over_leave_slowly(play) -> None:
    """Made anew by their workload they come again and again, while no other devices are to be had."""

    async def story(cluster: Cluster) -> None:
        await cluster.create(make.rule("r", driver="gpu.example.com"))
        await cluster.settle(2)
        made = 0

        async def come(number: int) -> None:
            nonlocal made
            for _ in range(number):
                await pod_on_device(cluster, f"p{made}", f"dev-{made}")
                made += 1

        await come(80)
        await cluster.settle()
        assert len(await pods(cluster)) == 30
        await cluster.settle(4)
        assert len(await pods(cluster)) == 2
        await cluster.delete(DeviceTaintRule, "r")
        await cluster.settle(1)
        await come(20)
        await cluster.create(make.rule("again", driver="gpu.example.com"))
        await cluster.settle()
        assert await pods(cluster) == []

    play(story, TAINTS)


def test_rule_touches_only_the_claims_it_selects(play) -> None:
    async def story(cluster: Cluster) -> None:
        for number in range(30):
            await pod_on_device(cluster, f"p{number}", f"dev-{number}")
        await cluster.settle(1)
        loop = cluster.controllers[0].loop
        before = loop.reconciles
        await cluster.create(make.rule("r", driver="gpu.example.com", device="dev-7"))
        await cluster.settle(1)
        assert loop.reconciles - before <= 4
        assert len(await pods(cluster)) == 29

    play(story, TAINTS)


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ({}, True),
        ({"driver": "d"}, True),
        ({"pool": "x"}, False),
        ({"driver": "d", "pool": "p", "device": "v"}, True),
        (None, False),
    ],
)
def test_rule_selectors(selector: Plain | None, matches: bool) -> None:
    rule = {"metadata": {"uid": "u"}, "spec": {} if selector is None else {"deviceSelector": selector}}
    assert decisions.rule_matches(rule, {"driver": "d", "pool": "p", "device": "v"}) is matches


# Pool status.


def request(**spec: object) -> Plain:
    return {"metadata": {"name": "q"}, "spec": {"driver": "gpu.example.com", **spec}}


def _no_rules(_: Plain) -> list[Plain]:
    return []


def allocated(*devices: Plain) -> Plain:
    results = [{"driver": "gpu.example.com", "pool": "n", "request": "r", **device} for device in devices]
    return {"metadata": {"name": "c"}, "status": {"allocation": {"devices": {"results": results}}}}


def test_pool_totals() -> None:
    tainted = {"name": "dev-3", "taints": [{"key": "k", "effect": "NoSchedule"}]}
    slices = [
        make.slice_("s", "n", [{"name": f"dev-{number}"} for number in range(3)] + [tainted]),
        make.slice_("old", "n", 9, generation=0),
    ]
    claims = [allocated({"device": "dev-0"}, {"device": "dev-1", "adminAccess": True})]
    status = pool_request_status(
        request(), slices, claims, lambda _: [make.rule("r", "NoExecute", device="dev-2")], NOW
    )
    (pool,) = status["pools"]
    assert pool == {
        "driver": "gpu.example.com", "poolName": "n", "generation": 1, "nodeName": "n", "resourceSliceCount": 1,
        "totalDevices": 4, "allocatedDevices": 1, "availableDevices": 1, "unavailableDevices": 2,
    }  # fmt: skip
    assert (status["poolCount"], status["conditions"][0]["message"]) == (1, "Calculated status for 1 pools")


def test_incomplete_pool_is_named() -> None:
    status = pool_request_status(request(), [make.slice_("s", "n", 1, count=2)], [], _no_rules, NOW)
    assert (
        status["pools"][0]["validationError"]
        == "PoolIncomplete: pool gpu.example.com/n is incomplete: observed 1/2 slices at generation 1"
    )
    assert status["conditions"][0]["message"] == "Calculated status for 1 pools (1 incomplete)"


def partitioned() -> Plain:
    """One GPU of 40Gi as one whole or as partitions of 10Gi."""

    def device(name: str, kind: str, memory: str) -> Plain:
        return {
            "name": name,
            "attributes": {"profile": {"string": kind}},
            "consumesCounters": [{"counterSet": "gpu", "counters": {"memory": {"value": memory}}}],
        }

    body = make.slice_(
        "s", "n", [device("whole", "full", "40Gi"), *(device(f"part-{number}", "small", "10Gi") for number in range(4))]
    )
    body["spec"]["sharedCounters"] = [{"name": "gpu", "counters": {"memory": {"value": "40Gi"}}}]
    body["spec"]["partitionTypeAttribute"] = "gpu.example.com/profile"
    return body


def test_partitions_are_counted_against_what_is_left() -> None:
    status = pool_request_status(request(), [partitioned()], [allocated({"device": "part-0"})], _no_rules, NOW)
    assert status["pools"][0]["partitionSummary"] == [
        {"attribute": "gpu.example.com/profile", "type": "full", "total": 1, "allocatable": 0},
        {"attribute": "gpu.example.com/profile", "type": "small", "total": 4, "allocatable": 3},
    ]


@pytest.mark.parametrize(
    ("change", "prefix"),
    [
        pytest.param(lambda body: body["spec"].pop("sharedCounters"), "PartitionTypeMissing: pool", id="no-counters"),
        pytest.param(
            lambda body: body["spec"]["devices"][1].pop("attributes"), "PartitionTypeMissing: device", id="no-attribute"
        ),
        pytest.param(
            lambda body: body["spec"]["devices"][1]["consumesCounters"][0]["counters"]["memory"].update(value="20Gi"),
            "PartitionCostMismatch:",
            id="costs-differ",
        ),
    ],
)
def test_partitions_that_make_no_sense_are_named(change, prefix: str) -> None:
    body = partitioned()
    change(body)
    (pool,) = pool_request_status(request(), [body], [], _no_rules, NOW)["pools"]
    assert pool["validationError"].startswith(prefix)
    assert "partitionSummary" not in pool


def test_shareable_capacity() -> None:
    devices = [
        {"name": f"nic-{number}", "allowMultipleAllocations": True, "capacity": {"bandwidth": {"value": "10G"}}}
        for number in range(2)
    ]
    claims = [
        allocated(
            {"device": "nic-0", "consumedCapacity": {"bandwidth": "4G"}},
            {"device": "nic-0", "consumedCapacity": {"bandwidth": "2G"}},
        )
    ]
    (pool,) = pool_request_status(request(), [make.slice_("s", "n", devices)], claims, _no_rules, NOW)["pools"]
    assert pool["shareableSummary"] == {
        "fullyAvailableDevices": 1,
        "partiallyAvailableDevices": 1,
        "capacity": [{"name": "bandwidth", "total": "20G", "consumed": "6G", "available": "14G"}],
    }


def test_request_is_answered_once_and_cleaned_up_after_an_hour(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.slice_("s", "n", 2))
        body = {"apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourcePoolStatusRequest", **request()}
        await cluster.create(body)
        await cluster.settle(3)
        status = (await cluster.get(ResourcePoolStatusRequest, "q"))["status"]
        assert status["pools"][0]["totalDevices"] == 2
        await cluster.create(make.slice_("t", "m", 2))
        await cluster.settle(1)
        assert (await cluster.get(ResourcePoolStatusRequest, "q"))["status"] == status
        await cluster.clock.advance(3700)
        await cluster.settle(1)
        assert await cluster.list(ResourcePoolStatusRequest) == []

    play(story, "resourcepoolstatusrequest-controller", gates="DRAResourcePoolStatus=true")


def test_request_for_a_pool_that_stays_incomplete_is_dropped_until_it_is_touched_and_goes_after_a_day(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.slice_("s", "n", 2, count=2))
        for name in ("q", "touched"):
            body = {"apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourcePoolStatusRequest", **request()}
            await cluster.create({**body, "metadata": {"name": name}})
        await cluster.settle(5)
        await cluster.patch(ResourceSlice, "s", {"spec": {"pool": {"resourceSliceCount": 1, "generation": 2}}})
        await cluster.settle(5)
        assert not (await cluster.get(ResourcePoolStatusRequest, "q")).get("status")
        assert cluster.context is not None
        assert "request_processing_errors_total{" not in cluster.context.metrics.render()
        await cluster.patch(ResourcePoolStatusRequest, "touched", {"metadata": {"labels": {"again": "please"}}})
        await cluster.settle(3)
        assert (await cluster.get(ResourcePoolStatusRequest, "touched"))["status"]["poolCount"] == 1
        await cluster.clock.advance(24 * 3600)
        await cluster.settle(1)
        assert await cluster.list(ResourcePoolStatusRequest) == []

    play(story, "resourcepoolstatusrequest-controller", gates="DRAResourcePoolStatus=true")


def test_conditions_of_others_stay(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.rule("r", "NoSchedule", driver="gpu.example.com"))
        mine = {
            "type": "Mine",
            "status": "True",
            "reason": "R",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        await cluster.patch(DeviceTaintRule, "r", {"status": {"conditions": [mine]}}, subresource="status")
        await cluster.settle(15)
        conditions = (await cluster.get(DeviceTaintRule, "r"))["status"]["conditions"]
        assert {entry["type"] for entry in conditions} == {"Mine", "EvictionInProgress"}

    play(story, TAINTS)


async def told(cluster: Cluster) -> list[str]:
    return [event["message"] for event in await cluster.list(Event) if event["reason"] == "DeviceTaintManagerEviction"]


def test_taint_comes_into_force_when_the_newer_generation_that_hid_it_goes(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.slice_("old", "node-1", TAINTED))
        await cluster.create(make.slice_("new", "node-1", 1, generation=2))
        await pod_on_device(cluster)
        await cluster.settle(1)
        assert await pods(cluster) == ["p"]
        await cluster.delete(ResourceSlice, "new")
        await cluster.settle(1)
        assert await pods(cluster) == []

    play(story, TAINTS)


def test_newer_generation_without_the_taint_cancels_the_eviction_at_once(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.slice_("old", "node-1", TAINTED))
        await pod_on_device(cluster, tolerations=PATIENT)
        await cluster.settle(1)
        await cluster.create(make.slice_("new", "node-1", 1, generation=2))
        await cluster.settle(1)
        assert await told(cluster) == ["Cancelling deletion"]
        await cluster.settle(90)
        assert await pods(cluster) == ["p"]

    play(story, TAINTS)


def test_claim_that_goes_cancels_the_eviction_at_once(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.slice_("s", "node-1", TAINTED))
        await pod_on_device(cluster, tolerations=PATIENT)
        await cluster.settle(1)
        await cluster.patch(ResourceClaim, "p-claim", {"metadata": {"finalizers": None}})
        await cluster.delete(ResourceClaim, "p-claim")
        await cluster.settle(1)
        assert await told(cluster) == ["Cancelling deletion"]

    play(story, TAINTS)


def test_pod_that_comes_later_is_counted_by_the_rule(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.rule("r", driver="gpu.example.com"))
        await cluster.settle(20)
        assert (await condition(cluster, "r"))["reason"] == "NotStarted"
        await pod_on_device(cluster, tolerations=PATIENT)
        await cluster.settle(12)
        assert (await condition(cluster, "r"))["message"] == "1 pod needs to be evicted in 1 namespace."

    play(story, TAINTS)


def test_pod_that_ends_while_it_waits_for_its_eviction_is_no_eviction(play) -> None:
    async def story(cluster: Cluster) -> None:
        await pod_on_device(cluster, tolerations=PATIENT)
        await cluster.create(make.rule("r", driver="gpu.example.com"))
        await cluster.settle(1)
        await cluster.patch(Pod, "p", {"metadata": {"finalizers": ["example.com/hold"]}})
        await cluster.delete(Pod, "p")
        await cluster.patch(Pod, "p", {"status": {"phase": "Succeeded"}}, subresource="status")
        await cluster.settle(1)
        assert await told(cluster) == ["Cancelling deletion"]
        await cluster.settle(90)
        found = await condition(cluster, "r")
        assert (found["status"], found["reason"], found["message"]) == ("False", "NotStarted", "")

    play(story, TAINTS, CLAIMS)


class GoneFirst(ChaosTransport):
    """The pod is deleted just before the controller writes its status."""

    async def request(self, request: Request) -> Response:
        if request.method == "PATCH" and request.plural == "pods":
            await self._inner.request(
                replace(request, method="DELETE", subresource="", body={"gracePeriodSeconds": 0}, content_type=JSON)
            )
        return await self._inner.request(request)


def test_pod_that_is_gone_when_its_time_comes_is_no_eviction() -> None:
    async def story() -> None:
        async with Cluster((TAINTS,), wrap=lambda inner: GoneFirst(inner, Chaos(0))) as cluster:
            await cluster.create(make.slice_("s", "node-1", TAINTED))
            await pod_on_device(cluster)
            await cluster.settle(1)
            assert await pods(cluster) == []
            assert await told(cluster) == []
            assert cluster.context is not None
            assert "device_taint_eviction_controller_pod_deletions_total 0" in cluster.context.metrics.render()

    asyncio.run(story())


def test_a_kill_between_condition_and_deletion_leaves_the_condition_as_it_was() -> None:
    async def story() -> None:
        life = Mortal(2)  # the rule's status, the pod's condition
        async with Cluster((TAINTS,), wrap=life.wrap) as cluster:
            await pod_on_device(cluster)
            await cluster.patch(Pod, "p", {"metadata": {"finalizers": ["example.com/hold"]}})
            await cluster.create(make.rule("r", driver="gpu.example.com"))
            await cluster.settle(1)
            marked = await cluster.get(Pod, "p")
            assert "deletionTimestamp" not in marked["metadata"]
            await cluster.kill()
            await cluster.clock.advance(30)
            life.left = 1000
            await cluster.start()
            await cluster.settle(1)
            pod = await cluster.get(Pod, "p")
            assert pod["metadata"]["deletionTimestamp"]
            assert pod["status"]["conditions"] == marked["status"]["conditions"]

    asyncio.run(story())


def test_each_of_many_pods_waits_once_for_its_turn(play) -> None:
    async def story(cluster: Cluster) -> None:
        bucket = cluster.controllers[0]._bucket  # type: ignore[attr-defined]
        bucket._burst, bucket._tokens, bucket.per_second = 2, 2.0, 1.0
        for number in range(30):
            await pod_on_device(cluster, f"p{number}", f"dev-{number}")
        await cluster.settle(1)
        loop = cluster.controllers[0].loop
        before = loop.reconciles
        await cluster.create(make.rule("r", driver="gpu.example.com"))
        await cluster.settle(10)
        assert len(await pods(cluster)) == 18
        assert loop.reconciles - before <= 30 + 10 + 3
        await cluster.delete(DeviceTaintRule, "r")
        await cluster.settle(2)
        assert (await told(cluster)).count("Cancelling deletion") == 18
        await cluster.create(make.rule("again", driver="gpu.example.com", device="dev-29"))
        await cluster.settle(2)
        assert len(await pods(cluster)) == 17

    play(story, TAINTS)
