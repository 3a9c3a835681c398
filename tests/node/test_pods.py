"""Pods over their lives on the fake runtime: order of containers, restarts, probes, deletion, what the status says."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from lightkube.models.core_v1 import Pod

from drakit.node.errors import RuntimeFailure
from drakit.node.pod_resources import POD_RESOURCES
from drakit.node.runtime import ExecResult
from tests.node.world import World, run


def container(name: str, *command: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "img", "command": list(command) or ["run"], **fields}


def started(world: World) -> list[str]:
    return [name for method, name in world.runtime.calls if method == "start_container"]


def stopped(world: World) -> list[str]:
    return [name for method, name in world.runtime.calls if method == "stop_container"]


def conditions(pod: Pod) -> dict[str, str]:
    assert pod.status is not None
    return {c.type: c.status for c in pod.status.conditions or ()}


@pytest.mark.slow
def test_init_containers_run_in_order_then_sidecar_then_the_rest() -> None:
    async def test(world: World) -> None:
        inits = [container("first", "true"), container("side", restartPolicy="Always"), container("second", "true")]
        await world.pod("p", initContainers=inits, containers=[container("a"), container("b")])
        pod = await world.phase("p", "Running")
        assert started(world) == ["first", "side", "second", "a", "b"]
        assert conditions(pod) == {
            "PodReadyToStartContainers": "True",
            "Initialized": "True",
            "Ready": "True",
            "ContainersReady": "True",
            "PodScheduled": "True",
        }
        await world.delete("p")
        await world.gone("p")
        assert stopped(world)[-1] == "side", "sidecars are stopped last"

    run(test)


def test_failing_init_container_fails_a_pod_that_never_restarts() -> None:
    async def test(world: World) -> None:
        await world.pod(
            "p", restartPolicy="Never", initContainers=[container("bad", "false")], containers=[container("a")]
        )
        pod = await world.phase("p", "Failed")
        assert started(world) == ["bad"]
        assert pod.status is not None
        (status,) = pod.status.initContainerStatuses or ()
        assert status.state is not None
        assert status.state.terminated is not None
        assert status.state.terminated.exitCode == 1

    run(test)


@pytest.mark.parametrize(
    ("policy", "command", "phase"),
    [("Never", "true", "Succeeded"), ("Never", "false", "Failed"), ("OnFailure", "true", "Succeeded")],
)
def test_pod_ends_by_its_restart_policy(policy: str, command: str, phase: str) -> None:
    async def test(world: World) -> None:
        await world.pod("p", restartPolicy=policy, containers=[container("a", command)])
        pod = await world.phase("p", phase)
        assert conditions(pod)["Ready"] == "False"
        assert len(started(world)) == 1

    run(test)


def test_crashing_container_is_restarted_once_then_backs_off() -> None:
    async def test(world: World) -> None:
        await world.pod("p", containers=[container("a", "false")])
        await world.event("BackOff", "Back-off restarting failed container a in pod p_default(")

        async def waiting() -> Any:
            pod = await world.get("p")
            assert pod.status is not None
            (status,) = pod.status.containerStatuses or ()
            return (
                status
                if status.state and status.state.waiting and status.state.waiting.reason == "CrashLoopBackOff"
                else None
            )

        status = await world.until(waiting, "CrashLoopBackOff")
        assert status.restartCount == 1
        assert status.lastState.terminated.exitCode == 1
        assert "back-off 10s restarting failed container=a" in status.state.waiting.message
        assert started(world) == ["a", "a"]

    run(test)


def test_container_restart_rules_come_before_the_policy() -> None:
    async def test(world: World) -> None:
        rules = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]
        spec = container("a", "sh", "-c", "exit 42", restartPolicy="Never", restartPolicyRules=rules)
        await world.pod("p", restartPolicy="Never", containers=[spec])

        async def restarted() -> bool:
            return len(started(world)) >= 2

        await world.until(restarted, "a restart by the rule")

    run(test)


def test_runtime_failure_shows_as_waiting_reason_and_is_retried() -> None:
    async def test(world: World) -> None:
        world.runtime.failures["create_container"] = RuntimeFailure("no such device", "CreateContainerError")
        await world.pod("p")
        await world.event("Failed", "Error: no such device")

        async def waiting() -> Any:
            pod = await world.get("p")
            assert pod.status is not None
            (status,) = pod.status.containerStatuses or ()
            return status.state and status.state.waiting and status.state.waiting.reason == "CreateContainerError"

        await world.until(waiting, "the reason in the status")

    run(test)


@pytest.mark.slow
def test_failing_liveness_probe_restarts_the_container() -> None:
    async def test(world: World) -> None:
        world.runtime.exec_results["check"] = ExecResult(1, b"not well")
        probe = {"exec": {"command": ["check"]}, "periodSeconds": 1, "failureThreshold": 1}
        await world.pod("p", containers=[container("a", livenessProbe=probe)])
        await world.event("Unhealthy", "Liveness probe failed: not well")
        await world.event("Killing", "Container a failed liveness probe, will be restarted")

        async def restarted() -> bool:
            return len(started(world)) >= 2

        await world.until(restarted, "the restart")

    run(test)


@pytest.mark.slow
def test_readiness_follows_its_probe() -> None:
    async def test(world: World) -> None:
        world.runtime.exec_results["check"] = ExecResult(1, b"")
        probe = {"exec": {"command": ["check"]}, "periodSeconds": 1}
        await world.pod("p", containers=[container("a", readinessProbe=probe)])
        assert conditions(await world.phase("p", "Running"))["Ready"] == "False"
        world.runtime.exec_results["check"] = ExecResult(0, b"")

        async def ready() -> bool:
            return conditions(await world.get("p"))["Ready"] == "True"

        await world.until(ready, "Ready")

    run(test)


@pytest.mark.slow
def test_missing_config_map_is_an_event_and_is_waited_for() -> None:
    async def test(world: World) -> None:
        volumes = [{"name": "v", "configMap": {"name": "late"}}]
        await world.pod(
            "p", volumes=volumes, containers=[container("a", volumeMounts=[{"name": "v", "mountPath": "/v"}])]
        )
        await world.event("FailedMount", 'MountVolume.SetUp failed for volume "v" : configmap "late" not found')
        await world.client.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "late", "namespace": "default"},
                "data": {"k": "1"},
            }
        )
        await world.phase("p", "Running")
        (path,) = world.root.glob("pods/*/volumes/kubernetes.io~configmap/v/k")
        assert path.read_text() == "1"
        await world.delete("p")
        await world.gone("p")
        assert list(world.root.glob("pods/*")) == []

    run(test)


def test_unsupported_volume_is_refused_by_name() -> None:
    async def test(world: World) -> None:
        await world.pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}])
        await world.event("FailedMount", "volumes of type persistentVolumeClaim are not supported by this node agent")

    run(test)


@pytest.mark.slow
def test_deadline_ends_the_pod() -> None:
    async def test(world: World) -> None:
        await world.pod("p", activeDeadlineSeconds=1)
        pod = await world.phase("p", "Failed")
        assert pod.status is not None
        assert pod.status.reason == "DeadlineExceeded"

    run(test)


def test_force_deleted_pod_is_stopped() -> None:
    async def test(world: World) -> None:
        await world.pod("p")
        await world.phase("p", "Running")
        await world.delete("p", grace_seconds=0)

        async def clean() -> bool:
            return not world.runtime.sandboxes and not world.agent.workers

        await world.until(clean, "the pod to be stopped")

    run(test)


def test_pod_resources_lists_devices_per_container() -> None:
    async def test(world: World) -> None:
        await world.driver()
        await world.claim("c", "dev")
        await world.pod("p", "c")
        await world.phase("p", "Running")
        service = POD_RESOURCES.services["PodResourcesLister"]
        async with grpc.aio.insecure_channel(f"unix:{world.root}/pod-resources/kubelet.sock") as channel:
            listed = await service.stub(channel, "List")(POD_RESOURCES.ListPodResourcesRequest())
            (pod,) = listed.pod_resources
            (resource,) = pod.containers[0].dynamic_resources
            (device,) = resource.claim_resources
            assert (pod.name, resource.claim_name) == ("p", "c")
            assert (device.driver_name, device.pool_name, device.device_name) == ("gpu.example.com", "pool", "dev")
            one = await service.stub(channel, "Get")(
                POD_RESOURCES.GetPodResourcesRequest(pod_name="p", pod_namespace="default")
            )
            assert one.pod_resources == pod
            with pytest.raises(grpc.aio.AioRpcError, match="pod q in namespace default not found"):
                await service.stub(channel, "Get")(
                    POD_RESOURCES.GetPodResourcesRequest(pod_name="q", pod_namespace="default")
                )
        text = world.agent.metrics.render()
        assert 'dra_resource_claims_in_use{driver_name="gpu.example.com"} 1' in text
        assert 'dra_operations_duration_seconds_count{operation_name="PrepareResources",is_error="false"} 1' in text
        assert (
            'method_name="/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources",grpc_status_code="OK"' in text
        )

    run(test)


def test_slices_of_a_lost_driver_are_removed_and_the_node_says_it_is_ready() -> None:
    async def test(world: World) -> None:
        from lightkube.models.core_v1 import Node
        from lightkube.models.resource_v1 import ResourceSlice

        node = await world.client.get(Node, "node-1")
        assert node.status is not None
        assert {c.type: c.status for c in node.status.conditions or ()}["Ready"] == "True"
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": "s"},
            "spec": {
                "driver": "gone.example.com",
                "nodeName": "node-1",
                "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
            },
        }
        await world.client.create(body)
        await world.restart_agent()  # at its start the agent removes the slices of drivers that are not there (yet)
        assert (await world.client.list(ResourceSlice)).items == []

    run(test)


@pytest.mark.parametrize("uid", ["../../etc", "a/b", "x" * 300, "ünïcode"])
def test_pod_with_an_unsafe_uid_is_refused(uid: str) -> None:
    async def test(world: World) -> None:
        before = sorted(p.name for p in world.root.iterdir())
        body = {
            "metadata": {"name": "evil", "namespace": "default", "uid": uid},
            "spec": {"containers": [container("a")], "nodeName": "node-1"},
        }
        pod: Any = Pod.from_dict(body)
        world.agent._added(pod)
        await asyncio.sleep(0)
        assert uid not in world.agent.workers
        assert sorted(p.name for p in world.root.iterdir()) == before

    run(test)
