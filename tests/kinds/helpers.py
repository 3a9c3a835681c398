"""Shortcuts of the tests of kinds: write an object as an API server would, and read what it complained about."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from drakit.api import registry, strategy
from drakit.api.errors import StatusError
from drakit.api.gates import FeatureGates
from drakit.api.kind import Kind, WriteContext

Plain = dict[str, Any]

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
UID = "6f1c0a52-0000-4000-8000-000000000001"


def context(gates: str = "") -> WriteContext:
    return WriteContext(FeatureGates.parse(gates) if gates else FeatureGates.default(), NOW)


def kind(name: str, group: str = "") -> Kind:
    found = registry.by_kind(group, name)
    assert found is not None, name
    return found


def created(of: Kind, body: Plain, gates: str = "") -> Plain:
    """The object as stored after POST; raises StatusError."""
    obj = strategy.decode(of, of.versions[0].name, body).obj
    obj.setdefault("metadata", {}).setdefault("uid", UID)
    if of.namespaced:
        obj["metadata"].setdefault("namespace", "default")
    stored, _ = strategy.create(of, obj, context(gates))
    stored["metadata"]["resourceVersion"] = "1"
    return stored


def updated(of: Kind, new: Plain, old: Plain, subresource: str = "") -> Plain:
    body = strategy.decode(of, of.versions[0].name, new).obj
    stored, _ = strategy.update(of, body, old, context(), subresource)
    return stored


def causes(call: Any, *args: Any) -> list[str]:
    """What is wrong, as `field: text`, one per cause."""
    try:
        call(*args)
    except StatusError as error:
        return [f"{cause['field']}: {cause['message']}" for cause in error.causes]
    return []


def pod(**spec: Any) -> Plain:
    containers = spec.pop("containers", [{"name": "c", "image": "img:1"}])
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": containers, **spec},
    }


def template(**spec: Any) -> Plain:
    return {"metadata": {"labels": {"app": "x"}}, "spec": pod(**spec)["spec"]}
