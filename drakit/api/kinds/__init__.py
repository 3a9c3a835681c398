"""The kinds outside resource.k8s.io: entries, defaults, validation. One module per API group; `pods` and `events` have their own.

Groups stand in the order in which Kubernetes lists them, because discovery keeps it.
"""

from __future__ import annotations

from drakit.api.kind import Kind
from drakit.api.kinds import (
    admissionregistration,
    apps,
    batch,
    coordination,
    core,
    events,
    pods,
    policy,
    quota,
    rbac,
    reviews,
    scheduling,
)

__all__ = ["KINDS"]

KINDS: tuple[Kind, ...] = (
    *core.KINDS,
    *quota.KINDS,
    *pods.KINDS,
    *apps.KINDS,
    *events.KINDS,
    *reviews.KINDS,
    *batch.KINDS,
    *policy.KINDS,
    *rbac.KINDS,
    *admissionregistration.KINDS,
    *scheduling.KINDS,
    *coordination.KINDS,
)
