"""What counts as failed when a Job ends, and what does not."""

from __future__ import annotations

from lightkube.models.batch_v1 import Job
from lightkube.models.core_v1 import Pod

from tests.controllers import objects as make
from tests.controllers.cluster import Cluster
from tests.controllers.kubelet import run_pods

JOBS = "job-controller"
GRACEFUL = {"terminationGracePeriodSeconds": 30}


def _graceful(name: str, **spec: object) -> dict:
    job = make.job(name, **spec)
    job["spec"]["template"]["spec"].update(GRACEFUL)
    return job


async def _bind(cluster: Cluster) -> None:
    for pod in await cluster.list(Pod):
        if not pod["spec"].get("nodeName"):
            current = await cluster.client.get(Pod, pod["metadata"]["name"], namespace="default")
            await cluster.client.bind(current, "node-1")


def test_pods_that_run_when_a_job_fails_count_as_failed(play) -> None:
    async def story(cluster: Cluster) -> None:
        policy = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]}
        await cluster.create(_graceful("j", completions=3, parallelism=3, podFailurePolicy=policy))
        await cluster.settle(1)
        await _bind(cluster)
        await run_pods(cluster)
        ended = {"name": "c", "image": "i", "imageID": "", "state": {"terminated": {"exitCode": 42}}}
        failing = (await cluster.list(Pod))[0]["metadata"]["name"]
        body = {"status": {"phase": "Failed", "containerStatuses": [ended]}}
        await cluster.patch(Pod, failing, body, subresource="status")
        await cluster.settle(2)
        status = (await cluster.get(Job, "j"))["status"]
        assert status["failed"] == 3
        assert [entry["type"] for entry in status["conditions"]] == ["FailureTarget"]  # the others are still stopping
        assert not any(pod["metadata"].get("finalizers") for pod in await cluster.list(Pod))
        await run_pods(cluster)
        await cluster.settle(2)
        status = (await cluster.get(Job, "j"))["status"]
        assert (status["failed"], status["terminating"]) == (3, 0)
        assert [entry["type"] for entry in status["conditions"]] == ["FailureTarget", "Failed"]

    play(story, JOBS)


def test_pods_that_are_stopped_because_enough_succeeded_count_as_nothing(play) -> None:
    async def story(cluster: Cluster) -> None:
        rules = {"rules": [{"succeededIndexes": "0"}]}
        await cluster.create(
            _graceful("j", completions=3, parallelism=3, completionMode="Indexed", successPolicy=rules)
        )
        await cluster.settle(1)
        await _bind(cluster)
        await run_pods(cluster)
        await run_pods(cluster, lambda pod: "Succeeded" if pod["metadata"]["name"].startswith("j-0-") else "")
        await cluster.settle(2)
        assert not any(pod["metadata"].get("finalizers") for pod in await cluster.list(Pod))
        await run_pods(cluster, lambda pod: "")
        await cluster.settle(2)
        status = (await cluster.get(Job, "j"))["status"]
        assert (status["succeeded"], status.get("failed", 0), status["completedIndexes"]) == (1, 0, "0")
        assert [entry["type"] for entry in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]

    play(story, JOBS)


def test_job_that_is_being_deleted_lets_go_of_running_pods_uncounted(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(_graceful("j", completions=2, parallelism=2))
        await cluster.settle(1)
        await _bind(cluster)
        await run_pods(cluster)
        await cluster.settle(1)
        await cluster.delete(Job, "j", propagation="Foreground")
        await cluster.settle(1)
        assert not any(pod["metadata"].get("finalizers") for pod in await cluster.list(Pod))
        assert "failed" not in (await cluster.get(Job, "j"))["status"]

    play(story, JOBS)


def test_restart_of_a_container_wakes_the_job(play) -> None:
    """Nothing else about the pod changes: it was never ready."""

    async def story(cluster: Cluster) -> None:
        job = make.job("j", backoffLimit=2)
        job["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
        await cluster.create(job)
        await cluster.settle(1)
        (pod,) = await cluster.list(Pod)
        for count in (1, 2):
            entry = {"name": "c", "image": "i", "imageID": "", "restartCount": count, "ready": False}
            body = {"status": {"phase": "Running", "containerStatuses": [entry]}}
            await cluster.patch(Pod, pod["metadata"]["name"], body, subresource="status")
            await cluster.settle(1)
        conditions = (await cluster.get(Job, "j"))["status"]["conditions"]
        assert ("FailureTarget", "BackoffLimitExceeded") in [(each["type"], each["reason"]) for each in conditions]

    play(story, JOBS)


def test_index_whose_result_was_taken_away_is_run_again(play) -> None:
    """Someone removes the finalizer of a pod before the Job has counted it."""

    async def story(cluster: Cluster) -> None:
        await cluster.create(make.job("j", completions=3, parallelism=3, completionMode="Indexed"))
        await cluster.settle(1)
        await cluster.kill()
        (pod,) = [pod for pod in await cluster.list(Pod) if pod["metadata"]["name"].startswith("j-1-")]
        await cluster.start()
        await cluster.settle(1)
        await cluster.patch(Pod, pod["metadata"]["name"], {"metadata": {"finalizers": None}})
        await cluster.patch(Pod, pod["metadata"]["name"], {"status": {"phase": "Succeeded"}}, subresource="status")
        for _ in range(4):
            await cluster.settle(2)
            await run_pods(cluster, lambda pod: "Succeeded")
        assert (await cluster.get(Job, "j"))["status"]["completedIndexes"] == "0-2"

    play(story, JOBS)
