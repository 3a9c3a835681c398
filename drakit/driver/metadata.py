"""Device metadata files (KEP-5304): one file per claim and request, and the CDI spec that mounts it into the container.

The file holds the same DeviceMetadata once per API version, newest first; readers (drakit.workload, Go's devicemetadata) take the
first version they know. Paths and names are those of the Go helper, so either side can be replaced.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drakit.driver import cdi, files
from drakit.driver.errors import ClaimError
from drakit.workload import CONTAINER_DIRECTORY, GROUP, decode

__all__ = ["VERSIONS", "ClaimRef", "MetadataDevice", "MetadataWriter"]

VERSIONS = ("v1beta1", "v1alpha1")
SUBDIRECTORY = "dra-device-metadata"


@dataclass(frozen=True)
class ClaimRef:
    namespace: str
    name: str
    uid: str
    pod_claim_name: str = ""  # the pod's entry name, only for claims made from a template


@dataclass(frozen=True)
class MetadataDevice:
    pool: str
    name: str
    attributes: Mapping[str, Any] | None = None
    network_data: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class MetadataWriter:
    driver: str
    data_directory: Path
    cdi_directory: Path
    versions: Sequence[str] = VERSIONS

    def __post_init__(self) -> None:
        files.component(self.driver, "driver name")
        if "v1beta1" not in self.versions or set(self.versions) - set(VERSIONS):
            raise ValueError(
                f"metadata versions {list(self.versions)}: must include v1beta1 and be from {list(VERSIONS)}"
            )

    def write(self, claim: ClaimRef, request: str, devices: Sequence[MetadataDevice]) -> str:
        """Writes file and spec for one request (`req` or `req/sub`); returns the CDI device id to hand to the kubelet."""
        base = _base(request)
        path = self.path(claim.namespace, claim.name, base)
        device = f"{files.component(claim.uid, 'claim UID')}_{base}"
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        files.write(path, self._encode(claim, 1, request, devices))
        mount = {"hostPath": str(path), "containerPath": self._container_path(claim, base), "options": ["ro", "bind"]}
        spec = {"kind": f"{self.driver}/metadata", "devices": [{"name": device, "containerEdits": {"mounts": [mount]}}]}
        cdi.write(self.cdi_directory, self._spec_name(claim.uid, base), spec)
        return f"{self.driver}/metadata={device}"

    def complete(self, claim: ClaimRef, request: str) -> bool:
        """Both files of a request are there."""
        base = _base(request)
        spec = self.cdi_directory / f"{self._spec_name(claim.uid, base)}.json"
        return spec.exists() and self.path(claim.namespace, claim.name, base).exists()

    def update(self, claim: ClaimRef, request: str, devices: Sequence[MetadataDevice]) -> int:
        """Rewrites a request's file with what became known later (an interface's address, say); returns the new generation."""
        path = self.path(claim.namespace, claim.name, _base(request))
        old = files.read_bytes(path)
        if old is None:
            raise ClaimError(f"request {request!r} not found in prepared claim {claim.namespace}/{claim.name}")
        previous = decode(old.decode())
        generation = previous.generation + 1
        kept = ClaimRef(claim.namespace, claim.name, claim.uid, previous.pod_claim_name or "")
        files.write(path, self._encode(kept, generation, request, devices))
        return generation

    def remove(self, namespace: str, name: str, uid: str) -> None:
        """Removes every file of a claim; one that was never written is no error."""
        files.remove_tree(self._claim_directory(namespace, name))
        prefix = self._spec_name(uid, "")
        if self.cdi_directory.is_dir():
            for path in self.cdi_directory.iterdir():
                if path.name.startswith(prefix) and path.suffix == ".json":
                    files.remove(path)

    def path(self, namespace: str, name: str, request: str) -> Path:
        return self._claim_directory(namespace, name) / files.component(request, "request name") / "metadata.json"

    def _claim_directory(self, namespace: str, name: str) -> Path:
        claim = f"{files.component(namespace, 'namespace')}_{files.component(name, 'claim name')}"
        return self.data_directory / SUBDIRECTORY / files.component(claim, "claim")

    def _spec_name(self, uid: str, request: str) -> str:
        return f"{self.driver}_metadata_{files.component(uid, 'claim UID')}_{request}"

    def _container_path(self, claim: ClaimRef, request: str) -> str:
        kind, owner = (
            ("resourceclaimtemplates", claim.pod_claim_name) if claim.pod_claim_name else ("resourceclaims", claim.name)
        )
        return (
            f"{CONTAINER_DIRECTORY}/{kind}/{files.component(owner, 'claim name')}/{request}/{self.driver}-metadata.json"
        )

    def _encode(self, claim: ClaimRef, generation: int, request: str, devices: Sequence[MetadataDevice]) -> bytes:
        body: dict[str, Any] = {
            "metadata": {"name": claim.name, "namespace": claim.namespace, "uid": claim.uid, "generation": generation}
        }
        if claim.pod_claim_name:
            body["podClaimName"] = claim.pod_claim_name
        body["requests"] = [{"name": request, "devices": [self._device(d) for d in devices]}]
        versions = ({"kind": "DeviceMetadata", "apiVersion": f"{GROUP}/{v}", **body} for v in self.versions)
        return "".join(json.dumps(v, indent=2, ensure_ascii=False) + "\n" for v in versions).encode()

    def _device(self, device: MetadataDevice) -> dict[str, Any]:
        value: dict[str, Any] = {"driver": self.driver, "pool": device.pool, "name": device.name}
        if device.attributes:
            value["attributes"] = dict(sorted(device.attributes.items()))
        if device.network_data:
            value["networkData"] = dict(device.network_data)
        return value


def _base(request: str) -> str:
    return files.component(request.partition("/")[0], "request name")
