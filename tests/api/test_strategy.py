"""The way of a write: what the server keeps, drops and counts, whatever the kind."""

from __future__ import annotations

from typing import Any

import pytest

from drakit.api import registry, strategy
from drakit.api.errors import FieldError, StatusError
from drakit.api.gates import FeatureGates
from drakit.api.kind import WriteContext
from drakit.api.registry import RuntimeConfig
from tests import builders
from tests.api.conftest import NOW, causes, context, create, kind_of, update


def changed(obj: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return {**obj, **parts}


def test_create_stamps_and_cleans_metadata() -> None:
    claim = builders.claim()
    claim["metadata"].update(generation=7, deletionTimestamp="2020-01-01T00:00:00Z", selfLink="/x")
    stored = create(claim)
    assert stored["metadata"]["creationTimestamp"] == "2026-03-04T05:06:07Z"
    assert not {"deletionTimestamp", "selfLink"} & set(stored["metadata"])
    assert stored["metadata"]["generation"] == 7  # claims have none of their own, and Kubernetes keeps what it was sent


def test_create_and_update_leave_their_arguments_alone() -> None:
    kind, version = kind_of(builders.slice_())
    decoded = strategy.decode(kind, version, builders.slice_("s", builders.device("d", taints=[builders.taint()]))).obj
    before = repr(decoded)
    stored, _ = strategy.create(kind, decoded, context())
    assert repr(decoded) == before
    stored["metadata"]["resourceVersion"] = "1"
    kept = repr(stored)
    strategy.update(kind, changed(stored, metadata={**stored["metadata"], "labels": {"a": "b"}}), stored, context())
    assert repr(stored) == kept


def test_generation_counts_changes_of_the_spec_only() -> None:
    stored = create(builders.device_class("c", "true"))
    assert stored["metadata"]["generation"] == 1
    labelled = update(stored, changed(stored, metadata={**stored["metadata"], "labels": {"a": "b"}, "generation": 9}))
    assert labelled["metadata"]["generation"] == 1
    assert update(stored, changed(stored, spec={}))["metadata"]["generation"] == 2


def test_claims_have_no_generation() -> None:
    assert "generation" not in create(builders.claim())["metadata"]


def test_the_main_resource_keeps_the_status_and_status_keeps_the_rest() -> None:
    stored = create(changed(builders.claim(), status={"allocation": builders.allocation()}))
    assert stored["status"] == {}
    allocated = update(stored, changed(stored, status={"allocation": builders.allocation()}), "status")
    assert update(allocated, changed(allocated, status={}))["status"] == allocated["status"]
    meta = {**allocated["metadata"], "labels": {"a": "b"}, "finalizers": ["x.y/z"]}
    again = update(allocated, changed(allocated, metadata=meta, spec={"devices": {}}), "status")
    assert again["spec"] == stored["spec"]
    assert not {"labels", "finalizers"} & set(again["metadata"])


@pytest.mark.parametrize("name", ["uid", "name", "namespace"])
def test_identity_never_changes(name: str) -> None:
    stored = create(builders.claim())
    other = changed(stored, metadata={**stored["metadata"], name: "other"})
    assert ("FieldValueInvalid", f"metadata.{name}") in causes(lambda: update(stored, other))


def test_timestamps_are_the_server_s() -> None:
    stored = create(builders.claim())
    other = changed(stored, metadata={**stored["metadata"], "creationTimestamp": "2000-01-01T00:00:00Z"})
    assert update(stored, other)["metadata"]["creationTimestamp"] == stored["metadata"]["creationTimestamp"]


def test_no_finalizers_are_added_to_what_is_being_deleted() -> None:
    stored = create(changed(builders.claim(), metadata=builders.metadata("c", "d", finalizers=["a.b/c"])))
    stored["metadata"]["deletionTimestamp"] = "2026-03-04T05:30:00Z"
    more = changed(stored, metadata={**stored["metadata"], "finalizers": ["a.b/c", "d.e/f"]})
    with pytest.raises(StatusError, match=r'found new finalizers \[\]string{"d.e/f"}'):
        update(stored, more)
    assert (
        "finalizers"
        not in update(stored, changed(stored, metadata={**stored["metadata"], "finalizers": []}))["metadata"]
    )


@pytest.mark.parametrize(
    ("meta", "cause"),
    [
        ({"name": ""}, ("FieldValueRequired", "metadata.name")),
        ({"name": "A_b"}, ("FieldValueInvalid", "metadata.name")),
        ({"name": "x" * 254}, ("FieldValueInvalid", "metadata.name")),
        ({"namespace": ""}, ("FieldValueRequired", "metadata.namespace")),
        ({"namespace": "a.b"}, ("FieldValueInvalid", "metadata.namespace")),
        ({"labels": {"a/b/c": "x"}}, ("FieldValueInvalid", "metadata.labels")),
        ({"labels": {"a": "-"}}, ("FieldValueInvalid", "metadata.labels")),
        ({"annotations": {"-": "x"}}, ("FieldValueInvalid", "metadata.annotations")),
        ({"annotations": {"a": "x" * 300_000}}, ("FieldValueTooLong", "metadata.annotations")),
        ({"finalizers": ["x y"]}, ("FieldValueInvalid", "metadata.finalizers")),
        (
            {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]},
            ("FieldValueRequired", "metadata.ownerReferences[0].uid"),
        ),
    ],
)
def test_metadata_is_checked(meta: dict[str, Any], cause: tuple[str, str]) -> None:
    claim = builders.claim()
    claim["metadata"].update(meta)
    assert cause in causes(lambda: create(claim))


def test_privileges_are_listed_first() -> None:
    kind, version = kind_of(builders.claim())
    claim = strategy.decode(kind, version, builders.claim("c", builders.request("BAD"))).obj
    ctx = WriteContext(
        FeatureGates.default(), NOW, privileges=lambda new, old: [FieldError.forbidden("spec", "not you")]
    )
    with pytest.raises(StatusError) as caught:
        strategy.create(kind, claim, ctx)
    assert [cause["field"] for cause in caught.value.causes] == ["spec", "spec.devices.requests[0].name"]


def test_owners_named_twice_count_once_with_a_warning() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
    kind, version = kind_of(builders.claim())
    claim = strategy.decode(kind, version, builders.claim()).obj
    claim["metadata"]["ownerReferences"] = [owner, dict(owner)]
    stored, warnings = strategy.create(kind, claim, context())
    assert stored["metadata"]["ownerReferences"] == [owner]
    assert "duplicate UID(s) observed: u" in warnings[0]


# The registry


def test_dra_can_be_switched_off() -> None:
    gates = FeatureGates.parse("DynamicResourceAllocation=false")
    kinds = [kind for kind in registry.KINDS if kind.group == "resource.k8s.io"]
    assert kinds
    assert not any(registry.served(kind, gates, RuntimeConfig.parse("api/all=true")) for kind in kinds)


@pytest.mark.parametrize(
    ("config", "versions"),
    [
        ("", ["v1"]),
        ("api/all=true", ["v1", "v1beta2", "v1beta1"]),
        ("resource.k8s.io/v1beta1=true", ["v1", "v1beta1"]),
        ("api/beta=true,resource.k8s.io/v1beta1=false", ["v1", "v1beta2"]),
        ("resource.k8s.io/v1/resourceclaims=false", []),
    ],
)
def test_runtime_config_says_which_versions_are_served(config: str, versions: list[str]) -> None:
    kind = registry.by_resource("resource.k8s.io", "resourceclaims")
    assert kind is not None
    served = registry.served(kind, FeatureGates.default(), RuntimeConfig.parse(config))
    assert [version.name for version in served] == versions


def test_lookups_agree() -> None:
    for kind in registry.KINDS:
        assert registry.by_resource(kind.group, kind.plural) is kind
        assert registry.by_kind(kind.group, kind.kind) is kind
        for version in kind.versions:
            assert registry.by_model(version.model) == (kind, version.name)
            assert registry.by_api_version(kind.api_version(version.name), kind.kind) == (kind, version.name)
    with pytest.raises(KeyError):
        registry.by_model(dict)


def annotated_pod(**annotations: str) -> dict[str, Any]:
    names = {"cost": "controller.kubernetes.io/pod-deletion-cost", "mirror": "kubernetes.io/config.mirror"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "annotations": {names[k]: v for k, v in annotations.items()}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }


@pytest.mark.parametrize("cost", ["0", "-3", "2147483647", "-2147483648", "10"])
def test_cost_of_deleting_a_pod_is_a_number(cost: str) -> None:
    assert create(annotated_pod(cost=cost))["metadata"]["annotations"]


@pytest.mark.parametrize("cost", ["x", "", "+5", "05", "2147483648", "1.5", "-", "٣"])
def test_cost_of_deleting_a_pod_that_is_no_number_is_refused(cost: str) -> None:
    with pytest.raises(StatusError, match="must be a 32bit integer"):
        create(annotated_pod(cost=cost))
    stored = create(annotated_pod(cost="1"))
    key = "controller.kubernetes.io/pod-deletion-cost"
    new = changed(stored, metadata={**stored["metadata"], "annotations": {key: cost}})
    with pytest.raises(StatusError, match="must be a 32bit integer"):
        update(stored, new)
    wrong = changed(stored, metadata={**stored["metadata"], "annotations": {key: cost, "a": "b"}})
    assert update(new, wrong)["metadata"]["annotations"]["a"] == "b"  # what was wrong before may stay


def test_mirror_annotation_needs_a_node_and_stays() -> None:
    with pytest.raises(StatusError, match=r"must set spec\.nodeName if mirror pod annotation is set"):
        create(annotated_pod(mirror="x"))
    stored = create(annotated_pod())
    new = changed(stored, metadata={**stored["metadata"], "annotations": {"kubernetes.io/config.mirror": "x"}})
    with pytest.raises(StatusError, match="may not add mirror pod annotation"):
        update(stored, new)
    with pytest.raises(StatusError, match="may not remove or update mirror pod annotation"):
        update(new, stored)
