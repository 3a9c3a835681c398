"""Manifests: what people write and hand to kubectl, read with positions and checked before any server sees it.

`read` gives the documents of a text, `check` what is wrong with one: the line, the field, Kubernetes' own words, and what to change.
"""

from __future__ import annotations

from drakit.api.manifests.checking import Problem, check, check_text
from drakit.api.manifests.reading import Document, ManifestError, read

__all__ = ["Document", "ManifestError", "Problem", "check", "check_text", "read"]
