"""Partitioned GPUs and shared devices, where the search has most to exchange: still the plain search's answer.

Seeded rather than drawn by Hypothesis: the cases are many and cheap, and equal parts are the point.
"""

from __future__ import annotations

import random
from contextlib import nullcontext
from typing import Any

import pytest

from drakit.allocator import Budget, Failure
from tests.allocator.objects import GPU, Cluster, Plain, always_cutting, claim, device, request, slice_
from tests.allocator.reference import OutOfSteps, Predicate, Reference, ReferenceError_
from tests.allocator.scenarios import CLASSES, NODE

SIZES = {size: f'device.attributes["{GPU}"].size == {size}' for size in (1, 2, 3)}


def _has_size(size: int) -> Predicate:
    return lambda _driver, plain: plain["attributes"]["size"]["int"] == size


PREDICATES: dict[str, Predicate] = {text: _has_size(size) for size, text in SIZES.items()}
PREDICATES[f'device.driver == "{GPU}"'] = lambda driver, _plain: driver == GPU


def parts(rng: random.Random, gpus: int) -> list[Plain]:
    """Partitions of several GPUs, mostly alike, listed GPU by GPU or in turn."""
    found: list[tuple[int, int, Plain]] = []
    in_turn = rng.random() < 0.5
    for gpu in range(gpus):
        profile = [(1, 2), (2, 1), (3, 1)] if rng.random() < 0.7 else [(1, rng.randint(1, 3)), (2, rng.randint(0, 2))]
        for size, count in profile:
            for k in range(count):
                fields: dict[str, Any] = {}
                if rng.random() < 0.1:
                    fields = {"allowMultipleAllocations": True, "capacity": {"memory": rng.choice(["4", "10"])}}
                if rng.random() < 0.3:
                    fields["root"] = rng.choice("ab")
                use = {"counterSet": f"gpu{gpu}", "counters": {"units": {"value": str(size)}}}
                plain = device(f"g{gpu}-{size}-{k}", size=size, consumesCounters=[use], **fields)
                found.append((k if in_turn else 0, gpu, plain))
    return [plain for _, _, plain in sorted(found, key=lambda item: item[:2])]


def scenario(rng: random.Random) -> tuple[list[Plain], list[Plain], list[Plain]]:
    gpus = rng.randint(1, 4)
    devices = parts(rng, gpus)
    sets = [{"name": f"gpu{g}", "counters": {"units": {"value": rng.choice("334")}}} for g in range(gpus)]
    slices = [slice_("a", sharedCounters=sets, count=2), slice_("b", devices, count=2)]
    shared = [
        device(f"s{i}", size=1, allowMultipleAllocations=True, capacity={"memory": rng.choice("446")})
        for i in range(rng.choice([0, 0, 1, 3]))
    ]
    if shared:
        slices.append(slice_("z", shared, pool="zz"))
    requests = []
    admins = rng.choice([0.05, 0.4])
    for k in range(rng.randint(1, 4)):
        fields: dict[str, Any] = {"adminAccess": True} if rng.random() < admins else {}
        if rng.random() < 0.08:
            fields["allocationMode"] = "All"
        if rng.random() < 0.3:
            fields["capacity"] = {"requests": {"memory": str(rng.randint(1, 4))}}
        wanted = [SIZES[rng.choice([1, 2, 3])]] if rng.random() < 0.7 else []
        requests.append(request(f"r{k}", rng.choice([1, 1, 2, 3]), *wanted, **fields))
    constraints = []
    if rng.random() < 0.25:
        kind = rng.choice(["matchAttribute", "distinctAttribute"])
        constraints.append({kind: f"{GPU}/{rng.choice(['root', 'size'])}"})
    together = rng.choice([1, 2])  # requests per claim
    claims = [
        claim(*requests[n : n + together], name=f"c{n}", constraints=constraints if not n else ())
        for n in range(0, len(requests), together)
    ]
    held = []
    for plain in devices:
        if rng.random() < 0.08:
            result: Plain = {"driver": GPU, "pool": "pool", "device": plain["name"]}
            if plain.get("allowMultipleAllocations"):
                result |= {"shareID": f"share-{plain['name']}", "consumedCapacity": {"memory": "1"}}
            held.append(result)
    return slices, held, claims


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_equal_parts_and_shares_are_cut_without_changing_the_answer(block: int) -> None:
    compared = 0
    for number in range(60):
        slices, held, claims = scenario(random.Random(block * 1000 + number))
        try:
            expected: Any = Reference(slices, CLASSES, held, NODE, claims, PREDICATES).allocate() or "none"
        except ReferenceError_:
            expected = "error"
        except OutOfSteps:
            continue
        cluster = Cluster(slices, classes=CLASSES, nodes=[NODE], held=held)
        with always_cutting() if number % 2 else nullcontext():
            outcome = cluster.allocate(*claims, budget=Budget(steps=1_000_000))
        got: Any = (
            outcome.kind
            if isinstance(outcome, Failure)
            else [
                [(r["request"], r["driver"], r["pool"], r["device"]) for r in result["devices"].get("results", ())]
                for result in outcome.results
            ]
        )
        assert got == expected, (block, number)
        compared += 1
    assert compared > 50


def gpu_parts(gpus: int) -> list[Plain]:
    sizes = {"1": 7, "2": 3, "3": 2, "7": 1}
    devices = [
        device(
            f"g{gpu}-{size}-{i}",
            size=size,
            consumesCounters=[{"counterSet": f"gpu{gpu}", "counters": {"u": {"value": size}}}],
        )
        for gpu in range(gpus)
        for size, count in sizes.items()
        for i in range(count)
    ]
    sets = [{"name": f"gpu{gpu}", "counters": {"u": {"value": "7"}}} for gpu in range(gpus)]
    return [slice_("a", sharedCounters=sets, count=2), slice_("b", devices, count=2)]


@pytest.mark.parametrize(
    ("slices", "asks"),
    [
        pytest.param(gpu_parts(8), {"3": 17}, id="two-of-three-sevenths-on-each"),
        pytest.param(gpu_parts(16), {"7": 8, "3": 17}, id="whole-ones-and-halves"),
        pytest.param(gpu_parts(16), {"2": 14, "7": 12}, id="small-ones-first"),
    ],
)
def test_fragmented_counters_are_found_out(slices: list[Plain], asks: dict[str, int]) -> None:
    wanted = [
        request(f"r{size}", count, f'device.attributes["{GPU}"].size == "{size}"') for size, count in asks.items()
    ]
    outcome = Cluster(slices).allocate(claim(*wanted), budget=Budget(steps=3000))
    assert isinstance(outcome, Failure)
    assert outcome.kind == "none", outcome


@pytest.mark.parametrize(("devices", "amount", "requests"), [(8, "6Gi", 9), (16, "6Gi", 17), (8, "3Gi", 25)])
def test_shares_that_do_not_fit_are_found_out(devices: int, amount: str, requests: int) -> None:
    shared = [device(f"s{i}", allowMultipleAllocations=True, capacity={"memory": "10Gi"}) for i in range(devices)]
    wanted = [request(f"r{i}", capacity={"requests": {"memory": amount}}) for i in range(requests)]
    outcome = Cluster([slice_("s", shared)]).allocate(claim(*wanted), budget=Budget(steps=1000))
    assert isinstance(outcome, Failure)
    assert outcome.kind == "none", outcome
