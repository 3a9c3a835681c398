"""metadata.managedFields: who set which field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from drakit.apiserver.call import Call
from drakit.apiserver.context import Context

Plain = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Applied:
    entries: list[Plain]


def on_create(ctx: Context, call: Call, obj: Plain, now: str, applied: Applied | None) -> list[Plain]:
    return []


def on_update(ctx: Context, call: Call, obj: Plain, old: Plain, now: str, applied: Applied | None) -> list[Plain]:
    return []
