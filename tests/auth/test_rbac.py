"""RBAC: what roles and bindings allow, and that nobody grants more than he holds."""

from __future__ import annotations

from typing import Any

import pytest

from drakit.apiserver import roles
from drakit.apiserver.auth import Attributes, UserInfo
from drakit.apiserver.rbac import Rbac, Rule, missing_permissions

ALICE = UserInfo("alice", ("devs", "system:authenticated"))


def rule(text: str, *names: str) -> dict[str, Any]:
    plain = roles.parse_rule(text)
    return {**plain, "resourceNames": list(names)} if names else plain


def rbac(*rules: dict[str, Any], namespace: str = "", subject: dict[str, str] | None = None) -> Rbac:
    made = Rbac()
    made.apply("roles" if namespace else "clusterroles", namespace, "r", {"rules": list(rules)})
    binding = {
        "roleRef": {"kind": "Role" if namespace else "ClusterRole", "name": "r"},
        "subjects": [subject or {"kind": "User", "name": "alice"}],
    }
    made.apply("rolebindings" if namespace else "clusterrolebindings", namespace, "b", binding)
    return made


def ask(rbac: Rbac, verb: str, resource: str, user: UserInfo = ALICE, **more: str) -> bool:
    resource, _, subresource = resource.partition("/")
    return rbac.authorize(Attributes(user, verb, resource=resource, subresource=subresource, **more)).allowed


@pytest.mark.parametrize(
    ("text", "names", "verb", "resource", "more", "allowed"),
    [
        pytest.param("get | core | pods", (), "get", "pods", {}, True, id="exact"),
        pytest.param("get | core | pods", (), "list", "pods", {}, False, id="other-verb"),
        pytest.param("get | core | pods", (), "get", "pods/log", {}, False, id="subresource-is-not-included"),
        pytest.param("get | core | pods/log", (), "get", "pods/log", {}, True, id="subresource"),
        pytest.param("get | core | */log", (), "get", "pods/log", {}, True, id="any-resource-with-subresource"),
        pytest.param("get | core | */log", (), "get", "pods", {}, False, id="any-with-subresource-not-the-object"),
        pytest.param("* | * | *", (), "patch", "pods/status", {"group": "x"}, True, id="everything"),
        pytest.param("get | apps | pods", (), "get", "pods", {}, False, id="other-group"),
        pytest.param("get | core | pods", ("a",), "get", "pods", {"name": "a"}, True, id="name"),
        pytest.param("get | core | pods", ("a",), "get", "pods", {"name": "b"}, False, id="other-name"),
        pytest.param("create | core | pods", ("a",), "create", "pods", {}, False, id="create-has-no-name"),
    ],
)
def test_rule_allows(
    text: str, names: tuple[str, ...], verb: str, resource: str, more: dict[str, Any], allowed: bool
) -> None:
    assert ask(rbac(rule(text, *names)), verb, resource, **more) is allowed


def test_names_of_several_rules_add_up_and_are_not_confused_by_the_cache() -> None:
    both = rbac(rule("get | core | pods", "a"), rule("get | core | pods", "b"))
    assert [ask(both, "get", "pods", name=name) for name in ("a", "b", "c", "a")] == [True, True, False, True]


def test_role_binding_holds_in_its_namespace_only() -> None:
    made = rbac(rule("get | core | pods"), namespace="team")
    assert ask(made, "get", "pods", namespace="team")
    assert not ask(made, "get", "pods", namespace="other")
    assert not ask(made, "get", "pods")


@pytest.mark.parametrize(
    ("subject", "user"),
    [
        ({"kind": "Group", "name": "devs"}, ALICE),
        ({"kind": "ServiceAccount", "namespace": "n", "name": "s"}, UserInfo("system:serviceaccount:n:s")),
    ],
)
def test_subjects_are_users_groups_and_service_accounts(subject: dict[str, str], user: UserInfo) -> None:
    made = rbac(rule("get | core | pods"), subject=subject)
    assert ask(made, "get", "pods", user)
    assert not ask(made, "get", "pods", UserInfo("bob"))


def test_change_of_a_role_counts_at_once() -> None:
    made = rbac(rule("get | core | pods"))
    assert ask(made, "get", "pods")
    made.apply("clusterroles", "", "r", {"rules": []})
    assert not ask(made, "get", "pods")
    made.apply("clusterroles", "", "r", {"rules": [rule("get | core | pods")]})
    made.apply("clusterrolebindings", "", "b", None)
    assert not ask(made, "get", "pods")


def test_urls_match_exactly_or_by_prefix() -> None:
    made = rbac(rule("get | /healthz /logs/*"))
    paths = {"/healthz": True, "/healthz/x": False, "/logs/x": True, "/logs": False}
    asked = {path: made.authorize(Attributes(ALICE, "get", path=path)).allowed for path in paths}
    assert asked == paths


def test_masters_may_do_everything_without_any_role() -> None:
    assert ask(Rbac(), "delete", "pods", UserInfo("root", ("system:masters",)))


@pytest.mark.parametrize(
    ("held", "wanted", "covered"),
    [
        pytest.param(["get list | core | pods secrets"], "get | core | pods", True, id="part"),
        pytest.param(["get | core | pods", "list | core | pods"], "get list | core | pods", True, id="together"),
        pytest.param(["get | core | pods"], "* | core | pods", False, id="star-needs-star"),
        pytest.param(["* | * | *"], "* | apps | deployments/scale", True, id="star-covers"),
        pytest.param(["get | core | */scale"], "get | core | pods/scale", True, id="subresource-pattern"),
        pytest.param(["get | core | pods"], "get | apps | pods", False, id="group"),
    ],
)
def test_missing_permissions(held: list[str], wanted: str, covered: bool) -> None:
    rules = [Rule.from_plain(roles.parse_rule(text)) for text in held]
    assert (missing_permissions(rules, [Rule.from_plain(roles.parse_rule(wanted))]) == []) is covered


def test_right_on_one_name_does_not_cover_all_names() -> None:
    one = Rule.from_plain(rule("get | core | pods", "a"))
    every = Rule.from_plain(rule("get | core | pods"))
    assert missing_permissions([one], [every])
    assert not missing_permissions([every], [one])


def bootstrapped() -> Rbac:
    made = Rbac()
    for role in roles.cluster_roles():
        made.apply("clusterroles", "", role["metadata"]["name"], role)
    for binding in roles.cluster_role_bindings():
        made.apply("clusterrolebindings", "", binding["metadata"]["name"], binding)
    return made


def test_aggregated_roles_hold_what_they_gather() -> None:
    by_name = {role["metadata"]["name"]: role["rules"] for role in roles.cluster_roles()}
    for gatherer, parts in {
        "view": ["system:aggregate-to-view"],
        "edit": ["system:aggregate-to-edit", "system:aggregate-to-view"],
        "admin": ["system:aggregate-to-admin", "system:aggregate-to-edit", "system:aggregate-to-view"],
    }.items():
        for part in parts:
            assert all(rule in by_name[gatherer] for rule in by_name[part]), (gatherer, part)
    assert by_name["edit"] != by_name["view"]


def test_scheduler_may_bind_claims_and_nothing_of_drivers() -> None:
    made, scheduler = bootstrapped(), UserInfo("system:kube-scheduler", ("system:authenticated",))
    group = {"group": "resource.k8s.io"}
    assert ask(made, "patch", "resourceclaims/binding", scheduler, **group)
    assert not ask(made, "arbitrary-node:patch", "resourceclaims/driver", scheduler, namespace="n", name="d", **group)
    assert not ask(made, "create", "deviceclasses", scheduler, **group)
    assert not ask(made, "get", "secrets", scheduler)


def test_anonymous_sees_health_and_version_only() -> None:
    made, anonymous = bootstrapped(), UserInfo("system:anonymous", ("system:unauthenticated",))
    allowed = [
        path
        for path in ("/healthz", "/livez", "/version", "/api", "/openapi/v2", "/metrics")
        if made.authorize(Attributes(anonymous, "get", path=path)).allowed
    ]
    assert allowed == ["/healthz", "/livez", "/version"]


def test_made_up_questions_are_not_remembered() -> None:
    rbac = Rbac()
    someone = UserInfo("someone", ("system:authenticated",))
    for number in range(20):
        long = f"/{number}" + "x" * 2000
        assert not rbac.authorize(Attributes(someone, "get", path=long)).allowed
        assert not rbac.authorize(Attributes(someone, "get", resource="pods", namespace=long)).allowed
        assert not rbac.authorize(Attributes(someone, long, resource="pods")).allowed
    assert len(rbac._answers) == 0
    rbac.authorize(Attributes(someone, "get", resource="pods"))
    assert len(rbac._answers) == 1
