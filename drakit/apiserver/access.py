"""Authentication, authorization and admission put together over a store: what a server is built with.

`secure(store, …)` makes them and hangs their indexes on the store's collections; `bootstrap` makes the roles they start with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from drakit.api import registry
from drakit.api.gates import FeatureGates
from drakit.apiserver.admission.claims import ClaimPrivileges
from drakit.apiserver.admission.grants import RoleGrants
from drakit.apiserver.admission.limits import LimitRanger
from drakit.apiserver.admission.pod_groups import GroupPriority, PodGroupProtection
from drakit.apiserver.admission.pods import (
    DefaultTolerations,
    NewNodeTaint,
    OneDefaultClass,
    Priority,
    ServiceAccount,
)
from drakit.apiserver.admission.policies import BINDINGS, POLICIES, Policies
from drakit.apiserver.admission.policies import GROUP as POLICY_GROUP
from drakit.apiserver.admission.quota import ResourceQuota
from drakit.apiserver.admission.quota_usage import QuotaUsage
from drakit.apiserver.auth import NO_OPINION, Admission, Attributes, Authorizer, Decision, UserInfo
from drakit.apiserver.authn import TokenAuthenticator
from drakit.apiserver.node_authorizer import NodeAuthorizer, NodeRestriction
from drakit.apiserver.rbac import GROUP, Rbac
from drakit.apiserver.store import Store
from drakit.apiserver.stored import Plain
from drakit.apiserver.tokens import TokenSigner


class Authorizers:
    """The first that allows decides; when none does, the last reason given is reported, with the name of who gave it."""

    def __init__(self, **authorizers: Authorizer) -> None:
        self._authorizers = tuple(authorizers.items())

    def authorize(self, attributes: Attributes) -> Decision:
        refusal = NO_OPINION
        for name, authorizer in self._authorizers:
            decision = authorizer.authorize(attributes)
            if decision.allowed or decision.denied:
                return decision
            if decision.reason:
                refusal = Decision(False, f"{name}: {decision.reason}")
        return refusal


class Feed:
    """Hands a collection's changes to an index; never refuses."""

    def __init__(self, apply: Callable[[str, str, Plain | None], None]) -> None:
        self._apply = apply

    def check(self, key: str, new: Plain | None, old: Plain | None) -> None:
        """Nothing to refuse."""

    def applied(self, key: str, new: Plain | None, old: Plain | None) -> None:
        namespace, _, name = key.rpartition("/")
        self._apply(namespace, name, new)


@dataclass(frozen=True, slots=True)
class Access:
    authenticator: TokenAuthenticator
    authorizer: Authorizer
    admission: tuple[Admission, ...]
    privileges: ClaimPrivileges  # its field errors stand in front of validation's
    rbac: Rbac
    signer: TokenSigner


def secure(
    store: Store,
    *,
    gates: FeatureGates,
    signer: TokenSigner,
    static_tokens: Mapping[str, UserInfo],
    epoch: Callable[[], int],
    policies: Iterable[Admission] = (),
) -> Access:
    """Everything that says who may do what. Call before the store is loaded, so that the indexes see every object."""
    rbac, nodes = Rbac(), NodeAuthorizer()
    authorizer = Authorizers(node=nodes, rbac=rbac)
    kinds = [kind for kind in registry.KINDS if kind.namespaced]
    usage = QuotaUsage(store, [(kind.group, kind.plural) for kind in kinds if kind.plural != "events"], epoch)

    def feed(group: str, plural: str, apply: Callable[[str, str, str, Plain | None], None]) -> None:
        kind = registry.by_resource(group, plural)
        if kind is not None:
            store.collection(kind).guards.append(Feed(lambda namespace, name, obj: apply(plural, namespace, name, obj)))

    for plural in ("roles", "clusterroles", "rolebindings", "clusterrolebindings"):
        feed(GROUP, plural, rbac.apply)
    feed("", "pods", nodes.apply)
    feed("resource.k8s.io", "resourceslices", nodes.apply)
    for kind in kinds:
        if kind.plural != "events":
            feed(kind.group, kind.plural, _quota_feed(usage, kind.group))
    feed("", "namespaces", _quota_feed(usage, ""))
    feed("resource.k8s.io", "deviceclasses", _quota_feed(usage, "resource.k8s.io"))
    validating = Policies(store, authorizer)
    for plural in (POLICIES, BINDINGS):
        feed(POLICY_GROUP, plural, validating.apply)
    privileges = ClaimPrivileges(store, authorizer, gates)
    admission: tuple[Admission, ...] = (
        LimitRanger(store),
        NodeRestriction(store),
        NewNodeTaint(store),
        ServiceAccount(store),
        Priority(store),
        OneDefaultClass(store),
        DefaultTolerations(store),
        PodGroupProtection(gates),
        GroupPriority(store, gates),
        RoleGrants(rbac, authorizer),
        validating,
        *policies,
        ResourceQuota(store, usage),
    )
    authenticator = TokenAuthenticator(static_tokens=static_tokens, signer=signer, lookup=store, epoch=epoch)
    return Access(authenticator, authorizer, admission, privileges, rbac, signer)


def _quota_feed(usage: QuotaUsage, group: str) -> Callable[[str, str, str, Plain | None], None]:
    return lambda plural, namespace, name, obj: usage.apply(group, plural, namespace, name, obj)
