"""How many pods of a group some nodes can take at most: a bound that costs no decision, so that what is too small is not tried.

Pods of one kind (same shape, same claims) are counted together: on each node as many as its free resources and pod slots hold,
and its free devices by the allocator's counts. Kinds do not see each other here, nor do ports, spread and affinity count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
from lightkube.models.resource_v1 import ResourceClaim

from drakit.allocator import feasible_nodes
from drakit.scheduler.claims import ClaimLookupError, uid_of
from drakit.scheduler.nodes import PODS, Bits, NodeInfo
from drakit.scheduler.pods import PodInfo
from drakit.scheduler.state import State


class Room:
    def __init__(self, state: State, pods: Sequence[PodInfo]) -> None:
        claims = [_claims(state, info) for info in pods]
        users = Counter(uid_of(claim) for found in claims for claim in found)
        kinds: dict[object, _Kind] = {}
        for info, found in zip(pods, claims, strict=True):
            own = [
                claim for claim in found if users[uid_of(claim)] == 1
            ]  # one that is shared is allocated once for all
            key = info.shape, tuple(msgspec.json.encode(claim.spec) for claim in own)
            kinds.setdefault(key, _Kind(state, info, own)).count += 1
        self._kinds = list(kinds.values())

    def of(self, bits: Bits, enough: int) -> int:
        """At most so many fit on these nodes; it counts no further than to `enough`."""
        found = 0
        for kind in self._kinds:
            if found >= enough:
                break
            found += kind.fitting(bits)
        return found


class _Kind:
    def __init__(self, state: State, info: PodInfo, claims: list[ResourceClaim]) -> None:
        self._state, self._info, self._claims = state, info, claims
        self._accepting = state.static.of(info).bits
        self._by_devices = state.resources.provided(info.requests)
        self._with_devices: list[Bits] = []  # nodes with free devices for one pod, for two, …
        self.count = 0

    def fitting(self, bits: Bits) -> int:
        found = 0
        for node in self._state.nodes.of(bits & self._accepting):
            found += self._on(node, self.count - found)
            if found >= self.count:
                break
        return found

    def _on(self, node: NodeInfo, wanted: int) -> int:
        allocatable, requested = node.allocatable, node.requested
        fits = min(wanted, allocatable.get(PODS, 0) - len(node.pods))
        for name, value in self._info.requests.items():
            offered = allocatable.get(name, 0)
            if offered or name not in self._by_devices:
                fits = min(fits, (offered - requested.get(name, 0)) // value)
        if not self._claims:
            return max(fits, 0)
        found = 0
        while found < fits and self._devices_for(found + 1) >> node.slot & 1:
            found += 1
        return found

    def _devices_for(self, pods: int) -> Bits:
        """Nodes that may have the devices for so many pods; a superset."""
        state, known = self._state, self._with_devices
        while len(known) < pods:
            claims = self._claims * (len(known) + 1)
            names = feasible_nodes(state.inventory, state.allocated, claims, features=state.features)
            known.append(state.nodes.bits(list(names)))
        return known[pods - 1]


def _claims(state: State, info: PodInfo) -> list[ResourceClaim]:
    """Those that are to be allocated."""
    try:
        return [claim for claim in state.claims.of(info) if not state.claims.is_allocated(claim)]
    except ClaimLookupError:
        return []
