"""What can go wrong in a driver, by what the caller does about it.

DriverError
├── ClaimError      this claim cannot be prepared: reported to the kubelet, which retries
├── UnsafeName      a name that may not become a path or a CDI name: reported, never retried
├── CdiError        a CDI file is invalid or cannot be written
├── CheckpointError the driver's own state cannot be read: the driver does not start
└── PublishError    ResourceSlices could not be written: retried in the background
"""

from __future__ import annotations


class DriverError(Exception):
    """Base of all; the text is an address, a cause and where possible a remedy."""


class ClaimError(DriverError):
    pass


class UnsafeName(DriverError, ValueError):
    pass


class CdiError(DriverError):
    pass


class CheckpointError(DriverError):
    pass


class PublishError(DriverError):
    pass
