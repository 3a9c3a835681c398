"""Startup, liveness and readiness probes: one task per probe of a running container."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import aiohttp
import grpc
from lightkube.models.core_v1 import Container, Probe

from drakit.clock import Clock
from drakit.driver import wire
from drakit.node.errors import RuntimeFailure
from drakit.node.runtime import Runtime

__all__ = ["ProbeResult", "Prober", "find_port"]

_HEALTH = wire.build(
    "grpc.health.v1",
    {"HealthCheckRequest": "service:1", "HealthCheckResponse": "status:1:int32"},
    services={"Health": {"Check": "HealthCheckRequest HealthCheckResponse"}},
)
_SERVING = 1
_OUTPUT = 10 * 1024


@dataclass(frozen=True)
class ProbeResult:
    ok: bool
    output: str = ""


class Prober:
    """Runs one probe until cancelled; `report(ok, output)` is called on every change after its threshold was reached."""

    def __init__(self, runtime: Runtime, container: Container, container_id: str, address: str, clock: Clock) -> None:
        self._runtime = runtime
        self._container = container
        self._id = container_id
        self._address = address
        self._clock = clock

    async def run(
        self,
        probe: Probe,
        report: Callable[[bool, str], Awaitable[None]],
        failed: Callable[[str], None],
        *,
        until_success: bool = False,
    ) -> None:
        """`failed(output)` is told of every single failure, for the event."""
        await self._clock.sleep(float(probe.initialDelaySeconds or 0))
        successes = failures = 0
        reported: bool | None = None
        while True:
            result = await self.once(probe)
            successes, failures = (successes + 1, 0) if result.ok else (0, failures + 1)
            if not result.ok:
                failed(result.output)
            if result.ok and successes >= (probe.successThreshold or 1) and reported is not True:
                reported = True
                await report(True, result.output)
                if until_success:
                    return
            elif not result.ok and failures >= (probe.failureThreshold or 3) and reported is not False:
                reported = False
                await report(False, result.output)
            await self._clock.sleep(float(probe.periodSeconds or 10))

    async def once(self, probe: Probe) -> ProbeResult:
        timeout = float(probe.timeoutSeconds or 1)
        try:
            if probe.exec is not None:
                result = await self._runtime.exec_sync(self._id, probe.exec.command or [], timeout)
                return ProbeResult(result.exit_code == 0, result.output[:_OUTPUT].decode(errors="replace"))
            if probe.httpGet is not None:
                return await asyncio.wait_for(self._http(probe), timeout)
            if probe.tcpSocket is not None:
                host = probe.tcpSocket.host or self._address
                _, writer = await asyncio.wait_for(
                    asyncio.open_connection(host, find_port(self._container, probe.tcpSocket.port)), timeout
                )
                writer.close()
                return ProbeResult(True)
            if probe.grpc is not None:
                return await self._grpc(probe, timeout)
        except TimeoutError:
            return ProbeResult(
                False, f"command timed out after {timeout:g}s" if probe.exec else "context deadline exceeded"
            )
        except (OSError, RuntimeFailure, aiohttp.ClientError, ValueError) as error:
            return ProbeResult(False, str(error))
        return ProbeResult(True)

    async def _http(self, probe: Probe) -> ProbeResult:
        get = probe.httpGet
        assert get is not None
        scheme, host = (get.scheme or "HTTP").lower(), get.host or self._address
        path = get.path or "/"
        url = f"{scheme}://{host}:{find_port(self._container, get.port)}{path if path.startswith('/') else '/' + path}"
        headers = {h.name: h.value for h in get.httpHeaders or ()}
        # As in the kubelet, certificates are not verified: a probe asks whether someone answers, not who.
        async with aiohttp.ClientSession() as session, session.get(url, headers=headers, ssl=False) as response:
            if 200 <= response.status < 400:
                return ProbeResult(True)
            return ProbeResult(False, f"HTTP probe failed with statuscode: {response.status}")

    async def _grpc(self, probe: Probe, timeout: float) -> ProbeResult:
        assert probe.grpc is not None
        async with grpc.aio.insecure_channel(f"{self._address}:{probe.grpc.port}") as channel:
            request = _HEALTH.HealthCheckRequest(service=probe.grpc.service or "")
            try:
                answer = await _HEALTH.services["Health"].stub(channel, "Check")(request, timeout=timeout)
            except grpc.aio.AioRpcError as error:
                return ProbeResult(False, f"error: {error.details()}")
        return ProbeResult(answer.status == _SERVING, f"service unhealthy (responded with {answer.status})")


def find_port(container: Container, port: int | str) -> int:
    """A number, or the name of one of the container's ports."""
    if isinstance(port, int) or str(port).isdigit():
        return int(port)
    for declared in container.ports or ():
        if declared.name == port:
            return declared.containerPort
    raise ValueError(f"couldn't find port {port!r} in container {container.name}")
