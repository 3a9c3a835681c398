"""Discovery and OpenAPI documents by path; made when first asked for, kept as bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from drakit.api.kind import Kind, Version
from drakit.apiserver.http import HttpRequest

__all__ = ["Documents"]

Response = tuple[int, str, bytes, Sequence[tuple[str, str]]]


class Documents:
    def __init__(self, served: Sequence[tuple[Kind, tuple[Version, ...]]]) -> None:
        self._served = served

    def find(self, path: str) -> Callable[[HttpRequest], Response] | None:
        return None
