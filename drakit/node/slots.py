"""One container of a pod over its runs: starting it, watching it, its probes, its back-off. The pod's worker decides when."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lightkube.models.core_v1 import Container, Pod

from drakit.client import Client, EventRecorder, reference_to
from drakit.clock import Clock
from drakit.driver.files import read_bytes
from drakit.node import container_config as config
from drakit.node.claims import Claims
from drakit.node.environment import PodFacts, environment
from drakit.node.errors import NodeError, RuntimeFailure
from drakit.node.lifecycle import run_hook
from drakit.node.logs import tail
from drakit.node.objects import Objects
from drakit.node.pod_status import ContainerView, go_duration
from drakit.node.probes import Prober
from drakit.node.runtime import EXITED, RUNNING, ContainerStatus, Runtime, SandboxConfig
from drakit.node.volumes import Volumes

__all__ = ["Node", "Slot"]

log = logging.getLogger(__name__)
FIRST_BACKOFF, LAST_BACKOFF, FORGIVEN_AFTER = 10.0, 300.0, 600.0
_MESSAGE_LIMIT, _MESSAGE_LOG_LINES, _MESSAGE_LOG_LIMIT = 4096, 80, 2048


@dataclass
class Node:
    """What all pods of an agent share."""

    client: Client
    runtime: Runtime
    claims: Claims
    objects: Objects
    events: EventRecorder
    clock: Clock
    name: str
    address: str
    root: Path
    logs: Path
    allocatable: dict[str, str]
    runtime_name: str = ""
    start_limit: asyncio.Semaphore | None = None  # containers started at a time
    service_env: Mapping[str, str] = field(default_factory=dict)  # where pods find the API server
    pretends: bool = False  # the fake runtime: files that only a process would read are not made


class Slot:
    def __init__(self, node: Node, spec: Container, *, init: bool, wake: Callable[[], None]) -> None:
        self.node = node
        self.view = ContainerView(spec)
        self.init = init
        self._wake = wake
        self._backoff = 0.0
        self._tasks: set[asyncio.Task[Any]] = set()
        self.retry_at = 0.0  # monotonic: not before
        self.stopping = False

    @property
    def spec(self) -> Container:
        return self.view.spec

    def adopt(self, runs: list[ContainerStatus], pod: Pod, address: str) -> None:
        """Takes over what an earlier agent started: the newest run is the current one."""
        runs = sorted(runs, key=lambda r: r.attempt)
        for run in runs:
            self.view.last, self.view.current = self.view.current, run
        current = self.view.current
        if current is None:
            return
        if current.state == RUNNING:
            self._watch(pod, address)
        elif current.state == EXITED:
            self.view.message = self._termination_message(pod, current)
        else:  # created, never started: make it anew
            self.view.current = self.view.last
            self.view.last = None

    async def start(self, pod: Pod, sandbox_id: str, sandbox: SandboxConfig, volumes: Volumes, facts: PodFacts) -> bool:
        """Starts the next run; False when it could not be, with the reason in the view and a time to try again."""
        view, node = self.view, self.node
        attempt = view.current.attempt + 1 if view.current is not None else 0
        reason = "CreateContainerConfigError"
        try:
            image_ref = await self._image(pod, sandbox)
            env = {**node.service_env, **await environment(pod, view.spec, facts, node.objects)}
            directory = node.root / "pods" / sandbox.uid
            mounts = volumes.mounts(pod, view.spec, env)
            if not node.pretends:
                mounts += config.standard_mounts(pod, view.spec, directory, facts.pod_ip, mounts)
            made = config.container_config(
                pod,
                view.spec,
                attempt=attempt,
                image_ref=image_ref,
                env=env,
                mounts=mounts,
                cdi_devices=node.claims.cdi_ids(pod, view.spec),
                log_path=config.container_log(node.logs, pod, view.spec.name, attempt),
            )
            reason = "CreateContainerError"
            identifier = await node.runtime.create_container(sandbox_id, made, sandbox)
            self.event(pod, "Normal", "Created", "Container created")
            reason = "RunContainerError"
            await self._start(identifier)
        except (NodeError, OSError, ValueError) as error:
            self._failed(pod, error, reason)
            return False
        self._superseded()
        view.last, view.current = view.current, await node.runtime.status(identifier)
        view.waiting_reason = view.waiting_message = view.message = ""
        self.event(pod, "Normal", "Started", "Container started")
        self._watch(pod, facts.pod_ip or node.address)
        self._post_start(pod)
        return True

    async def _start(self, identifier: str) -> None:
        try:
            if self.node.start_limit is None:
                await self.node.runtime.start_container(identifier)
            else:
                async with self.node.start_limit:
                    await self.node.runtime.start_container(identifier)
        except NodeError:
            await self.node.runtime.remove_container(identifier)
            raise

    async def _image(self, pod: Pod, sandbox: SandboxConfig) -> str:
        image = self.spec.image or ""
        try:
            reference, pulled = await self.node.runtime.ensure_image(
                image, self.spec.imagePullPolicy or "", sandbox=sandbox
            )
        except RuntimeFailure as error:
            self.event(pod, "Warning", "Failed", str(error))
            raise
        if pulled:
            self.event(pod, "Normal", "Pulled", f'Successfully pulled image "{image}"')
        elif reference == "drakit/host-root":
            self.event(
                pod,
                "Normal",
                "Pulled",
                f'Container image "{image}" is not unpacked here: the container runs on the node\'s own root',
            )
        else:
            self.event(
                pod,
                "Normal",
                "Pulled",
                f'Container image "{image}" already present on machine and can be accessed by the pod',
            )
        return reference

    def _failed(self, pod: Pod, error: Exception, reason: str) -> None:
        view = self.view
        view.waiting_reason = error.reason if isinstance(error, RuntimeFailure) else reason
        view.waiting_message = str(error)
        self._backoff = min(max(self._backoff * 2, FIRST_BACKOFF), LAST_BACKOFF)
        self.retry_at = self.node.clock.monotonic() + self._backoff
        self.event(pod, "Warning", "Failed", f"Error: {error}")

    def _superseded(self) -> None:
        """Only the run before the current one is kept (for logs --previous)."""
        older = self.view.last
        if older is not None:
            self._spawn(self.node.runtime.remove_container(older.id))
            if older.log_path:
                Path(older.log_path).unlink(missing_ok=True)

    def _watch(self, pod: Pod, address: str) -> None:
        assert self.view.current is not None
        self.view.started = self.spec.startupProbe is None
        self.view.ready = self.view.started and self.spec.readinessProbe is None
        self._spawn(self._follow(pod, self.view.current.id, address))

    async def _follow(self, pod: Pod, identifier: str, address: str) -> None:
        """Probes while it runs; notes its end."""
        probes = asyncio.create_task(self._probe(pod, identifier, address)) if self._has_probes else None
        try:
            ended = await self.node.runtime.wait(identifier)
        finally:
            if probes is not None:
                probes.cancel()
                await asyncio.gather(probes, return_exceptions=True)
        if self.view.current is not None and self.view.current.id == identifier:
            self.view.current = ended
            self.view.ready = self.init and ended.exit_code == 0
            self.view.started = False
            self.view.message = self._termination_message(pod, ended)
            self._wake()

    @property
    def _has_probes(self) -> bool:
        return any((self.spec.startupProbe, self.spec.livenessProbe, self.spec.readinessProbe))

    async def _probe(self, pod: Pod, identifier: str, address: str) -> None:
        prober = Prober(self.node.runtime, self.spec, identifier, address, self.node.clock)

        def unhealthy(kind: str) -> Callable[[str], None]:
            return lambda output: self.event(pod, "Warning", "Unhealthy", f"{kind} probe failed: {output}")

        async def started(ok: bool, _output: str) -> None:
            if ok:
                self.view.started = True
                self.view.ready = self.spec.readinessProbe is None
                self._wake()
            else:
                self._kill_for(pod, f"Container {self.spec.name} failed startup probe, will be restarted")

        async def ready(ok: bool, _output: str) -> None:
            self.view.ready = ok
            self._wake()

        async def alive(ok: bool, _output: str) -> None:
            if not ok:
                self._kill_for(pod, f"Container {self.spec.name} failed liveness probe, will be restarted")

        if self.spec.startupProbe is not None:
            await prober.run(self.spec.startupProbe, started, unhealthy("Startup"), until_success=True)
        running = []
        if self.spec.readinessProbe is not None:
            running.append(prober.run(self.spec.readinessProbe, ready, unhealthy("Readiness")))
        if self.spec.livenessProbe is not None:
            running.append(prober.run(self.spec.livenessProbe, alive, unhealthy("Liveness")))
        await asyncio.gather(*running)

    def _kill_for(self, pod: Pod, message: str) -> None:
        assert pod.spec is not None
        self.event(pod, "Normal", "Killing", message)
        grace = float(
            pod.spec.terminationGracePeriodSeconds if pod.spec.terminationGracePeriodSeconds is not None else 30
        )
        self._spawn(self._stop_process(pod, grace))

    def _post_start(self, pod: Pod) -> None:
        hook = self.spec.lifecycle.postStart if self.spec.lifecycle else None
        if hook is not None:
            self._spawn(self._run_post_start(pod, hook))

    async def _run_post_start(self, pod: Pod, hook: Any) -> None:
        assert self.view.current is not None
        try:
            await run_hook(hook, self.node.runtime, self.spec, self.view.current.id, self.node.address, self.node.clock)
        except (NodeError, OSError, TimeoutError) as error:
            log.info("postStart of %s: %s", self.spec.name, error)
            self.event(pod, "Warning", "FailedPostStartHook", "PostStartHook failed")
            self._kill_for(pod, "FailedPostStartHook")

    async def stop(self, pod: Pod, grace: float) -> None:
        """preStop hook, SIGTERM, and SIGKILL when the grace is over; returns when the container has ended."""
        if not self.view.running:
            return
        if not self.stopping:
            self.stopping = True
            self.event(pod, "Normal", "Killing", f"Stopping container {self.spec.name}")
        await self._stop_process(pod, grace)
        current = self.view.current
        if current is not None:
            ended = await self.node.runtime.status(current.id)
            if ended.state == EXITED and self.view.current is current:
                self.view.current = ended
                self.view.ready = self.view.started = False

    async def _stop_process(self, pod: Pod, grace: float) -> None:
        assert self.view.current is not None
        identifier = self.view.current.id
        start = self.node.clock.monotonic()
        hook = self.spec.lifecycle.preStop if self.spec.lifecycle else None
        if hook is not None and grace > 0:
            run = run_hook(hook, self.node.runtime, self.spec, identifier, self.node.address, self.node.clock)
            try:
                await asyncio.wait_for(run, grace)
            except (NodeError, OSError, TimeoutError) as error:
                log.info("preStop of %s: %s", self.spec.name, error)
                self.event(pod, "Warning", "FailedPreStopHook", "PreStopHook failed")
        left = max(grace - (self.node.clock.monotonic() - start), 2.0 if hook is not None and grace > 0 else 0.0)
        await self.node.runtime.stop_container(identifier, left if grace > 0 else 0)

    def backed_off(self, pod: Pod) -> float:
        """Seconds until a container that ended may be started again; tells about it while it has to wait."""
        assert pod.metadata is not None
        ended = self.view.ended
        now = self.node.clock.monotonic()
        if ended is None:
            return max(self.retry_at - now, 0.0)
        if self.retry_at <= 0.0 or self._counted is not ended:
            self._counted = ended
            if ended.finished_at - ended.started_at > FORGIVEN_AFTER:
                self._backoff = 0.0
            age = max(self.node.clock.now().timestamp() - ended.finished_at, 0.0)
            self.retry_at = now + self._backoff - age if self._backoff else now
            wait, self._backoff = self._backoff, min(max(self._backoff * 2, FIRST_BACKOFF), LAST_BACKOFF)
            if self.retry_at > now:
                where = f"{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"
                self.view.waiting_reason = "CrashLoopBackOff"
                self.view.waiting_message = (
                    f"back-off {go_duration(wait)} restarting failed container={self.spec.name} pod={where}"
                )
                self.event(
                    pod, "Warning", "BackOff", f"Back-off restarting failed container {self.spec.name} in pod {where}"
                )
        return max(self.retry_at - now, 0.0)

    _counted: ContainerStatus | None = None

    def _termination_message(self, pod: Pod, ended: ContainerStatus) -> str:
        assert pod.metadata is not None
        directory = self.node.root / "pods" / (pod.metadata.uid or "")
        text = (read_bytes(config.termination_log(directory, self.spec)) or b"")[-_MESSAGE_LIMIT:].decode(
            errors="replace"
        )
        if (
            not text
            and self.spec.terminationMessagePolicy == "FallbackToLogsOnError"
            and ended.exit_code != 0
            and ended.log_path
        ):
            text = tail(Path(ended.log_path), _MESSAGE_LOG_LINES)[-_MESSAGE_LOG_LIMIT:]
        return text

    def event(self, pod: Pod, kind: str, reason: str, message: str) -> None:
        """About this container: the pod with the field path of the container, as the kubelet refers to it."""
        field = "initContainers" if self.init else "containers"
        reference = {**reference_to(pod), "fieldPath": f"spec.{field}{{{self.spec.name}}}"}
        self.node.events.event(reference, kind, reason, message)

    def _spawn(self, coroutine: Any) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.warning("container %s: %s", self.spec.name, task.exception())

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
