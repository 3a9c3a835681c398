import asyncio
from collections.abc import Awaitable, Callable
from itertools import count, pairwise

import pytest
from lightkube.models.core_v1 import ConfigMap, Event

from drakit.api.errors import StatusError
from drakit.client import Client, Informer, Informers, Plain, reflector
from drakit.clock import VirtualClock
from tests.client.fake import FakeTransport


class Watched:
    """An informer of config maps on the fake, and what its handlers were told."""

    def __init__(self) -> None:
        self.transport = FakeTransport()
        self.clock = VirtualClock()
        self.informers = Informers(Client(self.transport), self.clock)
        self.informer: Informer[Plain] = self.informers.plain(ConfigMap)
        self.told: list[tuple[str, str]] = []
        self.informer.add_handler(
            lambda new: self.told.append(("add", new["metadata"]["name"])),
            lambda old, new: self.told.append(("update", new["metadata"]["name"])),
            lambda old: self.told.append(("delete", old["metadata"]["name"])),
        )

    async def start(self) -> None:
        self.informers.start()
        await self.informers.wait_synced()
        await self.turn()

    async def turn(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def send(self, *items: object) -> None:
        for item in items:
            self.transport.watches.put_nowait(item)  # type: ignore[arg-type]
        await self.turn()


def story(body: Callable[[Watched], Awaitable[None]]) -> None:
    async def run() -> None:
        watched = Watched()
        try:
            await body(watched)
        finally:
            await watched.informers.stop()

    asyncio.run(run())


def test_lists_then_follows() -> None:
    async def body(w: Watched) -> None:
        w.transport.put("a")
        await w.start()
        await w.send(
            ("ADDED", w.transport.put("b")), ("MODIFIED", w.transport.put("a")), ("DELETED", w.transport.put("b"))
        )
        assert w.told == [("add", "a"), ("add", "b"), ("update", "a"), ("delete", "b")]
        assert w.informer.keys() == ["default/a"]
        assert w.transport.watch_requests[0].query["resourceVersion"] == "1"

    story(body)


def test_watch_that_ends_resumes_where_it_was() -> None:
    async def body(w: Watched) -> None:
        await w.start()
        await w.send(("ADDED", w.transport.put("a")), None)
        assert [request.query.get("resourceVersion") for request in w.transport.watch_requests][1:] == ["1"]
        assert len([r for r in w.transport.requests if r.method == "GET"]) == 1  # no second list

    story(body)


def test_gone_lists_again_and_tells_what_was_missed() -> None:
    async def body(w: Watched) -> None:
        w.transport.put("a")
        w.transport.put("b")
        await w.start()
        del w.transport.items["a"]
        w.transport.put("c")
        w.told.clear()
        await w.send(StatusError.gone("too old"))
        await w.clock.advance(1)
        await w.turn()
        assert sorted(w.told) == [("add", "c"), ("delete", "a")]

    story(body)


def test_object_made_anew_under_its_name_is_a_delete_and_an_add() -> None:
    async def body(w: Watched) -> None:
        w.transport.put("a")
        await w.start()
        w.told.clear()
        await w.send(("MODIFIED", w.transport.put("a", metadata={"uid": "another"})))
        assert w.told == [("delete", "a"), ("add", "a")]

    story(body)


def test_repeated_and_old_events_are_ignored() -> None:
    async def body(w: Watched) -> None:
        await w.start()
        first = w.transport.put("a")
        second = w.transport.put("a")
        await w.send(("ADDED", first), ("MODIFIED", second), ("MODIFIED", second), ("ADDED", first))
        assert w.told == [("add", "a"), ("update", "a")]

    story(body)


def test_own_write_is_read_before_the_watch_brings_it() -> None:
    async def body(w: Watched) -> None:
        await w.start()
        written = w.transport.put("a", data={"k": "1"})
        w.informer.observe(written)
        assert w.informer.get("default/a") is written
        await w.send(("ADDED", written))
        assert w.told == [("add", "a")]  # once

    story(body)


def test_own_write_does_not_bring_back_what_the_watch_has_seen_go() -> None:
    async def body(w: Watched) -> None:
        await w.start()
        written = w.transport.put("a")
        gone = w.transport.put("a")
        await w.send(("ADDED", written), ("DELETED", gone))
        w.informer.observe(written)
        assert w.informer.get("default/a") is None

    story(body)


def test_own_delete_hides_the_object_from_late_events() -> None:
    async def body(w: Watched) -> None:
        obj = w.transport.put("a")
        await w.start()
        late = w.transport.put("a")
        w.informer.observe_deleted("default/a", obj["metadata"]["uid"], {"kind": "Status"})
        await w.send(("MODIFIED", late))
        assert w.informer.get("default/a") is None
        gone = w.transport.put("a")
        again = w.transport.put("a", metadata={"uid": "new"})
        await w.send(("DELETED", gone), ("ADDED", again))
        assert w.informer.get("default/a") is again

    story(body)


def test_own_delete_that_only_marks_keeps_the_object() -> None:
    async def body(w: Watched) -> None:
        obj = w.transport.put("a")
        await w.start()
        marked = w.transport.put("a", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x"]})
        w.informer.observe_deleted("default/a", obj["metadata"]["uid"], marked)
        assert w.informer.get("default/a") is marked

    story(body)


def test_index_follows_changes() -> None:
    async def body(w: Watched) -> None:
        w.informer.add_index("color", lambda obj: [obj.get("data", {}).get("color", "")])
        w.transport.put("a", data={"color": "red"})
        await w.start()
        await w.send(
            ("ADDED", w.transport.put("b", data={"color": "red"})),
            ("MODIFIED", w.transport.put("a", data={"color": "blue"})),
        )
        assert w.informer.index_keys("color", "red") == ["default/b"]
        assert w.informer.index_count("color", "blue") == 1
        await w.send(("DELETED", w.transport.put("b", data={"color": "red"})))
        assert w.informer.by_index("color", "red") == []
        assert w.informer.index_values("color") == ["blue"]

    story(body)


def test_index_gives_the_newest_state_of_what_did_not_move() -> None:
    asked: list[str] = []

    def fixed(obj: Plain) -> list[str]:
        asked.append(obj["metadata"]["resourceVersion"])
        return [obj["metadata"]["name"]]

    async def body(w: Watched) -> None:
        w.informer.add_index("color", lambda obj: [obj["data"]["color"]])
        w.informer.add_index("name", fixed, fixed=True)
        w.transport.put("a", data={"color": "red"})
        await w.start()
        newer = w.transport.put("a", data={"color": "red", "size": "2"})
        await w.send(("MODIFIED", newer))
        assert w.informer.by_index("color", "red") == [newer]
        assert w.informer.by_index("name", "a") == [newer]
        assert len(asked) == 1  # never again in the object's life
        await w.send(("DELETED", newer))
        assert w.informer.by_index("name", "a") == []

    story(body)


def test_prepared_models_read_as_others_do() -> None:
    async def body(w: Watched) -> None:
        typed = w.informers.of(Event)  # has required fields: there is no empty one
        await w.informers.prepare()
        assert len(typed) == 0
        w.transport.put("a", data={"k": "v"})
        found = w.informers.of(ConfigMap)
        await w.informers.prepare()
        await w.start()
        config = found.get("default/a")
        assert config is not None
        assert config.data == {"k": "v"}

    story(body)


def test_typed_and_plain_readers_share_one_watch() -> None:
    async def body(w: Watched) -> None:
        typed = w.informers.of(ConfigMap)
        w.transport.put("a", data={"k": "v"})
        await w.start()
        found = typed.get("default/a")
        assert found is not None
        assert found.data == {"k": "v"}
        assert len(w.transport.watch_requests) == 1

    story(body)


def test_faulty_handler_does_not_end_the_cache() -> None:
    async def body(w: Watched) -> None:
        failures = [RuntimeError("boom")]

        def fail_once(obj: Plain) -> None:
            if failures:
                raise failures.pop()

        w.informer.add_handler(fail_once)
        await w.start()
        await w.send(("ADDED", w.transport.put("a")))
        await w.clock.advance(1)
        await w.turn()
        await w.send(("ADDED", w.transport.put("b")))
        assert sorted(w.informer.keys()) == ["default/a", "default/b"]

    story(body)


def test_server_errors_are_tried_again_with_growing_delay() -> None:
    async def body(w: Watched) -> None:
        w.transport.answers = [StatusError.unavailable("down")] * 3
        w.informers.start()
        await w.turn()
        assert len(w.transport.requests) == 1
        await w.clock.advance(0.06)
        assert len(w.transport.requests) == 2
        await w.clock.advance(0.06)
        assert len(w.transport.requests) == 2  # the second wait is twice as long
        await w.clock.advance(5)
        assert w.informer.synced.is_set()

    story(body)


def test_resource_that_is_not_served_counts_as_synced() -> None:
    async def body(w: Watched) -> None:
        w.transport.answers = [StatusError.no_such_path()]
        w.informers.start()
        await asyncio.wait_for(w.informers.wait_synced(), 1)
        assert w.informer.reflector.unsure_for(99) == 0  # nothing of it can be on its way

    story(body)


def test_cache_is_sure_of_what_the_watch_has_passed_and_of_the_rest_after_a_second() -> None:
    async def body(w: Watched) -> None:
        w.transport.put("a")
        await w.start()
        reflector = w.informer.reflector
        assert reflector.unsure_for(1) == 0
        assert reflector.unsure_for(2) == reflector.unsure_for(3) == 1
        await w.send(("ADDED", w.transport.put("b")))
        assert (reflector.unsure_for(2), reflector.unsure_for(3)) == (0, 1)
        await w.clock.advance(0.4)
        assert reflector.unsure_for(3) == pytest.approx(0.6)
        await w.send(None)  # the watch ends; the next one needs its own time to catch up
        assert reflector.unsure_for(3) == 1
        await w.clock.advance(1)
        assert (reflector.unsure_for(3), reflector.unsure_for(4)) == (0, 1)

    story(body)


def test_handler_added_late_hears_of_what_is_there() -> None:
    async def body(w: Watched) -> None:
        w.transport.put("a")
        await w.start()
        seen: list[str] = []
        remove = w.informer.add_handler(lambda obj: seen.append(obj["metadata"]["name"]))
        assert seen == ["a"]
        remove()
        await w.send(("ADDED", w.transport.put("b")))
        assert seen == ["a"]

    story(body)


def test_a_server_that_is_away_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async def body(w: Watched) -> None:
        w.informers.plain(Event)
        away = StatusError.unavailable("cannot reach https://server: refused")
        w.transport.answers = [away] * 20
        w.informers.start()
        for _ in range(60):
            await w.clock.advance(1)
            await w.turn()
        await w.informers.wait_synced()
        w.transport.answers = []

    with caplog.at_level("WARNING"):
        story(body)
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        "cannot reach https://server: refused; trying again until it answers",
        "the API server answers again",
    ]


def test_a_server_that_comes_back_is_not_made_to_wait() -> None:
    async def body(w: Watched) -> None:
        await w.start()
        away = StatusError.unavailable("cannot reach https://server: refused")
        await w.send(*[away] * 12)
        for _ in range(40):
            await w.clock.advance(1)
            await w.turn()
        w.transport.put("new")
        await w.send(StatusError.expired("too old resource version"))
        for _ in range(6):
            await w.clock.advance(1)
            await w.turn()
        assert w.told == [("add", "new")]

    story(body)


def test_events_that_take_long_to_handle_let_others_run_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = count()
    monkeypatch.setattr(reflector.time, "perf_counter", lambda: float(next(seconds)))

    async def body(w: Watched) -> None:
        await w.start()
        known: list[int] = []
        for number in range(50):
            w.transport.watches.put_nowait(("ADDED", w.transport.put(f"n{number}")))
        while not known or known[-1] < 50:
            await asyncio.sleep(0)
            known.append(len(w.informer.keys()))
        assert max(after - before for before, after in pairwise([0, *known])) == 1

    story(body)
