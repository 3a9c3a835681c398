"""The type table and the OpenAPI documents made from it."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from drakit.api import registry, schema, schema_enums
from drakit.api.errors import StatusError
from drakit.api.gates import FeatureGates
from drakit.apiserver.openapi import OpenApi
from tests.kinds.helpers import kind

Plain = dict[str, Any]

PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
SERVED = list(registry.served_kinds(FeatureGates.default(), registry.RuntimeConfig({"api/all": True})))


def at(name: str, *path: str) -> schema.Node:
    node = schema.named(name)
    for part in path:
        if node.element is not None:
            node = node.element
        node = node.fields[part]
    return node


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (("spec", "containers"), ("map", ("name",), True, "name", False)),
        (("spec", "containers", "ports"), ("map", ("containerPort", "protocol"), True, "containerPort", False)),
        (("spec", "tolerations"), ("atomic", (), False, "", False)),
        (("spec", "resourceClaims"), ("map", ("name",), True, "name", True)),
        (("spec", "volumes"), ("map", ("name",), True, "name", True)),
        (("status", "conditions"), ("map", ("type",), True, "type", False)),
        (("metadata", "finalizers"), ("set", (), True, "", False)),
        (("metadata", "ownerReferences"), ("map", ("uid",), True, "uid", False)),
        (("metadata", "managedFields"), ("atomic", (), False, "", False)),
    ],
)
def test_lists_merge_as_the_api_says(path: tuple[str, ...], expected: tuple[Any, ...]) -> None:
    node = at("core_v1.Pod", *path)
    found = (node.list_type, node.keys, node.patch_merge, node.merge_key, node.retain_keys)
    assert found == expected
    assert node.atomic == (expected[0] == "atomic")


def test_missing_list_keys_have_defaults() -> None:
    assert at("core_v1.Pod", "spec", "containers", "ports").key_defaults == {"protocol": "TCP"}


def test_maps_and_structs() -> None:
    assert at("core_v1.PodSpec", "nodeSelector").atomic
    assert not at("meta_v1.ObjectMeta", "labels").atomic
    attributes = at("resource_v1.Device", "attributes")
    assert attributes.type == "map"
    assert attributes.element is not None
    assert attributes.element.model == "resource_v1.DeviceAttribute"
    assert at("core_v1.ResourceRequirements", "limits").element.scalar == "quantity"  # type: ignore[union-attr]  # a map
    assert at("core_v1.PodSpec", "imagePullSecrets").element.atomic  # type: ignore[union-attr]  # a list
    assert at("resource_v1.OpaqueDeviceConfiguration", "parameters").type == "any"
    assert at("core_v1.PodSpec", "activeDeadlineSeconds").scalar == "long"
    assert at("core_v1.PodSpec", "priority").scalar == "integer"


def test_claim_keys() -> None:
    assert at("resource_v1.ResourceClaimStatus", "reservedFor").keys == ("uid",)
    assert at("resource_v1.ResourceClaimStatus", "devices").keys == ("driver", "device", "pool", "shareID")


def test_root_is_by_kind_and_version() -> None:
    assert schema.root(kind("ResourceClaim", "resource.k8s.io"), "v1beta1").model == "resource_v1beta1.ResourceClaim"
    with pytest.raises(LookupError, match="no version v9"):
        schema.root(kind("Pod"), "v9")


def test_docs_are_paragraphs_again() -> None:
    doc, fields = schema.docs("resource_v1.AllocatedDeviceStatus")
    assert doc.count("\n\n") == 1
    assert "\n" not in doc.replace("\n\n", "")
    assert fields["device"].startswith("Device references one device instance via its name")


def nodes(model: str, seen: set[str]) -> Iterator[schema.Node]:
    seen.add(model)
    for node in schema.named(model).fields.values():
        inner: schema.Node | None = node
        while inner is not None:
            yield inner
            if inner.model and inner.model not in seen:
                yield from nodes(inner.model, seen)
            inner = inner.element


def test_every_served_type_resolves_and_has_the_fields_that_lightkube_has() -> None:
    seen: set[str] = set()
    for of, versions in SERVED:
        for version in versions:
            for node in nodes(schema.root(of, version.name).model, seen):
                assert node.type != "scalar" or node.scalar
                assert set(node.keys) <= set(node.element.fields if node.element else ())
                if node.merge_key:
                    assert node.element is not None
                    assert node.merge_key in node.element.fields
    assert len(seen) > 300
    for name in seen:
        module, _, cls = name.partition(".")
        model = getattr(importlib.import_module(f"lightkube.models.{module}"), cls)
        assert schema.named(name).fields.keys() == {
            field.rstrip("_") for field in getattr(model, "__annotations__", ())
        }, name


# OpenAPI


def document(path: str, **query: str) -> Any:
    answer = OpenApi(SERVED).handle(path, **query)
    assert answer is not None
    return json.loads(answer.body)


def test_index_points_to_the_documents() -> None:
    index = document("/openapi/v3")["paths"]
    url = index["apis/resource.k8s.io/v1"]["serverRelativeURL"]
    path, _, query = url.partition("?")
    answer = OpenApi(SERVED).handle(path, query)
    assert answer is not None
    assert answer.status == 200
    stale = OpenApi(SERVED).handle(path, "hash=OLD")
    assert stale is not None
    assert (stale.status, stale.headers["Location"]) == (301, url)


def test_schemas_carry_what_kubectl_looks_for() -> None:
    found = document("/openapi/v3/api/v1")
    schemas = found["components"]["schemas"]
    pod = schemas["io.k8s.api.core.v1.Pod"]
    assert pod["x-kubernetes-group-version-kind"] == [{"group": "", "kind": "Pod", "version": "v1"}]
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    assert containers["x-kubernetes-patch-strategy"] == "merge"
    assert containers["description"].startswith("List of containers belonging to the pod.")
    assert schemas["io.k8s.api.core.v1.PodSpec"]["required"] == ["containers"]
    patch = found["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert {"dryRun", "fieldValidation", "fieldManager", "force"} <= {p["name"] for p in patch["parameters"]}
    assert patch["x-kubernetes-group-version-kind"]["kind"] == "Pod"


def test_fields_list_the_words_they_know() -> None:
    strategy = "io.k8s.api.apps.v1.DeploymentStrategy"
    third = document("/openapi/v3/apis/apps/v1")["components"]["schemas"]
    assert third[strategy]["properties"]["type"]["enum"] == ["Recreate", "RollingUpdate"]
    signal = third["io.k8s.api.core.v1.Lifecycle"]["properties"]["stopSignal"]
    assert (len(signal["enum"]), signal["enum"][17:20]) == (65, ["SIGQUIT", "SIGRTMAX", "SIGRTMAX-1"])
    rule = document("/openapi/v3/apis/admissionregistration.k8s.io/v1")["components"]["schemas"][
        "io.k8s.api.admissionregistration.v1.NamedRuleWithOperations"
    ]
    assert rule["properties"]["operations"]["items"]["enum"] == ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"]
    assert "enum" not in rule["properties"]["operations"]
    for version in ("v1", "v1beta1", "v1beta2"):
        taints = document(f"/openapi/v3/apis/resource.k8s.io/{version}")["components"]["schemas"]
        effect = taints[f"io.k8s.api.resource.{version}.DeviceTaint"]["properties"]["effect"]
        assert effect["enum"] == ["NoExecute", "NoSchedule", "None"]


def test_every_field_with_known_words_exists() -> None:
    for model, fields in schema_enums.by_model().items():
        module, _, cls = model.partition(".")
        versions = [module] if "*" not in module else [module.replace("*", v) for v in ("v1", "v1beta1", "v1beta2")]
        modules = [importlib.import_module(f"lightkube.models.{version}") for version in versions]
        known = [schema.named(f"{m.__name__.rpartition('.')[2]}.{cls}") for m in modules if hasattr(m, cls)]
        assert fields.keys() <= {name for node in known for name in node.fields}, model


def refs(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "$ref":
                yield item
            else:
                yield from refs(item)
    elif isinstance(value, list):
        for item in value:
            yield from refs(item)


def test_every_reference_resolves() -> None:
    for path in ("/openapi/v3/api/v1", "/openapi/v3/apis/resource.k8s.io/v1", "/openapi/v3/apis/apps/v1"):
        found = document(path)
        assert {ref.rpartition("/")[2] for ref in refs(found)} <= found["components"]["schemas"].keys()
    found = document("/openapi/v2")
    assert {ref.rpartition("/")[2] for ref in refs(found)} <= found["definitions"].keys()


def test_unknown_documents_and_media_types() -> None:
    api = OpenApi(SERVED)
    assert api.handle("/openapi/v3/apis/nothing/v1") is None
    with pytest.raises(StatusError):
        api.handle("/openapi/v2", accept="text/html")


def varint(data: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[position]
        number |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return number, position


def fields(data: bytes) -> list[tuple[int, Any]]:
    """The fields of a protobuf message, nested ones as bytes."""
    found: list[tuple[int, Any]] = []
    position = 0
    while position < len(data):
        key, position = varint(data, position)
        number, position = varint(data, position)
        if key & 7 == 2:
            found.append((key >> 3, data[position : position + number]))
            position += number
        else:
            found.append((key >> 3, number))
    return found


def first(data: bytes, *numbers: int) -> Any:
    for number in numbers:
        data = next(value for found, value in fields(data) if found == number)
    return data


def test_old_kubectl_gets_protobuf_with_the_same_content() -> None:
    api = OpenApi(SERVED)
    answer = api.handle("/openapi/v2", accept=PROTOBUF)
    assert answer is not None
    assert first(answer.body, 1) == b"2.0"
    assert first(answer.body, 2, 1) == b"Kubernetes"
    plain = api.v2_document()
    definitions = {first(value, 1).decode(): first(value, 2) for _, value in fields(first(answer.body, 9))}
    assert definitions.keys() == plain["definitions"].keys()
    spec = definitions["io.k8s.api.core.v1.PodSpec"]
    properties = {first(value, 1).decode(): first(value, 2) for _, value in fields(first(spec, 25))}
    assert properties.keys() == plain["definitions"]["io.k8s.api.core.v1.PodSpec"]["properties"].keys()
    words = [first(value, 2) for number, value in fields(properties["dnsPolicy"]) if number == 20]
    assert words[0] == b'"ClusterFirst"\n'
    assert first(properties["containers"], 23, 1, 1) == b"#/definitions/io.k8s.api.core.v1.Container"
    marks = {first(v, 1).decode(): json.loads(first(v, 2, 2)) for n, v in fields(properties["containers"]) if n == 31}
    assert marks["x-kubernetes-patch-merge-key"] == "name"
    paths = {first(value, 1).decode(): first(value, 2) for _, value in fields(first(answer.body, 8))}
    assert paths.keys() == plain["paths"].keys()
    patch = first(paths["/api/v1/namespaces/{namespace}/pods/{name}"], 8)
    names = {first(v, 1, 2, 3, 4) for n, v in fields(patch) if n == 8 and fields(first(v, 1))[0][0] == 2}
    assert {b"dryRun", b"fieldValidation"} <= names
