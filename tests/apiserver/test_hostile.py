"""What a client may send to hurt the server: each is answered, with a client's fault, and the server lives on."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from drakit.apiserver.auth import UserInfo
from tests import effort
from tests.apiserver.serving import Running, running_server

pytestmark = pytest.mark.slow
MAPS = "/api/v1/namespaces/default/configmaps"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
DIGITS = "9" * 5000


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with running_server(tokens={"bob": UserInfo("bob")}) as server:
        code, _ = server.json("POST", MAPS, {"metadata": {"name": "there"}, "data": {"a": "b"}})
        assert code == 201
        yield server


def sent(
    running: Running, method: str, path: str, body: Any = None, media: str = "application/json"
) -> tuple[int, bytes]:
    with effort.bounded():
        code, _, answer = running.http(method, path, body, {"Content-Type": media})
    assert running.http("GET", "/healthz")[0] == 200
    return code, answer


def token(version: Any, start: Any) -> str:
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": start}).encode()
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


QUERIES = {
    "many-digits-version": "resourceVersion=" + DIGITS,
    "superscript-version": "resourceVersion=%C2%B2",
    "negative-version": "resourceVersion=-1",
    "many-digits-limit": "limit=" + DIGITS,
    "word-limit": "limit=NaN",
    "broken-continue": "continue=%00",
    "long-continue": "continue=" + "A" * 9000,
    "continue-with-large-version": "limit=1&continue=" + token(10**30, "default/a"),
    "continue-with-list": "limit=1&continue=" + token([1], {"a": 1}),
    "continue-upwards": "limit=1&continue=" + token(1, "../kube-system/x"),
    "brackets-in-labels": "labelSelector=" + "(" * 4000,
    "control-in-labels": "labelSelector=a%3D%00",
    "broken-fields": "fieldSelector=%5C,%5C",
    "version-match": "resourceVersionMatch=Foo",
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_strange_questions_are_bad_requests(running: Running, query: str) -> None:
    code, answer = sent(running, "GET", f"{MAPS}?{query}")
    assert 400 <= code < 500, answer
    assert json.loads(answer)["kind"] == "Status"


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("labelSelector=" + ",".join(f"a{i}" for i in range(2000)), id="many-labels"),
        pytest.param("labelSelector=a%20in%20(" + "b," * 5000 + "c)", id="many-values"),
        pytest.param("fieldSelector=" + ",".join(f"metadata.name%3Da{i}" for i in range(600)), id="many-fields"),
        pytest.param("&".join("x" for _ in range(7000)), id="many-parameters"),
        pytest.param("limit=-1", id="negative-limit"),
        pytest.param("timeoutSeconds=-5", id="negative-timeout"),
    ],
)
def test_long_questions_are_just_answered(running: Running, query: str) -> None:
    code, answer = sent(running, "GET", f"{MAPS}?{query}")
    assert code == 200, answer


def test_continue_tokens_do_not_reach_across_namespaces_or_kinds(running: Running) -> None:
    for number in range(3):
        body = {"metadata": {"name": f"s{number}"}, "stringData": {"p": "hunter2"}}
        assert running.json("POST", "/api/v1/namespaces/kube-system/secrets", body)[0] == 201
    _, listed = running.json("GET", "/api/v1/namespaces/kube-system/secrets?limit=1")
    tokens = [listed["metadata"]["continue"]]
    tokens += [token(version, start) for version in (-1, 0, 1) for start in ("a", "kube-system/s0", "zzz/")]
    for each in tokens:
        code, answer = sent(running, "GET", f"{MAPS}?limit=10&continue={each}")
        if code == 200:
            items = json.loads(answer)["items"]
            assert {item["metadata"]["namespace"] for item in items} <= {"default"}
        assert b"aHVudGVyMg" not in answer


def bomb(levels: int = 10) -> bytes:
    lines = [b"a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    lines += [b"a%d: &a%d [%s]" % (n, n, b",".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, levels)]
    return b"\n".join(lines)


def merges(levels: int = 9) -> bytes:
    lines = [b"a0: &a0 {k: 1}"]
    lines += [b"a%d: &a%d {<<: [%s]}" % (n, n, b",".join([b"*a%d" % (n - 1)] * 20)) for n in range(1, levels)]
    return b"\n".join(lines)


YAML = {
    "dashes": b"- " * 50_000,  # the C library's composer runs out of stack on these: the process ended
    "brackets": b"[" * 50_000,
    "braces": b"{a: " * 20_000,
    "questions": b"? " * 30_000,
    "staircase": b"\n".join(b" " * n + b"a:" for n in range(2000)),
    "aliases": bomb(),
    "merges": merges(),
    "alias-of-itself": b"a: &a\n  b: *a\n",
    "merge-of-itself": b"a: &a {<<: *a}\n",
    "python-tag": b"!!python/object/apply:os.system ['id']",
    "not-a-number": b"metadata: {name: x}\ndata: {a: .nan}\n",
    "sixty-base": b"metadata: {generation: !!int " + b"1:" * 100_000 + b"1}",
    "hex": b"metadata: {generation: 0x" + b"f" * 100_000 + b"}",
    "bytes": b"metadata: {name: !!binary aGk=}",
    "set": b"metadata: !!set {a, b}",
    "no-bool": b"metadata: {name: !!bool maybe}",
    "list-key": b"? [a, b]\n: c\n",
    "null": b"a: \x00",
}


@pytest.mark.parametrize("body", YAML.values(), ids=YAML.keys())
def test_yaml_that_would_hurt_is_refused(running: Running, body: bytes) -> None:
    code, answer = sent(running, "POST", MAPS, body, "application/yaml")
    assert code == 400, answer
    code, answer = sent(running, "PATCH", f"{MAPS}/there?fieldManager=x", body, "application/apply-patch+yaml")
    assert code == 400, answer


JSON = {
    "brackets": b"[" * 100_000,
    "braces": b'{"a":' * 100_000,
    "deep": b'{"metadata":{"name":"q"},"data":' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}",
    "nan": b'{"metadata":{"name":"n","generation":NaN}}',
    "infinity": b'{"metadata":{"name":"n","generation":1e999}}',
    "digits": b'{"metadata":{"name":"n","generation":' + b"9" * 100_000 + b"}}",
    "surrogate": b'{"metadata":{"name":"\\ud800"}}',
    "second-namespace": b'{"metadata":{"name":"d"},"metadata":{"name":"d","namespace":"kube-system"}}',
    "other-encoding": b"\xff\xfe{\x00}\x00",
    "more-after-it": b'{"metadata":{"name":"ok"}}{"metadata":{"name":"ok2"}}',
    "zero-in-a-name": b'{"metadata":{"name":"a\\u0000b"}}',
    "letters": '{"metadata":{"name":"ünïcode"}}'.encode(),
    "long-name": b'{"metadata":{"name":"' + b"a" * 100_000 + b'"}}',
    "large-generation": b'{"metadata":{"name":"x","generation":1180591620717411303424}}',
    "year": b'{"metadata":{"name":"x","creationTimestamp":"99999-01-01T00:00:00Z"}}',
    "labels": json.dumps({"metadata": {"name": "x", "labels": {f"k {n}": "v" for n in range(30_000)}}}).encode(),
    "annotations": json.dumps({"metadata": {"name": "x", "annotations": {"a": "x" * 300_000}}}).encode(),
}


@pytest.mark.parametrize("body", JSON.values(), ids=JSON.keys())
def test_json_that_would_hurt_is_refused(running: Running, body: bytes) -> None:
    code, answer = sent(running, "POST", MAPS, body)
    assert code in (400, 422), answer


def test_compressed_bodies_are_not_unpacked(running: Running) -> None:
    import gzip

    body = gzip.compress(b" " * 2_000_000 + b'{"metadata":{"name":"packed"}}')
    code, _, answer = running.http("POST", MAPS, body, {"Content-Encoding": "gzip"})
    assert code in (400, 415), answer


@pytest.mark.parametrize(
    ("media", "patch"),
    [
        ("json-patch+json", [{"op": "copy", "from": "/data", "path": "/data/x"}] * 30),
        ("json-patch+json", [{"op": "test", "path": "/metadata/name", "value": "there"}] * 11_000),
        ("json-patch+json", [{"op": "move", "from": "", "path": "/data"}]),
        ("json-patch+json", [{"op": "add", "path": "/metadata/finalizers/--5", "value": "a/b"}]),
        ("json-patch+json", [{"op": "add", "path": "/metadata/finalizers", "value": ["a/b"]}, {"op": "remove", "path": "/metadata/finalizers/--1"}]),
        ("json-patch+json", [{"op": "add", "path": "/metadata/finalizers", "value": ["a/b"]}, {"op": "remove", "path": "/metadata/finalizers/" + DIGITS}]),
        ("json-patch+json", {"a": 1}),
        ("json-patch+json", [5]),
        ("json-patch+json", [{"op": "add", "path": 5, "value": 1}]),
        ("merge-patch+json", []),
        ("merge-patch+json", {"metadata": {"uid": "x"}}),
        ("merge-patch+json", {"metadata": {"resourceVersion": DIGITS}}),
        ("strategic-merge-patch+json", {"metadata": {"$retainKeys": 5}}),
        ("strategic-merge-patch+json", {"metadata": {"ownerReferences": [{"$patch": "x"}]}}),
    ],
)  # fmt: skip
def test_patches_that_make_no_sense_change_nothing(running: Running, media: str, patch: Any) -> None:
    before = running.json("GET", f"{MAPS}/there")[1]
    code, answer = sent(running, "PATCH", f"{MAPS}/there", patch, f"application/{media}")
    # A bare 500 with Go's complaint is what Kubernetes answers for a resourceVersion that is no number.
    assert 400 <= code < 500 or (code == 500 and b"strconv" in answer), answer
    assert running.json("GET", f"{MAPS}/there")[1] == before


@pytest.mark.parametrize(
    ("options", "own"),
    [
        ({"gracePeriodSeconds": 2**62}, 30),
        ({"gracePeriodSeconds": -(2**62)}, 30),
        ({"gracePeriodSeconds": 10**30}, 30),
        ({}, 2**63 - 1),
        ({"gracePeriodSeconds": 5}, 2**63 - 1),
    ],
)
def test_grace_without_end_does_not_break_the_calendar(running: Running, options: dict[str, Any], own: int) -> None:
    containers = [{"name": "c", "image": "i"}]
    spec = {"containers": containers, "nodeName": "n", "terminationGracePeriodSeconds": own}
    path = "/api/v1/namespaces/default/pods"
    code, answer = running.json("POST", path, {"metadata": {"name": "graceful"}, "spec": spec})
    assert code == 201, answer
    code, text = sent(running, "DELETE", f"{path}/graceful", options)
    assert code < 500, text
    running.json("DELETE", f"{path}/graceful", {"gracePeriodSeconds": 0})


@pytest.mark.parametrize(
    "exactly",
    [
        pytest.param({"count": 10**30}, id="count"),
        pytest.param({"capacity": {"requests": {"a": DIGITS}}}, id="digits"),
        pytest.param({"capacity": {"requests": {"a": "1e" + "9" * 3000}}}, id="exponent"),
        pytest.param({"selectors": [{"cel": {"expression": "(" * 5000 + "true" + ")" * 5000}}]}, id="brackets"),
        pytest.param({"selectors": [{"cel": {"expression": "device.driver.matches('" + "(a{1,900}){1,900}" * 9 + "')"}}]}, id="pattern"),
        pytest.param({"selectors": [{"cel": {"expression": "[" * 3000 + "]" * 3000 + " == []"}}]}, id="lists"),
    ],
)  # fmt: skip
def test_claims_with_monstrous_numbers_and_expressions_are_refused(running: Running, exactly: dict[str, Any]) -> None:
    request = {"name": "r", "exactly": {"deviceClassName": "x", **exactly}}
    code, answer = sent(
        running, "POST", CLAIMS, {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}
    )
    assert code in (400, 422), answer


def test_dry_runs_leave_nothing_behind(running: Running) -> None:
    version = running.call(lambda: running.server.store.version)
    pod = {"metadata": {"name": "dry"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    apply = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dry"}}
    for method, path, body, media in (
        ("POST", f"{MAPS}?dryRun=All", {"metadata": {"name": "dry"}}, "json"),
        ("PUT", f"{MAPS}/there?dryRun=All", {"metadata": {"name": "there"}, "data": {"x": "y"}}, "json"),
        ("PATCH", f"{MAPS}/there?dryRun=All", {"data": {"x": "y"}}, "merge-patch+json"),
        ("PATCH", f"{MAPS}/dry?dryRun=All&fieldManager=x", apply, "apply-patch+yaml"),
        ("DELETE", f"{MAPS}/there?dryRun=All", None, "json"),
        ("DELETE", f"{MAPS}?dryRun=All", None, "json"),
        ("DELETE", f"{MAPS}/there", {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]}, "json"),
        ("POST", "/api/v1/namespaces/default/pods?dryRun=All", pod, "json"),
        ("POST", "/api/v1/namespaces?dryRun=All", {"metadata": {"name": "dry"}}, "json"),
        ("DELETE", "/api/v1/namespaces/kube-node-lease?dryRun=All", None, "json"),
    ):
        code, answer = sent(running, method, path, body, f"application/{media}")
        assert code in (200, 201), answer
    assert running.call(lambda: running.server.store.version) == version


def test_protobuf_that_is_none_is_refused(running: Running) -> None:
    for body in (
        b"k8s\x00" + b"\xff" * 1000,
        b"k8s\x00\x0a" + b"\x80" * 9 + b"\x01",
        b"k8s\x00" + b"\x0b" * 100_000,
        b"k8s\x00",
    ):
        code, answer = sent(running, "POST", MAPS, body, "application/vnd.kubernetes.protobuf")
        assert 400 <= code < 500, answer
