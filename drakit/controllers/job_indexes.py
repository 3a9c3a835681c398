"""Sets of completion indexes as Kubernetes writes them: `0-3,5,7-9`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

__all__ = ["Indexes"]


class Indexes:
    """Sorted, disjoint, non-adjacent intervals: 5,000 completed indexes are usually one of them."""

    def __init__(self, intervals: Iterable[tuple[int, int]] = ()) -> None:
        self._intervals = list(intervals)

    @classmethod
    def parse(cls, text: str, limit: int | None = None) -> Indexes:
        """Indexes at or over `limit` are left out; so is what is no number."""
        result = cls()
        for part in filter(None, text.split(",")):
            first, _, last = part.partition("-")
            if not first.isdigit() or (last and not last.isdigit()):
                continue
            low, high = int(first), int(last or first)
            if limit is not None:
                high = min(high, limit - 1)
            if low > high:
                continue
            if result._intervals and low <= result._intervals[-1][1] + 1:  # pairs are written `0,1`
                low, high = result._intervals[-1][0], max(high, result._intervals.pop()[1])
            result._intervals.append((low, high))
        return result

    def __str__(self) -> str:
        return ",".join(_written(first, last) for first, last in self._intervals)

    def __contains__(self, index: int | None) -> bool:
        return index is not None and self.last(index) is not None

    def last(self, index: int) -> int | None:
        """The last index of the interval that this one is in."""
        place = bisect_right(self._intervals, (index, float("inf"))) - 1
        return self._intervals[place][1] if place >= 0 and index <= self._intervals[place][1] else None

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self._intervals)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Indexes) and self._intervals == other._intervals

    def __hash__(self) -> int:
        return hash(tuple(self._intervals))

    def __iter__(self) -> Iterator[int]:
        for first, last in self._intervals:
            yield from range(first, last + 1)

    def union(self, indexes: Iterable[int]) -> Indexes:
        added = sorted({index for index in indexes if index not in self})
        if not added:
            return self
        merged: list[tuple[int, int]] = []
        for first, last in sorted([*self._intervals, *((index, index) for index in added)]):
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
            else:
                merged.append((first, last))
        return Indexes(merged)

    def overlap(self, other: Indexes) -> int:
        """How many indexes both have."""
        count = mine = theirs = 0
        while mine < len(self._intervals) and theirs < len(other._intervals):
            (first, last), (low, high) = self._intervals[mine], other._intervals[theirs]
            count += max(0, min(last, high) - max(first, low) + 1)
            if last < high:
                mine += 1
            else:
                theirs += 1
        return count


def _written(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"
