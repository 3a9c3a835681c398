"""Discovery and OpenAPI documents by path; made when first asked for, kept as bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from drakit.api.errors import StatusError
from drakit.api.kind import Kind, Version
from drakit.apiserver.discovery import Answer, Discovery
from drakit.apiserver.http import HttpRequest
from drakit.apiserver.openapi import OpenApi

__all__ = ["Documents"]

Response = tuple[int, str, bytes, Sequence[tuple[str, str]]]


class Documents:
    def __init__(self, served: Sequence[tuple[Kind, tuple[Version, ...]]]) -> None:
        self._discovery = Discovery(served)
        self._openapi = OpenApi(served)

    def find(self, path: str) -> Callable[[HttpRequest], Response] | None:
        """How to answer the path; None when it is none of ours: the client gets a plain 404."""
        if path.startswith("/openapi"):
            return self._answer_openapi if self._openapi.handles(path) else None
        if self._discovery.handles(path):
            return self._answer_discovery
        parts = path.strip("/").split("/")
        if (parts[0] == "api" and len(parts) > 1) or (
            len(parts) > 2 and parts[1] and self._discovery.handles(f"/apis/{parts[1]}")
        ):
            raise StatusError.no_such_path()
        return None

    def any_method(self, path: str) -> bool:
        return self._discovery.any_method(path)

    def _answer_discovery(self, request: HttpRequest) -> Response:
        answer = self._discovery.handle(request.path, _header(request, "accept"), _header(request, "if-none-match"))
        return _response(answer)

    def _answer_openapi(self, request: HttpRequest) -> Response:
        answer = self._openapi.handle(
            request.path, request.query, _header(request, "accept"), _header(request, "if-none-match")
        )
        return _response(answer)


def _response(answer: Answer | None) -> Response:
    if answer is None:
        raise StatusError.no_such_path()
    return answer.status, answer.content_type, answer.body, tuple(answer.headers.items())


def _header(request: HttpRequest, name: str) -> str:
    return request.headers.get(name, "")
