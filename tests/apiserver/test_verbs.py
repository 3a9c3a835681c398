"""What the verbs do beyond the recorded answers: watches, pages, deletion, subresources, the in-process door."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest

from drakit.api.errors import StatusError
from drakit.apiserver.auth import UserInfo
from drakit.apiserver.local import LocalTransport
from drakit.client.transport import Request
from drakit.clock import VirtualClock
from tests.apiserver.serving import Local, claim, local_server, run


def pod(name: str, **more: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "registry.example.com/x:1"}], **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "x"}}, "spec": spec}


async def take(watch: Any, count: int) -> list[tuple[str, Any]]:
    return [await asyncio.wait_for(anext(watch), 5) for _ in range(count)]


def watch(local: Local, plural: str = "resourceclaims", group: str = "resource.k8s.io", **query: str) -> Any:
    return local.transport.watch(Request("GET", group, "v1", plural, "default", query=query))


def test_a_watch_without_version_begins_with_what_is_there() -> None:
    async def scenario() -> None:
        async with local_server() as local:
            await local.create(claim("a"))
            watching = watch(local)
            assert [(t, o["metadata"]["name"]) for t, o in await take(watching, 1)] == [("ADDED", "a")]
            await local.create(claim("b"))
            await local.request("DELETE", name="a")
            assert [(t, o["metadata"]["name"]) for t, o in await take(watching, 2)] == [
                ("ADDED", "b"),
                ("DELETED", "a"),
            ]
            await watching.aclose()

    run(scenario())


def test_a_list_and_the_watch_from_it_miss_nothing() -> None:
    async def scenario() -> None:
        async with local_server() as local:
            writers = [asyncio.ensure_future(local.create(claim(f"c{number}"))) for number in range(30)]
            await asyncio.sleep(0)
            listing = (await local.request("GET")).body
            watching = watch(local, resourceVersion=listing["metadata"]["resourceVersion"])
            names = {item["metadata"]["name"] for item in listing["items"]}
            await asyncio.gather(*writers)
            for _, obj in await take(watching, 30 - len(names)):
                names.add(obj["metadata"]["name"])
            assert names == {f"c{number}" for number in range(30)}
            await watching.aclose()

    run(scenario())


def test_initial_events_end_with_a_bookmark() -> None:
    async def scenario() -> None:
        async with local_server() as local:
            await local.create(claim("a"))
            watching = watch(
                local, sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true"
            )
            events = await take(watching, 2)
            assert [type for type, _ in events] == ["ADDED", "BOOKMARK"]
            assert events[1][1]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
            await watching.aclose()

    run(scenario())


def test_an_old_version_is_gone() -> None:
    async def scenario() -> None:
        async with local_server(history=5) as local:
            first = await local.create(claim("a"))
            for number in range(8):
                await local.patch("a", {"metadata": {"labels": {"n": str(number)}}})
            with pytest.raises(StatusError) as error:
                await take(watch(local, resourceVersion=first["metadata"]["resourceVersion"]), 1)
            assert error.value.code == 410

    run(scenario())


def test_pages_show_one_moment() -> None:
    async def scenario() -> None:
        async with local_server() as local:
            for number in range(6):
                await local.create(claim(f"c{number}"))
            page = (await local.request("GET", query={"limit": "2"})).body
            assert page["metadata"]["remainingItemCount"] == 4
            await local.request("DELETE", name="c4")
            await local.create(claim("c2-new"))
            names = [item["metadata"]["name"] for item in page["items"]]
            while token := page["metadata"].get("continue"):
                page = (await local.request("GET", query={"limit": "2", "continue": token})).body
                names += [item["metadata"]["name"] for item in page["items"]]
            assert names == [f"c{number}" for number in range(6)]

    run(scenario())


def test_an_expired_page_offers_the_rest_of_the_present() -> None:
    async def scenario() -> None:
        async with local_server(history=3) as local:
            for number in range(6):
                await local.create(claim(f"c{number}"))
            page = (await local.request("GET", query={"limit": "2"})).body
            for number in range(5):
                await local.patch("c0", {"metadata": {"labels": {"n": str(number)}}})
            with pytest.raises(StatusError) as error:
                await local.request("GET", query={"limit": "2", "continue": page["metadata"]["continue"]})
            assert error.value.code == 410
            rest = await local.request("GET", query={"continue": error.value.metadata["continue"]})
            assert [item["metadata"]["name"] for item in rest.body["items"]] == ["c2", "c3", "c4", "c5"]

    run(scenario())


def test_a_pod_on_a_node_gets_time_to_stop() -> None:
    async def scenario() -> None:
        async with local_server() as local:
            await local.request("POST", "pods", group="", body=pod("p"))
            target = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
            await local.request("POST", "pods", "p", group="", subresource="binding", body=target)
            marked = (await local.request("DELETE", "pods", "p", group="")).body
            assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
            shorter = await local.request("DELETE", "pods", "p", group="", body={"gracePeriodSeconds": 5})
            assert shorter.body["metadata"]["deletionGracePeriodSeconds"] == 5
            longer = await local.request("DELETE", "pods", "p", group="", body={"gracePeriodSeconds": 60})
            assert longer.body["metadata"]["deletionGracePeriodSeconds"] == 5
            await local.request("DELETE", "pods", "p", group="", body={"gracePeriodSeconds": 0})
            with pytest.raises(StatusError, match="not found"):
                await local.request("GET", "pods", "p", group="")

    run(scenario())


@pytest.mark.parametrize(
    ("phase", "later", "options", "moved", "left"),
    [
        pytest.param("Running", 1, {}, 0, 100, id="again"),
        pytest.param("Succeeded", 1, {}, 0, 100, id="finished-meanwhile"),
        pytest.param("Running", 1, {"gracePeriodSeconds": 200}, 0, 100, id="longer"),
        pytest.param("Running", 1, {"gracePeriodSeconds": 40}, -60, 40, id="shorter-counts-from-the-first-request"),
        pytest.param("Running", 50, {"gracePeriodSeconds": 40}, -50, 1, id="shorter-than-what-has-passed"),
        pytest.param("Running", 1, {"propagationPolicy": "Foreground"}, 0, 100, id="with-another-propagation"),
    ],
)
def test_a_pod_that_is_being_ended_only_gets_less_time(
    phase: str, later: float, options: dict[str, Any], moved: float, left: int
) -> None:
    async def scenario() -> None:
        clock = VirtualClock()
        async with local_server(clock=clock) as local:
            await local.request("POST", "pods", group="", body=pod("p"))
            target = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
            await local.request("POST", "pods", "p", group="", subresource="binding", body=target)
            first = (await local.request("DELETE", "pods", "p", group="", body={"gracePeriodSeconds": 100})).body
            await local.patch("p", {"status": {"phase": phase}}, plural="pods", group="", subresource="status")
            await clock.advance(later)
            then = (await local.request("DELETE", "pods", "p", group="", body=options)).body["metadata"]
            ends = [datetime.fromisoformat(each["deletionTimestamp"]) for each in (first["metadata"], then)]
            assert (ends[1] - ends[0]).total_seconds() == moved
            assert (then["deletionGracePeriodSeconds"], then.get("finalizers")) == (left, None)

    run(scenario())


def test_what_admission_fills_in_and_a_binding_writes_is_managed_by_nobody() -> None:
    async def scenario() -> None:
        async with local_server() as local:
            made = (await local.request("POST", "pods", group="", body=pod("p"))).body
            assert made["spec"]["tolerations"]
            target = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
            await local.request("POST", "pods", "p", group="", subresource="binding", body=target)
            bound = (await local.request("GET", "pods", "p", group="")).body
            assert bound["spec"]["nodeName"] == "n"
            entries = bound["metadata"]["managedFields"]
            assert [entry["manager"] for entry in entries] == ["test"]
            fields = entries[0]["fieldsV1"]["f:spec"]
            assert "f:containers" in fields
            assert not fields.keys() & {"f:tolerations", "f:priority", "f:nodeName"}

    run(scenario())


def test_resize_is_refused_clearly() -> None:
    async def scenario() -> None:
        async with local_server() as local:
            await local.request("POST", "pods", group="", body=pod("p"))
            with pytest.raises(StatusError) as error:
                await local.patch("p", {"spec": {}}, plural="pods", group="", subresource="resize")
            assert error.value.code in (404, 405)

    run(scenario())


def test_scale_changes_replicas_only() -> None:
    async def scenario() -> None:
        async with local_server() as local:
            template = {"metadata": {"labels": {"app": "x"}}, "spec": pod("x")["spec"]}
            spec = {"replicas": 1, "selector": {"matchLabels": {"app": "x"}}, "template": template}
            await local.request("POST", "deployments", group="apps", body={"metadata": {"name": "d"}, "spec": spec})
            where: dict[str, Any] = {"plural": "deployments", "group": "apps"}
            scaled = await local.patch("d", {"spec": {"replicas": 4}}, subresource="scale", **where)
            assert scaled["kind"] == "Scale"
            assert scaled["spec"] == {"replicas": 4}
            assert scaled["status"]["selector"] == "app=x"
            entries = (await local.request("GET", name="d", **where)).body["metadata"]["managedFields"]
            assert [(e.get("subresource"), e["fieldsV1"].get("f:spec")) for e in entries][1:] == [
                ("scale", {"f:replicas": {}})
            ]
            found = (await local.request("GET", name="d", **where)).body
            assert found["spec"]["replicas"] == 4
            assert found["metadata"]["generation"] == 2

    run(scenario())


@pytest.mark.parametrize(
    ("verb", "body", "code", "text"),
    [
        pytest.param(
            "PATCH",
            {"spec": {"replicas": -4}},
            422,
            'Scale.autoscaling "d" is invalid: spec.replicas: Invalid value: -4: must be greater than or equal to 0',
            id="negative",
        ),
        pytest.param(
            "PATCH",
            {"metadata": {"name": "e"}},
            400,
            "the name of the object (e) does not match the name on the URL (d)",
            id="name-of-another",
        ),
        pytest.param(
            "PUT",
            {"spec": {"replicas": 1}},
            400,
            "the name of the object (d based on URL) was undeterminable: name must be provided",
            id="no-name",
        ),
        pytest.param(
            "PUT",
            {"metadata": {"name": "d"}, "spec": {"replicas": "x"}},
            400,
            'Scale in version "v1" cannot be handled as a Scale: json: cannot unmarshal string into Go struct field '
            "ScaleSpec.spec.replicas of type int32",
            id="no-number",
        ),
        pytest.param(
            "PATCH",
            {"metadata": {"uid": "1"}},
            409,
            'Operation cannot be fulfilled on deployments/scale.apps "d": Precondition failed: UID in precondition: 1, '
            "UID in object meta: UID",
            id="uid-of-another",
        ),
        pytest.param("PATCH", {"spec": {"replicas": None}}, 200, "", id="none-is-zero"),
        pytest.param(
            "PUT",
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 7}},
            400,
            'Deployment in version "v1" cannot be handled as a Scale: no kind "Deployment" is registered for version '
            '"apps/v1" in scheme "pkg/api/legacyscheme/scheme.go:30"',
            id="another-kind",
        ),
    ],
)
def test_scale_is_checked_like_any_object(verb: str, body: dict[str, Any], code: int, text: str) -> None:
    async def scenario() -> None:
        async with local_server() as local:
            template = {"metadata": {"labels": {"app": "x"}}, "spec": pod("x")["spec"]}
            spec = {"replicas": 1, "selector": {"matchLabels": {"app": "x"}}, "template": template}
            where: dict[str, Any] = {"plural": "deployments", "group": "apps"}
            made = await local.request("POST", body={"metadata": {"name": "d"}, "spec": spec}, **where)
            try:
                if verb == "PATCH":
                    await local.patch("d", body, subresource="scale", **where)
                else:
                    await local.request("PUT", name="d", subresource="scale", body=body, **where)
                found = 200, ""
            except StatusError as error:
                found = error.code, error.message.replace(made.body["metadata"]["uid"], "UID")
            assert found == (code, text)

    run(scenario())


def test_a_scale_is_applied_with_conflicts_and_owners() -> None:
    async def scenario() -> None:
        async with local_server() as local:
            template = {"metadata": {"labels": {"app": "x"}}, "spec": pod("x")["spec"]}
            spec = {"replicas": 1, "selector": {"matchLabels": {"app": "x"}}, "template": template}
            where: dict[str, Any] = {"plural": "deployments", "group": "apps"}
            await local.request(
                "POST", body={"metadata": {"name": "d"}, "spec": spec}, query={"fieldManager": "creator"}, **where
            )

            async def apply(replicas: int, **query: str) -> None:
                scale = {
                    "apiVersion": "autoscaling/v1",
                    "kind": "Scale",
                    "metadata": {"name": "d"},
                    "spec": {"replicas": replicas},
                }
                options = {"fieldManager": "scaler", **query}
                await local.patch("d", scale, kind="apply-patch+yaml", subresource="scale", query=options, **where)

            with pytest.raises(StatusError, match='1 conflict: conflict with "creator"') as refused:
                await apply(5)
            assert refused.value.code == 409
            await apply(5, force="true")
            found = (await local.request("GET", name="d", **where)).body
            owners = [
                (entry["manager"], entry["operation"], entry.get("subresource"))
                for entry in found["metadata"]["managedFields"]
                if "f:replicas" in entry["fieldsV1"].get("f:spec", {})
            ]
            assert (found["spec"]["replicas"], owners) == (5, [("scaler", "Apply", "scale")])

    run(scenario())


def test_selector_of_a_scale_is_all_of_it() -> None:
    async def scenario() -> None:
        async with local_server() as local:
            template = {"metadata": {"labels": {"app": "x", "tier": "b"}}, "spec": pod("x")["spec"]}
            terms = [
                {"key": "tier", "operator": "In", "values": ["c", "b"]},
                {"key": "a", "operator": "DoesNotExist"},
                {"key": "app", "operator": "Exists"},
                {"key": "z", "operator": "NotIn", "values": ["y"]},
            ]
            spec = {"selector": {"matchLabels": {"app": "x"}, "matchExpressions": terms}, "template": template}
            where: dict[str, Any] = {"plural": "deployments", "group": "apps"}
            await local.request("POST", body={"metadata": {"name": "d"}, "spec": spec}, **where)
            scale = (await local.request("GET", name="d", subresource="scale", **where)).body
            assert scale["status"]["selector"] == "!a,app=x,app,tier in (b,c),z notin (y)"

    run(scenario())


def test_events_are_one_thing_under_two_names() -> None:
    async def scenario() -> None:
        async with local_server() as local:
            event = {
                "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
                "reason": "Because", "message": "text", "type": "Normal",
            }  # fmt: skip
            await local.request("POST", "events", group="", body=event)
            new = (await local.request("GET", "events", "e", group="events.k8s.io")).body
            assert new["apiVersion"] == "events.k8s.io/v1"
            assert new["note"] == "text"
            assert new["regarding"]["name"] == "p"

    run(scenario())


def test_the_in_process_door_checks_rights() -> None:
    async def scenario() -> None:
        async with local_server() as local:
            nobody = LocalTransport(local.server, UserInfo("nobody", ("system:authenticated",)))
            with pytest.raises(StatusError) as error:
                await nobody.request(Request("GET", "", "v1", "secrets", "default"))
            assert error.value.code == 403
            assert 'User "nobody" cannot list resource "secrets"' in str(error.value)
            with pytest.raises(StatusError):
                await anext(nobody.watch(Request("GET", "", "v1", "secrets", "default")))

    run(scenario())


def test_what_is_handed_out_is_shared_and_stays_as_it_was() -> None:
    async def scenario() -> None:
        async with local_server() as local:
            first = await local.create(claim("a", labels={"x": "1"}))
            again = (await local.request("GET", name="a")).body
            assert first is again
            await local.patch("a", {"metadata": {"labels": {"x": "2"}}})
            assert first["metadata"]["labels"] == {"x": "1"}

    run(scenario())


def test_a_namespace_on_its_way_out_takes_nothing_new() -> None:
    async def scenario() -> None:
        async with local_server() as local:
            await local.request("POST", "namespaces", group="", namespace="", body={"metadata": {"name": "n"}})
            await local.request("DELETE", "namespaces", "n", group="", namespace="")
            with pytest.raises(StatusError, match="being terminated"):
                await local.request("POST", namespace="n", body=claim("a"))

    run(scenario())


def test_default_may_not_be_deleted() -> None:
    async def scenario() -> None:
        async with local_server() as local:
            with pytest.raises(StatusError, match="this namespace may not be deleted"):
                await local.request("DELETE", "namespaces", "default", group="", namespace="")

    run(scenario())


def test_a_cluster_has_the_two_classes_of_its_system_and_keeps_them() -> None:
    async def scenario() -> None:
        async with local_server() as local:
            at: dict[str, Any] = {"group": "scheduling.k8s.io", "plural": "priorityclasses", "namespace": ""}
            listed = (await local.request("GET", **at)).body
            found = {item["metadata"]["name"]: item["value"] for item in listed["items"]}
            assert found == {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
            with pytest.raises(StatusError) as refused:
                await local.request("DELETE", name="system-node-critical", **at)
            assert refused.value.message == (
                'priorityclasses.scheduling.k8s.io "system-node-critical" is forbidden: '
                "this is a system priority class and cannot be deleted"
            )

    run(scenario())
