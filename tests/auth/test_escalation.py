"""Climbing by detours: roles, labels, tokens, apply, impersonation, lists. Each was a way in once, or could become one."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drakit.api.gates import FeatureGates
from tests.auth.conftest import Web
from tests.auth.test_attacks import RBAC, binding, role, team

pytestmark = pytest.mark.slow
OnServer = Callable[..., None]
EDITOR = role("role-editor", ("get list update patch create", "rbac.authorization.k8s.io", "clusterroles roles"))
ACCOUNTS = "/api/v1/namespaces/team/serviceaccounts"


async def made(web: Web, path: str, body: dict[str, Any]) -> dict[str, Any]:
    status, answer = await web("POST", path, body)
    assert status == 201, answer
    found: dict[str, Any] = answer
    return found


async def cluster_grant(web: Web, user: str, body: dict[str, Any]) -> None:
    await made(web, f"{RBAC}/clusterroles", body)
    name = body["metadata"]["name"]
    await made(web, f"{RBAC}/clusterrolebindings", binding(f"{name}-{user}", "ClusterRole", name, user))


def test_aggregated_role_follows_its_parts_at_once(on_server: OnServer) -> None:
    async def work(web: Web) -> None:
        await team(web)
        extra = role("widgets", ("get list", "example.com", "widgets"))
        extra["metadata"]["labels"] = {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}
        await made(web, f"{RBAC}/clusterroles", extra)
        for name in ("edit", "admin"):
            rules = (await web("GET", f"{RBAC}/clusterroles/{name}"))[1]["rules"]
            assert any("widgets" in rule.get("resources", ()) for rule in rules), name
        view = (await web("GET", f"{RBAC}/clusterroles/view"))[1]["rules"]
        assert not any("widgets" in rule.get("resources", ()) for rule in view)
        ask = {
            "spec": {
                "resourceAttributes": {
                    "verb": "get",
                    "group": "example.com",
                    "resource": "widgets",
                    "namespace": "team",
                }
            }
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        assert (await web("POST", path, ask, token="alice-token"))[1]["status"]["allowed"] is True
        assert (await web("DELETE", f"{RBAC}/clusterroles/widgets"))[0] == 200
        await asyncio.sleep(0)
        assert (await web("POST", path, ask, token="alice-token"))[1]["status"]["allowed"] is False
        entries = (await web("GET", f"{RBAC}/clusterroles/edit"))[1]["metadata"]["managedFields"]
        assert "clusterrole-aggregation-controller" in {entry["manager"] for entry in entries}

    on_server(work)


def test_labels_do_not_smuggle_a_role_into_an_aggregate(on_server: OnServer) -> None:
    async def work(web: Web) -> None:
        await team(web)
        await cluster_grant(web, "alice", EDITOR)
        await made(web, f"{RBAC}/clusterroles", role("secrets", ("get", "core", "secrets nodes")))
        label = {"metadata": {"labels": {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}}}
        for name in ("secrets", "cluster-admin"):
            status, answer = await web("PATCH", f"{RBAC}/clusterroles/{name}", label, token="alice-token")
            assert status == 403, answer
            assert "attempting to grant RBAC permissions not currently held" in answer["message"]
        gather: dict[str, Any] = {"clusterRoleSelectors": [{"matchLabels": {}}]}
        mine = {"metadata": {"name": "mine"}, "rules": [], "aggregationRule": gather}
        status, answer = await web("POST", f"{RBAC}/clusterroles", mine, token="alice-token")
        assert (status, "must have cluster-admin privileges to use the aggregationRule" in answer["message"]) == (
            403,
            True,
        )
        status, _ = await web("PATCH", f"{RBAC}/clusterroles/view", {"aggregationRule": gather}, token="alice-token")
        assert status == 403

    on_server(work)


def test_escalate_and_bind_lift_the_check_for_the_named_role_only(on_server: OnServer) -> None:
    async def work(web: Web) -> None:
        await team(web)
        group = "rbac.authorization.k8s.io"
        rules = [
            {"apiGroups": [group], "resources": ["rolebindings"], "verbs": ["create"]},
            {"apiGroups": [group], "resources": ["clusterroles"], "verbs": ["bind"], "resourceNames": ["view"]},
        ]
        await made(web, f"{RBAC}/namespaces/team/roles", {"metadata": {"name": "binder"}, "rules": rules})
        await made(web, f"{RBAC}/namespaces/team/rolebindings", binding("bob", "Role", "binder", "bob"))
        path = f"{RBAC}/namespaces/team/rolebindings"
        assert (await web("POST", path, binding("ok", "ClusterRole", "view", "carol"), token="bob-token"))[0] == 201
        assert (await web("POST", path, binding("no", "ClusterRole", "edit", "carol"), token="bob-token"))[0] == 403
        assert (await web("POST", path, binding("no", "ClusterRole", "gone", "carol"), token="bob-token"))[0] == 404
        there = f"{RBAC}/namespaces/default/rolebindings"
        assert (await web("POST", there, binding("no", "ClusterRole", "view", "bob"), token="bob-token"))[0] == 403

    on_server(work)


def test_node_gets_tokens_only_for_its_own_pods(on_server: OnServer) -> None:
    async def work(web: Web) -> None:
        await team(web)
        await made(web, ACCOUNTS, {"metadata": {"name": "other"}})
        for node in ("a", "b"):
            await made(web, "/api/v1/nodes", {"metadata": {"name": node}})
        uids = {}
        for name, node, account in (("mine", "a", "robot"), ("theirs", "b", "robot"), ("second", "a", "other")):
            spec = {"nodeName": node, "serviceAccountName": account, "containers": [{"name": "c", "image": "i"}]}
            pod = await made(web, "/api/v1/namespaces/team/pods", {"metadata": {"name": name}, "spec": spec})
            uids[name] = pod["metadata"]["uid"]

        async def ask(account: str, pod: str, uid: str) -> tuple[int, Any]:
            reference = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}
            spec = {"boundObjectRef": reference} if pod else {}
            return await web("POST", f"{ACCOUNTS}/{account}/token", {"spec": spec}, token="node-a-token")

        status, answer = await ask("robot", "mine", uids["mine"])
        assert status == 201, answer
        assert (await web("GET", "/api/v1/namespaces/team/pods", token=answer["status"]["token"]))[0] == 403
        assert (await ask("robot", "", ""))[0] == 403  # not bound to a pod
        assert (await ask("robot", "theirs", uids["theirs"]))[0] == 403
        assert (await ask("robot", "mine", ""))[0] == 403
        assert (await ask("robot", "mine", uids["theirs"]))[0] in (403, 409)
        status, answer = await ask("robot", "second", uids["second"])
        assert (status, "different serviceaccount" in answer["message"]) == (400, True)
        assert (await ask("default", "mine", uids["mine"]))[0] == 403

    on_server(work)


def test_apply_and_put_make_nothing_new_without_the_right_to_create(on_server: OnServer) -> None:
    async def work(web: Web) -> None:
        await team(web)
        await made(
            web,
            f"{RBAC}/namespaces/team/roles",
            role(
                "patcher", ("get patch update", "core", "configmaps"), ("update patch", "coordination.k8s.io", "leases")
            ),
        )
        await made(web, f"{RBAC}/namespaces/team/rolebindings", binding("bob", "Role", "patcher", "bob"))
        path = "/api/v1/namespaces/team/configmaps/new?fieldManager=x"
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}}
        headers = {"Authorization": "Bearer bob-token", "Content-Type": "application/apply-patch+yaml"}
        async with web.session.patch(web.server.url + path, json=body, headers=headers, ssl=web.tls) as answer:
            text = await answer.text()
            assert answer.status == 403, text
            assert 'cannot create resource \\"configmaps\\"' in text
        lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "bob"}}
        status, _ = await web("PUT", "/apis/coordination.k8s.io/v1/namespaces/team/leases/l", lease, token="bob-token")
        assert status in (403, 404)
        await made(web, "/api/v1/namespaces/team/configmaps", {"metadata": {"name": "new"}})
        async with web.session.patch(web.server.url + path, json=body, headers=headers, ssl=web.tls) as answer:
            assert answer.status == 200, await answer.text()

    on_server(work)


def test_tenant_reads_his_own_namespace_and_no_other(on_server: OnServer) -> None:
    async def work(web: Web) -> None:
        await team(web)
        assert (await web("GET", "/api/v1/namespaces/team", token="alice-token"))[0] == 200
        status, answer = await web("GET", "/api/v1/namespaces/default", token="alice-token")
        assert status == 403
        assert answer["message"].endswith('cannot get resource "namespaces" in API group "" in the namespace "default"')
        assert (await web("GET", "/api/v1/namespaces", token="alice-token"))[0] == 403
        assert (await web("DELETE", "/api/v1/namespaces/team", token="alice-token"))[0] == 403
        label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
        assert (await web("PATCH", "/api/v1/namespaces/team", label, token="alice-token"))[0] == 403
        assert (
            await web("PUT", "/api/v1/namespaces/team/finalize", {"metadata": {"name": "team"}}, token="alice-token")
        )[0] == 403

    on_server(work)


def test_named_list_needs_the_right_to_that_name_and_shows_only_that(on_server: OnServer) -> None:
    async def work(web: Web) -> None:
        await team(web)
        one = {
            "metadata": {"name": "one"},
            "rules": [
                {
                    "verbs": ["get", "list", "watch"],
                    "apiGroups": [""],
                    "resources": ["secrets"],
                    "resourceNames": ["mine"],
                }
            ],
        }
        await made(web, f"{RBAC}/namespaces/team/roles", one)
        await made(web, f"{RBAC}/namespaces/team/rolebindings", binding("bob", "Role", "one", "bob"))
        for name in ("mine", "theirs"):
            await made(web, "/api/v1/namespaces/team/secrets", {"metadata": {"name": name}})
        path = "/api/v1/namespaces/team/secrets"

        async def names(query: str) -> tuple[int, list[str]]:
            status, answer = await web("GET", f"{path}?{query}", token="bob-token")
            return status, [item["metadata"]["name"] for item in answer.get("items", ())]

        assert await names("fieldSelector=metadata.name%3Dmine") == (200, ["mine"])
        for query in (
            "",
            "fieldSelector=metadata.name%3Dtheirs",
            "fieldSelector=metadata.name!%3Dtheirs",
            "fieldSelector=metadata.name%3Dtheirs,metadata.name%3Dmine",
            "fieldSelector=metadata.name%3Dtheirs&fieldSelector=metadata.name%3Dmine",
            "fieldSelector=metadata.namespace%3Dteam",
            "labelSelector=metadata.name%3Dmine",
        ):
            assert (await names(query))[0] == 403, query
        # Two names at once: asked for by the first, and nothing can be both.
        assert await names("fieldSelector=metadata.name%3Dmine,metadata.name%3Dtheirs") == (200, [])
        assert (await names("fieldSelector=metadata.name%3Dmine&fieldSelector=metadata.name%3Dtheirs")) == (
            200,
            ["mine"],
        )

    on_server(work)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param([("Impersonate-Uid", "1")], 400, id="uid-alone"),
        pytest.param([("Impersonate-Extra-Scopes", "a")], 400, id="extra-alone"),
        pytest.param([("Impersonate-Group", "g")], 400, id="group-alone"),
        pytest.param(
            [("Impersonate-User", "bob"), ("Impersonate-Group", "g"), ("Impersonate-Group", "h")], 201, id="groups"
        ),
        pytest.param([("Impersonate-User", "system:anonymous")], 403, id="anonymous-has-no-rights"),
    ],
)
def test_impersonation_by_headers(
    on_server: OnServer, headers: list[tuple[str, str]], status: int, tmp_path: Path
) -> None:
    async def work(web: Web) -> None:
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        sent = [("Authorization", f"Bearer {web.server.admin_token}"), *headers]
        async with web.session.post(web.server.url + path, json={}, headers=sent, ssl=web.tls) as answer:
            text = await answer.json()
            assert answer.status == status, text
        if status == 201:
            assert text["status"]["userInfo"] == {"username": "bob", "groups": ["g", "h", "system:authenticated"]}
            assert web.server.audit is not None
            web.server.audit.flush()
            assert '"impersonator":"kubernetes-admin"' in (tmp_path / "audit").read_text()

    on_server(work, audit_log=tmp_path / "audit")


def test_extra_values_are_asked_for_one_by_one(on_server: OnServer) -> None:
    async def work(web: Web) -> None:
        rules = [
            {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["bob"]},
            {
                "verbs": ["impersonate"],
                "apiGroups": ["authentication.k8s.io"],
                "resources": ["userextras/scopes"],
                "resourceNames": ["a", "b"],
            },
        ]
        await cluster_grant(web, "alice", {"metadata": {"name": "as-bob"}, "rules": rules})
        path = web.server.url + "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        for values, status in ((["a", "b"], 201), (["a", "c"], 403), (["a,b"], 403)):
            sent = [("Authorization", "Bearer alice-token"), ("Impersonate-User", "bob")]
            sent += [("Impersonate-Extra-Scopes", value) for value in values]
            async with web.session.post(path, json={}, headers=sent, ssl=web.tls) as answer:
                text = await answer.json()
                assert answer.status == status, text
                if status == 201:
                    assert text["status"]["userInfo"]["extra"] == {"scopes": values}

    on_server(work)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": 5}}),
        ("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "x", "audiences": 5}}),
        ("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "x", "audiences": [["x"]]}}),
        ("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": []}),
        ("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": {"user": "u", "groups": 5}}),
        ("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": {"user": "u", "groups": [["x"]]}}),
        ("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": {"user": "u", "extra": []}}),
        ("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": {"resourceAttributes": {"verb": {}}}}),
        ("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {"namespace": 7}}),
        (f"{ACCOUNTS}/robot/token", {"spec": {"expirationSeconds": "x"}}),
        (f"{ACCOUNTS}/robot/token", {"spec": {"audiences": "x"}}),
        (f"{ACCOUNTS}/robot/token", {"spec": {"boundObjectRef": []}}),
        (f"{ACCOUNTS}/robot/token", {"spec": {"boundObjectRef": {"kind": "Namespace", "name": "team"}}}),
        (f"{ACCOUNTS}/robot/token", []),
    ],
)
def test_reviews_of_the_wrong_shape_are_bad_requests(on_server: OnServer, path: str, body: Any) -> None:
    async def work(web: Web) -> None:
        await team(web)
        status, answer = await web("POST", path, body)
        assert status == 400, answer

    on_server(work)


def test_surrogates_in_a_token_are_just_a_wrong_token(on_server: OnServer) -> None:
    async def work(web: Web) -> None:
        path = web.server.url + "/apis/authentication.k8s.io/v1/tokenreviews"
        sent = {"Authorization": f"Bearer {web.server.admin_token}", "Content-Type": "application/json"}
        for data in (
            b'{"spec":{"token":"\\ud800"}}',
            '{"spec":{"token":"é中"}}'.encode(),
            b'{"spec":{"token":"a.b.\\u0000"}}',
        ):
            async with web.session.post(path, data=data, headers=sent, ssl=web.tls) as answer:
                text = await answer.json()
                assert answer.status == 400 or not text["status"].get("authenticated"), text
                assert answer.status < 500, text

    on_server(work)


def test_service_account_of_one_namespace_gets_nothing_in_another(on_server: OnServer) -> None:
    async def work(web: Web) -> None:
        await team(web)
        await made(
            web,
            f"{RBAC}/namespaces/team/rolebindings",
            binding("robot", "ClusterRole", "admin", "system:serviceaccount:team:robot"),
        )
        token = (await made(web, f"{ACCOUNTS}/robot/token", {"spec": {}}))["status"]["token"]
        assert (await web("GET", "/api/v1/namespaces/team/secrets", token=token))[0] == 200
        for method, path, body in (
            ("GET", "/api/v1/namespaces/default/secrets", None),
            ("GET", "/api/v1/secrets", None),
            ("GET", "/api/v1/secrets?fieldSelector=metadata.namespace%3Dteam", None),
            ("GET", "/api/v1/secrets?namespace=team", None),
            ("POST", "/api/v1/namespaces/kube-system/serviceaccounts/default/token", {"spec": {}}),
            ("POST", f"{RBAC}/clusterrolebindings", binding("x", "ClusterRole", "view", "robot")),
            ("DELETE", "/api/v1/namespaces/default/secrets", None),
            ("POST", "/api/v1/namespaces/team/resourcequotas", {"metadata": {"name": "q"}}),
            ("PATCH", "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims/c/status", {"status": {}}),
            ("POST", "/api/v1/namespaces/team/pods/p/binding", {"target": {"name": "n"}}),
            ("PATCH", "/api/v1/namespaces/team/pods/p/status", {"status": {}}),
        ):
            status, answer = await web(method, path, body, token=token)
            assert status == 403, (method, path, answer)
        # A tenant may make tokens of accounts in the namespace, and what they may is what the tenant may.
        assert (await web("POST", f"{ACCOUNTS}/robot/token", {"spec": {}}, token=token))[0] == 201

    on_server(work)


def test_token_secret_is_filled_and_ends_with_the_secret(on_server: OnServer) -> None:
    async def work(web: Web) -> None:
        await team(web)
        secrets = "/api/v1/namespaces/team/secrets"
        body = {"metadata": {"name": "t"}, "type": "kubernetes.io/service-account-token"}
        body["metadata"]["annotations"] = {"kubernetes.io/service-account.name": "robot"}  # type: ignore[index]
        await made(web, secrets, body)
        filled = (await web("GET", f"{secrets}/t"))[1]
        assert set(filled["data"]) == {"token", "namespace", "ca.crt"}
        token = base64.b64decode(filled["data"]["token"]).decode()
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        status, who = await web("POST", path, {}, token=token)
        assert (status, who["status"]["userInfo"]["username"]) == (201, "system:serviceaccount:team:robot")
        # Not for an account of another namespace, nor for one that has been replaced.
        body["metadata"] |= {"name": "foreign", "annotations": {"kubernetes.io/service-account.name": "admin"}}  # type: ignore[operator]
        await made(web, secrets, body)
        stale = {"kubernetes.io/service-account.name": "robot", "kubernetes.io/service-account.uid": "other"}
        body["metadata"] |= {"name": "stale", "annotations": stale}  # type: ignore[operator]
        await made(web, secrets, body)
        for name in ("foreign", "stale"):
            assert not (await web("GET", f"{secrets}/{name}"))[1].get("data"), name
        assert (await web("DELETE", f"{secrets}/t"))[0] == 200
        assert (await web("POST", path, {}, token=token))[0] == 401

    on_server(work)


def test_rights_and_other_mistakes_are_told_together(on_server: OnServer) -> None:
    async def work(web: Web) -> None:
        await team(web)
        exactly = {"deviceClassName": "NOT A NAME", "adminAccess": True}
        body = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}
        status, answer = await web("POST", "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims", body)
        assert status == 422
        fields = [cause["field"] for cause in answer["details"]["causes"]]
        assert fields == ["spec.devices.requests[0].adminAccess", "spec.devices.requests[0].exactly.deviceClassName"]

    on_server(work)


def test_admin_access_is_dropped_while_its_gate_is_off(on_server: OnServer) -> None:
    async def work(web: Web) -> None:
        await team(web)
        exactly = {"deviceClassName": "gpu", "adminAccess": True}
        spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
        claims = "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims"
        claim = await made(web, claims, {"metadata": {"name": "c"}, "spec": spec})
        assert "adminAccess" not in claim["spec"]["devices"]["requests"][0]["exactly"]
        templates = "/apis/resource.k8s.io/v1/namespaces/team/resourceclaimtemplates"
        template = await made(web, templates, {"metadata": {"name": "t"}, "spec": {"spec": spec}})
        assert "adminAccess" not in template["spec"]["spec"]["devices"]["requests"][0]["exactly"]

    # 1.37 has locked the gate to on; the rule holds all the same for whoever builds a server without it.
    on_server(work, gates=FeatureGates(on=FeatureGates.default().on - {"DRAAdminAccess"}))


def test_rights_come_before_existence(on_server: OnServer) -> None:
    """Whoever may not look does not learn what there is: a real server's answers."""

    async def work(web: Web) -> None:
        await team(web)
        for method, path, words in (
            ("GET", "/apis/foo/v1/bars", 'bars.foo is forbidden: User "alice" cannot list resource "bars"'),
            ("GET", "/apis/resource.k8s.io/v1/nothings", "nothings.resource.k8s.io is forbidden"),
            ("GET", "/apis/resource.k8s.io/v7/resourceclaims", "resourceclaims.resource.k8s.io is forbidden"),
            ("DELETE", "/api/v1/pods", 'cannot deletecollection resource "pods" in API group "" at the cluster scope'),
            ("GET", "/api/v1/namespaces/default/pods/x", 'pods "x" is forbidden'),
            (
                "PATCH",
                "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims/c/binding",
                'resource "resourceclaims/binding"',
            ),
        ):
            status, answer = await web(method, path, {} if method == "PATCH" else None, token="alice-token")
            assert (status, words in answer["message"]) == (403, True), answer
        for path in ("/apis/foo/v1/bars", "/apis/resource.k8s.io/v1/nothings"):
            async with web.session.get(
                web.server.url + path, headers={"Authorization": f"Bearer {web.server.admin_token}"}, ssl=web.tls
            ) as found:
                assert found.status == 404

    on_server(work)


def test_static_token_is_not_vouched_for_to_others(on_server: OnServer) -> None:
    async def work(web: Web) -> None:
        path = "/apis/authentication.k8s.io/v1/tokenreviews"
        own = await made(web, path, {"spec": {"token": "alice-token"}})
        assert own["status"]["authenticated"] is True
        other = await made(web, path, {"spec": {"token": "alice-token", "audiences": ["elsewhere"]}})
        assert other["status"] == {"user": {}, "error": "invalid bearer token"}

    on_server(work)
