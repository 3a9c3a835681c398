"""`drakit driver new NAME`: start a DRA driver of one's own."""

from __future__ import annotations

import argparse
from pathlib import Path

from drakit.cli import options


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("driver", help="start a DRA driver of your own", description="Make a new DRA driver.")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, help="what to do")
    new = verbs.add_parser(
        "new", help="write a driver with its test, rights and DaemonSet", description="Write the files of a new driver."
    )
    new.add_argument("name", help="of the driver, a DNS name such as gpu.example.com")
    new.add_argument("--directory", type=Path, metavar="DIR", help="where to (default: a folder named after it, here)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from drakit.driver.errors import DriverError
    from drakit.driver.scaffold import create

    directory = args.directory or Path(f"{args.name.partition('.')[0]}-dra-driver")
    try:
        written = create(args.name, directory)
    except (DriverError, OSError) as error:
        raise options.CommandError(str(error)) from error
    for path in written:
        print(path)
    print(f"\nTry it: cd {directory} && python -m pytest")
    return 0
