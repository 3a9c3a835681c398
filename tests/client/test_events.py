import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from drakit.api.errors import StatusError
from drakit.client import Client, EventRecorder, Plain, Request, Response
from drakit.clock import VirtualClock
from tests.client.fake import FakeTransport

POD: Plain = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "5"},
}


class Log(FakeTransport):
    """Remembers the events that a server would have."""

    def __init__(self) -> None:
        super().__init__()
        self.events: dict[str, Plain] = {}
        self.fail = 0

    async def request(self, request: Request) -> Response:
        self.requests.append(request)
        await asyncio.sleep(0)
        if self.fail:
            self.fail -= 1
            raise StatusError.unavailable("down")
        if request.method == "POST":
            self.events[request.body["metadata"]["name"]] = dict(request.body)
        else:
            self.events[request.name].update(request.body)
        return Response(200, {})


def told(body: Callable[[EventRecorder, Log, VirtualClock], Awaitable[None]], **options: Any) -> list[Plain]:
    async def run() -> list[Plain]:
        log, clock = Log(), VirtualClock()
        recorder = EventRecorder(Client(log), "tester", clock=clock, **options)
        await body(recorder, log, clock)
        await recorder.flush()
        return list(log.events.values())

    return asyncio.run(run())


def test_event_says_who_about_whom() -> None:
    async def body(recorder: EventRecorder, log: Log, clock: VirtualClock) -> None:
        recorder.event(POD, "Normal", "Started", "hello")

    (event,) = told(body)
    assert event["involvedObject"] == {
        "kind": "Pod",
        "namespace": "ns",
        "name": "p",
        "uid": "u",
        "apiVersion": "v1",
        "resourceVersion": "5",
    }
    assert (event["type"], event["reason"], event["message"], event["count"]) == ("Normal", "Started", "hello", 1)
    assert event["source"] == {"component": "tester"}
    assert event["reportingComponent"] == "tester"
    assert event["metadata"]["name"].startswith("p.")


def test_repeats_raise_the_count_of_one_event() -> None:
    async def body(recorder: EventRecorder, log: Log, clock: VirtualClock) -> None:
        for _ in range(3):
            recorder.event(POD, "Warning", "Failed", "again")

    (event,) = told(body)
    assert event["count"] == 3


def test_many_similar_events_become_one() -> None:
    async def body(recorder: EventRecorder, log: Log, clock: VirtualClock) -> None:
        for number in range(20):
            recorder.event(POD, "Normal", "Created", f"pod {number}")

    events = told(body)
    assert len(events) == 10
    combined = [event for event in events if event["message"].startswith("(combined from similar events): ")]
    assert [event["count"] for event in combined] == [11]
    assert combined[0]["reportingComponent"] == ""  # as client-go's aggregator writes it


def test_what_came_before_the_combined_event_goes_on_counting() -> None:
    async def body(recorder: EventRecorder, log: Log, clock: VirtualClock) -> None:
        for number in range(12):
            recorder.event(POD, "Normal", "Created", f"pod {number}")
        recorder.event(POD, "Normal", "Created", "pod 3")

    counts = {event["message"]: event["count"] for event in told(body)}
    assert counts["pod 3"] == 2
    assert counts["(combined from similar events): pod 11"] == 3


def test_one_source_cannot_flood() -> None:
    async def body(recorder: EventRecorder, log: Log, clock: VirtualClock) -> None:
        for number in range(40):
            recorder.event(POD, "Normal", f"Reason{number}", "x")
        assert recorder.dropped == 15
        await clock.advance(301)
        recorder.event(POD, "Normal", "Later", "x")

    assert len(told(body)) == 26


def test_cluster_scoped_objects_have_their_events_in_default() -> None:
    async def body(recorder: EventRecorder, log: Log, clock: VirtualClock) -> None:
        recorder.event({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "u"}}, "Normal", "R", "m")

    (event,) = told(body)
    assert event["metadata"]["namespace"] == "default"


def test_failed_event_is_dropped_and_a_repeat_starts_anew() -> None:
    async def body(recorder: EventRecorder, log: Log, clock: VirtualClock) -> None:
        log.fail = 1
        recorder.event(POD, "Normal", "R", "m")
        await recorder.flush()
        recorder.event(POD, "Normal", "R", "m")

    (event,) = told(body)
    assert event["count"] == 1


def test_events_api_makes_a_series() -> None:
    async def body(recorder: EventRecorder, log: Log, clock: VirtualClock) -> None:
        for text in ("first", "second", "third"):
            recorder.event(POD, "Warning", "FailedScheduling", text, action="Scheduling")

    (event,) = told(body, api="events", instance="tester-1")
    assert event["series"]["count"] == 2
    assert (event["note"], event["action"], event["reportingController"], event["reportingInstance"]) == (
        "first",
        "Scheduling",
        "tester",
        "tester-1",
    )
    assert event["regarding"]["name"] == "p"
