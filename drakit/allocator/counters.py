"""Shared counters and compatibility groups of one pool: what is left, and which devices can still be had.

Amounts are integers in nano units. `blocked` is kept up to date with every device taken, so the search never looks at
a device that its counters rule out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from drakit.allocator.allocated import HeldPool
from drakit.allocator.devices import Consumption
from drakit.allocator.pools import PoolView

__all__ = ["PoolCounters"]

_ALL_EMPTY: Final = "no member has groups"
_Members = frozenset[str] | str | None  # None: nobody draws from the set yet

Undo = tuple[list[tuple[int, int]], list[tuple[str, _Members]], int]


class PoolCounters:
    __slots__ = (
        "_by_set",
        "_check_groups",
        "_members",
        "_overdrawn",
        "amounts",
        "barred",
        "blocked",
        "consumes",
        "index",
        "left",
        "offset",
        "pool",
    )

    def __init__(self, pool: PoolView, offset: int, held: HeldPool | None, *, groups: bool) -> None:
        self.pool = pool
        self.offset = offset
        self._check_groups = groups
        self.index: dict[tuple[str, str], int] = {}
        self.left: list[int] = []
        for set_name, counters in pool.counters.items():
            for name, total in counters.items():
                self.index[set_name, name] = len(self.left)
                self.left.append(total)
        self._members: dict[str, _Members] = {}
        self.consumes: dict[int, tuple[Consumption, ...]] = {}  # by device number
        self.amounts: dict[int, list[tuple[int, int]]] = {}
        self._by_set: dict[str, list[int]] = {}
        self._read_devices()
        if held is not None and held.devices:
            self._read_holds(held)
        # An overdrawn counter bars every device of the pool that draws from any.
        self._overdrawn = any(left < 0 for left in self.left)
        self.barred = self.blocked = self._unavailable(self.consumes)

    def _read_devices(self) -> None:
        for position, traits in enumerate(self.pool.layout.traits):
            if traits.consumes:
                number = self.offset + position
                self.consumes[number] = traits.consumes
                self.amounts[number] = self._amounts(traits.consumes)
                for consumption in traits.consumes:
                    self._by_set.setdefault(consumption.counter_set, []).append(number)

    def _read_holds(self, held: HeldPool) -> None:
        layout = self.pool.layout
        drawing = [
            (layout.names[n - self.offset], consumes) for n, consumes in self.consumes.items()
        ] + self.pool.others
        for name, consumes in drawing:
            if name in held.devices:
                for index, amount in self._amounts(consumes):
                    self.left[index] -= amount
                for consumption in consumes:
                    self._members[consumption.counter_set] = _joined(
                        self._members.get(consumption.counter_set), consumption.groups
                    )

    def _amounts(self, consumes: tuple[Consumption, ...]) -> list[tuple[int, int]]:
        return [(self.index[c.counter_set, name], amount) for c in consumes for name, amount in c.counters]

    def _unavailable(self, numbers: Iterable[int]) -> int:
        mask = 0
        for number in numbers:
            if not self._fits(number):
                mask |= 1 << number
        return mask

    def _fits(self, number: int) -> bool:
        if self._overdrawn:
            return False
        left = self.left
        for index, amount in self.amounts[number]:
            if left[index] < amount:
                return False
        return not self._check_groups or all(
            _admits(self._members.get(c.counter_set), c.groups) for c in self.consumes[number]
        )

    def members_of(self, number: int) -> object:
        """The compatibility groups in force on the sets that the device draws from."""
        return tuple(self._members.get(consumption.counter_set) for consumption in self.consumes[number])

    def take(self, number: int) -> Undo:
        """The device is chosen; it is not blocked."""
        amounts, members, blocked = self.amounts[number], [], self.blocked
        for index, amount in amounts:
            self.left[index] -= amount
        for consumption in self.consumes[number]:
            name = consumption.counter_set
            before = self._members.get(name)
            members.append((name, before))
            self._members[name] = _joined(before, consumption.groups)
            rivals = self._by_set[name]
            for rival in rivals:
                if not blocked >> rival & 1 and not self._fits(rival):
                    self.blocked |= 1 << rival
        return amounts, members, blocked

    def put_back(self, undo: Undo) -> None:
        amounts, members, self.blocked = undo
        for index, amount in amounts:
            self.left[index] += amount
        for name, before in reversed(members):
            self._members[name] = before

    def shortage(self, number: int) -> str:
        """Which counter keeps the device away, in words; "" when groups do."""
        layout = self.pool.layout
        for (set_name, name), index in self.index.items():
            if self.left[index] < 0:
                return f"counter {name} of set {set_name} in pool {'/'.join(self.pool.key)} is overdrawn"
        names = list(self.index)
        for index, amount in self.amounts[number]:
            if self.left[index] < amount:
                set_name, name = names[index]
                return f"{layout.names[number - self.offset]} needs {_show(amount)} of {set_name}/{name}, {_show(self.left[index])} left"
        return ""


def _joined(members: _Members, groups: frozenset[str]) -> _Members:
    if members is None:
        return groups or _ALL_EMPTY
    if isinstance(members, str) or not groups:
        return members
    return members & groups


def _admits(members: _Members, groups: frozenset[str]) -> bool:
    if members is None:
        return True
    if isinstance(members, str):
        return not groups
    return bool(members & groups)


def _show(nano: int) -> str:
    whole, rest = divmod(nano, 10**9)
    return str(whole) if not rest else f"{nano / 10**9:g}"
