"""Prepares a pod's claims before its containers start and unprepares them after they ended; the kubelet's DRA manager.

Differences from the kubelet, all on the safe side: claims shared by pods that start together are prepared once, not twice at the same time;
a driver that answers with devices the claim was not allocated is an error; so is a claim that was reallocated while pods use it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from lightkube.models.core_v1 import Container, Pod
from lightkube.models.resource_v1 import ResourceClaim

from drakit.api.errors import StatusError
from drakit.client import Client
from drakit.clock import Clock
from drakit.node import pod_claims
from drakit.node.claim_state import ClaimInfo, ClaimStore, PreparedDevice
from drakit.node.errors import PluginError, PrepareError
from drakit.node.health import HealthStore
from drakit.node.metrics import NodeMetrics
from drakit.node.plugins import Plugin, Plugins

__all__ = ["Claims"]

log = logging.getLogger(__name__)
RECONCILE_INTERVAL = 60.0
PREPARE, UNPREPARE = "NodePrepareResources", "NodeUnprepareResources"
Key = tuple[str, str]


@dataclass
class _Wanted:
    claim: ResourceClaim
    info: ClaimInfo
    plugins: dict[str, Plugin]


class Claims:
    def __init__(
        self,
        client: Client,
        store: ClaimStore,
        plugins: Plugins,
        health: HealthStore,
        *,
        metrics: NodeMetrics,
        clock: Clock,
    ) -> None:
        self._client = client
        self._store = store
        self._plugins = plugins
        self._health = health
        self._metrics = metrics
        self._clock = clock
        self._locks: dict[Key, asyncio.Lock] = {}
        self.on_change: Callable[[set[str]], None] = lambda pod_uids: None
        metrics.gauge(
            "dra_resource_claims_in_use", "Claims in use on the node, per driver.", ("driver_name",), read=store.in_use
        )

    async def prepare(self, pod: Pod) -> None:
        """PrepareError says what is wrong; nothing is recorded unless every check passed."""
        start = self._clock.monotonic()
        failed = True
        try:
            await self._prepare(pod)
            failed = False
        except (PrepareError, PluginError) as error:
            raise PrepareError(f"prepare dynamic resources: {error}") from error
        finally:
            self._metrics.operations.observe(self._clock.monotonic() - start, "PrepareResources", str(failed).lower())

    async def unprepare(self, pod_uid: str) -> None:
        """Idempotent; a pod that uses nothing here is done at once."""
        start = self._clock.monotonic()
        failed = True
        try:
            await self._unprepare(pod_uid)
            failed = False
        except (PrepareError, PluginError) as error:
            raise PrepareError(f"unprepare dynamic resources: {error}") from error
        finally:
            self._metrics.operations.observe(self._clock.monotonic() - start, "UnprepareResources", str(failed).lower())

    def cdi_ids(self, pod: Pod, container: Container) -> list[str]:
        """What goes into the container's CDI_devices."""
        assert pod.metadata is not None
        ids: list[str] = []
        for _, claim, request in pod_claims.container_requests(pod, container):
            info = self._store.get(pod.metadata.namespace or "", claim)
            if info is None:
                raise PrepareError(
                    f"internal error: unable to get claim info for ResourceClaim {claim} in namespace {pod.metadata.namespace}"
                )
            ids += info.cdi_ids(request)
        return ids

    def container_claims(self, pod: Pod, container: Container) -> list[ClaimInfo]:
        """For pod resources: each claim of the container once, whatever its requests."""
        assert pod.metadata is not None
        names = dict.fromkeys(claim for _, claim, _ in pod_claims.container_requests(pod, container))
        infos = (self._store.get(pod.metadata.namespace or "", name) for name in names)
        return [i for i in infos if i is not None]

    def allocated_resources_status(self, pod: Pod, container: Container) -> list[dict[str, Any]]:
        """containerStatuses[].allocatedResourcesStatus: health per device, per use of a claim."""
        assert pod.metadata is not None
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for entry, claim, request in pod_claims.container_requests(pod, container):
            info = self._store.get(pod.metadata.namespace or "", claim)
            if info is None or not entry:
                continue
            resources = found.setdefault(pod_claims.resource_health_name(entry, request), {})
            for driver, state in info.drivers.items():
                for device in state.devices:
                    if device.serves(request):
                        identifier = device.cdi_ids[0] if device.cdi_ids else f"{driver}/{device.pool}/{device.device}"
                        status, message = self._health.get(driver, device.pool, device.device)
                        resources.setdefault(
                            identifier,
                            {"resourceID": identifier, "health": status, **({"message": message} if message else {})},
                        )
        return [{"name": name, "resources": list(r.values())} for name, r in found.items() if r]

    async def health_report(self, driver: str, report: Any | None) -> None:
        changed = self._health.clear(driver) if report is None else self._health.update(driver, report)
        self._tell(driver, changed)

    def expire_health(self) -> None:
        for driver, devices in self._health.expired().items():
            self._tell(driver, devices)

    def _tell(self, driver: str, devices: set[tuple[str, str]]) -> None:
        if not devices:
            return
        pods: set[str] = set()
        for info in self._store:
            state = info.drivers.get(driver)
            if state is not None and any((d.pool, d.device) in devices for d in state.devices):
                pods |= info.pods
        if pods:
            self.on_change(pods)

    async def reconcile(self, active_pods: Iterable[str]) -> None:
        """Unprepares what pods left behind that are no longer here."""
        active = set(active_pods)
        for uid in {u for info in self._store for u in info.pods} - active:
            try:
                await self.unprepare(uid)
            except PrepareError as error:
                log.warning("claims of pod %s, which is gone, cannot be unprepared yet: %s", uid, error)

    # Preparing.

    async def _prepare(self, pod: Pod) -> None:
        assert pod.metadata is not None
        uses = pod_claims.uses(pod)
        if not uses:
            return
        uid = pod.metadata.uid or ""
        async with self._locked((pod.metadata.namespace or "", u.claim) for u in uses):
            wanted = [await self._check(pod, use) for use in uses]
            todo = await self._record(uid, wanted)
            await self._call_drivers(todo)
            for want in todo:
                want.info.prepared = True
            await self._store.save()

    async def _check(self, pod: Pod, use: pod_claims.ClaimUse) -> _Wanted:
        assert pod.metadata is not None
        try:
            claim = await self._client.get(ResourceClaim, use.claim, namespace=pod.metadata.namespace)
        except StatusError as error:
            raise PrepareError(f"fetch ResourceClaim {use.claim}: {error}") from error
        assert claim.metadata is not None
        if use.check_owner:
            pod_claims.check_owner(pod, claim)
        if not pod_claims.is_reserved(pod, claim):
            raise PrepareError(
                f"pod {pod.metadata.name} ({pod.metadata.uid}) is not allowed to use ResourceClaim {use.claim} ({claim.metadata.uid})"
            )
        info = ClaimInfo.of(claim)
        plugins = {d: self._plugins.get(d) for d, state in info.drivers.items() if not state.skips(PREPARE)}
        return _Wanted(claim, info, plugins)

    async def _record(self, pod_uid: str, wanted: Sequence[_Wanted]) -> list[_Wanted]:
        """Adds the pod to each claim, on disk, before any driver is called; returns what still has to be prepared."""
        for want in wanted:
            known = self._store.get(*want.info.key)
            if known is None:
                continue
            if known.uid != want.info.uid:
                raise PrepareError(
                    f"old ResourceClaim with same name {known.name} and different UID {known.uid} still exists "
                    "(previous pod force-deleted?!)"
                )
            if known.unpreparing:
                raise PrepareError(f"ResourceClaim {known.name} is being unprepared")
            if known.prepared and known.pods - {pod_uid} and _moved(known, want.info):
                raise PrepareError(
                    f"ResourceClaim {known.name} was reallocated while pods {', '.join(sorted(known.pods))} use its devices"
                )
        todo = []
        for want in wanted:
            known = self._store.get(*want.info.key)
            if known is None:
                self._store.add(want.info)
            else:
                if not known.prepared or _moved(known, want.info):
                    for driver, state in want.info.drivers.items():
                        kept = known.drivers.get(driver)
                        state.devices = list(kept.devices) if kept else []
                    # Drivers that are out of the allocation stay until unprepared: they hold a device of the claim.
                    known.drivers = {**known.drivers, **want.info.drivers}
                    known.prepared = False
                want.info = known
            want.info.pods.add(pod_uid)
            if not want.info.prepared:
                todo.append(want)
        await self._store.save()
        return todo

    async def _call_drivers(self, todo: Sequence[_Wanted]) -> None:
        batches: dict[Plugin, list[ClaimInfo]] = {}
        for want in todo:
            for driver, state in want.info.drivers.items():
                if state.skips(PREPARE):
                    self._metrics.prepare_skips.inc(driver)
                elif driver in want.plugins:
                    batches.setdefault(want.plugins[driver], []).append(want.info)
        for plugin, infos in batches.items():
            response = await plugin.prepare([(i.namespace, i.name, i.uid) for i in infos])
            _check_answers(PREPARE, response.claims, infos)
            for info in infos:
                info.drivers[plugin.driver].devices = _devices(plugin.driver, info, response.claims[info.uid].devices)

    # Unpreparing.

    async def _unprepare(self, pod_uid: str) -> None:
        keys = [info.key for info in self._store.of_pod(pod_uid)]
        if not keys:
            return
        async with self._locked(keys):
            last: list[ClaimInfo] = []
            for info in self._store.of_pod(pod_uid):
                if len(info.pods) > 1:
                    info.pods.discard(pod_uid)
                else:
                    info.unpreparing = True
                    last.append(info)
            await self._call_unprepare(last)
            for info in last:
                self._store.remove(info)
            await self._store.save()

    async def _call_unprepare(self, infos: Sequence[ClaimInfo]) -> None:
        batches: dict[str, list[ClaimInfo]] = {}
        for info in infos:
            for driver, state in info.drivers.items():
                if state.skips(UNPREPARE):
                    self._metrics.unprepare_skips.inc(driver)
                else:
                    batches.setdefault(driver, []).append(info)
        for driver, claims in batches.items():
            response = await self._plugins.get(driver).unprepare([(i.namespace, i.name, i.uid) for i in claims])
            _check_answers(UNPREPARE, response.claims, claims)

    @asynccontextmanager
    async def _locked(self, keys: Iterable[Key]) -> AsyncIterator[None]:
        """One pod at a time per claim; locks are taken in order, so that two pods with two claims cannot wait for each other."""
        async with AsyncExitStack() as stack:
            for key in sorted(set(keys)):
                await stack.enter_async_context(self._locks.setdefault(key, asyncio.Lock()))
            yield
        for key in [k for k, lock in self._locks.items() if not lock.locked() and self._store.get(*k) is None]:
            if not getattr(self._locks[key], "_waiters", None):
                del self._locks[key]


def _moved(known: ClaimInfo, now: ClaimInfo) -> bool:
    """The claim's devices are not those that were prepared for it."""
    before = {(d, p.pool, p.device) for d, s in known.drivers.items() for p in s.devices}
    after = {(d, pool, device) for d, s in now.drivers.items() for pool, device in s.allocated}
    return bool(before) and not before <= after


def _check_answers(method: str, answers: Any, infos: Sequence[ClaimInfo]) -> None:
    by_uid = {i.uid: i for i in infos}
    for uid, answer in answers.items():
        if uid not in by_uid:
            raise PrepareError(f"{method} returned result for unknown claim UID {uid}")
        if answer.error:
            raise PrepareError(f"{method} failed for ResourceClaim {by_uid[uid].name}: {answer.error}")
    if len(answers) != len(by_uid):
        raise PrepareError(f"{method} skipped {len(by_uid) - len(answers)} ResourceClaims")


def _devices(driver: str, info: ClaimInfo, answered: Iterable[Any]) -> list[PreparedDevice]:
    allocated = info.drivers[driver].allocated
    devices = []
    for d in answered:
        if (d.pool_name or d.device_name) and (d.pool_name, d.device_name) not in allocated:
            raise PrepareError(
                f"{PREPARE} of driver {driver} returned device {d.pool_name}/{d.device_name}, "
                f"which ResourceClaim {info.name} was not allocated"
            )
        share = d.share_id if "share_id" in d.DESCRIPTOR.fields_by_name and d.HasField("share_id") else None
        devices.append(
            PreparedDevice(d.pool_name, d.device_name, share, tuple(d.request_names), tuple(d.cdi_device_ids))
        )
    return devices
