"""rbac.authorization.k8s.io: roles and bindings. Who may grant what is the authorizer's business, not checked here."""

from __future__ import annotations

from lightkube.models import rbac_v1

from drakit.api import formats, selector_validation
from drakit.api.errors import Errors, FieldError
from drakit.api.kind import Kind, Object, Strategy, WriteContext
from drakit.api.kinds import checks, entry

__all__ = ["KINDS"]

GROUP = "rbac.authorization.k8s.io"
_STATUS_ANSWER = frozenset({"v1"})


def _validate_rule(rule: Object, path: str, *, namespaced: bool) -> Errors:
    errors: Errors = []
    if not rule.get("verbs"):
        errors.append(FieldError.required(f"{path}.verbs"))
    resources, urls = rule.get("resources") or (), rule.get("nonResourceURLs") or ()
    if urls:
        if namespaced:
            text = "namespaced rules cannot apply to non-resource URLs"
            errors.append(FieldError.invalid(f"{path}.nonResourceURLs", list(urls), text))
        if rule.get("apiGroups") or resources or rule.get("resourceNames"):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            errors.append(FieldError.invalid(f"{path}.nonResourceURLs", list(urls), text))
        return errors
    if not rule.get("apiGroups"):
        errors.append(FieldError.required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not resources:
        errors.append(FieldError.required(f"{path}.resources", "resource rules must supply at least one resource"))
    return errors


def _rules(obj: Object, *, namespaced: bool) -> Errors:
    rules = enumerate(obj.get("rules") or ())
    return [e for i, rule in rules for e in _validate_rule(rule, f"rules[{i}]", namespaced=namespaced)]


def _validate_role(role: Object, ctx: WriteContext) -> Errors:
    return _rules(role, namespaced=True)


def _validate_cluster_role(role: Object, ctx: WriteContext) -> Errors:
    errors = _rules(role, namespaced=False)
    aggregation = role.get("aggregationRule")
    if aggregation is not None:
        selectors = aggregation.get("clusterRoleSelectors") or ()
        path = "aggregationRule.clusterRoleSelectors"
        if not selectors:
            text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            errors.append(FieldError.required(path, text))
        for position, selector in enumerate(selectors):
            errors += selector_validation.label_selector(selector, f"{path}[{position}]")
    return errors


def _default_binding(binding: Object) -> None:
    ref = binding.get("roleRef")
    if ref is not None and not ref.get("apiGroup"):
        ref["apiGroup"] = GROUP
    for subject in binding.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = GROUP


def _validate_binding(binding: Object, ctx: WriteContext) -> Errors:
    cluster = binding.get("kind") == "ClusterRoleBinding"
    ref = binding.get("roleRef") or {}
    errors: Errors = []
    if ref.get("apiGroup") != GROUP:
        errors.append(FieldError.not_supported("roleRef.apiGroup", ref.get("apiGroup", ""), (GROUP,)))
    kinds = ("ClusterRole",) if cluster else ("Role", "ClusterRole")
    if ref.get("kind") not in kinds:
        errors.append(FieldError.not_supported("roleRef.kind", ref.get("kind", ""), kinds))
    name = ref.get("name") or ""
    if not name:
        errors.append(FieldError.required("roleRef.name"))
    else:
        errors += [FieldError.invalid("roleRef.name", name, text) for text in formats.path_segment(name)]
    for position, subject in enumerate(binding.get("subjects") or ()):
        errors += _validate_subject(subject, f"subjects[{position}]", namespaced=not cluster)
    return errors


def _validate_subject(subject: Object, path: str, *, namespaced: bool) -> Errors:
    errors: Errors = []
    name, kind = subject.get("name") or "", subject.get("kind") or ""
    if not name:
        errors.append(FieldError.required(f"{path}.name"))
    if kind == "ServiceAccount":
        if name:
            errors += checks.subdomain(name, f"{path}.name")
        if subject.get("apiGroup"):
            errors.append(FieldError.not_supported(f"{path}.apiGroup", subject["apiGroup"], ("",)))
        if not namespaced and not subject.get("namespace"):
            errors.append(FieldError.required(f"{path}.namespace"))
    elif kind in ("User", "Group"):
        if subject.get("apiGroup") != GROUP:
            errors.append(FieldError.not_supported(f"{path}.apiGroup", subject.get("apiGroup", ""), (GROUP,)))
    else:
        supported = ("ServiceAccount", "User", "Group")
        errors.append(FieldError.not_supported(f"{path}.kind", kind, supported))
    return errors


def _validate_binding_update(new: Object, old: Object, ctx: WriteContext) -> Errors:
    errors = _validate_binding(new, ctx)
    ref = new.get("roleRef") or {}
    if ref != old.get("roleRef"):
        # Go's field names: Kubernetes prints the internal object.
        shown = {"APIGroup": ref.get("apiGroup", ""), "Kind": ref.get("kind", ""), "Name": ref.get("name", "")}
        errors.append(FieldError.invalid("roleRef", shown, "field is immutable"))
    return errors


def _role_kind(model: type, plural: str, strategy: Strategy, *, namespaced: bool) -> Kind:
    return entry.kind(model, plural, strategy, group=GROUP, namespaced=namespaced, delete_returns_status=_STATUS_ANSWER)


_BINDING = Strategy(
    default={"": _default_binding},
    validate=_validate_binding,
    validate_update=_validate_binding_update,
    allow_create_on_update=True,
)
KINDS: tuple[Kind, ...] = (
    _role_kind(rbac_v1.ClusterRoleBinding, "clusterrolebindings", _BINDING, namespaced=False),
    _role_kind(
        rbac_v1.ClusterRole,
        "clusterroles",
        Strategy(
            validate=_validate_cluster_role,
            allow_create_on_update=True,
        ),
        namespaced=False,
    ),
    _role_kind(rbac_v1.RoleBinding, "rolebindings", _BINDING, namespaced=True),
    _role_kind(
        rbac_v1.Role,
        "roles",
        Strategy(validate=_validate_role, allow_create_on_update=True),
        namespaced=True,
    ),
)
