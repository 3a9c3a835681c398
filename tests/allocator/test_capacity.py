"""Arithmetic of consumable capacity: rounding, policies, and what cannot be represented."""

from __future__ import annotations

from typing import Any

import pytest

from drakit.allocator.capacity import CapacityFault, Consumed, consume
from drakit.allocator.devices import Capacities
from drakit.api.quantity import Quantity

HUGE = str(2**63)


def outcome(value: str, policy: dict[str, Any] | None, wanted: str | None, *, fractional: bool = False) -> Any:
    plain: dict[str, Any] = {"value": value} | ({"requestPolicy": policy} if policy is not None else {})
    requests = {} if wanted is None else {"memory": Quantity.parse(wanted)}
    found = consume(requests, Capacities({"memory": plain}).parsed(), fractional=fractional)
    if isinstance(found, Consumed):
        return found.texts["memory"]
    return "error" if isinstance(found, CapacityFault) else "no"


RANGE = {"validRange": {"min": "5Gi", "max": "20Gi", "step": "5Gi"}}


@pytest.mark.parametrize(
    ("value", "policy", "wanted", "expected"),
    [
        pytest.param("40Gi", None, None, "40Gi", id="all-of-it"),
        pytest.param("40Gi", {"default": "8Gi"}, None, "8Gi", id="default"),
        pytest.param("40Gi", None, "7Gi", "7Gi", id="as-asked"),
        pytest.param("40Gi", None, "41Gi", "no", id="too-much"),
        pytest.param("40Gi", RANGE, "1Gi", "5Gi", id="at-least-the-minimum"),
        pytest.param("40Gi", RANGE, "6Gi", "10Gi", id="up-to-the-step"),
        pytest.param("40Gi", RANGE, "10Gi", "10Gi", id="on-the-step"),
        pytest.param("40Gi", RANGE, "21Gi", "no", id="over-the-maximum"),
        pytest.param("40Gi", {"validRange": {"min": "5Gi"}}, "6Gi", "6Gi", id="without-step"),
        pytest.param("40Gi", {"validValues": ["10Gi", "20Gi"]}, "11Gi", "20Gi", id="next-value"),
        pytest.param("40Gi", {"validValues": ["10Gi", "20Gi"]}, "21Gi", "no", id="no-value-large-enough"),
        pytest.param("40Gi", {"validValues": ["10Gi"]}, None, "no", id="all-of-it-is-no-valid-value"),
        pytest.param("40Gi", RANGE, HUGE, "error", id="over-int64"),
        pytest.param("40", None, "-1", "error", id="negative"),
    ],
)
def test_what_is_consumed(value: str, policy: dict[str, Any] | None, wanted: str | None, expected: str) -> None:
    assert outcome(value, policy, wanted) == expected


@pytest.mark.parametrize(
    ("wanted", "fractional", "expected"),
    [
        pytest.param("600m", True, "750m", id="milli-steps"),
        pytest.param("1", True, "1", id="whole-result-is-written-whole"),
        pytest.param("0.0001", True, "250m", id="below-the-minimum"),
        pytest.param("1.0001", True, "error", id="not-in-milli"),
        pytest.param("600m", False, "1", id="integers-when-off"),
    ],
)
def test_fractional_ranges(wanted: str, fractional: bool, expected: str) -> None:
    policy = {"validRange": {"min": "250m", "step": "250m"}}
    assert outcome("4", policy, wanted, fractional=fractional) == expected


def test_an_unknown_capacity_rules_the_device_out() -> None:
    found = consume({"cores": Quantity.parse("1")}, Capacities({"memory": {"value": "1"}}).parsed(), fractional=False)
    assert found == "has no capacity cores"


def test_steps_from_below_zero_cannot_be_counted_in_milli() -> None:
    policy = {"validRange": {"min": "-5", "step": "5"}}
    assert outcome("80Gi", policy, "500m", fractional=True) == "error"
