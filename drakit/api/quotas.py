"""What an object uses of a ResourceQuota: objects counted, pods' resources, devices per class.

Pure; admission compares it with the quota before a write, the quota controller sums it up for status.used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from drakit.api.quantity import Quantity

Plain = Mapping[str, Any]
Usage = dict[str, Quantity]

PER_CLASS = ".deviceclass.resource.k8s.io/devices"
IMPLICIT_PREFIX = "requests.deviceclass.resource.kubernetes.io/"
EXTENDED_RESOURCE_CLAIM = "resource.kubernetes.io/extended-resource-claim"
ALL_COUNTS_AS = 32  # allocationMode All: the most that one claim can hold
_ONE = Quantity.of(1)
_ZERO = Quantity.of(0)
# Kinds whose number may also be limited under their bare name.
_PLAIN_COUNTS = frozenset(
    {"pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps", "persistentvolumeclaims"}
)
_COMPUTE = ("cpu", "memory", "ephemeral-storage")


def usage(
    group: str,
    plural: str,
    obj: Plain,
    extended_names: Mapping[str, str] | None = None,
    pod: Plain | None = None,
    now: datetime | None = None,
) -> Usage:
    """What one object counts for. `extended_names`: DeviceClass name -> its extendedResourceName; `pod`: the one that a claim was
    made for because of its extended resources, which already counts for them (`extended_resource_pod`); `now` matters for pods
    that do not end (`charged_until`)."""
    if (group, plural) == ("", "pods"):
        end = charged_until(obj) if now is not None else None
        return {"count/pods": _ONE} if end is not None and now is not None and now > end else _pod_usage(obj)
    used: Usage = {f"count/{plural}.{group}" if group else f"count/{plural}": _ONE}
    if not group and plural in _PLAIN_COUNTS:
        used[plural] = _ONE
    if (group, plural) == ("resource.k8s.io", "resourceclaims"):
        counted = _pod_usage(pod) if pod is not None else {}
        for name, devices in _devices_per_class(obj).items():
            used[name + PER_CLASS] = Quantity.of(devices)
            extended = (extended_names or {}).get(name)
            for resource in (IMPLICIT_PREFIX + name, *([f"requests.{extended}"] if extended else [])):
                rest = Quantity.of(devices) - counted.get(resource, _ZERO)
                if rest > _ZERO:
                    used[resource] = rest
    return used


def charged_until(pod: Plain) -> datetime | None:
    """A pod that should have ended long ago, because its node is lost, does not stand in the way of those that replace it."""
    meta = pod["metadata"]
    deletion, grace = meta.get("deletionTimestamp"), meta.get("deletionGracePeriodSeconds")
    if not deletion or grace is None:
        return None
    return datetime.fromisoformat(deletion) + timedelta(seconds=grace)


def extended_resource_pod(
    claim: Plain, pod_named: Callable[[str], Plain | None], claims: Callable[[], Iterable[Plain]]
) -> Plain | None:
    """The pod that a claim was made for because of extended resources, if the two really belong together: an annotation alone must
    not make devices free of charge. `pod_named` looks in the claim's namespace; `claims` gives at least all with the claim's controller."""
    meta = claim["metadata"]
    if (meta.get("annotations") or {}).get(EXTENDED_RESOURCE_CLAIM) != "true":
        return None
    owner = _controller(claim)
    if owner is None or (owner.get("kind"), owner.get("apiVersion")) != ("Pod", "v1"):
        return None
    pod = pod_named(owner.get("name", ""))
    if pod is None or pod["metadata"].get("uid") != owner.get("uid"):
        return None
    known = (pod.get("status") or {}).get("extendedResourceClaimStatus")
    if known:
        return pod if known.get("resourceClaimName") == meta.get("name") else None
    mine = (meta.get("creationTimestamp") or "", meta.get("name") or "")
    for other in claims():
        there = other["metadata"]
        made_for_it = made_for(other) == owner["uid"]
        if made_for_it and (there.get("creationTimestamp") or "", there.get("name") or "") < mine:
            return None  # only the first one is the pod's
    return pod


def made_for(claim: Plain) -> str:
    """The UID of the pod whose extended resources it stands for, by its own account; "" for other claims."""
    meta = claim["metadata"]
    if (meta.get("annotations") or {}).get(EXTENDED_RESOURCE_CLAIM) != "true":
        return ""
    return str((_controller(claim) or {}).get("uid") or "")


def _controller(claim: Plain) -> Plain | None:
    return next((each for each in claim["metadata"].get("ownerReferences") or () if each.get("controller")), None)


def _devices_per_class(claim: Plain) -> dict[str, int]:
    """Devices of each class, the worst case: All is 32, alternatives count by the largest of a class."""
    total: dict[str, int] = {}
    for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ():
        most: dict[str, int] = {}
        for part in request.get("firstAvailable") or [request.get("exactly") or {}]:
            name = part.get("deviceClassName")
            if name:
                devices = ALL_COUNTS_AS if part.get("allocationMode") == "All" else int(part.get("count") or 1)
                most[name] = max(most.get(name, 0), devices)
        for name, devices in most.items():
            total[name] = total.get(name, 0) + devices
    return total


def _pod_usage(pod: Plain) -> Usage:
    used: Usage = {"count/pods": _ONE}
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return used
    used["pods"] = _ONE
    for name, amount in pod_resources(pod, "requests").items():
        used[f"requests.{name}"] = amount
        if name in _COMPUTE:
            used[name] = amount
    for name, amount in pod_resources(pod, "limits").items():
        if name in _COMPUTE:
            used[f"limits.{name}"] = amount
    return used


def pod_resources(pod: Plain, which: str) -> Usage:
    """A pod's effective requests or limits: all containers and sidecars together, or the largest init step, plus overhead."""
    spec = pod.get("spec") or {}
    total: Usage = {}
    for container in spec.get("containers") or ():
        _add(total, _amounts(container, which))
    sidecars: Usage = {}
    peak: Usage = {}
    for container in spec.get("initContainers") or ():
        step = dict(sidecars)
        _add(step, _amounts(container, which))
        if container.get("restartPolicy") == "Always":
            sidecars = step
        _raise(peak, step)
    _add(total, sidecars)
    _raise(total, peak)
    pod_level = (spec.get("resources") or {}).get(which) or {}
    total.update({name: Quantity.parse(str(text)) for name, text in pod_level.items()})
    _add(total, {name: Quantity.parse(str(text)) for name, text in (spec.get("overhead") or {}).items()})
    return total


def _amounts(container: Plain, which: str) -> Usage:
    return {
        name: Quantity.parse(str(text)) for name, text in ((container.get("resources") or {}).get(which) or {}).items()
    }


def _add(total: Usage, more: Usage) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _raise(total: Usage, floor: Usage) -> None:
    for name, amount in floor.items():
        if name not in total or total[name] < amount:
            total[name] = amount


def matches_scopes(quota: Plain, group: str, plural: str, obj: Plain) -> bool:
    """Whether a quota's scopes take the object in. Scopes speak of pods; a scoped quota counts nothing else."""
    spec = quota.get("spec") or {}
    requirements = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    requirements += (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    if not requirements:
        return True
    return (group, plural) == ("", "pods") and all(_in_scope(requirement, obj) for requirement in requirements)


def _in_scope(requirement: Plain, pod: Plain) -> bool:
    spec = pod.get("spec") or {}
    match requirement["scopeName"]:
        case "Terminating":
            return spec.get("activeDeadlineSeconds") is not None
        case "NotTerminating":
            return spec.get("activeDeadlineSeconds") is None
        case "BestEffort":
            return not pod_resources(pod, "requests") and not pod_resources(pod, "limits")
        case "NotBestEffort":
            return bool(pod_resources(pod, "requests") or pod_resources(pod, "limits"))
        case "PriorityClass":
            name, values = spec.get("priorityClassName") or "", requirement.get("values") or ()
            match requirement.get("operator"):
                case "In":
                    return name in values
                case "NotIn":
                    return name not in values
                case "DoesNotExist":
                    return not name
                case _:
                    return bool(name)
        case "CrossNamespacePodAffinity":
            return any(
                term.get("namespaces") or term.get("namespaceSelector") is not None for term in _affinity_terms(spec)
            )
    return False


def _affinity_terms(spec: Plain) -> Iterator[Plain]:
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = (spec.get("affinity") or {}).get(kind) or {}
        yield from rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for weighted in rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield weighted.get("podAffinityTerm") or {}


def limits(quota: Plain) -> Usage:
    return {name: Quantity.parse(str(text)) for name, text in ((quota.get("spec") or {}).get("hard") or {}).items()}


def total(usages: Iterable[Usage], names: Iterable[str]) -> Usage:
    """The sum over objects of the resources that a quota limits; zero where nothing is used."""
    summed: Usage = dict.fromkeys(names, _ZERO)
    for used in usages:
        for name in summed.keys() & used.keys():
            summed[name] = summed[name] + used[name]
    return summed


def counts(name: str, group: str, plural: str) -> bool:
    """Whether objects of a kind can count towards the limit `name` at all."""
    if name == (f"count/{plural}.{group}" if group else f"count/{plural}"):
        return True
    if (group, plural) == ("resource.k8s.io", "resourceclaims"):
        return name.endswith(PER_CLASS) or name.startswith("requests.")
    if (group, plural) == ("", "pods"):
        return name == "pods" or name in _COMPUTE or name.startswith(("requests.", "limits."))
    return not group and name == plural and plural in _PLAIN_COUNTS
