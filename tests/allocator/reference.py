"""The documented depth-first search, written down plainly: no masks, no bounds, no caches. Slow, and easy to check by eye.

Works on plain objects. Selectors are looked up in a table of Python functions instead of being compiled, so nothing is
shared with the allocator under test but the text of the expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from drakit.api.quantity import Quantity

Plain = dict[str, Any]
Predicate = Callable[[str, Mapping[str, Any]], bool]


class SelectorError(Exception):
    """Raised by a predicate that fails on a device."""


class ReferenceError_(Exception):
    """A fatal error of the attempt."""


class TooManyDevices(Exception):
    """Upstream's size-limit signal."""


class OutOfSteps(Exception):
    """The scenario is too large for a plain search."""


class Device:
    def __init__(self, pool: Pool, slice_: Plain, plain: Plain) -> None:
        self.pool = pool
        self.slice = slice_
        self.plain = plain
        self.name = plain["name"]
        self.id = (pool.driver, pool.name, self.name)

    def attribute(self, name: str) -> Any:
        attributes = self.plain.get("attributes") or {}
        if name in attributes:
            return attributes[name]
        domain, _, identifier = name.partition("/")
        return attributes.get(identifier) if domain == self.pool.driver else None

    @property
    def consumes(self) -> list[Plain]:
        return self.plain.get("consumesCounters") or []


class Pool:
    def __init__(self, driver: str, name: str) -> None:
        self.driver, self.name = driver, name
        self.incomplete = False
        self.devices: list[Device] = []
        self.others: list[Device] = []
        self.counters: dict[str, dict[str, Quantity]] = {}


def gather(slices: Sequence[Plain], node: Plain) -> list[Pool]:
    name = node["metadata"]["name"]
    grouped: dict[tuple[str, str], list[Plain]] = {}
    ordered = [s for s in slices if s["spec"].get("nodeName") == name]
    ordered += [s for s in slices if not s["spec"].get("nodeName")]
    for plain in ordered:
        spec = plain["spec"]
        if not (spec.get("nodeName") or spec.get("allNodes")):
            continue
        group = grouped.setdefault((spec["driver"], spec["pool"]["name"]), [])
        if group and spec["pool"]["generation"] < group[0]["spec"]["pool"]["generation"]:
            continue
        if group and spec["pool"]["generation"] > group[0]["spec"]["pool"]["generation"]:
            group.clear()
        group.append(plain)
    pools = []
    for (driver, pool_name), group in sorted(grouped.items()):
        pool = Pool(driver, pool_name)
        generation, wanted = group[0]["spec"]["pool"]["generation"], group[0]["spec"]["pool"]["resourceSliceCount"]
        everything = [s for s in slices if (s["spec"]["driver"], s["spec"]["pool"]["name"]) == (driver, pool_name)]
        if len(group) != wanted:
            if any(s["spec"]["pool"]["generation"] > generation for s in everything):
                continue
            if len([s for s in everything if s["spec"]["pool"]["generation"] == generation]) != wanted:
                pool.incomplete = True
                pools.append(pool)
                continue
        for plain in sorted(group, key=lambda s: s["metadata"]["name"]):
            for counter_set in plain["spec"].get("sharedCounters") or ():
                pool.counters[counter_set["name"]] = {
                    n: Quantity.parse(c["value"]) for n, c in counter_set["counters"].items()
                }
            pool.devices += [Device(pool, plain, device) for device in plain["spec"].get("devices") or ()]
        pools.append(pool)
    with_binding = [p for p in pools if any(d.plain.get("bindingConditions") is not None for d in p.devices)]
    return [p for p in pools if p not in with_binding] + with_binding


class Request:
    def __init__(self, plain: Plain, claim: int, parent: str | None) -> None:
        self.plain = plain
        self.claim = claim
        self.parent = parent
        self.name = plain["name"]
        self.full = f"{parent}/{self.name}" if parent else self.name
        self.admin = bool(plain.get("adminAccess"))
        self.all_mode = plain.get("allocationMode") == "All"
        self.count = plain.get("count", 1)
        self.devices: list[Device] = []


class Reference:
    def __init__(
        self,
        slices: Sequence[Plain],
        classes: Sequence[Plain],
        held: Sequence[Plain],
        node: Plain,
        claims: Sequence[Plain],
        predicates: Mapping[str, Predicate],
        steps: int = 20_000,
    ) -> None:
        self.pools = gather(slices, node)
        self.classes = {c["metadata"]["name"]: c for c in classes}
        self.claims = claims
        self.predicates = predicates
        self.steps = steps
        self.dedicated = {(h["driver"], h["pool"], h["device"]) for h in held if not h.get("shareID")}
        self.shared = {(h["driver"], h["pool"], h["device"]) for h in held if h.get("shareID")}
        self.aggregated: dict[tuple[str, str, str], dict[str, Quantity]] = {}
        for h in held:
            if h.get("shareID"):
                totals = self.aggregated.setdefault((h["driver"], h["pool"], h["device"]), {})
                for name, value in (h.get("consumedCapacity") or {}).items():
                    totals[name] = totals.get(name, Quantity.of(0)) + Quantity.parse(value)
        self.results: list[list[tuple[Request, Device, bool]]] = [[] for _ in claims]
        self.requests: list[list[list[Request]]] = []

    def allocate(self) -> list[list[tuple[str, str, str, str]]] | None:
        """Per claim (request, driver, pool, device), or None. Raises ReferenceError_ where upstream reports an error."""
        for index, claim in enumerate(self.claims):
            slots = []
            for plain in claim["spec"]["devices"]["requests"]:
                if plain.get("firstAvailable"):
                    slot = [Request(sub, index, plain["name"]) for sub in plain["firstAvailable"]]
                else:
                    slot = [Request({**plain["exactly"], "name": plain["name"]}, index, None)]
                for request in slot:
                    if request.all_mode:
                        self.collect_all(request)
                slots.append(slot)
            if sum(min(request.count for request in slot) for slot in slots) > 32:
                raise ReferenceError_("claim limit")
            self.requests.append(slots)
        if not self.one(0, 0, None, 0, 0):
            return None
        return [[(request.full, *device.id) for request, device, _ in claim] for claim in self.results]

    def collect_all(self, request: Request) -> None:
        for pool in self.pools:
            if pool.incomplete:
                raise ReferenceError_("pool incomplete")
            request.devices += [
                d for d in pool.devices if self.selectable(request, d) and self.capacity_fits(request, d, static=True)
            ]
        request.count = len(request.devices)

    def one(self, claim: int, slot: int, request: Request | None, k: int, start: int) -> bool:
        self.steps -= 1
        if self.steps < 0:
            raise OutOfSteps
        if claim >= len(self.claims):
            return True
        if slot >= len(self.requests[claim]):
            try:
                return self.one(claim + 1, 0, None, 0, 0)
            except TooManyDevices:
                return False
        if request is None:
            options = self.requests[claim][slot]
            if options[0].parent is None:
                request = options[0]
            else:
                exceeded = True
                for option in options:
                    try:
                        if self.one(claim, slot, option, 0, 0):
                            return True
                        exceeded = False
                    except TooManyDevices:
                        continue
                if exceeded:
                    raise TooManyDevices
                return False
        if request.all_mode and not request.devices:
            return False
        if k >= request.count:
            return self.one(claim, slot + 1, None, 0, 0)
        if len(self.results[claim]) + request.count - k > 32:
            raise TooManyDevices
        if request.all_mode:
            if not self.usable(request, request.devices[k], must=True):
                return False
            return self.with_device(request, request.devices[k], claim, slot, k, 0)
        everything = [device for pool in self.pools if not pool.incomplete for device in pool.devices]
        for position in range(start, len(everything)):
            device = everything[position]
            if self.in_use(request, device) or not self.selectable(request, device):
                continue
            if not self.capacity_fits(request, device) or not self.usable(request, device, must=False):
                continue
            if self.with_device(request, device, claim, slot, k, position + 1):
                return True
        return False

    def with_device(self, request: Request, device: Device, claim: int, slot: int, k: int, start: int) -> bool:
        self.results[claim].append((request, device, bool(device.plain.get("allowMultipleAllocations"))))
        done = False
        try:
            done = self.one(claim, slot, request, k + 1, start)
        finally:
            if not done:
                self.results[claim].pop()
        return done

    # Checks

    def chosen(self, device: Device) -> list[tuple[int, Request]]:
        return [(c, r) for c, results in enumerate(self.results) for r, d, _ in results if d is device]

    def in_use(self, request: Request, device: Device) -> bool:
        alone = [c for c, _ in self.chosen(device)] if not device.plain.get("allowMultipleAllocations") else []
        if request.admin:
            return request.claim in alone
        return device.id in self.dedicated or bool(alone)

    def selectable(self, request: Request, device: Device) -> bool:
        cls = self.classes[request.plain["deviceClassName"]]
        selectors = [*(cls["spec"].get("selectors") or ()), *(request.plain.get("selectors") or ())]
        for selector in selectors:
            try:
                if not self.predicates[selector["cel"]["expression"]](device.pool.driver, device.plain):
                    return False
            except SelectorError as error:
                raise ReferenceError_(f"selector on {'/'.join(device.id)}") from error
        return True

    def consumption(self, request: Request, device: Device) -> dict[str, Quantity] | None:
        wanted = (request.plain.get("capacity") or {}).get("requests") or {}
        capacity = device.plain.get("capacity") or {}
        if any(name not in capacity for name in wanted):
            return None
        consumed = {}
        for name, available in capacity.items():
            policy = available.get("requestPolicy") or {}
            if name in wanted:
                amount = Quantity.parse(wanted[name])
                if policy.get("validValues"):
                    values = [Quantity.parse(value) for value in policy["validValues"]]
                    amount = next((value for value in values if amount <= value), amount)
                    if amount not in values:
                        return None
            else:
                amount = Quantity.parse(policy.get("default") or available["value"])
            consumed[name] = amount
        return consumed

    def capacity_fits(self, request: Request, device: Device, *, static: bool = False) -> bool:
        consumed = self.consumption(request, device)
        if consumed is None:
            return False
        used: dict[str, Quantity] = {}
        if not static:
            used = dict(self.aggregated.get(device.id, {}))
            if device.plain.get("allowMultipleAllocations"):
                for _, other in self.chosen(device):
                    for name, amount in (self.consumption(other, device) or {}).items():
                        used[name] = used.get(name, Quantity.of(0)) + amount
        return all(
            amount + used.get(name, Quantity.of(0)) <= Quantity.parse(device.plain["capacity"][name]["value"])
            for name, amount in consumed.items()
        )

    def usable(self, request: Request, device: Device, *, must: bool) -> bool:
        if self.in_use(request, device):
            return False
        if not self.counters_fit(device):
            return False
        for taint in device.plain.get("taints") or ():
            if taint["effect"] in ("NoSchedule", "NoExecute") and not any(
                _tolerates(toleration, taint) for toleration in request.plain.get("tolerations") or ()
            ):
                return False
        if not self.constraints_hold(request, device):
            if must:
                raise ReferenceError_(f"constraint on {'/'.join(device.id)}")
            return False
        return self.capacity_fits(request, device)

    def counters_fit(self, device: Device) -> bool:
        if not device.consumes:
            return True
        multiple = bool(device.plain.get("allowMultipleAllocations"))
        if multiple and (device.id in self.shared or self.chosen(device)):
            return True
        left = {(s, n): q for s, counters in device.pool.counters.items() for n, q in counters.items()}
        drawing = [d for d in device.pool.devices if d.id in self.dedicated or d.id in self.shared]
        for other in device.pool.devices:
            times = len(self.chosen(other))
            if other.plain.get("allowMultipleAllocations"):
                times = 1 if times and other.id not in self.shared else 0
            drawing += [other] * times
        for other in [*drawing, device]:
            for consumption in other.consumes:
                for name, counter in consumption["counters"].items():
                    left[consumption["counterSet"], name] -= Quantity.parse(counter["value"])
        return all(amount.sign >= 0 for amount in left.values())

    def constraints_hold(self, request: Request, device: Device) -> bool:
        claim = self.claims[request.claim]
        for constraint in claim["spec"]["devices"].get("constraints") or ():
            listed = constraint.get("requests") or ()
            match = constraint.get("matchAttribute")
            name = match or constraint["distinctAttribute"]
            if not _applies(listed, request):
                continue
            value = device.attribute(name)
            if value is None:
                return False
            earlier = [d.attribute(name) for r, d, _ in self.results[request.claim] if _applies(listed, r)]
            if match and any(value != other for other in earlier):
                return False
            if not match and any(value == other for other in earlier):
                return False
        return True


def _applies(listed: Sequence[str], request: Request) -> bool:
    return not listed or request.full in listed or (request.parent is not None and request.parent in listed)


def _tolerates(toleration: Plain, taint: Plain) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator") == "Exists":
        return True
    return (toleration.get("value") or "") == (taint.get("value") or "")
