"""ControllerRevisions: their data may never change, and a real API server compares its text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from lightkube.models.apps_v1 import ControllerRevision
from lightkube.models.core_v1 import Pod

from tests.controllers import objects as make
from tests.controllers.cluster import Cluster
from tests.controllers.kubelet import run_until_quiet


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
def test_a_revisions_data_is_written_as_an_api_server_writes_it_again(play: Any, kind: str) -> None:
    """Or no strategic merge patch of it is accepted there: not the garbage collector's either, which lets go of orphans."""

    async def story(cluster: Cluster) -> None:
        container = {"name": "c", "image": "i", "command": ["sh", "-c", "test 1 -lt 2 && echo <ok>"]}
        body = make.workload(kind, "w")
        body["spec"]["template"]["spec"] = {"terminationGracePeriodSeconds": 1, "containers": [container]}
        await cluster.create(body)
        await cluster.settle(1)
        (revision,) = await cluster.list(ControllerRevision)
        sent = json.dumps(revision["data"], separators=(",", ":"))
        assert sent == json.dumps(revision["data"], separators=(",", ":"), sort_keys=True)

    play(story, f"{kind.lower()}-controller")


@pytest.mark.parametrize(
    ("gates", "kept"),
    [
        pytest.param("", 1, id="by-default"),
        pytest.param("StatefulSetSemanticRevisionComparison=false", 2, id="without-the-gate"),
    ],
)
def test_a_template_that_an_older_server_wrote_differently_restarts_no_pod(play: Any, gates: str, kept: int) -> None:
    """With `creationTimestamp: null`, and without a default that came later."""

    async def story(cluster: Cluster) -> None:
        pods = await _rewritten(cluster, creationTimestamp=None)
        assert len(await cluster.list(ControllerRevision)) == kept
        assert ([pod["metadata"]["uid"] for pod in await cluster.list(Pod)] == pods) == (kept == 1)

    play(story, "statefulset-controller", gates=gates)


def test_a_template_that_differs_in_a_field_we_do_not_know_is_another(play: Any) -> None:
    async def story(cluster: Cluster) -> None:
        await _rewritten(cluster, fieldOfNextYear="x")
        assert len(await cluster.list(ControllerRevision)) == 2

    play(story, "statefulset-controller")


async def _rewritten(cluster: Cluster, **fields: object) -> list[str]:
    """A set whose revision was written by another server; the UIDs of its pods before the controller saw that."""
    await cluster.create(make.workload("StatefulSet", "w", replicas=1))
    await run_until_quiet(cluster)
    pods = [pod["metadata"]["uid"] for pod in await cluster.list(Pod)]
    (revision,) = await cluster.list(ControllerRevision)
    await cluster.kill()
    await cluster.delete(ControllerRevision, revision["metadata"]["name"])
    template = revision["data"]["spec"]["template"]
    del template["spec"]["schedulerName"]
    template["metadata"].update(fields)
    del revision["metadata"]["resourceVersion"], revision["metadata"]["uid"]
    await cluster.create(revision)
    await cluster.start()
    await run_until_quiet(cluster)
    return pods
