"""What the workloads of apps may say of updates, claims and status, with Kubernetes' texts."""

from __future__ import annotations

from typing import Any

import pytest

from drakit.api import strategy
from drakit.api.errors import StatusError
from tests.kinds.helpers import Plain, causes, context, created, kind, updated

BAD_PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)


def _workload(**spec: Any) -> Plain:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    body = {"selector": {"matchLabels": {"app": "x"}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "metadata": {"name": "w"}, "spec": body}


@pytest.mark.parametrize(
    ("rolling", "expected"),
    [
        pytest.param({"maxUnavailable": 0, "maxSurge": "150%"}, [], id="surge-beyond-all"),
        pytest.param(
            {"maxUnavailable": 0, "maxSurge": "0%"},
            ["maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"],
            id="neither",
        ),
        pytest.param(
            {"maxUnavailable": "101%"},
            ['maxUnavailable: Invalid value: "101%": must not be greater than 100%'],
            id="too-many",
        ),
        pytest.param(
            {"maxUnavailable": "many", "maxSurge": 0},
            [
                f'maxUnavailable: Invalid value: "many": {BAD_PERCENT}',
                'maxUnavailable: Invalid value: "many": may not be 0 when `maxSurge` is 0',
            ],
            id="no-number-is-zero",
        ),
        pytest.param(
            {"maxUnavailable": "5"}, [f'maxUnavailable: Invalid value: "5": {BAD_PERCENT}'], id="text-of-a-number"
        ),
        pytest.param(
            {"maxSurge": -1}, ["maxSurge: Invalid value: -1: must be greater than or equal to 0"], id="negative"
        ),
    ],
)
def test_rolling_update_of_a_deployment(rolling: Plain, expected: list[str]) -> None:
    body = _workload(strategy={"type": "RollingUpdate", "rollingUpdate": rolling})
    assert causes(created, kind("Deployment", "apps"), body) == [
        f"spec.strategy.rollingUpdate.{text}" for text in expected
    ]


@pytest.mark.parametrize(
    ("rolling", "expected"),
    [
        pytest.param({"maxUnavailable": 0, "maxSurge": 1}, [], id="surge"),
        pytest.param(
            {"maxSurge": 1}, ["maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero"], id="both"
        ),
        pytest.param(
            {"maxUnavailable": "0%"}, ["maxUnavailable: Required value: cannot be 0 when maxSurge is 0"], id="neither"
        ),
        pytest.param(
            {"maxUnavailable": 0, "maxSurge": "101%"},
            ['maxSurge: Invalid value: "101%": must not be greater than 100%'],
            id="surge-beyond-all",
        ),
    ],
)
def test_rolling_update_of_a_daemonset(rolling: Plain, expected: list[str]) -> None:
    body = _workload(updateStrategy={"type": "RollingUpdate", "rollingUpdate": rolling})
    path = "spec.updateStrategy.rollingUpdate"
    assert causes(created, kind("DaemonSet", "apps"), body) == [f"{path}.{text}" for text in expected]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        pytest.param({"type": "RollingUpdate"}, [], id="plain"),
        pytest.param({"type": "OnDelete"}, [], id="by-hand"),
        pytest.param(
            {"type": "OnDelete", "rollingUpdate": {"partition": 1}},
            [
                '.rollingUpdate: Invalid value: {"Partition":1,"MaxUnavailable":null}: '
                "only allowed for updateStrategy 'RollingUpdate'"
            ],
            id="by-hand-in-a-roll",
        ),
        pytest.param(
            {"rollingUpdate": {"partition": -1, "maxUnavailable": "0%"}},
            [
                ".rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0",
                '.rollingUpdate.maxUnavailable: Invalid value: "0%": cannot be 0',
            ],
            id="bad-numbers",
        ),
        pytest.param(
            {"type": "Recreate"},
            [': Invalid value: {"Type":"Recreate","RollingUpdate":null}: must be \'RollingUpdate\' or \'OnDelete\''],
            id="recreate-is-alpha",
        ),
    ],
)
def test_update_strategy_of_a_statefulset(strategy: Plain, expected: list[str]) -> None:
    body = _workload(updateStrategy=strategy)
    assert causes(created, kind("StatefulSet", "apps"), body) == [f"spec.updateStrategy{text}" for text in expected]


def test_recreate_is_a_strategy_with_its_gate() -> None:
    body = _workload(updateStrategy={"type": "Recreate"})
    gate = "StatefulSetRecreateStrategy=true"
    stored = created(kind("StatefulSet", "apps"), body, gate)
    assert stored["spec"]["updateStrategy"] == {"type": "Recreate"}
    stored["metadata"]["labels"] = {"a": "b"}
    assert causes(updated, kind("StatefulSet", "apps"), stored, stored) == []  # without the gate, what is there stays
    body = _workload(updateStrategy={"type": "Other"})
    (cause,) = causes(created, kind("StatefulSet", "apps"), body, gate)
    assert cause.endswith("must be 'RollingUpdate', 'OnDelete', or 'Recreate'")


def test_max_unavailable_of_a_statefulset_goes_with_its_gate() -> None:
    stored = created(kind("StatefulSet", "apps"), _workload(), "MaxUnavailableStatefulSet=false")
    assert stored["spec"]["updateStrategy"]["rollingUpdate"] == {"partition": 0}


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [
        pytest.param("serviceName", "t", '"t"', id="service"),
        pytest.param("podManagementPolicy", "Parallel", '"Parallel"', id="policy"),
    ],
)
def test_statefulset_fixes_what_its_pods_rely_on(field: str, value: str, shown: str) -> None:
    old = created(kind("StatefulSet", "apps"), _workload(serviceName="s"))
    new = {**old, "spec": {**old["spec"], field: value, "replicas": 3}}
    assert causes(updated, kind("StatefulSet", "apps"), new, old) == [
        f"spec.{field}: Invalid value: {shown}: field is immutable"
    ]


@pytest.mark.parametrize("name", ["Deployment", "ReplicaSet", "DaemonSet", "StatefulSet"])
def test_selector_that_changes_is_shown_as_go_writes_maps(name: str) -> None:
    old = created(kind(name, "apps"), _workload())
    labels = {"z": "1", "app": "x", "b": "2"}
    template = {**old["spec"]["template"], "metadata": {"labels": labels}}
    new = {**old, "spec": {**old["spec"], "template": template, "selector": {"matchLabels": labels}}}
    assert causes(updated, kind(name, "apps"), new, old) == [
        'spec.selector: Invalid value: {"matchLabels":{"app":"x","b":"2","z":"1"}}: field is immutable'
    ]


def test_first_ordinal_is_not_negative() -> None:
    assert causes(created, kind("StatefulSet", "apps"), _workload(ordinals={"start": -1})) == [
        "spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0"
    ]


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        pytest.param({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}, [], id="good"),
        pytest.param(
            {},
            ["accessModes: Required value: at least 1 access mode is required", "resources[storage]: Required value"],
            id="empty",
        ),
        pytest.param(
            {"accessModes": ["ReadWriteOncePod", "ReadWriteMany"], "resources": {"requests": {"storage": "0"}}},
            [
                "accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
                'resources[storage]: Invalid value: "0": must be greater than zero',
            ],
            id="contradictory",
        ),
        pytest.param(
            {"accessModes": ["Any"], "volumeMode": "Disk", "resources": {"requests": {"storage": "1"}}},
            [
                'accessModes: Unsupported value: "Any": supported values: "ReadOnlyMany", "ReadWriteMany", '
                '"ReadWriteOnce", "ReadWriteOncePod"',
                'volumeMode: Unsupported value: "Disk": supported values: "Block", "Filesystem"',
            ],
            id="unknown-words",
        ),
    ],
)
def test_claims_of_a_statefulset_say_what_they_need(claim: Plain, expected: list[str]) -> None:
    body = _workload(volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": claim}])
    path = "spec.volumeClaimTemplates[0].spec"
    assert causes(created, kind("StatefulSet", "apps"), body) == [f"{path}.{text}" for text in expected]


def test_claims_of_a_statefulset_are_called_what_they_are() -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    stored = created(kind("StatefulSet", "apps"), _workload(volumeClaimTemplates=[claim, claim]))
    kinds = [(each["apiVersion"], each["kind"]) for each in stored["spec"]["volumeClaimTemplates"]]
    assert kinds == [("v1", "PersistentVolumeClaim")] * 2  # of one name: Kubernetes takes that


@pytest.mark.parametrize(
    ("name", "status", "expected"),
    [
        pytest.param("Deployment", {"replicas": 2, "readyReplicas": 2, "availableReplicas": 2}, [], id="good"),
        pytest.param(
            "Deployment",
            {"replicas": 1, "updatedReplicas": 2},
            ["updatedReplicas: Invalid value: 2: cannot be greater than status.replicas"],
            id="more-than-all",
        ),
        pytest.param(
            "ReplicaSet",
            {"replicas": 2, "availableReplicas": 1},
            ["availableReplicas: Invalid value: 1: cannot be greater than readyReplicas"],
            id="available-but-not-ready",
        ),
        pytest.param(
            "StatefulSet",
            {"replicas": 2, "availableReplicas": 1, "collisionCount": 1},
            [
                "availableReplicas: Invalid value: 1: cannot be greater than status.readyReplicas",
                "collisionCount: Invalid value: 1: cannot be decremented",
            ],
            id="stateful",
        ),
        pytest.param(
            "DaemonSet",
            {"currentNumberScheduled": 9, "numberMisscheduled": 0, "desiredNumberScheduled": 1, "numberReady": 9},
            ["collisionCount: Invalid value: 0: cannot be decremented"],
            id="daemons",
        ),
    ],
)
def test_status_is_consistent(name: str, status: Plain, expected: list[str]) -> None:
    old = created(kind(name, "apps"), _workload())
    if any("collisionCount" in text for text in expected):
        old["status"] = {"collisionCount": 2}
    found = causes(updated, kind(name, "apps"), {**old, "status": status}, old, "status")
    assert found == [f"status.{text}" for text in expected]


@pytest.mark.parametrize(
    ("given", "kept"),
    [("", "1"), ("7", "7"), ("0", "1"), ("-5", "1")],
    ids=["none", "given", "zero", "negative"],
)
def test_template_generation_of_a_new_daemonset(given: str, kept: str) -> None:
    body = _workload()
    body["metadata"]["annotations"] = {"deprecated.daemonset.template.generation": given} if given else {}
    stored = created(kind("DaemonSet", "apps"), body)
    assert stored["metadata"]["annotations"]["deprecated.daemonset.template.generation"] == kept


_ROLLBACK = "deprecated.deployment.rollback.to"
_GENERATION = "deprecated.daemonset.template.generation"


@pytest.mark.parametrize(
    ("name", "annotation", "text", "expected"),
    [
        pytest.param("DaemonSet", _GENERATION, "x", 'strconv.ParseInt: parsing "x": invalid syntax', id="no-number"),
        pytest.param("DaemonSet", _GENERATION, "", 'strconv.ParseInt: parsing "": invalid syntax', id="empty"),
        pytest.param("DaemonSet", _GENERATION, "9" * 5000, '": value out of range', id="endless"),
        pytest.param("DaemonSet", _GENERATION, str(2**63), f'parsing "{2**63}": value out of range', id="too-large"),
        pytest.param(
            "Deployment",
            _ROLLBACK,
            "x",
            f'failed to parse annotation[{_ROLLBACK}]=x as int64: strconv.ParseInt: parsing "x": invalid syntax',
            id="rollback",
        ),
    ],
)
def test_annotation_that_was_a_number_once_has_to_be_one(name: str, annotation: str, text: str, expected: str) -> None:
    body = _workload()
    body["metadata"]["annotations"] = {annotation: text}
    with pytest.raises(StatusError) as raised:
        created(kind(name, "apps"), body)
    assert raised.value.code == 400
    assert raised.value.message.startswith(f'{name} in version "v1" cannot be handled as a {name}: ')
    assert raised.value.message.endswith(expected)


def test_deployment_goes_back_to_no_negative_revision() -> None:
    body = _workload()
    body["metadata"]["annotations"] = {_ROLLBACK: "-3"}
    expected = ["spec.rollback.version: Invalid value: -3: must be greater than or equal to 0"]
    assert causes(created, kind("Deployment", "apps"), body) == expected


@pytest.mark.parametrize(
    ("name", "body", "part"),
    [
        pytest.param(
            "Deployment", {"name": "a.b"}, "metadata.name: this is used in Pod names and hostnames", id="deployment"
        ),
        pytest.param(
            "ReplicaSet", {"name": "a.b"}, "metadata.name: this is used in Pod names and hostnames", id="replicaset"
        ),
        pytest.param("StatefulSet", {}, "spec.revisionHistoryLimit: a negative value retains", id="statefulset"),
    ],
)
def test_warnings(name: str, body: Plain, part: str) -> None:
    of = kind(name, "apps")
    obj = _workload(revisionHistoryLimit=-1) if name == "StatefulSet" else _workload()
    obj["metadata"] = {**obj["metadata"], **body, "namespace": "default", "uid": "u"}
    _, warnings = strategy.create(of, strategy.decode(of, "v1", obj).obj, context())
    assert [warning.startswith(part) for warning in warnings] == [True]
