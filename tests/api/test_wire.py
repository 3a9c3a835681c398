from __future__ import annotations

from typing import Any

import msgspec
import pytest
from lightkube.models import core_v1, policy_v1, resource_v1, resource_v1beta1

from drakit.api import registry, typed, wire
from drakit.api.errors import StatusError


def read(model: type, value: Any) -> Any:
    return wire.read(model, value, kind=model.__name__, version="v1")[0]


def test_every_served_model_can_be_read_and_has_the_fields_that_lightkube_has() -> None:
    for kind in registry.KINDS:
        for version in kind.versions:
            names = {field.encode_name for field in msgspec.structs.fields(version.model)}
            assert set(wire.field_names(version.model, [])) == names, version.model
            assert typed.from_plain(version.model, wire.zero(version.model)) is not None


def test_go_s_zero_values_appear_and_disappear() -> None:
    claim = read(
        resource_v1.ResourceClaim,
        {"metadata": {"name": "c", "labels": {}}, "spec": {"devices": {"requests": [], "constraints": []}}},
    )
    assert claim == {"metadata": {"name": "c"}, "spec": {"devices": {"requests": None}}, "status": {}}
    event = read(core_v1.Event, {"metadata": {"name": "e"}})
    assert event["firstTimestamp"] is None
    assert event["reportingComponent"] == ""


def test_pointers_keep_their_zero() -> None:
    spec = read(resource_v1.ResourceSliceSpec, {"driver": "d", "nodeName": "", "allNodes": False})
    assert spec["nodeName"] == ""
    assert spec["allNodes"] is False
    spec = read(resource_v1beta1.ResourceSliceSpec, {"driver": "d", "nodeName": "", "allNodes": False})
    assert "nodeName" not in spec


def test_values_get_their_canonical_form() -> None:
    pod = read(
        core_v1.Pod,
        {
            "metadata": {"creationTimestamp": "2026-01-02T03:04:05.678+02:00"},
            "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": 1, "memory": "1024Mi", "x": 0.5}}}]},
        },
    )
    assert pod["metadata"]["creationTimestamp"] == "2026-01-02T01:04:05Z"
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1", "memory": "1Gi", "x": "500m"}


def test_micro_times_have_six_digits() -> None:
    from lightkube.models import coordination_v1

    lease = read(coordination_v1.Lease, {"spec": {"renewTime": "2026-01-02T03:04:05.000001Z"}})
    assert lease["spec"]["renewTime"] == "2026-01-02T03:04:05.000001Z"


def test_null_is_absence() -> None:
    claim = read(resource_v1.ResourceClaim, {"metadata": None, "spec": {"devices": {"requests": [None]}}})
    assert claim["metadata"] == {}
    assert claim["spec"]["devices"]["requests"] == [{"name": ""}]


def test_unknown_fields_are_reported_with_their_paths_and_left_out() -> None:
    value = {
        "unknown": 1,
        "spec": {"devices": {"requests": [{"name": "r"}, {"name": "s", "Exactly": {}, "exactly": {"x/y": 1}}]}},
    }
    obj, unknown = wire.read(resource_v1.ResourceClaim, value, kind="ResourceClaim", version="v1")
    assert unknown == ("unknown", "spec.devices.requests[1].Exactly", "spec.devices.requests[1].exactly.x/y")
    assert "unknown" not in obj
    assert value["unknown"] == 1


def test_unknown_fields_under_a_map_are_named_by_its_key() -> None:
    device = {"name": "d", "attributes": {"a.b/c": {"int": 1, "float": 2}}}
    _, unknown = wire.read(resource_v1.Device, device, kind="Device", version="v1")
    assert unknown == ("attributes.a.b/c.float",)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"spec": "x"}, "cannot unmarshal string into Go struct field ResourceClaim.spec of type v1.ResourceClaimSpec"),
        (
            {"metadata": {"name": 1}},
            "cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string",
        ),
        (
            {"spec": {"devices": {"requests": [{"exactly": {"count": 1.5}}]}}},
            "cannot unmarshal number 1.5 into Go struct field ExactDeviceRequest.spec.devices.requests.exactly.count of type int64",
        ),
        (
            {"spec": {"devices": {"requests": [{"exactly": {"count": 2**63}}]}}},
            f"cannot unmarshal number {2**63} into Go struct field",
        ),
        (
            {"spec": {"devices": {"requests": {}}}},
            "cannot unmarshal object into Go struct field DeviceClaim.spec.devices.requests of type []v1.DeviceRequest",
        ),
        ({"metadata": {"creationTimestamp": "yesterday"}}, 'parsing time "yesterday" as "2006-01-02T15:04:05Z07:00"'),
        ({"metadata": {"creationTimestamp": "2026-13-01T00:00:00Z"}}, "month out of range"),
        ([], "cannot unmarshal array into Go value of type v1.ResourceClaim"),
    ],
)
def test_wrong_types_are_refused_in_go_s_words(value: Any, message: str) -> None:
    with pytest.raises(StatusError) as caught:
        read(resource_v1.ResourceClaim, value)
    assert caught.value.code == 400
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("value", "word"), [(2**31, f"number {2**31}"), (1.5, "number 1.5"), (True, "bool"), ([1], "array")]
)
def test_what_is_neither_number_nor_text_is_refused_with_its_place(value: Any, word: str) -> None:
    with pytest.raises(StatusError) as caught:
        read(policy_v1.PodDisruptionBudget, {"spec": {"minAvailable": value}})
    place = "Go struct field PodDisruptionBudgetSpec.spec.minAvailable of type int32"
    assert f"json: cannot unmarshal {word} into {place}" in caught.value.message


def test_an_object_of_absurd_size_is_refused() -> None:
    with pytest.raises(StatusError) as caught:
        read(resource_v1.ResourceClaim, {"spec": {"devices": {"requests": [{}] * 300_000}}})
    assert caught.value.code == 413


def test_copy_is_deep_and_equal() -> None:
    value = {"a": [1, 2.5, None, True, {"b": "ü"}]}
    made = wire.copy(value)
    assert made == value
    made["a"][4]["b"] = "x"
    assert value["a"][4]["b"] == "ü"  # type: ignore[index,call-overload]  # heterogeneous on purpose


def test_typed_objects_survive_what_others_left_out() -> None:
    pod = typed.from_plain(core_v1.Pod, {"spec": {"containers": None}})
    assert pod.spec is not None
    assert pod.spec.containers == []
    device = typed.from_plain(resource_v1.DeviceTaint, {"key": "k"})
    assert device.effect == ""


def test_typed_to_plain_leaves_out_what_is_unset() -> None:
    claim = resource_v1.ResourceClaim(spec=resource_v1.ResourceClaimSpec())
    assert typed.to_plain(claim) == {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": {}}


def test_true_is_not_one() -> None:
    assert wire.same({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]})
    assert wire.same({"a": 1, "b": 2}, {"b": 2, "a": 1})
    for one, two in ((True, 1), (1, 1.0), (0, False)):
        assert not wire.same({"a": [{"b": one}]}, {"a": [{"b": two}]})
