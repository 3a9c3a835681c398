"""Rules about labels, judged for all nodes and all pods at once: as one by one, and at a cost that thousands of terms do not multiply."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from lightkube.models.core_v1 import NodeAffinity, NodeSelectorRequirement, PodAffinityTerm
from lightkube.models.meta_v1 import LabelSelector

from drakit.api.typed import from_plain
from drakit.scheduler.affinity import Neighbours, term_matches
from drakit.scheduler.decide import decide
from drakit.scheduler.filters import AFFINITY, NOT_NAMED
from drakit.scheduler.labels import LabelIndex, Tally
from drakit.scheduler.node_affinity import ANY, choose
from drakit.scheduler.nodes import Nodes
from drakit.scheduler.pods import PodInfo, is_deleting
from drakit.scheduler.selectors import label_selector_matches, node_selector_matches, node_term_matches
from drakit.scheduler.spread import FEW, Spread
from drakit.scheduler.state import State
from tests.effort import Bytecodes
from tests.scheduler.builders import NOW, info, node, state, uid

REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
KEYS = ("app", "rank", "zone")
VALUES = ("a", "b", "", "-1", "2", "02", "10")
SEEDS = range(40)


def some_labels(rng: random.Random) -> dict[str, str]:
    return {key: rng.choice(VALUES) for key in KEYS if rng.random() < 0.7}


def expression(rng: random.Random, *operators: str) -> dict[str, Any]:
    operator = rng.choice(operators)
    values = rng.choices((*VALUES, "other"), k=1 if operator in ("Gt", "Lt") else rng.randint(1, 3))
    found: dict[str, Any] = {"key": rng.choice((*KEYS, "nobody-has-it")), "operator": operator}
    return found if operator in ("Exists", "DoesNotExist") else {**found, "values": values}


def expressions(rng: random.Random, *more: str) -> list[dict[str, Any]]:
    return [expression(rng, "In", "NotIn", "Exists", "DoesNotExist", *more) for _ in range(rng.randint(0, 2))]


def selector(rng: random.Random) -> dict[str, Any] | None:
    made = {"matchLabels": {rng.choice(KEYS): rng.choice(VALUES)}} if rng.random() < 0.3 else {}
    return {**made, "matchExpressions": expressions(rng)} if rng.random() < 0.9 else None


def node_term(rng: random.Random) -> dict[str, Any]:
    term: dict[str, Any] = {"matchExpressions": expressions(rng, "Gt", "Lt")}
    if rng.random() < 0.4:
        by_name = {"key": "metadata.name", "operator": rng.choice(["In", "NotIn"]), "values": [f"n{rng.randint(0, 9)}"]}
        term["matchFields"] = [by_name]
    return term


def pod_term(rng: random.Random) -> dict[str, Any]:
    term: dict[str, Any] = {"topologyKey": rng.choice(("zone", "rack", "nowhere")), "labelSelector": selector(rng)}
    if rng.random() < 0.3:
        term["namespaces"] = rng.sample(("ns", "prod", "test"), k=rng.randint(1, 2))
    if rng.random() < 0.3:
        term["namespaceSelector"] = selector(rng)
    if rng.random() < 0.2:
        term[rng.choice(["matchLabelKeys", "mismatchLabelKeys"])] = [rng.choice(KEYS)]
    return {key: value for key, value in term.items() if value is not None}


def busy(rng: random.Random) -> Nodes:
    """Nodes that came, changed and went, while pods asked for them."""
    nodes = Nodes()
    for _ in range(40):
        for key in KEYS:
            nodes.labels.meeting(NodeSelectorRequirement(key=key, operator="Gt", values=["2"]))
        name = f"n{rng.randint(0, 9)}"
        if rng.random() < 0.3:
            nodes.remove_node(name)
        else:
            nodes.set_node(node(name, labels=some_labels(rng)))
    return nodes


@pytest.mark.parametrize("seed", SEEDS)
def test_labels_of_nodes_are_known_as_if_they_had_been_read_just_now(seed: int) -> None:
    nodes, anew = busy(random.Random(seed)), (LabelIndex(), LabelIndex())
    for each in nodes:
        anew[0].add(each.slot, each.labels)
        anew[1].add(each.slot, {"metadata.name": each.name})
    for kept, new in zip((nodes.labels, nodes.fields), anew, strict=True):
        assert (kept._having, kept._values) == (new._having, new._values)


@pytest.mark.parametrize("seed", SEEDS)
def test_node_affinity_chooses_the_nodes_that_its_terms_match_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    nodes = busy(rng)
    for _ in range(20):
        wishes = [{"weight": rng.randint(1, 100), "preference": node_term(rng)} for _ in range(rng.randint(0, 5))]
        terms = {"nodeSelectorTerms": [node_term(rng) for _ in range(rng.randint(0, 3))]}
        affinity = from_plain(NodeAffinity, {REQUIRED: terms, PREFERRED: wishes})
        choice = choose(affinity, nodes)
        assert not choice.accepted & ~nodes.present
        for each in nodes:
            required, preferred = getattr(affinity, REQUIRED), getattr(affinity, PREFERRED)
            assert choice.accepted >> each.slot & 1 == node_selector_matches(required, each.labels, each.name)
            matching = [w for w in preferred if node_term_matches(w.preference, each.labels, each.name)]
            assert choice.preference.of(each.slot) == sum(wish.weight for wish in matching)
            elsewhere = required.nodeSelectorTerms and all(
                any(field.operator == "In" and each.name not in field.values for field in term.matchFields or ())
                for term in required.nodeSelectorTerms
            )
            assert choice.named >> each.slot & 1 == (not elsewhere)


def test_a_node_that_gets_other_labels_is_judged_anew() -> None:
    wanted = {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]}}
    by_name = {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["later"]}]}]
    }
    pod, named = info(affinity={"nodeAffinity": wanted}), info(affinity={"nodeAffinity": {REQUIRED: by_name}})
    made = state(node())
    there = made.nodes.by_name["n"]
    assert made.static.rejection(pod, there) is AFFINITY
    made.set_node(node(labels={"gpu": "yes"}))
    assert made.static.rejection(pod, there) is None
    assert made.static.rejection(named, there) is NOT_NAMED
    made.set_node(node("later"))
    assert made.static.rejection(named, made.nodes.by_name["later"]) is None


@pytest.mark.parametrize("seed", SEEDS)
def test_label_selectors_select_the_same_at_once_and_one_by_one(seed: int) -> None:
    rng, index = random.Random(seed), LabelIndex()
    everyone = [some_labels(rng) for _ in range(20)]
    for number, labels in enumerate(everyone):
        index.add(number, labels)
    for _ in range(50):
        plain = selector(rng)
        wanted = from_plain(LabelSelector, plain) if plain is not None else None
        found = index.selected(wanted)
        assert [bool(found >> n & 1) for n in range(20)] == [label_selector_matches(wanted, each) for each in everyone]


def test_a_tally_adds_up() -> None:
    rng, tally, sums = random.Random(1), Tally(), [0] * 70
    assert not tally
    for _ in range(300):
        weight, things = rng.randint(-100, 100), rng.choice([1, -1]) * rng.getrandbits(70)
        tally.add(weight, things)
        sums = [total + weight * (things >> number & 1) for number, total in enumerate(sums)]
    assert [tally.of(number) for number in range(70)] == sums


class OneByOne:
    """What a pod's terms say of each node: every placed pod is asked every term."""

    def __init__(self, asking: PodInfo, found: Neighbours, made: State, gone: PodInfo | None = None) -> None:
        def selected(term: PodAffinityTerm, other: PodInfo) -> bool:
            return term_matches(term, asking, other, made.namespaces)

        self.near: Counter[tuple[str, str | None]] = Counter()
        self.anti, self.preference = self.near.copy(), self.near.copy()
        for place in made.nodes:
            for other in place.pods.values():
                if other is gone:
                    continue
                if all(selected(term, other) for term in found.affinity):
                    self.near.update((t.topologyKey, place.labels.get(t.topologyKey)) for t in found.affinity)
                self.anti.update(
                    (t.topologyKey, place.labels.get(t.topologyKey)) for t in found.anti if selected(t, other)
                )
                for weight, term in found.wanted:
                    self.preference[term.topologyKey, place.labels.get(term.topologyKey)] += weight * selected(
                        term, other
                    )

    def check(self, found: Neighbours, made: State) -> None:
        for place in made.nodes:
            pairs = list(place.labels.items())
            assert found.score(place) == sum(self.preference[pair] for pair in pairs)
            rejection = found.reject(place)
            met = all(t.topologyKey in place.labels for t in found.affinity) and (
                all(self.near[t.topologyKey, place.labels[t.topologyKey]] for t in found.affinity)
                or (found.attracts_itself and not any(n for (_, value), n in self.near.items() if value is not None))
            )
            repelled = any(self.anti[pair] for pair in pairs)
            reasons = rejection.reasons[0] if rejection else ""
            assert reasons == (
                "node(s) didn't match pod affinity rules"
                if not met
                else "node(s) didn't match pod anti-affinity rules"
                if repelled
                else ""
            )


@pytest.mark.parametrize("seed", SEEDS)
def test_pod_affinity_counts_the_pods_that_its_terms_match_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    made = state(
        *(node(f"n{n}", labels={k: rng.choice("xy") for k in ("zone", "rack") if rng.random() < 0.9}) for n in range(6))
    )
    made.namespaces.update({"prod": some_labels(rng), "ns": some_labels(rng)})  # what is in "test" is not known yet
    there = [
        info(f"there-{n}", uid=f"there-{n}", labels=some_labels(rng), namespace=rng.choice(["ns", "prod", "test"]))
        for n in range(30)
    ]
    for each in there:
        made.place(each, f"n{rng.randint(0, 5)}")
    for _ in range(10):
        rules = {
            kind: {
                REQUIRED: [pod_term(rng) for _ in range(rng.randint(0, most))],
                PREFERRED: [
                    {"weight": rng.randint(1, 100), "podAffinityTerm": pod_term(rng)} for _ in range(rng.randint(0, 4))
                ],
            }
            for kind, most in (("podAffinity", 2), ("podAntiAffinity", 1))
        }
        asking = info("asking", labels=some_labels(rng), affinity=rules)
        found = Neighbours.of(asking, made.nodes, made.namespaces)
        assert found is not None
        OneByOne(asking, found, made).check(found, made)
        gone = rng.choice(there)
        found.count(gone, made.nodes.placed[gone.uid], -1)
        OneByOne(asking, found, made, gone).check(found, made)
        found.count(gone, made.nodes.placed[gone.uid], 1)
        OneByOne(asking, found, made).check(found, made)


@pytest.mark.parametrize("seed", SEEDS)
def test_spread_counts_the_pods_that_its_selector_matches_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    made = state(*(node(f"n{n}", labels={"zone": rng.choice("xyz")} if rng.random() < 0.9 else {}) for n in range(6)))
    there = [
        info(f"there-{n}", uid=f"there-{n}", labels=some_labels(rng), namespace=rng.choice(["ns", "ns", "prod"]))
        for n in range(30)
    ]
    for each in there:
        if rng.random() < 0.1:
            assert each.pod.metadata
            each.pod.metadata.deletionTimestamp = NOW
        made.place(each, f"n{rng.randint(0, 5)}")
    for _ in range(10):
        wanted = selector(rng)
        if wanted is not None and rng.random() < 0.5:
            wanted["matchExpressions"] *= 1 + FEW  # too many to be asked one by one
        constraint = {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": wanted,
        }
        asking = info("asking", topologySpreadConstraints=[constraint])
        found = Spread.of(asking, made.nodes, ANY)
        assert found is not None
        (counted,) = found.hard
        gone = rng.choice(there)
        for left in (there, [each for each in there if each is not gone]):
            expected = {place.labels["zone"]: 0 for place in made.nodes if "zone" in place.labels}
            for each in left:
                zone = made.nodes.placed[each.uid].labels.get("zone")
                if zone and each.namespace == "ns" and not is_deleting(each.pod):
                    expected[zone] += label_selector_matches(counted.constraint.labelSelector, each.labels)
            assert counted.counts == expected
            found.count(gone, made.nodes.placed[gone.uid], -1)


# -- what it costs


def work(made: State, pod: PodInfo) -> int:
    counting = Bytecodes("scheduler")
    with counting.on():
        decide(made, pod, NOW, uid)
    return counting.count


def numbered(key: str, operator: str, count: int) -> list[dict[str, Any]]:
    return [{"matchExpressions": [{"key": key, "operator": operator, "values": [str(n + 1000)]}]} for n in range(count)]


@pytest.mark.parametrize("operator", ["In", "NotIn", "Gt"])
@pytest.mark.parametrize("rule", [REQUIRED, PREFERRED, "spread"])
def test_terms_of_node_affinity_cost_the_same_on_many_nodes(rule: str, operator: str) -> None:
    terms = numbered("rank", operator, 1000)
    wishes = [{"weight": 1, "preference": term} for term in terms]
    affinity = {PREFERRED: wishes} if rule == PREFERRED else {REQUIRED: {"nodeSelectorTerms": terms}}
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    more = {"topologySpreadConstraints": [constraint]} if rule == "spread" else {}

    def cost(nodes: int) -> int:
        made = state(*(node(f"n{n}", labels={"rank": str(n), "zone": "z"}) for n in range(nodes)))
        return work(made, info(affinity={"nodeAffinity": affinity}, **more)) - work(made, info(**more))

    assert cost(100) < 1.5 * cost(2)


@pytest.mark.parametrize("operator", ["In", "NotIn"])
@pytest.mark.parametrize(
    ("kind", "rule"), [("podAffinity", REQUIRED), ("podAntiAffinity", REQUIRED), ("podAffinity", PREFERRED)]
)
def test_terms_of_pod_affinity_cost_the_same_beside_many_pods(kind: str, rule: str, operator: str) -> None:
    def cost(pods: int, terms: int) -> int:
        made = state(*(node(f"n{n}", labels={"zone": "z"}, pods="1000") for n in range(4)))
        for number in range(pods):
            made.place(info(f"there-{number}", labels={"app": str(number), "tier": "web"}), f"n{number % 4}")
        asked = [{"topologyKey": "zone", "labelSelector": each} for each in numbered("app", operator, terms)]
        wishes = [{"weight": 1, "podAffinityTerm": term} for term in asked]
        return work(made, info(affinity={kind: {rule: wishes if rule == PREFERRED else asked}}))

    assert cost(500, 500) < 1.5 * (cost(500, 1) + cost(2, 500))


@pytest.mark.parametrize("when", ["DoNotSchedule", "ScheduleAnyway"])
def test_expressions_of_a_spread_constraint_cost_the_same_beside_many_pods(when: str) -> None:
    def cost(pods: int, expressions: int) -> int:
        made = state(*(node(f"n{n}", labels={"zone": "z"}, pods="1000") for n in range(4)))
        for number in range(pods):
            made.place(info(f"there-{number}", labels={"app": str(number)}), f"n{number % 4}")
        selector = {"matchExpressions": [e["matchExpressions"][0] for e in numbered("app", "NotIn", expressions)]}
        constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": when, "labelSelector": selector}
        return work(made, info(topologySpreadConstraints=[constraint]))

    assert cost(500, 500) < 1.5 * (cost(500, 1) + cost(2, 500))
