"""Events: one stored form (core/v1) and two views of it. events.k8s.io renames fields and asks for more of a new event."""

from __future__ import annotations

from lightkube.models import core_v1, events_v1

from drakit.api import formats
from drakit.api.errors import Errors, FieldError
from drakit.api.kind import Kind, Object, Strategy, WriteContext, text_at
from drakit.api.kinds import checks, entry

__all__ = ["EVENT", "KINDS"]


# core/v1 -> events.k8s.io/v1
_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_CORE_NAMES = {new: old for old, new in _NAMES.items()}
# Written by the core form even when empty, left out by the other.
_OMITTED_WHEN_EMPTY = (
    "reportingController",
    "reportingInstance",
    "note",
    "deprecatedCount",
    "action",
    "reason",
    "type",
)


def _to_core(event: Object) -> Object:
    core = {_CORE_NAMES.get(name, name): value for name, value in event.items()}
    for name in ("reportingComponent", "reportingInstance"):
        core.setdefault(name, "")
    core.setdefault("source", {})
    core.setdefault("involvedObject", {})
    return core


def _from_core(event: Object) -> Object:
    renamed = {_NAMES.get(name, name): value for name, value in event.items()}
    return {name: value for name, value in renamed.items() if value not in ("", 0) or name not in _OMITTED_WHEN_EMPTY}


def _validate(event: Object, ctx: WriteContext) -> Errors:
    return _validate_common(event, "reportingComponent")


def _validate_strictly(event: Object, ctx: WriteContext) -> Errors:
    """A new event written through events.k8s.io."""
    errors = _validate_common(event, "reportingController")
    series = event.get("series")
    if series is not None:
        if series.get("count", 0) < 2:
            errors.append(FieldError.invalid("series.count", "", "should be at least 2"))
        if not series.get("lastObservedTime"):
            errors.append(FieldError.required("series.lastObservedTime"))
    if not event.get("eventTime"):
        errors.append(FieldError.required("eventTime"))
    if event.get("type") not in ("Normal", "Warning"):
        errors.append(FieldError.invalid("type", "", "has invalid value: " + (event.get("type") or "")))
    for name in ("firstTimestamp", "lastTimestamp", "count", "source"):
        if event.get(name):
            errors.append(FieldError.invalid(name, "", "needs to be unset"))
    return errors


def _validate_common(event: Object, controller_field: str) -> Errors:
    """Only events of the new style have an eventTime, and only they must say who reports what."""
    involved = (event.get("involvedObject") or {}).get("namespace") or ""
    namespace = event["metadata"].get("namespace") or ""
    if event.get("eventTime"):
        matches = bool(involved) or namespace in ("default", "kube-system")
    else:
        matches = namespace in ("", "default") if not involved else involved == namespace
    errors: Errors = []
    if not matches:
        errors.append(FieldError.invalid("involvedObject.namespace", involved, "does not match event.namespace"))
    return errors + _validate_reporter(event, controller_field) if event.get("eventTime") else errors


def _validate_reporter(event: Object, controller_field: str) -> Errors:
    errors: Errors = []
    controller = event.get("reportingComponent") or ""
    if not controller:
        errors.append(FieldError.required(controller_field))
    errors += checks.qualified_name(controller, controller_field)
    for name in ("reportingInstance", "action", "reason"):
        value = event.get(name) or ""
        if not value:
            errors.append(FieldError.required(name))
        elif formats.length(value) > 128:
            errors.append(FieldError.invalid(name, "", "can have at most 128 characters"))
    if formats.length(event.get("message") or "") > 1024:
        errors.append(FieldError.invalid("message", "", "can have at most 1024 characters"))
    return errors


def _validate_update(new: Object, old: Object, ctx: WriteContext) -> Errors:
    return _validate(new, ctx)


def _source(event: Object) -> str:
    return (event.get("source") or {}).get("component") or event.get("reportingComponent") or ""


_SELECTABLE = {
    **{
        f"involvedObject.{name}": text_at("involvedObject", name)
        for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    },
    "reason": text_at("reason"),
    "reportingComponent": text_at("reportingComponent"),
    "source": _source,
    "type": text_at("type"),
}
EVENT = entry.kind(
    core_v1.Event,
    "events",
    Strategy(
        validate=_validate,
        validate_update=_validate_update,
        own_metadata_rules=False,
        known_finalizers=False,
        allow_create_on_update=True,
    ),
    short_names=("ev",),
    selectable=_SELECTABLE,
    delete_returns_status=frozenset({"v1"}),
    default_propagation=None,
)
NEW_EVENT = entry.kind(
    events_v1.Event,
    "events",
    Strategy(
        to_storage={"v1": _to_core},
        from_storage={"v1": _from_core},
        validate=_validate_strictly,
        validate_update=_validate_update,
        validate_name=formats.name_is(formats.dns_subdomain),
        allow_create_on_update=True,
    ),
    group="events.k8s.io",
    short_names=("ev",),
    selectable={
        name.replace("involvedObject.", "regarding.").replace("reportingComponent", "reportingController"): read
        for name, read in _SELECTABLE.items()
    },
    delete_returns_status=frozenset({"v1"}),
    default_propagation=None,
    stored_as=EVENT,
)
KINDS: tuple[Kind, ...] = (EVENT, NEW_EVENT)
