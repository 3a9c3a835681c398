"""Jobs: what their spec may say, which of it may change, and what their status may become."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.kinds.helpers import UID, causes, context, created, kind, template, updated

Plain = dict[str, Any]

JOB = kind("Job", "batch")
INDEXED = {"completionMode": "Indexed", "completions": 5, "parallelism": 2}
START, LATER = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"


def job(name: str = "x", **spec: Any) -> Plain:
    body = {"template": {"spec": template(restartPolicy="Never")["spec"]}, **spec}
    return {"metadata": {"name": name}, "spec": body}


def failing(*rules: Plain, **spec: Any) -> Plain:
    return job(podFailurePolicy={"rules": list(rules)}, **spec)


def codes(*values: int, action: str = "Ignore", operator: str = "In", **more: Any) -> Plain:
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(values), **more}}


def succeeding(*rules: Plain) -> Plain:
    return job(**INDEXED, successPolicy={"rules": list(rules)})


RULE, RULES = "spec.podFailurePolicy.rules[0]", "spec.successPolicy.rules"
MANY = {"completionMode": "Indexed", "completions": 100_001, "backoffLimitPerIndex": 1}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(job(managedBy="example.com/x"), [], id="manager"),
        pytest.param(job(managedBy="x"), ['spec.managedBy: Invalid value: "x": must be a domain-prefixed path (such as "acme.io/foo")'], id="manager-without-domain"),
        pytest.param(job(managedBy="a.io/" + "x" * 59), ["spec.managedBy: Too long: may not be more than 63 bytes"], id="manager-too-long"),
        pytest.param(job(**INDEXED, backoffLimitPerIndex=1, maxFailedIndexes=6), ["spec.maxFailedIndexes: Invalid value: 6: must be less than or equal to completions"], id="more-failed-than-completions"),
        pytest.param(job(**MANY, parallelism=2), ["spec.maxFailedIndexes: Required value: must be specified when completions is above 100000"], id="many-without-limit"),
        pytest.param(
            job(**MANY, parallelism=10_001, maxFailedIndexes=10_001),
            [
                f"spec.{name}: Invalid value: 10001: must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index"
                for name in ("parallelism", "maxFailedIndexes")
            ],
            id="many-with-high-limits",
        ),
        pytest.param(job("x" * 62, **INDEXED), [f'metadata.name: Invalid value: "{"x" * 62}": will not able to create pod with invalid DNS label: {"x" * 62}-4'], id="hostnames-too-long"),
        pytest.param(failing(codes(1, 2, containerName="c")), [], id="exit-codes"),
        pytest.param(failing(codes(1), podReplacementPolicy="TerminatingOrFailed"), ['spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"'], id="replacement-policy"),
        pytest.param(failing(codes(1, action="FailIndex")), [f'{RULE}.action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set'], id="fail-index"),
        pytest.param(failing({"action": "Stop", "onPodConditions": [{"type": "Ready"}]}), [f'{RULE}.action: Unsupported value: "Stop": supported values: "Count", "FailIndex", "FailJob", "Ignore"'], id="unknown-action"),
        pytest.param(failing({"action": "", **codes(1, operator="")} | {"action": ""}), [f'{RULE}.action: Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]', f'{RULE}.onExitCodes.operator: Required value: valid values: ["In" "NotIn"]'], id="no-words"),
        pytest.param(failing(codes(2, 1, 1, 0)), [f"{RULE}.onExitCodes.values[2]: Duplicate value: 1", f"{RULE}.onExitCodes.values[3]: Invalid value: 0: must not be 0 for the In operator", f"{RULE}.onExitCodes.values: Invalid value: [2,1,1,0]: must be ordered"], id="bad-exit-codes"),
        pytest.param(failing(codes(0, 1, operator="NotIn")), [], id="zero-may-be-excluded"),
        pytest.param(failing(codes(1, containerName="other")), [f'{RULE}.onExitCodes.containerName: Invalid value: "other": must be one of the container or initContainer names in the pod template'], id="unknown-container"),
        pytest.param(failing({**codes(1), "onPodConditions": [{"type": "Ready"}]}), [f"{RULE}: Invalid value: specifying both OnExitCodes and OnPodConditions is not supported"], id="both"),
        pytest.param(failing({"action": "Count"}), [f"{RULE}: Invalid value: specifying one of OnExitCodes and OnPodConditions is required"], id="neither"),
        pytest.param(succeeding({"succeededIndexes": "0-2,4", "succeededCount": 4}), [], id="success"),
        pytest.param(succeeding(), [f"{RULES}: Required value: at least one rules must be specified when the successPolicy is specified"], id="success-without-rules"),
        pytest.param(succeeding({}), [f"{RULES}[0]: Required value: at least one of succeededCount or succeededIndexes must be specified"], id="empty-success"),
        pytest.param(succeeding({"succeededIndexes": "0,5"}), [f'{RULES}[0].succeededIndexes: Invalid value: "0,5": error parsing succeededIndexes: too large index: "5"'], id="index-too-large"),
        pytest.param(succeeding({"succeededIndexes": "2,1"}), [f'{RULES}[0].succeededIndexes: Invalid value: "2,1": error parsing succeededIndexes: non-increasing order, previous: 2, current: 1'], id="indexes-not-in-order"),
        pytest.param(succeeding({"succeededIndexes": "1-2-3"}), [f"""{RULES}[0].succeededIndexes: Invalid value: "1-2-3": error parsing succeededIndexes: the fragment "1-2-3" violates the requirement that an index interval can have at most two parts separated by '-'"""], id="three-parts"),
        pytest.param(succeeding({"succeededIndexes": "a"}), [f'{RULES}[0].succeededIndexes: Invalid value: "a": error parsing succeededIndexes: cannot convert string to integer for index: "a"'], id="no-number"),
        pytest.param(succeeding({"succeededIndexes": "0-1", "succeededCount": 3}), [f"{RULES}[0].succeededCount: Invalid value: 3: must be less than or equal to 2 (the number of indexes in the specified succeededIndexes field)"], id="count-over-indexes"),
        pytest.param(succeeding({"succeededCount": 6}), [f"{RULES}[0].succeededCount: Invalid value: 6: must be less than or equal to 5 (the number of specified completions)"], id="count-over-completions"),
        pytest.param(job(completions=5, successPolicy={"rules": [{"succeededCount": 1}]}), ['spec.successPolicy: Invalid value: {"Rules":[{"SucceededIndexes":null,"SucceededCount":1}]}: requires indexed completion mode'], id="success-without-indexes"),
        pytest.param(job(selector={"matchLabels": {"app": "y"}}), ['spec.selector: Invalid value: {"matchLabels":{"app":"y","batch.kubernetes.io/controller-uid":"' + UID + '"}}: `selector` not auto-generated', "spec.template.metadata.labels: Invalid value: "], id="selector-of-ones-own"),
    ],
)  # fmt: skip
def test_what_a_jobs_spec_may_say(body: Plain, expected: list[str]) -> None:
    found = causes(created, JOB, body)
    assert len(found) == len(expected)
    assert all(text.startswith(start) for text, start in zip(found, expected, strict=True)), found


def test_labels_that_belong_to_the_generated_selector_must_be_the_jobs() -> None:
    body = job()
    body["spec"]["template"]["metadata"] = {"labels": {"job-name": "y"}}
    (found,) = causes(created, JOB, body)
    assert found.startswith("spec.template.metadata.labels[job-name]: Invalid value: {")
    assert found.endswith("must be 'x'")


# What may change.


def _at(obj: Plain, path: str, value: Any) -> Plain:
    result = copy.deepcopy(obj)
    *parents, last = path.split(".")
    place = result
    for parent in parents:
        place = place.setdefault(parent, {}) if not parent.isdigit() else place[int(parent)]  # type: ignore[index]
    if value is None:
        place.pop(last, None)
    else:
        place[last] = value
    return result


POD = "spec.template.spec"
NODES = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}  # fmt: skip
PODS = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a", "labelSelector": {"matchLabels": {"a": "b"}}}]}  # fmt: skip
HALF = {"requests": {"cpu": "500m"}}
FROZEN = {"suspend": False}


@pytest.mark.parametrize(
    ("status", "path", "value", "wrong"),
    [
        pytest.param({}, f"{POD}.nodeSelector", {"a": "b"}, "", id="node-selector"),
        pytest.param({}, f"{POD}.affinity", {"nodeAffinity": NODES}, "", id="node-affinity"),
        pytest.param({}, f"{POD}.affinity", {"podAffinity": PODS}, POD, id="pod-affinity"),
        pytest.param({}, f"{POD}.tolerations", [{"key": "a", "operator": "Exists"}], "", id="tolerations"),
        pytest.param({}, f"{POD}.schedulingGates", [{"name": "a"}], "", id="gates"),
        pytest.param({}, "spec.template.metadata.annotations", {"a": "b"}, "", id="annotations"),
        pytest.param({}, f"{POD}.containers.0.resources", HALF, "", id="resources"),
        pytest.param({}, f"{POD}.containers.0.image", "other", POD, id="image"),
        pytest.param({"startTime": START}, f"{POD}.nodeSelector", {"a": "b"}, "spec.template", id="has-started"),
        pytest.param({"startTime": START}, f"{POD}.containers.0.resources", HALF, "spec.template", id="has-started-resources"),
        pytest.param({"startTime": START, "conditions": [{"type": "Suspended", "status": "True"}]}, f"{POD}.nodeSelector", {"a": "b"}, "", id="started-and-suspended-again"),
        pytest.param({"active": 1}, f"{POD}.nodeSelector", {"a": "b"}, "spec.template", id="pods-are-left"),
        pytest.param(FROZEN, f"{POD}.nodeSelector", {"a": "b"}, "spec.template", id="runs"),
        pytest.param(FROZEN, f"{POD}.containers.0.resources", HALF, "spec.template", id="runs-resources"),
    ],
)  # fmt: skip
def test_what_may_change_of_the_template(status: Plain, path: str, value: Any, wrong: str) -> None:
    old = created(JOB, job(suspend=status is not FROZEN))
    old["status"] = {} if status is FROZEN else status
    found = causes(updated, JOB, _at(old, path, value), old)
    assert [text.partition(": ")[0] for text in found] == ([wrong] if wrong else [])


@pytest.mark.parametrize(
    ("spec", "change", "expected"),
    [
        pytest.param(INDEXED, {"completions": 4, "parallelism": 4}, [], id="both"),
        pytest.param({**INDEXED, "parallelism": 5}, {"parallelism": 3}, [], id="parallelism-alone"),
        pytest.param(INDEXED, {"completions": 4}, ["spec.completions: Invalid value: 4: can only be modified in tandem with spec.parallelism"], id="completions-alone"),
        pytest.param({"completions": 2}, {"completions": 3}, ["spec.completions: Invalid value: 3: field is immutable"], id="not-indexed"),
        pytest.param({**INDEXED, "successPolicy": {"rules": [{"succeededCount": 1}]}}, {"successPolicy": {"rules": [{"succeededCount": 2}]}}, ['spec.successPolicy: Invalid value: {"Rules":[{"SucceededIndexes":null,"SucceededCount":2}]}: field is immutable'], id="policy"),
        pytest.param({}, {"managedBy": "a.io/b"}, ['spec.managedBy: Invalid value: "a.io/b": field is immutable'], id="manager"),
    ],
)  # fmt: skip
def test_what_may_change_of_the_counts(spec: Plain, change: Plain, expected: list[str]) -> None:
    old = created(JOB, job(**spec))
    assert causes(updated, JOB, {**old, "spec": {**old["spec"], **change}}, old) == expected


def test_job_of_too_many_indexes_is_warned_of() -> None:
    stored = created(JOB, job(completionMode="Indexed", completions=100_001, parallelism=10_001))
    assert JOB.strategy.warnings is not None
    (text,) = JOB.strategy.warnings(stored, None, context())
    assert text.startswith("spec: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism")
    assert JOB.strategy.warnings(stored, stored, context()) == []


# Status.


def ends(*kinds: str, state: str = "True") -> list[Plain]:
    return [{"type": each, "status": state} for each in kinds]


DONE = {"conditions": ends("SuccessCriteriaMet", "Complete"), "startTime": START, "completionTime": LATER}
BROKEN = {"conditions": ends("FailureTarget", "Failed"), "startTime": START}


def conditions(text: str) -> str:
    return f"status.conditions: Invalid value: {text}"


@pytest.mark.parametrize(
    ("spec", "before", "status", "expected"),
    [
        pytest.param({}, {}, {"active": 2, "ready": 1, "startTime": START}, [], id="running"),
        pytest.param({}, {}, DONE, [], id="complete"),
        pytest.param({}, {}, BROKEN, [], id="failed"),
        pytest.param({}, {}, {"active": -1}, ["status.active: Invalid value: -1: must be greater than or equal to 0"], id="negative"),
        pytest.param({}, {}, {"uncountedTerminatedPods": {"succeeded": ["a"], "failed": ["a", ""]}}, ['status.uncountedTerminatedPods.failed[0]: Duplicate value: "a"', 'status.uncountedTerminatedPods.failed[1]: Invalid value: "": must not be empty'], id="uncounted-twice"),
        pytest.param({}, {}, {**DONE, "conditions": DONE["conditions"] + ends("Failed", "FailureTarget")}, [conditions("cannot set Complete=True and Failed=true conditions"), conditions("cannot set Complete=True and FailureTarget=true conditions"), conditions("cannot set SuccessCriteriaMet=True and Failed=true conditions"), conditions("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")], id="both-ends"),
        pytest.param({}, {}, {"completionTime": LATER}, [f'status.completionTime: Invalid value: "{LATER}": cannot set completionTime when there is no Complete=True condition'], id="completion-time-alone"),
        pytest.param({}, {}, {**DONE, "completionTime": None}, ["status.completionTime: Required value: completionTime is required for Complete jobs"], id="no-completion-time"),
        pytest.param({}, {}, {**DONE, "startTime": LATER, "completionTime": START}, [f'status.completionTime: Invalid value: "{START}": must be equal to or after `startTime`'], id="completed-before-start"),
        pytest.param({}, {}, {**BROKEN, "conditions": ends("Failed")}, [conditions("cannot set Failed=True condition without the FailureTarget=true condition")], id="no-failure-target"),
        pytest.param({}, {}, {**DONE, "conditions": ends("Complete")}, [conditions("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")], id="no-success-criteria"),
        pytest.param({}, {}, {**BROKEN, "active": 1}, ["status.active: Invalid value: 1: active>0 is invalid for finished job"], id="finished-and-active"),
        pytest.param({}, {}, {"conditions": BROKEN["conditions"]}, ["status.startTime: Required value: startTime is required for finished job"], id="finished-and-never-started"),
        pytest.param({"suspend": True, "completions": 0}, {}, {**DONE, "startTime": None}, [], id="nothing-to-do"),
        pytest.param({}, {}, {**BROKEN, "uncountedTerminatedPods": {"failed": ["a"]}}, ['status.uncountedTerminatedPods: Invalid value: {"Succeeded":null,"Failed":["a"]}: must be empty for finished job'], id="finished-and-uncounted"),
        pytest.param({}, {}, {**BROKEN, "terminating": 1}, ["status.terminating: Invalid value: 1: terminating>0 is invalid for finished job"], id="finished-and-terminating"),
        pytest.param({}, {}, {"ready": 1}, ["status.ready: Invalid value: 1: cannot set more ready pods than active"], id="ready-and-not-active"),
        pytest.param({}, {}, {"completedIndexes": "1"}, ['status.completedIndexes: Invalid value: "1": error parsing completedIndexes: too large index: "1"', 'status.completedIndexes: Invalid value: "1": cannot set non-empty completedIndexes when non-indexed completion mode'], id="indexes-of-a-plain-job"),
        pytest.param({**INDEXED}, {}, {"failedIndexes": "1"}, ['status.failedIndexes: Invalid value: "1": cannot set non-null failedIndexes when backoffLimitPerIndex is null'], id="failed-indexes-without-limit"),
        pytest.param({**INDEXED, "backoffLimitPerIndex": 1}, {}, {"completedIndexes": "0-2", "failedIndexes": "2-3"}, ['status.failedIndexes: Invalid value: "2-3": failedIndexes and completedIndexes overlap at index: 2'], id="failed-and-completed"),
        pytest.param(INDEXED, {"completedIndexes": "0-7"}, {"completedIndexes": "0-7", "active": 1}, [], id="old-faults-stay"),
        pytest.param({}, BROKEN, {**BROKEN, "conditions": []}, [conditions("cannot disable the terminal Failed=True condition"), conditions("cannot disable the terminal FailureTarget=True condition")], id="not-failed-any-more"),
        pytest.param({}, {"failed": 2, "succeeded": 2}, {"failed": 1, "succeeded": 1}, ["status.failed: Invalid value: 1: cannot decrease the failed counter", "status.succeeded: Invalid value: 1: cannot decrease the succeeded counter"], id="fewer"),
        pytest.param({**INDEXED, "parallelism": 5}, {"succeeded": 2}, {"succeeded": 1}, [], id="fewer-of-an-elastic-job"),
        pytest.param({}, {"startTime": START}, {"startTime": LATER}, [f'status.startTime: Invalid value: "{LATER}": field is immutable for unsuspended job once set'], id="another-start"),
        pytest.param({}, {"startTime": START, "conditions": ends("Suspended")}, {"startTime": LATER, "conditions": ends("Suspended", state="False")}, [], id="resumed"),
        pytest.param({"suspend": True}, {"startTime": START}, {}, [], id="suspended"),
        pytest.param({}, DONE, {**DONE, "completionTime": "2026-01-01T02:00:00Z"}, ['status.completionTime: Invalid value: "2026-01-01T02:00:00Z": field is immutable'], id="another-completion-time"),
        pytest.param({}, {"conditions": ends("SuccessCriteriaMet")}, {"conditions": []}, [conditions("cannot disable the SuccessCriteriaMet=True condition")], id="criteria-no-longer-met"),
    ],
)  # fmt: skip
def test_what_a_jobs_status_may_become(spec: Plain, before: Plain, status: Plain, expected: list[str]) -> None:
    old = created(JOB, job(**spec))
    old["status"] = before
    assert causes(updated, JOB, {**old, "status": status}, old, "status") == expected
