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
        self._there: set[Resource] = set()
        self._candidates = _of_registry(gates)

    async def collectable(self) -> set[Resource]:
        """Resources that can be listed, watched and deleted, without events."""
        return {each for each in await self.all() if (each.group, each.plural) not in _IGNORED}

    async def all(self) -> set[Resource]:
        transport = self._client.transport
        if isinstance(transport, Discovering):
            self._there = set(await transport.discover())
        else:
            unknown = [resource for resource in self._candidates if resource not in self._there]
            answers = await asyncio.gather(*(self._probe(resource) for resource in unknown))
            self._there |= {resource for resource, there in zip(unknown, answers, strict=True) if there}
        return set(self._there)

    async def _probe(self, resource: Resource) -> bool:
        try:
            await self._client.list_plain(resource, limit=1, pages=1)
        except StatusError as error:
            if error.code in (403, 404, 405):
                return False
            raise
        return True

    def resource_of(self, api_version: str, kind: str) -> Resource | None:
        """Whatever version an owner reference names: the one that the server prefers."""
        group = api_version.rpartition("/")[0]
        return next((each for each in self._there if each.group == group and each.kind == kind), None)


def _of_registry(gates: FeatureGates) -> list[Resource]:
    found = []
    for kind in registry.KINDS:
        versions = registry.served(kind, gates, registry.RuntimeConfig({"api/all": True}))
        if versions and set(kind.verbs) >= _NEEDED:
            names = [version.name for version in versions]
            version = kind.storage_version if kind.storage_version in names else names[0]
            found.append(Resource(kind.group, version, kind.plural, kind.kind, kind.namespaced))
    return found
