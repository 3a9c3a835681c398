"""The seam to container runtimes, in CRI's words: sandboxes, containers, their states, logs in CRI's line format, exec and attach.

A runtime keeps what it started when the agent goes away, and tells about it by `pods()` when the agent comes back; `fake` forgets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

__all__ = [
    "ContainerConfig",
    "ContainerStatus",
    "ExecResult",
    "Mount",
    "PodRecord",
    "Runtime",
    "RuntimeInfo",
    "SandboxConfig",
    "Security",
    "Stream",
]

CREATED, RUNNING, EXITED = "created", "running", "exited"


@dataclass(frozen=True)
class RuntimeInfo:
    """What `drakit node --check` and the node's status say about a runtime."""

    name: str
    version: str
    notes: Sequence[str] = ()  # what it lacks, in words
    handlers: Sequence[str] = ()


@dataclass(frozen=True)
class Mount:
    host_path: str
    container_path: str
    read_only: bool = False
    propagation: str = ""  # "", HostToContainer, Bidirectional
    optional: bool = False  # a convenience (hosts file, termination log) that a runtime without mounts may leave out


@dataclass(frozen=True)
class Security:
    user: int | None = None
    group: int | None = None
    supplemental_groups: Sequence[int] = ()
    read_only_root: bool = False
    privileged: bool = False
    no_new_privileges: bool = False
    add_capabilities: Sequence[str] = ()
    drop_capabilities: Sequence[str] = ()


@dataclass(frozen=True)
class Resources:
    """Already in the runtime's units; 0 is unlimited."""

    cpu_shares: int = 0
    cpu_quota: int = 0
    cpu_period: int = 100_000
    memory_limit: int = 0


@dataclass(frozen=True)
class SandboxConfig:
    namespace: str
    name: str
    uid: str
    attempt: int = 0
    hostname: str = ""
    log_directory: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ContainerConfig:
    name: str
    attempt: int
    image: str
    image_ref: str
    command: Sequence[str]
    args: Sequence[str]
    working_directory: str
    env: Mapping[str, str]
    mounts: Sequence[Mount]
    cdi_devices: Sequence[str]
    log_path: str  # absolute
    resources: Resources = Resources()
    security: Security = Security()
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass
class ContainerStatus:
    id: str
    name: str
    attempt: int
    state: str  # CREATED, RUNNING, EXITED
    created_at: float = 0.0  # Unix seconds
    started_at: float = 0.0
    finished_at: float = 0.0
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    image: str = ""
    image_ref: str = ""
    log_path: str = ""


@dataclass
class PodRecord:
    """A sandbox with its containers, as the runtime knows them."""

    sandbox_id: str
    namespace: str
    name: str
    uid: str
    attempt: int
    ready: bool
    ip: str
    containers: list[ContainerStatus] = field(default_factory=list)


@dataclass(frozen=True)
class ExecResult:
    exit_code: int
    output: bytes  # stdout and stderr as they came


class Stream(Protocol):
    """A running exec or attach: both directions, until `wait` gives the exit code."""

    async def read(self) -> tuple[int, bytes]:
        """The next piece as (1 stdout | 2 stderr, bytes); empty bytes when both are at their end."""

    async def write(self, data: bytes) -> None:
        """To the process's standard input."""

    async def close_input(self) -> None:
        """End of input."""

    def resize(self, width: int, height: int) -> None:
        """New terminal size."""

    async def wait(self) -> int:
        """Exit code."""

    async def close(self) -> None:
        """Let go; an exec's process is killed, an attach's is not."""


class Runtime(Protocol):
    name: str

    async def start(self) -> None:
        """Connect; RuntimeFailure says what is missing."""

    async def stop(self, *, kill: bool = False) -> None:
        """Let go; with `kill` also end everything that runs."""

    async def info(self) -> RuntimeInfo: ...

    async def pods(self) -> list[PodRecord]:
        """Everything that is there, for an agent that has just started."""

    async def ensure_image(self, image: str, policy: str, *, sandbox: SandboxConfig) -> tuple[str, bool]:
        """(image reference, whether it had to be pulled)."""

    async def run_sandbox(self, config: SandboxConfig) -> tuple[str, str]:
        """(sandbox id, pod IP or "" for the node's)."""

    async def stop_sandbox(self, sandbox_id: str) -> None: ...

    async def remove_sandbox(self, sandbox_id: str) -> None:
        """With all its containers; both are idempotent."""

    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox: SandboxConfig) -> str: ...

    async def start_container(self, container_id: str) -> None: ...

    async def stop_container(self, container_id: str, grace: float) -> None:
        """SIGTERM, then after `grace` seconds SIGKILL; returns when it has ended."""

    async def remove_container(self, container_id: str) -> None: ...

    async def status(self, container_id: str) -> ContainerStatus: ...

    async def wait(self, container_id: str) -> ContainerStatus:
        """Returns when the container has ended."""

    async def exec_sync(self, container_id: str, command: Sequence[str], timeout: float) -> ExecResult:
        """TimeoutError after `timeout` seconds."""

    async def exec(self, container_id: str, command: Sequence[str], *, tty: bool, stdin: bool) -> Stream: ...

    async def attach(self, container_id: str, *, tty: bool, stdin: bool) -> Stream: ...
