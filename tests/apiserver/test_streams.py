"""A watch as it is sent, with a connection that only listens."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from drakit.apiserver import streams
from drakit.apiserver.rendering import Frames
from drakit.apiserver.selection import EVERYTHING
from drakit.apiserver.store import Store
from drakit.apiserver.stored import Event
from drakit.apiserver.streams import WatchStream
from drakit.apiserver.verbs.reading import WatchStart
from drakit.clock import SystemClock
from tests.apiserver.test_store import KIND, put


class Listener:
    """What a client gets."""

    writing_paused = False

    def __init__(self) -> None:
        self.text = b""

    def start(self, code: int, content_type: str, headers: Any) -> None:
        assert code == 200

    def chunk(self, data: bytes) -> None:
        self.text += data

    def abort_after_flush(self) -> None:
        """Nothing comes after the error."""

    def events(self) -> list[str]:
        return [json.loads(line)["type"] for line in self.text.splitlines()]


class Lines:
    """Frames by their types alone."""

    error = staticmethod(Frames.error)

    def event(self, type: str, event: Event, now: datetime) -> bytes:
        return b'{"type":"%b"}\n' % type.encode()

    def bookmark(self, version: int, *, end_of_initial: bool = False) -> bytes:
        return b'{"type":"BOOKMARK"}\n'


def test_a_client_that_lost_events_is_not_told_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bookmark would let it go on behind what it lost, if it did not hear the error."""
    monkeypatch.setattr(streams, "_BOOKMARK_SECONDS", 0.0)
    listener = Listener()

    async def run() -> None:
        store, loop = Store(), asyncio.get_running_loop()
        start = WatchStart(
            store.collection(KIND), "v1", "", EVERYTHING, (), (), store.durable,
            end_of_initial=False, bookmarks=True, timeout=60.0,
        )  # fmt: skip
        context = SimpleNamespace(store=store, clock=SystemClock())
        stream = WatchStream(
            cast("Any", context), cast("Any", listener), start, cast("Any", Lines()), limit=1, ended=lambda stream: None
        )
        # In one turn of the loop: more than the watcher may lag behind, then the time for a bookmark.
        loop.call_later(0, lambda: [put(store, "a", text) for text in "xyz"])
        stream.begin(())
        for _ in range(10):
            await asyncio.sleep(0)

    asyncio.run(run())
    assert listener.events() == ["ERROR"]
