"""Rules of resource.k8s.io that need more than one recorded body to show: gates, updates, time."""

from __future__ import annotations

from typing import Any

import pytest

from drakit.api import registry, strategy
from drakit.api.errors import StatusError
from drakit.api.gates import FeatureGates
from drakit.api.kind import WriteContext
from tests import builders
from tests.api.conftest import NOW, causes, create, update

Object = dict[str, Any]


def status(claim: Object, **parts: Any) -> Object:
    return {**claim, "status": parts}


def allocated(**more: Any) -> Object:
    claim = create(builders.claim())
    return update(claim, status(claim, allocation=builders.allocation(), **more), "status")


# Fields behind gates


SLICE_GATES = [
    ("DRADeviceTaints", {"taints": [builders.taint()]}),
    ("DRAPartitionableDevices", {"consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "1"}}}]}),
    (
        "DRADeviceBindingConditions",
        {"bindingConditions": ["a"], "bindingFailureConditions": ["b"], "bindsToNode": True},
    ),
    ("DRAConsumableCapacity", {"allowMultipleAllocations": True}),
    ("DRANodeAllocatableResources", {"nodeAllocatableResources": {"cpu": {"overhead": {"perPod": "1"}}}}),
]


@pytest.mark.parametrize(("gate", "fields"), SLICE_GATES, ids=[gate for gate, _ in SLICE_GATES])
def test_a_disabled_feature_is_dropped_from_new_slices_and_kept_in_old_ones(gate: str, fields: Object) -> None:
    body = builders.slice_("s", builders.device("d", **fields))
    with_it = create(body, f"{gate}=true")
    without = create(body, f"{gate}=false")
    assert set(fields) <= set(with_it["spec"]["devices"][0])
    assert not set(fields) & set(without["spec"]["devices"][0])
    kept = update(with_it, with_it, gates=f"{gate}=false")
    assert set(fields) <= set(kept["spec"]["devices"][0])


def test_list_attributes_are_dropped_and_then_nothing_is_left() -> None:
    body = builders.slice_("s", builders.device("d", attributes={"a": {"ints": [1]}}))
    assert causes(lambda: create(body)) == [("FieldValueInvalid", "spec.devices[0].attributes[a]")]
    assert create(body, "DRAListTypeAttributes=true")["spec"]["devices"][0]["attributes"] == {"a": {"ints": [1]}}


def test_tolerations_of_claims_go_with_taints() -> None:
    body = builders.claim("c", builders.request("r", tolerations=[{"operator": "Exists"}]))
    assert "tolerations" not in create(body, "DRADeviceTaints=false")["spec"]["devices"]["requests"][0]["exactly"]


def test_distinct_attribute_goes_with_consumable_capacity() -> None:
    body = builders.claim("c", constraints=[{"distinctAttribute": "a.b/c"}])
    expected = [("FieldValueRequired", "spec.devices.constraints[0].matchAttribute")]
    assert causes(lambda: create(body, "DRAConsumableCapacity=false")) == expected


def test_binding_conditions_in_results_are_dropped_when_off() -> None:
    claim = create(builders.claim())
    result = builders.result(bindingConditions=["a"], bindingFailureConditions=["b"])
    stored = update(
        claim, status(claim, allocation=builders.allocation(result)), "status", gates="DRADeviceBindingConditions=false"
    )
    assert "bindingConditions" not in stored["status"]["allocation"]["devices"]["results"][0]


# Derived attributes (alpha)


def test_derived_attributes_have_to_be_used() -> None:
    attribute = {"name": "a.b/c", "expression": "1"}
    used = builders.claim(
        "c", builders.request("r", derivedAttributes=[attribute]), constraints=[{"matchAttribute": "a.b/c"}]
    )
    assert create(used, "DRADerivedAttributes=true")
    unused = builders.claim("c", builders.request("r", derivedAttributes=[attribute]))
    path = "spec.devices.requests[0].exactly.derivedAttributes[0].name"
    assert causes(lambda: create(unused, "DRADerivedAttributes=true")) == [("FieldValueInvalid", path)]


class Costly:
    """Every expression is good and costs the same."""

    def __init__(self, cost: int) -> None:
        self.error_type, self.error, self.max_cost = "", "", cost

    def check_selector(self, expression: str, *, stored: bool, gates: FeatureGates) -> Costly:
        return self

    check_derived = check_selector


def test_derived_attributes_share_a_budget() -> None:
    names = [f"a.b/c{i}" for i in range(3)]
    derived = [{"name": name, "expression": "1"} for name in names]
    body = builders.claim(
        "c", builders.request("r", derivedAttributes=derived), constraints=[{"matchAttribute": name} for name in names]
    )
    kind = registry.by_kind("resource.k8s.io", "ResourceClaim")
    assert kind is not None
    gates = FeatureGates.parse("DRADerivedAttributes=true")

    def make(cost: int) -> None:
        strategy.create(kind, strategy.decode(kind, "v1", body).obj, WriteContext(gates, NOW, Costly(cost)))

    make(300_000)
    assert causes(lambda: make(400_000)) == [("FieldValueForbidden", "spec.devices")]


# Stored expressions


def test_unchanged_selectors_are_not_compiled_again() -> None:
    class Strict(Costly):
        def check_selector(self, expression: str, *, stored: bool, gates: FeatureGates) -> Costly:
            raise AssertionError("looked at again")

    stored = create(builders.device_class("c", "true"))
    kind = registry.by_kind("resource.k8s.io", "DeviceClass")
    assert kind is not None
    ctx = WriteContext(FeatureGates.default(), NOW, Strict(0))
    changed = {**stored, "spec": {**stored["spec"], "extendedResourceName": "example.com/gpu"}}
    strategy.update(kind, changed, stored, ctx)
    with pytest.raises(AssertionError):
        strategy.update(kind, {**stored, "spec": {"selectors": [builders.selector("false")]}}, stored, ctx)


def test_expressions_are_bounded_together() -> None:
    def texts(count: int) -> list[Object]:
        return [builders.selector(f"device.driver == '{i}'" + " " * 9_900) for i in range(count)]

    assert create(builders.claim("c", builders.request("r", selectors=texts(9))))
    assert create(builders.claim("c", builders.request("r", selectors=texts(1) * 32)))
    many = builders.claim("c", builders.request("r", selectors=texts(12)))
    assert causes(lambda: create(many)) == [("FieldValueForbidden", "spec.devices.requests")]


# Claims and their status


def test_an_allocation_is_set_once_and_may_be_taken_away() -> None:
    claim = allocated()
    other = status(claim, allocation=builders.allocation(builders.result("dev-1")))
    assert causes(lambda: update(claim, other, "status")) == [("FieldValueInvalid", "status.allocation")]
    assert update(claim, status(claim), "status")["status"] == {}


def test_what_drivers_reported_goes_with_the_device() -> None:
    report = {"driver": builders.DRIVER, "pool": "pool-0", "device": "dev-0"}
    claim = allocated(devices=[report])
    assert claim["status"]["devices"] == [{**report, "conditions": None}]
    assert "devices" not in update(claim, status(claim, devices=claim["status"]["devices"]), "status")["status"]


def test_reservations_need_an_allocation_and_stop_at_deletion() -> None:
    claim = create(builders.claim())
    reserved = status(claim, reservedFor=[builders.consumer()])
    assert causes(lambda: update(claim, reserved, "status")) == [("FieldValueForbidden", "status.reservedFor")]
    claim = allocated(reservedFor=[builders.consumer()])
    claim["metadata"]["deletionTimestamp"] = "2026-03-04T05:30:00Z"
    more = status(
        claim, allocation=claim["status"]["allocation"], reservedFor=[builders.consumer(), builders.consumer("q", "u")]
    )
    assert causes(lambda: update(claim, more, "status")) == [("FieldValueForbidden", "status.reservedFor")]
    fewer = status(claim, allocation=claim["status"]["allocation"])
    assert "reservedFor" not in update(claim, fewer, "status")["status"]


def test_reservations_have_a_limit() -> None:
    consumers = [builders.consumer(f"p{i}", f"u{i}") for i in range(257)]
    assert len(allocated(reservedFor=consumers[:256])["status"]["reservedFor"]) == 256
    assert causes(lambda: allocated(reservedFor=consumers)) == [("FieldValueTooMany", "status.reservedFor")]


@pytest.mark.parametrize(
    ("address", "good"),
    [
        ("10.0.0.1/24", True),
        ("2001:db8::1/64", True),
        ("10.0.0.1", False),
        ("010.0.0.1/24", False),
        ("::ffff:1.2.3.4/120", False),
        ("x/1", False),
        ("10.0.0.1/99", False),
    ],
)
def test_addresses_are_written_in_the_one_right_way(address: str, good: bool) -> None:
    report = {"driver": builders.DRIVER, "pool": "pool-0", "device": "dev-0", "networkData": {"ips": [address]}}
    if good:
        assert allocated(devices=[report])
    else:
        assert causes(lambda: allocated(devices=[report])) == [
            ("FieldValueInvalid", "status.devices[0].networkData.ips[0]")
        ]


# Slices


def test_empty_lists_are_told_from_absent_ones_but_not_stored() -> None:
    assert "devices" not in create(builders.slice_(devices=[]))["spec"]
    both = builders.slice_(devices=[], sharedCounters=[{"name": "s", "counters": {"c": {"value": "1"}}}])
    assert causes(lambda: create(both)) == [("FieldValueInvalid", "spec")]


def test_taints_are_stamped_on_every_write_that_leaves_the_time_out() -> None:
    body = builders.slice_("s", builders.device("d", taints=[builders.taint()]))
    stored = create(body)
    assert stored["spec"]["devices"][0]["taints"][0]["timeAdded"] == "2026-03-04T05:06:07Z"
    again = update(stored, {**body, "metadata": stored["metadata"]})
    assert again["spec"]["devices"][0]["taints"][0]["timeAdded"] == "2026-03-04T06:00:00Z"
    assert again["metadata"]["generation"] == 2


FRACTIONS = "DRAFractionalCapacityRange=true"


def policy(**valid_range: str) -> Object:
    capacity = {"value": "10", "requestPolicy": {"default": valid_range.pop("default"), "validRange": valid_range}}
    return builders.slice_("s", builders.device("d", allowMultipleAllocations=True, capacity={"c": capacity}))


@pytest.mark.parametrize(
    ("body", "gates", "fields"),
    [
        (policy(default="2", min="1", max="9", step="1"), "", []),
        (policy(default="1500m", min="500m", step="500m"), FRACTIONS, []),
        (policy(default="1500m", min="500m", step="700m"), FRACTIONS, ["step"]),
        (policy(default="1u", min="1u", step="1"), FRACTIONS, ["default", "min"]),
        (policy(default="3", min="1", max="9", step="4"), "", ["step"]),
        (policy(default="0", min="1"), "", ["default"]),
        (policy(default="1", min="1", step="0"), "", ["step"]),
        (policy(default="1", min="1", step="10"), "", ["step"]),
        (policy(default="1", min="-1", step="1"), "", ["min"]),
        (policy(default="1", min="1", max="11"), "", ["max"]),
    ],
)
def test_ranges_of_requests(body: Object, gates: str, fields: list[str]) -> None:
    if not fields:
        assert create(body, gates)
        return
    found = causes(lambda: create(body, gates))
    assert [field.rpartition(".")[2] for _, field in found] == fields


# Taint rules


def test_a_changed_effect_restarts_the_clock() -> None:
    rule = create(builders.taint_rule())
    other = {**rule, "spec": {"taint": {**rule["spec"]["taint"], "effect": "NoExecute"}}}
    assert update(rule, other)["spec"]["taint"]["timeAdded"] == "2026-03-04T06:00:00Z"
    same = {**rule, "spec": {"taint": {**rule["spec"]["taint"], "value": "x"}}}
    assert update(rule, same)["spec"]["taint"]["timeAdded"] == "2026-03-04T05:06:07Z"


def test_an_effect_from_the_future_stays_but_is_not_accepted() -> None:
    rule = create(builders.taint_rule())
    rule["spec"]["taint"]["effect"] = "Future"
    labelled = {**rule, "metadata": {**rule["metadata"], "labels": {"a": "b"}}}
    assert update(rule, labelled)
    assert causes(lambda: create(builders.taint_rule(taint=builders.taint(effect="Future")))) == [
        ("FieldValueNotSupported", "spec.taint.effect")
    ]


# Pool status requests


def pool_request(**spec: Any) -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1alpha3",
        "kind": "ResourcePoolStatusRequest",
        "metadata": {"name": "r"},
        "spec": {"driver": builders.DRIVER, **spec},
    }


def test_pool_status_is_answered_once() -> None:
    request = create(pool_request())
    assert request["spec"]["limit"] == 100
    assert "status" not in request
    answered = update(request, status(request, poolCount=0), "status")
    assert causes(lambda: update(answered, status(answered, poolCount=1), "status")) == [
        ("FieldValueInvalid", "status")
    ]
    assert causes(lambda: update(request, pool_request(limit=5) | {"metadata": request["metadata"]})) == [
        ("FieldValueInvalid", "spec")
    ]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"limit": 1001}, "limit"),
        ({"limit": 0}, "limit"),
        ({"poolName": "a//b"}, "poolName"),
        ({"poolName": ""}, "poolName"),
        ({"driver": "-"}, "driver"),
    ],
)
def test_pool_status_requests_are_checked(spec: Object, field: str) -> None:
    assert causes(lambda: create(pool_request(**spec))) == [("FieldValueInvalid", f"spec.{field}")]


# v1beta1


def test_errors_of_declared_rules_name_the_field_as_it_was_sent() -> None:
    kind = registry.by_kind("resource.k8s.io", "ResourceClaim")
    assert kind is not None
    flat = {"name": "r", "deviceClassName": "BAD_", "tolerations": [{"key": "/", "operator": "Exists"}]}
    body = {"metadata": {"name": "c", "namespace": "d"}, "spec": {"devices": {"requests": [flat]}}}
    with pytest.raises(StatusError) as caught:
        strategy.create(
            kind,
            strategy.decode(kind, "v1beta1", body).obj,
            WriteContext(FeatureGates.default(), NOW, version="v1beta1"),
        )
    fields = {cause["field"] for cause in caught.value.causes}
    assert fields == {"spec.devices.requests[0].exactly.deviceClassName", "spec.devices.requests[0].tolerations[0].key"}
