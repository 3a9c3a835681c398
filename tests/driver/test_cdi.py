"""CDI specs: what is valid, what version they need, how ids resolve to edits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drakit.driver import cdi
from drakit.driver.errors import CdiError
from drakit.driver.injection import CdiCache


def spec(**edits: Any) -> dict[str, Any]:
    return {"cdiVersion": "1.1.0", "kind": "vendor.com/gpu", "devices": [{"name": "gpu-0", "containerEdits": edits}]}


@pytest.mark.parametrize("name", ["vendor.com/gpu=0", "v/c=a:b-1", "k8s.gpu.example.com/gpu=uid-gpu-0"])
def test_valid_names(name: str) -> None:
    assert str(cdi.parse_name(name)) == name


@pytest.mark.parametrize("name", ["", "vendor/gpu", "1v/c=d", "v/c=", "v/c=-a", "v=c/d", "v/c=a/b", "v/c=é"])
def test_invalid_names(name: str) -> None:
    with pytest.raises(CdiError):
        cdi.parse_name(name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cdiVersion": "9.9.9"}, "is not one of"),
        ({"kind": "gpu"}, "not of the form vendor/class"),
        ({"devices": []}, "no devices"),
        ({"surprise": 1}, "unknown field 'surprise'"),
        ({"devices": [{"name": "a"}, {"name": "a"}]}, "listed twice"),
        ({"devices": [{"name": "-"}]}, "is invalid"),
        (spec(env=["NOVALUE"]), "not NAME=VALUE"),
        (spec(deviceNodes=[{"path": "/d", "type": "x"}]), "not b, c, u or p"),
        (spec(deviceNodes=[{"path": "/d", "permissions": "rx"}]), "not from rwm"),
        (spec(mounts=[{"hostPath": "/a"}]), "needs hostPath and containerPath"),
        (spec(hooks=[{"hookName": "sometime", "path": "/x"}]), "hook name"),
        (spec(hooks=[{"hookName": "prestart", "path": "x"}]), "not absolute"),
        (
            {"cdiVersion": "0.3.0", **{k: v for k, v in spec(additionalGids=[5]).items() if k != "cdiVersion"}},
            "at least 0.7.0",
        ),
    ],
)
def test_invalid_specs(change: dict[str, Any], message: str) -> None:
    with pytest.raises(CdiError, match=message):
        cdi.check({**spec(env=["A=b"]), **change})


@pytest.mark.parametrize(
    ("edits", "version"),
    [
        ({"env": ["A=b"]}, "0.3.0"),
        ({"mounts": [{"hostPath": "/a", "containerPath": "/a", "type": "bind"}]}, "0.4.0"),
        ({"deviceNodes": [{"path": "/a", "hostPath": "/b"}]}, "0.5.0"),
        ({"additionalGids": [1]}, "0.7.0"),
        ({"netDevices": [{"hostInterfaceName": "a", "name": "b"}]}, "1.1.0"),
        ({"intelRdt": {"schemata": ["x"]}}, "1.1.0"),
    ],
)
def test_minimum_version(edits: dict[str, Any], version: str) -> None:
    assert cdi.minimum_version(spec(**edits)) == version


def test_resolution_merges_in_order_and_spec_edits_apply_once(tmp_path: Path) -> None:
    body = {
        "kind": "v.com/gpu",
        "containerEdits": {"env": ["COMMON=1"]},
        "devices": [
            {"name": "a", "containerEdits": {"env": ["X=a"], "mounts": [{"hostPath": "/1", "containerPath": "/m"}]}},
            {
                "name": "b",
                "containerEdits": {
                    "env": ["X=b"],
                    "mounts": [{"hostPath": "/2", "containerPath": "/m"}],
                    "additionalGids": [7, 0],
                },
            },
        ],
    }
    cdi.write(tmp_path, "v", body)
    edits = CdiCache((tmp_path,)).resolve(["v.com/gpu=a", "v.com/gpu=b", "v.com/gpu=a"])
    assert edits.env == ["COMMON=1", "X=a", "X=b"]
    assert [m["hostPath"] for m in edits.mounts] == ["/2"]
    assert edits.additional_gids == [7]


def test_later_directory_wins_and_conflicts_are_unusable(tmp_path: Path) -> None:
    low, high = tmp_path / "etc", tmp_path / "run"
    cdi.write(low, "a", {**spec(env=["FROM=etc"]), "cdiVersion": ""})
    cache = CdiCache((low, high))
    assert cache.resolve(["vendor.com/gpu=gpu-0"]).env == ["FROM=etc"]
    cdi.write(high, "a", {**spec(env=["FROM=run"]), "cdiVersion": ""})
    assert cache.resolve(["vendor.com/gpu=gpu-0"]).env == ["FROM=run"]
    cdi.write(high, "b", {**spec(env=["FROM=both"]), "cdiVersion": ""})
    with pytest.raises(CdiError, match="is defined twice"):
        cache.resolve(["vendor.com/gpu=gpu-0"])


def test_missing_device_and_broken_file_are_named(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text(json.dumps({"cdiVersion": "0.3.0"}))
    with pytest.raises(CdiError, match=r"unresolvable CDI devices v.com/gpu=x .*broken.json: kind None"):
        CdiCache((tmp_path,)).resolve(["v.com/gpu=x"])


def test_yaml_specs_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "cdiVersion: 0.5.0\nkind: v.com/nic\ndevices:\n- name: n0\n  containerEdits: {env: [NIC=n0]}\n"
    )
    assert CdiCache((tmp_path,)).resolve(["v.com/nic=n0"]).env == ["NIC=n0"]


def test_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    cdi.write(tmp_path, "a", {**spec(env=["A=1"]), "cdiVersion": ""})
    with pytest.raises(CdiError):
        cdi.write(tmp_path, "a", {**spec(env=["bad"]), "cdiVersion": ""})
    assert CdiCache((tmp_path,)).resolve(["vendor.com/gpu=gpu-0"]).env == ["A=1"]
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("name", ["../evil", "a/b", "x" * 300, "ü"])
def test_spec_file_names_are_checked(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="file name"):
        cdi.write(tmp_path, name, spec(env=["A=b"]))
    assert list(tmp_path.iterdir()) == []
