"""ResourceQuota: a write that would exceed a limit of its namespace is refused (`quota_usage` knows what is used).

Check and write happen in one turn of the event loop, so fifty creates at once cannot all see the last free place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from drakit.api import quotas
from drakit.api.kind import Kind
from drakit.api.quantity import Quantity
from drakit.apiserver.admission.quota_usage import Key, QuotaUsage
from drakit.apiserver.auth import Admission, AdmissionAttributes, Lookup
from drakit.apiserver.refusals import forbidden


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
