"""The entry points `drakit` and `kubectl-dra`: find the command's module, parse, run, exit code."""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from importlib.metadata import version

from drakit.cli.options import CommandError

# Every command is a module of this package with add_parser(commands) and run(args) -> int.
COMMANDS: tuple[str, ...] = ("up", "down", "status", "profiles", "check", "scheduler", "controllers", "node", "driver")


def main(argv: list[str] | None = None, *, prog: str = "drakit") -> int:
    try:
        return _main(argv, prog)
    except KeyboardInterrupt:
        return 130  # as shells count it
    except BrokenPipeError:
        # Who reads our output has seen enough (`drakit profiles gb200 | head`); nothing more can be written, not at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _main(argv: list[str] | None, prog: str) -> int:
    parser = argparse.ArgumentParser(prog=prog, description="Kubernetes Dynamic Resource Allocation.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {version('drakit')}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name in COMMANDS:
        import_module(f"drakit.cli.{name.replace('-', '_')}").add_parser(commands)
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help()
        return 2
    try:
        return int(args.run(args))
    except CommandError as error:
        print(f"{prog} {args.command}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"{prog} {args.command}: {where}{error.strerror or error}", file=sys.stderr)
        return 1


def kubectl_main() -> int:
    """`kubectl dra …`: the same commands under kubectl's name."""
    return main(prog="kubectl dra")


if __name__ == "__main__":
    sys.exit(main())
