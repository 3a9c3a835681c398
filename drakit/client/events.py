"""Events about objects, written in the background: components tell, the recorder folds repeats together and keeps within limits.

Two forms as in Kubernetes: controllers write core/v1 events (repeats raise `count`; many similar ones become one "combined" event;
each source may tell 25 things about an object at once, then one in 5 minutes), the scheduler and newer parts events.k8s.io/v1
(repeats make a `series`).
Losing an event is allowed, delaying the component is not.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from drakit.api.errors import StatusError
from drakit.api.times import micro_timestamp, timestamp
from drakit.client.client import Client
from drakit.client.resources import Resource, resource_of
from drakit.client.transport import Plain
from drakit.clock import Clock, SystemClock

__all__ = ["EventRecorder", "reference_to"]

log = logging.getLogger(__name__)
V = TypeVar("V")

CORE_EVENTS = Resource("", "v1", "events", "Event", True)
EVENTS = Resource("events.k8s.io", "v1", "events", "Event", True)

_CACHE = 4096  # the limits of client-go's EventCorrelator
_SIMILAR_LIMIT = 10
_SIMILAR_WINDOW = 600.0
_BURST = 25.0
_REFILL = 1 / 300
_SERIES_REFRESH = 1800.0
_SERIES_END = 360.0
_PENDING_LIMIT = 10_000
_WRITERS = 8
_NOTE_LIMIT = 1024


def reference_to(obj: Any) -> Plain:
    """An ObjectReference to a typed or plain object."""
    if isinstance(obj, dict):
        metadata = obj.get("metadata", {})
        reference = {
            "kind": obj.get("kind"), "namespace": metadata.get("namespace"), "name": metadata.get("name"), "uid": metadata.get("uid"),
            "apiVersion": obj.get("apiVersion"), "resourceVersion": metadata.get("resourceVersion"),
        }  # fmt: skip
    else:
        resource, meta = resource_of(type(obj)), obj.metadata
        reference = {
            "kind": resource.kind, "namespace": meta.namespace, "name": meta.name, "uid": meta.uid,
            "apiVersion": resource.api_version, "resourceVersion": meta.resourceVersion,
        }  # fmt: skip
    return {name: value for name, value in reference.items() if value}


class _Recent(OrderedDict[Any, V], Generic[V]):
    """The last few thousand of something."""

    def put(self, key: Any, value: V) -> None:
        self[key] = value
        self.move_to_end(key)
        if len(self) > _CACHE:
            self.popitem(last=False)


@dataclass(slots=True)
class _Similar:
    messages: set[str]
    since: float


@dataclass(slots=True)
class _Written:
    """An event that the server has, or will have: `change` is what is still to be written (all of it at first)."""

    resource: Resource
    namespace: str
    name: str
    count: int
    at: float
    change: Plain | None
    created: bool = False
    queued: bool = False


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class EventRecorder:
    def __init__(
        self,
        client: Client,
        component: str,
        *,
        clock: Clock | None = None,
        api: Literal["core", "events"] = "core",
        instance: str = "",
    ) -> None:
        self.component = component
        self.dropped = 0
        self._client = client
        self._clock = clock or SystemClock()
        self._api = api
        self._instance = instance or component
        self._pending: deque[_Written] = deque()
        self._writers: set[asyncio.Task[None]] = set()
        self._written: _Recent[_Written] = _Recent()
        self._similar: _Recent[_Similar] = _Recent()
        self._buckets: _Recent[_Bucket] = _Recent()
        self._stamp = 0

    def event(self, obj: Any, type: str, reason: str, message: str, *, action: str = "", related: Any = None) -> None:
        """Tell something about an object (typed, plain, or an ObjectReference made by `reference_to`)."""
        reference = obj if isinstance(obj, dict) and "metadata" not in obj else reference_to(obj)
        message = message[:_NOTE_LIMIT]  # before it is remembered: thousands are
        if self._api == "events":
            self._tell_series(reference, type, reason, message, action, related)
        else:
            self._tell_core(reference, type, reason, message)

    async def flush(self) -> None:
        """Wait until what was told is written; for the end of a process."""
        while self._writers:
            await asyncio.gather(*self._writers, return_exceptions=True)

    def _tell_core(self, reference: Plain, type: str, reason: str, message: str) -> None:
        now = self._clock.monotonic()
        about = (reference.get("kind"), reference.get("namespace"), reference.get("name"), reference.get("uid"))
        if not self._allowed(about, now):
            self.dropped += 1
            return
        alike = (*about, type, reason)
        similar = self._similar.get(alike)
        if similar is None or now - similar.since > _SIMILAR_WINDOW:
            similar = _Similar(set(), now)
        similar.since = now
        similar.messages.add(message)
        self._similar.put(alike, similar)
        key: tuple[Any, ...] = (*alike, message)
        reporter = self.component
        if len(similar.messages) >= _SIMILAR_LIMIT:
            similar.messages.discard(message)  # those that came first go on counting for themselves
            key, reporter = alike, ""  # one event stands for all others
            message = f"(combined from similar events): {message}"
        stamp = timestamp(self._clock.now())
        known = self._written.get(key)
        if known is not None and now - known.at <= _SIMILAR_WINDOW * 6:
            known.count += 1
            self._again(key, known, {"count": known.count, "lastTimestamp": stamp, "message": message})
            return
        namespace, name = self._named(reference)
        body = {
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": namespace},
            "involvedObject": reference, "reason": reason, "message": message[:_NOTE_LIMIT], "type": type,
            "firstTimestamp": stamp, "lastTimestamp": stamp, "count": 1,
            "source": {"component": self.component}, "reportingComponent": reporter, "reportingInstance": "",
        }  # fmt: skip
        self._first(key, _Written(CORE_EVENTS, namespace, name, 1, now, body))

    def _tell_series(self, reference: Plain, type: str, reason: str, message: str, action: str, related: Any) -> None:
        now = self._clock.monotonic()
        other = reference_to(related) if related is not None else None
        key = (
            reference.get("kind"), reference.get("namespace"), reference.get("name"), reference.get("uid"), type, reason, action,
            other and (other.get("kind"), other.get("name"), other.get("uid")),
        )  # fmt: skip
        stamp = micro_timestamp(self._clock.now())
        known = self._written.get(key)
        if known is not None and now - known.at <= _SERIES_END:
            known.count += 1
            if known.count == 2 or now - known.at >= _SERIES_REFRESH:
                self._again(key, known, {"series": {"count": known.count, "lastObservedTime": stamp}})
            known.at = now
            return
        namespace, name = self._named(reference)
        body = {
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": name, "namespace": namespace},
            "regarding": reference, "reason": reason, "note": message, "type": type, "action": action or reason,
            "eventTime": stamp, "reportingController": self.component, "reportingInstance": self._instance,
        }  # fmt: skip
        if other is not None:
            body["related"] = other
        self._first(key, _Written(EVENTS, namespace, name, 1, now, body))

    def _first(self, key: Any, entry: _Written) -> None:
        self._written.put(key, entry)
        self._submit(entry)

    def _again(self, key: Any, entry: _Written, change: Plain) -> None:
        """Repeats that come faster than they can be written become one write."""
        entry.change = {**(entry.change or {}), **change}
        entry.at = self._clock.monotonic()
        self._written.put(key, entry)
        self._submit(entry)

    def _allowed(self, about: tuple[Any, ...], now: float) -> bool:
        bucket = self._buckets.get(about)
        if bucket is None:
            bucket = _Bucket(_BURST, now)
        bucket.tokens = min(_BURST, bucket.tokens + (now - bucket.at) * _REFILL)
        bucket.at = now
        self._buckets.put(about, bucket)
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def _named(self, reference: Plain) -> tuple[str, str]:
        stamp = int(self._clock.now().timestamp() * 1e9)
        self._stamp = max(stamp, self._stamp + 1)  # names must differ even when the clock stands still
        return reference.get("namespace") or "default", f"{reference['name']}.{self._stamp:x}"

    def _submit(self, entry: _Written) -> None:
        if entry.queued:
            return
        if len(self._pending) >= _PENDING_LIMIT:
            self.dropped += 1
            return
        entry.queued = True
        self._pending.append(entry)
        if len(self._writers) < _WRITERS:
            task = asyncio.get_running_loop().create_task(self._drain(), name=f"events:{self.component}")
            self._writers.add(task)
            task.add_done_callback(self._writers.discard)

    async def _drain(self) -> None:
        while self._pending:
            entry = self._pending.popleft()
            while entry.change is not None:  # told again while it was being written
                await self._write(entry)
            entry.queued = False

    async def _write(self, entry: _Written) -> None:
        change, entry.change = entry.change, None
        assert change is not None
        try:
            if entry.created:
                await self._client.patch_plain(
                    entry.resource, entry.name, change, namespace=entry.namespace, kind="strategic"
                )
            else:
                await self._client.create_plain(entry.resource, change, namespace=entry.namespace)
                entry.created = True
        except StatusError as error:
            # Events are told once: a namespace that is going away, a quota or an expired event is no reason to try again.
            self.dropped += 1
            entry.at = float("-inf")  # the next repeat starts a new event
            entry.change = None
            log.debug("event about %s not written: %s", entry.name, error)
