"""Pods: what is filled in, what is refused, what may change."""

from __future__ import annotations

from typing import Any

import pytest

from drakit.api import strategy
from drakit.api.kinds.pod_defaults import pull_policy
from tests.kinds.helpers import causes, context, created, kind, pod, updated

POD = kind("Pod")


def changed(pod_: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {**pod_, "spec": {**pod_["spec"], **spec}}


def test_minimal_pod_gets_the_defaults_of_kubernetes() -> None:
    stored = created(POD, pod())
    assert stored["spec"] == {
        "containers": [
            {
                "name": "c",
                "image": "img:1",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
    }
    assert stored["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert stored["metadata"]["generation"] == 1


def test_amounts_of_a_pod_have_room_for_those_of_its_containers() -> None:
    def container(name: str, cpu: str, limit: str = "") -> dict[str, Any]:
        limits = {"limits": {"cpu": limit}} if limit else {}
        return {"name": name, "image": "i", "resources": {"requests": {"cpu": cpu}, **limits}}

    containers = [container("a", "1"), container("b", "500m", "3")]
    assert causes(created, POD, pod(containers=containers, resources={"requests": {"cpu": "1500m"}})) == []
    assert causes(
        created, POD, pod(containers=containers, resources={"requests": {"cpu": "1"}, "limits": {"cpu": "2"}})
    ) == [
        'spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate container requests of 1500m',
        'spec.resources.containers[1][cpu].limits: Invalid value: "3": must be less than or equal to pod limits of 2',
    ]


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("img", "Always"),
        ("img:latest", "Always"),
        ("img:1", "IfNotPresent"),
        ("reg.example.com:5000/a/b", "Always"),
        ("reg.example.com:5000/a/b:v2", "IfNotPresent"),
        ("img@sha256:" + "a" * 64, "IfNotPresent"),
        ("", "IfNotPresent"),
        ("Upper", "IfNotPresent"),
    ],
)
def test_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


def test_requests_default_to_limits() -> None:
    stored = created(POD, pod(containers=[{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}]))
    assert stored["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1"}
    assert stored["status"]["qosClass"] == "Burstable"


def test_fine_amounts_are_rounded_up_to_thousandths() -> None:
    stored = created(POD, pod(containers=[{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1u"}}}]))
    assert stored["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1m"}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ([{}], "BestEffort"),
        ([{"limits": {"example.com/gpu": "1"}}], "BestEffort"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}], "Guaranteed"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}}], "Guaranteed"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}], "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}, {}], "Burstable"),
    ],
)
def test_qos_class(resources: list[dict[str, Any]], expected: str) -> None:
    containers = [{"name": f"c{i}", "image": "i", "resources": r} for i, r in enumerate(resources)]
    assert created(POD, pod(containers=containers))["status"]["qosClass"] == expected


def test_gated_pod_says_so_in_its_status() -> None:
    stored = created(POD, pod(schedulingGates=[{"name": "example.com/wait"}]))
    (condition,) = stored["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")


def test_probes_ports_and_volumes_are_defaulted() -> None:
    container = {
        "name": "c",
        "image": "i",
        "ports": [{"containerPort": 80}],
        "livenessProbe": {"httpGet": {"port": 80}},
        "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    }
    volumes = [{"name": "a"}, {"name": "b", "configMap": {"name": "x"}}, {"name": "h", "hostPath": {"path": "/x"}}]
    spec = created(POD, pod(containers=[container], volumes=volumes))["spec"]
    (found,) = spec["containers"]
    assert found["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert found["livenessProbe"] == {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert found["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"
    assert spec["volumes"] == [
        {"name": "a", "emptyDir": {}},
        {"name": "b", "configMap": {"name": "x", "defaultMode": 420}},
        {"name": "h", "hostPath": {"path": "/x", "type": ""}},
    ]


TERMS = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
CASES = [
    pytest.param(pod(containers=[]), ["spec.containers: Required value"], id="no-containers"),
    pytest.param(pod(containers=[{"name": "c"}]), ["spec.containers[0].image: Required value"], id="no-image"),
    pytest.param(
        pod(containers=[{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]),
        ['spec.containers[1].name: Duplicate value: "c"'],
        id="same-name-twice",
    ),
    pytest.param(
        pod(restartPolicy="Sometimes"),
        ['spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"'],
        id="restart-policy",
    ),
    pytest.param(
        pod(containers=[{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]),
        ['spec.containers[0].volumeMounts[0].name: Not found: "v"'],
        id="mount-of-no-volume",
    ),
    pytest.param(
        pod(containers=[{"name": "c", "image": "i", "ports": [{"containerPort": 70000}]}]),
        ["spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive"],
        id="port",
    ),
    pytest.param(
        pod(containers=[{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}]),
        ['spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'],
        id="request-over-limit",
    ),
    pytest.param(
        pod(containers=[{"name": "c", "image": "i", "resources": {"claims": [{"name": "g"}]}}]),
        [
            'spec.containers[0].resources.claims[0]: Not found: "g": must be one of the names in pod.spec.resourceClaims '
            "which is empty"
        ],
        id="claim-not-in-the-pod",
    ),
    pytest.param(
        pod(resourceClaims=[{"name": "g"}]),
        [
            'spec.resourceClaims[0]: Invalid value: {"Name":"g","ResourceClaimName":null,"ResourceClaimTemplateName":null}: '
            "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        ],
        id="claim-without-source",
    ),
    pytest.param(
        pod(resources={"claims": [{"name": "g"}]}, resourceClaims=[{"name": "g", "resourceClaimName": "x"}]),
        ["spec.resources.claims: Forbidden: claims may not be set for Resources at pod-level"],
        id="pod-level-claims",
    ),
    pytest.param(
        pod(tolerations=[{"key": "a", "operator": "Exists", "tolerationSeconds": 3}]),
        [
            "spec.tolerations[0].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set",
        ],
        id="toleration-seconds-without-effect",
    ),
    pytest.param(
        pod(initContainers=[{"name": "i", "image": "i", "livenessProbe": {"exec": {"command": ["x"]}}}]),
        [
            "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without "
            "restartPolicy=Always"
        ],
        id="probe-of-init-container",
    ),
    pytest.param(
        pod(containers=[{"name": "c", "image": "i", "readinessProbe": {"periodSeconds": 3}}]),
        ["spec.containers[0].readinessProbe: Required value: must specify a handler type"],
        id="probe-without-handler",
    ),
    pytest.param(
        pod(volumes=[{"name": "v", "emptyDir": {}, "configMap": {"name": "x"}}]),
        ["spec.volumes[0].configMap: Forbidden: may not specify more than 1 volume type"],
        id="two-volume-kinds",
    ),
    pytest.param(
        pod(nodeName="n", schedulingGates=[{"name": "a/b"}]),
        ["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"],
        id="node-while-gated",
    ),
    pytest.param(
        pod(
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchFields": [{"key": "spec.unschedulable", "operator": "Exists"}]},
                            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]},
                        ]
                    }
                }
            }
        ),
        [
            f'{TERMS}[0].matchFields[0].operator: Invalid value: "Exists": not a valid selector operator',
            f'{TERMS}[0].matchFields[0].key: Invalid value: "spec.unschedulable": not a valid field selector key',
            f"{TERMS}[1].matchFields[0].values: Required value: "
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
        ],
        id="fields-of-nodes",
    ),
    pytest.param(
        pod(ephemeralContainers=[{"name": "e", "image": "i"}]),
        ["spec.ephemeralContainers: Forbidden: cannot be set on create"],
        id="ephemeral-on-create",
    ),
]


@pytest.mark.parametrize(("body", "expected"), CASES)
def test_a_bad_pod_is_refused_with_kubernetes_words(body: dict[str, Any], expected: list[str]) -> None:
    assert causes(created, POD, body) == expected


def test_image_may_change_and_counts_as_a_new_generation() -> None:
    old = created(POD, pod())
    new = changed(old, containers=[{**old["spec"]["containers"][0], "image": "img:2"}])
    assert updated(POD, new, old)["metadata"]["generation"] == 2
    assert updated(POD, old, old)["metadata"]["generation"] == 1


def test_anything_else_in_the_spec_is_fixed() -> None:
    old = created(POD, pod())
    (cause,) = causes(updated, POD, changed(old, hostname="x"), old)
    assert cause.startswith("spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,")
    assert '+ "hostname": "x"' in cause


def test_tolerations_may_be_added_but_not_removed() -> None:
    old = created(POD, pod(tolerations=[{"key": "a", "operator": "Exists"}]))
    more = [*old["spec"]["tolerations"], {"key": "b", "operator": "Exists"}]
    assert updated(POD, changed(old, tolerations=more), old)["spec"]["tolerations"] == more
    assert causes(updated, POD, changed(old, tolerations=[]), old) == [
        "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
    ]


def test_gates_may_be_removed_but_not_added() -> None:
    old = created(POD, pod(schedulingGates=[{"name": "a/b"}]))
    assert "schedulingGates" not in updated(POD, changed(old, schedulingGates=[]), old)["spec"]
    assert causes(updated, POD, changed(old, schedulingGates=[{"name": "a/b"}, {"name": "a/c"}]), old) == [
        "spec.schedulingGates[1].name: Forbidden: only deletion is allowed, but found new scheduling gate 'a/c'"
    ]


def test_gated_pod_may_be_narrowed_to_fewer_nodes_only() -> None:
    old = created(POD, pod(schedulingGates=[{"name": "a/b"}], nodeSelector={"a": "1"}))
    assert causes(updated, POD, changed(old, nodeSelector={"a": "1", "b": "2"}), old) == []
    assert len(causes(updated, POD, changed(old, nodeSelector={"a": "2"}), old)) == 1


def test_status_update_keeps_the_spec_and_the_claims_an_old_kubelet_does_not_know() -> None:
    old = created(POD, pod(resourceClaims=[{"name": "g", "resourceClaimTemplateName": "t"}]))
    old["status"]["resourceClaimStatuses"] = [{"name": "g", "resourceClaimName": "p-g"}]
    new = {**changed(old, hostname="x"), "status": {"phase": "Running"}}
    stored = updated(POD, new, old, "status")
    assert stored["spec"] == old["spec"]
    assert stored["status"] == {**old["status"], "phase": "Running"}


def test_claim_status_must_name_a_claim_of_the_pod() -> None:
    old = created(POD, pod())
    new = {**old, "status": {"resourceClaimStatuses": [{"name": "g", "resourceClaimName": "x"}]}}
    assert causes(updated, POD, new, old, "status") == [
        'status.resourceClaimStatuses[0].name: Invalid value: "g": must match the name of an entry in `spec.resourceClaims`'
    ]


def test_finished_container_does_not_start_again() -> None:
    old = created(POD, pod(restartPolicy="Never"))
    base = {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    old["status"]["containerStatuses"] = [{**base, "state": {"terminated": {"exitCode": 0}}}]
    new = {**old, "status": {**old["status"], "containerStatuses": [{**base, "state": {"running": {}}}]}}
    assert causes(updated, POD, new, old, "status") == [
        "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"
    ]


def test_claims_are_dropped_when_dra_is_off() -> None:
    body = pod(resourceClaims=[{"name": "g", "resourceClaimName": "x"}])
    body["spec"]["containers"][0] = {"name": "c", "image": "i", "resources": {"claims": [{"name": "g"}]}}
    stored = created(POD, body, "DynamicResourceAllocation=false")
    assert "resourceClaims" not in stored["spec"]
    assert stored["spec"]["containers"][0]["resources"] == {}


def test_name_that_is_no_host_name_gets_a_warning() -> None:
    body = pod()
    body["metadata"]["name"] = "a.b"
    obj = strategy.decode(POD, "v1", body).obj
    obj["metadata"]["namespace"] = "default"
    _, warnings = strategy.create(POD, obj, context())
    assert warnings[0].startswith("metadata.name: this is used in the Pod's hostname")


def test_ephemeral_containers_are_added_through_their_subresource() -> None:
    old = created(POD, pod())
    new = changed(old, ephemeralContainers=[{"name": "e", "image": "i"}])
    stored = updated(POD, new, old, "ephemeralcontainers")
    assert [c["name"] for c in stored["spec"]["ephemeralContainers"]] == ["e"]
    assert stored["metadata"]["generation"] == 2
    assert len(causes(updated, POD, changed(stored, ephemeralContainers=[]), stored, "ephemeralcontainers")) == 1
