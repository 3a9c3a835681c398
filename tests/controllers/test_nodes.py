import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from lightkube.models.coordination_v1 import Lease
from lightkube.models.core_v1 import Event, Node, Pod

from drakit.api.errors import StatusError
from drakit.client import Plain
from drakit.client.transport import Request, WatchItem, WatchStream
from drakit.controllers.node_taints import evicted_in
from drakit.controllers.node_zones import Zones, zone_of
from drakit.controllers.nodes import wanted_taints
from tests.controllers import objects as make
from tests.controllers.between import Between, nothing
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


EVICTING = ("unreachable", "NoExecute")


async def emptied(cluster: Cluster) -> int:
    """Nodes that pods are driven away from."""
    return sum([EVICTING in await taints(cluster, node["metadata"]["name"]) for node in await cluster.list(Node)])


def test_dead_nodes_are_emptied_one_by_one(play) -> None:
    async def story(cluster: Cluster) -> None:
        for name in ("n1", "n2", "n3", "n4", "n5", "n6"):
            await cluster.create(make.node(name))
        alive = ("n4", "n5", "n6")
        await live(cluster, 60, *alive)
        counts = []
        for _ in range(4):
            counts.append(await emptied(cluster))
            await live(cluster, 10, *alive)
        assert counts == [1, 2, 3, 3]

    play(story, NODES)


def test_while_most_nodes_of_a_small_zone_are_down_nobody_is_driven_away_there(play) -> None:
    async def story(cluster: Cluster) -> None:
        for number in range(4):
            await cluster.create(make.node(f"a{number}", labels={"topology.kubernetes.io/zone": "a"}))
            await cluster.create(make.node(f"b{number}", labels={"topology.kubernetes.io/zone": "b"}))
        alive = ("a0", "b0", "b1", "b2")
        await live(cluster, 100, *alive)
        assert await taints(cluster, "a1") == {("unreachable", "NoSchedule")}
        assert await emptied(cluster) == 1
        assert EVICTING in await taints(cluster, "b3")
        await live(cluster, 60, *alive, "a1")
        await cluster.patch(Node, "a1", {"status": {"conditions": [READY_NOW]}}, subresource="status")
        await live(cluster, 60, *alive, "a1")
        assert await emptied(cluster) == 3  # two of four are down: not most

    play(story, NODES)


READY_NOW = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-02-02T00:00:00Z"}


@pytest.mark.parametrize(
    ("up", "down", "per_second", "all_down"),
    [
        pytest.param(10, 0, 0.1, False, id="all-up"),
        pytest.param(7, 3, 0.1, False, id="some-down"),
        pytest.param(1, 2, 0.1, False, id="two-are-not-many"),
        pytest.param(1, 3, 0.0, False, id="most-of-a-small-zone"),
        pytest.param(5, 6, 0.1, False, id="less-than-55-percent"),
        pytest.param(4, 5, 0.0, False, id="more-than-55-percent"),
        pytest.param(22, 28, 0.0, False, id="fifty-are-small"),
        pytest.param(22, 29, 0.01, False, id="most-of-a-large-zone"),
        pytest.param(0, 3, 0.1, True, id="all-down"),
    ],
)
def test_how_fast_nodes_may_be_emptied(up: int, down: int, per_second: float, all_down: bool) -> None:
    zones = Zones()
    for number in range(up + down):
        zones.put(f"n{number}", make.node(f"n{number}"), up=number < up)
    assert (zones.per_second(""), zones.all_down) == (per_second, all_down)
    for number in range(up + down):
        zones.put(f"n{number}", make.node(f"n{number}", labels={"node.kubernetes.io/exclude-disruption": ""}), up=False)
    assert (zones.per_second(""), zones.all_down) == (0.1, False)


@pytest.mark.parametrize(
    ("labels", "zone"),
    [
        pytest.param({}, "", id="none"),
        pytest.param({"topology.kubernetes.io/zone": "z"}, ":\0:z", id="zone"),
        pytest.param({"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"}, "r:\0:z", id="both"),
        pytest.param(
            {"topology.kubernetes.io/zone": "z", "failure-domain.beta.kubernetes.io/zone": "y"},
            ":\0:y",
            id="beta-first",
        ),
    ],
)
def test_a_zone_is_one_of_its_region(labels: dict[str, str], zone: str) -> None:
    assert zone_of(make.node("n", labels=labels)) == zone


def test_a_node_that_falls_silent_after_it_was_not_ready_does_not_let_its_pods_come_back(play) -> None:
    async def story(cluster: Cluster) -> None:
        for name in ("n1", "n2", "n3", "n4"):
            await cluster.create(make.node(name, ready="False" if name in ("n1", "n2") else "True"))
        await live(cluster, 20, "n1", "n2", "n3", "n4")
        expected = {("not-ready", "NoExecute"), ("not-ready", "NoSchedule")}
        assert await taints(cluster, "n1") == await taints(cluster, "n2") == expected
        seen = set()
        for _ in range(70):
            await cluster.settle(1)
            for name in ("n3", "n4"):
                await renew(cluster, name)
            for name in ("n1", "n2"):
                seen.add(frozenset(key for key, effect in await taints(cluster, name) if effect == "NoExecute"))
        assert seen == {frozenset({"not-ready"}), frozenset({"unreachable"})}  # one or the other, at every moment

    play(story, NODES)


def test_taints_and_labels_that_are_not_ours_stay(play) -> None:
    async def story(cluster: Cluster) -> None:
        node = make.node("n", labels={"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64"})
        node["metadata"]["labels"]["beta.kubernetes.io/arch"] = "amd64"
        theirs = [
            {"key": "node.kubernetes.io/unschedulable", "effect": "NoExecute"},
            {"key": "node.kubernetes.io/memory-pressure", "effect": "PreferNoSchedule"},
            {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"},
        ]
        node["spec"] = {"taints": [*theirs, {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}]}
        await cluster.create(node)
        await cluster.settle(1)
        found = await cluster.get(Node, "n")
        assert found["spec"]["taints"] == theirs
        assert found["metadata"]["labels"] == {
            "kubernetes.io/os": "linux",
            "beta.kubernetes.io/os": "linux",
            "kubernetes.io/arch": "arm64",
            "beta.kubernetes.io/arch": "arm64",
        }

    play(story, NODES)


def test_conditions_of_others_are_no_heartbeat(play) -> None:
    async def story(cluster: Cluster) -> None:
        for name in ("n1", "n2"):
            await cluster.create(make.node(name))
        for number in range(12):
            stamp = cluster.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
            condition = {"type": "KernelDeadlock", "status": "False", "reason": str(number), "lastHeartbeatTime": stamp}
            kept = [
                each
                for each in (await cluster.get(Node, "n1"))["status"]["conditions"]
                if each["type"] != "KernelDeadlock"
            ]
            await cluster.patch(Node, "n1", {"status": {"conditions": [*kept, condition]}}, subresource="status")
            await live(cluster, 10, "n2")
        ready = next(
            each for each in (await cluster.get(Node, "n1"))["status"]["conditions"] if each["type"] == "Ready"
        )
        assert ready["status"] == "Unknown"

    play(story, NODES)


def test_a_cache_that_is_behind_does_not_make_nodes_unknown() -> None:
    class Deaf(Between):
        """Events of leases do not come through."""

        def watch(self, request: Request) -> WatchStream:
            stream = super().watch(request)
            return silence() if request.plural == "leases" else stream

    async def silence() -> AsyncIterator[WatchItem]:
        await asyncio.Event().wait()
        yield "", {}

    async def story() -> None:
        async with Cluster([NODES], wrap=lambda inner: Deaf(inner, nothing)) as cluster:
            for name in ("n1", "n2"):
                await cluster.create(make.node(name))
            await live(cluster, 200, "n1")
            states = {
                node["metadata"]["name"]: node["status"]["conditions"][0]["status"] for node in await cluster.list(Node)
            }
            assert states == {"n1": "True", "n2": "Unknown"}

    asyncio.run(story())


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


UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}


async def waiting_pod(cluster: Cluster) -> None:
    """It may stay on its tainted node for 30 s."""
    await cluster.create(make.node("n"))
    await cluster.create(make.pod("p", nodeName="n", tolerations=[{**UNREACHABLE, "tolerationSeconds": 30}]))
    await cluster.patch(Node, "n", {"spec": {"taints": [UNREACHABLE]}})
    await cluster.settle(10)


async def told(cluster: Cluster) -> list[str]:
    return [event["message"] for event in await cluster.list(Event) if event["reason"] == "TaintManagerEviction"]


def test_a_pod_leaves_on_its_date_though_its_node_is_gone(play) -> None:
    async def story(cluster: Cluster) -> None:
        await waiting_pod(cluster)
        await cluster.delete(Node, "n")
        await cluster.settle(15)
        assert len(await cluster.list(Pod)) == 1
        await cluster.settle(10)
        assert await cluster.list(Pod) == []
        assert await told(cluster) == ["Marking for deletion Pod default/p"]

    play(story, TAINTS)


def test_a_pod_stays_when_its_node_is_made_anew_without_the_taint(play) -> None:
    async def story(cluster: Cluster) -> None:
        await waiting_pod(cluster)
        await cluster.delete(Node, "n")
        await cluster.settle(1)
        await cluster.create(make.node("n"))
        await cluster.settle(60)
        assert len(await cluster.list(Pod)) == 1
        assert await told(cluster) == ["Cancelling deletion of Pod default/p"]

    play(story, TAINTS)


def test_a_pod_that_somebody_else_deletes_is_not_waited_for(play) -> None:
    async def story(cluster: Cluster) -> None:
        await waiting_pod(cluster)
        await cluster.delete(Pod, "p", grace_seconds=0)
        await cluster.settle(60)
        assert await told(cluster) == ["Cancelling deletion of Pod default/p"]

    play(story, TAINTS)


def test_a_taint_from_the_future_lets_nobody_stay_for_longer() -> None:
    taint = {**UNREACHABLE, "timeAdded": "2026-01-01T05:00:00Z"}
    pod = make.pod("p", tolerations=[{**UNREACHABLE, "tolerationSeconds": 30}])
    assert evicted_in(pod, [taint], NOW) == 30.0


def test_a_taint_that_comes_and_goes_evicts_only_who_does_not_tolerate_it_for_long_enough(play) -> None:
    async def story(cluster: Cluster) -> None:
        await waiting_pod(cluster)
        for _ in range(6):
            await cluster.patch(Node, "n", {"spec": {"taints": None}})
            await cluster.settle(1)
            await cluster.patch(Node, "n", {"spec": {"taints": [UNREACHABLE]}})
            await cluster.settle(25)
        assert len(await cluster.list(Pod)) == 1
        await cluster.settle(6)
        assert await cluster.list(Pod) == []

    play(story, TAINTS)
