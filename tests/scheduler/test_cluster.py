"""The scheduler at work in a whole cluster in this process: preemption, gangs, gates, released claims, wake-ups."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from lightkube.models.admissionregistration_v1 import ValidatingAdmissionPolicyBinding
from lightkube.models.core_v1 import Namespace, Pod
from lightkube.models.events_v1 import Event
from lightkube.models.resource_v1 import ResourceClaim
from lightkube.models.scheduling_v1beta1 import PodGroup

from drakit.api.errors import StatusError
from drakit.api.gates import FeatureGates
from drakit.cli.cluster import Cluster, Options
from drakit.client import Client
from drakit.scheduler.preemption import ongoing, preempt

pytestmark = pytest.mark.slow

API = "resource.k8s.io/v1"
NS = "default"
CLASS = "gpu.nvidia.com"
FINALIZER = "resource.kubernetes.io/delete-protection"


def scenario(test: Callable[[Client], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        async with Cluster(Options(listen=False, **{"nodes": 1, **options})) as cluster:
            await until(lambda: account(cluster.admin), "the default service account")
            await test(cluster.admin)

    asyncio.run(main())


async def account(client: Client) -> bool:
    from lightkube.models.core_v1 import ServiceAccount

    try:
        await client.get(ServiceAccount, "default", namespace=NS)
    except StatusError:
        return False
    return True


async def until(holds: Callable[[], Awaitable[Any]], what: str, seconds: float = 15.0) -> Any:
    for _ in range(int(seconds / 0.02)):
        if value := await holds():
            return value
        await asyncio.sleep(0.02)
    raise AssertionError(f"waited for: {what}")


def claim(name: str, count: int = 1) -> dict[str, Any]:
    requests = [{"name": "r", "exactly": {"deviceClassName": CLASS, "allocationMode": "ExactCount", "count": count}}]
    meta = {"name": name, "namespace": NS}
    return {"apiVersion": API, "kind": "ResourceClaim", "metadata": meta, "spec": {"devices": {"requests": requests}}}


def template(name: str, count: int = 1) -> dict[str, Any]:
    made = claim(name, count)
    return {**made, "kind": "ResourceClaimTemplate", "spec": {"spec": made["spec"]}}


def pod(name: str, *, claims: str = "", templates: str = "", **spec: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0, **spec}
    if claims or templates:
        source = {"resourceClaimName": claims} if claims else {"resourceClaimTemplateName": templates}
        body["resourceClaims"] = [{"name": "d", **source}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NS}, "spec": body}


async def node_of(client: Client, name: str) -> str:
    try:
        found = await client.get(Pod, name, namespace=NS)
    except StatusError:
        return ""
    return (found.spec.nodeName if found.spec else None) or ""


async def reason(client: Client, name: str) -> str:
    found = await client.get(Pod, name, namespace=NS)
    conditions = (found.status.conditions if found.status else None) or ()
    return next((c.message or "" for c in conditions if c.type == "PodScheduled" and c.status == "False"), "")


def test_a_pod_of_higher_priority_gets_the_devices_of_a_lower_one() -> None:
    async def test(client: Client) -> None:
        base = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        await client.create({**base, "metadata": {"name": "high"}, "value": 1000})
        await client.create(template("two", 2))
        for name in ("low-a", "low-b"):
            await client.create(pod(name, templates="two"))
        await until(lambda: both(client, "low-a", "low-b"), "two pods on four devices")
        await client.create(pod("urgent", templates="two", priorityClassName="high"))
        await until(lambda: node_of(client, "urgent"), "the urgent pod placed")
        left = [p.metadata.name for p in (await client.list(Pod)).items if p.metadata]
        assert sorted(left) in (["low-a", "urgent"], ["low-b", "urgent"])
        events = (await client.list(Event)).items
        assert any(e.reason == "Preempted" for e in events)

    scenario(test)


def test_a_claim_that_nobody_uses_leaves_a_device_that_drives_its_users_away() -> None:
    async def test(client: Client) -> None:
        await client.create(claim("c"))
        await client.patch(ResourceClaim, "c", {"metadata": {"finalizers": [FINALIZER]}}, namespace=NS)
        node = {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-0"]}]}]
        }
        device = {"driver": CLASS, "pool": "node-0", "device": "gpu-0"}
        allocation = {"nodeSelector": node, "devices": {"results": [{"request": "r", **device}]}}
        await client.patch(
            ResourceClaim, "c", {"status": {"allocation": allocation}}, namespace=NS, subresource="status"
        )
        taint = {"key": "bad", "effect": "NoExecute"}
        rule = {"apiVersion": API, "kind": "DeviceTaintRule", "metadata": {"name": "bad"}}
        await client.create({**rule, "spec": {"deviceSelector": device, "taint": taint}})
        await client.create(pod("p", claims="c"))
        await until(lambda: node_of(client, "p"), "the pod placed")
        found = await client.get(ResourceClaim, "c", namespace=NS)
        assert found.status is not None
        assert [each.device for each in found.status.allocation.devices.results] != ["gpu-0"]

    scenario(test)


def test_several_that_preempt_at_once_take_no_more_than_they_need() -> None:
    """Each waits for victims of its own, at the same time, and none lives on what comes free for another."""

    async def test(client: Client) -> None:
        base = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        await client.create({**base, "metadata": {"name": "high"}, "value": 1000})
        await client.create(template("one"))
        await client.create(template("two", 2))
        low = [f"low-{number}" for number in range(8)]
        for name in low:
            await client.create(pod(name, templates="one", terminationGracePeriodSeconds=1))
        await until(lambda: both(client, *low), "eight pods on eight devices")
        high = [f"high-{number}" for number in range(3)]
        for name in high:
            await client.create(pod(name, templates="two", priorityClassName="high"))
        await until(lambda: both(client, *high), "the urgent pods placed")
        left = {p.metadata.name for p in (await client.list(Pod)).items if p.metadata}
        assert len(left) == 3 + 2
        told = [e.regarding.name for e in (await client.list(Event)).items if e.reason == "Preempted" and e.regarding]
        assert sorted(told) == sorted(set(low) - left)

    scenario(test, nodes=2)


async def high_priority(client: Client, **values: int) -> None:
    for name, value in (values or {"high": 1000}).items():
        base = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        await client.create({**base, "metadata": {"name": name}, "value": value})


async def nomination(client: Client, name: str) -> str:
    found = await client.get(Pod, name, namespace=NS)
    return (found.status.nominatedNodeName if found.status else None) or ""


def test_a_pod_that_waits_is_outranked_by_one_of_higher_priority() -> None:
    """Both need the whole node. The less important one does not keep a nomination that it cannot use."""

    async def test(client: Client) -> None:
        await high_priority(client, high=1000, middle=500)
        await client.create(template("all", 4))
        await client.create(pod("low", templates="all", terminationGracePeriodSeconds=2))
        await until(lambda: node_of(client, "low"), "the pod of low priority placed")
        await client.create(pod("middle", templates="all", priorityClassName="middle"))
        await until(lambda: nomination(client, "middle"), "the nomination")
        say = "placement for pod on node node-0, preempting {} victims [waits for default/low to leave]"
        assert say.format(1) in await reason(client, "middle")
        await client.create(pod("high", templates="all", priorityClassName="high"))
        await until(lambda: nomination(client, "high"), "the other nomination")
        assert say.format(0) in await reason(client, "high")

        async def cleared() -> bool:
            return not await nomination(client, "middle")

        await until(cleared, "the first nomination cleared")
        await until(lambda: node_of(client, "high"), "the pod of high priority placed")
        assert not await node_of(client, "middle")
        evicted = [e for e in (await client.list(Event)).items if e.reason == "Preempted"]
        assert len(evicted) == 1

    scenario(test)


def test_a_pod_that_is_outranked_finds_other_victims_at_once() -> None:
    async def test(client: Client) -> None:
        await high_priority(client, high=1000, middle=500)
        await client.create(template("two", 2))
        for name in ("low-a", "low-b"):
            await client.create(pod(name, templates="two", terminationGracePeriodSeconds=600))
        await until(lambda: both(client, "low-a", "low-b"), "two pods on four devices")
        await client.create(pod("middle", templates="two", priorityClassName="middle"))
        await until(lambda: nomination(client, "middle"), "the nomination")
        await client.create(pod("high", templates="two", priorityClassName="high"))
        await until(lambda: nomination(client, "high"), "the other nomination")
        assert "preempting 0 victims" in await reason(client, "high")

        async def both_go() -> bool:
            return sum(e.reason == "Preempted" for e in (await client.list(Event)).items) == 2

        await until(both_go, "a victim for each")
        await until(lambda: both(client, "high", "middle"), "both placed")

    scenario(test)


def test_pods_that_share_a_tainted_device_move_to_another_together() -> None:
    """The first that is made anew does not keep the others, and itself, on the device that they all have to leave."""

    async def test(client: Client) -> None:
        await client.create(claim("shared"))
        body = pod("web", claims="shared", terminationGracePeriodSeconds=1)
        labels = {"app": "web"}
        spec = {"replicas": 3, "selector": {"matchLabels": labels}}
        made = {"metadata": {"labels": labels}, "spec": body["spec"]}
        meta = {"name": "web", "namespace": NS}
        await client.create(
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": {**spec, "template": made}}
        )

        async def device() -> str:
            found = await client.get(ResourceClaim, "shared", namespace=NS)
            allocation = found.status.allocation if found.status else None
            users = (found.status.reservedFor if found.status else None) or ()
            if allocation is None or allocation.devices is None or len(users) != 3:
                return ""
            return (allocation.devices.results or ())[0].device

        tainted = await until(device, "three pods on one device")
        taint = {"key": "bad", "effect": "NoExecute"}
        selector = {"driver": CLASS, "device": tainted}
        rule = {"apiVersion": API, "kind": "DeviceTaintRule", "metadata": {"name": "bad"}}
        await client.create({**rule, "spec": {"deviceSelector": selector, "taint": taint}})

        async def moved() -> bool:
            return await device() not in ("", tainted)

        await until(moved, "the three pods on another device")
        told = [e for e in (await client.list(Event)).items if e.reason == "DeviceTaintManagerEviction"]
        assert len(told) == 3

    scenario(test)


def test_a_victim_that_could_not_be_deleted_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async def test(client: Client) -> None:
        await high_priority(client)
        await client.create(template("all", 4))
        await client.create(pod("low", templates="all"))
        await until(lambda: node_of(client, "low"), "the pod of low priority placed")
        api = "admissionregistration.k8s.io/v1"
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"]}
        spec = {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "false"}],
            "failurePolicy": "Fail",
        }
        kind = "ValidatingAdmissionPolicy"
        await client.create({"apiVersion": api, "kind": kind, "metadata": {"name": "keep"}, "spec": spec})
        binding = {"policyName": "keep", "validationActions": ["Deny"]}
        await client.create(
            {"apiVersion": api, "kind": f"{kind}Binding", "metadata": {"name": "keep"}, "spec": binding}
        )

        async def refused() -> bool:
            try:
                await client.create(pod("probe"))
                await client.delete(Pod, "probe", namespace=NS)
            except StatusError as error:
                return error.code in (403, 422)
            return False

        await until(refused, "the policy in force")
        await client.create(pod("high", templates="all", priorityClassName="high"))

        async def warned() -> bool:
            return f"preempting pod {NS}/low: " in caplog.text

        await until(warned, "the deletion refused")
        await client.delete(ValidatingAdmissionPolicyBinding, "keep")
        await until(lambda: node_of(client, "high"), "the pod of high priority placed", seconds=8)

    scenario(test)


@pytest.mark.parametrize("grouped", [False, True], ids=["pod", "gang"])
def test_a_bug_in_one_attempt_stops_nobody_else(grouped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever met it holds nothing, says so, and is tried again."""
    broken = [True]
    name = "group_preemption.ongoing" if grouped else "scheduler.preempt"
    sound = ongoing if grouped else preempt

    def fails(*args: Any) -> Any:
        if broken:
            raise KeyError("bug")
        return sound(*args)

    monkeypatch.setattr(f"drakit.scheduler.{name}", fails)

    async def test(client: Client) -> None:
        await client.create(template("three", 3))
        await client.create(template("all", 4))
        names = ["p0", "p1"] if grouped else ["p0"]
        if grouped:
            await client.create(gang(2))
            for name in names:
                await client.create(gang_pod(name, "three"))
        else:
            await client.create(pod("first", templates="all"))
            await until(lambda: node_of(client, "first"), "the first pod placed")
            await client.create(pod("p0", templates="three"))

        async def told() -> bool:
            return all(["internal error: 'bug'" in await reason(client, name) for name in names])

        await until(told, "the reason")
        if grouped:
            await client.create(pod("first", templates="all"))
            await until(lambda: node_of(client, "first"), "the other pod placed")
        broken.clear()
        await until(lambda: insufficient(client, names[0]), "a true reason", seconds=5)

    scenario(test, gates=GANGS)


async def insufficient(client: Client, name: str) -> bool:
    return "cannot allocate all claims" in await reason(client, name)


async def both(client: Client, *names: str) -> bool:
    return all([await node_of(client, name) for name in names])


def test_a_gated_pod_waits_and_its_claim_too() -> None:
    async def test(client: Client) -> None:
        await client.create(claim("c"))
        await client.create(pod("gated", claims="c", schedulingGates=[{"name": "example.com/wait"}]))
        await client.create(pod("other"))
        await until(lambda: node_of(client, "other"), "the other pod placed")
        assert not await node_of(client, "gated")
        await client.patch(Pod, "gated", {"spec": {"schedulingGates": None}}, namespace=NS)
        await until(lambda: node_of(client, "gated"), "the pod placed after its gate went")

    scenario(test)


def test_an_allocation_that_nobody_needs_is_given_back_for_a_pod_elsewhere() -> None:
    async def test(client: Client) -> None:
        await client.create(claim("c"))
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-0"]}]}]
        result = {"request": "r", "driver": CLASS, "pool": "node-0", "device": "gpu-0"}
        allocation = {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": terms},
            "allocationTimestamp": "2026-01-01T00:00:00Z",
        }
        await client.patch(
            ResourceClaim, "c", {"status": {"allocation": allocation}}, namespace=NS, subresource="status"
        )
        await client.create(pod("p", claims="c", nodeSelector={"kubernetes.io/hostname": "node-1"}))
        assert await until(lambda: node_of(client, "p"), "the pod placed on the other node") == "node-1"
        found = await client.get(ResourceClaim, "c", namespace=NS)
        assert found.status is not None
        assert found.status.allocation.devices.results[0].pool == "node-1"  # type: ignore[union-attr]

    scenario(test, nodes=2)


def test_freed_devices_wake_the_pods_that_lack_them() -> None:
    async def test(client: Client) -> None:
        await client.create(template("all", 4))
        await client.create(pod("first", templates="all"))
        await until(lambda: node_of(client, "first"), "the first pod placed")
        await client.create(pod("second", templates="all"))
        text = await until(lambda: reason(client, "second"), "a reason")
        assert text.startswith("0/1 nodes are available: 1 cannot allocate all claims. preemption: ")
        await client.delete(Pod, "first", namespace=NS)
        await until(lambda: node_of(client, "second"), "the second pod placed")

    scenario(test)


def gang_pod(name: str, templates: str) -> dict[str, Any]:
    return pod(name, templates=templates, schedulingGroup={"podGroupName": "gang"})


def gang(count: int, **more: Any) -> dict[str, Any]:
    """0 for a group whose pods are placed one by one."""
    policy: dict[str, Any] = {"gang": {"minCount": count}} if count else {"basic": {}}
    meta = {"name": "gang", "namespace": NS}
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": meta,
        "spec": {"schedulingPolicy": policy, **more},
    }


GANGS = FeatureGates.parse("GenericWorkload=true,DRAWorkloadResourceClaims=true")


def test_a_gang_gets_its_devices_together_or_not_at_all() -> None:
    async def test(client: Client) -> None:
        await client.create(template("two", 2))
        await client.create(gang(3))
        for index in range(2):
            await client.create(gang_pod(f"g{index}", "two"))
        await client.create(pod("other"))
        await until(lambda: node_of(client, "other"), "an ordinary pod placed")
        assert not await reason(client, "g0")  # too few of them: not even tried
        await client.create(gang_pod("g2", "two"))  # six devices wanted, four there
        await until(lambda: reason(client, "g0"), "the gang's reason")
        claims = (await client.list(ResourceClaim)).items
        assert len(claims) == 3
        assert not any(c.status and c.status.allocation for c in claims)
        assert not [await node_of(client, f"g{i}") for i in range(3) if await node_of(client, f"g{i}")]
        group = await client.get(PodGroup, "gang", namespace=NS)
        assert group.status is not None
        assert [(c.type, c.status) for c in group.status.conditions or ()] == [("PodGroupInitiallyScheduled", "False")]
        text = (group.status.conditions or ())[0].message or ""
        assert text.startswith("minCount (3) cannot be satisfied: 2 scheduled, 0 remaining, pod group preemption: No ")

    scenario(test, gates=GANGS)


@pytest.mark.parametrize(("count", "left"), [(2, 0), (3, 4)])
def test_a_gang_preempts_for_all_of_its_pods_or_for_none(count: int, left: int) -> None:
    """Four devices, each held by a pod of low priority, and two wanted by each pod of the gang."""

    async def test(client: Client) -> None:
        base = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        await client.create({**base, "metadata": {"name": "high"}, "value": 1000})
        await client.create(template("one"))
        await client.create(template("two", 2))
        low = [f"low-{number}" for number in range(4)]
        for name in low:
            await client.create(pod(name, templates="one", terminationGracePeriodSeconds=1))
        await until(lambda: both(client, *low), "four pods on four devices")
        await client.create(gang(count, priorityClassName="high"))
        high = [f"g{index}" for index in range(count)]
        for name in high:
            body = gang_pod(name, "two")
            body["spec"]["priorityClassName"] = "high"
            await client.create(body)
        if left:
            await until(lambda: reason(client, high[0]), "the gang's reason")
            await asyncio.sleep(0.3)
            _, text = await group_condition(client)
            released = "deallocation and deletion of ResourceClaims completed"
            assert f" remaining, {released}, pod group preemption: minCount (3) cannot be satisfied" in text
        else:
            await until(lambda: both(client, *high), "the gang placed")
            notes = [e.note or "" for e in (await client.list(Event)).items if e.reason == "FailedScheduling"]
            everyone = ", ".join(f"default/{name}" for name in low)
            said = f"[waits for {everyone} to leave]"
            assert any(said in note for note in notes), notes
        names = {p.metadata.name for p in (await client.list(Pod)).items if p.metadata}
        assert len(names & set(low)) == left
        assert await both(client, *high) is not bool(left)

    scenario(test, gates=GANGS)


def test_a_gang_that_fits_is_placed_whole() -> None:
    async def test(client: Client) -> None:
        await client.create(template("two", 2))
        for index in range(2):
            await client.create(gang_pod(f"g{index}", "two"))
        await client.create(gang(2))  # the group may come after its pods
        await until(lambda: both(client, "g0", "g1"), "both placed")

        async def told() -> bool:
            group = await client.get(PodGroup, "gang", namespace=NS)
            return bool(group.status and any(c.status == "True" for c in group.status.conditions or ()))

        await until(told, "the group's condition")

    scenario(test, gates=GANGS)


async def group_condition(client: Client) -> tuple[str, str]:
    group = await client.get(PodGroup, "gang", namespace=NS)
    found = next(iter((group.status.conditions if group.status else None) or ()), None)
    return (found.reason or "", found.message or "") if found is not None else ("", "")


def test_a_basic_group_places_what_fits() -> None:
    async def test(client: Client) -> None:
        await client.create(template("two", 2))
        await client.create(gang(0))
        for index in range(3):  # six devices wanted, four there
            await client.create(gang_pod(f"g{index}", "two"))

        async def placed() -> int:
            return sum([bool(await node_of(client, f"g{index}")) for index in range(3)])

        async def two_placed_one_told() -> bool:
            told = [bool(await reason(client, f"g{index}")) for index in range(3)]
            return await placed() == 2 and any(told)

        await until(two_placed_one_told, "two pods placed, the third told why not")

    scenario(test, gates=GANGS)


def test_a_group_whose_pods_have_another_priority_is_an_error() -> None:
    async def test(client: Client) -> None:
        base = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        await client.create({**base, "metadata": {"name": "high"}, "value": 1000})
        await client.create(gang(1))
        body = pod("g0", schedulingGroup={"podGroupName": "gang"})
        body["spec"]["priorityClassName"] = "high"
        await client.create(body)

        async def told() -> bool:
            return (await group_condition(client))[0] == "SchedulerError"

        await until(told, "the group's condition")
        _, text = await group_condition(client)
        alike = "all pods in a single pod group should have the same priority as the pod group's priority"
        assert text == f"{alike}, got 1000 and 0"
        assert not await node_of(client, "g0")

    scenario(test, gates=GANGS)


def test_a_group_that_is_disrupted_only_whole_is_preempted_whole() -> None:
    """Two pods of the group hold a device each, two other pods the rest; one device would do."""

    async def test(client: Client) -> None:
        base = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        for name, value in (("high", 1000), ("middle", 500)):
            await client.create({**base, "metadata": {"name": name}, "value": value})
        await client.create(template("one"))
        await client.create(gang(2, disruptionMode={"all": {}}))
        for name in ("g0", "g1"):
            body = gang_pod(name, "one")
            body["spec"]["terminationGracePeriodSeconds"] = 1
            await client.create(body)
        await until(lambda: both(client, "g0", "g1"), "the group placed")
        for name in ("m0", "m1"):
            await client.create(pod(name, templates="one", priorityClassName="middle"))
        await until(lambda: both(client, "m0", "m1"), "all devices taken")
        await client.create(pod("p", templates="one", priorityClassName="high"))
        await until(lambda: node_of(client, "p"), "the pod of high priority placed")
        names = {each.metadata.name for each in (await client.list(Pod)).items if each.metadata}
        assert names == {"m0", "m1", "p"}

    scenario(test, gates=GANGS)


def test_binding_waits_for_the_driver_and_nobody_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drakit.scheduler.cycle.BINDINGS", 1)

    async def test(client: Client) -> None:
        slice_ = {
            "apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": "fabric"},
            "spec": {
                "driver": "fabric.example.com", "allNodes": True,
                "pool": {"name": "fabric", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "d", "bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"]}],
            },
        }  # fmt: skip
        await client.create(slice_)
        selectors = [{"cel": {"expression": 'device.driver == "fabric.example.com"'}}]
        await client.create(
            {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": "fabric"}, "spec": {"selectors": selectors}}
        )
        made = claim("c")
        made["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "fabric"
        await client.create(made)
        await client.create(pod("p", claims="c"))

        async def reserved() -> bool:
            found = await client.get(ResourceClaim, "c", namespace=NS)
            return bool(found.status and found.status.reservedFor)

        await until(reserved, "the claim reserved")
        await client.create(pod("other"))
        await until(lambda: node_of(client, "other"), "the other pod bound")
        assert not await node_of(client, "p")
        condition = {
            "type": "Attached",
            "status": "True",
            "reason": "R",
            "message": "M",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        device = {"driver": "fabric.example.com", "pool": "fabric", "device": "d", "conditions": [condition]}
        await client.patch(ResourceClaim, "c", {"status": {"devices": [device]}}, namespace=NS, subresource="status")
        await until(lambda: node_of(client, "p"), "the pod bound")

    scenario(test)


def test_what_a_killed_scheduler_left_of_an_extended_resource_is_taken_away_and_the_pod_placed() -> None:
    """The claim was made, but not yet allocated: its end frees no device, yet the pod waited for it."""

    async def test(client: Client) -> None:
        asked = {"limits": {f"deviceclass.resource.kubernetes.io/{CLASS}": "1"}}
        gated = pod("p", schedulingGates=[{"name": "example.com/wait"}])
        gated["spec"]["containers"][0]["resources"] = asked
        created = await client.create(gated)
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": created.metadata.uid, "controller": True}
        left = claim("left")
        left["metadata"] |= {
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "finalizers": ["resource.kubernetes.io/delete-protection"],
            "ownerReferences": [owner],
        }
        await client.create(left)
        await client.patch(Pod, "p", {"spec": {"schedulingGates": None}}, namespace=NS)
        await until(lambda: node_of(client, "p"), "the pod placed")
        names = [c.metadata.name for c in (await client.list(ResourceClaim)).items if c.metadata]
        assert len(names) == 1
        assert names[0].startswith("p-extended-resources-")

    scenario(test)


@pytest.mark.parametrize("rules", [True, False])
def test_taint_rules_count_while_their_gate_is_open(rules: bool) -> None:
    async def test(client: Client) -> None:
        taint = {"key": "example.com/bad", "effect": "NoSchedule"}
        spec = {"deviceSelector": {"driver": CLASS}, "taint": taint}
        await client.create({"apiVersion": API, "kind": "DeviceTaintRule", "metadata": {"name": "r"}, "spec": spec})
        await client.create(claim("c"))
        await client.create(pod("p", claims="c"))
        if rules:
            assert "cannot allocate" in await until(lambda: reason(client, "p"), "the refusal")
        else:
            await until(lambda: node_of(client, "p"), "the pod placed")

    scenario(test, gates=FeatureGates.parse(f"DRADeviceTaintRules={str(rules).lower()}"))


def test_nothing_is_kept_of_namespaces_that_came_and_went() -> None:
    async def main() -> None:
        async with Cluster(Options(listen=False, nodes=1)) as cluster:
            assert cluster.scheduler is not None
            known = cluster.scheduler.state.namespaces

            async def knows(name: str) -> bool:
                return name in known

            async def gone(name: str) -> bool:
                return name not in known

            await cluster.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "guest"}})
            await until(lambda: knows("guest"), "the namespace known")
            await cluster.admin.delete(Namespace, "guest")
            await until(lambda: gone("guest"), "the namespace forgotten")

    asyncio.run(main())
