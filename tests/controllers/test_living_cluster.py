"""All parts together on simulated nodes and virtual time: what `drakit up` runs, without sockets and without waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from lightkube.models.batch_v1 import Job
from lightkube.models.core_v1 import Pod
from lightkube.models.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim

from drakit.cli.cluster import Cluster, Options
from drakit.client import Client, Plain, resource_of
from drakit.clock import VirtualClock
from tests.controllers import objects as make

pytestmark = pytest.mark.slow


class Living:
    def __init__(self, cluster: Cluster, clock: VirtualClock) -> None:
        self.cluster, self.clock, self.client = cluster, clock, cluster.admin

    async def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds / 0.25)):
            await self.clock.advance(0.25)
            for _ in range(20):
                await asyncio.sleep(0)

    async def until(self, done: Callable[[], Awaitable[bool]], seconds: float = 60) -> None:
        for _ in range(int(seconds)):
            if await done():
                return
            await self.pass_time(1)
        raise AssertionError("did not happen in time")

    async def list(self, model: type, labels: str = "") -> list[Plain]:
        return (await self.client.list_plain(resource_of(model), labels=labels)).items


def live(body: Callable[[Living], Awaitable[None]], **options: object) -> None:
    async def run() -> None:
        clock = VirtualClock()
        cluster = Cluster(Options(listen=False, nodes=2, profile="gb200", **options), clock=clock)  # type: ignore[arg-type]
        starting = asyncio.ensure_future(cluster.start())
        while not starting.done():
            await clock.advance(0.1)
        await starting
        try:
            await body(Living(cluster, clock))
        finally:
            await cluster.stop()

    asyncio.run(run())


async def gpu_class(client: Client) -> str:
    classes = (await client.list_plain(resource_of(DeviceClass))).items
    return str(classes[0]["metadata"]["name"])


def test_tainted_devices_are_left_and_jobs_go_on_elsewhere() -> None:
    async def body(living: Living) -> None:
        template = make.claim_template("gpu")
        template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = await gpu_class(
            living.client
        )
        template["metadata"]["namespace"] = "default"
        await living.client.create(template)
        job = make.job("j", completions=4, parallelism=4, backoffLimit=20)
        job["metadata"]["namespace"] = "default"
        pod = job["spec"]["template"]
        pod["metadata"] = {"annotations": {"simulated.drakit.dev/seconds": "40"}}
        pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
        pod["spec"]["terminationGracePeriodSeconds"] = 1
        await living.client.create(job)

        async def all_run() -> bool:
            return sum(each["status"].get("phase") == "Running" for each in await living.list(Pod)) == 4

        await living.until(all_run)
        claims = await living.list(ResourceClaim)
        used = {claim["status"]["allocation"]["devices"]["results"][0]["pool"] for claim in claims}
        pool = sorted(used)[0]
        await living.client.create(
            {
                "apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": "bad-node"},
                "spec": {"deviceSelector": {"pool": pool}, "taint": {"key": "example.com/broken", "effect": "NoExecute"}},
            }
        )  # fmt: skip
        await living.pass_time(1)
        (rule,) = await living.list(DeviceTaintRule)
        first = rule["status"]["conditions"][0]
        assert first["type"] == "EvictionInProgress"

        async def moved() -> bool:
            pools = {
                claim["status"]["allocation"]["devices"]["results"][0]["pool"]
                for claim in await living.list(ResourceClaim)
                if claim["status"].get("allocation")
            }
            return await all_run() and pool not in pools

        await living.until(moved)

        async def complete() -> bool:
            (found,) = await living.list(Job)
            return found["status"].get("completionTime") is not None

        await living.until(complete, 200)
        (found,) = await living.list(Job)
        assert found["status"]["succeeded"] == 4
        (rule,) = await living.list(DeviceTaintRule)
        last = rule["status"]["conditions"][0]
        assert (last["status"], last["reason"]) == ("False", "Completed")
        assert "evicted since starting the controller" in last["message"]

        async def claims_gone() -> bool:
            return await living.list(ResourceClaim) == []

        await living.until(claims_gone)

    live(body)
