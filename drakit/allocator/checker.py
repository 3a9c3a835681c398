"""The invariants of allocation, as code: used by tests, load runs and tools."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lightkube.models.resource_v1 import ResourceClaim

from drakit.allocator.features import Features
from drakit.allocator.inventory import Inventory

__all__ = ["Violation", "check"]


@dataclass(frozen=True, slots=True)
class Violation:
    """`rule` is stable (device-twice, counter-overdrawn, capacity-overdrawn, selector, constraint, count, …)."""

    rule: str
    subject: str
    text: str


def check(inventory: Inventory, claims: Iterable[ResourceClaim], *, features: Features | None = None) -> list[Violation]:
    """Every broken invariant among the allocated claims: nothing allocated twice, no counter or capacity overdrawn,
    every result satisfies its request's selectors and its claim's constraints."""
    raise NotImplementedError
