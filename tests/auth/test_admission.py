"""Admission: what pods and nodes get, what nodes, grants and quotas are refused."""

from __future__ import annotations

from typing import Any

import pytest

from drakit.api import registry
from drakit.api.errors import StatusError
from drakit.api.gates import FeatureGates
from drakit.apiserver.admission.claims import ADMIN_LABEL, ClaimPrivileges
from drakit.apiserver.admission.limits import LimitRanger
from drakit.apiserver.admission.pods import (
    DefaultTolerations,
    NewNodeTaint,
    OneDefaultClass,
    Priority,
    ServiceAccount,
)
from drakit.apiserver.admission.quota import ResourceQuota
from drakit.apiserver.admission.quota_usage import QuotaUsage
from drakit.apiserver.auth import AdmissionAttributes, Attributes, Decision, UserInfo
from drakit.apiserver.node_authorizer import NodeRestriction

NODE_A = UserInfo("system:node:a", ("system:nodes", "system:authenticated"))
USER = UserInfo("u", ("system:authenticated",))


class Objects:
    """A lookup over plain objects given as (plural, namespace, name)."""

    def __init__(self, objects: dict[tuple[str, str, str], dict[str, Any]] | None = None) -> None:
        self.objects = objects or {}

    def get(self, group: str, plural: str, namespace: str, name: str) -> dict[str, Any] | None:
        return self.objects.get((plural, namespace, name))

    def list(self, group: str, plural: str, namespace: str = "") -> list[dict[str, Any]]:
        return [obj for key, obj in self.objects.items() if key[0] == plural and namespace in ("", key[1])]


def attributes(
    group: str,
    plural: str,
    operation: str,
    obj: dict[str, Any] | None,
    old: dict[str, Any] | None = None,
    *,
    user: UserInfo = USER,
    subresource: str = "",
    namespace: str = "ns",
    name: str = "",
    verb: str = "",
) -> AdmissionAttributes:
    kind = registry.by_resource(group, plural)
    assert kind is not None
    verb = verb or {"CREATE": "create", "UPDATE": "update", "DELETE": "delete"}[operation]
    request = Attributes(
        user,
        verb,
        group,
        "v1",
        resource=plural,
        subresource=subresource,
        namespace=namespace if kind.namespaced else "",
        name=name,
    )
    return AdmissionAttributes(request, kind, operation, obj, old)


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", "namespace": "ns"}, "spec": {"containers": [{"name": "c"}], **spec}}


ACCOUNTS = Objects({("serviceaccounts", "ns", "default"): {"metadata": {"name": "default", "uid": "1"}}})


def admitted(plugin: Any, obj: dict[str, Any], group: str = "", plural: str = "pods") -> dict[str, Any]:
    asked = attributes(group, plural, "CREATE", obj)
    plugin.admit(asked)
    assert asked.object is not None
    return asked.object


def test_pod_gets_the_default_account_and_its_token_in_every_container() -> None:
    before = pod(initContainers=[{"name": "i"}])
    made = admitted(ServiceAccount(ACCOUNTS), before)["spec"]
    assert made["serviceAccountName"] == made["serviceAccount"] == "default"
    volume = made["volumes"][-1]
    assert volume["name"].startswith("kube-api-access-")
    assert [next(iter(source)) for source in volume["projected"]["sources"]] == [
        "serviceAccountToken",
        "configMap",
        "downwardAPI",
    ]
    for container in made["containers"] + made["initContainers"]:
        assert container["volumeMounts"][-1]["name"] == volume["name"]
    assert "volumes" not in before["spec"], "the object handed in is not touched"


@pytest.mark.parametrize("spec", [{"automountServiceAccountToken": False}])
def test_pod_that_wants_no_token_gets_none(spec: dict[str, Any]) -> None:
    assert "volumes" not in admitted(ServiceAccount(ACCOUNTS), pod(**spec))["spec"]


def test_pod_with_unknown_account_is_refused() -> None:
    with pytest.raises(StatusError, match='error looking up service account ns/x: serviceaccount "x" not found'):
        admitted(ServiceAccount(ACCOUNTS), pod(serviceAccountName="x"))


def test_priority_comes_from_the_class_or_is_zero() -> None:
    classes = Objects(
        {("priorityclasses", "", "high"): {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"}}
    )
    assert admitted(Priority(classes), pod())["spec"]["priority"] == 0
    made = admitted(Priority(classes), pod(priorityClassName="high"))["spec"]
    assert (made["priority"], made["preemptionPolicy"]) == (1000, "Never")
    with pytest.raises(StatusError, match="no PriorityClass with name low was found"):
        admitted(Priority(classes), pod(priorityClassName="low"))
    with pytest.raises(StatusError, match="must not be provided in pod spec"):
        admitted(Priority(classes), pod(priority=5))


def test_priority_stays_when_a_pod_is_replaced_by_what_its_author_wrote() -> None:
    old = pod(priority=5, preemptionPolicy="Never")
    asked = attributes("", "pods", "UPDATE", pod(preemptionPolicy="PreemptLowerPriority"), old)
    Priority(Objects()).admit(asked)
    assert asked.object is not None
    assert (asked.object["spec"]["priority"], asked.object["spec"]["preemptionPolicy"]) == (5, "PreemptLowerPriority")


def test_one_priority_class_is_the_default() -> None:
    first, second = ({"metadata": {"name": name}, "value": 5, "globalDefault": True} for name in ("first", "second"))
    plugin = OneDefaultClass(Objects({("priorityclasses", "", "first"): first}))
    plugin.validate(attributes("scheduling.k8s.io", "priorityclasses", "UPDATE", first, first))
    plugin.validate(attributes("scheduling.k8s.io", "priorityclasses", "CREATE", {**second, "globalDefault": False}))
    with pytest.raises(StatusError, match="PriorityClass first is already marked as default. Only one default can"):
        plugin.validate(attributes("scheduling.k8s.io", "priorityclasses", "CREATE", second))


def limit_range(*limits: dict[str, Any]) -> Objects:
    return Objects({("limitranges", "ns", "lr"): {"metadata": {"name": "lr"}, "spec": {"limits": list(limits)}}})


def test_a_limit_range_fills_in_what_containers_do_not_say() -> None:
    defaults = {"type": "Container", "default": {"cpu": "500m", "memory": "1Gi"}, "defaultRequest": {"cpu": "100m"}}
    own = {"name": "own", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "2", "memory": "2Gi"}}}
    made = admitted(
        LimitRanger(limit_range(defaults)), pod(containers=[{"name": "c"}, own], initContainers=[{"name": "i"}])
    )
    assert [container["resources"] for container in made["spec"]["containers"]] == [
        {"requests": {"cpu": "100m"}, "limits": {"cpu": "500m", "memory": "1Gi"}},
        own["resources"],
    ]
    assert made["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu request for container c; cpu, memory limit for container c; "
        "cpu request for init container i; cpu, memory limit for init container i"
    )
    plain = pod()
    assert admitted(LimitRanger(limit_range({"type": "Pod", "max": {"cpu": "1"}})), plain) is plain


def amounts(cpu_request: str, cpu_limit: str) -> dict[str, Any]:
    given = {"requests": {"cpu": cpu_request}, "limits": {"cpu": cpu_limit}}
    return {"name": "c", "resources": {which: amount for which, amount in given.items() if amount["cpu"]}}


@pytest.mark.parametrize(
    ("limit", "containers", "error"),
    [
        pytest.param({"max": {"cpu": "1"}}, [amounts("1", "1")], "", id="within"),
        pytest.param({"max": {"cpu": "1"}}, [amounts("1", "2")], "maximum cpu usage per Container is 1, but limit is 2", id="limit"),
        pytest.param({"max": {"cpu": "1"}}, [amounts("1", "")], "maximum cpu usage per Container is 1.  No limit is specified", id="no-limit"),
        pytest.param({"min": {"cpu": "500m"}}, [amounts("100m", "1")], "minimum cpu usage per Container is 500m, but request is 100m", id="request"),
        pytest.param({"min": {"cpu": "1"}}, [amounts("", "")], "minimum cpu usage per Container is 1.  No request is specified", id="no-request"),
        pytest.param({"maxLimitRequestRatio": {"cpu": "2"}}, [amounts("1", "3")],
                     "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000", id="ratio"),
        pytest.param({"maxLimitRequestRatio": {"cpu": "2"}}, [amounts("", "3")],
                     "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0", id="no-ratio"),
        pytest.param({"min": {"cpu": "2"}, "max": {"memory": "1Gi"}}, [amounts("1", "2")],
                     "[minimum cpu usage per Container is 2, but request is 1, maximum memory usage per Container is 1Gi.  No limit is specified]",
                     id="several"),
        pytest.param({"type": "Pod", "max": {"cpu": "3"}}, [amounts("1", "2")] * 2, "maximum cpu usage per Pod is 3, but limit is 4", id="pod"),
    ],
)  # fmt: skip
def test_a_limit_range_bounds_containers_and_pods(
    limit: dict[str, Any], containers: list[dict[str, Any]], error: str
) -> None:
    plugin = LimitRanger(limit_range({"type": "Container", **limit}))
    asked = attributes("", "pods", "CREATE", pod(containers=containers))
    if not error:
        plugin.validate(asked)
        return
    with pytest.raises(StatusError) as refused:
        plugin.validate(asked)
    assert refused.value.message == f'pods "p" is forbidden: {error}'


def test_pod_tolerates_lost_nodes_for_five_minutes_unless_it_says_otherwise() -> None:
    added = admitted(DefaultTolerations(Objects()), pod())["spec"]["tolerations"]
    assert [t["tolerationSeconds"] for t in added] == [300, 300]
    own = [{"operator": "Exists"}]
    assert admitted(DefaultTolerations(Objects()), pod(tolerations=own))["spec"]["tolerations"] == own


def test_new_node_is_not_ready() -> None:
    made = admitted(NewNodeTaint(Objects()), {"metadata": {"name": "n"}}, "", "nodes")
    assert made["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]


# --- nodes write only about themselves

MIRROR = {
    "metadata": {
        "name": "m",
        "annotations": {"kubernetes.io/config.mirror": "x"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "node-a", "controller": True}],
    },
    "spec": {"nodeName": "a", "containers": [{"name": "c"}]},
}
NODES = Objects(
    {
        ("nodes", "", "a"): {"metadata": {"name": "a", "uid": "node-a"}},
        ("pods", "ns", "mine"): {"metadata": {"uid": "1"}, "spec": {"nodeName": "a"}},
        ("pods", "ns", "theirs"): {"metadata": {"uid": "2"}, "spec": {"nodeName": "b"}},
    }
)


def with_(base: dict[str, Any], part: str, **fields: Any) -> dict[str, Any]:
    return {**base, part: {**base[part], **fields}}


def slice_of(node: str) -> dict[str, Any]:
    return {"metadata": {"name": "s"}, "spec": {"nodeName": node}}


STATUS = {"metadata": {"name": "p"}, "spec": {"nodeName": "a"}, "status": {"phase": "Running"}}


@pytest.mark.parametrize(
    ("asked", "refusal"),
    [
        pytest.param(attributes("", "pods", "CREATE", MIRROR, user=NODE_A), "", id="mirror-pod"),
        pytest.param(attributes("", "pods", "CREATE", pod(), user=NODE_A), "can only create mirror pods", id="plain-pod"),
        pytest.param(attributes("", "pods", "CREATE", with_(MIRROR, "spec", nodeName="b"), user=NODE_A), "spec.nodeName set to itself", id="other-node"),
        pytest.param(
            attributes("", "pods", "CREATE", with_(MIRROR, "spec", resourceClaims=[{"name": "x", "resourceClaimName": "y"}]), user=NODE_A),
            "can not create pods that reference resourceclaims",
            id="CVE-2025-4563",
        ),
        pytest.param(
            attributes("", "pods", "CREATE", with_(MIRROR, "spec", volumes=[{"secret": {"secretName": "s"}}]), user=NODE_A),
            "can not create pods that reference secrets",
            id="mirror-with-secret",
        ),
        pytest.param(attributes("", "pods", "DELETE", None, {"spec": {"nodeName": "b"}}, user=NODE_A), "can only delete pods", id="delete-theirs"),
        pytest.param(attributes("", "pods", "DELETE", None, {"spec": {"nodeName": "a"}}, user=NODE_A), "", id="delete-mine"),
        pytest.param(attributes("", "pods", "UPDATE", STATUS, STATUS, subresource="status", user=NODE_A), "", id="status"),
        pytest.param(
            attributes("", "pods", "UPDATE", STATUS, with_(STATUS, "spec", nodeName="b"), subresource="status", user=NODE_A),
            "can only update pod status for pods with spec.nodeName set to itself",
            id="status-of-theirs",
        ),
        pytest.param(
            attributes("", "pods", "UPDATE", with_(STATUS, "status", resourceClaimStatuses=[{"name": "x"}]), STATUS, subresource="status", user=NODE_A),
            "cannot update resource claim statues",
            id="claim-statuses",
        ),
        pytest.param(
            attributes("", "pods", "UPDATE", with_(STATUS, "metadata", labels={"a": "b"}), STATUS, subresource="status", user=NODE_A),
            "cannot update labels through pod status",
            id="labels",
        ),
        pytest.param(attributes("", "pods", "CREATE", {}, subresource="eviction", name="theirs", user=NODE_A), "can only evict pods", id="evict"),
        pytest.param(attributes("", "pods", "CREATE", {}, subresource="binding", name="mine", user=NODE_A), "unexpected pod subresource", id="bind"),
        pytest.param(attributes("", "nodes", "UPDATE", {"metadata": {}}, {"metadata": {}}, name="b", user=NODE_A), "not allowed to modify node", id="node-b"),
        pytest.param(
            attributes("", "nodes", "UPDATE", {"metadata": {}, "spec": {"taints": []}}, {"metadata": {}, "spec": {"taints": [1]}}, name="a", user=NODE_A),
            "not allowed to modify taints",
            id="taints",
        ),
        pytest.param(
            attributes("", "nodes", "CREATE", {"metadata": {"name": "a", "labels": {"node-restriction.kubernetes.io/x": "y"}}}, user=NODE_A),
            "not allowed to set the following labels: node-restriction.kubernetes.io/x",
            id="restricted-label",
        ),
        pytest.param(
            attributes("", "nodes", "CREATE", {"metadata": {"name": "a", "labels": {"kubernetes.io/hostname": "a", "mine": "y"}}}, user=NODE_A),
            "",
            id="own-labels",
        ),
        pytest.param(attributes("resource.k8s.io", "resourceslices", "CREATE", slice_of("a"), user=NODE_A), "", id="slice"),
        pytest.param(attributes("resource.k8s.io", "resourceslices", "CREATE", slice_of("b"), user=NODE_A), "can only create ResourceSlice", id="slice-b"),
        pytest.param(
            attributes("resource.k8s.io", "resourceslices", "CREATE", {"spec": {"allNodes": True}}, user=NODE_A),
            "can only create ResourceSlice",
            id="slice-all",
        ),
        pytest.param(attributes("resource.k8s.io", "resourceslices", "DELETE", None, slice_of("b"), user=NODE_A), "can only delete ResourceSlice", id="delete-b"),
        pytest.param(
            attributes("", "serviceaccounts", "CREATE", {"spec": {}}, subresource="token", name="x", user=NODE_A), "not bound to a pod", id="token"
        ),
        pytest.param(
            attributes(
                "", "serviceaccounts", "CREATE",
                {"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "theirs", "uid": "2"}}},
                subresource="token", name="x", user=NODE_A,
            ),
            "scheduled on a different node",
            id="token-of-their-pod",
        ),
        pytest.param(attributes("resource.k8s.io", "resourceslices", "CREATE", slice_of("b"), user=USER), "", id="not-a-node"),
    ],
)  # fmt: skip
def test_node_restriction(asked: AdmissionAttributes, refusal: str) -> None:
    plugin = NodeRestriction(NODES)
    if not refusal:
        plugin.admit(asked)
        return
    with pytest.raises(StatusError, match=refusal) as caught:
        plugin.admit(asked)
    assert caught.value.code == 403


# --- quota


def claim(name: str, **exactly: Any) -> dict[str, Any]:
    request = {
        "name": "r",
        "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, **exactly},
    }
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": {"devices": {"requests": [request]}}}


def quota_plugin(objects: Objects, **hard: str) -> tuple[ResourceQuota, QuotaUsage]:
    objects.objects["resourcequotas", "ns", "q"] = {"metadata": {"name": "q"}, "spec": {"hard": hard}}
    usage = QuotaUsage(objects, [("resource.k8s.io", "resourceclaims"), ("", "pods")])
    return ResourceQuota(objects, usage), usage


def test_quota_counts_what_was_written_since_and_frees_what_is_gone() -> None:
    plugin, usage = quota_plugin(Objects(), **{"gpu.deviceclass.resource.k8s.io/devices": "3"})
    group, plural = "resource.k8s.io", "resourceclaims"

    def create(name: str, **exactly: Any) -> None:
        obj = claim(name, **exactly)
        plugin.validate(attributes(group, plural, "CREATE", obj))
        usage.apply(group, plural, "ns", name, obj)

    create("a", count=2)
    with pytest.raises(StatusError, match="devices=2, used: gpu.deviceclass.resource.k8s.io/devices=2, limited: .*=3"):
        create("b", count=2)
    with pytest.raises(StatusError, match="devices=32"):
        create("c", allocationMode="All")
    create("d")
    usage.apply(group, plural, "ns", "a", None)
    create("e", count=2)


def test_nothing_is_counted_for_a_quota_that_is_gone() -> None:
    objects = Objects()
    plugin, usage = quota_plugin(objects, **{"gpu.deviceclass.resource.k8s.io/devices": "3"})
    plugin.validate(attributes("resource.k8s.io", "resourceclaims", "CREATE", claim("a")))
    assert usage._namespaces
    del objects.objects["resourcequotas", "ns", "q"]
    usage.apply("", "resourcequotas", "ns", "q", None)
    assert not usage._namespaces


def test_quota_on_cpu_makes_every_container_say_how_much() -> None:
    plugin, _ = quota_plugin(Objects(), **{"requests.cpu": "2"})
    with pytest.raises(StatusError, match="failed quota: q: must specify requests.cpu for: c"):
        plugin.validate(attributes("", "pods", "CREATE", pod()))
    small = pod()
    small["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1500m"}}
    plugin.validate(attributes("", "pods", "CREATE", small))
    big = pod()
    big["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "3"}}
    with pytest.raises(
        StatusError, match="exceeded quota: q, requested: requests.cpu=3, used: requests.cpu=0, limited: requests.cpu=2"
    ):
        plugin.validate(attributes("", "pods", "CREATE", big))


# --- admin access and claim status


class Grants:
    """Allows exactly the given (verb, subresource, namespace, name)."""

    def __init__(self, *allowed: tuple[str, str, str, str]) -> None:
        self.allowed = set(allowed)

    def authorize(self, asked: Attributes) -> Decision:
        return Decision((asked.verb, asked.subresource, asked.namespace, asked.name) in self.allowed)


def privileges(*grants: tuple[str, str, str, str], labels: dict[str, str] | None = None) -> ClaimPrivileges:
    objects = Objects({("namespaces", "", "ns"): {"metadata": {"name": "ns", "labels": labels or {}}}})
    return ClaimPrivileges(objects, Grants(*grants), FeatureGates.default())


@pytest.mark.parametrize("labels", [{}, {ADMIN_LABEL: "false"}, {ADMIN_LABEL: "true"}])
@pytest.mark.parametrize("plural", ["resourceclaims", "resourceclaimtemplates"])
def test_admin_access_needs_the_namespace_label(labels: dict[str, str], plural: str) -> None:
    obj = claim("x", adminAccess=True)
    if plural == "resourceclaimtemplates":
        obj = {"metadata": {"name": "x"}, "spec": {"spec": obj["spec"]}}
    errors = privileges(labels=labels).errors(attributes("resource.k8s.io", plural, "CREATE", obj))
    assert [error.field for error in errors] == (
        [] if labels.get(ADMIN_LABEL) == "true" else ["spec.devices.requests[0].adminAccess"]
    )


NODE_SELECTOR = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}
ALLOCATION = {"devices": {"results": []}, "nodeSelector": NODE_SELECTOR}


def driver_on(node: str) -> UserInfo:
    return UserInfo("system:serviceaccount:gpu:driver", extra={"authentication.kubernetes.io/node-name": (node,)})


@pytest.mark.parametrize(
    ("user", "grants", "allowed"),
    [
        pytest.param(driver_on("n1"), [("associated-node:patch", "driver", "ns", "d1")], True, id="on-its-node"),
        pytest.param(driver_on("n2"), [("associated-node:patch", "driver", "ns", "d1")], False, id="on-another-node"),
        pytest.param(driver_on("n2"), [("arbitrary-node:patch", "driver", "ns", "d1")], True, id="from-anywhere"),
        pytest.param(driver_on("n1"), [("associated-node:patch", "driver", "ns", "d2")], False, id="another-driver"),
        pytest.param(USER, [("associated-node:patch", "driver", "ns", "d1")], False, id="not-a-service-account"),
    ],
)
def test_driver_status_needs_the_right_for_that_driver(
    user: UserInfo, grants: list[tuple[str, str, str, str]], allowed: bool
) -> None:
    old = {**claim("x"), "status": {"allocation": ALLOCATION}}
    new = {**old, "status": {"allocation": ALLOCATION, "devices": [{"driver": "d1", "pool": "p", "device": "0"}]}}
    asked = attributes(
        "resource.k8s.io", "resourceclaims", "UPDATE", new, old, subresource="status", user=user, verb="patch"
    )
    assert (privileges(*grants).errors(asked) == []) is allowed


def test_allocation_needs_binding_and_nothing_else_does() -> None:
    old, new = claim("x"), {**claim("x"), "status": {"allocation": ALLOCATION}}
    asked = attributes("resource.k8s.io", "resourceclaims", "UPDATE", new, old, subresource="status", verb="patch")
    assert [e.field for e in privileges().errors(asked)] == ["status.allocation"]
    assert privileges(("patch", "binding", "", "")).errors(asked) == []
    unchanged = attributes("resource.k8s.io", "resourceclaims", "UPDATE", new, new, subresource="status", verb="patch")
    assert privileges().errors(unchanged) == []


def extended_claim(name: str, uid: str = "pod-1", created: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}
    annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
    metadata = {"name": name, "namespace": "ns", "annotations": annotations, "ownerReferences": [owner]}
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}
    metadata["creationTimestamp"] = created
    return {"metadata": metadata, "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}


@pytest.mark.parametrize(
    ("made", "status", "refused"),
    [
        pytest.param(extended_claim("c"), {}, False, id="the-pod-has-paid"),
        pytest.param(extended_claim("c", uid="another"), {}, True, id="another-pod-of-the-name"),
        pytest.param(
            extended_claim("c"),
            {"extendedResourceClaimStatus": {"resourceClaimName": "other"}},
            True,
            id="the-pod-has-another-claim",
        ),
        pytest.param(extended_claim("z", created="2026-01-02T00:00:00Z"), {"second": True}, True, id="a-second-claim"),
    ],
)
def test_devices_behind_extended_resources_count_once(
    made: dict[str, Any], status: dict[str, Any], refused: bool
) -> None:
    quota = {"metadata": {"name": "q", "namespace": "ns"}, "spec": {"hard": {"requests.example.com/gpu": "2"}}}
    amounts = {"example.com/gpu": "2"}
    owner = pod(containers=[{"name": "c", "resources": {"requests": amounts, "limits": amounts}}])
    owner["metadata"]["uid"], owner["status"] = "pod-1", {k: v for k, v in status.items() if k != "second"}
    objects = Objects({
        ("resourcequotas", "ns", "q"): quota,
        ("pods", "ns", "p"): owner,
    })  # fmt: skip
    if "second" in status:
        objects.objects["resourceclaims", "ns", "first"] = extended_claim("first")
    usage = QuotaUsage(objects, [("", "pods"), ("resource.k8s.io", "resourceclaims")])
    usage.apply("resource.k8s.io", "deviceclasses", "", "gpu", {"spec": {"extendedResourceName": "example.com/gpu"}})
    asked = attributes("resource.k8s.io", "resourceclaims", "CREATE", made)
    if not refused:
        ResourceQuota(objects, usage).validate(asked)
        return
    with pytest.raises(StatusError) as caught:
        ResourceQuota(objects, usage).validate(asked)
    assert "exceeded quota: q, requested: requests.example.com/gpu=2, used: requests.example.com/gpu=2" in str(
        caught.value
    )
