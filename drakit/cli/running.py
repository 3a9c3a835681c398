"""The cluster that runs on this machine, as other commands find it: a folder with a lock, a process file and a kubeconfig."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["AlreadyRunning", "Process", "announce", "command", "default_folder", "find", "occupy", "starting", "stop"]


class AlreadyRunning(Exception):
    """Another `drakit up` holds the folder."""


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    url: str
    kubeconfig: str
    started: float
    nodes: int = 0
    profile: str = ""
    ephemeral: bool = False


def default_folder() -> Path:
    """`$DRAKIT_STATE`, else `$XDG_STATE_HOME/drakit`, else `~/.local/state/drakit`."""
    if folder := os.environ.get("DRAKIT_STATE"):
        return Path(folder)
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "drakit"


def command(verb: str, folder: Path) -> str:
    """What to type for a cluster of this folder."""
    return f"drakit {verb}" if folder == default_folder() else f"drakit {verb} --state {folder}"


@contextmanager
def occupy(folder: Path) -> Iterator[Path]:
    """Hold the folder's lock; the process file and kubeconfig in it go when we do. Yields the path of the process file."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (folder / "lock").open("a")
    except OSError as error:
        raise OSError(
            error.errno, f"{error.strerror}; choose with --state a folder that this user may write", str(folder)
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            other = find(folder)
            who = f" (process {other.pid}, {other.url})" if other else ""
            raise AlreadyRunning(
                f"a cluster already runs from {folder}{who}: "
                f"stop it with `{command('down', folder)}`, or choose another folder with --state"
            ) from None
        process = folder / "process.json"
        try:
            yield process
        finally:
            process.unlink(missing_ok=True)


def announce(path: Path, process: Process) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(asdict(process)))
    temporary.replace(path)


def find(folder: Path) -> Process | None:
    """The cluster that runs from this folder; None when there is none (a stale file of a killed process counts as none)."""
    lock = folder / "lock"
    if not lock.exists():
        return None
    with lock.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None  # nobody holds it
        except OSError:
            pass
    for _ in range(50):  # it may be on its way up
        try:
            return Process(**json.loads((folder / "process.json").read_text()))
        except (OSError, ValueError, TypeError):
            time.sleep(0.1)
    return None


def stop(process: Process, folder: Path, *, timeout: float = 15.0) -> bool:
    """Ask it to end and wait; True when it is gone."""
    try:
        os.kill(process.pid, signal.SIGTERM)
    except ProcessLookupError:
        return True
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if find_lock_free(folder):
            return True
        time.sleep(0.05)
    return False


def starting(folder: Path) -> bool:
    """Somebody holds the folder: what `find` does not see yet is on its way up."""
    return (folder / "lock").exists() and not find_lock_free(folder)


def find_lock_free(folder: Path) -> bool:
    with (folder / "lock").open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return True
        except OSError:
            return False
