"""HTTP as such: keep-alive, pipelining, limits, malformed input, streams, stopping."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import socket
import ssl
import time
from collections.abc import Iterator
from typing import Any

import pytest

from drakit.apiserver.http import Limits
from tests.apiserver.serving import CLAIMS, Running, claim, running_server

pytestmark = pytest.mark.slow  # each begins with a server of its own in a thread


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with running_server(limits=Limits(watch_queue=50)) as found:
        yield found


class Raw:
    """A TLS socket and no HTTP library: what is sent is what the test says."""

    def __init__(self, running: Running) -> None:
        plain = socket.create_connection(("127.0.0.1", running.server.port), timeout=10)
        self.socket = running.context().wrap_socket(plain, server_hostname="localhost")
        self.auth = f"Authorization: Bearer {running.server.admin_token}\r\n"
        self.buffer = b""

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *exc: object) -> None:
        self.socket.close()

    def send(self, text: str | bytes) -> None:
        self.socket.sendall(text if isinstance(text, bytes) else text.encode())

    def get(self, path: str, extra: str = "") -> None:
        self.send(f"GET {path} HTTP/1.1\r\nHost: x\r\n{self.auth}{extra}\r\n")

    def fill(self) -> bool:
        try:
            data = self.socket.recv(65536)
        except (ConnectionResetError, ssl.SSLEOFError):
            return False
        self.buffer += data
        return bool(data)

    def answer(self) -> tuple[int, dict[str, str], bytes]:
        while b"\r\n\r\n" not in self.buffer:
            assert self.fill(), f"closed after {self.buffer!r}"
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        size = int(headers.get("content-length", 0))
        while len(self.buffer) < size:
            assert self.fill()
        body, self.buffer = self.buffer[:size], self.buffer[size:]
        return int(lines[0].split()[1]), headers, body

    def closed(self) -> bool:
        while self.fill():
            pass
        return True


def test_pipelined_requests_are_answered_in_order(running: Running) -> None:
    with Raw(running) as raw:
        for number in range(40):
            raw.get(f"/api/v1/namespaces/n{number}")
        for number in range(40):
            code, _, body = raw.answer()
            assert code == 404
            assert json.loads(body)["details"]["name"] == f"n{number}"


def test_a_pipelined_write_comes_before_the_read_behind_it(running: Running) -> None:
    body = json.dumps(claim("piped"))
    post = f"POST {CLAIMS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    with Raw(running) as raw:
        raw.send(f"{post}{raw.auth}\r\n{body}GET {CLAIMS}/piped HTTP/1.1\r\nHost: x\r\n{raw.auth}\r\n")
        assert [raw.answer()[0], raw.answer()[0]] == [201, 200]


def test_a_request_may_come_byte_by_byte(running: Running) -> None:
    with Raw(running) as raw:
        for byte in f"GET /version HTTP/1.1\r\nHost: x\r\n{raw.auth}\r\n":
            raw.send(byte)
        assert raw.answer()[0] == 200


def test_a_chunked_body_is_read(running: Running) -> None:
    body = json.dumps(claim("chunked")).encode()
    with Raw(running) as raw:
        raw.send(
            f"POST {CLAIMS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n{raw.auth}\r\n"
        )
        for start in range(0, len(body), 50):
            part = body[start : start + 50]
            raw.send(b"%x\r\n%b\r\n" % (len(part), part))
        raw.send("0\r\n\r\n")
        assert raw.answer()[0] == 201


@pytest.mark.parametrize(("name", "most"), [("x", 64), ("x" * 300, 16)])
def test_warnings_stay_within_what_clients_read(running: Running, name: str, most: int) -> None:
    body = json.dumps(claim("warned") | {f"{name}{number:03}": 1 for number in range(200)})
    headers = {"Authorization": f"Bearer {running.server.admin_token}", "Content-Type": "application/json"}
    connection = http.client.HTTPSConnection("127.0.0.1", running.server.port, context=running.context())
    with contextlib.closing(connection):
        # dryRun: both rounds create the same name
        connection.request("POST", f"{CLAIMS}?fieldValidation=Warn&dryRun=All", body, headers)
        answer = connection.getresponse()
        warnings = answer.headers.get_all("Warning") or []
        assert answer.status == 201
        assert len(warnings) == most
        assert all("unknown field" in text for text in warnings)
        assert sum(map(len, warnings)) < 5_000


def test_expect_continue_is_invited(running: Running) -> None:
    body = json.dumps(claim("expected"))
    with Raw(running) as raw:
        raw.send(
            f"POST {CLAIMS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            f"Expect: 100-continue\r\n{raw.auth}\r\n"
        )
        assert raw.answer()[0] == 100
        raw.send(body)
        assert raw.answer()[0] == 201


def test_head_has_no_body(running: Running) -> None:
    with Raw(running) as raw:
        raw.send(f"HEAD /version HTTP/1.1\r\nHost: x\r\n{raw.auth}\r\n")
        while b"\r\n\r\n" not in raw.buffer:
            raw.fill()
        head, _, raw.buffer = raw.buffer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        raw.get("/healthz")
        assert raw.answer()[2] == b"ok"


def test_connection_close_is_honoured(running: Running) -> None:
    with Raw(running) as raw:
        raw.get("/version", "Connection: close\r\n")
        assert raw.answer()[1]["connection"] == "close"
        assert raw.closed()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param(b"\x16\x03\x01 nonsense\r\n\r\n", 400, id="binary"),
        pytest.param(b"GET / HTTP/9.9\r\n\r\n", 400, id="version"),
        pytest.param(b"GET /x HTTP/1.1\r\nbad header\r\n\r\n", 400, id="header"),
        pytest.param(b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414, id="long-url"),
        pytest.param(b"GET / HTTP/1.1\r\nA: " + b"a" * 70_000 + b"\r\n\r\n", 431, id="long-header"),
        pytest.param(b"POST / HTTP/1.1\r\nContent-Length: 9999999999\r\n\r\n", 413, id="long-body"),
        pytest.param(b"POST / HTTP/1.1\r\nContent-Length: minus\r\n\r\n", 400, id="length-no-number"),
        pytest.param(
            b"POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc", 400, id="two-lengths"
        ),
    ],
)
def test_what_is_no_request_is_refused_and_closed(running: Running, text: bytes, code: int) -> None:
    with Raw(running) as raw:
        raw.send(text)
        assert raw.answer()[0] == code
        assert raw.closed()


def test_a_body_over_three_mebibytes_is_refused(running: Running) -> None:
    with Raw(running) as raw:
        raw.send(f"POST {CLAIMS} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n{raw.auth}\r\n")
        part = b" " * (1 << 20)
        with contextlib.suppress(OSError):  # the server may close while we still send
            for _ in range(4):
                raw.send(b"%x\r\n%b\r\n" % (len(part), part))
        code, _, body = raw.answer()
        assert code == 413
        assert json.loads(body)["reason"] == "RequestEntityTooLarge"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"x"',
        b"nul",
        b"{\xff}",
        b'{"a":}',
        b"[" * 100_000,
        b'{"metadata":{"name":1}}',
        b'{"metadata":[]}',
    ],
)
def test_bodies_that_are_no_objects_get_a_4xx(running: Running, body: bytes) -> None:
    code, answer = running.json("POST", CLAIMS, body)
    assert 400 <= code < 500
    assert answer["kind"] == "Status"


def test_a_yaml_bomb_is_refused(running: Running) -> None:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    code, answer = running.json("POST", CLAIMS, "\n".join(lines).encode(), {"Content-Type": "application/yaml"})
    assert code == 400
    assert "aliasing" in answer["message"]


def test_long_answers_are_compressed_when_accepted(running: Running) -> None:
    for number in range(60):
        data = {"metadata": {"name": f"z{number}"}, "data": {"x": "y" * 4000}}
        running.json("POST", "/api/v1/namespaces/default/configmaps", data)
    path = "/api/v1/namespaces/default/configmaps"
    _, plain_headers, plain = running.http("GET", path)
    assert "Content-Encoding" not in plain_headers
    _, headers, packed = running.http("GET", path, headers={"Accept-Encoding": "gzip"})
    assert headers["Content-Encoding"] == "gzip"
    assert len(packed) < len(plain) / 10
    assert json.loads(gzip.decompress(packed))["items"] == json.loads(plain)["items"]


def test_a_watcher_that_does_not_read_is_cut_off(running: Running) -> None:
    with Raw(running) as raw:
        raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.get("/api/v1/namespaces/default/configmaps?watch=1")
        running.json("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "fat"}})
        path = "/api/v1/namespaces/default/configmaps/fat"
        merge = {"Content-Type": "application/merge-patch+json"}
        for number in range(150):
            running.http("PATCH", path, {"data": {"x": str(number) + "y" * 100_000}}, merge)
        watching = running.call(lambda: sum(len(c.watchers) for c in running.server.store.collections()))
        assert watching == 0
        assert running.json("GET", path)[0] == 200  # nobody waited for it


def test_an_upgrade_that_nobody_serves_is_answered(running: Running) -> None:
    with Raw(running) as raw:
        raw.get("/version", "Connection: Upgrade\r\nUpgrade: h2c\r\n")
        assert raw.answer()[0] == 200


def test_stopping_ends_watches_and_frees_the_port() -> None:
    with running_server() as running, Raw(running) as raw:
        raw.get(f"{CLAIMS}?watch=1")
        raw.fill()
        future = running.call(lambda: __import__("asyncio").ensure_future(running.server.stop()))
        assert raw.closed()
        assert raw.buffer.endswith(b"0\r\n\r\n")
        port: Any = running.server.port
        deadline = time.monotonic() + 10
        while not future.done() and time.monotonic() < deadline:
            time.sleep(0.01)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=2)


def test_yaml_is_read_and_written_as_kubernetes_does(running: Running) -> None:
    """`y` and `n` are truth values to Go's library, in both directions."""
    maps = "/api/v1/namespaces/default/configmaps"
    said = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: truth}\ndata: {Y: 'n', a: 'on', b: '1'}\n"
    code, answer = running.json("POST", maps, said, {"Content-Type": "application/yaml"})
    assert (code, answer["data"]) == (201, {"true": "n", "a": "on", "b": "1"})
    code, answer = running.json("POST", maps, said.replace(b"'n'", b"n"), {"Content-Type": "application/yaml"})
    assert code == 400
    assert "cannot unmarshal bool into Go struct field ConfigMap.data of type string" in answer["message"]
    _, _, text = running.http("GET", f"{maps}/truth", headers={"Accept": "application/yaml"})
    assert b"a: 'on'" in text
    assert b"'true': 'n'" in text


def test_scale_is_a_row_of_numbers_for_kubectl(running: Running) -> None:
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    running.json("POST", deployments, {"metadata": {"name": "scaled"}, "spec": spec})
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
    code, table = running.json("GET", f"{deployments}/scaled/scale", headers=accept)
    assert (code, table["kind"]) == (200, "Table")
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
    (row,) = table["rows"]
    assert row["cells"][:3] == ["scaled", 3, 0]
    assert row["object"]["metadata"]["name"] == "scaled"
