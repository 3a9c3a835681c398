"""patch: apply a patch to the object in the request's version, then store the result as an update would.

The store is changed under the event loop, so nothing can come between reading and writing: Kubernetes' retries on a
conflict are not needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from drakit.api import registry, schema, strategy
from drakit.api.errors import FieldError, StatusError
from drakit.apiserver import bodies, patches
from drakit.apiserver.call import NOTHING, Answer, Call, check_write_options
from drakit.apiserver.context import Context, internal_without_reason
from drakit.apiserver.stored import Plain, Stored
from drakit.apiserver.verbs import applying
from drakit.apiserver.verbs.decoding import media_type
from drakit.apiserver.verbs.writing import check_name, replace

__all__ = ["patch", "unfit"]

JSON_PATCH, MERGE_PATCH = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC_PATCH, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
_MAX_OPERATIONS = 10_000
_META_ORDER = (
    "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers", "managedFields",
)  # fmt: skip
_PARTS = ("spec", "status", "data", "rules")
_STATUS_PARTS = (*_PARTS, "metadata")


def patch(ctx: Context, call: Call) -> Answer:
    media = media_type(call.content_type)
    if media not in (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY):
        call.warnings.clear()  # refused before anyone looks at the version
        raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    dry_run, validation = _options(call, media)
    if media == APPLY:
        return applying.apply(ctx, call, dry_run=dry_run, validation=validation)
    old = ctx.collection(call.kind).objects.get(call.key)
    if old is None:
        raise call.not_found()
    return _patch_stored(ctx, call, old, _patcher(call, media), dry_run=dry_run, validation=validation)


def _options(call: Call, media: str) -> tuple[bool, str]:
    errors: list[FieldError] = []
    if media == APPLY and not call.option("fieldManager"):
        errors.append(FieldError.required("fieldManager", "is required for apply patch"))
    if media != APPLY and call.option("force"):
        errors.append(FieldError.forbidden("force", "may not be specified for non-apply patch"))
    if errors:
        raise StatusError.invalid("meta.k8s.io", "PatchOptions", "", errors)
    return check_write_options(call, "PatchOptions")


def _patcher(call: Call, media: str) -> Callable[[Plain], Any]:
    body = _body(call, media)
    if media == MERGE_PATCH:
        return lambda current: patches.merge_patch(current, body)
    if media == STRATEGIC_PATCH:
        node = schema.root(call.kind, call.version)
        return lambda current: patches.strategic_patch(current, body, node)
    return lambda current: patches.json_patch(current, body)


def _body(call: Call, media: str) -> Any:
    if call.value is not NOTHING:
        value = call.value
    else:
        try:
            value = bodies.parse_json(call.body)
        except bodies.BodyError as error:
            raise StatusError.bad_request(
                f"error decoding patch: {error}" if media == JSON_PATCH else str(error)
            ) from None
    if media == JSON_PATCH:
        if not isinstance(value, list):
            complaint = f"json: cannot unmarshal {_go_type(value)} into Go value of type []handlers.jsonPatchOp"
            raise StatusError.bad_request(f"error decoding patch: {complaint}")
        if len(value) > _MAX_OPERATIONS:
            text = f"The allowed maximum operations in a JSON patch is {_MAX_OPERATIONS}, got {len(value)}"
            raise StatusError.too_large(text)
    elif not isinstance(value, dict):
        raise StatusError.bad_request(
            f"json: cannot unmarshal {_go_type(value)} into Go value of type map[string]interface {{}}"
        )
    return value


def _go_type(value: Any) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "bool"}
    return names.get(type(value), "number")


def _patch_stored(
    ctx: Context, call: Call, old: Stored, apply: Callable[[Plain], Any], *, dry_run: bool, validation: str
) -> Answer:
    current = old.plain(call.kind, call.version)
    try:
        patched = apply(current)
    except patches.PatchError as error:
        if error.rejected:
            text = "the server rejected our request due to an error in our request"
            raise StatusError(422, "Invalid", text, {}) from None
        raise StatusError.bad_request(str(error)) from None
    except RecursionError:
        raise StatusError.bad_request("the patch is nested too deeply") from None
    if not isinstance(patched, dict):
        raise unfit(patched, f"json: cannot unmarshal {_go_type(patched)} into Go value")
    obj = decode_patched(call, patched, validation, current if current is old.obj else None)
    check_name(call, obj)
    return replace(ctx, call, obj, old, dry_run=dry_run)


def decode_patched(call: Call, patched: Plain, validation: str, stored: Plain | None = None) -> Plain:
    """The result of a patch as an object; what is wrong with it is said about the field `patch`.

    Parts of the `stored` object that the patch left alone were decoded and defaulted when they were stored: they are
    taken over as they are, which halves the cost of a status patch. So is metadata where nothing changes what it holds."""
    kind = call.kind
    parts = _STATUS_PARTS if call.subresource == "status" else _PARTS
    kept: Plain = (
        {}
        if stored is None
        else {name: value for name, value in patched.items() if value is stored.get(name) and name in parts}
    )
    whole = patched
    if kept:
        patched = {name: value for name, value in patched.items() if name not in kept}
    managed = _untouched_managers(patched.get("metadata"), stored)
    if managed is not None:
        rest = {name: value for name, value in patched["metadata"].items() if name != "managedFields"}
        patched = {**patched, "metadata": rest}
    version = _version_of(call, patched)
    if version is None:
        text = (
            f'no kind "{patched.get("kind")}" is registered for version "{patched.get("apiVersion")}" in scheme '
            '"pkg/api/legacyscheme/scheme.go:30"'
        )
        raise unfit(whole, text)
    if version != call.version:  # the patch says that the object is of another version: so it is read
        kept, patched = {}, {**whole, "metadata": patched["metadata"]}
    try:
        decoded = strategy.decode(kind, version, patched)
    except StatusError as error:
        if error.code != 400:
            raise
        raise unfit(
            whole, error.message.partition(f"cannot be handled as a {kind.kind}: ")[2] or error.message
        ) from None
    if validation != "Ignore" and (problems := decoded.strict_errors):
        if validation == "Strict":
            raise unfit(whole, f"strict decoding error: {', '.join(problems)}")
        call.warnings.extend(problems)
    obj = decoded.obj
    if kept:
        obj.update(kept)
        if "metadata" in kept:
            obj["metadata"] = dict(kept["metadata"])
    if not isinstance(obj.get("metadata"), dict):
        raise internal_without_reason("metadata must be an object")
    if managed is not None:
        obj["metadata"]["managedFields"] = managed
    return obj


def _version_of(call: Call, patched: Plain) -> str | None:
    """The version in which to read the result; None when there is no such kind."""
    api_version, kind = patched.get("apiVersion"), patched.get("kind")
    if kind == call.kind.kind and (not api_version or api_version == call.kind.api_version(call.version)):
        return call.version
    found = registry.by_api_version(str(api_version), str(kind))
    return found[1] if found is not None and found[0] == call.kind else None


def _untouched_managers(meta: Any, stored: Plain | None) -> Any:
    """managedFields as stored, which are most of the metadata: nobody reads them again unless the patch changed them."""
    found = meta.get("managedFields") if stored is not None and isinstance(meta, dict) else None
    return found if found and stored is not None and found is stored["metadata"].get("managedFields") else None


def _as_go_writes(patched: Any) -> Any:
    """With the metadata in the order of Go's fields, so that the text reads as Kubernetes' does."""
    if not isinstance(patched, dict) or not isinstance(patched.get("metadata"), dict):
        return patched
    meta = patched["metadata"]
    ordered = {name: meta[name] for name in _META_ORDER if name in meta}
    entries = meta.get("managedFields")
    if isinstance(entries, list):
        ordered["managedFields"] = [
            {**entry, "fieldsV1": _sorted(entry["fieldsV1"])}
            if isinstance(entry, dict) and "fieldsV1" in entry
            else entry
            for entry in entries
        ]
    head = {name: patched[name] for name in ("apiVersion", "kind") if name in patched}
    return {**head, "metadata": {**ordered, **{n: v for n, v in meta.items() if n not in ordered}}, **_rest(patched)}


def _rest(patched: Plain) -> Plain:
    rest = {name: value for name, value in patched.items() if name not in ("apiVersion", "kind", "metadata")}
    spec = rest.get("spec")
    if isinstance(spec, dict) and "metadata" in spec:  # a template: its metadata stands first too
        rest["spec"] = {"metadata": spec["metadata"], **spec}
    return rest


def _sorted(fields: Any) -> Any:
    return {name: _sorted(fields[name]) for name in sorted(fields)} if isinstance(fields, dict) else fields


def unfit(patched: Any, cause: str) -> StatusError:
    text = msgspec.json.encode(_as_go_writes(patched)).decode()
    return StatusError.invalid("", "", "", [FieldError.invalid("patch", text, cause)])
