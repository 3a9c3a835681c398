"""admissionregistration.k8s.io: ValidatingAdmissionPolicies and their bindings.

What they may say is checked where expressions can be compiled: `apiserver.policy_rules`.
"""

from __future__ import annotations

from lightkube.models import admissionregistration_v1

from drakit.api import formats
from drakit.api.kind import Kind, Object, Strategy, Subresource
from drakit.api.kinds import entry

__all__ = ["KINDS"]

GROUP = "admissionregistration.k8s.io"


def _default_match(match: Object | None) -> None:
    if match is None:
        return
    if match.get("matchPolicy") is None:
        match["matchPolicy"] = "Equivalent"
    for name in ("namespaceSelector", "objectSelector"):
        if match.get(name) is None:
            match[name] = {}
    for rules in ("resourceRules", "excludeResourceRules"):
        for rule in match.get(rules) or ():
            if rule.get("scope") is None:
                rule["scope"] = "*"


def _default_policy(policy: Object) -> None:
    spec = policy.setdefault("spec", {})
    if spec.get("failurePolicy") is None:
        spec["failurePolicy"] = "Fail"
    _default_match(spec.get("matchConstraints"))


def _default_binding(binding: Object) -> None:
    _default_match((binding.get("spec") or {}).get("matchResources"))


POLICY = entry.kind(
    admissionregistration_v1.ValidatingAdmissionPolicy,
    "validatingadmissionpolicies",
    Strategy(
        default={"": _default_policy},
        subresources={"status": Subresource()},
        validate_name=formats.name_is(formats.dns_subdomain),
        generation=True,
        known_finalizers=False,
        allow_unconditional_update=lambda version: False,
        reset=("status",),
    ),
    group=GROUP,
    namespaced=False,
    subresources=entry.STATUS,
    categories=("api-extensions",),
    delete_returns_status=frozenset({"v1"}),
)
BINDING = entry.kind(
    admissionregistration_v1.ValidatingAdmissionPolicyBinding,
    "validatingadmissionpolicybindings",
    Strategy(
        default={"": _default_binding},
        validate_name=formats.name_is(formats.dns_subdomain),
        generation=True,
        known_finalizers=False,
        allow_unconditional_update=lambda version: False,
    ),
    group=GROUP,
    namespaced=False,
    categories=("api-extensions",),
    delete_returns_status=frozenset({"v1"}),
)
KINDS: tuple[Kind, ...] = (POLICY, BINDING)
