"""ControllerRevisions: their data may never change, and a real API server compares its text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from lightkube.models.apps_v1 import ControllerRevision

from tests.controllers import objects as make
from tests.controllers.cluster import Cluster


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
