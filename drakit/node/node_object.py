"""The Node object of this machine: registration, status, the Lease that says it is alive, and the slices of drivers that are gone."""

from __future__ import annotations

import logging
import os
import platform
import shutil
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lightkube.models.coordination_v1 import Lease
from lightkube.models.core_v1 import Node
from lightkube.models.resource_v1 import ResourceSlice

from drakit.api.errors import StatusError
from drakit.api.times import micro_timestamp, timestamp
from drakit.client import Client
from drakit.clock import Clock
from drakit.node.plugins import Plugins
from drakit.node.runtime import RuntimeInfo

__all__ = ["KUBELET_VERSION", "NodeObject", "SliceWiper", "machine_resources", "primary_address"]

log = logging.getLogger(__name__)
KUBELET_VERSION = "v1.37.0-drakit"
LEASE_NAMESPACE, LEASE_SECONDS, LEASE_INTERVAL = "kube-node-lease", 40, 10.0
STATUS_INTERVAL = 300.0
WIPE_DELAY = 30.0
NOTES_ANNOTATION = "drakit.dev/runtime-notes"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def machine_resources(root: Path) -> dict[str, str]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    disk = shutil.disk_usage(root).total
    return {
        "cpu": str(os.cpu_count() or 1),
        "memory": f"{memory // 1024}Ki",
        "ephemeral-storage": f"{disk // 1024}Ki",
        "pods": "110",
    }


def primary_address() -> str:
    """The address this machine would speak from; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # TEST-NET-1: a route is looked up, no packet leaves
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


class NodeObject:
    def __init__(
        self,
        client: Client,
        name: str,
        clock: Clock,
        *,
        address: str,
        resources: Mapping[str, str],
        runtime: RuntimeInfo,
        port: Callable[[], int],
        labels: Mapping[str, str] | None = None,
        taints: list[dict[str, Any]] | None = None,
    ) -> None:
        self._client = client
        self.name = name
        self._clock = clock
        self._address = address
        self._resources = dict(resources)
        self._runtime = runtime
        self._port = port
        self._labels = dict(labels or {})
        self._taints = taints or []
        self.uid = ""

    async def register(self) -> None:
        """Creates the Node, or takes over the one there is."""
        machine = platform.machine()
        arch = _ARCHITECTURES.get(machine, machine)
        labels = {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": arch,
            "beta.kubernetes.io/os": "linux",
            "beta.kubernetes.io/arch": arch,
            **self._labels,
        }
        annotations = {NOTES_ANNOTATION: "; ".join(self._runtime.notes)} if self._runtime.notes else {}
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": labels, "annotations": annotations},
            "spec": {"taints": self._taints} if self._taints else {},
            "status": self.status(ready=False),
        }
        try:
            node = await self._client.create(body)
        except StatusError as error:
            if error.code != 409:
                raise
            node = await self._client.patch(
                Node, self.name, {"metadata": {"labels": labels, "annotations": annotations}}
            )
        assert node.metadata is not None
        self.uid = node.metadata.uid or ""
        await self.update(ready=True)

    async def update(self, *, ready: bool) -> None:
        await self._client.patch(
            Node, self.name, {"status": self.status(ready=ready)}, kind="strategic", subresource="status"
        )

    def status(self, *, ready: bool) -> dict[str, Any]:
        now = timestamp(self._clock.now())

        def condition(kind: str, value: bool, reason: str, message: str) -> dict[str, Any]:
            return {
                "type": kind,
                "status": "True" if value else "False",
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": now,
                "lastTransitionTime": now,
            }

        system = os.uname()
        return {
            "capacity": self._resources,
            "allocatable": self._resources,
            "conditions": [
                condition(
                    "MemoryPressure", False, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"
                ),
                condition("DiskPressure", False, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
                condition("PIDPressure", False, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
                condition("Ready", True, "KubeletReady", "kubelet is posting ready status")
                if ready
                else condition("Ready", False, "KubeletNotReady", "the node agent is starting or stopping"),
            ],
            "addresses": [{"type": "InternalIP", "address": self._address}, {"type": "Hostname", "address": self.name}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._port()}},
            "nodeInfo": {
                "machineID": _read("/etc/machine-id"),
                "systemUUID": _read("/sys/class/dmi/id/product_uuid"),
                "bootID": _read("/proc/sys/kernel/random/boot_id"),
                "kernelVersion": system.release,
                "osImage": _os_image(),
                "containerRuntimeVersion": f"{self._runtime.name}://{self._runtime.version}",
                "kubeletVersion": KUBELET_VERSION,
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": _ARCHITECTURES.get(system.machine, system.machine),
            },
            "declaredFeatures": ["DRAOptionalNodeOperations"],
        }

    async def heartbeat(self) -> None:
        """Renews the Lease for ever; the first write creates it."""
        while True:
            try:
                await self._renew()
            except (StatusError, OSError) as error:
                log.warning("lease of node %s not renewed: %s", self.name, error)
            await self._clock.sleep(LEASE_INTERVAL)

    async def _renew(self) -> None:
        renewed = micro_timestamp(self._clock.now())
        spec = {"holderIdentity": self.name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": renewed}
        try:
            await self._client.patch(Lease, self.name, {"spec": spec}, namespace=LEASE_NAMESPACE)
        except StatusError as error:
            if error.code != 404:
                raise
            owner = {"apiVersion": "v1", "kind": "Node", "name": self.name, "uid": self.uid}
            metadata = {"name": self.name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]}
            await self._client.create(
                {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
            )

    async def keep_status(self) -> None:
        while True:
            await self._clock.sleep(STATUS_INTERVAL)
            try:
                await self.update(ready=True)
            except (StatusError, OSError) as error:
                log.warning("status of node %s not updated: %s", self.name, error)


class SliceWiper:
    """Removes the slices of drivers that went away, as the kubelet does: nobody could prepare their devices any more."""

    def __init__(self, client: Client, node_name: str, plugins: Plugins, clock: Clock) -> None:
        self._client = client
        self._node = node_name
        self._plugins = plugins
        self._clock = clock

    async def at_start(self) -> None:
        await self._wipe("")

    async def run(self) -> None:
        """Looks every second; a driver that is without a connection for the whole delay loses its slices once."""
        missing: dict[str, float] = {}
        known: set[str] = set()
        while True:
            now = self._clock.monotonic()
            known |= set(self._plugins.drivers())
            for driver in sorted(known):
                if self._plugins.connected(driver):
                    missing.pop(driver, None)
                elif now - missing.setdefault(driver, now) >= WIPE_DELAY:
                    try:
                        await self._wipe(driver)
                        known.discard(driver)
                        missing.pop(driver, None)
                    except (StatusError, OSError) as error:
                        log.warning("slices of driver %s not removed: %s", driver, error)
            await self._clock.sleep(1.0)

    async def _wipe(self, driver: str) -> None:
        selector = f"spec.driver={driver},spec.nodeName={self._node}" if driver else f"spec.nodeName={self._node}"
        await self._client.delete_collection(ResourceSlice, fields=selector)


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _os_image() -> str:
    for line in _read("/etc/os-release").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return "Linux"
