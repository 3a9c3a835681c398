"""Shorthands for registry entries: what nearly every kind outside resource.k8s.io has in common."""

from __future__ import annotations

from typing import Any

from drakit.api.kind import Kind, Strategy, Version

__all__ = ["READ_WRITE", "STATUS", "kind"]

READ_WRITE = ("get", "patch", "update")
STATUS = {"status": READ_WRITE}


def kind(
    model: type, plural: str, strategy: Strategy, *, group: str = "", namespaced: bool = True, **more: Any
) -> Kind:
    """An entry with one version, v1, named like its model."""
    return Kind(
        group=group,
        kind=model.__name__,
        plural=plural,
        namespaced=namespaced,
        versions=(Version("v1", model),),
        strategy=strategy,
        **more,
    )
