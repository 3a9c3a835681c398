"""A cluster in this process: what it does when something is switched off or dies."""

from __future__ import annotations

import asyncio

import pytest
from lightkube.models.core_v1 import Node

from drakit.api.gates import FeatureGates
from drakit.cli.cluster import Cluster, Options
from drakit.node.simulated import SimulatedNodes


def test_without_dra_there_are_nodes_without_devices(caplog: pytest.LogCaptureFixture) -> None:
    gates = FeatureGates.parse("DynamicResourceAllocation=false")

    async def run() -> int:
        async with Cluster(Options(nodes=2, gates=gates, listen=False)) as cluster:
            return len((await cluster.admin.list(Node)).items)

    assert asyncio.run(run()) == 2
    assert "nodes without devices" in caplog.text


def test_an_api_server_alone_goes_on() -> None:
    async def run() -> None:
        async with Cluster(Options(nodes=0, scheduler=False, controllers=(), listen=False)) as cluster:
            waiting = asyncio.ensure_future(cluster.wait())
            await asyncio.sleep(0)
            assert not waiting.done()
            waiting.cancel()

    asyncio.run(run())


def test_a_component_that_dies_ends_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    async def die(self: SimulatedNodes) -> None:
        raise RuntimeError("no disk")

    monkeypatch.setattr(SimulatedNodes, "publish", die)

    async def run() -> None:
        async with asyncio.timeout(20), Cluster(Options(nodes=1, listen=False)):
            pass

    with pytest.raises(RuntimeError, match="no disk"):
        asyncio.run(run())
