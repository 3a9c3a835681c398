"""scheduling.k8s.io: PriorityClasses, and the kinds of `pod_groups`."""

from __future__ import annotations

from lightkube.models import scheduling_v1

from drakit.api import formats
from drakit.api.errors import Errors, FieldError
from drakit.api.kind import Kind, Object, Strategy, WriteContext
from drakit.api.kinds import checks, entry
from drakit.api.kinds.pod_groups import COMPOSITE_POD_GROUP, GROUP, POD_GROUP, WORKLOAD

__all__ = ["KINDS", "SYSTEM_CLASSES"]

_HIGHEST = 1_000_000_000
_SYSTEM = {
    "system-node-critical": (
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    "system-cluster-critical": (
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
}
# What every cluster starts with.
SYSTEM_CLASSES: tuple[Object, ...] = tuple(
    {
        "apiVersion": f"{GROUP}/v1", "kind": "PriorityClass", "metadata": {"name": name},
        "value": value, "description": description,
    }
    for name, (value, description) in _SYSTEM.items()
)  # fmt: skip


def _default_priority_class(obj: Object) -> None:
    if obj.get("preemptionPolicy") is None:
        obj["preemptionPolicy"] = "PreemptLowerPriority"


def _validate_priority_class(obj: Object, ctx: WriteContext) -> Errors:
    name, value = obj["metadata"].get("name") or "", obj.get("value") or 0
    errors: Errors = []
    if name.startswith("system-"):
        wrong = _not_as_known(obj, name, value)
        if wrong:
            text = f"priority class names with 'system-' prefix are reserved for system use only. error: {wrong}"
            errors.append(FieldError.forbidden("metadata.name", text))
    elif value > _HIGHEST:
        text = "maximum allowed value of a user defined priority is 1000000000"
        errors.append(FieldError.forbidden("value", text))
    policy = obj.get("preemptionPolicy")
    if policy is not None:
        errors += checks.one_of(policy, ("PreemptLowerPriority", "Never"), "preemptionPolicy")
    return errors


def _not_as_known(obj: Object, name: str, value: int) -> str:
    if name not in _SYSTEM:
        return f"{name} is not a known system priority class"
    known, _ = _SYSTEM[name]
    if value != known:
        return f"value of {name} PriorityClass must be {known}"
    return f"globalDefault of {name} PriorityClass must be false" if obj.get("globalDefault") else ""


def _validate_priority_class_update(new: Object, old: Object, ctx: WriteContext) -> Errors:
    errors: Errors = []
    if (new.get("value") or 0) != (old.get("value") or 0):
        errors.append(FieldError.forbidden("value", "may not be changed in an update."))
    policy = new.get("preemptionPolicy")
    return errors + checks.immutable(policy, old.get("preemptionPolicy"), "preemptionPolicy")


def _first_generation(obj: Object, ctx: WriteContext) -> None:
    """Set once: nothing that may change counts."""
    obj["metadata"]["generation"] = 1


PRIORITY_CLASS = entry.kind(
    scheduling_v1.PriorityClass,
    "priorityclasses",
    Strategy(
        default={"": _default_priority_class},
        validate=_validate_priority_class,
        prepare_for_create=_first_generation,
        validate_update=_validate_priority_class_update,
        validate_name=formats.name_is(formats.dns_subdomain),
    ),
    group=GROUP,
    namespaced=False,
    short_names=("pc",),
    delete_returns_status=frozenset({"v1"}),
    undeletable=dict.fromkeys(_SYSTEM, "this is a system priority class and cannot be deleted"),
)

KINDS: tuple[Kind, ...] = (COMPOSITE_POD_GROUP, POD_GROUP, PRIORITY_CLASS, WORKLOAD)
