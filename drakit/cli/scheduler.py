"""`drakit scheduler`: the scheduler alone, against any cluster."""

from __future__ import annotations

import argparse
import asyncio
import os
import socket

from drakit.cli import options
from drakit.cli.collector import collecting_at_rest
from drakit.cli.metrics_port import add_metrics_port, serving


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "scheduler",
        help="run the scheduler against a cluster",
        description="Place the pods whose spec.schedulerName is --scheduler-name, claims and devices included.",
    )
    options.add_kubeconfig(parser)
    parser.add_argument("--scheduler-name", default="drakit", help="which pods are ours (default drakit)")
    parser.add_argument(
        "--placement", choices=("spread", "pack"), default="spread", help="fill nodes evenly or one by one"
    )
    parser.add_argument(
        "--leader-elect", action="store_true", help="run several, of which one works (a Lease in kube-system)"
    )
    add_metrics_port(parser)
    options.add_gates(parser)
    options.add_logging(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    options.set_up_logging(max(args.verbose, 1))
    gates = options.parse_gates(args.feature_gates)
    client = options.connect(args, f"drakit-scheduler/{args.scheduler_name}")

    async def serve(stopped: asyncio.Event) -> None:
        from drakit.client import Informers, lead
        from drakit.metrics import Registry
        from drakit.scheduler import Policy, Scheduler

        informers = Informers(client)
        metrics = Registry()

        async def work() -> None:
            scheduler = Scheduler(
                client, informers, name=args.scheduler_name, gates=gates, policy=Policy(placement=args.placement)
            )
            metrics.include(scheduler.metrics.registry)
            informers.start()
            print(f"scheduling pods with schedulerName {args.scheduler_name}; Ctrl-C stops", flush=True)
            await scheduler.run()

        async def led() -> None:
            identity = f"{socket.gethostname()}_{os.getpid()}"
            await lead(client, work, name=f"drakit-scheduler-{args.scheduler_name}", identity=identity)

        async with serving(metrics, args.metrics_port):
            await until(stopped, led() if args.leader_elect else work())
        await informers.stop()
        await client.transport.close()

    options.run_until_stopped(serve)
    return 0


async def until(stopped: asyncio.Event, work: object) -> None:
    """Run the work until it ends or we are asked to stop."""
    working = asyncio.ensure_future(work)  # type: ignore[call-overload] # any awaitable
    asked = asyncio.ensure_future(stopped.wait())
    async with collecting_at_rest():
        await asyncio.wait({working, asked}, return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if working.done():
        await working
        return
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
