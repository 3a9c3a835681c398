"""Profiles: what a simulated node offers, as data. One YAML file each in `profiles/`; a path to one's own file works too.

A profile has `node` (labels, capacity), `pools` (driver, devices or counters) and `classes` (DeviceClass manifests). Strings may
hold `{node}`, `{index}` (of the node), `{uuid}` (stable for node and device) and loop variables of `for`, with simple
arithmetic: `{gpu//2}`, `{port%8}`, `{i+1}`, and a format: `{i:02x}`.
"""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from drakit.api import registry, strategy
from drakit.api.errors import StatusError
from drakit.api.gates import FeatureGates
from drakit.api.kind import WriteContext
from drakit.client.transport import Plain

__all__ = ["Profile", "ProfileError", "load", "names"]

MAX_DEVICES = 128  # of a ResourceSlice; half of that when devices consume counters or have taints
_PLACEHOLDER = re.compile(r"\{(\w+)(?:(//|%|\+|\*)(\d+))?(?::(\w+))?\}")
_KEYS = {"name", "description", "node", "pools", "classes"}


class ProfileError(ValueError):
    """A profile that cannot be used: which file, where in it, and why."""


def names() -> list[str]:
    """The profiles that come with drakit."""
    folder = resources.files("drakit.drivers") / "profiles"
    return sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def load(name: str) -> Profile:
    """A profile by name, or by path when the name ends in .yaml."""
    if name.endswith((".yaml", ".yml")):
        path = Path(name)
        if not path.exists():
            raise ProfileError(f"profile {name}: no such file")
        text = path.read_text(encoding="utf-8")
    elif name in names():
        text = (resources.files("drakit.drivers") / "profiles" / f"{name}.yaml").read_text(encoding="utf-8")
    else:
        raise ProfileError(f"profile {name!r} is not known; there are {', '.join(names())}, or give the path of a file")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ProfileError(f"profile {name}: {error}") from error
    made = Profile.parse(value, name)
    try:
        _check(made)
    except (ProfileError, StatusError) as error:
        raise ProfileError(f"profile {name}: {error}") from None
    return made


def _check(made: Profile) -> None:
    """What a node of it publishes would be taken by an API server, whose gates are not known here."""
    context = WriteContext(FeatureGates.parse("AllAlpha=true,AllBeta=true"), datetime.now(UTC))
    for obj in [made.node("node-0"), *made.device_classes(), *made.slices("node-0")]:
        found = registry.by_api_version(obj["apiVersion"], obj["kind"])
        assert found is not None
        kind, version = found
        decoded = strategy.decode(kind, version, obj)
        if decoded.strict_errors:
            raise ProfileError(f"{kind.kind}: {', '.join(decoded.strict_errors)}")
        decoded.obj.setdefault("metadata", {}).setdefault("uid", "unknown yet")
        strategy.create(kind, decoded.obj, context)


@dataclass(frozen=True, slots=True)
class Profile:
    name: str
    description: str
    labels: Plain
    capacity: Plain
    pools: tuple[Plain, ...]
    classes: tuple[Plain, ...]

    @classmethod
    def parse(cls, value: Any, name: str) -> Profile:
        if not isinstance(value, dict):
            raise ProfileError(f"profile {name}: expected a mapping, got {type(value).__name__}")
        if unknown := sorted(value.keys() - _KEYS):
            raise ProfileError(
                f"profile {name}: unknown keys {', '.join(unknown)}; known are {', '.join(sorted(_KEYS))}"
            )
        node = value.get("node") or {}
        for index, pool in enumerate(value.get("pools") or ()):
            if "driver" not in pool:
                raise ProfileError(f"profile {name}: pools[{index}].driver: Required value")
            for number, device in enumerate(pool.get("devices") or ()):
                if "name" not in device:
                    raise ProfileError(f"profile {name}: pools[{index}].devices[{number}].name: Required value")
        return cls(
            value.get("name", name),
            value.get("description", ""),
            dict(node.get("labels") or {}),
            {"cpu": "64", "memory": "256Gi", "pods": "110", **(node.get("capacity") or {})},
            tuple(value.get("pools") or ()),
            tuple(value.get("classes") or ()),
        )

    @property
    def drivers(self) -> list[str]:
        return sorted({pool["driver"] for pool in self.pools})

    def node(self, name: str, index: int = 0) -> Plain:
        """The Node object without its conditions."""
        values = {"node": name, "index": index}
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {**labels, **_fill(self.labels, values)}},
            "status": {"capacity": dict(self.capacity), "allocatable": dict(self.capacity)},
        }

    def slices(self, node: str, index: int = 0, *, uid: str = "") -> list[Plain]:
        """The ResourceSlices of one node, owned by it when its UID is given."""
        found: list[Plain] = []
        for pool in self.pools:
            values = {"node": node, "index": index}
            pool_name = _fill(pool.get("name", "{node}"), values)
            parts = _parts(pool, values)
            for number, part in enumerate(parts):
                spec = {
                    "driver": pool["driver"],
                    "nodeName": node,
                    "pool": {"name": pool_name, "generation": 1, "resourceSliceCount": len(parts)},
                    **part,
                }
                meta: Plain = {
                    "name": f"{node}-{pool['driver']}-{pool_name if pool_name != node else 'local'}-{number}"
                }
                if uid:
                    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": True}
                    meta["ownerReferences"] = [owner]
                found.append(
                    {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": meta, "spec": spec}
                )
        return found

    def device_classes(self) -> list[Plain]:
        base = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"}
        return [{**base, **device_class} for device_class in self.classes]


def _parts(pool: Plain, values: Mapping[str, Any]) -> list[Plain]:
    """The contents of a pool's slices: counters in their own, devices in as many as the limits ask for."""
    counters = [_fill(entry, each) for entry, each in _loops(pool.get("sharedCounters") or (), values)]
    devices = [_device(entry, each) for entry, each in _loops(pool.get("devices") or (), values)]
    limit = MAX_DEVICES
    if any("consumesCounters" in device or "taints" in device for device in devices):
        limit //= 2
    parts: list[Plain] = [{"sharedCounters": counters[at : at + 8]} for at in range(0, len(counters), 8)]
    parts += [{"devices": devices[at : at + limit]} for at in range(0, len(devices), limit)]
    return parts or [{"devices": []}]


def _device(entry: Plain, values: Mapping[str, Any]) -> Plain:
    name = _fill(entry["name"], values)
    stable = uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.{values['node']}")
    device: Plain = _fill(entry, {**values, "uuid": str(stable)})
    return device


def _loops(entries: Any, values: Mapping[str, Any]) -> Iterator[tuple[Plain, dict[str, Any]]]:
    """Entries with `for: {i: 4, j: [a, b]}` come once per combination, the last variable running fastest."""
    for entry in entries:
        loops = entry.get("for") or {}
        body = {key: value for key, value in entry.items() if key != "for"}
        ranges = [range(over) if isinstance(over, int) else over for over in loops.values()]
        for combination in itertools.product(*ranges):
            yield body, {**values, **dict(zip(loops, combination, strict=True))}


def _fill(value: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda match: _placeholder(match, values), value)
    if isinstance(value, list):
        return [_fill(item, values) for item in value]
    if isinstance(value, dict):
        return {_fill(key, values): _fill(item, values) for key, item in value.items()}
    return value


def _placeholder(match: re.Match[str], values: Mapping[str, Any]) -> str:
    name, operator, operand, form = match.groups()
    if name not in values:
        raise ProfileError(f"{match.group(0)}: there is no variable {name}; here there are {', '.join(sorted(values))}")
    value = values[name]
    if operator:
        number, other = int(value), int(operand)
        value = {"//": number // other, "%": number % other, "+": number + other, "*": number * other}[operator]
    return format(value, form) if form else str(value)
