"""Consumable capacity: what a request takes from a device, and whether it may.

The verdict depends on the request and the device's shape only, except for the amount that is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from drakit.allocator.devices import Capacities, Capacity, Policy, Shape
from drakit.allocator.pools import Layout
from drakit.api.quantity import Quantity

__all__ = ["CapacityFault", "CapacityRule", "Consumed", "consume"]

_INT64_MAX = 2**63 - 1
_NOT_REPRESENTABLE = "capacity request cannot be represented in the device's range arithmetic"


class _Unrepresentable(Exception):
    pass


@dataclass(frozen=True, slots=True)
class CapacityFault:
    """The request makes no sense on this device: fatal for the attempt."""

    text: str


@dataclass(frozen=True, slots=True)
class Consumed:
    """What a share takes: texts for the result, nano units for sums. `limits` are the device's totals."""

    texts: Mapping[str, str]
    amounts: Mapping[str, int]
    limits: Mapping[str, int]

    def fits(self, *used: Mapping[str, int]) -> bool:
        return all(
            amount + sum(taken.get(name, 0) for taken in used) <= self.limits[name]
            for name, amount in self.amounts.items()
        )


def consume(
    requests: Mapping[str, Quantity], capacity: Mapping[str, Capacity], *, fractional: bool
) -> Consumed | CapacityFault | str:
    """What the request takes from a device with these capacities; a text says why such a device can never serve it."""
    for name in requests:
        if name not in capacity:
            return f"has no capacity {name}"
    consumed: dict[str, Quantity] = {}
    # Fatal errors first, for every capacity, so that the outcome does not depend on their order.
    for name, available in capacity.items():
        try:
            amount = _consumed(requests.get(name), available, fractional)
        except _Unrepresentable as error:
            return CapacityFault(f'capacity "{name}": {_NOT_REPRESENTABLE}: {error}')
        if amount.sign < 0:
            return CapacityFault(f'capacity "{name}": capacity value is negative')
        consumed[name] = amount
    for name, available in capacity.items():
        if available.policy is not None and _violates(consumed[name], available.policy, fractional):
            return f"its policy for {name} does not allow {consumed[name]}"
    result = Consumed(
        texts={name: str(amount) for name, amount in consumed.items()},
        amounts={name: amount.scaled(-9) for name, amount in consumed.items()},
        limits={name: available.value.scaled(-9) for name, available in capacity.items()},
    )
    for name, limit in result.limits.items():
        if result.amounts[name] > limit:
            return f"has only {capacity[name].value} of {name}, {consumed[name]} needed"
    return result


def _consumed(request: Quantity | None, capacity: Capacity, fractional: bool) -> Quantity:
    policy = capacity.policy
    if request is None:
        return capacity.value if policy is None or policy.default is None else policy.default
    if policy is None:
        return request
    if policy.has_range and policy.minimum is not None:
        return _round_up(request, policy, fractional)
    if policy.values is not None:
        return next((value for value in policy.values if request <= value), request)
    return request


def _round_up(request: Quantity, policy: Policy, fractional: bool) -> Quantity:
    assert policy.minimum is not None
    if request < policy.minimum:
        return policy.minimum
    if policy.step is None:
        return request
    if _in_milli(policy, fractional):
        if not _fits_milli(request):
            raise _Unrepresentable(f"request {request} is not a representable milli value")
        low, step, wanted = policy.minimum.milli_value(), policy.step.milli_value(), request.milli_value()
        rounded = low + step * -((low - wanted) // step)
        if rounded > _INT64_MAX or low < 0:
            raise _Unrepresentable(f"rounding request {request} up to the next step passes the milli-value range")
        whole, rest = divmod(rounded, 1000)
        return Quantity.milli(rounded, policy.step.format) if rest else Quantity.of(whole, policy.step.format)
    if request.scaled(-9) > _INT64_MAX * 10**9:
        raise _Unrepresentable(f"request {request} exceeds MaxInt64")
    low, step, wanted = policy.minimum.value(), policy.step.value(), request.value()
    rounded = low + step * -((low - wanted) // step)
    if low >= 0 and rounded > _INT64_MAX:
        raise _Unrepresentable(f"rounding request {request} up to the next step passes MaxInt64")
    return Quantity.of(rounded, policy.step.format)


def _violates(amount: Quantity, policy: Policy, fractional: bool) -> bool:
    if policy.default is not None and amount == policy.default:
        return False
    if policy.has_range:
        if policy.maximum is not None and amount > policy.maximum:
            return True
        if policy.step is None or policy.minimum is None:
            return False
        if _in_milli(policy, fractional):
            if not _fits_milli(amount):
                return True
            return (amount.milli_value() - policy.minimum.milli_value()) % policy.step.milli_value() != 0
        return (amount.value() - policy.minimum.value()) % policy.step.value() != 0
    return bool(policy.values) and all(amount != value for value in policy.values or ())


def _in_milli(policy: Policy, fractional: bool) -> bool:
    if not fractional:
        return False
    bounds = [bound for bound in (policy.minimum, policy.maximum, policy.step) if bound is not None]
    if not all(_fits_milli(bound) for bound in bounds):
        return False
    return policy.step is None or policy.step.milli_value() >= 1


def _fits_milli(amount: Quantity) -> bool:
    return amount.is_scaled_exactly(-3) and -_INT64_MAX - 1 <= amount.milli_value() <= _INT64_MAX


class CapacityRule:
    """One request's capacity, judged once per shape and layout; shared like a Selection."""

    __slots__ = ("_fractional", "_layouts", "_verdicts", "requests")

    def __init__(self, requests: Mapping[str, Quantity], fractional: bool) -> None:
        self.requests = requests
        self._fractional = fractional
        self._verdicts: dict[Capacities, Consumed | CapacityFault | str] = {}
        self._layouts: dict[Layout, tuple[int, int]] = {}

    def verdict(self, shape: Shape) -> Consumed | CapacityFault | str:
        found = self._verdicts.get(shape.capacities)
        if found is None:
            found = consume(self.requests, shape.capacity, fractional=self._fractional)
            self._verdicts[shape.capacities] = found
        return found

    def masks(self, layout: Layout) -> tuple[int, int]:
        """(devices that could serve it when unused, devices on which it is a fatal error)."""
        found = self._layouts.get(layout)
        if found is None:
            good = faulty = 0
            for position, shape in enumerate(layout.shapes):
                verdict = self.verdict(shape)
                if isinstance(verdict, Consumed):
                    good |= 1 << position
                elif isinstance(verdict, CapacityFault):
                    faulty |= 1 << position
            found = self._layouts[layout] = (good, faulty)
        return found

    def forget(self) -> None:
        self._verdicts.clear()
        self._layouts.clear()

    @property
    def size(self) -> int:
        return len(self._layouts)
