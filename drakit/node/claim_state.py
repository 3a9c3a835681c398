"""What the node knows about prepared claims, and its file: the kubelet's `dra_manager_state`, byte for byte in form.

The kubelet and this agent can take over from each other. Entries are loaded as not prepared: running pods keep running, and their
claims are prepared again only when a sandbox has to be made; unprepare works from here without the API.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lightkube.models.resource_v1 import ResourceClaim

from drakit.driver import files
from drakit.driver.checkpoint import dump_envelope, load_envelope
from drakit.driver.errors import CheckpointError
from drakit.node.errors import PrepareError, StateError

__all__ = ["ClaimInfo", "ClaimStore", "DriverState", "PreparedDevice"]

FILE = "dra_manager_state"
KIND = "DRACheckpoint"
VERSION = "checkpoint.dra.kubelet.k8s.io/v1"
SKIP_ALL = "*"


@dataclass(frozen=True)
class PreparedDevice:
    pool: str
    device: str
    share_id: str | None
    requests: tuple[str, ...]
    cdi_ids: tuple[str, ...]

    def serves(self, request: str) -> bool:
        """A device without request names belongs to all requests; request names never carry the subrequest."""
        return not request or not self.requests or request.partition("/")[0] in self.requests


@dataclass
class DriverState:
    devices: list[PreparedDevice] = field(default_factory=list)
    skip_operations: tuple[str, ...] = ()
    allocated: frozenset[tuple[str, str]] = frozenset()  # (pool, device); not in the file

    def skips(self, operation: str) -> bool:
        return SKIP_ALL in self.skip_operations or operation in self.skip_operations


@dataclass
class ClaimInfo:
    uid: str
    name: str
    namespace: str
    pods: set[str] = field(default_factory=set)
    drivers: dict[str, DriverState] = field(default_factory=dict)
    prepared: bool = False
    unpreparing: bool = False

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name

    @classmethod
    def of(cls, claim: ResourceClaim) -> ClaimInfo:
        meta = claim.metadata
        assert meta is not None
        allocation = claim.status.allocation if claim.status else None
        if allocation is None:
            raise PrepareError(f"ResourceClaim {meta.name}: not allocated")
        results = list((allocation.devices.results if allocation.devices else None) or ())
        info = cls(meta.uid or "", meta.name or "", meta.namespace or "")
        for driver in dict.fromkeys(r.driver for r in results):
            mine = [r for r in results if r.driver == driver]
            info.drivers[driver] = DriverState(
                skip_operations=_common_skips([tuple(r.skipNodeOperations or ()) for r in mine]),
                allocated=frozenset((r.pool, r.device) for r in mine),
            )
        return info

    def cdi_ids(self, request: str = "") -> list[str]:
        return [
            i for d in self.drivers.values() for device in d.devices if device.serves(request) for i in device.cdi_ids
        ]


def _common_skips(lists: list[tuple[str, ...]]) -> tuple[str, ...]:
    """An operation is skipped for a driver only when every result of that driver lists it (or all)."""
    if not lists or not all(lists):
        return ()
    if all(SKIP_ALL in entry for entry in lists):
        return (SKIP_ALL,)
    known = ("NodePrepareResources", "NodeUnprepareResources")
    return tuple(op for op in known if all(op in entry or SKIP_ALL in entry for entry in lists))


class ClaimStore:
    """All claims in use on this node, by namespace and name; `save` returns once everything changed before it is on disk."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE
        self._claims: dict[tuple[str, str], ClaimInfo] = {}
        self._saving = asyncio.Lock()
        self._changed = 0
        self._saved = 0
        blob = files.read_bytes(self._path)
        if blob is not None:
            for info in _load(blob, self._path):
                self._claims[info.key] = info

    def get(self, namespace: str, name: str) -> ClaimInfo | None:
        return self._claims.get((namespace, name))

    def add(self, info: ClaimInfo) -> None:
        self._claims[info.key] = info

    def remove(self, info: ClaimInfo) -> None:
        self._claims.pop(info.key, None)

    def __iter__(self) -> Iterator[ClaimInfo]:
        return iter(list(self._claims.values()))

    def of_pod(self, pod_uid: str) -> list[ClaimInfo]:
        return [c for c in self._claims.values() if pod_uid in c.pods]

    async def save(self) -> None:
        """Concurrent callers share one write: whoever gets the lock writes for all that waited."""
        self._changed += 1
        mine = self._changed
        async with self._saving:
            if self._saved >= mine:
                return
            upto = self._changed
            blob = _dump(self._claims.values())
            try:
                await asyncio.to_thread(files.write, self._path, blob, mode=0o600)
            except OSError as error:
                raise PrepareError(f"checkpoint ResourceClaim state: {error.strerror or error}") from error
            self._saved = upto

    def in_use(self) -> dict[tuple[str, ...], float]:
        """For the gauge dra_resource_claims_in_use."""
        counts: dict[tuple[str, ...], float] = {("<any>",): float(len(self._claims))}
        for info in self._claims.values():
            for driver in info.drivers:
                counts[(driver,)] = counts.get((driver,), 0) + 1
        return counts


def _dump(claims: Iterable[ClaimInfo]) -> bytes:
    entries = [
        {
            "ClaimUID": c.uid,
            "ClaimName": c.name,
            "Namespace": c.namespace,
            "PodUIDs": {uid: {} for uid in sorted(c.pods)},
            "DriverState": {name: _dump_driver(d) for name, d in c.drivers.items()},
        }
        for c in claims
    ]
    return dump_envelope({"kind": KIND, "apiVersion": VERSION, "ClaimInfoStateList": entries})


def _dump_driver(state: DriverState) -> dict[str, Any]:
    devices = [
        {
            "PoolName": d.pool,
            "DeviceName": d.device,
            "ShareID": d.share_id,
            "RequestNames": list(d.requests),
            "CDIDeviceIDs": list(d.cdi_ids),
        }
        for d in state.devices
    ]
    skips = {"skipNodeOperations": list(state.skip_operations)} if state.skip_operations else {}
    return {"Devices": devices or None, **skips}


def _load(blob: bytes, path: Path) -> list[ClaimInfo]:
    remedy = f"drain the node, remove {path} and start again"
    try:
        data = load_envelope(blob, path)
    except CheckpointError as error:
        raise StateError(str(error)) from error
    version = data.get("apiVersion") if isinstance(data, dict) else None
    if version != VERSION or data.get("kind") != KIND:
        raise StateError(
            f"checkpoint {path} is of version {version!r}, this agent knows {VERSION!r}: start the agent that wrote it, or {remedy}"
        )
    try:
        return [_load_claim(entry) for entry in data.get("ClaimInfoStateList") or ()]
    except (KeyError, TypeError, AttributeError) as error:
        raise StateError(f"checkpoint {path} cannot be read ({type(error).__name__}: {error}); {remedy}") from error


def _load_claim(entry: dict[str, Any]) -> ClaimInfo:
    drivers = {
        name: DriverState(
            [
                PreparedDevice(
                    d["PoolName"],
                    d["DeviceName"],
                    d.get("ShareID"),
                    tuple(d["RequestNames"] or ()),
                    tuple(d["CDIDeviceIDs"] or ()),
                )
                for d in state.get("Devices") or ()
            ],
            tuple(state.get("skipNodeOperations") or ()),
        )
        for name, state in (entry["DriverState"] or {}).items()
    }
    return ClaimInfo(entry["ClaimUID"], entry["ClaimName"], entry["Namespace"], set(entry["PodUIDs"] or ()), drivers)
