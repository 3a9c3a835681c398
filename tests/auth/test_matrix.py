"""Who may do what, as one table: the expectations are Kubernetes' rules, written down by hand.

A cell lists the verbs that are allowed: g(et) l(ist) w(atch) c(reate) u(pdate) p(atch) d(elete) D(eletecollection); `-` is none.
"""

from __future__ import annotations

import pytest

from drakit.api.gates import FeatureGates
from drakit.apiserver import access, roles
from drakit.apiserver.auth import Attributes, UserInfo
from drakit.apiserver.store import Store
from drakit.apiserver.tokens import TokenSigner

VERBS = {
    "g": "get",
    "l": "list",
    "w": "watch",
    "c": "create",
    "u": "update",
    "p": "patch",
    "d": "delete",
    "D": "deletecollection",
}
ALL = "system:authenticated"
WHO = {
    "anonymous": UserInfo("system:anonymous", ("system:unauthenticated",)),
    "nobody": UserInfo("nobody", (ALL,)),  # authenticated, no role
    "viewer": UserInfo("viewer", (ALL,)),  # ClusterRole view in namespace team
    "tenant": UserInfo("tenant", (ALL,)),  # ClusterRole edit in namespace team
    "boss": UserInfo("boss", (ALL,)),  # ClusterRole admin in namespace team
    "robot": UserInfo(
        "system:serviceaccount:team:robot", ("system:serviceaccounts", "system:serviceaccounts:team", ALL)
    ),
    "driver": UserInfo(
        "system:serviceaccount:gpu:driver", ("system:serviceaccounts", "system:serviceaccounts:gpu", ALL)
    ),
    "node-a": UserInfo("system:node:a", ("system:nodes", ALL)),
    "scheduler": UserInfo("system:kube-scheduler", (ALL,)),
    "admin": UserInfo("root", ("system:masters", ALL)),
}
DRA = "resource.k8s.io"
RBAC = "rbac.authorization.k8s.io"
# (group, resource, namespace, name) -> cells in the order of WHO without admin (who may do everything)
TABLE = """
core pods                    team  x     - - glw  glwcupdD glwcupdD - - cd      glwd
core pods                    team  of-a  - - glw  glwcupdD glwcupdD - - glwcd   glwd
core pods                    other x     - - -    -        -        - - cd      glwd
core pods/status             team  x     - - glw  glw      glw      - - up      up
core pods/log                team  x     - - glw  glw      glw      - - -       -
core pods/exec               team  x     - - -    glwcupdD glwcupdD - - -       -
core pods/binding            team  x     - - -    -        -        - - -       c
core pods/eviction           team  x     - - -    c        c        - - c       -
core secrets                 team  x     - - -    glwcupdD glwcupdD - - -       -
core secrets                 team  of-a  - - -    glwcupdD glwcupdD - - glw     -
core configmaps              team  x     - - glw  glwcupdD glwcupdD - - -       -
core configmaps              team  of-a  - - glw  glwcupdD glwcupdD - - glw     -
core serviceaccounts/token   team  x     - - -    c        c        - - -       -
core serviceaccounts/token   team  of-a  - - -    c        c        - - c       -
core namespaces              team  team  - - glw  glw      glw      - - -       glw
core resourcequotas          team  x     - - glw  glw      glw      - - -       -
core nodes                   -     a     - - -    -        -        - - glwcup  glw
core nodes                   -     b     - - -    -        -        - - cup     glw
core nodes/status            -     b     - - -    -        -        - - up      -
resource.k8s.io resourceclaims         team  x     - - glw glwcupdD glwcupdD - g  -   glwcupd
resource.k8s.io resourceclaims         team  of-a  - - glw glwcupdD glwcupdD - g  g   glwcupd
resource.k8s.io resourceclaims         other x     - - -   -        -        - g  -   glwcupd
resource.k8s.io resourceclaims/status  team  x     - - glw glw      glw      - up -   glwup
resource.k8s.io resourceclaims/binding team  x     - - -   -        -        - -  -   up
resource.k8s.io resourceclaims/binding -     -     - - -   -        -        - -  -   up
resource.k8s.io resourceclaimtemplates team  x     - - glw glwcupdD glwcupdD - -  -   -
resource.k8s.io deviceclasses          -     x     - - -   -        -        - -  -   glw
resource.k8s.io resourceslices         -     of-a  - - -   -        -        - glwcupd gcupd glw
resource.k8s.io resourceslices         -     of-b  - - -   -        -        - glwcupd c     glw
resource.k8s.io devicetaintrules       -     x     - - -   -        -        - -  -   glw
apps deployments             team  x     - - glw  glwcupdD glwcupdD - - -       -
apps deployments             other x     - - -    -        -        - - -       -
batch jobs                   team  x     - - glw  glwcupdD glwcupdD - - -       -
coordination.k8s.io leases   kube-node-lease a - - -  -    -        - - gcupd   glwcu
coordination.k8s.io leases   kube-node-lease b - - -  -    -        - - c       glwcu
coordination.k8s.io leases   team  a     - - -    glwcupdD glwcupdD - - -       glwcu
rbac.authorization.k8s.io roles        team  x     - - -   -        glwcupdD - -  -   -
rbac.authorization.k8s.io rolebindings team  x     - - -   -        glwcupdD - -  -   -
rbac.authorization.k8s.io rolebindings other x     - - -   -        -        - -  -   -
rbac.authorization.k8s.io clusterroles -     x     - - -   -        -        - -  -   -
authorization.k8s.io selfsubjectaccessreviews - -  - c c   c        c        c c  c   c
authorization.k8s.io subjectaccessreviews     - -  - - -   -        -        - -  c   c
"""


@pytest.fixture(scope="module")
def made() -> access.Access:
    store = Store()
    made = access.secure(
        store, gates=FeatureGates.default(), signer=TokenSigner.generate(), static_tokens={}, epoch=lambda: 0
    )
    rbac = made.rbac
    for obj in (*roles.cluster_roles(), *roles.cluster_role_bindings()):
        plural = {"ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings"}[obj["kind"]]
        rbac.apply(plural, "", obj["metadata"]["name"], obj)
    for user, role in (("viewer", "view"), ("tenant", "edit"), ("boss", "admin")):
        binding = {"roleRef": {"kind": "ClusterRole", "name": role}, "subjects": [{"kind": "User", "name": user}]}
        rbac.apply("rolebindings", "team", user, binding)
    driver_rules = [
        {
            "apiGroups": [DRA],
            "resources": ["resourceslices"],
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
        },
        {"apiGroups": [DRA], "resources": ["resourceclaims"], "verbs": ["get"]},
        {"apiGroups": [DRA], "resources": ["resourceclaims/status"], "verbs": ["update", "patch"]},
    ]
    rbac.apply("clusterroles", "", "driver", {"rules": driver_rules})
    subject = {"kind": "ServiceAccount", "namespace": "gpu", "name": "driver"}
    rbac.apply(
        "clusterrolebindings",
        "",
        "driver",
        {"roleRef": {"kind": "ClusterRole", "name": "driver"}, "subjects": [subject]},
    )
    nodes = made.authorizer._authorizers[0][1]  # type: ignore[attr-defined]
    pod = {
        "spec": {
            "nodeName": "a",
            "serviceAccountName": "of-a",
            "volumes": [{"secret": {"secretName": "of-a"}}, {"configMap": {"name": "of-a"}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "of-a"}],
        }
    }
    nodes.apply("pods", "team", "of-a", pod)
    nodes.apply("resourceslices", "", "of-a", {"spec": {"nodeName": "a"}})
    nodes.apply("resourceslices", "", "of-b", {"spec": {"nodeName": "b"}})
    return made


def rows() -> list[tuple[str, ...]]:
    return [tuple(line.split()) for line in TABLE.strip().splitlines()]


def test_every_cell_is_as_kubernetes_has_it(made: access.Access) -> None:
    wrong, cells = [], 0
    names = [name for name in WHO if name != "admin"]
    for row in rows():
        group, resource, namespace, name, *expected = row
        plural, _, subresource = resource.partition("/")
        for who, cell in zip(names, expected, strict=True):
            allowed = set(cell.replace("-", ""))
            for letter, verb in VERBS.items():
                # node-a reads lists only through names here; field selectors have their own tests
                asked = Attributes(
                    WHO[who],
                    verb,
                    "" if group == "core" else group,
                    "v1",
                    resource=plural,
                    subresource=subresource,
                    namespace="" if namespace == "-" else namespace,
                    name=""
                    if name == "-" or (verb in ("create", "deletecollection") and plural != "serviceaccounts")
                    else name,
                )
                cells += 1
                if made.authorizer.authorize(asked).allowed != (letter in allowed):
                    wrong.append(f"{who} {verb} {resource} {namespace}/{name}: expected {letter in allowed}")
    assert not wrong, "\n".join(wrong)
    assert cells >= 300


def test_admin_may_do_everything(made: access.Access) -> None:
    for group, resource, namespace, name, *_ in rows():
        for verb in VERBS.values():
            asked = Attributes(WHO["admin"], verb, group, "v1", resource=resource, namespace=namespace, name=name)
            assert made.authorizer.authorize(asked).allowed


@pytest.mark.parametrize(
    ("resource", "selector", "allowed"),
    [
        ("pods", "spec.nodeName=a", True),
        ("pods", "spec.nodeName=b", False),
        ("pods", "spec.nodeName!=a", False),
        ("pods", "", False),
        ("resourceslices", "spec.nodeName=a", True),
        ("resourceslices", "spec.nodeName=b", False),
        ("resourceslices", "spec.driver=d,spec.nodeName=a", True),
        ("resourceslices", "", False),
    ],
)
@pytest.mark.parametrize("verb", ["list", "watch"])
def test_node_lists_with_its_own_field_selector_only(
    made: access.Access, resource: str, selector: str, allowed: bool, verb: str
) -> None:
    group = DRA if resource == "resourceslices" else ""
    asked = Attributes(WHO["node-a"], verb, group, "v1", resource=resource, field_selector=selector)
    assert made.authorizer.authorize(asked).allowed is allowed
