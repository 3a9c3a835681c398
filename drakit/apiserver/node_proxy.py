"""The door to node agents: pods/log, exec, attach, portforward and proxy are answered by the node that runs the pod.

The server checks who may ask and finds the pod; everything after that is the NodeProxy's, which `drakit.node` implements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from drakit.apiserver.auth import UserInfo
from drakit.apiserver.http import Connection, Headers, RawStream, drain

__all__ = ["NodeProxy", "NodeRequest", "NodeStream"]


@dataclass(frozen=True, slots=True)
class NodeRequest:
    subresource: str  # log exec attach portforward proxy
    pod: dict[str, Any]
    node_name: str
    method: str
    query: Mapping[str, Sequence[str]]
    headers: Mapping[str, str]  # lower-case names
    body: bytes
    path: str  # after pods/NAME/proxy/
    user: UserInfo


class NodeStream:
    """How a NodeProxy answers: a whole answer, a streamed one, or an upgraded connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def closed(self) -> bool:
        """The client is gone."""
        return self._connection.closing

    def respond(self, code: int, content_type: str, body: bytes, headers: Headers = ()) -> None:
        self._connection.respond(code, content_type, body, headers)

    def start(self, code: int, content_type: str, headers: Headers = ()) -> None:
        self._connection.start(code, content_type, headers)

    async def write(self, data: bytes) -> None:
        self._connection.chunk(data)
        await drain(self._connection)

    def end(self) -> None:
        self._connection.end()

    def upgrade(self, headers: Headers) -> RawStream:
        """Answer 101 Switching Protocols with these headers; the bytes that follow are the caller's."""
        head = "HTTP/1.1 101 Switching Protocols\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers)
        return self._connection.raw((head + "\r\n").encode("latin-1"))


class NodeProxy(Protocol):
    async def handle(self, request: NodeRequest, stream: NodeStream) -> None:
        """Answer the request. StatusError is reported to the client if nothing was sent yet."""
