"""What is used of the quotas of a namespace: sums, kept up to date at each write of the store, for namespaces that have a quota.

A write costs the same in a namespace of 10 objects and of 10,000; only a new quota, or one with a new spec, looks at all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from heapq import heappop, heappush
from typing import Any

from drakit.api import quotas
from drakit.api.quantity import Quantity
from drakit.apiserver.auth import Lookup

__all__ = ["Key", "QuotaUsage"]

Plain = Mapping[str, Any]
Key = tuple[str, str, str]  # group, plural, name
_ZERO = Quantity.of(0)
_STALE = 64  # ends of pods that changed since, kept until they outnumber the objects


@dataclass(slots=True)
class _Counted:
    used: quotas.Usage
    obj: Plain


@dataclass(slots=True)
class _Sum:
    """Of one quota, as its spec was."""

    spec: Plain
    used: quotas.Usage

    def add(self, key: Key, entry: _Counted, sign: int = 1) -> None:
        if not quotas.matches_scopes({"spec": self.spec}, key[0], key[1], entry.obj):
            return
        for name in self.used.keys() & entry.used.keys():
            amount = entry.used[name]
            self.used[name] = self.used[name] + amount if sign > 0 else self.used[name] - amount


@dataclass(slots=True)
class _Namespace:
    objects: dict[Key, _Counted] = field(default_factory=dict)
    sums: dict[str, _Sum] = field(default_factory=dict)  # by the quota's name
    ends: list[tuple[datetime, Key]] = field(
        default_factory=list
    )  # a heap: until when pods that are to go count in full
    # Claims for extended resources, by the UID of their pod.
    made_for: dict[str, dict[str, Plain]] = field(default_factory=dict)

    def put(self, key: Key, entry: _Counted | None) -> None:
        before = self.objects.pop(key, None)
        if key[1] == "resourceclaims":
            if before is not None:
                self._forget(before.obj)
            if entry is not None:
                self.note(entry.obj)
        for each in self.sums.values():
            if before is not None:
                each.add(key, before, -1)
            if entry is not None:
                each.add(key, entry)
        if entry is None:
            return
        self.objects[key] = entry
        if (end := _end(key, entry)) is not None:
            heappush(self.ends, (end, key))
            if len(self.ends) > 2 * len(self.objects) + _STALE:
                self.ends = sorted((end, key) for key, each in self.objects.items() if (end := _end(key, each)))

    def note(self, claim: Plain) -> None:
        if pod := quotas.made_for(claim):
            self.made_for.setdefault(pod, {})[claim["metadata"]["name"]] = claim

    def _forget(self, claim: Plain) -> None:
        pod = quotas.made_for(claim)
        made = self.made_for.get(pod, {})
        made.pop(claim["metadata"]["name"], None)
        if not made:
            self.made_for.pop(pod, None)

    def pass_ends(self, now: datetime) -> None:
        """Pods that should have ended by now count for little."""
        while self.ends and self.ends[0][0] < now:
            _, key = heappop(self.ends)
            entry = self.objects.get(key)
            if entry is not None and (end := _end(key, entry)) is not None and end < now:
                less = _Counted(quotas.usage("", "pods", entry.obj, now=now), entry.obj)
                for each in self.sums.values():
                    each.add(key, entry, -1)
                    each.add(key, less)
                self.objects[key] = less

    def sum(self, quota: Plain) -> _Sum:
        name, spec = str(quota["metadata"].get("name")), quota.get("spec") or {}
        known = self.sums.get(name)
        if known is None or known.spec != spec:
            known = self.sums[name] = _Sum(spec, dict.fromkeys(quotas.limits(quota), _ZERO))
            for key, entry in self.objects.items():
                known.add(key, entry)
        return known


def _end(key: Key, entry: _Counted) -> datetime | None:
    return quotas.charged_until(entry.obj) if key[:2] == ("", "pods") else None


class QuotaUsage:
    """What each object of a namespace with a quota counts for, and all of them together."""

    def __init__(
        self, lookup: Lookup, kinds: Iterable[tuple[str, str]], epoch: Callable[[], float] = time.time
    ) -> None:
        self._lookup = lookup
        self._epoch = epoch
        self._kinds = tuple(kinds)  # every namespaced (group, plural)
        self._namespaces: dict[str, _Namespace] = {}
        self._extended: dict[str, str] = {}  # DeviceClass -> its extendedResourceName

    def apply(self, group: str, plural: str, namespace: str, name: str, obj: Plain | None) -> None:
        """A write as the store made it; None when the object is gone."""
        if (group, plural) == ("", "namespaces"):
            if obj is None:
                self._namespaces.pop(name, None)
            return
        if (group, plural) == ("resource.k8s.io", "deviceclasses"):
            before, after = self._extended.pop(name, None), ((obj or {}).get("spec") or {}).get("extendedResourceName")
            if after:
                self._extended[name] = after
            if after != before:
                self._namespaces.clear()  # claims count for other resources now
            return
        known = self._namespaces.get(namespace)
        if known is None:
            return
        if (group, plural) == ("", "resourcequotas") and obj is None:
            del self._namespaces[namespace]  # counted again if there is another one
            return
        known.put((group, plural, name), None if obj is None else _Counted(self.of(group, plural, obj), obj))

    def of(self, group: str, plural: str, obj: Plain) -> quotas.Usage:
        if plural != "resourceclaims":
            return quotas.usage(group, plural, obj)
        look, namespace = self._lookup, str(obj["metadata"].get("namespace") or "")
        known = self._namespaces.get(namespace)

        def claims() -> Iterable[Plain]:
            if known is None:
                return look.list(group, plural, namespace)
            return known.made_for.get(quotas.made_for(obj), {}).values()

        pod = quotas.extended_resource_pod(obj, lambda name: look.get("", "pods", namespace, name), claims)
        return quotas.usage(group, plural, obj, self._extended, pod)

    def total(self, quota: Plain, namespace: str, without: Key | None = None) -> quotas.Usage:
        """What the objects of a namespace use of a quota."""
        known = self._namespaces.get(namespace)
        if known is None:
            known = self._namespaces[namespace] = _Namespace()
            for claim in self._lookup.list("resource.k8s.io", "resourceclaims", namespace):
                known.note(claim)
            for group, plural in self._kinds:
                for obj in self._lookup.list(group, plural, namespace):
                    known.put((group, plural, str(obj["metadata"]["name"])), _Counted(self.of(group, plural, obj), obj))
        known.pass_ends(datetime.fromtimestamp(self._epoch(), UTC))
        found = known.sum(quota)
        used = _Sum(found.spec, dict(found.used))
        if without is not None and (entry := known.objects.get(without)) is not None:
            used.add(without, entry, -1)
        return used.used
