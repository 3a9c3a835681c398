"""Which nodes take a pod, and what is said of those that do not: one table per filter."""

from __future__ import annotations

from typing import Any

import pytest

from drakit.scheduler.pods import host_ports, nonzero_requests, pod_requests
from tests.scheduler.builders import info, node, place, pod, refuse, state

TAINT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
ZONE = "topology.kubernetes.io/zone"


def only_in(*values: str, key: str = ZONE, operator: str = "In") -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def named(*names: str) -> dict[str, Any]:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in names]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


@pytest.mark.parametrize(
    ("asked", "offered", "message"),
    [
        pytest.param({"requests": {"cpu": "5"}}, {}, "1 Insufficient cpu.", id="cpu"),
        pytest.param({"requests": {"memory": "9Gi"}}, {}, "1 Insufficient memory.", id="memory"),
        pytest.param({"requests": {"a.b/c": "1"}}, {}, "1 Insufficient a.b/c.", id="extended-resource-nobody-offers"),
        pytest.param({}, {"pods": "0"}, "1 Too many pods.", id="pods"),
        pytest.param(
            {"nodeSelector": {"a": "b"}}, {}, "1 node(s) didn't match Pod's node affinity/selector.", id="selector"
        ),
        pytest.param(
            {"affinity": only_in("x")}, {}, "1 node(s) didn't match Pod's node affinity/selector.", id="affinity"
        ),
        pytest.param({}, {"taints": [TAINT]}, "1 node(s) had untolerated taint(s).", id="taint"),
        pytest.param(
            {"affinity": named("other", "another")},
            {"taints": [TAINT]},
            "1 node(s) didn't satisfy plugin(s) [NodeAffinity].",
            id="nodes-by-name",
        ),
        pytest.param({"nodeName": "other"}, {}, "1 node(s) didn't match the requested node name.", id="name"),
    ],
)
def test_a_node_that_does_not_fit_is_refused_in_kubernetes_words(asked: Any, offered: Any, message: str) -> None:
    refused = refuse(state(node(**offered)), info(**asked))
    assert refused.message().startswith(f"0/1 nodes are available: {message}")


@pytest.mark.parametrize(
    ("asked", "offered"),
    [
        pytest.param({"requests": {"cpu": "4"}}, {}, id="all-of-the-cpu"),
        pytest.param({"nodeSelector": {"a": "b"}}, {"labels": {"a": "b"}}, id="selector"),
        pytest.param({"affinity": only_in("x", "y")}, {"labels": {ZONE: "y"}}, id="affinity"),
        pytest.param({"affinity": named("other", "n")}, {}, id="nodes-by-name"),
        pytest.param(
            {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}, {"taints": [TAINT]}, id="toleration"
        ),
        pytest.param({"tolerations": [{"operator": "Exists"}]}, {"taints": [TAINT]}, id="tolerates-everything"),
        pytest.param({}, {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}, id="soft-taint"),
    ],
)
def test_a_node_that_fits_is_taken(asked: Any, offered: Any) -> None:
    assert place(state(node(**offered)), info(**asked)).node == "n"


@pytest.mark.parametrize(
    ("rank", "fits"), [("7", True), ("+7", True), ("1_000", False), ("٧", False), ("9" * 19, False)]
)
def test_a_label_is_a_number_where_it_is_one_in_kubernetes(rank: str, fits: bool) -> None:
    made, pod_ = state(node("a", labels={"rank": rank})), info(affinity=only_in("5", key="rank", operator="Gt"))
    if fits:
        assert place(made, pod_).node == "a"
    else:
        refuse(made, pod_)


def test_assumed_pods_take_room_from_the_next() -> None:
    made = state(node(cpu="2"))
    place(made, info("a", requests={"cpu": "1500m"}))
    assert "Insufficient cpu" in refuse(made, info("b", requests={"cpu": "1"})).message()
    made.displace("pod-a")
    place(made, info("b", requests={"cpu": "1"}))


def test_a_host_port_is_used_once_per_node() -> None:
    made = state(node("a"), node("b"))
    port = [{"name": "c", "ports": [{"hostPort": 80, "containerPort": 80}]}]
    assert {place(made, info(name, containers=port)).node for name in "pq"} == {"a", "b"}
    refused = refuse(made, info("r", containers=port))
    assert refused.message().startswith(
        "0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports."
    )


def test_reasons_of_several_nodes_are_counted_and_sorted() -> None:
    made = state(node("a", taints=[TAINT]), node("b", cpu="1"), node("c", cpu="1"))
    message = refuse(made, info(requests={"cpu": "2"})).message()
    assert message.startswith("0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu.")


def test_an_empty_cluster_has_its_own_message() -> None:
    assert refuse(state(), info()).message() == "no nodes available to schedule pods"


def test_pods_of_one_shape_share_the_static_verdicts() -> None:
    made = state(*(node(f"n{index}", pods="1000") for index in range(50)))
    for number in range(100):
        place(made, info(f"p{number}", nodeSelector={"kubernetes.io/hostname": "n7"}))
    assert made.static.evaluations == 50
    made.set_node(node("n7", labels={"new": "label"}, pods="1000"))
    place(made, info("again", nodeSelector={"kubernetes.io/hostname": "n7"}))
    assert made.static.evaluations == 51


def test_a_heartbeat_is_no_change() -> None:
    made = state(node())
    before = made.revision
    assert not made.set_node(node())
    assert made.revision == before


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"containers": [{"name": "a"}, {"name": "b"}]}, {}, id="nothing"),
        pytest.param(
            {"containers": [{"name": "a", "resources": {"requests": {"cpu": "100m"}}}] * 2},
            {"cpu": 200},
            id="containers-add-up",
        ),
        pytest.param(
            {
                "containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}],
                "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "3"}}}],
            },
            {"cpu": 3000},
            id="init-peak",
        ),
        pytest.param(
            {
                "containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}],
                "initContainers": [
                    {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
                    {"name": "i", "resources": {"requests": {"cpu": "2"}}},
                ],
            },
            {"cpu": 3000},
            id="sidecar-runs-beside-later-init",
        ),
        pytest.param(
            {"containers": [{"name": "a"}], "overhead": {"memory": "1Mi"}}, {"memory": 1 << 20}, id="overhead"
        ),
        pytest.param(
            {
                "containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}],
                "resources": {"requests": {"cpu": "2"}},
            },
            {"cpu": 2000},
            id="pod-level",
        ),
    ],
)
def test_requests_of_a_pod(spec: dict[str, Any], expected: dict[str, int]) -> None:
    assert pod_requests(pod(**spec)) == expected


def test_containers_without_requests_are_not_weightless_to_the_scores() -> None:
    made = pod(containers=[{"name": "a"}, {"name": "b", "resources": {"requests": {"cpu": "1"}}}])
    assert nonzero_requests(made, pod_requests(made)) == (1100, 400 << 20)


def test_ports_of_sidecars_count_and_those_of_init_containers_do_not() -> None:
    ports = [{"hostPort": 9, "containerPort": 9}]
    made = pod(initContainers=[{"name": "i", "ports": ports}, {"name": "s", "restartPolicy": "Always", "ports": ports}])
    assert host_ports(made) == (("0.0.0.0", "TCP", 9),)
