"""Counters, gauges and histograms, and their text as Prometheus reads it.

Counting is a dictionary lookup and an addition, cheap enough for every request; all formatting waits until somebody asks.
Each component counts in a Registry of its own. One that includes others shows them as one page: families of one name come
together, and samples with the same labels are added up.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

__all__ = ["CONTENT_TYPE", "Counter", "Gauge", "Histogram", "Registry", "exponential"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[str | int, ...]  # the values, in the order of the family's label names
Read = Callable[[], Mapping[tuple[str, ...], float]]


class _Family:
    kind = ""

    def __init__(self, name: str, help: str, labels: Sequence[str] = ()) -> None:
        self.name, self.help, self.labels = name, help, tuple(labels)

    @property
    def shape(self) -> tuple[object, ...]:
        """What two families of one name must agree on."""
        return self.kind, self.labels

    def samples(self) -> dict[Labels, list[float]]:
        raise NotImplementedError

    def lines(self, labels: Labels, numbers: list[float]) -> Iterator[str]:
        yield f"{self.name}{_braces(self.labels, labels)} {_number(numbers[0])}"


class Counter(_Family):
    """Counted as it goes; `readers` add what others have counted already."""

    kind = "counter"

    def __init__(self, name: str, help: str, labels: Sequence[str] = ()) -> None:
        super().__init__(name, help, labels)
        self.values: dict[Labels, float] = {}
        self.readers: list[Read] = []
        if not self.labels and self.kind == "counter":
            self.values[()] = 0  # a counter that has counted nothing says so

    def inc(self, *labels: str | int, by: float = 1) -> None:
        values = self.values
        values[labels] = values.get(labels, 0) + by

    def samples(self) -> dict[Labels, list[float]]:
        found = {labels: [value] for labels, value in self.values.items()}
        for read in self.readers:
            _add(found, {labels: [value] for labels, value in read().items()})
        return found


class Gauge(Counter):
    """Set as it goes, or read when somebody asks."""

    kind = "gauge"

    def set(self, value: float, *labels: str | int) -> None:
        self.values[labels] = value


class Histogram(_Family):
    kind = "histogram"

    def __init__(self, name: str, help: str, buckets: Sequence[float], labels: Sequence[str] = ()) -> None:
        super().__init__(name, help, labels)
        self.bounds = tuple(sorted(buckets))
        self._empty = [0.0] * (len(self.bounds) + 2)
        self._rows: dict[Labels, list[float]] = {}  # observations per bucket, beyond the last bound, and their sum

    @property
    def shape(self) -> tuple[object, ...]:
        return self.kind, self.labels, self.bounds

    def observe(self, value: float, *labels: str | int) -> None:
        row = self._rows.get(labels)
        if row is None:
            row = self._rows[labels] = self._empty.copy()
        row[bisect_left(self.bounds, value)] += 1
        row[-1] += value

    def samples(self) -> dict[Labels, list[float]]:
        return {labels: row.copy() for labels, row in self._rows.items()}

    def lines(self, labels: Labels, numbers: list[float]) -> Iterator[str]:
        total = 0.0
        for bound, count in zip((*map(_number, self.bounds), "+Inf"), numbers[:-1], strict=True):
            total += count
            yield f"{self.name}_bucket{_braces((*self.labels, 'le'), (*labels, bound))} {_number(total)}"
        braces = _braces(self.labels, labels)
        yield f"{self.name}_sum{braces} {_number(numbers[-1])}"
        yield f"{self.name}_count{braces} {_number(total)}"


F = TypeVar("F", bound=_Family)


class Registry:
    """The families of one component. Asking for a name again gives the same family."""

    def __init__(self) -> None:
        self._families: dict[str, _Family] = {}
        self._included: list[Registry] = []

    def counter(self, name: str, help: str, labels: Sequence[str] = (), *, read: Read | None = None) -> Counter:
        counter = self._known(Counter(name, help, labels))
        if read is not None:
            counter.readers.append(read)
        return counter

    def gauge(self, name: str, help: str, labels: Sequence[str] = (), *, read: Read | None = None) -> Gauge:
        gauge = self._known(Gauge(name, help, labels))
        if read is not None:
            gauge.readers.append(read)
        return gauge

    def histogram(self, name: str, help: str, buckets: Sequence[float], labels: Sequence[str] = ()) -> Histogram:
        return self._known(Histogram(name, help, buckets, labels))

    def _known(self, new: F) -> F:
        found = self._families.setdefault(new.name, new)
        _check_same(found, new)
        assert isinstance(found, type(new))
        return found

    def include(self, other: Registry) -> None:
        """Show the other's families too."""
        if other is not self and other not in self._included:
            self._included.append(other)

    def _all(self) -> Iterator[_Family]:
        yield from self._families.values()
        for other in self._included:
            yield from other._all()

    def render(self) -> str:
        """Prometheus' text format, version 0.0.4."""
        shown: dict[str, tuple[_Family, dict[Labels, list[float]]]] = {}
        for family in self._all():
            if family.name in shown:
                first, samples = shown[family.name]
                _check_same(first, family)
                _add(samples, family.samples())
            else:
                shown[family.name] = family, family.samples()
        lines: list[str] = []
        for name, (family, samples) in shown.items():
            lines += (f"# HELP {name} {_help(family.help)}", f"# TYPE {name} {family.kind}")
            for labels, numbers in sorted(samples.items()):
                lines += family.lines(labels, numbers)
        return "\n".join(lines) + "\n" if lines else ""


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Bounds as Prometheus' clients make them: each the one before times the factor."""
    bounds = [start]
    while len(bounds) < count:
        bounds.append(bounds[-1] * factor)
    return tuple(bounds)


def _check_same(one: _Family, other: _Family) -> None:
    if one.shape != other.shape:
        raise ValueError(f"metric {one.name}: {one.shape} and {other.shape} cannot be one family")


def _add(into: dict[Labels, list[float]], more: Mapping[Labels, list[float]]) -> None:
    for labels, numbers in more.items():
        known = into.get(labels)
        into[labels] = numbers if known is None else [a + b for a, b in zip(known, numbers, strict=True)]


def _braces(names: Sequence[str], values: Labels) -> str:
    if not names:
        return ""
    pairs = (f'{name}="{_escaped(str(value))}"' for name, value in zip(names, values, strict=True))
    return "{" + ",".join(pairs) + "}"


def _escaped(text: str) -> str:
    return _help(text).replace('"', '\\"')


def _help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value % 1 == 0 else repr(value)
