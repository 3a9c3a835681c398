"""Room on Python's stack for deep expressions.

The grammar's limits (250 levels, as in cel-go) allow trees that need more frames than Python's default
recursion limit leaves. Calls between Python functions take no C stack since Python 3.11, so the limit may be
raised for the time of one walk; walks of shallow trees never touch it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

__all__ = ["DEEP", "with_room"]

T = TypeVar("T")
DEEP = 12  # levels of nesting below which the default limit is surely enough


def _frames_in_use() -> int:
    frame: FrameType | None = sys._getframe()
    count = 0
    while frame is not None:
        count += 1
        frame = frame.f_back
    return count


def with_room(levels: int, function: Callable[[], T], frames_per_level: int = 12) -> T:
    """Call `function` with enough stack for `levels` of nesting."""
    if levels <= DEEP:
        return function()
    needed = _frames_in_use() + 200 + levels * frames_per_level
    before = sys.getrecursionlimit()
    if needed <= before:
        return function()
    sys.setrecursionlimit(needed)
    try:
        return function()
    finally:
        sys.setrecursionlimit(before)
