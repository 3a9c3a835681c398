"""The vectors: what a real Kubernetes 1.37 answered, and how we compare with it.

`python -m tests.vectors NAME [FILE…] [--level L]` runs one set and prints `N passed, M failed`.
Each set is a module here with `check(files, level) -> Outcome`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "vectors"
DATA = ROOT / "tests" / "data"


@dataclass
class Outcome:
    passed: int = 0
    mismatches: list[str] = field(default_factory=list)  # one readable entry per failed vector
    notes: list[str] = field(default_factory=list)  # what was left out, and figures worth printing

    @property
    def failed(self) -> int:
        return len(self.mismatches)


def vector_files(*names: str) -> list[Path]:
    """The recorded files in ../shared when it is there, else our own small selection in tests/data."""
    for base in (SHARED, DATA):
        found = [base / name for name in names if (base / name).exists()]
        if found:
            return found
    return []
