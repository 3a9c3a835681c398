"""Writes that are not stored: reviews of identities and rights, and tokens for service accounts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drakit.apiserver.access import Access
from drakit.apiserver.call import Answer, Call
from drakit.apiserver.context import Context

__all__ = ["handlers"]

Special = Callable[[Context, Call], Any]


def handlers(access: Access) -> dict[tuple[str, str], Special]:
    return {}


_ = Answer
