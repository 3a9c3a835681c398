"""What becomes of a pod on a simulated node, and what it tells of itself: the kubelet's words, though nothing runs. Pure.

All containers of a pod begin and end together. What happened so far is read back from the pod's status, so a new process goes on
where the last one stopped. Annotations steer: `simulated.drakit.dev/seconds` (how long the containers run), `…/exit-code`.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite, nan
from typing import Any

from lightkube.models.core_v1 import Container, Pod

from drakit.client.transport import Plain
from drakit.node import pod_status
from drakit.node.pod_status import ContainerView, go_duration, should_restart
from drakit.node.runtime import EXITED, RUNNING, ContainerStatus

__all__ = ["Step", "address", "belied", "finished", "killed", "next_step", "ready", "restarted", "started"]

log = logging.getLogger(__name__)

SECONDS = "simulated.drakit.dev/seconds"
EXIT_CODE = "simulated.drakit.dev/exit-code"
SHUTDOWN = 0.05  # seconds that a container takes to end after SIGTERM
TERMINATED = 143  # its exit code then
FIRST_BACK_OFF, LAST_BACK_OFF, FORGIVEN_AFTER = 10.0, 300.0, 600.0


@dataclass(frozen=True, slots=True)
class Step:
    """What comes next for a pod. The name tells one run of its containers from the next."""

    name: str
    seconds: float  # after `since`
    since: float | None = None  # Unix seconds; None: from now on


def next_step(pod: Pod, default_seconds: float) -> Step | None:
    assert pod.metadata is not None
    state = (pod.status.phase if pod.status else None) or "Pending"
    if pod.metadata.deletionTimestamp is not None:
        return Step("end", min(pod.metadata.deletionGracePeriodSeconds or 0, SHUTDOWN))
    if state == "Pending":
        return Step("start", 0)
    if state != "Running":
        return None
    run = _leading(pod)
    if run.state == EXITED:
        return Step(f"restart {run.attempt}", _back_off(run), run.finished_at)
    if _may_end(pod):
        return Step(f"finish {run.attempt}", _seconds(pod, default_seconds), run.started_at)
    return None


def started(pod: Pod, now: float) -> Plain:
    return _status(pod, now, lambda container: _running(pod, container, 0, now))


def finished(pod: Pod, now: float) -> Plain:
    """Its containers have ended by themselves: the pod's end, or the next run of those that its restartPolicy starts again."""
    assert pod.spec is not None
    code = _exit_code(pod)

    def view(container: Container) -> ContainerView:
        run = _run(pod, container)
        if run.state == EXITED:
            return ContainerView(container, run)
        ended = _ended(run, now, code)
        if not should_restart(pod, container, code):
            return ContainerView(container, ended)
        seconds = _back_off(ended)
        if not seconds:
            return _running(pod, container, ended.attempt + 1, now, last=ended)
        text = f"back-off {go_duration(seconds)} restarting failed container={container.name} pod={_where(pod)}"
        return ContainerView(container, ended, waiting_reason="CrashLoopBackOff", waiting_message=text)

    over = not any(should_restart(pod, container, code) for container in pod.spec.containers)
    return _status(pod, now, view, terminal=over)


def restarted(pod: Pod, now: float) -> Plain:
    """Its containers have waited long enough."""

    def view(container: Container) -> ContainerView:
        last = _run(pod, container)
        if not should_restart(pod, container, last.exit_code):
            return ContainerView(container, last)
        return _running(pod, container, last.attempt + 1, now, last=last)

    return _status(pod, now, view)


def killed(pod: Pod, now: float) -> Plain:
    """It was deleted and its containers were stopped: the last that its node tells of it."""

    def view(container: Container) -> ContainerView:
        if not (pod.status and pod.status.containerStatuses):
            return ContainerView(container)  # it never ran
        run = _run(pod, container)
        return ContainerView(container, run if run.state == EXITED else _ended(run, now, TERMINATED))

    return _status(pod, now, view, terminal=True)


def belied(pod: Pod) -> bool:
    """Others say that it is not ready, though its containers are: its node was taken for dead."""
    told = (pod.status.containerStatuses if pod.status else None) or ()
    ready = next((each for each in (pod.status.conditions if pod.status else None) or () if each.type == "Ready"), None)
    at_work = bool(told) and all(each.ready for each in told)
    return at_work and ready is not None and ready.status != pod_status.ready(pod)["status"]


def ready(pod: Pod, now: float) -> Plain:
    """The condition Ready of a pod whose containers are."""
    return {**pod_status.ready(pod), "lastProbeTime": None, "lastTransitionTime": pod_status.timestamp(now)}


def address(text: str) -> str:
    """A stable address in 10.0.0.0/8 made from a name: nothing is reachable there, but tools like to see one."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"10.{digest[0]}.{digest[1]}.{digest[2] or 1}"


def _status(pod: Pod, now: float, view: Callable[[Container], ContainerView], *, terminal: bool = False) -> Plain:
    assert pod.metadata is not None
    assert pod.spec is not None
    ordinary = [view(container) for container in pod.spec.containers]
    began = pod.status.startTime if pod.status else None
    stamp = pod_status.timestamp(now)
    return pod_status.build(
        pod,
        [_init(pod, container, now, terminal) for container in pod.spec.initContainers or ()],
        ordinary,
        runtime="simulated",
        host_ip=address(pod.spec.nodeName or ""),
        pod_ip=address(f"{pod.metadata.namespace}/{pod.metadata.name}") if ordinary[0].current else "",
        sandbox_ready=ordinary[0].current is not None,
        terminal=terminal,
        start_time=pod_status.timestamp(began.timestamp()) if began is not None else stamp,
        now=stamp,
        allocated=lambda container: [],
    )


def _init(pod: Pod, container: Container, now: float, terminal: bool) -> ContainerView:
    run = _run(pod, container, now)
    if pod_status.is_sidecar(container) and not terminal:
        return ContainerView(container, run, started=True, ready=True)
    return ContainerView(container, _ended(run, now, 0) if run.state == RUNNING else run, ready=True)


def _running(
    pod: Pod, container: Container, attempt: int, now: float, *, last: ContainerStatus | None = None
) -> ContainerView:
    run = ContainerStatus(_id(pod, container, attempt), container.name, attempt, RUNNING, now, now)
    return ContainerView(container, run, last, started=True, ready=True)


def _ended(run: ContainerStatus, now: float, code: int) -> ContainerStatus:
    return ContainerStatus(run.id, run.name, run.attempt, EXITED, run.created_at, run.started_at, now, code)


def _leading(pod: Pod) -> ContainerStatus:
    """The run that says what comes next: that of a container which is not over for good."""
    assert pod.spec is not None
    runs = [_run(pod, container) for container in pod.spec.containers]
    lasting = (
        r
        for r, c in zip(runs, pod.spec.containers, strict=True)
        if r.state == RUNNING or should_restart(pod, c, r.exit_code)
    )
    return next(lasting, runs[0])


def _run(pod: Pod, container: Container, now: float = 0.0) -> ContainerStatus:
    """The current run of a container, as the pod's status tells of it."""
    status = pod.status
    told = ((status.containerStatuses if status else None) or []) + (
        (status.initContainerStatuses if status else None) or []
    )
    found = next((each for each in told if each.name == container.name), None)
    attempt = (found.restartCount or 0) if found else 0
    run = ContainerStatus(_id(pod, container, attempt), container.name, attempt, RUNNING, now, now)
    state, last = (found.state, found.lastState) if found else (None, None)
    if state is None:
        return run
    ended = state.terminated or (last.terminated if last is not None and state.waiting is not None else None)
    if ended is not None:
        run.state, run.exit_code, run.finished_at = EXITED, ended.exitCode, _seconds_of(ended.finishedAt)
    began = ended or state.running
    run.started_at = _seconds_of(began.startedAt if began is not None else None)
    return run


def _seconds_of(time: Any) -> float:
    return float(time.timestamp()) if time is not None else 0.0


def _back_off(ended: ContainerStatus) -> float:
    """Before the second restart 10 s, then twice as long each time; a run of ten minutes is forgiven."""
    if not ended.attempt or ended.finished_at - ended.started_at > FORGIVEN_AFTER:
        return 0.0
    return float(min(FIRST_BACK_OFF * 2 ** min(ended.attempt - 1, 10), LAST_BACK_OFF))


def _where(pod: Pod) -> str:
    assert pod.metadata is not None
    return f"{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"


def _id(pod: Pod, container: Container, attempt: int) -> str:
    assert pod.metadata is not None
    return hashlib.sha256(f"{pod.metadata.uid}/{container.name}/{attempt}".encode()).hexdigest()


def _may_end(pod: Pod) -> bool:
    return _annotation(pod, SECONDS) is not None or bool(pod.spec and pod.spec.restartPolicy in ("Never", "OnFailure"))


def _annotation(pod: Pod, name: str) -> str | None:
    annotations: dict[str, str] = (pod.metadata.annotations if pod.metadata else None) or {}
    return annotations.get(name)


def _seconds(pod: Pod, default: float) -> float:
    try:
        seconds = float(_annotation(pod, SECONDS) or default)
    except ValueError:
        seconds = nan
    if not isfinite(seconds):
        log.warning("pod %s: annotation %s is no number of seconds", _where(pod), SECONDS)
        return default
    return max(seconds, 0.0)


def _exit_code(pod: Pod) -> int:
    try:
        return int(_annotation(pod, EXIT_CODE) or 0)
    except ValueError:
        return 1
