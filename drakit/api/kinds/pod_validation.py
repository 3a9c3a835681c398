"""What is wrong with a pod spec as a whole: volumes, claims, containers, then scheduling and identity.

The order of the checks is Kubernetes' (ValidatePodSpec): the order of the causes in an answer follows from it.
Left out are checks of fields that drakit's nodes ignore (Windows, sysctls, AppArmor).
"""

from __future__ import annotations

from drakit.api import formats, metadata, selector_validation
from drakit.api.errors import Errors, FieldError
from drakit.api.kind import Object
from drakit.api.kinds import checks, pod_claims
from drakit.api.kinds.container_validation import (
    Surroundings,
    security_context,
    validate_containers,
    validate_ephemeral_containers,
    validate_resources,
)
from drakit.api.kinds.pod_annotations import validate_pod_annotations
from drakit.api.kinds.volume_validation import validate_volumes
from drakit.api.quotas import pod_resources

__all__ = ["validate_pod", "validate_pod_template", "validate_tolerations"]

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_POD_RESOURCES = ("cpu", "memory")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
# As Kubernetes names them in its paths, and what they are called in the API.
_NEEDS_HOST_USERS = (("hostNetwork", "hostNetwork"), ("HostPID", "hostPID"), ("HostIPC", "hostIPC"))
_TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def validate_pod(pod: Object) -> Errors:
    """The checks of a pod beside those of its metadata."""
    spec = pod["spec"]
    errors = validate_pod_spec(spec, "spec", pod["metadata"])
    errors += checks.non_negative(spec.get("terminationGracePeriodSeconds"), "spec.terminationGracePeriodSeconds")
    for kind in ("containers", "initContainers"):
        for position, container in enumerate(spec.get(kind) or ()):
            image = container.get("image") or ""
            if image != image.strip():
                text = "must not have leading or trailing whitespace"
                errors.append(FieldError.invalid(f"spec.{kind}[{position}].image", image, text))
    return errors


def validate_pod_template(template: Object, path: str) -> Errors:
    """The template of a workload: labels, annotations and the spec."""
    meta = template.get("metadata") or {}
    errors: Errors = []
    if meta.get("labels"):
        errors += metadata.validate_labels(meta["labels"], f"{path}.labels")
    if meta.get("annotations"):
        errors += metadata.validate_annotations(meta["annotations"], f"{path}.annotations")
    spec = template.get("spec") or {}
    if meta.get("annotations"):
        errors += validate_pod_annotations(meta["annotations"], spec, f"{path}.annotations")
    errors += validate_pod_spec(spec, f"{path}.spec", None)
    if spec.get("ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        errors.append(FieldError.forbidden(f"{path}.spec.ephemeralContainers", text))
    return errors


def validate_pod_spec(spec: Object, path: str, meta: Object | None) -> Errors:
    names, errors = validate_volumes(spec.get("volumes"), f"{path}.volumes")
    claims = spec.get("resourceClaims")
    around = Surroundings(names, pod_claims.claim_names(spec) if claims else frozenset(), spec.get("restartPolicy", ""))
    if claims:
        annotations = meta.get("annotations") if meta else None
        errors += pod_claims.validate_pod_claims(claims, f"{path}.resourceClaims", annotations)
    errors += validate_containers(spec, path, around)
    if spec.get("ephemeralContainers"):
        errors += validate_ephemeral_containers(spec, path, around)
    if spec.get("resources"):
        errors += _pod_resources(spec["resources"], f"{path}.resources", around.claims)
        errors += _within_pod(spec, f"{path}.resources")
    if spec.get("hostNetwork"):
        errors += _host_network_ports(spec, path)
    errors += checks.one_of(spec.get("restartPolicy"), _RESTART_POLICIES, f"{path}.restartPolicy")
    errors += checks.one_of(spec.get("dnsPolicy"), _DNS_POLICIES, f"{path}.dnsPolicy")
    if spec.get("nodeSelector"):
        errors += metadata.validate_labels(spec["nodeSelector"], f"{path}.nodeSelector")
    if spec.get("securityContext"):
        errors += security_context(spec["securityContext"], f"{path}.securityContext")
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(FieldError.invalid(f"{path}.shareProcessNamespace", True, text))
    if spec.get("affinity"):
        errors += _affinity(spec["affinity"], f"{path}.affinity")
    for position, gate in enumerate(spec.get("readinessGates") or ()):
        at = f"{path}.readinessGates[{position}].conditionType"
        errors += checks.qualified_name(gate.get("conditionType", ""), at)
    if spec.get("schedulingGates"):
        errors += _scheduling_gates(spec["schedulingGates"], f"{path}.schedulingGates")
    if spec.get("topologySpreadConstraints"):
        errors += _spread(spec["topologySpreadConstraints"], f"{path}.topologySpreadConstraints")
    if spec.get("hostUsers") is False:
        taken = [name for name, field in _NEEDS_HOST_USERS if spec.get(field)]
        errors += [FieldError.forbidden(f"{path}.{name}", "when `hostUsers` is false") for name in taken]
    if spec.get("hostnameOverride") is not None:
        errors += _hostname_override(spec, f"{path}.hostnameOverride")
    if spec.get("schedulingGroup") is not None:
        errors += _scheduling_group(spec, f"{path}.schedulingGroup")
    return errors + _names_and_numbers(spec, path)


def _scheduling_group(spec: Object, path: str) -> Errors:
    name = spec["schedulingGroup"].get("podGroupName")
    if name is None:
        errors = [FieldError.invalid(f"{path}.podGroupName", None, "must specify one of: `podGroupName`")]
    else:
        errors = checks.subdomain(name, f"{path}.podGroupName")
    if spec.get("evictionResponders"):
        errors.append(FieldError.forbidden(path, "may not be set when evictionResponders is set"))
    return errors


def _hostname_override(spec: Object, path: str) -> Errors:
    errors: Errors = []
    for field in ("setHostnameAsFQDN", "hostNetwork"):
        if spec.get(field):
            errors.append(FieldError.forbidden(path, f"may not be specified when {field} is true"))
    if len(spec["hostnameOverride"]) > 64:
        errors.append(FieldError.too_long(path, 64))
    return errors + checks.subdomain(spec["hostnameOverride"], path)


def _names_and_numbers(spec: Object, path: str) -> Errors:
    errors: Errors = []
    for name in ("serviceAccountName", "nodeName"):
        if spec.get(name):
            errors += checks.subdomain(spec[name], f"{path}.{name}")
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= checks.MAX_INT32:
        text = f"must be between 1 and {checks.MAX_INT32}, inclusive"
        errors.append(FieldError.invalid(f"{path}.activeDeadlineSeconds", deadline, text))
    for name in ("hostname", "subdomain"):
        if spec.get(name):
            errors += checks.dns_label(spec[name], f"{path}.{name}")
    if spec.get("tolerations"):
        errors += validate_tolerations(spec["tolerations"], f"{path}.tolerations")
    for position, alias in enumerate(spec.get("hostAliases") or ()):
        at = f"{path}.hostAliases[{position}]"
        errors += checks.ip_address(alias.get("ip") or "", f"{at}.ip")
        for index, name in enumerate(alias.get("hostnames") or ()):
            errors += checks.subdomain(name, f"{at}.hostnames[{index}]")
    for name in ("priorityClassName", "runtimeClassName"):
        if spec.get(name):
            errors += checks.subdomain(spec[name], f"{path}.{name}")
    policy = spec.get("preemptionPolicy")
    if policy is not None:
        errors += checks.one_of(policy, ("PreemptLowerPriority", "Never"), f"{path}.preemptionPolicy")
    if spec.get("overhead"):
        errors += validate_resources({"limits": spec["overhead"]}, f"{path}.overhead", frozenset())
    system = spec.get("os")
    if system is not None and system.get("name") not in ("linux", "windows"):
        if system.get("name"):
            errors.append(FieldError.not_supported(f"{path}.os", system["name"], ("linux", "windows")))
        else:
            errors.append(FieldError.required(f"{path}.os.name", "cannot be empty"))
    return errors


def _pod_resources(resources: Object, path: str, claims: frozenset[str]) -> Errors:
    errors: Errors = []
    if resources.get("claims") is not None:
        text = "claims may not be set for Resources at pod-level"
        errors.append(FieldError.forbidden(f"{path}.claims", text))
    return errors + validate_resources(resources, path, claims, _pod_resource_name)


def _within_pod(spec: Object, path: str) -> Errors:
    """The pod's own amounts have room for those of its containers."""
    requests, limits = (spec["resources"].get(which) or {} for which in ("requests", "limits"))
    bare = {"spec": {name: spec.get(name) for name in ("containers", "initContainers")}}
    errors: Errors = []
    for given, which in ((requests, "requests"), (limits, "limits")):
        for name, total in pod_resources(bare, which).items():
            bounded = name in given and (which == "requests" or checks.is_huge_page(name))
            if bounded and total > checks.quantity(given[name]):
                text = f"must be greater than or equal to aggregate container {which} of {total}"
                errors.append(FieldError.invalid(f"{path}.{which}[{name}]", given[name], text))
    for position, container in enumerate(spec.get("containers") or ()):
        for name, amount in ((container.get("resources") or {}).get("limits") or {}).items():
            if name in limits and checks.quantity(amount) > checks.quantity(limits[name]):
                at = f"{path}.containers[{position}][{name}].limits"
                errors.append(
                    FieldError.invalid(at, amount, f"must be less than or equal to pod limits of {limits[name]}")
                )
    return errors


def _pod_resource_name(name: str, path: str) -> Errors:
    errors = checks.resource_name(name, path)
    if name not in _POD_RESOURCES and not checks.is_huge_page(name):
        errors.append(FieldError.not_supported(path, name, ("cpu", "hugepages-", "memory")))
    return errors


def _host_network_ports(spec: Object, path: str) -> Errors:
    errors: Errors = []
    for kind in ("containers", "initContainers"):
        for position, container in enumerate(spec.get(kind) or ()):
            for index, port in enumerate(container.get("ports") or ()):
                if port.get("hostPort") != port.get("containerPort"):
                    at = f"{path}.{kind}[{position}].ports[{index}].hostPort"
                    text = "must match `containerPort` when `hostNetwork` is true"
                    errors.append(FieldError.invalid(at, port.get("hostPort", 0), text))
    return errors


def validate_tolerations(tolerations: list[Object], path: str) -> Errors:
    errors: Errors = []
    for position, toleration in enumerate(tolerations):
        at = f"{path}[{position}]"
        key, value = toleration.get("key") or "", toleration.get("value") or ""
        operator, effect = toleration.get("operator") or "", toleration.get("effect") or ""
        if key:
            errors += checks.qualified_name(key, f"{at}.key")
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.append(FieldError.invalid(f"{at}.operator", operator, text))
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(FieldError.invalid(f"{at}.effect", effect, text))
        if operator in ("", "Equal"):
            bad = formats.label_value(value) if value else []
            if bad:
                errors.append(FieldError.invalid(f"{at}.operator", value, ";".join(bad)))
        elif operator == "Exists":
            if value:
                text = "value must be empty when `operator` is 'Exists'"
                errors.append(FieldError.invalid(f"{at}.operator", value, text))
        else:
            known = ("Equal", "Exists", "Lt", "Gt") if operator in ("Lt", "Gt") else ("Equal", "Exists")
            errors.append(FieldError.not_supported(f"{at}.operator", operator, known))
        if effect and effect not in _TAINT_EFFECTS:
            errors.append(FieldError.not_supported(f"{at}.effect", effect, _TAINT_EFFECTS))
    return errors


def _scheduling_gates(gates: list[Object], path: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for position, gate in enumerate(gates):
        name = gate.get("name") or ""
        errors += checks.qualified_name(name, f"{path}[{position}]")
        if name in seen:
            errors.append(FieldError.duplicate(f"{path}[{position}]", name))
        seen.add(name)
    return errors


def _spread(constraints: list[Object], path: str) -> Errors:
    errors: Errors = []
    for position, constraint in enumerate(constraints):
        at = f"{path}[{position}]"
        errors += checks.positive(constraint.get("maxSkew", 0), f"{at}.maxSkew")
        key, action = constraint.get("topologyKey") or "", constraint.get("whenUnsatisfiable") or ""
        if not key:
            errors.append(FieldError.required(f"{at}.topologyKey", "can not be empty"))
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            known = ("DoNotSchedule", "ScheduleAnyway")
            errors.append(FieldError.not_supported(f"{at}.whenUnsatisfiable", action, known))
        for other in constraints[position + 1 :]:
            if (other.get("topologyKey"), other.get("whenUnsatisfiable")) == (key, action):
                shown = "{" + f"{key}, {action}" + "}"
                errors.append(FieldError.duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", shown))
                break
        domains = constraint.get("minDomains")
        errors += checks.positive(domains, f"{at}.minDomains")
        if domains is not None and action != "DoNotSchedule":
            text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            errors.append(FieldError.invalid(f"{at}.minDomains", domains, text))
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if constraint.get(name) is not None and constraint[name] not in ("Honor", "Ignore"):
                errors.append(FieldError.not_supported(f"{at}.{name}", constraint[name], ("Honor", "Ignore")))
        errors += selector_validation.label_selector(constraint.get("labelSelector"), f"{at}.labelSelector")
    return errors


def _affinity(affinity: Object, path: str) -> Errors:
    errors: Errors = []
    node = affinity.get("nodeAffinity") or {}
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    at = f"{path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    if required is not None:
        errors += selector_validation.node_selector(required, at)
    for position, term in enumerate(node.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        here = f"{path}.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[{position}]"
        errors += _weight(term, here)
        errors += selector_validation.node_selector_term(term.get("preference") or {}, f"{here}.preference")
    for name in ("podAffinity", "podAntiAffinity"):
        errors += _pod_affinity(affinity.get(name) or {}, f"{path}.{name}")
    return errors


def _pod_affinity(affinity: Object, path: str) -> Errors:
    errors: Errors = []
    name = "requiredDuringSchedulingIgnoredDuringExecution"
    for position, term in enumerate(affinity.get(name) or ()):
        errors += _pod_term(term, f"{path}.{name}[{position}]")
    name = "preferredDuringSchedulingIgnoredDuringExecution"
    for position, weighted in enumerate(affinity.get(name) or ()):
        at = f"{path}.{name}[{position}]"
        errors += _weight(weighted, at)
        errors += _pod_term(weighted.get("podAffinityTerm") or {}, f"{at}.podAffinityTerm")
    return errors


def _weight(term: Object, at: str) -> Errors:
    weight = term.get("weight", 0)
    return [] if 1 <= weight <= 100 else [FieldError.invalid(f"{at}.weight", weight, "must be in the range 1-100")]


def _pod_term(term: Object, path: str) -> Errors:
    errors = selector_validation.label_selector(term.get("labelSelector"), f"{path}.labelSelector")
    errors += selector_validation.label_selector(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for position, namespace in enumerate(term.get("namespaces") or ()):
        errors += checks.dns_label(namespace, f"{path}.namespaces[{position}]")
    if not term.get("topologyKey"):
        errors.append(FieldError.required(f"{path}.topologyKey", "can not be empty"))
    return errors + checks.qualified_name(term.get("topologyKey") or "", f"{path}.topologyKey")
