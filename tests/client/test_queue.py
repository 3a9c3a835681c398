import asyncio

import pytest

from drakit.client import WorkQueue
from drakit.clock import VirtualClock


def run(coroutine):
    return asyncio.run(coroutine)


def test_key_is_in_the_queue_once() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue(VirtualClock())
        queue.add("a")
        queue.add("a")
        queue.add("b")
        assert len(queue) == 2
        assert [await queue.get(), await queue.get()] == ["a", "b"]

    run(story())


def test_key_added_while_handled_comes_again_and_only_afterwards() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue(VirtualClock())
        queue.add("a")
        key = await queue.get()
        queue.add("a")
        assert len(queue) == 0
        queue.done(key)
        assert len(queue) == 1
        assert await queue.get() == "a"

    run(story())


def test_failures_double_the_delay_until_forgotten() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue(VirtualClock())
        assert [queue.add_rate_limited("a") for _ in range(4)] == [0.005, 0.01, 0.02, 0.04]
        queue.forget("a")
        assert queue.add_rate_limited("a") == 0.005
        queue.close()

    run(story())


def test_delay_is_bounded() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue(VirtualClock(), max_delay=1.0)
        delays = [queue.add_rate_limited("a") for _ in range(80)]
        assert max(delays) == 1.0
        queue.close()

    run(story())


def test_earliest_delayed_add_counts() -> None:
    async def story() -> None:
        clock = VirtualClock()
        queue: WorkQueue[str] = WorkQueue(clock)
        queue.add_after("a", 10)
        queue.add_after("a", 2)
        queue.add_after("a", 5)
        await asyncio.sleep(0)
        await clock.advance(1.9)
        assert len(queue) == 0
        await clock.advance(0.2)
        assert await queue.get() == "a"
        queue.done("a")
        await clock.advance(20)
        assert len(queue) == 0  # the later ones were dropped

    run(story())


def test_a_delay_that_shrinks_again_and_again_is_kept_once() -> None:
    async def story() -> None:
        clock = VirtualClock()
        queue: WorkQueue[str] = WorkQueue(clock)
        queue.add_after("other", 70_000)
        for seconds in range(60_000, 50_000, -1):
            queue.add_after("a", seconds)
        assert len(queue._delayed) < 200
        await clock.advance(50_001)
        assert [await queue.get(), len(queue)] == ["a", 0]
        await clock.advance(19_999)
        assert [await queue.get(), len(queue)] == ["other", 0]
        queue.close()

    run(story())


def test_waiting_worker_wakes_in_turn() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue(VirtualClock())
        waiting = [asyncio.ensure_future(queue.get()) for _ in range(2)]
        await asyncio.sleep(0)
        queue.add("a")
        queue.add("b")
        assert await asyncio.gather(*waiting) == ["a", "b"]

    run(story())


def test_cancelled_worker_passes_its_wake_up_on() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue(VirtualClock())
        first = asyncio.ensure_future(queue.get())
        second = asyncio.ensure_future(queue.get())
        await asyncio.sleep(0)
        queue.add("a")
        first.cancel()
        assert await asyncio.wait_for(second, 1) == "a"
        with pytest.raises(asyncio.CancelledError):
            await first

    run(story())


@pytest.mark.parametrize("seconds", [0, -1])
def test_no_delay_is_at_once(seconds: float) -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue(VirtualClock())
        queue.add_after("a", seconds)
        assert len(queue) == 1

    run(story())
