"""A container's spec in the runtime's terms: command, mounts, security, resources, CDI devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from lightkube.models.core_v1 import Container, Pod

from drakit.api.quantity import Quantity
from drakit.driver import files
from drakit.node.environment import expand_all
from drakit.node.errors import RuntimeFailure, VolumeError
from drakit.node.runtime import ContainerConfig, Mount, Resources, SandboxConfig, Security

__all__ = ["container_config", "container_log", "resources", "sandbox_config", "security"]

_CPU_PERIOD = 100_000
_LABELS = ("io.kubernetes.pod.name", "io.kubernetes.pod.namespace", "io.kubernetes.pod.uid")


def pod_log_directory(logs: Path, pod: Pod) -> Path:
    assert pod.metadata is not None
    parts = (pod.metadata.namespace or "", pod.metadata.name or "", pod.metadata.uid or "")
    names = (files.component(p, w) for p, w in zip(parts, ("namespace", "pod name", "pod UID"), strict=True))
    return logs / files.component("_".join(names)[: files.NAME_MAX], "pod")


def container_log(logs: Path, pod: Pod, container: str, attempt: int) -> Path:
    return pod_log_directory(logs, pod) / files.component(container, "container name") / f"{attempt}.log"


def sandbox_config(pod: Pod, attempt: int, logs: Path) -> SandboxConfig:
    assert pod.metadata is not None
    assert pod.spec is not None
    meta = pod.metadata
    values = (meta.name or "", meta.namespace or "", meta.uid or "")
    return SandboxConfig(
        namespace=meta.namespace or "",
        name=meta.name or "",
        uid=files.component(meta.uid or "", "pod UID"),
        attempt=attempt,
        hostname=(pod.spec.hostname or meta.name or "")[:63].rstrip("-."),
        log_directory=str(pod_log_directory(logs, pod)),
        labels={**(meta.labels or {}), **dict(zip(_LABELS, values, strict=True))},
        annotations=dict(meta.annotations or {}),
    )


def container_config(
    pod: Pod,
    container: Container,
    *,
    attempt: int,
    image_ref: str,
    env: Mapping[str, str],
    mounts: Sequence[Mount],
    cdi_devices: Sequence[str],
    log_path: Path,
) -> ContainerConfig:
    return ContainerConfig(
        name=container.name,
        attempt=attempt,
        image=container.image or "",
        image_ref=image_ref,
        command=expand_all(container.command, env),
        args=expand_all(container.args, env),
        working_directory=container.workingDir or "",
        env=env,
        mounts=mounts,
        cdi_devices=list(cdi_devices),
        log_path=str(log_path),
        resources=resources(container),
        security=security(pod, container),
        stdin=bool(container.stdin),
        stdin_once=bool(container.stdinOnce),
        tty=bool(container.tty),
    )


def resources(container: Container) -> Resources:
    requests = (container.resources.requests if container.resources else None) or {}
    limits = (container.resources.limits if container.resources else None) or {}
    milli = Quantity.parse(str(requests.get("cpu", limits.get("cpu", "0")))).milli_value()
    quota = Quantity.parse(str(limits.get("cpu", "0"))).milli_value() * _CPU_PERIOD // 1000
    return Resources(
        cpu_shares=max(2, milli * 1024 // 1000),
        cpu_quota=max(quota, 1000) if quota else 0,
        cpu_period=_CPU_PERIOD,
        memory_limit=Quantity.parse(str(limits.get("memory", "0"))).value(),
    )


def security(pod: Pod, container: Container) -> Security:
    """The container's context over the pod's."""
    assert pod.spec is not None
    own, shared = container.securityContext, pod.spec.securityContext
    user = own.runAsUser if own and own.runAsUser is not None else (shared.runAsUser if shared else None)
    group = own.runAsGroup if own and own.runAsGroup is not None else (shared.runAsGroup if shared else None)
    non_root = own.runAsNonRoot if own and own.runAsNonRoot is not None else (shared.runAsNonRoot if shared else None)
    if non_root and not user:
        reason = "CreateContainerConfigError"
        if user == 0:
            raise RuntimeFailure(f"container's runAsUser breaks non-root policy (container: {container.name})", reason)
        raise RuntimeFailure(
            f"container has runAsNonRoot and image will run as root (container: {container.name})", reason
        )
    groups = list((shared.supplementalGroups if shared else None) or ())
    if shared and shared.fsGroup is not None:
        groups.append(shared.fsGroup)
    capabilities = own.capabilities if own else None
    return Security(
        user=user,
        group=group,
        supplemental_groups=groups,
        read_only_root=bool(own and own.readOnlyRootFilesystem),
        privileged=bool(own and own.privileged),
        no_new_privileges=bool(own and own.allowPrivilegeEscalation is False),
        add_capabilities=list((capabilities.add if capabilities else None) or ()),
        drop_capabilities=list((capabilities.drop if capabilities else None) or ()),
    )


def standard_mounts(
    pod: Pod, container: Container, directory: Path, pod_ip: str, mounts: Sequence[Mount]
) -> list[Mount]:
    """The files every container gets: a hosts file and a place for its termination message."""
    assert pod.spec is not None
    taken = {m.container_path for m in mounts}
    found = []
    if "/etc/hosts" not in taken and not pod.spec.hostNetwork:
        found.append(Mount(str(_hosts_file(pod, directory, pod_ip)), "/etc/hosts", optional=True))
    target = container.terminationMessagePath or "/dev/termination-log"
    if target not in taken:
        path = termination_log(directory, container)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
        path.chmod(0o666)
        found.append(Mount(str(path), target, optional=True))
    return found


def termination_log(directory: Path, container: Container) -> Path:
    return directory / "containers" / files.component(container.name, "container name") / "termination-log"


def _hosts_file(pod: Pod, directory: Path, pod_ip: str) -> Path:
    assert pod.metadata is not None
    assert pod.spec is not None
    path = directory / "etc-hosts"
    if path.exists():
        return path
    lines = [
        "# Kubernetes-managed hosts file.",
        "127.0.0.1\tlocalhost",
        "::1\tlocalhost ip6-localhost ip6-loopback",
        f"{pod_ip or '127.0.0.1'}\t{pod.spec.hostname or pod.metadata.name}",
    ]
    for alias in pod.spec.hostAliases or ():
        if "\n" in alias.ip or any("\n" in name for name in alias.hostnames or ()):
            raise VolumeError(f"host alias {alias.ip!r} contains a line break")
        lines.append("\t".join((alias.ip, *(alias.hostnames or ()))))
    path.write_text("\n".join(lines) + "\n")
    return path
