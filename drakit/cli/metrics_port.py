"""`--metrics-port`: GET /metrics and /healthz on 127.0.0.1, for components that run without an API server of ours."""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from drakit.cli import options
from drakit.metrics import CONTENT_TYPE, Registry

if TYPE_CHECKING:
    from drakit.apiserver.http import Connection

__all__ = ["add_metrics_port", "serving"]

_SWEEP_SECONDS = 5.0


def add_metrics_port(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--metrics-port",
        type=options.port,
        metavar="PORT",
        help="serve Prometheus metrics at http://127.0.0.1:PORT/metrics (default: not at all; 0 for a free port)",
    )


@asynccontextmanager
async def serving(registry: Registry, port: int | None) -> AsyncIterator[int]:
    """Until the end of the block; yields the port, 0 when none was asked for."""
    if port is None:
        yield 0
        return
    from drakit.apiserver.http import Connection, HttpRequest, Limits  # late: the other commands need no server

    def answer(connection: Connection, request: HttpRequest) -> None:
        if request.method not in ("GET", "HEAD"):
            connection.respond(405, "text/plain", b"405 method not allowed\n", (("Allow", "GET, HEAD"),))
        elif request.path == "/metrics":
            connection.respond(200, CONTENT_TYPE, registry.render().encode())
        elif request.path == "/healthz":
            connection.respond(200, "text/plain", b"ok")
        else:
            connection.respond(404, "text/plain", b"404 page not found\n")

    connections: set[Connection] = set()
    limits = Limits(connections=64)
    try:
        listener = await asyncio.get_running_loop().create_server(
            lambda: Connection(answer, limits, connections, time.monotonic), "127.0.0.1", port
        )
    except OSError as error:
        raise options.CommandError(f"--metrics-port {port}: {os.strerror(error.errno or 0)}; choose another") from error
    sweeper = asyncio.ensure_future(_sweep(connections))
    try:
        found: int = listener.sockets[0].getsockname()[1]
        print(f"metrics at http://127.0.0.1:{found}/metrics", flush=True)
        yield found
    finally:
        sweeper.cancel()
        listener.close()
        for connection in list(connections):
            connection.abort()


async def _sweep(connections: set[Connection]) -> None:
    """Cut off who is silent for too long, or the few places would fill up."""
    while True:
        await asyncio.sleep(_SWEEP_SECONDS)
        for connection in list(connections):
            connection.check(time.monotonic())
