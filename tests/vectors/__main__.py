"""`python -m tests.vectors NAME [FILE…]`: compare with recorded Kubernetes answers; exit 1 on any difference."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

# set -> (module, argument): several sets may share a module
SETS = {
    "objects": ("objects", ""),
    "allocator": ("allocator", ""),
    "cel-device": ("cel", "device"),
    "cel-selector": ("cel", "selector"),
    "cel-derived": ("cel", "derived"),
    "cel-admission": ("cel_admission", ""),
    "cel-spec": ("cel", "spec"),
    "api": ("api", ""),
}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.vectors", description=__doc__)
    parser.add_argument("name", choices=SETS)
    parser.add_argument("file", nargs="*", type=Path, help="files in the vectors' format (default: the recorded ones)")
    parser.add_argument("--level", help="how strict: as in the vectors' own checkers")
    parser.add_argument("--show", type=int, default=20, help="mismatches to print")
    args = parser.parse_intermixed_args(argv)  # options may stand between NAME and FILE
    module, argument = SETS[args.name]
    check = import_module(f"tests.vectors.{module}").check
    outcome = check(args.file, args.level, argument) if argument else check(args.file, args.level)
    for text in outcome.mismatches[: args.show]:
        print(text)
    if outcome.failed > args.show:
        print(f"... and {outcome.failed - args.show} more")
    for note in outcome.notes:
        print(note)
    print(f"{outcome.passed} passed, {outcome.failed} failed")
    return 1 if outcome.failed or not outcome.passed else 0


if __name__ == "__main__":
    sys.exit(main())
