"""Leader election with a Lease, as client-go does it: one of many processes works, the others wait for its lease to run out.

A holder that cannot renew in time stops working before others may start (renew deadline < lease duration). The lease's own clock
readings are not trusted: a waiting process measures how long the record has not changed on its own clock.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from drakit.api.errors import StatusError
from drakit.api.times import micro_timestamp
from drakit.client.client import Client
from drakit.client.resources import Resource
from drakit.client.transport import Plain
from drakit.clock import Clock, SystemClock

__all__ = ["LeaseLost", "LeaseTimes", "lead"]

log = logging.getLogger(__name__)

LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", True)


class LeaseLost(Exception):
    """The lease could not be renewed in time; the work was cancelled."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0


async def lead(
    client: Client,
    work: Callable[[], Awaitable[None]],
    *,
    name: str,
    namespace: str = "kube-system",
    identity: str,
    clock: Clock | None = None,
    times: LeaseTimes | None = None,
) -> None:
    """Wait for the lease, run `work` while holding it, let go of it at the end. LeaseLost when renewing fails for too long."""
    elector = _Elector(client, name, namespace, identity, clock or SystemClock(), times or LeaseTimes())
    await elector.acquire()
    log.info("%s leads %s/%s", identity, namespace, name)
    working = asyncio.ensure_future(work())
    renewing = asyncio.ensure_future(elector.renew_until_lost())
    try:
        await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise LeaseLost(
                f"lease {namespace}/{name}: not renewed for {elector.times.renew_deadline:g} s; another process may take over"
            )
        working.result()
    finally:
        for task in (working, renewing):
            task.cancel()
        await asyncio.gather(working, renewing, return_exceptions=True)
        await elector.release()


class _Elector:
    def __init__(
        self, client: Client, name: str, namespace: str, identity: str, clock: Clock, times: LeaseTimes
    ) -> None:
        self.times = times
        self._client, self._clock = client, clock
        self._name, self._namespace, self._identity = name, namespace, identity
        self._seen: Plain | None = None  # the last record and when we first saw it
        self._seen_at = 0.0
        self._lost = False

    async def acquire(self) -> None:
        while not await self._try():
            await self._clock.sleep(self.times.retry)

    async def renew_until_lost(self) -> None:
        renewed = self._clock.monotonic()
        while self._clock.monotonic() - renewed < self.times.renew_deadline:
            await self._clock.sleep(self.times.retry)
            if await self._try():
                renewed = self._clock.monotonic()
        self._lost = True

    async def release(self) -> None:
        """Let the next one start at once instead of after the lease's duration."""
        if self._lost or self._seen is None or self._seen["spec"].get("holderIdentity") != self._identity:
            return
        now = micro_timestamp(self._clock.now())
        spec = {
            **self._seen["spec"],
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "renewTime": now,
            "acquireTime": now,
        }
        try:
            await self._put({**self._seen, "spec": spec})
        except StatusError as error:
            log.info("lease %s/%s not released: %s", self._namespace, self._name, error)

    async def _try(self) -> bool:
        try:
            return await self._try_once()
        except StatusError as error:
            log.info("lease %s/%s: %s", self._namespace, self._name, error)
            return False

    async def _try_once(self) -> bool:
        try:
            lease = await self._client.get_plain(LEASES, self._name, namespace=self._namespace)
        except StatusError as error:
            if error.code != 404:
                raise
            body = {
                "apiVersion": LEASES.api_version,
                "kind": LEASES.kind,
                "metadata": {"name": self._name, "namespace": self._namespace},
                "spec": self._record({}),
            }
            self._note(await self._client.create_plain(LEASES, body))
            return True
        if self._seen is None or self._seen["spec"] != lease.get("spec"):
            self._note(lease)
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity")
        duration = float(spec.get("leaseDurationSeconds") or self.times.duration)
        if holder and holder != self._identity and self._clock.monotonic() - self._seen_at < duration:
            return False
        updated = {**lease, "spec": self._record(spec)}
        self._note(await self._put(updated))
        return True

    async def _put(self, lease: Plain) -> Plain:
        """An update with the resourceVersion we read: only one of two candidates gets through."""
        metadata = lease["metadata"]
        return await self._client.patch_plain(
            LEASES,
            self._name,
            {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "spec": lease["spec"]},
            namespace=self._namespace,
        )

    def _note(self, lease: Plain) -> None:
        self._seen, self._seen_at = lease, self._clock.monotonic()

    def _record(self, before: Plain) -> Plain:
        now = micro_timestamp(self._clock.now())
        ours = before.get("holderIdentity") == self._identity
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(self.times.duration),
            "acquireTime": before.get("acquireTime") if ours else now,
            "renewTime": now,
            "leaseTransitions": int(before.get("leaseTransitions") or 0) + (0 if ours or not before else 1),
        }
