"""The agent's metrics under the kubelet's names, in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

__all__ = ["Counter", "Gauge", "Histogram", "Metrics"]

Labels = tuple[str, ...]
M = TypeVar("M", bound="Counter | Gauge | Histogram")
DRA_BUCKETS = tuple(0.1 * (400 ** (i / 14)) for i in range(15))  # 0.1 s to 40 s, exponential, as in the kubelet


class Counter:
    kind = "counter"

    def __init__(self, name: str, help_text: str, labels: Sequence[str] = ()) -> None:
        self.name, self.help, self.labels = name, help_text, tuple(labels)
        self.values: dict[Labels, float] = {}

    def inc(self, *labels: str, by: float = 1) -> None:
        self.values[labels] = self.values.get(labels, 0) + by

    def lines(self) -> Iterable[str]:
        for labels, value in sorted(self.values.items()):
            yield f"{self.name}{_braces(self.labels, labels)} {value:g}"


class Gauge:
    """Read when asked: `read` gives {labels: value}."""

    kind = "gauge"

    def __init__(
        self, name: str, help_text: str, labels: Sequence[str], read: Callable[[], Mapping[Labels, float]]
    ) -> None:
        self.name, self.help, self.labels, self.read = name, help_text, tuple(labels), read

    def lines(self) -> Iterable[str]:
        for labels, value in sorted(self.read().items()):
            yield f"{self.name}{_braces(self.labels, labels)} {value:g}"


class Histogram:
    kind = "histogram"

    def __init__(
        self, name: str, help_text: str, labels: Sequence[str], buckets: Sequence[float] = DRA_BUCKETS
    ) -> None:
        self.name, self.help, self.labels, self.buckets = name, help_text, tuple(labels), tuple(buckets)
        self.values: dict[Labels, list[float]] = {}  # counts per bucket, then count, then sum

    def observe(self, value: float, *labels: str) -> None:
        row = self.values.setdefault(labels, [0.0] * (len(self.buckets) + 2))
        for i, bound in enumerate(self.buckets):
            if value <= bound:
                row[i] += 1
        row[-2] += 1
        row[-1] += value

    def lines(self) -> Iterable[str]:
        for labels, row in sorted(self.values.items()):
            for bound, count in zip(self.buckets, row, strict=False):
                yield f"{self.name}_bucket{_braces((*self.labels, 'le'), (*labels, f'{bound:g}'))} {count:g}"
            yield f"{self.name}_bucket{_braces((*self.labels, 'le'), (*labels, '+Inf'))} {row[-2]:g}"
            yield f"{self.name}_sum{_braces(self.labels, labels)} {row[-1]:g}"
            yield f"{self.name}_count{_braces(self.labels, labels)} {row[-2]:g}"


class Metrics:
    """All metrics of one agent; parts add theirs, the agent's /metrics renders them."""

    def __init__(self) -> None:
        self._all: list[Counter | Gauge | Histogram] = []
        self.operations = self.histogram(
            "dra_operations_duration_seconds",
            "Latency of PrepareResources and UnprepareResources.",
            ("operation_name", "is_error"),
        )
        self.grpc = self.histogram(
            "dra_grpc_operations_duration_seconds",
            "Duration of the DRA gRPC calls.",
            ("driver_name", "method_name", "grpc_status_code"),
        )
        self.prepare_skips = self.counter(
            "dra_node_prepare_skips_total", "NodePrepareResources calls skipped.", ("driver_name",)
        )
        self.unprepare_skips = self.counter(
            "dra_node_unprepare_skips_total", "NodeUnprepareResources calls skipped.", ("driver_name",)
        )
        self.pod_resources = {
            method: self.counter(
                f"kubelet_pod_resources_endpoint_requests_{method}",
                f"Pod resources {method} requests.",
                ("server_api_version",),
            )
            for method in ("list", "get", "get_allocatable")
        }
        self.pod_resources_total = self.counter(
            "kubelet_pod_resources_endpoint_requests_total", "Pod resources requests.", ("server_api_version",)
        )

    def counter(self, name: str, help_text: str, labels: Sequence[str] = ()) -> Counter:
        return self._add(Counter(name, help_text, labels))

    def histogram(
        self, name: str, help_text: str, labels: Sequence[str] = (), buckets: Sequence[float] = DRA_BUCKETS
    ) -> Histogram:
        return self._add(Histogram(name, help_text, labels, buckets))

    def gauge(
        self, name: str, help_text: str, labels: Sequence[str], read: Callable[[], Mapping[Labels, float]]
    ) -> Gauge:
        return self._add(Gauge(name, help_text, labels, read))

    def _add(self, metric: M) -> M:
        self._all.append(metric)
        return metric

    def render(self) -> str:
        lines = []
        for metric in self._all:
            lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}", *metric.lines()]
        return "\n".join(lines) + "\n"


def _braces(names: Sequence[str], values: Sequence[str]) -> str:
    if not names:
        return ""
    quoted = (f'{n}="{_escape(v)}"' for n, v in zip(names, values, strict=True))
    return "{" + ",".join(quoted) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
