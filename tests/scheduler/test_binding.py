"""What becomes of a pod whose writes failed, depending on what the server shows by then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from lightkube.models.core_v1 import Pod
from lightkube.models.resource_v1 import ResourceClaim

from drakit.api.errors import StatusError
from drakit.api.gates import FeatureGates
from drakit.apiserver.auth import AUTHENTICATED, MASTERS, UserInfo
from drakit.apiserver.local import LocalTransport
from drakit.apiserver.server import Server, Settings
from drakit.client import Client, Informers
from drakit.clock import VirtualClock
from drakit.scheduler import Scheduler
from drakit.scheduler.binding import BindError
from drakit.scheduler.decide import Attempt, Placement
from drakit.scheduler.outcome import Diagnosis
from drakit.scheduler.queue import Waiting
from tests.scheduler.builders import claim, info, node, pod, pod_group
from tests.scheduler.test_cluster import GANGS


def scheduler(test: Callable[[Scheduler], Awaitable[None]], gates: FeatureGates | None = None) -> None:
    """One that does not run, with two nodes, next to an empty server."""

    async def main() -> None:
        server = Server(Settings(listen=False))
        await server.start()
        try:
            client = Client(LocalTransport(server, UserInfo("admin", (MASTERS, AUTHENTICATED))))
            made = Scheduler(client, Informers(client), clock=VirtualClock(), gates=gates)
            for name in ("here", "there"):
                made.state.set_node(node(name))
            await test(made)
        finally:
            await server.stop()

    asyncio.run(main())


def shown(made: Scheduler, name: str = "p", node_name: str = "", **more: Any) -> None:
    """The server shows the pod."""
    found = pod(name, **({"nodeName": node_name} if node_name else {}), **more)
    plain = {"metadata": {"name": name, "namespace": "ns", "uid": f"pod-{name}", "resourceVersion": "1"}, "spec": {}}
    made._informers.of(Pod).store(f"ns/{name}", plain)
    made._cycle.tracker._pod_set(None, found)


def assumed(made: Scheduler, placement: Placement) -> Waiting:
    waiting = made.queue.pop()
    assert waiting is not None
    made._cycle.assume(waiting.info, placement)
    return waiting


def test_a_pod_that_another_scheduler_bound_stays_where_the_server_shows_it() -> None:
    """The watch may be faster than the answer that our own binding came too late."""

    async def test(made: Scheduler) -> None:
        shown(made)
        waiting = assumed(made, Placement("here"))
        shown(made, node_name="there")
        made._cycle.undo(waiting, Placement("here"), "there", "conflict")
        assert made.state.nodes.placed["pod-p"].name == "there"

    scheduler(test)


@pytest.mark.parametrize("group", [False, True], ids=["pod", "gang"])
def test_a_pod_that_has_its_node_after_all_keeps_its_claims_and_waits_for_none(
    group: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: Any) -> None:
        raise BindError("lost")

    async def lands(*_: Any) -> str:
        return "here"

    async def test(made: Scheduler) -> None:
        deleted = []

        async def delete(*named: str) -> None:
            deleted.append(named)

        monkeypatch.setattr(made._cycle.binder, "prebind", fails)
        monkeypatch.setattr(made._cycle.binder, "landed_on", lands)
        monkeypatch.setattr(made._cycle.binder.writer, "delete", delete)
        held = claim("c", status={"allocation": {"devices": {}}})
        made.state.claims.set(held)
        shown(made, claims={"c": "c"})
        waiting = assumed(made, placement := Placement("here", [held]))
        made._cycle.binder._extended["pod-p"] = ("ns/extended", "uid")
        assert made.state.claims.pending
        await (
            made._gangs._bind([(False, "ns/g")], [(waiting, placement)])
            if group
            else made._cycle.bind(waiting, placement)
        )
        assert not made.state.claims.pending
        assert not made._cycle.binder._extended
        assert not deleted
        assert not made._cycle.tracker.binding
        assert made.state.nodes.placed["pod-p"].name == "here"

    scheduler(test)


def test_a_pod_that_came_and_went_while_its_binding_failed_takes_no_room() -> None:
    async def test(made: Scheduler) -> None:
        shown(made)
        waiting = assumed(made, Placement("here"))
        shown(made, node_name="here")
        made._informers.of(Pod).store("ns/p", None)
        made._cycle.tracker._pod_gone(pod("p", nodeName="here"))
        made._cycle.undo(waiting, Placement("here"), None, "lost")
        assert not made.state.nodes.placed

    scheduler(test)


def test_what_was_promised_to_a_gang_is_news_for_those_that_it_kept_out() -> None:
    async def test(made: Scheduler) -> None:
        made.state.groups["ns/g"] = pod_group("g", schedulingPolicy={"gang": {"minCount": 1}})
        shown(made, "kept-out")
        out = made.queue.pop()
        assert out is not None
        made.queue.unschedulable(out, frozenset(("NodePorts",)), made.clock.monotonic())
        shown(made, "member", schedulingGroup={"podGroupName": "g"})
        member = made.queue.pop()
        assert member is not None
        made.state.nominate(member.info, "here")
        made._attempt(member)
        assert not made.state.nominated
        assert out.state != "unschedulable"

    scheduler(test, GANGS)


def test_a_claim_that_cannot_be_given_back_keeps_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(made: Scheduler) -> None:
        freed = []

        async def lands(*_: Any, sure: bool) -> str:
            return ""

        async def deallocate(given: ResourceClaim) -> None:
            if given is first:
                raise StatusError.conflict("resource.k8s.io", "resourceclaims", "a", "changed")
            freed.append(given)

        monkeypatch.setattr(made._cycle.binder, "landed_on", lands)
        monkeypatch.setattr(made._cycle.binder.writer, "deallocate", deallocate)
        first, second = claim("a"), claim("b")
        await made._gangs._give_back((False, "ns/g"), [info("p")], [first, second], [])
        assert freed == [second]

    scheduler(test)


def test_the_search_for_a_gangs_victims_ends_with_the_first_pod_that_it_cannot_do_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def nobody(attempt: Attempt, _: Diagnosis) -> tuple[None, str]:
        asked.append(attempt.info.name)
        return None, ""

    monkeypatch.setattr("drakit.scheduler.group_preemption.preempt", nobody)

    async def test(made: Scheduler) -> None:
        made.state.groups["ns/g"] = pod_group("g", schedulingPolicy={"gang": {"minCount": 2}})
        for name in ("here", "there"):
            made.state.place(info(f"low-{name}", priority=-1, requests={"cpu": "3"}), name)
        for number in range(2):
            shown(made, f"p{number}", requests={"cpu": "3"}, schedulingGroup={"podGroupName": "g"})
        waiting = made.queue.pop()
        assert waiting is not None
        made._attempt(waiting)
        assert asked == ["p0", "p0"]  # in all of its domain, then on the node that it would have

    scheduler(test, GANGS)


@pytest.mark.parametrize(("seconds", "decided"), [(0.0, 8), (0.003, 2), (0.1, 1)])
def test_decisions_that_take_long_leave_the_event_loop_to_others_sooner(
    seconds: float, decided: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(made: Scheduler) -> None:
        attempts: list[str] = []
        for number in range(20):
            made.queue.add(info(f"p{number}"), 0.0)
        monkeypatch.setattr(made, "_attempt", lambda waiting: attempts.append(waiting.info.name))
        monkeypatch.setattr(made.clock, "monotonic", lambda: len(attempts) * seconds)
        loop = asyncio.create_task(made._loop())
        await asyncio.sleep(0)
        assert len(attempts) == decided
        loop.cancel()

    scheduler(test)
