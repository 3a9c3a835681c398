import asyncio
import gc
import itertools
import logging
import weakref

import pytest
from lightkube.models.apps_v1 import Deployment, ReplicaSet
from lightkube.models.core_v1 import Namespace

from drakit.api.errors import StatusError
from drakit.apiserver.auth import ADMIN
from drakit.apiserver.local import LocalTransport
from drakit.apiserver.server import Server, Settings
from drakit.client import Client, Informers, Resource
from drakit.clock import VirtualClock
from drakit.controllers.loop import Context, ControlLoop
from drakit.controllers.runner import NAMES, build, run
from tests.controllers import objects as make
from tests.controllers.cluster import Cluster

_PODS = Resource("", "v1", "pods", "Pod", True)


def test_names_are_unique_and_unknown_ones_are_refused() -> None:
    assert len(set(NAMES)) == len(NAMES)

    async def body() -> None:
        server = Server(Settings(listen=False))
        await server.start()
        client = Client(LocalTransport(server, ADMIN))
        with pytest.raises(ValueError, match="no such controller: nonsense; there is: resourceclaim-controller"):
            build(Context(client, Informers(client)), ["nonsense"])
        await server.stop()

    asyncio.run(body())


def test_all_controllers_run_together_and_stop_cleanly() -> None:
    async def body() -> None:
        server = Server(Settings(listen=False))
        await server.start()
        client = Client(LocalTransport(server, ADMIN))
        task = asyncio.ensure_future(run(client))
        await client.create(make.job("j") | {"metadata": {"name": "j", "namespace": "default"}})
        for _ in range(200):
            await asyncio.sleep(0.005)
            if (await client.list_plain(_PODS)).items:
                break
        assert (await client.list_plain(_PODS)).items
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert [
            other
            for other in asyncio.all_tasks()
            if other is not asyncio.current_task() and "informer" in other.get_name()
        ] == []
        await server.stop()

    asyncio.run(body())


def test_nothing_is_kept_of_controllers_that_were_stopped() -> None:
    async def body() -> weakref.ref[Server]:
        server = Server(Settings(listen=False))
        await server.start()
        task = asyncio.ensure_future(run(Client(LocalTransport(server, ADMIN))))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await server.stop()
        return weakref.ref(server)

    server = asyncio.run(body())
    gc.collect()
    assert server() is None


def test_failing_reconcile_is_tried_again_with_growing_delay() -> None:
    async def body() -> list[float]:
        clock = VirtualClock()
        times: list[float] = []

        async def reconcile(key: str) -> None:
            times.append(clock.monotonic())
            if len(times) < 5:
                raise RuntimeError("not yet")

        client = Client(None)  # type: ignore[arg-type]  # the loop does not use it
        loop = ControlLoop("test", reconcile, Context(client, Informers(client, clock), clock), workers=2)
        task = asyncio.ensure_future(loop.run())
        loop.add("a")
        for _ in range(60):
            for _ in range(5):
                await asyncio.sleep(0)
            await clock.advance(0.0025)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return times

    times = asyncio.run(body())
    assert times == pytest.approx([0.0, 0.005, 0.015, 0.035, 0.075], abs=0.004)


def test_workers_of_one_controller_share_a_turn_of_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, others get the loop after some milliseconds of work."""
    spent = [0.0]
    monkeypatch.setattr("drakit.controllers.loop.time.perf_counter", lambda: spent[0])

    async def body() -> list[int]:
        handled, turns = [0], []

        async def reconcile(key: str) -> None:
            handled[0] += 1
            spent[0] += 0.001

        client = Client(None)  # type: ignore[arg-type]  # the loop does not use it
        clock = VirtualClock()
        loop = ControlLoop("test", reconcile, Context(client, Informers(client, clock), clock), workers=20)
        task = asyncio.ensure_future(loop.run())
        await asyncio.sleep(0)
        for number in range(2000):
            loop.add(str(number))
        while not loop.idle:
            before = handled[0]
            await asyncio.sleep(0)
            turns.append(handled[0] - before)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert handled == [2000]
        return turns

    assert max(asyncio.run(body())) <= 5 + 20


def test_what_stays_refused_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "drakit.controllers.loop")

    async def body() -> None:
        clock = VirtualClock()
        left = [3]

        async def reconcile(key: str) -> None:
            left[0] -= 1
            if left[0] >= 0:
                raise StatusError.forbidden("", "pods", "p", "exceeded quota")

        client = Client(None)  # type: ignore[arg-type]  # the loop does not use it
        loop = ControlLoop("test", reconcile, Context(client, Informers(client, clock), clock))
        task = asyncio.ensure_future(loop.run())
        for _ in range(2):  # the second time after a success
            left[0] = 3
            loop.add("a")
            for _ in range(10):
                for _ in range(5):
                    await asyncio.sleep(0)
                await clock.advance(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(body())
    levels = [record.levelname for record in caplog.records if "exceeded quota" in record.message]
    assert levels == ["WARNING"] * 2


def test_a_far_moment_is_looked_at_again_in_between() -> None:
    """So that nothing is kept for 68 years of a Job that is gone, and a wall clock that was set is noticed."""

    async def body() -> list[float]:
        clock, times = VirtualClock(), []

        async def reconcile(key: str) -> float | None:
            times.append(clock.monotonic())
            return 2.0**31 if len(times) < 4 else None

        client = Client(None)  # type: ignore[arg-type]  # the loop does not use it
        loop = ControlLoop("test", reconcile, Context(client, Informers(client, clock), clock))
        task = asyncio.ensure_future(loop.run())
        loop.add_after("a", 2.0**31)
        for _ in range(400):
            await clock.advance(10)
        assert not loop.queue._delayed
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return [after - before for before, after in itertools.pairwise(times)]

    assert asyncio.run(body()) == pytest.approx([600, 600, 600], abs=10)


def test_a_namespace_that_goes_is_no_news_for_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "drakit.controllers.loop")

    async def body() -> None:
        async with Cluster(["deployment-controller"]) as cluster:
            await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "going"}})
            kept = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept", "namespace": "going"}}
            await cluster.create({**kept, "metadata": {**kept["metadata"], "finalizers": ["example.com/kept"]}})
            body = make.workload("Deployment", "d", replicas=0)
            await cluster.create({**body, "metadata": {"name": "d", "namespace": "going"}})
            await cluster.settle()
            await cluster.delete(Namespace, "going")
            template = {"metadata": {"annotations": {"new": "one"}}}
            await cluster.patch(Deployment, "d", {"spec": {"template": template}}, namespace="going")
            await cluster.settle(1)
            assert len(await cluster.list(ReplicaSet)) == 1

    logging.getLogger("drakit").setLevel(logging.WARNING)
    asyncio.run(body())
    assert [record.getMessage() for record in caplog.records] == []
