"""A driver's own record of prepared claims: what it answered, so that a restart or a second call answers the same.

Same envelope as the kubelet's checkpoints: {"Data": "<json>", "Checksum": crc32}. Written before prepare answers and after unprepare
did its work; a damaged file stops the driver, because guessing could hand one device to two claims.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drakit.driver import files
from drakit.driver.errors import CheckpointError

__all__ = ["Checkpoint", "dump_envelope", "load_envelope"]

KIND = "PreparedClaims"
VERSION = "drakit/v1"


def dump_envelope(data: Any) -> bytes:
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    return json.dumps(
        {"Data": text, "Checksum": zlib.crc32(text.encode())}, separators=(",", ":"), ensure_ascii=False
    ).encode()


def load_envelope(blob: bytes, path: Path) -> Any:
    remedy = f"drain the node, remove {path} and start again"
    try:
        outer = json.loads(blob)
        text, checksum = outer["Data"], outer["Checksum"]
        if zlib.crc32(text.encode()) != checksum:
            raise CheckpointError(
                f"checkpoint {path} is corrupt: checksum {checksum} does not match its data; {remedy}"
            )
        return json.loads(text)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"checkpoint {path} is damaged ({error}); {remedy}") from error


class Checkpoint:
    """Entries by claim UID: {"namespace", "name", "devices": [...], "extra": driver's own}. Changes are on disk when a call returns."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: dict[str, dict[str, Any]] = {}
        blob = files.read_bytes(path)
        if blob is not None:
            data = load_envelope(blob, path)
            if not isinstance(data, dict) or data.get("kind") != KIND or data.get("version") != VERSION:
                found = data.get("version") if isinstance(data, dict) else type(data).__name__
                raise CheckpointError(
                    f"checkpoint {path} has version {found!r}, this driver knows {VERSION!r}: use the driver that wrote it"
                )
            self._entries = data["claims"]

    def get(self, uid: str) -> dict[str, Any] | None:
        return self._entries.get(uid)

    def set(self, uid: str, entry: dict[str, Any]) -> None:
        self._write({**self._entries, uid: entry})

    def remove(self, uid: str) -> None:
        if uid in self._entries:
            self._write({u: e for u, e in self._entries.items() if u != uid})

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        return iter(list(self._entries.items()))

    def __len__(self) -> int:
        return len(self._entries)

    def _write(self, entries: dict[str, dict[str, Any]]) -> None:
        """Memory changes only once the file has: a full disk leaves both as they were."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        files.write(self._path, dump_envelope({"kind": KIND, "version": VERSION, "claims": entries}), mode=0o600)
        self._entries = entries
