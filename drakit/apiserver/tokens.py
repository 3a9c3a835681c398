"""Service account tokens: signed here, verified here, never accepted from anyone else.

JSON Web Tokens with one algorithm (ES256) and one key, kept in the state folder with mode 0600. A token names its service
account and, when bound, its pod and node; whether those still exist is asked at each use, so deleting them revokes the token.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

ISSUER = "https://kubernetes.default.svc"
AUDIENCE = "https://kubernetes.default.svc.cluster.local"
MAX_LENGTH = 16 * 1024  # of a token that we look at at all


class TokenError(Exception):
    """A token that is not to be trusted; the text says why, never the token."""


@dataclass(frozen=True, slots=True)
class Bound:
    """An object named in a token."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class ServiceAccountToken:
    namespace: str
    account: Bound
    audiences: tuple[str, ...]
    expires: int
    token_id: str
    pod: Bound | None = None
    node: Bound | None = None
    secret: Bound | None = None


class TokenSigner:
    """Issues and verifies. `now` is seconds since the epoch, always passed in."""

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key
        self._public = key.public_key()
        public = self._public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.key_id = _encode(sha256(public).digest())

    @classmethod
    def generate(cls) -> TokenSigner:
        return cls(ec.generate_private_key(ec.SECP256R1()))

    @classmethod
    def load(cls, path: Path) -> TokenSigner:
        """The key of a state folder, made on first use."""
        try:
            key = serialization.load_pem_private_key(path.read_bytes(), password=None)
        except FileNotFoundError:
            signer = cls.generate()
            pem = signer._key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(pem)
            return signer
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError(f"{path}: expected an elliptic curve key; move the file away to get a new one")
        return cls(key)

    def issue(self, token: ServiceAccountToken, *, now: int) -> str:
        details: dict[str, Any] = {
            "namespace": token.namespace,
            "serviceaccount": {"name": token.account.name, "uid": token.account.uid},
        }
        for word, bound in (("pod", token.pod), ("node", token.node), ("secret", token.secret)):
            if bound is not None:
                details[word] = {"name": bound.name, "uid": bound.uid}
        payload = {
            "aud": list(token.audiences),
            "exp": token.expires,
            "iat": now,
            "iss": ISSUER,
            "jti": token.token_id,
            "kubernetes.io": details,
            "nbf": now,
            "sub": f"system:serviceaccount:{token.namespace}:{token.account.name}",
        }
        head = _encode(json.dumps({"alg": "ES256", "kid": self.key_id}, separators=(",", ":")).encode())
        body = _encode(json.dumps(payload, separators=(",", ":")).encode())
        r, s = decode_dss_signature(self._key.sign(f"{head}.{body}".encode(), ec.ECDSA(hashes.SHA256())))
        return f"{head}.{body}.{_encode(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"

    def verify(self, text: str, *, now: int, audiences: Sequence[str] = (AUDIENCE,)) -> ServiceAccountToken:
        """The token's content, if we signed it, it is in date, and it is meant for one of `audiences`."""
        if len(text) > MAX_LENGTH:
            raise TokenError("token is too long")
        parts = text.split(".")
        if len(parts) != 3:
            raise TokenError("token is not a JSON Web Token")
        header, payload, signature = _json(parts[0]), _json(parts[1]), _decode(parts[2])
        # The algorithm is ours to choose: "none" or a symmetric one in the header is a forgery, not an option.
        if header.get("alg") != "ES256" or header.get("kid") != self.key_id or len(signature) != 64:
            raise TokenError("token was not signed by this server")
        der = encode_dss_signature(int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big"))
        try:
            self._public.verify(der, f"{parts[0]}.{parts[1]}".encode(), ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            raise TokenError("token signature is wrong") from None
        token = _content(payload)
        if payload.get("iss") != ISSUER:
            raise TokenError("token has another issuer")
        if now >= token.expires:
            raise TokenError("token has expired")
        if now < int(payload.get("nbf", 0)):
            raise TokenError("token is not valid yet")
        if not set(token.audiences) & set(audiences):
            raise TokenError(
                f"token audiences {list(token.audiences)} is invalid for the target audiences {list(audiences)}"
            )
        return token

    def jwks(self) -> dict[str, Any]:
        """The public key as /openid/v1/jwks shows it."""
        numbers = self._public.public_numbers()
        key = {
            "use": "sig",
            "kty": "EC",
            "kid": self.key_id,
            "crv": "P-256",
            "alg": "ES256",
            "x": _encode(numbers.x.to_bytes(32, "big")),
            "y": _encode(numbers.y.to_bytes(32, "big")),
        }
        return {"keys": [key]}


def _content(payload: dict[str, Any]) -> ServiceAccountToken:
    try:
        details = payload["kubernetes.io"]
        account = details["serviceaccount"]
        return ServiceAccountToken(
            namespace=details["namespace"],
            account=Bound(account["name"], account["uid"]),
            audiences=tuple(payload["aud"]),
            expires=int(payload["exp"]),
            token_id=payload["jti"],
            pod=_bound(details.get("pod")),
            node=_bound(details.get("node")),
            secret=_bound(details.get("secret")),
        )
    except (KeyError, TypeError, ValueError):
        raise TokenError("token content is malformed") from None


def _bound(value: dict[str, str] | None) -> Bound | None:
    return Bound(value["name"], value["uid"]) if value else None


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise TokenError("token is not a JSON Web Token") from None


def _json(text: str) -> dict[str, Any]:
    try:
        value = json.loads(_decode(text))
    except (ValueError, RecursionError):
        raise TokenError("token is not a JSON Web Token") from None
    if not isinstance(value, dict):
        raise TokenError("token is not a JSON Web Token")
    return value
