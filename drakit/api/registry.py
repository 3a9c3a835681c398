"""The kinds that drakit knows, and which versions of them are served.

The entries are written where the rules of the kinds are: `api.resource` (resource.k8s.io) and `api.kinds` (everything else).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from drakit.api import kinds, resource
from drakit.api.gates import FeatureGates
from drakit.api.kind import Kind, Version

__all__ = [
    "KINDS",
    "Kind",
    "RuntimeConfig",
    "Version",
    "by_api_version",
    "by_kind",
    "by_model",
    "by_resource",
    "groups",
    "served",
]

KINDS: tuple[Kind, ...] = (*kinds.KINDS, *resource.KINDS)

_BY_RESOURCE = {(kind.group, kind.plural): kind for kind in KINDS}
_BY_KIND = {(kind.group, kind.kind): kind for kind in KINDS}
_BY_MODEL = {version.model: (kind, version.name) for kind in KINDS for version in kind.versions}


def by_resource(group: str, plural: str) -> Kind | None:
    return _BY_RESOURCE.get((group, plural))


def by_kind(group: str, kind: str) -> Kind | None:
    return _BY_KIND.get((group, kind))


def by_api_version(api_version: str, kind: str) -> tuple[Kind, str] | None:
    """The kind and version that a manifest's apiVersion and kind name; None when there is no such version."""
    group, _, version = api_version.rpartition("/")
    found = _BY_KIND.get((group, kind))
    if found is None or found.version(version) is None:
        return None
    return found, version


def by_model(model: type) -> tuple[Kind, str]:
    """The kind and version that a model (or a resource class of lightkube made from it) stands for; KeyError when none."""
    for cls in model.__mro__:
        found = _BY_MODEL.get(cls)
        if found is not None:
            return found
    raise KeyError(f"{model.__module__}.{model.__qualname__} is no kind of the API: see drakit.api.registry.KINDS")


def groups() -> tuple[str, ...]:
    """The groups, in the order of the entries."""
    return tuple(dict.fromkeys(kind.group for kind in KINDS))


class RuntimeConfig:
    """What --runtime-config says: api/all=true, resource.k8s.io/v1beta1=true, …/devicetaintrules=false, api/beta=true."""

    def __init__(self, settings: Mapping[str, bool] | None = None) -> None:
        self._settings = dict(settings or {})

    @classmethod
    def parse(cls, text: str) -> RuntimeConfig:
        settings = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, _, value = part.partition("=")
            if value not in ("", "true", "false"):
                raise ValueError(f"invalid value {value} of {name}: --runtime-config takes true or false")
            settings[name] = value != "false"
        return cls(settings)

    def allows(self, kind: Kind, version: Version) -> bool:
        group_version = kind.api_version(version.name)
        stage = "alpha" if "alpha" in version.name else "beta" if "beta" in version.name else "ga"
        for name in (f"{group_version}/{kind.plural}", group_version, f"api/{stage}", "api/all"):
            if name in self._settings:
                return self._settings[name]
        return version.default


def served(kind: Kind, gates: FeatureGates, config: RuntimeConfig | None = None) -> tuple[Version, ...]:
    """The versions of the kind that an API server with these settings offers, preferred first; none: the kind is not there."""
    config = config or _DEFAULT
    return tuple(
        version
        for version in kind.versions
        if config.allows(kind, version) and all(gates.enabled(gate) for gate in version.gates)
    )


def served_kinds(
    gates: FeatureGates, config: RuntimeConfig | None = None
) -> Iterable[tuple[Kind, tuple[Version, ...]]]:
    for kind in KINDS:
        versions = served(kind, gates, config)
        if versions:
            yield kind, versions


_DEFAULT = RuntimeConfig()
