"""Counters, gauges and histograms under upstream's names, and their Prometheus text."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

__all__ = ["Counter", "Gauge", "Histogram", "Metrics"]

Labels = tuple[str, ...]


class Counter:
    kind = "counter"

    def __init__(self, name: str, help: str, labels: Sequence[str] = ()) -> None:
        self.name, self.help, self.labels = name, help, tuple(labels)
        self.values: dict[Labels, float] = {}

    def inc(self, *labels: str, by: float = 1) -> None:
        self.values[labels] = self.values.get(labels, 0) + by

    def lines(self) -> Iterator[str]:
        for labels, value in sorted(self.values.items()):
            yield f"{self.name}{_braces(self.labels, labels)} {_number(value)}"


class Gauge(Counter):
    """Set as it goes, or computed when it is read."""

    kind = "gauge"

    def __init__(
        self,
        name: str,
        help: str,
        labels: Sequence[str] = (),
        *,
        read: Callable[[], Mapping[Labels, float]] | None = None,
    ) -> None:
        super().__init__(name, help, labels)
        self._read = read

    def lines(self) -> Iterator[str]:
        if self._read is not None:
            self.values = dict(self._read())
        yield from super().lines()


class Histogram:
    kind = "histogram"

    def __init__(self, name: str, help: str, buckets: Sequence[float], labels: Sequence[str] = ()) -> None:
        self.name, self.help, self.labels = name, help, tuple(labels)
        self._bounds = tuple(sorted(buckets))
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, value: float, *labels: str) -> None:
        counts = self._counts.setdefault(labels, [0] * (len(self._bounds) + 1))
        counts[bisect_left(self._bounds, value)] += 1
        self._sums[labels] = self._sums.get(labels, 0.0) + value

    def lines(self) -> Iterator[str]:
        for labels, counts in sorted(self._counts.items()):
            total = 0
            for bound, count in zip((*map(_number, self._bounds), "+Inf"), counts, strict=True):
                total += count
                yield f"{self.name}_bucket{_braces((*self.labels, 'le'), (*labels, bound))} {total}"
            yield f"{self.name}_sum{_braces(self.labels, labels)} {_number(self._sums[labels])}"
            yield f"{self.name}_count{_braces(self.labels, labels)} {total}"


class Queue(Protocol):
    """What `client.WorkQueue` counts."""

    name: str
    adds: int
    retries: int

    def __len__(self) -> int: ...


_QUEUE_METRICS: tuple[tuple[str, str, str, Callable[[Queue], int]], ...] = (
    ("workqueue_adds_total", "Total number of adds handled by workqueue", "counter", lambda queue: queue.adds),
    ("workqueue_retries_total", "Total number of retries handled by workqueue", "counter", lambda queue: queue.retries),
    ("workqueue_depth", "Current depth of workqueue", "gauge", len),
)


class Metrics:
    def __init__(self) -> None:
        self._metrics: dict[str, Counter | Histogram] = {}
        self._queues: list[Queue] = []

    def add_queue(self, queue: Queue) -> None:
        """Show a work queue as client-go shows its own."""
        self._queues.append(queue)

    def _queue_lines(self) -> Iterator[str]:
        for name, help, kind, read in _QUEUE_METRICS:
            yield from (f"# HELP {name} {help}", f"# TYPE {name} {kind}")
            for queue in self._queues:
                yield f"{name}{_braces(('name',), (queue.name,))} {read(queue)}"

    def counter(self, name: str, help: str, labels: Sequence[str] = ()) -> Counter:
        metric = self._metrics.setdefault(name, Counter(name, help, labels))
        assert isinstance(metric, Counter)
        return metric

    def gauge(
        self,
        name: str,
        help: str,
        labels: Sequence[str] = (),
        *,
        read: Callable[[], Mapping[Labels, float]] | None = None,
    ) -> Gauge:
        metric = self._metrics[name] = Gauge(name, help, labels, read=read)
        return metric

    def histogram(self, name: str, help: str, buckets: Sequence[float], labels: Sequence[str] = ()) -> Histogram:
        metric = self._metrics.setdefault(name, Histogram(name, help, buckets, labels))
        assert isinstance(metric, Histogram)
        return metric

    def render(self) -> str:
        """Prometheus' text format."""
        lines: list[str] = []
        for metric in self._metrics.values():
            lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}", *metric.lines()]
        if self._queues:
            lines += self._queue_lines()
        return "\n".join(lines) + "\n" if lines else ""


def _braces(names: Sequence[str], values: Sequence[str]) -> str:
    if not names:
        return ""
    pairs = (f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True))
    return "{" + ",".join(pairs) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
