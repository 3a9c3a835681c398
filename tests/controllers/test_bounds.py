"""What must not make a controller spin, or look at everything: annotations anybody may write, refusals, deadlines, strangers."""

from __future__ import annotations

import asyncio
import itertools
from datetime import UTC, datetime
from typing import Any

import pytest
from lightkube.models.apps_v1 import DaemonSet, ReplicaSet, StatefulSet
from lightkube.models.batch_v1 import Job
from lightkube.models.core_v1 import Pod

from drakit.api.errors import StatusError
from drakit.client import Plain, Request
from drakit.controllers import daemonsets, job_decisions, jobs, pace, replicasets
from drakit.controllers.objects import format_time
from drakit.controllers.pods import COMPLETION_INDEX
from drakit.controllers.statefulset_decisions import Roster, decide, next_status
from tests.controllers import objects as make
from tests.controllers.between import Between
from tests.controllers.cluster import Cluster
from tests.controllers.kubelet import READY, add_node, run_until_quiet
from tests.effort import bounded

_TURNS = 400  # of the event loop: a controller that backs off acts a few times in them


async def _reconciles(cluster: Cluster) -> int:
    loop = cluster.controllers[0].loop
    before = loop.reconciles
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    return loop.reconciles - before


@pytest.mark.parametrize("text", ["²", "9" * 5000, "-1", "1.5", ""])
def test_an_index_that_is_no_number_is_none(text: str) -> None:
    assert job_decisions.completion_index({"metadata": {"annotations": {COMPLETION_INDEX: text}}}) is None


def test_one_that_follows_a_cache_and_fails_does_not_keep_changes_from_the_others(play: Any) -> None:
    async def story(cluster: Cluster) -> None:
        assert cluster.context is not None
        pods, heard = cluster.context.informers.plain(Pod), []

        def fails(_: Plain) -> None:
            raise ValueError("a bug")

        pods.add_handler(fails)
        pods.add_handler(lambda pod: heard.append(pod["metadata"]["name"]))
        await cluster.create(make.pod("a"))
        await cluster.create(make.pod("b"))
        await cluster.settle()
        assert heard == ["a", "b"]

    play(story, "replicaset-controller")


def test_a_job_past_its_deadline_waits_for_its_pods_without_work(play: Any) -> None:
    async def story(cluster: Cluster) -> None:
        body = make.job("j", activeDeadlineSeconds=10)
        body["spec"]["template"]["spec"]["nodeName"] = "lost"  # its pods end when a kubelet says so
        await cluster.create(body)
        await cluster.settle(2)
        await cluster.clock.advance(9)
        assert await _reconciles(cluster) < 10

    play(story, "job-controller")


async def _refuse_pods(request: Request) -> None:
    if request.plural == "pods" and request.method in ("POST", "DELETE"):
        raise StatusError(403, "Forbidden", "no")


def test_refused_pods_of_more_than_one_burst_are_not_asked_for_without_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemonsets, "_BURST", 2)

    async def story() -> None:
        async with Cluster(["daemonset-controller"], wrap=lambda inner: Between(inner, _refuse_pods)) as cluster:
            for number in range(6):
                await add_node(cluster, f"node-{number}")
            await cluster.create(make.workload("DaemonSet", "ds"))
            assert 0 < await _reconciles(cluster) < 20

    asyncio.run(story())


def test_refused_deletions_of_more_than_one_burst_are_not_asked_for_without_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replicasets, "_BURST", 2)
    refused = False

    async def refuse(request: Request) -> None:
        if refused:
            await _refuse_pods(request)

    async def story() -> None:
        nonlocal refused
        async with Cluster(["replicaset-controller"], wrap=lambda inner: Between(inner, refuse)) as cluster:
            await cluster.create(make.workload("ReplicaSet", "rs", replicas=6))
            await cluster.settle(1)
            assert len(await cluster.list(Pod)) == 6
            refused = True
            await cluster.patch(ReplicaSet, "rs", {"spec": {"replicas": 0}})
            assert 0 < await _reconciles(cluster) < 20
            refused = False
            await cluster.settle(30)
            assert await cluster.list(Pod) == []

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "DaemonSet"])
def test_a_stranger_with_the_labels_does_not_make_every_event_look_at_all_pods(play: Any, kind: str) -> None:
    async def story(cluster: Cluster) -> None:
        for number in range(12):
            await add_node(cluster, f"node-{number}")
        size = {} if kind == "DaemonSet" else {"replicas": 12}
        extra = {"podManagementPolicy": "Parallel", "serviceName": "w"} if kind == "StatefulSet" else {}
        await cluster.create(make.workload(kind, "w", **size, **extra))
        await run_until_quiet(cluster)
        stranger = make.pod("debug", labels={"app": "w"})
        if (
            kind != "StatefulSet"
        ):  # which takes only what is called like its own; these take all, unless it is on its way out
            stranger["metadata"]["finalizers"] = ["example.com/hold"]
        await cluster.create(stranger)
        if kind != "StatefulSet":
            await cluster.delete(Pod, "debug", grace_seconds=0)
        await cluster.settle(1)
        scans: list[str] = []
        pods = cluster.controllers[0]._pods  # type: ignore[attr-defined]
        original = pods.by_index
        pods.by_index = lambda index, value: scans.append(value) or original(index, value)
        one = next(pod["metadata"]["name"] for pod in await cluster.list(Pod) if pod["metadata"]["name"] != "debug")
        await cluster.patch(Pod, one, {"status": {"message": "hello"}}, subresource="status")
        unready = {"conditions": [{"type": "Ready", "status": "False"}]}
        await cluster.patch(Pod, one, {"status": unready}, subresource="status")
        await cluster.settle(0.5)
        assert {value for value in scans if not value.startswith("orphan:")} == set()

    play(story, f"{kind.lower()}-controller")


_HUGE = 2**31 - 1
_UNENDING = {
    "ReplicaSet": make.workload("ReplicaSet", "w", replicas=_HUGE),
    "StatefulSet": make.workload("StatefulSet", "w", replicas=_HUGE, podManagementPolicy="Parallel"),
    "Job": make.job("w", completions=_HUGE, parallelism=_HUGE),
    "Job of indexes": make.job("w", completions=100_000, parallelism=100_000, completionMode="Indexed"),
}


@pytest.mark.parametrize("what", _UNENDING)
def test_a_workload_without_end_makes_pods_slowly_while_many_wait_for_a_node(
    play: Any, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As fast as Kubernetes' controller manager would; at once again when there is room on nodes."""
    monkeypatch.setattr(pace, "_LIMIT", 30)
    monkeypatch.setattr(pace, "_LUMP", 10)

    async def made(cluster: Cluster, seconds: float = 0) -> int:
        with bounded():
            await cluster.settle(seconds)
        return len(await cluster.list(Pod))

    async def story(cluster: Cluster) -> None:
        body = _UNENDING[what]
        await cluster.create({**body, "metadata": dict(body["metadata"])})
        first = await made(cluster)
        assert 30 <= first <= 30 + 20
        assert await made(cluster, 5) - first in range(80, 121)
        for pod in (await cluster.client.list(Pod)).items:
            await cluster.client.bind(pod, "node-1")
        before = len(await cluster.list(Pod))
        assert await made(cluster) - before in range(30, 51)
        neighbour = make.workload("ReplicaSet", "n", replicas=3)
        await cluster.create({**neighbour, "metadata": {"name": "n", "namespace": "kube-system"}})
        await cluster.settle()
        assert len(await cluster.list(Pod, namespace="kube-system")) == 3

    play(story, "replicaset-controller", "statefulset-controller", "job-controller")


def test_a_statefulset_of_all_ordinals_there_are_decides_at_once() -> None:
    owner = make.workload("StatefulSet", "s", replicas=_HUGE, ordinals={"start": 7})
    there = [{"metadata": {"name": f"s-{ordinal}", "labels": {"app": "s"}}} for ordinal in (*range(7, 300), 400, _HUGE)]
    now = datetime(2026, 1, 1, tzinfo=UTC)
    with bounded():
        for policy in ("Parallel", "OrderedReady"):
            owner["spec"]["podManagementPolicy"] = policy
            roster = Roster(owner, there)
            step = decide(owner, roster, "r", "r", now, room=200)
            made = [action.ordinal for each in step.rounds for action in each if action.verb == "create"]
            assert made == ([*range(300, 400), *range(401, 501)] if policy == "Parallel" else [])
            next_status(owner, roster, "r", "r", now)


@pytest.mark.parametrize("model", [ReplicaSet, StatefulSet, DaemonSet])
def test_pods_become_available_in_time_although_others_are_refused(model: type[Any]) -> None:
    """A refusal is tried again after longer and longer waits; minReadySeconds is over in the middle of one."""

    kind = model.__name__

    async def story() -> None:
        count = itertools.count()

        async def refuse(request: Request) -> None:
            if request.plural == "pods" and request.method == "POST" and next(count) >= 2:
                raise StatusError(403, "Forbidden", "no")

        async with Cluster([f"{kind.lower()}-controller"], wrap=lambda inner: Between(inner, refuse)) as cluster:
            for number in range(3):
                await add_node(cluster, f"n{number}")
            more = {} if kind == "DaemonSet" else {"replicas": 3}
            more |= {"podManagementPolicy": "Parallel"} if kind == "StatefulSet" else {}
            await cluster.create(make.workload(kind, "w", minReadySeconds=50, **more))
            await cluster.settle(1)
            ready = {**READY, "lastTransitionTime": format_time(cluster.clock.now())}
            for pod in await cluster.list(Pod):
                body = {"status": {"phase": "Running", "conditions": [ready]}}
                await cluster.patch(Pod, pod["metadata"]["name"], body, subresource="status")
            await cluster.settle(53)
            status = (await cluster.list(model))[0]["status"]
            assert status.get("availableReplicas", status.get("numberAvailable")) == 2

    asyncio.run(story())


def test_a_job_whose_pods_are_refused_ends_in_time() -> None:
    async def story() -> None:
        async with Cluster(["job-controller"], wrap=lambda inner: Between(inner, _refuse_pods)) as cluster:
            await cluster.create(make.job("j", activeDeadlineSeconds=100))
            await cluster.settle(102)
            assert (await cluster.get(Job, "j"))["status"]["conditions"][-1]["type"] == "Failed"

    asyncio.run(story())


def test_a_job_of_which_many_pods_wait_for_their_successors_gathers_events(
    play: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look is at all of those that wait."""
    monkeypatch.setattr(jobs, "_MANY", 3)

    async def fail(cluster: Cluster, pods: list[Plain]) -> int:
        before = cluster.controllers[0].loop.reconciles
        for pod in pods:
            body = {"status": {"phase": "Failed"}}
            await cluster.patch(Pod, pod["metadata"]["name"], body, subresource="status")
            for _ in range(20):
                await asyncio.sleep(0)
        return cluster.controllers[0].loop.reconciles - before

    async def story(cluster: Cluster) -> None:
        spec = {"completions": 14, "parallelism": 14, "completionMode": "Indexed", "backoffLimitPerIndex": 1}
        await cluster.create(make.job("j", **spec))
        await cluster.settle(1)
        pods = await cluster.list(Pod)
        assert await fail(cluster, pods[:4]) >= 4
        assert await fail(cluster, pods[4:]) <= 2
        await cluster.settle(12)
        assert (await cluster.get(Job, "j"))["status"]["active"] == 14
        assert (
            await fail(cluster, [pod for pod in await cluster.list(Pod) if pod["status"]["phase"] == "Pending"][:3])
            >= 3
        )

    play(story, "job-controller")
