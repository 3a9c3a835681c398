"""Our scheduler on a real Kubernetes (1.34 or newer), under a schedulerName of its own: it places pods whose claims the cluster's
own controller manager makes from templates. Takes DRAKIT_TEST_KUBECONFIG; nodes without a kubelet do, nothing has to run.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from lightkube.models.core_v1 import Namespace, Node, Pod, ServiceAccount
from lightkube.models.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice

from drakit.api.errors import StatusError
from drakit.client import Client, Informers
from drakit.client.http import HttpTransport
from drakit.client.kubeconfig import load
from drakit.scheduler import Scheduler

KUBECONFIG = os.environ.get("DRAKIT_TEST_KUBECONFIG", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not KUBECONFIG, reason="DRAKIT_TEST_KUBECONFIG names no kubeconfig of a real cluster"),
]
API = "resource.k8s.io/v1"
NODES, DEVICES, PODS = 2, 3, 6


async def until(holds: Callable[[], Awaitable[Any]], what: str, seconds: float = 60.0) -> Any:
    for _ in range(int(seconds / 0.1)):
        if value := await holds():
            return value
        await asyncio.sleep(0.1)
    raise AssertionError(f"waited for: {what}")


class Fixture:
    """Objects of one run, named so that nothing else in the cluster uses them."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.name = f"drakit-{uuid.uuid4().hex[:8]}"
        self.driver = f"{self.name}.example.com"

    async def populate(self) -> None:
        create, name = self.client.create, self.name
        await create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        room = {"cpu": "8", "memory": "8Gi", "pods": "20"}
        for node in self.nodes():
            ready = [{"type": "Ready", "status": "True", "reason": "Test"}]
            status = {"capacity": room, "allocatable": room, "conditions": ready}
            await create(
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": node, "labels": {name: "yes"}},
                    "status": status,
                }
            )
            await self.client.patch(Node, node, {"spec": {"taints": None}})
            pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
            spec = {
                "driver": self.driver,
                "nodeName": node,
                "pool": pool,
                "devices": [{"name": f"d{i}"} for i in range(DEVICES)],
            }
            await create({"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": node}, "spec": spec})
        selectors = [{"cel": {"expression": f'device.driver == "{self.driver}"'}}]
        await create(
            {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": name}, "spec": {"selectors": selectors}}
        )
        devices = {"requests": [{"name": "r", "exactly": {"deviceClassName": name}}]}
        meta = {"name": "one", "namespace": name}
        await create(
            {
                "apiVersion": API,
                "kind": "ResourceClaimTemplate",
                "metadata": meta,
                "spec": {"spec": {"devices": devices}},
            }
        )
        await until(self.has_account, "the namespace's service account")

    def nodes(self) -> list[str]:
        return [f"{self.name}-{index}" for index in range(NODES)]

    async def has_account(self) -> bool:
        with suppress(StatusError):
            await self.client.get(ServiceAccount, "default", namespace=self.name)
            return True
        return False

    async def create_pod(self, index: int) -> None:
        container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "d"}]}}
        spec = {
            "schedulerName": self.name,
            "nodeSelector": {self.name: "yes"},
            "containers": [container],
            "resourceClaims": [{"name": "d", "resourceClaimTemplateName": "one"}],
            "terminationGracePeriodSeconds": 0,
        }
        await self.client.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{index}", "namespace": self.name}, "spec": spec}
        )

    async def bound(self) -> list[Pod]:
        return [p for p in (await self.client.list(Pod, namespace=self.name)).items if p.spec and p.spec.nodeName]

    async def claims(self) -> list[ResourceClaim]:
        return (await self.client.list(ResourceClaim, namespace=self.name)).items

    async def clean_up(self) -> None:
        with suppress(StatusError):
            await self.client.delete_collection(Pod, namespace=self.name)
        for model, names in (
            (Node, self.nodes()),
            (ResourceSlice, self.nodes()),
            (DeviceClass, [self.name]),
            (Namespace, [self.name]),
        ):
            for name in names:
                with suppress(StatusError):
                    await self.client.delete(model, name)


async def walk() -> None:
    client = Client(HttpTransport(load(KUBECONFIG)))  # type: ignore[arg-type]
    fixture = Fixture(client)
    informers = Informers(client)
    scheduler = asyncio.create_task(Scheduler(client, informers, name=fixture.name).run())
    informers.start()
    try:
        await fixture.populate()
        for index in range(PODS + 1):
            await fixture.create_pod(index)

        async def full() -> bool:
            return len(await fixture.bound()) == PODS

        await until(full, f"{PODS} pods bound, one waiting for a device")
        held = [
            (r.pool, r.device)
            for c in await fixture.claims()
            if c.status and c.status.allocation and c.status.allocation.devices
            for r in c.status.allocation.devices.results or ()
        ]
        assert len(held) == len(set(held)) == NODES * DEVICES
        first = (await fixture.bound())[0]
        assert first.metadata is not None
        await client.delete(Pod, first.metadata.name or "", namespace=fixture.name, grace_seconds=0)
        await until(full, "the freed device given to the pod that waited")
    finally:
        scheduler.cancel()
        await asyncio.gather(scheduler, return_exceptions=True)
        await informers.stop()
        await fixture.clean_up()
        await client.transport.close()


def test_pods_with_generated_claims_are_placed_by_our_scheduler() -> None:
    asyncio.run(walk())
