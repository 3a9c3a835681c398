"""What cannot succeed: necessary conditions on the rest of a search, checked without searching.

Counting (Hall's condition over the slots that are left), groups large enough for a match, enough values for a
distinct, sums of counters. Each is necessary for a solution, so cutting where one fails never changes the answer.
Also: which devices are interchangeable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from drakit.allocator.constraints import Constraint
from drakit.allocator.problem import Alternative

if TYPE_CHECKING:
    from drakit.allocator.search import Search

__all__ = ["Bounds", "enough_for_all"]

_SUBSETS = 8  # distinct masks up to which every subset is checked
_EFFORT = 3000  # restricted cases looked at in one call before the bound is left loose


class _Entry:
    """A slot still to be filled: the alternatives that could do it, with the devices each could use."""

    __slots__ = ("claim", "need", "options")

    def __init__(self, claim: int, options: list[tuple[Alternative, int]], need: int) -> None:
        self.claim = claim
        self.options = options
        self.need = need

    def mask(self) -> int:
        found = 0
        for _, mask in self.options:
            found |= mask
        return found

    def restricted(self, constraint: Constraint, element: tuple[str, Any]) -> _Entry | None:
        """With only devices that have the element, where the constraint applies; None when that is too few."""
        options: list[tuple[Alternative, int]] = []
        for alternative, mask in self.options:
            if constraint in alternative.constraints:
                mask &= alternative.groups[alternative.constraints.index(constraint)].get(element, 0)
            if mask.bit_count() >= min(self.need, alternative.count):
                options.append((alternative, mask))
        return _Entry(self.claim, options, self.need) if options else None


class Bounds:
    def __init__(self, search: Search) -> None:
        self._search = search
        self._problem = search.problem
        self.class_of: dict[int, int] = {}
        self._members: list[int] = []  # class -> devices
        self._signatures: dict[object, int] = {}
        self._cheapest: dict[int, list[dict[str, int]]] = {}
        self._work = 0
        self._classify()

    # Interchangeable devices

    def _classify(self) -> None:
        alternatives = [alternative for slot in self._search.slots for alternative in slot.alternatives]
        masks = [alternative.mask for alternative in alternatives]
        everything = 0
        for alternative, mask in zip(alternatives, masks, strict=True):
            everything |= mask
            for number in alternative.devices:
                everything |= 1 << number
        tables = [table for alternative in alternatives for table in alternative.elements]
        known: dict[object, int] = {}
        for number in _bits(everything):
            shape = self._problem.shapes[number]
            counters = self._search.counters_of.get(number)
            key = (
                tuple(mask >> number & 1 for mask in masks),
                tuple(table.get(shape) for table in tables),
                (counters.offset, counters.consumes[number]) if counters is not None else None,
                # A share leaves a mark on the device: no two of these are alike.
                number if self._problem.shareable >> number & 1 else None,
            )
            index = known.setdefault(key, len(known))
            if index == len(self._members):
                self._members.append(0)
            self._members[index] |= 1 << number
            self.class_of[number] = index

    def equals(self, number: int) -> int:
        """All devices for which the search would go exactly as for this one."""
        return self._members[self.class_of[number]]

    def signature(self, alternative: Alternative) -> int:
        """The same number for alternatives that ask for the same."""
        key = (
            alternative.mask,
            alternative.count,
            alternative.all_mode,
            alternative.admin,
            tuple(constraint.index for constraint in alternative.constraints),
            tuple(sorted(alternative.derived.items())),
            id(alternative.capacity),
        )
        return self._signatures.setdefault(key, len(self._signatures))

    # Necessary conditions

    def narrow(self, slot: int, alternative: Alternative, need: int, avail: int, end: int) -> int:
        """The devices of `avail` that can still lead to filling all slots before `end`; 0 when there is no way."""
        entries = [_Entry(alternative.slot.claim_index, [(alternative, avail)], need)]
        for later in range(slot + 1, end):
            entry = self.entry(later)
            if entry is None:
                return 0
            entries.append(entry)
        if avail.bit_count() < need or not self.enough(entries) or not self.counters_suffice(entries):
            return 0
        self._work = 0
        for claim in dict.fromkeys(entry.claim for entry in entries):
            allowed = self._constrained(entries, claim)
            if not allowed:
                return 0
            if claim == entries[0].claim:
                avail &= allowed
        return avail

    def entry(self, slot: int) -> _Entry | None:
        options = []
        for alternative in self._search.slots[slot].alternatives:
            if alternative.all_mode and not alternative.devices:
                continue
            mask = self._search.available(alternative, slot)
            if mask.bit_count() >= alternative.count:
                options.append((alternative, mask))
        if not options:
            return None
        claim = self._search.slots[slot].claim_index
        return _Entry(claim, options, min(alternative.count for alternative, _ in options))

    def enough(self, entries: Sequence[_Entry]) -> bool:
        shareable = self._problem.shareable
        wanted = []
        for entry in entries:
            # Admin access shares devices with others: such a slot competes with nobody for certain.
            if any(alternative.admin for alternative, _ in entry.options):
                continue
            mask = entry.mask()
            wanted.append((mask & ~shareable, entry.need - (mask & shareable).bit_count()))
        return enough_for_all(wanted)

    def counters_suffice(self, entries: Sequence[_Entry]) -> bool:
        for which, counters in enumerate(self._problem.counters):
            left: dict[str, int] = {}
            for (_, name), index in counters.index.items():
                left[name] = left.get(name, 0) + counters.left[index]
            taken: dict[str, int] = {}
            for entry in entries:
                for name, amount in self._cheapest_of(entry.mask())[which].items():
                    taken[name] = taken.get(name, 0) + amount * entry.need
            if any(amount > left[name] for name, amount in taken.items()):
                return False
        return True

    def _cheapest_of(self, mask: int) -> list[dict[str, int]]:
        """Per pool with counters: what every device of the mask takes at least."""
        found = self._cheapest.get(mask)
        if found is None:
            found = self._cheapest[mask] = [
                self._cheapest_in(mask, which) for which in range(len(self._problem.counters))
            ]
        return found

    def _cheapest_in(self, mask: int, which: int) -> dict[str, int]:
        counters = self._problem.counters[which]
        names = [name for _, name in counters.index]
        least: dict[str, int] | None = None
        for number in _bits(mask):
            if number not in counters.amounts or self._problem.shareable >> number & 1:
                return {}
            takes: dict[str, int] = {}
            for index, amount in counters.amounts[number]:
                takes[names[index]] = takes.get(names[index], 0) + amount
            if least is None:
                least = takes
            else:
                least = {name: min(amount, takes[name]) for name, amount in least.items() if name in takes}
        return least or {}

    # Constraints

    def _constrained(self, entries: list[_Entry], claim: int) -> int:
        """The first entry's devices that the claim's constraints leave (any non-zero value when it is another's)."""
        constraints = self._problem.constraints[claim]
        mine = [entry for entry in entries if entry.claim == claim]
        open_matches = [
            constraint
            for constraint in constraints
            if constraint.is_match
            and (not constraint.stack or len(constraint.stack[-1]) > 1)
            and any(constraint in alternative.constraints for entry in mine for alternative, _ in entry.options)
        ]
        return self._match(entries, claim, open_matches)

    def _match(self, entries: list[_Entry], claim: int, matches: list[Constraint]) -> int:
        if not matches:
            return entries[0].mask() if self._values_suffice(entries, claim) else 0
        constraint, rest = matches[0], matches[1:]
        subject = [entry for entry in entries if entry.claim == claim and _always(entry, constraint)]
        first_is_subject = bool(subject) and subject[0] is entries[0]
        allowed = 0
        for element in self._elements(subject, constraint):
            self._work += 1
            if self._work > _EFFORT:
                return entries[0].mask()
            if allowed and (not first_is_subject or not self._adds(entries[0], constraint, element, allowed)):
                continue
            restricted = _restrict(entries, claim, constraint, element)
            if restricted is not None and self.enough(restricted):
                allowed |= self._match(restricted, claim, rest)
        if not subject:
            return self._match(entries, claim, rest)
        if not constraint.stack and sum(entry.need for entry in subject) == 1:
            # A value of unknown kind may stand alone.
            allowed |= entries[0].mask() if not first_is_subject else self._without_elements(entries[0], constraint)
        return allowed

    def _elements(self, subject: list[_Entry], constraint: Constraint) -> Iterable[tuple[str, Any]]:
        if not subject:
            return ()
        # All subjects need the element: the one with the fewest decides.
        tables = [{e for a, _ in entry.options for e in a.groups[a.constraints.index(constraint)]} for entry in subject]
        fewest = min(tables, key=len)
        if constraint.stack:
            fewest = fewest & constraint.stack[-1]
        return fewest

    def _adds(self, entry: _Entry, constraint: Constraint, element: tuple[str, Any], allowed: int) -> bool:
        restricted = entry.restricted(constraint, element)
        return restricted is not None and bool(restricted.mask() & ~allowed)

    def _without_elements(self, entry: _Entry, constraint: Constraint) -> int:
        found = 0
        for alternative, mask in entry.options:
            for devices in alternative.groups[alternative.constraints.index(constraint)].values():
                mask &= ~devices
            found |= mask
        return found

    def _values_suffice(self, entries: list[_Entry], claim: int) -> bool:
        for constraint in self._problem.constraints[claim]:
            if constraint.is_match:
                continue
            subject = [entry for entry in entries if entry.claim == claim and _always(entry, constraint)]
            if sum(entry.need for entry in subject) < 2:
                continue
            numbers: dict[object, int] = {}
            wanted = [(self._values(entry, constraint, numbers), entry.need) for entry in subject]
            if not enough_for_all(wanted):
                return False
        return True

    def _values(self, entry: _Entry, constraint: Constraint, numbers: dict[object, int]) -> int:
        values = 0
        for alternative, mask in entry.options:
            plain = mask
            for element, devices in alternative.groups[alternative.constraints.index(constraint)].items():
                if mask & devices:
                    values |= 1 << numbers.setdefault(element, len(numbers))
                    plain &= ~devices
            for number in _bits(plain):  # of unknown kind: clashes with nothing that follows
                values |= 1 << numbers.setdefault(number, len(numbers))
        return values


def enough_for_all(wanted: Iterable[tuple[int, int]]) -> bool:
    """Hall's condition: whether disjoint sets of the wanted sizes could be taken from the masks."""
    merged: dict[int, int] = {}
    for mask, need in wanted:
        if need > 0:
            merged[mask] = merged.get(mask, 0) + need
    groups = list(merged.items())
    if len(groups) <= 1:
        return all(mask.bit_count() >= need for mask, need in groups)
    if len(groups) > _SUBSETS:
        # Exact would be a flow; nested unions from the smallest mask on catch the usual shortages.
        groups.sort(key=lambda group: group[0].bit_count())
        union = total = 0
        for mask, need in groups:
            if mask.bit_count() < need:
                return False
            union |= mask
            total += need
            if union.bit_count() < total:
                return False
        return True
    unions = [(0, 0)]
    for mask, need in groups:
        for union, total in list(unions):
            joined = (union | mask, total + need)
            if joined[0].bit_count() < joined[1]:
                return False
            unions.append(joined)
    return True


def _always(entry: _Entry, constraint: Constraint) -> bool:
    return all(constraint in alternative.constraints for alternative, _ in entry.options)


def _restrict(
    entries: list[_Entry], claim: int, constraint: Constraint, element: tuple[str, Any]
) -> list[_Entry] | None:
    restricted = []
    for entry in entries:
        if entry.claim != claim:
            restricted.append(entry)
            continue
        narrowed = entry.restricted(constraint, element)
        if narrowed is None:
            return None
        restricted.append(narrowed)
    return restricted


def _bits(mask: int) -> Iterable[int]:
    while mask:
        low = mask & -mask
        mask ^= low
        yield low.bit_length() - 1
