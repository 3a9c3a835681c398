"""Taints and tolerations of devices: any taint that blocks must be tolerated by the request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lightkube.models.resource_v1 import DeviceToleration

from drakit.allocator.devices import Taint, Traits
from drakit.allocator.pools import Layout

__all__ = ["taints_in_the_way", "tolerates", "untolerated"]


def tolerates(toleration: DeviceToleration, taint: Taint) -> bool:
    """tolerationSeconds plays no part in allocation."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in (None, "", "Equal") and (toleration.value or "") == taint.value


def taints_in_the_way(device: Traits, tolerations: Sequence[DeviceToleration]) -> Iterator[Taint]:
    return (
        taint for taint in device.blocking_taints if not any(tolerates(toleration, taint) for toleration in tolerations)
    )


def untolerated(layout: Layout, tolerations: Sequence[DeviceToleration], among: int) -> int:
    """Mask of the devices, of those asked about, whose taints keep this request away. A cluster may be full of tainted devices that
    nobody here wants."""
    mask, bits = 0, layout.tainted & among
    while bits:
        low = bits & -bits
        bits ^= low
        if next(taints_in_the_way(layout.traits[low.bit_length() - 1], tolerations), None) is not None:
            mask |= low
    return mask
