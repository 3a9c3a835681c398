"""Role-based access control: roles, bindings, and whether they allow a request.

Fed one object at a time by the store (`apply`), asked by the server (`authorize`). Answers are remembered per user and
question until a role or binding changes, so that a busy client costs a dictionary look-up. Roles and bindings that grant more
than their author holds are refused by `escalation`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from drakit.apiserver.auth import NO_OPINION, Attributes, Decision, UserInfo

GROUP = "rbac.authorization.k8s.io"
_CACHE_LIMIT = 50_000  # answers; dropped all at once, they are cheap to find again
_LONG = 1_000  # characters in a question that is not remembered


@dataclass(frozen=True, slots=True)
class Rule:
    """A PolicyRule with its lists as sets."""

    verbs: frozenset[str]
    groups: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    urls: tuple[str, ...] = ()

    @classmethod
    def from_plain(cls, rule: Mapping[str, Any]) -> Rule:
        return cls(
            frozenset(rule.get("verbs") or ()),
            frozenset(rule.get("apiGroups") or ()),
            frozenset(rule.get("resources") or ()),
            frozenset(rule.get("resourceNames") or ()),
            tuple(rule.get("nonResourceURLs") or ()),
        )

    def to_plain(self) -> dict[str, Any]:
        lists = {
            "verbs": self.verbs,
            "apiGroups": self.groups,
            "resources": self.resources,
            "resourceNames": self.names,
            "nonResourceURLs": self.urls,
        }
        return {key: sorted(value) for key, value in lists.items() if value}

    def allows_verb(self, verb: str) -> bool:
        return "*" in self.verbs or verb in self.verbs

    def allows_resource(self, group: str, resource: str, subresource: str) -> bool:
        if "*" not in self.groups and group not in self.groups:
            return False
        if "*" in self.resources:
            return True
        if not subresource:
            return resource in self.resources
        return f"{resource}/{subresource}" in self.resources or f"*/{subresource}" in self.resources

    def allows_url(self, path: str) -> bool:
        return any(url in ("*", path) or (url.endswith("*") and path.startswith(url[:-1])) for url in self.urls)

    def __str__(self) -> str:
        """As Kubernetes prints a missing permission."""
        parts = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("ResourceNames", self.names),
            ("NonResourceURLs", self.urls),
            ("Verbs", self.verbs),
        )
        texts = (f"{name}:[" + " ".join(f'"{v}"' for v in sorted(values)) + "]" for name, values in parts if values)
        return "{" + ", ".join(texts) + "}"


@dataclass(frozen=True, slots=True)
class _Grant:
    """One binding as its subjects see it. `namespace` is empty for a ClusterRoleBinding."""

    namespace: str
    binding: str
    role_kind: str
    role: str


class Rbac:
    def __init__(self) -> None:
        self._rules: dict[tuple[str, str], tuple[Rule, ...]] = {}  # (namespace or "", role name)
        self._grants: dict[
            tuple[str, str], dict[tuple[str, str], _Grant]
        ] = {}  # subject -> (namespace, binding) -> grant
        self._subjects: dict[tuple[str, str], tuple[tuple[str, str], ...]] = {}  # (namespace, binding) -> subjects
        self._answers: dict[tuple[Any, ...], Decision | frozenset[str]] = {}

    # --- feeding

    def apply(self, plural: str, namespace: str, name: str, obj: Mapping[str, Any] | None) -> None:
        """Take in the current state of a role or binding; None when it is gone."""
        self._answers.clear()
        if plural in ("roles", "clusterroles"):
            self._rules.pop((namespace, name), None)
            if obj is not None:
                self._rules[namespace, name] = tuple(Rule.from_plain(rule) for rule in obj.get("rules") or ())
            return
        binding = (namespace, name)
        for subject in self._subjects.pop(binding, ()):
            self._grants[subject].pop(binding, None)
        if obj is None:
            return
        ref = obj["roleRef"]
        grant = _Grant(namespace, name, ref.get("kind", ""), ref.get("name", ""))
        subjects = tuple(_subject(subject) for subject in obj.get("subjects") or ())
        self._subjects[binding] = subjects
        for subject in subjects:
            self._grants.setdefault(subject, {})[binding] = grant

    # --- asking

    def authorize(self, attributes: Attributes) -> Decision:
        a = attributes
        if a.user.is_master:
            return Decision(True)
        key = (
            a.user.name,
            a.user.groups,
            a.verb,
            a.group,
            a.resource or a.path,
            a.subresource,
            a.namespace,
            bool(a.resource),
        )
        answer = self._answers.get(key)
        if (
            answer is None
            and sum(map(len, (a.user.name, a.verb, a.group, a.resource, a.path, a.subresource, a.namespace))) > _LONG
        ):
            answer = self._decide(a)  # made up by someone: not worth the memory
        elif answer is None:
            if len(self._answers) >= _CACHE_LIMIT:
                self._answers.clear()
            answer = self._answers[key] = self._decide(a)
        if isinstance(answer, Decision):
            return answer
        return Decision(True) if a.name and a.name in answer else NO_OPINION

    def _decide(self, a: Attributes) -> Decision | frozenset[str]:
        """Yes, no, or the only names for which yes."""
        names: set[str] = set()
        for grant, rule in self._rules_of(a.user, a.namespace):
            if not rule.allows_verb(a.verb):
                continue
            if not a.resource:
                if not grant.namespace and rule.allows_url(a.path):
                    return Decision(True, _reason(grant, a.user))
            elif rule.allows_resource(a.group, a.resource, a.subresource):
                if not rule.names:
                    return Decision(True, _reason(grant, a.user))
                names |= rule.names
        return frozenset(names) if names else NO_OPINION

    def rules_for(self, user: UserInfo, namespace: str) -> list[Rule]:
        """Every rule that holds for a user in a namespace (cluster-wide ones included)."""
        if user.is_master:
            everything = frozenset("*")
            return [Rule(everything, everything, everything), Rule(everything, urls=("*",))]
        return [rule for _, rule in self._rules_of(user, namespace)]

    def role_rules(self, namespace: str, role_kind: str, name: str) -> tuple[Rule, ...] | None:
        return self._rules.get(("" if role_kind == "ClusterRole" else namespace, name))

    def _rules_of(self, user: UserInfo, namespace: str) -> Iterator[tuple[_Grant, Rule]]:
        for subject in [("User", user.name), *(("Group", group) for group in user.groups)]:
            for grant in self._grants.get(subject, {}).values():
                if grant.namespace and grant.namespace != namespace:
                    continue
                for rule in self.role_rules(grant.namespace, grant.role_kind, grant.role) or ():
                    yield grant, rule


def _subject(subject: Mapping[str, Any]) -> tuple[str, str]:
    if subject.get("kind") == "ServiceAccount":
        return "User", f"system:serviceaccount:{subject.get('namespace', '')}:{subject.get('name', '')}"
    return str(subject.get("kind", "")), str(subject.get("name", ""))


def _reason(grant: _Grant, user: UserInfo) -> str:
    what = (
        f'RoleBinding "{grant.binding}/{grant.namespace}"'
        if grant.namespace
        else f'ClusterRoleBinding "{grant.binding}"'
    )
    return f'RBAC: allowed by {what} of {grant.role_kind} "{grant.role}" to User "{user.name}"'


# --- escalation: nobody hands out more than he holds


def missing_permissions(held: Iterable[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """The parts of `wanted` that no single rule of `held` covers."""
    held = list(held)
    return [part for rule in wanted for part in _parts(rule) if not any(_covers(owner, part) for owner in held)]


def _parts(rule: Rule) -> Iterator[Rule]:
    """A rule taken apart: one verb, one group, one resource, one name (or URL) each."""
    for verb in sorted(rule.verbs):
        one = frozenset((verb,))
        for url in rule.urls:
            yield Rule(one, urls=(url,))
        for group in sorted(rule.groups):
            for resource in sorted(rule.resources):
                for names in [frozenset((n,)) for n in sorted(rule.names)] or [frozenset[str]()]:
                    yield Rule(one, frozenset((group,)), frozenset((resource,)), names)


def _covers(owner: Rule, part: Rule) -> bool:
    if not ("*" in owner.verbs or part.verbs <= owner.verbs):
        return False
    if part.urls:
        return all(owner.allows_url(url) or url in owner.urls for url in part.urls)
    if not ("*" in owner.groups or part.groups <= owner.groups):
        return False
    if owner.names and not (part.names and part.names <= owner.names):
        return False
    (resource,) = part.resources
    if "*" in owner.resources or resource in owner.resources:
        return True
    return "/" in resource and f"*/{resource.partition('/')[2]}" in owner.resources


def _compact(rules: Iterable[Rule]) -> list[Rule]:
    """Those that differ in the verb only, together."""
    verbs: dict[Rule, frozenset[str]] = {}
    for rule in rules:
        rest = replace(rule, verbs=frozenset())
        if rule.names or rule.urls:
            rest = rule
        verbs[rest] = verbs.get(rest, frozenset()) | rule.verbs
    return [replace(rest, verbs=all_of_them) for rest, all_of_them in verbs.items()]


def escalation(user: UserInfo, missing: Iterable[Rule]) -> str:
    groups = ", ".join(f'"{group}"' for group in user.groups)
    rules = "\n".join(sorted({str(rule) for rule in _compact(missing)}))
    return (
        f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n{rules}'
    )
