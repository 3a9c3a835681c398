"""What a driver author writes: a class with discover, prepare, unprepare and, if devices can fail, health.

    class MyDriver(Driver):
        name = "gpu.example.com"
        def discover(self): return {"gpu-0": {"attributes": {"model": {"string": "A100"}}}}
        def prepare(self, claim): return [PreparedDevice.of(r, edits={"env": [f"GPU={r.device}"]}) for r in claim.results]
        def unprepare(self, claim): pass

Methods may be `async`. The rest (sockets, slices, CDI and metadata files, restarts) is `drakit.driver.Plugin`'s work.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lightkube.models.resource_v1 import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceRequestAllocationResult,
    ResourceClaim,
)

from drakit.driver.errors import ClaimError
from drakit.driver.metadata import ClaimRef
from drakit.driver.slices import Pool

__all__ = ["Claim", "Driver", "Health", "PreparedDevice", "call"]

POD_CLAIM_ANNOTATION = "resource.kubernetes.io/pod-claim-name"
HEALTHY, UNHEALTHY, UNKNOWN = "Healthy", "Unhealthy", "Unknown"


@dataclass(frozen=True)
class PreparedDevice:
    """One allocated device as the container will see it.

    `edits` are CDI container edits, for which the SDK writes the spec; `cdi_ids` names devices of specs that exist already.
    `attributes` and `network_data` go to the device metadata file, `data` and `conditions` to the claim's status.devices.
    """

    requests: Sequence[str]
    pool: str
    device: str
    share_id: str = ""
    edits: Mapping[str, Any] = field(default_factory=dict)
    cdi_ids: Sequence[str] = ()
    attributes: Mapping[str, Any] | None = None
    network_data: Mapping[str, Any] | None = None
    data: Mapping[str, Any] | None = None
    conditions: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def of(cls, result: DeviceRequestAllocationResult, **fields: Any) -> PreparedDevice:
        """For one allocation result of the claim."""
        return cls((result.request,), result.pool, result.device, result.shareID or "", **fields)


@dataclass(frozen=True)
class Claim:
    """An allocated claim, seen by one driver."""

    object: ResourceClaim
    driver: str

    @property
    def ref(self) -> ClaimRef:
        meta = self.object.metadata
        assert meta is not None
        annotations = meta.annotations or {}
        return ClaimRef(
            meta.namespace or "", meta.name or "", meta.uid or "", annotations.get(POD_CLAIM_ANNOTATION, "")
        )

    @property
    def uid(self) -> str:
        return self.ref.uid

    @property
    def allocation(self) -> AllocationResult:
        allocation = self.object.status.allocation if self.object.status else None
        if allocation is None:
            raise ClaimError(f"claim {self.ref.namespace}/{self.ref.name} not allocated")
        return allocation

    @property
    def results(self) -> list[DeviceRequestAllocationResult]:
        """The devices of this driver, in the order of allocation."""
        devices = self.allocation.devices
        return [r for r in (devices.results or () if devices else ()) if r.driver == self.driver]

    def configs(self, result: DeviceRequestAllocationResult) -> list[Mapping[str, Any]]:
        """Opaque parameters that apply to a result, class before claim: the last one wins where a driver takes only one."""
        devices = self.allocation.devices
        entries = [c for c in (devices.config or () if devices else ()) if _applies(c, self.driver, result.request)]
        entries.sort(key=lambda c: c.source != "FromClass")
        return [dict(c.opaque.parameters) for c in entries if c.opaque is not None]


def _applies(config: DeviceAllocationConfiguration, driver: str, request: str) -> bool:
    if config.opaque is None or config.opaque.driver != driver:
        return False
    return not config.requests or request in config.requests or request.partition("/")[0] in config.requests


@dataclass(frozen=True)
class Health:
    pool: str
    device: str
    status: str = HEALTHY
    message: str = ""
    timeout_seconds: int = 0  # 0: the kubelet's 30 s


class Driver:
    """Base of all drivers. `cdi_class` is the class part of the CDI kind `k8s.<name>/<cdi_class>`."""

    name: str = ""
    cdi_class: str = "device"

    def discover(self) -> Any:
        """Devices of this node: {device name: {attributes, capacity, taints, …}}, a list of devices, or {pool name: Pool}."""
        raise NotImplementedError

    def prepare(self, claim: Claim) -> Any:
        """Sequence of PreparedDevice. Idempotent; ClaimError (or any exception) is reported and retried."""
        raise NotImplementedError

    def unprepare(self, claim: ClaimRef) -> Any:
        """Undo prepare. Must also succeed for a claim never prepared; the claim may not exist any more."""

    def health(self) -> Iterable[Health] | AsyncIterator[Iterable[Health]]:
        """Reports of device health: a list, asked for again and again, or an async iterator of lists."""
        raise NotImplementedError

    @property
    def reports_health(self) -> bool:
        return type(self).health is not Driver.health


def as_pools(found: Any, default_pool: str) -> dict[str, Pool]:
    """The forms `discover` may return, as pools."""
    if isinstance(found, Pool):
        return {default_pool: found}
    if isinstance(found, Mapping):
        if all(isinstance(v, Pool) for v in found.values()) and found:
            return dict(found)
        return {default_pool: Pool(devices=tuple({"name": name, **device} for name, device in found.items()))}
    return {default_pool: Pool(devices=tuple(found))}


async def call(value: Any) -> Any:
    """The result of a method that may be a coroutine function or a plain one."""
    return await value if inspect.isawaitable(value) else value
