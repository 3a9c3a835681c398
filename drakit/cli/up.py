"""`drakit up`: a cluster on this machine."""

from __future__ import annotations

import argparse
import asyncio
import errno
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from drakit.cli import options
from drakit.cli.collector import collecting_at_rest
from drakit.cli.running import AlreadyRunning, Process, announce, command, default_folder, occupy

if TYPE_CHECKING:
    from drakit.cli.cluster import Cluster

NEXT = """
Use it from another terminal:
  export KUBECONFIG={kubeconfig}
  kubectl get nodes,deviceclasses,resourceslices
  kubectl get resourceclaims -A -w

Ctrl-C or `{down}` stops it."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "up",
        help="start a cluster on this machine",
        description="Start API server, controllers, scheduler and simulated nodes in one process.",
    )
    options.add_state(parser)
    parser.add_argument("--ephemeral", action="store_true", help="keep nothing: state in memory only")
    parser.add_argument(
        "--nodes", type=options.count, default=2, metavar="N", help="simulated nodes (default 2; 0 for none)"
    )
    parser.add_argument(
        "--profile", default="gb200", help="what they offer: see `drakit profiles` (default gb200), or a file"
    )
    parser.add_argument(
        "--machine",
        nargs="?",
        const="auto",
        default="",
        choices=("auto", "cri", "oci", "process"),
        metavar="RUNTIME",
        help="also make this machine a node that really runs its pods, with the profile's devices simulated "
        "(RUNTIME: auto, cri, oci or process; see `drakit node --check`)",
    )
    parser.add_argument(
        "--pod-seconds", type=options.seconds, default=2.0, metavar="S", help="how long simulated Job pods run"
    )
    parser.add_argument(
        "--port", type=options.port, default=0, help="of the API server on 127.0.0.1 (default: a free one)"
    )
    parser.add_argument(
        "--placement", choices=("spread", "pack"), default="spread", help="fill nodes evenly or one by one"
    )
    parser.add_argument(
        "--runtime-config", default="api/all=true", metavar="SETTINGS", help="API versions (default api/all=true)"
    )
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="where to write it (default: in the state folder)"
    )
    parser.add_argument(
        "--audit-log", type=Path, metavar="FILE", help="append one JSON line per request: who, what, verdict"
    )
    parser.add_argument("--no-scheduler", action="store_true", help="leave scheduling to another one")
    options.add_controllers(parser)
    options.add_gates(parser)
    options.add_logging(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from drakit.apiserver.journal import JournalError

    options.set_up_logging(args.verbose)
    folder: Path = (args.state or default_folder()).absolute()
    try:
        with occupy(folder) as process:
            try:
                options.run_until_stopped(lambda stopped: serve(args, folder, process, stopped))
            finally:
                if not args.kubeconfig:
                    (folder / "kubeconfig").unlink(missing_ok=True)
    except (AlreadyRunning, JournalError) as error:
        raise options.CommandError(str(error)) from error
    except KeyboardInterrupt:
        print("stopped at once", file=sys.stderr)
        return 130
    return 0


async def serve(args: argparse.Namespace, folder: Path, process: Path, stopped: asyncio.Event) -> None:
    began = time.perf_counter()

    def progress(text: str) -> None:
        print(f"{time.perf_counter() - began:5.2f} s  {text}", flush=True)

    cluster = compose(args, folder, progress)
    kubeconfig: Path = (args.kubeconfig or folder / "kubeconfig").absolute()
    async with started(cluster, args.port, stopped) as ready:
        if not ready:
            print("stopped before it was ready", flush=True)
            return
        cluster.write_kubeconfig(kubeconfig)
        url = cluster.server.url
        record = Process(os.getpid(), url, str(kubeconfig), time.time(), args.nodes, args.profile, args.ephemeral)
        announce(process, record)
        progress("ready")
        print(NEXT.format(kubeconfig=kubeconfig, down=command("down", folder)), flush=True)
        ended = asyncio.ensure_future(cluster.wait())
        asked = asyncio.ensure_future(stopped.wait())
        async with collecting_at_rest():
            await asyncio.wait({ended, asked}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if ended.done():
            await ended
        ended.cancel()
        print("stopping", flush=True)


@asynccontextmanager
async def started(cluster: Cluster, port: int, stopped: asyncio.Event) -> AsyncIterator[bool]:
    """The cluster, until the end of the block; False when we were asked to stop before it was ready."""
    starting = asyncio.ensure_future(cluster.__aenter__())
    asked = asyncio.ensure_future(stopped.wait())
    await asyncio.wait({starting, asked}, return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if not starting.done():
        starting.cancel()  # it then stops what it had started
        await asyncio.gather(starting, return_exceptions=True)
        yield False
        return
    try:
        await starting
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES) or error.filename:
            raise
        why = "is in use" if error.errno == errno.EADDRINUSE else "needs root"
        raise options.CommandError(
            f"--port {port}: {why} on 127.0.0.1; choose another, or leave --port out for a free one"
        ) from error
    try:
        yield True
    finally:
        await cluster.__aexit__()


def compose(args: argparse.Namespace, folder: Path, progress: Callable[[str], None]) -> Cluster:
    # Late, so that `drakit --help` and the other commands do not load the whole control plane.
    from drakit.cli.cluster import Cluster, Options
    from drakit.drivers.profiles import ProfileError
    from drakit.scheduler import Policy

    settings = Options(
        data=None if args.ephemeral else folder / "data",
        port=args.port,
        nodes=args.nodes,
        profile=args.profile,
        machine=args.machine,
        pod_seconds=args.pod_seconds,
        gates=options.parse_gates(args.feature_gates),
        runtime_config=options.parse_runtime_config(args.runtime_config),
        policy=Policy(placement=args.placement),
        scheduler=not args.no_scheduler,
        controllers=tuple(options.parse_controllers(args.controllers)),
        audit_log=args.audit_log,
    )
    try:
        return Cluster(settings, progress=progress)
    except ProfileError as error:
        raise options.CommandError(f"--profile: {error}") from error
