"""Container logs in CRI's format: reading, tailing, following. The monitor (or containerd) writes them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

__all__ = ["LogOptions", "read", "tail"]

_POLL = 0.1
_BLOCK = 64 * 1024


@dataclass(frozen=True)
class LogOptions:
    follow: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since: datetime | None = None
    limit_bytes: int | None = None
    stream: str = "All"


@dataclass
class _Line:
    stamp: str
    stream: str
    full: bool
    text: bytes


def _parse(raw: bytes) -> _Line | None:
    parts = raw.split(b" ", 3)
    if len(parts) != 4 or parts[1] not in (b"stdout", b"stderr"):
        return None
    return _Line(parts[0].decode("ascii", "replace"), parts[1].decode(), parts[2].startswith(b"F"), parts[3])


def _time(stamp: str) -> datetime:
    try:
        return datetime.fromisoformat(stamp[:26].rstrip("Z") + "+00:00")
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)


async def read(path: Path, options: LogOptions, running: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The log's text in pieces. Following ends when the container is no longer `running` and all is read."""
    left = options.limit_bytes if options.limit_bytes is not None else -1
    position = _tail_position(path, options.tail_lines) if options.tail_lines is not None else 0
    fresh = True  # at the start of a line
    rest = b""
    while True:
        alive = options.follow and running()
        data, position = _read_from(path, position)
        out = []
        *lines, rest = (rest + data).split(b"\n")
        for raw in lines:
            line = _parse(raw)
            if line is None or (options.stream != "All" and line.stream != options.stream.lower()):
                continue
            if options.since is not None and _time(line.stamp) < options.since:
                continue
            prefix = f"{line.stamp} ".encode() if options.timestamps and fresh else b""
            out.append(prefix + line.text + (b"\n" if line.full else b""))
            fresh = line.full
        piece = b"".join(out)
        if left >= 0:
            piece = piece[:left]
            left -= len(piece)
        if piece:
            yield piece
        if left == 0:
            return
        if not data:
            if not alive:
                return
            await asyncio.sleep(_POLL)


def _read_from(path: Path, position: int) -> tuple[bytes, int]:
    try:
        with open(path, "rb") as file:
            file.seek(position)
            data = file.read(_BLOCK * 16)
    except FileNotFoundError:
        return b"", position
    return data, position + len(data)


def _tail_position(path: Path, lines: int) -> int:
    """Where the last `lines` lines begin: read backwards in blocks, so that a big log costs nothing."""
    try:
        with open(path, "rb") as file:
            position = end = file.seek(0, os.SEEK_END)
            if lines <= 0:
                return end
            data = b""
            while position > 0:
                step = min(_BLOCK, position)
                position -= step
                file.seek(position)
                data = file.read(step) + data
                start = _last_lines(data, lines)
                if start > 0:
                    return position + start
            return 0
    except FileNotFoundError:
        return 0


def _last_lines(data: bytes, lines: int) -> int:
    """Offset of the last `lines` full lines (with their partial beginnings) in data; 0 when there may be more before it."""
    full = 0
    end = len(data)
    while end > 0:
        begin = data.rfind(b"\n", 0, end - 1) + 1
        line = _parse(data[begin : end - 1])
        if line is not None and line.full:
            if full == lines:
                return end
            full += 1
        end = begin
    return 0


def tail(path: Path, lines: int) -> str:
    """The last lines as text, for a termination message."""
    data, _ = _read_from(path, _tail_position(path, lines))
    found = (_parse(raw) for raw in data.split(b"\n"))
    return b"".join(line.text + (b"\n" if line.full else b"") for line in found if line is not None).decode(
        errors="replace"
    )
