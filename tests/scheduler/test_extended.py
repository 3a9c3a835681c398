"""Claims made for extended resources: names of requests, who shares with whom, which class provides a resource."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from drakit.scheduler.extended import CLAIM_ANNOTATION, ClassesByResource, is_extended, requests_and_mappings
from tests.scheduler.builders import claim, device_class, info, node, pod, refuse, slice_, state

GPU = "example.com/gpu"


def container(name: str, gpus: int = 0, **more: Any) -> dict[str, Any]:
    asked = {"cpu": "1", **({GPU: str(gpus)} if gpus else {})}
    return {"name": name, "resources": {"requests": asked}, **more}


CASES = [
    pytest.param([container("c", 2)], [], {"container-0-request-1": 2}, {"c": ["container-0-request-1"]}, id="one"),
    pytest.param(
        [container("a", 1), container("b"), container("c", 3)], [],
        {"container-0-request-1": 1, "container-2-request-1": 3},
        {"a": ["container-0-request-1"], "c": ["container-2-request-1"]},
        id="container-without-gpu-between",
    ),
    pytest.param(
        [container("c", 2)], [container("i", 1)],
        {"container-1-request-1": 2},
        {"c": ["container-1-request-1"], "i": ["container-1-request-1"]},
        id="init-uses-the-later-container's",
    ),
    pytest.param(
        [container("c", 1)], [container("i", 3)],
        {"container-0-request-1": 2, "container-1-request-1": 1},
        {"c": ["container-1-request-1"], "i": ["container-1-request-1", "container-0-request-1"]},
        id="init-needs-more",
    ),
    pytest.param(
        [container("c", 1)], [container("i", 2), container("j", 4)],
        {"container-1-request-1": 3, "container-2-request-1": 1},
        {
            "c": ["container-2-request-1"],
            "i": ["container-2-request-1", "container-1-request-1"],
            "j": ["container-2-request-1", "container-1-request-1"],
        },
        id="the-largest-remainder-serves-all-inits",
    ),
    pytest.param(
        [container("c", 1)], [container("s", 1, restartPolicy="Always"), container("i", 1)],
        {"container-0-request-1": 1, "container-2-request-1": 1},
        {"s": ["container-0-request-1"], "c": ["container-2-request-1"], "i": ["container-2-request-1"]},
        id="a-sidecar-lives-on",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("containers", "inits", "requests", "mapped"), CASES)
def test_requests_and_mappings(
    containers: list[Any], inits: list[Any], requests: dict[str, int], mapped: dict[str, list[str]]
) -> None:
    made = pod(containers=containers, initContainers=inits)
    found, mappings = requests_and_mappings(made, {GPU: "gpu"})
    assert {r["name"]: r["exactly"]["count"] for r in found} == requests
    by_container: dict[str, list[str]] = {}
    for mapping in mappings:
        assert mapping["resourceName"] == GPU
        by_container.setdefault(mapping["containerName"], []).append(mapping["requestName"])
    assert by_container == mapped


def test_two_resources_are_numbered_by_their_place_among_all_requests() -> None:
    asked = {"a.example.com/nic": "1", "cpu": "1", "z.example.com/gpu": "2"}
    made = pod(containers=[{"name": "c", "resources": {"requests": asked}}])
    found, _ = requests_and_mappings(made, {"z.example.com/gpu": "g", "a.example.com/nic": "n"})
    assert [(r["name"], r["exactly"]["deviceClassName"]) for r in found] == [
        ("container-0-request-0", "n"),
        ("container-0-request-2", "g"),
    ]


def test_explicit_and_implicit_names_of_a_class() -> None:
    classes = ClassesByResource()
    classes.set(device_class("gpu", resource=GPU))
    assert classes.class_name(GPU) == "gpu"
    assert classes.class_name("deviceclass.resource.kubernetes.io/gpu") == "gpu"
    assert classes.class_name("deviceclass.resource.kubernetes.io/other") is None
    classes.set(device_class("gpu"))
    assert classes.class_name(GPU) is None
    classes.remove("gpu")
    assert classes.class_name("deviceclass.resource.kubernetes.io/gpu") is None


def test_of_two_classes_with_one_name_the_newer_provides_it_and_the_older_takes_over() -> None:
    classes = ClassesByResource()
    for name, day in (("b-old", 1), ("new", 3), ("a-old", 1)):
        made = device_class(name, resource=GPU)
        assert made.metadata is not None
        made.metadata.creationTimestamp = datetime(2026, 1, day, tzinfo=UTC)
        classes.set(made)
    assert classes.class_name(GPU) == "new"
    assert classes.class_name("deviceclass.resource.kubernetes.io/b-old") == "b-old"
    classes.remove("new")
    assert classes.class_name(GPU) == "a-old"


@pytest.mark.parametrize(
    ("name", "extended"),
    [
        ("cpu", False),
        ("hugepages-2Mi", False),
        ("example.com/gpu", True),
        ("kubernetes.io/x", False),
        ("a.kubernetes.io/x", False),
        ("mykubernetes.io/x", False),
        ("requests.example.com/x", False),
        ("deviceclass.resource.kubernetes.io/gpu", True),
    ],
)
def test_which_names_are_extended_resources(name: str, extended: bool) -> None:
    assert is_extended(name) is extended


def test_a_refusal_speaks_of_what_stands_in_the_pod() -> None:
    made = state(node("a"), slice_("a", 2), device_class(resource=GPU))
    text = refuse(made, info("p", containers=[container("trainer", 5)])).message()
    assert text == (
        "0/1 nodes are available: 1 cannot allocate all claims. [node a: example.com/gpu of container trainer wants 5 devices: "
        "only 2 on the node match; lower example.com/gpu of container trainer from 5 to 2]"
    )


def test_the_end_of_an_earlier_claim_leaves_the_pod_its_newer_one() -> None:
    made = state()
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "pod-p", "controller": True}
    meta = {"annotations": {CLAIM_ANNOTATION: "true"}, "ownerReferences": [owner]}
    earlier, newer = claim("earlier", metadata=meta), claim("newer", metadata=meta)
    made.claims.set(earlier)
    made.claims.set(newer)
    made.claims.remove(earlier)
    assert made.claims.extended_claim("pod-p") is newer
    made.claims.remove(newer)
    assert made.claims.extended_claim("pod-p") is None
