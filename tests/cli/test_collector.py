import asyncio
import gc
import weakref

import pytest

from drakit.cli import collector


class Cycle:
    def __init__(self) -> None:
        self.me = self


@pytest.mark.parametrize(
    ("counts", "generation"),
    [((100, 30, 30), None), ((20_000, 3, 0), 0), ((20_000, 20, 3), 1), ((20_000, 20, 20), 2)],
)
def test_looks_no_further_than_it_pays(counts: tuple[int, int, int], generation: int | None) -> None:
    assert collector.generation_due(counts) == generation


def test_cycles_go_when_the_process_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "_WORTH_IT", 1)
    monkeypatch.setattr(collector, "_PERIOD", 0.001)
    monkeypatch.setattr(collector, "_RESTING", 1000.0)
    threshold = gc.get_threshold()

    async def body() -> bool:
        gc.set_threshold(1_000_000, 20, 100)
        found = weakref.ref(Cycle())
        task = asyncio.ensure_future(collector.collect_at_rest())
        for _ in range(1000):
            await asyncio.sleep(0.001)
            if found() is None:
                break
        task.cancel()
        return found() is None

    try:
        assert asyncio.run(body())
    finally:
        gc.set_threshold(*threshold)


def test_collector_is_as_before_after_the_block() -> None:
    async def body() -> tuple[int, int, int]:
        async with collector.collecting_at_rest():
            return gc.get_threshold()

    before = gc.get_threshold()
    try:
        assert asyncio.run(body()) != before
        assert gc.get_threshold() == before
    finally:
        gc.unfreeze()
