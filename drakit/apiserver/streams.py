"""Watches as they are sent: initial objects, then events as they come, batched per turn of the loop."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence

from drakit.api.errors import StatusError
from drakit.apiserver.context import Context
from drakit.apiserver.http import Connection
from drakit.apiserver.rendering import Frames
from drakit.apiserver.verbs.reading import WatchStart
from drakit.apiserver.watchers import Watcher

__all__ = ["WatchStream", "send_error_stream"]

log = logging.getLogger(__name__)
_BOOKMARK_SECONDS = 60.0
_DEFAULT_SECONDS = (1800.0, 3600.0)
_BATCH, _BATCH_BYTES = 512, 2**20  # events put into one write


class WatchStream:
    def __init__(
        self, ctx: Context, connection: Connection, start: WatchStart, frames: Frames, *, limit: int, ended: Callable[[WatchStream], object]
    ) -> None:  # fmt: skip
        self._ctx = ctx
        self._connection = connection
        self._start = start
        self._frames = frames
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._flushing = False
        self._timers: list[asyncio.TimerHandle] = []
        self._open = False
        self._done = False
        self._watcher = Watcher(start.namespace, start.selection, self._wake, after=start.after, limit=limit)

    def begin(self, headers: Sequence[tuple[str, str]]) -> None:
        """Register now, so that no event is missed; send when what is sent first is durable."""
        start = self._start
        start.collection.watchers.add(self._watcher)
        self._connection.on_lost = self._lost
        self._connection.on_writable = self._wake
        self._ctx.store.when_durable(start.after, lambda failure: self._first(failure, headers))

    def _first(self, failure: StatusError | None, headers: Sequence[tuple[str, str]]) -> None:
        if self._done:
            return
        start, frames, now = self._start, self._frames, self._ctx.clock.now()
        self._connection.start(200, "application/json", headers)
        if failure is not None:
            self._connection.chunk(frames.error(failure))
            self.stop()
            return
        self._open = True
        first = [frames.added(stored, now) for stored in start.initial]
        for event in start.replay:
            type = self._watcher.sees(event)
            if type:
                first.append(frames.event(type, event, now))
        if start.end_of_initial:
            first.append(frames.bookmark(start.after, end_of_initial=True))
        start.initial, start.replay = (), ()
        self._connection.chunk(b"".join(first))
        seconds = start.timeout or random.uniform(*_DEFAULT_SECONDS)  # noqa: S311  # spreads reconnections, no secret
        self._timers.append(self._loop.call_later(seconds, self.stop))
        if start.bookmarks:
            self._schedule_bookmark(min(_BOOKMARK_SECONDS, max(seconds - 2.0, 1.0)))
        if self._watcher.events or self._watcher.overflowed:
            self._wake()

    def _wake(self) -> None:
        if not self._flushing and self._open and not self._done:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        watcher = self._watcher
        if self._done:
            return
        if watcher.overflowed:
            self._give_up()
            return
        if self._connection.writing_paused:
            return  # goes on when the client has taken what was sent
        try:
            self._send_batch()
        except Exception:  # an event that cannot be shown is lost to this client: it must notice
            log.exception("a watch of %s", self._start.collection.resource)
            self._lost()
            self._connection.abort()

    def _send_batch(self) -> None:
        now, watcher = self._ctx.clock.now(), self._watcher
        batch: list[bytes] = []
        size = 0
        while watcher.events and len(batch) < _BATCH and size < _BATCH_BYTES:
            type, event = watcher.take()
            batch.append(self._frames.event(type, event, now))
            size += len(batch[-1])
        self._connection.chunk(b"".join(batch))
        if watcher.events:
            self._wake()

    def _give_up(self) -> None:
        """The client lost events: only a new list can help it. One that does not read cannot even be told."""
        self._done = True
        self._close()
        if self._connection.writing_paused:
            self._connection.abort()
        else:
            failure = StatusError.expired("too old resource version: the watch was too slow")
            self._connection.chunk(self._frames.error(failure))
            self._connection.abort_after_flush()

    def _schedule_bookmark(self, seconds: float) -> None:
        self._timers = [timer for timer in self._timers if not timer.cancelled()][-4:]
        self._timers.append(self._loop.call_later(seconds, self._bookmark))

    def _bookmark(self) -> None:
        if self._done:
            return
        behind = self._watcher.events or self._watcher.overflowed
        if not behind and not self._connection.writing_paused:
            self._connection.chunk(self._frames.bookmark(self._ctx.store.durable))
        self._schedule_bookmark(_BOOKMARK_SECONDS)

    def stop(self) -> None:
        """End the stream properly: its time is over, or the server stops."""
        if self._done:
            return
        self._flush_rest()
        self._done = True
        self._close()
        self._connection.end()

    def _flush_rest(self) -> None:
        if self._open and not self._watcher.overflowed and not self._connection.writing_paused:
            now = self._ctx.clock.now()
            rest = [self._frames.event(type, event, now) for type, event in self._watcher.events]
            self._watcher.events.clear()
            self._connection.chunk(b"".join(rest))

    def _lost(self) -> None:
        if not self._done:
            self._done = True
            self._close()

    def _close(self) -> None:
        self._start.collection.watchers.remove(self._watcher)
        for timer in self._timers:
            timer.cancel()
        self._ended(self)


def send_error_stream(connection: Connection, failure: StatusError, headers: Sequence[tuple[str, str]]) -> None:
    """A watch that cannot begin where the client asked says so inside the stream."""
    connection.start(200, "application/json", headers)
    connection.chunk(Frames.error(failure))
    connection.end()
