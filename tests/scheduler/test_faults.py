"""After any number of faults: every pod bound or pending for a true reason, nothing held twice, nothing held for nobody."""

from __future__ import annotations

import asyncio

import pytest

from tests.scheduler.chaos import Chaos


async def judged(seed: int, schedulers: int) -> list[str]:
    chaos = Chaos(seed, schedulers=schedulers)
    await chaos.run()
    return await chaos.complaints()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_a_few_bad_days(seed: int) -> None:
    assert asyncio.run(judged(seed, 1 + seed % 2)) == []


@pytest.mark.long
@pytest.mark.parametrize("block", range(25))
def test_500_bad_days(block: int) -> None:
    for seed in range(1000 + block * 20, 1000 + block * 20 + 20):
        assert asyncio.run(judged(seed, 1 + seed % 2)) == [], f"seed {seed}"
