"""Inventory and claims on a node in, devices or the reasons why not out. Pure: no I/O, no clock, no random numbers.

    inventory = Inventory(); inventory.set_slice(slice); inventory.set_class(cls); inventory.set_node(node)
    allocated = Allocated(); allocated.set_claim(claim)          # claims with status.allocation
    for name in feasible_nodes(inventory, allocated, claims, features=features): ...
    outcome = allocate(inventory, allocated, node, claims, features=features, budget=Budget(clock=time.monotonic))
    allocated.assume(claim.metadata.uid, outcome.results[0], holder="ns/name")   # until the write is seen

All objects are typed (lightkube resource_v1, core_v1). Results are plain AllocationResults, ready for a patch.
"""

from __future__ import annotations

from drakit.allocator.allocate import allocate
from drakit.allocator.allocated import Allocated, Asker
from drakit.allocator.batch import NodeSet, feasible_nodes
from drakit.allocator.checker import Violation, check
from drakit.allocator.features import Features
from drakit.allocator.inventory import Inventory
from drakit.allocator.outcome import (
    Allocation,
    Blocker,
    Budget,
    ClaimReason,
    Explanation,
    Failure,
    Held,
    RequestReason,
    SelectorStep,
    Suggestion,
)

__all__ = [
    "Allocated",
    "Allocation",
    "Asker",
    "Blocker",
    "Budget",
    "ClaimReason",
    "Explanation",
    "Failure",
    "Features",
    "Held",
    "Inventory",
    "NodeSet",
    "RequestReason",
    "SelectorStep",
    "Suggestion",
    "Violation",
    "allocate",
    "check",
    "feasible_nodes",
]
