"""Claims of pod groups: made once for the group, used by all its pods (gates GenericWorkload and DRAWorkloadResourceClaims)."""

import asyncio

import pytest
from lightkube.models.core_v1 import Event, Pod
from lightkube.models.resource_v1 import ResourceClaim
from lightkube.models.scheduling_v1beta1 import PodGroup

from drakit.api.gates import FeatureGates
from tests.controllers import objects as make
from tests.controllers.cluster import Cluster

GATES = FeatureGates.parse("GenericWorkload=true,DRAWorkloadResourceClaims=true")
CLAIMS = ("resourceclaim-controller", "garbage-collector-controller", "podgroup-protection-controller")


def group(name: str) -> dict:
    return make.pod_group(name, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}])


@pytest.fixture
def play_grouped():
    def run(story) -> None:
        async def body() -> None:
            async with Cluster(CLAIMS, gates=GATES) as cluster:
                await story(cluster)

        asyncio.run(body())

    return run


def test_claim_of_a_group_is_made_once_and_recorded_in_its_pods(play_grouped) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.claim_template("t"))
        made = await cluster.create(group("g"))
        for name in ("a", "b"):
            await cluster.create(make.pod(name, template_claims={"gpu": "t"}, schedulingGroup={"podGroupName": "g"}))
        await cluster.settle(1)
        (claim,) = await cluster.list(ResourceClaim)
        (owner,) = claim["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"]) == ("PodGroup", "g", made["metadata"]["uid"])
        recorded = [{"name": "gpu", "resourceClaimName": claim["metadata"]["name"]}]
        assert (await cluster.get(PodGroup, "g"))["status"]["resourceClaimStatuses"] == recorded
        for name in ("a", "b"):
            assert (await cluster.get(Pod, name))["status"]["resourceClaimStatuses"] == recorded

    play_grouped(story)


def test_entry_that_the_group_does_not_have_is_the_pods_own(play_grouped) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.claim_template("t"))
        await cluster.create(group("g"))
        await cluster.create(
            make.pod("a", template_claims={"gpu": "t", "nic": "t"}, schedulingGroup={"podGroupName": "g"})
        )
        await cluster.settle(1)
        owners = sorted(claim["metadata"]["ownerReferences"][0]["kind"] for claim in await cluster.list(ResourceClaim))
        assert owners == ["Pod", "PodGroup"]

    play_grouped(story)


@pytest.mark.parametrize("gates", ["", ",DRAWorkloadResourceClaims=true"])
def test_pod_gets_its_claims_at_once_when_its_group_comes_late(play, gates: str) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.claim_template("t"))
        await cluster.create(make.pod("a", template_claims={"gpu": "t"}, schedulingGroup={"podGroupName": "g"}))
        await cluster.settle(100)
        assert await cluster.list(ResourceClaim) == []
        await cluster.create(make.pod_group("g"))
        await cluster.settle()
        assert len(await cluster.list(ResourceClaim)) == 1

    play(story, "resourceclaim-controller", gates=f"GenericWorkload=true{gates}")


def test_reservation_of_a_group_goes_with_the_group(play_grouped) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.claim_template("t"))
        made = await cluster.create(group("g"))
        await cluster.settle(1)
        (claim,) = await cluster.list(ResourceClaim)
        name = claim["metadata"]["name"]
        await cluster.patch(
            ResourceClaim, name, {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}}
        )
        reserved = [
            {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": made["metadata"]["uid"]}
        ]
        allocation = {
            "devices": {"results": [{"request": "r", "driver": "d.example.com", "pool": "p", "device": "x"}]},
            "allocationTimestamp": "2026-01-01T00:00:00Z",
        }
        await cluster.patch(
            ResourceClaim, name, {"status": {"allocation": allocation, "reservedFor": reserved}}, subresource="status"
        )
        await cluster.settle(1)
        assert len(await cluster.list(ResourceClaim)) == 1
        await cluster.delete(PodGroup, "g")
        await cluster.settle(2)
        assert await cluster.list(ResourceClaim) == []

    play_grouped(story)


def test_deleted_group_stays_until_its_last_pod_has_ended(play_grouped) -> None:
    async def story(cluster: Cluster) -> None:
        made = await cluster.create(make.pod_group("g"))
        assert made["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]
        for name in ("a", "b"):
            await cluster.create(make.pod(name, schedulingGroup={"podGroupName": "g"}))
        await cluster.delete(PodGroup, "g")
        await cluster.settle(1)
        assert (await cluster.get(PodGroup, "g"))["metadata"]["deletionTimestamp"]
        await cluster.delete(Pod, "a", grace_seconds=0)
        await cluster.settle(1)
        assert await cluster.list(PodGroup)
        await cluster.patch(Pod, "b", {"status": {"phase": "Succeeded"}}, subresource="status")
        await cluster.settle(1)
        assert not await cluster.list(PodGroup)

    play_grouped(story)


def test_group_without_pods_goes_when_none_can_be_on_its_way(play_grouped) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.pod_group("g"))
        await cluster.delete(PodGroup, "g")
        await cluster.settle(3)
        assert not await cluster.list(PodGroup)

    play_grouped(story)


async def with_gates(cluster: Cluster, gates: str) -> None:
    """The controllers come back under other gates."""
    await cluster.kill()
    cluster.gates = FeatureGates.parse(gates)
    await cluster.start(("resourceclaim-controller",))
    await cluster.settle(1)


def test_pod_gets_its_claims_when_its_group_is_there(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.claim_template("t"))
        await cluster.create(make.pod("a", template_claims={"gpu": "t"}, schedulingGroup={"podGroupName": "g"}))
        await cluster.settle(3)
        assert not await cluster.list(ResourceClaim)
        await cluster.create(make.pod_group("g"))
        await cluster.settle(5)
        assert len(await cluster.list(ResourceClaim)) == 1

    play(story, "resourceclaim-controller", gates="GenericWorkload=true")


def test_claims_of_groups_are_left_alone_when_the_gate_is_closed(play_grouped) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.kill()
        await cluster.create(make.claim_template("t"))
        made = await cluster.create(group("g"))
        await cluster.create(make.pod("a", template_claims={"gpu": "t"}, schedulingGroup={"podGroupName": "g"}))
        await cluster.create(make.claim("held"))
        gone = {
            "apiGroup": "scheduling.k8s.io",
            "resource": "podgroups",
            "name": "gone",
            "uid": made["metadata"]["uid"],
        }
        allocation = {"devices": {"results": [{"request": "r", "driver": "d.com", "pool": "p", "device": "x"}]}}
        status = {"status": {"allocation": allocation, "reservedFor": [gone]}}
        await cluster.patch(ResourceClaim, "held", status, subresource="status")
        await with_gates(cluster, "GenericWorkload=true")
        assert [claim["metadata"]["name"] for claim in await cluster.list(ResourceClaim)] == ["held"]
        assert (await cluster.get(ResourceClaim, "held"))["status"]["reservedFor"] == [gone]
        (event,) = await cluster.list(Event)
        assert (
            event["message"]
            == "PodResourceClaim gpu: claim gpu is a PodGroup claim but the DRAWorkloadResourceClaims feature is disabled"
        )
        await with_gates(cluster, "")
        assert [claim["metadata"]["name"] for claim in await cluster.list(ResourceClaim)] == ["held"]

    play_grouped(story)
