"""Which runtime this machine can use, best first, and why the others cannot."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from drakit.clock import Clock
from drakit.driver.injection import CdiCache
from drakit.node.errors import RuntimeFailure
from drakit.node.runtime import Runtime
from drakit.node.runtimes import cri, oci, process
from drakit.node.runtimes.fake import FakeRuntime

__all__ = ["NAMES", "Finding", "choose", "look"]

NAMES = ("auto", "cri", "oci", "process", "fake")


@dataclass(frozen=True)
class Finding:
    runtime: str
    usable: bool
    detail: str


async def look(cri_endpoint: str = "") -> list[Finding]:
    """What is there, for `drakit node --check`, in order of preference."""
    endpoint, detail = await cri.find(cri_endpoint)
    bubblewrap = process.find()
    return [
        Finding("cri", bool(endpoint), detail),
        Finding("oci", bool(oci.find()), oci.find() or "runc is not installed, or this user is not root"),
        Finding("process", True, bubblewrap or "bubblewrap is not installed: plain child processes, without isolation"),
        Finding("fake", True, "pretends to run containers; only when asked for"),
    ]


async def choose(
    name: str, root: Path, *, cdi: CdiCache, clock: Clock, images: Path | None = None, cri_endpoint: str = ""
) -> Runtime:
    """The named runtime, or with `auto` the best one there is; not started yet."""
    if name == "auto":
        name = next(f.runtime for f in await look(cri_endpoint) if f.usable)
    if name == "cri":
        endpoint, detail = await cri.find(cri_endpoint)
        if not endpoint:
            raise RuntimeFailure(f"no CRI runtime can be used: {detail}")
        return cri.CriRuntime(endpoint, cdi=cdi)
    if name == "oci":
        return oci.OciRuntime(root, cdi=cdi, images=images)
    if name == "process":
        return process.ProcessRuntime(root, cdi=cdi, images=images)
    if name == "fake":
        return FakeRuntime(clock=clock, cdi=cdi)
    raise RuntimeFailure(f"runtime {name!r} is not one of {', '.join(NAMES)}")
