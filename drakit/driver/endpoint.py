"""Where a driver's sockets are: names that fit a Unix socket address, unique per instance during a rolling update."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path

from drakit.driver import files
from drakit.driver.errors import DriverError

__all__ = ["KUBELET_DIRECTORY", "Endpoints", "endpoints"]

KUBELET_DIRECTORY = Path("/var/lib/kubelet")
SOCKET_PATH_MAX = 107  # sun_path less its terminating NUL


@dataclass(frozen=True)
class Endpoints:
    data_directory: Path
    service: Path  # the DRA socket
    registration: Path


def endpoints(driver: str, *, kubelet_directory: Path = KUBELET_DIRECTORY, rolling_update_uid: str = "") -> Endpoints:
    """The kubelet's places for this driver. `rolling_update_uid` (the pod's UID) lets old and new instance run side by side."""
    files.component(driver, "driver name")
    registry, data = kubelet_directory / "plugins_registry", kubelet_directory / "plugins" / driver
    uid = rolling_update_uid
    if not uid:
        candidates = [f"{driver}-reg.sock"]
        service = data / "dra.sock"
    else:
        files.component(uid, "pod UID")
        candidates = [
            f"{driver}-{uid}-reg.sock",
            f"{driver}-{_short(uid.encode(), 8)}-reg.sock",
            f"dra-{_short(driver.encode() + bytes(1) + uid.encode(), 16)}-reg.sock",
        ]
        service = data / f"dra-{uid}.sock"
    for name in candidates:
        registration = registry / name
        if len(str(registration).encode()) <= SOCKET_PATH_MAX:
            break
    for path in (registration, service):
        if len(str(path).encode()) > SOCKET_PATH_MAX:
            raise DriverError(
                f"socket path {path} is longer than {SOCKET_PATH_MAX} bytes: use a shorter kubelet directory"
            )
    return Endpoints(data, service, registration)


def _short(data: bytes, length: int) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()[:length]).decode().rstrip("=")
