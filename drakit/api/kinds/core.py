"""The core group beside pods and events: namespaces, nodes, configuration, identities, services."""

from __future__ import annotations

import base64
from dataclasses import replace

from lightkube.models import core_v1

from drakit.api import formats, metadata, wire
from drakit.api.errors import Errors, FieldError
from drakit.api.kind import ALL_VERBS, Kind, Object, Strategy, Subresource, Version, WriteContext, text_at
from drakit.api.kinds import checks, entry
from drakit.api.kinds.pod_defaults import round_resources

__all__ = ["KINDS"]

_MAX_DATA = 1024 * 1024
_IMMUTABLE_DATA = "field is immutable when `immutable` is set"
_SUBDOMAIN_NAME = formats.name_is(formats.dns_subdomain)
_STATUS_ANSWER = frozenset({"v1"})


# Namespaces


def _default_namespace(namespace: Object) -> None:
    meta = namespace.get("metadata")
    if meta and meta.get("name"):
        meta.setdefault("labels", {})["kubernetes.io/metadata.name"] = meta["name"]
    status = namespace.setdefault("status", {})
    if not status.get("phase"):
        status["phase"] = "Active"


def _prepare_namespace(namespace: Object, ctx: WriteContext) -> None:
    _default_namespace(namespace)
    namespace["status"] = {"phase": "Active"}
    finalizers = namespace.setdefault("spec", {}).setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")


def _prepare_namespace_update(new: Object, old: Object, ctx: WriteContext) -> None:
    _default_namespace(new)
    new["spec"], new["status"] = old["spec"], old["status"]


def _prepare_finalize(new: Object, old: Object, ctx: WriteContext) -> None:
    new["status"] = old["status"]


def _validate_namespace(namespace: Object, ctx: WriteContext) -> Errors:
    path = "spec.finalizers"
    errors: Errors = []
    for name in (namespace.get("spec") or {}).get("finalizers") or ():
        errors += checks.qualified_name(name, path) + metadata.validate_kube_finalizer(name, path)
    return errors


def _validate_namespace_status(new: Object, old: Object, ctx: WriteContext) -> Errors:
    deleting, phase = bool(new["metadata"].get("deletionTimestamp")), new["status"]["phase"]
    wanted, condition = ("Terminating", "not empty") if deleting else ("Active", "empty")
    if phase == wanted:
        return []
    text = f"may only be '{wanted}' if `deletionTimestamp` is {condition}"
    return [FieldError.invalid("status.Phase", phase, text)]


NAMESPACE = entry.kind(
    core_v1.Namespace,
    "namespaces",
    Strategy(
        default={"": _default_namespace},
        prepare_for_create=_prepare_namespace,
        validate=_validate_namespace,
        prepare_for_update=_prepare_namespace_update,
        subresources={
            "finalize": Subresource(_prepare_finalize, lambda new, old, ctx: _validate_namespace(new, ctx)),
            "status": Subresource(validate_update=_validate_namespace_status),
        },
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
            shown = wire.as_internal("core_v1.Taint", taint)
            text = "taints must be unique by key and effect pair"
            errors.append(replace(FieldError.duplicate(at, shown), detail=text))
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
    errors += metadata.validate_labels(spec.get("selector") or {}, "spec.selector")
    kinds = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
    return errors + checks.one_of(spec["type"], kinds, "spec.type")


SERVICE = entry.kind(
    core_v1.Service,
    "services",
    Strategy(
        default={"": _default_service},
        prepare_for_create=_prepare_service,
        prepare_for_update=_prepare_service_update,
        validate=_validate_service,
        validate_name=formats.name_is(formats.dns_label),
        allow_create_on_update=True,
        reset=("status",),
    ),
    subresources=entry.STATUS,
    short_names=("svc",),
    categories=("all",),
    selectable={"spec.clusterIP": text_at("spec", "clusterIP"), "spec.type": text_at("spec", "type")},
)


def _default_endpoints(endpoints: Object) -> None:
    for subset in endpoints.get("subsets") or ():
        for port in subset.get("ports") or ():
            if not port.get("protocol"):
                port["protocol"] = "TCP"


_ENDPOINTS_WARNING = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
ENDPOINTS = Kind(
    group="",
    kind="Endpoints",
    plural="endpoints",
    namespaced=True,
    versions=(Version("v1", core_v1.Endpoints, deprecated=_ENDPOINTS_WARNING),),
    strategy=Strategy(default={"": _default_endpoints}, validate_name=_SUBDOMAIN_NAME, allow_create_on_update=True),
    singular="endpoints",
    short_names=("ep",),
    delete_returns_status=_STATUS_ANSWER,
)

BINDING = entry.kind(core_v1.Binding, "bindings", Strategy(), verbs=("create",))

KINDS: tuple[Kind, ...] = (
    BINDING,
    CONFIG_MAP,
    ENDPOINTS,
    NAMESPACE,
    NODE,
    SECRET,
    SERVICE_ACCOUNT,
    SERVICE,
)
