"""When a NoExecute taint on a device ends a pod, and what a DeviceTaintRule says about it (reference/controllers.md §3). Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from drakit.clock import later
from drakit.controllers.objects import Plain, format_time, parse_time, spec, status, uid

__all__ = [
    "Eviction",
    "Found",
    "RuleCounts",
    "claim_eviction",
    "claim_keys",
    "device_keys",
    "devices_of",
    "earliest",
    "rule_condition",
    "rule_matches",
    "selector_key",
    "slice_keys",
    "tolerates",
]

CONDITION = "EvictionInProgress"
Found = Callable[[Plain], Iterable[Plain]]  # a device of an allocation -> the rules, or the slices, that may concern it


@dataclass(frozen=True, slots=True)
class Eviction:
    at: datetime
    rules: frozenset[str]  # UIDs of the DeviceTaintRules among the reasons


def devices_of(claim: Plain) -> list[Plain]:
    allocation = status(claim).get("allocation") or {}
    return (allocation.get("devices") or {}).get("results") or []


def selector_key(rule: Plain, fields: tuple[str, ...] = ("device", "pool", "driver")) -> str:
    """The narrowest value that covers all devices of the rule, of those in `device_keys`; "" when it selects none."""
    selector = spec(rule).get("deviceSelector")
    if selector is None:
        return ""
    if "device" in fields and all(selector.get(field) for field in fields):
        return f"{selector['driver']}/{selector['pool']}/{selector['device']}"
    for field in fields:
        if selector.get(field):
            return f"{field}={selector[field]}"
    return "any"


def device_keys(device: Plain) -> tuple[str, ...]:
    """Everything that a rule for this device can have as its key."""
    driver, pool, name = device["driver"], device["pool"], device["device"]
    return ("any", f"driver={driver}", f"pool={pool}", f"device={name}", f"{driver}/{pool}/{name}")


def claim_keys(claim: Plain) -> set[str]:
    return {key for device in devices_of(claim) for key in device_keys(device)}


def slice_keys(slice_: Plain) -> tuple[str, ...]:
    """What a rule for its pool can have as its key, and `driver/pool`."""
    driver, pool = spec(slice_)["driver"], spec(slice_)["pool"]["name"]
    return (f"{driver}/{pool}", "any", f"driver={driver}", f"pool={pool}")


def rule_matches(rule: Plain, device: Plain) -> bool:
    """Without a selector a rule matches nothing: the eviction follows the API's text."""
    selector = spec(rule).get("deviceSelector")
    if selector is None:
        return False
    return all(selector.get(field) in (None, "", device[field]) for field in ("driver", "pool", "device"))


def tolerates(toleration: Plain, taint: Plain) -> bool:
    """An empty effect does not count here, although the allocator accepts it."""
    if toleration.get("effect") != "NoExecute":
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    return toleration.get("operator") == "Exists" or (toleration.get("value") or "") == (taint.get("value") or "")


def claim_eviction(claim: Plain, rules_for: Found, slices_with: Found) -> Eviction | None:
    """The earliest moment at which a taint on one of the claim's devices ends its consumers; None when none does.

    `slices_with`: the current slices in which the device has NoExecute taints.
    """
    moments: list[datetime] = []
    reasons: set[str] = set()
    for device in devices_of(claim):
        for taint, rule_uid in _taints(device, rules_for, slices_with):
            matching = [each for each in device.get("tolerations") or () if tolerates(each, taint)]
            if any(each.get("tolerationSeconds") is None for each in matching):
                continue
            added = parse_time(taint["timeAdded"]) if taint.get("timeAdded") else datetime.min.replace(tzinfo=UTC)
            if matching:
                added = later(added, min(max(each["tolerationSeconds"], 0) for each in matching))
            moments.append(added)
            if rule_uid:
                reasons.add(rule_uid)
    return Eviction(min(moments), frozenset(reasons)) if moments else None


def _taints(device: Plain, rules_for: Found, slices_with: Found) -> Iterator[tuple[Plain, str]]:
    for each in slices_with(device):
        for published in spec(each).get("devices") or ():
            if published["name"] == device["device"]:
                yield from (
                    (taint, "") for taint in published.get("taints") or () if taint.get("effect") == "NoExecute"
                )
    for rule in rules_for(device):
        if rule_matches(rule, device):
            yield spec(rule)["taint"], uid(rule)


def earliest(evictions: Iterable[Eviction | None]) -> Eviction | None:
    """Of all claims of a pod the first; the reasons of all."""
    known = [each for each in evictions if each is not None]
    if not known:
        return None
    return Eviction(min(each.at for each in known), frozenset().union(*(each.rules for each in known)))


@dataclass(frozen=True, slots=True)
class RuleCounts:
    pods: int = 0
    namespaces: int = 0
    published: int = 0
    allocated: int = 0
    evicted: int = 0  # since the controller started


def rule_condition(rule: Plain, counts: RuleCounts, now: datetime) -> Plain:
    """The condition EvictionInProgress for these counts."""
    effect = (spec(rule).get("taint") or {}).get("effect")
    state, reason, message = "False", "OtherEffect", "Eviction only happens for the NoExecute effect."
    where = "1 namespace" if counts.namespaces == 1 else f"{counts.namespaces} different namespaces"
    if effect == "NoExecute":
        message = ""
        if counts.pods:
            state, reason = "True", "PodsPendingEviction"
            message = f"{_many(counts.pods, 'pod needs', 'pods need')} to be evicted in {where}."
        else:
            reason = "Completed" if counts.evicted else "NotStarted"
    elif effect == "None":
        reason = "NoEffect"
        message = (
            f"{_many(counts.published, 'published device', 'published devices')} selected. "
            f"{_many(counts.allocated, 'allocated device', 'allocated devices')} selected. "
            f"{_many(counts.pods, 'pod', 'pods')} would be evicted in {where} if the effect was NoExecute. "
            "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
        )
    if counts.evicted:
        message = f"{message} {_many(counts.evicted, 'pod', 'pods')} evicted since starting the controller.".lstrip()
    return {
        "type": CONDITION,
        "status": state,
        "reason": reason,
        "message": message,
        "observedGeneration": rule["metadata"].get("generation", 0),
        "lastTransitionTime": format_time(now),
    }


def _many(count: int, one: str, more: str) -> str:
    return f"1 {one}" if count == 1 else f"{count} {more}"
