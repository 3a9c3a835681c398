"""Protobuf bodies: what a Go client writes reads back as the object it meant."""

from __future__ import annotations

import base64
import json
import random
from datetime import datetime
from typing import Any

import pytest

from drakit.api import registry, schema
from drakit.api.errors import StatusError
from drakit.api.kind import Kind
from drakit.apiserver import protobuf
from tests.kinds.test_any_object import random_object

Plain = dict[str, Any]


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def encoded(node: schema.Node, obj: Plain, numbers: protobuf._Numbers | None = None) -> bytes:
    """The other direction, as Go does it; used by these tests only."""
    out = b""
    for number, name in (numbers or protobuf._numbers(node.model)).items():
        if isinstance(name, dict):
            out += field(number, encoded(node, obj, name))
            continue
        value = obj.get(name)
        child = node.fields[name]
        if value is None:
            continue
        if child.type == "list":
            assert child.element is not None
            out += b"".join(field(number, one(child.element, item)) for item in value)
        elif child.type == "map":
            assert child.element is not None
            for key, item in value.items():
                out += field(number, field(1, key.encode()) + field(2, one(child.element, item)))
        else:
            out += field(number, one(child, value))
    return out


def one(node: schema.Node, value: Any) -> int | bytes:
    if node.type == "struct":
        return encoded(node, value)
    if node.type == "any":
        return field(1, json.dumps(value).encode())
    if node.type == "list":
        assert node.element is not None
        return b"".join(field(1, one(node.element, item)) for item in value)
    match node.scalar:
        case "string":
            return str(value).encode()
        case "bytes":
            return base64.b64decode(value)
        case "time" | "microtime":
            moment = datetime.fromisoformat(value)
            return field(1, int(moment.timestamp())) + field(2, moment.microsecond * 1000)
        case "quantity":
            return field(1, value.encode())
        case "intstr":
            kind, number, text = (1, 0, value) if isinstance(value, str) else (0, value, "")
            return field(1, kind) + field(2, number) + field(3, text.encode())
    return int(value)


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    names = field(1, api_version.encode()) + field(2, kind.encode())
    return b"k8s\x00" + field(1, names) + field(2, raw)


def without_empty(value: Any) -> Any:
    """Protobuf does not tell an empty list or map from none."""
    if isinstance(value, dict):
        return {key: without_empty(item) for key, item in value.items() if item not in ([], {}) or key == "a"}
    if isinstance(value, list):
        return [without_empty(item) for item in value]
    return value


def same(left: Any, right: Any) -> bool:
    def bare(value: Any) -> Any:
        before, after = None, value
        while before != after:
            before, after = after, without_empty(after)
        return after

    return bool(bare(left) == bare(right))


# As Go writes it: fields that are no pointers are there though empty.
META = field(1, b"a") + field(2, b"") + field(3, b"") + field(5, b"") + field(8, b"")
CONFIG_MAP = envelope("v1", "ConfigMap", field(1, META) + field(2, field(1, b"k") + field(2, b"v")))


def test_a_config_map_as_go_writes_it() -> None:
    assert protobuf.decode(CONFIG_MAP) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "generateName": "", "namespace": "", "uid": "", "creationTimestamp": None},
        "data": {"k": "v"},
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", [k for k in registry.KINDS if "list" in k.verbs], ids=lambda k: f"{k.kind}.{k.group}")
def test_every_kind_reads_back(kind: Kind) -> None:
    rng = random.Random(11)
    for version in kind.versions:
        node = schema.root(kind, version.name)
        for _ in range(20):
            obj = random_object(kind, version.name, rng)
            for claim in (obj.get("spec") or {}).get("volumeClaimTemplates") or ():
                claim.pop("apiVersion", None)  # what an object inside another is called does not travel
                claim.pop("kind", None)
            body = envelope(kind.api_version(version.name), kind.kind, encoded(node, obj))
            found = protobuf.decode(body)
            assert (found.pop("apiVersion"), found.pop("kind")) == (kind.api_version(version.name), kind.kind)
            assert same(found, obj)


def test_delete_options_are_no_resource_but_are_read() -> None:
    body = envelope("resource.k8s.io/v1", "DeleteOptions", field(1, 5) + field(4, b"Foreground"))
    assert protobuf.decode(body) == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 5,
        "propagationPolicy": "Foreground",
    }


def test_negative_numbers_and_times() -> None:
    spec = field(1, 0xFFFFFFFFFFFFFFFF)  # replicas: -1
    assert protobuf.decode(envelope("apps/v1", "Deployment", field(2, spec)))["spec"] == {"replicas": -1}
    lease = field(2, field(3, field(1, 1767225600) + field(2, 5_000_000)))
    spec = protobuf.decode(envelope("coordination.k8s.io/v1", "Lease", lease))["spec"]
    assert spec == {"acquireTime": "2026-01-01T00:00:00.005000Z"}
    zero = field(1, field(8, b""))
    assert protobuf.decode(envelope("v1", "Pod", zero))["metadata"] == {"creationTimestamp": None}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"k8s\x00",
        envelope("v1", "Nothing", b""),
        envelope("v1", "Pod", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
        envelope("v1", "Pod", b"\x0a\x7f"),
        envelope("v1", "Pod", field(1, 7)),
        envelope("v1", "Pod", field(1, field(1, b"\xff\xfe"))),
        envelope("v1", "Pod", b"\x0b"),
    ],
)
def test_what_is_no_object_is_a_bad_request(body: bytes) -> None:
    with pytest.raises(StatusError, match="no valid protobuf object") as caught:
        protobuf.decode(body)
    assert caught.value.code == 400


@pytest.mark.slow
def test_random_bytes_are_read_or_refused() -> None:
    rng = random.Random(5)
    for _ in range(5000):
        raw = bytearray(CONFIG_MAP + rng.randbytes(rng.randrange(20)))
        for _ in range(rng.randrange(1, 5)):
            raw[rng.randrange(4, len(raw))] = rng.randrange(256)
        try:
            protobuf.decode(bytes(raw))
        except StatusError:
            continue
