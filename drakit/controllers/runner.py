"""Starts the controllers together, on shared informers, and stops them together: for `drakit up` and `drakit controllers`.

A new controller is one entry in the table.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Protocol

from drakit.client import Client, Informers
from drakit.clock import Clock, SystemClock
from drakit.controllers.claims import ClaimController
from drakit.controllers.daemonsets import DaemonSetController
from drakit.controllers.deployments import DeploymentController
from drakit.controllers.device_taints import DeviceTaintController
from drakit.controllers.disruption import DisruptionController
from drakit.controllers.garbage import GarbageCollector
from drakit.controllers.jobs import JobController
from drakit.controllers.loop import Context, ControlLoop
from drakit.controllers.namespaces import NamespaceController
from drakit.controllers.node_taints import NodeTaintController
from drakit.controllers.nodes import NodeLifecycleController
from drakit.controllers.pod_groups import PodGroupProtectionController
from drakit.controllers.podgc import PodGarbageCollector
from drakit.controllers.pool_status import PoolStatusController
from drakit.controllers.quotas import QuotaController
from drakit.controllers.replicasets import ReplicaSetController
from drakit.controllers.service_accounts import RootCertificateController, ServiceAccountController
from drakit.controllers.slices import SliceCleaner
from drakit.controllers.statefulsets import StatefulSetController
from drakit.controllers.ttl import TtlController

__all__ = ["CONTROLLERS", "NAMES", "OWN_IDENTITY", "Controller", "build", "run"]

log = logging.getLogger(__name__)


class Controller(Protocol):
    name: str
    loop: ControlLoop

    async def run(self) -> None:
        """Work until cancelled."""


CONTROLLERS: tuple[Callable[[Context], Controller], ...] = (
    ClaimController,
    ReplicaSetController,
    DeploymentController,
    JobController,
    StatefulSetController,
    DaemonSetController,
    ServiceAccountController,
    RootCertificateController,
    GarbageCollector,
    NamespaceController,
    PodGarbageCollector,
    NodeLifecycleController,
    NodeTaintController,
    SliceCleaner,
    TtlController,
    DeviceTaintController,
    PoolStatusController,
    QuotaController,
    DisruptionController,
    PodGroupProtectionController,
)
NAMES: tuple[str, ...] = tuple(str(controller.name) for controller in CONTROLLERS)  # type: ignore[attr-defined]  # they are classes

# Without its gate there is nothing for a controller to do.
GATES = {
    DeviceTaintController.name: "DRADeviceTaints",
    PoolStatusController.name: "DRAResourcePoolStatus",
    PodGroupProtectionController.name: "GenericWorkload",
}

# Controllers that may delete anything have an account each (in kube-system), so that the others need not hold that right.
OWN_IDENTITY = {
    GarbageCollector.name: "generic-garbage-collector",
    NamespaceController.name: "namespace-controller",
}


def build(context: Context, enabled: Collection[str] | None = None) -> list[Controller]:
    """The controllers by name (all by default), registered with the informers but not yet working."""
    unknown = set(enabled or ()) - set(NAMES)
    if unknown:
        raise ValueError(f"no such controller: {', '.join(sorted(unknown))}; there is: {', '.join(NAMES)}")
    chosen = [(make, name) for make, name in zip(CONTROLLERS, NAMES, strict=True) if enabled is None or name in enabled]
    if not context.root_ca:  # nothing to publish
        chosen = [(make, name) for make, name in chosen if make is not RootCertificateController]
    chosen = [(make, name) for make, name in chosen if name not in GATES or context.gates.enabled(GATES[name])]
    return [make(context.under(name)) for make, name in chosen]


async def run(
    client: Client,
    informers: Informers | None = None,
    clock: Clock | None = None,
    *,
    enabled: Collection[str] | None = None,
    context: Context | None = None,
) -> None:
    """Run the controllers until cancelled. Informers that are passed in stay the caller's to stop."""
    own = informers is None
    clock = clock or SystemClock()
    informers = informers or Informers(client, clock)
    context = context or Context(client, informers, clock)
    controllers = build(context, enabled)
    informers.start()
    try:
        await informers.wait_synced()  # a cache that is still empty would look like a cluster without objects
        async with asyncio.TaskGroup() as group:
            for controller in controllers:
                group.create_task(controller.run(), name=controller.name)
    finally:
        for recorder in context.recorders.values():
            await recorder.flush()
        if own:
            await informers.stop()
