"""Stories for the convergence test: for each controller a sequence of user actions and the world around it.

A story must have one end, whatever the interleaving: the world's own decisions depend only on what has been recorded in the objects.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from lightkube.models.apps_v1 import DaemonSet, Deployment, ReplicaSet, StatefulSet
from lightkube.models.batch_v1 import Job
from lightkube.models.coordination_v1 import Lease
from lightkube.models.core_v1 import ConfigMap, Namespace, Node, Pod, ResourceQuota, ServiceAccount
from lightkube.models.policy_v1 import PodDisruptionBudget
from lightkube.models.resource_v1 import ResourceClaim, ResourceSlice
from lightkube.models.resource_v1alpha3 import ResourcePoolStatusRequest
from lightkube.models.scheduling_v1beta1 import PodGroup, Workload

from drakit.api.errors import StatusError
from drakit.client import Plain
from tests.controllers import objects as make
from tests.controllers.cluster import Cluster
from tests.controllers.kubelet import allocate, bind, run_pods

Action = Callable[[Cluster], Awaitable[Any]]
NAMESPACES = "namespace-controller"


async def _nothing(cluster: Cluster) -> bool:
    return False


@dataclass(frozen=True)
class Story:
    controllers: tuple[str, ...]
    actions: tuple[Action, ...]
    kinds: tuple[type[Any], ...]
    world: Callable[[Cluster], Awaitable[bool]] = _nothing  # one step; True while there was something to do
    patience: float = 15.0  # virtual seconds between actions and at the end
    gates: str = ""
    pulse: Callable[[Cluster], Awaitable[Any]] = _nothing  # every ten virtual seconds: what never stops


def create(body: Plain) -> Action:
    async def action(cluster: Cluster) -> None:
        await cluster.create(_copy(body))

    return action


def patch(model: type[Any], name: str, body: Plain, subresource: str = "") -> Action:
    async def action(cluster: Cluster) -> None:
        await cluster.patch(model, name, body, subresource=subresource)

    return action


def delete(model: type[Any], name: str, **options: Any) -> Action:
    async def action(cluster: Cluster) -> None:
        try:
            await cluster.delete(model, name, **options)
        except StatusError as error:
            if error.code != 404:
                raise

    return action


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


# Claims.


async def _claims_world(cluster: Cluster) -> bool:
    """Allocates generated claims for their pod and binds it, as a scheduler would; pods named done-* then succeed."""
    changed = False
    for pod in await cluster.list(Pod):
        recorded = (pod.get("status") or {}).get("resourceClaimStatuses") or []
        name = pod["metadata"]["name"]
        wanted = len(pod["spec"].get("resourceClaims") or ())
        if pod["metadata"].get("deletionTimestamp"):
            continue
        if not pod["spec"].get("nodeName") and recorded and len(recorded) == wanted:
            try:
                for number, entry in enumerate(recorded):
                    await allocate(cluster, entry["resourceClaimName"], name, device=f"{name}-{number}")
                await bind(cluster, name, "node-1")
                changed = True
            except StatusError as error:
                if error.code not in (404, 409, 422):
                    raise
        elif pod["spec"].get("nodeName") and name.startswith("done") and pod["status"]["phase"] == "Pending":
            await cluster.patch(Pod, name, {"status": {"phase": "Succeeded"}}, subresource="status")
            changed = True
    return changed


async def _stale_reservation(cluster: Cluster) -> None:
    gone = [{"resource": "pods", "name": "nobody", "uid": "11111111-1111-1111-1111-111111111111"}]
    await allocate(cluster, "mine")
    await cluster.patch(ResourceClaim, "mine", {"status": {"reservedFor": gone}}, subresource="status")


CLAIMS = Story(
    ("resourceclaim-controller", "garbage-collector-controller"),
    (
        create(make.claim_template("t", labels={"team": "a"}, annotations={"note": "b"})),
        create(make.pod("a", template_claims={"gpu": "t", "nic": "t"})),
        create(make.pod("done-b", template_claims={"gpu": "t"})),
        create(make.claim("mine")),
        _stale_reservation,
        create(make.pod("late", template_claims={"gpu": "other"})),
        delete(Pod, "a", grace_seconds=0),
        create(make.claim_template("other")),
        create(make.pod("c", template_claims={"gpu": "t"}, schedulingGates=[{"name": "x"}])),
        delete(Pod, "c"),
    ),
    (Pod, ResourceClaim),
    _claims_world,
    patience=40.0,
)


def _group(name: str) -> Plain:
    return make.pod_group(name, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}])


def _member(name: str, group: str, *more: str) -> Plain:
    entries = dict.fromkeys(("gpu", *more), "t")
    return make.pod(name, template_claims=entries, schedulingGroup={"podGroupName": group})


POD_GROUPS = Story(
    ("resourceclaim-controller", "garbage-collector-controller", "podgroup-protection-controller"),
    (
        create(make.claim_template("t")),
        create(_group("g")),
        create(_member("a", "g")),
        create(_member("b", "g", "nic")),
        create(_member("early", "late")),
        create(_group("going")),
        create(_member("c", "going")),
        create(_group("late")),
        create(make.pod_group("stays")),  # without claims: whether they were made before it is deleted would be chance
        create(make.pod("d", schedulingGroup={"podGroupName": "stays"})),
        delete(PodGroup, "stays"),
        delete(PodGroup, "going"),
        delete(Pod, "c", grace_seconds=0),
        delete(Pod, "b", grace_seconds=0),
    ),
    (Pod, PodGroup, ResourceClaim),
    patience=40.0,
    gates="GenericWorkload=true,DRAWorkloadResourceClaims=true",
)

# Workloads.

REPLICA_SETS = Story(
    ("replicaset-controller",),
    (
        create(make.workload("ReplicaSet", "rs", replicas=5)),
        patch(ReplicaSet, "rs", {"spec": {"replicas": 9}}),
        create(make.pod("orphan", labels={"app": "rs"})),
        patch(ReplicaSet, "rs", {"spec": {"replicas": 2}}),
        create(make.workload("ReplicaSet", "other", replicas=3)),
        patch(ReplicaSet, "other", {"spec": {"replicas": 0}}),
        patch(ReplicaSet, "rs", {"spec": {"replicas": 4}}),
        delete(Pod, "orphan", grace_seconds=0),
    ),
    (Pod, ReplicaSet),
    run_pods,
)

DEPLOYMENTS = Story(
    ("deployment-controller", "replicaset-controller"),
    (
        create(make.workload("Deployment", "d", replicas=4)),
        patch(Deployment, "d", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}}),
        patch(Deployment, "d", {"spec": {"replicas": 6}}),
        patch(Deployment, "d", {"spec": {"template": {"metadata": {"labels": {"v": "3"}}}}}),
        create(make.workload("Deployment", "r", replicas=2, strategy={"type": "Recreate"})),
        patch(Deployment, "r", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}}),
        patch(Deployment, "d", {"spec": {"replicas": 3}}),
    ),
    (Pod, ReplicaSet, Deployment),
    run_pods,
    patience=30.0,
)


async def _job_world(cluster: Cluster) -> bool:
    """Two pods of the Job `flaky` fail, everything else succeeds."""
    pods = await cluster.list(Pod, labels="batch.kubernetes.io/job-name=flaky")
    status = next((job["status"] for job in await cluster.list(Job) if job["metadata"]["name"] == "flaky"), {})
    counted = status.get("failed", 0) + len((status.get("uncountedTerminatedPods") or {}).get("failed") or ())
    failures = max(counted, sum(1 for pod in pods if pod["status"].get("phase") == "Failed"))
    if failures < 2:
        for pod in pods:
            if pod["status"].get("phase") == "Pending" and not pod["metadata"].get("deletionTimestamp"):
                await cluster.patch(Pod, pod["metadata"]["name"], {"status": {"phase": "Failed"}}, subresource="status")
                return True

    def outcome(pod: Plain) -> str:
        return "Succeeded" if failures >= 2 or pod["metadata"]["labels"].get("job-name") != "flaky" else ""

    return await run_pods(cluster, outcome)


JOBS = Story(
    ("job-controller",),
    (
        create(make.job("plain", completions=5, parallelism=2)),
        create(make.job("indexed", completions=6, parallelism=3, completionMode="Indexed")),
        create(make.job("flaky", completions=3, parallelism=1, backoffLimit=4)),
        create(make.job("suspended", completions=2, parallelism=2, suspend=True)),
        patch(Job, "suspended", {"spec": {"suspend": False}}),
    ),
    (Pod, Job),
    _job_world,
    patience=60.0,
)

_GANG: Plain = {"schedulingPolicy": {"gang": {}}}
_PARENT: Plain = {"apiGroup": "jobset.x-k8s.io", "kind": "JobSet", "name": "js"}


def _workers(count: int) -> list[Plain]:
    return [{"name": "workers", "schedulingPolicy": {"gang": {"minCount": count}}}]


def _child(name: str) -> Plain:
    """A Job whose parent keeps the Workload and leaves the group to it."""
    body = make.job(name, completions=3, parallelism=3)
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "js", "controller": True}
    body["metadata"].update(
        annotations={"scheduling.k8s.io/group-template-name": "workers"},
        ownerReferences=[{**owner, "uid": "11111111-1111-1111-1111-111111111111"}],
    )
    return body


async def _job_groups_world(cluster: Cluster) -> bool:
    """Pods of Jobs that grow or shrink go on and on, the others succeed."""

    def outcome(pod: Plain) -> str:
        return "Running" if pod["metadata"]["labels"]["job-name"] in ("elastic", "child") else "Succeeded"

    return await run_pods(cluster, outcome)


JOB_GROUPS = Story(
    ("job-controller",),
    (
        create(
            {
                "apiVersion": "scheduling.k8s.io/v1beta1",
                "kind": "Workload",
                "metadata": {"name": "parent"},
                "spec": {"controllerRef": _PARENT, "podGroupTemplates": _workers(3)},
            }
        ),
        create(make.job("gang", completions=3, parallelism=3, scheduling=_GANG)),
        create(make.job("single", completions=2)),
        create(_child("child")),
        create(make.job("elastic", completions=4, parallelism=4, completionMode="Indexed", scheduling=_GANG)),
        create(make.job("suspended", completions=2, parallelism=2, suspend=True, scheduling=_GANG)),
        patch(Job, "elastic", {"spec": {"completions": 2, "parallelism": 2}}),
        patch(Workload, "parent", {"spec": {"podGroupTemplates": _workers(2)}}),
        patch(Job, "suspended", {"spec": {"suspend": False}}),
        patch(Job, "elastic", {"spec": {"completions": 3, "parallelism": 3}}),
    ),
    (Pod, Job, PodGroup, Workload),
    _job_groups_world,
    patience=60.0,
    gates="GenericWorkload=true,WorkloadWithJob=true",
)

STATEFUL_SETS = Story(
    ("statefulset-controller",),
    (
        create(make.workload("StatefulSet", "s", replicas=3, serviceName="s")),
        patch(StatefulSet, "s", {"spec": {"replicas": 5}}),
        patch(StatefulSet, "s", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}}),
        patch(StatefulSet, "s", {"spec": {"replicas": 2}}),
        create(make.workload("StatefulSet", "p", replicas=3, serviceName="p", podManagementPolicy="Parallel")),
        patch(StatefulSet, "p", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}}),
        create(make.workload("StatefulSet", "r", replicas=3, updateStrategy={"type": "Recreate"})),
        patch(StatefulSet, "r", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}}),
    ),
    (Pod, StatefulSet),
    run_pods,
    patience=40.0,
    gates="StatefulSetRecreateStrategy=true",
)

DAEMON_SETS = Story(
    ("daemonset-controller",),
    (
        create(make.node("n1")),
        patch(Node, "n1", {"spec": {"taints": None}}),
        create(make.node("n2", labels={"gpu": "yes"})),
        patch(Node, "n2", {"spec": {"taints": None}}),
        create(make.workload("DaemonSet", "all")),
        create(
            {
                **make.workload("DaemonSet", "gpus"),
                "spec": {
                    **make.workload("DaemonSet", "gpus")["spec"],
                    "template": make.template("gpus", nodeSelector={"gpu": "yes"}),
                },
            }
        ),
        create(make.node("n3", labels={"gpu": "yes"})),
        patch(Node, "n3", {"spec": {"taints": None}}),
        patch(DaemonSet, "all", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}}),
        patch(Node, "n2", {"metadata": {"labels": {"gpu": "no"}}}),
        patch(Node, "n1", {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}),
    ),
    (Pod, DaemonSet),
    run_pods,
    patience=30.0,
)

# Owners.


def _owned(body: Plain, owner_kind: str, owner: str, *, block: bool = True) -> Action:
    async def action(cluster: Cluster) -> None:
        model = {"ConfigMap": ConfigMap, "Pod": Pod}[owner_kind]
        found = await cluster.get(model, owner)
        reference = {
            "apiVersion": "v1",
            "kind": owner_kind,
            "name": owner,
            "uid": found["metadata"]["uid"],
            "blockOwnerDeletion": block,
        }
        copied = _copy(body)
        copied["metadata"]["ownerReferences"] = [reference]
        await cluster.create(copied)

    return action


def _config(name: str) -> Plain:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


GARBAGE = Story(
    ("garbage-collector-controller",),
    (
        *(create(_config(name)) for name in ("background", "foreground", "orphan", "kept")),
        *(
            _owned(_config(f"{owner}-{number}"), "ConfigMap", owner)
            for owner in ("background", "foreground", "orphan", "kept")
            for number in range(3)
        ),
        _owned(_config("grandchild"), "ConfigMap", "foreground-0"),
        delete(ConfigMap, "background", propagation="Background"),
        delete(ConfigMap, "foreground", propagation="Foreground"),
        delete(ConfigMap, "orphan", propagation="Orphan"),
    ),
    (ConfigMap,),
)

NAMESPACE_DELETION = Story(
    (NAMESPACES, "serviceaccount-controller"),
    (
        create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "going"}}),
        create({**_config("c"), "metadata": {"name": "c", "namespace": "going"}}),
        create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "staying"}}),
        create({**_config("d"), "metadata": {"name": "d", "namespace": "staying"}}),
        delete(Namespace, "going"),
        delete(ServiceAccount, "default", namespace="staying"),
    ),
    (Namespace, ConfigMap, ServiceAccount),
    patience=30.0,
)


def _tamper(change: Plain) -> Action:
    """Someone writes into the map, if it is there already."""

    async def action(cluster: Cluster) -> None:
        try:
            await cluster.patch(ConfigMap, "kube-root-ca.crt", change)
        except StatusError as error:
            if error.code != 404:
                raise

    return action


ROOT_CERTIFICATES = Story(
    ("root-ca-certificate-publisher-controller", NAMESPACES),
    (
        create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}),
        create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "b"}}),
        delete(ConfigMap, "kube-root-ca.crt", namespace="a"),
        create({**_config("mine"), "metadata": {"name": "mine", "namespace": "a"}}),
        _tamper({"data": {"ca.crt": "forged"}}),
        _tamper({"metadata": {"annotations": None}}),
        create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "c"}}),
        delete(Namespace, "b"),
        delete(ConfigMap, "kube-root-ca.crt", namespace="c"),
        _tamper({"data": {"more": "than there should be"}}),
    ),
    (Namespace, ConfigMap),
    patience=30.0,
)

# Nodes.

POD_GARBAGE = Story(
    ("pod-garbage-collector-controller",),
    (
        create(make.node("n1")),
        create(make.node("n2")),
        create(make.pod("a", nodeName="n1")),
        create(make.pod("b", nodeName="n2")),
        create(make.pod("c", nodeName="never")),
        delete(Node, "n1"),
    ),
    (Pod, Node),
    patience=60.0,
)


async def _n2_reports(cluster: Cluster) -> None:
    """Its kubelet lives on; n1's does not."""
    moment = cluster.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    try:
        await cluster.patch(Lease, "n2", {"spec": {"renewTime": moment}}, namespace="kube-node-lease")
    except StatusError:
        await cluster.create(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": "n2", "namespace": "kube-node-lease"},
                "spec": {"renewTime": moment},
            }
        )


NODES = Story(
    ("node-lifecycle-controller", "taint-eviction-controller"),
    (
        create(make.node("n1")),
        create(make.node("n2")),
        create(make.pod("stays", nodeName="n1", tolerations=[{"operator": "Exists"}])),
        create(
            make.pod(
                "leaves",
                nodeName="n1",
                tolerations=[
                    {
                        "key": "node.kubernetes.io/unreachable",
                        "operator": "Exists",
                        "effect": "NoExecute",
                        "tolerationSeconds": 5,
                    }
                ],
            )
        ),
        patch(Node, "n2", {"spec": {"unschedulable": True}}),
    ),
    (Pod, Node),
    run_pods,
    patience=100.0,
    pulse=_n2_reports,
)

SLICES = Story(
    ("resourceslice-cleaner-controller",),
    (
        create(make.node("n1")),
        create(make.slice_("a", "n1")),
        create(make.slice_("b", "n2")),
        create(make.slice_("early", "n3")),
        create(make.node("n3")),
        delete(Node, "n1"),
    ),
    (ResourceSlice, Node),
    patience=400.0,
)

TTL = Story(
    ("ttl-after-finished-controller", "job-controller", "garbage-collector-controller"),
    (
        create(make.job("short", ttlSecondsAfterFinished=5)),
        create(make.job("long", ttlSecondsAfterFinished=10_000)),
        create(make.job("never")),
    ),
    (Job, Pod),
    lambda cluster: run_pods(cluster, lambda pod: "Succeeded"),
    patience=60.0,
)

# Devices.


async def _two_pods_on_devices(cluster: Cluster) -> None:
    for number, tolerations in (
        (0, None),
        (1, [{"operator": "Exists", "effect": "NoExecute"}]),
        (2, [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 20}]),
    ):
        await cluster.create(make.claim(f"claim-{number}"))
        await cluster.create(make.pod(f"pod-{number}", claims={"gpu": f"claim-{number}"}))
        await allocate(cluster, f"claim-{number}", f"pod-{number}", device=f"dev-{number}", tolerations=tolerations)
        await bind(cluster, f"pod-{number}", "node-1")


DEVICE_TAINTS = Story(
    ("device-taint-eviction-controller", "resourceclaim-controller"),
    (
        create(make.node("node-1")),
        create(make.slice_("s", "node-1", 3)),
        _two_pods_on_devices,
        create(make.rule("dry", "None", driver="gpu.example.com")),
        create(make.rule("bad", "NoExecute", driver="gpu.example.com")),
        create(make.rule("other", "NoExecute", driver="else.example.com")),
    ),
    (Pod, ResourceClaim),
    patience=60.0,
)

POOL_STATUS = Story(
    ("resourcepoolstatusrequest-controller",),
    (
        create(make.slice_("s", "node-1", 3)),
        create(make.slice_("t", "node-2", [{"name": "x", "taints": [{"key": "k", "effect": "NoSchedule"}]}])),
        _two_pods_on_devices,
        create(make.rule("bad", "NoSchedule", pool="node-1", device="dev-2")),
        create(
            {
                "apiVersion": "resource.k8s.io/v1alpha3",
                "kind": "ResourcePoolStatusRequest",
                "metadata": {"name": "q"},
                "spec": {"driver": "gpu.example.com"},
            }
        ),
    ),
    (ResourcePoolStatusRequest,),
    gates="DRAResourcePoolStatus=true",
)

# Limits.

QUOTAS = Story(
    ("resourcequota-controller",),
    (
        create(
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": "q"},
                "spec": {"hard": {"pods": "10", "count/resourceclaims.resource.k8s.io": "5", "requests.cpu": "4"}},
            }
        ),
        create(
            {
                **make.pod("a"),
                "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}]},
            }
        ),
        create(
            {
                **make.pod("b"),
                "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
            }
        ),
        create(make.claim("c")),
        delete(Pod, "a", grace_seconds=0),
        create(make.claim("d")),
    ),
    (ResourceQuota,),
)

DISRUPTION = Story(
    ("disruption-controller", "replicaset-controller"),
    (
        create(make.workload("ReplicaSet", "rs", replicas=4)),
        create(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "b"},
                "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "rs"}}},
            }
        ),
        create(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "c"},
                "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "rs"}}},
            }
        ),
        patch(ReplicaSet, "rs", {"spec": {"replicas": 6}}),
    ),
    (PodDisruptionBudget,),
    run_pods,
)

STORIES: dict[str, Story] = {
    "claims": CLAIMS,
    "pod-groups": POD_GROUPS,
    "replicasets": REPLICA_SETS,
    "deployments": DEPLOYMENTS,
    "jobs": JOBS,
    "job-groups": JOB_GROUPS,
    "statefulsets": STATEFUL_SETS,
    "daemonsets": DAEMON_SETS,
    "garbage": GARBAGE,
    "namespaces": NAMESPACE_DELETION,
    "root-certificates": ROOT_CERTIFICATES,
    "podgc": POD_GARBAGE,
    "nodes": NODES,
    "slices": SLICES,
    "ttl": TTL,
    "device-taints": DEVICE_TAINTS,
    "pool-status": POOL_STATUS,
    "quotas": QUOTAS,
    "disruption": DISRUPTION,
}
