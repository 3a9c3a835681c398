"""CDI specs (Container Device Interface 1.1.0): names, validation, minimum versions, and files written whole.

A spec is its plain JSON value. The agent's reading side (`drakit.node.injection`) uses the same checks, so what a driver
writes here is what any CDI runtime accepts. Unknown fields are errors, as in the CDI library.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from drakit.driver import files
from drakit.driver.errors import CdiError

__all__ = ["Name", "check", "file_name", "minimum_version", "parse_name", "remove", "write"]

Spec = Mapping[str, Any]

VERSIONS = ("0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
_VENDOR = re.compile(r"[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?\Z")
_DEVICE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?\Z")
_HOOKS = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
_FIELDS: dict[str, frozenset[str]] = {
    "spec": frozenset({"cdiVersion", "kind", "annotations", "devices", "containerEdits"}),
    "device": frozenset({"name", "annotations", "containerEdits"}),
    "containerEdits": frozenset({"env", "deviceNodes", "netDevices", "hooks", "mounts", "intelRdt", "additionalGids"}),
    "deviceNode": frozenset({"path", "hostPath", "type", "major", "minor", "fileMode", "permissions", "uid", "gid"}),
    "netDevice": frozenset({"hostInterfaceName", "name"}),
    "mount": frozenset({"hostPath", "containerPath", "options", "type"}),
    "hook": frozenset({"hookName", "path", "args", "env", "timeout"}),
    "intelRdt": frozenset(
        {"closID", "l3CacheSchema", "memBwSchema", "schemata", "enableMonitoring", "enableCMT", "enableMBM"}
    ),
}


class Name(NamedTuple):
    """A qualified device name, `vendor/class=device`."""

    vendor: str
    cls: str
    device: str

    def __str__(self) -> str:
        return f"{self.vendor}/{self.cls}={self.device}"

    @property
    def kind(self) -> str:
        return f"{self.vendor}/{self.cls}"


def parse_name(text: str) -> Name:
    kind, equals, device = text.partition("=")
    vendor, slash, cls = kind.partition("/")
    if not (equals and slash and _VENDOR.match(vendor) and _VENDOR.match(cls) and _DEVICE.match(device)):
        raise CdiError(f"CDI device {text!r}: not of the form vendor/class=device")
    return Name(vendor, cls, device)


def check(spec: Spec, where: str = "CDI spec") -> None:
    """Raises CdiError at the first thing a CDI runtime would refuse."""
    _fields(spec, "spec", where)
    version = str(spec.get("cdiVersion", "")).removeprefix("v")
    if version not in VERSIONS:
        raise CdiError(f"{where}: cdiVersion {spec.get('cdiVersion')!r} is not one of {', '.join(VERSIONS)}")
    vendor, _, cls = str(spec.get("kind", "")).partition("/")
    if not _VENDOR.match(vendor) or not _VENDOR.match(cls):
        raise CdiError(f"{where}: kind {spec.get('kind')!r} is not of the form vendor/class")
    _check_edits(spec.get("containerEdits") or {}, f"{where}: containerEdits")
    seen: set[str] = set()
    for device in spec.get("devices") or ():
        _fields(device, "device", where)
        name = str(device.get("name", ""))
        if not _DEVICE.match(name):
            raise CdiError(f"{where}: device name {name!r} is invalid")
        if name in seen:
            raise CdiError(f"{where}: device {name!r} is listed twice")
        seen.add(name)
        _check_edits(device.get("containerEdits") or {}, f"{where}: device {name!r}")
    if not seen:
        raise CdiError(f"{where}: no devices")
    needed = minimum_version(spec)
    if VERSIONS.index(version) < VERSIONS.index(needed):
        raise CdiError(f"{where}: cdiVersion {version} is too low for its content: at least {needed}")


def _fields(value: Any, kind: str, where: str) -> None:
    if not isinstance(value, Mapping):
        raise CdiError(f"{where}: {kind} is not an object")
    unknown = sorted(set(value) - _FIELDS[kind])
    if unknown:
        raise CdiError(f"{where}: unknown field {unknown[0]!r} in {kind}")


def _check_edits(edits: Any, where: str) -> None:
    _fields(edits, "containerEdits", where)
    for variable in edits.get("env") or ():
        if not isinstance(variable, str) or "=" not in variable or variable.startswith("="):
            raise CdiError(f"{where}: env {variable!r} is not NAME=VALUE")
    for node in edits.get("deviceNodes") or ():
        _fields(node, "deviceNode", where)
        if not node.get("path"):
            raise CdiError(f"{where}: a device node without path")
        if node.get("type", "") not in ("", "b", "c", "u", "p"):
            raise CdiError(f"{where}: device node {node['path']!r}: type {node['type']!r} is not b, c, u or p")
        permissions = node.get("permissions", "")
        if permissions != "none" and set(permissions) - set("rwm"):
            raise CdiError(f"{where}: device node {node['path']!r}: permissions {permissions!r} are not from rwm")
    for interface in edits.get("netDevices") or ():
        _fields(interface, "netDevice", where)
        if not interface.get("hostInterfaceName") or not interface.get("name"):
            raise CdiError(f"{where}: a net device needs hostInterfaceName and name")
    for mount in edits.get("mounts") or ():
        _fields(mount, "mount", where)
        if not mount.get("hostPath") or not mount.get("containerPath"):
            raise CdiError(f"{where}: a mount needs hostPath and containerPath")
    for hook in edits.get("hooks") or ():
        _fields(hook, "hook", where)
        if hook.get("hookName") not in _HOOKS:
            raise CdiError(f"{where}: hook name {hook.get('hookName')!r} is not one of {', '.join(_HOOKS)}")
        if not str(hook.get("path", "")).startswith("/"):
            raise CdiError(f"{where}: hook path {hook.get('path')!r} is not absolute")
    if edits.get("intelRdt") is not None:
        _fields(edits["intelRdt"], "intelRdt", where)


def minimum_version(spec: Spec) -> str:
    """The lowest cdiVersion that knows every field the spec uses."""
    needed = "0.3.0"
    devices = list(spec.get("devices") or ())
    all_edits = [spec.get("containerEdits") or {}, *((d.get("containerEdits") or {}) for d in devices)]
    if any(m.get("type") for e in all_edits for m in e.get("mounts") or ()):
        needed = "0.4.0"
    if any(n.get("hostPath") for e in all_edits for n in e.get("deviceNodes") or ()) or any(
        str(d.get("name", ""))[:1].isdigit() for d in devices
    ):
        needed = "0.5.0"
    if (
        spec.get("annotations")
        or any(d.get("annotations") for d in devices)
        or "." in str(spec.get("kind", "")).partition("/")[2]
    ):
        needed = "0.6.0"
    if any(e.get("intelRdt") or e.get("additionalGids") for e in all_edits):
        needed = "0.7.0"
    rdt = [e["intelRdt"] for e in all_edits if e.get("intelRdt")]
    if any(e.get("netDevices") for e in all_edits) or any(r.get("schemata") or r.get("enableMonitoring") for r in rdt):
        needed = "1.1.0"
    return needed


def file_name(vendor: str, cls: str, identifier: str = "") -> str:
    """The CDI library's name for a (transient) spec file, without its extension."""
    name = f"{vendor}-{cls}"
    return f"{name}_{identifier.replace('/', '_')}" if identifier else name


def write(directory: Path, name: str, spec: Spec) -> Path:
    """Checks the spec, sets its version if absent, and writes `<name>.json` atomically."""
    complete = {
        "cdiVersion": spec.get("cdiVersion") or minimum_version(spec),
        **{k: v for k, v in spec.items() if k != "cdiVersion"},
    }
    path = directory / (files.component(name, "CDI file", reserve=5) + ".json")
    check(complete, str(path))
    try:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        files.write(path, json.dumps(complete, indent=2).encode())
    except OSError as error:
        raise CdiError(f"cannot write CDI spec {path}: {error.strerror or error}") from error
    return path


def remove(directory: Path, names: Iterable[str]) -> None:
    for name in names:
        files.remove(directory / (files.component(name, "CDI file", reserve=5) + ".json"))
