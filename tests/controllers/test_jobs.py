import pytest
from lightkube.models.batch_v1 import Job
from lightkube.models.core_v1 import Event, Pod

from drakit.controllers.job_indexes import Indexes
from tests.controllers import objects as make
from tests.controllers.cluster import Cluster
from tests.controllers.kubelet import run_pods

JOBS = "job-controller"


async def conditions(cluster: Cluster, name: str) -> dict[str, str]:
    return {
        entry["type"]: entry.get("reason", "")
        for entry in (await cluster.get(Job, name))["status"].get("conditions") or ()
        if entry["status"] == "True"
    }


async def run(cluster: Cluster, outcome=lambda pod: "Succeeded", rounds: int = 40, seconds: float = 1.0) -> None:
    for _ in range(rounds):
        await cluster.settle(seconds)
        await run_pods(cluster, outcome)
    await cluster.settle(1)


def index_of(pod) -> int:
    return int(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"])


def test_job_completes_with_the_wanted_parallelism(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.job("j", completions=5, parallelism=2))
        most = 0
        for _ in range(6):
            await cluster.settle(1)
            active = [pod for pod in await cluster.list(Pod) if pod["status"]["phase"] == "Pending"]
            most = max(most, len(active))
            await run_pods(cluster, lambda pod: "Succeeded")
        await cluster.settle(1)
        job = await cluster.get(Job, "j")
        assert most == 2
        assert (job["status"]["succeeded"], job["status"]["uncountedTerminatedPods"]) == (5, {})
        assert job["status"]["completionTime"]
        assert await conditions(cluster, "j") == {
            "SuccessCriteriaMet": "CompletionsReached",
            "Complete": "CompletionsReached",
        }
        assert not any(pod["metadata"].get("finalizers") for pod in await cluster.list(Pod))
        assert {"SuccessfulCreate", "Completed"} <= {event["reason"] for event in await cluster.list(Event)}

    play(story, JOBS)


def test_work_queue_job_is_complete_when_one_pod_succeeded_and_none_is_left(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.job("j", parallelism=3))
        await run(cluster, rounds=4)
        assert "Complete" in await conditions(cluster, "j")
        assert (await cluster.get(Job, "j"))["status"]["succeeded"] == 3

    play(story, JOBS)


def test_failures_back_off_and_then_end_the_job(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.job("j", completions=1, backoffLimit=2))
        made = []
        for second in range(60):
            await cluster.settle(1)
            if len(await cluster.list(Pod)) > len(made):
                made.append(second)
            for pod in await cluster.list(Pod):
                if pod["status"]["phase"] == "Pending":
                    ended = {
                        "terminated": {"exitCode": 1, "finishedAt": cluster.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")}
                    }
                    statuses = [
                        {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": ended}
                    ]
                    await cluster.patch(
                        Pod,
                        pod["metadata"]["name"],
                        {"status": {"phase": "Failed", "containerStatuses": statuses}},
                        subresource="status",
                    )
        assert len(made) == 3
        assert 9 <= made[1] - made[0] <= 12
        assert 19 <= made[2] - made[1] <= 22
        assert await conditions(cluster, "j") == {
            "FailureTarget": "BackoffLimitExceeded",
            "Failed": "BackoffLimitExceeded",
        }
        assert (await cluster.get(Job, "j"))["status"]["failed"] == 3

    play(story, JOBS)


def test_indexed_job_gives_each_index_a_pod(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.job("j", completions=5, parallelism=5, completionMode="Indexed"))
        await cluster.settle()
        pods = sorted(await cluster.list(Pod), key=index_of)
        assert [index_of(pod) for pod in pods] == [0, 1, 2, 3, 4]
        assert pods[3]["spec"]["hostname"] == "j-3"
        assert pods[3]["metadata"]["generateName"] == "j-3-"
        assert pods[3]["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"
        await run_pods(cluster, lambda pod: "Succeeded" if index_of(pod) in (0, 1, 3) else "")
        await cluster.settle(1)
        assert (await cluster.get(Job, "j"))["status"]["completedIndexes"] == "0,1,3"
        await run_pods(cluster, lambda pod: "Succeeded")
        await cluster.settle(1)
        assert (await cluster.get(Job, "j"))["status"]["completedIndexes"] == "0-4"
        assert "Complete" in await conditions(cluster, "j")

    play(story, JOBS)


def test_suspended_job_has_no_pods_and_no_failures(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.job("j", completions=2, parallelism=2))
        await cluster.settle(1)
        await cluster.patch(Job, "j", {"spec": {"suspend": True}})
        await cluster.settle(1)
        assert await cluster.list(Pod) == []
        status = (await cluster.get(Job, "j"))["status"]
        assert "startTime" not in status
        assert not status.get("failed")
        assert await conditions(cluster, "j") == {"Suspended": "JobSuspended"}
        await cluster.patch(Job, "j", {"spec": {"suspend": False}})
        await run(cluster, rounds=3)
        assert "Complete" in await conditions(cluster, "j")
        assert {"Suspended", "Resumed"} <= {event["reason"] for event in await cluster.list(Event)}

    play(story, JOBS)


def test_deadline_ends_the_job_and_its_pods(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.job("j", activeDeadlineSeconds=10))
        await cluster.settle(5)
        assert len(await cluster.list(Pod)) == 1
        await cluster.settle(10)
        assert await conditions(cluster, "j") == {"FailureTarget": "DeadlineExceeded", "Failed": "DeadlineExceeded"}
        assert await cluster.list(Pod) == []

    play(story, JOBS)


def fail_with(code: int):
    return {
        "phase": "Failed",
        "containerStatuses": [
            {
                "name": "c",
                "image": "i",
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": {"terminated": {"exitCode": code}},
            }
        ],
    }


@pytest.mark.parametrize(
    ("action", "failed", "reason"),
    [
        pytest.param("FailJob", 1, "PodFailurePolicy", id="fail-job"),
        pytest.param("Ignore", 0, "", id="ignore"),
        pytest.param("Count", 1, "", id="count"),
    ],
)
def test_pod_failure_policy(play, action: str, failed: int, reason: str) -> None:
    async def story(cluster: Cluster) -> None:
        policy = {"rules": [{"action": action, "onExitCodes": {"operator": "In", "values": [42]}}]}
        await cluster.create(make.job("j", podFailurePolicy=policy))
        await cluster.settle(1)
        (pod,) = await cluster.list(Pod)
        await cluster.patch(Pod, pod["metadata"]["name"], {"status": fail_with(42)}, subresource="status")
        await cluster.settle(2)
        job = await cluster.get(Job, "j")
        assert job["status"].get("failed", 0) == failed
        assert (await conditions(cluster, "j")).get("Failed", "") == reason
        if reason:
            message = next(entry["message"] for entry in job["status"]["conditions"] if entry["type"] == "Failed")
            assert (
                message
                == f"Container c for pod default/{pod['metadata']['name']} failed with exit code 42 matching FailJob rule at index 0"
            )

    play(story, JOBS)


def test_failures_per_index_end_only_that_index(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(
            make.job("j", completions=3, parallelism=3, completionMode="Indexed", backoffLimitPerIndex=1)
        )
        await run(cluster, lambda pod: "Failed" if index_of(pod) == 1 else "Succeeded", rounds=40)
        status = (await cluster.get(Job, "j"))["status"]
        assert (status["completedIndexes"], status["failedIndexes"], status["failed"]) == ("0,2", "1", 2)
        assert (await conditions(cluster, "j"))["Failed"] == "FailedIndexes"

    play(story, JOBS)


def test_success_policy_ends_the_job_early(play) -> None:
    async def story(cluster: Cluster) -> None:
        policy = {"rules": [{"succeededIndexes": "0", "succeededCount": 1}]}
        await cluster.create(
            make.job("j", completions=3, parallelism=3, completionMode="Indexed", successPolicy=policy)
        )
        await cluster.settle(1)
        await run_pods(cluster, lambda pod: "Succeeded" if index_of(pod) == 0 else "")
        await cluster.settle(2)
        assert await conditions(cluster, "j") == {"SuccessCriteriaMet": "SuccessPolicy", "Complete": "SuccessPolicy"}

    play(story, JOBS)


def test_pods_of_a_deleted_job_lose_their_finalizer(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.job("j", parallelism=2, completions=2))
        await cluster.settle(1)
        await cluster.delete(Job, "j", propagation="Orphan")
        await cluster.patch(Job, "j", {"metadata": {"finalizers": None}})
        await cluster.settle(1)
        assert not any(pod["metadata"].get("finalizers") for pod in await cluster.list(Pod))

    play(story, JOBS)


def test_job_managed_by_another_controller_is_left_alone(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.job("j", managedBy="example.com/other"))
        await cluster.settle(1)
        assert await cluster.list(Pod) == []

    play(story, JOBS)


@pytest.mark.parametrize("text", ["", "0", "0,1", "0-2", "1,3-5,7,8,10-12"])
def test_indexes_are_written_as_they_are_read(text: str) -> None:
    assert str(Indexes.parse(text)) == text


def test_indexes_as_a_set() -> None:
    indexes = Indexes.parse("0-3,7", 6)
    assert str(indexes) == "0-3"
    grown = indexes.union([5, 4, 9])
    assert (str(grown), len(grown)) == ("0-5,9", 7)
    assert (9 in grown, 6 in grown, 0 in grown) == (True, False, True)
    assert Indexes.parse("1-5,8").overlap(Indexes.parse("3-9")) == 4
    assert list(Indexes.parse("1,3-4")) == [1, 3, 4]
