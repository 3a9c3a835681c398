"""A container's environment: literals, references to the pod, ConfigMaps and Secrets, and $(NAME) expansion as the kubelet does it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lightkube.models.core_v1 import Container, EnvVar, Pod

from drakit.api.quantity import Quantity
from drakit.api.typed import to_plain
from drakit.node.errors import VolumeError
from drakit.node.objects import Objects

__all__ = ["PodFacts", "environment", "expand", "field_value", "resource_value"]

_REFERENCE = re.compile(r"\$(?:\$|\(([-._a-zA-Z0-9]+)\))")
_KEYED = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]\Z")


@dataclass(frozen=True)
class PodFacts:
    """What the node adds to a pod: its addresses, and what an unlimited container could use."""

    node_name: str
    host_ip: str
    pod_ip: str
    allocatable: Mapping[str, str] = field(default_factory=dict)


async def environment(pod: Pod, container: Container, facts: PodFacts, objects: Objects) -> dict[str, str]:
    assert pod.metadata is not None
    namespace = pod.metadata.namespace or ""
    env: dict[str, str] = {}
    for source in container.envFrom or ():
        values: dict[str, bytes] = {}
        if source.configMapRef is not None:
            values = await objects.config_map(
                namespace, source.configMapRef.name or "", optional=bool(source.configMapRef.optional)
            )
        elif source.secretRef is not None:
            values = await objects.secret(
                namespace, source.secretRef.name or "", optional=bool(source.secretRef.optional)
            )
        for key, value in values.items():
            name = (source.prefix or "") + key
            if name and "=" not in name and "\0" not in name:
                env[name] = value.decode(errors="replace")
    for variable in container.env or ():
        if variable.valueFrom is None:
            env[variable.name] = expand(variable.value or "", env)
        else:
            found = await _from(variable, pod, container, facts, objects)
            if found is not None:
                env[variable.name] = found
    return env


async def _from(variable: EnvVar, pod: Pod, container: Container, facts: PodFacts, objects: Objects) -> str | None:
    source = variable.valueFrom
    assert source is not None
    assert pod.metadata is not None
    namespace = pod.metadata.namespace or ""
    if source.fieldRef is not None:
        return field_value(pod, source.fieldRef.fieldPath, facts)
    if source.resourceFieldRef is not None:
        reference = source.resourceFieldRef
        target = _container(pod, reference.containerName or container.name)
        return resource_value(target, reference.resource, str(reference.divisor or ""), facts)
    for kind, selector in (("ConfigMap", source.configMapKeyRef), ("Secret", source.secretKeyRef)):
        if selector is not None:
            get = objects.config_map if kind == "ConfigMap" else objects.secret
            values = await get(namespace, selector.name or "", optional=bool(selector.optional))
            if selector.key in values:
                return values[selector.key].decode(errors="replace")
            if selector.optional:
                return None
            raise VolumeError(f"couldn't find key {selector.key} in {kind} {namespace}/{selector.name}")
    raise VolumeError(f"environment variable {variable.name}: this source is not supported here")


def _container(pod: Pod, name: str) -> Container:
    assert pod.spec is not None
    containers: list[Container] = [*(pod.spec.initContainers or ()), *(pod.spec.containers or ())]
    for container in containers:
        if container.name == name:
            return container
    raise VolumeError(f"container {name} not found")


def expand(text: str, values: Mapping[str, str]) -> str:
    """$(NAME) becomes the value, $$ a dollar; an unknown name stays as it is written."""

    def replace(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is None:
            return "$"
        return values.get(name, match.group(0))

    return _REFERENCE.sub(replace, text)


def expand_all(texts: Sequence[str] | None, values: Mapping[str, str]) -> list[str]:
    return [expand(t, values) for t in texts or ()]


def field_value(pod: Pod, path: str, facts: PodFacts) -> str:
    """A downward API field; labels and annotations as a whole have their file form."""
    plain: Mapping[str, Any] = to_plain(pod)
    keyed = _KEYED.match(path)
    if keyed:
        return str((plain["metadata"].get(keyed.group(1)) or {}).get(keyed.group(2), ""))
    if path in ("metadata.labels", "metadata.annotations"):
        values = plain["metadata"].get(path.partition(".")[2]) or {}
        return "\n".join(f'{k}="{_escape(str(v))}"' for k, v in sorted(values.items()))
    special = {
        "status.hostIP": facts.host_ip,
        "status.hostIPs": facts.host_ip,
        "status.podIP": facts.pod_ip,
        "status.podIPs": facts.pod_ip,
    }
    if path in special:
        return special[path]
    if path == "spec.nodeName":
        return facts.node_name
    if path in ("metadata.name", "metadata.namespace", "metadata.uid", "spec.serviceAccountName"):
        section, _, name = path.partition(".")
        return str(plain[section].get(name, ""))
    raise VolumeError(f"unsupported fieldPath: {path}")


def resource_value(container: Container, resource: str, divisor: str, facts: PodFacts) -> str:
    """limits.* and requests.* in units of the divisor, rounded up; an unset limit is what the node can give."""
    section, _, name = resource.partition(".")
    resources = container.resources
    limits, requests = (
        (resources.limits if resources else None) or {},
        (resources.requests if resources else None) or {},
    )
    amount = limits.get(name) if section == "limits" else requests.get(name, limits.get(name))
    if amount is None:
        amount = facts.allocatable.get(name, "0") if section == "limits" else "0"
    unit = Quantity.parse(divisor if divisor not in ("", "0") else "1")
    numerator, denominator = Quantity.parse(str(amount)).milli_value(), max(unit.milli_value(), 1)
    return str(-(-numerator // denominator))


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
