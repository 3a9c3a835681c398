"""Profiles: placeholders, loops, splitting into slices; and all that come with drakit are accepted by the API."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from drakit.api import registry, strategy
from drakit.api.gates import FeatureGates
from drakit.api.kind import WriteContext
from drakit.cel.device import ApiExpressionChecker
from drakit.drivers.profiles import Profile, ProfileError, load, names


def profile(**content: Any) -> Profile:
    return Profile.parse(content, "test")


def pool(*devices: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"driver": "d.example.com", "devices": list(devices), **more}


def test_loops_and_placeholders() -> None:
    device = {
        "for": {"card": 2, "port": ["a", "b"]},
        "name": "p-{card}-{port}",
        "attributes": {"root": {"string": "{card+4:02x}"}},
    }
    (slice_,) = profile(pools=[pool(device)]).slices("node-7", 7)
    devices = slice_["spec"]["devices"]
    assert [d["name"] for d in devices] == ["p-0-a", "p-0-b", "p-1-a", "p-1-b"]
    assert devices[2]["attributes"]["root"] == {"string": "05"}
    assert slice_["spec"]["pool"] == {"name": "node-7", "generation": 1, "resourceSliceCount": 1}


def test_a_uuid_is_stable_and_differs_between_nodes() -> None:
    made = profile(pools=[pool({"name": "g", "attributes": {"uuid": {"string": "{uuid}"}}})])

    def uuid(node: str) -> str:
        return str(made.slices(node)[0]["spec"]["devices"][0]["attributes"]["uuid"]["string"])

    assert uuid("a") == uuid("a")
    assert uuid("a") != uuid("b")


@pytest.mark.parametrize(
    ("more", "sizes"), [({}, [128, 72]), ({"taints": [{"key": "k", "effect": "NoSchedule"}]}, [64, 64, 64, 8])]
)
def test_a_pool_is_split_by_the_limits_of_a_slice(more: dict[str, Any], sizes: list[int]) -> None:
    slices = profile(pools=[pool({"for": {"i": 200}, "name": "d-{i}", **more})]).slices("n")
    assert [len(s["spec"]["devices"]) for s in slices] == sizes
    assert {s["spec"]["pool"]["resourceSliceCount"] for s in slices} == {len(sizes)}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"devices": []}, "unknown keys devices"),
        ({"pools": [{"devices": []}]}, r"pools\[0\].driver: Required value"),
        ({"pools": [{"driver": "d", "devices": [{}]}]}, r"pools\[0\].devices\[0\].name: Required value"),
    ],
)
def test_mistakes_in_a_profile_are_located(content: dict[str, Any], text: str) -> None:
    with pytest.raises(ProfileError, match=text):
        profile(**content)


def test_an_unknown_placeholder_is_told() -> None:
    with pytest.raises(ProfileError, match="there is no variable gpu; here there are index, node"):
        profile(pools=[pool({"name": "{gpu}"})]).slices("n")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param({"pools": [pool({"name": "{gpu}"})]}, "{gpu}: there is no variable gpu", id="placeholder"),
        pytest.param({"pools": [pool({"name": "Gpu_0"})]}, "spec.devices[0].name: Invalid value", id="name"),
        pytest.param({"pools": [pool({"name": "d", "atributes": {}})]}, 'unknown field "spec.devices[0].atributes"', id="field"),
        pytest.param({"classes": [{"spec": {}}]}, "name or generateName is required", id="class"),
        pytest.param({"node": {"labels": {"a b": "c"}}}, "metadata.labels: Invalid value", id="label"),
        pytest.param({"pools": [pool({"name": "d", "capacity": {"m": {"value": "x"}}})]}, "quantities must match", id="amount"),
    ],
)  # fmt: skip
def test_what_an_api_server_would_refuse_is_told_when_the_profile_is_read(
    tmp_path: Path, content: dict[str, Any], text: str
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({"name": "mine", **content}))
    with pytest.raises(ProfileError) as refused:
        load(str(path))
    assert str(refused.value).startswith(f"profile {path}: ")
    assert text in str(refused.value)


def test_a_profile_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    alpha = {"name": "d", "attributes": {"links": {"strings": ["a", "b"]}}}
    path.write_text(yaml.safe_dump({"name": "mine", "pools": [pool(alpha)]}))
    assert load(str(path)).drivers == ["d.example.com"]


@pytest.mark.parametrize("name", names())
def test_what_comes_with_drakit_is_valid(name: str) -> None:
    made = load(name)
    context = WriteContext(FeatureGates.default(), datetime(2026, 1, 1, tzinfo=UTC), ApiExpressionChecker())
    for obj in [*made.device_classes(), *made.slices("node-1", 1, uid="u")]:
        kind, version = registry.by_api_version(obj["apiVersion"], obj["kind"]) or (None, "")
        assert kind is not None
        decoded = strategy.decode(kind, version, obj)
        assert not decoded.unknown_fields
        decoded.obj["metadata"].setdefault("uid", "x")
        strategy.create(kind, decoded.obj, context)


def test_partitions_of_a_gpu_share_its_counters() -> None:
    counters, devices = load("a100-mig").slices("n")
    assert [c["name"] for c in counters["spec"]["sharedCounters"]] == [f"gpu-{i}-counters" for i in range(4)]
    small = [d for d in devices["spec"]["devices"] if d["attributes"].get("profile") == {"string": "1g.5gb"}]
    assert len(small) == 28
    assert all(len(d["consumesCounters"]) == 1 for d in devices["spec"]["devices"])
