"""Groups with constraints and trees of groups in a whole cluster: conditions and events, victims, wake-ups, restarts.

The nodes have four GPUs each; labels make racks of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from lightkube.models.core_v1 import Node, Pod
from lightkube.models.events_v1 import Event
from lightkube.models.resource_v1 import ResourceClaim
from lightkube.models.scheduling_v1beta1 import PodGroup

from drakit.cli.cluster import Cluster, Options
from drakit.client import Client
from drakit.scheduler import Scheduler
from tests.scheduler.test_cluster import (
    NS,
    account,
    both,
    high_priority,
    node_of,
    pod,
    reason,
    scenario,
    template,
    until,
)
from tests.scheduler.test_topology import NESTED, TOPOLOGY

pytestmark = pytest.mark.slow

RACKS = {"node-0": "r1", "node-1": "r1", "node-2": "r2", "node-3": "r2"}


async def racked(client: Client, racks: Mapping[str, str] = RACKS) -> None:
    for node, rack in racks.items():
        await client.patch(Node, node, {"metadata": {"labels": {"rack": rack}}})


def group(name: str, count: int, key: str = "", parent: str = "", **more: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": count}} if count else {"basic": {}}, **more}
    return made("v1beta1", "PodGroup", name, spec, key, parent)


def composite(name: str, count: int, key: str = "", parent: str = "", **more: Any) -> dict[str, Any]:
    policy = {"gang": {"minGroupCount": count}} if count else {"basic": {}}
    reference = {"workloadName": "w", "templateName": "t"}
    return made(
        "v1alpha3",
        "CompositePodGroup",
        name,
        {"schedulingPolicy": policy, "workloadRef": reference, **more},
        key,
        parent,
    )


def made(version: str, kind: str, name: str, spec: dict[str, Any], key: str, parent: str) -> dict[str, Any]:
    if key:
        spec["schedulingConstraints"] = {"topology": [{"key": key}]}
    if parent:
        spec["parentCompositePodGroupName"] = parent
        spec["workloadRef"] = {"workloadName": "w", "templateName": "t"}
    meta = {"name": name, "namespace": NS}
    return {"apiVersion": f"scheduling.k8s.io/{version}", "kind": kind, "metadata": meta, "spec": spec}


def member(name: str, group: str, templates: str, **spec: Any) -> dict[str, Any]:
    return pod(name, templates=templates, schedulingGroup={"podGroupName": group}, **spec)


async def members(client: Client, group: str, count: int, templates: str, **spec: Any) -> list[str]:
    names = [f"{group}-{index}" for index in range(count)]
    for name in names:
        await client.create(member(name, group, templates, **spec))
    return names


async def racks_of(client: Client, names: list[str]) -> set[str]:
    return {RACKS[await node_of(client, name)] for name in names}


async def condition(client: Client, name: str) -> tuple[str, str]:
    found = await client.get(PodGroup, name, namespace=NS)
    given = next((c for c in (found.status.conditions if found.status else None) or ()), None)
    return (given.reason or "", given.message or "") if given is not None else ("", "")


async def says(client: Client, name: str, start: str) -> bool:
    return (await condition(client, name))[1].startswith(start)


async def allocated(client: Client) -> list[str]:
    claims = (await client.list(ResourceClaim)).items
    return [c.metadata.name or "" for c in claims if c.metadata and c.status and c.status.allocation]


def test_a_gang_gets_devices_of_one_rack_and_says_so() -> None:
    async def test(client: Client) -> None:
        await racked(client)
        await client.create(template("three", 3))
        await client.create(pod("other", templates="three", nodeSelector={"rack": "r1"}))
        await until(lambda: node_of(client, "other"), "the other pod placed")
        await client.create(group("g", 2, key="rack"))
        names = await members(client, "g", 2, "three")
        await until(lambda: both(client, *names), "the gang placed")
        assert await racks_of(client, names) == {"r2"}

        async def told() -> bool:
            return await condition(client, "g") == ("Scheduled", "")

        await until(told, "the condition")

    scenario(test, gates=TOPOLOGY, nodes=4)


def test_a_gang_that_no_rack_holds_waits_until_a_label_changes() -> None:
    """Nine devices and three nodes are wanted; each rack has two nodes."""

    async def test(client: Client) -> None:
        await racked(client)
        await client.create(template("three", 3))
        await client.create(group("g", 3, key="rack"))
        names = await members(client, "g", 3, "three")
        cause = "first placement status: minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
        text = f"pod group is unschedulable, 0/2 placements are available, {cause}"
        await until(lambda: says(client, "g", text), "the condition")
        assert (await condition(client, "g"))[0] == "Unschedulable"
        told = sorted([await reason(client, name) for name in names])
        post = "pod group preemption: No preemption victims found for incoming preemptor"
        assert told[0].startswith("0/2 nodes are available: 2 cannot allocate all claims.")
        assert told[1].startswith(f"pod group is unschedulable, {text}, {post}")
        assert not await allocated(client)
        assert not any([await node_of(client, name) for name in names])
        await client.patch(Node, "node-2", {"metadata": {"labels": {"rack": "r1"}}})
        await until(lambda: both(client, *names), "the gang placed")
        assert {await node_of(client, name) for name in names} == {"node-0", "node-1", "node-2"}

    scenario(test, gates=TOPOLOGY, nodes=4)


def test_a_gang_without_any_domain_waits_for_one() -> None:
    async def test(client: Client) -> None:
        await client.create(template("three", 3))
        await client.create(group("g", 2, key="rack"))
        names = await members(client, "g", 2, "three")
        post = "pod group preemption: No preemption victims found for incoming preemptor"
        await until(lambda: says(client, "g", f"no feasible placements found, {post}"), "the condition")
        assert await reason(client, names[0]) == "no feasible placements found"
        await racked(client)
        await until(lambda: both(client, *names), "the gang placed")
        assert len(await racks_of(client, names)) == 1

    scenario(test, gates=TOPOLOGY, nodes=4)


def test_a_gang_preempts_in_one_rack_only() -> None:
    """A pod of high priority keeps rack 1; in rack 2 two of the devices' holders have to go, of different nodes."""

    async def test(client: Client) -> None:
        await racked(client)
        await high_priority(client)
        await client.create(template("three", 3))
        kept = {"priorityClassName": "high", "nodeSelector": {"rack": "r1"}}
        await client.create(pod("kept", templates="three", **kept))
        await until(lambda: node_of(client, "kept"), "the important pod placed")
        for name, rack in (("low-0", "r1"), ("low-1", "r2"), ("low-2", "r2")):
            await client.create(pod(name, templates="three", nodeSelector={"rack": rack}))
            await until(lambda name=name: node_of(client, name), "a pod of low priority placed")  # type: ignore[misc]
        await client.create(group("g", 2, key="rack", priorityClassName="high"))
        names = await members(client, "g", 2, "three", priorityClassName="high")
        await until(lambda: both(client, *names), "the gang placed")
        assert await racks_of(client, names) == {"r2"}
        assert await both(client, "kept", "low-0")
        notes = [e.note or "" for e in (await client.list(Event)).items if e.reason == "FailedScheduling"]
        assert any("[waits for default/low-1, default/low-2 to leave]" in note for note in notes), notes
        found = await client.get(PodGroup, "g", namespace=NS)
        assert found.metadata is not None
        told = [e.note for e in (await client.list(Event)).items if e.reason == "Preempted"]
        assert told == [f"Preempted by podgroup {found.metadata.uid} on node cluster"] * 2

    scenario(test, gates=TOPOLOGY, nodes=4)


def test_a_gang_preempts_nobody_where_even_that_would_not_do() -> None:
    async def test(client: Client) -> None:
        await racked(client)
        await high_priority(client)
        await client.create(template("three", 3))
        low = [f"low-{index}" for index in range(4)]
        for name in low:
            await client.create(pod(name, templates="three"))
        await until(lambda: both(client, *low), "the pods of low priority placed")
        await client.create(group("g", 3, key="rack", priorityClassName="high"))
        await members(client, "g", 3, "three", priorityClassName="high")
        cause = "first placement status: minCount (3) cannot be satisfied: {}, 0 remaining"
        text = "pod group is unschedulable, 0/2 placements are available, "
        first = f"{text}{cause.format('0 scheduled').replace('0 remaining', '2 remaining')}"
        post = f"pod group preemption: {text}{cause.format('2 scheduled')}"
        await until(lambda: says(client, "g", f"{first}, {post}"), "the condition")
        await asyncio.sleep(0.3)
        assert await both(client, *low)

    scenario(test, gates=TOPOLOGY, nodes=4)


def restarted(test: Callable[[Client, Callable[[], Awaitable[None]]], Awaitable[None]]) -> None:
    """As `scenario`, with a scheduler that can be replaced by a new one that knows nothing."""

    async def main() -> None:
        async with Cluster(Options(listen=False, nodes=4, scheduler=False, gates=NESTED)) as cluster:
            await until(lambda: account(cluster.admin), "the default service account")
            running: list[asyncio.Task[None]] = []

            async def restart() -> None:
                if running:
                    running[-1].cancel()
                    await asyncio.gather(running[-1], return_exceptions=True)
                client = cluster.client("system:kube-scheduler")
                running.append(asyncio.create_task(Scheduler(client, cluster.informers, gates=NESTED).run()))

            await restart()
            try:
                await test(cluster.admin, restart)
            finally:
                running[-1].cancel()
                await asyncio.gather(running[-1], return_exceptions=True)

    asyncio.run(main())


def test_a_restarted_scheduler_goes_on_in_the_domain_of_the_pods_that_are_placed() -> None:
    async def test(client: Client, restart: Callable[[], Awaitable[None]]) -> None:
        await racked(client)
        await client.create(template("one"))
        await client.create(template("three", 3))
        await client.create(composite("root", 2, key="rack"))
        for name in ("a", "b"):
            await client.create(group(name, 1, parent="root"))
        names = [*await members(client, "a", 1, "one"), *await members(client, "b", 1, "one")]
        await until(lambda: both(client, *names), "the first pods placed")
        (home,) = await racks_of(client, names)
        other = ({"r1", "r2"} - {home}).pop()
        await client.create(pod("full", templates="three", nodeSelector={"rack": other}))  # the fuller one by now
        await until(lambda: node_of(client, "full"), "another pod placed")
        await restart()
        await client.create(member("late", "b", "one"))
        await until(lambda: node_of(client, "late"), "the late pod placed")
        assert await racks_of(client, ["late"]) == {home}

    restarted(test)


def test_a_restarted_scheduler_tries_a_tree_that_was_not_placed() -> None:
    async def test(client: Client, restart: Callable[[], Awaitable[None]]) -> None:
        await racked(client)
        await client.create(template("three", 3))
        await client.create(composite("root", 2, key="rack"))
        for name in ("a", "b"):
            await client.create(group(name, 1, parent="root"))
        blockers = [f"other-{index}" for index in range(4)]
        for name in blockers:
            await client.create(pod(name, templates="three"))
        await until(lambda: both(client, *blockers), "all racks full")
        names = [*await members(client, "a", 1, "three"), *await members(client, "b", 1, "three")]
        await until(lambda: reason(client, names[0]), "a reason")
        await restart()
        for name in blockers[:2]:
            await client.delete(Pod, name, namespace=NS)
        left = {await node_of(client, name) for name in blockers[2:]}
        if len({RACKS[node] for node in left}) == 2:
            await client.delete(Pod, blockers[2], namespace=NS)
        await until(lambda: both(client, *names), "the tree placed")
        assert len(await racks_of(client, names)) == 1

    restarted(test)


def test_groups_of_a_tree_tell_what_became_of_each() -> None:
    async def test(client: Client) -> None:
        await racked(client)
        await client.create(template("three", 3))
        await client.create(template("five", 5))
        await client.create(composite("root", 1))
        for name in ("a", "b"):
            await client.create(group(name, 2, key="rack", parent="root"))
        big = await members(client, "b", 2, "five")  # no node has five
        small = await members(client, "a", 2, "three")
        await until(lambda: both(client, *small), "the group that fits placed")
        assert len(await racks_of(client, small)) == 1

        async def scheduled() -> bool:
            return await condition(client, "a") == ("Scheduled", "")

        await until(scheduled, "its condition")
        await until(lambda: says(client, "b", "pod group is unschedulable, 0/2 placements"), "the other's condition")
        assert "2 cannot allocate all claims" in await reason(client, big[0])
        assert not any([await node_of(client, name) for name in big])

    scenario(test, gates=NESTED, nodes=4)


def test_a_tree_preempts_for_all_of_it() -> None:
    async def test(client: Client) -> None:
        await racked(client)
        await high_priority(client)
        await client.create(template("three", 3))
        low = [f"low-{index}" for index in range(4)]
        for name in low:
            await client.create(pod(name, templates="three"))
        await until(lambda: both(client, *low), "the pods of low priority placed")
        await client.create(composite("root", 2, key="rack", priorityClassName="high"))
        for name in ("a", "b"):
            await client.create(group(name, 1, parent="root", priorityClassName="high"))
            await members(client, name, 1, "three", priorityClassName="high")
        await until(lambda: both(client, "a-0", "b-0"), "the tree placed")
        assert len(await racks_of(client, ["a-0", "b-0"])) == 1
        left = {p.metadata.name for p in (await client.list(Pod)).items if p.metadata}
        assert len(left & set(low)) == 2
        notes = {(e.note or "").split(" ")[2] for e in (await client.list(Event)).items if e.reason == "Preempted"}
        assert notes == {"compositepodgroup"}

    scenario(test, gates=NESTED, nodes=4)


def test_a_tree_whose_groups_have_another_priority_than_the_root_is_an_error() -> None:
    async def test(client: Client) -> None:
        await high_priority(client)
        await client.create(template("one"))
        await client.create(composite("root", 1))
        await client.create(group("a", 1, parent="root", priorityClassName="high"))
        await members(client, "a", 1, "one", priorityClassName="high")
        alike = "all pods in a single pod group should have the same priority as the pod group's priority"
        await until(lambda: says(client, "a", f"{alike}, got 1000 and 0"), "the condition")
        assert (await condition(client, "a"))[0] == "SchedulerError"
        assert not await node_of(client, "a-0")

    scenario(test, gates=NESTED)


def test_groups_that_come_later_join_a_tree_that_is_placed() -> None:
    async def test(client: Client) -> None:
        await client.create(template("one"))
        await client.create(composite("root", 0))
        await client.create(group("a", 0, parent="root"))
        await members(client, "a", 1, "one")
        await until(lambda: node_of(client, "a-0"), "the first group placed")
        await client.create(composite("sub", 2, parent="root"))
        await client.create(group("b", 0, parent="sub"))
        await members(client, "b", 1, "one")
        await until(lambda: reason(client, "b-0"), "the second told that its parent needs two")
        assert not await node_of(client, "b-0")
        await client.create(group("c", 0, parent="sub"))
        await members(client, "c", 1, "one")
        await until(lambda: both(client, "b-0", "c-0"), "both placed")

    scenario(test, gates=NESTED)


def test_the_example_gets_a_whole_rack() -> None:
    async def test(client: Client) -> None:
        await racked(client)
        text = (Path(__file__).parents[2] / "examples" / "gang-in-a-rack.yaml").read_text(encoding="utf-8")
        for body in yaml.safe_load_all(text):
            await client.create(body, namespace=NS)

        async def placed() -> list[str]:
            bound = [p for p in (await client.list(Pod, namespace=NS)).items if p.spec and p.spec.nodeName]
            return [p.metadata.name or "" for p in bound if p.metadata] if len(bound) == 4 else []

        names = await until(placed, "all four pods placed")
        assert len(await racks_of(client, names)) == 1

    scenario(test, gates=NESTED, nodes=4)
