"""patch with an apply configuration: server-side apply."""

from __future__ import annotations

from drakit.api.errors import StatusError
from drakit.apiserver.call import Answer, Call
from drakit.apiserver.context import Context


def apply(ctx: Context, call: Call, *, dry_run: bool, validation: str) -> Answer:
    raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
