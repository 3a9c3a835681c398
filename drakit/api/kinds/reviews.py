"""Questions asked of the server: who am I, may I, whose token is this. They are answered, never stored."""

from __future__ import annotations

from lightkube.models import authentication_v1, authorization_v1

from drakit.api.kind import Kind, Strategy
from drakit.api.kinds import entry

__all__ = ["KINDS"]


def _review(model: type, plural: str, group: str, *, namespaced: bool = False) -> Kind:
    return entry.kind(model, plural, Strategy(), group=group, namespaced=namespaced, verbs=("create",))


_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"
KINDS: tuple[Kind, ...] = (
    _review(authentication_v1.SelfSubjectReview, "selfsubjectreviews", _AUTHENTICATION),
    _review(authentication_v1.TokenReview, "tokenreviews", _AUTHENTICATION),
    _review(authorization_v1.LocalSubjectAccessReview, "localsubjectaccessreviews", _AUTHORIZATION, namespaced=True),
    _review(authorization_v1.SelfSubjectAccessReview, "selfsubjectaccessreviews", _AUTHORIZATION),
    _review(authorization_v1.SelfSubjectRulesReview, "selfsubjectrulesreviews", _AUTHORIZATION),
    _review(authorization_v1.SubjectAccessReview, "subjectaccessreviews", _AUTHORIZATION),
)
