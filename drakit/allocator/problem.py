"""Claims and a node view turned into the form that is searched: slots, alternatives, candidate masks.

A slot is one request; its alternatives are itself, or its subrequests. Everything that does not depend on the search
(selectors, busy devices, taints, static capacity, gates) is decided here, as bit masks over the node's devices.
The checks and their order are those of upstream's validateDeviceRequest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lightkube.models.core_v1 import Node
from lightkube.models.resource_v1 import (
    DeviceClass,
    DeviceRequest,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)

from drakit.allocator.allocated import OPERATOR, Allocated
from drakit.allocator.capacity import CapacityFault, CapacityRule, Consumed
from drakit.allocator.claims import class_expressions, constraints_of, expressions, name_of, requests_of
from drakit.allocator.constraints import Constraint, Elements, elements_of
from drakit.allocator.counters import PoolCounters
from drakit.allocator.devices import Shape
from drakit.allocator.errors import Fatal
from drakit.allocator.features import Features
from drakit.allocator.inventory import Inventory
from drakit.allocator.pools import INCOMPLETE, INVALID, OK, NodeView
from drakit.allocator.selection import DerivedFault, Fault, Selection
from drakit.allocator.taints import untolerated

__all__ = ["MAX_RESULTS", "Alternative", "Problem", "Slot", "bits"]

MAX_RESULTS = 32
_DECLARED = "DRAOptionalNodeOperations"


class Alternative:
    """One way to satisfy a slot: a request, or one of its subrequests."""

    __slots__ = (
        "admin",
        "all_mode",
        "capacity",
        "cls",
        "constraints",
        "count",
        "derived",
        "devices",
        "doubtful",
        "elements",
        "full_name",
        "groups",
        "hazards",
        "mask",
        "name",
        "selection",
        "slot",
        "spec",
        "usable",
    )

    def __init__(self, slot: Slot, spec: ExactDeviceRequest | DeviceSubRequest, name: str, full_name: str) -> None:
        self.slot = slot
        self.spec = spec
        self.name = name
        self.full_name = full_name
        self.admin = bool(getattr(spec, "adminAccess", None))
        self.all_mode = spec.allocationMode == "All"
        self.count = 0
        self.cls: DeviceClass
        self.selection: Selection
        self.capacity: CapacityRule | None = None
        self.derived: dict[str, str] = {}
        self.constraints: list[Constraint] = []
        self.devices: list[int] = []  # mode All: exactly these
        self.mask = 0  # candidates: may be chosen as far as nothing dynamic speaks against it
        self.usable = 0  # mode All: passes everything that is checked before the constraints
        self.hazards = 0  # looking at one of these is a fatal error
        self.doubtful = 0  # choosing one of these may be: a derived attribute fails on it
        self.elements: list[dict[Shape, Elements | DerivedFault | None]] = []  # per constraint
        self.groups: list[dict[tuple[str, Any], int]] = []  # per constraint: element -> devices that have it

    @property
    def claim(self) -> ResourceClaim:
        return self.slot.claim

    @property
    def tolerations(self) -> Sequence[DeviceToleration]:
        return self.spec.tolerations or ()


class Slot:
    __slots__ = ("alternatives", "claim", "claim_index", "claim_name", "is_list", "request")

    def __init__(self, claim: ResourceClaim, claim_index: int, claim_name: str, request: DeviceRequest) -> None:
        self.claim = claim
        self.claim_index = claim_index
        self.claim_name = claim_name
        self.request = request
        self.is_list = bool(request.firstAvailable)
        self.alternatives: list[Alternative] = []


class Problem:
    """What is to be searched. Building it raises Fatal where upstream refuses before it searches."""

    def __init__(
        self,
        inventory: Inventory,
        allocated: Allocated,
        view: NodeView,
        node: Node,
        claims: Sequence[ResourceClaim],
        features: Features,
    ) -> None:
        self.inventory = inventory
        self.allocated = allocated
        self.view = view
        self.node = node
        self.claims = claims
        self.features = features
        self.slots: list[Slot] = []
        self.constraints: list[list[Constraint]] = []
        self.asker = OPERATOR
        self.shareable = 0
        self.dedicated = 0
        self.shared = 0  # devices with shares of other claims
        self._shapes: list[Shape] | None = None
        self.counters: list[PoolCounters] = []
        self._read_state()
        for index, claim in enumerate(claims):
            self._add_claim(index, claim)

    # The state of the node's devices

    def _read_state(self) -> None:
        consuming = 0
        for offset, pool in self.view.parts():
            layout = pool.layout
            if self.features.ConsumableCapacity:
                self.shareable |= layout.shareable << offset
            held = self.allocated.pools.get(pool.key)
            if held is not None:
                dedicated, shared = held.masks(layout)
                self.dedicated |= dedicated << offset
                self.shared |= shared << offset
            consuming |= layout.consuming << offset
        if not self.features.ConsumableCapacity:
            # Every holder counts as the only one.
            self.dedicated |= self.shared
        self._consuming = consuming
        if consuming and self.features.PartitionableDevices:
            self._read_counters()

    def _read_counters(self) -> None:
        for offset, pool in self.view.parts():
            if pool.layout.consuming:
                held = self.allocated.pools.get(pool.key)
                self.counters.append(PoolCounters(pool, offset, held, groups=self.features.CompatibilityGroups))

    @property
    def shapes(self) -> list[Shape]:
        """By device number."""
        if self._shapes is None:
            self._shapes = [shape for _, pool in self.view.parts() for shape in pool.layout.shapes]
        return self._shapes

    # Claims and requests

    def _add_claim(self, index: int, claim: ResourceClaim) -> None:
        name = name_of(claim)
        slots: list[Slot] = []
        fewest = 0
        for request in requests_of(claim):
            slot = Slot(claim, index, name, request)
            self._check_gates(slot)
            slot.alternatives = self._alternatives(slot)
            fewest += min(alternative.count for alternative in slot.alternatives)
            slots.append(slot)
        if fewest > MAX_RESULTS:
            raise Fatal(
                f"claim {name}: number of requested devices {fewest} exceeds the claim limit of {MAX_RESULTS}",
                "too-many-devices",
                claim=name,
            )
        constraints = []
        for number, constraint in enumerate(constraints_of(claim)):
            known = constraint.distinctAttribute is not None and not self.features.oldest
            if constraint.matchAttribute is None and not known:
                raise Fatal(
                    f"claim {name}, constraint #{number}: empty constraint (unsupported constraint type?)",
                    "constraint-type",
                    claim=name,
                    constraint=str(number),
                )
            constraints.append(Constraint(constraint, number, lists=self.features.ListTypeAttributes))
        self.constraints.append(constraints)
        for slot in slots:
            for alternative in slot.alternatives:
                self._constrain(alternative, constraints)
        self.slots += slots

    def _check_gates(self, slot: Slot) -> None:
        request, claim = slot.request, slot.claim_name
        if slot.is_list and not self.features.PrioritizedList:
            raise Fatal(
                f"claim {claim}, request {request.name}: has subrequests, but the DRAPrioritizedList feature is disabled",
                "feature-disabled",
                claim=claim,
                request=request.name,
            )
        if self.features.ConsumableCapacity or self.features.oldest:
            return  # the oldest allocator has never heard of capacity requests
        candidates: list[tuple[str, str, Any]] = [("request", request.name, request.exactly)]
        candidates += [("subrequest", sub.name, sub) for sub in request.firstAvailable or ()]
        for word, name, spec in candidates:
            if spec is not None and spec.capacity is not None:
                raise Fatal(
                    f"claim {claim}, {word} {name}: has capacity requests, but the DRAConsumableCapacity feature is disabled",
                    "feature-disabled",
                    claim=claim,
                    request=name,
                )

    def _alternatives(self, slot: Slot) -> list[Alternative]:
        request = slot.request
        if slot.is_list:
            found = [
                Alternative(slot, sub, sub.name, f"{request.name}/{sub.name}") for sub in request.firstAvailable or ()
            ]
        else:
            exactly = request.exactly or ExactDeviceRequest(deviceClassName="")
            found = [Alternative(slot, exactly, request.name, request.name)]
        for alternative in found:
            self._prepare(alternative)
        return found

    def _prepare(self, alternative: Alternative) -> None:
        spec, claim, name = alternative.spec, alternative.slot.claim_name, alternative.name
        where = f"claim {claim}, request {name}"
        names = {"claim": claim, "request": name}
        if spec.derivedAttributes:
            if not self.features.DerivedAttributes:
                raise Fatal(
                    f"{where}: cannot handle request with derived attributes, the feature is disabled",
                    "feature-disabled",
                    **names,
                )
            alternative.derived = {derived.name: derived.expression for derived in spec.derivedAttributes}
        for number, selector in enumerate(spec.selectors or ()):
            if selector.cel is None:
                raise Fatal(
                    f"{where}, selector #{number}: CEL expression empty (unsupported selector type?)",
                    "selector-type",
                    selector=str(number),
                    **names,
                )
        if not self.features.AdminAccess and getattr(spec, "adminAccess", None) is not None:
            raise Fatal(f"{where}: admin access is requested, but the feature is disabled", "feature-disabled", **names)
        if not spec.deviceClassName:
            raise Fatal(f"{where}: missing device class name (unsupported request type?)", "request-type", **names)
        cls = self.inventory.classes.get(spec.deviceClassName)
        if cls is None:
            raise Fatal(
                f"{where}: could not retrieve device class {spec.deviceClassName}: "
                f'deviceclass.resource.k8s.io "{spec.deviceClassName}" not found',
                "class-missing",
                **names,
                **{"class": spec.deviceClassName},
            )
        alternative.cls = cls
        alternative.selection = self._selection(cls, spec)
        if self.features.ConsumableCapacity:
            requests = (spec.capacity.requests if spec.capacity is not None else None) or {}
            alternative.capacity = self.inventory.selections.capacity(
                requests, fractional=self.features.FractionalCapacityRange
            )
        if alternative.all_mode:
            self._collect_all(alternative, where, names)
        elif spec.allocationMode in (None, "", "ExactCount"):
            alternative.count = 1 if spec.count is None else spec.count
            self._candidates(alternative)
        else:
            raise Fatal(f"{where}: unsupported count mode {spec.allocationMode}", "request-type", **names)

    def _selection(self, cls: DeviceClass, spec: ExactDeviceRequest | DeviceSubRequest) -> Selection:
        return self.inventory.selections.of(class_expressions(cls), expressions(spec.selectors), self.features)

    # Candidates

    def selected(self, alternative: Alternative) -> tuple[int, int]:
        """(selectable devices, devices whose selection is a fatal error), regardless of use."""
        matching = faulty = per_device = 0
        for offset, pool in self.view.parts():
            good, bad = alternative.selection.masks(pool.layout)
            if not self.features.DeviceBindingAndStatus:
                good &= ~pool.layout.bound
                bad &= ~pool.layout.bound
            matching |= good << offset
            faulty |= bad << offset
            per_device |= pool.layout.per_device
        if per_device:
            unreachable, errors = self.view.unreachable()
            for number in errors:
                faulty |= matching & (1 << number)
            matching &= ~unreachable & ~faulty
        return matching, faulty

    def _candidates(self, alternative: Alternative) -> None:
        matching, faulty = self.selected(alternative)
        if not alternative.admin:
            matching &= ~self.dedicated
            faulty &= ~self.dedicated
        if alternative.capacity is not None:
            good, bad = self.capacity_masks(alternative.capacity)
            faulty |= matching & bad
            matching &= good
            matching &= ~self.exhausted(alternative.capacity, matching & self.shared)
        alternative.hazards = faulty
        alternative.mask = matching & ~self.barred(alternative, matching)

    def capacity_masks(self, rule: CapacityRule) -> tuple[int, int]:
        good = bad = 0
        for offset, pool in self.view.parts():
            layout_good, layout_bad = rule.masks(pool.layout)
            good |= layout_good << offset
            bad |= layout_bad << offset
        return good, bad

    def exhausted(self, rule: CapacityRule, devices: int) -> int:
        """Devices whose other shares leave too little capacity."""
        mask = 0
        while devices:
            low = devices & -devices
            devices ^= low
            pool, position = self.view.locate(low.bit_length() - 1)
            verdict = rule.verdict(pool.layout.shapes[position])
            used = self.allocated.pools[pool.key].capacity(pool.layout.names[position])
            if isinstance(verdict, Consumed) and not verdict.fits(used):
                mask |= low
        return mask

    def barred(self, alternative: Alternative, among: int) -> int:
        """Devices, of those asked about, that node operations, counters, compatibility groups or taints keep from this request
        for good."""
        mask = 0
        for offset, pool in self.view.parts():
            layout = pool.layout
            if layout.skipping and not self.skips_node_operations:
                mask |= layout.skipping << offset
            if layout.tainted and self.features.DeviceTaints:
                mask |= untolerated(layout, alternative.tolerations, among >> offset) << offset
        if self._consuming:
            if not self.features.PartitionableDevices:
                mask |= self._consuming
            for counters in self.counters:
                # A further share of a device in use draws no counters.
                mask |= counters.barred & ~(self.shareable & self.shared)
        return mask

    @property
    def skips_node_operations(self) -> bool:
        """Whether devices that need no node operations can be had here."""
        if not self.features.newest:
            return True
        declared = (self.node.status.declaredFeatures if self.node.status is not None else None) or ()
        return self.features.OptionalNodeOperations and _DECLARED in declared

    def _collect_all(self, alternative: Alternative, where: str, names: Mapping[str, str]) -> None:
        for pool in self.view.pools:
            if pool.status == OK:
                continue
            key = f"{pool.key[0]}/{pool.key[1]}"
            # Devices of earlier pools are evaluated first: their errors win.
            self._raise_first_fault(alternative, self.view.offsets[self.view.pools.index(pool)])
            state, cause = {
                INCOMPLETE: ("being updated", "pool-incomplete"),
                INVALID: ("invalid", "pool-invalid"),
            }[pool.status]
            raise Fatal(
                f"{where}: asks for all devices, but resource pool {key} is currently {state}", cause, pool=key, **names
            )
        self._raise_first_fault(alternative, self.view.size)
        matching, _ = self.selected(alternative)
        if alternative.capacity is not None:
            good, _ = self.capacity_masks(alternative.capacity)
            matching &= good
        alternative.devices = list(bits(matching))
        alternative.count = len(alternative.devices)
        alternative.usable = matching & ~self.barred(alternative, matching)
        if not alternative.admin:
            alternative.usable &= ~self.dedicated
        alternative.mask = alternative.usable
        if alternative.capacity is not None:
            alternative.mask &= ~self.exhausted(alternative.capacity, alternative.mask & self.shared)

    def _raise_first_fault(self, alternative: Alternative, end: int) -> None:
        matching, faulty = self.selected(alternative)
        if alternative.capacity is not None:
            faulty |= matching & self.capacity_masks(alternative.capacity)[1]
        faulty &= (1 << end) - 1
        if faulty:
            raise self.fault(alternative, (faulty & -faulty).bit_length() - 1, qualified=False)

    # Constraints

    def _constrain(self, alternative: Alternative, constraints: list[Constraint]) -> None:
        slot = alternative.slot
        sub = alternative.name if slot.is_list else None
        alternative.constraints = [c for c in constraints if c.applies(slot.request.name, sub)]
        if not alternative.constraints:
            return
        missing = doubtful = 0
        for constraint in alternative.constraints:
            elements: dict[Shape, Elements | DerivedFault | None] = {}
            groups: dict[tuple[str, Any], int] = {}
            for number in bits(alternative.mask & ~missing):
                shape = self.shapes[number]
                if shape not in elements:
                    elements[shape] = self._elements(alternative, constraint, shape)
                found = elements[shape]
                if found is None:
                    # A fault in an earlier constraint is met first.
                    missing |= 1 << number & ~doubtful
                elif isinstance(found, DerivedFault):
                    doubtful |= 1 << number
                else:
                    for element in found:
                        groups[element] = groups.get(element, 0) | 1 << number
            alternative.elements.append(elements)
            alternative.groups.append(groups)
        if not alternative.all_mode:
            # In mode All the same finding is a fatal error, found during the search.
            alternative.mask &= ~missing
        alternative.doubtful = doubtful

    def _elements(
        self, alternative: Alternative, constraint: Constraint, shape: Shape
    ) -> Elements | DerivedFault | None:
        lists = self.features.ListTypeAttributes
        expression = alternative.derived.get(constraint.attribute)
        if expression is None:
            return elements_of(shape.attribute(constraint.attribute), lists=lists)
        value = self.inventory.selections.derived(
            expression, shape, lists=lists, consumable=self.features.ConsumableCapacity
        )
        return value if isinstance(value, DerivedFault) else elements_of(value, lists=lists)

    def elements(self, alternative: Alternative, which: int, number: int) -> Elements | DerivedFault | None:
        """What the device brings to the which-th constraint of the alternative."""
        shape = self.shapes[number]
        table = alternative.elements[which]
        if shape not in table:
            table[shape] = self._elements(alternative, alternative.constraints[which], shape)
        return table[shape]

    # Fatal errors of single devices

    def fault(self, alternative: Alternative, number: int, *, qualified: bool = True) -> Fatal:
        """Why looking at this device is fatal."""
        pool, position = self.view.locate(number)
        shape = pool.layout.shapes[position]
        device = self.view.device_id(number)
        claim = alternative.slot.claim_name
        verdict = alternative.selection.verdict(shape)
        if isinstance(verdict, Fault):
            return _selector_fault(verdict, alternative, claim, device)
        errors = self.view.unreachable()[1]
        if number in errors:
            return Fatal(errors[number], "node-selector", claim=claim, device=device)
        if alternative.capacity is not None:
            consumed = alternative.capacity.verdict(shape)
            if isinstance(consumed, CapacityFault):
                shown = device if qualified else pool.layout.names[position]
                return Fatal(
                    f"claim {claim}, request {alternative.name}: checking capacity for device {shown}: {consumed.text}",
                    "capacity",
                    claim=claim,
                    request=alternative.name,
                    device=shown,
                )
        return self.derived_fault(alternative, number)

    def derived_fault(self, alternative: Alternative, number: int) -> Fatal:
        device = self.view.device_id(number)
        for which, constraint in enumerate(alternative.constraints):
            value = self.elements(alternative, which, number)
            if isinstance(value, DerivedFault):
                names = {
                    "claim": alternative.slot.claim_name,
                    "request": alternative.name,
                    "attribute": constraint.attribute,
                }
                if value.compiles:
                    text = f"evaluate derived attribute {constraint.attribute} on device {device} failed: {value.text}"
                    return Fatal(text, "derived-runtime", device=device, **names)
                return Fatal(
                    f"compile derived attribute {constraint.attribute} failed: {value.text}", "derived-compile", **names
                )
        raise AssertionError(f"device {device} is no hazard")


def _selector_fault(fault: Fault, alternative: Alternative, claim: str, device: str) -> Fatal:
    names = {"selector": str(fault.index)}
    if fault.in_class:
        class_name = alternative.spec.deviceClassName
        where = f"class {class_name}: selector #{fault.index}"
        names["class"] = class_name
    else:
        where = f"claim {claim}: selector #{fault.index}"
        names["claim"] = claim
    if not fault.compiles:
        return Fatal(f"{where}: CEL compile error: {fault.text}", "selector-compile", **names)
    return Fatal(
        f"{where} on device {device}: CEL runtime error: {fault.text}", "selector-runtime", device=device, **names
    )


def bits(mask: int) -> Sequence[int]:
    found = []
    while mask:
        low = mask & -mask
        mask ^= low
        found.append(low.bit_length() - 1)
    return found
