"""Containers as plain processes: in bubblewrap's namespaces where it is installed, else as bare children of the monitor.

With bubblewrap: own mount, PID, IPC and UTS namespaces, CDI devices and mounts; no cgroup limits. As root the root has a private writable
layer; else it is the host's, read-only. A bare child sees the host as it is: environment only, everything that needs a mount is refused.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path

from drakit.driver.injection import CdiCache
from drakit.node.errors import NotSupported, RuntimeFailure
from drakit.node.runtime import RuntimeInfo, Security
from drakit.node.runtimes import oci_spec, rootfs
from drakit.node.runtimes.local import Box, Launch, LocalRuntime

__all__ = ["ProcessRuntime", "find"]

_COMMON = (
    "pods use the node's network: ports of different pods can clash",
    "no cgroups: CPU and memory limits are not enforced",
    "no image registry: containers run on the host's root unless their image is unpacked under --images",
)
_BARE = (
    "bubblewrap is not installed: containers are plain processes without any isolation, and mounts and device nodes are refused",
    *_COMMON[:2],
)


def find() -> str:
    return shutil.which("bwrap") or ""


class ProcessRuntime(LocalRuntime):
    name = "process"

    def __init__(self, root: Path, *, cdi: CdiCache, images: Path | None = None, bwrap: str | None = None) -> None:
        super().__init__(root, cdi=cdi, images=images)
        self._bwrap = find() if bwrap is None else bwrap
        self._pids: dict[str, int] = {}

    async def info(self) -> RuntimeInfo:
        if not self._bwrap:
            return RuntimeInfo("process", "bare", _BARE)
        process = await asyncio.create_subprocess_exec(self._bwrap, "--version", stdout=subprocess.PIPE)
        output, _ = await process.communicate()
        return RuntimeInfo("bubblewrap", output.decode().split()[-1], _COMMON)

    def _launch(self, box: Box) -> Launch:
        if box.edits.hooks or box.edits.net_devices:
            raise NotSupported("CDI hooks and net devices need the oci or cri runtime")
        if not self._bwrap:
            return self._bare(box)
        return Launch([self._bwrap, *self._arguments(box), "--", *box.argv], {"PATH": os.defpath})

    def _bare(self, box: Box) -> Launch:
        wanted = [m.container_path for m in box.config.mounts if m.host_path != m.container_path and not m.optional]
        wanted += [m["containerPath"] for m in box.edits.mounts if m["hostPath"] != m["containerPath"]]
        wanted += [n["path"] for n in box.edits.device_nodes if not os.path.exists(n["path"])]
        if wanted:
            raise NotSupported(
                f"cannot provide {', '.join(wanted)}: plain processes have no mounts of their own; install bubblewrap or runc"
            )
        if box.config.security.user and box.config.security.user != os.geteuid():
            raise NotSupported(f"cannot run as user {box.config.security.user}: install bubblewrap or runc")
        command = box.argv[0]
        if shutil.which(command, path=box.env.get("PATH", os.defpath)) is None:
            raise RuntimeFailure(f"exec: {command}: No such file or directory, or not executable", "StartError")
        return Launch(box.argv, box.env, cwd=box.working_directory)

    def _arguments(self, box: Box) -> list[str]:
        merged = rootfs.mount_overlay(box.image.root, box.directory) if os.geteuid() == 0 else None
        security = box.config.security
        root = merged or box.image.root
        writable = merged is not None and not security.read_only_root
        args = ["--bind" if writable else "--ro-bind", str(root), "/", "--dev", "/dev", "--proc", "/proc"]
        args += ["--ro-bind", "/sys", "/sys"] if os.path.isdir("/sys") else []
        if box.image.is_host:
            masked = [m for m in oci_spec.MASKED_ON_HOST if os.path.isdir(m) and not os.path.islink(m)]
            own = str(self._root)
            for path in [*masked, *([] if any(own.startswith(m + "/") for m in masked) else [own])]:
                args += ["--tmpfs", path]
        args += ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--new-session", "--as-pid-1", "--die-with-parent"]
        if box.sandbox.config.hostname:
            args += ["--hostname", box.sandbox.config.hostname]
        for mount in sorted(box.config.mounts, key=lambda m: m.container_path.count("/")):
            args += ["--ro-bind" if mount.read_only else "--bind", mount.host_path, _inside(root, mount.container_path)]
        for edit in sorted(box.edits.mounts, key=lambda m: m["containerPath"].count("/")):
            flag = "--ro-bind" if "ro" in (edit.get("options") or ()) else "--bind"
            args += [flag, edit["hostPath"], _inside(root, edit["containerPath"])]
        for node in box.edits.device_nodes:
            args += ["--dev-bind", str(_device(box, node, security)), node["path"]]
        if security.user or security.group:
            args += ["--unshare-user", "--uid", str(security.user or 0), "--gid", str(security.group or 0)]
        args += ["--chdir", box.working_directory, "--clearenv"]
        for name, value in box.env.items():
            args += ["--setenv", name, value]
        return args

    def _exec_argv(self, box: Box, command: Sequence[str], *, tty: bool) -> tuple[list[str], dict[str, str]]:
        if not self._bwrap:
            return list(command), box.env
        pid = _inner_pid(self._pid_of(box))
        env = box.env
        # chroot after joining: the mount namespace's root is bubblewrap's, the process's own root is where it chdir'ed to.
        inside = " ".join(["exec", *(shlex.quote(c) for c in command)])
        argv = ["nsenter", "-t", str(pid), "-m", "-p", "-i", "-u", f"--root=/proc/{pid}/root", f"--wd=/proc/{pid}/cwd"]
        return [*argv, "/bin/sh", "-c", inside], env

    def _pid_of(self, box: Box) -> int:
        pid = self._pids.get(box.id)
        if pid is None:
            raise RuntimeFailure(f"container {box.config.name} is not running", "BadRequest")
        return pid

    async def start(self) -> None:
        await super().start()
        self._pids = {i: int(p["pid"]) for i, p in (await self._monitor.processes()).items()}

    async def start_container(self, container_id: str) -> None:
        await super().start_container(container_id)
        self._pids[container_id] = int((await self._monitor.processes())[container_id]["pid"])

    async def _clean(self, box: Box) -> None:
        rootfs.unmount(box.directory / "rootfs")


def _inside(root: Path, path: str) -> str:
    """Where a mount point really is: bubblewrap makes directories, but does not follow links on the way (/var/run -> /run)."""
    parts = [p for p in path.split("/") if p]
    done: list[str] = []
    for _ in range(256):
        if not parts:
            break
        part = parts.pop(0)
        if part == "..":
            done = done[:-1]
            continue
        here = root.joinpath(*done, part)
        if here.is_symlink():
            target = os.readlink(here)
            done = [] if target.startswith("/") else done
            parts = [p for p in target.split("/") if p and p != "."] + parts
        else:
            done.append(part)
    return "/" + "/".join(done)


def _inner_pid(pid: int) -> int:
    """bubblewrap's first process stays outside the new PID namespace; its child is the container's init."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError as error:
        raise RuntimeFailure("the container has ended", "BadRequest") from error
    return int(children[0]) if children else pid


def _device(box: Box, node: object, security: Security) -> Path:
    """The host's node, or one made for this container when the spec only gives numbers."""
    assert isinstance(node, dict)
    if node.get("major") is None and node.get("hostPath"):
        return Path(node["hostPath"])
    device = oci_spec.host_device(node, security)
    path = box.directory / f"device-{device['type']}-{device['major']}-{device['minor']}"
    if not path.exists():
        kind = stat.S_IFBLK if device["type"] == "b" else stat.S_IFCHR
        try:
            os.mknod(path, kind | device["fileMode"], os.makedev(device["major"], device["minor"]))
            os.chmod(path, device["fileMode"])
        except OSError as error:
            raise RuntimeFailure(f"cannot make device node {node['path']}: {error.strerror}") from error
    return path
