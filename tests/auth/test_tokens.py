"""Service account tokens: forged, expired, foreign and stale ones do not get through."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from drakit.api.errors import StatusError
from drakit.apiserver import reviews
from drakit.apiserver.auth import UserInfo
from drakit.apiserver.authn import TokenAuthenticator
from drakit.apiserver.tokens import AUDIENCE, TokenError, TokenSigner

NOW = 1_800_000_000
ACCOUNT = {"metadata": {"namespace": "team", "name": "robot", "uid": "sa-1"}}
POD = {"metadata": {"name": "p", "uid": "pod-1"}}
NODE = {"metadata": {"name": "n", "uid": "node-1"}}


class Objects:
    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {
            ("serviceaccounts", "robot"): ACCOUNT,
            ("pods", "p"): POD,
            ("nodes", "n"): NODE,
        }

    def get(self, group: str, plural: str, namespace: str, name: str) -> dict[str, Any] | None:
        return self.objects.get((plural, name))


@pytest.fixture(scope="module")
def signer() -> TokenSigner:
    return TokenSigner.generate()


class World:
    """A server's authentication with a clock that tests move."""

    def __init__(self, signer: TokenSigner) -> None:
        self.now = NOW
        self.objects = Objects()
        self.signer = signer
        self.authenticator = TokenAuthenticator(
            static_tokens={"s3cret": UserInfo("admin", ("system:masters",))},
            signer=signer,
            lookup=self.objects,
            epoch=lambda: self.now,
        )

    def token(self, **spec: Any) -> str:
        body: dict[str, Any] = {"metadata": {}, "spec": spec}
        reviews.check_token_request(body, ACCOUNT)
        made = reviews.token_request(body, ACCOUNT, signer=self.signer, now=self.now, pod=POD, node=NODE)
        return str(made["status"]["token"])

    def user(self, token: str) -> UserInfo | None:
        return self.authenticator.authenticate({"authorization": f"Bearer {token}"}, None)


@pytest.fixture
def world(signer: TokenSigner) -> World:
    return World(signer)


def test_token_names_account_groups_pod_and_node(world: World) -> None:
    user = world.user(world.token())
    assert user is not None
    assert user.name == "system:serviceaccount:team:robot"
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated")
    assert user.extra["authentication.kubernetes.io/node-name"] == ("n",)
    assert user.extra["authentication.kubernetes.io/pod-uid"] == ("pod-1",)


def test_token_expires_even_after_it_was_seen(world: World) -> None:
    token = world.token(expirationSeconds=600)
    assert world.user(token)
    world.now += 600
    with pytest.raises(StatusError, match="Unauthorized"):
        world.user(token)


@pytest.mark.parametrize("gone", [("serviceaccounts", "robot"), ("pods", "p")])
def test_deleting_what_a_token_is_bound_to_revokes_it(world: World, gone: tuple[str, str]) -> None:
    token = world.token()
    assert world.user(token)
    del world.objects.objects[gone]
    with pytest.raises(StatusError):
        world.user(token)


def test_recreated_account_does_not_inherit_tokens(world: World) -> None:
    token = world.token()
    world.objects.objects["serviceaccounts", "robot"] = {"metadata": {**ACCOUNT["metadata"], "uid": "sa-2"}}
    with pytest.raises(StatusError):
        world.user(token)


def test_token_for_another_audience_is_refused_also_when_cached(world: World) -> None:
    token = world.token(audiences=["vault"])
    with pytest.raises(StatusError):
        world.user(token)
    assert world.authenticator.token_user(token, ("vault",))
    with pytest.raises(StatusError):
        world.user(token)


def encode(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def forgeries(signer: TokenSigner, token: str) -> dict[str, str]:
    head, body, signature = token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    other = encode({**claims, "sub": "system:serviceaccount:kube-system:root"})
    public = json.dumps(signer.jwks()).encode()
    symmetric = f"{encode({'alg': 'HS256', 'kid': signer.key_id})}.{body}"
    return {
        "other-body": f"{head}.{other}.{signature}",
        "none-algorithm": f"{encode({'alg': 'none', 'kid': signer.key_id})}.{body}.",
        "none-with-signature": f"{encode({'alg': 'none', 'kid': signer.key_id})}.{body}.{signature}",
        "public-key-as-secret": f"{symmetric}.{encode(hmac.new(public, symmetric.encode(), hashlib.sha256).digest())}",
        "no-signature": f"{head}.{body}.",
        "zero-signature": f"{head}.{body}.{encode(bytes(64))}",
        "two-parts": f"{head}.{body}",
        "not-base64": "a.b!.c",
        "not-json": f"{encode(b'x')}.{encode(b'y')}.{signature}",
        "a-list": f"{encode([])}.{body}.{signature}",
        "nested": f"{encode(b'[' * 8000)}.{body}.{signature}",
        "long": "a" * 100_000,
        "non-ascii": "tökén",
    }


def test_forged_tokens_are_refused(world: World) -> None:
    for name, forged in forgeries(world.signer, world.token()).items():
        with pytest.raises(StatusError, match="Unauthorized"):
            world.user(forged)
        with pytest.raises(TokenError):
            world.signer.verify(forged, now=NOW)
        assert name


def test_token_of_another_cluster_is_refused(world: World) -> None:
    foreign = World(TokenSigner.generate()).token()
    with pytest.raises(StatusError):
        world.user(foreign)


@pytest.mark.parametrize(
    "header", ["Basic YWRtaW46eA==", "Bearer", "Bearer ", "s3cret", "Bearer wrong", "Token s3cret"]
)
def test_wrong_credentials_are_never_anonymous(world: World, header: str) -> None:
    with pytest.raises(StatusError, match="Unauthorized"):
        world.authenticator.authenticate({"authorization": header}, None)


def test_no_credentials_is_anonymous_and_static_token_is_its_user(world: World) -> None:
    assert world.authenticator.authenticate({}, None) is None
    user = world.user("s3cret")
    assert user is not None
    assert user.is_master
    assert "system:authenticated" in user.groups


def test_short_tokens_are_refused(world: World) -> None:
    with pytest.raises(StatusError, match="may not specify a duration less than 10 minutes"):
        world.token(expirationSeconds=599)


def test_key_file_is_private_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "token.key"
    first = TokenSigner.load(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert TokenSigner.load(path).key_id == first.key_id


def test_token_review_tells_who_and_for_whom(world: World) -> None:
    token = world.token()
    good = reviews.token_review({"spec": {"token": token}}, world.authenticator)["status"]
    assert good["authenticated"]
    assert good["audiences"] == [AUDIENCE]
    assert good["user"]["username"] == "system:serviceaccount:team:robot"
    bad = reviews.token_review({"spec": {"token": "x.y.z"}}, world.authenticator)["status"]
    assert "authenticated" not in bad
    assert token not in json.dumps(bad)
