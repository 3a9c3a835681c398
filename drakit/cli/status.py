"""`drakit status`: what runs on this machine, and how it is doing."""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import Counter
from dataclasses import asdict
from typing import Any

from drakit.cli import options, running


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "status",
        help="show the cluster on this machine",
        description="Show whether a cluster runs on this machine, and its nodes, pods, claims and devices.",
    )
    options.add_state(parser)
    parser.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="text for people, json for scripts"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from drakit.api.errors import StatusError

    folder = args.state or running.default_folder()
    process = running.find(folder)
    if process is None and running.starting(folder):
        raise options.CommandError(f"the cluster of {folder} is still starting: try again in a moment")
    if process is None:
        print(
            json.dumps({"running": False})
            if args.output == "json"
            else f"no cluster runs from {folder}; start one: {running.command('up', folder)}"
        )
        return 3
    try:
        figures = asyncio.run(count(process.kubeconfig))
    except StatusError as error:
        raise options.CommandError(f"process {process.pid} runs but {process.url} does not answer: {error}") from error
    if args.output == "json":
        print(json.dumps({"running": True, **asdict(process), **figures}))
    else:
        print(text(process, figures))
    return 0


async def count(kubeconfig: str) -> dict[str, Any]:
    from lightkube.models.core_v1 import Node, Pod
    from lightkube.models.resource_v1 import ResourceClaim, ResourceSlice

    from drakit.api.errors import StatusError
    from drakit.client import Client
    from drakit.client.http import HttpTransport
    from drakit.client.kubeconfig import load

    client = Client(HttpTransport(load(kubeconfig), user_agent="drakit-status"))
    claims: list[ResourceClaim] = []
    slices: list[ResourceSlice] = []
    try:
        nodes = (await client.list(Node)).items
        pods = (await client.list(Pod)).items
        try:
            claims = (await client.list(ResourceClaim)).items
            slices = (await client.list(ResourceSlice)).items
        except StatusError as error:
            if error.code != 404:  # started without resource.k8s.io/v1
                raise
    finally:
        await client.transport.close()
    held = {
        (result.driver, result.pool, result.device)
        for claim in claims
        if claim.status and claim.status.allocation and claim.status.allocation.devices
        for result in claim.status.allocation.devices.results or ()
        if not result.adminAccess
    }
    published = [device for s in slices for device in (s.spec.devices if s.spec else None) or ()]
    return {
        "nodes": len(nodes),
        "pods": dict(Counter((pod.status.phase if pod.status else None) or "Unknown" for pod in pods)),
        "claims": {"total": len(claims), "allocated": len([c for c in claims if c.status and c.status.allocation])},
        "devices": {"published": len(published), "held": len(held)},
    }


def text(process: running.Process, figures: dict[str, Any]) -> str:
    pods = ", ".join(f"{count} {phase}" for phase, count in sorted(figures["pods"].items())) or "none"
    claims, devices = figures["claims"], figures["devices"]
    up = time.time() - process.started
    return "\n".join(
        [
            f"cluster     {process.url}, process {process.pid}, up {up:.0f} s{', ephemeral' if process.ephemeral else ''}",
            f"kubeconfig  {process.kubeconfig}",
            f"nodes       {figures['nodes']}",
            f"pods        {pods}",
            f"claims      {claims['total']}, of which allocated {claims['allocated']}",
            f"devices     {devices['published']}, of which held {devices['held']}",
        ]
    )
