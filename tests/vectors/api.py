"""The API vectors: replay recorded requests against our server and compare the answers.

With the recorded scripts at hand their own `replay.py` does the work; a clone without them runs our small selection in
tests/data/api with the same runner's rules, in `tests/vectors/api_runner.py`.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import tempfile
import threading
from argparse import Namespace
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.vectors import DATA, SHARED, Outcome

# The scripts that an API server answers by itself; lifecycle needs the scheduler and the controllers too.
ALONE = ("crud", "discovery", "versions", "defaulting", "validation", "seeds")


@contextmanager
def running_server(**settings: Any) -> Iterator[Path]:
    """A server in a thread of its own, with the controllers if there are any; gives the path of its kubeconfig."""
    from drakit.apiserver.kubeconfig import write_kubeconfig
    from drakit.apiserver.server import Server, Settings

    ready, stop = threading.Event(), asyncio.Event()
    state: dict[str, Any] = {}

    async def serve(path: Path) -> None:
        server = Server(Settings(**settings))
        await server.start()
        write_kubeconfig(path, server.kubeconfig())
        state["loop"] = asyncio.get_running_loop()
        background = _controllers(server)
        ready.set()
        await stop.wait()
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        await server.stop()

    def run(path: Path) -> None:
        try:
            asyncio.run(serve(path))
        except BaseException as error:
            state["error"] = error
            ready.set()
            raise

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kubeconfig"
        thread = threading.Thread(target=run, args=(path,), daemon=True)
        thread.start()
        ready.wait(30)
        if "error" in state:
            raise RuntimeError("the server did not start") from state["error"]
        try:
            yield path
        finally:
            state["loop"].call_soon_threadsafe(stop.set)
            thread.join(20)


def _controllers(server: Any) -> list[asyncio.Task[None]]:
    """Namespaces, garbage and service accounts are the controllers' work; some scripts wait for it."""
    from drakit.apiserver.auth import ADMIN
    from drakit.apiserver.local import LocalTransport

    try:
        from drakit.client.client import Client
        from drakit.client.informers import Informers
        from drakit.controllers import runner
    except ImportError:
        return []
    client = Client(LocalTransport(server, ADMIN, agent="kube-controller-manager"))
    informers = Informers(client)
    return [asyncio.get_running_loop().create_task(runner.run(client, informers, server.context.clock))]


def _replay_module() -> ModuleType:
    path = SHARED / "api" / "replay.py"
    if not path.exists():
        path = DATA / "api" / "replay.py"
    spec = importlib.util.spec_from_file_location("api_replay", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(files: list[Path], level: str | None, *, jobs: int = 4, only: str = "") -> Outcome:
    folder = SHARED / "api" if (SHARED / "api").exists() else DATA / "api"
    chosen = files or [folder / f"{name}.jsonl" for name in ALONE if (folder / f"{name}.jsonl").exists()]
    scripts = [json.loads(line) for path in chosen for line in path.read_text().splitlines() if line.strip()]
    if only:
        import fnmatch

        scripts = [script for script in scripts if fnmatch.fnmatchcase(script["id"], only)]
    outcome = Outcome()
    replay = _replay_module()
    with running_server() as kubeconfig:
        client = replay.Client(replay.Config(str(kubeconfig)))
        runner = replay.Runner(client, Namespace(level=level or "body", max_wait=20, verbose=False))
        with ThreadPoolExecutor(jobs) as pool:
            for script, (step, failure, _) in zip(
                scripts, pool.map(lambda script: runner.run(script, False), scripts), strict=True
            ):
                _count(replay, outcome, script, step, failure)
        runner.close()
    return outcome


def _count(replay: ModuleType, outcome: Outcome, script: dict[str, Any], step: int | None, failure: Any) -> None:
    if failure is None:
        outcome.passed += 1
    elif isinstance(failure, replay.Skip):
        outcome.notes.append(f"skipped {script['id']}: {failure}")
    else:
        what, expected, actual = failure
        title = script["steps"][step or 0]
        where = f"{title.get('method')} {title.get('path')}"
        outcome.mismatches.append(
            f"{script['id']} step {step} ({where}): {what}\n    expected {replay.short(expected)}\n    actual   {replay.short(actual)}"
        )
