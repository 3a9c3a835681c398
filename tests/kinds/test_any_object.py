"""Any object of the right types goes through every rule: it is stored, or refused with causes, but nothing falls over."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from drakit.api import registry, schema, strategy
from drakit.api.errors import StatusError
from drakit.api.kind import Kind
from drakit.apiserver import tables
from tests.kinds.helpers import NOW, context

Plain = dict[str, Any]

_WORDS = (
    "",
    "a",
    "a.b",
    "A_b",
    "x/y",
    "Always",
    "Never",
    "Localhost",
    "RollingUpdate",
    "In",
    "Exists",
    "NoExecute",
    "50%",
    "../x",
)
_SCALARS: dict[str, tuple[Any, ...]] = {
    "string": _WORDS,
    "bytes": ("", "eA=="),
    "time": ("2026-01-01T00:00:00Z",),
    "microtime": ("2026-01-01T00:00:00.000000Z",),
    "quantity": ("0", "1", "-1", "1500m", "1Gi", "3u"),
    "intstr": (0, 3, "50%", "http", ""),
    "integer": (0, 1, -1, 70000),
    "long": (0, 1, -1, 2**40),
    "number": (0.5,),
    "boolean": (True, False),
}


def value(node: schema.Node, rng: random.Random, depth: int) -> Any:
    match node.type:
        case "scalar":
            return rng.choice(_SCALARS[node.scalar])
        case "any":
            return {"a": rng.choice(_WORDS)}
        case "list":
            assert node.element is not None
            return [value(node.element, rng, depth - 1) for _ in range(rng.randrange(3))]
        case "map":
            assert node.element is not None
            keys = rng.sample(("a", "cpu", "example.com/gpu", "Bad Key", "controller-uid"), rng.randrange(3))
            return {key: value(node.element, rng, depth - 1) for key in keys}
    odds = 0.35 if depth > 3 else 0.15
    chosen = {
        name: field for name, field in node.fields.items() if depth > 0 and (field.required or rng.random() < odds)
    }
    return {name: value(field, rng, depth - 1) for name, field in chosen.items()}


def random_object(kind: Kind, version: str, rng: random.Random) -> Plain:
    body: Plain = value(schema.root(kind, version), rng, 9)
    body["metadata"] = {"name": rng.choice(("x", "a.b", "system-x")), "uid": "u"}
    if kind.namespaced:
        body["metadata"]["namespace"] = "default"
    return {name: item for name, item in body.items() if name not in ("apiVersion", "kind")}


def attempt(write: Callable[..., tuple[Plain, list[str]]], *args: Any) -> Plain | None:
    """What is stored; None when the write is refused, which must be done with causes."""
    try:
        return write(*args)[0]
    except StatusError as error:
        refusal = error
    assert refusal.code == 422, refusal
    assert refusal.causes
    return None


@pytest.mark.slow
@pytest.mark.parametrize("kind", [k for k in registry.KINDS if "list" in k.verbs], ids=lambda k: f"{k.kind}.{k.group}")
def test_random_objects_never_break_a_rule(kind: Kind) -> None:
    rng = random.Random(7)
    version = kind.versions[0].name
    previous: Plain | None = None
    for _ in range(60):
        body = random_object(kind, version, rng)
        decoded = strategy.decode(kind, version, body).obj
        tables.row(kind, decoded, NOW)
        for served in kind.versions:
            strategy.encode(kind, served.name, decoded)
        stored = attempt(strategy.create, kind, decoded, context())
        if stored is not None:
            stored["metadata"]["resourceVersion"] = "1"
            previous = stored
        if previous is None:
            continue
        new = strategy.decode(kind, version, {**body, "metadata": previous["metadata"]}).obj
        for subresource in ("", *kind.strategy.subresources):
            attempt(strategy.update, kind, new, previous, context(), subresource)
