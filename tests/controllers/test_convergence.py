"""Every controller comes to the same end, however it is disturbed: killed and started anew, with requests refused, answers lost, watches
broken, events repeated and forgotten. 200 seeds each in `make test-long`, a few in `make test`."""

from __future__ import annotations

import asyncio
import logging
import random
from functools import cache

import pytest

from drakit.api.gates import FeatureGates
from drakit.controllers.runner import NAMES
from tests.controllers.chaos import Chaos
from tests.controllers.cluster import Cluster
from tests.controllers.normal import state
from tests.controllers.worlds import STORIES, Story

_ROUNDS = 60
_PULSE = 10.0
_QUICK = range(3)
_ALL = range(200)


async def _finish(cluster: Cluster, story: Story) -> list[str]:
    """Let the world and the controllers go on until neither has anything to do."""
    for _ in range(_ROUNDS):
        await cluster.settle(1.0)
        if await story.world(cluster):
            continue
        for _ in range(int(story.patience / _PULSE) + 1):  # back-offs, grace periods and timers of the story run out
            await story.pulse(cluster)
            await cluster.settle(_PULSE)
        if not await story.world(cluster):
            break
    else:
        raise AssertionError("the world does not come to rest")
    return await state(cluster, story.kinds)


async def _undisturbed(story: Story) -> list[str]:
    async with Cluster(story.controllers, gates=FeatureGates.parse(story.gates)) as cluster:
        for action in story.actions:
            await action(cluster)
            await cluster.settle(1.0)
            await story.world(cluster)
        return await _finish(cluster, story)


async def _disturbed(story: Story, seed: int) -> tuple[list[str], int]:
    chaos = Chaos(seed)
    rng = random.Random(seed * 7919 + 1)
    async with Cluster(story.controllers, wrap=chaos.wrap, gates=FeatureGates.parse(story.gates)) as cluster:
        for action in story.actions:
            await action(cluster)
            for _ in range(rng.randrange(40)):
                await asyncio.sleep(0)  # die or meet the next change anywhere in the middle
            if rng.random() < 0.3:
                await cluster.kill()
                if rng.random() < 0.5:
                    await story.world(cluster)
                await cluster.start()
            elif rng.random() < 0.5:
                await cluster.clock.advance(rng.random() * 3)
                await story.world(cluster)
        chaos.calm()
        return await _finish(cluster, story), chaos.faults


@cache
def expected(name: str) -> tuple[str, ...]:
    return tuple(asyncio.run(_undisturbed(STORIES[name])))


def _check(name: str, seed: int) -> None:
    logging.getLogger("drakit").setLevel(logging.CRITICAL)
    found, _ = asyncio.run(_disturbed(STORIES[name], seed))
    assert found == list(expected(name)), f"{name}, seed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", _QUICK)
@pytest.mark.parametrize("name", STORIES)
def test_controller_converges_when_disturbed(name: str, seed: int) -> None:
    _check(name, seed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "seed"),
    [
        pytest.param("claims", 5004, id="claim-made-twice-because-an-answer-got-lost"),
        pytest.param("pod-groups", 154, id="group-deleted-before-its-pod-is-seen"),
        pytest.param("job-groups", 87, id="pod-let-go-but-not-deleted-is-wanted-again"),
        pytest.param("job-groups", 5057, id="workload-of-the-parent-is-on-its-way"),
    ],
)
def test_controller_converges_where_it_once_did_not(name: str, seed: int) -> None:
    _check(name, seed)


@pytest.mark.long
@pytest.mark.parametrize("name", STORIES)
def test_controller_converges_with_200_seeds(name: str) -> None:
    for seed in _ALL:
        _check(name, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", STORIES)
def test_story_shows_something(name: str) -> None:
    """The comparison is not of two empty states."""
    assert expected(name)


def test_every_controller_has_a_story() -> None:
    assert {controller for story in STORIES.values() for controller in story.controllers} == {*NAMES}
