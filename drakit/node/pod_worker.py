"""One pod on this node, from its binding to its end. A worker looks at the pod, does the next thing, writes the status, and waits.

Order, as in the kubelet: volumes, claims prepared, sandbox, init containers and sidecars one after the other, then the rest
together. At the end: containers stopped (sidecars last), claims unprepared, and only then a terminal status or the deletion in the
API, because the scheduler may give the devices away once it sees that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from lightkube.models.core_v1 import Pod

from drakit.api.errors import StatusError
from drakit.driver.files import component, remove_tree
from drakit.node import container_config, pod_status
from drakit.node.environment import PodFacts
from drakit.node.errors import NodeError, PrepareError, RuntimeFailure, VolumeError
from drakit.node.pod_status import is_sidecar, should_restart
from drakit.node.runtime import PodRecord, SandboxConfig
from drakit.node.slots import Node, Slot
from drakit.node.volumes import Volumes

__all__ = ["PodWorker"]

log = logging.getLogger(__name__)
_FIRST_RETRY, _LAST_RETRY = 0.5, 60.0
_REFRESH = 60.0
_FOREVER = 3600.0
TERMINAL = ("Succeeded", "Failed")


class PodWorker:
    def __init__(self, node: Node, pod: Pod, *, on_done: Callable[[str], None]) -> None:
        assert pod.metadata is not None
        assert pod.spec is not None
        self.node = node
        self.pod = pod
        self.uid = pod.metadata.uid or ""
        self.gone = False  # deleted from the API under us
        self.orphans: list[PodRecord] = []  # older sandboxes of this pod
        self._on_done = on_done
        self._wakeup = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._sandbox_id = ""
        self._sandbox: SandboxConfig | None = None
        self._attempt = 0
        self._pod_ip = ""
        self._init = [Slot(node, c, init=True, wake=self.wake) for c in pod.spec.initContainers or ()]
        self._ordinary = [Slot(node, c, init=False, wake=self.wake) for c in pod.spec.containers or ()]
        self._volumes = Volumes(node.root / "pods" / component(self.uid, "pod UID"), node.objects)
        self._volumes_ready = False
        self._refresh_at = 0.0
        self._retry = 0.0
        self._start_time = self._initial_start_time()
        self._failure: tuple[str, str] | None = None
        self._written: dict[str, Any] | None = None
        self._terminal = False
        self._unprepared = False

    # From outside.

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"pod {self.uid}")

    def update(self, pod: Pod) -> None:
        self.pod = pod
        self.wake()

    def deleted(self) -> None:
        self.gone = True
        self.wake()

    def wake(self) -> None:
        self._wakeup.set()

    def retry_now(self) -> None:
        """Something this pod may wait for has changed (a driver came)."""
        self._retry = 0.0
        self.wake()

    async def stop(self) -> None:
        """The agent goes; the pod stays."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for slot in self.slots:
            await slot.close()

    def adopt(self, record: PodRecord) -> None:
        """What the runtime has of this pod from before the agent started."""
        self._attempt = record.attempt
        if record.ready:
            self._sandbox_id, self._pod_ip = record.sandbox_id, record.ip
            self._sandbox = self._sandbox_config()
        else:
            self._attempt += 1
            self.orphans.append(record)
        for slot in self.slots:
            slot.adopt(
                [c for c in record.containers if c.name == slot.spec.name], self.pod, self._pod_ip or self.node.address
            )

    @property
    def slots(self) -> list[Slot]:
        return self._init + self._ordinary

    def slot(self, name: str) -> Slot | None:
        return next((s for s in self.slots if s.spec.name == name), None)

    @property
    def active(self) -> bool:
        """Still entitled to its claims."""
        return not self._unprepared

    @property
    def deleting(self) -> bool:
        return self.gone or (self.pod.metadata is not None and self.pod.metadata.deletionTimestamp is not None)

    # The loop.

    async def _run(self) -> None:
        while True:
            self._wakeup.clear()
            delay = _FOREVER
            try:
                if self.deleting or self._finished:
                    if await self._end():
                        self._on_done(self.uid)
                        return
                else:
                    delay = await self._sync()
                await self._write_status()
            except (NodeError, OSError) as error:
                delay = self._next_retry()
                self._tell(error, delay)
            except StatusError as error:
                delay = self._next_retry()
                log.warning("pod %s: %s", self._name, error)
            except Exception:
                delay = self._next_retry()
                log.exception("pod %s", self._name)  # one pod's trouble must not take its worker away
            await self._wait(delay)

    async def _wait(self, seconds: float) -> None:
        if self._wakeup.is_set():
            return
        timer = asyncio.ensure_future(self.node.clock.sleep(seconds))
        waiter = asyncio.ensure_future(self._wakeup.wait())
        try:
            await asyncio.wait((timer, waiter), return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            waiter.cancel()

    def _next_retry(self) -> float:
        self._retry = min(max(self._retry * 2, _FIRST_RETRY), _LAST_RETRY)
        return self._retry

    def _tell(self, error: Exception, delay: float) -> None:
        """Events in the kubelet's words for what the user can do something about."""
        if isinstance(error, PrepareError):
            if str(error).startswith("unprepare"):
                self._event("Warning", "FailedKillPod", f"error killing pod: {error}")
            else:
                self._event("Warning", "FailedPrepareDynamicResources", f"Failed to prepare dynamic resources: {error}")
        elif isinstance(error, VolumeError):
            self._event("Warning", "FailedMount", str(error))
        elif isinstance(error, RuntimeFailure):
            self._event("Warning", "FailedCreatePodSandBox", f"Failed to create pod sandbox: {error}")
        else:
            self._event("Warning", "FailedSync", f"error determining status: {error}")
        log.info("pod %s: %s (again in %.1f s)", self._name, error, delay)

    def _event(self, kind: str, reason: str, message: str) -> None:
        self.node.events.event(self.pod, kind, reason, message)

    @property
    def _name(self) -> str:
        assert self.pod.metadata is not None
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"

    @property
    def _facts(self) -> PodFacts:
        ip = self._pod_ip or self.node.address
        return PodFacts(self.node.name, self.node.address, ip, self.node.allocatable)

    # Running.

    async def _sync(self) -> float:
        """Brings the pod a step further; seconds until it should be looked at again even if nothing happens."""
        deadline = self._deadline()
        if deadline is not None and deadline <= 0:
            self._failure = ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
            self._event("Normal", "DeadlineExceeded", self._failure[1])
            self.wake()
            return 0.0
        if self._written is None:
            # Accepted (startTime, ContainerCreating): told while the pod is being made ready, not before.
            telling = asyncio.ensure_future(self._write_status())
            try:
                return await self._advance(deadline)
            finally:
                await telling
        return await self._advance(deadline)

    async def _advance(self, deadline: float | None) -> float:
        await self._prepare_pod()
        self._retry = 0.0
        waits = [_FOREVER if deadline is None else deadline, await self._refresh()]
        ready, wait = await self._sync_init()
        waits.append(wait)
        if ready:
            waits.append(await self._sync_ordinary())
        return min(waits)

    async def _prepare_pod(self) -> None:
        directory = self.node.root / "pods" / self.uid
        if not self._volumes_ready:
            directory.mkdir(mode=0o750, parents=True, exist_ok=True)
            await self._volumes.set_up(self.pod, self._facts)
            self._volumes_ready = True
            self._refresh_at = self.node.clock.monotonic() + _REFRESH
        if self._sandbox_id:
            return
        if self.orphans:
            self._event("Normal", "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
            await self._remove_orphans()
        await self.node.claims.prepare(self.pod)
        self._sandbox = self._sandbox_config()
        self._sandbox_id, self._pod_ip = await self.node.runtime.run_sandbox(self._sandbox)

    def _sandbox_config(self) -> SandboxConfig:
        return container_config.sandbox_config(self.pod, self._attempt, self.node.logs)

    async def _refresh(self) -> float:
        """ConfigMaps, Secrets and tokens change while a pod runs."""
        if not self._volumes.has_content(self.pod):
            return _FOREVER
        now = self.node.clock.monotonic()
        if now >= self._refresh_at:
            self._refresh_at = now + _REFRESH
            try:
                await self._volumes.refresh(self.pod, self._facts)
            except VolumeError as error:
                log.info("pod %s: volumes not refreshed: %s", self._name, error)
        return self._refresh_at - now

    async def _sync_init(self) -> tuple[bool, float]:
        """Whether the ordinary containers may run. Once they did, only sidecars are looked after."""
        begun = any(s.view.current is not None for s in self._ordinary)
        wait = _FOREVER
        for slot in self._init:
            view = slot.view
            if is_sidecar(slot.spec):
                if not view.running:
                    wait = min(wait, await self._start_when_due(slot))
                if not begun and not (view.running and view.started):
                    return False, wait
                continue
            if begun or (view.ended is not None and view.ended.exit_code == 0):
                continue
            if view.running:
                return False, wait
            if view.ended is not None and not should_restart(self.pod, slot.spec, view.ended.exit_code, init=True):
                self.wake()  # the pod has failed: _finished sees it
                return False, 0.0
            return False, min(wait, await self._start_when_due(slot))
        return True, wait

    async def _sync_ordinary(self) -> float:
        due = []
        for slot in self._ordinary:
            ended = slot.view.ended
            if slot.view.running or (ended is not None and not should_restart(self.pod, slot.spec, ended.exit_code)):
                continue
            due.append(self._start_when_due(slot))
        waits = await asyncio.gather(*due)
        if self._finished:
            self.wake()
        return min(waits, default=_FOREVER)

    async def _start_when_due(self, slot: Slot) -> float:
        wait = slot.backed_off(self.pod)
        if wait > 0:
            return wait
        assert self._sandbox is not None
        if await slot.start(self.pod, self._sandbox_id, self._sandbox, self._volumes, self._facts):
            return _FOREVER
        return slot.backed_off(self.pod)

    def _deadline(self) -> float | None:
        assert self.pod.spec is not None
        if self.pod.spec.activeDeadlineSeconds is None:
            return None
        started = datetime.fromisoformat(self._start_time.replace("Z", "+00:00"))
        return self.pod.spec.activeDeadlineSeconds - (self.node.clock.now() - started).total_seconds()

    @property
    def _finished(self) -> bool:
        """All is done that will be done: the pod has a terminal phase to come."""
        if self._failure is not None or self._terminal:
            return True
        status = self.pod.status
        if status is not None and status.phase in TERMINAL:
            return True
        for slot in self._init:
            ended = slot.view.ended
            failed = not is_sidecar(slot.spec) and ended is not None and ended.exit_code != 0
            if failed and ended is not None and not should_restart(self.pod, slot.spec, ended.exit_code, init=True):
                return True
        ends = [s.view.ended for s in self._ordinary]
        return all(
            e is not None and not should_restart(self.pod, s.spec, e.exit_code)
            for e, s in zip(ends, self._ordinary, strict=True)
        )

    # Ending.

    async def _end(self) -> bool:
        """Stops, unprepares, tells; True when nothing is left to do for this pod."""
        await self._stop_containers()
        await self._remove_orphans()
        if not self._unprepared:
            await self.node.claims.unprepare(self.uid)
            self._unprepared = True
        self._terminal = True
        if self.deleting:
            if self._sandbox_id:
                await self.node.runtime.remove_sandbox(self._sandbox_id)
                self._sandbox_id = ""
            await self._clean()
            if not self.gone:
                await self._write_status()
                await self._delete()
            return True
        if self._sandbox_id:
            await self.node.runtime.stop_sandbox(self._sandbox_id)
        return False

    async def _remove_orphans(self) -> None:
        while self.orphans:
            await self.node.runtime.remove_sandbox(self.orphans[-1].sandbox_id)
            self.orphans.pop()

    async def _stop_containers(self) -> None:
        """Ordinary containers together, then sidecars in reverse order; a shorter grace that arrives meanwhile counts."""
        await self._stop_together(self._ordinary)
        await self._stop_together([s for s in self._init if not is_sidecar(s.spec)])
        for slot in reversed([s for s in self._init if is_sidecar(s.spec)]):
            await self._stop_together([slot])

    async def _stop_together(self, slots: Sequence[Slot]) -> None:
        while running := [s for s in slots if s.view.running]:
            grace = self._grace
            self._wakeup.clear()
            stopping = asyncio.ensure_future(asyncio.gather(*(s.stop(self.pod, grace) for s in running)))
            while not stopping.done():
                waiter = asyncio.ensure_future(self._wakeup.wait())
                await asyncio.wait((stopping, waiter), return_when=asyncio.FIRST_COMPLETED)
                waiter.cancel()
                self._wakeup.clear()
                if not stopping.done() and self._grace < grace:
                    stopping.cancel()
                    await asyncio.gather(stopping, return_exceptions=True)
                    break
                if not stopping.done():
                    await self._write_status()
            if not stopping.cancelled():
                stopping.result()

    @property
    def _grace(self) -> float:
        assert self.pod.metadata is not None
        assert self.pod.spec is not None
        if self.pod.metadata.deletionTimestamp is not None and self.pod.metadata.deletionGracePeriodSeconds is not None:
            return float(self.pod.metadata.deletionGracePeriodSeconds)
        grace = self.pod.spec.terminationGracePeriodSeconds
        return float(30 if grace is None else grace)

    async def _clean(self) -> None:
        self.node.objects.drop(self.uid)
        for slot in self.slots:
            await slot.close()
        await asyncio.to_thread(self._remove_files)

    def _remove_files(self) -> None:
        self._volumes.tear_down()
        remove_tree(self.node.root / "pods" / self.uid)
        remove_tree(container_config.pod_log_directory(self.node.logs, self.pod))

    async def _delete(self) -> None:
        assert self.pod.metadata is not None
        try:
            await self.node.client.delete(
                Pod, self.pod.metadata.name or "", namespace=self.pod.metadata.namespace, uid=self.uid, grace_seconds=0
            )
        except StatusError as error:
            if error.code not in (404, 409):  # gone, or another pod of that name
                raise

    # Status.

    def _initial_start_time(self) -> str:
        status = self.pod.status
        if status is not None and status.startTime is not None:
            return pod_status.timestamp(status.startTime.timestamp())
        return pod_status.timestamp(self.node.clock.now().timestamp())

    async def _write_status(self) -> None:
        if self.gone:
            return
        assert self.pod.metadata is not None
        status = pod_status.build(
            self.pod,
            [s.view for s in self._init],
            [s.view for s in self._ordinary],
            runtime=self.node.runtime_name or self.node.runtime.name,
            host_ip=self.node.address,
            pod_ip=self._pod_ip or self.node.address,
            sandbox_ready=bool(self._sandbox_id),
            terminal=self._terminal,
            start_time=self._start_time,
            now=pod_status.timestamp(self.node.clock.now().timestamp()),
            allocated=lambda container: self.node.claims.allocated_resources_status(self.pod, container),
            failure=self._failure,
        )
        if status["phase"] in TERMINAL and not self._terminal:
            status["phase"] = self._unfinished_phase(status)
        known = self.pod.status.phase if self.pod.status else None
        if known in TERMINAL:
            status["phase"] = known  # a terminal phase is final
        if status == self._written:
            return
        # Conditions are merged by type: what a condition no longer has must be said.
        cleared = [{"reason": None, "message": None, **c} for c in status["conditions"]]
        patch = {"metadata": {"uid": self.uid}, "status": {**status, "conditions": cleared}}
        try:
            await self.node.client.patch(
                Pod,
                self.pod.metadata.name or "",
                patch,
                namespace=self.pod.metadata.namespace,
                kind="strategic",
                subresource="status",
            )
        except StatusError as error:
            if error.code in (404, 409) or (error.code == 422 and "uid" in str(error)):
                self._written = status  # another pod of this name, or none: nobody to tell
                return
            raise
        self._written = status

    def _unfinished_phase(self, status: dict[str, Any]) -> str:
        """Containers have ended but claims are still to be unprepared: not terminal yet for the API."""
        conditions = {c["type"]: c for c in status["conditions"]}
        for name in ("Ready", "ContainersReady"):
            conditions[name].update(status="False", reason="ContainersNotReady")
        return "Running" if any(s.view.current is not None for s in self._ordinary) else "Pending"
