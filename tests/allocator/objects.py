"""Small plain objects for allocator tests, and a cluster that holds them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lightkube.models.core_v1 import Node
from lightkube.models.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice

from drakit.allocator import (
    Allocated,
    Allocation,
    Budget,
    Failure,
    Features,
    Inventory,
    allocate,
    feasible_nodes,
    search,
)
from drakit.allocator.batch import NodeSet
from drakit.api.typed import from_plain

GPU = "gpu.example.com"
Plain = dict[str, Any]


def node(name: str = "node-1", **labels: str) -> Plain:
    return {"metadata": {"name": name, "labels": labels}}


def device(name: str, /, *, capacity: dict[str, Any] | None = None, **fields: Any) -> Plain:
    """Keyword arguments that are device fields stay so; all others become attributes."""
    known = {
        "taints", "consumesCounters", "allowMultipleAllocations", "bindingConditions", "bindsToNode", "nodeName", "allNodes",
        "nodeSelector", "bindingFailureConditions",
    }  # fmt: skip
    plain: Plain = {"name": name}
    attributes: Plain = {}
    for key, value in fields.items():
        if key in known:
            plain[key] = value
        elif isinstance(value, bool):
            attributes[key] = {"bool": value}
        elif isinstance(value, int):
            attributes[key] = {"int": value}
        elif isinstance(value, list):
            attributes[key] = {"strings": value}
        else:
            attributes[key] = {"string": value}
    if attributes:
        plain["attributes"] = attributes
    if capacity is not None:
        plain["capacity"] = {name: v if isinstance(v, dict) else {"value": v} for name, v in capacity.items()}
    return plain


def slice_(name: str, devices: Sequence[Plain] = (), /, *, driver: str = GPU, pool: str = "pool", **spec: Any) -> Plain:
    where = {"nodeName": "node-1"}
    if any(key in spec for key in ("nodeName", "allNodes", "nodeSelector", "perDeviceNodeSelection")):
        where = {}
    generation, count = spec.pop("generation", 1), spec.pop("count", 1)
    fields = {
        "driver": driver,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
        **where,
        **spec,
    }
    if devices:
        fields["devices"] = list(devices)
    return {"metadata": {"name": name}, "spec": fields}


def device_class(name: str = "any", *expressions: str, config: Sequence[Plain] = ()) -> Plain:
    spec: Plain = {"selectors": [{"cel": {"expression": text}} for text in expressions]}
    if config:
        spec["config"] = list(config)
    return {"metadata": {"name": name}, "spec": spec}


def request(name: str = "r", count: int = 1, *expressions: str, cls: str = "any", **fields: Any) -> Plain:
    return {"name": name, "exactly": exactly(count, *expressions, cls=cls, **fields)}


def exactly(count: int = 1, *expressions: str, cls: str = "any", **fields: Any) -> Plain:
    spec: Plain = {"deviceClassName": cls, "allocationMode": "ExactCount", "count": count, **fields}
    if fields.get("allocationMode") == "All":
        del spec["count"]
    if expressions:
        spec["selectors"] = [{"cel": {"expression": text}} for text in expressions]
    return spec


def subrequest(name: str, count: int = 1, *expressions: str, cls: str = "any", **fields: Any) -> Plain:
    return {"name": name, **exactly(count, *expressions, cls=cls, **fields)}


def claim(
    *requests: Plain, name: str = "claim", constraints: Sequence[Plain] = (), config: Sequence[Plain] = ()
) -> Plain:
    devices: Plain = {"requests": list(requests)}
    if constraints:
        devices["constraints"] = list(constraints)
    if config:
        devices["config"] = list(config)
    return {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}, "spec": {"devices": devices}}


def allocated_claim(plain: Plain, result: Plain) -> ResourceClaim:
    return from_plain(ResourceClaim, {**plain, "status": {"allocation": result}})


class Cluster:
    """An inventory and an allocated state, filled from plain objects."""

    def __init__(
        self,
        slices: Sequence[Plain] = (),
        *,
        classes: Sequence[Plain] | None = None,
        nodes: Sequence[Plain] | None = None,
        held: Sequence[Plain] = (),
        features: Features | None = None,
    ) -> None:
        self.inventory = Inventory()
        self.allocated = Allocated()
        self.features = features or Features()
        self.nodes = {plain["metadata"]["name"]: from_plain(Node, plain) for plain in nodes or [node()]}
        for typed in self.nodes.values():
            self.inventory.set_node(typed)
        for plain in [device_class()] if classes is None else classes:
            self.inventory.set_class(from_plain(DeviceClass, plain))
        for plain in slices:
            self.set_slice(plain)
        for number, result in enumerate(held):
            self.allocated.hold(f"holder-{number}", [result], holder=f"other/holder-{number}")

    def set_slice(self, plain: Plain) -> None:
        self.inventory.set_slice(from_plain(ResourceSlice, plain))

    def set_rule(self, name: str, taint: Plain, selector: Plain | None = None) -> None:
        spec: Plain = {"taint": taint}
        if selector is not None:
            spec["deviceSelector"] = selector
        self.inventory.set_rule(from_plain(DeviceTaintRule, {"metadata": {"name": name}, "spec": spec}))

    def allocate(self, *claims: Plain, on: str = "node-1", budget: Budget | None = None) -> Allocation | Failure:
        typed = [from_plain(ResourceClaim, plain) for plain in claims]
        return allocate(self.inventory, self.allocated, self.nodes[on], typed, features=self.features, budget=budget)

    def feasible(self, *claims: Plain) -> NodeSet:
        typed = [from_plain(ResourceClaim, plain) for plain in claims]
        return feasible_nodes(self.inventory, self.allocated, typed, features=self.features)


@contextmanager
def always_cutting() -> Iterator[None]:
    """Bounds, memory and symmetry from the first step on: small cases hardly get to them otherwise."""
    before = search.PLAIN_STEPS
    search.PLAIN_STEPS = -1_000_000
    try:
        yield
    finally:
        search.PLAIN_STEPS = before


def devices_of(outcome: Allocation | Failure) -> list[list[str]]:
    """Per claim `request=pool/device`."""
    assert isinstance(outcome, Allocation), outcome
    return [
        [f"{r['request']}={r['pool']}/{r['device']}" for r in result["devices"].get("results", ())]
        for result in outcome.results
    ]
