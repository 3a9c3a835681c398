"""Containers through CRI v1 (containerd, CRI-O). Pods get the node's network, so that no CNI is needed.

CDI: passed on where the runtime has it enabled. Where it has not (containerd before 1.7 ignores CDI_devices silently, later ones may
have it off), `cdi_mode="refuse"` fails such containers with the remedy; `"agent"` (default) translates what CRI can say (variables,
mounts, device nodes) and refuses the rest.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from typing import Any

import grpc

from drakit.driver.errors import CdiError
from drakit.driver.injection import CdiCache, Edits
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
from drakit.node.runtimes.cri_protocol import CRI
from drakit.node.runtimes.cri_stream import CriStream

__all__ = ["ENDPOINTS", "CriRuntime", "find"]

ENDPOINTS = ("/run/containerd/containerd.sock", "/run/crio/crio.sock", "/var/run/cri-dockerd.sock")
_NODE = 2  # NamespaceMode
_STATES = {0: CREATED, 1: RUNNING, 2: EXITED}
_POLL = 0.25
_OWNED = {"dev.drakit.node": "drakit"}  # the label of our sandboxes
_TIMEOUT = 120.0


async def find(endpoint: str = "") -> tuple[str, str]:
    """(socket path, what it is) or ("", why there is none)."""
    for path in (endpoint.removeprefix("unix://"),) if endpoint else ENDPOINTS:
        if not _exists(path):
            continue
        runtime = CriRuntime(path, cdi=CdiCache(()))
        try:
            await runtime.start()
            info = await runtime.info()
            return path, f"{info.name} {info.version} at {path}"
        except RuntimeFailure as error:
            return "", f"{path}: {error}"
        finally:
            await runtime.stop()
    return "", f"no socket at {endpoint or ', '.join(ENDPOINTS)}"


def _exists(path: str) -> bool:
    return os.path.exists(path)


class CriRuntime:
    name = "cri"

    def __init__(self, endpoint: str, *, cdi: CdiCache, cdi_mode: str = "agent") -> None:
        self._endpoint = endpoint
        self._cdi = cdi
        self._cdi_mode = cdi_mode
        self._channel: grpc.aio.Channel | None = None
        self._runtime_cdi = False
        self._notes: list[str] = []

    async def start(self) -> None:
        self._channel = grpc.aio.insecure_channel(
            f"unix:{self._endpoint}", options=[("grpc.max_receive_message_length", 1 << 24)]
        )
        status = await self._call("Status", verbose=True)
        self._runtime_cdi = _cdi_enabled(status.info.get("config", ""))
        self._notes = [
            f"{c.type} is false: {c.message}"
            for c in status.status.conditions
            if not c.status and c.type == "RuntimeReady"
        ]
        self._notes.append("pods use the node's network (no CNI): ports of different pods can clash")
        if not self._runtime_cdi:
            how = (
                "the agent resolves CDI devices itself (no hooks)"
                if self._cdi_mode == "agent"
                else "containers with devices are refused"
            )
            self._notes.append(f"the runtime's CDI is off or unknown: {how}")

    async def stop(self, *, kill: bool = False) -> None:
        if kill:
            for record in await self.pods():
                await self.remove_sandbox(record.sandbox_id)
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    async def info(self) -> RuntimeInfo:
        version = await self._call("Version", version="v1")
        return RuntimeInfo(version.runtime_name, version.runtime_version, tuple(self._notes))

    async def _call(
        self, method: str, *, service: str = "RuntimeService", deadline: float = _TIMEOUT, **fields: Any
    ) -> Any:
        assert self._channel is not None
        described = CRI.services[service]
        request = described.methods[method].request(**fields)
        try:
            return await described.stub(self._channel, method)(request, timeout=deadline)
        except grpc.aio.AioRpcError as error:
            if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                raise TimeoutError(f"{method}: no answer") from error
            raise RuntimeFailure(f"{error.details()}") from error

    async def pods(self) -> list[PodRecord]:
        selector = CRI.PodSandboxFilter(label_selector=_OWNED)
        found = []
        for item in (await self._call("ListPodSandbox", filter=selector)).items:
            meta = item.metadata
            listed = await self._call("ListContainers", filter=CRI.ContainerFilter(pod_sandbox_id=item.id))
            statuses = [await self.status(c.id) for c in listed.containers]
            found.append(
                PodRecord(item.id, meta.namespace, meta.name, meta.uid, meta.attempt, item.state == 0, "", statuses)
            )
        return found

    async def ensure_image(self, image: str, policy: str, *, sandbox: SandboxConfig) -> tuple[str, bool]:
        spec = CRI.ImageSpec(image=image)
        present = await self._call("ImageStatus", service="ImageService", image=spec)
        if present.HasField("image") and policy != "Always":
            return present.image.id, False
        if policy == "Never":
            raise RuntimeFailure(
                f'Container image "{image}" is not present with pull policy of Never', "ErrImageNeverPull"
            )
        try:
            pulled = await self._call(
                "PullImage",
                service="ImageService",
                deadline=600,
                image=spec,
                sandbox_config=_sandbox(sandbox),
            )
        except (RuntimeFailure, TimeoutError) as error:
            if present.HasField("image"):
                return present.image.id, False  # Always, but the registry cannot be reached: what is here will do
            raise RuntimeFailure(f'Failed to pull image "{image}": {error}', "ErrImagePull") from error
        return pulled.image_ref, True

    async def run_sandbox(self, config: SandboxConfig) -> tuple[str, str]:
        made = await self._call("RunPodSandbox", config=_sandbox(config))
        return made.pod_sandbox_id, ""

    async def stop_sandbox(self, sandbox_id: str) -> None:
        await self._call("StopPodSandbox", pod_sandbox_id=sandbox_id)

    async def remove_sandbox(self, sandbox_id: str) -> None:
        await self.stop_sandbox(sandbox_id)
        await self._call("RemovePodSandbox", pod_sandbox_id=sandbox_id)

    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox: SandboxConfig) -> str:
        message = _container(config, sandbox)
        if config.cdi_devices:
            if self._runtime_cdi:
                for name in config.cdi_devices:
                    message.CDI_devices.add(name=name)
            elif self._cdi_mode == "agent":
                try:
                    _apply(self._cdi.resolve(config.cdi_devices), message)
                except CdiError as error:
                    raise RuntimeFailure(f"CDI device injection failed: {error}", "CreateContainerError") from error
            else:
                raise NotSupported(
                    "the runtime's CDI is off, devices would be missing: enable_cdi = true in containerd's CRI plugin"
                )
        os.makedirs(os.path.dirname(config.log_path), mode=0o755, exist_ok=True)
        made = await self._call(
            "CreateContainer", pod_sandbox_id=sandbox_id, config=message, sandbox_config=_sandbox(sandbox)
        )
        return str(made.container_id)

    async def start_container(self, container_id: str) -> None:
        await self._call("StartContainer", container_id=container_id)

    async def stop_container(self, container_id: str, grace: float) -> None:
        await self._call("StopContainer", deadline=grace + _TIMEOUT, container_id=container_id, timeout=int(grace))

    async def remove_container(self, container_id: str) -> None:
        await self._call("RemoveContainer", container_id=container_id)

    async def status(self, container_id: str) -> ContainerStatus:
        status = (await self._call("ContainerStatus", container_id=container_id)).status
        return ContainerStatus(
            status.id,
            status.metadata.name,
            status.metadata.attempt,
            _STATES.get(status.state, EXITED),
            created_at=status.created_at / 1e9,
            started_at=status.started_at / 1e9,
            finished_at=status.finished_at / 1e9,
            exit_code=status.exit_code,
            reason=status.reason,
            message=status.message,
            image=status.image.image,
            image_ref=status.image_ref,
            log_path=status.log_path,
        )

    async def wait(self, container_id: str) -> ContainerStatus:
        """CRI's event stream is optional in runtimes; a poll of one container is cheap."""
        while True:
            status = await self.status(container_id)
            if status.state == EXITED:
                return status
            await asyncio.sleep(_POLL)

    async def exec_sync(self, container_id: str, command: Sequence[str], timeout: float) -> ExecResult:
        answer = await self._call(
            "ExecSync", deadline=timeout or _TIMEOUT, container_id=container_id, cmd=list(command)
        )
        return ExecResult(answer.exit_code, answer.stdout + answer.stderr)

    async def exec(self, container_id: str, command: Sequence[str], *, tty: bool, stdin: bool) -> Stream:
        answer = await self._call(
            "Exec", container_id=container_id, cmd=list(command), tty=tty, stdin=stdin, stdout=True, stderr=not tty
        )
        return await CriStream.open(answer.url)

    async def attach(self, container_id: str, *, tty: bool, stdin: bool) -> Stream:
        answer = await self._call(
            "Attach", container_id=container_id, tty=tty, stdin=stdin, stdout=True, stderr=not tty
        )
        return await CriStream.open(answer.url)


def _cdi_enabled(config: str) -> bool:
    """containerd says in its verbose status; what says nothing (containerd 1.6) has no CDI. CRI-O always has it."""
    try:
        value = json.loads(config) if config else {}
    except ValueError:
        return False
    return bool(value.get("enableCDI") or value.get("enable_cdi"))


def _sandbox(config: SandboxConfig) -> Any:
    namespaces = CRI.NamespaceOption(network=_NODE)
    linux = CRI.LinuxPodSandboxConfig(security_context=CRI.LinuxSandboxSecurityContext(namespace_options=namespaces))
    metadata = CRI.PodSandboxMetadata(
        name=config.name, uid=config.uid, namespace=config.namespace, attempt=config.attempt
    )
    return CRI.PodSandboxConfig(
        metadata=metadata,
        hostname="",  # with the node's network the hostname is the node's
        log_directory=config.log_directory,
        labels={**config.labels, **_OWNED},
        annotations=dict(config.annotations),
        linux=linux,
    )


def _container(config: ContainerConfig, sandbox: SandboxConfig) -> Any:
    security = config.security
    context = CRI.LinuxContainerSecurityContext(
        capabilities=CRI.Capability(
            add_capabilities=list(security.add_capabilities), drop_capabilities=list(security.drop_capabilities)
        ),
        privileged=security.privileged,
        namespace_options=CRI.NamespaceOption(network=_NODE, pid=1),
        readonly_rootfs=security.read_only_root,
        supplemental_groups=list(security.supplemental_groups),
        no_new_privs=security.no_new_privileges,
    )
    if security.user is not None:
        context.run_as_user.value = security.user
        if security.group is not None:
            context.run_as_group.value = security.group
    resources = config.resources
    limits = CRI.LinuxContainerResources(
        cpu_period=resources.cpu_period,
        cpu_quota=resources.cpu_quota,
        cpu_shares=resources.cpu_shares,
        memory_limit_in_bytes=resources.memory_limit,
    )
    message = CRI.ContainerConfig(
        metadata=CRI.ContainerMetadata(name=config.name, attempt=config.attempt),
        image=CRI.ImageSpec(image=config.image_ref or config.image, user_specified_image=config.image),
        command=list(config.command),
        args=list(config.args),
        working_dir=config.working_directory,
        labels={**_identity(sandbox), "io.kubernetes.container.name": config.name},
        annotations=dict(config.annotations),
        log_path=os.path.relpath(config.log_path, sandbox.log_directory),
        stdin=config.stdin,
        stdin_once=config.stdin_once,
        tty=config.tty,
        linux=CRI.LinuxContainerConfig(resources=limits, security_context=context),
    )
    for name, value in config.env.items():
        message.envs.add(key=name, value=value.encode())
    for mount in config.mounts:
        propagation = {"HostToContainer": 1, "Bidirectional": 2}.get(mount.propagation, 0)
        message.mounts.add(
            container_path=mount.container_path,
            host_path=mount.host_path,
            readonly=mount.read_only,
            propagation=propagation,
        )
    return message


def _identity(sandbox: SandboxConfig) -> dict[str, str]:
    return {k: v for k, v in sandbox.labels.items() if k.startswith("io.kubernetes.")}


def _apply(edits: Edits, message: Any) -> None:
    """CDI edits in CRI's own terms; what CRI cannot say is refused."""
    unsupported = [name for name in ("hooks", "net_devices", "additional_gids", "intel_rdt") if getattr(edits, name)]
    if unsupported:
        raise NotSupported(
            f"CDI {', '.join(unsupported)} need a runtime with CDI enabled (containerd 1.7 or newer, enable_cdi = true)"
        )
    for variable in edits.env:
        name, _, value = variable.partition("=")
        message.envs.add(key=name, value=value.encode())
    for mount in edits.mounts:
        options = mount.get("options") or ()
        message.mounts.add(container_path=mount["containerPath"], host_path=mount["hostPath"], readonly="ro" in options)
    for node in edits.device_nodes:
        host = node.get("hostPath") or node["path"]
        if not os.path.exists(host):
            raise NotSupported(
                f"CDI device node {node['path']}: {host} does not exist on the node, and CRI cannot make one"
            )
        permissions = node.get("permissions") or "rwm"
        message.devices.add(
            container_path=node["path"], host_path=host, permissions="" if permissions == "none" else permissions
        )
