"""Times as objects state them: UTC, to the second or (MicroTime) to the microsecond."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

__all__ = ["at_second", "micro_timestamp", "timestamp"]


def timestamp(moment: datetime) -> str:
    return at_second(int(moment.timestamp()))


@lru_cache(maxsize=16)  # many writes fall into one second
def at_second(seconds: int) -> str:
    """For a time in seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
