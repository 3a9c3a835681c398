"""`drakit node`: this machine as a node of any cluster; `drakit node --check` says what it could do."""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from drakit.cli import options

if TYPE_CHECKING:
    from drakit.client import Client

DEFAULT_ROOT = Path("/var/lib/drakit")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "node",
        help="make this machine a node of a cluster",
        description="Register this machine, watch for DRA drivers, prepare claims and run the pods bound to it.",
    )
    options.add_kubeconfig(parser)
    parser.add_argument(
        "--check", action="store_true", help="only say which container runtimes can be used here, and what they lack"
    )
    parser.add_argument("--name", default="", help="of the node (default: the host's name)")
    parser.add_argument(
        "--root", type=Path, default=DEFAULT_ROOT, metavar="DIR", help=f"the node's files (default {DEFAULT_ROOT})"
    )
    parser.add_argument(
        "--runtime",
        default="auto",
        choices=("auto", "cri", "oci", "process", "fake"),
        help="how containers are run (default auto)",
    )
    parser.add_argument(
        "--cri-endpoint", default="", metavar="SOCKET", help="of containerd or CRI-O (default: the usual places)"
    )
    parser.add_argument(
        "--cdi-dir", type=Path, action="append", metavar="DIR", help="CDI specs (default /etc/cdi and /var/run/cdi)"
    )
    parser.add_argument(
        "--images", type=Path, metavar="DIR", help="unpacked images for the oci and process runtimes: NAME/rootfs"
    )
    parser.add_argument(
        "--address",
        default="",
        help="of this node, where it also serves logs and exec (default: loopback only, the address of its default route in its status)",
    )
    parser.add_argument(
        "--port", type=options.port, default=0, help="of the kubelet API for logs and exec (default: a free one)"
    )
    parser.add_argument(
        "--client-ca",
        type=Path,
        metavar="FILE",
        help="CA of client certificates for it; without, callers need tokens the API server knows",
    )
    parser.add_argument(
        "--profile", default="", help="also run simulated drivers with these devices: see `drakit profiles`"
    )
    options.add_logging(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if args.check:
        return asyncio.run(check(args.cri_endpoint))
    options.set_up_logging(max(args.verbose, 1))
    if args.root == DEFAULT_ROOT and os.geteuid() != 0:
        raise options.CommandError(
            f"{DEFAULT_ROOT} needs root: pass --root DIR, and --cdi-dir DIR for drivers that run as you"
        )
    args.root = args.root.absolute()  # drivers are told of it
    args.cdi_dir = [directory.absolute() for directory in args.cdi_dir or ()]
    if args.client_ca is not None and not args.client_ca.is_file():
        raise options.CommandError(f"--client-ca {args.client_ca}: no such file")
    client = options.connect(args, "drakit-node")
    options.run_until_stopped(lambda stopped: serve(args, client, stopped))
    return 0


async def check(cri_endpoint: str) -> int:
    """One line per runtime, best first, then what the best one lacks."""
    import tempfile

    from drakit.clock import SystemClock
    from drakit.driver.injection import CdiCache
    from drakit.node.runtimes.choose import choose, look

    findings = await look(cri_endpoint)
    for finding in findings:
        print(f"{finding.runtime:8} {'usable' if finding.usable else 'no':7} {finding.detail}")
    best = next(f.runtime for f in findings if f.usable)
    with tempfile.TemporaryDirectory(prefix="drakit-") as folder:
        runtime = await choose(best, Path(folder), cdi=CdiCache(), clock=SystemClock(), cri_endpoint=cri_endpoint)
        if best == "cri":
            await runtime.start()
        info = await runtime.info()
        if best == "cri":
            await runtime.stop()
    print(f"\n`auto` takes {best}: {info.name} {info.version}")
    for note in info.notes:
        print(f"  - {note}")
    return 0


async def serve(args: argparse.Namespace, client: Client, stopped: asyncio.Event) -> None:
    from drakit.api.errors import StatusError
    from drakit.driver import DriverError, Plugin
    from drakit.driver.injection import CDI_DIRECTORIES
    from drakit.drivers import profiles
    from drakit.drivers.simulated import drivers_of
    from drakit.node.agent import Agent
    from drakit.node.errors import NodeError
    from drakit.node.kubelet_api import KubeletApi

    try:
        profile = profiles.load(args.profile) if args.profile else None  # before a Node is registered
    except profiles.ProfileError as error:
        await client.transport.close()
        raise options.CommandError(f"--profile: {error}") from error
    name = args.name or socket.gethostname().lower()
    directories = tuple(args.cdi_dir) if args.cdi_dir else CDI_DIRECTORIES
    server = str(getattr(getattr(client.transport, "access", None), "server", ""))
    if not args.address and urlsplit(server).hostname in ("127.0.0.1", "localhost", "::1"):
        args.address = "127.0.0.1"  # the API server is on this machine and reaches us there
    agent = Agent(
        client,
        name,
        args.root,
        args.runtime,
        cdi_directories=directories,
        images=args.images,
        address=args.address,
        cri_endpoint=args.cri_endpoint,
        api_server=server,
    )
    plugins: list[Plugin] = []
    api = KubeletApi(agent, host=args.address or "127.0.0.1", port=args.port, client_ca=args.client_ca)
    try:
        await api.start()
        await agent.start()
        if profile is not None:
            for driver in drivers_of(profile, name, args.root / "devices"):
                plugin = Plugin(driver, client, name, kubelet_directory=args.root, cdi_directory=directories[-1])
                await plugin.start()
                plugins.append(plugin)
    except (NodeError, DriverError, StatusError) as error:
        await agent.stop()
        await api.stop()
        await client.transport.close()
        raise options.CommandError(str(error)) from error
    assert agent.info is not None
    print(f"node {name} runs with {agent.info.name} {agent.info.version}; files in {args.root}", flush=True)
    for note in agent.info.notes:
        print(f"  - {note}", flush=True)
    if not args.address:
        print(
            "  - logs and exec are served on 127.0.0.1 only: --address lets an API server elsewhere ask for them",
            flush=True,
        )
    print("Ctrl-C stops the agent; its pods go on and are found again at the next start", flush=True)
    await stopped.wait()
    for plugin in plugins:
        await plugin.stop()
    await agent.stop()
    await api.stop()
    await client.transport.close()
