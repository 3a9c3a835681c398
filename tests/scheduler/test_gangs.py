"""Groups whose pods come, go or fail in the middle: all of them are placed or none is, and nothing stays taken for those that are not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from lightkube.models.admissionregistration_v1 import ValidatingAdmissionPolicyBinding
from lightkube.models.core_v1 import Pod
from lightkube.models.resource_v1 import ResourceClaim
from lightkube.models.scheduling_v1beta1 import PodGroup

from drakit.api.errors import StatusError
from drakit.api.typed import from_plain
from drakit.client import Client
from drakit.clock import VirtualClock
from drakit.scheduler.groups import condition_patch
from drakit.scheduler.queue import SchedulingQueue
from drakit.scheduler.state import State
from drakit.scheduler.tracker import Tracker
from tests.scheduler import builders
from tests.scheduler.test_cluster import (
    CLASS,
    GANGS,
    NS,
    both,
    claim,
    gang,
    gang_pod,
    group_condition,
    high_priority,
    node_of,
    pod,
    reason,
    scenario,
    template,
    until,
)

FINALIZER = "resource.kubernetes.io/delete-protection"


def member(name: str, claims: str = "", **spec: Any) -> dict[str, Any]:
    return pod(name, claims=claims, schedulingGroup={"podGroupName": "gang"}, **spec)


async def left_behind(client: Client, name: str, devices: list[str], consumer: dict[str, Any]) -> None:
    """The claim as a scheduler leaves it that is killed between the claims and the bindings."""
    await client.patch(ResourceClaim, name, {"metadata": {"finalizers": [FINALIZER]}}, namespace=NS)
    results = [{"request": "r", "driver": CLASS, "pool": "node-0", "device": device} for device in devices]
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-0"]}]}]
    allocation = {
        "devices": {"results": results},
        "nodeSelector": {"nodeSelectorTerms": terms},
        "allocationTimestamp": "2026-01-01T00:00:00Z",
    }
    status = {"allocation": allocation, "reservedFor": [consumer]}
    await client.patch(ResourceClaim, name, {"status": status}, namespace=NS, subresource="status")


async def taken(client: Client) -> list[str]:
    claims = (await client.list(ResourceClaim)).items
    return [
        c.metadata.name or ""
        for c in claims
        if c.metadata and c.status and (c.status.allocation or c.status.reservedFor)
    ]


ALL = [f"gpu-{index}" for index in range(4)]


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True], ids=["of-a-pod", "of-the-group"])
def test_claims_that_a_killed_scheduler_wrote_are_given_back_when_the_gang_finds_no_place(shared: bool) -> None:
    """Four devices; the gang needs eight. The pod that comes later needs four."""

    async def test(client: Client) -> None:
        for name in ("c0", "c1"):
            await client.create(claim(name, 4))
        entry = {"name": "d", "resourceClaimName": "c0"}
        made: Any = await client.create(gang(2, resourceClaims=[entry]) if shared else gang(2))
        hold = {"schedulingGates": [{"name": "example.com/hold"}]}
        first: Any = await client.create(member("g0", "c0", **hold))
        await client.create(member("g1", "c1"))
        group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "gang", "uid": made.metadata.uid}
        one = {"resource": "pods", "name": "g0", "uid": first.metadata.uid}
        await left_behind(client, "c0", ALL, group if shared else one)
        await client.patch(Pod, "g0", {"spec": {"schedulingGates": None}}, namespace=NS)
        await until(lambda: reason(client, "g1"), "the gang's reason")

        async def free() -> bool:
            return not await taken(client)

        await until(free, "the claim given back", seconds=5)
        await client.create(template("all", 4))
        await client.create(pod("other", templates="all"))
        await until(lambda: node_of(client, "other"), "the other pod placed")
        assert not await node_of(client, "g0")

    scenario(test, gates=GANGS)


@pytest.mark.slow
def test_a_gang_of_which_some_are_bound_is_completed() -> None:
    async def test(client: Client) -> None:
        for name in ("c0", "c1"):
            await client.create(claim(name, 2))
        made: Any = await client.create(member("g1", "c1"))
        await left_behind(client, "c1", ALL[:2], {"resource": "pods", "name": "g1", "uid": made.metadata.uid})
        await client.create(member("g0", nodeName="node-0"))
        await client.create(member("g2", "c0"))
        await client.create(gang(3))
        await until(lambda: both(client, "g0", "g1", "g2"), "the rest placed")

    scenario(test, gates=GANGS)


@pytest.mark.slow
def test_one_gated_pod_stops_its_group_until_it_is_let_go_or_gone() -> None:
    async def test(client: Client) -> None:
        await client.create(gang(2))
        for name in ("g0", "g1"):
            await client.create(member(name))
        await client.create(member("gated", schedulingGates=[{"name": "example.com/hold"}]))
        await asyncio.sleep(0.1)
        for name in ("g0", "g1"):
            await client.delete(Pod, name, namespace=NS)
            await client.create(member(name))
        await client.create(pod("other"))
        await until(lambda: node_of(client, "other"), "an ordinary pod placed")
        assert not await node_of(client, "g0")
        await client.delete(Pod, "gated", namespace=NS)
        await until(lambda: both(client, "g0", "g1"), "the others placed", seconds=5)

    scenario(test, gates=GANGS)


@pytest.mark.slow
def test_what_a_group_has_left_over_preempts_at_once() -> None:
    async def test(client: Client) -> None:
        await high_priority(client)
        await client.create(template("two", 2))
        await client.create(pod("low", templates="two"))
        await until(lambda: node_of(client, "low"), "the pod of low priority placed")
        await client.create(gang(0, priorityClassName="high"))
        for name in ("g0", "g1"):  # one fits beside it
            body = gang_pod(name, "two")
            body["spec"]["priorityClassName"] = "high"
            await client.create(body)
        await until(lambda: both(client, "g0", "g1"), "both placed", seconds=5)

    scenario(test, gates=GANGS)


@pytest.mark.slow
def test_a_gang_that_lost_a_pod_says_so_and_holds_nothing() -> None:
    async def test(client: Client) -> None:
        await client.create(template("two", 2))
        await client.create(gang(3))
        for index in range(3):
            await client.create(gang_pod(f"g{index}", "two"))
        await until(lambda: reason(client, "g0"), "the gang's reason")
        await client.delete(Pod, "g2", namespace=NS)
        await client.create(pod("other", templates="two"))
        await until(lambda: node_of(client, "other"), "another pod placed")
        await client.delete(Pod, "other", namespace=NS)

        async def told() -> bool:
            return (await group_condition(client))[1].startswith(
                "pod group is unschedulable, minCount (3) cannot be satisfied: 0 scheduled, 2 remaining"
            )

        await until(told, "the group's condition", seconds=5)

        async def free() -> bool:
            return not await taken(client)

        await until(free, "nothing held")

    scenario(test, gates=GANGS)


@pytest.mark.slow
def test_when_one_claim_cannot_be_written_no_pod_of_the_gang_is_bound() -> None:
    async def test(client: Client) -> None:
        for index in range(3):
            await client.create(claim(f"c{index}"))
        api, kind = "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"
        rule = {
            "apiGroups": ["resource.k8s.io"],
            "apiVersions": ["v1"],
            "operations": ["UPDATE"],
            "resources": ["resourceclaims/status"],
            "resourceNames": ["c1"],
        }
        spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "false"}]}
        await client.create({"apiVersion": api, "kind": kind, "metadata": {"name": "keep"}, "spec": spec})
        binding = {"policyName": "keep", "validationActions": ["Deny"]}
        await client.create(
            {"apiVersion": api, "kind": f"{kind}Binding", "metadata": {"name": "keep"}, "spec": binding}
        )

        async def refused() -> bool:
            try:
                change = {"status": {"devices": None}}
                await client.patch(ResourceClaim, "c1", change, namespace=NS, subresource="status")
            except StatusError as error:
                return error.code in (403, 422)
            return False

        await until(refused, "the policy in force")
        await client.create(gang(3))
        names = [f"g{index}" for index in range(3)]
        for index, name in enumerate(names):
            await client.create(member(name, f"c{index}"))

        async def failed() -> bool:
            return (await group_condition(client))[0] == "SchedulerError"

        await until(failed, "the failure told")
        assert not any([await node_of(client, name) for name in names])
        await client.delete(ValidatingAdmissionPolicyBinding, "keep")
        await until(lambda: both(client, *names), "all placed", seconds=8)

    scenario(test, gates=GANGS)


# -- what comes and goes


class Counted(SchedulingQueue):
    """How often a pod is looked at."""

    looks = 0

    def gate(self, *args: Any, **kwargs: Any) -> None:
        self.looks += 1
        super().gate(*args, **kwargs)


def follower(group: PodGroup) -> tuple[Tracker, Counted]:
    queue, made = Counted(), State(gates=GANGS)
    tracker = Tracker(made, queue, VirtualClock(), "default-scheduler", wake=lambda: None, watched=lambda: None)
    tracker._group_set(group)
    return tracker, queue


def gang_member(name: str, **spec: Any) -> Pod:
    return builders.pod(name, schedulingGroup={"podGroupName": "g"}, **spec)


def test_pods_of_a_gang_are_looked_at_when_they_come_and_when_it_is_complete() -> None:
    pods = 100
    tracker, queue = follower(builders.pod_group("g", schedulingPolicy={"gang": {"minCount": pods}}))
    for number in range(pods):
        tracker._pod_set(None, gang_member(f"g{number}"))
    assert queue.counts()["active"] == pods
    assert queue.looks == pods - 1


def test_a_pod_that_has_its_node_already_can_complete_a_gang() -> None:
    tracker, queue = follower(builders.pod_group("g", schedulingPolicy={"gang": {"minCount": 2}}))
    tracker._pod_set(None, gang_member("g0"))
    assert queue.counts()["gated"] == 1
    tracker._pod_set(None, gang_member("g1", nodeName="n"))
    assert queue.counts()["active"] == 1


def test_a_pod_that_goes_while_it_is_being_bound_is_no_member_any_more() -> None:
    tracker, queue = follower(builders.pod_group("g", schedulingPolicy={"gang": {"minCount": 1}}))
    one = gang_member("g0")
    tracker._pod_set(None, one)
    assert queue.pop() is not None
    tracker.assumed.add("pod-g0")
    tracker.binding.add("pod-g0")
    tracker._pod_gone(one)
    assert tracker.groups.members == {}


# -- the condition


def group(*conditions: dict[str, Any]) -> PodGroup:
    meta = {"name": "g", "namespace": "ns", "uid": "G", "generation": 2}
    return from_plain(PodGroup, {"metadata": meta, "spec": {}, "status": {"conditions": list(conditions)}})


def condition(status: str, message: str, generation: int = 2, reason: str = "Unschedulable") -> dict[str, Any]:
    return {
        "type": "PodGroupInitiallyScheduled",
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


@pytest.mark.parametrize(
    ("known", "message", "changed", "stamped"),
    [
        pytest.param(None, "m", True, True, id="first"),
        pytest.param(condition("False", "m"), "m", False, False, id="nothing-new"),
        pytest.param(condition("False", "m"), "other", True, False, id="another-message-is-no-transition"),
        pytest.param(condition("False", "m", 1), "m", True, False, id="another-generation"),
        pytest.param(condition("False", "m"), "", True, True, id="scheduled"),
        pytest.param(condition("True", "", reason="Scheduled"), "m", False, False, id="never-back"),
        pytest.param(condition("True", "", 1, "Scheduled"), "", True, False, id="scheduled-in-another-generation"),
    ],
)
def test_condition_of_a_group(known: dict[str, Any] | None, message: str, changed: bool, stamped: bool) -> None:
    made = group(*([known] if known else []))
    reason = "Unschedulable" if message else "Scheduled"
    patch = condition_patch(made, "2026-02-02T00:00:00Z", message=message, reason=reason)
    assert (patch is not None) is changed
    if patch is not None:
        assert ("lastTransitionTime" in patch["status"]["conditions"][0]) is stamped


@pytest.mark.slow
def test_other_conditions_of_a_group_stay() -> None:
    async def test(client: Client) -> None:
        await client.create(gang(1))
        other = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        await client.patch(PodGroup, "gang", {"status": {"conditions": [other]}}, namespace=NS, subresource="status")
        await client.create(member("g0"))

        async def types() -> bool:
            found = await client.get(PodGroup, "gang", namespace=NS)
            kinds = {c.type for c in (found.status.conditions if found.status else None) or ()}
            return kinds == {"DisruptionTarget", "PodGroupInitiallyScheduled"}

        await until(types, "both conditions")

    scenario(test, gates=GANGS)
