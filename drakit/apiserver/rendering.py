"""Answers to bytes: whole objects and lists from cached JSON, Tables and metadata made when asked for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

import msgspec
from lightkube.models.autoscaling_v1 import Scale

from drakit.api.errors import StatusError
from drakit.api.kind import Kind, Strategy
from drakit.api.kinds import entry
from drakit.apiserver.call import Answer, Call, Listing
from drakit.apiserver.context import zero_object
from drakit.apiserver.negotiation import Form
from drakit.apiserver.stored import Event, Plain, Stored, frame, json_body, prefix

__all__ = ["Frames", "plain_answer", "render", "status_body"]

SCALE = entry.kind(Scale, "scales", Strategy(), group="autoscaling")  # a view of workloads: nobody can ask for a list

_encode = msgspec.json.Encoder().encode
INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}
# In Kubernetes a field of the object inside the server, which becomes an annotation only where the whole object is shown.
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def status_body(error: StatusError) -> bytes:
    return _encode(error.to_status())


def render(call: Call, answer: Answer, form: Form, now: datetime) -> tuple[bytes, str]:
    """The body and its Content-Type."""
    if form.transform and (answer.stored is not None or answer.listing is not None):
        body = _encode(_transformed(call, answer, form, now))
    elif form.transform == "Table" and call.subresource == "scale" and answer.value is not None:
        scale = Stored(SCALE, call.key, answer.value, answer.version)
        call = replace(call, kind=SCALE, version=SCALE.storage_version)
        body = _encode(table(call, (scale,), _version_only(scale), form, now))
    elif answer.stored is not None:
        body = prefix(call.kind, call.version) + answer.stored.body(call.kind, call.version)[1:]
    elif answer.listing is not None:
        body = _list_body(call.kind, call.version, answer.listing)
    else:
        body = _encode(answer.value)
    if form.media == "yaml":
        from drakit.apiserver.yaml_loader import dump

        return dump(msgspec.json.decode(body)), "application/yaml"
    if call.query and call.option("pretty") in ("true", "1"):
        body = msgspec.json.format(body, indent=2)
    return body, "application/json"


def plain_answer(call: Call, answer: Answer) -> Plain:
    """The same for the in-process door: objects are shared, not copied."""
    if answer.stored is not None:
        return answer.stored.plain(call.kind, call.version)
    if answer.listing is not None:
        kind, version = call.kind, call.version
        return {
            "kind": kind.list_kind,
            "apiVersion": kind.api_version(version),
            "metadata": _list_metadata(answer.listing),
            "items": [item.plain(kind, version) for item in answer.listing.items],
        }
    assert answer.value is not None
    return answer.value


def _list_metadata(listing: Listing) -> Plain:
    metadata: Plain = {"resourceVersion": str(listing.version)}
    if listing.continue_token:
        metadata["continue"] = listing.continue_token
    if listing.remaining is not None:
        metadata["remainingItemCount"] = listing.remaining
    return metadata


def _list_body(kind: Kind, version: str, listing: Listing) -> bytes:
    head = f'{{"kind":"{kind.list_kind}","apiVersion":"{kind.api_version(version)}","metadata":'.encode()
    items = b",".join([item.body(kind, version) for item in listing.items])
    return b"".join((head, _encode(_list_metadata(listing)), b',"items":[', items, b"]}"))


def _transformed(call: Call, answer: Answer, form: Form, now: datetime) -> Plain:
    if form.transform == "Table":
        if answer.listing is not None:
            metadata = _list_metadata(answer.listing)
            return table(call, answer.listing.items, metadata, form, now)
        assert answer.stored is not None
        return table(call, (answer.stored,), _version_only(answer.stored), form, now)
    api_version = f"meta.k8s.io/{form.version}"
    if form.transform == "PartialObjectMetadata":
        if answer.listing is not None:
            raise _mismatch(call, "PartialObjectMetadata", "is a list", call.kind.list_kind)
        assert answer.stored is not None
        return partial(answer.stored, call, api_version)
    if answer.listing is None:
        raise _mismatch(call, "PartialObjectMetadataList", "is not a list", call.kind.kind)
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": api_version,
        "metadata": _list_metadata(answer.listing),
        "items": [partial(item, call, api_version) for item in answer.listing.items],
    }


def _mismatch(call: Call, wanted: str, problem: str, kind: str) -> StatusError:
    package = call.kind.group.partition(".")[0] or "core"
    text = f"you requested {wanted}, but the requested object {problem} (*{package}.{kind})"
    return StatusError(406, "NotAcceptable", text)


def _version_only(stored: Stored) -> Plain:
    version = stored.obj["metadata"].get("resourceVersion")
    return {"resourceVersion": version} if version else {}


def partial(stored: Stored, call: Call, api_version: str) -> Plain:
    metadata = stored.plain(call.kind, call.version)["metadata"]
    if call.kind.plural == "daemonsets":
        metadata = _without_annotation(metadata, _TEMPLATE_GENERATION)
    return {"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": metadata}


def _without_annotation(metadata: Plain, name: str) -> Plain:
    annotations = {key: value for key, value in metadata.get("annotations", {}).items() if key != name}
    kept = {key: value for key, value in metadata.items() if key != "annotations"}
    return {**kept, "annotations": annotations} if annotations else kept


def table(
    call: Call, items: Iterable[Stored], metadata: Plain, form: Form, now: datetime, *, columns: bool = True
) -> Plain:
    from drakit.apiserver import tables

    include = call.option("includeObject") or "Metadata"
    if include not in ("None", "Metadata", "Object"):
        text = (
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{include}": '
            "must be 'Metadata', 'Object', 'None', or empty"
        )
        raise StatusError.bad_request(text)
    kind = call.kind
    rows = []
    for stored in items:
        obj = stored.plain(kind, call.version)
        row: Plain = {"cells": tables.row(kind, stored.obj, now)}
        conditions = tables.conditions(kind, stored.obj)
        if conditions:
            row["conditions"] = list(conditions)
        if include == "Object":
            row["object"] = obj
        elif include == "Metadata":
            row["object"] = partial(stored, call, f"meta.k8s.io/{form.version}")
        else:
            row["object"] = None
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{form.version}",
        "metadata": metadata,
        "columnDefinitions": tables.columns(kind) if columns else None,
        "rows": rows if rows or tables.has_columns(kind) else None,
    }


class Frames:
    """The lines of one watch in the form that its client asked for."""

    def __init__(self, call: Call, form: Form) -> None:
        self._call = call
        self._form = form
        self._first = True
        if form.transform == "PartialObjectMetadataList":
            raise _mismatch(call, "PartialObjectMetadataList", "is not a list", call.kind.kind)

    def added(self, stored: Stored, now: datetime) -> bytes:
        if not self._form.transform:
            return frame("ADDED", stored, self._call.kind, self._call.version)
        return self._transformed("ADDED", stored, now)

    def event(self, type: str, event: Event, now: datetime) -> bytes:
        if not self._form.transform:
            return event.frame(type, self._call.kind, self._call.version)
        return self._transformed(type, event.seen_as(type), now)

    def _transformed(self, type: str, stored: Stored, now: datetime) -> bytes:
        if self._form.transform == "Table":
            columns, self._first = self._first, False
            value = table(self._call, (stored,), _version_only(stored), self._form, now, columns=columns)
        else:
            value = partial(stored, self._call, f"meta.k8s.io/{self._form.version}")
        return _encode({"type": type, "object": value}) + b"\n"

    def bookmark(self, version: int, *, end_of_initial: bool = False) -> bytes:
        metadata: Plain = {"resourceVersion": str(version)}
        if end_of_initial:
            metadata["annotations"] = INITIAL_EVENTS_END
        kind, api_version = self._call.kind, self._call.version
        form = self._form
        if form.transform == "Table":
            value: Plain = {"kind": "Table", "apiVersion": f"meta.k8s.io/{form.version}", "metadata": metadata}
            value |= {"columnDefinitions": None, "rows": []}
            return _encode({"type": "BOOKMARK", "object": value}) + b"\n"
        if form.transform:
            value = {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{form.version}", "metadata": metadata}
            return _encode({"type": "BOOKMARK", "object": value}) + b"\n"
        body = json_body({"metadata": metadata, **zero_object(kind, api_version)})
        return b'{"type":"BOOKMARK","object":%b%b}\n' % (prefix(kind, api_version), body[1:])

    @staticmethod
    def error(failure: StatusError) -> bytes:
        return b'{"type":"ERROR","object":%b}\n' % status_body(failure)


def bookmark_object(kind: Kind, version: str, resource_version: int, *, end_of_initial: bool) -> Plain:
    metadata: Plain = {"resourceVersion": str(resource_version)}
    if end_of_initial:
        metadata["annotations"] = INITIAL_EVENTS_END
    head = {"kind": kind.kind, "apiVersion": kind.api_version(version), "metadata": metadata}
    return {**head, **zero_object(kind, version)}
