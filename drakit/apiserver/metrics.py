"""Counters and a latency histogram in Prometheus' text form. A handful of numbers need no library."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

__all__ = ["Metrics"]

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)


class Metrics:
    def __init__(self) -> None:
        self._requests: dict[tuple[str, str, int], int] = {}
        self._durations: dict[str, list[float]] = {}  # verb -> bucket counts, then sum

    def observe(self, verb: str, resource: str, code: int, seconds: float) -> None:
        key = (verb, resource, code)
        self._requests[key] = self._requests.get(key, 0) + 1
        found = self._durations.get(verb)
        if found is None:
            found = self._durations[verb] = [0.0] * (len(_BUCKETS) + 2)
        found[bisect_left(_BUCKETS, seconds)] += 1
        found[-1] += seconds

    def text(self, gauges: Iterable[tuple[str, str, float]]) -> bytes:
        """`gauges` are (name, labels, value) of the moment."""
        lines = [
            "# HELP apiserver_request_total Requests by verb, resource and HTTP code.",
            "# TYPE apiserver_request_total counter",
        ]
        for (verb, resource, code), count in sorted(self._requests.items()):
            lines.append(f'apiserver_request_total{{verb="{verb}",resource="{resource}",code="{code}"}} {count}')
        lines.append("# HELP apiserver_request_duration_seconds Time from the request to its answer, by verb.")
        lines.append("# TYPE apiserver_request_duration_seconds histogram")
        name = "apiserver_request_duration_seconds"
        for verb, counts in sorted(self._durations.items()):
            total = 0.0
            for bound, number in zip((*(str(bound) for bound in _BUCKETS), "+Inf"), counts[:-1], strict=True):
                total += number
                lines.append(f'{name}_bucket{{verb="{verb}",le="{bound}"}} {total:g}')
            lines.append(f'{name}_sum{{verb="{verb}"}} {counts[-1]:.6f}')
            lines.append(f'{name}_count{{verb="{verb}"}} {total:g}')
        seen: set[str] = set()
        for gauge, labels, value in gauges:
            if gauge not in seen:
                seen.add(gauge)
                lines.append(f"# TYPE {gauge} gauge")
            lines.append(f"{gauge}{{{labels}}} {value:g}" if labels else f"{gauge} {value:g}")
        return ("\n".join(lines) + "\n").encode()
