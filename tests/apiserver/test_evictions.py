"""pods/eviction and the budgets it asks: what is refused, in which words, and what an eviction leaves behind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from drakit.api.errors import StatusError
from tests.apiserver.serving import Local, local_server, run, running_server

POD = {"containers": [{"name": "c", "image": "registry.example.com/x:1"}]}
EVICTION = "/api/v1/namespaces/default/pods/a/eviction"
ALLOWS_ONE = {
    "observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2,
    "conditions": [
        {"type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods", "message": "",
         "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}
    ],
}  # fmt: skip
FULL = {**ALLOWS_ONE, "disruptionsAllowed": 0, "currentHealthy": 1}


async def add_pod(local: Local, name: str, *, ready: bool = True) -> None:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "x"}}, "spec": POD}
    await local.request("POST", "pods", group="", body=body)
    target = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n"}}
    await local.request("POST", "pods", name, group="", subresource="binding", body=target)
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    status = {"status": {"phase": "Running", "conditions": [condition]}}
    await local.patch(name, status, plural="pods", group="", subresource="status")


async def add_budget(local: Local, status: dict[str, Any] | None, name: str = "b", **spec: Any) -> None:
    body = {"metadata": {"name": name}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}, **spec}}
    await local.request("POST", "poddisruptionbudgets", group="policy", body=body)
    if status is not None:
        await local.patch(name, {"status": status}, plural="poddisruptionbudgets", group="policy", subresource="status")


@asynccontextmanager
async def guarded(status: dict[str, Any] | None, *, ready: bool = True, **spec: Any) -> AsyncIterator[Local]:
    """Pods a and b under one budget."""
    async with local_server() as local:
        for name in ("a", "b"):
            await add_pod(local, name, ready=ready)
        await add_budget(local, status, **spec)
        yield local


async def evict(local: Local, name: str, **options: Any) -> None:
    body = {"metadata": {"name": name}, **({"deleteOptions": options} if options else {})}
    await local.request("POST", "pods", name, group="", subresource="eviction", body=body)


async def budget(local: Local) -> dict[str, Any]:
    found: dict[str, Any] = (await local.request("GET", "poddisruptionbudgets", "b", group="policy")).body
    return found


async def leaves(local: Local, name: str) -> bool:
    pod = (await local.request("GET", "pods", name, group="")).body
    return bool(pod["metadata"].get("deletionTimestamp"))


def test_eviction_takes_one_from_the_budget() -> None:
    async def scenario() -> None:
        async with guarded(ALLOWS_ONE) as local:
            await evict(local, "a")
            status = (await budget(local))["status"]
            assert status["disruptionsAllowed"] == 0
            assert list(status["disruptedPods"]) == ["a"]
            assert [(c["status"], c["reason"]) for c in status["conditions"]] == [("False", "InsufficientPods")]
            with pytest.raises(StatusError) as error:
                await evict(local, "b")
            assert error.value.code == 429
            assert error.value.causes[0]["reason"] == "DisruptionBudget"
            assert await leaves(local, "a")
            assert not await leaves(local, "b")
            gone = (await local.request("GET", "pods", "a", group="")).body
            assert {c["type"] for c in gone["status"]["conditions"]} >= {"DisruptionTarget"}

    run(scenario())


@pytest.mark.parametrize(
    ("ready", "policy", "status", "goes"),
    [
        pytest.param(True, "AlwaysAllow", FULL, False, id="a healthy pod counts under any policy"),
        pytest.param(False, "AlwaysAllow", FULL, True, id="an unhealthy one may always go"),
        pytest.param(False, None, FULL, True, id="unhealthy while enough are healthy"),
        pytest.param(False, None, {**FULL, "currentHealthy": 0}, False, id="unhealthy while too few are healthy"),
    ],
)
def test_pods_that_are_not_ready(ready: bool, policy: str | None, status: dict[str, Any], goes: bool) -> None:
    async def scenario() -> None:
        spec = {"unhealthyPodEvictionPolicy": policy} if policy else {}
        async with guarded(status, ready=ready, **spec) as local:
            if goes:
                await evict(local, "a")
            else:
                with pytest.raises(StatusError, match="would violate"):
                    await evict(local, "a")
            assert await leaves(local, "a") is goes
            assert (await budget(local))["status"]["disruptionsAllowed"] == 0

    run(scenario())


@pytest.mark.parametrize(
    ("status", "code", "cause"),
    [
        pytest.param(FULL, 429, "The disruption budget b needs 1 healthy pods and has 1 currently", id="used up"),
        pytest.param(None, 429, "The disruption budget b is still being processed by the server.", id="not seen yet"),
        pytest.param(
            {**FULL, "currentHealthy": 2}, 429, "The disruption budget b does not allow evicting pods currently",
            id="used up by pods on their way",
        ),
        pytest.param(
            {**FULL, "conditions": [{**ALLOWS_ONE["conditions"][0], "status": "False", "reason": "SyncFailed",  # type: ignore[index] # a list
                                     "message": "no scale"}]},
            429, "The disruption budget b does not allow evicting pods currently because it failed sync: no scale",
            id="sync failed",
        ),
        pytest.param(
            {**ALLOWS_ONE, "disruptedPods": {f"p{number}": "2026-01-01T00:00:00Z" for number in range(2001)}}, 403,
            "The disruption budget b does not allow evicting pods currently: too many pending evictions not confirmed by "
            "PDB controller",
            id="too many on their way",
        ),
    ],
)  # fmt: skip
def test_a_refusal_says_why(status: dict[str, Any] | None, code: int, cause: str) -> None:
    async def scenario() -> None:
        async with guarded(status) as local:
            with pytest.raises(StatusError) as error:
                await evict(local, "a")
            assert (error.value.code, error.value.causes[0]["message"]) == (code, cause)
            # Only what resolves itself in a moment tells clients to wait: kubectl obeys without a word.
            assert error.value.retry_after_seconds == (10 if "processed" in cause else 0)
            assert not await leaves(local, "a")

    run(scenario())


def test_a_failed_precondition_spends_nothing() -> None:
    async def scenario() -> None:
        async with guarded(ALLOWS_ONE) as local:
            for conditions in ({"uid": "other"}, {"resourceVersion": "1"}):
                with pytest.raises(StatusError, match="does not match") as error:
                    await evict(local, "a", preconditions=conditions)
                assert error.value.code == 409
            assert (await budget(local))["status"]["disruptionsAllowed"] == 1
            version = (await local.request("GET", "pods", "a", group="")).body["metadata"]["resourceVersion"]
            await evict(local, "a", preconditions={"resourceVersion": version})
            assert await leaves(local, "a")

    run(scenario())


def test_the_mark_takes_the_place_of_an_earlier_one_and_keeps_its_date() -> None:
    async def scenario() -> None:
        async with guarded(ALLOWS_ONE) as local:
            earlier = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            earlier["observedGeneration"] = 1  # type: ignore[assignment] # a number among texts
            conditions = [earlier, {"type": "Ready", "status": "True"}]
            await local.patch(
                "a", {"status": {"conditions": conditions}}, plural="pods", group="", subresource="status"
            )
            await evict(local, "a")
            found = (await local.request("GET", "pods", "a", group="")).body["status"]["conditions"]
            assert [each["type"] for each in found] == ["DisruptionTarget", "Ready"]
            assert found[0]["reason"] == "EvictionByEvictionAPI"
            assert (found[0]["lastTransitionTime"], found[0]["observedGeneration"]) == ("2026-01-01T00:00:00Z", 1)

    run(scenario())


@pytest.mark.parametrize("metadata", [pytest.param({}, id="no-name"), pytest.param({"name": "b"}, id="another")])
def test_an_eviction_names_the_pod_of_its_url(metadata: dict[str, str]) -> None:
    async def scenario() -> None:
        async with guarded(ALLOWS_ONE) as local:
            with pytest.raises(StatusError, match="^name in URL does not match name in Eviction object$") as error:
                await local.request("POST", "pods", "a", group="", subresource="eviction", body={"metadata": metadata})
            assert error.value.code == 400

    run(scenario())


def test_a_pod_under_two_budgets_cannot_be_evicted() -> None:
    async def scenario() -> None:
        async with guarded(ALLOWS_ONE) as local:
            await add_budget(local, ALLOWS_ONE, "c")
            with pytest.raises(StatusError, match="^This pod has more than one PodDisruptionBudget") as error:
                await evict(local, "a")
            assert (error.value.code, error.value.reason) == (500, "")

    run(scenario())


@pytest.mark.slow
def test_a_used_up_budget_names_no_time_to_wait() -> None:
    """kubectl drain waits silently for the time in Retry-After, ten times over; without it, it says what it waits for."""
    with running_server() as server:
        pod = {"metadata": {"name": "a", "labels": {"app": "x"}}, "spec": {**POD, "nodeName": "n"}}
        assert server.json("POST", "/api/v1/namespaces/default/pods", pod)[0] == 201
        budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
        assert server.json("POST", budgets, {"metadata": {"name": "b"}, "spec": spec})[0] == 201
        merge = {"Content-Type": "application/merge-patch+json"}
        running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        server.json("PATCH", "/api/v1/namespaces/default/pods/a/status", running, merge)
        code, headers, _ = server.http("POST", EVICTION, {"metadata": {"name": "a"}})
        assert (code, headers.get("Retry-After")) == (429, "10")
        server.json("PATCH", f"{budgets}/b/status", {"status": FULL}, merge)
        code, headers, _ = server.http("POST", EVICTION, {"metadata": {"name": "a"}})
        assert (code, headers.get("Retry-After")) == (429, None)
