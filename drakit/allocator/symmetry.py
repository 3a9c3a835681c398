"""What makes no difference to a search: interchangeable devices, and states that look different but are not.

Devices are interchangeable when every request, constraint and counter sees the same in them. Two counter sets (the GPUs
of a node, say) are when their devices are alike one by one, in order, and equally used. Exchanging such devices in a
solution gives a solution, so after one of them has failed the others need no try.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from drakit.allocator.counters import PoolCounters
from drakit.allocator.problem import Alternative, bits

if TYPE_CHECKING:
    from drakit.allocator.search import Search

__all__ = ["Symmetry"]


class _Block:
    """One counter set with the devices that draw from it and from no other."""

    __slots__ = ("counters", "devices", "indexes", "kind", "mask", "rank")

    def __init__(self, counters: PoolCounters, devices: list[int], indexes: list[int], kind: int) -> None:
        self.counters = counters
        self.devices = devices
        self.indexes = indexes
        self.kind = kind
        self.mask = sum(1 << number for number in devices)
        self.rank = {number: rank for rank, number in enumerate(devices)}


class Symmetry:
    def __init__(self, search: Search) -> None:
        self._search = search
        self._problem = search.problem
        self._numbers: dict[Hashable, int] = {}
        self._class_of: dict[int, int] = {}
        self._members: dict[int, int] = {}  # class -> devices
        self._type_of: dict[int, int] = {}  # like the class, but without the counter set
        self._block_of: dict[int, _Block] = {}
        self._blocks: list[_Block] = []
        self._alternatives = [alternative for slot in search.slots for alternative in slot.alternatives]
        # Admin access makes it matter which claim has a device.
        self._per_claim = any(alternative.admin for alternative in self._alternatives)
        self._classify()
        if not self._per_claim:
            for counters in self._problem.counters:
                self._find_blocks(counters)

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _classify(self) -> None:
        masks = [alternative.mask for alternative in self._alternatives]
        tables = [table for alternative in self._alternatives for table in alternative.elements]
        everything = 0
        for alternative in self._alternatives:
            everything |= alternative.mask
            for number in alternative.devices:
                everything |= 1 << number
        for number in bits(everything):
            shape = self._problem.shapes[number]
            seen = (tuple(mask >> number & 1 for mask in masks), tuple(table.get(shape) for table in tables))
            self._type_of[number] = self._number(("type", seen, self._amounts(number)))
            index = self._number(("class", seen, self._apart(number)))
            self._class_of[number] = index
            self._members[index] = self._members.get(index, 0) | 1 << number

    def _amounts(self, number: int) -> Hashable:
        counters = self._search.counters_of.get(number)
        if counters is None:
            return None
        return tuple((consumption.counters, consumption.groups) for consumption in counters.consumes[number])

    def _apart(self, number: int) -> Hashable:
        """What else tells devices apart that look alike to all requests."""
        counters = self._search.counters_of.get(number)
        if self._problem.shareable >> number & 1:
            if counters is not None:
                return number  # its first share draws counters, further ones do not: left alone
            held = self._search.held_capacity(number) if self._problem.shared >> number & 1 else {}
            return (self._problem.shapes[number].capacities, tuple(sorted(held.items())))
        return (counters.offset, counters.consumes[number]) if counters is not None else None

    def _find_blocks(self, counters: PoolCounters) -> None:
        by_set: dict[str, list[int]] = {}
        unfit: set[str] = set()
        for number, consumes in counters.consumes.items():
            for consumption in consumes:
                by_set.setdefault(consumption.counter_set, []).append(number)
            if len(consumes) > 1 or self._problem.shareable >> number & 1:
                unfit |= {consumption.counter_set for consumption in consumes}
        for name, devices in by_set.items():
            if name in unfit:
                continue
            indexes = [index for (set_name, _), index in counters.index.items() if set_name == name]
            names = tuple(counter for (set_name, counter) in counters.index if set_name == name)
            types = tuple(self._type_of.get(number, -1) for number in devices)
            kind = self._number(("block", counters.offset, names, types))
            block = _Block(counters, devices, indexes, kind)
            self._blocks.append(block)
            self._block_of.update(dict.fromkeys(devices, block))

    # Interchangeable devices

    def equals(self, number: int) -> int:
        """Devices for which the search would go exactly as for this one, in the present state."""
        members = self._members[self._class_of[number]]
        if self._per_claim:
            for taken in self._search.taken:
                members &= taken if taken >> number & 1 else ~taken
        if self._problem.shareable >> number & 1:
            return self._equally_shared(number, members)
        block = self._block_of.get(number)
        if block is not None:
            state, rank = self._state(block), block.rank[number]
            for other in self._blocks:
                if other is not block and other.kind == block.kind and self._state(other) == state:
                    members |= 1 << other.devices[rank]
        return members

    def _equally_shared(self, number: int, members: int) -> int:
        shares = self._search.shares
        mine = total(shares.get(number, ()))
        mask = 0
        for other in bits(members):
            if total(shares.get(other, ())) == mine:
                mask |= 1 << other
        return mask

    def _state(self, block: _Block) -> Hashable:
        left = block.counters.left
        taken = self._search.taken_any & block.mask
        used = tuple(rank for number, rank in block.rank.items() if taken >> number & 1)
        return used, tuple(left[index] for index in block.indexes), block.counters.members_of(block.devices[0])

    # Equal states

    def signature(self, alternative: Alternative) -> int:
        """The same number for alternatives that ask for the same."""
        key = (
            "alternative",
            alternative.mask,
            alternative.count,
            alternative.all_mode,
            alternative.admin,
            tuple(constraint.index for constraint in alternative.constraints),
            tuple(sorted(alternative.derived.items())),
            id(alternative.capacity),
        )
        return self._number(key)

    def state(self, slot: int, alternative: Alternative, k: int, start: int) -> Hashable:
        """What decides how the search goes on from here. Which of several equal devices are taken does not."""
        search = self._search
        # Ahead of `start` the walk depends on exactly which devices are gone, behind it only on what kinds.
        ahead = tuple(mask >> start for mask in search.taken) if start else ()
        constraints = self._problem.constraints[alternative.slot.claim_index]
        return (
            slot,
            self.signature(alternative),
            k,
            start,
            ahead,
            len(search.results[alternative.slot.claim_index]),
            self._taken(start),
            tuple(constraint.stack[-1] if constraint.stack else None for constraint in constraints),
            self._shares(start),
        )

    def _taken(self, start: int) -> Hashable:
        if self._per_claim:
            return tuple(self._search.taken)  # two claims may have the same device, or two that are alike
        chosen = [choice.number for choices in self._search.results for choice in choices if choice.consumed is None]
        if start:
            return tuple(sorted(self._class_of[number] for number in chosen))
        plain: list[int] = []
        blocks: dict[int, list[int]] = {}
        for number in chosen:
            block = self._block_of.get(number)
            if block is None:
                plain.append(self._class_of[number])
            else:
                blocks.setdefault(id(block), [block.kind]).append(self._type_of[number])
        return tuple(sorted(plain)), tuple(sorted((kind, *sorted(types)) for kind, *types in blocks.values()))

    def _shares(self, start: int) -> Hashable:
        return tuple(
            sorted(
                (number if number >= start > 0 else -1 - self._class_of[number], total(shares))
                for number, shares in self._search.shares.items()
            )
        )


def total(shares: Sequence[dict[str, int]]) -> tuple[tuple[str, int], ...]:
    """Sums per capacity, and how many shares there are: one that consumes nothing leaves a mark too."""
    totals: dict[str, int] = {"": len(shares)} if shares else {}
    for share in shares:
        for name, amount in share.items():
            totals[name] = totals.get(name, 0) + amount
    return tuple(sorted(totals.items()))
