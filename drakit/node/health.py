"""Device health as the drivers report it: what is older than its timeout is Unknown; kept in the kubelet's `dra_health_state`."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drakit.api.times import at_second
from drakit.clock import Clock
from drakit.driver import files

__all__ = ["DeviceHealth", "HealthStore"]

log = logging.getLogger(__name__)
FILE = "dra_health_state"
DEFAULT_TIMEOUT = 30.0
MAX_DEVICES = 16384
MAX_MESSAGE = 1024
_STATUS = ("Unknown", "Healthy", "Unhealthy")


@dataclass(frozen=True)
class DeviceHealth:
    status: str
    message: str
    received: float  # monotonic: the driver's own clock is not trusted for staleness
    reported: int
    timeout: float


class HealthStore:
    def __init__(self, directory: Path, clock: Clock) -> None:
        self._path = directory / FILE
        self._clock = clock
        self._drivers: dict[str, dict[tuple[str, str], DeviceHealth]] = {}

    def get(self, driver: str, pool: str, device: str) -> tuple[str, str]:
        """(Healthy | Unhealthy | Unknown, message)."""
        found = self._drivers.get(driver, {}).get((pool, device))
        if found is None or self._clock.monotonic() - found.received > found.timeout:
            return "Unknown", found.message if found else ""
        return found.status, found.message

    def update(self, driver: str, report: Any) -> set[tuple[str, str]]:
        """Takes one report; returns the devices whose state changed."""
        if len(report.devices) > MAX_DEVICES:
            log.warning("health report of %s ignored: %d devices, at most %d", driver, len(report.devices), MAX_DEVICES)
            return set()
        now = self._clock.monotonic()
        known = self._drivers.setdefault(driver, {})
        changed = set()
        for entry in report.devices:
            key = (entry.device.pool_name, entry.device.device_name)
            message = entry.message if len(entry.message) <= MAX_MESSAGE else entry.message[: MAX_MESSAGE - 3] + "..."
            timeout = (
                float(entry.health_check_timeout_seconds) if entry.health_check_timeout_seconds > 0 else DEFAULT_TIMEOUT
            )
            before = self.get(driver, *key)
            known[key] = DeviceHealth(
                _STATUS[entry.health] if 0 <= entry.health < 3 else "Unknown",
                message,
                now,
                entry.last_updated_time,
                timeout,
            )
            if before != (known[key].status, message):
                changed.add(key)
        if changed:
            self._save()
        return changed

    def clear(self, driver: str) -> set[tuple[str, str]]:
        known = self._drivers.pop(driver, {})
        if known:
            self._save()
        return set(known)

    def expired(self) -> dict[str, set[tuple[str, str]]]:
        """Devices that fell silent since the last call; they are Unknown from now on."""
        now = self._clock.monotonic()
        silent: dict[str, set[tuple[str, str]]] = {}
        for driver, devices in self._drivers.items():
            for key, health in list(devices.items()):
                if health.status != "Unknown" and now - health.received > health.timeout:
                    devices[key] = DeviceHealth(
                        "Unknown", health.message, health.received, health.reported, health.timeout
                    )
                    silent.setdefault(driver, set()).add(key)
        if silent:
            self._save()
        return silent

    def _save(self) -> None:
        data = {
            driver: {"Devices": {f"{pool}/{name}": self._entry(pool, name, h) for (pool, name), h in devices.items()}}
            for driver, devices in self._drivers.items()
        }
        try:
            files.write(self._path, json.dumps(data, separators=(",", ":")).encode(), mode=0o600)
        except OSError as error:
            log.warning("cannot write %s: %s", self._path, error)  # health is reported anew after a restart

    @staticmethod
    def _entry(pool: str, name: str, health: DeviceHealth) -> dict[str, Any]:
        return {
            "PoolName": pool,
            "DeviceName": name,
            "Health": health.status,
            "LastUpdated": at_second(int(health.reported)),
            "HealthCheckTimeout": int(health.timeout * 1e9),
            "Message": health.message,
        }
