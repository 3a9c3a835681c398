"""Writes that are not stored: reviews of identities and rights, and tokens for service accounts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drakit.api.errors import StatusError
from drakit.apiserver import reviews
from drakit.apiserver.access import Access
from drakit.apiserver.call import Answer, Call, check_write_options
from drakit.apiserver.context import Context
from drakit.apiserver.verbs.decoding import check_kind, read_value

__all__ = ["handlers"]

Plain = dict[str, Any]
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
    check_write_options(call, "CreateOptions")
    value, _ = read_value(call, call.kind.kind)
    value = {} if value is None else value
    if not isinstance(value, dict) or any(not isinstance(value.get(name) or {}, dict) for name in ("metadata", "spec")):
        raise StatusError.bad_request(f"the object provided is unrecognized (must be of type {call.kind.kind})")
    if not call.subresource:
        check_kind(call, value)
    return value


def _answered(value: Plain) -> Answer:
    meta = value.get("metadata") or {}
    return Answer(201, value={**value, "metadata": {name: item for name, item in meta.items() if item is not None}})


def _token(ctx: Context, call: Call, access: Access) -> Answer:
    account = ctx.get("", "serviceaccounts", call.namespace, call.name)
    if account is None:
        raise call.not_found()
    body = _body(call)
    bound = (body.get("spec") or {}).get("boundObjectRef") or {}
    if not isinstance(bound, dict):
        raise StatusError.bad_request("spec.boundObjectRef must be an object")
    objects: dict[str, Plain | None] = {"pod": None, "node": None, "secret": None}
    if bound:
        kind, name = str(bound.get("kind") or ""), str(bound.get("name") or "")
        plural = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}.get(kind)
        if plural is None:
            raise StatusError.bad_request(
                f"cannot bind token for serviceaccount to kind {kind!r}: use Pod, Secret or Node"
            )
        found = ctx.get("", plural, call.namespace if plural != "nodes" else "", name)
        if found is None:
            raise StatusError.not_found("", plural, name)
        if bound.get("uid") and bound["uid"] != found["metadata"]["uid"]:
            text = f"the UID in the bound object reference ({bound['uid']}) does not match the UID in record"
            raise StatusError.conflict("", plural, name, text)
        objects[kind.lower()] = found
        node = str((found.get("spec") or {}).get("nodeName") or "") if kind == "Pod" else ""
        if node:
            objects["node"] = ctx.get("", "nodes", "", node) or {"metadata": {"name": node}}
    now = int(ctx.clock.now().timestamp())
    answer = reviews.token_request(
        body, account, signer=access.signer, now=now, pod=objects["pod"], node=objects["node"], secret=objects["secret"]
    )
    return _answered(answer)
