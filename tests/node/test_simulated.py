"""Simulated nodes at work in a whole cluster, on virtual time: heartbeats, nodes that are cut off, what pods tell of themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from lightkube.models.coordination_v1 import Lease
from lightkube.models.core_v1 import Node, Pod

from drakit.api.errors import StatusError
from drakit.cli.cluster import Cluster, Options
from drakit.client import Client
from drakit.clock import VirtualClock

pytestmark = pytest.mark.slow

SILENT = "simulated.drakit.dev/silent"


class World:
    def __init__(self, cluster: Cluster, clock: VirtualClock) -> None:
        self.client: Client = cluster.admin
        self._clock = clock

    async def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds / 0.5)):
            await self._clock.advance(0.5)
            for _ in range(20):
                await asyncio.sleep(0)

    async def pod(
        self,
        name: str,
        *,
        restart: str = "Never",
        finalizers: tuple[str, ...] | list[str] = (),
        claim: str = "",
        **annotations: str,
    ) -> None:
        spec: dict[str, Any] = {
            "nodeName": "node-0", "restartPolicy": restart, "containers": [{"name": "c", "image": "i"}],
            "tolerations": [{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute",
                             "tolerationSeconds": 60}],
        }  # fmt: skip
        if claim:
            spec["resourceClaims"] = [{"name": "claim", "resourceClaimName": claim}]
        prefix = "simulated.drakit.dev/"
        meta = {
            "name": name,
            "namespace": "default",
            "finalizers": list(finalizers),
            "annotations": {prefix + key: value for key, value in annotations.items()},
        }
        await self.client.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    async def phase(self, name: str) -> str:
        """With `*` while it is being deleted."""
        try:
            pod = await self.client.get(Pod, name, namespace="default")
        except StatusError:
            return "gone"
        leaving = pod.metadata is not None and pod.metadata.deletionTimestamp is not None
        return ((pod.status.phase if pod.status else None) or "") + ("*" if leaving else "")

    async def condition(self, name: str, kind: str = "Ready") -> tuple[str, str]:
        """Its status and reason."""
        pod = await self.client.get(Pod, name, namespace="default")
        conditions = (pod.status.conditions if pod.status else None) or ()
        return next((each.status, each.reason or "") for each in conditions if each.type == kind)

    async def ready(self, name: str = "node-0") -> str:
        node = await self.client.get(Node, name)
        conditions = (node.status.conditions if node.status else None) or ()
        return next(condition.status for condition in conditions if condition.type == "Ready")

    async def taints(self, name: str = "node-0") -> set[str]:
        node = await self.client.get(Node, name)
        return {taint.key for taint in (node.spec.taints if node.spec else None) or ()}

    async def silence(self, value: str | None) -> None:
        await self.client.patch(Node, "node-0", {"metadata": {"annotations": {SILENT: value}}})


def world(body: Callable[[World], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        clock = VirtualClock()
        cluster = Cluster(Options(listen=False, nodes=2, **options), clock=clock)
        starting = asyncio.ensure_future(cluster.start())
        while not starting.done():
            await clock.advance(0.1)
        await starting
        try:
            made = World(cluster, clock)
            await made.pass_time(2)
            await body(made)
        finally:
            await cluster.stop()

    asyncio.run(run())


def test_a_silent_node_is_taken_for_dead_and_comes_back() -> None:
    async def body(world: World) -> None:
        await world.pod("long", seconds="30")
        await world.pod("stays", seconds="10000")
        await world.pass_time(5)
        assert (await world.phase("long"), await world.ready()) == ("Running", "True")
        await world.silence("true")
        await world.pod("late")
        await world.pass_time(75)
        assert (await world.ready(), await world.ready("node-1")) == ("Unknown", "True")
        assert "node.kubernetes.io/unreachable" in await world.taints()
        assert await world.phase("long") == "Running"  # its end is not heard
        assert await world.phase("late") == "Pending"
        await world.pass_time(70)
        assert await world.phase("stays") == "Running*"  # evicted, but nobody there to end it
        await world.silence(None)
        await world.pass_time(20)
        assert await world.ready() == "True"
        assert await world.taints() == set()
        assert await world.phase("stays") == "gone"
        await world.pod("again")
        await world.pass_time(10)
        assert await world.phase("again") == "Succeeded"

    world(body)


def test_pods_of_a_node_that_comes_back_are_ready_again() -> None:
    async def body(world: World) -> None:
        await world.pod("p", restart="Always")
        await world.pass_time(5)
        assert await world.condition("p") == ("True", "")
        await world.silence("true")
        await world.pass_time(60)
        assert await world.condition("p") == ("False", "")
        assert await world.condition("p", "ContainersReady") == ("True", "")
        await world.silence(None)
        await world.pass_time(5)
        assert await world.condition("p") == ("True", "")

    world(body)


def test_pod_that_runs_again_says_no_more_why_it_did_not() -> None:
    async def body(world: World) -> None:
        await world.pod("p", restart="Always", seconds="3", **{"exit-code": "1"})
        await world.pass_time(8)
        assert await world.condition("p") == ("False", "ContainersNotReady")
        await world.pass_time(10)
        assert await world.condition("p") == ("True", "")

    world(body)


def test_time_goes_on_for_the_pods_of_a_silent_node() -> None:
    async def body(world: World) -> None:
        await world.pod("p", seconds="20")
        await world.pass_time(5)
        await world.silence("true")
        await world.pass_time(20)
        assert await world.phase("p") == "Running"
        await world.silence(None)
        await world.pass_time(3)
        assert await world.phase("p") == "Succeeded"

    world(body)


def test_a_node_that_was_taken_for_dead_by_mistake_says_so_itself() -> None:
    async def body(world: World) -> None:
        unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
        patch = {"status": {"conditions": [unknown]}}
        await world.client.patch(Node, "node-0", patch, kind="strategic", subresource="status")
        await world.pass_time(15)
        assert await world.ready() == "True"

    world(body)


def test_the_lease_of_a_node_goes_with_it() -> None:
    async def body(world: World) -> None:
        await world.client.delete(Node, "node-1")
        await world.pass_time(40)
        leases = await world.client.list(Lease, namespace="kube-node-lease")
        assert [lease.metadata.name for lease in leases.items if lease.metadata] == ["node-0"]

    world(body)


def test_a_container_that_ended_tells_when_it_began() -> None:
    async def body(world: World) -> None:
        await world.pod("p", seconds="7")
        await world.pass_time(12)
        pod = await world.client.get(Pod, "p", namespace="default")
        assert pod.status is not None
        assert pod.status.containerStatuses
        state = pod.status.containerStatuses[0].state
        assert state is not None
        assert state.terminated is not None
        began: Any = state.terminated.startedAt
        ended: Any = state.terminated.finishedAt
        assert 6 <= (ended - began).total_seconds() <= 9

    world(body)


def test_a_container_that_fails_is_started_again_with_growing_pauses() -> None:
    async def body(world: World) -> None:
        await world.pod("p", restart="OnFailure", seconds="1", **{"exit-code": "3"})
        seen = []
        for _ in range(100):
            await world.pass_time(0.5)
            pod = await world.client.get(Pod, "p", namespace="default")
            assert pod.status is not None
            assert pod.status.phase == "Running" or not seen
            for told in pod.status.containerStatuses or ():
                assert told.state is not None
                what = told.state.waiting.reason if told.state.waiting else "running"
                if not seen or seen[-1] != (told.restartCount, what):
                    seen.append((told.restartCount, what))
        again = "CrashLoopBackOff"
        assert seen == [
            (0, "running"),
            (1, "running"),
            (1, again),
            (2, "running"),
            (2, again),
            (3, "running"),
            (3, again),
        ]
        assert told.state is not None
        assert told.state.waiting is not None
        assert (told.state.waiting.message or "").startswith(
            "back-off 40s restarting failed container=c pod=p_default("
        )
        assert told.lastState is not None
        assert told.lastState.terminated is not None
        assert told.lastState.terminated.exitCode == 3

    world(body)


def test_who_keeps_a_deleted_pod_learns_how_it_ended() -> None:
    async def body(world: World) -> None:
        await world.pod("p", seconds="1000", finalizers=["example.com/wait"])
        await world.pod("waits", seconds="1000", finalizers=["example.com/wait"], claim="nowhere")
        await world.pass_time(5)
        assert (await world.phase("p"), await world.phase("waits")) == ("Running", "Pending")
        for name in ("p", "waits"):
            await world.client.delete(Pod, name, namespace="default")
        await world.pass_time(5)
        assert (await world.phase("p"), await world.phase("waits")) == ("Failed*", "Failed*")
        pod = await world.client.get(Pod, "p", namespace="default")
        assert pod.status is not None
        assert pod.status.containerStatuses
        state = pod.status.containerStatuses[0].state
        assert state is not None
        assert state.terminated is not None
        assert state.terminated.exitCode == 143
        assert {c.type: (c.status, c.reason) for c in pod.status.conditions or ()} == {
            "PodReadyToStartContainers": ("False", None),
            "Initialized": ("True", None),
            "Ready": ("False", "PodFailed"),
            "ContainersReady": ("False", "PodFailed"),
            "PodScheduled": ("True", None),
        }

    world(body)


def test_a_status_that_could_not_be_written_is_written_later() -> None:
    async def body(world: World) -> None:
        patch_plain, refused = Client.patch_plain, []

        async def unreliable(self: Client, resource: Any, name: str, patch: Any, **more: Any) -> Any:
            if more.get("subresource") == "status" and name == "p" and len(refused) < 2:
                refused.append(name)
                raise StatusError.unavailable("not now")
            return await patch_plain(self, resource, name, patch, **more)

        with pytest.MonkeyPatch.context() as patching:
            patching.setattr(Client, "patch_plain", unreliable)
            await world.pod("p", seconds="3")
            await world.pass_time(15)
            assert len(refused) == 2
            assert await world.phase("p") == "Succeeded"

    world(body)


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "soon"])
def test_seconds_that_are_no_number_stop_nobody(text: str) -> None:
    async def body(world: World) -> None:
        await world.pod("odd", seconds=text)
        await world.pod("p", seconds="1")
        await world.pass_time(10)
        assert (await world.phase("odd"), await world.phase("p")) == ("Succeeded", "Succeeded")

    world(body)
