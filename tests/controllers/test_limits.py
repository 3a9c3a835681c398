"""Quotas and disruption budgets."""

import asyncio

import pytest
from lightkube.models.core_v1 import Event, Pod, ResourceQuota
from lightkube.models.policy_v1 import PodDisruptionBudget
from lightkube.models.resource_v1 import DeviceClass

from drakit.api import quotas
from drakit.api.errors import StatusError
from drakit.client import Plain, resource_of
from drakit.client.transport import Request
from tests.controllers import objects as make
from tests.controllers.between import Between
from tests.controllers.cluster import Cluster
from tests.controllers.kubelet import run_pods


def test_quota_status_follows_what_is_there(play) -> None:
    async def story(cluster: Cluster) -> None:
        hard = {
            "pods": "10",
            "count/resourceclaims.resource.k8s.io": "5",
            "gpu.deviceclass.resource.k8s.io/devices": "8",
        }
        await cluster.create(
            {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}
        )
        await cluster.settle(1)
        assert (await cluster.get(ResourceQuota, "q"))["status"] == {"hard": hard, "used": dict.fromkeys(hard, "0")}
        await cluster.create(make.pod("p"))
        await cluster.create(make.claim("c"))
        await cluster.settle(1)
        used = (await cluster.get(ResourceQuota, "q"))["status"]["used"]
        assert used == {
            "pods": "1",
            "count/resourceclaims.resource.k8s.io": "1",
            "gpu.deviceclass.resource.k8s.io/devices": "1",
        }
        await cluster.patch(Pod, "p", {"status": {"phase": "Succeeded"}}, subresource="status")
        await cluster.settle(1)
        assert (await cluster.get(ResourceQuota, "q"))["status"]["used"]["pods"] == "0"

    play(story, "resourcequota-controller")


def test_a_pod_that_should_have_ended_long_ago_counts_no_more(play) -> None:
    async def story(cluster: Cluster) -> None:
        hard = {"pods": "1", "count/pods": "5"}
        await cluster.create(make.node("n"))
        await cluster.create(make.pod("stuck", nodeName="n", terminationGracePeriodSeconds=30))
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}
        await cluster.create(quota)
        await cluster.delete(Pod, "stuck")
        await cluster.settle(55)
        assert (await cluster.get(ResourceQuota, "q"))["status"]["used"] == {"pods": "1", "count/pods": "1"}
        with pytest.raises(StatusError, match="exceeded quota"):
            await cluster.create(make.pod("next"))
        await cluster.settle(10)
        assert (await cluster.get(ResourceQuota, "q"))["status"]["used"] == {"pods": "0", "count/pods": "1"}
        await cluster.create(make.pod("next"))

    play(story, "resourcequota-controller")


@pytest.mark.parametrize(
    ("affinity", "counts"),
    [
        pytest.param({}, False, id="none"),
        pytest.param(
            {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}, False, id="own-namespace"
        ),
        pytest.param(
            {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}, {"namespaces": ["x"]}]}},
            True,
            id="named",
        ),
        pytest.param(
            {
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": {"namespaceSelector": {}}}]
                }
            },
            True,
            id="selected",
        ),
    ],
)
def test_a_quota_may_be_for_pods_that_look_at_other_namespaces(affinity: Plain, counts: bool) -> None:
    quota = {"spec": {"scopes": ["CrossNamespacePodAffinity"]}}
    assert quotas.matches_scopes(quota, "", "pods", make.pod("p", affinity=affinity)) is counts


def test_claims_count_for_the_extended_resource_that_their_class_comes_to_provide(play) -> None:
    async def story(cluster: Cluster) -> None:
        hard = {"requests.example.com/gpu": "2", "count/resourceclaims.resource.k8s.io": "9"}
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}
        device_class = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "gpu"},
            "spec": {},
        }
        await cluster.create(quota)
        await cluster.create(device_class)
        for name in ("a", "b"):
            await cluster.create(make.claim(name))
        await cluster.patch(DeviceClass, "gpu", {"spec": {"extendedResourceName": "example.com/gpu"}})
        with pytest.raises(StatusError, match="used: requests.example.com/gpu=2"):
            await cluster.create(make.claim("c"))
        await cluster.settle(1)
        assert (await cluster.get(ResourceQuota, "q"))["status"]["used"]["requests.example.com/gpu"] == "2"
        await cluster.patch(DeviceClass, "gpu", {"spec": {"extendedResourceName": None}})
        await cluster.create(make.claim("c"))

    play(story, "resourcequota-controller")


def test_one_more_object_counts_only_itself(play, monkeypatch) -> None:
    counted: list[str] = []
    original = quotas.usage
    monkeypatch.setattr(
        quotas,
        "usage",
        lambda group, plural, *rest: counted.append(plural) or original(group, plural, *rest),
    )

    async def story(cluster: Cluster) -> None:
        await cluster.create(
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": "q"},
                "spec": {"hard": {"count/resourceclaims.resource.k8s.io": "100"}},
            }
        )
        for number in range(30):
            await cluster.create(make.claim(f"c{number}"))
        await cluster.settle(1)
        await cluster.kill()
        await cluster.start()
        await cluster.settle(1)
        counted.clear()
        controller = cluster.controllers[0]
        controller._objects[1].observe(
            {
                **make.claim("one-more"),
                "metadata": {"name": "one-more", "namespace": "default", "uid": "u", "resourceVersion": "999999"},
            }
        )  # type: ignore[attr-defined]
        assert counted == ["resourceclaims"]

    play(story, "resourcequota-controller")


def test_claim_for_extended_resources_looks_at_no_others(play, monkeypatch) -> None:
    looked_at: list[str] = []
    original = quotas.made_for

    def counting(claim: Plain) -> str:
        looked_at.append(claim["metadata"]["name"])
        return original(claim)

    monkeypatch.setattr(quotas, "made_for", counting)

    async def story(cluster: Cluster) -> None:
        hard = {"requests.example.com/gpu": "99", "count/resourceclaims.resource.k8s.io": "99"}
        await cluster.create(
            {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}
        )
        for number in range(40):
            pod = await cluster.create(make.pod(f"p{number}"))
            owner = {"apiVersion": "v1", "kind": "Pod", "name": f"p{number}", "uid": pod["metadata"]["uid"]}
            metadata = {
                "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
                "ownerReferences": [{**owner, "controller": True}],
            }
            looked_at.clear()
            await cluster.create(make.claim(f"c{number}", **metadata))
            await cluster.settle()
            assert set(looked_at) == {f"c{number}"}

    play(story, "resourcequota-controller")


def budget(**spec: object) -> Plain:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"selector": {"matchLabels": {"app": "rs"}}, **spec},
    }


@pytest.mark.parametrize(
    ("limits", "expected", "desired", "allowed"),
    [
        pytest.param({"minAvailable": 3}, 5, 3, 2, id="min-number"),
        pytest.param({"minAvailable": "50%"}, 5, 3, 2, id="min-percent-rounds-up"),
        pytest.param({"maxUnavailable": 1}, 5, 4, 1, id="max-number"),
        pytest.param({"maxUnavailable": "100%"}, 5, 0, 5, id="max-percent"),
        pytest.param({"minAvailable": 9}, 5, 9, 0, id="too-few"),
    ],
)
def test_budget_says_how_many_may_go(play, limits: Plain, expected: int, desired: int, allowed: int) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.workload("ReplicaSet", "rs", replicas=5))
        await cluster.create(budget(**limits))
        await cluster.settle(1)
        assert (await cluster.get(PodDisruptionBudget, "b"))["status"]["disruptionsAllowed"] == 0
        await run_pods(cluster)
        await cluster.settle(1)
        status = (await cluster.get(PodDisruptionBudget, "b"))["status"]
        assert (
            status["currentHealthy"],
            status["expectedPods"],
            status["desiredHealthy"],
            status["disruptionsAllowed"],
        ) == (5, expected, desired, allowed)
        (condition,) = status["conditions"]
        assert condition["reason"] == ("SufficientPods" if allowed else "InsufficientPods")

    play(story, "disruption-controller", "replicaset-controller")


def test_granted_eviction_counts_until_the_pod_is_gone(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.workload("ReplicaSet", "rs", replicas=3))
        await cluster.create(budget(minAvailable=1))
        await cluster.settle(1)
        await run_pods(cluster)
        await cluster.settle(1)
        name = (await cluster.list(Pod))[0]["metadata"]["name"]
        stamp = cluster.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        await cluster.patch(
            PodDisruptionBudget, "b", {"status": {"disruptedPods": {name: stamp}}}, subresource="status"
        )
        await cluster.settle(1)
        assert (await cluster.get(PodDisruptionBudget, "b"))["status"]["currentHealthy"] == 2
        await cluster.settle(125)  # the eviction never came
        status = (await cluster.get(PodDisruptionBudget, "b"))["status"]
        assert status["currentHealthy"] == 3
        assert not status.get("disruptedPods")
        text = (
            "Pod was expected by PDB default/default to be deleted but it wasn't"  # the name is lost in Kubernetes too
        )
        assert _events(await cluster.list(Event), "NotDeleted") == [text]

    play(story, "disruption-controller", "replicaset-controller")


def test_eviction_that_somebody_wrote_down_without_its_time_is_long_ago(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.pod("p", labels={"app": "rs"}))
        await cluster.create(budget(minAvailable=1))
        await cluster.settle(1)
        known = await cluster.get(PodDisruptionBudget, "b")
        body = {**known, "status": {**known["status"], "disruptedPods": {"p": None}}}
        await cluster.client.put_plain(resource_of(PodDisruptionBudget), body, subresource="status")
        await cluster.settle(1)
        assert "disruptedPods" not in (await cluster.get(PodDisruptionBudget, "b"))["status"]

    play(story, "disruption-controller")


def test_a_pod_under_two_budgets_is_told(play) -> None:
    async def story(cluster: Cluster) -> None:
        for name in ("a", "b"):
            await cluster.create({**budget(minAvailable=1), "metadata": {"name": name}})
        await cluster.create(
            {**budget(minAvailable=1), "metadata": {"name": "c"}, "spec": {**_JOB_PODS, "minAvailable": 1}}
        )
        await cluster.settle(1)
        await cluster.create(make.pod("lonely", labels={"app": "rs"}))
        await cluster.create(make.pod("other", labels={"job-name": "j"}))
        await cluster.settle(1)
        text = 'Pod "default"/"lonely" matches multiple PodDisruptionBudgets.  Chose "a" arbitrarily.'
        assert _events(await cluster.list(Event), "MultiplePodDisruptionBudgets") == [text]

    play(story, "disruption-controller")


def test_a_set_whose_deployment_is_gone_is_asked_itself(play) -> None:
    async def story(cluster: Cluster) -> None:
        gone = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": "d",
            "uid": "11111111-1111-1111-1111-111111111111",
            "controller": True,
        }
        workload = make.workload("ReplicaSet", "rs", replicas=4)
        workload["metadata"]["ownerReferences"] = [gone]
        await cluster.create(workload)
        await cluster.create(budget(maxUnavailable=1))
        await cluster.settle(1)
        await run_pods(cluster)
        await cluster.settle(1)
        status = (await cluster.get(PodDisruptionBudget, "b"))["status"]
        assert (status["expectedPods"], status["disruptionsAllowed"]) == (4, 1)

    play(story, "disruption-controller", "replicaset-controller")


def test_nothing_may_go_while_the_scale_cannot_be_asked() -> None:
    refused = True

    async def refuse(request: Request) -> None:
        if request.subresource == "scale" and refused:
            raise StatusError.unavailable("not now")

    async def story() -> None:
        nonlocal refused
        wanted = ["disruption-controller", "replicaset-controller"]
        async with Cluster(wanted, wrap=lambda inner: Between(inner, refuse)) as cluster:
            await cluster.create(make.workload("ReplicaSet", "rs", replicas=2))
            await cluster.create({**budget(maxUnavailable=1), "spec": {"selector": {}, "maxUnavailable": 1}})
            await cluster.settle(1)
            await run_pods(cluster)
            await cluster.settle(1)
            assert (await cluster.get(PodDisruptionBudget, "b"))["status"]["disruptionsAllowed"] == 1
            unknown = {"name": "x", "uid": "11111111-1111-1111-1111-111111111111", "controller": True}
            stray = make.pod("stray")
            stray["metadata"]["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": "Deployment", **unknown}]
            await cluster.create(stray)
            await cluster.settle(1)
            status = (await cluster.get(PodDisruptionBudget, "b"))["status"]
            assert status["disruptionsAllowed"] == 0
            assert [(each["reason"], each["message"]) for each in status["conditions"]] == [("SyncFailed", "not now")]
            refused = False
            await cluster.delete(Pod, "stray", grace_seconds=0)
            await cluster.settle(2)
            assert (await cluster.get(PodDisruptionBudget, "b"))["status"]["disruptionsAllowed"] == 1

    asyncio.run(story())


def _events(events: list[Plain], reason: str) -> list[str]:
    return [event["message"] for event in events if event["reason"] == reason]


def test_budget_over_pods_without_workload_says_that_a_share_means_nothing(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.pod("lonely", labels={"app": "rs"}))
        await cluster.create(budget(maxUnavailable=1))
        await run_pods(cluster)
        await cluster.settle(2)
        status = (await cluster.get(PodDisruptionBudget, "b"))["status"]
        assert (status["currentHealthy"], status["expectedPods"], status["disruptionsAllowed"]) == (1, 0, 0)
        (text,) = set(_events(await cluster.list(Event), "UnmanagedPods"))
        selector = (
            "&LabelSelector{MatchLabels:map[string]string{app: rs,},MatchExpressions:[]LabelSelectorRequirement{},}"
        )
        assert f"(selector: {selector}) were found to be unmanaged" in text

    play(story, "disruption-controller")


def test_share_of_a_workload_that_has_no_scale_is_not_guessed(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.job("j", parallelism=2, completions=2))
        await cluster.create({**budget(maxUnavailable=1), "spec": {**_JOB_PODS, "maxUnavailable": 1}})
        await cluster.settle(1)
        await run_pods(cluster)
        await cluster.settle(2)
        status = (await cluster.get(PodDisruptionBudget, "b"))["status"]
        assert (status["currentHealthy"], status["disruptionsAllowed"]) == (0, 0)
        (entry,) = status["conditions"]
        text = "jobs.batch does not implement the scale subresource"
        assert (entry["reason"], entry["message"]) == ("SyncFailed", text)
        told = _events(await cluster.list(Event), "CalculateExpectedPodCountFailed")
        assert f"Failed to calculate the number of expected pods: {text}" in told
        await cluster.patch(PodDisruptionBudget, "b", {"spec": {"maxUnavailable": None, "minAvailable": 1}})
        await cluster.settle(2)
        status = (await cluster.get(PodDisruptionBudget, "b"))["status"]
        assert (status["currentHealthy"], status["disruptionsAllowed"]) == (2, 1)

    play(story, "disruption-controller", "job-controller")


_JOB_PODS = {"selector": {"matchLabels": {"job-name": "j"}}}


def test_budget_without_a_limit_allows_nothing(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.workload("ReplicaSet", "rs", replicas=3))
        await cluster.create(budget())
        await cluster.settle(1)
        await run_pods(cluster)
        await cluster.settle(1)
        status = (await cluster.get(PodDisruptionBudget, "b"))["status"]
        assert (status["currentHealthy"], status["expectedPods"], status["disruptionsAllowed"]) == (3, 0, 0)

    play(story, "disruption-controller", "replicaset-controller")


def test_pod_that_was_to_go_and_lives_on_loses_the_mark(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.pod("p"))
        target = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "m"}
        stamp = cluster.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        await cluster.patch(
            Pod, "p", {"status": {"conditions": [{**target, "lastTransitionTime": stamp}]}}, subresource="status"
        )
        await cluster.settle(119)
        (entry,) = (await cluster.get(Pod, "p"))["status"]["conditions"]
        assert entry["status"] == "True"
        await cluster.settle(2)
        (entry,) = (await cluster.get(Pod, "p"))["status"]["conditions"]
        assert (entry["status"], entry.get("reason"), entry.get("message")) == ("False", None, None)

    play(story, "disruption-controller")


def test_quota_counts_kinds_that_are_seldom_limited(play) -> None:
    async def story(cluster: Cluster) -> None:
        budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {"minAvailable": 1}}
        await cluster.create({**budget, "metadata": {"name": "before"}})
        hard = {"count/poddisruptionbudgets.policy": "3", "services": "2"}
        await cluster.create(
            {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}
        )
        await cluster.settle(1)
        await cluster.create({**budget, "metadata": {"name": "after"}})
        await cluster.settle(1)
        used = (await cluster.get(ResourceQuota, "q"))["status"]["used"]
        assert used == {"count/poddisruptionbudgets.policy": "2", "services": "0"}
        await cluster.delete(PodDisruptionBudget, "before")
        await cluster.settle(1)
        used = (await cluster.get(ResourceQuota, "q"))["status"]["used"]
        assert used["count/poddisruptionbudgets.policy"] == "1"

    play(story, "resourcequota-controller")


def test_first_of_many_changes_shows_in_a_quota_at_once_and_the_others_together(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(
            {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "50"}}}
        )
        await cluster.settle(1)
        await cluster.create(make.pod("p"))
        await cluster.settle()
        first = await cluster.get(ResourceQuota, "q")
        assert first["status"]["used"] == {"pods": "1"}
        for number in range(9):
            await cluster.create(make.pod(f"p{number}"))
            await cluster.settle()
        assert (await cluster.get(ResourceQuota, "q"))["metadata"]["resourceVersion"] == first["metadata"][
            "resourceVersion"
        ]
        await cluster.settle(0.2)
        assert (await cluster.get(ResourceQuota, "q"))["status"]["used"] == {"pods": "10"}

    play(story, "resourcequota-controller")


def test_what_admission_has_counted_stays_until_it_is_seen_or_cannot_come_any_more(play) -> None:
    """A real API server raises `used` before the object exists: to put it right at once would let others in."""

    async def story(cluster: Cluster) -> None:
        body = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "5"}}}
        await cluster.create({"apiVersion": "v1", "kind": "ResourceQuota", **body})
        await cluster.settle(10)

        async def used() -> str:
            return str((await cluster.get(ResourceQuota, "q"))["status"]["used"]["pods"])

        assert await used() == "0"
        await cluster.patch(ResourceQuota, "q", {"status": {"used": {"pods": "2"}}}, subresource="status")
        await cluster.create(make.pod("a"))
        await cluster.settle(1)
        assert await used() == "2"
        await cluster.settle(6)
        assert await used() == "1"
        await cluster.patch(ResourceQuota, "q", {"status": {"used": {"pods": "3"}}}, subresource="status")
        await cluster.delete(Pod, "a", grace_seconds=0)
        await cluster.settle(0.5)
        assert await used() == "0"

    play(story, "resourcequota-controller")
