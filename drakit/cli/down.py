"""`drakit down`: stop the cluster that runs on this machine."""

from __future__ import annotations

import argparse

from drakit.cli import options, running


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "down",
        help="stop the cluster on this machine",
        description="Stop the cluster that `drakit up` started. State is kept.",
    )
    options.add_state(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    folder = args.state or running.default_folder()
    process = running.find(folder)
    if process is None and running.starting(folder):
        raise options.CommandError(
            f"the cluster of {folder} is still starting: try again in a moment, or press Ctrl-C where it starts"
        )
    if process is None:
        print(f"no cluster runs from {folder}")
        return 0
    try:
        gone = running.stop(process, folder)
    except PermissionError as error:
        raise options.CommandError(
            f"process {process.pid} of {folder} belongs to another user, who may stop it"
        ) from error
    if not gone:
        raise options.CommandError(f"process {process.pid} does not stop; end it with: kill -9 {process.pid}")
    print("stopped")
    return 0
