"""kill -9 under concurrent writers: what was acknowledged is there, versions go on, the start looks at each object once."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from drakit.apiserver.journal import Change, Journal
from tests import effort
from tests.apiserver.serving import claim, local_server, run


def rounds(folder: Path, count: int, seed: int) -> None:
    dice = random.Random(seed)
    newest = 0
    stored: dict[str, int] = {}
    for number in range(count):
        lines = crash(folder, number, dice.uniform(0.05, 0.6))
        assert lines, "the writers did not get to write"
        newest = check(folder, stored, lines, newest)


def crash(folder: Path, number: int, seconds: float) -> list[str]:
    """Let writers run, kill them, and return what they said."""
    command = [sys.executable, "-m", "tests.apiserver.crash_writer", str(folder), str(number)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        first = process.stdout.readline()  # the clock runs from the first write, however slow the machine is
        killer = threading.Timer(seconds, process.send_signal, (signal.SIGKILL,))
        killer.start()
        lines = [first, *process.stdout.read().splitlines(keepends=True)]
    return [line.rstrip() for line in lines if line.endswith("\n")]  # the last one may be cut


def check(folder: Path, stored: dict[str, int], lines: list[str], newest: int) -> int:
    uncertain: set[str] = set()
    for line in lines:
        mark, name, *version = line.split()
        uncertain.discard(name)
        if mark == "?":
            uncertain.add(name)
        elif mark == "-":
            stored.pop(name, None)
        else:
            stored[name] = int(version[0])

    async def scenario() -> int:
        async with local_server(data=folder) as local:
            listing = (await local.request("GET")).body
            found = {item["metadata"]["name"]: int(item["metadata"]["resourceVersion"]) for item in listing["items"]}
            version = int(listing["metadata"]["resourceVersion"])
            assert version >= newest
            for name, acknowledged in stored.items():
                # A write under way may have got through as well: newer is fine, older or missing is a loss.
                assert name in uncertain or found.get(name, 0) >= acknowledged, name
            after = await local.create(claim(f"check-{version}"))
            assert int(after["metadata"]["resourceVersion"]) > version
            stored.clear()
            stored.update(found)
            return int(after["metadata"]["resourceVersion"])

    return run(scenario())


@pytest.mark.slow
def test_three_crashes_lose_nothing(tmp_path: Path) -> None:
    rounds(tmp_path / "data", 3, seed=1)


@pytest.mark.long
def test_fifty_crashes_lose_nothing(tmp_path: Path) -> None:
    rounds(tmp_path / "data", 50, seed=2)


@pytest.mark.slow
def test_twenty_thousand_objects_are_all_back_with_work_for_each_once(tmp_path: Path) -> None:
    async def one() -> dict[str, Any]:
        async with local_server(data=tmp_path) as local:
            return await local.create(claim("c0"))

    obj = run(one())
    version = int(obj["metadata"]["resourceVersion"])
    rows = []
    for number in range(1, 20_000):
        meta = {**obj["metadata"], "name": f"c{number}", "resourceVersion": str(version + number)}
        body = json.dumps({"metadata": meta, "spec": obj["spec"], "status": obj["status"]}).encode()
        rows.append(Change("resourceclaims.resource.k8s.io", f"default/c{number}", version + number, body))
    journal = Journal(tmp_path / "state.db")
    journal._commit(rows, version + 20_000)
    journal.close()

    async def names() -> list[str]:
        async with local_server(data=tmp_path) as local:
            return [item["metadata"]["name"] for item in (await local.request("GET")).body["items"]]

    started = effort.Bytecodes("apiserver")
    with started.on():
        found = run(names())
    assert found == sorted(f"c{number}" for number in range(20_000))
    assert started.count < 500 * len(found)  # about 310 each
