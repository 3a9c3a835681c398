"""What the runtimes on this machine share: records on disk, the monitor, the life of a container, exec and attach.

A container's record is written before its process is started and kept until the container is removed, so that an agent that comes
back knows what there may be. How a process is contained is the subclass's part (`_launch`, `_exec_argv`, `_clean`).
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from drakit.driver import files
from drakit.driver.errors import CdiError
from drakit.driver.injection import CdiCache, Edits
from drakit.node.errors import RuntimeFailure
from drakit.node.monitor_client import MonitorClient
from drakit.node.runtime import (
    CREATED,
    EXITED,
    RUNNING,
    ContainerConfig,
    ContainerStatus,
    ExecResult,
    PodRecord,
    RuntimeInfo,
    SandboxConfig,
    Stream,
)
from drakit.node.runtimes import rootfs
from drakit.node.runtimes.oci_spec import DEFAULT_PATH, merged_env
from drakit.node.runtimes.streams import AttachStream, ExecStream

__all__ = ["Launch", "LocalRuntime"]

log = logging.getLogger(__name__)

# A container without a command runs what its image says; where there is only the host's root, it shows its devices and waits.
SHOW_DEVICES = (
    "echo '== devices of this container =='; env | grep -E '^(GPU|NIC|NET|CPU|TPU|FPGA|DRA|DRAKIT|NVIDIA)[A-Z0-9_]*=' | sort; "
    "command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi -L; ls -1 /dev/drakit 2>/dev/null; "
    "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"
)


@dataclass
class Launch:
    """How to start a contained process."""

    argv: Sequence[str]
    env: Mapping[str, str]
    pid_file: str = ""
    cwd: str = ""


@dataclass
class Sandbox:
    id: str
    config: SandboxConfig
    ready: bool = True
    containers: set[str] = field(default_factory=set)


@dataclass
class Box:
    """One container: its record and what is known of its process."""

    id: str
    sandbox: Sandbox
    config: ContainerConfig
    edits: Edits
    image: rootfs.Image
    directory: Path
    created_at: float
    started_at: float = 0.0
    exit: dict[str, Any] | None = None

    @property
    def env(self) -> dict[str, str]:
        """Image, then container, then CDI."""
        env = {"PATH": DEFAULT_PATH, "HOME": "/"}
        for variable in self.image.config.get("Env") or ():
            name, _, value = variable.partition("=")
            env[name] = value
        return merged_env({**env, "HOSTNAME": self.sandbox.config.hostname, **self.config.env}, self.edits)

    @property
    def argv(self) -> list[str]:
        command = list(self.config.command or self.image.config.get("Entrypoint") or ())
        args = list(self.config.args or (() if self.config.command else self.image.config.get("Cmd") or ()))
        if not command and not args:
            if not self.image.is_host:
                raise RuntimeFailure("no command specified", "CreateContainerError")
            return ["/bin/sh", "-c", SHOW_DEVICES]
        if not command and self.image.is_host:
            return ["/bin/sh", "-c", 'exec "$@"', "sh", *args]
        return command + args

    @property
    def working_directory(self) -> str:
        return self.config.working_directory or self.image.config.get("WorkingDir") or "/"


class LocalRuntime:
    name = "local"

    def __init__(self, root: Path, *, cdi: CdiCache, images: Path | None = None) -> None:
        self._root = root
        self._pods = root / "pods"
        self._cdi = cdi
        self._images = images
        self._monitor = MonitorClient(root)
        self._sandboxes: dict[str, Sandbox] = {}
        self._boxes: dict[str, Box] = {}

    # What a subclass says.

    async def info(self) -> RuntimeInfo:
        raise NotImplementedError

    def _launch(self, box: Box) -> Launch:
        """Makes the container's surroundings ready (in a thread) and says how to start it."""
        raise NotImplementedError

    def _exec_argv(self, box: Box, command: Sequence[str], *, tty: bool) -> tuple[list[str], dict[str, str]]:
        raise NotImplementedError

    async def _kill(self, box: Box, number: int) -> None:
        await self._monitor.signal(box.id, number)

    async def _clean(self, box: Box) -> None:
        """After the process has ended: whatever `_launch` made outside the container's directory."""

    # The life of sandboxes and containers.

    async def start(self) -> None:
        self._pods.mkdir(mode=0o700, parents=True, exist_ok=True)
        await self._monitor.start()
        running = await self._monitor.processes()
        for path in sorted(self._pods.glob("*/sandbox.json")):
            self._load(path, running)

    async def stop(self, *, kill: bool = False) -> None:
        if kill:
            for sandbox in list(self._sandboxes):
                await self.remove_sandbox(sandbox)
        await self._monitor.stop(kill=kill)

    async def pods(self) -> list[PodRecord]:
        records = []
        for sandbox in self._sandboxes.values():
            config = sandbox.config
            statuses = [self._status(self._boxes[i]) for i in sorted(sandbox.containers) if i in self._boxes]
            records.append(
                PodRecord(
                    sandbox.id, config.namespace, config.name, config.uid, config.attempt, sandbox.ready, "", statuses
                )
            )
        return records

    async def ensure_image(self, image: str, policy: str, *, sandbox: SandboxConfig) -> tuple[str, bool]:
        return rootfs.find_image(self._images, image).reference, False

    async def run_sandbox(self, config: SandboxConfig) -> tuple[str, str]:
        sandbox = Sandbox(secrets.token_hex(16), config)
        directory = self._pods / sandbox.id
        directory.mkdir(mode=0o700)
        files.write(directory / "sandbox.json", msgspec.json.encode(config), mode=0o600, durable=False)
        self._sandboxes[sandbox.id] = sandbox
        return sandbox.id, ""

    async def stop_sandbox(self, sandbox_id: str) -> None:
        sandbox = self._sandboxes.get(sandbox_id)
        if sandbox is None:
            return
        sandbox.ready = False
        await asyncio.gather(*(self.stop_container(i, 0) for i in list(sandbox.containers)))

    async def remove_sandbox(self, sandbox_id: str) -> None:
        sandbox = self._sandboxes.get(sandbox_id)
        if sandbox is None:
            return
        await self.stop_sandbox(sandbox_id)
        for identifier in list(sandbox.containers):
            await self.remove_container(identifier)
        await asyncio.to_thread(files.remove_tree, self._pods / sandbox_id)
        del self._sandboxes[sandbox_id]

    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox: SandboxConfig) -> str:
        owner = self._sandbox(sandbox_id)
        try:
            edits = self._cdi.resolve(config.cdi_devices)
        except CdiError as error:
            raise RuntimeFailure(f"CDI device injection failed: {error}", "CreateContainerError") from error
        image = rootfs.find_image(self._images, config.image)
        identifier = secrets.token_hex(16)
        directory = self._pods / owner.id / identifier
        box = Box(identifier, owner, config, edits, image, directory, time.time())
        _ = box.argv  # says "no command specified" now
        directory.mkdir(mode=0o700)
        record = msgspec.json.encode({"config": config, "created": box.created_at})
        files.write(directory / "record.json", record, mode=0o600, durable=False)
        owner.containers.add(identifier)
        self._boxes[identifier] = box
        return identifier

    async def start_container(self, container_id: str) -> None:
        box = self._box(container_id)
        launch = await asyncio.to_thread(self._launch, box)
        try:
            box.started_at = await self._monitor.spawn(
                box.id,
                launch.argv,
                env=launch.env,
                log_path=box.config.log_path,
                exit_path=str(box.directory / "exit.json"),
                pid_file=launch.pid_file,
                cwd=launch.cwd,
                stdin=box.config.stdin,
                tty=box.config.tty,
            )
        except RuntimeFailure:
            await self._clean(box)
            raise

    async def stop_container(self, container_id: str, grace: float) -> None:
        box = self._boxes.get(container_id)
        if box is None or not box.started_at or self._status(box).state == EXITED:
            return
        await self._kill(box, signal.SIGTERM if grace > 0 else signal.SIGKILL)
        ended = asyncio.ensure_future(self._monitor.wait(box.id))
        try:
            await asyncio.wait_for(asyncio.shield(ended), max(grace, 0.001))
        except TimeoutError:
            await self._kill(box, signal.SIGKILL)
            await ended

    async def remove_container(self, container_id: str) -> None:
        box = self._boxes.get(container_id)
        if box is None:
            return
        await self.stop_container(container_id, 0)
        await self._clean(box)
        await asyncio.to_thread(_remove_directory, box.directory)
        await self._monitor.forget(container_id)
        box.sandbox.containers.discard(container_id)
        self._boxes.pop(container_id, None)

    async def status(self, container_id: str) -> ContainerStatus:
        return self._status(self._box(container_id))

    async def wait(self, container_id: str) -> ContainerStatus:
        box = self._box(container_id)
        if box.exit is None:
            box.exit = await self._monitor.wait(container_id)
            await self._clean(box)
        return self._status(box)

    # Exec and attach.

    async def exec_sync(self, container_id: str, command: Sequence[str], timeout: float) -> ExecResult:
        argv, env = self._exec_argv(self._running(container_id), command, tty=False)
        process = await asyncio.create_subprocess_exec(
            *argv,
            env=env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(), timeout or None)
        except (TimeoutError, asyncio.CancelledError):
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            raise
        return ExecResult(_code(process.returncode), output)

    async def exec(self, container_id: str, command: Sequence[str], *, tty: bool, stdin: bool) -> Stream:
        argv, env = self._exec_argv(self._running(container_id), command, tty=tty)
        return await ExecStream.start(argv, env, tty=tty, stdin=stdin)

    async def attach(self, container_id: str, *, tty: bool, stdin: bool) -> Stream:
        self._running(container_id)
        return await AttachStream.start(self._monitor, container_id, stdin=stdin)

    # Records.

    def _sandbox(self, sandbox_id: str) -> Sandbox:
        sandbox = self._sandboxes.get(sandbox_id)
        if sandbox is None:
            raise RuntimeFailure(f"no sandbox {sandbox_id}", "CreateContainerError")
        return sandbox

    def _box(self, container_id: str) -> Box:
        box = self._boxes.get(container_id)
        if box is None:
            raise RuntimeFailure(f"no container {container_id}", "ContainerStatusUnknown")
        return box

    def _running(self, container_id: str) -> Box:
        box = self._box(container_id)
        if self._status(box).state != RUNNING:
            raise RuntimeFailure(f"container {box.config.name} is not running", "BadRequest")
        return box

    def _status(self, box: Box) -> ContainerStatus:
        config = box.config
        status = ContainerStatus(
            box.id,
            config.name,
            config.attempt,
            CREATED,
            created_at=box.created_at,
            started_at=box.started_at,
            image=config.image,
            image_ref=box.image.reference,
            log_path=config.log_path,
        )
        ended = box.exit or self._monitor.ended(box.id)
        if ended is not None:
            status.state, status.exit_code, status.signal = EXITED, ended["code"], ended["signal"]
            status.finished_at = ended["at"] or time.time()
            status.reason = "OOMKilled" if ended.get("oom") else "Completed" if ended["code"] == 0 else "Error"
            if ended.get("lost"):
                status.reason, status.message = "ContainerStatusUnknown", "the container's monitor was killed"
        elif box.started_at:
            status.state = RUNNING
        return status

    def _load(self, path: Path, running: Mapping[str, Any]) -> None:
        """A sandbox that an earlier agent left; what its records do not say is taken as ended."""
        try:
            config = msgspec.json.decode(path.read_bytes(), type=SandboxConfig)
        except (OSError, msgspec.MsgspecError) as error:
            log.warning("forgetting sandbox %s: %s", path.parent.name, error)
            files.remove_tree(path.parent)
            return
        # After a reboot (or the monitor's death) the pod has to be set up anew: its CDI files may be gone, its claims reset.
        sandbox = self._sandboxes[path.parent.name] = Sandbox(path.parent.name, config, ready=not self._monitor.fresh)
        for record in path.parent.glob("*/record.json"):
            box = self._load_box(sandbox, record)
            if box is None:
                continue
            described = running.get(box.id)
            blob = files.read_bytes(record.parent / "exit.json")
            if described is not None:
                box.started_at = described["started"]
            elif blob is not None:
                box.exit = json.loads(blob)
                box.started_at = box.exit.get("started", 0.0) if box.exit else 0.0
            else:
                box.exit = {"code": 137, "signal": 9, "at": 0.0, "lost": True}

    def _load_box(self, sandbox: Sandbox, record: Path) -> Box | None:
        try:
            data = msgspec.json.decode(record.read_bytes())
            config = msgspec.convert(data["config"], ContainerConfig)
        except (OSError, msgspec.MsgspecError, KeyError) as error:
            log.warning("forgetting container %s: %s", record.parent.name, error)
            return None
        image = rootfs.find_image(self._images, config.image)
        box = Box(record.parent.name, sandbox, config, Edits(), image, record.parent, data["created"])
        sandbox.containers.add(box.id)
        self._boxes[box.id] = box
        return box


def _code(returncode: int | None) -> int:
    code = returncode or 0
    return 128 - code if code < 0 else code


def _remove_directory(directory: Path) -> None:
    """Never deletes through a mount: a bind that could not be unmounted keeps the directory."""
    merged = directory / "rootfs"
    rootfs.unmount(merged)
    if not (merged.is_dir() and os.path.ismount(merged)):
        files.remove_tree(directory)
