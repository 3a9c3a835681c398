"""What the tests of `drakit.api` share: a context, and the way of an object in."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from drakit.api import registry, strategy
from drakit.api.errors import StatusError
from drakit.api.gates import FeatureGates
from drakit.api.kind import Kind, WriteContext

Object = dict[str, Any]
NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
LATER = datetime(2026, 3, 4, 6, 0, 0, tzinfo=UTC)


def context(gates: str = "", now: datetime = NOW) -> WriteContext:
    return WriteContext(FeatureGates.parse(gates), now)


def kind_of(obj: Object) -> tuple[Kind, str]:
    found = registry.by_api_version(obj["apiVersion"], obj["kind"])
    assert found is not None
    return found


def create(obj: Object, gates: str = "") -> Object:
    """The object as it would be stored."""
    kind, version = kind_of(obj)
    decoded = strategy.decode(kind, version, obj).obj
    decoded["metadata"]["uid"] = "5d2f3a5e-0000-4000-8000-000000000000"
    stored, _ = strategy.create(kind, decoded, context(gates))
    stored["metadata"]["resourceVersion"] = "1"
    return stored


def update(old: Object, new: Object, subresource: str = "", *, gates: str = "", now: datetime = LATER) -> Object:
    kind, version = kind_of(new)
    decoded = strategy.decode(kind, version, new).obj
    stored, _ = strategy.update(kind, decoded, old, context(gates, now), subresource)
    return stored


def causes(action: Callable[[], Any]) -> list[tuple[str, str]]:
    """(reason, field) of what is wrong; fails when nothing is."""
    with pytest.raises(StatusError) as caught:
        action()
    return sorted((cause["reason"], cause["field"]) for cause in caught.value.causes)
