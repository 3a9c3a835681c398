"""Which resources the server has: for controllers that work on every kind (garbage, namespaces).

A cluster is asked (discovery), custom resources included. The embedded server has the kinds of the registry; those that gates or
settings switch off are found by asking for them once.
"""

from __future__ import annotations

import asyncio

from drakit.api import registry
from drakit.api.errors import StatusError
from drakit.api.gates import FeatureGates
from drakit.client import Client, Resource
from drakit.client.transport import Discovering

__all__ = ["Served"]

_NEEDED = {"list", "watch", "delete"}
# Events are many, own nothing and are owned by nobody.
_IGNORED = {("", "events"), ("events.k8s.io", "events")}


class Served:
    def __init__(self, client: Client, gates: FeatureGates) -> None:
        self._client = client
        self._there: dict[tuple[str, str], Resource] = {}  # (group, plural) -> in the preferred version
        self._kinds: dict[tuple[str, str], Resource] = {}  # (API version, kind) -> in the preferred version
        self._candidates = _of_registry(gates)
        self.stale: list[str] = []  # group versions whose server could not be asked the last time

    async def collectable(self) -> set[Resource]:
        """Resources that can be listed, watched and deleted, without events."""
        return {each for each in await self.all() if (each.group, each.plural) not in _IGNORED}

    async def all(self) -> set[Resource]:
        """Each in the preferred version."""
        transport = self._client.transport
        if isinstance(transport, Discovering):
            resources, self.stale = await transport.discover()
            self._there, self._kinds = {}, {}
            self._add(resources)
        else:
            unknown = [each for each in self._candidates if (each[0].group, each[0].plural) not in self._there]
            answers = await asyncio.gather(*(self._probe(each[0]) for each in unknown))
            for versions, there in zip(unknown, answers, strict=True):
                if there:
                    self._add(versions)
        return set(self._there.values())

    def _add(self, resources: list[Resource]) -> None:
        for each in resources:
            preferred = self._there.setdefault((each.group, each.plural), each)
            self._kinds.setdefault((each.api_version, each.kind), preferred)

    async def _probe(self, resource: Resource) -> bool:
        try:
            await self._client.list_plain(resource, limit=1, pages=1)
        except StatusError as error:
            if error.code in (403, 404, 405):
                return False
            raise
        return True

    def resource_of(self, api_version: str, kind: str) -> Resource | None:
        """What an owner reference names, in the version that the server prefers; None for a version that is not served."""
        return self._kinds.get((api_version, kind))


def _of_registry(gates: FeatureGates) -> list[list[Resource]]:
    """Each resource in all its versions, the preferred one first."""
    found = []
    for kind in registry.KINDS:
        versions = registry.served(kind, gates, registry.RuntimeConfig({"api/all": True}))
        if versions and set(kind.verbs) >= _NEEDED:
            names = sorted((version.name for version in versions), key=lambda name: name != kind.storage_version)
            found.append([Resource(kind.group, name, kind.plural, kind.kind, kind.namespaced) for name in names])
    return found
