"""The in-process door: components in the server's own process call its verbs directly.

No sockets and no JSON text, but the same checks under the component's own identity. Objects that come back are the stored
ones, shared and never to be changed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from drakit.api.errors import StatusError
from drakit.apiserver.auth import UserInfo
from drakit.apiserver.call import NOTHING, Answer, Call, bool_option
from drakit.apiserver.dispatch import NODE_SUBRESOURCES, dispatch
from drakit.apiserver.rendering import bookmark_object, plain_answer
from drakit.apiserver.routes import Route, verb_of
from drakit.apiserver.verbs.reading import WatchStart
from drakit.apiserver.watchers import Watcher
from drakit.client.transport import Request, Response, WatchItem, WatchStream

if TYPE_CHECKING:
    from drakit.apiserver.server import Server

__all__ = ["LocalTransport"]

_QUEUE = 1_000_000  # a component in our own process is slow only when the whole process is


class LocalTransport:
    """Implements `drakit.client.transport.Transport`. `agent` names the component in managedFields."""

    def __init__(self, server: Server, user: UserInfo, *, agent: str = "") -> None:
        self._ctx = server.context
        self._server = server
        self._user = user
        self._agent = agent or user.name.rpartition(":")[2]
        self._watches: set[_LocalWatch] = set()

    def _call(self, request: Request, *, watch: bool) -> Call:
        kind, version = self._ctx.routes.resource(request.group, request.version, request.plural)
        if request.subresource and request.subresource not in kind.subresources:
            raise StatusError.no_such_path()
        if kind.namespaced and request.name and not request.namespace:
            raise StatusError.no_such_path()
        query = {name: (value,) for name, value in request.query.items()} if request.query else {}
        raw = request.body if isinstance(request.body, bytes) else b""
        call = Call(
            "", kind, version.name, request.namespace if kind.namespaced else "", request.name, request.subresource, query,
            self._user, content_type=request.content_type, body=raw,
            value=NOTHING if request.body is None or raw else request.body, agent=self._agent, method=request.method,
        )  # fmt: skip
        route = Route(kind, version, call.namespace, request.name, request.subresource)
        call.verb = verb_of(request.method, route, watch=watch or (bool(query) and bool_option(call, "watch")))
        return call

    async def request(self, request: Request) -> Response:
        call = self._call(request, watch=False)
        if call.subresource in NODE_SUBRESOURCES:
            raise StatusError.bad_request(f"pods/{call.subresource} is a stream: use an HTTP connection")
        answer = self._dispatch(call)
        assert isinstance(answer, Answer)
        if answer.version > self._ctx.store.durable:
            await self._ctx.store.settled(answer.version)
        return Response(answer.code, plain_answer(call, answer), tuple(call.warnings))

    def _dispatch(self, call: Call) -> Answer | WatchStart:
        audit = self._server.audit
        if audit is None:
            return dispatch(self._ctx, call)
        asked = call.question()
        try:
            answer = dispatch(self._ctx, call)
        except StatusError as error:
            audit.record(asked, error.code, reason=error.reason, annotations=call.annotations)
            raise
        audit.record(asked, answer.code if isinstance(answer, Answer) else 200, annotations=call.annotations)
        return answer

    def watch(self, request: Request) -> WatchStream:
        return _LocalWatch(self, request)

    async def close(self) -> None:
        for watch in list(self._watches):
            await watch.aclose()


class _LocalWatch:
    """An async iterator by hand: a generator would cost a frame switch per event and could not be closed while waiting."""

    def __init__(self, transport: LocalTransport, request: Request) -> None:
        self._transport = transport
        self._request = request
        self._ctx = transport._ctx
        self._call: Call | None = None
        self._start: WatchStart | None = None
        self._watcher: Watcher | None = None
        self._ready: list[WatchItem] = []
        self._waiting: asyncio.Future[None] | None = None
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None

    def __aiter__(self) -> _LocalWatch:
        return self

    async def _begin(self) -> None:
        call = self._call = self._transport._call(self._request, watch=True)
        start = self._transport._dispatch(call)
        assert isinstance(start, WatchStart)
        self._start = start
        self._watcher = Watcher(start.namespace, start.selection, self._wake, after=start.after, limit=_QUEUE)
        start.collection.watchers.add(self._watcher)
        self._transport._watches.add(self)
        if start.after > self._ctx.store.durable:
            await self._ctx.store.settled(start.after)
        kind, version = call.kind, call.version
        ready = self._ready
        ready.extend(("ADDED", stored.plain(kind, version)) for stored in start.initial)
        for event in start.replay:
            type = self._watcher.sees(event)
            if type:
                ready.append((type, event.seen_as(type).plain(kind, version)))
        if start.end_of_initial:
            ready.append(("BOOKMARK", bookmark_object(kind, version, start.after, end_of_initial=True)))
        ready.reverse()  # taken from the end
        start.initial, start.replay = (), ()
        if start.timeout:
            self._timer = asyncio.get_running_loop().call_later(start.timeout, self._finish)

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _over(self) -> bool:
        return self._closed

    def _finish(self) -> None:
        self._closed = True
        self._wake()

    async def __anext__(self) -> WatchItem:
        if self._closed:
            raise StopAsyncIteration
        if self._start is None:
            await self._begin()
        if self._ready:
            return self._ready.pop()
        watcher, call = self._watcher, self._call
        assert watcher is not None
        assert call is not None
        while not watcher.events:
            if watcher.overflowed:
                await self.aclose()
                raise StatusError.expired("too old resource version: the watch was too slow")
            if self._over():
                await self.aclose()
                raise StopAsyncIteration
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        type, event = watcher.take()
        return type, event.seen_as(type).plain(call.kind, call.version)

    async def aclose(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._start is not None and self._watcher is not None:
            self._start.collection.watchers.remove(self._watcher)
        self._transport._watches.discard(self)
        self._wake()
