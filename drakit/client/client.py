"""The one door to an API server: typed verbs over a Transport.

Reads give typed objects. Writes take typed objects or plain ones; prefer patches and plain bodies, so that a field the models do not
know is never lost. Every failure is a StatusError.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, overload

import msgspec
from lightkube.models.core_v1 import Pod

from drakit.api.errors import StatusError
from drakit.api.typed import from_plain
from drakit.client import transport as wire
from drakit.client.resources import Resource, model_of, resource_of, resource_of_plain
from drakit.client.transport import Plain, Request, Transport

__all__ = ["Client", "Event", "Listing", "PatchKind", "Propagation", "retry_on_conflict"]

T = TypeVar("T")
R = TypeVar("R")
PatchKind = Literal["merge", "strategic", "json", "apply"]
Propagation = Literal["", "Background", "Foreground", "Orphan"]

_CONTENT_TYPES: Mapping[PatchKind, str] = {
    "merge": wire.MERGE_PATCH,
    "strategic": wire.STRATEGIC_PATCH,
    "json": wire.JSON_PATCH,
    "apply": wire.APPLY,
}
_CONFLICT_RETRIES = 5


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    items: list[T]
    resource_version: str


@dataclass(frozen=True, slots=True)
class Event(Generic[T]):
    type: str  # ADDED, MODIFIED, DELETED, BOOKMARK
    object: T


class Client:
    """`namespace=None` (or "") means all namespaces in a list or watch, and cluster scope elsewhere."""

    def __init__(self, transport: Transport, *, field_manager: str = "") -> None:
        self.transport = transport
        self.field_manager = field_manager

    async def get(self, model: type[T], name: str, *, namespace: str | None = None) -> T:
        response = await self.transport.request(_request("GET", resource_of(model), namespace, name))
        return from_plain(model, response.body)

    async def get_plain(
        self, resource: Resource, name: str, *, namespace: str | None = None, subresource: str = ""
    ) -> Plain:
        response = await self.transport.request(_request("GET", resource, namespace, name, subresource))
        body: Plain = response.body
        return body

    async def list(
        self,
        model: type[T],
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        resource_version: str | None = None,
    ) -> Listing[T]:
        listing = await self.list_plain(
            resource_of(model), namespace=namespace, labels=labels, fields=fields, resource_version=resource_version
        )
        return Listing([from_plain(model, item) for item in listing.items], listing.resource_version)

    async def list_plain(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        resource_version: str | None = None,
        limit: int = 0,
        pages: int = 0,
    ) -> Listing[Plain]:
        """All pages of a list (or the first `pages`). With `resource_version="0"` any state the server has at hand will do."""
        query = _selection(labels, fields)
        if resource_version is not None:
            query["resourceVersion"] = resource_version
        if limit:
            query["limit"] = str(limit)
        items: list[Plain] = []
        while True:
            response = await self.transport.request(_request("GET", resource, namespace, query=query))
            metadata = response.body.get("metadata") or {}
            items += response.body.get("items") or ()
            pages -= 1
            if not metadata.get("continue") or pages == 0:
                return Listing(items, metadata.get("resourceVersion", ""))
            query = {**query, "continue": metadata["continue"]}
            query.pop("resourceVersion", None)  # a continued list stays at the version of its first page

    @overload
    async def create(self, obj: Plain, *, namespace: str | None = None, dry_run: bool = False) -> Any: ...
    @overload
    async def create(self, obj: T, *, namespace: str | None = None, dry_run: bool = False) -> T: ...
    async def create(self, obj: Any, *, namespace: str | None = None, dry_run: bool = False) -> Any:
        resource, body, model = _described(obj)
        created = await self.create_plain(resource, body, namespace=namespace, dry_run=dry_run)
        return from_plain(model, created) if model is not None else created

    async def create_plain(
        self, resource: Resource, body: Plain, *, namespace: str | None = None, dry_run: bool = False
    ) -> Plain:
        if namespace is None:
            namespace = body.get("metadata", {}).get("namespace") if resource.namespaced else None
        response = await self.transport.request(
            _request("POST", resource, namespace, query=self._write_query(dry_run=dry_run), body=body)
        )
        created: Plain = response.body
        return created

    @overload
    async def update(self, obj: Plain, *, subresource: str = "") -> Any: ...
    @overload
    async def update(self, obj: T, *, subresource: str = "") -> T: ...
    async def update(self, obj: Any, *, subresource: str = "") -> Any:
        """PUT: what the object's model does not know is lost; patch instead where that matters."""
        resource, body, model = _described(obj)
        updated = await self.put_plain(resource, body, subresource=subresource)
        return from_plain(model, updated) if model is not None else updated

    async def put_plain(self, resource: Resource, body: Plain, *, subresource: str = "") -> Plain:
        """PUT of a whole plain object; its resourceVersion decides whether it is still the one that was read."""
        metadata = body["metadata"]
        namespace = metadata.get("namespace") if resource.namespaced else None
        response = await self.transport.request(
            _request("PUT", resource, namespace, metadata["name"], subresource, self._write_query(), body)
        )
        updated: Plain = response.body
        return updated

    async def patch(
        self,
        model: type[T],
        name: str,
        patch: Any,
        *,
        namespace: str | None = None,
        kind: PatchKind = "merge",
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
    ) -> T:
        """A patch with `metadata.resourceVersion` (and `uid`) in it applies only to that version (and object)."""
        patched = await self.patch_plain(
            resource_of(model), name, patch,
            namespace=namespace, kind=kind, subresource=subresource, field_manager=field_manager, force=force,
        )  # fmt: skip
        return from_plain(model, patched)

    async def patch_plain(
        self,
        resource: Resource,
        name: str,
        patch: Any,
        *,
        namespace: str | None = None,
        kind: PatchKind = "merge",
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
    ) -> Plain:
        query = self._write_query(field_manager=field_manager)
        if force:
            query["force"] = "true"
        if kind == "apply" and "fieldManager" not in query:
            raise ValueError("server-side apply needs a field manager: pass field_manager=")
        response = await self.transport.request(
            _request("PATCH", resource, namespace, name, subresource, query, patch, _CONTENT_TYPES[kind])
        )
        patched: Plain = response.body
        return patched

    async def delete(
        self,
        model: type[Any] | Resource,
        name: str,
        *,
        namespace: str | None = None,
        uid: str = "",
        resource_version: str = "",
        grace_seconds: int | None = None,
        propagation: Propagation = "",
    ) -> Plain:
        """The server's answer: the object as it was left (with deletionTimestamp when it stays for now), or a Status."""
        options: Plain = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid or resource_version:
            options["preconditions"] = {
                **({"uid": uid} if uid else {}),
                **({"resourceVersion": resource_version} if resource_version else {}),
            }
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if propagation:
            options["propagationPolicy"] = propagation
        resource = model if isinstance(model, Resource) else resource_of(model)
        response = await self.transport.request(_request("DELETE", resource, namespace, name, body=options))
        answer: Plain = response.body
        return answer

    async def delete_collection(
        self,
        model: type[Any] | Resource,
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        propagation: Propagation = "",
    ) -> None:
        resource = model if isinstance(model, Resource) else resource_of(model)
        options: Plain | None = None
        if propagation:
            options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        query = _selection(labels, fields)
        await self.transport.request(_request("DELETE", resource, namespace, query=query, body=options))

    async def watch(
        self,
        model: type[T],
        *,
        resource_version: str = "",
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        bookmarks: bool = False,
    ) -> AsyncIterator[Event[T]]:
        items = self.watch_plain(
            resource_of(model),
            resource_version=resource_version,
            namespace=namespace,
            labels=labels,
            fields=fields,
            bookmarks=bookmarks,
        )
        async for kind, obj in items:
            yield Event(kind, from_plain(model, obj))

    def watch_plain(
        self,
        resource: Resource,
        *,
        resource_version: str = "",
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        bookmarks: bool = False,
    ) -> wire.WatchStream:
        """Ends when the server ends it; informers resume by themselves."""
        query = _selection(labels, fields)
        query["watch"] = "true"
        if resource_version:
            query["resourceVersion"] = resource_version
        if bookmarks:
            query["allowWatchBookmarks"] = "true"
        return self.transport.watch(_request("GET", resource, namespace, query=query))

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Give the pod its node, if it is still the pod we know."""
        metadata = pod.metadata
        assert metadata is not None
        assert metadata.name is not None
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid},
            "target": {"kind": "Node", "name": node_name},
        }
        await self.transport.request(
            _request("POST", _PODS, metadata.namespace, metadata.name, "binding", self._write_query(), body)
        )

    async def evict(self, name: str, *, namespace: str, uid: str = "", grace_seconds: int | None = None) -> None:
        """Delete a pod through its disruption budgets: StatusError 429 while they do not allow it."""
        options: Plain = {}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": options,
        }
        await self.transport.request(_request("POST", _PODS, namespace, name, "eviction", body=body))

    async def close(self) -> None:
        await self.transport.close()

    def _write_query(self, *, field_manager: str = "", dry_run: bool = False) -> dict[str, str]:
        query: dict[str, str] = {}
        manager = field_manager or self.field_manager
        if manager:
            query["fieldManager"] = manager
        if dry_run:
            query["dryRun"] = "All"
        return query


async def retry_on_conflict(attempt: Callable[[], Awaitable[R]]) -> R:
    """Run `attempt` (which must read anew each time) until it meets no conflict, a few times at most."""
    for _ in range(_CONFLICT_RETRIES - 1):
        try:
            return await attempt()
        except StatusError as error:
            if error.reason != "Conflict":
                raise
    return await attempt()


_PODS = Resource("", "v1", "pods", "Pod", True)


def _request(
    method: wire.Method,
    resource: Resource,
    namespace: str | None,
    name: str = "",
    subresource: str = "",
    query: dict[str, str] | None = None,
    body: Any = None,
    content_type: str = wire.JSON,
) -> Request:
    return Request(
        method,
        resource.group,
        resource.version,
        resource.plural,
        namespace or "",
        name,
        subresource,
        query or {},
        body,
        content_type,
    )


def _selection(labels: str, fields: str) -> dict[str, str]:
    query: dict[str, str] = {}
    if labels:
        query["labelSelector"] = labels
    if fields:
        query["fieldSelector"] = fields
    return query


def _described(obj: Any) -> tuple[Resource, Plain, type[Any] | None]:
    if isinstance(obj, dict):
        resource = resource_of_plain(obj)
        return resource, obj, model_of(resource)
    model = type(obj)
    body = msgspec.to_builtins(obj)
    resource = resource_of(model)
    body.setdefault("apiVersion", resource.api_version)
    body.setdefault("kind", resource.kind)
    return resource, body, model
