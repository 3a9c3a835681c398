"""Exec and attach of a CRI runtime: its streaming server's URL, spoken to over WebSocket (v4.channel.k8s.io)."""

from __future__ import annotations

import asyncio
import json

import aiohttp

from drakit.node.errors import RuntimeFailure

__all__ = ["CriStream", "exit_code_of"]

PROTOCOL = "v4.channel.k8s.io"
STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)


def exit_code_of(status: bytes) -> int:
    """The exit code in a Status of the error channel: 0 for Success, the cause's code, or 1 when there is none."""
    try:
        value = json.loads(status)
    except ValueError:
        return 1
    if value.get("status") == "Success":
        return 0
    for cause in (value.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode":
            return int(cause.get("message") or 1)
    return 1


class CriStream:
    def __init__(self, session: aiohttp.ClientSession, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._session = session
        self._socket = socket
        self._code = 0
        self._resizing: asyncio.Future[None] | None = None

    @classmethod
    async def open(cls, url: str) -> CriStream:
        session = aiohttp.ClientSession()
        try:
            socket = await session.ws_connect(url, protocols=(PROTOCOL,), max_msg_size=0)
        except aiohttp.ClientError as error:
            await session.close()
            raise RuntimeFailure(f"the runtime's streaming server: {error}") from error
        return cls(session, socket)

    async def read(self) -> tuple[int, bytes]:
        while True:
            message = await self._socket.receive()
            if message.type is not aiohttp.WSMsgType.BINARY:
                return 0, b""
            channel, data = message.data[0], message.data[1:]
            if channel == ERROR:
                self._code = exit_code_of(data)
            elif data:
                return channel, data

    async def write(self, data: bytes) -> None:
        if not self._socket.closed:
            await self._socket.send_bytes(bytes([STDIN]) + data)

    async def close_input(self) -> None:
        """The v4 protocol cannot close one direction: an empty message is what servers take as end of input."""
        if not self._socket.closed:
            await self._socket.send_bytes(bytes([STDIN]))

    def resize(self, width: int, height: int) -> None:
        body = json.dumps({"Width": width, "Height": height}).encode()
        if not self._socket.closed:
            self._resizing = asyncio.ensure_future(self._socket.send_bytes(bytes([RESIZE]) + body))

    async def wait(self) -> int:
        while not self._socket.closed:
            if (await self.read())[1] == b"":
                break
        return self._code

    async def close(self) -> None:
        await self._socket.close()
        await self._session.close()
