"""Server-side apply and managedFields: who owns what after which write."""

from __future__ import annotations

from typing import Any

import pytest

from drakit.api.errors import StatusError
from drakit.apiserver import fieldsets
from tests.apiserver.serving import Local, claim, local_server, run

APPLY = "apply-patch+yaml"


def pod(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def container(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "registry.example.com/x:1", **more}


async def apply(
    local: Local, body: dict[str, Any], manager: str, *, force: bool = False, **more: Any
) -> dict[str, Any]:
    plural, group = ("pods", "") if body["kind"] == "Pod" else ("resourceclaims", "resource.k8s.io")
    query = {"fieldManager": manager, **({"force": "true"} if force else {})}
    return await local.patch(
        body["metadata"]["name"], body, kind=APPLY, plural=plural, group=group, query=query, **more
    )


def owners(obj: dict[str, Any]) -> dict[tuple[str, str], set[str]]:
    return {
        (entry["manager"], entry["operation"]): set(fieldsets.paths(entry["fieldsV1"]))
        for entry in obj["metadata"].get("managedFields") or []
    }


def test_an_applied_field_that_is_dropped_goes() -> None:
    async def scenario() -> None:
        async with local_server() as local:
            await apply(local, claim("c", labels={"a": "1", "b": "2"}), "one")
            after = await apply(local, claim("c", labels={"a": "1"}), "one")
            assert after["metadata"]["labels"] == {"a": "1"}

    run(scenario())


def test_a_dropped_field_that_another_applier_owns_stays() -> None:
    async def scenario() -> None:
        async with local_server() as local:
            await apply(local, claim("d", labels={"a": "1"}), "one")
            other = {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": "d", "labels": {"a": "1"}},
            }
            await apply(local, other, "two")
            after = await apply(local, {**other, "metadata": {"name": "d"}}, "two")
            assert after["metadata"]["labels"] == {"a": "1"}

    run(scenario())


def test_only_who_changes_something_is_stamped() -> None:
    async def scenario() -> None:
        async with local_server() as local:
            await apply(local, claim("d", labels={"a": "1"}), "one")
            after = await apply(local, {**claim("d", labels={"a": "1"}), "spec": {}}, "two")
            stamped = [(entry["manager"], "time" in entry) for entry in after["metadata"]["managedFields"]]
            assert stamped == [("two", False), ("one", True)]

    run(scenario())


def test_a_conflict_names_manager_and_field() -> None:
    async def scenario() -> None:
        async with local_server() as local:
            await apply(local, claim("c", labels={"a": "1"}), "one")
            changed = {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": "c", "labels": {"a": "2"}},
            }
            with pytest.raises(StatusError) as error:
                await apply(local, changed, "two")
            assert error.value.code == 409
            assert str(error.value) == 'Apply failed with 1 conflict: conflict with "one": .metadata.labels.a'
            forced = await apply(local, changed, "two", force=True)
            assert owners(forced)["two", "Apply"] == {".metadata.labels.a"}
            assert ".metadata.labels.a" not in owners(forced)["one", "Apply"]

    run(scenario())


def test_an_update_takes_the_fields_that_it_changes() -> None:
    async def scenario() -> None:
        async with local_server() as local:
            await apply(local, claim("c", labels={"a": "1", "b": "1"}), "one")
            after = await local.patch("c", {"metadata": {"labels": {"a": "2", "c": "3"}}})
            assert owners(after)["test", "Update"] == {".metadata.labels.a", ".metadata.labels.c"}
            assert owners(after)["one", "Apply"] == {".metadata.labels.b", ".spec.devices.requests"}

    run(scenario())


def test_list_items_are_owned_by_their_key() -> None:
    async def scenario() -> None:
        async with local_server() as local:
            await apply(local, pod(containers=[container("a"), container("b")]), "one")
            found = (await local.request("GET", "pods", "p", group="")).body
            paths = owners(found)["one", "Apply"]
            assert '.spec.containers[name="a"].image' in paths
            assert '.spec.containers[name="b"]' in paths

    run(scenario())


def test_status_is_owned_per_subresource() -> None:
    async def scenario() -> None:
        async with local_server() as local:
            await local.create(claim("c"))
            allocation = {
                "devices": {"results": [{"request": "gpu", "driver": "d.example.com", "pool": "p", "device": "x"}]}
            }
            after = await local.patch("c", {"status": {"allocation": allocation}}, subresource="status")
            entry = next(entry for entry in after["metadata"]["managedFields"] if entry.get("subresource") == "status")
            assert ".status.allocation" in set(fieldsets.paths(entry["fieldsV1"]))
            assert not any(path.startswith(".spec") for path in fieldsets.paths(entry["fieldsV1"]))

    run(scenario())


def test_an_apply_that_changes_nothing_writes_nothing() -> None:
    async def scenario() -> None:
        async with local_server() as local:
            first = await apply(local, claim("c", labels={"a": "1"}), "one")
            second = await apply(local, claim("c", labels={"a": "1"}), "one")
            third = await apply(local, claim("c", labels={"a": "1"}), "one")
            assert second["metadata"]["resourceVersion"] == third["metadata"]["resourceVersion"]
            assert first["metadata"]["uid"] == third["metadata"]["uid"]

    run(scenario())


def test_managers_can_be_cleared() -> None:
    async def scenario() -> None:
        async with local_server() as local:
            await local.create(claim("c"))
            after = await local.patch("c", {"metadata": {"managedFields": [{}]}})
            assert "managedFields" not in after["metadata"]

    run(scenario())


def test_an_object_without_managers_belongs_to_who_was_before() -> None:
    async def scenario() -> None:
        async with local_server() as local:
            await local.create(claim("c", labels={"a": "1"}))
            await local.patch("c", {"metadata": {"managedFields": [{}]}})
            changed = {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": "c", "labels": {"a": "2"}},
            }
            with pytest.raises(StatusError, match="before-first-apply"):
                await apply(local, changed, "one")

    run(scenario())


def test_many_updaters_are_folded() -> None:
    async def scenario() -> None:
        async with local_server() as local:
            await local.create(claim("c"))
            for number in range(15):
                label = {"metadata": {"labels": {f"l{number}": "x"}}}
                after = await local.patch("c", label, query={"fieldManager": f"m{number:02}"})
            managers = [entry["manager"] for entry in after["metadata"]["managedFields"]]
            assert len(managers) <= 11
            assert "ancient-changes" in managers
            owned = set().union(*(fieldsets.paths(e["fieldsV1"]) for e in after["metadata"]["managedFields"]))
            assert {f".metadata.labels.l{number}" for number in range(15)} <= owned

    run(scenario())


@pytest.mark.parametrize(
    ("a", "b", "union", "difference", "intersection"),
    [
        pytest.param(
            {"f:a": {}}, {"f:b": {}}, {"f:a": {}, "f:b": {}}, {"f:a": {}}, {}, id="apart"
        ),
        pytest.param(
            {"f:a": {".": {}, "f:x": {}}}, {"f:a": {"f:x": {}}}, {"f:a": {".": {}, "f:x": {}}}, {"f:a": {}}, {"f:a": {"f:x": {}}},
            id="inside",
        ),
        pytest.param({"f:a": {}}, {"f:a": {"f:x": {}}}, {"f:a": {".": {}, "f:x": {}}}, {"f:a": {}}, {}, id="leaf-and-inside"),
    ],
)  # fmt: skip
def test_set_algebra(a: Any, b: Any, union: Any, difference: Any, intersection: Any) -> None:
    assert fieldsets.union(a, b) == union
    assert fieldsets.difference(a, b) == difference
    assert fieldsets.intersection(a, b) == intersection
