"""A tiny container image made of busybox alone, as an OCI archive: what a test imports where no registry can be reached."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_LINKS = ("sh", "sleep", "env", "cat", "ls", "find", "echo", "grep", "sort", "test", "true")


def write(path: Path, name: str, busybox: Path, command: Sequence[str]) -> None:
    blobs: dict[str, bytes] = {}

    def blob(content: bytes, kind: str) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}

    layer = _layer(busybox)
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Cmd": list(command), "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob(json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json"),
        "layers": [blob(layer, "application/vnd.oci.image.layer.v1.tar")],
    }
    entry = blob(json.dumps(manifest).encode(), "application/vnd.oci.image.manifest.v1+json")
    entry["annotations"] = {
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": name.rpartition(":")[2],
    }
    index = {"schemaVersion": 2, "manifests": [entry]}
    with tarfile.open(path, "w") as archive:
        _add(archive, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
        _add(archive, "index.json", json.dumps(index).encode())
        for digest, content in blobs.items():
            _add(archive, f"blobs/sha256/{digest}", content)


def _layer(busybox: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        for folder in ("bin", "etc", "proc", "sys", "dev", "tmp", "run", "var"):
            info = tarfile.TarInfo(folder)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            layer.addfile(info)
        _add(layer, "bin/busybox", busybox.read_bytes(), mode=0o755)
        for link in _LINKS:
            info = tarfile.TarInfo(f"bin/{link}")
            info.type, info.linkname = tarfile.SYMTYPE, "busybox"
            layer.addfile(info)
        info = tarfile.TarInfo("var/run")
        info.type, info.linkname = tarfile.SYMTYPE, "/run"
        layer.addfile(info)
        _add(layer, "etc/passwd", b"root:x:0:0:root:/:/bin/sh\n")
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), mode
    archive.addfile(info, io.BytesIO(content))
