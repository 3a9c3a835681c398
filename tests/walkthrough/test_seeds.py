"""The walk-throughs of the seed documents, command by command, with kubectl against simulated GB200 nodes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.walkthrough.conftest import Kubectl

pytestmark = pytest.mark.slow

CLASS = "gpu.nvidia.com"
API = "resource.k8s.io/v1"


def claim(name: str = "shared-gpu", **exactly: Any) -> dict[str, Any]:
    constraints = exactly.pop("constraints", None)
    devices: dict[str, Any] = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": CLASS, **exactly}}]}
    if constraints:
        devices["constraints"] = constraints
    return {"apiVersion": API, "kind": "ResourceClaim", "metadata": {"name": name}, "spec": {"devices": devices}}


def template(name: str = "single-gpu", **exactly: Any) -> dict[str, Any]:
    made = claim(name, **exactly)
    return {**made, "kind": "ResourceClaimTemplate", "spec": {"spec": made["spec"]}}


def pod(name: str, *, claims: str = "", templates: str = "", **spec: Any) -> dict[str, Any]:
    source = {"resourceClaimName": claims} if claims else {"resourceClaimTemplateName": templates}
    container = {"name": "app", "image": "cuda", "resources": {"claims": [{"name": "gpu"}]}}
    body = {
        "containers": [container],
        "resourceClaims": [{"name": "gpu", **source}],
        "terminationGracePeriodSeconds": 0,
        **spec,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body}


def test_the_cluster_has_classes_and_slices(kubectl: Kubectl) -> None:
    assert CLASS in kubectl("get", "deviceclasses")
    lines = kubectl("get", "resourceslices").splitlines()
    assert lines[0].split() == ["NAME", "NODE", "DRIVER", "POOL", "AGE"]
    assert len(lines) == 4
    gpu = kubectl.get("resourceslices")["items"][0]["spec"]["devices"][0]
    assert gpu["attributes"]["productName"] == {"string": "NVIDIA GB200"}
    assert gpu["capacity"]["memory"] == {"value": "189471Mi"}


def test_a_template_gives_each_pod_a_claim_that_goes_with_it(kubectl: Kubectl) -> None:
    kubectl.apply(template(), pod("gpu-test-pod", templates="single-gpu"))
    kubectl.running("gpu-test-pod")
    ((name, state),) = kubectl.states().items()
    assert name.startswith("gpu-test-pod-gpu-")
    assert state == "allocated,reserved"
    assert len(kubectl.devices(name)) == 1
    text = kubectl("describe", "pod", "gpu-test-pod")
    assert "Successfully assigned" in text or kubectl.until(
        lambda: "Successfully assigned" in kubectl("describe", "pod", "gpu-test-pod"), "the event"
    )
    kubectl("delete", "pod", "gpu-test-pod")
    kubectl.until(lambda: not kubectl.states(), "the generated claim is gone")


def test_two_pods_on_one_claim_share_node_and_device(kubectl: Kubectl) -> None:
    kubectl.apply(claim())
    assert kubectl.states() == {"shared-gpu": "pending"}
    kubectl.apply(pod("pod-a", claims="shared-gpu"), pod("pod-b", claims="shared-gpu"))
    kubectl.running("pod-a", "pod-b")
    assert len({kubectl.get("pod", name)["spec"]["nodeName"] for name in ("pod-a", "pod-b")}) == 1
    reserved = kubectl.get("resourceclaim", "shared-gpu")["status"]["reservedFor"]
    assert sorted(entry["name"] for entry in reserved) == ["pod-a", "pod-b"]
    kubectl("delete", "pod", "pod-a")
    kubectl.until(lambda: len(kubectl.get("resourceclaim", "shared-gpu")["status"]["reservedFor"]) == 1, "one is left")
    assert kubectl.states() == {"shared-gpu": "allocated,reserved"}
    kubectl("delete", "pod", "pod-b")
    kubectl.until(lambda: kubectl.states() == {"shared-gpu": "pending"}, "the claim is pending again")


def test_a_standalone_claim_can_be_used_again(kubectl: Kubectl) -> None:
    kubectl.apply(claim(), pod("first", claims="shared-gpu"))
    kubectl.running("first")
    kubectl("delete", "pod", "first")
    kubectl.until(lambda: kubectl.states() == {"shared-gpu": "pending"}, "pending again")
    kubectl.apply(pod("second", claims="shared-gpu"))
    kubectl.running("second")


def test_all_takes_every_device_of_a_node(kubectl: Kubectl) -> None:
    kubectl.apply(claim("everything", allocationMode="All"), pod("training", claims="everything"))
    kubectl.running("training")
    node = kubectl.get("pod", "training")["spec"]["nodeName"]
    assert kubectl.devices("everything") == [f"{node}/gpu-{index}" for index in range(4)]


def test_all_needs_the_devices_to_be_free(kubectl: Kubectl) -> None:
    node = "node-0"
    kubectl.apply(claim("one"), pod("one", claims="one", nodeSelector={"kubernetes.io/hostname": node}))
    kubectl.running("one")
    kubectl.apply(
        claim("everything", allocationMode="All"),
        pod("training", claims="everything", nodeSelector={"kubernetes.io/hostname": node}),
    )
    condition = kubectl.until(lambda: kubectl.condition("training"), "a condition")
    assert condition["reason"] == "Unschedulable"
    assert "1 cannot allocate all claims" in condition["message"]
    assert "held by" in condition["message"]
    kubectl("delete", "pod", "one")
    kubectl.running("training")


def test_a_selector_chooses(kubectl: Kubectl) -> None:
    wanted = [{"cel": {"expression": "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA GB200'"}}]
    other = [{"cel": {"expression": "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA A100'"}}]
    kubectl.apply(claim("good", count=2, selectors=wanted), pod("good", claims="good"))
    kubectl.running("good")
    assert len(kubectl.devices("good")) == 2
    kubectl.apply(claim("none", selectors=other), pod("none", claims="none"))
    condition = kubectl.until(lambda: kubectl.condition("none"), "a condition")
    assert condition["message"].startswith("0/3 nodes are available: 3 cannot allocate all claims. preemption: ")
    assert "NVIDIA GB200" in condition["message"]  # ours: what the devices have instead


def test_match_attribute(kubectl: Kubectl) -> None:
    same = [
        {"matchAttribute": "gpu.nvidia.com/productName"},
        {"matchAttribute": "gpu.nvidia.com/cudaComputeCapability"},
    ]
    kubectl.apply(claim("pair", count=2, constraints=same), pod("pair", claims="pair"))
    kubectl.running("pair")
    unique = [{"matchAttribute": "gpu.nvidia.com/uuid"}]
    kubectl.apply(claim("twins", count=2, constraints=unique), pod("twins", claims="twins"))
    condition = kubectl.until(lambda: kubectl.condition("twins"), "a condition")
    assert "cannot allocate all claims" in condition["message"]


def test_admin_access_needs_a_labelled_namespace_and_shares_the_device(kubectl: Kubectl) -> None:
    refused = kubectl.apply(claim("spy", adminAccess=True, allocationMode="All"), fails=True)
    assert "admin access" in refused
    kubectl("label", "namespace", kubectl.namespace, "resource.kubernetes.io/admin-access=true")
    kubectl.apply(
        claim("all", allocationMode="All"), pod("user", claims="all", nodeSelector={"kubernetes.io/hostname": "node-1"})
    )
    kubectl.running("user")
    kubectl.apply(
        claim("spy", adminAccess=True, allocationMode="All"),
        pod("monitor", claims="spy", nodeSelector={"kubernetes.io/hostname": "node-1"}),
    )
    kubectl.running("monitor")
    assert kubectl.devices("spy") == kubectl.devices("all")


def test_a_pod_with_node_name_and_an_unallocated_claim_waits(kubectl: Kubectl) -> None:
    kubectl.apply(claim("later"), pod("early", claims="later", nodeName="node-2"))
    kubectl.apply(claim("other"), pod("other", claims="other"))
    kubectl.running("other")  # the cluster works; the pod was not just slow
    assert kubectl.get("pod", "early")["status"]["phase"] == "Pending"
    assert kubectl.states()["later"] == "pending"
    # Kubernetes never allocates for it; a scheduled pod on the same claim does, and then both run.
    kubectl.apply(pod("helper", claims="later", nodeSelector={"kubernetes.io/hostname": "node-2"}))
    kubectl.running("helper", "early")


def test_a_missing_template_is_told_and_creating_it_helps(kubectl: Kubectl) -> None:
    kubectl.apply(pod("hopeful", templates="nothing"))
    text = kubectl.until(
        lambda: "FailedResourceClaimCreation" in (shown := kubectl("describe", "pod", "hopeful")) and shown, "the event"
    )
    assert 'resource claim template "nothing"' in text
    kubectl.apply(template("nothing"))
    kubectl.running("hopeful")


def test_the_old_way_of_asking(kubectl: Kubectl) -> None:
    asked = {"nvidia.com/gpu": "1"}
    container = {"name": "c", "image": "cuda", "resources": {"requests": asked, "limits": asked}}
    old = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "old"},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }
    kubectl.apply(old)
    kubectl.running("old")
    status = kubectl.get("pod", "old")["status"]["extendedResourceClaimStatus"]
    assert status["requestMappings"] == [
        {"containerName": "c", "resourceName": "nvidia.com/gpu", "requestName": "container-0-request-0"}
    ]
    assert kubectl.states() == {status["resourceClaimName"]: "allocated,reserved"}
    kubectl("delete", "pod", "old")
    kubectl.until(lambda: not kubectl.states(), "its claim is gone")


def test_the_job_of_the_seeds_completes(kubectl: Kubectl) -> None:
    import pathlib

    manifest = pathlib.Path(__file__).resolve().parents[2] / "examples" / "job.yaml"
    kubectl("apply", "-f", str(manifest))
    kubectl.until(lambda: kubectl.get("job", "example-dra-job")["status"].get("succeeded") == 10, "ten completions")
    kubectl.until(lambda: kubectl.states() == {"example-resource-claim": "pending"}, "the shared claim is free")
    assert "10/10" in kubectl("get", "jobs")
    kubectl("delete", "job", "example-dra-job")
