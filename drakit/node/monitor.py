"""The process that stays: starts containers' processes, writes their logs, notes how they ended. Survives the agent.

The agent starts one monitor per node directory (this file, as a program) and talks to it over a Unix socket, one JSON object a line.
The monitor is a child subreaper: a container's init whose `runc run --detach` has exited becomes its child, so it sees every exit.
Log lines have CRI's form. Imports only the standard library: it must start fast and stay small.

Requests: {"op": "spawn", "id", "argv", "env", "cwd", "log", "exit", "pid_file", "stdin", "tty"} -> {"pid"} | {"error"};
{"op": "signal", "id", "signal"}; {"op": "input", "id", "data": base64 | null}; {"op": "resize", "id", "w", "h"};
{"op": "list"} -> {"processes": {id: {...}}}; {"op": "attach", "id"}; {"op": "forget", "id"}; {"op": "stop"}.
Events to every connection: {"event": "exit", "id", "code", "signal", "at"}; to attached ones {"event": "output", "id", "fd", "data"}.
"""

from __future__ import annotations

import asyncio
import base64
import ctypes
import fcntl
import json
import os
import pty
import signal
import struct
import sys
import termios
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

__all__ = ["SOCKET", "main"]

SOCKET = "monitor.sock"
_PR_SET_CHILD_SUBREAPER = 36
_MAX_LINE = 16 * 1024  # longer lines are split into partial ones, as containerd does
_START_OUTPUT = 8192  # what a failing runtime says, for the error message


@dataclass
class Process:
    id: str
    pid: int = 0
    started: float = 0.0
    exit_path: str = ""
    log: BinaryIO | None = None
    log_path: str = ""
    input_fd: int = -1
    terminal: bool = False
    code: int | None = None
    signal: int = 0
    finished: float = 0.0
    open_pipes: int = 0
    first_output: bytes = b""
    attached: set[asyncio.StreamWriter] = field(default_factory=set)
    partial: dict[int, bytes] = field(default_factory=dict)
    drained: asyncio.Event = field(default_factory=asyncio.Event)

    def describe(self) -> dict[str, Any]:
        return {
            "pid": self.pid,
            "started": self.started,
            "code": self.code,
            "signal": self.signal,
            "finished": self.finished,
        }


class Monitor:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._processes: dict[str, Process] = {}
        self._by_pid: dict[int, Process] = {}
        self._waiting: dict[int, asyncio.Future[int]] = {}  # launchers: runc itself
        self._early: dict[int, tuple[int, int]] = {}  # exits of pids we do not know yet
        self._writers: set[asyncio.StreamWriter] = set()
        self._stopped = asyncio.Event()
        self._announcing: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        for ignored in (signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(ignored, lambda: None)
        loop.add_signal_handler(signal.SIGTERM, self._stopped.set)
        path = self._directory / SOCKET
        path.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self._serve, path, limit=1 << 22)
        os.chmod(path, 0o600)
        async with server:
            await self._stopped.wait()
        for process in self._processes.values():
            if process.code is None:
                _kill(process.pid, signal.SIGKILL)
        path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while line := await reader.readline():
                request = json.loads(line)
                answer = await self._handle(request, writer)
                _send(writer, {"reply": request.get("n"), **answer})
        except (ConnectionError, ValueError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writers.discard(writer)
            for process in self._processes.values():
                process.attached.discard(writer)
            writer.close()

    async def _handle(self, request: dict[str, Any], writer: asyncio.StreamWriter) -> dict[str, Any]:
        operation = request["op"]
        if operation == "list":
            return {"processes": {p.id: p.describe() for p in self._processes.values()}}
        if operation == "stop":
            self._stopped.set()
            return {}
        if operation == "spawn":
            try:
                return await self._spawn(request)
            except OSError as error:
                return {"error": f"{error.filename or request['argv'][0]}: {error.strerror or error}"}
        process = self._processes.get(request.get("id", ""))
        if process is None:
            return {"error": "no such process"}
        if operation == "signal":
            return (
                {}
                if process.code is not None or _kill(process.pid, request["signal"])
                else {"error": "no such process"}
            )
        if operation == "input":
            return await self._input(process, request.get("data"))
        if operation == "resize":
            if process.terminal and process.input_fd >= 0:
                fcntl.ioctl(process.input_fd, termios.TIOCSWINSZ, struct.pack("HHHH", request["h"], request["w"], 0, 0))
            return {}
        if operation == "attach":
            process.attached.add(writer)
            return process.describe()
        if operation == "detach":
            process.attached.discard(writer)
            return {}
        if operation == "forget":
            if process.code is not None:
                del self._processes[process.id]
            return {}
        return {"error": f"unknown operation {operation!r}"}

    async def _spawn(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["id"] in self._processes:
            return {"error": "id is in use"}
        process = Process(
            request["id"], exit_path=request.get("exit", ""), log_path=request["log"], terminal=bool(request.get("tty"))
        )
        if process.log_path:
            process.log = _open_log(process.log_path)
        try:
            pid = self._launch(process, request)
        except OSError:
            if process.log is not None:
                process.log.close()
            raise
        pid_file = request.get("pid_file")
        if pid_file:
            # A launcher (runc run --detach): it exits once the container runs; its own failure is the answer.
            code = await self._exit_of(pid)
            if code != 0:
                await asyncio.wait_for(process.drained.wait(), 5)
                self._close(process)
                return {
                    "error": process.first_output.decode(errors="replace").strip()
                    or f"{request['argv'][0]} exited with {code}"
                }
            pid = _read_pid(pid_file)
        process.pid, process.started = pid, time.time()
        self._processes[process.id] = process
        self._by_pid[pid] = process
        if pid in self._early:
            self._ended(process, *self._early.pop(pid))
        elif not _kill(pid, 0):
            self._ended(process, 255, 0)  # reaped by someone else: cannot happen as a subreaper, but never hang on it
        return {"pid": pid, "started": process.started}

    def _launch(self, process: Process, request: dict[str, Any]) -> int:
        loop = asyncio.get_running_loop()
        ends: list[int] = []
        if process.terminal:
            master, slave = pty.openpty()
            standard = (slave, slave, slave)
            readers = {1: master}
            process.input_fd = master
            ends = [slave]
        else:
            out, err = os.pipe(), os.pipe()
            readers = {1: out[0], 2: err[0]}
            if request.get("stdin"):
                source = os.pipe()
                process.input_fd = source[1]
            else:
                source = (os.open(os.devnull, os.O_RDONLY), -1)
            standard = (source[0], out[1], err[1])
            ends = [source[0], out[1], err[1]]
        actions = [(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate(standard)]
        try:
            if request.get("cwd"):
                # posix_spawn has no chdir before Python 3.13's libc support: a shell-free way is env -C.
                argv = ["/usr/bin/env", "-C", request["cwd"], *request["argv"]]
            else:
                argv = request["argv"]
            pid = os.posix_spawnp(
                argv[0], argv, request["env"], file_actions=actions, setsid=True, setsigmask=[], setsigdef=_DEFAULTED
            )
        except OSError:
            for fd in {*ends, *readers.values(), process.input_fd} - {-1}:
                os.close(fd)
            raise
        for fd in ends:
            os.close(fd)
        process.open_pipes = len(readers)
        for number, fd in readers.items():
            os.set_blocking(fd, False)
            loop.add_reader(fd, self._readable, process, number, fd)
        return pid

    def _readable(self, process: Process, number: int, fd: int) -> None:
        try:
            data = os.read(fd, 65536)
        except BlockingIOError:
            return
        except OSError:  # a terminal whose other side is gone
            data = b""
        if data:
            if len(process.first_output) < _START_OUTPUT:
                process.first_output += data[: _START_OUTPUT - len(process.first_output)]
            self._log(process, number, data)
            for writer in process.attached:
                _send(
                    writer, {"event": "output", "id": process.id, "fd": number, "data": base64.b64encode(data).decode()}
                )
            return
        asyncio.get_running_loop().remove_reader(fd)
        if not process.terminal:
            os.close(fd)
        process.open_pipes -= 1
        if process.open_pipes == 0:
            for stream in list(process.partial):
                self._log(process, stream, b"", flush=True)
            if process.terminal:
                os.close(fd)
                process.input_fd = -1
            process.drained.set()

    def _log(self, process: Process, number: int, data: bytes, *, flush: bool = False) -> None:
        if process.log is None:
            return
        buffered = process.partial.pop(number, b"") + data
        *lines, rest = buffered.split(b"\n")
        stamp = _stamp() + (b" stdout " if number == 1 else b" stderr ")
        out = []
        for line in lines:
            while len(line) > _MAX_LINE:
                out.append(stamp + b"P " + line[:_MAX_LINE] + b"\n")
                line = line[_MAX_LINE:]
            out.append(stamp + b"F " + line + b"\n")
        while len(rest) > _MAX_LINE:
            out.append(stamp + b"P " + rest[:_MAX_LINE] + b"\n")
            rest = rest[_MAX_LINE:]
        if rest and flush:
            out.append(stamp + b"F " + rest + b"\n")
            rest = b""
        if rest:
            process.partial[number] = rest
        if out:
            try:
                process.log.write(b"".join(out))
            except OSError:
                pass  # a full disk loses log lines, not the container

    async def _input(self, process: Process, data: str | None) -> dict[str, Any]:
        if process.input_fd < 0:
            return {"error": "no input"}
        if data is None:
            if not process.terminal:
                os.close(process.input_fd)
                process.input_fd = -1
            return {}
        try:
            await asyncio.get_running_loop().run_in_executor(None, _write_all, process.input_fd, base64.b64decode(data))
        except OSError as error:
            return {"error": str(error)}
        return {}

    async def _exit_of(self, pid: int) -> int:
        if pid in self._early:
            return self._early.pop(pid)[0]
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting[pid] = future
        return await future

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            code, number = os.waitstatus_to_exitcode(status), 0
            if code < 0:
                number, code = -code, 128 - code
            if pid in self._waiting:
                self._waiting.pop(pid).set_result(code)
            elif pid in self._by_pid:
                self._ended(self._by_pid[pid], code, number)
            else:
                self._early[pid] = (code, number)
                if len(self._early) > 4096:  # grandchildren nobody will ask for
                    self._early.pop(next(iter(self._early)))

    def _ended(self, process: Process, code: int, number: int) -> None:
        process.code, process.signal, process.finished = code, number, time.time()
        self._by_pid.pop(process.pid, None)
        task = asyncio.get_running_loop().create_task(self._announce(process))
        self._announcing.add(task)
        task.add_done_callback(self._announcing.discard)

    async def _announce(self, process: Process) -> None:
        """Tell of an exit once its output is in the log (a background child may hold the pipe: do not wait for long)."""
        try:
            await asyncio.wait_for(process.drained.wait(), 0.5)
        except TimeoutError:
            pass
        event = {
            "event": "exit",
            "id": process.id,
            "code": process.code,
            "signal": process.signal,
            "at": process.finished,
        }
        if process.exit_path:
            _note_exit(process.exit_path, event | {"started": process.started})
        self._close(process)
        for writer in list(self._writers):
            _send(writer, event)

    def _close(self, process: Process) -> None:
        if process.log is not None:
            process.log.close()
            process.log = None
        if process.input_fd >= 0 and not process.terminal:
            os.close(process.input_fd)
            process.input_fd = -1


_DEFAULTED = [signal.SIGPIPE, signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD]


def _open_log(path: str) -> BinaryIO:
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    return open(path, "ab", buffering=0)


def _read_pid(path: str) -> int:
    return int(Path(path).read_text())


def _note_exit(path: str, event: dict[str, Any]) -> None:
    try:
        Path(path + ".tmp").write_text(json.dumps(event))
        os.rename(path + ".tmp", path)
    except OSError:
        pass  # the connected agent hears of it anyway


def _stamp() -> bytes:
    now = time.time_ns()
    return f"{datetime.fromtimestamp(now // 1_000_000_000, UTC):%Y-%m-%dT%H:%M:%S}.{now % 1_000_000_000:09d}Z".encode()


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def _kill(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def _send(writer: asyncio.StreamWriter, value: dict[str, Any]) -> None:
    if not writer.is_closing():
        writer.write(json.dumps(value, separators=(",", ":")).encode() + b"\n")


def main(argv: list[str]) -> int:
    directory = Path(argv[1])
    lock = os.open(directory / "monitor.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 0  # another monitor serves this directory
    asyncio.run(Monitor(directory).run())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
