"""What is wrong with the containers of a pod: names, images, ports, environment, mounts, resources, probes, security."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from drakit.api.errors import Errors, FieldError
from drakit.api.kind import Object
from drakit.api.kinds import checks, pod_claims

__all__ = ["Surroundings", "validate_containers", "validate_resources"]

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_RESTART_ACTIONS = ("Restart", "RestartAllContainers")
_EPHEMERAL_FORBIDDEN = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)
_ONLY_SIDECARS = "may not be set for init containers without restartPolicy=Always"
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
# Fields of a security context that take one of a few words.
_CONTEXT_WORDS = {
    "fsGroupChangePolicy": ("Always", "OnRootMismatch"),
    "supplementalGroupsPolicy": ("Merge", "Strict"),
    "seLinuxChangePolicy": ("MountOption", "Recursive"),
    "procMount": ("Default", "Unmasked"),
}
_NOT_EPHEMERAL = "cannot be set for an Ephemeral Container"
_ENV_NAME_TEXT = "a valid environment variable name must consist only of printable ASCII characters other than '='"


@dataclasses.dataclass(frozen=True, slots=True)
class Surroundings:
    """What a container may refer to: the volumes and claims of its pod."""

    volumes: frozenset[str]
    claims: frozenset[str]
    restart_policy: str


def validate_containers(spec: Object, path: str, around: Surroundings) -> Errors:
    containers, inits = spec.get("containers") or [], spec.get("initContainers") or []
    errors: Errors = []
    if not containers:
        errors.append(FieldError.required(f"{path}.containers"))
    seen: set[str] = set()
    for position, container in enumerate(containers):
        at = f"{path}.containers[{position}]"
        errors += _container(container, at, around)
        errors += _unique_name(container, at, seen)
        errors += _lifecycle_and_probes(container, at)
        errors += _restart_policy(container, at)
    errors += _host_port_conflicts(containers, f"{path}.containers")
    for position, container in enumerate(inits):
        at = f"{path}.initContainers[{position}]"
        errors += _container(container, at, around)
        errors += _restart_policy(container, at, init=True)
        errors += _unique_name(container, at, seen)
        errors += _host_port_conflicts([container], f"{path}.initContainers")
        if container.get("restartPolicy") == "Always":
            errors += _lifecycle_and_probes(container, at)
        else:
            extras = [name for name in ("lifecycle", *_PROBES) if container.get(name) is not None]
            errors += [FieldError.forbidden(f"{at}.{name}", _ONLY_SIDECARS) for name in extras]
    return errors


def validate_ephemeral_containers(spec: Object, path: str, around: Surroundings) -> Errors:
    errors: Errors = []
    others = {c.get("name") for kind in ("containers", "initContainers") for c in spec.get(kind) or ()}
    seen = {name for name in others if name}
    for position, container in enumerate(spec.get("ephemeralContainers") or ()):
        at = f"{path}.ephemeralContainers[{position}]"
        errors += _container(container, at, around)
        errors += _unique_name(container, at, seen)
        target = container.get("targetContainerName")
        if target and target not in others:
            errors.append(FieldError.not_found(f"{at}.targetContainerName", target))
        for name in _EPHEMERAL_FORBIDDEN:
            if container.get(name) or (container.get(name) == {} and name != "resources"):
                errors.append(FieldError.forbidden(f"{at}.{name}", _NOT_EPHEMERAL))
        for index, mount in enumerate(container.get("volumeMounts") or ()):
            paths = [name for name in ("subPath", "subPathExpr") if mount.get(name)]
            errors += [FieldError.forbidden(f"{at}.volumeMounts[{index}].{name}", _NOT_EPHEMERAL) for name in paths]
    return errors


def _unique_name(container: Object, at: str, seen: set[str]) -> Errors:
    name = container.get("name") or ""
    if name in seen:
        return [FieldError.duplicate(f"{at}.name", name)]
    if name:
        seen.add(name)
    return []


def _container(container: Object, at: str, around: Surroundings) -> Errors:
    errors: Errors = []
    name = container.get("name") or ""
    if not name:
        errors.append(FieldError.required(f"{at}.name"))
    else:
        errors += checks.dns_label(name, f"{at}.name")
    if not container.get("image"):
        errors.append(FieldError.required(f"{at}.image"))
    if container.get("terminationMessagePolicy") not in _MESSAGE_POLICIES:
        policy = container.get("terminationMessagePolicy")
        errors += checks.one_of(policy, _MESSAGE_POLICIES, f"{at}.terminationMessagePolicy")
    if container.get("ports"):
        errors += _ports(container["ports"], f"{at}.ports")
    if container.get("env"):
        errors += _env(container["env"], f"{at}.env")
    if container.get("envFrom"):
        errors += _env_from(container["envFrom"], f"{at}.envFrom")
    if container.get("volumeMounts"):
        errors += _mounts(container, f"{at}.volumeMounts", around)
    if container.get("volumeDevices"):
        errors += _devices(container, f"{at}.volumeDevices", around)
    if container.get("imagePullPolicy") not in _PULL_POLICIES:
        errors += checks.one_of(container.get("imagePullPolicy"), _PULL_POLICIES, f"{at}.imagePullPolicy")
    if container.get("resources"):
        errors += validate_resources(container["resources"], f"{at}.resources", around.claims)
    if container.get("resizePolicy"):
        errors += _resize_policy(container["resizePolicy"], f"{at}.resizePolicy", around.restart_policy)
    if container.get("securityContext"):
        errors += security_context(container["securityContext"], f"{at}.securityContext")
    return errors


def _ports(ports: list[Object], path: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for position, port in enumerate(ports):
        at = f"{path}[{position}]"
        name = port.get("name")
        if name:
            bad = checks.port_name(name, f"{at}.name")
            if bad:
                errors += bad
            elif name in seen:
                errors.append(FieldError.duplicate(f"{at}.name", name))
            seen.add(name)
        number = port.get("containerPort") or 0
        if number == 0:
            errors.append(FieldError.required(f"{at}.containerPort"))
        else:
            errors += checks.port_number(number, f"{at}.containerPort")
        if port.get("hostPort"):
            errors += checks.port_number(port["hostPort"], f"{at}.hostPort")
        errors += checks.one_of(port.get("protocol"), ("SCTP", "TCP", "UDP"), f"{at}.protocol")
    return errors


def _host_port_conflicts(containers: list[Object], path: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for position, container in enumerate(containers):
        for index, port in enumerate(container.get("ports") or ()):
            if port.get("hostPort"):
                key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
                if key in seen:
                    errors.append(FieldError.duplicate(f"{path}[{position}].ports[{index}].hostPort", key))
                seen.add(key)
    return errors


def _env_name(name: str, path: str) -> Errors:
    if all(" " <= char <= "~" and char != "=" for char in name):
        return []
    return [FieldError.invalid(path, name, _ENV_NAME_TEXT)]


def _env(variables: list[Object], path: str) -> Errors:
    errors: Errors = []
    for position, variable in enumerate(variables):
        name = variable.get("name") or ""
        if not name:
            errors.append(FieldError.required(f"{path}[{position}].name"))
        else:
            errors += _env_name(name, f"{path}[{position}].name")
        source = variable.get("valueFrom")
        if source is not None:
            errors += _value_from(source, variable.get("value"), f"{path}[{position}].valueFrom")
    return errors


def _value_from(source: Object, value: str | None, at: str) -> Errors:
    errors: Errors = []
    given = [name for name in _ENV_SOURCES if source.get(name) is not None]
    for name in given:
        ref = source[name]
        if name in ("configMapKeyRef", "secretKeyRef"):
            if not ref.get("name"):
                errors.append(FieldError.required(f"{at}.{name}.name"))
            if not ref.get("key"):
                errors.append(FieldError.required(f"{at}.{name}.key"))
            else:
                errors += checks.config_key(ref["key"], f"{at}.{name}.key")
        elif name == "fieldRef" and not ref.get("fieldPath"):
            errors.append(FieldError.required(f"{at}.{name}.fieldPath"))
        elif name == "resourceFieldRef" and not ref.get("resource"):
            errors.append(FieldError.required(f"{at}.{name}.resource"))
    if not given:
        text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        errors.append(FieldError.invalid(at, "", text))
    elif value:
        errors.append(FieldError.invalid(at, "", "may not be specified when `value` is not empty"))
    elif len(given) > 1:
        errors.append(FieldError.invalid(at, "", "may not have more than one field specified at a time"))
    return errors


def _env_from(sources: list[Object], path: str) -> Errors:
    errors: Errors = []
    for position, source in enumerate(sources):
        if source.get("prefix"):
            errors += _env_name(source["prefix"], f"{path}[{position}].prefix")
        given = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for name in given:
            if not source[name].get("name"):
                errors.append(FieldError.required(f"{path}[{position}].{name}.name"))
        if not given:
            errors.append(FieldError.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(given) > 1:
            errors.append(FieldError.invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def _mounts(container: Object, path: str, around: Surroundings) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    devices = container.get("volumeDevices") or ()
    for position, mount in enumerate(container["volumeMounts"]):
        at = f"{path}[{position}]"
        name, mount_path = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            errors.append(FieldError.required(f"{at}.name"))
        if name not in around.volumes:
            errors.append(FieldError.not_found(f"{at}.name", name))
        if not mount_path:
            errors.append(FieldError.required(f"{at}.mountPath"))
        if mount_path in seen:
            errors.append(FieldError.invalid(f"{at}.mountPath", mount_path, "must be unique"))
        seen.add(mount_path)
        if any(device.get("name") == name for device in devices):
            errors.append(FieldError.invalid(f"{at}.name", name, "must not already exist in volumeDevices"))
        if mount.get("subPath"):
            errors += descending_path(mount["subPath"], f"{path}.subPath")
        if mount.get("subPathExpr"):
            if mount.get("subPath"):
                text = "subPathExpr and subPath are mutually exclusive"
                errors.append(FieldError.invalid(f"{at}.subPathExpr", mount["subPathExpr"], text))
            errors += descending_path(mount["subPathExpr"], f"{path}.subPathExpr")
        propagation = mount.get("mountPropagation")
        if propagation is not None and propagation not in _PROPAGATIONS:
            errors.append(FieldError.not_supported(f"{path}.mountPropagation", propagation, _PROPAGATIONS))
    return errors


def descending_path(value: str, path: str) -> Errors:
    errors: Errors = []
    if value.startswith("/"):
        errors.append(FieldError.invalid(path, value, "must be a relative path"))
    if ".." in value.split("/"):
        errors.append(FieldError.invalid(path, value, "must not contain '..'"))
    return errors


def _devices(container: Object, path: str, around: Surroundings) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for position, device in enumerate(container["volumeDevices"]):
        at = f"{path}[{position}]"
        name, device_path = device.get("name") or "", device.get("devicePath") or ""
        if not name:
            errors.append(FieldError.required(f"{at}.name"))
        elif name in seen:
            errors.append(FieldError.invalid(f"{at}.name", name, "must be unique"))
        if name not in around.volumes:
            errors.append(FieldError.not_found(f"{at}.name", name))
        if not device_path:
            errors.append(FieldError.required(f"{at}.devicePath"))
        seen.add(name)
    return errors


def validate_resources(
    resources: Object,
    path: str,
    pod_claims_known: frozenset[str],
    check_name: Callable[[str, str], Errors] = checks.container_resource_name,
) -> Errors:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    errors: Errors = []
    for name, amount in limits.items():
        at = f"{path}.limits[{name}]"
        errors += check_name(name, at)
        errors += checks.resource_value(name, amount, at)
    for name, amount in requests.items():
        at = f"{path}.requests[{name}]"
        errors += check_name(name, at)
        errors += checks.resource_value(name, amount, at)
        errors += _request_within_limit(name, amount, limits.get(name), path)
    names = {*limits, *requests}
    if any(map(checks.is_huge_page, names)) and not names & {"cpu", "memory"}:
        errors.append(FieldError.forbidden(path, "HugePages require cpu or memory"))
    if resources.get("claims"):
        errors += pod_claims.validate_container_claims(resources["claims"], pod_claims_known, f"{path}.claims")
    return errors


def _request_within_limit(name: str, amount: str, limit: str | None, path: str) -> Errors:
    if limit is None:
        if checks.may_overcommit(name):
            return []
        return [FieldError.required(f"{path}.limits", "Limit must be set for non overcommitable resources")]
    if amount == limit:
        return []
    order = checks.quantity(amount).compare(checks.quantity(limit))
    if order and not checks.may_overcommit(name):
        return [FieldError.invalid(f"{path}.requests", amount, f"must be equal to {name} limit of {limit}")]
    if order > 0:
        return [
            FieldError.invalid(f"{path}.requests", amount, f"must be less than or equal to {name} limit of {limit}")
        ]
    return []


def _resize_policy(policies: list[Object], path: str, restart_policy: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for position, policy in enumerate(policies):
        name, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if name in seen:
            errors.append(FieldError.duplicate(f"{path}[{position}]", name))
        seen.add(name)
        errors += checks.one_of(name, ("cpu", "memory"), path)
        errors += checks.one_of(restart, ("NotRequired", "RestartContainer"), path)
        if restart_policy == "Never" and restart != "NotRequired":
            text = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            errors.append(FieldError.invalid(path, restart, text))
    return errors


def _lifecycle_and_probes(container: Object, at: str) -> Errors:
    errors: Errors = []
    for name in ("postStart", "preStop"):
        handler = (container.get("lifecycle") or {}).get(name)
        if handler is not None:
            errors += _handler(handler, f"{at}.lifecycle.{name}")
    for name in _PROBES:
        probe = container.get(name)
        if probe is not None:
            errors += _probe(probe, f"{at}.{name}", name)
    return errors


def _probe(probe: Object, at: str, name: str) -> Errors:
    errors = _handler(probe, at)
    for field in _PROBE_NUMBERS:
        errors += checks.non_negative(probe.get(field), f"{at}.{field}")
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        errors.append(FieldError.invalid(f"{at}.terminationGracePeriodSeconds", grace, "must be greater than 0"))
    if grace is not None and name == "readinessProbe":
        text = "must not be set for readinessProbes"
        errors.append(FieldError.invalid(f"{at}.terminationGracePeriodSeconds", grace, text))
    if name != "readinessProbe" and probe.get("successThreshold") != 1:
        errors.append(FieldError.invalid(f"{at}.successThreshold", probe.get("successThreshold", 0), "must be 1"))
    return errors


def _handler(handler: Object, at: str) -> Errors:
    given = [name for name in _HANDLERS if handler.get(name) is not None]
    if not given:
        return [FieldError.required(at, "must specify a handler type")]
    errors: Errors = []
    for name in given[1:]:
        errors.append(FieldError.forbidden(f"{at}.{name}", "may not specify more than 1 handler type"))
    action = handler[given[0]]
    match given[0]:
        case "exec" if not action.get("command"):
            errors.append(FieldError.required(f"{at}.exec.command"))
        case "httpGet":
            if not action.get("path"):
                errors.append(FieldError.required(f"{at}.httpGet.path"))
            errors += checks.port_number_or_name(action.get("port", 0), f"{at}.httpGet.port")
            if action.get("scheme") not in ("HTTP", "HTTPS"):
                scheme = action.get("scheme", "")
                errors.append(FieldError.not_supported(f"{at}.httpGet.scheme", scheme, ("HTTP", "HTTPS")))
        case "tcpSocket":
            errors += checks.port_number_or_name(action.get("port", 0), f"{at}.tcpSocket.port")
        case "grpc":
            errors += checks.port_number_or_name(action.get("port", 0), f"{at}.grpc.port")
    return errors


def _restart_policy(container: Object, at: str, *, init: bool = False) -> Errors:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    errors: Errors = []
    if policy is None:
        if rules:
            text = "must specify restartPolicy when restart rules are used"
            errors.append(FieldError.required(f"{at}.restartPolicy", text))
        if init:
            return errors
    elif policy not in _RESTART_POLICIES:
        errors.append(FieldError.not_supported(f"{at}.restartPolicy", policy, _RESTART_POLICIES))
    if len(rules) > 20:
        errors.append(FieldError.too_many(f"{at}.restartPolicyRules", len(rules), 20))
    for position, rule in enumerate(rules):
        here = f"{at}.restartPolicyRules[{position}]"
        if rule.get("action") not in _RESTART_ACTIONS:
            errors.append(FieldError.not_supported(f"{here}.action", rule.get("action") or "", _RESTART_ACTIONS))
        codes = rule.get("exitCodes")
        if codes is None:
            errors.append(FieldError.required(f"{here}.exitCodes", "must be specified"))
        elif codes.get("operator") not in ("In", "NotIn"):
            errors.append(
                FieldError.not_supported(f"{here}.exitCodes.operator", codes.get("operator") or "", ("In", "NotIn"))
            )
    return errors


def security_context(context: Object, path: str) -> Errors:
    """Of a container or a pod: ids, seccomp, privilege."""
    errors: Errors = []
    for name in ("fsGroup", "runAsUser", "runAsGroup"):
        value = context.get(name)
        if value is not None and not 0 <= value <= checks.MAX_INT32:
            text = f"must be between 0 and {checks.MAX_INT32}, inclusive"
            errors.append(FieldError.invalid(f"{path}.{name}", value, text))
    for position, group in enumerate(context.get("supplementalGroups") or ()):
        if not 0 <= group <= checks.MAX_INT32:
            text = f"must be between 0 and {checks.MAX_INT32}, inclusive"
            errors.append(FieldError.invalid(f"{path}.supplementalGroups[{position}]", group, text))
    for name, supported in _CONTEXT_WORDS.items():
        if context.get(name) is not None and context[name] not in supported:
            errors.append(FieldError.not_supported(f"{path}.{name}", context[name], supported))
    if context.get("seccompProfile") is not None:
        errors += _profile(context["seccompProfile"], f"{path}.seccompProfile", "seccomp")
    if context.get("appArmorProfile") is not None:
        errors += _profile(context["appArmorProfile"], f"{path}.appArmorProfile", "AppArmor")
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            errors.append(FieldError.invalid(path, context, text))
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
            text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            errors.append(FieldError.invalid(path, context, text))
    return errors


def _profile(profile: Object, path: str, word: str) -> Errors:
    """A seccomp or AppArmor profile."""
    kind = profile.get("type") or ""
    if kind == "Localhost":
        if not profile.get("localhostProfile"):
            return [FieldError.required(f"{path}.localhostProfile", f"must be set when {word} type is Localhost")]
        if word == "AppArmor":
            return []
        return descending_path(profile["localhostProfile"], f"{path}.localhostProfile")
    errors: Errors = []
    if profile.get("localhostProfile") is not None:
        text = f"can only be set when {word} type is Localhost"
        errors.append(FieldError.invalid(f"{path}.localhostProfile", profile["localhostProfile"], text))
    if not kind:
        errors.append(FieldError.required(f"{path}.type", f"type is required when {path.rpartition('.')[2]} is set"))
    elif kind not in ("RuntimeDefault", "Unconfined"):
        supported = ("Localhost", "RuntimeDefault", "Unconfined")
        errors.append(FieldError.not_supported(f"{path}.type", kind, supported))
    return errors
