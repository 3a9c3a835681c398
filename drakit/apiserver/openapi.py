"""OpenAPI for `kubectl explain`, `apply` and `diff`, and for tools that read it: version 3 by group, version 2 as a whole.

Documents are made when first asked for: most servers live and die without it. The hash in the version 3 index is one of what
is served, not of the documents, so that the index costs nothing either.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs

from drakit.api.errors import StatusError
from drakit.api.kind import Kind, Version
from drakit.apiserver import openapi_paths, openapi_proto
from drakit.apiserver.discovery import Answer
from drakit.apiserver.openapi_schemas import Schemas
from drakit.apiserver.stored import Plain

__all__ = ["OpenApi"]

_INFO = {"title": "Kubernetes", "version": "v1.37.0"}
_JSON = "application/json"
_PROTO_V2 = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
_PROTO_V2_NAMES = (_PROTO_V2, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf")


class OpenApi:
    def __init__(self, served: Sequence[tuple[Kind, tuple[Version, ...]]]) -> None:
        self._served = served
        self._cache: dict[str, Answer] = {}

    def handles(self, path: str) -> bool:
        path = path.rstrip("/")
        return path in ("/openapi/v2", "/openapi/v3") or path.removeprefix("/openapi/v3/") in self._group_versions()

    def handle(self, path: str, query: str = "", accept: str = "", if_none_match: str = "") -> Answer | None:
        """The answer to GET path?query; None for a path that is not OpenAPI's. Raises StatusError (406)."""
        path = path.rstrip("/")
        if path == "/openapi/v2":
            answer = self._v2(accept)
        elif path == "/openapi/v3":
            answer = self._cached(path, self._index)
        else:
            group_version = path.removeprefix("/openapi/v3/")
            if group_version not in self._group_versions():
                return None
            wanted = parse_qs(query).get("hash", [""])[0]
            if wanted and wanted != self._hash(group_version):
                return Answer(301, _JSON, b"", {"Location": self._url(group_version)})
            _want_json(accept)
            answer = self._cached(path, lambda: self._v3(group_version))
        if if_none_match and if_none_match == answer.headers.get("ETag"):
            return Answer(304, answer.content_type, b"", answer.headers)
        return answer

    # -- what is served ------------------------------------------------------------------------------------------

    def _group_versions(self) -> dict[str, list[tuple[Kind, Version]]]:
        """Kinds by the path of their group version: api/v1, apis/apps/v1."""
        found: dict[str, list[tuple[Kind, Version]]] = {}
        for kind, versions in self._served:
            for version in versions:
                path = f"apis/{kind.group}/{version.name}" if kind.group else f"api/{version.name}"
                found.setdefault(path, []).append((kind, version))
        return found

    def _hash(self, group_version: str) -> str:
        kinds = sorted(kind.plural for kind, _ in self._group_versions()[group_version])
        return hashlib.sha512(f"{_INFO['version']} {group_version} {kinds}".encode()).hexdigest().upper()

    def _url(self, group_version: str) -> str:
        return f"/openapi/v3/{group_version}?hash={self._hash(group_version)}"

    def _index(self) -> Plain:
        return {"paths": {gv: {"serverRelativeURL": self._url(gv)} for gv in sorted(self._group_versions())}}

    # -- documents -----------------------------------------------------------------------------------------------

    def _cached(self, path: str, make: Any) -> Answer:
        answer = self._cache.get(path)
        if answer is None:
            body = json.dumps(make(), separators=(",", ":"), ensure_ascii=False).encode()
            answer = self._cache[path] = _tagged(_JSON, body)
        return answer

    def _v3(self, group_version: str) -> Plain:
        schemas = Schemas(version=3)
        paths: Plain = {}
        for kind, version in self._group_versions()[group_version]:
            schemas.add_kind(kind, version.name)
            paths |= openapi_paths.paths(kind, version.name, schemas)
        self._mark_shared(schemas)
        components = {"schemas": dict(sorted(schemas.found.items()))}
        return {"openapi": "3.0.0", "info": _INFO, "paths": dict(sorted(paths.items())), "components": components}

    def _mark_shared(self, schemas: Schemas) -> None:
        groups = [(kind.group, version.name) for kind, versions in self._served for version in versions]
        marks = [(group, version, "DeleteOptions") for group, version in dict.fromkeys(groups)]
        schemas.mark("meta_v1.DeleteOptions", marks)
        schemas.mark("meta_v1.Status", [("", "v1", "Status")])

    def v2_document(self) -> Plain:
        schemas = Schemas(version=2)
        paths: Plain = {}
        for kinds in self._group_versions().values():
            for kind, version in kinds:
                schemas.add_kind(kind, version.name)
                paths |= openapi_paths.paths(kind, version.name, schemas)
        self._mark_shared(schemas)
        definitions = dict(sorted(schemas.found.items()))
        return {"swagger": "2.0", "info": _INFO, "paths": dict(sorted(paths.items())), "definitions": definitions}

    def _v2(self, accept: str) -> Answer:
        clauses = [clause.partition(";")[0].strip() for clause in accept.split(",")] if accept else [_JSON]
        for media in clauses:
            if media in (_JSON, "*/*", "application/*"):
                return self._cached("/openapi/v2", self.v2_document)
            if media in _PROTO_V2_NAMES:
                answer = self._cache.get(_PROTO_V2)
                if answer is None:
                    body = openapi_proto.encode(self.v2_document())
                    answer = self._cache[_PROTO_V2] = _tagged(_PROTO_V2_NAMES[1], body)
                return answer
        raise StatusError(406, "NotAcceptable", f"only the following media types are accepted: {_JSON}, {_PROTO_V2}")


def _tagged(content_type: str, body: bytes) -> Answer:
    etag = f'"{hashlib.sha512(body).hexdigest().upper()}"'
    return Answer(200, content_type, body, {"ETag": etag, "Vary": "Accept-Encoding, Accept"})


def _want_json(accept: str) -> None:
    """Documents of version 3 are JSON: every client that can read them can read that."""
    medias = [clause.partition(";")[0].strip() for clause in accept.split(",") if clause.strip()]
    if medias and not {_JSON, "*/*", "application/*"} & set(medias):
        raise StatusError(406, "NotAcceptable", f"only the following media types are accepted: {_JSON}")
