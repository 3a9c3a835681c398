"""ValidatingAdmissionPolicies on a real server: the seeds' admin-access policy, bad policies, costly ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.auth.conftest import Web

pytestmark = pytest.mark.slow
OnServer = Callable[..., None]
VAP = "/apis/admissionregistration.k8s.io/v1"
DRA = "/apis/resource.k8s.io/v1"

# The four objects of the seeds' concept page, as they stand there.
EXPRESSION = "! {path}.devices.requests.exists(e, has(e.adminAccess) && e.adminAccess)"


def policy(resource: str, path: str) -> list[tuple[str, dict[str, Any]]]:
    name = f"{resource}-policy.dra.example.com"
    rule = {
        "apiGroups": ["resource.k8s.io"],
        "apiVersions": ["v1alpha3", "v1beta1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": [f"{resource}s"],
    }
    made = {
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [
                {
                    "expression": EXPRESSION.format(path=path),
                    "reason": "Forbidden",
                    "messageExpression": '"admin access to devices not enabled"',
                }
            ],
        },
    }
    selector = {"matchExpressions": [{"key": "admin-access.dra.example.com", "operator": "DoesNotExist"}]}
    binding = {
        "metadata": {"name": f"{resource}-binding.dra.example.com"},
        "spec": {"policyName": name, "validationActions": ["Deny"], "matchResources": {"namespaceSelector": selector}},
    }
    return [("validatingadmissionpolicies", made), ("validatingadmissionpolicybindings", binding)]


def claim(name: str, version: str, admin: bool) -> dict[str, Any]:
    request: dict[str, Any] = {"deviceClassName": "gpu", **({"adminAccess": True} if admin else {})}
    request = {"name": "r", **request} if version == "v1beta1" else {"name": "r", "exactly": request}
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}


async def must(web: Web, method: str, path: str, body: Any, code: int = 201) -> Any:
    status, answer = await web(method, path, body)
    assert status == code, answer
    return answer


async def namespaces(web: Web) -> None:
    real = {"resource.kubernetes.io/admin-access": "true"}  # the label Kubernetes itself asks for since 1.34
    await must(web, "POST", "/api/v1/namespaces", {"metadata": {"name": "tenant", "labels": real}})
    await must(
        web,
        "POST",
        "/api/v1/namespaces",
        {"metadata": {"name": "ops", "labels": {**real, "admin-access.dra.example.com": ""}}},
    )


def test_admin_access_policy_of_the_seeds(on_server: OnServer) -> None:
    async def work(web: Web) -> None:
        await namespaces(web)
        for resource, path in (("resourceclaim", "object.spec"), ("resourceclaimtemplate", "object.spec.spec")):
            for plural, obj in policy(resource, path):
                await must(web, "POST", f"{VAP}/{plural}", obj)
        claims = "/apis/resource.k8s.io/v1beta1/namespaces/{}/resourceclaims"
        denied = await must(web, "POST", claims.format("tenant"), claim("a", "v1beta1", True), 403)
        assert denied["message"].endswith("denied request: admin access to devices not enabled")
        await must(web, "POST", claims.format("ops"), claim("a", "v1beta1", True))
        await must(web, "POST", claims.format("tenant"), claim("b", "v1beta1", False))
        template = {"metadata": {"name": "t"}, "spec": {"spec": claim("x", "v1beta1", True)["spec"]}}
        templates = "/apis/resource.k8s.io/v1beta1/namespaces/{}/resourceclaimtemplates"
        denied = await must(web, "POST", templates.format("tenant"), template, 403)
        assert "admin access to devices not enabled" in denied["message"]
        await must(web, "POST", templates.format("ops"), template)

    on_server(work)


def test_policy_for_one_version_sees_requests_in_every_version(on_server: OnServer) -> None:
    async def work(web: Web) -> None:
        await namespaces(web)
        for plural, obj in policy("resourceclaim", "object.spec"):
            await must(web, "POST", f"{VAP}/{plural}", obj)
        for version in ("v1", "v1beta2", "v1beta1"):
            claims = f"/apis/resource.k8s.io/{version}/namespaces/tenant/resourceclaims"
            denied = await must(web, "POST", claims, claim("a", version, True), 403)
            assert denied["message"].endswith("admin access to devices not enabled")
            await must(web, "POST", claims + "?dryRun=All", claim("a", version, False))
        exact = policy("resourceclaim", "object.spec")[0][1]["spec"]["matchConstraints"] | {"matchPolicy": "Exact"}
        name = f"{VAP}/validatingadmissionpolicies/resourceclaim-policy.dra.example.com"
        await must(web, "PATCH", name, {"spec": {"matchConstraints": exact}}, 200)
        await must(web, "POST", f"{DRA}/namespaces/tenant/resourceclaims", claim("a", "v1", True))

    on_server(work)


def simple(name: str, expression: str, **spec: Any) -> list[tuple[str, dict[str, Any]]]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    made = {
        "metadata": {"name": name},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression}], **spec},
    }
    binding = {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}}
    return [("validatingadmissionpolicies", made), ("validatingadmissionpolicybindings", binding)]


def test_policy_goes_with_its_binding(on_server: OnServer) -> None:
    async def work(web: Web) -> None:
        (plural, made), (bindings, binding) = simple("p", "object.metadata.name != 'bad'")
        await must(web, "POST", f"{VAP}/{plural}", made)
        maps = "/api/v1/namespaces/default/configmaps"
        await must(web, "POST", maps + "?dryRun=All", {"metadata": {"name": "bad"}})
        await must(web, "POST", f"{VAP}/{bindings}", binding)
        refused = await must(web, "POST", maps, {"metadata": {"name": "bad"}}, 422)
        assert (
            "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: failed expression: object.metadata.name != 'bad'"
            in refused["message"]
        )
        await must(web, "DELETE", f"{VAP}/{bindings}/p", None, 200)
        await must(web, "POST", maps, {"metadata": {"name": "bad"}})

    on_server(work)


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(
            "object.data.all(a, object.data.all(b, object.data.all(c, object.data.all(d, a + b + c + d != ''))))",
            id="nested-loops",
        ),
        pytest.param("object.data.nothing == 'x'", id="run-time-error"),
    ],
)
def test_costly_or_failing_policy_denies_and_does_not_hang(on_server: OnServer, expression: str) -> None:
    async def work(web: Web) -> None:
        for plural, obj in simple("p", expression):
            status, answer = await web("POST", f"{VAP}/{plural}", obj)
            assert status in (201, 422), answer
            if status == 422:
                return  # refused when it was written: just as good
        data = {f"k{n}": "v" for n in range(60)}
        refused = await must(
            web, "POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "big"}, "data": data}, 422
        )
        assert "denied request" in refused["message"]

    on_server(work)


def test_policy_that_does_not_compile_is_refused(on_server: OnServer) -> None:
    async def work(web: Web) -> None:
        (plural, made), _ = simple("p", "object.metadata.name ==")
        refused = await must(web, "POST", f"{VAP}/{plural}", made, 422)
        assert refused["details"]["causes"][0]["field"] == "spec.validations[0].expression"
        (plural, made), _ = simple("q", "object.metadata.name")
        assert "must evaluate to bool" in (await must(web, "POST", f"{VAP}/{plural}", made, 422))["message"]

    on_server(work)
