"""SPDY/3.1, the server's side: kubectl falls back to it for exec, tunnels it for port-forward, and API servers speak it to nodes.

Only what Kubernetes' clients use: streams opened by the client, data, half-close, ping, go-away. Header blocks share one zlib stream per
direction. Flow control windows are not used by the Go implementation on the other side; backpressure is the connection's.
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from drakit.node.websocket import Bytes, exactly

__all__ = ["SpdyError", "SpdySession", "SpdyStream"]

SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GOAWAY, HEADERS, WINDOW_UPDATE = 1, 2, 3, 4, 6, 7, 8, 9
FIN = 1
MAX_FRAME = 1 << 22
MAX_STREAMS = 1024
_CHUNK = 32 * 1024


def _split(text: str) -> list[str]:
    return text.split()


_WORDS = _split(
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow authorization "
    "cache-control connection content-base content-encoding content-language content-length content-location content-md5 content-range "
    "content-type date etag expect expires from host if-match if-modified-since if-none-match if-range if-unmodified-since last-modified "
    "location max-forwards pragma proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding "
    "upgrade user-agent vary via warning www-authenticate method get status"
)
_MORE_WORDS = ("200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin")
_TAIL = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Authoritative Information204 No "
    "Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 "
    "Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,"
    "image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,"
    "sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
# The dictionary of SPDY/3's header compression: length-prefixed words, then a tail of common values.
DICTIONARY = b"".join(struct.pack("!I", len(w)) + w.encode() for w in (*_WORDS, *_MORE_WORDS)) + _TAIL.encode()


class SpdyError(Exception):
    """The other side does not speak SPDY/3.1."""


@dataclass(eq=False)
class SpdyStream:
    id: int
    headers: dict[str, str]
    session: SpdySession
    _queue: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)
    _ended: bool = False
    _closed: bool = False

    async def read(self) -> bytes:
        """Next data; empty when the other side has closed its half."""
        if self._ended and self._queue.empty():
            return b""
        data = await self._queue.get()
        if not data:
            self._ended = True
        return data

    async def write(self, data: bytes) -> None:
        for start in range(0, len(data), _CHUNK):
            if self._closed or self.session.closed:
                return
            self.session.send_data(self.id, data[start : start + _CHUNK], fin=False)
            await self.session.drain()

    async def close(self) -> None:
        """Our half."""
        if not self._closed and not self.session.closed:
            self._closed = True
            self.session.send_data(self.id, b"", fin=True)
            await self.session.drain()

    def feed(self, data: bytes) -> None:
        self._queue.put_nowait(data)


class SpdySession:
    def __init__(self, raw: Bytes) -> None:
        self._raw, self._take = raw, exactly(raw)
        self._streams: dict[int, SpdyStream] = {}
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)
        self.closed = False

    async def streams(self) -> AsyncIterator[SpdyStream]:
        """Streams as the client opens them, until the connection ends."""
        try:
            while (head := await self._take(8)) is not None:
                first, rest = struct.unpack("!II", head)
                flags, size = rest >> 24, rest & 0xFFFFFF
                if size > MAX_FRAME:
                    raise SpdyError(f"frame of {size} bytes")
                body = await self._take(size)
                if body is None:
                    break
                if not first & 0x80000000:
                    self._data(first, flags, body)
                    continue
                if first >> 16 & 0x7FFF != 3:
                    raise SpdyError("not SPDY version 3")
                opened = self._control(first & 0xFFFF, flags, body)
                await self._raw.drain()
                if opened is not None:
                    yield opened
        except (zlib.error, struct.error) as error:
            raise SpdyError(f"malformed frame: {error}") from error
        finally:
            self.closed = True
            for stream in self._streams.values():
                stream.feed(b"")

    def _data(self, stream_id: int, flags: int, body: bytes) -> None:
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        if body:
            stream.feed(body)
        if flags & FIN:
            stream.feed(b"")

    def _control(self, kind: int, flags: int, body: bytes) -> SpdyStream | None:
        if kind == SYN_STREAM:
            if len(self._streams) >= MAX_STREAMS:
                raise SpdyError("too many streams")
            stream_id = struct.unpack("!I", body[:4])[0] & 0x7FFFFFFF
            stream = SpdyStream(stream_id, self._headers(body[10:]), self)
            self._streams[stream_id] = stream
            if flags & FIN:
                stream.feed(b"")
            self._send_control(SYN_REPLY, struct.pack("!I", stream_id) + self._block({}))
            return stream
        if kind == HEADERS:
            self._headers(body[4:])  # must be read: the compression state runs on
        elif kind == RST_STREAM:
            stopped = self._streams.get(struct.unpack("!I", body[:4])[0] & 0x7FFFFFFF)
            if stopped is not None:
                stopped.feed(b"")
        elif kind == PING:
            self._send_control(PING, body)
        return None

    def _headers(self, block: bytes) -> dict[str, str]:
        data = self._inflate.decompress(block, 1 << 20)
        count, position, found = struct.unpack_from("!I", data)[0], 4, {}
        for _ in range(count):
            pair = []
            for _part in range(2):
                (size,) = struct.unpack_from("!I", data, position)
                pair.append(data[position + 4 : position + 4 + size].decode("latin-1"))
                position += 4 + size
            found[pair[0].lower()] = pair[1]
        return found

    def _block(self, headers: dict[str, str]) -> bytes:
        raw = struct.pack("!I", len(headers))
        for name, value in headers.items():
            raw += (
                struct.pack("!I", len(name))
                + name.encode("latin-1")
                + struct.pack("!I", len(value))
                + value.encode("latin-1")
            )
        return self._deflate.compress(raw) + self._deflate.flush(zlib.Z_SYNC_FLUSH)

    def _send_control(self, kind: int, body: bytes) -> None:
        self._raw.write(struct.pack("!HHI", 0x8003, kind, len(body)) + body)

    def send_data(self, stream_id: int, data: bytes, *, fin: bool) -> None:
        self._raw.write(struct.pack("!II", stream_id, ((FIN if fin else 0) << 24) | len(data)) + data)

    async def drain(self) -> None:
        await self._raw.drain()

    async def close(self) -> None:
        if not self.closed:
            self._send_control(GOAWAY, struct.pack("!II", max(self._streams, default=0), 0))
            await self._raw.drain()
        self.closed = True
        self._raw.close()
