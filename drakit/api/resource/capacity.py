"""Capacities of devices in slices: the policy for requests that share a device, and what a device takes from its node."""

from __future__ import annotations

from drakit.api.errors import FieldError
from drakit.api.kind import Object, WriteContext
from drakit.api.quantity import Quantity, QuantityError
from drakit.api.resource import checks

__all__ = ["validate", "validate_node_allocatable"]

_MAX_OPTIONS = 10
_INT64_MAX = Quantity.of(2**63 - 1)


def validate(capacity: Object, path: str, shareable: bool, ctx: WriteContext) -> list[FieldError]:
    policy = capacity.get("requestPolicy")
    if policy is None:
        return []
    path = f"{path}.requestPolicy"
    if not shareable:
        return [FieldError.forbidden(path, "allowMultipleAllocations must be true")]
    values, valid_range = policy.get("validValues"), policy.get("validRange")
    if values and valid_range is not None:
        detail = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        return [FieldError.forbidden(path, detail)]
    name = "validValues" if values else "validRange" if valid_range is not None else ""
    if not name:
        return []
    if policy.get("default") is None:
        return [FieldError.required(f"{path}.default", f"required when {name} is defined")]
    default, limit = Quantity.parse(policy["default"]), Quantity.parse(capacity.get("value") or "0")
    fractional = ctx.gates.enabled("DRAFractionalCapacityRange")
    if values:
        options = [Quantity.parse(value) for value in values]
        return _valid_values(options, default, limit, f"{path}.validValues", fractional)
    return _Range(valid_range, default, limit, f"{path}.validRange", fractional).errors()


def _valid_values(
    options: list[Quantity], default: Quantity, limit: Quantity, path: str, fractional: bool
) -> list[FieldError]:
    errors: list[FieldError] = []
    for position in range(1, len(options)):
        if options[position - 1] > options[position]:
            detail = "values must be sorted in ascending order"
            errors.append(FieldError.invalid(f"{path}[{position}]", str(options[position]), detail))
    if len(options) > _MAX_OPTIONS:
        # Too many are not looked at, so the default is not found among them either.
        errors.append(FieldError.too_many(path, len(options), _MAX_OPTIONS))
        found = False
    else:
        for position, option in enumerate(options):
            if option > limit:
                detail = f"option is larger than capacity value: {limit}"
                errors.append(FieldError.invalid(f"{path}[{position}]", str(option), detail))
        keys = (_decimal(option) if fractional else _integer(option) for option in options)
        errors += checks.distinct(keys, path)
        found = default in options
    if not found:
        detail = "default value is not valid according to the requestPolicy"
        errors.append(FieldError.invalid(path, str(default), detail))
    return errors


def _integer(quantity: Quantity) -> str:
    return str(quantity.value()) if quantity <= _INT64_MAX else str(quantity)


def _decimal(quantity: Quantity) -> str:
    return str(quantity.to_fraction()) if quantity <= _INT64_MAX else str(quantity)


class _Range:
    """validRange of a policy: the bounds against each other, the capacity and the default."""

    def __init__(self, valid: Object, default: Quantity, limit: Quantity, path: str, fractional: bool) -> None:
        self.min, self.max, self.step = (
            Quantity.parse(valid[name]) if valid.get(name) is not None else None for name in ("min", "max", "step")
        )
        self.default = default
        self.limit = limit
        self.path = path
        self.fractional = fractional

    def errors(self) -> list[FieldError]:
        if self.min is None:
            return [FieldError.required(f"{self.path}.min", "required when validRange is defined")]
        errors = self.bounds(self.min)
        milli = self.fractional and any(not value.is_scaled_exactly(0) for _, value in self.values())
        if milli:
            unsafe = [
                self.wrong(name, value, "value cannot be represented as a milli value")
                for name, value in self.values()
                if not _is_milli(value)
            ]
            if unsafe:
                return errors + unsafe
        return errors + self.steps(self.min, milli)

    def values(self) -> list[tuple[str, Quantity]]:
        pairs = (("default", self.default), ("min", self.min), ("max", self.max), ("step", self.step))
        return [(name, value) for name, value in pairs if value is not None]

    def wrong(self, name: str, value: Quantity, detail: str) -> FieldError:
        return FieldError.invalid(f"{self.path}.{name}", str(value), detail)

    def bounds(self, lowest: Quantity) -> list[FieldError]:
        errors = []
        if lowest > self.limit:
            errors.append(self.wrong("min", lowest, f"min is larger than capacity value: {self.limit}"))
        if self.default < lowest:
            errors.append(self.wrong("default", self.default, f"default is less than min: {lowest}"))
        if self.max is not None:
            if lowest > self.max:
                errors.append(self.wrong("max", lowest, f"min is larger than max: {self.max}"))
            if self.max > self.limit:
                errors.append(self.wrong("max", self.max, f"max is larger than capacity value: {self.limit}"))
            if self.default > self.max:
                errors.append(self.wrong("default", self.default, f"default is more than max: {self.max}"))
        return errors

    def steps(self, lowest: Quantity, milli: bool) -> list[FieldError]:
        step = self.step
        if step is None:
            return []
        if step.sign <= 0:
            return [self.wrong("step", step, "must be greater than zero")]
        errors = []
        unsafe = [] if milli else self.out_of_range()
        first = _sum(lowest, step)
        if first > self.limit:
            errors.append(self.wrong("step", step, f"one step {first} is larger than capacity value: {self.limit}"))
        if unsafe:
            return errors + unsafe
        for value in (self.default, self.max):
            if value is not None and not _is_multiple(value, lowest, step, milli):
                detail = f"value is not a multiple of a given step ({step}) from ({lowest})"
                errors.append(self.wrong("step", value, detail))
        return errors

    def out_of_range(self) -> list[FieldError]:
        errors = []
        for name, value in self.values():
            if value.sign < 0:
                errors.append(self.wrong(name, value, "must be greater than or equal to 0"))
            elif value > _INT64_MAX:
                errors.append(self.wrong(name, value, "must not be larger than 9223372036854775807"))
        return errors


def _sum(left: Quantity, right: Quantity) -> Quantity:
    try:
        return left + right
    except QuantityError:
        return max(left, right)  # so far apart that the smaller one does not matter


def _is_milli(value: Quantity) -> bool:
    return abs(value) <= Quantity.milli(2**63 - 1) and value.is_scaled_exactly(-3)


def _is_multiple(value: Quantity, lowest: Quantity, step: Quantity, milli: bool) -> bool:
    exponent = -3 if milli else 0
    return (value.scaled(exponent) - lowest.scaled(exponent)) % step.scaled(exponent) == 0


# What a device takes from its node


def validate_node_allocatable(device: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    entries = device.get("nodeAllocatableResources") or {}
    for name in sorted(entries):
        here, entry = f"{path}[{name}]", entries[name]
        if not _is_node_allocatable(name):
            errors.append(FieldError.invalid(here, name, "must be a node allocatable resource name"))
        mapping, overhead = entry.get("mapping"), entry.get("overhead")
        if mapping is None and overhead is None:
            errors.append(FieldError.required(here, "at least one of mapping or overhead must be set"))
        if mapping is not None:
            errors += _mapping(mapping, device.get("capacity") or {}, f"{here}.mapping")
        if overhead is not None:
            errors += _overhead(overhead, f"{here}.overhead")
    return errors


def _is_node_allocatable(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _positive(mapping: Object, name: str, path: str) -> list[FieldError]:
    if mapping.get(name) is None or Quantity.parse(mapping[name]).sign > 0:
        return []
    return [FieldError.invalid(f"{path}.{name}", mapping[name], "must be positive")]


def _mapping(mapping: Object, capacities: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    key = mapping.get("capacityKey")
    if key is not None:
        if not key:
            errors.append(FieldError.invalid(f"{path}.capacityKey", "", "capacityKey must not be an empty string"))
        elif key not in capacities:
            errors.append(FieldError.not_found(f"{path}.capacityKey", key))
        if mapping.get("capacityMultiplier") is None:
            detail = "capacityMultiplier is required when capacityKey is set"
            errors.append(FieldError.required(f"{path}.capacityMultiplier", detail))
        errors += _positive(mapping, "capacityMultiplier", path)
    elif mapping.get("capacityMultiplier") is not None:
        detail = "capacityKey is required when capacityMultiplier is set"
        errors.append(FieldError.required(f"{path}.capacityKey", detail))
    errors += _positive(mapping, "deviceMultiplier", path)
    return errors + _mapping_union(mapping, path)


def _mapping_union(mapping: Object, path: str) -> list[FieldError]:
    """By a capacity, or by the device."""
    errors = []
    used = [name for name in ("capacityKey", "deviceMultiplier") if mapping.get(name) is not None]
    if len(used) != 1:
        every = "`capacityKey`, `deviceMultiplier`"
        if used:
            shown = "{" + ", ".join(used) + "}"
            errors.append(FieldError.invalid(path, shown, f"must specify exactly one of: {every}"))
        else:
            errors.append(FieldError.invalid(path, "", f"must specify one of: {every}"))
    return [error.as_declared() for error in errors]


def _overhead(overhead: Object, path: str) -> list[FieldError]:
    if overhead.get("perPod") is None and overhead.get("perContainer") is None:
        return [FieldError.invalid(path, "", "at least one of perPod or perContainer must be set")]
    return [
        FieldError.invalid(f"{path}.{name}", overhead[name], "must be non-negative")
        for name in ("perPod", "perContainer")
        if overhead.get(name) is not None and Quantity.parse(overhead[name]).sign < 0
    ]
