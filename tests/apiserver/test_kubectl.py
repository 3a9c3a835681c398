"""kubectl against our server: the one on PATH, and an older one: Debian's, which `make test` unpacks, or DRAKIT_OLD_KUBECTL."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apiserver.serving import Running, running_server

pytestmark = pytest.mark.slow

CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: one, labels: {team: a}}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com, allocationMode: ExactCount, count: 1}}]}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: x}}
spec:
  containers: [{name: c, image: registry.example.com/app:1, resources: {claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimName: one}]
"""
DEBIANS = Path(__file__).parents[2] / ".venv" / "old-kubectl" / "usr" / "bin" / "kubectl"
KUBECTLS = [
    shutil.which("kubectl"),
    os.environ.get("DRAKIT_OLD_KUBECTL") or (str(DEBIANS) if DEBIANS.exists() else None),
]


class Kubectl:
    def __init__(self, binary: str, running: Running, folder: Path) -> None:
        self._binary = binary
        self.running = running
        self.folder = folder

    def run(self, *arguments: str, stdin: str = "", check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "KUBECONFIG": str(self.running.kubeconfig), "HOME": str(self.folder), **env}
        done = subprocess.run(
            [self._binary, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            env=environment,
            check=False,
        )
        if check:
            assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done

    def __call__(self, *arguments: str, stdin: str = "", **env: str) -> str:
        return self.run(*arguments, stdin=stdin, **env).stdout

    def fails(self, *arguments: str, stdin: str = "") -> str:
        done = self.run(*arguments, stdin=stdin, check=False)
        assert done.returncode != 0, done.stdout
        return done.stderr

    def minor(self) -> int:
        version = json.loads(self("version", "--client", "-o", "json"))["clientVersion"]["minor"]
        return int("".join(char for char in version if char.isdigit()))


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with running_server() as found:
        yield found


@pytest.fixture(params=KUBECTLS, ids=["path", "old"])
def kubectl(request: pytest.FixtureRequest, running: Running, tmp_path: Path) -> Iterator[Kubectl]:
    if not request.param:
        pytest.skip("no such kubectl here: install one, or set DRAKIT_OLD_KUBECTL to an old binary")
    found = Kubectl(request.param, running, tmp_path)
    yield found
    for kind in ("pods", "resourceclaims", "configmaps", "deployments"):
        found("delete", kind, "--all", "--now=true" if kind == "pods" else "--wait=false", "--ignore-not-found")


def test_create_get_describe_delete(kubectl: Kubectl) -> None:
    assert "created" in kubectl("create", "-f", "-", stdin=CLAIM)
    assert "AlreadyExists" in kubectl.fails("create", "-f", "-", stdin=CLAIM)
    assert kubectl("get", "resourceclaims").split()[:3] == ["NAME", "STATE", "AGE"]
    assert "pending" in kubectl("get", "resourceclaim", "one", "-o", "wide")
    assert kubectl("get", "resourceclaim", "one", "-o", "jsonpath={.spec.devices.requests[0].exactly.count}") == "1"
    assert "allocationMode: ExactCount" in kubectl("get", "resourceclaim", "one", "-o", "yaml")
    assert "Device Class Name:" in kubectl("describe", "resourceclaim", "one")
    assert "deleted" in kubectl("delete", "resourceclaim", "one")
    assert "NotFound" in kubectl.fails("get", "resourceclaim", "one")


def test_apply_diff_edit(kubectl: Kubectl) -> None:
    assert "created" in kubectl("apply", "-f", "-", stdin=CLAIM)
    assert "unchanged" in kubectl("apply", "-f", "-", stdin=CLAIM)
    changed = CLAIM.replace("team: a", "team: b")
    diff = kubectl.run("diff", "-f", "-", stdin=changed, check=False)
    assert diff.returncode == 1
    assert "+    team: b" in diff.stdout
    assert "configured" in kubectl("apply", "-f", "-", stdin=changed)
    editor = kubectl.folder / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/team: b/team: c/' \"$1\"\n")
    editor.chmod(0o755)
    assert "edited" in kubectl("edit", "resourceclaim", "one", KUBE_EDITOR=str(editor))
    assert kubectl("get", "resourceclaim", "one", "-o", "jsonpath={.metadata.labels.team}") == "c"


def test_server_side_apply_and_its_conflict(kubectl: Kubectl) -> None:
    body = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\ndata: {a: "1"}\n'
    assert "serverside-applied" in kubectl("apply", "--server-side", "--field-manager=one", "-f", "-", stdin=body)
    other = body.replace('"1"', '"2"')
    refused = kubectl.fails("apply", "--server-side", "--field-manager=two", "-f", "-", stdin=other)
    assert 'conflict with "one"' in refused
    forced = ("apply", "--server-side", "--force-conflicts", "--field-manager=two", "-f", "-")
    assert "serverside-applied" in kubectl(*forced, stdin=other)
    assert kubectl("get", "cm", "cm", "-o", "jsonpath={.data.a}") == "2"


def test_every_kind_of_patch_label_and_annotate(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=CLAIM)
    kubectl("patch", "resourceclaim", "one", "--type=merge", "-p", '{"metadata":{"labels":{"m":"1"}}}')
    kubectl("patch", "resourceclaim", "one", "--type=strategic", "-p", '{"metadata":{"labels":{"s":"1"}}}')
    kubectl(
        "patch", "resourceclaim", "one", "--type=json", "-p", '[{"op":"add","path":"/metadata/labels/j","value":"1"}]'
    )
    kubectl("label", "resourceclaim", "one", "l=1", "team-")
    kubectl("annotate", "resourceclaim", "one", "note=text")
    meta = json.loads(kubectl("get", "resourceclaim", "one", "-o", "json"))["metadata"]
    assert meta["labels"] == {"m": "1", "s": "1", "j": "1", "l": "1"}
    assert meta["annotations"]["note"] == "text"
    assert kubectl("get", "resourceclaims", "-l", "m=1,!team", "-o", "name") == "resourceclaim.resource.k8s.io/one\n"


def test_watching_and_waiting(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=CLAIM)
    kubectl("create", "-f", "-", stdin=POD)
    environment = {**os.environ, "KUBECONFIG": str(kubectl.running.kubeconfig), "HOME": str(kubectl.folder)}
    command = [kubectl._binary, "get", "pods", "-w", "--output-watch-events"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as watching:
        assert watching.stdout is not None
        assert "EVENT" in watching.stdout.readline()
        assert "ADDED" in watching.stdout.readline()
        kubectl("label", "pod", "p", "seen=1")
        assert "MODIFIED" in watching.stdout.readline()
        ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        path = "/api/v1/namespaces/default/pods/p/status"
        merge = {"Content-Type": "application/merge-patch+json"}
        assert kubectl.running.json("PATCH", path, ready, merge)[0] == 200
        assert "condition met" in kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=20s")
        assert "MODIFIED" in watching.stdout.readline()
        kubectl("delete", "pod", "p", "--now")
        assert any("DELETED" in watching.stdout.readline() for _ in range(3))
        watching.terminate()


def test_explain_and_api_resources(kubectl: Kubectl) -> None:
    found = kubectl("explain", "resourceclaim.spec.devices.requests")
    assert "firstAvailable" in found
    assert "Requests represent individual requests" in found
    resources = kubectl("api-resources")
    assert "resourceslices" in resources
    assert "deploy" in resources
    assert "resource.k8s.io/v1" in kubectl("api-versions").split()


def test_imperative_commands(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "cm", "--from-literal=a=b")
    kubectl("create", "deployment", "web", "--image=registry.example.com/web:1")
    kubectl("scale", "deployment", "web", "--replicas=3")
    assert kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}") == "3"
    kubectl("set", "image", "deployment/web", "web=registry.example.com/web:2")
    assert "web:2" in kubectl("get", "deployment", "web", "-o", "wide")
    assert kubectl("auth", "can-i", "create", "pods").strip() == "yes"
    name = f"extra-{kubectl.minor()}"
    kubectl("create", "namespace", name)
    assert "Active" in kubectl("get", "ns", name)


def test_mistakes_are_explained(kubectl: Kubectl) -> None:
    typo = CLAIM.replace("deviceClassName", "deviceClasName")
    text = kubectl.fails("create", "-f", "-", stdin=typo)
    if kubectl.minor() >= 27:
        assert 'unknown field "spec.devices.requests[0].exactly.deviceClasName"' in text
    else:
        assert "deviceClasName" in text or "deviceClassName" in text
    invalid = CLAIM.replace("name: gpu,", "name: GPU_0,")
    assert "is invalid" in kubectl.fails("create", "-f", "-", stdin=invalid)
    assert "not found" in kubectl.fails("create", "-n", "nowhere", "-f", "-", stdin=CLAIM)
