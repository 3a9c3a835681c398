"""Files a driver or the agent writes: whole or not at all, and never at a path that a name from the API chose.

Every name that becomes part of a path goes through `component`; Kubernetes' own validation would already refuse most of the bad
ones, but the node trusts no API server (the kubelet's socket peers and checkpoint files are inputs too).
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from pathlib import Path
from typing import Any

from drakit.driver.errors import UnsafeName

__all__ = ["component", "read_bytes", "remove", "remove_tree", "write"]

# What any name of ours may hold: DNS labels and subdomains, UIDs, CDI kinds. No slash, no NUL, no leading dot, ASCII only.
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
NAME_MAX = 255


def component(name: str, what: str, *, reserve: int = 0) -> str:
    """The name if it is safe as one path component with `reserve` bytes to spare for a prefix or suffix; otherwise UnsafeName."""
    if not _SAFE.match(name):
        raise UnsafeName(
            f"{what} {name!r} may not become a file name: only ASCII letters, digits, '.', '_' and '-', starting with a letter or digit"
        )
    if len(name) + reserve > NAME_MAX:
        raise UnsafeName(
            f"{what} {name[:40]!r}... is too long for a file name: {len(name) + reserve} bytes, at most {NAME_MAX}"
        )
    return name


def write(path: Path, data: bytes, *, mode: int = 0o644, durable: bool = True) -> None:
    """Temporary file, fsync, rename, fsync of the directory; on any failure the old file stays and the temporary one goes."""
    temporary = path.parent / f".{path.name[:200]}.{secrets.token_hex(4)}"
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with os.fdopen(fd, "wb") as file:
            os.fchmod(fd, mode)
            file.write(data)
            file.flush()
            if durable:
                os.fsync(fd)
        os.rename(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:  # else: for what a crash of the machine ends anyway
        sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def read_bytes(path: Path) -> bytes | None:
    """The content, or None when there is no such file."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def remove_tree(path: Path) -> None:
    """Removes a directory and all below it; links are removed, never followed. Others may be removing it at the same time."""
    if path.is_symlink():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path, onerror=_unless_gone)


def _unless_gone(function: Any, path: str, failure: Any) -> None:
    if not issubclass(failure[0], FileNotFoundError):
        raise failure[1]
