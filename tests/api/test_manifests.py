from __future__ import annotations

import json

import pytest

from drakit.api import manifests
from drakit.api.manifests import ManifestError, Problem, advice, read
from tests.api.conftest import context

CLAIM = """\
# a comment
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: c
spec:
  devices:
    requests:
    - name: r
      exactly:
        deviceClassName: gpu
"""


def problems(text: str) -> list[Problem]:
    return manifests.check_text(text, "f.yaml", context())


def only(text: str) -> Problem:
    (problem,) = problems(text)
    return problem


def test_a_separator_of_typographic_dashes_is_told() -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n\u2013--\napiVersion: v1\nkind: Pod\n"
    with pytest.raises(ManifestError, match=r":5: .*write ---"):
        read(text, "file.yaml")


def test_an_attribute_asked_for_by_its_whole_name_is_told() -> None:
    expression = 'device.attributes["dra.example.com/numa"].value == "0"'
    assert advice.for_expression(expression) == [
        (
            '"dra.example.com/numa"',
            'write device.attributes["dra.example.com"].numa instead of device.attributes["dra.example.com/numa"].value',
        )
    ]
    assert advice.for_expression('device.attributes["dra.example.com"].numa == "a/b"') == []


def test_a_good_manifest_has_no_problems() -> None:
    assert problems(CLAIM) == []
    assert problems(json.dumps(manifests.read(CLAIM)[0].value, indent=2)) == []
    assert problems("") == []
    assert problems("---\n# nothing\n---\n") == []


def test_documents_keep_their_own_lines() -> None:
    first, second = manifests.read(f"{CLAIM}---\n{CLAIM}")
    assert (first.line_of("spec.devices.requests[0].name"), second.line_of("spec.devices.requests[0].name")) == (9, 21)
    assert second.line_of("spec.devices.requests[7].name") == 20  # the nearest that is there
    assert second.line_of("nowhere") == 14


def test_lists_are_checked_item_by_item() -> None:
    inner = "\n".join("  " + line for line in CLAIM.replace("name: c", "name: C_").splitlines())
    text = "apiVersion: v1\nkind: List\nitems:\n-" + inner[1:]
    assert only(text).field == "metadata.name"
    assert only(text).line == 8


def test_json_has_lines_too() -> None:
    text = json.dumps({**manifests.read(CLAIM)[0].value, "spec": {"devices": {"requests": [{"name": "R"}]}}}, indent=1)
    found = {problem.field: problem.line for problem in problems(text)}
    assert found["spec.devices.requests[0].name"] == text.splitlines().index('     "name": "R"') + 1


def test_duplicate_keys_are_found_where_they_stand() -> None:
    problem = only(CLAIM.replace("      exactly:\n", "      name: r\n      exactly:\n"))
    assert (problem.line, problem.message) == (10, 'duplicate field "spec.devices.requests[0].name"')


def test_yaml_is_read_as_kubernetes_reads_it() -> None:
    text = "a: yes\nb: 'yes'\nc: 012\nd: 1_000\ne: 2020-01-02\nf: 12:30:45\ng: 1e3\nh: ~\ni: 0x1f\n1: x\ntrue: y\nj: .5\nk: '5'\nl: 1.2.3\nm: n\nY: 'y'"
    assert manifests.read(text)[0].value == {
        "a": True,
        "b": "yes",
        "c": 10,
        "d": 1000,
        "e": "2020-01-02",
        "f": "12:30:45",
        "g": 1000.0,
        "h": None,
        "i": 31,
        "1": "x",
        "j": 0.5,
        "k": "5",
        "l": "1.2.3",
        "m": False,
        "true": "y",
    }


ENVIRONMENT = """apiVersion: v1
kind: Pod
metadata:
  name: p
  labels: {a: b}
spec:
  containers:
  - name: c
    image: x
    env:
    - name: A
      value: a
    - name: B
      value: b
"""


@pytest.mark.parametrize(
    ("old", "new", "field", "line", "help_text"),
    [
        pytest.param("value: b", "value: 8080", "spec.containers[0].env[1].value", 14,
                     "put the value in quotes: without them YAML takes it for a number", id="number"),
        pytest.param("{a: b}", "{a: b, example.com/c: y}", "metadata.labels[example.com/c]", 5,
                     "put the value in quotes: without them YAML takes it for a truth value", id="truth-value"),
        pytest.param("spec:", "spec:\n  priority: '5'", "spec.priority", 7, "write a whole number, without quotes", id="quotes"),
        pytest.param("value: b", "value: [b]", "spec.containers[0].env[1].value", 14, "", id="list"),
    ],
)  # fmt: skip
def test_a_value_of_the_wrong_type_is_found_where_it_stands(
    old: str, new: str, field: str, line: int, help_text: str
) -> None:
    problem = only(ENVIRONMENT.replace(old, new, 1))
    assert (problem.field, problem.line, problem.advice) == (field, line, help_text)


def test_anchors_and_merges_work_and_keep_lines() -> None:
    text = "base: &b\n  x: 1\n  z: 2\nmine:\n  <<: *b\n  z: 3\nlist: [*b, *b]\n"
    document = manifests.read(text)[0]
    assert document.value["mine"] == {"x": 1, "z": 3}
    assert document.value["list"] == [{"x": 1, "z": 2}] * 2
    assert (document.line_of("mine.x"), document.line_of("mine.z")) == (2, 6)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: [b", 1, "expected ',' or ']'"),
        ("a: 1\nb:\n\t- c", 3, "cannot start any token"),
        ("spec:\n  a: b\n  ...\n", 3, "take out placeholders"),
        ("a: *nowhere", 1, "undefined alias|unknown anchor"),
        ("a: 1\n? [x]\n: 2", 2, "a key has to be text"),
        ("[" * 200, 1, "nested"),
        ("a: {<<: 1}", 1, "map merge"),
        ("x" * 4_000_000, 1, "takes at most"),
    ],
)
def test_text_that_cannot_be_read_says_where(text: str, line: int, words: str) -> None:
    with pytest.raises(ManifestError, match=words) as caught:
        manifests.read(text, "f.yaml")
    assert caught.value.line == line
    assert str(caught.value).startswith(f"f.yaml:{line}: ")


def replace(old: str, new: str) -> str:
    assert old in CLAIM
    return CLAIM.replace(old, new)


# Mistakes that people make, and the words that help.
MISTAKES = [
    pytest.param(
        replace("      exactly:\n        deviceClassName: gpu", "      deviceClassName: gpu\n      count: 2"),
        10,
        ["  exactly:\n    deviceClassName: gpu\n    count: 2", "resource.k8s.io/v1beta1"],
        id="v1beta1-shaped-request-in-v1",
    ),
    pytest.param(
        replace("exactly:", "all:"), 10, ["write `exactly` with `allocationMode: All`"], id="all-instead-of-exactly"
    ),
    pytest.param(
        replace(
            "        deviceClassName: gpu",
            "        deviceClassName: gpu.example.com\n    constraints:\n    - matchAttribute: model",
        ),
        13,
        ["matchAttribute: gpu.example.com/model"],
        id="unqualified-match-attribute",
    ),
    pytest.param(replace("metadata:\n  name: c\n", ""), 2, ["metadata:\n  name: NAME"], id="no-metadata"),
    pytest.param(replace("metadata:\n  name: c\n", "name: c\n"), 4, ["metadata:\n  name: c"], id="name-at-the-top"),
    pytest.param(
        replace("apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\n", ""), 2, ["kind: ResourceClaim"], id="fragment"
    ),
    pytest.param(
        replace("  devices:\n    requests:", "  requests:"), 7, ["move `requests` under spec.devices"], id="no-devices"
    ),
    pytest.param(replace("/v1\n", "/v1alpha2\n"), 3, ["write apiVersion: resource.k8s.io/v1 "], id="old-version"),
    pytest.param(replace("ResourceClaim\n", "ResourceClass\n"), 3, ["use a DeviceClass"], id="gone-kind"),
    pytest.param(
        replace("ResourceClaim\n", "ResourceClaims\n"), 3, ["did you mean kind: ResourceClaim?"], id="misspelt-kind"
    ),
    pytest.param(
        replace("deviceClassName", "deviceclassname"), 11, ["did you mean `deviceClassName`?"], id="misspelt-field"
    ),
    pytest.param(replace("resource.k8s.io/v1", "v1"), 3, ["write apiVersion: resource.k8s.io/v1"], id="no-group"),
]


@pytest.mark.parametrize(("text", "line", "words"), MISTAKES)
def test_the_author_is_told_what_to_change(text: str, line: int, words: list[str]) -> None:
    problem = problems(text)[0]
    assert problem.line == line, str(problem)
    for part in words:
        assert part in problem.advice, str(problem)


def test_advice_is_given_once_for_one_mistake() -> None:
    text = replace("      exactly:\n        deviceClassName: gpu", "      deviceClassName: gpu\n      count: 2")
    assert [bool(problem.advice) for problem in problems(text)] == [True, False, False]


def test_a_wrong_type_names_its_line() -> None:
    problem = only(replace("deviceClassName: gpu", "deviceClassName: gpu\n        count: two"))
    assert "cannot unmarshal string" in problem.message
    assert problem.line == 12


def test_a_deprecated_version_is_a_warning() -> None:
    problem = only(replace("v1\n", "v1beta2\n"))
    assert problem.severity == "warning"
    assert str(problem).startswith("f.yaml:2: warning: resource.k8s.io/v1beta2 ResourceClaim is deprecated")


def test_old_pod_claims_are_explained() -> None:
    text = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: c, image: i}]\n"
        "  resourceClaims:\n  - name: r\n    source:\n      resourceClaimName: c\n"
    )
    first = problems(text)[0]
    assert (first.line, first.field) == (8, "spec.resourceClaims[0].source")
    assert "one level up" in first.advice
