"""This machine as a node: the agent and, for each driver of a profile, a simulated driver. What `drakit up`, the demo and tests start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from drakit.api.errors import StatusError
from drakit.client import Client
from drakit.clock import Clock
from drakit.driver import Plugin
from drakit.driver.injection import CDI_DIRECTORIES
from drakit.drivers.profiles import Profile
from drakit.drivers.simulated import drivers_of
from drakit.node.agent import Agent
from drakit.node.api import NodeApi

__all__ = ["Machine"]

READY = 20.0  # seconds for drivers to be registered and published


class Machine:
    """`client(user, *groups)` gives each part its own identity; `api` is told of the agent, so that kubectl reaches its pods."""

    def __init__(
        self,
        client: Callable[..., Client],
        name: str,
        root: Path,
        *,
        profile: Profile | None = None,
        runtime: str = "auto",
        api: NodeApi | None = None,
        clock: Clock | None = None,
        cdi_directory: Path | None = None,
        images: Path | None = None,
        address: str = "127.0.0.1",
        cri_endpoint: str = "",
        api_server: str = "",
    ) -> None:
        self.root = root
        self._profile = profile
        self._client = client
        self._clock = clock
        self._api = api
        self.cdi_directory = cdi_directory or root / "cdi"
        directories = (*CDI_DIRECTORIES, self.cdi_directory) if cdi_directory is None else (self.cdi_directory,)
        self.agent = Agent(
            client(f"system:node:{name}", "system:nodes"),
            name,
            root / "kubelet",
            runtime,
            clock,
            cdi_directories=directories,
            images=images,
            address=address,
            cri_endpoint=cri_endpoint,
            api_server=api_server,
            labels={"drakit.dev/machine": "this"},
        )
        self.plugins: list[Plugin] = []

    async def start(self) -> None:
        """Returns when the drivers are registered and their slices published."""
        await self.agent.start()
        if self._api is not None:
            self._api.add(self.agent)
        if self._profile is None:
            return
        client = self._client("system:drakit-driver")
        for body in self._profile.device_classes():
            try:
                await client.create(body)
            except StatusError as error:
                if error.code != 409:
                    raise
        for driver in drivers_of(self._profile, self.agent.name, self.root / "devices"):
            plugin = Plugin(
                driver,
                client,
                self.agent.name,
                kubelet_directory=self.agent.root,
                cdi_directory=self.cdi_directory,
                clock=self._clock,
            )
            await plugin.start()
            self.plugins.append(plugin)
        waits = [wait for p in self.plugins for wait in (p.registered.wait(), p.publisher.synced())]
        async with asyncio.timeout(READY):
            await asyncio.gather(*waits)

    async def stop(self, *, kill: bool = True) -> None:
        """Pods first: they need the drivers to be unprepared."""
        for plugin in self.plugins:
            await plugin.stop()
        self.plugins = []
        await self.agent.stop(kill=kill)
