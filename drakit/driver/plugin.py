"""Runs a driver on a node: the sockets the kubelet talks to, the slices in the API, and the order of things between them.

Start: checkpoint read, DRA service up, then registration (the kubelet may call at once), then slices. Stop: registration down first, so
that the kubelet stops calling, sockets removed, slices left. Calls are serialized: within the process by a lock, between the two
instances of a rolling update by a lock file.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
from lightkube.models.resource_v1 import ResourceClaim

from drakit.api.errors import StatusError
from drakit.client import Client
from drakit.clock import Clock, SystemClock
from drakit.driver import metadata as metadata_files
from drakit.driver import status
from drakit.driver.base import HEALTHY, UNHEALTHY, Claim, Driver, Health, as_pools, call
from drakit.driver.endpoint import KUBELET_DIRECTORY, endpoints
from drakit.driver.errors import ClaimError, DriverError
from drakit.driver.files import remove
from drakit.driver.metadata import ClaimRef, MetadataDevice, MetadataWriter
from drakit.driver.prepared import PreparedClaims
from drakit.driver.protocols import DRA, DRA_PLUGIN, HEALTH, REGISTRATION
from drakit.driver.publisher import Publisher

__all__ = ["CDI_DIRECTORY", "Plugin"]

log = logging.getLogger(__name__)
CDI_DIRECTORY = Path("/var/run/cdi")
HEALTH_INTERVAL = 10.0  # a third of the kubelet's timeout
_HEALTH = {HEALTHY: 1, UNHEALTHY: 2}


class Plugin:
    def __init__(
        self,
        driver: Driver,
        client: Client,
        node_name: str,
        *,
        kubelet_directory: Path = KUBELET_DIRECTORY,
        cdi_directory: Path = CDI_DIRECTORY,
        rolling_update_uid: str = "",
        services: Sequence[str] = (),
        metadata_versions: Sequence[str] = metadata_files.VERSIONS,
        report_status: bool = True,
        on_error: Callable[[Exception, str], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.driver = driver
        self._client = client
        self._node_name = node_name
        self._endpoints = endpoints(
            driver.name, kubelet_directory=kubelet_directory, rolling_update_uid=rolling_update_uid
        )
        self._rolling = bool(rolling_update_uid)
        self._services = tuple(services) or (*DRA, *(HEALTH if driver.reports_health else ()))
        self._cdi_directory = cdi_directory
        self._clock = clock or SystemClock()
        self._report_status = report_status
        data = self._endpoints.data_directory
        self.metadata = (
            MetadataWriter(driver.name, data, cdi_directory, metadata_versions) if metadata_versions else None
        )
        self.publisher = Publisher(client, driver.name, node_name=node_name, on_error=on_error, clock=self._clock)
        self._lock = asyncio.Lock()
        self._prepared: PreparedClaims | None = None
        self._servers: list[tuple[grpc.aio.Server, Path]] = []
        self.registered = asyncio.Event()

    async def start(self) -> None:
        data = self._endpoints.data_directory
        await asyncio.to_thread(data.mkdir, mode=0o750, parents=True, exist_ok=True)
        self._prepared = PreparedClaims(
            self.driver, data_directory=data, cdi_directory=self._cdi_directory, metadata=self.metadata
        )
        await self._serve(self._endpoints.service, self._dra_handlers())
        await self._serve(self._endpoints.registration, [self._registration_handler()])
        await self.publisher.start()
        await self.publish()

    async def stop(self) -> None:
        await self.publisher.stop()
        for server, path in reversed(self._servers):
            await server.stop(grace=1.0)
            remove(path)
        self._servers = []

    async def publish(self) -> None:
        """Looks for devices again and publishes what changed; drivers call it after hotplug or when taints change."""
        found = await call(self.driver.discover())
        self.publisher.update(as_pools(found, self._node_name))

    async def update_metadata(self, claim: ClaimRef, request: str, devices: Sequence[MetadataDevice]) -> int:
        """New content for one request's metadata file, for what is known only once the pod runs."""
        if self.metadata is None:
            raise DriverError("device metadata is not enabled for this plugin")
        return self.metadata.update(claim, request, devices)

    async def _serve(self, path: Path, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        await asyncio.to_thread(path.parent.mkdir, mode=0o750, parents=True, exist_ok=True)
        remove(path)  # a stale socket of an instance that was killed
        server = grpc.aio.server()
        server.add_generic_rpc_handlers(tuple(handlers))
        server.add_insecure_port(f"unix:{path}")
        await server.start()
        self._servers.append((server, path))

    def _registration_handler(self) -> grpc.GenericRpcHandler:
        async def info(_request: Any, _context: Any) -> Any:
            return REGISTRATION.PluginInfo(
                type=DRA_PLUGIN,
                name=self.driver.name,
                endpoint=str(self._endpoints.service),
                supported_versions=list(self._services),
            )

        async def notify(request: Any, _context: Any) -> Any:
            if request.plugin_registered:
                self.registered.set()
            else:
                log.error("the kubelet refused driver %s: %s", self.driver.name, request.error)
            return REGISTRATION.RegistrationStatusResponse()

        service = REGISTRATION.services["Registration"]
        return service.handler({"GetInfo": info, "NotifyRegistrationStatus": notify})

    def _dra_handlers(self) -> list[grpc.GenericRpcHandler]:
        handlers = []
        for name in self._services:
            if name in DRA:
                protocol = DRA[name]
                handlers.append(
                    protocol.services["DRAPlugin"].handler(
                        {
                            "NodePrepareResources": self._prepare_with(protocol),
                            "NodeUnprepareResources": self._unprepare_with(protocol),
                        }
                    )
                )
            else:
                protocol = HEALTH[name]
                service = protocol.services["DRAResourceHealth"]
                handlers.append(service.handler({"NodeWatchResources": self._health_with(protocol)}))
        return handlers

    def _prepare_with(self, protocol: Any) -> Callable[..., Any]:
        async def handle(request: Any, context: Any) -> Any:
            try:
                claims = await asyncio.gather(*(self._get_claim(c) for c in request.claims))
            except ClaimError as error:
                await context.abort(grpc.StatusCode.UNKNOWN, str(error))
            response = protocol.NodePrepareResourcesResponse()
            async with self._serialized() as prepared:
                for claim in claims:
                    answer = response.claims[claim.uid]
                    try:
                        for device in await prepared.prepare(claim):
                            message = answer.devices.add(
                                request_names=device["requests"],
                                pool_name=device["pool"],
                                device_name=device["device"],
                                cdi_device_ids=device["cdi_ids"],
                            )
                            if device["share_id"] and hasattr(message, "share_id"):
                                message.share_id = device["share_id"]
                    except Exception as error:  # the driver's own code: whatever it raises concerns this claim only
                        self._log_failure("prepare", claim.ref, error)
                        del answer.devices[:]
                        answer.error = str(error) or type(error).__name__
            if self._report_status:
                await self._write_status(claims, response)
            return response

        return handle

    def _unprepare_with(self, protocol: Any) -> Callable[..., Any]:
        async def handle(request: Any, _context: Any) -> Any:
            response = protocol.NodeUnprepareResourcesResponse()
            async with self._serialized() as prepared:
                for claim in request.claims:
                    answer = response.claims[claim.uid]
                    ref = ClaimRef(claim.namespace, claim.name, claim.uid)
                    try:
                        await prepared.unprepare(ref)
                    except Exception as error:  # as above
                        self._log_failure("unprepare", ref, error)
                        answer.error = str(error) or type(error).__name__
            return response

        return handle

    def _health_with(self, protocol: Any) -> Callable[..., Any]:
        async def handle(_request: Any, _context: Any) -> AsyncIterator[Any]:
            async for report in self._reports():
                response = protocol.NodeWatchResourcesResponse()
                for health in report:
                    entry = response.devices.add(
                        health=_HEALTH.get(health.status, 0),
                        last_updated_time=int(self._clock.now().timestamp()),
                        health_check_timeout_seconds=health.timeout_seconds,
                        message=health.message,
                    )
                    entry.device.pool_name, entry.device.device_name = health.pool, health.device
                yield response

        return handle

    async def _reports(self) -> AsyncIterator[Iterable[Health]]:
        found = self.driver.health()
        if isinstance(found, AsyncIterator):
            async for report in found:
                yield report
            return
        while True:
            yield await call(self.driver.health())
            await self._clock.sleep(HEALTH_INTERVAL)

    async def _get_claim(self, claim: Any) -> Claim:
        where = f"{claim.namespace}/{claim.name}"
        try:
            found = await self._client.get(ResourceClaim, claim.name, namespace=claim.namespace)
        except StatusError as error:
            raise ClaimError(f"retrieve claim {where}: {error}") from error
        view = Claim(found, self.driver.name)
        _ = view.allocation  # raises "not allocated"
        if view.uid != claim.uid:
            raise ClaimError(f"claim {where} got replaced")
        return view

    @asynccontextmanager
    async def _serialized(self) -> AsyncIterator[PreparedClaims]:
        assert self._prepared is not None
        async with self._lock:
            if not self._rolling:
                yield self._prepared
                return
            fd = os.open(
                self._endpoints.data_directory / "serialize.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
            try:
                await asyncio.to_thread(fcntl.flock, fd, fcntl.LOCK_EX)
                self._prepared.reload()
                yield self._prepared
            finally:
                os.close(fd)

    async def _write_status(self, claims: Sequence[Claim], response: Any) -> None:
        assert self._prepared is not None
        for claim in claims:
            if response.claims[claim.uid].error:
                continue
            devices = self._prepared.status_of(claim.uid)
            if devices:
                await status.report(self._client, self.driver.name, claim.ref, devices)

    def _log_failure(self, what: str, ref: ClaimRef, error: Exception) -> None:
        expected = isinstance(error, DriverError | OSError)
        log.error(
            "%s of claim %s/%s failed: %s", what, ref.namespace, ref.name, error, exc_info=None if expected else error
        )
