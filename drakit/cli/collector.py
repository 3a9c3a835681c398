"""Python's collector of cycles, kept out of the way: it works when the process rests.

The objects of a cluster form no cycles; looking through them while pods come in by the hundred would cost a twentieth of the throughput.
So a burst is let through, up to a limit, and what it left is looked through in the next quiet moment.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["collect_at_rest", "collecting_at_rest", "generation_due"]

_LIMIT = 500_000  # new objects until a collection cannot wait for rest any longer: some 0.1 s of work
_WORTH_IT = 20_000
_PERIOD = 0.5
_RESTING = 0.1  # share of a processor that still counts as rest
_OLDER = 20  # collections of a generation until the next older one is due


@asynccontextmanager
async def collecting_at_rest() -> AsyncIterator[None]:
    """For the block; what was loaded so far stays."""
    usual = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_LIMIT, _OLDER, 100)
    collecting = asyncio.ensure_future(collect_at_rest())
    try:
        yield
    finally:
        collecting.cancel()
        gc.set_threshold(*usual)


async def collect_at_rest() -> None:
    """Until cancelled."""
    before = time.process_time()
    while True:
        await asyncio.sleep(_PERIOD)
        now = time.process_time()
        generation = generation_due(gc.get_count())
        if generation is not None and now - before < _RESTING * _PERIOD:
            gc.collect(generation)
            now = time.process_time()
        before = now


def generation_due(counts: tuple[int, int, int]) -> int | None:
    """The oldest generation worth a look, given `gc.get_count()`: new objects, and how often each younger generation was looked at."""
    new, young, old = counts
    if new < _WORTH_IT:
        return None
    if young < _OLDER:
        return 0
    return 1 if old < _OLDER else 2
