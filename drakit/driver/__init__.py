"""The SDK for DRA drivers: write a `Driver`, run it with a `Plugin`. See docs/driver-sdk.md."""

import os

# A driver may start helper processes while gRPC's threads run: its fork handlers must not run in them. Set before gRPC is imported.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

from drakit.driver.base import Claim, Driver, Health, PreparedDevice
from drakit.driver.errors import CdiError, CheckpointError, ClaimError, DriverError, PublishError, UnsafeName
from drakit.driver.metadata import ClaimRef, MetadataDevice
from drakit.driver.plugin import Plugin
from drakit.driver.publisher import Publisher
from drakit.driver.slices import Pool

__all__ = [
    "CdiError",
    "CheckpointError",
    "Claim",
    "ClaimError",
    "ClaimRef",
    "Driver",
    "DriverError",
    "Health",
    "MetadataDevice",
    "Plugin",
    "Pool",
    "PreparedDevice",
    "PublishError",
    "Publisher",
    "UnsafeName",
]
