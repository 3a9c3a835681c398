"""Discovery: groups, versions, resources."""

from __future__ import annotations

import json
from typing import Any

import pytest

from drakit.api import registry
from drakit.api.errors import StatusError
from drakit.api.gates import FeatureGates
from drakit.apiserver.discovery import Discovery, storage_version_hash
from tests.kinds.helpers import kind

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
EVERYTHING = registry.RuntimeConfig({"api/all": True})


def discovery(config: registry.RuntimeConfig = EVERYTHING) -> Discovery:
    return Discovery(list(registry.served_kinds(FeatureGates.default(), config)))


def get(path: str, accept: str = "") -> Any:
    answer = discovery().handle(path, accept)
    assert answer is not None
    return json.loads(answer.body)


@pytest.mark.parametrize(
    ("name", "group", "value"),
    [
        ("Event", "", "r2yiGXH7wu8="),
        ("Event", "events.k8s.io", "r2yiGXH7wu8="),
        ("Namespace", "", "Q3oi5N2YM8M="),
        ("Pod", "", "xPOwRZ+Yhw8="),
        ("Job", "batch", "mudhfqk/qZY="),
        ("DeviceClass", "resource.k8s.io", "Yk2PTc1Ybxk="),
        ("DeviceTaintRule", "resource.k8s.io", "i+85+TcIKpA="),
        ("Lease", "coordination.k8s.io", "gqkMMb/YqFM="),
    ],
)
def test_storage_version_hashes_are_kubernetes_own(name: str, group: str, value: str) -> None:
    assert storage_version_hash(kind(name, group)) == value


def test_core_lists_pods_with_their_subresources() -> None:
    document = get("/api/v1")
    assert "apiVersion" not in document  # only of the core group
    found = {entry["name"]: entry for entry in document["resources"]}
    assert list(found) == sorted(found)
    assert found["pods"]["shortNames"] == ["po"]
    assert found["pods/eviction"] == {
        "name": "pods/eviction",
        "singularName": "",
        "namespaced": True,
        "group": "policy",
        "version": "v1",
        "kind": "Eviction",
        "verbs": ["create"],
    }
    assert "deletecollection" not in found["namespaces"]["verbs"]
    assert "storageVersionHash" not in found["bindings"]


def test_group_prefers_its_stable_version() -> None:
    group = get("/apis/resource.k8s.io")
    assert [v["version"] for v in group["versions"]] == ["v1", "v1beta2", "v1beta1", "v1alpha3"]
    assert group["preferredVersion"]["version"] == "v1"
    assert get("/apis/resource.k8s.io/") == group


def test_only_stable_versions_without_runtime_config() -> None:
    answer = discovery(registry.RuntimeConfig()).handle("/apis/resource.k8s.io")
    assert answer is not None
    assert [v["version"] for v in json.loads(answer.body)["versions"]] == ["v1"]


def test_aggregated_form_is_chosen_by_accept() -> None:
    answer = discovery().handle("/apis", f"{AGGREGATED},application/json")
    assert answer is not None
    assert answer.content_type == AGGREGATED
    items = json.loads(answer.body)["items"]
    assert [item["metadata"]["name"] for item in items][:2] == ["apps", "events.k8s.io"]
    deployments = next(r for r in items[0]["versions"][0]["resources"] if r["resource"] == "deployments")
    assert deployments["subresources"][0] == {
        "subresource": "scale",
        "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "verbs": ["get", "patch", "update"],
    }
    again = discovery().handle("/apis", AGGREGATED, answer.headers["ETag"])
    assert again is not None
    assert (again.status, again.body) == (304, b"")


def test_plain_json_is_what_a_version_path_answers() -> None:
    assert get("/apis/apps/v1", f"{AGGREGATED},application/json")["kind"] == "APIResourceList"
    with pytest.raises(StatusError, match="only the following media types are accepted") as caught:
        discovery().handle("/apis/apps/v1", AGGREGATED)
    assert caught.value.code == 406


def test_what_is_not_there_is_not_answered() -> None:
    for path in ("/apis/nothing.example.com", "/apis/apps/v9", "/api/v2", "/nothing"):
        assert discovery().handle(path) is None


def test_yaml_is_served_too() -> None:
    answer = discovery().handle("/apis/apps", "application/yaml")
    assert answer is not None
    assert answer.body.startswith(b"kind: APIGroup\n")


def test_lists_of_groups_take_any_method() -> None:
    found = discovery()
    assert found.any_method("/apis")
    assert found.any_method("/apis/apps")
    assert not found.any_method("/apis/apps/v1")
    assert not found.any_method("/api/v1")
