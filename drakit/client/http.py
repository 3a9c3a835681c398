"""The Transport over HTTP(S): any cluster that a kubeconfig or a service account leads to.

Connection troubles become StatusError 503 and time-outs 504, so that callers know one kind of failure. Credentials that change
(token files, exec plugins) are renewed when they expire, and once more when the server answers 401.
"""

from __future__ import annotations

import asyncio
import os
import random
import ssl
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import Any

import aiohttp
import msgspec
from multidict import CIMultiDict

from drakit.api.errors import StatusError
from drakit.client.credentials import Credentials, credentials_of
from drakit.client.kubeconfig import Access
from drakit.client.resources import Resource
from drakit.client.transport import JSON, Plain, Request, Response, WatchItem
from drakit.clock import Clock, SystemClock

__all__ = ["HttpTransport"]

_TIMEOUT = aiohttp.ClientTimeout(total=60, sock_connect=10)
# A watch ends by itself after 5 to 10 minutes, at different times for different clients; a peer that died silently is noticed after 11.
_WATCH_SECONDS = (300, 600)
_WATCH_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=660)
_CONNECTIONS = 100
_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_ESCAPES = [(char.encode(), f"\\u{ord(char):04x}".encode()) for char in "<>&\u2028\u2029"]


class HttpTransport:
    def __init__(self, access: Access, *, user_agent: str = "drakit", clock: Clock | None = None) -> None:
        self.access = access
        self._user_agent = user_agent
        self._credentials: Credentials = credentials_of(access, clock or SystemClock())
        self._session: aiohttp.ClientSession | None = None
        self._certificate: tuple[bytes, bytes] | None = None
        self._opening = asyncio.Lock()

    async def request(self, request: Request) -> Response:
        for attempt in (1, 2):
            session = await self._open()
            try:
                async with session.request(
                    request.method,
                    self.access.server + request.path,
                    params=dict(request.query),
                    data=_body(request),
                    headers=await self._headers(request),
                    timeout=_TIMEOUT,
                    proxy=self.access.proxy_url or None,
                    server_hostname=self.access.tls_server_name or None,
                ) as answer:
                    content = await answer.read()
                    if answer.status == 401 and attempt == 1 and self._credentials.expire():
                        continue
                    if answer.status >= 400:
                        raise _failure(answer.status, content, answer.headers.get("Retry-After"))
                    body = _decode(content) if "json" in answer.content_type and content else content
                    return Response(answer.status, body, tuple(map(_warning, answer.headers.getall("Warning", ()))))
            except TimeoutError as error:
                raise StatusError.timeout(f"{request.method} {request.path} took over {_TIMEOUT.total:g} s") from error
            except aiohttp.ClientError as error:
                raise _unreachable(self.access.server, error) from error
        raise AssertionError("unreachable")

    async def watch(self, request: Request) -> AsyncGenerator[WatchItem, None]:
        session = await self._open()
        seconds = str(random.randint(*_WATCH_SECONDS))  # noqa: S311  (spreads load, hides nothing)
        try:
            async with session.get(
                self.access.server + request.path,
                params={"timeoutSeconds": seconds, **request.query},
                headers=await self._headers(request),
                timeout=_WATCH_TIMEOUT,
                proxy=self.access.proxy_url or None,
                server_hostname=self.access.tls_server_name or None,
            ) as answer:
                if answer.status >= 400:
                    if answer.status == 401:
                        self._credentials.expire()
                    raise _failure(answer.status, await answer.read(), answer.headers.get("Retry-After"))
                async for line in _lines(answer.content):
                    event = _decode(line)
                    if event["type"] == "ERROR":
                        raise StatusError.from_status(event["object"], 500)
                    yield event["type"], event["object"]
        except TimeoutError as error:
            raise StatusError.timeout(f"watch {request.path}") from error
        except aiohttp.ClientError as error:
            raise _unreachable(self.access.server, error) from error

    async def discover(self) -> tuple[list[Resource], list[str]]:
        """Every resource of the cluster that can be listed, watched and deleted, CRDs too; and the group versions out of reach."""
        found: list[Resource] = []
        stale: list[str] = []
        for path in ("/api", "/apis"):
            listing = await self._get(path, _DISCOVERY)
            for group in listing.get("items") or ():
                _read_group(group, found, stale)
        return found, stale

    async def _get(self, path: str, accept: str) -> Plain:
        session = await self._open()
        headers = await self._headers(Request("GET", "", "", ""))
        headers["Accept"] = accept
        try:
            async with session.get(
                self.access.server + path,
                headers=headers,
                timeout=_TIMEOUT,
                proxy=self.access.proxy_url or None,
                server_hostname=self.access.tls_server_name or None,
            ) as answer:
                content = await answer.read()
                if answer.status >= 400:
                    raise _failure(answer.status, content, None)
                body: Plain = _decode(content)
                return body
        except TimeoutError as error:
            raise StatusError.timeout(f"GET {path}") from error
        except aiohttp.ClientError as error:
            raise _unreachable(self.access.server, error) from error

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _open(self) -> aiohttp.ClientSession:
        """The session; a new one when the client certificate has changed (exec plugins hand out short-lived ones)."""
        certificate = await self._credentials.certificate()
        async with self._opening:
            if self._session is None or certificate != self._certificate:
                if self._session is not None:
                    await self._session.close()
                context = ssl_context(self.access, certificate) if self.access.server.startswith("https") else False
                connector = aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=context)
                self._session = aiohttp.ClientSession(
                    connector=connector, auto_decompress=True, skip_auto_headers=["Accept-Encoding"]
                )
                self._certificate = certificate
            return self._session

    async def _headers(self, request: Request) -> CIMultiDict[str]:
        headers = CIMultiDict({"Accept": JSON, "User-Agent": self._user_agent})
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        authorization = await self._credentials.authorization()
        if authorization:
            headers["Authorization"] = authorization
        if self.access.compress and request.method == "GET" and "watch" not in request.query:
            headers["Accept-Encoding"] = "gzip"
        if self.access.impersonate:
            headers["Impersonate-User"] = self.access.impersonate
            for group in self.access.impersonate_groups:
                headers.add("Impersonate-Group", group)
        return headers


def _read_group(group: Plain, found: list[Resource], stale: list[str]) -> None:
    """A group of the aggregated discovery (apidiscovery.k8s.io/v2), its versions in order of preference."""
    group_name = group.get("metadata", {}).get("name") or ""
    for version in group.get("versions") or ():
        if version.get("freshness") == "Stale":
            stale.append(f"{group_name}/{version['version']}" if group_name else version["version"])
        for each in version.get("resources") or ():
            if {"list", "watch", "delete"} <= set(each.get("verbs") or ()):
                kind = (each.get("responseKind") or {}).get("kind") or ""
                namespaced = each["scope"] == "Namespaced"
                found.append(Resource(group_name, version["version"], each["resource"], kind, namespaced))


def ssl_context(access: Access, certificate: tuple[bytes, bytes] | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=access.ca_data.decode() if access.ca_data else None)
    if access.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        # The ssl module reads certificates from files only; these exist, readable by us alone, for the moment of loading.
        handle, path = tempfile.mkstemp(prefix="drakit-client-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(certificate[0] + b"\n" + certificate[1])
            context.load_cert_chain(path)
        finally:
            os.unlink(path)
    return context


def _body(request: Request) -> bytes | None:
    """JSON as Go writes it: a real API server keeps free-form fields (a ControllerRevision's data) byte by byte, and takes them for
    changed when a patch makes it write them itself."""
    if request.body is None or isinstance(request.body, bytes):
        return request.body
    body = _encode(request.body)
    for character, escape in _ESCAPES:
        if character in body:
            body = body.replace(character, escape)
    return body


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Lines of any length: an object may be larger than any reader's line limit."""
    parts: list[bytes] = []
    async for chunk in content.iter_any():
        *complete, rest = chunk.split(b"\n")
        for line in complete:
            parts.append(line)
            whole = b"".join(parts)
            parts.clear()
            if whole.strip():
                yield whole
        if rest:
            parts.append(rest)
    if parts:
        yield b"".join(parts)


def _failure(code: int, content: bytes, retry_after: str | None) -> StatusError:
    status: Plain = {}
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        decoded: Any = _decode(content)
        if isinstance(decoded, dict) and decoded.get("kind") == "Status":
            status = decoded
    if not status:
        details = {"retryAfterSeconds": int(retry_after)} if retry_after and retry_after.isdigit() else {}
        return StatusError(
            code, _REASONS.get(code, ""), content.decode(errors="replace").strip() or f"HTTP {code}", details
        )
    return StatusError.from_status(status, code)


_REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
}


def _unreachable(server: str, error: Exception) -> StatusError:
    return StatusError.unavailable(f"cannot reach {server}: {error}")


def _warning(header: str) -> str:
    """`299 - "text"` -> text."""
    _, _, text = header.partition('"')
    return text.removesuffix('"').replace('\\"', '"') or header
