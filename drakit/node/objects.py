"""ConfigMaps, Secrets and tokens that pods refer to: fetched when needed, kept for a short while so that many pods do not ask at once."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any, TypeVar

from lightkube.models.core_v1 import ConfigMap, Pod, Secret

from drakit.api.errors import StatusError
from drakit.client import Client, Request
from drakit.clock import Clock
from drakit.node.errors import VolumeError

__all__ = ["Objects"]

KEPT = 30.0
_REFRESH_AT = 0.8  # of a token's life
T = TypeVar("T")


class Objects:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._kept: dict[tuple[str, str, str], tuple[float, dict[str, bytes] | None]] = {}
        self._tokens: dict[tuple[str, str, str, int], tuple[float, bytes]] = {}

    async def config_map(self, namespace: str, name: str, *, optional: bool = False) -> dict[str, bytes]:
        return await self._data("configmap", ConfigMap, namespace, name, optional)

    async def secret(self, namespace: str, name: str, *, optional: bool = False) -> dict[str, bytes]:
        return await self._data("secret", Secret, namespace, name, optional)

    def forget(self) -> None:
        """Ask the API again from now on (the periodic refresh of volumes)."""
        self._kept.clear()

    async def _data(self, kind: str, model: type[Any], namespace: str, name: str, optional: bool) -> dict[str, bytes]:
        key = (kind, namespace, name)
        kept = self._kept.get(key)
        if kept is None or self._clock.monotonic() - kept[0] > KEPT:
            kept = (self._clock.monotonic(), await self._fetch(kind, model, namespace, name))
            if kept[1] is not None:  # what is missing is asked for again at once: it may be made any moment
                self._kept[key] = kept
        if kept[1] is None:
            if optional:
                return {}
            raise VolumeError(f'{kind} "{name}" not found')
        return kept[1]

    async def _fetch(self, kind: str, model: type[Any], namespace: str, name: str) -> dict[str, bytes] | None:
        try:
            found = await self._client.get(model, name, namespace=namespace)
        except StatusError as error:
            if error.code == 404:
                return None
            raise VolumeError(f'{kind} "{name}": {error}') from error
        if isinstance(found, Secret):
            return {k: base64.b64decode(v) for k, v in (found.data or {}).items()}
        binary = {k: base64.b64decode(v) for k, v in (found.binaryData or {}).items()}
        return {k: v.encode() for k, v in (found.data or {}).items()} | binary

    async def token(self, pod: Pod, audience: str, seconds: int) -> bytes:
        """A service account token bound to the pod, renewed before it ends."""
        assert pod.metadata is not None
        assert pod.spec is not None
        key = (pod.metadata.uid or "", pod.spec.serviceAccountName or "default", audience, seconds)
        kept = self._tokens.get(key)
        if kept is not None and self._clock.now().timestamp() < kept[0]:
            return kept[1]
        reference = {"apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid}
        spec: dict[str, Any] = {"expirationSeconds": seconds, "boundObjectRef": reference}
        if audience:
            spec["audiences"] = [audience]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        request = Request("POST", "", "v1", "serviceaccounts", pod.metadata.namespace or "", key[1], "token", body=body)
        try:
            response = await self._client.transport.request(request)
        except StatusError as error:
            raise VolumeError(f"failed to fetch token: {error}") from error
        status = response.body["status"]
        now = self._clock.now().timestamp()
        expires = datetime.fromisoformat(status["expirationTimestamp"].replace("Z", "+00:00")).timestamp()
        token: bytes = status["token"].encode()
        self._tokens[key] = (now + (expires - now) * _REFRESH_AT, token)
        return token

    def drop(self, pod_uid: str) -> None:
        for key in [k for k in self._tokens if k[0] == pod_uid]:
            del self._tokens[key]
