"""What is stored is shared with everyone who reads it: no later write may change it, nor may the caller's body."""

from __future__ import annotations

import asyncio
import copy
import uuid
from typing import Any, Literal

import pytest

from drakit.apiserver import random_names
from drakit.apiserver.auth import ADMIN
from drakit.apiserver.local import LocalTransport
from drakit.apiserver.server import Server, Settings
from drakit.client.transport import Request

Plain = dict[str, Any]
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
DEPLOYMENT: Plain = {
    "metadata": {"name": "d", "labels": {"a": "b"}, "annotations": {"c": "d"}},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i", "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}]},
        },
    },
}


def _write(
    method: Literal["POST", "PUT", "PATCH"], body: Plain, subresource: str = "", content_type: str = "application/json"
) -> Request:
    name = "d" if method != "POST" else ""
    return Request(
        method, "apps", "v1", "deployments", namespace="default", name=name, subresource=subresource, body=body,
        content_type=content_type,
    )  # fmt: skip


@pytest.mark.parametrize(
    "request_",
    [
        _write("PATCH", {"metadata": {"labels": {"x": "y"}}}, content_type=MERGE),
        _write("PATCH", {"spec": {"replicas": 2}}, content_type=STRATEGIC),
        _write("PATCH", {"spec": {"template": {"spec": {"priority": 1}}}}, content_type=MERGE),
        _write("PATCH", {"status": {"replicas": 3}}, "status", MERGE),
        _write("PATCH", {"metadata": {"annotations": {"n": "1"}}}, "status", MERGE),
        _write("PUT", {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "replicas": 4}}),
        _write("PUT", {"metadata": {"name": "d"}, "spec": {"replicas": 5}}, "scale"),
    ],
    ids=lambda request: f"{request.method} {request.subresource} {list(request.body)}",
)
def test_a_write_changes_neither_the_stored_object_nor_the_body(request_: Request) -> None:
    asyncio.run(_stays_as_it_was(request_))


async def _stays_as_it_was(request_: Request) -> None:
    server = Server(Settings(listen=False))
    await server.start()
    try:
        transport = LocalTransport(server, ADMIN, agent="test")
        await transport.request(_write("POST", copy.deepcopy(DEPLOYMENT)))
        collection = next(c for c in server.store.collections() if c.resource == "deployments.apps")
        stored = collection.objects["default/d"]
        before, body = copy.deepcopy(stored.obj), copy.deepcopy(request_.body)
        await transport.request(request_)
        assert collection.objects["default/d"] is not stored
        assert stored.obj == before
        assert request_.body == body
    finally:
        await server.stop()


def test_free_form_parameters_are_the_servers_own() -> None:
    asyncio.run(_own_parameters())


async def _own_parameters() -> None:
    server = Server(Settings(listen=False))
    await server.start()
    try:
        parameters = {"a": {"b": [1]}}
        opaque = {"driver": "d.example.com", "parameters": parameters}
        spec = {"config": [{"opaque": opaque}]}
        transport = LocalTransport(server, ADMIN, agent="test")
        body = {"metadata": {"name": "c"}, "spec": spec}
        answer = await transport.request(Request("POST", "resource.k8s.io", "v1", "deviceclasses", body=body))
        parameters["a"]["b"].append(2)
        assert answer.body["spec"]["config"][0]["opaque"]["parameters"] == {"a": {"b": [1]}}
    finally:
        await server.stop()


def test_random_names() -> None:
    uids = {random_names.uid() for _ in range(200)}
    assert len(uids) == 200
    assert all((found := uuid.UUID(text)).version == 4 and found.variant == uuid.RFC_4122 for text in uids)
    suffixes = [random_names.suffix() for _ in range(2000)]
    assert {len(text) for text in suffixes} == {5}
    assert set("".join(suffixes)) == set("bcdfghjklmnpqrstvwxz2456789")
