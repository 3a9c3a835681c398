"""What a StatefulSet does, compared with a plain look at all its pods that follows Kubernetes' text step by step
(pkg/controller/statefulset/stateful_set_control.go): the roster takes shortcuts, this does not."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from drakit.client import Plain
from drakit.controllers.objects import deleting, pod_available, pod_finished, pod_ready
from drakit.controllers.pods import scaled
from drakit.controllers.revisions import revision_of_pod
from drakit.controllers.statefulset_decisions import POD_NAME_LABEL, Roster, decide
from tests.controllers import objects as make

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECONDS_AGO = {seconds: f"{NOW - timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}" for seconds in (0, 5, 60)}
Pods = dict[int, Plain]
Action = tuple[str, int, str]


def _pod(ordinal: int, revision: str, phase: str = "Pending", *, ready: bool = False, seconds: int = 60) -> Plain:
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": SECONDS_AGO[seconds]}
    labels = {"app": "s", "controller-revision-hash": revision, POD_NAME_LABEL: f"s-{ordinal}"}
    metadata = {"name": f"s-{ordinal}", "namespace": "default", "labels": labels}
    return {"kind": "Pod", "metadata": metadata, "spec": {}, "status": {"phase": phase, "conditions": [condition]}}


def _some_set(rng: random.Random) -> Plain:
    body = make.workload("StatefulSet", "s", replicas=rng.randrange(6), minReadySeconds=rng.choice((0, 0, 10)))
    body["spec"]["podManagementPolicy"] = rng.choice(("OrderedReady", "Parallel"))
    body["spec"]["ordinals"] = {"start": rng.choice((0, 0, 1, 2))}
    strategy = body["spec"]["updateStrategy"] = {"type": rng.choice(("RollingUpdate",) * 3 + ("OnDelete", "Recreate"))}
    if strategy["type"] == "RollingUpdate" and rng.random() < 0.85:
        limit = rng.choice((1, 1, 2, 3, "50%", "1%"))
        strategy["rollingUpdate"] = {"partition": rng.choice((0, 0, 1, 2, 4)), "maxUnavailable": limit}
    if rng.random() < 0.3:
        body["status"] = {"currentReplicas": rng.randrange(4)}
    return body


def _some_pod(rng: random.Random, ordinal: int) -> Plain:
    phase = rng.choice(("Running",) * 5 + ("Pending", "Failed", "Succeeded"))
    ready = phase == "Running" and rng.random() < 0.7
    pod = _pod(ordinal, rng.choice(("old", "new", "new")), phase, ready=ready, seconds=rng.choice((5, 60)))
    if rng.random() < 0.1:
        del pod["metadata"]["labels"][POD_NAME_LABEL]
    if rng.random() < 0.15:
        pod["metadata"]["deletionTimestamp"] = SECONDS_AGO[5]
    return pod


class Look:
    """One look at all pods. Changes them as the API server would and notes what was done."""

    def __init__(self, stateful_set: Plain, pods: Pods, current: str) -> None:
        spec = stateful_set["spec"]
        self.pods, self.current, self.minimum = pods, current, spec["minReadySeconds"]
        self.strategy, self.rolling = spec["updateStrategy"]["type"], spec["updateStrategy"].get("rollingUpdate")
        self.in_order = spec["podManagementPolicy"] == "OrderedReady"
        self.start = spec["ordinals"]["start"]
        self.wanted = range(self.start, self.start + spec["replicas"])
        self.were_current = stateful_set.get("status", {}).get("currentReplicas", 0)
        self.actions: list[Action] = []

    def delete(self, ordinal: int) -> None:
        self.actions.append(("delete", ordinal, ""))
        self.pods[ordinal]["metadata"]["deletionTimestamp"] = SECONDS_AGO[0]

    def unavailable(self, ordinal: int) -> bool:
        pod = self.pods.get(ordinal)
        return pod is None or deleting(pod) or not pod_available(pod, self.minimum, NOW)

    def outdated(self, ordinal: int) -> bool:
        return revision_of_pod(self.pods[ordinal]) != "new" and not deleting(self.pods[ordinal])

    def take(self) -> list[Action]:
        condemned = [ordinal for ordinal in sorted(self.pods, reverse=True) if ordinal not in self.wanted]
        sick = next(filter(self.unavailable, (*self.wanted, *reversed(condemned))), None)
        going_on = self.strategy != "Recreate" or self.no_old_pods([*self.wanted, *condemned])
        if going_on and self.fill() and self.shrink(condemned, sick) and self.strategy == "RollingUpdate":
            self.update()
        return self.actions

    def no_old_pods(self, ordinals: list[int]) -> bool:
        old = [each for each in ordinals if each in self.pods and revision_of_pod(self.pods[each]) != "new"]
        for ordinal in filter(self.outdated, old):
            self.delete(ordinal)
        return not old

    def fill(self) -> bool:
        for ordinal in self.wanted:
            pod = self.pods.get(ordinal)
            if pod is None:
                reached = self.rolling["partition"] if self.rolling is not None else self.were_current
                old = self.strategy == "RollingUpdate" and ordinal < self.start + reached
                pod = self.pods[ordinal] = _pod(ordinal, self.current if old else "new")
                self.actions.append(("create", ordinal, revision_of_pod(pod)))
                if self.in_order:
                    return False
            elif pod_finished(pod):
                if not deleting(pod):
                    self.delete(ordinal)
                if self.in_order:
                    return False
                continue
            if self.in_order and self.unavailable(ordinal):
                return False
            if POD_NAME_LABEL not in pod["metadata"]["labels"]:
                pod["metadata"]["labels"][POD_NAME_LABEL] = f"s-{ordinal}"
                self.actions.append(("name", ordinal, ""))
        return True

    def shrink(self, condemned: list[int], sick: int | None) -> bool:
        for ordinal in condemned:
            ready = pod_ready(self.pods[ordinal]) and pod_available(self.pods[ordinal], self.minimum, NOW)
            if not deleting(self.pods[ordinal]) and (not self.in_order or ready or ordinal == sick):
                self.delete(ordinal)
            if self.in_order:
                return False
        return True

    def update(self) -> None:
        rolling = self.rolling or {}
        room = max(1, scaled(rolling.get("maxUnavailable", 1), len(self.wanted), up=False))
        room -= sum(map(self.unavailable, self.wanted))
        reached = [*range(self.start + rolling.get("partition", 0), self.wanted.stop)][::-1]
        old = list(filter(self.outdated, reached))
        if not self.in_order:
            broken = [ordinal for ordinal in old if self.unavailable(ordinal)]
            for ordinal in broken:
                self.delete(ordinal)
            old = [ordinal for ordinal in old if ordinal not in broken]
        for ordinal in old[: max(0, room)]:
            self.delete(ordinal)


def _look(stateful_set: Plain, pods: Pods, current: str) -> list[Action]:
    return Look(stateful_set, pods, current).take()


def _step(stateful_set: Plain, pods: Pods, current: str) -> list[Action]:
    actions: list[Action] = []
    step = decide(stateful_set, Roster(stateful_set, pods.values()), current, "new", NOW)
    for action in (action for each in step.rounds for action in each):
        revision = ""
        if action.verb == "create":
            revision = "new" if action.new else current
            pods[action.ordinal] = _pod(action.ordinal, revision)
        elif action.verb == "delete":
            pods[action.ordinal]["metadata"]["deletionTimestamp"] = SECONDS_AGO[0]
        else:
            pods[action.ordinal]["metadata"]["labels"][POD_NAME_LABEL] = f"s-{action.ordinal}"
        actions.append((action.verb, action.ordinal, revision))
    return actions


def _until_quiet(act: Callable[[Plain, Pods, str], list[Action]], *state: object) -> list[Action]:
    stateful_set, pods, current = copy.deepcopy(state)
    done: list[Action] = []
    for _ in range(20):
        actions = act(stateful_set, pods, current)  # type: ignore[arg-type]  # as they were given
        if not actions:
            return sorted(done)
        done += actions
    raise AssertionError("it does not come to rest")


@pytest.mark.parametrize("block", range(8))
def test_a_set_does_what_a_look_at_all_pods_would(block: int) -> None:
    for seed in range(block * 200, block * 200 + 200):
        rng = random.Random(seed)
        stateful_set = _some_set(rng)
        pods = {ordinal: _some_pod(rng, ordinal) for ordinal in range(7) if rng.random() < 0.75}
        state = (stateful_set, pods, rng.choice(("old", "old", "new")))
        assert _until_quiet(_step, *state) == _until_quiet(_look, *state), f"seed {seed}"
