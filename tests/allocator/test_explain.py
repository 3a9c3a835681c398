"""A refusal names what is in the way, and offers changes that really help."""

from __future__ import annotations

from typing import Any

import pytest

from drakit.allocator import Allocated, Asker, Explanation, Failure, Features
from drakit.allocator.allocated import OPERATOR
from tests.allocator.objects import GPU, Cluster, Plain, claim, device, device_class, node, request, slice_
from tests.effort import Bytecodes

MODEL_A = f'device.attributes["{GPU}"].?model.orValue("") == "A"'
BIG = f'device.capacity["{GPU}"].memory.compareTo(quantity("40Gi")) >= 0'
MATCH = {"matchAttribute": f"{GPU}/root"}
TAINT = {"key": "bad", "value": "yes", "effect": "NoSchedule"}


def explained(slices: list[Plain], *claims: Plain, asker: Asker = OPERATOR, **more: Any) -> Explanation:
    outcome = Cluster(slices, **more).allocate(*claims)
    assert isinstance(outcome, Failure)
    assert outcome.kind == "none", outcome
    return outcome.explain(asker)


@pytest.mark.parametrize(
    ("slices", "claims", "held", "blocker", "suggestion"),
    [
        pytest.param([], [claim(request())], [], "no-devices", None, id="no-devices"),
        pytest.param(
            [slice_("s", [device("x")], count=2)], [claim(request())], [], "pool-incomplete", "complete-pool", id="incomplete"
        ),
        pytest.param(
            [slice_("s", [device("x", model="B")])], [claim(request("r", 1, MODEL_A))], [], "selector", "relax-selector", id="selector"
        ),
        pytest.param([slice_("s", [device("x", model="B")])], [claim(request("r", cls="a"))], [], "class", "other-class", id="class"),
        pytest.param(
            [slice_("s", [device("x")])],
            [claim(request())],
            [{"driver": GPU, "pool": "pool", "device": "x"}],
            "busy",
            "free",
            id="busy",
        ),
        pytest.param([slice_("s", [device("x", taints=[TAINT])])], [claim(request())], [], "taint", "tolerate", id="taint"),
        pytest.param([slice_("s", [device("x"), device("y")])], [claim(request("r", 5))], [], "count", "lower-count", id="count"),
        pytest.param(
            [slice_("s", [device("x", root="a"), device("y", root="b")])],
            [claim(request("r", 2), constraints=[MATCH])],
            [],
            "constraint",
            "drop-constraint",
            id="constraint",
        ),
        pytest.param(
            [slice_("s", [device("x")])], [claim(request("a"), request("b"))], [], "contention", "drop-request", id="contention"
        ),
        pytest.param(
            [slice_("s", [device("x", capacity={"memory": "10Gi"})])],
            [claim(request("r", capacity={"requests": {"memory": "20Gi"}}))],
            [],
            "capacity",
            "lower-capacity",
            id="capacity",
        ),
        pytest.param(
            [slice_("s", [device("x"), device("y")])],
            [claim(request("r", allocationMode="All"))],
            [{"driver": GPU, "pool": "pool", "device": "x"}],
            "busy",
            "ask-for-some",
            id="all",
        ),
        pytest.param([slice_("s", [device("x")], nodeName="node-2")], [claim(request())], [], "no-devices", "use-node", id="elsewhere"),
        pytest.param(
            [slice_("s", [device("x", model="B", taints=[TAINT])])],
            [claim(request("r", 1, MODEL_A))],
            [],
            "selector",
            "combine",
            id="two-things-at-once",
        ),
        pytest.param(
            [
                slice_("a", sharedCounters=[{"name": "g", "counters": {"u": {"value": "2"}}}], count=2),
                slice_(
                    "b",
                    [device(f"p{i}", consumesCounters=[{"counterSet": "g", "counters": {"u": {"value": "2"}}}]) for i in range(2)],
                    count=2,
                ),
            ],
            [claim(request("r", 2))],
            [],
            "counter",
            "lower-count",
            id="counters",
        ),
    ],
)  # fmt: skip
def test_the_cause_is_named_and_the_remedy_offered(
    slices: list[Plain], claims: list[Plain], held: list[Plain], blocker: str, suggestion: str | None
) -> None:
    classes = [device_class("any"), device_class("a", MODEL_A)]
    explanation = explained(slices, *claims, held=held, classes=classes)
    assert blocker in [found.kind for found in explanation.blockers]
    if suggestion is not None:
        assert suggestion in [found.kind for found in explanation.suggestions]


def test_only_taints_that_are_not_tolerated_are_named() -> None:
    taints = [{"key": "bad", "value": "yes", "effect": effect} for effect in ("NoExecute", "NoSchedule")]
    tolerated = {"key": "bad", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 8}
    wanted = claim(request("r", tolerations=[tolerated]))
    found = explained([slice_("s", [device("x", taints=taints)])], wanted)
    assert [each.text.rpartition("not tolerated: ")[2] for each in found.blockers] == ["bad=yes:NoSchedule"]
    assert found.suggestions[0].text.startswith("tolerate bad=yes:NoSchedule in request r")


def test_each_conjunct_tells_how_many_it_leaves_and_what_the_others_had() -> None:
    devices = [device(f"b{i}", model="B", capacity={"memory": "80Gi"}) for i in range(3)]
    devices += [device("small", model="A", capacity={"memory": "10Gi"})]
    explanation = explained([slice_("s", devices)], claim(request("r", 1, f"{MODEL_A} && {BIG}")))
    reason = explanation.claims[0].requests[0]
    assert (reason.on_node, reason.in_class, reason.selected, reason.free) == (4, 4, 0, 0)
    first, second = reason.steps
    assert (first.rejected, first.passed) == (3, 1)
    assert (second.rejected, second.passed) == (1, 0)
    assert "model" in first.conjunct
    assert '"B"' in first.values[0][0]
    assert first.values[0][1] == 3
    assert [s.changes[0]["expression"] for s in explanation.suggestions if s.kind == "relax-selector"]


def test_holders_are_named() -> None:
    explanation = explained(
        [slice_("s", [device("x")])], claim(request()), held=[{"driver": GPU, "pool": "pool", "device": "x"}]
    )
    reason = explanation.claims[0].requests[0]
    assert [(held.device, held.holders) for held in reason.busy] == [(f"{GPU}/pool/x", ("other/holder-0",))]
    (free,) = [s for s in explanation.suggestions if s.kind == "free"]
    assert free.text == f"free {GPU}/pool/x (held by other/holder-0)"
    assert "other/holder-0" in explanation.summary


def test_holders_beyond_the_first_are_counted() -> None:
    held = [{"driver": GPU, "pool": "pool", "device": f"g{i}"} for i in range(6)]
    explanation = explained([slice_("s", [device(f"g{i}") for i in range(6)])], claim(request()), held=held)
    assert (
        "6 matching devices are held by other/holder-0, other/holder-1, other/holder-2, other/holder-3 and 2 more"
        in explanation.summary
    )


def test_holders_of_other_namespaces_are_not_named_to_those_who_may_not_know_them() -> None:
    held = [{"driver": GPU, "pool": "pool", "device": "x"}]
    explanation = explained([slice_("s", [device("x")])], claim(request()), held=held, asker=Asker(namespace="ns"))
    assert "1 matching device is held by other namespaces" in explanation.summary
    (free,) = [s for s in explanation.suggestions if s.kind == "free"]
    assert free.text == f"free {GPU}/pool/x (held by other namespaces)"
    explanation = explained([slice_("s", [device("x")])], claim(request()), held=held, asker=Asker(namespace="other"))
    assert "held by other/holder-0" in explanation.summary


def test_only_as_many_devices_as_needed_are_to_be_freed() -> None:
    held = [{"driver": GPU, "pool": "pool", "device": f"g{i}"} for i in range(4)]
    explanation = explained([slice_("s", [device(f"g{i}") for i in range(5)])], claim(request("r", 3)), held=held)
    (free,) = [s for s in explanation.suggestions if s.kind == "free"]
    assert len(free.changes[0]["devices"]) == 2
    (lower,) = [s for s in explanation.suggestions if s.kind == "lower-count"]
    assert lower.changes[0]["count"] == 1


def test_a_label_that_brings_devices_within_reach_is_offered() -> None:
    selector = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]}]}
    explanation = explained(
        [slice_("s", [device("x")], nodeSelector=selector)], claim(request()), nodes=[node(zone="z2")]
    )
    assert [(s.kind, s.changes[0]["labels"]) for s in explanation.suggestions] == [("label-node", {"zone": "z1"})]


def test_a_trial_copies_only_what_it_frees() -> None:
    held = Allocated()
    for pool in ("a", "b"):
        held.hold(pool, [{"driver": GPU, "pool": pool, "device": name} for name in ("x", "y")], holder=f"ns/{pool}")
    trial = held.without([((GPU, "a"), "x")])
    assert [trial.holders((GPU, "a"), name) for name in ("x", "y")] == [(), ("ns/a",)]
    assert trial.pools[GPU, "b"] is held.pools[GPU, "b"]
    assert held.holders((GPU, "a"), "x") == ("ns/a",)


def test_names_of_what_is_only_assumed_are_forgotten_with_it() -> None:
    held, result = Allocated(), [{"driver": GPU, "pool": "pool", "device": "x"}]
    held.hold("claim", result, holder="ns/claim")
    for uid in ("claim", "promise"):
        held.assume(uid, {"devices": {"results": result}}, holder="ns/claim")
        held.forget(uid)
    assert [held.holder_name(uid) for uid in ("claim", "promise")] == ["ns/claim", "promise"]


def test_explaining_changes_nothing() -> None:
    cluster = Cluster([slice_("s", [device("x")])], held=[{"driver": GPU, "pool": "pool", "device": "x"}])
    outcome = cluster.allocate(claim(request()))
    assert isinstance(outcome, Failure)
    assert outcome.explain() == outcome.explain()
    assert not cluster.allocate(claim(request()))


def test_errors_explain_themselves_too() -> None:
    outcome = Cluster([slice_("s", [device("x")])], features=Features()).allocate(claim(request("r", cls="gone")))
    assert isinstance(outcome, Failure)
    assert [blocker.kind for blocker in outcome.explain().blockers] == ["class-missing"]


def test_devices_that_nobody_here_wants_make_a_refusal_little_dearer() -> None:
    """Tainted devices of another driver, in reach of every node: thousands of them once took the scheduler nine seconds a pod."""
    taints = [{"key": f"k{number}", "value": "v", "effect": "NoSchedule"} for number in range(8)]
    own = slice_("own", [device("x", taints=taints)], nodeName="node-1")

    wanted = claim(request("r", 1, f'device.driver == "{GPU}"'))

    def work(strangers: int) -> int:
        others = [
            slice_(
                f"s{number}",
                [device(f"d{n}", taints=taints) for n in range(64)],
                driver="other",
                pool=f"p{number}",
                allNodes=True,
            )
            for number in range(strangers)
        ]
        cluster = Cluster([own, *others])
        assert isinstance(cluster.allocate(wanted), Failure)  # what is made once for all decisions
        counting = Bytecodes("allocator")
        with counting.on():
            refused = cluster.allocate(wanted)
            assert isinstance(refused, Failure)
            assert refused.explain(OPERATOR).blockers
        return counting.count

    assert work(40) < 10 * work(0)
