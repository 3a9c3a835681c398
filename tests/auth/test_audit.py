"""The audit log: a line per request, private, and nothing secret in it."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from drakit.apiserver.audit import AuditLog
from drakit.apiserver.auth import Attributes, UserInfo


def test_line_says_who_what_and_verdict(tmp_path: Path) -> None:
    pending: list[Callable[[], None]] = []
    log = AuditLog(tmp_path / "audit.log", now=lambda: datetime(2026, 1, 1, tzinfo=UTC), later=pending.append)
    user = UserInfo("eve", ("system:authenticated",))
    log.record(Attributes(user, "get", "", "v1", resource="secrets", namespace="n", name="s"), 403, reason="Forbidden")
    log.record(Attributes(user, "get", path="/healthz"), 200, impersonator=UserInfo("root"))
    assert len(pending) == 1, "one write per turn"
    pending[0]()
    log.close()
    first, second = (json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines())
    assert (first["user"], first["verb"], first["resource"], first["code"], first["verdict"]) == (
        "eve",
        "get",
        "secrets",
        403,
        "denied",
    )
    assert (second["path"], second["verdict"], second["impersonator"]) == ("/healthz", "allowed", "root")
    assert stat.S_IMODE((tmp_path / "audit.log").stat().st_mode) == 0o600


def test_names_cannot_break_a_line(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "a", now=lambda: datetime(2026, 1, 1, tzinfo=UTC), later=lambda f: None)
    log.record(Attributes(UserInfo('x"\n{"user":"root"}\ud800'), "get", path="/\n"), 200)
    log.close()
    (line,) = (tmp_path / "a").read_bytes().splitlines()
    assert json.loads(line)["path"] == "/\n"
