"""ResourceQuota: a write that would exceed a limit of its namespace is refused.

Usage is kept per namespace, fed by the store at each write, and only for namespaces that have a quota. Check and write happen in
one turn of the event loop, so fifty creates at once cannot all see the last free place.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from drakit.api import quotas
from drakit.api.kind import Kind
from drakit.api.quantity import Quantity
from drakit.apiserver.admission import Lookup
from drakit.apiserver.auth import Admission, AdmissionAttributes
from drakit.apiserver.refusals import forbidden

Key = tuple[str, str, str]  # group, plural, name


class QuotaUsage:
    """What each object of a namespace with a quota counts for."""

    def __init__(
        self, lookup: Lookup, kinds: Iterable[tuple[str, str]], epoch: Callable[[], float] = time.time
    ) -> None:
        self._lookup = lookup
        self._epoch = epoch
        self._kinds = tuple(kinds)  # every namespaced (group, plural)
        self._used: dict[str, dict[Key, tuple[quotas.Usage, Mapping[str, Any]]]] = {}

    def apply(self, group: str, plural: str, namespace: str, name: str, obj: Mapping[str, Any] | None) -> None:
        """A write as the store made it; None when the object is gone."""
        if (group, plural) == ("", "namespaces") and obj is None:
            self._used.pop(name, None)
        objects = self._used.get(namespace)
        if objects is None:
            return
        if obj is None:
            objects.pop((group, plural, name), None)
        else:
            objects[group, plural, name] = (self.of(group, plural, obj), obj)

    def of(self, group: str, plural: str, obj: Mapping[str, Any]) -> quotas.Usage:
        if plural != "resourceclaims":
            return quotas.usage(group, plural, obj)
        look, namespace = self._lookup, str(obj["metadata"].get("namespace") or "")
        names = {
            str(c["metadata"]["name"]): str(c["spec"]["extendedResourceName"])
            for c in look.list(group, "deviceclasses")
            if (c.get("spec") or {}).get("extendedResourceName")
        }
        pod = quotas.extended_resource_pod(
            obj, lambda name: look.get("", "pods", namespace, name), lambda: look.list(group, plural, namespace)
        )
        return quotas.usage(group, plural, obj, names, pod)

    def total(self, quota: Mapping[str, Any], namespace: str, without: Key | None = None) -> quotas.Usage:
        """What the objects of a namespace use of a quota."""
        objects = self._used.get(namespace)
        if objects is None:
            objects = self._used[namespace] = {
                (group, plural, str(obj["metadata"]["name"])): (self.of(group, plural, obj), obj)
                for group, plural in self._kinds
                for obj in self._lookup.list(group, plural, namespace)
            }
        now = datetime.fromtimestamp(self._epoch(), UTC)
        counted = (
            used
            if key[:2] != ("", "pods") or "deletionTimestamp" not in obj["metadata"]
            else quotas.usage("", "pods", obj, now=now)
            for key, (used, obj) in objects.items()
            if key != without and quotas.matches_scopes(quota, key[0], key[1], obj)
        )
        return quotas.total(counted, quotas.limits(quota))


class ResourceQuota(Admission):
    """The last plugin, so that it counts what is really written."""

    def __init__(self, lookup: Lookup, usage: QuotaUsage) -> None:
        self._lookup = lookup
        self._usage = usage

    def concerns(self, kind: Kind, operation: str, subresource: str) -> bool:
        return operation in ("CREATE", "UPDATE") and not subresource

    def validate(self, attributes: AdmissionAttributes) -> None:
        request, kind, obj = attributes.request, attributes.kind, attributes.object
        if not request.namespace or obj is None:
            return
        found = self._lookup.list("", "resourcequotas", request.namespace)
        if not found:
            return
        key = (kind.group, kind.plural, str(obj["metadata"].get("name") or ""))
        wanted = self._usage.of(kind.group, kind.plural, obj)
        old = self._usage.of(kind.group, kind.plural, attributes.old_object) if attributes.old_object else {}
        for quota in found:
            if quotas.matches_scopes(quota, kind.group, kind.plural, obj):
                self._check(attributes, quota, key, wanted, old)

    def _check(
        self,
        attributes: AdmissionAttributes,
        quota: Mapping[str, Any],
        key: Key,
        wanted: quotas.Usage,
        old: quotas.Usage,
    ) -> None:
        hard = quotas.limits(quota)
        group, plural, _ = key
        limited = [name for name in sorted(hard) if quotas.counts(name, group, plural)]
        name = quota["metadata"]["name"]
        if plural == "pods" and not group and attributes.operation == "CREATE":
            _must_specify(attributes, str(name), limited)
        zero = Quantity.of(0)
        grows = {n: wanted.get(n, zero) - old.get(n, zero) for n in limited if wanted.get(n, zero) > old.get(n, zero)}
        if not grows:
            return
        used = self._usage.total(quota, attributes.request.namespace, key if attributes.old_object else None)
        if attributes.old_object:
            for n, amount in old.items():
                if n in used:
                    used[n] = used[n] + amount
        exceeded = [n for n in grows if used[n] + grows[n] > hard[n]]
        if exceeded:

            def words(amounts: Mapping[str, Quantity]) -> str:
                return ",".join(f"{n}={amounts[n]}" for n in exceeded)

            text = f"exceeded quota: {name}, requested: {words(grows)}, used: {words(used)}, limited: {words(hard)}"
            raise forbidden(attributes, text)


def _must_specify(attributes: AdmissionAttributes, quota: str, limited: Iterable[str]) -> None:
    """A quota on cpu or memory makes every container say how much it wants."""
    spec = (attributes.object or {}).get("spec") or {}
    missing: dict[str, list[str]] = {}
    for name in limited:
        which, _, resource = (
            name.rpartition(".") if name.startswith(("requests.", "limits.")) else ("requests", "", name)
        )
        if resource not in ("cpu", "memory"):
            continue
        for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
            if resource not in ((container.get("resources") or {}).get(which) or {}):
                missing.setdefault(name, []).append(str(container.get("name", "")))
    if missing:
        words = "; ".join(f"{name} for: {','.join(sorted(containers))}" for name, containers in sorted(missing.items()))
        raise forbidden(attributes, f"failed quota: {quota}: must specify {words}")
