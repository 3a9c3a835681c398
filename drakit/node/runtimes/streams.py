"""Exec and attach streams of the local runtimes."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import signal
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from drakit.node.errors import RuntimeFailure
from drakit.node.monitor_client import MonitorClient

__all__ = ["AttachStream", "ExecStream"]

_END = (0, b"")


class ExecStream:
    """A child process; with a terminal its three files are one pty."""

    def __init__(self, process: asyncio.subprocess.Process, master: int) -> None:
        self._process = process
        self._master = master
        self._queue: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue(64)
        self._tasks: list[asyncio.Task[None]] = []
        self._open = 0 if master >= 0 else 2  # pumps that have not come to the end

    @classmethod
    async def start(cls, argv: Sequence[str], env: Mapping[str, str], *, tty: bool, stdin: bool) -> ExecStream:
        if not tty:
            pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
            process = await _spawn(argv, env, pipe if stdin else null, pipe, pipe)
            stream = cls(process, -1)
            assert process.stdout is not None
            assert process.stderr is not None
            stream._tasks = [
                asyncio.create_task(stream._pump(1, process.stdout)),
                asyncio.create_task(stream._pump(2, process.stderr)),
            ]
            return stream
        master, slave = pty.openpty()
        try:
            process = await _spawn(argv, env, slave, slave, slave)
        except RuntimeFailure:
            os.close(master)
            raise
        finally:
            os.close(slave)
        stream = cls(process, master)
        os.set_blocking(master, False)
        asyncio.get_running_loop().add_reader(master, stream._terminal_ready)
        return stream

    async def _pump(self, number: int, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(65536):
            await self._queue.put((number, data))
        self._open -= 1
        if not self._open:
            await self._queue.put(_END)

    def _terminal_ready(self) -> None:
        if self._queue.full():
            return  # level-triggered: asked again once there is room
        try:
            data = os.read(self._master, 65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._master)
        self._queue.put_nowait((1, data) if data else _END)

    async def read(self) -> tuple[int, bytes]:
        """Which file, and what; no data at the end."""
        return await self._queue.get()

    async def write(self, data: bytes) -> None:
        if self._master >= 0:
            await asyncio.to_thread(_write_all, self._master, data)
        elif self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(data)
            try:
                await self._process.stdin.drain()
            except (ConnectionError, BrokenPipeError):
                pass  # the process does not want more

    async def close_input(self) -> None:
        if self._master < 0 and self._process.stdin is not None:
            self._process.stdin.close()

    def resize(self, width: int, height: int) -> None:
        if self._master >= 0:
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    async def wait(self) -> int:
        code = await self._process.wait()
        return 128 - code if code < 0 else code

    async def close(self) -> None:
        if self._process.returncode is None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            await self._process.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._master >= 0:
            asyncio.get_running_loop().remove_reader(self._master)
            os.close(self._master)
            self._master = -1


async def _spawn(
    argv: Sequence[str], env: Mapping[str, str], stdin: Any, stdout: Any, stderr: Any
) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            *argv, env=dict(env), stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True
        )
    except OSError as error:
        raise RuntimeFailure(f"exec: {argv[0]}: {error.strerror}") from error


def _write_all(fd: int, data: bytes) -> None:
    while data:
        try:
            data = data[os.write(fd, data) :]
        except BlockingIOError:
            time.sleep(0.005)  # a terminal whose reader is slow; this runs in a thread


class AttachStream:
    """The container's own output from now on, and its input; closing leaves the container alone."""

    def __init__(self, monitor: MonitorClient, identifier: str) -> None:
        self._monitor = monitor
        self._id = identifier
        self._queue: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue()
        self._detach: Callable[[], None] = _nothing

    @classmethod
    async def start(cls, monitor: MonitorClient, identifier: str, *, stdin: bool) -> AttachStream:
        stream = cls(monitor, identifier)
        stream._detach = await monitor.attach(identifier, lambda number, data: stream._queue.put_nowait((number, data)))
        return stream

    async def read(self) -> tuple[int, bytes]:
        return await self._queue.get()

    async def write(self, data: bytes) -> None:
        await self._monitor.write(self._id, data)

    async def close_input(self) -> None:
        await self._monitor.write(self._id, None)

    def resize(self, width: int, height: int) -> None:
        self._monitor.resize(self._id, width, height)

    async def wait(self) -> int:
        return int((await self._monitor.wait(self._id))["code"])

    async def close(self) -> None:
        self._detach()


def _nothing() -> None:
    """Not attached yet."""
