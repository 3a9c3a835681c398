"""A container's root: an overlay over the host's root (or an unpacked image), so that it may write and mount points can be made.

Where the kernel does not let us mount an overlay, the caller falls back to read-only binds of the top-level directories.
"""

from __future__ import annotations

import ctypes
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drakit.driver import files
from drakit.node.errors import RuntimeFailure

__all__ = ["HOST_ROOT", "Image", "find_image", "mount_overlay", "unmount"]

HOST_ROOT = Path("/")
_MNT_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Image:
    """Where a container's files come from, and what the image says to run."""

    root: Path
    reference: str
    config: dict[str, Any]

    @property
    def is_host(self) -> bool:
        return self.root == HOST_ROOT


def find_image(directory: Path | None, image: str) -> Image:
    """An unpacked image (`<directory>/<name with slashes as underscores>/rootfs`, with the image's `config.json`), else the host's root."""
    if directory is not None and image:
        name = image.replace("/", "_").replace(":", "_").replace("@", "_")
        folder = directory / files.component(name, "image")
        if (folder / "rootfs").is_dir():
            blob = files.read_bytes(folder / "config.json")
            config = (json.loads(blob) if blob else {}).get("config") or {}
            return Image(folder / "rootfs", f"drakit/unpacked@{name}", config)
    return Image(HOST_ROOT, "drakit/host-root", {})


def mount_overlay(lower: Path, directory: Path) -> Path | None:
    """Mounts lower with a writable layer under `directory`; the mount point, or None where overlays cannot be mounted."""
    upper, work, merged = directory / "upper", directory / "work", directory / "rootfs"
    for path in (upper, work, merged):
        path.mkdir(mode=0o755, exist_ok=True)
    options = f"lowerdir={_escape(lower)},upperdir={_escape(upper)},workdir={_escape(work)}".encode()
    if _libc.mount(b"overlay", os.fsencode(merged), b"overlay", ctypes.c_ulong(0), options) != 0:
        return None
    return merged


def unmount(path: Path) -> None:
    """Detaches a mount; a path that is none is left alone."""
    if path.is_dir() and os.path.ismount(path) and _libc.umount2(os.fsencode(path), _MNT_DETACH) != 0:
        raise RuntimeFailure(f"cannot unmount {path}: {os.strerror(ctypes.get_errno())}")


def _escape(path: Path) -> str:
    return str(path).replace("\\", "\\\\").replace(",", "\\,").replace(":", "\\:")
