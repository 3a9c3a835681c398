"""What the server counts: every request as it is answered; what store and connections know is read when somebody asks."""

from __future__ import annotations

from collections.abc import Callable

from drakit.apiserver.store import Store
from drakit.metrics import Registry

__all__ = ["ServerMetrics"]

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)


class ServerMetrics:
    def __init__(self, store: Store, connections: Callable[[], int]) -> None:
        self.registry = registry = Registry()
        self._counts = registry.counter(
            "apiserver_request_total", "Requests by verb, resource and HTTP code.", ("verb", "resource", "code")
        ).values
        self._durations = registry.histogram(
            "apiserver_request_duration_seconds", "Time from the request to its answer, by verb.", _SECONDS, ("verb",)
        )
        registry.gauge(
            "apiserver_storage_objects",
            "Stored objects by resource.",
            ("resource",),
            read=lambda: {(c.resource,): len(c.objects) for c in store.collections()},
        )
        registry.gauge(
            "drakit_apiserver_watches",
            "Open watches by resource.",
            ("resource",),
            read=lambda: {(c.resource,): len(c.watchers) for c in store.collections() if len(c.watchers)},
        )
        registry.gauge(
            "drakit_store_resource_version", "The newest resource version.", read=lambda: {(): store.version}
        )
        registry.counter("drakit_store_commits_total", "Transactions on disk.", read=lambda: {(): store.commits})
        registry.counter(
            "drakit_store_failed_commits_total", "Transactions that failed.", read=lambda: {(): store.failures}
        )
        registry.gauge("drakit_http_connections", "Open connections.", read=lambda: {(): connections()})

    def observe(self, verb: str, resource: str, code: int, seconds: float) -> None:
        key, counts = (verb, resource, code), self._counts  # `inc`, without the call: this is on every request's way
        counts[key] = counts.get(key, 0) + 1
        self._durations.observe(seconds, verb)
