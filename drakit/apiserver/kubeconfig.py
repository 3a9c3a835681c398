"""The file that kubectl reads: cluster, user and context of this server, in a file of its own or merged into another."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from drakit.apiserver.certificates import Credentials, write_private

__all__ = ["entries", "merge_kubeconfig", "remove_kubeconfig", "write_kubeconfig"]

Plain = dict[str, Any]
_SECTIONS = ("clusters", "users", "contexts")


def entries(credentials: Credentials, url: str, name: str = "drakit") -> Plain:
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(credentials.ca).decode()}
    # The token alone: a certificate beside it would silently win when the token is replaced by another one.
    user = {"token": credentials.token}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
        "current-context": name,
    }


def write_kubeconfig(path: Path, config: Plain) -> None:
    """Mode 0600, replaced as a whole. JSON is YAML."""
    import json

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(path, (json.dumps(config, indent=2) + "\n").encode())


def merge_kubeconfig(path: Path, config: Plain, *, use: bool = True) -> None:
    """Put our entries beside those that the file has; entries of the same name are replaced."""
    present = _read(path)
    for section in _SECTIONS:
        names = {entry["name"] for entry in config[section]}
        kept = [entry for entry in present.get(section) or [] if entry.get("name") not in names]
        present[section] = [*kept, *config[section]]
    if use or not present.get("current-context"):
        present["current-context"] = config["current-context"]
    _write_yaml(path, present)


def remove_kubeconfig(path: Path, name: str = "drakit") -> None:
    """Take our entries out again; the rest of the file stays."""
    if not path.exists():
        return
    present = _read(path)
    for section in _SECTIONS:
        present[section] = [entry for entry in present.get(section) or [] if entry.get("name") != name]
    if present.get("current-context") == name:
        present["current-context"] = ""
    _write_yaml(path, present)


def _read(path: Path) -> Plain:
    import yaml

    if not path.exists():
        return {"apiVersion": "v1", "kind": "Config"}
    content = yaml.safe_load(path.read_text()) or {}
    if not isinstance(content, dict):
        raise ValueError(f"{path} is no kubeconfig: it holds {type(content).__name__}, not a mapping")
    return content


def _write_yaml(path: Path, config: Plain) -> None:
    import yaml

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(path, yaml.safe_dump(config, sort_keys=False).encode())
