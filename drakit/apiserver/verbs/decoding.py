"""From a request body to an object of the kind that the path names: media type, kind, version, strictness."""

from __future__ import annotations

from typing import Any

from drakit.api import registry, strategy
from drakit.api.errors import StatusError
from drakit.apiserver import bodies
from drakit.apiserver.call import NOTHING, Call
from drakit.apiserver.stored import Plain

__all__ = ["check_kind", "decode_object", "media_type", "read_kind", "read_value", "unsupported_media_type"]

ACCEPTED = "application/json, application/yaml, application/vnd.kubernetes.protobuf"


def media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def unsupported_media_type() -> StatusError:
    text = f"the body of the request was in an unknown format - accepted media types include: {ACCEPTED}"
    return StatusError(415, "UnsupportedMediaType", text)


def read_value(call: Call, kind: str) -> tuple[Any, tuple[str, ...]]:
    """The body as a JSON value, and the fields that occur twice in it."""
    if call.value is not NOTHING:
        return call.value, ()
    media = media_type(call.content_type)
    if media in ("", "application/json"):
        try:
            value = bodies.parse_json(call.body)
        except bodies.BodyError as error:
            raise bodies.unrecognized(kind, call.body, error) from None
        return value, tuple(bodies.duplicates(call.body, value))
    if media == "application/yaml":
        try:
            return bodies.parse_yaml(call.body), ()
        except bodies.BodyError as error:
            raise bodies.unrecognized(kind, call.body, error, yaml=True) from None
    if media == "application/vnd.kubernetes.protobuf":
        from drakit.apiserver import protobuf  # its tables are large, and many servers never need them

        return protobuf.decode(call.body), ()
    raise unsupported_media_type()


def decode_object(call: Call, validation: str) -> Plain:
    """The object in the storage version, defaulted; a fresh value that the caller may change."""
    kind = call.kind
    value, duplicated = read_value(call, kind.kind)
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise bodies.not_an_object(kind.kind, call.body, value)
    check_kind(call, value)
    decoded = strategy.decode(kind, call.version, value, duplicated)
    if validation != "Ignore":
        report_strict(call, decoded, validation)
    obj = decoded.obj
    if not isinstance(obj.get("metadata"), dict):
        obj["metadata"] = {}
    return obj


def report_strict(call: Call, decoded: strategy.Decoded, validation: str) -> None:
    errors = decoded.strict_errors
    if not errors:
        return
    if validation == "Strict":
        raise _cannot_be_handled(
            call.kind.kind, call.version, call.kind.kind, f"strict decoding error: {', '.join(errors)}"
        )
    call.warnings.extend(errors)


def check_kind(call: Call, value: Plain) -> None:
    """apiVersion and kind may be absent; if given they must be those of the path."""
    given_version, given_kind = value.get("apiVersion"), value.get("kind")
    expected = call.kind.api_version(call.version)
    if given_kind == call.kind.kind and given_version == expected:
        return
    for name, given in (("apiVersion", given_version), ("kind", given_kind)):
        if given is not None and not isinstance(given, str):
            what = "number" if isinstance(given, int | float) and not isinstance(given, bool) else type(given).__name__
            complaint = f"json: cannot unmarshal {what} into Go struct field .{name} of type string"
            raise bodies.unrecognized(call.kind.kind, call.body, bodies.BodyError(complaint))
    api_version, kind = str(given_version or expected), str(given_kind or call.kind.kind)
    if (api_version, kind) == (expected, call.kind.kind):
        return
    found = registry.by_api_version(api_version, kind)
    version = api_version.rpartition("/")[2]
    if found is None:
        text = (
            f'no kind "{kind}" is registered for version "{api_version}" in scheme "pkg/api/legacyscheme/scheme.go:30"'
        )
        raise _cannot_be_handled(kind, version, call.kind.kind, text)
    if found[0] == call.kind:
        text = f"the API version in the data ({api_version}) does not match the expected API version ({expected})"
        raise StatusError.bad_request(text)
    internal = call.kind.group.partition(".")[0] or "core"
    text = f"converting ({version}.{kind}) to ({internal}.{call.kind.kind}): unknown conversion"
    raise _cannot_be_handled(kind, version, call.kind.kind, text)


def read_kind(call: Call, kind: str, api_version: str = "") -> Plain:
    """The body of a subresource that takes an object of its own; apiVersion and kind may be absent."""
    value, _ = read_value(call, kind)
    if not isinstance(value, dict):
        raise StatusError.bad_request(f"the object provided is unrecognized (must be of type {kind})")
    given_version, given = value.get("apiVersion") or api_version, value.get("kind") or kind
    if given != kind or (api_version and given_version != api_version):
        text = f'no kind "{given}" is registered for version "{given_version}" in scheme "pkg/api/legacyscheme/scheme.go:30"'
        raise _cannot_be_handled(str(given), str(given_version).rpartition("/")[2], kind, text)
    return value


def _cannot_be_handled(kind: str, version: str, expected: str, cause: str) -> StatusError:
    return StatusError.bad_request(f'{kind} in version "{version}" cannot be handled as a {expected}: {cause}')
