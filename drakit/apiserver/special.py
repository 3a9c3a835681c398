"""Writes that are not stored: reviews of identities and rights, and tokens for service accounts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lightkube.models.authentication_v1 import TokenRequest

from drakit.api import strategy, wire
from drakit.api.errors import StatusError
from drakit.apiserver import reviews
from drakit.apiserver.access import Access
from drakit.apiserver.call import Answer, Call, check_write_options
from drakit.apiserver.context import Context, admission_attributes
from drakit.apiserver.stored import Plain
from drakit.apiserver.verbs.decoding import check_kind, read_value

__all__ = ["handlers"]

Special = Callable[[Context, Call], Answer]


def handlers(access: Access) -> dict[tuple[str, str], Special]:
    """By (group, plural or plural/subresource)."""

    def who_am_i(ctx: Context, call: Call) -> Answer:
        _body(call)
        return _answered(reviews.self_subject_review(call.user, ctx.clock.now()))

    def token_review(ctx: Context, call: Call) -> Answer:
        return _answered(reviews.token_review(_body(call), access.authenticator))

    def access_review(ctx: Context, call: Call) -> Answer:
        found = reviews.access_review(call.kind.kind, _body(call), call.namespace, call.user, access.authorizer)
        return _answered(found)

    def rules_review(ctx: Context, call: Call) -> Answer:
        return _answered(reviews.rules_review(_body(call), call.user, access.rbac))

    def token(ctx: Context, call: Call) -> Answer:
        return _token(ctx, call, access)

    authentication, authorization = "authentication.k8s.io", "authorization.k8s.io"
    return {
        (authentication, "selfsubjectreviews"): who_am_i,
        (authentication, "tokenreviews"): token_review,
        (authorization, "subjectaccessreviews"): access_review,
        (authorization, "selfsubjectaccessreviews"): access_review,
        (authorization, "localsubjectaccessreviews"): access_review,
        (authorization, "selfsubjectrulesreviews"): rules_review,
        ("", "serviceaccounts/token"): token,
    }


def _body(call: Call) -> Plain:
    """The review, with every field of the type it should have."""
    check_write_options(call, "CreateOptions")
    value, _ = read_value(call, call.kind.kind)
    value = {} if value is None else value
    if not isinstance(value, dict):
        raise StatusError.bad_request(f"the object provided is unrecognized (must be of type {call.kind.kind})")
    check_kind(call, value)
    return strategy.decode(call.kind, call.version, value, default=False).obj


def _answered(value: Plain) -> Answer:
    meta = value.get("metadata") or {}
    return Answer(201, value={**value, "metadata": {name: item for name, item in meta.items() if item is not None}})


def _token(ctx: Context, call: Call, access: Access) -> Answer:
    dry_run, _ = check_write_options(call, "CreateOptions")
    value, _ = read_value(call, "TokenRequest")
    body = _token_request(value)
    account = ctx.store.get("", "serviceaccounts", call.namespace, call.name)
    if account is None:
        raise call.not_found()
    reviews.check_token_request(body, account)
    attributes = admission_attributes(call, "CREATE", body, None, dry_run=dry_run)
    ctx.admit(attributes)
    ctx.validate(attributes)
    now = int(ctx.clock.now().timestamp())
    bound = _bound_objects(ctx, call, body["spec"].get("boundObjectRef"))
    return _answered(reviews.token_request(body, account, signer=access.signer, now=now, **bound))


def _token_request(value: Any) -> Plain:
    """The body of a TokenRequest, with every field of the type it should have."""
    value = {} if value is None else value
    if not isinstance(value, dict):
        raise StatusError.bad_request("the object provided is unrecognized (must be of type TokenRequest)")
    given = value.get("apiVersion"), value.get("kind")
    if given not in ((None, None), ("", ""), ("authentication.k8s.io/v1", "TokenRequest")):
        raise StatusError.bad_request(f"{given[1]} of {given[0]} cannot be handled as a TokenRequest")
    body, _ = wire.read(TokenRequest, value, kind="TokenRequest", version="v1")
    body |= {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    body["metadata"] = body.get("metadata") or {}
    body["spec"] = body.get("spec") or {}
    body.pop("status", None)
    return body


def _bound_objects(ctx: Context, call: Call, bound: Plain | None) -> dict[str, Plain | None]:
    """What the token will be bound to, as it is stored now."""
    objects: dict[str, Plain | None] = {"pod": None, "node": None, "secret": None}
    if not bound:
        return objects
    kind, name = str(bound.get("kind") or ""), str(bound.get("name") or "")
    group = str(bound.get("apiVersion") or "").rpartition("/")[0]
    plural = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}.get(kind) if not group else None
    if plural is None:
        version = str(bound.get("apiVersion") or "").rpartition("/")[2]
        raise StatusError.bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
    found = ctx.store.get("", plural, call.namespace if plural != "nodes" else "", name)
    if found is None:
        raise StatusError.not_found("", plural, name)
    if kind == "Pod":
        spec = found.get("spec") or {}
        if spec.get("serviceAccountName") != call.name:
            text = (
                f'cannot bind token for serviceaccount "{call.name}" to pod running with different serviceaccount name.'
            )
            raise StatusError.bad_request(text)
        if node := str(spec.get("nodeName") or ""):
            objects["node"] = ctx.store.get("", "nodes", "", node) or {"metadata": {"name": node}}
    if bound.get("uid") and bound["uid"] != found["metadata"]["uid"]:
        text = (
            f"the UID in the bound object reference ({bound['uid']}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise StatusError.conflict("", kind, name, text)
    objects[kind.lower()] = found
    return objects
