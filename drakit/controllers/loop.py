"""What all controllers share: a queue of keys and workers that reconcile them, and the things they are given.

A controller is level-driven: `reconcile(key)` reads caches, compares with what should be, writes the difference, and may say after how many
seconds to look again. It can be cancelled at any await and started anew.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from drakit.api.errors import StatusError
from drakit.api.gates import FeatureGates
from drakit.client import Client, EventRecorder, Informer, Informers, WorkQueue
from drakit.clock import Clock, SystemClock
from drakit.metrics import Registry

__all__ = ["Context", "ControlLoop", "Reconcile", "soonest"]

log = logging.getLogger(__name__)

Reconcile = Callable[[str], Awaitable[float | None]]  # returns the seconds after which to look again, or None

_TURN = 0.005  # seconds of work after which others get the loop
# A later moment is looked at again by then: nothing is kept for years of what has gone meanwhile, and a wall clock that was set counts.
_LONGEST_WAIT = 600.0


@dataclass
class Context:
    client: Client
    informers: Informers
    clock: Clock = field(default_factory=SystemClock)
    metrics: Registry = field(default_factory=Registry)
    gates: FeatureGates = field(default_factory=FeatureGates.default)
    rng: random.Random = field(default_factory=random.Random)
    root_ca: str = ""  # the cluster's CA certificate, in PEM, for the config map in every namespace
    terminated_pod_threshold: int = 12_500
    recorders: dict[str, EventRecorder] = field(default_factory=dict)
    # Controllers with an identity of their own, by name; the others use `client`.
    clients: Mapping[str, Client] = field(default_factory=dict)
    following: dict[Informer[Any], Any] = field(default_factory=dict)  # by kind of children: see pods.follow_children

    def under(self, controller: str) -> Context:
        """The context of one controller."""
        return replace(self, client=self.clients[controller]) if controller in self.clients else self

    def recorder(self, component: str) -> EventRecorder:
        if component not in self.recorders:
            self.recorders[component] = EventRecorder(self.client, component, clock=self.clock)
        return self.recorders[component]


def soonest(*waits: float | None) -> float | None:
    """Of several reasons to look again; None is none."""
    return min((seconds for seconds in waits if seconds is not None), default=None)


class ControlLoop:
    def __init__(
        self,
        name: str,
        reconcile: Reconcile,
        context: Context,
        *,
        workers: int = 5,
        base_delay: float = 0.005,
        max_delay: float = 1000.0,
    ) -> None:
        """`base_delay`, `max_delay`: how long a key that failed waits, doubling from the first to the last time."""
        self.name = name
        self.queue: WorkQueue[str] = WorkQueue(context.clock, name=name, base_delay=base_delay, max_delay=max_delay)
        _show(self.queue, context.metrics)
        self.reconciles = 0
        self._reconcile = reconcile
        self._workers = workers
        self._turn_began, self._in_turn = 0.0, False

    def add(self, key: str) -> None:
        self.queue.add(key)

    def add_after(self, key: str, seconds: float | None) -> None:
        """None: there is nothing to wait for. A reconcile that fails says so here when it would have to look again."""
        if seconds is not None:
            self.queue.add_after(key, min(seconds, _LONGEST_WAIT))

    @property
    def idle(self) -> bool:
        return self.queue.idle

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._workers):
                    group.create_task(self._work(), name=f"{self.name}:{number}")
        finally:
            self.queue.close()

    async def _work(self) -> None:
        while True:
            key = await self.queue.get()
            self._begin_turn()
            try:
                await self._handle(key)
            finally:
                self.queue.done(key)
            if time.perf_counter() - self._turn_began > _TURN:
                await asyncio.sleep(0)

    def _begin_turn(self) -> None:
        """One in each round of the event loop, for all workers together."""
        if not self._in_turn:
            self._in_turn, self._turn_began = True, time.perf_counter()
            asyncio.get_running_loop().call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._in_turn = False

    async def _handle(self, key: str) -> None:
        self.reconciles += 1
        try:
            after = await self._reconcile(key)
        except StatusError as error:
            delay = self.queue.add_rate_limited(key)
            # Conflicts, and objects and namespaces that vanish, are ordinary: someone else wrote first. Of what stays refused (a
            # quota, a right that is missing) one line is enough; the object's events and conditions tell the rest.
            again = logging.WARNING if self.queue.failures(key) == 1 else logging.INFO
            going = any(cause.get("reason") == "NamespaceTerminating" for cause in error.causes)
            ordinary = going or error.code in (404, 409)
            level = logging.DEBUG if ordinary else again
            log.log(level, "%s %s: %s (again in %.3f s)", self.name, key, error, delay)
        except Exception:
            delay = self.queue.add_rate_limited(key)
            log.exception("%s %s failed (again in %.3f s)", self.name, key, delay)
        else:
            self.queue.forget(key)
            self.add_after(key, after)


def _show(queue: WorkQueue[str], metrics: Registry) -> None:
    """As client-go shows its work queues."""
    name, labels = (queue.name,), ("name",)
    metrics.gauge("workqueue_depth", "Current depth of workqueue", labels, read=lambda: {name: len(queue)})
    metrics.counter(
        "workqueue_adds_total", "Total number of adds handled by workqueue", labels, read=lambda: {name: queue.adds}
    )
    metrics.counter(
        "workqueue_retries_total",
        "Total number of retries handled by workqueue",
        labels,
        read=lambda: {name: queue.retries},
    )
