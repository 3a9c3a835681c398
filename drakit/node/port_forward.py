"""port-forward: SPDY streams (directly, or tunnelled through a WebSocket as kubectl does) or WebSocket channels to ports of a pod.

Pods have the node's network here, so a port of the pod is a port on the node's loopback interface or address.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drakit.api.errors import StatusError
from drakit.node.remote_command import Upgrade
from drakit.node.spdy import SpdyError, SpdySession, SpdyStream
from drakit.node.websocket import WebSocket, accept_headers, choose_protocol

__all__ = ["serve"]

TUNNEL = "SPDY/3.1+portforward.k8s.io"
CHANNELS = "v4.channel.k8s.io"
SPDY_PROTOCOL = "portforward.k8s.io"
_HOSTS = ("127.0.0.1", "::1")


async def serve(headers: Mapping[str, str], query: Mapping[str, Sequence[str]], upgrade: Upgrade, address: str) -> None:
    wanted = headers.get("upgrade", "").lower()
    if wanted == "websocket":
        protocol = choose_protocol(headers, (TUNNEL, CHANNELS))
        answer = accept_headers(headers, protocol or CHANNELS)
        if protocol == TUNNEL:
            await _serve_spdy(SpdySession(Tunnel(WebSocket(upgrade(answer)))), address)
            return
        ports = [int(p) for entry in query.get("ports", ()) for p in entry.split(",") if p.isdigit()]
        if not ports:
            raise StatusError.bad_request('query parameter "ports" is required')
        await _serve_channels(WebSocket(upgrade(answer)), ports, address)
    elif wanted.startswith("spdy/3.1"):
        if SPDY_PROTOCOL not in headers.get("x-stream-protocol-version", ""):
            raise StatusError(403, "Forbidden", f"unable to negotiate protocol: server supports {SPDY_PROTOCOL}")
        raw = upgrade(
            (("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1"), ("X-Stream-Protocol-Version", SPDY_PROTOCOL))
        )
        await _serve_spdy(SpdySession(raw), address)
    else:
        raise StatusError.bad_request("upgrade request required: WebSocket or SPDY/3.1")


class Tunnel:
    """A byte stream in binary WebSocket messages."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._pending = bytearray()

    async def read(self) -> bytes:
        while True:
            message = await self._socket.receive()
            if message is None:
                return b""
            if message:
                return message

    def write(self, data: bytes) -> None:
        self._pending += data

    async def drain(self) -> None:
        if self._pending:
            data, self._pending = bytes(self._pending), bytearray()
            await self._socket.send(data)

    def close(self) -> None:
        task = asyncio.ensure_future(self._socket.close())
        _closing.add(task)
        task.add_done_callback(_closing.discard)


_closing: set[asyncio.Future[None]] = set()


@dataclass
class _Pair:
    data: SpdyStream | None = None
    error: SpdyStream | None = None


async def _serve_spdy(session: SpdySession, address: str) -> None:
    """Each connection is a pair of streams with the same requestID: one for data, one for what goes wrong."""
    pairs: dict[str, _Pair] = {}
    tasks: set[asyncio.Task[None]] = set()
    try:
        async for stream in session.streams():
            pair = pairs.setdefault(stream.headers.get("requestid", ""), _Pair())
            if stream.headers.get("streamtype") == "error":
                pair.error = stream
            else:
                pair.data = stream
            if pair.data is not None and pair.error is not None:
                del pairs[stream.headers.get("requestid", "")]
                task = asyncio.create_task(_forward_spdy(pair.data, pair.error, address))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
    except SpdyError:
        pass
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await session.close()


async def _forward_spdy(data: SpdyStream, error: SpdyStream, address: str) -> None:
    port = data.headers.get("port", "")
    try:
        reader, writer = await _connect(port, address)
    except (OSError, ValueError) as failure:
        await error.write(f"an error occurred forwarding {port}: {failure}".encode())
        await error.close()
        await data.close()
        return

    async def upstream() -> None:
        while piece := await data.read():
            writer.write(piece)
            await writer.drain()
        try:
            writer.write_eof()
        except OSError:
            pass  # the pod's side has closed already

    async def downstream() -> None:
        while piece := await reader.read(65536):
            await data.write(piece)
        await data.close()

    try:
        await asyncio.gather(upstream(), downstream())
    except OSError as failure:
        await error.write(f"an error occurred forwarding {port}: {failure}".encode())
    finally:
        writer.close()
        await error.close()
        await data.close()


async def _connect(port: str, address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    number = int(port)
    if not 0 < number < 65536:
        raise ValueError(f"port {port} is out of range")
    last: OSError | None = None
    for host in (*_HOSTS, address):
        try:
            return await asyncio.open_connection(host, number)
        except OSError as error:
            last = last or error
    assert last is not None
    raise last


async def _serve_channels(socket: WebSocket, ports: Sequence[int], address: str) -> None:
    """The older WebSocket form: two channels per port, the port's number first on each."""
    writers: dict[int, asyncio.StreamWriter] = {}
    tasks: list[asyncio.Task[None]] = []

    async def pump(channel: int, reader: asyncio.StreamReader) -> None:
        while piece := await reader.read(65536):
            await socket.send(bytes([channel]) + piece)

    try:
        for i, port in enumerate(ports):
            for channel in (2 * i, 2 * i + 1):
                await socket.send(bytes([channel]) + struct.pack("<H", port))
            try:
                reader, writers[2 * i] = await _connect(str(port), address)
                tasks.append(asyncio.create_task(pump(2 * i, reader)))
            except OSError as failure:
                await socket.send(bytes([2 * i + 1]) + f"an error occurred forwarding {port}: {failure}".encode())
        while (message := await socket.receive()) is not None:
            writer = writers.get(message[0]) if message else None
            if writer is not None:
                writer.write(message[1:])
                await writer.drain()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in writers.values():
            writer.close()
        await socket.close()
