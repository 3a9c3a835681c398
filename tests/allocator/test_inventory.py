"""The inventory follows one event at a time and ends where a fresh one would."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lightkube.models.resource_v1 import DeviceClass, ResourceClaim

from drakit.allocator import Allocated, Allocation, Failure
from drakit.api.typed import from_plain
from tests.allocator.objects import (
    GPU,
    Cluster,
    allocated_claim,
    claim,
    device,
    device_class,
    devices_of,
    node,
    request,
    slice_,
)

SELECTED = f'device.attributes["{GPU}"].model == "A"'


def test_an_updated_slice_replaces_its_devices() -> None:
    cluster = Cluster([slice_("s", [device("old")])])
    assert devices_of(cluster.allocate(claim(request()))) == [["r=pool/old"]]
    cluster.set_slice(slice_("s", [device("new")], generation=2))
    assert devices_of(cluster.allocate(claim(request()))) == [["r=pool/new"]]


def test_a_slice_may_move_to_another_pool_and_node() -> None:
    cluster = Cluster([slice_("s", [device("x")])], nodes=[node("node-1"), node("node-2")])
    cluster.set_slice(slice_("s", [device("x")], pool="other", nodeName="node-2"))
    assert not cluster.allocate(claim(request()), on="node-1")
    assert devices_of(cluster.allocate(claim(request()), on="node-2")) == [["r=other/x"]]


def test_a_removed_slice_makes_its_pool_incomplete() -> None:
    cluster = Cluster([slice_("a", [device("x")], count=2), slice_("b", [device("y")], count=2)])
    assert cluster.allocate(claim(request()))
    cluster.inventory.remove_slice("b")
    assert not cluster.allocate(claim(request()))
    cluster.inventory.remove_slice("unknown")


def test_an_old_generation_elsewhere_does_not_count_and_a_newer_one_retires_the_pool() -> None:
    cluster = Cluster(
        [slice_("a", [device("x")], count=2), slice_("b", [device("y")], count=2, nodeName="node-2", generation=2)]
    )
    outcome = cluster.allocate(claim(request()))
    assert isinstance(outcome, Failure)
    assert outcome.explain().blockers[0].kind == "no-devices"


def test_a_changed_class_is_used_at_once() -> None:
    cluster = Cluster([slice_("s", [device("b", model="B"), device("a", model="A")])])
    assert devices_of(cluster.allocate(claim(request()))) == [["r=pool/b"]]
    cluster.inventory.set_class(from_plain(DeviceClass, device_class("any", SELECTED)))
    assert devices_of(cluster.allocate(claim(request()))) == [["r=pool/a"]]
    cluster.inventory.remove_class("any")
    outcome = cluster.allocate(claim(request()))
    assert isinstance(outcome, Failure)
    assert outcome.cause == "class-missing"


@pytest.mark.parametrize(
    ("selector", "tainted"),
    [
        pytest.param(None, {"x", "y"}, id="without-selector-everything"),
        pytest.param({"driver": GPU}, {"x", "y"}, id="driver"),
        pytest.param({"driver": "other.example.com"}, set(), id="other-driver"),
        pytest.param({"pool": "pool", "device": "x"}, {"x"}, id="device"),
        pytest.param({"pool": "other"}, set(), id="other-pool"),
    ],
)
def test_taint_rules_reach_the_devices_they_select(selector: Any, tainted: set[str]) -> None:
    cluster = Cluster([slice_("s", [device("x"), device("y")])])
    cluster.set_rule("rule", {"key": "bad", "effect": "NoExecute"}, selector)
    outcome = cluster.allocate(claim(request("r", allocationMode="All")))
    assert bool(outcome) is not bool(tainted)
    usable = 2 - len(tainted)
    assert [bool(cluster.allocate(claim(request("r", n)))) for n in (1, 2)] == [usable >= 1, usable >= 2]
    cluster.set_slice(slice_("s", [device("x"), device("y"), device("z")]))  # rules reach later slices too
    cluster.inventory.remove_rule("rule")
    assert cluster.allocate(claim(request("r", 3)))


def test_claims_hold_their_devices_until_they_go() -> None:
    cluster = Cluster([slice_("s", [device("x")])])
    asks = claim(request())
    outcome = cluster.allocate(asks)
    assert isinstance(outcome, Allocation)
    cluster.allocated.assume("uid-claim", outcome.results[0], holder="default/claim")
    assert not cluster.allocate(claim(request(), name="second"))
    # The write is not seen yet: an event without an allocation does not release what is assumed.
    cluster.allocated.set_claim(from_plain(ResourceClaim, asks))
    assert not cluster.allocate(claim(request(), name="second"))
    cluster.allocated.set_claim(allocated_claim(asks, outcome.results[0]))
    cluster.allocated.forget("uid-claim")
    assert not cluster.allocate(claim(request(), name="second"))
    cluster.allocated.set_claim(from_plain(ResourceClaim, asks))  # deallocated
    assert cluster.allocate(claim(request(), name="second"))
    cluster.allocated.set_claim(allocated_claim(asks, outcome.results[0]))
    cluster.allocated.remove_claim("uid-claim")
    assert cluster.allocate(claim(request(), name="second"))


def test_admin_access_holds_nothing() -> None:
    cluster = Cluster([slice_("s", [device("x")])])
    asks = claim(request("r", adminAccess=True))
    outcome = cluster.allocate(asks)
    assert isinstance(outcome, Allocation)
    cluster.allocated.set_claim(allocated_claim(asks, outcome.results[0]))
    assert cluster.allocate(claim(request()))


def test_selector_verdicts_are_shared_by_devices_that_agree_in_what_is_read() -> None:
    devices = [device(f"g{i}", model="A" if i % 2 else "B", serial=f"GPU-{i}") for i in range(50)]
    cluster = Cluster([slice_("s", devices)])
    guarded = f'device.attributes["{GPU}"].?model.orValue("") == "A"'
    assert devices_of(cluster.allocate(claim(request("r", 1, guarded)))) == [["r=pool/g1"]]
    selection = cluster.inventory.selections.of((), (guarded,), cluster.features)
    assert selection.size == 3  # two models, one layout


def test_much_churn_leaves_nothing_behind() -> None:
    cluster = Cluster()
    for number in range(3000):
        cluster.set_slice(slice_("s", [device("x", serial=f"n{number}")], generation=number + 1))
    assert len(cluster.inventory._interner._shapes) < 1500
    assert cluster.allocate(claim(request("r", 1, f'device.attributes["{GPU}"].serial == "n2999"')))


_NAMES = st.sampled_from(["s0", "s1", "s2"])


@st.composite
def events(draw: st.DrawFn) -> list[tuple[str, Any]]:
    made: list[tuple[str, Any]] = []
    for _ in range(draw(st.integers(1, 12))):
        name = draw(_NAMES)
        match draw(st.sampled_from(["set", "set", "set", "remove", "hold", "release", "rule", "unrule"])):
            case "set":
                devices = [device(f"d{i}", model=draw(st.sampled_from("AB"))) for i in range(draw(st.integers(0, 2)))]
                where = draw(st.sampled_from([{"nodeName": "node-1"}, {"nodeName": "node-2"}, {"allNodes": True}]))
                made.append(
                    ("set", slice_(name, devices, pool=draw(st.sampled_from("pq")), count=draw(st.integers(1, 2)),
                                   generation=draw(st.integers(1, 2)), **where))
                )  # fmt: skip
            case "remove":
                made.append(("remove", name))
            case "hold":
                made.append(("hold", (name, draw(st.sampled_from("pq")), f"d{draw(st.integers(0, 1))}")))
            case "release":
                made.append(("release", name))
            case "rule":
                made.append(("rule", (name, draw(st.sampled_from("pq")))))
            case _:
                made.append(("unrule", name))
    return made


def _apply(cluster: Cluster, kind: str, value: Any) -> None:
    match kind:
        case "set":
            cluster.set_slice(value)
        case "remove":
            cluster.inventory.remove_slice(value)
        case "hold":
            cluster.allocated.hold(value[0], [{"driver": GPU, "pool": value[1], "device": value[2]}])
        case "release":
            cluster.allocated.remove_claim(value)
        case "rule":
            cluster.set_rule(value[0], {"key": "bad", "effect": "NoSchedule"}, {"pool": value[1]})
        case _:
            cluster.inventory.remove_rule(value)


@pytest.mark.slow
@settings(deadline=None, max_examples=150, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(events())
def test_after_any_events_the_answers_are_those_of_a_fresh_inventory(drawn: list[tuple[str, Any]]) -> None:
    nodes = [node("node-1"), node("node-2")]
    asks = [claim(request("r", n, f'device.attributes["{GPU}"].?model.orValue("") == "A"')) for n in (1, 2)] + [
        claim(request("r", 2))
    ]
    followed = Cluster(nodes=nodes)
    for kind, value in drawn:
        _apply(followed, kind, value)
        for ask in asks:
            followed.feasible(ask)  # keeps figures, which must not go stale
            followed.allocate(ask)
    fresh = Cluster(nodes=nodes)
    final: dict[tuple[str, str], tuple[str, Any]] = {}
    for kind, value in drawn:
        group = {"set": "slice", "remove": "slice", "hold": "claim", "release": "claim"}.get(kind, "rule")
        name = value if isinstance(value, str) else value[0] if isinstance(value, tuple) else value["metadata"]["name"]
        if kind == "set" and (group, name) in final and final[group, name][0] == "set":
            previous = final[group, name][1]["spec"]
            if (previous["pool"]["name"], previous.get("nodeName")) != (
                value["spec"]["pool"]["name"],
                value["spec"].get("nodeName"),
            ):
                del final[group, name]
        elif kind == "set":
            final.pop((group, name), None)
        final[group, name] = (kind, value)
    for kind, value in final.values():
        _apply(fresh, kind, value)
    for ask in asks:
        assert list(followed.feasible(ask)) == list(fresh.feasible(ask))
        for name in ("node-1", "node-2"):
            one, other = followed.allocate(ask, on=name), fresh.allocate(ask, on=name)
            assert bool(one) == bool(other)
            assert not one or devices_of(one) == devices_of(other)


def test_without_makes_a_copy() -> None:
    allocated = Allocated()
    allocated.hold("a", [{"driver": GPU, "pool": "p", "device": "x"}, {"driver": GPU, "pool": "p", "device": "y"}])
    other = allocated.without([((GPU, "p"), "x")])
    assert allocated.holders((GPU, "p"), "x") == ("a",)
    assert other.holders((GPU, "p"), "x") == ()
    assert other.holders((GPU, "p"), "y") == ("a",)
