"""Admission: what the control plane fills in and refuses after authorization and before validation.

One module per subject; `plugins` lists them in Kubernetes' order. Each is an Admission of `apiserver.auth`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Lookup(Protocol):
    """The store as admission sees it: reads from memory, never waits."""

    def get(self, group: str, plural: str, namespace: str, name: str) -> Mapping[str, Any] | None: ...

    def list(self, group: str, plural: str, namespace: str = "") -> list[dict[str, Any]]: ...
