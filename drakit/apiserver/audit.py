"""The audit log: one JSON line per request, who asked for what and what came of it.

Metadata only: no bodies, no headers, no query values but the selectors, so that no secret and no token can get into it.
The file is made with mode 0600; lines are written once per turn of the event loop.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from drakit.apiserver.auth import Attributes, UserInfo


class AuditLog:
    """Append-only. `later` runs a function soon (the loop's call_soon); `now` is the wall clock."""

    def __init__(
        self, path: Path, *, now: Callable[[], datetime], later: Callable[[Callable[[], None]], object]
    ) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._now = now
        self._later = later
        self._lines: list[bytes] = []

    def record(
        self,
        attributes: Attributes,
        code: int,
        *,
        impersonator: UserInfo | None = None,
        reason: str = "",
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        line: dict[str, Any] = {
            "time": self._now().isoformat(timespec="microseconds"),
            "user": attributes.user.name,
            "groups": list(attributes.user.groups),
            "verb": attributes.verb,
        }
        if impersonator is not None:
            line["impersonator"] = impersonator.name
        fields = (
            "group",
            "version",
            "resource",
            "subresource",
            "namespace",
            "name",
            "path",
            "label_selector",
            "field_selector",
        )
        line |= {field: value for field in fields if (value := getattr(attributes, field))}
        line["code"] = code
        line["verdict"] = "allowed" if code < 400 else "denied" if code in (401, 403) else "failed"
        if reason:
            line["reason"] = reason
        if annotations:
            line["annotations"] = dict(annotations)
        if not self._lines:
            self._later(self.flush)
        self._lines.append(
            json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"
        )

    def flush(self) -> None:
        lines, self._lines = self._lines, []
        if lines:
            os.write(self._file, b"".join(lines))

    def close(self) -> None:
        self.flush()
        os.close(self._file)
