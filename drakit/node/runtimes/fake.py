"""Containers that exist only in memory: for many pods on one machine, and for tests of the agent without a kernel.

A container runs until it is stopped, except that `sleep N` ends after N seconds, `true` at once with 0 and `false` with 1; `sh -c "exit N"`
ends with N. Everything is told to `calls`, so that tests can see the order of things.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from drakit.clock import Clock, SystemClock
from drakit.driver.errors import CdiError
from drakit.driver.injection import CdiCache
from drakit.node.errors import NotSupported, RuntimeFailure
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

__all__ = ["FakeRuntime"]


@dataclass
class FakeContainer:
    status: ContainerStatus
    config: ContainerConfig
    sandbox: str
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    timer: asyncio.Task[None] | None = None


class FakeRuntime:
    name = "fake"

    def __init__(self, *, clock: Clock | None = None, cdi: CdiCache | None = None) -> None:
        self._clock = clock or SystemClock()
        self._cdi = cdi
        self._numbers = itertools.count(1)
        self.sandboxes: dict[str, PodRecord] = {}
        self.containers: dict[str, FakeContainer] = {}
        self.calls: list[tuple[str, str]] = []
        self.exec_results: dict[str, ExecResult] = {}  # by the command's first word
        self.failures: dict[str, RuntimeFailure] = {}  # by method name: raised once

    async def start(self) -> None:
        """Nothing to connect to."""

    async def stop(self, *, kill: bool = False) -> None:
        for container in self.containers.values():
            if container.timer is not None:
                container.timer.cancel()

    async def info(self) -> RuntimeInfo:
        return RuntimeInfo("fake", "1", ("containers are pretended: nothing runs",))

    async def pods(self) -> list[PodRecord]:
        for record in self.sandboxes.values():
            record.containers = [c.status for c in self.containers.values() if c.sandbox == record.sandbox_id]
        return list(self.sandboxes.values())

    async def ensure_image(self, image: str, policy: str, *, sandbox: SandboxConfig) -> tuple[str, bool]:
        self._note("ensure_image", image)
        return f"fake/{image}", False

    async def run_sandbox(self, config: SandboxConfig) -> tuple[str, str]:
        self._note("run_sandbox", config.name)
        identifier = f"sandbox-{next(self._numbers)}"
        self.sandboxes[identifier] = PodRecord(
            identifier, config.namespace, config.name, config.uid, config.attempt, True, ""
        )
        return identifier, ""

    async def stop_sandbox(self, sandbox_id: str) -> None:
        self._note("stop_sandbox", sandbox_id)
        if sandbox_id in self.sandboxes:
            self.sandboxes[sandbox_id].ready = False
        for identifier, container in list(self.containers.items()):
            if container.sandbox == sandbox_id:
                await self.stop_container(identifier, 0)

    async def remove_sandbox(self, sandbox_id: str) -> None:
        await self.stop_sandbox(sandbox_id)
        self.sandboxes.pop(sandbox_id, None)
        for identifier in [i for i, c in self.containers.items() if c.sandbox == sandbox_id]:
            del self.containers[identifier]

    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox: SandboxConfig) -> str:
        self._note("create_container", config.name)
        if self._cdi is not None:
            try:
                self._cdi.resolve(config.cdi_devices)
            except CdiError as error:
                raise RuntimeFailure(f"CDI device injection failed: {error}", "CreateContainerError") from error
        identifier = f"container-{next(self._numbers)}"
        status = ContainerStatus(
            identifier, config.name, config.attempt, CREATED, created_at=self._now(), image=config.image
        )
        status.image_ref, status.log_path = f"fake/{config.image}", config.log_path
        self.containers[identifier] = FakeContainer(status, config, sandbox_id)
        return identifier

    async def start_container(self, container_id: str) -> None:
        container = self.containers[container_id]
        self._note("start_container", container.config.name)
        container.status.state, container.status.started_at = RUNNING, self._now()
        plan = _plan([*container.config.command, *container.config.args])
        if plan is not None:
            container.timer = asyncio.create_task(self._end_after(container, *plan))

    async def _end_after(self, container: FakeContainer, seconds: float, code: int) -> None:
        await self._clock.sleep(seconds)
        self.end(container.status.id, code)

    def end(self, container_id: str, code: int) -> None:
        """The container's process ends, as tests like it."""
        container = self.containers[container_id]
        status = container.status
        if status.state == RUNNING:
            status.state, status.exit_code, status.finished_at = EXITED, code, self._now()
            status.reason = "Completed" if code == 0 else "Error"
            container.ended.set()

    async def stop_container(self, container_id: str, grace: float) -> None:
        container = self.containers.get(container_id)
        if container is None or container.status.state == EXITED:
            return
        self._note("stop_container", container.config.name)
        if container.timer is not None:
            container.timer.cancel()
        self.end(container_id, 143 if grace > 0 else 137)

    async def remove_container(self, container_id: str) -> None:
        await self.stop_container(container_id, 0)
        self.containers.pop(container_id, None)

    async def status(self, container_id: str) -> ContainerStatus:
        return self.containers[container_id].status

    async def wait(self, container_id: str) -> ContainerStatus:
        container = self.containers[container_id]
        await container.ended.wait()
        return container.status

    async def exec_sync(self, container_id: str, command: Sequence[str], timeout: float) -> ExecResult:
        self._note("exec_sync", " ".join(command))
        return self.exec_results.get(command[0], ExecResult(0, b""))

    async def exec(self, container_id: str, command: Sequence[str], *, tty: bool, stdin: bool) -> Stream:
        raise NotSupported("the fake runtime runs nothing: there is no process to exec in")

    async def attach(self, container_id: str, *, tty: bool, stdin: bool) -> Stream:
        raise NotSupported("the fake runtime runs nothing: there is nothing to attach to")

    def _note(self, method: str, what: str) -> None:
        self.calls.append((method, what))
        if method in self.failures:
            raise self.failures.pop(method)

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _plan(argv: Sequence[str]) -> tuple[float, int] | None:
    """(seconds, exit code) of a command this runtime understands."""
    words = list(argv)
    if len(words) == 3 and words[:2] in (["sh", "-c"], ["/bin/sh", "-c"]):
        words = words[2].split()
    if words[:1] == ["true"]:
        return 0.0, 0
    if words[:1] == ["false"]:
        return 0.0, 1
    try:
        if len(words) == 2 and words[0] == "exit":
            return 0.0, int(words[1])
        if len(words) == 2 and words[0] == "sleep":
            return float(words[1]), 0
    except ValueError:
        return None
    return None
