"""Nodes whose agent runs elsewhere: the embedded API server's requests about their pods go to their kubelet API.

The server proves itself with a token of the service account kube-system/drakit-kubelet-client, which may use nodes/proxy; it and its
binding are made on first use. The nodes' serving certificates are their own making, as kubelets' are by default, and are not verified.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any
from urllib.parse import quote, urlencode

from lightkube.models.core_v1 import Node

from drakit.api.errors import StatusError
from drakit.apiserver.node_proxy import NodeRequest, NodeStream
from drakit.client import Client, Request
from drakit.clock import Clock, SystemClock

__all__ = ["RemoteNodes"]

ACCOUNT, NAMESPACE = "drakit-kubelet-client", "kube-system"
_TOKEN_SECONDS = 3600
_DIAL = 10.0
_PATHS = {"log": "containerLogs", "exec": "exec", "attach": "attach", "portforward": "portForward"}
_FORWARDED = (
    "upgrade",
    "connection",
    "sec-websocket-key",
    "sec-websocket-version",
    "sec-websocket-protocol",
    "x-stream-protocol-version",
)


class RemoteNodes:
    """`client` must be an administrator's."""

    def __init__(self, client: Client, clock: Clock | None = None) -> None:
        self._client = client
        self._clock = clock or SystemClock()
        self._token = ("", 0.0)

    async def handle(self, request: NodeRequest, stream: NodeStream) -> None:
        if request.subresource not in _PATHS:
            raise StatusError(501, "NotImplemented", f"pods/{request.subresource} is not served by nodes")
        reader, writer = await self._connect(request.node_name)
        try:
            writer.write(self._head(request, await self._bearer()))
            await writer.drain()
            code, headers = await _response_head(reader)
            if code == 101:
                kept = [
                    (k, v)
                    for k, v in headers
                    if k.lower() in ("upgrade", "connection") or k.lower().startswith(("sec-websocket", "x-stream"))
                ]
                await _splice(reader, writer, stream, kept)
            elif code == 200:
                stream.start(200, "text/plain")
                async for piece in _body(reader, headers):
                    await stream.write(piece)
                stream.end()
            else:
                text = b"".join([piece async for piece in _body(reader, headers)]).decode(errors="replace")
                raise StatusError(code if code >= 400 else 500, "BadRequest" if code == 400 else "InternalError", text)
        finally:
            writer.close()

    async def _connect(self, name: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        node = await self._client.get(Node, name)
        status = node.status
        addresses = {a.type: a.address for a in (status.addresses if status else None) or ()}
        endpoint = status.daemonEndpoints.kubeletEndpoint if status and status.daemonEndpoints else None
        host, port = addresses.get("InternalIP") or addresses.get("Hostname", ""), endpoint.Port if endpoint else 0
        if not port or not host:
            raise StatusError.unavailable(
                f"node {name} serves no kubelet API: it is simulated, or its agent is not running"
            )
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            return await asyncio.wait_for(asyncio.open_connection(host, port, ssl=context), _DIAL)
        except (OSError, TimeoutError) as error:
            raise StatusError.unavailable(f"node {name} at {host}:{port} does not answer: {error}") from error

    def _head(self, request: NodeRequest, token: str) -> bytes:
        meta = request.pod["metadata"]
        path = [_PATHS[request.subresource], meta["namespace"], meta["name"]]
        query = {k: list(v) for k, v in request.query.items()}
        if request.subresource != "portforward":
            container = (query.pop("container", None) or [_default_container(request)])[0]
            path.append(container)
        target = "/" + "/".join(quote(p, safe="") for p in path)
        if query:
            target += "?" + urlencode(query, doseq=True)
        lines = [f"{request.method} {target} HTTP/1.1", f"Host: {request.node_name}", f"Authorization: Bearer {token}"]
        lines += [f"{name}: {request.headers[name]}" for name in _FORWARDED if name in request.headers]
        return ("\r\n".join(lines) + "\r\nContent-Length: 0\r\n\r\n").encode("latin-1")

    async def _bearer(self) -> str:
        token, until = self._token
        now = self._clock.monotonic()
        if now >= until:
            token = await self._new_token()
            self._token = (token, now + _TOKEN_SECONDS / 2)
        return token

    async def _new_token(self) -> str:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}}
        rules = [{"apiGroups": [""], "resources": ["nodes/proxy", "nodes/log", "nodes/metrics"], "verbs": ["*"]}]
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": ACCOUNT},
            "rules": rules,
        }
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": ACCOUNT},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ACCOUNT},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
        }
        for body in (account, role, binding):
            try:
                await self._client.create(body)
            except StatusError as error:
                if error.code != 409:
                    raise
        spec = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": _TOKEN_SECONDS},
        }
        asked = Request("POST", "", "v1", "serviceaccounts", NAMESPACE, ACCOUNT, "token", body=spec)
        response = await self._client.transport.request(asked)
        return str(response.body["status"]["token"])


def _default_container(request: NodeRequest) -> str:
    containers = request.pod["spec"]["containers"]
    if len(containers) > 1:
        names = " ".join(c["name"] for c in containers)
        raise StatusError.bad_request(
            f"a container name must be specified for pod {request.pod['metadata']['name']}, choose one of: [{names}]"
        )
    return str(containers[0]["name"])


async def _response_head(reader: asyncio.StreamReader) -> tuple[int, list[tuple[str, str]]]:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise StatusError.unavailable("the node closed the connection") from error
    first, *lines = head.rstrip().split("\r\n")
    pairs = [(k, v.strip()) for k, _, v in (line.partition(":") for line in lines)]
    return int(first.split()[1]), pairs


async def _body(reader: asyncio.StreamReader, headers: list[tuple[str, str]]) -> Any:
    found = {k.lower(): v for k, v in headers}
    if found.get("transfer-encoding") == "chunked":
        while size := int((await reader.readline()).strip() or b"0", 16):
            yield await reader.readexactly(size)
            await reader.readline()
        return
    left = int(found.get("content-length", "0"))
    if left:
        yield await reader.readexactly(left)


async def _splice(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stream: NodeStream, headers: list[tuple[str, str]]
) -> None:
    """Bytes both ways until either side ends."""
    raw = stream.upgrade(headers)

    async def up() -> None:
        while data := await raw.read():
            writer.write(data)
            await writer.drain()

    async def down() -> None:
        while data := await reader.read(65536):
            raw.write(data)
            await raw.drain()

    tasks = [asyncio.ensure_future(up()), asyncio.ensure_future(down())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not tasks[1].done():
            await asyncio.wait(tasks[1:], timeout=5)  # the node's last words
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raw.close()
