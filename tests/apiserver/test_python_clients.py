"""The official Python client and lightkube against our server."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from tests.apiserver.serving import Running, claim, running_server

# Both clients leave connections to the garbage collector; that is theirs to mend.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with running_server() as found:
        yield found


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_official_client_creates_lists_watches_and_patches(running: Running) -> None:
    client = pytest.importorskip("kubernetes.client")
    config = pytest.importorskip("kubernetes.config")
    watch = pytest.importorskip("kubernetes.watch")
    api_client = config.new_client_from_config(str(running.kubeconfig))
    core = client.CoreV1Api(api_client)
    dynamic: Any = client.CustomObjectsApi(api_client)
    where = {"group": "resource.k8s.io", "version": "v1", "namespace": "default", "plural": "resourceclaims"}
    made = dynamic.create_namespaced_custom_object(**where, body=claim("official"))
    assert made["status"] == {}
    version = core.list_namespaced_config_map("default").metadata.resource_version
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="cm"), data={"a": "1"})
    core.create_namespaced_config_map("default", body)
    core.patch_namespaced_config_map("cm", "default", {"data": {"b": "2"}})
    assert core.read_namespaced_config_map("cm", "default").data == {"a": "1", "b": "2"}
    core.delete_namespaced_config_map("cm", "default")
    stream = watch.Watch().stream(
        core.list_namespaced_config_map, "default", resource_version=version, timeout_seconds=5
    )
    types = []
    for event in stream:
        types.append(event["type"])
        if event["type"] == "DELETED":
            break
    stream.close()
    assert types == ["ADDED", "MODIFIED", "DELETED"]
    with pytest.raises(client.ApiException) as error:
        core.read_namespaced_pod("none", "default")
    assert error.value.status == 404
    api_client.rest_client.pool_manager.clear()
    api_client.close()
    gc.collect()


def test_lightkube_creates_lists_watches_patches_and_applies(running: Running) -> None:
    import lightkube
    from lightkube.config.kubeconfig import KubeConfig
    from lightkube.models.meta_v1 import ObjectMeta
    from lightkube.resources.core_v1 import ConfigMap, Pod

    config = KubeConfig.from_file(str(running.kubeconfig))
    client = lightkube.Client(config=config, field_manager="light")
    client.create(ConfigMap(metadata=ObjectMeta(name="light", namespace="default"), data={"a": "1"}))
    listing = client.list(ConfigMap, namespace="default")
    assert "light" in {item.metadata.name for item in listing if item.metadata}
    client.patch(ConfigMap, "light", {"data": {"b": "2"}}, namespace="default")
    events: Any = client.watch(ConfigMap, namespace="default", fields={"metadata.name": "light"})
    kind, found = next(events)
    events.close()
    assert kind == "ADDED"
    assert found.data == {"a": "1", "b": "2"}
    applied = client.apply(
        ConfigMap(metadata=ObjectMeta(name="light", namespace="default"), data={"a": "1"}), force=True
    )
    assert applied.data == {"a": "1", "b": "2"}
    with pytest.raises(lightkube.ApiError) as error:
        client.get(Pod, "none", namespace="default")
    assert error.value.status.code == 404
    client.delete(ConfigMap, "light", namespace="default")
    client.close()
