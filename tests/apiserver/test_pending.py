"""Reads while a commit is on its way: they show one moment, and only after it is durable."""

from __future__ import annotations

import asyncio
from pathlib import Path

from drakit.api import registry
from drakit.api.kind import Kind
from tests.apiserver.serving import claim, local_server, run


def test_an_exact_list_does_not_show_what_is_not_committed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with local_server(data=tmp_path) as local:
            first = await local.create(claim("a"))
            version = first["metadata"]["resourceVersion"]
            writing = asyncio.ensure_future(local.create(claim("b")))
            await asyncio.sleep(0)
            assert "default/b" in local.server.store.collection(_claims()).objects
            exact = await local.request("GET", query={"resourceVersion": version, "resourceVersionMatch": "Exact"})
            assert [item["metadata"]["name"] for item in exact.body["items"]] == ["a"]
            listing = (await local.request("GET")).body
            assert writing.done() or int(listing["metadata"]["resourceVersion"]) <= local.server.store.durable
            assert [item["metadata"]["name"] for item in listing["items"]] == ["a", "b"]
            assert local.server.store.durable >= int(listing["metadata"]["resourceVersion"])
            await writing

    run(scenario())


def test_a_read_of_an_uncommitted_object_waits(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with local_server(data=tmp_path) as local:
            writing = asyncio.ensure_future(local.create(claim("a")))
            await asyncio.sleep(0)
            found = (await local.request("GET", name="a")).body
            assert local.server.store.durable >= int(found["metadata"]["resourceVersion"])
            await writing

    run(scenario())


def _claims() -> Kind:

    kind = registry.by_resource("resource.k8s.io", "resourceclaims")
    assert kind is not None
    return kind
