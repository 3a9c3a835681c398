"""The kinds outside resource.k8s.io: entries, defaults, validation."""

from __future__ import annotations

from drakit.api.kind import Kind

KINDS: tuple[Kind, ...] = ()
