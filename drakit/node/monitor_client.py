"""The agent's side of the monitor: starts it where it does not run, sends requests, and turns its events into futures."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from drakit.node import monitor
from drakit.node.errors import RuntimeFailure

__all__ = ["MonitorClient"]

log = logging.getLogger(__name__)
_START_TIMEOUT = 10.0
Output = Callable[[int, bytes], None]


class MonitorClient:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._numbers = itertools.count(1)
        self._replies: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._exits: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._outputs: dict[str, list[Output]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None
        self._child = 0  # the monitor, when this agent started it
        self._restarting = asyncio.Lock()

    @property
    def fresh(self) -> bool:
        """No monitor was running: whatever records say, no container of ours does either."""
        return self._child != 0

    async def start(self) -> None:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._directory / monitor.SOCKET
        if len(str(path)) > 107:
            raise RuntimeFailure(f"{path} is too long for a Unix socket: use a shorter directory")
        reader, writer = await self._connect(path)
        self._writer = writer
        self._task = asyncio.create_task(self._read(reader))

    async def _connect(self, path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            return await asyncio.open_unix_connection(path, limit=1 << 22)
        except OSError:
            pass
        child = self._child = _launch(self._directory)
        deadline = asyncio.get_running_loop().time() + _START_TIMEOUT
        while asyncio.get_running_loop().time() < deadline:
            try:
                return await asyncio.open_unix_connection(path, limit=1 << 22)
            except OSError:
                if _died(child):
                    break
                await asyncio.sleep(0.01)
        raise RuntimeFailure(f"the container monitor did not start; see {self._directory / 'monitor.log'}")

    async def stop(self, *, kill: bool = False) -> None:
        if kill and self._writer is not None and not self._writer.is_closing():
            try:
                await self._request({"op": "stop"})
            except RuntimeFailure:
                pass
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if kill and self._child:
            await asyncio.to_thread(_reap, self._child)

    async def spawn(
        self,
        identifier: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        log_path: str = "",
        exit_path: str = "",
        pid_file: str = "",
        cwd: str = "",
        stdin: bool = False,
        tty: bool = False,
    ) -> float:
        """Starts a process; its start time. RuntimeFailure carries what the launcher said."""
        self._exits.setdefault(identifier, asyncio.get_running_loop().create_future())
        answer = await self._request(
            {
                "op": "spawn",
                "id": identifier,
                "argv": list(argv),
                "env": dict(env),
                "log": log_path,
                "exit": exit_path,
                "pid_file": pid_file,
                "cwd": cwd,
                "stdin": stdin,
                "tty": tty,
            }
        )
        if "error" in answer:
            self._exits.pop(identifier, None)
            raise RuntimeFailure(answer["error"], "StartError")
        return float(answer["started"])

    async def processes(self) -> dict[str, dict[str, Any]]:
        answer = await self._request({"op": "list"})
        found: dict[str, dict[str, Any]] = answer["processes"]
        for identifier, described in found.items():
            future = self._exits.setdefault(identifier, asyncio.get_running_loop().create_future())
            if described["code"] is not None and not future.done():
                future.set_result(
                    {"code": described["code"], "signal": described["signal"], "at": described["finished"]}
                )
        return found

    async def signal(self, identifier: str, number: int) -> None:
        await self._request({"op": "signal", "id": identifier, "signal": number})

    def ended(self, identifier: str) -> dict[str, Any] | None:
        future = self._exits.get(identifier)
        return future.result() if future is not None and future.done() else None

    async def wait(self, identifier: str) -> dict[str, Any]:
        future = self._exits.get(identifier)
        if future is None:
            raise RuntimeFailure(f"no process {identifier}", "ContainerStatusUnknown")
        return await asyncio.shield(future)

    async def write(self, identifier: str, data: bytes | None) -> None:
        encoded = None if data is None else base64.b64encode(data).decode()
        await self._request({"op": "input", "id": identifier, "data": encoded})

    def resize(self, identifier: str, width: int, height: int) -> None:
        self._send({"op": "resize", "id": identifier, "w": width, "h": height, "n": 0})

    async def attach(self, identifier: str, output: Output) -> Callable[[], None]:
        self._outputs.setdefault(identifier, []).append(output)
        await self._request({"op": "attach", "id": identifier})

        def detach() -> None:
            listeners = self._outputs.get(identifier, [])
            if output in listeners:
                listeners.remove(output)
            if not listeners:
                self._outputs.pop(identifier, None)
                self._send({"op": "detach", "id": identifier, "n": 0})

        return detach

    async def forget(self, identifier: str) -> None:
        self._exits.pop(identifier, None)
        await self._request({"op": "forget", "id": identifier})

    async def _request(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._task is not None and self._task.done():
            await self._restart()
        number = next(self._numbers)
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._replies[number] = future
        self._send({**request, "n": number})
        return await future

    async def _restart(self) -> None:
        """The monitor was killed: its containers are lost (their exits are told), new ones need a new monitor."""
        async with self._restarting:
            if self._task is not None and self._task.done():
                log.error("the container monitor is gone: starting another one")
                if self._child:
                    _died(self._child)  # reap it
                await self.start()

    def _send(self, request: dict[str, Any]) -> None:
        if self._writer is None or self._writer.is_closing():
            for future in self._replies.values():
                if not future.done():
                    future.set_exception(RuntimeFailure("the container monitor is gone"))
            self._replies.clear()
            return
        self._writer.write(json.dumps(request, separators=(",", ":")).encode() + b"\n")

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                self._take(json.loads(line))
        except (ConnectionError, ValueError, asyncio.IncompleteReadError) as error:
            log.error("container monitor: %s", error)
        if self._writer is not None:
            self._writer.close()
        for future in self._replies.values():
            if not future.done():
                future.set_exception(RuntimeFailure("the container monitor is gone"))
        self._replies.clear()
        for exited in self._exits.values():
            if (
                not exited.done()
            ):  # its children died with it, or will be found by the next monitor: either way they are lost
                exited.set_result({"code": 137, "signal": 9, "at": 0.0, "lost": True})

    def _take(self, message: dict[str, Any]) -> None:
        if "reply" in message:
            future = self._replies.pop(message["reply"] or 0, None)
            if future is not None and not future.done():
                future.set_result(message)
        elif message["event"] == "exit":
            exited = self._exits.setdefault(message["id"], asyncio.get_running_loop().create_future())
            if not exited.done():
                exited.set_result(message)
            for listener in list(self._outputs.get(message["id"], ())):
                listener(0, b"")
        elif message["event"] == "output":
            for listener in list(self._outputs.get(message["id"], ())):
                listener(message["fd"], base64.b64decode(message["data"]))


def _launch(directory: Path) -> int:
    """Starts the monitor in a session of its own: it outlives the agent. -I -S: the standard library only, nothing of the caller's."""
    output = os.open(directory / "monitor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", monitor.__file__, str(directory)],
            {"PATH": os.environ.get("PATH", os.defpath)},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, null, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
            ],
            setsid=True,
        )
    finally:
        os.close(output)
        os.close(null)


def _died(pid: int) -> bool:
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return True
    return ended != 0 and status != 0


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        pass
