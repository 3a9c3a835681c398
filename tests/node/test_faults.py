"""What goes wrong between agent and drivers: nothing leaks, nothing is prepared twice at once, and the pod's events say what it is."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from lightkube.models.resource_v1 import ResourceClaim

from drakit.driver.checkpoint import dump_envelope
from drakit.node.claim_state import ClaimInfo
from drakit.node.errors import StateError
from tests.node.world import World, run


def test_pod_runs_with_its_claim_and_leaves_nothing() -> None:
    async def test(world: World) -> None:
        driver = await world.driver()
        await world.claim("c")
        pod = await world.pod("p", "c")
        await world.phase("p", "Running")
        assert pod.metadata is not None
        assert world.state() == {"c": {pod.metadata.uid}}
        await world.delete("p")
        await world.gone("p")
        assert driver.calls == [("prepare", ["c"]), ("unprepare", ["c"])]
        assert world.state() == {}

    run(test)


def test_missing_driver_is_named_and_waited_for() -> None:
    async def test(world: World) -> None:
        await world.claim("c")
        await world.pod("p", "c")
        text = await world.event("FailedPrepareDynamicResources")
        assert (
            text
            == "Failed to prepare dynamic resources: prepare dynamic resources: DRA driver gpu.example.com is not registered"
        )
        assert world.state() == {}, "nothing is recorded before all checks pass"
        await world.driver()
        await world.phase("p", "Running")

    run(test)


def test_pod_without_a_driver_can_be_deleted() -> None:
    async def test(world: World) -> None:
        await world.claim("c")
        await world.pod("p", "c")
        await world.event("FailedPrepareDynamicResources")
        await world.delete("p")
        await world.gone("p")

    run(test)


@pytest.mark.slow
def test_hanging_driver_runs_into_the_deadline() -> None:
    async def test(world: World) -> None:
        driver = await world.driver()
        driver.hang = True
        await world.claim("c")
        await world.pod("p", "c")
        await world.event("FailedPrepareDynamicResources", "DeadlineExceeded")
        assert world.state() != {}, "the driver may have prepared it: it has to be unprepared"
        driver.hang = False
        await world.phase("p", "Running")
        await world.delete("p")
        await world.gone("p")
        assert driver.calls[-1] == ("unprepare", ["c"])

    run(test, call_timeout=0.3)


@pytest.mark.slow
def test_driver_crashing_in_prepare_is_asked_again() -> None:
    async def test(world: World) -> None:
        driver = await world.driver()
        driver.crash = grpc.StatusCode.UNAVAILABLE
        await world.claim("c")
        await world.pod("p", "c")
        await world.event("FailedPrepareDynamicResources", "code = Unavailable desc = driver crashed")
        driver.crash = None
        await world.phase("p", "Running")
        assert {c[0] for c in driver.calls} == {"prepare"}

    run(test)


@pytest.mark.slow
def test_error_of_the_driver_is_in_the_event() -> None:
    async def test(world: World) -> None:
        driver = await world.driver()
        driver.error = "ECC memory broken"
        await world.claim("c")
        await world.pod("p", "c")
        await world.event(
            "FailedPrepareDynamicResources", "NodePrepareResources failed for ResourceClaim c: ECC memory broken"
        )
        await world.delete("p")
        driver.error = ""
        await world.gone("p")
        assert driver.calls[-1] == ("unprepare", ["c"]), "a failed prepare may have left something"
        assert world.state() == {}

    run(test)


def test_wrong_device_names_are_refused() -> None:
    async def test(world: World) -> None:
        driver = await world.driver()
        driver.devices = lambda claim: [{"pool_name": "pool", "device_name": "other"}]
        await world.claim("c", "dev")
        await world.pod("p", "c")
        await world.event(
            "FailedPrepareDynamicResources", "returned device pool/other, which ResourceClaim c was not allocated"
        )

    run(test)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda uids: [], "NodePrepareResources skipped 1 ResourceClaims"),
        (lambda uids: ["zzz"], "returned result for unknown claim UID zzz"),
    ],
)
def test_incomplete_answers_are_refused(answer: object, text: str) -> None:
    async def test(world: World) -> None:
        driver = await world.driver()
        driver.answer_uids = answer  # type: ignore[assignment]  # a lambda of the table
        await world.claim("c")
        await world.pod("p", "c")
        await world.event("FailedPrepareDynamicResources", text)

    run(test)


def test_driver_reregistering_under_a_new_socket_takes_over() -> None:
    async def test(world: World) -> None:
        old = await world.driver(uid="aaa")
        new = await world.driver(uid="bbb")
        await world.claim("c")
        await world.pod("p", "c")
        await world.phase("p", "Running")
        assert (old.calls, new.calls) == ([], [("prepare", ["c"])])
        await new.stop()

        async def one_left() -> bool:
            return len(world.agent.plugins._by_driver["gpu.example.com"]) == 1

        await world.until(one_left, "the newer instance to be unregistered")
        await world.delete("p")
        await world.gone("p")
        assert old.calls == [("unprepare", ["c"])]

    run(test)


def test_restarted_driver_at_the_same_socket_is_registered_again() -> None:
    async def test(world: World) -> None:
        driver = await world.driver()
        await driver.stop()
        await driver.start()
        await asyncio.wait_for(driver.registered.wait(), 10)
        await world.claim("c")
        await world.pod("p", "c")
        await world.phase("p", "Running")

    run(test)


@pytest.mark.slow
def test_two_drivers_in_one_claim_one_failing() -> None:
    async def test(world: World) -> None:
        gpu, nic = await world.driver(), await world.driver("nic.example.com")
        nic.error = "link down"
        nic.devices = lambda claim: [{"pool_name": "pool", "device_name": "nic-0"}]
        await world.claim("c", "gpu-0", extra=[("nic.example.com", "nic-0")])
        await world.pod("p", "c")
        await world.event("FailedPrepareDynamicResources", "link down")
        assert not world.runtime.sandboxes
        nic.error = ""
        await world.phase("p", "Running")
        await world.delete("p")
        await world.gone("p")
        assert gpu.calls[-1] == nic.calls[-1] == ("unprepare", ["c"])
        assert world.state() == {}

    run(test)


def test_shared_claim_is_prepared_once_and_unprepared_with_its_last_pod() -> None:
    async def test(world: World) -> None:
        driver = await world.driver()
        driver.hold = asyncio.Event()
        await world.claim("shared")
        for name in ("a", "b", "c"):
            await world.pod(name, "shared")

        async def asked() -> bool:
            return bool(driver.calls)

        await world.until(asked, "the first prepare")
        driver.hold.set()
        for name in ("a", "b", "c"):
            await world.phase(name, "Running")
        assert driver.calls == [("prepare", ["shared"])]
        for name in ("a", "b", "c"):
            await world.delete(name)
            await world.gone(name)
        assert driver.calls == [("prepare", ["shared"]), ("unprepare", ["shared"])]
        assert driver.most_running == 1

    run(test)


def test_pod_that_is_not_a_consumer_may_not_use_the_claim() -> None:
    async def test(world: World) -> None:
        await world.driver()
        await world.claim("c")
        pod = await world.pod("p", "c", reserve=False)
        assert pod.metadata is not None
        await world.event(
            "FailedPrepareDynamicResources", f"pod p ({pod.metadata.uid}) is not allowed to use ResourceClaim c"
        )

    run(test)


def test_claim_deleted_under_a_running_pod_is_still_unprepared() -> None:
    async def test(world: World) -> None:
        driver = await world.driver()
        await world.claim("c")
        await world.pod("p", "c")
        await world.phase("p", "Running")
        claim = await world.client.get(ResourceClaim, "c", namespace="default")
        plain = claim.to_dict()
        plain["status"].pop("reservedFor")
        await world.client.update(plain, subresource="status")
        await world.client.patch(ResourceClaim, "c", {"metadata": {"finalizers": None}}, namespace="default")
        await world.client.delete(ResourceClaim, "c", namespace="default")
        await world.delete("p")
        await world.gone("p")
        assert driver.calls[-1] == ("unprepare", ["c"])
        assert world.state() == {}

    run(test)


@pytest.mark.slow
def test_replaced_claim_waits_until_the_old_one_is_unprepared() -> None:
    async def test(world: World) -> None:
        driver = await world.driver()
        await world.claim("c", "old")
        await world.pod("p", "c")
        await world.phase("p", "Running")
        driver.error = "busy"  # unprepare fails: the old claim stays prepared
        await world.delete("p")
        await world.event("FailedKillPod", "busy")
        claim = await world.client.get(ResourceClaim, "c", namespace="default")
        plain = claim.to_dict()
        plain["status"].pop("reservedFor")
        await world.client.update(plain, subresource="status")
        await world.client.delete(ResourceClaim, "c", namespace="default")
        await world.claim("c", "new")
        await world.pod("q", "c")
        await world.event("FailedPrepareDynamicResources", "old ResourceClaim with same name c and different UID")
        driver.error = ""
        await world.gone("p")
        await world.phase("q", "Running")
        assert {
            i.name: [d.device for d in i.drivers["gpu.example.com"].devices] for i in world.agent.claims._store
        } == {"c": ["new"]}

    run(test)


@pytest.mark.slow
def test_terminal_status_is_written_only_after_unprepare() -> None:
    async def test(world: World) -> None:
        driver = await world.driver()
        await world.claim("c")
        await world.pod("p", "c", restartPolicy="Never")
        pod = await world.phase("p", "Running")
        driver.error = "busy"
        (container,) = world.runtime.containers
        world.runtime.end(container, 0)
        await world.event("FailedKillPod", "busy")
        pod = await world.get("p")
        assert pod.status is not None
        assert pod.status.phase == "Running"
        driver.error = ""
        await world.phase("p", "Succeeded")
        assert world.state() == {}

    run(test)


def test_agent_restart_keeps_pods_running_and_prepares_nothing_again() -> None:
    async def test(world: World) -> None:
        driver = await world.driver()
        await world.claim("c")
        await world.pod("p", "c")
        await world.phase("p", "Running")
        started = [c for c in world.runtime.calls if c[0] == "start_container"]
        await world.restart_agent()
        await world.phase("p", "Running")
        assert [c for c in world.runtime.calls if c[0] == "start_container"] == started
        assert driver.calls == [("prepare", ["c"])]
        await asyncio.wait_for(driver.registered.wait(), 10)
        await world.delete("p")
        await world.gone("p")
        assert driver.calls == [("prepare", ["c"]), ("unprepare", ["c"])]

    run(test)


STEPS = ("prepare", "run_sandbox", "create_container", "start_container", "running", "unprepare")


@pytest.mark.parametrize("step", STEPS)
def test_agent_killed_at_each_step_goes_on_where_it_was(step: str) -> None:
    """The agent stops dead while it does the step; a new one finishes the pod's life, and nothing is left."""

    async def test(world: World) -> None:
        driver = await world.driver()
        await world.claim("c")
        reached = asyncio.Event()
        if step in ("prepare", "unprepare"):
            if step == "prepare":
                driver.hold = asyncio.Event()
        elif step != "running":
            _freeze(world, step, reached)
        await world.pod("p", "c")
        if step == "prepare":
            await world.until(_called(driver, "prepare"), "prepare")
        elif step == "running":
            await world.phase("p", "Running")
        elif step == "unprepare":
            await world.phase("p", "Running")
            driver.hold = asyncio.Event()
            await world.delete("p")
            await world.until(_called(driver, "unprepare"), "unprepare")
        else:
            await asyncio.wait_for(reached.wait(), 10)
        await world.agent.stop()
        if driver.hold is not None:
            driver.hold.set()
        driver.registered.clear()
        await world.start_agent()
        await asyncio.wait_for(driver.registered.wait(), 10)
        if step != "unprepare":
            await world.phase("p", "Running")
            await world.delete("p")
        await world.gone("p")
        assert world.state() == {}
        assert driver.calls[-1] == ("unprepare", ["c"])
        assert not world.runtime.sandboxes
        assert driver.most_running == 1

    run(test)


def _called(driver: object, what: str):  # type: ignore[no-untyped-def]  # an async predicate
    async def check() -> bool:
        return any(c[0] == what for c in driver.calls)  # type: ignore[attr-defined]

    return check


def _freeze(world: World, method: str, reached: asyncio.Event) -> None:
    """The runtime's call never returns, once."""
    real = getattr(world.runtime, method)

    async def frozen(*args: object) -> object:
        setattr(world.runtime, method, real)
        reached.set()
        await asyncio.sleep(3600)
        raise AssertionError

    setattr(world.runtime, method, frozen)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b'{"Data":"{\\"kind\\":\\"DRAChec', "damaged"),
        (b"", "damaged"),
        (b'{"Data":"{}","Checksum":1}', "is corrupt"),
        (
            dump_envelope({"kind": "DRACheckpoint", "apiVersion": "checkpoint.dra.kubelet.k8s.io/v9"}),
            "this agent knows",
        ),
        (
            dump_envelope(
                {"kind": "DRACheckpoint", "apiVersion": "checkpoint.dra.kubelet.k8s.io/v1", "ClaimInfoStateList": [{}]}
            ),
            "cannot be read",
        ),
    ],
)
def test_untrusted_checkpoint_stops_the_agent_with_the_remedy(content: bytes, text: str) -> None:
    async def test(world: World) -> None:
        await world.agent.stop()
        path = world.root / "dra_manager_state"
        path.write_bytes(content)
        with pytest.raises(StateError, match=f"{text}.*remove"):
            await world.start_agent()
        path.unlink()
        await world.start_agent()

    run(test)


def test_pod_force_deleted_while_the_agent_was_away_is_cleaned_up() -> None:
    async def test(world: World) -> None:
        driver = await world.driver()
        await world.claim("c")
        await world.pod("p", "c")
        await world.phase("p", "Running")
        await world.agent.stop()
        await world.delete("p", grace_seconds=0)
        await world.start_agent()

        async def clean() -> bool:
            return world.state() == {}

        await world.until(clean, "the claim to be unprepared")
        assert driver.calls[-1] == ("unprepare", ["c"])
        assert not world.runtime.sandboxes

    run(test)


def test_unhealthy_device_shows_in_the_pods_status() -> None:
    async def test(world: World) -> None:
        driver = await world.driver(services=("v1.DRAPlugin", "v1.DRAResourceHealth"))
        await world.claim("c", "dev")
        await world.pod("p", "c")
        await world.phase("p", "Running")
        await driver.health.put([("pool", "dev", 2, "overheated")])

        async def told() -> list[object]:
            pod = await world.get("p")
            assert pod.status is not None
            (status,) = pod.status.containerStatuses or ()
            return [
                (r.name, h.resourceID, h.health, h.message)
                for r in status.allocatedResourcesStatus or ()
                for h in r.resources or ()
                if h.health == "Unhealthy"
            ]

        assert await world.until(told, "the health") == [
            ("claim:c", "gpu.example.com/pool/dev", "Unhealthy", "overheated")
        ]

    run(test)


def test_plugin_without_a_known_service_is_refused() -> None:
    async def test(world: World) -> None:
        from tests.node.world import ScriptedDriver

        driver = ScriptedDriver(world, services=("v9.DRAPlugin",))
        world._drivers.append(driver)
        await driver.start()

        async def refused() -> str:
            return driver.refusal

        text = await world.until(refused, "the refusal")
        assert (
            text
            == "none of services supported by the plugin (v9.DRAPlugin) are supported by the kubelet (v1.DRAPlugin v1beta1.DRAPlugin)"
        )

    run(test)


def test_claim_reallocated_under_a_running_pod_is_not_prepared_over_it() -> None:
    async def test(world: World) -> None:
        driver = await world.driver()
        await world.claim("c", "old")
        await world.pod("p", "c")
        await world.phase("p", "Running")
        claim = (await world.client.get(ResourceClaim, "c", namespace="default")).to_dict()
        allocation = claim["status"].pop("allocation")
        claim["status"].pop("reservedFor")
        emptied = (await world.client.update(claim, subresource="status")).to_dict()
        allocation["devices"]["results"][0]["device"] = "new"
        emptied["status"] = {"allocation": allocation}
        await world.client.update(emptied, subresource="status")
        await world.pod("q", "c")
        await world.event("FailedPrepareDynamicResources", "ResourceClaim c was reallocated while pods")
        assert driver.calls == [("prepare", ["c"])]
        await world.delete("p")
        await world.gone("p")
        world._devices["c"] = [
            {"pool_name": "pool", "device_name": "new", "request_names": ["r0"], "cdi_device_ids": []}
        ]
        await world.phase("q", "Running")
        assert driver.calls == [("prepare", ["c"]), ("unprepare", ["c"]), ("prepare", ["c"])]

    run(test)


@pytest.mark.parametrize(
    ("lists", "prepare", "unprepare"),
    [
        ([["*"], ["*"]], True, True),
        ([["NodePrepareResources", "NodeUnprepareResources"], ["*"]], True, True),
        ([["NodeUnprepareResources"], ["*"]], False, True),
        ([["*"], []], False, False),
    ],
)
def test_node_operations_are_skipped_only_when_all_results_say_so(
    lists: list[list[str]], prepare: bool, unprepare: bool
) -> None:
    results = [
        {"driver": "d", "pool": "p", "device": f"x{i}", "request": "r", "skipNodeOperations": skips}
        for i, skips in enumerate(lists)
    ]
    body = {
        "metadata": {"name": "c", "namespace": "ns", "uid": "u"},
        "spec": {},
        "status": {"allocation": {"devices": {"results": results}}},
    }
    claim: Any = ResourceClaim.from_dict(body)
    state = ClaimInfo.of(claim).drivers["d"]
    assert (state.skips("NodePrepareResources"), state.skips("NodeUnprepareResources")) == (prepare, unprepare)
