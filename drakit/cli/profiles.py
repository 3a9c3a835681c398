"""`drakit profiles`: what simulated nodes can offer."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from drakit.cli import options

if TYPE_CHECKING:
    from drakit.drivers.profiles import Profile


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "profiles",
        help="list the profiles of simulated nodes",
        description="List the profiles, or show what one publishes.",
    )
    parser.add_argument("name", nargs="?", help="show the classes and slices that a node of this profile has")
    parser.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="text (or YAML) for people, json for scripts"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from drakit.drivers import profiles

    try:
        if args.name:
            show(profiles.load(args.name), args.output)
        else:
            known = {name: profiles.load(name).description for name in profiles.names()}
            if args.output == "json":
                print(json.dumps([{"name": name, "description": text} for name, text in known.items()], indent=2))
            else:
                print("\n".join(f"{name:16} {text}" for name, text in known.items()))
    except profiles.ProfileError as error:
        raise options.CommandError(str(error)) from error
    return 0


def show(profile: Profile, output: str) -> None:
    import yaml

    objects: list[dict[str, Any]] = [*profile.device_classes(), *profile.slices("node-0")]
    if output == "json":
        print(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, indent=2))
    else:
        yaml.safe_dump_all(objects, sys.stdout, sort_keys=False)
