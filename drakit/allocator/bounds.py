"""What cannot succeed: necessary conditions on the rest of a search, checked without searching.

Counting (Hall's condition over the slots that are left), groups large enough for a match, enough values for a
distinct, counters and capacity in sum and per counter set or device. Each is necessary for a solution, so cutting where
one fails never changes the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from drakit.allocator.capacity import Consumed
from drakit.allocator.constraints import Constraint
from drakit.allocator.counters import PoolCounters
from drakit.allocator.problem import MAX_RESULTS, Alternative

if TYPE_CHECKING:
    from drakit.allocator.search import Search

__all__ = ["Bounds", "enough_for_all"]

_SUBSETS = 8  # distinct masks up to which every subset is checked
_PAIRS = 6  # entries up to which counters are weighed pair by pair
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


class _Cheapest:
    """What any device of a mask takes at least from one pool's counters: overall, and per counter set."""

    __slots__ = ("_by_set", "_indexes", "_unbound", "overall")

    def __init__(self, counters: PoolCounters, mask: int, shareable: int) -> None:
        names = [name for _, name in counters.index]
        self._indexes: dict[str, tuple[int, ...]] = {}
        for (set_name, _), index in counters.index.items():
            self._indexes[set_name] = (*self._indexes.get(set_name, ()), index)
        self._unbound = 0  # devices that draw from none of the sets, or not every time
        self._by_set: dict[str, tuple[int, tuple[int, ...]]] = {}  # set -> (devices, least amount per counter)
        overall: dict[str, int] | None = None
        several = False
        for number in _bits(mask):
            consumes = counters.consumes.get(number, ())
            several = several or len(consumes) > 1
            if len(consumes) != 1 or shareable >> number & 1:
                self._unbound += 1
                overall = {} if not consumes or shareable >> number & 1 else overall
                continue
            amounts = dict(counters.amounts[number])
            set_name = consumes[0].counter_set
            mine = tuple(amounts.get(index, 0) for index in self._indexes[set_name])
            count, least = self._by_set.get(set_name, (0, mine))
            self._by_set[set_name] = (count + 1, tuple(map(min, least, mine)))
            takes = {names[index]: amount for index, amount in amounts.items()}
            if overall is None:
                overall = takes
            else:
                overall = {name: min(amount, takes[name]) for name, amount in overall.items() if name in takes}
        self.overall = {} if overall is None or several else overall

    @property
    def sets(self) -> int:
        return len(self._by_set)

    def room(self, left: Sequence[int]) -> int:
        """How many devices of the mask could be had at most, with these counters left."""
        return self._unbound + sum(
            _fitting(count, least, tuple(left[index] for index in self._indexes[name]))
            for name, (count, least) in self._by_set.items()
        )

    def room_beside(self, other: _Cheapest, need: int, left: Sequence[int]) -> int:
        """The same, when `need` devices of the other mask are taken as well, wherever that costs the least room."""
        room = self._unbound
        losses = [0] * other._unbound
        for name in self._by_set.keys() | other._by_set.keys():
            here = tuple(left[index] for index in self._indexes[name])
            found, lost = _weigh(self._by_set.get(name), other._by_set.get(name), here)
            room += found
            losses += lost
        losses.sort()
        return room - sum(losses[:need])


def _fitting(count: int, least: tuple[int, ...], left: tuple[int, ...]) -> int:
    for amount, available in zip(least, left, strict=True):
        if amount:
            count = min(count, available // amount)
    return max(0, count)


_Share = tuple[int, tuple[int, ...]] | None


@lru_cache(maxsize=16384)
def _weigh(one: _Share, other: _Share, left: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """Of one counter set: the room for devices of the one kind, and how much of it each device of the other kind costs."""
    before = room = _fitting(*one, left) if one is not None else 0
    losses = []
    if other is not None:
        takes = other[1]
        for times in range(1, _fitting(*other, left) + 1):
            rest = tuple(available - times * amount for available, amount in zip(left, takes, strict=True))
            after = _fitting(*one, rest) if one is not None else 0
            losses.append(before - after)
            before = after
    return room, tuple(losses)


class Bounds:
    def __init__(self, search: Search) -> None:
        self._search = search
        self._problem = search.problem
        self._cheapest: dict[int, list[_Cheapest]] = {}
        self._work = 0
        self.spent = 0  # effort so far, in steps of the search (about 10 us)

    # Necessary conditions

    def narrow(self, slot: int, alternative: Alternative, need: int, avail: int, end: int) -> int:
        """The devices of `avail` that can still lead to filling all slots before `end`; 0 when there is no way."""
        self.spent += 1 + end - slot
        entries = [_Entry(alternative.slot.claim_index, [(alternative, avail)], need)]
        for later in range(slot + 1, end):
            entry = self.entry(later)
            if entry is None:
                return 0
            entries.append(entry)
        if avail.bit_count() < need or not self.enough(entries):
            return 0
        if not self.counters_suffice(entries) or not self.shares_suffice(entries):
            return 0
        self._work = 0
        for claim in dict.fromkeys(entry.claim for entry in entries):
            allowed = self._constrained(entries, claim)
            if not allowed:
                return 0
            if claim == entries[0].claim:
                avail &= allowed
        self.spent += self._work // 2
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
                cheapest = self._cheapest_of(entry.mask())[which]
                if cheapest.room(counters.left) < entry.need:
                    return False
                for name, amount in cheapest.overall.items():
                    taken[name] = taken.get(name, 0) + amount * entry.need
            if any(amount > left[name] for name, amount in taken.items()):
                return False
            if len(entries) <= _PAIRS and not self._pairs_suffice(counters.left, which, entries):
                return False
        return True

    def _pairs_suffice(self, left: Sequence[int], which: int, entries: Sequence[_Entry]) -> bool:
        """Whether, after one entry has taken what it needs in the least harmful way, another still finds room."""
        known = [(entry.need, self._cheapest_of(entry.mask())[which]) for entry in entries]
        drawing = [(need, cheapest) for need, cheapest in known if cheapest.sets]
        self.spent += sum(cheapest.sets for _, cheapest in drawing) * len(drawing) // 3
        return all(
            one is other or other.room_beside(one, need, left) >= wanted
            for need, one in drawing
            for wanted, other in drawing
        )

    def _cheapest_of(self, mask: int) -> list[_Cheapest]:
        found = self._cheapest.get(mask)
        if found is None:
            shareable = self._problem.shareable
            found = self._cheapest[mask] = [_Cheapest(counters, mask, shareable) for counters in self._problem.counters]
        return found

    def shares_suffice(self, entries: Sequence[_Entry]) -> bool:
        """Room for all shares: with each entry's amounts by itself, and with the smallest amounts for all together."""
        shareable = self._problem.shareable
        # Admin access leaves devices that are not shareable to others: no bound for such entries.
        sharing = [e for e in entries if e.mask() & shareable and not any(a.admin for a, _ in e.options)]
        if not sharing:
            return True
        groups: dict[object, list[_Entry]] = {}
        for entry in sharing:
            groups.setdefault(tuple(id(alternative.capacity) for alternative, _ in entry.options), []).append(entry)
        return all(self._room_for(group) for group in [*groups.values(), sharing])

    def _room_for(self, entries: Sequence[_Entry]) -> bool:
        wanted = sum(entry.need for entry in entries)
        union = 0
        for entry in entries:
            union |= entry.mask()
        room = (union & ~self._problem.shareable).bit_count()
        for number in _bits(union & self._problem.shareable):
            if room >= wanted:
                return True
            mine = [(a, mask) for entry in entries for a, mask in entry.options if mask >> number & 1]
            room += min(self._shares_left(number, [a for a, _ in mine]), len(entries))
        return room >= wanted

    def _shares_left(self, number: int, alternatives: list[Alternative]) -> int:
        """How many more shares of the device there could be at best."""
        shape = self._problem.shapes[number]
        least: dict[str, int] = {}
        limits: Mapping[str, int] = {}
        for alternative in alternatives:
            verdict = alternative.capacity.verdict(shape) if alternative.capacity is not None else None
            if not isinstance(verdict, Consumed):
                return MAX_RESULTS
            limits = verdict.limits
            least = {name: min(amount, least.get(name, amount)) for name, amount in verdict.amounts.items()}
        used = [self._search.held_capacity(number), *self._search.shares.get(number, ())]
        room = [
            (limits[name] - sum(share.get(name, 0) for share in used)) // amount
            for name, amount in least.items()
            if amount
        ]
        return min(room, default=MAX_RESULTS)

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
