"""Secrets of type kubernetes.io/service-account-token: filled with a token, the namespace and the CA by the server itself.

Kubernetes' token controller does this in its controller manager; here the signing key stays in the server. The token is bound
to the Secret: it ends with it, or with the account.
"""

from __future__ import annotations

import asyncio
import base64
import uuid
from collections.abc import Callable

from drakit.api import registry
from drakit.api.errors import StatusError
from drakit.apiserver.access import Feed
from drakit.apiserver.auth import ADMIN
from drakit.apiserver.call import Call
from drakit.apiserver.context import Context
from drakit.apiserver.stored import Plain
from drakit.apiserver.tokens import AUDIENCE, Bound, ServiceAccountToken, TokenSigner
from drakit.apiserver.verbs import writing

__all__ = ["TokenSecrets"]

TYPE = "kubernetes.io/service-account-token"
NAME, UID = "kubernetes.io/service-account.name", "kubernetes.io/service-account.uid"
_SECONDS = 100 * 365 * 24 * 3600  # these do not expire: deleting the Secret ends them


class TokenSecrets:
    """Told of every Secret and ServiceAccount; `authority` gives the CA certificate (PEM)."""

    def __init__(self, ctx: Context, signer: TokenSigner, authority: Callable[[], bytes]) -> None:
        self._ctx = ctx
        self._signer = signer
        self._authority = authority
        self._soon: Callable[[Callable[[], None]], object] | None = None
        self._waiting: set[tuple[str, str]] = set()
        for plural, changed in (("secrets", self._secret_changed), ("serviceaccounts", self._account_changed)):
            kind = registry.by_resource("", plural)
            assert kind is not None
            ctx.store.collection(kind).guards.append(Feed(changed))

    def start(self) -> None:
        """From now on; before, objects are only being loaded."""
        self._soon = asyncio.get_running_loop().call_soon
        for secret in self._ctx.store.list("", "secrets"):
            self._secret_changed(secret["metadata"]["namespace"], secret["metadata"]["name"], secret)

    def _secret_changed(self, namespace: str, name: str, obj: Plain | None) -> None:
        if self._soon is None or obj is None or obj.get("type") != TYPE or (obj.get("data") or {}).get("token"):
            return
        if not self._waiting:
            self._soon(self._run)
        self._waiting.add((namespace, name))

    def _account_changed(self, namespace: str, name: str, obj: Plain | None) -> None:
        if self._soon is None or obj is None:
            return
        for secret in self._ctx.store.list("", "secrets", namespace):
            if secret.get("type") == TYPE and (secret["metadata"].get("annotations") or {}).get(NAME) == name:
                self._secret_changed(namespace, secret["metadata"]["name"], secret)

    def _run(self) -> None:
        waiting, self._waiting = self._waiting, set()
        for namespace, name in waiting:
            secret = self._ctx.store.get("", "secrets", namespace, name)
            if secret is not None:
                self._fill(namespace, name, secret)

    def _fill(self, namespace: str, name: str, secret: Plain) -> None:
        meta = secret["metadata"]
        annotations = meta.get("annotations") or {}
        account = self._ctx.store.get("", "serviceaccounts", namespace, annotations.get(NAME, ""))
        # The UID, when given, says which account of that name is meant.
        if account is None or annotations.get(UID, account["metadata"]["uid"]) != account["metadata"]["uid"]:
            return
        uid = account["metadata"]["uid"]
        now = int(self._ctx.clock.now().timestamp())
        content = ServiceAccountToken(
            namespace,
            Bound(account["metadata"]["name"], uid),
            (AUDIENCE,),
            now + _SECONDS,
            str(uuid.uuid4()),
            secret=Bound(name, meta["uid"]),
        )
        token = self._signer.issue(content, now=now).encode()
        data = {"token": token, "namespace": namespace.encode(), "ca.crt": self._authority()}
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items() if value}
        filled = {
            **secret,
            "metadata": {**meta, "annotations": {**annotations, UID: uid}},
            "data": {**(secret.get("data") or {}), **encoded},
        }
        kind = registry.by_resource("", "secrets")
        assert kind is not None
        call = Call("update", kind, "v1", namespace, name, "", {}, ADMIN, value=filled, agent="kube-controller-manager")
        try:
            writing.update(self._ctx, call)
        except StatusError:
            return  # immutable, or a policy is against it: the Secret stays empty, as its author sees
