"""What counts as failed when a Job ends, and what does not."""

from __future__ import annotations

import asyncio
from datetime import datetime

import pytest
from lightkube.models.batch_v1 import Job
from lightkube.models.core_v1 import Event, Pod

from drakit.api.errors import StatusError
from drakit.client.transport import Request
from drakit.controllers import jobs
from drakit.controllers.job_decisions import finished_at
from tests.controllers import objects as make
from tests.controllers.between import Between
from tests.controllers.cluster import Cluster
from tests.controllers.kubelet import run_pods, run_until_quiet

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


def _refuse_status(cluster: Cluster, *, times: int) -> list[str]:
    """Writes of a Job's status fail at first; returns what was refused so far."""
    client = cluster.controllers[0]._client  # type: ignore[attr-defined]
    original, refused = client.patch_plain, []

    async def patch_plain(resource, name, patch, **rest):
        if rest.get("subresource") == "status" and resource.kind == "Job" and len(refused) < times:
            refused.append(name)
            raise StatusError.modified("batch", "jobs", name)
        return await original(resource, name, patch, **rest)

    client.patch_plain = patch_plain
    return refused


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


@pytest.mark.parametrize("outcome", ["Succeeded", "Failed"])
def test_many_pods_that_end_at_once_are_all_counted_before_the_job_ends(play, monkeypatch, outcome: str) -> None:
    monkeypatch.setattr(jobs, "_UNCOUNTED_LIMIT", 5)

    async def story(cluster: Cluster) -> None:
        await cluster.create(make.job("j", completions=12, parallelism=12, backoffLimit=0))
        await cluster.settle(1)
        await cluster.kill()
        await run_pods(cluster, lambda pod: outcome)
        await cluster.start()
        await cluster.settle(2)
        status = (await cluster.get(Job, "j"))["status"]
        ends = {"Succeeded": "Complete", "Failed": "Failed"}
        assert (status[outcome.lower()], status["conditions"][-1]["type"]) == (12, ends[outcome])

    play(story, JOBS)


def test_index_that_succeeds_while_the_status_is_written_is_not_lost(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.job("j", completions=2, parallelism=2, completionMode="Indexed"))
        await cluster.settle(1)
        client = cluster.controllers[0]._client  # type: ignore[attr-defined]
        original, late = (
            client.patch_plain,
            [pod for pod in await cluster.list(Pod) if "-1-" in pod["metadata"]["name"]],
        )

        async def succeed_meanwhile(resource, name, patch, **rest):
            answer = await original(resource, name, patch, **rest)
            if resource.kind == "Job" and late:
                body = {"status": {"phase": "Succeeded"}}
                await cluster.patch(Pod, late.pop()["metadata"]["name"], body, subresource="status")
                for _ in range(20):
                    await asyncio.sleep(0)
            return answer

        client.patch_plain = succeed_meanwhile
        await run_pods(cluster, lambda pod: "Succeeded" if "-0-" in pod["metadata"]["name"] else "")
        await cluster.settle(1)
        assert len(await cluster.list(Pod)) == 2
        assert (await cluster.get(Job, "j"))["status"]["completedIndexes"] == "0,1"

    play(story, JOBS)


@pytest.mark.parametrize("change", [{"suspend": True}, {"parallelism": 0}], ids=str)
def test_pod_that_succeeds_while_it_is_let_go_of_counts(change: dict[str, object]) -> None:
    async def story() -> None:
        done: list[str] = []

        async def succeed_meanwhile(request: Request) -> None:
            if request.method == "PATCH" and request.plural == "pods" and not done:
                done.append(request.name)
                await cluster.patch(Pod, request.name, {"status": {"phase": "Succeeded"}}, subresource="status")

        async with Cluster([JOBS], wrap=lambda inner: Between(inner, succeed_meanwhile)) as cluster:
            await cluster.create(make.job("j", completions=2, parallelism=2))
            await run_until_quiet(cluster)
            await cluster.patch(Job, "j", {"spec": change})
            await run_until_quiet(cluster)
            assert (await cluster.get(Job, "j"))["status"]["succeeded"] == 1
            assert [pod["metadata"]["name"] for pod in await cluster.list(Pod)] == done

    asyncio.run(story())


def test_indexes_whose_pods_are_stopped_when_the_job_fails_have_not_failed(play) -> None:
    async def story(cluster: Cluster) -> None:
        spec = {"completionMode": "Indexed", "backoffLimitPerIndex": 0, "maxFailedIndexes": 0}
        await cluster.create(_graceful("j", completions=3, parallelism=3, **spec))
        await cluster.settle(1)
        await _bind(cluster)
        await run_pods(cluster)
        await run_pods(cluster, lambda pod: "Failed" if "-1-" in pod["metadata"]["name"] else "")
        await cluster.settle(1)
        status = (await cluster.get(Job, "j"))["status"]
        assert (status["failedIndexes"], status["failed"], status["terminating"]) == ("1", 3, 2)
        assert [entry["reason"] for entry in status["conditions"]] == ["MaxFailedIndexesExceeded"]

    play(story, JOBS)


def test_job_without_any_time_makes_no_pods(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.job("j", activeDeadlineSeconds=0))
        await cluster.settle(1)
        status = (await cluster.get(Job, "j"))["status"]
        assert [entry["reason"] for entry in status["conditions"]] == ["DeadlineExceeded"] * 2
        assert not any(event["reason"] == "SuccessfulCreate" for event in await cluster.list(Event))

    play(story, JOBS)


def test_failures_are_not_held_against_a_job_twice_when_its_status_cannot_be_written(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.job("j", completions=1))
        await cluster.settle(1)
        (pod,) = await cluster.list(Pod)
        refused = _refuse_status(cluster, times=3)
        stamp = cluster.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        ended = {
            "name": "c",
            "image": "i",
            "imageID": "",
            "state": {"terminated": {"exitCode": 1, "finishedAt": stamp}},
        }
        body = {"status": {"phase": "Failed", "containerStatuses": [ended]}}
        await cluster.patch(Pod, pod["metadata"]["name"], body, subresource="status")
        await cluster.settle(14)
        assert len(refused) == 3
        assert len(await cluster.list(Pod)) == 2  # ten seconds later, not eighty

    play(story, JOBS)


def test_job_that_is_being_deleted_can_still_complete(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(_graceful("j", completions=1))
        await cluster.settle(1)
        await _bind(cluster)
        await run_pods(cluster)
        await cluster.kill()
        await cluster.delete(Job, "j", propagation="Foreground")
        await run_pods(cluster, lambda pod: "Succeeded")
        await cluster.start()
        await cluster.settle(1)
        status = (await cluster.get(Job, "j"))["status"]
        assert [entry["type"] for entry in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]

    play(story, JOBS)


def test_job_that_is_being_deleted_is_not_told_to_be_suspended(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.job("j", completions=1))
        await cluster.settle(1)
        await cluster.delete(Job, "j", propagation="Foreground")
        await cluster.patch(Job, "j", {"spec": {"suspend": True}})
        await cluster.settle(1)
        assert not (await cluster.get(Job, "j"))["status"].get("conditions")

    play(story, JOBS)


@pytest.mark.parametrize(("outcome", "end"), [("Failed", "Failed"), ("Succeeded", "Complete")])
def test_job_that_is_suspended_before_its_last_pod_ends_finishes(play, outcome: str, end: str) -> None:
    """It starts when it ends, then: a finished Job has to have started."""

    async def story(cluster: Cluster) -> None:
        policy = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]}
        await cluster.create(_graceful("j", podFailurePolicy=policy))
        await cluster.settle(1)
        await _bind(cluster)
        await run_pods(cluster)
        (pod,) = [each["metadata"]["name"] for each in await cluster.list(Pod)]
        await cluster.delete(Pod, pod)
        await cluster.patch(Job, "j", {"spec": {"suspend": True}})
        await cluster.settle(1)
        assert "startTime" not in (await cluster.get(Job, "j"))["status"]
        ended = {"name": "c", "image": "i", "imageID": "", "state": {"terminated": {"exitCode": 42}}}
        body = {"status": {"phase": outcome, "containerStatuses": [ended] if outcome == "Failed" else []}}
        await cluster.patch(Pod, pod, body, subresource="status")
        await cluster.settle(1)
        assert (await cluster.get(Job, "j"))["status"]["conditions"][-1]["type"] == end

    play(story, JOBS)


@pytest.mark.parametrize("kept", [True, False])
def test_suspended_job_forgets_when_it_started_where_its_template_may_change(play, kept: bool) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.job("j"))
        await cluster.settle(1)
        await cluster.patch(Job, "j", {"spec": {"suspend": True}})
        await cluster.settle(1)
        assert ("startTime" in (await cluster.get(Job, "j"))["status"]) == kept

    play(story, JOBS, gates=f"MutableSchedulingDirectivesForSuspendedJobs={'false' if kept else 'true'}")


def test_job_that_was_resumed_says_so_even_when_it_ends_at_once(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.job("j", completions=1, backoffLimit=0))
        await cluster.settle(1)
        (pod,) = await cluster.list(Pod)
        await cluster.kill()
        await cluster.patch(Pod, pod["metadata"]["name"], {"status": {"phase": "Failed"}}, subresource="status")
        condition = {"type": "Suspended", "status": "True", "reason": "JobSuspended", "message": "Job suspended"}
        stamp = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
        await cluster.patch(Job, "j", {"status": {"conditions": [{**condition, **stamp}]}}, subresource="status")
        await cluster.start()
        await cluster.settle(1)
        status = (await cluster.get(Job, "j"))["status"]
        told = [(entry["type"], entry["status"]) for entry in status["conditions"]]
        assert told == [("Suspended", "False"), ("FailureTarget", "True"), ("Failed", "True")]

    play(story, JOBS)


def test_restarts_of_a_pod_that_is_being_deleted_count(play) -> None:
    async def story(cluster: Cluster) -> None:
        job = _graceful("j", backoffLimit=3)
        job["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
        await cluster.create(job)
        await cluster.settle(1)
        await _bind(cluster)
        for count in (2, 1):
            (pod,) = [each for each in await cluster.list(Pod) if not each["metadata"].get("deletionTimestamp")]
            entry = {"name": "c", "image": "i", "imageID": "", "restartCount": count, "ready": False}
            body = {"status": {"phase": "Running", "containerStatuses": [entry]}}
            await cluster.patch(Pod, pod["metadata"]["name"], body, subresource="status")
            if count == 2:
                await cluster.delete(Pod, pod["metadata"]["name"])
                await cluster.settle(12)
        await cluster.settle(1)
        conditions = (await cluster.get(Job, "j"))["status"].get("conditions") or ()
        assert ("FailureTarget", "BackoffLimitExceeded") in [(each["type"], each["reason"]) for each in conditions]

    play(story, JOBS)


def test_end_that_is_decided_stays_so_when_its_pods_are_deleted_and_the_status_cannot_be_written(play) -> None:
    """The pods it deletes would otherwise be failures: more than the limit."""

    async def story(cluster: Cluster) -> None:
        rules = {"rules": [{"succeededIndexes": "0"}]}
        spec = {"completions": 4, "parallelism": 4, "completionMode": "Indexed", "successPolicy": rules}
        await cluster.create(_graceful("j", backoffLimit=0, **spec))
        await cluster.settle(1)
        await _bind(cluster)
        await run_pods(cluster)
        await cluster.settle(1)
        refused = _refuse_status(cluster, times=1)
        await run_pods(cluster, lambda pod: "Succeeded" if pod["metadata"]["name"].startswith("j-0-") else "")
        await cluster.settle(5)
        await run_pods(cluster, lambda pod: "")
        await cluster.settle(2)
        status = (await cluster.get(Job, "j"))["status"]
        assert len(refused) == 1
        assert [entry["type"] for entry in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]
        assert "failed" not in status

    play(story, JOBS)


def test_pod_that_was_being_deleted_before_enough_succeeded_counts_as_failed(play) -> None:
    async def story(cluster: Cluster) -> None:
        rules = {"rules": [{"succeededIndexes": "0"}]}
        spec = {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "successPolicy": rules}
        await cluster.create(_graceful("j", **spec))
        await cluster.settle(1)
        await _bind(cluster)
        await run_pods(cluster)
        await cluster.kill()
        doomed = next(pod for pod in await cluster.list(Pod) if pod["metadata"]["name"].startswith("j-2-"))
        await cluster.delete(Pod, doomed["metadata"]["name"])
        for pod in await cluster.list(Pod):
            if pod["metadata"]["name"].startswith("j-0-"):
                body = {"status": {"phase": "Succeeded"}}
                await cluster.patch(Pod, pod["metadata"]["name"], body, subresource="status")
        await cluster.start()
        await cluster.settle(1)
        status = (await cluster.get(Job, "j"))["status"]
        assert (status["failed"], status["succeeded"]) == (1, 1)

    play(story, JOBS)


@pytest.mark.parametrize(
    ("containers", "sidecars", "at"),
    [
        pytest.param(["10:00:05", "10:00:07"], [], "10:00:07", id="last-container"),
        pytest.param(["10:00:05"], ["10:00:09"], "10:00:09", id="sidecar-ends-last"),
        pytest.param(["10:00:05"], [""], "09:00:00", id="sidecar-still-runs"),
        pytest.param([""], [], "09:00:00", id="container-still-runs"),
    ],
)
def test_when_a_pod_has_finished(containers: list[str], sidecars: list[str], at: str) -> None:
    def entry(name: str, time: str) -> dict:
        state = {"terminated": {"exitCode": 1, "finishedAt": f"2026-01-01T{time}Z"}} if time else {"running": {}}
        return {"name": name, "state": state}

    early = {"name": "setup", "state": {"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T11:00:00Z"}}}
    pod = {
        "metadata": {"name": "p", "creationTimestamp": "2026-01-01T09:00:00Z"},
        "spec": {"initContainers": [{"name": "side", "restartPolicy": "Always"}, {"name": "setup"}]},
        "status": {
            "containerStatuses": [entry("c", time) for time in containers],
            "initContainerStatuses": [*(entry("side", time) for time in sidecars), early],
        },
    }
    assert finished_at(pod) == datetime.fromisoformat(f"2026-01-01T{at}Z")
