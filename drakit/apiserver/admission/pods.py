"""What every pod gets: a service account with its token volume, a priority, tolerations for lost nodes; and every node its first taint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drakit.api.registry import Kind
from drakit.apiserver import random_names
from drakit.apiserver.auth import Admission, AdmissionAttributes, Lookup
from drakit.apiserver.refusals import forbidden

_SECRETS = "/var/run/secrets/kubernetes.io/serviceaccount"
_MIRROR = "kubernetes.io/config.mirror"
_LOST = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class _PodPlugin(Admission):
    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup


def _with_spec(pod: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    return {**pod, "spec": {**pod["spec"], **fields}}


def _whole_pod(kind: Kind, subresource: str) -> bool:
    return kind.plural == "pods" and not kind.group and not subresource


class ServiceAccount(_PodPlugin):
    """Names the service account and mounts its token, unless the pod or the account says no."""

    def concerns(self, kind: Kind, operation: str, subresource: str) -> bool:
        return operation == "CREATE" and _whole_pod(kind, subresource)

    def admit(self, attributes: AdmissionAttributes) -> None:
        pod = attributes.object
        assert pod is not None
        spec = pod["spec"]
        if _MIRROR in (pod["metadata"].get("annotations") or {}):
            if spec.get("serviceAccountName"):
                raise forbidden(attributes, "a mirror pod may not reference service accounts")
            return
        name = spec.get("serviceAccountName") or "default"
        namespace = attributes.request.namespace
        account = self._lookup.get("", "serviceaccounts", namespace, name)
        if account is None:
            text = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
            raise forbidden(attributes, text)
        fields: dict[str, Any] = {"serviceAccountName": name, "serviceAccount": name}
        if account.get("imagePullSecrets") and not spec.get("imagePullSecrets"):
            fields["imagePullSecrets"] = account["imagePullSecrets"]
        mount = spec.get("automountServiceAccountToken")
        if mount is None:
            mount = account.get("automountServiceAccountToken", True)
        if mount:
            fields |= _token_volume(spec)
        attributes.object = _with_spec(pod, **fields)


def _token_volume(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The volume kube-api-access-…, and its mount in every container that has nothing at that path yet."""
    volumes = list(spec.get("volumes") or ())
    name = next((v["name"] for v in volumes if str(v.get("name", "")).startswith("kube-api-access-")), "")
    wanted = name or "kube-api-access-" + random_names.suffix()
    mounted = False
    fields: dict[str, Any] = {}
    for field in ("initContainers", "containers"):
        containers = spec.get(field)
        if not containers:
            continue
        changed = []
        for container in containers:
            mounts = container.get("volumeMounts") or []
            if not any(mount.get("mountPath") == _SECRETS for mount in mounts):
                mounted = True
                token = {"name": wanted, "readOnly": True, "mountPath": _SECRETS}
                container = {**container, "volumeMounts": [*mounts, token]}
            changed.append(container)
        fields[field] = changed
    if mounted and not name:
        fields["volumes"] = [*volumes, {"name": wanted, "projected": {"sources": _TOKEN_SOURCES, "defaultMode": 420}}]
    return fields if mounted else {}


_TOKEN_SOURCES: list[dict[str, Any]] = [
    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    {
        "downwardAPI": {
            "items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]
        }
    },
]


class Priority(_PodPlugin):
    """Turns priorityClassName into a number and a preemption policy; keeps both from being set by hand. They stay when the pod
    is replaced by what its author wrote."""

    def concerns(self, kind: Kind, operation: str, subresource: str) -> bool:
        return operation in ("CREATE", "UPDATE") and _whole_pod(kind, subresource)

    def admit(self, attributes: AdmissionAttributes) -> None:
        pod, old = attributes.object, attributes.old_object
        assert pod is not None
        spec = pod["spec"]
        if old is not None:
            both = {name: value for name, value in old["spec"].items() if name in ("priority", "preemptionPolicy")}
            if missing := {name: value for name, value in both.items() if spec.get(name) is None}:
                attributes.object = _with_spec(pod, **missing)
            return
        fields, value, policy = self.established(attributes, spec.get("priorityClassName") or "")
        if spec.get("priority") is not None and spec["priority"] != value:
            text = (
                f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
                f"priority admission controller computed {value} from the given PriorityClass name"
            )
            raise forbidden(attributes, text)
        if spec.get("preemptionPolicy") is not None and spec["preemptionPolicy"] != policy:
            text = (
                f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
                f"priority admission controller computed {policy} from the given PriorityClass name"
            )
            raise forbidden(attributes, text)
        attributes.object = _with_spec(pod, **fields, priority=value, preemptionPolicy=policy)

    def established(self, attributes: AdmissionAttributes, name: str) -> tuple[dict[str, Any], int, str]:
        """The class (where one is to be filled in), the priority and the preemption policy that a class name stands for."""
        found = self._class(name) if name else self._default()
        if name and found is None:
            raise forbidden(attributes, f"no PriorityClass with name {name} was found")
        fields = {"priorityClassName": found["metadata"]["name"]} if found is not None and not name else {}
        return fields, int((found or {}).get("value") or 0), (found or {}).get("preemptionPolicy") or _PREEMPT

    def _class(self, name: str) -> Mapping[str, Any] | None:
        return self._lookup.get("scheduling.k8s.io", "priorityclasses", "", name)

    def _default(self) -> Mapping[str, Any] | None:
        """The lowest of the classes marked globalDefault, as upstream chooses."""
        classes = self._lookup.list("scheduling.k8s.io", "priorityclasses")
        return min((c for c in classes if c.get("globalDefault")), key=lambda c: int(c["value"]), default=None)


_PREEMPT = "PreemptLowerPriority"


class OneDefaultClass(_PodPlugin):
    """At most one PriorityClass is the default of pods that name none."""

    def concerns(self, kind: Kind, operation: str, subresource: str) -> bool:
        written = operation in ("CREATE", "UPDATE")
        return written and (kind.group, kind.plural) == ("scheduling.k8s.io", "priorityclasses")

    def validate(self, attributes: AdmissionAttributes) -> None:
        new = attributes.object
        assert new is not None
        if not new.get("globalDefault"):
            return
        for other in self._lookup.list("scheduling.k8s.io", "priorityclasses"):
            name = other["metadata"]["name"]
            if other.get("globalDefault") and name != new["metadata"].get("name"):
                text = f"PriorityClass {name} is already marked as default. Only one default can exist"
                raise forbidden(attributes, text)


class DefaultTolerations(_PodPlugin):
    """A pod stays five minutes on a node that is not ready or not reachable, unless it says otherwise."""

    def concerns(self, kind: Kind, operation: str, subresource: str) -> bool:
        return operation in ("CREATE", "UPDATE") and _whole_pod(kind, subresource)

    def admit(self, attributes: AdmissionAttributes) -> None:
        pod = attributes.object
        assert pod is not None
        tolerations = pod["spec"].get("tolerations") or []
        missing = [key for key in _LOST if not any(_tolerates_loss(t, key) for t in tolerations)]
        if missing:
            added = [
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300} for key in missing
            ]
            attributes.object = _with_spec(pod, tolerations=[*tolerations, *added])


def _tolerates_loss(toleration: Mapping[str, Any], key: str) -> bool:
    return (toleration.get("key") or key) == key and (toleration.get("effect") or "NoExecute") == "NoExecute"


class NewNodeTaint(_PodPlugin):
    """A new node takes no pods until its controller has seen it ready."""

    def concerns(self, kind: Kind, operation: str, subresource: str) -> bool:
        return (kind.group, kind.plural, operation, subresource) == ("", "nodes", "CREATE", "")

    def admit(self, attributes: AdmissionAttributes) -> None:
        node = attributes.object
        assert node is not None
        spec = node.get("spec") or {}
        taints = spec.get("taints") or []
        taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
        if not any(t.get("key") == taint["key"] and t.get("effect") == taint["effect"] for t in taints):
            attributes.object = {**node, "spec": {**spec, "taints": [*taints, taint]}}
