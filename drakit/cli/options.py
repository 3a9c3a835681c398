"""Arguments that several commands share, and what becomes of them."""

from __future__ import annotations

import argparse
import asyncio
import difflib
import logging
import math
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drakit.cli.running import default_folder

# What is heavy to import comes late, in the functions that need it: `drakit --help` answers at once.
if TYPE_CHECKING:
    from drakit.api.gates import FeatureGates
    from drakit.api.registry import RuntimeConfig
    from drakit.client import Client

__all__ = [
    "CommandError",
    "add_controllers",
    "add_gates",
    "add_kubeconfig",
    "add_logging",
    "add_state",
    "connect",
    "count",
    "parse_controllers",
    "parse_gates",
    "parse_runtime_config",
    "port",
    "run_until_stopped",
    "seconds",
    "set_up_logging",
]


class CommandError(Exception):
    """What a user can put right: printed without a traceback, exit code 1."""


def count(text: str) -> int:
    return _number(text, 1_000_000)


def port(text: str) -> int:
    return _number(text, 65535)


def _number(text: str, most: int) -> int:
    if not text.isdecimal() or int(text) > most:
        raise argparse.ArgumentTypeError(f"{text}: must be a whole number from 0 to {most}")
    return int(text)


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"{text}: must be a number of seconds, 0 or more")
    return value


def add_kubeconfig(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="which cluster: default $KUBECONFIG, ~/.kube/config, or the service account inside a pod",
    )
    parser.add_argument("--context", default="", help="context of the kubeconfig")


def add_state(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state",
        type=Path,
        metavar="DIR",
        help=f"folder of the cluster (default {default_folder()}; also $DRAKIT_STATE)",
    )


def add_gates(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--feature-gates", default="", metavar="A=true,B=false", help="as Kubernetes' flag of that name"
    )


def add_controllers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--controllers",
        default="*",
        metavar="NAMES",
        help="which to run, as kube-controller-manager's flag: '*' all, 'a,b' these, '*,-a' all but a (default '*'); "
        "none: --controllers=-*",
    )


def parse_controllers(text: str) -> list[str]:
    from drakit.controllers import runner

    chosen: dict[str, None] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name = part.removeprefix("-")
        if name != "*" and name not in runner.NAMES:
            raise CommandError(f"--controllers: there is no {name}; there are {', '.join(runner.NAMES)}")
        if part == "*":
            chosen.update(dict.fromkeys(runner.NAMES))
        elif part.startswith("-"):
            chosen.pop(name, None)
        else:
            chosen[name] = None
    return list(chosen)


def add_logging(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-v", "--verbose", action="count", default=0, help="log more; twice for everything")


def parse_gates(text: str) -> FeatureGates:
    from drakit.api.gates import GATES, FeatureGates, GateError

    try:
        return FeatureGates.parse(text) if text else FeatureGates.default()
    except GateError as error:
        raise CommandError(f"--feature-gates: {error}; {_hint(text, GATES)}") from error


def _hint(text: str, known: Iterable[str]) -> str:
    """Write it as Kubernetes does, and perhaps with the name that was meant."""
    names = {part.partition("=")[0].strip() for part in text.split(",")}
    near = {name: difflib.get_close_matches(name, known, 1) for name in names - set(known)}
    meant = [f"{found[0]} for {name}" for name, found in near.items() if found]
    return (
        f"did you mean {', '.join(meant)}? " if meant else ""
    ) + "write Name=true,Other=false; docs/feature-gates.md has the names"


def parse_runtime_config(text: str) -> RuntimeConfig:
    from drakit.api.registry import KINDS, RuntimeConfig

    groups = {kind.group for kind in KINDS if kind.group} | {"api", "v1"}
    for name in (part.partition("=")[0].strip() for part in text.split(",")):
        if name and name.partition("/")[0] not in groups:
            raise CommandError(
                f"--runtime-config: unknown API group in {name!r}; write api/all=true, or GROUP/VERSION=true with one of "
                + ", ".join(sorted(groups - {"api", "v1"}))
            )
    try:
        return RuntimeConfig.parse(text)
    except ValueError as error:
        raise CommandError(f"--runtime-config: {error}") from error


def set_up_logging(verbose: int) -> None:
    level = {0: logging.WARNING, 1: logging.INFO}.get(verbose, logging.DEBUG)
    logging.basicConfig(level=level, format="%(asctime)s %(levelname).1s %(name)s: %(message)s", stream=sys.stderr)


def connect(args: argparse.Namespace, agent: str) -> Client:
    """A client over HTTP for --kubeconfig and --context."""
    # Late: `drakit up` and the help of any command do without an HTTP client, which takes long to import.
    from drakit.client import Client
    from drakit.client.http import HttpTransport
    from drakit.client.kubeconfig import KubeconfigError, in_cluster, load

    try:
        inside = not args.kubeconfig and not os.environ.get("KUBECONFIG") and "KUBERNETES_SERVICE_HOST" in os.environ
        access = in_cluster() if inside else load(args.kubeconfig, context=args.context)
    except (KubeconfigError, OSError) as error:
        raise CommandError(str(error)) from error
    return Client(HttpTransport(access, user_agent=agent))


def run_until_stopped(work: Callable[[asyncio.Event], Awaitable[Any]]) -> Any:
    """Run on uvloop; the event is set by the first Ctrl-C or SIGTERM, a second Ctrl-C ends it at once."""
    import uvloop

    async def main() -> Any:
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()

        def ask() -> None:
            if stopped.is_set():
                raise KeyboardInterrupt
            stopped.set()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, ask)
        return await work(stopped)

    return uvloop.run(main())
