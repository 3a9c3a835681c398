"""/metrics of a whole cluster, and of components on their own: one page by Prometheus' rules, under Kubernetes' names."""

from __future__ import annotations

import asyncio
import shutil
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from lightkube.models.core_v1 import Event
from lightkube.models.resource_v1 import ResourceClaim

from drakit.cli.cluster import Cluster, Options
from drakit.cli.metrics_port import serving
from drakit.cli.options import CommandError
from drakit.client import Client
from drakit.metrics import Registry
from drakit.node.metrics import NodeMetrics
from drakit.scheduler.claims import results_of
from tests.scheduler.test_cluster import NS, account, claim, node_of, pod, reason, template, until
from tests.test_metrics import families

SERVER = ("apiserver_request_total", "apiserver_request_duration_seconds", "apiserver_storage_objects")
SCHEDULER = (
    "scheduler_schedule_attempts_total",
    "scheduler_scheduling_attempt_duration_seconds",
    "scheduler_scheduling_algorithm_duration_seconds",
    "scheduler_pod_scheduling_sli_duration_seconds",
    "scheduler_pod_scheduling_attempts",
    "scheduler_pending_pods",
    "scheduler_unschedulable_pods",
    "scheduler_cache_size",
    "scheduler_preemption_attempts_total",
    "scheduler_preemption_victims",
    "scheduler_dra_bindingconditions_allocations_total",
    "scheduler_dra_bindingconditions_wait_duration_seconds",
)
CONTROLLERS = (
    "dynamic_resource_allocation_resource_claims",
    "dynamic_resource_allocation_resourceclaim_creates_total",
    "device_taint_eviction_controller_pod_deletions_total",
    "device_taint_eviction_controller_pod_deletion_duration_seconds",
    "taint_eviction_controller_pod_deletions_total",
    "workqueue_adds_total",
    "workqueue_retries_total",
    "workqueue_depth",
)
DRIVER = "slow.example.com"


def value(text: str, name: str, sample: str = "", **labels: str) -> float:
    return families(text)[name][1].get((sample or name, frozenset(labels.items())), 0)


def get(url: str) -> tuple[int, str, str]:
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, "", ""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl on PATH")
def test_one_page_shows_every_component(tmp_path: Path) -> None:
    async def main() -> str:
        async with Cluster(Options(nodes=1)) as cluster:
            client = cluster.admin
            await until(lambda: account(client), "the default service account")
            cluster.server.metrics.registry.include(NodeMetrics())  # as a machine's agent would be
            await client.create(template("one"))
            await client.create(claim("many", 30))
            await client.create(pod("placed", templates="one"))
            await client.create(pod("waiting", claims="many"))
            await client.create(pod("gated", schedulingGates=[{"name": "example.com/wait"}]))
            await until(lambda: node_of(client, "placed"), "the pod placed")
            await until(lambda: reason(client, "waiting"), "the other refused")
            cluster.write_kubeconfig(tmp_path / "kubeconfig")
            return await raw(tmp_path / "kubeconfig")

    text = asyncio.run(main())
    page = families(text)
    assert not {*SERVER, *SCHEDULER, *CONTROLLERS, "dra_operations_duration_seconds"} - set(page)
    documented = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    assert [name for name in page if f"`{name}`" not in documented] == []
    ours = {"profile": "default-scheduler"}
    assert value(text, "scheduler_schedule_attempts_total", result="scheduled", **ours) == 1
    refused = value(text, "scheduler_schedule_attempts_total", result="unschedulable", **ours)
    assert refused >= 1
    assert value(text, "scheduler_unschedulable_pods", plugin="DynamicResources", **ours) == 1
    assert value(text, "scheduler_pending_pods", queue="unschedulable") == 1
    assert value(text, "scheduler_pending_pods", queue="gated") == 1
    assert value(text, "scheduler_cache_size", type="nodes") == 1
    sli = "scheduler_pod_scheduling_sli_duration_seconds"
    assert sum(v for (name, _), v in page[sli][1].items() if name == f"{sli}_count") == 1
    claims = "dynamic_resource_allocation_resource_claims"
    assert value(text, claims, allocated="true", admin_access="false", source="resource_claim_template") == 1
    assert value(text, claims, allocated="false", admin_access="false", source="") == 1
    assert value(text, "apiserver_storage_objects", resource="pods") == 3


async def raw(kubeconfig: Path) -> str:
    """As users get it."""
    kubectl = shutil.which("kubectl")
    assert kubectl
    command = [kubectl, "--kubeconfig", str(kubeconfig), "get", "--raw", "/metrics"]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode()


def slow_devices() -> list[dict[str, Any]]:
    """A class and devices that a driver has to make ready, each for its own claim."""
    api = {"apiVersion": "resource.k8s.io/v1"}
    device = {"bindsToNode": True, "bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"]}
    expression = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    pool = {"name": "slow", "generation": 1, "resourceSliceCount": 1}
    return [
        {**api, "kind": "DeviceClass", "metadata": {"name": DRIVER}, "spec": {"selectors": [expression]}},
        {
            **api,
            "kind": "ResourceSlice",
            "metadata": {"name": "slow"},
            "spec": {
                "driver": DRIVER,
                "nodeName": "node-0",
                "pool": pool,
                "devices": [{"name": name, **device} for name in ("a", "b")],
            },
        },
    ]


async def report(client: Client, name: str, condition: str) -> None:
    """The driver says something of the claim's device, once it is allocated."""

    async def allocated() -> Any:
        found = await client.get(ResourceClaim, name, namespace=NS)
        return results_of(found)

    result = (await until(allocated, f"claim {name} allocated"))[0]
    entry = {"type": condition, "status": "True", "reason": "R", "message": "M"}
    device = {"driver": DRIVER, "pool": result.pool, "device": result.device}
    stamped = {**entry, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    body = {"status": {"devices": [{**device, "conditions": [stamped]}]}}
    await client.patch(ResourceClaim, name, body, namespace=NS, subresource="status")


@pytest.mark.slow
def test_waits_for_binding_conditions_and_claims_for_extended_resources_are_counted() -> None:
    async def main() -> str:
        async with Cluster(Options(listen=False, nodes=1)) as cluster:
            client = cluster.admin
            await until(lambda: account(client), "the default service account")
            for obj in slow_devices():
                await client.create(obj)
            for name, condition in (("good", "Attached"), ("bad", "Broken")):
                made = claim(name)
                made["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = DRIVER
                await client.create(made)
                await client.create(pod(name, claims=name))
                await report(client, name, condition)
            await until(lambda: node_of(client, "good"), "the pod whose device got ready")
            await until(lambda: reason(client, "bad"), "the other refused")
            extended = {"requests": {"deviceclass.resource.kubernetes.io/gpu.nvidia.com": "1"}}
            extended["limits"] = extended["requests"]
            await client.create(pod("extended", containers=[{"name": "c", "image": "i", "resources": extended}]))
            await until(lambda: node_of(client, "extended"), "the pod with an extended resource")
            assert any(e.reason == "BindingConditionsPending" for e in (await client.list(Event)).items)
            return cluster.server.metrics.registry.render()

    text = asyncio.run(main())
    labels = {"profile": "default-scheduler", "driver": DRIVER}
    for status in ("success", "failure"):
        assert value(text, "scheduler_dra_bindingconditions_allocations_total", status=status, **labels) == 1
        wait = "scheduler_dra_bindingconditions_wait_duration_seconds"
        assert value(text, wait, f"{wait}_count", status=status, **labels) == 1
    creates = {"status": "success", "admin_access": "false", "owner_api_group": "", "owner_api_kind": "Pod"}
    assert value(text, "dynamic_resource_allocation_resourceclaim_creates_total", **creates) == 1


def test_a_port_of_its_own() -> None:
    registry = Registry()
    registry.counter("a_total", "A").inc()

    async def main() -> None:
        async with serving(registry, None) as port:
            assert port == 0
        async with serving(registry, 0) as port:
            url = f"http://127.0.0.1:{port}"
            code, content_type, text = await asyncio.to_thread(get, f"{url}/metrics")
            assert (code, content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
            assert value(text, "a_total") == 1
            assert (await asyncio.to_thread(get, f"{url}/healthz"))[2] == "ok"
            assert (await asyncio.to_thread(get, f"{url}/api"))[0] == 404
            with pytest.raises(CommandError, match=f"--metrics-port {port}: .*choose another"):
                async with serving(registry, port):
                    pass
        with pytest.raises(OSError, match="refused"):
            await asyncio.to_thread(get, f"{url}/metrics")

    asyncio.run(main())
