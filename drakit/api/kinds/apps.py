"""apps: Deployments, ReplicaSets, DaemonSets, StatefulSets, ControllerRevisions."""

from __future__ import annotations

import re
from dataclasses import replace

from lightkube.models import apps_v1

from drakit.api import formats, metadata
from drakit.api.errors import Errors, FieldError, StatusError, go_quote
from drakit.api.kind import Kind, Object, Strategy, Subresource, WriteContext
from drakit.api.kinds import checks, entry
from drakit.api.kinds.pod_defaults import default_pod_template
from drakit.api.kinds.strategy_validation import daemon_set_strategy, deployment_strategy, stateful_set_strategy
from drakit.api.kinds.volume_validation import validate_claim_spec
from drakit.api.kinds.workloads import drop_disabled_template, fixed_selector, validate_selector_and_template

__all__ = ["KINDS"]

GROUP = "apps"
_SCALED = {"scale": entry.READ_WRITE, "status": entry.READ_WRITE}
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
_ROLLBACK = "deprecated.deployment.rollback.to"
_NUMBER = re.compile(r"[+-]?[0-9]+", re.ASCII).fullmatch
_LONGEST_NUMBER = 40  # in digits: more than any of 64 bits has, and some zeros
_STATEFUL_FIXED = ("volumeClaimTemplates", "serviceName", "podManagementPolicy")


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


def _read_number(kind: str, text: str, about: str = "") -> None:
    """An annotation that once was a field: if it is no number of 64 bits, the body cannot be read. `about`: which it is."""
    if not _NUMBER(text):
        cause = "invalid syntax"
    elif len(text) > _LONGEST_NUMBER or not -(2**63) <= int(text) < 2**63:
        cause = "value out of range"
    else:
        return
    told = f"{about}strconv.ParseInt: parsing {go_quote(text)}: {cause}"
    raise StatusError.bad_request(f'{kind} in version "v1" cannot be handled as a {kind}: {told}')


def _annotations(obj: Object) -> Object:
    return (obj.get("metadata") or {}).get("annotations") or {}


def _status(*parts: str, ready: str = "readyReplicas") -> Subresource:
    """`parts`: what counts some of the replicas; `ready`: what Kubernetes calls the count that bounds the available ones."""

    def validate(new: Object, old: Object, ctx: WriteContext) -> Errors:
        status = new.get("status") or {}
        errors = [
            error
            for name, value in status.items()
            if isinstance(value, int) and not isinstance(value, bool)
            for error in checks.non_negative(value, f"status.{name}")
        ]
        counts = {name: status.get(name) or 0 for name in parts}
        errors += [
            FieldError.invalid(f"status.{name}", value, "cannot be greater than status.replicas")
            for name, value in counts.items()
            if value > (status.get("replicas") or 0)
        ]
        available = counts.get("availableReplicas", 0)
        if available > counts.get("readyReplicas", 0):
            errors.append(FieldError.invalid("status.availableReplicas", available, f"cannot be greater than {ready}"))
        return errors + _collisions(status, old.get("status") or {})

    return Subresource(validate_update=validate)


def _collisions(status: Object, old: Object) -> Errors:
    before, now = old.get("collisionCount"), status.get("collisionCount")
    if before is None or (now is not None and now >= before):
        return []
    return [FieldError.invalid("status.collisionCount", now or 0, "cannot be decremented")]


def _warn_of_name(obj: Object, old: Object | None, ctx: WriteContext) -> list[str]:
    """Pods are called after the object, and a host name is shorter than the name of an object may be."""
    texts = formats.dns_label(obj["metadata"].get("name") or "") if old is None else ()
    if not texts:
        return []
    return [
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; "
        f"a DNS label is recommended: [{' '.join(texts)}]"
    ]


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


def _read_deployment(obj: Object) -> Object:
    if text := _annotations(obj).get(_ROLLBACK):
        _read_number("Deployment", text, f"failed to parse annotation[{_ROLLBACK}]={text} as int64: ")
    return obj


def _validate_deployment(obj: Object, ctx: WriteContext) -> Errors:
    spec = obj["spec"]
    errors = _counts(spec, "replicas") + validate_selector_and_template(obj, "deployment")
    errors += deployment_strategy(spec.get("strategy") or {}, "spec.strategy")
    errors += _counts(spec, "minReadySeconds", "revisionHistoryLimit")
    if text := _annotations(obj).get(_ROLLBACK):
        errors += checks.non_negative(int(text), "spec.rollback.version")
    errors += _counts(spec, "progressDeadlineSeconds")
    if spec.get("progressDeadlineSeconds", 600) <= spec.get("minReadySeconds", 0):
        value = spec["progressDeadlineSeconds"]
        errors.append(FieldError.invalid("spec.progressDeadlineSeconds", value, "must be greater than minReadySeconds"))
    return errors


def _validate_deployment_update(new: Object, old: Object, ctx: WriteContext) -> Errors:
    errors = _validate_deployment(new, ctx)
    return errors + fixed_selector(new, old)


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
        to_storage={"v1": _read_deployment},
        prepare_for_create=_prepare,
        prepare_for_update=_prepare_deployment_update,
        validate=_validate_deployment,
        validate_update=_validate_deployment_update,
        warnings=_warn_of_name,
        subresources={
            "status": replace(
                _status("updatedReplicas", "readyReplicas", "availableReplicas"),
                prepare_for_update=_prepare_deployment_status,
            )
        },
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
    return errors + fixed_selector(new, old)


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
        warnings=_warn_of_name,
        subresources={"status": _status("fullyLabeledReplicas", "readyReplicas", "availableReplicas")},
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


def _read_daemon_set(obj: Object) -> Object:
    if (text := _annotations(obj).get(_TEMPLATE_GENERATION)) is not None:
        _read_number("DaemonSet", text)
    return obj


def _prepare_daemon_set(obj: Object, ctx: WriteContext) -> None:
    _prepare(obj, ctx)
    annotations = obj["metadata"].setdefault("annotations", {})
    annotations[_TEMPLATE_GENERATION] = str(max(1, int(annotations.get(_TEMPLATE_GENERATION) or 1)))


def _prepare_daemon_set_update(new: Object, old: Object, ctx: WriteContext) -> None:
    _prepare_update(new, old, ctx)
    generation = int((old["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION) or 1)
    if new["spec"].get("template") != old["spec"].get("template"):
        generation += 1
    new["metadata"].setdefault("annotations", {})[_TEMPLATE_GENERATION] = str(generation)


def _validate_daemon_set(obj: Object, ctx: WriteContext) -> Errors:
    spec = obj["spec"]
    errors = validate_selector_and_template(obj, "daemonset") + _counts(spec, "minReadySeconds")
    errors += daemon_set_strategy(spec.get("updateStrategy") or {}, "spec.updateStrategy")
    return errors + _counts(spec, "revisionHistoryLimit")


def _validate_daemon_set_update(new: Object, old: Object, ctx: WriteContext) -> Errors:
    errors = fixed_selector(new, old)
    return errors + _validate_daemon_set(new, ctx)


DAEMON_SET = entry.kind(
    apps_v1.DaemonSet,
    "daemonsets",
    Strategy(
        default={"": _default_daemon_set},
        to_storage={"v1": _read_daemon_set},
        prepare_for_create=_prepare_daemon_set,
        prepare_for_update=_prepare_daemon_set_update,
        validate=_validate_daemon_set,
        validate_update=_validate_daemon_set_update,
        subresources={"status": _status()},
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
        claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
        claim["status"] = {"phase": "Pending", **(claim.get("status") or {})}


def _prepare_stateful_set(obj: Object, ctx: WriteContext) -> None:
    _prepare(obj, ctx)
    _drop_max_unavailable(obj, {}, ctx)


def _prepare_stateful_set_update(new: Object, old: Object, ctx: WriteContext) -> None:
    _prepare_update(new, old, ctx)
    _drop_max_unavailable(new, old["spec"], ctx)


def _drop_max_unavailable(obj: Object, old: Object, ctx: WriteContext) -> None:
    rolling, before = ((spec.get("updateStrategy") or {}).get("rollingUpdate") or {} for spec in (obj["spec"], old))
    if not ctx.gates.enabled("MaxUnavailableStatefulSet") and before.get("maxUnavailable") is None:
        rolling.pop("maxUnavailable", None)


def _validate_stateful_set(obj: Object, ctx: WriteContext) -> Errors:
    errors = _stateful_spec(obj, recreates=ctx.gates.enabled("StatefulSetRecreateStrategy"))
    for position, claim in enumerate(obj["spec"].get("volumeClaimTemplates") or ()):
        errors += validate_claim_spec(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{position}].spec")
    if obj["spec"].get("serviceName"):
        errors += checks.dns_label(obj["spec"]["serviceName"], "spec.serviceName")
    return errors


def _stateful_spec(obj: Object, *, recreates: bool) -> Errors:
    spec = obj["spec"]
    errors: Errors = []
    if spec.get("podManagementPolicy") not in ("OrderedReady", "Parallel"):
        text = "must be 'OrderedReady' or 'Parallel'"
        errors.append(FieldError.invalid("spec.podManagementPolicy", spec.get("podManagementPolicy"), text))
    errors += stateful_set_strategy(spec.get("updateStrategy") or {}, "spec.updateStrategy", recreates=recreates)
    policy_words = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for name in ("whenDeleted", "whenScaled"):
        if policy_words.get(name) not in ("Retain", "Delete"):
            path = f"spec.persistentVolumeClaimRetentionPolicy.{name}"
            errors.append(FieldError.not_supported(path, policy_words.get(name), ("Retain", "Delete")))
    errors += _counts(spec, "replicas", "minReadySeconds")
    errors += checks.non_negative((spec.get("ordinals") or {}).get("start"), "spec.ordinals.start")
    return errors + validate_selector_and_template(_without_host_names(obj), "statefulset")


def _warn_of_history(obj: Object, old: Object | None, ctx: WriteContext) -> list[str]:
    if (obj["spec"].get("revisionHistoryLimit") or 0) >= 0:
        return []
    return ["spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"]


def _without_host_names(obj: Object) -> Object:
    """The controller sets hostname and subdomain of the pods, whatever the template says."""
    template = obj["spec"].get("template") or {}
    pod_spec = {k: v for k, v in (template.get("spec") or {}).items() if k not in ("hostname", "subdomain")}
    claims = {claim["metadata"].get("name", "") for claim in obj["spec"].get("volumeClaimTemplates") or ()}
    if claims:
        volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in sorted(claims)]
        own = [volume for volume in pod_spec.get("volumes") or () if volume.get("name") not in claims]
        pod_spec["volumes"] = [*volumes, *own]
    return {**obj, "spec": {**obj["spec"], "template": {**template, "spec": pod_spec}}}


def _validate_stateful_set_update(new: Object, old: Object, ctx: WriteContext) -> Errors:
    """What was there before is tolerated: a strategy whose gate is off by now, claims and a service name that cannot change."""
    before = (old["spec"].get("updateStrategy") or {}).get("type")
    errors = _stateful_spec(new, recreates=before == "Recreate" or ctx.gates.enabled("StatefulSetRecreateStrategy"))
    errors += fixed_selector(new, old)
    for name in _STATEFUL_FIXED:
        errors += checks.immutable(new["spec"].get(name), old["spec"].get(name), f"spec.{name}")
    return errors


STATEFUL_SET = entry.kind(
    apps_v1.StatefulSet,
    "statefulsets",
    Strategy(
        default={"": _default_stateful_set},
        prepare_for_create=_prepare_stateful_set,
        prepare_for_update=_prepare_stateful_set_update,
        validate=_validate_stateful_set,
        validate_update=_validate_stateful_set_update,
        warnings=_warn_of_history,
        subresources={
            "status": _status(
                "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas", ready="status.readyReplicas"
            )
        },
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
