"""The seam between the client and an API server: one request in, one response out, or a stream of watch events.

A Request is already taken apart (group, version, plural, …), so an in-process server parses no URL; HttpTransport builds the path from it.
A failure is always a `StatusError`, raised by the transport: a Response is a success.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable
from urllib.parse import quote, urlencode

__all__ = [
    "APPLY",
    "JSON",
    "JSON_PATCH",
    "MERGE_PATCH",
    "STRATEGIC_PATCH",
    "Discovering",
    "Method",
    "Plain",
    "Request",
    "Response",
    "Transport",
    "WatchItem",
    "WatchStream",
]

Plain = dict[str, Any]  # an object as JSON has it; never mutated once handed out
WatchItem = tuple[str, Plain]  # ("ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK", object)
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"  # the body is still a plain object here: JSON is YAML


@dataclass(slots=True)  # not frozen: that would triple the cost of making one on the hot path
class Request:
    method: Method
    group: str  # "" is the core group
    version: str
    plural: str
    namespace: str = ""  # "" for cluster scope, and for all namespaces in a list or watch
    name: str = ""  # "" addresses the collection
    subresource: str = ""
    query: Mapping[str, str] = field(
        default_factory=dict
    )  # as in the URL: labelSelector, fieldManager, resourceVersion, …
    body: Any = None  # a plain object (or list, for a JSON patch); bytes only for what is not JSON
    content_type: str = JSON

    @property
    def path(self) -> str:
        parts = ["/api" if not self.group else f"/apis/{self.group}", self.version]
        if self.namespace:
            parts += ["namespaces", quote(self.namespace, safe="")]
        parts.append(self.plural)
        if self.name:
            parts.append(quote(self.name, safe=""))
        if self.subresource:
            parts.append(self.subresource)
        return "/".join(parts)

    @property
    def url(self) -> str:
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


@dataclass(slots=True)
class Response:
    status: int  # 200, 201 or 202
    body: Any  # plain object, list object, or Status
    warnings: tuple[str, ...] = ()


class WatchStream(Protocol):
    """What an async generator of watch items is."""

    def __aiter__(self) -> AsyncIterator[WatchItem]: ...
    async def __anext__(self) -> WatchItem: ...
    async def aclose(self) -> None: ...


class Transport(Protocol):
    async def request(self, request: Request) -> Response:
        """The answer to one request; StatusError when it is a failure or cannot be had."""

    def watch(self, request: Request) -> WatchStream:
        """Events after `resourceVersion` in the query until the server ends the stream.

        Raises StatusError (410 Gone, …) instead of giving an ERROR event.
        The caller closes it with `aclose()`.
        """

    async def close(self) -> None:
        """Let go of connections and watches."""


@runtime_checkable
class Discovering(Protocol):
    """A transport that can say what its server has. The embedded server has what the registry lists."""

    async def discover(self) -> tuple[list[Any], list[str]]:
        """Resources (`client.resources.Resource`) that can be listed, watched and deleted, in every version, the preferred one
        first; and the group versions whose server cannot be asked at present."""
