"""What a node may do: read and write only what belongs to it.

Two parts, as in Kubernetes. The authorizer knows which objects the pods of each node refer to (fed by the store, one pod or slice
at a time). NodeRestriction is admission: it sees the object itself and refuses a node that writes about another node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from drakit.api.selectors import parse_field_selector
from drakit.apiserver.auth import NO_OPINION, Admission, AdmissionAttributes, Attributes, Decision, Lookup, UserInfo
from drakit.apiserver.rbac import Rule
from drakit.apiserver.refusals import forbidden
from drakit.apiserver.roles import NODE_RULES, parse_rule

Plain = Mapping[str, Any]
_PREFIX = "system:node:"
_GROUP = "system:nodes"
_LEASE_NAMESPACE = "kube-node-lease"
_MIRROR = "kubernetes.io/config.mirror"

Key = tuple[str, str, str]  # plural, namespace, name


def node_of(user: UserInfo) -> str | None:
    """The node behind an identity; None when it is not a node's, "" for a node without a name."""
    if not user.name.startswith(_PREFIX) or _GROUP not in user.groups:
        return None
    return user.name.removeprefix(_PREFIX)


class NodeAuthorizer:
    def __init__(self) -> None:
        self._rules = tuple(Rule.from_plain(parse_rule(rule)) for rule in NODE_RULES)
        self._related: dict[str, Counter[Key]] = {}  # node -> what its pods and slices refer to, counted
        self._edges: dict[Key, tuple[str, tuple[Key, ...]]] = {}  # pod or slice -> its node and references

    def apply(self, plural: str, namespace: str, name: str, obj: Plain | None) -> None:
        """Take in the current state of a pod or ResourceSlice; None when it is gone."""
        source = (plural, namespace, name)
        node, keys = self._edges.pop(source, ("", ()))
        if node:
            related = self._related[node]
            related.subtract(keys)
            for key in keys:
                if related[key] <= 0:
                    del related[key]
            if not related:
                del self._related[node]
        if obj is None:
            return
        node = (obj.get("spec") or {}).get("nodeName") or ""
        if node:
            keys = (source, *(_references(obj, namespace) if plural == "pods" else ()))
            self._edges[source] = (node, keys)
            self._related.setdefault(node, Counter()).update(keys)

    def is_related(self, node: str, plural: str, namespace: str, name: str) -> bool:
        return (plural, namespace, name) in self._related.get(node, ())

    def authorize(self, attributes: Attributes) -> Decision:
        node = node_of(attributes.user)
        if node is None:
            return NO_OPINION
        if not node:
            return Decision(False, f'unknown node for user "{attributes.user.name}"')
        match attributes.group, attributes.resource:
            case "", "secrets" | "configmaps":
                return self._read(node, attributes, ("get", "list", "watch"), "can only read resources of this type")
            case ("", "persistentvolumeclaims") | ("resource.k8s.io", "resourceclaims"):
                return self._read(node, attributes, ("get",), "can only get individual resources of this type")
            case "", "serviceaccounts":
                return self._service_account(node, attributes)
            case "coordination.k8s.io", "leases":
                return _lease(node, attributes)
            case "resource.k8s.io", "resourceslices":
                return self._slice(node, attributes)
            case "", "nodes":
                return _node(node, attributes)
            case "", "pods":
                return self._pod(node, attributes)
        if attributes.resource and any(
            rule.allows_verb(attributes.verb)
            and rule.allows_resource(attributes.group, attributes.resource, attributes.subresource)
            for rule in self._rules
        ):
            return Decision(True)
        return NO_OPINION

    def _read(self, node: str, a: Attributes, verbs: tuple[str, ...], refusal: str) -> Decision:
        if a.verb not in verbs:
            return Decision(False, refusal)
        if a.subresource:
            return Decision(False, "cannot read subresource")
        return self._related_decision(node, a)

    def _related_decision(self, node: str, a: Attributes) -> Decision:
        if not a.name:
            return Decision(False, "No Object name found")
        if self.is_related(node, a.resource, a.namespace, a.name):
            return Decision(True)
        return Decision(False, f"no relationship found between node '{node}' and this object")

    def _service_account(self, node: str, a: Attributes) -> Decision:
        if a.verb == "get" and not a.subresource:
            return self._related_decision(node, a)
        if a.verb != "create" or not a.name:
            return Decision(False, "can only create tokens for individual service accounts")
        if a.subresource != "token":
            return Decision(False, "can only create token subresource of serviceaccount")
        return self._related_decision(node, a)

    def _slice(self, node: str, a: Attributes) -> Decision:
        if a.subresource:
            return Decision(False, "cannot authorize ResourceSlice subresources")
        match a.verb:
            case "create":
                return Decision(True)
            case "get" | "update" | "patch" | "delete":
                return self._related_decision(node, a)
            case "watch" | "list" | "deletecollection":
                if _selects(a.field_selector, "spec.nodeName", node):
                    return Decision(True)
                return Decision(
                    False, "can only list/watch/deletecollection resourceslices with nodeName field selector"
                )
        allowed = "get, watch, list, create, update, patch, delete, deletecollection"
        return Decision(False, f"only the following verbs are allowed for a ResourceSlice: {allowed}")

    def _pod(self, node: str, a: Attributes) -> Decision:
        match a.subresource, a.verb:
            case "", "get":
                return self._related_decision(node, a)
            case "", "list" | "watch":
                if _selects(a.field_selector, "spec.nodeName", node):
                    return Decision(True)
                if a.name:
                    return self._related_decision(node, a)
                return Decision(False, "can only list/watch pods with spec.nodeName field selector")
            case ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create"):
                return Decision(True)  # NodeRestriction looks at the object
        return NO_OPINION


def _lease(node: str, a: Attributes) -> Decision:
    if a.verb not in ("get", "create", "update", "patch", "delete"):
        return Decision(False, "can only get, create, update, patch, or delete a node lease")
    if a.namespace != _LEASE_NAMESPACE:
        return Decision(False, f'can only access leases in the "{_LEASE_NAMESPACE}" system namespace')
    if a.verb != "create" and a.name != node:
        return Decision(False, "can only access node lease with the same name as the requesting node")
    return Decision(True)


def _node(node: str, a: Attributes) -> Decision:
    match a.subresource, a.verb:
        case ("", "create" | "update" | "patch") | ("status", "update" | "patch"):
            return Decision(True)  # NodeRestriction looks at the name
        case "", "get" | "list" | "watch":
            if a.name == node:
                return Decision(True)
            what = f"'{a.name}'" if a.name else "all nodes"
            return Decision(False, f"node '{node}' cannot read {what}, only its own Node object")
    return NO_OPINION


def _selects(selector: str, field: str, value: str) -> bool:
    try:
        return (field, value, True) in parse_field_selector(selector)
    except ValueError:
        return False


def _references(pod: Plain, namespace: str) -> Iterator[Key]:
    """The objects that a pod needs and its node may therefore read."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    if spec.get("serviceAccountName"):
        yield "serviceaccounts", namespace, spec["serviceAccountName"]
    for secret in spec.get("imagePullSecrets") or ():
        yield "secrets", namespace, secret.get("name", "")
    for container in (c for field in _CONTAINERS for c in spec.get(field) or ()):
        for source in container.get("envFrom") or ():
            yield from _sources(namespace, source, "configMapRef", "secretRef")
        for variable in container.get("env") or ():
            yield from _sources(namespace, variable.get("valueFrom") or {}, "configMapKeyRef", "secretKeyRef")
    for volume in spec.get("volumes") or ():
        projected = (volume.get("projected") or {}).get("sources") or ()
        for source in (volume, *projected):
            if source.get("configMap"):
                yield "configmaps", namespace, source["configMap"].get("name", "")
            if source.get("secret"):
                yield "secrets", namespace, source["secret"].get("secretName") or source["secret"].get("name", "")
        if volume.get("persistentVolumeClaim"):
            yield "persistentvolumeclaims", namespace, volume["persistentVolumeClaim"].get("claimName", "")
    for claim in spec.get("resourceClaims") or ():
        if claim.get("resourceClaimName"):
            yield "resourceclaims", namespace, claim["resourceClaimName"]
    for claim in status.get("resourceClaimStatuses") or ():
        if claim.get("resourceClaimName"):
            yield "resourceclaims", namespace, claim["resourceClaimName"]
    extended = status.get("extendedResourceClaimStatus") or {}
    if extended.get("resourceClaimName"):
        yield "resourceclaims", namespace, extended["resourceClaimName"]


_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


def _sources(namespace: str, source: Plain, config_map: str, secret: str) -> Iterator[Key]:
    if source.get(config_map):
        yield "configmaps", namespace, source[config_map].get("name", "")
    if source.get(secret):
        yield "secrets", namespace, source[secret].get("name", "")


# --- NodeRestriction


class NodeRestriction(Admission):
    """A node writes only about itself; said before other plugins spend work on the request."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def admit(self, attributes: AdmissionAttributes) -> None:
        node = node_of(attributes.request.user)
        if node is None:
            return
        if not node:
            raise forbidden(attributes, f'could not determine node from user "{attributes.request.user.name}"')
        match attributes.kind.group, attributes.kind.plural, attributes.request.subresource:
            case "", "pods", "":
                self._pod(node, attributes)
            case "", "pods", "status":
                self._pod_status(node, attributes)
            case "", "pods", "eviction":
                pod = self._lookup.get("", "pods", attributes.request.namespace, attributes.request.name)
                if pod is not None and pod["spec"].get("nodeName") != node:
                    raise forbidden(attributes, f"node {node} can only evict pods with spec.nodeName set to itself")
            case "", "pods", subresource:
                raise forbidden(
                    attributes,
                    f"unexpected pod subresource \"{subresource}\", only 'status' and 'eviction' are allowed",
                )
            case "", "nodes", _:
                self._node(node, attributes)
            case "", "serviceaccounts", "token":
                self._token(node, attributes)
            case "coordination.k8s.io", "leases", _:
                name = attributes.request.name or _name(attributes.object)
                if attributes.request.namespace != _LEASE_NAMESPACE or name != node:
                    raise forbidden(attributes, "can only access node lease with the same name as the requesting node")
            case "resource.k8s.io", "resourceslices", _:
                self._slice(node, attributes)

    def _pod(self, node: str, a: AdmissionAttributes) -> None:
        if a.operation == "CREATE":
            self._mirror_pod(node, a)
        elif a.operation == "DELETE":
            if a.old_object is not None and a.old_object["spec"].get("nodeName") != node:
                raise forbidden(a, f'node "{node}" can only delete pods with spec.nodeName set to itself')
        else:
            raise forbidden(
                a, f'unexpected operation "{a.operation}", node "{node}" can only create and delete mirror pods'
            )

    def _mirror_pod(self, node: str, a: AdmissionAttributes) -> None:
        pod = a.object or {}
        metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
        if _MIRROR not in (metadata.get("annotations") or {}):
            raise forbidden(a, f'pod does not have "{_MIRROR}" annotation, node "{node}" can only create mirror pods')
        if spec.get("nodeName") != node:
            raise forbidden(a, f'node "{node}" can only create pods with spec.nodeName set to itself')
        owners = metadata.get("ownerReferences") or ()
        if len(owners) > 1:
            raise forbidden(a, f'node "{node}" can only create pods with a single owner reference set to itself')
        if not owners or (owners[0].get("apiVersion"), owners[0].get("kind"), owners[0].get("name")) != (
            "v1",
            "Node",
            node,
        ):
            raise forbidden(a, f'node "{node}" can only create pods with an owner reference set to itself')
        if not owners[0].get("controller"):
            raise forbidden(a, f'node "{node}" can only create pods with a controller owner reference set to itself')
        if owners[0].get("blockOwnerDeletion"):
            raise forbidden(a, f'node "{node}" must not set blockOwnerDeletion on an owner reference')
        known = self._lookup.get("", "nodes", "", node)
        uid = known["metadata"].get("uid", "") if known else ""
        if owners[0].get("uid") != uid:
            raise forbidden(a, f"node {node} UID mismatch: expected {owners[0].get('uid', '')} got {uid}")
        # CVE-2025-4563: a mirror pod must not get a node at claims (or anything else) that no real pod of it uses.
        if spec.get("resourceClaims"):
            raise forbidden(a, f'node "{node}" can not create pods that reference resourceclaims')
        reference = next(_references(pod, ""), None)
        if reference is not None:
            raise forbidden(a, f'node "{node}" can not create pods that reference {reference[0]}')

    def _pod_status(self, node: str, a: AdmissionAttributes) -> None:
        old, new = a.old_object or {}, a.object or {}
        if (old.get("spec") or {}).get("nodeName") != node:
            raise forbidden(a, f'node "{node}" can only update pod status for pods with spec.nodeName set to itself')  # noqa: S608 (no SQL)
        if ((old.get("metadata") or {}).get("labels") or {}) != ((new.get("metadata") or {}).get("labels") or {}):
            raise forbidden(a, f'node "{node}" cannot update labels through pod status')
        before, after = old.get("status") or {}, new.get("status") or {}
        for field, words in (
            ("resourceClaimStatuses", "resource claim statues"),  # upstream's spelling
            ("extendedResourceClaimStatus", "extended resource claim status"),
            ("nodeAllocatableResourceClaimStatuses", "node allocatable resource claim statuses"),
        ):
            if (before.get(field) or None) != (after.get(field) or None):
                raise forbidden(a, f'node "{node}" cannot update {words}')

    def _node(self, node: str, a: AdmissionAttributes) -> None:
        name = a.request.name or _name(a.object)
        if name != node:
            raise forbidden(a, f'node "{node}" is not allowed to modify node "{name}"')
        if a.object is None:
            return
        new, old = a.object.get("metadata") or {}, (a.old_object or {}).get("metadata") or {}
        labels, before = new.get("labels") or {}, old.get("labels") or {}
        changed = {key for key in labels.keys() | before.keys() if labels.get(key) != before.get(key)}
        refused = sorted(key for key in changed if _forbidden_label(key))
        if a.operation == "CREATE":
            if refused:
                raise forbidden(a, f'node "{node}" is not allowed to set the following labels: {", ".join(refused)}')
            return
        if a.operation == "UPDATE":
            taints = ((a.old_object or {}).get("spec") or {}).get("taints")
            if (a.object.get("spec") or {}).get("taints") != taints:
                raise forbidden(a, f'node "{node}" is not allowed to modify taints')
            if (new.get("ownerReferences") or None) != (old.get("ownerReferences") or None):
                raise forbidden(a, f'node "{node}" is not allowed to modify ownerReferences')
            if refused:
                raise forbidden(a, f"is not allowed to modify labels: {', '.join(refused)}")

    def _token(self, node: str, a: AdmissionAttributes) -> None:
        reference = ((a.object or {}).get("spec") or {}).get("boundObjectRef") or {}
        if reference.get("apiVersion") != "v1" or reference.get("kind") != "Pod" or not reference.get("name"):
            raise forbidden(a, "node requested token not bound to a pod")
        if not reference.get("uid"):
            raise forbidden(a, "node requested token with a pod binding without a uid")
        pod = self._lookup.get("", "pods", a.request.namespace, reference["name"])
        if pod is None:
            raise forbidden(a, f'pod "{reference["name"]}" not found')
        if pod["metadata"].get("uid") != reference["uid"]:
            raise forbidden(
                a,
                f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
                "The object might have been deleted and then recreated",
            )
        if pod["spec"].get("nodeName") != node:
            raise forbidden(a, "node requested token bound to a pod scheduled on a different node")

    def _slice(self, node: str, a: AdmissionAttributes) -> None:
        if a.operation == "CREATE" and ((a.object or {}).get("spec") or {}).get("nodeName") != node:
            raise forbidden(a, "can only create ResourceSlice with the same NodeName as the requesting node")
        if a.operation == "DELETE" and ((a.old_object or {}).get("spec") or {}).get("nodeName") != node:
            raise forbidden(a, "can only delete ResourceSlice with the same NodeName as the requesting node")


# Labels in Kubernetes' own namespaces that a node may set on itself.
_NODE_LABELS = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
    }
)


def _forbidden_label(key: str) -> bool:
    domain = key.partition("/")[0] if "/" in key else ""
    if domain == "node-restriction.kubernetes.io" or domain.endswith(".node-restriction.kubernetes.io"):
        return True
    if not (domain in ("kubernetes.io", "k8s.io") or domain.endswith((".kubernetes.io", ".k8s.io"))):
        return False
    own = ("kubelet.kubernetes.io", "node.kubernetes.io")
    return not (key in _NODE_LABELS or domain in own or domain.endswith(tuple("." + d for d in own)))


def _name(obj: Plain | None) -> str:
    return str(((obj or {}).get("metadata") or {}).get("name") or "")
