"""A driver on the SDK, called as the kubelet calls it."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from lightkube.models.resource_v1 import ResourceClaim

from drakit.driver import Claim, ClaimError, ClaimRef, Driver, Health, MetadataDevice, PreparedDevice
from drakit.driver import files as driver_files
from drakit.driver.base import UNHEALTHY
from drakit.driver.endpoint import endpoints
from drakit.driver.errors import CheckpointError
from drakit.driver.metadata import MetadataWriter
from drakit.driver.prepared import PreparedClaims
from drakit.driver.testing import CallFailed, DriverKit
from drakit.workload import decode


class Gpus(Driver):
    name = "gpu.example.com"
    cdi_class = "gpu"

    def __init__(self, count: int = 2) -> None:
        self.count = count
        self.calls: list[tuple[str, str]] = []
        self.fail: Exception | None = None
        self.answer: Sequence[PreparedDevice] | None = None

    def discover(self) -> dict[str, Any]:
        return {
            f"gpu-{i}": {"attributes": {"index": {"int": i}}, "capacity": {"memory": {"value": "80Gi"}}}
            for i in range(self.count)
        }

    def prepare(self, claim: Claim) -> Sequence[PreparedDevice]:
        self.calls.append(("prepare", claim.ref.name))
        if self.fail is not None:
            raise self.fail
        if self.answer is not None:
            return self.answer
        return [
            PreparedDevice.of(
                r,
                edits={"env": [f"GPU_{n}={r.device}"]},
                attributes={"model": {"string": "A100"}},
                data={"uuid": r.device},
            )
            for n, r in enumerate(claim.results)
        ]

    async def unprepare(self, claim: ClaimRef) -> None:
        self.calls.append(("unprepare", claim.name))
        if self.fail is not None:
            raise self.fail

    def health(self) -> list[Health]:
        return [Health("test-node", "gpu-0", UNHEALTHY, "hot"), Health("test-node", "gpu-1")]


def _text(path: str) -> str:
    return Path(path).read_text()


def scenario(test: Callable[[DriverKit, Gpus], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        driver = options.pop("driver", None) or Gpus()
        async with DriverKit(driver, **options) as kit:
            await test(kit, driver)

    asyncio.run(run())


@pytest.mark.parametrize("service", ["v1.DRAPlugin", "v1beta1.DRAPlugin"])
def test_container_gets_the_device_and_nothing_is_left_afterwards(service: str) -> None:
    async def test(kit: DriverKit, driver: Gpus) -> None:
        claim = await kit.claim("one", devices=["gpu-1"])
        devices = await kit.prepare(claim)
        assert [(d.pool_name, d.device_name, list(d.request_names)) for d in devices] == [
            ("test-node", "gpu-1", ["device"])
        ]
        edits = kit.edits(devices)
        assert edits.env == ["GPU_0=gpu-1"]
        (mount,) = edits.mounts
        path = "/var/run/kubernetes.io/dra-device-attributes/resourceclaims/one/device/gpu.example.com-metadata.json"
        assert mount["containerPath"] == path
        metadata = decode(_text(mount["hostPath"]))
        assert metadata.devices[0].attributes == {"model": "A100"}
        assert (metadata.name, metadata.generation, metadata.pod_claim_name) == ("one", 1, None)
        await kit.unprepare(claim)
        assert kit.leftovers() == []

    scenario(test, service=service)


def test_services_are_listed_newest_first() -> None:
    async def test(kit: DriverKit, driver: Gpus) -> None:
        assert kit.info.type == "DRAPlugin"
        assert list(kit.info.supported_versions) == [
            "v1.DRAPlugin",
            "v1beta1.DRAPlugin",
            "v1.DRAResourceHealth",
            "v1alpha1.DRAResourceHealth",
        ]

    scenario(test)


def test_second_prepare_answers_the_same_without_asking_the_driver() -> None:
    async def test(kit: DriverKit, driver: Gpus) -> None:
        claim = await kit.claim("one", devices=["gpu-0"])
        first = await kit.prepare(claim)
        await kit.restart()
        for path in kit.cdi_directory.iterdir():
            path.unlink()  # /var/run is empty after a reboot
        assert await kit.prepare(claim) == first
        assert kit.edits(first).env == ["GPU_0=gpu-0"]
        assert driver.calls == [("prepare", "one")]

    scenario(test)


def test_device_in_use_by_another_claim_is_refused() -> None:
    async def test(kit: DriverKit, driver: Gpus) -> None:
        await kit.prepare(await kit.claim("one", devices=["gpu-0"]))
        admin = await kit.claim("admin", devices=["gpu-1"])
        kit_entry = endpoints(driver.name, kubelet_directory=kit.directory).data_directory / "checkpoint.json"
        assert kit_entry.exists()
        await kit.prepare(admin)
        # The server refuses a second allocation of gpu-0, so the driver is shown one that got past it.
        forged = Claim(ResourceClaim.from_dict(_allocated("two", "gpu-0")), driver.name)  # type: ignore[arg-type]
        prepared = kit.plugin._prepared
        assert prepared is not None
        with pytest.raises(ClaimError, match="is in use by claim default/one"):
            await prepared.prepare(forged)

    scenario(test)


def _allocated(name: str, device: str) -> dict[str, Any]:
    result = {"driver": "gpu.example.com", "pool": "test-node", "device": device, "request": "device"}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": "9b8f7a5e-1111-4111-8111-111111111111"},
        "spec": {},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }


def test_error_of_one_claim_does_not_touch_the_other() -> None:
    async def test(kit: DriverKit, driver: Gpus) -> None:
        good, bad = await kit.claim("good", devices=["gpu-0"]), await kit.claim("bad", devices=["gpu-1"])
        driver.fail = RuntimeError("no power")
        with pytest.raises(CallFailed, match="no power"):
            await kit.prepare(bad)
        driver.fail = None
        devices = await kit.prepare(good, bad)
        assert {d.device_name for d in devices} == {"gpu-0", "gpu-1"}

    scenario(test)


def test_wrong_device_in_the_drivers_answer_is_an_error() -> None:
    async def test(kit: DriverKit, driver: Gpus) -> None:
        claim = await kit.claim("one", devices=["gpu-0"])
        driver.answer = [PreparedDevice(("device",), "test-node", "gpu-7", edits={"env": ["A=b"]})]
        with pytest.raises(CallFailed, match="gpu-7, which the claim was not allocated"):
            await kit.prepare(claim)
        assert kit.leftovers() == []

    scenario(test)


def test_claims_are_checked_against_the_api() -> None:
    async def test(kit: DriverKit, driver: Gpus) -> None:
        claim = await kit.claim("one", devices=["gpu-0"])
        assert claim.metadata is not None
        uid, claim.metadata.uid = claim.metadata.uid, "0b8f7a5e-0000-4000-8000-000000000000"
        with pytest.raises(CallFailed, match="claim default/one got replaced"):
            await kit.prepare(claim)
        claim.metadata.uid, claim.metadata.name = uid, "missing"
        with pytest.raises(CallFailed, match="retrieve claim default/missing"):
            await kit.prepare(claim)
        assert driver.calls == []

    scenario(test)


def test_unprepare_of_what_was_never_prepared_succeeds() -> None:
    async def test(kit: DriverKit, driver: Gpus) -> None:
        await kit.unprepare(await kit.claim("never", devices=["gpu-0"]))
        assert driver.calls == [("unprepare", "never")]

    scenario(test)


def test_failed_unprepare_keeps_files_until_it_succeeds() -> None:
    async def test(kit: DriverKit, driver: Gpus) -> None:
        claim = await kit.claim("one", devices=["gpu-0"])
        await kit.prepare(claim)
        driver.fail = RuntimeError("busy")
        with pytest.raises(CallFailed, match="busy"):
            await kit.unprepare(claim)
        assert kit.leftovers()
        driver.fail = None
        await kit.unprepare(claim)
        assert kit.leftovers() == []

    scenario(test)


def test_full_disk_leaves_no_half_written_files(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(kit: DriverKit, driver: Gpus) -> None:
        claim = await kit.claim("one", devices=["gpu-0"])
        real = os.fsync
        monkeypatch.setattr(driver_files.os, "fsync", lambda fd: _full(fd, real, kit.cdi_directory))
        with pytest.raises(CallFailed, match="No space left on device"):
            await kit.prepare(claim)
        assert kit.leftovers() == []
        monkeypatch.undo()
        assert kit.edits(await kit.prepare(claim)).env == ["GPU_0=gpu-0"]

    scenario(test)


def _full(fd: int, real: Callable[[int], None], directory: Path) -> None:
    if os.readlink(f"/proc/self/fd/{fd}").startswith(str(directory) + "/"):
        raise OSError(28, "No space left on device")
    real(fd)


def test_damaged_checkpoint_stops_the_driver() -> None:
    async def test(kit: DriverKit, driver: Gpus) -> None:
        await kit.prepare(await kit.claim("one", devices=["gpu-0"]))
        path = endpoints(driver.name, kubelet_directory=kit.directory).data_directory / "checkpoint.json"
        whole = path.read_bytes()
        await kit.stop()
        path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(CheckpointError, match="drain the node, remove"):
            await kit.plugin.start()
        path.write_bytes(whole)
        await kit.start()

    scenario(test)


def test_metadata_can_be_updated_later() -> None:
    async def test(kit: DriverKit, driver: Gpus) -> None:
        claim = await kit.claim(
            "net", devices=["gpu-0"], annotations={"resource.kubernetes.io/pod-claim-name": "my-gpu"}
        )
        (mount,) = kit.edits(await kit.prepare(claim)).mounts
        assert "/resourceclaimtemplates/my-gpu/device/" in mount["containerPath"]
        assert claim.metadata is not None
        ref = ClaimRef("default", "net", claim.metadata.uid or "")
        network = {"interfaceName": "eth1", "ips": ["10.0.0.2/24"]}
        assert (
            await kit.plugin.update_metadata(
                ref, "device", [MetadataDevice("test-node", "gpu-0", network_data=network)]
            )
            == 2
        )
        metadata = decode(_text(mount["hostPath"]))
        assert metadata.devices[0].network_data is not None
        assert metadata.devices[0].network_data.ips == ("10.0.0.2/24",)
        assert metadata.pod_claim_name == "my-gpu"
        await kit.prepare(claim)  # must not write the old content again
        assert decode(_text(mount["hostPath"])).generation == 2

    scenario(test)


def test_device_status_is_reported() -> None:
    async def test(kit: DriverKit, driver: Gpus) -> None:
        await kit.prepare(await kit.claim("one", devices=["gpu-0"]))
        claim = await kit.client.get(ResourceClaim, "one", namespace="default")
        assert claim.status is not None
        (device,) = claim.status.devices or ()
        assert (device.driver, device.device, device.data) == ("gpu.example.com", "gpu-0", {"uuid": "gpu-0"})

    scenario(test)


@pytest.mark.parametrize("service", ["v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"])
def test_health_is_streamed(service: str) -> None:
    async def test(kit: DriverKit, driver: Gpus) -> None:
        first, second = await kit.health(service)
        assert (first.device.device_name, first.health, first.message) == ("gpu-0", 2, "hot")
        assert second.health == 1

    scenario(test)


def test_rolling_update_shares_state_between_instances() -> None:
    async def run(directory: Path) -> None:
        old, new = Gpus(), Gpus()
        async with DriverKit(old, directory=directory, rolling_update_uid="aaa") as kit:
            claim = await kit.claim("one", devices=["gpu-0"])
            first = await kit.prepare(claim)
            successor = DriverKit(new, directory=directory, rolling_update_uid="bbb")
            successor.server, successor.client = kit.server, kit.client
            await successor.start()
            assert await successor.prepare(claim) == first
            assert new.calls == []
            await successor.unprepare(claim)
            await successor.stop()
            await kit.prepare(claim)  # the older one reads what the newer one wrote
            assert old.calls == [("prepare", "one"), ("prepare", "one")]

    with tempfile.TemporaryDirectory(prefix="dra-") as folder:
        asyncio.run(run(Path(folder)))


@pytest.mark.parametrize("name", ["..", "a/b", "x" * 300, "naïve", ".hidden", "a\0b", ""])
def test_names_that_are_no_file_names_never_reach_the_file_system(name: str, tmp_path: Path) -> None:
    for namespace, claim, uid in ((name, "c", "u"), ("ns", name, "u"), ("ns", "c", name)):
        driver = Gpus()
        writer = MetadataWriter(driver.name, tmp_path, tmp_path / "cdi")
        prepared = PreparedClaims(driver, data_directory=tmp_path, cdi_directory=tmp_path / "cdi", metadata=writer)
        with pytest.raises(ValueError, match=r"may not become a file name|too long"):
            asyncio.run(prepared.unprepare(ClaimRef(namespace, claim, uid)))
        with pytest.raises(ValueError, match=r"may not become a file name|too long"):
            writer.write(ClaimRef(namespace, claim, uid), "gpu", [])
    request = name.replace("a/b", "../b")  # a/b itself is request and subrequest
    with pytest.raises(ValueError, match=r"may not become a file name|too long"):
        writer.write(ClaimRef("ns", "c", "u"), request, [])
    assert list(tmp_path.rglob("*")) == []


def test_socket_paths_fit_the_kernels_limit(tmp_path: Path) -> None:
    deep = Path("/var/lib") / ("k" * 40)
    long_driver = "driver-name.accel.example.com"
    found = endpoints(
        long_driver,
        kubelet_directory=Path("/var/lib/kubelet"),
        rolling_update_uid="9b8f7a5e-1111-4111-8111-111111111111",
    )
    assert len(str(found.registration)) <= 107
    with pytest.raises(Exception, match="longer than 107 bytes"):
        endpoints(long_driver, kubelet_directory=deep, rolling_update_uid="9b8f7a5e-1111-4111-8111-111111111111")
