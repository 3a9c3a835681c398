"""The file that kubectl reads: cluster, user and context of this server."""

from __future__ import annotations

import base64
from pathlib import Path

from drakit.apiserver.certificates import Credentials, write_private
from drakit.apiserver.stored import Plain

__all__ = ["entries", "write_kubeconfig"]


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
