"""Whose pods are whose: orphans that are taken in, pods that are let go."""

from __future__ import annotations

import pytest
from lightkube.models.apps_v1 import StatefulSet
from lightkube.models.core_v1 import Pod

from drakit.client import Plain
from tests.controllers import objects as make
from tests.controllers.cluster import Cluster
from tests.controllers.kubelet import add_node, names, run_until_quiet

REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS = "replicaset-controller", "statefulset-controller", "daemonset-controller"


async def _fail(cluster: Cluster, pod: str) -> None:
    await cluster.patch(Pod, pod, {"status": {"phase": "Failed"}}, subresource="status")


def _owner(pod: Plain) -> str:
    return next((owner["name"] for owner in pod["metadata"].get("ownerReferences") or ()), "")


def test_statefulset_made_anew_replaces_a_failed_pod_that_was_left_behind(play) -> None:
    """The pod has the name of an ordinal: nothing could be made in its place."""

    async def story(cluster: Cluster) -> None:
        await cluster.create(make.workload("StatefulSet", "s", replicas=1, serviceName="s"))
        await run_until_quiet(cluster)
        await cluster.delete(StatefulSet, "s", propagation="Orphan")
        await cluster.settle(5)
        await _fail(cluster, "s-0")
        left = (await cluster.get(Pod, "s-0"))["metadata"]["uid"]
        await cluster.create(make.workload("StatefulSet", "s", replicas=1, serviceName="s"))
        await run_until_quiet(cluster)
        pod = await cluster.get(Pod, "s-0")
        assert pod["metadata"]["uid"] != left
        assert (await cluster.get(StatefulSet, "s"))["status"]["readyReplicas"] == 1

    play(story, STATEFUL_SETS, "garbage-collector-controller")


def test_daemonset_takes_and_deletes_a_failed_pod_that_was_left_behind(play) -> None:
    async def story(cluster: Cluster) -> None:
        await add_node(cluster, "n")
        await cluster.create(make.pod("left", labels={"app": "d"}, nodeName="n"))
        await _fail(cluster, "left")
        await cluster.create(make.workload("DaemonSet", "d"))
        await run_until_quiet(cluster)
        assert len(await names(cluster)) == 1
        assert "left" not in await names(cluster)

    play(story, DAEMON_SETS)


def test_replicaset_leaves_finished_pods_whose_they_are(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.pod("left", labels={"app": "r"}))
        await _fail(cluster, "left")
        await cluster.create(make.workload("ReplicaSet", "r", replicas=2))
        await cluster.settle()
        assert _owner(await cluster.get(Pod, "left")) == ""
        (one, other) = [pod for pod in await names(cluster) if pod != "left"]
        await _fail(cluster, one)
        for pod in (one, other):
            await cluster.patch(Pod, pod, {"metadata": {"labels": {"app": "else"}}})
        await cluster.settle()
        assert [_owner(await cluster.get(Pod, pod)) for pod in (one, other)] == ["r", ""]

    play(story, REPLICA_SETS)


@pytest.mark.parametrize(
    ("pod", "taken"),
    [
        pytest.param("s-1", True, id="an-ordinal"),
        pytest.param("web-1", False, id="another-set"),
        pytest.param("s-x", False, id="no-number"),
        pytest.param("s", False, id="no-ordinal"),
        pytest.param("s-4294967296", True, id="beyond-all-ordinals"),
    ],
)
def test_statefulset_takes_only_pods_that_are_called_like_its_own(play, pod: str, taken: bool) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.pod(pod, labels={"app": "s"}))
        await cluster.create(make.workload("StatefulSet", "s", replicas=2, serviceName="s"))
        await run_until_quiet(cluster)
        assert _owner(await cluster.get(Pod, pod)) == ("s" if taken else "")
        assert (await cluster.get(StatefulSet, "s"))["status"]["replicas"] == 2

    play(story, STATEFUL_SETS)


def test_statefulset_lets_go_of_a_pod_that_is_not_called_like_its_own(play) -> None:
    async def story(cluster: Cluster) -> None:
        owner = await cluster.create(make.workload("StatefulSet", "s", replicas=0, serviceName="s"))
        metadata = owner["metadata"]
        stray = make.pod("stray", labels={"app": "s"})
        reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": metadata["uid"]}
        stray["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
        await cluster.create(stray)
        await cluster.settle()
        assert _owner(await cluster.get(Pod, "stray")) == ""

    play(story, STATEFUL_SETS)


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "DaemonSet"])
def test_two_workloads_that_select_the_same_pods_keep_their_own(play, kind: str) -> None:
    async def story(cluster: Cluster) -> None:
        await add_node(cluster, "n")
        size = {} if kind == "DaemonSet" else {"replicas": 2}
        for name in ("a", "b"):
            await cluster.create(make.workload(kind, name, app="same", **size))
        await run_until_quiet(cluster)
        pods = await cluster.list(Pod)
        for name in ("a", "b"):
            assert sum(_owner(pod) == name for pod in pods) == (1 if kind == "DaemonSet" else 2)
        moved = next(pod["metadata"]["name"] for pod in pods if _owner(pod) == "a")
        await cluster.patch(Pod, moved, {"metadata": {"labels": {"app": "else"}}})
        await run_until_quiet(cluster)
        await cluster.patch(Pod, moved, {"metadata": {"labels": {"app": "same"}}})
        await run_until_quiet(cluster)
        owners = [_owner(pod) for pod in await cluster.list(Pod)]
        size_of_each = 1 if kind == "DaemonSet" else 2
        assert {name: owners.count(name) for name in ("a", "b")} == {"a": size_of_each, "b": size_of_each}

    play(story, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS)
