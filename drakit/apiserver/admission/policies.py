"""ValidatingAdmissionPolicies in the server: which ones exist, what they see, and the objects themselves.

The evaluation is `apiserver.policies`; the rules for the objects are `apiserver.policy_rules`. Both are imported at first need, because
they bring the expression engine and most servers have no policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from drakit.api import registry, strategy
from drakit.api.errors import FieldError, StatusError
from drakit.api.kind import Kind
from drakit.api.selectors import matches_label_selector
from drakit.apiserver.auth import Admission, AdmissionAttributes, Attributes, Authorizer, Lookup, UserInfo
from drakit.apiserver.reviews import user_info
from drakit.apiserver.stored import Plain

if TYPE_CHECKING:
    from drakit.cel.admission import Access, Decision

GROUP = "admissionregistration.k8s.io"
POLICIES = "validatingadmissionpolicies"
BINDINGS = "validatingadmissionpolicybindings"
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class Policies(Admission):
    """An admission plugin; `apply` is fed by the store with policies and bindings."""

    def __init__(self, lookup: Lookup, authorizer: Authorizer) -> None:
        self._lookup = lookup
        self._authorizer = authorizer
        self._policies: dict[str, Plain] = {}
        self._bindings: dict[str, Plain] = {}
        self._hooks: list[tuple[Plain, list[Plain]]] = []

    def apply(self, plural: str, namespace: str, name: str, obj: Plain | None) -> None:
        objects = self._policies if plural == POLICIES else self._bindings
        if obj is None:
            objects.pop(name, None)
        else:
            objects[name] = obj
        bound: dict[str, list[Plain]] = {}
        for _, binding in sorted(self._bindings.items()):
            bound.setdefault(str(binding["spec"].get("policyName") or ""), []).append(binding)
        self._hooks = [(policy, bound[name]) for name, policy in sorted(self._policies.items()) if name in bound]

    def validate(self, attributes: AdmissionAttributes) -> None:
        if attributes.kind.group == GROUP:
            self._own_rules(attributes)
            return
        if not self._hooks:
            return
        from drakit.apiserver.policies import Review, evaluate

        request = attributes.request
        namespace = self._lookup.get("", "namespaces", "", request.namespace) if request.namespace else None
        own = attributes.request_version or attributes.kind.storage_version

        def seen(version: str) -> Review:
            return Review(
                request=_request(attributes, version),
                object=_presented(attributes, attributes.object, version),
                old_object=_presented(attributes, attributes.old_object, version),
                namespace=None if namespace is None else {"apiVersion": "v1", "kind": "Namespace", **namespace},
                authorize=lambda access: self._authorize(access, request.user),
                versions=[each.name for each in attributes.kind.versions if each.name != own],
                in_version=seen,
            )

        verdict = evaluate(self._hooks, seen(own), _StoredParams(self._lookup))
        attributes.warnings.extend(verdict.warnings)
        attributes.annotations.update(verdict.annotations)
        if verdict.denial is not None:
            raise verdict.denial

    def _own_rules(self, attributes: AdmissionAttributes) -> None:
        obj = attributes.object
        if obj is None or attributes.request.subresource:
            return
        from drakit.apiserver.policy_rules import validate_binding, validate_policy

        errors: list[FieldError] = []
        if attributes.kind.plural == POLICIES:
            errors = validate_policy(obj, attributes.old_object)
        elif attributes.kind.plural == BINDINGS:
            errors = validate_binding(obj)
        if errors:
            raise StatusError.invalid(GROUP, attributes.kind.kind, str(obj["metadata"].get("name") or ""), errors)

    def _authorize(self, access: Access, user: UserInfo) -> Decision:
        from drakit.cel.admission import Decision

        if access.user is not None:
            _, _, namespace, _ = access.user.split(":")
            groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
            user = UserInfo(access.user, groups)
        asked = Attributes(
            user,
            access.verb,
            access.group,
            "*",
            resource=access.resource,
            subresource=access.subresource,
            namespace=access.namespace,
            name=access.name,
            path=access.path,
            label_selector=access.label_selector,
            field_selector=access.field_selector,
        )
        answer = self._authorizer.authorize(asked)
        return Decision(answer.allowed, answer.reason)


class _StoredParams:
    """Parameters are ordinary objects of the store."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def _kind(self, api_version: str, kind: str) -> Kind | None:
        return registry.by_kind(api_version.rpartition("/")[0], kind)

    def scope(self, api_version: str, kind: str) -> bool | None:
        found = self._kind(api_version, kind)
        return None if found is None else found.namespaced

    def get(self, api_version: str, kind: str, namespace: str, name: str) -> Plain | None:
        found = self._kind(api_version, kind)
        obj = self._lookup.get(found.group, found.plural, namespace, name) if found else None
        return None if obj is None else {"apiVersion": api_version, "kind": kind, **obj}

    def select(self, api_version: str, kind: str, namespace: str, selector: Mapping[str, Any]) -> Sequence[Plain]:
        found = self._kind(api_version, kind)
        objects = self._lookup.list(found.group, found.plural, namespace) if found else []
        return [
            {"apiVersion": api_version, "kind": kind, **obj}
            for obj in objects
            if matches_label_selector(selector, obj["metadata"].get("labels"))
        ]


def _presented(attributes: AdmissionAttributes, obj: Mapping[str, Any] | None, version: str) -> Plain | None:
    """An object as policies see it: in a version that they know, with its type, without managedFields."""
    if obj is None:
        return None
    kind = attributes.kind
    if attributes.request.subresource and obj.get("kind") not in (None, kind.kind):
        return dict(obj)  # a TokenRequest, a Binding, …: what is posted to a subresource
    shown = strategy.encode(kind, version, dict(obj))
    metadata = {key: value for key, value in shown["metadata"].items() if key != "managedFields"}
    api_version = f"{kind.group}/{version}" if kind.group else version
    return {**shown, "apiVersion": api_version, "kind": kind.kind, "metadata": metadata}


def _request(attributes: AdmissionAttributes, version: str) -> Plain:
    request, kind = attributes.request, attributes.kind
    named = {"group": kind.group, "version": version, "kind": kind.kind}
    if request.subresource and (obj := attributes.object) is not None and obj.get("kind") not in (None, kind.kind):
        group, _, posted = str(obj.get("apiVersion") or "").rpartition("/")
        named = {"group": group, "version": posted, "kind": str(obj["kind"])}
    resource = {"group": kind.group, "version": version, "resource": kind.plural}
    own = attributes.request_version or kind.storage_version
    as_sent = {"version": own} if named["kind"] == kind.kind else {}
    options = {"kind": _OPTIONS.get(attributes.operation, ""), "apiVersion": "meta.k8s.io/v1", **attributes.options}
    if attributes.dry_run:
        options["dryRun"] = ["All"]
    made: Plain = {
        "uid": "",
        "kind": named,
        "resource": resource,
        "requestKind": {**named, **as_sent},
        "requestResource": {**resource, "version": own},
        "name": request.name,
        "operation": attributes.operation,
        "userInfo": user_info(request.user),
        "dryRun": attributes.dry_run,
        "options": options,
        "object": None,
        "oldObject": None,
    }
    if request.namespace:
        made["namespace"] = request.namespace
    if request.subresource:
        made["subResource"] = made["requestSubResource"] = request.subresource
    return made
