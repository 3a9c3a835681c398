"""The kubelet's HTTPS API of one agent: what an API server in another process calls for logs, exec, attach and port-forward.

Who asks is found out as the kubelet does it: a client certificate of the cluster's CA, or a bearer token that the API server reviews;
whether they may is a SubjectAccessReview for nodes/proxy (or metrics) of this node. Only /healthz is open.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from drakit.api.errors import StatusError
from drakit.api.typed import to_plain
from drakit.apiserver.certificates import load_or_create
from drakit.apiserver.http import Connection, HttpRequest, Limits, parse_query
from drakit.apiserver.node_proxy import NodeStream
from drakit.client import Request
from drakit.metrics import CONTENT_TYPE
from drakit.node.agent import Agent
from drakit.node.api import PodApi

__all__ = ["KubeletApi"]

log = logging.getLogger(__name__)
_ROUTES = {"containerLogs": "log", "exec": "exec", "attach": "attach", "portForward": "portforward"}
_KEPT = 60.0  # seconds that an answer of the API server about a caller counts
_SWEEP_SECONDS = 5.0  # between looks for connections that keep silent


class KubeletApi:
    def __init__(self, agent: Agent, *, host: str = "127.0.0.1", port: int = 0, client_ca: Path | None = None) -> None:
        self._agent = agent
        self._host = host
        self._wanted_port = port
        self._client_ca = client_ca
        self._connections: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._allowed: dict[tuple[str, str], float] = {}
        self._listener: asyncio.Server | None = None

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        context = await asyncio.to_thread(self._context)
        limits = Limits()
        self._listener = await loop.create_server(
            lambda: Connection(self._handle, limits, self._connections, time.monotonic),
            self._host,
            self._wanted_port,
            ssl=context,
        )
        self._agent.port = self._listener.sockets[0].getsockname()[1]
        sweeper = loop.create_task(self._sweep())
        self._tasks.add(sweeper)
        sweeper.add_done_callback(self._tasks.discard)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            now = time.monotonic()
            for connection in list(self._connections):
                connection.check(now)

    async def stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for connection in list(self._connections):
            connection.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _context(self) -> ssl.SSLContext:
        made = load_or_create(self._agent.root / "pki", (self._agent.name, self._agent.address, "127.0.0.1"))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(made.path("server.crt"), made.path("server.key"))
        if self._client_ca is not None:
            context.load_verify_locations(self._client_ca)
            context.verify_mode = ssl.CERT_OPTIONAL
        context.set_alpn_protocols(["http/1.1"])
        return context

    def _handle(self, connection: Connection, request: HttpRequest) -> None:
        if request.path == "/healthz":
            connection.respond(200, "text/plain", b"ok")
            return
        task = asyncio.get_running_loop().create_task(self._answer(connection, request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, connection: Connection, request: HttpRequest) -> None:
        stream = NodeStream(connection)
        try:
            await self._authorize(connection, request)
            await self._route(request, stream, connection)
        except StatusError as error:
            connection.respond(error.code, "text/plain", str(error).encode())
        except Exception as error:
            log.exception("%s %s", request.method, request.path)
            connection.respond(500, "text/plain", str(error).encode())

    async def _route(self, request: HttpRequest, stream: NodeStream, connection: Connection) -> None:
        parts = [p for p in request.path.split("/") if p]
        query: dict[str, Any] = dict(parse_query(request.query))
        if parts == ["metrics"]:
            connection.respond(200, CONTENT_TYPE, self._agent.metrics.render().encode())
        elif parts == ["pods"]:
            items = [to_plain(w.pod) for w in self._agent.workers.values()]
            connection.respond(
                200,
                "application/json",
                msgspec.json.encode({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}),
            )
        elif len(parts) in (3, 4, 5) and parts[0] in _ROUTES:
            # /exec/NS/POD/CONTAINER, or with the pod's UID between; port-forward names no container.
            if parts[0] != "portForward":
                query["container"] = [parts[-1]]
            await PodApi(self._agent, parts[1], parts[2]).handle(_ROUTES[parts[0]], query, request.headers, stream)
        else:
            raise StatusError(404, "NotFound", "404 page not found")

    async def _authorize(self, connection: Connection, request: HttpRequest) -> None:
        user = await self._user(connection, request.headers)
        subresource = {"metrics": "metrics", "containerLogs": "proxy"}.get(
            request.path.strip("/").split("/")[0], "proxy"
        )
        verb = {"GET": "get", "POST": "create", "PUT": "update", "DELETE": "delete"}.get(request.method, "get")
        key = (repr(user), f"{verb} {subresource}")
        now = self._agent.clock.monotonic()
        if self._allowed.get(key, 0.0) > now:
            return
        attributes = {
            "verb": verb,
            "resource": "nodes",
            "subresource": subresource,
            "name": self._agent.name,
            "version": "*",
        }
        spec = {
            "user": user["username"],
            "groups": user.get("groups") or [],
            "uid": user.get("uid", ""),
            "resourceAttributes": attributes,
        }
        status = await self._review("authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews", spec)
        if not status.get("allowed"):
            text = f"Forbidden (user={user['username']}, verb={verb}, resource=nodes, subresource({subresource}))"
            raise StatusError(403, "Forbidden", text)
        self._allowed[key] = now + _KEPT

    async def _user(self, connection: Connection, headers: Mapping[str, str]) -> dict[str, Any]:
        if connection.certificate:
            return _subject(connection.certificate)
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise StatusError(401, "Unauthorized", "Unauthorized")
        status = await self._review("authentication.k8s.io", "TokenReview", "tokenreviews", {"token": token})
        if not status.get("authenticated"):
            raise StatusError(401, "Unauthorized", "Unauthorized")
        found: dict[str, Any] = status["user"]
        return found

    async def _review(self, group: str, kind: str, plural: str, spec: dict[str, Any]) -> dict[str, Any]:
        body = {"apiVersion": f"{group}/v1", "kind": kind, "spec": spec}
        response = await self._agent.client.transport.request(Request("POST", group, "v1", plural, body=body))
        status: dict[str, Any] = response.body.get("status") or {}
        return status


def _subject(der: bytes) -> dict[str, Any]:
    """User and groups of a (verified) client certificate."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    subject = x509.load_der_x509_certificate(der).subject
    names = [str(a.value) for a in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    groups = [str(a.value) for a in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    user = names[0] if names else hashlib.sha256(der).hexdigest()
    return {"username": user, "groups": [*groups, "system:authenticated"]}
