"""The door: claims on a node in, an Allocation or a Failure out."""

from __future__ import annotations

from collections.abc import Sequence

from lightkube.models.core_v1 import Node
from lightkube.models.resource_v1 import ResourceClaim

from drakit.allocator.allocated import Allocated
from drakit.allocator.features import Features
from drakit.allocator.inventory import Inventory
from drakit.allocator.outcome import Allocation, Budget, Failure

__all__ = ["allocate"]


def allocate(
    inventory: Inventory,
    allocated: Allocated,
    node: Node,
    claims: Sequence[ResourceClaim],
    *,
    features: Features | None = None,
    budget: Budget | None = None,
) -> Allocation | Failure:
    """All claims together on this node, or not at all. Nothing is changed: call `allocated.assume` to hold the result."""
    raise NotImplementedError
