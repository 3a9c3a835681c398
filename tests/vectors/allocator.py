"""Allocation vectors: what the structured allocator of Kubernetes 1.37 answered.

`ok` compares every device, its order, config, consumed capacity and node selector; `none` that nothing fits; `error`
that we fail too, with the same cause and naming the same objects. Runs on any file of that format.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightkube.models.core_v1 import Node
from lightkube.models.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice

from drakit.allocator import Allocated, Allocation, Budget, Failure, Features, Inventory, allocate
from drakit.api.typed import from_plain
from tests.vectors import Outcome, rows, vector_files

__all__ = ["Scenario", "check", "difference"]

FILES = ("allocator/scenarios.jsonl.gz", "allocator/hard.jsonl.gz", "allocator.jsonl")


class Scenario:
    """A vector with its objects loaded, ready to be allocated any number of times."""

    def __init__(self, vector: Mapping[str, Any]) -> None:
        self.vector = vector
        self.id: str = vector["id"]
        self.features = Features.of(*vector["features"])
        self.node = from_plain(Node, vector["node"])
        self.claims = [from_plain(ResourceClaim, claim) for claim in vector["claims"]]
        self.inventory = Inventory()
        for plain in vector["slices"]:
            self.inventory.set_slice(from_plain(ResourceSlice, plain))
        for plain in vector["classes"]:
            self.inventory.set_class(from_plain(DeviceClass, plain))
        self.inventory.set_node(self.node)
        self.allocated = Allocated()
        for number, held in enumerate(vector["allocated"] or ()):
            self.allocated.hold(f"holder-{number}", [held], holder=f"default/holder-{number}")

    def allocate(self, budget: Budget | None = None) -> Allocation | Failure:
        return allocate(self.inventory, self.allocated, self.node, self.claims, features=self.features, budget=budget)


def check(files: list[Path], level: str | None = None) -> Outcome:
    outcome = Outcome()
    slowest, total, count = (0.0, ""), 0.0, 0
    for path in files or vector_files(*FILES):
        for vector in rows.read(path):
            scenario = Scenario(vector)
            begin = time.perf_counter()
            answer = scenario.allocate(Budget(seconds=10, steps=10_000_000, clock=time.monotonic))
            elapsed = time.perf_counter() - begin
            slowest = max(slowest, (elapsed, vector["id"]))
            total += elapsed
            count += 1
            text = difference(vector, answer)
            if text:
                outcome.mismatches.append(f"{path.name} {vector['id']}: {text}")
            else:
                outcome.passed += 1
    outcome.notes.append(
        f"{count} allocations in {total:.2f} s; the slowest took {slowest[0] * 1000:.1f} ms ({slowest[1]})"
    )
    return outcome


def difference(vector: Mapping[str, Any], answer: Allocation | Failure) -> str:
    """ "" when the answer agrees with the recorded one."""
    expected = vector["outcome"]
    if isinstance(answer, Allocation):
        if expected != "ok":
            return f"expected {expected} {vector.get('error', '')}, got devices {_devices(answer.results)}"
        ours = _normal(_without_share_ids(list(answer.results)))
        theirs = _normal(_without_share_ids(vector["results"]))
        if ours == theirs:
            return ""
        return f"results differ\n  expected {json.dumps(theirs)}\n  got      {json.dumps(ours)}"
    if expected == "ok":
        return f"expected devices {_devices(vector['results'])}, got {answer.kind}: {answer.message}"
    if expected == "none":
        return "" if answer.kind == "none" else f"expected none, got {answer.kind}: {answer.message}"
    if answer.kind not in ("error", "invalid"):
        return f"expected error {vector['error']!r}, got {answer.kind}"
    ours_said, theirs_said = _facts(answer.message), _facts(vector["error"])
    return (
        "" if ours_said == theirs_said else f"errors differ\n  expected {vector['error']}\n  got      {answer.message}"
    )


_CAUSES = (
    "is currently being updated",
    "is currently invalid",
    "invalid resource pools were encountered",
    "because a claim constraint would not be satisfied",
    "CEL compile error",
    "CEL runtime error",
    "exceeds the claim limit",
    "feature is disabled",
    "could not retrieve device class",
    "missing device class name",
    "unsupported count mode",
    "empty constraint",
    "CEL expression empty",
    "compile derived attribute",
    "evaluate derived attribute",
    "checking capacity for device",
    "failed to perform node selection",
    "create NodeSelector",
)
_NAMES = re.compile(
    r"(claim|request|subrequest|class|slice|pool|device|attribute|constraint|selector) (#?[^\s,:]+)|(no such key: \w+)"
)


def _facts(message: str) -> tuple[str, frozenset[str]]:
    """The cause of an error and the objects that it names."""
    cause = next((cause for cause in _CAUSES if cause in message), message)
    # Go prints whole devices here, with the addresses of their parts.
    message = re.sub(r"device &Device\{Name:([^,]+),.*\} in slice", r"device \1 in slice", message)
    named = frozenset(match.group(0).rstrip(".") for match in _NAMES.finditer(message.split(". consider using")[0]))
    return cause, named


def _devices(results: Any) -> list[list[str]]:
    return [
        [
            f"{r['request']}={r['driver']}/{r['pool']}/{r['device']}"
            for r in (result.get("devices") or {}).get("results") or ()
        ]
        for result in results
    ]


def _without_share_ids(results: list[Any]) -> list[Any]:
    copied: list[Any] = json.loads(json.dumps(results))
    for result in copied:
        for device in (result.get("devices") or {}).get("results") or ():
            if "shareID" in device:
                assert device["shareID"]
                device["shareID"] = "<generated>"
    return copied


def _normal(value: Any) -> Any:
    """Without empty fields: Go writes some and leaves out others."""
    if isinstance(value, dict):
        pairs = {key: _normal(item) for key, item in value.items()}
        return {key: item for key, item in sorted(pairs.items()) if item not in (None, [], {})}
    if isinstance(value, list):
        return [_normal(item) for item in value]
    return value
