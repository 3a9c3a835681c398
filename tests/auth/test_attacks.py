"""Ways around the rules, tried on a real server over HTTPS. None gets through."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from yarl import URL

from drakit.api.errors import StatusError
from drakit.apiserver.certificates import issue
from tests.auth.conftest import Web

pytestmark = pytest.mark.slow
PODS = "/api/v1/namespaces/team/pods"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
DRA = "/apis/resource.k8s.io/v1"
OnServer = Callable[..., None]


def role(name: str, *rules: tuple[str, str, str]) -> dict[str, Any]:
    plain = [{"verbs": v.split(), "apiGroups": ["" if g == "core" else g], "resources": r.split()} for v, g, r in rules]
    return {"metadata": {"name": name}, "rules": plain}


def binding(name: str, kind: str, ref: str, user: str) -> dict[str, Any]:
    group = "rbac.authorization.k8s.io"
    subject = {"kind": "User", "apiGroup": group, "name": user}
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": kind, "name": ref},
        "subjects": [subject],
    }


async def team(web: Web) -> None:
    """A namespace `team` in which alice has the role edit and the default service account exists."""
    assert (await web("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}}))[0] == 201
    bound = binding("alice", "ClusterRole", "edit", "alice")
    assert (await web("POST", f"{RBAC}/namespaces/team/rolebindings", bound))[0] == 201
    assert (await web("POST", "/api/v1/namespaces/team/serviceaccounts", {"metadata": {"name": "robot"}}))[0] == 201


def test_tenant_stays_in_the_namespace(on_server: OnServer) -> None:
    async def work(web: Web) -> None:
        await team(web)
        expected = {
            PODS: 200,
            "/api/v1/namespaces/default/pods": 403,
            "/api/v1/pods": 403,
            "/api/v1/namespaces/team/secrets": 200,
            "/api/v1/namespaces/kube-system/secrets": 403,
            "/api/v1/nodes": 403,
            f"{DRA}/resourceslices": 403,
            f"{DRA}/namespaces/team/resourceclaims": 200,
            f"{RBAC}/clusterroles": 403,
            "/metrics": 403,
            "/api": 200,
        }
        got = {path: (await web("GET", path, token="alice-token"))[0] for path in expected}
        assert got == expected

    on_server(work)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/team/../kube-system/secrets",
        "/api/v1/namespaces/team/%2e%2e/kube-system/secrets",
        "/api/v1/namespaces/team%2F..%2Fkube-system/secrets",
        "/api/v1//namespaces/kube-system/secrets",
        "/api/v1/namespaces/kube-system/secrets/",
        "//api/v1/namespaces/kube-system/secrets",
        "/api/v1/namespaces/kube-system%00/secrets",
        "/api/v1/namespaces/team/pods/../../kube-system/secrets",
        "/api/v1/namespaces/team/pods/x/..%2f..%2fsecrets",
        "/api/v1/watch/namespaces/kube-system/secrets",
        "/api/v1/namespaces/kube-system/secrets?namespace=team",
    ],
)
def test_path_tricks_lead_nowhere(on_server: OnServer, path: str) -> None:
    async def work(web: Web) -> None:
        await team(web)
        secret = {"metadata": {"name": "s"}, "stringData": {"password": "hunter2"}}
        assert (await web("POST", "/api/v1/namespaces/kube-system/secrets", secret))[0] == 201
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", web.server.port, ssl=web.tls, server_hostname="localhost"
        )
        request = (
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer alice-token\r\nConnection: close\r\n\r\n"
        )
        writer.write(request.encode())
        answer = await asyncio.wait_for(reader.read(), 5)
        writer.close()
        status = int(answer.split(b" ", 2)[1])
        assert 400 <= status < 500, answer
        assert b"hunter2" not in answer
        assert b"aHVudGVyMg" not in answer

    on_server(work)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(
            "GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer bob-token\r\nAuthorization: Bearer {admin}\r\n\r\n",
            id="two-authorizations",
        ),
        pytest.param(
            "GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization : Bearer {admin}\r\n\r\n", id="space-before-colon"
        ),
        pytest.param(
            "GET {path} HTTP/1.1\r\nHost: x\r\nX-Remote-User: root\r\nX-Remote-Group: system:masters\r\n\r\n",
            id="front-proxy-headers",
        ),
        pytest.param(
            "POST /api HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer bob-token\r\n\r\n",
            id="length-and-chunked",
        ),
        pytest.param(
            "GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer bob-token\r\nImpersonate-Group: system:masters\r\n\r\n",
            id="group-without-user",
        ),
        pytest.param(
            "GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer bob-token\r\nImpersonate-User: admin\r\nImpersonate-Group: system:masters\r\n\r\n",
            id="impersonation-without-right",
        ),
        pytest.param("GET {path} HTTP/1.1\r\nHost: x\r\nImpersonate-User: admin\r\n\r\n", id="anonymous-impersonation"),
    ],
)
def test_header_tricks_lead_nowhere(on_server: OnServer, raw: str) -> None:
    async def work(web: Web) -> None:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", web.server.port, ssl=web.tls, server_hostname="localhost"
        )
        writer.write(raw.format(path="/api/v1/namespaces", admin=web.server.admin_token).encode())
        writer.write_eof() if writer.can_write_eof() else None
        answer = b""
        try:
            async with asyncio.timeout(1):
                while chunk := await reader.read(65536):
                    answer += chunk
        except TimeoutError:
            pass  # kept alive: everything it had to say was said
        writer.close()
        assert b"HTTP/1.1 200" not in answer, answer
        assert b"kube-system" not in answer

    on_server(work)


def test_impersonation_needs_the_right_for_each_part(on_server: OnServer) -> None:
    async def work(web: Web) -> None:
        await team(web)
        may = {
            "metadata": {"name": "as-bob"},
            "rules": [{"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["bob"]}],
        }
        await web("POST", f"{RBAC}/clusterroles", may)
        await web("POST", f"{RBAC}/clusterrolebindings", binding("as-bob", "ClusterRole", "as-bob", "alice"))
        whoami = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        status, who = await web("POST", whoami, body, token="alice-token", Impersonate_User="bob")
        assert (status, who["status"]["userInfo"]["username"]) == (201, "bob")
        for headers in (
            {"Impersonate_User": "carol"},
            {"Impersonate_User": "bob", "Impersonate_Group": "system:masters"},
            {"Impersonate_User": "bob", "Impersonate_Extra_Scopes": "all"},
            {"Impersonate_User": "bob", "Impersonate_Uid": "1"},
            {"Impersonate_User": "system:serviceaccount:kube-system:default"},
        ):
            status, _ = await web("POST", whoami, body, token="alice-token", **headers)
            assert status == 403, headers

    on_server(work)


def certificate(folder: Path, user: str, group: str) -> None:
    """A client certificate of a CA of our own making."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group), x509.NameAttribute(NameOID.COMMON_NAME, user)]
    )
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    (folder / "x.crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "x.key").write_bytes(private)


async def with_certificate(web: Web, folder: Path, name: str) -> int:
    tls = ssl.create_default_context(cadata=web.server._credentials.ca.decode())
    tls.load_cert_chain(folder / f"{name}.crt", folder / f"{name}.key")
    async with aiohttp.ClientSession() as session, session.get(web.server.url + "/api/v1/nodes", ssl=tls) as answer:
        return answer.status


def test_certificate_of_another_authority_is_refused(on_server: OnServer, tmp_path: Path) -> None:
    async def work(web: Web) -> None:
        certificate(tmp_path, "kubernetes-admin", "system:masters")
        with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
            await with_certificate(web, tmp_path, "x")
        pki = web.server.folder / "pki"
        issue(pki, "carol", "carol", ())
        assert await with_certificate(web, pki, "carol") == 403
        assert await with_certificate(web, pki, "admin") == 200

    on_server(work)


def test_roles_cannot_be_used_to_climb(on_server: OnServer) -> None:
    async def work(web: Web) -> None:
        await team(web)
        assert (
            await web("POST", f"{RBAC}/namespaces/team/rolebindings", binding("boss", "ClusterRole", "admin", "bob"))
        )[0] == 201
        roles, bindings = f"{RBAC}/namespaces/team/roles", f"{RBAC}/namespaces/team/rolebindings"
        everything = role("all", ("*", "*", "*"))
        status, answer = await web("POST", roles, everything, token="bob-token")
        assert status == 403
        assert "attempting to grant RBAC permissions not currently held" in answer["message"]
        assert (await web("POST", roles, role("fine", ("get", "core", "pods")), token="bob-token"))[0] == 201
        widened = {"rules": everything["rules"]}
        assert (await web("PATCH", f"{roles}/fine", widened, token="bob-token"))[0] == 403
        assert (await web("POST", bindings, binding("up", "ClusterRole", "cluster-admin", "bob"), token="bob-token"))[
            0
        ] == 403
        assert (await web("POST", bindings, binding("none", "Role", "missing", "bob"), token="bob-token"))[0] in (
            403,
            404,
        )
        assert (await web("POST", bindings, binding("ok", "Role", "fine", "carol"), token="bob-token"))[0] == 201
        assert (await web("POST", f"{RBAC}/clusterroles", role("mine", ("get", "core", "pods")), token="bob-token"))[
            0
        ] == 403

    on_server(work)


async def robot_token(web: Web) -> str:
    status, made = await web("POST", "/api/v1/namespaces/team/serviceaccounts/robot/token", {"spec": {}})
    assert status == 201, made
    return str(made["status"]["token"])


def test_watch_ends_when_its_token_is_revoked(on_server: OnServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drakit.apiserver.server._SWEEP_SECONDS", 0.05)

    async def work(web: Web) -> None:
        await team(web)
        bound = binding("robot", "ClusterRole", "view", "system:serviceaccount:team:robot")
        await web("POST", f"{RBAC}/namespaces/team/rolebindings", bound)
        token = await robot_token(web)
        headers = {"Authorization": f"Bearer {token}"}
        url = f"{web.server.url}/api/v1/namespaces/team/configmaps?watch=1"
        async with web.session.get(url, headers=headers, ssl=web.tls) as stream:
            assert stream.status == 200
            await web("DELETE", "/api/v1/namespaces/team/serviceaccounts/robot")
            async with asyncio.timeout(5):
                rest = await stream.read()  # ends, rather than going on for half an hour
        await web("POST", "/api/v1/namespaces/team/configmaps", {"metadata": {"name": "later"}})
        assert b"later" not in rest
        assert (await web("GET", "/api/v1/namespaces/team/configmaps", token=token))[0] == 401

    on_server(work)


def test_fifty_creates_at_once_do_not_exceed_a_quota(on_server: OnServer) -> None:
    async def work(web: Web) -> None:
        await team(web)
        quota = {"metadata": {"name": "q"}, "spec": {"hard": {"count/resourceclaims.resource.k8s.io": "7"}}}
        assert (await web("POST", "/api/v1/namespaces/team/resourcequotas", quota))[0] == 201

        def claim(number: int) -> dict[str, Any]:
            return {
                "metadata": {"name": f"c{number}"},
                "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
            }

        path = f"{DRA}/namespaces/team/resourceclaims"
        answers = await asyncio.gather(*(web("POST", path, claim(n), token="alice-token") for n in range(50)))
        codes = [status for status, _ in answers]
        assert (codes.count(201), codes.count(403)) == (7, 43)
        assert len((await web("GET", path))[1]["items"]) == 7

    on_server(work)


def test_secrets_and_tokens_stay_out_of_logs(
    on_server: OnServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = tmp_path / "audit.log"

    async def work(web: Web) -> None:
        await team(web)
        await web(
            "POST", "/api/v1/namespaces/team/secrets", {"metadata": {"name": "s"}, "stringData": {"p": "hunter2"}}
        )
        token = await robot_token(web)
        await web("GET", PODS, token=token)
        await web("GET", PODS, token="wrong-token")
        await web("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}})
        assert web.server.audit is not None
        web.server.audit.flush()
        text = log.read_text() + caplog.text
        for secret in (token, web.server.admin_token, "hunter2", "aHVudGVyMg", "wrong-token"):
            assert secret not in text
        users = {json.loads(line)["user"] for line in log.read_text().splitlines()}
        assert {"kubernetes-admin", "system:serviceaccount:team:robot"} <= users

    caplog.set_level("DEBUG")
    on_server(work, audit_log=log, request_log=True)


def test_private_files_are_private(on_server: OnServer, tmp_path: Path) -> None:
    async def work(web: Web) -> None:
        for path in web.server.folder.rglob("*"):
            if path.is_file() and path.suffix in (".key", ".token", ".db"):
                assert path.stat().st_mode & 0o077 == 0, path

    on_server(work, data=tmp_path / "state")


def test_certificates_are_renewed_while_the_server_runs(on_server: OnServer, tmp_path: Path) -> None:
    async def serial(web: Web) -> tuple[int, datetime]:
        _, writer = await asyncio.open_connection(
            "127.0.0.1", web.server.port, ssl=web.tls, server_hostname="localhost"
        )
        shown = x509.load_der_x509_certificate(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
        writer.close()
        return shown.serial_number, shown.not_valid_after_utc

    async def work(web: Web) -> None:
        first, ends = await serial(web)
        now = datetime.now(UTC)
        assert web.server.renew_certificates(now) is False
        assert (await serial(web))[0] == first
        # Seen shortly before the end, it is made anew. (A clock that far ahead would not accept today's connections.)
        assert web.server.renew_certificates(ends - timedelta(days=29)) is True
        pki = web.server.folder / "pki"
        renewed = x509.load_pem_x509_certificate((pki / "server.crt").read_bytes())
        assert renewed.serial_number != first
        assert renewed.not_valid_after_utc > ends
        for path in pki.glob("*.key"):
            assert path.stat().st_mode & 0o077 == 0, path
        # Years later the authority follows, with its own key: what it signed before stays good.
        before = x509.load_pem_x509_certificate((pki / "ca.crt").read_bytes())
        assert web.server.renew_certificates(now + timedelta(days=3300)) is True
        after = x509.load_pem_x509_certificate((pki / "ca.crt").read_bytes())
        assert after.serial_number != before.serial_number
        assert after.public_key() == before.public_key()
        # Back to today: what is offered is again a certificate that clients of today accept.
        (pki / "server.crt").unlink()
        assert web.server.renew_certificates(now) is True
        assert (await serial(web))[0] != first
        assert (await web("GET", "/api/v1/nodes"))[0] == 200

    on_server(work)


def test_a_certificate_ends_also_on_a_connection_that_lasts() -> None:
    from drakit.apiserver.authn import TokenAuthenticator
    from drakit.apiserver.tokens import TokenSigner

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "carol")])
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
        .not_valid_before(now).not_valid_after(now + timedelta(hours=1)).sign(key, hashes.SHA256())
    ).public_bytes(serialization.Encoding.DER)  # fmt: skip
    clock = [int(now.timestamp())]

    class Nothing:
        def get(self, group: str, plural: str, namespace: str, name: str) -> None:
            return None

    authenticator = TokenAuthenticator(
        static_tokens={}, signer=TokenSigner.generate(), lookup=Nothing(), epoch=lambda: clock[0]
    )
    user = authenticator.authenticate({}, made)
    assert user is not None
    assert user.name == "carol"
    clock[0] += 3601
    with pytest.raises(StatusError) as caught:
        authenticator.authenticate({}, made)
    assert caught.value.code == 401


def test_a_path_makes_no_lines_in_the_log(
    on_server: OnServer, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    async def work(web: Web) -> None:
        forged = "/api/v1/x%0AGET%20/secret%20200%20user=root"
        async with web.session.get(URL(web.server.url + forged, encoded=True), ssl=web.tls) as answer:
            assert answer.status in (403, 404)
        assert web.server.audit is not None
        web.server.audit.flush()
        lines = [*caplog.text.splitlines(), *(tmp_path / "audit").read_text().splitlines()]
        assert any("x\\nGET" in line for line in lines)
        assert not any(line.startswith("GET /secret") for line in lines)

    caplog.set_level("INFO")
    on_server(work, request_log=True, audit_log=tmp_path / "audit")


def test_proxy_to_a_node_is_refused_in_plain_words(on_server: OnServer) -> None:
    async def work(web: Web) -> None:
        assert (await web("POST", "/api/v1/nodes", {"metadata": {"name": "n"}}))[0] == 201
        status, answer = await web("GET", "/api/v1/nodes/n/proxy/metrics")
        assert status == 405
        assert "nodes/proxy is not offered by this server" in answer["message"]

    on_server(work)
