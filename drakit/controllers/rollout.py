"""What a Deployment decides, as functions: which ReplicaSet is new, how large each shall be, what the status says.

After pkg/controller/deployment and its util: the sizes, conditions, reasons and texts are those that `kubectl rollout` reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from drakit.controllers.objects import (
    Plain,
    condition,
    deleting,
    format_time,
    name,
    parse_time,
    spec,
    status,
)
from drakit.controllers.pods import scaled

__all__ = [
    "DESIRED",
    "HASH_LABEL",
    "MAX",
    "REVISION",
    "ROLLBACK",
    "Deployment",
    "annotations_of",
    "copied_annotations",
    "created",
    "fnv32",
    "own_annotations",
    "proportional_sizes",
    "replicas",
    "revision",
    "rollback_of",
    "safe_encode",
    "template_hash",
    "with_condition",
    "without_hash",
]

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAX = "deployment.kubernetes.io/max-replicas"
ROLLBACK = "deprecated.deployment.rollback.to"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_NOT_COPIED = frozenset({LAST_APPLIED, REVISION, HISTORY, DESIRED, MAX, ROLLBACK})
_UNLIMITED = 2**31 - 1
_LONGEST_HISTORY = 2000  # characters of the annotation
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}").fullmatch
_SAFE = "bcdfghjklmnpqrstvwxz2456789"


def safe_encode(text: str) -> str:
    """Characters that cannot spell words, as in generated names."""
    return "".join(_SAFE[ord(char) % len(_SAFE)] for char in text)


def fnv32(data: bytes) -> int:
    value = 0x811C9DC5
    for byte in data:
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value


def template_hash(template: Plain, collisions: int | None) -> str:
    """A name for this template. Kubernetes hashes a Go dump; any stable function serves, because sets are found by comparing templates."""
    text = json.dumps(template, sort_keys=True, separators=(",", ":"))
    if collisions is not None:
        text += f"/{collisions}"
    return safe_encode(str(fnv32(text.encode())))


def without_hash(template: Plain) -> Plain:
    metadata = template.get("metadata") or {}
    labels = {label: value for label, value in (metadata.get("labels") or {}).items() if label != HASH_LABEL}
    rest = {field: value for field, value in metadata.items() if field not in ("labels", "creationTimestamp")}
    return {"metadata": {**rest, "labels": labels}, "spec": template.get("spec")}


def replicas(replica_set: Plain) -> int:
    value = spec(replica_set).get("replicas", 1)
    return int(value)


def revision(obj: Plain) -> int:
    return _integer(annotations_of(obj).get(REVISION)) or 0


def rollback_of(deployment: Plain) -> int | None:
    """The revision to go back to, 0 for the one before this, by the annotation that `kubectl rollout undo` of old left."""
    return _integer(annotations_of(deployment).get(ROLLBACK))


def _integer(text: str | None) -> int | None:
    return int(text) if text and _NUMBER(text) else None


def _size(replica_set: Plain, annotation: str) -> int | None:
    """A number of replicas that an annotation tells."""
    value = _integer(annotations_of(replica_set).get(annotation))
    return value if value is not None and 0 <= value <= _UNLIMITED else None


def annotations_of(obj: Plain) -> Mapping[str, str]:
    return obj["metadata"].get("annotations") or {}


def created(obj: Plain) -> tuple[str, str]:
    return obj["metadata"].get("creationTimestamp") or "", name(obj)


@dataclass(frozen=True)
class Deployment:
    """A Deployment and the ReplicaSets it controls: a snapshot to decide on."""

    obj: Plain
    sets: list[Plain]

    @property
    def wanted(self) -> int:
        return int(spec(self.obj).get("replicas", 1))

    @property
    def rolling(self) -> bool:
        strategy: Mapping[str, Any] = spec(self.obj).get("strategy") or {}
        return bool(strategy.get("type", "RollingUpdate") == "RollingUpdate")

    @property
    def _fenceposts(self) -> tuple[int, int]:
        """maxSurge, maxUnavailable: never both zero."""
        update = (spec(self.obj).get("strategy") or {}).get("rollingUpdate") or {}
        surge = scaled(update.get("maxSurge", 0), self.wanted, up=True)
        unavailable = scaled(update.get("maxUnavailable", 0), self.wanted, up=False)
        return surge, unavailable if surge or unavailable else 1

    @property
    def max_surge(self) -> int:
        return self._fenceposts[0] if self.rolling else 0

    @property
    def max_unavailable(self) -> int:
        return min(self._fenceposts[1], self.wanted) if self.rolling and self.wanted else 0

    @property
    def has_deadline(self) -> bool:
        return bool(spec(self.obj).get("progressDeadlineSeconds", _UNLIMITED) != _UNLIMITED)

    @property
    def paused(self) -> bool:
        return bool(spec(self.obj).get("paused"))

    @cached_property
    def new_set(self) -> Plain | None:
        """The oldest set with the wanted template."""
        return min((candidate for candidate in self.sets if self.has_template(candidate)), key=created, default=None)

    def has_template(self, replica_set: Plain) -> bool:
        return without_hash(spec(replica_set)["template"]) == self._template

    @cached_property
    def _template(self) -> Plain:
        return without_hash(spec(self.obj)["template"])

    @cached_property
    def old_sets(self) -> list[Plain]:
        new = self.new_set
        return [candidate for candidate in sorted(self.sets, key=created) if candidate is not new]

    @property
    def is_scaling(self) -> bool:
        """The wanted size changed since the active sets were sized."""
        return any(
            replicas(candidate) > 0 and _size(candidate, DESIRED) not in (None, self.wanted) for candidate in self.sets
        )

    # Sizes.

    def size_of_new(self) -> int:
        """How large the new set may be now."""
        new = self.new_set
        have = replicas(new) if new is not None else 0
        if not self.rolling:
            return self.wanted
        room = self.wanted + self.max_surge - sum(map(replicas, self.sets))
        return have if room <= 0 else have + min(room, self.wanted - have)

    def sizes_rolling(self) -> list[dict[str, int]]:
        """One round of a rolling update: grow the new set, else shrink old ones; empty when there is nothing to do now.

        Old sets shrink in up to two writes, first by the pods that do not work anyway, then by those that can be spared.
        """
        new = self.new_set
        assert new is not None
        size = self.wanted if replicas(new) > self.wanted else self.size_of_new()
        if size != replicas(new):
            return [{name(new): size}]
        return self._shrink_old(new)

    def _shrink_old(self, new: Plain) -> list[dict[str, int]]:
        active = [old for old in self.old_sets if replicas(old) > 0]
        minimum = self.wanted - self.max_unavailable
        unavailable_new = replicas(new) - _available(new)
        budget = sum(map(replicas, self.sets)) - minimum - unavailable_new
        if not active or budget <= 0:
            return []
        broken: dict[str, int] = {}
        for old in active:
            step = min(budget, replicas(old) - _available(old))
            if step > 0:
                broken[name(old)] = replicas(old) - step
                budget -= step
        spare = sum(map(_available, (*active, new))) - minimum
        shrunk: dict[str, int] = {}
        for old in active:
            left = broken.get(name(old), replicas(old))
            step = min(left, spare)
            if step > 0:
                shrunk[name(old)] = left - step
                spare -= step
        return [sizes for sizes in (broken, shrunk) if sizes]

    def sizes_scaling(self) -> dict[str, int]:
        """New sizes when only the number of replicas changed: one active set takes it all, several share it in proportion."""
        new, old = self.new_set, self.old_sets
        active = [each for each in self.sets if replicas(each) > 0]
        if len(active) <= 1:
            only = active[0] if active else new or (max(old, key=created) if old else None)
            return {name(only): self.wanted} if only is not None and replicas(only) != self.wanted else {}
        if new is not None and self._saturated(new):
            return {name(each): 0 for each in old if replicas(each) > 0}
        if not self.rolling:
            return {}
        return proportional_sizes(
            active, self.wanted, self.wanted + self.max_surge if self.wanted else 0, self.max_surge, status(self.obj)
        )

    def _saturated(self, new: Plain) -> bool:
        available = status(new).get("availableReplicas", 0)
        return bool(replicas(new) == self.wanted == available == _size(new, DESIRED))

    def expired_sets(self) -> list[Plain]:
        """Old sets beyond revisionHistoryLimit that are empty."""
        limit = spec(self.obj).get("revisionHistoryLimit", 10)
        alive = [old for old in self.old_sets if not deleting(old)]
        excess = len(alive) - limit
        if limit == _UNLIMITED or excess <= 0:
            return []
        ordered = sorted(alive, key=lambda old: (revision(old), created(old)))
        return [
            old
            for old in ordered[:excess]
            if not replicas(old)
            and not status(old).get("replicas")
            and old["metadata"].get("generation", 0) <= status(old).get("observedGeneration", 0)
        ]

    # Status.

    def complete(self, new: Mapping[str, Any]) -> bool:
        counts = {new.get(field, 0) for field in ("updatedReplicas", "replicas", "availableReplicas")}
        return counts == {self.wanted} and self._observed(new)

    def _observed(self, new: Mapping[str, Any]) -> bool:
        return int(new.get("observedGeneration", 0)) >= int(self.obj["metadata"].get("generation", 0))

    def next_status(self, now: datetime, *, rollout: bool) -> Plain:
        """`rollout`: also judge progress (not while paused or merely scaling)."""
        old, new_set = status(self.obj), self.new_set
        available = _total(self.sets, "availableReplicas")
        counts: Plain = {
            "observedGeneration": self.obj["metadata"].get("generation", 0),
            "replicas": _total(self.sets, "replicas"),
            "updatedReplicas": status(new_set).get("replicas", 0) if new_set is not None else 0,
            "readyReplicas": _total(self.sets, "readyReplicas"),
            "availableReplicas": available,
            "unavailableReplicas": max(0, sum(map(replicas, self.sets)) - available),
        }
        result = {field: value for field, value in counts.items() if value}
        terminating = self._terminating
        if terminating is not None:
            result["terminatingReplicas"] = terminating
        if old.get("collisionCount") is not None:
            result["collisionCount"] = old["collisionCount"]
        conditions = list(old.get("conditions") or ())
        if available >= self.wanted - self.max_unavailable:
            conditions = with_condition(
                conditions, "Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.", now
            )
        else:
            conditions = with_condition(
                conditions,
                "Available",
                "False",
                "MinimumReplicasUnavailable",
                "Deployment does not have minimum availability.",
                now,
            )
        if rollout:
            conditions = self._progress(conditions, result, now)
            conditions = self._failures(conditions)
        return {**result, "conditions": conditions}

    @property
    def _terminating(self) -> int | None:
        """None when a set has been looked after by a controller that does not tell."""
        looked_after = [status(each) for each in self.sets if status(each).get("observedGeneration")]
        if any(each.get("terminatingReplicas") is None for each in looked_after):
            return None
        return _total(self.sets, "terminatingReplicas")

    def _progress(self, conditions: list[Plain], new: Plain, now: datetime) -> list[Plain]:
        if not self.has_deadline:
            return _without(conditions, "Progressing")
        current = _progressing(conditions)
        reason = current["reason"] if current else ""
        new_set = self.new_set
        what = f'ReplicaSet "{name(new_set)}"' if new_set is not None else f'Deployment "{name(self.obj)}"'
        done = f"{what} has successfully progressed."
        changed = False
        if (
            current is not None
            and reason == "NewReplicaSetAvailable"
            and new.get("replicas", 0) == new.get("updatedReplicas", 0)
        ):
            changed = new_set is not None and current["message"] != done
            if not changed:
                return conditions
            if self.complete(new):  # the set was made by an attempt that did not get to say so: name the right one
                return [
                    *_without(conditions, "Progressing"),
                    {**current, "message": done, "lastUpdateTime": format_time(now)},
                ]
        if self.complete(new):
            return with_condition(conditions, "Progressing", "True", "NewReplicaSetAvailable", done, now)
        # `changed`: all pods went to another set between two looks, so that the counts tell of no movement.
        if changed or self._moving(new):
            stamp = format_time(now)
            since = current.get("lastTransitionTime", stamp) if current and current["status"] == "True" else stamp
            entry = {
                "type": "Progressing", "status": "True", "lastUpdateTime": stamp, "lastTransitionTime": since,
                "reason": "ReplicaSetUpdated", "message": f"{what} is progressing.",
            }  # fmt: skip
            return [*_without(conditions, "Progressing"), entry]
        if current is not None and self._timed_out(current, now):
            return with_condition(
                conditions,
                "Progressing",
                "False",
                "ProgressDeadlineExceeded",
                f"{what} has timed out progressing.",
                now,
            )
        return conditions

    def _moving(self, new: Plain) -> bool:
        old = status(self.obj)
        before = old.get("replicas", 0) - old.get("updatedReplicas", 0)
        after = new.get("replicas", 0) - new.get("updatedReplicas", 0)
        grown = any(
            new.get(field, 0) > old.get(field, 0) for field in ("updatedReplicas", "readyReplicas", "availableReplicas")
        )
        return grown or bool(after < before)

    def _timed_out(self, current: Plain, now: datetime) -> bool:
        if current["reason"] == "NewReplicaSetAvailable":
            return False
        if current["reason"] == "ProgressDeadlineExceeded":
            return True
        waited = (now - parse_time(current["lastUpdateTime"])).total_seconds()
        return bool(waited > spec(self.obj)["progressDeadlineSeconds"])

    def _failures(self, conditions: list[Plain]) -> list[Plain]:
        """The new set's trouble, else that of the oldest set that has any, becomes the Deployment's."""
        candidates = (*((self.new_set,) if self.new_set is not None else ()), *self.old_sets)
        failure = next((found for each in candidates if (found := condition(each, "ReplicaFailure"))), None)
        if failure is None:
            return _without(conditions, "ReplicaFailure")
        known = next((entry for entry in conditions if entry["type"] == "ReplicaFailure"), None)
        if known is not None and (known["status"], known.get("reason")) == (failure["status"], failure.get("reason")):
            return conditions
        since = known if known is not None and known["status"] == failure["status"] else failure
        return [
            *_without(conditions, "ReplicaFailure"),
            {
                **failure,
                "lastUpdateTime": failure.get("lastTransitionTime"),
                "lastTransitionTime": since.get("lastTransitionTime"),
            },
        ]

    def look_again(self, new: Plain, now: datetime) -> float | None:
        """When to see whether progress has stopped."""
        current = _progressing(new.get("conditions") or ())
        if (
            not self.has_deadline
            or current is None
            or self.complete(new)
            or current["reason"] == "ProgressDeadlineExceeded"
        ):
            return None
        waited = (now - parse_time(current["lastUpdateTime"])).total_seconds()
        return max(0.0, float(spec(self.obj)["progressDeadlineSeconds"] - waited)) + 1.0


def _progressing(conditions: Iterable[Plain]) -> Plain | None:
    """With what Go reads where somebody else wrote nothing."""
    for entry in conditions:
        if entry["type"] == "Progressing":
            given = {field: value for field, value in entry.items() if value is not None}
            return {"reason": "", "message": "", "lastUpdateTime": "0001-01-01T00:00:00Z", **given}
    return None


def proportional_sizes(
    active: list[Plain], wanted: int, allowed: int, surge: int, deployment_status: Mapping[str, Any]
) -> dict[str, int]:
    """Several sets at once (a rollout in the middle): each grows or shrinks in proportion, the largest takes what rounding leaves."""
    add = allowed - sum(map(replicas, active))
    if not add:
        return {name(each): replicas(each) for each in active}
    # Larger first; among equals the newer when growing, the older when shrinking.
    ordered = sorted(active, key=created, reverse=add > 0)
    ordered.sort(key=replicas, reverse=True)
    sizes: dict[str, int] = {}
    added = 0
    for each in ordered:
        part = _share(each, wanted, wanted + surge, deployment_status) if add != added else 0
        part = min(part, add - added) if add > 0 else max(part, add - added)
        sizes[name(each)] = replicas(each) + part
        added += part
    first = name(ordered[0])
    sizes[first] = max(0, sizes[first] + add - added)
    return sizes


def _share(replica_set: Plain, wanted: int, largest: int, deployment_status: Mapping[str, Any]) -> int:
    have = replicas(replica_set)
    if not wanted:
        return -have
    base = _size(replica_set, MAX) or deployment_status.get("replicas", 0)
    if not base:
        return 0
    exact = have * largest / base
    return int(exact + 0.5) - have


def with_condition(
    conditions: Iterable[Plain], kind: str, state: str, reason: str, message: str, now: datetime
) -> list[Plain]:
    """As upstream: nothing changes while status and reason stay; the transition time stays with the status."""
    known = next((entry for entry in conditions if entry["type"] == kind), None)
    if known is not None and (known["status"], known.get("reason")) == (state, reason):
        return list(conditions)
    stamp = format_time(now)
    since = (known.get("lastTransitionTime") or stamp) if known is not None and known["status"] == state else stamp
    entry = {
        "type": kind, "status": state, "lastUpdateTime": stamp, "lastTransitionTime": since, "reason": reason, "message": message,
    }  # fmt: skip
    return [*_without(conditions, kind), entry]


def copied_annotations(
    deployment: Plain, replica_set: Plain | None, revision_text: str, wanted: int, largest: int
) -> dict[str, str]:
    """The annotations of the new set: the Deployment's, its revision (and the ones it had before), its size limits."""
    result = dict(annotations_of(replica_set)) if replica_set is not None else {}
    result |= own_annotations(deployment)
    before = result.get(REVISION, "")
    number = _integer(before or "0")
    if number is None:  # someone has written a revision that is none: left alone
        return dict(annotations_of(replica_set or {"metadata": {}}))
    if number < int(revision_text):
        if before:
            result[HISTORY] = _history(result.get(HISTORY, ""), before)
        result[REVISION] = revision_text
    if replica_set is None:
        result[DESIRED], result[MAX] = str(wanted), str(largest)
    return result


def _history(known: str, revision_text: str) -> str:
    """The oldest revisions make room for the latest."""
    entries = [*(known.split(",") if known else ()), revision_text]
    while len(",".join(entries)) > _LONGEST_HISTORY:
        entries.pop(0)
    return ",".join(entries)


def own_annotations(obj: Plain) -> dict[str, str]:
    """Those that a Deployment and its sets share."""
    return {key: value for key, value in annotations_of(obj).items() if key not in _NOT_COPIED}


def _without(conditions: Iterable[Plain], kind: str) -> list[Plain]:
    return [entry for entry in conditions if entry["type"] != kind]


def _named(sets: Iterable[Plain], wanted: str) -> Plain:
    return next(each for each in sets if name(each) == wanted)


def _available(replica_set: Plain) -> int:
    """As its status says, but no more than it shall have: the pods of a set that was made smaller a moment ago are as good as gone."""
    return min(int(status(replica_set).get("availableReplicas", 0)), replicas(replica_set))


def _total(sets: Iterable[Plain], field: str) -> int:
    return sum(status(each).get(field) or 0 for each in sets)
