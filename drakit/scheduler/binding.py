"""Writing a decision down: claims get their allocation and reservation, then the pod its node. On failure what is assumed is undone;
what is written stays for the next attempt.

Writes of different pods run side by side. Reservations of several pods on one claim that meet while a write is under way go
into the next write together, so a claim shared by many pods costs few requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from lightkube.models.core_v1 import Pod
from lightkube.models.resource_v1 import ResourceClaim

from drakit.api.errors import StatusError
from drakit.api.times import timestamp
from drakit.client import Client, EventRecorder
from drakit.client.informers import Informer
from drakit.client.resources import resource_of
from drakit.client.transport import Plain
from drakit.clock import Clock
from drakit.scheduler.claims import (
    FINALIZER,
    PLUGIN,
    BindingFailed,
    binding_overdue,
    has_binding_conditions,
    key_of,
    ready_to_bind,
    uid_of,
)
from drakit.scheduler.decide import Placement
from drakit.scheduler.devices import ExtendedClaim
from drakit.scheduler.metrics import SchedulerMetrics
from drakit.scheduler.outcome import SchedulingError
from drakit.scheduler.pods import PodInfo
from drakit.scheduler.state import State

log = logging.getLogger(__name__)

CLAIMS = resource_of(ResourceClaim)
CONFLICT_RETRIES = 5
CONDITION_POLL = 5.0  # seconds between looks at binding conditions when no event comes


class BindError(SchedulingError):
    """The decision could not be written down; the pod is tried again later."""

    status = "error"  # for the metrics of binding conditions


class ConditionsFailed(BindError):
    """A driver said that it cannot make the device ready."""

    status = "failure"


class ConditionsTimeout(BindError):
    """A device was not made ready in time."""

    status = "timeout"


@dataclass(slots=True, eq=False)
class _Job:
    """What has to be written into one claim."""

    key: str
    uid: str
    allocation: Plain | None = None
    allocated: bool = False
    waiting: list[tuple[Plain, asyncio.Future[None]]] = field(default_factory=list)  # references to consumers
    running: bool = False


class ClaimWriter:
    """Allocation and reservations of claims, one write at a time per claim. `landed` is told the UID of each that is written."""

    def __init__(
        self,
        client: Client,
        informer: Informer[ResourceClaim],
        clock: Clock,
        landed: Callable[[str], None],
        *,
        stamped: bool,
    ) -> None:
        self._client = client
        self._informer = informer
        self._clock = clock
        self._landed = landed
        self._stamped = stamped  # allocationTimestamp is written (binding conditions are on)
        self._jobs: dict[str, _Job] = {}

    async def reserve(self, claim: ResourceClaim, consumer: Plain, allocation: Plain | None) -> None:
        """The consumer is in reservedFor (and the allocation stored) when this returns. All who share an allocation that is not
        written yet bring it: whoever comes first writes it."""
        uid = uid_of(claim)
        job = self._jobs.get(uid)
        if job is None:
            job = self._jobs[uid] = _Job(key_of(claim), uid)
        if allocation is not None and not job.allocated:
            job.allocation = allocation
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        job.waiting.append((consumer, future))
        if not job.running:
            job.running = True
            try:
                while job.waiting:
                    await self._write(job)
            finally:
                self._jobs.pop(uid, None)
                for _, left in job.waiting:  # cancelled in the middle
                    if not left.done():
                        left.cancel()
        await future

    async def _write(self, job: _Job) -> None:
        batch, job.waiting = job.waiting, []
        allocation = None if job.allocated else job.allocation
        try:
            await self._store(job, [reference for reference, _ in batch], allocation)
            job.allocated = True
            self._landed(job.uid)
        except (StatusError, BindError) as error:
            wrapped = error if isinstance(error, BindError) else BindError(str(error))
            for _, future in batch:
                if not future.done():
                    future.set_exception(wrapped)
            return
        except Exception as error:  # a bug, or an object we cannot read, must not leave other pods half bound
            log.exception("claim %s: writing failed", job.key)
            for _, future in batch:
                if not future.done():
                    future.set_exception(BindError(f"internal error: {error}"))
            return
        except BaseException:
            for _, future in batch:
                future.cancel()
            raise
        for _, future in batch:
            if not future.done():
                future.set_result(None)

    async def _store(self, job: _Job, consumers: list[Plain], allocation: Plain | None) -> None:
        namespace, name = job.key.split("/", 1)
        claim = self._informer.plain(job.key)
        for attempt in range(CONFLICT_RETRIES):
            if claim is None or attempt:
                claim = await self._fresh(job.key, namespace, name)
            meta = claim["metadata"]
            if meta["uid"] != job.uid or meta.get("deletionTimestamp"):
                raise BindError(f"claim {job.key} got deleted in the meantime")
            stored = (claim.get("status") or {}).get("allocation")
            if allocation is not None and stored is not None:
                raise BindError(f"claim {job.key} got allocated elsewhere in the meantime")
            if allocation is None and stored is None:
                raise BindError(f"claim {job.key} got deallocated elsewhere in the meantime")
            try:
                if allocation is not None and FINALIZER not in meta.get("finalizers", ()):
                    claim = await self._add_finalizer(claim, namespace, name)
                await self._store_status(claim, namespace, name, consumers, allocation)
                return
            except StatusError as error:
                if error.code != 409 or attempt == CONFLICT_RETRIES - 1:
                    what = "allocation and reservation" if allocation is not None else "reservation"
                    raise BindError(f"add {what} to claim {job.key}: {error}") from error

    async def _fresh(self, key: str, namespace: str, name: str) -> Plain:
        try:
            return await self._client.get_plain(CLAIMS, name, namespace=namespace)
        except StatusError as error:
            raise BindError(f"get updated claim {key} after conflict: {error}") from error

    async def _add_finalizer(self, claim: Plain, namespace: str, name: str) -> Plain:
        meta = claim["metadata"]
        patch = {
            "metadata": {
                "resourceVersion": meta["resourceVersion"],
                "finalizers": [*meta.get("finalizers", ()), FINALIZER],
            }
        }
        return await self._client.patch_plain(CLAIMS, name, patch, namespace=namespace)

    async def _store_status(
        self, claim: Plain, namespace: str, name: str, consumers: list[Plain], allocation: Plain | None
    ) -> None:
        status = claim.get("status") or {}
        present = {entry["uid"] for entry in status.get("reservedFor", ())}
        added = list({each["uid"]: each for each in consumers if each["uid"] not in present}.values())
        changes: Plain = {"reservedFor": [*status.get("reservedFor", ()), *added]}
        stored = allocation if allocation is not None else status.get("allocation")
        if self._stamped and stored is not None and "allocationTimestamp" not in stored:
            # For a claim that someone allocated by hand without it the server refuses this, as it does for kube-scheduler.
            changes["allocation"] = {**stored, "allocationTimestamp": timestamp(self._clock.now())}
        elif allocation is not None:
            changes["allocation"] = allocation
        if not added and "allocation" not in changes:
            return
        patch = {"metadata": {"resourceVersion": claim["metadata"]["resourceVersion"]}, "status": changes}
        updated = await self._client.patch_plain(CLAIMS, name, patch, namespace=namespace, subresource="status")
        self._informer.observe(updated)

    # -- the other direction

    async def deallocate(self, claim: ResourceClaim) -> None:
        """Give back what the claim holds; fails on a conflict, then somebody else has decided something."""
        assert claim.metadata is not None
        patch = {
            "metadata": {"uid": uid_of(claim), "resourceVersion": claim.metadata.resourceVersion},
            "status": {"allocation": None, "reservedFor": None, "devices": None},
        }
        updated = await self._client.patch_plain(
            CLAIMS,
            claim.metadata.name or "",
            patch,
            namespace=claim.metadata.namespace,
            subresource="status",
        )
        self._informer.observe(updated)

    async def delete(self, key: str, uid: str) -> None:
        """Delete a claim made for extended resources, finalizer and all."""
        namespace, name = key.split("/", 1)
        for attempt in range(CONFLICT_RETRIES):
            try:
                claim = await self._client.get_plain(CLAIMS, name, namespace=namespace)
                meta = claim["metadata"]
                if meta["uid"] != uid:
                    return
                if FINALIZER in meta.get("finalizers", ()):
                    kept = [entry for entry in meta["finalizers"] if entry != FINALIZER]
                    patch = {"metadata": {"resourceVersion": meta["resourceVersion"], "finalizers": kept or None}}
                    await self._client.patch_plain(CLAIMS, name, patch, namespace=namespace)
                await self._client.delete(ResourceClaim, name, namespace=namespace, uid=uid)
                return
            except StatusError as error:
                if error.code == 404:
                    return
                if error.code != 409 or attempt == CONFLICT_RETRIES - 1:
                    raise


class Binder:
    """Carries out placements."""

    def __init__(
        self,
        client: Client,
        claims: Informer[ResourceClaim],
        state: State,
        clock: Clock,
        recorder: EventRecorder,
        metrics: SchedulerMetrics,
        waits: Callable[[], None],
    ) -> None:
        self._client, self._claims, self._state, self._clock = client, claims, state, clock
        self._recorder, self._metrics = recorder, metrics
        self.writer = ClaimWriter(client, claims, clock, state.claims.landed, stamped=state.binding_conditions)
        self.awaiting = 0  # pods that wait for binding conditions: maybe for minutes, and nothing is written for them
        self._waits = waits  # called when there is one more of them
        self._extended: dict[str, tuple[str, str]] = {}  # pod UID -> key and UID of the claim created for it
        self._changed = asyncio.Event()

    def claim_changed(self) -> None:
        """Somebody may be waiting for a binding condition."""
        self._changed.set()

    async def prebind(self, info: PodInfo, placement: Placement) -> None:
        """Claims are allocated, reserved and ready. BindError when something could not be written."""
        try:
            await self._reserve(info, placement)
            if self._state.binding_conditions and placement.claims:
                await self._await_conditions(info, placement)
        except BindError as error:
            raise BindError(f'running PreBind plugin "{PLUGIN}": {error}') from error

    async def bind(self, info: PodInfo, placement: Placement) -> None:
        """The pod gets its node."""
        try:
            await self._client.bind(info.pod, placement.node)
        except StatusError as error:
            raise BindError(f'running Bind plugin "DefaultBinder": {error}') from error

    async def landed_on(self, info: PodInfo, *, sure: bool = False) -> str | None:
        """After a failure: the node that the pod has all the same (an answer got lost, or another scheduler was first);
        "" while it has none or, unless one has to be sure, nobody says; None when the pod is gone."""
        try:
            pod = await self._client.get(Pod, info.name, namespace=info.namespace)
        except StatusError as error:
            if error.code == 404:
                return None
            if sure:
                raise
            return ""
        if pod.metadata is None or pod.metadata.uid != info.uid:
            return None
        return (pod.spec.nodeName if pod.spec else None) or ""

    def forget(self, info: PodInfo, placement: Placement) -> None:
        """Unreserve claims, in memory. What is written stays: a waiting pod finds its claim reserved at the next attempt, and the
        claim controller gives it back when the pod goes. Upstream takes the reservation out, after which nobody gives back
        the allocation of a deleted pod, and a pod that another scheduler has bound meanwhile loses its claim."""
        claims = self._state.claims
        for claim in placement.claims:
            claims.unshare(uid_of(claim), info.uid)
        if placement.extended is not None:
            claims.unshare(uid_of(placement.extended.claim), info.uid)

    def keep_extended(self, info: PodInfo) -> None:
        """The pod has its node: the claim made for its extended resources is its own."""
        self._extended.pop(info.uid, None)

    async def discard_extended(self, info: PodInfo) -> None:
        """The claim made for extended resources belongs to one attempt; the next makes its own."""
        created = self._extended.pop(info.uid, None)
        if created is not None:
            try:
                await self.writer.delete(*created)
            except StatusError as error:
                log.warning("deleting claim %s of pod %s: %s", created[0], info.key, error)

    # -- claims

    async def _reserve(self, info: PodInfo, placement: Placement) -> None:
        claims = placement.claims
        if len(claims) == 1:
            await self._reserve_one(info, claims[0])
        elif claims:
            # All of them come to an end before one failure is told, so that undoing meets no write on its way.
            results = await asyncio.gather(
                *(self._reserve_one(info, claim) for claim in claims), return_exceptions=True
            )
            for result in results:
                if isinstance(result, BaseException):
                    raise result
        if placement.extended is not None:
            fresh = {uid_of(claim): result for claim, result in placement.allocations}
            await self._reserve_extended(info, placement.extended, fresh[uid_of(placement.extended.claim)])

    async def _reserve_one(self, info: PodInfo, claim: ResourceClaim) -> None:
        flight = self._state.claims.in_flight.get(uid_of(claim))
        allocation = dict(flight.result) if flight is not None else None
        await self.writer.reserve(claim, self._state.consumer(info, claim), allocation)
        self._state.claims.unshare(uid_of(claim), info.uid)

    async def _reserve_extended(self, info: PodInfo, extended: ExtendedClaim, allocation: Plain) -> None:
        meta = {k: v for k, v in extended.plain["metadata"].items() if k not in ("name", "uid")}
        body = {**extended.plain, "metadata": {**meta, "finalizers": [FINALIZER]}}
        try:
            created = await self._client.create_plain(CLAIMS, body, namespace=info.namespace)
        except StatusError as error:
            self._metrics.claim_created(success=False)
            raise BindError(f"create claim for extended resources {info.key}: {error}") from error
        self._metrics.claim_created(success=True)
        key = f"{info.namespace}/{created['metadata']['name']}"
        self._extended[info.uid] = (key, created["metadata"]["uid"])
        self._claims.observe(created)
        claim = self._claims.get(key)
        if claim is None:
            raise BindError(f"claim {key} got deleted in the meantime")
        memory = uid_of(extended.claim)
        self._state.claims.assume(claim, allocation, info.uid)  # from now on under its real UID
        self._state.claims.unshare(memory, info.uid)
        try:
            await self.writer.reserve(claim, self._state.consumer(info, claim), allocation)
        finally:
            self._state.claims.unshare(uid_of(claim), info.uid)
        status = {"resourceClaimName": created["metadata"]["name"], "requestMappings": extended.mappings}
        try:
            await self._client.patch(
                Pod,
                info.name,
                {"metadata": {"uid": info.uid}, "status": {"extendedResourceClaimStatus": status}},
                namespace=info.namespace,
                kind="strategic",
                subresource="status",
            )
        except StatusError as error:
            raise BindError(f"update pod {info.key} extendedResourceClaimStatus: {error}") from error

    # -- binding conditions

    async def _await_conditions(self, info: PodInfo, placement: Placement) -> None:
        keys = [key_of(claim) for claim in placement.claims]
        if not any((claim := self._claims.get(key)) is not None and has_binding_conditions(claim) for key in keys):
            return
        self._recorder.event(
            info.pod,
            "Normal",
            "BindingConditionsPending",
            f"waiting for binding conditions for device on node {placement.node}",
            action="Scheduling",
        )
        began = self._clock.monotonic()
        self.awaiting += 1
        self._waits()
        try:
            await self._all_conditions(keys, began + self._state.policy.binding_timeout)
        except BindError as error:
            self._count_wait(keys, error.status, began)
            raise
        finally:
            self.awaiting -= 1
        self._count_wait(keys, "success", began)

    def _count_wait(self, keys: list[str], status: str, began: float) -> None:
        claims = [claim for key in keys if (claim := self._claims.get(key)) is not None]
        self._metrics.waited(claims, status, self._clock.monotonic() - began)

    async def _all_conditions(self, keys: list[str], deadline: float) -> None:
        while not self._conditions_met(keys):
            if self._clock.monotonic() >= deadline:
                names = ",".join(key.split("/", 1)[1] for key in keys)
                raise ConditionsTimeout(f"device binding timeout: claim={names}")
            await self._change_or(CONDITION_POLL)

    def _conditions_met(self, keys: list[str]) -> bool:
        for key in keys:
            claim = self._claims.get(key)
            if claim is None:
                raise BindError(f"claim {key} got deleted in the meantime")
            try:
                if ready_to_bind(claim):
                    continue
            except BindingFailed as error:
                raise ConditionsFailed(str(error)) from error
            if binding_overdue(claim, self._clock.now(), self._state.policy.binding_timeout):
                raise ConditionsTimeout(f"device binding timeout: claim={key.split('/', 1)[1]}")
            return False
        return True

    async def _change_or(self, seconds: float) -> None:
        self._changed.clear()
        changed = asyncio.ensure_future(self._changed.wait())
        slept = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait({changed, slept}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
            slept.cancel()
