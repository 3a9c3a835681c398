"""Every component of a whole cluster works under its own identity: none is denied anything, none is an administrator."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from lightkube.models.apps_v1 import Deployment
from lightkube.models.batch_v1 import Job
from lightkube.models.core_v1 import Namespace, Node, Pod
from lightkube.models.resource_v1 import ResourceClaim

from drakit.api.errors import StatusError
from drakit.cli.cluster import Cluster, Options
from drakit.client import Client

pytestmark = pytest.mark.slow
SECONDS = 60.0


def template(name: str) -> dict[str, Any]:
    exactly = {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}},
    }


def pod_template(**spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    return {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container], "resourceClaims": claims, **spec}}


def workload(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    group = "batch/v1" if kind == "Job" else "apps/v1"
    return {"apiVersion": group, "kind": kind, "metadata": {"name": name, "namespace": "team"}, "spec": spec}


async def until(what: str, test: Any) -> None:
    async with asyncio.timeout(SECONDS):
        while not await test():  # noqa: ASYNC110  # what a user does: look again
            await asyncio.sleep(0.05)


async def life(admin: Client, device_class: str) -> None:
    """Workloads with claims come, run, end, are evicted and deleted, and the namespace with them."""
    await admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    claim = template("one")
    claim["spec"]["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = device_class
    await admin.create(claim)
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "team"}}
    await admin.create({**quota, "spec": {"hard": {"pods": "20"}}})
    selector = {"matchLabels": {"app": "x"}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "team"}}
    await admin.create({**budget, "spec": {"minAvailable": 1, "selector": selector}})
    await admin.create(workload("Deployment", "d", replicas=2, selector=selector, template=pod_template()))
    never = pod_template(restartPolicy="Never")
    await admin.create(workload("Job", "j", template=never, ttlSecondsAfterFinished=0))

    async def running() -> bool:
        pods = (await admin.list(Pod, namespace="team", labels="app=x")).items
        return sum(pod.status is not None and pod.status.phase == "Running" for pod in pods) >= 2

    async def job_gone() -> bool:
        try:
            await admin.get(Job, "j", namespace="team")
        except StatusError as error:
            return error.code == 404
        return False

    async def no(model: Any) -> bool:
        return not (await admin.list(model, namespace="team")).items

    await until("running pods", running)
    await until("the job is done and gone", job_gone)
    nodes = (await admin.list(Node)).items
    name = nodes[0].metadata.name if nodes[0].metadata else ""
    taint = {"key": "gone", "effect": "NoExecute"}
    await admin.patch(Node, name or "", {"spec": {"taints": [taint]}})
    await admin.patch(Deployment, "d", {"spec": {"replicas": 0}}, namespace="team")

    async def empty() -> bool:
        return await no(Pod) and await no(ResourceClaim)

    await until("pods and claims gone", empty)
    await admin.patch(Deployment, "d", {"spec": {"replicas": 1}}, namespace="team")
    await admin.delete(Deployment, "d", namespace="team", propagation="Foreground")
    await admin.delete(Namespace, "team")

    async def gone() -> bool:
        return all(n.metadata and n.metadata.name != "team" for n in (await admin.list(Namespace)).items)

    await until("the namespace gone", gone)


def test_components_do_their_work_with_just_their_rights(tmp_path: Path) -> None:
    log = tmp_path / "audit"

    async def work() -> None:
        options = Options(nodes=2, profile="dgx-h100", pod_seconds=0.1, listen=False, audit_log=log)
        async with Cluster(options) as cluster:
            assert cluster.profile is not None
            await life(cluster.admin, cluster.profile.device_classes()[0]["metadata"]["name"])

    asyncio.run(work())
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    denied = Counter(
        (line["user"], line["verb"], line.get("resource", line.get("path")), line.get("subresource", ""))
        for line in lines
        if line["code"] in (401, 403)
    )
    assert not denied
    components = {line["user"] for line in lines if "system:masters" not in line["groups"]}
    assert {
        "system:kube-controller-manager",
        "system:kube-scheduler",
        "system:node:node-0",
        "system:node:node-1",
        "system:drakit-simulator",
        "system:serviceaccount:kube-system:generic-garbage-collector",
        "system:serviceaccount:kube-system:namespace-controller",
    } <= components
    # The only administrators are people and the server itself.
    assert {line["user"] for line in lines if "system:masters" in line["groups"]} == {"kubernetes-admin"}


def test_controllers_cannot_touch_what_they_do_not_control(tmp_path: Path) -> None:
    async def work() -> None:
        async with Cluster(Options(listen=False, controllers=(), scheduler=False)) as cluster:
            manager, scheduler = (
                cluster.client("system:kube-controller-manager"),
                cluster.client("system:kube-scheduler"),
            )
            node = cluster.client("system:node:n", "system:nodes")
            role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "x"}}
            for client in (manager, scheduler, node):
                with pytest.raises(StatusError) as caught:
                    await client.create({**role, "rules": []})
                assert caught.value.code == 403
                with pytest.raises(StatusError) as caught:
                    await client.delete(Namespace, "kube-node-lease")
                assert caught.value.code == 403
            pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}}
            pod["spec"] = {"containers": [{"name": "c", "image": "i"}]}
            for client in (scheduler, node):
                with pytest.raises(StatusError) as caught:
                    await client.create(pod)
                assert caught.value.code == 403

    asyncio.run(work())
