"""Which devices are held and by whom, kept up to date one claim at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightkube.models.resource_v1 import ResourceClaim

__all__ = ["Allocated"]


class Allocated:
    """Every claim's status.allocation, plus the allocations that are decided but not yet written (assumed)."""

    def set_claim(self, claim: ResourceClaim) -> None:
        """A claim was added or changed. With an allocation it replaces an assumed one; without, an assumed one stays."""
        raise NotImplementedError

    def remove_claim(self, uid: str) -> None:
        raise NotImplementedError

    def assume(self, uid: str, result: Mapping[str, Any], *, holder: str = "") -> None:
        """Hold the devices of `result` (a plain AllocationResult) for the claim until it is written or forgotten."""
        raise NotImplementedError

    def forget(self, uid: str) -> None:
        """Drop what was assumed for the claim: the write failed, or the pod goes elsewhere."""
        raise NotImplementedError
