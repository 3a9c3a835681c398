"""get, list and the start of a watch: options, versions, pages."""

from __future__ import annotations

import base64
import binascii
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from drakit.api.errors import FieldError, StatusError
from drakit.apiserver.bodies import BodyError, parse_json
from drakit.apiserver.call import Answer, Call, Listing, bool_option, int_option, version_number
from drakit.apiserver.context import Context, internal_without_reason
from drakit.apiserver.selection import EVERYTHING, Selection, parse_selection
from drakit.apiserver.store import Collection
from drakit.apiserver.stored import Event, Stored

__all__ = ["WatchStart", "get", "list_", "watch"]

_EXPIRED_PAGE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted "
    "between the time the first chunk was returned and now may show up in the list."
)


def get(ctx: Context, call: Call) -> Answer:
    if call.query:
        text = call.option("resourceVersion")
        version = version_number(text or "0")
        if version is None:
            raise internal_without_reason(_bad_version(text))
        _refuse_future(ctx, version)
    stored = ctx.collection(call.kind).objects.get(call.key)
    if stored is None:
        raise call.not_found()
    return Answer(200, stored=stored, version=stored.version)


def list_(ctx: Context, call: Call) -> Answer:
    selection = EVERYTHING
    limit, token, version, match = 0, "", 0, ""
    if call.query:
        selection = parse_selection(call.kind, call.version, call.option("labelSelector"), call.option("fieldSelector"))
        limit = int_option(call, "limit") or 0
        token = call.option("continue")
        int_option(call, "timeoutSeconds")
        _check_list_options(call, watching=False)
        match = call.option("resourceVersionMatch")
        version = _version_option(call)
        _refuse_future(ctx, version)
    collection = ctx.collection(call.kind)
    if token:
        return _next_page(ctx, call, collection, selection, limit, token)
    exact = match == "Exact" or (version > 0 and limit > 0 and not match)
    if exact and version > 0:
        items: Sequence[Stored] = _at(collection, version, call.namespace)
        listing = _page(items, selection, limit, version)
        return Answer(200, listing=listing)
    known = ctx.store.read_version(collection)
    listing = _page(_current(collection, call.namespace, selection), selection, limit, known)
    return Answer(200, listing=listing, version=known)


def _current(collection: Collection, namespace: str, selection: Selection) -> Sequence[Stored]:
    name = selection.exact("metadata.name") if selection.fields else None
    if name is None:
        return list(collection.select(namespace))
    if namespace or not collection.kind.namespaced:
        found = collection.objects.get(f"{namespace}/{name}" if namespace else name)
        return [found] if found else []
    return [stored for stored in collection.select() if stored.obj["metadata"]["name"] == name]


def _at(collection: Collection, version: int, namespace: str) -> list[Stored]:
    objects = collection.at(version)
    start = namespace + "/" if namespace else ""
    return [objects[key] for key in sorted(objects) if key.startswith(start)]


def _page(items: Sequence[Stored], selection: Selection, limit: int, version: int, start: str = "") -> Listing:
    if start:
        items = items[bisect_left([item.key for item in items], start) :]
    last = items[-1] if items else None
    if not selection.everything:
        matches = selection.matches
        items = [item for item in items if matches(item.obj)]
    # There may be more as long as anything follows, whether it matches or not: nobody has looked.
    if limit <= 0 or len(items) < limit or items[limit - 1] is last:
        return Listing(items, version)
    page = items[:limit]
    remaining = len(items) - limit if selection.everything else None
    return Listing(page, version, _token(version, page[-1].key + "\0"), remaining)


def _next_page(
    ctx: Context, call: Call, collection: Collection, selection: Selection, limit: int, token: str
) -> Answer:
    version, start = _read_token(token)
    if version > ctx.store.version:
        raise StatusError.bad_request("invalid continue token: it is of a version that this server has not reached")
    if version < 0:  # the remainder of an expired list: at the present version
        known = ctx.store.read_version(collection)
        items = list(collection.select(call.namespace))
        return Answer(200, listing=_page(items, selection, limit, known, start), version=known)
    try:
        items = _at(collection, version, call.namespace)
    except StatusError:
        raise StatusError.expired(_EXPIRED_PAGE, continue_token=_token(-1, start)) from None
    return Answer(200, listing=_page(items, selection, limit, version, start))


def _token(version: int, start: str) -> str:
    text = msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": version, "start": start})
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def _read_token(token: str) -> tuple[int, str]:
    invalid = "invalid continue token: continue key is not valid: "
    try:
        raw = base64.b64decode(token.encode("ascii") + b"=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError, ValueError):
        position = next((i for i, char in enumerate(token) if not re.match(r"[A-Za-z0-9_-]", char)), len(token))
        raise StatusError.bad_request(f"{invalid}illegal base64 data at input byte {position}") from None
    try:
        # Byte by byte, as Go's scanner reads it.
        content = parse_json(raw.decode("latin-1").encode())
        if content["v"] != "meta.k8s.io/v1":
            raise StatusError.bad_request(f"{invalid}server does not recognize this encoded version {content['v']!r}")
        start = str(content["start"])
        if not start or ".." in start.split("/"):
            raise StatusError.bad_request(f"{invalid}/{start}")
        return int(content["rv"]), start
    except BodyError as error:
        raise StatusError.bad_request(f"{invalid}{error}") from None
    except (KeyError, TypeError, ValueError):
        raise StatusError.bad_request(f"{invalid}incorrect encoded start resourceVersion") from None


def _bad_version(text: str) -> str:
    wrong = "value out of range" if text.isascii() and text.isdigit() else "invalid syntax"
    return f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": {wrong}'


def _version_option(call: Call) -> int:
    text = call.option("resourceVersion")
    version = version_number(text or "0")
    if version is None:
        raise StatusError.bad_request(f"invalid resource version: {_bad_version(text)}")
    return version


def _refuse_future(ctx: Context, version: int) -> None:
    if version > ctx.store.version:
        raise too_large(version, ctx.store.durable)


def too_large(version: int, current: int) -> StatusError:
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    message = f"Timeout: Too large resource version: {version}, current: {current}"
    return StatusError(504, "Timeout", message, {"causes": causes, "retryAfterSeconds": 1})


def _check_list_options(call: Call, *, watching: bool) -> None:
    """apimachinery's ValidateListOptions, texts and order."""
    errors: list[FieldError] = []
    option = call.option
    match, version = option("resourceVersionMatch"), option("resourceVersion")
    initial = "sendInitialEvents" in call.query
    if watching and initial:
        if match != "NotOlderThan":
            text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            errors.append(FieldError.forbidden("resourceVersionMatch", text))
        if option("continue"):
            errors.append(FieldError.forbidden("continue", "continue is forbidden for watch"))
    elif match:
        if watching:
            text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            errors.append(FieldError.forbidden("resourceVersionMatch", text))
        if not version and not (watching and initial):
            text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            errors.append(FieldError.forbidden("resourceVersionMatch", text))
        if option("continue"):
            text = "resourceVersionMatch is forbidden when continue is provided"
            errors.append(FieldError.forbidden("resourceVersionMatch", text))
        if watching:
            if match != "NotOlderThan":
                errors.append(FieldError.not_supported("resourceVersionMatch", match, ("NotOlderThan",)))
        elif match not in ("Exact", "NotOlderThan"):
            errors.append(FieldError.not_supported("resourceVersionMatch", match, ("Exact", "NotOlderThan", "")))
        if match == "Exact" and version == "0":
            text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            errors.append(FieldError.forbidden("resourceVersionMatch", text))
    if initial and not watching:
        errors.append(FieldError.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if errors:
        raise StatusError.invalid("meta.k8s.io", "ListOptions", "", errors)


@dataclass(slots=True)
class WatchStart:
    """How a watch begins: what to send first, and after which version to go on. `after` must be durable first."""

    collection: Collection
    version: str  # API version
    namespace: str
    selection: Selection
    initial: Iterable[Stored]
    replay: Sequence[Event]
    after: int
    end_of_initial: bool  # send the bookmark that ends the initial events
    bookmarks: bool
    timeout: float | None


def watch(ctx: Context, call: Call) -> WatchStart:
    """Raises StatusError for bad options; an expired version is raised too and becomes an ERROR event of the stream."""
    selection = parse_selection(call.kind, call.version, call.option("labelSelector"), call.option("fieldSelector"))
    _check_list_options(call, watching=True)
    timeout = int_option(call, "timeoutSeconds")
    int_option(call, "limit")
    text = call.option("resourceVersion")
    version = version_number(text or "0")
    if version is None:
        raise internal_without_reason(_bad_version(text))
    collection = ctx.collection(call.kind)
    send_initial = bool_option(call, "sendInitialEvents")
    bookmarks = bool_option(call, "allowWatchBookmarks")
    start = WatchStart(
        collection, call.version, call.namespace, selection, (), (), ctx.store.read_version(collection), False, bookmarks,
        timeout=float(timeout) if timeout and timeout > 0 else None,
    )  # fmt: skip
    if send_initial or (version == 0 and "sendInitialEvents" not in call.query):
        _refuse_future(ctx, version)
        items = _current(collection, call.namespace, selection)
        start.initial = items if selection.everything else [item for item in items if selection.matches(item.obj)]
        start.end_of_initial = send_initial and bookmarks
    elif version:
        _refuse_future(ctx, version)
        start.after = max(version, ctx.store.durable)
        start.replay = collection.since(version)
    return start
