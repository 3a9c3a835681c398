"""Watches the plugin registry directory: a socket that appears is asked who it is and registered, one that goes is unregistered.

A re-created socket (new inode or time) is unregistered and registered again. Failures are told to the plugin and retried with growing
pauses. Inotify only wakes the loop early; the loop looks at the directory itself, so a lost event delays, never loses.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import grpc

from drakit.clock import Clock
from drakit.driver.protocols import DRA_PLUGIN, REGISTRATION
from drakit.node.errors import PluginError
from drakit.node.plugins import Plugins

__all__ = ["PluginRegistry"]

log = logging.getLogger(__name__)
INTERVAL = 1.0
DIAL_TIMEOUT, INFO_TIMEOUT, NOTIFY_TIMEOUT = 10.0, 1.0, 5.0
_MAX_PAUSE = 120.0
Stamp = tuple[int, int]


@dataclass
class _Registered:
    stamp: Stamp
    driver: str
    endpoint: str


@dataclass
class _Failed:
    stamp: Stamp
    pause: float
    until: float


class PluginRegistry:
    def __init__(self, directory: Path, plugins: Plugins, clock: Clock) -> None:
        self._directory = directory
        self._plugins = plugins
        self._clock = clock
        self._registered: dict[Path, _Registered] = {}
        self._failed: dict[Path, _Failed] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._close_watch: Callable[[], None] = lambda: None

    async def start(self) -> None:
        self._directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        self._close_watch = _watch_directory(self._directory, self._wake.set)
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        self._close_watch()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                await self.reconcile()
            except Exception:
                log.exception("plugin registry")  # a bad socket must not end registration for all others
            self._wake.clear()
            timer = asyncio.ensure_future(self._clock.sleep(INTERVAL))
            waiter = asyncio.ensure_future(self._wake.wait())
            try:
                await asyncio.wait((timer, waiter), return_when=asyncio.FIRST_COMPLETED)
            finally:
                timer.cancel()
                waiter.cancel()

    async def reconcile(self) -> None:
        """One look at the directory."""
        found = _sockets(self._directory)
        for path, known in list(self._registered.items()):
            if found.get(path) != known.stamp:
                del self._registered[path]
                await self._plugins.unregister(known.driver, known.endpoint)
                log.info("DRA driver %s unregistered (%s)", known.driver, path.name)
        for path in set(self._failed) - set(found):
            del self._failed[path]
        now = self._clock.monotonic()
        due = [(p, s) for p, s in found.items() if p not in self._registered and not self._resting(p, s, now)]
        await asyncio.gather(*(self._register(path, stamp) for path, stamp in due))

    def _resting(self, path: Path, stamp: Stamp, now: float) -> bool:
        failed = self._failed.get(path)
        return failed is not None and failed.stamp == stamp and now < failed.until

    async def _register(self, path: Path, stamp: Stamp) -> None:
        async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
            service = REGISTRATION.services["Registration"]
            try:
                await asyncio.wait_for(channel.channel_ready(), DIAL_TIMEOUT)
                info = await service.stub(channel, "GetInfo")(REGISTRATION.InfoRequest(), timeout=INFO_TIMEOUT)
            except (grpc.aio.AioRpcError, TimeoutError) as error:
                self._fail(path, stamp, f"no answer on {path}: {error}")
                return
            endpoint = info.endpoint or str(path)
            refusal = ""
            try:
                if info.type != DRA_PLUGIN:
                    raise PluginError(f"no handler registered for plugin type: {info.type} at socket {path}")
                if not info.name:
                    raise PluginError("DRA plugin name is empty")
                if not os.path.isabs(endpoint):
                    raise PluginError(f"endpoint {endpoint} is not an absolute path")
                self._plugins.register(info.name, endpoint, info.supported_versions)
                self._registered[path] = _Registered(stamp, info.name, endpoint)
                self._failed.pop(path, None)
                log.info("DRA driver %s registered at %s", info.name, endpoint)
            except PluginError as error:
                refusal = str(error)
                self._fail(path, stamp, refusal)
            status = REGISTRATION.RegistrationStatus(plugin_registered=not refusal, error=refusal)
            try:
                await service.stub(channel, "NotifyRegistrationStatus")(status, timeout=NOTIFY_TIMEOUT)
            except grpc.aio.AioRpcError as error:
                log.warning("plugin at %s did not take its registration status: %s", path, error.details())

    def _fail(self, path: Path, stamp: Stamp, reason: str) -> None:
        before = self._failed.get(path)
        pause = min(before.pause * 2, _MAX_PAUSE) if before is not None and before.stamp == stamp else 0.5
        self._failed[path] = _Failed(stamp, pause, self._clock.monotonic() + pause)
        log.warning("plugin not registered: %s (again in %.1f s)", reason, pause)


def _sockets(directory: Path) -> dict[Path, Stamp]:
    found: dict[Path, Stamp] = {}
    for root, folders, names in os.walk(directory):
        folders[:] = [f for f in folders if not f.startswith(".")]
        for name in names:
            if name.startswith("."):
                continue
            path = Path(root) / name
            try:
                status = path.lstat()
            except OSError:
                continue
            if stat.S_ISSOCK(status.st_mode):
                found[path] = (status.st_ino, status.st_ctime_ns)
    return found


_IN_CREATE, _IN_DELETE, _IN_MOVED = 0x100, 0x200, 0xC0


def _watch_directory(directory: Path, wake: Callable[[], None]) -> Callable[[], None]:
    """Calls `wake` on changes in the directory; without inotify the caller's own interval has to do. Returns the closer."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if fd < 0 or libc.inotify_add_watch(fd, os.fsencode(directory), _IN_CREATE | _IN_DELETE | _IN_MOVED) < 0:
            return lambda: None
    except (OSError, AttributeError):
        return lambda: None
    loop = asyncio.get_running_loop()

    def ready() -> None:
        try:
            os.read(fd, 65536)
        except BlockingIOError:
            return
        wake()

    def close() -> None:
        loop.remove_reader(fd)
        os.close(fd)

    loop.add_reader(fd, ready)
    return close
