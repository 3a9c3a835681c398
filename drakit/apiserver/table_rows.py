"""The cells of `kubectl get`, one short function per kind, each following its namesake in Kubernetes' printers.

Objects are plain and in the storage version; `now` is passed in, so that an age is a function of its arguments. The columns of the
name and of the object's own age are filled by `tables`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import datetime
from typing import Any

from drakit.api.selectors import go_selector_text, selector_text
from drakit.apiserver.stored import Plain

__all__ = ["PRINTERS", "age", "human_duration", "pod_conditions"]

Row = list[Any]

_SUCCEEDED: tuple[Plain, ...] = (
    {
        "type": "Completed",
        "status": "True",
        "reason": "Succeeded",
        "message": "The pod has completed successfully.",
    },
)
_FAILED: tuple[Plain, ...] = (
    {"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."},
)


def human_duration(seconds: float) -> str:
    """An age as Kubernetes writes it: `90s`, `9m5s`, `3h12m`, `2d4h`, `1y20d`."""
    whole = int(seconds)
    if whole < 0:
        return "0s" if whole >= -1 else "<invalid>"
    if whole < 120:
        return f"{whole}s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _two(days, "d", hours % 24, "h")
    if hours < 24 * 365 * 2:
        return f"{days}d"
    if hours < 24 * 365 * 8:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(big: int, big_unit: str, small: int, small_unit: str) -> str:
    return f"{big}{big_unit}{small}{small_unit}" if small else f"{big}{big_unit}"


def age(timestamp: str | None, now: datetime) -> str:
    if not timestamp:
        return "<unknown>"
    return human_duration((now - datetime.fromisoformat(timestamp)).total_seconds())


def _status(obj: Plain) -> Plain:
    return obj.get("status") or {}


def _spec(obj: Plain) -> Plain:
    return obj.get("spec") or {}


def _condition(obj: Plain, kind: str) -> Plain | None:
    return next((c for c in _status(obj).get("conditions") or () if c.get("type") == kind), None)


def _is_true(obj: Plain, kind: str) -> bool:
    return (_condition(obj, kind) or {}).get("status") == "True"


def _template_cells(obj: Plain) -> list[str]:
    containers = _spec(_spec(obj).get("template") or {}).get("containers") or ()
    return [",".join(c.get(key, "") for c in containers) for key in ("name", "image")]


def _labels(labels: Plain | None) -> str:
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) if labels else "<none>"


# Pods


@dataclasses.dataclass(slots=True)
class _PodSummary:
    reason: str
    restarts: int = 0
    ready: int = 0
    last_restart: str = ""
    initializing: bool = False

    def add_restarts(self, status: Plain) -> None:
        self.restarts += status.get("restartCount", 0)
        finished = ((status.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
        self.last_restart = max(self.last_restart, finished)


def _pod(pod: Plain, now: datetime) -> Row:
    spec, status = _spec(pod), _status(pod)
    phase = status.get("phase", "")
    summary = _PodSummary(status.get("reason") or phase)
    if any(
        c.get("type") == "PodScheduled" and c.get("reason") == "SchedulingGated" for c in status.get("conditions") or ()
    ):
        summary.reason = "SchedulingGated"
    inits = spec.get("initContainers") or ()
    sidecars = {c["name"] for c in inits if c.get("restartPolicy") == "Always"}
    sidecar_restarts = _scan_init_containers(status.get("initContainerStatuses") or (), sidecars, len(inits), summary)
    if not summary.initializing or _is_true(pod, "Initialized"):
        summary.restarts, summary.last_restart = sidecar_restarts.restarts, sidecar_restarts.last_restart
        _scan_containers(status.get("containerStatuses") or (), _is_true(pod, "Ready"), summary)
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            summary.reason = "Unknown"
        elif phase not in ("Succeeded", "Failed"):
            summary.reason = "Terminating"
    restarts = str(summary.restarts)
    if summary.restarts and summary.last_restart:
        restarts = f"{summary.restarts} ({age(summary.last_restart, now)} ago)"
    total = len(spec.get("containers") or ()) + len(sidecars)
    ips = status.get("podIPs") or ()
    return [
        f"{summary.ready}/{total}",
        summary.reason,
        restarts,
        (ips[0].get("ip") if ips else "") or "<none>",
        spec.get("nodeName") or "<none>",
        status.get("nominatedNodeName") or "<none>",
        _readiness_gates(pod),
    ]


def pod_conditions(pod: Plain) -> tuple[Plain, ...]:
    return {"Succeeded": _SUCCEEDED, "Failed": _FAILED}.get(_status(pod).get("phase", ""), ())


def _scan_init_containers(statuses: Any, sidecars: set[str], count: int, summary: _PodSummary) -> _PodSummary:
    """Until the first init container that is not done, which gives the reason. Returns the restarts of sidecars."""
    of_sidecars = _PodSummary("")
    for index, status in enumerate(statuses):
        summary.add_restarts(status)
        sidecar = status["name"] in sidecars
        if sidecar:
            of_sidecars.add_restarts(status)
        state = status.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting")
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if sidecar and status.get("started"):
            summary.ready += bool(status.get("ready"))
            continue
        if terminated is not None:
            summary.reason = "Init:" + _terminated_reason(terminated)
        elif waiting and waiting.get("reason") and waiting["reason"] != "PodInitializing":
            summary.reason = "Init:" + waiting["reason"]
        else:
            summary.reason = f"Init:{index}/{count}"
        summary.initializing = True
        break
    return of_sidecars


def _scan_containers(statuses: Any, pod_ready: bool, summary: _PodSummary) -> None:
    running = False
    error_reason = ""
    for status in reversed(statuses):
        summary.add_restarts(status)
        state = status.get("state") or {}
        terminated = state.get("terminated")
        if (state.get("waiting") or {}).get("reason"):
            summary.reason = state["waiting"]["reason"]
        elif terminated is not None:
            summary.reason = _terminated_reason(terminated)
            if terminated.get("exitCode"):
                error_reason = summary.reason
        elif status.get("ready") and state.get("running") is not None:
            running = True
            summary.ready += 1
    if summary.reason == "Completed":
        if running and pod_ready:
            summary.reason = "Running"
        elif error_reason:
            summary.reason = error_reason
        elif running:
            summary.reason = "NotReady"


def _terminated_reason(terminated: Plain) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _readiness_gates(pod: Plain) -> str:
    gates = _spec(pod).get("readinessGates")
    if not gates:
        return "<none>"
    return f"{sum(_is_true(pod, gate.get('conditionType', '')) for gate in gates)}/{len(gates)}"


# The rest of core


def _node(node: Plain, now: datetime) -> Row:
    ready = _condition(node, "Ready")
    status = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    if _spec(node).get("unschedulable"):
        status += ",SchedulingDisabled"
    info = _status(node).get("nodeInfo") or {}
    kernel = info.get("kernelVersion") or "<unknown>"
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        status,
        _node_roles(node),
        info.get("kubeletVersion", ""),
        _address(node, "InternalIP"),
        _address(node, "ExternalIP"),
        info.get("osImage") or "<unknown>",
        kernel,
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _node_roles(node: Plain) -> str:
    roles = set()
    for key, value in (node["metadata"].get("labels") or {}).items():
        if key.startswith("node-role.kubernetes.io/"):
            roles.add(key.removeprefix("node-role.kubernetes.io/"))
        elif key == "kubernetes.io/role":
            roles.add(value)
    return ",".join(sorted(roles - {""})) or "<none>"


def _address(node: Plain, kind: str) -> str:
    addresses = _status(node).get("addresses") or ()
    return next((str(a.get("address", "")) for a in addresses if a.get("type") == kind), "<none>")


def _event(event: Plain, now: datetime) -> Row:
    first = age(event.get("firstTimestamp") or event.get("eventTime"), now)
    last = age(event["lastTimestamp"], now) if event.get("lastTimestamp") else first
    count = event.get("count") or 1
    series = event.get("series")
    if series:
        last, count = age(series.get("lastObservedTime"), now), series.get("count", 0)
    target = event.get("involvedObject") or {}
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent") or ""
    instance = source.get("host") or event.get("reportingInstance") or ""
    kind = target.get("kind", "").lower()
    return [
        last,
        event.get("type", ""),
        event.get("reason", ""),
        f"{kind}/{target['name']}" if target.get("name") else kind,
        target.get("fieldPath", ""),
        f"{component}, {instance}" if instance else component,
        (event.get("message") or "").strip(),
        first,
        count,
        event["metadata"].get("name", ""),
    ]


def _namespace(obj: Plain, now: datetime) -> Row:
    return [_status(obj).get("phase", "")]


def _config_map(obj: Plain, now: datetime) -> Row:
    return [len(obj.get("data") or ()) + len(obj.get("binaryData") or ())]


def _secret(obj: Plain, now: datetime) -> Row:
    return [obj.get("type", ""), len(obj.get("data") or ())]


def _service(obj: Plain, now: datetime) -> Row:
    spec = _spec(obj)
    ports = [
        f"{p.get('port')}:{p['nodePort']}/{p.get('protocol')}"
        if p.get("nodePort")
        else f"{p.get('port')}/{p.get('protocol')}"
        for p in spec.get("ports") or ()
    ]
    cluster_ips = spec.get("clusterIPs") or ("<none>",)
    return [
        spec.get("type", ""),
        cluster_ips[0],
        _external_ip(obj),
        ",".join(ports) or "<none>",
        _labels(spec.get("selector")),
    ]


def _external_ip(service: Plain) -> str:
    spec = _spec(service)
    external = list(spec.get("externalIPs") or ())
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(external) or "<none>"
        case "LoadBalancer":
            ingress = (_status(service).get("loadBalancer") or {}).get("ingress") or ()
            points = sorted({i.get("ip") or i.get("hostname") or "" for i in ingress} - {""})
            return ",".join(points + external) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
    return "<unknown>"


def _endpoints(obj: Plain, now: datetime) -> Row:
    subsets = obj.get("subsets") or ()
    found = []
    for subset in subsets:
        ports: list[Plain] = subset.get("ports") or [{}]
        for port in ports:
            for address in subset.get("addresses") or ():
                ip = address.get("ip", "")
                host = f"[{ip}]" if ":" in ip else ip
                found.append(f"{host}:{port.get('port', 0)}" if port else ip)
    text = ",".join(found[:3])
    if len(found) > 3:
        text += f" + {len(found) - 3} more..."
    return [text if subsets else "<none>"]


def _resource_quota(obj: Plain, now: datetime) -> Row:
    hard, used = _status(obj).get("hard") or {}, _status(obj).get("used") or {}
    texts: dict[bool, list[str]] = {True: [], False: []}
    for name in sorted(hard):
        texts[name.startswith("limits.")].append(f"{name}: {used.get(name, '0')}/{hard[name]}")
    return [", ".join(texts[False]), ", ".join(texts[True])]


# Workloads


def _deployment(obj: Plain, now: datetime) -> Row:
    status = _status(obj)
    return [
        f"{status.get('readyReplicas', 0)}/{_spec(obj).get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        *_template_cells(obj),
        selector_text(_spec(obj).get("selector")),
    ]


def _replica_set(obj: Plain, now: datetime) -> Row:
    status = _status(obj)
    counts = [_spec(obj).get("replicas", 0), status.get("replicas", 0), status.get("readyReplicas", 0)]
    selector = selector_text(_spec(obj).get("selector")) or "<none>"
    return [*counts, *_template_cells(obj), selector]


_DAEMON_COUNTS = (
    "desiredNumberScheduled",
    "currentNumberScheduled",
    "numberReady",
    "updatedNumberScheduled",
    "numberAvailable",
)


def _daemon_set(obj: Plain, now: datetime) -> Row:
    counts = [_status(obj).get(field, 0) for field in _DAEMON_COUNTS]
    node_selector = _labels(_spec(_spec(obj).get("template") or {}).get("nodeSelector"))
    selector = selector_text(_spec(obj).get("selector")) or "<none>"
    return [*counts, node_selector, *_template_cells(obj), selector]


def _stateful_set(obj: Plain, now: datetime) -> Row:
    ready = f"{_status(obj).get('readyReplicas', 0)}/{_spec(obj).get('replicas', 0)}"
    return [ready, *_template_cells(obj)]


def _controller_revision(obj: Plain, now: datetime) -> Row:
    owners = obj["metadata"].get("ownerReferences") or ()
    controller = "<none>"
    for owner in owners:
        if owner.get("controller"):
            group = owner["apiVersion"].rpartition("/")[0]
            kind = f"{owner['kind']}.{group}" if group else owner["kind"]
            controller = f"{kind.lower()}/{owner['name']}"
    return [controller, obj.get("revision", 0)]


def _job(obj: Plain, now: datetime) -> Row:
    spec, status = _spec(obj), _status(obj)
    succeeded = status.get("succeeded", 0)
    if spec.get("completions") is not None:
        completions = f"{succeeded}/{spec['completions']}"
    elif spec.get("parallelism", 0) > 1:
        completions = f"{succeeded}/1 of {spec['parallelism']}"
    else:
        completions = f"{succeeded}/1"
    duration = ""
    if status.get("startTime"):
        end = status.get("completionTime")
        duration = age(status["startTime"], datetime.fromisoformat(end) if end else now)
    selector = selector_text(spec.get("selector")) or "<none>"
    return [_job_state(obj), completions, duration, *_template_cells(obj), selector]


def _job_state(job: Plain) -> str:
    for state in ("Complete", "Failed"):
        if _is_true(job, state):
            return state
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for state in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if _is_true(job, state):
            return state
    return "Running"


def _disruption_budget(obj: Plain, now: datetime) -> Row:
    spec = _spec(obj)
    bounds = ["N/A" if spec.get(key) is None else str(spec[key]) for key in ("minAvailable", "maxUnavailable")]
    return [*bounds, _status(obj).get("disruptionsAllowed", 0)]


# Everything else


def _lease(obj: Plain, now: datetime) -> Row:
    return [_spec(obj).get("holderIdentity") or ""]


def _role_binding(obj: Plain, now: datetime) -> Row:
    ref = obj.get("roleRef") or {}
    subjects: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in obj.get("subjects") or ():
        name = subject.get("name", "")
        if subject.get("kind") == "ServiceAccount":
            name = f"{subject.get('namespace', '')}/{name}"
        subjects.setdefault(subject.get("kind", ""), []).append(name)
    names = [", ".join(subjects[kind]) for kind in ("User", "Group", "ServiceAccount")]
    return [f"{ref.get('kind', '')}/{ref.get('name', '')}", *names]


def _priority_class(obj: Plain, now: datetime) -> Row:
    return [
        obj.get("value", 0),
        obj.get("globalDefault", False),
        obj.get("preemptionPolicy", ""),
    ]


def _pod_group(obj: Plain, now: datetime) -> Row:
    status = "Pending"
    scheduled = _condition(obj, "PodGroupInitiallyScheduled")
    if scheduled is not None:
        status = "Scheduled" if scheduled.get("status") == "True" else "Unschedulable"
    disruption = _condition(obj, "DisruptionTarget")
    if disruption is not None:
        status = disruption.get("reason", "")
    return [*_group_policy(obj), status]


def _composite_pod_group(obj: Plain, now: datetime) -> Row:
    return _group_policy(obj)


def _group_policy(obj: Plain) -> Row:
    spec = _spec(obj)
    policy = "Gang" if (spec.get("schedulingPolicy") or {}).get("gang") is not None else "Basic"
    return [policy, (spec.get("workloadRef") or {}).get("workloadName") or "<none>"]


def _policy(obj: Plain, now: datetime) -> Row:
    kind = _spec(obj).get("paramKind")
    text = f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else "<unset>"
    return [len(_spec(obj).get("validations") or ()), text]


def _policy_binding(obj: Plain, now: datetime) -> Row:
    ref = _spec(obj).get("paramRef") or {}
    if ref.get("name"):
        text = f"{ref.get('namespace') or '*'}/{ref['name']}"
    elif ref.get("selector") is not None:
        text = go_selector_text(ref["selector"])
    else:
        text = "<unset>"
    return [_spec(obj).get("policyName", ""), text]


def _scale(obj: Plain, now: datetime) -> Row:
    return [_spec(obj).get("replicas", 0), _status(obj).get("replicas", 0)]


def _resource_claim(obj: Plain, now: datetime) -> Row:
    deleted = bool(obj["metadata"].get("deletionTimestamp"))
    states = ["deleted"] if deleted else []
    if _status(obj).get("allocation"):
        states.append("allocated")
        if _status(obj).get("reservedFor"):
            states.append("reserved")
    elif not deleted:
        states.append("pending")
    return [",".join(states)]


def _resource_slice(obj: Plain, now: datetime) -> Row:
    spec = _spec(obj)
    pool = (spec.get("pool") or {}).get("name", "")
    return [spec.get("nodeName") or "", spec.get("driver", ""), pool]


def _taint_rule(obj: Plain, now: datetime) -> Row:
    taint = _spec(obj).get("taint") or {}
    added = age(taint["timeAdded"], now) if taint.get("timeAdded") else ""
    return [taint.get("key", ""), taint.get("value", ""), taint.get("effect", ""), added]


_POOL_COUNTS = ("totalDevices", "availableDevices", "allocatedDevices", "unavailableDevices")


def _pool_status(obj: Plain, now: datetime) -> Row:
    status = obj.get("status")
    state, completed, counts = "Pending", "<none>", ["-"] * 5
    pool_count = 0
    if status is not None:
        pools = status.get("pools") or ()
        pool_count = status.get("poolCount") or 0
        done = next(
            (
                c
                for c in status.get("conditions") or ()
                if c.get("type") in ("Complete", "Failed") and c["status"] == "True"
            ),
            None,
        )
        if done is not None:
            state = done["type"]
        if done is not None and state == "Complete":
            completed = age(done.get("lastTransitionTime"), now)
            if pool_count > len(pools):
                state = f"Complete ({len(pools)}/{pool_count} pools)"
        if state != "Failed":
            sums = [sum(pool.get(field) or 0 for pool in pools) for field in _POOL_COUNTS]
            errors = sum(pool.get("validationError") is not None for pool in pools)
            counts = [str(n) for n in (*sums, errors)]
    return [_spec(obj).get("driver", ""), *counts, pool_count, state, completed]


PRINTERS: dict[tuple[str, str], Callable[[Plain, datetime], Row]] = {
    ("", "Pod"): _pod,
    ("", "Node"): _node,
    ("", "Event"): _event,
    ("events.k8s.io", "Event"): _event,
    ("", "Namespace"): _namespace,
    ("", "ConfigMap"): _config_map,
    ("", "Secret"): _secret,
    ("", "Service"): _service,
    ("", "Endpoints"): _endpoints,
    ("", "ResourceQuota"): _resource_quota,
    ("apps", "Deployment"): _deployment,
    ("apps", "ReplicaSet"): _replica_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "ControllerRevision"): _controller_revision,
    ("batch", "Job"): _job,
    ("policy", "PodDisruptionBudget"): _disruption_budget,
    ("coordination.k8s.io", "Lease"): _lease,
    ("rbac.authorization.k8s.io", "RoleBinding"): _role_binding,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _role_binding,
    ("scheduling.k8s.io", "PriorityClass"): _priority_class,
    ("scheduling.k8s.io", "PodGroup"): _pod_group,
    ("scheduling.k8s.io", "CompositePodGroup"): _composite_pod_group,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): _policy,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): _policy_binding,
    ("autoscaling", "Scale"): _scale,
    ("resource.k8s.io", "ResourceClaim"): _resource_claim,
    ("resource.k8s.io", "ResourceSlice"): _resource_slice,
    ("resource.k8s.io", "DeviceTaintRule"): _taint_rule,
    ("resource.k8s.io", "ResourcePoolStatusRequest"): _pool_status,
}
