"""Volume claims for controllers on the embedded server, which has none: kept here, and deleted when all their owners are gone."""

from __future__ import annotations

from typing import Any

from lightkube.models.apps_v1 import StatefulSet
from lightkube.models.core_v1 import Pod

from drakit.api.errors import StatusError
from drakit.client import Plain
from drakit.client.transport import Request, Response, Transport, WatchStream
from tests.controllers.cluster import Cluster


class Volumes:
    def __init__(self) -> None:
        self.claims: dict[str, Plain] = {}
        self.refuse: set[str] = set()  # names that may not be made
        self.requests = 0
        self._version = 0

    def wrap(self, transport: Transport) -> Transport:
        return _VolumeTransport(transport, self)

    def owners(self) -> dict[str, list[str]]:
        return {
            name: [f"{owner['kind']}/{owner['name']}" for owner in claim["metadata"].get("ownerReferences") or ()]
            for name, claim in sorted(self.claims.items())
        }

    def put(self, claim: Plain, **metadata: Any) -> Response:
        self._version += 1
        metadata = {**claim["metadata"], **metadata, "resourceVersion": str(self._version)}
        self.claims[metadata["name"]] = {**claim, "metadata": metadata}
        return Response(200, self.claims[metadata["name"]])

    async def collect(self, cluster: Cluster) -> None:
        """As the garbage collector."""
        objects = [*await cluster.list(Pod), *await cluster.list(StatefulSet)]
        alive = {obj["metadata"]["uid"] for obj in objects}
        for name, claim in [*self.claims.items()]:
            owners = claim["metadata"].get("ownerReferences") or ()
            if owners and not any(owner["uid"] in alive for owner in owners):
                del self.claims[name]


class _VolumeTransport:
    def __init__(self, inner: Transport, volumes: Volumes) -> None:
        self._inner, self._volumes = inner, volumes

    async def request(self, request: Request) -> Response:
        if request.plural != "persistentvolumeclaims":
            return await self._inner.request(request)
        volumes = self._volumes
        volumes.requests += 1
        if request.method == "POST":
            name = request.body["metadata"]["name"]
            if name in volumes.refuse:
                raise StatusError(403, "Forbidden", f"no claim {name} for you")
            if name in volumes.claims:
                raise StatusError.already_exists("", request.plural, name)
            return volumes.put(request.body, uid=f"uid-of-{name}")
        claim = volumes.claims.get(request.name)
        if claim is None:
            raise StatusError.not_found("", request.plural, request.name)
        if request.method == "PATCH":
            wanted = request.body["metadata"]
            if wanted.pop("resourceVersion") != claim["metadata"]["resourceVersion"]:
                raise StatusError.modified("", request.plural, request.name)
            return volumes.put(claim, **wanted)
        return Response(200, claim)

    def watch(self, request: Request) -> WatchStream:
        return self._inner.watch(request)

    async def close(self) -> None:
        await self._inner.close()
