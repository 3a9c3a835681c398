"""ResourcePoolStatusRequests: each is answered once, then kept for an hour (views in `pool_views`).

An answer is final, so it waits until the caches are known to have seen all that happened before the question. They are indexed by
driver and pool: it costs what the pools in question hold, not what the cluster does.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from lightkube.models.resource_v1 import DeviceTaintRule, ResourceClaim, ResourceSlice
from lightkube.models.resource_v1alpha3 import ResourcePoolStatusRequest

from drakit.api.errors import StatusError
from drakit.client import resource_of
from drakit.controllers.device_taint_decisions import claim_keys, device_keys, selector_key, slice_keys
from drakit.controllers.loop import Context, ControlLoop
from drakit.controllers.objects import Plain, name, parse_time, spec, status, uid, version
from drakit.controllers.pool_views import INCOMPLETE, pool_request_status
from drakit.metrics import exponential

__all__ = ["PoolStatusController", "expires_in"]

REQUESTS = resource_of(ResourcePoolStatusRequest)
_RETRIES = 5
_ANSWERED_TTL = 3600.0
_PENDING_TTL = 24 * 3600.0
_DURATIONS = exponential(0.001, 2, 15)


def expires_in(request: Plain, now: datetime) -> float:
    """Seconds until the request is cleaned up."""
    since, ttl = request["metadata"].get("creationTimestamp") or "", _PENDING_TTL
    if status(request):
        ended = [each for each in status(request).get("conditions") or () if each["type"] in ("Complete", "Failed")]
        since, ttl = (ended[0]["lastTransitionTime"] if ended else since), _ANSWERED_TTL
    return ttl - (now - parse_time(since)).total_seconds() if since else ttl


class PoolStatusController:
    name = "resourcepoolstatusrequest-controller"

    def __init__(self, context: Context) -> None:
        self._client, self._clock = context.client, context.clock
        self.loop = ControlLoop("resource_pool_status_request", self.reconcile, context, workers=1)
        informers = context.informers
        self._requests, self._rules = informers.plain(ResourcePoolStatusRequest), informers.plain(DeviceTaintRule)
        self._claims, self._slices = informers.plain(ResourceClaim), informers.plain(ResourceSlice)
        self._claims.add_index("device", claim_keys)
        self._slices.add_index("pool", slice_keys)
        rules_on = context.gates.enabled("DRADeviceTaintRules")
        self._rules.add_index("selector", lambda rule: (selector_key(rule),) if rules_on else ())
        self._attempts: dict[str, int] = {}
        prefix = "resourcepoolstatusrequest_controller"
        self._processed = context.metrics.counter(
            f"{prefix}_requests_processed_total", "Requests answered", ("driver_name",)
        )
        self._errors = context.metrics.counter(
            f"{prefix}_request_processing_errors_total", "Requests that failed", ("driver_name",)
        )
        self._duration = context.metrics.histogram(
            f"{prefix}_request_processing_duration_seconds", "Time to answer a request", _DURATIONS, ("driver_name",)
        )
        self._requests.add_handler(self._changed, lambda _, new: self._updated(new), self._removed)

    async def run(self) -> None:
        await self.loop.run()

    def _changed(self, request: Plain) -> None:
        self.loop.add(name(request))

    def _updated(self, request: Plain) -> None:
        self._attempts.pop(uid(request), None)  # whoever touches it asks again
        self._changed(request)

    def _removed(self, request: Plain) -> None:
        self._attempts.pop(uid(request), None)

    async def reconcile(self, key: str) -> float | None:
        request = self._requests.get(key)
        if request is None:
            return None
        left = expires_in(request, self._clock.now())
        if left <= 0:
            await self._delete(request)
            return None
        if status(request) or self._attempts.get(uid(request), 0) > _RETRIES:
            return left
        caches = (self._slices, self._claims, self._rules)
        wait = max(each.reflector.unsure_for(version(request)) for each in caches) or await self._answer(request)
        return wait if wait is not None else left

    async def _answer(self, request: Plain) -> float | None:
        started, driver = self._clock.monotonic(), spec(request)["driver"]
        pool = spec(request).get("poolName") or ""
        slices = self._slices.by_index("pool", f"{driver}/{pool}" if pool else f"driver={driver}")
        claims = self._claims.by_index("device", f"pool={pool}" if pool else f"driver={driver}")
        answer = pool_request_status(request, slices, claims, self._rules_for, self._clock.now())
        incomplete = any(
            str(each.get("validationError") or "").startswith(INCOMPLETE) for each in answer.get("pools") or ()
        )
        if incomplete:
            # A driver is probably in the middle of publishing: try a few times, then leave the request without an answer.
            attempts = self._attempts[uid(request)] = self._attempts.get(uid(request), 0) + 1
            return 0.005 * 2**attempts if attempts <= _RETRIES else None
        patch = {"metadata": {"uid": uid(request)}, "status": answer}
        try:
            answered = await self._client.patch_plain(REQUESTS, name(request), patch, subresource="status")
        except StatusError:
            self._errors.inc(driver)
            raise
        finally:
            self._processed.inc(driver)
            self._duration.observe(self._clock.monotonic() - started, driver)
        self._requests.observe(answered)
        return _ANSWERED_TTL

    def _rules_for(self, device: Plain) -> Iterator[Plain]:
        for key in device_keys(device):
            yield from self._rules.by_index("selector", key)

    async def _delete(self, request: Plain) -> None:
        try:
            answer = await self._client.delete(REQUESTS, name(request), uid=uid(request))
        except StatusError as error:
            if error.code not in (404, 409):
                raise
            return
        self._requests.observe_deleted(name(request), uid(request), answer)
