"""What a connection keeps: cycles are collected when the process rests, so memory must not wait for that."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from collections.abc import Iterator

import pytest

from drakit.apiserver.http import Connection, HttpRequest, Limits

SIZE = 1_000_000
BODY = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (SIZE, b"x" * SIZE)


class Wire:
    """A transport that takes everything."""

    def get_extra_info(self, name: str) -> None:
        return None

    def writelines(self, data: tuple[bytes, ...]) -> None:
        """Sent."""

    write = writelines


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def answer(connection: Connection, request: HttpRequest) -> None:
    assert len(request.body) == SIZE
    connection.respond(200, "text/plain", b"y" * SIZE)


@pytest.mark.usefixtures("without_collector")
def test_nothing_stays_of_a_request_on_an_idle_connection_nor_of_one_that_is_gone() -> None:
    connection = Connection(answer, Limits(), set(), lambda: 0.0)
    connection.connection_made(Wire())
    tracemalloc.start()
    connection.data_received(BODY)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < SIZE / 10
    assert connection.idle
    gone = weakref.ref(connection)
    connection.connection_lost(None)
    del connection
    assert gone() is None
