"""The command line: one module per command, each with `add_parser(commands)` and `run(args) -> int`."""

from drakit.cli.main import kubectl_main, main

__all__ = ["kubectl_main", "main"]
