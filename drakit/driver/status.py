"""Writes status.devices of a claim: what the driver knows about the devices it prepared, by server-side apply under its own name."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from lightkube.models.resource_v1 import ResourceClaim

from drakit.api.errors import StatusError
from drakit.client import Client
from drakit.driver.metadata import ClaimRef

__all__ = ["report"]

log = logging.getLogger(__name__)


async def report(client: Client, driver: str, claim: ClaimRef, devices: Sequence[Mapping[str, Any]]) -> bool:
    """True when stored. A failure is logged, not raised: a pod can run without it, and the next prepare tries again."""
    patch = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": claim.name, "namespace": claim.namespace, "uid": claim.uid},
        "status": {"devices": [dict(d) for d in devices]},
    }
    try:
        await client.patch(
            ResourceClaim,
            claim.name,
            patch,
            namespace=claim.namespace,
            kind="apply",
            subresource="status",
            field_manager=driver,
            force=True,
        )
    except StatusError as error:
        log.warning("cannot report devices of claim %s/%s: %s", claim.namespace, claim.name, error)
        return False
    return True
