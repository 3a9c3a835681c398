"""WebSocket (RFC 6455), the server's side, over an upgraded connection. Enough for kubectl: no extensions."""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from drakit.api.errors import StatusError

__all__ = ["Bytes", "WebSocket", "accept_headers", "choose_protocol"]

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MAX_MESSAGE = 4 * 1024 * 1024
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Bytes(Protocol):
    """A two-way byte stream."""

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""

    def write(self, data: bytes) -> None: ...

    async def drain(self) -> None: ...

    def close(self) -> None: ...


def exactly(raw: Bytes) -> Callable[[int], Awaitable[bytes | None]]:
    """A function that reads that many bytes; None when the stream ends before."""
    buffer = bytearray()

    async def take(size: int) -> bytes | None:
        while len(buffer) < size:
            data = await raw.read()
            if not data:
                return None
            buffer.extend(data)
        taken = bytes(buffer[:size])
        del buffer[:size]
        return taken

    return take


def choose_protocol(headers: Mapping[str, str], known: Sequence[str]) -> str:
    """The best protocol both sides know, in our order; "" when the client named none; StatusError when none fits."""
    offered = [p.strip() for p in headers.get("sec-websocket-protocol", "").split(",") if p.strip()]
    if not offered:
        return ""
    for protocol in known:
        if protocol in offered:
            return protocol
    raise StatusError(
        403,
        "Forbidden",
        f"none of the WebSocket protocols {', '.join(offered)} are supported here ({', '.join(known)})",
    )


def accept_headers(headers: Mapping[str, str], protocol: str) -> list[tuple[str, str]]:
    key = headers.get("sec-websocket-key", "")
    if not key or headers.get("sec-websocket-version", "13") != "13":
        raise StatusError.bad_request("not a WebSocket (version 13) request")
    digest = hashlib.sha1(key.encode() + _GUID).digest()  # noqa: S324 what the RFC says; nothing is secured by it
    answer = [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Accept", base64.b64encode(digest).decode()),
    ]
    if protocol:
        answer.append(("Sec-WebSocket-Protocol", protocol))
    return answer


class WebSocket:
    def __init__(self, raw: Bytes) -> None:
        self._raw, self._take = raw, exactly(raw)
        self.closed = False

    async def receive(self) -> bytes | None:
        """The next message; None when the other side has closed. Pings are answered on the way."""
        message = bytearray()
        while True:
            frame = await self._frame()
            if frame is None:
                self.closed = True
                return None
            final, opcode, data = frame
            if opcode == CLOSE:
                await self.close()
                return None
            if opcode == PING:
                self._send(PONG, data)
                continue
            if opcode == PONG:
                continue
            message += data
            if len(message) > MAX_MESSAGE:
                await self.close(1009)
                return None
            if final:
                return bytes(message)

    async def send(self, data: bytes) -> None:
        if not self.closed:
            self._send(BINARY, data)
            await self._raw.drain()

    async def close(self, code: int = 1000) -> None:
        if not self.closed:
            self._send(CLOSE, struct.pack("!H", code))
            self.closed = True
            await self._raw.drain()
        self._raw.close()

    def _send(self, opcode: int, data: bytes) -> None:
        size = len(data)
        if size < 126:
            head = struct.pack("!BB", 0x80 | opcode, size)
        elif size < 65536:
            head = struct.pack("!BBH", 0x80 | opcode, 126, size)
        else:
            head = struct.pack("!BBQ", 0x80 | opcode, 127, size)
        self._raw.write(head + data)

    async def _frame(self) -> tuple[bool, int, bytes] | None:
        head = await self._take(2)
        if head is None:
            return None
        final, opcode, masked, size = bool(head[0] & 0x80), head[0] & 0x0F, bool(head[1] & 0x80), head[1] & 0x7F
        if size >= 126:
            extended = await self._take(2 if size == 126 else 8)
            if extended is None:
                return None
            size = int.from_bytes(extended, "big")
        if size > MAX_MESSAGE or not masked:
            return None  # a client must mask; either way there is no way on
        rest = await self._take(4 + size)
        if rest is None:
            return None
        return final, opcode, _unmask(rest[:4], rest[4:])


def _unmask(mask: bytes, data: bytes) -> bytes:
    """XOR with the repeated mask, as one big integer: far faster than byte by byte."""
    size = len(data)
    repeated = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "big") ^ int.from_bytes(repeated, "big")).to_bytes(size, "big")
