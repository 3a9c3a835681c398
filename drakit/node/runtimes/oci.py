"""Containers by runc: real isolation, real devices, on the host's root (with a private writable layer) or an unpacked image."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from drakit.driver import files
from drakit.driver.injection import CdiCache
from drakit.node.errors import RuntimeFailure
from drakit.node.runtime import RuntimeInfo
from drakit.node.runtimes import oci_spec, rootfs
from drakit.node.runtimes.local import Box, Launch, LocalRuntime

__all__ = ["OciRuntime", "find"]

_NOTES = (
    "pods use the node's network (no CNI): ports of different pods can clash",
    "no image registry: containers run on the host's root with a private writable layer unless their image is unpacked under --images",
    "no seccomp or AppArmor profile is applied",
)


def find() -> str:
    """The path of runc, or "" where it is not installed or cannot work (not root)."""
    return (shutil.which("runc") or "") if os.geteuid() == 0 else ""


class OciRuntime(LocalRuntime):
    name = "oci"

    def __init__(self, root: Path, *, cdi: CdiCache, images: Path | None = None) -> None:
        super().__init__(root, cdi=cdi, images=images)
        self._runc = find()
        self._state = root / "runc"

    async def start(self) -> None:
        if not self._runc:
            raise RuntimeFailure(
                "runc is not installed, or this is not root: apt-get install runc, or use --runtime process"
            )
        await super().start()

    async def info(self) -> RuntimeInfo:
        process = await asyncio.create_subprocess_exec(self._runc, "--version", stdout=subprocess.PIPE)
        output, _ = await process.communicate()
        version = output.decode().split("\n")[0].removeprefix("runc version ").strip()
        return RuntimeInfo("runc", version, _NOTES)

    def _launch(self, box: Box) -> Launch:
        merged = rootfs.mount_overlay(box.image.root, box.directory)
        masked = (
            [m for m in oci_spec.MASKED_ON_HOST if os.path.isdir(m) and not os.path.islink(m)]
            if box.image.is_host
            else []
        )
        if merged is None:
            merged = box.directory / "rootfs"
            if box.image.is_host:
                _make_links(merged)
        own = str(self._root)
        if box.image.is_host and not any(own == m or own.startswith(m + "/") for m in masked):
            masked.append(own)  # the agent's own files: other pods' secrets among them
        overlay = os.path.ismount(merged)
        spec = oci_spec.build(
            box.config,
            argv=box.argv,
            root=merged if overlay or box.image.is_host else box.image.root,
            host_binds=box.image.is_host and not overlay,
            masked=masked,
            hostname=box.sandbox.config.hostname,
            edits=box.edits,
            cgroup=f"/drakit/{files.component(box.sandbox.config.uid, 'pod UID')}/{box.id}",
            env=box.env,
            working_directory=box.working_directory,
        )
        (box.directory / "config.json").write_text(json.dumps(spec))
        pid_file = str(box.directory / "pid")
        argv = [
            self._runc, "--root", str(self._state), "--log", str(box.directory / "runc.log"),
            "run", "--detach", "--bundle", str(box.directory), "--pid-file", pid_file, box.id,
        ]  # fmt: skip
        return Launch(argv, _environment(), pid_file=pid_file)

    def _exec_argv(self, box: Box, command: Sequence[str], *, tty: bool) -> tuple[list[str], dict[str, str]]:
        options = ["--tty"] if tty else []
        return [self._runc, "--root", str(self._state), "exec", *options, box.id, *command], _environment()

    async def _clean(self, box: Box) -> None:
        """The exit is known: forget runc's state and cgroup, and the mounts. Idempotent."""
        if box.exit is not None and box.exit.get("code") == 137 and _oom_kills(box):
            box.exit["oom"] = True
        if (self._state / box.id).exists():
            process = await asyncio.create_subprocess_exec(
                self._runc, "--root", str(self._state), "delete", "--force", box.id,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            await process.wait()
        rootfs.unmount(box.directory / "rootfs")

    async def remove_sandbox(self, sandbox_id: str) -> None:
        sandbox = self._sandboxes.get(sandbox_id)
        await super().remove_sandbox(sandbox_id)
        if sandbox is not None:
            _remove_cgroups(f"drakit/{files.component(sandbox.config.uid, 'pod UID')}")


def _remove_cgroups(group: str) -> None:
    """The pod's own (now empty) cgroup in each hierarchy; runc removed those of the containers."""
    for base in (Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").glob("*/")):
        try:
            os.rmdir(base / group)
        except OSError:
            continue  # not there, or a sandbox of the same pod still has containers in it


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "XDG_RUNTIME_DIR": "/run"}


def _make_links(root: Path) -> None:
    """Without an overlay the root is empty: top-level links of the host (bin -> usr/bin) have to be made."""
    for entry in os.scandir("/"):
        if entry.is_symlink() and not (root / entry.name).exists():
            os.symlink(os.readlink(entry.path), root / entry.name)


def _oom_kills(box: Box) -> bool:
    """Whether the kernel killed something in the container's memory cgroup (version 1 or 2)."""
    group = f"drakit/{box.sandbox.config.uid}/{box.id}"
    for path in (
        Path("/sys/fs/cgroup/memory", group, "memory.oom_control"),
        Path("/sys/fs/cgroup", group, "memory.events"),
    ):
        text = (files.read_bytes(path) or b"").decode()
        for line in text.splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill" and count.strip() not in ("", "0"):
                return True
    return False
