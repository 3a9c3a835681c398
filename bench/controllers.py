"""Controllers under load, with counts of their work: a Deployment from 0 to 5,000 and back, a Job of 5,000 pods, claims from templates.

A whole cluster in one process (embedded server, scheduler, simulated nodes) and all controllers. `requests/pod` and `reconciles/pod` are
those of the controllers: they stay the same for 500 and 5,000 pods, because no controller works in proportion to all objects for one
event. CPU is of the whole process.

    python bench/controllers.py [PODS …]
"""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import uvloop
from lightkube.models.apps_v1 import Deployment
from lightkube.models.batch_v1 import Job
from lightkube.models.core_v1 import Pod
from lightkube.models.resource_v1 import ResourceClaim

from drakit.apiserver.auth import ADMIN
from drakit.apiserver.local import LocalTransport
from drakit.cli.cluster import Cluster, Options
from drakit.cli.collector import collecting_at_rest
from drakit.client import Client, Plain, Request, Response, resource_of
from drakit.controllers.loop import Context
from drakit.controllers.runner import Controller, build

PODS = resource_of(Pod)
NODES = 100


class Counting(LocalTransport):
    counts: Counter[str]

    async def request(self, request: Request) -> Response:
        self.counts[request.method] += 1
        return await super().request(request)


@dataclass
class Measure:
    controllers: list[Controller]
    transport: Counting

    async def stage(self, title: str, pods: int, done: Callable[[], bool]) -> None:
        before = {controller.name: controller.loop.reconciles for controller in self.controllers}
        self.transport.counts.clear()
        start, cpu = time.perf_counter(), time.process_time()
        while not done():  # noqa: ASYNC110  (several conditions of several caches; the poll costs nothing)
            await asyncio.sleep(0.01)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        work = {
            controller.name.removesuffix("-controller"): controller.loop.reconciles - before[controller.name]
            for controller in self.controllers
            if controller.loop.reconciles > before[controller.name]
        }
        requests = sum(self.transport.counts.values())
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{title:<24} {seconds:6.2f} s  {pods / seconds:5.0f} pods/s  {cpu / pods * 1e6:5.0f} us CPU/pod  "
            f"requests/pod {requests / pods:4.2f}  reconciles/pod {sum(work.values()) / pods:4.2f}  peak {memory:.0f} MB\n"
            f"{'':24} {dict(self.transport.counts)} {work}",
            flush=True,
        )


def template(**spec: object) -> Plain:
    body = {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i"}], **spec}
    return {"metadata": {"labels": {"app": "x"}}, "spec": body}


async def bench(pods: int) -> None:
    async with Cluster(Options(listen=False, nodes=NODES, pod_seconds=0.2, controllers=False)) as cluster:
        transport = Counting(cluster.server, ADMIN)
        transport.counts = Counter()
        client = Client(transport)
        controllers = build(Context(client, cluster.informers))
        await cluster.informers.wait_synced()
        tasks = [asyncio.ensure_future(controller.run()) for controller in controllers]
        try:
            async with collecting_at_rest():  # as `drakit up` does
                await stages(cluster, Measure(controllers, transport), cluster.admin, pods)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def stages(cluster: Cluster, measure: Measure, user: Client, pods: int) -> None:
    informers = cluster.informers
    deployments, jobs, claims, all_pods = (informers.plain(model) for model in (Deployment, Job, ResourceClaim, Pod))

    def deployment() -> Plain:
        return (deployments.get("default/d") or {}).get("status") or {}

    def job() -> Plain:
        return (jobs.get("default/j") or {}).get("status") or {}

    body: Plain = {"selector": {"matchLabels": {"app": "x"}}, "replicas": 0, "template": template()}
    await user.create(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "default"}, "spec": body}
    )
    await user.patch(Deployment, "d", {"spec": {"replicas": pods}}, namespace="default")
    await measure.stage(f"Deployment 0 -> {pods}", pods, lambda: deployment().get("availableReplicas") == pods)
    await user.patch(Deployment, "d", {"spec": {"replicas": 0}}, namespace="default")
    await measure.stage(f"Deployment {pods} -> 0", pods, lambda: not deployment().get("replicas") and not len(all_pods))
    spec = {"completions": pods, "parallelism": min(pods, 1000), "template": template(restartPolicy="Never")}
    await user.create(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "default"}, "spec": spec}
    )
    await measure.stage(f"Job of {pods}", pods, lambda: job().get("completionTime") is not None)
    assert job()["succeeded"] == pods, job()
    await claims_of_gated_pods(user, measure, claims, pods)


async def claims_of_gated_pods(user: Client, measure: Measure, claims, pods: int) -> None:  # type: ignore[no-untyped-def]
    """Pods with a scheduling gate: only the claim controller works."""
    spec = {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}}
    metadata = {"name": "t", "namespace": "default"}
    await user.create(
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec}
    )
    gated = template(
        resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}], schedulingGates=[{"name": "bench"}]
    )["spec"]

    async def create() -> None:
        for number in range(pods):
            name = {"name": f"p{number}", "namespace": "default"}
            await user.create_plain(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": name, "spec": gated})
            if number % 16 == 0:
                await asyncio.sleep(0)

    creating = asyncio.ensure_future(create())
    idle = [controller.loop for controller in measure.controllers]
    await measure.stage(
        f"{pods} gated pods, claims", pods, lambda: len(claims) == pods and all(loop.idle for loop in idle)
    )
    await creating


if __name__ == "__main__":
    for count in [int(text) for text in sys.argv[1:]] or [500, 5000]:
        uvloop.run(bench(count))
