"""What a driver has prepared on this node: the state behind NodePrepareResources and NodeUnprepareResources.

For each claim: mark it in the checkpoint, ask the driver, write CDI and metadata files, record the answer. A second call answers from the
record and rewrites files that are gone (/var/run is empty after a reboot). Whatever fails leaves the claim marked, so that unprepare is
still asked of the driver, and no file that a container could pick up.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drakit.driver import cdi, files
from drakit.driver.base import Claim, Driver, PreparedDevice, call
from drakit.driver.checkpoint import Checkpoint
from drakit.driver.errors import ClaimError, DriverError
from drakit.driver.metadata import ClaimRef, MetadataDevice, MetadataWriter

__all__ = ["PreparedClaims"]

log = logging.getLogger(__name__)


class PreparedClaims:
    def __init__(
        self, driver: Driver, *, data_directory: Path, cdi_directory: Path, metadata: MetadataWriter | None
    ) -> None:
        self._driver = driver
        self._cdi_directory = cdi_directory
        self._metadata = metadata
        self._checkpoint_path = data_directory / "checkpoint.json"
        self._checkpoint = Checkpoint(self._checkpoint_path)

    def reload(self) -> None:
        """Another instance of the driver (rolling update) shares the directory: read what it wrote. Called under the file lock."""
        self._checkpoint = Checkpoint(self._checkpoint_path)

    def __len__(self) -> int:
        return len(self._checkpoint)

    async def prepare(self, claim: Claim) -> list[dict[str, Any]]:
        """Devices for the kubelet: {requests, pool, device, share_id, cdi_ids}."""
        ref = claim.ref
        for value, what in ((ref.uid, "claim UID"), (ref.namespace, "namespace"), (ref.name, "claim name")):
            files.component(value, what)
        entry = self._checkpoint.get(ref.uid)
        if entry is not None and entry["state"] == "prepared" and _same_allocation(entry, claim):
            self._write_files(claim.ref, entry)
            return list(entry["devices"])
        self._check_free(claim)
        if entry is None:
            self._checkpoint.set(ref.uid, _entry(ref, "preparing", claim))
        devices = list(await call(self._driver.prepare(claim)))
        self._check_answer(claim, devices)
        entry = _entry(ref, "prepared", claim) | self._describe(ref, devices)
        try:
            self._write_files(ref, entry)
            self._checkpoint.set(ref.uid, entry)
        except (OSError, DriverError) as error:
            self._remove_files(ref)
            raise ClaimError(f"claim {ref.namespace}/{ref.name}: {_reason(error)}") from error
        return list(entry["devices"])

    def status_of(self, uid: str) -> list[dict[str, Any]]:
        """Entries for the claim's status.devices; empty when the driver has nothing to tell."""
        entry = self._checkpoint.get(uid)
        return list(entry.get("status") or ()) if entry else []

    async def unprepare(self, ref: ClaimRef) -> None:
        for value, what in ((ref.uid, "claim UID"), (ref.namespace, "namespace"), (ref.name, "claim name")):
            files.component(value, what)
        await call(self._driver.unprepare(ref))
        self._remove_files(ref)
        self._checkpoint.remove(ref.uid)

    def _check_free(self, claim: Claim) -> None:
        """The scheduler should never give a device twice; the driver is the last one who can notice that it did."""
        mine = {(r.pool, r.device): r for r in claim.results if not r.adminAccess and not r.shareID}
        for uid, entry in self._checkpoint:
            if uid == claim.uid:
                continue
            for used in entry["allocated"]:
                if (used["pool"], used["device"]) in mine and not used["admin"] and not used["share_id"]:
                    raise ClaimError(
                        f"device {used['pool']}/{used['device']} is in use by claim {entry['namespace']}/{entry['name']} ({uid})"
                    )

    def _check_answer(self, claim: Claim, devices: Sequence[PreparedDevice]) -> None:
        allocated = {(r.pool, r.device, r.shareID or "") for r in claim.results}
        for device in devices:
            if (device.pool, device.device, device.share_id) not in allocated:
                raise ClaimError(
                    f"driver prepared device {device.pool}/{device.device}, which the claim was not allocated"
                )
            for cdi_id in device.cdi_ids:
                cdi.parse_name(cdi_id)

    def _describe(self, ref: ClaimRef, devices: Sequence[PreparedDevice]) -> dict[str, Any]:
        """The record of an answer: all that is needed to write the files again without the driver."""
        answers: list[dict[str, Any]] = []
        spec_devices: list[dict[str, Any]] = []
        by_request: dict[str, list[dict[str, Any]]] = {}
        for device in devices:
            ids = list(device.cdi_ids)
            if device.edits:
                name = "-".join(filter(None, (ref.uid, device.device, device.share_id)))
                spec_devices.append({"name": name, "containerEdits": dict(device.edits)})
                ids.append(f"{self._kind}={name}")
            requests = [r.partition("/")[0] for r in device.requests]
            answers.append(
                {
                    "requests": requests,
                    "pool": device.pool,
                    "device": device.device,
                    "share_id": device.share_id,
                    "cdi_ids": ids,
                }
            )
            described = {
                "pool": device.pool,
                "name": device.device,
                "attributes": device.attributes,
                "network": device.network_data,
            }
            for request in device.requests:
                if self._metadata is not None:
                    by_request.setdefault(request, []).append(described)
        for request in by_request:
            base = request.partition("/")[0]
            first = next(a for a in answers if base in a["requests"])
            first["cdi_ids"].append(f"{self._driver.name}/metadata={ref.uid}_{base}")
        reported = [_status(self._driver.name, d) for d in devices if d.data or d.network_data or d.conditions]
        return {"devices": answers, "spec": spec_devices, "metadata": by_request, "status": reported}

    def _write_files(self, ref: ClaimRef, entry: dict[str, Any]) -> None:
        if entry["spec"] and not self._spec_path(ref).exists():
            cdi.write(self._cdi_directory, self._spec_name(ref), {"kind": self._kind, "devices": entry["spec"]})
        if self._metadata is None:
            return
        for request, described in entry["metadata"].items():
            if self._metadata.complete(ref, request):
                continue  # a later update of its content must survive
            devices = [MetadataDevice(d["pool"], d["name"], d["attributes"], d["network"]) for d in described]
            self._metadata.write(ref, request, devices)

    def _remove_files(self, ref: ClaimRef) -> None:
        cdi.remove(self._cdi_directory, [self._spec_name(ref)])
        if self._metadata is not None:
            self._metadata.remove(ref.namespace, ref.name, ref.uid)

    @property
    def _kind(self) -> str:
        return f"k8s.{self._driver.name}/{self._driver.cdi_class}"

    def _spec_name(self, ref: ClaimRef) -> str:
        vendor, _, cls = self._kind.partition("/")
        return cdi.file_name(vendor, cls, ref.uid)

    def _spec_path(self, ref: ClaimRef) -> Path:
        return self._cdi_directory / (self._spec_name(ref) + ".json")


def _entry(ref: ClaimRef, state: str, claim: Claim) -> dict[str, Any]:
    allocated = [
        {"pool": r.pool, "device": r.device, "share_id": r.shareID or "", "admin": bool(r.adminAccess)}
        for r in claim.results
    ]
    return {"state": state, "namespace": ref.namespace, "name": ref.name, "allocated": allocated}


def _same_allocation(entry: dict[str, Any], claim: Claim) -> bool:
    return bool(entry["allocated"] == _entry(claim.ref, "", claim)["allocated"])


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def _status(driver: str, device: PreparedDevice) -> dict[str, Any]:
    value: dict[str, Any] = {"driver": driver, "pool": device.pool, "device": device.device}
    if device.share_id:
        value["shareID"] = device.share_id
    if device.conditions:
        value["conditions"] = [dict(c) for c in device.conditions]
    if device.data:
        value["data"] = dict(device.data)
    if device.network_data:
        value["networkData"] = dict(device.network_data)
    return value
