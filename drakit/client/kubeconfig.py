"""Where a cluster is and who we are: kubeconfig files of every usual kind, or the service account of a pod.

Pure reading and choosing; connecting and running exec plugins is `http`'s. Several files (KUBECONFIG) merge as in kubectl: the first to
name something wins. Relative paths are relative to their file.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

__all__ = ["Access", "ExecPlugin", "KubeconfigError", "in_cluster", "load"]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class KubeconfigError(Exception):
    """No usable way to a cluster; the text says which file, which entry, and what to do."""


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    api_version: str = "client.authentication.k8s.io/v1"
    provide_cluster_info: bool = False
    install_hint: str = ""
    interactive: str = "IfAvailable"
    directory: str = ""  # where a relative command is looked for


@dataclass(frozen=True, slots=True)
class Access:
    """Everything needed to talk to one cluster as one user in one namespace."""

    server: str
    namespace: str = "default"
    ca_data: bytes = b""
    insecure: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    compress: bool = True
    token: str = ""
    token_file: Path | None = None
    username: str = ""
    password: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    exec_plugin: ExecPlugin | None = None
    impersonate: str = ""
    impersonate_groups: tuple[str, ...] = ()
    cluster_info: Mapping[str, Any] | None = None  # for exec plugins that ask for it


def load(path: str | Path | None = None, *, context: str = "", environ: Mapping[str, str] | None = None) -> Access:
    """By `path`, else $KUBECONFIG, else ~/.kube/config, else the pod's service account."""
    environ = os.environ if environ is None else environ
    if path is not None:
        files = [Path(path)]
    elif environ.get("KUBECONFIG"):
        files = [Path(entry) for entry in environ["KUBECONFIG"].split(os.pathsep) if entry]
    else:
        files = [Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"]
    present = [file for file in files if file.exists()]
    if not present:
        if path is None and environ.get("KUBERNETES_SERVICE_HOST"):
            return in_cluster(environ=environ)
        raise KubeconfigError(f"no kubeconfig at {', '.join(map(str, files))}; pass --kubeconfig or set KUBECONFIG")
    return _access(_merged(present), context, str(present[0]))


def in_cluster(*, environ: Mapping[str, str] | None = None, directory: Path = SERVICE_ACCOUNT) -> Access:
    """The service account that the kubelet mounts into every pod. The token file is read again as it rotates."""
    environ = os.environ if environ is None else environ
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    token_file = directory / "token"
    if not host or not port or not token_file.exists():
        raise KubeconfigError(
            f"not in a pod: KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT and {token_file} are needed"
        )
    if ":" in host:
        host = f"[{host}]"
    namespace_file, ca_file = directory / "namespace", directory / "ca.crt"
    return Access(
        server=f"https://{host}:{port}",
        namespace=namespace_file.read_text().strip() if namespace_file.exists() else "default",
        ca_data=ca_file.read_bytes() if ca_file.exists() else b"",
        token_file=token_file,
    )


def _merged(files: list[Path]) -> dict[str, Any]:
    merged: dict[str, Any] = {"clusters": {}, "users": {}, "contexts": {}, "current-context": ""}
    for file in files:
        try:
            document = yaml.safe_load(file.read_text()) or {}
        except OSError as error:
            raise KubeconfigError(f"{file}: {error.strerror}") from error
        except (UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
            raise KubeconfigError(f"{file}: not a kubeconfig, which is YAML: {' '.join(str(error).split())}") from error
        if not isinstance(document, dict):
            raise KubeconfigError(f"{file}: not a kubeconfig (expected a mapping with clusters, users, contexts)")
        _check_shape(document, file)
        merged["current-context"] = merged["current-context"] or document.get("current-context") or ""
        for section, member in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
            for entry in document.get(section) or ():
                merged[section].setdefault(entry["name"], {**(entry.get(member) or {}), "_directory": file.parent})
    return merged


def _check_shape(document: dict[str, Any], file: Path) -> None:
    """Only as far as reading it depends on it."""
    for section, member in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
        entries = document.get(section) or []
        if not isinstance(entries, list):
            raise KubeconfigError(f"{file}: {section}: expected a list, got {type(entries).__name__}")
        for index, entry in enumerate(entries):
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                raise KubeconfigError(f"{file}: {section}[{index}]: expected a mapping with a name")
            if not isinstance(entry.get(member) or {}, dict):
                raise KubeconfigError(f"{file}: {section}[{index}].{member}: expected a mapping")


def _access(config: dict[str, Any], context_name: str, where: str) -> Access:
    name = context_name or config["current-context"]
    if not name:
        raise KubeconfigError(f"{where}: no current-context; choose one with --context")
    context = config["contexts"].get(name)
    if context is None:
        known = ", ".join(sorted(config["contexts"])) or "none"
        raise KubeconfigError(f"{where}: no context {name!r}; there is: {known}")
    cluster = config["clusters"].get(context.get("cluster"))
    if cluster is None or not cluster.get("server"):
        raise KubeconfigError(
            f"{where}: context {name!r} names cluster {context.get('cluster')!r}, which has no entry with a server"
        )
    user = config["users"].get(context.get("user")) or {}
    if context.get("user") and context["user"] not in config["users"]:
        raise KubeconfigError(f"{where}: context {name!r} names user {context['user']!r}, which has no entry")
    if user.get("auth-provider"):
        raise KubeconfigError(
            f"{where}: user {context['user']!r} uses auth-provider, removed from Kubernetes 1.26; use an exec plugin"
        )
    token_file = user.get("tokenFile")
    return Access(
        server=cluster["server"].rstrip("/"),
        namespace=context.get("namespace") or "default",
        ca_data=_data(cluster, "certificate-authority", where),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        tls_server_name=cluster.get("tls-server-name") or "",
        proxy_url=cluster.get("proxy-url") or "",
        compress=not cluster.get("disable-compression"),
        token=user.get("token") or "",
        token_file=user["_directory"] / token_file if token_file else None,
        username=user.get("username") or "",
        password=user.get("password") or "",
        cert_data=_data(user, "client-certificate", where),
        key_data=_data(user, "client-key", where),
        exec_plugin=_exec(user),
        impersonate=user.get("as") or "",
        impersonate_groups=tuple(user.get("as-groups") or ()),
        cluster_info=_cluster_info(cluster),
    )


def _data(entry: Mapping[str, Any], field: str, where: str) -> bytes:
    """Inline `<field>-data` wins over the file, as in client-go."""
    if entry.get(f"{field}-data"):
        try:
            return base64.b64decode(entry[f"{field}-data"], validate=True)
        except binascii.Error as error:
            raise KubeconfigError(f"{where}: {field}-data is not base64: {error}") from error
    if entry.get(field):
        file = entry["_directory"] / entry[field]
        try:
            return bytes(file.read_bytes())
        except OSError as error:
            raise KubeconfigError(f"{where}: {field}: {error}") from error
    return b""


def _exec(user: Mapping[str, Any]) -> ExecPlugin | None:
    entry = user.get("exec")
    if not entry:
        return None
    return ExecPlugin(
        command=entry["command"],
        args=tuple(entry.get("args") or ()),
        env=tuple((pair["name"], pair["value"]) for pair in entry.get("env") or ()),
        api_version=entry.get("apiVersion") or "client.authentication.k8s.io/v1",
        provide_cluster_info=bool(entry.get("provideClusterInfo")),
        install_hint=entry.get("installHint") or "",
        interactive=entry.get("interactiveMode") or "IfAvailable",
        directory=str(user["_directory"]),
    )


def _cluster_info(cluster: Mapping[str, Any]) -> dict[str, Any]:
    names = (
        "server",
        "tls-server-name",
        "insecure-skip-tls-verify",
        "certificate-authority-data",
        "proxy-url",
        "disable-compression",
    )
    config = next(
        (e["extension"] for e in cluster.get("extensions") or () if e["name"] == "client.authentication.k8s.io/exec"),
        None,
    )
    return {
        **{name: cluster[name] for name in names if cluster.get(name)},
        **({"config": config} if config is not None else {}),
    }
