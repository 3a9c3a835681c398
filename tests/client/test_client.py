import asyncio

import pytest
from lightkube.models.core_v1 import ConfigMap, Pod
from lightkube.models.meta_v1 import ObjectMeta

from drakit.api.errors import StatusError
from drakit.client import Client, Request, retry_on_conflict
from drakit.client import transport as wire
from tests.client.fake import FakeTransport


@pytest.fixture
def transport() -> FakeTransport:
    return FakeTransport()


def call(coroutine):
    return asyncio.run(coroutine)


def test_get_is_typed(transport: FakeTransport) -> None:
    transport.answers = [transport.put("a", data={"k": "v"})]
    found = call(Client(transport).get(ConfigMap, "a", namespace="default"))
    assert isinstance(found, ConfigMap)
    assert found.data == {"k": "v"}
    assert transport.requests[0].url == "/api/v1/namespaces/default/configmaps/a"


def test_list_follows_continue_tokens(transport: FakeTransport) -> None:
    first, second = transport.put("a"), transport.put("b")
    transport.answers = [
        {"metadata": {"resourceVersion": "7", "continue": "more"}, "items": [first]},
        {"metadata": {"resourceVersion": "7"}, "items": [second]},
    ]
    listing = call(Client(transport).list(ConfigMap, labels="a=b", fields="metadata.name=x"))
    assert [item.metadata.name for item in listing.items if item.metadata] == ["a", "b"]
    assert listing.resource_version == "7"
    assert transport.requests[0].query == {"labelSelector": "a=b", "fieldSelector": "metadata.name=x"}
    assert transport.requests[1].query["continue"] == "more"


def test_create_takes_typed_and_plain(transport: FakeTransport) -> None:
    client = Client(transport, field_manager="tester")
    transport.answers = [transport.put("a"), transport.put("b")]
    call(client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default"))))
    call(client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}, namespace="default"))
    assert [request.body["kind"] for request in transport.requests] == ["ConfigMap", "ConfigMap"]
    assert {request.namespace for request in transport.requests} == {"default"}
    assert transport.requests[0].query == {"fieldManager": "tester"}


@pytest.mark.parametrize(
    ("kind", "content_type"),
    [
        ("merge", wire.MERGE_PATCH),
        ("strategic", wire.STRATEGIC_PATCH),
        ("json", wire.JSON_PATCH),
        ("apply", wire.APPLY),
    ],
)
def test_patch_kinds_have_their_media_type(transport: FakeTransport, kind: str, content_type: str) -> None:
    transport.answers = [transport.put("a")]
    call(
        Client(transport).patch(
            ConfigMap, "a", {}, namespace="default", kind=kind, field_manager="m", force=True, subresource="status"
        )
    )  # type: ignore[arg-type]
    (request,) = transport.requests
    assert (request.content_type, request.subresource, request.query) == (
        content_type,
        "status",
        {"fieldManager": "m", "force": "true"},
    )


def test_apply_needs_a_field_manager(transport: FakeTransport) -> None:
    with pytest.raises(ValueError, match="field manager"):
        call(Client(transport).patch(ConfigMap, "a", {}, namespace="default", kind="apply"))


def test_delete_sends_preconditions_grace_and_propagation(transport: FakeTransport) -> None:
    call(Client(transport).delete(Pod, "a", namespace="default", uid="u", grace_seconds=0, propagation="Foreground"))
    assert transport.requests[0].body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u"},
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Foreground",
    }


def test_bind_names_the_pod_it_means(transport: FakeTransport) -> None:
    call(Client(transport).bind(Pod(metadata=ObjectMeta(name="p", namespace="default", uid="u")), "n"))
    (request,) = transport.requests
    assert request.url == "/api/v1/namespaces/default/pods/p/binding"
    assert request.body["metadata"]["uid"] == "u"
    assert request.body["target"] == {"kind": "Node", "name": "n"}


def test_conflicts_are_tried_again() -> None:
    attempts: list[int] = []

    async def attempt() -> str:
        attempts.append(1)
        if len(attempts) < 3:
            raise StatusError.modified("", "pods", "a")
        return "done"

    assert call(retry_on_conflict(attempt)) == "done"
    assert len(attempts) == 3


def test_other_errors_are_not() -> None:
    async def attempt() -> None:
        raise StatusError.not_found("", "pods", "a")

    with pytest.raises(StatusError, match="not found"):
        call(retry_on_conflict(attempt))


def test_url_quotes_what_it_must() -> None:
    request = Request(
        "GET", "rbac.authorization.k8s.io", "v1", "clusterroles", name="system:node/x", query={"a": "b c"}
    )
    assert request.url == "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode%2Fx?a=b+c"
