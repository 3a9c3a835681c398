"""Standard attributes from a sysfs of our own making."""

from __future__ import annotations

from pathlib import Path

import pytest

from drakit.driver import attributes

BDF = "0000:04:1f.0"


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    device = tmp_path / "devices" / "pci0000:00" / "0000:00:01.0" / BDF
    device.mkdir(parents=True)
    (device / "numa_node").write_text("1\n")
    links = tmp_path / "bus" / "pci" / "devices"
    links.mkdir(parents=True)
    (links / BDF).symlink_to(f"../../../devices/pci0000:00/0000:00:01.0/{BDF}")
    for node, (distance, cpus) in enumerate((("10 12 20", "0-1"), ("12 10 20", "2-3"), ("20 20 10", "4"))):
        folder = tmp_path / "devices" / "system" / "node" / f"node{node}"
        folder.mkdir(parents=True)
        (folder / "distance").write_text(distance)
        (folder / "cpulist").write_text(cpus)
    for cpu, package in ((0, 0), (2, 0), (4, 1)):
        topology = tmp_path / "devices" / "system" / "cpu" / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text(str(package))
    return tmp_path


def test_all_standard_attributes(sysfs: Path) -> None:
    assert attributes.standard(BDF, sysfs=sysfs) == {
        "resource.kubernetes.io/pciBusID": {"string": BDF},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
        "resource.kubernetes.io/numaNode": {"int": 1},
    }


def test_list_form_names_near_nodes_of_the_same_socket(sysfs: Path) -> None:
    assert attributes.numa_nodes(BDF, sysfs=sysfs) == {"resource.kubernetes.io/numaNode": {"ints": [1, 0]}}


def test_device_without_affinity_does_not_publish_a_node(sysfs: Path) -> None:
    (sysfs / "bus" / "pci" / "devices" / BDF / "numa_node").write_text("-1")
    with pytest.raises(ValueError, match="no NUMA affinity"):
        attributes.numa_node(BDF, sysfs=sysfs)
    assert "resource.kubernetes.io/numaNode" not in attributes.standard(BDF, sysfs=sysfs)


@pytest.mark.parametrize("bdf", ["04:1f.0", "0000:04:1F.0", "0000:04:1f.0/../..", ""])
def test_malformed_bus_ids_are_refused(bdf: str, sysfs: Path) -> None:
    with pytest.raises(ValueError, match="is not dddd:bb:dd.f"):
        attributes.pcie_root(bdf, sysfs=sysfs)
