"""A driver for devices that do not exist: any profile becomes a real DRA driver, with real sockets, CDI files and metadata.

A container that gets a device sees it in its environment (dra-example-driver's variables), as /dev/drakit/<device> (which behaves like
/dev/null), as a description under /etc/drakit/devices and, for NVIDIA's driver name, in the output of `nvidia-smi -L`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any

from lightkube.models.resource_v1 import DeviceRequestAllocationResult

from drakit.driver import Claim, ClaimRef, Driver, Health, Pool, PreparedDevice
from drakit.driver import files as checked
from drakit.driver.base import HEALTHY
from drakit.driver.errors import ClaimError
from drakit.drivers.profiles import Profile

__all__ = ["SimulatedDriver", "drivers_of"]

Plain = Mapping[str, Any]
DESCRIPTIONS = "/etc/drakit/devices"
REPORT_INTERVAL = 10.0
_LIST_DEVICES = """#!/bin/sh
# Lists the simulated devices of this container in the form of nvidia-smi -L.
number=0
for file in /etc/drakit/devices/*; do
    [ -e "$file" ] || continue
    echo "GPU $number: $(cat "$file")"
    number=$((number + 1))
done
[ "$number" -gt 0 ] || { echo "No devices found."; exit 6; }
"""


class SimulatedDriver(Driver):
    """`pools` as the profile gives them; `directory` holds the files that are mounted into containers."""

    def __init__(
        self, name: str, node_name: str, pools: Mapping[str, Pool], directory: Path, *, cdi_class: str = ""
    ) -> None:
        self.name = name
        self.cdi_class = cdi_class or re.sub(r"[^a-z0-9]", "", name.partition(".")[0]) or "device"
        self._node = node_name
        self._pools = dict(pools)
        self._directory = directory
        self._health: dict[tuple[str, str], Health] = {}
        self._reported = asyncio.Event()

    @classmethod
    def from_profile(cls, profile: Profile, driver: str, node_name: str, directory: Path) -> SimulatedDriver:
        pools: dict[str, Pool] = {}
        for spec in (s["spec"] for s in profile.slices(node_name, 0) if s["spec"]["driver"] == driver):
            before = pools.get(spec["pool"]["name"], Pool())
            pools[spec["pool"]["name"]] = Pool(
                devices=(*before.devices, *(spec.get("devices") or ())),
                counter_sets=(*before.counter_sets, *(spec.get("sharedCounters") or ())),
                partition_type_attribute=spec.get("partitionTypeAttribute", before.partition_type_attribute),
            )
        return cls(driver, node_name, pools, directory)

    def discover(self) -> dict[str, Pool]:
        return dict(self._pools)

    def prepare(self, claim: Claim) -> list[PreparedDevice]:
        return [self._prepare(claim, result, number) for number, result in enumerate(claim.results)]

    def unprepare(self, claim: ClaimRef) -> None:
        """Nothing of a claim's own is left behind: descriptions belong to devices."""

    def _prepare(self, claim: Claim, result: DeviceRequestAllocationResult, number: int) -> PreparedDevice:
        device = self._device(result.pool, result.device)
        attributes = device.get("attributes") or {}
        kind = self.cdi_class.upper()
        env = [
            f"KUBERNETES_NODE_NAME={self._node}",
            f"DRA_RESOURCE_DRIVER_NAME={self.name}",
            f"DRA_ADMIN_ACCESS={'true' if result.adminAccess else 'false'}",
            f"{kind}_DEVICE_{number}={result.device}",
            f"{kind}_DEVICE_{_variable(result.device)}_RESOURCE_CLAIM={claim.uid}",
            *_sharing(kind, number, claim.configs(result)),
        ]
        for name, amount in sorted((result.consumedCapacity or {}).items()):
            env.append(f"{kind}_DEVICE_{number}_{_variable(name)}={amount}")
        mounts = [self._bind(self._describe(result.device, attributes), f"{DESCRIPTIONS}/{result.device}")]
        if self.name == "gpu.nvidia.com":
            mounts.append(self._bind(self._tool(), "/usr/bin/nvidia-smi"))
        node = {
            "path": f"/dev/drakit/{result.device}",
            "hostPath": "/dev/null",
            "type": "c",
            "major": 1,
            "minor": 3,
            "fileMode": 0o666,
        }
        known = {k: _plain(attributes[k]) for k in ("uuid", "model", "productName", "driverVersion") if k in attributes}
        return PreparedDevice.of(
            result,
            edits={"env": env, "mounts": mounts, "deviceNodes": [node]},
            attributes=attributes,
            data=known or None,
        )

    def _device(self, pool: str, name: str) -> Plain:
        for device in self._pools.get(pool, Pool()).devices:
            if device["name"] == name:
                return device
        raise ClaimError(
            f"device {pool}/{name} does not exist on node {self._node}: was the claim allocated for another node?"
        )

    def _describe(self, name: str, attributes: Plain) -> Path:
        model = _plain(attributes.get("productName") or attributes.get("model") or {"string": self.name})
        uuid = _plain(attributes.get("uuid") or {"string": f"{self._node}/{name}"})
        return self._file(checked.component(name, "device name"), f"{model} (UUID: {uuid})\n", 0o644)

    def _tool(self) -> Path:
        return self._file("nvidia-smi", _LIST_DEVICES, 0o755)

    def _file(self, name: str, text: str, mode: int) -> Path:
        path = self._directory / name
        if checked.read_bytes(path) != text.encode():
            self._directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            checked.write(path, text.encode(), mode=mode)
        return path

    @staticmethod
    def _bind(host: Path, container: str) -> dict[str, Any]:
        return {"hostPath": str(host), "containerPath": container, "options": ["ro", "bind"]}

    # Health: all devices are well until someone says otherwise.

    def set_health(self, pool: str, device: str, status: str, message: str = "") -> None:
        self._health[(pool, device)] = Health(pool, device, status, message)
        self._reported.set()

    async def health(self) -> AsyncIterator[Iterable[Health]]:
        while True:
            self._reported.clear()
            yield [
                self._health.get((pool, d["name"]), Health(pool, d["name"], HEALTHY))
                for pool, described in self._pools.items()
                for d in described.devices
            ]
            try:
                await asyncio.wait_for(self._reported.wait(), REPORT_INTERVAL)
            except TimeoutError:
                continue


def drivers_of(profile: Profile, node_name: str, directory: Path) -> list[SimulatedDriver]:
    """One driver per driver name of the profile."""
    return [
        SimulatedDriver.from_profile(profile, name, node_name, directory / checked.component(name, "driver name"))
        for name in profile.drivers
    ]


def _plain(attribute: Plain) -> Any:
    return next(iter(attribute.values()), "")


def _variable(name: str) -> str:
    return re.sub(r"[^A-Z0-9]", "_", name.upper())


def _sharing(kind: str, number: int, configs: list[Mapping[str, Any]]) -> list[str]:
    """dra-example-driver's GpuConfig: the last one that applies wins."""
    sharing = (configs[-1].get("sharing") or {}) if configs else {}
    if not sharing:
        return []
    strategy = sharing.get("strategy", "TimeSlicing")
    env = [f"{kind}_DEVICE_{number}_SHARING_STRATEGY={strategy}"]
    if strategy == "TimeSlicing":
        interval = (sharing.get("timeSlicingConfig") or {}).get("interval", "Default")
        env.append(f"{kind}_DEVICE_{number}_TIMESLICE_INTERVAL={interval}")
    elif strategy == "SpacePartitioning":
        count = (sharing.get("spacePartitioningConfig") or {}).get("partitionCount", 1)
        env.append(f"{kind}_DEVICE_{number}_PARTITION_COUNT={count}")
    else:
        raise ClaimError(f"sharing.strategy: {strategy!r} is not TimeSlicing or SpacePartitioning")
    return env
