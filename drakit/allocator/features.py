"""Which parts of the API the allocator honours: one flag per feature, as upstream's allocator names them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Protocol

__all__ = ["Features"]

_GATES = {
    "AdminAccess": "DRAAdminAccess",
    "CompatibilityGroups": "DRADeviceCompatibilityGroups",
    "ConsumableCapacity": "DRAConsumableCapacity",
    "DerivedAttributes": "DRADerivedAttributes",
    "DeviceBindingAndStatus": "DRADeviceBindingConditions",
    "DeviceTaints": "DRADeviceTaints",
    "FractionalCapacityRange": "DRAFractionalCapacityRange",
    "ListTypeAttributes": "DRAListTypeAttributes",
    "OptionalNodeOperations": "DRAOptionalNodeOperations",
    "PartitionableDevices": "DRAPartitionableDevices",
    "PrioritizedList": "DRAPrioritizedList",
}


class Gates(Protocol):
    def enabled(self, name: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class Features:
    """The allocator features that are on. The defaults are those of Kubernetes 1.37."""

    AdminAccess: bool = True
    CompatibilityGroups: bool = False
    ConsumableCapacity: bool = True
    DerivedAttributes: bool = False
    DeviceBindingAndStatus: bool = True
    DeviceTaints: bool = True
    FractionalCapacityRange: bool = False
    ListTypeAttributes: bool = False
    OptionalNodeOperations: bool = False
    PartitionableDevices: bool = True
    PrioritizedList: bool = True

    # Upstream has three allocators and takes the first that knows all features that are on.

    @property
    def oldest(self) -> bool:
        """Upstream's "stable" allocator does the work. It knows no distinctAttribute and no order among slices."""
        newer = self.ConsumableCapacity or self.DeviceBindingAndStatus or self.FractionalCapacityRange
        return not newer and not self.newest

    @property
    def newest(self) -> bool:
        """Upstream's "experimental" allocator does the work: the only one that looks at skipNodeOperations."""
        return (
            self.CompatibilityGroups or self.DerivedAttributes or self.ListTypeAttributes or self.OptionalNodeOperations
        )

    @classmethod
    def of(cls, *names: str) -> Features:
        """Exactly these on, all others off."""
        unknown = set(names) - _GATES.keys()
        if unknown:
            raise ValueError(f"unknown allocator features: {', '.join(sorted(unknown))}")
        return cls(**{field.name: field.name in names for field in fields(cls)})

    @classmethod
    def everything(cls) -> Features:
        return cls.of(*_GATES)

    @classmethod
    def from_gates(cls, gates: Gates) -> Features:
        found = {name: gates.enabled(gate) for name, gate in _GATES.items()}
        # Upstream joins two gates here: conditions are reported in status.devices.
        found["DeviceBindingAndStatus"] &= gates.enabled("DRAResourceClaimDeviceStatus")
        return cls(**found)
