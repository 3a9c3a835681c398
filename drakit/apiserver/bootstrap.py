"""What a cluster starts with, and what the server itself keeps true afterwards: default roles and aggregated ClusterRoles.

Default roles get the rights and subjects that a newer version of ours added, unless their annotation `autoupdate` says no.
An aggregated ClusterRole has the rules of the roles that its selectors match; it follows them within a turn of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from drakit.api import registry
from drakit.apiserver import roles
from drakit.apiserver.access import Feed
from drakit.apiserver.auth import ADMIN
from drakit.apiserver.call import Call
from drakit.apiserver.context import Context
from drakit.apiserver.rbac import GROUP, Rule, missing_permissions
from drakit.apiserver.stored import Plain
from drakit.apiserver.verbs import writing

__all__ = ["Aggregation", "ensure", "ensure_roles"]

_AUTO_UPDATE = "rbac.authorization.kubernetes.io/autoupdate"


def ensure(ctx: Context, obj: Plain) -> None:
    """Create an object if there is none of its name."""
    found = registry.by_api_version(obj["apiVersion"], obj["kind"])
    if found is None:
        return
    kind, version = found
    meta = obj["metadata"]
    namespace = meta.get("namespace", "") if kind.namespaced else ""
    if ctx.store.get(kind.group, kind.plural, namespace, meta["name"]) is None:
        call = Call("create", kind, version, namespace, "", "", {}, ADMIN, value=obj, agent="kube-apiserver")
        writing.create(ctx, call)


def ensure_roles(ctx: Context) -> None:
    """The default roles and bindings: made, or widened to what they should have."""
    for role in roles.cluster_roles():
        present = _updatable(ctx, "clusterroles", role)
        if present is not None and "aggregationRule" not in role:
            held = [Rule.from_plain(rule) for rule in present.get("rules") or ()]
            missing = [rule for rule in role["rules"] if missing_permissions(held, [Rule.from_plain(rule)])]
            if missing:
                _replace(ctx, "clusterroles", {**present, "rules": [*(present.get("rules") or ()), *missing]})
        ensure(ctx, role)
    for binding in roles.cluster_role_bindings():
        present = _updatable(ctx, "clusterrolebindings", binding)
        if present is not None:
            subjects = present.get("subjects") or []
            missing = [subject for subject in binding["subjects"] if subject not in subjects]
            if missing:
                _replace(ctx, "clusterrolebindings", {**present, "subjects": [*subjects, *missing]})
        ensure(ctx, binding)


def _updatable(ctx: Context, plural: str, wanted: Plain) -> Plain | None:
    present = ctx.store.get(GROUP, plural, "", wanted["metadata"]["name"])
    if present is None or (present["metadata"].get("annotations") or {}).get(_AUTO_UPDATE) == "false":
        return None
    return present


def _replace(ctx: Context, plural: str, obj: Plain, *, agent: str = "kube-apiserver") -> None:
    kind = registry.by_resource(GROUP, plural)
    assert kind is not None
    name = obj["metadata"]["name"]
    writing.update(ctx, Call("update", kind, "v1", "", name, "", {}, ADMIN, value=obj, agent=agent))


class Aggregation:
    """Told of every change of a ClusterRole; writes the aggregated ones that it concerns."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._soon: Callable[[Callable[[], None]], object] | None = None
        self._waiting = False
        kind = registry.by_resource(GROUP, "clusterroles")
        assert kind is not None
        ctx.store.collection(kind).guards.append(Feed(self._changed))

    def start(self) -> None:
        """From now on; before, objects are only being loaded."""
        self._soon = asyncio.get_running_loop().call_soon
        self._run()

    def _changed(self, namespace: str, name: str, obj: Plain | None) -> None:
        if self._soon is not None and not self._waiting:
            # Not inside the write that tells of it; and once for many of them.
            self._waiting = True
            self._soon(self._run)

    def _run(self) -> None:
        self._waiting = False
        present = list(self._ctx.store.list(GROUP, "clusterroles"))
        for role in present:
            if not (role.get("aggregationRule") or {}).get("clusterRoleSelectors"):
                continue
            rules = roles.aggregated_rules(role, present)
            if rules != (role.get("rules") or []):
                _replace(
                    self._ctx, "clusterroles", {**role, "rules": rules}, agent="clusterrole-aggregation-controller"
                )
