"""Finished Jobs that go after their time."""

from __future__ import annotations

from typing import Any

import pytest
from lightkube.models.batch_v1 import Job

from tests.controllers import objects as make
from tests.controllers.cluster import Cluster

TTL = "ttl-after-finished-controller"
START = "2026-01-01T00:00:00Z"


def ended(kind: str, status: str = "True", **more: Any) -> list[dict[str, Any]]:
    target = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[kind]
    return [{"type": each, "status": status, "reason": "r", "message": "", **more} for each in (target, kind)]


@pytest.mark.parametrize(
    ("conditions", "after"),
    [
        pytest.param(ended("Complete", lastTransitionTime=START), 10, id="complete"),
        pytest.param(ended("Failed", lastTransitionTime=START), 10, id="failed"),
        pytest.param(ended("Complete"), None, id="nobody-said-when"),
        pytest.param(ended("Complete", "False", lastTransitionTime=START), None, id="not-complete"),
        pytest.param(ended("Complete", "False", lastTransitionTime="2025-01-01T00:00:00Z") + ended("Failed", lastTransitionTime=START), 10, id="failed-not-complete"),
    ],
)  # fmt: skip
def test_when_a_finished_job_goes(play, conditions: list[dict[str, Any]], after: int | None) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.job("j", ttlSecondsAfterFinished=10))
        status: dict[str, Any] = {"conditions": conditions, "startTime": START}
        if conditions[1]["type"] == "Complete" and conditions[1]["status"] == "True":
            status["completionTime"] = START
        await cluster.patch(Job, "j", {"status": status}, subresource="status")
        await cluster.settle(9)
        assert not (await cluster.get(Job, "j"))["metadata"].get("deletionTimestamp")
        await cluster.settle(2)
        gone = (await cluster.get(Job, "j"))["metadata"]
        assert bool(gone.get("deletionTimestamp")) == (after is not None)
        if after is not None:
            assert gone["finalizers"] == ["foregroundDeletion"]

    play(story, TTL)


def test_longer_time_is_heeded(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.job("j", ttlSecondsAfterFinished=10))
        status = {"conditions": ended("Failed", lastTransitionTime=START), "startTime": START}
        await cluster.patch(Job, "j", {"status": status}, subresource="status")
        await cluster.settle(5)
        await cluster.patch(Job, "j", {"spec": {"ttlSecondsAfterFinished": 20}})
        await cluster.settle(10)
        assert not (await cluster.get(Job, "j"))["metadata"].get("deletionTimestamp")
        await cluster.settle(6)
        assert (await cluster.get(Job, "j"))["metadata"]["deletionTimestamp"]

    play(story, TTL)
