"""The core group beside pods and events: namespaces, nodes, configuration, identities, services, quotas, limits."""

from __future__ import annotations

import base64

from lightkube.models import core_v1

from drakit.api import formats
from drakit.api.errors import FieldError
from drakit.api.kind import ALL_VERBS, Kind, Object, Strategy, Subresource, WriteContext, text_at
from drakit.api.kinds import checks, entry
from drakit.api.kinds.pod_defaults import round_resources

__all__ = ["KINDS"]

Errors = list[FieldError]

_MAX_DATA = 1024 * 1024
_IMMUTABLE_DATA = "field is immutable when `immutable` is set"
_SUBDOMAIN_NAME = formats.name_is(formats.dns_subdomain)
_STATUS_ANSWER = frozenset({"v1"})


# Namespaces


def _default_namespace(namespace: Object) -> None:
    meta = namespace.get("metadata")
    if meta and meta.get("name"):
        meta.setdefault("labels", {})["kubernetes.io/metadata.name"] = meta["name"]


def _prepare_namespace(namespace: Object, ctx: WriteContext) -> None:
    _default_namespace(namespace)
    namespace["status"] = {"phase": "Active"}
    finalizers = namespace.setdefault("spec", {}).setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")


def _prepare_namespace_update(new: Object, old: Object, ctx: WriteContext) -> None:
    new["spec"], new["status"] = old["spec"], old["status"]


def _prepare_finalize(new: Object, old: Object, ctx: WriteContext) -> None:
    new["status"] = old["status"]


def _validate_namespace(namespace: Object, ctx: WriteContext) -> Errors:
    return _finalizer_errors(namespace, "spec.finalizers")


def _validate_finalizers(new: Object, old: Object, ctx: WriteContext) -> Errors:
    return _finalizer_errors(new, "spec.finalizers")


def _finalizer_errors(namespace: Object, path: str) -> Errors:
    errors: Errors = []
    for name in (namespace.get("spec") or {}).get("finalizers") or ():
        bad = checks.qualified_name(name, path)
        errors += bad
        if not bad and "/" not in name and name != "kubernetes":
            text = "name is neither a standard finalizer name nor is it fully qualified"
            errors.append(FieldError.invalid(path, name, text))
    return errors


NAMESPACE = entry.kind(
    core_v1.Namespace,
    "namespaces",
    Strategy(
        default={"": _default_namespace},
        prepare_for_create=_prepare_namespace,
        validate=_validate_namespace,
        prepare_for_update=_prepare_namespace_update,
        subresources={"finalize": Subresource(_prepare_finalize, _validate_finalizers)},
        validate_name=formats.name_is(formats.dns_label),
    ),
    namespaced=False,
    subresources={"finalize": ("update",), "status": entry.READ_WRITE},
    short_names=("ns",),
    verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
    selectable={"status.phase": text_at("status", "phase")},
)


# Nodes


def _default_node(node: Object) -> None:
    spec = node.get("spec") or {}
    first, cidrs = spec.get("podCIDR"), spec.get("podCIDRs")
    if first and (not cidrs or cidrs[0] != first):
        spec["podCIDRs"] = [first]
    elif cidrs and not first:
        spec["podCIDR"] = cidrs[0]
    status = node.get("status") or {}
    capacity = status.get("capacity")
    if capacity and not status.get("allocatable"):
        status["allocatable"] = dict(capacity)
    for name in ("capacity", "allocatable"):
        round_resources(status.get(name))


def _validate_node(node: Object, ctx: WriteContext) -> Errors:
    spec, status = node.get("spec") or {}, node.get("status") or {}
    errors: Errors = []
    seen: set[tuple[str, str]] = set()
    for position, taint in enumerate(spec.get("taints") or ()):
        at = f"metadata.taints[{position}]"  # sic: clients see that path
        key, effect = taint.get("key") or "", taint.get("effect") or ""
        errors += checks.qualified_name(key, f"{at}.key")
        errors += [FieldError.invalid(f"{at}.value", taint["value"], text) for text in _taint_value(taint)]
        errors += checks.one_of(effect, ("NoSchedule", "PreferNoSchedule", "NoExecute"), f"{at}.effect")
        if (key, effect) in seen:
            error = FieldError.duplicate(at, taint)
            text = "taints must be unique by key and effect pair"
            errors.append(FieldError(error.type, at, taint, text))
        seen.add((key, effect))
    for position, cidr in enumerate(spec.get("podCIDRs") or ()):
        errors += checks.cidr(cidr, f"spec.podCIDRs[{position}]")
    for name in ("capacity", "allocatable"):
        for resource, amount in (status.get(name) or {}).items():
            errors += checks.resource_value(resource, amount, f"status.{name}.{resource}")
    return errors


def _taint_value(taint: Object) -> list[str]:
    return formats.label_value(taint["value"]) if taint.get("value") else []


def _prepare_node(node: Object, ctx: WriteContext) -> None:
    _drop_disabled_node(node, ctx)


def _drop_disabled_node(node: Object, ctx: WriteContext) -> None:
    spec = node.get("spec") or {}
    spec.pop("configSource", None)  # dynamic kubelet configuration is gone
    (node.get("status") or {}).pop("config", None)
    if not ctx.gates.enabled("PodGroupPreemptionPolicy"):
        spec.pop("podPreemptionPolicy", None)


def _keep_node_status(new: Object, old: Object, ctx: WriteContext) -> None:
    _drop_disabled_node(new, ctx)
    if "status" in old:
        new["status"] = old["status"]


def _validate_node_update(new: Object, old: Object, ctx: WriteContext) -> Errors:
    errors = _validate_node(new, ctx)
    for name in ("providerID", "podCIDRs"):
        before = (old.get("spec") or {}).get(name)
        if before and (new.get("spec") or {}).get(name) != before:
            text = (
                "node updates may not change "
                + ("providerID" if name == "providerID" else "podCIDR")
                + ' except from "" to valid'
            )
            errors.append(FieldError.forbidden(f"spec.{name}", text))
    return errors


def _unschedulable(node: Object) -> str:
    return "true" if (node.get("spec") or {}).get("unschedulable") else "false"


NODE = entry.kind(
    core_v1.Node,
    "nodes",
    Strategy(
        default={"": _default_node},
        prepare_for_create=_prepare_node,
        validate=_validate_node,
        prepare_for_update=_keep_node_status,
        validate_update=_validate_node_update,
        subresources={"status": Subresource(validate_update=_validate_node_update)},
        validate_name=_SUBDOMAIN_NAME,
    ),
    namespaced=False,
    subresources={"proxy": ("create", "delete", "get", "patch", "update"), "status": entry.READ_WRITE},
    short_names=("no",),
    selectable={"spec.unschedulable": _unschedulable},
    delete_returns_status=_STATUS_ANSWER,
)


# ConfigMaps and Secrets


def _validate_config_map(obj: Object, ctx: WriteContext) -> Errors:
    errors: Errors = []
    size = 0
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    for key, value in data.items():
        errors += checks.config_key(key, f"data[{key}]")
        if key in binary:
            errors.append(FieldError.invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
        size += formats.length(value)
    for key, value in binary.items():
        errors += checks.config_key(key, f"binaryData[{key}]")
        size += _decoded_length(value)
    if size > _MAX_DATA:
        errors.append(FieldError.too_long("", _MAX_DATA))
    return errors


def _decoded_length(text: str) -> int:
    return len(text) * 3 // 4 - text[-2:].count("=")


def _validate_immutable_data(new: Object, old: Object, fields: tuple[str, ...]) -> Errors:
    if not old.get("immutable"):
        return []
    errors: Errors = []
    if not new.get("immutable"):
        errors.append(FieldError.forbidden("immutable", _IMMUTABLE_DATA))
    errors += [FieldError.forbidden(name, _IMMUTABLE_DATA) for name in fields if new.get(name) != old.get(name)]
    return errors


def _validate_config_map_update(new: Object, old: Object, ctx: WriteContext) -> Errors:
    return _validate_immutable_data(new, old, ("data", "binaryData")) + _validate_config_map(new, ctx)


CONFIG_MAP = entry.kind(
    core_v1.ConfigMap,
    "configmaps",
    Strategy(
        validate=_validate_config_map,
        validate_update=_validate_config_map_update,
        validate_name=_SUBDOMAIN_NAME,
    ),
    short_names=("cm",),
    delete_returns_status=_STATUS_ANSWER,
)

# What a secret of a given type must hold.
_SECRET_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_TOKEN_TYPE = "kubernetes.io/service-account-token"  # noqa: S105 # the name of a secret type
_ACCOUNT_ANNOTATION = "kubernetes.io/service-account.name"


def _default_secret(secret: Object) -> None:
    if not secret.get("type"):
        secret["type"] = "Opaque"
    # stringData is for writing only: it becomes data.
    plain = secret.pop("stringData", None)
    if plain:
        data = secret.setdefault("data", {})
        data.update((key, base64.b64encode(value.encode()).decode()) for key, value in plain.items())


def _validate_secret(secret: Object, ctx: WriteContext) -> Errors:
    errors: Errors = []
    data = secret.get("data") or {}
    size = 0
    for key, value in data.items():
        errors += checks.config_key(key, f"data[{key}]")
        size += _decoded_length(value)
    if size > _MAX_DATA:
        errors.append(FieldError.too_long("data", _MAX_DATA))
    kind = secret.get("type", "")
    for key in _SECRET_KEYS.get(kind, ()):
        if key not in data:
            errors.append(FieldError.required(f"data[{key}]"))
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        errors += [FieldError.required(f"data[{key}]") for key in ("username", "password")]
    if kind == _TOKEN_TYPE and not (secret["metadata"].get("annotations") or {}).get(_ACCOUNT_ANNOTATION):
        errors.append(FieldError.required(f"metadata.annotations[{_ACCOUNT_ANNOTATION}]"))
    return errors


def _keep_secret_type(new: Object, old: Object, ctx: WriteContext) -> None:
    if not new.get("type"):
        new["type"] = old.get("type")


def _validate_secret_update(new: Object, old: Object, ctx: WriteContext) -> Errors:
    errors = checks.immutable(new.get("type"), old.get("type"), "type")
    return errors + _validate_immutable_data(new, old, ("data",)) + _validate_secret(new, ctx)


SECRET = entry.kind(
    core_v1.Secret,
    "secrets",
    Strategy(
        default={"": _default_secret},
        validate=_validate_secret,
        prepare_for_update=_keep_secret_type,
        validate_update=_validate_secret_update,
        validate_name=_SUBDOMAIN_NAME,
    ),
    selectable={"type": text_at("type")},
    delete_returns_status=_STATUS_ANSWER,
)


def _prepare_account(account: Object, ctx: WriteContext) -> None:
    """Of a reference to a secret only the name counts."""
    if account.get("secrets"):
        account["secrets"] = [{"name": s["name"]} if s.get("name") else {} for s in account["secrets"]]


def _prepare_account_update(new: Object, old: Object, ctx: WriteContext) -> None:
    _prepare_account(new, ctx)


SERVICE_ACCOUNT = entry.kind(
    core_v1.ServiceAccount,
    "serviceaccounts",
    Strategy(
        prepare_for_create=_prepare_account,
        prepare_for_update=_prepare_account_update,
        validate_name=_SUBDOMAIN_NAME,
    ),
    subresources={"token": ("create",)},
    short_names=("sa",),
)


# Services: objects only. Nothing here routes traffic, so a service without an address of its own is headless.


def _default_service(service: Object) -> None:
    spec = service.setdefault("spec", {})
    kind = spec.setdefault("type", "ClusterIP")
    affinity = spec.setdefault("sessionAffinity", "None")
    if affinity == "None":
        spec.pop("sessionAffinityConfig", None)
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port", 0)
    if kind != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def _prepare_service(service: Object, ctx: WriteContext) -> None:
    spec = service["spec"]
    if spec["type"] != "ExternalName" and not spec.get("clusterIP"):
        spec["clusterIP"] = "None"
    if spec.get("clusterIP"):
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")


def _prepare_service_update(new: Object, old: Object, ctx: WriteContext) -> None:
    for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if not new["spec"].get(name) and old["spec"].get(name):
            new["spec"][name] = old["spec"][name]


def _validate_service(service: Object, ctx: WriteContext) -> Errors:
    spec = service["spec"]
    errors: Errors = []
    headless = spec.get("clusterIP") == "None" or spec["type"] == "ExternalName"
    if not spec.get("ports") and not headless:
        errors.append(FieldError.required("spec.ports"))
    for position, port in enumerate(spec.get("ports") or ()):
        at = f"spec.ports[{position}]"
        if len(spec["ports"]) > 1 and not port.get("name"):
            errors.append(FieldError.required(f"{at}.name"))
        elif port.get("name"):
            errors += checks.dns_label(port["name"], f"{at}.name")
        errors += checks.port_number(port.get("port", 0), f"{at}.port")
        errors += checks.one_of(port.get("protocol"), ("SCTP", "TCP", "UDP"), f"{at}.protocol")
        errors += checks.port_number_or_name(port.get("targetPort", 0), f"{at}.targetPort")
    errors += checks.labels(spec.get("selector"), "spec.selector")
    kinds = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
    return errors + checks.one_of(spec["type"], kinds, "spec.type")


def _validate_service_update(new: Object, old: Object, ctx: WriteContext) -> Errors:
    return _validate_service(new, ctx)


SERVICE = entry.kind(
    core_v1.Service,
    "services",
    Strategy(
        default={"": _default_service},
        prepare_for_create=_prepare_service,
        prepare_for_update=_prepare_service_update,
        validate=_validate_service,
        validate_update=_validate_service_update,
        validate_name=formats.name_is(formats.dns1035_label),
        reset=("status",),
    ),
    subresources=entry.STATUS,
    short_names=("svc",),
    categories=("all",),
    selectable={"spec.clusterIP": text_at("spec", "clusterIP"), "spec.type": text_at("spec", "type")},
)
ENDPOINTS = entry.kind(
    core_v1.Endpoints,
    "endpoints",
    Strategy(validate_name=_SUBDOMAIN_NAME),
    singular="endpoints",
    short_names=("ep",),
    delete_returns_status=_STATUS_ANSWER,
)


# Quotas and limits

_SCOPES = (
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
)


def _default_quota(quota: Object) -> None:
    round_resources((quota.get("spec") or {}).get("hard"))
    for name in ("hard", "used"):
        round_resources((quota.get("status") or {}).get(name))


def _validate_quota(quota: Object, ctx: WriteContext) -> Errors:
    spec = quota.get("spec") or {}
    errors: Errors = []
    for name, amount in (spec.get("hard") or {}).items():
        errors += checks.quota_resource_name(name, f"spec.hard[{name}]")
        errors += checks.resource_value(name, amount, f"spec.hard[{name}]")
    scopes = spec.get("scopes") or []
    for scope in scopes:
        if scope not in _SCOPES:
            errors.append(FieldError.invalid("spec.scopes", scopes, "unsupported scope"))
    for pair in ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"}):
        if pair <= set(scopes):
            errors.append(FieldError.invalid("spec.scopes", scopes, "conflicting scopes"))
    for term in (spec.get("scopeSelector") or {}).get("matchExpressions") or ():
        errors += _scope_term(term, "spec.scopeSelector.matchExpressions")
    return errors


def _scope_term(term: Object, path: str) -> Errors:
    errors: Errors = []
    scope, operator, values = term.get("scopeName") or "", term.get("operator") or "", term.get("values") or []
    if scope not in _SCOPES:
        errors.append(FieldError.invalid(f"{path}.scopeName", scope, "unsupported scope"))
    elif scope not in ("PriorityClass", "VolumeAttributesClass") and operator != "Exists":
        text = (
            "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
            "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
        )
        errors.append(FieldError.invalid(f"{path}.operator", operator, text))
    if operator in ("In", "NotIn"):
        if not values:
            text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            errors.append(FieldError.required(f"{path}.values", text))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            errors.append(FieldError.invalid(f"{path}.values", values, text))
    else:
        errors.append(FieldError.invalid(f"{path}.operator", operator, "not a valid selector operator"))
    return errors


def _validate_quota_update(new: Object, old: Object, ctx: WriteContext) -> Errors:
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    errors = _validate_quota(new, ctx)
    if sorted(spec.get("scopes") or ()) != sorted(before.get("scopes") or ()):
        errors.append(FieldError.invalid("spec.scopes", spec.get("scopes"), "field is immutable"))
    return errors


def _validate_quota_status(new: Object, old: Object, ctx: WriteContext) -> Errors:
    status = new.get("status") or {}
    errors = checks.resource_amounts(status.get("hard"), "status.hard")
    return errors + checks.resource_amounts(status.get("used"), "status.used")


RESOURCE_QUOTA = entry.kind(
    core_v1.ResourceQuota,
    "resourcequotas",
    Strategy(
        default={"": _default_quota},
        validate=_validate_quota,
        validate_update=_validate_quota_update,
        subresources={"status": Subresource(validate_update=_validate_quota_status)},
        validate_name=_SUBDOMAIN_NAME,
        reset=("status",),
    ),
    subresources=entry.STATUS,
    short_names=("quota",),
)


def _default_limit_range(limits: Object) -> None:
    """Container limits stand in for the defaults that are not given."""
    for item in (limits.get("spec") or {}).get("limits") or ():
        if item.get("type") == "Container":
            default = item.setdefault("default", {})
            for name, amount in (item.get("max") or {}).items():
                default.setdefault(name, amount)
            request = item.setdefault("defaultRequest", {})
            for name, amount in {**(item.get("min") or {}), **default}.items():
                request.setdefault(name, amount)
            for name in ("default", "defaultRequest"):
                if not item[name]:
                    del item[name]


def _validate_limit_range(limits: Object, ctx: WriteContext) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for position, item in enumerate((limits.get("spec") or {}).get("limits") or ()):
        at = f"spec.limits[{position}]"
        kind = item.get("type") or ""
        bad = checks.qualified_name(kind, f"{at}.type")
        if not bad and "/" not in kind and kind not in ("Pod", "Container", "PersistentVolumeClaim"):
            text = "must be a standard limit type or fully qualified"
            bad = [FieldError.invalid(f"{at}.type", kind, text)]
        errors += bad
        if kind in seen:
            errors.append(FieldError.duplicate(f"{at}.type", kind))
        seen.add(kind)
        errors += _limit_amounts(item, kind, at)
    return errors


def _limit_amounts(item: Object, kind: str, at: str) -> Errors:
    errors: Errors = []
    names = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"]
    if kind == "Pod":
        for name in ("default", "defaultRequest"):
            names.remove(name)
            if item.get(name):
                errors.append(FieldError.forbidden(f"{at}.{name}", "may not be specified when `type` is 'Pod'"))
    check = checks.container_resource_name if kind in ("Pod", "Container") else checks.resource_name
    for name in names:
        for key in item.get(name) or ():
            errors += check(key, f"{at}.{name}[{key}]")
    amounts = {name: item.get(name) or {} for name in names}
    for low, high, field, shown, text in _LIMIT_ORDERS:
        for key, amount in amounts.get(low, {}).items():
            other = amounts.get(high, {}).get(key)
            if other is not None and checks.quantity(amount) > checks.quantity(other):
                value = amounts[shown][key]
                errors.append(FieldError.invalid(f"{at}.{field}[{key}]", value, text.format(amount, other)))
    return errors


# (not more than this, the field blamed, whose value is shown, the text)
_LIMIT_ORDERS = (
    ("min", "max", "min", "min", "min value {} is greater than max value {}"),
    (
        "min",
        "defaultRequest",
        "defaultRequest",
        "defaultRequest",
        "min value {} is greater than default request value {}",
    ),
    (
        "defaultRequest",
        "max",
        "defaultRequest",
        "defaultRequest",
        "default request value {} is greater than max value {}",
    ),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "defaultRequest",
        "default request value {} is greater than default limit value {}",
    ),
    ("min", "default", "default", "min", "min value {} is greater than default value {}"),
    ("default", "max", "default", "max", "default value {} is greater than max value {}"),
)


def _validate_limit_range_update(new: Object, old: Object, ctx: WriteContext) -> Errors:
    return _validate_limit_range(new, ctx)


LIMIT_RANGE = entry.kind(
    core_v1.LimitRange,
    "limitranges",
    Strategy(
        default={"": _default_limit_range},
        validate=_validate_limit_range,
        validate_update=_validate_limit_range_update,
        validate_name=_SUBDOMAIN_NAME,
    ),
    short_names=("limits",),
    delete_returns_status=_STATUS_ANSWER,
)
BINDING = entry.kind(core_v1.Binding, "bindings", Strategy(), verbs=("create",))

KINDS: tuple[Kind, ...] = (
    BINDING,
    CONFIG_MAP,
    ENDPOINTS,
    LIMIT_RANGE,
    NAMESPACE,
    NODE,
    RESOURCE_QUOTA,
    SECRET,
    SERVICE_ACCOUNT,
    SERVICE,
)
