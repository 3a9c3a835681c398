"""Registered DRA drivers: which instance to call, the gRPC calls with their deadlines, and the health streams.

Several instances of one driver may be registered at once (rolling update); a call goes to the newest one that is connected, else to the
newest.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc

from drakit.clock import Clock
from drakit.driver.protocols import DRA, HEALTH
from drakit.node.errors import PluginError
from drakit.node.metrics import NodeMetrics

__all__ = ["HealthSink", "Plugin", "Plugins"]

log = logging.getLogger(__name__)
CALL_TIMEOUT = 45.0
HEALTH_RETRY = 5.0
HealthSink = Callable[[str, Any | None], Awaitable[None]]  # (driver, report or None when the stream ended)


@dataclass(eq=False)
class Plugin:
    """One registered instance."""

    driver: str
    endpoint: str
    service: str  # of DRA
    health_service: str  # of HEALTH, or ""
    channel: grpc.aio.Channel
    metrics: NodeMetrics
    clock: Clock
    timeout: float = CALL_TIMEOUT
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def connected(self) -> bool:
        return bool(self.channel.get_state(try_to_connect=True) == grpc.ChannelConnectivity.READY)

    async def prepare(self, claims: Sequence[tuple[str, str, str]]) -> Any:
        return await self._call("NodePrepareResources", claims)

    async def unprepare(self, claims: Sequence[tuple[str, str, str]]) -> Any:
        return await self._call("NodeUnprepareResources", claims)

    async def _call(self, method: str, claims: Sequence[tuple[str, str, str]]) -> Any:
        protocol = DRA[self.service]
        service = protocol.services["DRAPlugin"]
        request = service.methods[method].request()
        for namespace, name, uid in claims:
            request.claims.add(namespace=namespace, name=name, uid=uid)
        start, code = self.clock.monotonic(), "OK"
        try:
            return await service.stub(self.channel, method)(request, timeout=self.timeout)
        except grpc.aio.AioRpcError as error:
            code = error.code().name
            raise PluginError(f"{method}: rpc error: code = {_go_code(code)} desc = {error.details()}") from error
        finally:
            self.metrics.grpc.observe(self.clock.monotonic() - start, self.driver, service.path(method), _go_code(code))


class Plugins:
    def __init__(
        self, metrics: NodeMetrics, clock: Clock, *, on_health: HealthSink | None = None, timeout: float = CALL_TIMEOUT
    ) -> None:
        self._metrics = metrics
        self._clock = clock
        self._on_health = on_health
        self._timeout = timeout
        self._by_driver: dict[str, list[Plugin]] = {}
        self.changed = asyncio.Event()  # set on every registration and removal; whoever waits clears it

    def drivers(self) -> list[str]:
        return sorted(self._by_driver)

    def get(self, driver: str) -> Plugin:
        instances = self._by_driver.get(driver)
        if not instances:
            raise PluginError(f"DRA driver {driver} is not registered")
        return next((p for p in reversed(instances) if p.connected), instances[-1])

    def connected(self, driver: str) -> bool:
        return any(p.connected for p in self._by_driver.get(driver, ()))

    @staticmethod
    def validate(driver: str, endpoint: str, services: Iterable[str]) -> tuple[str, str]:
        """The DRA and the health service to use; PluginError in the kubelet's words when there is none."""
        offered = list(services)
        if not offered:
            raise PluginError("empty list of supported gRPC services (aka supported versions)")
        service = next((s for s in offered if s in DRA), "")
        if not service:
            raise PluginError(
                f"none of services supported by the plugin ({' '.join(offered)}) are supported by the kubelet ({' '.join(DRA)})"
            )
        return service, next((h for h in HEALTH if h in offered), "")

    def register(self, driver: str, endpoint: str, services: Iterable[str]) -> Plugin:
        service, health = self.validate(driver, endpoint, services)
        instances = self._by_driver.setdefault(driver, [])
        if any(p.endpoint == endpoint for p in instances):
            raise PluginError(f"endpoint {endpoint} already registered for DRA driver plugin {driver}")
        # A restarted driver must be seen within a second, not after gRPC's default two minutes of backoff.
        options = [
            ("grpc.initial_reconnect_backoff_ms", 50),
            ("grpc.min_reconnect_backoff_ms", 50),
            ("grpc.max_reconnect_backoff_ms", 1000),
        ]
        channel = grpc.aio.insecure_channel(f"unix:{endpoint}", options=options)
        plugin = Plugin(driver, endpoint, service, health, channel, self._metrics, self._clock, self._timeout)
        channel.get_state(try_to_connect=True)
        instances.append(plugin)
        if health and self._on_health is not None:
            plugin.tasks.append(asyncio.create_task(self._watch_health(plugin, self._on_health)))
        self.changed.set()
        return plugin

    async def unregister(self, driver: str, endpoint: str) -> None:
        instances = self._by_driver.get(driver, [])
        for plugin in [p for p in instances if p.endpoint == endpoint]:
            instances.remove(plugin)
            for task in plugin.tasks:
                task.cancel()
            await asyncio.gather(*plugin.tasks, return_exceptions=True)
            await plugin.channel.close()
        if not instances:
            self._by_driver.pop(driver, None)
        self.changed.set()

    async def stop(self) -> None:
        for driver, instances in list(self._by_driver.items()):
            for plugin in list(instances):
                await self.unregister(driver, plugin.endpoint)

    async def _watch_health(self, plugin: Plugin, sink: HealthSink) -> None:
        protocol = HEALTH[plugin.health_service]
        stub = protocol.services["DRAResourceHealth"].stub(plugin.channel, "NodeWatchResources")
        while True:
            try:
                async for report in stub(protocol.NodeWatchResourcesRequest(), wait_for_ready=True):
                    await sink(plugin.driver, report)
            except grpc.aio.AioRpcError as error:
                if error.code() == grpc.StatusCode.UNIMPLEMENTED:
                    return
                log.debug("health stream of %s ended: %s", plugin.driver, error.details())
            finally:
                await sink(plugin.driver, None)
            await self._clock.sleep(HEALTH_RETRY)


def _go_code(name: str) -> str:
    return "OK" if name == "OK" else "".join(part.capitalize() for part in name.split("_"))
