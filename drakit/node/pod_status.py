"""A pod's status from what its containers do: phases, conditions and container states in the kubelet's form. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lightkube.models.core_v1 import Container, Pod

from drakit.api.times import at_second
from drakit.client.transport import Plain
from drakit.node.runtime import EXITED, RUNNING, ContainerStatus

__all__ = [
    "ContainerView",
    "build",
    "condition",
    "go_duration",
    "is_sidecar",
    "phase",
    "ready",
    "should_restart",
    "timestamp",
]


@dataclass
class ContainerView:
    """What the agent knows of one container."""

    spec: Container
    current: ContainerStatus | None = None
    last: ContainerStatus | None = None  # the run before
    waiting_reason: str = ""  # set while it is to be (re)started
    waiting_message: str = ""
    started: bool = False  # startup probe passed
    ready: bool = False
    message: str = ""  # termination message of the current run

    @property
    def running(self) -> bool:
        return self.current is not None and self.current.state == RUNNING

    @property
    def ended(self) -> ContainerStatus | None:
        """The run that is over, while no new one has begun."""
        return self.current if self.current is not None and self.current.state == EXITED else None

    @property
    def restarts(self) -> int:
        return self.current.attempt if self.current is not None else 0


def is_sidecar(container: Container) -> bool:
    return container.restartPolicy == "Always"


def should_restart(pod: Pod, container: Container, code: int, *, init: bool = False) -> bool:
    """Container rules first, then the container's own policy, then the pod's; an init container that succeeded is done."""
    assert pod.spec is not None
    for rule in container.restartPolicyRules or ():
        codes = rule.exitCodes
        if codes is not None and ((code in (codes.values or ())) == (codes.operator == "In")):
            return rule.action == "Restart"
    policy = container.restartPolicy or pod.spec.restartPolicy or "Always"
    if init and code == 0 and container.restartPolicy != "Always":
        return False
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def phase(
    pod: Pod, init: Sequence[ContainerView], ordinary: Sequence[ContainerView], *, terminal: bool, initialized: bool
) -> str:
    """The kubelet's getPhase."""
    pending_init = pending_sidecar = running = waiting = stopped = final = succeeded = 0
    for view in init:
        if is_sidecar(view.spec):
            running += view.running
            pending_sidecar += (view.running and not view.started) or view.current is None
            waiting += view.current is None
            continue
        ended = view.ended
        if ended is None:
            pending_init += 1
        elif ended.exit_code != 0 and not should_restart(pod, view.spec, ended.exit_code, init=True):
            return "Failed"
        elif ended.exit_code != 0 and view.waiting_reason == "":
            pending_init += 1
    for view in ordinary:
        ended = view.ended
        if view.running:
            running += 1
        elif ended is not None:
            stopped += 1
            succeeded += ended.exit_code == 0
            final += not should_restart(pod, view.spec, ended.exit_code)
        else:
            waiting += 1
    if pending_init or (pending_sidecar and not initialized) or waiting:
        # A pod that will never get further (its deadline passed, or it is deleted) is not pending.
        return "Failed" if terminal and not running else "Pending"
    if running:
        return "Running"
    if terminal or stopped == final:
        return "Succeeded" if stopped == succeeded else "Failed"
    return "Running"


def go_duration(seconds: float) -> str:
    """As Go prints it: 10s, 1m20s."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def timestamp(seconds: float) -> str:
    return at_second(int(seconds))


def condition(kind: str, value: bool, *, reason: str = "", message: str = "") -> Plain:
    found: Plain = {"type": kind, "status": "True" if value else "False"}
    if reason:
        found["reason"] = reason
    if message:
        found["message"] = message
    return found


def build(
    pod: Pod,
    init: Sequence[ContainerView],
    ordinary: Sequence[ContainerView],
    *,
    runtime: str,
    host_ip: str,
    pod_ip: str,
    sandbox_ready: bool,
    terminal: bool,
    start_time: str,
    now: str,
    allocated: Callable[[Container], list[Plain]],
    failure: tuple[str, str] | None = None,
) -> Plain:
    """The status to write; `failure` (reason, message) ends the pod as Failed whatever its containers did."""
    assert pod.metadata is not None
    initialized = any(v.current is not None for v in ordinary)
    state = phase(pod, init, ordinary, terminal=terminal, initialized=initialized)
    status: Plain = {}
    if failure is not None:
        state = "Failed"
        status["reason"], status["message"] = failure
    default_reason = "ContainerCreating" if initialized or not init or _init_done(init) else "PodInitializing"
    status |= {"phase": state, "hostIP": host_ip, "hostIPs": [{"ip": host_ip}], "startTime": start_time}
    if pod_ip and sandbox_ready:
        status["podIP"], status["podIPs"] = pod_ip, [{"ip": pod_ip}]
    if pod.metadata.generation:
        status["observedGeneration"] = pod.metadata.generation
    if init:
        statuses = [
            _container(v, runtime, "ContainerCreating" if i == 0 else "PodInitializing", allocated)
            for i, v in enumerate(init)
        ]
        status["initContainerStatuses"] = statuses
    status["containerStatuses"] = [_container(v, runtime, default_reason, allocated) for v in ordinary]
    conditions = _conditions(
        pod, init, ordinary, state, initialized, sandbox_ready and not (terminal and state in ("Succeeded", "Failed"))
    )
    status["conditions"] = [_with_times(pod, c, now) for c in conditions]
    return status


def _init_done(init: Sequence[ContainerView]) -> bool:
    return all(v.started if is_sidecar(v.spec) else v.ended is not None and v.ended.exit_code == 0 for v in init)


def _conditions(
    pod: Pod,
    init: Sequence[ContainerView],
    ordinary: Sequence[ContainerView],
    state: str,
    initialized: bool,
    sandbox_ready: bool,
) -> list[Plain]:
    found = [condition("PodReadyToStartContainers", sandbox_ready)]
    incomplete = [
        v.spec.name
        for v in init
        if not (v.started if is_sidecar(v.spec) else v.ended is not None and v.ended.exit_code == 0)
    ]
    if state == "Succeeded":
        found.append(condition("Initialized", True, reason="PodCompleted"))
    elif initialized or not incomplete:
        found.append(condition("Initialized", True))
    else:
        message = f"containers with incomplete status: [{' '.join(incomplete)}]"
        found.append(condition("Initialized", False, reason="ContainersNotInitialized", message=message))
    if state in ("Succeeded", "Failed"):
        reason = "PodCompleted" if state == "Succeeded" else "PodFailed"
        found += [condition("Ready", False, reason=reason), condition("ContainersReady", False, reason=reason)]
    else:
        watched = [v for v in init if is_sidecar(v.spec)] + list(ordinary)
        unready = [v.spec.name for v in watched if not v.ready]
        if unready:
            message = f"containers with unready status: [{' '.join(unready)}]"
            both = {"reason": "ContainersNotReady", "message": message}
            found += [condition("Ready", False, **both), condition("ContainersReady", False, **both)]
        else:
            found += [ready(pod), condition("ContainersReady", True)]
    found.append(condition("PodScheduled", True))
    return found


def ready(pod: Pod) -> Plain:
    """The condition Ready of a pod whose containers all are."""
    assert pod.spec is not None
    present = {c.type: c.status for c in (pod.status.conditions if pod.status else None) or ()}
    missing = []
    for gate in pod.spec.readinessGates or ():
        value = present.get(gate.conditionType)
        if value is None:
            missing.append(f'corresponding condition of pod readiness gate "{gate.conditionType}" does not exist.')
        elif value != "True":
            missing.append(f'the status of pod readiness gate "{gate.conditionType}" is not "True", but {value}')
    if missing:
        return condition("Ready", False, reason="ReadinessGatesNotReady", message=", ".join(missing))
    return condition("Ready", True)


def _with_times(pod: Pod, found: Plain, now: str) -> Plain:
    assert pod.metadata is not None
    old = next((c for c in (pod.status.conditions if pod.status else None) or () if c.type == found["type"]), None)
    since = now
    if old is not None and old.status == found["status"] and old.lastTransitionTime is not None:
        since = timestamp(old.lastTransitionTime.timestamp())
    if pod.metadata.generation:
        found["observedGeneration"] = pod.metadata.generation
    return {**found, "lastProbeTime": None, "lastTransitionTime": since}


def _container(
    view: ContainerView, runtime: str, default_reason: str, allocated: Callable[[Container], list[Plain]]
) -> Plain:
    current, spec = view.current, view.spec
    status: Plain = {
        "name": spec.name,
        "image": spec.image or "",
        "imageID": "",
        "ready": view.ready,
        "restartCount": view.restarts,
    }
    status["started"] = bool(view.running and view.started)
    if current is not None:
        status["image"] = current.image or spec.image or ""
        status["imageID"] = current.image_ref
        status["containerID"] = f"{runtime}://{current.id}"
    last = view.last
    if view.waiting_reason and not view.running:
        waiting = {"reason": view.waiting_reason, **({"message": view.waiting_message} if view.waiting_message else {})}
        status["state"] = {"waiting": waiting}
        if view.ended is not None:
            last = view.ended
    elif current is None or current.state not in (RUNNING, EXITED):
        status["state"] = {"waiting": {"reason": default_reason}}
    elif current.state == RUNNING:
        status["state"] = {"running": {"startedAt": timestamp(current.started_at)}}
    else:
        status["state"] = {"terminated": _terminated(current, runtime, view.message)}
    status["lastState"] = (
        {"terminated": _terminated(last, runtime, view.message if last is view.ended else last.message)} if last else {}
    )
    if spec.resources is not None and (spec.resources.requests or spec.resources.limits):
        chosen: Mapping[str, Any] = {"requests": spec.resources.requests, "limits": spec.resources.limits}
        status["resources"] = {k: dict(v) for k, v in chosen.items() if v}
        if spec.resources.requests:
            status["allocatedResources"] = dict(spec.resources.requests)
    health = allocated(spec)
    if health:
        status["allocatedResourcesStatus"] = health
    return status


def _terminated(ended: ContainerStatus, runtime: str, message: str) -> Plain:
    found: Plain = {
        "exitCode": ended.exit_code,
        "reason": ended.reason or ("Completed" if ended.exit_code == 0 else "Error"),
    }
    if ended.signal and ended.exit_code != 128 + ended.signal:
        found["signal"] = ended.signal
    if message or ended.message:
        found["message"] = message or ended.message
    # A container that never ran has no start; the API wants both times, as the kubelet gives them.
    found["startedAt"] = timestamp(ended.started_at) if ended.started_at else None
    found["finishedAt"] = timestamp(ended.finished_at) if ended.finished_at else None
    found["containerID"] = f"{runtime}://{ended.id}"
    return found
