"""What ends an attempt early, inside the package only: `allocate` turns each into a Failure.

Stop
├── Fatal      the claims, classes or slices are wrong: the attempt is over for all nodes
└── GaveUp     the budget is spent
"""

from __future__ import annotations

__all__ = ["Fatal", "GaveUp", "Stop"]


class Stop(Exception):
    pass


class Fatal(Stop):
    """`cause` is a stable class; `names` says which objects are meant."""

    def __init__(self, message: str, cause: str, **names: str) -> None:
        super().__init__(message)
        self.cause = cause
        self.names = names


class GaveUp(Stop):
    def __init__(self, steps: int) -> None:
        super().__init__(f"gave up after {steps} steps without an answer")
        self.steps = steps
