"""The volume claims of StatefulSets: made with the pods, deleted with what the retention policy names."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from lightkube.models.apps_v1 import StatefulSet
from lightkube.models.core_v1 import Event, Pod

from drakit.client import Plain
from drakit.controllers.statefulset_claims import owners_of_claim
from tests.controllers import objects as make
from tests.controllers.cluster import Cluster
from tests.controllers.kubelet import run_until_quiet
from tests.controllers.volumes import Volumes

SET, POD = "StatefulSet/s", "Pod/s-1"


def _play(story: Callable[[Cluster, Volumes], Awaitable[None]]) -> None:
    async def body() -> None:
        volumes = Volumes()
        async with Cluster(("statefulset-controller",), wrap=volumes.wrap) as cluster:
            await story(cluster, volumes)

    asyncio.run(body())


def _set(deleted: str = "Retain", scaled: str = "Retain", **spec: Any) -> Plain:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    template = {"metadata": {"name": "data", "labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": claim}
    policy = {"whenDeleted": deleted, "whenScaled": scaled}
    body = make.workload("StatefulSet", "s", **{"replicas": 2, **spec})
    body["spec"] |= {"volumeClaimTemplates": [template], "persistentVolumeClaimRetentionPolicy": policy}
    return body


async def _told(cluster: Cluster, reason: str) -> list[str]:
    return sorted(event["message"] for event in await cluster.list(Event) if event["reason"] == reason)


def test_claims_are_made_before_their_pods() -> None:
    async def story(cluster: Cluster, volumes: Volumes) -> None:
        await cluster.create(_set())
        await run_until_quiet(cluster)
        assert volumes.owners() == {"data-s-0": [], "data-s-1": []}
        metadata = volumes.claims["data-s-1"]["metadata"]
        assert (metadata["labels"], metadata["annotations"]) == ({"a": "b", "app": "s"}, {"c": "d"})
        volume = (await cluster.get(Pod, "s-1"))["spec"]["volumes"][0]
        assert volume == {"name": "data", "persistentVolumeClaim": {"claimName": "data-s-1"}}
        assert "Create Claim data-s-0 Pod s-0 in StatefulSet s success" in await _told(cluster, "SuccessfulCreate")
        before = volumes.requests
        await cluster.patch(Pod, "s-0", {"metadata": {"labels": {"b": "c"}}})
        await cluster.settle(1)
        assert volumes.requests == before  # a pod that runs keeps its claims

    _play(story)


def test_claim_that_cannot_be_made_keeps_its_pod_from_being_made() -> None:
    async def story(cluster: Cluster, volumes: Volumes) -> None:
        volumes.refuse.add("data-s-0")
        await cluster.create(_set())
        await cluster.settle(1)
        assert await cluster.list(Pod) == []
        assert await _told(cluster, "FailedCreate") == [
            "Create Claim data-s-0 for Pod s-0 in StatefulSet s failed error: no claim data-s-0 for you",
            "Create Pod s-0 in StatefulSet s failed error: failed to create PVC data-s-0: no claim data-s-0 for you",
        ]
        volumes.refuse.clear()
        await cluster.settle(60)
        await run_until_quiet(cluster)
        assert (await cluster.get(StatefulSet, "s"))["status"]["readyReplicas"] == 2

    _play(story)


def test_claim_that_goes_keeps_its_pod_from_being_made() -> None:
    async def story(cluster: Cluster, volumes: Volumes) -> None:
        going = {"metadata": {"name": "data-s-0", "namespace": "default", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
        volumes.put(going)
        await cluster.create(_set())
        await cluster.settle(1)
        assert await cluster.list(Pod) == []
        assert await _told(cluster, "FailedCreate") == [
            "Create Pod s-0 in StatefulSet s failed error: pvc data-s-0 is being deleted"
        ]

    _play(story)


def test_pending_pod_gets_a_claim_that_is_gone() -> None:
    async def story(cluster: Cluster, volumes: Volumes) -> None:
        await cluster.create(_set())
        await cluster.settle(1)
        del volumes.claims["data-s-0"]
        await cluster.patch(Pod, "s-0", {"metadata": {"labels": {"b": "c"}}})
        await cluster.settle(1)
        assert "data-s-0" in volumes.claims

    _play(story)


@pytest.mark.parametrize(
    ("deleted", "scaled", "two", "one", "none"),
    [
        pytest.param("Retain", "Retain", [[], []], [[], []], [[], []], id="keep-all"),
        pytest.param("Delete", "Retain", [[SET], [SET]], [[SET], [SET]], [], id="with-the-set"),
        pytest.param("Retain", "Delete", [[], []], [[]], [[]], id="with-pods-that-are-too-many"),
        pytest.param("Delete", "Delete", [[SET], [SET]], [[SET]], [], id="with-either"),
    ],
)
def test_claims_go_as_the_policy_says(
    deleted: str, scaled: str, two: list[list[str]], one: list[list[str]], none: list[list[str]]
) -> None:
    """With two pods, when one of them is not wanted any more, and when the set is gone."""

    async def story(cluster: Cluster, volumes: Volumes) -> None:
        await cluster.create(_set(deleted, scaled))
        await run_until_quiet(cluster)
        assert [*volumes.owners().values()] == two
        await cluster.patch(Pod, "s-1", {"metadata": {"finalizers": ["example.com/hold"]}})
        await cluster.patch(StatefulSet, "s", {"spec": {"replicas": 1}})
        await cluster.settle(1)
        assert volumes.owners()["data-s-1"] == ([POD] if scaled == "Delete" else two[1])
        await cluster.patch(Pod, "s-1", {"metadata": {"finalizers": None}})
        await run_until_quiet(cluster)
        await volumes.collect(cluster)
        assert [*volumes.owners().values()] == one
        await cluster.delete(StatefulSet, "s")
        await cluster.settle(1)
        await volumes.collect(cluster)
        assert [*volumes.owners().values()] == none

    _play(story)


def test_policy_that_changes_counts_for_claims_that_are_there() -> None:
    async def story(cluster: Cluster, volumes: Volumes) -> None:
        await cluster.create(_set())
        await run_until_quiet(cluster)
        for deleted, expected in (("Delete", [SET]), ("Retain", [])):
            policy = {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": deleted}}
            await cluster.patch(StatefulSet, "s", {"spec": policy})
            await cluster.settle(1)
            assert [*volumes.owners().values()] == [expected, expected]

    _play(story)


def test_pod_waits_until_the_claim_of_the_one_before_it_is_gone() -> None:
    async def story(cluster: Cluster, volumes: Volumes) -> None:
        await cluster.create(_set("Retain", "Delete"))
        await run_until_quiet(cluster)
        await cluster.patch(StatefulSet, "s", {"spec": {"replicas": 1}})
        await run_until_quiet(cluster)
        await cluster.patch(StatefulSet, "s", {"spec": {"replicas": 2}})
        await cluster.settle(3)
        assert len(await cluster.list(Pod)) == 1
        await volumes.collect(cluster)
        await cluster.settle(3)
        await run_until_quiet(cluster)
        assert (await cluster.get(StatefulSet, "s"))["status"]["readyReplicas"] == 2
        assert volumes.owners() == {"data-s-0": [], "data-s-1": []}

    _play(story)


def test_claim_that_another_controls_is_left_to_it_and_told_of() -> None:
    async def story(cluster: Cluster, volumes: Volumes) -> None:
        other = {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "u", "controller": True}
        volumes.put({"metadata": {"name": "data-s-0", "namespace": "default", "ownerReferences": [other]}})
        await cluster.create(_set("Delete"))
        await run_until_quiet(cluster)
        assert volumes.owners() == {"data-s-0": ["Other/o"], "data-s-1": [SET]}
        assert await _told(cluster, "ConflictingController") == [
            "PersistentVolumeClaim data-s-0 has a conflicting OwnerReference that acts as a manging controller, "
            "the retention policy is ignored for this claim"
        ]

    _play(story)


def _owner(kind: str, uid: str, **more: Any) -> Plain:
    version, name = ("apps/v1", "s") if kind == "StatefulSet" else ("v1", "s-1")
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True, **more}


OTHER = {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "o"}


@pytest.mark.parametrize(
    ("policy", "wanted", "before", "after"),
    [
        pytest.param("RR", True, [OTHER], None, id="nothing-to-do"),
        pytest.param("RR", True, [_owner("StatefulSet", "set"), OTHER], [OTHER], id="let-go"),
        pytest.param("DR", False, [], ["StatefulSet"], id="set-even-if-not-wanted"),
        pytest.param("DD", False, [_owner("StatefulSet", "set")], ["Pod"], id="from-set-to-pod"),
        pytest.param("DD", True, [_owner("Pod", "pod")], ["StatefulSet"], id="from-pod-to-set"),
        pytest.param("RD", True, [_owner("Pod", "pod")], [], id="wanted-again"),
        pytest.param("DR", True, [_owner("StatefulSet", "set", controller=False)], ["StatefulSet"], id="no-controller"),
        pytest.param("DD", True, [_owner("StatefulSet", "another")], None, id="of-a-set-before"),
        pytest.param("DD", False, [_owner("Pod", "another")], None, id="of-a-pod-before"),
        pytest.param("DR", True, [{**OTHER, "controller": True}], None, id="controlled-by-another"),
        pytest.param(
            "DR", True, [{**OTHER, "controller": True}, _owner("StatefulSet", "set")], ["Other"], id="two-controllers"
        ),
    ],
)
def test_whose_a_claim_is(policy: str, wanted: bool, before: list[Plain], after: list[Any] | None) -> None:
    words = {"R": "Retain", "D": "Delete"}
    retention = {"whenDeleted": words[policy[0]], "whenScaled": words[policy[1]]}
    owner = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "s", "uid": "set"},
        "spec": {"persistentVolumeClaimRetentionPolicy": retention},
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "s-1", "uid": "pod"}}
    found = owners_of_claim({"metadata": {"name": "c", "ownerReferences": before}}, owner, pod, wanted=wanted)
    kinds = None if found is None else [each["kind"] for each in found]
    assert kinds == (None if after is None else [each if isinstance(each, str) else each["kind"] for each in after])
