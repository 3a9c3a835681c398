"""CDI resolution: device ids -> one set of container edits, from the spec files of the CDI directories.

What containerd and cri-o do with CDI_devices, for runtimes that have no CDI of their own; also what the driver test kit shows an
author. Later directories win over earlier ones; the same device twice in one directory is a conflict and unusable.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from drakit.driver import cdi
from drakit.driver.errors import CdiError

__all__ = ["CDI_DIRECTORIES", "CdiCache", "Edits"]

CDI_DIRECTORIES = (Path("/etc/cdi"), Path("/var/run/cdi"))
Plain = Mapping[str, Any]


@dataclass
class Edits:
    """Merged container edits, in the order of the devices; see the CDI specification for each part's fields."""

    env: list[str] = field(default_factory=list)
    device_nodes: list[Plain] = field(default_factory=list)
    mounts: list[Plain] = field(default_factory=list)
    hooks: list[Plain] = field(default_factory=list)
    net_devices: list[Plain] = field(default_factory=list)
    additional_gids: list[int] = field(default_factory=list)
    intel_rdt: Plain | None = None

    def add(self, edits: Plain) -> None:
        self.env += edits.get("env") or ()
        for node in edits.get("deviceNodes") or ():
            self.device_nodes = [n for n in self.device_nodes if n["path"] != node["path"]] + [node]
        for mount in edits.get("mounts") or ():
            self.mounts = [m for m in self.mounts if m["containerPath"] != mount["containerPath"]] + [mount]
        self.hooks += edits.get("hooks") or ()
        self.net_devices += edits.get("netDevices") or ()
        self.additional_gids += [g for g in edits.get("additionalGids") or () if g and g not in self.additional_gids]
        self.intel_rdt = edits.get("intelRdt") or self.intel_rdt


@dataclass(frozen=True)
class _File:
    stamp: tuple[int, int, int]
    spec: Plain | None
    error: str


class CdiCache:
    """Reads spec files as they change; one stat per file and resolution otherwise."""

    def __init__(self, directories: Sequence[Path] = CDI_DIRECTORIES) -> None:
        self._directories = tuple(directories)
        self._files: dict[Path, _File] = {}

    def resolve(self, ids: Iterable[str]) -> Edits:
        """CdiError names every id that cannot be resolved, and why where a file is at fault."""
        names = [cdi.parse_name(i) for i in dict.fromkeys(ids)]
        edits = Edits()
        if not names:
            return edits
        found, problems = self._devices()
        missing = [str(n) for n in names if found.get(str(n)) is None]
        if missing:
            reasons = "; ".join(problems) if problems else "no spec file defines them"
            raise CdiError(f"unresolvable CDI devices {', '.join(missing)} ({reasons})")
        used: set[Path] = set()
        for name in names:
            entry = found[str(name)]
            assert entry is not None
            path, spec, device = entry
            if path not in used:
                used.add(path)
                edits.add(spec.get("containerEdits") or {})
            edits.add(device.get("containerEdits") or {})
        return edits

    def _devices(self) -> tuple[dict[str, tuple[Path, Plain, Plain] | None], list[str]]:
        found: dict[str, tuple[Path, Plain, Plain] | None] = {}
        problems: list[str] = []
        present: dict[Path, _File] = {}
        for directory in self._directories:
            here: set[str] = set()
            for path in _spec_files(directory):
                loaded = present[path] = self._load(path)
                if loaded.spec is None:
                    problems.append(loaded.error)
                    continue
                for device in loaded.spec["devices"]:
                    name = f"{loaded.spec['kind']}={device['name']}"
                    if name in here:
                        problems.append(f"{path}: device {name} is defined twice in {directory}")
                        found[name] = None
                        continue
                    here.add(name)
                    found[name] = (path, loaded.spec, device)
        self._files = present
        return found, problems

    def _load(self, path: Path) -> _File:
        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            known = self._files.get(path)
            if known is not None and known.stamp == stamp:
                return known
            text = path.read_text()
            spec = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
            cdi.check(spec, str(path))
            return _File(stamp, spec, "")
        except (OSError, ValueError, RecursionError, yaml.YAMLError, CdiError) as error:
            return _File((0, 0, 0), None, str(error) if isinstance(error, CdiError) else f"{path}: {error}")


def _spec_files(directory: Path) -> list[Path]:
    try:
        return sorted(p for p in directory.iterdir() if p.suffix in (".json", ".yaml") and not p.name.startswith("."))
    except OSError:
        return []
