"""Everything else that is stored: namespaces, nodes, configuration, workloads, events, grants, policies."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from drakit.api import registry, strategy
from drakit.api.gates import FeatureGates
from tests.kinds.helpers import UID, causes, context, created, kind, template, updated

Plain = dict[str, Any]


def obj(spec: Plain | None = None, **fields: Any) -> Plain:
    return {"metadata": {"name": "x"}, **({"spec": spec} if spec is not None else {}), **fields}


def workload(**spec: Any) -> Plain:
    return obj({"selector": {"matchLabels": {"app": "x"}}, "template": template(), **spec})


# Core


def test_namespace_is_labelled_active_and_finalized() -> None:
    stored = created(kind("Namespace"), obj())
    assert stored["metadata"]["labels"] == {"kubernetes.io/metadata.name": "x"}
    assert stored["spec"] == {"finalizers": ["kubernetes"]}
    assert stored["status"] == {"phase": "Active"}


def test_namespace_update_changes_neither_spec_nor_status() -> None:
    old = created(kind("Namespace"), obj())
    new = {**old, "spec": {"finalizers": []}, "status": {"phase": "Terminating"}}
    stored = updated(kind("Namespace"), new, old)
    assert (stored["spec"], stored["status"]) == (old["spec"], old["status"])
    assert updated(kind("Namespace"), new, old, "finalize")["spec"] == {}


def test_phase_of_a_namespace_says_whether_it_is_deleted() -> None:
    of = kind("Namespace")
    old = created(of, obj())
    assert updated(of, {**old, "status": {}}, old, "status")["status"] == {"phase": "Active"}
    assert causes(updated, of, {**old, "status": {"phase": "Terminating"}}, old, "status") == [
        "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"
    ]
    gone = {**old, "metadata": {**old["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert causes(updated, of, {**gone, "status": {"phase": "Active"}}, gone, "status") == [
        "status.Phase: Invalid value: \"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty"
    ]


def test_node_keeps_the_status_it_is_created_with() -> None:
    stored = created(kind("Node"), obj(status={"capacity": {"cpu": "4000m", "memory": "8192Mi"}}))
    assert stored["status"]["capacity"] == {"cpu": "4", "memory": "8Gi"}
    assert stored["status"]["allocatable"] == {"cpu": "4", "memory": "8Gi"}
    assert stored["status"]["nodeInfo"]["kubeletVersion"] == ""
    new = {**stored, "spec": {"unschedulable": True}, "status": {}}
    assert updated(kind("Node"), new, stored)["status"] == stored["status"]


def test_node_taints_are_checked() -> None:
    taints = [{"key": "a", "effect": "Bad"}, {"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}]
    found = causes(created, kind("Node"), obj({"taints": taints}))
    assert found[0].startswith('metadata.taints[0].effect: Unsupported value: "Bad"')
    assert found[1].startswith("metadata.taints[2]: Duplicate value")


def test_secret_takes_plain_text_and_stores_data() -> None:
    stored = created(kind("Secret"), obj(stringData={"a": "hello"}, data={"b": "eA=="}))
    assert stored["data"] == {"a": base64.b64encode(b"hello").decode(), "b": "eA=="}
    assert stored["type"] == "Opaque"
    assert "stringData" not in stored


def test_secret_of_a_type_needs_its_keys() -> None:
    assert causes(created, kind("Secret"), obj(type="kubernetes.io/tls", data={"tls.crt": ""})) == [
        "data[tls.key]: Required value"
    ]


def test_immutable_configuration_does_not_change() -> None:
    old = created(kind("ConfigMap"), obj(data={"a": "1"}, immutable=True))
    assert causes(updated, kind("ConfigMap"), {**old, "data": {"a": "2"}}, old) == [
        "data: Forbidden: field is immutable when `immutable` is set"
    ]


def test_config_keys_are_file_names() -> None:
    (cause,) = causes(created, kind("ConfigMap"), obj(data={"a/b": ""}))
    assert cause.startswith('data[a/b]: Invalid value: "a/b": a valid config key must consist of')


# Workloads


def test_deployment_defaults() -> None:
    spec = created(kind("Deployment", "apps"), workload())["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert (spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (10, 600)
    assert spec["template"]["spec"]["schedulerName"] == "default-scheduler"
    assert "enableServiceLinks" not in spec["template"]["spec"]  # of pods only


def test_statefulset_and_daemonset_defaults() -> None:
    stateful = created(kind("StatefulSet", "apps"), workload(serviceName="s"))["spec"]
    assert stateful["podManagementPolicy"] == "OrderedReady"
    assert stateful["updateStrategy"]["rollingUpdate"] == {"partition": 0, "maxUnavailable": 1}
    assert stateful["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    daemon = created(kind("DaemonSet", "apps"), workload())
    assert daemon["spec"]["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": 1, "maxSurge": 0}
    assert daemon["metadata"]["annotations"] == {"deprecated.daemonset.template.generation": "1"}


@pytest.mark.parametrize("name", ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"])
def test_selector_must_match_the_template(name: str) -> None:
    body = workload(selector={"matchLabels": {"app": "y"}})
    assert causes(created, kind(name, "apps"), body) == [
        'spec.template.metadata.labels: Invalid value: {"app":"x"}: `selector` does not match template `labels`'
    ]


@pytest.mark.parametrize("name", ["Deployment", "ReplicaSet", "DaemonSet"])
def test_selector_is_immutable(name: str) -> None:
    old = created(kind(name, "apps"), workload())
    both = {"app": "x", "b": "y"}
    new_template = {**old["spec"]["template"], "metadata": {"labels": both}}
    new = {**old, "spec": {**old["spec"], "selector": {"matchLabels": both}, "template": new_template}}
    assert causes(updated, kind(name, "apps"), new, old) == [
        'spec.selector: Invalid value: {"matchLabels":{"app":"x","b":"y"}}: field is immutable'
    ]


def test_workload_pods_always_restart() -> None:
    body = workload(template=template(restartPolicy="Never"))
    assert causes(created, kind("Deployment", "apps"), body) == [
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"'
    ]


def test_status_is_not_written_through_the_main_resource() -> None:
    old = created(kind("Deployment", "apps"), {**workload(), "status": {"replicas": 5}})
    assert old["status"] == {}
    new = {**old, "status": {"replicas": 3}}
    assert updated(kind("Deployment", "apps"), new, old)["status"] == {}
    assert updated(kind("Deployment", "apps"), new, old, "status")["status"] == {"replicas": 3}


# Jobs


def test_job_labels_its_pods_and_selects_them_by_uid() -> None:
    body = obj({"template": {"spec": template(restartPolicy="Never")["spec"]}})
    stored = created(kind("Job", "batch"), body)
    labels = {
        "batch.kubernetes.io/controller-uid": UID,
        "batch.kubernetes.io/job-name": "x",
        "controller-uid": UID,
        "job-name": "x",
    }
    spec = stored["spec"]
    assert stored["metadata"]["labels"] == spec["template"]["metadata"]["labels"] == labels
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": UID}}
    assert (spec["parallelism"], spec["completions"], spec["backoffLimit"]) == (1, 1, 6)
    assert (spec["completionMode"], spec["suspend"], spec["podReplacementPolicy"]) == (
        "NonIndexed",
        False,
        "TerminatingOrFailed",
    )


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        pytest.param({"app": "x"}, {"app"}, id="own-labels"),
        pytest.param({"a": "b"}, {"a"}, id="others"),
        pytest.param({}, {"app", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name"}, id="none"),
    ],
)  # fmt: skip
def test_only_a_job_without_labels_takes_those_of_its_pods(own: dict[str, str], expected: set[str]) -> None:
    pods = {"metadata": {"labels": {"app": "x"}}, "spec": template(restartPolicy="Never")["spec"]}
    body = obj({"template": pods})
    body["metadata"]["labels"] = own
    assert set(created(kind("Job", "batch"), body)["metadata"]["labels"]) == expected


def test_job_needs_a_restart_policy_that_ends() -> None:
    found = causes(created, kind("Job", "batch"), obj({"template": {"spec": template()["spec"]}}))
    assert found == ['spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"']


def test_job_template_is_immutable_unless_suspended_and_only_for_scheduling() -> None:
    job = kind("Job", "batch")
    body = obj({"suspend": True, "template": {"spec": template(restartPolicy="Never")["spec"]}})
    old = created(job, body)

    def with_pod(**spec: Any) -> Plain:
        pod_template = old["spec"]["template"]
        return {
            **old,
            "spec": {**old["spec"], "template": {**pod_template, "spec": {**pod_template["spec"], **spec}}},
        }

    assert causes(updated, job, with_pod(nodeSelector={"a": "b"}), old) == []
    assert causes(updated, job, with_pod(hostname="x"), old)[0].startswith("spec.template.spec: Invalid value: ")


# Events


def event(**fields: Any) -> Plain:
    return {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
        **fields,
    }


def test_event_has_two_views_of_one_stored_form() -> None:
    stored = created(kind("Event"), event(reason="Scheduled", message="m", type="Normal"))
    assert stored["source"] == {}
    assert stored["eventTime"] is None
    view = strategy.encode(kind("Event", "events.k8s.io"), "v1", stored)
    assert view["apiVersion"] == "events.k8s.io/v1"
    assert view["regarding"] == stored["involvedObject"]
    assert view["note"] == "m"
    assert view["deprecatedSource"] == {}
    assert not {"involvedObject", "message", "source", "reportingInstance"} & view.keys()


def test_new_event_is_stored_in_the_core_form() -> None:
    body = {
        "metadata": {"name": "e"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
        "reason": "R",
        "action": "A",
        "note": "n",
        "type": "Normal",
        "reportingController": "example.com/c",
        "reportingInstance": "i",
    }
    stored = created(kind("Event", "events.k8s.io"), body)
    assert stored["apiVersion"] == "v1"
    assert (stored["involvedObject"]["name"], stored["message"]) == ("p", "n")
    assert stored["reportingComponent"] == "example.com/c"
    for name in ("eventTime", "action"):
        incomplete = {field: value for field, value in body.items() if field != name}
        assert causes(created, kind("Event", "events.k8s.io"), incomplete) == [f"{name}: Required value"]


def test_event_lives_where_its_object_lives() -> None:
    body = event(involvedObject={"kind": "Pod", "namespace": "elsewhere", "name": "p"})
    assert causes(created, kind("Event"), body) == [
        'involvedObject.namespace: Invalid value: "elsewhere": does not match event.namespace'
    ]


# Grants and policies

RBAC = "rbac.authorization.k8s.io"


def test_binding_defaults_and_its_fixed_role() -> None:
    body = obj(roleRef={"kind": "Role", "name": "r"}, subjects=[{"kind": "User", "name": "u"}])
    old = created(kind("RoleBinding", RBAC), body)
    assert old["roleRef"]["apiGroup"] == old["subjects"][0]["apiGroup"] == RBAC
    new = {**old, "roleRef": {**old["roleRef"], "name": "other"}}
    assert causes(updated, kind("RoleBinding", RBAC), new, old) == [
        'roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"Role","Name":"other"}: field is immutable'
    ]


def test_rule_needs_verbs_groups_and_resources() -> None:
    assert causes(created, kind("ClusterRole", RBAC), obj(rules=[{"resources": ["x"]}])) == [
        "rules[0].verbs: Required value",
        "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
    ]


ADMISSION = "admissionregistration.k8s.io"


def test_policy_defaults() -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    body = obj({"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]})
    spec = created(kind("ValidatingAdmissionPolicy", ADMISSION), body)["spec"]
    assert spec["failurePolicy"] == "Fail"
    match = spec["matchConstraints"]
    assert (match["matchPolicy"], match["namespaceSelector"], match["objectSelector"]) == ("Equivalent", {}, {})
    assert match["resourceRules"][0]["scope"] == "*"


def test_limit_range_is_rounded_and_consistent() -> None:
    of = kind("LimitRange")

    def complaints(**limit: Any) -> list[str]:
        return causes(created, of, obj({"limits": [limit]}))

    item = {"type": "Container", "min": {"cpu": "3u"}}
    assert created(of, obj({"limits": [item]}))["spec"]["limits"][0]["min"] == {"cpu": "1m"}
    bounds = {"type": "Container", "min": {"cpu": "1"}, "max": {"cpu": "2"}}
    at = "spec.limits[0].maxLimitRequestRatio[cpu]"
    assert complaints(**bounds, maxLimitRequestRatio={"cpu": "2"}) == []
    assert complaints(**bounds, maxLimitRequestRatio={"cpu": "3"}) == [
        f'{at}: Invalid value: "3": ratio 3 is greater than max/min = 2.000000'
    ]
    assert complaints(type="Pod", maxLimitRequestRatio={"cpu": "500m"}) == [
        f'{at}: Invalid value: "500m": ratio 500m is less than 1'
    ]
    assert complaints(type="PersistentVolumeClaim") == [
        "spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was provided"
    ]
    gpu = "example.com/gpu"
    assert complaints(type="Container", default={gpu: "2"}, defaultRequest={gpu: "1"}) == [
        f'spec.limits[0].defaultRequest[{gpu}]: Invalid value: "1": '
        f"default value 2 must equal to defaultRequest value 1 in {gpu}"
    ]


def test_quota_names_resources_and_keeps_its_scopes() -> None:
    of = kind("ResourceQuota")
    old = created(of, obj({"scopes": ["BestEffort"]}))
    assert causes(updated, of, {**old, "spec": {"scopes": ["BestEffort", "BestEffort"]}}, old) == []
    status = {"used": {"gadgets": "1"}}
    assert causes(updated, of, {**old, "status": status}, old, "status") == [
        'status.used[gadgets]: Invalid value: "gadgets": must be a standard resource type or fully qualified',
        'status.used[gadgets]: Invalid value: "gadgets": must be a standard resource for quota',
    ]


def test_a_policys_empty_word_is_not_taken_for_the_default() -> None:
    body = obj({"failurePolicy": "", "matchConstraints": {"matchPolicy": ""}, "validations": [{"expression": "true"}]})
    spec = strategy.decode(kind("ValidatingAdmissionPolicy", ADMISSION), "v1", body).obj["spec"]
    assert (spec["failurePolicy"], spec["matchConstraints"]["matchPolicy"]) == ("", "")  # to be refused


def test_priority_class_value_is_fixed_and_bounded() -> None:
    of = kind("PriorityClass", "scheduling.k8s.io")
    old = created(of, obj(value=5))
    assert old["preemptionPolicy"] == "PreemptLowerPriority"
    assert causes(updated, of, {**old, "value": 6}, old) == ["value: Forbidden: may not be changed in an update."]
    assert causes(created, of, obj(value=2_000_000_000)) == [
        "value: Forbidden: maximum allowed value of a user defined priority is 1000000000"
    ]


@pytest.mark.parametrize(
    ("name", "value", "default", "error"),
    [
        pytest.param("system-x", 5, False, "system-x is not a known system priority class", id="unknown"),
        pytest.param(
            "system-node-critical", 5, False, "value of system-node-critical PriorityClass must be 2000001000", id="value"
        ),
        pytest.param(
            "system-cluster-critical", 2_000_000_000, True,
            "globalDefault of system-cluster-critical PriorityClass must be false", id="default",
        ),
    ],
)  # fmt: skip
def test_classes_of_the_system_are_as_known(name: str, value: int, default: bool, error: str) -> None:
    body = {"metadata": {"name": name}, "value": value, "globalDefault": default}
    prefix = (
        "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: "
    )
    assert causes(created, kind("PriorityClass", "scheduling.k8s.io"), body) == [prefix + error]


def test_disruption_budget_takes_one_bound() -> None:
    of = kind("PodDisruptionBudget", "policy")
    assert len(causes(created, of, obj({"minAvailable": 1, "maxUnavailable": "50%"}))) == 1
    assert causes(created, of, obj({"maxUnavailable": "50"}))[0].startswith('spec.maxUnavailable: Invalid value: "50"')
    assert created(of, obj({"maxUnavailable": "50%"}))["metadata"]["generation"] == 1


def test_lease_duration_is_positive() -> None:
    of = kind("Lease", "coordination.k8s.io")
    assert causes(created, of, obj({"leaseDurationSeconds": 0})) == [
        "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"
    ]


def test_gang_scheduling_is_off_by_default() -> None:
    served = {
        kind.plural
        for kind, _ in registry.served_kinds(FeatureGates.default(), registry.RuntimeConfig({"api/all": True}))
    }
    assert "pods" in served
    assert not {"podgroups", "workloads"} & served
    on = FeatureGates.parse("GenericWorkload=true")
    served = {kind.plural for kind, _ in registry.served_kinds(on, registry.RuntimeConfig({"api/all": True}))}
    assert {"podgroups", "workloads"} <= served


@pytest.mark.parametrize("of", registry.KINDS, ids=lambda kind: f"{kind.kind}.{kind.group}")
def test_every_stored_kind_writes_an_empty_object_or_says_what_is_missing(of: Any) -> None:
    """No rule may fall over an object without the fields it looks at."""
    if "list" not in of.verbs:
        return
    for body in (obj(), obj({}), obj(spec={}, status={})):
        causes(created, of, body)
    context()
