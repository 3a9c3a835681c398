"""What the cluster offers: slices, classes, taint rules and nodes, kept up to date one object at a time."""

from __future__ import annotations

from lightkube.models.core_v1 import Node
from lightkube.models.resource_v1 import DeviceClass, DeviceTaintRule, ResourceSlice

__all__ = ["Inventory"]


class Inventory:
    """Devices and where they can be reached. Give it every object of each kind, and every change."""

    def set_slice(self, slice: ResourceSlice) -> None:
        raise NotImplementedError

    def remove_slice(self, name: str) -> None:
        raise NotImplementedError

    def set_rule(self, rule: DeviceTaintRule) -> None:
        raise NotImplementedError

    def remove_rule(self, name: str) -> None:
        raise NotImplementedError

    def set_class(self, cls: DeviceClass) -> None:
        raise NotImplementedError

    def remove_class(self, name: str) -> None:
        raise NotImplementedError

    def set_node(self, node: Node) -> None:
        """Nodes are needed by `feasible_nodes` only; `allocate` takes the node itself."""
        raise NotImplementedError

    def remove_node(self, name: str) -> None:
        raise NotImplementedError
