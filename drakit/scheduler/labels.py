"""Which of many things (nodes, kinds of pods) have which labels: a selector costs its expressions, not these times the things.

Things have numbers; sets of them are integers with one bit for each, negative where all others are meant.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from operator import or_

from lightkube.models.core_v1 import NodeSelectorRequirement
from lightkube.models.meta_v1 import LabelSelector, LabelSelectorRequirement

from drakit.cel.text import parse_int
from drakit.scheduler.selectors import Labels

Bits = int
Pairs = tuple[tuple[str, str], ...]  # labels and their values


def asked(selector: LabelSelector | None) -> Iterator[str]:
    """The labels that it looks at; some more than once."""
    if selector is not None:
        yield from selector.matchLabels or ()
        yield from (requirement.key for requirement in selector.matchExpressions or ())


def only(keys: frozenset[str], labels: Labels) -> Pairs:
    """What is the same for two pods is the same to all selectors that look at these keys only."""
    return tuple([pair for pair in labels.items() if pair[0] in keys])


class LabelIndex:
    """Answers as `selectors.requirement_matches` and `label_selector_matches` do, for all things at once."""

    def __init__(self) -> None:
        self._having: dict[str, Bits] = {}  # by key
        self._values: dict[str, dict[str, Bits]] = {}  # by key and value
        self._numbers: dict[str, tuple[list[int], list[Bits]]] = {}  # of keys asked for by size; see `_in_order`

    def add(self, number: int, labels: Labels) -> None:
        bit = 1 << number
        for key, value in labels.items():
            self._having[key] = self._having.get(key, 0) | bit
            values = self._values.setdefault(key, {})
            values[value] = values.get(value, 0) | bit
            self._numbers.pop(key, None)

    def remove(self, number: int, labels: Labels) -> None:
        """With the labels that were added."""
        bit = 1 << number
        for key, value in labels.items():
            self._having[key] ^= bit
            values = self._values[key]
            values[value] ^= bit
            if not values[value]:
                del values[value]
            if not values:
                del self._having[key], self._values[key]
            self._numbers.pop(key, None)

    def having(self, key: str) -> Bits:
        return self._having.get(key, 0)

    def meeting(self, requirement: NodeSelectorRequirement | LabelSelectorRequirement) -> Bits:
        key, wanted = requirement.key, requirement.values or ()
        match requirement.operator:
            case "In":
                return self._with_any(key, wanted)
            case "NotIn":
                return ~self._with_any(key, wanted)
            case "Exists":
                return self.having(key)
            case "DoesNotExist":
                return ~self.having(key)
            case "Gt" | "Lt":
                want = parse_int(wanted[0]) if wanted else None
                if want is None or key not in self._values:
                    return 0
                numbers, before = self._in_order(key)
                if requirement.operator == "Lt":
                    return before[bisect_left(numbers, want)]
                return before[-1] & ~before[bisect_right(numbers, want)]
            case _:
                return 0

    def selected(self, selector: LabelSelector | None) -> Bits:
        """A missing selector selects nothing, an empty one everything."""
        if selector is None:
            return 0
        found = -1
        for key, value in (selector.matchLabels or {}).items():
            found &= self._with_any(key, (value,))
        for requirement in selector.matchExpressions or ():
            found &= self.meeting(requirement)
        return found

    def _with_any(self, key: str, wanted: list[str] | tuple[str, ...]) -> Bits:
        values, found = self._values.get(key, {}), 0
        for value in wanted:
            found |= values.get(value, 0)
        return found

    def _in_order(self, key: str) -> tuple[list[int], list[Bits]]:
        """The values that are integers, ascending; and who has one of the first so many of them."""
        if (known := self._numbers.get(key)) is not None:
            return known
        having: Counter[int] = Counter()
        for value, bits in self._values[key].items():
            if (number := parse_int(value)) is not None:
                having[number] |= bits
        numbers = sorted(having)
        found = self._numbers[key] = numbers, list(accumulate((having[n] for n in numbers), or_, initial=0))
        return found


class Tally:
    """A sum of weights for each thing, all counted at once: a bit of each sum in each of the integers."""

    def __init__(self) -> None:
        self._plus: list[Bits] = []
        self._minus: list[Bits] = []

    def __bool__(self) -> bool:
        return bool(self._plus or self._minus)

    def add(self, weight: int, things: Bits) -> None:
        digits, size = (self._plus, weight) if weight > 0 else (self._minus, -weight)
        for first in range(size.bit_length()):
            place, carry = first, things if size >> first & 1 else 0
            while carry:
                digits.extend([0] * (place + 1 - len(digits)))
                digits[place], carry = digits[place] ^ carry, digits[place] & carry
                place += 1

    def of(self, number: int) -> int:
        plus, minus = (
            sum((digit >> number & 1) << place for place, digit in enumerate(digits))
            for digits in (self._plus, self._minus)
        )
        return plus - minus
