"""Who is it: client certificates, static tokens, service account tokens, anonymous, impersonation.

Credentials that are given and wrong are refused (401), never taken for anonymous. Static tokens are compared by their hash;
verified service account tokens are remembered for a short time, but what they are bound to is asked at each use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from urllib.parse import unquote

from cryptography import x509
from cryptography.x509.oid import NameOID

from drakit.api.errors import StatusError
from drakit.apiserver.auth import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, Attributes, Authorizer, Lookup, UserInfo
from drakit.apiserver.tokens import AUDIENCE, Bound, ServiceAccountToken, TokenError, TokenSigner

_REMEMBERED = 10_000  # verified credentials kept in memory
_EXTRA = "authentication.kubernetes.io/"


class TokenAuthenticator:
    """Bearer tokens and client certificates to users. `epoch` is the time in whole seconds."""

    def __init__(
        self,
        *,
        static_tokens: Mapping[str, UserInfo],
        signer: TokenSigner,
        lookup: Lookup,
        epoch: Callable[[], int],
    ) -> None:
        self._static = {sha256(token.encode()).digest(): user for token, user in static_tokens.items()}
        self._signer = signer
        self._lookup = lookup
        self._epoch = epoch
        self._verified: dict[bytes, ServiceAccountToken] = {}
        self._certificates: dict[bytes, tuple[UserInfo, float]] = {}  # with the time at which they end

    def authenticate(self, headers: Mapping[str, str], certificate: bytes | None) -> UserInfo | None:
        if certificate is not None:
            return self._certificate_user(certificate)
        authorization = headers.get("authorization")
        if authorization is None:
            return None
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise unauthorized()
        user = self.token_user(token.strip())
        if user is None:
            raise unauthorized()
        return user

    def token_user(self, token: str, audiences: Sequence[str] = (AUDIENCE,)) -> UserInfo | None:
        digest = sha256(token.encode("utf-8", "surrogateescape")).digest()
        static = self._static.get(digest)
        if static is not None:
            # They are for this server; whoever asks on behalf of another one must not take them for its own.
            return _authenticated(static) if AUDIENCE in audiences else None
        try:
            return self.service_account(token, audiences)
        except TokenError:
            return None

    def service_account(self, token: str, audiences: Sequence[str] = (AUDIENCE,)) -> UserInfo:
        """The user of a service account token; TokenError says why not."""
        digest, now = sha256(token.encode("utf-8", "surrogateescape")).digest(), self._epoch()
        content = self._verified.get(digest)
        if content is None or now >= content.expires or not set(content.audiences) & set(audiences):
            content = self._signer.verify(token, now=now, audiences=audiences)
            if len(self._verified) >= _REMEMBERED:
                self._verified.clear()
            self._verified[digest] = content
        self._still_there("serviceaccounts", content.namespace, content.account)
        if content.pod is not None:
            self._still_there("pods", content.namespace, content.pod)
        if content.secret is not None:
            self._still_there("secrets", content.namespace, content.secret)
        if content.node is not None and content.pod is None:
            self._still_there("nodes", "", content.node)
        return service_account_user(content)

    def _still_there(self, plural: str, namespace: str, bound: Bound) -> None:
        obj = self._lookup.get("", plural, namespace, bound.name)
        if obj is None or obj["metadata"].get("uid") != bound.uid:
            raise TokenError(f"{plural} {bound.name!r} of the token is gone")

    def _certificate_user(self, certificate: bytes) -> UserInfo:
        """CN is the user, each O a group. The TLS layer has checked that our CA signed it; connections may outlive its dates."""
        known = self._certificates.get(certificate)
        if known is None:
            loaded = x509.load_der_x509_certificate(certificate)
            names = loaded.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
            if not names:
                raise unauthorized()
            groups = (str(o.value) for o in loaded.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME))
            user = _authenticated(UserInfo(str(names[0].value), tuple(groups)))
            known = user, loaded.not_valid_after_utc.timestamp()
            if len(self._certificates) >= _REMEMBERED:
                self._certificates.clear()
            self._certificates[certificate] = known
        if self._epoch() >= known[1]:
            raise unauthorized()
        return known[0]


def service_account_user(token: ServiceAccountToken) -> UserInfo:
    extra: dict[str, tuple[str, ...]] = {_EXTRA + "credential-id": (f"JTI={token.token_id}",)}
    for word, bound in (("pod", token.pod), ("node", token.node)):
        if bound is not None:
            extra[f"{_EXTRA}{word}-name"] = (bound.name,)
            if bound.uid:
                extra[f"{_EXTRA}{word}-uid"] = (bound.uid,)
    return UserInfo(
        f"system:serviceaccount:{token.namespace}:{token.account.name}",
        ("system:serviceaccounts", f"system:serviceaccounts:{token.namespace}", AUTHENTICATED),
        token.account.uid,
        extra,
    )


def _authenticated(user: UserInfo) -> UserInfo:
    if AUTHENTICATED in user.groups:
        return user
    return UserInfo(user.name, (*user.groups, AUTHENTICATED), user.uid, user.extra)


def unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized")


# --- impersonation: acting as someone else, for those who may

_USER, _UID = "impersonate-user", "impersonate-uid"
IMPERSONATE_EXTRA = "impersonate-extra-"


def impersonated(
    user: UserInfo,
    headers: Mapping[str, str],
    groups: Sequence[str],
    authorizer: Authorizer,
    extras: Sequence[tuple[str, str]] = (),
) -> UserInfo:
    """The user that a request acts as. `groups` and `extras` are all Impersonate-Group and Impersonate-Extra-* headers, one by one.

    Forbidden unless `user` may impersonate each part."""
    name = headers.get(_USER, "")
    uid = headers.get(_UID, "")
    extra: dict[str, tuple[str, ...]] = {}
    for header, value in extras:
        key = unquote(header.removeprefix(IMPERSONATE_EXTRA))
        extra[key] = (*extra.get(key, ()), value)
    if not name:
        if groups or uid or extra:
            wanted = [*groups, *extra, *([uid] if uid else [])]
            raise StatusError.bad_request(f"requested {wanted} without impersonating a user")
        return user

    def may(resource: str, wanted: str, *, group: str = "", namespace: str = "", subresource: str = "") -> None:
        asked = Attributes(
            user,
            "impersonate",
            group,
            "v1",
            resource=resource,
            subresource=subresource,
            namespace=namespace,
            name=wanted,
        )
        if not authorizer.authorize(asked).allowed:
            where = f"{resource}.{group}" if group else resource
            raise StatusError(
                403,
                "Forbidden",
                f'{where} "{wanted}" is forbidden: User "{user.name}" {asked.describe()}',
                {"name": wanted, "kind": resource},
            )

    parts = name.split(":")
    implied: tuple[str, ...] = ()
    if name.startswith("system:serviceaccount:") and len(parts) == 4:
        may("serviceaccounts", parts[3], namespace=parts[2])
        implied = ("system:serviceaccounts", f"system:serviceaccounts:{parts[2]}")
    else:
        may("users", name)
    for group in groups:
        may("groups", group)
    if uid:
        may("uids", uid, group="authentication.k8s.io")
    for key, values in extra.items():
        for value in values:
            may("userextras", value, group="authentication.k8s.io", subresource=key)
    chosen = tuple(groups) or implied
    if name == ANONYMOUS.name:
        if UNAUTHENTICATED not in chosen:
            chosen = (*chosen, UNAUTHENTICATED)
    elif AUTHENTICATED not in chosen and UNAUTHENTICATED not in chosen:
        chosen = (*chosen, AUTHENTICATED)
    return UserInfo(name, chosen, uid, extra)
