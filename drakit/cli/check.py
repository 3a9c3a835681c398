"""`drakit check FILE…`: what is wrong with manifests, where, and what to write instead, before any server sees them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from drakit.cli import options

if TYPE_CHECKING:
    from drakit.api.manifests import Problem

_SUFFIXES = (".yaml", ".yml", ".json")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "check",
        help="check manifests without a cluster",
        description="Say what is wrong with manifests: file and line, field, Kubernetes' own words, and what to write instead.",
    )
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="YAML or JSON files, folders of them, or - for standard input"
    )
    parser.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="text for people, json for scripts"
    )
    options.add_gates(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    problems = list(check(args.files, args.feature_gates))
    if args.output == "json":
        print(json.dumps([asdict(problem) for problem in problems], indent=2))
    else:
        for problem in problems:
            print(problem)
    return 1 if any(problem.severity == "error" for problem in problems) else 0


def check(names: list[str], gates: str) -> Iterator[Problem]:
    from datetime import UTC, datetime

    from drakit.api.kind import WriteContext
    from drakit.api.manifests import check_text
    from drakit.cel.device import ApiExpressionChecker

    ctx = WriteContext(options.parse_gates(gates), datetime.now(UTC), ApiExpressionChecker())
    for name in names:
        if name == "-":
            yield from check_text(sys.stdin.buffer.read(), "standard input", ctx)
            continue
        for file in files_of(Path(name)):
            yield from check_text(file.read_bytes(), str(file), ctx)


def files_of(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES and file.is_file())
    if not files:
        raise options.CommandError(f"{path}: no {', '.join(_SUFFIXES)} files in this folder")
    return files
