"""Nonsense of every kind: no 5xx, no traceback, no hang, nothing stored.

Requests are made from our own OpenAPI (schemathesis, in the long run), by mutating good requests, and from random bytes.
A few 500s are Kubernetes' own answers to bad versions and applies; those texts are known and let through.
"""

from __future__ import annotations

import json
import logging
import random
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import pytest

from tests.apiserver.serving import CLAIMS, Running, claim, running_server

# What Kubernetes itself answers with 500 for bad input.
KNOWN_500 = (
    "strconv.ParseUint", "resourceVersion should not be set", "failed to create typed patch object", "target.", "more than one",
)  # fmt: skip
PATHS = [
    "/api/v1/namespaces", "/api/v1/namespaces/default/pods", "/api/v1/nodes", "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/events", CLAIMS, "/apis/resource.k8s.io/v1/deviceclasses",
    "/apis/resource.k8s.io/v1/resourceslices", "/apis/resource.k8s.io/v1beta1/resourceslices",
    "/apis/resource.k8s.io/v1beta2/devicetaintrules", "/apis/apps/v1/namespaces/default/deployments",
    "/apis/batch/v1/namespaces/default/jobs", "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles", "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    "/apis/events.k8s.io/v1/namespaces/default/events", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", "/apis", "/api", "/openapi/v3", "/version",
]  # fmt: skip
QUERIES = ["labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "resourceVersionMatch", "watch",
           "timeoutSeconds", "dryRun", "fieldValidation", "fieldManager", "force", "gracePeriodSeconds",
           "propagationPolicy", "sendInitialEvents", "allowWatchBookmarks", "includeObject", "pretty"]  # fmt: skip
TYPES = ["application/json", "application/yaml", "application/merge-patch+json", "application/json-patch+json",
         "application/strategic-merge-patch+json", "application/apply-patch+yaml", "text/plain", "",
         "application/vnd.kubernetes.protobuf"]  # fmt: skip
ODD: list[Any] = [None, 0, -1, 2**63, 1.5, "", "x", "\u0000", "é" * 300, [], {}, [None], {"": ""}, True, "../..", "%2f"]


@pytest.fixture
def running(caplog: pytest.LogCaptureFixture) -> Iterator[Running]:
    with caplog.at_level(logging.ERROR), running_server() as found:
        yield found
        assert not caplog.records, caplog.text  # a traceback of a request would be here


def mutate(dice: random.Random, value: Any, depth: int = 0) -> Any:
    if depth > 6 or dice.random() < 0.15:
        return dice.choice(ODD)
    if isinstance(value, dict):
        out = {name: mutate(dice, item, depth + 1) if dice.random() < 0.4 else item for name, item in value.items()}
        if dice.random() < 0.2:
            out[dice.choice(["", "spec", "status", "metadata", "unknown", "kind"])] = dice.choice(ODD)
        return out
    if isinstance(value, list):
        return [mutate(dice, item, depth + 1) for item in value]
    return dice.choice(ODD) if dice.random() < 0.3 else value


def body(dice: random.Random) -> bytes:
    kind = dice.random()
    if kind < 0.1:
        return dice.randbytes(dice.randrange(200))
    pod = {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 1}]}]},
    }
    device = {"name": "d", "attributes": {"a": {"string": "x"}}, "capacity": {"m": {"value": "1Gi"}}}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    slices = {"metadata": {"name": "s"}, "spec": {"driver": "d.e", "pool": pool, "nodeName": "n", "devices": [device]}}
    operations = [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}, {"op": "test", "path": "/x"}]
    start = dice.choice([claim("fuzz", labels={"a": "b"}), pod, slices, operations, {"metadata": {"name": "x"}}])
    try:
        return json.dumps(mutate(dice, start)).encode()
    except ValueError:
        return b"{}"


def request(dice: random.Random, token: str) -> bytes:
    method = dice.choice(["GET", "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"])
    path = dice.choice(PATHS)
    if dice.random() < 0.6:
        path += "/" + dice.choice(["fuzz", "default", "x", "..", "%00", "%ff", "a%2fb", "", "UPPER", "p"])
    if dice.random() < 0.2:
        path += "/" + dice.choice(["status", "scale", "binding", "eviction", "log", "exec", "nothing", "token"])
    names = dice.sample(QUERIES, dice.randrange(4))
    values = [
        "",
        "0",
        "1",
        "-1",
        "true",
        "All",
        "x",
        "a=b",
        "a in (",
        "%zz",
        "99999999999999999999",
        "Strict",
        "Exact",
        "\x7f",
    ]
    query = "&".join(f"{name}={dice.choice(values)}" for name in names if name != "watch")
    if "timeoutSeconds" not in query:
        query += "&timeoutSeconds=1"
    data = b"" if method in ("GET", "HEAD") else body(dice)
    target = f"{path}?{query}".replace("\x7f", "%7f").replace(" ", "%20")
    accept = dice.choice(
        ["application/json", "*/*", "application/json;as=Table;v=v1;g=meta.k8s.io", "text/html", "a/b;c=d;;"]
    )
    head = (
        f"{method} {target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nAccept: {accept}\r\n"
        f"Content-Type: {dice.choice(TYPES)}\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("latin-1", "replace") + data


def exchange(running: Running, context: ssl.SSLContext, data: bytes) -> bytes:
    with (
        socket.create_connection(("127.0.0.1", running.server.port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        secure.sendall(data)
        out = b""
        try:
            while part := secure.recv(65536):
                out += part
        except (ConnectionResetError, ssl.SSLEOFError):
            pass
        return out


def assert_answered(sent: bytes, answer: bytes) -> None:
    assert answer.startswith(b"HTTP/1.1 "), (sent, answer)
    code = int(answer[9:12])
    if code >= 500 and code not in (503, 504):
        text = answer.partition(b"\r\n\r\n")[2].decode("utf-8", "replace")
        assert code == 500, (sent, answer)
        if sent.startswith(b"HEAD "):
            return  # no body to tell the known ones by; the same path is asked by GET often enough
        assert any(known in text for known in KNOWN_500), (sent, text)


def mutated_requests(running: Running, count: int, seed: int) -> None:
    dice = random.Random(seed)
    context = running.context()
    for _ in range(count):
        data = request(dice, running.server.admin_token)
        before = running.server.store.version
        answer = exchange(running, context, data)
        assert_answered(data, answer)
        if int(answer[9:12]) >= 400:
            assert running.server.store.version == before, (data, answer)


def random_bytes(running: Running, count: int, seed: int) -> None:
    dice = random.Random(seed)
    context = running.context()
    good = f"GET {CLAIMS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {running.server.admin_token}\r\nConnection: close\r\n\r\n".encode()
    before = running.server.store.version
    for _ in range(count):
        data = bytearray(good)
        for _ in range(dice.randrange(1, 6)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        text = bytes(data) if dice.random() < 0.8 else dice.randbytes(300) + b"\r\n\r\n\r\n"
        with (
            socket.create_connection(("127.0.0.1", running.server.port), timeout=10) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secure,
        ):
            secure.sendall(text)
            secure.settimeout(0.05)  # half a request has no answer: the server waits for the rest
            try:
                answer = secure.recv(65536)
            except (TimeoutError, ConnectionResetError, ssl.SSLError):
                answer = b""
        assert not answer or 200 <= int(answer[9:12]) < 500, (text, answer)
    assert running.server.store.version == before


@pytest.mark.slow
def test_three_hundred_mutated_requests(running: Running) -> None:
    mutated_requests(running, 300, seed=1)


@pytest.mark.slow
def test_a_hundred_garbled_requests(running: Running) -> None:
    random_bytes(running, 100, seed=2)
    assert running.json("GET", "/version")[0] == 200


@pytest.mark.long
def test_eight_thousand_mutated_requests(running: Running) -> None:
    mutated_requests(running, 8000, seed=3)


@pytest.mark.long
def test_a_thousand_garbled_requests(running: Running) -> None:
    random_bytes(running, 1000, seed=4)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_requests_made_from_our_own_openapi(running: Running) -> None:
    schemathesis = pytest.importorskip("schemathesis")
    from hypothesis import HealthCheck, Phase, given, settings

    code, document = running.json("GET", "/openapi/v3/apis/resource.k8s.io/v1")
    assert code == 200
    loaded = schemathesis.openapi.from_dict(document)
    headers = {"Authorization": f"Bearer {running.server.admin_token}"}
    certificate = running.kubeconfig.with_name("ca.crt")
    certificate.write_bytes((running.server.folder / "pki" / "ca.crt").read_bytes())
    for result in loaded.get_all_operations():
        operation = result.ok()

        @settings(
            max_examples=20,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            database=None,
        )
        @given(case=operation.as_strategy())
        def one(case: Any) -> None:
            if "watch" in (case.query or {}):
                case.query["watch"] = "false"
            answer = case.call(base_url=running.url, headers=headers, verify=str(certificate), timeout=20)
            known = any(text in answer.text for text in KNOWN_500)
            assert answer.status_code < 500 or answer.status_code == 504 or known, (case, answer.text)

        one()
