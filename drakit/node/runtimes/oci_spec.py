"""A container as an OCI runtime spec (config.json) for runc, with CDI edits applied. Pure except for reading host device numbers."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drakit.driver.injection import Edits
from drakit.node.errors import NotSupported, RuntimeFailure
from drakit.node.runtime import ContainerConfig, Mount, Resources, Security

__all__ = ["DEFAULT_PATH", "MASKED_ON_HOST", "build", "host_device", "merged_env"]

DEFAULT_PATH = "/usr/local/nvidia/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# On the host's root: places that hold other people's files or the node's own state.
MASKED_ON_HOST = ("/tmp", "/run", "/var/tmp", "/root", "/home", "/mnt", "/media")  # noqa: S108 names of mount points
_CAPABILITIES = (
    "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID", "CAP_SETUID",
    "CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE",
)  # fmt: skip
_MASKED_PATHS = (
    "/proc/asound", "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats",
    "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
)  # fmt: skip
_READ_ONLY_PATHS = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
_STANDARD_DEVICES = ((1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 1), (5, 2), (136, None))


def build(
    config: ContainerConfig,
    *,
    argv: Sequence[str],
    root: Path,
    host_binds: bool,
    masked: Sequence[str],
    hostname: str,
    edits: Edits,
    cgroup: str,
    env: Mapping[str, str],
    working_directory: str,
    oci_hooks: bool = True,
) -> dict[str, Any]:
    """`masked` directories are hidden behind empty tmpfs; with `host_binds` the root is empty and gets the host's directories."""
    if edits.net_devices:
        raise NotSupported("CDI netDevices need a runtime with OCI 1.3 and a network namespace for the pod")
    mounts = [*_standard_mounts(), *(_host_mounts() if host_binds else ()), *(_mask(path) for path in masked)]
    mounts += [_bind(m) for m in sorted(config.mounts, key=lambda m: m.container_path.count("/"))]
    for mount in sorted(edits.mounts, key=lambda m: m["containerPath"].count("/")):
        mounts = [m for m in mounts if m["destination"] != mount["containerPath"]] + [_cdi_mount(mount)]
    devices = [host_device(node, config.security) for node in edits.device_nodes]
    spec: dict[str, Any] = {
        "ociVersion": "1.0.2",
        "process": _process(config, argv, env, working_directory, edits),
        "root": {"path": str(root), "readonly": config.security.read_only_root},
        "hostname": hostname,
        "mounts": mounts,
        "annotations": dict(config.annotations),
        "linux": {
            "cgroupsPath": cgroup,
            "namespaces": [{"type": t} for t in ("pid", "ipc", "uts", "mount")],
            "resources": _resources(config.resources, devices, config.security),
            "devices": [{k: v for k, v in d.items() if k != "access"} for d in devices],
        },
    }
    if not config.security.privileged:
        spec["linux"]["maskedPaths"] = list(_MASKED_PATHS)
        spec["linux"]["readonlyPaths"] = list(_READ_ONLY_PATHS)
    if edits.intel_rdt:
        spec["linux"]["intelRdt"] = dict(edits.intel_rdt)
    for hook in edits.hooks:
        if not oci_hooks:
            raise NotSupported(f"CDI hook {hook['path']} cannot be run by this runtime")
        body = {k: hook[k] for k in ("path", "args", "env", "timeout") if k in hook}
        spec.setdefault("hooks", {}).setdefault(hook["hookName"], []).append(body)
    return spec


def merged_env(base: Mapping[str, str], edits: Edits) -> dict[str, str]:
    """CDI's variables come last and win."""
    env = dict(base)
    for variable in edits.env:
        name, _, value = variable.partition("=")
        env[name] = value
    return env


def _process(
    config: ContainerConfig, argv: Sequence[str], env: Mapping[str, str], cwd: str, edits: Edits
) -> dict[str, Any]:
    security = config.security
    capabilities = _capabilities(security)
    groups = [
        *security.supplemental_groups,
        *(g for g in edits.additional_gids if g not in security.supplemental_groups),
    ]
    return {
        "terminal": False,  # a terminal is attached as plain files by the monitor
        "user": {"uid": security.user or 0, "gid": security.group or 0, "additionalGids": groups},
        "args": list(argv),
        "env": [f"{k}={v}" for k, v in env.items()],
        "cwd": cwd,
        "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), capabilities),
        "noNewPrivileges": security.no_new_privileges,
    }


def _capabilities(security: Security) -> list[str]:
    if security.privileged:
        return [
            _cap(name) for name in (*_CAPABILITIES, "SYS_ADMIN", "NET_ADMIN", "SYS_PTRACE", "SYS_RAWIO", "IPC_LOCK")
        ]
    dropped = {_cap(c) for c in security.drop_capabilities}
    kept = [] if "CAP_ALL" in dropped else [c for c in _CAPABILITIES if c not in dropped]
    return kept + [_cap(c) for c in security.add_capabilities if _cap(c) not in kept and _cap(c) != "CAP_ALL"]


def _cap(name: str) -> str:
    return name.upper() if name.upper().startswith("CAP_") else f"CAP_{name.upper()}"


def _resources(resources: Resources, devices: Sequence[Mapping[str, Any]], security: Security) -> dict[str, Any]:
    if security.privileged:
        rules: list[dict[str, Any]] = [{"allow": True, "access": "rwm"}]
    else:
        rules = [{"allow": False, "access": "rwm"}]
        for major, minor in _STANDARD_DEVICES:
            rule: dict[str, Any] = {"allow": True, "type": "c", "major": major, "access": "rwm"}
            rules.append(rule if minor is None else {**rule, "minor": minor})
    for device in devices:
        if device["access"]:
            kind = "b" if device["type"] == "b" else "c"
            rules.append(
                {
                    "allow": True,
                    "type": kind,
                    "major": device["major"],
                    "minor": device["minor"],
                    "access": device["access"],
                }
            )
    found: dict[str, Any] = {"devices": rules}
    if resources.memory_limit:
        found["memory"] = {"limit": resources.memory_limit}
    cpu = {}
    if resources.cpu_shares:
        cpu["shares"] = resources.cpu_shares
    if resources.cpu_quota:
        cpu |= {"quota": resources.cpu_quota, "period": resources.cpu_period}
    if cpu:
        found["cpu"] = cpu
    return found


def host_device(node: Mapping[str, Any], security: Security) -> dict[str, Any]:
    """An OCI device from a CDI device node; what the spec leaves out is read from the host's node."""
    path, host_path = node["path"], node.get("hostPath") or node["path"]
    kind, major, minor = node.get("type", ""), node.get("major"), node.get("minor")
    mode = node.get("fileMode")
    if not kind or (kind != "p" and (major is None or minor is None)):
        try:
            status = os.stat(host_path)
        except OSError as error:
            raise RuntimeFailure(f"CDI device node {path}: {host_path}: {error.strerror}") from error
        if not (stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode) or stat.S_ISFIFO(status.st_mode)):
            raise RuntimeFailure(f"CDI device node {path}: {host_path} is not a device")
        kind = kind or ("b" if stat.S_ISBLK(status.st_mode) else "p" if stat.S_ISFIFO(status.st_mode) else "c")
        major = os.major(status.st_rdev) if major is None else major
        minor = os.minor(status.st_rdev) if minor is None else minor
        mode = stat.S_IMODE(status.st_mode) if mode is None else mode
    permissions = node.get("permissions") or "rwm"
    device: dict[str, Any] = {"path": path, "type": kind, "major": major or 0, "minor": minor or 0}
    device["access"] = "" if permissions == "none" else permissions
    device["fileMode"] = 0o666 if mode is None else mode
    uid, gid = node.get("uid"), node.get("gid")
    device["uid"] = uid if uid is not None else (security.user or 0)
    device["gid"] = gid if gid is not None else (security.group or 0)
    return device


def _standard_mounts() -> list[dict[str, Any]]:
    return [
        {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
        {
            "destination": "/dev",
            "type": "tmpfs",
            "source": "tmpfs",
            "options": ["nosuid", "strictatime", "mode=755", "size=65536k"],
        },
        {
            "destination": "/dev/pts",
            "type": "devpts",
            "source": "devpts",
            "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"],
        },
        _tmpfs("/dev/shm", "size=65536k"),  # noqa: S108
        {"destination": "/dev/mqueue", "type": "mqueue", "source": "mqueue", "options": ["nosuid", "noexec", "nodev"]},
        # The pod has the node's network, so a fresh sysfs is not allowed: the host's is bound read-only.
        {
            "destination": "/sys",
            "type": "none",
            "source": "/sys",
            "options": ["rbind", "nosuid", "noexec", "nodev", "ro"],
        },
    ]


def _host_mounts() -> list[dict[str, Any]]:
    """Each top-level directory of the host, read-only; links (/bin -> usr/bin) are made in the root by the caller."""
    skip = {"proc", "dev", "sys", "tmp", "run", "lost+found"}
    return [
        {"destination": f"/{e.name}", "type": "bind", "source": f"/{e.name}", "options": ["rbind", "ro"]}
        for e in sorted(os.scandir("/"), key=lambda e: e.name)
        if e.is_dir(follow_symlinks=False) and e.name not in skip
    ]


def _mask(path: str) -> dict[str, Any]:
    return {"destination": path, "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "mode=1777"]}


def _bind(mount: Mount) -> dict[str, Any]:
    options = ["rbind", "ro" if mount.read_only else "rw"]
    options.append({"HostToContainer": "rslave", "Bidirectional": "rshared"}.get(mount.propagation, "rprivate"))
    return {"destination": mount.container_path, "type": "bind", "source": mount.host_path, "options": options}


def _cdi_mount(mount: Mapping[str, Any]) -> dict[str, Any]:
    options = list(mount.get("options") or ("rbind", "rw"))
    kind = mount.get("type") or "bind"
    if kind == "bind" and not {"bind", "rbind"} & set(options):
        options.insert(0, "rbind")
    return {"destination": mount["containerPath"], "type": kind, "source": mount["hostPath"], "options": options}


def _tmpfs(path: str, size: str) -> dict[str, Any]:
    return {
        "destination": path,
        "type": "tmpfs",
        "source": "shm",
        "options": ["nosuid", "noexec", "nodev", "mode=1777", size],
    }
