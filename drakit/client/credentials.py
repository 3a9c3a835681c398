"""Who we say we are on each request: fixed tokens, passwords and certificates, rotating token files, exec plugins.

An exec plugin (client.authentication.k8s.io) is run once and its answer kept until it expires or the server refuses it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import sys
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from drakit.client.kubeconfig import Access, ExecPlugin, KubeconfigError
from drakit.clock import Clock

__all__ = ["Credentials", "credentials_of"]

_TOKEN_FILE_PERIOD = 60.0  # how long a token file's content is trusted; client-go reads it as often
_EXEC_TIMEOUT = 60.0
_EXPIRY_MARGIN = 10.0  # seconds before expiry at which a credential counts as expired


class Credentials(Protocol):
    async def authorization(self) -> str:
        """The Authorization header, or ""."""

    async def certificate(self) -> tuple[bytes, bytes] | None:
        """Client certificate and key in PEM."""

    def expire(self) -> bool:
        """The server refused them. True when asking again may give better ones."""


def credentials_of(access: Access, clock: Clock) -> Credentials:
    certificate = (access.cert_data, access.key_data) if access.cert_data and access.key_data else None
    if access.exec_plugin is not None:
        return _Exec(access.exec_plugin, access, certificate, clock)
    if access.token_file is not None:
        return _TokenFile(access.token_file, certificate, clock)
    if access.token:
        return _Fixed(f"Bearer {access.token}", certificate)
    if access.username:
        pair = base64.b64encode(f"{access.username}:{access.password}".encode()).decode()
        return _Fixed(f"Basic {pair}", certificate)
    return _Fixed("", certificate)


class _Fixed:
    def __init__(self, authorization: str, certificate: tuple[bytes, bytes] | None) -> None:
        self._authorization, self._certificate = authorization, certificate

    async def authorization(self) -> str:
        return self._authorization

    async def certificate(self) -> tuple[bytes, bytes] | None:
        return self._certificate

    def expire(self) -> bool:
        return False


class _TokenFile:
    def __init__(self, path: Path, certificate: tuple[bytes, bytes] | None, clock: Clock) -> None:
        self._path, self._certificate, self._clock = path, certificate, clock
        self._token, self._read_at = "", float("-inf")

    async def authorization(self) -> str:
        now = self._clock.monotonic()
        if now - self._read_at >= _TOKEN_FILE_PERIOD:
            try:
                self._token = self._path.read_text().strip()
                self._read_at = now
            except OSError as error:
                if not self._token:  # a rotation in progress: the old token still works
                    raise KubeconfigError(f"token file {self._path}: {error.strerror}") from error
        return f"Bearer {self._token}"

    async def certificate(self) -> tuple[bytes, bytes] | None:
        return self._certificate

    def expire(self) -> bool:
        self._read_at = float("-inf")
        return True


class _Exec:
    def __init__(
        self, plugin: ExecPlugin, access: Access, certificate: tuple[bytes, bytes] | None, clock: Clock
    ) -> None:
        self._plugin, self._access, self._fixed, self._clock = plugin, access, certificate, clock
        self._status: dict[str, Any] | None = None
        self._expires: datetime | None = None
        self._running = asyncio.Lock()

    async def authorization(self) -> str:
        token = (await self._current()).get("token")
        return f"Bearer {token}" if token else ""

    async def certificate(self) -> tuple[bytes, bytes] | None:
        status = await self._current()
        if status.get("clientCertificateData") and status.get("clientKeyData"):
            return status["clientCertificateData"].encode(), status["clientKeyData"].encode()
        return self._fixed

    def expire(self) -> bool:
        self._status = None
        return True

    async def _current(self) -> dict[str, Any]:
        async with self._running:  # many requests at once run the plugin once
            if self._status is None or self._expired():
                self._status = await self._run()
                stamp = self._status.get("expirationTimestamp")
                self._expires = datetime.fromisoformat(stamp.replace("Z", "+00:00")) if stamp else None
            return self._status

    def _expired(self) -> bool:
        return self._expires is not None and (self._expires - self._clock.now()).total_seconds() < _EXPIRY_MARGIN

    async def _run(self) -> dict[str, Any]:
        plugin = self._plugin
        interactive = plugin.interactive != "Never" and sys.stdin is not None and sys.stdin.isatty()
        if plugin.interactive == "Always" and not interactive:
            raise KubeconfigError(f"exec plugin {plugin.command}: needs a terminal (interactiveMode Always)")
        spec: dict[str, Any] = {"interactive": interactive}
        if plugin.provide_cluster_info:
            spec["cluster"] = dict(self._access.cluster_info or {})
        info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
        environment = {**os.environ, **dict(plugin.env), "KUBERNETES_EXEC_INFO": json.dumps(info)}
        try:
            process = await asyncio.create_subprocess_exec(
                _resolved(plugin), *plugin.args,
                env=environment,
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
        except OSError as error:
            hint = f"; {plugin.install_hint}" if plugin.install_hint else ""
            raise KubeconfigError(f"exec plugin {plugin.command}: {error.strerror}{hint}") from error
        try:
            output, _ = await asyncio.wait_for(process.communicate(), None if interactive else _EXEC_TIMEOUT)
        except TimeoutError as error:
            process.kill()
            await process.wait()
            raise KubeconfigError(f"exec plugin {plugin.command}: no answer in {_EXEC_TIMEOUT:g} s") from error
        if process.returncode != 0:
            raise KubeconfigError(
                f"exec plugin {plugin.command}: exit status {process.returncode}; run it by hand to see why"
            )
        return _parsed(output, plugin)


def _resolved(plugin: ExecPlugin) -> str:
    """A command with a separator is relative to the kubeconfig; a bare one is looked up in PATH."""
    if os.sep in plugin.command:
        return str(Path(plugin.directory) / plugin.command)
    return shutil.which(plugin.command) or plugin.command


def _parsed(output: bytes, plugin: ExecPlugin) -> dict[str, Any]:
    try:
        answer = json.loads(output)
    except ValueError as error:
        raise KubeconfigError(f"exec plugin {plugin.command}: its output is not JSON: {error}") from error
    status = answer.get("status") if isinstance(answer, dict) else None
    if (
        answer.get("kind") != "ExecCredential"
        or answer.get("apiVersion") != plugin.api_version
        or not isinstance(status, dict)
    ):
        raise KubeconfigError(
            f"exec plugin {plugin.command}: expected an ExecCredential of {plugin.api_version} with a status"
        )
    return status
