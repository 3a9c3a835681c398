"""`drakit controllers`: the controllers alone, against any cluster."""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
from collections.abc import Collection

from drakit.api.gates import FeatureGates
from drakit.cli import options
from drakit.cli.metrics_port import add_metrics_port, serving
from drakit.cli.scheduler import until


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "controllers",
        help="run the controllers against a cluster",
        description="Claims from templates, device taints, pool status, workloads. Do not run two of a kind in one cluster.",
    )
    options.add_kubeconfig(parser)
    options.add_controllers(parser)
    parser.add_argument(
        "--leader-elect", action="store_true", help="run several, of which one works (a Lease in kube-system)"
    )
    add_metrics_port(parser)
    options.add_gates(parser)
    options.add_logging(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from drakit.controllers import runner

    options.set_up_logging(max(args.verbose, 1))
    gates = options.parse_gates(args.feature_gates)
    enabled = options.parse_controllers(args.controllers)
    if not enabled:
        raise options.CommandError("--controllers: none is left to run; '*' is all")
    idle = _idle(enabled, gates)
    if len(idle) == len(enabled):
        raise options.CommandError(f"--controllers: none has anything to do: {'; '.join(idle.values())}")
    if "*" not in args.controllers:
        for reason in idle.values():
            print(reason, flush=True)
    client = options.connect(args, "drakit-controllers")

    async def serve(stopped: asyncio.Event) -> None:
        from drakit.client import Informers, lead
        from drakit.controllers.loop import Context
        from drakit.metrics import Registry

        informers = Informers(client)
        metrics = Registry()

        async def work() -> None:
            informers.start()
            print("controllers run; Ctrl-C stops", flush=True)
            context = Context(client, informers, gates=gates, metrics=metrics)
            await runner.run(client, informers, context.clock, enabled=enabled, context=context)

        identity = f"{socket.gethostname()}_{os.getpid()}"
        async with serving(metrics, args.metrics_port):
            led = lead(client, work, name="drakit-controllers", identity=identity) if args.leader_elect else work()
            await until(stopped, led)
        await informers.stop()
        await client.transport.close()

    options.run_until_stopped(serve)
    return 0


def _idle(names: Collection[str], gates: FeatureGates) -> dict[str, str]:
    """Those that would not run here, and why."""
    from drakit.controllers import runner
    from drakit.controllers.service_accounts import RootCertificateController

    found = {
        name: f"{name} needs a feature gate that is off (--feature-gates {gate}=true)"
        for name in names
        if (gate := runner.GATES.get(name)) is not None and not gates.enabled(gate)
    }
    if (publisher := RootCertificateController.name) in names:
        found[publisher] = f"{publisher} works in `drakit up` only, which knows the certificate"
    return found
