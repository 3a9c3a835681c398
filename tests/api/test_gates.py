from __future__ import annotations

import pytest

from drakit.api import gates
from drakit.api.gates import FeatureGates, GateError


def test_defaults_are_those_of_1_37() -> None:
    default = FeatureGates.default()
    for name in ("DynamicResourceAllocation", "DRADeviceTaints", "DRAConsumableCapacity", "DRAPartitionableDevices"):
        assert default.enabled(name)
    for name in (
        "DRAListTypeAttributes",
        "DRADerivedAttributes",
        "DRAResourcePoolStatus",
        "DRAFractionalCapacityRange",
    ):
        assert not default.enabled(name)


def test_parse_takes_what_feature_gates_takes() -> None:
    parsed = FeatureGates.parse(" DRAListTypeAttributes=true, DRADeviceTaints=F ")
    assert parsed.enabled("DRAListTypeAttributes")
    assert not parsed.enabled("DRADeviceTaints")
    assert FeatureGates.parse(str(parsed)) == parsed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Nope=true", "unrecognized feature gate: Nope"),
        ("DRADeviceTaints", "missing bool value for DRADeviceTaints"),
        ("DRADeviceTaints=maybe", "invalid value of DRADeviceTaints=maybe"),
        ("DRAAdminAccess=false", "cannot set feature gate DRAAdminAccess to false, feature is locked to true"),
        ("DRAPartitionableDevices=false,DRADeviceCompatibilityGroups=true", "depends on features that are disabled"),
    ],
)
def test_refuses_in_kubernetes_words(text: str, message: str) -> None:
    with pytest.raises(GateError, match=message):
        FeatureGates.parse(text)


def test_what_needs_a_disabled_gate_is_off_too() -> None:
    parsed = FeatureGates.parse("DynamicResourceAllocation=false")
    assert not any(
        parsed.enabled(name) for name in gates.GATES if "DynamicResourceAllocation" in gates.GATES[name].needs
    )
    assert not parsed.enabled("DRADeviceTaintRules")


def test_all_alpha_turns_on_alpha_only() -> None:
    parsed = FeatureGates.parse("AllAlpha=true,AllBeta=false")
    assert parsed.enabled("DRAResourcePoolStatus")
    assert not parsed.enabled("DRAWorkloadResourceClaims")


def test_every_need_is_a_gate() -> None:
    assert {need for gate in gates.GATES.values() for need in gate.needs} <= set(gates.GATES)


def test_an_unknown_name_is_a_mistake_in_the_code() -> None:
    with pytest.raises(GateError):
        FeatureGates.default().enabled("DRATypo")
