"""`drakit up` as a process: it says what to type next, answers, keeps its state, and goes when told to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

READY = 60.0  # far more than it takes; a busy machine must not fail the test


def drakit(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "drakit.cli", *args], capture_output=True, text=True, timeout=READY)


@contextmanager
def up(folder: Path, *args: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "drakit.cli", "up", "--state", str(folder), *args]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ})
    try:
        deadline = time.monotonic() + READY
        while not (folder / "process.json").exists():
            assert process.poll() is None, process.stdout.read() if process.stdout else ""
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def status(folder: Path) -> dict[str, object]:
    done = drakit("status", "--state", str(folder), "-o", "json")
    assert done.returncode == 0, done.stderr
    value: dict[str, object] = json.loads(done.stdout)
    return value


def test_up_says_what_to_type_and_ctrl_c_stops_it(tmp_path: Path) -> None:
    with up(tmp_path, "--ephemeral", "--nodes", "3", "--profile", "dgx-h100") as process:
        seen = status(tmp_path)
        assert seen["nodes"] == 3
        assert seen["devices"] == {"published": 48, "held": 0}
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=READY)
        assert process.returncode == 0
        assert f"export KUBECONFIG={tmp_path}/kubeconfig" in text
        assert "ready" in text
        assert "Traceback" not in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lock"]
    assert drakit("status", "--state", str(tmp_path)).returncode == 3


def test_down_stops_it_from_elsewhere_and_state_is_kept(tmp_path: Path) -> None:
    with up(tmp_path, "--nodes", "1") as process:
        first = status(tmp_path)
        assert drakit("down", "--state", str(tmp_path)).stdout == "stopped\n"
        assert process.wait(READY) == 0
    with up(tmp_path, "--nodes", "0") as process:
        again = status(tmp_path)
        assert again["nodes"] == first["nodes"] == 1
        assert again["devices"] == first["devices"]
        process.terminate()
        assert process.wait(READY) == 0


def test_a_second_cluster_in_one_folder_is_refused(tmp_path: Path) -> None:
    with up(tmp_path, "--ephemeral", "--nodes", "0"):
        refused = drakit("up", "--state", str(tmp_path), "--ephemeral")
        assert refused.returncode == 1
        assert "drakit down" in refused.stderr
