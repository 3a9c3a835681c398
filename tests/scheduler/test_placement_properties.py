"""Random racks, pods and trees: the few domains that are tried give what trying all of them would, and nothing stays behind."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from drakit.scheduler.nodes import Bits
from drakit.scheduler.placements import Placements
from drakit.scheduler.room import Room
from drakit.scheduler.tree import Part, Result
from tests.scheduler.test_group_preemption import shown
from tests.scheduler.test_topology import NESTED, World, decided

SEEDS = range(60)


def cluster(world: World, rng: random.Random) -> None:
    for index in range(rng.randint(2, 10)):
        rack, zone = rng.randint(1, 4), rng.randint(1, 2)
        name = f"n{index}"
        labels = {"rack": f"r{rack}", "zone": f"z{zone}"}
        world.node(name, cpu=str(rng.randint(1, 4)), **labels)
        world.gpus(name, rng.randint(0, 3))
        if rng.random() < 0.4:
            world.pod(f"on-{name}", node=name)


def group(world: World, rng: random.Random, name: str = "g", parent: str = "") -> None:
    pods = rng.randint(1, 5)
    world.group(name, rng.randint(0, pods), key=rng.choice(["rack", "zone", ""]), parent=parent)
    for index in range(pods):
        if rng.random() < 0.5:
            world.claimant(f"{name}-{index}", name, rng.randint(1, 2))
        else:
            world.pod(f"{name}-{index}", name, cpu=str(rng.randint(1, 2)))


def by_label(world: World, part: Part) -> Iterator[tuple[list[str], Bits]]:
    nodes = world.made.state.nodes
    for value in sorted({node.labels[part.topology] for node in nodes}):
        names = [node.name for node in nodes if node.labels[part.topology] == value]
        yield names, nodes.bits(names)


def score(world: World, names: list[str], result: Result, most: int) -> int:
    """Upstream's sum, from the nodes as they are without the group."""
    pods = [waiting.info for waiting, _ in result.assumed()]
    shares = []
    for index, resource in enumerate(("cpu", "memory")):
        nodes = [world.made.state.nodes.by_name[name] for name in names]
        taken = sum((node.nonzero_cpu, node.nonzero_memory)[index] for node in nodes)
        offered = sum(node.allocatable.get(resource, 0) for node in nodes)
        wanted = taken + sum(info.nonzero[index] for info in pods)
        shares.append(100 * min(wanted, offered) // offered)
    return 100 * len(pods) // most + sum(shares) // len(shares)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_other_domain_has_a_better_score(seed: int) -> None:
    def test(world: World) -> None:
        rng = random.Random(seed)
        cluster(world, rng)
        group(world, rng)
        part = world.part("g")
        if not part.topology:
            return
        found: list[tuple[list[str], Result]] = []
        for names, bits in by_label(world, part):
            alone = Placements(world.made._cycle)
            result = alone._run(part, bits)
            alone.take_back(alone.assumed)
            if result.ok:
                found.append((names, result))
        before = shown(world)
        placements = Placements(world.made._cycle)
        chosen = placements.place(part)
        assert chosen.ok is bool(found)
        placements.take_back(placements.assumed)
        assert shown(world) == before
        if chosen.ok:
            most = max(len(list(result.assumed())) for _, result in found)
            names = next(names for names, bits in by_label(world, part) if bits == chosen.within)
            best = max(score(world, names, result, most) for names, result in found)
            assert score(world, names, chosen, most) == best

    decided(test, NESTED)


@pytest.mark.parametrize("seed", SEEDS)
def test_never_more_pods_fit_than_there_is_room(seed: int) -> None:
    def test(world: World) -> None:
        rng = random.Random(seed)
        cluster(world, rng)
        group(world, rng)
        part = world.part("g")
        part.topology, part.need = "rack", 1
        room = Room(world.made.state, [waiting.info for waiting in part.waiting])
        for _, bits in by_label(world, part):
            bound = room.of(bits, len(part.waiting))
            placements = Placements(world.made._cycle)
            result = placements._run(part, bits)
            assert len(list(result.assumed())) <= bound
            placements.take_back(placements.assumed)

    decided(test, NESTED)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_tree_keeps_all_its_constraints_and_leaves_nothing_behind(seed: int) -> None:
    def test(world: World) -> None:
        rng = random.Random(seed)
        cluster(world, rng)
        world.composite("root", rng.randint(0, 2), key=rng.choice(["zone", ""]))
        for sub in range(rng.randint(1, 3)):
            world.composite(f"s{sub}", rng.randint(0, 2), key=rng.choice(["zone", "rack", ""]), parent="root")
            for leaf in range(rng.randint(1, 2)):
                group(world, rng, f"g{sub}{leaf}", f"s{sub}")
        part = world.part("g00")
        before = shown(world)
        placements = Placements(world.made._cycle)
        result = placements.place(part)
        if result.ok:
            check(world, result)
        assert placements.assumed.keys() == {waiting.info.uid for waiting, _ in result.assumed()}
        placements.take_back(placements.assumed)
        assert shown(world) == before

    decided(test, NESTED)


def check(world: World, result: Result) -> None:
    done = len(result.placed) + sum(child.ok for child in result.children)
    assert done >= result.part.need
    if result.part.topology:
        nodes = {placement.node for _, placement in result.assumed()}
        assert len({world.made.state.nodes.by_name[name].labels[result.part.topology] for name in nodes}) <= 1
    for child in result.children:
        if child.ok:
            check(world, child)
