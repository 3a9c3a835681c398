"""HTTP/1.1 on one connection: parsing with httptools, limits, answers in order, streams.

It knows nothing of Kubernetes: a complete request goes to the `handle` function it was given, which answers through the
connection, at once or later. Requests that a client sends ahead wait their turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote_to_bytes

import httptools

__all__ = ["Connection", "Headers", "HttpRequest", "Limits"]

Headers = Sequence[tuple[str, str]]
_PIPELINE = 32  # requests waiting on one connection before reading stops


@dataclass(frozen=True, slots=True)
class Limits:
    url: int = 16 * 1024
    headers: int = 64 * 1024
    body: int = 3 * 1024 * 1024
    # Seconds: to send a whole request once begun, to stay silent between requests, to take what was written.
    request_seconds: float = 60.0
    idle_seconds: float = 300.0
    write_seconds: float = 60.0
    # Events that a watcher may lag behind before it is cut off.
    watch_queue: int = 10_000
    connections: int = 4096


@dataclass(slots=True)
class HttpRequest:
    method: str
    path: str  # decoded
    query: str  # as sent
    headers: dict[str, str] = field(default_factory=dict)  # lower-case names, repeated ones joined with a comma
    groups: list[str] = field(default_factory=list)  # every Impersonate-Group
    body: bytes = b""
    keep_alive: bool = True
    upgrade: bool = False
    leftover: bytes = b""  # what came after an upgrade request
    warnings: list[str] = field(default_factory=list)  # for the answer, whatever it is
    extras: list[tuple[str, str]] = field(default_factory=list)  # every Impersonate-Extra-*
    # Room for the handler: what its audit log will say of the request.
    asked: object = None
    impersonator: object = None
    annotations: dict[str, str] = field(default_factory=dict)

    @property
    def impersonates(self) -> bool:
        headers = self.headers
        return bool(self.groups or self.extras) or "impersonate-user" in headers or "impersonate-uid" in headers


Handler = Callable[["Connection", HttpRequest], None]
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


class Connection(asyncio.Protocol):
    def __init__(self, handle: Handler, limits: Limits, connections: set[Connection], now: Callable[[], float]) -> None:
        self._handle = handle
        self._limits = limits
        self._connections = connections
        self._now = now
        self._transport: Any = None
        self._parser: Any = httptools.HttpRequestParser(self)
        self._waiting: deque[HttpRequest] = deque()
        self._request: HttpRequest | None = None  # being answered
        self._reading_paused = False
        self.writing_paused = False
        self.closing = False
        self.certificate: bytes | None = None
        self.activity = 0.0
        self.on_lost: Callable[[], None] | None = None  # whoever streams wants to know
        self.on_writable: Callable[[], None] | None = None
        self._raw: RawStream | None = None
        self._begun = False  # a request is being received
        self._begun_at = 0.0
        self._reset()

    def _reset(self) -> None:
        self._url = b""
        self._headers: dict[str, str] = {}
        self._groups: list[str] = []
        self._extras: list[tuple[str, str]] = []
        self._header_bytes = 0
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._refusal = 0

    # -- asyncio.Protocol ----------------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self.activity = self._now()
        if len(self._connections) >= self._limits.connections:
            transport.abort()
            return
        self._connections.add(self)
        ssl_object = transport.get_extra_info("ssl_object")
        if ssl_object is not None:
            self.certificate = ssl_object.getpeercert(binary_form=True)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closing = True
        self._connections.discard(self)
        self._waiting.clear()
        self._parser = None  # it refers to us; cycles are collected late, and unsent answers may be large
        if self._raw is not None:
            self._raw.feed(b"")
        if self.on_lost is not None:
            lost, self.on_lost = self.on_lost, None
            lost()
        if self.on_writable is not None:
            writable, self.on_writable = self.on_writable, None
            writable()

    def data_received(self, data: bytes) -> None:
        self.activity = self._now()
        if self._raw is not None:
            self._raw.feed(data)
            return
        if self.closing:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._upgrade_requested(data[upgrade.args[0] :])
        except httptools.HttpParserCallbackError:
            self.refuse(self._refusal or 400)
        except httptools.HttpParserError:
            self.refuse(400)

    def eof_received(self) -> bool:
        if self._raw is not None:
            self._raw.feed(b"")
            # TLS cannot be half-closed: asyncio ignores a True there, and says so in the log.
            return self._transport.get_extra_info("ssl_object") is None
        return False

    def pause_writing(self) -> None:
        self.writing_paused = True

    def resume_writing(self) -> None:
        self.writing_paused = False
        self.activity = self._now()
        if self.on_writable is not None:
            self.on_writable()

    # -- httptools callbacks -------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._begun = True
        self._begun_at = self._now()

    def on_url(self, url: bytes) -> None:
        self._url += url
        if len(self._url) > self._limits.url:
            self._stop(414)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > self._limits.headers:
            self._stop(431)
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        if key == "impersonate-group":
            self._groups.append(text)
        elif key.startswith("impersonate-extra-"):
            self._extras.append((key, text))
        present = self._headers.get(key)
        self._headers[key] = text if present is None else f"{present},{text}"

    def on_headers_complete(self) -> None:
        length = self._headers.get("content-length", "")
        if length.isdigit() and int(length) > self._limits.body:
            self._stop(413)
        if self._headers.get("expect", "").lower() == "100-continue" and self._request is None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if self._body_bytes > self._limits.body:
            self._stop(413)
        self._body.append(body)

    def on_message_complete(self) -> None:
        self._begun = False
        if not self._parser.should_upgrade():
            self._take(self._parser.should_keep_alive(), upgrade=False, leftover=b"")

    def _stop(self, code: int) -> None:
        self._refusal = code
        raise ValueError(code)

    def _upgrade_requested(self, leftover: bytes) -> None:
        self._begun = False
        self._take(False, upgrade=True, leftover=leftover)

    def _take(self, keep_alive: bool, *, upgrade: bool, leftover: bytes) -> None:
        raw_path, _, query = self._url.partition(b"?")
        if raw_path.startswith((b"http://", b"https://")):
            raw_path = b"/" + raw_path.split(b"/", 3)[3] if raw_path.count(b"/") > 2 else b"/"
        path = unquote_to_bytes(raw_path).decode("utf-8", "replace") if b"%" in raw_path else raw_path.decode("latin-1")
        request = HttpRequest(
            self._parser.get_method().decode("latin-1"), path, query.decode("latin-1"), self._headers, self._groups,
            b"".join(self._body) if self._body else b"", keep_alive, upgrade, leftover, extras=self._extras,
        )  # fmt: skip
        self._reset()
        if self._request is None:
            self._begin(request)
        else:
            self._waiting.append(request)
            if len(self._waiting) >= _PIPELINE and not self._reading_paused:
                self._reading_paused = True
                self._transport.pause_reading()

    def _begin(self, request: HttpRequest) -> None:
        self._request = request
        self._handle(self, request)

    # -- answering -----------------------------------------------------------------------------------------------

    def respond(self, code: int, content_type: str, body: bytes, headers: Headers = ()) -> None:
        """The whole answer to the present request."""
        if self.closing:
            return
        request = self._request
        head = bytearray(_STATUS_LINES.get(code) or f"HTTP/1.1 {code} \r\n".encode())
        if content_type:
            head += f"Content-Type: {content_type}\r\n".encode()
        head += b"Cache-Control: no-cache, private\r\n"
        for name, value in headers:
            head += f"{name}: {value}\r\n".encode("utf-8", "replace")
        keep = request is not None and request.keep_alive
        if not keep:
            head += b"Connection: close\r\n"
        head += b"Content-Length: %d\r\n\r\n" % len(body)
        if request is not None and request.method == "HEAD":
            body = b""
        if len(body) < 65536:
            self._transport.write(bytes(head) + body)
        else:
            self._transport.writelines((bytes(head), body))
        self.finish()

    def start(self, code: int, content_type: str, headers: Headers = ()) -> None:
        """Begin an answer of unknown length; `chunk` and `end` follow."""
        head = [_STATUS_LINES[code].decode()]
        head.append(
            f"Content-Type: {content_type}\r\nCache-Control: no-cache, private\r\nTransfer-Encoding: chunked\r\n"
        )
        head.extend(f"{name}: {value}\r\n" for name, value in headers)
        head.append("\r\n")
        if not self.closing:
            self._transport.write("".join(head).encode("utf-8", "replace"))

    def chunk(self, data: bytes) -> None:
        if data and not self.closing:
            self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))

    def end(self) -> None:
        if not self.closing:
            self._transport.write(b"0\r\n\r\n")
            self.finish()

    def finish(self) -> None:
        """The present request is answered: close, or go on with the next."""
        self.activity = self._now()
        self.on_lost = self.on_writable = None
        request, self._request = self._request, None
        if self.closing:
            return
        if request is not None and not request.keep_alive:
            self.close()
            return
        if self._waiting:
            # Not from inside the handler of the request before: a long pipeline must not become a deep stack.
            self._request = self._waiting.popleft()
            asyncio.get_running_loop().call_soon(self._continue, self._request)
        if self._reading_paused and len(self._waiting) < _PIPELINE:
            self._reading_paused = False
            self._transport.resume_reading()

    def _continue(self, request: HttpRequest) -> None:
        if not self.closing:
            self._handle(self, request)

    def refuse(self, code: int) -> None:
        """Answer what could not be understood, and close: the rest of the stream has lost its meaning."""
        if self.closing:
            return
        text = HTTPStatus(code).phrase
        if code == 413:
            text = f"Request entity too large: limit is {self._limits.body}"
        reason = {400: "BadRequest", 413: "RequestEntityTooLarge"}.get(code, "")
        quoted = f'"message":"{text}",' + (f'"reason":"{reason}",' if reason else "")
        body = (
            f'{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure",{quoted}"code":{code}}}'.encode()
        )
        head = (
            _STATUS_LINES[code] + b"Content-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
        )
        self._transport.write(head % len(body) + body)
        self.close()

    def raw(self, head: bytes) -> RawStream:
        """Leave HTTP: write `head` (the 101 answer) and hand the connection over."""
        assert self._request is not None
        self._raw = RawStream(self, self._request.leftover)
        self._transport.write(head)
        return self._raw

    def close(self) -> None:
        self.closing = True
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        self.closing = True
        if self._transport is not None:
            self._transport.abort()

    def abort_after_flush(self) -> None:
        """Give the last words a moment, then close whether or not they were taken."""
        self.close()
        asyncio.get_running_loop().call_later(5.0, self.abort)

    @property
    def idle(self) -> bool:
        return self._request is None and not self._begun

    def check(self, now: float) -> None:
        """Called every few seconds: cut off who does not send, does not ask or does not take."""
        silent = now - self.activity
        limits = self._limits
        if self.writing_paused and silent > limits.write_seconds:
            self.abort()
        elif self._begun and self._request is None and now - self._begun_at > limits.request_seconds:
            self.refuse(408)
        elif self.idle and silent > limits.idle_seconds:
            self.close()

    def write_raw(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def set_reading(self, on: bool) -> None:
        if self._transport.is_closing():
            return
        if on:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()


class RawStream:
    """A connection after an upgrade: bytes both ways, with backpressure both ways."""

    _HIGH = 256 * 1024

    def __init__(self, connection: Connection, leftover: bytes) -> None:
        self._connection = connection
        self._buffer: deque[bytes] = deque([leftover] if leftover else [])
        self._size = len(leftover)
        self._eof = False
        self._paused = False
        self._reader: asyncio.Future[None] | None = None

    def feed(self, data: bytes) -> None:
        if data:
            self._buffer.append(data)
            self._size += len(data)
            if self._size > self._HIGH and not self._paused:
                self._paused = True
                self._connection.set_reading(False)
        else:
            self._eof = True
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def read(self) -> bytes:
        """The next bytes; nothing when the other side has closed."""
        while not self._buffer:
            if self._eof:
                return b""
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        data = self._buffer.popleft()
        self._size -= len(data)
        if self._paused and self._size < self._HIGH // 2:
            self._paused = False
            self._connection.set_reading(True)
        return data

    def write(self, data: bytes) -> None:
        self._connection.write_raw(data)

    async def drain(self) -> None:
        await drain(self._connection)

    def close(self) -> None:
        self._connection.close()


async def drain(connection: Connection) -> None:
    """Wait until the other side has taken enough of what was written."""
    if not connection.writing_paused or connection.closing:
        return
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def writable() -> None:
        if not future.done():
            future.set_result(None)

    connection.on_writable = writable
    await future


def parse_query(text: str) -> Mapping[str, Sequence[str]]:
    """`a=1&b=2&a=3`; values decoded, nothing refused."""
    if not text:
        return {}
    from urllib.parse import parse_qs

    # As many as fit into the line: what to do with them is for those who look them up.
    return parse_qs(text, keep_blank_values=True)
