"""scheduling.k8s.io: PriorityClasses; Workloads and PodGroups, which are off unless their gates and versions are on."""

from __future__ import annotations

from lightkube.models import scheduling_v1, scheduling_v1alpha3, scheduling_v1beta1

from drakit.api import formats
from drakit.api.errors import FieldError
from drakit.api.kind import Kind, Object, Strategy, Subresource, Version, WriteContext
from drakit.api.kinds import checks, entry

__all__ = ["KINDS"]

Errors = list[FieldError]

GROUP = "scheduling.k8s.io"
_HIGHEST = 1_000_000_000
_SYSTEM = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}


def _default_priority_class(obj: Object) -> None:
    if obj.get("preemptionPolicy") is None:
        obj["preemptionPolicy"] = "PreemptLowerPriority"


def _validate_priority_class(obj: Object, ctx: WriteContext) -> Errors:
    name, value = obj["metadata"].get("name") or "", obj.get("value") or 0
    errors: Errors = []
    if name.startswith("system-"):
        if _SYSTEM.get(name) != value:
            text = "priority class names with 'system-' prefix are reserved for system use only. error: "
            text += (
                f"{name} is not a known system priority class"
                if name not in _SYSTEM
                else f"value of {name} must be {_SYSTEM[name]}"
            )
            errors.append(FieldError.forbidden("metadata.name", text))
    elif value > _HIGHEST:
        text = "maximum allowed value of a user defined priority is 1000000000"
        errors.append(FieldError.forbidden("value", text))
    policy = obj.get("preemptionPolicy")
    if policy is not None:
        errors += checks.one_of(policy, ("PreemptLowerPriority", "Never"), "preemptionPolicy")
    return errors


def _validate_priority_class_update(new: Object, old: Object, ctx: WriteContext) -> Errors:
    errors: Errors = []
    if (new.get("value") or 0) != (old.get("value") or 0):
        errors.append(FieldError.forbidden("value", "may not be changed in an update."))
    policy = new.get("preemptionPolicy")
    return errors + checks.immutable(policy, old.get("preemptionPolicy"), "preemptionPolicy")


PRIORITY_CLASS = entry.kind(
    scheduling_v1.PriorityClass,
    "priorityclasses",
    Strategy(
        default={"": _default_priority_class},
        validate=_validate_priority_class,
        validate_update=_validate_priority_class_update,
        validate_name=formats.name_is(formats.dns_subdomain),
        generation=True,
    ),
    group=GROUP,
    namespaced=False,
    short_names=("pc",),
    delete_returns_status=frozenset({"v1"}),
)


# Gang scheduling


def _default_pod_group(group: Object) -> None:
    spec = group.setdefault("spec", {})
    if not spec.get("disruptionMode"):
        spec["disruptionMode"] = {"single": {}}


def _validate_policy(spec: Object) -> Errors:
    policy = spec.get("schedulingPolicy") or {}
    given = [name for name in ("basic", "gang") if policy.get(name) is not None]
    if len(given) != 1:
        text = "must specify exactly one of: `basic`, `gang`"
        return [FieldError.invalid("spec.schedulingPolicy", policy, text)]
    count = (policy.get("gang") or {}).get("minCount", 1)
    if count < 1:
        return [FieldError.invalid("spec.schedulingPolicy.gang.minCount", count, "must be greater than or equal to 1")]
    return []


def _validate_pod_group(group: Object, ctx: WriteContext) -> Errors:
    return _validate_policy(group.get("spec") or {})


def _validate_fixed_spec(new: Object, old: Object, ctx: WriteContext) -> Errors:
    return checks.immutable(new.get("spec"), old.get("spec"), "spec")


def _gated(beta: type, alpha: type) -> tuple[Version, ...]:
    gates = ("GenericWorkload",)
    return (
        Version("v1beta1", beta, default=False, gates=gates),
        Version("v1alpha3", alpha, default=False, gates=gates),
    )


POD_GROUP = Kind(
    group=GROUP,
    kind="PodGroup",
    plural="podgroups",
    namespaced=True,
    versions=_gated(scheduling_v1beta1.PodGroup, scheduling_v1alpha3.PodGroup),
    subresources=entry.STATUS,
    strategy=Strategy(
        default={"": _default_pod_group},
        validate=_validate_pod_group,
        validate_update=_validate_fixed_spec,
        subresources={"status": Subresource()},
        validate_name=formats.name_is(formats.dns_subdomain),
        generation=True,
        reset=("status",),
    ),
)
WORKLOAD = Kind(
    group=GROUP,
    kind="Workload",
    plural="workloads",
    namespaced=True,
    versions=_gated(scheduling_v1beta1.Workload, scheduling_v1alpha3.Workload),
    strategy=Strategy(
        validate_update=_validate_fixed_spec,
        validate_name=formats.name_is(formats.dns_subdomain),
        generation=True,
    ),
)
KINDS: tuple[Kind, ...] = (POD_GROUP, PRIORITY_CLASS, WORKLOAD)
