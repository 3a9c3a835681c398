"""The HTTP transport against the embedded server: real sockets, TLS and all; and against a server that misbehaves."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from lightkube.models.core_v1 import ConfigMap

from drakit.api.errors import StatusError
from drakit.api.gates import FeatureGates
from drakit.apiserver.server import Server, Settings
from drakit.client import Client, Informers, Request
from drakit.client.http import HttpTransport
from drakit.client.kubeconfig import Access, load
from drakit.controllers.served import Served

pytestmark = pytest.mark.slow


def on_server(tmp_path: Path, body: Callable[[Client], Awaitable[None]]) -> None:
    async def run() -> None:
        server = Server(Settings())
        await server.start()
        (tmp_path / "config").write_text(yaml.safe_dump(server.kubeconfig()))
        client = Client(HttpTransport(load(tmp_path / "config")))
        try:
            await body(client)
        finally:
            await client.close()
            await server.stop()

    asyncio.run(run())


def config_map(name: str, **data: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}


def test_verbs_over_tls(tmp_path: Path) -> None:
    async def body(client: Client) -> None:
        created = await client.create(config_map("a", k="1"))
        assert isinstance(created, ConfigMap)
        patched = await client.patch(ConfigMap, "a", {"data": {"k": "2"}}, namespace="default")
        assert patched.data == {"k": "2"}
        listing = await client.list(ConfigMap, namespace="default")
        assert "a" in {item.metadata.name for item in listing.items if item.metadata}
        await client.delete(ConfigMap, "a", namespace="default")
        with pytest.raises(StatusError) as caught:
            await client.get(ConfigMap, "a", namespace="default")
        assert (caught.value.code, caught.value.reason) == (404, "NotFound")

    on_server(tmp_path, body)


def test_informer_follows_over_tls(tmp_path: Path) -> None:
    async def body(client: Client) -> None:
        informers = Informers(client)
        informer = informers.of(ConfigMap)
        arrived = asyncio.Event()
        informer.add_handler(lambda obj: arrived.set() if obj.metadata and obj.metadata.name == "a" else None)
        informers.start()
        await informers.wait_synced()
        await client.create(config_map("a", text="x" * 300_000))  # larger than any line limit
        await asyncio.wait_for(arrived.wait(), 5)
        await informers.stop()

    on_server(tmp_path, body)


def test_discovery_finds_what_can_be_listed_watched_and_deleted(tmp_path: Path) -> None:
    async def body(client: Client) -> None:
        transport = client.transport
        assert isinstance(transport, HttpTransport)
        resources, stale = await transport.discover()
        assert stale == []
        found = {(each.group, each.plural): each for each in reversed(resources)}
        assert found["", "pods"].namespaced
        assert found["resource.k8s.io", "resourceclaims"].version == "v1"
        assert not found["resource.k8s.io", "resourceslices"].namespaced
        assert ("authorization.k8s.io", "subjectaccessreviews") not in found
        assert not any("/" in plural for _, plural in found)

    on_server(tmp_path, body)


def test_unreachable_server_is_a_status_error() -> None:
    async def run() -> None:
        client = Client(HttpTransport(Access("http://127.0.0.1:1")))
        with pytest.raises(StatusError, match="cannot reach") as caught:
            await client.get(ConfigMap, "a", namespace="default")
        assert caught.value.code == 503
        await client.close()

    asyncio.run(run())


def against(
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]], body: Callable[[str], Awaitable[None]]
) -> None:
    async def run() -> None:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", handler)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            await body(f"http://127.0.0.1:{runner.addresses[0][1]}")
        finally:
            await runner.cleanup()

    asyncio.run(run())


def test_discovery_gives_every_version_and_says_what_cannot_be_asked() -> None:
    def version(name: str, kind: str, freshness: str = "Current") -> dict[str, object]:
        resource = {
            "resource": "widgets",
            "responseKind": {"kind": kind},
            "scope": "Namespaced",
            "verbs": ["list", "watch", "delete"],
        }
        return {"version": name, "freshness": freshness, "resources": [resource]}

    async def handler(request: web.Request) -> web.Response:
        if request.path == "/api":
            return web.json_response({"items": []})
        groups = {
            "example.com": [version("v1", "Widget"), version("v1beta1", "Widget")],
            "away.example.com": [{"version": "v1", "freshness": "Stale"}],
        }
        return web.json_response({"items": [{"metadata": {"name": n}, "versions": v} for n, v in groups.items()]})

    async def body(url: str) -> None:
        client = Client(HttpTransport(Access(url)))
        assert isinstance(client.transport, HttpTransport)
        resources, stale = await client.transport.discover()
        assert [each.api_version for each in resources] == ["example.com/v1", "example.com/v1beta1"]
        assert stale == ["away.example.com/v1"]
        served = Served(client, FeatureGates.default())
        assert await served.all() == {resources[0]}
        assert served.resource_of("example.com/v1beta1", "Widget") == resources[0]
        assert served.resource_of("example.com/v2", "Widget") is None
        await client.close()

    against(handler, body)


def test_text_answers_become_status_errors() -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(status=429, text="slow down", headers={"Retry-After": "7"})

    async def body(url: str) -> None:
        client = Client(HttpTransport(Access(url)))
        with pytest.raises(StatusError, match="slow down") as caught:
            await client.get(ConfigMap, "a", namespace="default")
        assert (caught.value.reason, caught.value.retry_after_seconds) == ("TooManyRequests", 7)
        await client.close()

    against(handler, body)


def test_text_is_sent_as_go_writes_it() -> None:
    """A real API server compares free-form fields (the data of a ControllerRevision) with what it writes itself."""
    bodies: list[bytes] = []

    async def handler(request: web.Request) -> web.Response:
        bodies.append(await request.read())
        return web.json_response(config_map("a"))

    async def body(url: str) -> None:
        client = Client(HttpTransport(Access(url)))
        await client.patch(ConfigMap, "a", {"data": {"k": "a<b && c>d \u2028é"}}, namespace="default")
        await client.close()

    against(handler, body)
    assert bodies == ['{"data":{"k":"a\\u003cb \\u0026\\u0026 c\\u003ed \\u2028é"}}'.encode()]


def test_refused_token_is_read_anew_once(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")

    async def handler(request: web.Request) -> web.Response:
        if request.headers["Authorization"] == "Bearer old":
            token.write_text("new")
            return web.json_response({"kind": "Status", "code": 401, "reason": "Unauthorized"}, status=401)
        return web.json_response(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": request.headers["Authorization"]}}
        )

    async def body(url: str) -> None:
        client = Client(HttpTransport(Access(url, token_file=token)))
        found = await client.get(ConfigMap, "a", namespace="default")
        assert found.metadata is not None
        assert found.metadata.name == "Bearer new"
        await client.close()

    against(handler, body)


def test_headers_carry_identity(tmp_path: Path) -> None:
    seen: list[web.Request] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request)
        return web.json_response(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}},
            headers={"Warning": '299 - "old \\"v1\\""'},
        )

    async def body(url: str) -> None:
        access = Access(url, username="me", password="pw", impersonate="you", impersonate_groups=("g1", "g2"))
        transport = HttpTransport(access, user_agent="tester")
        response = await transport.request(Request("GET", "", "v1", "configmaps", "default", "a"))
        assert response.warnings == ('old "v1"',)
        await transport.close()

    against(handler, body)
    headers = seen[0].headers
    assert headers["Authorization"] == "Basic " + base64.b64encode(b"me:pw").decode()
    assert headers["Impersonate-User"] == "you"
    assert headers.getall("Impersonate-Group") == ["g1", "g2"]
    assert headers["User-Agent"] == "tester"


def test_error_event_ends_a_watch() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        assert 300 <= int(request.query["timeoutSeconds"]) <= 600
        response = web.StreamResponse()
        response.content_type = "application/json"
        await response.prepare(request)
        await response.write(b'{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"1"}}}\n{"type":"ERR')
        await response.write(b'OR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}\n')
        return response

    async def body(url: str) -> None:
        client = Client(HttpTransport(Access(url)))
        seen = []

        async def follow() -> None:
            async for event in client.watch(ConfigMap, resource_version="1"):
                seen.append(event.type)

        with pytest.raises(StatusError, match="too old") as caught:
            await follow()
        assert seen == ["ADDED"]
        assert caught.value.code == 410
        await client.close()

    against(handler, body)
