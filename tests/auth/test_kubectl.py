"""Identity, rights and policies as a user meets them: with kubectl, on a server of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from drakit.apiserver.auth import UserInfo
from tests.apiserver.serving import Running, running_server
from tests.auth.test_policies import policy
from tests.vectors import SHARED

KUBECTL = shutil.which("kubectl")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(KUBECTL is None, reason="needs kubectl on the PATH")]
SEEDS = [SHARED / "api" / "seeds" / f"002-0{number}.yaml" for number in (6, 7, 8, 9)]


class Kubectl:
    def __init__(self, running: Running, folder: Path) -> None:
        self.running = running
        self.folder = folder

    def __call__(self, *arguments: str, stdin: str = "", code: int | None = 0) -> str:
        environment = {**os.environ, "KUBECONFIG": str(self.running.kubeconfig), "HOME": str(self.folder)}
        done = subprocess.run(
            [str(KUBECTL), *arguments], input=stdin, capture_output=True, text=True, timeout=60, env=environment, check=False
        )  # fmt: skip
        if any(text in done.stderr for text in ("unknown command", "unknown flag", "unknown shorthand flag")):
            pytest.skip(f"this kubectl is too old for `kubectl {' '.join(arguments[:2])}`")
        if code is not None:
            assert done.returncode == code, f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with running_server(tokens={"alice-token": UserInfo("alice", ("devs",))}) as found:
        yield found


@pytest.fixture(scope="module")
def kubectl(running: Running, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    """With a namespace `team` in which the group devs may edit."""
    found = Kubectl(running, tmp_path_factory.mktemp("home"))
    found("create", "namespace", "team")
    found("create", "rolebinding", "devs", "--clusterrole=edit", "--group=devs", "-n", "team")
    found("create", "serviceaccount", "robot", "-n", "team")
    return found


def test_whoami(kubectl: Kubectl) -> None:
    mine = kubectl("auth", "whoami")
    assert "kubernetes-admin" in mine
    assert "[system:masters system:authenticated]" in mine
    who = json.loads(kubectl("auth", "whoami", "--token=alice-token", "-o", "json"))
    assert who["kind"] == "SelfSubjectReview"
    assert who["status"]["userInfo"] == {"username": "alice", "groups": ["devs", "system:authenticated"]}
    assert "Unauthorized" in kubectl("auth", "whoami", "--token=wrong", code=1)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("get pods -n team", "yes"),
        ("get pods", "no"),
        ("create resourceclaims.resource.k8s.io -n team", "yes"),
        ("update resourceclaims.resource.k8s.io --subresource=status -n team", "no"),
        ("get pods --subresource=log -n team", "yes"),
        ("list secrets -A", "no"),
        ("create rolebindings.rbac.authorization.k8s.io -n team", "no"),
        ("get /version", "yes"),
        ("get /metrics", "no"),
        ("get namespaces/team -n team", "yes"),
    ],
)
def test_can_i(kubectl: Kubectl, question: str, answer: str) -> None:
    said = kubectl("auth", "can-i", "--token=alice-token", *question.split(), code=0 if answer == "yes" else 1)
    assert answer in said.split()[:1] + said.split()[-1:] or any(line.startswith(answer) for line in said.splitlines())


def test_can_i_list_shows_every_right(kubectl: Kubectl) -> None:
    lines = kubectl("auth", "can-i", "--list", "-n", "team", "--token=alice-token").splitlines()
    assert lines[0].split() == ["Resources", "Non-Resource", "URLs", "Resource", "Names", "Verbs"]
    rows = {line.split()[0]: line for line in lines[1:]}
    assert rows["resourceclaims.resource.k8s.io"].endswith(
        "[create delete deletecollection patch update get list watch]"
    )
    assert "selfsubjectreviews.authentication.k8s.io" in rows
    assert any("[/healthz]" in line for line in lines)
    alone = kubectl("auth", "can-i", "--list", "--token=alice-token")
    assert "resourceclaims.resource.k8s.io" not in alone
    assert "*.*" in kubectl("auth", "can-i", "--list")


def test_acting_as_someone_else(kubectl: Kubectl) -> None:
    who = json.loads(kubectl("auth", "whoami", "--as=carol", "--as-group=devs", "--as-group=ops", "-o", "json"))
    assert who["status"]["userInfo"] == {"username": "carol", "groups": ["devs", "ops", "system:authenticated"]}
    assert "No resources found" in kubectl("get", "pods", "-n", "team", "--as=carol", "--as-group=devs")
    assert "forbidden" in kubectl("get", "pods", "-n", "team", "--as=carol", code=1)
    robot = json.loads(kubectl("auth", "whoami", "--as=system:serviceaccount:team:robot", "-o", "json"))
    groups = ["system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated"]
    assert robot["status"]["userInfo"]["groups"] == groups
    refused = kubectl(
        "get", "pods", "--as=kubernetes-admin", "--as-group=system:masters", "--token=alice-token", code=1
    )
    assert 'cannot impersonate resource "users"' in refused


def test_tokens_for_service_accounts(kubectl: Kubectl) -> None:
    token = kubectl("create", "token", "robot", "-n", "team").strip()
    who = json.loads(kubectl("auth", "whoami", f"--token={token}", "-o", "json"))
    assert who["status"]["userInfo"]["username"] == "system:serviceaccount:team:robot"
    assert "forbidden" in kubectl("get", "pods", "-n", "team", f"--token={token}", code=1)
    other = kubectl("create", "token", "robot", "-n", "team", "--audience=elsewhere").strip()
    assert "Unauthorized" in kubectl("auth", "whoami", f"--token={other}", code=1)
    assert "10 minutes" in kubectl("create", "token", "robot", "-n", "team", "--duration=1m", code=1)
    assert "forbidden" in kubectl("create", "token", "default", "-n", "kube-system", "--token=alice-token", code=1)
    kubectl("create", "secret", "generic", "anchor", "-n", "team")
    bound = kubectl(
        "create", "token", "robot", "-n", "team", "--bound-object-kind=Secret", "--bound-object-name=anchor"
    ).strip()
    assert "robot" in kubectl("auth", "whoami", f"--token={bound}")
    kubectl("delete", "secret", "anchor", "-n", "team")
    assert "Unauthorized" in kubectl("auth", "whoami", f"--token={bound}", code=1)


def test_reconcile_and_describe_roles(kubectl: Kubectl) -> None:
    kubectl("create", "clusterrole", "widgets", "--verb=get", "--resource=pods")
    kubectl("label", "clusterrole", "widgets", "rbac.authorization.k8s.io/aggregate-to-view=true")
    assert "resourceclaims.resource.k8s.io" in kubectl("describe", "clusterrole", "edit")
    role = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: r, namespace: team}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
"""
    assert "reconciled" in kubectl("auth", "reconcile", "-f", "-", stdin=role)
    assert "forbidden" in kubectl("auth", "reconcile", "-f", "-", "--token=alice-token", stdin=role, code=1)


def admin_claim(kind: str) -> str:
    spec = "devices: {requests: [{name: r, exactly: {deviceClassName: gpu, adminAccess: true}}]}"
    spec = f"{{{spec}}}" if kind == "ResourceClaim" else f"{{spec: {{{spec}}}}}"
    return f"apiVersion: resource.k8s.io/v1\nkind: {kind}\nmetadata: {{generateName: admin-}}\nspec: {spec}\n"


def test_the_seeds_admin_access_policies(kubectl: Kubectl) -> None:
    if all(path.exists() for path in SEEDS):
        for path in SEEDS:
            assert "created" in kubectl("apply", "-f", str(path))
    else:  # our own copy of the four
        for resource, where in (("resourceclaim", "object.spec"), ("resourceclaimtemplate", "object.spec.spec")):
            for plural, body in policy(resource, where):
                kind = plural.replace("validatingadmissionpolicies", "ValidatingAdmissionPolicy")
                kind = kind.replace("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding")
                whole = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, **body}
                assert "created" in kubectl("apply", "-f", "-", stdin=json.dumps(whole))
    kubectl("create", "namespace", "plain")
    for namespace in ("team", "plain"):
        kubectl("label", "namespace", namespace, "resource.kubernetes.io/admin-access=true")
    kubectl("label", "namespace", "team", "admin-access.dra.example.com=")
    for kind in ("ResourceClaim", "ResourceClaimTemplate"):
        refused = kubectl("create", "-n", "plain", "-f", "-", stdin=admin_claim(kind), code=1)
        assert "admin access to devices not enabled" in refused, refused
        assert f"ValidatingAdmissionPolicy '{kind.lower()}-policy.dra.example.com'" in refused
        assert "created" in kubectl("create", "-n", "team", "-f", "-", stdin=admin_claim(kind))
        # Tenants are held to it as well, and without admin access nothing is in the way.
        harmless = admin_claim(kind).replace("true", "false")
        assert "created" in kubectl("create", "-n", "plain", "-f", "-", stdin=harmless)
    kubectl("label", "namespace", "plain", "admin-access.dra.example.com=yes")
    assert "created" in kubectl("create", "-n", "plain", "-f", "-", stdin=admin_claim("ResourceClaim"))


def test_kubernetes_own_label_scheme(kubectl: Kubectl) -> None:
    kubectl("create", "namespace", "unlabelled")
    for kind in ("ResourceClaim", "ResourceClaimTemplate"):
        refused = kubectl("create", "-n", "unlabelled", "-f", "-", stdin=admin_claim(kind), code=1)
        assert "requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace" in refused
    tenant = kubectl("label", "namespace", "team", "x=y", "--token=alice-token", code=1)
    assert "forbidden" in tenant
