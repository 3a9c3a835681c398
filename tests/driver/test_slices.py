"""How pools become ResourceSlices, and which writes bring the API to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from lightkube.models.resource_v1 import ResourceSlice

from drakit.driver import Driver, Publisher, PublishError
from drakit.driver.slices import Plan, Pool, check_pool, plan, split
from drakit.driver.testing import DriverKit

OWNER = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "controller": True}


def devices(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": f"d{i}", **fields} for i in range(count)]


def apply(existing: Sequence[dict[str, Any]], todo: Plan) -> list[dict[str, Any]]:
    """What the API has after the plan."""
    gone = {s["metadata"]["name"] for s in todo.delete}
    updated = {s["metadata"]["name"]: s for s in todo.update}
    kept = [updated.get(s["metadata"]["name"], s) for s in existing if s["metadata"]["name"] not in gone]
    made = [{**s, "metadata": {"name": s["metadata"]["generateName"] + f"x{i}"}} for i, s in enumerate(todo.create)]
    return sorted([*kept, *made], key=lambda s: str(s["metadata"]["name"]))


def desired(pool: Pool | None, existing: Sequence[dict[str, Any]] = ()) -> Plan:
    return plan("drv", "pool", pool, existing, node_name="n", owner=OWNER)


def generations(slices: Sequence[dict[str, Any]]) -> list[int]:
    return [s["spec"]["pool"]["generation"] for s in slices]


@pytest.mark.parametrize(
    ("pool", "sizes"),
    [
        pytest.param(Pool(), [0], id="empty-pool-publishes-one-slice"),
        pytest.param(Pool(devices(128)), [128], id="exactly-full"),
        pytest.param(Pool(devices(129)), [128, 1], id="one-more"),
        pytest.param(Pool(devices(65, taints=[{"key": "k", "effect": "None"}])), [64, 1], id="taints-halve-the-limit"),
        pytest.param(Pool(devices(65, attributes={"a": {"ints": [1]}})), [64, 1], id="list-attributes-halve-the-limit"),
        pytest.param(
            Pool([*devices(100), {"name": "t", "taints": [{"key": "k", "effect": "None"}]}]),
            [100, 1],
            id="tainted-one-starts-a-new-slice",
        ),
        pytest.param(
            Pool(devices(3), [{"name": f"c{i}", "counters": {"m": {"value": "1"}}} for i in range(9)]),
            [8, 1, 3],
            id="counters-come-first",
        ),
    ],
)
def test_pools_split_at_the_limits_of_the_api(pool: Pool, sizes: list[int]) -> None:
    assert [len(s.devices) + len(s.shared_counters) for s in split(pool)] == sizes


def test_new_pool_is_created_with_ordered_names() -> None:
    todo = desired(Pool(devices(200)))
    names = [s["metadata"]["generateName"] for s in todo.create]
    assert names == ["00000-drv-n-", "00001-drv-n-"]
    assert generations(todo.create) == [1, 1]
    assert todo.create[0]["metadata"]["ownerReferences"] == [OWNER]
    assert todo.create[0]["spec"]["nodeName"] == "n"


def test_unchanged_pool_needs_nothing() -> None:
    existing = apply((), desired(Pool(devices(200))))
    assert not desired(Pool(devices(200)), existing)


def test_one_changed_slice_keeps_the_generation() -> None:
    existing = apply((), desired(Pool(devices(200))))
    changed = [*devices(199), {"name": "d199", "attributes": {"a": {"int": 1}}}]
    todo = desired(Pool(changed), existing)
    assert (len(todo.update), len(todo.create), len(todo.delete)) == (1, 0, 0)
    assert generations(todo.update) == [1]


def test_two_changed_slices_raise_the_generation_of_all() -> None:
    existing = apply((), desired(Pool(devices(300))))
    changed = [{**d, "attributes": {"a": {"int": 1}}} if d["name"] in ("d0", "d299") else d for d in devices(300)]
    todo = desired(Pool(changed), existing)
    assert generations(todo.update) == [2, 2, 2]


def test_fewer_slices_remove_the_rest() -> None:
    existing = apply((), desired(Pool(devices(200))))
    todo = desired(Pool(devices(10)), existing)
    assert [s["metadata"]["name"][:5] for s in todo.delete] == ["00001"]
    after = apply(existing, todo)
    assert [s["spec"]["pool"]["resourceSliceCount"] for s in after] == [1]


def test_obsolete_and_foreign_slices_are_removed() -> None:
    (good,) = apply((), desired(Pool(devices(1))))
    old = {
        **good,
        "metadata": {"name": "00000-drv-n-old"},
        "spec": {**good["spec"], "pool": {**good["spec"]["pool"], "generation": 0}},
    }
    odd = {**good, "metadata": {"name": "odd"}}
    todo = desired(Pool(devices(1)), [good, old, odd])
    assert {s["metadata"]["name"] for s in todo.delete} == {"00000-drv-n-old", "odd"}
    assert not todo.update


def test_withdrawn_pool_is_deleted() -> None:
    existing = apply((), desired(Pool(devices(1))))
    assert len(desired(None, existing).delete) == 1


def test_equal_quantities_are_no_change() -> None:
    existing = apply((), desired(Pool(devices(1, capacity={"memory": {"value": "1Gi"}}))))
    assert not desired(Pool(devices(1, capacity={"memory": {"value": "1024Mi"}})), existing)


def test_taint_keeps_its_time() -> None:
    taint = {"key": "k", "effect": "NoSchedule"}
    (existing,) = apply((), desired(Pool(devices(1, taints=[taint]))))
    existing["spec"]["devices"][0] = {
        **existing["spec"]["devices"][0],
        "taints": [{**taint, "timeAdded": "2026-01-01T00:00:00Z"}],
    }
    assert not desired(Pool(devices(1, taints=[taint])), [existing])
    changed = Pool([{"name": "d0", "taints": [taint], "attributes": {"a": {"int": 1}}}])
    (update,) = desired(changed, [existing]).update
    assert update["spec"]["devices"][0]["taints"][0]["timeAdded"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        (Pool([{"name": "d"}, {"name": "d"}]), "duplicate device 'd'"),
        (Pool((), [{"name": "c"}, {"name": "c"}]), "duplicate counter set 'c'"),
        (
            Pool([{"name": "d", "consumesCounters": [{"counterSet": "c", "counters": {}}]}]),
            "counter set 'c' referenced by device 'd' not found",
        ),
        (
            Pool(
                [{"name": "d", "consumesCounters": [{"counterSet": "c", "counters": {"m": {}}}]}],
                [{"name": "c", "counters": {}}],
            ),
            "counter 'm' referenced by device 'd' not found in counter set 'c'",
        ),
    ],
)
def test_mistakes_across_slices_are_found_before_publishing(pool: Pool, message: str) -> None:
    with pytest.raises(PublishError, match=message):
        check_pool("p", pool)


class Publishing(Driver):
    name = "pub.example.com"

    def __init__(self) -> None:
        self.count = 130

    def discover(self) -> list[dict[str, Any]]:
        return devices(self.count)

    def prepare(self, claim: Any) -> list[Any]:
        return []


def test_published_slices_follow_the_driver() -> None:
    async def run() -> None:
        driver = Publishing()
        async with DriverKit(driver) as kit:
            assert [len(s["spec"]["devices"]) for s in await kit.slices()] == [128, 2]
            driver.count = 1
            await kit.plugin.publish()
            (only,) = await kit.slices()
            assert (only["spec"]["pool"]["resourceSliceCount"], len(only["spec"]["devices"])) == (1, 1)
            writes = dict(kit.plugin.publisher.writes)
            await kit.plugin.publish()
            await kit.slices()
            assert kit.plugin.publisher.writes == writes, "an unchanged pool is not written again"
            await kit.plugin.publisher.remove()
            assert (await kit.client.list(ResourceSlice)).items == []

    asyncio.run(run())


def test_changes_by_others_are_repaired_and_failures_retried() -> None:
    async def run() -> None:
        async with DriverKit(Publishing()) as kit:
            await kit.plugin.publisher.remove()
            told: list[str] = []
            publisher = Publisher(
                kit.client,
                "pub.example.com",
                node_name="test-node",
                repair_delay=0.01,
                on_error=lambda error, what: told.append(str(error)),
            )
            publisher.update({"test-node": Pool(devices(3))})
            await publisher.start()
            await asyncio.wait_for(publisher.synced(), 10)
            (slice_,) = (await kit.client.list(ResourceSlice)).items
            assert slice_.metadata is not None
            await kit.client.delete(ResourceSlice, slice_.metadata.name or "")
            await _until(lambda: publisher.writes["create"] == 2)
            publisher.update({"test-node": Pool([{"name": "Not A Label"}])})  # the API server refuses it
            await _until(lambda: len(told) >= 2)
            assert "Invalid value" in told[0]
            publisher.update({"test-node": Pool(devices(1))})
            await asyncio.wait_for(publisher.synced(), 10)
            await publisher.stop()

    asyncio.run(run())


async def _until(check: Callable[[], bool]) -> None:
    for _ in range(2000):
        if check():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("waited too long")


def test_fields_that_the_server_drops_are_told_once() -> None:
    async def run() -> None:
        async with DriverKit(Publishing()) as kit:
            await kit.plugin.publisher.remove()
            told: list[str] = []
            publisher = Publisher(
                kit.client,
                "pub.example.com",
                node_name="test-node",
                on_error=lambda error, what: told.append(str(error)),
            )
            await publisher.start()
            publisher.update({"test-node": Pool(devices(1), skip_node_operations=("*",))})
            await asyncio.wait_for(publisher.synced(), 10)
            publisher._wake.set()
            publisher._synced.clear()
            await asyncio.wait_for(publisher.synced(), 10)
            assert told == ["pool 'test-node': the API server dropped skipNodeOperations: a feature gate is off there"]
            assert publisher.writes == {"create": 1, "update": 0, "delete": 0}
            await publisher.stop()

    asyncio.run(run())
