"""Questions about identity and rights that are asked by POST and stored nowhere: TokenReview, SubjectAccessReview and their kin,
and TokenRequest on a service account.

Each function takes the plain body and returns it with a status, as Kubernetes answers.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from drakit.api.errors import FieldError, StatusError
from drakit.api.times import at_second, timestamp
from drakit.apiserver.auth import Attributes, Authorizer, UserInfo
from drakit.apiserver.authn import TokenAuthenticator
from drakit.apiserver.rbac import Rbac
from drakit.apiserver.stored import Plain
from drakit.apiserver.tokens import AUDIENCE, Bound, ServiceAccountToken, TokenSigner

_AUTHENTICATION = "authentication.k8s.io/v1"
_AUTHORIZATION = "authorization.k8s.io/v1"
MIN_SECONDS, MAX_SECONDS, DEFAULT_SECONDS = 600, 2**32, 3600


def _answer(api_version: str, kind: str, body: Mapping[str, Any], **fields: Any) -> Plain:
    metadata = {"creationTimestamp": None, **(body.get("metadata") or {})}
    return {"kind": kind, "apiVersion": api_version, "metadata": metadata, **fields}


# --- who


def self_subject_review(user: UserInfo, now: datetime) -> Plain:
    body = {"metadata": {"creationTimestamp": timestamp(now)}}
    return _answer(_AUTHENTICATION, "SelfSubjectReview", body, status={"userInfo": user_info(user)})


def user_info(user: UserInfo) -> Plain:
    info: Plain = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info


def token_review(body: Mapping[str, Any], authenticator: TokenAuthenticator) -> Plain:
    spec = body.get("spec") or {}
    token = spec.get("token") or ""
    if not token:
        raise StatusError(400, "BadRequest", "token is required for TokenReview in authentication")
    audiences = tuple(spec.get("audiences") or (AUDIENCE,))
    user = authenticator.token_user(token, audiences)
    status: Plain = {"user": {}}
    if user is not None:
        status = {"authenticated": True, "user": user_info(user), "audiences": list(audiences)}
    else:
        status["error"] = "invalid bearer token"
    return _answer(_AUTHENTICATION, "TokenReview", body, spec=dict(spec), status=status)


# --- what


def access_review(kind: str, body: Mapping[str, Any], namespace: str, user: UserInfo, authorizer: Authorizer) -> Plain:
    """SubjectAccessReview, LocalSubjectAccessReview and SelfSubjectAccessReview."""
    spec = dict(body.get("spec") or {})
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    errors = []
    if kind != "SelfSubjectAccessReview":
        if not spec.get("user") and not spec.get("groups"):
            errors.append(FieldError.invalid("spec.user", "", "at least one of user or group must be specified"))
        user = UserInfo(
            spec.get("user") or "",
            tuple(spec.get("groups") or ()),
            spec.get("uid") or "",
            {key: tuple(values or ()) for key, values in (spec.get("extra") or {}).items()},
        )
    if bool(resource) == bool(path):
        value = {"Path": path.get("path", ""), "Verb": path.get("verb", "")} if path else None
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        errors.append(FieldError.invalid("spec", value, text))
    if kind == "LocalSubjectAccessReview" and (resource or {}).get("namespace") != namespace:
        errors.append(
            FieldError.invalid(
                "spec.resourceAttributes.namespace",
                (resource or {}).get("namespace", ""),
                "must match metadata.namespace",
            )
        )
    if errors:
        raise StatusError.invalid("authorization.k8s.io", "", "", errors)  # Kubernetes names no kind here
    decision = authorizer.authorize(_asked(user, resource, path))
    status: Plain = {"allowed": decision.allowed}
    if decision.denied:
        status["denied"] = True
    if decision.reason:
        status["reason"] = decision.reason
    return _answer(_AUTHORIZATION, kind, body, spec=spec, status=status)


def _asked(user: UserInfo, resource: Mapping[str, Any] | None, path: Mapping[str, Any] | None) -> Attributes:
    if resource is None:
        return Attributes(user, str((path or {}).get("verb") or ""), path=str((path or {}).get("path") or ""))

    def text(name: str) -> str:
        return str(resource.get(name) or "")

    return Attributes(
        user,
        text("verb"),
        text("group"),
        text("version"),
        resource=text("resource"),
        subresource=text("subresource"),
        namespace=text("namespace"),
        name=text("name"),
    )


def rules_review(body: Mapping[str, Any], user: UserInfo, rbac: Rbac) -> Plain:
    """SelfSubjectRulesReview: `kubectl auth can-i --list`."""
    namespace = str((body.get("spec") or {}).get("namespace") or "")
    if not namespace:
        raise StatusError(400, "BadRequest", "no namespace on request")
    rules = rbac.rules_for(user, namespace)
    status: Plain = {
        "resourceRules": [r.to_plain() for r in rules if not r.urls],
        "nonResourceRules": [r.to_plain() for r in rules if r.urls],
        "incomplete": False,
    }
    return _answer(_AUTHORIZATION, "SelfSubjectRulesReview", body, spec={}, status=status)


# --- tokens


def check_token_request(body: Plain, account: Mapping[str, Any]) -> None:
    """The rules for a TokenRequest; fills in what it may leave out."""
    known, meta, spec = account["metadata"], body["metadata"], body["spec"]
    for field, what in (("name", "name"), ("namespace", "namespace")):
        if meta.get(field) and meta[field] != known[field]:
            error = FieldError.invalid(
                f"metadata.{field}", meta[field], f"must match the service account {what} if specified"
            )
            raise _invalid_token(known["name"], [error])
    if meta.get("uid") and meta["uid"] != known["uid"]:
        text = f"the UID in the token request ({meta['uid']}) does not match the UID of the service account ({known['uid']})"
        raise StatusError.conflict("authentication.k8s.io", "TokenRequest", known["name"], text)
    if not spec.get("audiences"):
        spec["audiences"] = [AUDIENCE]
    seconds = spec.get("expirationSeconds")
    seconds = spec["expirationSeconds"] = DEFAULT_SECONDS if seconds is None else seconds
    errors = []
    if seconds < MIN_SECONDS:
        errors.append(
            FieldError.invalid("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
        )
    if seconds > MAX_SECONDS:
        errors.append(
            FieldError.invalid("spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
        )
    if errors:
        raise _invalid_token("", errors)


def _invalid_token(name: str, errors: list[FieldError]) -> StatusError:
    return StatusError.invalid("authentication.k8s.io", "TokenRequest", name, errors)


def token_request(
    body: Mapping[str, Any],
    account: Mapping[str, Any],
    *,
    signer: TokenSigner,
    now: int,
    pod: Mapping[str, Any] | None = None,
    node: Mapping[str, Any] | None = None,
    secret: Mapping[str, Any] | None = None,
) -> Plain:
    """A token for a service account. `body` is checked; `pod`, `node`, `secret`: the object named in boundObjectRef."""
    spec = dict(body["spec"])
    audiences, seconds = spec["audiences"], spec["expirationSeconds"]
    metadata = account["metadata"]
    token = ServiceAccountToken(
        namespace=metadata["namespace"],
        account=Bound(metadata["name"], metadata["uid"]),
        audiences=tuple(audiences),
        expires=now + seconds,
        token_id=str(uuid.uuid4()),
        pod=_bound(pod),
        node=_bound(node),
        secret=_bound(secret),
    )
    spec["boundObjectRef"] = spec.get("boundObjectRef")
    named = {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]}
    named["creationTimestamp"] = at_second(int(now))
    status = {"token": signer.issue(token, now=now), "expirationTimestamp": at_second(int(token.expires))}
    return _answer(_AUTHENTICATION, "TokenRequest", {"metadata": named}, spec=spec, status=status)


def _bound(obj: Mapping[str, Any] | None) -> Bound | None:
    return Bound(obj["metadata"]["name"], obj["metadata"].get("uid", "")) if obj else None
