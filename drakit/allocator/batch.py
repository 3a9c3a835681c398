"""Which nodes can take these claims: cheaply for all nodes at once, and never proportional to their number per pod."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lightkube.models.resource_v1 import ResourceClaim

from drakit.allocator.allocated import Allocated
from drakit.allocator.features import Features
from drakit.allocator.inventory import Inventory

__all__ = ["NodeSet", "feasible_nodes"]


class NodeSet:
    """Names of nodes, in the order in which the inventory learned of them. Every node that fits is in it; when `exact`,
    no other is (otherwise a member may still turn out not to fit: ask `allocate`)."""

    exact: bool

    def __contains__(self, name: object) -> bool:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def __iter__(self) -> Iterator[str]:
        raise NotImplementedError

    def after(self, name: str) -> Iterator[str]:
        """Iterate from the node behind `name` on, and around: a scheduler spreads its starting point."""
        raise NotImplementedError


def feasible_nodes(
    inventory: Inventory, allocated: Allocated, claims: Sequence[ResourceClaim], *, features: Features | None = None
) -> NodeSet:
    """The nodes (of `inventory.set_node`) on which the claims may fit, judged by counts of free matching devices."""
    raise NotImplementedError
