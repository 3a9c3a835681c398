"""The HTTP door: a request becomes a call, its answer becomes a response.

Resource paths go through `dispatch`; the few other paths (discovery, OpenAPI, health, version, metrics) are answered here.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from drakit.api.errors import StatusError
from drakit.apiserver import http
from drakit.apiserver.auth import ANONYMOUS, Attributes, UserInfo
from drakit.apiserver.call import Answer, Call, bool_option
from drakit.apiserver.dispatch import NODE_SUBRESOURCES, authorize, dispatch
from drakit.apiserver.negotiation import JSON, Form, negotiate
from drakit.apiserver.node_proxy import NodeRequest, NodeStream
from drakit.apiserver.rendering import Frames, render, status_body
from drakit.apiserver.routes import Route, not_allowed, requested, verb_of
from drakit.apiserver.streams import WatchStream, send_error_stream
from drakit.apiserver.verbs.reading import WatchStart
from drakit.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    from drakit.apiserver.server import Server

__all__ = ["Endpoints"]

_GZIP_FROM = 128 * 1024
_TEXT = "text/plain; charset=utf-8"
_INTO_A_POD = frozenset({"exec", "attach", "portforward"})
_HEALTH = ("/healthz", "/livez", "/readyz")
# Kubernetes bounds warnings in characters; that still lets a hundred through, and Python's clients give up at a hundred
# headers of any kind.
_WARNING_CHARACTERS = 4096
_LONG_WARNING = 256  # what is kept of one when all together are too long
_MOST_WARNINGS = 64


class Endpoints:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._ctx = server.context
        self._tasks: set[asyncio.Task[None]] = set()
        self.streams: dict[WatchStream, Callable[[], None]] = {}  # each with the check that it may still go on

    def handle(self, connection: http.Connection, request: http.HttpRequest) -> None:
        """Answers through the connection, now or later; never raises."""
        started = time.perf_counter()
        try:
            self._route(connection, request, started)
        except StatusError as error:
            self._fail(connection, request, error, started)
        except RecursionError:
            self._fail(connection, request, StatusError.bad_request("the request is nested too deeply"), started)
        except Exception as error:  # the top of a request: a fault of ours must not take the connection down
            self._server.log.exception("%s %s", request.method, _one_line(request.path))
            self._fail(connection, request, StatusError.internal(f"{type(error).__name__}: {error}"), started)

    # -- who and what --------------------------------------------------------------------------------------------

    def _user(self, connection: http.Connection, request: http.HttpRequest) -> UserInfo:
        server = self._server
        if request.headers.get("authorization") == "":
            del request.headers["authorization"]  # says nothing: the same as no header at all
        user = server.authenticator.authenticate(request.headers, connection.certificate) or ANONYMOUS
        if request.impersonates and self._ctx.authorizer is not None:
            from drakit.apiserver.authn import impersonated

            request.impersonator = user
            user = impersonated(user, request.headers, request.groups, self._ctx.authorizer, request.extras)
        return user

    def _route(self, connection: http.Connection, request: http.HttpRequest, started: float) -> None:
        user = self._user(connection, request)
        try:
            route = self._ctx.routes.parse(request.path) if request.path.startswith("/api") else None
        except StatusError:
            self._may_ask(request, user)
            raise
        if route is None:
            self._other(connection, request, user, started)
            return
        query = http.parse_query(request.query)
        headers = request.headers
        watching = not route.name and not route.subresource and "watch" in query and request.method == "GET"
        call = Call(
            "", route.kind, route.version.name, route.namespace, route.name, route.subresource, query, user,
            content_type=headers.get("content-type", ""), body=request.body, agent=headers.get("user-agent", ""),
            method=request.method, headers=headers, warnings=request.warnings, annotations=request.annotations,
        )  # fmt: skip
        try:
            call.verb = verb_of(request.method, route, watch=watching and bool_option(call, "watch"))
        except StatusError:
            self._may_ask(request, user)
            raise
        if self._server.audit is not None:
            request.asked = call.question()
        if route.subresource in NODE_SUBRESOURCES:
            self._to_node(connection, request, call, route, started)
            return
        form = negotiate(headers.get("accept", ""))
        if route.version.deprecated:
            call.warnings.append(route.version.deprecated)
        if call.verb == "watch":
            self._watch(connection, request, call, form, started)
            return
        answer = dispatch(self._ctx, call)
        assert isinstance(answer, Answer)
        if answer.version <= self._ctx.store.durable:
            self._answer(connection, request, call, answer, form, started)
        else:
            self._ctx.store.when_durable(
                answer.version, lambda failure: self._settled(connection, request, call, answer, form, started, failure)
            )

    def _may_ask(self, request: http.HttpRequest, user: UserInfo) -> bool:
        """For what is not there: whether the path looks like a resource's; forbidden unless the user might ask for that."""
        asked = requested(request.method, request.path)
        if asked is None:
            return False
        request.asked = attributes = Attributes(user, **asked)
        authorize(self._ctx, attributes)
        return True

    def _settled(
        self, connection: http.Connection, request: http.HttpRequest, call: Call, answer: Answer, form: Form, started: float,
        failure: StatusError | None,
    ) -> None:  # fmt: skip
        if failure is not None:
            self._fail(connection, request, failure, started)
            return
        try:
            self._answer(connection, request, call, answer, form, started)
        except StatusError as error:
            self._fail(connection, request, error, started)
        except Exception as error:
            self._server.log.exception("%s %s", request.method, _one_line(request.path))
            self._fail(connection, request, StatusError.internal(f"{type(error).__name__}: {error}"), started)

    # -- answers -------------------------------------------------------------------------------------------------

    def _answer(
        self, connection: http.Connection, request: http.HttpRequest, call: Call, answer: Answer, form: Form, started: float
    ) -> None:  # fmt: skip
        body, content_type = render(call, answer, form, self._ctx.clock.now())
        headers = _warning_headers(call.warnings) if call.warnings else ()
        self._server.metrics.observe(call.verb, call.kind.plural, answer.code, time.perf_counter() - started)
        if self._server.audit is not None:
            self._audit(request, answer.code)
        if self._server.request_log:
            self._log(request, call.user, answer.code, started)
        self._send(connection, request, answer.code, content_type, body, headers)

    def _send(
        self, connection: http.Connection, request: http.HttpRequest, code: int, content_type: str, body: bytes,
        headers: Sequence[tuple[str, str]] = (),
    ) -> None:  # fmt: skip
        if len(body) > _GZIP_FROM and "gzip" in request.headers.get("accept-encoding", ""):
            self._background(self._send_compressed(connection, code, content_type, body, headers))
        else:
            connection.respond(code, content_type, body, headers)

    async def _send_compressed(
        self, connection: http.Connection, code: int, content_type: str, body: bytes, headers: Sequence[tuple[str, str]]
    ) -> None:
        # In a thread: zlib lets the loop run meanwhile.
        packed = await asyncio.to_thread(gzip.compress, body, 1, mtime=0)
        extra = (("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))
        connection.respond(code, content_type, packed, (*headers, *extra))

    def _fail(self, connection: http.Connection, request: http.HttpRequest, error: StatusError, started: float) -> None:
        self._server.metrics.observe(request.method.lower(), "", error.code, time.perf_counter() - started)
        if self._server.audit is not None:
            self._audit(request, error.code, error.reason)
        if self._server.request_log:
            self._log(request, None, error.code, started)
        headers: list[tuple[str, str]] = []
        if error.code == 401:
            headers.append(("WWW-Authenticate", "Bearer"))
        if (
            error.retry_after_seconds
        ):  # clients that see it wait and try again by themselves, without a word to the user
            headers.append(("Retry-After", str(error.retry_after_seconds)))
        headers.extend(_warning_headers(request.warnings))
        connection.respond(error.code, "application/json", status_body(error), headers)

    def _log(self, request: http.HttpRequest, user: UserInfo | None, code: int, started: float) -> None:
        target = _one_line(f"{request.path}?{request.query}" if request.query else request.path)
        milliseconds = (time.perf_counter() - started) * 1000
        self._server.log.info(
            '%s %s %d %.1fms user=%s agent="%s"', request.method, target, code, milliseconds,
            _one_line(user.name) if user else "-", _one_line(request.headers.get("user-agent", "")),
        )  # fmt: skip

    def _audit(self, request: http.HttpRequest, code: int, reason: str = "") -> None:
        """Call only when there is an audit log. What failed before it was understood is recorded by its path."""
        assert self._server.audit is not None
        asked = request.asked
        impersonator = request.impersonator if isinstance(request.impersonator, UserInfo) else None
        if not isinstance(asked, Attributes):
            asked = Attributes(impersonator or ANONYMOUS, request.method.lower(), path=request.path)
        self._server.audit.record(
            asked, code, reason=reason, impersonator=impersonator, annotations=request.annotations
        )

    # -- streams -------------------------------------------------------------------------------------------------

    def _watch(
        self, connection: http.Connection, request: http.HttpRequest, call: Call, form: Form, started: float
    ) -> None:
        headers = _warning_headers(call.warnings) if call.warnings else ()
        try:
            start = dispatch(self._ctx, call)
        except StatusError as error:
            if error.code not in (410, 504):
                raise
            send_error_stream(connection, error, headers)
            return
        assert isinstance(start, WatchStart)
        frames = Frames(call, form if form.media == "json" else JSON)
        stream = WatchStream(
            self._ctx, connection, start, frames, limit=self._server.limits.watch_queue,
            ended=lambda stream: self.streams.pop(stream, None),
        )  # fmt: skip

        def check() -> None:
            call.user = self._user(connection, request)
            authorize(self._ctx, call.question())

        self.streams[stream] = check
        self._server.metrics.observe("watch", call.kind.plural, 200, time.perf_counter() - started)
        if self._server.audit is not None:
            self._audit(request, 200)
        if self._server.request_log:
            self._log(request, call.user, 200, started)
        stream.begin(headers)

    def _to_node(
        self, connection: http.Connection, request: http.HttpRequest, call: Call, route: Route, started: float
    ) -> None:
        asked = call.question()
        authorize(self._ctx, asked)
        into_pod = call.verb == "get" and call.subresource in _INTO_A_POD
        if into_pod and self._ctx.gates.enabled("AuthorizePodWebsocketUpgradeCreatePermission"):
            # A WebSocket begins with a GET; it does as much as the POST of older clients and needs the same right.
            authorize(self._ctx, replace(asked, verb="create"))
        pod = self._ctx.collection(call.kind).objects.get(call.key)
        if pod is None:
            raise call.not_found()
        if call.kind.plural != "pods":
            text = f"{call.kind.plural}/{call.subresource} is not offered by this server: ask the node itself"
            raise StatusError(405, "MethodNotAllowed", text)
        node = str((pod.obj.get("spec") or {}).get("nodeName") or "")
        if not node and call.subresource != "log":
            raise StatusError.bad_request(f"pod {call.name} does not have a host assigned")
        proxy = self._server.node_proxy
        if proxy is None:
            raise StatusError.unavailable(f"no node agent is attached to this server to answer pods/{call.subresource}")
        forwarded = NodeRequest(
            call.subresource,
            pod.obj,
            node,
            request.method,
            call.query,
            request.headers,
            request.body,
            route.rest,
            call.user,
        )
        stream = NodeStream(connection)

        async def run() -> None:
            try:
                await proxy.handle(forwarded, stream)
            except StatusError as error:
                self._fail(connection, request, error, started)
            except Exception as error:
                self._server.log.exception("pods/%s of %s", call.subresource, _one_line(call.key))
                self._fail(connection, request, StatusError.internal(str(error)), started)

        self._background(run())

    def _background(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def recheck(self) -> None:
        """End the watches of those whose credentials or rights are gone: a revoked token must not go on reading."""
        for stream, check in list(self.streams.items()):
            try:
                check()
            except StatusError:
                stream.stop()

    def stop(self) -> None:
        for stream in list(self.streams):
            stream.stop()
        for task in list(self._tasks):
            task.cancel()

    # -- other paths ---------------------------------------------------------------------------------------------

    def _other(self, connection: http.Connection, request: http.HttpRequest, user: UserInfo, started: float) -> None:
        path = request.path
        if not self._may_ask(request, user):
            request.asked = attributes = Attributes(user, request.method.lower(), path=path)
            authorize(self._ctx, attributes)
        found = self._find_other(path)
        if found is None:
            connection.respond(404, _TEXT, b"404 page not found\n", (("X-Content-Type-Options", "nosniff"),))
            return
        if request.method not in ("GET", "HEAD") and not self._server.documents.any_method(path):
            raise not_allowed()
        code, content_type, body, headers = found(request)
        if self._server.audit is not None:
            self._audit(request, code)
        self._server.metrics.observe(request.method.lower(), "", code, time.perf_counter() - started)
        self._send(connection, request, code, content_type, body, headers)

    def _find_other(
        self, path: str
    ) -> Callable[[http.HttpRequest], tuple[int, str, bytes, Sequence[tuple[str, str]]]] | None:
        for prefix in _HEALTH:
            if path == prefix or path in (prefix + "/ping", prefix + "/etcd"):
                return self._health
        if path == "/version":
            return lambda request: (200, "application/json", json.dumps(self._server.version_info).encode(), ())
        if path == "/metrics":
            return lambda request: (200, CONTENT_TYPE, self._server.metrics.registry.render().encode(), ())
        if path.startswith(("/api", "/openapi")):
            return self._server.documents.find(path)
        if path == "/":
            paths = [
                "/api",
                "/apis",
                "/healthz",
                "/livez",
                "/metrics",
                "/openapi/v2",
                "/openapi/v3",
                "/readyz",
                "/version",
            ]
            return lambda request: (200, "application/json", json.dumps({"paths": paths}).encode(), ())
        return None

    def _health(self, request: http.HttpRequest) -> tuple[int, str, bytes, Sequence[tuple[str, str]]]:
        name = request.path.strip("/").partition("/")[0]
        query: Mapping[str, Sequence[str]] = http.parse_query(request.query)
        ok = self._server.healthy()
        if "verbose" in query or not ok:
            mark = "+" if ok else "-"
            text = f"[{mark}]ping ok\n[{mark}]store {'ok' if ok else 'failed: see the log'}\n{name} check {'passed' if ok else 'failed'}\n"
            return (200 if ok else 500), _TEXT, text.encode(), ()
        return 200, _TEXT, b"ok", ()


def _warning_headers(warnings: Sequence[str]) -> list[tuple[str, str]]:
    texts = list(dict.fromkeys(warnings))
    if sum(map(len, texts)) > _WARNING_CHARACTERS:
        texts = [text[:_LONG_WARNING] for text in texts]
        # The text that reaches the limit is the last one.
        before = accumulate(map(len, texts), initial=0)
        texts = [text for text, written in zip(texts, before, strict=False) if written < _WARNING_CHARACTERS]
    return [("Warning", f'299 - "{_quoted(text)}"') for text in texts[:_MOST_WARNINGS]]


def _quoted(text: str) -> str:
    clean = "".join(char if char.isprintable() else " " for char in text)
    return clean.replace("\\", "\\\\").replace('"', '\\"')


def _one_line(text: str) -> str:
    """What a client sent, for the log: it cannot make lines of its own there."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
