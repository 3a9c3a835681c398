"""On small random clusters the victims are those that trying every set of pods gives: the least important, on the cheapest node."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import pytest
from lightkube.models.policy_v1 import PodDisruptionBudget

from drakit.api.typed import from_plain
from drakit.scheduler.decide import Placement, decide
from drakit.scheduler.outcome import Diagnosis
from drakit.scheduler.pods import PodInfo
from drakit.scheduler.preemption import preempt
from drakit.scheduler.state import State
from tests.scheduler.builders import DRIVER, NOW, claim, device_class, info, node, slice_, state, uid

DEVICES, POD_PRIORITIES = 3, (0, 0, 1, 2, 9)
LOWEST = -(1 << 31)


class World:
    """What is there, as plain values, so that any part of it can be left out."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.nodes = [f"n{index}" for index in range(rng.choice((1, 2, 3)))]
        self.pods: dict[str, dict[str, Any]] = {}
        self.homes: dict[str, str] = {}
        self.claims: dict[str, tuple[str, list[str], list[str]]] = {}  # name -> node, devices, consumers
        for home in self.nodes:
            free, cpu = list(range(DEVICES)), 4
            for number in range(rng.choice((2, 3, 4))):
                name = f"{home}-p{number}"
                asked = rng.choice((0, 1, 1, 2))
                asked = min(asked, cpu)
                cpu -= asked
                self.pods[name] = {
                    "priority": rng.choice(POD_PRIORITIES),
                    "requests": {"cpu": str(asked)} if asked else {},
                    "labels": {"app": "db"} if rng.random() < 0.3 else {},
                    "status": {"startTime": f"2025-01-01T00:{rng.randrange(60):02}:{len(self.pods):02}Z"},
                    "claims": {},
                }
                self.homes[name] = home
                mine = [f"gpu-{free.pop()}" for _ in range(min(len(free), rng.choice((0, 1, 1, 2))))]
                shared = [c for c, (at, _, users) in self.claims.items() if at == home and len(users) < 3]
                if shared and rng.random() < 0.3:
                    chosen = rng.choice(shared)
                    self.claims[chosen][2].append(name)
                    self.pods[name]["claims"]["s"] = chosen
                if mine:
                    self.claims[f"c-{name}"] = (home, mine, [name])
                    self.pods[name]["claims"]["c"] = f"c-{name}"
        self.allowed = rng.choice((None, 0, 0, 1))
        self.wanted = rng.choice((0, 1, 1, 2, 3))
        self.preemptor: dict[str, Any] = {"priority": rng.choice((1, 2, 5)), "requests": {"cpu": rng.choice("1234")}}
        if self.wanted:
            self.preemptor["claims"] = {"c": "want"}

    def state(self, gone: frozenset[str] = frozenset()) -> State:
        made = state(*(node(n) for n in self.nodes), *(slice_(n, DEVICES) for n in self.nodes), device_class())
        for name, (home, devices, users) in self.claims.items():
            left = [user for user in users if user not in gone]
            results = [{"request": "r", "driver": DRIVER, "pool": home, "device": device} for device in devices]
            reserved = [{"resource": "pods", "name": user, "uid": f"pod-{user}"} for user in left]
            field = {"key": "metadata.name", "operator": "In", "values": [home]}
            where = {"nodeSelectorTerms": [{"matchFields": [field]}]}
            allocation = {"devices": {"results": results}, "nodeSelector": where}
            status = {"allocation": allocation, "reservedFor": reserved} if left else {}
            made.claims.set(claim(name, count=len(devices), status=status))
        made.claims.set(claim("want", count=self.wanted or 1))
        for name, fields in self.pods.items():
            if name not in gone:
                made.place(info(name, **fields), self.homes[name])
        if self.allowed is not None:
            spec = {"selector": {"matchLabels": {"app": "db"}}}
            plain = {
                "metadata": {"name": "b", "namespace": "ns"},
                "spec": spec,
                "status": {"disruptionsAllowed": self.allowed},
            }
            made.budgets["ns/b"] = from_plain(PodDisruptionBudget, plain)
        return made

    def fits(self, home: str, gone: frozenset[str]) -> bool:
        pod = info("high", **self.preemptor, nodeSelector={"kubernetes.io/hostname": home})
        return isinstance(decide(self.state(gone), pod, NOW, uid)[0], Placement)

    def for_devices(self, home: str, lower: list[str], chosen: set[str], violating: set[str]) -> bool:
        """Whether some budget would be broken though there is room beside that pod: then Kubernetes would not preempt it."""
        gone = set(lower)
        for name in (each for each in lower if each in violating):
            staying = [n for n, at in self.homes.items() if at == home and n not in gone - {name}]
            used = sum(int(self.pods[n]["requests"].get("cpu", 0)) for n in staying)
            if name not in chosen:
                gone.remove(name)
            elif used + int(self.preemptor["requests"]["cpu"]) <= 4:
                return True
        return False

    def importance(self, name: str) -> tuple[int, str]:
        return -self.pods[name]["priority"], self.pods[name]["status"]["startTime"]

    def violating(self, names: list[str]) -> set[str]:
        """Of these, in the order of importance, those that the budget does not allow to go."""
        protected = [name for name in names if self.pods[name]["labels"]]
        return set() if self.allowed is None else set(protected[self.allowed :])

    def best_on(self, home: str) -> tuple[tuple[Any, ...], set[str]] | None:
        """Every set of pods that may go is tried; of those that do, the one that spares the most important."""
        lower = [
            n for n, f in self.pods.items() if self.homes[n] == home and f["priority"] < self.preemptor["priority"]
        ]
        lower.sort(key=self.importance)
        violating = self.violating(lower)
        order = sorted(lower, key=lambda name: (name not in violating, self.importance(name)))
        possible = [
            set(chosen)
            for size in range(1, len(lower) + 1)
            for chosen in combinations(lower, size)
            if self.fits(home, frozenset(chosen))
        ]
        if not possible:
            return None
        chosen = min(possible, key=lambda gone: [name in gone for name in order])
        broken = len(chosen & violating)
        if self.for_devices(home, lower, chosen, violating):
            return None
        tops = [self.pods[name]["priority"] for name in chosen]
        started = [self.pods[n]["status"]["startTime"] for n in chosen if self.pods[n]["priority"] == max(tops)]
        latest_first = [-ord(letter) for letter in min(started)]
        return (broken, max(tops), sum(top - LOWEST for top in tops), len(tops), latest_first), chosen


@pytest.mark.parametrize("seed", range(40))
def test_victims_are_the_least_important_that_do(seed: int) -> None:
    world = World(seed)
    made = world.state()
    pod: PodInfo = info("high", **world.preemptor)
    outcome, attempt = decide(made, pod, NOW, uid)
    if isinstance(outcome, Placement):
        return
    assert isinstance(outcome, Diagnosis)
    assert attempt is not None
    found, _ = preempt(attempt, outcome)
    best = min(
        (each for home in world.nodes if (each := world.best_on(home)) is not None), default=None, key=lambda b: b[0]
    )
    assert (found is None) is (best is None)
    if found is not None and best is not None:
        assert {victim.name for victim in found.victims} == best[1]
    # The trial leaves nothing behind.
    again, _ = decide(made, pod, NOW, uid)
    assert isinstance(again, Diagnosis)
    assert {key: len(each.pods) for key, each in made.nodes.by_name.items()} == {
        home: sum(1 for at in world.homes.values() if at == home) for home in world.nodes
    }
