"""Nobody hands out more than he holds: roles and bindings are checked against their author's own rights."""

from __future__ import annotations

from drakit.apiserver.auth import AdmissionAttributes, Attributes, Authorizer
from drakit.apiserver.rbac import GROUP, Rbac, Rule, escalation, missing_permissions
from drakit.apiserver.refusals import forbidden, qualified


class RoleGrants:
    """The verbs `escalate` (on the role) and `bind` (on the role referred to) lift the check."""

    def __init__(self, rbac: Rbac, authorizer: Authorizer) -> None:
        self._rbac = rbac
        self._authorizer = authorizer

    def admit(self, attributes: AdmissionAttributes) -> None:
        """Nothing to fill in."""

    def validate(self, attributes: AdmissionAttributes) -> None:
        kind = attributes.kind
        if kind.group != GROUP or attributes.operation not in ("CREATE", "UPDATE") or attributes.request.user.is_master:
            return
        if kind.plural in ("roles", "clusterroles"):
            self._role(attributes)
        elif kind.plural in ("rolebindings", "clusterrolebindings"):
            self._binding(attributes)

    def _role(self, attributes: AdmissionAttributes) -> None:
        role, old = attributes.object or {}, attributes.old_object or {}
        if (role.get("rules"), role.get("aggregationRule")) == (old.get("rules"), old.get("aggregationRule")):
            return
        name = str(role["metadata"].get("name") or "")
        if self._may(attributes, "escalate", attributes.kind.plural, name):
            return
        rules = [Rule.from_plain(rule) for rule in role.get("rules") or ()]
        if role.get("aggregationRule") and role.get("aggregationRule") != old.get("aggregationRule"):
            # An aggregated role may come to hold anything: only who holds everything may make one.
            everything = frozenset("*")
            rules += [Rule(everything, everything, everything), Rule(everything, urls=("*",))]
        self._check(attributes, rules)

    def _binding(self, attributes: AdmissionAttributes) -> None:
        binding, old = attributes.object or {}, attributes.old_object or {}
        ref = binding.get("roleRef") or {}
        if old and old.get("roleRef") == ref and old.get("subjects") == binding.get("subjects"):
            return
        kind, name = str(ref.get("kind", "")), str(ref.get("name", ""))
        plural = "clusterroles" if kind == "ClusterRole" else "roles"
        if self._may(attributes, "bind", plural, name):
            return
        rules = self._rbac.role_rules(attributes.request.namespace, kind, name)
        if rules is None:
            raise forbidden(attributes, f'{qualified(GROUP, plural)} "{name}" not found')
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
