"""StatefulSets: the roster against a simple count, what pods are called, when an update is complete."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime, timedelta

import pytest
from lightkube.models.apps_v1 import ControllerRevision, StatefulSet
from lightkube.models.core_v1 import Event, Pod

from drakit.api.gates import FeatureGates
from drakit.client import Plain
from drakit.controllers.statefulset_decisions import POD_NAME_LABEL, Roster, decide, next_status
from tests.controllers import objects as make
from tests.controllers.cluster import Cluster
from tests.controllers.kubelet import run_pods

STATEFUL_SETS = "statefulset-controller"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _set(rng: random.Random) -> Plain:
    body = make.workload("StatefulSet", "s", replicas=rng.randrange(6), minReadySeconds=rng.choice((0, 10)))
    body["metadata"]["generation"] = 1
    body["spec"]["podManagementPolicy"] = rng.choice(("OrderedReady", "Parallel"))
    body["spec"]["ordinals"] = {"start": rng.choice((0, 0, 2))}
    rolling = {"partition": rng.choice((0, 0, 1, 2)), "maxUnavailable": rng.choice((1, 1, 2))}
    kind = rng.choice(("RollingUpdate", "OnDelete", "Recreate"))
    body["spec"]["updateStrategy"] = {"type": kind, "rollingUpdate": rolling}
    return body


def _pod(rng: random.Random, ordinal: int) -> Plain:
    since = (NOW - timedelta(seconds=rng.choice((5, 60)))).strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {"type": "Ready", "status": rng.choice(("True", "True", "False")), "lastTransitionTime": since}
    labels = {"app": rng.choice(("s", "s", "s", "s", "other")), "controller-revision-hash": rng.choice(("old", "new"))}
    metadata: Plain = {"name": f"s-{ordinal}", "namespace": "default", "labels": labels}
    if rng.random() < 0.2:
        metadata["deletionTimestamp"] = since
    phase = rng.choice(("Running", "Running", "Running", "Pending", "Failed"))
    return {"kind": "Pod", "metadata": metadata, "spec": {}, "status": {"phase": phase, "conditions": [ready]}}


@pytest.mark.parametrize("seed", range(200))
def test_roster_kept_up_to_date_is_as_one_made_anew(seed: int) -> None:
    """However pods and sizes change, what is decided is what a fresh look at all pods decides."""
    rng = random.Random(seed)
    owner = _set(rng)
    pods: dict[int, Plain] = {}
    roster, now = Roster(owner, ()), NOW
    for _ in range(40):
        ordinal = rng.randrange(7)
        if ordinal in pods and rng.random() < 0.3:
            roster.remove(pods.pop(ordinal))
        else:
            pods[ordinal] = _pod(rng, ordinal)
            roster.put(pods[ordinal])
        if rng.random() < 0.2:
            owner = {**owner, "spec": {**owner["spec"], "replicas": rng.randrange(6)}}
        if rng.random() < 0.1:
            owner = {**owner, "spec": {**owner["spec"], "ordinals": {"start": rng.randrange(3)}}}
        fresh = Roster(owner, pods.values())
        now += timedelta(seconds=rng.choice((0, 0, 3)))
        assert decide(owner, roster, "old", "new", now) == decide(owner, fresh, "old", "new", now)
        assert next_status(owner, roster, "old", "new", now) == next_status(owner, fresh, "old", "new", now)
        assert (roster.strangers, roster.revisions) == (fresh.strangers, fresh.revisions)


@pytest.mark.parametrize(
    ("limit", "at_once"),
    [
        pytest.param(3, 3, id="a-number"),
        pytest.param("30%", 3, id="a-part"),
        pytest.param("39%", 3, id="rounded-down"),
        pytest.param("1%", 1, id="at-least-one"),
        pytest.param(None, 1, id="one-if-not-said"),
    ],
)
@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
def test_how_many_pods_are_updated_at_once(policy: str, limit: int | str | None, at_once: int) -> None:
    owner = make.workload("StatefulSet", "s", replicas=10, podManagementPolicy=policy)
    owner["spec"]["updateStrategy"] = {"rollingUpdate": {"maxUnavailable": limit} if limit else {}}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"}
    pods = [
        {
            "metadata": {
                "name": f"s-{ordinal}",
                "labels": {"app": "s", "controller-revision-hash": "old", POD_NAME_LABEL: f"s-{ordinal}"},
            },
            "status": {"phase": "Running", "conditions": [ready]},
        }
        for ordinal in range(10)
    ]
    step = decide(owner, Roster(owner, pods), "old", "new", NOW)
    assert [(action.verb, action.ordinal) for each in step.rounds for action in each] == [
        ("delete", 9 - number) for number in range(at_once)
    ]


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
def test_recreate_ends_all_old_pods_at_once_and_waits_for_the_last(policy: str) -> None:
    """Those that are no longer wanted too, and whatever state they are in."""
    owner = make.workload("StatefulSet", "s", replicas=3, podManagementPolicy=policy)
    owner["spec"] |= {"updateStrategy": {"type": "Recreate"}, "ordinals": {"start": 1}}

    def pods(*states: tuple[int, str, str]) -> list[Plain]:
        return [
            {
                "metadata": {
                    "name": f"s-{ordinal}",
                    "labels": {"app": "s", "controller-revision-hash": revision, POD_NAME_LABEL: f"s-{ordinal}"},
                    **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if phase == "ending" else {}),
                },
                "status": {"phase": phase},
            }
            for ordinal, revision, phase in states
        ]

    def decided(*states: tuple[int, str, str]) -> tuple[list[list[tuple[str, int]]], str]:
        step = decide(owner, Roster(owner, pods(*states)), "old", "new", NOW)
        return [[(action.verb, action.ordinal) for action in each] for each in step.rounds], step.progress

    doomed, waits = "Deleting old revision pods", "Waiting for new-revision pods to be created"
    assert decided((1, "old", "Pending"), (2, "old", "ending"), (3, "new", "Running"), (5, "old", "Running")) == (
        [[("delete", 1)], [("delete", 5)]],
        doomed,
    )
    assert decided((0, "old", "ending")) == ([], doomed)
    first = [[("create", 1)]] if policy == "OrderedReady" else [[("create", 1)], [("create", 2), ("create", 3)]]
    assert decided() == (first, waits)


def test_recreate_tells_how_far_it_is(play) -> None:
    async def story(cluster: Cluster) -> None:
        recreate = {"updateStrategy": {"type": "Recreate"}, "podManagementPolicy": "Parallel"}
        await cluster.create(make.workload("StatefulSet", "s", replicas=2, **recreate))
        await _run(cluster)
        assert "conditions" not in (await cluster.get(StatefulSet, "s"))["status"]  # there was nothing to make anew
        before = {pod["metadata"]["uid"] for pod in await cluster.list(Pod)}
        told = []
        await cluster.patch(Pod, "s-0", {"metadata": {"finalizers": ["example.com/stay"]}})
        await cluster.patch(StatefulSet, "s", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
        await cluster.settle(1)
        told.append(await _progress(cluster))
        assert [pod["metadata"]["name"] for pod in await cluster.list(Pod)] == ["s-0"]
        await cluster.patch(Pod, "s-0", {"metadata": {"finalizers": None}})
        await cluster.settle(5)
        told.append(await _progress(cluster))
        await _run(cluster)
        told.append(await _progress(cluster))
        assert told == [
            ("True", "RecreateInProgress", "Deleting old revision pods"),
            ("True", "RecreateInProgress", "Waiting for new-revision pods to be created"),
            ("False", "RecreateCompleted", "All pods recreated successfully"),
        ]
        status = (await cluster.get(StatefulSet, "s"))["status"]
        assert (status["currentRevision"], status["currentReplicas"]) == (status["updateRevision"], 2)
        assert not before & {pod["metadata"]["uid"] for pod in await cluster.list(Pod)}

    play(story, STATEFUL_SETS, gates="StatefulSetRecreateStrategy=true")


async def _progress(cluster: Cluster) -> tuple[str, str, str]:
    (condition,) = (await cluster.get(StatefulSet, "s"))["status"]["conditions"]
    assert condition["type"] == "Progressing"
    return condition["status"], condition["reason"], condition["message"]


def test_recreate_whose_gate_is_off_by_now_is_refused() -> None:
    async def story() -> None:
        with_gate = FeatureGates.parse("StatefulSetRecreateStrategy=true")
        async with Cluster([STATEFUL_SETS], gates=with_gate) as cluster:
            await cluster.kill()
            cluster.gates = FeatureGates.default()
            await cluster.start()
            await cluster.create(make.workload("StatefulSet", "s", updateStrategy={"type": "Recreate"}))
            await cluster.settle(1)
            assert not await cluster.list(Pod)
            (event,) = await cluster.list(Event)
            text = (
                "statefulset default/s uses Recreate strategy but feature gate StatefulSetRecreateStrategy is disabled"
            )
            assert (event["type"], event["reason"], event["message"]) == ("Warning", "UnknownStrategy", text)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("sick", "chosen"),
    [
        pytest.param((), [3], id="the-last"),
        pytest.param((1,), [3], id="one-below-is-not-waited-for"),
        pytest.param((3,), [3], id="though-it-is-sick-itself"),
        pytest.param((4,), [], id="one-above-is-still-to-come"),
    ],
)
def test_without_its_gate_pods_are_updated_one_by_one_whatever_their_number(
    sick: tuple[int, ...], chosen: list[int]
) -> None:
    """As before `maxUnavailable`; 4 has the new revision, 0 is below the partition."""
    owner = make.workload("StatefulSet", "s", replicas=5, podManagementPolicy="Parallel")
    owner["spec"]["updateStrategy"] = {"rollingUpdate": {"maxUnavailable": 3, "partition": 1}}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"}
    pods = [
        {
            "metadata": {
                "name": f"s-{ordinal}",
                "labels": {
                    "app": "s",
                    "controller-revision-hash": "new" if ordinal == 4 else "old",
                    POD_NAME_LABEL: f"s-{ordinal}",
                },
            },
            "status": {"phase": "Running", "conditions": [] if ordinal in sick else [ready]},
        }
        for ordinal in range(5)
    ]
    gates = FeatureGates.parse("MaxUnavailableStatefulSet=false")
    step = decide(owner, Roster(owner, pods), "old", "new", NOW, gates)
    assert [(action.verb, action.ordinal) for each in step.rounds for action in each] == [
        ("delete", ordinal) for ordinal in chosen
    ]


def test_statefulset_without_order_does_things_in_rounds_of_growing_size() -> None:
    """Places where there is nothing to do count, as in Kubernetes: a name that is taken keeps what comes after from being done."""
    owner = make.workload("StatefulSet", "s", replicas=1600, podManagementPolicy="Parallel")
    there = [
        {"metadata": {"name": "s-1", "labels": {"app": "s"}}},
        {"metadata": {"name": "s-4", "labels": {"app": "s"}}},
    ]
    there[1]["status"] = {"phase": "Failed"}
    rounds = decide(owner, Roster(owner, there), "r", "r", NOW, room=1600).rounds
    assert [len(each) for each in rounds] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 500, 500, 89]
    assert [(action.verb, action.ordinal) for action in rounds[1]] == [("name", 1), ("create", 2)]
    assert [(action.verb, action.ordinal) for action in rounds[2][:2]] == [("create", 3), ("delete", 4)]


def test_name_that_is_taken_stops_what_comes_after(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.workload("StatefulSet", "s", replicas=2, podManagementPolicy="Parallel"))
        await _run(cluster)
        await cluster.patch(Pod, "s-0", {"metadata": {"labels": {"app": "else"}}})
        await _run(cluster)
        failed = await cluster.patch(Pod, "s-1", {"status": {"phase": "Failed"}}, subresource="status")
        await _run(cluster)
        assert (await cluster.get(Pod, "s-1"))["metadata"]["uid"] == failed["metadata"]["uid"]
        await cluster.delete(Pod, "s-0", grace_seconds=0)
        await cluster.settle(60)
        await _run(cluster)
        assert (await cluster.get(StatefulSet, "s"))["status"]["readyReplicas"] == 2

    play(story, STATEFUL_SETS)


@pytest.mark.parametrize(("limit", "kept"), [pytest.param(1, 2, id="limited"), pytest.param(-1, 4, id="negative")])
def test_how_many_revisions_are_kept(play, limit: int, kept: int) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.workload("StatefulSet", "s", replicas=1, revisionHistoryLimit=limit))
        for number in range(3):
            await _run(cluster)
            await cluster.patch(StatefulSet, "s", {"spec": {"template": {"metadata": {"labels": {"v": str(number)}}}}})
        await _run(cluster)
        assert len(await cluster.list(ControllerRevision)) == kept

    play(story, STATEFUL_SETS)


def test_update_by_hand_is_complete_when_all_pods_are_new(play) -> None:
    async def story(cluster: Cluster) -> None:
        strategy = {"type": "OnDelete"}
        await cluster.create(make.workload("StatefulSet", "s", replicas=2, serviceName="s", updateStrategy=strategy))
        await _run(cluster)
        first = (await cluster.get(StatefulSet, "s"))["status"]["currentRevision"]
        await cluster.patch(StatefulSet, "s", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
        await _run(cluster)
        status = (await cluster.get(StatefulSet, "s"))["status"]
        assert status["currentRevision"] == first != status["updateRevision"]
        for name in ("s-0", "s-1"):
            await cluster.delete(Pod, name, grace_seconds=0)
        await _run(cluster)
        status = (await cluster.get(StatefulSet, "s"))["status"]
        assert status["currentRevision"] == status["updateRevision"] != first
        assert (status["currentReplicas"], status["updatedReplicas"]) == (2, 2)

    play(story, STATEFUL_SETS)


def test_adopted_pod_gets_the_labels_of_its_ordinal(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.pod("s-0", labels={"app": "s"}))
        await cluster.create(make.workload("StatefulSet", "s", replicas=2, serviceName="s"))
        await _run(cluster)
        labels = (await cluster.get(Pod, "s-0"))["metadata"]["labels"]
        assert labels["statefulset.kubernetes.io/pod-name"] == "s-0"
        assert labels["apps.kubernetes.io/pod-index"] == "0"
        told = [(event["reason"], event["message"]) for event in await cluster.list(Event)]
        assert ("SuccessfulUpdate", "Update Pod s-0 in StatefulSet s successful") in told
        assert (await cluster.get(Pod, "s-1"))["metadata"]["generateName"] == "s-"

    play(story, STATEFUL_SETS)


def test_a_parallel_set_is_updated_while_pods_that_it_no_longer_wants_still_end(play) -> None:
    """Their end may take as long as their node is away."""

    async def story(cluster: Cluster) -> None:
        await cluster.create(make.workload("StatefulSet", "s", replicas=2, podManagementPolicy="Parallel"))
        await _run(cluster)
        await cluster.patch(Pod, "s-1", {"metadata": {"finalizers": ["example.com/stay"]}})
        wanted = {"replicas": 1, "template": {"metadata": {"labels": {"v": "2"}}}}
        await cluster.patch(StatefulSet, "s", {"spec": wanted})
        await _run(cluster)
        labels = {pod["metadata"]["name"]: pod["metadata"]["labels"].get("v") for pod in await cluster.list(Pod)}
        assert labels == {"s-0": "2", "s-1": None}

    play(story, STATEFUL_SETS)


async def _run(cluster: Cluster) -> None:
    for _ in range(8):
        await cluster.settle(1)
        await run_pods(cluster)
    await cluster.settle(1)


def test_a_name_that_only_counts_like_an_ordinals_takes_no_ordinal() -> None:
    body = make.workload("StatefulSet", "web", replicas=2)

    def pod(name: str) -> Plain:
        metadata = {"name": name, "namespace": "default", "labels": {"app": "web"}}
        return {"kind": "Pod", "metadata": metadata, "spec": {}, "status": {"phase": "Running"}}

    roster = Roster(body, [pod("web-0"), pod("web-1")])
    roster.put(pod("web-01"))
    roster.remove(pod("web-01"))
    assert {ordinal: each["metadata"]["name"] for ordinal, each in roster.pods.items()} == {0: "web-0", 1: "web-1"}
