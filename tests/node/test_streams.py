"""Logs, WebSocket and SPDY on their own: the bytes that kubectl and API servers see."""

from __future__ import annotations

import asyncio
import json
import os
import struct
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from drakit.api.errors import StatusError
from drakit.node import remote_command
from drakit.node.logs import LogOptions, read, tail
from drakit.node.remote_command import CommandOptions, exit_status
from drakit.node.runtimes.cri_stream import exit_code_of
from drakit.node.runtimes.streams import ExecStream
from drakit.node.spdy import DICTIONARY, SpdyError, SpdySession
from drakit.node.websocket import WebSocket, accept_headers, choose_protocol

LOG = b"""2026-11-16T10:00:00.000000001Z stdout F one
2026-11-16T10:00:01.000000000Z stderr F two
2026-11-16T10:00:02.000000000Z stdout P thr
2026-11-16T10:00:02.000000001Z stdout F ee
2026-11-16T10:00:03.000000000Z stdout F four
"""


def lines(path: Path, **options: Any) -> str:
    async def collect() -> bytes:
        return b"".join([piece async for piece in read(path, LogOptions(**options), lambda: False)])

    return asyncio.run(collect()).decode()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "one\ntwo\nthree\nfour\n"),
        ({"tail_lines": 2}, "three\nfour\n"),
        ({"tail_lines": 0}, ""),
        ({"tail_lines": 99}, "one\ntwo\nthree\nfour\n"),
        ({"limit_bytes": 5}, "one\nt"),
        ({"stream": "Stderr"}, "two\n"),
        ({"since": datetime(2026, 11, 16, 10, 0, 2, tzinfo=UTC)}, "three\nfour\n"),
        ({"tail_lines": 1, "timestamps": True}, "2026-11-16T10:00:03.000000000Z four\n"),
    ],
)
def test_log_options(options: dict[str, Any], expected: str, tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(LOG)
    assert lines(path, **options) == expected


def test_big_logs_are_tailed_from_the_end(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"".join(b"2026-11-16T10:00:00.0Z stdout F line %06d\n" % i for i in range(20_000)))
    assert lines(path, tail_lines=3) == "line 019997\nline 019998\nline 019999\n"
    assert tail(path, 1) == "line 019999\n"


def test_following_ends_with_the_container(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"2026-11-16T10:00:00.0Z stdout F first\n")
    state = {"alive": True}

    async def follow() -> list[bytes]:
        found = []
        async for piece in read(path, LogOptions(follow=True), lambda: state["alive"]):
            found.append(piece)
            if len(found) == 1:
                with path.open("ab") as file:
                    file.write(b"2026-11-16T10:00:00.0Z stdout F last\n")
                state["alive"] = False
        return found

    assert b"".join(asyncio.run(asyncio.wait_for(follow(), 5))) == b"first\nlast\n"


class Pipe:
    """A byte stream of scripted input, in pieces of any size."""

    def __init__(self, data: bytes, piece: int = 7) -> None:
        self._pieces = [data[i : i + piece] for i in range(0, len(data), piece)]
        self.written = bytearray()
        self.closed = False

    async def read(self) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""

    def write(self, data: bytes) -> None:
        self.written += data

    async def drain(self) -> None:
        """Never full."""

    def close(self) -> None:
        self.closed = True


def frame(opcode: int, data: bytes, *, final: bool = True, mask: bytes = b"\x01\x02\x03\x04") -> bytes:
    size = len(data)
    head = bytes([(0x80 if final else 0) | opcode]) + (
        bytes([0x80 | size]) if size < 126 else bytes([0x80 | 126]) + struct.pack("!H", size)
    )
    return head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data))


def test_websocket_messages_pings_and_close() -> None:
    big = bytes(range(256)) * 3
    pipe = Pipe(
        frame(2, b"he", final=False) + frame(9, b"?") + frame(0, b"llo") + frame(2, big) + frame(8, b"\x03\xe8")
    )
    socket = WebSocket(pipe)

    async def scenario() -> list[bytes | None]:
        return [await socket.receive() for _ in range(3)]

    assert asyncio.run(scenario()) == [b"hello", big, None]
    assert pipe.written.startswith(bytes([0x8A, 1]) + b"?"), "the ping was answered"


@pytest.mark.parametrize("data", [b"\x82\x05hello", b"\x82\xff" + b"\x7f" * 12, b"\x82"])
def test_unmasked_oversized_and_cut_off_frames_end_the_connection(data: bytes) -> None:
    assert asyncio.run(WebSocket(Pipe(data)).receive()) is None


def test_handshake_and_protocol_choice() -> None:
    headers = {
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        "sec-websocket-version": "13",
        "sec-websocket-protocol": "v4.channel.k8s.io, v5.channel.k8s.io",
    }
    assert ("Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=") in accept_headers(headers, "")
    assert choose_protocol(headers, remote_command.WEBSOCKET_PROTOCOLS) == "v5.channel.k8s.io"
    with pytest.raises(StatusError, match="none of the WebSocket protocols"):
        choose_protocol({"sec-websocket-protocol": "v99"}, remote_command.WEBSOCKET_PROTOCOLS)


class Process:
    """A process that echoes its input and ends with a code."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.input = bytearray()
        self.ended = asyncio.Event()
        self.size = (0, 0)
        self._out: list[tuple[int, bytes]] = []

    async def read(self) -> tuple[int, bytes]:
        await self.ended.wait()
        if self._out is not None and self.input:
            data, self.input = bytes(self.input), bytearray()
            return 1, data
        return 0, b""

    async def write(self, data: bytes) -> None:
        self.input += data

    async def close_input(self) -> None:
        self.ended.set()

    def resize(self, width: int, height: int) -> None:
        self.size = (width, height)

    async def wait(self) -> int:
        return self.code

    async def close(self) -> None:
        """Nothing to kill."""


def messages(written: bytes) -> list[bytes]:
    found, position = [], 0
    while position < len(written):
        size = written[position + 1]
        position += 2
        if size == 126:
            (size,) = struct.unpack_from("!H", written, position)
            position += 2
        found.append(bytes(written[position : position + size]))
        position += size
    return found


def test_exec_over_websocket_v5() -> None:
    headers = {"upgrade": "websocket", "sec-websocket-key": "a", "sec-websocket-protocol": "v5.channel.k8s.io"}
    pipe = Pipe(frame(2, b"\x00hello") + frame(2, b'\x04{"Width":80,"Height":24}') + frame(2, b"\xff\x00"))

    class Open(Pipe):
        async def read(self) -> bytes:
            return await pipe.read() or await asyncio.Event().wait() or b""  # type: ignore[func-returns-value]

    raw = Open(b"")

    async def scenario() -> Process:
        process = Process(3)

        async def start() -> Any:
            return process

        options = CommandOptions(stdin=True, stdout=True, stderr=True, tty=True)
        await remote_command.serve(headers, options, lambda answer: raw, start)
        return process

    process = asyncio.run(asyncio.wait_for(scenario(), 5))
    output, status, close = messages(bytes(raw.written))
    assert output == b"\x01hello"
    assert json.loads(status[1:])["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
    assert (status[0], close) == (3, struct.pack("!H", 1000))
    assert process.size == (80, 24)


@pytest.mark.parametrize("code", [0, 1, 137])
def test_exit_status_carries_the_code(code: int) -> None:
    assert exit_code_of(json.dumps(exit_status(code)).encode()) == code


def test_command_options_from_kubectl_and_from_api_servers() -> None:
    assert (
        CommandOptions.of({"stdin": ["true"], "stdout": ["true"], "stderr": ["true"], "tty": ["true"]}).stderr is False
    )
    assert CommandOptions.of({"output": ["1"], "error": ["1"]}) == CommandOptions(False, True, True, False)
    with pytest.raises(StatusError, match="at least 1 of stdin"):
        CommandOptions.of({})


class SpdyClient:
    """Makes the client's frames."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def syn(self, stream: int, headers: dict[str, str]) -> bytes:
        block = struct.pack("!I", len(headers))
        for name, value in headers.items():
            block += struct.pack("!I", len(name)) + name.encode() + struct.pack("!I", len(value)) + value.encode()
        body = (
            struct.pack("!IIBB", stream, 0, 0, 0)
            + self._deflate.compress(block)
            + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        )
        return struct.pack("!HHI", 0x8003, 1, len(body)) + body

    @staticmethod
    def data(stream: int, data: bytes, fin: bool = False) -> bytes:
        return struct.pack("!II", stream, (int(fin) << 24) | len(data)) + data


def spdy_frames(written: bytes) -> Sequence[tuple[int, bytes]]:
    found, position = [], 0
    while position < len(written):
        first, rest = struct.unpack_from("!II", written, position)
        size = rest & 0xFFFFFF
        found.append((first, written[position + 8 : position + 8 + size]))
        position += 8 + size
    return found


def test_spdy_streams_headers_and_data() -> None:
    client = SpdyClient()
    ping = struct.pack("!HHI", 0x8003, 6, 4) + b"\0\0\0\1"
    pipe = Pipe(
        client.syn(1, {"streamtype": "error"})
        + client.syn(3, {"streamtype": "data", "port": "80"})
        + ping
        + client.data(3, b"hi")
        + client.data(3, b"", True)
    )

    async def scenario() -> tuple[list[dict[str, str]], bytes]:
        session = SpdySession(pipe)
        opened = [stream async for stream in session.streams()]
        return [s.headers for s in opened], await opened[1].read() + await opened[1].read()

    headers, data = asyncio.run(scenario())
    assert headers == [{"streamtype": "error"}, {"streamtype": "data", "port": "80"}]
    assert data == b"hi"
    kinds = [first & 0xFFFF for first, _ in spdy_frames(bytes(pipe.written)) if first & 0x80000000]
    assert kinds == [2, 2, 6], "two replies and a ping"


def test_nothing_but_spdy_is_understood() -> None:
    async def scenario(data: bytes) -> list[Any]:
        return [s async for s in SpdySession(Pipe(data)).streams()]

    with pytest.raises(SpdyError):
        asyncio.run(scenario(struct.pack("!HHI", 0x8003, 1, 14) + b"\0\0\0\1" + b"\0" * 10))
    with pytest.raises(SpdyError, match="not SPDY version 3"):
        asyncio.run(scenario(struct.pack("!HHI", 0x8002, 1, 0)))
    assert asyncio.run(scenario(b"\0\0")) == []


def test_a_client_that_goes_leaves_nothing_behind() -> None:
    async def scenario() -> None:
        stream = await ExecStream.start(
            ["sh", "-c", "echo a; sleep 60"], {"PATH": os.environ["PATH"]}, tty=False, stdin=False
        )
        assert await stream.read() == (1, b"a\n")
        reading = asyncio.ensure_future(stream.read())
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await stream.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())


def test_output_ends_when_both_files_have() -> None:
    async def scenario() -> None:
        script = "exec 1>&-; sleep 0.1; echo late >&2"
        stream = await ExecStream.start(["sh", "-c", script], {"PATH": os.environ["PATH"]}, tty=False, stdin=False)
        assert [await stream.read(), await stream.read()] == [(2, b"late\n"), (0, b"")]
        assert await stream.wait() == 0
        await stream.close()

    asyncio.run(scenario())
