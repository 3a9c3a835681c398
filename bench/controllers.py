"""Controllers under load, with counts of their work: a Deployment from 0 to 5,000 and back, a Job of 5,000 pods, claims from templates.

One process with the embedded server; a stand-in for scheduler and nodes sets pods Running or Succeeded. `reconciles` and `requests` per pod
show that no controller works in proportion to all objects for one event: they stay the same for 500 and 5,000 pods.

    python bench/controllers.py [PODS …]
"""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass

import uvloop
from lightkube.models.apps_v1 import Deployment
from lightkube.models.batch_v1 import Job
from lightkube.models.core_v1 import Pod
from lightkube.models.resource_v1 import ResourceClaim

from drakit.api.errors import StatusError
from drakit.apiserver.auth import ADMIN
from drakit.apiserver.local import LocalTransport
from drakit.apiserver.server import Server, Settings
from drakit.client import Client, Informers, Plain, Request, Response, resource_of
from drakit.controllers.loop import Context
from drakit.controllers.runner import Controller, build

PODS = resource_of(Pod)
WORKLOADS = (
    "deployment-controller", "replicaset-controller", "job-controller", "resourceclaim-controller", "garbage-collector-controller",
    "disruption-controller", "resourcequota-controller", "pod-garbage-collector-controller", "device-taint-eviction-controller",
)  # fmt: skip


class Counting(LocalTransport):
    def __init__(self, server: Server) -> None:
        super().__init__(server, ADMIN)
        self.counts: Counter[str] = Counter()

    async def request(self, request: Request) -> Response:
        self.counts[request.method] += 1
        return await super().request(request)


class Nodes:
    """Sets the phase of every pod that appears."""

    def __init__(self, client: Client, informers: Informers) -> None:
        self._client = client
        self._queue: asyncio.Queue[Plain] = asyncio.Queue()
        self._pods = informers.plain(Pod)
        self._pods.add_handler(self._queue.put_nowait)

    async def run(self) -> None:
        while True:
            pod = await self._queue.get()
            owner = (pod["metadata"].get("ownerReferences") or [{}])[0].get("kind")
            phase, ready = ("Succeeded", "False") if owner == "Job" else ("Running", "True")
            condition = {"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}
            patch = {"status": {"phase": phase, "conditions": [condition]}}
            name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
            with suppress(StatusError):  # deleted meanwhile
                await self._client.patch_plain(
                    PODS, name, patch, namespace=namespace, kind="strategic", subresource="status"
                )


@dataclass
class Measure:
    controllers: list[Controller]
    transport: Counting

    async def stage(self, title: str, pods: int, done) -> None:  # type: ignore[no-untyped-def]
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
            f"{title:<28} {seconds:6.2f} s  {pods / seconds:7.0f} pods/s  {cpu / pods * 1e6:5.0f} us CPU/pod  "
            f"requests/pod {requests / pods:5.2f} {dict(self.transport.counts)}  "
            f"reconciles/pod {sum(work.values()) / pods:5.2f} {work}  peak {memory:.0f} MB",
            flush=True,
        )


def template(**spec: object) -> Plain:
    return {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i"}], **spec},
    }


async def bench(pods: int) -> None:
    server = Server(Settings(listen=False))
    await server.start()
    transport = Counting(server)
    client = Client(transport)
    informers = Informers(client)
    context = Context(client, informers)
    controllers = build(context, WORKLOADS)
    nodes = Nodes(Client(LocalTransport(server, ADMIN)), informers)
    informers.start()
    await informers.wait_synced()
    tasks = [asyncio.ensure_future(each.run()) for each in (*controllers, nodes)]
    measure = Measure(controllers, transport)
    deployments, jobs, claims = informers.plain(Deployment), informers.plain(Job), informers.plain(ResourceClaim)
    all_pods = informers.plain(Pod)
    await informers.wait_synced()

    def status(informer, name: str) -> Plain:  # type: ignore[no-untyped-def]
        return (informer.get(f"default/{name}") or {}).get("status") or {}

    body: Plain = {"selector": {"matchLabels": {"app": "x"}}, "replicas": 0, "template": template()}
    await client.create(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "default"}, "spec": body}
    )
    await client.patch(Deployment, "d", {"spec": {"replicas": pods}}, namespace="default")
    await measure.stage(
        f"Deployment 0 -> {pods}", pods, lambda: status(deployments, "d").get("availableReplicas") == pods
    )
    await client.patch(Deployment, "d", {"spec": {"replicas": 0}}, namespace="default")
    await measure.stage(
        f"Deployment {pods} -> 0", pods, lambda: not status(deployments, "d").get("replicas") and not len(all_pods)
    )
    await client.create(
        {
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "default"},
            "spec": {"completions": pods, "parallelism": 100, "template": template(restartPolicy="Never")},
        }
    )  # fmt: skip
    await measure.stage(f"Job of {pods}", pods, lambda: status(jobs, "j").get("completionTime") is not None)
    assert status(jobs, "j")["succeeded"] == pods, status(jobs, "j")
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    await client.create(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "t", "namespace": "default"},
            "spec": {"spec": spec},
        }
    )
    entry = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    for number in range(pods):
        await client.create_plain(
            PODS,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"p{number}", "namespace": "default"},
                "spec": {**template()["spec"], "resourceClaims": entry},
            },
        )
    await measure.stage(
        f"claims for {pods} pods", pods, lambda: len(claims) == pods and all(each.loop.idle for each in controllers)
    )
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await informers.stop()
    await server.stop()


if __name__ == "__main__":
    gc.freeze()
    for count in [int(text) for text in sys.argv[1:]] or [500, 5000]:
        uvloop.run(bench(count))
