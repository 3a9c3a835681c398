"""`kubectl get`: columns and cells."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from drakit.api import registry
from drakit.apiserver import tables
from drakit.apiserver.table_rows import PRINTERS, human_duration
from tests.kinds.helpers import NOW, kind
from tests.vectors import SHARED

Plain = dict[str, Any]

CREATED = (NOW - timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%SZ")


def cells(of: str, group: str = "", **fields: Any) -> list[Any]:
    metadata = {"name": "x", "creationTimestamp": CREATED, **fields.pop("metadata", {})}
    return tables.row(kind(of, group), {"metadata": metadata, **fields}, NOW)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0.4, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (5 * 3600 + 60, "5h1m"),
        (8 * 3600, "8h"),
        (48 * 3600 - 1, "47h"),
        (48 * 3600, "2d"),
        (49 * 3600, "2d1h"),
        (8 * 86400, "8d"),
        (729 * 86400, "729d"),
        (730 * 86400, "2y"),
        (800 * 86400, "2y70d"),
        (3000 * 86400, "8y"),
    ],
)
def test_ages_read_as_kubernetes_writes_them(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


def status(name: str = "c", **fields: Any) -> Plain:
    return {"name": name, "restartCount": 0, "ready": False, **fields}


SPEC = {"containers": [{"name": "c"}]}
RUNNING = {"running": {}}


@pytest.mark.parametrize(
    ("pod", "ready", "text"),
    [
        pytest.param({"status": {"phase": "Pending"}}, "0/1", "Pending", id="pending"),
        pytest.param({"status": {"phase": "Failed", "reason": "Evicted"}}, "0/1", "Evicted", id="reason"),
        pytest.param(
            {"status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}},
            "0/1",
            "SchedulingGated",
            id="gated",
        ),
        pytest.param(
            {"status": {"phase": "Running", "containerStatuses": [status(ready=True, state=RUNNING)]}},
            "1/1",
            "Running",
            id="running",
        ),
        pytest.param(
            {
                "status": {
                    "phase": "Running",
                    "containerStatuses": [status(state={"waiting": {"reason": "CrashLoopBackOff"}})],
                }
            },
            "0/1",
            "CrashLoopBackOff",
            id="waiting",
        ),
        pytest.param(
            {"status": {"phase": "Failed", "containerStatuses": [status(state={"terminated": {"exitCode": 3}})]}},
            "0/1",
            "ExitCode:3",
            id="exit-code",
        ),
        pytest.param(
            {
                "spec": {**SPEC, "initContainers": [{"name": "i"}, {"name": "j"}]},
                "status": {"phase": "Pending", "initContainerStatuses": [status("i", state=RUNNING), status("j")]},
            },
            "0/1",
            "Init:0/2",
            id="initializing",
        ),
        pytest.param(
            {
                "spec": {**SPEC, "initContainers": [{"name": "i", "restartPolicy": "Always"}]},
                "status": {
                    "phase": "Running",
                    "initContainerStatuses": [status("i", ready=True, started=True, state=RUNNING)],
                    "containerStatuses": [status(ready=True, state=RUNNING)],
                },
            },
            "2/2",
            "Running",
            id="sidecar",
        ),
        pytest.param(
            {"metadata": {"deletionTimestamp": CREATED}, "status": {"phase": "Running"}},
            "0/1",
            "Terminating",
            id="terminating",
        ),
        pytest.param(
            {"metadata": {"deletionTimestamp": CREATED}, "status": {"phase": "Succeeded"}},
            "0/1",
            "Succeeded",
            id="deleted-but-done",
        ),
    ],
)
def test_pod_status_column(pod: Plain, ready: str, text: str) -> None:
    found = cells("Pod", **{"spec": SPEC, **pod})
    assert found[:3] == ["x", ready, text]
    assert found[4:] == ["5m", "<none>", "<none>", "<none>", "<none>"]


def test_restarts_tell_when_the_last_one_was() -> None:
    ended = (NOW - timedelta(seconds=30)).strftime("%Y-%m-%dT%H:%M:%SZ")
    last = {"terminated": {"finishedAt": ended, "exitCode": 1}}
    found = cells(
        "Pod",
        spec=SPEC,
        status={
            "phase": "Running",
            "containerStatuses": [status(restartCount=2, ready=True, state=RUNNING, lastState=last)],
        },
    )
    assert found[3] == "2 (30s ago)"


def test_finished_pods_have_row_conditions() -> None:
    done = {"metadata": {"name": "x"}, "status": {"phase": "Succeeded"}}
    assert tables.conditions(kind("Pod"), done)[0]["reason"] == "Succeeded"
    assert tables.conditions(kind("Pod"), {"metadata": {}, "status": {"phase": "Running"}}) == ()


def test_node_row() -> None:
    found = cells(
        "Node",
        metadata={"labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "gpu"}},
        spec={"unschedulable": True},
        status={
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"kubeletVersion": "v1.37.0", "kernelVersion": "6.0", "architecture": "amd64"},
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        },
    )
    assert found == [
        "x",
        "Ready,SchedulingDisabled",
        "gpu,worker",
        "5m",
        "v1.37.0",
        "10.0.0.1",
        "<none>",
        "<unknown>",
        "6.0 (amd64)",
        "<unknown>",
    ]


@pytest.mark.parametrize(
    ("claim", "state"),
    [
        ({}, "pending"),
        ({"status": {"allocation": {"devices": {}}}}, "allocated"),
        ({"status": {"allocation": {"devices": {}}, "reservedFor": [{}]}}, "allocated,reserved"),
        ({"metadata": {"deletionTimestamp": CREATED}}, "deleted"),
    ],
)
def test_claim_state(claim: Plain, state: str) -> None:
    assert cells("ResourceClaim", "resource.k8s.io", **claim) == ["x", state, "5m"]


def test_workload_rows() -> None:
    template = {"spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "j"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"k": "v"}}, "template": template}
    assert cells("Deployment", "apps", spec=spec, status={"readyReplicas": 1}) == [
        "x",
        "1/2",
        0,
        0,
        "5m",
        "a,b",
        "i,j",
        "k=v",
    ]
    assert cells("ReplicaSet", "apps", spec=spec) == ["x", 2, 0, 0, "5m", "a,b", "i,j", "k=v"]
    assert cells("StatefulSet", "apps", spec=spec) == ["x", "0/2", "5m", "a,b", "i,j"]
    job = {"completions": 3, "template": template}
    done = {"succeeded": 3, "conditions": [{"type": "Complete", "status": "True"}]}
    assert cells("Job", "batch", spec=job, status=done)[:5] == ["x", "Complete", "3/3", "", "5m"]


def test_event_row() -> None:
    found = cells(
        "Event",
        involvedObject={"kind": "Pod", "name": "p"},
        eventTime=CREATED,
        reason="R",
        type="Normal",
        message=" hi ",
        reportingComponent="c",
        reportingInstance="i",
    )
    assert found == ["5m", "Normal", "R", "pod/p", "", "c, i", "hi", "5m", 1, "x"]


def test_kinds_without_a_printer_show_name_and_creation() -> None:
    assert [column["name"] for column in tables.columns(kind("LimitRange"))] == ["Name", "Created At"]
    assert cells("LimitRange") == ["x", CREATED]


@pytest.mark.parametrize("of", [k for k in registry.KINDS if "list" in k.verbs], ids=lambda k: f"{k.kind}.{k.group}")
def test_an_empty_object_fills_every_column(of: Any) -> None:
    assert len(tables.row(of, {"metadata": {}}, NOW)) == len(tables.columns(of))
    assert all(column["description"] for column in tables.columns(of))
    assert (of.group, of.kind) in PRINTERS or len(tables.columns(of)) == 2


def recorded() -> list[Any]:
    """(kind, columns) of every Table in the recorded answers."""
    path = SHARED / "api" / "crud.jsonl"
    found = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        for step in json.loads(line)["steps"]:
            body = (step.get("expect") or {}).get("body")
            if isinstance(body, dict) and body.get("columnDefinitions"):
                parts = step["path"].split("?")[0].split("/")
                group = parts[2] if parts[1] == "apis" else ""
                rest = parts[4:] if group else parts[3:]
                plural = rest[2] if rest[0] == "namespaces" and len(rest) > 2 else rest[0]
                found[group, plural] = body["columnDefinitions"]
    return [pytest.param(*key, columns, id=f"{key[1]}.{key[0]}") for key, columns in found.items()]


RECORDED = recorded()


@pytest.mark.skipif(not RECORDED, reason="needs the recorded answers in ../shared/vectors/api")
def test_some_tables_were_recorded() -> None:
    assert len(RECORDED) > 10


@pytest.mark.parametrize(("group", "plural", "columns"), RECORDED)
def test_columns_are_those_of_a_real_server(group: str, plural: str, columns: list[Plain]) -> None:
    of = registry.by_resource(group, plural)
    assert of is not None
    assert tables.columns(of) == columns
