"""Which resource a model class stands for: group, version, plural, scope.

The registry of `drakit.api` says it; kinds that a cluster defines itself (CRDs) are named by a Resource directly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from drakit.api import registry
from drakit.client.transport import Plain

__all__ = ["Resource", "key_of", "model_of", "resource_of", "resource_of_plain"]


@dataclass(frozen=True, slots=True)
class Resource:
    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


_known: dict[type[Any], Resource] = {}


def resource_of(model: type[Any]) -> Resource:
    """The resource of a model such as core_v1.Pod; KeyError for what is no kind of the API."""
    resource = _known.get(model)
    if resource is None:
        kind, version = registry.by_model(model)
        resource = _known[model] = Resource(kind.group, version, kind.plural, kind.kind, kind.namespaced)
    return resource


def model_of(resource: Resource) -> type[Any] | None:
    """The model of a built-in kind; None for kinds defined by the cluster."""
    kind = registry.by_kind(resource.group, resource.kind)
    version = kind.version(resource.version) if kind is not None else None
    return version.model if version is not None else None


def resource_of_plain(obj: Plain) -> Resource:
    found = registry.by_api_version(obj["apiVersion"], obj["kind"])
    if found is None:
        raise KeyError(f"unknown kind {obj['apiVersion']} {obj['kind']}: name its Resource")
    kind, version = found
    return Resource(kind.group, version, kind.plural, kind.kind, kind.namespaced)


def key_of(obj: Plain) -> str:
    """`namespace/name`, or `name` in cluster scope: how caches and queues name an object."""
    metadata = obj["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])
