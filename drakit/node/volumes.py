"""A pod's volumes on this node: emptyDir, hostPath, configMap, secret, downwardAPI, projected; anything else says that it is not here.

Content volumes are written as the kubelet writes them: a timestamped directory, a `..data` link swapped in one rename, and a link per
file, so that a reader sees either the old content or the new. All paths are made of checked names; subPath never leaves its volume.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightkube.models.core_v1 import Container, Pod, Volume, VolumeMount

from drakit.driver import files
from drakit.node.environment import PodFacts, expand, field_value, resource_value
from drakit.node.errors import VolumeError
from drakit.node.objects import Objects
from drakit.node.runtime import Mount

__all__ = ["Volumes"]

_KINDS = {
    "emptyDir": "empty-dir",
    "configMap": "configmap",
    "secret": "secret",
    "downwardAPI": "downward-api",
    "projected": "projected",
}
_CONTENT = ("configMap", "secret", "downwardAPI", "projected")
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class File:
    content: bytes
    mode: int | None = None


class Volumes:
    """The volumes of one pod."""

    def __init__(self, pod_directory: Path, objects: Objects) -> None:
        self._directory = pod_directory / "volumes"
        self._objects = objects

    async def set_up(self, pod: Pod, facts: PodFacts) -> None:
        """Makes every volume; VolumeError names the one that cannot be."""
        assert pod.spec is not None
        for volume in pod.spec.volumes or ():
            try:
                await self._set_up(volume, pod, facts)
            except VolumeError as error:
                raise VolumeError(f'MountVolume.SetUp failed for volume "{volume.name}" : {error}') from error
            except OSError as error:
                raise VolumeError(
                    f'MountVolume.SetUp failed for volume "{volume.name}" : {error.strerror or error}'
                ) from error

    async def refresh(self, pod: Pod, facts: PodFacts) -> None:
        """Rewrites content that changed in the API."""
        assert pod.spec is not None
        for volume in pod.spec.volumes or ():
            kind = _kind(volume)
            if kind in _CONTENT:
                _write_content(
                    self._path(volume), await self._content(volume, kind, pod, facts), _default_mode(volume, kind)
                )

    def has_content(self, pod: Pod) -> bool:
        assert pod.spec is not None
        return any(_kind(v) in _CONTENT for v in pod.spec.volumes or ())

    def tear_down(self) -> None:
        """Unmounts what is mounted, then removes; hostPath volumes are not ours."""
        if self._directory.is_dir():
            for path in self._directory.glob("*/*"):
                if os.path.ismount(path):
                    _libc.umount2(os.fsencode(path), 2)
            files.remove_tree(self._directory)

    def mounts(self, pod: Pod, container: Container, env: Mapping[str, str]) -> list[Mount]:
        assert pod.spec is not None
        volumes = {v.name: v for v in pod.spec.volumes or ()}
        found = []
        for mount in container.volumeMounts or ():
            volume = volumes.get(mount.name)
            if volume is None:
                raise VolumeError(f"volume {mount.name} is not in the pod")
            host = self._sub_path(
                Path(self._host_path(volume)), mount, env, make=_kind(volume) in ("emptyDir", "hostPath")
            )
            read_only = bool(mount.readOnly) or _kind(volume) in _CONTENT
            propagation = mount.mountPropagation or ""
            found.append(Mount(str(host), mount.mountPath, read_only, "" if propagation == "None" else propagation))
        return found

    def _path(self, volume: Volume) -> Path:
        return self._directory / f"kubernetes.io~{_KINDS[_kind(volume)]}" / files.component(volume.name, "volume name")

    def _host_path(self, volume: Volume) -> str:
        return volume.hostPath.path if volume.hostPath is not None else str(self._path(volume))

    async def _set_up(self, volume: Volume, pod: Pod, facts: PodFacts) -> None:
        kind = _kind(volume)
        if kind == "hostPath":
            assert volume.hostPath is not None
            _check_host_path(Path(volume.hostPath.path), volume.hostPath.type or "")
            return
        path = self._path(volume)
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
        if kind == "emptyDir":
            assert volume.emptyDir is not None
            path.chmod(0o777)
            if volume.emptyDir.medium == "Memory" and os.geteuid() == 0 and not path.is_mount():
                _libc.mount(b"tmpfs", os.fsencode(path), b"tmpfs", ctypes.c_ulong(0), b"mode=1777")
            group = pod.spec.securityContext.fsGroup if pod.spec and pod.spec.securityContext else None
            if group is not None and os.geteuid() == 0:
                os.chown(path, -1, group)
                path.chmod(0o2777)
            return
        _write_content(path, await self._content(volume, kind, pod, facts), _default_mode(volume, kind))

    async def _content(self, volume: Volume, kind: str, pod: Pod, facts: PodFacts) -> dict[str, File]:
        if kind == "projected":
            assert volume.projected is not None
            content: dict[str, File] = {}
            for source in volume.projected.sources or ():
                for name in ("configMap", "secret", "downwardAPI", "serviceAccountToken"):
                    part = getattr(source, name)
                    if part is not None:
                        content |= await self._source(name, part, pod, facts)
                        break
                else:
                    raise VolumeError(
                        "projected sources other than configMap, secret, downwardAPI and serviceAccountToken are not supported"
                    )
            return content
        return await self._source(kind, getattr(volume, kind), pod, facts)

    async def _source(self, kind: str, source: Any, pod: Pod, facts: PodFacts) -> dict[str, File]:
        assert pod.metadata is not None
        namespace = pod.metadata.namespace or ""
        if kind == "configMap":
            values = await self._objects.config_map(namespace, source.name or "", optional=bool(source.optional))
            return _items(values, source.items, f'configmap "{source.name}"', bool(source.optional))
        if kind == "secret":
            name = getattr(source, "secretName", None) or getattr(source, "name", None) or ""
            values = await self._objects.secret(namespace, name, optional=bool(source.optional))
            return _items(values, source.items, f'secret "{name}"', bool(source.optional))
        if kind == "serviceAccountToken":
            token = await self._objects.token(pod, source.audience or "", source.expirationSeconds or 3600)
            return {_relative(source.path): File(token, 0o600)}
        found = {}
        for item in source.items or ():
            if item.fieldRef is not None:
                text = field_value(pod, item.fieldRef.fieldPath, facts)
            else:
                reference = item.resourceFieldRef
                assert pod.spec is not None
                container = next(c for c in pod.spec.containers if c.name == reference.containerName)
                text = resource_value(container, reference.resource, str(reference.divisor or ""), facts)
            found[_relative(item.path)] = File(text.encode(), item.mode)
        return found

    def _sub_path(self, root: Path, mount: VolumeMount, env: Mapping[str, str], *, make: bool) -> Path:
        sub = expand(mount.subPathExpr, env) if mount.subPathExpr else mount.subPath or ""
        if not sub:
            return root
        relative = _relative(sub)
        target = Path(os.path.realpath(root / relative))
        base = Path(os.path.realpath(root))
        if target != base and base not in target.parents:
            raise VolumeError(f"subPath {sub!r} leads out of volume {mount.name}")
        if not target.exists():
            if not make:
                raise VolumeError(f"failed to prepare subPath {sub!r} of volume {mount.name}: not found")
            target.mkdir(mode=0o755, parents=True)
        return target


def _kind(volume: Volume) -> str:
    for kind in ("hostPath", *_KINDS):
        if getattr(volume, kind) is not None:
            return kind
    other = next((f for f in volume.__struct_fields__ if f != "name" and getattr(volume, f) is not None), "")
    if not other:
        return "emptyDir"
    raise VolumeError(f"volumes of type {other} are not supported by this node agent")


def _relative(path: str) -> str:
    """A path below a volume: relative, without `..`, each part a sane file name (but any characters Kubernetes allows)."""
    parts = path.split("/")
    if path.startswith("/") or ".." in parts or "\0" in path or any(len(p.encode()) > files.NAME_MAX for p in parts):
        raise VolumeError(f"path {path!r} must be relative, without '..' and of usable names")
    return path


def _default_mode(volume: Volume, kind: str) -> int:
    mode = getattr(getattr(volume, kind), "defaultMode", None)
    return 0o644 if mode is None else mode


def _items(values: Mapping[str, bytes], items: Any, what: str, optional: bool) -> dict[str, File]:
    if not items:
        return {_relative(key): File(value) for key, value in values.items()}
    found = {}
    for item in items:
        if item.key not in values:
            if optional:
                continue
            raise VolumeError(f"{what} references non-existent key: {item.key}")
        found[_relative(item.path)] = File(values[item.key], item.mode)
    return found


def _write_content(path: Path, content: Mapping[str, File], default_mode: int) -> None:
    data = path / "..data"
    if data.is_dir() and _same(data, content):
        return
    fresh = path / f"..{secrets.token_hex(8)}"
    fresh.mkdir(mode=0o755)
    for name, file in content.items():
        target = fresh / name
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        target.write_bytes(file.content)
        target.chmod(default_mode if file.mode is None else file.mode)
    old = os.readlink(data) if data.is_symlink() else ""
    link = path / "..data_tmp"
    link.unlink(missing_ok=True)
    link.symlink_to(fresh.name)
    link.rename(data)
    top = {name.split("/")[0] for name in content}
    for name in top:
        entry = path / name
        if not entry.is_symlink():
            entry.symlink_to(f"..data/{name}")
    for existing in path.iterdir():
        if not existing.name.startswith("..") and existing.name not in top:
            existing.unlink()
    if old and old != fresh.name:
        files.remove_tree(path / old)


def _same(directory: Path, content: Mapping[str, File]) -> bool:
    present = {str(Path(root, name).relative_to(directory)) for root, _, names in os.walk(directory) for name in names}
    return present == set(content) and all((directory / n).read_bytes() == f.content for n, f in content.items())


_CHECKS = {
    "Directory": stat.S_ISDIR,
    "File": stat.S_ISREG,
    "Socket": stat.S_ISSOCK,
    "CharDevice": stat.S_ISCHR,
    "BlockDevice": stat.S_ISBLK,
}


def _check_host_path(path: Path, kind: str) -> None:
    if not path.is_absolute() or ".." in path.parts:
        raise VolumeError(f"hostPath {str(path)!r} must be absolute, without '..'")
    if kind == "DirectoryOrCreate":
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
    elif kind == "FileOrCreate":
        path.touch(mode=0o644, exist_ok=True)
    if kind in _CHECKS and not (path.exists() and _CHECKS[kind](path.stat().st_mode)):
        raise VolumeError(f"hostPath type check failed: {path} is not a {kind.lower()}")
    if not kind and not path.exists():
        path.mkdir(mode=0o755, parents=True)
