"""Nobody hands out more than he holds: roles and bindings are checked against their author's own rights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drakit.api.errors import StatusError
from drakit.api.kind import Kind
from drakit.apiserver.auth import Admission, AdmissionAttributes, Attributes, Authorizer
from drakit.apiserver.rbac import GROUP, Rbac, Rule, escalation, missing_permissions
from drakit.apiserver.refusals import forbidden

_ALL = frozenset("*")
_EVERYTHING = (Rule(_ALL, _ALL, _ALL), Rule(_ALL, urls=("*",)))
# What the garbage collector touches: changing only these grants nothing.
_COLLECTION_FIELDS = frozenset({"ownerReferences", "finalizers", "selfLink", "managedFields"})


class RoleGrants(Admission):
    """The verbs `escalate` (on the role) and `bind` (on the role referred to) lift the check."""

    def __init__(self, rbac: Rbac, authorizer: Authorizer) -> None:
        self._rbac = rbac
        self._authorizer = authorizer

    def concerns(self, kind: Kind, operation: str, subresource: str) -> bool:
        return kind.group == GROUP and operation in ("CREATE", "UPDATE")

    def validate(self, attributes: AdmissionAttributes) -> None:
        kind = attributes.kind
        if attributes.request.user.is_master:
            return
        if kind.plural in ("roles", "clusterroles"):
            self._role(attributes)
        elif kind.plural in ("rolebindings", "clusterrolebindings"):
            self._binding(attributes)

    def _role(self, attributes: AdmissionAttributes) -> None:
        role, old = attributes.object or {}, attributes.old_object
        name = str(role["metadata"].get("name") or "")
        if _only_for_collection(role, old) or self._may(attributes, "escalate", attributes.kind.plural, name):
            return
        # Also when the rules stay the same: a new label may put them into an aggregated role.
        self._check(attributes, [Rule.from_plain(rule) for rule in role.get("rules") or ()])
        if _aggregates(role) or _aggregates(old or {}):
            # It may come to hold anything: only who holds everything may make or change one.
            held = self._rbac.rules_for(attributes.request.user, attributes.request.namespace)
            if missing_permissions(held, _EVERYTHING):
                raise forbidden(attributes, "must have cluster-admin privileges to use the aggregationRule")

    def _binding(self, attributes: AdmissionAttributes) -> None:
        binding = attributes.object or {}
        if _only_for_collection(binding, attributes.old_object):
            return
        ref = binding.get("roleRef") or {}
        kind, name = str(ref.get("kind", "")), str(ref.get("name", ""))
        plural = "clusterroles" if kind == "ClusterRole" else "roles"
        if self._may(attributes, "bind", plural, name):
            return
        rules = self._rbac.role_rules(attributes.request.namespace, kind, name)
        if rules is None:
            raise StatusError.not_found(
                GROUP, attributes.kind.plural, name
            )  # by the binding's kind, as Kubernetes does
        self._check(attributes, list(rules))

    def _may(self, attributes: AdmissionAttributes, verb: str, plural: str, name: str) -> bool:
        request = attributes.request
        asked = Attributes(request.user, verb, GROUP, "*", resource=plural, namespace=request.namespace, name=name)
        return self._authorizer.authorize(asked).allowed

    def _check(self, attributes: AdmissionAttributes, rules: list[Rule]) -> None:
        user = attributes.request.user
        held = self._rbac.rules_for(user, attributes.request.namespace)
        missing = missing_permissions(held, rules)
        if missing:
            raise forbidden(attributes, escalation(user, missing))


def _only_for_collection(new: Mapping[str, Any], old: Mapping[str, Any] | None) -> bool:
    def rest(obj: Mapping[str, Any]) -> dict[str, Any]:
        meta = {key: value for key, value in obj["metadata"].items() if key not in _COLLECTION_FIELDS}
        return {**obj, "metadata": meta}

    return old is not None and rest(new) == rest(old)


def _aggregates(role: Mapping[str, Any]) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))
