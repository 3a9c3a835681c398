"""Finished Jobs go `ttlSecondsAfterFinished` after their end, with their pods."""

from __future__ import annotations

from datetime import datetime

from lightkube.models.batch_v1 import Job

from drakit.api.errors import StatusError
from drakit.client import resource_of
from drakit.controllers.job_decisions import finished
from drakit.controllers.loop import Context, ControlLoop
from drakit.controllers.objects import Plain, deleting, key_of, name, namespace, parse_time, spec, uid

__all__ = ["TtlController", "expires_in"]

JOBS = resource_of(Job)


def expires_in(job: Plain, now: datetime) -> float | None:
    """Seconds until a finished Job goes; None when it stays, as it does when nobody said when it finished."""
    ttl, end = spec(job).get("ttlSecondsAfterFinished"), finished(job)
    if ttl is None or end is None or deleting(job) or not end.get("lastTransitionTime"):
        return None
    return max(0.0, float(ttl) - (now - parse_time(end["lastTransitionTime"])).total_seconds())


class TtlController:
    name = "ttl-after-finished-controller"

    def __init__(self, context: Context) -> None:
        self._client, self._clock = context.client, context.clock
        self.loop = ControlLoop("ttl_jobs_to_delete", self.reconcile, context, workers=5)
        self._jobs = context.informers.plain(Job)
        self._jobs.add_handler(self._changed, lambda _, new: self._changed(new))

    async def run(self) -> None:
        await self.loop.run()

    def _changed(self, job: Plain) -> None:
        if expires_in(job, self._clock.now()) is not None:
            self.loop.add(key_of(job))

    async def reconcile(self, key: str) -> float | None:
        job = self._jobs.get(key)
        left = expires_in(job, self._clock.now()) if job is not None else None
        if job is None or left is None:
            return None
        if left > 0:
            return left
        try:
            # Ask the server first: the TTL may just have been lengthened.
            fresh = await self._client.get_plain(JOBS, name(job), namespace=namespace(job))
            left = expires_in(fresh, self._clock.now()) if uid(fresh) == uid(job) else None
            if left == 0:
                await self._client.delete(
                    JOBS, name(job), namespace=namespace(job), uid=uid(job),
                    resource_version=fresh["metadata"]["resourceVersion"], propagation="Foreground",
                )  # fmt: skip
                return None
        except StatusError as error:
            if error.code != 404:
                raise
            return None
        return left
