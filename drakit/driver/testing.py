"""A test kit for drivers: plays the kubelet call by call, with an embedded API server behind it. No cluster, no root, no hardware.

async with DriverKit(MyDriver()) as kit:
    claim = await kit.claim("gpu", devices=["gpu-0"])
    devices = await kit.prepare(claim)
    assert "GPU=gpu-0" in kit.edits(devices).env
    await kit.unprepare(claim)
    assert kit.leftovers() == []
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc
from lightkube.models.resource_v1 import ResourceClaim, ResourceSlice

from drakit.apiserver.auth import AUTHENTICATED, MASTERS, UserInfo
from drakit.apiserver.local import LocalTransport
from drakit.apiserver.server import Server, Settings
from drakit.client import Client
from drakit.clock import Clock
from drakit.driver.base import Driver
from drakit.driver.endpoint import endpoints
from drakit.driver.errors import DriverError
from drakit.driver.injection import CdiCache, Edits
from drakit.driver.plugin import Plugin
from drakit.driver.protocols import DRA, HEALTH, REGISTRATION

__all__ = ["CallFailed", "DriverKit"]

_TIMEOUT = 10.0


class CallFailed(DriverError):
    """The driver answered with an error, for one claim or for the whole call."""


class DriverKit:
    """`service` chooses the protocol version to speak; `options` go to the Plugin (rolling_update_uid, metadata_versions, …)."""

    def __init__(
        self,
        driver: Driver,
        *,
        node: str = "test-node",
        service: str = "v1.DRAPlugin",
        clock: Clock | None = None,
        directory: Path | None = None,
        **options: Any,
    ) -> None:
        self.driver = driver
        self.node = node
        self.service = service
        self._clock = clock
        self._options = options
        self._temporary = None if directory else tempfile.TemporaryDirectory(prefix="dra-")
        self.directory = directory or Path(self._temporary.name if self._temporary else "")
        self.cdi_directory = self.directory / "cdi"
        self.server: Server
        self.client: Client
        self.plugin: Plugin
        self.info: Any = None
        self._channel: grpc.aio.Channel | None = None

    async def __aenter__(self) -> DriverKit:
        self.server = Server(Settings(listen=False))
        await self.server.start()
        self.client = Client(LocalTransport(self.server, UserInfo("driver-test", (MASTERS, AUTHENTICATED))))
        for body in (
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.node}},
            {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "test"}, "spec": {}},
        ):
            await self.client.create(body)
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()
        await self.server.stop()
        if self._temporary is not None:
            self._temporary.cleanup()

    async def start(self) -> None:
        """Starts the driver and registers it, as the kubelet does when it sees the socket."""
        self.plugin = Plugin(
            self.driver,
            self.client,
            self.node,
            kubelet_directory=self.directory,
            cdi_directory=self.cdi_directory,
            clock=self._clock,
            **self._options,
        )
        await self.plugin.start()
        uid = str(self._options.get("rolling_update_uid", ""))
        socket = endpoints(self.driver.name, kubelet_directory=self.directory, rolling_update_uid=uid).registration
        service = REGISTRATION.services["Registration"]
        async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
            self.info = await service.stub(channel, "GetInfo")(REGISTRATION.InfoRequest(), timeout=_TIMEOUT)
            status = REGISTRATION.RegistrationStatus(plugin_registered=True)
            await service.stub(channel, "NotifyRegistrationStatus")(status, timeout=_TIMEOUT)
        self._channel = grpc.aio.insecure_channel(f"unix:{self.info.endpoint}")

    async def stop(self) -> None:
        if self._channel is not None:
            await self._channel.close()
            self._channel = None
        await self.plugin.stop()

    async def restart(self) -> None:
        """The driver's process ends and comes back: only its files remain."""
        await self.stop()
        await self.start()

    async def slices(self) -> list[dict[str, Any]]:
        """The published ResourceSlices, in order, once what the driver wants is stored."""
        await asyncio.wait_for(self.plugin.publisher.synced(), _TIMEOUT)
        listing = await self.client.list(ResourceSlice)
        return sorted((item.to_dict() for item in listing.items), key=lambda s: str(s["metadata"]["name"]))

    async def claim(
        self,
        name: str,
        *,
        devices: Sequence[str],
        request: str = "device",
        pool: str = "",
        namespace: str = "default",
        config: Sequence[Mapping[str, Any]] = (),
        annotations: Mapping[str, str] | None = None,
        result: Mapping[str, Any] | None = None,
    ) -> ResourceClaim:
        """A claim that is allocated these devices of the driver, as the scheduler would have written it."""
        base = request.partition("/")[0]
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": namespace, "annotations": dict(annotations or {})},
            "spec": {"devices": {"requests": [_request(base, request, len(devices))]}},
        }
        created = await self.client.create(body)
        results = [
            {"driver": self.driver.name, "pool": pool or self.node, "device": d, "request": request, **(result or {})}
            for d in devices
        ]
        configs = [
            {"source": "FromClaim", "opaque": {"driver": self.driver.name, "parameters": dict(c)}} for c in config
        ]
        allocation: dict[str, Any] = {"devices": {"results": results, **({"config": configs} if configs else {})}}
        plain = created.to_dict()
        plain["status"] = {"allocation": allocation}
        stored: ResourceClaim = await self.client.update(plain, subresource="status")
        return stored

    async def prepare(self, *claims: ResourceClaim) -> list[Any]:
        """NodePrepareResources; the devices of all claims. CallFailed carries the driver's error."""
        return [
            device
            for answer in (await self._call("NodePrepareResources", claims)).values()
            for device in answer.devices
        ]

    async def unprepare(self, *claims: ResourceClaim) -> None:
        await self._call("NodeUnprepareResources", claims)

    async def _call(self, method: str, claims: Sequence[ResourceClaim]) -> dict[str, Any]:
        assert self._channel is not None
        protocol = DRA[self.service]
        service = protocol.services["DRAPlugin"]
        request = service.methods[method].request()
        for claim in claims:
            meta = claim.metadata
            assert meta is not None
            request.claims.add(namespace=meta.namespace, name=meta.name, uid=meta.uid)
        try:
            response = await service.stub(self._channel, method)(request, timeout=_TIMEOUT)
        except grpc.aio.AioRpcError as error:
            raise CallFailed(str(error.details())) from error
        answers = dict(response.claims)
        for answer in answers.values():
            if answer.error:
                raise CallFailed(answer.error)
        if len(answers) != len(claims):
            raise CallFailed(f"{method} answered for {len(answers)} of {len(claims)} claims")
        return answers

    async def health(self, service: str = "v1.DRAResourceHealth") -> list[Any]:
        """The first report of the health stream."""
        assert self._channel is not None
        protocol = HEALTH[service]
        stub = protocol.services["DRAResourceHealth"].stub(self._channel, "NodeWatchResources")
        call = stub(protocol.NodeWatchResourcesRequest(), timeout=_TIMEOUT)
        try:
            async for report in call:
                return list(report.devices)
        finally:
            call.cancel()
        return []

    def edits(self, devices: Sequence[Any]) -> Edits:
        """What a container with these devices would get."""
        return CdiCache((self.cdi_directory,)).resolve(i for d in devices for i in d.cdi_device_ids)

    def leftovers(self) -> list[Path]:
        """Files of claims (CDI specs, metadata) that are still there."""
        metadata = endpoints(self.driver.name, kubelet_directory=self.directory).data_directory / "dra-device-metadata"
        found = list(self.cdi_directory.glob("*")) if self.cdi_directory.is_dir() else []
        return found + (list(metadata.glob("*")) if metadata.is_dir() else [])


def _request(base: str, request: str, count: int) -> dict[str, Any]:
    exactly = {"deviceClassName": "test", "allocationMode": "ExactCount", "count": max(count, 1)}
    if "/" in request:
        return {"name": base, "firstAvailable": [{"name": request.partition("/")[2], **exactly}]}
    return {"name": base, "exactly": exactly}
