"""`drakit profiles`: what simulated nodes can offer."""

from __future__ import annotations

import argparse
import sys

import yaml

from drakit.cli import options
from drakit.drivers import profiles


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "profiles",
        help="list the profiles of simulated nodes",
        description="List the profiles, or show what one publishes.",
    )
    parser.add_argument("name", nargs="?", help="show the classes and slices that a node of this profile has")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    try:
        if args.name:
            profile = profiles.load(args.name)
            yaml.safe_dump_all([*profile.device_classes(), *profile.slices("node-0")], sys.stdout, sort_keys=False)
        else:
            for name in profiles.names():
                print(f"{name:16} {profiles.load(name).description}")
    except profiles.ProfileError as error:
        raise options.CommandError(str(error)) from error
    return 0
