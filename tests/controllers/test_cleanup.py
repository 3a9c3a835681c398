"""Garbage, namespaces, pods of dead nodes, slices, finished Jobs, service accounts."""

import asyncio

import pytest
from lightkube.models.apps_v1 import Deployment, ReplicaSet
from lightkube.models.batch_v1 import Job
from lightkube.models.core_v1 import ConfigMap, Event, Namespace, Node, Pod, ServiceAccount
from lightkube.models.resource_v1 import ResourceClaim, ResourceSlice

from drakit.api.errors import StatusError
from drakit.client import Plain
from drakit.client.transport import Request
from drakit.controllers.objects import conditions_patch
from tests.controllers import objects as make
from tests.controllers.between import Between
from tests.controllers.cluster import Cluster
from tests.controllers.kubelet import run_pods

GARBAGE = "garbage-collector-controller"


def config(name: str, *owners: Plain, **metadata: object) -> Plain:
    references = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
        for owner in owners
    ]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": references, **metadata},
    }


async def configs(cluster: Cluster) -> list[str]:
    return sorted(
        obj["metadata"]["name"]
        for obj in await cluster.list(ConfigMap, "default")
        if obj["metadata"]["name"] != "kube-root-ca.crt"
    )


def test_dependents_go_with_their_owner(play) -> None:
    async def story(cluster: Cluster) -> None:
        owner = await cluster.create(config("owner"))
        child = await cluster.create(config("child", owner))
        await cluster.create(config("grandchild", child))
        await cluster.settle()
        await cluster.delete(ConfigMap, "owner")
        await cluster.settle()
        assert await configs(cluster) == []

    play(story, GARBAGE)


def test_dependent_with_another_owner_stays_and_forgets_the_first(play) -> None:
    async def story(cluster: Cluster) -> None:
        one, two = await cluster.create(config("one")), await cluster.create(config("two"))
        await cluster.create(config("child", one, two))
        await cluster.settle()
        await cluster.delete(ConfigMap, "one")
        await cluster.settle()
        child = await cluster.get(ConfigMap, "child")
        assert [owner["name"] for owner in child["metadata"]["ownerReferences"]] == ["two"]

    play(story, GARBAGE)


def test_foreground_deletion_waits_for_dependents(play) -> None:
    async def story(cluster: Cluster) -> None:
        owner = await cluster.create(config("owner"))
        await cluster.create(config("child", owner, finalizers=["example.com/hold"]))
        await cluster.settle()
        await cluster.delete(ConfigMap, "owner", propagation="Foreground")
        await cluster.settle()
        assert await configs(cluster) == ["child", "owner"]
        assert (await cluster.get(ConfigMap, "child"))["metadata"]["deletionTimestamp"]
        await cluster.patch(ConfigMap, "child", {"metadata": {"finalizers": None}})
        await cluster.settle()
        assert await configs(cluster) == []

    play(story, GARBAGE)


def test_orphaned_dependents_stay_without_owner(play) -> None:
    async def story(cluster: Cluster) -> None:
        owner = await cluster.create(config("owner"))
        await cluster.create(config("child", owner))
        await cluster.settle()
        await cluster.delete(ConfigMap, "owner", propagation="Orphan")
        await cluster.settle()
        assert await configs(cluster) == ["child"]
        assert not (await cluster.get(ConfigMap, "child"))["metadata"].get("ownerReferences")

    play(story, GARBAGE)


def test_dependent_of_an_owner_that_never_was_is_deleted(play) -> None:
    async def story(cluster: Cluster) -> None:
        ghost = {"metadata": {"name": "ghost", "uid": "11111111-1111-1111-1111-111111111111"}}
        await cluster.create(config("child", ghost))
        await cluster.settle()
        assert await configs(cluster) == []

    play(story, GARBAGE)


def test_owner_of_the_same_name_but_another_uid_does_not_count(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(config("owner"))
        await cluster.create(
            config("child", {"metadata": {"name": "owner", "uid": "22222222-2222-2222-2222-222222222222"}})
        )
        await cluster.settle()
        assert await configs(cluster) == ["owner"]

    play(story, GARBAGE)


def test_whole_deployment_goes(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.workload("Deployment", "d", replicas=3))
        await cluster.settle()
        assert len(await cluster.list(Pod)) == 3
        await cluster.delete(Deployment, "d", propagation="Foreground")
        await cluster.settle()
        await run_pods(cluster)
        await cluster.settle()
        assert await cluster.list(Pod) == []
        assert await cluster.list(ReplicaSet) == []
        assert await cluster.list(Deployment) == []

    play(story, GARBAGE, "deployment-controller", "replicaset-controller")


def test_generated_claim_goes_with_its_pod(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.claim_template("t"))
        await cluster.create(make.pod("p", template_claims={"gpu": "t"}))
        await cluster.settle()
        await cluster.delete(Pod, "p", grace_seconds=0)
        await cluster.settle()
        assert await cluster.list(ResourceClaim) == []

    play(story, GARBAGE, "resourceclaim-controller")


def test_namespace_goes_with_all_that_is_in_it(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}})
        await cluster.create(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "x", "namespace": "ns"}}
        )
        held = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "held", "namespace": "ns", "finalizers": ["example.com/hold"]},
        }
        await cluster.create(held)
        await cluster.delete(Namespace, "ns")
        await cluster.settle(2)
        status = (await cluster.get(Namespace, "ns"))["status"]
        assert status["phase"] == "Terminating"
        told = {entry["type"]: (entry["status"], entry["message"]) for entry in status["conditions"]}
        assert told["NamespaceContentRemaining"] == (
            "True",
            "Some resources are remaining: configmaps. has 1 resource instances",
        )
        assert (
            told["NamespaceFinalizersRemaining"][1]
            == "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
        )
        assert await cluster.list(ServiceAccount, "ns") == []
        await cluster.patch(ConfigMap, "held", {"metadata": {"finalizers": None}}, namespace="ns")
        await cluster.settle(10)
        with pytest.raises(StatusError, match="not found"):
            await cluster.get(Namespace, "ns")

    play(story, "namespace-controller")


def test_every_namespace_has_its_service_account(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}})
        await cluster.settle()
        assert [each["metadata"]["name"] for each in await cluster.list(ServiceAccount, "ns")] == ["default"]
        await cluster.delete(ServiceAccount, "default", namespace="ns")
        await cluster.settle()
        assert [each["metadata"]["name"] for each in await cluster.list(ServiceAccount, "ns")] == ["default"]

    play(story, "serviceaccount-controller")


def test_a_service_account_that_is_refused_at_first_comes_later() -> None:
    refused = True

    async def refuse(request: Request) -> None:
        if request.method == "POST" and request.plural == "serviceaccounts" and refused:
            raise StatusError.forbidden("", "serviceaccounts", "default", "a policy says so")

    async def story() -> None:
        nonlocal refused
        async with Cluster(["serviceaccount-controller"], wrap=lambda inner: Between(inner, refuse)) as cluster:
            await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}})
            await cluster.settle(1)
            refused = False
            await cluster.settle(5)
            assert [each["metadata"]["name"] for each in await cluster.list(ServiceAccount, "ns")] == ["default"]

    asyncio.run(story())


def test_pods_of_a_node_that_is_gone_end_after_a_while(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.node("n"))
        await cluster.create(make.pod("p", nodeName="n"))
        await cluster.settle(100)
        assert len(await cluster.list(Pod)) == 1
        await cluster.delete(Node, "n")
        await cluster.settle(30)
        assert len(await cluster.list(Pod)) == 1  # the node may come back
        await cluster.settle(20)
        assert await cluster.list(Pod) == []

    play(story, "pod-garbage-collector-controller")


def test_slices_may_come_before_their_node_but_do_not_outlive_it(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.slice_("early", "n1"))
        await cluster.settle(100)
        await cluster.create(make.node("n1"))
        await cluster.settle(400)
        assert len(await cluster.list(ResourceSlice)) == 1
        await cluster.delete(Node, "n1")
        await cluster.settle(400)
        assert await cluster.list(ResourceSlice) == []

    play(story, "resourceslice-cleaner-controller")


def test_finished_job_goes_after_its_ttl(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.job("j", ttlSecondsAfterFinished=30))
        await cluster.settle(1)
        await run_pods(cluster, lambda pod: "Succeeded")
        await cluster.settle(20)
        assert len(await cluster.list(Job)) == 1
        await cluster.settle(15)
        assert await cluster.list(Job) == []
        assert await cluster.list(Pod) == []

    play(story, "ttl-after-finished-controller", "job-controller", GARBAGE)


def test_foreground_deletion_takes_dependents_along_that_it_does_not_wait_for(play) -> None:
    async def story(cluster: Cluster) -> None:
        owner = await cluster.create(config("owner"))
        child = config("child", owner, finalizers=["example.com/hold"])
        child["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = False
        await cluster.create(child)
        await cluster.create(config("blocking", owner, finalizers=["example.com/hold"]))
        await cluster.settle()
        await cluster.delete(ConfigMap, "owner", propagation="Foreground")
        await cluster.settle()
        assert (await cluster.get(ConfigMap, "child"))["metadata"]["deletionTimestamp"]
        await cluster.patch(ConfigMap, "blocking", {"metadata": {"finalizers": None}})
        await cluster.settle()
        assert await configs(cluster) == ["child"]

    play(story, GARBAGE)


def test_owner_goes_when_the_dependent_it_waits_for_has_another_owner(play) -> None:
    async def story(cluster: Cluster) -> None:
        one, two = await cluster.create(config("one")), await cluster.create(config("two"))
        await cluster.create(config("child", one, two, finalizers=["example.com/hold"]))
        await cluster.settle()
        await cluster.delete(ConfigMap, "one", propagation="Foreground")
        await cluster.settle()
        assert await configs(cluster) == ["child", "two"]
        child = await cluster.get(ConfigMap, "child")
        assert [owner["name"] for owner in child["metadata"]["ownerReferences"]] == ["two"]

    play(story, GARBAGE)


def test_objects_that_own_each_other_go_together(play) -> None:
    async def story(cluster: Cluster) -> None:
        one = await cluster.create(config("one"))
        two = await cluster.create(config("two", one))
        owners = config("one", two)["metadata"]["ownerReferences"]
        await cluster.patch(ConfigMap, "one", {"metadata": {"ownerReferences": owners}})
        await cluster.settle()
        await cluster.delete(ConfigMap, "one", propagation="Foreground")
        await cluster.settle()
        assert await configs(cluster) == []

    play(story, GARBAGE)


def test_reference_with_the_right_uid_but_another_name_does_not_count(play) -> None:
    async def story(cluster: Cluster) -> None:
        owner = await cluster.create(config("owner"))
        await cluster.create(config("child", {"metadata": {"name": "other", "uid": owner["metadata"]["uid"]}}))
        await cluster.settle()
        assert await configs(cluster) == ["owner"]

    play(story, GARBAGE)


def test_owner_in_another_namespace_does_not_count_and_is_told(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
        elsewhere = config("owner")
        elsewhere["metadata"]["namespace"] = "other"
        owner = await cluster.create(elsewhere)
        await cluster.settle()
        await cluster.create(config("child", owner))
        await cluster.settle()
        assert await configs(cluster) == []
        told = [(event["reason"], event["message"]) for event in await cluster.list(Event, "default")]
        where = f"[v1/ConfigMap, namespace: default, name: owner, uid: {owner['metadata']['uid']}]"
        assert told == [("OwnerRefInvalidNamespace", f'ownerRef {where} does not exist in namespace "default"')]

    play(story, GARBAGE)


def test_cluster_scoped_object_with_a_namespaced_owner_is_left_alone(play) -> None:
    """Nobody can say which namespace was meant, and what it may have lost is too much to delete on a guess."""

    async def story(cluster: Cluster) -> None:
        owner = await cluster.create(config("owner"))
        node = make.node("n")
        node["metadata"]["ownerReferences"] = config("x", owner)["metadata"]["ownerReferences"]
        await cluster.create(node)
        await cluster.settle()
        await cluster.delete(ConfigMap, "owner")
        await cluster.settle()
        assert [each["metadata"]["name"] for each in await cluster.list(Node)] == ["n"]

    play(story, GARBAGE)


def test_pod_deleted_before_it_had_a_node_is_marked_failed(play) -> None:
    async def story(cluster: Cluster) -> None:
        pod = make.pod("p")
        pod["metadata"]["finalizers"] = ["example.com/hold"]
        await cluster.create(pod)
        await cluster.delete(Pod, "p")
        await cluster.settle(15)
        assert (await cluster.get(Pod, "p"))["status"]["phase"] == "Pending"  # whoever holds it may look first
        await cluster.settle(10)
        found = await cluster.get(Pod, "p")
        assert (found["status"]["phase"], found["status"]["observedGeneration"]) == ("Failed", 2)
        assert not found["status"].get("conditions")

    play(story, "pod-garbage-collector-controller")


def test_pod_of_a_node_that_is_gone_says_why_after_its_other_conditions(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.node("n"))
        pod = make.pod("p", nodeName="n")
        pod["metadata"]["finalizers"] = ["example.com/hold"]
        await cluster.create(pod)
        await run_pods(cluster)
        before = [entry["type"] for entry in (await cluster.get(Pod, "p"))["status"]["conditions"]]
        await cluster.delete(Node, "n")
        await cluster.settle(50)
        conditions = (await cluster.get(Pod, "p"))["status"]["conditions"]
        assert [entry["type"] for entry in conditions] == [*before, "DisruptionTarget"]
        assert conditions[-1]["observedGeneration"] == 1
        assert conditions[-1]["message"] == "PodGC: node no longer exists"

    play(story, "pod-garbage-collector-controller")


def test_namespace_keeps_what_pods_use_until_they_are_gone(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.node("n"))
        await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}})
        kept = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "used", "namespace": "ns"}}
        await cluster.create(kept)
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "ns"}}
        await cluster.create(account)
        pod = make.pod("p", nodeName="n", terminationGracePeriodSeconds=30)
        pod["metadata"]["namespace"] = "ns"
        await cluster.create(pod)
        await cluster.delete(Namespace, "ns")
        await cluster.settle(5)
        assert [each["metadata"]["name"] for each in await cluster.list(ConfigMap, "ns")] == ["used"]
        conditions = (await cluster.get(Namespace, "ns"))["status"]["conditions"]
        assert {entry["status"] for entry in conditions} == {"False"}
        await cluster.settle(40)
        conditions = (await cluster.get(Namespace, "ns"))["status"]["conditions"]
        assert [(entry["reason"], entry["message"]) for entry in conditions if entry["status"] == "True"] == [
            (
                "ContentDeletionFailed",
                "Failed to delete all resource types, 1 remaining: unexpected items still remain in namespace: ns for "
                "gvr: /v1, Resource=pods",
            )
        ]
        await cluster.delete(Pod, "p", namespace="ns", grace_seconds=0)
        await cluster.settle(10)
        with pytest.raises(StatusError, match="not found"):
            await cluster.get(Namespace, "ns")

    play(story, "namespace-controller")


def test_namespace_that_others_still_hold_says_that_it_is_empty(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns", "finalizers": ["example.com/hold"]}}
        )
        await cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "ns"}})
        await cluster.delete(Namespace, "ns")
        await cluster.settle(10)
        space = await cluster.get(Namespace, "ns")
        assert "deletionGracePeriodSeconds" not in space["metadata"]  # namespaces have none
        assert not space["spec"].get("finalizers")
        assert {entry["status"] for entry in space["status"]["conditions"]} == {"False"}

    play(story, "namespace-controller")


def test_namespace_takes_jobs_along_whose_pods_stay_by_default(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}})
        job = make.job("j")
        job["metadata"]["namespace"] = "ns"
        await cluster.create(job)
        await cluster.delete(Namespace, "ns")
        await cluster.settle(10)
        with pytest.raises(StatusError, match="not found"):
            await cluster.get(Namespace, "ns")

    play(story, "namespace-controller")


@pytest.mark.parametrize("suspended", [False, True])
def test_namespace_goes_also_when_a_job_keeps_failed_pods_for_their_successors(play, suspended: bool) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}})
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "ns"}}
        await cluster.create(account)
        job = make.job("j", completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=1)
        job["metadata"]["namespace"] = "ns"
        await cluster.create(job)
        await cluster.settle(1)
        failed = {"status": {"phase": "Failed"}}
        for pod in await cluster.list(Pod, "ns"):
            await cluster.patch(Pod, pod["metadata"]["name"], failed, subresource="status", namespace="ns")
        await cluster.settle(1)
        if suspended:
            await cluster.patch(Job, "j", {"spec": {"suspend": True}}, namespace="ns")
            await cluster.settle(1)
        await cluster.delete(Namespace, "ns")
        await cluster.settle(10)
        with pytest.raises(StatusError, match="not found"):
            await cluster.get(Namespace, "ns")

    play(story, "namespace-controller", "job-controller")


@pytest.mark.parametrize("order", ["taint-first", "pod-first", "both-before-the-controller"])
def test_pod_that_is_deleted_on_a_node_out_of_service_ends(play, order: str) -> None:
    async def story(cluster: Cluster) -> None:
        taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
        await cluster.create(make.node("n", ready="Unknown"))
        await cluster.create(make.pod("p", nodeName="n", terminationGracePeriodSeconds=30))
        await cluster.create(make.pod("other", nodeName="n", terminationGracePeriodSeconds=30))
        await cluster.settle(1)
        steps = [
            cluster.patch(Node, "n", {"spec": {"taints": [taint]}}),
            cluster.delete(Pod, "p"),
        ]
        if order == "both-before-the-controller":
            await cluster.kill()
        for step in steps if order == "taint-first" else reversed(steps):
            await step
            await cluster.settle(1)
        if order == "both-before-the-controller":
            await cluster.start()
        await cluster.settle(1)
        assert [each["metadata"]["name"] for each in await cluster.list(Pod)] == ["other"]

    play(story, "pod-garbage-collector-controller")


def test_pod_that_cannot_be_ended_does_not_save_the_others() -> None:
    async def refuse(request: Request) -> None:
        if request.method == "DELETE" and request.name == "a":
            raise StatusError.forbidden("", "pods", "a", "a policy says so")

    async def story() -> None:
        collector = "pod-garbage-collector-controller"
        async with Cluster([collector], wrap=lambda inner: Between(inner, refuse)) as cluster:
            await cluster.create(make.node("n"))
            for name in ("a", "b"):
                await cluster.create(make.pod(name, nodeName="n"))
            await cluster.settle(1)
            await cluster.delete(Node, "n")
            await cluster.settle(50)
            assert [each["metadata"]["name"] for each in await cluster.list(Pod)] == ["a"]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("status", "date"),
    [
        pytest.param("True", "2026-01-01T00:00:00Z", id="as-it-was"),
        pytest.param("False", "2026-02-02T00:00:00Z", id="turned"),
    ],
)
def test_a_condition_keeps_its_date_as_long_as_its_status(status: str, date: str) -> None:
    known = {"type": "DisruptionTarget", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    new = {"type": "DisruptionTarget", "status": "True", "reason": "R", "lastTransitionTime": "2026-02-02T00:00:00Z"}
    (entry,) = conditions_patch({"metadata": {"name": "p"}, "status": {"conditions": [known]}}, [new])["conditions"]
    assert entry == {**new, "lastTransitionTime": date}
