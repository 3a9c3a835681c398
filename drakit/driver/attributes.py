"""Standard device attributes from sysfs: resource.kubernetes.io/pcieRoot, pciBusID and numaNode.

Each function returns {name: attribute} ready to merge into a device's attributes, or raises ValueError saying why the attribute
must not be published.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

__all__ = ["numa_node", "numa_nodes", "pci_bus_id", "pcie_root", "standard"]

SYSFS = Path("/sys")
_BDF = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]\Z")
_ROOT = re.compile(r"pci[0-9a-f]{4}:[0-9a-f]{2}\Z")
_MAX_NUMA_NODES = 1024

Attributes = dict[str, dict[str, Any]]


def pci_bus_id(bdf: str) -> Attributes:
    return {"resource.kubernetes.io/pciBusID": {"string": _check(bdf)}}


def pcie_root(bdf: str, *, sysfs: Path = SYSFS) -> Attributes:
    """The first element under /sys/devices of the device's resolved path, for example pci0000:00."""
    link = sysfs / "bus" / "pci" / "devices" / _check(bdf)
    try:
        target = os.readlink(link)
    except OSError as error:
        raise ValueError(f"PCI device {bdf}: cannot read {link}: {error.strerror}") from error
    path = os.path.normpath(target if os.path.isabs(target) else os.path.join(link.parent, target))
    relative = os.path.relpath(path, sysfs / "devices")
    root = relative.split(os.sep)[0]
    if not _ROOT.match(root):
        raise ValueError(f"PCI device {bdf}: {path} is not below a PCIe root in {sysfs / 'devices'}")
    return {"resource.kubernetes.io/pcieRoot": {"string": root}}


def numa_node(bdf: str, *, sysfs: Path = SYSFS) -> Attributes:
    return {"resource.kubernetes.io/numaNode": {"int": _numa(bdf, sysfs)}}


def numa_nodes(bdf: str, *, sysfs: Path = SYSFS) -> Attributes:
    """The list form: the device's own node first, then nodes of the same socket at the smallest distance. Needs DRAListTypeAttributes."""
    node = _numa(bdf, sysfs)
    return {"resource.kubernetes.io/numaNode": {"ints": [node, *_near(node, sysfs)]}}


def standard(bdf: str, *, sysfs: Path = SYSFS) -> Attributes:
    """All standard attributes that the device has; what sysfs does not know is left out."""
    found = pci_bus_id(bdf)
    for read in (pcie_root, numa_node):
        try:
            found |= read(bdf, sysfs=sysfs)
        except ValueError:
            continue
    return found


def _check(bdf: str) -> str:
    if not _BDF.match(bdf):
        raise ValueError(f"PCI bus ID {bdf!r} is not dddd:bb:dd.f in lower-case hexadecimal")
    return bdf


def _numa(bdf: str, sysfs: Path) -> int:
    path = sysfs / "bus" / "pci" / "devices" / _check(bdf) / "numa_node"
    try:
        node = int(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"PCI device {bdf}: cannot read {path}: {error}") from error
    if not 0 <= node < _MAX_NUMA_NODES:
        # -1 would match every other device without affinity under matchAttribute.
        raise ValueError(f"PCI device {bdf} has no NUMA affinity (numa_node={node}): do not publish numaNode for it")
    return node


def _near(node: int, sysfs: Path) -> list[int]:
    nodes = sysfs / "devices" / "system" / "node"
    try:
        distances = [int(d) for d in (nodes / f"node{node}" / "distance").read_text().split()]
    except (OSError, ValueError):
        return []
    others = [d for i, d in enumerate(distances) if i != node]
    socket = _socket(node, sysfs)
    if not others or node >= len(distances) or socket is None:
        return []
    nearest = min(others)
    return [
        i
        for i, d in enumerate(distances)
        if i != node and d == nearest and i < _MAX_NUMA_NODES and _socket(i, sysfs) == socket
    ]


def _socket(node: int, sysfs: Path) -> int | None:
    try:
        cpus = (sysfs / "devices" / "system" / "node" / f"node{node}" / "cpulist").read_text().strip()
        first = re.split(r"[,-]", cpus)[0]
        return int(
            (sysfs / "devices" / "system" / "cpu" / f"cpu{first}" / "topology" / "physical_package_id").read_text()
        )
    except (OSError, ValueError):
        return None
