"""ReplicaSets, Deployments, StatefulSets and DaemonSets as a user sees them."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from lightkube.models.apps_v1 import ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet
from lightkube.models.core_v1 import Event, Node, Pod

from drakit.client import Plain
from drakit.controllers.replicasets import deletion_order
from drakit.controllers.rollout import Deployment as Decisions
from drakit.controllers.rollout import proportional_sizes
from tests.controllers import objects as make
from tests.controllers.cluster import Cluster
from tests.controllers.kubelet import add_node, names, run_pods, run_until_quiet

REPLICA_SETS, DEPLOYMENTS = "replicaset-controller", "deployment-controller"
STATEFUL_SETS, DAEMON_SETS = "statefulset-controller", "daemonset-controller"


def test_replicaset_reports_what_it_has(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.workload("ReplicaSet", "rs", replicas=3))
        await run_until_quiet(cluster)
        status = (await cluster.get(ReplicaSet, "rs"))["status"]
        assert status == {
            "replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 3, "availableReplicas": 3, "terminatingReplicas": 0, "observedGeneration": 1,
        }  # fmt: skip
        reasons = Counter(event["reason"] for event in await cluster.list(Event))
        assert reasons == {"SuccessfulCreate": 3}

    play(story, REPLICA_SETS)


def test_replicaset_adopts_and_releases_by_labels(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.pod("mine-soon", labels={"app": "rs"}))
        await cluster.create(make.workload("ReplicaSet", "rs", replicas=2))
        await cluster.settle()
        pods = await cluster.list(Pod)
        assert len(pods) == 2
        assert all(pod["metadata"]["ownerReferences"][0]["name"] == "rs" for pod in pods)
        await cluster.patch(Pod, "mine-soon", {"metadata": {"labels": {"app": "other"}}})
        await cluster.settle()
        assert not (await cluster.get(Pod, "mine-soon"))["metadata"].get("ownerReferences")
        assert len(await names(cluster)) == 3

    play(story, REPLICA_SETS)


def test_replicaset_says_why_it_cannot_make_pods(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(
            {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}}
        )
        await cluster.create(make.workload("ReplicaSet", "rs", replicas=500))
        await cluster.settle()
        (condition,) = (await cluster.get(ReplicaSet, "rs"))["status"]["conditions"]
        assert (condition["type"], condition["reason"]) == ("ReplicaFailure", "FailedCreate")
        assert "exceeded quota: q" in condition["message"]
        assert cluster.controllers[0].loop.queue.failures("default/rs") > 0

    play(story, REPLICA_SETS)


def test_available_waits_for_min_ready_seconds(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.workload("ReplicaSet", "rs", replicas=1, minReadySeconds=20))
        await run_until_quiet(cluster, 3)
        assert not (await cluster.get(ReplicaSet, "rs"))["status"].get("availableReplicas")
        await cluster.settle(25)
        assert (await cluster.get(ReplicaSet, "rs"))["status"]["availableReplicas"] == 1

    play(story, REPLICA_SETS)


def test_work_per_pod_does_not_grow_with_the_set(play) -> None:
    """One more pod event costs one reconcile that reads counts from an index, however many pods there are."""

    async def story(cluster: Cluster) -> None:
        await cluster.create(make.workload("ReplicaSet", "rs", replicas=60))
        await run_until_quiet(cluster)
        loop = cluster.controllers[0].loop
        before, scans = loop.reconciles, []
        pods = cluster.controllers[0]._pods  # type: ignore[attr-defined]
        original = pods.by_index
        pods.by_index = lambda name, value: scans.append(value) or original(name, value)
        await cluster.patch(
            Pod,
            (await names(cluster))[0],
            {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
            subresource="status",
        )
        await cluster.settle()
        assert 1 <= loop.reconciles - before <= 3
        assert scans == []
        assert (await cluster.get(ReplicaSet, "rs"))["status"]["readyReplicas"] == 59

    play(story, REPLICA_SETS)


def pod_like(
    name: str,
    *,
    node: str = "",
    phase: str = "Pending",
    ready: str = "",
    cost: str = "",
    restarts: int = 0,
    created: str = "2026-01-01T00:00:00Z",
) -> Plain:
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": ready}] if ready else []
    annotations = {"controller.kubernetes.io/pod-deletion-cost": cost} if cost else {}
    statuses = [{"restartCount": restarts}] if restarts else []
    return {
        "metadata": {"name": name, "creationTimestamp": created, "annotations": annotations},
        "spec": {"nodeName": node},
        "status": {"phase": phase, "conditions": conditions, "containerStatuses": statuses},
    }


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param({}, {"node": "n"}, id="unassigned-first"),
        pytest.param({"node": "n"}, {"node": "n", "phase": "Running"}, id="pending-first"),
        pytest.param(
            {"node": "n", "phase": "Running"},
            {"node": "n", "phase": "Running", "ready": "2026-01-01T00:00:00Z"},
            id="not-ready-first",
        ),
        pytest.param({"cost": "-5"}, {"cost": "5"}, id="cheap-first"),
        pytest.param({"node": "crowded"}, {"node": "n"}, id="crowded-node-first"),
        pytest.param(
            {"node": "n", "phase": "Running", "ready": "2026-01-01T01:00:00Z"},
            {"node": "n", "phase": "Running", "ready": "2026-01-01T00:00:00Z"},
            id="ready-for-less-long-first",
        ),
        pytest.param({"restarts": 3}, {}, id="restarted-first"),
        pytest.param({"created": "2026-01-02T00:00:00Z"}, {}, id="younger-first"),
    ],
)
def test_which_pod_goes_first(first: dict, second: dict) -> None:
    pods = [pod_like("b", **second), pod_like("a", **first)]
    assert [pod["metadata"]["name"] for pod in deletion_order(pods, Counter({"crowded": 5}))] == ["a", "b"]


@pytest.mark.parametrize(
    ("owner", "goes"),
    [
        pytest.param("ReplicaSet", "lonely", id="on-its-own"),
        pytest.param("Deployment", "crowded", id="of-a-deployment"),
    ],
)
def test_crowded_nodes_matter_to_the_sets_of_a_deployment(play, owner: str, goes: str) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.workload(owner, "w", replicas=3))
        await cluster.settle()
        since = {}
        for number, pod in enumerate(await cluster.list(Pod)):
            name, node = pod["metadata"]["name"], "lonely" if number == 0 else "crowded"
            await cluster.client.bind(await cluster.client.get(Pod, name, namespace="default"), node)
            since[name] = "2025-12-31T23:59:59Z" if node == "lonely" else "2025-01-01T00:00:00Z"
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": since[name]}
            await cluster.patch(
                Pod, name, {"status": {"phase": "Running", "conditions": [ready]}}, subresource="status"
            )
        await cluster.settle()
        await cluster.patch(ReplicaSet if owner == "ReplicaSet" else Deployment, "w", {"spec": {"replicas": 2}})
        await cluster.settle()
        (gone,) = [pod for pod in await cluster.list(Pod) if pod["metadata"].get("deletionTimestamp")]
        assert gone["spec"]["nodeName"] == goes

    play(story, DEPLOYMENTS, REPLICA_SETS)


def test_pods_of_about_one_age_go_in_no_order_of_age() -> None:
    """Ages are compared by their order of magnitude, as Kubernetes does since LogarithmicScaleDown."""

    def ready(name: str, uid: str, since: str) -> Plain:
        entry = {"type": "Ready", "status": "True", "lastTransitionTime": since}
        return {
            "metadata": {"name": name, "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "n"},
            "status": {"phase": "Running", "conditions": [entry]},
        }

    now = datetime(2026, 1, 1, 1, tzinfo=UTC)
    old, older = ready("old", "1", "2026-01-01T00:10:00Z"), ready("older", "0", "2026-01-01T00:05:00Z")
    young = ready("young", "9", "2026-01-01T00:59:00Z")
    assert [pod["metadata"]["name"] for pod in deletion_order([older, old, young], Counter(), now)] == [
        "young",
        "older",
        "old",
    ]
    assert [pod["metadata"]["name"] for pod in deletion_order([older, old, young], Counter())] == [
        "young",
        "old",
        "older",
    ]


def test_pod_whose_sidecar_restarted_goes_first() -> None:
    def pod(name: str, restarts: int) -> Plain:
        return {
            "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "n", "initContainers": [{"name": "s", "restartPolicy": "Always"}]},
            "status": {"phase": "Running", "initContainerStatuses": [{"name": "s", "restartCount": restarts}]},
        }

    pods = [pod("a", 0), pod("b", 2)]
    assert [each["metadata"]["name"] for each in deletion_order(pods, Counter())] == ["b", "a"]


# Deployments.


def test_rolling_update_never_goes_below_its_limits(play) -> None:
    async def story(cluster: Cluster) -> None:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
        await cluster.create(make.workload("Deployment", "d", replicas=5, strategy=strategy))
        await run_until_quiet(cluster)
        await cluster.patch(Deployment, "d", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
        for _ in range(60):
            for _ in range(3):
                await cluster.settle()
            pods = await cluster.list(Pod)
            living = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
            ready = [pod for pod in living if pod["status"].get("phase") == "Running"]
            assert len(living) <= 6
            assert len(ready) >= 4
            for pod in living:  # one pod at a time becomes ready
                if pod["status"].get("phase") != "Running":
                    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
                    await cluster.patch(
                        Pod,
                        pod["metadata"]["name"],
                        {"status": {"phase": "Running", "conditions": [condition]}},
                        subresource="status",
                    )
                    break
            for pod in pods:
                if pod["metadata"].get("deletionTimestamp"):
                    await cluster.delete(Pod, pod["metadata"]["name"], grace_seconds=0)
        assert len(await names(cluster, "v=2")) == 5
        deployment = await cluster.get(Deployment, "d")
        assert deployment["status"]["updatedReplicas"] == 5
        conditions = {entry["type"]: entry["reason"] for entry in deployment["status"]["conditions"]}
        assert conditions == {"Available": "MinimumReplicasAvailable", "Progressing": "NewReplicaSetAvailable"}
        assert deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"

    play(story, DEPLOYMENTS, REPLICA_SETS)


def test_undo_brings_back_the_old_replicaset_under_a_new_revision(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.workload("Deployment", "d", replicas=2))
        await run_until_quiet(cluster)
        await cluster.patch(Deployment, "d", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
        await run_until_quiet(cluster)
        await cluster.patch(
            Deployment, "d", {"spec": {"template": {"metadata": {"labels": {"v": None}}}}}
        )  # what kubectl rollout undo does
        await run_until_quiet(cluster)
        sets = {rs["spec"]["replicas"]: rs["metadata"]["annotations"] for rs in await cluster.list(ReplicaSet)}
        assert sets[2]["deployment.kubernetes.io/revision"] == "3"
        assert sets[2]["deployment.kubernetes.io/revision-history"] == "1"
        assert sets[0]["deployment.kubernetes.io/revision"] == "2"

    play(story, DEPLOYMENTS, REPLICA_SETS)


def test_recreate_waits_until_the_old_pods_are_gone(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.workload("Deployment", "d", replicas=2, strategy={"type": "Recreate"}))
        await run_until_quiet(cluster)
        for name in await names(cluster):
            await cluster.patch(Pod, name, {"metadata": {"finalizers": ["example.com/hold"]}})
        await cluster.patch(Deployment, "d", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
        await cluster.settle(5)
        await run_pods(cluster)
        await cluster.settle(5)
        assert await names(cluster, "v=2") == []
        for name in await names(cluster):
            await cluster.patch(Pod, name, {"metadata": {"finalizers": None}})
        await run_until_quiet(cluster)
        assert len(await names(cluster, "v=2")) == 2

    play(story, DEPLOYMENTS, REPLICA_SETS)


def test_paused_deployment_scales_but_does_not_roll(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.workload("Deployment", "d", replicas=2))
        await run_until_quiet(cluster)
        await cluster.patch(
            Deployment, "d", {"spec": {"paused": True, "replicas": 3, "template": {"metadata": {"labels": {"v": "2"}}}}}
        )
        await run_until_quiet(cluster)
        assert len(await names(cluster)) == 3
        assert await names(cluster, "v=2") == []
        reasons = {
            entry["type"]: entry["reason"] for entry in (await cluster.get(Deployment, "d"))["status"]["conditions"]
        }
        assert reasons["Progressing"] == "DeploymentPaused"
        await cluster.patch(Deployment, "d", {"spec": {"paused": False}})
        await run_until_quiet(cluster)
        assert len(await names(cluster, "v=2")) == 3

    play(story, DEPLOYMENTS, REPLICA_SETS)


def test_deployment_that_does_not_progress_says_so(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.workload("Deployment", "d", replicas=1, progressDeadlineSeconds=30))
        await cluster.settle(40)
        condition = next(
            entry
            for entry in (await cluster.get(Deployment, "d"))["status"]["conditions"]
            if entry["type"] == "Progressing"
        )
        assert (condition["status"], condition["reason"]) == ("False", "ProgressDeadlineExceeded")
        assert condition["message"].endswith("has timed out progressing.")

    play(story, DEPLOYMENTS, REPLICA_SETS)


def test_history_is_limited(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.workload("Deployment", "d", replicas=1, revisionHistoryLimit=1))
        for number in range(4):
            await run_until_quiet(cluster)
            await cluster.patch(Deployment, "d", {"spec": {"template": {"metadata": {"labels": {"v": str(number)}}}}})
        await run_until_quiet(cluster)
        assert len(await cluster.list(ReplicaSet)) == 2

    play(story, DEPLOYMENTS, REPLICA_SETS)


def sets(*sizes: tuple[str, int], largest: int) -> list[Plain]:
    return [
        {
            "metadata": {
                "name": name,
                "creationTimestamp": f"2026-01-0{number + 1}T00:00:00Z",
                "annotations": {"deployment.kubernetes.io/max-replicas": str(largest)},
            },
            "spec": {"replicas": size},
        }
        for number, (name, size) in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("before", "wanted", "surge", "after"),
    [
        pytest.param([("old", 5), ("new", 5)], 20, 0, {"old": 10, "new": 10}, id="doubles-both"),
        pytest.param([("old", 7), ("new", 3)], 5, 0, {"old": 3, "new": 2}, id="rounding-falls-on-the-larger"),
        pytest.param([("old", 5), ("new", 5)], 0, 0, {"old": 0, "new": 0}, id="to-zero"),
    ],
)
def test_scaling_in_the_middle_of_a_rollout_is_shared(
    before: list[tuple[str, int]], wanted: int, surge: int, after: dict[str, int]
) -> None:
    total = sum(size for _, size in before)
    assert proportional_sizes(sets(*before, largest=total), wanted, wanted + surge if wanted else 0, surge, {}) == after


# StatefulSets.


def test_statefulset_goes_in_order(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.workload("StatefulSet", "s", replicas=3, serviceName="svc"))
        await cluster.settle()
        assert await names(cluster) == ["s-0"]
        await run_pods(cluster)
        await cluster.settle()
        assert await names(cluster) == ["s-0", "s-1"]
        await run_until_quiet(cluster)
        pod = await cluster.get(Pod, "s-2")
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("s-2", "svc")
        assert pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "s-2"
        assert pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "2"
        await cluster.patch(StatefulSet, "s", {"spec": {"replicas": 1}})
        await run_until_quiet(cluster)
        assert await names(cluster) == ["s-0"]
        events = sorted(await cluster.list(Event), key=lambda event: int(event["metadata"]["resourceVersion"]))
        told = [event["message"].split()[:3] for event in events if event["reason"].startswith("Successful")]
        assert told == [
            ["Create", "Pod", "s-0"],
            ["Create", "Pod", "s-1"],
            ["Create", "Pod", "s-2"],
            ["Delete", "Pod", "s-2"],
            ["Delete", "Pod", "s-1"],
        ]

    play(story, STATEFUL_SETS)


def test_parallel_statefulset_does_not_wait(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(
            make.workload("StatefulSet", "s", replicas=3, serviceName="svc", podManagementPolicy="Parallel")
        )
        await cluster.settle()
        assert await names(cluster) == ["s-0", "s-1", "s-2"]

    play(story, STATEFUL_SETS)


def test_statefulset_updates_from_the_last_and_stops_at_the_partition(play) -> None:
    async def story(cluster: Cluster) -> None:
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
        await cluster.create(make.workload("StatefulSet", "s", replicas=3, serviceName="svc", updateStrategy=rolling))
        await run_until_quiet(cluster)
        await cluster.patch(StatefulSet, "s", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
        await run_until_quiet(cluster)
        assert await names(cluster, "v=2") == ["s-1", "s-2"]
        status = (await cluster.get(StatefulSet, "s"))["status"]
        assert status["currentRevision"] != status["updateRevision"]
        assert (status["currentReplicas"], status["updatedReplicas"]) == (1, 2)
        await cluster.patch(StatefulSet, "s", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})
        await run_until_quiet(cluster)
        status = (await cluster.get(StatefulSet, "s"))["status"]
        assert status["currentRevision"] == status["updateRevision"]
        assert sorted(revision["revision"] for revision in await cluster.list(ControllerRevision)) == [1, 2]

    play(story, STATEFUL_SETS)


def test_failed_pod_of_a_statefulset_is_replaced_under_its_name(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.workload("StatefulSet", "s", replicas=1, serviceName="svc"))
        await cluster.settle()
        first = await cluster.get(Pod, "s-0")
        await cluster.patch(Pod, "s-0", {"status": {"phase": "Failed"}}, subresource="status")
        await run_until_quiet(cluster)
        second = await cluster.get(Pod, "s-0")
        assert second["metadata"]["uid"] != first["metadata"]["uid"]

    play(story, STATEFUL_SETS)


# DaemonSets.


def test_daemonset_runs_on_every_fitting_node(play) -> None:
    async def story(cluster: Cluster) -> None:
        await add_node(cluster, "n1")
        await add_node(cluster, "n2", gpu="yes")
        body = make.workload("DaemonSet", "ds")
        body["spec"]["template"]["spec"]["nodeSelector"] = {"gpu": "yes"}
        await cluster.create(body)
        await run_until_quiet(cluster)
        (pod,) = await cluster.list(Pod)
        affinity = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert affinity == {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}]
        }
        status = (await cluster.get(DaemonSet, "ds"))["status"]
        assert (status["desiredNumberScheduled"], status["numberReady"], status["numberAvailable"]) == (1, 1, 1)
        await cluster.patch(Node, "n1", {"metadata": {"labels": {"gpu": "yes"}}})
        await run_until_quiet(cluster)
        assert len(await names(cluster)) == 2

    play(story, DAEMON_SETS)


def test_daemonset_update_replaces_one_node_at_a_time(play) -> None:
    async def story(cluster: Cluster) -> None:
        for name in ("n1", "n2", "n3"):
            await add_node(cluster, name)
        await cluster.create(make.workload("DaemonSet", "ds"))
        await run_until_quiet(cluster)
        await cluster.patch(DaemonSet, "ds", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
        await cluster.settle()
        running = [
            pod
            for pod in await cluster.list(Pod)
            if pod["status"]["phase"] == "Running" and not pod["metadata"].get("deletionTimestamp")
        ]
        assert len(running) == 2
        await run_until_quiet(cluster)
        assert len(await names(cluster, "v=2")) == 3
        assert (await cluster.get(DaemonSet, "ds"))["status"]["updatedNumberScheduled"] == 3

    play(story, DAEMON_SETS)


def test_daemon_leaves_a_node_that_it_does_not_tolerate(play) -> None:
    async def story(cluster: Cluster) -> None:
        await add_node(cluster, "n1")
        await cluster.create(make.workload("DaemonSet", "ds"))
        await run_until_quiet(cluster)
        await cluster.patch(Node, "n1", {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}})
        await run_until_quiet(cluster)
        assert len(await names(cluster)) == 1  # what is there stays
        assert (await cluster.get(DaemonSet, "ds"))["status"]["numberMisscheduled"] == 1
        await cluster.patch(Node, "n1", {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}})
        await run_until_quiet(cluster)
        assert await names(cluster) == []

    play(story, DAEMON_SETS)


# As a real cluster answered.


def test_annotations_of_a_deployment_make_a_generation_but_its_revision_does_not(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.workload("Deployment", "d", replicas=1))
        await run_until_quiet(cluster)
        first = await cluster.get(Deployment, "d")
        assert first["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
        assert first["metadata"]["generation"] == 1
        await cluster.patch(Deployment, "d", {"metadata": {"annotations": {"kubernetes.io/change-cause": "because"}}})
        await run_until_quiet(cluster)
        second = await cluster.get(Deployment, "d")
        assert (second["metadata"]["generation"], second["status"]["observedGeneration"]) == (2, 2)
        (replica_set,) = await cluster.list(ReplicaSet)
        assert replica_set["metadata"]["annotations"]["kubernetes.io/change-cause"] == "because"

    play(story, DEPLOYMENTS, REPLICA_SETS)


def test_pods_that_a_set_has_just_lost_do_not_count_as_available() -> None:
    """Scaled from 15 to 6 in the middle of a rollout: the old set shall have 5, but its status still tells of 8."""
    update = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
    template: Plain = {"metadata": {"labels": {"v": "2"}}, "spec": {}}
    deployment: Plain = {
        "metadata": {"name": "d"},
        "spec": {"replicas": 6, "strategy": update, "template": template},
    }
    old: Plain = {
        "metadata": {"name": "old", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"replicas": 5, "template": {"metadata": {"labels": {"v": "1"}}, "spec": {}}},
        "status": {"replicas": 11, "availableReplicas": 8},
    }
    new: Plain = {
        "metadata": {"name": "new", "creationTimestamp": "2026-01-01T00:01:00Z"},
        "spec": {"replicas": 4, "template": template},
        "status": {"replicas": 7},
    }
    assert Decisions(deployment, [old, new]).sizes_rolling() == [{"old": 4}]


@pytest.mark.parametrize(
    ("kind", "controller", "label"),
    [
        pytest.param("StatefulSet", STATEFUL_SETS, "controller.kubernetes.io/hash", id="statefulset"),
        pytest.param("DaemonSet", DAEMON_SETS, "controller-revision-hash", id="daemonset"),
    ],
)
def test_revision_has_the_labels_and_annotations_that_kubectl_reads(
    play, kind: str, controller: str, label: str
) -> None:
    async def story(cluster: Cluster) -> None:
        owner = make.workload(kind, "w", **({"serviceName": "svc"} if kind == "StatefulSet" else {}))
        owner["metadata"]["annotations"] = {"kubernetes.io/change-cause": "because"}
        await cluster.create(owner)
        await cluster.settle()
        (revision,) = await cluster.list(ControllerRevision)
        metadata = revision["metadata"]
        assert metadata["annotations"]["kubernetes.io/change-cause"] == "because"
        assert metadata["labels"] == {"app": "w", label: metadata["name"].removeprefix("w-")}

    play(story, controller)


def test_revisions_left_behind_are_taken_over(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.workload("StatefulSet", "s", replicas=1, serviceName="svc"))
        await run_until_quiet(cluster)
        await cluster.delete(StatefulSet, "s", propagation="Orphan")
        await cluster.settle()
        (left,) = await cluster.list(ControllerRevision)
        assert not left["metadata"].get("ownerReferences")
        again = await cluster.create(make.workload("StatefulSet", "s", replicas=1, serviceName="svc"))
        await run_until_quiet(cluster)
        (revision,) = await cluster.list(ControllerRevision)
        assert [owner["uid"] for owner in revision["metadata"]["ownerReferences"]] == [again["metadata"]["uid"]]
        assert revision["metadata"]["uid"] == left["metadata"]["uid"]

    play(story, STATEFUL_SETS, "garbage-collector-controller")


def test_old_pods_that_do_not_work_go_first_and_are_told_apart(play) -> None:
    async def story(cluster: Cluster) -> None:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 2}}
        await cluster.create(make.workload("Deployment", "d", replicas=3, strategy=strategy))
        await run_until_quiet(cluster)
        broken = (await names(cluster))[0]
        entry = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        await cluster.patch(Pod, broken, {"status": {"conditions": [entry]}}, subresource="status")
        await cluster.settle(1)
        await cluster.patch(Deployment, "d", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
        await cluster.settle(1)
        told = [event["message"] for event in await cluster.list(Event) if event["reason"] == "ScalingReplicaSet"]
        old = next(text.split()[4] for text in told if text.endswith("from 0 to 3"))
        assert f"Scaled down replica set {old} from 3 to 2" in told
        assert f"Scaled down replica set {old} from 2 to 1" in told

    play(story, DEPLOYMENTS, REPLICA_SETS)


def test_pausing_leaves_the_limits_of_a_set_that_keeps_its_size(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.workload("Deployment", "d", replicas=2))
        await run_until_quiet(cluster)
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 2}}
        await cluster.patch(Deployment, "d", {"spec": {"paused": True, "strategy": strategy}})
        await cluster.settle(1)
        (replica_set,) = await cluster.list(ReplicaSet)
        assert replica_set["metadata"]["annotations"]["deployment.kubernetes.io/max-replicas"] == "3"
        await cluster.patch(Deployment, "d", {"spec": {"replicas": 4}})
        await cluster.settle(1)
        (replica_set,) = await cluster.list(ReplicaSet)
        assert replica_set["metadata"]["annotations"]["deployment.kubernetes.io/max-replicas"] == "6"

    play(story, DEPLOYMENTS, REPLICA_SETS)


def test_going_back_to_another_set_all_at_once_is_progress() -> None:
    """The old set has gone and the new one has come between two looks: the counts are the same, but nothing is available."""
    done = {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable",
            "message": 'ReplicaSet "old" has successfully progressed.', "lastUpdateTime": "2026-01-01T00:00:00Z",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
    template: Plain = {"metadata": {"labels": {"v": "2"}}, "spec": {}}
    update = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    deployment: Plain = {
        "metadata": {"name": "d", "generation": 2},
        "spec": {"replicas": 1, "strategy": update, "template": template, "progressDeadlineSeconds": 600},
        "status": {
            "replicas": 1,
            "updatedReplicas": 1,
            "availableReplicas": 1,
            "readyReplicas": 1,
            "conditions": [done],
        },
    }
    sizes = (("old", "1", 0), ("new", "2", 1))
    both = [
        {
            "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"replicas": size, "template": {"metadata": {"labels": {"v": label}}, "spec": {}}},
            "status": {"replicas": size},
        }
        for name, label, size in sizes
    ]
    status = Decisions(deployment, both).next_status(datetime(2026, 1, 1, 1, tzinfo=UTC), rollout=True)
    progress = next(entry for entry in status["conditions"] if entry["type"] == "Progressing")
    assert (progress["reason"], progress["message"]) == ("ReplicaSetUpdated", 'ReplicaSet "new" is progressing.')
    assert progress["lastUpdateTime"] == "2026-01-01T01:00:00Z"


def test_pod_of_a_node_whose_clock_is_far_ahead_is_not_available_yet(play) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.workload("ReplicaSet", "rs", replicas=40, minReadySeconds=5))
        await cluster.settle(1)
        since = (cluster.clock.now() + timedelta(seconds=60)).strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}]}
        for pod in await names(cluster):
            await cluster.patch(Pod, pod, {"status": ready}, subresource="status")
        await cluster.settle(20)
        status = (await cluster.get(ReplicaSet, "rs"))["status"]
        assert (status["readyReplicas"], status.get("availableReplicas", 0)) == (40, 0)

    play(story, REPLICA_SETS)


@pytest.mark.parametrize(
    "replicas", [pytest.param(4, id="fewer-than-seconds"), pytest.param(40, id="more-than-seconds")]
)
def test_ready_pods_become_available_one_by_one_as_they_ripen(play, replicas: int) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(make.workload("ReplicaSet", "rs", replicas=replicas, minReadySeconds=5))
        await cluster.settle(1)
        ages = dict(zip(await names(cluster), (0, 2, 7, -3), strict=False))  # one node's clock is ahead
        began = cluster.clock.now().replace(microsecond=0)
        for pod, age in ages.items():
            since = (began - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%SZ")
            ready = {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}]}
            await cluster.patch(Pod, pod, {"status": ready}, subresource="status")
        available = []
        for _ in range(11):
            await cluster.settle(1)
            status = (await cluster.get(ReplicaSet, "rs"))["status"]
            assert status["readyReplicas"] == 4
            passed = (cluster.clock.now() - began).total_seconds()
            expected = sum(1 for age in ages.values() if age + passed >= 5 + 0.1)
            available.append(status.get("availableReplicas", 0))
            assert available[-1] >= expected
        assert available[0] == 1
        assert available == sorted(available)
        assert available[-1] == 4
        assert {1, 2, 3, 4} == {*available}

    play(story, REPLICA_SETS)
