"""Placement that depends on other pods: topology spread and inter-pod affinity."""

from __future__ import annotations

from typing import Any

import pytest

from drakit.scheduler.decide import Placement, decide
from drakit.scheduler.outcome import Diagnosis
from drakit.scheduler.pods import PodInfo
from tests.scheduler.builders import NOW, info, node, place, refuse, state, uid

ZONE = "zone"
APP = {"matchLabels": {"app": "web"}}


def web(name: str, **spec: Any) -> PodInfo:
    return info(name, labels={"app": "web"}, **spec)


def spread(**more: Any) -> dict[str, Any]:
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": APP, **more}
    return {"topologySpreadConstraints": [constraint]}


def near(*, anti: bool = False, key: str = ZONE, **more: Any) -> dict[str, Any]:
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": key, "labelSelector": APP, **more}]}
    return {"affinity": {"podAntiAffinity" if anti else "podAffinity": rule}}


def zones(*names: str) -> list[Any]:
    return [node(f"n{index}", labels={ZONE: name}) for index, name in enumerate(names)]


def test_spread_keeps_the_skew() -> None:
    made = state(*zones("a", "a", "b"))
    used = [made.nodes.by_name[place(made, web(f"p{i}", **spread())).node].labels[ZONE] for i in range(6)]
    assert sorted(used) == ["a", "a", "a", "b", "b", "b"]


def test_spread_refuses_where_the_skew_would_grow() -> None:
    made = state(*zones("a", "b"))
    place(made, web("first", nodeSelector={ZONE: "a"}))
    message = refuse(made, web("p", nodeSelector={ZONE: "a"}, **spread(nodeAffinityPolicy="Ignore"))).message()
    assert "1 node(s) didn't match pod topology spread constraints" in message


def test_a_node_without_the_label_is_out_of_the_spread() -> None:
    message = refuse(state(node()), web("p", **spread())).message()
    assert "1 node(s) didn't match pod topology spread constraints (missing required label)" in message


def test_min_domains_counts_as_empty_domains() -> None:
    made = state(*zones("a"))
    place(made, web("first"))
    assert "topology spread" in refuse(made, web("p", **spread(minDomains=2))).message()
    place(made, web("p", **spread()))


def test_soft_spread_prefers_the_emptier_zone() -> None:
    made = state(*zones("a", "b"))
    place(made, web("first", nodeSelector={ZONE: "a"}))
    assert place(made, web("p", **spread(whenUnsatisfiable="ScheduleAnyway"))).node == "n1"


def test_affinity_joins_the_pods_it_names() -> None:
    made = state(*zones("a", "b", "b"))
    place(made, web("db", nodeSelector={ZONE: "b"}))
    for index in range(4):
        assert made.nodes.by_name[place(made, info(f"p{index}", **near())).node].labels[ZONE] == "b"


def test_affinity_without_anybody_to_join() -> None:
    assert "1 node(s) didn't match pod affinity rules" in refuse(state(*zones("a")), info("p", **near())).message()


def test_the_first_of_a_group_that_attracts_itself_may_start_it() -> None:
    made = state(*zones("a", "b"))
    first = place(made, web("p0", **near())).node
    assert {place(made, web(f"p{i}", **near())).node for i in range(1, 4)} == {first}


def test_anti_affinity_keeps_pods_apart() -> None:
    made = state(*zones("a", "b"))
    assert {place(made, web(f"p{i}", **near(anti=True))).node for i in range(2)} == {"n0", "n1"}
    assert "2 node(s) didn't match pod anti-affinity rules" in refuse(made, web("p", **near(anti=True))).message()


def test_a_pod_that_repels_others_keeps_them_away() -> None:
    made = state(*zones("a"))
    place(made, web("hermit", **near(anti=True)))
    assert "1 node(s) didn't satisfy existing pods anti-affinity rules" in refuse(made, web("p")).message()
    place(made, info("other"))


@pytest.mark.parametrize(
    ("pod", "alike"),
    [
        pytest.param(web("p"), True, id="labels"),
        pytest.param(info("p", labels={"app": "db"}), False, id="other-labels"),
        pytest.param(web("p", **near(anti=True, key="other")), False, id="rules"),
    ],
)
def test_pods_with_the_same_labels_and_rules_are_told_the_same(pod: PodInfo, alike: bool) -> None:
    made = state(*zones("a"))
    place(made, info("first", **near(anti=True)))
    outcome, attempt = decide(made, web("refused"), NOW, uid)
    assert isinstance(outcome, Diagnosis)
    assert attempt is not None
    made.remember_failure(attempt.key, outcome)
    outcome, attempt = decide(made, pod, NOW, uid)
    assert (attempt is None) is alike
    assert isinstance(outcome, Placement) is (pod.labels["app"] == "db")


@pytest.mark.parametrize(
    ("term", "fits"),
    [
        pytest.param({}, False, id="own-namespace-only"),
        pytest.param({"namespaces": ["ns", "prod"]}, True, id="named"),
        pytest.param({"namespaceSelector": {}}, True, id="all-namespaces"),
        pytest.param({"namespaceSelector": {"matchLabels": {"team": "x"}}}, True, id="selected"),
        pytest.param({"namespaceSelector": {"matchLabels": {"team": "y"}}}, False, id="not-selected"),
    ],
)
def test_affinity_looks_into_the_namespaces_it_names(term: dict[str, Any], fits: bool) -> None:
    made = state(*zones("a"))
    made.namespaces["prod"] = {"team": "x"}
    other = web("db")
    other.namespace = "prod"
    made.place(other, "n0")
    if fits:
        place(made, info("p", **near(**term)))
    else:
        refuse(made, info("p", **near(**term)))


def test_preferred_affinity_decides_between_nodes_that_fit() -> None:
    made = state(*zones("a", "b"))
    place(made, web("db", nodeSelector={ZONE: "b"}))
    wish = {"weight": 100, "podAffinityTerm": {"topologyKey": ZONE, "labelSelector": APP}}
    rules = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
    assert place(made, info("p", affinity=rules)).node == "n1"
