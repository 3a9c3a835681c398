"""Deployments beyond the usual rollout: sets that others changed, rolling back by annotation, what the status sums up."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from lightkube.models.apps_v1 import Deployment, ReplicaSet
from lightkube.models.core_v1 import Event

from drakit.client import Plain
from drakit.controllers.rollout import Deployment as Decisions
from drakit.controllers.rollout import copied_annotations
from tests.controllers import objects as make
from tests.controllers.cluster import Cluster
from tests.controllers.kubelet import names, run_until_quiet

REPLICA_SETS, DEPLOYMENTS = "replicaset-controller", "deployment-controller"
REVISION, HISTORY = "deployment.kubernetes.io/revision", "deployment.kubernetes.io/revision-history"
ROLLBACK, CAUSE = "deprecated.deployment.rollback.to", "kubernetes.io/change-cause"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def _change(cluster: Cluster, version: str, **annotations: str | None) -> None:
    patch = {"spec": {"template": {"metadata": {"labels": {"v": version}}}}, "metadata": {"annotations": annotations}}
    await cluster.patch(Deployment, "d", patch)
    await run_until_quiet(cluster)


async def _told(cluster: Cluster, part: str) -> list[tuple[str, str, str]]:
    return [
        (event["type"], event["reason"], event["message"])
        for event in await cluster.list(Event)
        if part in event["reason"]
    ]


def test_set_whose_template_someone_edited_gets_a_successor_with_another_name(play) -> None:
    """It still has the name that the wanted template's hash gives."""

    async def story(cluster: Cluster) -> None:
        await cluster.create(make.workload("Deployment", "d", replicas=2))
        await run_until_quiet(cluster)
        (first,) = await cluster.list(ReplicaSet)
        edit = {"spec": {"template": {"metadata": {"labels": {"edited": "yes"}}}}}
        await cluster.patch(ReplicaSet, first["metadata"]["name"], edit)
        await run_until_quiet(cluster)
        deployment = await cluster.get(Deployment, "d")
        assert deployment["status"]["collisionCount"] == 1
        assert deployment["status"]["updatedReplicas"] == deployment["status"]["availableReplicas"] == 2
        sizes = {rs["metadata"]["name"]: rs["spec"]["replicas"] for rs in await cluster.list(ReplicaSet)}
        assert sizes.pop(first["metadata"]["name"]) == 0
        assert list(sizes.values()) == [2]

    play(story, DEPLOYMENTS, REPLICA_SETS)


@pytest.mark.parametrize(
    ("request_", "version", "event"),
    [
        pytest.param("0", "2", ("Normal", "DeploymentRollback", 'Rolled back deployment "d" to revision 2'), id="last"),
        pytest.param(
            "1", "1", ("Normal", "DeploymentRollback", 'Rolled back deployment "d" to revision 1'), id="first"
        ),
        pytest.param(
            "3",
            "3",
            (
                "Warning",
                "DeploymentRollbackTemplateUnchanged",
                'The rollback revision contains the same template as current deployment "d"',
            ),
            id="current",
        ),
        pytest.param(
            "9",
            "3",
            ("Warning", "DeploymentRollbackRevisionNotFound", "Unable to find the revision to rollback to."),
            id="unknown",
        ),
    ],
)
def test_rollback_by_annotation(play, request_: str, version: str, event: tuple[str, str, str]) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.workload("Deployment", "d", replicas=1))
        for number in ("1", "2", "3"):
            await _change(cluster, number, **{CAUSE: f"change {number}", f"only-{number}": "x"})
            if number != "3":
                await cluster.patch(Deployment, "d", {"metadata": {"annotations": {f"only-{number}": None}}})
        for replica_set in await cluster.list(ReplicaSet):  # the one before the first change
            if not replica_set["spec"]["template"]["metadata"]["labels"].get("v"):
                await cluster.delete(ReplicaSet, replica_set["metadata"]["name"])
        await _renumber(cluster)
        await cluster.patch(Deployment, "d", {"metadata": {"annotations": {ROLLBACK: request_}}})
        await run_until_quiet(cluster)
        deployment = await cluster.get(Deployment, "d")
        annotations = deployment["metadata"]["annotations"]
        assert deployment["spec"]["template"]["metadata"]["labels"]["v"] == version
        assert annotations[CAUSE] == f"change {version}"
        assert [key for key in annotations if key.startswith("only-")] == [f"only-{version}"]
        assert ROLLBACK not in annotations
        assert await _told(cluster, "Rollback") == [event]
        (running,) = [rs for rs in await cluster.list(ReplicaSet) if rs["spec"]["replicas"]]
        assert running["metadata"]["annotations"][CAUSE] == f"change {version}"

    play(story, DEPLOYMENTS, REPLICA_SETS)


async def _renumber(cluster: Cluster) -> None:
    """Revisions 1 to 3 for versions 1 to 3."""
    for replica_set in await cluster.list(ReplicaSet):
        version = replica_set["spec"]["template"]["metadata"]["labels"]["v"]
        patch = {"metadata": {"annotations": {REVISION: version}}}
        await cluster.patch(ReplicaSet, replica_set["metadata"]["name"], patch)
    await cluster.settle()


def test_rollback_without_an_earlier_revision_says_so(play) -> None:
    async def story(cluster: Cluster) -> None:
        body = make.workload("Deployment", "d", replicas=1)
        body["metadata"]["annotations"] = {ROLLBACK: "0"}
        await cluster.create(body)
        await run_until_quiet(cluster)
        text = "Unable to find last revision."
        assert await _told(cluster, "Rollback") == [("Warning", "DeploymentRollbackRevisionNotFound", text)]
        assert len(await names(cluster)) == 1

    play(story, DEPLOYMENTS, REPLICA_SETS)


def test_paused_deployment_rolls_back_when_it_is_resumed(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.workload("Deployment", "d", replicas=1, revisionHistoryLimit=0, paused=False))
        await run_until_quiet(cluster)
        await cluster.patch(Deployment, "d", {"spec": {"revisionHistoryLimit": 5}})
        await _change(cluster, "2")
        patch = {"spec": {"paused": True, "revisionHistoryLimit": 0}, "metadata": {"annotations": {ROLLBACK: "0"}}}
        await cluster.patch(Deployment, "d", patch)
        await run_until_quiet(cluster)
        assert len(await cluster.list(ReplicaSet)) == 2  # kept for the rollback
        assert await names(cluster, "v=2")
        await cluster.patch(Deployment, "d", {"spec": {"paused": False}})
        await run_until_quiet(cluster)
        assert not await names(cluster, "v=2")
        assert len(await names(cluster)) == 1

    play(story, DEPLOYMENTS, REPLICA_SETS)


@pytest.mark.parametrize(
    ("history", "before", "after"),
    [
        pytest.param("", "1", "1", id="first"),
        pytest.param("1,3", "5", "1,3,5", id="appended"),
        pytest.param(",".join(["1234"] * 400), "5678", ",".join([*["1234"] * 399, "5678"]), id="oldest-make-room"),
    ],
)
def test_history_of_revisions_is_bounded(history: str, before: str, after: str) -> None:
    known = {"metadata": {"annotations": {REVISION: before, **({HISTORY: history} if history else {})}}}
    annotations = copied_annotations({"metadata": {}}, known, "9000", 1, 2)
    assert annotations == {REVISION: "9000", HISTORY: after}


def test_revision_that_is_no_number_is_left_alone() -> None:
    known = {"metadata": {"annotations": {REVISION: "mine", "a": "1"}}}
    assert copied_annotations({"metadata": {"annotations": {"a": "2"}}}, known, "7", 1, 2) == {
        REVISION: "mine",
        "a": "1",
    }


def _set(name: str, day: int, *, version: str = "1", **status: Any) -> Plain:
    template = {"metadata": {"labels": {"v": version}}, "spec": {}}
    metadata = {"name": name, "creationTimestamp": f"2026-01-0{day}T00:00:00Z"}
    return {"metadata": metadata, "spec": {"replicas": 1, "template": template}, "status": status}


def _deployment(**status: Any) -> Plain:
    template = {"metadata": {"labels": {"v": "new"}}, "spec": {}}
    return {"metadata": {"name": "d"}, "spec": {"replicas": 1, "template": template}, "status": status}


def _failure(reason: str, since: str = "2026-01-01T00:00:00Z") -> Plain:
    entry = {"type": "ReplicaFailure", "status": "True", "reason": reason, "message": f"because {reason}"}
    return {**entry, "lastTransitionTime": since}


@pytest.mark.parametrize(
    ("sets", "reason"),
    [
        pytest.param([("b", 2, "1", "Second"), ("a", 1, "2", "First")], "First", id="oldest-first"),
        pytest.param([("a", 1, "1", "First"), ("n", 3, "new", "New")], "New", id="new-set-before-old-ones"),
        pytest.param([("a", 1, "1", "First"), ("n", 3, "new", "")], "First", id="old-set-when-the-new-one-is-well"),
    ],
)
def test_which_failure_becomes_the_deployments(sets: list[tuple[str, int, str, str]], reason: str) -> None:
    known = [
        _set(name, day, version=version, conditions=[_failure(failure)] if failure else [])
        for name, day, version, failure in sets
    ]
    status = Decisions(_deployment(), known).next_status(NOW, rollout=True)
    (failure,) = [entry for entry in status["conditions"] if entry["type"] == "ReplicaFailure"]
    assert (failure["reason"], failure["message"]) == (reason, f"because {reason}")


def test_failure_for_another_reason_is_as_old_as_the_first() -> None:
    old = {**_failure("FailedDelete", "2025-12-01T00:00:00Z"), "lastUpdateTime": "2025-12-01T00:00:00Z"}
    sets = [_set("n", 1, version="new", conditions=[_failure("FailedCreate")])]
    status = Decisions(_deployment(conditions=[old]), sets).next_status(NOW, rollout=True)
    (failure,) = [entry for entry in status["conditions"] if entry["type"] == "ReplicaFailure"]
    assert failure["lastTransitionTime"] == "2025-12-01T00:00:00Z"
    assert failure["lastUpdateTime"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        pytest.param([], 0, id="no-sets"),
        pytest.param([{"observedGeneration": 1, "terminatingReplicas": 2}, {}], 2, id="new-set-does-not-count"),
        pytest.param(
            [{"observedGeneration": 1}, {"observedGeneration": 1, "terminatingReplicas": 2}], None, id="not-told"
        ),
    ],
)
def test_terminating_replicas_are_told_when_all_sets_tell(sets: list[Plain], expected: int | None) -> None:
    known = [_set(f"s{number}", 1, version=str(number), **status) for number, status in enumerate(sets)]
    status = Decisions(_deployment(), known).next_status(NOW, rollout=True)
    assert status.get("terminatingReplicas") == expected


@pytest.mark.parametrize("written", [{}, {"lastUpdateTime": None, "reason": "Mine"}], ids=["nothing", "no-time"])
@pytest.mark.parametrize("state", ["True", "False", "Unknown"])
def test_deployment_goes_on_from_conditions_that_say_little(play, written: dict[str, object], state: str) -> None:
    """What is optional in the API, somebody leaves out."""

    async def story(cluster: Cluster) -> None:
        await cluster.create(make.workload("Deployment", "d", replicas=1))
        await run_until_quiet(cluster)
        conditions = [
            {"type": kind, "status": state, **written} for kind in ("Progressing", "Available", "ReplicaFailure")
        ]
        await cluster.patch(Deployment, "d", {"status": {"conditions": conditions}}, subresource="status")
        (replica_set,) = await cluster.list(ReplicaSet)
        failure = {"status": {"conditions": [{"type": "ReplicaFailure", "status": state}]}}
        await cluster.patch(ReplicaSet, replica_set["metadata"]["name"], failure, subresource="status")
        await _change(cluster, "2")
        await run_until_quiet(cluster)
        status = (await cluster.get(Deployment, "d"))["status"]
        assert {entry["type"]: entry.get("reason") for entry in status["conditions"]} == {
            "Available": "MinimumReplicasAvailable",
            "Progressing": "NewReplicaSetAvailable",
        }

    play(story, DEPLOYMENTS, REPLICA_SETS)
