"""A cluster with simulated GB200 nodes in a thread of its own, and kubectl against it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml

from drakit.cli.cluster import Cluster, Options

WAIT = 20.0
_names = count(1)


class Running:
    """Runs a Cluster on another thread's event loop."""

    def __init__(self, options: Options, folder: Path) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self._options = options
        self._ready = threading.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with Cluster(self._options) as cluster:
                cluster.write_kubeconfig(self.kubeconfig)
                self._ready.set()
                await self._stop.wait()
        except BaseException as error:
            self._failed = error
            self._ready.set()
            raise

    def __enter__(self) -> Running:
        self._thread.start()
        self._ready.wait(WAIT)
        if self._failed is not None:
            raise self._failed
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(WAIT)


class Kubectl:
    """kubectl in a namespace of its own."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self.kubeconfig, self.namespace = kubeconfig, namespace

    def __call__(self, *args: str, stdin: str = "", fails: bool = False) -> str:
        command = ["kubectl", "--kubeconfig", str(self.kubeconfig), "-n", self.namespace, *args]
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=60, env=_clean_environment()
        )
        if fails:
            assert done.returncode, f"{' '.join(args)} worked: {done.stdout}"
            return done.stderr
        assert done.returncode == 0, f"{' '.join(args)}: {done.stderr}"
        return done.stdout

    def apply(self, *objects: dict[str, Any], **options: Any) -> str:
        return self("apply", "-f", "-", stdin=yaml.safe_dump_all(objects), **options)

    def get(self, what: str, *names: str) -> Any:
        return json.loads(self("get", what, *names, "-o", "json"))

    def until(self, holds: Callable[[], Any], what: str) -> Any:
        deadline = time.monotonic() + WAIT
        while not (value := holds()):
            assert time.monotonic() < deadline, (
                f"waited for: {what}\n{self('get', 'pods,resourceclaims', '-o', 'yaml')[-3000:]}"
            )
            time.sleep(0.05)
        return value

    def states(self) -> dict[str, str]:
        """STATE of every claim, as `kubectl get resourceclaims` prints it."""
        lines = self("get", "resourceclaims", "--no-headers").splitlines()
        return {line.split()[0]: line.split()[1] for line in lines}

    def running(self, *names: str) -> None:
        for name in names:
            self.until(
                lambda name=name: self.get("pod", name)["status"].get("phase") == "Running", f"pod {name} Running"
            )

    def devices(self, claim: str) -> list[str]:
        results = self.get("resourceclaim", claim)["status"]["allocation"]["devices"]["results"]
        return [f"{r['pool']}/{r['device']}" for r in results]

    def condition(self, pod: str) -> dict[str, Any]:
        conditions = self.get("pod", pod)["status"].get("conditions") or []
        return next((c for c in conditions if c["type"] == "PodScheduled"), {})


def _clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.upper().endswith("_PROXY")}


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed: make system")
    with Running(Options(nodes=3, profile="gb200", pod_seconds=0.3), tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def kubectl(cluster: Running) -> Iterator[Kubectl]:
    namespace = f"walk-{next(_names)}"
    tool = Kubectl(cluster.kubeconfig, namespace)
    tool("create", "namespace", namespace)
    tool.until(
        lambda: tool("get", "serviceaccounts", "--no-headers", "--ignore-not-found"), "the default service account"
    )
    yield tool
    tool("delete", "pods", "--all", "--grace-period=0", "--force")
    tool("delete", "resourceclaims", "--all")
    tool.until(lambda: not tool.states(), "all claims gone")
    tool("delete", "namespace", namespace, "--wait=false")
