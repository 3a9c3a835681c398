"""The patch languages, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from drakit.api import registry, schema
from drakit.apiserver.patches import PatchError, json_patch, merge_patch, strategic_patch

POD = registry.by_resource("", "pods")
assert POD is not None
NODE = schema.root(POD, "v1")


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        pytest.param({"a": "b"}, {"a": "c"}, {"a": "c"}, id="replace"),
        pytest.param({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}, id="add"),
        pytest.param({"a": "b"}, {"a": None}, {}, id="remove"),
        pytest.param({"a": ["b"]}, {"a": "c"}, {"a": "c"}, id="list-to-text"),
        pytest.param({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}, id="nested"),
        pytest.param({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}, id="lists-are-values"),
        pytest.param({"a": "foo"}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}, id="nulls-of-new-objects-vanish"),
        pytest.param(
            {}, {"a": [None, {"b": None, "c": 1}]}, {"a": [None, {"c": 1}]}, id="nulls-in-lists-of-objects-vanish"
        ),
    ],
)
def test_merge_patch(target: Any, patch: Any, result: Any) -> None:
    assert merge_patch(target, patch) == result


@pytest.mark.parametrize(
    ("operations", "result"),
    [
        pytest.param([{"op": "add", "path": "/l/1", "value": "x"}], {"l": ["a", "x", "b"]}, id="insert"),
        pytest.param([{"op": "add", "path": "/l/-", "value": "x"}], {"l": ["a", "b", "x"]}, id="append"),
        pytest.param([{"op": "remove", "path": "/l/0"}], {"l": ["b"]}, id="remove"),
        pytest.param([{"op": "replace", "path": "/l", "value": 1}], {"l": 1}, id="replace"),
        pytest.param([{"op": "move", "from": "/l/0", "path": "/m"}], {"l": ["b"], "m": "a"}, id="move"),
        pytest.param([{"op": "copy", "from": "/l/0", "path": "/m"}], {"l": ["a", "b"], "m": "a"}, id="copy"),
        pytest.param([{"op": "test", "path": "/l/1", "value": "b"}], {"l": ["a", "b"]}, id="test"),
        pytest.param([{"op": "add", "path": "/a~1b~0c", "value": 1}], {"l": ["a", "b"], "a/b~c": 1}, id="escapes"),
        # As the library does that Kubernetes uses: an object's missing member is null, and to replace it is to add it.
        pytest.param([{"op": "replace", "path": "/x", "value": 1}], {"l": ["a", "b"], "x": 1}, id="replace-missing"),
        pytest.param([{"op": "test", "path": "/x", "value": None}], {"l": ["a", "b"]}, id="test-missing"),
        pytest.param([{"op": "copy", "from": "/x", "path": "/m"}], {"l": ["a", "b"], "m": None}, id="copy-missing"),
        pytest.param([{"op": "add", "path": "/x"}], {"l": ["a", "b"], "x": None}, id="add-nothing"),
        pytest.param([{"op": "add", "path": "/l/+01", "value": "x"}], {"l": ["a", "x", "b"]}, id="index-any-form"),
        pytest.param([{"op": "replace", "path": "", "value": {"n": 1}}], {"n": 1}, id="replace-all"),
    ],
)
def test_json_patch(operations: list[Any], result: Any) -> None:
    target = {"l": ["a", "b"]}
    assert json_patch(target, operations) == result
    assert target == {"l": ["a", "b"]}  # the stored object is shared: it must not change


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/l", "value": 2},
        {"op": "remove", "path": "/x"},
        {"op": "test", "path": "/l", "value": [1.0]},
        {"op": "test", "path": "/x/y", "value": None},
        {"op": "add", "path": "/x/y", "value": 1},
        {"op": "add", "path": "/l/9", "value": 1},
        {"op": "add", "path": "/l/x", "value": 1},
        {"op": "add", "path": "no-slash", "value": 1},
        {"op": "add", "path": "", "value": {}},
        {"op": "copy", "from": "/x/y", "path": "/m"},
        {"op": "move", "from": "/l", "path": "/l/0"},
        {"op": "remove", "path": ""},
        {"op": "what", "path": "/l"},
    ],
    ids=lambda operation: f"{operation['op']} {operation['path']}",
)
def test_json_patch_that_does_not_apply(operation: dict[str, Any]) -> None:
    with pytest.raises(PatchError) as error:
        json_patch({"l": [1]}, [operation])
    assert error.value.rejected


def containers(*items: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"containers": list(items)}}


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        pytest.param(
            containers({"name": "a", "image": "1"}, {"name": "b", "image": "1"}),
            containers({"name": "b", "image": "2"}),
            containers({"name": "a", "image": "1"}, {"name": "b", "image": "2"}),
            id="items-merge-by-name",
        ),
        pytest.param(
            containers({"name": "a"}),
            containers({"name": "b"}),
            containers({"name": "b"}, {"name": "a"}),
            id="new-items-come-first",
        ),
        pytest.param(
            containers({"name": "a"}, {"name": "b"}),
            containers({"name": "a", "$patch": "delete"}),
            containers({"name": "b"}),
            id="delete-an-item",
        ),
        pytest.param(
            containers({"name": "a"}, {"name": "b"}),
            containers({"$patch": "replace"}, {"name": "c"}),
            containers({"name": "c"}),
            id="replace-the-list",
        ),
        pytest.param(
            containers({"name": "a"}, {"name": "b"}, {"name": "c"}),
            {"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}, {"name": "b"}]}},
            containers({"name": "c"}, {"name": "a"}, {"name": "b"}),
            id="set-the-order",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a/1", "a/2"]}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/1"]}},
            {"metadata": {"finalizers": ["a/2"]}},
            id="delete-from-a-set",
        ),
        pytest.param(
            {"spec": {"tolerations": [{"key": "a"}]}},
            {"spec": {"tolerations": [{"key": "b"}]}},
            {"spec": {"tolerations": [{"key": "b"}]}},
            id="atomic-lists-are-replaced",
        ),
        pytest.param(
            {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
            {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}},
            {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}},
            id="retain-keys",
        ),
        pytest.param(
            {"metadata": {"labels": {"a": "1", "b": "2"}}},
            {"metadata": {"labels": {"$patch": "replace", "c": "3"}}},
            {"metadata": {"labels": {"c": "3"}}},
            id="replace-a-map",
        ),
        pytest.param(
            {"metadata": {"labels": {"a": "1"}}},
            {"metadata": {"labels": {"a": None}}},
            {"metadata": {"labels": {}}},
            id="null",
        ),
    ],
)
def test_strategic_patch(target: dict[str, Any], patch: dict[str, Any], result: dict[str, Any]) -> None:
    assert strategic_patch(target, patch, NODE) == result


def test_a_strategic_list_item_needs_its_key() -> None:
    with pytest.raises(PatchError, match="merge key: name"):
        strategic_patch(containers({"name": "a"}), containers({"image": "x"}), NODE)


def test_an_unknown_directive_is_refused() -> None:
    with pytest.raises(PatchError, match="unknown patch type"):
        strategic_patch({"metadata": {"labels": {}}}, {"metadata": {"labels": {"$patch": "shake"}}}, NODE)
