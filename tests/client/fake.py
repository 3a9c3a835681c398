"""A server in twenty lines for client tests: one resource, scripted answers, watches that the test feeds and breaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from drakit.api.errors import StatusError
from drakit.client import Plain, Request, Response
from drakit.client.transport import WatchItem


class FakeTransport:
    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.answers: list[Any] = []  # bodies or StatusErrors, in order; after that `listing`
        self.items: dict[str, Plain] = {}
        self.version = 0
        self.watches: asyncio.Queue[WatchItem | StatusError | None] = asyncio.Queue()
        self.watch_requests: list[Request] = []
        self.closed = 0

    def put(self, name: str, **body: Any) -> Plain:
        self.version += 1
        metadata = {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "resourceVersion": str(self.version),
            **body.pop("metadata", {}),
        }
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **body}
        self.items[name] = obj
        return obj

    def listing(self) -> Plain:
        return {"metadata": {"resourceVersion": str(self.version)}, "items": list(self.items.values())}

    async def request(self, request: Request) -> Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if self.answers else self.listing()
        if isinstance(answer, StatusError):
            raise answer
        return Response(200, answer)

    async def watch(self, request: Request) -> AsyncIterator[WatchItem]:
        self.watch_requests.append(request)
        try:
            while True:
                item = await self.watches.get()
                if item is None:
                    return
                if isinstance(item, StatusError):
                    raise item
                yield item
        finally:
            self.closed += 1

    async def close(self) -> None:
        pass
