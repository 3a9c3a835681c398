"""Volumes and environment on their own: content, refresh, paths that try to get out."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from lightkube.models.core_v1 import Pod

from drakit.node.container_config import container_log, sandbox_config, security
from drakit.node.environment import PodFacts, environment, expand, field_value
from drakit.node.errors import RuntimeFailure, VolumeError
from drakit.node.volumes import Volumes

FACTS = PodFacts("node-1", "10.0.0.1", "10.0.0.2", {"cpu": "4", "memory": "8Gi"})


class Store:
    """Stands in for drakit.node.objects.Objects."""

    def __init__(self) -> None:
        self.maps: dict[str, dict[str, bytes]] = {"settings": {"key": b"value", "other": b"x"}}
        self.secrets: dict[str, dict[str, bytes]] = {"login": {"password": b"hunter2"}}

    async def config_map(self, namespace: str, name: str, *, optional: bool = False) -> dict[str, bytes]:
        if name not in self.maps and not optional:
            raise VolumeError(f'configmap "{name}" not found')
        return self.maps.get(name, {})

    async def secret(self, namespace: str, name: str, *, optional: bool = False) -> dict[str, bytes]:
        return self.secrets[name]

    async def token(self, pod: Pod, audience: str, seconds: int) -> bytes:
        return f"token for {audience}".encode()


def pod(volumes: Any = (), container: dict[str, Any] | None = None, **spec: Any) -> Pod:
    meta = {
        "name": "p",
        "namespace": "ns",
        "uid": "uid-1",
        "labels": {"app": "x", "tier": "back end"},
        "annotations": {"a": "b"},
    }
    body = {
        "metadata": meta,
        "spec": {"volumes": list(volumes), "containers": [{"name": "c", **(container or {})}], **spec},
    }
    found: Any = Pod.from_dict(body)
    assert isinstance(found, Pod)
    return found


def set_up(directory: Path, subject: Pod, store: Store | None = None) -> Volumes:
    volumes: Any = Volumes(directory, store or Store())  # type: ignore[arg-type]
    asyncio.run(volumes.set_up(subject, FACTS))
    assert isinstance(volumes, Volumes)
    return volumes


def mounts(volumes: Volumes, subject: Pod, env: dict[str, str] | None = None) -> list[Any]:
    assert subject.spec is not None
    return list(volumes.mounts(subject, subject.spec.containers[0], env or {}))


def test_projected_volume_joins_its_sources(tmp_path: Path) -> None:
    sources = [
        {"configMap": {"name": "settings", "items": [{"key": "key", "path": "sub/config", "mode": 0o400}]}},
        {"secret": {"name": "login"}},
        {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"serviceAccountToken": {"path": "token", "audience": "vault", "expirationSeconds": 600}},
    ]
    subject = pod(
        [{"name": "all", "projected": {"sources": sources}}], {"volumeMounts": [{"name": "all", "mountPath": "/all"}]}
    )
    (mount,) = mounts(set_up(tmp_path, subject), subject)
    root = Path(mount.host_path)
    assert mount.read_only
    assert (root / "sub" / "config").read_text() == "value"
    assert (root / "sub" / "config").stat().st_mode & 0o777 == 0o400
    assert (root / "password").read_text() == "hunter2"
    assert (root / "labels").read_text() == 'app="x"\ntier="back end"'
    assert (root / "token").read_text() == "token for vault"
    assert (root / "token").stat().st_mode & 0o777 == 0o600


def test_refresh_swaps_content_in_one_step(tmp_path: Path) -> None:
    store = Store()
    subject = pod(
        [{"name": "v", "configMap": {"name": "settings"}}], {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    )
    volumes = set_up(tmp_path, subject, store)
    (mount,) = mounts(volumes, subject)
    root = Path(mount.host_path)
    before = os.readlink(root / "..data")
    asyncio.run(volumes.refresh(subject, FACTS))
    assert os.readlink(root / "..data") == before, "unchanged content is left alone"
    store.maps["settings"] = {"key": b"new"}
    asyncio.run(volumes.refresh(subject, FACTS))
    assert (root / "key").read_text() == "new"
    assert not (root / "other").exists()
    assert len([p for p in root.iterdir() if p.name.startswith("..") and p.name != "..data"]) == 1


@pytest.mark.parametrize("path", ["../escape", "/etc/passwd", "a/../../b", "x" * 300, "nul\0"])
def test_item_paths_stay_in_the_volume(path: str, tmp_path: Path) -> None:
    subject = pod([{"name": "v", "configMap": {"name": "settings", "items": [{"key": "key", "path": path}]}}])
    with pytest.raises(VolumeError, match="must be relative"):
        set_up(tmp_path / "pod", subject)
    assert not (tmp_path / "escape").exists()


@pytest.mark.parametrize("name", ["../evil", "a/b", "x" * 300, "ü"])
def test_volume_names_are_checked(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="file name"):
        set_up(tmp_path, pod([{"name": name, "emptyDir": {}}]))


@pytest.mark.parametrize("sub", ["../..", "link", "/etc"])
def test_sub_paths_cannot_leave_the_volume(sub: str, tmp_path: Path) -> None:
    subject = pod([{"name": "v", "emptyDir": {}}], {"volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": sub}]})
    volumes = set_up(tmp_path, subject)
    (root,) = tmp_path.glob("volumes/*/v")
    (root / "link").symlink_to("/etc")
    with pytest.raises(VolumeError, match=r"leads out of volume|must be relative"):
        mounts(volumes, subject)


def test_sub_path_expression(tmp_path: Path) -> None:
    subject = pod(
        [{"name": "v", "emptyDir": {}}],
        {"volumeMounts": [{"name": "v", "mountPath": "/v", "subPathExpr": "$(POD)/data"}]},
    )
    (mount,) = mounts(set_up(tmp_path, subject), subject, {"POD": "p-1"})
    assert mount.host_path.endswith("/v/p-1/data")
    assert Path(mount.host_path).is_dir()


@pytest.mark.parametrize(
    ("kind", "exists", "fails"),
    [
        ("Directory", True, False),
        ("Directory", False, True),
        ("DirectoryOrCreate", False, False),
        ("File", True, True),
        ("", False, False),
    ],
)
def test_host_path_types(kind: str, exists: bool, fails: bool, tmp_path: Path) -> None:
    path = tmp_path / "host"
    if exists:
        path.mkdir()
    subject = pod([{"name": "v", "hostPath": {"path": str(path), "type": kind}}])
    if fails:
        with pytest.raises(VolumeError, match="hostPath type check failed"):
            set_up(tmp_path, subject)
    else:
        set_up(tmp_path, subject)
        assert path.is_dir()


def test_environment_from_all_sources() -> None:
    env = [
        {"name": "LITERAL", "value": "$(FROM_key)-$(MISSING)-$$(FROM_key)"},
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "login", "key": "password"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {"name": "MEMORY", "valueFrom": {"resourceFieldRef": {"resource": "requests.memory", "divisor": "1Mi"}}},
        {"name": "GONE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "nope", "optional": True}}},
    ]
    subject = pod(
        container={
            "env": env,
            "envFrom": [{"prefix": "FROM_", "configMapRef": {"name": "settings"}}],
            "resources": {"requests": {"memory": "1Gi"}},
        }
    )
    assert subject.spec is not None
    found = asyncio.run(environment(subject, subject.spec.containers[0], FACTS, Store()))  # type: ignore[arg-type]
    assert found == {
        "FROM_key": "value",
        "FROM_other": "x",
        "LITERAL": "value-$(MISSING)-$(FROM_key)",
        "SECRET": "hunter2",
        "NODE": "node-1",
        "IP": "10.0.0.2",
        "LABEL": "x",
        "CPU": "4",
        "MEMORY": "1024",
    }


@pytest.mark.parametrize(
    ("text", "result"), [("$(A)", "1"), ("$$(A)", "$(A)"), ("$(B)", "$(B)"), ("$A", "$A"), ("$(A)$(A)", "11")]
)
def test_expansion(text: str, result: str) -> None:
    assert expand(text, {"A": "1"}) == result


def test_unknown_field_is_an_error() -> None:
    with pytest.raises(VolumeError, match="unsupported fieldPath"):
        field_value(pod(), "spec.secrets", FACTS)


def test_run_as_non_root_is_enforced() -> None:
    subject = pod(container={"securityContext": {"runAsNonRoot": True}})
    assert subject.spec is not None
    with pytest.raises(RuntimeFailure, match="image will run as root"):
        security(subject, subject.spec.containers[0])


@pytest.mark.parametrize("name", ["../x", "a/b", "ü", "x" * 300])
def test_log_paths_are_made_of_checked_names(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="file name"):
        container_log(tmp_path, pod(), name, 0)
    subject = pod()
    assert subject.metadata is not None
    subject.metadata.uid = name
    with pytest.raises(ValueError, match="file name"):
        sandbox_config(subject, 0, tmp_path)
