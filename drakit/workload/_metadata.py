"""Decoding of device metadata files (KEP-5304): a stream of JSON objects, the same content once per API version.

The first object of a known version counts; objects of unknown versions are skipped, so a newer driver does not break an older
container. Anything else that is wrong is an error: half-read metadata would be worse than none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

GROUP = "metadata.resource.k8s.io"
VERSIONS = ("v1beta1", "v1alpha1")
CONTAINER_DIRECTORY = "/var/run/kubernetes.io/dra-device-attributes"
_SUFFIX = "-metadata.json"
_TYPES = {"string": str, "int": int, "bool": bool, "version": str}


class MetadataError(Exception):
    """The metadata is not there or cannot be read; the text names the file."""


@dataclass(frozen=True)
class NetworkData:
    interface_name: str = ""
    ips: tuple[str, ...] = ()
    hardware_address: str = ""


@dataclass(frozen=True)
class Device:
    """One allocated device. `attributes` holds plain values: str, int, bool, or a tuple of them for list attributes."""

    driver: str
    pool: str
    name: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    network_data: NetworkData | None = None


@dataclass(frozen=True)
class Request:
    """`name` is the request, or `request/subrequest` where the scheduler chose one of several."""

    name: str
    devices: tuple[Device, ...] = ()


@dataclass(frozen=True)
class DeviceMetadata:
    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    pod_claim_name: str | None = None
    requests: tuple[Request, ...] = ()

    @property
    def devices(self) -> tuple[Device, ...]:
        """All devices of all requests."""
        return tuple(d for r in self.requests for d in r.devices)


def read_claim(
    claim: str, request: str, driver: str = "", *, root: str | os.PathLike[str] = CONTAINER_DIRECTORY
) -> DeviceMetadata:
    """Metadata of a claim that the pod names directly (`resourceClaimName`); of all drivers, or of one."""
    return _read(Path(root) / "resourceclaims" / _component(claim) / _component(request), driver)


def read_template_claim(
    entry: str, request: str, driver: str = "", *, root: str | os.PathLike[str] = CONTAINER_DIRECTORY
) -> DeviceMetadata:
    """Metadata of a claim made from a template, by the name of the pod's entry (`spec.resourceClaims[].name`)."""
    return _read(Path(root) / "resourceclaimtemplates" / _component(entry) / _component(request), driver)


def decode(text: str) -> DeviceMetadata:
    """The first object of a known version in a metadata stream."""
    decoder = json.JSONDecoder()
    unknown: list[str] = []
    position = _skip_space(text, 0)
    while position < len(text):
        try:
            value, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            raise MetadataError(f"read metadata object from stream: {error}") from error
        position = _skip_space(text, position)
        version = value.get("apiVersion") if isinstance(value, dict) else None
        if not isinstance(version, str) or not version:
            raise MetadataError("decode metadata object: apiVersion is missing")
        group, _, short = version.partition("/")
        if group != GROUP or short not in VERSIONS:
            unknown.append(version)
            continue
        if value.get("kind") != "DeviceMetadata":
            raise MetadataError(f"decode {version}: kind {value.get('kind')!r} is not DeviceMetadata")
        try:
            return _metadata(value)
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise MetadataError(f"decode {version}: {error}") from error
    if unknown:
        raise MetadataError(f"no compatible metadata version found in stream (unknown versions: {', '.join(unknown)})")
    raise MetadataError("no metadata objects found in stream")


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


def _component(name: str) -> str:
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        raise MetadataError(f"{name!r} is not a claim or request name")
    return name


def _read(directory: Path, driver: str) -> DeviceMetadata:
    if driver:
        return _read_file(directory / (_component(driver) + _SUFFIX))
    paths = sorted(p for p in directory.iterdir() if p.name.endswith(_SUFFIX)) if directory.is_dir() else []
    if not paths:
        raise MetadataError(
            f"no metadata files found in {directory}: does the container list the claim in resources.claims, "
            "and does its driver write metadata?"
        )
    found = [_read_file(path) for path in paths]
    if len(found) == 1:
        return found[0]
    return _merge(found)


def _merge(parts: list[DeviceMetadata]) -> DeviceMetadata:
    """One claim, several drivers: requests of the same name join their devices."""
    devices: dict[str, list[Device]] = {}
    for part in parts:
        for request in part.requests:
            devices.setdefault(request.name, []).extend(request.devices)
    pod_claim = next((p.pod_claim_name for p in parts if p.pod_claim_name is not None), None)
    first = parts[0]
    requests = tuple(Request(name, tuple(found)) for name, found in devices.items())
    return DeviceMetadata(first.name, first.namespace, first.uid, first.generation, pod_claim, requests)


def _read_file(path: Path) -> DeviceMetadata:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MetadataError(f"open metadata file {path}: {error}") from error
    try:
        return decode(text)
    except MetadataError as error:
        raise MetadataError(f"{path}: {error}") from error


def _metadata(value: Mapping[str, Any]) -> DeviceMetadata:
    meta = value.get("metadata") or {}
    requests = tuple(
        Request(_text(r["name"]), tuple(_device(d) for d in r.get("devices") or ()))
        for r in value.get("requests") or ()
    )
    pod_claim = value.get("podClaimName")
    return DeviceMetadata(
        name=_text(meta.get("name", "")),
        namespace=_text(meta.get("namespace", "")),
        uid=_text(meta.get("uid", "")),
        generation=int(meta.get("generation", 0)),
        pod_claim_name=None if pod_claim is None else _text(pod_claim),
        requests=requests,
    )


def _device(value: Mapping[str, Any]) -> Device:
    network = value.get("networkData")
    data = None
    if network is not None:
        ips = tuple(_text(ip) for ip in network.get("ips") or ())
        data = NetworkData(_text(network.get("interfaceName", "")), ips, _text(network.get("hardwareAddress", "")))
    attributes = {name: _attribute(name, a) for name, a in (value.get("attributes") or {}).items()}
    return Device(_text(value["driver"]), _text(value["pool"]), _text(value["name"]), attributes, data)


def _attribute(name: str, value: Mapping[str, Any]) -> Any:
    for kind, expected in _TYPES.items():
        if kind in value:
            if not isinstance(value[kind], expected) or (expected is int and isinstance(value[kind], bool)):
                raise ValueError(f"attribute {name!r}: {value[kind]!r} is not a {kind}")
            return value[kind]
        if kind + "s" in value:
            return tuple(value[kind + "s"])
    raise ValueError(f"attribute {name!r} has no value")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value
