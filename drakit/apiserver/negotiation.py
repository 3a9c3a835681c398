"""What form the client wants its answer in: the Accept header, tried in order; JSON or YAML, whole, Table or metadata only."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from drakit.api.errors import StatusError

__all__ = ["JSON", "Form", "negotiate"]

_REPRESENTATIONS = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
# Protobuf is asked for by Go clients, always with a JSON fallback or a look at the answer's type: they get JSON.
_MEDIA = {
    "application/json": "json",
    "application/yaml": "yaml",
    "application/vnd.kubernetes.protobuf": "json",
    "*/*": "json",
}
_TRANSFORMS = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")


class Form(NamedTuple):
    media: str  # json or yaml
    transform: str = ""  # Table, PartialObjectMetadata, PartialObjectMetadataList
    version: str = "v1"  # of meta.k8s.io


JSON = Form("json")


@lru_cache(maxsize=256)
def negotiate(accept: str) -> Form:
    if not accept:
        return JSON
    acceptable = False
    for clause in accept.split(","):
        media, _, parameters = clause.partition(";")
        found = _MEDIA.get(media.strip().lower())
        if found is None:
            continue
        acceptable = True
        given = dict(_parameter(part) for part in parameters.split(";") if part.strip())
        transform = given.get("as", "")
        if not transform:
            if given.get("q") in ("0", "0.0"):
                continue
            return Form(found)
        version = given.get("v", "")
        if transform in _TRANSFORMS and given.get("g") == "meta.k8s.io" and version in ("v1", "v1beta1"):
            return Form(found, transform, version)
    if not acceptable:
        text = f"406: Not Acceptable\n\nAvailable representations: {_REPRESENTATIONS}"
        raise StatusError(406, "NotAcceptable", text, {})
    raise StatusError(406, "NotAcceptable", f"only the following media types are accepted: {_REPRESENTATIONS}")


def _parameter(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name.strip().lower(), value.strip().strip('"')
