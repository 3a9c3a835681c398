"""A small cluster on virtual time that misbehaves by a seeded plan: conflicts, lost answers, dropped watches, killed schedulers,
changing slices, vanishing nodes, claims and pods. `Chaos.run` plays the plan, heals, settles; `Chaos.complaints` says what is wrong.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from lightkube.models.core_v1 import Node, Pod
from lightkube.models.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice

from drakit.allocator import Inventory, check
from drakit.api.errors import StatusError
from drakit.apiserver.auth import AUTHENTICATED, MASTERS, UserInfo
from drakit.apiserver.local import LocalTransport
from drakit.apiserver.server import Server, Settings
from drakit.client import Client, Informers
from drakit.client.transport import Plain, Request, Response
from drakit.clock import VirtualClock
from drakit.controllers import runner
from drakit.controllers.loop import Context
from drakit.scheduler import Scheduler, State
from drakit.scheduler.decide import Placement, decide
from drakit.scheduler.outcome import SchedulingError
from drakit.scheduler.pods import PodInfo

DRIVER = "gpu.example.com"
NODES, DEVICES = 4, 3


class FaultyTransport:
    """Between a component and the server: refuses, forgets to answer, breaks watches."""

    def __init__(self, inner: LocalTransport, rng: random.Random, faults: Faults) -> None:
        self._inner, self._rng, self._faults = inner, rng, faults

    async def request(self, request: Request) -> Response:
        await self._pause()
        write = request.method != "GET"
        if write and self._faults.happens(0.04):
            raise StatusError.conflict(request.group, request.plural, request.name or "x", "a fault of the test")
        if self._faults.happens(0.02):
            raise StatusError(code=503, reason="ServiceUnavailable", message="a fault of the test")
        response = await self._inner.request(request)
        await self._pause()  # a kill here: written, but nobody knows
        if write and self._faults.happens(0.03):
            raise StatusError(code=504, reason="Timeout", message="the answer got lost")
        return response

    def watch(self, request: Request) -> _FaultyWatch:
        return _FaultyWatch(self._inner.watch(request), self._faults)

    async def _pause(self) -> None:
        for _ in range(self._rng.randrange(3)):
            await asyncio.sleep(0)

    async def close(self) -> None:
        await self._inner.close()


class _FaultyWatch:
    def __init__(self, inner: Any, faults: Faults) -> None:
        self._inner, self._faults = inner, faults

    def __aiter__(self) -> AsyncIterator[tuple[str, Plain]]:
        return self

    async def __anext__(self) -> tuple[str, Plain]:
        if self._faults.happens(0.02):
            raise StatusError(code=410, reason="Expired", message="too old resource version")
        if self._faults.happens(0.02):
            raise StopAsyncIteration
        item: tuple[str, Plain] = await self._inner.__anext__()
        return item

    async def aclose(self) -> None:
        await self._inner.aclose()


class Faults:
    def __init__(self, rng: random.Random) -> None:
        self._rng, self.on = rng, False

    def happens(self, probability: float) -> bool:
        return self.on and self._rng.random() < probability


class Chaos:
    def __init__(self, seed: int, *, schedulers: int = 1, steps: int = 40) -> None:
        self.rng = random.Random(seed)
        self.steps, self.count = steps, schedulers
        self.clock = VirtualClock()
        self.faults = Faults(self.rng)
        self.server = Server(Settings(listen=False), clock=self.clock)
        self.admin = self._client("admin", faulty=False)
        self._running: list[tuple[asyncio.Task[None], Informers]] = []
        self._number = 0

    def _client(self, name: str, *, faulty: bool = True) -> Client:
        inner = LocalTransport(self.server, UserInfo(name, (MASTERS, AUTHENTICATED)))
        return Client(FaultyTransport(inner, self.rng, self.faults) if faulty else inner)  # type: ignore[arg-type]

    # -- the plan

    async def run(self) -> None:
        await self.server.start()
        try:
            await self._populate()
            self._controllers = await self._start_controllers()
            for _ in range(self.count):
                self._start_scheduler()
            self.faults.on = True
            for _ in range(self.steps):
                await self._step()
                await self._breathe()
                if self.rng.random() < 0.3:
                    await self.clock.advance(self.rng.choice((0.1, 1.0, 3.0)))
            self.faults.on = False
            await self._settle()
        finally:
            await self._stop()

    async def _step(self) -> None:
        act = self.rng.choices(
            (
                self._create_pod,
                self._delete_pod,
                self._finish_pod,
                self._delete_claim,
                self._change_slice,
                self._flap_node,
                self._kill,
            ),
            weights=(12, 4, 3, 2, 3, 1, 2),
        )[0]
        with suppress(StatusError):
            await act()

    async def _settle(self) -> None:
        for _ in range(70):
            await self.clock.advance(1.0)
            await self._breathe()

    async def _breathe(self) -> None:
        for _ in range(25):
            await asyncio.sleep(0)

    # -- components

    async def _start_controllers(self) -> asyncio.Task[None]:
        client = self._client("system:kube-controller-manager")
        informers = Informers(client, self.clock)
        context = Context(client, informers, self.clock, rng=self.rng)
        task = asyncio.create_task(
            runner.run(
                client,
                informers,
                self.clock,
                enabled=["resourceclaim-controller", "garbage-collector-controller"],
                context=context,
            )
        )
        self._running.append((task, informers))
        return task

    def _start_scheduler(self) -> None:
        self._number += 1
        client = self._client("system:kube-scheduler")
        informers = Informers(client, self.clock)
        numbers = iter(range(1 << 30))
        scheduler = Scheduler(
            client, informers, clock=self.clock, new_uid=lambda: f"memory-{self._number}-{next(numbers)}"
        )
        informers.start()
        self._running.append((asyncio.create_task(scheduler.run()), informers))

    async def _kill(self) -> None:
        """One scheduler dies where it stands, and another takes its place."""
        schedulers = [entry for entry in self._running if entry[0] is not self._controllers]
        victim = self.rng.choice(schedulers)
        self._running.remove(victim)
        await self._end(victim)
        self._start_scheduler()

    async def _end(self, entry: tuple[asyncio.Task[None], Informers]) -> None:
        task, informers = entry
        task.cancel()
        ending = asyncio.gather(task, return_exceptions=True)
        for _ in range(200):  # what it does at its end may want time to pass
            if ending.done():
                break
            await self.clock.advance(0.1)
        await asyncio.wait({ending}, timeout=1)
        await informers.stop()

    async def _stop(self) -> None:
        self.faults.on = False
        for entry in self._running:
            await self._end(entry)
        await self.server.stop()

    # -- objects

    async def _populate(self) -> None:
        with suppress(StatusError):  # the server may have made it
            await self._create(
                {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}
            )
        for name in (f"n{index}" for index in range(NODES)):
            await self._create_node(name)
            await self._create(self._slice(name, 1, DEVICES))
        selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
        base = {"apiVersion": "resource.k8s.io/v1"}
        await self._create(
            {**base, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {"selectors": selectors}}
        )
        template = {"spec": {"devices": {"requests": [self._request(1)]}}}
        meta = {"name": "one", "namespace": "default"}
        await self._create({**base, "kind": "ResourceClaimTemplate", "metadata": meta, "spec": template})
        for index in range(6):
            meta = {"name": f"c{index}", "namespace": "default"}
            spec = {"devices": {"requests": [self._request(1 + index % 2)]}}
            await self._create({**base, "kind": "ResourceClaim", "metadata": meta, "spec": spec})

    async def _create(self, body: Plain) -> Any:
        return await self.admin.create(body)

    async def _create_node(self, name: str) -> None:
        room = {"cpu": "4", "memory": "8Gi", "pods": "20"}
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name},
            "status": {"allocatable": room, "capacity": room},
        }
        await self._create(body)
        await self.admin.patch(Node, name, {"spec": {"taints": None}})

    def _slice(self, node: str, generation: int, devices: int) -> Plain:
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node}-slice"},
            "spec": {
                "driver": DRIVER,
                "nodeName": node,
                "pool": {"name": node, "generation": generation, "resourceSliceCount": 1},
                "devices": [{"name": f"gpu-{index}"} for index in range(devices)],
            },
        }

    def _request(self, count: int) -> Plain:
        return {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}}

    # -- what happens

    async def _create_pod(self) -> None:
        self._number += 1
        entry = (
            {"resourceClaimTemplateName": "one"}
            if self.rng.random() < 0.5
            else {"resourceClaimName": f"c{self.rng.randrange(6)}"}
        )
        container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "d"}], "requests": {"cpu": "200m"}}}
        spec: Plain = {
            "containers": [container],
            "resourceClaims": [{"name": "d", **entry}],
            "terminationGracePeriodSeconds": 0,
        }
        meta = {"name": f"p{self._number}", "namespace": "default"}
        await self._create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    async def _some(self, model: Any) -> Any:
        items = (await self.admin.list(model)).items
        return self.rng.choice(items) if items else None

    async def _delete_pod(self) -> None:
        if (pod := await self._some(Pod)) is not None:
            await self.admin.delete(Pod, pod.metadata.name, namespace="default", grace_seconds=0)

    async def _finish_pod(self) -> None:
        pods = [p for p in (await self.admin.list(Pod)).items if p.spec and p.spec.nodeName]
        if pods:
            name = self.rng.choice(pods).metadata.name
            await self.admin.patch(
                Pod, name, {"status": {"phase": "Succeeded"}}, namespace="default", subresource="status"
            )

    async def _delete_claim(self) -> None:
        claim = await self._some(ResourceClaim)
        if claim is not None and claim.metadata.name.startswith("c"):
            await self.admin.delete(ResourceClaim, claim.metadata.name, namespace="default")
            await asyncio.sleep(0)
            meta = {"name": claim.metadata.name, "namespace": "default"}
            spec = {"devices": {"requests": [self._request(1)]}}
            await self._create(
                {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": meta, "spec": spec}
            )

    async def _change_slice(self) -> None:
        slice_ = await self._some(ResourceSlice)
        if slice_ is None:
            return
        generation = slice_.spec.pool.generation + 1
        spec = self._slice(slice_.spec.nodeName, generation, self.rng.randint(1, DEVICES))["spec"]
        await self.admin.patch(ResourceSlice, slice_.metadata.name, {"spec": spec})

    async def _flap_node(self) -> None:
        node = await self._some(Node)
        if node is not None:
            await self.admin.delete(Node, node.metadata.name)
            await self._breathe()
            await self._create_node(node.metadata.name)

    # -- judgement

    async def complaints(self) -> list[str]:
        """Needs the server's store only; call it after `run`."""
        pods = {key: self._typed(Pod, obj) for key, obj in self._stored("", "pods").items()}
        claims = [self._typed(ResourceClaim, obj) for obj in self._stored("resource.k8s.io", "resourceclaims").values()]
        state = self._state(pods, claims)
        found = [f"{v.rule}: {v.text}" for v in self._check(claims)]
        found += self._orphans(pods, claims)
        for pod in pods.values():
            if pod.spec is not None and not pod.spec.nodeName:
                found += self._idle(state, PodInfo(pod))
            elif pod.spec is not None and not (pod.status and pod.status.phase in ("Succeeded", "Failed")):
                found += self._unserved(state, PodInfo(pod))
        return found

    def _stored(self, group: str, plural: str) -> dict[str, Plain]:
        collection = next(
            c for c in self.server.store.collections() if c.resource == (f"{plural}.{group}" if group else plural)
        )
        return {stored.key: stored.obj for stored in collection.objects.values()}

    def _typed(self, model: Any, obj: Plain) -> Any:
        from drakit.api.typed import from_plain

        return from_plain(model, obj)

    def _state(self, pods: dict[str, Any], claims: list[Any]) -> State:
        state = State()
        for obj in self._stored("", "nodes").values():
            state.set_node(self._typed(Node, obj))
        for obj in self._stored("resource.k8s.io", "resourceslices").values():
            state.set_slice(self._typed(ResourceSlice, obj))
        for obj in self._stored("resource.k8s.io", "deviceclasses").values():
            state.set_class(self._typed(DeviceClass, obj))
        for claim in claims:
            state.claims.set(claim)
        for pod in pods.values():
            if pod.spec.nodeName and not (pod.status and pod.status.phase in ("Succeeded", "Failed")):
                state.place(PodInfo(pod), pod.spec.nodeName)
        return state

    def _check(self, claims: list[Any]) -> list[Any]:
        """Slices shrink under allocated claims here, so only rules that hold whatever drivers do are asked for."""
        inventory = Inventory()
        for node in (f"n{index}" for index in range(NODES)):
            inventory.set_slice(self._typed(ResourceSlice, self._slice(node, 1, DEVICES)))
        for obj in self._stored("resource.k8s.io", "deviceclasses").values():
            inventory.set_class(self._typed(DeviceClass, obj))
        return check(inventory, claims)

    def _orphans(self, pods: dict[str, Any], claims: list[Any]) -> list[str]:
        alive = {p.metadata.uid for p in pods.values() if not (p.status and p.status.phase in ("Succeeded", "Failed"))}
        found = []
        for claim in claims:
            name, status = claim.metadata.name, claim.status
            reserved = [entry.uid for entry in (status.reservedFor if status else None) or ()]
            if gone := [uid for uid in reserved if uid not in alive]:
                found.append(f"claim {name} is reserved for pods that are gone: {gone}")
            if status and status.allocation and not reserved and not self._wanted(pods, claim):
                found.append(f"claim {name} is allocated and nobody uses it")
        return found

    def _wanted(self, pods: dict[str, Any], claim: Any) -> bool:
        """An allocation without a reservation stays when the pod that it was made for is still to come (as in Kubernetes)."""
        for pod in pods.values():
            names = {e.resourceClaimName for e in pod.spec.resourceClaims or ()}
            names |= {s.resourceClaimName for s in (pod.status.resourceClaimStatuses if pod.status else None) or ()}
            if claim.metadata.name in names:
                return True
        return False

    def _idle(self, state: State, info: PodInfo) -> list[str]:
        from drakit.scheduler.claims import ClaimLookupError

        try:
            state.claims.of(info)
            outcome, _ = decide(state, info, self.clock.now(), lambda: "x")
        except (SchedulingError, ClaimLookupError):
            return []
        return [f"pod {info.key} waits although {outcome.node} could take it"] if isinstance(outcome, Placement) else []

    def _unserved(self, state: State, info: PodInfo) -> list[str]:
        """A bound pod has its claims: allocated, reserved for it, on its node."""
        found = []
        for key in state.claims.keys_of(info):
            claim = state.claims.stored.get(key)
            reserved = [e.uid for e in ((claim.status.reservedFor if claim and claim.status else None) or ())]
            if claim is None or info.uid not in reserved:
                found.append(f"pod {info.key} is bound but {key} is not reserved for it")
        return found
