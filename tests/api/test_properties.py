"""Whatever comes in: only the API's own errors come out, soon, and versions convert into each other without loss."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drakit.api import manifests, registry, strategy, types, wire
from drakit.api.errors import StatusError
from drakit.api.gates import GATES, FeatureGates
from drakit.api.kind import Kind
from drakit.cel.device import ApiExpressionChecker
from tests import builders, effort
from tests.api.conftest import LATER, NOW, context, create

KINDS = [kind for kind in registry.KINDS if kind.group == "resource.k8s.io"]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)),
    max_leaves=12,
)
# Texts that get past the first checks now and then.
LIKELY = st.sampled_from(
    [
        "",
        "a",
        "req-0",
        "req-0/sub",
        "gpu.example.com",
        "a/b/c",
        "A_b",
        "ExactCount",
        "All",
        "1Gi",
        "1e999999999",
        "-1",
        "NoSchedule",
    ]
)
FORMS = {
    "s": st.one_of(LIKELY, st.text(max_size=70)),
    "b": st.booleans(),
    "i": st.integers(-(2**33), 2**33),
    "l": st.integers(-(2**65), 2**65),
    "q": st.one_of(LIKELY, st.integers(-5, 2**70)),
    "t": st.sampled_from(["2026-01-02T03:04:05Z", "", "9999-99-99T99:99:99Z"]),
    "R": JSON,
    "f": st.floats(allow_nan=False),
    "x": st.one_of(st.integers(), LIKELY),
    "y": st.text(max_size=6),
    "T": st.sampled_from(["2026-01-02T03:04:05.000000Z", ""]),
}


def shaped(draw: st.DrawFn, model: str, depth: int) -> dict[str, Any]:
    """A value that looks like the model: right fields, mostly right types, anything in them."""
    value: dict[str, Any] = {}
    for field in types.of(model).fields.values():
        if draw(st.integers(0, 99)) < 45:
            value[field.name] = shaped_form(draw, field, field.containers, depth)
    return value


def shaped_form(draw: st.DrawFn, field: types.Field, containers: tuple[str, ...], depth: int) -> Any:
    if draw(st.integers(0, 99)) < 3:
        return draw(JSON)
    if containers:
        count = draw(st.integers(0, 2 if depth else 0))
        items = [shaped_form(draw, field, containers[1:], depth - 1) for _ in range(count)]
        return items if containers[0] == "[]" else {draw(LIKELY): item for item in items}
    if field.struct:
        return shaped(draw, field.struct, depth - 1) if depth > 0 else {}
    return draw(FORMS[field.core])


@st.composite
def bodies(draw: st.DrawFn, kind: Kind, version: str) -> dict[str, Any]:
    model = kind.version(version)
    assert model is not None
    body = shaped(draw, types.model_name(model.model), 7)
    if draw(st.booleans()):
        body["metadata"] = {
            "name": "n",
            **({"namespace": "default"} if kind.namespaced else {}),
            "resourceVersion": "1",
        }
    return body


SERVED = [(kind, version.name) for kind in KINDS for version in kind.versions]
EVERY_GATE = FeatureGates.of({name: True for name in GATES if name.startswith("DRA") or name in ("GenericWorkload",)})


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "version"), SERVED, ids=lambda value: getattr(value, "kind", value))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_validation_raises_nothing_but_its_own_errors(kind: Kind, version: str, data: st.DataObject) -> None:
    gates = EVERY_GATE if data.draw(st.booleans()) else FeatureGates.default()
    ctx = strategy.WriteContext(gates, NOW)
    try:
        decoded = strategy.decode(kind, version, data.draw(bodies(kind, version)))
        if kind.namespaced:
            decoded.obj["metadata"].setdefault("namespace", "default")
        stored, _ = strategy.create(kind, decoded.obj, ctx)
    except StatusError:
        return
    json.dumps(strategy.encode(kind, version, stored), allow_nan=False)
    stored["metadata"]["resourceVersion"] = "1"
    for subresource in ("", "status"):
        try:
            other = strategy.decode(kind, version, data.draw(bodies(kind, version)))
            strategy.update(kind, other.obj, stored, strategy.WriteContext(gates, LATER), subresource)
        except StatusError:
            pass


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.sampled_from(SERVED), JSON)
def test_arbitrary_json_is_an_object_or_an_error(served: tuple[Kind, str], value: Any) -> None:
    kind, version = served
    try:
        decoded = strategy.decode(kind, version, value)
        strategy.create(kind, decoded.obj, context())
    except StatusError:
        pass


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from([(kind, version.name) for kind in registry.KINDS for version in kind.versions]), st.data())
def test_no_kind_raises_anything_else(served: tuple[Kind, str], data: st.DataObject) -> None:
    kind, version = served
    try:
        decoded = strategy.decode(kind, version, data.draw(bodies(kind, version)))
        decoded.obj["metadata"]["uid"] = "5d2f3a5e-0000-4000-8000-000000000000"
        if kind.namespaced:
            decoded.obj["metadata"].setdefault("namespace", "default")
        stored, _ = strategy.create(kind, decoded.obj, context())
    except StatusError:
        return
    json.dumps(strategy.encode(kind, version, stored), allow_nan=False)


# Conversion


@st.composite
def stored_objects(draw: st.DrawFn, kind: Kind) -> dict[str, Any]:
    """An object in the storage version, in the form that decoding gives (valid or not)."""
    try:
        return strategy.decode(kind, kind.storage_version, draw(bodies(kind, kind.storage_version))).obj
    except StatusError:
        return create(valid(kind))


def valid(kind: Kind) -> dict[str, Any]:
    made = {
        "DeviceClass": builders.device_class(),
        "ResourceClaim": builders.claim(),
        "ResourceClaimTemplate": builders.template(),
        "ResourceSlice": builders.slice_(),
        "DeviceTaintRule": builders.taint_rule(),
    }
    return made[kind.kind]


CONVERTED = [(kind, version.name) for kind in KINDS for version in kind.versions if len(kind.versions) > 1]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "version"), CONVERTED, ids=lambda value: getattr(value, "kind", value))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_versions_convert_without_loss(kind: Kind, version: str, data: st.DataObject) -> None:
    stored = data.draw(stored_objects(kind))
    before = wire.copy(stored)
    written = strategy.encode(kind, version, stored)
    again = strategy.decode(kind, version, json.loads(json.dumps(written)), default=False)
    assert stored == before
    assert again.unknown_fields == ()
    if version == "v1beta1":
        stored, again_obj = without_what_v1beta1_cannot_say(stored), without_what_v1beta1_cannot_say(again.obj)
        assert again_obj == stored
    else:
        assert again.obj == stored


def without_what_v1beta1_cannot_say(obj: dict[str, Any]) -> dict[str, Any]:
    """v1beta1 has no way to tell an exact request that says nothing from none, nor "" and false from absent in a slice."""
    obj = wire.copy(obj)
    spec = obj["spec"]
    if obj["kind"] == "ResourceSlice":
        for name in ("nodeName", "allNodes"):
            if not spec.get(name):
                spec.pop(name, None)
        return obj
    claim = spec.get("spec", {}) if obj["kind"] == "ResourceClaimTemplate" else spec
    for request in (claim.get("devices") or {}).get("requests") or ():
        if request.get("exactly") == {"deviceClassName": ""}:
            del request["exactly"]
    return obj


# Time


LARGE: dict[str, Any] = {
    "many-requests": builders.claim("c", *[builders.request(f"r{i}") for i in range(20_000)]),
    "many-tolerations": builders.claim("c", builders.request("r", tolerations=[{}] * 150_000)),
    "many-devices": builders.slice_(
        "s", *[builders.device(f"d{i}", attributes={"a": {"int": i}}) for i in range(15_000)]
    ),
    "many-attributes": builders.slice_(
        "s", builders.device("d", attributes={f"a{i}": {"int": i} for i in range(60_000)})
    ),
    "long-names": builders.claim("c" * 3_000_000, builders.request("r" * 100)),
    "dashes": builders.claim("a" + "-" * 2_900_000),
    "labels": {
        **builders.claim(),
        "metadata": {"name": "c", "namespace": "d", "labels": {f"-{i}-": "-" for i in range(100_000)}},
    },
    "huge-quantities": builders.slice_(
        "s",
        builders.device(
            "d",
            allowMultipleAllocations=True,
            capacity={
                f"c{i}": {
                    "value": "1e2000000000",
                    "requestPolicy": {
                        "default": "-1e2000000000",
                        "validRange": {"min": "1n", "max": "1e999999", "step": "1e-9"},
                    },
                }
                for i in range(30)
            },
        ),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("obj", LARGE.values(), ids=LARGE)
def test_the_largest_objects_are_judged_with_bounded_work(obj: dict[str, Any]) -> None:
    found = registry.by_api_version(obj["apiVersion"], obj["kind"])
    assert found is not None
    ctx = strategy.WriteContext(FeatureGates.default(), NOW, ApiExpressionChecker())
    try:
        with effort.bounded():
            strategy.create(found[0], strategy.decode(*found, obj).obj, ctx)
    except StatusError as error:
        refused = error.code
    else:
        refused = 0
    assert refused in (0, 413, 422)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "a: " + "x" * 3_000_000,
        "- a\n" * 700_000,
        json.dumps(builders.claim("c", *[builders.request(f"r{i}") for i in range(30_000)]))[: 3 * 1024 * 1024],
        "a: &a [" + "x," * 1000 + "]\n" + "b: [" + "*a," * 1000 + "]",
        "[" * 100_000,
        "a: &x {b: 1}\n" + "".join(f"k{i}: {{<<: *x}}\n" for i in range(100_000)),
        "x" * (3 * 1024 * 1024 + 1),
    ],
    ids=["one-scalar", "many-items", "cut-json", "alias-bomb", "deep", "merges", "too-big"],
)
def test_a_manifest_of_three_megabytes_is_refused_or_read_with_bounded_work(text: str) -> None:
    with effort.bounded():
        problems = manifests.check_text(text, "large.yaml", context())
    assert problems
