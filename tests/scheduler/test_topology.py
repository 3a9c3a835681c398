"""Groups with topology constraints: all pods of a group land in one domain, the one that Kubernetes would choose.

Most cases are those of Kubernetes' own tests (test/integration/scheduler/podgroup/topology_aware_scheduling); each node has two CPUs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import pytest
from lightkube.models.scheduling_v1alpha3 import CompositePodGroup

from drakit.api.gates import FeatureGates
from drakit.api.typed import from_plain
from drakit.client import Client, Informers
from drakit.client.transport import Request, Response
from drakit.clock import VirtualClock
from drakit.scheduler import Scheduler
from drakit.scheduler.decide import Placement, diagnose
from drakit.scheduler.decide import _search as search
from drakit.scheduler.outcome import Diagnosis
from drakit.scheduler.placements import Placements
from drakit.scheduler.queue import Waiting
from drakit.scheduler.tree import Part, Result
from tests.scheduler import builders

TOPOLOGY = FeatureGates.parse("GenericWorkload=true,TopologyAwareWorkloadScheduling=true")
NESTED = FeatureGates.parse("GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true")


class World:
    """A scheduler that does not run: what it would decide for a group."""

    def __init__(self, made: Scheduler) -> None:
        self.made, self.tracker = made, made._cycle.tracker

    def node(self, name: str, cpu: str = "2", **labels: str) -> None:
        """Named after its rack and zone, `r1z1-a`, unless labels say otherwise."""
        if not labels:
            place, _, _ = name.partition("-")
            labels = {"rack": place[:2], "zone": place[2:]}
        self.tracker._node_set(builders.node(name, labels=labels, cpu=cpu, pods="110"))

    def pod(self, name: str, group: str = "", node: str = "", cpu: str = "1", **spec: Any) -> None:
        if group:
            spec["schedulingGroup"] = {"podGroupName": group}
        if node:
            spec["nodeName"] = node
        self.tracker._pod_set(None, builders.pod(name, requests={"cpu": cpu}, **spec))

    def group(self, name: str, count: int = 0, key: str = "", parent: str = "", **spec: Any) -> None:
        policy: dict[str, Any] = {"gang": {"minCount": count}} if count else {"basic": {}}
        self.tracker._group_set(builders.pod_group(name, schedulingPolicy=policy, **_above(key, parent), **spec))

    def composite(self, name: str, count: int = 0, key: str = "", parent: str = "", **spec: Any) -> None:
        policy: dict[str, Any] = {"gang": {"minGroupCount": count}} if count else {"basic": {}}
        made = {"schedulingPolicy": policy, "workloadRef": {}, "priority": 0, **_above(key, parent), **spec}
        meta = {"name": name, "namespace": "ns", "uid": f"composite-{name}"}
        self.tracker._group_set(from_plain(CompositePodGroup, {"metadata": meta, "spec": made}))

    def gpus(self, node: str, devices: int) -> None:
        self.tracker._class_set(builders.device_class())
        self.tracker._slice_set(builders.slice_(node, devices))

    def claimant(self, name: str, group: str, count: int = 1) -> None:
        """A pod of the group with a claim of its own."""
        self.tracker._claim_set(None, builders.claim(name, count=count))
        self.pod(name, group, claims={"d": name})

    def part(self, group: str) -> Part:
        root = self.made.state.hierarchy.root((False, f"ns/{group}"))
        assert root is not None
        gang = [w for uid in self.tracker.groups.of_tree(root) if (w := self.made.queue.take(uid)) is not None]
        return self.made._gangs._part(root, gang)

    def place(self, group: str) -> Result:
        """With what it gives assumed, nothing else."""
        placements = Placements(self.made._cycle)
        result = placements.place(self.part(group))
        assert placements.assumed.keys() == {waiting.info.uid for waiting, _ in result.assumed()}
        return result


def _above(key: str, parent: str) -> dict[str, Any]:
    made: dict[str, Any] = {"schedulingConstraints": {"topology": [{"key": key}]}} if key else {}
    return made | ({"parentCompositePodGroupName": parent} if parent else {})


def nodes(result: Result) -> dict[str, str]:
    return {waiting.info.name: placement.node for waiting, placement in result.assumed()}


def racks(result: Result) -> set[str]:
    return {node.partition("-")[0] for node in nodes(result).values()}


class NoServer:
    """Decisions neither read from a server nor write to one."""

    async def request(self, request: Request) -> Response:
        raise AssertionError(request)

    def watch(self, request: Request) -> NoReturn:
        raise AssertionError(request)

    async def close(self) -> None: ...


def decided(test: Callable[[World], None], gates: FeatureGates = TOPOLOGY) -> None:
    client = Client(NoServer())
    test(World(Scheduler(client, Informers(client), clock=VirtualClock(), gates=gates)))


def test_pods_of_a_group_that_fail_alike_are_looked_at_once() -> None:
    def test(world: World) -> None:
        world.node("r1z1-a")
        world.group("g")
        for index in range(20):
            world.pod(f"p{index}", "g", cpu="3")
        result = world.place("g")
        assert len(result.left) == 20
        assert len([attempt for _, _, attempt in result.left if attempt is not None]) == 1
        told = {outcome.message() for _, outcome, _ in result.left if isinstance(outcome, Diagnosis)}
        assert told == {"0/1 nodes are available: 1 Insufficient cpu."}

    decided(test, FeatureGates.parse("GenericWorkload=true"))


@pytest.mark.parametrize(
    ("there", "taken", "count", "cpus", "rack"),
    [
        pytest.param("r1z1 r1z1 r1z1 r2z1 r2z1 r3z2", {"r2z1-3": "2"}, 3, "1 1 1", "r1z1", id="only-feasible-one"),
        pytest.param("r1z1 r1z1 r2z1 r3z2", {}, 3, "2 2 2", "", id="none-is-large-enough"),
        pytest.param("r1z1 r1z1 r1z1", {"r1z1-0": "2", "r1z1-2": "2"}, 3, "1 1 1", "", id="room-taken"),
        pytest.param("r1z1 r1z1 r2z2 r2z2 r2z2 r3z2", {}, 3, "1 1 1", "r1z1", id="fullest"),
        pytest.param(
            "r1z1 r1z1 r2z2 r2z2 r2z2 r3z2 r3z2 r3z2 r4z2",
            {"r2z2-2": "2", "r3z2-7": "1"}, 3, "1 1 1", "r2z2", id="fullest-with-what-is-there",
        ),
        pytest.param("r1z1 r1z1 r2z1 r2z1", {}, 2, "1 1 1", "r1z1", id="more-pods-than-needed"),
        pytest.param("r1z1 r2z1 r2z1", {}, 2, "1 1 1", "r2z1", id="most-pods-before-fullest"),
        pytest.param("r1z1 r1z1", {}, 0, "1 1 1", "r1z1", id="basic-on-the-only-rack"),
        pytest.param("r1z1 r2z1", {"r2z1-1": "1"}, 0, "1 1 1", "r1z1", id="basic-where-most-fit"),
        pytest.param("r1z1 r2z1", {}, 0, "3 3", "", id="basic-none-fits"),
        pytest.param("r1z1 r2z1", {"r1z1-0": "1"}, 0, "3 1", "r1z1", id="basic-those-that-fit"),
    ],
)  # fmt: skip
def test_a_group_lands_in_one_rack(there: str, taken: dict[str, str], count: int, cpus: str, rack: str) -> None:
    def test(world: World) -> None:
        for index, place in enumerate(there.split()):
            world.node(f"{place}-{index}")
        for node, cpu in taken.items():
            world.pod(f"on-{node}", node=node, cpu=cpu)
        world.group("g", count, key="rack")
        for index, cpu in enumerate(cpus.split()):
            world.pod(f"p{index}", "g", cpu=cpu)
        result = world.place("g")
        assert racks(result) == ({rack} if rack else set())
        assert result.ok is bool(rack)

    decided(test)


@pytest.mark.parametrize(
    ("free", "count", "rack"),
    [
        pytest.param({"r1z1": 2, "r2z1": 3}, 1, "r2z1", id="only-one-has-enough"),
        pytest.param({"r1z1": 3, "r2z1": 7}, 2, "r2z1", id="two-each"),
        pytest.param({"r1z1": 2, "r2z1": 2}, 1, "", id="enough-together-is-not-enough"),
    ],
)
def test_a_group_lands_where_its_devices_are(free: dict[str, int], count: int, rack: str) -> None:
    def test(world: World) -> None:
        for name, devices in free.items():
            world.node(f"{name}-a", cpu="8")
            world.gpus(f"{name}-a", devices)
        world.group("g", 3, key="rack")
        for index in range(3):
            world.claimant(f"p{index}", "g", count)
        assert racks(world.place("g")) == ({rack} if rack else set())

    decided(test)


def test_a_claim_that_is_allocated_leaves_only_its_domain() -> None:
    def test(world: World) -> None:
        for name in ("r1z1-a", "r2z1-a", "r2z1-b"):
            world.node(name)
            world.gpus(name, 2)
        world.pod("full", node="r1z1-a", cpu="1")  # the fuller rack would be the other one
        world.group("g", 2, key="rack")
        results = [{"request": "r", "driver": builders.DRIVER, "pool": "r2z1-b", "device": "gpu-0"}]
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["r2z1-b"]}]}]
        allocation = {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": terms}}
        world.tracker._claim_set(None, builders.claim("shared", status={"allocation": allocation}))
        for index in range(2):
            world.pod(f"p{index}", "g", claims={"d": "shared"})
        assert set(nodes(world.place("g")).values()) == {"r2z1-b"}

    decided(test)


def counted(world: World, monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """Nodes on which decisions are made, one by one."""
    asked: list[int | None] = []
    decide = world.made._cycle.decide

    def count(waiting: Waiting, within: int | None = None, **more: Any) -> Any:
        asked.append(within)
        return decide(waiting, within, **more)

    monkeypatch.setattr(world.made._cycle, "decide", count)
    return asked


@pytest.mark.parametrize("scarce", ["cpu", "slots", "devices"])
def test_a_domain_that_is_too_small_is_not_tried(scarce: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def test(world: World) -> None:
        tried = counted(world, monkeypatch)
        for rack in range(20):
            size = 8 if rack == 13 else 3
            offered = {"cpu": str(size)} if scarce == "cpu" else {"cpu": "64"}
            if scarce == "slots":
                offered["pods"] = str(size)
            made = builders.node(f"n{rack}", labels={"rack": str(rack)}, **offered)
            world.tracker._node_set(made)
            if scarce == "devices":
                world.gpus(f"n{rack}", size)
        world.group("g", 4, key="rack")
        for index in range(4):
            if scarce == "devices":
                world.claimant(f"p{index}", "g")
            else:
                world.pod(f"p{index}", "g")
        assert set(nodes(world.place("g")).values()) == {"n13"}
        assert len(tried) == 4

    decided(test)


def test_where_every_domain_is_too_small_only_one_is_asked_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def test(world: World) -> None:
        asked = counted(world, monkeypatch)
        for rack in range(20):
            world.node(f"n{rack}", rack=str(rack))
        world.group("g", 3, key="rack")
        for index in range(3):
            world.pod(f"p{index}", "g")
        message = world.place("g").message()
        assert message.startswith("pod group is unschedulable, 0/20 placements are available, ")
        assert len(set(asked)) == 1

    decided(test)


def test_pods_that_are_alike_are_refused_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reasons are sought once for those that are left over, and only on the nodes that are chosen."""
    searched = []
    monkeypatch.setattr("drakit.scheduler.decide._search", lambda a: (searched.append(a.within), search(a))[1])
    monkeypatch.setattr("drakit.scheduler.decide.diagnose", lambda a: (told.append(a.within), diagnose(a))[1])
    told: list[int | None] = []

    def test(world: World) -> None:
        for rack in range(10):
            world.node(f"n{rack}", rack=str(rack))
        world.group("g", 0, key="rack")
        for index in range(50):
            world.pod(f"p{index}", "g")
        result = world.place("g")
        assert len(nodes(result)) == 2
        assert {waiting.info.name for waiting, _, _ in result.left} == {f"p{index}" for index in range(2, 50)}
        assert len({outcome.message() for _, outcome, _ in result.left if not isinstance(outcome, str)}) == 1
        assert len(searched) == (10 + 1) * (2 + 1)  # each domain, and once more the best
        assert told == [result.within]

    decided(test)


def test_of_many_domains_that_would_do_one_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    def test(world: World) -> None:
        asked = counted(world, monkeypatch)
        for rack in range(50):
            world.node(f"n{rack}", cpu="64", rack=str(rack))
        world.pod("there", node="n31")
        world.group("g", 4, key="rack")
        for index in range(4):
            world.pod(f"p{index}", "g")
        assert set(nodes(world.place("g")).values()) == {"n31"}
        assert len(asked) == 4

    decided(test)


@pytest.mark.parametrize("extended", [False, True], ids=["shared-claim", "extended-resource"])
def test_room_is_not_denied_where_pods_need_less_than_it_seems(extended: bool) -> None:
    """One device serves all who share its claim; a resource that a node does not offer may come as devices. The other rack is emptier."""

    def test(world: World) -> None:
        world.node("r1z1-a", cpu="4")
        world.gpus("r1z1-a", 3 if extended else 1)
        world.tracker._node_set(builders.node("n", labels={"rack": "r2"}, cpu="16", example_com__gpu="3"))
        world.gpus("n", 3)
        world.tracker._class_set(builders.device_class(resource="example.com/gpu"))
        world.tracker._claim_set(None, builders.claim("shared"))
        world.group("g", 3, key="rack")
        for index in range(3):
            if extended:
                container = {"name": "c", "image": "i", "resources": {"requests": {"example.com/gpu": "1"}}}
                world.pod(f"p{index}", "g", containers=[container])
            else:
                world.pod(f"p{index}", "g", claims={"d": "shared"})
        assert set(nodes(world.place("g")).values()) == {"r1z1-a"}

    decided(test)


def test_what_a_pod_was_told_of_all_nodes_is_not_told_to_one_of_a_group_that_has_some() -> None:
    def test(world: World) -> None:
        for name in ("r1z1-a", "r2z1-a"):
            world.node(name)
        world.pod("alone", cpu="3")
        alone = world.made.queue.take("pod-alone")
        assert alone is not None
        world.made._cycle.assume(alone.info, Placement("r2z1-a"))
        world.group("g", 1, key="rack")
        world.pod("p0", "g", cpu="3")
        diagnosis, attempt = world.made._cycle.decide(alone)
        assert attempt is not None
        assert isinstance(diagnosis, Diagnosis)
        world.made.state.remember_failure(attempt.key, diagnosis)
        _, outcome, _ = world.place("g").left[0]
        assert not isinstance(outcome, str)
        assert outcome.total_nodes == 1

    decided(test)


# -- pods that are placed already


def test_the_rest_of_a_group_goes_where_the_first_pods_are() -> None:
    def test(world: World) -> None:
        for name in ("r1z1-a", "r1z1-b", "r2z1-a"):
            world.node(name)
        world.group("g", 2, key="rack")
        world.pod("p0", "g", node="r1z1-a")
        world.pod("full", node="r2z1-a", cpu="1")
        world.pod("p1", "g", cpu="2")
        assert nodes(world.place("g")) == {"p1": "r1z1-b"}

    decided(test)


@pytest.mark.parametrize(
    ("moved", "text"),
    [
        pytest.param({"rack": "r9"}, "more than 1 domain found for pod group: r9, r1", id="another-rack"),
        pytest.param({"zone": "z1"}, "no topology domain found for pod ns/p0", id="none"),
        pytest.param(None, 'getting node for pod ns/p0: nodeinfo not found for node name "r1z1-a"', id="node-gone"),
    ],
)
def test_a_group_whose_pods_have_no_common_domain_any_more_is_an_error(moved: dict[str, str] | None, text: str) -> None:
    """A node's label changed, or the node went, under the pods that were placed first."""

    def test(world: World) -> None:
        for name in ("r1z1-a", "r1z1-b"):
            world.node(name)
        world.group("g", 3, key="rack")
        world.pod("p0", "g", node="r1z1-a")
        world.pod("p1", "g", node="r1z1-b")
        world.pod("p2", "g")
        if moved is None:
            world.tracker._node_gone(builders.node("r1z1-a"))
        else:
            world.node("r1z1-a", **moved)
        result = world.place("g")
        assert result.error == f"cannot determine domain for already scheduled pods: {text}"

    decided(test)


@pytest.mark.parametrize(
    ("pods", "message"),
    [
        pytest.param(
            3,
            "pod group is unschedulable, 0/2 placements are available, "
            "first placement status: minCount (3) cannot be satisfied: 2 scheduled, 0 remaining",
            id="too-small",
        ),
        pytest.param(
            2,
            "pod group is unschedulable, 0/2 placements are available, "
            "first placement status: pod group is unschedulable",
            id="too-few-pods",
        ),
    ],
)
def test_a_group_without_a_place_says_what_became_of_the_placements(pods: int, message: str) -> None:
    def test(world: World) -> None:
        for name in ("r1z1-a", "r2z1-a"):
            world.node(name)
        world.group("g", 3, key="rack")
        for index in range(pods):
            world.pod(f"p{index}", "g")
        assert world.place("g").message() == message

    decided(test)


def test_without_the_label_on_any_node_there_is_no_placement() -> None:
    def test(world: World) -> None:
        world.node("r1z1-a")
        world.group("g", 2, key="row")
        for index in range(2):
            world.pod(f"p{index}", "g")
        assert world.place("g").message() == "no feasible placements found"

    decided(test)


def test_pods_of_such_a_group_are_told_of_the_nodes_of_the_domain_only() -> None:
    def test(world: World) -> None:
        for name in ("r1z1-a", "r1z1-b", "r2z1-a", "r3z1-a"):
            world.node(name)
        world.group("g", 2, key="rack")
        world.pod("p0", "g", node="r1z1-a")
        world.pod("p1", "g", cpu="3")
        _, outcome, _ = world.place("g").left[0]
        assert not isinstance(outcome, str)
        assert outcome.message() == "0/2 nodes are available: 2 Insufficient cpu."

    decided(test)


def test_with_the_gate_off_a_constraint_is_not_followed() -> None:
    """Fields of a closed gate are dropped when they are written; what was stored before stays."""

    def test(world: World) -> None:
        for name in ("r1z1-a", "r2z1-a"):
            world.node(name, cpu="1")
        world.group("g", 2, key="rack")
        for index in range(2):
            world.pod(f"p{index}", "g")
        assert racks(world.place("g")) == {"r1z1", "r2z1"}

    decided(test, FeatureGates.parse("GenericWorkload=true"))
