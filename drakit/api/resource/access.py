"""Rules of claims that depend on who asks: admin access to devices, and who may write which part of a status.

The facts come from the server through `WriteContext.access`; here is what has to be asked and what is said when the answer is no.
"""

from __future__ import annotations

from typing import Any

from drakit.api.errors import FieldError
from drakit.api.kind import AccessChecker, WriteContext

__all__ = ["admin_access", "allocated_node", "immutable", "modified_drivers", "requests_admin", "status_changes"]

Object = dict[str, Any]

_ADMIN_LABEL = "resource.kubernetes.io/admin-access"


def requests_admin(spec: Object) -> int | None:
    """The position of the first request for admin access."""
    for position, request in enumerate((spec.get("devices") or {}).get("requests") or ()):
        if (request.get("exactly") or {}).get("adminAccess"):
            return position
    return None


def admin_access(spec: Object, meta: Object, ctx: WriteContext) -> list[FieldError]:
    """Admin access may be requested only in namespaces that are labelled for it."""
    position = requests_admin(spec)
    if position is None or ctx.access is None:
        return []
    return _admin_namespace(ctx.access, meta, f"spec.devices.requests[{position}].adminAccess")


def _admin_namespace(access: AccessChecker, meta: Object, path: str) -> list[FieldError]:
    if access.allows_admin_access(meta.get("namespace") or ""):
        return []
    detail = f"admin access to devices requires the `{_ADMIN_LABEL}: true` label on the containing namespace"
    return [FieldError.forbidden(path, detail)]


def status_changes(new: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
    """What the requester of a status update may not do."""
    if ctx.access is None:
        return []
    status, old_status = new.get("status") or {}, old.get("status") or {}
    errors = _admin_results(status, old_status, new["metadata"], ctx.access)
    if not ctx.gates.enabled("DRAResourceClaimGranularStatusAuthorization"):
        return errors
    errors += _binding(status, old_status, ctx.access)
    if status.get("allocation") is not None and ctx.gates.enabled("DRAResourceClaimDeviceStatus"):
        errors += _drivers(status, old_status, new["metadata"], ctx.access)
    return errors


def _results(status: Object) -> list[Object]:
    return ((status.get("allocation") or {}).get("devices") or {}).get("results") or []


def _admin_results(status: Object, old_status: Object, meta: Object, access: AccessChecker) -> list[FieldError]:
    if any(result.get("adminAccess") for result in _results(old_status)):
        return []
    for position, result in enumerate(_results(status)):
        if result.get("adminAccess"):
            return _admin_namespace(access, meta, f"status.allocation.devices.results[{position}].adminAccess")
    return []


def _binding(status: Object, old_status: Object, access: AccessChecker) -> list[FieldError]:
    if all(status.get(name) == old_status.get(name) for name in ("allocation", "reservedFor")):
        return []
    denial = access.denial(access.verb, "binding", namespace="", name="")
    if not denial:
        return []
    detail = (
        'changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", '
        f'verb="{access.verb}" permission: {denial}'
    )
    return [FieldError.forbidden("status.allocation", detail)]


def _drivers(status: Object, old_status: Object, meta: Object, access: AccessChecker) -> list[FieldError]:
    verbs = [f"arbitrary-node:{access.verb}"]
    if access.node_name and access.node_name == allocated_node(status.get("allocation")):
        verbs.insert(0, f"associated-node:{access.verb}")
    errors = []
    for driver in modified_drivers(status, old_status):
        denials = [access.denial(verb, "driver", namespace=meta.get("namespace") or "", name=driver) for verb in verbs]
        if all(denials):
            detail = (
                f'changing status.devices requires resource="resourceclaims/driver", verb="[{" ".join(verbs)}]" '
                f"permission: {denials[0]}"
            )
            errors.append(FieldError.forbidden("status.devices", detail))
    return errors


def modified_drivers(status: Object, old_status: Object) -> list[str]:
    """The drivers, sorted, whose entries of status.devices were added, changed or removed."""
    before = {_key(device): device for device in old_status.get("devices") or ()}
    drivers = set()
    for device in status.get("devices") or ():
        if before.pop(_key(device), None) != device:
            drivers.add(device.get("driver") or "")
    return sorted(drivers | {device.get("driver") or "" for device in before.values()})


def _key(device: Object) -> tuple[str, ...]:
    return tuple(device.get(name) or "" for name in ("driver", "pool", "device", "shareID"))


def allocated_node(allocation: Object | None) -> str:
    """The one node that an allocation is for, or ""."""
    terms = ((allocation or {}).get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    if len(terms) != 1 or terms[0].get("matchExpressions") or len(terms[0].get("matchFields") or ()) != 1:
        return ""
    match = terms[0]["matchFields"][0]
    if match.get("key") != "metadata.name" or match.get("operator") != "In" or len(match.get("values") or ()) != 1:
        return ""
    return str(match["values"][0])


def immutable(path: str, new: Any, old: Any) -> list[FieldError]:
    """A field that never changes after the object was created."""
    return [] if new == old else [FieldError.invalid(path, None, "field is immutable").as_declared()]
