"""Following one resource: list once, then watch, resuming where it broke off and listing anew when the server has forgotten (410).

A Reflector keeps the plain objects and tells its views (typed or plain informers) of every change, in two steps: all views store, then
all views call their handlers, so that a handler reads the same state everywhere.

`observe` puts the answer of one's own write into the cache before the watch brings it: a controller reads its writes and needs neither
expectations nor a mutation cache. This is exact because resourceVersions of one resource are ordered numbers (KEP-5504): what is not
newer than what the watch has brought is ignored.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Protocol

from drakit.api.errors import StatusError
from drakit.client.client import Client
from drakit.client.outage import LONGEST_WAIT, Outage
from drakit.client.resources import Resource, key_of
from drakit.client.transport import Plain
from drakit.clock import Clock

__all__ = ["Reflector", "View"]

log = logging.getLogger(__name__)

_FIRST_BACKOFF = 0.05
_LAST_BACKOFF = 30.0
_EVENTS_PER_TURN = 256  # handle at most so many before letting others run,
_TURN = 0.005  # or events for so many seconds: a rule about all devices takes some milliseconds
_LATENCY = 1.0  # seconds that an event may take on an open watch


class View(Protocol):
    def store(self, key: str, plain: Plain | None) -> None:
        """Take over a new state of the object; None: it is gone."""

    def tell(self) -> None:
        """Call the handlers for what `store` has just changed."""


class Reflector:
    def __init__(
        self,
        client: Client,
        resource: Resource,
        clock: Clock,
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        outage: Outage | None = None,
    ) -> None:
        self.resource = resource
        self._outage = outage or Outage()
        self.plain: dict[str, Plain] = {}
        self.synced = asyncio.Event()
        self.events = 0  # changes told; for tests and load figures
        self._client, self._clock = client, clock
        self._namespace, self._labels, self._fields = namespace, labels, fields
        self._views: list[View] = []
        self._versions: dict[str, int] = {}
        self._gone: set[str] = set()  # UIDs deleted by us, not yet by the watch
        self._seen = 0  # newest resourceVersion that the list or the watch has brought
        self._absent = False  # the server does not have this kind
        self._watching_since: float | None = None  # of a watch that has not failed
        self._doubts: dict[int, float] = {}  # resourceVersion asked about, not seen -> when

    def unsure_for(self, version: int) -> float:
        """Seconds until what happened up to this resourceVersion can be taken as known here; 0: it is.

        A watch on which nothing happens does not tell how far it is, so it gets a while from the first time we are asked.
        """
        now = self._clock.monotonic()
        self._doubts = {each: asked for each, asked in self._doubts.items() if each > self._seen}
        if self._seen >= version or self._absent:
            return 0.0
        asked = self._doubts.setdefault(version, now)
        if self._watching_since is None:
            return _LATENCY
        return max(0.0, round(max(asked, self._watching_since) + _LATENCY - now, 3))

    def attach(self, view: View) -> None:
        self._views.append(view)
        for key, plain in self.plain.items():
            view.store(key, plain)

    def observe(self, plain: Plain) -> None:
        """Take the answer of a create, update or patch as if the watch had brought it."""
        version = int(plain["metadata"]["resourceVersion"])
        if version > self._seen:
            self._apply(plain, version)

    def observe_deleted(self, key: str, uid: str, answer: Plain) -> None:
        """Take the answer of a delete: the object is gone, or (finalizers, graceful deletion) marked."""
        metadata = answer.get("metadata") or {}
        if metadata.get("deletionTimestamp") and (
            metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
        ):
            self.observe(answer)
            return
        known = self.plain.get(key)
        if known is not None and known["metadata"].get("uid") == uid:
            self._gone.add(uid)
            self._remove(key)

    async def run(self) -> None:
        """List and watch until cancelled."""
        backoff = _FIRST_BACKOFF
        version = ""
        away = False  # the server was, at the last try
        while True:
            try:
                if not version:
                    version = await self._relist()
                    self._outage.over()
                    self.synced.set()
                version = await self._follow(version)
                backoff = _FIRST_BACKOFF
                await asyncio.sleep(0)  # a server that ends every watch at once must not starve the loop
                continue
            except StatusError as error:
                if error.code == 410:
                    version = ""
                    backoff = _FIRST_BACKOFF if away else backoff  # it is back, and has forgotten: nothing to wait for
                    away = False
                    log.debug("%s: history is gone, listing again", self.resource.plural)
                elif error.code == 404 and not self._seen:
                    # A kind that this server does not have (an alpha API, a gate): nothing to cache, but it may come.
                    self._absent = True
                    self.synced.set()
                    backoff = _LAST_BACKOFF
                else:
                    version = str(self._seen) if self._seen and error.code >= 500 else ""
                    away = self._outage.concerns(error)
                    backoff = min(backoff, LONGEST_WAIT) if away else backoff
                    level = logging.DEBUG if away else logging.WARNING
                    text = "%s: watch failed, trying again in %.2f s: %s"
                    log.log(level, text, self.resource.plural, backoff, error)
            except Exception:  # a faulty handler must not end the cache of the whole process
                version = ""
                log.exception("%s: handling an event failed, listing again in %.2f s", self.resource.plural, backoff)
            await self._clock.sleep(backoff)
            backoff = min(backoff * 2, _LAST_BACKOFF)

    async def _relist(self) -> str:
        # A consistent read, not resourceVersion=0: a controller that starts with one cache older than another could count twice.
        listing = await self._client.list_plain(
            self.resource, namespace=self._namespace, labels=self._labels, fields=self._fields
        )
        self._absent = False
        self._gone.clear()
        listed_at = int(listing.resource_version or 0)
        listed = set()
        for count, item in enumerate(listing.items, 1):
            # Items of a list come without apiVersion and kind.
            obj = (
                item
                if "kind" in item
                else {"apiVersion": self.resource.api_version, "kind": self.resource.kind, **item}
            )
            listed.add(key_of(obj))
            self._apply(obj, int(obj["metadata"]["resourceVersion"]))
            if count % _EVENTS_PER_TURN == 0:
                await asyncio.sleep(0)
        for key in [key for key, version in self._versions.items() if key not in listed and version <= listed_at]:
            self._remove(key)
        self._seen = max(self._seen, listed_at)
        return listing.resource_version

    async def _follow(self, version: str) -> str:
        stream = self._client.watch_plain(
            self.resource,
            resource_version=version,
            namespace=self._namespace,
            labels=self._labels,
            fields=self._fields,
            bookmarks=True,
        )
        handled, spent = 0, 0.0
        self._watching_since = self._clock.monotonic()
        try:
            async for kind, obj in stream:
                version = obj["metadata"]["resourceVersion"]
                self._seen = number = int(version)
                if not handled:
                    self._outage.over()
                began = time.perf_counter()
                if kind == "ADDED" or kind == "MODIFIED":
                    self._apply(obj, number)
                elif kind == "DELETED":
                    self._deleted(obj, number)
                handled += 1
                spent += time.perf_counter() - began
                if spent > _TURN or handled % _EVENTS_PER_TURN == 0:
                    await asyncio.sleep(0)
                    spent = 0.0
        finally:
            self._watching_since = None
            await stream.aclose()
        return version

    def _apply(self, plain: Plain, version: int) -> None:
        key = key_of(plain)
        known = self._versions.get(key)
        if known is not None and version <= known:
            return
        uid = plain["metadata"].get("uid")
        if self._gone and uid in self._gone:
            return
        if known is not None and self.plain[key]["metadata"].get("uid") != uid:
            self._remove(key)  # deleted and made anew while we were not looking: two events, as it happened
        self.plain[key] = plain
        self._versions[key] = version
        self._tell(key, plain)

    def _deleted(self, plain: Plain, version: int) -> None:
        self._gone.discard(plain["metadata"].get("uid", ""))
        key = key_of(plain)
        known = self._versions.get(key)
        if known is not None and known <= version:
            self._remove(key)

    def _remove(self, key: str) -> None:
        del self.plain[key], self._versions[key]
        self._tell(key, None)

    def _tell(self, key: str, plain: Plain | None) -> None:
        self.events += 1
        for view in self._views:
            view.store(key, plain)
        for view in self._views:
            view.tell()
