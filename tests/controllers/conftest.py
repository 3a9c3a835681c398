from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator

import pytest

from drakit.api.gates import FeatureGates
from tests.controllers.cluster import Cluster

Story = Callable[[Cluster], Awaitable[None]]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logger = logging.getLogger("drakit")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)


@pytest.fixture
def play() -> Callable[..., None]:
    """Run a story on a fresh cluster with the named controllers."""

    def run(story: Story, *controllers: str, gates: str = "") -> None:
        async def body() -> None:
            async with Cluster(controllers, gates=FeatureGates.parse(gates)) as cluster:
                await story(cluster)

        asyncio.run(body())

    return run
