"""`drakit driver new`: what it writes works as it stands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from drakit.cli import main
from drakit.driver.scaffold import create


@pytest.mark.slow
def test_new_drivers_own_test_passes(tmp_path: Path) -> None:
    create("my-gpu.example.com", tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_manifests_name_the_driver(tmp_path: Path) -> None:
    create("my-gpu.example.com", tmp_path)
    objects = [o for path in sorted((tmp_path / "deploy").glob("*.yaml")) for o in yaml.safe_load_all(path.read_text())]
    kinds = [o["kind"] for o in objects]
    assert kinds == [
        "DaemonSet",
        "DeviceClass",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ]
    assert not any("@" in path.read_text() for path in tmp_path.rglob("*.yaml"))
    rules = objects[3]["rules"]
    assert {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]} in rules


@pytest.mark.parametrize("name", ["gpu", "GPU.example.com", "../x.y", "a..b", "x" * 64 + ".com"])
def test_bad_names_are_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["driver", "new", name, "--directory", str(tmp_path / "d")]) == 1
    assert "is not a driver name" in capsys.readouterr().err
    assert not (tmp_path / "d").exists()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    create("a.example.com", tmp_path)
    with pytest.raises(Exception, match="exists already"):
        create("a.example.com", tmp_path)
