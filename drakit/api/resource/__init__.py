"""The kinds of resource.k8s.io: defaults, conversion, validation. One module per kind."""

from __future__ import annotations

from drakit.api.kind import Kind
from drakit.api.resource.kinds import KINDS

__all__ = ["KINDS", "Kind"]
