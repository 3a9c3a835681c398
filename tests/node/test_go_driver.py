"""A driver nobody here wrote under our agent: the DRA test driver of the Kubernetes tree (Go, on client-go and the kubeletplugin helper).

Build it in a Kubernetes checkout (`go build -o dra-test-driver ./test/e2e/dra/test-driver`) and name it in DRAKIT_GO_TEST_DRIVER or put it on
the PATH; without it these tests are skipped.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil

import pytest
from lightkube.models.resource_v1 import ResourceSlice

from tests.node.machine import Machine, run

pytestmark = pytest.mark.slow
DRIVER = "test-driver.cdi.k8s.io"
MANIFESTS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: example}
spec:
  selectors:
  - cel: {expression: device.driver == "test-driver.cdi.k8s.io"}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: test-inline}
spec:
  spec:
    devices:
      requests:
      - {name: req, exactly: {deviceClassName: example}}
      config:
      - opaque: {driver: test-driver.cdi.k8s.io, parameters: {a: b}}
---
apiVersion: v1
kind: Pod
metadata: {name: go-driven}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
  - name: with-resource
    image: busybox
    command: [sh, -c, "env | sort; find /var/run/kubernetes.io -type f; trap 'exit 0' TERM; sleep 3600 & wait"]
    resources: {claims: [{name: resource}]}
  resourceClaims:
  - {name: resource, resourceClaimTemplateName: test-inline}
"""


def _binary() -> str:
    found = os.environ.get("DRAKIT_GO_TEST_DRIVER") or shutil.which("dra-test-driver") or ""
    if not found or not os.path.exists(found):
        pytest.skip("the Go DRA test driver is not here: build it from a Kubernetes tree and set DRAKIT_GO_TEST_DRIVER")
    return found


def test_go_driver_registers_publishes_prepares_and_unprepares() -> None:
    binary = _binary()

    async def test(machine: Machine) -> None:
        root = machine.root / "kubelet"
        (machine.root / "cdi").mkdir(exist_ok=True)
        (root / "plugins" / DRIVER).mkdir(parents=True)
        process = await asyncio.create_subprocess_exec(
            binary, "--kubeconfig", str(machine.kubeconfig), "-v=5", "kubelet-plugin",
            "--node-name", "this-machine", "--cdi-dir", str(machine.root / "cdi"), "--datadir", str(root / "plugins"),
            "--plugin-registration-path", str(root / "plugins_registry"), "--enable-device-metadata",
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        lines: list[str] = []
        reading = asyncio.create_task(_collect(process, lines))
        try:
            await _use(machine, lines)
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()
            await reading

    run(test, "oci")


async def _collect(process: asyncio.subprocess.Process, lines: list[str]) -> None:
    assert process.stdout is not None
    async for line in process.stdout:
        lines.append(line.decode(errors="replace"))


async def _use(machine: Machine, lines: list[str]) -> None:
    async def published() -> list[ResourceSlice]:
        assert not any("Error:" in line or "panic" in line for line in lines), lines[-5:]
        found = (await machine.cluster.admin.list(ResourceSlice)).items
        return [s for s in found if s.spec is not None and s.spec.driver == DRIVER]

    slices = await machine.until(published, f"slices of the Go driver; it said: {lines[-5:]}")
    assert len(slices[0].spec.devices) == 4
    local = machine.cluster.machine
    assert local is not None

    async def registered() -> bool:
        return DRIVER in local.agent.plugins.drivers()

    await machine.until(registered, "the Go driver to be registered")
    assert local.agent.plugins.get(DRIVER).service == "v1.DRAPlugin"
    await machine.apply(MANIFESTS)
    text = await machine.logs("go-driven", "user_a=b")
    assert "resourceclaimtemplates/resource/req/test-driver.cdi.k8s.io-metadata.json" in text
    claim = json.loads(await machine.kubectl("get", "resourceclaims", "-o", "json"))["items"][0]
    assert claim["status"]["allocation"]["devices"]["results"][0]["driver"] == DRIVER
    assert any(claim["metadata"]["uid"] in path for path in machine.claim_files())
    await machine.kubectl("delete", "pod", "go-driven")
    assert machine.claim_files() == []
    said = "".join(lines)
    assert "NodePrepareResources" in said or "PrepareResource" in said
    assert local.agent.claims._store.of_pod("") == []
