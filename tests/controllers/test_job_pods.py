"""Which pods a Job takes, keeps and lets go of."""

from __future__ import annotations

from typing import Any

import pytest
from lightkube.models.batch_v1 import Job
from lightkube.models.core_v1 import Pod

from drakit.client import Plain
from tests.controllers import objects as make
from tests.controllers.cluster import Cluster
from tests.controllers.kubelet import bind, run_pods

JOBS = "job-controller"
FINALIZER = "batch.kubernetes.io/job-tracking"


def graceful(name: str, **spec: Any) -> Plain:
    job = make.job(name, **spec)
    job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 30
    return job


def manual(name: str, **spec: Any) -> Plain:
    """A Job that selects pods by a label of its user's choice."""
    job = make.job(name, manualSelector=True, selector={"matchLabels": {"app": "x"}}, **spec)
    job["spec"]["template"]["metadata"] = {"labels": {"app": "x"}}
    return job


async def running(cluster: Cluster) -> list[Plain]:
    """Every pod on a node and running, so that it ends gracefully."""
    for pod in await cluster.list(Pod):
        if not pod["spec"].get("nodeName"):
            await bind(cluster, pod["metadata"]["name"], "node-1")
    await run_pods(cluster)
    return await cluster.list(Pod)


async def end(cluster: Cluster, pod: Plain, phase: str, code: int = 0) -> None:
    ended = {"exitCode": code, "finishedAt": cluster.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")}
    entry = {
        "name": "c",
        "image": "i",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": ended},
    }
    body = {"status": {"phase": phase, "containerStatuses": [entry]}}
    await cluster.patch(Pod, pod["metadata"]["name"], body, subresource="status")


def owners(pod: Plain) -> list[str]:
    return [owner["name"] for owner in pod["metadata"].get("ownerReferences") or ()]


@pytest.mark.parametrize("phase", ["Running", "Succeeded", "Failed"])
def test_pod_that_a_job_adopts_is_counted(play, phase: str) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.pod("p", labels={"app": "x"}))
        await cluster.patch(Pod, "p", {"status": {"phase": phase}}, subresource="status")
        await cluster.create(manual("j", completions=1))
        await cluster.settle(1)
        pod = await cluster.get(Pod, "p")
        assert owners(pod) == ["j"]
        if phase == "Running":
            assert pod["metadata"]["finalizers"] == [FINALIZER]
            await end(cluster, pod, "Succeeded")
            await cluster.settle(1)
        status = (await cluster.get(Job, "j"))["status"]
        assert (status.get("succeeded", 0), status.get("failed", 0)) == ((0, 1) if phase == "Failed" else (1, 0))
        assert not (await cluster.get(Pod, "p"))["metadata"].get("finalizers")

    play(story, JOBS)


def test_pod_that_is_being_deleted_is_not_adopted(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.pod("p", labels={"app": "x"}, nodeName="n", terminationGracePeriodSeconds=30))
        await cluster.delete(Pod, "p")
        await cluster.create(manual("j", completions=1))
        await cluster.settle(1)
        assert owners(await cluster.get(Pod, "p")) == []

    play(story, JOBS)


@pytest.mark.parametrize("kept", [True, False], ids=["finalizer-kept", "finalizer-gone"])
def test_pod_that_lost_its_owner_is_taken_back_and_counted_once(play, kept: bool) -> None:
    """Without its finalizer the pod has been counted; with it, it has not."""

    async def story(cluster: Cluster) -> None:
        await cluster.create(make.job("j", completions=3, parallelism=1))
        await cluster.settle(1)
        (pod,) = await cluster.list(Pod)
        name = pod["metadata"]["name"]
        if kept:
            await cluster.kill()
        await cluster.patch(Pod, name, {"status": {"phase": "Succeeded"}}, subresource="status")
        if not kept:
            await cluster.settle(1)
        await cluster.patch(Pod, name, {"metadata": {"ownerReferences": None}})
        if kept:
            await cluster.start()
        await cluster.settle(2)
        assert owners(await cluster.get(Pod, name)) == ["j"]
        assert not (await cluster.get(Pod, name))["metadata"].get("finalizers")
        assert (await cluster.get(Job, "j"))["status"]["succeeded"] == 1

    play(story, JOBS)


@pytest.mark.parametrize("restarted", [True, False], ids=["while-away", "while-running"])
def test_pod_that_no_longer_matches_is_let_go_and_replaced(play, restarted: bool) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.job("j", completions=1))
        await cluster.settle(1)
        (pod,) = await cluster.list(Pod)
        if restarted:
            await cluster.kill()
        await cluster.patch(
            Pod,
            pod["metadata"]["name"],
            {"metadata": {"labels": {"batch.kubernetes.io/controller-uid": None, "debug": "yes"}}},
        )
        if restarted:
            await cluster.start()
        await cluster.settle(1)
        first = await cluster.get(Pod, pod["metadata"]["name"])
        assert (owners(first), first["metadata"].get("finalizers")) == ([], None)
        assert len(await cluster.list(Pod)) == 2
        await end(cluster, first, "Succeeded")
        await cluster.settle(1)
        assert not (await cluster.get(Job, "j"))["status"].get("succeeded")

    play(story, JOBS)


def test_finalizer_of_a_pod_that_is_no_jobs_stays(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.workload("ReplicaSet", "rs", replicas=1))
        await cluster.settle(1)
        (pod,) = await cluster.list(Pod)
        await cluster.patch(Pod, pod["metadata"]["name"], {"metadata": {"finalizers": [FINALIZER]}})
        await cluster.settle(1)
        assert (await cluster.list(Pod))[0]["metadata"]["finalizers"] == [FINALIZER]

    play(story, JOBS, "replicaset-controller")


def test_pods_of_a_job_that_another_controller_manages_keep_their_finalizer(play) -> None:
    async def story(cluster: Cluster) -> None:
        job = await cluster.create(make.job("j", managedBy="example.com/other"))
        pod = make.pod("p", labels=job["spec"]["template"]["metadata"]["labels"])
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": job["metadata"]["uid"]}
        pod["metadata"].update(finalizers=[FINALIZER], ownerReferences=[{**reference, "controller": True}])
        await cluster.create(pod)
        stamp = "2026-01-01T00:00:00Z"
        ended = [
            {"type": kind, "status": "True", "reason": "r", "message": "", "lastTransitionTime": stamp}
            for kind in ("FailureTarget", "Failed")
        ]
        await cluster.patch(Job, "j", {"status": {"conditions": ended, "startTime": stamp}}, subresource="status")
        await cluster.settle(1)
        assert (await cluster.get(Pod, "p"))["metadata"]["finalizers"] == [FINALIZER]

    play(story, JOBS)
