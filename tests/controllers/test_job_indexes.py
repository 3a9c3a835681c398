"""Which index gets a pod when, and what a failed pod hands on to the next of its index."""

from __future__ import annotations

import pytest
from lightkube.models.batch_v1 import Job
from lightkube.models.core_v1 import Pod, ResourceQuota

from drakit.client import Plain
from drakit.controllers import jobs
from drakit.controllers.job_decisions import Counts, pending_indexes, wanted_active
from drakit.controllers.job_indexes import Indexes
from tests.controllers import objects as make
from tests.controllers.cluster import Cluster
from tests.controllers.kubelet import run_pods
from tests.controllers.test_job_pods import FINALIZER, JOBS, end, graceful, running

INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"


def index_of(pod: Plain) -> int:
    return int(pod["metadata"]["annotations"][INDEX])


def test_index_of_a_pod_that_is_still_ending_is_not_given_away_when_only_failed_pods_are_replaced(play) -> None:
    async def story(cluster: Cluster) -> None:
        spec = {"completions": 4, "parallelism": 3, "completionMode": "Indexed", "podReplacementPolicy": "Failed"}
        await cluster.create(graceful("j", **spec))
        await cluster.settle(1)
        pods = {index_of(pod): pod for pod in await running(cluster)}
        await cluster.settle(1)
        await cluster.delete(Pod, pods[0]["metadata"]["name"])
        await cluster.settle(1)
        await end(cluster, pods[1], "Succeeded")
        await cluster.settle(1)
        assert sorted(map(index_of, await cluster.list(Pod))) == [0, 1, 2, 3]
        await end(cluster, pods[0], "Failed", 1)
        await end(cluster, pods[2], "Succeeded")
        await cluster.settle(15)
        await run_pods(cluster, lambda pod: "Succeeded")
        await cluster.settle(2)
        assert (await cluster.get(Job, "j"))["status"]["completedIndexes"] == "0-3"

    play(story, JOBS)


def test_failures_that_do_not_count_lengthen_the_wait_of_their_index(play) -> None:
    async def story(cluster: Cluster) -> None:
        policy = {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [42]}}]}
        spec = {"completionMode": "Indexed", "backoffLimitPerIndex": 5, "podFailurePolicy": policy}
        await cluster.create(make.job("j", completions=1, **spec))
        seen, made = [], []
        for second in range(80):
            await cluster.settle(1)
            for pod in await cluster.list(Pod):
                if pod["status"]["phase"] == "Pending":
                    notes = pod["metadata"]["annotations"]
                    seen.append((notes[FAILURES], notes.get(IGNORED)))
                    made.append(second)
                    await end(cluster, pod, "Failed", 1 if len(seen) == 2 else 42)
        assert seen == [("0", None), ("0", "1"), ("1", "1"), ("1", "2")]
        assert [9 <= made[1] - made[0] <= 12, 19 <= made[2] - made[1] <= 22, 39 <= made[3] - made[2] <= 42] == [
            True
        ] * 3

    play(story, JOBS)


def test_failed_pod_is_counted_when_the_next_of_its_index_is_made_and_not_listed_before(play) -> None:
    async def story(cluster: Cluster) -> None:
        spec = {"completionMode": "Indexed", "backoffLimitPerIndex": 5}
        await cluster.create(make.job("j", completions=1, **spec))
        await cluster.settle(1)
        (pod,) = await cluster.list(Pod)
        await end(cluster, pod, "Failed", 1)
        await cluster.settle(5)
        status = (await cluster.get(Job, "j"))["status"]
        assert (status.get("failed"), status["uncountedTerminatedPods"], status.get("active")) == (None, {}, None)
        assert (await cluster.get(Pod, pod["metadata"]["name"]))["metadata"]["finalizers"] == [FINALIZER]
        await cluster.settle(10)
        status = (await cluster.get(Job, "j"))["status"]
        assert (status["failed"], status["uncountedTerminatedPods"], status["active"]) == (1, {}, 1)

    play(story, JOBS)


def test_pod_whose_index_has_succeeded_takes_no_place_from_others() -> None:
    """One of two pods that an index had by mistake still runs; that another index failed for good makes no difference."""
    job = make.job("j", completions=4, parallelism=3, completionMode="Indexed", backoffLimitPerIndex=0)
    counts = Counts(
        active=1, succeeded=1, failed=1, succeeded_indexes=Indexes.parse("3", 4), failed_indexes=Indexes.parse("0", 4)
    )
    assert wanted_active(job, counts) - counts.active == 2
    assert pending_indexes(job, counts, lambda index: index == 3, 2) == [1, 2]


def test_failed_pod_of_an_index_that_is_no_longer_wanted_loses_its_finalizer(play) -> None:
    async def story(cluster: Cluster) -> None:
        spec = {"completionMode": "Indexed", "backoffLimitPerIndex": 5}
        await cluster.create(make.job("j", completions=3, parallelism=3, **spec))
        await cluster.settle(1)
        last = next(pod for pod in await cluster.list(Pod) if index_of(pod) == 2)
        await end(cluster, last, "Failed", 1)
        await cluster.settle(1)
        assert (await cluster.get(Pod, last["metadata"]["name"]))["metadata"]["finalizers"] == [FINALIZER]
        await cluster.patch(Job, "j", {"spec": {"completions": 2, "parallelism": 2}})
        await cluster.settle(1)
        assert not (await cluster.get(Pod, last["metadata"]["name"]))["metadata"].get("finalizers")

    play(story, JOBS)


def test_deletion_costs_do_not_say_which_pods_of_a_job_go(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.job("j", completions=2, parallelism=2))
        await cluster.settle(1)
        first = (await cluster.list(Pod))[0]["metadata"]["name"]
        await running(cluster)
        cost = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-9"}}}
        await cluster.patch(Pod, first, cost)
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"}
        await cluster.patch(Pod, first, {"status": {"conditions": [ready]}}, subresource="status")
        await cluster.settle(1)
        await cluster.patch(Job, "j", {"spec": {"parallelism": 1}})
        await cluster.settle(1)
        left = [
            pod["metadata"]["name"] for pod in await cluster.list(Pod) if not pod["metadata"].get("deletionTimestamp")
        ]
        assert left == [first]

    play(story, JOBS)


def test_many_indexes_that_wait_do_not_keep_the_controller_busy(play, monkeypatch) -> None:
    monkeypatch.setattr(jobs, "_BURST", 2)

    async def story(cluster: Cluster) -> None:
        spec = {"completionMode": "Indexed", "backoffLimitPerIndex": 1}
        await cluster.create(make.job("j", completions=5, parallelism=5, **spec))
        await cluster.settle(1)
        for pod in await cluster.list(Pod):
            await end(cluster, pod, "Failed", 1)
        before = cluster.controllers[0].loop.reconciles
        await cluster.settle(8)
        assert cluster.controllers[0].loop.reconciles - before < 30
        await cluster.settle(5)
        assert len(await cluster.list(Pod)) == 10

    play(story, JOBS)


def test_pods_that_a_quota_refuses_do_not_keep_the_controller_busy(play, monkeypatch) -> None:
    monkeypatch.setattr(jobs, "_BURST", 2)

    async def story(cluster: Cluster) -> None:
        body = {"spec": {"hard": {"pods": "1"}}, "status": {"hard": {"pods": "1"}, "used": {"pods": "1"}}}
        await cluster.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, **body})
        await cluster.patch(ResourceQuota, "q", {"status": body["status"]}, subresource="status")
        await cluster.create(make.job("j", completions=5, parallelism=5))
        await cluster.settle(60)
        assert cluster.controllers[0].loop.reconciles < 20  # after 1, 2, 4 seconds and so on

    play(story, JOBS)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"ownerReferences": None, "labels": {"batch.kubernetes.io/controller-uid": "other"}}, id="no-longer-the-jobs"),
        pytest.param({"labels": {"batch.kubernetes.io/controller-uid": "other"}}, id="no-longer-selected"),
        pytest.param({"annotations": {INDEX: "7"}}, id="another-index"),
    ],
)  # fmt: skip
def test_index_whose_pod_is_taken_away_gets_another(play, change: Plain) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.job("j", completions=3, parallelism=3, completionMode="Indexed"))
        await cluster.settle(1)
        first = next(pod for pod in await cluster.list(Pod) if index_of(pod) == 0)
        await cluster.patch(Pod, first["metadata"]["name"], {"metadata": change})
        await cluster.settle(1)
        await run_pods(cluster, lambda pod: "Succeeded")
        await cluster.settle(1)
        assert (await cluster.get(Job, "j"))["status"]["completedIndexes"] == "0-2"

    play(story, JOBS)


def test_looking_for_the_next_index_leaps_over_results() -> None:
    asked: list[int] = []
    job = make.job("j", completions=100_000, completionMode="Indexed")
    counts = Counts(1, 0, 0, Indexes.parse("0-49999,50002-89999"), Indexes.parse("50001,90000"))

    def taken(index: int) -> bool:
        asked.append(index)
        return index == 50000

    assert pending_indexes(job, counts, taken, 2) == [90001, 90002]
    assert asked == [50000, 90001, 90002]
