"""Privileges around devices: admin access, and who may write which part of a claim's status.

Both are field errors (422) in Kubernetes although they are about rights; `errors` returns them so that the server can put them in
front of what validation finds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drakit.api.errors import FieldError
from drakit.api.gates import FeatureGates
from drakit.apiserver.auth import AdmissionAttributes, Attributes, Authorizer, Lookup, UserInfo
from drakit.apiserver.refusals import denied

Plain = Mapping[str, Any]
GROUP = "resource.k8s.io"
ADMIN_LABEL = "resource.kubernetes.io/admin-access"
_NODE_NAME = "authentication.kubernetes.io/node-name"


class ClaimPrivileges:
    def __init__(self, lookup: Lookup, authorizer: Authorizer, gates: FeatureGates) -> None:
        self._lookup = lookup
        self._authorizer = authorizer
        self._gates = gates

    def concern(self, attributes: AdmissionAttributes) -> bool:
        """Whether there is anything to ask `errors`: most writes are of other kinds."""
        return attributes.kind.group == GROUP and attributes.kind.plural in ("resourceclaims", "resourceclaimtemplates")

    def errors(self, attributes: AdmissionAttributes) -> list[FieldError]:
        kind, obj = attributes.kind, attributes.object
        if obj is None:
            return []
        if attributes.operation == "CREATE" and not attributes.request.subresource:
            spec = obj.get("spec") or {}
            return self._admin_requested(
                (spec.get("spec") or {}) if kind.plural == "resourceclaimtemplates" else spec, attributes
            )
        if attributes.operation == "UPDATE" and attributes.request.subresource == "status":
            new, old = obj.get("status") or {}, (attributes.old_object or {}).get("status") or {}
            errors = self._admin_granted(new, old, attributes)
            if self._gates.enabled("DRAResourceClaimGranularStatusAuthorization"):
                errors += self._binding(new, old, attributes)
                if new.get("allocation") is not None:
                    errors += self._devices(new, old, attributes)
            return errors
        return []

    # --- admin access

    def _admin_requested(self, spec: Plain, attributes: AdmissionAttributes) -> list[FieldError]:
        for position, request in enumerate((spec.get("devices") or {}).get("requests") or ()):
            if (request.get("exactly") or {}).get("adminAccess"):
                return self._labelled(f"spec.devices.requests[{position}].adminAccess", attributes)
        return []

    def _admin_granted(self, new: Plain, old: Plain, attributes: AdmissionAttributes) -> list[FieldError]:
        if _admin_result(old) is not None:
            return []  # it was allowed then, and an allocation does not change
        position = _admin_result(new)
        if position is None:
            return []
        return self._labelled(f"status.allocation.devices.results[{position}].adminAccess", attributes)

    def _labelled(self, path: str, attributes: AdmissionAttributes) -> list[FieldError]:
        namespace = self._lookup.get("", "namespaces", "", attributes.request.namespace)
        labels = ((namespace or {}).get("metadata") or {}).get("labels") or {}
        if labels.get(ADMIN_LABEL) == "true":
            return []
        text = f"admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace"
        return [FieldError.forbidden(path, text)]

    # --- who may write status

    def _binding(self, new: Plain, old: Plain, attributes: AdmissionAttributes) -> list[FieldError]:
        if all((new.get(field) or None) == (old.get(field) or None) for field in ("allocation", "reservedFor")):
            return []
        request = attributes.request
        refusal = self._refusal(request, request.verb, "binding", "", "")
        if refusal is None:
            return []
        text = (
            'changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", '
            f'verb="{request.verb}" permission: {refusal}'
        )
        return [FieldError.forbidden("status.allocation", text)]

    def _devices(self, new: Plain, old: Plain, attributes: AdmissionAttributes) -> list[FieldError]:
        request = attributes.request
        verbs = [f"arbitrary-node:{request.verb}"]
        if _runs_on(request.user, _node_of(new["allocation"])):
            verbs.insert(0, f"associated-node:{request.verb}")
        errors = []
        for driver in _changed_drivers(new, old):
            refusals = [self._refusal(request, verb, "driver", request.namespace, driver) for verb in verbs]
            if None in refusals:
                continue
            text = (
                'changing status.devices requires resource="resourceclaims/driver", '
                f'verb="[{" ".join(verbs)}]" permission: {refusals[0]}'
            )
            errors.append(FieldError.forbidden("status.devices", text))
        return errors

    def _refusal(self, request: Attributes, verb: str, subresource: str, namespace: str, name: str) -> str | None:
        asked = Attributes(
            request.user,
            verb,
            request.group,
            request.version,
            resource=request.resource,
            subresource=subresource,
            namespace=namespace,
            name=name,
        )
        decision = self._authorizer.authorize(asked)
        return None if decision.allowed else str(denied(asked, decision.reason))


def _admin_result(status: Plain) -> int | None:
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    return next((position for position, result in enumerate(results) if result.get("adminAccess")), None)


def _changed_drivers(new: Plain, old: Plain) -> list[str]:
    """Drivers whose entries in status.devices were added, changed or removed."""

    def entries(status: Plain) -> dict[tuple[Any, ...], Plain]:
        return {
            (d.get("driver"), d.get("pool"), d.get("device"), d.get("shareID") or ""): d
            for d in status.get("devices") or ()
        }

    after, before = entries(new), entries(old)
    return sorted({str(key[0]) for key in after.keys() | before.keys() if after.get(key) != before.get(key)})


def _node_of(allocation: Plain) -> str:
    """The one node of an allocation whose selector is exactly `metadata.name In [node]`, else nothing."""
    terms: list[Plain] = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    if len(terms) != 1 or terms[0].get("matchExpressions"):
        return ""
    fields: list[Plain] = terms[0].get("matchFields") or []
    if len(fields) != 1 or (fields[0].get("key"), fields[0].get("operator")) != ("metadata.name", "In"):
        return ""
    values: list[str] = fields[0].get("values") or []
    return str(values[0]) if len(values) == 1 else ""


def _runs_on(user: UserInfo, node: str) -> bool:
    return (
        bool(node)
        and user.name.startswith("system:serviceaccount:")
        and tuple(user.extra.get(_NODE_NAME, ())) == (node,)
    )
