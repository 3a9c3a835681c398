"""The door: claims on a node in, an Allocation or a Failure out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from lightkube.models.core_v1 import Node
from lightkube.models.resource_v1 import ResourceClaim

from drakit.allocator.allocated import Allocated
from drakit.allocator.errors import Fatal, GaveUp
from drakit.allocator.explain import explain
from drakit.allocator.features import Features
from drakit.allocator.inventory import Inventory
from drakit.allocator.outcome import Allocation, Budget, Failure
from drakit.allocator.pools import INVALID, GatherError
from drakit.allocator.problem import Alternative, Problem
from drakit.allocator.results import assemble
from drakit.allocator.search import Search

__all__ = ["allocate"]

_DEFAULT_FEATURES = Features()
_DEFAULT_BUDGET = Budget()


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
    features = features or _DEFAULT_FEATURES
    name = (node.metadata.name if node.metadata is not None else None) or ""
    search: Search | None = None
    try:
        view = inventory.view(node, features)
        problem = Problem(inventory, allocated, view, node, claims, features)
        search = Search(problem, budget or _DEFAULT_BUDGET)
        if search.run():
            return Allocation(name, assemble(problem, search), search.steps)
    except GatherError as error:
        return Failure("error", name, str(error), names={"slice": error.slice_name}, cause="node-selector")
    except Fatal as error:
        steps = search.steps if search is not None else 0
        return Failure("error", name, str(error), steps, error.names, error.cause)
    except GaveUp as error:
        return Failure("gave-up", name, str(error), error.steps, cause="budget")
    if any(pool.status == INVALID for pool in view.pools):
        # Not fatal: other nodes may do; the text is shown when none does.
        return Failure(
            "invalid",
            name,
            "invalid resource pools were encountered",
            search.steps,
            cause="pool-invalid",
            _explain=partial(explain, inventory, allocated, node, claims, features),
        )
    why = partial(explain, inventory, allocated, node, claims, features)
    lacking = sum(min(map(_lacking, slot.alternatives)) for slot in problem.slots)
    return Failure("none", name, "cannot allocate all claims", search.steps, lacking=lacking, _explain=why)


def _lacking(alternative: Alternative) -> int:
    wanted = max(alternative.count, 1)  # "All" of none is one too few
    return max(wanted - alternative.mask.bit_count(), 0)
