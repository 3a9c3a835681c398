"""Namespaces on servers that are not all there: groups out of reach, resources that are deleted one by one only."""

from __future__ import annotations

import asyncio

import pytest
from lightkube.models.core_v1 import ConfigMap, Namespace

from drakit.api.errors import StatusError
from drakit.api.gates import FeatureGates
from drakit.client import Resource
from drakit.client.transport import Request
from drakit.controllers.served import Served
from tests.controllers.between import Between, nothing
from tests.controllers.cluster import Cluster

NAMESPACES = "namespace-controller"


async def space_with_a_map(cluster: Cluster) -> None:
    await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}})
    await cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "ns"}})


async def gone(cluster: Cluster) -> bool:
    return all(space["metadata"]["name"] != "ns" for space in await cluster.list(Namespace))


def test_a_namespace_waits_for_groups_that_cannot_be_asked() -> None:
    async def story() -> None:
        stale = ["metrics.example.com/v1"]

        class HalfBlind(Between):
            async def discover(self) -> tuple[list[Resource], list[str]]:
                return every, stale

        async with Cluster() as cluster:
            every = [*await Served(cluster.client, FeatureGates.default()).all()]
            cluster._wrap = lambda inner: HalfBlind(inner, nothing)
            await cluster.kill()
            await cluster.start([NAMESPACES])
            await space_with_a_map(cluster)
            await cluster.delete(Namespace, "ns")
            await cluster.settle(10)
            assert await cluster.list(ConfigMap, "ns") == []
            (told, *rest) = (await cluster.get(Namespace, "ns"))["status"]["conditions"]
            assert (told["type"], told["status"], told["reason"], told["message"]) == (
                "NamespaceDeletionDiscoveryFailure",
                "True",
                "DiscoveryFailed",
                "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: "
                "metrics.example.com/v1: stale GroupVersion discovery: metrics.example.com/v1",
            )
            assert {each["status"] for each in rest} == {"False"}
            stale.clear()
            await cluster.settle(10)
            assert await gone(cluster)
            assert await cluster.list(ConfigMap, "ns") == []

    asyncio.run(story())


@pytest.mark.parametrize("code", [pytest.param(404, id="not-found"), pytest.param(405, id="not-allowed")])
def test_what_cannot_be_deleted_together_is_deleted_one_by_one(code: int) -> None:
    async def refuse(request: Request) -> None:
        if request.method == "DELETE" and not request.name:
            raise StatusError(code, "MethodNotAllowed", "not here", {})

    async def story() -> None:
        async with Cluster([NAMESPACES], wrap=lambda inner: Between(inner, refuse)) as cluster:
            await space_with_a_map(cluster)
            await cluster.delete(Namespace, "ns")
            await cluster.settle(10)
            assert await gone(cluster)
            assert await cluster.list(ConfigMap, "ns") == []

    asyncio.run(story())
