"""The seeds' pods on this machine, looked at through kubectl."""

from __future__ import annotations

import asyncio
import json
import os
import signal

import pytest

from drakit.drivers.machine import Machine as Local
from drakit.workload import decode
from tests.node import seeds
from tests.node.machine import Machine, run

pytestmark = pytest.mark.slow
runtimes = pytest.mark.parametrize("runtime", ["oci", "process"])


@runtimes
def test_gpu_test_pod_prints_its_device_and_frees_it(runtime: str) -> None:
    async def test(machine: Machine) -> None:
        await machine.apply(seeds.GPU_TEST_POD)
        text = await machine.logs("gpu-test-pod", "GPU 0: NVIDIA GB200 (UUID: GPU-")
        device = next(line for line in text.splitlines() if line.startswith("GPU_DEVICE_0=")).partition("=")[2]
        claims = json.loads(await machine.kubectl("get", "resourceclaims", "-o", "json"))["items"]
        (result,) = claims[0]["status"]["allocation"]["devices"]["results"]
        assert result["device"] == device
        assert f"/dev/drakit/{device}" in await machine.kubectl(
            "exec", "gpu-test-pod", "--", "ls", "-d", f"/dev/drakit/{device}"
        )
        status = json.loads(await machine.kubectl("get", "pod", "gpu-test-pod", "-o", "json"))["status"]
        (health,) = status["containerStatuses"][0]["allocatedResourcesStatus"]
        assert (health["name"], health["resources"][0]["health"]) == ("claim:gpu-claim", "Healthy")
        assert machine.claim_files()
        await machine.kubectl("delete", "pod", "gpu-test-pod", "--grace-period=1")
        assert machine.claim_files() == []
        await machine.until(lambda: _no_claims(machine), "the claim to go with its pod")

    run(test, runtime)


async def _no_claims(machine: Machine) -> bool:
    return "No resources" in await machine.kubectl("get", "resourceclaims")


@runtimes
def test_pods_sharing_a_claim_print_the_same_device(runtime: str) -> None:
    async def test(machine: Machine) -> None:
        await machine.apply(seeds.SHARED)
        first, second = [(await machine.logs(pod, "GPU 0:")).splitlines()[0] for pod in ("pod-a", "pod-b")]
        assert first == second
        assert first.startswith("GPU 0: NVIDIA GB200 (UUID: GPU-")
        await machine.kubectl("delete", "pod", "pod-a", "--grace-period=1")
        assert machine.claim_files(), "pod-b still uses it"
        await machine.kubectl("delete", "pod", "pod-b", "--grace-period=1")
        assert machine.claim_files() == []
        claim = json.loads(await machine.kubectl("get", "resourceclaim", "shared-gpu", "-o", "json"))
        assert "reservedFor" not in claim.get("status", {}) or await machine.until(
            lambda: _free(machine), "the claim to be free"
        )

    run(test, runtime)


async def _free(machine: Machine) -> bool:
    claim = json.loads(await machine.kubectl("get", "resourceclaim", "shared-gpu", "-o", "json"))
    return not claim.get("status", {}).get("reservedFor")


@runtimes
@pytest.mark.parametrize(
    ("manifests", "pod", "path"),
    [
        pytest.param(seeds.METADATA_READER, "gpu-metadata-reader", "resourceclaims/gpu-claim", id="direct"),
        pytest.param(
            seeds.TEMPLATE_READER, "gpu-metadata-template-reader", "resourceclaimtemplates/my-gpu", id="template"
        ),
    ],
)
def test_metadata_readers_print_their_json(runtime: str, manifests: str, pod: str, path: str) -> None:
    async def test(machine: Machine) -> None:
        await machine.apply(manifests)
        text = await machine.logs(pod, "LATEST-GPU-MODEL")
        file = f"/var/run/kubernetes.io/dra-device-attributes/{path}/gpu/gpu.example.com-metadata.json"
        assert file in text
        assert '"kind": "DeviceMetadata"' in text
        shown = await machine.kubectl("exec", pod, "--", "cat", file)
        metadata = decode(shown)
        assert metadata.devices[0].attributes["model"] == "LATEST-GPU-MODEL"
        assert metadata.pod_claim_name == ("my-gpu" if "template" in path else None)
        await machine.kubectl("delete", "pod", pod, "--grace-period=1")
        assert machine.claim_files() == []

    run(test, runtime)


@runtimes
def test_exec_attach_and_logs_behave_as_kubectl_expects(runtime: str) -> None:
    async def test(machine: Machine) -> None:
        await machine.apply(POD)
        await machine.kubectl("wait", "--for=condition=Ready", "pod/tools", "--timeout=15s")
        assert (
            await machine.kubectl("exec", "-i", "tools", "-c", "main", "--", "cat", stdin="through websocket\n")
            == "through websocket\n"
        )
        assert "exit code 7" in await machine.kubectl("exec", "tools", "-c", "main", "--", "sh", "-c", "exit 7", code=7)
        assert (
            await machine.kubectl("exec", "tools", "-c", "main", "--", "sh", "-c", "echo $GREETING from $POD_NAME")
            == "hello, world from tools\n"
        )
        assert (
            await machine.kubectl("exec", "tools", "-c", "main", "--", "cat", "/config/key", "/secret/password")
            == "valuehunter2"
        )
        assert (await machine.kubectl("exec", "tools", "-c", "main", "--", "hostname")).strip() == "tools"
        assert (
            await machine.kubectl("exec", "tools", "-c", "main", "--", "cat", "/scratch/made-by-init")
            == "init was here\n"
        )
        where = await machine.kubectl(
            "exec",
            "tools",
            "-c",
            "main",
            "--",
            "sh",
            "-c",
            "echo https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT",
        )
        assert where.strip() == machine.cluster.server.url
        assert await machine.kubectl("logs", "tools", "-c", "main", "--tail=1") == "line 3\n"
        assert (await machine.kubectl("logs", "tools", "-c", "prepare")).strip() == "preparing"
        assert "container nope is not valid for pod tools" in await machine.kubectl(
            "logs", "tools", "-c", "nope", code=1
        )

    run(test, runtime)


POD = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {key: value, greeting: "hello, world"}
---
apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {password: hunter2}
---
apiVersion: v1
kind: Pod
metadata: {name: tools}
spec:
  terminationGracePeriodSeconds: 0
  volumes:
  - {name: config, configMap: {name: settings}}
  - {name: secret, secret: {secretName: login}}
  - {name: scratch, emptyDir: {}}
  initContainers:
  - name: prepare
    image: busybox
    command: [sh, -c, "echo preparing; echo init was here > /scratch/made-by-init"]
    volumeMounts: [{name: scratch, mountPath: /scratch}]
  containers:
  - name: main
    image: busybox
    command: [sh, -c, "for i in 1 2 3; do echo line $i; done; sleep 3600"]
    env:
    - {name: GREETING, valueFrom: {configMapKeyRef: {name: settings, key: greeting}}}
    - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    readinessProbe: {exec: {command: [test, -e, /scratch/made-by-init]}, periodSeconds: 1}
    volumeMounts:
    - {name: config, mountPath: /config}
    - {name: secret, mountPath: /secret}
    - {name: scratch, mountPath: /scratch}
"""


@runtimes
def test_containers_survive_the_agent(runtime: str) -> None:
    """An agent that goes away and comes back finds its pod running, and its logs whole."""

    async def test(machine: Machine) -> None:
        await machine.apply(seeds.METADATA_READER)
        before = await machine.logs("gpu-metadata-reader", "LATEST-GPU-MODEL")
        await restart(machine, runtime)
        assert await machine.logs("gpu-metadata-reader", "LATEST-GPU-MODEL") == before
        status = json.loads(await machine.kubectl("get", "pod", "gpu-metadata-reader", "-o", "json"))["status"]
        assert status["containerStatuses"][0]["restartCount"] == 0
        assert "ok" in await machine.kubectl("exec", "gpu-metadata-reader", "--", "echo", "ok")
        await machine.kubectl("delete", "pod", "gpu-metadata-reader", "--grace-period=1")
        assert machine.claim_files() == []

    run(test, runtime)


@runtimes
def test_pods_are_set_up_anew_after_a_reboot(runtime: str) -> None:
    """All processes are gone and /var/run is empty: sandbox, claim and container are made again."""

    async def test(machine: Machine) -> None:
        await machine.apply(seeds.GPU_TEST_POD)
        await machine.logs("gpu-test-pod", "GB200")
        await restart(machine, runtime, reboot=True)
        await second_run(machine)
        assert "SandboxChanged" in await machine.kubectl("get", "events")
        await machine.kubectl("delete", "pod", "gpu-test-pod", "--grace-period=1")
        assert machine.claim_files() == []

    run(test, runtime)


@runtimes
def test_killed_monitor_is_replaced_and_pods_run_again(runtime: str) -> None:
    async def test(machine: Machine) -> None:
        await machine.apply(seeds.GPU_TEST_POD)
        await machine.logs("gpu-test-pod", "GB200")
        local = machine.cluster.machine
        assert local is not None
        os.kill(local.agent.runtime._monitor._child, signal.SIGKILL)  # type: ignore[attr-defined]
        await second_run(machine)
        await machine.kubectl("delete", "pod", "gpu-test-pod", "--grace-period=1")
        assert machine.claim_files() == []

    run(test, runtime)


async def second_run(machine: Machine) -> None:
    async def running_again() -> bool:
        status = json.loads(await machine.kubectl("get", "pod", "gpu-test-pod", "-o", "json"))["status"]
        (container,) = status["containerStatuses"]
        return container["restartCount"] == 1 and "running" in container["state"]

    await machine.until(running_again, "the second run")
    assert "GB200" in await machine.logs("gpu-test-pod", "GB200")


async def restart(machine: Machine, runtime: str, *, reboot: bool = False) -> None:
    local = machine.cluster.machine
    assert local is not None
    await local.stop(kill=False)
    if reboot:
        monitor = local.agent.runtime._monitor._child  # type: ignore[attr-defined]
        os.kill(monitor, signal.SIGKILL)
        await asyncio.to_thread(os.waitpid, monitor, 0)
        for path in (machine.root / "cdi").iterdir():
            path.unlink()
    again = Local(
        machine.cluster.client,
        "this-machine",
        local.root,
        profile=machine.cluster.profile,
        runtime=runtime,
        api=machine.cluster.node_api,
    )
    machine.cluster.machine = again
    await again.start()


def test_container_over_its_memory_limit_is_said_to_be_killed_for_it() -> None:
    async def test(machine: Machine) -> None:
        await machine.apply(HUNGRY)

        async def killed() -> bool:
            status = json.loads(await machine.kubectl("get", "pod", "hungry", "-o", "json"))["status"]
            ended = status.get("containerStatuses", [{}])[0].get("state", {}).get("terminated")
            return bool(ended) and (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)

        await machine.until(killed, "OOMKilled")

    run(test, "oci")


HUNGRY = """
apiVersion: v1
kind: Pod
metadata: {name: hungry}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: busybox
    command: [sh, -c, "a=x; while :; do a=$a$a; done"]
    resources: {limits: {memory: 32Mi}}
"""


def test_port_forward_reaches_the_pod() -> None:
    async def test(machine: Machine) -> None:
        async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"pong\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        await machine.apply(POD)
        await machine.kubectl("wait", "--for=condition=Ready", "pod/tools", "--timeout=15s")
        env = {
            "KUBECONFIG": str(machine.kubeconfig),
            "HOME": str(machine.folder),
            "PATH": "/usr/bin:/bin:/usr/local/bin",
        }
        forward = await asyncio.create_subprocess_exec(
            "kubectl", "port-forward", "tools", f":{port}", env=env, stdout=asyncio.subprocess.PIPE
        )
        try:
            assert forward.stdout is not None
            line = (await asyncio.wait_for(forward.stdout.readline(), 10)).decode()
            local = int(line.split(":")[1].split()[0])
            reader, writer = await asyncio.open_connection("127.0.0.1", local)
            assert await asyncio.wait_for(reader.read(), 10) == b"pong\n"
            writer.close()
        finally:
            forward.kill()
            await forward.wait()
            server.close()

    run(test, "oci")


@runtimes
def test_attach_speaks_to_the_containers_own_process(runtime: str) -> None:
    async def test(machine: Machine) -> None:
        await machine.apply(LISTENER)
        await machine.kubectl("wait", "--for=condition=Ready", "pod/listener", "--timeout=15s")
        text = await machine.kubectl("attach", "-i", "listener", stdin="hello there\n")
        assert "heard hello there" in text
        assert "heard hello there" in await machine.logs("listener", "heard")

    run(test, runtime)


LISTENER = """
apiVersion: v1
kind: Pod
metadata: {name: listener}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers:
  - {name: main, image: busybox, stdin: true, stdinOnce: true, command: [sh, -c, "read line; echo heard $line; sleep 0.2"]}
"""
