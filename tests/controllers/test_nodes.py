from datetime import UTC, datetime, timedelta

import pytest
from lightkube.models.coordination_v1 import Lease
from lightkube.models.core_v1 import Event, Node, Pod

from drakit.api.errors import StatusError
from drakit.client import Plain
from drakit.controllers.node_taints import evicted_in
from drakit.controllers.nodes import wanted_taints
from tests.controllers import objects as make
from tests.controllers.cluster import Cluster
from tests.controllers.kubelet import run_pods

NODES, TAINTS = "node-lifecycle-controller", "taint-eviction-controller"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def renew(cluster: Cluster, name: str) -> None:
    moment = cluster.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    try:
        await cluster.patch(Lease, name, {"spec": {"renewTime": moment}}, namespace="kube-node-lease")
    except StatusError:
        await cluster.create(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": name, "namespace": "kube-node-lease"},
                "spec": {"renewTime": moment},
            }
        )


async def live(cluster: Cluster, seconds: int, *alive: str) -> None:
    for _ in range(seconds // 10):
        for name in alive:
            await renew(cluster, name)
        await cluster.settle(10)


async def taints(cluster: Cluster, name: str) -> set[tuple[str, str]]:
    return {
        (taint["key"].partition("/")[2], taint["effect"])
        for taint in (await cluster.get(Node, name))["spec"].get("taints") or ()
    }


def test_node_without_heartbeat_becomes_unknown_and_its_pods_leave(play) -> None:
    async def story(cluster: Cluster) -> None:
        for name in ("n1", "n2"):
            await cluster.create(make.node(name))
        tolerant = [
            {
                "key": "node.kubernetes.io/unreachable",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 60,
            }
        ]
        await cluster.create(make.pod("short", nodeName="n1", tolerations=[{**tolerant[0], "tolerationSeconds": 0}]))
        await cluster.create(make.pod("long", nodeName="n1", tolerations=tolerant))
        await cluster.create(make.pod("safe", nodeName="n2"))
        await run_pods(cluster)
        await live(cluster, 100, "n1", "n2")
        assert await taints(cluster, "n1") == set()
        await live(cluster, 70, "n2")
        ready = next(
            entry for entry in (await cluster.get(Node, "n1"))["status"]["conditions"] if entry["type"] == "Ready"
        )
        assert (ready["status"], ready["reason"], ready["message"]) == (
            "Unknown",
            "NodeStatusUnknown",
            "Kubelet stopped posting node status.",
        )
        assert await taints(cluster, "n1") == {("unreachable", "NoSchedule"), ("unreachable", "NoExecute")}
        await run_pods(cluster, lambda pod: "")
        await cluster.settle(1)
        left = {pod["metadata"]["name"]: pod for pod in await cluster.list(Pod)}
        assert set(left) == {"long", "safe"}
        assert (
            next(entry for entry in left["long"]["status"]["conditions"] if entry["type"] == "Ready")["status"]
            == "False"
        )
        assert "NodeNotReady" in {event["reason"] for event in await cluster.list(Event)}
        await live(cluster, 70, "n2")
        await run_pods(cluster, lambda pod: "")
        assert [pod["metadata"]["name"] for pod in await cluster.list(Pod)] == ["safe"]

    play(story, NODES, TAINTS)


def test_node_that_comes_back_loses_its_taints(play) -> None:
    async def story(cluster: Cluster) -> None:
        for name in ("n1", "n2"):
            await cluster.create(make.node(name))
        await live(cluster, 120, "n2")
        assert ("unreachable", "NoExecute") in await taints(cluster, "n1")
        stamp = cluster.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        await cluster.patch(
            Node,
            "n1",
            {"status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": stamp}]}},
            subresource="status",
        )
        await cluster.settle(1)
        assert await taints(cluster, "n1") == set()

    play(story, NODES)


def test_when_everything_is_down_nobody_is_driven_away(play) -> None:
    async def story(cluster: Cluster) -> None:
        for name in ("n1", "n2"):
            await cluster.create(make.node(name))
        await cluster.settle(200)
        assert ("unreachable", "NoExecute") not in await taints(cluster, "n1") | await taints(cluster, "n2")
        assert ("unreachable", "NoSchedule") in await taints(cluster, "n1")

    play(story, NODES)


def test_dead_nodes_are_emptied_one_by_one(play) -> None:
    async def story(cluster: Cluster) -> None:
        for name in ("n1", "n2", "n3", "n4"):
            await cluster.create(make.node(name))
        await live(cluster, 60, "n4")
        counts = []
        for _ in range(4):
            counts.append(
                sum([("unreachable", "NoExecute") in await taints(cluster, name) for name in ("n1", "n2", "n3")])
            )
            await live(cluster, 10, "n4")
        assert counts[0] < 3
        assert counts[-1] == 3

    play(story, NODES)


@pytest.mark.parametrize(
    ("conditions", "unschedulable", "wanted"),
    [
        pytest.param({"Ready": "True"}, False, [], id="ready"),
        pytest.param(
            {"Ready": "False"}, False, [("not-ready", "NoSchedule"), ("not-ready", "NoExecute")], id="not-ready"
        ),
        pytest.param(
            {"Ready": "Unknown"}, False, [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")], id="unreachable"
        ),
        pytest.param({}, False, [], id="new"),
        pytest.param(
            {"Ready": "True", "MemoryPressure": "True"}, False, [("memory-pressure", "NoSchedule")], id="pressure"
        ),
        pytest.param({"Ready": "True"}, True, [("unschedulable", "NoSchedule")], id="cordoned"),
    ],
)
def test_conditions_become_taints(
    conditions: dict[str, str], unschedulable: bool, wanted: list[tuple[str, str]]
) -> None:
    node: Plain = {
        "metadata": {"name": "n"},
        "spec": {"unschedulable": unschedulable},
        "status": {"conditions": [{"type": kind, "status": state} for kind, state in conditions.items()]},
    }
    assert wanted_taints(node) == [(f"node.kubernetes.io/{key}", effect) for key, effect in wanted]


@pytest.mark.parametrize(
    ("tolerations", "seconds"),
    [
        pytest.param([], 0, id="not-tolerated"),
        pytest.param([{"operator": "Exists"}], None, id="for-ever"),
        pytest.param(
            [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 100}], 60, id="for-a-while"
        ),
        pytest.param(
            [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10}], 0, id="over"
        ),
        pytest.param([{"key": "other", "operator": "Exists"}], 0, id="another-key"),
    ],
)
def test_how_long_a_pod_may_stay(tolerations: list[Plain], seconds: float | None) -> None:
    added = (NOW - timedelta(seconds=40)).strftime("%Y-%m-%dT%H:%M:%SZ")
    pod = {"metadata": {"name": "p"}, "spec": {"tolerations": tolerations}}
    assert evicted_in(pod, [{"key": "k", "effect": "NoExecute", "timeAdded": added}], NOW) == seconds


def test_of_the_tolerations_of_a_taint_the_first_counts() -> None:
    tolerations = [
        {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 100},
        {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10},
    ]
    pod = {"metadata": {"name": "p"}, "spec": {"tolerations": tolerations}}
    added = (NOW - timedelta(seconds=30)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert evicted_in(pod, [{"key": "k", "effect": "NoExecute", "timeAdded": added}], NOW) == 70


def test_a_taint_that_was_there_before_the_pod_counts_from_when_the_pod_came() -> None:
    tolerations = [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 100}]
    bound = (NOW - timedelta(seconds=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    pod = {"metadata": {"name": "p", "creationTimestamp": bound}, "spec": {"tolerations": tolerations}}
    added = (NOW - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert evicted_in(pod, [{"key": "k", "effect": "NoExecute", "timeAdded": added}], NOW) == 95


def test_a_taint_without_a_time_drives_tolerant_pods_away_after_their_seconds(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.node("n1"))
        tolerant = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
        await cluster.create(make.pod("some", nodeName="n1", tolerations=[tolerant]))
        await run_pods(cluster)
        await cluster.patch(Node, "n1", {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}})
        await cluster.settle(4)
        assert [pod["metadata"]["name"] for pod in await cluster.list(Pod)] == ["some"]
        await cluster.settle(2)
        assert not await cluster.list(Pod)

    play(story, TAINTS)


def test_pods_of_a_node_whose_kubelet_says_not_ready_keep_their_word(play) -> None:
    """Only when the controller itself finds the node silent does it speak for the pods."""

    async def story(cluster: Cluster) -> None:
        for name in ("n1", "n2"):
            await cluster.create(make.node(name))
        await cluster.create(make.pod("p", nodeName="n1"))
        await run_pods(cluster)
        stamp = cluster.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        entry = {"type": "Ready", "status": "False", "reason": "KubeletNotReady", "lastHeartbeatTime": stamp}
        await cluster.patch(Node, "n1", {"status": {"conditions": [entry]}}, subresource="status")
        await live(cluster, 20, "n1", "n2")
        assert ("not-ready", "NoExecute") in await taints(cluster, "n1")
        ready = next(
            entry for entry in (await cluster.get(Pod, "p"))["status"]["conditions"] if entry["type"] == "Ready"
        )
        assert ready["status"] == "True"
        assert "NodeNotReady" not in {event["reason"] for event in await cluster.list(Event)}

    play(story, NODES)


def test_nodes_are_announced_and_keep_the_order_of_their_conditions(play) -> None:
    async def story(cluster: Cluster) -> None:
        for name in ("n1", "n2"):
            await cluster.create(make.node(name))
        stamp = cluster.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        kinds = ("MemoryPressure", "Ready", "PIDPressure")
        entries = [{"type": kind, "status": "True", "lastHeartbeatTime": stamp} for kind in kinds]
        await cluster.patch(Node, "n1", {"status": {"conditions": entries}}, subresource="status")
        await live(cluster, 70, "n2")
        conditions = (await cluster.get(Node, "n1"))["status"]["conditions"]
        assert [(entry["type"], entry["status"]) for entry in conditions] == [
            ("MemoryPressure", "Unknown"),
            ("Ready", "Unknown"),
            ("PIDPressure", "Unknown"),
            ("DiskPressure", "Unknown"),
        ]
        await cluster.delete(Node, "n1")
        await cluster.settle(1)
        told = {(event["reason"], event["message"]) for event in await cluster.list(Event)}
        assert ("RegisteredNode", "Node n1 event: Registered Node n1 in Controller") in told
        assert ("NodeNotReady", "Node n1 status is now: NodeNotReady") in told
        assert ("RemovingNode", "Node n1 event: Removing Node n1 from Controller") in told

    play(story, NODES)


def test_another_tolerated_taint_does_not_move_the_date_but_one_that_is_not_does(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.node("n1"))
        tolerant = [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
            for key, seconds in (("a", 20), ("b", 4))
        ]
        await cluster.create(make.pod("both", nodeName="n1", tolerations=tolerant))
        await cluster.create(make.pod("one", nodeName="n1", tolerations=tolerant[:1]))
        await run_pods(cluster)
        first, second = ({"key": key, "effect": "NoExecute"} for key in ("a", "b"))
        await cluster.patch(Node, "n1", {"spec": {"taints": [first]}})
        await cluster.settle(5)
        await cluster.patch(Node, "n1", {"spec": {"taints": [first, second]}})
        await cluster.settle(10)
        assert [pod["metadata"]["name"] for pod in await cluster.list(Pod)] == ["both"]
        told = [(event["involvedObject"]["name"], event["message"]) for event in await cluster.list(Event)]
        assert sorted(told) == [
            ("one", "Cancelling deletion of Pod default/one"),
            ("one", "Marking for deletion Pod default/one"),
        ]
        await cluster.settle(6)
        assert not await cluster.list(Pod)

    play(story, TAINTS)
