"""How much work a controller does for one event, counted and not timed: in a cluster of n objects of every kind and in one of ten times n.

Work is the bytecodes executed in the controllers and in their caches, plus the objects that the caches hand out, while the event is
handled. For each controller a few events are played; the object they happen to is as large as the cluster (a ReplicaSet of n pods, a
DaemonSet on n nodes) unless the event is about all of it.

    python -m tests.controllers.work [SMALL [LARGE]]
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lightkube.models.apps_v1 import DaemonSet, Deployment, ReplicaSet, StatefulSet
from lightkube.models.batch_v1 import Job
from lightkube.models.coordination_v1 import Lease
from lightkube.models.core_v1 import ConfigMap, Namespace, Node, Pod, ServiceAccount
from lightkube.models.resource_v1 import ResourceClaim, ResourceSlice
from lightkube.models.scheduling_v1beta1 import PodGroup

from drakit.api.gates import FeatureGates
from drakit.client import Informer, Plain
from drakit.controllers.objects import is_true
from drakit.controllers.runner import NAMES
from tests.controllers import objects as make
from tests.controllers.cluster import Cluster
from tests.controllers.kubelet import READY, allocate, bind, run_pods
from tests.effort import Bytecodes

_HANDING_OUT = ("list", "keys", "by_index", "index_keys", "index_values")


class Counter:
    """Counts while `on`."""

    def __init__(self) -> None:
        self.bytecodes = Bytecodes("controllers", "client", "api", "scheduler")
        self.objects = 0

    @property
    def work(self) -> int:
        return self.bytecodes.count + self.objects

    @contextmanager
    def on(self) -> Iterator[None]:
        before = {method: getattr(Informer, method) for method in _HANDING_OUT}
        for method, original in before.items():
            setattr(Informer, method, self._watched(original))
        try:
            with self.bytecodes.on():
                yield
        finally:
            for method, original in before.items():
                setattr(Informer, method, original)

    def _watched(self, original: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        def handing_out(*args: Any) -> list[Any]:
            found = original(*args)
            self.objects += len(found)
            return found

        return handing_out


@dataclass(frozen=True)
class Event:
    """Something that happens to the object that `prepare` made."""

    controller: str
    title: str
    happens: Callable[[Cluster], Awaitable[Any]]
    prepare: Callable[[Cluster, int], Awaitable[Any]] | None = None
    seconds: float = 2.0  # of virtual time until it has been dealt with
    changes: bool = True  # the controller has something to write


# The cluster around.


async def populate(cluster: Cluster, n: int) -> None:
    """n nodes with a slice, a lease, a running pod and its claim each; a tenth of that of what there is fewer of."""
    for number in range(n):
        node = f"node-{number}"
        await cluster.create(make.node(node, labels={"host": node}))
        await cluster.patch(Node, node, {"spec": {"taints": None}})
        await cluster.create(make.slice_(f"slice-{number}", node))
        await cluster.create(_lease(node))
        await cluster.create(_config(f"config-{number}"))
        await cluster.create(make.claim(f"claim-{number}"))
        await cluster.create(make.pod(f"pod-{number}", claims={"gpu": f"claim-{number}"}, labels=_app(number)))
        await allocate(cluster, f"claim-{number}", f"pod-{number}", pool=node)
        await bind(cluster, f"pod-{number}", node)
    await run_pods(cluster)
    for number in range(n // 10):
        await _populate_rarer(cluster, number)


async def _populate_rarer(cluster: Cluster, number: int) -> None:
    space, name = f"space-{number}", f"other-{number}"
    await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
    for kind in ("ReplicaSet", "Deployment", "StatefulSet"):
        extra = {"serviceName": "s"} if kind == "StatefulSet" else {}
        await cluster.create(make.workload(kind, name, app=f"{kind}-{number}", replicas=1, **extra))
    only = {"template": make.template(f"daemon-{number}", nodeSelector={"host": f"node-{number}"})}
    await cluster.create(make.workload("DaemonSet", name, app=f"daemon-{number}", **only))
    await cluster.create(make.job(name))
    await cluster.create(make.claim_template(name))
    await cluster.create(_budget(name, **_app(number)))
    await cluster.create(_quota(name, space))
    await cluster.create(make.rule(name, "NoExecute", driver="gpu.example.com", device=f"absent-{number}"))


def _app(number: int) -> dict[str, str]:
    return {"app": f"other-{number}"}


def _lease(node: str) -> Plain:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": node, "namespace": "kube-node-lease"},
        "spec": {"renewTime": "2026-01-01T00:00:00.000000Z"},
    }


def _config(name: str, namespace: str = "default", owner: Plain | None = None) -> Plain:
    metadata: Plain = {"name": name, "namespace": namespace}
    if owner is not None:
        reference = {key: owner["metadata"][key] for key in ("name", "uid")}
        metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "ConfigMap", **reference}]
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def _budget(name: str, **labels: str) -> Plain:
    spec = {"maxUnavailable": "10%", "selector": {"matchLabels": labels}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}


def _quota(name: str, namespace: str = "default") -> Plain:
    metadata, hard = {"name": name, "namespace": namespace}, {"pods": "100k", "count/configmaps": "100k"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}


# What happens.


def create(body: Plain) -> Callable[[Cluster], Awaitable[Any]]:
    return lambda cluster: cluster.create(body)


def delete(model: type[Any], name: str, **options: Any) -> Callable[[Cluster], Awaitable[Any]]:
    return lambda cluster: cluster.delete(model, name, **options)


def patch(model: type[Any], name: str, body: Plain, **options: Any) -> Callable[[Cluster], Awaitable[Any]]:
    return lambda cluster: cluster.patch(model, name, body, **options)


def made(body: Plain) -> Callable[[Cluster, int], Awaitable[Any]]:
    """One object, the same in both clusters."""
    return lambda cluster, _: cluster.create(body)


def _running(body: Callable[[int], Plain]) -> Callable[[Cluster, int], Awaitable[None]]:
    """A workload of n pods that all run."""

    async def prepare(cluster: Cluster, n: int) -> None:
        await cluster.create(body(n))
        for _ in range(3):
            await cluster.settle(1.0)
            await run_pods(cluster)
        await cluster.settle(1.0)

    return prepare


def _workload(kind: str, name: str, **spec: Any) -> Callable[[Cluster, int], Awaitable[None]]:
    return _running(lambda n: make.workload(kind, name, **({} if kind == "DaemonSet" else {"replicas": n}), **spec))


def _job(name: str, restart: str = "Never", **spec: Any) -> Callable[[Cluster, int], Awaitable[None]]:
    def body(n: int) -> Plain:
        job = make.job(name, parallelism=n, completions=2 * n, **spec)
        job["spec"]["template"]["spec"]["restartPolicy"] = restart
        return job

    return _running(body)


def one_pod(labels: str, body: Plain) -> Callable[[Cluster], Awaitable[None]]:
    """A new status for one of the pods with these labels, as its kubelet would write it."""

    async def happens(cluster: Cluster) -> None:
        pods = [pod for pod in await cluster.list(Pod, "default", labels) if is_true(pod, "Ready")]
        pod = pods[len(pods) // 2]
        await cluster.patch(Pod, pod["metadata"]["name"], {"status": body}, subresource="status")

    return happens


def kill_one(labels: str) -> Callable[[Cluster], Awaitable[None]]:
    async def happens(cluster: Cluster) -> None:
        pods = await cluster.list(Pod, "default", labels)
        await cluster.delete(Pod, pods[len(pods) // 3]["metadata"]["name"], grace_seconds=0)

    return happens


_UNREADY: Plain = {"conditions": [{**READY, "status": "False", "lastTransitionTime": "2026-01-01T00:01:00Z"}]}
_SUCCEEDED: Plain = {"phase": "Succeeded"}


async def _shared_claim(cluster: Cluster, n: int) -> None:
    """n pods want one claim; it is allocated and reserved for the first."""
    await cluster.create(make.claim("shared"))
    for number in range(n):
        await cluster.create(make.pod(f"sharing-{number}", claims={"gpu": "shared"}))
    await allocate(cluster, "shared", "sharing-0", device="dev-9")


async def _reserve_shared(cluster: Cluster) -> None:
    await allocate(cluster, "shared", "sharing-0", "sharing-1", device="dev-9")


async def _generated(cluster: Cluster, n: int) -> None:
    await cluster.create(make.claim_template("t"))
    for number in range(n):
        await cluster.create(make.pod(f"generated-{number}", template_claims={"gpu": "t"}))


async def _dependents(cluster: Cluster, n: int) -> None:
    owner = await cluster.create(_config("owner"))
    for number in range(n):
        await cluster.create(_config(f"dependent-{number}", owner=owner))
    lonely = await cluster.create(_config("lonely-owner"))
    await cluster.create(_config("lonely", owner=lonely))


async def _held_dependents(cluster: Cluster, n: int) -> None:
    """An owner that is deleted, and waits for n dependents that somebody holds."""
    owner = await cluster.create(_config("waiting"))
    for number in range(n):
        held = _config(f"held-{number}", owner=owner)
        held["metadata"]["finalizers"] = ["example.com/hold"]
        held["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = True
        await cluster.create(held)
    await cluster.settle(1.0)
    await cluster.delete(ConfigMap, "waiting", propagation="Foreground")


async def _tainted_pods(cluster: Cluster, n: int) -> None:
    """A rule that n pods tolerate for long: they wait to be evicted."""
    seconds = [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3600}]
    for number in range(n):
        await cluster.create(make.claim(f"bad-{number}"))
        await cluster.create(make.pod(f"bad-{number}", claims={"gpu": f"bad-{number}"}))
        await allocate(
            cluster, f"bad-{number}", f"bad-{number}", pool="bad", device=f"dev-{number}", tolerations=seconds
        )
        await bind(cluster, f"bad-{number}", "node-0")
    await cluster.create(make.rule("bad", "NoExecute", pool="bad"))


async def _grouped(cluster: Cluster, n: int) -> None:
    """n pods of a group that is deleted, and stays for them."""
    await cluster.create(make.pod_group("g"))
    for number in range(n):
        await cluster.create(make.pod(f"grouped-{number}", schedulingGroup={"podGroupName": "g"}))
    await cluster.delete(PodGroup, "g")


async def _free_one(cluster: Cluster) -> None:
    await cluster.patch(ResourceClaim, "bad-1", {"status": {"reservedFor": None}}, subresource="status")


async def _finish_job(cluster: Cluster) -> None:
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind in ("SuccessCriteriaMet", "Complete")
    ]
    times = {"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:00Z"}
    await cluster.patch(Job, "ends", {"status": {"conditions": conditions, **times}}, subresource="status")


async def _taint_slice(cluster: Cluster) -> None:
    devices = [{"name": "dev-0", "taints": [{"key": "k", "effect": "NoExecute"}]}]
    await cluster.patch(ResourceSlice, "slice-6", {"spec": {"devices": devices}})


def _update(model: type[Any], name: str) -> Callable[[Cluster, int], Awaitable[None]]:
    """A new template; the first pod has been replaced and is not ready yet."""

    async def prepare(cluster: Cluster, _: int) -> None:
        await run_pods(cluster)
        await cluster.settle(2.0)
        await cluster.patch(model, name, {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
        for _ in range(3):  # a pod takes its time to go
            await cluster.settle(1.0)
            await run_pods(cluster, lambda pod: "")

    return prepare


def next_one(labels: str) -> Callable[[Cluster], Awaitable[None]]:
    """The new pod becomes ready."""

    async def happens(cluster: Cluster) -> None:
        (pod,) = await cluster.list(Pod, "default", f"{labels},v=2")
        status = {"phase": "Running", "conditions": [READY]}
        await cluster.patch(Pod, pod["metadata"]["name"], {"status": status}, subresource="status")

    return happens


async def _newcomer(cluster: Cluster) -> None:
    await cluster.create(make.node("newcomer"))
    await cluster.patch(Node, "newcomer", {"spec": {"taints": None}})


async def _pod_without_node(cluster: Cluster, n: int) -> None:
    await cluster.create(make.node("short"))
    await cluster.create(make.pod("lost", nodeName="short"))


def _available(name: str) -> Callable[[Cluster], Awaitable[None]]:
    """The only ReplicaSet of a Deployment reports one more available pod."""

    async def happens(cluster: Cluster) -> None:
        sets = await cluster.list(ReplicaSet, "default", f"app={name}")
        status = {"replicas": 3, "readyReplicas": 3, "availableReplicas": 3}
        await cluster.patch(ReplicaSet, sets[0]["metadata"]["name"], {"status": status}, subresource="status")

    return happens


async def _report_group(cluster: Cluster) -> None:
    groups = await cluster.list(PodGroup)
    group = next(each for each in groups if each["metadata"]["name"].startswith("grouped-job-"))
    condition = {"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled", "message": "all"}
    conditions = [{**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    await cluster.patch(
        PodGroup, group["metadata"]["name"], {"status": {"conditions": conditions}}, subresource="status"
    )


_GANG = {"schedulingPolicy": {"gang": {}}}
_CLAIMS, _SETS, _JOBS = "resourceclaim-controller", "replicaset-controller", "job-controller"
_STATEFUL, _DAEMONS, _DEVICES = "statefulset-controller", "daemonset-controller", "device-taint-eviction-controller"
_BUDGETS, _GARBAGE = "disruption-controller", "garbage-collector-controller"
_POOLS, _GROUPS = "resourcepoolstatusrequest-controller", "podgroup-protection-controller"
_QUESTION = {
    "apiVersion": "resource.k8s.io/v1alpha3",
    "kind": "ResourcePoolStatusRequest",
    "metadata": {"name": "q"},
    "spec": {"driver": "gpu.example.com", "poolName": "node-9"},
}
_ORDERED, _PARALLEL = {"serviceName": "s"}, {"serviceName": "s", "podManagementPolicy": "Parallel"}
_REPORT = {"status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:05:00Z"}]}}

EVENTS: tuple[Event, ...] = (
    Event(_CLAIMS, "a pod from the template of n pods", create(make.pod("new", template_claims={"gpu": "t"})), _generated),
    Event(_CLAIMS, "one of n pods on a template ends", delete(Pod, "generated-7", grace_seconds=0), changes=False),
    Event(_CLAIMS, "a reservation in a claim that n pods name", _reserve_shared, _shared_claim, changes=False),
    Event(_CLAIMS, "a pod without claims", create(make.pod("plain")), changes=False),
    Event(_SETS, "one of n pods is no longer ready", one_pod("app=rs", _UNREADY), _workload("ReplicaSet", "rs")),
    Event(
        _SETS, "one of n pods that ripen is no longer ready", one_pod("app=ripe", _UNREADY),
        _workload("ReplicaSet", "ripe", minReadySeconds=86_400),
    ),
    Event(_SETS, "one of n pods is deleted", kill_one("app=rs")),
    Event(_SETS, "a set of one grows", patch(ReplicaSet, "other-1", {"spec": {"replicas": 2}})),
    Event(
        "deployment-controller", "a new pod is available",
        _available("d"), made(make.workload("Deployment", "d", replicas=3)),
    ),
    Event(
        "deployment-controller", "a new template",
        patch(Deployment, "d", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}}),
    ),
    Event(_JOBS, "one of n pods succeeds", one_pod("job-name=j", _SUCCEEDED), _job("j")),
    Event(
        _JOBS, "one of n indexed pods succeeds",
        one_pod("job-name=indexed", _SUCCEEDED), _job("indexed", completionMode="Indexed"),
    ),
    Event(
        _JOBS, "one of n restartable pods succeeds",
        one_pod("job-name=restart", _SUCCEEDED), _job("restart", "OnFailure"),
    ),
    Event(_JOBS, "a Job of two, scheduled as a gang", create(make.job("gang", parallelism=2, scheduling=_GANG))),
    Event(_JOBS, "a group of n pods reports", _report_group, _job("grouped-job", scheduling=_GANG), changes=False),
    Event(
        _STATEFUL, "one of n pods is no longer ready", one_pod("app=s", _UNREADY),
        _workload("StatefulSet", "s", **_PARALLEL),
    ),
    Event(_STATEFUL, "one of n pods is deleted", kill_one("app=s")),
    Event(_STATEFUL, "the first of n pods is updated", next_one("app=s"), _update(StatefulSet, "s")),
    Event(
        _STATEFUL, "one of n pods that ripen is no longer ready", one_pod("app=ripe-s", _UNREADY),
        _workload("StatefulSet", "ripe-s", minReadySeconds=86_400, **_PARALLEL),
    ),
    Event(_STATEFUL, "a set of one grows", patch(StatefulSet, "other-1", {"spec": {"replicas": 2}})),
    Event(_DAEMONS, "one of n pods is no longer ready", one_pod("app=d", _UNREADY), _workload("DaemonSet", "d")),
    Event(_DAEMONS, "one of n pods is deleted", kill_one("app=d")),
    Event(_DAEMONS, "the first of n pods is updated", next_one("app=d"), _update(DaemonSet, "d")),
    Event(_DAEMONS, "node n + 1 comes", _newcomer),
    Event(_DAEMONS, "a node leaves", delete(Node, "newcomer")),
    Event(_DAEMONS, "a node reports", patch(Node, "node-1", _REPORT, subresource="status"), changes=False),
    Event(_DAEMONS, "a node gets a label", patch(Node, "node-1", {"metadata": {"labels": {"x": "y"}}}), changes=False),
    Event(
        _DAEMONS, "one of n pods that ripen is no longer ready", one_pod("app=ripe-d", _UNREADY),
        _workload("DaemonSet", "ripe-d", minReadySeconds=86_400),
    ),
    Event(
        "serviceaccount-controller", "a new namespace",
        create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fresh"}}),
    ),
    Event("serviceaccount-controller", "an account is deleted", delete(ServiceAccount, "default", namespace="fresh")),
    Event(
        "root-ca-certificate-publisher-controller", "a new namespace",
        create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fresh-2"}}),
    ),
    Event(
        "root-ca-certificate-publisher-controller", "the map is deleted",
        delete(ConfigMap, "kube-root-ca.crt", namespace="fresh-2"),
    ),
    Event(_GARBAGE, "one of n dependents is deleted", delete(ConfigMap, "dependent-7"), _dependents, 1.0, changes=False),
    Event(
        _GARBAGE, "one of n dependents that their owner waits for goes",
        patch(ConfigMap, "held-7", {"metadata": {"finalizers": None}}), _held_dependents, 1.0, changes=False,
    ),
    Event(_GARBAGE, "the owner of one is deleted", delete(ConfigMap, "lonely-owner"), None, 1.0),
    Event(_GARBAGE, "a pod reports", one_pod("app=other-1", _UNREADY), None, 1.0, changes=False),
    Event("namespace-controller", "a namespace with two objects is deleted", delete(Namespace, "space-1")),
    Event(
        "pod-garbage-collector-controller", "a node with one pod leaves", delete(Node, "short"), _pod_without_node, 45.0,
    ),
    Event(
        "node-lifecycle-controller", "a node's lease is renewed",
        patch(Lease, "node-1", {"spec": {"renewTime": "2026-01-01T00:00:09.000000Z"}}, namespace="kube-node-lease"),
        changes=False,
    ),
    Event(
        "node-lifecycle-controller", "a node is not ready",
        patch(Node, "node-2", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, subresource="status"),
    ),
    Event(
        "taint-eviction-controller", "a node with one pod is tainted",
        patch(Node, "node-3", {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}),
    ),
    Event(
        "resourceslice-cleaner-controller", "a node leaves", delete(Node, "short-2"), made(make.node("short-2")),
        changes=False,
    ),
    Event(
        "resourceslice-cleaner-controller", "a slice of a node that is not there",
        create(make.slice_("early", "nobody")), changes=False,
    ),
    Event(
        "ttl-after-finished-controller", "a Job ends", _finish_job,
        made(make.job("ends", ttlSecondsAfterFinished=1)),
    ),
    Event(_DEVICES, "a device is tainted in a slice", _taint_slice),
    Event(
        _DEVICES, "a rule for one device",
        create(make.rule("one", "NoExecute", driver="gpu.example.com", pool="node-4", device="dev-0")),
    ),
    Event(
        _DEVICES, "a rule for one device, as a dry run",
        create(make.rule("dry", "None", driver="gpu.example.com", pool="node-5", device="dev-0")),
    ),
    Event(_DEVICES, "one of n waiting pods is released", _free_one, _tainted_pods),
    Event(_GROUPS, "one of n pods of a group ends", delete(Pod, "grouped-7", grace_seconds=0), _grouped, changes=False),
    Event(_GROUPS, "a group of none is deleted", delete(PodGroup, "nobodys"), made(make.pod_group("nobodys"))),
    Event(_POOLS, "a request for one pool", create(_QUESTION)),
    Event("resourcequota-controller", "a pod comes to n", create(make.pod("counted")), made(_quota("q"))),
    Event("resourcequota-controller", "one of n pods ends", delete(Pod, "pod-8", grace_seconds=0)),
    Event(_BUDGETS, "one of n pods is no longer ready", one_pod("app=rs", _UNREADY), made(_budget("b", app="rs"))),
    Event(_BUDGETS, "one of n pods ends", kill_one("app=rs")),
    Event(_BUDGETS, "the workload of n grows", patch(ReplicaSet, "rs", {"spec": {"replicas": 5000}})),
)  # fmt: skip


async def measure(n: int) -> dict[tuple[str, str], tuple[int, int]]:
    """(controller, event) -> work and requests, in a cluster of n."""
    result: dict[tuple[str, str], tuple[int, int]] = {}
    async with Cluster(
        gates=FeatureGates.parse("DRAResourcePoolStatus=true,GenericWorkload=true,WorkloadWithJob=true")
    ) as cluster:
        await populate(cluster, n)
        for controller in NAMES:
            events = [event for event in EVENTS if event.controller == controller]
            if not events:
                continue
            await cluster.kill()
            await cluster.start({controller})
            await cluster.settle(1.0)
            for event in events:
                if event.prepare is not None:
                    await event.prepare(cluster, n)
                await _rest(cluster)
                result[controller, event.title] = await _count(cluster, event)
    return result


async def _rest(cluster: Cluster) -> None:
    """Until all that `prepare` has done has come through the watches, and has been dealt with."""
    before = -1
    while before != (before := cluster.events()):
        await cluster.settle(1.0)
        await asyncio.sleep(0.01)  # watches have turns of their own


async def _count(cluster: Cluster, event: Event) -> tuple[int, int]:
    counter = Counter()
    version = cluster.server.context.store.version
    await event.happens(cluster)
    own = cluster.server.context.store.version - version
    with counter.on():
        await cluster.settle(event.seconds)
    return counter.work, cluster.server.context.store.version - version - own


def main() -> None:
    small, large = [int(text) for text in sys.argv[1:]] or (100, 1000)
    logging.getLogger("drakit").setLevel(logging.CRITICAL)
    first, second = (asyncio.run(measure(n)) for n in (small, large))
    print(f"{'controller':<42} {'event':<44} {small:>8} {large:>8}  ratio writes")
    for key, (work, _) in first.items():
        more, writes = second[key]
        print(f"{key[0]:<42} {key[1]:<44} {work:8} {more:8} {more / max(1, work):6.2f} {writes:6}", flush=True)


if __name__ == "__main__":
    main()
