"""The roles and bindings that every cluster starts with: kubectl users, nodes, drivers, the scheduler, the controllers.

Data, in a compact form: a rule is "verbs | groups | resources" with words separated by spaces, `core` for the core group;
"get | /path …" grants non-resource URLs. The names and the rights are Kubernetes'.
"""

from __future__ import annotations

from typing import Any

READ = "get list watch"
WRITE = "create delete deletecollection patch update"
READ_WRITE = f"{READ} {WRITE}"
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"

_VIEW = (
    f"{READ} | core | pods serviceaccounts services services/status endpoints persistentvolumeclaims"
    " persistentvolumeclaims/status configmaps replicationcontrollers replicationcontrollers/scale",
    f"{READ} | core | limitranges resourcequotas bindings pods/status resourcequotas/status namespaces/status pods/log"
    " replicationcontrollers/status",
    f"{READ} | core | namespaces",
    f"{READ} | core events.k8s.io | events",
    f"{READ} | discovery.k8s.io | endpointslices",
    f"{READ} | apps | controllerrevisions statefulsets statefulsets/status statefulsets/scale daemonsets daemonsets/status"
    " deployments deployments/status deployments/scale replicasets replicasets/status replicasets/scale",
    f"{READ} | autoscaling | horizontalpodautoscalers horizontalpodautoscalers/status",
    f"{READ} | batch | jobs cronjobs cronjobs/status jobs/status",
    f"{READ} | policy | poddisruptionbudgets poddisruptionbudgets/status",
    f"{READ} | networking.k8s.io | networkpolicies ingresses ingresses/status",
    f"{READ} | resource.k8s.io | resourceclaims resourceclaims/status resourceclaimtemplates",
)
_EDIT = (
    f"{READ} | core | pods/attach pods/proxy pods/exec pods/portforward secrets services/proxy",
    "impersonate | core | serviceaccounts",
    f"{WRITE} | core | pods pods/attach pods/proxy pods/exec pods/portforward",
    "create | core | pods/eviction",
    f"{WRITE} | core | serviceaccounts services services/proxy persistentvolumeclaims configmaps secrets"
    " replicationcontrollers replicationcontrollers/scale",
    "create | core | serviceaccounts/token",
    f"{WRITE} | core events.k8s.io | events",
    f"{WRITE} | apps | statefulsets statefulsets/scale daemonsets deployments deployments/scale deployments/rollback"
    " replicasets replicasets/scale",
    f"{WRITE} | autoscaling | horizontalpodautoscalers",
    f"{WRITE} | batch | jobs cronjobs",
    f"{WRITE} | policy | poddisruptionbudgets",
    f"{WRITE} | networking.k8s.io | networkpolicies ingresses",
    f"{READ_WRITE} | coordination.k8s.io | leases",
    f"{WRITE} | resource.k8s.io | resourceclaims resourceclaimtemplates",
)
_ADMIN = (
    "create | authorization.k8s.io | localsubjectaccessreviews",
    f"{READ_WRITE} | rbac.authorization.k8s.io | roles rolebindings",
)
_EVENTS = "create patch update | core events.k8s.io | events"
_REVIEWS = (
    "create | authentication.k8s.io | tokenreviews",
    "create | authorization.k8s.io | subjectaccessreviews",
)
# What a node may ask for at all; the node authorizer then limits it to what belongs to the node.
NODE_RULES = (
    "create | authentication.k8s.io | tokenreviews",
    "create | authorization.k8s.io | subjectaccessreviews localsubjectaccessreviews",
    f"{READ} | core | services",
    f"create {READ} | core | nodes",
    "update patch | core | nodes/status nodes",
    "create update patch | core events.k8s.io | events",
    f"{READ} create delete | core | pods",
    "update patch | core | pods/status",
    "create | core | pods/eviction",
    f"{READ} | core | secrets configmaps",
    "get | core | persistentvolumeclaims persistentvolumes endpoints serviceaccounts",
    "create get list watch | certificates.k8s.io | certificatesigningrequests",
    "get create update patch delete | coordination.k8s.io | leases",
    "create | core | serviceaccounts/token",
    f"{READ} | node.k8s.io | runtimeclasses",
    "get | resource.k8s.io | resourceclaims",
    "deletecollection | resource.k8s.io | resourceslices",
)
_SCHEDULER = (
    _EVENTS,
    *_REVIEWS,
    "create get update list watch | coordination.k8s.io | leases",
    f"{READ} | core | nodes namespaces services replicationcontrollers persistentvolumeclaims persistentvolumes",
    f"{READ} delete | core | pods",
    "create | core | pods/binding bindings",
    "patch update | core | pods/status",
    "update | core | pods/finalizers",
    f"{READ} | apps | replicasets statefulsets",
    f"{READ} | policy | poddisruptionbudgets",
    f"{READ} | scheduling.k8s.io | priorityclasses podgroups compositepodgroups workloads",
    "patch update | scheduling.k8s.io | podgroups/status compositepodgroups/status",
    f"{READ} | resource.k8s.io | deviceclasses resourceslices devicetaintrules",
    f"{READ} update patch create delete | resource.k8s.io | resourceclaims",
    f"{READ} update patch | resource.k8s.io | resourceclaims/status",
    "update patch | resource.k8s.io | resourceclaims/binding",
)
# One identity runs all controllers of the embedded control plane; upstream splits these rights over service accounts.
_CONTROLLERS = (
    _EVENTS,
    *_REVIEWS,
    "list watch get | * | *",
    f"{READ_WRITE} | coordination.k8s.io | leases",
    "create update patch delete | core | pods serviceaccounts configmaps persistentvolumeclaims",
    "update patch | core | pods/status pods/finalizers nodes nodes/status namespaces/status resourcequotas/status",
    "update patch create delete | apps | replicasets controllerrevisions",
    "update patch | apps | replicasets/status deployments deployments/status statefulsets statefulsets/status daemonsets"
    " daemonsets/status deployments/finalizers replicasets/finalizers statefulsets/finalizers daemonsets/finalizers",
    "update patch delete | batch | jobs",
    "update patch | batch | jobs/status jobs/finalizers",
    "update patch | policy | poddisruptionbudgets/status",
    "create update patch delete | resource.k8s.io | resourceclaims",
    "update patch | resource.k8s.io | resourceclaims/status resourceclaims/binding devicetaintrules/status"
    " resourcepoolstatusrequests/status",
    "delete | resource.k8s.io | resourceslices resourcepoolstatusrequests",
    "create update patch | scheduling.k8s.io | podgroups workloads",
    "update patch | scheduling.k8s.io | podgroups/status",
)
# These two work on whatever kinds the server offers; their accounts hold nothing else.
_GARBAGE_COLLECTOR = (_EVENTS, "get list watch patch update delete | * | *")
_NAMESPACES = (
    "get list watch update delete | core | namespaces",
    "update patch | core | namespaces/finalize namespaces/status",
    "get list delete deletecollection | * | *",
)
# What plays nodes for a cluster on one machine; each simulated node then writes as itself.
_SIMULATOR = ("get create | resource.k8s.io | deviceclasses", "get patch | core | nodes")
# The simulated drivers of `drakit up --machine`.
_DRIVER = (
    _EVENTS,
    f"{READ} create update patch delete | resource.k8s.io | resourceslices",
    f"{READ} | resource.k8s.io | resourceclaims",
    "get create | resource.k8s.io | deviceclasses",
    "update patch | resource.k8s.io | resourceclaims/status",
    "arbitrary-node:update arbitrary-node:patch | resource.k8s.io | resourceclaims/driver",
    "get | core | nodes pods",
)
_HEALTH = "/livez /readyz /healthz"

# name -> (rules, labels, aggregates from)
_ROLES: dict[str, tuple[tuple[str, ...], dict[str, str], str]] = {
    "cluster-admin": (("* | * | *", "* | *"), {}, ""),
    "system:discovery": (
        (f"get | {_HEALTH} /version /version/ /openapi /openapi/* /api /api/* /apis /apis/*",),
        {},
        "",
    ),
    "system:monitoring": (
        (f"get | /metrics /metrics/slis {_HEALTH} /livez/* /readyz/* /healthz/*", "get | core | nodes/metrics"),
        {},
        "",
    ),
    "system:basic-user": (
        (
            "create | authorization.k8s.io | selfsubjectaccessreviews selfsubjectrulesreviews",
            "create | authentication.k8s.io | selfsubjectreviews",
        ),
        {},
        "",
    ),
    "system:public-info-viewer": ((f"get | {_HEALTH} /version /version/",), {}, ""),
    "admin": ((), {}, "admin"),
    "edit": ((), {_AGGREGATE + "admin": "true"}, "edit"),
    "view": ((), {_AGGREGATE + "edit": "true"}, "view"),
    "system:aggregate-to-admin": (_ADMIN, {_AGGREGATE + "admin": "true"}, ""),
    "system:aggregate-to-edit": (_EDIT, {_AGGREGATE + "edit": "true"}, ""),
    "system:aggregate-to-view": (_VIEW, {_AGGREGATE + "view": "true"}, ""),
    "system:node": (NODE_RULES, {}, ""),
    "system:auth-delegator": (_REVIEWS, {}, ""),
    "system:service-account-issuer-discovery": (
        (
            "get | /.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/",
        ),
        {},
        "",
    ),
    "system:kubelet-api-admin": (
        (
            f"{READ} | core | nodes",
            "proxy | core | nodes",
            "* | core | nodes/proxy nodes/metrics nodes/stats nodes/log",
        ),
        {},
        "",
    ),
    "system:kube-scheduler": (_SCHEDULER, {}, ""),
    "system:kube-controller-manager": (_CONTROLLERS, {}, ""),
    "system:controller:generic-garbage-collector": (_GARBAGE_COLLECTOR, {}, ""),
    "system:controller:namespace-controller": (_NAMESPACES, {}, ""),
    "system:drakit:simulator": (_SIMULATOR, {}, ""),
    "system:drakit:driver": (_DRIVER, {}, ""),
}

# role -> subjects
_BINDINGS: dict[str, tuple[tuple[str, str], ...]] = {
    "cluster-admin": (("Group", "system:masters"),),
    "system:monitoring": (("Group", "system:monitoring"),),
    "system:discovery": (("Group", "system:authenticated"),),
    "system:basic-user": (("Group", "system:authenticated"),),
    "system:public-info-viewer": (("Group", "system:authenticated"), ("Group", "system:unauthenticated")),
    "system:kube-controller-manager": (("User", "system:kube-controller-manager"),),
    "system:kube-scheduler": (("User", "system:kube-scheduler"),),
    "system:controller:generic-garbage-collector": (("ServiceAccount", "generic-garbage-collector"),),
    "system:controller:namespace-controller": (("ServiceAccount", "namespace-controller"),),
    "system:drakit:simulator": (("User", "system:drakit-simulator"),),
    "system:drakit:driver": (("User", "system:drakit-driver"),),
    "system:node": (),
    "system:service-account-issuer-discovery": (("Group", "system:serviceaccounts"),),
}


def parse_rule(text: str) -> dict[str, Any]:
    """A rule of the compact form as a plain PolicyRule."""
    verbs, *rest = (part.split() for part in text.split("|"))
    if len(rest) == 1:
        return {"nonResourceURLs": rest[0], "verbs": verbs}
    groups, resources = rest
    return {"apiGroups": ["" if g == "core" else g for g in groups], "resources": resources, "verbs": verbs}


def _metadata(name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults", **labels},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    }


def cluster_roles() -> list[dict[str, Any]]:
    """The ClusterRoles as plain objects, aggregated ones with the rules they gather."""
    made = []
    for name, (rules, labels, aggregate) in _ROLES.items():
        role: dict[str, Any] = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": _metadata(name, labels),
            "rules": [parse_rule(rule) for rule in rules],
        }
        if aggregate:
            role["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {_AGGREGATE + aggregate: "true"}}]}
        made.append(role)
    for _ in range(3):  # admin gathers edit, edit gathers view, view gathers its own
        for role in made:
            if "aggregationRule" in role:
                role["rules"] = aggregated_rules(role, made)
    return made


def aggregated_rules(role: dict[str, Any], roles: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rules an aggregated role should have: those of the roles its selectors match, by name, each once."""
    from drakit.api.selectors import matches_label_selector

    rules: list[dict[str, Any]] = []
    others = sorted((r for r in roles if r["metadata"]["name"] != role["metadata"]["name"]), key=_name)
    for selector in role["aggregationRule"].get("clusterRoleSelectors") or ():
        for other in others:
            if matches_label_selector(selector, other["metadata"].get("labels") or {}):
                rules.extend(rule for rule in other.get("rules") or () if rule not in rules)
    return rules


def _name(role: dict[str, Any]) -> str:
    return str(role["metadata"]["name"])


def cluster_role_bindings() -> list[dict[str, Any]]:
    group = "rbac.authorization.k8s.io"
    return [
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": _metadata(name, {}),
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [_subject(kind, subject) for kind, subject in subjects],
        }
        for name, subjects in _BINDINGS.items()
    ]


def _subject(kind: str, name: str) -> dict[str, Any]:
    if kind == "ServiceAccount":
        return {"kind": kind, "name": name, "namespace": "kube-system"}
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
