"""What a container imports to read its device metadata; the standard library is all it needs.

from drakit.workload import read_claim, read_template_claim
metadata = read_claim("gpu-claim", "gpu")
print(metadata.requests[0].devices[0].attributes["model"])
"""

from drakit.workload._metadata import (
    CONTAINER_DIRECTORY,
    GROUP,
    VERSIONS,
    Device,
    DeviceMetadata,
    MetadataError,
    NetworkData,
    Request,
    decode,
    read_claim,
    read_template_claim,
)

__all__ = [
    "CONTAINER_DIRECTORY",
    "GROUP",
    "VERSIONS",
    "Device",
    "DeviceMetadata",
    "MetadataError",
    "NetworkData",
    "Request",
    "decode",
    "read_claim",
    "read_template_claim",
]
