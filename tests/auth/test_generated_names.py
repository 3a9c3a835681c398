"""A name is generated after mutating admission, as in Kubernetes: so its refusals are alike, and events about them are one."""

from __future__ import annotations

import asyncio
import re

import pytest

from drakit.api.errors import StatusError
from tests.controllers import objects as make
from tests.controllers.cluster import Cluster


async def _refusal(cluster: Cluster, **spec: str) -> str:
    body = make.pod("web-", **spec)
    body["metadata"]["generateName"] = body["metadata"].pop("name")
    with pytest.raises(StatusError) as caught:
        await cluster.create(body)
    return caught.value.message


def test_mutating_admission_names_the_prefix_and_what_comes_later_the_generated_name() -> None:
    async def story() -> None:
        async with Cluster(["resourcequota-controller"]) as cluster:
            missing = 'pods "web-" is forbidden: error looking up service account default/missing'
            assert (await _refusal(cluster, serviceAccountName="missing")).startswith(missing)
            quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}}
            await cluster.create({"apiVersion": "v1", "kind": "ResourceQuota", **quota})
            await cluster.settle()
            assert re.match(r'pods "web-[a-z0-9]{5}" is forbidden: exceeded quota', await _refusal(cluster))

    asyncio.run(story())
