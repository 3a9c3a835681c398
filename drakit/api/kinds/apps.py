"""apps: Deployments, ReplicaSets, DaemonSets, StatefulSets, ControllerRevisions."""

from __future__ import annotations

from lightkube.models import apps_v1

from drakit.api import formats, metadata
from drakit.api.errors import FieldError
from drakit.api.kind import Kind, Object, Strategy, Subresource, WriteContext
from drakit.api.kinds import checks, entry
from drakit.api.kinds.pod_defaults import default_pod_template
from drakit.api.kinds.workloads import drop_disabled_template, validate_selector_and_template

__all__ = ["KINDS"]

Errors = list[FieldError]

GROUP = "apps"
_SCALED = {"scale": entry.READ_WRITE, "status": entry.READ_WRITE}
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
_STATEFUL_MUTABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


def _spec(obj: Object) -> Object:
    spec: Object = obj.setdefault("spec", {})
    return spec


def _default_common(obj: Object) -> Object:
    spec = _spec(obj)
    default_pod_template(obj)
    return spec


def _prepare(obj: Object, ctx: WriteContext) -> None:
    drop_disabled_template(obj, None, ctx)


def _prepare_update(new: Object, old: Object, ctx: WriteContext) -> None:
    drop_disabled_template(new, old, ctx)


def _counts(spec: Object, *names: str) -> Errors:
    return [error for name in names for error in checks.non_negative(spec.get(name), f"spec.{name}")]


def _validate_status(new: Object, old: Object, ctx: WriteContext) -> Errors:
    status = new.get("status") or {}
    return [
        error
        for name, value in status.items()
        if isinstance(value, int) and not isinstance(value, bool)
        for error in checks.non_negative(value, f"status.{name}")
    ]


_STATUS = {"status": Subresource(validate_update=_validate_status)}


# Deployments


def _default_deployment(obj: Object) -> None:
    spec = _default_common(obj)
    if spec.get("replicas") is None:
        spec["replicas"] = 1
    strategy = spec.setdefault("strategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        for name in ("maxUnavailable", "maxSurge"):
            if rolling.get(name) is None:
                rolling[name] = "25%"
    for name, value in (("revisionHistoryLimit", 10), ("progressDeadlineSeconds", 600)):
        if spec.get(name) is None:
            spec[name] = value


def _validate_deployment(obj: Object, ctx: WriteContext) -> Errors:
    spec = obj["spec"]
    errors = _counts(spec, "replicas") + validate_selector_and_template(obj, "deployment")
    strategy = spec.get("strategy") or {}
    if strategy.get("type") == "Recreate":
        if strategy.get("rollingUpdate") is not None:
            text = "may not be specified when strategy `type` is 'Recreate'"
            errors.append(FieldError.forbidden("spec.strategy.rollingUpdate", text))
    elif strategy.get("type") == "RollingUpdate":
        errors += _rolling_update(strategy.get("rollingUpdate") or {}, "spec.strategy.rollingUpdate")
    else:
        supported = ("Recreate", "RollingUpdate")
        errors.append(FieldError.not_supported("spec.strategy", _internal(strategy), supported))
    errors += _counts(spec, "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    if spec.get("progressDeadlineSeconds", 600) <= spec.get("minReadySeconds", 0):
        value = spec["progressDeadlineSeconds"]
        errors.append(FieldError.invalid("spec.progressDeadlineSeconds", value, "must be greater than minReadySeconds"))
    return errors


def _internal(strategy: Object) -> Object:
    """As Kubernetes prints it: the internal object, by Go's field names."""
    return {"Type": strategy.get("type") or "", "RollingUpdate": strategy.get("rollingUpdate")}


def _rolling_update(rolling: Object, path: str) -> Errors:
    errors: Errors = []
    for name in ("maxUnavailable", "maxSurge"):
        errors += _count_or_percent(rolling.get(name, 0), f"{path}.{name}")
    if _amount(rolling.get("maxUnavailable", 0)) == 0 and _amount(rolling.get("maxSurge", 0)) == 0:
        value = rolling.get("maxUnavailable", 0)
        errors.append(FieldError.invalid(f"{path}.maxUnavailable", value, "may not be 0 when `maxSurge` is 0"))
    return errors


def _amount(value: int | str) -> int:
    if isinstance(value, int):
        return value
    digits = value.removesuffix("%")
    return _digits(digits) if digits.isascii() and digits.isdigit() else -1


def _digits(text: str) -> int:
    """As large as a count can sensibly be, however many digits there are."""
    return int(text) if len(text) <= 18 else 10**18


def _count_or_percent(value: int | str, path: str) -> Errors:
    if isinstance(value, int):
        return checks.non_negative(value, path)
    if value.endswith("%") and value[:-1].isascii() and value[:-1].isdigit():
        if _digits(value[:-1]) > 100 and not path.endswith("maxSurge"):
            return [FieldError.invalid(path, value, "must not be greater than 100%")]
        return []
    text = (
        "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
        "validation is '[0-9]+%')"
    )
    return [FieldError.invalid(path, value, text)]


def _validate_deployment_update(new: Object, old: Object, ctx: WriteContext) -> Errors:
    errors = _validate_deployment(new, ctx)
    return errors + checks.immutable(new["spec"].get("selector"), old["spec"].get("selector"), "spec.selector")


def _prepare_deployment_update(new: Object, old: Object, ctx: WriteContext) -> None:
    """Annotations count as a change: they are copied to the ReplicaSets."""
    _prepare_update(new, old, ctx)
    if (new["metadata"].get("annotations") or {}) != (old["metadata"].get("annotations") or {}):
        new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1


def _prepare_deployment_status(new: Object, old: Object, ctx: WriteContext) -> None:
    """The revision is an annotation that comes with the status, so that it makes no new generation."""
    annotations = new["metadata"].get("annotations")
    metadata.restrict_to_status(new, old)
    new["metadata"].pop("annotations", None)
    if annotations:
        new["metadata"]["annotations"] = annotations


DEPLOYMENT = entry.kind(
    apps_v1.Deployment,
    "deployments",
    Strategy(
        default={"": _default_deployment},
        prepare_for_create=_prepare,
        prepare_for_update=_prepare_deployment_update,
        validate=_validate_deployment,
        validate_update=_validate_deployment_update,
        subresources={"status": Subresource(_prepare_deployment_status, _validate_status)},
        validate_name=formats.name_is(formats.dns_subdomain),
        generation=True,
        reset=("status",),
    ),
    group=GROUP,
    subresources=_SCALED,
    short_names=("deploy",),
    categories=("all",),
    delete_returns_status=frozenset({"v1"}),
)


# ReplicaSets


def _default_replica_set(obj: Object) -> None:
    spec = _default_common(obj)
    if spec.get("replicas") is None:
        spec["replicas"] = 1


def _validate_replica_set(obj: Object, ctx: WriteContext) -> Errors:
    return _counts(obj["spec"], "replicas", "minReadySeconds") + validate_selector_and_template(obj, "deployment")


def _validate_replica_set_update(new: Object, old: Object, ctx: WriteContext) -> Errors:
    errors = _validate_replica_set(new, ctx)
    return errors + checks.immutable(new["spec"].get("selector"), old["spec"].get("selector"), "spec.selector")


def _replicas(obj: Object) -> str:
    return str((obj.get("status") or {}).get("replicas", 0))


REPLICA_SET = entry.kind(
    apps_v1.ReplicaSet,
    "replicasets",
    Strategy(
        default={"": _default_replica_set},
        prepare_for_create=_prepare,
        prepare_for_update=_prepare_update,
        validate=_validate_replica_set,
        validate_update=_validate_replica_set_update,
        subresources=_STATUS,
        validate_name=formats.name_is(formats.dns_subdomain),
        generation=True,
        reset=("status",),
    ),
    group=GROUP,
    subresources=_SCALED,
    short_names=("rs",),
    categories=("all",),
    selectable={"status.replicas": _replicas},
    delete_returns_status=frozenset({"v1"}),
)


# DaemonSets


def _default_daemon_set(obj: Object) -> None:
    spec = _default_common(obj)
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        for name, value in (("maxUnavailable", 1), ("maxSurge", 0)):
            if rolling.get(name) is None:
                rolling[name] = value
    if spec.get("revisionHistoryLimit") is None:
        spec["revisionHistoryLimit"] = 10


def _prepare_daemon_set(obj: Object, ctx: WriteContext) -> None:
    _prepare(obj, ctx)
    obj["metadata"].setdefault("annotations", {})[_TEMPLATE_GENERATION] = "1"


def _prepare_daemon_set_update(new: Object, old: Object, ctx: WriteContext) -> None:
    _prepare_update(new, old, ctx)
    generation = int((old["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION) or 1)
    if new["spec"].get("template") != old["spec"].get("template"):
        generation += 1
    new["metadata"].setdefault("annotations", {})[_TEMPLATE_GENERATION] = str(generation)


def _validate_daemon_set(obj: Object, ctx: WriteContext) -> Errors:
    spec = obj["spec"]
    errors = validate_selector_and_template(obj, "daemonset") + _counts(spec, "minReadySeconds")
    strategy = spec.get("updateStrategy") or {}
    if strategy.get("type") == "RollingUpdate":
        errors += _rolling_update(strategy.get("rollingUpdate") or {}, "spec.updateStrategy.rollingUpdate")
    elif strategy.get("type") != "OnDelete":
        supported = ("RollingUpdate", "OnDelete")
        errors.append(FieldError.not_supported("spec.updateStrategy", _internal(strategy), supported))
    return errors + _counts(spec, "revisionHistoryLimit")


def _validate_daemon_set_update(new: Object, old: Object, ctx: WriteContext) -> Errors:
    errors = _validate_daemon_set(new, ctx)
    return errors + checks.immutable(new["spec"].get("selector"), old["spec"].get("selector"), "spec.selector")


DAEMON_SET = entry.kind(
    apps_v1.DaemonSet,
    "daemonsets",
    Strategy(
        default={"": _default_daemon_set},
        prepare_for_create=_prepare_daemon_set,
        prepare_for_update=_prepare_daemon_set_update,
        validate=_validate_daemon_set,
        validate_update=_validate_daemon_set_update,
        subresources=_STATUS,
        validate_name=formats.name_is(formats.dns_subdomain),
        generation=True,
        reset=("status",),
    ),
    group=GROUP,
    subresources=entry.STATUS,
    short_names=("ds",),
    categories=("all",),
    delete_returns_status=frozenset({"v1"}),
)


# StatefulSets


def _default_stateful_set(obj: Object) -> None:
    spec = _default_common(obj)
    if not spec.get("podManagementPolicy"):
        spec["podManagementPolicy"] = "OrderedReady"
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
        for name, value in (("partition", 0), ("maxUnavailable", 1)):
            if strategy["rollingUpdate"].get(name) is None:
                strategy["rollingUpdate"][name] = value
    policy = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    for name in ("whenDeleted", "whenScaled"):
        if not policy.get(name):
            policy[name] = "Retain"
    for name, number in (("replicas", 1), ("revisionHistoryLimit", 10)):
        if spec.get(name) is None:
            spec[name] = number
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
        claim["status"] = {"phase": "Pending", **(claim.get("status") or {})}


def _validate_stateful_set(obj: Object, ctx: WriteContext) -> Errors:
    spec = obj["spec"]
    supported = ("OrderedReady", "Parallel")
    policy = spec.get("podManagementPolicy")
    errors: Errors = []
    if policy not in supported:
        text = "must be 'OrderedReady' or 'Parallel'"
        errors.append(FieldError.invalid("spec.podManagementPolicy", policy, text))
    strategy = (spec.get("updateStrategy") or {}).get("type")
    if strategy not in ("RollingUpdate", "OnDelete"):
        text = "must be 'RollingUpdate' or 'OnDelete'"
        errors.append(FieldError.invalid("spec.updateStrategy", _internal(spec.get("updateStrategy") or {}), text))
    errors += _counts(spec, "replicas", "minReadySeconds")
    if spec.get("serviceName"):
        errors += checks.dns_label(spec["serviceName"], "spec.serviceName")
    policy_words = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for name in ("whenDeleted", "whenScaled"):
        if policy_words.get(name) not in ("Retain", "Delete"):
            path = f"spec.persistentVolumeClaimRetentionPolicy.{name}"
            errors.append(FieldError.not_supported(path, policy_words.get(name), ("Retain", "Delete")))
    return errors + validate_selector_and_template(_without_host_names(obj), "statefulset")


def _without_host_names(obj: Object) -> Object:
    """The controller sets hostname and subdomain of the pods, whatever the template says."""
    template = obj["spec"].get("template") or {}
    pod_spec = {k: v for k, v in (template.get("spec") or {}).items() if k not in ("hostname", "subdomain")}
    volumes = [
        {"name": claim["metadata"].get("name", ""), "emptyDir": {}}
        for claim in obj["spec"].get("volumeClaimTemplates") or ()
    ]
    if volumes:
        names = {volume["name"] for volume in volumes}
        own = [volume for volume in pod_spec.get("volumes") or () if volume.get("name") not in names]
        pod_spec["volumes"] = [*volumes, *own]
    return {**obj, "spec": {**obj["spec"], "template": {**template, "spec": pod_spec}}}


def _validate_stateful_set_update(new: Object, old: Object, ctx: WriteContext) -> Errors:
    errors = _validate_stateful_set(new, ctx)
    fixed, before = (
        {name: value for name, value in obj["spec"].items() if name not in _STATEFUL_MUTABLE} for obj in (new, old)
    )
    if fixed != before:
        names = ", ".join(f"'{name}'" for name in _STATEFUL_MUTABLE[:-1])
        text = f"updates to statefulset spec for fields other than {names} and 'minReadySeconds' are forbidden"
        errors.append(FieldError.forbidden("spec", text))
    return errors


STATEFUL_SET = entry.kind(
    apps_v1.StatefulSet,
    "statefulsets",
    Strategy(
        default={"": _default_stateful_set},
        prepare_for_create=_prepare,
        prepare_for_update=_prepare_update,
        validate=_validate_stateful_set,
        validate_update=_validate_stateful_set_update,
        subresources=_STATUS,
        validate_name=formats.name_is(formats.dns_label),
        generation=True,
        reset=("status",),
    ),
    group=GROUP,
    subresources=_SCALED,
    short_names=("sts",),
    categories=("all",),
    delete_returns_status=frozenset({"v1"}),
)


# ControllerRevisions


def _validate_revision(obj: Object, ctx: WriteContext) -> Errors:
    errors = checks.non_negative(obj.get("revision"), "revision")
    data = obj.get("data")
    if isinstance(data, dict):
        return errors
    return [
        *errors,
        FieldError.required("data", "data is mandatory" if data is None else "data must be a valid JSON object"),
    ]


def _validate_revision_update(new: Object, old: Object, ctx: WriteContext) -> Errors:
    errors = checks.non_negative(new.get("revision"), "revision")
    return errors + checks.immutable(new.get("data"), old.get("data"), "data")


CONTROLLER_REVISION = entry.kind(
    apps_v1.ControllerRevision,
    "controllerrevisions",
    Strategy(
        validate=_validate_revision,
        validate_update=_validate_revision_update,
        validate_name=formats.name_is(formats.dns_subdomain),
    ),
    group=GROUP,
    delete_returns_status=frozenset({"v1"}),
)
KINDS: tuple[Kind, ...] = (CONTROLLER_REVISION, DAEMON_SET, DEPLOYMENT, REPLICA_SET, STATEFUL_SET)
