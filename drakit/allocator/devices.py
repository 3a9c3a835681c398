"""Devices in the form the allocator computes with: interned shapes and traits, and one compact record per slice.

A Shape is what CEL sees of a device (driver, attributes, capacity); devices that look alike share one, so selectors
are evaluated once per shape. Traits are everything else that matters (counters, taints, binding, placement).
The typed slices are not kept: 160,000 devices must fit in memory.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from lightkube.models.core_v1 import NodeSelector
from lightkube.models.resource_v1 import Device, ResourceSlice

from drakit.allocator.placement import Placement, parse_placement
from drakit.api.quantity import Quantity

__all__ = ["Capacity", "Consumption", "Interner", "Policy", "Shape", "SliceRecord", "Taint", "Traits", "nano"]

PoolKey = tuple[str, str]  # driver, pool name
DeviceKey = tuple[str, str, str]  # driver, pool, device


@dataclass(frozen=True, slots=True)
class Policy:
    """A capacity's requestPolicy, parsed."""

    default: Quantity | None
    values: tuple[Quantity, ...] | None  # None: no validValues
    has_range: bool
    minimum: Quantity | None
    maximum: Quantity | None
    step: Quantity | None


@dataclass(frozen=True, slots=True)
class Capacity:
    value: Quantity
    policy: Policy | None


@dataclass(frozen=True, slots=True)
class Consumption:
    """What a device takes from one counter set, and with whom it may share that set."""

    counter_set: str
    counters: tuple[tuple[str, int], ...]  # in nano units: exact, and integers add fast
    groups: frozenset[str]


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str
    effect: str

    @property
    def blocks(self) -> bool:
        # Unknown effects and None never prevent allocation.
        return self.effect in ("NoSchedule", "NoExecute")

    def __str__(self) -> str:
        value = f"={self.value}" if self.value else ""
        return f"{self.key}{value}:{self.effect}"


class Capacities:
    """All capacities of a device. Interned apart from the shape: far fewer are distinct."""

    __slots__ = ("_parsed", "plain")

    def __init__(self, plain: Mapping[str, Mapping[str, Any]]) -> None:
        self.plain = plain
        self._parsed: dict[str, Capacity] | None = None

    def parsed(self) -> dict[str, Capacity]:
        if self._parsed is None:
            self._parsed = {name: _parse_capacity(value) for name, value in self.plain.items()}
        return self._parsed


class Shape:
    """What expressions and constraints can see of a device. Interned: identity is equality."""

    __slots__ = ("allow_multiple", "attributes", "capacities", "driver", "regular")

    def __init__(
        self, driver: str, attributes: Mapping[str, Mapping[str, Any]], capacities: Capacities, allow_multiple: bool
    ) -> None:
        self.driver = driver
        self.attributes = attributes
        self.capacities = capacities
        self.allow_multiple = allow_multiple
        self.regular: bool | None = None  # noted by `reads`

    @property
    def plain_capacity(self) -> Mapping[str, Mapping[str, Any]]:
        return self.capacities.plain

    def plain(self) -> dict[str, Any]:
        """The device as CEL's activation wants it (its name is not visible to expressions)."""
        device: dict[str, Any] = {"name": ""}
        if self.attributes:
            device["attributes"] = self.attributes
        if self.plain_capacity:
            device["capacity"] = self.plain_capacity
        if self.allow_multiple:
            device["allowMultipleAllocations"] = True
        return device

    @property
    def capacity(self) -> dict[str, Capacity]:
        return self.capacities.parsed()

    def attribute(self, name: str) -> Mapping[str, Any] | None:
        """By fully qualified name; an attribute without a domain belongs to the driver's."""
        found = self.attributes.get(name)
        if found is None:
            domain, slash, identifier = name.partition("/")
            if slash and domain == self.driver:
                found = self.attributes.get(identifier)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Traits:
    """What else decides about a device: interned, and for most devices the same empty one."""

    consumes: tuple[Consumption, ...] = ()
    taints: tuple[Taint, ...] = ()
    binding_conditions: tuple[str, ...] | None = None
    binding_failure_conditions: tuple[str, ...] | None = None
    binds_to_node: bool = False
    placement: Placement | None = None  # its own, for slices with perDeviceNodeSelection
    blocking_taints: tuple[Taint, ...] = field(init=False)  # made once: decisions ask for each device

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocking_taints", tuple(taint for taint in self.taints if taint.blocks))

    @property
    def uses_groups(self) -> bool:
        return any(consumption.groups for consumption in self.consumes)


class SliceRecord:
    """One ResourceSlice, compact. Never changed once made; an update makes a new one."""

    __slots__ = (
        "count",
        "driver",
        "generation",
        "has_counters",
        "name",
        "names",
        "node_name",
        "per_device",
        "per_device_is_set",
        "placement",
        "pool",
        "published",
        "shapes",
        "shared_counters",
        "skip_node_operations",
        "traits",
        "uses_groups",
    )

    def __init__(self, slice: ResourceSlice, interner: Interner) -> None:
        spec = slice.spec
        devices = spec.devices or ()
        self.name: str = slice.metadata.name if slice.metadata is not None and slice.metadata.name else ""
        self.driver = interner.text(spec.driver)
        self.pool = interner.text(spec.pool.name)
        self.generation: int = spec.pool.generation or 0
        self.count: int = spec.pool.resourceSliceCount or 0
        self.node_name: str = spec.nodeName or ""
        self.placement = parse_placement(spec.nodeName, spec.allNodes, spec.nodeSelector)
        self.per_device = bool(spec.perDeviceNodeSelection)
        self.per_device_is_set = spec.perDeviceNodeSelection is not None
        self.has_counters = bool(spec.sharedCounters)
        self.shared_counters: tuple[tuple[str, Mapping[str, int]], ...] = tuple(
            (counter_set.name, {name: nano(c["value"]) for name, c in (counter_set.counters or {}).items()})
            for counter_set in spec.sharedCounters or ()
        )
        self.skip_node_operations: tuple[str, ...] = tuple(spec.skipNodeOperations or ())
        self.names: tuple[str, ...] = tuple(interner.text(device.name) for device in devices)
        self.shapes: tuple[Shape, ...] = tuple(interner.shape(self.driver, device) for device in devices)
        self.published: tuple[Traits, ...] = tuple(interner.traits(device, self.per_device) for device in devices)
        self.traits = self.published  # with the taints of DeviceTaintRules
        self.uses_groups = any(traits.uses_groups for traits in self.traits)

    @property
    def pool_key(self) -> PoolKey:
        return (self.driver, self.pool)

    def with_rules(self, taints_of: Callable[[str], tuple[Taint, ...]], interner: Interner) -> SliceRecord:
        """The same slice with the taints that rules add to each device, by device name."""
        changed = copy.copy(self)
        changed.traits = tuple(
            interner.tainted(traits, taints_of(name)) for name, traits in zip(self.names, self.published, strict=True)
        )
        return changed


class Interner:
    """Makes equal things identical, so that results computed for one are found for all."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._shapes: dict[bytes, Shape] = {}
        self._capacities: dict[bytes, Capacities] = {}
        self._values: dict[tuple[str, Any], Mapping[str, Any]] = {}
        self._traits: dict[bytes, Traits] = {}
        self._tainted: dict[tuple[Traits, tuple[Taint, ...]], Traits] = {}
        self._plain_traits = Traits()
        self._encode = msgspec.json.Encoder(order="sorted").encode

    def text(self, text: str) -> str:
        return self._texts.setdefault(text, text)

    def shape(self, driver: str, device: Device) -> Shape:
        allow_multiple = bool(device.allowMultipleAllocations)
        key = _digest(self._encode((driver, device.attributes, device.capacity, allow_multiple)))
        found = self._shapes.get(key)
        if found is None:
            capacity = _digest(self._encode(device.capacity))
            if capacity not in self._capacities:
                self._capacities[capacity] = Capacities(device.capacity or {})
            attributes = {self.text(name): self._value(value) for name, value in (device.attributes or {}).items()}
            found = self._shapes[key] = Shape(driver, attributes, self._capacities[capacity], allow_multiple)
        return found

    def _value(self, attribute: Mapping[str, Any]) -> Mapping[str, Any]:
        # Most values are common to many devices even where the devices differ.
        if len(attribute) != 1:
            return attribute
        ((kind, value),) = attribute.items()
        if isinstance(value, list):
            return attribute
        return self._values.setdefault((kind, value), attribute)

    def traits(self, device: Device, per_device: bool) -> Traits:
        placed = per_device and (device.nodeName, device.allNodes, device.nodeSelector) != (None, None, None)
        if not (
            device.consumesCounters
            or device.taints
            or device.bindingConditions is not None
            or device.bindingFailureConditions is not None
            or device.bindsToNode
            or placed
        ):
            return self._plain_traits
        where = (device.nodeName, device.allNodes, device.nodeSelector) if per_device else ()
        taints = tuple(Taint(taint.key, taint.value or "", taint.effect) for taint in device.taints or ())
        key = self._encode(
            (
                device.consumesCounters,
                [(taint.key, taint.value, taint.effect) for taint in taints],
                device.bindingConditions,
                device.bindingFailureConditions,
                bool(device.bindsToNode),
                where,
            )
        )
        found = self._traits.get(key)
        if found is None:
            found = self._traits[key] = _make_traits(device, taints, per_device)
        return found

    def tainted(self, traits: Traits, taints: tuple[Taint, ...]) -> Traits:
        if not taints:
            return traits
        found = self._tainted.get((traits, taints))
        if found is None:
            found = dataclasses.replace(traits, taints=traits.taints + taints)
            self._tainted[traits, taints] = found
        return found

    def forget_unused(self, shapes: set[Shape], traits: set[Traits]) -> None:
        """Drop what no slice uses any more; the inventory calls this when much has gone."""
        self._shapes = {key: shape for key, shape in self._shapes.items() if shape in shapes}
        self._values = {}
        self._traits = {key: trait for key, trait in self._traits.items() if trait in traits}
        self._tainted = {key: trait for key, trait in self._tainted.items() if trait in traits}


def _make_traits(device: Device, taints: tuple[Taint, ...], per_device: bool) -> Traits:
    return Traits(
        consumes=tuple(
            Consumption(
                counter_set=consumption.counterSet,
                counters=tuple((name, nano(c["value"])) for name, c in sorted(consumption.counters.items())),
                groups=frozenset(consumption.compatibilityGroups or ()),
            )
            for consumption in device.consumesCounters or ()
        ),
        taints=taints,
        binding_conditions=None if device.bindingConditions is None else tuple(device.bindingConditions),
        binding_failure_conditions=None
        if device.bindingFailureConditions is None
        else tuple(device.bindingFailureConditions),
        binds_to_node=bool(device.bindsToNode),
        placement=_device_placement(device) if per_device else None,
    )


def _device_placement(device: Device) -> Placement | None:
    selector: NodeSelector | None = device.nodeSelector
    return parse_placement(device.nodeName, device.allNodes, selector)


def _parse_capacity(plain: Mapping[str, Any]) -> Capacity:
    return Capacity(value=Quantity.parse(_text(plain["value"])), policy=_parse_policy(plain.get("requestPolicy")))


def _parse_policy(plain: Mapping[str, Any] | None) -> Policy | None:
    if plain is None:
        return None
    span = plain.get("validRange")
    values = plain.get("validValues")
    return Policy(
        default=_quantity(plain.get("default")),
        values=None if values is None else tuple(Quantity.parse(_text(value)) for value in values),
        has_range=span is not None,
        minimum=_quantity(span.get("min")) if span else None,
        maximum=_quantity(span.get("max")) if span else None,
        step=_quantity(span.get("step")) if span else None,
    )


def _quantity(value: Any) -> Quantity | None:
    return None if value is None else Quantity.parse(_text(value))


def _digest(encoded: bytes) -> bytes:
    return hashlib.blake2b(encoded, digest_size=16).digest()


def nano(value: Any) -> int:
    """A quantity's text in nano units, the finest that Kubernetes keeps."""
    return Quantity.parse(_text(value)).scaled(-9)


def _text(value: Any) -> str:
    # JSON numbers are legal where a quantity is expected.
    return value if isinstance(value, str) else str(value)
