"""exec and attach: the client's channels (WebSocket v5/v4, or SPDY streams) joined to a process's streams."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from drakit.api.errors import StatusError
from drakit.node.runtime import Stream
from drakit.node.spdy import SpdyError, SpdySession, SpdyStream
from drakit.node.websocket import Bytes, WebSocket, accept_headers, choose_protocol

__all__ = ["CommandOptions", "exit_status", "serve"]

log = logging.getLogger(__name__)
STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
WEBSOCKET_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io", "channel.k8s.io")
SPDY_PROTOCOLS = ("v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io")
_SPDY_TIMEOUT = 30.0
Upgrade = Callable[[Sequence[tuple[str, str]]], Bytes]


@dataclass(frozen=True)
class CommandOptions:
    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool

    @classmethod
    def of(cls, query: Mapping[str, Sequence[str]]) -> CommandOptions:
        """kubectl asks the API server with stdin=true …, API servers ask nodes with input=1 …"""

        def on(*names: str) -> bool:
            return any(v in ("1", "true", "True") for name in names for v in query.get(name, ()))

        tty = on("tty")
        options = cls(on("stdin", "input"), on("stdout", "output"), on("stderr", "error") and not tty, tty)
        if not (options.stdin or options.stdout or options.stderr):
            raise StatusError.bad_request("you must specify at least 1 of stdin, stdout, stderr")
        return options


def exit_status(code: int) -> dict[str, Any]:
    """The Status on the error channel, from which the client takes its exit code."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


class Channels(Protocol):
    """The client's side, whatever it is carried by."""

    async def inputs(self, stream: Stream) -> None:
        """Feeds the process until the client ends its input or is gone."""

    async def output(self, number: int, data: bytes) -> None: ...

    async def finish(self, status: dict[str, Any]) -> None: ...


async def serve(
    headers: Mapping[str, str], options: CommandOptions, upgrade: Upgrade, start: Callable[[], Awaitable[Stream]]
) -> None:
    """`start` makes the process before the upgrade, so that its failure is an ordinary HTTP error."""
    wanted = headers.get("upgrade", "").lower()
    if wanted == "websocket":
        protocol = choose_protocol(headers, WEBSOCKET_PROTOCOLS)
        answer = accept_headers(headers, protocol)
        stream = await start()
        channels: Channels = WebSocketChannels(WebSocket(upgrade(answer)), protocol, options)
    elif wanted.startswith("spdy/3.1"):
        offered = [p.strip() for p in headers.get("x-stream-protocol-version", "").split(",")]
        protocol = next((p for p in SPDY_PROTOCOLS if p in offered), "")
        if not protocol:
            raise StatusError(
                403,
                "Forbidden",
                f"unable to negotiate protocol: client supports {offered}, server supports {list(SPDY_PROTOCOLS)}",
            )
        stream = await start()
        raw = upgrade((("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1"), ("X-Stream-Protocol-Version", protocol)))
        channels = SpdyChannels(SpdySession(raw), protocol, options)
        await channels.open()
    else:
        raise StatusError.bad_request("upgrade request required: WebSocket or SPDY/3.1")
    await _join(stream, channels)


async def _join(stream: Stream, channels: Channels) -> None:
    feeding = asyncio.ensure_future(channels.inputs(stream))
    reading = asyncio.ensure_future(_outputs(stream, channels))
    try:
        done, _ = await asyncio.wait((feeding, reading), return_when=asyncio.FIRST_COMPLETED)
        if feeding in done and not reading.done() and feeding.exception() is not None:
            return  # the client is gone; whatever runs is ended by close
        await reading
        await channels.finish(exit_status(await stream.wait()))
    finally:
        feeding.cancel()
        reading.cancel()
        await asyncio.gather(feeding, reading, return_exceptions=True)
        await stream.close()


async def _outputs(stream: Stream, channels: Channels) -> None:
    while True:
        number, data = await stream.read()
        if not data:
            return
        await channels.output(number, data)


class Gone(Exception):
    """The client has closed the connection."""


class WebSocketChannels:
    def __init__(self, socket: WebSocket, protocol: str, options: CommandOptions) -> None:
        self._socket = socket
        self._v5 = protocol.startswith("v5")
        self._options = options

    async def inputs(self, stream: Stream) -> None:
        while (message := await self._socket.receive()) is not None:
            if not message:
                continue
            channel, data = message[0], message[1:]
            if channel == STDIN and self._options.stdin:
                await stream.write(data)
            elif channel == RESIZE:
                _resize(stream, data)
            elif channel == CLOSE and self._v5 and data == bytes([STDIN]):
                await stream.close_input()
        raise Gone

    async def output(self, number: int, data: bytes) -> None:
        if number == STDOUT and not self._options.stdout:
            return
        if number == STDERR and not self._options.stderr:
            return
        await self._socket.send(bytes([number]) + data)

    async def finish(self, status: dict[str, Any]) -> None:
        await self._socket.send(bytes([ERROR]) + json.dumps(status).encode())
        await self._socket.close()


class SpdyChannels:
    def __init__(self, session: SpdySession, protocol: str, options: CommandOptions) -> None:
        self._session = session
        self._structured = protocol.startswith("v4")
        self._options = options
        self._opened: dict[str, SpdyStream] = {}
        self._ready = asyncio.Event()
        self._accepting = asyncio.ensure_future(self._accept())

    async def _accept(self) -> None:
        try:
            async for stream in self._session.streams():
                self._opened[stream.headers.get("streamtype", "")] = stream
                if self._expected <= set(self._opened):
                    self._ready.set()
        except SpdyError as error:
            log.info("exec: %s", error)

    @property
    def _expected(self) -> set[str]:
        options = self._options
        pairs = (
            ("stdin", options.stdin),
            ("stdout", options.stdout),
            ("stderr", options.stderr),
            ("resize", options.tty),
        )
        return {"error", *(name for name, on in pairs if on)}

    async def open(self) -> None:
        """Waits for the client to open all its streams."""
        try:
            await asyncio.wait_for(self._ready.wait(), _SPDY_TIMEOUT)
        except TimeoutError:
            await self._session.close()
            raise StatusError.timeout("the client did not open its streams in time", 1) from None

    async def inputs(self, stream: Stream) -> None:
        tasks = []
        if "stdin" in self._opened:
            tasks.append(asyncio.ensure_future(self._feed(stream, self._opened["stdin"])))
        if "resize" in self._opened:
            tasks.append(asyncio.ensure_future(self._sizes(stream, self._opened["resize"])))
        try:
            await self._accepting  # ends with the connection
        finally:
            for task in tasks:
                task.cancel()
        raise Gone

    @staticmethod
    async def _feed(stream: Stream, source: SpdyStream) -> None:
        while data := await source.read():
            await stream.write(data)
        await stream.close_input()

    @staticmethod
    async def _sizes(stream: Stream, source: SpdyStream) -> None:
        while data := await source.read():
            _resize(stream, data)

    async def output(self, number: int, data: bytes) -> None:
        target = self._opened.get({STDOUT: "stdout", STDERR: "stderr"}.get(number, ""))
        if target is not None:
            await target.write(data)

    async def finish(self, status: dict[str, Any]) -> None:
        error = self._opened["error"]
        if self._structured or status["status"] != "Success":
            await error.write(json.dumps(status).encode())
        for stream in self._opened.values():
            await stream.close()
        # The client closes once it has read everything; a peer that never does must not keep us.
        try:
            await asyncio.wait_for(asyncio.shield(self._accepting), 5)
        except TimeoutError:
            pass
        await self._session.close()


def _resize(stream: Stream, data: bytes) -> None:
    for line in data.splitlines():
        try:
            size = json.loads(line)
            stream.resize(int(size["Width"]), int(size["Height"]))
        except (ValueError, KeyError, TypeError, OSError):
            continue
