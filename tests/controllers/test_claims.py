import asyncio

import pytest
from lightkube.models.core_v1 import Event, Pod
from lightkube.models.resource_v1 import ResourceClaim, ResourceClaimTemplate

from drakit.controllers import claim_decisions as decisions
from tests.controllers import objects as make
from tests.controllers.chaos import Mortal
from tests.controllers.cluster import Cluster
from tests.controllers.kubelet import allocate, bind

CLAIMS = "resourceclaim-controller"


async def claim_names(cluster: Cluster) -> list[str]:
    return [claim["metadata"]["name"] for claim in await cluster.list(ResourceClaim)]


def test_claim_is_made_from_template_and_recorded(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.claim_template("t", labels={"l": "1"}, annotations={"a": "2"}))
        pod = await cluster.create(make.pod("p", template_claims={"gpu": "t"}))
        await cluster.settle()
        (claim,) = await cluster.list(ResourceClaim)
        metadata = claim["metadata"]
        assert metadata["generateName"] == "p-gpu-"
        assert metadata["labels"] == {"l": "1"}
        assert metadata["annotations"] == {"a": "2", "resource.kubernetes.io/pod-claim-name": "gpu"}
        assert metadata["ownerReferences"] == [
            {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"], "controller": True}
        ]
        recorded = (await cluster.get(Pod, "p"))["status"]["resourceClaimStatuses"]
        assert recorded == [{"name": "gpu", "resourceClaimName": metadata["name"]}]

    play(story, CLAIMS)


def test_one_create_and_one_patch_per_pod(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.claim_template("t"))
        before = cluster.server.context.store.version
        for number in range(20):
            await cluster.create(make.pod(f"p{number}", template_claims={"gpu": "t"}))
        await cluster.settle()
        writes = cluster.server.context.store.version - before
        assert writes == 20 * 3  # the pod itself, its claim, its status
        assert cluster.controllers[0].loop.reconciles == 20

    play(story, CLAIMS)


def test_missing_template_is_told_and_waited_for(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.pod("p", template_claims={"gpu": "t"}))
        await cluster.settle()
        (event,) = await cluster.list(Event)
        assert event["reason"] == "FailedResourceClaimCreation"
        assert (
            event["message"]
            == 'PodResourceClaim gpu: resource claim template "t": resourceclaimtemplate.resource.k8s.io "t" not found'
        )
        assert event["reportingComponent"] == "resource_claim"
        await cluster.create(make.claim_template("t"))
        await cluster.settle()
        assert len(await claim_names(cluster)) == 1

    play(story, CLAIMS)


def test_claim_made_before_a_crash_is_adopted(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.claim_template("t"))
        pod = await cluster.create(make.pod("p", template_claims={"gpu": "t"}))
        await cluster.kill()
        body = decisions.new_claim(
            {**pod, "kind": "Pod", "apiVersion": "v1"}, "gpu", {"spec": make.claim_template("t")["spec"]}
        )
        await cluster.client.create(body)
        await cluster.start()
        await cluster.settle()
        assert len(await claim_names(cluster)) == 1

    play(story, CLAIMS)


@pytest.mark.parametrize("first", ["pod", "claims"])
def test_claim_made_twice_because_an_answer_got_lost_leaves_one(play, first: str) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.claim_template("t"))
        pod = {**await cluster.create(make.pod("p", template_claims={"gpu": "t"})), "kind": "Pod", "apiVersion": "v1"}
        await cluster.settle()
        (used,) = await claim_names(cluster)
        twin = decisions.new_claim(pod, "gpu", {"spec": make.claim_template("t")["spec"]})
        if first == "claims":
            await cluster.create(twin)
            await cluster.settle()
        else:  # known when the controller starts
            await cluster.kill()
            await cluster.create(twin)
            await cluster.start()
            await cluster.settle()
        assert await claim_names(cluster) == [used]

    play(story, CLAIMS)


def test_twin_of_a_claim_that_is_to_go_takes_its_place(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.claim_template("t"))
        pod = {**await cluster.create(make.pod("p", template_claims={"gpu": "t"})), "kind": "Pod", "apiVersion": "v1"}
        await cluster.settle()
        (used,) = await claim_names(cluster)
        await cluster.patch(ResourceClaim, used, {"metadata": {"finalizers": ["example.com/held"]}})
        await cluster.delete(ResourceClaim, used)
        await cluster.settle()
        twin = await cluster.create(decisions.new_claim(pod, "gpu", {"spec": make.claim_template("t")["spec"]}))
        await cluster.settle()
        await cluster.patch(ResourceClaim, used, {"metadata": {"finalizers": None}})
        await cluster.settle()
        assert await claim_names(cluster) == [twin["metadata"]["name"]]
        (recorded,) = (await cluster.get(Pod, "p"))["status"]["resourceClaimStatuses"]
        assert recorded["resourceClaimName"] == twin["metadata"]["name"]

    play(story, CLAIMS)


def test_deleted_claim_is_made_again(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.claim_template("t"))
        await cluster.create(make.pod("p", template_claims={"gpu": "t"}))
        await cluster.settle()
        (first,) = await claim_names(cluster)
        await cluster.delete(ResourceClaim, first)
        await cluster.settle()
        (second,) = await claim_names(cluster)
        assert second != first
        assert (await cluster.get(Pod, "p"))["status"]["resourceClaimStatuses"][0]["resourceClaimName"] == second

    play(story, CLAIMS)


def test_claim_of_a_finished_pod_is_deleted(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.claim_template("t"))
        await cluster.create(make.pod("p", template_claims={"gpu": "t"}))
        await cluster.settle()
        (name,) = await claim_names(cluster)
        await allocate(cluster, name, "p")
        await bind(cluster, "p", "n")
        await cluster.settle()
        assert await claim_names(cluster) == [name]
        await cluster.patch(Pod, "p", {"status": {"phase": "Succeeded"}}, subresource="status")
        await cluster.settle()
        assert await claim_names(cluster) == []

    play(story, CLAIMS)


def test_users_claim_is_free_again_after_its_last_pod(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.claim("mine"))
        for name in ("a", "b"):
            await cluster.create(make.pod(name, claims={"gpu": "mine"}))
        await allocate(cluster, "mine", "a", "b")
        await cluster.settle()
        await cluster.delete(Pod, "a", grace_seconds=0)
        await cluster.settle()
        claim = await cluster.get(ResourceClaim, "mine")
        assert [entry["name"] for entry in claim["status"]["reservedFor"]] == ["b"]
        assert claim["status"]["allocation"]
        await cluster.delete(Pod, "b", grace_seconds=0)
        await cluster.settle()
        claim = await cluster.get(ResourceClaim, "mine")
        assert not claim["status"]
        assert not claim["metadata"].get("finalizers")

    play(story, CLAIMS)


def test_allocated_but_never_reserved_claim_is_left_alone(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.claim("mine"))
        await allocate(cluster, "mine")
        await cluster.settle(60)
        assert (await cluster.get(ResourceClaim, "mine"))["status"]["allocation"]

    play(story, CLAIMS)


def test_claim_in_use_stays_until_the_pod_goes(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.claim("mine"))
        await cluster.create(make.pod("a", claims={"gpu": "mine"}))
        await allocate(cluster, "mine", "a")
        await cluster.delete(ResourceClaim, "mine")
        await cluster.settle()
        assert await claim_names(cluster) == ["mine"]
        await cluster.delete(Pod, "a", grace_seconds=0)
        await cluster.settle()
        assert await claim_names(cluster) == []

    play(story, CLAIMS)


def test_pod_with_a_node_gets_allocated_claims_reserved(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.claim("allocated"))
        await cluster.create(make.claim("not-allocated"))
        await cluster.create(make.pod("first", claims={"gpu": "allocated"}))
        await allocate(cluster, "allocated", "first")
        await cluster.create(make.pod("bypass", claims={"gpu": "allocated", "nic": "not-allocated"}, nodeName="n"))
        await cluster.settle()
        reserved = (await cluster.get(ResourceClaim, "allocated"))["status"]["reservedFor"]
        assert [entry["name"] for entry in reserved] == ["first", "bypass"]
        assert not (await cluster.get(ResourceClaim, "not-allocated"))["status"].get("reservedFor")

    play(story, CLAIMS)


def test_reservation_of_another_pod_of_the_same_name_is_dropped(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.claim("mine"))
        await cluster.create(make.pod("a", claims={"gpu": "mine"}))
        await allocate(cluster, "mine", "a")
        await cluster.kill()
        await cluster.delete(Pod, "a", grace_seconds=0)
        await cluster.create(make.pod("a", claims={"gpu": "mine"}))
        await cluster.start()
        await cluster.settle()
        assert not (await cluster.get(ResourceClaim, "mine"))["status"].get("reservedFor")

    play(story, CLAIMS)


def test_unknown_consumers_keep_their_reservation(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.claim("mine"))
        await allocate(cluster, "mine")
        other = [{"apiGroup": "example.com", "resource": "things", "name": "x", "uid": "u"}]
        await cluster.patch(ResourceClaim, "mine", {"status": {"reservedFor": other}}, subresource="status")
        await cluster.settle()
        assert (await cluster.get(ResourceClaim, "mine"))["status"]["reservedFor"] == other

    play(story, CLAIMS)


def test_metrics_have_upstreams_names(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.claim_template("t"))
        await cluster.create(make.pod("p", template_claims={"gpu": "t"}))
        await cluster.create(make.claim("mine"))
        annotations = {decisions.POD_CLAIM_NAME: "gpu", decisions.EXTENDED_RESOURCE_CLAIM: "true"}
        await cluster.create(make.claim("both", annotations=annotations))
        await cluster.settle()
        assert cluster.context is not None
        text = cluster.context.metrics.render()
        created = 'dynamic_resource_allocation_resourceclaim_creates_total{status="success",admin_access="false",owner_api_group="",owner_api_kind="Pod"} 1'
        assert created in text
        assert (
            'dynamic_resource_allocation_resource_claims{allocated="false",admin_access="false",source="resource_claim_template"} 1'
            in text
        )
        for source in ("", "extended_resource"):
            gauge = "dynamic_resource_allocation_resource_claims"
            assert f'{gauge}{{allocated="false",admin_access="false",source="{source}"}} 1' in text
        assert "# TYPE workqueue_adds_total counter" in text
        assert 'workqueue_adds_total{name="resource_claim"} 1' in text
        assert 'workqueue_depth{name="resource_claim"} 0' in text

    play(story, CLAIMS)


@pytest.mark.parametrize(
    ("pod", "entry", "name"),
    [
        pytest.param("p", "gpu", "p-gpu-", id="short"),
        pytest.param("p" * 50, "e" * 5, "p" * 50 + "-" + "e" * 5 + "-", id="just-fits"),
        pytest.param("p" * 60, "e" * 30, "p" * 37 + "-" + "e" * 18, id="cut-in-proportion"),
        pytest.param("p" * 250, "gpu", "p" * 55 + "-", id="nothing-left-of-the-entry"),
    ],
)
def test_generated_names_are_cut_in_proportion(pod: str, entry: str, name: str) -> None:
    assert decisions.generate_name(pod, entry) == name


@pytest.mark.parametrize("writes", range(11))
def test_a_kill_between_any_two_writes_leaves_no_claim_behind_and_none_held(writes: int) -> None:
    async def story() -> None:
        life = Mortal(writes)
        async with Cluster((CLAIMS, "garbage-collector-controller"), wrap=life.wrap) as cluster:

            async def pass_on() -> None:
                await cluster.settle(1)
                if life.left < 0:
                    await cluster.kill()
                    life.left = 1000
                    await cluster.start()
                    await cluster.settle(1)

            await cluster.create(make.claim_template("t"))
            await cluster.create(make.claim("mine"))
            await cluster.create(make.pod("p", claims={"own": "mine"}, template_claims={"gpu": "t", "nic": "t"}))
            await pass_on()
            pod = await cluster.get(Pod, "p")
            made = [entry["resourceClaimName"] for entry in pod["status"]["resourceClaimStatuses"]]
            assert sorted(await claim_names(cluster)) == sorted(["mine", *made])
            for number, name in enumerate(["mine", *made]):
                await allocate(cluster, name, "p", device=f"dev-{number}")
            await bind(cluster, "p", "n")
            await pass_on()
            await cluster.patch(Pod, "p", {"status": {"phase": "Succeeded"}}, subresource="status")
            await pass_on()
            await cluster.settle(40)
            (mine,) = await cluster.list(ResourceClaim)
            assert not mine["status"]
            assert not mine["metadata"].get("finalizers")

    asyncio.run(story())


def test_claim_shared_by_two_hundred_pods_is_free_when_all_have_gone_and_costs_each_of_them_little(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.claim("mine"))
        names = [f"p{number}" for number in range(200)]
        for name in names:
            await cluster.create(make.pod(name, claims={"gpu": "mine"}))
        await allocate(cluster, "mine", *names)
        await cluster.settle()
        before = cluster.server.context.store.version
        for name in names:
            await cluster.delete(Pod, name, grace_seconds=0)
        await cluster.settle()
        claim = await cluster.get(ResourceClaim, "mine")
        assert not claim["status"]
        assert not claim["metadata"].get("finalizers")
        assert cluster.server.context.store.version - before <= 2 * 200 + 2

    play(story, CLAIMS)


def test_pod_made_anew_under_its_name_gets_a_claim_of_its_own(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.claim_template("t"))
        await cluster.create(make.pod("p", template_claims={"gpu": "t"}))
        await cluster.settle()
        (first,) = await claim_names(cluster)
        await allocate(cluster, first, "p")
        await cluster.settle()
        await cluster.delete(Pod, "p", grace_seconds=0)
        await cluster.create(make.pod("p", template_claims={"gpu": "t"}))
        await cluster.settle(2)
        (second,) = await claim_names(cluster)
        assert second != first
        assert (await cluster.get(Pod, "p"))["status"]["resourceClaimStatuses"][0]["resourceClaimName"] == second

    play(story, CLAIMS, "garbage-collector-controller")


def test_template_that_goes_leaves_the_claims_made_from_it(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.claim_template("t"))
        await cluster.create(make.pod("p", template_claims={"gpu": "t"}))
        await cluster.settle()
        await cluster.delete(ResourceClaimTemplate, "t")
        await cluster.create(make.pod("late", template_claims={"gpu": "t"}))
        await cluster.settle(2)
        assert len(await claim_names(cluster)) == 1
        assert {event["involvedObject"]["name"] for event in await cluster.list(Event)} == {"late"}

    play(story, CLAIMS)


def test_claim_whose_owner_a_user_has_taken_away_is_replaced_when_it_goes(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.claim_template("t"))
        await cluster.create(make.pod("p", template_claims={"gpu": "t"}))
        await cluster.settle()
        (name,) = await claim_names(cluster)
        await cluster.patch(ResourceClaim, name, {"metadata": {"ownerReferences": None, "annotations": None}})
        await cluster.settle(2)
        assert await claim_names(cluster) == [name]
        await cluster.delete(ResourceClaim, name)
        await cluster.settle(2)
        (other,) = await claim_names(cluster)
        assert other != name

    play(story, CLAIMS)
