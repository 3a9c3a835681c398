"""The API vectors: replay recorded requests against our server and compare the answers.

The recorded scripts come with their own `replay.py`, which does the work. A clone without them runs our small selection
(tests/data/api/scripts.jsonl, the same form) with the reader in `tests/vectors/api_replay.py`.
The server is a whole cluster without nodes, as when the answers were recorded: API server, controllers, scheduler.
"""

from __future__ import annotations

import asyncio
import fnmatch
import gc
import importlib.util
import json
import tempfile
import threading
import warnings
from argparse import Namespace
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.vectors import DATA, SHARED, Outcome

# What an API server answers by itself; `lifecycle` is about the scheduler and the controllers.
ALONE = ("crud", "discovery", "versions", "defaulting", "validation", "seeds")
# The answers were recorded without it: nodes are objects there, nobody reports for them.
LEFT_OUT = ("node-lifecycle-controller",)


@contextmanager
def running_cluster() -> Iterator[Path]:
    """A cluster in a thread of its own; gives the path of its kubeconfig."""
    from drakit.apiserver.kubeconfig import write_kubeconfig
    from drakit.cli.cluster import Cluster, Options
    from drakit.controllers import runner

    ready = threading.Event()
    state: dict[str, Any] = {}
    controllers = tuple(name for name in runner.NAMES if name not in LEFT_OUT)

    async def serve(path: Path) -> None:
        stop = asyncio.Event()
        async with Cluster(Options(controllers=controllers)) as cluster:
            write_kubeconfig(path, cluster.server.kubeconfig())
            state.update(loop=asyncio.get_running_loop(), stop=stop)
            ready.set()
            await stop.wait()

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
        ready.wait(60)
        if "error" in state:
            raise RuntimeError("the cluster did not start") from state["error"]
        try:
            yield path
        finally:
            state["loop"].call_soon_threadsafe(state["stop"].set)
            thread.join(60)


def replay_module() -> ModuleType:
    """The vectors' own runner, or ours which reads the same form."""
    path = SHARED / "api" / "replay.py"
    if not path.exists():
        from tests.vectors import api_replay

        return api_replay
    spec = importlib.util.spec_from_file_location("api_replay_recorded", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def scripts(files: list[Path]) -> list[dict[str, Any]]:
    chosen = files or [SHARED / "api" / f"{name}.jsonl" for name in ALONE]
    chosen = [path for path in chosen if path.exists()] or [DATA / "api" / "scripts.jsonl"]
    return [json.loads(line) for path in chosen for line in path.read_text().splitlines() if line.strip()]


def check(files: list[Path], level: str | None, *, jobs: int = 4, only: str = "*", max_wait: float = 60) -> Outcome:
    chosen = [script for script in scripts(files) if fnmatch.fnmatchcase(script["id"], only)]
    options = Namespace(level=level or "body", max_wait=max_wait, verbose=False)
    with warnings.catch_warnings(), running_cluster() as kubeconfig:
        warnings.simplefilter("ignore", ResourceWarning)  # the recorded runner leaves its connections to the collector
        outcome = _replayed(chosen, kubeconfig, options, jobs)
        gc.collect()
    return outcome


def _replayed(chosen: list[dict[str, Any]], kubeconfig: Path, options: Namespace, jobs: int) -> Outcome:
    outcome = Outcome()
    replay = replay_module()
    runner = replay.Runner(replay.Client(replay.Config(str(kubeconfig))), options)
    with ThreadPoolExecutor(jobs) as pool:
        results = pool.map(lambda script: runner.run(script, False), chosen)
        for script, (step, failure, _) in zip(chosen, results, strict=True):
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
        failed = script["steps"][step or 0]
        outcome.mismatches.append(
            f"{script['id']} step {step} ({failed.get('method')} {failed.get('path')}): {what}\n"
            f"    expected {replay.short(expected)}\n    actual   {replay.short(actual)}"
        )
