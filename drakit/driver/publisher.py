"""Keeps a driver's ResourceSlices as the driver wants them: writes minimal changes, retries, repairs what others change.

One pass per pool at a time. A driver's own update is applied at once; changes made by others are repaired after a delay, so that two
writers do not fight each other at full speed. Stopping leaves the slices: the kubelet or a restart cleans up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from lightkube.models.core_v1 import Node
from lightkube.models.resource_v1 import ResourceSlice

from drakit.api.errors import StatusError
from drakit.client import Client
from drakit.clock import Clock, SystemClock
from drakit.driver import slices
from drakit.driver.errors import PublishError
from drakit.driver.slices import Plan, Pool

__all__ = ["Publisher"]

log = logging.getLogger(__name__)
REPAIR_DELAY = 30.0
_FIRST_RETRY, _LAST_RETRY = 0.005, 1000.0


class Publisher:
    """`update(pools)` says what is wanted; `synced()` waits until it is stored; errors go to `on_error` and are retried."""

    def __init__(
        self,
        client: Client,
        driver: str,
        *,
        node_name: str = "",
        on_error: Callable[[Exception, str], None] | None = None,
        clock: Clock | None = None,
        repair_delay: float = REPAIR_DELAY,
    ) -> None:
        self._client = client
        self._driver = driver
        self._node_name = node_name
        self._on_error = on_error or (lambda error, what: log.warning("%s: %s", what, error))
        self._clock = clock or SystemClock()
        self._repair_delay = repair_delay
        self._wanted: dict[str, Pool] = {}
        self._owner: dict[str, Any] | None = None
        self._wake = asyncio.Event()
        self._synced = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._repair: asyncio.Task[None] | None = None
        self.writes = {"create": 0, "update": 0, "delete": 0}

    def update(self, pools: Mapping[str, Pool]) -> None:
        """The whole desired state: a pool that is not in it any more is withdrawn."""
        for name, pool in pools.items():
            slices.check_pool(name, pool)
        self._wanted = dict(pools)
        self._synced.clear()
        self._wake.set()

    async def synced(self) -> None:
        await self._synced.wait()

    async def start(self) -> None:
        self._tasks = [asyncio.create_task(self._run()), asyncio.create_task(self._watch())]

    async def stop(self) -> None:
        tasks = self._tasks + ([self._repair] if self._repair is not None else [])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks, self._repair = [], None

    async def remove(self) -> None:
        """Deletes all slices of this driver and node (uninstalling; not done by stop)."""
        await self.stop()
        for found in await self._existing():
            await self._delete(found)

    async def _run(self) -> None:
        retry = _FIRST_RETRY
        while True:
            await self._wake.wait()
            self._wake.clear()
            wanted = self._wanted
            try:
                await self._sync(wanted)
            except (StatusError, PublishError, OSError) as error:
                self._on_error(error, "processing ResourceSlice objects")
                await self._clock.sleep(retry)
                retry = min(retry * 2, _LAST_RETRY)
                self._wake.set()
                continue
            retry = _FIRST_RETRY
            if wanted is self._wanted:
                self._synced.set()

    async def _watch(self) -> None:
        """A change that is not ours leads to another look, later; the look itself finds nothing to do when it was ours."""
        while True:
            try:
                listing = await self._client.list(ResourceSlice, fields=self._selector)
                version = listing.resource_version
                async for event in self._client.watch(ResourceSlice, resource_version=version, fields=self._selector):
                    if event.type != "BOOKMARK" and (self._repair is None or self._repair.done()):
                        self._repair = asyncio.create_task(self._look_later())
            except (StatusError, OSError) as error:
                log.debug("watch of ResourceSlices ended: %s", error)
            await self._clock.sleep(1.0)

    async def _look_later(self) -> None:
        await self._clock.sleep(self._repair_delay)
        self._wake.set()

    @property
    def _selector(self) -> str:
        return f"spec.driver={self._driver},spec.nodeName={self._node_name}"

    async def _existing(self) -> list[dict[str, Any]]:
        listing = await self._client.list(ResourceSlice, fields=self._selector)
        return [item.to_dict() for item in listing.items]

    async def _sync(self, wanted: Mapping[str, Pool]) -> None:
        if self._node_name and self._owner is None:
            node = await self._client.get(Node, self._node_name)
            assert node.metadata is not None
            self._owner = {
                "apiVersion": "v1",
                "kind": "Node",
                "name": self._node_name,
                "uid": node.metadata.uid,
                "controller": True,
            }
        by_pool: dict[str, list[dict[str, Any]]] = {name: [] for name in wanted}
        for found in await self._existing():
            by_pool.setdefault(found["spec"]["pool"]["name"], []).append(found)
        for name, existing in by_pool.items():
            todo = slices.plan(
                self._driver, name, wanted.get(name), existing, node_name=self._node_name, owner=self._owner
            )
            await self._apply(name, todo)

    async def _apply(self, pool: str, todo: Plan) -> None:
        for found in todo.delete:
            await self._delete(found)
        for body in todo.update:
            self._check_stored(pool, body, await self._client.update(body))
            self.writes["update"] += 1
        for body in todo.create:
            self._check_stored(pool, body, await self._client.create(body))
            self.writes["create"] += 1

    async def _delete(self, found: Mapping[str, Any]) -> None:
        try:
            metadata = found["metadata"]
            version = metadata.get("resourceVersion", "")
            await self._client.delete(
                ResourceSlice, metadata["name"], uid=metadata.get("uid", ""), resource_version=version
            )
            self.writes["delete"] += 1
        except StatusError as error:
            if error.code != 404:
                raise

    def _check_stored(self, pool: str, wanted: Mapping[str, Any], stored: ResourceSlice) -> None:
        """A gate that is off drops fields silently: say so once, and want from now on what can be stored (no update loop)."""
        actual = stored.to_dict()
        if slices.same(actual["spec"], wanted["spec"]):
            return
        dropped = sorted(_dropped(wanted["spec"], actual["spec"]))
        self._on_error(
            PublishError(
                f"pool {pool!r}: the API server dropped {', '.join(dropped) or 'fields'}: a feature gate is off there"
            ),
            "publishing ResourceSlices",
        )
        current = self._wanted.get(pool)
        if current is None:
            return
        kept = {d["name"]: d for d in actual["spec"].get("devices") or ()}
        devices = tuple(kept.get(d["name"], d) for d in current.devices)
        sets = {s["name"] for s in wanted["spec"].get("sharedCounters") or ()} if "sharedCounters" in dropped else set()
        counter_sets = tuple(s for s in current.counter_sets if s["name"] not in sets)
        self._wanted[pool] = Pool(devices, counter_sets, current.node_selector, current.all_nodes)


def _dropped(wanted: Any, actual: Any, path: str = "") -> set[str]:
    if isinstance(wanted, Mapping):
        found: set[str] = set()
        for key, value in wanted.items():
            if isinstance(actual, Mapping) and key in actual:
                found |= _dropped(value, actual[key], key)
            elif value not in (None, [], {}, ()):
                found.add(key)
        return found
    if isinstance(wanted, list | tuple) and isinstance(actual, list | tuple):
        return {name for w, a in zip(wanted, actual, strict=False) for name in _dropped(w, a, path)}
    return set()
