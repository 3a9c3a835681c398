"""A workload that is changed, or deleted, while its controller looks after it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from lightkube.models.apps_v1 import DaemonSet, ReplicaSet, StatefulSet
from lightkube.models.batch_v1 import Job

from drakit.client import Plain
from drakit.client.transport import Request, Response, Transport, WatchStream
from tests.controllers import objects as make
from tests.controllers.cluster import Cluster
from tests.controllers.kubelet import add_node, run_until_quiet

_TURNS = 50  # of the event loop, until the caches know
_MODELS: dict[str, type[Any]] = {
    "DaemonSet": DaemonSet,
    "Job": Job,
    "ReplicaSet": ReplicaSet,
    "StatefulSet": StatefulSet,
}


class _Meanwhile:
    """A transport: something else happens before the first write to `plural` is answered."""

    def __init__(self, inner: Transport, plural: str, happens: Callable[[], Awaitable[Any]]) -> None:
        self._inner, self._plural, self._pending = inner, plural, [happens]
        self.statuses: list[Plain] = []

    async def request(self, request: Request) -> Response:
        if request.method == "PATCH" and request.subresource == "status":
            self.statuses.append(request.body["status"])
        response = await self._inner.request(request)
        if request.method != "GET" and request.plural == self._plural and self._pending:
            await self._pending.pop()()
            for _ in range(_TURNS):
                await asyncio.sleep(0)
        return response

    def watch(self, request: Request) -> WatchStream:
        return self._inner.watch(request)

    async def close(self) -> None:
        await self._inner.close()


async def _play(kind: str, plural: str, happens: Callable[[Cluster], Awaitable[Any]]) -> tuple[list[Plain], list[str]]:
    """The statuses that were written, and the controller's fields that still know the workload in the end."""
    transports: list[_Meanwhile] = []

    def wrap(inner: Transport) -> Transport:
        transports.append(_Meanwhile(inner, plural, lambda: happens(cluster)))
        return transports[-1]

    async with Cluster([f"{kind.lower()}-controller"], wrap=wrap) as cluster:
        await add_node(cluster, "n")
        body = make.job("w", completions=3) if kind == "Job" else make.workload(kind, "w")
        uid = (await cluster.create(body))["metadata"]["uid"]
        await run_until_quiet(cluster)
        fields = vars(cluster.controllers[0]).items()
        knowing = [field for field, value in fields if isinstance(value, dict) and uid in value]
        return transports[0].statuses, knowing


@pytest.mark.parametrize("kind", ["DaemonSet", "ReplicaSet", "StatefulSet"])
def test_status_says_nothing_of_a_template_that_was_not_looked_at(kind: str) -> None:
    """`kubectl rollout status` would believe that all pods have it."""

    async def change(cluster: Cluster) -> None:
        await cluster.patch(_MODELS[kind], "w", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})

    told, _ = asyncio.run(_play(kind, "pods", change))
    assert [each["observedGeneration"] for each in told if "observedGeneration" in each] == [1, 2]


@pytest.mark.parametrize(("kind", "plural"), [("DaemonSet", "controllerrevisions"), ("Job", "jobs")])
def test_nothing_is_kept_of_a_workload_that_goes_while_it_is_looked_after(kind: str, plural: str) -> None:
    async def end(cluster: Cluster) -> None:
        await cluster.delete(_MODELS[kind], "w", propagation="Background")

    _, knowing = asyncio.run(_play(kind, plural, end))
    assert knowing == []
