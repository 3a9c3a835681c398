"""A cluster for controller tests: the embedded server in process, the controllers under test, a virtual clock, a kubelet that obeys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any

from drakit.api.gates import FeatureGates
from drakit.apiserver.auth import ADMIN, AUTHENTICATED, UserInfo
from drakit.apiserver.local import LocalTransport
from drakit.apiserver.server import Server, Settings
from drakit.client import Client, Informers, Plain, Resource, resource_of
from drakit.client.transport import Transport
from drakit.clock import VirtualClock
from drakit.controllers.loop import Context
from drakit.controllers.runner import OWN_IDENTITY, Controller, build

ROOT_CA = "-----BEGIN CERTIFICATE-----\nfor tests\n-----END CERTIFICATE-----\n"
_QUIET_TURNS = 12


class Cluster:
    """`async with Cluster({"job-controller"}) as cluster`."""

    def __init__(
        self,
        enabled: Collection[str] = (),
        *,
        wrap: Callable[[Transport], Transport] | None = None,
        clock: VirtualClock | None = None,
        gates: FeatureGates | None = None,
    ) -> None:
        self.clock = clock or VirtualClock()
        self.gates = gates or FeatureGates.default()
        self.server = Server(Settings(listen=False, gates=self.gates), clock=self.clock)
        self.client = Client(LocalTransport(self.server, ADMIN))
        self._enabled = tuple(enabled)
        self._wrap = wrap
        self.controllers: list[Controller] = []
        self.context: Context | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Cluster:
        await self.server.start()
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()
        await self.server.stop()

    async def start(self, enabled: Collection[str] | None = None) -> None:
        """A fresh process of controllers on the same server; `enabled` replaces those that ran before."""
        if enabled is not None:
            self._enabled = tuple(enabled)
        client = self._client_as("system:kube-controller-manager")
        informers = Informers(client, self.clock)
        own = {
            name: self._client_as(f"system:serviceaccount:kube-system:{account}")
            for name, account in OWN_IDENTITY.items()
        }
        self.context = Context(client, informers, self.clock, gates=self.gates, clients=own, root_ca=ROOT_CA)
        self.controllers = build(self.context, self._enabled)
        informers.start()
        syncing = asyncio.ensure_future(informers.wait_synced())
        while not syncing.done():
            await self.clock.advance(0.1)
        self._tasks = [asyncio.ensure_future(controller.run()) for controller in self.controllers]
        await asyncio.sleep(0)

    def _client_as(self, user: str) -> Client:
        """With the rights that controllers have, not an administrator's."""
        transport: Transport = LocalTransport(self.server, UserInfo(user, (AUTHENTICATED,)))
        return Client(self._wrap(transport) if self._wrap is not None else transport)

    async def kill(self) -> None:
        """As a process dies: every task ends where it is."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if self.context is not None:
            await self.context.informers.stop()
            self.context = None

    async def settle(self, seconds: float = 0.0) -> None:
        """Let the controllers do what there is to do, then `seconds` of virtual time (in steps)."""
        await self._quiet()
        while seconds > 0:
            step = min(seconds, 1.0)
            await self.clock.advance(step)
            await self._quiet()
            seconds -= step

    async def _quiet(self) -> None:
        quiet = 0
        for _ in range(100_000):
            version = self.server.context.store.version
            await asyncio.sleep(0)
            idle = (
                all(controller.loop.idle for controller in self.controllers)
                and version == self.server.context.store.version
            )
            quiet = quiet + 1 if idle else 0
            if quiet >= _QUIET_TURNS:
                return
        raise AssertionError("the controllers do not come to rest")

    def events(self) -> int:
        """How many changes the controllers have been told of."""
        return self.context.informers.events if self.context is not None else 0

    # Objects.

    async def create(self, obj: Plain) -> Plain:
        from drakit.client.resources import resource_of_plain

        obj.setdefault("metadata", {})
        resource = resource_of_plain(obj)
        if resource.namespaced:
            obj["metadata"].setdefault("namespace", "default")
        return await self.client.create_plain(resource, obj)

    async def get(self, model: type[Any] | Resource, name: str, namespace: str | None = "default") -> Plain:
        resource = model if isinstance(model, Resource) else resource_of(model)
        return await self.client.get_plain(resource, name, namespace=namespace if resource.namespaced else None)

    async def list(self, model: type[Any] | Resource, namespace: str | None = None, labels: str = "") -> list[Plain]:
        resource = model if isinstance(model, Resource) else resource_of(model)
        return (await self.client.list_plain(resource, namespace=namespace, labels=labels)).items

    async def patch(
        self, model: type[Any] | Resource, name: str, patch: Plain, *, subresource: str = "", namespace: str = "default"
    ) -> Plain:
        resource = model if isinstance(model, Resource) else resource_of(model)
        return await self.client.patch_plain(
            resource, name, patch, namespace=namespace if resource.namespaced else None, subresource=subresource
        )

    async def delete(
        self, model: type[Any] | Resource, name: str, *, namespace: str = "default", **options: Any
    ) -> None:
        resource = model if isinstance(model, Resource) else resource_of(model)
        await self.client.delete(resource, name, namespace=namespace if resource.namespaced else None, **options)
